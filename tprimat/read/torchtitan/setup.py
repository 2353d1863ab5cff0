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
import json
import math
import re
from typing import Any

from tprimat.read.parsing.records import LogContext
from tprimat.read.parsing.text import without_prefixes
from tprimat.read.parsing.values import LoggedValue, LoggedValues
from tprimat.results.run import ModelConfig

ECHOED, DUMPED, COMPUTED = 1, 2, 3
"""Weights of statements: what was asked for, what the training was configured with, what it worked out."""

# fmt: off
ARGUMENTS: dict[str, str] = {
    # The later name first; what stands after the colon is older.
    "training.local_batch_size": "micro_batch_size", "training.batch_size": "micro_batch_size",
    "training.global_batch_size": "global_batch_size",
    "training.seq_len": "sequence_length",
    "training.steps": "max_steps",
    "training.seed": "seed",
    "debug.seed": "seed",
    "training.max_norm": "gradient_clipping", "training.dataset": "data", "dataloader.dataset": "data",
    "training.mixed_precision_param": "parameter_type", "training.dtype": "dtype",
    "metrics.log_freq": "log_freq", "model.name": "model_name", "model.flavor": "model_flavor",
    "model.converters": "converters", "mx.recipe_name": "mx_recipe",
    "quantize.linear.mx.recipe_name": "mx_recipe",
    "activation_checkpoint.mode": "recomputation",
    "optimizer.name": "optimizer",
    "optimizer.lr": "peak_learning_rate",
    "optimizer.beta1": "beta1",
    "optimizer.beta2": "beta2",
    "optimizer.eps": "epsilon", "optimizer.weight_decay": "weight_decay",
    "lr_scheduler.decay_type": "schedule",
    "parallelism.tensor_parallel_degree": "tensor_model_parallel_size",
    "training.tensor_parallel_degree": "tensor_model_parallel_size",
    "parallelism.pipeline_parallel_degree": "pipeline_model_parallel_size",
    "experimental.pipeline_parallel_degree": "pipeline_model_parallel_size",
    "parallelism.context_parallel_degree": "context_parallel_size",
    "experimental.context_parallel_degree": "context_parallel_size",
    "parallelism.expert_parallel_degree": "expert_model_parallel_size",
    "parallelism.data_parallel_replicate_degree": "dp_replicate",
    "training.data_parallel_replicate_degree": "dp_replicate",
    "parallelism.data_parallel_shard_degree": "dp_shard", "training.data_parallel_shard_degree": "dp_shard",
    "training.data_parallel_degree": "dp_shard",
}
# fmt: on
"""Arguments that are read, and what they are called here."""

_ARGUMENT = re.compile(r"\barguments ([a-z0-9_]+(?:\.[a-z0-9_]+)+?)(?:\.{2,} ?|\.? )(.*)$")
_DUMP = re.compile(r"Running with (?:args|configs?|job config): *(\{.*)$")
_MESH = re.compile(r"Building \d+-D device mesh with \[([^\]]*)\], \[([\d, ]*)\]")
_MESH_NAMED = re.compile(r"[Bb]uild\w* device mesh with parallelism: (.*)$")
_NAMED_SIZE = re.compile(r"\b(pp|dp_replicate|dp_shard|cp|tp|ep|etp|dp)=(\d{1,6})\b")
_MODEL = re.compile(r"\bModel (\S+(?: \S+)?) size: ([\d,]{1,19}) total parameters")
_BUILDING = re.compile(r"\bBuilding (\S+) (\S+) with (\w*(?:Args|Config)\w*\(.*|\{.*)$")
_CAPACITY = re.compile(r"(?:CUDA|GPU|Device|XPU) capacity: (.+?) with (\d{1,6}(?:\.\d{1,6})?)GiB memory")
_LABELLED = re.compile(
    r"(local batch size|global batch size|gradient accumulation steps|sequence length|total steps):? (\d{1,15})\b"
)
_LABELS = {
    "local batch size": "micro_batch_size",
    "global batch size": "global_batch_size",
    "gradient accumulation steps": "gradient_accumulation_steps",
    "sequence length": "sequence_length",
    "total steps": "max_steps",
}
_RANK = re.compile(r"\[rank-\d{1,6}/(\d{1,6})\]")
_STARTS = ("Starting job:", "Training starts at step")

SIGNS = (
    "arguments ", "Running with ", "evice mesh", " size: ", "Building ", " capacity: ", "batch size ", "Training ",
    "Starting job", "Float8", "MXFP8", "MXLinear", "FP8",
)  # fmt: skip
"""A line without any of these states nothing."""

LONGEST_DUMP = 1 << 20
"""Characters of a configuration that is printed over many lines."""


