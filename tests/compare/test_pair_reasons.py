"""A pair in full: each reason why two systems can't be compared, and what goes with a ratio."""

from __future__ import annotations

import dataclasses

import pytest
from made_runs import MI300X, make_run, shape
from made_systems import finding_of, result, system, value
from stored_runs import notes_of

from tprimat.checks import compute, training
from tprimat.compare.pairs import different_work, pair
from tprimat.compare.result import SAMPLES_RATE, Pair, Ratio
from tprimat.compare.windows import sensitivity
from tprimat.notes import Note
from tprimat.read.parsing.remarks import no_step_times
from tprimat.results.account import Timing
from tprimat.results.run import Environment, Source, SourceFile

TIMED = {"avg_step_time_seconds": value(4.0)}


NO_BATCH = Note("no-rate", {"unknown": "batch"})
NO_GPUS = Note("no-rate-per-gpu")
WITHHELD = Note("rate-withheld", {"printed": 8.0, "times": 2.0, "batch": 2, "length": 4})


def of(
    name="B",
    rate=100.0,
    *,
    timed=True,
    runs=1,
    samples=False,
    findings=(),
    notes=(),
    said=(),
    **fields,
):
    run = make_run(**fields)
    results = [result(rate, run, unit="samples" if samples else "tokens")] * runs
    values = {**(TIMED if timed else {}), **({SAMPLES_RATE: value(2.0)} if samples else {})}
    given = {"findings": findings, "value_notes": notes, "run_notes": said}
    return system(name, *results, values=values, **given)


def apart(*rates, **fields):
    """A system of several runs that no one session measured."""
    return system("B", *(result(rate, make_run(**fields)) for rate in rates), values=TIMED)


def read(digest):
    return {"source": Source(kind="log", files=(SourceFile(path="a.log", sha256=digest * 64),))}


SAME = {"batch": 128, "step_times": make_run().step_times}
BAD = (finding_of("info", "w", "fine"), finding_of("error", "x", "impossible"))
OPEN = (finding_of("unverified", "y", "unverified"),)
EMULATED = {"environment": Environment(emulated=True)}
OTHER = ", so these are different models"
UNTIMED = "has no step times"


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        # Without step times for a known reason: both are named.
        (of("A"), of(timed=False, said=(no_step_times("X", but="; Y"),)), "B has no step times: X"),
        (
            of("A", timed=False, status="failed"),
            of(timed=False),
            "A has no step times: its run failed; B has no step times",
        ),
        (of("A", **EMULATED), of(), "A ran on an emulated device; its timings are not valid"),
        # That comes before another model, and another model before what nobody explains.
        (
            of("A", timed=False, status="failed", model_config=shape()),
            of(model_config=shape(num_layers=16)),
            "A has no step times: its run failed",
        ),
        (
            of("A", timed=False, status="failed", model_config=shape()),
            of(timed=False, model_config=shape(num_layers=16)),
            "A has no step times: its run failed; B has no step times",
        ),
        (
            of("A", timed=False, model_config=shape()),
            of(model_config=shape(num_layers=16)),
            "the models differ in shape (num layers 32 and 16)",
        ),
        (of("A", timed=False), of(), f"A {UNTIMED}"),
        (of("A"), of(timed=False), f"B {UNTIMED}"),
        (of("A", timed=False), of(timed=False), f"A {UNTIMED}; B {UNTIMED}"),
        (of("A", timed=False, findings=BAD), of(), f"A {UNTIMED}"),
        # Scales.
        (of("A", scale="tiny"), of(), f"the scales differ (tiny and full){OTHER}"),
        (of("A", scale="full"), of(scale="small"), f"the scales differ (full and small){OTHER}"),
        (
            of("A", scale=None),
            of(scale="small"),
            f"the scales differ (unknown and small){OTHER}",
        ),
        (of("A", scale=None), of(scale="full"), None),
        (of("A", scale="tiny"), of(scale="tiny"), None),
        # A model that nobody names.
        (of("A", model=None), of(model=None), "the results don't say which model was trained"),
        (of("A", model=None, model_config=shape()), of(model=None, model_config=shape()), None),
        (of("A"), of(), None),
        # What is excluded: the baseline's first.
        (of("A", findings=BAD), of(findings=OPEN), "A: impossible"),
        (of("A"), of(findings=OPEN), "B: unverified"),
        (of("A", findings=BAD[:1]), of(), None),
        (of("A", scale="tiny", findings=BAD), of(), f"the scales differ (tiny and full){OTHER}"),
        # Runs that are unlike each other.
        (
            apart(100.0, 200.0),
            of(),
            "B has runs that differ 2×, so they are not of one configuration",
        ),
        (
            of("A"),
            apart(100.0, 251.2, 99.9),
            "B has runs that differ 2.51×, so they are not of one configuration",
        ),
        (apart(100.0, 199.0), of(), None),
        (apart(100.0, 251.0, session="s"), of(), None),
        (
            dataclasses.replace(apart(100.0, 251.0), findings=BAD),
            of(),
            "B: impossible",
        ),
        # One log, read twice.
        (of("A", **read("0")), of(**SAME, **read("0")), "a.json and a.json are copies of one run"),
        (of("A", **read("0")), of(**SAME, **read("1")), None),
        # Rates that are unknown.
        (of("A", None), of(), "tokens/s/GPU of A is unknown"),
        (of("A"), of(rate=None), "tokens/s/GPU of B is unknown"),
        (of("A", None), of(rate=None), "tokens/s/GPU is unknown"),
        (
            of("A", None, notes=(*notes_of("x"), NO_BATCH, NO_GPUS)),
            of(rate=None, notes=(NO_GPUS,)),
            "tokens/s/GPU of A is unknown (batch unknown: step times only, no throughput in"
            " tokens); tokens/s/GPU of B is unknown (number of GPUs unknown: no throughput per GPU)",
        ),
        (
            of("A", None, notes=(WITHHELD,)),
            of(rate=None, notes=(WITHHELD,)),
            "tokens/s/GPU is unknown (8 tokens/s reported is 2.000 times batch × sequence length /"
            " step time (2 × 4 tokens per step); one of them is wrong)",
        ),
        # Other work.
        (of("A", length=4096), of(), "workload mismatch: sequence length 4096 vs 2048"),
        (of("A"), of(length=None), "workload mismatch: sequence length 2048 vs unknown"),
        (of("A", length=None), of(), "workload mismatch: sequence length unknown vs 2048"),
        (of("A", samples=True), of(), "workload mismatch: sequence length 2048 vs 2048"),
        (of("A", samples=True, length=None), of(samples=True), None),
        (of("A", samples=True, length=1), of(samples=True, length=2), None),
    ],
)
def test_why_two_can_t_be_compared(one, other, reason):
    found = pair(one, other)
    assert (found.reason, found.ratio is None) == (reason, reason is not None)


