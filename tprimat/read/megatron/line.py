"""Megatron's iteration line, in every shape that it has had: by segment and label, never by order.

    iteration  3/  50 | consumed samples:  384 | elapsed time per iteration (ms): 15169.7 | … |

Megatron-LM, its ROCm fork and Primus print it. Labels, units and the order of segments have
changed; LABELS is the one place that knows them. In a pair such as 664.0/701.3 the first value is
this line's own and the second a running mean, which is ignored.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import NamedTuple

from tprimat.read.parsing.events import has_sign
from tprimat.read.parsing.text import Line, last_stamp
from tprimat.results.fields import LARGEST_VALUE, LONGEST_STEP

ANCHOR = re.compile(r"iteration\s+(\d{1,12})\s*/\s*(\d{1,12})\s*\|")
TIMED = "elapsed time per iteration"
"""What every iteration line holds and no other line does."""

_NUMBER = r"([-+]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?|[-+]?(?:nan|inf(?:inity)?))"
_FIGURE = re.compile(rf"\s*{_NUMBER}\s*", re.IGNORECASE)
_PAIR = re.compile(
    rf"\s*{_NUMBER}(?:\s*/\s*{_NUMBER}|\s*\(avg\s*{_NUMBER}\s*\))?\s*", re.IGNORECASE
)
_TERA = re.compile(rf"\s*{_NUMBER}\s*TFLOPS\s*", re.IGNORECASE)
_GIB = r"(\d{1,9}(?:\.\d{1,9})?)\s*Gi?B"
USAGE = re.compile(rf"\s*{_GIB}/{_GIB}/{_GIB}/\d{{1,9}}(?:\.\d{{1,9}})?\s*%\s*")
RANK = re.compile(r"\[rank-(?P<rank>\d{1,15})/(?P<world>\d{1,15})\]")
_EPOCH = datetime.datetime(1970, 1, 1)
_AWARE_EPOCH = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)


class Label(NamedTuple):
    """A quantity of the iteration line.

    Attributes:
        field: its name here.
        names: all that it has been called, the latest first, lower case, blanks single.
        pattern: pattern of its value; the first group counts.
    """

    field: str
    names: tuple[str, ...]
    pattern: re.Pattern[str] = _FIGURE


LABELS = (
    Label("elapsed_ms", ("elapsed time per iteration (ms)",), _PAIR),
    Label(
        "tflops",
        # "compute per GPU": Primus v26.5; all others before and after: "throughput per GPU".
        (
            "throughput per gpu (tflop/s/gpu)",
            "compute per gpu (tflop/s/gpu)",
            "tflop/s/gpu",
            "tflops",
            "effective tera flops per gpu",
        ),
        _PAIR,
    ),
    Label("tflops", ("approx flops per gpu",), _TERA),  # GPT-NeoX
    Label(
        "tokens_rate",
        # "inst/harmonic mean": Primus v26.5 and later; arithmetic mean before. Only x is read.
        (
            "tokens per gpu (tokens/s/gpu)",
            "tokens/s/gpu inst/harmonic mean",
            "tokens/s/gpu",
            "tokens/sec/gpu",
            "tok/s/gpu",
            "tokens per gpu per second (tgs)",
        ),
        _PAIR,
    ),
    Label("samples_rate", ("samples/sec",)),
    Label("samples", ("consumed samples",)),
    Label("batch", ("global batch size",)),
    Label("sequence_length", ("actual seqlen",)),
    Label("loss", ("lm loss", "lm-loss", "lm_loss")),
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

_LEFT_OUT = ("loss scale", "params norm", "num zeros", "consumed tokens", "samples per second")
"""Labels whose values have no speed or loss, or follow from others."""

_UNREAD = re.compile(r"[a-z][\w /().%-]{0,59}")
"""A label that isn't known; anything else before a colon is another process's output."""

_SAMPLES = "samples/sec:"
_LATE = "number of nan iterations:"

FIELDS = tuple(dict.fromkeys(label.field for label in LABELS))
"""Values that a line states in a segment of their own."""

# fmt: off
MARKERS = {
    "primus": ("[Primus", "primus launcher", "PRIMUS_", "primus/", "][rank-", "MegatronTrainer:"),
    "amd": (
        "hip mem usage", "rocm mem usage", "[aiter]", "iter backend", "/opt/rocm", "AMD Instinct", "AMD GPU device",
        "hipModuleLoad", "hipError", "HIP error", "HIP out of memory", "HSA_", "RCCL_", "RCCL version", "HIPBLASLT",
        "not compatible with ROCm",
    ),
    "core": ("[Primus:Runtime]", "[Runtime] Applying", "Final backend args", "print_rank_last_patches"),
    "start": ("-- arguments --", "using world size:", "[before the start of training step]"),
}
# fmt: on
"""Words that show the log's framework, its machine, and the start of a process."""


