"""Why a step takes longer: the difference of two traces as a document."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tprimat import units
from tprimat.analysis.intervals import Bounds, level
from tprimat.compare import ModelComparison, SystemResult
from tprimat.compare.step_difference import (
    Achieved,
    Bar,
    Explanation,
    Limit,
    Operator,
    explain,
    is_limited,
    traced,
)
from tprimat.report.blocks import (
    DETAIL,
    Block,
    Document,
    Heading,
    Headline,
    NextSteps,
    Paragraph,
    Table,
    notes,
)
from tprimat.report.json_values import fields
from tprimat.report.traces import kernel_title, ms, part_title, work_title
from tprimat.report.verdict import gain
from tprimat.results.fields import JsonObject
from tprimat.results.trace import IDLE, TracedWork
from tprimat.text import counted, join_names, plain, shortened

MOST_BARS = 7
"""Most parts on the screen; the others share one line, and the reports have all."""

MOST_OPERATORS = 8
"""Most operators of a part in the reports."""

LONGEST_KERNEL = 40
"""Most characters of a kernel's name in a sentence."""

SMALL = 0.002
"""Share of the longer step below which a part is not worth a line on the screen."""

CAUSES = {
    "idle_host_launch": "waits for the host to launch its next kernel",
    "idle_data": "waits for the host to load and prepare data",
    "idle_synchronisation": "waits while the host synchronizes",
    "idle_other": "is idle for a reason that the trace doesn't show",
    "communication": "waits for communication that no computation hides",
}

ADVICE = {
    "idle_host_launch": (
        "the CPU and the launch path (compile, CUDA or HIP graphs, larger batches), not a kernel"
    ),
    "idle_data": "CPU preprocessing and data loading (more workers, prefetching), not a kernel",
    "idle_synchronisation": (
        "host code that waits for the GPU in each step (.item(), copies to the CPU), not a kernel"
    ),
    "idle_other": "the timeline of the trace around the gaps between queued kernels",
    "communication": "the collectives: their size, the network, and overlap with computation",
}

CAVEAT = "Profiling slows the host, so idle time is overstated. Kernel times are hardly affected."

SAME_WORK = (
    "profile the same model with the same batch on both (benchmark.py has --match RESULT --profile"
    " torch)"
)


def of_model(model: ModelComparison) -> Explanation | None:
    """Explain why the slower system of a model is slower; None if not exactly two systems have
    traces.

    If the comparison has no answer, such as for traces without speeds, the order is that of the
    systems.
    """
    systems: Sequence[SystemResult] = model.systems
    for group in model.groups:
        if group.leaders is not None:
            systems = (group.leaders.faster, group.leaders.slower)
            break
    traces = []
    for system in systems:
        for result in system.runs:
            trace = traced(result.run, system.name)
            if trace:
                # The first run of each system that has a trace.
                traces.append(trace)
                break
    if len(traces) == 2:
        return explain(*traces)
    return None


def brief(explanation: Explanation) -> str:
    """Return one sentence, without its period, on where the time is lost; or that the two did
    different work.
    """
    if work := different_work(explanation):
        return work
    of_systems = _reasons(explanation)
    for name, text in of_systems:
        if name == explanation.after.name:
            return text
    if of_systems:
        return of_systems[0][1]
    return headline(explanation)


def headline(explanation: Explanation) -> str:
    """Return which step is faster, and by how much, as a sentence without its period; or why there
    is no such answer.
    """
    if work := different_work(explanation):
        return f"Not compared: {work}"
    both = (explanation.before, explanation.after)
    faster, slower = sorted(both, key=lambda trace: trace.seconds)
    # A trace covers single GPUs, each of which is known to do the same work.
    per = " per GPU"
    end = f": {ms(faster.seconds)} vs {ms(slower.seconds)} ms per step"
    if None in explanation.products:
        per = " per step"
        end = f", if both do the same work{end}"
    if explanation.interval is not None and explanation.interval[0] <= 0 <= explanation.interval[1]:
        return f"No significant difference between {faster.name} and {slower.name}{end}"
    return f"{faster.name} is {gain([slower.seconds / faster.seconds], per)} {slower.name}{end}"


