"""Setup values in a Megatron log besides its iteration lines.

The argument dump has the highest weight: it has the values of the training after the configuration
file, the command line and the patches.

        seq_length ...................................... 4096         Megatron's arguments.py
        seq_length                          : 4096 (int)               Primus' core runtime
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from tprimat.catalog.layers import KINDS
from tprimat.notes import Note
from tprimat.read.parsing.text import without_prefixes
from tprimat.read.parsing.values import (
    LoggedValue,
    LoggedValues,
    read_statements,
    state,
    statements,
)
from tprimat.results.fields import LARGEST_COUNT, FieldValues
from tprimat.results.run import ModelConfig
from tprimat.settings.rows import SHAPE, names

NAMED_AFTER, ECHOED, COMPUTED, DUMPED = 0, 1, 2, 3
"""Weights of statements: only a name that resembles, asked for, worked out by the training, dumped.
"""

# fmt: off
TURBO = (
    "enable_primus_turbo", "use_turbo_attention", "use_turbo_gemm", "use_turbo_parallel_linear",
    "use_turbo_grouped_gemm", "use_turbo_grouped_mlp", "use_turbo_rms_norm", "use_turbo_fused_act_with_probs",
    "use_turbo_deepep",
)
"""Switches of Primus for AMD's own kernels, the first for all of them."""

SWITCHES = (
    "use_distributed_optimizer", "overlap_grad_reduce", "overlap_param_gather", "cross_entropy_loss_fusion",
    "manual_gc", "create_attention_mask_in_dataloader", "add_bias_linear", "add_qkv_bias", "attention_dropout",
    "hidden_dropout", "normalization", "position_embedding_type", "norm_epsilon", "rotary_base", "tokenizer_type",
)
"""Arguments of Megatron that cost time or belong to the model, and that a launch of ours sets."""

_NAMES = names("megatron", "megatron_log")
FIELDS = {name: field for name, field in _NAMES.items() if field not in SHAPE} | {
    "log_interval": "logging_steps",
    "hostname": "hostname",
}
"""Statements whose value is a field of a result, and that field; of the shape model_config() reads
all.
"""

ARGUMENTS = frozenset({
    *TURBO, *SWITCHES, *_NAMES,
    "rampup_batch_size", "decoder_seq_length", "log_interval", "bf16", "fp16", "fp8", "fp8_recipe", "fp4",
    "fp4_recipe", "params_dtype", "recompute_granularity", "recompute_method", "recompute_num_layers",
    "recompute_activations", "checkpoint_activations", "min_lr", "mock_data", "data_path", "group_query_attention",
    "padded_vocab_size", "window_size", "window_attn_skip_freq", "swiglu", "untie_embeddings_and_output_weights",
    "num_experts", "moe_router_topk", "moe_ffn_hidden_size", "moe_layer_freq", "moe_shared_expert_intermediate_size",
    "multi_latent_attention", "q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim",
    "moe_latent_size", "mtp_num_layers", "attention_output_gate", "mamba_num_heads", "mamba_head_dim",
    "mamba_state_dim", "mamba_num_groups",
    "is_hybrid_model", "hybrid_override_pattern", "hybrid_layer_pattern", "experimental_attention_variant",
    "compress_ratios", "hc_mult", "model", "exp_name", "save", "tokenizer_model", "use_torch_fsdp2",
    "use_megatron_fsdp",
})
# fmt: on
"""Arguments that are read; all others of the several hundred are skipped."""

