"""Formats of fine-tuning, of reinforcement learning and of trackers: what is read of each."""

from __future__ import annotations

import json
import random
from pathlib import Path

import made_logs
import msgspec
import pytest

from tprimat import read
from tprimat.cli import run
from tprimat.errors import UnreadableError
from tprimat.log_import import sources
from tprimat.log_import.given import GivenValues
from tprimat.read import merge
from tprimat.read.parsing import text
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.results.run import Run
from tprimat.store import store


def runs(content, tmp_path, name="a.log"):
    """As a command reads a file."""
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    found = sources.log_sources([str(path)])[0]
    outcome = sources.read_source(found[0])
    assert isinstance(outcome, list), outcome
    return [each.run for each in outcome]


def only(content, tmp_path):
    (run,) = runs(content, tmp_path)
    return run


def test_llama_factory(tmp_path):
    run = only(made_logs.LLAMA_FACTORY, tmp_path)
    assert (run.framework, run.status, run.steps[-1]) == ("llama_factory", "complete", 300)
    assert set(run.step_times) == {5.0}
    assert set(run.window_steps) == {10}
    assert run.loss_values[0] == pytest.approx(1.99)
    # The mean since the start, of all GPUs.
    assert run.native_metrics["mean_tokens_per_second"][0] == 4021.5
    assert any("whole seconds" in warning for warning in run.warnings)


@pytest.mark.parametrize("step", ["global_step/max_steps", "iteration"])
def test_ms_swift(tmp_path, step):
    run = only(made_logs.MS_SWIFT.replace("global_step/max_steps", step), tmp_path)
    assert (run.framework, run.status, run.steps[-1]) == ("ms_swift", "complete", 150)
    assert set(run.step_times) == {5.0}
    assert run.memory_metrics.peak_memory_reserved_gb == pytest.approx(32.212, abs=1e-3)


def test_ms_swift_counts_days(tmp_path):
    content = made_logs.MS_SWIFT.splitlines()[0].replace("0m 25s", "1d 2h 0m 10s")
    assert only(content, tmp_path).step_times == (pytest.approx(93_610 / 5),)


def test_verl(tmp_path):
    run = only(made_logs.VERL, tmp_path)
    assert (run.framework, run.training_config.num_gpus) == ("verl", 8)
    assert run.step_times[0] == 40.01
    assert run.breakdown == pytest.approx({"gen": 20.5, "update_actor": 10.1})
    assert run.memory_metrics.peak_memory_allocated_gb == pytest.approx(42.95, abs=1e-2)
    # The loss of the policy isn't that of a language model.
    assert set(run.loss_values) == {None}
    assert run.native_metrics["policy_loss"][0] == 0.01


def test_verl_fine_tuning(tmp_path):
    run = only(made_logs.VERL_SFT, tmp_path)
    assert run.step_times[:2] == (3.201, 3.202)
    assert run.learning_rates[0] == pytest.approx(1e-5)


def test_verl_with_values_of_numpy(tmp_path):
    run = only(made_logs.VERL_NUMPY, tmp_path)
    assert run.grad_norms[0] == 3.804414212703705
    assert run.learning_rates[0] == 1e-06
    assert run.memory_metrics.peak_memory_allocated_gb == pytest.approx(22.296, abs=1e-3)
    assert run.native_metrics["policy_loss"][0] == -0.0006611689302644663
    assert (run.step_times[0], run.training_config.num_gpus) == (50.01, 1)
    assert run.status_reason.startswith("log ends at step 30 of 435")


def test_verl_fine_tuning_without_times(tmp_path):
    run = only(made_logs.VERL_SFT_UNTIMED, tmp_path)
    assert (run.loss_values[0], run.learning_rates[0], run.grad_norms[0]) == (1.201, 1e-05, 0.5)
    assert run.native_metrics["tokens_per_step"][0] == 65536
    assert any("this fine-tuning prints none" in warning for warning in run.warnings)


