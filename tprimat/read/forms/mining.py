"""Find the line form that recurs in a text, and the number in it that counts the steps.

The lines of a training repeat one form with changing numbers; other output of a program doesn't.
The number that counts the steps has a label that says so, or else behaves like a counter: it is
whole and rises by one stride from line to line, as 10, 20, 30.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence

from tprimat.catalog import meanings
from tprimat.read.forms.fields import LONGEST, Field, Piece, Pieces, value_of
from tprimat.read.parsing.events import has_sign
from tprimat.read.parsing.text import ZEROS, Line
from tprimat.read.parsing.values import whole
from tprimat.redaction import REMOVED, redacted, redacted_start
from tprimat.results.fields import LARGEST_COUNT
from tprimat.text import plain

ALL_LOOKED_AT = 2_000
"""Number of lines at the start of a text that are all parsed; later ones only with one of SIGNS."""

SIGNS = (
    "loss",
    "step",
    "iter",
    "it/s",
    "epoch",
    "lr",
    "learn",
    "tok",
    "sample",
    "batch",
    "time",
    "s/",
    "update",
    "%|",
)
"""Lines of steps contain at least one of these, in lower case."""

MOST_ROWS = 10_000
"""Most lines that are kept to find the form."""

OF_TRAINING = frozenset((
    "loss", meanings.MEAN_LOSS, "aux_loss", "learning_rate", "grad_norm",
    meanings.TIME, meanings.MEAN_TIME, meanings.INTERVAL, meanings.STEP_RATE,
    "tokens_per_second", "tokens_per_second_per_gpu", "samples_per_second", "samples_per_second_per_gpu",
    "tflops_per_gpu", "mfu_percent",
))  # fmt: skip
"""Kinds of values of which each record has at least one."""

PROOF = frozenset((
    "loss", meanings.MEAN_LOSS, "aux_loss", "learning_rate", "grad_norm", "tflops_per_gpu", "mfu_percent",
))  # fmt: skip
"""Kinds that only a training prints. Steps with a time alone may be those of other work."""

OF_A_ROW = OF_TRAINING | {meanings.STEP, meanings.MICRO_STEP, meanings.EPOCH}
"""Kinds of values of which each line that is kept has at least one."""

FEWEST = 2
"""Fewest records of a form: a line by itself doesn't show what changes."""

FEWEST_IN_ORDER = 3
"""Fewest records if no number counts them."""

SHARE = 0.3
"""Share of the lines of a training that must have a number that counts the steps. One that fewer
lines have is of a progress bar or of something else. Also the share of the records that must have a
value.
"""

STEADY = 0.7
"""Share of its rises that have the same stride, and share of the lines of a training that have it,
from which on a number without a label counts the steps.
"""

TERSE = 3.0
"""Most words per number in the lines of a short text: prose about a training has numbers, too, but
more words.
"""

CHANGING = 0.5
"""Share of distinct values per line above which a refusal names an unknown number, since it may be
a time; one that seldom changes is a setting.
"""

MOST_UNKNOWN = 3
"""Most numbers without a meaning that a refusal names."""

LONGEST_LABEL = 50
"""Characters of a label that are shown."""

SHORT = 5
"""In a text with fewer records each must be terse."""

_RANKS = (
    ("global", "optimizer", "opt"),
    ("step", "steps"),
    ("update", "updates"),
    ("iteration", "iterations", "iter", "iters"),
)
"""Words of labels that count optimizer steps, the clearest first."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A line that may be of a training."""

    line: int
    piece: Piece

    @property
    def is_training(self) -> bool:
        """Whether it has a value of a training step."""
        outline = self.piece.outline
        return not outline.is_evaluation and not OF_TRAINING.isdisjoint(outline.kinds)

    @property
    def is_terse(self) -> bool:
        """Whether it has few words for its numbers, unlike prose."""
        return self.piece.outline.words <= TERSE * len(self.piece.printed)


