"""Why a step takes longer: the difference of two traces as a document."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tprimat import units
from tprimat.analysis.intervals import Bounds, level
from tprimat.compare import ModelComparison
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
"""Parts on the screen; the others are one line, and the reports have all."""

MOST_OPERATORS = 8
"""Operators of a part in the reports."""

LONGEST_KERNEL = 40
"""Characters of a kernel's name in a sentence."""

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

    If the comparison has no answer, as of traces alone, the order is that of the systems.
    """
    leaders = next((group.leaders for group in model.groups if group.leaders is not None), None)
    systems = model.systems if leaders is None else (leaders.faster, leaders.slower)
    # Of each system the first run that has a trace.
    runs = [
        [each for result in system.runs if (each := traced(result.run, system.name))]
        for system in systems
    ]
    found = [run[0] for run in runs if run]
    if len(found) == 2:
        return explain(*found)
    return None


def brief(explanation: Explanation) -> str:
    """Return in one sentence, without its period, where the time goes; or that it went into
    different work.
    """
    if work := different_work(explanation):
        return work
    found = reasons(explanation)
    slower = next((reason for reason in found if reason.startswith(explanation.after.name)), None)
    return slower or next(iter(found), headline(explanation))


def headline(explanation: Explanation) -> str:
    """Return which step is faster, and by how much, as a sentence without its period; or why that
    isn't said.
    """
    if work := different_work(explanation):
        return f"Not compared: {work}"
    faster, slower = sorted((explanation.before, explanation.after), key=lambda each: each.seconds)
    times = f"{ms(faster.seconds)} vs {ms(slower.seconds)} ms per step"
    # A trace is of single GPUs, and the work of each is known to be the same.
    if None in explanation.products:
        per = " per step"
        doubt = ", if both do the same work"
    else:
        per = " per GPU"
        doubt = ""
    if explanation.interval is not None and explanation.interval[0] <= 0 <= explanation.interval[1]:
        return f"No significant difference between {faster.name} and {slower.name}{doubt}: {times}"
    return (
        f"{faster.name} is {gain([slower.seconds / faster.seconds], per)} {slower.name}{doubt}:"
        f" {times}"
    )


def different_work(explanation: Explanation) -> str | None:
    """Return how the work of both traces differs, or that they are one; None if it is the same, or
    may be.
    """
    names = (explanation.before.name, explanation.after.name)
    ratio = explanation.unequal_work
    if explanation.before.trace == explanation.after.trace:
        return f"{join_names(names)} are the same trace"
    if found := explanation.other_kind:
        first, second = (f"{share:.1%}" for share in found[1])
        title = part_title(found[0])
        return (
            f"different work, {title} takes {first} of the computation in {names[0]} and {second}"
            f" in {names[1]}"
        )
    if ratio is None:
        return None
    if ratio > 1:
        more = explanation.after
        less = explanation.before
    else:
        more = explanation.before
        less = explanation.after
    factor = units.times(max(ratio, 1 / ratio))
    return (
        f"different work, a step of {more.name} has {factor} the matrix-product FLOPs of"
        f" {less.name}"
    )


def reasons(explanation: Explanation) -> list[str]:
    """Return in a sentence each where either is slower, or what limits the steps instead of GPU
    work.
    """
    names = (explanation.before.name, explanation.after.name)
    limits = explanation.limits
    if "gpu" not in limits:
        which = {}
        for limit in limits:
            which[limit] = [name for name, each in zip(names, limits, strict=True) if each == limit]
        return [
            f"{join_names(of)}: the GPU {CAUSES[limit]}, for {_share(explanation, limit)} of the"
            " step"
            for limit, of in which.items()
        ]
    found = [
        f"{name}: the GPU {CAUSES[limit]}, for {_share(explanation, limit)} of the step"
        for name, limit in zip(names, limits, strict=True)
        if limit != "gpu"
    ]
    for name, sign in ((names[1], 1), (names[0], -1)):
        bars = [
            bar for bar in explanation.bars if sign * bar.delta > SMALL * explanation.before.seconds
        ][:3]
        if bars and explanation.is_comparable:
            parts = join_names(
                [f"{part_title(bar.part)} (+{ms(abs(bar.delta))} ms)" for bar in bars]
            )
            found.append(f"{name} is slower in {parts}")
    return found


def look_first(explanation: Explanation) -> str | None:
    """Return what to look at first, a sentence without its period; None if the traces have no
    parts, or other work.
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
    if bar.part not in IDLE and "communication" in explanation.limits:
        cause = "communication"
    else:
        cause = bar.part
    if cause in ADVICE:
        return ADVICE[cause]
    operator = bar.operators[0] if bar.operators else None
    if operator is None:
        return f"{part_title(bar.part)}, {_change(bar.before, bar.after)} ms"
    text = f"{part_title(bar.part)}: {operator_title(operator)}, {_change(*operator.seconds)} ms"
    return "; ".join(filter(None, (text, _kernels(explanation, operator))))


