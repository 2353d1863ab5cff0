"""The time of a step, from all that the records of a training say about it.

A text may print a step's time, a rate, the time since the start, and time stamps. Each is a clock;
two that agree show what a number means, whatever its label says. A number without a unit that is a
thousand times what the stamps say is in milliseconds, one that is ten times as large where every
tenth step is printed is of ten steps, and one that grows like the stamps counts from the start.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Container, Iterator, Sequence

from tprimat.notes import Note
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.values import digits
from tprimat.results.fields import LONGEST_STEP, SHORTEST_STEP

AGREEMENT = 0.03
"""Share by which two clocks of the same steps differ at most: what is between two steps belongs to
one of them, and rates are rounded.
"""

FAINT = 4.0
"""Resolutions that pass on a clock between the first and the last record at least, if it says
anything: 4 s in whole seconds are 3 to 5 s, which tells seconds from milliseconds.
"""

FEWEST = 3
"""Differences that make a clock: of two, one may hold an evaluation."""

LONGER = 0.05
"""Share by which steps may take longer together than the whole training, for rounding."""

CLEAR = 4.0
"""Resolutions from which on a single difference says something: 4 s in whole seconds are 3 to 5 s."""

PART = 0.5
"""Share of the time that passed, below which a printed time isn't a step's, but of a part of it or
of the dispatch of its work.
"""

GROWTH = 1.5
"""How many times as large the last of the printed times that only rise is at least, if they count
from the start: a step that slows down from 1.00 to 1.02 s doesn't.
"""

PROPORTIONAL = 3
"""How many times as many steps the last record has at least as the first one, if times that grow
like them count from the start.
"""

LEAST_DIGITS = 3
"""Significant digits of a rate that gives a time: 1.2 steps/s are 0.80 to 0.87 s."""

PRINTED = "printed_time"
"""Where a record holds the printed time until it is known what that is."""

COARSE = 0.05
"""Share by which a time may be off, for the resolution of its clock, that is read without asking."""

VARYING = 0.75
"""Share of the distances between time stamps that are within half of the typical one at least, if
they are taken for the times of steps.
"""

Series = Sequence[float | None]
"""A value for each record; None where it has none."""


@dataclasses.dataclass
class Timed:
    """The times of the steps of a training, and how well they are known.

    Attributes:
        seconds: mean time of a step by record, s; None where it isn't known. Empty without any.
        kind: name of the value in a record that they come from; "" without times.
        windows: by record, how many steps the time covers; empty if since the record before.
        is_certain: whether two clocks agree.
        doubts: what is assumed.
        quotients: of the times and those by each clock, by its kind.
        contradiction: why there are no times though some are printed; None without one.
    """

    seconds: Series = ()
    kind: str = ""
    windows: Sequence[int] = ()
    is_certain: bool = False
    doubts: list[Note] = dataclasses.field(default_factory=list)
    quotients: dict[str, float] = dataclasses.field(default_factory=dict)
    contradiction: Note | None = None


@dataclasses.dataclass(frozen=True)
class _Clock:
    """The mean time of a step since the record before that has a time, s, by record; the steps that
    it covers; and the resolution of the times that these are differences of, s.
    """

    kind: str
    seconds: Series
    windows: Sequence[int]
    resolution: float = 0.0

    def is_clear(self) -> bool:
        """Return whether it has any differences, and enough time passes on it."""
        return self.count() > 0 and self.total() >= FAINT * self.resolution

    def doubt(self) -> float:
        """Return by what share all its time may be off."""
        return 2 * self.resolution / self.total()

    def count(self) -> int:
        """Return the number of differences."""
        return _known(self.seconds)

    def total(self) -> float:
        """Return the time that passes on it, s."""
        return _total(self.seconds, self.windows)

    def quotient(self, other: Series) -> tuple[float, float]:
        """Return a typical quotient of other times of the same steps and its own, and by how much
        it may be off for the resolution.

        Evaluations lie between some records, so that the median counts; where single differences
        say little, all together do.
        """
        pairs = []
        passed = []
        for own, seconds, stride in zip(self.seconds, other, self.windows, strict=True):
            if own is not None and seconds is not None:
                pairs.append((own * stride, seconds * stride))
                passed.append(own * stride)
        total = math.fsum(passed)
        if not total:
            return math.nan, 0.0
        if statistics.median(passed) >= CLEAR * self.resolution:
            quotients = [seconds / own for own, seconds in pairs if own]
            error = self.resolution / statistics.median(passed) / math.sqrt(len(passed))
            return statistics.median(quotients), error
        return math.fsum(seconds for _, seconds in pairs) / total, 2 * self.resolution / total

    def agrees(self, other: Series) -> bool:
        """Return whether other times of the same steps are these."""
        quotient, error = self.quotient(other)
        return abs(quotient - 1) <= AGREEMENT + error


def timed(
    records: Sequence[Record],
    *,
    has_unit: bool,
    is_of_step: bool,
    paused: Container[int] = frozenset(),
    took: float | None = None,
) -> Timed:
    """Return the times of the steps of a training's records, in their order, by all clocks.

    Args:
        records: with the printed values of the kinds in `meanings`.
        has_unit: whether a unit stands beside the printed time.
        is_of_step: whether its label or unit says that it is one step's, as `s/it` does.
        paused: places of the records before which something else than steps took time.
        took: how long the whole training took as the text says, s; None if it doesn't.
    """
    strides = _strides(records)
    clocks = [*_differences(records, strides, paused), *_by_rates(records, strides)]
    clear = [clock for clock in clocks if clock.is_clear()]
    found = _by_clocks(records, strides, clear, has_unit=has_unit, is_of_step=is_of_step)
    if took is not None and found.kind == "seconds" and not found.is_certain:
        found = _within(found, strides, took)
    for clock in clear if found.seconds else ():
        found.quotients[clock.kind] = clock.quotient(found.seconds)[0]
    return found


def _within(found: Timed, strides: Sequence[int], took: float) -> Timed:
    """Return times of steps that together take no longer than the whole training: 50 lines of 14.5 s
    each, 200 steps apart, within 757 s, are the times of 200 steps.
    """
    if _total(found.seconds, strides) <= (1 + LONGER) * took:
        return found
    means = _divided(found.seconds, strides)
    if _total(means, strides) > (1 + LONGER) * took:
        share = _total(found.seconds, strides) / took
        return Timed(contradiction=Note("form-clocks-contradict", {"share": round(share, 3)}))
    doubts = [note for note in found.doubts if note.code != "form-interval-assumed"]
    steps = int(statistics.median(strides))
    doubts.append(Note("form-window-assumed", {"steps": steps, "took": took}))
    return Timed(means, found.kind, doubts=doubts)


def _total(seconds: Series, strides: Sequence[int]) -> float:
    pairs = zip(seconds, strides, strict=True)
    return math.fsum(each * stride for each, stride in pairs if each is not None)


def _divided(seconds: Series, strides: Sequence[int]) -> list[float | None]:
    pairs = zip(seconds, strides, strict=True)
    return [each / stride if each is not None else None for each, stride in pairs]


def _by_clocks(
    records: Sequence[Record],
    strides: Sequence[int],
    clear: Sequence[_Clock],
    *,
    has_unit: bool,
    is_of_step: bool,
) -> Timed:
    printed = _column(records, PRINTED)
    interval = _column(records, "interval_seconds")
    if _known(printed) < _known(interval):
        printed = _divided(interval, strides)
        is_of_step = True
    if not _known(printed):
        return _without_printed(clear)
    readings = list(_readings(printed, strides, has_unit=has_unit))
    for clock in clear:
        agreeing = [seconds for seconds in readings if clock.agrees(seconds)]
        if agreeing and _are_alike(clock, agreeing):
            return Timed(agreeing[0], "seconds", is_certain=True)
    growing = (
        None if is_of_step else _growing(printed, strides, [record.step for record in records])
    )
    doubts = [] if has_unit else [Note("form-unit-assumed")]
    if growing is not None:
        return Timed(growing, "elapsed_seconds", doubts=doubts)
    for clock in clear:
        quotient, error = clock.quotient(printed)
        if quotient > 1 + AGREEMENT + error and not has_unit:
            # 600 s are longer than the 1 s that passed: 600 ms may be a step's.
            has_unit = True
            printed = _scaled(printed, 1e-3)
            quotient, error = clock.quotient(printed)
            doubts = [Note("form-milliseconds-assumed")]
        if quotient > 1 + AGREEMENT + error:
            return Timed(
                contradiction=Note("form-clocks-contradict", {"share": round(quotient, 3)})
            )
        if quotient < PART and clock.kind in ("stamp", "elapsed_seconds"):
            doubt = Note("form-printed-is-part", {"share": float(f"{quotient:.3g}")})
            return Timed(clock.seconds, clock.kind, clock.windows, doubts=[doubt])
    if not is_of_step and statistics.median(strides) > 1:
        doubts.append(Note("form-interval-assumed", {"steps": int(statistics.median(strides))}))
    return Timed(printed, "seconds", doubts=doubts)


def _without_printed(clear: Sequence[_Clock]) -> Timed:
    """Return the times by the best clock: certain if another one agrees with it."""
    if not clear:
        return Timed()
    best, *others = clear
    if best.kind == "steps_per_second" and not others and _digits(best) < LEAST_DIGITS:
        return Timed(best.seconds, best.kind, doubts=[Note("form-coarse-rate")])
    agreeing = [other for other in others if best.agrees(other.seconds)]
    is_certain = bool(agreeing)
    if agreeing and best.doubt() > COARSE:
        # Whole seconds confirm what a rate means, which has more digits.
        best = agreeing[0]
    if others and not is_certain:
        quotient, _ = best.quotient(others[0].seconds)
        return Timed(contradiction=Note("form-clocks-contradict", {"share": round(quotient, 3)}))
    doubts = []
    if not is_certain and best.kind == "stamp" and _varies(best):
        doubts.append(Note("form-stamps-vary"))
    if best.resolution and not is_certain and (doubt := best.doubt()) > COARSE:
        doubts.append(Note("form-coarse-clock", {"percent": 100 * doubt}))
    if best.count() < FEWEST and not is_certain:
        doubts.append(Note("form-few-records", {"count": best.count()}))
    return Timed(best.seconds, best.kind, best.windows, is_certain, doubts)


def _digits(clock: _Clock) -> int:
    """Return how many digits the rates have of which a clock is the inverse, at most."""
    return max(digits(f"{1 / seconds:.6g}") for seconds in clock.seconds if seconds)


def _varies(clock: _Clock) -> bool:
    """Return whether lines come in lumps, so that their distances aren't those of the steps."""
    known = [seconds for seconds in clock.seconds if seconds is not None]
    usual = statistics.median(known)
    # The clock's own resolution isn't a variation.
    near = [abs(seconds - usual) <= usual / 2 + clock.resolution for seconds in known]
    return sum(near) < VARYING * len(known)