@dataclasses.dataclass(frozen=True)
class Form:
    """The form of the lines of a training.

    Attributes:
        counter: key of the number that counts the steps; "" if the order of the lines does.
        is_stated: whether the counter's label says that it counts steps.
        counter_label: what counts the steps, as shown to the user; None if the order of the lines
            does.
        micro: key of the number that counts micro-batches; None without one.
        micro_batches: lines per step, if micro-batches are counted.
        epoch: key of the epoch, if the counter begins again in each one; else None.
        closes: whether the line in which the counter rises is that of the step's last
            micro-batch, not that of the next step's first one.
        counts_total: whether the total counts the steps: of `7/300`, `7/400` the 300 and 400.
        closed: steps per epoch, if only the end of each epoch is printed (196/196); else None.
        is_mixed: whether its records are lines with losses of training and of evaluation.
        has_bars: whether its records are progress bars.
        has_rates: whether its lines print tokens/s or samples/s.
        has_copies: whether several processes print each step.
        counts_epochs: whether each record is an epoch, not a step.
        stride: usual number of steps from one record to the next.
        has_total: whether the total of the counter is printed with it, as in 1/90.
        has_steady_total: whether the total changes only where another training begins.
        is_single: whether the text has only one line of a training.
        is_proven: whether a loss or a word says that it is a training.
        keys: those of the numbers that recur; others are ignored.
        labels: the printed label of each kind of value, as it can be shown.
        elapsed: key of a number without a label that rises like a time since the start; None
            without one.
        unknown: labels of numbers that change from line to line and whose meaning is unknown.
        example: the line with the most kinds of values: its number and its text.
    """

    counter: str
    is_stated: bool
    counter_label: str | None = None
    micro: str | None = None
    micro_batches: int = 1
    epoch: str | None = None
    closes: bool = False
    counts_total: bool = False
    closed: int | None = None
    is_mixed: bool = False
    has_bars: bool = False
    has_rates: bool = False
    has_copies: bool = False
    counts_epochs: bool = False
    stride: int = 1
    has_total: bool = False
    has_steady_total: bool = False
    is_single: bool = False
    is_proven: bool = True
    keys: frozenset[str] = frozenset()
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    elapsed: str | None = None
    unknown: tuple[str, ...] = ()
    example: tuple[int, str] = (0, "")


def shown_place(key: str) -> str:
    """Return what a number without a label is called for the user, by its key."""
    return f"number {int(key[1:]) + 1} of the line"


def _shown(field: Field, row: Row) -> str:
    """Return what a number of a row is called for the user: its label, or its place in the line."""
    if field.key.startswith("#"):
        return shown_place(field.key)
    return f"“{safe_label(field.label, row.piece.text)}”"


def safe_label(label: str, line: str) -> str:
    """Return the label of a number as it can be shown and saved: short, and without secrets.

    Where the line has a secret, of which the label may be a part, what says its meaning is left.
    """
    line = plain(line)
    label = plain(label)
    text = redacted(line)
    at = line.translate(ZEROS).find(label)
    if at >= 0:
        # Outlines have zeros for digits.
        label = line[at : at + len(label)]
    if text != line and label not in text:
        label = meanings.words_of(label) or REMOVED
    return redacted_start(label, LONGEST_LABEL)


