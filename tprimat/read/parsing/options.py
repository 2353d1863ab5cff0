"""Options of training scripts as logs echo them (command lines, dumps of arguments, YAML, JSON),
and hparams.yaml.

    --per_device_train_batch_size 8    per_device_train_batch_size=8,    "sequence_len": 4096,
    --global-batch-size 128

Such an echo states what was requested; values that a framework computed and printed take
precedence.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tprimat.read.parsing.events import has_sign
from tprimat.read.parsing.parsed_log import Beside
from tprimat.read.parsing.values import (
    LoggedValue,
    LoggedValues,
    count,
    first_of,
    number,
    precision_of,
    state,
)
from tprimat.settings import Column
from tprimat.settings.rows import by_key, names

ECHOED, COMPUTED = 1, 3

Options = dict[str, tuple[str, Callable[[str], Any]]]
"""Field and reading of its value, by the option's name."""


def _word(value: str) -> str | None:
    if re.search("[A-Za-z]", value):
        return value.rstrip("/")
    return None


def _name(value: str) -> str | None:
    if re.search("[A-Za-z]", value) and value.lower() not in ("null", "none", "true"):
        return value
    return None


_READ = {
    "count": count,
    "number": number,
    "seed": lambda value: int(value) if re.fullmatch(r"\d{1,18}", value) else None,
    "word": _word,
    "name": _name,
}
"""How a value is read, by the kind of its setting."""


def _options(column: Column) -> Options:
    """Return the options of the settings that have one in a column."""
    return {name: (key, _READ[by_key(key).kind]) for name, key in names(column).items()}


_OPTIONS = _options("scripts") | {
    "logging_steps": ("logging_steps", count),
    "num_epochs": ("num_epochs", count),
    "num_train_epochs": ("num_epochs", count),
    "seq_len": ("sequence_length", count),
    "sequence_length": ("sequence_length", count),
    "model_name_or_path": ("model", _word),
    "base_model": ("model", _word),
    "bf16": ("precision", lambda value: {"true": "bf16"}.get(value.lower())),
    "fp16": ("precision", lambda value: {"true": "fp16"}.get(value.lower())),
    "gradient_checkpointing": (
        "recomputation",
        lambda value: {"true": "full", "false": "none"}.get(value.lower()),
    ),
    "torch_dtype": ("weights_precision", precision_of),
}
_DASHED_ONLY = {"block_size", "seq_len", "sequence_length"}
"""Names that configurations of other things have, too: DeepSpeed's asynchronous I/O has a
block_size.
"""

_VALUE = r"""['"]?([^\s'",;)\]}]{1,200})"""
_HYPHENED = [name.replace("_", "[_-]") for name in _OPTIONS]
_OPTION = re.compile(
    rf"(--|['\"]|(?<![\w./-]))({'|'.join(_HYPHENED)})(['\"]?\s*[=:]\s*|\s+(?=[^-\s]))" + _VALUE
)
_SWITCH = re.compile(r"--(bf16|fp16|gradient[_-]checkpointing)(?=\s*(?:--|$|\\))")
_PROCESSES = re.compile(
    r"--(nproc[_-]per[_-]node|num[_-]processes|num[_-]gpus|nnodes|num[_-]nodes)"
    r"(?:=|\s+)(\d{1,7})\b"
)
LONGEST_COMMAND = 20
"""Lines over which a command may go on, each of which but the last ends with a backslash."""
_SIZE = re.compile(r"--((?:[a-z]+[_-])*(?:batch|seq|length|gpus)(?:[_-][a-z]+)*)[= ]\d+")
_NUM_PROCESSES = re.compile(r"^\s*Num processes: (\d{1,7})\b")
_DASHED = tuple(dict.fromkeys(f"--{name.replace('_', '-')}" for name in _OPTIONS if "_" in name))
NAMED = ("--n", "Num proc", *_OPTIONS, *_DASHED)
ECHOES = ("--n", "Num proc", *(f"--{name}" for name in _OPTIONS), *_DASHED)
"""A line without any of NAMED echoes no option, one without any of ECHOES none of a command line.
"""


def options_in(text: str, line: int, stated: LoggedValues, *, bare: bool = True) -> None:
    """Add the script options that a line echoes; with `bare`, `name: value` counts too and not only
    `--name value`.
    """
    text = text[:20_000]

    def add(field: str, value: Any) -> None:
        state(stated, field, value, text, line, ECHOED)

    echo = _echoed(text, bare)
    for field, value in echo.options:
        add(field, value)
    if echo.processes:
        launched = {}
        for field, names in _LAUNCHED.items():
            launched[field] = first_of(echo.processes, names) or _earlier(field, line, stated)
            if text.rstrip().endswith("\\"):
                add(field, launched[field])
        every = (launched["launched_per_node"] or 0) * (launched["launched_nodes"] or 1)
        add("num_gpus", count(echo.processes.get("num_processes", every)))
    if "Num proc" in text and (listed := _NUM_PROCESSES.match(text)):
        add("num_gpus", count(listed[1]))


class _Echo(NamedTuple):
    """The options that a line echoes, as fields and values; and what it says of processes, by the
    names of a launcher's options.
    """

    options: Sequence[tuple[str, Any]] = ()
    processes: Mapping[str, int] = {}


