"""A careless reader: what two runs differ in stands on the first screen, and equal runs aren't
called different.
"""

from __future__ import annotations

import dataclasses
import itertools
import re

import msgspec
import pytest
import screens
from made_runs import H100, MI300X, comparison, make_run, shape

from tprimat.analysis import flops
from tprimat.checks import compute, settings
from tprimat.frameworks.request import Request, RequestedConfig
from tprimat.report.verdict import report
from tprimat.results import account, run
from tprimat.results.run import ModelConfig, Run
from tprimat.settings.rows import HARMLESS, LEDGER, SETTINGS, fields_of

EXPERTS = shape(num_experts=64, experts_per_token=8, expert_ffn_hidden_size=1408)
LATENT = {
    "key_value_lora_rank": 512,
    "query_lora_rank": 1536,
    "rope_head_dim": 64,
    "value_head_dim": 128,
}


def changed(result: Run, **values: object) -> Run:
    """A run with other values, by section__field."""
    for name, value in values.items():
        section, _, field = name.partition("__")
        if field and isinstance(getattr(result, section), dict):
            part: object = {**getattr(result, section), field: value}
        elif field:
            part = msgspec.structs.replace(getattr(result, section), **{field: value})
        else:
            part = value
        result = msgspec.structs.replace(result, **{section: part})
    return result


def pair(
    first: dict[str, object], second: dict[str, object], *, device: str = MI300X
) -> tuple[Run, Run]:
    """An H100, and by default an MI300X that is 38% faster, alike but for these values."""
    base: dict[str, object] = {"model_config": shape()}
    other = {"label": "b"} if device == H100 else {"stack": "rocm"}
    memory = {} if device == H100 else {"gpu_info__total_memory_gb": 206.0}
    return (
        changed(make_run(), **{**base, **first}),
        changed(
            make_run(device, step_time=3.2 / 1.38, framework="nemo", **other),
            **{**base, **memory, **second},
        ),
    )


def screen(*runs: Run) -> str:
    """The first screen in one line, without the table; at 80 columns a long value is cut."""
    return " ".join(screens.shown(report(comparison(*runs)), width=120).split())


def of_both(
    name: str, first: object, second: object
) -> tuple[dict[str, object], dict[str, object]]:
    return {name: first}, {name: second}


