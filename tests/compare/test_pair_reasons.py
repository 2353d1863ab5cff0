"""A pair in full: each reason why two systems can't be compared, and what goes with a ratio."""

from __future__ import annotations

import dataclasses

import pytest
from made_runs import MI300X, make_run, shape
from made_systems import finding_of, result, system, value
from stored_runs import note, notes_of

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
        (
            of("A"),
            of(timed=False, said=(no_step_times("X", but="; Y"),)),
            (note("untimed", why="X", system="B"),),
        ),
        (
            of("A", timed=False, status="failed"),
            of(timed=False),
            (note("untimed", ended="failed", system="A"), note("untimed", system="B")),
        ),
        (of("A", **EMULATED), of(), (note("on-emulated-device", system="A"),)),
        # That comes before another model, and another model before what nobody explains.
        (
            of("A", timed=False, status="failed", model_config=shape()),
            of(model_config=shape(num_layers=16)),
            (note("untimed", ended="failed", system="A"),),
        ),
        (
            of("A", timed=False, status="failed", model_config=shape()),
            of(timed=False, model_config=shape(num_layers=16)),
            (note("untimed", ended="failed", system="A"), note("untimed", system="B")),
        ),
        (
            of("A", timed=False, model_config=shape()),
            of(model_config=shape(num_layers=16)),
            (note("shapes-differ", conflict="num layers 32 and 16"),),
        ),
        (of("A", timed=False), of(), (note("untimed", system="A"),)),
        (of("A"), of(timed=False), (note("untimed", system="B"),)),
        (
            of("A", timed=False),
            of(timed=False),
            (note("untimed", system="A"), note("untimed", system="B")),
        ),
        (of("A", timed=False, findings=BAD), of(), (note("untimed", system="A"),)),
        # Scales.
        (of("A", scale="tiny"), of(), (note("scales-differ", first="tiny", second="full"),)),
        (
            of("A", scale="full"),
            of(scale="small"),
            (note("scales-differ", first="full", second="small"),),
        ),
        (
            of("A", scale=None),
            of(scale="small"),
            (note("scales-differ", first="unknown", second="small"),),
        ),
        (of("A", scale=None), of(scale="full"), ()),
        (of("A", scale="tiny"), of(scale="tiny"), ()),
        # A model that nobody names.
        (of("A", model=None), of(model=None), (note("models-unnamed"),)),
        (of("A", model=None, model_config=shape()), of(model=None, model_config=shape()), ()),
        (of("A"), of(), ()),
        # What is excluded: the baseline's first.
        (of("A", findings=BAD), of(findings=OPEN), (note("text", text="impossible", system="A"),)),
        (of("A"), of(findings=OPEN), (note("text", text="unverified", system="B"),)),
        (of("A", findings=BAD[:1]), of(), ()),
        (
            of("A", scale="tiny", findings=BAD),
            of(),
            (note("scales-differ", first="tiny", second="full"),),
        ),
        # Runs that are unlike each other.
        (
            apart(100.0, 200.0),
            of(),
            (note("runs-of-several-configurations", spread=2.0, system="B"),),
        ),
        (
            of("A"),
            apart(100.0, 251.2, 99.9),
            (note("runs-of-several-configurations", spread=2.5145145145145142, system="B"),),
        ),
        (apart(100.0, 199.0), of(), ()),
        (apart(100.0, 251.0, session="s"), of(), ()),
        (
            dataclasses.replace(apart(100.0, 251.0), findings=BAD),
            of(),
            (note("text", text="impossible", system="B"),),
        ),
        # One log, read twice.
        (
            of("A", **read("0")),
            of(**SAME, **read("0")),
            (note("copies-of-one-run", file="a.json", copy="a.json"),),
        ),
        (of("A", **read("0")), of(**SAME, **read("1")), ()),
        # Rates that are unknown.
        (of("A", None), of(), (note("rate-unknown", unit="tokens/s/GPU", system="A"),)),
        (of("A"), of(rate=None), (note("rate-unknown", unit="tokens/s/GPU", system="B"),)),
        (of("A", None), of(rate=None), (note("rate-unknown", unit="tokens/s/GPU"),)),
        (
            of("A", None, notes=(*notes_of("x"), NO_BATCH, NO_GPUS)),
            of(rate=None, notes=(NO_GPUS,)),
            (
                note("rate-without-sizes", unknown="batch", unit="tokens/s/GPU", system="A"),
                note("rate-without-gpus", unit="tokens/s/GPU", system="B"),
            ),
        ),
        (
            of("A", None, notes=(WITHHELD,)),
            of(rate=None, notes=(WITHHELD,)),
            (
                note(
                    "rate-contradicted",
                    printed=8.0,
                    times=2.0,
                    batch=2,
                    length=4,
                    unit="tokens/s/GPU",
                ),
            ),
        ),
        # Other work.
        (
            of("A", length=4096),
            of(),
            (note("workload-differs", what="sequence length", first=4096, second=2048),),
        ),
        (
            of("A"),
            of(length=None),
            (note("workload-differs", what="sequence length", first=2048, second="unknown"),),
        ),
        (
            of("A", length=None),
            of(),
            (note("workload-differs", what="sequence length", first="unknown", second=2048),),
        ),
        (
            of("A", samples=True),
            of(),
            (note("workload-differs", what="sequence length", first=2048, second=2048),),
        ),
        (of("A", samples=True, length=None), of(samples=True), ()),
        (of("A", samples=True, length=1), of(samples=True, length=2), ()),
    ],
)
def test_why_two_can_t_be_compared(one, other, reason):
    found = pair(one, other)
    assert (found.reasons, found.ratio is None) == (reason, bool(reason))


