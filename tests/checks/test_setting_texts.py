"""The text of a setting whose value is made of several fields, or cut: a row for each case."""

from __future__ import annotations

import msgspec
import pytest
from made_runs import make_run, shape

from tprimat.checks import settings
from tprimat.checks.settings import SAMES, VALUES
from tprimat.notes.catalogue import words
from tprimat.results.run import Data, Environment, GpuInfo, ModelConfig, TrainingConfig
from tprimat.settings import Setting
from tprimat.settings.rows import LEDGER, by_key


def run_with(part, **fields):
    """A run of which one part has other fields."""
    run = make_run()
    return msgspec.structs.replace(
        run, **{part: msgspec.structs.replace(getattr(run, part), **fields)}
    )


def configured(**values):
    return make_run(framework_config=values)


CASES = (
    ("software_stack", run_with("gpu_info", software_version="12.8"), "cuda 12.8"),
    ("software_stack", run_with("gpu_info", software_stack=None, software_version=None), None),
    ("framework", make_run(framework="nemo"), "nemo"),
    ("framework", make_run(framework="fsdp", framework_config={"backend": "xla"}), "fsdp (xla)"),
    ("framework", make_run(framework=None, framework_config={"backend": "xla"}), None),
    # 6 x 7.505 G of weights, and half of 12 x 32 x 4096 x 2048 of attention.
    ("flops_per_token", make_run(model_config=shape()), "46.6 GFLOP"),
    ("flops_per_token", make_run(model_config=shape(), length=None), None),
    ("flops_per_token", make_run(model_config=shape(vocab_size=None)), None),
    ("flops_per_token", make_run(model="unknown"), None),
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
        configured(
            enable_primus_turbo=True,
            use_turbo_mlp=True,
            use_turbo_attention=1,
            use_turbo_gemm=False,
        ),
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
    # By the parameters that Llama 3.1 8B multiplies by, or none if its shape isn't known.
    (
        "trainable_parameters",
        make_run(model_config=shape(trainable_parameters=7_504_658_432)),
        None,
    ),
    (
        "trainable_parameters",
        make_run(model_config=shape(trainable_parameters=7_504_658_431)),
        "7.5B",
    ),
    (
        "trainable_parameters",
        make_run(model="own", model_config=ModelConfig(trainable_parameters=9_000)),
        "9k",
    ),
    (
        "trainable_parameters",
        make_run(model_config=shape(vocab_size=None, trainable_parameters=9_000)),
        "9k",
    ),
    ("layers", make_run(model_config=ModelConfig(num_layers=12)), "12 layers"),
    (
        "layers",
        make_run(model_config=ModelConfig(num_layers=12, num_encoder_layers=6)),
        "6 encoder layers, 12 decoder layers",
    ),
    ("layers", make_run(model_config=ModelConfig()), None),
    ("layers", make_run(model_config=ModelConfig(num_encoder_layers=6)), "6 encoder layers"),
    (
        "heads",
        make_run(model_config=ModelConfig(num_attention_heads=32, num_query_groups=8)),
        "32/8",
    ),
    ("heads", make_run(model_config=ModelConfig(num_attention_heads=32)), "32"),
    (
        "head_size",
        make_run(model_config=ModelConfig(hidden_size=66, num_attention_heads=4, head_dim=16)),
        None,
    ),
    (
        "head_size",
        make_run(model_config=ModelConfig(hidden_size=64, num_attention_heads=4, head_dim=16)),
        None,
    ),
    (
        "head_size",
        make_run(model_config=ModelConfig(hidden_size=64, num_attention_heads=4, head_dim=32)),
        "32",
    ),
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
    ("host_cpu", make_run(environment=Environment(cpu="EPYC 9654")), "EPYC 9654"),
    ("host_cpu", make_run(None, stack="cpu", environment=Environment(cpu="EPYC 9654")), None),
    ("host_cpu", make_run(), None),
    ("numa_balancing", make_run(environment=Environment(numa_balancing=True)), "on"),
    ("numa_balancing", make_run(environment=Environment(numa_balancing=False)), "off"),
    ("numa_balancing", make_run(), None),
    (
        "environment_settings",
        make_run(environment=Environment(settings={"B": "2", "A": "1"})),
        "A=1, B=2",
    ),
    ("environment_settings", make_run(), None),
)