DIFFERENT = [
    (
        *of_both("model_config", EXPERTS, msgspec.structs.replace(EXPERTS, experts_per_token=4)),
        "experts per token 8",
    ),
    (
        *of_both("model_config", EXPERTS, msgspec.structs.replace(EXPERTS, num_experts=32)),
        "num experts 64 and 32",
    ),
    (
        *of_both(
            "model_config", EXPERTS, msgspec.structs.replace(EXPERTS, expert_ffn_hidden_size=704)
        ),
        "expert ffn hidden size 1408 and 704",
    ),
    (*of_both("model_config", EXPERTS, shape()), "FLOPs per token: 46.6 GFLOP vs 39.4 GFLOP"),
    (
        *of_both("model_config", shape(sliding_window=512), shape(sliding_window=1024)),
        "sliding window 512 and 1024",
    ),
    (*of_both("model_config__gated_ffn", True, False), "gated ffn True and False"),
    (*of_both("model_config__gated_ffn", None, False), "FLOPs per token: 35.4 GFLOP vs 46.6 GFLOP"),
    (*of_both("model_config__head_dim", 128, 64), "head dim 128 and 64"),
    (
        *of_both("model_config", shape(**LATENT), shape(**{**LATENT, "key_value_lora_rank": 256})),
        "key value lora rank 512 and 256",
    ),
    (*of_both("model_config__tie_word_embeddings", True, False), "tied embeddings: False vs True"),
    (
        *of_both("model_config__trainable_parameters", 20_000_000, None),
        "trainable parameters: all vs 20M",
    ),
    (
        *of_both("model_config__trainable_parameters", 20_000_000, 40_000_000),
        "trainable parameters: 40M vs 20M",
    ),
    (
        *of_both("training_config__recomputation", "full", "none"),
        "activation recomputation: none vs full",
    ),
    (
        *of_both("training_config__recomputation", "full", "selective"),
        "activation recomputation: selective vs full",
    ),
    (*of_both("framework_config__torch_compile", True, False), "compiler: eager vs torch.compile"),
    (*of_both("framework_config__attention", "eager", "sdpa"), "attention: sdpa vs eager"),
    (*of_both("energy_metrics__power_cap_watts", 500.0, 750.0), "power cap: 750 W vs 500 W"),
    (
        *of_both("environment__gpu_partition", "SPX/NPS1", "CPX/NPS4"),
        "GPU partition: CPX/NPS4 vs SPX/NPS1",
    ),
    (*of_both("training_config__packing", True, False), "packing: False vs True"),
    (*of_both("training_config__num_gpus", 8, 16), "GPUs: 8 vs 16"),
    (*of_both("environment__numa_balancing", True, False), "NUMA balancing: off vs on"),
    (
        *of_both("framework_config__model.config.fp8_recipe", "delayed", "tensorwise"),
        "fp8_recipe: tensorwise vs delayed",
    ),
    (
        *of_both("framework_config__recipe", "llama31_8b", "llama3_8b"),
        "recipe: llama3_8b vs llama31_8b",
    ),
    (
        *of_both("framework_config__model.config.enable_cuda_graph", True, False),
        "enable_cuda_graph: False vs True",
    ),
    (
        *of_both("framework_config__ddp.overlap_grad_reduce", True, False),
        "ddp.overlap_grad_reduce: False vs True",
    ),
    (*of_both("framework_config__loss_fn", "Masked", "Fused"), "loss_fn: Fused vs Masked"),
    (*of_both("framework_config__dropout", 0.1, 0.0), "dropout: 0 vs 0.1"),
    (*of_both("optimizer__beta2", 0.95, 0.999), "optimizer (beta2 0.999 vs beta2 0.95)"),
    (*of_both("parallelism_config__tensor_model_parallel_size", 1, 4), "tensor parallel (4 vs 1)"),
    (*of_both("training_config__sequence_length", 2048, 4096), "sequence length 2048 vs 4096"),
    (
        {
            "training_config__precision": "fp8",
            "training_config__precision_detail": "fp8 hybrid, recipe delayed",
        },
        {
            "training_config__precision": "fp8",
            "training_config__precision_detail": "fp8 e4m3, recipe tensorwise",
        },
        "precision: fp8 (fp8 e4m3, recipe tensorwise) vs fp8 (fp8 hybrid, recipe delayed)",
    ),
    (
        {
            "framework": "nemo",
            "training_config__precision": "fp8",
            "training_config__precision_detail": "hybrid, delayed",
        },
        {
            "framework": "primus",
            "training_config__precision": "fp8",
            "training_config__precision_detail": "hybrid, rowwise",
        },
        "precision: fp8 (hybrid, rowwise) vs fp8 (hybrid, delayed)",
    ),
    (*of_both("scale", "full", "tiny"), "the scales differ (full and tiny)"),
]


@pytest.mark.parametrize(
    ("first", "second", "text"), DIFFERENT, ids=[text for *_, text in DIFFERENT]
)
def test_one_thing_that_matters_is_on_the_first_screen(first, second, text):
    runs = pair(first, second)
    assert text in screen(*runs)
    assert compute.config_diff(*runs).verdict != "same configuration"


ON_ONE_DEVICE = [
    (
        *of_both("environment__versions", {"driver": "570.86"}, {"driver": "550.54"}),
        "driver: 550.54 vs 570.86",
    ),
    (*of_both("gpu_info__pytorch_version", "2.4.0", "2.5.1"), "torch: 2.5.1 vs 2.4.0"),
    (*of_both("gpu_info__compute_units", 132, 114), "compute units: 114 vs 132"),
    (
        *of_both(
            "environment__settings",
            {"A": "1", "NCCL_ALGO": "Ring"},
            {"A": "1", "NCCL_ALGO": "Tree"},
        ),
        "environment variables: NCCL_ALGO=Tree vs NCCL_ALGO=Ring",
    ),
]


