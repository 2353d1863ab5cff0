"""Each caveat in full: its code, its severity and its text, of systems whose values the test
states.
"""

from __future__ import annotations

import datetime

import msgspec
import pytest
from made_runs import H100, MI300X, make_run
from made_systems import finding_of, pair_of, result, segment, system, value
from stored_runs import note, notes_of, series, text_of

from tprimat.analysis.run_order import Order
from tprimat.analysis.summary import UNLIKE_BLOCKS
from tprimat.checks import CONTRADICTION
from tprimat.checks.compute import Entry
from tprimat.checks.training import TrainingMatch
from tprimat.compare import caveats as module
from tprimat.compare import setting_caveats
from tprimat.compare.caveats import CODES, OF_ONE, caveats, incomplete
from tprimat.notes import TEXT, Note
from tprimat.results.account import Timing
from tprimat.results.conditions import Disturbance, Preflight
from tprimat.results.run import (
    FROM_DESCRIPTION,
    Environment,
    Steady,
    Tuning,
)
from tprimat.results.telemetry import Telemetry, TelemetryIssue

CPU = {"device": None, "stack": "cpu"}
OLD_CPU, NEW_CPU = (Environment(cpu_instructions=each) for each in (("avx2",), ("avx512_bf16",)))


def told(systems, pairs=()):
    return [(each.code, each.severity, each.notes) for each in caveats(systems, pairs)]


def of(*runs, name="A", **fields):
    return system(name, *(result(run=run) for run in runs), **fields)


def named(*runs):
    """Systems A, B, C, … of one run each."""
    return [of(run, name=name) for name, run in zip("ABCDEF", runs, strict=False)]


def described(precision, detail=f"{FROM_DESCRIPTION}: it"):
    config = msgspec.structs.replace(
        make_run().training_config, precision=precision, precision_detail=detail
    )
    return make_run(training_config=config)


FROM_NAMES = (Note("from-names", {"facts": "GPUs 8"}),)
MODEL_FROM_DIRECTORY = (Note("model-from-directory", {"directory": "llama", "model": "Llama"}),)


def over_blocks(mean, block, why):
    return Note(UNLIKE_BLOCKS, {"mean": mean, "typical": 1.0, "block": block, "why": why})


def steps_cut(first, last):
    return Note("steps-cut", {"first": first, "last": last})


def warned(*warnings):
    return make_run(notes=notes_of(*warnings))


def covering(covers):
    return make_run(timing=Timing(covers=covers))


def tuned(device=H100, runs_on=H100, **fields):
    return make_run(runs_on, tuning=Tuning(device_name=device, **fields))


def logging(tokens, batch=64):
    """A system whose log counts the tokens of a step and states no sequence length."""
    values = {"tokens_per_second": value(tokens / 4), "avg_step_time_seconds": value(4.0)}
    return of(make_run(length=None, batch=batch), values=values)


def busy(other=None, stolen=None, **fields):
    return make_run(
        **CPU,
        **fields,
        disturbance=Disturbance(other_programs_cpu_share=other, steal_cpu_share=stolen),
    )


def seen(*codes, severity="warning", **fields):
    issues = tuple(
        TelemetryIssue(code=code, text=f"it is {code}", severity=severity) for code in codes
    )
    return make_run(telemetry=Telemetry(issues=issues, **fields))


def capped(share, samples=10, *codes):
    return seen(
        *codes,
        severity="info",
        samples=samples,
        throttle_shares={"power-cap": share, "thermal": 0.9},
    )


TUNED_ELSEWHERE = (
    note(
        "tuning", efforts=("A had settings tuned on AMD Instinct MI300X", "B had 7 tuning trials")
    ),
)
LONG = "one batch from its start hook to its end hook, and more of it"