# Both are indented: "building GPT model ..." is no argument.
_DOTTED = re.compile(r"(?:^\s*|\s\s|: )([a-z][a-z0-9_]*) \.{2,} (\S.*)$")
TYPES = ("int", "float", "str", "bool", "NoneType", "list", "tuple")
_TYPED = re.compile(
    rf"(?:^\s*|\s\s|: )([a-z][a-z0-9_]*)\s+: (.{{0,2000}}) \((?:{'|'.join(TYPES)})\)\s*$"
)
_STATEMENTS = statements(
    ("world", int, COMPUTED, r"using world size: *(?P<world_size>\d{1,15})"),
    ("[Primus:Env]", int, ECHOED, r"\[Primus:Env\] rank=\d+, world_size=(?P<world_size>\d{1,15})"),
    ("-world_size", int, ECHOED, r"-world_size: +(?P<world_size>\d{1,15})\s*$"),
    # The tokenizer pads after the dump was printed, which still has None or the unpadded size.
    (
        "padded vocab",
        int,
        DUMPED + 1,
        (
            r"padded vocab \(size: \d+\) with \d+ dummy tokens \(new size:"
            r" (?P<padded_vocab_size>\d{1,15})\)"
        ),
    ),
    (
        "billions",
        float,
        COMPUTED,
        r"Total number of parameters in billions: *(?P<billions>\d{1,6}(?:\.\d{1,9})?)",
    ),
    (
        "seq_length=",
        int,
        COMPUTED,
        r"FLOPs breakdown -- .{0,1000}\bseq_length=(?P<seq_length>\d{1,15})",
    ),
    ("ml", str, ECHOED, r"(?:--config[ =]|\bEXP(?: is set to)? ?[:=] ?)(?P<config>\S+?\.ya?ml)\b"),
    (
        "backend_version",
        str,
        ECHOED,
        r"\bbackend=megatron,.{0,1000}\bbackend_version=(?P<backend_version>[\w.+-]+)",
    ),
    ("[NODE-", str, ECHOED, r"\[NODE-[\d?]+\((?P<hostname>[^)]{1,255})\)\]"),
)
_SIZES = re.compile(
    r"(?<!encoder-)(data|context|tensor-model|pipeline-model|expert-model)-parallel[- ]size:"
    r" *(\d{1,15})"
)
_OF_RANK = re.compile(
    r"number of parameters on \(tensor, pipeline\) model parallel rank \((\d{1,6}), (\d{1,6})\):"
    r" *(\d{1,13})"
)

SIGNS = (
    " ..", "world", "padded vocab", "number of parameters", "--config", "EXP", "seq_length=", "[NODE-",
    "backend_version",
)  # fmt: skip
"""A line without any of these, and without a type at its end, states nothing."""


def read_setup(number: int, text: str, stated: LoggedValues) -> None:
    """Add the statements of a line on the setup; most lines have none."""
    if not text.endswith(")") and not any(sign in text for sign in SIGNS):
        return
    if "[config.py:" in text:
        # DeepSpeed's dump of its own configuration, whose world_size is the data-parallel one.
        return
    quote = " ".join(without_prefixes(text).split())[:300]
    if dumped := _DOTTED.search(text) or _TYPED.search(text):
        if dumped[1] in ARGUMENTS:
            stated.add(dumped[1], LoggedValue(_value(dumped[2]), number, quote, DUMPED))
        return
    read_statements(_STATEMENTS, text, number, stated, quote)
    for kind, size in _SIZES.findall(text) if "using world size:" in text else ():
        state(stated, f"{kind.replace('-', '_')}_parallel_size", int(size), quote, number, COMPUTED)
    for tensor, pipeline, parameters in _OF_RANK.findall(text):
        name = f"parameters of rank {int(tensor)}, {int(pipeline)}"
        state(stated, name, int(parameters), quote, number, COMPUTED)


def _value(text: str) -> Any:
    text = text.strip().strip("'\"")
    words = {"None": None, "null": None, "True": True, "False": False, "true": True, "false": False}
    if text in words:
        return words[text]
    try:
        if re.search(r"[.eEnN]", text):
            return float(text)
        return int(text)
    except ValueError:
        return text


def switches(stated: LoggedValues) -> FieldValues:
    """Return the settings that have no field in a result, as stated: Megatron's, and Primus' for
    AMD's own kernels.
    """
    settings: FieldValues = {}
    for name in (*TURBO, *SWITCHES):
        value = stated.value(name)
        if isinstance(value, bool):
            settings[name] = value
        elif name in SWITCHES:
            value = stated.word(name) or stated.number(name)
            if value is not None:
                settings[name] = value
    return settings


