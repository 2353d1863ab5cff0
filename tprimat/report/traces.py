"""Where the time of a profiled step goes: each part with its share, spread and longest work."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tprimat import units
from tprimat.analysis.traces.breakdown import mean_parts, sums
from tprimat.report.blocks import Document, Paragraph, Table
from tprimat.results.trace import COMMUNICATION, Trace, TracedWork
from tprimat.text import counted, plain

MOST_PARTS = 10
"""Parts that have a line of their own; the rest is one line."""

_TITLES = {
    "idle_host_launch": "idle: host launch",
    "idle_data": "idle: data loading",
    "idle_synchronisation": "idle: synchronization",
    "idle_other": "idle: other",
    "quantisation": "quantization, casts",
    "routing": "expert routing",
    "other": "other kernels",
}


def part_title(part: str) -> str:
    """Return a part of a step as people read it."""
    if part.startswith(COMMUNICATION):
        return f"{part.removeprefix(COMMUNICATION).replace('_', '-')} (exposed)"
    return _TITLES.get(part, part.replace("_", " "))


def kernel_title(kernel: str) -> str:
    """Return a kernel's name without its type, namespaces and arguments."""
    name = re.sub(r"^std::enable_if<.*?>::type |\(anonymous namespace\)::|^void ", "", kernel)
    name = re.sub(r"^cutlass\w*::Kernel2?<(\w+).*", r"\1", name)
    name = re.split(r"[<(]", name, maxsplit=1)[0].split("::")[-1]
    return plain(name or kernel)


def work_title(work: TracedWork) -> str:
    """Return how people call GPU work: PyTorch's own kernels by their operators, others by both."""
    operator = (work.operator or "").removeprefix("aten::")
    if operator and "at::native::" in work.kernel:
        return plain(operator)
    name = kernel_title(work.kernel)
    return plain(f"{operator}: {name}" if operator and operator != name else name)


def document(trace: Trace) -> Document:
    """Return the parts of a step with their shares, and how much of it the GPU is busy."""
    steps = trace.steps
    total = sum(step.seconds for step in steps) / len(steps)
    parts = mean_parts(steps)
    header = ("part of the step", "ms", "share", "range" if len(steps) > 1 else "", "longest work")
    rows = []
    for part in list(parts)[:MOST_PARTS]:
        times = [step.parts.get(part, 0.0) for step in steps]
        works = (work for work in trace.work if work.part == part)
        longest = max(works, key=lambda work: work.exposed_seconds, default=None)
        rows.append((*_row(part_title(part), times, total), work_title(longest) if longest else ""))
    if rest := list(parts)[MOST_PARTS:]:
        times = [sum(step.parts.get(part, 0.0) for part in rest) for step in steps]
        rows.append((*_row(counted(len(rest), "smaller part"), times, total), ""))
    rows.append((*_row("step", [step.seconds for step in steps], total), ""))
    table = Table(header, rows, is_cut=True)
    hidden = sum(step.overlapped_communication for step in steps) / len(steps)
    busy = f"GPU busy {1 - sums(parts)['idle'] / total if total else 0.0:.0%} of the step"
    busy += f"; {ms(hidden)} ms of communication hidden behind computation" if hidden else ""
    return Document([Paragraph(_heading(trace)), table, Paragraph(busy)])


def _heading(trace: Trace) -> str:
    ranks = len({step.rank for step in trace.steps})
    names = len({step.name for step in trace.steps})
    if trace.steps[0].name:
        stretch = counted(names, "profiled step")
    else:
        stretch = "the whole trace, which marks no steps"
    several = f" on {ranks} ranks" if ranks > 1 else ""
    return f"{stretch}{several}{', means and ranges' if len(trace.steps) > 1 else ''}:"


def _row(name: str, times: Sequence[float], total: float) -> tuple[str, str, str, str]:
    mean = sum(times) / len(times)
    spread = f"{ms(min(times))}–{ms(max(times))}" if len(times) > 1 else ""
    return name, ms(mean), f"{mean / total:.1%}" if total else units.UNKNOWN, spread


def ms(seconds: float) -> str:
    """Return a time in ms, without the unit."""
    return f"{seconds * 1e3:,.2f}"
