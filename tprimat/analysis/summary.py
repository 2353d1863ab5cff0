"""The summary of a run: its steady-state values, segments and warnings."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
import operator
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from tprimat.analysis import account, intervals, records, stats, token_rates, warmup
from tprimat.analysis.causes import cause_of_change
from tprimat.analysis.segments import Segment, find_segments
from tprimat.notes import Note, NoteValue
from tprimat.results.account import Clock, Entry
from tprimat.results.fields import known_values
from tprimat.results.run import PerformanceMetrics, Run, Steady, sentences
from tprimat.text import join_names
from tprimat.units import round_figure

FINAL_LOSSES = 10
"""Losses that the final loss is the mean of, at most."""

SLOW_RECORD = 1.4
LEAST_OTHERS = 3
"""A single record is reported if it takes SLOW_RECORD times as long as the longest other one, and
there are at least LEAST_OTHERS others.
"""

ROUNDED = 50
"""Step times that show how coarsely all are printed."""

TYPICAL = 0.01
"""Share by which the mean over all blocks may differ from the typical block before the block is
named that does it, and share of the time that a single record takes beyond others before it is, if
it isn't the last one.
"""

NAMED_WARM_UP = 20
"""A slow start of more than this many steps is reported with its effect."""

SHORT = 30
"""Steps below which a run can't show whether its start-up was over by its middle."""

UNLIKE_BLOCKS = "unlike-blocks"
"""The code of the note that the mean over all blocks differs from the typical one."""


@dataclasses.dataclass(frozen=True)
class SegmentMetrics:
    """The values of the steps between two change points, by the numbers of the first and the last.

    Attributes:
        mean: step time, s, weighted by the steps of each record.
        tokens_per_second_per_gpu: from the mean; None if it is unknown or withheld.
        median: step time, s.
        interval: interval of the step time within this run, s.
        drift: relative change from the first step to the last, where that is large and certain;
            else None.
        cause: cause of the change of speed at its first step, by telemetry; None if unknown.
        outliers: records far above the median.
        outlier_share: share of the segment's time that they took beyond the median.
    """

    first_step: int
    last_step: int
    mean: float
    tokens_per_second_per_gpu: float | None
    median: float
    interval: intervals.Interval | None
    drift: float | None
    outliers: int
    outlier_share: float
    cause: Note | None = None


class UnlikeBlock(NamedTuple):
    """A block that takes longer or less long than the typical one, and its source's explanation, if
    any, after a colon.
    """

    block: str
    why: str


