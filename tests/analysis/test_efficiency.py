"""What a speed is worth, on real results and by hand."""

from __future__ import annotations

import msgspec
import pytest
from made_runs import MI300X, make_run, shape

from tprimat.analysis import efficiency
from tprimat.analysis.efficiency import Options, Value, largest_micro_batch, of_runs
from tprimat.analysis.summary import summarize
from tprimat.catalog.prices import Price
from tprimat.results.conditions import Disturbance
from tprimat.results.run import MemoryMetrics, Run
from tprimat.results.telemetry import Telemetry
from tprimat.store import store


@pytest.fixture
def february(samples):
    return {
        name: store.read(samples / "results" / f"train_{name}-516b342.json")[0]
        for name in ("amd_prim_llama", "nvd_nemo_llama", "amd_prim_qwen", "nvd_nemo_qwen")
    }


def worth(run: Run, **options):
    return of_runs([run], [summarize(run)], Options(**options))


def full_run(**fields):
    return make_run(model_config=shape(num_parameters=8_030_261_248), steps=600, **fields)


@pytest.mark.parametrize(
    ("name", "mfu"),
    [
        ("nvd_nemo_llama", 23.8),
        ("amd_prim_llama", 24.05),
        ("nvd_nemo_qwen", 18.6),
        ("amd_prim_qwen", 21.8),
    ],
)
def test_mfu_of_the_real_results(february, name, mfu):
    values = worth(february[name], precision="bf16").values
    assert values["mfu"].value == pytest.approx(mfu, abs=0.1)
    assert "precision bf16 from the command line" in values["mfu"].reason
    assert "TFLOP/s measured; the data sheet says" in values["share_of_sustained"].reason


@pytest.mark.parametrize(
    ("name", "achieved", "full"),
    [("nvd_nemo_llama", 236, 24.7), ("amd_prim_llama", 314.5, 24.9), ("nvd_nemo_qwen", 184, 19.1)],
)
def test_achieved_and_full_attention_of_the_real_results(february, name, achieved, full):
    values = worth(february[name], precision="bf16").values
    assert values["model_tflops_per_gpu"].value == pytest.approx(achieved, abs=0.6)
    assert values["mfu_full"].value == pytest.approx(full, abs=0.1)


def test_without_a_precision_there_is_no_mfu_and_why(february):
    value = worth(february["nvd_nemo_llama"]).values["mfu"]
    assert value.value is None
    assert "precision unknown" in value.reason


def test_a_stated_precision_wins_over_the_one_given():
    values = worth(full_run(precision="fp8"), precision="bf16").values
    assert "dense fp8 peak" in values["mfu"].reason


def test_a_peak_that_the_user_knows():
    values = worth(full_run(device="NVIDIA Q1000"), peak_tflops=1000).values
    assert values["mfu"].value == pytest.approx(values["model_tflops_per_gpu"].value / 10)
    assert "from the command line" in values["mfu"].reason
    assert "share_of_sustained" not in values
    assert "above 100%" in worth(full_run(), peak_tflops=10).values["mfu"].reason


def test_fp32_above_its_peak_has_no_mfu():
    """It ran in TF32: a share of 564% says nothing."""
    assert 0 < worth(full_run(precision="fp32"), peak_tflops=400).values["mfu"].value < 100
    value = worth(full_run(precision="fp32"), peak_tflops=10).values["mfu"]
    assert (value.value, value.reason) == (
        None,
        "above the FP32 peak: only possible in TF32 or BF16",
    )


def test_an_unknown_gpu_has_no_mfu():
    value = worth(full_run(device="NVIDIA Q1000")).values["mfu"]
    assert value.value is None
    assert "--peak-tflops" in value.reason


@pytest.mark.parametrize(
    ("how", "factor"), [("none", 1), ("full", 4 / 3), ("selective", None), (None, None)]
)
def test_hfu_only_where_recomputation_has_a_closed_form(how, factor):
    run = full_run()
    run = msgspec.structs.replace(
        run, training_config=msgspec.structs.replace(run.training_config, recomputation=how)
    )
    values = worth(run).values
    if factor is None:
        assert values["hfu"].value is None
        assert "recomputation" in values["hfu"].reason
    else:
        assert values["hfu"].value == pytest.approx(values["mfu"].value * factor)