@pytest.mark.parametrize(
    "row",
    [
        ([make_run(), make_run()],),
        # The precision.
        (
            [make_run(precision=None), make_run()],
            (
                "precision-unknown",
                "warning",
                (note("precisions-unknown", whose="A", systems=("A",)),),
            ),
        ),
        (
            [make_run(precision=None), make_run(), make_run(precision=None)],
            (
                "precision-unknown",
                "warning",
                (note("precisions-unknown", whose="A and C", systems=("A", "C")),),
            ),
        ),
        (
            [make_run(precision=None)] * 3 + [make_run()],
            (
                "precision-unknown",
                "warning",
                (note("precisions-unknown", whose="3 of 4 systems", systems=("A", "B", "C")),),
            ),
        ),
        (
            [make_run(precision=None)] * 2,
            ("precision-unknown", "warning", (note("precisions-unknown"),)),
        ),
        (
            [make_run(precision=None), make_run(**CPU, precision=None)],
            (
                "precision-unknown",
                "warning",
                (note("precisions-unknown", whose="A", systems=("A",)),),
            ),
        ),
        ([make_run(**CPU, precision=None)] * 2,),
        (
            [make_run(), make_run(precision="fp8"), make_run(), make_run(precision="fp16")],
            (
                "precision-differs",
                "warning",
                (note("precisions-differ", precisions=("BF16", "FP8", "FP16"), described=None),),
            ),
        ),
        ([make_run(), make_run(**CPU, precision="fp32")],),
        (
            [described("fp8"), make_run(), described("fp16")],
            (
                "precision-differs",
                "warning",
                (
                    (
                        note(
                            "precisions-differ",
                            precisions=("FP8", "BF16", "FP16"),
                            described="FP8 and FP16",
                        ),
                    )
                ),
            ),
        ),
        (
            [described("fp8"), described("fp8", "delayed")],
            (
                "precision-source",
                "info",
                (note("precision-described", described="FP8"),),
            ),
        ),
        ([described("fp8", "delayed"), described("fp8", None)],),
        (
            [described(None), make_run()],
            (
                "precision-unknown",
                "warning",
                (note("precisions-unknown", whose="A", systems=("A",)),),
            ),
        ),
        # Where model and GPUs are from.
        (
            [make_run(notes=(Note("x"), *MODEL_FROM_DIRECTORY)), warned("model from a directory")],
            (
                "model-source",
                "info",
                (note("model-guessed", systems=("A",)),),
            ),
        ),
        (
            [make_run(notes=MODEL_FROM_DIRECTORY)] * 2,
            ("model-source", "info", (note("model-guessed"),)),
        ),
        (
            [make_run(notes=FROM_NAMES), warned(), make_run(notes=FROM_NAMES)],
            (
                "gpu-source",
                "info",
                (note("gpu-guessed", systems=("A", "C")),),
            ),
        ),
        (
            [make_run(notes=FROM_NAMES)] * 2,
            (
                "gpu-source",
                "info",
                (note("gpu-guessed"),),
            ),
        ),
        # What a step time covers.
        (
            [covering("b"), covering("b"), covering("a"), covering("c")],
            ("timer-differs", "warning", (note("timers-differ", timers=("b", "a")),)),
        ),
        ([covering("b"), covering(None), covering("b")],),
        (
            [covering(LONG), covering("data wait")],
            (
                "timer-differs",
                "warning",
                (
                    note(
                        "timers-differ",
                        timers=("batch without data wait", "whole step with data wait"),
                    ),
                ),
            ),
        ),
        (
            [covering("word " * 8 + "1234"), covering("word " * 8 + "12345")],
            (
                "timer-differs",
                "warning",
                (
                    note(
                        "timers-differ",
                        timers=(
                            "word word word word word word word word 1234",
                            "word word word word word word word word …",
                        ),
                    ),
                ),
            ),
        ),
        (
            [covering("one, two" + " three" * 7), covering("one, two; three" + " four" * 6)],
            ("timer-differs", "warning", (note("timers-differ", timers=("one", "one")),)),
        ),
        (
            [covering("one, two" + " three" * 6), covering("one, two; three" + " four" * 6)],
            (
                "timer-differs",
                "warning",
                (
                    note(
                        "timers-differ",
                        timers=("one, two three three three three three three", "one"),
                    ),
                ),
            ),
        ),
        # A CPU without BF16.
        (
            [make_run(**CPU, precision="fp32"), make_run(**CPU, environment=OLD_CPU)],
            (
                "bf16-emulated",
                "warning",
                (note("bf16-emulated"),),
            ),
        ),
        (
            [
                make_run(**CPU, precision="fp32", environment=OLD_CPU),
                make_run(**CPU, environment=NEW_CPU),
            ],
        ),
        ([make_run(environment=OLD_CPU), make_run(**CPU, environment=NEW_CPU)],),
        # Batches.
        (
            [make_run(batch=each) for each in (64, None, 64, 128, 256, 512)],
            (
                "batch-differs",
                "warning",
                ((note("batches-differ", batches=("64", "unknown", "128", "256"), unit="tokens"),)),
            ),
        ),
        # Tuning.
        (
            [
                tuned(trials=1, seconds=90.0),
                tuned(None, trials=None),
                tuned(device=H100, runs_on=None, trials=3),
            ],
            (
                "tuning",
                "info",
                (
                    (
                        note(
                            "tuning",
                            efforts=(
                                "A had 1 tuning trial (1 min 30 s)",
                                "B had 0 tuning trials",
                                "C had 3 tuning trials",
                            ),
                        ),
                    )
                ),
            ),
        ),
        (
            [tuned(MI300X, trials=2), tuned(trials=7)],
            (
                "tuning-differs",
                "warning",
                (
                    note(
                        "tuning",
                        efforts=(
                            "A had settings tuned on AMD Instinct MI300X",
                            "B had 7 tuning trials",
                        ),
                    ),
                ),
            ),
        ),
        (
            [make_run(), tuned(trials=7, seconds=0.0)],
            (
                "tuning-differs",
                "warning",
                (note("tuning", efforts=("A had no tuning", "B had 7 tuning trials")),),
            ),
        ),
        # What telemetry saw.
        (
            [seen("thermal", "xid"), seen("link-errors", "xid")],
            (
                "throttled",
                "warning",
                (note("telemetry-event", kind="thermal", event="it is thermal", system="A"),),
            ),
            (
                "device-errors",
                "warning",
                (
                    note("telemetry-event", kind="xid", event="it is xid", system="A"),
                    note("telemetry-event", kind="xid", event="it is xid", system="B"),
                ),
            ),
        ),
        ([seen("thermal", severity="info"), seen("unheard-of")],),
        (
            [capped(0.5), capped(0.499), capped(0.75)],
            (
                "at-power-cap",
                "info",
                (note("at-power-cap", shares=("A 50%", "C 75%")),),
            ),
        ),
        ([capped(0.9, None), capped(0.9, 10, "power-cap")],),
        (
            [
                make_run(preflight=Preflight(slow_devices=each))
                for each in (("GPU 3", "GPU 5"), (), ("GPU 1",))
            ],
            (
                "slow-device",
                "warning",
                (note("slow-devices", devices=("GPU 3 and GPU 5 of A", "GPU 1 of C")),),
            ),
        ),
        # The CPU in other hands.
        (
            [busy(0.06, 0.3), busy(0.23, 0.07), busy(None, None)],
            (
                "disturbed",
                "warning",
                (
                    (
                        note(
                            "cpu-used-by-others",
                            users=(
                                "other programs used up to 23% of the CPU",
                                "the hypervisor used up to 30% of the CPU",
                            ),
                        ),
                    )
                ),
            ),
        ),
        (
            [busy(0.05, 0.051), make_run(disturbance=Disturbance(other_programs_cpu_share=0.9))],
            (
                "disturbed",
                "warning",
                (note("cpu-used-by-others", users=("the hypervisor used up to 5% of the CPU",)),),
            ),
        ),
        ([busy(0.05, 0.05), busy(0.01)],),
        # A single record.
        (
            [make_run(steps=1, warmup=())] * 2,
            (
                "no-steady-state",
                "warning",
                (note("single-record-each"),),
            ),
        ),
        (
            [make_run(steps=1, warmup=()), make_run(), make_run(steps=1, warmup=())],
            (
                "no-steady-state",
                "warning",
                (note("single-record", systems=("A", "C")),),
            ),
        ),
        # Runs that broke off.
        (
            [make_run(status="incomplete"), make_run(), make_run(status="failed", steps=59)],
            (
                "incomplete",
                "warning",
                (
                    note("no-run-finished", outcome="incomplete", system="A"),
                    note("no-run-finished", outcome="failed", system="C"),
                ),
            ),
        ),
    ],
)
def test_of_single_runs(row):
    runs, *expected = row
    assert told(named(*runs)) == expected


