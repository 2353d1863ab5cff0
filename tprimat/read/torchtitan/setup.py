"""Setup values in a torchtitan log besides its step lines.

arguments training.seq_len.... 2048                               Primus
Running with args: {…}  /  Running with configs: {                torchtitan itself
Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]
Building device mesh with parallelism: pp=1, dp_shard=8, tp=1     newer
Trainer is initialized with local batch size 3, global batch size 24, …
Model llama3 8B size: 1,923,125,248 total parameters
CUDA capacity: AMD Instinct MI300X with 191.98GiB memory
"""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import re
from collections.abc import Callable
from typing import Any

from tprimat.notes import Note
from tprimat.read.parsing.records import LogContext
from tprimat.read.parsing.text import without_prefixes
from tprimat.read.parsing.values import (
    LoggedValue,
    LoggedValues,
    count,
    flat,
    number,
    precision_of,
    read_statements,
    statements,
)
from tprimat.results.fields import FieldValues
from tprimat.results.run import ModelConfig
from tprimat.settings.rows import names

ECHOED, DUMPED, COMPUTED = 1, 2, 3
"""Weights of statements: requested values, values of the configuration, values that the training
computed.
"""

ARGUMENTS = names("torchtitan") | {
    "training.max_context_length": "sequence_length",
    "training.mixed_precision_param": "parameter_type",
    "training.dtype": "dtype",
    "metrics.log_freq": "log_freq",
    "model.name": "model_name",
    "model.flavor": "model_flavor",
    "model.converters": "converters",
    "mx.recipe_name": "mx_recipe",
    "quantize.linear.mx.recipe_name": "mx_recipe",
}
"""Arguments that are read, and their names here."""

_ARGUMENT = re.compile(r"\barguments ([a-z0-9_]+(?:\.[a-z0-9_]+)+?)(?:\.{2,} ?|\.? )(.*)$")
_DUMP = re.compile(r"Running with (?:args|configs?|job config): *(\{.*)$")
_MESH = re.compile(r"Building \d+-D device mesh with \[([^\]]{0,400})\], \[([\d, ]{0,200})\]")
_MESH_NAMED = re.compile(r"[Bb]uild\w* device mesh with parallelism: (.*)$")
_NAMED_SIZE = re.compile(r"\b(pp|dp_replicate|dp_shard|cp|tp|ep|etp|dp)=(\d{1,6})\b")
_LABELS = {
    "local batch size": "micro_batch_size",
    "global batch size": "global_batch_size",
    "gradient accumulation steps": "gradient_accumulation_steps",
    "sequence length": "sequence_length",
    "maximum context length": "sequence_length",
    "total steps": "max_steps",
}
_CAPACITY = r"(?:CUDA|GPU|Device|XPU) capacity: "
_GIB = r"GiB memory"
_STATEMENTS = statements(
    (
        " size: ",
        str,
        COMPUTED,
        r"\bModel (?P<model>\S+(?: \S+)?) size: [\d,]{1,19} total parameters",
    ),
    (
        " size: ",
        count,
        COMPUTED,
        r"\bModel \S+(?: \S+)? size: (?P<parameters>[\d,]{1,19}) total parameters",
    ),
    (
        "Building ",
        str,
        DUMPED,
        r"\bBuilding (?P<model>\S+ \S+) with (?P<model_arguments>\w*(?:Args|Config)\w*\(.*|\{.*)$",
    ),
    (
        " capacity: ",
        str,
        COMPUTED,
        rf"{_CAPACITY}(?P<device_name>.{{1,100}}?) with \d{{1,6}}(?:\.\d{{1,6}})?{_GIB}",
    ),
    (
        " capacity: ",
        float,
        COMPUTED,
        rf"{_CAPACITY}.{{1,100}}? with (?P<device_gib>\d{{1,6}}(?:\.\d{{1,6}})?){_GIB}",
    ),
    (
        "Float8",
        lambda _: "fp8",
        COMPUTED,
        r"(?P<quantized>Float8.{0,200}scaled training active|Swapped to Float8)",
    ),
    ("MX", lambda _: "mxfp8", COMPUTED, r"(?P<quantized>Swapped to MX|MXFP8 training active)"),
    *(
        (
            label,
            int,
            COMPUTED,
            rf"(?:Trainer|Training starts).{{0,1000}}\b{label}:? (?P<{field}>\d{{1,15}})\b",
        )
        for label, field in _LABELS.items()
    ),
    # From 2026-08-20 on sizes are in tokens.
    (
        " tokens per ",
        int,
        COMPUTED,
        r"Trainer.{0,1000} (?P<tokens_per_rank>\d{1,15}) tokens per DP rank",
    ),
    (
        " tokens per ",
        int,
        COMPUTED,
        r"Trainer.{0,1000} (?P<tokens_per_step>\d{1,15}) tokens per train step",
    ),
)
_OWN = re.compile(
    r"\bModel \S+(?: \S+)? size: [\d,]{1,19} total parameters"
    r"|(?:Trainer|Training starts).{0,1000}(?:batch size | tokens per )"
)
_RANK = re.compile(r"\[rank-\d{1,6}/(\d{1,6})\]")
_STARTS = ("Starting job:", "Training starts at step")