@dataclasses.dataclass
class _Count:
    """A number that may count the steps.

    Attributes:
        field: in the first line that has it.
        rows: indices of the rows that have it.
        values: one for each of these rows.
        totals: likewise; None for a value without a total.
        is_total: whether the total counts the steps: of 7/300, 7/400 the 7 is an epoch.
        closed: steps per epoch, if only the ends of epochs are printed (196/196); else None.
    """

    field: Field
    rows: list[int] = dataclasses.field(default_factory=list)
    values: list[int] = dataclasses.field(default_factory=list)
    totals: list[int | None] = dataclasses.field(default_factory=list)
    is_total: bool = False
    closed: int | None = None

    def settle(self) -> None:
        """Find out whether the totals count the steps, or only the ends of epochs are printed, and
        set the values accordingly: 196/196 twice are steps 196 and 392.
        """
        totals = [total for total in self.totals if total is not None]
        if len(totals) < len(self.values) or len(totals) < FEWEST:
            return
        if _rises(totals) > self.rises():
            self.is_total = True
            self.values = totals
            return
        usual, times = collections.Counter(totals).most_common(1)[0]
        full = [value == total == usual for value, total in zip(self.values, totals, strict=True)]
        if times >= FEWEST and sum(full) == times and not self.rises() > len(totals) / 2:
            self.closed = usual
            self.rows = [row for row, is_full in zip(self.rows, full, strict=True) if is_full]
            self.values = [usual * (number + 1) for number in range(times)]

    def stride(self) -> int:
        """Return the most frequent rise."""
        strides = collections.Counter(
            later - value for value, later in itertools.pairwise(self.values) if later > value
        )
        return strides.most_common(1)[0][0] if strides else 1

    def has_steady_total(self) -> bool:
        """Return whether no total returns after another one: 90, 90, 60, 60, but not 90, 60, 90."""
        totals = [total for total in self.totals if total is not None]
        stretches = [total for total, _ in itertools.groupby(totals)]
        return bool(stretches) and len(stretches) == len(set(stretches))

    def rises(self) -> int:
        """Return how often it rises from one row to the next."""
        return _rises(self.values)

    def falls(self) -> int:
        """Return how often it falls from one row to the next."""
        return sum(later < value for value, later in itertools.pairwise(self.values))

    def is_steady(self) -> bool:
        """Return whether most of its rises have the same stride, and it rarely falls."""
        strides = collections.Counter(
            later - value for value, later in itertools.pairwise(self.values) if later > value
        )
        rises = strides.total()
        if rises < FEWEST or self.falls() > rises / 2:
            return False
        return strides.most_common(1)[0][1] >= STEADY * rises


def _rises(values: Sequence[int]) -> int:
    return sum(later > value for value, later in itertools.pairwise(values))


class Miner:
    """Finds the form of a text from its lines."""

    def __init__(self) -> None:
        self._pieces = Pieces()
        self.rows: list[Row] = []
        self._lines = 0

    def feed(self, line: Line) -> None:
        """Take the next line."""
        if len(self.rows) >= MOST_ROWS:
            return
        self._lines += 1
        text = line.text
        if self._lines > ALL_LOOKED_AT and not has_sign(text[:LONGEST].lower(), SIGNS):
            return
        for piece in self._pieces.of(text):
            if not OF_A_ROW.isdisjoint(piece.outline.kinds):
                self.rows.append(Row(line.number, piece))

    def form(self) -> Form | None:
        """Return the form of the training in the text; None if no form recurs, or none is of a
        training.
        """
        rows = _without_other_bars(self.rows)
        training = [row for row in rows if row.is_training and not row.piece.outline.is_mixed]
        is_mixed = len(training) < FEWEST
        if is_mixed:
            training = [row for row in rows if row.is_training]
        if len(training) < SHORT:
            training = [row for row in training if row.is_terse]
        if len(training) == 1:
            return _form_of_line(training[0])
        if len(training) < FEWEST:
            return None
        counts = _counts(rows)
        stated = _stated_counter(counts, rows, training)
        count = stated or _by_behavior(counts, rows, training)
        main = _main(training, count)
        is_proven = _is_proven(training, count)
        if not is_proven and (count is None or len(main) < SHORT):
            return None
        if count is None:
            return _form_of_list(training, main, counts)
        keys = _recurring(training, main)
        labels = _labels(main, keys)
        micro = _micro_counter(count, counts)
        return Form(
            counter=count.field.key,
            is_stated=stated is not None or _is_of_epoch(count, rows),
            counter_label=_shown(count.field, rows[count.rows[0]]),
            micro=micro,
            micro_batches=_lines_of_a_step(count) if micro else 1,
            epoch=_epoch(count, counts),
            closes=micro is not None and _closes(count, rows),
            counts_total=count.is_total,
            closed=count.closed,
            stride=count.stride(),
            has_total=count.field.total is not None,
            has_steady_total=count.has_steady_total(),
            has_copies=micro is None and _has_copies(count, rows),
            is_mixed=is_mixed,
            is_proven=is_proven,
            has_bars=any(row.piece.is_bar for row in training),
            has_rates=not labels.keys().isdisjoint(meanings.RATES),
            keys=keys,
            labels=labels,
            elapsed=None if labels.keys() & meanings.TIMES else _elapsed(count, rows),
            unknown=_unknown(main, count),
            example=_example(main, count),
        )


