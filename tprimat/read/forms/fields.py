"""Find the numbers of a line, each with the label before it and the unit behind it.

The text between the numbers of a line is its outline. Lines with the same outline have the same
labels and units, so each outline is parsed once, and a further line costs only two passes of a
regular expression.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from tprimat.catalog import meanings
from tprimat.catalog.meanings import Unit
from tprimat.read.parsing.text import NO_YEAR, ZEROS, Stamp, first_stamp
from tprimat.read.parsing.values import number, times
from tprimat.results.fields import LARGEST_COUNT, LONGEST_STEP, SHORTEST_STEP

LONGEST = 2_000
"""Characters of a line that are parsed."""

NUMBER = re.compile(
    r"""(?:(?<![\w.])|(?<=\bstep)|(?<=\biter)|(?<=\bepoch))(?:
        (?:\d{1,4}\ days?,\ )?\d{1,4}:\d\d(?::\d\d)?(?:\.\d{1,9})?(?![\w:])  # 1 day, 2:03:04
        |[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4})?
            (?!\d|\.\d|[A-Za-z_]+\d)
        |[-+]?(?:nan|inf)\b(?!\ iterations)
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""A number, or a time such as 2:03:04, but not a part of a name, of a version or of a hash."""

_EVENT_LOG = ":::MLL"
"""Mark of a line of MLPerf's log, which has a reader of its own."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_STAMP = re.compile(
    r"""(?<![\d./-])(?<!\d:)(?:
        (?P<year>\d{4})[-/](?P<month>\d\d?)[-/](?P<day>\d\d?)[T\ _-]{1,2}
        |(?P<first>\d\d?)/(?P<second>\d\d?)/(?P<late_year>\d{4}|\d\d),?\ {1,2}
        |(?P<short>\d\d[-/]\d\d)\ {1,2}
        |(?P<name>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\ {1,2}(?P<date>\d\d?)[\ ]
        |(?<=[IWEF])(?P<glog>\d{4})\ {1,2}
        |(?P<packed>\d{8})[\ -]
        |(?P<alone>(?<=^)|(?<=^\[)|(?<=^\())
    )(?P<hour>\d\d?):(?P<minute>\d\d):(?P<seconds>\d\d)(?:[.,](?P<fraction>\d{1,9}))?
    (?:Z\b|\ ?[+-]\d\d:?\d\d)?(?:\ ?[AP]M\b)?(?![\d:])""",
    re.VERBOSE | re.IGNORECASE,
)
"""A time stamp: ISO, US, absl's I0130, 20260130 12:00:00, without a year, or a time at the start of
a line.
"""

_BAR = re.compile(
    r"(?:(?<!\d)\d{1,3}%\|[^|\r]{0,400}\| *|(?<![\w/.]))(?P<count>[\d.]+[kMG]?)/(?P<total>[\d.]+[kMG]?) "
    r"*\[(?P<elapsed>[\d:]+)<(?P<left>[\d:?]+)(?:, *(?P<rate>[^,\]]*))?(?:, *(?P<more>[^\]]*))?\]?"
)
LONGEST_TITLE = 120
"""Characters before a progress bar that are its title."""

_OTHER_WORK = re.compile(
    r"\b(?:download|upload|map|filter|tokeni[sz]|load|fetch|shard|process|generat|extract|compil|"
    r"convert|pars|eval|valid|test|predict|infer|sampl|warm|prepar|cach|sav|embed|encod|scor|rank)",
    re.IGNORECASE,
)
"""Words in the title of a progress bar that doesn't count training steps."""

_MAY_BE_TIMES = (
    meanings.IGNORED,
    meanings.AVERAGED,
    meanings.TIME,
    meanings.INTERVAL,
    meanings.ELAPSED,
)
"""Kinds of a number that may have a unit of time."""

_SAYS_OF_WHAT = re.compile(r"\s+[A-Za-z]")
"""Words directly behind a unit, which may say what the time is of: 0.1 s data."""

_GENERATION = re.compile(r"\W*(?:rollout|generation)[/_ ]", re.IGNORECASE)
_OF_STEPS = re.compile(r"epoch|train|step|iter", re.IGNORECASE)
_QUOTE = re.compile(r"^\s*(?:>\s?)+|^\s*#\s(?=\W*\d|.*\d)")
_RULE = " \t|-+=:_*"
"""Characters of the line below the header of a table."""