SIGNS = (
    "arguments ", "Running with ", "evice mesh", " size: ", "Building ", " capacity: ", "batch size ", "Training ",
    "Starting job", "Float8", "MXFP8", "MXLinear", "FP8", " tokens per ",
)  # fmt: skip
"""A line without any of these states nothing."""

LONGEST_DUMP = 1 << 20
"""Characters of a configuration that is printed over many lines."""


class Setup:
    """Takes the lines between the step lines."""

    def __init__(self) -> None:
        self._own = False
        self.dump: list[str] = []
        self._dump_line = 0
        self._length = 0

    def feed(self, number: int, text: str, around: LogContext, *, has_steps: bool) -> bool:
        """Read a line; return whether it is torchtitan's own beyond doubt, or one of its
        arguments.
        """
        if self.dump:
            self._continue(without_prefixes(text), around)
        if not any(sign in text for sign in SIGNS):
            return False
        text = text[:20_000]
        bare = without_prefixes(text)
        if "arguments " in text and (argument := _ARGUMENT.search(text)):
            if called := ARGUMENTS.get(argument[1]):
                around.state(called, _value(argument[2]), number, bare, DUMPED)
            return argument[1].startswith(("training.", "parallelism."))
        if dump := _DUMP.search(text):
            self.dump[:] = []
            self._dump_line = number
            self._length = 0
            self._continue(dump[1], around)
            return False
        if mesh := _MESH.search(text):
            names = re.findall(r"[^\s,'\"]+", mesh[1])
            sizes = re.findall(r"\d+", mesh[2])
            if len(names) == len(sizes):
                _state_mesh(dict(zip(names, map(int, sizes), strict=True)), number, bare, around)
        elif named := _MESH_NAMED.search(text):
            _state_mesh(
                {name: int(size) for name, size in _NAMED_SIZE.findall(named[1])},
                number,
                bare,
                around,
            )
        read_statements(_STATEMENTS, text, number, around.stated, bare)
        if "Training completed" in text:
            around.marks["success"] = number
        around.begun = around.begun or any(start in text for start in _STARTS)
        is_own = _OWN.search(text) is not None
        self._own = self._own or is_own
        # Lines of another program in the same log have ranks too.
        if self._own and (around.begun or not has_steps) and (world := _RANK.search(text)):
            around.state("num_gpus", int(world[1]), number, bare, ECHOED)
        return is_own

    def _continue(self, text: str, around: LogContext) -> None:
        """Read a line of a configuration that is printed as JSON or as a Python dictionary."""
        self.dump.append(text)
        self._length += len(text)
        whole = "\n".join(self.dump) if text.rstrip().endswith("}") else ""
        if self._length > LONGEST_DUMP or len(self.dump) > 5000:
            self.dump.clear()
        elif whole and whole.count("{") == whole.count("}"):
            self.dump.clear()
            config = _value(whole)
            for name, value in flat(config) if isinstance(config, dict) else ():
                if called := ARGUMENTS.get(name):
                    around.state(called, value, self._dump_line, f"{name}: {value}", DUMPED)


def _state_mesh(sizes: dict[str, int], number: int, text: str, around: LogContext) -> None:
    """State how the work is spread, from the sizes of a mesh's dimensions, of which those of 1 may
    be missing.
    """
    if not sizes:
        return
    replicas = ("dp_replicate", "dp_shard", "dp", "dp_shard_mod_ep", "dp_shard_in_ep")
    fields = {
        "tensor_model_parallel_size": sizes.get("tp", 1),
        "pipeline_model_parallel_size": sizes.get("pp", 1),
        "context_parallel_size": sizes.get("cp", 1),
        # May be split for experts.
        "data_parallel_size": math.prod(sizes.get(name, 1) for name in replicas),
    }
    for field, value in {**fields, "num_gpus": math.prod(fields.values())}.items():
        around.state(field, value, number, text, COMPUTED)


def _value(text: str) -> Any:
    """Return a value in JSON or Python; the text itself if it is neither."""
    text = text.strip()
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return text