def spread(*rates, **fields):
    """A system of runs of these rates, each in a session of its own."""
    return system("A", *(result(rate) for rate in rates), **fields)


def variables(name, *settings):
    """A system of runs, each with these environment variables."""
    return system(
        name, *(result(run=make_run(environment=Environment(settings=each))) for each in settings)
    )


def with_summaries(name, *summaries, **fields):
    return system(name, *(result(run=make_run(), **each) for each in summaries), **fields)


def halves(before, after, cause=None, at=31):
    """Two segments, the second one with an event as its cause: its text and its title."""
    if cause:
        text, title = cause
        cause = Note("event", {"event": "x", "text": text, "title": title})
    return {"segments": (segment(4, at - 1, before), segment(at, 60, after, cause=cause))}


def drifting(*drifts):
    return {
        "segments": tuple(
            segment(20 * n + 1, 20 * n + 20, 4.0, drift=each) for n, each in enumerate(drifts)
        )
    }


def outlying(longest, median=1.0, mean=1.0, last=100, more=()):
    figures = {
        "max_step_time_seconds": longest,
        "median_step_time_seconds": median,
        "avg_step_time_seconds": mean,
    }
    return {"performance": figures, "segments": (segment(1, last, 1.0), *more)}


B = system("B")
UNSETTLED = {"steady": Steady()}
OUTLIER = "one outlier step took"
CAPTION = "the result may include warm-up"