def _are_alike(clock: _Clock, readings: Sequence[Series]) -> bool:
    """Return whether all readings that agree with a clock are the same time: a clock of whole
    seconds may agree with several.
    """
    quotients = [clock.quotient(seconds)[0] for seconds in readings]
    return max(quotients) <= (1 + AGREEMENT) * min(quotients)


def _readings(printed: Series, strides: Sequence[int], *, has_unit: bool) -> Iterator[Series]:
    """Yield what a printed time may mean, the likeliest first: the mean time of a step, that of all
    steps since the record before, and the time since the start; without a unit also in ms.
    """
    for factor in (1.0,) if has_unit else (1.0, 1e-3):
        scaled = _scaled(printed, factor)
        yield scaled
        yield [
            seconds / stride if seconds is not None else None
            for seconds, stride in zip(scaled, strides, strict=True)
        ]
        yield _since_before(scaled, strides)


def _scaled(times: Series, factor: float) -> list[float | None]:
    return [seconds * factor if seconds is not None else None for seconds in times]


FITS = 0.2
"""Share by which times that fit a clock differ from it at most: 0.1 s steps with evaluations between
them may take 0.12 s.
"""


def fitting(records: Sequence[Record], codes: Sequence[str]) -> str:
    """Return the code of the first reading of the times of steps, in the order of _readings(), that
    fits a clock of the records; empty if none does.

    Of steps 0, 10, 20 with 25 s each, 25 s apart, these are the times of ten steps; of 25, 50 and
    75 s, 25 s apart, the times since the start.
    """
    printed = [record.seconds for record in records]
    strides = _strides(records)
    for clock in _differences(records, strides, ()):
        if not clock.is_clear() or None in printed:
            continue
        for code, seconds in zip(codes, _readings(printed, strides, has_unit=False), strict=False):
            if _known(seconds) >= len(records) - 1 and abs(clock.quotient(seconds)[0] - 1) <= FITS:
                return code
    return ""


