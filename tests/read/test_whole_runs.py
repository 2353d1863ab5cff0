"""Sources that state the time of a whole training alone: a run of one averaged record."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from limits import limits
from stored_runs import text_of

from tprimat import read
from tprimat.analysis.run_account import account_of
from tprimat.analysis.summary import summarize
from tprimat.compare import compare
from tprimat.errors import UnreadableError
from tprimat.log_import.load import load
from tprimat.read.hf_trainer import fields
from tprimat.read.parsing import text
from tprimat.read.parsing.parsed_log import InputFile

CASES = Path(__file__).parents[3] / "shared" / "cases" / "4"
OUTPUT = (
    "TrainOutput(global_step={steps}, training_loss=1.8, metrics={{'train_runtime': {seconds},"
    " 'train_samples_per_second': {samples}, 'train_steps_per_second': {rate},"
    " 'total_flos': {flops}, 'train_loss': 1.8, 'epoch': 1.0}})\n"
)
BLOCK = """***** train metrics *****
  epoch                    =        1.0
  total_flos               =       12GF
  train_loss               =     2.1013
  train_runtime            = {runtime}
  train_samples            =       1600
  train_samples_per_second =      {samples}
  train_steps_per_second   =      {rate}
"""


def run_of(content):
    (run,) = read.read(text.lines([content.encode()]), "a log")
    return run


def output(steps=180, seconds=361.8, samples=3.98, rate=0.498, flops=1.2e16):
    return OUTPUT.format(steps=steps, seconds=seconds, samples=samples, rate=rate, flops=flops)


def averaged(run):
    """Steps, windows and times of a run's records, and whether a note calls them a mean."""
    return run.steps, run.window_steps, run.step_times, bool(run.told("whole-run-mean"))


def test_the_output_of_a_notebook():
    run = run_of(output())
    assert averaged(run) == ((180,), (180,), (pytest.approx(2.01),), True)
    assert (run.status, run.lines) == ("complete", (1,))
    assert run.training_config.global_batch_size == 8
    assert "global batch size (8) follows" in run.told("size-follows")[0]
    assert "start-up, evaluation and saving" in (run.timing.covers or "")


def test_a_batch_that_is_not_whole_does_not_follow():
    run = run_of(output(samples=3.73))
    assert (run.training_config.global_batch_size, run.told("size-follows")) == (None, ())


@pytest.mark.parametrize(
    ("runtime", "seconds"), [("0:04:10.00", 250), ("1 day, 0:04:10.50", 86650.5), ("250.0", 250)]
)
def test_the_block_of_train_metrics(runtime, seconds):
    rate = 100 / seconds if seconds < 1000 else 0.5
    run = run_of(BLOCK.format(runtime=runtime, samples=8 * rate, rate=round(rate, 3)))
    steps = round(seconds * rate)
    assert averaged(run) == ((steps,), (steps,), (pytest.approx(seconds / steps),), True)


def test_the_block_repeats_what_a_dictionary_says():
    end = "{'train_runtime': 250.0, 'train_steps_per_second': 0.4, 'epoch': 1.0}\n"
    run = run_of(end + BLOCK.format(runtime="0:04:10.00", samples=3.2, rate=0.4))
    assert averaged(run)[0] == (100,)
    assert not any("printed 2 times" in note for note in run.warnings)


def test_records_without_times_keep_their_windows():
    records = "".join(
        f"{{'loss': {3 - step / 100}, 'learning_rate': 1e-05, 'step': {step}}}\n"
        for step in range(10, 181, 10)
    )
    run = run_of(records + output())
    assert (run.window_steps, set(run.step_times)) == ((10,) * 18, {None})
    summary = summarize(run)
    assert (summary.clock, summary.performance.avg_step_time_seconds) == (
        "blocks",
        pytest.approx(2.01),
    )
    assert (len(run.told("whole-run-mean")), run.told("no-step-times")) == (1, ())