@pytest.mark.parametrize(("setting", "run", "text"), CASES)
def test_the_text_of_a_setting(setting, run, text):
    assert VALUES[setting](run) == text


def test_each_setting_with_a_text_of_its_own_is_tested():
    assert {setting for setting, _, _ in CASES} == VALUES.keys()


RECIPES = ("delayed", "tensorwise", "rowwise", "blockwise", "mxfp8", "mxfp4", "nvfp4")


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        *((f"of {recipe}", f"recipe: {recipe}!", True) for recipe in (*RECIPES, "e4m3", "hybrid")),
        *(
            (f"of {recipe}", f"recipe: {other}!", False)
            for recipe in RECIPES
            for other in RECIPES
            if recipe != other
        ),
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
    runs = [
        run_with("training_config", precision="fp8", precision_detail=detail)
        for detail in (first, second)
    ]
    runs[1] = msgspec.structs.replace(runs[1], framework="primus")
    assert SAMES["same_precision"](by_key("precision"), *runs) == is_same
    if first is not None:
        runs[1] = msgspec.structs.replace(runs[1], framework="nemo")
        assert not SAMES["same_precision"](by_key("precision"), *runs)


MATRIX = {
    "num_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "ffn_hidden_size": 128,
    "vocab_size": 5000,
}
GROUPS = {"num_query_groups": 2}


def small(**fields):
    return ModelConfig(**{**MATRIX, **fields})


CONFLICTS = (
    (small(), small(), None),
    (small(), small(num_layers=3), "num layers 2 and 3"),
    (small(num_layers=None), small(num_layers=3), None),
    (small(), small(num_layers=None), None),
    (small(), small(vocab_size=6023), None),
    (small(), small(vocab_size=6024), "vocab size 5000 and 6024"),
    (small(vocab_size=6024), small(), "vocab size 6024 and 5000"),
    (small(sliding_window=511), small(sliding_window=512), None),
    (small(sliding_window=510), small(sliding_window=512), "sliding window 510 and 512"),
    (small(sliding_window=512), small(), None),
    (small(sliding_window=512), small(full_attention_layers=2), None),
    (small(layer_pattern="M-*"), small(layer_pattern="M-*"), None),
    (small(layer_pattern="M-*"), small(layer_pattern="M*-"), "layer pattern M-* and M*-"),
    # Layers without a window count where both have windows; none is stated as none.
    (
        small(sliding_window=512, full_attention_layers=2),
        small(sliding_window=512),
        "full attention layers 2 and 0",
    ),
    (
        small(sliding_window=512),
        small(sliding_window=512, full_attention_layers=3),
        "full attention layers 0 and 3",
    ),
    (small(sliding_window=512, full_attention_layers=0), small(sliding_window=512), None),
    (small(full_attention_layers=2), small(sliding_window=512, full_attention_layers=3), None),
    (small(num_parameters=1000), small(num_parameters=1500), None),
    (small(num_parameters=2502), small(num_parameters=1668), None),
    (small(num_parameters=2502), small(num_parameters=1667), "parameters 2,502 and 1,667"),
    (small(num_parameters=1667), small(num_parameters=2502), "parameters 1,667 and 2,502"),
    (small(num_parameters=1667), small(num_parameters=0), None),
    (small(num_parameters=1667), small(), None),
)


