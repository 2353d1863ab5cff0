"""Points of the record: marks, values, sources, and what stays out of it."""

from __future__ import annotations

import dataclasses
import json

import msgspec
import pytest
from made_runs import HOSTILE, failed_run, make_run
from stored_runs import note

from tprimat.catalog import gpus, published
from tprimat.catalog.published import Published
from tprimat.compare import Loaded
from tprimat.notes import Note
from tprimat.publish import points
from tprimat.publish.points import OWN, Evidence, address
from tprimat.publish.record import REJECTED
from tprimat.results.ending import Ending
from tprimat.results.run import Environment, GpuInfo, ModelConfig, Source, SourceFile
from tprimat.results.telemetry import Telemetry, TelemetryIssue
from tprimat.store import hosts

ROW = Published(
    publisher="NVIDIA",
    gpu="h100-sxm5",
    model="llama",
    precision="fp8",
    sequence_length=8192,
    num_gpus=8,
    global_batch_size=128,
    tokens_per_second_per_gpu=14451.0,
    printed_tflops_per_gpu=744.0,
    framework="megatron_bridge",
    version="25.11",
    date="2025-12-04",
    audit="consistent",
    source="NVIDIA-NeMo/Megatron-Bridge/docs/performance-summary.md@067f987df03b:45",
)


def of_rows(monkeypatch, *rows: Published):
    monkeypatch.setattr(published, "rows", lambda: rows)
    return [each.point for each in points.published_points()]


def row(monkeypatch, **fields):
    return of_rows(monkeypatch, dataclasses.replace(ROW, **fields))[0]


def own(*groups, remarks=None):
    files = [
        Loaded(
            f"results/file_{number}.json",
            f"{number:x}" * 64,
            group if isinstance(group, tuple) else (group,),
        )
        for number, group in enumerate(groups, start=1)
    ]
    return [each.point for each in points.result_points(files, [] if remarks is None else remarks)]


