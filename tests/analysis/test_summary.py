"""From a run's records to its figures."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import pytest
from stored_runs import series

from tprimat.analysis import metrics, records
from tprimat.analysis.flops import model_shape
from tprimat.analysis.summary import Summary, rounded, summarize
from tprimat.results.run import (
    GpuInfo,
    MemoryMetrics,
    ModelConfig,
    PerformanceMetrics,
    Run,
    Source,
    TrainingConfig,
)
from tprimat.store import store


def a_run(times, windows=None, steps=None, gpus=8, **fields) -> Run:
    """A run with these step times, 64 × 2048 tokens a step."""
    count = len(times)
    windows = windows or (1,) * count
    fields.setdefault(
        "training_config", TrainingConfig(global_batch_size=64, sequence_length=2048, num_gpus=gpus)
    )
    fields.setdefault(
        "steps", tuple(steps or (sum(windows[: index + 1]) for index in range(count)))
    )
    return Run(**series(times, window_steps=tuple(windows), **fields))


def steady(count: int, level: float = 2.0) -> list[float]:
    return [level * (1 + 0.004 * math.sin(3 * index)) for index in range(count)]


@pytest.fixture(scope="module")
def summary_of(samples):
    def summary_of(stem: str) -> Summary:
        (path,) = (samples / "results").glob(f"{stem}-*.json")
        (run,) = store.read(path)
        return summarize(run)

    return summary_of


@pytest.mark.parametrize(
    ("stem", "first_step", "step_time", "rate"),
    [
        ("train_nvd_nemo_llama", 9, 3.2411, 5055),
        ("train_amd_prim_llama", 3, 2.4292, 6745),
        ("train_nvd_nemo_qwen", 3, 3.8965, 4205),
    ],
)
def test_the_figures_of_the_real_runs(summary_of, stem, first_step, step_time, rate):
    summary = summary_of(stem)
    assert summary.steady.found
    assert (summary.steady.first_step, summary.steady.last_step) == (first_step, 500)
    assert round(summary.performance.avg_step_time_seconds, 4) == step_time
    assert round(summary.performance.tokens_per_second_per_gpu) == rate
    assert summary.performance.tokens_per_second == pytest.approx(
        64 * 2048 / summary.performance.avg_step_time_seconds
    )
    assert summary.performance.total_steps == 500


def test_the_warm_up_of_a_real_run_has_its_own_figure(summary_of):
    performance = summary_of("train_nvd_nemo_llama").performance
    assert performance.warmup_time_seconds == pytest.approx(152.9, abs=0.1)
    assert performance.total_time_seconds == pytest.approx(1747.49, abs=0.01)


@pytest.mark.parametrize("stem", ["train_amd_prim_llama", "train_amd_prim_qwen"])
def test_a_real_run_that_changes_its_speed_says_so(summary_of, stem):
    summary = summary_of(stem)
    assert not summary.is_stationary
    (before, after) = summary.segments
    assert f"speed changed at step {after.first_step}" in "; ".join(summary.warnings)
    weights = [each.last_step - each.first_step + 1 for each in (before, after)]
    mean = (before.mean * weights[0] + after.mean * weights[1]) / sum(weights)
    # All steps after the warm-up, across segments.
    assert summary.performance.avg_step_time_seconds == pytest.approx(mean)


def test_ten_real_steps_show_their_start_up_if_it_was_over_by_the_middle(summary_of):
    summary = summary_of("benchmark_cuda_llama")
    assert (summary.steady.first_step, summary.steady.last_step) == (2, 10)
    assert round(summary.performance.avg_step_time_seconds, 3) == 1.602
    assert summary.assumed_start == 5


@pytest.mark.parametrize(
    ("count", "assumed"), [(1, None), (2, 1), (9, 1), (10, 5), (29, 14), (30, None)]
)
def test_below_thirty_steps_the_end_of_the_start_up_is_an_assumption(count, assumed):
    summary = summarize(a_run([9.0, *steady(count)][:count]))
    assert summary.assumed_start == assumed
    assert summary.steady.found == (count >= 10)
    assert any("records are too few (needs 10)" in warning for warning in summary.warnings) == (
        1 < count < 10
    )


@pytest.mark.parametrize(("first", "counts"), [(0.99, True), (1.01, False)])
def test_of_too_few_records_the_first_is_excluded_if_it_is_slower(first, counts):
    assert summarize(a_run([first, 1.0, 1.0])).steady.first_step == (1 if counts else 2)


def test_a_slow_start_beyond_step_twenty_is_told_with_its_effect():
    told = [
        any("slow start" in text for text in summarize(a_run([4.0] * n + steady(200))).warnings)
        for n in (20, 21)
    ]
    assert told == [False, True]
    (text,) = [
        text for text in summarize(a_run([2.0] * 40 + [1.0] * 160)).warnings if "slow start" in text
    ]
    assert text.startswith(
        "steps 1–40 are excluded as a slow start: they take 2.00× the time of those after; "
    )
    assert text.endswith("with them the mean step time is +20.0%")


def test_steps_are_skipped_as_far_as_the_middle():
    run = a_run([9.0, *steady(99)])
    assert [summarize(run, skip=skip).steady.first_step for skip in (0, 1, 30, 50, 51, 90)] == [
        2,
        2,
        31,
        51,
        51,
        51,
    ]
    assert summarize(run, skip=30).skipped == 30


def test_figures_by_hand():
    performance = summarize(
        a_run([10.0, 4.0, 2.0, 3.0], loss_values=(4.0, 3.0, None, 2.0))
    ).performance
    assert performance.total_steps == 4
    assert performance.total_time_seconds == 19.0
    assert performance.avg_step_time_seconds == 3.0
    assert performance.median_step_time_seconds == 3.0
    assert (performance.min_step_time_seconds, performance.max_step_time_seconds) == (2.0, 4.0)
    assert performance.std_step_time_seconds == 1.0
    assert performance.steps_per_second == pytest.approx(1 / 3)
    assert performance.tokens_per_second == pytest.approx(64 * 2048 / 3)
    assert performance.tokens_per_second_per_gpu == pytest.approx(64 * 2048 / 3 / 8)
    assert performance.warmup_time_seconds == 10.0
    assert performance.final_loss == 2.0


def test_a_window_weighs_as_many_steps_as_it_averages():
    performance = summarize(a_run([9.0, 1.0, 4.0], windows=(1, 10, 5))).performance
    assert performance.total_steps == 16
    assert performance.avg_step_time_seconds == pytest.approx((10 * 1.0 + 5 * 4.0) / 15)
    assert performance.total_time_seconds == pytest.approx(9 + 10 + 20)


def test_steps_are_those_that_the_records_average():
    run = a_run([9.0] * 3 + [1.0] * 30, windows=(32,) * 33)
    assert (summarize(run).steady.first_step, summarize(run).steady.last_step) == (97, 33 * 32)
    overlapping = a_run([9.0, 1.0, 4.0], windows=(10, 10, 10), steps=(5, 10, 15))
    assert (summarize(overlapping).steady.first_step, summarize(overlapping).steady.last_step) == (
        6,
        15,
    )


def test_the_loss_is_the_mean_of_the_last_ten_that_are_known():
    losses = [float(number) for number in range(50)]
    losses[-1] = None
    performance = summarize(a_run(steady(50), loss_values=tuple(losses))).performance
    assert performance.final_loss == pytest.approx(sum(range(39, 49)) / 10)


def test_without_steps_there_is_no_figure_and_a_reason():
    summary = summarize(a_run([]))
    assert summary.performance.known() == {"total_steps": 0}
    assert summary.warnings == ("no step times recorded, so no throughput",)


def test_without_times_the_loss_is_still_told():
    performance = summarize(a_run([None, None], loss_values=(3.0, 1.0))).performance
    assert performance.known() == {"total_steps": 2, "final_loss": 1.0}


def test_a_single_step_is_a_figure_with_a_doubt():
    summary = summarize(a_run([2.0]))
    assert summary.performance.avg_step_time_seconds == 2.0
    assert summary.performance.std_step_time_seconds is None
    assert "only one record: it may include warm-up" in summary.warnings
    assert not any("after the first" in warning for warning in summary.warnings)


def test_a_single_mean_says_of_how_many_steps():
    summary = summarize(a_run([2.0], windows=(100,)))
    assert any("only one record (the mean of 100 steps)" in warning for warning in summary.warnings)


def test_a_run_that_never_settles_is_said_to():
    summary = summarize(a_run([2.0 * 0.9**index for index in range(60)]))
    assert not summary.steady.found
    assert any("slower than at its end" in warning for warning in summary.warnings)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ({"global_batch_size": 64}, "sequence length unknown"),
        ({"sequence_length": 64}, "global batch size unknown"),
        ({}, "global batch size and sequence length unknown"),
    ],
)
def test_without_batch_or_sequence_there_are_step_times_only(missing, words):
    summary = summarize(a_run(steady(30), training_config=TrainingConfig(num_gpus=8, **missing)))
    assert summary.performance.avg_step_time_seconds is not None
    assert summary.performance.tokens_per_second is None
    assert any(words in warning for warning in summary.warnings)


def test_without_a_number_of_gpus_there_is_no_rate_per_gpu():
    summary = summarize(a_run(steady(30), gpus=None))
    assert summary.performance.tokens_per_second is not None
    assert summary.performance.tokens_per_second_per_gpu is None
    assert "number of GPUs unknown: no throughput per GPU" in summary.warnings
    counted = summarize(a_run(steady(30), gpus=None, gpu_info=GpuInfo(device_count=4)))
    assert counted.performance.tokens_per_second_per_gpu == pytest.approx(
        summary.performance.tokens_per_second / 4
    )


RATE = 64 * 2048 / 2.0


@pytest.mark.parametrize("factor", [1.06, 2, 4, 8])
@pytest.mark.parametrize("kind", [float, round])
def test_a_printed_rate_that_contradicts_the_batch_withholds_the_throughput(factor, kind):
    summary = summarize(
        a_run([2.0] * 30, native_metrics={"tokens_per_second": kind(RATE * factor)})
    )
    assert summary.performance.tokens_per_second is None
    assert summary.performance.tokens_per_second_per_gpu is None
    assert summary.performance.avg_step_time_seconds == 2.0
    assert any(f"{factor:.3f} times" in warning for warning in summary.warnings)


@pytest.mark.parametrize("printed", [RATE, RATE * 1.04, RATE * 0.5, None, (RATE,) * 30])
def test_a_printed_rate_that_agrees_or_leaves_out_padding_changes_nothing(printed):
    summary = summarize(a_run([2.0] * 30, native_metrics={"tokens_per_second": printed}))
    assert summary.performance.tokens_per_second == pytest.approx(RATE)


def test_a_total_is_not_given_where_steps_have_no_time():
    summary = summarize(a_run([3.0, None, 2.0]))
    assert summary.performance.total_time_seconds is None
    assert "total time unknown: 1 of 3 records have no time" in summary.warnings


def test_a_total_is_not_given_where_steps_are_missing():
    summary = summarize(a_run([3.0, 2.0, 2.0], steps=(1, 2, 10)))
    assert summary.performance.total_time_seconds is None
    assert "total time unknown: not all steps between 2 and 10 are recorded" in summary.warnings


@pytest.mark.parametrize(
    ("times", "fast", "payers"),
    [
        ([19, 0.29, 0.01, 4.9, 4.9, 4.9], (2, 3), ()),
        ([19, 4.9, 0.004, 9.8, 4.9, 4.9], (3,), (4,)),
        ([19, 4.9, 0.003, 0.003, 14.2, 4.9, 4.9, 4.9], (3, 4), (5,)),
        ([19, 4.9, 4.9, 4.9, 4.9, 0.01], (6,), ()),
        # A warm-up, another speed, and too little to tell.
        ([24.9, 0.57, 0.25, 0.25, 0.25, 0.25], (), ()),
        ([0.1] * 6 + [2.0] * 6, (), ()),
        ([60, 5, 0.001], (), ()),
    ],
)
def test_times_of_an_asynchronous_dispatch_are_excluded_and_reported(times, fast, payers):
    run = a_run(times)
    summary = summarize(run)
    assert records.dispatch_artifacts(run) == (fast, payers)
    assert sum("asynchronous dispatch" in warning for warning in summary.warnings) == bool(fast)
    assert summary.performance.total_steps == len(times)
    assert summary.performance.total_time_seconds == pytest.approx(sum(times))
    if fast:
        assert summary.performance.avg_step_time_seconds == pytest.approx(4.9)


@pytest.mark.parametrize(
    ("fields", "excluded"),
    [
        ({}, 1),
        ({"source": Source(kind="log")}, 1),
        ({"source": Source(kind="live")}, 0),
        ({"platform": "cpu"}, 0),
        ({"source": Source(kind="result"), "framework": "nemo"}, 0),
        # An older result of Primus has the times of its log.
        ({"source": Source(kind="result"), "framework": "primus"}, 1),
    ],
)
def test_fast_steps_of_our_own_recorder_or_of_a_cpu_are_no_artifacts(fields, excluded):
    times = [5.0, 5.0, 0.001, 5.0, 5.0, 5.0, 5.0]
    summary = summarize(msgspec.structs.replace(a_run(times), **fields))
    assert sum("asynchronous dispatch" in warning for warning in summary.warnings) == excluded
    assert (summary.performance.min_step_time_seconds == 5.0) == bool(excluded)


PAUSED = [1.0] * 4 + [6.0] + [1.0] * 4 + [6.0] + [1.0] * 4


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ([1.0] * 5 + [1.41], 1),
        ([1.0] * 5 + [1.39], 0),
        ([1.0] * 5 + [1.5, 1.5], 0),
        ([1.0] * 9, 0),
        ([*PAUSED, 6.0], 0),
        ([*PAUSED, 8.5], 1),
    ],
)
def test_a_slow_last_record_is_told(times, told):
    assert sum("the last record" in warning for warning in summarize(a_run(times)).warnings) == told


def test_what_is_stored_is_rounded_and_counts_stay():
    exact = PerformanceMetrics(
        total_steps=12345, avg_step_time_seconds=0.0354321, tokens_per_second=123456.78949
    )
    assert rounded(exact).known() == {
        "total_steps": 12345,
        "avg_step_time_seconds": 0.03543,
        "tokens_per_second": 123456.789,
    }


def test_every_metric_is_a_field_of_the_result():
    fields = {*PerformanceMetrics.__struct_fields__, *MemoryMetrics.__struct_fields__}
    names = [metric.name for metric in metrics.METRICS]
    assert set(names) <= fields
    assert len(set(names)) == len(names)
    for metric in metrics.METRICS:
        assert metrics.by_name(metric.name) is metric
        assert all((metric.title, metric.unit, metric.how))


def test_there_is_no_metric_of_another_name():
    with pytest.raises(KeyError):
        metrics.by_name("throughput_per_gpu_core")


@pytest.mark.parametrize(
    ("fields", "layers", "words"),
    [
        ({"model": "llama"}, 32, "FLOPs are those of Llama 3.1 8B"),
        ({"model": "qwen", "scale": "full"}, 28, "FLOPs are those of Qwen 2.5 7B"),
        ({"model": "llama", "scale": "tiny"}, None, "at scale tiny is not stated: no FLOPs"),
        ({"model": "gpt"}, None, "shape of gpt is not stated: no FLOPs"),
        ({}, None, "no FLOPs"),
    ],
)
def test_a_shape_that_is_not_stated_is_the_full_models_or_none(fields, layers, words):
    shape, said = model_shape(Run(**fields))
    assert (shape and shape.num_layers) == layers
    assert words in said


def test_a_shape_that_is_stated_is_taken():
    stated = ModelConfig(num_layers=2)
    assert model_shape(Run(model="llama", model_config=stated)) == (stated, None)


def test_a_million_steps_are_summed_up_without_overflow():
    longest = summarize(a_run([1e9] * 50, windows=(2**53,) * 50)).performance
    shortest = summarize(a_run([1e-9] * 50)).performance
    for performance in (longest, shortest):
        figures = [value for value in performance.known().values() if isinstance(value, float)]
        assert figures
        assert all(map(math.isfinite, figures))


def test_a_summary_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        summarize(a_run([1.0])).warnings = ()


@pytest.mark.parametrize("window", [{"skip": 15}, {"stop": 70}, {"skip": 60, "stop": 80}])
def test_a_summary_with_the_segments_of_an_earlier_one_is_the_same(window, monkeypatch):
    run = a_run([9.0, 4.0, *steady(38), *steady(60, 3.0)])
    earlier, expected = summarize(run), summarize(run, **window)
    assert len(summarize(run).segments) == 2
    monkeypatch.setattr("tprimat.analysis.summary.find_segments", None)
    assert summarize(run, **window, earlier=earlier) == expected


def test_without_step_times_there_are_no_earlier_segments_to_take():
    run = a_run([None, None])
    assert summarize(run, skip=1, earlier=summarize(run)) == summarize(run, skip=1)
