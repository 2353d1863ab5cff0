"""Systems of several sizes as curves: what belongs together, efficiency, where it breaks, cost,
crossovers.
"""

from __future__ import annotations

import dataclasses
import math

import msgspec
import pytest
from made_runs import H100, MI300X, comparison, make_run
from stored_runs import texts_of

from tprimat.compare.cost import with_prices
from tprimat.compare.curves import scaling_of
from tprimat.results.account import Entry, Timing
from tprimat.results.ending import Ending
from tprimat.results.run import Environment, Optimizer, ParallelismConfig
from tprimat.results.telemetry import Telemetry, TelemetryIssue

AMD = {"device": MI300X, "stack": "rocm"}


def runs(
    gpus: int,
    step_time: float,
    batch: int | None = 64,
    count: int = 2,
    device: str = H100,
    **fields,
) -> tuple:
    """Runs of one size, whose means differ by 0.2 %."""
    return tuple(
        make_run(
            device,
            gpus=gpus,
            step_time=step_time * (1 + 0.002 * index),
            batch=batch,
            timestamp=f"2026-02-02T1{index}:44:16+00:00",
            **fields,
        )
        for index in range(count)
    )


def one(*groups):
    """The single curve of a comparison."""
    (curve,) = scaling_of(comparison(*groups)).curves
    return curve


def test_strong_scaling():
    curve = one(runs(16, 1.7), runs(8, 3.2), runs(32, 1.0))
    assert (curve.kind, curve.name) == ("strong", "H100 (BF16)")
    assert [size.gpus for size in curve.sizes] == [8, 16, 32]
    assert curve.sizes[0].efficiency is None
    efficiency = curve.sizes[2].efficiency
    # 3.2 s on 8 GPUs would be 0.8 s on 32.
    assert efficiency.value == pytest.approx(0.8)
    # Welch's t on logarithms, two runs each that differ by 0.2 %: two degrees of freedom.
    half = 4.302653 * math.log(1.002) / 2 * math.sqrt(2)
    assert math.log(efficiency.high / efficiency.value) == pytest.approx(half, rel=1e-4)


@pytest.mark.parametrize(
    ("batches", "kind"),
    [((16, 32, 64), "weak"), ((16, 32, 32), "mixed"), ((None, None, 32), "unknown")],
)
def test_other_kinds(batches, kind):
    if kind == "unknown":
        # Without a batch there are no tokens, so no throughput: that size is left alone.
        found = scaling_of(
            comparison(*(runs(8 * 2**i, 3.2, batch) for i, batch in enumerate(batches)))
        )
        assert (found.curves, len(texts_of(found.notes))) == ((), 3)
        return
    curve = one(*(runs(8 * 2**i, 3.2, batch) for i, batch in enumerate(batches)))
    assert curve.kind == kind
    assert any("a larger batch may need more samples" in note for note in texts_of(curve.notes))


@pytest.mark.parametrize(
    ("seconds", "place"),
    [
        ((3.2, 1.7, 1.0), 32),  # 94 % and 80 %
        ((3.2, 1.9, 0.8), 16),  # 84 %, and 100 % again
        ((3.2, 1.7, 0.85), None),
        # 89.9 %, but not by the whole interval.
        ((3.2, 1.78, 0.85), None),
    ],
)
def test_scaling_breaks_where_the_whole_interval_is_below_the_limit(seconds, place):
    curve = one(*(runs(8 * 2**i, each) for i, each in enumerate(seconds)))
    assert (curve.breaks_at and curve.breaks_at.gpus) == place


def test_one_run_has_an_efficiency_without_an_interval():
    curve = one(runs(8, 3.2, count=1), runs(16, 1.9, count=1))
    assert curve.sizes[1].efficiency.low is None
    assert curve.breaks_at.gpus == 16
    assert texts_of(curve.notes)[0] == "one run at every point: run-to-run variation unknown"


