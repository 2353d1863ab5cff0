"""Find the time of a step from everything that the records of a training say about it.

A text may print a step's time, a rate, the time since the start, and time stamps. Each is a clock;
two that agree show what a number means, whatever its label says. If steps are 0.5 s apart by the
stamps, a printed 500 without a unit is in milliseconds. If every tenth step is printed, a printed 5
is the time of ten steps. Numbers that grow as the stamps do are times since the start.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Container, Iterator, Sequence

from tprimat.notes import Note
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.step_lines import LEAST_DIGITS
from tprimat.read.parsing.values import digits
from tprimat.results.fields import LONGEST_STEP, SHORTEST_STEP

AGREEMENT = 0.03
"""Relative difference up to which two clocks of the same steps agree: only one of them may include
the work between two steps, and rates are rounded.
"""

FAINT = 4.0
"""A clock is used if at least this many of its resolutions pass from the first to the last record:
4 s in whole seconds are 3 to 5 s, which tells seconds from milliseconds.
"""

FEWEST = 3
"""Differences of times that are enough for a typical one: of two, one may include an evaluation."""

LONGER = 0.05
"""Share by which the steps together may take longer than the whole training, and by which times per
step may differ that are proportional to the steps: both are rounded.
"""

CLEAR = 4.0
"""Single differences of times are used if they are typically at least this many resolutions, as 4 s
in whole seconds, which are 3 to 5 s; of shorter ones only the sum is used.
"""

PART = 0.5
"""Share of the time between two records below which a printed time covers only a part of the step,
or only the dispatch of its work to the GPU.
"""

GROWTH = 1.5
"""Ratio of the last and the first printed time from which on times that only rise are times since
the start: steps that slow down from 1.00 to 1.02 s are not.
"""

PROPORTIONAL = 3
"""Ratio of the last and the first step number from which on times that are proportional to the
steps are times since the start: steps 100 and 500, but not 100 and 101.
"""

PRINTED = "printed_time"
"""Name of a printed time in a record until its meaning is known."""

COARSE = 0.05
"""Uncertainty of a step time, from the resolution of its clock, up to which it is read without
asking.
"""

VARYING = 0.75
"""Share of the distances between time stamps that differ from the median by at most half of it,
from which on the distances are the times of steps.
"""

Series = Sequence[float | None]
"""A value for each record; None where it has none."""


@dataclasses.dataclass
class Timed:
    """The times of the steps of a training, and how well they are known.

    Attributes:
        seconds: mean time of a step for each record, s; None where it is unknown. Empty without
            any.
        kind: name of the value in a record that the times come from; "" without times.
        windows: how many steps each time covers; empty if those since the record before.
        is_certain: whether two clocks agree.
        doubts: what is assumed.
        quotients: the times divided by those of each clock, by the kind of the clock.
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
    """A source of step times.

    Attributes:
        kind: name of the value in a record that it comes from; "stamp" for time stamps.
        seconds: mean time of a step for each record, s, since the last one with a time.
        windows: steps that each of these times covers.
        resolution: of the times whose differences these are, s; 0 for rates.
    """

    kind: str
    seconds: Series
    windows: Sequence[int]
    resolution: float = 0.0

    def is_clear(self) -> bool:
        """Return whether it has any times, and enough time passes on it (FAINT)."""
        return self.count() > 0 and self.total() >= FAINT * self.resolution

    def doubt(self) -> float:
        """Return the relative uncertainty of its total time."""
        return 2 * self.resolution / self.total()

    def count(self) -> int:
        """Return the number of records with a time."""
        return _known(self.seconds)

    def total(self) -> float:
        """Return the time that passes on it, s."""
        return _total(self.seconds, self.windows)

    def quotient(self, other: Series) -> tuple[float, float]:
        """Return the typical quotient of other times of the same steps and its own, and the
        uncertainty of this quotient.

        It is the median over the records, since evaluations lie between some of them. Where single
        differences are too short for the resolution, it is the quotient of the sums.
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
        """Return whether other times of the same steps are the same within AGREEMENT."""
        quotient, error = self.quotient(other)
        return abs(quotient - 1) <= AGREEMENT + error


def timed(
    records: Sequence[Record],
    *,
    has_unit: bool,
    is_of_step: bool,
    paused: Container[int] = frozenset(),
    took: float | None = None,
    batch: float | None = None,
) -> Timed:
    """Return the times of the steps of a training, for its records in order, by all clocks.

    Args:
        records: with the printed values of the kinds in `meanings`.
        has_unit: whether the printed time has a unit.
        is_of_step: whether its label or unit says that it is the time of one step, as `s/it` does.
        paused: indices of the records before which something else took time, such as an evaluation.
        took: how long the whole training took according to the text, s; None if it doesn't say so.
        batch: samples of a step, if all lines print the same number.
    """
    strides = _strides(records)
    clocks = [*_differences(records, strides, paused), *_by_rates(records, strides, batch)]
    clear = [clock for clock in clocks if clock.is_clear()]
    found = _by_clocks(records, strides, clear, has_unit=has_unit, is_of_step=is_of_step)
    if took is not None and found.kind == "seconds" and not found.is_certain:
        found = _within(found, strides, took)
    for clock in clear if found.seconds else ():
        found.quotients[clock.kind] = clock.quotient(found.seconds)[0]
    return found


def _within(found: Timed, strides: Sequence[int], took: float) -> Timed:
    """Return times that together are no longer than the whole training: if 50 lines print 14.5 s
    each, 200 steps apart, in a training of 757 s, each is the time of 200 steps.
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
    """Return the step times by the printed times and the clear clocks, in this order:

    - a meaning of the printed times with which a clock agrees: it is certain
    - times that only rise, as times since the start
    - a contradiction if they are longer than a clock allows, even in milliseconds
    - the times by a clock if the printed ones are shorter than half of them (PART)
    - the printed times as those of one step each
    """
    printed = _column(records, PRINTED)
    interval = _column(records, "interval_seconds")
    if _positive(printed) < _positive(interval):
        printed = _divided(interval, strides)
        is_of_step = True
    if not _positive(printed):
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
        if not _are_proportional(printed, [record.step for record in records]):
            # Steps that slow down from 0.6 to 1.5 s only rise, too.
            doubts.append(Note("form-elapsed-assumed", {"label": "the time"}))
        return Timed(growing, "elapsed_seconds", doubts=doubts)
    for clock in clear:
        quotient, error = clock.quotient(printed)
        if quotient > 1 + AGREEMENT + error and not has_unit:
            # 600 s can't be the time of a step if 1 s has passed, but 600 ms can.
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
    """Return the times by the best clock if no time of a step is printed; they are certain if
    another clock agrees with it.
    """
    if not clear:
        return Timed()
    best, *others = clear
    if best.kind == "steps_per_second" and not others and _digits(best) < LEAST_DIGITS:
        return Timed(best.seconds, best.kind, doubts=[Note("form-coarse-rate")])
    agreeing = [other for other in others if best.agrees(other.seconds)]
    is_certain = bool(agreeing)
    if agreeing and best.doubt() > COARSE:
        # A clock in whole seconds confirms the meaning of a rate, which has more digits.
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
    """Return the most significant digits that a rate has of which the times of a clock are the
    inverse.
    """
    return max(digits(f"{1 / seconds:.6g}") for seconds in clock.seconds if seconds)