@pytest.mark.parametrize(("one", "other", "text"), CONFLICTS)
def test_in_what_two_shapes_differ(one, other, text):
    note = settings.shape_conflict(one, other)
    assert (note and words(note)) == text
    assert not settings.same_known_shape(one, other)
    stated = (msgspec.structs.replace(each, num_query_groups=2) for each in (one, other))
    assert settings.same_known_shape(*stated) == (
        text is None and None not in (one.num_layers, other.num_layers)
    )
    runs = [make_run(model_config=each) for each in (one, other)]
    assert SAMES["same_shape"](by_key("num_layers"), *runs) == (text is None)


@pytest.mark.parametrize(
    "name", ["num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads"]
)
def test_a_shape_that_one_leaves_open_is_not_known(name):
    known = small(**GROUPS)
    assert settings.same_known_shape(known, known)
    for pair in (
        (known, small(**{**GROUPS, name: None})),
        (small(**{**GROUPS, name: None}), known),
    ):
        assert not settings.same_known_shape(*pair)


def test_a_run_without_a_shape_contradicts_none():
    runs = make_run(model="unknown"), make_run(model_config=small())
    for first, second in (runs, runs[::-1]):
        for name in ("same_shape", "same_flops"):
            assert SAMES[name](by_key("num_layers"), first, second) is True


def of_length(length, **fields):
    return make_run(model_config=small(**fields), length=length)


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (of_length(128), of_length(4096), True),
        (of_length(128), of_length(128, ffn_hidden_size=256), False),
        (of_length(None), of_length(128, ffn_hidden_size=256), True),
        (of_length(128), of_length(None, ffn_hidden_size=256), False),
        (of_length(128), of_length(128, trainable_parameters=9), True),
        (of_length(128, trainable_parameters=9), of_length(128), True),
        (of_length(128), of_length(128, vocab_size=9000), True),
        (of_length(128), of_length(128, vocab_size=None), True),
        (of_length(128, vocab_size=None), of_length(128), True),
        (
            of_length(128, vocab_size=None),
            of_length(128, vocab_size=None, ffn_hidden_size=256),
            True,
        ),
        (of_length(128, vocab_size=None), of_length(128, ffn_hidden_size=2560), False),
        (of_length(128, ffn_hidden_size=2560), of_length(128, vocab_size=None), False),
        (of_length(128, hidden_size=None), of_length(128), True),
        (of_length(128), of_length(128, hidden_size=None), True),
        (of_length(128, ffn_hidden_size=129), of_length(128), True),
        (of_length(4096, sliding_window=8), of_length(4096), True),
        (of_length(4096), of_length(4096, sliding_window=8), True),
        (of_length(4096, sliding_window=8), of_length(4096, sliding_window=2048), False),
        (of_length(128, num_query_groups=1), of_length(128), True),
        (of_length(128), of_length(128, num_query_groups=1), True),
        (of_length(128, num_query_groups=1), of_length(128, num_query_groups=4), False),
    ],
)
def test_whether_a_token_costs_the_same(first, second, is_same):
    assert SAMES["same_flops"](by_key("num_layers"), first, second) is is_same


def stating(precision, detail, framework="nemo"):
    config = TrainingConfig(precision=precision, precision_detail=detail)
    return make_run(training_config=config, framework=framework)


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (stating("bf16", None), stating("fp8", None), False),
        (stating("bf16", "a"), stating("bf16", "a"), True),
        (stating("bf16", "a"), stating("bf16", "b"), False),
        (stating("bf16", "a"), stating("bf16", "b", "primus"), True),
        (stating("bf16", "a"), stating("bf16", None), True),
        (stating("bf16", "system description: a"), stating("bf16", "b"), True),
        (stating("bf16", "a"), stating("bf16", "system description: b"), True),
        # What one alone states, or what both state in words of their own.
        (stating(None, None), stating("bf16", "a"), True),
        (stating("bf16", "a"), stating(None, None), True),
        (stating(None, "a"), stating(None, "a"), True),
        (stating(None, "a"), stating(None, "b"), False),
        (stating(None, "a"), stating("bf16", "a"), False),
        (stating("bf16", "a"), stating(None, "a"), False),
        (stating(None, "bf16"), stating("bf16", None), True),
    ],
)
def test_whether_two_precisions_are_one(first, second, is_same):
    assert SAMES["same_precision"](by_key("precision"), first, second) is is_same