def test_nemo_rl(tmp_path):
    run = only(made_logs.NEMO_RL, tmp_path)
    assert (run.framework, run.status, run.training_config.num_gpus) == ("nemo_rl", "complete", 8)
    assert run.step_times[:2] == (57.01, 57.02)
    assert run.breakdown == pytest.approx({"generation": 30.25, "policy_training": 12.1})
    assert run.native_metrics["reward"][0] == 0.5


def test_the_loss_of_a_policy_is_none_of_a_language_model(tmp_path):
    run = only(made_logs.NEMO_RL, tmp_path)
    assert (run.loss_values[0], run.native_metrics["policy_loss"][0]) == (None, 0.0101)
    run = only(made_logs.TRL, tmp_path)
    assert (run.loss_values[0], run.native_metrics["policy_loss"][0]) == (None, 0.01)


def test_nemo_rl_counts_steps_anew_in_each_epoch(tmp_path):
    run = only(made_logs.NEMO_RL_EPOCHS, tmp_path)
    assert (run.steps, run.status) == (tuple(range(1, 26)), "complete")
    assert (run.step_times[9:11], run.loss_values[-1]) == ((5.110, 5.201), 1.305)


def test_trl(tmp_path):
    run = only(made_logs.TRL, tmp_path)
    assert run.step_times[:2] == (12.01, 12.02)
    assert "training_step" in run.timing.covers
    assert run.native_metrics["reward"][0] == 0.4
    assert run.native_metrics["tokens_seen"][1] == 24680


def test_a_step_time_that_ms_swift_contradicts_is_none(tmp_path):
    """Of a resumed training the mean speed covers fewer steps than the number says."""
    line = (
        "{{'loss': 0.0, 'grad_norm': 0.1, 'learning_rate': 1e-06, 'step_time': 1.58, 'epoch': 0.1, "
        "'global_step/max_steps': '{}/100', 'elapsed_time': '{}s', 'train_speed(s/it)': 3.2}}\n"
    )
    run = only("".join(line.format(50 + step, int(3.2 * step)) for step in range(1, 10)), tmp_path)
    assert set(run.step_times) == {None}


def test_ms_swift_with_its_mean_speed(tmp_path):
    """Whole seconds between two records of 9.75 s would be 9 and 10."""
    run = only(made_logs.MS_SWIFT_EXACT, tmp_path)
    assert run.step_times == pytest.approx((1.95,) * 30, abs=1e-3)
    assert not any("whole seconds" in warning for warning in run.warnings)
    console = only(made_logs.MS_SWIFT_EXACT.replace('"', "'"), tmp_path)
    assert console.step_times == pytest.approx((1.95,) * 30, abs=1e-3)


def test_processes_of_unsloth(tmp_path):
    run = only(made_logs.UNSLOTH_DATA_PARALLEL, tmp_path)
    config = run.training_config
    assert (config.num_gpus, config.global_batch_size, run.gpu_info.device_name) == (
        8,
        64,
        "NVIDIA L4",
    )


def test_the_banner_of_unsloth(tmp_path):
    found = only(made_logs.UNSLOTH, tmp_path)
    assert (found.status, found.steps[-1], found.gpu_info.device_name) == (
        "complete",
        30,
        "NVIDIA L4",
    )
    config = found.training_config
    assert (config.num_gpus, config.micro_batch_size, config.global_batch_size) == (1, 2, 8)
    assert found.model_config.trainable_parameters == 41_943_040


def test_llm_c(tmp_path):
    run = only(made_logs.LLM_C, tmp_path)
    assert (run.framework, run.status, run.gpu_info.device_name) == (
        "nanogpt",
        "complete",
        "NVIDIA H100 80GB HBM3",
    )
    config = run.training_config
    assert (config.global_batch_size, config.sequence_length, config.num_gpus) == (512, 1024, 8)
    assert (config.precision, run.model_config.num_layers, run.model_config.hidden_size) == (
        "bf16",
        12,
        768,
    )
    assert (run.step_times[0], run.grad_norms[0]) == (pytest.approx(0.32801), 15.419)
    assert not any("assumes an A100" in warning for warning in run.warnings)


