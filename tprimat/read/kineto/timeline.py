"""From the events of a trace to the timeline of its process: the parts that are kept, and their
units.
"""

from __future__ import annotations

import bisect
from typing import BinaryIO

from tprimat.analysis.traces.steps import choose_steps
from tprimat.analysis.traces.timeline import Annotation, Launch, RangeKind, Ranges, Timeline, Work
from tprimat.catalog import kernels
from tprimat.read.kineto.events import Event, EventStream, Properties
from tprimat.text import counted

LATEST = 1e17
"""µs; some 3000 years."""

_COPIES = ("gpu_memcpy", "gpu_memset")
_RUNTIME = ("cuda_runtime", "cuda_driver", "xpu_runtime", "hip_runtime", "runtime")


def read_timeline(stream: BinaryIO) -> tuple[Timeline, list[str]]:
    """Return the timeline of a trace, and notes on its doubtful values. Raises ValueError if the
    content is no trace.
    """
    events = EventStream(stream)
    builder = _Builder()
    for piece in events.pieces():
        builder.add(piece)
    timeline = builder.finish()
    timeline.steps = choose_steps(builder.annotations)
    _state(timeline, events.properties)
    doubts = []
    if events.cut:
        doubts.append(
            "the trace ends within an event: the profiler was killed while it wrote, or the file"
            " was cut"
        )
    if events.skipped:
        doubts.append(
            f"skipped {counted(events.skipped, 'event')} of the trace that can't be decoded"
        )
    return timeline, doubts


def _state(timeline: Timeline, properties: Properties) -> None:
    timeline.rank = properties.distributed.rank
    timeline.world_size = properties.distributed.world_size
    used = {work.device for work in timeline.work}
    rows = [device for device in properties.devices if device.name]
    # Numbers of devices need not be those of the list.
    rows = [row for row in rows if row.id in used] or rows
    alike = {(row.name, row.memory, row.compute_units) for row in rows}
    if len({row.name for row in rows}) == 1:
        timeline.device_name = rows[0].name
    if len(alike) == 1:
        timeline.memory_bytes = rows[0].memory or None
        timeline.compute_units = rows[0].compute_units or None
    if version := properties.cuda_version:
        timeline.software_stack = "cuda"
        timeline.software_version = f"{version // 1000}.{version % 1000 // 10}"
    elif version := properties.hip_version:
        timeline.software_stack = "rocm"
        release = f"{version // 10_000_000}.{version // 100_000 % 100}"
        timeline.software_version = f"{release}.{version % 100_000}"


class _Builder:
    def __init__(self) -> None:
        self.timeline = Timeline()
        self.annotations: list[Annotation] = []
        self._base: int | None = None
        self._kinds: dict[tuple[str, bytes, bytes, str], RangeKind] = {}
        self._names: dict[str, str] = {}
        self._optimizer_steps: list[tuple[int | str, int, int, RangeKind]] = []
        self._backward: list[tuple[int, int]] = []

    def add(self, events: list[Event]) -> None:
        timeline = self.timeline
        base = self._base
        for event in events:
            category = event.cat
            if event.ph != "X" or not (abs(event.ts) < LATEST and event.dur < LATEST):
                continue
            name = event.name
            if category == "python_function" and not kernels.python_matters(name):
                continue
            if base is None:
                # Differences of time stamps are exact in a float, the stamps in ns are not.
                base = self._base = int(event.ts)
            start = round((event.ts - base) * 1000)
            end = start + max(round(event.dur * 1000), 0)
            arguments = event.args
            if category == "kernel" or category in _COPIES:
                if arguments is not None:
                    name = self._names.setdefault(name, name)
                    timeline.work.append(
                        Work(
                            start,
                            end,
                            name,
                            category != "kernel",
                            arguments.device,
                            event.tid,
                            arguments.correlation,
                        )
                    )
            elif category in _RUNTIME:
                if arguments is not None and arguments.correlation > 0:
                    timeline.launches.setdefault(
                        arguments.correlation, Launch(start, end, event.tid)
                    )
                if kernels.waits_for_gpu(name):
                    timeline.waits.setdefault(event.tid, []).append((start, end))
            elif category in ("cpu_op", "user_annotation", "python_function"):
                if category == "user_annotation":
                    self.annotations.append((name, start, end, event.tid))
                if kernels.loads_data(name):
                    timeline.loads.setdefault(event.tid, []).append((start, end))
                if kernels.is_backward(name):
                    self._backward.append((start, end))
                if kernels.steps_optimizer(name):
                    self._optimizer_steps.append((event.tid, start, end, self._kind(event)))
                else:
                    self._ranges(event.tid).add(start, end, self._kind(event))

    def finish(self) -> Timeline:
        """Return the timeline; an optimizer step starts after the backward passes that ran in its
        closure.
        """
        self._backward.sort()
        for thread, start, end, kind in self._optimizer_steps:
            first, last = (bisect.bisect_left(self._backward, (time,)) for time in (start, end))
            start = max((done for _, done in self._backward[first:last]), default=start)
            if start < end:
                self._ranges(thread).add(start, end, kind)
        return self.timeline

    def _ranges(self, thread: int | str) -> Ranges:
        ranges = self.timeline.ranges.get(thread)
        if ranges is None:
            ranges = self.timeline.ranges[thread] = Ranges()
        return ranges

    def _kind(self, event: Event) -> RangeKind:
        arguments = event.args
        if arguments is None:
            key = (event.name, b"", b"", "")
        else:
            key = (
                event.name,
                bytes(arguments.shapes),
                bytes(arguments.types),
                arguments.collective,
            )
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = RangeKind(*key)
        return kind