class TestMarks:
    def test_printed_flops_that_agree(self, monkeypatch):
        assert row(monkeypatch).mark == "agrees with its own FLOPs"

    def test_printed_flops_that_another_formula_explains(self, monkeypatch):
        found = row(
            monkeypatch, audit="convention", reason="the printed TFLOP/s follows another formula"
        )
        assert (found.mark, found.reason) == (
            "agrees with its own FLOPs",
            "the printed TFLOP/s follows another formula",
        )

    def test_a_row_without_printed_flops_agrees_with_none(self, monkeypatch):
        assert row(monkeypatch, printed_tflops_per_gpu=None).mark == "as published"

    def test_an_unchecked_row(self, monkeypatch):
        assert row(monkeypatch, audit="unchecked").mark == "as published"

    @pytest.mark.parametrize(
        ("audit", "mark"), [("rejected", "rejected"), ("contradiction", "contradicts itself")]
    )
    def test_a_refused_row_with_reason_and_correction(self, monkeypatch, audit, mark):
        found = row(
            monkeypatch, audit=audit, reason="129% of the peak", correction="14,000 tokens/s/GPU"
        )
        assert (found.mark, found.reason) == (mark, "129% of the peak; 14,000 tokens/s/GPU")

    def test_a_log_of_a_submission(self, monkeypatch):
        source = "mlcommons/training_results_v5.1/NVIDIA/results/theia/llama31_8b@441d65f4445c"
        found = row(
            monkeypatch,
            source=source,
            run_rates="100.0 101.0 102.5",
            tokens_per_second_per_gpu=101.1,
        )
        assert (found.mark, found.clock) == ("recomputed from the log", "blocks")
        assert found.rates == (100.0, 101.0, 102.5)
        assert found.low < 101.1 < found.high

    def test_an_own_result(self):
        (found,) = own(make_run(source=Source(kind="live")))
        assert (found.mark, found.reason, found.publisher) == ("recomputed from the log", "", OWN)

    def test_an_own_result_that_is_impossible(self):
        (found,) = own(make_run(step_time=0.05))
        assert found.mark == "rejected"
        assert "% of the dense BF16 peak" in found.reason

    def test_every_row_that_is_published(self):
        found = points.published_points()
        rejected = [each.point for each in found if each.point.mark in REJECTED]
        assert len(rejected) == sum(row.audit in published.REFUSED for row in published.rows())
        assert all(point.reason for point in rejected)
        assert {point.point.mark for point in found} == {
            "recomputed from the log",
            "agrees with its own FLOPs",
            "as published",
            "contradicts itself",
            "rejected",
        }

    @pytest.mark.parametrize(
        ("source", "mark"),
        [
            (Source(kind="live"), "recomputed from the log"),
            (
                Source(kind="log", files=(SourceFile(path="a.log", sha256="1" * 64, bytes=9),)),
                "recomputed from the log",
            ),
            *(
                (Source(kind="log"), "as published"),
                (Source(kind="result"), "as published"),
                (None, "as published"),
            ),
        ],
    )
    def test_of_ones_own_by_what_it_was_computed_from(self, source, mark):
        (found,) = own(make_run(source=source))
        assert found.mark == mark

    def test_what_the_user_set_unlike_the_log_is_not_recomputed_from_it(self):
        source = Source(
            kind="log",
            files=(SourceFile(path="a.log"),),
            overrides={"global_batch_size": "64, not 32"},
        )
        (found,) = own(make_run(source=source))
        assert (found.mark, found.note) == (
            "as published",
            "global batch size set by the user, unlike its log",
        )

    def test_one_run_that_nothing_was_computed_from_marks_the_system(self):
        (found,) = own(
            (make_run(source=Source(kind="live"), step_time=3.2), make_run(step_time=3.21))
        )
        assert (len(found.rates), found.mark) == (2, "as published")

    @pytest.mark.parametrize(
        ("framework", "dialect", "publisher"),
        [
            ("megatron", "megatron (upstream)", OWN),
            ("megatron", "mlperf (llama31_8b)", OWN),
            ("mlperf", "", OWN),
            ("mlperf", "mlperf (llama31_8b)", "NVIDIA in MLPerf"),
        ],
    )
    def test_only_a_log_of_mlperf_names_a_submitter(self, framework, dialect, publisher):
        source = Source(kind="log", dialect=dialect)
        (found,) = own(
            make_run(framework=framework, framework_config={"submitter": "NVIDIA"}, source=source)
        )
        assert found.publisher == publisher

    def test_of_the_gpus_own_kinds_of_rejection_none_is_called_a_contradiction(self):
        marks = {
            each.point.reason: each.point.mark
            for each in points.published_points()
            if each.point.reason
        }
        for part in ("known regression", "dense peak", "later corrected", "print the same value"):
            assert {mark for reason, mark in marks.items() if part in reason} == {"rejected"}
        assert {mark for reason, mark in marks.items() if "is printed" in reason} == {
            "contradicts itself"
        }


class TestConfiguration:
    def test_of_a_row_as_far_as_it_is_stated(self, monkeypatch):
        assert row(monkeypatch).configuration == ""
        stated = {
            "micro_batch_size": 1,
            "tensor_model_parallel_size": 2,
            "expert_model_parallel_size": 8,
        }
        assert row(monkeypatch, **stated).configuration == "micro-batch 1, TP 2, EP 8"
        stated |= {
            "pipeline_model_parallel_size": 4,
            "context_parallel_size": 1,
            "virtual_pipeline_size": 5,
        }
        assert (
            row(monkeypatch, **stated).configuration
            == "micro-batch 1, TP 2, PP 4, CP 1, VP 5, EP 8"
        )

    def test_of_a_result(self):
        run = make_run()
        spread = msgspec.structs.replace(
            run.parallelism_config, tensor_model_parallel_size=2, pipeline_model_parallel_size=4
        )
        config = msgspec.structs.replace(run.training_config, micro_batch_size=3)
        (found,) = own(
            msgspec.structs.replace(run, parallelism_config=spread, training_config=config)
        )
        assert found.configuration.startswith("micro-batch 3, TP 2, PP 4")

    def test_two_releases_of_one_table_state_what_else_changed(self):
        """B200, Qwen3 30B: 2.76 times the speed, but micro-batch 4 instead of 1."""
        found = {
            (each.point.date, each.point.configuration.split(", ")[0])
            for each in points.published_points()
            if (each.point.gpu, each.point.model, each.point.num_gpus)
            == ("b200-hgx", "qwen-3-30b-a3b", 8)
            and each.point.publisher == "NVIDIA"
            and each.point.task == "pretrain"
        }
        assert {"micro-batch 1", "micro-batch 4"} <= {size for _, size in found}


