from __future__ import annotations

import array
import statistics

import msgspec
import pytest
from made_runs import H100, MI300X, SMALL, comparison, failed_run, make_run, shape
from stored_runs import note, reason_of, texts_of

from tprimat.analysis import summary
from tprimat.compare import Loaded, compare, figures
from tprimat.errors import ExitStatus, UsageError
from tprimat.report.rates import run_warnings
from tprimat.results.account import Entry, Timing
from tprimat.results.run import MemoryMetrics, ModelConfig

AMD = {"device": MI300X, "stack": "rocm"}


def later(run, day=3, **fields):
    return msgspec.structs.replace(run, timestamp=f"2026-02-{day:02d}T00:00:00+00:00", **fields)


def names(model):
    return [system.name for system in model.systems]


class TestSystemsAndModels:
    def test_models_are_never_crossed(self):
        result = comparison(make_run(), make_run(**AMD, model="qwen"))
        assert [model.title for model in result.models] == ["Llama 3.1 8B", "Qwen 2.5 7B"]
        assert [model.pairs for model in result.models] == [(), ()]
        assert result.status == ExitStatus.NOT_COMPARABLE

    def test_a_model_that_is_scaled_down_is_never_called_as_the_full_one(self):
        config = shape(num_layers=4, hidden_size=256, num_parameters=7_482_368)
        (model,) = comparison(make_run(scale="tiny", model_config=config)).models
        assert model.title == "Llama tiny, 7.48M parameters"

    @pytest.mark.parametrize(
        ("name", "config", "title"),
        [
            ("llama", {"num_parameters": 4_200}, "a model of 4.2k parameters, named llama"),
            ("llama3 70B", {"num_layers": 4, "num_parameters": 5_523_972_096},
             "a model of 5.52B parameters, named llama3 70B"),
            ("llama", {"num_layers": 31}, "a model of another shape, named llama"),
            ("llama3.1_8b-pretrain", {"num_layers": 4}, "a model of another shape, named llama3.1_8b-pretrain"),
            ("qwen3 0.6B", {"num_parameters": 299_999_999}, "a model of 300M parameters, named qwen3 0.6B"),
            ("qwen3 0.6B", {"num_parameters": 300_000_000}, "qwen3 0.6B"),
            ("llama3.2_1B", {"num_parameters": 2_471_000_000}, "Llama 3.2 1B"),
            ("llama3.2_1B", {"num_parameters": 2_472_000_000}, "a model of 2.47B parameters, named llama3.2_1B"),
            ("mixtral 8x7b", {"num_parameters": 46_700_000_000}, "Mixtral 8x7B"),
            # Of which experts the size is, nobody knows.
            ("mixtral 9x7b", {"num_parameters": 46_700_000_000}, "mixtral 9x7b"),
            ("my-model", {"num_parameters": 4_200}, "my-model"),
            ("llama", {}, "Llama 3.1 8B"),
            ("llama", {"num_parameters": 8_050_000_000, "num_layers": 32}, "Llama 3.1 8B"),
        ],
    )  # fmt: skip
    def test_a_name_without_its_shape_is_no_model(self, name, config, title):
        (model,) = comparison(
            make_run(model=name, scale=None, model_config=ModelConfig(**config))
        ).models
        assert model.title == title

    def test_parameters_that_are_not_stated_follow_from_the_shape(self):
        four = shape(num_layers=4, hidden_size=8192, num_attention_heads=64, ffn_hidden_size=28672)
        (model,) = comparison(make_run(model="llama3 70B", scale=None, model_config=four)).models
        assert model.title == "a model of 5.52B parameters, named llama3 70B"

    def test_several_scales_are_never_called_as_the_full_one(self):
        runs = [
            make_run(scale=scale, step_time=3.0 + number)
            for number, scale in enumerate(("tiny", "small", "1b"))
        ]
        assert comparison(*runs).models[0].title == "Llama tiny, Llama small and Llama 1b"
        assert comparison(*runs[:1], make_run()).models[0].title == "Llama tiny and Llama 3.1 8B"
        more = [*runs, make_run(scale="medium", step_time=9.0)]
        assert comparison(*more).models[0].title == "4 models named llama"

    def test_a_model_of_no_row_keeps_its_name(self):
        assert comparison(make_run(model="gpt-x")).models[0].title == "gpt-x"

    def test_models_that_nobody_names_are_never_merged_over_files(self):
        runs = [
            later(make_run(model=None, step_time=3.0 + number, losses=False), day=number + 1)
            for number in range(5)
        ]
        (model,) = comparison(*runs).models
        assert [len(system.runs) for system in model.systems] == [1] * 5
        (model,) = comparison(tuple(runs)).models
        assert [len(system.runs) for system in model.systems] == [5]
        shaped = [msgspec.structs.replace(run, model_config=shape()) for run in runs]
        (model,) = comparison(*shaped).models
        assert [len(system.runs) for system in model.systems] == [5]

    def test_the_fastest_of_another_vendor_is_the_baseline(self):
        runs = [make_run(), make_run("NVIDIA H200", step_time=2.0), make_run(**AMD, step_time=1.6)]
        (group,) = comparison(*runs).models[0].groups
        assert group.baseline.gpu == "NVIDIA H200"
        assert [system.gpu for system in group.systems] == [MI300X, "NVIDIA H200", H100]
        assert (group.leaders.system.gpu, group.leaders.baseline.gpu) == (MI300X, "NVIDIA H200")
        assert [pair.ratio.value for pair in group.pairs] == pytest.approx([1.25, 0.625], rel=0.01)
        assert (group.leaders.ratio.low, group.leaders.ratio.high) == (None, None)
        assert group.runner_up is None

    def test_of_one_vendor_the_second_fastest_is_the_baseline(self):
        runs = [
            make_run(),
            make_run("NVIDIA H200", step_time=2.0),
            make_run("NVIDIA B200", step_time=1.6),
        ]
        (group,) = comparison(*runs).models[0].groups
        assert group.baseline.gpu == "NVIDIA H200"
        assert group.leaders is group.pairs[0]

    def test_the_fastest_is_compared_with_the_second_fastest_too(self):
        runs = [make_run(step_time=2.0), make_run("NVIDIA H200", step_time=1.6), make_run(**AMD)]
        (group,) = comparison(*runs).models[0].groups
        assert (group.baseline.gpu, group.leaders.system.gpu) == (MI300X, "NVIDIA H200")
        assert (group.runner_up.baseline.gpu, group.runner_up.system.gpu) == (H100, "NVIDIA H200")
        assert group.runner_up.ratio.value == pytest.approx(1.25, rel=0.01)

    def test_runs_of_one_setup_are_one_system_wherever_they_lie(self):
        result = comparison(
            make_run(), (later(make_run(step_time=3.4)), later(make_run(step_time=3.0), 4))
        )
        (system,) = result.models[0].systems
        assert len(system.runs) == 3
        means = sorted(each.summary.performance.tokens_per_second_per_gpu for each in system.runs)
        figure = system.values["tokens_per_second_per_gpu"]
        # The geometric mean: a ratio of two of these is that of the log-Welch interval.
        assert figure.value == pytest.approx(statistics.geometric_mean(means))
        assert (figure.min, figure.max, figure.runs) == (means[0], means[-1], 3)

    def test_setups_of_one_machine_are_systems_of_their_own(self):
        (model,) = comparison(make_run(batch=8), make_run(batch=64)).models
        assert names(model) == ["batch 64", "batch 8"]
        assert all(len(system.runs) == 1 for system in model.systems)

    def test_one_run_has_no_range(self):
        figure = comparison(make_run()).models[0].systems[0].values["avg_step_time_seconds"]
        assert (figure.min, figure.max, figure.runs) == (None, None, 1)

    def test_a_peak_is_the_highest_of_the_runs(self):
        runs = [
            later(
                make_run(
                    step_time=3 + day / 10,
                    memory_metrics=MemoryMetrics(peak_memory_reserved_gb=peak),
                ),
                day,
            )
            for day, peak in ((1, 40.0), (2, 42.0))
        ]
        system = comparison(tuple(runs)).models[0].systems[0]
        assert system.value("peak_memory_reserved_gb") == 42.0
        assert system.value("avg_memory_reserved_gb") is None

    def test_shared_is_what_all_systems_are(self):
        assert comparison(make_run(), make_run(precision="fp8")).shared == (
            "8×H100",
            "nemo",
            "cuda",
            "scale full",
        )
        assert comparison(make_run(), make_run(**AMD)).shared == ("scale full", "BF16")