@pytest.mark.parametrize(
    "row",
    [
        ((spread(100, 101), B),),
        (
            (spread(100, 101), system("B", *[result()] * 3)),
            ("few-runs", "warning", (note("few-runs"),)),
        ),
        ((spread(100, 101, 102), system("B", *[result()] * 3)),),
        # Contradictions.
        (
            (
                system(
                    "A",
                    findings=tuple(
                        finding_of("warning", CONTRADICTION, each) for each in ("x", "y")
                    ),
                ),
                system(
                    "B",
                    findings=(
                        finding_of("warning", CONTRADICTION, "z"),
                        finding_of("info", "other", "no"),
                    ),
                ),
            ),
            (
                "contradiction",
                "warning",
                (
                    note("text", text="x", system="A"),
                    note("text", text="y", system="A"),
                    note("text", text="z", system="B"),
                ),
            ),
        ),
        # Events of several runs.
        (
            (
                of(seen("power-cap"), make_run(), seen("sync-boost", "thermal")),
                of(make_run(), make_run(), seen("clock-setting"), name="B"),
            ),
            (
                "throttled",
                "warning",
                (
                    note(
                        "telemetry-event",
                        kind="thermal",
                        event="it is thermal",
                        disturbed=2,
                        runs=3,
                        system="A",
                    ),
                    note(
                        "telemetry-event",
                        kind="clock-setting",
                        event="it is clock-setting",
                        disturbed=1,
                        runs=3,
                        system="B",
                    ),
                ),
            ),
        ),
        (
            (of(seen("xid"), make_run()), B),
            (
                "device-errors",
                "warning",
                (
                    note(
                        "telemetry-event",
                        kind="xid",
                        event="it is xid",
                        disturbed=1,
                        runs=2,
                        system="A",
                    ),
                ),
            ),
        ),
        # Shares of readings count by their number: (0.2 · 30 + 0.8 · 90) / 120; a run without
        # readings doesn't count.
        (
            (of(capped(0.2, 30), capped(0.8, 90), capped(0.1, None)), B),
            ("at-power-cap", "info", (note("at-power-cap", shares=("A 65%",)),)),
        ),
        (
            (
                of(
                    *(
                        make_run(preflight=Preflight(slow_devices=each))
                        for each in (("1", "2"), ("2", "3"), ())
                    )
                ),
                system("B", *[result()] * 3),
            ),
            (
                "slow-device",
                "warning",
                (note("slow-devices", devices=("1, 2 and 3 of A",)),),
            ),
        ),
        # A timer that says nothing where blocks were measured.
        ((with_summaries("A", {"clock": "blocks"}), of(covering("b"), name="B")),),
        (
            (
                with_summaries("A", {"clock": "blocks"}, {}, {"clock": "blocks"}),
                of(*[covering("b")] * 3, name="B"),
            ),
            ("timer-differs", "warning", (note("timers-differ", timers=("a whole step", "b")),)),
        ),
        # Tokens that a log counts.
        (
            (logging(10_000), logging(10_101), logging(9_999), logging(9_998), logging(9_997)),
            (
                "batch-differs",
                "warning",
                ((note("tokens-differ", tokens=("10,000", "10,101", "9,999", "9,998")),)),
            ),
        ),
        ((logging(10_000), logging(10_099)),),
        ((logging(10_000), of(make_run(), name="B", values=dict(logging(20_000).values))),),
        ((logging(10_000), of(make_run(length=None), values={"tokens_per_second": value(9.0)})),),
        (
            (
                logging(10_000),
                of(make_run(length=None), values={"avg_step_time_seconds": value(9.0)}),
            ),
        ),
        (
            (
                system("A", result(unit="samples", run=make_run(batch=32))),
                B,
            ),
            (
                "batch-differs",
                "warning",
                (note("batches-differ", batches=("32", "64"), unit="samples"),),
            ),
        ),
        # The tuning of the first run that has one.
        (
            (
                of(make_run(), tuned(trials=2), tuned(trials=5)),
                of(*[tuned(trials=4)] * 3, name="B"),
            ),
            (
                "tuning",
                "info",
                (note("tuning", efforts=("A had 2 tuning trials", "B had 4 tuning trials")),),
            ),
        ),
        # A speed that changes.
        (
            (
                with_summaries("A", halves(2.0, 1.5, ("clock: 1.2 GHz", "clock"))),
                with_summaries("B", halves(0.05, 3.25, at=41)),
            ),
            (
                "speed-changed",
                "warning",
                (
                    (
                        note(
                            "speeds-changed",
                            changes=(
                                "A at step 31 (2.000 s → 1.500 s, clock)",
                                "B at step 41 (50.0 ms → 3.250 s)",
                            ),
                        ),
                    )
                ),
            ),
        ),
        (
            (with_summaries("A", halves(2.0, 1.5), {}, {}), system("B", *[result()] * 4)),
            ("speed-changed", "info", (note("speeds-changed-in-some", changing=1, runs=7),)),
        ),
        # A block unlike the others.
        (
            (
                system(
                    "A",
                    value_notes=(
                        *notes_of("no"),
                        over_blocks(2.0, "block 5 takes 1.5×", ": it waits"),
                    ),
                ),
                B,
            ),
            (
                "unlike-blocks",
                "warning",
                (
                    note(
                        "unlike-block",
                        mean=2.0,
                        typical=1.0,
                        block="block 5 takes 1.5×",
                        why=": it waits",
                        system="A",
                    ),
                ),
            ),
        ),
        (
            (
                system(
                    "A",
                    *[result()] * 3,
                    value_notes=(
                        over_blocks(2.0, "block 5", ": x"),
                        over_blocks(3.0, "block 6", ": y"),
                    ),
                ),
                system("B", *[result()] * 3, value_notes=(over_blocks(4.0, "block 7", ": z"),)),
            ),
            (
                "unlike-blocks",
                "warning",
                (
                    note(
                        "unlike-blocks-of-runs",
                        mean=2.0,
                        typical=1.0,
                        block="block 5",
                        why=": x",
                        system="A",
                    ),
                    note("also", systems=("B",)),
                ),
            ),
        ),
        # Drift, by its size.
        (
            (with_summaries("A", drifting(0.07)), B, with_summaries("C", drifting(-0.12))),
            ("drift", "info", (note("drift", share=0.12, systems=("A", "C")),)),
        ),
        (
            (with_summaries("A", drifting(0.03), drifting(-0.12)), B),
            ("drift", "info", (note("drift", share=0.12, systems=("A",)),)),
        ),
        ((with_summaries("A", drifting(None)), with_summaries("B", drifting(0.0))),),
        # Slow starts.
        ((with_summaries("A", {"skipped": 20}), B),),
        (
            (
                with_summaries("A", {"skipped": 3}),
                with_summaries("B", {"skipped": 21}, {"skipped": 7}),
            ),
            (
                "slow-start",
                "info",
                (note("slow-start-of-runs", steps=21),),
            ),
        ),
        ((with_summaries("A", {"skipped": 21, "unsettled": True}), B),),
        ((with_summaries("A", {"skipped": 21}), with_summaries("B", {"unsettled": True})),),
        # Steps that are cut.
        (
            (
                system("A", value_notes=(*notes_of("no"), steps_cut(1, 2))),
                system("B", value_notes=(steps_cut(3, 4),)),
            ),
            (
                "steps-cut",
                "info",
                (note("steps-cut", first=1, last=2, system="A"), note("also", systems=("B",))),
            ),
        ),
        # No steady state.
        (
            (
                with_summaries("A", {}, UNSETTLED),
                with_summaries("B", {}),
                with_summaries("C", UNSETTLED),
            ),
            (
                "no-steady-state",
                "info",
                (note("no-steady-state", where="A and C", systems=("A", "C")),),
            ),
        ),
        (
            (*[with_summaries("A", UNSETTLED)] * 2, with_summaries("B", UNSETTLED), B),
            (
                "no-steady-state",
                "info",
                (note("no-steady-state", where="3 of 4 systems", systems=("A", "A", "B")),),
            ),
        ),
        (
            (with_summaries("A", UNSETTLED), with_summaries("B", UNSETTLED)),
            (
                "no-steady-state",
                "info",
                (note("no-steady-state", where="any system", systems=("A", "B")),),
            ),
        ),
        ((system("A", result(run=make_run(steps=1, warmup=()), clock="blocks")), B),),
        (
            (
                system(
                    "A",
                    result(run=make_run(steps=1, warmup=())),
                    result(run=make_run()),
                    result(**UNSETTLED),
                ),
                system("B", *[result()] * 3),
            ),
            (
                "no-steady-state",
                "warning",
                (note("single-record", systems=("A",)),),
            ),
        ),
        # An outlier: (longest − median) / (mean · steps).
        ((with_summaries("A", outlying(2.0)), B),),
        ((with_summaries("A", outlying(2.01, last=101)), B),),
        (
            (with_summaries("A", outlying(2.02, last=101)), B),
            ("outlier", "info", (note("outlier", share=0.0100990099009901, system="A"),)),
        ),
        (
            (
                with_summaries("A", outlying(2.01)),
                with_summaries("B", {}, outlying(3.0, 1.5, 1.25, 60), outlying(3.0, 2.0, 1.25, 60)),
                with_summaries("C", outlying(2.015)),
            ),
            ("outlier", "info", (note("outlier", share=0.02, system="B"),)),
        ),
        ((with_summaries("A", outlying(None), outlying(9.0, None), outlying(9.0, 1.0, None)), B),),
        ((with_summaries("A", {**outlying(9.0), "segments": ()}), B),),
        (
            (
                with_summaries("A", outlying(9.0, more=(segment(101, 160, 1.0),)), {}, {}),
                system("B", *[result()] * 3),
            ),
            ("speed-changed", "info", (note("speeds-changed-in-some", changing=1, runs=6),)),
        ),
        # Runs that differ.
        (
            (spread(100, 125, 110), system("B", *[result()] * 3)),
            ("unlike-runs", "warning", (note("unlike-runs-of-sessions", spread=1.25, system="A"),)),
        ),
        ((spread(100, 124.9, 110), system("B", *[result()] * 3)),),
        (
            (
                system("A", *(result(rate, make_run(session="s")) for rate in (100, 150, 120))),
                system("B", *[result()] * 3),
            ),
            ("unlike-runs", "warning", (note("unlike-runs", spread=1.5, system="A"),)),
        ),
        (
            (system("A", order=Order("rises", 0.034)), system("B", order=Order("falls", -0.5))),
            (
                "order-of-runs",
                "warning",
                (
                    note("throughput-by-order", kind="rises", size=0.034, system="A"),
                    note("also", systems=("B",)),
                ),
            ),
        ),
        (
            (B, system("C", order=Order("alternates", -0.021))),
            (
                "order-of-runs",
                "warning",
                (note("throughput-alternates", kind="alternates", size=0.021, system="C"),),
            ),
        ),
        # Environment variables of one system's runs.
        (
            (
                variables("A", {"NCCL_ALGO": "Ring"}, {"NCCL_ALGO": "Tree"}, {}),
                system("B", *[result()] * 3),
            ),
            (
                "unlike-variables",
                "warning",
                (note("unlike-variables", variables=("NCCL_ALGO",), system="A"),),
            ),
        ),
        (
            (
                variables("A", *({"NCCL_A": n, "OMP_X": "1"} for n in "121")),
                system("B", *[result()] * 3),
            ),
            (
                "unlike-variables",
                "warning",
                (note("unlike-variables", variables=("NCCL_A",), system="A"),),
            ),
        ),
        (
            (
                variables("A", dict.fromkeys("EDCBA", "1"), {"Z": "1"}, {"Z": "1"}),
                system("B", *[result()] * 3),
            ),
            (
                "unlike-variables",
                "warning",
                (note("unlike-variables", variables=("A", "B", "C", "D", "E", "Z"), system="A"),),
            ),
        ),
        # Runs that state no variables don't count, nor do variables that select GPUs.
        (
            (
                variables("A", {"NCCL_ALGO": "Ring"}, {}, {"NCCL_ALGO": "Ring"}),
                system("B", *[result()] * 3),
            ),
        ),
        (
            (
                variables(
                    "A", *({"CUDA_VISIBLE_DEVICES": n, "HIP_VISIBLE_DEVICES": n} for n in "012")
                ),
                system("B", *[result()] * 3),
            ),
        ),
        # What the data is.
        (
            (
                system(
                    "A",
                    findings=(
                        finding_of("info", "other", "x"),
                        finding_of("info", "synthetic-data", "y"),
                    ),
                ),
                B,
                system(
                    "C",
                    findings=(
                        finding_of("info", "synthetic-data", "y"),
                        finding_of("info", "synthetic-data", "z"),
                    ),
                ),
            ),
            ("synthetic-data", "info", (note("text", text="y", system="A and C"),)),
        ),
        (
            [system(name, findings=(finding_of("info", "synthetic-data", "y"),)) for name in "AB"],
            ("synthetic-data", "info", (note("text", text="y"),)),
        ),
    ],
)
def test_of_systems(row):
    systems, *expected = row
    assert told(systems) == expected