def precision(stated: LoggedValues) -> tuple[str | None, str | None]:
    """Return the precision of the matrix products, and the log's own name for it."""
    parameters = str(stated.word("params_dtype") or "").removeprefix("torch.")
    of_parameters = [f"parameters {parameters}"] if parameters else []
    for width in ("fp4", "fp8"):
        form = stated.value(width)
        recipe = stated.word(f"{width}_recipe")
        if form in (None, False, "null", ""):
            continue
        words = [width if form is True else f"{width} {form}"]
        if recipe:
            words.append(f"recipe {recipe}")
        block = recipe if recipe and recipe.startswith(("mxfp", "nvfp")) else width
        return block, ", ".join([*words, *of_parameters])
    detail = ", ".join(of_parameters) or None
    for name in ("bf16", "fp16"):
        if stated.value(name) is True:
            return name, detail
    if stated.value("bf16") is False and stated.value("fp16") is False:
        return "fp32", detail
    return None, None


def recomputation(stated: LoggedValues) -> str | None:
    """Return "none", "selective" or "full"; None if the log doesn't state it."""
    granularity = stated.value("recompute_granularity")
    if stated.value("checkpoint_activations") is True or granularity == "full":
        # The block method recomputes as many layers as are asked for: none when that is 0.
        blocks = stated.value("recompute_method") == "block"
        if blocks and stated.value("recompute_num_layers") == 0:
            return "none"
        return "full"
    if stated.value("recompute_activations") is True or granularity == "selective":
        return "selective"
    if "recompute_granularity" in stated or "checkpoint_activations" in stated:
        return "none"
    return None


def fields_of(stated: LoggedValues) -> LoggedValues:
    """Return the values in the arguments by a result's fields, except the model's shape."""
    fields = LoggedValues()
    for name, statement in stated.items():
        if name in FIELDS:
            fields[FIELDS[name]] = statement

    def derive(name: str, value: str | None, *arguments: str) -> None:
        origins = [stated[argument] for argument in arguments if argument in stated]
        deciding = [origin for origin in origins if origin.value not in (None, False, "")]
        if value and origins:
            origin = (deciding or origins)[0]
            fields[name] = LoggedValue(value, origin.line, origin.text, origin.weight)

    if stated.count("decoder_seq_length"):
        # T5's and the multimodal scripts' alone: seq_length is that of the encoder there, of an
        # image's patches.
        fields["sequence_length"] = stated["decoder_seq_length"]
    products, detail = precision(stated)
    derive("precision", products, "fp4", "fp8", "bf16", "fp16")
    derive("precision_detail", detail, "params_dtype", "fp4", "fp8", "bf16", "fp16")
    arguments = ("checkpoint_activations", "recompute_granularity", "recompute_activations")
    derive("recomputation", recomputation(stated), *arguments)
    if stated.value("mock_data") is True:
        derive("data", "mock", "mock_data")
    else:
        derive("data", stated.word("data_path"), "data_path")
    if called := model_name(stated):
        fields["model"] = called
    return fields


def model_config(stated: LoggedValues) -> tuple[ModelConfig, list[Note]]:
    """Return the model's shape, with a warning for what is omitted on purpose."""
    heads = stated.count("num_attention_heads")
    layers = stated.count("num_layers")
    count, rounded = _parameters(stated)
    if layers is None and heads is None:
        return ModelConfig(num_parameters=count, source=rounded), []
    warnings = []
    experts = stated.count("num_experts")
    feed_forward = stated.count("ffn_hidden_size")
    expert_width = dense_layers = None
    if experts:
        expert_width = stated.count("moe_ffn_hidden_size") or feed_forward
        dense_layers = _dense_layers(stated.value("moe_layer_freq"), layers)
    window, unbounded = _windows(stated, layers)
    other = _of_another_kind(stated)
    if window and unbounded is None:
        other = other or "windows in an unknown order of layers (window_attn_skip_freq)"
    if other:
        warnings.append(Note("widths-ignored", {"other": other}))
        feed_forward = expert_width = None
    latent = stated.value("multi_latent_attention") is True
    pattern, predicted = _pattern(stated)
    untied = _switch(stated, "untie_embeddings_and_output_weights")
    names = dict(_LATENT if latent else _PLAIN)
    if experts:
        names |= _EXPERTS
    if pattern:
        names |= _STATES
    return (
        ModelConfig(
            num_layers=layers,
            num_attention_heads=heads,
            num_query_groups=_groups(stated),
            ffn_hidden_size=feed_forward,
            vocab_size=stated.count("padded_vocab_size") or stated.count("vocab_size"),
            sliding_window=window,
            full_attention_layers=unbounded,
            tie_word_embeddings=None if untied is None else not untied,
            # An old dump without the argument is of a version that had no gate.
            gated_ffn=stated.value("swiglu") is True if layers else None,
            expert_ffn_hidden_size=expert_width,
            num_dense_layers=dense_layers,
            layer_pattern=pattern,
            attention_output_gate=_switch(stated, "attention_output_gate"),
            num_mtp_layers=predicted,
            num_parameters=count,
            source=_source(stated, rounded),
            **{field: stated.count(name) for field, name in names.items()},
        ),
        warnings,
    )


