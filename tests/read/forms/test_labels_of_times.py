"""Which number of a line is a step's time, and which one only looks like it."""

import pytest

from tprimat.log_import import sources
from tprimat.results.run import Run


def outcome_of(form: str, tmp_path):
    """What is read of twelve lines of a form, `{i}` their numbers."""
    path = tmp_path / "run.log"
    path.write_text("".join(form.replace("{i}", str(step)) + "\n" for step in range(1, 13)))
    (source,), *_ = sources.log_sources([str(path)])
    return sources.read_source(source)


def run_of(form: str, tmp_path) -> Run:
    outcome = outcome_of(form, tmp_path)
    assert isinstance(outcome, list), outcome.problem
    (training,) = outcome
    return training.run


@pytest.mark.parametrize(
    ("form", "seconds", "loss"),
    [
        ("step={i} time=0.5s loss=3.9 tflops=401", 0.5, 3.9),
        ("step {i} G_loss 3.8 D_loss 3.6 sec/step 0.59", 0.59, None),
        ("step {i} loss 3.9 grad_norm 1.25 s/it 0.5", 0.5, 3.9),
        ("step {i} time 0.5 s 3.9 loss", 0.5, 3.9),
        ("step {i} loss 3.9 took 0.5 s", 0.5, 3.9),
        ("step {i} loss 3.9 E2E latency 0.5 s", 0.5, 3.9),
        ("step {i} | loss 3.9 | 0.5 s <- warm-up", 0.5, 3.9),
    ],
)
def test_a_word_before_a_number_is_its_label_not_the_unit_of_the_one_before(
    form, seconds, loss, tmp_path
):
    run = run_of(form, tmp_path)
    assert set(run.step_times) == {seconds}
    assert run.loss_values[0] == loss


def test_tokens_before_a_rate_are_no_rate(tmp_path):
    run = run_of("step {i} loss 3.9 tokens {i}000 tok/s 2000", tmp_path)
    assert set(run.native_metrics["tokens_per_second"]) == {2000.0}


@pytest.mark.parametrize(
    "form",
    [
        "step {i}, loss 3.1, 99 s left",
        "step {i}, loss 3.1, 0.11 s data, 0.5 s total",
        "step {i}, loss 3.1, 10.6 s per epoch",
        "step {i}, loss 3.1, 10.3 s for evaluation",
        "step {i}, loss 3.1, 10.2 s per 10 steps",
        "step {i}, loss 3.1, p99 step time 0.9 s, p50 step time 0.3 s",
        "step {i}, loss 3.1, max step time 0.9 s",
        "step {i} | loss 3,101 | step time 0,451 s",
        "step {i} loss 3.1 step time 1m 7s",
    ],
)
def test_a_time_of_something_else_is_none_of_a_step(form, tmp_path):
    outcome = outcome_of(form, tmp_path)
    assert not isinstance(outcome, list)
    assert not outcome.asked


@pytest.mark.parametrize(
    "form",
    [
        "step {i}, loss 3.1, stall time 0.1 s",
        "step {i}, loss 3.1, NCCL barrier took 0.1 s",
        "iteration {i} | A100 time 10 s | H100 time 5 s | loss 3.1",
    ],
)
def test_a_time_that_may_be_of_a_part_is_asked(form, tmp_path):
    outcome = outcome_of(form, tmp_path)
    assert "form-time-assumed" in [note.code for note in outcome.asked]


@pytest.mark.parametrize(
    ("printed", "percent"),
    [("mfu 0.91%", 0.91), ("MFU (%): 0.91", 0.91), ("mfu 0.41", 41.0), ("mfu 41.2", 41.2)],
)
def test_a_share_with_a_sign_is_in_percent(printed, percent, tmp_path):
    run = run_of(f"step {{i}} loss 3.1 step time 0.5 s {printed}", tmp_path)
    assert set(run.native_metrics["mfu_percent"]) == {percent}


def test_tflops_of_all_gpus_are_none_of_one(tmp_path):
    run = run_of("step {i} loss 3.1 step time 0.5 s total TFLOPS: 3200", tmp_path)
    assert "tflops_per_gpu" not in run.native_metrics
