"""Why a step takes longer: the difference of two traces as a document."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from tprimat.analysis.intervals import level
from tprimat.compare import ModelComparison, SystemResult
from tprimat.compare.step_difference import Achieved, Bar, Explanation, Limit, Operator, Traced, explain, traced
from tprimat.report.blocks import DETAIL, Block, Document, Heading, Headline, Paragraph, Table, notes
from tprimat.report.json_values import fields
from tprimat.report.traces import kernel_title, part_title, work_title
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

SAME = 0.005
"""Relative difference of two step times below which they are called the same."""

CAUSES = {
    "idle_host_launch": "waits for the host to launch its next kernel",
    "idle_data": "waits for the host to load and prepare data",
    "idle_synchronisation": "waits while the host synchronises with it",
    "idle_other": "is idle for a reason that the trace doesn't show",
    "communication": "waits for communication that no computation hides",
}

ADVICE = {
    "idle_host_launch": "the CPU and the launch path (compile, CUDA or HIP graphs, larger batches), not a kernel",
    "idle_data": "CPU preprocessing and data loading (more workers, prefetching), not a kernel",
    "idle_synchronisation": "what waits for the GPU in each step (.item(), copies to the CPU), not a kernel",
    "idle_other": "the timeline of the trace around the gaps between queued kernels",
    "communication": "the collectives: their size, the network, and overlap with computation",
}

CAVEAT = "A profiler slows the host: idle time is longer than without it. Kernel times are hardly affected."


def of_model(model: ModelComparison) -> Explanation | None:
    """Explain why the slower system of a model is slower; None where not exactly two systems have traces.

    Where the comparison has no answer, as of traces alone, the order is that of the systems.
    """
    leaders = next((group.leaders for group in model.groups if group.leaders is not None), None)
    systems = model.systems if leaders is None else (leaders.faster, leaders.slower)
    found = [each for system in systems if (each := _traced(system)) is not None]
    return explain(*found) if len(found) == 2 else None


def _traced(system: SystemResult) -> Traced | None:
    """Return the first run of a system that has a trace, under the system's name."""
    runs = (traced(result.run, system.name) for result in system.runs)
    return next((each for each in runs if each is not None), None)


def brief(explanation: Explanation) -> str:
    """Return in one sentence, without its period, where the time goes."""
    loses = next((reason for reason in reasons(explanation) if reason.startswith(explanation.after.name)), None)
    return loses or next(iter(reasons(explanation)), headline(explanation))


def headline(explanation: Explanation) -> str:
    """Return the difference as a sentence without its period."""
    before, after = explanation.before, explanation.after
    times = f"{_ms(after.seconds)} vs {_ms(before.seconds)} ms"
    if abs(explanation.delta) < SAME * before.seconds:
        return f"{after.name} and {before.name} take the same time per step ({times})"
    more = "longer" if explanation.delta > 0 else "less"
    share = abs(explanation.delta) / before.seconds
    return f"{after.name} takes {share:.1%} {more} per step than {before.name}: {times}"


def reasons(explanation: Explanation) -> list[str]:
    """Return in a sentence each what either loses time in, or what limits the steps instead of GPU work."""
    names, limits = (explanation.before.name, explanation.after.name), explanation.limits
    if "gpu" not in limits:
        return [
            f"{join_names(which)}: the GPU {CAUSES[limit]}, for {_share(explanation, limit)} of the step"
            for limit, which in _by_limit(limits, names)
        ]
    found = [
        f"{name}: the GPU {CAUSES[limit]}, for {_share(explanation, limit)} of the step"
        for name, limit in zip(names, limits, strict=True)
        if limit != "gpu"
    ]
    for name, sign in ((names[1], 1), (names[0], -1)):
        bars = [bar for bar in explanation.bars if sign * bar.delta > SMALL * explanation.before.seconds][:3]
        if bars:
            parts = join_names([f"{part_title(bar.part)} (+{_ms(abs(bar.delta))} ms)" for bar in bars])
            found.append(f"{name} loses time in {parts}")
    return found


def look_first(explanation: Explanation) -> str | None:
    """Return what to look at first, a sentence without its period; None where the traces have no parts."""
    bar = explanation.first_look
    if bar is None:
        return None
    cause = "communication" if bar.part not in IDLE and "communication" in explanation.limits else bar.part
    if cause in ADVICE:
        return ADVICE[cause]
    operator = bar.operators[0] if bar.operators else None
    if operator is None:
        return f"{part_title(bar.part)}, {_change(bar.before, bar.after)} ms"
    text = f"{part_title(bar.part)}: {operator_title(operator)}, {_change(*operator.seconds)} ms"
    return "; ".join(filter(None, (text, _kernels(explanation, operator))))