@dataclasses.dataclass(frozen=True)
class Summary:
    """The values of a run, unrounded.

    Attributes:
        performance: values of all steps after the warm-up, across segments.
        notes: what their reader must know; each withheld value has its reason.
        segments: several if the speed changes; none if no steady state was found.
        rounding: how coarsely the step times were printed, relative to their mean.
        clock: what measured the step times; None without any.
        skipped: steps at the beginning that are excluded.
        stop: the last step that counts, from the first recorded one.
        unsettled: whether the run is still slower at its middle than at its end: too short to
            compare.
        unlike_block: the block by which the mean differs most from the typical block, and why; None
            without blocks.
        assumed_start: for a run too short to show a longer start-up, the last step that it may
            take; else None.
        within: the mean step time, s, with its error within this run; None of fewer than two
            records.
        found: the segments of all records, whatever is skipped; None if they weren't looked for.
        coarseness: by how much the mean may be off since its times are differences of a coarse
            clock's, relative.
    """

    steady: Steady
    performance: PerformanceMetrics
    notes: tuple[Note, ...]
    segments: tuple[SegmentMetrics, ...] = ()
    rounding: float = 0.0
    clock: Clock | None = None
    skipped: int = 0
    stop: int = 0
    unsettled: bool = False
    assumed_start: int | None = None
    unlike_block: UnlikeBlock | None = None
    within: intervals.Difference | None = None
    found: tuple[Segment, ...] | None = None
    coarseness: float = 0.0

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences of its notes."""
        return sentences(self.notes)

    @property
    def has_speed(self) -> bool:
        """Whether the mean step time is known, or a printed rate in its place."""
        return self.performance.avg_step_time_seconds is not None or self.is_printed

    @property
    def is_printed(self) -> bool:
        """Whether tokens/s are printed by the source, not computed."""
        return any(note.code == token_rates.PRINTED for note in self.notes)

    @property
    def is_stationary(self) -> bool:
        """Whether one speed describes the steady part of the run."""
        return len(self.segments) == 1 and self.segments[0].drift is None


def summarize(
    run: Run,
    clock: Clock | None = None,
    *,
    skip: int = 0,
    stop: int | None = None,
    earlier: Summary | None = None,
) -> Summary:
    """Return the values of a run, computed from its records and its timeline alone.

    Args:
        run: as it was recorded or read.
        clock: what to measure by, one of account.clocks(run); by default its first.
        skip: steps at the beginning that are excluded at least, as far as its middle; blocks are
            never cut.
        stop: the last step that counts, from the first recorded one, if ten records or more remain.
        earlier: a summary of the same run, by any clock and of any steps: its segments aren't
            looked for again.
    """
    offered = account.clocks(run)
    clock = clock if clock in offered else next(iter(offered), None)
    if clock == "blocks" and not run.environment.emulated:
        return _of_blocks(run)
    profiled = run.profiled_steps
    whole = records.without(run, profiled)
    run = records.trained(run)
    is_untimed = all(time is None for time in run.step_times)
    rated = None
    if is_untimed and not run.environment.emulated:
        rated = token_rates.timed_by_rates(run)
    if run.environment.emulated or (is_untimed and rated is None):
        empty = PerformanceMetrics(
            total_steps=records.recorded_steps(whole), final_loss=_final_loss(whole)
        )
        code = "no-times-recorded"
        if run.environment.emulated:
            code = "emulated"
        return Summary(Steady(), empty, (Note(code),), clock=clock)
    if rated is not None:
        run = rated
    notes = []
    if profiled:
        notes.append(Note("steps-profiled", {"first": profiled[0], "last": profiled[-1]}))
    fast, payers = records.dispatch_artifacts(run)
    if fast:
        waited = ""
        if payers:
            waited = f" with {_named(payers)}, which waited for the device"
        notes.append(Note("dispatch-artifacts", {"steps": _named(fast), "waited": waited}))
    run = records.without(run, (*fast, *payers))
    timed = _timed(run, is_by_rates=rated is not None)
    found = earlier.found if earlier else None
    if found is None:
        found = find_segments(timed.times)
    summary = _of_records(run, whole, timed, found, skip, stop)
    if rated is not None:
        return _without_times(summary)
    return dataclasses.replace(summary, clock=clock, notes=(*notes, *summary.notes))


_OF_TIMES = frozenset({"speed-changed", "drifted", "total-time-untimed"})
"""Codes of the notes that state step times."""


def _without_times(summary: Summary) -> Summary:
    """Return the summary of a run that has printed rates and no times."""
    performance = summary.performance
    of_rates = PerformanceMetrics(
        total_steps=performance.total_steps,
        final_loss=performance.final_loss,
        tokens_per_second=performance.tokens_per_second,
        tokens_per_second_per_gpu=performance.tokens_per_second_per_gpu,
    )
    notes = []
    for note in summary.notes:
        if note.code not in _OF_TIMES:
            notes.append(note)
    return dataclasses.replace(summary, performance=of_rates, notes=tuple(notes), segments=())


class _Timed(NamedTuple):
    """The records of a run that have a time: their places among all records, their last steps, how
    many steps each has, the time of a step, s, and how many steps are done before each; and whether
    the times only are in proportion to those of steps, see token_rates.timed_by_rates().
    """

    places: list[int]
    steps: list[int]
    windows: list[int]
    times: list[float]
    done: list[int]
    is_by_rates: bool = False


def _timed(run: Run, *, is_by_rates: bool = False) -> _Timed:
    """Return the records of a run that have a time, of which there is at least one."""
    timed = _Timed([], [], [], [], [], is_by_rates)
    for place, time in enumerate(run.step_times):
        if time is not None:
            timed.places.append(place)
            timed.steps.append(run.steps[place])
            timed.windows.append(run.window_steps[place])
            timed.times.append(time)
    before = timed.steps[0] - timed.windows[0]
    for step, window in zip(timed.steps, timed.windows, strict=True):
        timed.done.append(step - window - before)
    return timed


def _of_records(
    run: Run, whole: Run, timed: _Timed, found: tuple[Segment, ...], skip: int, stop: int | None
) -> Summary:
    """Return the values of a run by its timed records, which are all in the segments that were
    found. `whole` has the steps whose times are artifacts of dispatch, too.
    """
    steps, windows, times, done = timed.steps, timed.windows, timed.times, timed.done
    segments = found
    start, method = _start(segments, times)
    skipped = bisect.bisect_left(done, skip)
    if start < skipped and len(times) > 1:
        start = max(start, min(skipped, len(times) // 2))
        segments = _from(segments, start, times)
    end = _end(timed, start, stop)
    sample = times[start:end]
    weights = windows[start:end]
    mean = stats.mean(sample, weights)
    tokens, rate, rate_notes = _rates(run, timed, timed.places[start:end], weights, mean)
    total_time, gaps = records.total_time(whole)
    # A single record holds its warm-up, if any.
    warm_up = None
    if len(times) > 1:
        warm_up = math.fsum(map(operator.mul, times[:start], windows[:start]))
    performance = _performance(sample, mean, tokens, rate).but(
        total_steps=records.recorded_steps(whole),
        total_time_seconds=total_time,
        warmup_time_seconds=warm_up,
        final_loss=_final_loss(whole),
    )
    resolution = _clock_resolution(run)
    values = []
    for segment in segments:
        values.append(_segment_metrics(segment, steps, times, windows, rate, resolution))
    metrics = _with_causes(run, values)
    # In 60 steps of 1 s with times in whole seconds, either end may be off by 1 s. Printed times of
    # equal steps are rounded alike.
    coarseness = resolution / (mean * sum(weights))
    unsettled = not segments and len(times) >= warmup.MINIMUM_RECORDS
    steady = Steady(
        first_step=_first_covered(start, steps, windows),
        last_step=steps[end - 1],
        method=method,
        found=bool(segments),
    )
    notes = _notes(timed, start, end, is_settled=steady.found)
    return Summary(
        steady,
        performance,
        (*notes, *rate_notes, *gaps, *_segment_notes(metrics)),
        metrics,
        2**0.5 * coarseness or stats.resolution(sample[:ROUNDED]) / mean,
        skipped=done[start],
        stop=done[end - 1] + windows[end - 1],
        unsettled=unsettled,
        assumed_start=None if unsettled else _assumed_start(timed, start, is_settled=steady.found),
        within=intervals.run_mean(sample, weights, resolution),
        found=found,
        coarseness=coarseness,
    )


def _performance(
    times: Sequence[float],
    mean: float,
    tokens: float | None,
    rate: Callable[[float], float | None],
) -> PerformanceMetrics:
    """Return the notes and values that follow from step times and their mean."""
    return PerformanceMetrics(
        avg_step_time_seconds=mean,
        median_step_time_seconds=stats.median(times),
        min_step_time_seconds=min(times),
        max_step_time_seconds=max(times),
        std_step_time_seconds=stats.deviation(times),
        steps_per_second=1 / mean,
        tokens_per_second=tokens / mean if tokens else None,
        tokens_per_second_per_gpu=rate(mean),
    )


def _end(timed: _Timed, start: int, stop: int | None) -> int:
    """Return the index after the last record that counts: the last up to a step, if enough records
    remain.
    """
    if stop is None:
        return len(timed.times)
    ends = list(map(operator.add, timed.done, timed.windows))
    end = bisect.bisect_right(ends, stop)
    if end - start >= warmup.MINIMUM_RECORDS:
        return end
    return len(timed.times)


def _rates(
    run: Run, timed: _Timed, places: Sequence[int], windows: Sequence[int], mean: float
) -> tuple[float | None, Callable[[float], float | None], list[Note]]:
    """Return the tokens of a step, the rate by the time of one, and notes: see token_rates.of(). A
    run that states no tokens of a step may have logged those of each, or print tokens/s.
    """
    tokens, rate, notes = token_rates.of(run)
    counted = None
    if tokens is None:
        counted = token_rates.logged(run, places)
    if counted:
        tokens, rate, notes = token_rates.of(run, stats.mean(counted, windows))
        least, most = min(counted), max(counted)
        if least < most * (1 - token_rates.ROUNDED):
            notes.append(Note("tokens-vary", {"least": least, "most": most}))
    if timed.is_by_rates:
        tokens, notes = None, []
    elif not any(note.code in token_rates.LACKING for note in notes):
        return tokens, rate, notes
    one, every = token_rates.printed(run, places)
    if one is None and (tokens or every is None):
        return tokens, rate, notes
    if not tokens and every is not None:
        tokens = every * mean
    if one is not None:
        notes = [note for note in notes if note.code not in token_rates.LACKING]
    first, last = (run.steps[place] for place in (places[0], places[-1]))
    fields: dict[str, NoteValue] = {
        "unit": "tokens/s" if one is None else "tokens/s/GPU",
        "average": "harmonic mean" if timed.is_by_rates else "time-weighted mean",
        "steps": f"steps {first}–{last}" if last > first else f"step {first}",
        "unknown": token_rates.unknown_sizes(run, is_timed=not timed.is_by_rates),
    }
    notes.append(Note(token_rates.PRINTED, fields))
    return tokens, lambda time: one * mean / time if one is not None else None, notes


def _notes(timed: _Timed, start: int, end: int, *, is_settled: bool) -> Iterator[Note]:
    """Yield the notes on the records that count and on those that don't."""
    steps, windows, times, done = timed.steps, timed.windows, timed.times, timed.done
    if end < len(times):
        yield Note("steps-cut", {"first": steps[end - 1] + 1, "last": steps[-1]})
    if not is_settled:
        yield _no_steady_state(len(times), windows[0], steps[start - 1] if start else 0)
    elif done[start] > NAMED_WARM_UP:
        yield _slow_start(timed, start)
    if slow := _slow_record(times[start:end], steps[start:end], ends_run=end == len(times)):
        yield slow