@pytest.mark.parametrize(
    ("log", "seconds", "loss", "planned"),
    [
        (made_logs.LLM_C_PYTHON, 0.32801, 10.9, 30),
        (made_logs.LLM_C_FP32, 0.08063014, 4.9, 30),
        (made_logs.LLM_C_CPU, 1.4521, 5.0, None),
    ],
)
def test_llm_c_in_python_in_fp32_and_on_a_cpu(tmp_path, log, seconds, loss, planned):
    run = only(log, tmp_path)
    assert (run.framework, run.steps[0], run.steps[-1]) == ("nanogpt", 1, 30)
    assert (run.step_times[0], run.loss_values[0]) == (pytest.approx(seconds, rel=1e-4), loss)
    assert run.training_config.max_steps == planned


def test_build_nanogpt(tmp_path):
    run = only(made_logs.BUILD_NANOGPT, tmp_path)
    assert (run.steps[0], run.step_times[0]) == (1, pytest.approx(0.26001))
    assert run.learning_rates[0] == 8.3916e-07


def test_the_history_of_a_wandb_run(tmp_path):
    run = only(made_logs.WANDB_HISTORY, tmp_path)
    assert (run.framework, run.steps[0], run.steps[-1]) == ("wandb", 1, 30)
    # When the training began isn't known.
    assert run.step_times[0] is None
    assert set(run.step_times[1:]) == {1.5}


def test_a_time_of_its_own_goes_before_wandbs(tmp_path):
    head, *rows = made_logs.WANDB_HISTORY.splitlines()
    content = "\n".join([f"{head},train/step_time", *(f"{row},0.7" for row in rows), ""])
    assert set(only(content, tmp_path).step_times) == {0.7}


def test_a_chart_of_wandb_has_a_training_for_each_run(tmp_path):
    first, second = runs(made_logs.WANDB_CHART, tmp_path)
    assert (first.label, second.label) == ("h100", "mi300x")
    assert (set(first.step_times), set(second.step_times)) == ({0.52}, {0.62})


@pytest.mark.parametrize("name", ["perf/step_time", "perf/step_time_seconds", "train/step_time"])
def test_names_of_a_step_time_in_a_chart(tmp_path, name):
    columns = [
        f"{run} - {name}{end}"
        for run in ("h100", "mi300x - rerun")
        for end in ("", "__MIN", "__MAX")
    ]
    rows = [[step, *[2.35] * 3, *[2.59] * 3] for step in range(1, 31)]
    content = "\n".join(
        ",".join(f'"{cell}"' for cell in row) for row in (["Step", *columns], *rows)
    )
    found = [(run.label, set(run.step_times)) for run in runs(content, tmp_path, "chart.csv")]
    assert found == [("h100", {2.35}), ("mi300x - rerun", {2.59})]


def test_a_chart_of_another_metric_says_what_is_read(tmp_path):
    path = tmp_path / "chart.csv"
    path.write_text(
        '"Step","a - gpu","a - gpu__MIN","a - gpu__MAX"\n"1","2","2","2"\n', encoding="utf-8"
    )
    reason, *_ = sources.read_source(sources.log_sources([str(path)])[0][0])
    assert "such as train/loss or perf/step_time" in reason
    assert "--columns step=COLUMN,time=COLUMN" in reason


