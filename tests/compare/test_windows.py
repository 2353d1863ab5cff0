"""The ratio under the windows of steps that other tools use, in full."""

from __future__ import annotations

import msgspec
import pytest
from made_runs import make_run
from stored_runs import series

from tprimat.compare.windows import sensitivity
from tprimat.results.account import Timing


def timed(times, **fields):
    made = make_run(
        **{
            "steps": 0,
            "warmup": (),
            "gpus": fields.pop("gpus", 8),
            "batch": fields.pop("batch", 64),
        }
    )
    return msgspec.structs.replace(made, **{**series(times), **fields})


def test_each_window_of_both_runs():
    # The baseline takes a second, the system more with each step.
    times = [step**2 / 1000 for step in range(1, 151)]
    one, other = timed([1.0] * 150), timed(times, gpus=4, batch=96)
    # Per GPU, the system's work is that of 24 sequences and the baseline's of 8: three times as
    # much.
    steps = {
        "all but the first": range(2, 151),
        "steps 35–44": range(35, 45),
        "10 ending at 90": range(81, 91),
        "skip 10 %": range(16, 151),
        "last 10": range(141, 151),
        "100 after 40": range(41, 141),
    }
    means = {name: sum(step**2 for step in each) / len(each) / 1000 for name, each in steps.items()}
    assert sensitivity(one, other) == tuple(
        (name, pytest.approx(3 / mean)) for name, mean in means.items()
    )
    assert sensitivity(other, one) == tuple(
        (name, pytest.approx(mean / 3)) for name, mean in means.items()
    )


@pytest.mark.parametrize(
    ("count", "names"),
    [
        (1, {"skip 10 %"}),
        (2, {"all but the first", "skip 10 %"}),
        (20, {"all but the first", "skip 10 %"}),
        (21, {"all but the first", "skip 10 %", "last 10"}),
        (43, {"all but the first", "skip 10 %", "last 10"}),
        (44, {"all but the first", "skip 10 %", "last 10", "steps 35–44"}),
    ],
)
def test_a_window_needs_records_of_both(count, names):
    for runs in (
        (timed([1.0] * count), timed([1.0] * 50)),
        (timed([1.0] * 50), timed([1.0] * count)),
    ):
        assert {name for name, _ in sensitivity(*runs)} == names


SHORT = timed([1.0] * 3)


@pytest.mark.parametrize(
    ("run", "unit", "has"),
    [
        (SHORT, "tokens", True),
        (timed([1.0] * 3, batch=None), "tokens", False),
        (timed([1.0] * 3, batch=None), "samples", False),
        (msgspec.structs.replace(SHORT, training_config=make_run(length=None).training_config), "tokens", False),
        (msgspec.structs.replace(SHORT, training_config=make_run(length=None).training_config), "samples", True),
        (msgspec.structs.replace(SHORT, training_config=make_run(gpus=None).training_config), "tokens", True),
        (timed([1.0] * 3, gpus=None), "tokens", False),
        (msgspec.structs.replace(SHORT, steps=(1, 2, 4), window_steps=(1, 1, 2)), "tokens", False),
        *((timed([1.0] * 3, timing=Timing(kind=kind)), "tokens", kind in (None, "timer", "stamps"))
          for kind in (None, "timer", "stamps", "sampled", "partial")),
        (timed([1.0] * 3, batch=None, gpus=None), "steps", True),
        (timed([None] * 3), "tokens", False),
        (timed([1.0, None, None]), "tokens", True),
    ],
)  # fmt: skip
def test_there_are_none_where_a_rate_is_unknown_or_not_all_steps_are_timed(run, unit, has):
    for runs in ((run, SHORT), (SHORT, run)):
        assert (sensitivity(*runs, unit=unit) != ()) is has


def test_in_samples_the_length_doesn_t_matter():
    config = make_run(length=4096, batch=32).training_config
    found = sensitivity(
        SHORT, msgspec.structs.replace(SHORT, training_config=config), unit="samples"
    )
    assert [ratio for _, ratio in found] == [0.5, 0.5]
    found = sensitivity(SHORT, msgspec.structs.replace(SHORT, training_config=config))
    assert [ratio for _, ratio in found] == [1.0, 1.0]


def test_profiled_steps_are_left_out():
    run = timed([1.0, 2.0, 4.0, 30.0], profiled_steps=(4,))
    assert dict(sensitivity(SHORT, run)) == {"all but the first": 1 / 3, "skip 10 %": 1 / (7 / 3)}