def has_marker(name: str, text: str) -> bool:
    """Return whether a line has one of the MARKERS under a name."""
    return has_sign(text, MARKERS[name])


class Kind(NamedTuple):
    """What lines have in common that differ in nothing but digits.

    Attributes:
        shape: shape of the line, see _shape().
        paired: whether the time is a pair.
        not_finite: fields that are NaN or infinite.
        garbled: labels whose value can't be read.
        unread: labels that aren't known, with a number each.
        aware: whether the line's time states an offset; None if the line has no time.
        resolution: s, of that time.
        marks: names in MARKERS that the line has.
    """

    shape: str = "upstream"
    paired: bool = False
    not_finite: tuple[str, ...] = ()
    garbled: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    aware: bool | None = None
    resolution: float = 0.0
    marks: tuple[str, ...] = ()


class Record(NamedTuple):
    """The values of one iteration line.

    Attributes:
        iteration: as printed.
        micros: µs from 1970 to the last time before the word iteration; a naive one on its own
            clock.
        kind: what it shares with other lines.
        figures: by fields of LABELS, the first of a pair; memory_total_gib of the device;
            iterations planned; rank and world of the process that printed the line, if a prefix
            states them.
    """

    iteration: int
    line: int
    micros: int
    kind: Kind
    figures: dict[str, float]

    @property
    def planned(self) -> int:
        """Iterations that are to be done."""
        return int(self.figures["planned"])

    @property
    def seconds(self) -> float | None:
        """Time of one iteration, s; None if the line has none that can be."""
        return seconds_of(self.figures.get("elapsed_ms"))

    def seconds_after(self, earlier: Record) -> float | None:
        """Return the time from another record to this one; None if only one, or none, has a time of
        its kind.
        """
        if self.kind.aware is None or self.kind.aware is not earlier.kind.aware:
            return None
        return (self.micros - earlier.micros) / 1e6


def seconds_of(elapsed_ms: float | None) -> float | None:
    """Return a printed time in s; None for an impossible one."""
    if elapsed_ms is None or not 1e-3 <= elapsed_ms <= LONGEST_STEP * 1e3:
        return None
    # From the text's own digits: 77691.0 ms is 77.691 s, without the error of a division.
    return round(elapsed_ms / 1e3, 7)


def micros(time: datetime.datetime) -> int:
    """Return microseconds from 1970 to a time, to a naive one on its own clock."""
    return (time - (_EPOCH if time.tzinfo is None else _AWARE_EPOCH)) // _MICROSECOND


def records(line: Line) -> Iterator[Record]:
    """Yield the iteration records of a line: none mostly, one, or several if line ends were
    lost.
    """
    return (record for record, _ in parse(line))


def is_wrapped(text: str) -> bool:
    """Return whether a line with a record may be the first part of an iteration line that was wrapped
    at a bar: the count that comes late in each is missing.
    """
    return _LATE not in text and text.rstrip().endswith("|")


def goes_on(text: str) -> bool:
    """Return whether a line is a further part of a wrapped one: it begins with a known label."""
    name = " ".join(text.partition(":")[0].lower().split())
    is_label = name in _BY_NAME or name in _LEFT_OUT
    return is_label and text.rstrip().endswith("|") and TIMED not in text


def parse(line: Line) -> Iterator[tuple[Record, dict[str, slice]]]:
    """Yield the records of a line, each with the places of its values in the text."""
    text = line.text
    if TIMED not in text:
        return
    # Once for all records of the line: one without line ends can have thousands.
    marks = tuple(name for name in ("primus", "amd") if has_marker(name, text))
    anchors = list(ANCHOR.finditer(text))
    before = 0
    for anchor, following in zip(anchors, [*anchors[1:], None], strict=False):
        end = following.start() if following else len(text)
        if not following and not line.whole:
            # What follows the last bar of a line that the file doesn't finish may be half a figure.
            end = max(text.rfind("|", anchor.end()) + 1, anchor.end())
        if int(anchor[1]):
            yield _record(text, before, anchor, end, line.number, marks)
        before = anchor.end()


