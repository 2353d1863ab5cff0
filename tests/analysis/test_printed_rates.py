"""Tokens/s that a source prints, where they can't be computed from its sizes and times."""

from __future__ import annotations

import pytest
from limits import limits
from stored_runs import series

from tprimat.analysis.summary import summarize
from tprimat.notes import Note
from tprimat.results.run import Run, Source, TrainingConfig

ONE, ALL = "tokens_per_second_per_gpu", "tokens_per_second"


def summary(times, notes=(), config=None, windows=None, **native):
    """The summary of a log with these step times and printed rates."""
    fields = series(times)
    if windows:
        fields |= {
            "window_steps": tuple(windows),
            "steps": tuple(range(10, 10 * len(times) + 1, 10)),
        }
    run = Run(
        **fields,
        source=Source(kind="log"),
        notes=notes,
        training_config=config or TrainingConfig(),
        native_metrics={name: tuple(rates) for name, rates in native.items()},
    )
    return summarize(run)


def rates(found):
    return found.performance.tokens_per_second_per_gpu, found.performance.tokens_per_second


def told(found):
    """The fields of the note that the rate is printed; None without one."""
    return next((note.fields for note in found.notes if note.code == "rate-printed"), None)


def test_the_rate_is_tokens_over_time():
    """30 s at 8,000 tokens/s and 10 s at 4,000 are 7,000 tokens/s; the arithmetic mean is 6,000."""
    found = summary([3.0, 1.0] * 10, **{ONE: [8000.0, 4000.0] * 10})
    assert rates(found) == (pytest.approx(7000), None)
    assert told(found)["average"] == "time-weighted mean"


def test_windows_weigh_as_many_steps():
    found = summary([3.0, 1.0], windows=[10, 30], **{ONE: [8000.0, 4000.0]})
    steps = found.steady.first_step, found.steady.last_step
    assert (steps, rates(found)[0]) == ((11, 20), pytest.approx(4000))


def test_the_warm_up_counts_neither_in_the_time_nor_in_the_rate():
    found = summary([30.0, *[2.0] * 29], **{ONE: [500.0, *[8000.0] * 29]})
    assert found.steady.first_step == 2
    assert rates(found) == (pytest.approx(8000), None)
    assert told(found)["steps"] == "steps 2–30"


def test_without_times_it_is_the_mean_of_equal_work():
    found = summary([None] * 20, **{ONE: [8000.0, 4000.0] * 10})
    assert rates(found) == (pytest.approx(16000 / 3), None)
    assert told(found)["average"] == "harmonic mean"
    assert told(found)["unknown"].startswith("step time, ")
    assert found.performance.avg_step_time_seconds is None
    assert (found.has_speed, found.segments) == (True, ())


def test_without_times_the_slow_start_is_left_out_too():
    found = summary([None] * 30, **{ONE: [500.0, *[8000.0] * 29]})
    assert rates(found)[0] == pytest.approx(8000)
    assert told(found)["steps"] == "steps 2–30"


def test_sizes_without_times_still_leave_the_printed_rate():
    config = TrainingConfig(global_batch_size=16, sequence_length=4096, num_gpus=8)
    found = summary([None] * 20, config=config, **{ONE: [8000.0] * 20})
    assert rates(found) == (pytest.approx(8000), pytest.approx(64000))


def test_a_computed_rate_is_better():
    config = TrainingConfig(global_batch_size=16, sequence_length=4096, num_gpus=8)
    found = summary([1.0] * 20, config=config, **{ONE: [8100.0] * 20})
    assert rates(found) == (pytest.approx(8192), pytest.approx(65536))
    assert told(found) is None


@pytest.mark.parametrize(
    ("native", "gpus", "expected"),
    [
        ({ALL: [64000.0] * 20}, 8, (8000, 64000)),
        ({ONE: [8000.0] * 20}, 8, (8000, 64000)),
        ({ALL: [64000.0] * 20}, None, (None, 64000)),
        ({ONE: [8000.0] * 20, ALL: [64000.0] * 20}, None, (8000, 64000)),
    ],
)
def test_rates_of_one_and_of_all(native, gpus, expected):
    found = summary([1.0] * 20, config=TrainingConfig(num_gpus=gpus), **native)
    assert rates(found) == tuple(value and pytest.approx(value) for value in expected)
    assert told(found)["unit"] == ("tokens/s/GPU" if expected[0] else "tokens/s")


@pytest.mark.parametrize("code", ["rate-as-printed", "rates-contradict"])
def test_a_rate_that_is_no_rate_of_a_gpu_is_not_used(code):
    found = summary([1.0] * 20, notes=(Note(code),), **{ONE: [8000.0] * 20})
    assert (rates(found), told(found)) == ((None, None), None)


def _is_rated(share):
    rated = round(100 * share)
    found = summary([1.0] * 100, **{ONE: [8000.0] * rated + [None] * (100 - rated)})
    return rates(found)[0] is not None


@limits(("share of the time with a rate", _is_rated, (0.49, False), (0.50, True)))
def test_limits_of_printed_rates(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])