def unrated(name, **fields):
    return system(name, result(None, make_run(**fields), unit="samples"), values=TIMED)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"batch": None}, "batch size unknown"),
        ({"gpus": None}, "number of GPUs unknown"),
        ({"batch": None, "gpus": None}, "batch size and number of GPUs unknown"),
    ],
)
def test_why_a_rate_in_samples_is_unknown(fields, why):
    assert (
        pair(of("A", samples=True), unrated("B", **fields)).reason
        == f"samples/s/GPU of B is unknown ({why})"
    )
    # The unit is that of the system.
    assert (
        pair(unrated("A", **fields), of(samples=True)).reason
        == f"samples/s/GPU of A is unknown ({why})"
    )
    assert pair(unrated("A", **fields), of()).reason == f"tokens/s/GPU of A is unknown ({why})"


def test_in_the_same_mode_a_difference_of_configuration_forbids_a_ratio():
    one, other = of("A", batch=32, precision="fp8"), of()
    assert pair(one, other).reason is None
    found = pair(one, other, mode="same")
    assert (found.reason, found.ratio) == (
        "the configurations differ in precision, global batch",
        None,
    )
    assert found.config_diff == compute.config_diff(one.run, other.run, mode="same")
    assert pair(of("A"), of(), mode="same").reason is None
    # Another length forbids a ratio in each mode, and is told as work.
    long = of("A", length=4096)
    assert pair(long, of()).reason == "workload mismatch: sequence length 4096 vs 2048"
    assert pair(long, of(), mode="same").reason == "the configurations differ in sequence length"
    # What can't be compared anyway says why.
    assert (
        pair(dataclasses.replace(one, findings=BAD), other, mode="same").reason == "A: impossible"
    )
    assert (
        pair(of("A", None, batch=32), other, mode="same").reason
        == "the configurations differ in global batch"
    )


class TestInFull:
    def test_of_single_runs(self):
        one = of("A", steps=60, timing=Timing(kind="timer"))
        other = of("B", 150.0, device=MI300X, stack="rocm", step_time=1.6, steps=60)
        found = pair(one, other)
        expected = Pair(
            one,
            other,
            Ratio(pytest.approx(1.5), None, None),
            None,
            compute.config_diff(one.run, other.run),
            training.same_training(one.run, other.run),
            sensitivity(one.run, other.run),
            ("timer",),
            is_short=False,
        )
        assert vars(found) == vars(expected)
        assert dict(found.sensitivity)["last 10"] == pytest.approx(2.0, rel=0.01)

    def test_of_runs_in_samples_the_windows_are_in_samples_too(self):
        one, other = (
            of("A", samples=True, length=None),
            of("B", samples=True, length=None, step_time=1.6),
        )
        assert pair(one, other).sensitivity == sensitivity(one.run, other.run, unit="samples") != ()

    @pytest.mark.parametrize(
        ("runs", "has"), [((1, 1), True), ((2, 1), False), ((1, 2), False), ((2, 2), False)]
    )
    def test_the_windows_of_other_tools_are_for_single_runs(self, runs, has):
        found = pair(of("A", runs=runs[0]), of("B", runs=runs[1]))
        assert bool(found.sensitivity) is has
        assert pair(of("A", findings=BAD), of("B")).sensitivity == ()

    def test_the_clocks_are_those_of_the_system_and_then_of_the_baseline(self):
        def clocked(name, *clocks):
            return system(name, *(result(clock=each) for each in clocks), values=TIMED)

        found = pair(
            clocked("A", "blocks", "timer"), clocked("B", "stamps", None, "timer", "stamps")
        )
        assert found.clocks == ("stamps", "timer", "blocks")

    @pytest.mark.parametrize("short", [(True, False), (False, True), (False, False)])
    def test_a_run_of_either_may_be_too_short(self, short):
        one, other = (
            system(name, result(), result(unsettled=each), values=TIMED)
            for name, each in zip("AB", short, strict=True)
        )
        found = pair(one, other)
        assert (found.is_short, found.ratio.low is None) == (any(short), True)


def test_the_work_of_two_systems():
    assert different_work(of("A"), of("B", device=MI300X, batch=3)) is None
    assert different_work(of("A", scale="tiny"), of("B", length=1)) == (
        "workload mismatch: sequence length 2048 vs 1"
    )
    assert different_work(of("A", scale="tiny"), of("B")) == (
        f"the scales differ (tiny and full){OTHER}"
    )