def _varies(clock: _Clock) -> bool:
    """Return whether the distances between time stamps vary too much to be the times of steps, as
    if lines are buffered: 0, 0.1, 0, 4 s.
    """
    known = [seconds for seconds in clock.seconds if seconds is not None]
    usual = statistics.median(known)
    # The clock's own resolution isn't a variation.
    near = [abs(seconds - usual) <= usual / 2 + clock.resolution for seconds in known]
    return sum(near) < VARYING * len(known)


def _are_alike(clock: _Clock, readings: Sequence[Series]) -> bool:
    """Return whether all readings that agree with a clock are nearly equal: a clock in whole
    seconds may agree with readings that differ.
    """
    quotients = [clock.quotient(seconds)[0] for seconds in readings]
    return max(quotients) <= (1 + AGREEMENT) * min(quotients)


def _readings(printed: Series, strides: Sequence[int], *, has_unit: bool) -> Iterator[Series]:
    """Yield the step times by each meaning that a printed time may have, the most likely first: the
    mean time of a step, the time of all steps since the record before, and the time since the
    start; without a unit the same three in milliseconds.
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
"""Relative difference up to which times fit a clock: steps of 0.1 s with evaluations between them
may be 0.12 s apart.
"""


def fitting(records: Sequence[Record], codes: Sequence[str]) -> str:
    """Return the code of the first reading of the times of steps, in the order of _readings(), that
    fits a clock of the records; empty if none does.

    If steps 0, 10 and 20 print 25 s each and are 25 s apart, these are the times of ten steps; if
    they print 25, 50 and 75 s, these are the times since the start.
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
    """Return whether times are proportional to the step numbers: 12.4 s at step 100 and 61.8 s at
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
    """Return the step times if the printed times are times since the start, which only rise: either
    in proportion to the steps, or by half in all (GROWTH); None for others.
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
    """Yield the clocks whose times are differences of times since the start or of time stamps."""
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

    A record of the same moment as the one before has none: the next one covers its steps, too. A
    record after something else, such as an evaluation, has none either.
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


