"""Megatron's iteration line, in every shape that it has had: by segment and label, never by order.

    iteration  3/  50 | consumed samples:  384 | elapsed time per iteration (ms): 15169.7 | … |

Megatron-LM, its ROCm fork and Primus print it. Labels, units and the order of segments have
changed; LABELS is the one place that knows them. Of a pair such as 664.0/701.3 the first figure
is this line's own and the second a running mean, which is left alone.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from tprimat.read.parsing.text import Line, Stamp, last_stamp
from tprimat.results.run import LARGEST_VALUE, LONGEST_STEP

ANCHOR = re.compile(r"iteration\s+(\d{1,12})\s*/\s*(\d{1,12})\s*\|")
TIMED = "elapsed time per iteration (ms)"
"""What every iteration line holds and no other line does."""

_NUMBER = r"([-+]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?|[-+]?(?:nan|inf(?:inity)?))"
_FIGURE = re.compile(rf"\s*{_NUMBER}\s*", re.IGNORECASE)
_PAIR = re.compile(rf"\s*{_NUMBER}(?:\s*/\s*{_NUMBER}|\s*\(avg\s*{_NUMBER}\s*\))?\s*", re.IGNORECASE)
_GIB = r"(\d{1,9}(?:\.\d{1,9})?)\s*Gi?B"
USAGE = re.compile(rf"\s*{_GIB}/{_GIB}/{_GIB}/\d{{1,9}}(?:\.\d{{1,9}})?\s*%\s*")
RANK = re.compile(r"\[rank-(\d+)/(\d+)\]")


@dataclasses.dataclass(frozen=True)
class Label:
    """A quantity of the iteration line.

    Attributes:
        field: of Record.
        names: all that it has been called, the latest first, lower case, blanks single.
        pattern: of its value; the first group counts.
    """

    field: str
    names: tuple[str, ...]
    pattern: re.Pattern[str] = _FIGURE


LABELS = (
    Label("elapsed_ms", ("elapsed time per iteration (ms)",), _PAIR),
    Label(
        "tflops",
        # "compute per GPU": Primus v26.5; all others before and after: "throughput per GPU".
        ("throughput per gpu (tflop/s/gpu)", "compute per gpu (tflop/s/gpu)", "tflop/s/gpu", "tflops"),
        _PAIR,
    ),
    Label(
        "tokens_rate",
        # "inst/harmonic mean": Primus v26.5 and later; arithmetic mean before. Only x is read.
        (
            "tokens per gpu (tokens/s/gpu)",
            "tokens/s/gpu inst/harmonic mean",
            "tokens/s/gpu",
            "tokens/sec/gpu",
            "tokens per gpu per second (tgs)",
        ),
        _PAIR,
    ),
    Label("samples", ("consumed samples",)),
    Label("batch", ("global batch size",)),
    Label("loss", ("lm loss", "lm-loss")),
    Label("learning_rate", ("learning rate",)),
    Label("grad_norm", ("grad norm",)),
    Label("skipped", ("number of skipped iterations",)),
    Label("nans", ("number of nan iterations",)),
    Label("energy", ("energy per gpu (j/iter/gpu)",), _PAIR),
    Label("power", ("power per gpu (w/gpu)",), _PAIR),
    Label("memory_fraction", ("mem usages",)),
    # Both "GB" and "GiB" mean 2^30 bytes: Primus divides by 1024^3 and has called it either.
    Label("hip_gib", ("hip mem usage/free/total/usage_ratio",), USAGE),
    Label("rocm_gib", ("rocm mem usage/free/total/usage_ratio",), USAGE),
)

_BY_NAME = {name: label for label in LABELS for name in label.names}


def label_of(name: str) -> Label | None:
    """Return the label that a segment's name means, however it is spaced; None for one that isn't read."""
    return _BY_NAME.get(" ".join(name.lower().split()))


@dataclasses.dataclass(slots=True)
class Record:
    """What one iteration line says. None: the line doesn't have it, or it can't be read.

    Attributes:
        iteration, planned: of `iteration 3/ 50`.
        line: in the log.
        stamp: the last time before the word iteration.
        rank, world: of the process that printed it, where a prefix says so.
        elapsed_ms, tflops, tokens_rate, …: as LABELS has them; the first figure of a pair.
        memory_total_gib: of the device, from the same segment as hip_gib or rocm_gib.
        shape: a name in SHAPES.
        paired: whether the time is a pair.
        not_finite: fields that are NaN or infinite.
        garbled: labels whose value can't be read.
    """

    iteration: int
    planned: int
    line: int
    stamp: Stamp | None = None
    rank: int | None = None
    world: int | None = None
    elapsed_ms: float | None = None
    tflops: float | None = None
    tokens_rate: float | None = None
    samples: float | None = None
    batch: float | None = None
    loss: float | None = None
    learning_rate: float | None = None
    grad_norm: float | None = None
    skipped: float | None = None
    nans: float | None = None
    energy: float | None = None
    power: float | None = None
    memory_fraction: float | None = None
    hip_gib: float | None = None
    rocm_gib: float | None = None
    memory_total_gib: float | None = None
    shape: str = "upstream"
    paired: bool = False
    not_finite: tuple[str, ...] = ()
    garbled: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Time of one iteration, s; None where the line has none that can be."""
        return None if self.elapsed_ms is None else seconds_of(self.elapsed_ms)


