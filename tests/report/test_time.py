"""--time: what each system's wall time goes to, why one is sooner, and the line on it of the first
screen.
"""

from __future__ import annotations

import dataclasses
import importlib
import re

import golden
import msgspec
import pytest
from made_mlperf import SYSTEM, mlperf_log, submission
from made_runs import MI300X, comparison, make_run
from rich.cells import cell_len
from stored_runs import note

from tprimat.analysis.run_account import percentiles
from tprimat.analysis.summary import summarize
from tprimat.compare import Loaded, compare
from tprimat.compare.cost import with_prices
from tprimat.compare.target import Target, parts_of, spent
from tprimat.report import Sources, document, screen, target, terminal
from tprimat.report.verdict import report
from tprimat.results.account import Entry
from tprimat.results.run import Source

OTHER = {**SYSTEM, "accelerator_model_name": "AMD Instinct MI355X"}
BLOCKS = ((12, 12_000, 900), (6, 6_030, 900), (6, 6_000, 930))
SLOWER = ((12, 15_000, 900), (6, 7_530, 900), (6, 7_500, 930), (6, 7_500, 930))


def submissions(tmp_path, *sets):
    """Return the report on systems, each of a system description and blocks."""
    files = []
    for number, (system, blocks) in enumerate(sets):
        runs = submission(tmp_path / str(number), [mlperf_log(blocks, records=0)], system=system)
        files.append(Loaded(f"{number}.json", str(number) * 8, tuple(runs)))
    return report(compare(files))


def spending(*entries, seconds=1.0, **fields):
    """Return a run of a hundred steps whose time goes to (kind, seconds), one after the other."""
    timeline, now = [], 0.0
    for kind, duration in entries:
        steps = {"first_step": 1, "last_step": 100} if kind == "training" else {}
        timeline.append(Entry(kind=kind, start=now, duration=duration, **steps))
        now += duration
    return msgspec.structs.replace(
        make_run(steps=100, step_time=seconds, **fields), timeline=tuple(timeline)
    )


def two(share: float):
    """Return the report on two systems, the first of which trains for this share of its time."""
    first = spending(("training", 100.0), ("checkpoint", 100.0 / share - 100.0))
    return report(
        comparison(first, spending(("training", 120.0), seconds=1.2, device=MI300X, stack="rocm"))
    )


def timed(found, **options):
    return terminal.write(target.document(found), **options)


@pytest.fixture
def made(tmp_path):
    return submissions(tmp_path, (SYSTEM, BLOCKS), (OTHER, SLOWER))


def test_golden(made):
    text = timed(made)
    golden.check("console_time.txt", text)
    # Two lines name the files below it.
    assert len(text.splitlines()) <= 22
    assert max(map(cell_len, text.splitlines())) <= 80


def test_golden_with_prices(made):
    text = terminal.write(
        screen.timed(report(with_prices(made.comparison, ["B200=5.50", "MI355X=3.95"]).comparison))
    )
    golden.check("console_time_with_cost.txt", text)
    assert len(text.splitlines()) <= 22
    assert max(map(cell_len, text.splitlines())) <= 80


def test_without_prices_time_is_as_it_was(made):
    assert screen.timed(made) == target.document(made)


def explained(steps: int = 100, **parts: float) -> str:
    """Return --time of two runs of a hundred steps, of which so many have a time; one has these
    parts of its time.
    """
    entries = [(name.replace("_", "-"), seconds) for name, seconds in parts.items()]
    made = spending(*entries), spending(("training", 120.0), device=MI300X, stack="rocm")
    runs = [
        msgspec.structs.replace(
            run,
            timeline=tuple(
                msgspec.structs.replace(entry, last_step=steps) if entry.first_step else entry
                for entry in run.timeline
            ),
            step_times=(seconds,) * 100,
        )
        for run, seconds in zip(made, (1.0, 1.2), strict=True)
    ]
    return timed(report(comparison(*runs)))


@pytest.mark.parametrize(("unknown", "is_explained"), [(99.0, True), (101.0, False)])
def test_time_that_is_unknown_for_the_most_part_does_not_explain_a_ratio(unknown, is_explained):
    text = explained(training=100.0, unknown=unknown)
    assert ("× = speed " in text) is is_explained
    assert ("much of the time is warm-up or unknown" in " ".join(text.split())) is not is_explained