class TestIntervals:
    def test_of_one_run_is_that_of_its_step_time(self):
        run = full_run()
        (level,) = summarize(run).segments
        value = worth(run).values["model_tflops_per_gpu"]
        assert value.low / value.value == pytest.approx(level.mean / level.interval.high)
        assert value.high / value.value == pytest.approx(level.mean / level.interval.low)

    def test_a_median_interval_is_none_of_a_rate(self):
        value = worth(make_run(steps=60)).values["model_tflops_per_gpu"]
        assert (value.low, value.high) == (None, None)

    def test_of_several_runs_is_between_them(self):
        runs = [make_run(step_time=3.2 * factor, steps=600) for factor in (0.99, 1.0, 1.01)]
        found = of_runs(runs, [summarize(run) for run in runs], Options())
        assert found.steps == "3 runs"
        value = found.values["model_tflops_per_gpu"]
        # t with two degrees of freedom, 4.303, times 1 % / √3.
        assert value.high / value.low == pytest.approx(1 + 2 * 0.0248, abs=0.002)

    def test_of_two_runs_is_wide(self):
        runs = [make_run(step_time=3.2 * factor) for factor in (0.99, 1.01)]
        value = of_runs(runs, [summarize(run) for run in runs], Options()).values[
            "model_tflops_per_gpu"
        ]
        # t with one degree of freedom, 12.7, times 1.414 % / √2.
        assert value.high / value.low == pytest.approx(1.29, abs=0.005)


class TestMoney:
    def test_by_hand(self):
        run = full_run()
        rate = summarize(run).performance.tokens_per_second_per_gpu
        values = worth(run, price=Price(2, 2)).values
        assert values["tokens_per_dollar"].value == pytest.approx(rate * 1800)
        cost = values["dollars_per_billion_tokens"]
        assert cost.value == pytest.approx(1e9 / rate / 1800)
        assert cost.low < cost.value < cost.high

    def test_a_range_of_prices_is_a_range_of_costs(self):
        cost = worth(make_run(), price=Price(2, 4)).values["dollars_per_billion_tokens"]
        assert (cost.low / cost.value, cost.high / cost.value) == (
            pytest.approx(2 / 3),
            pytest.approx(4 / 3),
        )

    def test_one_price_and_no_interval_is_no_range(self):
        cost = worth(make_run(), price=Price(2, 2)).values["dollars_per_billion_tokens"]
        assert (cost.low, cost.high) == (None, None)

    def test_no_price_no_money(self):
        assert "tokens_per_dollar" not in worth(make_run()).values


class TestTime:
    def test_a_trillion_tokens_and_the_models_own(self):
        run = full_run()
        rate = summarize(run).performance.tokens_per_second
        values = worth(run).values
        assert values["hours_per_trillion_tokens"].value == pytest.approx(1e12 / rate / 3600)
        assert values["days_to_pretrain"].value == pytest.approx(15e12 / rate / 86400)
        assert values["days_to_pretrain"].low < values["days_to_pretrain"].value

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"model": "mistral"}, "not published"),
            ({"scale": "tiny"}, "scaled-down"),
            ({"model": "gpt"}, "not in the table"),
        ],
    )
    def test_not_of_what_nobody_pretrained(self, fields, words):
        value = worth(make_run(**fields)).values["days_to_pretrain"]
        assert value.value is None
        assert words in value.reason


class TestEnergy:
    def test_only_as_it_was_measured(self):
        run = make_run(energy_metrics={"energy_joules": 6000.0, "measured_tokens": 2000.0})
        values = worth(run).values
        assert values["joules_per_token"].value == 3
        assert "tdp_joules_per_token" not in values
        assert "joules_per_token" not in worth(make_run()).values

    def test_from_tdp_only_when_asked_and_named_so(self):
        value = worth(make_run(), tdp_energy=True).values["tdp_joules_per_token"]
        assert value.value == pytest.approx(700 / 5120, rel=0.01)
        assert "not measured" in value.reason

    def test_over_runs_is_the_geometric_mean_with_its_interval(self):
        runs = [
            make_run(energy_metrics={"energy_joules": joules, "measured_tokens": 1.0})
            for joules in (2.0, 2.1, 2.2)
        ]
        found = of_runs(runs, [summarize(run) for run in runs], Options()).values[
            "joules_per_token"
        ]
        assert found.value == pytest.approx((2.0 * 2.1 * 2.2) ** (1 / 3))
        assert found.low < 2.0 < 2.2 < found.high