def seconds_of(elapsed_ms: float) -> float | None:
    """Return a printed time in s; None for an impossible one."""
    if not 1e-3 <= elapsed_ms <= LONGEST_STEP * 1e3:
        return None
    # From the text's own digits: 77691.0 ms is 77.691 s, without the error of a division.
    return round(elapsed_ms / 1e3, 7)


FIELDS = tuple(label.field for label in LABELS)
"""Fields of a Record that a line states."""


def records(line: Line) -> Iterator[Record]:
    """Yield the iteration records of a line: none mostly, one, or several where line ends were lost."""
    text = line.text
    if TIMED not in text:
        return
    anchors = list(ANCHOR.finditer(text))
    for index, anchor in enumerate(anchors):
        if int(anchor[1]) < 1:
            continue
        last = index + 1 == len(anchors)
        end = len(text) if last else anchors[index + 1].start()
        record = Record(int(anchor[1]), int(anchor[2]), line.number)
        start = anchors[index - 1].end() if index else 0
        before = text[start : anchor.start()]
        record.stamp = last_stamp(before)
        if printed_by := RANK.search(before):
            record.rank, record.world = int(printed_by[1]), int(printed_by[2])
        if last and not line.whole:
            # What follows the last bar of a line that the file doesn't finish may be half a figure.
            end = max(text.rfind("|", anchor.end()), anchor.end())
        _fill(record, text, anchor.end(), end)
        yield record


def labelled(text: str, start: int, end: int) -> Iterator[tuple[Label, re.Match[str] | None]]:
    """Yield the labels between two places of a text, each once, with their values; None for a garbled value."""
    seen = set()
    for segment in text[start:end].split("|"):
        name, colon, _ = segment.partition(":")
        label = label_of(name) if colon else None
        if label is not None and label.field not in seen:
            seen.add(label.field)
            yield label, label.pattern.fullmatch(text, start + len(name) + 1, start + len(segment))
        start += len(segment) + 1


def _fill(record: Record, text: str, start: int, end: int) -> None:
    seen: list[str] = []
    not_finite: list[str] = []
    garbled: list[str] = []
    for label, match in labelled(text, start, end):
        seen.append(label.field)
        if match is None:
            # Another process wrote into the line: a figure that something is glued to is none.
            garbled.append(label.names[0])
            continue
        figure = float(match[1].replace(",", ""))
        if not abs(figure) <= LARGEST_VALUE:
            not_finite.append(label.field)
            continue
        setattr(record, label.field, figure)
        if label.pattern is USAGE:
            record.memory_total_gib = float(match[3])
        elif label.field == "elapsed_ms":
            record.paired = match[2] is not None
    record.not_finite, record.garbled = tuple(not_finite), tuple(garbled)
    record.shape = _shape(record, seen, text[start:end])


def _shape(record: Record, seen: list[str], text: str) -> str:
    """Return which of the line's shapes this is; the names are those of SHAPES."""
    if "compute per GPU" in text:
        return "primus-26.5"
    if "inst/harmonic mean" in text:
        return "primus-26.5.1"
    usage = next((field for field in seen if field in ("hip_gib", "rocm_gib")), None)
    if usage is not None:
        # The core runtime appends memory to Megatron's own line; the trainer before it had it inside.
        return "primus-core" if "nans" in seen and seen.index(usage) > seen.index("nans") else "primus-legacy"
    if "memory_fraction" in seen:
        return "primus-2025.03" if record.paired else "rocm-fork"
    if "tokens_rate" in seen:
        return "primus-legacy" if record.paired else "upstream"
    return "upstream"


SHAPES = {
    "upstream": "Megatron-LM's own line; Primus' light trainer, and the core runtime without memory",
    "rocm-fork": "the ROCm fork of Megatron-LM: memory as a fraction",
    "primus-2025.03": "Primus March to August 2025: pairs, memory as a fraction",
    "primus-legacy": "Primus August 2025 to v26.4, legacy trainer: pairs, memory before the rates",
    "primus-core": "Primus core runtime: iterations 1 and 2 single, memory last",
    "primus-26.5": "Primus v26.5: compute per GPU with (avg …)",
    "primus-26.5.1": "Primus v26.5.1: throughput per GPU with tokens/s/GPU inst/harmonic mean",
}
"""Shapes of the line, as they stand in a result's source.dialect."""
