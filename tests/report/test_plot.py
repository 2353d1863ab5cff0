from __future__ import annotations

import logging
import math
import os
import re
import statistics
import subprocess
import sys
import warnings

import pytest
from made_runs import HOSTILE, MI300X, comparison, failed_run, make_run
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tprimat.report import plot
from tprimat.report.verdict import report
from tprimat.results.run import Data, MemoryMetrics

AMD = {"device": MI300X, "stack": "rocm"}


NAMES = ("Average step time", "Throughput", "Memory per GPU or CPU", "Step time over the steps")


def by_title(figure):
    return {axes.get_title(loc="left").partition(",")[0]: axes for axes in figure.axes}


def panels(result):
    """Return the figure and its four panels; None for one that is not there."""
    figure = plot.figure(report(result))
    found = by_title(figure)
    return figure, *map(found.get, NAMES)


def repeated(step_time, factors=(1.0, 1.003, 0.997), **fields):
    """One run for each factor, each at a time of its own."""
    return tuple(
        make_run(
            step_time=step_time * factor,
            timestamp=f"2026-02-02T{hour // 24:02d}:{hour % 24:02d}:00+00:00",
            **fields,
        )
        for hour, factor in enumerate(factors, 1)
    )


def title(figure):
    return figure.texts[0].get_text().splitlines()


def subtitle(figure):
    return figure.texts[1].get_text().splitlines()


def footer(figure):
    return " ".join(figure.texts[-1].get_text().split())


def texts(axes):
    """Return the texts beside bars."""
    return [text.get_text() for text in axes.texts if text.xycoords == "data"]


def around(axes):
    """Return the texts below a panel's title and below its axis, as if they were not wrapped."""
    return [" ".join(text.get_text().split()) for text in axes.texts if text.xycoords != "data"]


def keys(figure):
    """Return what the legend explains beside the systems."""
    return [text.get_text() for legend in figure.legends[1:] for text in legend.get_texts()]


@pytest.mark.parametrize(
    ("low", "high"), [(0.97, 1.96), (0.97, 2.07), (0.9, 5.1), (1.2, 1.3), (1, 2000)]
)
def test_a_logarithmic_axis_has_three_numbers_at_least(low, high):
    figure = Figure()
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    plot.lines.log_axis(axes)
    axes.set_ylim(low, high)
    ticks = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert len(ticks) >= plot.lines.LEAST_TICKS
    assert len(ticks) <= 12