def complete(stated: LoggedValues) -> None:
    """Add by a result's fields what follows from the statements."""

    def derive(field: str, value: Any, origin: LoggedValue | None) -> None:
        if value and origin:
            stated.setdefault(field, LoggedValue(value, origin.line, origin.text))

    per_rank = stated.get("tokens_per_rank")
    length = stated.count("sequence_length")
    # A pipeline takes several micro-batches at once.
    is_whole = stated.count("pipeline_model_parallel_size") in (None, 1)
    if per_rank and length and per_rank.value % length == 0 and is_whole:
        micro = dataclasses.replace(per_rank, value=per_rank.value // length)
        stated.setdefault("micro_batch_size", micro)
    if stated.word("recomputation") not in ("none", "selective", "full"):
        stated.pop("recomputation", None)
    products, detail = precision(stated)
    origins = map(stated.get, ("converters", "parameter_type", "quantized", "dtype"))
    origin = next(filter(None, origins), None)
    derive("precision", products, origin)
    derive("precision_detail", detail, origin)
    if device := stated.get("device_name"):
        if "AMD" in device.value:
            derive("software_stack", "rocm", device)
        elif "NVIDIA" in device.value:
            derive("software_stack", "cuda", device)
    if (name := stated.get("model_name")) and name.value:
        flavor = stated.word("model_flavor")
        derive("model", f"{name.value} {flavor}" if flavor else str(name.value), name)


def precision(stated: LoggedValues) -> tuple[str | None, str | None]:
    """Return the precision of the matrix products, and the log's own name for it."""
    parameters = stated.value("parameter_type") or stated.value("dtype")
    words = f"parameters {parameters}" if parameters else None
    converters = stated.value("converters")
    if isinstance(converters, str):
        converters = [converters]
    for converter in converters if isinstance(converters, (list, tuple)) else ():
        kind = str(converter).rsplit(".", 1)[-1]
        if kind.startswith("mx") or "_mx" in kind:
            recipe = str(stated.value("mx_recipe") or "mxfp8")
            name = "mxfp4" if "fp4" in recipe else "mxfp8"
            return name, f"converter {converter}, recipe {recipe}; {words}"
        if "float8" in kind or "fp8" in kind:
            return "fp8", f"converter {converter}; {words}"
    return stated.word("quantized") or precision_of(parameters), words


def model_config(stated: LoggedValues) -> tuple[ModelConfig, list[Note]]:
    """Return the model's shape, with a warning for what is omitted on purpose."""
    text = stated.word("model_arguments") or ""
    parameters = stated.count("parameters")
    if not text:
        return ModelConfig(num_parameters=parameters), []

    pairs = re.findall(r"\b(\w+)['\"]?\s*[=:]\s*['\"]?([-\w.+]+)", text)
    # The first of several parts with one name counts.
    arguments = dict(reversed(pairs))

    def size(name: str) -> int | None:
        value = arguments.get(name, "")
        if re.fullmatch(r"\d{1,12}", value):
            return int(value) or None
        return None

    warnings = []
    heads = size("n_heads")
    width = size("hidden_dim") or size("inter_dim")
    dim = size("dim")
    multiple = size("multiple_of")
    if not width and (stated.word("model") or "").lower().startswith("llama3") and dim and multiple:
        width = _llama_width(dim, multiple, arguments.get("ffn_dim_multiplier", "None"))
    fields: FieldValues = {}
    if size("num_experts") and arguments.get("moe_enabled") != "False":
        fields = _experts(size)
        if fields["expert_ffn_hidden_size"] is None:
            warnings.append(Note("widths-of-experts-unstated"))
            width = None
    if latent := size("kv_lora_rank"):
        fields["head_dim"] = size("qk_nope_head_dim")
        fields["key_value_lora_rank"] = latent
        fields["rope_head_dim"] = size("qk_rope_head_dim")
        fields["value_head_dim"] = size("v_head_dim")
    else:
        fields["head_dim"] = size("head_dim")
        fields["num_query_groups"] = size("n_kv_heads") or heads
    tied = arguments.get("enable_weight_tying")
    shape = ModelConfig(
        num_layers=size("n_layers"),
        hidden_size=dim,
        num_attention_heads=heads,
        ffn_hidden_size=width,
        vocab_size=size("vocab_size"),
        tie_word_embeddings=tied == "True" if tied else None,
        query_lora_rank=size("q_lora_rank"),
        num_parameters=parameters,
        source="the model arguments that the log prints",
        **fields,
    )
    return shape, warnings


def _experts(size: Callable[[str], int | None]) -> FieldValues:
    """Return the fields of a model with experts, from its arguments."""
    width = size("moe_inter_dim")
    shared = size("num_shared_experts")
    return {
        "num_experts": size("num_experts"),
        "experts_per_token": size("top_k"),
        "expert_ffn_hidden_size": width,
        "shared_expert_ffn_hidden_size": shared * width if shared and width else None,
        "num_dense_layers": size("n_dense_layers") or 0,
    }


def _llama_width(dim: int, multiple: int, scale: str) -> int | None:
    """Return Llama's width: two thirds of four times the model's, scaled, and up to the next
    multiple.
    """
    factor = 1.0 if scale == "None" else number(scale)
    if factor is None or not 0 < factor < 1000:
        return None
    return math.ceil(int(factor * int(8 * dim / 3)) / multiple) * multiple