_COLUMNS = re.compile(r"[\s|,/%\0]+")
DELIMITER = re.compile(r"[|,;{}\[\]]|\t| [-–] |\s\s|=>|\s/\s|(?<=\w):(?=\s)|\s\*\s")
_TRAILING = " \t:=([{'\"`~@→>"
_RELATED = re.compile(r"\s*(?:/|of|out of)\s*")
_AGAIN = re.compile(r"[\w%/]{0,12}\s?\(\s*")
_CLOCK = re.compile(r"\d:\d\d:\d")
"""A part of each time stamp."""

_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[A-Za-z]\w+")


@dataclasses.dataclass(frozen=True)
class Field:
    """A number of an outline.

    Attributes:
        place: index among the numbers of the outline.
        label: as printed, without the delimiters before the number; "" if it has none.
        kind: name of the value in a record, or one of the kinds in `meanings`; None if unknown.
        unit: the one behind it, or the one in its label.
        factor: of a K, M, G, B or T behind it; that of its unit is in `unit`.
        total: place of the number that is the total of this one, as the 90 of 1/90; None without.
    """

    place: int
    label: str
    kind: str | None
    unit: Unit | None
    factor: str = "1"
    total: int | None = None

    @functools.cached_property
    def key(self) -> str:
        """What identifies the number in all lines: its label, or its place if it has none."""
        return meanings.normalized(self.label) or f"#{self.place}"


@dataclasses.dataclass(frozen=True, eq=False)
class Outline:
    """The meaning of all lines with the same text between their numbers. Each is made once, so that
    outlines are compared by identity.

    Attributes:
        fields: its numbers, without totals and means in parentheses.
        words: how many words it has, labels included.
        is_evaluation: whether the words before its first number say that it is an evaluation.
    """

    fields: tuple[Field, ...]
    words: int
    is_evaluation: bool

    @functools.cached_property
    def _by_key(self) -> Mapping[str, Field]:
        return {field.key: field for field in reversed(self.fields)}

    def field(self, key: str) -> Field | None:
        """Return the number with a key; None if there is none."""
        return self._by_key.get(key)

    @property
    def is_mixed(self) -> bool:
        """Whether it has a value of an evaluation, and no time or rate: the evaluation measures
        both losses of `step 500: train loss 4.49, val loss 4.54`.
        """
        return meanings.EVALUATION in self.kinds and self.kinds.keys().isdisjoint(meanings.TIMES)

    @functools.cached_property
    def kinds(self) -> Mapping[str, Field]:
        """The field of each kind; of several losses that with the plainest label (_plainness)."""
        found: dict[str, Field] = {}
        for field in self.fields:
            if field.kind is None:
                continue
            other = found.get(field.kind)
            if other is None or _plainness(field) < _plainness(other):
                found[field.kind] = field
        return found


def _plainness(field: Field) -> tuple[bool, int, int]:
    """Return a sort key that is smaller for plainer labels: `loss` comes before `train loss`, and
    `time per step` before `time`.
    """
    words = meanings.normalized(field.label).split()
    is_vague = field.kind == meanings.TIME and not meanings.is_of_step(field.label, field.unit)
    return (is_vague, len(words) or 9, field.place)


@dataclasses.dataclass(frozen=True)
class Piece:
    """The text of a line, or of a progress bar in it, and its numbers.

    Attributes:
        outline: what its numbers mean.
        printed: the numbers, as printed.
        stamp: the time stamp with the best resolution; None without one.
        text: the line without time stamps; a progress bar as _as_line() returns it.
        is_bar: whether it is a progress bar.
    """

    outline: Outline
    printed: tuple[str, ...]
    stamp: Stamp | None
    text: str
    is_bar: bool = False

    @property
    def is_full(self) -> bool:
        """Whether it is a progress bar at its end, such as 90/90."""
        count = self.outline.field(meanings.BAR)
        if not self.is_bar or count is None or count.total is None:
            return False
        return self.printed[count.place] == self.printed[count.total]

    @property
    def says_training(self) -> bool:
        """Whether it has a word such as `train` or `training`."""
        return meanings.says_training(self.text)