def test_a_chart_over_another_axis_has_the_step_of_each_run(tmp_path):
    titles = [
        f"{name} - {metric}{end}"
        for name in ("Group: a", "b")
        for metric in ("_step", "train/step_time")
        for end in ("", "__MIN", "__MAX")
    ]
    head = ",".join(f'"{title}"' for title in ("Relative Time (Process)", *titles))
    rows = [
        f"{0.5 * step},{step},{step},{step},0.52,0.5,0.54,{2 * step},{2 * step},{2 * step},0.62,0.62,0.62"
        for step in range(1, 20)
    ]
    first, second = runs("\n".join([head, *rows]), tmp_path)
    assert (first.label, first.steps[:2], set(first.step_times)) == ("Group: a", (1, 2), {0.52})
    assert (second.label, second.steps[:2], set(second.step_times)) == ("b", (2, 4), {0.62})
    assert "values are means over the runs of a W&B group" in first.warnings
    path = tmp_path / "epochs.csv"
    path.write_text(
        "epoch,"
        + ",".join(f'"a - train/loss{end}"' for end in ("", "__MIN", "__MAX"))
        + "\n1,2,2,2\n",
        encoding="utf-8",
    )
    (source,) = sources.log_sources([str(path)])[0]
    assert "or there are no steps (x axis: epoch)" in sources.read_source(source)[0]


def test_a_chart_of_a_metric_with_a_dash(tmp_path):
    content = made_logs.WANDB_CHART.replace("train/step_time", "iteration-time")
    assert [set(each.step_times) for each in runs(content, tmp_path)] == [{0.52}, {0.62}]


def test_a_training_that_begins_anew_is_another_one(tmp_path, monkeypatch):
    head, *rows = made_logs.WANDB_HISTORY.splitlines()
    first, second = runs(
        "\n".join(
            [
                f"{head},train/step_time",
                *(f"{row},0.7" for row in rows),
                *(f"{row},0.9" for row in rows),
                "",
            ]
        ),
        tmp_path,
    )
    assert (set(first.step_times), set(second.step_times)) == ({0.7}, {0.9})
    monkeypatch.chdir(tmp_path)
    table = "step,time\n" + "".join(
        f"{step},{time}\n" for time in (0.5, 0.9) for step in range(1, 20)
    )
    Path("table.csv").write_text(table, encoding="utf-8")
    assert (
        run("read", ["table.csv", "--columns", "step=step,time=time", "--output-dir", "again"]) == 0
    )
    times = [
        set(each.step_times)
        for path in sorted(Path("again").glob("*.json"))
        for each in store.read(path)
    ]
    assert times == [{0.5}, {0.9}]


def test_times_of_a_training_that_begins_anew_or_goes_on(tmp_path):
    """No time before a training's first record is one of its steps'."""
    head, *rows = made_logs.WANDB_HISTORY.splitlines()
    later = [
        f"{int(step)},{float(runtime) + 5000}," + rest
        for step, runtime, rest in (row.split(",", 2) for row in rows)
    ]
    _, second = runs("\n".join([head, *rows, *later]), tmp_path)
    assert (second.step_times[0], set(second.step_times[1:])) == (None, {1.5})
    resumed = "".join(line for line in made_logs.LLAMA_FACTORY.splitlines(True)[1:])
    resumed = resumed.replace('"current_steps": ', '"current_steps": 50')
    found = only(resumed, tmp_path)
    assert found.step_times[0] is None
    assert found.step_times[1] == 5.0
    assert found.window_steps[:2] == (10, 10)


def test_a_chart_of_losses_says_what_is_missing(tmp_path):
    (run,) = runs(
        '"Step","a - train/loss","a - train/loss__MIN","a - train/loss__MAX"\n"1","2","2","2"\n',
        tmp_path,
    )
    assert any("export a chart of the step time" in warning for warning in run.warnings)


@pytest.mark.parametrize("inner", [1, 2])
def test_another_format_in_a_log_leaves_where_a_training_goes_on_and_began(inner):
    def logs(many: int) -> list[ParsedLog]:
        return [
            ParsedLog(9, {}, (), lambda given: Run(framework="megatron"), 40, (7.0, True))
        ] * many

    (found,) = merge.merge_logs([("megatron", logs(1)), ("deepspeed", logs(inner))])
    assert (found.resumed, found.began) == (40, (7.0, True))


