"""Programs that are rows: what a row says of a program's lines, its times and the scope of its
rates.
"""

from __future__ import annotations

import inspect
from typing import Any

import made_logs
import pytest

from tprimat import read
from tprimat.errors import UnreadableError
from tprimat.read.forms.program import Labels, ProgramReader
from tprimat.read.forms.programs import PROGRAMS
from tprimat.read.parsing import text
from tprimat.results.run import Run

ROWS = {row.name: row for row in PROGRAMS}


def runs_of(content: str) -> list[Run]:
    return read.read(text.lines([content.encode()]), "made.log")


def only(content: str) -> Run:
    (run,) = runs_of(content)
    return run


def test_rows_have_names_of_their_own():
    assert len(ROWS) == len(PROGRAMS)
    assert set(ROWS) <= {each.name for each in read.log_formats()}


@pytest.mark.parametrize("row", PROGRAMS, ids=lambda row: row.name)
def test_a_row_sets_what_its_layout_knows(row):
    """A misspelled field would be no error."""
    (layout,) = row.__bases__
    known = set(dir(layout))
    for each in layout.__mro__:
        known |= set(inspect.get_annotations(each))
    assert {name for name in vars(row) if not name.startswith("__")} <= known
    assert row.example
    assert row.timing.covers
    assert set(row.signs) <= {*row().all_signs, *(sign for sign in row.signs if len(sign) < 3)}


@pytest.mark.parametrize("row", [row for row in PROGRAMS if issubclass(row, Labels)], ids=str)
def test_a_program_whose_numbers_have_labels_is_one_row(row):
    """Its own code is none: what a label means, its scope and the timing are data."""
    assert not any(inspect.isfunction(each) for each in vars(row).values())


def values(run: Run, *names: str) -> dict[str, Any]:
    return {name: run.native_metrics[name][1] for name in names}


def test_fairseq():
    run = only(made_logs.FAIRSEQ)
    assert (run.framework, run.steps[:2], run.steps[-1]) == ("fairseq", (100, 200), 3000)
    # Tokens of an update over tokens/s: more digits than 2.22 updates/s have.
    assert run.step_times[:3] == (0.45, 0.45, 0.45)
    # In bits, so that it isn't comparable with other losses.
    assert (run.loss_values[0], run.grad_norms[0]) == (None, 0.601)
    assert run.native_metrics["loss_bits"][0] == 3.001
    # Of all GPUs, since fairseq sums the tokens of all workers.
    assert values(run, "tokens_per_second", "tokens_per_step") == {
        "tokens_per_second": 132700.0,
        "tokens_per_step": 59715.0,
    }
    assert run.timing.clock == "host clock of fairseq's meters"


def test_an_evaluation_of_fairseq_lies_in_the_next_record():
    lines = made_logs.FAIRSEQ.splitlines(keepends=True)
    valid = "2026-06-14 09:07:30 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 4.5\n"
    lines[10] = valid + lines[10].replace("wps=132700", "wps=94000")
    run = only("".join(lines))
    assert run.steps == tuple(range(100, 3001, 100))
    assert any("step 1100 includes an evaluation" in warning for warning in run.warnings)


def test_mindformers():
    run = only(made_logs.MINDFORMERS)
    assert (run.framework, run.steps) == ("mindformers", tuple(range(1, 31)))
    assert run.training_config.max_steps == 40
    assert run.step_times[:3] == (0.991, 0.992, 0.993)
    assert run.grad_norms[0] == 3.1101
    # T are TFLOP/s of one device.
    assert values(run, "tflops_per_gpu") == {"tflops_per_gpu": 150.202}


@pytest.mark.parametrize(
    ("content", "planned"), [(made_logs.MMENGINE, 900), (made_logs.MMENGINE_EPOCHS, None)]
)
def test_mmengine(content, planned):
    run = only(content)
    assert (run.framework, run.steps) == ("mmengine", tuple(range(10, 301, 10)))
    assert run.step_times[:3] == (0.1001, 0.1002, 0.1003)
    assert run.window_steps[1:3] == (10, 10)
    assert run.training_config.max_steps == planned
    # MiB.
    memory = 15266 if planned else 970
    assert run.memory_metrics.peak_memory_allocated_gb == pytest.approx(
        memory * 2**20 / 1e9, rel=1e-3
    )


def test_two_trainings_of_mmengine_on_one_page():
    later = made_logs.MMENGINE_EPOCHS.replace("07/03", "07/04").replace("loss: 6.1", "loss: 7.1")
    first, second = runs_of(made_logs.MMENGINE_EPOCHS + later)
    assert first.steps == second.steps == tuple(range(10, 301, 10))


@pytest.mark.parametrize("lines", [1, 2])
def test_a_line_by_itself_is_a_quote(lines):
    content = "".join(made_logs.NANOTRON.splitlines(keepends=True)[:lines])
    if lines == 1:
        with pytest.raises(UnreadableError):
            runs_of(content)
    else:
        assert only(content).steps == (1, 2)