@pytest.mark.parametrize(("steps", "is_explained"), [(91, True), (89, False)])
def test_steps_without_a_wall_time_do_not_explain_a_ratio(steps, is_explained):
    text = explained(steps, training=100.0)
    assert ("× = speed " in text) is is_explained
    assert ("much of the time is warm-up or unknown" in " ".join(text.split())) is not is_explained


def test_the_product_is_the_ratio_of_the_times(made):
    """26.92 s against 41.36 s: 37.53 / 30 over 24.03 / 24 seconds a step, and 30 against 24
    steps.
    """
    text = timed(made)
    time, *factors = map(
        float, re.search(r"(\S+)× = speed (\S+) × samples (\S+) × rest (\S+)", text).groups()
    )
    assert factors[0] == pytest.approx((37.53 / 30) / (24.03 / 24), abs=6e-4)
    assert factors[1] == 1.25
    assert factors[0] * factors[1] * factors[2] == pytest.approx(time, abs=2e-3)


def test_a_run_against_itself_is_1_00_everywhere(tmp_path):
    text = timed(submissions(tmp_path, (SYSTEM, BLOCKS), (OTHER, BLOCKS)))
    assert "1.000× = speed 1.000 × samples 1.000 × rest 1.000" in text
    ratios = re.findall(r" (\d\.\d\d)×$", text, re.MULTILINE)
    assert len(ratios) >= 5
    assert set(ratios) == {"1.00"}


def test_the_parts_add_up_to_the_whole(made):
    for system in made.comparison.systems:
        found = spent(system)
        assert sum(parts_of(found.mean).values()) == pytest.approx(found.mean["seconds"], abs=1e-3)
    lost = spending(("start-up", 5.0), ("training", 100.0), ("lost", 30.0), ("unknown", 1.0))
    (system,) = comparison(lost).systems
    found = parts_of(spent(system).mean)
    assert list(found) == ["start-up", "warm-up", "training", "lost", "unknown"]
    assert sum(found.values()) == pytest.approx(136.0)
    assert found["warm-up"] + found["training"] == pytest.approx(100.0)


@pytest.mark.parametrize(("share", "is_shown"), [(0.949, True), (0.951, False)])
def test_the_first_screen_has_a_line_below_95_percent_of_training(share, is_shown):
    found = two(share)
    shown = terminal.write(document.on_screen(found))
    assert ("Wall time: " in shown) is is_shown
    assert "– checkpoint" in timed(found)


def test_or_where_a_target_is_logged(made):
    assert "Time to target 26.9 vs 41.4 s: 1.54× = speed 1.25" in " ".join(
        terminal.write(document.on_screen(made)).split()
    )


@pytest.mark.parametrize(("speed", "text"), [(0.101, "speed 0.101"), (0.0654, "speed 0.0654")])
def test_a_small_factor_keeps_three_digits(speed, text):
    first = spending(("training", 100.0))
    second = spending(("training", 100.0 / speed), seconds=1 / speed, device=MI300X, stack="rocm")
    found = report(comparison(first, second, reference="8×H100 (BF16)"))
    assert text in timed(found)


@pytest.mark.parametrize(("share", "is_shown"), [(0.0006, True), (0.0004, False)])
def test_a_part_below_a_twentieth_of_a_percent_has_no_row(share, is_shown):
    assert ("– checkpoint" in timed(two(1 - share))) is is_shown


def test_runs_whose_speed_cannot_be_compared_have_no_product():
    first, second = (
        spending(("training", 100.0)),
        spending(("training", 90.0), device=MI300X, length=8192),
    )
    text = timed(report(comparison(first, second)))
    assert "= speed" not in text
    assert "×\n" not in text
    assert "sequence length" in text


@pytest.mark.parametrize(("steps", "is_product"), [(100, True), (101, False)])
def test_without_a_target_only_as_many_steps_have_a_product(steps, is_product):
    first, second = (
        spending(("training", 100.0)),
        spending(("training", 90.0), device=MI300X, stack="rocm"),
    )
    entries = tuple(
        msgspec.structs.replace(each, last_step=each.last_step and steps)
        for each in second.timeline
    )
    text = timed(report(comparison(first, msgspec.structs.replace(second, timeline=entries))))
    assert ("speed " in text) is is_product
    assert ("their numbers of steps differ" in text) is not is_product