def _elapsed(count: _Count, rows: Sequence[Row]) -> str | None:
    """Return the key of a number without a label that rises about equally per step, as a time since
    the start does: of [10 | 28.8], [20 | 50.8], [30 | 73.0] the second one.
    """
    seconds: dict[str, list[float]] = {}
    for row in count.rows:
        piece = rows[row].piece
        for field in piece.outline.fields:
            value = value_of(field, piece.printed) if field.kind is None else None
            if value is not None and not field.label and field.key != count.field.key:
                seconds.setdefault(field.key, []).append(value)
    strides = [later - value for value, later in itertools.pairwise(count.values)]
    for key, values in seconds.items():
        if len(values) != len(count.values) or len(values) < SHORT or min(strides) <= 0:
            continue
        pairs = zip(itertools.pairwise(values), strides, strict=True)
        rates = [(later - value) / stride for (value, later), stride in pairs]
        usual = statistics.median(rates)
        even = sum(abs(rate - usual) <= usual / 2 for rate in rates)
        if min(rates) > 0 and even >= STEADY * len(rates):
            return key
    return None


def _form_of_list(
    training: Sequence[Row], main: Sequence[Row], counts: Mapping[str, _Count]
) -> Form | None:
    """Return the form of lines without a counter; None if they are not a list of records."""
    if not _is_list(main):
        return None
    keys = _recurring(training, main)
    labels = _labels(main, keys)
    return Form(
        counter="",
        is_stated=False,
        counts_epochs=_counts_epochs(counts, len(main)),
        has_bars=any(row.piece.is_bar for row in training),
        has_rates=not labels.keys().isdisjoint(meanings.RATES),
        keys=keys,
        labels=labels,
        unknown=_unknown(main, None),
        example=_example(main, None),
    )


def _form_of_line(row: Row) -> Form | None:
    """Return the form of the only line of a training; None if it lacks one of these: a step with
    its total, a loss or another kind of PROOF, and a time or a rate.
    """
    kinds = row.piece.outline.kinds
    step = kinds.get(meanings.STEP)
    is_timed = not kinds.keys().isdisjoint(meanings.TIMES)
    if step is None or step.total is None or PROOF.isdisjoint(kinds) or not is_timed:
        return None
    keys = frozenset(field.key for field in kinds.values())
    labels = _labels([row], keys)
    return Form(
        counter=step.key,
        is_stated=True,
        counter_label=_shown(step, row),
        is_single=True,
        has_total=True,
        has_bars=row.piece.is_bar,
        has_rates=not labels.keys().isdisjoint(meanings.RATES),
        keys=keys,
        labels=labels,
        example=(row.line, row.piece.text),
    )


def _without_other_bars(rows: Sequence[Row]) -> list[Row]:
    """Return the rows without progress bars if other lines have a loss, since bars may count other
    work. Bars are kept if they reach the ends of epochs and nothing else counts the steps.
    """
    others = [row for row in rows if not row.piece.is_bar]
    with_loss = [row for row in others if row.is_training and "loss" in row.piece.outline.kinds]
    if not with_loss:
        return list(rows)
    counted = any(meanings.STEP in row.piece.outline.kinds for row in with_loss)
    if not counted and sum(row.piece.is_full for row in rows) >= FEWEST:
        return list(rows)
    return others