def _slow_start(timed: _Timed, start: int) -> Note:
    """Return how much slower the steps are that a long warm-up excludes."""
    steps, windows, times = timed.steps, timed.windows, timed.times
    before = stats.mean(times[:start], windows[:start])
    after = stats.mean(times[start:], windows[start:])
    share = stats.mean(times, windows) / after - 1
    if before < after:
        # If the rest has pauses, its typical records show how slow the start is.
        before = stats.median(times[:start])
        after = stats.median(times[start:])
    return Note(
        "slow-start",
        {
            "first": steps[0] - windows[0] + 1,
            "last": _first_covered(start, steps, windows) - 1,
            "times": before / after,
            "percent": 100 * share,
        },
    )


def _assumed_start(timed: _Timed, start: int, *, is_settled: bool) -> int | None:
    """Return the last step that the start-up of a short run may take; None of a long one."""
    # That a single record may hold the start-up is a warning of its own.
    if sum(timed.windows) >= SHORT or len(timed.times) == 1:
        return None
    settled_by = len(timed.times) // 2 if is_settled else start
    return timed.steps[settled_by - 1] if settled_by else 0


def _clock_resolution(run: Run) -> float:
    """Return the resolution of the clock that a run's step times are differences of, s; 0 of a fine
    one.
    """
    known = run.native_metrics.get(records.RESOLUTION)
    if isinstance(known, float):
        return known
    return 0.0


