"""Training figures as others publish them: tables in Markdown, CSV or plain text, and
Megatron-Bridge's cards.

Columns are recognized by their headings. What a row leaves out is taken from its note and from the
text above the table: the model, the GPU.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any

from tprimat.catalog import gpus, meanings, models
from tprimat.catalog.gpus import Gpu
from tprimat.catalog.models import Model
from tprimat.results.fields import FieldValues
from tprimat.results.run import GpuInfo


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """The values of one row; None or empty for those that it doesn't state.

    Attributes:
        line: line of the file, from 1.
        table: number of the table in the file.
        unreadable: the cells of a row that can't be read, and the headings above it; None if it can.
        ratio: between two GPUs of the table, for a row that compares them.
        sample_tokens: mean length of a sample, if shorter than the sequence.
        flops_per_parameter: what its TFLOP/s counts by its own words: 8 with recomputed
            activations.
        days, target_tokens, target_gpus: a claim: how long a number of tokens takes on a number of
            GPUs.
    """

    line: int
    file: str = ""
    table: int = 0
    unreadable: tuple[int, int] | None = None
    gpu: str = ""
    model: str = ""
    task: str = ""
    precision: str = ""
    publisher: str = ""
    framework: str = ""
    version: str = ""
    note: str = ""
    gpus: float | None = None
    sequence_length: float | None = None
    global_batch: float | None = None
    tokens_per_second_per_gpu: float | None = None
    tokens_per_second: float | None = None
    samples_per_second: float | None = None
    step_time_s: float | None = None
    tflops_per_gpu: float | None = None
    mfu_percent: float | None = None
    ratio: float | None = None
    samples_per_step: float | None = None
    sample_tokens: float | None = None
    tokens_per_step: float | None = None
    flops_per_parameter: float | None = None
    days: float | None = None
    target_tokens: float | None = None
    target_gpus: float | None = None

    @property
    def place(self) -> str:
        """Its file, without the directory, and line."""
        return f"{PurePath(self.file).name}:{self.line}"

    @property
    def candidates(self) -> tuple[Gpu, ...]:
        """The rows of the catalog that its GPU may be."""
        return _candidates(self.gpu)

    @property
    def row(self) -> Model | None:
        """The model's row of the catalog."""
        return models.named(self.model)


_NUMBER = r"([\d,]{0,15}\d\.?\d{0,15}(?:e[+-]?\d{1,3})?)"
_CELL = re.compile(
    rf"[~≈]?{_NUMBER}\s{{0,9}}(k|m|b|t|ms|s|%)?(?:/\S+)?(?:\s{{0,9}}\(.*\))?", re.IGNORECASE
)
_RATIO = re.compile(rf"{_NUMBER}\s*[x×]\b.*")
_LENGTH = re.compile(r"(?i)\bseq\w{0,9}[ _-]?len\w{0,9}\D{1,4}(\d[\d,]{0,14})")
_WITH_DIGITS = re.compile(r"[\w-]{0,15}\d[\w-]{0,30}")
_SCALES = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12, "ms": 1e-3}
_HEADINGS = {
    "gpu": r"gpu|gpu (key|name|type|model)|system|accelerator|device|hardware|platform",
    "model": r"model|model (key|name)",
    "task": r"task|mode",
    "precision": r"precision|dtype|configuration",
    "publisher": r"publisher",
    "framework": r"framework",
    "version": r"version|release",
    "note": r"notes?|comments?",
    "sequence_length": r"(max )?seq(uence)?( ?len(gth)?)?",
    "days": r"(est )?(time|days) to train( (in )?days)?",
}
"""Headings of each field, as `meanings.normalized` writes them; those of the others mean what their
words say.
"""

_FIELDS = {
    "num_gpus": "gpus",
    "sequence_length": "sequence_length",
    "global_batch_size": "global_batch",
    "tokens_per_second_per_gpu": "tokens_per_second_per_gpu",
    "tokens_per_second": "tokens_per_second",
    "samples_per_second": "samples_per_second",
    meanings.TIME: "step_time_s",
    "tflops_per_gpu": "tflops_per_gpu",
    "mfu_percent": "mfu_percent",
}
"""Fields, by the kind of value that a heading means."""