class TestWorkloads:
    def test_systems_with_the_same_work_are_rows_of_one_table(self):
        result = comparison(
            make_run(batch=8, length=8192),
            make_run(**AMD, batch=128),
            make_run(),
            make_run(**AMD, step_time=2.4),
        )
        (group,) = result.models[0].groups
        assert [system.name for system in group.systems] == [
            "8×MI300X, batch 128 (BF16)",
            "8×MI300X, batch 64 (BF16)",
            "8×H100, batch 64 (BF16)",
            "8×H100, batch 8 (BF16)",
        ]
        assert reason_of(group.pairs[-1]) == "workload mismatch: sequence length 2048 vs 8192"

    def test_other_work_of_several_systems_is_a_group_of_its_own(self):
        runs = [make_run(device, batch=8, length=8192) for device in (H100, "NVIDIA H200")]
        runs += [make_run(), make_run(**AMD), make_run(batch=32)]
        first, second = comparison(*runs).models[0].groups
        assert (len(first.systems), len(second.systems)) == (3, 2)
        assert first.title == "Llama 3.1 8B, sequence length 2048"
        assert second.title == "Llama 3.1 8B, sequence length 8192"

    def test_a_shape_that_is_open_is_compared_with_each_that_it_may_be(self):
        shapes = [shape(num_layers=4), ModelConfig(num_layers=None), shape(num_layers=8)]
        runs = [
            make_run(device, model="my-model", model_config=config)
            for device, config in zip((H100, MI300X, "NVIDIA H200"), shapes, strict=True)
        ]
        groups = comparison(*runs).models[0].groups
        assert [{system.gpu for system in group.systems} for group in groups] == [
            {H100, MI300X},
            {"NVIDIA H200", MI300X},
        ]
        assert [group.title for group in groups] == [
            "my-model, num layers 4",
            "my-model, num layers 8",
        ]

    def test_a_third_system_changes_no_ratio(self):
        runs = [make_run(steps=200), make_run(**AMD, steps=200, step_time=2.5)]
        (pair,) = comparison(*runs).models[0].pairs
        short = make_run("NVIDIA H200", step_time=3.6, steps=40)
        pairs = comparison(*runs, short).models[0].pairs
        assert [each.ratio for each in pairs if each.system.gpu == MI300X] == [pair.ratio]

    def test_two_systems_with_different_batches_are_compared_per_token(self):
        (pair,) = (
            comparison(make_run(batch=64), make_run(**AMD, batch=128, step_time=3.2))
            .models[0]
            .pairs
        )
        assert pair.ratio.value == pytest.approx(2.0, rel=0.01)

    def test_a_reference_gathers_all(self):
        runs = [make_run(batch=8), make_run(batch=64), make_run(**AMD, batch=64)]
        (group,) = comparison(*runs, reference="MI300X").models[0].groups
        assert group.baseline.gpu == MI300X
        assert len(group.pairs) == 2