def _are_proportional(printed: Series, steps: Sequence[int]) -> bool:
    """Return whether times are as many as the steps before them: 12.4 s at step 100 and 61.8 s at
    step 500.
    """
    pairs = [
        (seconds, step) for seconds, step in zip(printed, steps, strict=True) if seconds and step
    ]
    if len(pairs) < 2 or pairs[-1][1] < PROPORTIONAL * pairs[0][1]:
        return False
    quotients = [seconds / step for seconds, step in pairs]
    return max(quotients) <= (1 + LONGER) * min(quotients)


def _growing(printed: Series, strides: Sequence[int], steps: Sequence[int]) -> Series | None:
    """Return differences of printed times that count from the start: they only rise, and evenly;
    None for others.
    """
    known = [seconds for seconds in printed if seconds is not None]
    if any(later <= before for before, later in itertools.pairwise(known)):
        return None
    if _are_proportional(printed, steps):
        return _since_before(printed, strides)
    if len(known) <= FEWEST:
        return None
    if known[-1] < GROWTH * known[0]:
        return None
    return _since_before(printed, strides)


def _differences(
    records: Sequence[Record], strides: Sequence[int], paused: Container[int]
) -> Iterator[_Clock]:
    """Yield the clocks that are differences of times: since the start, and time stamps."""
    elapsed = _column(records, "elapsed_seconds")
    if _only_rises(elapsed):
        seconds, windows = _between(elapsed, strides, paused)
        resolution = _resolution([at for at in elapsed if at is not None])
        yield _Clock("elapsed_seconds", seconds, windows, resolution)
    stamps = [record.stamp for record in records]
    if sum(stamp is not None for stamp in stamps) > 1:
        at = [stamp.seconds if stamp else None for stamp in stamps]
        seconds, windows = _between(at, strides, paused)
        yield _Clock("stamp", seconds, windows, max(stamp.resolution for stamp in stamps if stamp))