def different_work(explanation: Explanation) -> str | None:
    """Return how the work in the two traces differs, or that they are the same trace; None if the
    work is or may be the same.
    """
    before = explanation.before
    after = explanation.after
    if before.trace == after.trace:
        return f"{join_names([before.name, after.name])} are the same trace"
    if explanation.other_kind:
        part, (first, second) = explanation.other_kind
        return (
            f"different work, {part_title(part)} takes {first:.1%} of the computation in"
            f" {before.name} and {second:.1%} in {after.name}"
        )
    ratio = explanation.unequal_work
    if ratio is None:
        return None
    if ratio > 1:
        more = after.name
        less = before.name
    else:
        more = before.name
        less = after.name
    factor = units.times(max(ratio, 1 / ratio))
    return f"different work, a step of {more} has {factor} the matrix-product FLOPs of {less}"


def reasons(explanation: Explanation) -> list[str]:
    """Return sentences on where each system is slower, or on what limits the steps instead of GPU
    work.
    """
    return [text for _, text in _reasons(explanation)]


def _reasons(explanation: Explanation) -> list[tuple[str, str]]:
    """Return the sentences of reasons(), each with the name of the first system that it is
    about.
    """
    names = (explanation.before.name, explanation.after.name)
    limited: dict[Limit, list[str]] = {}
    for name, limit in zip(names, explanation.limits, strict=True):
        if limit != "gpu":
            limited.setdefault(limit, []).append(name)
    texts = []
    for limit, of in limited.items():
        share = _share(explanation, limit)
        text = f"{join_names(of)}: the GPU {CAUSES[limit]}, for {share} of the step"
        texts.append((of[0], text))
    if "gpu" not in explanation.limits or not explanation.is_comparable:
        return texts
    least = SMALL * explanation.before.seconds
    for name, sign in ((names[1], 1), (names[0], -1)):
        parts = []
        for bar in explanation.bars:
            if sign * bar.delta > least:
                parts.append(f"{part_title(bar.part)} (+{ms(abs(bar.delta))} ms)")
        if parts:
            texts.append((name, f"{name} is slower in {join_names(parts[:3])}"))
    return texts


def look_first(explanation: Explanation) -> str | None:
    """Return what to look at first, as a sentence without its period; None if the traces have no
    parts, or different work.
    """
    bar = explanation.first_look
    if bar is None or not explanation.is_comparable:
        return None
    if ratio := explanation.uniform:
        slower = explanation.after if ratio > 1 else explanation.before
        percent = f"{max(ratio, 1 / ratio) - 1:.0%}"
        return (
            f"clocks and power limit: all kinds of kernels are about {percent} slower on"
            f" {slower.name}"
        )
    cause = bar.part
    if cause not in IDLE and "communication" in explanation.limits:
        cause = "communication"
    if cause in ADVICE:
        return ADVICE[cause]
    if not bar.operators:
        return f"{part_title(bar.part)}, {_change(bar.before, bar.after)} ms"
    operator = bar.operators[0]
    text = f"{part_title(bar.part)}: {operator_title(operator)}, {_change(*operator.seconds)} ms"
    return "; ".join(filter(None, (text, _kernels(explanation, operator))))


def speeds(explanation: Explanation, operator: Operator) -> str:
    """Return how fast an operator's matrix products ran in both traces; empty for any other
    operator.
    """
    texts = []
    names = (explanation.before.name, explanation.after.name)
    for name, achieved in zip(names, operator.achieved(explanation), strict=True):
        if achieved:
            texts.append(f"{name} {_achieved(achieved)}")
    return ", ".join(texts)


def operator_title(operator: Operator) -> str:
    """Return an operator's name with the size of its matrix product, or the shape of its first
    input.
    """
    name = operator.name.removeprefix("aten::")
    if not (operator.before or operator.after)[0].operator:
        return shortened(kernel_title(operator.name), 40)
    if operator.product:
        size = operator.product.title
    else:
        size = "×".join(map(str, next(filter(None, operator.shapes), ())))
    return plain(f"{name} {size}".strip())


def pair_title(operator: Operator) -> str:
    """Return an operator's longest kernel in each trace; the operator if both are PyTorch's own."""
    names = [shortened(_kernel(work), LONGEST_KERNEL) for work in (operator.before, operator.after)]
    return " vs ".join(dict.fromkeys(names))