class TestReference:
    @pytest.mark.parametrize(
        "asked", ["8×H200", "8xH200", "h200", "H200", " 8XH200 ", "nvidia h200"]
    )
    def test_is_found_by_its_name_or_a_part(self, asked):
        result = comparison(
            make_run("NVIDIA GH200 480GB"), make_run("NVIDIA H200"), reference=asked
        )
        assert result.models[0].pairs[0].baseline.gpu == "NVIDIA H200"

    def test_a_full_name_is_a_reference(self):
        runs = make_run(framework="nemo"), make_run(framework="megatron", step_time=2.4)
        full = next(
            system.full_name
            for system in comparison(*runs).systems
            if system.framework == "megatron"
        )
        assert (
            comparison(*runs, reference=full).models[0].groups[0].baseline.framework == "megatron"
        )

    def test_an_ambiguous_one_lists_the_systems(self):
        with pytest.raises(
            UsageError,
            match=r"matches several systems: be more specific; matches: batch 8; batch 64",
        ) as caught:
            comparison(make_run(batch=8), make_run(batch=64), reference="batch")
        assert caught.value.heading == "unknown-system"

    @pytest.mark.parametrize("asked", ["B200", "", "\x1b[31m"])
    def test_an_unknown_one_lists_the_systems(self, asked):
        with pytest.raises(
            UsageError,
            match=r"no system matches '.*': available: 8×H100 \(BF16\); 8×MI300X \(BF16\)",
        ):
            comparison(make_run(), make_run(**AMD), reference=asked)

    def test_a_model_without_it_says_so(self):
        result = comparison(
            make_run(),
            make_run(**AMD),
            make_run(model="qwen", **AMD),
            make_run("NVIDIA H200", model="qwen"),
            reference="H100",
        )
        assert any(
            note.startswith("Qwen 2.5 7B: there is no system 8×H100")
            for note in texts_of(result.notes)
        )
        assert len(result.models[1].pairs) == 1