def days(*seconds, rates=None, name="A"):
    """Runs of 400 s each that start at these seconds, with rates that rise by 1 per run unless they
    are stated.
    """
    start = datetime.datetime(2026, 2, 1, tzinfo=datetime.timezone.utc)
    runs = []
    for number, second in enumerate(seconds):
        moment = (
            None if second is None else (start + datetime.timedelta(seconds=second)).isoformat()
        )
        run = msgspec.structs.replace(
            make_run(steps=0, warmup=()), **series([40.0] * 10), timestamp=moment
        )
        runs.append(result((rates or range(100, 200))[number], run))
    return system(name, *runs)


THREE = system("B", *[result()] * 3)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            days(0, 400, 1400, 1800, rates=(100, 101, 110, 111)),
            "2 runs, 10 min 00 s after the first 2, are 10.0% faster",
        ),
        (days(0, 400, 1399, 1799, rates=(100, 101, 110, 111)), None),
        # In the order of their starts, whatever their own.
        (
            days(1800, 0, 1400, 400, 2200, rates=(88, 100, 90, 101, 91)),
            "3 runs, 10 min 00 s after the first 2, are 10.8% slower",
        ),
        # The longest break: the others differ by nothing.
        (
            days(0, 1100, 2500, 4000, 4400, 5600, rates=(100, 101, 104, 111, 110, 112)),
            "3 runs, 18 min 20 s after the first 3, are 9.2% faster",
        ),
        # Without a start or a rate a run belongs to neither.
        (days(0, 400, 1400, None, rates=(100, 101, 110, 111)), None),
        (days(0, 400, 1400, 1800, rates=(100, 101, 110, None)), None),
        (days(0, 1400), None),
        (days(0, 400, 800, 1200, rates=(100, 101, 110, 111)), None),
        # Welch's t has two degrees of freedom and an error of √0.5: p is 0.01 where the means
        # differ by 7.02.
        (days(0, 400, 1400, 1800, rates=(100, 101, 106.95, 107.95)), None),
        (
            days(0, 400, 1400, 1800, rates=(100, 101, 107.1, 108.1)),
            "2 runs, 10 min 00 s after the first 2, are 7.1% faster",
        ),
    ],
)
def test_sessions(found, text):
    expected = [] if text is None else [f"A: the last {text}"]
    assert [
        text_of(each) for each in caveats([found, THREE], ()) if each.code == "unlike-sessions"
    ] == expected