class Pieces:
    """Parses the lines of a text in order, since the labels of a table are in its header."""

    def __init__(self) -> None:
        self._header = ""

    def of(self, text: str) -> Iterator[Piece]:
        """Yield the parts of a line that may be of a step: a progress bar and the text after it."""
        if _EVENT_LOG in text:
            return
        text = text[:LONGEST]
        if text.lstrip()[:1] in (">", "#"):
            text = _QUOTE.sub("", text)
        if ("%|" in text or "<" in text) and (bar := _BAR.search(text)):
            if not _is_other_work(_title(bar)):
                yield from self._piece(_as_line(bar), None, is_bar=True)
            text = text[bar.end() :]
        stamp = None
        if text.count(":") > 1 and (match := _STAMP.search(text)):
            text, stamp = without_stamps(text, match)
        yield from self._piece(text, stamp)

    def _piece(self, text: str, stamp: Stamp | None, *, is_bar: bool = False) -> Iterator[Piece]:
        masked, spans = _numbers(text.translate(ZEROS))
        if not spans:
            if text.strip(_RULE):
                self._header = text
            return
        printed = tuple(text[begin:end] for begin, end in spans)
        outline = outline_of(masked)
        if self._header and _COLUMNS.fullmatch(masked):
            outline = _with_header(masked, self._header)
        elif len(printed) > 1:
            self._header = ""
        yield Piece(outline, printed, stamp, text, is_bar)