def document(explanation: Explanation) -> Document:
    """Return the difference, its parts in order of effect, and what to look at first; then the
    operators in these parts.
    """
    advice: list[Block] = []
    if not explanation.is_comparable:
        is_one = explanation.before.trace == explanation.after.trace
        advice.append(NextSteps(["pass the traces of two runs" if is_one else SAME_WORK]))
    elif look := look_first(explanation):
        advice.append(Paragraph(f"Start with: {look}"))
    first = Headline(headline(explanation))
    screen: list[Block] = [first]
    screen += [Paragraph(reason, DETAIL) for reason in reasons(explanation)]
    screen.append(_table(explanation, MOST_BARS))
    screen += [*notes(caveats(explanation), marks="!"), *advice]
    rest: list[Block] = [_table(explanation)]
    for operators, title in _operators(explanation):
        rest += (Heading(3, title), operators)
    return Document(screen, rest, [first, *advice])


def caveats(explanation: Explanation) -> Iterator[str]:
    """Yield what a reader must know with the answer."""
    before = explanation.before
    after = explanation.after
    if before.ranks != after.ranks and before.ranks and after.ranks:
        yield (
            f"{before.name} has {counted(before.ranks, 'rank')}, {after.name} has {after.ranks}:"
            " work may differ"
        )
    if explanation.is_of_hosts:
        shares = f"{before.idle:.0%} and {after.idle:.0%}"
        yield f"the GPU is idle for {shares} of the step: this compares hosts, not GPUs"
    if None in explanation.products and explanation.is_comparable:
        yield (
            "not all matrix products state their sizes: whether both traces do the same work is"
            " unknown"
        )
    if explanation.interval is None:
        yield "only one step or rank: the variation of these times is unknown"
    if any(limit != "gpu" for limit in explanation.limits):
        yield CAVEAT


def _table(explanation: Explanation, most: int | None = None) -> Table:
    """Return a table of the parts of a step in ms, with intervals and their main kernels.

    It has at most `most` rows of parts (None: all); the remaining parts, which hardly differ, share
    one row.
    """
    bars: Sequence[Bar] = explanation.bars
    if most is not None:
        bars = [bar for bar in bars if abs(bar.delta) >= _small(explanation)][:most]
    rows = []
    for bar in bars:
        change = _delta(bar.delta, bar.interval)
        rows.append([part_title(bar.part), ms(bar.before), ms(bar.after), change, _behind(bar)])
    rest = explanation.bars[len(bars) :]
    if rest:
        before = sum(bar.before for bar in rest)
        after = sum(bar.after for bar in rest)
        title = counted(len(rest), "smaller part")
        rows.append([title, ms(before), ms(after), _signed(after - before), ""])
    change = _delta(explanation.delta, explanation.interval)
    rows.append(["step", ms(explanation.before.seconds), ms(explanation.after.seconds), change, ""])
    difference = "difference" if explanation.interval is None else f"difference ± {level()} CI"
    header = ["ms per step", *_names(explanation), difference, "kernels that differ most"]
    return Table(header, rows, is_cut=True)


def _names(explanation: Explanation) -> list[str]:
    return [explanation.before.name, explanation.after.name]


def _small(explanation: Explanation) -> float:
    """Return the time below which a part has no line, s: 1 ms for a step of 0.5 s."""
    return SMALL * max(explanation.before.seconds, explanation.after.seconds)


def _operators(explanation: Explanation) -> Iterator[tuple[Table, str]]:
    """Yield a table of the operators in each part that differs, with the speed of matrix
    products.
    """
    header = ["operator, ms", *_names(explanation), "difference", "kernels"]
    for bar in explanation.bars:
        if not bar.operators or abs(bar.delta) < SMALL * explanation.before.seconds:
            continue
        rows = []
        for operator in bar.operators[:MOST_OPERATORS]:
            if abs(operator.delta) >= 0.01 * abs(bar.delta):
                change = _signed(operator.delta)
                times = map(ms, operator.seconds)
                kernels = _kernels(explanation, operator)
                rows.append([operator_title(operator), *times, change, kernels])
        yield Table(header, rows, is_cut=True), f"{part_title(bar.part)}, {_signed(bar.delta)} ms"


def _kernels(explanation: Explanation, operator: Operator) -> str:
    """Return an operator's kernels, if they tell more than its name, and the speed of its matrix
    products.
    """
    pair = pair_title(operator)
    named = "" if operator_title(operator).startswith(pair) else pair
    return "; ".join(filter(None, (named, speeds(explanation, operator))))