def labels(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


@pytest.fixture
def pair():
    return comparison(make_run(), make_run(**AMD, step_time=2.4))


class TestTitle:
    def test_it_is_the_headline_and_below_it_the_certainty(self):
        figure, *_ = panels(comparison(repeated(3.2), repeated(2.8, **AMD)))
        assert title(figure) == ["8×MI300X (BF16) is 14% faster per GPU than 8×H100 (BF16)"]
        assert subtitle(figure) == ["1.143× [95% CI 1.135–1.151], 3 runs each", "Llama 3.1 8B"]

    def test_several_models_of_two_systems_have_one(self):
        runs = [
            make_run(**fields, model=model)
            for model in ("llama", "qwen")
            for fields in ({}, {**AMD, "step_time": 2.8})
        ]
        figure, *_ = panels(comparison(*runs))
        headline = "8×MI300X (BF16) is 14% faster per GPU than 8×H100 (BF16) in both models"
        assert " ".join(title(figure)) == f"{headline}; run-to-run variation unknown"
        assert [line.partition(":")[0] for line in subtitle(figure)] == [
            "Llama 3.1 8B",
            "Qwen 2.5 7B",
        ]
        assert "14% faster per GPU than" in subtitle(figure)[0]

    def test_other_models_have_their_own(self):
        result = comparison(make_run(), make_run(**AMD, step_time=2.8), make_run(model="qwen"))
        figure, *_ = panels(result)
        assert [line.partition(":")[0] for line in title(figure) if ":" in line] == [
            "Llama 3.1 8B",
            "Qwen 2.5 7B",
        ]
        assert subtitle(figure) == ["Llama 3.1 8B: 1.14×, 1 run each: run-to-run variation unknown"]

    def test_of_many_models_the_first(self):
        figure, *_ = panels(comparison(*(make_run(model=f"model {index}") for index in range(7))))
        assert len([line for line in title(figure) if line.startswith("model")]) == 4
        assert "3 more in the report" in subtitle(figure)

    def test_a_long_one_is_wrapped_and_covers_nothing(self):
        long = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
        figure, *axes = panels(
            comparison(*(make_run(long, label=f"a long label {index}") for index in range(3)))
        )
        FigureCanvasAgg(figure).draw()
        boxes = [text.get_window_extent() for text in figure.texts]
        assert all(box.x1 <= figure.bbox.x1 for box in boxes)
        assert boxes[0].y0 >= boxes[1].y1
        assert boxes[1].y0 >= axes[0].title.get_window_extent().y1


class TestPanels:
    def test_titles_and_units(self, pair):
        _, averages, throughput, memory, steps = panels(pair)
        assert [
            (axes.get_title(loc="left"), around(axes)[0]) for axes in (averages, throughput, memory)
        ] == [
            ("Average step time, s", "lower is better"),
            ("Throughput, tokens/s/GPU", "higher is better"),
            ("Memory per GPU or CPU, GB", "allocated; solid: average, pale: peak; GB: 10⁹ bytes"),
        ]
        assert (steps.get_xlabel(), steps.get_ylabel()) == ("optimizer step", "s per step")

    def test_throughput_is_the_first(self, pair):
        figure, *_ = panels(pair)
        assert list(by_title(figure)) == [
            "Throughput",
            "Average step time",
            "Memory per GPU or CPU",
            NAMES[3],
        ]

    def test_step_times_below_a_second_are_in_ms(self):
        _, averages, *_, steps = panels(
            comparison(make_run(step_time=0.16, batch=1), make_run(**AMD, step_time=0.098, batch=1))
        )
        assert texts(averages) == ["98.0 ms", "160 ms"]
        assert (averages.get_title(loc="left"), steps.get_ylabel()) == (
            "Average step time, ms",
            "ms per step",
        )

    def test_bars_carry_their_values_and_the_faster_one_the_speedup(self, pair):
        _, averages, throughput, *_ = panels(pair)
        assert [round(bar.get_width()) for bar in throughput.patches] == [6827, 5120]
        assert texts(throughput) == ["6,827\n1.33×", "5,120\nbaseline"]
        assert [round(bar.get_width(), 3) for bar in averages.patches] == [2.4, 3.2]
        assert texts(averages) == ["2.400 s", "3.200 s"]
        assert labels(throughput) == ["8×MI300X (BF16)", "8×H100 (BF16)"]
        # Rows beside them have the same names.
        assert labels(averages) == ["", ""]

    def test_a_ratio_is_that_to_the_baseline(self):
        shown = [
            texts(panels(comparison(make_run(), make_run(**AMD, step_time=2.4), reference=name))[2])
            for name in ("H100", "MI300X")
        ]
        assert shown == [["6,827\n1.33×", "5,120\nbaseline"], ["6,827\nbaseline", "5,120\n0.75×"]]

    def test_of_three_each_is_compared_with_the_baseline(self):
        runs = make_run(), make_run(**AMD, step_time=2.4), make_run("NVIDIA B200", step_time=2.0)
        _, _, throughput, *_ = panels(comparison(*runs, reference="MI300X"))
        assert [text.splitlines()[1] for text in texts(throughput)] == [
            "1.20×",
            "baseline",
            "0.75×",
        ]

    def test_several_runs_have_the_interval_between_them(self):
        _, averages, throughput, *_ = panels(comparison(repeated(3.2), repeated(2.8, **AMD)))
        assert texts(throughput) == ["5,852 ± 0.7%\n1.143×", "5,120 ± 0.7%\nbaseline"]
        assert texts(averages) == ["2.800 s ± 0.7%", "3.200 s ± 0.7%"]
        for axes in (averages, throughput):
            assert len(axes.containers) == 2 + 2
            assert around(axes)[0].endswith("; mean of 3 runs with 95% CI")

    def test_c5_a_bar_without_an_interval_beside_one_that_has_it_is_dotted(self):
        _, averages, throughput, *_ = panels(
            comparison(repeated(3.2), make_run(**AMD, step_time=2.4))
        )
        for axes in (averages, throughput):
            assert around(axes)[0].endswith("; mean of the runs with 95% CI; dotted: unknown")
            dotted = [line for line in axes.lines if line.get_linestyle() == ":"]
            assert len(dotted) == 1
            start, end = dotted[0].get_xdata()
            assert start == 0
            assert end > max(patch.get_width() for patch in axes.patches)

    def test_c5_of_single_runs_the_certainty_alone_says_it(self, pair):
        _, averages, throughput, *_ = panels(pair)
        assert not any(
            line.get_linestyle() == ":" for axes in (averages, throughput) for line in axes.lines
        )

    def test_bars_use_most_of_their_axis(self):
        _, averages, throughput, *_ = panels(comparison(repeated(3.2), repeated(2.8, **AMD)))
        for axes in (averages, throughput):
            assert max(bar.get_width() for bar in axes.patches) > 0.65 * axes.get_xlim()[1]

    def test_unequal_numbers_of_runs_are_beside_the_bars(self):
        _, averages, *_ = panels(comparison(repeated(3.2), repeated(2.8, (1.0, 1.01), **AMD)))
        assert [text.splitlines()[1] for text in texts(averages)] == ["2 runs", "3 runs"]
        assert around(averages)[0].endswith("; mean of the runs with 95% CI")

    def test_of_several_runs_the_first_stands_out(self):
        *_, steps = panels(comparison(repeated(3.2), repeated(2.8, **AMD)))
        assert [line.get_linewidth() for line in steps.lines] == [0.9, 1.2, 0.9, 0.6, 0.9, 0.6] * 2
        assert sum(line.get_marker() not in ("None", None) for line in steps.lines) == 2

    def test_a_single_run_has_none(self, pair):
        _, averages, throughput, *_ = panels(pair)
        assert len(averages.containers) == len(throughput.containers) == 2
        assert "CI" not in around(throughput)[0]

    def test_a_wide_interval_leaves_the_bars_readable(self):
        _, _, throughput, *_ = panels(
            comparison(repeated(3.2, (0.95, 1.05)), repeated(3.0, (0.95, 1.05), **AMD))
        )
        longest = max(bar.get_width() for bar in throughput.patches)
        assert throughput.get_xlim()[1] < 4 * longest
        assert [line.get_marker() for line in throughput.lines].count(">") == 2
        assert all(
            re.match(r"5,\d{3} \[\d,\d{3}–\s?\d?\d,\d{3}\](\n1\.\d.*)?", text)
            for text in texts(throughput)
        ), texts(throughput)

    def test_an_interval_that_says_nothing_is_not_drawn(self):
        _, _, throughput, *_ = panels(
            comparison(repeated(3.2, (0.8, 1.2)), repeated(3.0, (0.8, 1.2), **AMD))
        )
        assert throughput.get_xlim()[1] < 2 * max(bar.get_width() for bar in throughput.patches)
        assert all("[" not in text for text in texts(throughput))

    def test_the_bars_are_of_the_whole_run_where_its_speed_changes(self):
        times = (
            *(3.0 + 0.001 * (k % 5) for k in range(100)),
            *(2.0 + 0.001 * (k % 5) for k in range(100)),
        )
        figure, _, throughput, _, steps = panels(
            comparison(make_run(steps=200), make_run(**AMD, steps=200, step_times=times))
        )
        assert texts(throughput)[0].splitlines()[1] == "1.28×"
        assert "sped up at step 101" in " ".join(title(figure))
        # Both segments are drawn in full: only the steps are faded that no run is averaged over.
        assert list(steps.lines[0].get_xdata()) == [1, 2, 3, 4]

    def test_the_legend_names_the_systems(self, pair):
        figure, *_ = panels(pair)
        assert [text.get_text() for text in figure.legends[0].get_texts()] == [
            "8×MI300X (BF16)",
            "8×H100 (BF16)",
        ]

    def test_warm_up_is_dotted_and_off_the_scale(self, pair):
        *_, steps = panels(pair)
        assert steps.get_ylim()[1] < 4
        assert around(steps) == [
            "a line per run",
            "6 steps off scale, up to 30.000 s",
        ]
        assert keys(steps.figure) == [plot.charts.EXCLUDED]

    @pytest.mark.parametrize(
        ("longer", "parts"), [(60, [(1, 4), (4, 60)]), (61, [(1, 4), (4, 60), (60, 61)])]
    )
    def test_what_no_average_counts_is_dotted(self, longer, parts):
        *_, steps = panels(comparison(make_run(steps=longer), make_run(**AMD, step_time=3.6)))
        lines = [line for line in steps.lines if line.get_color() == steps.lines[0].get_color()]
        assert [(line.get_xdata()[0], line.get_xdata()[-1]) for line in lines] == parts
        assert [line.get_linestyle() == "-" for line in lines] == [False, True, False][: len(parts)]

    def test_profiled_steps_are_dotted_too(self):
        *_, steps = panels(comparison(make_run(profiled_steps=(30, 31))))
        *_, last = [line for line in steps.lines if line.get_linestyle() != "-"]
        assert list(last.get_xdata()) == [29, 30, 31, 32]

    def test_the_legend_explains_bands_and_dotted_lines(self):
        data = Data(kind="markov", entropy=1.9)
        runs = [
            make_run(round=n, step_time=3 + n / 100, data=data, warmup=())
            for n in range(plot.lines.BAND_FROM)
        ]
        floor = "1.9 nats/token, data entropy (lowest achievable loss)"
        few, many = (
            report(comparison(*runs[:count]))
            for count in (plot.lines.BAND_FROM - 1, plot.lines.BAND_FROM)
        )
        assert keys(plot.figure(few, layout="frameworks")) == [floor]
        assert keys(plot.figure(many, layout="frameworks")) == [
            "range of the runs around their median",
            floor,
        ]
        # Where memory has the place of the loss, nothing is dotted.
        assert keys(plot.figure(many)) == ["range of the runs around their median"]

    def test_steps_hold_every_record(self, pair):
        *_, steps = panels(pair)
        pale, line, *_ = steps.lines
        assert list(pale.get_xdata()) == [1, 2, 3, 4]
        assert list(line.get_xdata()) == list(range(4, 61))
        assert list(line.get_ydata()) == list(make_run(step_time=2.4).step_times[3:])

    def test_unlike_step_times_get_a_log_scale(self):
        *_, steps = panels(
            comparison(make_run(step_time=0.1, warmup=(1.0,)), make_run(**AMD, step_time=3.0))
        )
        assert steps.get_yscale() == "log"

    def test_outliers_dont_flatten_the_rest(self):
        run = make_run(steps=300)
        run = make_run(steps=300, step_times=(*run.step_times[:200], 300.0, *run.step_times[201:]))
        *_, steps = panels(comparison(run))
        assert steps.get_ylim()[1] < 5
        assert "up to 300.000 s" in around(steps)[1]

    def test_memory_kinds_have_their_own_bars(self):
        memory = MemoryMetrics(
            avg_memory_allocated_gb=30.0,
            peak_memory_allocated_gb=35.0,
            avg_memory_reserved_gb=50.0,
            peak_memory_reserved_gb=50.0,
            peak_memory_device_used_gb=60.0,
        )
        _, _, _, axes, _ = panels(comparison(make_run(memory_metrics=memory)))
        assert texts(axes) == [
            "allocated: 30.0 average, 35.0 peak",
            "reserved: 50.0 average, 50.0 peak",
            "in use on the device: 60.0 peak",
        ]

    @pytest.mark.parametrize(
        ("peak", "text"), [(0.83, "0.79 average, 0.83 peak"), (0.88, "0.8 average, 0.9 peak")]
    )
    def test_bars_of_unlike_length_have_unlike_numbers(self, peak, text):
        memory = MemoryMetrics(avg_memory_allocated_gb=0.79, peak_memory_allocated_gb=peak)
        _, _, _, axes, _ = panels(comparison(make_run(memory_metrics=memory)))
        assert texts(axes) == [text]

    @pytest.mark.parametrize(("runs", "is_thin"), [(1, False), (2, True), (3, True)])
    def test_thin_lines_are_explained_and_solid(self, runs, is_thin):
        *_, steps = panels(
            comparison(tuple(make_run(step_time=3 + number / 10) for number in range(runs)))
        )
        assert (
            around(steps)[0] == "a line per run; thin: second and third run of a system"
        ) is is_thin
        solid = [line.get_linewidth() for line in steps.lines if line.get_linestyle() == "-"]
        assert solid == [1.2, 0.6, 0.6][:runs]

    def test_models_are_groups(self):
        result = comparison(
            make_run(), make_run(**AMD), make_run(model="qwen"), make_run(**AMD, model="qwen")
        )
        _, _, throughput, *_ = panels(result)
        h100, mi300x = "8×H100 (BF16)", "8×MI300X (BF16)"
        assert labels(throughput) == ["Llama 3.1 8B", h100, mi300x, "Qwen 2.5 7B", h100, mi300x]
        colors = [bar.get_facecolor() for bar in throughput.patches]
        assert colors[:2] == colors[2:]

    @pytest.mark.parametrize(("count", "colors"), [(8, 8), (30, 8)])
    def test_systems_of_one_gpu_differ_in_color_or_pattern_and_marker(self, count, colors):
        _, _, throughput, *_, steps = panels(
            comparison(*(make_run(label=str(index)) for index in range(count)))
        )
        assert len({bar.get_facecolor() for bar in throughput.patches}) == colors
        assert len({(bar.get_facecolor(), bar.get_hatch()) for bar in throughput.patches}) == count
        lines = {
            (line.get_color(), line.get_marker())
            for line in steps.lines
            if line.get_marker() != "None"
        }
        assert len(lines) == min(count, 12)

    @pytest.mark.parametrize(
        ("fields", "what"),
        [
            ({"batch": 32}, "batch"),
            ({"gpus": 4, "length": 1024}, "sequence length and number of GPUs"),
            ({}, None),
        ],
    )
    def test_steps_of_different_work_are_called_so(self, fields, what):
        _, averages, *_ = panels(comparison(make_run(), make_run(**AMD, **fields)))
        remark = f"not comparable: steps differ in {what}" if what else "lower is better"
        assert around(averages) == [remark]


class TestSeveralModels:
    @pytest.mark.parametrize(("factor", "is_relative"), [(9.9, False), (10.1, True)])
    def test_models_far_apart_have_scales_of_their_own(self, factor, is_relative):
        slow = make_run(model="big", step_time=3.2 * factor, warmup=())
        _, averages, throughput, *_ = panels(comparison(make_run(warmup=()), slow))
        assert min(
            bar.get_width() / max(each.get_width() for each in throughput.patches)
            for bar in throughput.patches
        ) == (pytest.approx(1 if is_relative else 1 / factor))
        for axes in (averages, throughput):
            assert (
                around(axes)[0].endswith("; axis: share of each model's longest bar") is is_relative
            )
            assert (
                [label.get_text() for label in axes.get_xticklabels()] == ["0", "50%", "100%"]
            ) is is_relative

    def test_samples_and_tokens_are_named_at_each_bar(self):
        runs = make_run(), make_run("NVIDIA H100", model="lora", framework="mlperf", length=None)
        _, _, throughput, *_ = panels(comparison(*runs))
        assert throughput.get_title(loc="left") == "Throughput"
        assert texts(throughput) == ["5,120 tokens/s/GPU", "2.500 samples/s/GPU"]

    def test_steps_of_another_model_may_differ(self):
        _, averages, *_ = panels(comparison(make_run(), make_run(model="qwen", batch=32)))
        assert around(averages) == ["lower is better"]

    def test_steps_of_a_system_without_any_say_nothing(self):
        _, averages, *_ = panels(comparison(make_run(), failed_run(gpus=4)))
        assert around(averages) == ["lower is better"]


class TestWhatIsMissing:
    def test_an_excluded_system_has_its_reason_in_the_place_of_the_bar(self):
        run = make_run(**AMD, native_metrics={"tokens_per_second": 1e6})
        figure, averages, throughput, *_ = panels(comparison(make_run(), run))
        for axes in (averages, throughput):
            assert len(axes.patches) == 1
            assert " ".join(texts(axes)[1].split()).startswith("excluded: it reports 1,000,000")
        assert figure.legends[0].get_texts()[1].get_text().endswith("(excluded)")

    def test_a_failed_run(self):
        _, _, throughput, memory, _ = panels(comparison(make_run(), failed_run()))
        assert "no step times: its run failed (out of memory)" in " ".join(
            " ".join(texts(throughput)).split()
        )
        assert "not measured" in texts(memory)

    def test_of_many_systems_those_without_memory_have_no_row(self):
        most = plot.bars.MOST_UNMEASURED
        for count in (most, most + 1):
            bare = [
                make_run(label=f"system {n}", memory_metrics=MemoryMetrics())
                for n in range(1, count)
            ]
            _, _, _, memory, _ = panels(comparison(make_run(), *bare))
            assert len(labels(memory)) == (count if count == most else 1)
            assert f"{most} systems: not measured" in around(memory) or count == most

    def test_nothing_at_all(self):
        figure, *_ = panels(comparison(failed_run()))
        assert figure.axes == figure.legends == []
        missing = "Not measured: throughput, average step time, memory, step times"
        assert (
            footer(figure)
            == f"{missing} 8×MI300X (BF16): no step times: its run failed (out of memory)"
        )

    def test_a_panel_without_data_leaves_its_place_to_the_others(self):
        figure, _, throughput, memory, steps = panels(
            comparison(make_run(memory_metrics=MemoryMetrics(), losses=False))
        )
        assert memory is None
        assert footer(figure) == "Not measured: memory"
        assert len(figure.axes) == 3
        assert steps.get_position().width > 1.8 * throughput.get_position().width

    def test_the_loss_takes_the_place_of_memory_that_nobody_measured(self):
        figure, *_ = panels(comparison(make_run(memory_metrics=MemoryMetrics())))
        assert list(by_title(figure))[2] == "Loss over tokens"
        assert footer(figure) == "Not measured: memory"

    def test_step_times_without_throughput(self):
        figure, averages, throughput, *_ = panels(comparison(make_run(batch=None)))
        assert texts(averages) == ["3.200 s"]
        assert labels(averages) == ["8×H100 (BF16)"]
        assert throughput is None
        assert footer(figure) == "Not measured: throughput"

    def test_gaps_in_the_series(self):
        times = make_run().step_times
        run = make_run(
            step_times=(*times[:30], None, *times[31:]), loss_values=(None,) * 59 + (2.0,)
        )
        assert plot.render(report(comparison(run))).startswith(b"\x89PNG")


class TestSizes:
    def test_more_bars_make_a_higher_picture(self):
        few, many = (
            plot.figure(report(comparison(*(make_run(label=str(index)) for index in range(count)))))
            for count in (2, 20)
        )
        assert many.get_figheight() > 1.3 * few.get_figheight()

    @pytest.mark.parametrize(
        ("systems", "bars", "lines"), [(12, 12, 12), (13, 13, 12), (30, 30, 12), (31, 30, 12)]
    )
    def test_of_many_systems_the_first_are_drawn(self, systems, bars, lines):
        figure, averages, *_, steps = panels(
            comparison(*(make_run(label=str(index)) for index in range(systems)))
        )
        assert len(averages.patches) == bars
        assert len(steps.lines) == 2 * lines
        assert subtitle(figure)[-1].endswith(f"{bars} of {systems} systems") is (bars < systems)
        assert footer(figure).startswith(f"Lines: 12 of {bars} systems") is (bars > 12)

    def test_each_of_several_models_has_lines(self):
        runs = [make_run(model=f"model {n // 8}", label=str(n), step_time=3 + n) for n in range(24)]
        *_, steps = panels(comparison(*runs))
        assert len({line.get_linestyle() for line in steps.lines}) == 3


class TestBand:
    """Of many runs the steps are their median and range."""

    @pytest.mark.parametrize(("runs", "is_band"), [(3, False), (4, True)])
    def test_four_runs_are_a_band(self, runs, is_band):
        factors = [1 + 0.002 * number for number in range(runs)]
        *_, steps = panels(comparison(repeated(3.2, factors)))
        assert len(steps.collections) == is_band
        thick = [line for line in steps.lines if line.get_marker() == "o"]
        assert len(thick) == 1
        middle = statistics.median([3.2 * factor * (1 + 0.01 * math.sin(56)) for factor in factors])
        assert thick[0].get_ydata()[-1] == pytest.approx(
            middle if is_band else 3.2 * (1 + 0.01 * math.sin(56))
        )
        assert bool(around(steps)[0].startswith("line: median of the runs; band: range")) is is_band

    def test_the_band_is_the_range_and_a_far_value_a_point(self):
        runs = [list(run.step_times) for run in repeated(3.2, (1.0, 1.01, 1.02, 1.03, 1.04))]
        runs[2][30] = 4.5
        result = comparison(
            tuple(
                make_run(step_times=tuple(times), timestamp=f"2026-02-0{day}T00:00:00+00:00")
                for day, times in enumerate(runs, 1)
            )
        )
        *_, steps = panels(result)
        (band,) = steps.collections
        points = {(x, round(y, 3)) for x, y in band.get_paths()[0].vertices}
        at = [round(times[30], 3) for times in runs]
        assert {y for x, y in points if x == 31} == {at[0], at[4]}
        (outlier,) = [line for line in steps.lines if line.get_marker() == "."]
        assert (list(outlier.get_xdata()), list(outlier.get_ydata())) == ([31], [4.5])

    def test_only_some_systems_have_many_runs(self):
        *_, steps = panels(comparison(repeated(3.2, (1.0, 1.001, 1.002, 1.003)), make_run(**AMD)))
        assert around(steps)[0].endswith("; points: outliers (4 runs or more)")

    @pytest.mark.parametrize(("count", "places"), [(153, 150), (154, 76)])
    def test_many_steps_have_fewer_places(self, count, places):
        *_, steps = panels(comparison(repeated(3.2, (1.0, 1.001, 1.002, 1.003), steps=count)))
        (line,) = [line for line in steps.lines if line.get_marker() == "o"]
        assert len(line.get_xdata()) == places


class TestOutsideInfluence:
    def test_hostile_text_is_drawn_as_text(self):
        run = make_run(HOSTILE, label="_$\\frac$ %s {x}", model=HOSTILE, framework=HOSTILE)
        other = make_run(**AMD, label="图形卡 \U0001f680", model=HOSTILE)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert plot.render(report(comparison(run, other))).startswith(b"\x89PNG")

    @pytest.mark.parametrize(
        ("form", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
    )
    def test_forms(self, pair, form, start):
        assert plot.render(report(pair), form=form).startswith(start)

    def test_settings_and_logging_are_left_as_they_were(self, pair, monkeypatch):
        import matplotlib

        monkeypatch.setenv("MPLBACKEND", "svg")
        with matplotlib.rc_context({"font.size": 33}):
            before = dict(matplotlib.rcParams)
            figure = plot.figure(report(pair))
            assert dict(matplotlib.rcParams) == before
        assert figure.axes[0].get_yticklabels()[0].get_fontsize() < 20
        assert logging.getLogger("matplotlib").level == logging.NOTSET
        assert os.environ["MPLBACKEND"] == "svg"

    def test_without_matplotlib_there_is_the_command_that_brings_it(self, pair, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(
            plot.NoMatplotlibError, match=r"matplotlib is not installed: pip install matplotlib$"
        ):
            plot.render(report(pair))

    def test_a_cache_folder_that_cant_be_written_and_a_back_end_that_isnt_there(
        self, repository, tmp_path
    ):
        (tmp_path / "file").write_text("")
        program = (
            "from made_runs import *; from tprimat.report import plot; from tprimat.report.verdict"
            " import report; assert"
            " plot.render(report(comparison(make_run()))).startswith(b'\\x89PNG')"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(repository), str(repository / "tests")]),
                "MPLCONFIGDIR": str(tmp_path / "file" / "folder"),
                "MPLBACKEND": "no-such-back-end",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class TestFrameworks:
    """The plot of compare-frameworks and nvd_compare, whose users know a panel of the loss."""

    def test_panels(self, pair):
        figure = plot.figure(report(pair), layout="frameworks")
        assert [axes.get_title(loc="left") for axes in figure.axes] == [
            "Throughput, tokens/s/GPU",
            "Loss over tokens",
            "Step time over the steps",
            "Average step time, s",
        ]
        assert title(figure)[0].startswith("8×MI300X (BF16) is 33% faster")

    def test_loss_over_tokens(self, pair):
        loss = plot.figure(report(pair), layout="frameworks").axes[1]
        line = loss.lines[0]
        assert line.get_xdata()[-1] == pytest.approx(60 * 64 * 2048 / 1e6)
        assert line.get_ydata()[0] == pytest.approx(11.8)
        assert (loss.get_ylabel(), loss.get_xlabel()) == ("loss, nats/token", "10⁶ tokens")

    def test_entropy_of_the_data_is_a_floor(self):
        figure = plot.figure(
            report(comparison(make_run(data=Data(kind="markov", entropy=1.9)))), layout="frameworks"
        )
        assert list(figure.axes[1].lines[-1].get_ydata()) == [1.9, 1.9]
        assert "1.9 nats/token, data entropy (lowest achievable loss)" in keys(figure)

    def test_loss_without_tokens(self):
        figure = plot.figure(report(comparison(make_run(batch=None))), layout="frameworks")
        assert list(by_title(figure)) == ["Step time over the steps", "Average step time"]
        assert footer(figure) == "Not measured: throughput, loss over tokens"

    def test_without_any_times(self):
        figure = plot.figure(
            report(comparison(failed_run(), failed_run("NVIDIA H100"))), layout="frameworks"
        )
        assert figure.axes == []
        assert footer(figure).startswith("Not measured: throughput")