@functools.lru_cache(maxsize=8192)
def _numbers(spelled: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return a line with a NUL for each number, and where these stand. The digits of the line are
    zeros, so that lines which are as long as each other are looked at once.
    """
    spans = tuple(match.span() for match in NUMBER.finditer(spelled))
    return NUMBER.sub("\0", spelled), spans


@functools.lru_cache(maxsize=8192)
def _with_header(masked: str, header: str) -> Outline:
    """Return the outline of a row of a table, whose numbers have their labels in the header."""
    outline = outline_of(masked)
    for separator in (r"\|", r"\t", r"\s{2,}", ",", r"\s+"):
        labels = [label.strip() for label in re.split(separator, header.strip(" \t|"))]
        if len(labels) == len(outline.fields) > 1:
            named = []
            for field, label in zip(outline.fields, labels, strict=True):
                meaning = meanings.meaning_of(label)
                unit = field.unit or meanings.unit_in(label)
                kind = meaning.kind if meaning else None
                named.append(dataclasses.replace(field, label=label, kind=kind, unit=unit))
            return dataclasses.replace(outline, fields=tuple(named))
    return outline


def value_of(field: Field, printed: tuple[str, ...]) -> float | None:
    """Return the value of a field in the unit of a record, s for times; None if it is not a number,
    or a time or a rate beyond those of any step.
    """
    text = printed[field.place]
    if ":" in text:
        return seconds_of(text)
    value = number(text)
    if value is None or not math.isfinite(value):
        return value
    for factor in (field.factor, field.unit.factor if field.unit else "1"):
        if factor != "1":
            value = times(value, factor)
    return value if _is_possible(field.kind, value) else None


def _is_possible(kind: str | None, value: float) -> bool:
    """Return whether a value of a kind can be that of a step; a time may be one since 1970."""
    if kind == meanings.STEP_RATE:
        return not value or 1 / LONGEST_STEP <= value <= 1 / SHORTEST_STEP
    is_timing = kind in meanings.TIMES or kind == meanings.MEAN_TIME
    return not is_timing or abs(value) <= LARGEST_COUNT


def seconds_of(text: str) -> float:
    """Return a time such as `1 day, 2:03:04`, `2:03:04` or `03:04` (minutes and seconds) in s."""
    days, _, clock = text.rpartition(", ")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds + 86400 * int(days.split()[0] if days else 0)


def _title(bar: re.Match[str]) -> str:
    return bar.string[max(bar.start() - LONGEST_TITLE, 0) : bar.start()].strip()


def _is_other_work(title: str) -> bool:
    """Return whether the title of a progress bar says that it counts something else than steps."""
    return _OTHER_WORK.search(title) is not None and _OF_STEPS.search(title) is None


def _as_line(bar: re.Match[str]) -> str:
    """Return a progress bar as a line with labels: `Epoch 1, bar 12/90, elapsed 00:12, 4.00s/it`."""
    title = _title(bar)
    parts = [
        title.rstrip(":"),
        f"{meanings.BAR} {bar['count']}/{bar['total']}",
        f"elapsed {bar['elapsed']}",
    ]
    return " | ".join(filter(None, (*parts, bar["rate"], bar["more"])))


def without_stamps(text: str, first: re.Match[str]) -> tuple[str, Stamp | None]:
    """Return a line with a tab for each time stamp, and the stamp with the best resolution, None if
    none is valid. `first` is the match of the first stamp.
    """
    matches = [first]
    if _CLOCK.search(text, first.end()):
        matches += _STAMP.finditer(text, first.end())
    found = []
    for match in matches:
        # first_stamp() also knows offsets from UTC, which _as_stamp() ignores.
        if (stamp := first_stamp(match[0]) or _as_stamp(match)) is not None:
            found.append(stamp)
    for match in reversed(matches):
        text = f"{text[: match.start()]}\t{text[match.end() :]}"
    return text, min(found, key=lambda stamp: stamp.resolution, default=None)


def _as_stamp(match: re.Match[str]) -> Stamp | None:
    """Return the time stamp of a match without its UTC offset; None for an impossible time."""
    year, month, day = _date(match)
    fraction = match["fraction"] or ""
    hour = int(match["hour"])
    shown = match[0].upper()
    if shown.endswith("PM"):
        hour = hour % 12 + 12
    elif shown.endswith("AM"):
        hour %= 12
    try:
        time = datetime.datetime(
            year, month, day, hour, int(match["minute"]), int(match["seconds"]),
            int(fraction[:6].ljust(6, "0")),
        )  # fmt: skip
    except ValueError:
        return None
    return Stamp(time, 10.0 ** -min(len(fraction), 6))


def _date(match: re.Match[str]) -> tuple[int, int, int]:
    """Return year, month and day; NO_YEAR without a year, and 1 January without a date."""
    if match["year"]:
        return int(match["year"]), int(match["month"]), int(match["day"])
    if match["packed"]:
        packed = match["packed"]
        return int(packed[:4]), int(packed[4:6]), int(packed[6:])
    if match["late_year"]:
        first, second = int(match["first"]), int(match["second"])
        year = int(match["late_year"])
        # 31/01/2026 has its day first, 01/31/2026 its month.
        month, day = (second, first) if first > 12 else (first, second)
        return (year + 2000 if year < 100 else year), month, day
    if match["short"]:
        return NO_YEAR, int(match["short"][:2]), int(match["short"][3:])
    if match["glog"]:
        return NO_YEAR, int(match["glog"][:2]), int(match["glog"][2:])
    if match["name"]:
        return NO_YEAR, _MONTHS.index(match["name"].lower()) + 1, int(match["date"])
    return NO_YEAR, 1, 1


@functools.lru_cache(maxsize=8192)
def outline_of(outline: str) -> Outline:
    """Parse the outline of a line, in which each number is replaced by a NUL."""
    gaps = outline.split("\0")
    fields: list[Field] = []
    used = 0
    is_of_interval = False
    for place, (gap, behind) in enumerate(itertools.pairwise(gaps)):
        ahead = gap[used:]
        unit, factor, used = meanings.unit_of(behind)
        if unit and place < len(gaps) - 2 and _labels_next(ahead, behind, unit, behind[used:]):
            unit, factor, used = None, "1", 0
        before = fields[-1] if fields else None
        if before and before.place == place - 1 and _RELATED.fullmatch(ahead):
            fields[-1] = dataclasses.replace(
                before, total=place, kind=_kind_of_count(before, behind)
            )
            continue
        is_last = place == len(gaps) - 2
        field = _field(place, ahead, behind[used:], unit, factor, is_last=is_last)
        if _are_one_time(before, ahead, unit):
            assert before is not None
            fields[-1] = dataclasses.replace(before, kind=meanings.IGNORED)
            field = dataclasses.replace(field, kind=meanings.IGNORED)
        if field.kind == meanings.TIME and meanings.counts_steps(behind):
            # The 100 of `Time (100 iters): 2.3 s` is a number of steps, and 2.3 s is their time.
            field = dataclasses.replace(field, kind=meanings.IGNORED)
            is_of_interval = True
        elif is_of_interval:
            is_of_interval = False
            if field.kind in (None, meanings.TIME) or (field.unit and field.unit.is_time):
                field = dataclasses.replace(field, label="", kind=meanings.INTERVAL)
        # In `0.512 (0.498)` the second number is a mean. In `4.37 (80.6 ms)` it is a time.
        is_mean = place and not field.label and _AGAIN.fullmatch(ahead)
        is_other = before is not None and field.kind == meanings.TIME != before.kind
        if not is_mean or is_other:
            fields.append(field)
    if _says_generation(fields):
        fields = [field for field in fields if field.kind not in meanings.RATES]
    words = sum(len(_WORD.findall(gap)) for gap in gaps)
    is_evaluation = meanings.is_of_evaluation(gaps[0], outline)
    return Outline(tuple(fields), words, is_evaluation)


def _labels_next(ahead: str, behind: str, unit: Unit, rest: str) -> bool:
    """Return whether what looks like the unit of a number is the label of the next one: `tok/s` in
    `tokens 1000 tok/s 2000` and in `loss 3.9 tok/s=2000`.
    """
    if not behind[:1].isspace() or rest.strip(" '\"") not in ("", "=", ":"):
        return False
    if rest.strip():
        return True
    meaning = meanings.meaning_of(label_of(ahead))
    if meaning is None or (unit.is_time and meaning.kind in _MAY_BE_TIMES):
        return False
    is_same = meaning.kind.startswith(unit.kind) if unit.kind else False
    return not is_same and not {meaning.kind, unit.kind} <= {meanings.TIME, meanings.STEP_RATE}


def _are_one_time(before: Field | None, ahead: str, unit: Unit | None) -> bool:
    """Return whether a number goes on with the time of the one before, as in 1 m 7 s."""
    if before is None or before.unit is None or unit is None or ahead.strip():
        return False
    return before.unit.is_long and unit.is_time


def _kind_of_time(what: str) -> str:
    """Return the kind of a time without a label, by the words behind its unit, if there are any: `data`
    in 0.1 s data, `left` in 99 s left.
    """
    if not what:
        return meanings.TIME
    meaning = meanings.meaning_of(f"{what} time")
    if meaning is None or meanings.is_qualified(f"{what} time", None):
        return meanings.IGNORED
    return meaning.kind


def _says_generation(fields: Sequence[Field]) -> bool:
    """Return whether a line without a loss has numbers of a generation: its tokens per second aren't
    those of the training.
    """
    has_loss = any(field.kind == "loss" for field in fields)
    return not has_loss and any(_GENERATION.match(field.label) for field in fields)


def _kind_of_count(field: Field, behind: str) -> str | None:
    """Return the kind of a count with a total, which the word behind the total may state:
    2600/2983 batches.
    """
    if field.kind is None and meanings.counts_steps(behind):
        return meanings.STEP
    return field.kind


def _label_behind(behind: str, *, is_last: bool) -> str:
    """Return the label behind a number, as in `10.5 loss, 18.70 s`; empty if the text there is the
    label of the next number, as in `78) loss: 9.2`.
    """
    first, *others = DELIMITER.split(behind.strip())
    is_own = bool(others) or is_last
    return label_of(first) if is_own and _WORD.search(first) else ""


def _field(
    place: int, ahead: str, behind: str, unit: Unit | None, factor: str, *, is_last: bool
) -> Field:
    """Return a number of an outline by the text before it and the text behind it."""
    label = label_of(ahead)
    if not label and unit is None:
        label = _label_behind(behind, is_last=is_last)
    meaning = meanings.meaning_of(label)
    kind = meaning.kind if meaning else None
    if unit is not None and unit.kind:
        if kind not in (meanings.EVALUATION, meanings.IGNORED, meanings.AVERAGED):
            kind = meanings.with_scope(unit.kind, label)
    elif unit is not None and unit.is_time and kind is None and unit.is_long:
        # No step is printed in hours or minutes: 3 h, 12 m is the remaining time of a training.
        kind = meanings.IGNORED
    elif unit is not None and unit.is_time and kind is None:
        # An arrow or a star behind the unit begins a remark, which doesn't say what the time is of.
        what = _label_behind(behind, is_last=is_last) if _SAYS_OF_WHAT.match(behind) else ""
        # The 10.2 s of `10.2 s per 10 steps` is no step's.
        is_of_several = behind.strip() == "per"
        # A time with an unknown label is that of a part of a step: `Forward 490 ms`.
        kind = meanings.IGNORED if label or is_of_several else _kind_of_time(what)
    elif kind == meanings.AVERAGED:
        kind = meanings.kind_of_mean(label)
    if kind == "mfu_percent" and ("%" in label or behind.lstrip().startswith("%")):
        unit = meanings.PERCENT
    if factor == "1" and kind in meanings.RATES:
        # Mtok/s and mtps count in millions.
        factor = meanings.multiplier_in(label)
    return Field(place, label, kind, unit or meanings.unit_in(label), factor)


def label_of(ahead: str) -> str:
    """Return the label at the end of the text before a number: `time (ms)` of `| time (ms): `."""
    shown = ahead.rstrip(_TRAILING)
    unit = ""
    if shown.endswith(("]", ")")):
        begin = max(shown.rfind("["), shown.rfind("("))
        if meanings.unit_in(shown[begin:]):
            unit = f" ({shown[begin + 1 : -1]})"
            shown = shown[:begin].rstrip(_TRAILING)
    last = DELIMITER.split(shown)[-1]
    label = last.strip(" '\"`:=*-.)]}")
    return label + unit if _LETTER.search(label) else ""