def memory_run(used, *, micro=1, kind="peak_memory_reserved_gb"):
    run = make_run(step_time=2.4, memory_metrics=MemoryMetrics(**{kind: used}))
    return msgspec.structs.replace(
        run, training_config=msgspec.structs.replace(run.training_config, micro_batch_size=micro)
    )


class TestMemory:
    @pytest.mark.parametrize(
        ("used", "hint"),
        [(42.0, "a larger micro-batch may be faster"), (43.0, None), (80.7, None), (81.0, "retry")],
    )
    def test_hints_below_half_and_near_the_end(self, used, hint):
        found = worth(memory_run(used))
        assert found.values["memory_used_share"].value == pytest.approx(used / 0.85)
        assert found.values["memory_headroom_gb"].value == pytest.approx(85 - used)
        assert [hint in text for text in found.hints] == ([True] if hint else [])

    @pytest.mark.parametrize("used", [20.0, 84.0])
    def test_only_the_average_is_known(self, used):
        found = worth(
            msgspec.structs.replace(
                make_run(), memory_metrics=MemoryMetrics(avg_memory_allocated_gb=used)
            )
        )
        share = found.values["memory_used_share"]
        assert share.value == pytest.approx(used / 0.85)
        assert share.reason == "allocated on average; the peak is unknown"
        # How much room is left at the peak is unknown, so there is no advice, and no micro-batch
        # that fits.
        assert not any("memory" in hint for hint in found.hints)
        assert not {"memory_headroom_gb", "micro_batch_that_fits"} & found.values.keys()

    def test_of_a_processor_there_is_none(self):
        value = worth(make_run(None, stack="cpu", gpus=1)).values["memory_used_share"]
        assert value.value is None

    def test_the_largest_micro_batch_lies_on_the_line_through_two(self):
        fits, why = largest_micro_batch(memory_run(40.0, micro=2), memory_run(30.0, micro=1))
        # 20 GB and 10 a sequence; 95 % of 85 GB are 80.75.
        assert fits == 6
        assert "30.0 GB at 1 and 40.0 GB at 2" in why

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (memory_run(30.0), memory_run(40.0)),
            (memory_run(30.0), memory_run(40.0, micro=2, kind="peak_memory_allocated_gb")),
            (memory_run(40.0), memory_run(40.0, micro=2)),
        ],
    )
    def test_else_it_cant_be_told(self, one, other):
        fits, why = largest_micro_batch(one, other)
        assert fits is None
        assert why


def test_a_withheld_rate_leaves_the_memory():
    run = make_run(MI300X, stack="rocm", batch=None)
    found = worth(run, price=Price(1, 1))
    assert found.values["mfu"].reason == "no throughput: see the warnings"
    assert found.values["memory_used_share"].value is not None
    assert "tokens_per_dollar" not in found.values


def test_every_row_has_what_a_reader_asks_for():
    names = [metric.name for metric in efficiency.METRICS]
    assert len(set(names)) == len(names)
    assert all(metric.title and metric.unit and metric.how for metric in efficiency.METRICS)


class TestEpochs:
    EPOCHS = (
        {"samples": 100.0, "wall_time_s": 9.0, "warmup": 1.0},
        {"samples": 100.0, "wall_time_s": 4.0},
        {"samples": 50.0, "wall_time_s": 2.0},
    )

    def test_rate_over_all_of_them_and_time_of_the_whole_ones(self):
        run = make_run(epochs=self.EPOCHS, native_metrics={"seconds_per_epoch": 4.0}, gpus=8)
        values = worth(run, price=Price(3, 3)).values
        assert values["samples_per_second"].value == pytest.approx(150 / 6)
        assert values["seconds_per_epoch"].value == pytest.approx(4)
        assert values["dollars_per_epoch"].value == pytest.approx(4 * 8 / 3600 * 3)
        assert values["dollars_per_million_samples"].value == pytest.approx(1e6 / 25 * 8 / 3600 * 3)

    def test_a_time_limit_leaves_no_time_of_an_epoch(self):
        values = worth(make_run(epochs=self.EPOCHS)).values
        assert "samples_per_second" in values
        assert not {"seconds_per_epoch", "dollars_per_epoch"} & set(values)