class TestUnknown:
    def test_what_looked_like_a_step(self):
        lines = text.lines(
            [b"starting\nstep= 4 loss= 2.31 memory= 31 GiB tps= 7,034 tflops= 407\n"]
        )
        with pytest.raises(UnreadableError) as raised:
            read.parse_lines(lines, "my.log")
        problem = raised.value.message
        assert (
            "line 2 looks like a step, “step= 4 loss= 2.31 memory= 31 GiB tps= 7,034 tflops= 407”"
            in problem
        )

    @pytest.mark.parametrize(
        ("content", "columns"),
        [
            ("iteration,step_time_s,nll\n1,0.5,2.3\n", "step=iteration,time=step_time_s,loss=nll"),
            ("n,t,nll\n1,0.5,2.3\n", "step=COLUMN,time=COLUMN"),
            (
                '{"iteration": 1, "m": {"step time": 0.5}, "x": 2}\n',
                "'step=iteration,time=m.step time'",
            ),
            ("iteration,step_time_s\n1,fast\n", None),
            ('{"iteration": 1, "host": "a"}\n', None),
            ("iteration,step_time_s,nll\n1,0.5\n", None),
            ("epoch 3, batch 5\nppl 12.1, fine\n", None),
        ],
    )
    def test_a_table_is_told_which_columns_to_name(self, content, columns):
        with pytest.raises(UnreadableError) as raised:
            read.parse_lines(text.lines([content.encode()]), "my.log")
        assert raised.value.hint is not None
        named = f"tprimat read --columns {columns} reads this table"
        assert (raised.value.hint == named) is (columns is not None)
        assert "--columns" in raised.value.hint

    @pytest.mark.parametrize(
        ("name", "line", "problem"),
        [
            ("my.log", "$ python3 train.py --steps 3 --batch 4", "no supported training log in it"),
            (
                "a.txt",
                "At step 3 of the stairs I stopped, the loss was great: 3 of us went",
                "no supported training log in it",
            ),
            ("train.py", "steps, loss = 3, 4", "is a program, not a log"),
            ("train.sh", "python3 train.py --steps 3 --batch 4", "is a program, not a log"),
        ],
    )
    def test_commands_and_programs_are_no_steps(self, name, line, problem):
        with pytest.raises(UnreadableError) as raised:
            read.parse_lines(text.lines([line.encode()]), name)
        assert problem in raised.value.message
        assert "looks like a step" not in raised.value.message

    @pytest.mark.parametrize(
        ("begins", "is_binary"), [(b"\x89PNG\x1a", True), ("größe\x1b[0m".encode("latin-1"), False)]
    )
    def test_a_binary_file_is_named_as_one(self, begins, is_binary):
        with pytest.raises(UnreadableError, match="no supported training log in it") as raised:
            read.parse_lines(text.lines([begins]), "cat")
        assert ("a binary file, such as an image" in raised.value.message) is is_binary

    def test_nothing_like_a_step(self):
        with pytest.raises(UnreadableError) as raised:
            read.parse_lines(text.lines([b"hello\nworld 1 2\n"]), "my.log")
        assert "looks like" not in raised.value.message


@pytest.mark.parametrize("name", made_logs.LOGS)
def test_damage_ends_in_no_other_error(name, tmp_path):
    rng = random.Random(7)
    for number in range(15):
        content = list(made_logs.LOGS[name])
        for _ in range(rng.randint(1, 30)):
            content[rng.randrange(len(content))] = rng.choice(
                '0123456789|:./-e \n\r[]{}",ainfN\x00'
            )
        path = tmp_path / f"{number}.log"
        path.write_text("".join(content), encoding="utf-8")
        found = sources.log_sources([str(path)])[0]
        if not found:
            continue
        outcome = sources.read_source(found[0])
        assert isinstance(outcome, tuple) or all(
            each.run.steps or each.run.status_reason for each in outcome
        )


