"""Time to the target as blocks of a report: what each system needs, and why one is sooner there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tprimat import units
from tprimat.analysis.efficiency.subject import Value
from tprimat.analysis.intervals import level
from tprimat.compare import Comparison, ModelComparison
from tprimat.compare.target import Target, TargetRatio, ratio, target
from tprimat.report.blocks import Block, Paragraph, Table, notes

OPENING = (
    "MLPerf's official time is that from run_start to run_stop; the score is its mean without the fastest and the "
    "slowest run, times the normalisation in scaling.json. Ratios compare whole systems; above 1 the first is sooner. "
    f"In brackets: {level()} confidence intervals of the ratio of all runs' geometric means."
)

_ROWS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("seconds", "Time, min", lambda value: f"{value / 60:.2f}"),
    ("training", "Of it training, min", lambda value: f"{value / 60:.2f}"),
    ("steps", "Steps", lambda value: units.number(value, 0)),
    ("samples", "Samples", lambda value: units.number(value, 0)),
    ("tokens", "Tokens, 10⁶", lambda value: units.number(value / 1e6, 1)),
)


def blocks(comparison: Comparison, model: ModelComparison) -> Iterator[Block]:
    """Yield a table of what the systems of each group need, and one of the ratios; nothing without a target."""
    loss = comparison.options.target_loss
    for group in model.groups:
        found = {system.name: target(system, loss) for system in group.systems}
        ratios = {
            f"{pair.system.name} vs {pair.baseline.name}": each
            for pair in group.pairs
            if (each := ratio(pair.baseline, pair.system, loss))
        }
        known = {name: each for name, each in found.items() if each}
        if not known and not ratios:
            continue
        if loss is not None:
            yield Paragraph(f"Until the mean training loss of ten records is {loss:g} or less, at the mean step time:")
        if known:
            yield _needs(known)
        if factors := dict.fromkeys(name for each in ratios.values() for name in each.factors):
            rows = [[name, *(_factor(each.factors.get(factor)) for factor in factors)] for name, each in ratios.items()]
            yield Table(["Ratio", *factors], rows)
        yield from notes(_notes(known, ratios))


def _needs(known: dict[str, Target]) -> Table:
    every = known.values()
    rows = [
        (title, [text(each.mean[name]) if name in each.mean else units.UNKNOWN for each in every])
        for name, title, text in _ROWS
        if any(name in each.mean for each in every)
    ]
    rows.append(("Runs that count", [f"{len(each.counted)} of {len(each.runs)}" for each in every]))
    if any(each.official_minutes for each in every):
        scaling = [units.UNKNOWN if each.scaling is None else f"{each.scaling:.4f}" for each in every]
        rows += [("Normalisation", scaling), ("Score, min", [units.number(each.official_minutes, 2) for each in every])]
    return Table(["", *known], [[title, *texts] for title, texts in rows])


def _notes(known: dict[str, Target], ratios: dict[str, TargetRatio]) -> list[str]:
    texts = [f"{name}: {each.reason}" for name, each in ratios.items() if each.reason]
    return texts + [f"{name}: {note}" for name, each in known.items() for note in each.notes]


def _factor(factor: Value | None) -> str:
    if factor is None or factor.value is None:
        return units.UNKNOWN
    bounds = "" if factor.low is None or factor.high is None else f" [{factor.low:.3f}–{factor.high:.3f}]"
    return f"{factor.value:.3f}×{bounds}"