def _slow_record(times: Sequence[float], steps: Sequence[int], *, ends_run: bool) -> Note | None:
    """Return which single record takes much longer than all others; None if none does.

    A run that pauses regularly has several, and may end with one.
    """
    *_, longest, slowest = 0.0, *sorted(times)
    if len(times) <= LEAST_OTHERS or slowest <= SLOW_RECORD * longest:
        return None
    step = steps[times.index(slowest)]
    fields = {"step": step, "times": slowest / longest}
    if ends_run and times[-1] == slowest:
        return Note("slow-last-record", fields)
    # A slow first record is the rest of a start that fades out.
    if times[0] == slowest or slowest - longest < TYPICAL * sum(times):
        return None
    return Note("slow-record", fields)


def _start(segments: Sequence[Segment], times: Sequence[float]) -> tuple[int, str]:
    """Return the index of the first record that counts, and the rule behind that choice."""
    if segments:
        return segments[0].start, "least_variance"
    if len(times) >= warmup.MINIMUM_RECORDS:
        # What never settles is least wrong in its second half.
        return len(times) // 2, "second_half"
    # Too few to decide. A first record that is slower than the others includes the initialization,
    # and a much faster one isn't a whole step.
    if len(times) > 1 and (times[0] > statistics.median(times[1:]) or warmup.starts_fast(times)):
        return 1, "all_after_first"
    return 0, "all"


