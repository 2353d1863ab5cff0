"""What is known of a training while it runs."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from tprimat.analysis import efficiency, records
from tprimat.analysis.summary import SegmentMetrics, Summary, summarize
from tprimat.checks import physics
from tprimat.checks.endings import divergence, how_ended, is_finished
from tprimat.compare import Pair, compare
from tprimat.notes.catalogue import sentence, words
from tprimat.results.result_file import Loaded
from tprimat.results.run import Run

RECENT = 10
"""Records whose step time is the present one."""

_EVIDENT = ("few-runs", "incomplete", "speed-changed")
"""Caveats that hold for every run that is watched, or are shown for it."""

WATCHED, BASELINE = "this run", "baseline"


@dataclasses.dataclass(frozen=True)
class State:
    """A training as far as its log shows it.

    Attributes:
        recent_s: median step time of the last records, s.
        mfu: percent; None if GPU, model or rate are unknown.
        pair: the comparison with the baseline, which comes first; None without one, or if they
            can't be compared.
        pair_problem: why they can't.
        caveats: doubts about its values, and reasons that could overturn the comparison.
        implausible: why its values can't be true, if so.
        ranks: step times of the logs of one training, s, by the names of the logs; empty for a
            single log.
    """

    run: Run
    summary: Summary
    recent_s: float | None
    mfu: float | None
    pair: Pair | None = None
    pair_problem: str | None = None
    caveats: tuple[str, ...] = ()
    implausible: str | None = None
    ranks: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def recent_rate(self) -> float | None:
        """Tokens/s/GPU at the step time of the last records."""
        mean = self.summary.performance.avg_step_time_seconds
        rate = self.summary.performance.tokens_per_second_per_gpu
        if rate and mean and self.recent_s:
            return rate * mean / self.recent_s
        return None

    @property
    def step(self) -> int:
        """The last step that was recorded; 0 before the first one."""
        if self.run.steps:
            return self.run.steps[-1]
        return 0

    @property
    def max_steps(self) -> int | None:
        """The steps that were asked for."""
        return self.run.training_config.max_steps

    @property
    def is_complete(self) -> bool:
        """Whether the training has finished: a log may have no record of its last steps."""
        return is_finished(self.run)

    @property
    def cause(self) -> str | None:
        """The error in its log, if any, with its line; the training may still continue."""
        # Before the first step the status of a log is failed, although no line states that.
        ending = self.run.ending or how_ended(self.run)
        if ending.kind not in ("failed", "stopped") or ending.cause is None:
            return None
        if ending.line is None:
            return ending.cause
        return f"line {ending.line}: {ending.cause}"

    @property
    def last_loss(self) -> tuple[int, float] | None:
        """The last loss that is a number, with its step."""
        pairs = zip(reversed(self.run.steps), reversed(self.run.loss_values), strict=True)
        return next(((step, loss) for step, loss in pairs if loss is not None), None)

    @property
    def is_diverged(self) -> bool:
        """Whether the present loss is NaN or infinite."""
        diverged = divergence(self.run)
        return diverged is not None and (
            self.last_loss is None or diverged.last > self.last_loss[0]
        )

    @property
    def time_left_s(self) -> float | None:
        """How long it will continue at its present pace, s; None if unknown."""
        if self.recent_s is None or self.max_steps is None or self.is_complete:
            return None
        return max(0, self.max_steps - self.step) * self.recent_s

    @property
    def present(self) -> SegmentMetrics | None:
        """The segment since the last change of speed; None before a steady state."""
        if self.summary.segments:
            return self.summary.segments[-1]
        return None

    @property
    def half_width(self) -> float | None:
        """Half the within-run interval of the present segment, relative to its mean.

        None with too few records for an interval, and while the step time drifts.
        """
        segment = self.present
        if segment is None or segment.drift is not None or segment.interval is None:
            return None
        if segment.interval.about == "range":
            return None
        return (segment.interval.high - segment.interval.low) / 2 / segment.mean

    @property
    def slowdown(self) -> float | None:
        """How much lower the throughput is than the baseline's, without one than in the fastest
        segment so far.

        0.1 for 10% lower; below zero if it is higher. None before a steady state.
        """
        if self.present is None:
            return None
        if self.pair is not None:
            if self.pair.ratio:
                return 1 - self.pair.ratio.value
            return None
        return 1 - min(segment.mean for segment in self.summary.segments) / self.present.mean


def state_of(
    run: Run, alike: Sequence[tuple[str, Run]] = (), baseline: Sequence[Loaded] = ()
) -> State:
    """Return the state of a training; `alike` are the runs of all its ranks' logs. It is compared
    with the baseline.
    """
    summary = summarize(run)
    findings = physics.findings(run, summary)
    options = efficiency.Options(doubt=physics.mfu_doubt(findings))
    value = efficiency.of_runs([run], [summary], options).values["mfu"].value
    errors = [words(finding.note) for finding in findings if finding.severity == "error"]
    doubts = tuple(words(finding.note) for finding in findings if finding.severity == "warning")
    state = State(
        run, summary, _recent(run), value, caveats=doubts, implausible=next(iter(errors), None)
    )
    if len(alike) > 1:
        times = {name: time for name, other in alike if (time := _recent(other)) is not None}
        state = dataclasses.replace(state, ranks=times)
    if baseline and summary.segments:
        return _compared(state, baseline)
    return state


def _recent(run: Run) -> float | None:
    run = records.trained(run)
    fast, payers = records.dispatch_artifacts(run)
    times = []
    for time in records.without(run, fast + payers).step_times[-RECENT:]:
        if time is not None:
            times.append(time)
    if times:
        return statistics.median(times)
    return None


def _compared(state: State, baseline: Sequence[Loaded]) -> State:
    """Return a state with the comparison as it would be if the run ended now; else with why there
    is none.
    """
    # An incomplete run isn't compared; here the ratio is shown with a note that the run isn't over.
    ended = state.run.but(status="complete", status_reason=None, ending=None, label=WATCHED)
    files = []
    for file in baseline:
        files.append(
            dataclasses.replace(
                file,
                runs=tuple(run.but(label=BASELINE) for run in file.runs),
            )
        )
    comparison = compare([*files, Loaded(WATCHED, "", (ended,))])
    for group in (group for model in comparison.models for group in model.groups):
        for pair in group.pairs:
            sides = pair.baseline, pair.system
            if {side.run.label for side in sides} != {WATCHED, BASELINE}:
                continue
            if pair.ratio is None:
                return dataclasses.replace(state, pair_problem=sentence(pair.reasons))
            if sides[0].run.label == WATCHED:
                pair = dataclasses.replace(
                    pair, baseline=sides[1], system=sides[0], ratio=pair.ratio.inverted()
                )
            weighty = []
            for caveat in group.caveats:
                if caveat.severity == "warning" and caveat.code not in _EVIDENT:
                    weighty.append(caveat)
            return dataclasses.replace(
                state,
                pair=pair,
                caveats=(*state.caveats, *(sentence(caveat.notes) for caveat in weighty)),
            )
    return dataclasses.replace(state, pair_problem="the baseline has no complete run of this model")