def test_without_such_sessions_there_is_no_text():
    for found in (days(0, 1400), days(0, 400, 1400, 1800), days(0, 400, 800, 1200)):
        assert module._of_sessions(found) == ()


def test_each_system_with_unlike_sessions_is_named():
    sessions = [days(0, 400, 1400, 1800, rates=(100, 101, 110, 111), name=name) for name in "AB"]
    (notes,) = (each.notes for each in caveats(sessions, ()) if each.code == "unlike-sessions")
    half = {"later": 2, "first": 2, "pause": 600.0, "change": pytest.approx(0.0995, abs=1e-4)}
    assert notes == tuple(
        note("unlike-sessions", **half, how="faster", system=name) for name in "AB"
    )


@pytest.mark.parametrize(
    ("run", "is_valid", "text"),
    [
        (make_run(), True, ""),
        (make_run(status="incomplete"), False, ""),
        (make_run(status="incomplete"), True, "incomplete"),
        (make_run(status="failed", steps=1_234), True, "failed"),
        (make_run(status="failed", steps=1, warmup=()), True, "failed"),
    ],
)
@pytest.mark.parametrize("planned", [None, 1_234, 1_300])
def test_how_far_an_incomplete_run_came(run, is_valid, text, planned):
    config = msgspec.structs.replace(run.training_config, max_steps=planned)
    run = msgspec.structs.replace(run, training_config=config)
    done = f"{run.steps[-1]:,} of {planned or 0:,}"
    is_stated = text and planned is not None and run.steps[-1] < planned
    found = incomplete(system("A", result(run=run, is_valid=is_valid)))
    assert text_of(found) == (f"{text} ({done} steps)" if is_stated else text)


def test_an_incomplete_run_without_a_step_states_none():
    run = make_run(steps=0, warmup=(), status="failed")
    config = msgspec.structs.replace(run.training_config, max_steps=9)
    run = msgspec.structs.replace(run, training_config=config)
    assert incomplete(system("A", result(run=run))) == (note("no-run-finished", outcome="failed"),)


def differs(title, first, second, explains=True, status="different"):
    return Entry(title, status, (first, second), explains)


A, C = system("A"), system("C")
WIDE = "x" * 60