class Setup:
    """Takes the lines between the step lines.

    Attributes:
        own: whether a line was torchtitan's own beyond doubt.
        stepped: whether a step line was seen.
    """

    def __init__(self) -> None:
        self.own = False
        self.stepped = False
        self._dump: list[str] | None = None
        self._dump_line = 0
        self._length = 0

    def feed(self, number: int, text: str, around: LogContext) -> bool:
        """Read a line; return whether it is certainly torchtitan's own."""
        if self._dump is not None:
            self._continue(text, around)
        for sign in SIGNS:
            if sign in text:
                break
        else:
            return False
        text = text[:20_000]
        bare = without_prefixes(text)

        def state(name: str, value: Any, weight: int) -> None:
            around.state(name, value, number, bare, weight)

        if "arguments " in text and (argument := _ARGUMENT.search(text)):
            if called := ARGUMENTS.get(argument[1]):
                state(called, _value(argument[2]), DUMPED)
            return argument[1].startswith(("training.", "parallelism."))
        if dump := _DUMP.search(text):
            self._dump, self._dump_line, self._length = [], number, 0
            self._continue(dump[1], around)
            return False
        own = False
        if mesh := _MESH.search(text):
            names = [name.strip(" '\"") for name in mesh[1].split(",")]
            sizes = [int(size) for size in mesh[2].split(",") if size.strip()]
            if len(names) == len(sizes):
                _state_mesh(dict(zip(names, sizes, strict=True)), state)
        elif named := _MESH_NAMED.search(text):
            _state_mesh({name: int(size) for name, size in _NAMED_SIZE.findall(named[1])}, state)
        if model := _MODEL.search(text):
            state("model", model[1], COMPUTED)
            state("parameters", int(model[2].replace(",", "")), COMPUTED)
            own = True
        if building := _BUILDING.search(text):
            state("model", f"{building[1]} {building[2]}", DUMPED)
            state("model_arguments", building[3], DUMPED)
        if capacity := _CAPACITY.search(text):
            state("device_name", capacity[1], COMPUTED)
            state("device_gib", float(capacity[2]), COMPUTED)
        if "batch size " in text and ("Trainer" in text or "Training starts" in text):
            for label, figure in _LABELLED.findall(text):
                state(_LABELS[label], int(figure), COMPUTED)
            own = True
        if "Float8" in text and ("scaled training active" in text or "Swapped to Float8" in text):
            state("quantised", "fp8", COMPUTED)
        elif "Swapped to MX" in text or "MXFP8 training active" in text:
            state("quantised", "mxfp8", COMPUTED)
        if "Training completed" in text:
            around.marks["success"] = number
        if any(start in text for start in _STARTS):
            around.begun = True
        self.own = self.own or own
        # Lines of another program in the same log have ranks too.
        if self.own and (not self.stepped or around.begun) and (world := _RANK.search(text)):
            state("num_gpus", int(world[1]), ECHOED)
        return own

    def _continue(self, text: str, around: LogContext) -> None:
        """Read a further line of a configuration that is printed as JSON or as a Python dictionary."""
        assert self._dump is not None
        self._dump.append(without_prefixes(text) if self._dump else text)
        self._length += len(text)
        whole = "\n".join(self._dump)
        if self._length > LONGEST_DUMP or len(self._dump) > 5000:
            self._dump = None
        elif whole.rstrip().endswith("}") and whole.count("{") == whole.count("}"):
            self._dump = None
            for name, value in _flat(_parsed(whole)):
                if called := ARGUMENTS.get(name):
                    around.state(called, value, self._dump_line, f"{name}: {value}", DUMPED)


def _state_mesh(sizes: dict[str, int], state: Any) -> None:
    if not sizes:
        return
    # A mesh names the dimensions that are larger than 1; data parallelism may be split for experts.
    split = sizes.get("dp_shard_mod_ep", 1) * sizes.get("dp_shard_in_ep", 1)
    replicas = sizes.get("dp_replicate", 1) * sizes.get("dp_shard", 1) * sizes.get("dp", 1) * split
    for name, kind in (("tp", "tensor_model"), ("pp", "pipeline_model"), ("cp", "context")):
        state(f"{kind}_parallel_size", sizes.get(name, 1), COMPUTED)
    state("num_gpus", replicas * sizes.get("tp", 1) * sizes.get("pp", 1) * sizes.get("cp", 1), COMPUTED)
    state("data_parallel_size", replicas, COMPUTED)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _flat(tree: Any, before: str = "") -> list[tuple[str, Any]]:
    if not isinstance(tree, dict):
        return []
    found: list[tuple[str, Any]] = []
    for name, value in tree.items():
        path = f"{before}{name}"
        found += _flat(value, f"{path}.") if isinstance(value, dict) and path.count(".") < 4 else [(path, value)]
    return found


def _value(text: str) -> Any:
    text = text.strip()
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text