def test_nanotron():
    run = only(made_logs.NANOTRON)
    assert (run.framework, run.steps, run.training_config.max_steps) == (
        "nanotron",
        tuple(range(1, 31)),
        900,
    )
    assert run.step_times[:2] == (11.5, 11.5)
    assert run.training_config.global_batch_size == 64
    assert values(run, "tokens_per_second", "tokens_per_second_per_gpu", "tflops_per_gpu") == {
        "tokens_per_second": 22800.0,
        "tokens_per_second_per_gpu": 11400.0,
        "tflops_per_gpu": 38.5,
    }


def test_paddlenlp():
    run = only(made_logs.PADDLENLP)
    assert (run.framework, run.steps[:2], run.window_steps[1]) == ("paddlenlp", (10, 20), 10)
    # interval_runtime is of ten steps.
    assert run.step_times[1] == pytest.approx(0.4002)
    assert values(run, "samples_per_second", "tokens_per_second_per_gpu") == {
        "samples_per_second": 9.9702,
        "tokens_per_second_per_gpu": 10209.402,
    }
    assert "tflops_per_gpu" not in run.native_metrics


@pytest.mark.parametrize(
    ("interval", "rate", "seconds"),
    [
        ("4.0", "2.5", 0.4),
        # 9.7 steps are ten of 80.8 s.
        ("808.1082", "0.012", 80.81082),
        ("0.51", "1.0", 0.51),
        ("0.5", "1.0", None),
        ("1e300", "1e300", None),
    ],
)
def test_the_steps_of_an_interval_follow_from_its_rate(interval, rate, seconds):
    line = "loss: 7.9, global_step: {}, interval_runtime: {}, interval_steps_per_second: {}\n"
    run = only("".join(line.format(step, interval, rate) for step in (10, 20)))
    assert run.step_times == (pytest.approx(seconds), pytest.approx(seconds))


@pytest.mark.parametrize(
    ("epoch", "step", "planned"),
    [("  2/  3", 45, 60), ("  1/  3", 25, 60), ("2", 45, None), ("2/x", 45, None)],
)
def test_steps_of_an_epoch_go_on_after_those_before(epoch, step, planned):
    line = "{{ Epoch:[{}], step:[ {}/ 20], loss: 2.5, per_step_time: 900ms }}\n"
    run = only(line.format(epoch, 5) + line.format(epoch, 25))
    assert run.steps[-1] == step
    assert run.training_config.max_steps == planned


@pytest.mark.parametrize(("steps", "is_read"), [(999, True), (1000, False)])
def test_another_programs_log_on_the_same_page(steps, is_read):
    """Its reader hears no more once the first one has found more steps than a page shows."""
    line = "{{ step:[ {}/ 2000], loss: 2.5, per_step_time: 900ms, lr: 1e-05 }}\n"
    first = "".join(line.format(step) for step in range(1, steps + 1))
    # The reader looks at every 64th line.
    gap = "\n" * 128
    runs = runs_of(first + gap + made_logs.NANOTRON)
    names = [run.framework for run in runs]
    assert names == ["mindformers", "nanotron"][: 1 + is_read]


def test_xtuner():
    run = only(made_logs.XTUNER)
    assert (run.framework, run.steps) == ("xtuner", tuple(range(1, 31)))
    assert run.step_times[:2] == (0.9801, 0.9802)
    # That of all ranks, which is the same on each.
    assert run.loss_values[:2] == (1.601, 1.602)
    assert values(run, "tokens_per_second_per_gpu") == {"tokens_per_second_per_gpu": 4080.02}
    assert run.memory_metrics.peak_memory_allocated_gb == pytest.approx(
        15.9 * 2**30 / 1e9, abs=1e-3
    )
    assert run.training_config.max_steps == 100


def test_torchtitans_rates_are_of_a_gpu_where_the_label_does_not_say_it():
    """It is a reader of its own, since its times follow from batch and length."""
    for label in ("tps", "wps"):
        run = only(
            "".join(
                f"[rank0]:2024-06-02 09:00:{step:02},000 - root - INFO - step: {step:2}  loss:"
                f" {9 - step / 10:.4f}  memory: 40.10GiB(50.12%)  {label}: 16,384  mfu: 24.10%\n"
                for step in range(1, 9)
            )
        )
        assert run.native_metrics["tokens_per_second_per_gpu"] == (16384.0,) * 8
        assert "tokens_per_second" not in run.native_metrics


def test_a_reader_of_a_row_is_one_of_its_log_alone():
    one, other = ROWS["mmengine"](), ROWS["mmengine"]()
    assert isinstance(one, ProgramReader)
    for line in text.lines([made_logs.MMENGINE.encode()]):
        one.feed(line)
    assert (one.recognized, other.recognized) == (True, False)
