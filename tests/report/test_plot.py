from __future__ import annotations

import itertools
import logging
import os
import subprocess
import sys
import warnings

import pytest
from made_runs import HOSTILE, MI300X, comparison, failed_run, make_run
from matplotlib.backends.backend_agg import FigureCanvasAgg

from tprimat.report import plot
from tprimat.results.run import Data, MemoryMetrics

AMD = {"device": MI300X, "stack": "rocm"}


def panels(result):
    figure = plot.figure(result)
    throughput, steps, loss, memory = figure.axes
    return figure, throughput, steps, loss, memory


def texts(axes):
    return [text.get_text() for text in axes.texts]


def labels(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


@pytest.fixture
def pair():
    return comparison(make_run(), make_run(**AMD, step_time=2.4))


class TestPanels:
    def test_titles_and_units(self, pair):
        _, throughput, steps, loss, memory = panels(pair)
        assert throughput.get_title(loc="left") == "Throughput, tokens/s/GPU (more is better)"
        assert throughput.get_xlabel() == "tokens/s/GPU"
        assert (steps.get_title(loc="left"), steps.get_ylabel(), steps.get_xlabel()) == (
            "Step time over the steps",
            "s per step",
            "optimizer step",
        )
        assert (loss.get_ylabel(), loss.get_xlabel()) == ("loss, nats/token", "10⁶ tokens")
        assert memory.get_xlabel() == "GB"

    def test_throughput_bars_carry_their_values(self, pair):
        _, throughput, *_ = panels(pair)
        assert [round(bar.get_width()) for bar in throughput.patches] == [5120, 6827]
        assert texts(throughput) == ["5,120\nn = 1 (reference)", "6,827\nn = 1 (1.33×)"]
        assert labels(throughput) == ["8×H100 80GB HBM3", "8×MI300X"]

    def test_several_runs_have_a_range(self):
        second = make_run(step_time=3.3, timestamp="2026-02-03T00:00:00+00:00")
        _, throughput, *_ = panels(comparison((make_run(), second)))
        assert texts(throughput) == ["5,043 ±1.5% (range)\nn = 2"]
        assert len(throughput.collections) + len(throughput.containers) >= 2

    def test_three_runs_have_the_interval_between_them(self):
        runs = tuple(make_run(step_time=3.2 + 0.01 * k, timestamp=f"2026-02-0{k + 1}T00:00:00+00:00") for k in range(3))
        _, throughput, *_ = panels(comparison(runs))
        (text,) = texts(throughput)
        assert text == "5,104 ±0.8%\nn = 3"

    def test_a_single_run_of_many_steps_has_the_interval_within_it(self):
        _, throughput, *_ = panels(comparison(make_run(steps=300)))
        assert texts(throughput)[0].endswith("% within the run\nn = 1")

    def test_a_run_that_changes_its_level_has_no_single_figure(self):
        times = (*(3.0 + 0.001 * (k % 5) for k in range(100)), *(2.0 + 0.001 * (k % 5) for k in range(100)))
        result = comparison(make_run(steps=200), make_run(**AMD, steps=200, step_times=times))
        figure, throughput, steps, *_ = panels(result)
        assert texts(throughput)[1] == "5,458–8,184 by level\nn = 1 (1.07–1.60× by level)"
        assert [round(bar.get_width()) for bar in throughput.patches[1:]] == [8184, 5458]
        # Both levels are drawn in full: only what comes before the first one is pale.
        assert list(steps.lines[2].get_xdata()) == [1]
        said = [text.get_text() for text in figure.legends[0].get_texts()]
        assert said[1] == "8×MI300X: by level 3.002 s then 2.002 s"

    def test_several_runs_with_levels_are_drawn(self):
        times = (*(3.0 + 0.001 * (k % 5) for k in range(100)), *(2.0 + 0.001 * (k % 5) for k in range(100)))
        runs = tuple(
            make_run(steps=200, step_times=times[k:] + times[:k], timestamp=f"2026-02-0{k + 1}T00:00:00+00:00")
            for k in range(3)
        )
        _, throughput, *_ = panels(comparison(runs))
        assert texts(throughput)[0].endswith("(range)\nn = 3")

    def test_the_legend_says_the_average(self, pair):
        figure, *_ = panels(pair)
        assert [text.get_text() for text in figure.legends[0].get_texts()] == [
            "8×H100 80GB HBM3: mean 3.200 s",
            "8×MI300X: mean 2.400 s",
        ]

    def test_warm_up_is_shaded_and_off_the_scale(self, pair):
        _, _, steps, *_ = panels(pair)
        assert [patch.get_x() + patch.get_width() for patch in steps.patches] == [3.5, 3.5]
        assert steps.get_ylim()[1] < 4
        assert "shaded: not in the figures" in texts(steps)[0]
        assert "6 steps lie off the scale, the longest at 30.000 s" in texts(steps)[0]

    def test_steps_hold_every_record(self, pair):
        _, _, steps, *_ = panels(pair)
        pale, line, *_ = steps.lines
        assert list(pale.get_xdata()) == [1, 2, 3, 4]
        assert list(line.get_xdata()) == list(range(4, 61))
        assert list(line.get_ydata()) == list(make_run().step_times[3:])

    def test_unlike_step_times_get_a_log_scale(self):
        _, _, steps, *_ = panels(comparison(make_run(step_time=0.1, warmup=(1.0,)), make_run(**AMD, step_time=3.0)))
        assert steps.get_yscale() == "log"

    def test_spikes_dont_flatten_the_rest(self):
        run = make_run(steps=300)
        run = make_run(steps=300, step_times=(*run.step_times[:200], 300.0, *run.step_times[201:]))
        _, _, steps, *_ = panels(comparison(run))
        assert steps.get_ylim()[1] < 5
        assert "the longest at 300.000 s" in texts(steps)[0]

    def test_loss_over_tokens(self, pair):
        *_, loss, _ = panels(pair)
        line = loss.lines[0]
        assert line.get_xdata()[-1] == pytest.approx(60 * 64 * 2048 / 1e6)
        assert line.get_ydata()[0] == pytest.approx(11.8)

    def test_entropy_of_the_data_is_a_floor(self):
        *_, loss, _ = panels(comparison(make_run(data=Data(kind="markov", entropy=1.9))))
        assert list(loss.lines[-1].get_ydata()) == [1.9, 1.9]
        assert "dotted: 1.9, the entropy of the data" in texts(loss)[0]

    def test_memory_kinds_have_their_own_bars(self):
        memory = MemoryMetrics(
            avg_memory_allocated_gb=30.0,
            peak_memory_allocated_gb=35.0,
            avg_memory_reserved_gb=50.0,
            peak_memory_reserved_gb=50.0,
            peak_memory_device_used_gb=60.0,
        )
        *_, axes = panels(comparison(make_run(memory_metrics=memory)))
        assert texts(axes) == ["30.0 average, 35.0 peak", "50.0 average and peak", "60.0 peak"]
        assert [text.get_text() for text in axes.get_legend().get_texts()] == [
            "allocated",
            "reserved",
            "in use on the device",
            "to the average",
            "to the peak",
        ]
        assert len({patch.get_hatch() for patch in axes.get_legend().get_patches()[:3]}) == 3

    def test_models_are_groups(self):
        result = comparison(make_run(), make_run(**AMD), make_run(model="qwen"), make_run(**AMD, model="qwen"))
        figure, throughput, *_ = panels(result)
        assert labels(throughput) == [
            "Llama 3.1 8B",
            "8×H100 80GB HBM3",
            "8×MI300X",
            "Qwen 2.5 7B",
            "8×H100 80GB HBM3",
            "8×MI300X",
        ]
        colors = [bar.get_facecolor() for bar in throughput.patches]
        assert colors[:2] == colors[2:]
        assert figure.get_suptitle().startswith("Training speed: Llama 3.1 8B, Qwen 2.5 7B")


class TestWhatIsMissing:
    def test_a_withheld_rate_has_its_reason_in_the_place_of_the_bar(self):
        run = make_run(**AMD, native_metrics={"tokens_per_second": 1e6})
        _, throughput, *_ = panels(comparison(make_run(), run))
        assert texts(throughput)[1].startswith("left out: the printed 1,000,000 tokens/s")

    def test_a_failed_run(self):
        _, throughput, _, loss, memory = panels(comparison(make_run(), failed_run()))
        assert "no step times: the run failed (out of memory)" in texts(throughput)
        assert "8×MI300X: no loss was recorded" in texts(loss)[0]
        assert "not measured" in texts(memory)

    def test_nothing_at_all(self):
        figure, *axes = panels(comparison(failed_run()))
        assert [texts(each)[0].splitlines()[0] for each in axes] == ["not measured"] * 4
        assert figure.legends == []

    def test_no_memory_anywhere(self):
        *_, memory = panels(comparison(make_run(memory_metrics=MemoryMetrics())))
        assert texts(memory)[0].startswith("not measured")

    def test_loss_without_tokens(self):
        *_, loss, _ = panels(comparison(make_run(batch=None)))
        assert "tokens per step are unknown" in texts(loss)[0]

    def test_gaps_in_the_series(self):
        times = make_run().step_times
        run = make_run(step_times=(*times[:30], None, *times[31:]), loss_values=(None,) * 59 + (2.0,))
        assert plot.render(comparison(run)).startswith(b"\x89PNG")


class TestSizes:
    @pytest.mark.parametrize("count", [1, 2, 20])
    def test_labels_dont_overlap(self, count):
        runs = [
            make_run("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", label=f"a long label {index}")
            for index in range(count)
        ]
        figure, *axes = panels(comparison(*runs))
        FigureCanvasAgg(figure).draw()
        for each in (axes[0], axes[3]):
            boxes = [label.get_window_extent() for label in each.get_yticklabels()]
            assert len(boxes) == count
            assert all(upper.y0 >= lower.y1 for upper, lower in itertools.pairwise(boxes))
            assert all(box.x0 >= 0 for box in boxes)
        right = axes[0].get_window_extent().x1
        assert all(text.get_window_extent().x1 <= right + 12 for text in axes[0].texts)

    def test_a_single_bar_doesnt_fill_the_panel(self):
        _, throughput, *_ = panels(comparison(make_run()))
        low, high = sorted(throughput.get_ylim())
        assert throughput.patches[0].get_height() < 0.25 * (high - low)

    def test_more_bars_make_a_higher_picture(self):
        few, many = (
            plot.figure(comparison(*(make_run(label=str(index)) for index in range(count)))) for count in (2, 20)
        )
        assert many.get_figheight() > 1.3 * few.get_figheight()

    def test_long_names_keep_their_ends(self):
        long = "8×NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
        _, throughput, *_ = panels(comparison(make_run(long, label="first"), make_run(long, label="second")))
        assert [label.splitlines()[-1] for label in labels(throughput)] == ["first", "second"]


class TestOutsideInfluence:
    def test_hostile_text_is_drawn_as_text(self):
        run = make_run(HOSTILE, label="_$\\frac$ %s {x}", model=HOSTILE, framework=HOSTILE)
        other = make_run(**AMD, label="图形卡 \U0001f680", model=HOSTILE)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert plot.render(comparison(run, other)).startswith(b"\x89PNG")

    @pytest.mark.parametrize(("form", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
    def test_forms(self, pair, form, start):
        assert plot.render(pair, form=form).startswith(start)

    def test_settings_and_logging_are_left_as_they_were(self, pair, monkeypatch):
        import matplotlib

        monkeypatch.setenv("MPLBACKEND", "svg")
        with matplotlib.rc_context({"font.size": 33}):
            before = dict(matplotlib.rcParams)
            figure = plot.figure(pair)
            assert dict(matplotlib.rcParams) == before
        assert figure.axes[0].get_yticklabels()[0].get_fontsize() < 20
        assert logging.getLogger("matplotlib").level == logging.NOTSET
        assert os.environ["MPLBACKEND"] == "svg"

    def test_without_matplotlib_there_is_the_command_that_brings_it(self, pair, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(plot.NoMatplotlibError, match=r"matplotlib is not installed: pip install matplotlib$"):
            plot.render(pair)

    def test_a_cache_folder_that_cant_be_written_and_a_back_end_that_isnt_there(self, repository, tmp_path):
        (tmp_path / "file").write_text("")
        program = (
            "from made_runs import *; from tprimat.report import plot; "
            "assert plot.render(comparison(make_run())).startswith(b'\\x89PNG')"
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
    def test_panels(self, pair):
        figure = plot.figure(pair, layout="frameworks")
        throughput, _, _, average = figure.axes
        assert [axes.get_title(loc="left") for axes in figure.axes] == [
            "Throughput, tokens/s/GPU (more is better)",
            "Loss over tokens",
            "Step time over the steps",
            "Average step time, s (less is better)",
        ]
        assert [round(bar.get_width(), 3) for bar in average.patches] == [3.2, 2.4]
        assert texts(average) == ["3.200 s", "2.400 s"]
        assert labels(average) == labels(throughput)

    def test_steps_of_different_work_are_called_so(self):
        figure = plot.figure(comparison(make_run(), make_run(**AMD, batch=32)), layout="frameworks")
        assert any("isn't a faster training" in text for text in texts(figure.axes[3]))

    def test_without_any_times(self):
        figure = plot.figure(comparison(failed_run(), failed_run("NVIDIA H100")), layout="frameworks")
        assert "not measured" in texts(figure.axes[3])[0]

    def test_impossible_bars_are_not_drawn(self):
        result = comparison(make_run(step_time=0.01), make_run(**AMD))
        average = plot.figure(result, layout="frameworks").axes[3]
        assert len(average.patches) == 1
        assert any("left out" in text for text in texts(average))