class TestFigures:
    def test_flops_are_by_our_formula_not_as_printed(self, monkeypatch):
        found = row(monkeypatch, printed_tflops_per_gpu=800.0)
        assert (found.tflops_per_gpu, found.printed_tflops_per_gpu) == (
            pytest.approx(743.6, rel=2e-3),
            800.0,
        )

    @pytest.mark.parametrize(
        "fields", [{"model": "GPT 181B"}, {"sequence_length": None}, {"task": "rl"}]
    )
    def test_none_without_a_known_shape_and_length_or_of_a_whole_rl_step(self, monkeypatch, fields):
        assert row(monkeypatch, **fields).tflops_per_gpu is None

    def test_of_lora_less_than_of_training_all_weights(self, monkeypatch):
        whole, lora = (row(monkeypatch, task=task).tflops_per_gpu for task in ("pretrain", "lora"))
        assert 0.65 * whole < lora < 0.75 * whole

    def test_speed_from_the_step_time(self, monkeypatch):
        found = row(monkeypatch, tokens_per_second_per_gpu=None, step_time_seconds=8.0)
        assert found.tokens_per_second_per_gpu == 128 * 8192 / 8.0 / 8
        assert found.note == "tokens/s computed from the step time"

    def test_speed_from_samples(self, monkeypatch):
        found = row(monkeypatch, tokens_per_second_per_gpu=None, samples_per_second=20.0)
        assert (found.tokens_per_second_per_gpu, found.note) == (
            20.0 * 8192 / 8,
            "tokens/s computed from samples/s",
        )

    def test_none_from_the_step_time_of_batches_that_may_be_padded(self, monkeypatch):
        found = row(monkeypatch, tokens_per_second_per_gpu=None, step_time_seconds=8.0, task="sft")
        assert found.tokens_per_second_per_gpu is None

    def test_a_row_without_any_figure_is_left_out(self, monkeypatch):
        bare = {"tokens_per_second_per_gpu": None, "printed_tflops_per_gpu": None}
        assert of_rows(monkeypatch, dataclasses.replace(ROW, **bare)) == []
        assert (
            len(of_rows(monkeypatch, dataclasses.replace(ROW, **bare, time_to_target_seconds=90.0)))
            == 1
        )

    def test_of_several_runs_each_rate_and_the_interval_of_their_mean(self):
        (found,) = own(tuple(make_run(step_time=time) for time in (3.2, 3.21, 3.19)))
        assert len(found.rates) == 3
        assert found.low < found.tokens_per_second_per_gpu < found.high
        assert found.tokens_per_second_per_gpu == pytest.approx(64 * 2048 / 3.2 / 8, rel=1e-3)

    def test_one_run_has_no_interval(self):
        (found,) = own(make_run())
        assert (len(found.rates), found.low, found.high) == (1, None, None)