def _by_rates(
    records: Sequence[Record], strides: Sequence[int], batch: float | None
) -> Iterator[_Clock]:
    """Yield the clocks that follow from rates: of steps, and of tokens or samples that are counted."""
    rates = _column(records, "steps_per_second")
    if _positive(rates):
        yield _Clock("steps_per_second", [_time_of(1.0, rate) for rate in rates], strides)
    for noun, size in (("tokens", "tokens_per_step"), ("samples", "global_batch_size")):
        rates = _column(records, f"{noun}_per_second")
        sizes = _column(records, size)
        consumed = _column(records, f"consumed_{noun}")
        # Consumed tokens only rise. If 28,947 follows 30,512, both are the tokens of one line.
        if not _known(sizes) and _only_rises(consumed):
            sizes = _since_before(consumed, strides)
        if noun == "samples" and batch is not None:
            sizes = [batch] * len(records)
        seconds = [_time_of(amount, rate) for amount, rate in zip(sizes, rates, strict=True)]
        if _known(seconds):
            yield _Clock(f"{noun}_per_second", seconds, strides)


def _time_of(amount: float | None, rate: float | None) -> float | None:
    """Return how long a step takes with so much work at a rate, s; None if no step does."""
    seconds = amount / rate if amount and rate else 0.0
    return seconds if SHORTEST_STEP <= seconds <= LONGEST_STEP else None


def _since_before(at: Series, strides: Sequence[int]) -> list[float | None]:
    """Return the difference from one record to the next, divided by the steps between them; None
    for the first record, and where a value is unknown or falls.
    """
    found: list[float | None] = [None]
    for (before, now), stride in zip(itertools.pairwise(at), strides[1:], strict=True):
        if before is None or now is None or now < before:
            found.append(None)
        else:
            found.append((now - before) / stride)
    return found


def _only_rises(at: Series) -> bool:
    """Return whether a number is known twice or more, and never falls."""
    known = [value for value in at if value is not None]
    return len(known) > 1 and all(later >= value for value, later in itertools.pairwise(known))


def _strides(records: Sequence[Record]) -> list[int]:
    """Return how many steps each record is after the one before; the first one has the stride of
    the second, but no more than its own step number.
    """
    steps = [record.step for record in records]
    strides = [max(step - before, 1) for before, step in itertools.pairwise(steps)]
    first = min(strides[0] if strides else 1, max(steps[0], 1)) if steps else 1
    return [first, *strides]


def _column(records: Sequence[Record], name: str) -> list[float | None]:
    return [record.figure(name) for record in records]


def _known(series: Series) -> int:
    return sum(value is not None for value in series)


def _positive(series: Series) -> int:
    return sum(value is not None and value > 0 for value in series)


def _resolution(known: Sequence[float]) -> float:
    """Return the resolution of printed times, s: 1 if all are whole, 0.01 with two decimals at
    most.
    """
    decimals = max(len(f"{at:.6f}".rstrip("0").partition(".")[2]) for at in known)
    return 10.0**-decimals
