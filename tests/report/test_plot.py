from __future__ import annotations

import itertools
import logging
import os
import re
import subprocess
import sys
import warnings

import pytest
from made_runs import HOSTILE, MI300X, comparison, failed_run, make_run
from matplotlib.backends.backend_agg import FigureCanvasAgg

from tprimat.report import plot
from tprimat.report.verdict import report
from tprimat.results.run import Data, MemoryMetrics

AMD = {"device": MI300X, "stack": "rocm"}


def panels(result):
    figure = plot.figure(report(result))
    averages, throughput, memory, steps = figure.axes
    return figure, averages, throughput, memory, steps


def repeated(step_time, factors=(1.0, 1.003, 0.997), **fields):
    """One run for each factor, a day apart."""
    return tuple(
        make_run(step_time=step_time * factor, timestamp=f"2026-02-{day:02d}T00:00:00+00:00", **fields)
        for day, factor in enumerate(factors, 1)
    )


def title(figure):
    return figure.get_suptitle().splitlines()


def subtitle(figure):
    return [line for text in figure.texts if text is not figure._suptitle for line in text.get_text().splitlines()]


def texts(axes):
    return [text.get_text() for text in axes.texts]


def labels(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


@pytest.fixture
def pair():
    return comparison(make_run(), make_run(**AMD, step_time=2.4))


class TestTitle:
    def test_it_is_the_headline_and_below_it_the_certainty(self):
        figure, *_ = panels(comparison(repeated(3.2), repeated(2.8, **AMD)))
        assert title(figure) == ["8×MI300X (BF16) is 14% faster per GPU than 8×H100 80GB HBM3 (BF16)"]
        assert subtitle(figure) == ["1.143× [95% CI 1.135–1.151], 3 runs each", "Llama 3.1 8B"]

    def test_several_models_of_two_systems_have_one(self):
        runs = [
            make_run(**fields, model=model) for model in ("llama", "qwen") for fields in ({}, {**AMD, "step_time": 2.8})
        ]
        figure, *_ = panels(comparison(*runs))
        headline = "8×MI300X (BF16) is 14% faster per GPU than 8×H100 80GB HBM3 (BF16) in both models"
        assert " ".join(title(figure)) == f"{headline}; run-to-run variation unknown"
        assert [line.partition(":")[0] for line in subtitle(figure)] == ["Llama 3.1 8B", "Qwen 2.5 7B"]
        assert "14% faster per GPU than" in subtitle(figure)[0]

    def test_other_models_have_their_own(self):
        result = comparison(make_run(), make_run(**AMD, step_time=2.8), make_run(model="qwen"))
        figure, *_ = panels(result)
        assert [line.partition(":")[0] for line in title(figure) if ":" in line] == ["Llama 3.1 8B", "Qwen 2.5 7B"]
        assert subtitle(figure) == ["Llama 3.1 8B: 1.14×, 1 run each: run-to-run variation unknown"]

    def test_of_many_models_the_first(self):
        figure, *_ = panels(comparison(*(make_run(model=f"model {index}") for index in range(7))))
        assert len([line for line in title(figure) if line.startswith("model")]) == 4
        assert subtitle(figure)[0] == "3 more: see the report"

    def test_a_long_one_is_wrapped_and_covers_nothing(self):
        long = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
        figure, *axes = panels(comparison(*(make_run(long, label=f"a long label {index}") for index in range(3))))
        FigureCanvasAgg(figure).draw()
        boxes = [text.get_window_extent() for text in figure.texts]
        assert all(box.x1 <= figure.bbox.x1 for box in boxes)
        assert boxes[0].y0 >= boxes[1].y1
        assert boxes[1].y0 >= axes[0].title.get_window_extent().y1


class TestPanels:
    def test_titles_and_units(self, pair):
        _, averages, throughput, memory, steps = panels(pair)
        assert [axes.get_title(loc="left") for axes in (averages, throughput, memory, steps)] == [
            "Average step time, s (lower is better)",
            "Throughput, tokens/s/GPU (higher is better)",
            "Memory per device, GB (10⁹ bytes)",
            "Step time over the steps",
        ]
        assert [axes.get_xlabel() for axes in (averages, throughput, memory, steps)] == [
            "s per step",
            "tokens/s/GPU",
            "GB",
            "optimizer step",
        ]
        assert steps.get_ylabel() == "s per step"

    def test_step_times_below_a_second_are_in_ms(self):
        _, averages, *_, steps = panels(
            comparison(make_run(step_time=0.16, batch=1), make_run(**AMD, step_time=0.098, batch=1))
        )
        assert texts(averages)[:2] == ["98.0 ms\n1 run", "160 ms\n1 run"]
        assert averages.get_xlabel() == steps.get_ylabel() == "ms per step"

    def test_bars_carry_their_values_and_the_faster_one_the_speedup(self, pair):
        _, averages, throughput, *_ = panels(pair)
        assert [round(bar.get_width()) for bar in throughput.patches] == [6827, 5120]
        assert texts(throughput) == ["6,827\n1 run, 1.33×", "5,120\n1 run"]
        assert [round(bar.get_width(), 3) for bar in averages.patches] == [2.4, 3.2]
        assert texts(averages) == ["2.400 s\n1 run", "3.200 s\n1 run"]
        assert labels(throughput) == labels(averages) == ["8×MI300X (BF16)", "8×H100 80GB HBM3 (BF16)"]

    def test_the_speedup_of_two_is_the_same_with_either_as_the_baseline(self):
        shown = [
            texts(panels(comparison(make_run(), make_run(**AMD, step_time=2.4), reference=name))[2])
            for name in ("H100", "MI300X")
        ]
        assert shown[0] == shown[1]

    def test_of_three_each_is_compared_with_the_baseline(self):
        runs = make_run(), make_run(**AMD, step_time=2.4), make_run("NVIDIA B200", step_time=2.0)
        _, _, throughput, *_ = panels(comparison(*runs, reference="MI300X"))
        assert [text.splitlines()[1] for text in texts(throughput)] == [
            "1 run, 1.20×",
            "1 run, baseline",
            "1 run, slower, 1.33×",
        ]

    def test_several_runs_have_the_interval_between_them(self):
        _, averages, throughput, *_ = panels(comparison(repeated(3.2), repeated(2.8, **AMD)))
        assert texts(throughput) == ["5,852 ± 0.7%\n1.143× [1.135–1.151]", "5,120 ± 0.7%"]
        assert texts(averages) == ["2.800 s ± 0.7%", "3.200 s ± 0.7%"]
        for axes in (averages, throughput):
            assert len(axes.containers) == 2 + 2
            assert axes.get_xlabel().endswith("; mean of 3 runs with 95% CI")

    def test_bars_use_most_of_their_axis(self):
        _, averages, throughput, *_ = panels(comparison(repeated(3.2), repeated(2.8, **AMD)))
        for axes in (averages, throughput):
            assert max(bar.get_width() for bar in axes.patches) > 0.65 * axes.get_xlim()[1]

    def test_unequal_numbers_of_runs_are_beside_the_bars(self):
        _, averages, *_ = panels(comparison(repeated(3.2), repeated(2.8, (1.0, 1.01), **AMD)))
        assert [text.splitlines()[1] for text in texts(averages)] == ["2 runs", "3 runs"]
        assert averages.get_xlabel().endswith("; mean over runs with 95% CI")

    def test_of_several_runs_the_first_stands_out(self):
        *_, steps = panels(comparison(repeated(3.2), repeated(2.8, **AMD)))
        assert [line.get_alpha() for line in steps.lines] == [0.4, 0.95, 0.4, 0.4, 0.4, 0.4] * 2
        assert sum(line.get_marker() not in ("None", None) for line in steps.lines) == 2

    def test_a_single_run_has_none(self, pair):
        _, averages, throughput, *_ = panels(pair)
        assert len(averages.containers) == len(throughput.containers) == 2
        assert "CI" not in throughput.get_xlabel()

    def test_a_wide_interval_leaves_the_bars_readable(self):
        _, _, throughput, *_ = panels(comparison(repeated(3.2, (0.8, 1.2)), repeated(3.0, (0.8, 1.2), **AMD)))
        longest = max(bar.get_width() for bar in throughput.patches)
        assert throughput.get_xlim()[1] < 4 * longest
        assert [line.get_marker() for line in throughput.lines].count(">") == 2
        assert all(re.match(r"5,\d{3} \[\d{3}\.\d–\d\d,\d{3}\](\n1\.\d.*)?", text) for text in texts(throughput))

    def test_the_bars_are_of_the_whole_run_where_its_speed_changes(self):
        times = (*(3.0 + 0.001 * (k % 5) for k in range(100)), *(2.0 + 0.001 * (k % 5) for k in range(100)))
        figure, _, throughput, _, steps = panels(
            comparison(make_run(steps=200), make_run(**AMD, steps=200, step_times=times))
        )
        assert texts(throughput)[0].splitlines()[1] == "1 run, 1.28×"
        assert "sped up at step 101" in " ".join(title(figure))
        # Both segments are drawn in full: only the steps are faded that no run is averaged over.
        assert list(steps.lines[0].get_xdata()) == [1, 2, 3, 4]

    def test_the_legend_names_the_systems(self, pair):
        figure, *_ = panels(pair)
        assert [text.get_text() for text in figure.legends[0].get_texts()] == [
            "8×MI300X (BF16)",
            "8×H100 80GB HBM3 (BF16)",
        ]

    def test_warm_up_is_shaded_and_off_the_scale(self, pair):
        *_, steps = panels(pair)
        assert [patch.get_x() + patch.get_width() for patch in steps.patches] == [3.5, 3.5]
        assert steps.get_ylim()[1] < 4
        (text,) = texts(steps)
        assert text == "faded and shaded: warm-up, excluded from the averages\n6 steps off scale, up to 30.000 s"

    def test_steps_hold_every_record(self, pair):
        *_, steps = panels(pair)
        pale, line, *_ = steps.lines
        assert list(pale.get_xdata()) == [1, 2, 3, 4]
        assert list(line.get_xdata()) == list(range(4, 61))
        assert list(line.get_ydata()) == list(make_run(step_time=2.4).step_times[3:])

    def test_unlike_step_times_get_a_log_scale(self):
        *_, steps = panels(comparison(make_run(step_time=0.1, warmup=(1.0,)), make_run(**AMD, step_time=3.0)))
        assert steps.get_yscale() == "log"

    def test_outliers_dont_flatten_the_rest(self):
        run = make_run(steps=300)
        run = make_run(steps=300, step_times=(*run.step_times[:200], 300.0, *run.step_times[201:]))
        *_, steps = panels(comparison(run))
        assert steps.get_ylim()[1] < 5
        assert "up to 300.000 s" in texts(steps)[0]

    def test_memory_kinds_have_their_own_bars(self):
        memory = MemoryMetrics(
            avg_memory_allocated_gb=30.0,
            peak_memory_allocated_gb=35.0,
            avg_memory_reserved_gb=50.0,
            peak_memory_reserved_gb=50.0,
            peak_memory_device_used_gb=60.0,
        )
        _, _, _, axes, _ = panels(comparison(make_run(memory_metrics=memory)))
        assert texts(axes) == ["30.0 average, 35.0 peak", "50.0 average and peak", "60.0 peak"]
        assert [text.get_text() for text in axes.get_legend().get_texts()] == [
            "allocated",
            "reserved",
            "in use on the device",
            "average",
            "peak",
        ]
        assert len({patch.get_hatch() for patch in axes.get_legend().get_patches()[:3]}) == 3

    def test_models_are_groups(self):
        result = comparison(make_run(), make_run(**AMD), make_run(model="qwen"), make_run(**AMD, model="qwen"))
        _, _, throughput, *_ = panels(result)
        h100, mi300x = "8×H100 80GB HBM3 (BF16)", "8×MI300X (BF16)"
        assert labels(throughput) == ["Llama 3.1 8B", h100, mi300x, "Qwen 2.5 7B", h100, mi300x]
        colors = [bar.get_facecolor() for bar in throughput.patches]
        assert colors[:2] == colors[2:]

    def test_eight_systems_have_eight_colors(self):
        _, _, throughput, *_ = panels(comparison(*(make_run(label=str(index)) for index in range(8))))
        assert len({bar.get_facecolor() for bar in throughput.patches}) == 8

    def test_steps_of_different_work_are_called_so(self):
        _, averages, *_ = panels(comparison(make_run(), make_run(**AMD, batch=32)))
        assert any("compare throughput, not step time" in text for text in texts(averages))


class TestWhatIsMissing:
    def test_an_excluded_system_has_its_reason_in_the_place_of_the_bar(self):
        run = make_run(**AMD, native_metrics={"tokens_per_second": 1e6})
        figure, averages, throughput, *_ = panels(comparison(make_run(), run))
        for axes in (averages, throughput):
            assert len(axes.patches) == 1
            assert texts(axes)[1].startswith("excluded: it reports 1,000,000")
        assert figure.legends[0].get_texts()[1].get_text().endswith("(excluded)")

    def test_a_failed_run(self):
        _, _, throughput, memory, _ = panels(comparison(make_run(), failed_run()))
        assert "no step times: the run failed (out of memory)" in texts(throughput)
        assert "not measured" in texts(memory)

    def test_nothing_at_all(self):
        figure, *axes = panels(comparison(failed_run()))
        assert [texts(each)[0].splitlines()[0] for each in axes] == ["not measured"] * 4
        assert figure.legends == []

    def test_no_memory_anywhere(self):
        *_, memory, _ = panels(comparison(make_run(memory_metrics=MemoryMetrics(), losses=False)))
        assert texts(memory) == ["not measured"]

    def test_the_loss_takes_the_place_of_memory_that_nobody_measured(self):
        *_, panel, _ = panels(comparison(make_run(memory_metrics=MemoryMetrics())))
        assert panel.get_title(loc="left") == "Loss over tokens"
        assert texts(panel) == ["memory was not measured"]

    def test_step_times_without_throughput(self):
        _, averages, throughput, *_ = panels(comparison(make_run(batch=None)))
        assert texts(averages) == ["3.200 s\n1 run"]
        assert texts(throughput)[0].startswith("not measured")

    def test_gaps_in_the_series(self):
        times = make_run().step_times
        run = make_run(step_times=(*times[:30], None, *times[31:]), loss_values=(None,) * 59 + (2.0,))
        assert plot.render(report(comparison(run))).startswith(b"\x89PNG")


class TestSizes:
    @pytest.mark.parametrize("count", [1, 2, 20])
    def test_labels_dont_overlap(self, count):
        runs = [
            make_run("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", label=f"a long label {index}")
            for index in range(count)
        ]
        figure, *axes = panels(comparison(*runs))
        FigureCanvasAgg(figure).draw()
        for each in axes[:3]:
            boxes = [label.get_window_extent() for label in each.get_yticklabels()]
            assert len(boxes) == count
            assert all(upper.y0 >= lower.y1 for upper, lower in itertools.pairwise(boxes))
            assert all(box.x0 >= 0 for box in boxes)
        for each in axes[:2]:
            right = each.get_window_extent().x1
            assert all(text.get_window_extent().x1 <= right + 12 for text in each.texts)

    def test_a_single_bar_doesnt_fill_the_panel(self):
        _, _, throughput, *_ = panels(comparison(make_run()))
        low, high = sorted(throughput.get_ylim())
        assert throughput.patches[0].get_height() < 0.25 * (high - low)

    def test_more_bars_make_a_higher_picture(self):
        few, many = (
            plot.figure(report(comparison(*(make_run(label=str(index)) for index in range(count)))))
            for count in (2, 20)
        )
        assert many.get_figheight() > 1.3 * few.get_figheight()

    def test_of_many_systems_and_runs_the_first_are_drawn(self):
        figure, averages, *_ = panels(comparison(*(make_run(label=str(index)) for index in range(25))))
        assert len(averages.patches) == 20
        assert subtitle(figure)[-1].endswith("20 of 25 systems")
        *_, steps = panels(comparison(repeated(3.2, [1 + 0.001 * day for day in range(25)])))
        assert len(steps.lines) == 2 * 20
        assert texts(steps)[0].endswith("the first 20 of up to 25 runs of a system")

    def test_long_names_keep_their_ends(self):
        long = "8×NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
        _, _, throughput, *_ = panels(comparison(make_run(long, label="first"), make_run(long, label="second")))
        assert [label.splitlines()[-1] for label in labels(throughput)] == ["first", "second"]


class TestOutsideInfluence:
    def test_hostile_text_is_drawn_as_text(self):
        run = make_run(HOSTILE, label="_$\\frac$ %s {x}", model=HOSTILE, framework=HOSTILE)
        other = make_run(**AMD, label="图形卡 \U0001f680", model=HOSTILE)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert plot.render(report(comparison(run, other))).startswith(b"\x89PNG")

    @pytest.mark.parametrize(("form", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
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
        with pytest.raises(plot.NoMatplotlibError, match=r"matplotlib is not installed: pip install matplotlib$"):
            plot.render(report(pair))

    def test_a_cache_folder_that_cant_be_written_and_a_back_end_that_isnt_there(self, repository, tmp_path):
        (tmp_path / "file").write_text("")
        program = (
            "from made_runs import *; from tprimat.report import plot; from tprimat.report.verdict import report; "
            "assert plot.render(report(comparison(make_run()))).startswith(b'\\x89PNG')"
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
            "Throughput, tokens/s/GPU (higher is better)",
            "Loss over tokens",
            "Step time over the steps",
            "Average step time, s (lower is better)",
        ]
        assert title(figure)[0].startswith("8×MI300X (BF16) is 33% faster")

    def test_loss_over_tokens(self, pair):
        loss = plot.figure(report(pair), layout="frameworks").axes[1]
        line = loss.lines[0]
        assert line.get_xdata()[-1] == pytest.approx(60 * 64 * 2048 / 1e6)
        assert line.get_ydata()[0] == pytest.approx(11.8)
        assert (loss.get_ylabel(), loss.get_xlabel()) == ("loss, nats/token", "10⁶ tokens")

    def test_entropy_of_the_data_is_a_floor(self):
        figure = plot.figure(report(comparison(make_run(data=Data(kind="markov", entropy=1.9)))), layout="frameworks")
        assert list(figure.axes[1].lines[-1].get_ydata()) == [1.9, 1.9]
        assert texts(figure.axes[1]) == ["dotted: 1.9 nats/token, data entropy (lowest achievable loss)"]

    def test_loss_without_tokens(self):
        loss = plot.figure(report(comparison(make_run(batch=None))), layout="frameworks").axes[1]
        assert "tokens per step are unknown" in texts(loss)[0]

    def test_without_any_times(self):
        figure = plot.figure(report(comparison(failed_run(), failed_run("NVIDIA H100"))), layout="frameworks")
        assert "not measured" in texts(figure.axes[3])[0]


class TestNothingIsCut:
    @pytest.mark.parametrize("layout", ["standard", "frameworks"])
    @pytest.mark.parametrize(
        "make",
        [
            lambda: comparison(make_run(), make_run(**AMD, step_time=2.4)),
            lambda: comparison(repeated(3.2), repeated(2.8, **AMD)),
            lambda: comparison(repeated(3.2, (0.8, 1.2)), repeated(3.0, (0.8, 1.2), **AMD)),
            lambda: comparison(*(make_run(label=f"a rather long label {index}") for index in range(3))),
            lambda: comparison(
                make_run("NVIDIA H100", framework="mlperf", length=None), failed_run(framework="mlperf")
            ),
            lambda: comparison(make_run(), make_run(**AMD, native_metrics={"tokens_per_second": 1e6})),
            lambda: comparison(
                *(make_run(**fields, model=f"model {index}") for index in range(3) for fields in ({}, AMD))
            ),
        ],
    )
    def test_titles_and_texts_end_inside_the_picture(self, make, layout):
        figure = plot.figure(report(make()), layout=layout)
        FigureCanvasAgg(figure).draw()
        for axes in figure.axes:
            shown = [axes._left_title, axes.xaxis.label, *axes.texts, *axes.get_yticklabels()]
            boxes = [(text.get_text(), text.get_window_extent()) for text in shown if text.get_text()]
            assert [text for text, box in boxes if box.x0 < -1 or box.x1 > figure.bbox.x1 + 1] == []
        left, right = (axes._left_title.get_window_extent() for axes in figure.axes[:2])
        assert left.x1 < right.x0