@pytest.mark.parametrize(
    "row",
    [
        ([(B, A)], [[]]),
        # B, the baseline, is the second: values are in the order of the systems.
        (
            [(B, A), (B, C)],
            [[differs("kernel", "b", "a")], [differs("kernel", "b", "c")]],
            (
                "settings-differ",
                "warning",
                (note("settings-differ", settings="kernel: a vs b vs c", shown=("kernel",)),),
            ),
        ),
        # A value of the baseline is that of the first pair that says it; equal ones stand once.
        (
            [(B, A), (B, C)],
            [[differs("kernel", "b, x", "a, x")], [differs("kernel", "b, x", "b, x")]],
            (
                "settings-differ",
                "warning",
                (note("settings-differ", settings="kernel: a vs b vs b, x", shown=("kernel",)),),
            ),
        ),
        (
            [(B, A)],
            [[differs("kernel", None, "a"), differs("flag", "1", None)]],
            (
                "settings-differ",
                "warning",
                (
                    note(
                        "settings-differ",
                        settings="kernel: a vs unknown; flag: unknown vs 1",
                        shown=("kernel", "flag"),
                    ),
                ),
            ),
        ),
        # What has a caveat of its own.
        (
            [(B, A)],
            [[differs(title, "1", "2") for title in ("global batch", "step timer scope", "clock")]],
        ),
        # The machine is what is compared, unless it explains.
        ([(B, A)], [[differs("driver", "1", "2", explains=False)]]),
        (
            [(B, A)],
            [[differs("driver", "1", "2")]],
            (
                "settings-differ",
                "warning",
                (note("settings-differ", settings="driver: 2 vs 1", shown=("driver",)),),
            ),
        ),
        # Another precision has a caveat of its own, another recipe hasn't.
        ([(B, A)], [[differs("precision", "bf16", "fp8 (delayed)")]]),
        (
            [(B, A)],
            [[differs("precision", "fp8 (delayed)", "fp8 (blockwise)")]],
            (
                "settings-differ",
                "warning",
                (
                    note(
                        "settings-differ",
                        settings="precision: fp8 (blockwise) vs fp8 (delayed)",
                        shown=("precision",),
                    ),
                ),
            ),
        ),
        (
            [(B, A)],
            [
                [
                    differs("seed", "1", "2", False),
                    differs("kernel", "3", "4"),
                    differs("shuffle", "5", "6", False),
                ]
            ],
            (
                "settings-differ",
                "warning",
                (note("settings-differ", settings="kernel: 4 vs 3", shown=("kernel",)),),
            ),
            (
                "configuration-differs",
                "info",
                (
                    note(
                        "configuration-differs",
                        settings="seed (2 vs 1), shuffle (6 vs 5)",
                        shown=("seed", "shuffle"),
                    ),
                ),
            ),
        ),
        # A note has values only where they are short, and titles as far as they fit.
        (
            [(B, A)],
            [
                [
                    differs("seed", "1" * 18, "2" * 19, False),
                    differs("shuffle", "3" * 19, "4" * 19, False),
                ]
            ],
            (
                "configuration-differs",
                "info",
                (
                    note(
                        "configuration-differs",
                        settings="seed (2222222222222222222 vs 111111111111111111), also shuffle",
                        shown=("seed",),
                    ),
                ),
            ),
        ),
        (
            [(B, A)],
            [
                [
                    differs("seed", "1" * 19, "2" * 19, False),
                    differs("shuffle", "3" * 19, "4" * 19, False),
                ]
            ],
            (
                "configuration-differs",
                "info",
                (
                    note(
                        "configuration-differs", settings="seed, shuffle", shown=("seed", "shuffle")
                    ),
                ),
            ),
        ),
        (
            [(B, A)],
            [[differs(each, WIDE, "1") for each in ("kernel", "flag", "mode")]],
            (
                "settings-differ",
                "warning",
                (
                    note(
                        "settings-differ",
                        settings=f"kernel: 1 vs {WIDE}; also flag, mode",
                        shown=("kernel",),
                    ),
                ),
            ),
        ),
        # What is not reported, each once.
        (
            [(B, A), (B, C)],
            [
                [
                    differs("seed", "1", None, False, "unknown"),
                    differs("x", "1", None, False, "unknown"),
                ],
                [
                    differs("seed", None, None, False, "unknown"),
                    differs("y", "1", "1", False, "equal"),
                ],
            ],
            ("not-reported", "info", (note("not-reported", settings=2),)),
        ),
        (
            [(B, A)],
            [[differs("x", None, "1", False, "unknown")]],
            ("not-reported", "info", (note("not-reported", settings=1),)),
        ),
    ],
)
def test_settings_that_differ(row):
    pairs, entries, *expected = row
    found = [pair_of(*both, *each) for both, each in zip(pairs, entries, strict=True)]
    assert told((A, B, C), found) == expected


def test_of_many_values_four_are_shown():
    systems = [system(name) for name in "ABCDEF"]
    pairs = [pair_of(systems[0], each, differs("kernel", "a", each.name)) for each in systems[1:]]
    assert told(systems, pairs) == [
        (
            "settings-differ",
            "warning",
            (note("settings-differ", settings="kernel: a vs B vs C vs D", shown=("kernel",)),),
        )
    ]


def compiled(*seconds):
    return of(
        *(
            make_run(native_metrics={} if each is None else {"compile_time_seconds": each})
            for each in seconds
        )
    )


@pytest.mark.parametrize(
    ("title", "times", "bounds"),
    [
        ("compiler", ((31.26, 8.5, 20.0), (None, 9.0, (40.0,) * 60)), (8.5, 31.26)),
        ("compiler", ((8.5, None, None), (None, None, None)), (8.5, None)),
        ("compiler", ((8.5, 8.5, 8.5), (8.5, 8.5, 8.5)), (8.5, None)),
        ("compiler", ((None,), (None,)), None),
        ("kernel", ((31.26,), (8.5,)), None),
    ],
)
def test_the_time_of_compiling_is_told_where_the_compiler_may_explain_the_result(
    title, times, bounds
):
    one, other = (compiled(*each) for each in times)
    found = told((one, other), [pair_of(one, other, differs(title, "1", "2"))])
    expected = []
    if bounds is not None:
        expected.append((note("compile-time", least=bounds[0], most=bounds[1]),))
    assert [
        notes for code, severity, notes in found if (code, severity) == ("compile-time", "info")
    ] == expected