def test_known_evaluations_are_no_part_of_the_mean():
    history = [
        {"step": step, "epoch": step / 100, "loss": 1.0, "learning_rate": 1e-5}
        for step in range(10, 101, 10)
    ]
    evaluation = {"step": 50, "epoch": 0.5, "eval_loss": 1.1, "eval_runtime": 30.0}
    history.insert(5, evaluation)
    history.append({"step": 100, "epoch": 1.0, "train_runtime": 64.0})
    state = {"global_step": 100, "max_steps": 100, "log_history": history}
    (run,) = load_one(json.dumps(state))
    assert summarize(run).performance.avg_step_time_seconds == pytest.approx(0.34)
    assert run.told("whole-run-mean")[0].endswith("including start-up and saving")
    assert account_of(run).whole == pytest.approx(64.0)
    evaluation["eval_runtime"] = 64.0
    (run,) = load_one(json.dumps(state))
    assert run.told("whole-run-mean") == ()


def load_one(content):
    file_format = read.file_format_of(content.encode()[: read.HEAD])
    return [
        parsed.run()
        for parsed in file_format.read([InputFile("x", io.BytesIO(content.encode()))], {})
    ]


def final(**more):
    entry = {"current_steps": 400, "total_steps": 400, "epoch": 2.0, "percentage": 100.0}
    return json.dumps({**entry, "elapsed_time": "0:33:20", "remaining_time": "0:00:00", **more})


def test_the_last_line_of_llama_factory():
    run = run_of(final(throughput=3276.8, total_tokens=6553600))
    assert averaged(run) == ((400,), (400,), (5.0,), True)
    assert (run.status, summarize(run).performance.tokens_per_second) == ("complete", 3276.8)


@pytest.mark.parametrize(
    "line",
    [
        # A prediction's batches, an evaluation, and a training that goes on.
        final().replace('"epoch": 2.0, ', ""),
        final(eval_loss=1.9),
        final(total_steps=500),
    ],
)
def test_what_is_no_last_line_of_a_training(line):
    with pytest.raises(UnreadableError):
        run_of(line)


@limits(
    (
        "steps/s with three decimals",
        lambda rate: fields.whole_run(
            {"train_runtime_seconds": 2000.0, "train_steps_per_second": rate}, None
        ),
        (0.049, None),
        (0.050, fields.WholeRun(100, 100, 20.0)),
    )
)
def test_limits_of_whole_runs(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("b_23_hf_notebook_output.txt", 2.01),
        ("b_23_hf_notebook_output_b.txt", 10.05),
        ("b_30_hf_train_metrics_block.log", 2.5),
        ("b_33_llamafactory_final_only.jsonl", 5.0),
    ],
)
def test_the_cases(name, seconds):
    if not (CASES / name).is_file():
        pytest.skip("the directory of cases does not lie beside this clone")
    (run,) = read.read(text.lines([(CASES / name).read_bytes()]), name)
    assert averaged(run)[2:] == ((pytest.approx(seconds),), True)


class TestCompared:
    def pair(self, tmp_path, *outputs):
        for number, each in enumerate(outputs, 1):
            (tmp_path / f"{number}.txt").write_text(each)
        (model,) = compare(load([str(tmp_path)]).files).models
        return model.groups[0]

    def test_two_outputs_with_equal_flops_are_compared(self, tmp_path):
        slow = output(seconds=1809.0, samples=0.796, rate=0.1)
        group = self.pair(tmp_path, output(), slow)
        (pair,) = group.pairs
        assert pair.ratio.value == pytest.approx(5.0)
        texts = {caveat.code: text_of(caveat) for caveat in group.caveats}
        assert "only the mean of the whole run is known" in texts["time-in-doubt"]
        assert "equal FLOPs of a step" in texts["model-source"]

    def test_other_flops_are_of_another_model(self, tmp_path):
        slow = output(seconds=1809.0, samples=0.796, rate=0.1, flops=1.3e16)
        (pair,) = self.pair(tmp_path, output(), slow).pairs
        assert (pair.ratio, text_of(pair)) == (
            None,
            "the results don't say which model was trained",
        )