def _between(
    at: Series, strides: Sequence[int], paused: Container[int]
) -> tuple[Series, Sequence[int]]:
    """Return the mean time of a step from one record to the next, and the steps that it covers.

    Records of the same moment have none: the next one covers their steps, too. So has none that
    something else lies before, such as an evaluation.
    """
    seconds: list[float | None] = []
    windows = list(strides)
    last: float | None = None
    steps = 0
    for place, (now, stride) in enumerate(zip(at, strides, strict=True)):
        steps += stride
        mean = None
        if last is not None and now is not None and now > last and place not in paused:
            windows[place] = steps
            mean = (now - last) / steps
        seconds.append(mean)
        if now is not None and now != last:
            last = now
            steps = 0
    return seconds, windows


def _by_rates(records: Sequence[Record], strides: Sequence[int]) -> Iterator[_Clock]:
    """Yield the clocks that follow from rates: of steps, and of tokens or samples that are counted."""
    rates = _column(records, "steps_per_second")
    if _known(rates):
        yield _Clock("steps_per_second", [_time_of(1.0, rate) for rate in rates], strides)
    for noun, size in (("tokens", "tokens_per_step"), ("samples", "global_batch_size")):
        rates = _column(records, f"{noun}_per_second")
        sizes = _column(records, size)
        consumed = _column(records, f"consumed_{noun}")
        # 30,512 and then 28,947 tokens are those of each line, not those since the start.
        if not _known(sizes) and _only_rises(consumed):
            sizes = _since_before(consumed, strides)
        seconds = [_time_of(amount, rate) for amount, rate in zip(sizes, rates, strict=True)]
        if _known(seconds):
            yield _Clock(f"{noun}_per_second", seconds, strides)


def _time_of(amount: float | None, rate: float | None) -> float | None:
    """Return how long a step takes with so much work at a rate, s; None if no step does."""
    seconds = amount / rate if amount and rate else 0.0
    return seconds if SHORTEST_STEP <= seconds <= LONGEST_STEP else None


def _since_before(at: Series, strides: Sequence[int]) -> list[float | None]:
    """Return the differences from one record to the next for each step; None for the first one, and
    where something isn't known or falls.
    """
    found: list[float | None] = [None]
    for (before, now), stride in zip(itertools.pairwise(at), strides[1:], strict=True):
        if before is None or now is None or now < before:
            found.append(None)
        else:
            found.append((now - before) / stride)
    return found


def _only_rises(at: Series) -> bool:
    """Return whether a number counts from the start: it is known twice or more, and never falls."""
    known = [value for value in at if value is not None]
    return len(known) > 1 and all(later >= value for value, later in itertools.pairwise(known))


def _strides(records: Sequence[Record]) -> list[int]:
    """Return how many steps each record is from the one before; the first one as the second."""
    steps = [record.step for record in records]
    strides = [max(step - before, 1) for before, step in itertools.pairwise(steps)]
    first = min(strides[0] if strides else 1, max(steps[0], 1)) if steps else 1
    return [first, *strides]


def _column(records: Sequence[Record], name: str) -> list[float | None]:
    return [record.figure(name) for record in records]


def _known(series: Series) -> int:
    return sum(value is not None for value in series)


def _resolution(known: Sequence[float]) -> float:
    """Return the resolution of printed times, s: 1 if all are whole, else that of their digits."""
    decimals = max(len(f"{at:.6f}".rstrip("0").partition(".")[2]) for at in known)
    return 10.0**-decimals