def trained(same, *reasons):
    notes = tuple(Note(TEXT, {"text": reason}) for reason in reasons)
    return pair_of(B, A, training=TrainingMatch(same, notes, None))


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ([trained(False, "x", "y")], (note("training-differs", reasons=("x", "y")),)),
        (
            [trained(None, "z"), trained(False, "x")],
            (note("training-differs", reasons=("data, learning rate or loss differ",)),),
        ),
        ([trained(None, "z"), trained(True, "x")], None),
    ],
)
def test_other_trainings(pairs, text):
    assert told((A, B), pairs) == ([] if text is None else [("training-differs", "info", text)])


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (("a, b, c", "c, d"), ("a, b", "d")),
        (("a, b", "b"), ("a, b", "b")),
        (("a (x, y), b", "b, a (x, z)"), ("a (x, y)", "a (x, z)")),
        (("x" * 60, "y" * 61), ("x" * 60, f"{'y' * 59}…")),
        (("y" * 61, "x" * 60), (f"{'y' * 59}…", "x" * 60)),
    ],
)
def test_two_lists_are_told_by_what_the_other_lacks(texts, found):
    assert setting_caveats._apart(*texts) == found


@pytest.mark.parametrize(
    ("longest", "text"),
    [
        (11, "aaaa; bbbb; also C, D"),
        (10, "aaaa; bbbb; also C, D"),
        (9, "aaaa; also B, C, D"),
        (16, "aaaa; bbbb; cccc; also D"),
        (22, "aaaa; bbbb; cccc; dddd"),
    ],
)
def test_texts_are_listed_as_far_as_they_fit(longest, text):
    texts = ["aaaa", "bbbb", "cccc", "dddd"]
    found = setting_caveats._listed("x", texts, "; ", longest, list("ABCD"))
    shown = tuple("ABCD"[: sum(each in text for each in texts)])
    assert found == note("x", settings=text, shown=shown)


def test_a_list_of_one_is_never_cut():
    found = setting_caveats._listed("x", ["aaaa"], "; ", 2, ["A"])
    assert found == note("x", settings="aaaa", shown=("A",))


@pytest.mark.parametrize(
    ("names", "text"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "3 of 7 systems")]
)
def test_names_for_one_line(names, text):
    assert setting_caveats.some_names(names, 7) == text


def test_codes_are_in_their_order_and_of_a_system_alone_those_that_concern_it():
    telling = make_run(
        precision=None,
        batch=32,
        status="incomplete",
        notes=(*FROM_NAMES, *MODEL_FROM_DIRECTORY, Note("loss-not-finite", {"first": 51})),
        telemetry=Telemetry(
            issues=tuple(
                TelemetryIssue(code=code, text="x") for code in ("xid", "thermal", "gpu-shared")
            ),
            samples=3,
            throttle_shares={"power-cap": 0.6},
        ),
        preflight=Preflight(slow_devices=("GPU 1",)),
    )
    on_cpu = make_run(
        **CPU,
        disturbance=Disturbance(steal_cpu_share=0.5),
        environment=OLD_CPU,
        timing=Timing(covers="x"),
        tuning=Tuning(trials=3),
    )
    contradicting = of(telling, name="A", findings=(finding_of("warning", CONTRADICTION, "x"),))
    cpu = of(on_cpu, name="B", order=Order("rises", 0.1), value_notes=(steps_cut(1, 2),))
    found = [code for code, *_ in told((contradicting, cpu))]
    assert found == [
        *(
            "contradiction",
            "loss-not-finite",
            "incomplete",
            "precision-unknown",
            "throttled",
            "shared",
            "disturbed",
        ),
        *(
            "device-errors",
            "slow-device",
            "timer-differs",
            "tuning-differs",
            "bf16-emulated",
            "order-of-runs",
        ),
        "batch-differs",
        # What couldn't change the decision comes last.
        *("at-power-cap", "model-source", "gpu-source", "steps-cut"),
    ]
    assert found[:-4] == [code for code in CODES if code in found[:-4]]
    assert found[-4:] == [code for code in CODES if code in found[-4:]]
    assert [code for code, *_ in told((contradicting,))] == [
        *(
            "contradiction",
            "loss-not-finite",
            "throttled",
            "shared",
            "device-errors",
            "slow-device",
            "at-power-cap",
        )
    ]
    assert [code for code, *_ in told((cpu,))] == ["disturbed", "bf16-emulated"]
    assert set(OF_ONE) <= set(CODES)


@pytest.mark.parametrize(
    ("fastest", "session", "texts"),
    [
        (125, "s", [(note("unlike-runs", spread=1.25, system="A"),)]),
        (124.9, "s", []),
        (100, "s", []),
        (125, None, []),
    ],
)
def test_runs_of_a_single_system_that_differ(fastest, session, texts):
    """Of several sessions, the headline says it."""
    alone = system("A", *(result(rate, make_run(session=session)) for rate in (100, fastest)))
    assert [text for code, _, text in told((alone,)) if code == "unlike-runs"] == texts