class TestModelFilter:
    def test_keeps_one(self):
        files = [
            Loaded("a.json", "0" * 64, (make_run(),)),
            Loaded("b.json", "1" * 64, (make_run(model="qwen"),)),
        ]
        result = compare(files, model="QWEN")
        assert [model.model for model in result.models] == ["qwen"]
        assert [file.name for file in result.files] == ["b.json"]

    def test_takes_the_title(self):
        assert len(comparison(make_run(), make_run(model="qwen"), model="llama 3.1 8b").models) == 1

    def test_an_unknown_one_lists_what_there_is(self):
        with pytest.raises(UsageError, match="'mistral': available: llama, qwen"):
            comparison(make_run(), make_run(model="qwen"), model="mistral")


class TestManySystems:
    def test_each_run_is_searched_for_segments_once(self, monkeypatch):
        searched = []
        search = summary.find_segments
        monkeypatch.setattr(
            summary, "find_segments", lambda times: searched.append(times) or search(times)
        )
        runs = [
            make_run(label=f"build {index}", step_time=3.0 + 0.1 * index, steps=40 + index)
            for index in range(6)
        ]
        result = comparison(*runs)
        assert len(result.models[0].pairs) == 5
        assert len(searched) == len(runs)

    def test_a_baseline_is_summarized_once_for_systems_of_one_length(self, monkeypatch):
        calls = []
        summarize = figures.summarize
        monkeypatch.setattr(
            figures, "summarize", lambda *a, **k: calls.append(a[0]) or summarize(*a, **k)
        )
        longest = make_run(label="longest", step_time=2.9, steps=80)
        others = [
            make_run(label=f"build {index}", step_time=3.0 + 0.1 * index, steps=40)
            for index in range(5)
        ]
        comparison(longest, *others, reference="longest")
        assert len(calls) == 1