@pytest.mark.parametrize(
    ("first", "second", "text"), ON_ONE_DEVICE, ids=[text for *_, text in ON_ONE_DEVICE]
)
def test_software_explains_between_two_runs_on_one_device(first, second, text):
    runs = pair(first, second, device=H100)
    assert text in screen(*runs)
    assert compute.config_diff(*runs).verdict == "best configuration"
    assert text not in screen(*pair(first, second))
    assert compute.config_diff(*runs, mode="same").verdict != "not comparable"


FP8 = {"training_config__precision": "fp8"}
EQUAL = {
    "nothing": ({}, {}),
    "padded vocabulary": of_both("model_config", shape(), shape(vocab_size=129024)),
    "a padding of 1023": of_both("model_config", shape(), shape(vocab_size=128256 + 1023)),
    "gated by default": of_both("model_config__gated_ffn", None, True),
    "a head size by default": of_both("model_config__head_dim", None, 128),
    "all parameters are trained": (
        {
            "model_config__num_parameters": 8_030_261_248,
            "model_config__trainable_parameters": 8_030_261_248,
        },
        {},
    ),
    "key and value heads that only one states": of_both("model_config__num_query_groups", 8, None),
    "windows with and without the token": of_both(
        "model_config",
        shape(sliding_window=1023, full_attention_layers=0),
        shape(sliding_window=1024),
    ),
    "a window that only one states": of_both("model_config", shape(sliding_window=512), shape()),
    "an optimizer spelled differently": (
        {"optimizer__name": "AdamW", "optimizer__learning_rate": 3e-4, "optimizer__beta2": 0.95},
        {"optimizer__name": "adam_w", "optimizer__learning_rate": 0.0003},
    ),
    "bf16 in the words of two frameworks": (
        {"training_config__precision_detail": "bf16-mixed"},
        {"training_config__precision_detail": "parameters bfloat16", "framework": "primus"},
    ),
    "one fp8 recipe in the words of two frameworks": (
        {
            **FP8,
            "training_config__precision_detail": "fp8 hybrid, recipe delayed, parameters bfloat16",
        },
        {
            **FP8,
            "training_config__precision_detail": "precision bf16, fp8 Hybrid (delayed)",
            "framework": "primus",
        },
    ),
    "each at its own power": of_both("energy_metrics__power_cap_watts", 700.0, 750.0),
    "attention by default": (
        {"framework_config": {"chunked_cross_entropy": False}},
        {"framework_config": {"chunked_cross_entropy": False, "attention": "sdpa"}},
    ),
    "settings that another framework doesn't have": (
        {"framework_config": {"model.config.fp8": "hybrid"}},
        {"framework": "primus"},
    ),
    "software of two devices": of_both(
        "environment__versions", {"driver": "570.86"}, {"driver": "6.12"}
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_pairs_are_clean(name):
    runs = pair(*EQUAL[name])
    text = screen(*runs)
    assert "is 38% faster" in text
    assert " ! " not in text
    assert "settings differ" not in text


@pytest.mark.parametrize(("trained", "is_named"), [(7_504_658_431, True), (7_504_658_432, False)])
def test_all_parameters_are_trained_that_a_model_multiplies_by(trained, is_named):
    # Without the look-up of embeddings and the norms: 32 layers and the output layer of Llama 3.1
    # 8B.
    text = screen(*pair(*of_both("model_config__trainable_parameters", trained, None)))
    assert ("trainable parameters: all vs 7.5B" in text) is is_named


def test_cpus_are_compared_and_their_threads_explain_on_one_of_them():
    def cpu(name, threads):
        run = changed(
            make_run(name, stack="cpu", gpus=1),
            environment__cpu_threads=threads,
            label=str(threads),
        )
        return changed(run, framework="lightning")

    explained = [
        "CPU threads"
        in {
            entry.title
            for entry in compute.config_diff(cpu("EPYC", 8), other).entries
            if entry.explains
        }
        for other in (cpu("EPYC", 16), cpu("Xeon", 16), cpu("EPYC", 8))
    ]
    assert explained == [True, False, False]


@pytest.mark.parametrize(("cap", "is_named"), [(694.0, False), (692.0, True)])
def test_a_cap_is_one_from_a_hundredth_below_the_devices_power_on(cap, is_named):
    text = screen(*pair(*of_both("energy_metrics__power_cap_watts", cap, 750.0)))
    assert (f"power cap: 750 W vs {cap:.0f} W" in text) is is_named


@pytest.mark.parametrize(("ffn", "differs"), [(14528, False), (14544, True)])
def test_flops_of_one_model_may_differ_by_a_hundredth(ffn, differs):
    # One states the width of its experts alone, so that only the FLOPs can be compared.
    experts = shape(
        num_experts=1, experts_per_token=1, expert_ffn_hidden_size=ffn, ffn_hidden_size=None
    )
    diff = compute.config_diff(*pair(*of_both("model_config", shape(), experts)))
    assert ("FLOPs per token" in {entry.title for entry in diff.of("different")}) is differs


@pytest.mark.parametrize("setting", LEDGER, ids=[setting.title for setting in LEDGER])
def test_runs_that_differ_in_one_row_are_not_one_configuration(setting):
    """Or the row says why they are."""
    known = {
        "scale": ("full", "tiny"),
        "precision": ("bf16", "fp8"),
        "model shape": (32, 33),
        "FLOPs per token": (32, 33),
        "Primus Turbo": (True, False),
        "compiler": (True, False),
        "power cap": (500.0, 700.0),
        "environment variables": ({"A": "1"}, {"A": "2"}),
        "NUMA balancing": (True, False),
        "packing": (True, False),
        "tied embeddings": (True, False),
        "trainable parameters": (10, 20),
    }
    field = (
        setting.field.partition(" ")[0].replace(".versions.", ".versions__").replace(".", "__", 1)
    )
    first, second = known.get(setting.title, (1, 2))
    if setting.title in (
        "software stack",
        "step timer scope",
        "framework",
        "torch",
        "attention",
        "optimizer",
        "data",
        "clock",
        "container",
    ):
        first, second = "one", "two"
    platform = "cpu" if setting.title == "CPU threads" else "nvd"
    runs = []
    for value in (first, second):
        base = changed(make_run(), model_config=shape(), platform=platform)
        if field.startswith("environment__versions__"):
            runs.append(
                changed(base, environment__versions={field.rpartition("__")[2]: str(value)})
            )
        else:
            runs.append(changed(base, **{field: value}))
    diff = compute.config_diff(*runs)
    (entry,) = [each for each in diff.entries if each.title == setting.title]
    assert entry.status in ("different", "blocking")
    if setting.role == "harmless":
        assert setting.why
        assert not entry.explains
    else:
        assert diff.verdict != "same configuration"
    assert not setting.why or setting.role == "harmless"


COMPARED = {
    "model_config": ModelConfig,
    "training_config": run.TrainingConfig,
    "parallelism_config": run.ParallelismConfig,
    "optimizer": run.Optimizer,
    "data": run.Data,
    "gpu_info": run.GpuInfo,
    "environment": run.Environment,
    "timing": account.Timing,
}


def test_each_field_has_a_row_or_a_reason_for_none():
    fields = {
        f"{section}.{name}" for section, kind in COMPARED.items() for name in kind.__struct_fields__
    }
    rows = {field for setting in LEDGER for field in fields_of(setting)}
    assert sorted(fields - rows - HARMLESS.keys()) == []
    assert sorted(rows & HARMLESS.keys()) == []
    known = {*fields, "framework", "scale", "energy_metrics.power_cap_watts"}
    keys = ("framework_config.", "environment.versions.")
    unknown = {field for field in {*rows, *HARMLESS} - known if not field.startswith(keys)}
    assert unknown == set()


def test_titles_are_told_apart_and_functions_are_bound():
    assert len({setting.title for setting in LEDGER}) == len(LEDGER)
    assert {setting.value for setting in SETTINGS} - {""} == settings.VALUES.keys()
    assert {setting.same for setting in LEDGER} - {""} == settings.SAMES.keys()
    # Of several fields that are no text together the first that is known counts: a library's name
    # in two builds.
    several = {setting.title for setting in SETTINGS if " " in setting.field and not setting.value}
    assert several == {"Triton"}
    assert {setting.part for setting in SETTINGS} - {""} <= {setting.title for setting in LEDGER}


def test_any_other_key_of_the_frameworks_settings_is_a_row():
    runs = [
        Run(framework="nemo", framework_config=config)
        for config in ({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4})
    ]
    found = {
        entry.title: (entry.status, entry.explains) for entry in compute.config_diff(*runs).entries
    }
    assert "a" not in found
    assert found["b"] == ("different", True)
    assert found["c"] == ("unknown", False)
    elsewhere = [runs[0], msgspec.structs.replace(runs[1], framework="primus")]
    assert "c" not in {entry.title for entry in compute.config_diff(*elsewhere).entries}


SHAPES = {
    "dense": shape(),
    "windows": shape(sliding_window=512, full_attention_layers=4),
    "global heads": shape(
        sliding_window=512, full_attention_layers=4, global_head_dim=128, global_query_groups=4
    ),
    "experts": shape(
        num_experts=64,
        experts_per_token=8,
        expert_ffn_hidden_size=1408,
        shared_expert_ffn_hidden_size=1408,
        num_dense_layers=2,
    ),
    "latent attention": shape(head_dim=64, **LATENT),
    "encoder-decoder": shape(num_encoder_layers=6),
    "several kinds": shape(
        **{
            "layer_pattern": "M-G*E",
            "state_heads": 8,
            "state_head_dim": 64,
            "state_size": 128,
            "state_groups": 2,
        },
        **{
            "num_experts": 8,
            "experts_per_token": 2,
            "expert_ffn_hidden_size": 512,
            "expert_latent_size": 256,
        },
    ),
}


def test_what_enters_the_flops_forbids_a_comparison_or_is_compared_by_them():
    entering = set()
    for name, field in itertools.product(SHAPES, ModelConfig.__struct_fields__):
        model = SHAPES[name]
        before = getattr(model, field)
        if field == "source":
            continue
        others = {"gated_ffn": False, "attention_output_gate": True, "layer_pattern": "M-*"}
        value = others[field] if field in others else (before or 4096) * 2
        other = msgspec.structs.replace(model, **{field: value})
        if flops.flops_per_token(other, 2048) in (None, flops.flops_per_token(model, 2048)):
            continue
        entering.add(field)
        runs = pair({"model_config": model}, {"model_config": other})
        (answer,) = comparison(*runs).models[0].pairs
        explains = {entry.title for entry in answer.config_diff.entries if entry.explains}
        is_forbidden = any(note.code == "shapes-differ" for note in answer.reasons)
        assert is_forbidden or explains & {"FLOPs per token", "trainable parameters"}, (name, field)
    assert {f"model_config.{field}" for field in entering} >= {
        field
        for setting in LEDGER
        if setting.title == "model shape"
        for field in fields_of(setting)
    }


def test_a_setting_is_data_alone():
    """So that options, launchers and readers can use the rows, and --help stays light."""
    values = [value for setting in SETTINGS for value in setting]
    assert all(isinstance(value, str | bool | int | tuple) for value in values)
    keys = [setting.key for setting in SETTINGS]
    assert len(set(keys)) == len(keys)


def test_a_user_can_request_what_has_an_option():
    requested = RequestedConfig.DEFAULTS.keys() - {"origins"}
    made = {field.name for field in dataclasses.fields(Request) if field.compare}
    options = {setting.request for setting in SETTINGS if setting.flag}
    assert requested - options == {"shape"}
    assert options - requested == {"framework"}
    # A preset is used up by the choices that it makes, and `eager` is the opposite of `compiled`.
    assert options - made == {"preset", "eager"}
    assert {setting.request for setting in SETTINGS if setting.tuned} <= requested


def test_values_are_in_the_order_of_the_table():
    """The fastest system first, whatever the baseline."""
    runs = [
        changed(make_run(device, step_time=time, label=device), training_config__recomputation=how)
        for device, time, how in (
            ("A100", 4.0, "none"),
            ("H200", 2.0, "full"),
            ("H100", 3.0, "selective"),
        )
    ]
    for reference in (None, "A100", "H200", "H100"):
        text = " ".join(screens.shown(report(comparison(*runs, reference=reference))).split())
        (values,) = re.findall(r"activation recomputation: (\w+(?: vs \w+)+)", text)
        found = values.split(" vs ")
        assert found == [each for each in ("full", "selective", "none") if each in found]