def with_optimizer(**fields):
    return run_with("optimizer", **fields)


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (with_optimizer(beta2=0.95), with_optimizer(beta2=0.95 * (1 + 0.9e-6)), True),
        (with_optimizer(beta2=0.95), with_optimizer(beta2=0.95 * (1 + 1.1e-6)), False),
        (with_optimizer(beta2=0.95), with_optimizer(), True),
        (with_optimizer(), with_optimizer(beta2=0.95), True),
        (with_optimizer(name="Adam-W"), with_optimizer(name="adam w"), True),
        (with_optimizer(name="AdamW"), with_optimizer(name="Adam2"), False),
        (with_optimizer(name="AdamW", beta1=0.9), with_optimizer(name="AdamW", beta1=0.8), False),
        (with_optimizer(name="AdamW"), with_optimizer(), True),
        (with_optimizer(), with_optimizer(name="AdamW"), True),
    ],
)
def test_whether_no_field_that_both_state_differs(first, second, is_same):
    optimizer = next(setting for setting in LEDGER if setting.title == "optimizer")
    assert SAMES["same_fields"](optimizer, first, second) is is_same


def capped(watts, device="NVIDIA H100 80GB HBM3"):
    metrics = {} if watts is None else {"power_cap_watts": watts}
    return make_run(gpu_info=GpuInfo(device_name=device), energy_metrics=metrics)


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (capped(500.0), capped(500.4), True),
        (capped(500.0), capped(501.0), False),
        (capped(500.0), capped(None), False),
        (capped(None), capped(None), True),
        # H100 is built for 700 W, MI300X for 750 W.
        (capped(700.0), capped(750.0, "AMD Instinct MI300X"), True),
        (capped(693.0), capped(742.5, "AMD Instinct MI300X"), True),
        (capped(692.0), capped(750.0, "AMD Instinct MI300X"), False),
        (capped(700.0), capped(742.0, "AMD Instinct MI300X"), False),
        (capped(700.0), capped(750.0, "unknown"), False),
        (capped(None), capped(750.0, "AMD Instinct MI300X"), False),
        # Its power isn't stated.
        (capped(700.0), capped(750.0, "AMD Instinct MI308X"), False),
        (capped(700.0, None), capped(750.0, "AMD Instinct MI300X"), False),
    ],
)
def test_whether_two_power_caps_are_one(first, second, is_same):
    assert SAMES["same_power_cap"](by_key("power_cap_watts"), first, second) is is_same


def keyed(framework="nemo", backend=None, device="A", **config):
    values = {**config, "backend": backend} if backend else config
    return make_run(
        framework=framework, framework_config=values, gpu_info=GpuInfo(device_name=device)
    )


@pytest.mark.parametrize(
    ("within", "first", "second", "can_explain"),
    [
        ("any", keyed("nemo", device="A"), keyed("primus", device="B"), True),
        ("device", keyed("nemo", device="A"), keyed("primus", device="A"), True),
        ("device", keyed(device="A"), keyed(device="B"), False),
        ("device", keyed(device=None), keyed(device=None), False),
        ("device", keyed(device=None), keyed(device="B"), False),
        ("framework", keyed("nemo", device="A"), keyed("nemo", device="B"), True),
        ("framework", keyed("nemo"), keyed("primus"), False),
        ("framework", keyed("fsdp", "xla"), keyed("fsdp", "nccl"), False),
    ],
)
def test_between_which_runs_a_difference_can_explain(within, first, second, can_explain):
    assert settings.applies(Setting("t", "f", within=within), first, second) is can_explain


def titles(*runs):
    return [each.title for each in settings.of_frameworks(runs)]