def _record(
    text: str, start: int, anchor: re.Match[str], end: int, number: int, marks: tuple[str, ...]
) -> tuple[Record, dict[str, slice]]:
    """Return the record of a line between two places, whose iteration is at the anchor, and its
    values' places.
    """
    seen: list[str] = []
    not_finite = []
    garbled = []
    unread = []
    figures = {"planned": float(anchor[2])}
    places = {"iteration": slice(*anchor.span(1)), "planned": slice(*anchor.span(2))}

    def put(name: str, match: re.Match[str], group: int | str) -> None:
        figures[name] = float(match[group].replace(",", ""))
        places[name] = slice(*match.span(group))

    paired = False
    # GPT-NeoX prints one label before the iteration.
    begin = max(start, text.rfind(_SAMPLES, start, anchor.start()))
    begin = begin if text.startswith(_SAMPLES, begin) else anchor.end()
    for name, value, stop in _segments(text, begin, end):
        label = _BY_NAME.get(name)
        if label is None:
            is_label = name not in _LEFT_OUT and _UNREAD.fullmatch(name)
            if is_label and _PAIR.fullmatch(text, value, stop):
                unread.append(name)
            continue
        if label.field in seen or (stop == end and label.pattern is not USAGE):
            # Without a bar after it the line is torn, and the value may be incomplete.
            continue
        seen.append(label.field)
        match = label.pattern.fullmatch(text, value, stop)
        if match is None:
            # Another process wrote into the line: a figure that something is glued to is none.
            garbled.append(label.names[0])
            continue
        if not abs(float(match[1].replace(",", ""))) <= LARGEST_VALUE:
            not_finite.append(label.field)
            continue
        put(label.field, match, 1)
        if label.pattern is USAGE:
            put("memory_total_gib", match, 3)
        elif label.field == "elapsed_ms":
            paired = match[2] is not None
    if rank := RANK.search(text, start, anchor.start()):
        put("rank", rank, "rank")
        put("world", rank, "world")
    stamp = last_stamp(text[start : anchor.start()])
    shape = _shape(seen, text[anchor.end() : end], paired=paired)
    if shape.startswith("primus") and "primus" not in marks:
        marks = ("primus", *marks)
    kind = Kind(shape, paired, tuple(not_finite), tuple(garbled), tuple(unread), marks=marks)
    if stamp is None:
        return Record(int(anchor[1]), number, 0, kind, figures), places
    is_aware = stamp.time.tzinfo is not None
    kind = kind._replace(aware=is_aware, resolution=stamp.resolution)
    return Record(int(anchor[1]), number, micros(stamp.time), kind, figures), places


def _segments(text: str, begin: int, end: int) -> Iterator[tuple[str, int, int]]:
    """Yield the labels between bars, with one blank between words, and where the value after the
    colon begins and ends.
    """
    for segment in text[begin:end].split("|"):
        name, colon, _ = segment.partition(":")
        value = begin + len(name) + 1
        begin += len(segment) + 1
        if colon:
            # Also of "iteration(ms)".
            yield " ".join(name.lower().replace("(", " (").split()), value, begin - 1


def _shape(seen: list[str], text: str, *, paired: bool) -> str:
    """Return the shape of a line, as it is in a result's source.dialect."""
    if "compute per GPU" in text:
        return "primus-26.5"
    if "inst/harmonic mean" in text:
        return "primus-26.5.1"
    usage = next((field for field in seen if field in ("hip_gib", "rocm_gib")), None)
    if usage is not None:
        # The core runtime, whose iterations 1 and 2 have single values, appends memory to
        # Megatron's own line; the legacy trainer before it, from August 2025 to v26.4, had it
        # before the rates.
        if "nans" in seen and seen.index(usage) > seen.index("nans"):
            return "primus-core"
        return "primus-legacy"
    if "memory_fraction" in seen:
        # From March to August 2025, with pairs; the ROCm fork of Megatron-LM has none.
        if paired:
            return "primus-2025.03"
        return "rocm-fork"
    # Primus' light trainer, and the core runtime without memory, print Megatron-LM's own line.
    if "tokens_rate" in seen and paired:
        return "primus-legacy"
    return "upstream"