class TestNotes:
    @pytest.mark.parametrize(
        ("kind", "is_rejected"), [("failed", True), ("cut_off", False), ("finished", False)]
    )
    def test_e1_the_speed_of_runs_that_all_failed_is_rejected(self, kind, is_rejected):
        """A change over time, a pair or a ranking uses it no more."""
        ending = Ending(kind=kind, cause="out of memory", line=812)
        (found,) = own((make_run(ending=ending), make_run(step_time=3.3, ending=ending)))
        assert (found.mark in REJECTED) is is_rejected
        assert found.reason == ("failed: out of memory, line 812" if is_rejected else "")
        (found,) = own((make_run(ending=ending), make_run(step_time=3.3)))
        assert found.mark not in REJECTED
        assert ("1 of 2 runs did not finish" in found.note) is (kind != "finished")

    def test_e2_a_loss_that_is_not_a_number_is_noted(self):
        note = Note("loss-not-finite", {"steps": "steps 51–60", "first": 51, "last": 60})
        run = make_run(notes=(note,))
        (found,) = own(
            msgspec.structs.replace(run, loss_values=(*run.loss_values[:50], *(None,) * 10))
        )
        assert found.note == "loss is not a number from step 51 on"

    def test_what_a_reader_of_a_speed_must_know(self):
        slowed = Telemetry(
            samples=50, issues=(TelemetryIssue(code="thermal", text="GPU clock lowered"),)
        )
        config = make_run().training_config
        broken = make_run(step_time=3.3, steps=20, status="failed", training_config=config)
        for runs, text in (
            ((make_run(),), ""),
            ((make_run(telemetry=slowed),), "GPU clock lowered"),
            ((broken,), "failed (20 of 60 steps)"),
            ((make_run(), broken), "1 of 2 runs did not finish and is excluded"),
            ((make_run(step_time=3.2), make_run(step_time=4.01)), "runs differ 1.25×"),
            ((make_run(step_time=3.2), make_run(step_time=3.99)), ""),
            # In one session the caveat says so.
            (tuple(make_run(step_time=2.2 + round, session="s", round=round) for round in (1, 2)),
             "runs of 8×H100 (BF16) differ 1.31×"),
            ((make_run(label="x", environment=Environment(memory_held_by_others_gb=40.0)),),
             "x; other programs held 40.00 GB of GPU memory at the start"),
        ):  # fmt: skip
            (found,) = own(runs)
            assert found.note == text


class TestNames:
    def test_gpu_and_model_are_keys_of_the_catalog(self):
        (found,) = own(make_run())
        assert (found.gpu, found.model, found.task) == ("h100-sxm5", "llama", "pretrain")

    def test_a_model_of_another_shape_never_has_the_name_of_the_full_one(self):
        small = ModelConfig(
            num_layers=2, hidden_size=64, num_attention_heads=4, vocab_size=64, ffn_hidden_size=128
        )
        (found,) = own(make_run(model_config=small, scale="tiny", step_time=0.9))
        assert found.model != "llama"
        assert "tiny" in found.model

    def test_a_cpu(self):
        environment = Environment(cpu="AMD EPYC 7763 64-Core Processor")
        (found,) = own(
            make_run(None, stack="cpu", gpus=1, environment=environment, step_time=900.0)
        )
        assert found.gpu.startswith("CPU EPYC 7763")

    def test_what_has_no_speed_is_counted(self):
        remarks = []
        assert len(own(make_run(), failed_run(), remarks=remarks)) == 1
        assert remarks == [note("systems-without-speed", systems=1)]

    def test_an_emulated_device_is_left_out(self):
        remarks = []
        assert own(make_run(environment=Environment(emulated=True)), remarks=remarks) == []
        assert len(remarks) == 1


class TestSubmissions:
    GPU = GpuInfo(
        device_name="NVIDIA B300 SXM6 AC",
        device_count=8,
        total_memory_gb=275.0,
        software_stack="cuda",
    )
    SOURCE = Source(kind="log", dialect="mlperf (llama31_8b)")

    def of(self, **fields):
        stated = {
            "framework_config": {"submitter": "Lenovo"},
            "source": self.SOURCE,
            "gpu_info": self.GPU,
        }
        return own(msgspec.structs.replace(make_run(framework="mlperf"), **{**stated, **fields}))[0]

    def test_a_gpu_whose_memory_the_submitter_states_otherwise(self):
        assert self.of().gpu == "b300-hgx"
        assert self.of(framework="megatron").gpu == "B300"

    @pytest.mark.parametrize(
        ("change", "left"),
        [(1.0, 0), (1.000001, 0), (0.998, 1), (1.002, 1)],
    )
    def test_logs_that_are_published_count_once(self, change, left):
        point = self.of()
        other = dataclasses.replace(
            point, tokens_per_second_per_gpu=point.tokens_per_second_per_gpu * change
        )
        remarks = []
        assert len(points.without_published([Evidence(point)], [Evidence(other)], remarks)) == left
        assert remarks == ([] if left else [note("systems-published", systems=1)])

    @pytest.mark.parametrize(
        "fields",
        [{"publisher": OWN}, {"publisher": "Dell in MLPerf"}, {"num_gpus": 16}, {"date": "2020"}],
    )
    def test_other_submissions_and_ones_own_results_stay(self, fields):
        point = dataclasses.replace(self.of(), **fields)
        published = [Evidence(self.of())] if fields != {"publisher": OWN} else [Evidence(point)]
        assert len(points.without_published([Evidence(point)], published, [])) == 1