def _counts(rows: Sequence[Row]) -> dict[str, _Count]:
    """Return the whole numbers of the rows that rise, by their keys."""
    counts: dict[str, _Count] = {}
    for index, row in enumerate(rows):
        if row.piece.outline.is_evaluation:
            continue
        for field in row.piece.outline.fields:
            if field.kind not in (None, meanings.STEP, meanings.MICRO_STEP, meanings.EPOCH):
                continue
            value = value_of(field, row.piece.printed)
            if value is None or not value.is_integer() or field.unit is not None:
                continue
            if not 0 <= value <= LARGEST_COUNT:
                continue
            count = counts.setdefault(field.key, _Count(field))
            count.rows.append(index)
            count.values.append(int(value))
            printed = row.piece.printed
            count.totals.append(None if field.total is None else whole(printed[field.total]))
    for count in counts.values():
        count.settle()
    return {key: count for key, count in counts.items() if count.rises()}


def _is_total(count: _Count, counts: Mapping[str, _Count]) -> bool:
    """Return whether a number is the number of steps of an epoch: it usually stays the same when
    the epoch rises.
    """
    for other in counts.values():
        if other.field.kind == meanings.EPOCH:
            epochs = dict(zip(other.rows, other.values, strict=True))
            pairs = itertools.pairwise(zip(count.rows, count.values, strict=True))
            standing = [
                epochs.get(row, 0) > epochs.get(before, 0)
                for (before, value), (row, later) in pairs
                if later == value
            ]
            if len(standing) >= FEWEST and sum(standing) > len(standing) / 2:
                return True
    return False


def _rank(field: Field) -> int:
    """Return the rank of a label among those that count optimizer steps; 0 is the clearest."""
    words = set(meanings.normalized(field.label).split())
    for rank, names in enumerate(_RANKS):
        if words.intersection(names):
            return rank
    return len(_RANKS) + (field.label == meanings.BAR)


def _stated_counter(
    counts: Mapping[str, _Count], rows: Sequence[Row], training: Sequence[Row]
) -> _Count | None:
    """Return the number whose label says that it counts steps; of several preferably one that
    doesn't begin again, and that with the clearest label.
    """
    found = []
    for count in counts.values():
        if count.field.kind != meanings.STEP or _is_total(count, counts):
            continue
        beside = sum(rows[index].is_training for index in count.rows)
        # The step may be in the header of a block, whose values are in the lines below it.
        is_header = beside < SHARE * len(count.rows)
        enough = len(count.rows) if is_header else beside
        if enough >= FEWEST and (is_header or beside >= SHARE * _most_alike(training)):
            begins_again = count.falls() > 0.02 * len(count.rows)
            found.append((is_header, begins_again, _rank(count.field), -beside, count.field.key))
    if not found:
        return None
    return counts[min(found)[-1]]


def _most_alike(training: Sequence[Row]) -> int:
    """Return how many lines have the most frequent set of kinds."""
    kinds = collections.Counter(
        frozenset(row.piece.outline.kinds) & OF_TRAINING for row in training
    )
    return kinds.most_common(1)[0][1]


def _by_behavior(
    counts: Mapping[str, _Count], rows: Sequence[Row], training: Sequence[Row]
) -> _Count | None:
    """Return the number of unknown meaning that behaves like a step: 490, 500, 510, each in a line
    with a loss.
    """
    found = []
    for key, count in counts.items():
        beside = sum(rows[index].is_training for index in count.rows)
        is_steady = count.is_steady() or (_is_of_epoch(count, rows) and not count.falls())
        if count.field.kind is None and beside >= STEADY * _most_alike(training):
            # 10, 186, 700 rise unevenly, but are the first number of each line.
            is_first = count.field.place == 0 and count.rises() == len(count.values) - 1 >= FEWEST
            if is_steady or is_first:
                found.append((not is_steady, -beside, count.field.place, key))
    if not found:
        return None
    return counts[min(found)[-1]]