def values(explanation: Explanation) -> JsonObject:
    """Return an explanation as plain values for --json, times in seconds."""
    parts = []
    for bar in explanation.bars:
        operators = [_operator_values(explanation, operator) for operator in bar.operators]
        part = {"part": bar.part, "seconds": [bar.before, bar.after]}
        parts.append(
            {**part, **fields(bar, "difference=delta", "interval"), "operators": operators}
        )
    before = explanation.before
    after = explanation.after
    return {
        "systems": [before.name, after.name],
        "seconds": [before.seconds, after.seconds],
        **fields(explanation, "difference=delta", "interval", "limits"),
        "overlapped_communication": [
            before.overlapped_communication,
            after.overlapped_communication,
        ],
        "matrix_product_flops": explanation.products,
        "parts": parts,
        "headline": headline(explanation),
        "caveats": list(caveats(explanation)),
        "look_first": look_first(explanation),
    }


def _operator_values(explanation: Explanation, operator: Operator) -> JsonObject:
    kernels = []
    for works in (operator.before, operator.after):
        kernels.append([work.kernel for work in works])
    speeds = [speed and dataclasses.asdict(speed) for speed in operator.achieved(explanation)]
    return {
        **fields(operator, "name", "shapes", "seconds", "difference=delta"),
        "kernels": kernels,
        "achieved": speeds,
    }


def waterfall(explanation: Explanation) -> JsonObject:
    """Return the bars of a waterfall chart from one step time to the other, with the start and the
    length of each, ms.
    """
    steps = []
    smaller = []
    for bar in explanation.bars:
        if abs(bar.delta) >= _small(explanation):
            steps.append((part_title(bar.part), bar.delta, _behind(bar)))
        else:
            smaller.append(bar.delta)
    if smaller:
        steps.append((counted(len(smaller), "smaller part"), sum(smaller), ""))
    at = explanation.before.seconds
    names = [explanation.before.name]
    bases = [0.0]
    lengths = [1e3 * at]
    kernels = [""]
    for title, delta, behind in steps:
        names.append(title)
        bases.append(1e3 * at)
        lengths.append(1e3 * delta)
        kernels.append(behind)
        at += delta
    names.append(explanation.after.name)
    bases.append(0.0)
    lengths.append(1e3 * at)
    kernels.append("")
    return {"names": names, "bases": bases, "values": lengths, "notes": kernels}


def _delta(delta: float, interval: Bounds | None) -> str:
    if interval is None:
        return _signed(delta)
    return f"{_signed(delta)} ± {ms((interval[1] - interval[0]) / 2)}"


def _behind(bar: Bar) -> str:
    """Return the main kernels of a part: the pair of the operator that differs most."""
    if not bar.operators:
        return ""
    operator = bar.operators[0]
    names = [_kernel(work) for work in (operator.before, operator.after) if work]
    return " vs ".join(dict.fromkeys(names))


def _kernel(work: Sequence[TracedWork]) -> str:
    """Return a short name of the longest kernel; for PyTorch's own kernels, that of the
    operator.
    """
    if not work:
        return "none"
    if "at::native::" in work[0].kernel:
        return work_title(work[0])
    return kernel_title(work[0].kernel)


def _share(explanation: Explanation, limit: Limit) -> str:
    """Return the shares of the step that idle time, or communication, takes if it limits a step."""
    before = 0.0
    after = 0.0
    for bar in explanation.bars:
        if is_limited(bar.part, limit):
            before += bar.before
            after += bar.after
    texts = []
    if explanation.limits[0] == limit:
        texts.append(f"{before / explanation.before.seconds:.0%}")
    if explanation.limits[1] == limit:
        texts.append(f"{after / explanation.after.seconds:.0%}")
    return " and ".join(texts)


def _achieved(achieved: Achieved) -> str:
    tflops = f"{achieved.tflops:,.0f} TFLOP/s"
    if achieved.of_peak is not None:
        tflops += f" ({achieved.of_peak:.0%} of peak)"
    text = f"{tflops}, {achieved.terabytes_per_s:.2f} TB/s"
    # The share of the bandwidth may exceed 1: small matrices stay in a cache.
    share = achieved.of_bandwidth
    if share is not None and share <= 1:
        return f"{text} ({share:.0%})"
    return text


def _change(before: float, after: float) -> str:
    return f"{ms(before)} → {ms(after)}"


def _signed(seconds: float) -> str:
    return f"{seconds * 1e3:+,.2f}".replace("-", "−")