def _groups(stated: LoggedValues) -> int | None:
    """Return the number of groups of attention heads that share keys and values; None for latent
    attention, which has none.
    """
    if stated.value("multi_latent_attention") is True:
        return None
    if stated.value("group_query_attention") is False:
        return stated.count("num_attention_heads")
    return stated.count("num_query_groups")


def _switch(stated: LoggedValues, name: str) -> bool | None:
    """Return whether a switch is on; None if that isn't stated."""
    value = stated.value(name)
    return value if isinstance(value, bool) else None


def _source(stated: LoggedValues, rounded: str | None) -> str:
    """Return the source of the shape, and notes on its doubtful values."""
    notes = ["the log's argument dump"]
    if stated.count("padded_vocab_size"):
        notes.append("vocab_size as padded for the training")
    elif stated.count("vocab_size"):
        notes.append("vocab_size before padding")
    if rounded:
        notes.append(rounded)
    return "; ".join(notes)


_PLAIN = {"hidden_size": "hidden_size", "head_dim": "kv_channels"}
_LATENT = {
    "hidden_size": "hidden_size",
    "head_dim": "qk_head_dim",
    "query_lora_rank": "q_lora_rank",
    "key_value_lora_rank": "kv_lora_rank",
    "rope_head_dim": "qk_pos_emb_head_dim",
    "value_head_dim": "v_head_dim",
}
_STATES = {
    "state_heads": "mamba_num_heads",
    "state_head_dim": "mamba_head_dim",
    "state_size": "mamba_state_dim",
    "state_groups": "mamba_num_groups",
}
_EXPERTS = {
    "num_experts": "num_experts",
    "experts_per_token": "moe_router_topk",
    "shared_expert_ffn_hidden_size": "moe_shared_expert_intermediate_size",
    "expert_latent_size": "moe_latent_size",
}
"""Fields of a shape, and their arguments."""


def _of_another_kind(stated: LoggedValues) -> str | None:
    """Return what makes the FLOPs of a model unknown; or None."""
    hybrid = stated.value("is_hybrid_model") is True or any(map(stated.word, _PATTERNS))
    if hybrid and _pattern(stated)[0] is None:
        return "layers of several kinds (hybrid)"
    if own := stated.count("decoder_seq_length"):
        encoder = (
            f"seq_length {stated.value('seq_length')} is the encoder's, decoder_seq_length {own}"
            " counts"
        )
        return f"an encoder of unknown layers ({encoder})"
    for name in ("experimental_attention_variant", "compress_ratios", "hc_mult"):
        if stated.value(name) not in (None, False):
            return f"a special attention ({name})"
    dense_layers = _dense_layers(stated.value("moe_layer_freq"), stated.count("num_layers"))
    if stated.count("num_experts") and dense_layers is None:
        return "expert layers in an unknown order (moe_layer_freq)"
    return None


_PATTERNS = ("hybrid_override_pattern", "hybrid_layer_pattern")