def _from(segments: Sequence[Segment], start: int, times: Sequence[float]) -> tuple[Segment, ...]:
    """Return the parts of segments from a record on."""
    parts = []
    for segment in segments:
        if segment.stop > start:
            first = max(segment.start, start)
            median = stats.median(times[first : segment.stop])
            parts.append(dataclasses.replace(segment, start=first, median=median))
    return tuple(parts)


def _of_blocks(run: Run) -> Summary:
    """Return the values of a run by the wall time of its blocks of training.

    All blocks count: a block can't be cut, and what its owner chose to do in one is a part of the
        training.
    """
    blocks = account.blocks(run)
    times = [block.duration / block.steps for block in blocks]
    windows = [block.steps for block in blocks]
    lasts = [block.last_step or 0 for block in blocks]
    mean = stats.mean(times, windows)
    typical = stats.median(times)
    tokens, rate, notes = token_rates.of(run)
    unlike = _unlike_block(blocks, times, mean, typical)
    if differing := mean_over_blocks(mean, typical, unlike):
        notes.append(differing)
    performance = _performance(times, mean, tokens, rate).but(
        total_steps=sum(windows),
        total_time_seconds=blocks[-1].start + blocks[-1].duration - blocks[0].start,
        final_loss=_final_loss(run),
    )
    steady = Steady(
        first_step=blocks[0].first_step, last_step=lasts[-1], method="all_blocks", found=True
    )
    whole = _segment_metrics(Segment(0, len(times), typical, None), lasts, times, windows, rate)
    # Records are outliers, blocks are named.
    whole = dataclasses.replace(whole, outliers=0, outlier_share=0.0)
    # Of milliseconds, what rounding leaves of whole blocks is far below their variation.
    resolution = _clock_resolution(run)
    coarseness = resolution / (mean * sum(windows))
    return Summary(
        steady,
        performance,
        tuple(notes),
        (whole,),
        2**0.5 * coarseness,
        "blocks",
        unlike_block=unlike,
        within=intervals.run_mean(times, windows, resolution),
        coarseness=coarseness,
    )


def _unlike_block(
    blocks: Sequence[Entry], times: Sequence[float], mean: float, typical: float
) -> UnlikeBlock:
    """Return by which block the mean differs most from the typical block."""
    off = [(time - typical) * block.steps for block, time in zip(blocks, times, strict=True)]
    index = max(range(len(off)), key=lambda each: off[each] * math.copysign(1, mean - typical))
    block = blocks[index]
    steps = f"steps {block.first_step}–{block.last_step}"
    text = f"block {index + 1} takes {times[index] / typical:.2f}× as long ({steps})"
    return UnlikeBlock(text, f": {block.note}" if block.note else "")


def mean_over_blocks(mean: float, typical: float, unlike: UnlikeBlock) -> Note | None:
    """Return how the mean step time over all blocks differs from the typical block's, s, and why;
    None if little.
    """
    if abs(mean / typical - 1) <= TYPICAL:
        return None
    return Note(UNLIKE_BLOCKS, {"mean": mean, "typical": typical, **unlike._asdict()})