def test_runs_of_one_system_are_timed_by_one_clock_where_all_have_one():
    """A mean over two clocks would be of neither."""
    blocks = (Entry(kind="training", start=0, duration=270.0, first_step=1, last_step=60),)
    sampled = make_run(timing=Timing(kind="sampled"))
    timed = later(make_run(step_time=3.3, timing=sampled.timing, timeline=blocks))
    only = later(make_run(timing=sampled.timing, timeline=blocks, step_times=(None,) * 60), day=4)
    for runs, clocks in (
        ((sampled, timed), ["sampled", "sampled"]),
        ((timed,), ["blocks"]),
        ((timed, only), ["blocks", "blocks"]),
        # One that failed has none.
        (
            (
                failed_run(
                    H100,
                    stack="cuda",
                    training_config=sampled.training_config,
                    timing=sampled.timing,
                ),
                sampled,
                timed,
            ),
            [None, "sampled", "sampled"],
        ),
        # None is common.
        ((sampled, timed, only), ["sampled", "blocks", "blocks"]),
    ):
        (system,) = comparison(runs).models[0].systems
        assert [result.summary.clock for result in system.runs] == clocks


class TestCopies:
    def test_a_loaded_run_and_the_same_one_with_other_types_are_one(self):
        run = make_run()
        packed = msgspec.structs.replace(run, step_times=array.array("d", run.step_times))
        result = comparison(run, packed)
        assert len(result.models[0].systems[0].runs) == 1
        assert result.notes == (
            note("run-again", file="results/file_2.json", other="results/file_1.json"),
        )

    def test_a_copy_in_another_folder_counts_once(self):
        result = comparison(make_run(), make_run())
        assert len(result.models[0].systems[0].runs) == 1
        assert result.notes == (
            note("run-again", file="results/file_2.json", other="results/file_1.json"),
        )

    def test_one_measurement_under_two_setups_is_said(self):
        times = make_run().step_times
        result = comparison(make_run(gpus=8), make_run(gpus=4, step_times=times))
        assert len(result.models[0].systems) == 2
        assert "one measurement" in texts_of(result.notes)[0]

    @pytest.mark.parametrize(("times", "is_noted"), [(3.2, False), (3.3, True)])
    def test_a_copy_with_other_times_is_noted(self, times, is_noted):
        timeline = (Entry(kind="training", start=0, duration=200),)
        notes = texts_of(
            comparison(
                make_run(timeline=timeline), make_run(step_time=times, timeline=timeline)
            ).notes
        )
        text = "results/file_2.json contains a run of results/file_1.json with other step times"
        assert any(note.startswith(text) for note in notes) is is_noted

    def test_failed_runs_are_no_copies(self):
        assert len(comparison((failed_run(), failed_run())).models[0].systems[0].runs) == 2


class TestBrokenRuns:
    def test_a_failed_run_has_no_figures_and_a_status(self):
        result = comparison(make_run(), failed_run())
        system = result.models[0].systems[1]
        assert dict(system.values) == {}
        assert system.valid_runs == ()
        assert (
            reason_of(result.models[0].pairs[0])
            == "8×MI300X (BF16) has no step times: its run failed (out of memory)"
        )
        assert result.status == ExitStatus.NOT_COMPARABLE

    def test_an_incomplete_run_has_figures_and_a_warning(self):
        result = comparison(
            make_run(), make_run(**AMD, status="incomplete", status_reason="interrupted")
        )
        (pair,) = result.models[0].pairs
        assert pair.ratio is not None
        assert "a run is incomplete: interrupted; it is used" in tuple(run_warnings(pair.baseline))

    def test_an_incomplete_run_beside_complete_ones_is_left_out(self):
        broken = later(make_run(steps=10), status="incomplete")
        broken = msgspec.structs.replace(broken, training_config=make_run().training_config)
        (system,) = comparison((make_run(), broken)).models[0].systems
        assert [result.is_valid for result in system.runs] == [True, False]
        assert "a run is incomplete; it is excluded" in tuple(run_warnings(system))
        assert system.values["avg_step_time_seconds"].runs == 1


