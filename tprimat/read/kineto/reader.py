"""Reader of PyTorch profiler traces (Kineto's JSON): where the time of a step goes, on one rank or
several.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tprimat.analysis.traces.breakdown import Breakdown, breakdown_of, mean_parts
from tprimat.analysis.traces.timeline import Timeline
from tprimat.notes import TEXT, Note, NoteValue
from tprimat.read.kineto.timeline import read_timeline
from tprimat.read.parsing.parsed_log import Beside, FileFormat, InputFile, ParsedLog, without_rank
from tprimat.read.parsing.records import LoggedTraining
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.values import state
from tprimat.results.account import Timing
from tprimat.results.fields import FieldValues
from tprimat.results.outcome import ending_of, outcome_of
from tprimat.results.trace import IDLE, Trace
from tprimat.text import counted
from tprimat.units import GB

NAME = "torch_profiler"

TIMING = Timing(
    clock="the profiler's time stamps on the device",
    covers=(
        "profiled steps, from the end of one on the GPU to the end of the next; a profiler slows"
        " what it watches"
    ),
    over_ranks="the ranks that were traced",
)

MOST_OTHER = 0.05
"""Share of busy time in unknown kernels from which a warning names them."""

_SIGNS = (b'"traceEvents"', b'"deviceProperties"', b'"baseTimeNanoseconds"', b'"distributedInfo"')
_ARRAY = re.compile(rb'\s*\[\s*\{[^{}]{0,2000}"ph"\s*:\s*"[A-Za-z]"')
_WORKER = re.compile(r"(?<![^/\\])([^/\\]+_\d+)\.\d{10,}(?=\.pt\.trace\.json)")
"""How tensorboard_trace_handler names files: host and process, then the time."""


def _read(parts: Sequence[InputFile], _beside: Beside) -> list[ParsedLog]:
    training = LoggedTraining()
    doubts: list[str] = []
    breakdown, first, idle = _traced(parts, doubts)
    if breakdown.empty:
        doubts.append(f"skipped {counted(breakdown.empty, 'step annotation')} without a kernel")
    trace = breakdown.trace()
    if trace is None or first is None:
        why = "; ".join(doubts) or "profile with ProfilerActivity.CUDA on a GPU"
        raise ValueError(f"it has no GPU work: {why}")
    training.warnings += [Note(TEXT, {"text": doubt}) for doubt in doubts]
    training.warnings += [Note("trace-without-gpu-work", {"file": name}) for name in idle]
    training.warnings += _doubts(trace)
    stated = training.around.stated
    for name in ("device_name", "software_stack", "software_version"):
        state(stated, name, getattr(first, name))
    state(stated, "num_gpus", first.world_size)
    state(stated, "platform", {"cuda": "nvd", "rocm": "amd"}.get(first.software_stack or ""))
    gpu: FieldValues = {}
    if first.memory_bytes:
        gpu["total_memory_gb"] = first.memory_bytes / GB
    if first.compute_units:
        gpu["compute_units"] = first.compute_units
    run = RunBuilder(
        NAME,
        "PyTorch profiler trace",
        training,
        TIMING,
        lines=False,
        gpu=gpu,
        breakdown=breakdown_of(trace),
        trace=trace,
        fixed=outcome_of(ending_of(ended=True)),
        of_training=False,
        notes=(f"means over {len(parts)} traces",) if len(parts) > 1 else (),
    )
    return [run.reading()]


def _traced(
    parts: Sequence[InputFile], warnings: list[str]
) -> tuple[Breakdown, Timeline | None, list[str]]:
    """Return the breakdown of all traces, the timeline of the first with GPU work, and the names of
    those without any; may add warnings.
    """
    breakdown = Breakdown()
    first = None
    idle = []
    workers: dict[str, int] = {}
    for part in parts:
        timeline, doubts = read_timeline(part.stream)
        worker = _WORKER.search(part.name)
        # A process that was profiled several times has written several files.
        number = workers.setdefault(worker[1] if worker else part.name, len(workers))
        if timeline.rank is None and len(parts) > 1:
            timeline.rank = number
        warnings += [f"{part.name}: {doubt}" if len(parts) > 1 else doubt for doubt in doubts]
        if not timeline.work:
            idle.append(part.name)
            continue
        first = first or timeline
        breakdown.add(timeline)
        # The events of one process at a time are kept.
        timeline.work = []
        timeline.launches = {}
        timeline.ranges = {}
    return breakdown, first, idle


def _doubts(trace: Trace) -> list[Note]:
    doubts = []
    if not trace.steps[0].name:
        doubts.append(Note("trace-without-steps"))
    parts = mean_parts(trace.steps)
    busy = sum(time for part, time in parts.items() if part not in IDLE)
    share = parts.get("other", 0.0) / busy if busy else 0.0
    if share > MOST_OTHER:
        names = dict.fromkeys(work.kernel[:60] for work in trace.work if work.part == "other")
        examples = ", ".join(list(names)[:3])
        facts: dict[str, NoteValue] = {"percent": 100 * share, "examples": examples}
        doubts.append(Note("kernels-uncategorized", facts))
    return doubts


FILE_FORMATS = (
    FileFormat(
        NAME,
        "a trace of PyTorch's profiler",
        lambda head: (
            head.lstrip()[:1] in (b"{", b"[")
            and (any(sign in head for sign in _SIGNS) or _ARRAY.match(head) is not None)
        ),
        _read,
        together=lambda path: _WORKER.sub("", without_rank(path)),
        is_streamed=True,
    ),
)
