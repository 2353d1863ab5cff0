"""What the page draws, looks up and computes with: by rule, and as golden files of what people send
each other.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import golden
import msgspec
import pytest
from made_runs import H100, MI300X, comparison, failed_run, make_run

from tprimat.cli import run as run_command
from tprimat.compare import Loaded, compare
from tprimat.errors import ExitStatus
from tprimat.notes.catalogue import words
from tprimat.report import Sources, page
from tprimat.report.page import charts, windows
from tprimat.report.page.view import View, wall_times
from tprimat.report.plot.charts import Line, Series, step_times
from tprimat.report.verdict import report
from tprimat.results.run import Data
from tprimat.store import store

AMD = {"device": MI300X, "stack": "rocm"}
LONG = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
SUBMISSIONS = {
    "AMD": (
        "v5.1_AMD_8xMI355X.json",
        [f"v5.1_llama31_8b_AMD_8xMI355X_r{number}.txt" for number in range(10)],
    ),
    "Nebius": (
        "v5.1_Nebius_8xB200.json",
        [f"v5.1_llama31_8b_Nebius_8xB200_r{number:02d}.txt" for number in range(1, 11)],
    ),
}


def rendered(found):
    return page.render(report(found), Sources("1", ""), None).decode()


def failed_among_good():
    config = make_run(**AMD).training_config
    good = [
        make_run(
            step_time=3.2 + 0.01 * k,
            timestamp=f"2026-02-0{k + 1}T00:00:00Z",
            data=Data(kind="markov", entropy=1.9),
        )
        for k in range(3)
    ]
    others = [
        make_run(**AMD, step_time=2.4 + 0.01 * k, timestamp=f"2026-02-0{k + 1}T00:00:00Z")
        for k in range(3)
    ]
    broken = failed_run(timestamp="2026-02-05T00:00:00Z", training_config=config)
    return comparison(tuple(good), (*others, broken), failed_run("NVIDIA H200", stack="cuda"))


MADE = {
    "one_result": lambda: comparison(make_run()),
    "twenty_results": lambda: comparison(
        *(
            make_run(
                H100 if k % 2 else LONG,
                label=f"setting {k} of a rather long name",
                step_time=3 + 0.1 * k,
            )
            for k in range(20)
        )
    ),
    "failed_among_good": failed_among_good,
}


def loaded(paths):
    found, notes = store.find(paths)
    # Names without the directory of this machine.
    files = [Loaded(Path(each.name).name, "0" * 64, each.runs) for each in found]
    return compare(files, notes=[note for note in notes if "/" not in words(note)])


def held(result) -> str:
    """Return the data of a page as text: values by six digits, times by their last one, every sixth
    window.
    """
    data = page.data(View(report(result)))
    for run in data["runs"]:
        known = [time for time in run["wall"] if time is not None]
        run["wall"] = [len(run["wall"]), known[-1] if known else None]
    for grid in filter(None, data["windows"]):
        for name in ("rates", "ratios"):
            grid[name] = [[row[::6] for row in table[::6]] for table in grid[name]]
    return json_lines(rounded(data), 0) + "\n"


def rounded(value):
    # The last digits are those of the machine and of its numpy.
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def json_lines(value, depth) -> str:
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict) and value:
        rows = (
            f"{inner}{json.dumps(key)}: {json_lines(each, depth + 1)}"
            for key, each in value.items()
        )
        return "{\n" + ",\n".join(rows) + f"\n{outer}}}"
    if isinstance(value, list) and any(isinstance(each, (dict, list)) for each in value):
        return (
            "[\n"
            + ",\n".join(inner + json_lines(each, depth + 1) for each in value)
            + f"\n{outer}]"
        )
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("name", MADE)
def test_golden_of_our_own_runs(name):
    golden.check(f"page_{name}.json", held(MADE[name]()))


@pytest.mark.parametrize(
    ("name", "files"),
    [
        (
            "february_llama",
            ["train_nvd_nemo_llama-516b342.json", "train_amd_prim_llama-516b342.json"],
        ),
        (
            "january_llama",
            ["benchmark_cuda_llama-627dfac.json", "benchmark_rocm_llama-627dfac.json"],
        ),
    ],
)
def test_golden_of_results_that_others_sent(name, files, samples):
    golden.check(f"page_{name}.json", held(loaded([samples / "results" / file for file in files])))


def test_golden_of_two_submissions_of_ten_runs(samples, tmp_path):
    for submitter, (system, names) in SUBMISSIONS.items():
        results = tmp_path / submitter / "results" / "machine" / "llama31_8b"
        results.mkdir(parents=True)
        for number, name in enumerate(names):
            shutil.copy(samples / "mlperf" / name, results / f"result_{number}.txt")
        (tmp_path / submitter / "systems").mkdir()
        shutil.copy(
            samples / "mlperf" / "systems" / system,
            tmp_path / submitter / "systems" / "machine.json",
        )
    folders = [str(tmp_path / submitter) for submitter in SUBMISSIONS]
    assert (
        run_command("read", [*folders, "--output-dir", str(tmp_path / "output")]) == ExitStatus.OK
    )
    result = loaded([tmp_path / "output"])
    golden.check("page_mlperf_ten_runs.json", held(result))
    assert len(page.render(report(result), Sources("1.2.3", "x"), None)) < 1_000_000


class TestWindows:
    def grid(self, *runs):
        ((group,),) = (model.groups for model in comparison(*runs).models)
        return windows.grid(group)

    def test_a_window_is_the_steps_after_one_stop_up_to_another(self):
        times = tuple(float(number) for number in range(1, 31))
        found = self.grid(
            make_run(steps=30, step_times=times), make_run(**AMD, steps=30, step_times=(2.0,) * 30)
        )
        begin, end = found.stops.index(10), found.stops.index(20)
        # 64 × 2048 tokens a step on 8 GPUs; the mean of 11 to 20 is 15.5.
        assert found.rates[1][begin][end] == pytest.approx(64 * 2048 / 15.5 / 8)
        assert found.ratios[0][begin][end] == pytest.approx(15.5 / 2)

    def test_the_steps_after_the_warmup_give_the_speedup_of_the_verdict(self):
        found = self.grid(make_run(), make_run(**AMD, step_time=2.4))
        assert found.ratios[0][found.stops.index(3)][-1] == pytest.approx(3.2 / 2.4, rel=1e-9)

    def test_in_samples_where_the_sequence_length_is_unknown(self):
        runs = [
            make_run(framework="mlperf", length=None),
            make_run(**AMD, framework="mlperf", step_time=2.4, batch=32, length=2048),
        ]
        found = self.grid(*runs)
        rates = sorted(rate[found.stops.index(3)][-1] for rate in found.rates)
        assert rates == pytest.approx([32 / 2.4 / 8, 64 / 3.2 / 8], rel=1e-3)
        ((group,),) = (model.groups for model in comparison(*runs).models)
        (pair,) = group.pairs
        assert dict(pair.sensitivity)["last 10"] == pytest.approx(1.5, rel=1e-2)

    def test_records_of_several_steps_count_whole_or_not_at_all(self):
        run = make_run(steps=6, step_times=(9.0, 1.0, 1.0, 1.0, 1.0, 1.0), warmup=())
        run = msgspec.structs.replace(run, steps=(10, 20, 30, 40, 50, 60), window_steps=(10,) * 6)
        found = self.grid(run, make_run(**AMD))
        begin, end = found.stops.index(5), found.stops.index(20)
        # Steps 6 to 20 hold the record of 11 to 20 alone.
        assert found.rates[0][begin][end] == pytest.approx(64 * 2048 / 1.0 / 8)

    def test_too_few_steps_give_nothing(self):
        found = self.grid(make_run(), make_run(**AMD))
        index = found.stops.index(5)
        assert math.isnan(found.ratios[0][found.stops.index(1)][index])
        assert math.isnan(found.ratios[0][index][index])

    def test_several_runs_give_the_geometric_mean_of_their_rates(self):
        several = tuple(
            make_run(warmup=(), step_times=(time,) * 60, timestamp=f"2026-02-0{k + 1}T00:00:00Z")
            for k, time in enumerate((2.0, 2.3))
        )
        found = self.grid(several, make_run(**AMD))
        assert found.rates[0][0][-1] == pytest.approx((64 * 2048 / 8) / (2 * 2.3) ** 0.5)

    def test_no_window_is_longer_than_the_shortest_run(self):
        assert self.grid(make_run(steps=60), make_run(**AMD, steps=500)).stops[-1] == 60

    @pytest.mark.parametrize("last", [1, 5, 25, 26, 60, 100, 499, 500, 5376, 123_457])
    def test_stops_rise_to_the_last_step_and_are_few(self, last):
        found = windows.stops_to(last)
        assert list(found) == sorted(set(found))
        assert (found[0], found[-1]) == (0, last)
        assert len(found) <= windows.STOPS

    @pytest.mark.parametrize(
        "runs",
        [(make_run(),), (make_run(), failed_run()), (make_run(**AMD), make_run(step_time=0.01))],
    )
    def test_without_a_ratio_there_is_no_slider(self, runs):
        assert self.grid(*runs) is None


class TestCharts:
    def test_a_long_run_keeps_its_extremes(self):
        times = [1.0 + 0.001 * (number % 7) for number in range(50_000)]
        times[31_234] = 9.0
        (run,) = self.of(
            comparison(make_run(steps=len(times), warmup=(), step_times=tuple(times)))
        )[1]
        line = Line(None, run.result, 0, len(times))
        kept = charts._thinned(line, step_times([Series(None, run.result)]))
        assert 31_234 in kept
        assert kept == sorted(set(kept))
        assert (kept[0], kept[-1]) == (0, 49_999)
        assert len(kept) <= charts.MOST_POINTS + 2

    def test_the_warmup_is_excluded(self):
        chart = charts.step_times(*self.of(comparison(make_run())))
        parts = {trace["part"]: trace.get("index") for trace in chart["traces"]}
        assert parts["excluded"] == {"from": 0, "to": 4}
        assert parts["steps"] == {"from": 3, "to": 60}
        assert chart["range"][1] < 4

    def test_steps_beyond_the_shortest_run_are_excluded_with_their_median(self):
        chart = charts.step_times(
            *self.of(comparison(make_run(steps=90), make_run(MI300X, stack="rocm", step_time=3.6)))
        )
        longest = [trace for trace in chart["traces"] if trace["system"] == 0]
        assert [trace["index"] for trace in longest if trace["part"] == "excluded"][1:] == [
            {"from": 59, "to": 90}
        ]
        assert [trace["index"] for trace in longest if trace["part"] == "steps"] == [
            {"from": 3, "to": 60}
        ]
        assert [trace["ends"] for trace in longest if trace["part"] == "segment"] == [[4, 60]]
        assert chart["note"].startswith(
            "Dotted: excluded (warm-up, profiled steps, steps not in all runs). Thick "
        )

    def test_the_note_explains_only_what_is_drawn(self):
        runs = tuple(make_run(step_time=3 + number / 10) for number in range(2))
        one, two = (
            charts.step_times(*self.of(comparison(found)))["note"] for found in (runs[:1], runs)
        )
        assert two.startswith("Dotted: excluded (")
        assert " Thin: further runs of a system." in two
        assert "Thick line: " in one
        assert not any(word in one for word in ("Thin", "Circles"))

    def test_of_several_runs_the_first_is_not_thin(self):
        runs = tuple(make_run(step_time=3 + number / 10) for number in range(3))
        chart = charts.step_times(*self.of(comparison(runs)))
        assert [trace["thin"] for trace in chart["traces"] if trace["part"] == "steps"] == [
            False,
            True,
            True,
        ]

    def test_outliers_are_those_that_the_table_counts(self):
        times = list(make_run(steps=300).step_times)
        times[200] = times[250] = 9.0
        result = comparison(make_run(steps=300, step_times=tuple(times)))
        chart = charts.step_times(*self.of(result))
        (found,) = (trace["index"] for trace in chart["traces"] if trace["part"] == "outliers")
        assert found == [200, 250]
        assert result.models[0].systems[0].valid_runs[0].summary.segments[0].outliers == 2

    def test_the_entropy_of_the_data_is_a_floor(self):
        chart = charts.loss(
            *self.of(comparison(make_run(data=Data(kind="markov", entropy=1.9)))), "tokens"
        )
        assert chart["floors"] == [1.9]
        assert chart["note"].startswith("Dotted: 1.9 nats/token")

    def test_without_losses_there_is_no_chart_of_them(self):
        view, runs = self.of(comparison(make_run(losses=False)))
        assert charts.loss(view, runs, "tokens") is None
        assert charts.loss(view, runs, "wall") is None

    @pytest.mark.parametrize(
        ("times", "drawn"), [((1.0, 1.0, None), True), ((1.0, None, 1.0), False)]
    )
    def test_over_time_a_loss_needs_two_known_times(self, times, drawn):
        view, runs = self.of(comparison(make_run(steps=3, step_times=times, warmup=())))
        assert (charts.loss(view, runs, "wall") is not None) == drawn
        assert charts.loss(view, runs, "tokens") is not None

    def test_bars_of_equal_names_stay_two(self):
        runs = [
            make_run(LONG, label=f"{'x' * 60} {name} {'y' * 60}", step_time=time)
            for name, time in (("a", 3.2), ("b", 3.3))
        ]
        chart = charts.memory(View(report(comparison(*runs))).systems)
        assert len(set(chart["order"])) == 2

    @staticmethod
    def of(result):
        view = View(report(result))
        return view, [run for run in view.runs if run.result.is_valid]


class TestWallTime:
    def test_it_adds_up_steps_and_windows(self):
        run = make_run(steps=3, step_times=(1.0, 2.0, 4.0), warmup=())
        assert wall_times(run) == [1.0, 3.0, 7.0]

    def test_after_an_unknown_time_it_is_unknown(self):
        run = make_run(steps=4, step_times=(1.0, None, 4.0, 1.0), warmup=())
        assert wall_times(run) == [1.0, None, None, None]

    def test_after_a_gap_between_the_steps_too(self):
        run = msgspec.structs.replace(
            make_run(steps=3, step_times=(1.0, 1.0, 1.0), warmup=()), steps=(1, 2, 9)
        )
        assert wall_times(run) == [1.0, 2.0, None]


def test_a_cpu_has_no_price_form_until_a_price_is_given():
    cpu = {"device": "AMD EPYC", "stack": "cpu"}
    found = comparison(make_run(**cpu), make_run(**cpu, label="b", step_time=3.0))
    assert 'id="prices"' not in rendered(found)
    assert 'id="prices"' in rendered(comparison(make_run(), make_run(label="b", step_time=3.0)))


def test_the_configuration_has_the_columns_in_the_order_of_the_headline():
    text = rendered(
        comparison(make_run(label="slow"), make_run(label="fast", step_time=1.0, batch=32))
    )
    assert "fast vs slow: best configuration" in text
    cells = re.findall(r"<td[^>]*>(32|64)(?: sequences)?</td>", text)
    assert cells[:2] == ["32", "64"]