class TestStatus:
    def test_one_system_is_fine_to_show(self):
        assert comparison(make_run()).status == ExitStatus.OK

    def test_one_system_with_several_models_too(self):
        assert comparison(make_run(), make_run(model="qwen", batch=32)).status == ExitStatus.OK

    def test_one_answer_is_enough(self):
        result = comparison(
            make_run(), make_run(**AMD), make_run(model="qwen"), failed_run(model="qwen")
        )
        assert result.status == ExitStatus.OK

    def test_two_setups_of_a_machine_without_an_answer_are_not_comparable(self):
        assert (
            comparison(make_run(length=2048), make_run(length=4096)).status
            == ExitStatus.NOT_COMPARABLE
        )


class TestSettings:
    def rows(self, *runs):
        return {row.title: row for row in comparison(*runs).models[0].groups[0].settings}

    def test_differences_and_unknowns(self):
        rows = self.rows(make_run(precision=None, step_time=1.0), make_run(**AMD, batch=128))
        assert rows["precision"].values == (None, "bf16")
        assert rows["precision"].differs
        assert rows["global batch"].values == ("64 sequences", "128 sequences")
        assert not rows["sequence length"].differs
        assert rows["activation recomputation"].unknown
        assert "expert parallel" not in rows

    def test_versions_only_where_they_differ(self):
        environments = [
            msgspec.structs.replace(make_run().environment, versions=versions)
            for versions in (
                {"torch": "2.9", "nemo": "2.5", "te": "1"},
                {"torch": "2.8", "primus": "0.3", "te": "1"},
            )
        ]
        rows = self.rows(
            make_run(environment=environments[0]), make_run(**AMD, environment=environments[1])
        )
        assert rows["other versions"].values == ("nemo 2.5", "primus 0.3")

    def test_models_are_offered_in_the_order_of_their_names(self):
        names = [*"hdbfaegc"]
        files = [Loaded(f"{name}.json", name, (make_run(model=f"model {name}"),)) for name in names]
        with pytest.raises(UsageError) as raised:
            compare(files, model="gpt")
        assert (
            raised.value.hint
            == f"available: {', '.join(f'model {name}' for name in sorted(names))}"
        )

    def test_versions_are_in_the_order_of_their_names(self):
        names = [*"hdbfaegc"]
        environments = [
            msgspec.structs.replace(make_run().environment, versions=dict.fromkeys(order, version))
            for order, version in ((names, "1"), (names[::-1], "2"))
        ]
        rows = self.rows(
            make_run(environment=environments[0]), make_run(**AMD, environment=environments[1])
        )
        assert rows["other versions"].values == tuple(
            ", ".join(f"{name} {n}" for name in "abcdefgh") for n in "12"
        )


def test_a_model_under_its_name_in_a_log_is_the_model_of_its_shape():
    full = ModelConfig(num_parameters=8_030_261_248)
    earlier = make_run(model="llama3 8B", scale=None, model_config=full, framework="torchtitan")
    (model,) = comparison(earlier, make_run(MI300X, stack="rocm")).models
    assert (model.model, len(model.systems)) == ("llama", 2)
    assert model.pairs[0].ratio is not None
    assert len(comparison(earlier, make_run(MI300X, stack="rocm"), model="llama").systems) == 2
    # Another shape is another model.
    small = make_run(
        model="llama3 8B", scale=None, model_config=ModelConfig(num_parameters=1_923_125_248)
    )
    assert [each.model for each in comparison(small, make_run()).models] == ["llama3 8B", "llama"]


def test_the_title_begins_with_the_model_of_most_systems():
    tiny = make_run(None, gpus=1, stack="cpu", scale="tiny", model_config=SMALL)
    (model,) = comparison(tiny, make_run(), make_run(MI300X, stack="rocm")).models
    assert model.short_title == "Llama 3.1 8B and Llama tiny"
    assert model.title.startswith("Llama 3.1 8B and Llama tiny, ")
