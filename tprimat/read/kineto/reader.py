"""Reader of PyTorch profiler traces (Kineto's JSON): where the time of a step goes, on one rank or
several.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tprimat.analysis.traces.breakdown import Breakdown, breakdown_of, mean_parts
from tprimat.read.kineto.timeline import read_timeline
from tprimat.read.parsing.parsed_log import Beside, FileFormat, InputFile, ParsedLog, without_rank
from tprimat.read.parsing.records import LoggedTraining
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.values import state
from tprimat.results.account import Timing
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
    breakdown = Breakdown()
    training = LoggedTraining()
    first = None
    idle = []
    workers: dict[str, int] = {}
    for part in parts:
        timeline, doubts = read_timeline(part.stream)
        # A process that was profiled several times has written several files.
        number = workers.setdefault(
            worker[1] if (worker := _WORKER.search(part.name)) else part.name, len(workers)
        )
        if timeline.rank is None and len(parts) > 1:
            timeline.rank = number
        training.warnings += [
            f"{part.name}: {doubt}" if len(parts) > 1 else doubt for doubt in doubts
        ]
        if not timeline.work:
            idle.append(part.name)
            continue
        first = first or timeline
        breakdown.add(timeline)
        # The events of one process at a time are kept.
        timeline.work = []
        timeline.launches = {}
        timeline.ranges = {}
    skipped = ""
    if breakdown.empty:
        skipped = f"skipped {counted(breakdown.empty, 'step annotation')} without a kernel"
        training.warnings.append(skipped)
    trace = breakdown.trace()
    if trace is None or first is None:
        why = skipped or "profile with ProfilerActivity.CUDA on a GPU"
        raise ValueError(f"it has no GPU work: {why}")
    training.warnings += [f"{name}: no GPU work in the trace" for name in idle]
    training.warnings += _doubts(trace)
    stated = training.around.stated
    for name in ("device_name", "software_stack", "software_version"):
        state(stated, name, getattr(first, name))
    state(stated, "num_gpus", first.world_size)
    state(stated, "platform", {"cuda": "nvd", "rocm": "amd"}.get(first.software_stack or ""))
    memory = first.memory_bytes
    units = first.compute_units
    gpu = {
        **({"total_memory_gb": memory / GB} if memory else {}),
        **({"compute_units": units} if units else {}),
    }
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


def _doubts(trace: Trace) -> list[str]:
    doubts = []
    if not trace.steps[0].name:
        doubts.append(
            "no steps in the trace: the breakdown covers all of it; call step() of torch.profiler"
        )
    parts = mean_parts(trace.steps)
    busy = sum(time for part, time in parts.items() if part not in IDLE)
    share = parts.get("other", 0.0) / busy if busy else 0.0
    if share > MOST_OTHER:
        names = dict.fromkeys(work.kernel[:60] for work in trace.work if work.part == "other")
        examples = ", ".join(list(names)[:3])
        doubts.append(
            f"{share:.0%} of the GPU's busy time is in kernels of no known category, such as"
            f" {examples}"
        )
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
