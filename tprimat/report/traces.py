"""What the time of a profiled step is spent on: each part with its share, spread and longest
work.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tprimat import units
from tprimat.analysis.traces.breakdown import mean_parts, sums
from tprimat.report.blocks import Document, Paragraph, Table
from tprimat.results.trace import COMMUNICATION, Trace, TracedWork
from tprimat.text import counted, plain

MOST_PARTS = 10
"""Most parts that have their own line; the others share one line."""

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
    """Return the title of a part of a step."""
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
    """Return the title of GPU work: the operator for PyTorch's own kernels; operator and kernel for
    others.
    """
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
    names = list(parts)
    rows = []
    for part in names[:MOST_PARTS]:
        times = [step.parts.get(part, 0.0) for step in steps]
        works = [work for work in trace.work if work.part == part]
        longest = ""
        if works:
            longest = work_title(max(works, key=lambda work: work.exposed_seconds))
        rows.append([*_row(part_title(part), times, total), longest])
    rest = names[MOST_PARTS:]
    if rest:
        times = [sum(step.parts.get(part, 0.0) for part in rest) for step in steps]
        rows.append([*_row(counted(len(rest), "smaller part"), times, total), ""])
    rows.append([*_row("step", [step.seconds for step in steps], total), ""])
    header = ["part of the step", "ms", "share", "range" if len(steps) > 1 else "", "longest work"]
    busy = 1 - sums(parts)["idle"] / total if total else 0.0
    text = f"GPU busy {busy:.0%} of the step"
    hidden = sum(step.overlapped_communication for step in steps) / len(steps)
    if hidden:
        text += f"; {ms(hidden)} ms of communication hidden behind computation"
    return Document([Paragraph(_heading(trace)), Table(header, rows, is_cut=True), Paragraph(text)])


def _heading(trace: Trace) -> str:
    text = "the whole trace, which marks no steps"
    if trace.steps[0].name:
        text = counted(len({step.name for step in trace.steps}), "profiled step")
    ranks = len({step.rank for step in trace.steps})
    if ranks > 1:
        text += f" on {ranks} ranks"
    if len(trace.steps) > 1:
        text += ", means and ranges"
    return f"{text}:"


def _row(name: str, times: Sequence[float], total: float) -> list[str]:
    mean = sum(times) / len(times)
    share = f"{mean / total:.1%}" if total else units.UNKNOWN
    spread = f"{ms(min(times))}–{ms(max(times))}" if len(times) > 1 else ""
    return [name, ms(mean), share, spread]


def ms(seconds: float) -> str:
    """Return a time in ms, without the unit."""
    return f"{seconds * 1e3:,.2f}"