@pytest.mark.parametrize(
    "other",
    [
        {"length": 4096},
        {"precision": "fp8"},
        {"device": "NVIDIA H200"},
        {"label": "new"},
        {"framework": "megatron"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_work_or_another_system_is_another_curve(other):
    same = [runs(8, 3.2), runs(16, 1.7)]
    found = scaling_of(comparison(*same, runs(32, 1.0, **other)))
    assert [[size.gpus for size in curve.sizes] for curve in found.curves] == [[8, 16]]
    assert any(
        "is not shown: measured at one GPU count only" in note for note in texts_of(found.notes)
    )
    found = scaling_of(comparison(*same, runs(32, 1.0, **other), runs(64, 0.6, **other)))
    assert [[size.gpus for size in curve.sizes] for curve in found.curves] == [[8, 16], [32, 64]]
    assert len({curve.name for curve in found.curves}) == 2


def test_several_batches_of_each_size_are_lines_of_one_batch_or_of_one_per_gpu():
    strong = [
        runs(gpus, 8 * batch / gpus / 10, batch) for gpus in (8, 16, 32) for batch in (64, 96)
    ]
    found = scaling_of(comparison(*strong)).curves
    assert sorted((curve.kind, curve.sizes[0].batch, len(curve.sizes)) for curve in found) == [
        ("strong", 64, 3),
        ("strong", 96, 3),
    ]
    assert {curve.name for curve in found} == {
        "H100 (BF16), batch 64",
        "H100 (BF16), batch 96",
    }
    weak = [runs(gpus, 1.0 * each, each * gpus) for gpus in (8, 16, 32) for each in (1, 3)]
    found = scaling_of(comparison(*weak)).curves
    assert sorted((curve.kind, len(curve.sizes)) for curve in found) == [("weak", 3), ("weak", 3)]


def test_the_fastest_configuration_of_a_size_represents_it():
    slow = runs(16, 2.5, label=None, framework_config={"overlap": False})
    found = scaling_of(comparison(runs(8, 3.2), runs(16, 1.7), slow))
    (curve,) = found.curves
    assert curve.sizes[1].efficiency.value == pytest.approx(3.2 / 1.7 / 2)
    assert texts_of(found.notes) == (
        "Llama 3.1 8B: 1 slower configuration at the same GPU count not shown",
    )


def test_an_implausible_size_is_not_used():
    found = scaling_of(comparison(runs(8, 3.2), runs(16, 1.7), runs(32, 0.001)))
    assert [size.gpus for size in found.curves[0].sizes] == [8, 16]
    assert "excluded" in texts_of(found.notes)[0]


def test_systems_without_a_number_of_gpus_are_one_note_that_names_the_option():
    found = scaling_of(comparison(runs(None, 3.2, 64), runs(None, 1.7, 32), runs(None, 0.9, 16)))
    (note,) = texts_of(found.notes)
    assert note.startswith(
        "3 systems don't state their number of GPUs; set it with --num-gpus FILE=N"
    )
    found = scaling_of(comparison(runs(8, 3.2), runs(16, 1.7), runs(None, 0.9)))
    assert len(found.curves) == 1
    assert texts_of(found.notes)[0].startswith("1 system doesn't state its number of GPUs")


def test_tokens_per_dollar_and_per_joule():
    energy = {"energy_joules": 6.4e6, "measured_tokens": 1.6e6}
    found = comparison(runs(8, 3.2, energy_metrics=energy), runs(16, 1.7, energy_metrics=energy))
    (curve,) = scaling_of(with_prices(found, ["H100=2:4"]).comparison).curves
    for size in curve.sizes:
        assert size.per_dollar == pytest.approx(size.rate * 3600 / 3)
        assert size.per_joule == pytest.approx(0.25)


def test_an_assumed_power_is_no_energy():
    energy = {"energy_joules": 6.4e6, "measured_tokens": 1.6e6}
    found = comparison(runs(8, 3.2, energy_metrics=energy), runs(16, 1.7))
    assumed = dataclasses.replace(
        found, options=dataclasses.replace(found.options, tdp_energy=True)
    )
    assert [size.per_joule for size in scaling_of(assumed).curves[0].sizes] == [
        pytest.approx(0.25),
        None,
    ]


def test_settings_that_change_with_the_size_are_named():
    def parallel(size):
        return {"parallelism_config": ParallelismConfig(tensor_model_parallel_size=size)}

    curve = one(runs(8, 3.2, **parallel(1)), runs(16, 1.7, **parallel(2)))
    assert texts_of(curve.notes) == (
        "settings change with the number of GPUs: tensor parallel (1, 2)",
    )


def crossovers(first, second):
    groups = [runs(gpus, seconds) for gpus, seconds in first]
    groups += [runs(gpus, seconds, **AMD) for gpus, seconds in second]
    return scaling_of(comparison(*groups)).crossovers


def test_curves_that_cross():
    (found,) = crossovers([(8, 3.2), (16, 1.7), (32, 1.1)], [(8, 4.0), (16, 2.0), (64, 0.5)])
    assert (found.first.name, found.second.name) == ("H100 (BF16), nemo", "MI300X (BF16), primus")
    # At 32 GPUs the second one is interpolated between 16 and 64.
    assert (found.span, found.turns) == ((8, 32), ((16, 32),))
    (found,) = crossovers([(8, 3.2), (16, 2.5), (32, 0.9)], [(8, 4.0), (16, 2.0), (32, 1.0)])
    assert found.turns == ((8, 16), (16, 32))


def test_curves_that_do_not_cross_or_share_no_size():
    (found,) = crossovers([(8, 4.0), (16, 2.2)], [(8, 3.2), (16, 1.7)])
    assert (found.first.name, found.turns) == ("MI300X (BF16), primus", ())
    assert crossovers([(8, 3.2), (16, 1.7)], [(16, 1.7), (32, 1.0)]) == ()


@pytest.mark.parametrize(("count", "has_values"), [(2, True), (6, True), (7, False)])
def test_a_setting_that_changes_is_shown_with_its_values_of_six_sizes_at_most(count, has_values):
    sizes = [
        runs(2**place, 25.6 / 2**place, framework_config={"kernel": f"v{place}"})
        for place in range(count)
    ]
    (note,) = (note for note in texts_of(one(*sizes).notes) if note.startswith("settings change"))
    values = ", ".join(f"v{place}" for place in range(count))
    assert (
        note
        == f"settings change with the number of GPUs: kernel{f' ({values})' if has_values else ''}"
    )


SLOWED = {
    "telemetry": Telemetry(
        samples=50, issues=(TelemetryIssue(code="thermal", text="GPU clock lowered"),)
    )
}
BATCHES = (
    "the global batch changes with the number of GPUs (8 to 16); a larger batch may need more"
    " samples for the "
)
BATCHES += "same loss"


def blocks(step_time: float) -> tuple[Entry, ...]:
    return (Entry(kind="training", start=0, duration=60 * step_time, first_step=1, last_step=60),)


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({}, None),
        (SLOWED, "16×H100 (BF16): GPU clock lowered (in 2 of 2 runs)"),
        ({"status": "incomplete"}, "16×H100 (BF16): incomplete"),
        ({"environment": Environment(memory_held_by_others_gb=40.0)},
         "16×H100 (BF16): other programs held 40.00 GB of GPU memory at the start"),
        # What the table shows, or another note.
        ({"precision": "bf16", "optimizer": Optimizer(name="AdamW")}, None),
    ],
)  # fmt: skip
def test_what_a_size_is_affected_by_is_named_first(changes, note):
    curve = one(runs(8, 3.2, 8), runs(16, 1.7, 16, **changes))
    assert list(texts_of(curve.notes)) == [*([note] if note else []), BATCHES]


def test_sizes_are_compared_by_one_clock_where_all_have_one():
    sampled = Timing(kind="sampled", clock="monotonic", covers="a whole step")
    curve = one(
        runs(8, 3.2, 8, timing=sampled, timeline=blocks(4.0)),
        runs(16, 3.4, 16, timeline=blocks(4.0)),
    )
    assert curve.sizes[1].efficiency.value == pytest.approx(1.0)
    assert list(texts_of(curve.notes)) == [BATCHES]
    apart = one(
        runs(8, 3.2, 8, timing=sampled), runs(16, 3.4, 16, timing=sampled, timeline=blocks(4.0))
    )
    assert list(texts_of(apart.notes)) == [
        "step times are measured differently: sampled vs blocks",
        BATCHES,
    ]


@pytest.mark.parametrize("are_alike", [True, False])
def test_curves_on_unlike_clocks_do_not_cross(are_alike):
    sampled = Timing(kind="sampled", clock="monotonic", covers="a whole step")
    times = {"timing": sampled, "label": "b"}
    first = (runs(8, 3.2, 8, timing=sampled), runs(16, 3.3, 16, timing=sampled))
    second = (runs(8, 3.1, 8, **times), runs(16, 3.25, 16, **times))
    if not are_alike:
        second = (
            runs(8, 3.1, 8, timeline=blocks(4.0), **times),
            runs(16, 3.25, 16, timeline=blocks(4.1), **times),
        )
    found = scaling_of(comparison(*first, *second))
    assert len(found.crossovers) == are_alike
    text = "step times are measured differently from another curve's: "
    notes = [
        note for curve in found.curves for note in texts_of(curve.notes) if note.startswith(text)
    ]
    assert notes == ([] if are_alike else [f"{text}sampled", f"{text}blocks"])


@pytest.mark.parametrize(
    ("kind", "sizes"), [("finished", [1, 2, 4]), ("cut_off", [1, 2, 4]), ("failed", [2, 4])]
)
def test_e1_a_size_of_which_every_run_failed_is_no_part_of_a_curve(kind, sizes):
    """Nor its baseline: the smallest size is what the efficiency of all others refers to."""
    ending = Ending(kind=kind, cause="out of memory", line=812)
    broken = tuple(msgspec.structs.replace(run, ending=ending) for run in runs(1, 8.0))
    found = scaling_of(comparison(broken, runs(2, 4.0), runs(4, 2.0)))
    assert [size.gpus for size in found.curves[0].sizes] == sizes
    told = " ".join((*texts_of(found.notes), *texts_of(found.curves[0].notes)))
    assert ("out of memory, line 812" in told) is (kind != "finished")
    assert ("is not used: failed" in told) is (kind == "failed")