def speeds(explanation: Explanation, operator: Operator) -> str:
    """Return how fast an operator's matrix products ran in both traces; empty for another
    operator.
    """
    named = zip(
        (explanation.before.name, explanation.after.name),
        operator.achieved(explanation),
        strict=True,
    )
    return ", ".join(f"{name} {_achieved(achieved)}" for name, achieved in named if achieved)


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
    """Return the longest kernel of both traces; the operator alone if both run PyTorch's own."""
    names = [shortened(_kernel(work), LONGEST_KERNEL) for work in (operator.before, operator.after)]
    return " vs ".join(dict.fromkeys(names))


def document(explanation: Explanation) -> Document:
    """Return the difference, its parts in order of effect, and what to look at first; then the
    operators behind it.
    """
    look = look_first(explanation)
    caution = notes(caveats(explanation), marks="!")
    advice: list[Block] = [Paragraph(f"Start with: {look}")] if look else []
    if not explanation.is_comparable:
        is_one = explanation.before.trace == explanation.after.trace
        advice = [NextSteps(["pass the traces of two runs" if is_one else SAME_WORK])]
    operators: list[Block] = []
    for found, title in details(explanation):
        operators += (Heading(3, title), found)
    reasoned = [Paragraph(reason, DETAIL) for reason in reasons(explanation)]
    answer: list[Block] = [
        Headline(headline(explanation)),
        *reasoned,
        table(explanation, most=MOST_BARS),
    ]
    screen: list[Block] = [*answer, *caution, *advice]
    return Document(
        screen, [table(explanation), *operators], [Headline(headline(explanation)), *advice]
    )


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
        shares = f"{explanation.before.idle:.0%} and {explanation.after.idle:.0%}"
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


def table(explanation: Explanation, caption: str = "", most: int | None = None) -> Table:
    """Return the parts of a step in ms, with intervals and the kernels behind them.

    Of at most so many, those that hardly differ are one row.
    """
    names = [plain(explanation.before.name), plain(explanation.after.name)]
    small = SMALL * max(explanation.before.seconds, explanation.after.seconds)
    shown = [bar for bar in explanation.bars if most is None or abs(bar.delta) >= small][:most]
    rows = []
    for bar in shown:
        rows.append(
            [
                part_title(bar.part),
                ms(bar.before),
                ms(bar.after),
                _delta(bar.delta, bar.interval),
                _behind(bar),
            ]
        )
    if rest := explanation.bars[len(shown) :]:
        before = sum(bar.before for bar in rest)
        after = sum(bar.after for bar in rest)
        rows.append(
            [counted(len(rest), "smaller part"), ms(before), ms(after), _signed(after - before), ""]
        )
    whole = _delta(explanation.delta, explanation.interval)
    rows.append(["step", ms(explanation.before.seconds), ms(explanation.after.seconds), whole, ""])
    difference = "difference" if explanation.interval is None else f"difference ± {level()} CI"
    return Table(
        ["ms per step", *names, difference, "kernels that differ most"],
        rows,
        caption=caption,
        is_cut=True,
    )


def details(explanation: Explanation) -> Iterator[tuple[Table, str]]:
    """Yield the operators behind each part that differs, with the speed of matrix products."""
    names = [plain(explanation.before.name), plain(explanation.after.name)]
    small = SMALL * explanation.before.seconds
    for bar in (bar for bar in explanation.bars if bar.operators and abs(bar.delta) >= small):
        rows = []
        for operator in bar.operators[:MOST_OPERATORS]:
            if abs(operator.delta) >= 0.01 * abs(bar.delta):
                rows.append(
                    [
                        operator_title(operator),
                        *(ms(time) for time in operator.seconds),
                        _signed(operator.delta),
                        _kernels(explanation, operator),
                    ]
                )
        header = ["operator, ms", *names, "difference", "kernels"]
        yield Table(header, rows, is_cut=True), f"{part_title(bar.part)}, {_signed(bar.delta)} ms"