def _pattern(stated: LoggedValues) -> tuple[str | None, int | None]:
    """Return the layers by kind, if all kinds are known, and how many predict further tokens.

    A pattern has a bar at each pipeline stage, and after a slash the layers of each further token.
    """
    text = next(filter(None, map(stated.word, _PATTERNS)), "")
    main, *further = text.replace("|", "").split("/")
    is_known = bool(main) and set(main) <= KINDS
    return main if is_known else None, len(further) or stated.count("mtp_num_layers")


def _dense_layers(frequency: Any, layers: int | None) -> int | None:
    """Return the number of layers without experts, from moe_layer_freq: a number, or a list or
    product of lists.
    """
    if layers is None or isinstance(frequency, bool):
        return None
    if frequency is None:
        return 0
    if isinstance(frequency, int):
        if frequency >= 1:
            return layers - -(-layers // frequency)
        return None
    return _zeros(frequency)


def _windows(stated: LoggedValues, layers: int | None) -> tuple[int | None, int | None]:
    """Return the attention window, and how many layers see the whole sequence all the same; None if
    unknown.
    """
    match = re.match(r"\(?(\d{1,15})", str(stated.value("window_size") or ""))
    window = int(match[1]) if match else 0
    if not window or layers is None:
        return None, None
    skipped = stated.value("window_attn_skip_freq")
    if skipped is None:
        return window, 0
    if type(skipped) is int:
        # One of every `skipped` layers has no window.
        return window, layers // skipped if skipped >= 1 else None
    return window, _zeros(skipped)


def _zeros(pattern: Any) -> int | None:
    """Return the number of zeros in a list, or in a sum of products of lists, with an entry per
    layer.
    """
    text = str(pattern).replace(" ", "")
    if re.fullmatch(r"\[[01](?:,[01])*\]", text):
        return text.count("0")
    if re.fullmatch(r"\(?\[[01]\]\*\d{1,4}(?:\+\[[01]\]\*\d{1,4})*\)?", text):
        return sum(map(int, re.findall(r"\[0\]\*(\d+)", text)))
    return None


def _parameters(stated: LoggedValues) -> tuple[int | None, str | None]:
    """Return the parameters of the whole model, and a note where the number is rounded."""
    billions = stated.number("billions")
    by_rank = {}
    for name, item in stated.items():
        if name.startswith("parameters of rank"):
            by_rank[name] = item.value
    tensor, stages, experts = (
        stated.count(f"{kind}_model_parallel_size") for kind in ("tensor", "pipeline", "expert")
    )
    sharded = stated.value("use_torch_fsdp2") is True or stated.value("use_megatron_fsdp") is True
    # A rank of tensor or expert parallelism holds a part of each layer, one of the pipeline whole
    # layers: only these add up.
    if tensor == 1 and experts == 1 and not sharded and stages and len(by_rank) == stages:
        total = sum(by_rank.values())
        if not 1 <= total <= LARGEST_COUNT:
            return None, None
        if billions is None or abs(total / 1e9 - billions) <= 0.02 * billions + 0.01:
            return total, None
    if billions:
        return round(billions * 1e9), f"num_parameters rounded, as printed ({billions:g} billion)"
    return None, None


def model_name(stated: LoggedValues) -> LoggedValue | None:
    """Return the log's name for the model, with the line that states it."""
    for name in ("model", "config", "exp_name", "save", "tokenizer_model"):
        statement = stated.get(name)
        word = stated.word(name)
        if statement is None or word is None:
            continue
        path = PurePosixPath(word)
        if name == "save":
            # …/<experiment>/checkpoints
            path = path.parent if path.name == "checkpoints" else path
        called = re.sub(r"\.ya?ml$", "", path.name)
        called = re.sub(r"[-_](?:pretrain|posttrain|sft)$", "", called)
        called = re.sub(r"[-_](?:BF16|FP16|FP8|MXFP8|MXFP4|bf16|fp16|fp8)$", "", called)
        if re.search(r"[A-Za-z]", called):
            # An experiment's directory or a tokenizer is called as somebody liked.
            weight = statement.weight if name in ("model", "config") else NAMED_AFTER
            return LoggedValue(called, statement.line, statement.text, weight)
    return None