class TestPrivacy:
    def test_no_path_beyond_the_working_directory(self, tmp_path, monkeypatch):
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        names = (
            "/home/ada/secret/a.json",
            "../ada/b.json",
            str(tmp_path / "here" / "runs" / "c.json"),
        )
        files = [
            Loaded(name, f"{at}" * 64, (make_run(batch=64 + at),)) for at, name in enumerate(names)
        ]
        found = [each.point for each in points.result_points(files, [])]
        assert [point.source for point in found] == ["a.json", "b.json", "runs/c.json"]
        assert "ada" not in json.dumps([dataclasses.asdict(point) for point in found])

    def test_of_a_bundle_the_bundle(self):
        files = [Loaded("in/x.tar.gz/results/a.json", "1" * 64, (make_run(),))]
        assert points.result_points(files, [])[0].point.source == "in/x.tar.gz"

    def test_of_several_files_a_glob(self):
        runs = make_run(step_time=3.2), make_run(step_time=3.3)
        files = [Loaded(f"logs/{at}.txt", f"{at}" * 64, (run,)) for at, run in enumerate(runs)]
        assert [each.point.source for each in points.result_points(files, [])] == ["logs/*"]

    @pytest.mark.parametrize(
        ("before", "is_read"), [(points.LONGEST_READ - 8, True), (points.LONGEST_READ - 7, False)]
    )
    def test_x3_a_text_is_read_for_names_as_far_as_it_may_be_shown(
        self, before, is_read, monkeypatch
    ):
        learned = []
        monkeypatch.setattr(
            hosts.Names, "learn", lambda _, text, *kind: kind or learned.append(text) or text
        )
        points._public("x" * before + " h0123" + " SLURM_NODELIST=h[1-99999]" * 1000)
        assert ("h0123" in learned[-1]) == is_read
        assert len(learned[-1]) <= points.LONGEST_READ

    def test_hostile_texts_are_one_safe_line(self):
        (found,) = own(make_run(HOSTILE, framework=HOSTILE, label=HOSTILE))
        for text in (found.gpu, found.framework, found.note, found.version):
            assert text.isprintable()


class TestAddresses:
    @pytest.mark.parametrize(
        ("source", "url"),
        [
            ("a/b/c/d.csv@0123456789ab:7", "https://github.com/a/b/blob/0123456789ab/c/d.csv#L7"),
            (
                "a/b/README.md@0123456789ab:7",
                "https://github.com/a/b/blob/0123456789ab/README.md?plain=1#L7",
            ),
            ("a/b/c d/e@0123456789ab", "https://github.com/a/b/tree/0123456789ab/c%20d/e"),
            ("a/b/c/e.json@441d65f", "https://github.com/a/b/blob/441d65f/c/e.json"),
            ("results/a.json", ""),
            ("a/b/c@main", ""),
            ("", ""),
        ],
    )
    def test_forms(self, source, url):
        assert address(source) == url

    def test_every_published_row_has_one(self):
        assert [row.source for row in published.rows() if not address(row.source)] == []


def test_no_published_row_has_the_software_of_another_vendor():
    vendors = {gpu.key: gpu.vendor for gpu in gpus.gpus()}
    other = {"NVIDIA": ("rocm",), "AMD": ("cuda", "nvcr.io")}
    for row in published.rows():
        words = other.get(vendors.get(row.gpu, ""), ())
        assert not any(word in row.version.lower() for word in words), row