def test_rows_of_other_keys_of_frameworks():
    assert titles(keyed(b=1, a=2, c=3), keyed(b=2, a=3, c=3), keyed(b=1, a=4, c=3)) == ["a", "b"]
    # What one of three leaves out, within one framework alone.
    assert titles(keyed(a=1), keyed(), keyed(a=1)) == ["a"]
    assert titles(keyed(a=1), keyed("primus"), keyed(a=1)) == []
    assert titles(keyed(a=1), keyed("primus", a=2), keyed()) == ["a"]
    assert titles(keyed("fsdp", "xla", a=1), keyed("fsdp", "nccl")) == []
    # Equal texts, what has a row, and what a pattern of the rows stands for.
    assert titles(keyed(a=1), keyed(a=1.0)) == []
    assert (
        titles(
            keyed(torch_compile=True, use_turbo_mlp=1), keyed(torch_compile=False, use_turbo_mlp=0)
        )
        == []
    )
    assert settings.of_frameworks([keyed(a=1), keyed(a=2)]) == [
        Setting("a", "framework_config.a", role="explains", named=False, optional=True)
    ]
    rows = settings.rows_of([keyed(a=1), keyed(a=2), keyed(a=3)])
    assert [setting.title for setting, _ in rows] == [*(setting.title for setting in LEDGER), "a"]
    assert rows[-1][1] == ("1", "2", "3")


def test_the_values_of_a_setting_in_several_runs():
    runs = [
        make_run(model_config=shape(trainable_parameters=40_000_000)),
        make_run(model_config=shape()),
        make_run(model_config=shape(trainable_parameters=9_000_000)),
    ]
    trained = by_key("trainable_parameters")
    assert settings.texts(trained, runs) == ("40M", "all", "9M")
    assert settings.texts(trained, runs[1:2]) == (None,)
    assert settings.texts(by_key("sequence_length"), [make_run(length=None), runs[0]]) == (
        None,
        "2048 tokens",
    )
    by_title = {setting.title: values for setting, values in settings.rows_of(runs)}
    assert by_title["trainable parameters"] == ("40M", "all", "9M")
    assert by_title["sequence length"] == ("2048 tokens",) * 3
    assert (
        settings.read(Setting("t", "training_config.sequence_length", unit="tokens"), runs[0])
        == "2048 tokens"
    )
    assert (
        settings.read(Setting("t", "training_config.sequence_length"), make_run(length=None))
        is None
    )
    optimizer = next(setting for setting in LEDGER if setting.title == "optimizer")
    run = with_optimizer(name="AdamW", learning_rate=0.0, beta1=0.9, beta2=0.95)
    assert settings.read(optimizer, run) == "AdamW, beta1 0.9, beta2 0.95"
    assert settings.own_value(optimizer, run) == "AdamW"


def test_texts_of_values():
    assert [settings.text_of(value) for value in (None, "", 0.1 + 0.2, 3, True, "a\nb")] == [
        *(None, None, "0.3", "3", "True", "a b")
    ]
    assert settings.text_of("x" * 401) == "x" * 399 + "…"
    assert settings.text_of("x" * 400) == "x" * 400
    assert settings.joined("a", None, "", "b") == "a, b"
    assert settings.joined(None, "a", "b", by="/") == "a/b"
    assert settings.joined(None, "") is None


def test_two_runs_agree_in_equal_values():
    length, runs = by_key("sequence_length"), [make_run(length=each) for each in (2048, 4096, 2048)]
    assert settings.agree(length, runs[0], runs[2]) is True
    assert settings.agree(length, runs[0], runs[1]) is False
    assert (
        settings.agree(by_key("precision"), stating("bf16", "a"), stating("bf16", "b", "primus"))
        is True
    )


def test_equal_runs_are_not_taken_for_one():
    """Values of a run are cached; they belong to it, not to another one that is equal."""
    first, second = (settings._Same(make_run()) for _ in range(2))
    assert first == settings._Same(first.run)
    assert first != second
    assert first != first.run