def table_of(header: str, row: str, mark: str = ".") -> str:
    return header + "".join(
        row.format(step, f"{7 - step / 20:.2f}".replace(".", mark)) for step in range(1, 26)
    )


class TestColumns:
    """Any table, with columns that the user names."""

    CSV = "iteration,wall,nll,note\n" + "".join(
        f"{step},0.5,{3 - step / 10},x\n" for step in range(25)
    )

    def read(self, content, tmp_path, monkeypatch, columns):
        monkeypatch.chdir(tmp_path)
        Path("table.csv").write_text(content, encoding="utf-8")
        return run("read", ["table.csv", "--columns", columns])

    def test_csv(self, tmp_path, monkeypatch):
        assert self.read(self.CSV, tmp_path, monkeypatch, "step=iteration,time=wall,loss=nll") == 0
        (found,) = store.read(Path("output/train_own_model.json"))
        assert (found.steps[0], found.steps[-1], set(found.step_times)) == (1, 25, {0.5})
        assert found.loss_values[1] == 2.9

    @pytest.mark.parametrize(("depth", "status"), [(9, 0), (10, 2)])
    def test_json_lines_are_nested_nine_deep_at_most(self, depth, status, tmp_path, monkeypatch):
        def nested(step):
            value = 250.0
            for _ in range(depth):
                value = {"a": value}
            return {"i": step, "perf": value["a"]}

        content = "".join(json.dumps(nested(step)) + "\n" for step in range(1, 9))
        column = ".".join(["perf", *"a" * (depth - 1)])
        assert self.read(content, tmp_path, monkeypatch, f"step=i,time_ms={column}") == status

    def test_json_lines_with_nested_values(self, tmp_path, monkeypatch):
        content = "".join(
            json.dumps({"i": step, "perf": {"ms": 250.0, "since": step / 2}}) + "\n"
            for step in range(1, 9)
        )
        assert self.read(content, tmp_path, monkeypatch, "step=i,time_ms=perf.ms") == 0
        (found,) = store.read(Path("output/train_own_model.json"))
        assert set(found.step_times) == {0.25}
        assert self.read(content, tmp_path, monkeypatch, "step=i,elapsed=perf.since") == 0
        runs = [each for path in Path("output").glob("*.json") for each in store.read(path)]
        assert {0.5} in [set(each.step_times) for each in runs]

    @pytest.mark.parametrize(
        "content",
        [
            table_of("step;time;loss\n", "{};2,351;{}\n", ","),
            table_of('"step","time","loss"\n', '"{}","2,351","{}"\n', ","),
            table_of("step\ttime\tloss\n", "{}\t2.351\t{}\n"),
            table_of("# run of Monday\nstep,time,loss\n", "{},2.351,{}\n"),
            # As numpy.savetxt and Excel write them.
            table_of("# step,time,loss\n", "{},2.351,{}\n"),
            table_of("sep=;\nstep;time;loss\n", "{};2,351;{}\n", ","),
        ],
        ids=["semicolons", "quotes", "tabs", "comment", "header in a comment", "sep"],
    )
    def test_tables_as_spreadsheets_write_them(self, tmp_path, monkeypatch, content):
        assert self.read(content, tmp_path, monkeypatch, "step=step,time=time,loss=loss") == 0
        (found,) = store.read(Path("output/train_own_model.json"))
        assert (found.steps, set(found.step_times)) == (tuple(range(1, 26)), {2.351})
        assert found.loss_values[:2] == (6.95, 6.9)

    @pytest.mark.parametrize(
        ("rows", "rates"),
        [
            ('1,2.5,"45,538"\n2,2.5,"45,540"\n', (45538.0, 45540.0)),
            ('1,"0,351","45,538"\n2,"0,351","45,5"\n', (45.538, 45.5)),
            # Nothing tells 45.538 from 45,538; a point and a comma contradict each other.
            ('1,2,"45,538"\n2,2,"45,540"\n', None),
            ('1,2.5,"45,5"\n2,2.5,"45,6"\n', None),
        ],
    )
    def test_commas_are_decimal_or_between_thousands(
        self, tmp_path, monkeypatch, capsys, rows, rates
    ):
        content = "step,time,rate\n" + rows
        status = self.read(
            content, tmp_path, monkeypatch, "step=step,time=time,tokens_per_second=rate"
        )
        if rates is None:
            assert status == 2
            assert "can be read in two ways" in capsys.readouterr().err
            return
        (found,) = store.read(Path("output/train_own_model.json"))
        assert found.native_metrics["tokens_per_second"] == rates

    def test_metrics_of_lightning_with_semicolons(self, tmp_path):
        content = "step;train_loss;step_time\n" + "".join(f"{s};2,{s};0,5\n" for s in range(9))
        (run,) = runs(content, tmp_path, "metrics.csv")
        assert (run.framework, run.loss_values[1], set(run.step_times)) == ("lightning", 2.1, {0.5})

    @pytest.mark.parametrize(
        ("columns", "told"),
        [("step=iteration,loss=nll", True), ("step=iteration,time=wall", False)],
    )
    def test_without_times_it_names_what_gives_them(
        self, tmp_path, monkeypatch, capsys, columns, told
    ):
        assert self.read(self.CSV, tmp_path, monkeypatch, columns) == 0
        out = capsys.readouterr().out
        assert ("no step times: --columns takes them as time, time_ms, interval" in out) is told
        assert "timestamp unknown: the source has no time of day" in out
        assert "no times" not in out

    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            (
                "step=iteration,time=seconds",
                "it has no column 'seconds'; columns: iteration, wall, nll, note",
            ),
            ("step=note,time=wall", "column note has no whole number"),
            ("step=iteration,speed=wall", "--columns: unknown value 'speed'"),
            ("step=iteration", "--columns needs step=COLUMN and another value"),
            ("iteration", "--columns: 'iteration' is not VALUE=COLUMN"),
        ],
    )
    def test_what_is_wrong(self, tmp_path, monkeypatch, capsys, columns, words):
        assert self.read(self.CSV, tmp_path, monkeypatch, columns) == 2
        assert words in capsys.readouterr().err