def test_a_time_without_a_target_is_not_among_those_to_it(monkeypatch):
    def only_one(system):
        return Target(None, (), (), {"seconds": 600.0}, is_to_target=system.gpu != MI300X)

    monkeypatch.setattr("tprimat.report.target.spent", only_one)
    text = timed(two(0.9))
    assert "Time to the target: 10.00 min\n" in text
    assert "10.00 min (no target)" in text
    assert "Wall time" not in text


@pytest.mark.parametrize(
    ("loss", "row"),
    [(2.5, r"Time to the loss +\S+ s +\S+ s"), (1.5, "No run reaches a loss of 1.5")],
)
def test_time_to_a_loss(loss, row):
    runs = [
        msgspec.structs.replace(make_run(steps=100, label=each), loss_values=(2.0,) * 100)
        for each in "ab"
    ]
    compared = comparison(*runs)
    compared = dataclasses.replace(
        compared, options=dataclasses.replace(compared.options, target_loss=loss)
    )
    assert re.search(row, timed(report(compared)))


def test_without_a_clock_nothing_is_claimed():
    text = timed(report(comparison(make_run(), make_run(device=MI300X, stack="rocm"))))
    assert "Wall times are unknown" in text


def test_the_report_has_the_product_of_runs_without_a_target():
    blocks = list(target.blocks((found := two(0.9)).comparison, found.comparison.models[0]))
    (ratios,) = (each for each in blocks if getattr(each, "header", [""])[0] == "Ratio")
    assert ratios.header == ["Ratio", "time", "speed", "samples", "rest"]
    assert target.heading(found.comparison)[0] == "Wall time"


class TestPercentiles:
    @pytest.mark.parametrize(("steps", "known"), [(9, 1), (10, 2), (99, 2), (100, 3)])
    def test_each_has_enough_steps_above_it(self, steps, known):
        run = msgspec.structs.replace(make_run(steps=steps), step_times=(1.0,) * steps)
        found = percentiles([(run, summarize(run))])
        assert sum(value is not None for value in found) == known

    def test_they_are_of_single_steps_after_the_warm_up(self):
        run = make_run(steps=200)
        times = tuple(9.0 if step <= 5 else 1.0 + (step - 100) / 1000 for step in run.steps)
        run = msgspec.structs.replace(run, step_times=times)
        summary = summarize(run)
        assert summary.steady.first_step > 5
        found = percentiles([(run, summary)])
        assert found == pytest.approx((1.0025, 1.080, 1.098), abs=2e-3)

    @pytest.mark.parametrize(("window", "kind"), [(2, None), (1, "partial")])
    def test_means_of_several_steps_have_none(self, window, kind):
        run = make_run(steps=200)
        steps = tuple(window * step for step in run.steps)
        timing = msgspec.structs.replace(run.timing, kind=kind)
        run = msgspec.structs.replace(run, steps=steps, window_steps=(window,) * 200, timing=timing)
        assert percentiles([(run, summarize(run))]) == ()


def test_the_page_has_a_bar_for_each_run_of_all_its_time():
    page = (
        importlib.import_module("tprimat.report.page")
        .render(two(0.9), Sources("1", "compare"), None)
        .decode()
    )
    bars = re.findall(
        r'<div class="bar-of-parts" role="img" aria-label="([^"]+)">(.*?)</div>', page
    )
    assert len(bars) == 2
    widths = [sum(map(float, re.findall(r"width:([\d.]+)%", spans))) for _, spans in bars]
    # 111.1 s and 120 s: the longer run has the full width.
    assert widths == pytest.approx([100 * 100 / 0.9 / 120, 100.0], abs=0.01)
    assert "checkpoint 10.0%" in bars[0][0]


def test_the_page_has_no_bar_without_a_clock():
    found = report(comparison(make_run(), make_run(device=MI300X, stack="rocm")))
    page = (
        importlib.import_module("tprimat.report.page")
        .render(found, Sources("1", "compare"), None)
        .decode()
    )
    assert '<figure class="times">' not in page


@pytest.mark.parametrize("kind", ["live", "log"])
def test_a_recording_says_that_its_time_begins_after_the_start_of_the_process(kind):
    timeline = (Entry(kind="training", start=0.0, duration=192.0, first_step=1, last_step=60),)
    run = make_run(timeline=timeline, source=Source(kind=kind))
    (system,) = comparison(run).models[0].systems
    assert (note("recording-begins-late") in spent(system).notes) is (kind == "live")