def _kernels(explanation: Explanation, operator: Operator) -> str:
    """Return an operator's kernels, if they say more than its name, and the speed of its matrix
    products.
    """
    pair = pair_title(operator)
    named = "" if operator_title(operator).startswith(pair) else pair
    return "; ".join(filter(None, (named, speeds(explanation, operator))))


def values(explanation: Explanation) -> JsonObject:
    """Return an explanation as plain values for --json, times in seconds."""

    def operator_values(operator: Operator) -> JsonObject:
        before, after = operator.achieved(explanation)
        return {
            **fields(operator, "name", "shapes", "seconds", "difference=delta"),
            "kernels": [
                [work.kernel for work in works] for works in (operator.before, operator.after)
            ],
            "achieved": [each and dataclasses.asdict(each) for each in (before, after)],
        }

    both = (explanation.before, explanation.after)
    return {
        "systems": [each.name for each in both],
        "seconds": [each.seconds for each in both],
        **fields(explanation, "difference=delta", "interval", "limits"),
        "overlapped_communication": [each.overlapped_communication for each in both],
        "matrix_product_flops": explanation.products,
        "parts": [
            {
                "part": bar.part,
                "seconds": [bar.before, bar.after],
                **fields(bar, "difference=delta", "interval"),
                "operators": [operator_values(operator) for operator in bar.operators],
            }
            for bar in explanation.bars
        ],
        "headline": headline(explanation),
        "caveats": list(caveats(explanation)),
        "look_first": look_first(explanation),
    }


def waterfall(explanation: Explanation) -> JsonObject:
    """Return the bars of a waterfall from one step time to the other, ms: where each begins and how
    long it is.
    """
    small = SMALL * max(explanation.before.seconds, explanation.after.seconds)
    shown = [bar for bar in explanation.bars if abs(bar.delta) >= small]
    rest = sum(bar.delta for bar in explanation.bars if abs(bar.delta) < small)
    steps = [(part_title(bar.part), bar.delta, _behind(bar)) for bar in shown]
    if len(shown) < len(explanation.bars):
        steps.append((counted(len(explanation.bars) - len(shown), "smaller part"), rest, ""))
    at = explanation.before.seconds
    drawn = [(explanation.before.name, 0.0, 1e3 * at, "")]
    for title, delta, note in steps:
        drawn.append((title, 1e3 * at, 1e3 * delta, note))
        at += delta
    drawn.append((explanation.after.name, 0.0, 1e3 * at, ""))
    return dict(
        zip(("names", "bases", "values", "notes"), map(list, zip(*drawn, strict=True)), strict=True)
    )


def _delta(delta: float, interval: Bounds | None) -> str:
    if interval is None:
        return _signed(delta)
    return f"{_signed(delta)} ± {ms((interval[1] - interval[0]) / 2)}"


def _behind(bar: Bar) -> str:
    """Return the kernels behind a part: the pair of the operator that differs most."""
    operator = bar.operators[0] if bar.operators else None
    if operator:
        names = [_kernel(work) for work in (operator.before, operator.after) if work]
    else:
        names = []
    return " vs ".join(dict.fromkeys(names))


def _kernel(work: Sequence[TracedWork]) -> str:
    """Return a short name of the longest kernel: of PyTorch's own that of the operator."""
    if not work:
        return "none"
    if "at::native::" in work[0].kernel:
        return work_title(work[0])
    return kernel_title(work[0].kernel)


def _share(explanation: Explanation, limit: Limit) -> str:
    """Return the shares of the step that idle time, or communication, takes if it limits a step."""
    bars = [bar for bar in explanation.bars if is_limited(bar.part, limit)]
    times = (sum(bar.before for bar in bars), sum(bar.after for bar in bars))
    systems = zip((explanation.before, explanation.after), explanation.limits, times, strict=True)
    return " and ".join(
        f"{seconds / system.seconds:.0%}" for system, each, seconds in systems if each == limit
    )


def _achieved(achieved: Achieved) -> str:
    tflops = f"{achieved.tflops:,.0f} TFLOP/s"
    if achieved.of_peak is not None:
        tflops += f" ({achieved.of_peak:.0%} of peak)"
    text = f"{tflops}, {achieved.terabytes_per_s:.2f} TB/s"
    # Small matrices stay in a cache, which is faster than the memory.
    share = achieved.of_bandwidth
    if share is not None and share <= 1:
        return f"{text} ({share:.0%})"
    return text


def _change(before: float, after: float) -> str:
    return f"{ms(before)} → {ms(after)}"


def _signed(seconds: float) -> str:
    return f"{seconds * 1e3:+,.2f}".replace("-", "−")
