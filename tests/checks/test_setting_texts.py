"""The text of a setting whose value is made of several fields, or cut: a row for each case."""

from __future__ import annotations

import msgspec
import pytest
from made_runs import make_run, shape

from tprimat.checks.settings import SAMES, VALUES
from tprimat.results.run import Data, Environment, ModelConfig
from tprimat.settings.rows import by_key


def run_with(part, **fields):
    """A run of which one part has other fields."""
    run = make_run()
    return msgspec.structs.replace(run, **{part: msgspec.structs.replace(getattr(run, part), **fields)})


def configured(**values):
    return make_run(framework_config=values)


CASES = (
    ("software_stack", run_with("gpu_info", software_version="12.8"), "cuda 12.8"),
    ("software_stack", run_with("gpu_info", software_stack=None, software_version=None), None),
    ("num_gpus", make_run(gpus=16), "16"),
    ("precision", make_run(precision="fp8"), "fp8"),
    ("precision", run_with("training_config", precision_detail="bf16"), "bf16"),
    ("precision", run_with("training_config", precision_detail="bf16-mixed"), "bf16 (bf16-mixed)"),
    ("precision", run_with("training_config", precision=None, precision_detail="mixed"), "mixed"),
    ("precision", run_with("training_config", precision_detail="x" * 73), f"bf16 ({'x' * 73})"),
    ("precision", run_with("training_config", precision_detail="x" * 74), f"bf16 ({'x' * 73}…"),
    ("precision", make_run(precision=None), None),
    ("attention", configured(attention="flash"), "flash"),
    ("attention", configured(chunked_cross_entropy=False), "sdpa"),
    ("attention", configured(), None),
    ("compiler", configured(torch_compile=True), "torch.compile"),
    ("compiler", configured(torch_compile=False), "eager"),
    ("compiler", configured(), None),
    ("turbo", configured(enable_primus_turbo=False, use_turbo_attention=True), "off"),
    ("turbo", configured(enable_primus_turbo=True), "without kernels"),
    (
        "turbo",
        configured(enable_primus_turbo=True, use_turbo_mlp=True, use_turbo_attention=1, use_turbo_gemm=False),
        "attention, mlp",
    ),
    ("turbo", configured(use_turbo_attention=True), None),
    ("trainable_parameters", make_run(model_config=shape(trainable_parameters=40_000_000)), "40M"),
    ("trainable_parameters", make_run(model_config=shape()), None),
    (
        "trainable_parameters",
        make_run(model_config=shape(num_parameters=8_000, trainable_parameters=8_000)),
        None,
    ),
    (
        "trainable_parameters",
        make_run(model_config=shape(num_parameters=8_000, trainable_parameters=7_999)),
        "8k",
    ),
    ("layers", make_run(model_config=ModelConfig(num_layers=12)), "12 layers"),
    (
        "layers",
        make_run(model_config=ModelConfig(num_layers=12, num_encoder_layers=6)),
        "6 encoder layers, 12 decoder layers",
    ),
    ("layers", make_run(model_config=ModelConfig()), None),
    ("heads", make_run(model_config=ModelConfig(num_attention_heads=32, num_query_groups=8)), "32/8"),
    ("heads", make_run(model_config=ModelConfig(num_attention_heads=32)), "32"),
    ("head_size", make_run(model_config=ModelConfig(hidden_size=64, num_attention_heads=4, head_dim=16)), None),
    ("head_size", make_run(model_config=ModelConfig(hidden_size=64, num_attention_heads=4, head_dim=32)), "32"),
    ("head_size", make_run(model_config=ModelConfig(num_attention_heads=4, head_dim=32)), "32"),
    ("head_size", make_run(model_config=ModelConfig(hidden_size=64, head_dim=32)), "32"),
    ("not_gated", make_run(model_config=ModelConfig(gated_ffn=False)), "not gated"),
    ("not_gated", make_run(model_config=ModelConfig(gated_ffn=True)), None),
    ("not_gated", make_run(model_config=ModelConfig()), None),
    ("digest", make_run(data=Data(digest="0123456789abcdef")), "0123456789ab"),
    ("digest", make_run(), None),
    ("power_cap", make_run(energy_metrics={"power_cap_watts": 649.6}), "650 W"),
    ("power_cap", make_run(), None),
    ("cpu_threads", make_run(None, stack="cpu", environment=Environment(cpu_threads=8)), "8"),
    ("cpu_threads", make_run(environment=Environment(cpu_threads=8)), None),
    ("numa_balancing", make_run(environment=Environment(numa_balancing=True)), "on"),
    ("numa_balancing", make_run(environment=Environment(numa_balancing=False)), "off"),
    ("numa_balancing", make_run(), None),
    ("environment_settings", make_run(environment=Environment(settings={"B": "2", "A": "1"})), "A=1, B=2"),
    ("environment_settings", make_run(), None),
)


@pytest.mark.parametrize(("setting", "run", "text"), CASES)
def test_the_text_of_a_setting(setting, run, text):
    assert VALUES[setting](run) == text


def test_each_setting_with_a_text_of_its_own_is_tested():
    assert {setting for setting, _, _ in CASES} == VALUES.keys() - {"framework", "flops_per_token"}


RECIPES = ("delayed", "tensorwise", "rowwise", "blockwise", "mxfp8", "mxfp4", "nvfp4")


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        *((f"of {recipe}", f"recipe: {recipe}!", True) for recipe in (*RECIPES, "e4m3", "hybrid")),
        *((f"of {recipe}", f"recipe: {other}!", False) for recipe in RECIPES for other in RECIPES if recipe != other),
        ("of e4m3", "hybrid", False),
        # One word says the format, another how it is scaled: neither contradicts the other.
        ("of e4m3", "recipe: delayed", True),
        ("of hybrid, delayed", "recipe: delayed", True),
        ("of hybrid, delayed", "e4m3, delayed", False),
        ("somebody's own", "another", True),
        (None, "recipe: delayed", True),
    ],
)
def test_recipes_of_one_precision_in_the_words_of_two_frameworks(first, second, is_same):
    runs = [run_with("training_config", precision="fp8", precision_detail=detail) for detail in (first, second)]
    runs[1] = msgspec.structs.replace(runs[1], framework="primus")
    assert SAMES["same_precision"](by_key("precision"), *runs) == is_same
    if first is not None:
        runs[1] = msgspec.structs.replace(runs[1], framework="nemo")
        assert not SAMES["same_precision"](by_key("precision"), *runs)