def _is_of_epoch(count: _Count, rows: Sequence[Row]) -> bool:
    """Return whether a number without a label is the count and total behind an epoch: the 120/196 of
    `Epoch [1][120/196]`.
    """
    fields = rows[count.rows[0]].piece.outline.fields
    index = next(index for index, field in enumerate(fields) if field.key == count.field.key)
    return count.field.total is not None and index > 0 and fields[index - 1].kind == meanings.EPOCH


def _micro_counter(count: _Count, counts: Mapping[str, _Count]) -> str | None:
    """Return the key of the number that counts micro-batches: it rises about twice as often as the
    step or more, as iterations 1 to 8 in steps 1 to 4.
    """
    for key, other in counts.items():
        if other is count or other.field.kind not in (meanings.STEP, meanings.MICRO_STEP):
            continue
        is_beside = len(set(other.rows) & set(count.rows)) >= STEADY * len(count.rows)
        if is_beside and other.is_steady() and other.rises() + 1 >= 1.9 * count.rises():
            return key
    return None


def _lines_of_a_step(count: _Count) -> int:
    """Return the usual number of lines per step."""
    lengths = collections.Counter(len(list(group)) for _, group in itertools.groupby(count.values))
    return lengths.most_common(1)[0][0]


def _epoch(count: _Count, counts: Mapping[str, _Count]) -> str | None:
    """Return the key of the epoch, if the counter begins again when it rises by one: it stands beside
    the counter, or in a heading. The epoch falls when another training begins.
    """
    for key, other in counts.items():
        if other.field.kind != meanings.EPOCH or not count.falls():
            continue
        epochs = dict(zip(other.rows, other.values, strict=True))
        if not epochs.keys() & set(count.rows):
            is_other = other.is_total or other.closed is not None or len(set(other.totals)) > 1
            if is_other or other.rows[0] > count.rows[0]:
                continue
            epochs = _below(epochs, count.rows)
        changes = [
            epochs.get(row, 0) - epochs.get(before, 0)
            for (before, value), (row, later) in itertools.pairwise(
                zip(count.rows, count.values, strict=True)
            )
            if later < value
        ]
        fitting = sum(change == 1 or change < 0 for change in changes)
        if 1 in changes and fitting >= STEADY * len(changes):
            return key
    return None


def _below(headings: Mapping[int, int], rows: Sequence[int]) -> dict[int, int]:
    """Return the number of the last heading above each row: `Epoch 1/3`, and its batches below."""
    found = {}
    last = 0
    for row in sorted({*headings, *rows}):
        last = headings.get(row, last)
        found[row] = last
    return found


def _closes(count: _Count, rows: Sequence[Row]) -> bool:
    """Return whether the lines in which the counter rises have another number of words than the
    rest, and therefore end a step: `iter 2 step 1 … (optimizer.step)`.
    """
    pairs = zip(itertools.pairwise(count.values), count.rows[1:], strict=True)
    rising = collections.Counter[tuple[bool, int]]()
    for (before, value), row in pairs:
        rising[value > before, rows[row].piece.outline.words] += 1
    return not {words for is_rise, words in rising if is_rise} & {
        words for is_rise, words in rising if not is_rise
    }


def _is_proven(training: Sequence[Row], count: _Count | None) -> bool:
    """Return whether rows are of a training, not of prose or of other work with a counter."""
    with_proof = sum(not PROOF.isdisjoint(row.piece.outline.kinds) for row in training)
    if with_proof < min(FEWEST, len(training)):
        return count is not None and any(row.piece.says_training for row in training)
    return True


def _main(training: Sequence[Row], count: _Count | None) -> list[Row]:
    """Return the lines of the form: those with the counter, or, without a counter or if it is in a
    header, those with the most frequent set of kinds.
    """
    key = count.field.key if count else ""
    main = [row for row in training if row.piece.outline.field(key) is not None]
    if len(main) >= FEWEST:
        return main
    kinds = collections.Counter(
        frozenset(row.piece.outline.kinds) & OF_TRAINING for row in training
    )
    frequent = kinds.most_common(1)[0][0]
    return [row for row in training if frequent <= row.piece.outline.kinds.keys()]