def test_of_an_unknown_gpu_there_is_no_tdp():
    value = worth(make_run("NVIDIA Q1000"), tdp_energy=True).values["tdp_joules_per_token"]
    assert value.reason == "TDP of this device unknown"


class TestChecklist:
    def hints(self, **fields):
        return worth(
            full_run(**{"memory_metrics": MemoryMetrics(peak_memory_reserved_gb=60.0), **fields})
        ).hints

    def test_a_usual_run_has_no_hint(self):
        assert self.hints(step_time=2.4) == ()

    def test_an_mfu_below_the_published_ones(self):
        (hint,) = self.hints(step_time=8.0)
        assert hint.startswith("MFU of 10% with full attention: published BF16 runs")
        # The bound is of BF16 and of whole models.
        assert (
            self.hints(step_time=8.0, precision="fp8")
            == self.hints(step_time=8.0, scale="tiny")
            == ()
        )

    def test_what_keeps_the_gpu_waiting(self):
        waiting = {
            "breakdown": {"data_wait_s": 0.6, "compute_s": 1.8},
            "native_metrics": {"gpu_utilisation_percent": 71.0},
        }
        busy, data = self.hints(step_time=2.4, **waiting)
        assert busy.startswith("GPU utilization of 71%")
        assert data.startswith("25% of the time is spent waiting for data")
        (others,) = self.hints(
            step_time=2.4, disturbance=Disturbance(other_programs_cpu_share=0.31)
        )
        assert others.startswith("other programs used 31% of the CPU")

    @pytest.mark.parametrize("shares", [(0.0, 0.31), (0.31, 0.0), (None, 0.31), (0.04, 0.31, 0.1)])
    def test_the_most_that_other_programs_used_in_any_run(self, shares):
        used = [Disturbance(other_programs_cpu_share=share) for share in shares]
        memory = MemoryMetrics(peak_memory_reserved_gb=60.0)
        runs = [full_run(step_time=2.4, disturbance=each, memory_metrics=memory) for each in used]
        (others,) = of_runs(runs, [summarize(run) for run in runs], Options()).hints
        assert others.startswith("other programs used 31% of the CPU")


def test_the_micro_batch_that_fits_by_hand():
    run = make_run(memory_metrics=MemoryMetrics(peak_memory_reserved_gb=20.0))
    run = msgspec.structs.replace(
        run, training_config=msgspec.structs.replace(run.training_config, micro_batch_size=4)
    )
    # 4 × 0.95 × 85 / 20 = 16.15
    assert worth(run).values["micro_batch_that_fits"] == Value(16.0, reason="from 20.0 GB at 4")
    full = msgspec.structs.replace(run, memory_metrics=MemoryMetrics(peak_memory_reserved_gb=84.9))
    assert worth(full).values["micro_batch_that_fits"].value == 4
    assert "micro_batch_that_fits" not in worth(make_run(None, stack="cpu", gpus=1)).values


def test_tokens_per_watt_hour_by_hand():
    run = make_run(energy_metrics={"energy_joules": 6000.0, "measured_tokens": 2000.0})
    assert worth(run, tdp_energy=True).values["tokens_per_watt_hour"] == Value(1200.0)
    values = worth(make_run(), tdp_energy=True).values
    # 5,120 tokens/s × 3600 s / 700 Wh
    assert values["tokens_per_watt_hour"].value == pytest.approx(5120 * 3600 / 700, rel=0.01)
    assert "not measured" in values["tokens_per_watt_hour"].reason
    assert "tokens_per_watt_hour" not in worth(make_run()).values
    # An energy that was rejected is none.
    rejected = msgspec.structs.replace(make_run(), telemetry=Telemetry(energy_code="counter-stuck"))
    assert (
        worth(rejected, tdp_energy=True).values["tokens_per_watt_hour"]
        == values["tokens_per_watt_hour"]
    )
