from __future__ import annotations

import random

import msgspec
import pytest
from made_runs import H100, MI300X, make_run

from tprimat.compare.systems import (
    _GPU,
    _LABEL,
    _part_text,
    _telling_parts,
    name_systems,
    same_system,
    short_device,
)
from tprimat.results.run import Environment


def names(*runs, **models):
    return [system.name for system in name_systems(models or {"llama": list(runs)})["llama"]]


@pytest.mark.parametrize(
    ("device", "short"),
    [
        (H100, "H100 80GB HBM3"),
        (MI300X, "MI300X"),
        ("AMD Instinct MI300X OAM", "MI300X OAM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("AMD Radeon Graphics", "Radeon Graphics"),
        ("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", "Intel Xeon Platinum 8481C"),
        ("AMD EPYC 9454 48-Core Processor", "EPYC 9454 48-Core"),
        ("NVIDIA", "NVIDIA"),
    ],
)
def test_short_device_keeps_what_tells_cards_apart(device, short):
    assert short_device(device) == short


class TestNames:
    def test_gpu_alone_where_it_tells_them_apart(self):
        assert names(make_run(), make_run(MI300X, stack="rocm")) == [
            "8×H100 (BF16)",
            "8×MI300X (BF16)",
        ]

    def test_a_label_that_is_the_gpu_s_name_is_not_repeated(self):
        amd = {"device": MI300X, "stack": "rocm", "label": "MI300X"}
        runs = (
            make_run(label="H100"),
            make_run(**amd),
            make_run(**amd, gpus=16),
            make_run(label="new driver"),
        )
        labelled = [
            "8×H100 (BF16)",
            "8×MI300X (BF16)",
            "16×MI300X (BF16)",
            "8×H100, new driver (BF16)",
        ]
        assert names(*runs) == labelled

    def test_count(self):
        assert names(make_run(), make_run(gpus=16)) == ["8×H100 (BF16)", "16×H100 (BF16)"]

    def test_precision_alone_on_one_machine(self):
        assert names(make_run(precision="fp32"), make_run(precision="bf16")) == [
            "8×H100 (FP32)",
            "8×H100 (BF16)",
        ]

    def test_precision_on_a_cpu_is_the_name(self):
        runs = (
            make_run(None, gpus=1, stack="cpu", precision=precision)
            for precision in ("fp32", "bf16")
        )
        assert names(*runs) == ["fp32", "bf16"]

    def test_a_label_of_the_micro_batch_is_written_out_where_it_is_true(self):
        runs = [make_run(None, gpus=1, stack="cpu", label=label) for label in ("micro1", "micro2")]
        # Both have micro-batches of one sequence: the second label is a name like any other.
        assert names(*runs) == ["micro-batch 1", "micro2"]

    def test_framework(self):
        assert names(make_run(framework="nemo"), make_run(framework="megatron")) == [
            "nemo",
            "megatron",
        ]

    def test_a_framework_with_two_back_ends(self):
        runs = make_run(framework="primus"), make_run(framework="primus")
        other = msgspec.structs.replace(runs[1], framework_config={"backend": "torchtitan"})
        assert names(runs[0], other) == ["primus", "primus (torchtitan)"]

    def test_the_platform_that_an_mlperf_log_states_where_nothing_states_the_gpus(self):
        runs = (
            msgspec.structs.replace(
                make_run(None, gpus=None, framework="mlperf"),
                framework_config={"submission_platform": platform},
            )
            for platform in ("1xXE9680", "2xXE9680")
        )
        assert names(*runs) == ["1xXE9680", "2xXE9680"]

    def test_a_label_is_shown_even_where_the_gpu_suffices(self):
        runs = make_run(label="before"), make_run(MI300X, stack="rocm", label="after")
        assert names(*runs) == ["8×H100, before (BF16)", "8×MI300X, after (BF16)"]

    def test_a_label_on_one_system_only(self):
        assert names(make_run(), make_run(label="tuned")) == ["8×H100", "tuned"]

    def test_batch_tells_two_setups_of_a_machine_apart(self):
        runs = make_run(batch=8, length=8192), make_run(), make_run(MI300X, stack="rocm")
        assert names(*runs) == [
            "8×H100, batch 8 (BF16)",
            "8×H100, batch 64 (BF16)",
            "8×MI300X (BF16)",
        ]

    def test_names_are_told_apart_within_their_model(self):
        models = {"llama": [make_run(), make_run(batch=8)], "qwen": [make_run(model="qwen")]}
        systems = name_systems(models)
        assert [system.name for system in systems["llama"]] == ["batch 64", "batch 8"]
        assert [system.name for system in systems["qwen"]] == ["8×H100 (BF16)"]

    def test_the_shortest_version_that_tells_apart(self):
        stated = (
            "PyTorch 2.6.0, ROCm 6.4",
            "PyTorch 2.6.0a0+gitfc899bf",
            "PyTorch 2.8.0.dev1+rocm7.0, ROCm 7.0.0",
        )
        runs = [make_run(environment=Environment(versions={"framework": each})) for each in stated]
        assert names(*runs) == ["PyTorch 2.6.0", "PyTorch 2.6.0a0", "PyTorch 2.8"]
        nemo = make_run(
            environment=Environment(versions={"framework": "NVIDIA NeMo Framework Release 24.09"})
        )
        assert names(*runs[:1], nemo) == ["PyTorch 2.6", "NeMo 24.09"]

    def test_one_gpu_under_two_names_has_the_long_one_where_nothing_else_differs(self):
        runs = (
            make_run("NVIDIA H200"),
            make_run("NVIDIA H200-SXM5-141GB"),
            make_run(MI300X, stack="rocm"),
        )
        assert names(*runs) == ["8×H200 (BF16)", "8×H200-SXM5-141GB (BF16)", "8×MI300X (BF16)"]

    def test_one_differing_package_is_the_name_not_all(self):
        versions = ({"nemo": "2.4", "numpy": "2.0"}, {"nemo": "2.5", "numpy": "2.0"})
        assert names(*(make_run(environment=Environment(versions=each)) for each in versions)) == [
            "nemo 2.4",
            "nemo 2.5",
        ]

    @pytest.mark.parametrize(
        ("one", "other", "called"),
        [
            ({"NCCL_ALGO": "Ring"}, {"NCCL_ALGO": "Tree"}, ["NCCL_ALGO=Ring", "NCCL_ALGO=Tree"]),
            ({"NCCL_ALGO": "Ring"}, {}, ["NCCL_ALGO=Ring", "NCCL_ALGO unset"]),
            ({}, {}, ["8×H100 (BF16)", "8×H100 (BF16), configuration 2"]),
        ],
    )
    def test_an_environment_variable_that_differs_is_the_name_not_all(self, one, other, called):
        shared = {"A_LONG_LIST": "x" * 130, "OMP_NUM_THREADS": "8"}
        assert (
            names(
                *(
                    make_run(environment=Environment(settings=shared | each))
                    for each in (one, other)
                )
            )
            == called
        )

    def test_where_one_states_no_environment_a_variable_is_unknown(self):
        runs = (
            make_run(environment=Environment(settings=each)) for each in ({"NCCL_ALGO": "Ring"}, {})
        )
        assert names(*runs) == ["NCCL_ALGO=Ring", "NCCL_ALGO unknown"]

    @pytest.mark.parametrize(
        ("setups", "called"),
        [
            # In both of two settings, in each of them, and in one alone.
            ([(8, False), (1, True)], ["micro-batch 8, eager", "micro-batch 1, torch.compile"]),
            (
                [(8, True), (8, False), (1, True)],
                [
                    "micro-batch 8, torch.compile",
                    "micro-batch 8, eager",
                    "micro-batch 1, torch.compile",
                ],
            ),
            ([(8, True), (1, True)], ["micro-batch 8", "micro-batch 1"]),
            ([(8, True), (8, False)], ["torch.compile", "eager"]),
            # What one doesn't state tells nothing.
            ([(8, None), (1, True)], ["micro-batch 8", "micro-batch 1"]),
        ],
    )
    def test_no_name_blames_one_of_two_settings(self, setups, called):
        runs = []
        for micro_batch, is_compiled in setups:
            run = make_run(
                framework_config={} if is_compiled is None else {"torch_compile": is_compiled}
            )
            config = msgspec.structs.replace(run.training_config, micro_batch_size=micro_batch)
            # What follows from the micro-batch isn't named beside it.
            parallelism = msgspec.structs.replace(
                run.parallelism_config, gradient_accumulation_steps=8 // micro_batch
            )
            runs.append(
                msgspec.structs.replace(run, training_config=config, parallelism_config=parallelism)
            )
        assert names(*runs) == called

    def test_systems_of_two_gpus_or_frameworks_are_called_by_these_alone(self):
        compiled = [{"framework_config": {"torch_compile": value}} for value in (True, False)]
        assert names(make_run(**compiled[0]), make_run(MI300X, stack="rocm", **compiled[1])) == [
            "8×H100 (BF16)",
            "8×MI300X (BF16)",
        ]
        runs = (
            make_run(framework="nemo", **compiled[0]),
            make_run(framework="megatron", **compiled[1]),
        )
        assert names(*runs) == ["nemo", "megatron"]

    @pytest.mark.parametrize("seed", range(20))
    def test_names_of_random_systems(self, seed):
        """Names are distinct, whole and as short as may be, in whatever order the files come."""
        draw = random.Random(seed)
        labels = [
            None,
            None,
            None,
            "a" * 100,
            "tuned by hand " * 7 + "1",
            "tuned by hand " * 7 + "2",
        ]
        setups = {
            (
                draw.choice([H100, MI300X, "NVIDIA H200", "NVIDIA Blackwell GPU (GB200)"]),
                draw.choice([8, 16]),
                draw.choice([None, "bf16", "fp8"]),
                draw.choice(labels),
                draw.choice(["nemo", "megatron"]),
                draw.choice([8, 64]),
                draw.choice(
                    [
                        "PyTorch 2.6.0, ROCm 6.4",
                        "PyTorch 2.6.0a0+git1",
                        "NVIDIA NeMo Framework Release 24.09",
                    ]
                ),
            )
            for _ in range(draw.randint(2, 30))
        }
        runs = [
            make_run(
                gpu,
                gpus=count,
                precision=precision,
                label=label,
                framework=framework,
                batch=batch,
                environment=Environment(versions={"framework": software}),
            )
            for gpu, count, precision, label, framework, batch, software in sorted(setups, key=str)
        ]
        named = names(*runs)
        assert len(set(named)) == len(runs)
        assert not [name for name in named if "…" in name or "setup" in name]
        order = draw.sample(range(len(runs)), len(runs))
        assert names(*(runs[index] for index in order)) == [named[index] for index in order]
        always = [
            part for part in (_GPU, _LABEL) if len({_part_text(part, run) for run in runs}) > 1
        ]
        for name, parts in zip(named, _telling_parts(runs, always), strict=True):
            texts = [[_part_text(part, run) for part in parts] for run in runs]
            own = texts[named.index(name)]
            for number, part in enumerate(parts):
                if part not in always:
                    fewer = [each[:number] + each[number + 1 :] for each in texts]
                    assert fewer.count(own[:number] + own[number + 1 :]) > 1

    def test_one_name_is_one_machine_in_every_model(self):
        models = {
            "llama": [make_run(precision="fp32"), make_run(precision="bf16")],
            "qwen": [make_run(MI300X, stack="rocm", model="qwen")],
        }
        systems = name_systems(models)
        assert [system.name for system in systems["llama"]] == ["8×H100 (FP32)", "8×H100 (BF16)"]
        assert [system.name for system in systems["qwen"]] == ["8×MI300X (BF16)"]

    def test_a_scale_that_a_log_leaves_open_is_no_name(self):
        runs = {"llama": [make_run()], "qwen": [make_run(model="qwen", scale=None)]}
        assert {system.name for systems in name_systems(runs).values() for system in systems} == {
            "8×H100 (BF16)"
        }
        assert names(make_run(), make_run(scale=None)) == ["scale full", "8×H100"]

    @pytest.mark.parametrize(
        ("field", "values", "called"),
        [
            ("framework_config.torch_compile", (True, False), ["torch.compile", "eager"]),
            ("training_config.recomputation", ("none", "full"), ["no recomputation", "full recomputation"]),
            ("framework_config.attention", ("sdpa", "flash_attention_2"), ["sdpa attention", "flash_attention_2"]),
            ("training_config.micro_batch_size", (1, 2), ["micro-batch 1", "micro-batch 2"]),
            ("training_config.precision_detail", ("bf16_mixed", "bf16_true"), ["bf16_mixed", "bf16_true"]),
            ("parallelism_config.strategy_name", ("fsdp", "ddp"), ["fsdp", "ddp"]),
            ("framework_config.enable_primus_turbo", (1, 0), ["Primus Turbo without kernels", "no Primus Turbo"]),
            ("training_config.packing", (True, False), ["packing", "no packing"]),
            ("model_config.trainable_parameters", (20_000_000, None),
             ["training 20M parameters", "training all parameters"]),
            ("model_config.num_mtp_layers", (None, 1), ["no multi-token prediction", "multi-token prediction 1"]),
            ("optimizer.name", ("adamw", "sgd"), ["optimizer adamw", "optimizer sgd"]),
            ("optimizer.learning_rate", (1e-4, 3e-4), ["learning rate 0.0001", "learning rate 0.0003"]),
            ("data.seed", (1, 2), ["data seed 1", "data seed 2"]),
            ("training_config.max_steps", (60, 100), ["run of 60 steps", "run of 100 steps"]),
            ("gpu_info.software_version", ("12.4", "12.8"), ["cuda 12.4", "cuda 12.8"]),
            ("gpu_info.compute_units", (304, 228), ["304 compute units", "228 compute units"]),
            ("framework_config.zero_stage", (2, 3), ["zero_stage 2", "zero_stage 3"]),
            ("framework_config.flash", (True, False), ["flash", "no flash"]),
            ("timing.covers", ("a step", "a batch"), ["8×H100 (BF16)", "8×H100 (BF16), configuration 2"]),
        ],
    )  # fmt: skip
    def test_two_that_differ_in_one_setting_are_called_by_its_value_in_words(
        self, field, values, called
    ):
        part, name = field.split(".")
        runs = []
        for value in values:
            run = make_run()
            old = getattr(run, part)
            new = (
                {**old, name: value}
                if isinstance(old, dict)
                else msgspec.structs.replace(old, **{name: value})
            )
            runs.append(msgspec.structs.replace(run, **{part: new}))
        assert names(*runs) == called

    def test_an_unknown_that_tells_apart_is_named(self):
        assert names(make_run(precision=None), make_run(precision="fp8")) == [
            "8×H100 (precision unknown)",
            "8×H100 (FP8)",
        ]

    def test_what_every_system_states_comes_first(self):
        assert names(make_run(precision=None), make_run(precision="fp8", batch=8)) == [
            "batch 64",
            "batch 8",
        ]

    def test_versions_tell_apart(self):
        environments = (Environment(versions={"nemo": version}) for version in ("2.4", "2.5"))
        assert names(*(make_run(environment=each) for each in environments)) == [
            "nemo 2.4",
            "nemo 2.5",
        ]

    def test_a_number_where_nothing_with_a_name_differs(self):
        runs = [
            make_run(model_config=msgspec.structs.replace(make_run().model_config, source=s))
            for s in ("a", "b")
        ]
        assert names(*runs) == ["8×H100 (BF16)", "8×H100 (BF16), configuration 2"]

    def test_an_unknown_device(self):
        assert names(make_run(None, gpus=None, precision=None)) == ["unknown GPU"]
        assert names(make_run(None, gpus=1, stack="cpu")) == ["1× unknown CPU"]

    def test_a_processor(self):
        run = make_run(
            None,
            gpus=1,
            stack="cpu",
            environment=Environment(cpu="AMD EPYC 9454 48-Core Processor"),
        )
        assert names(run) == ["EPYC 9454 48-Core"]

    def test_long_names_are_cut_and_stay_apart(self):
        found = names(*(make_run(label="x" * 200 + end) for end in "abc"))
        assert len(set(found)) == 3
        assert max(map(len, found)) < 80

    def test_a_label_may_be_a_name_with_a_number(self):
        shape = make_run().model_config
        runs = [
            make_run(label=label, model_config=msgspec.structs.replace(shape, source=source))
            for label, source in (("a", "1"), ("a", "2"), ("a, configuration 2", "1"), ("a", "3"))
        ]
        assert names(*runs) == [
            "a",
            "a, configuration 3",
            "a, configuration 2",
            "a, configuration 4",
        ]


class TestSameSystem:
    def test_another_day_or_host_is_the_same_system(self):
        other = make_run(
            timestamp="2026-03-01T00:00:00+00:00", environment=Environment(hostname="b")
        )
        assert same_system(make_run()) == same_system(other)

    @pytest.mark.parametrize(
        "change", [{"batch": 8}, {"precision": "fp8"}, {"gpus": 4}, {"label": "b"}, {"scale": "x"}]
    )
    def test_another_setup_is_another_system(self, change):
        assert same_system(make_run()) != same_system(make_run(**change))

    def test_another_version_is_another_system(self):
        assert same_system(make_run()) != same_system(
            make_run(environment=Environment(versions={"nemo": "2.5"}))
        )