def complete(stated: LoggedValues) -> None:
    """Add by a result's fields what follows from the statements."""
    known, detail = precision(stated)
    origin = stated.get("converters") or stated.get("parameter_type") or stated.get("quantised") or stated.get("dtype")
    name, flavor = stated.get("model_name"), stated.word("model_flavor")
    device = stated.get("device_name")
    stack = device and ("rocm" if "AMD" in device.value else "cuda" if "NVIDIA" in device.value else None)
    if stated.word("recomputation") not in ("none", "selective", "full"):
        stated.pop("recomputation", None)
    for field, value, source in (
        ("precision", known, origin),
        ("precision_detail", detail, origin),
        ("software_stack", stack, device),
        ("model", name and name.value and (f"{name.value} {flavor}" if flavor else str(name.value)), name),
    ):
        if value and source:
            stated.setdefault(field, LoggedValue(value, source.line, source.text))


def precision(stated: LoggedValues) -> tuple[str | None, str | None]:
    """Return the precision of the matrix products, and the log's own name for it."""
    parameters = stated.value("parameter_type") or stated.value("dtype")
    converters = [str(each) for each in _list(stated.value("converters"))]
    words = f"parameters {parameters}" if parameters else None
    quantised = stated.word("quantised")
    for converter in converters:
        kind = converter.rsplit(".", 1)[-1]
        if kind.startswith("mx") or "_mx" in kind:
            recipe = str(stated.value("mx_recipe") or "mxfp8")
            return ("mxfp4" if "fp4" in recipe else "mxfp8"), f"converter {converter}, recipe {recipe}; {words}"
        if "float8" in kind or "fp8" in kind:
            return "fp8", f"converter {converter}; {words}"
    if quantised:
        return quantised, words
    known = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
    return known.get(str(parameters).removeprefix("torch.")), words


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value] if isinstance(value, str) and value else []


def model_config(stated: LoggedValues) -> tuple[ModelConfig, list[str]]:
    """Return the model's shape, with a warning for what is left out of it on purpose."""
    text = stated.word("model_arguments") or ""
    parameters = stated.count("parameters")
    if not text:
        return ModelConfig(num_parameters=parameters), []

    def word(name: str) -> str | None:
        found = re.search(rf"['\"]?\b{name}['\"]?\s*[=:]\s*['\"]?([-\w.+]+)", text)
        return found[1] if found else None

    def count(name: str) -> int | None:
        value = word(name)
        return int(value) if value and re.fullmatch(r"\d{1,12}", value) and int(value) else None

    warnings = []
    name = (stated.word("model") or "").lower()
    heads = count("n_heads")
    latent = count("kv_lora_rank") is not None
    experts = count("num_experts") if word("moe_enabled") != "False" else None
    width, expert_width = _width(count, word, name), count("moe_inter_dim") if experts else None
    dense = count("n_dense_layers")
    if experts and expert_width is None:
        warnings.append(
            "the widths of the feed-forward layers are left out of model_config: how this model mixes experts and "
            "dense layers isn't stated"
        )
        width = None
    shared = count("num_shared_experts")
    tied = word("enable_weight_tying")
    return (
        ModelConfig(
            num_layers=count("n_layers"),
            hidden_size=count("dim"),
            num_attention_heads=heads,
            num_query_groups=None if latent else (count("n_kv_heads") or heads),
            head_dim=count("qk_nope_head_dim") if latent else count("head_dim"),
            ffn_hidden_size=width,
            vocab_size=count("vocab_size"),
            tie_word_embeddings=tied == "True" if tied else None,
            num_experts=experts,
            experts_per_token=count("top_k") if experts else None,
            expert_ffn_hidden_size=expert_width,
            shared_expert_ffn_hidden_size=shared * expert_width if shared and expert_width else None,
            num_dense_layers=(dense or 0) if experts else None,
            query_lora_rank=count("q_lora_rank"),
            key_value_lora_rank=count("kv_lora_rank"),
            rope_head_dim=count("qk_rope_head_dim") if latent else None,
            value_head_dim=count("v_head_dim") if latent else None,
            num_parameters=parameters,
            source="the model arguments that the log prints",
        ),
        warnings,
    )


def _width(count: Any, word: Any, name: str) -> int | None:
    stated: int | None = count("hidden_dim") or count("inter_dim")
    dim, multiple = count("dim"), count("multiple_of")
    if stated or not name.startswith("llama3") or dim is None or multiple is None:
        return stated
    # Llama's own rule: two thirds of four times the width, scaled, and up to the next multiple.
    scale = word("ffn_dim_multiplier")
    try:
        factor = float(scale) if scale not in (None, "None") else 1.0
    except ValueError:
        return None
    if not 0 < factor < 1000:
        return None
    width = int(factor * int(8 * int(dim) / 3))
    return math.ceil(width / int(multiple)) * int(multiple)