def speeds(explanation: Explanation, operator: Operator) -> str:
    """Return how fast an operator's matrix products ran in both traces; empty for another operator."""
    named = zip((explanation.before.name, explanation.after.name), operator.achieved(explanation), strict=True)
    return ", ".join(f"{name} {_achieved(achieved)}" for name, achieved in named if achieved)


def operator_title(operator: Operator) -> str:
    """Return an operator's name with the size of its matrix product, or the shape of its first input."""
    name = operator.name.removeprefix("aten::")
    if not (operator.before or operator.after)[0].operator:
        return shortened(kernel_title(operator.name), 40)
    size = operator.product.title if operator.product else "×".join(map(str, next(filter(None, operator.shapes), ())))
    return plain(f"{name} {size}".strip())


def pair_title(operator: Operator) -> str:
    """Return the longest kernel of both traces; the operator alone where both run PyTorch's own."""
    names = [shortened(_kernel(work), LONGEST_KERNEL) for work in (operator.before, operator.after)]
    return names[0] if names[0] == names[1] else " against ".join(names)


def document(explanation: Explanation) -> Document:
    """Return the difference, its parts in order of effect, and what to look at first; then the operators behind it."""
    look = look_first(explanation)
    caution = notes(caveats(explanation), marks="!")
    advice: list[Block] = [Paragraph(f"Look first at: {look}")] if look else []
    operators: list[Block] = []
    for found, title in details(explanation):
        operators += (Heading(3, title), found)
    reasoned = [Paragraph(reason, DETAIL) for reason in reasons(explanation)]
    answer: list[Block] = [Headline(headline(explanation)), *reasoned, table(explanation, most=MOST_BARS)]
    screen: list[Block] = [*answer, *caution, *advice]
    return Document(screen, [table(explanation), *operators], [Headline(headline(explanation)), *advice])


def caveats(explanation: Explanation) -> Iterator[str]:
    """Yield what a reader must know before the answer."""
    if (ratio := explanation.unequal_work) is not None:
        before, after = explanation.before.name, explanation.after.name
        yield f"the traces do different work: {after}'s matrix products have {ratio:.2f}× the FLOPs of {before}'s"
    if explanation.interval is None:
        yield "one step or rank: how much these times vary is unknown"
    if any(limit != "gpu" for limit in explanation.limits):
        yield CAVEAT


def table(explanation: Explanation, caption: str = "", most: int | None = None) -> Table:
    """Return the parts of a step in ms, with intervals and the kernels behind them.

    Of at most so many, those that hardly differ are one row.
    """
    names = [plain(explanation.before.name), plain(explanation.after.name)]
    small = SMALL * max(explanation.before.seconds, explanation.after.seconds)
    shown = [bar for bar in explanation.bars if most is None or abs(bar.delta) >= small][:most]
    rows = [
        [part_title(bar.part), _ms(bar.before), _ms(bar.after), _delta(bar.delta, bar.interval), _behind(bar)]
        for bar in shown
    ]
    if rest := explanation.bars[len(shown) :]:
        before, after = sum(bar.before for bar in rest), sum(bar.after for bar in rest)
        rows.append([counted(len(rest), "smaller part"), _ms(before), _ms(after), _signed(after - before), ""])
    whole = _delta(explanation.delta, explanation.interval)
    rows.append(["step", _ms(explanation.before.seconds), _ms(explanation.after.seconds), whole, ""])
    difference = "difference" if explanation.interval is None else f"difference ± {level()} CI"
    return Table(["ms per step", *names, difference, "kernels that differ most"], rows, caption=caption, is_cut=True)


def details(explanation: Explanation) -> Iterator[tuple[Table, str]]:
    """Yield the operators behind each part that differs, with the speed of matrix products."""
    names = [plain(explanation.before.name), plain(explanation.after.name)]
    for bar in _differing(explanation):
        rows = [
            [
                operator_title(operator),
                *(_ms(time) for time in operator.seconds),
                _signed(operator.delta),
                _kernels(explanation, operator),
            ]
            for operator in _worth(bar)
        ]
        header = ["operator, ms", *names, "difference", "kernels"]
        yield Table(header, rows, is_cut=True), f"{part_title(bar.part)}, {_signed(bar.delta)} ms"