_VAGUE = ("tps", "wps")
"""Headings that don't say whose rate it is."""

_ASIDE = re.compile(r"\b(?:avg|average|mean|model|throughput|training|measured)\b")
_REST = re.compile(r"[ /%]*(?:(?:per|gpu|device|m?s|sec|seconds|percent)\b[ /%]*)*")
"""Words that change nothing of what a heading means, and what may stand beside those that mean it:
of `Change of tokens/s` these are not all.
"""

_NOTES = {
    rf"{_NUMBER} samples a step of {_NUMBER} tokens": ("samples_per_step", "sample_tokens"),
    rf"{_NUMBER} tokens a step": ("tokens_per_step",),
    rf"\({_NUMBER} x parameters\)": ("flops_per_parameter",),
    rf"claims {_NUMBER} days for {_NUMBER}T tokens on {_NUMBER}K GPUs": (
        "days",
        "target_tokens",
        "target_gpus",
    ),
    rf"claims {_NUMBER} days to train": ("days",),
}
_UNITS = {"target_tokens": 1e12, "target_gpus": 1024}
_WORDS = {
    "precision": {
        "nvfp4": r"nv-?fp4", "mxfp4": r"mx-?fp4|fp4[-_ ]mx", "mxfp8": r"mx-?fp8|fp8[-_ ]mx", "fp8": "fp8", "fp4": "fp4",
        "bf16": r"bf16|bfloat16", "fp16": r"fp16|float16", "tf32": "tf32", "fp32": "fp32",
    },
    "task": {"lora": "lora|peft", "sft": "sft|fine-?tun", "rl": r"\brl\b|grpo", "pretrain": "pre-?train|resume"},
}  # fmt: skip
LARGEST_FIGURE = 1e18
"""Far above the tokens of any training, 10¹⁴ so far; one over it far below any time in s."""
LONGEST_HEADING = 100
LOWEST_LEVEL = 9
"""Most characters of a line above a table that describes it; level of a line without heading signs.
"""

_SPEEDS = (
    "tokens_per_second_per_gpu",
    "samples_per_second",
    "step_time_s",
    "tflops_per_gpu",
    "mfu_percent",
    "ratio",
)


def figures(text: str, name: str = "") -> list[Figure]:
    """Return the rows of a file that have a figure of speed, or can't be read; none if it has no
    table of them.
    """
    header = text.lstrip("\ufeff").partition("\n")[0]
    if re.search(r"^items:", text, re.MULTILINE):
        every = _card(text.splitlines())
    elif name.lower().endswith(".csv") or header.count(",") > len(_columns(header.split(","))) > 1:
        rows = csv.reader(io.StringIO(text.lstrip("\ufeff")))
        every = _block([(rows.line_num, cells) for cells in rows if cells], 1, {})
    else:
        every = _tables(text.splitlines())
    used = []
    for figure in every:
        if figure.unreadable or any(getattr(figure, field) for field in _SPEEDS):
            used.append(dataclasses.replace(figure, file=name))
    return used


@functools.lru_cache(maxsize=1024)
def _candidates(name: str) -> tuple[Gpu, ...]:
    """Return the GPUs that a name may mean: a row's key, a device's name, or a system's, such as
    DGX-H100.
    """
    words = {word.rstrip("X") for word in re.split(r"[^A-Z0-9]+", name.upper())} - {""}
    keys = tuple(gpu for gpu in gpus.gpus() if gpu.key == name)
    alike = (gpu for gpu in gpus.gpus() if _base(gpu) in words)
    return keys or gpus.match(GpuInfo(device_name=name)).candidates or tuple(alike)


def _base(gpu: Gpu) -> str:
    """Return the part of a GPU's short name that has a number: H100, MI300, 4090; empty if none
    has.
    """
    for word in gpu.short_name.upper().split():
        if re.search(r"\d{2}", word):
            return word.rstrip("X")
    return ""