@functools.lru_cache(maxsize=2)
def _echoed(text: str, bare: bool) -> _Echo:
    """Return the options that a line echoes. Cached, since many readers ask for the same line one
    after the other.
    """
    if not has_sign(text, NAMED):
        return _Echo()
    echoed = []
    switches = [("--", name, "=", "true") for name in _SWITCH.findall(text)]
    for sign, name, between, value in _OPTION.findall(text) + switches:
        if "-" in name and sign != "--":
            continue
        name = name.replace("-", "_")
        # A blank alone parts name and value on a command line only: prose has such pairs, too.
        if sign == "--" or (between.strip() and bare and name not in _DASHED_ONLY):
            field, read = _OPTIONS[name]
            echoed.append((field, read(value)))
    unread = []
    for size in _SIZE.finditer(text):
        if not _PROCESSES.match(size[0]) and size[1].replace("-", "_") not in _OPTIONS:
            unread.append(size[0])
    if unread:
        echoed.append(("unread_sizes", ", ".join(unread[:3])))
    processes = {name.replace("-", "_"): int(value) for name, value in _PROCESSES.findall(text)}
    return _Echo(echoed, processes)


_LAUNCHED = {
    "launched_nodes": ("nnodes", "num_nodes"),
    "launched_per_node": ("nproc_per_node", "num_gpus"),
}
"""What a launcher states of its processes: fields, and the options that state them."""


def _earlier(field: str, line: int, stated: LoggedValues) -> int | None:
    """Return what the command that goes on in this line states of its processes in a line before;
    None if it states nothing there.
    """
    statement = stated.get(field)
    if statement and line - statement.line < LONGEST_COMMAND:
        return stated.count(field)
    return None


_HPARAMS = _options("hparams") | {
    "devices": ("devices", count),
    "gpus_per_node": ("devices", count),
    "num_nodes": ("num_nodes", count),
    "model": ("model", _name),
    "model_name": ("model", _name),
    "device_name": ("device_name", _name),
    "gpu_name": ("device_name", _name),
}
_ROW = re.compile(
    r"^\s*(?:- )?['\"]?(\w{1,60})['\"]?:\s+['\"]?(?=\S)([^#'\"\n!&*{\[]{1,200}?)['\"]?\s*(?:#.*)?$"
)

_MODEL_CONFIG = _options("transformers") | {"_name_or_path": ("model", _name)}
"""Entries of a model's configuration in transformers."""


def state_config(config: Mapping[str, Any], stated: LoggedValues, source: str) -> None:
    """Add what an experiment tracker keeps of a training's configuration: of names and plain
    values, not nested ones.

    The same names within an object may be of something else: an evaluation, or the critic of a
    reinforcement learning.
    """
    per_device = "per_device_train_batch_size" in config
    options = {**_OPTIONS, **_HPARAMS, **_MODEL_CONFIG}
    own = LoggedValues()
    for name, value in config.items():
        # What transformers calls train_batch_size is of one process.
        if name in options and not (per_device and name == "train_batch_size"):
            field, read = options[name]
            state(own, field, read(str(value)), f"{source}: {name}: {value}", 1, ECHOED)
    precision = config.get("precision")
    state(own, "precision", precision_of(precision), f"{source}: precision: {precision}")
    if per_device:
        state(own, "only_data_parallel", True)
    stated.absorb(own)


def state_model_config(config: Mapping[str, Any], stated: LoggedValues) -> None:
    """Add the shape and the name in a configuration of transformers."""
    for name, (field, read) in _MODEL_CONFIG.items():
        state(stated, field, read(str(config.get(name))))


def state_hparams(beside: Beside, stated: LoggedValues) -> None:
    """Add the plain values of hparams.yaml, which Lightning's loggers write next to their files.

    YAML as Lightning writes it: a name, a colon, a value, nested by blanks; of one name the
    outermost counts. More than that (tags of Python objects, lists) is skipped; nothing in the file
    is ever constructed. Earlier statements win.
    """
    own = LoggedValues()
    content = beside.get("hparams.yaml", b"").decode("utf-8", "replace")
    for number_of_line, line in enumerate(content.splitlines(), 1):
        row = _ROW.match(line[:500])
        if row is None:
            continue
        name = row[1]
        value = row[2].strip()
        text = f"hparams.yaml: {name}: {value}"
        if name == "precision":
            state(own, "precision", precision_of(value), text, number_of_line, 0)
            state(own, "precision_detail", value, text, number_of_line, 0)
        elif name in _HPARAMS:
            field, read = _HPARAMS[name]
            result = read(value)
            former = own.get(field)
            weight = len(line.lstrip()) - len(line)
            # If two are at one depth, it is unknown which one is the training's: the other may
            # belong to an encoder.
            if former and former.weight == weight and former.value != result:
                result = None
            own.add(field, LoggedValue(result, number_of_line, text, weight))
    devices = own.count("devices")
    nodes = own.count("num_nodes") or 1
    unknown = [name for name, statement in own.items() if statement.value is None]
    for name in ("devices", "num_nodes", *unknown):
        own.pop(name, None)
    stated.absorb(own)
    if devices and stated.count("num_gpus") is None:
        text = f"hparams.yaml: devices: {devices}, num_nodes: {nodes}"
        state(stated, "num_gpus", devices * nodes, text)
