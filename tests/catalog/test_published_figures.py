"""The table of published throughputs, and when a run is set beside a row of it."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import msgspec
import pytest
import screens
from made_runs import H100, MI300X, comparison, make_run
from tool_modules import load_tool

from tprimat.analysis.flops import flops_per_token
from tprimat.catalog import gpus, models, published
from tprimat.console import Verbosity
from tprimat.report import Sources, document
from tprimat.report.markdown import write
from tprimat.report.published import beside
from tprimat.report.verdict import report
from tprimat.results import run

LENGTH, BATCH = 8192, 128
NVIDIA_FP8 = 14451
FACTS = Path(__file__).resolve().parents[3] / "shared" / "facts"


def like_nvidia(share=0.35, **changes):
    """A run on eight H100 with a share of what NVIDIA publishes for Llama 3 8B in FP8."""
    seconds = BATCH * LENGTH / 8 / (share * NVIDIA_FP8)
    return make_run(
        warmup=(90.0,),
        **{"step_time": seconds, "batch": BATCH, "length": LENGTH, "precision": "fp8", **changes},
    )


NAMES = {
    "a100-sxm4-40gb": "NVIDIA A100-SXM4-40GB",
    "a100-sxm4-80gb": "NVIDIA A100-SXM4-80GB",
    "b200-hgx": "NVIDIA B200",
    "b300-hgx": "NVIDIA B300 SXM6 AC",
    "gb200": "NVIDIA GB200",
    "gb300": "NVIDIA GB300",
    "h100-sxm5": H100,
    "h200-sxm": "NVIDIA H200",
    "mi300x": MI300X,
    "mi325x": "AMD Instinct MI325X",
    "mi355x": "AMD Instinct MI355X",
    "rtx-4090": "NVIDIA GeForce RTX 4090",
}
"""What a driver calls the GPUs of the rows that a result can have everything in common with."""


def like(row, **changes):
    """A run as fast as a row says, of the same setup as far as it says."""
    seconds = 2.0
    batch = (
        round(row.tokens_per_second_per_gpu * seconds * (row.num_gpus or 8) / row.sequence_length)
        or 1
    )
    name = models.find(row.model).aliases[0]
    name = f"{name}-{row.task}" if row.task in ("lora", "sft") else name
    framework = row.framework or "megatron"
    run = make_run(
        NAMES[row.gpu],
        stack="rocm" if row.gpu.startswith("mi") else "cuda",
        model=name,
        framework=(
            "nemo_rl"
            if row.task == "rl"
            else framework
            if framework != "torchtune"
            else "transformers"
        ),
        step_time=seconds,
        gpus=row.num_gpus or 8,
        batch=row.global_batch_size or batch,
        length=row.sequence_length,
        precision=row.precision,
        **changes,
    )
    return msgspec.structs.replace(
        run, gpu_info=msgspec.structs.replace(run.gpu_info, total_memory_gb=None)
    )


def usable():
    """The rows that a result may be set beside."""
    known = (
        row
        for row in published.rows()
        if row.audit not in published.REFUSED and row.gpu in NAMES and models.find(row.model)
    )
    return [
        row
        for row in known
        if row.precision and row.sequence_length and row.tokens_per_second_per_gpu
    ]


class TestTable:
    def test_more_than_a_thousand_rows_each_cited_by_line(self):
        assert len(published.rows()) >= 1450
        assert all(
            re.search(r"@[0-9a-f]{8,12}(:\d+)?$", row.source) and row.publisher
            for row in published.rows()
        )

    def test_the_speed_of_each_run_is_a_number(self):
        row = published.Published(publisher="A", source="a/b/c@067f987d", run_rates="31340.5 31422")
        assert row.rates == (31340.5, 31422.0)
        assert published.Published(publisher="A", source="a/b/c@067f987d").rates == ()

    def test_a_row_lies_in_the_file_of_its_repository(self):
        for path in published.FOLDER.glob("*/*.csv"):
            name = path.relative_to(published.FOLDER).with_suffix("").as_posix()
            rows = list(csv.DictReader(path.open(encoding="utf-8")))
            assert rows
            assert all(row["source"].startswith(f"{name}/") for row in rows)

    def test_columns_that_have_a_field_in_a_result_have_its_name(self):
        own = {
            "publisher",
            "gpu",
            "version",
            "date",
            "audit",
            "reason",
            "note",
            "source",
            "task",
            "samples_per_second",
        }
        own |= {
            "printed_tflops_per_gpu",
            "printed_mfu_percent",
            "virtual_pipeline_size",
            "time_to_target_seconds",
        }
        own |= {
            "step_time_seconds",
            "memory_gb",
            "run_rates",
            "target",
            "samples_to_target",
            "num_runs",
            "failed_runs",
        }
        own |= {
            "system",
            "correction",
            "precision_source",
            "training_percent",
            "evaluation_percent",
        }
        own |= {"median_step_time_seconds"}
        types = (run.Run, run.TrainingConfig, run.ParallelismConfig, run.PerformanceMetrics)
        known = own | {name for each in types for name in each.__struct_fields__}
        for path in published.FOLDER.glob("*/*.csv"):
            with path.open(encoding="utf-8") as file:
                assert set(csv.DictReader(file).fieldnames) <= known, path

    def test_values_are_those_that_results_use(self):
        assert {row.task for row in published.rows()} == {"pretrain", "sft", "lora", "rl"}
        assert {row.precision for row in published.rows()} <= {
            "", "bf16", "fp16", "fp8", "mxfp8", "nvfp4", "fp4", "int8"
        }  # fmt: skip
        assert {row.audit for row in published.rows()} == {
            "consistent",
            "convention",
            "unchecked",
            *published.REFUSED,
        }
        assert not any(row.reason for row in published.rows() if row.audit == "consistent")
        # Of these, publishers don't say which of several cards it is, or it is no GPU.
        unnamed = {row.gpu for row in published.rows()} - {gpu.key for gpu in gpus.gpus()}
        assert all(
            name == "" or name.startswith(("A100", "A800", "TPU", "H100 96GB", "B200 ("))
            for name in unnamed
        )

    def test_what_is_rejected_says_why_and_is_no_reference(self):
        rejected = [row for row in published.rows() if row.audit in published.REFUSED]
        assert 20 <= len(rejected) <= 40
        assert all(row.reason for row in rejected)
        assert not any(
            row.correction for row in published.rows() if row.audit not in published.REFUSED
        )
        right = {row.correction for row in rejected if "Automodel" in row.source}
        assert right == {"277 TFLOP/s and 12,040 tokens/s/GPU in docs/performance-summary.mdx"}
        for row in rejected:
            if (
                row.gpu in NAMES
                and row.precision
                and row.sequence_length
                and row.tokens_per_second_per_gpu
            ):
                assert row not in published.of_the_same(like(row))

    def test_records_of_two_tracks_are_two_series(self):
        records = [
            row for row in published.rows() if row.publisher == "modded-nanogpt record holders"
        ]
        targets = {
            track: f"{loss} validation loss on FineWeb (track {track})"
            for track, loss in ((1, 3.28), (2, 2.92))
        }
        assert {row.target for row in records} == set(targets.values())
        for track, first, last, count in ((1, 2700, 73.8, 90), (2, 20880, 1041, 18)):
            times = [row.time_to_target_seconds for row in records if row.target == targets[track]]
            assert (times[0], times[-1], len(times)) == (first, last, count)
        assert all(row.num_gpus == 8 and row.gpu == "h100-sxm5" for row in records)

    def test_hardly_a_row_leaves_out_gpu_model_or_precision(self):
        rows, keys = published.rows(), {gpu.key for gpu in gpus.gpus()}
        assert sum(bool(row.gpu) for row in rows) >= 0.99 * len(rows)
        assert sum(row.gpu in keys for row in rows) >= 0.92 * len(rows)
        assert all(row.model for row in rows)
        assert sum(bool(row.precision) for row in rows) >= 0.95 * len(rows)

    def test_no_usable_figure_is_above_three_quarters_of_the_peak(self):
        peaks = {gpu.key: gpu for gpu in gpus.gpus()}
        for row in usable():
            frozen = 1 if row.task == "lora" else None
            shape = msgspec.structs.replace(
                models.find(row.model).shape, trainable_parameters=frozen
            )
            count, peak = (
                flops_per_token(shape, row.sequence_length),
                peaks[row.gpu].peak_tflops(row.precision),
            )
            assert (
                not count or not peak or count * row.tokens_per_second_per_gpu < 0.75e12 * peak
            ), row

    def test_700_rows_join_a_result(self, monkeypatch):
        """By GPU, model, task, precision and length; with superseded ones."""
        joined = 0
        for row in usable():
            monkeypatch.setattr(published, "rows", lambda row=row: (row,))
            published._by_key.cache_clear()
            joined += published.of_the_same(like(row)) == (row,)
        published._by_key.cache_clear()
        assert joined >= 700

    def test_what_is_converted_is_what_is_there(self, tmp_path, monkeypatch):
        if not (FACTS / "published_training.csv").is_file():
            pytest.skip(f"no published figures in {FACTS}")
        tool = load_tool("published_figures")
        monkeypatch.setattr(tool, "FOLDER", tmp_path)
        assert (
            tool.main([str(FACTS / "published_training.csv"), str(FACTS / "published_audit.csv")])
            == 0
        )
        made, known = (
            {path.relative_to(folder): path.read_bytes() for path in folder.glob("*/*.csv")}
            for folder in (tmp_path, published.FOLDER)
        )
        # MLPerf's rows are read from its logs, by another program.
        assert made == {
            name: content for name, content in known.items() if name.parent.name != "mlcommons"
        }


class TestMatching:
    def test_the_same_gpu_model_precision_and_sequence(self):
        row = published.nearest(like_nvidia(framework="megatron_bridge"))
        assert (row.publisher, row.tokens_per_second_per_gpu) == ("NVIDIA", NVIDIA_FP8)

    @pytest.mark.parametrize(
        "changes",
        [
            {"precision": "fp16"},
            {"precision": None},
            {"precision": "mxfp8"},
            {"length": 4095},
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

    @pytest.mark.parametrize(
        "name", ["llama3.1-70b", "Llama-3-70B", "llama3_70b", "meta-llama/Llama-3.1-70B"]
    )
    def test_seventy_billion_under_its_names(self, name):
        row = published.nearest(like_nvidia(model=name, gpus=64, framework="megatron"))
        assert row.tokens_per_second_per_gpu == 1621

    @pytest.mark.parametrize("name", ["llama2-70b", "llama3-700b", "llama-70b-other"])
    def test_other_models_are_none_of_it(self, name):
        assert published.of_the_same(like_nvidia(model=name)) == ()

    @pytest.mark.parametrize(
        ("key", "precision", "batch", "submitter", "rate"),
        [("mi355x", "fp8", 32, "AMD", 31383.6), ("b200-hgx", "fp4", 16, "Lenovo", 36589.5)],
    )
    def test_of_a_round_of_mlperf_the_fastest_of_the_same_size(
        self, key, precision, batch, submitter, rate
    ):
        vendor = {"stack": "rocm"} if key == "mi355x" else {}
        run = make_run(
            NAMES[key],
            gpus=8,
            batch=batch,
            length=LENGTH,
            precision=precision,
            framework="mlperf",
            step_time=1,
            **vendor,
        )
        run = msgspec.structs.replace(
            run, gpu_info=msgspec.structs.replace(run.gpu_info, total_memory_gb=None)
        )
        row = published.nearest(run)
        assert (row.publisher, row.tokens_per_second_per_gpu) == (f"{submitter} in MLPerf", rate)
        # The log of a set doesn't name its framework, so none differs.
        (text,) = beside(comparison(run).models[0])
        assert "here mlperf" not in text

    def test_a_set_of_mlperf_is_one_for_its_task_alone(self):
        row = published.nearest(like_nvidia(model="llama2_70b_lora"))
        assert (row.publisher.partition(" in ")[2], row.task, row.model) == (
            "MLPerf",
            "lora",
            "llama-2-70b",
        )
        assert published.nearest(like_nvidia(model="llama2-70b")) is None


def figure(rate=10_000, **changes):
    """A row of Llama on H100 in FP8."""
    known = {
        "publisher": "NVIDIA", "gpu": "h100-sxm5", "model": "llama", "precision": "fp8", "sequence_length": LENGTH,
        "num_gpus": 8, "global_batch_size": BATCH, "framework": "megatron_bridge", "date": "2026-01-01",
        "source": "NVIDIA-NeMo/Megatron-Bridge/docs/performance-summary.md@067f987df03b:1",
    }  # fmt: skip
    return published.Published(tokens_per_second_per_gpu=rate, **{**known, **changes})


@pytest.fixture
def table(monkeypatch):
    """Puts rows in the place of the table."""

    def put(*rows):
        monkeypatch.setattr(published, "rows", lambda: rows)
        published._by_key.cache_clear()

    yield put
    published._by_key.cache_clear()


BRIDGE = {"framework": "megatron_bridge"}
ARCHIVE = "NVIDIA-NeMo/Megatron-Bridge/docs/performance-summary-archive.md@067f987df03b:9"


class TestNearest:
    @pytest.mark.parametrize(
        ("nearer", "farther"),
        [
            ({"num_gpus": 16}, {"num_gpus": 64}),
            ({"num_gpus": 4}, {"num_gpus": 32}),
            ({"global_batch_size": 256}, {"global_batch_size": 1024}),
            ({}, {"framework": "megatron"}),
            ({"packing": None}, {"packing": True}),
            ({"num_gpus": 16}, {"num_gpus": None, "framework": "megatron"}),
            ({"framework": "megatron"}, {"num_gpus": 64}),
            ({"date": "2026-02-01"}, {"date": "2026-01-31"}),
            (
                {"note": "tuned"},
                {"note": "functional check (sft), not tuned for speed", "date": "2026-03-01"},
            ),
        ],
        ids=str,
    )
    def test_the_nearer_one_counts_be_it_the_slower(self, table, nearer, farther):
        near, far = (
            figure(9000, **nearer),
            figure(11_000, **{"source": "a/b/c@067f987d:1", **farther}),
        )
        for rows in ((near, far), (far, near)):
            table(*rows)
            assert published.nearest(like_nvidia(**BRIDGE)) == near

    def test_a_later_day_of_the_same_month_is_no_reason(self, table):
        other = {"source": "a/b/c@067f987d:1"}
        table(figure(11_000, date="2026-01-01"), figure(9000, date="2026-01-31", **other))
        assert published.nearest(like_nvidia(**BRIDGE)).tokens_per_second_per_gpu == 11_000

    def test_of_equal_ones_the_fastest(self, table):
        table(figure(9000), figure(11_000, note="another scaling"), figure(10_000))
        assert published.nearest(like_nvidia(**BRIDGE)).tokens_per_second_per_gpu == 11_000

    def test_a_newer_release_of_the_page_supersedes_an_older_one_in_its_archive(self, table):
        older = figure(11_000, date="2025-12-04", source=ARCHIVE)
        newer = figure(10_000, date="2026-01-01", global_batch_size=4 * BATCH)
        table(older, newer)
        assert published.of_the_same(like_nvidia(**BRIDGE)) == (newer,)
        other_page = figure(9000, date="2024", source="NVIDIA-NeMo/NeMo/docs/page.md@067f987d:1")
        other_size = figure(9000, date="2024", num_gpus=64)
        table(older, newer, other_page, other_size)
        assert published.of_the_same(like_nvidia(**BRIDGE)) == (newer, other_page, other_size)

    def test_a_rejected_newer_release_supersedes_nothing(self, table):
        older = figure(11_000, date="2025-12-04", source=ARCHIVE)
        table(older, figure(5000, audit="rejected", reason="a known regression"))
        assert published.of_the_same(like_nvidia(**BRIDGE)) == (older,)

    def test_functional_checks_count_if_there_is_nothing_else(self, table):
        check = figure(note="functional check (pretrain), not tuned for speed")
        table(check)
        assert published.nearest(like_nvidia(**BRIDGE)) == check


class TestTask:
    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({}, "pretrain"),
            ({"model": "Llama-3.1-8B-LoRA"}, "lora"),
            ({"model": "llama31_8b_qlora"}, "lora"),
            ({"model": "llama-3.1-8b-peft"}, "lora"),
            ({"model": "llama-explora"}, "pretrain"),
            ({"model": "llama31_8b_sft"}, "sft"),
            ({"framework": "torchtune"}, "sft"),
            ({"framework": "ms_swift", "model": "llama-3.1-8b-lora"}, "lora"),
            ({"framework": "nemo_rl"}, "rl"),
            ({"model_config": run.ModelConfig(trainable_parameters=20_971_520)}, "lora"),
            (
                {"model_config": run.ModelConfig(trainable_parameters=99, num_parameters=100)},
                "lora",
            ),
            (
                {"model_config": run.ModelConfig(trainable_parameters=100, num_parameters=100)},
                "pretrain",
            ),
            ({"model_config": run.ModelConfig(trainable_parameters=8_030_261_248)}, "pretrain"),
        ],
        ids=str,
    )
    def test_it_is_told_by_name_framework_and_frozen_weights(self, changes, expected):
        assert published.task(make_run(**changes)) == expected

    @pytest.mark.parametrize("task", ["sft", "lora", "rl"])
    def test_another_task_has_no_reference_of_pretraining(self, table, task):
        table(figure())
        assert published.nearest(like_nvidia(**BRIDGE)) is not None
        changes = {"framework": "nemo_rl"} if task == "rl" else {"model": f"llama-3.1-8b-{task}"}
        assert published.nearest(like_nvidia(**changes)) is None
        table(figure(task=task))
        assert published.nearest(like_nvidia(**changes)).task == task
        assert published.nearest(like_nvidia(**BRIDGE)) is None


class TestReport:
    def test_the_share_is_said_with_its_source(self):
        (text,) = beside(comparison(like_nvidia(framework="megatron_bridge")).models[0])
        start = (
            "8×H100 (FP8) reaches 35% of the published result of NVIDIA: 14,451 tokens/s/GPU (744"
            " TFLOP/s), FP8, "
        )
        assert text.startswith(
            f"{start}sequence length 8,192 (2025-12-04; nvcr.io/nvidia/nemo:25.11; FSDP over 8"
            " GPUs;"
            " NVIDIA-NeMo/Megatron-Bridge/docs/performance-summary-archive.md@067f987df03b:589)"
        )

    def test_tflops_are_those_of_our_formula(self, table):
        """Of this model the page prints 524, by a formula that was wrong then."""
        (row,) = [
            row
            for row in usable()
            if (row.model, row.gpu, row.date) == ("gpt-oss-120b", "gb300", "2026-04-17")
        ]
        table(row)
        (text,) = beside(comparison(like(row)).models[0])
        assert "19,275 tokens/s/GPU (630 TFLOP/s), BF16" in text

    def test_what_differs_beside_is_said(self):
        changes = {"batch": 64, "gpus": 16, "step_time": 6.0, "framework": "lightning"}
        (text,) = beside(comparison(like_nvidia(**changes)).models[0])
        assert (
            "8 GPUs, here 16; 128 sequences per step, here 64; megatron_bridge, here lightning;"
            " NVIDIA-NeMo" in text
        )
        assert text.endswith(
            "Possible causes of the gap: a different number of GPUs, batch size or framework"
        )

    @pytest.mark.parametrize(("share", "says_why"), [(0.9695, True), (0.9705, False)])
    def test_a_gap_is_explained_from_3_percent_on(self, share, says_why):
        (text,) = beside(
            comparison(
                like_nvidia(framework="megatron_bridge", step_time=128 * 8192 / 8 / 14_451 / share)
            ).models[0]
        )
        assert "reaches 97% of" in text
        assert ("of the gap: " in text or "of such a gap: " in text) is says_why

    def test_packing_is_said(self, table):
        table(figure(task="sft", packing=True, version="26.02"))
        one = like_nvidia(model="llama-3.1-8b-sft", **BRIDGE)
        config = msgspec.structs.replace(one.training_config, packing=False)
        (text,) = beside(comparison(msgspec.structs.replace(one, training_config=config)).models[0])
        assert "(2026-01-01; 26.02; fine-tuning; packed, here not packed; NVIDIA" in text
        config = msgspec.structs.replace(config, packing=True)
        (text,) = beside(comparison(msgspec.structs.replace(one, training_config=config)).models[0])
        assert "(2026-01-01; 26.02; fine-tuning; NVIDIA" in text

    def test_what_the_result_shows_explains_a_gap(self):
        run = msgspec.structs.replace(
            like_nvidia(framework="lightning"),
            framework_config={"torch_compile": False},
            energy_metrics={"power_cap_watts": 500.0, "power_default_watts": 700.0},
        )
        (text,) = beside(comparison(run).models[0])
        assert text.endswith(
            "Possible causes of the gap: a different framework, eager PyTorch, a power cap of 500 W"
            " instead of 700 W"
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
        found = comparison(
            like_nvidia(framework="megatron_bridge"),
            like_nvidia(share=0.4, framework="megatron_bridge", label="b"),
        )
        shown = " ".join(
            screens.shown(report(found), width=100, verbosity=Verbosity.VERBOSE).split()
        )
        assert "reaches 35% of the published result of NVIDIA" in shown
        assert "reaches 40% of the published result of NVIDIA" in shown
        written = write(document.in_full(report(found), Sources("1", "compare"), plot=False))
        assert (
            "Published results for the same GPU, model, task, precision and sequence length:"
            in written
        )
        assert "reaches 35% of the published result of NVIDIA" in written

    def test_without_a_row_nothing_is_said(self):
        found = comparison(make_run(), make_run(MI300X, stack="rocm"))
        assert "ublished" not in screens.shown(report(found))


@pytest.mark.parametrize(("share", "audit"), [(0.749, "unchecked"), (0.751, "rejected")])
@pytest.mark.parametrize("task", ["pretrain", "lora"])
def test_more_than_three_quarters_of_the_peak_is_rejected(share, audit, task):
    tool = load_tool("published_figures")
    shape = msgspec.structs.replace(
        models.find("llama").shape, trainable_parameters=1 if task == "lora" else None
    )
    (peak,) = [gpu.peak_tflops("bf16") for gpu in gpus.gpus() if gpu.key == "h100-sxm5"]
    rate = share * peak * 1e12 / flops_per_token(shape, 0)
    row = {"gpu": "h100-sxm5", "model": "llama", "task": task, "precision": "bf16"}
    assert tool.judge({**row, "tokens_per_second_per_gpu": str(rate)}, "", [])[0] == audit


@pytest.mark.parametrize(
    ("verdict", "kind", "expected"),
    [
        ("ok", "", ("consistent", "")),
        ("not checkable", "", ("unchecked", "")),
        (
            "other convention",
            "formula convention",
            ("convention", "the printed TFLOP/s follows another formula"),
        ),
        (
            "contradiction",
            "vision-language model",
            ("unchecked", "the printed TFLOP/s is more than that of the decoder"),
        ),
        (
            "other convention",
            "stale after correction",
            ("rejected", "the publisher later corrected this value"),
        ),
        (
            "contradiction",
            "mean of rates",
            ("contradiction", "tokens/s includes a slow first step; the printed TFLOP/s does not"),
        ),
    ],
)
def test_a_check_decides_what_a_row_is_worth(verdict, kind, expected):
    row = {
        "gpu": "",
        "model": "",
        "task": "pretrain",
        "precision": "",
        "tokens_per_second_per_gpu": "1",
    }
    check = {"check": "tflops~tokens", "verdict": verdict, "class": kind}
    below = {"check": "below peak", "verdict": "ok", "class": ""}
    assert load_tool("published_figures").judge(row, "", [check, below]) == expected


@pytest.mark.parametrize(
    ("check", "verdict", "expected", "said"),
    [
        (
            "tflops~tokens",
            "contradiction",
            "471.2",
            "10,057 tokens/s needs 471 TFLOP/s, but 235.7 is printed",
        ),
        (
            "tflops~tokens",
            "contradiction",
            "399 or more",
            "10,057 tokens/s needs 399 TFLOP/s or more, but 235.7 is printed",
        ),
        (
            "tflops~tokens",
            "other convention",
            "471.2",
            "10,057 tokens/s needs 471 TFLOP/s, but 235.7 is printed",
        ),
        ("tflops~tokens", "ok", "235.7", ""),
        ("tflops~tokens", "not checkable", "", ""),
        ("below peak", "contradiction", "471.2", ""),
    ],
)
def test_a_contradiction_names_both_values_and_what_is_needed(check, verdict, expected, said):
    checks = [{"check": check, "verdict": verdict, "stated": "235.70", "expected": expected}]
    row = {"tokens_per_second_per_gpu": "10057.0"}
    assert load_tool("published_figures").compared(row, checks) == said


def test_each_contradiction_between_two_printed_values_names_them():
    rows = [
        row
        for row in published.rows()
        if row.audit == "contradiction" and row.printed_tflops_per_gpu
    ]
    assert len(rows) >= 16
    for row in rows:
        assert f"{row.tokens_per_second_per_gpu:,.6g} tokens/s needs" in row.reason
        assert f"but {row.printed_tflops_per_gpu:g} is printed" in row.reason


def test_what_stands_among_rejected_values_is_doubtful():
    doubtful = {
        (row.gpu, row.num_gpus, row.tokens_per_second_per_gpu): row
        for row in published.rows()
        if "doubtful" in row.note
    }
    assert set(doubtful) == {("mi325x", 8, 16224.0)}
    (row,) = doubtful.values()
    assert row.note == "one node; doubtful: the other values of its column are rejected"