def rounding_variance(summaries: Sequence[Summary]) -> float:
    """Return the variance of a run's logarithm, on average, that comes from how coarsely its times
    were printed.
    """
    if summaries:
        return statistics.fmean(summary.rounding**2 / 12 for summary in summaries)
    return 0.0


def rounded(performance: PerformanceMetrics) -> PerformanceMetrics:
    """Return the values as they are stored."""
    values = msgspec.structs.asdict(performance)
    figures = {}
    for name, each in values.items():
        if isinstance(each, float):
            figures[name] = round_figure(each)
    return performance.but(**figures)


def _named(steps: Sequence[int]) -> str:
    return f"step{'s' if len(steps) > 1 else ''} {join_names([*map(str, steps)])}"


def _first_covered(index: int, steps: Sequence[int], windows: Sequence[int]) -> int:
    """Return the first of the steps that a record averages; they end with the record's own
    number.
    """
    return max(steps[index - 1] if index else 0, steps[index] - windows[index]) + 1


def _segment_metrics(
    segment: Segment,
    steps: Sequence[int],
    times: Sequence[float],
    windows: Sequence[int],
    rate: Callable[[float], float | None],
    resolution: float = 0.0,
) -> SegmentMetrics:
    first = _first_covered(segment.start, steps, windows)
    steps = steps[segment.start : segment.stop]
    times = times[segment.start : segment.stop]
    windows = windows[segment.start : segment.stop]
    limit = segment.median + stats.outlier_distance(times, segment.median)
    outliers = [time for time in times if time > limit]
    mean = stats.mean(times, windows)
    return SegmentMetrics(
        first_step=first,
        last_step=steps[-1],
        mean=mean,
        tokens_per_second_per_gpu=rate(mean),
        median=segment.median,
        interval=intervals.within_run_interval(times, windows, resolution),
        drift=segment.drift,
        outliers=len(outliers),
        outlier_share=(sum(outliers) - len(outliers) * segment.median) / sum(times),
    )


def _with_causes(run: Run, segments: Sequence[SegmentMetrics]) -> tuple[SegmentMetrics, ...]:
    """Return segments with the cause of each change between them."""
    if not run.telemetry.issues:
        return tuple(segments)
    pairs = itertools.pairwise(segments)
    causes = []
    for before, after in pairs:
        causes.append(cause_of_change(run, after.first_step, before.mean, after.mean))
    both = zip(segments, [None, *causes], strict=False)
    return tuple(dataclasses.replace(segment, cause=cause) for segment, cause in both)


def _no_steady_state(count: int, window: int, last: int) -> Note:
    """Return the note that `count` records show no steady state. The first of them averages
    `window` steps; `last` is the last excluded step, or 0.
    """
    if count == 1:
        mean = f" (the mean of {window} steps)" if window > 1 else ""
        return Note("one-record", {"mean": mean})
    used = f"the steps after step {last}" if last else "all steps"
    if count < warmup.MINIMUM_RECORDS:
        counts = {"count": count, "least": warmup.MINIMUM_RECORDS}
        return Note("too-few-records", {"used": used, **counts})
    return Note("not-settled", {"used": used})


def _segment_notes(segments: tuple[SegmentMetrics, ...]) -> Iterator[Note]:
    for before, after in itertools.pairwise(segments):
        cause = f": {sentences([after.cause])[0]}" if after.cause else ""
        fields = {"step": after.first_step, "before": before.mean, "after": after.mean}
        yield Note("speed-changed", {**fields, "cause": cause})
    for segment in segments:
        if segment.drift is not None:
            steps = {"first": segment.first_step, "last": segment.last_step}
            yield Note("drifted", {"percent": 100 * segment.drift, **steps})


def _final_loss(run: Run) -> float | None:
    """Return the mean of the last losses: more than the last quarter of a short run is of its
    fall.
    """
    losses = known_values(run.loss_values)
    if losses:
        return stats.mean(losses[-min(FINAL_LOSSES, max(len(losses) // 4, 1)) :])
    return None
