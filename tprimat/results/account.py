"""Time: the definition of a step time, the division of a run's wall time by its source, and the
parts of that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from tprimat.results.fields import LONGEST_STEP, Count, Section

EntryKind = Literal["start-up", "training", "evaluation", "checkpoint", "lost", "end", "unknown"]

PARTS = ("start-up", "warm-up", "training", "evaluation", "checkpoint", "lost", "end", "unknown")
"""Parts of a run's wall time, in the order of reports. Warm-up is the part of training that the
warm-up rule finds.
"""

Timer = Literal["timer", "sampled", "partial", "stamps"]
"""What the times of records are.

    timer: the framework's own timer, over every step
    sampled: its timer too, over one step in several; pauses between them are left out
    partial: means of blocks of steps, or a timer that leaves out a part of the steps, such as the
        start of each block
    stamps: the time between records; evaluations and checkpoints that the source doesn't report
        are included
"""

Clock = Literal[Timer, "blocks"]
"""What measures a speed: the records, or the entries of the timeline.

    blocks: the wall time of training between time stamps, evaluations and checkpoints left out
"""


class Timing(Section, frozen=True, kw_only=True):
    """Definition of a step time."""

    clock: Annotated[str | None, "device_event, monotonic, or the clock of the log"] = None
    kind: Annotated[
        Timer | None,
        "timer: over every step (null counts as this); sampled: over one step in several; partial:"
        " of blocks of steps, or without a part of the steps; stamps: from record to record",
    ] = None
    covers: Annotated[str | None, "parts of a step that the time includes"] = None
    over_ranks: Annotated[str | None, "max over ranks, or the timed rank"] = None

    def __post_init__(self) -> None:
        # Earlier results have this also for loops that compile before their first step; the timer
        # is the same.
        covers = self.covers and self.covers.replace(
            ", with compilation;", ", with any compilation in it;"
        )
        msgspec.structs.force_setattr(self, "covers", covers)


Seconds = Annotated[float, msgspec.Meta(ge=-LONGEST_STEP, le=LONGEST_STEP)]
Duration = Annotated[float, msgspec.Meta(ge=0, le=LONGEST_STEP)]


class Entry(Section, frozen=True, kw_only=True):
    """A stretch of a run's wall time with one owner."""

    kind: Annotated[EntryKind, "what the time went to"]
    start: Annotated[Seconds, "seconds since the start; negative before it, outside of the account"]
    duration: Annotated[Duration, "s"]
    first_step: Annotated[Count | None, "first step done in it"] = None
    last_step: Annotated[Count | None, "last step done in it"] = None
    line: Annotated[Count | None, "line of the log that begins it"] = None
    note: Annotated[str | None, "what the log says of it"] = None

    @property
    def steps(self) -> int:
        """Steps done in it; 0 if none are known."""
        if self.first_step is None or self.last_step is None:
            return 0
        return self.last_step - self.first_step + 1


@dataclasses.dataclass(frozen=True)
class Account:
    """The parts of a run's wall time.

    Attributes:
        parts: seconds by part, in the order of PARTS; only the parts that the source has.
        before: seconds before the start, outside of the parts: the initialization before MLPerf's
            run_start.
        waiting: seconds of training in which the loop waited for data; None if it doesn't show.
        is_whole: whether the source has a clock, so that the parts add up to the wall time.
    """

    parts: Mapping[str, float]
    before: float = 0.0
    waiting: float | None = None
    is_whole: bool = True

    @property
    def whole(self) -> float:
        """The sum of the parts, s."""
        return sum(self.parts.values())

    @property
    def shares(self) -> list[tuple[str, float]]:
        """Each part and its share of the whole, %."""
        return [(name, 100 * value / self.whole) for name, value in self.parts.items()]