def test_an_error_about_odd_columns_is_one_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"one\ntwo",\x1b[1mthree\n1,2\n', encoding="utf-8")
    given = GivenValues(columns={"step": "x", "time": "y"})
    (source,) = sources.log_sources([str(path)])[0]
    problem, *_ = sources.read_source(source, given)
    assert problem.endswith("it has no column 'x'; columns: one two, three")


class TestSameTraining:
    """Two logs of one seed in a directory: one training of which two sources tell, or two."""

    RUN = Run(
        steps=tuple(range(1, 21)),
        window_steps=(1,) * 20,
        step_times=(2.0,) * 20,
        loss_values=tuple(3 - step / 10 for step in range(20)),
        learning_rates=(None,) * 20,
        grad_norms=(None,) * 20,
        lines=(None,) * 20,
        timestamp="2026-05-11T03:00:00+00:00",
    )

    @pytest.mark.parametrize(
        ("later", "is_same"),
        [("03:00:30+00:00", True), ("03:00:50+00:00", False), (None, True)],
        ids=str,
    )
    def test_one_after_the_other_are_two(self, later, is_same):
        again = msgspec.structs.replace(self.RUN, timestamp=later and f"2026-05-11T{later}")
        assert merge.same_training(self.RUN, again) is is_same
        assert merge.same_training(again, self.RUN) is is_same