@functools.lru_cache(maxsize=1024)
def _field(heading: str) -> str | None:
    plain = meanings.normalized(heading)
    for field, pattern in _HEADINGS.items():
        if re.fullmatch(pattern, plain):
            return field
    plain = " ".join(_ASIDE.sub(" ", plain).split())
    meaning = meanings.meaning_of(plain)
    if (
        meaning is None
        or plain in _VAGUE
        or "," in plain
        or not _REST.fullmatch(meaning.words.sub("", plain, count=1))
    ):
        return None
    if meaning.kind == meanings.TIME and not meanings.is_of_step(plain, None):
        return None
    return _FIELDS.get(meaning.kind)


def _columns(cells: Sequence[str]) -> dict[int, str]:
    """Return the field of each heading that has one; a key, which is exact, comes last."""
    columns = {}
    for index in sorted(range(len(cells)), key=lambda index: "key" in cells[index]):
        field = _field(cells[index].strip())
        if field is not None:
            columns[index] = field
    return columns


def _number(text: str) -> float:
    """Return a printed number; 0, as if it were missing, for one that no training has, which can't
    be computed with.
    """
    value = float(text.replace(",", ""))
    if 1 / LARGEST_FIGURE <= value <= LARGEST_FIGURE:
        return value
    return 0.0


def _value(field: str, cell: str, heading: str) -> Any:
    """Return a cell's value as its field has it; None or empty if it has none."""
    text = cell.strip().strip("*`").strip()
    if field in _WORDS:
        outside = text.partition("(")[0].lower()
        for name, pattern in _WORDS[field].items():
            if re.search(pattern, outside):
                return name
        return ""
    if Figure.__annotations__[field] == "str":
        return text
    match = _CELL.fullmatch(text)
    if match is None:
        return None
    unit = (match[2] or "").lower()
    factor = _SCALES.get(unit, 1.0)
    if field == "step_time_s" and not unit and (stated := meanings.unit_in(heading.strip("*` "))):
        factor = float(stated.factor)
    return _number(match[1]) * factor


def _figure(
    line: int, table: int, cells: Iterable[tuple[str, str, str]], context: FieldValues
) -> Figure:
    """Return a row from its fields, headings and cells, its note, and the text above the table."""
    fields: FieldValues = {}
    for field, heading, cell in cells:
        value = _value(field, cell, heading)
        ratio = _RATIO.fullmatch(cell.strip())
        if value in (None, ""):
            if ratio is not None:
                fields["ratio"] = _number(ratio[1])
        # A name that has a row is nearer than a key, which several models of one decoder share.
        elif field != "model" or not models.recognize(fields.get(field, "")):
            fields[field] = value
    fields = {**context, **fields}
    for pattern, names in _NOTES.items():
        match = re.search(pattern, fields.get("note", ""))
        if match is not None:
            for name, text in zip(names, match.groups(), strict=True):
                fields.setdefault(name, _number(text) * _UNITS.get(name, 1))
    if fields.get("tokens_per_second") and fields.get("gpus"):
        rate = fields["tokens_per_second"] / fields["gpus"]
        fields.setdefault("tokens_per_second_per_gpu", rate)
    return Figure(line=line, table=table, **fields)


def _block(
    rows: Sequence[tuple[int, Sequence[str]]], table: int, context: FieldValues
) -> Iterator[Figure]:
    """Yield the rows of a table, whose first one has the headings; or, if those are GPUs or stand
    in the first column, its columns.
    """
    (first, header), *others = rows
    columns = _columns(header)
    names_gpus = sum(bool(_candidates(cell)) for cell in header[1:]) > 1
    if len(columns) < 2 and (names_gpus or len(_columns([cells[0] for _, cells in others])) > 1):
        lines = [line for line, cells in others if _field(cells[0]) in _SPEEDS]
        header, *turned = zip(*(cells for _, cells in rows), strict=False)
        header = ["gpu", *header[1:]]
        others = [(lines[0] if lines else first, cells) for cells in turned]
        columns = _columns(header)
    for line, cells in others:
        if len(cells) != len(header):
            yield Figure(line=line, table=table, unreadable=(len(cells), len(header)))
        elif len(columns) > 1:
            named = ((field, header[index], cells[index]) for index, field in columns.items())
            yield _figure(line, table, named, context)