def _recurring(training: Iterable[Row], main: Sequence[Row]) -> frozenset[str]:
    """Return the keys of the numbers that enough records have (SHARE), in their line or in those up
    to the next record.
    """
    first_lines = set(main)
    records: dict[str, set[int]] = {}
    record = 0
    for row in training:
        record += row in first_lines
        for field in row.piece.outline.kinds.values():
            records.setdefault(field.key, set()).add(record)
    return frozenset(key for key, of in records.items() if len(of) >= SHARE * len(main))


def _has_copies(count: _Count, rows: Sequence[Row]) -> bool:
    """Return whether several processes print each step: most steps have several lines near each
    other with the same kinds of values.

    Consecutive trainings repeat steps, too, but farther apart: in two with 3 records each, the
    lines of a step are 3 apart.
    """
    places: dict[tuple[int, frozenset[str]], list[int]] = {}
    for place, (row, value) in enumerate(zip(count.rows, count.values, strict=True)):
        if rows[row].is_training:
            kinds = frozenset(rows[row].piece.outline.kinds)
            places.setdefault((value, kinds), []).append(place)
    apart = [later - place for each in places.values() for place, later in itertools.pairwise(each)]
    repeated = sum(len(each) > 1 for each in places.values())
    if repeated <= len(places) / 2:
        return False
    return statistics.median(apart) <= max(1, len(places) // 2)


def _counts_epochs(counts: Mapping[str, _Count], records: int) -> bool:
    """Return whether each record is an epoch, so that its time is not that of a step."""
    return any(
        count.field.kind == meanings.EPOCH and count.rises() + 1 >= STEADY * records
        for count in counts.values()
    )


def _is_list(main: Sequence[Row]) -> bool:
    """Return whether lines without a counter are a list of records: enough of them, with few words,
    and most of them with the same fields.
    """
    # Fields, not outlines: steps 9 and 10 may differ in their padding.
    alike = collections.Counter(row.piece.outline.fields for row in main)
    return (
        len(main) >= FEWEST_IN_ORDER
        and alike.most_common(1)[0][1] >= STEADY * len(main)
        and all(row.is_terse for row in main)
    )


def _labels(main: Iterable[Row], keys: frozenset[str]) -> dict[str, str]:
    """Return the most frequent label of each kind."""
    found: dict[str, collections.Counter[str]] = {}
    lines: dict[str, str] = {}
    for row in main:
        for kind, field in row.piece.outline.kinds.items():
            if field.key in keys:
                found.setdefault(kind, collections.Counter())[field.label] += 1
                lines.setdefault(field.label, row.piece.text)
    usual = {kind: labels.most_common(1)[0][0] for kind, labels in found.items()}
    return {kind: label and safe_label(label, lines[label]) for kind, label in usual.items()}


def _unknown(main: Sequence[Row], count: _Count | None) -> tuple[str, ...]:
    """Return the labels of numbers that change from line to line and whose meaning is unknown."""
    printed: dict[str, list[str]] = {}
    first: dict[str, tuple[Field, Row]] = {}
    for row in main:
        for field in row.piece.outline.fields:
            if field.kind is None and (count is None or field.key != count.field.key):
                first.setdefault(field.key, (field, row))
                printed.setdefault(field.key, []).append(row.piece.printed[field.place])
    keys = [key for key, values in printed.items() if len(set(values)) > CHANGING * len(main)]
    return tuple(_shown(*first[key]) for key in keys[:MOST_UNKNOWN])


def _example(main: Sequence[Row], count: _Count | None) -> tuple[int, str]:
    """Return the line with the most kinds of values, if possible with the counter: its number and
    its text.
    """
    key = count.field.key if count else ""

    def says(row: Row) -> tuple[bool, int]:
        outline = row.piece.outline
        return any(field.key == key for field in outline.fields), len(outline.kinds)

    row = max(main, key=says)
    return row.line, row.piece.text