def _worth(bar: Bar) -> list[Operator]:
    """Return the operators behind a part, without those that hardly differ."""
    return [each for each in bar.operators[:MOST_OPERATORS] if abs(each.delta) >= 0.01 * abs(bar.delta)]


def _kernels(explanation: Explanation, operator: Operator) -> str:
    """Return an operator's kernels, where they say more than its name, and the speed of its matrix products."""
    pair = pair_title(operator)
    named = "" if operator_title(operator).startswith(pair) else pair
    return "; ".join(filter(None, (named, speeds(explanation, operator))))


def _differing(explanation: Explanation) -> list[Bar]:
    """Return the parts with operators that differ enough to look behind them."""
    small = SMALL * explanation.before.seconds
    return [bar for bar in explanation.bars if bar.operators and abs(bar.delta) >= small]


def values(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as plain values for --json, times in seconds."""

    def operator_values(operator: Operator) -> dict[str, Any]:
        before, after = operator.achieved(explanation)
        return {
            **fields(operator, "name", "shapes", "seconds", "difference=delta"),
            "kernels": [[work.kernel for work in works] for works in (operator.before, operator.after)],
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


def waterfall(explanation: Explanation) -> dict[str, Any]:
    """Return the bars of a waterfall from one step time to the other, ms: where each begins and how long it is."""
    small = SMALL * max(explanation.before.seconds, explanation.after.seconds)
    shown = [bar for bar in explanation.bars if abs(bar.delta) >= small]
    rest = sum(bar.delta for bar in explanation.bars if abs(bar.delta) < small)
    steps = [(part_title(bar.part), bar.delta, _behind(bar)) for bar in shown]
    if len(shown) < len(explanation.bars):
        steps.append((counted(len(explanation.bars) - len(shown), "smaller part"), rest, ""))
    at = explanation.before.seconds
    names, bases, values, notes = [explanation.before.name], [0.0], [at], [""]
    for title, delta, note in steps:
        names.append(title)
        bases.append(at)
        values.append(delta)
        notes.append(note)
        at += delta
    names.append(explanation.after.name)
    bases.append(0.0)
    values.append(at)
    notes.append("")
    return {
        "names": names,
        "bases": [1e3 * value for value in bases],
        "values": [1e3 * value for value in values],
        "notes": notes,
    }


def _delta(delta: float, interval: tuple[float, float] | None) -> str:
    return _signed(delta) if interval is None else f"{_signed(delta)} ± {_ms((interval[1] - interval[0]) / 2)}"


def _behind(bar: Bar) -> str:
    """Return the kernels behind a part: the pair of the operator that differs most."""
    operator = bar.operators[0] if bar.operators else None
    names = [_kernel(work) for work in (operator.before, operator.after) if work] if operator else []
    return " vs ".join(dict.fromkeys(names))


def _kernel(work: Sequence[TracedWork]) -> str:
    """Return a short name of the longest kernel: of PyTorch's own that of the operator."""
    if not work:
        return "none"
    if "at::native::" in work[0].kernel:
        return work_title(work[0])
    return kernel_title(work[0].kernel)


def _by_limit(limits: Sequence[Limit], names: Sequence[str]) -> list[tuple[Limit, list[str]]]:
    found: dict[Limit, list[str]] = {}
    for limit, name in zip(limits, names, strict=True):
        found.setdefault(limit, []).append(name)
    return list(found.items())


def _share(explanation: Explanation, limit: Limit) -> str:
    """Return the shares of the step that idle time, or communication, takes where it limits a step."""
    shares = []
    for system, each in zip((explanation.before, explanation.after), explanation.limits, strict=True):
        if each == limit:
            seconds = sum(
                bar.before if system is explanation.before else bar.after
                for bar in explanation.bars
                if (bar.part.startswith("communication_") if limit == "communication" else bar.part == limit)
            )
            shares.append(f"{seconds / system.seconds:.0%}")
    return " and ".join(shares)


def _achieved(achieved: Achieved) -> str:
    tflops = f"{achieved.tflops:,.0f} TFLOP/s"
    if achieved.of_peak is not None:
        tflops += f" ({achieved.of_peak:.0%} of peak)"
    text = f"{tflops}, {achieved.terabytes_per_s:.2f} TB/s"
    # Small matrices stay in a cache, which is faster than the memory.
    share = achieved.of_bandwidth
    return f"{text} ({share:.0%})" if share is not None and share <= 1 else text


def _change(before: float, after: float) -> str:
    return f"{_ms(before)} → {_ms(after)}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f}"


def _signed(seconds: float) -> str:
    return f"{seconds * 1e3:+,.2f}".replace("-", "−")