def unrated(name, **fields):
    return system(name, result(None, make_run(**fields), unit="samples"), values=TIMED)


@pytest.mark.parametrize(
    ("fields", "unknown"),
    [
        ({"batch": None}, ("batch size",)),
        ({"gpus": None}, ("number of GPUs",)),
        ({"batch": None, "gpus": None}, ("batch size", "number of GPUs")),
    ],
)
def test_why_a_rate_in_samples_is_unknown(fields, unknown):
    def why(unit, name):
        return (note("rate-without-batch", unit=unit, unknown=unknown, system=name),)

    found = pair(of("A", samples=True), unrated("B", **fields))
    assert found.reasons == why("samples/s/GPU", "B")
    # The unit is that of the system.
    found = pair(unrated("A", **fields), of(samples=True))
    assert found.reasons == why("samples/s/GPU", "A")
    assert pair(unrated("A", **fields), of()).reasons == why("tokens/s/GPU", "A")


def test_in_the_same_mode_a_difference_of_configuration_forbids_a_ratio():
    one, other = of("A", batch=32, precision="fp8"), of()
    assert pair(one, other).reasons == ()
    found = pair(one, other, mode="same")
    assert (found.reasons, found.ratio) == (
        (note("configurations-not-equal", settings=("precision", "global batch")),),
        None,
    )
    assert found.config_diff == compute.config_diff(one.run, other.run, mode="same")
    assert pair(of("A"), of(), mode="same").reasons == ()
    # Another length forbids a ratio in each mode, and is told as work.
    long = of("A", length=4096)
    assert pair(long, of()).reasons == (
        note("workload-differs", what="sequence length", first=4096, second=2048),
    )
    assert pair(long, of(), mode="same").reasons == (
        note("configurations-not-equal", settings=("sequence length",)),
    )
    # What can't be compared anyway says why.
    assert pair(dataclasses.replace(one, findings=BAD), other, mode="same").reasons == (
        note("text", text="impossible", system="A"),
    )
    assert pair(of("A", None, batch=32), other, mode="same").reasons == (
        note("configurations-not-equal", settings=("global batch",)),
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
            (),
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
    assert different_work(of("A"), of("B", device=MI300X, batch=3)) == ()
    assert different_work(of("A", scale="tiny"), of("B", length=1)) == (
        (note("workload-differs", what="sequence length", first=2048, second=1),)
    )
    assert different_work(of("A", scale="tiny"), of("B")) == (
        (note("scales-differ", first="tiny", second="full"),)
    )
