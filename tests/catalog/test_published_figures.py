"""The table of published throughputs, and when a run is set beside a row of it."""

from __future__ import annotations

import msgspec
import pytest
import screens
from made_runs import MI300X, comparison, make_run

from tprimat.catalog import gpus, models, published
from tprimat.console import Verbosity
from tprimat.report import Sources, document
from tprimat.report.markdown import write
from tprimat.report.published import beside
from tprimat.report.verdict import report

LENGTH, BATCH = 8192, 128
NVIDIA_FP8 = 14451


def like_nvidia(share=0.35, **changes):
    """A run on eight H100 with a share of what NVIDIA publishes for Llama 3 8B in FP8."""
    seconds = BATCH * LENGTH / 8 / (share * NVIDIA_FP8)
    return make_run(
        warmup=(90.0,), **{"step_time": seconds, "batch": BATCH, "length": LENGTH, "precision": "fp8", **changes}
    )


class TestTable:
    def test_some_ten_rows_each_cited(self):
        assert len(published.rows()) >= 10
        assert all(len(row.source) > 20 and row.publisher for row in published.rows())

    def test_every_gpu_has_a_row_of_its_own_table(self):
        assert {row.gpu for row in published.rows()} <= {gpu.key for gpu in gpus.gpus()}

    def test_every_model_is_one_that_results_name(self):
        assert {row.model for row in published.rows()} <= {*models.names(), "llama-70b"}

    @pytest.mark.parametrize("row", published.rows(), ids=lambda row: f"{row.publisher} {row.gpu} {row.precision}")
    def test_no_figure_is_above_the_peak(self, row):
        (gpu,) = [gpu for gpu in gpus.gpus() if gpu.key == row.gpu]
        parameters = 70e9 if row.model == "llama-70b" else 8e9
        peak = gpu.peak_tflops(row.precision)
        assert peak is None or 6 * parameters * row.tokens_per_second_per_gpu < peak * 1e12

    def test_a_publisher_says_one_thing_of_one_setup(self):
        keys = [(row.publisher, row.gpu, row.model, row.precision, row.sequence_length) for row in published.rows()]
        assert len(set(keys)) == len(keys)


class TestMatching:
    def test_the_same_gpu_model_precision_and_sequence(self):
        (row,) = published.of_the_same(like_nvidia())
        assert (row.publisher, row.tokens_per_second_per_gpu) == ("NVIDIA", NVIDIA_FP8)

    @pytest.mark.parametrize(
        "changes",
        [
            {"precision": "bf16"},
            {"precision": None},
            {"precision": "mxfp8"},
            {"length": 4096},
            {"length": None},
            {"device": "NVIDIA H100 PCIe"},
            {"device": None},
            {"device": MI300X, "stack": "rocm"},
            {"model": "qwen"},
            {"model": None},
            {"scale": "tiny"},
        ],
        ids=str,
    )
    def test_anything_else_is_set_beside_nothing(self, changes):
        run = like_nvidia(**changes)
        assert published.of_the_same(run) == ()

    @pytest.mark.parametrize("name", ["llama3.1-70b", "Llama-3-70B", "llama3_70b", "meta-llama/Llama-3.1-70B"])
    def test_seventy_billion_under_its_names(self, name):
        (row,) = published.of_the_same(like_nvidia(model=name))
        assert row.tokens_per_second_per_gpu == 1602

    @pytest.mark.parametrize("name", ["llama2-70b", "llama2_70b_lora", "llama3-700b", "llama-70b-other"])
    def test_other_models_are_none_of_it(self, name):
        assert published.of_the_same(like_nvidia(model=name)) == ()


class TestReport:
    def test_the_share_is_said_with_its_source(self):
        found = comparison(like_nvidia())
        (text,) = beside(found.models[0])
        assert "reaches 35% of the published result of NVIDIA: 14,451 tokens/s/GPU, FP8, sequence length 8,192" in text
        assert "Megatron-Bridge docs/performance-summary.md" in text

    def test_what_differs_beside_is_said(self):
        (text,) = beside(comparison(like_nvidia(batch=64, step_time=6.0)).models[0])
        assert "128 sequences a step, here 64" in text
        assert text.endswith("published with megatron_bridge, another batch size or number of GPUs")

    def test_what_the_result_shows_explains_a_gap(self):
        run = msgspec.structs.replace(
            like_nvidia(framework="lightning"),
            framework_config={"torch_compile": False},
            energy_metrics={"power_cap_watts": 500.0, "power_default_watts": 700.0},
        )
        (text,) = beside(comparison(run).models[0])
        assert text.endswith(
            "What may explain the gap: trained with lightning, published with megatron_bridge, eager PyTorch, "
            "a power cap of 500 W instead of 700 W"
        )

    def test_where_nothing_is_known_the_usual_causes_are_named(self):
        (text,) = beside(comparison(like_nvidia(framework="megatron_bridge")).models[0])
        assert "Usual causes of such a gap: " in text

    @pytest.mark.parametrize("share", [0.98, 1.0, 1.2])
    def test_what_is_as_fast_needs_no_explanation(self, share):
        (text,) = beside(comparison(like_nvidia(share=share, framework="lightning")).models[0])
        assert "gap" not in text

    def test_the_impossible_is_set_beside_nothing(self):
        found = comparison(like_nvidia(share=9.0))
        assert found.models[0].systems[0].exclusion is not None
        assert beside(found.models[0]) == []

    def test_console_and_report_show_it(self):
        found = comparison(like_nvidia(), like_nvidia(share=0.4, framework="megatron"))
        shown = " ".join(screens.shown(report(found), width=100, verbosity=Verbosity.VERBOSE).split())
        assert "reaches 35% of the published result of NVIDIA" in shown
        assert "reaches 40% of the published result of NVIDIA" in shown
        written = write(document.of(report(found), Sources("1", "compare"), plot=False))
        assert "Published results for the same GPU, model, precision and sequence length:" in written
        assert "reaches 35% of the published result of NVIDIA" in written

    def test_without_a_row_nothing_is_said(self):
        found = comparison(make_run(), make_run(MI300X, stack="rocm"))
        assert "ublished" not in screens.shown(report(found))