def _tables(lines: Sequence[str]) -> Iterator[Figure]:
    """Yield the rows of tables in Markdown, and of those in plain text with columns two spaces
    apart.
    """
    said: dict[str, tuple[int, Any]] = {}
    rows: list[tuple[int, Sequence[str]]] = []
    table = 0
    for number, line in enumerate([*lines, ""], 1):
        text = line.strip()
        split = text.strip("|").split("|") if text.count("|") > 1 else re.split(r"\s{2,}", text)
        if text and not re.search(r"[^\s|:=+-]", text):
            continue
        if len(split) > 1 and (rows or "|" in text or len(_columns(split)) > 1):
            rows.append((number, [cell.strip() for cell in split]))
            continue
        if len(rows) > 1 and (
            len(_columns(rows[0][1])) > 1 or any(_field(cells[0]) in _SPEEDS for _, cells in rows)
        ):
            table += 1
            yield from _block(rows, table, {field: value for field, (_, value) in said.items()})
        rows = []
        # A heading holds until the next one of its level.
        level = len(text) - len(text.lstrip("#")) or LOWEST_LEVEL
        if level < LOWEST_LEVEL:
            said = {field: stated for field, stated in said.items() if stated[0] < level}
        if len(text) < LONGEST_HEADING:
            model = models.recognize(text)
            length = _LENGTH.search(text)
            context = {
                "gpu": next(filter(_candidates, _WITH_DIGITS.findall(text)), None),
                "model": model and model.name,
                "task": _value("task", text, ""),
                "sequence_length": length and _number(length[1]),
            }
            said |= {field: (level, value) for field, value in context.items() if value}


_METRICS = {
    "step_time_ms_avg": ("step_time_s", 1e-3),
    "model_tflops_per_gpu_avg": ("tflops_per_gpu", 1.0),
    "tokens_per_second_per_gpu_avg": ("tokens_per_second_per_gpu", 1.0),
}


def _card(lines: Sequence[str]) -> Iterator[Figure]:
    """Yield the metrics of a model verification card: of items by GPU, each with its status,
    command and result.
    """
    path: list[tuple[int, str]] = []
    fields: FieldValues = {}
    model = ""
    text = ""
    start = 0
    for number, line in enumerate([*lines, "status: end"], 1):
        if not re.match(r"\s*[\w-]+:(\s|$)", line):
            text += f" {line.strip()}"
            continue
        depth, (name, _, value) = len(line) - len(line.lstrip()), line.strip().partition(":")
        path = [*(above for above in path if above[0] < depth), (depth, name)]
        if name == "hf_id":
            model = value.strip()
        elif name == "status":
            if start:
                yield Figure(
                    line=start, table=1, model=model, note=text, **_of_text(text), **fields
                )
            keys = [key for _, key in path] + [""] * 3
            fields = {"task": _value("task", keys[1], ""), "gpu": keys[2]}
            text = ""
            start = 0
        elif name == "precision":
            fields["precision"] = _value("precision", value, "")
        for ending, (field, factor) in _METRICS.items():
            stated = _CELL.fullmatch(value.strip())
            if name.endswith(ending) and stated is not None:
                fields[field] = _number(stated[1]) * factor
                start = number
        text += f" {value.strip()}"


def _of_text(text: str) -> FieldValues:
    """Return GPUs, batch and length as a card's command and sentences state them."""
    fields = {}
    nodes = re.search(r"--nodes (\d+) --gpus-per-node (\d+)", text)
    if nodes is not None:
        fields["gpus"] = _number(nodes[1]) * _number(nodes[2])
    batch = re.search(r"GBS/MBS (\d+)", text)
    if batch is not None:
        fields["global_batch"] = _number(batch[1])
    length = re.search(r"(?:seq_length[ =]|sequence[- ]length[- ])(\d[\d,]*)", text)
    if length is not None:
        fields["sequence_length"] = _number(length[1])
    return fields
