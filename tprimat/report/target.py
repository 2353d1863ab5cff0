"""Time as blocks of a report: what each system needs to the target or to its end, where it goes,
why one is sooner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tprimat import units
from tprimat.analysis.efficiency.subject import Value
from tprimat.analysis.intervals import level
from tprimat.analysis.run_account import account_of, percentiles
from tprimat.compare import Comparison, Group, ModelComparison
from tprimat.compare.target import Target, TargetRatio, benchmark, parts_of, spent, target, times
from tprimat.report import tables
from tprimat.report.blocks import (
    DETAIL,
    Block,
    Code,
    Content,
    Document,
    Headline,
    Paragraph,
    Table,
    notes,
)
from tprimat.report.verdict import Report
from tprimat.results.account import PARTS, Account
from tprimat.text import each_once

_SCORE = (
    "MLPerf's official time is that from run_start to run_stop; the score is its mean without the"
    " fastest and the slowest run, times the normalization in scaling.json. "
)
_RATIOS = (
    "The ratio of two times is speed × samples × rest: training time per sample, samples, and wall"
    " time over training time. Ratios compare whole systems; above 1, the first system is sooner"
    f" at the target. In brackets: {level()} confidence intervals of the ratio of all runs'"
    " geometric means."
)

ALL_TRAINING = 0.95
"""Share of the wall time that is training, warm-up included; below it the first screen has a line
on time.
"""

LEAST_SHARE = 0.0005
"""Share of the wall time that a part must reach in a system to have a row: below it, it is 0.0%."""

MOST_ROWS = 20
"""Systems in a table of the first screen."""

Known = Mapping[str, Target]


def document(report: Report) -> Document:
    """Return what --time shows: the time of each system, its parts, and why one is sooner."""
    screen: list[Block] = []
    for answer in report.answers:
        group = answer.group
        loss = report.comparison.options.target_loss
        known = _known(group, loss)
        ratios = _ratios(group, loss)
        about = ", ".join(filter(None, [answer.group.title, tables.shared(report.comparison)]))
        products = {name: text for name, each in ratios.items() if (text := _product(each))}
        certainty = next(iter(products.values())) if len(known) == 2 and products else ""
        if loss is None:
            none = "Wall times are unknown: no time stamps"
        else:
            none = f"No run reaches a loss of {loss:g}"
        screen.append(Headline(_sentence(known) or none, certainty, about))
        screen += [_needs(group, known, ratios)] if known else []
        screen += notes(
            [f"{name}: {text}" for name, text in products.items()] if not certainty else [], most=4
        )
        changes = []
        for caveat in group.caveats:
            if caveat.code in ("speed-changed", "unlike-blocks"):
                changes.append(caveat.text)
        others = _notes(known, ratios)
        screen += notes(
            [*changes, *others], "Caveats", ["!"] * len(changes) + ["i"] * len(others), 4
        )
    return Document(screen, [run for answer in report.answers for run in _runs(answer.group)])


def line(group: Group) -> Iterator[Block]:
    """Yield the first screen's line on time: if a target is logged, or much of the time is not
    training.
    """
    known = _known(group)
    if len(group.systems) != 2 or len(known) < 2:
        return
    trained = (
        each.mean.get("training", each.mean["seconds"]) / each.mean["seconds"]
        for each in known.values()
    )
    if not any(benchmark(system.run) for system in group.systems) and min(trained) >= ALL_TRAINING:
        return
    products = filter(None, (_product(each, 2) for each in _ratios(group).values()))
    yield Paragraph(
        ": ".join([_sentence(known, ".3g").replace("the target:", "target"), *products]), DETAIL
    )


def heading(comparison: Comparison) -> tuple[str, str]:
    """Return the title and the opening of the report's section on time."""
    is_official = any(benchmark(system.run) for system in comparison.systems)
    if is_official or comparison.options.target_loss is not None:
        title = "Time to the target"
    else:
        title = "Wall time"
    return title, (_SCORE if is_official else "") + _RATIOS


def blocks(comparison: Comparison, model: ModelComparison) -> Iterator[Block]:
    """Yield tables of what the systems of each group need, of the ratios, and of the parts of each
    run.
    """
    loss = comparison.options.target_loss
    for group in model.groups:
        known = _known(group, loss)
        ratios = _ratios(group, loss)
        if loss is not None and (known or ratios):
            yield Paragraph(
                f"Until the mean training loss of ten records is {loss:g} or less, at the mean step"
                " time:"
            )
        if known:
            yield _needs(group, known, ratios)
        if factors := dict.fromkeys(name for each in ratios.values() for name in each.factors):
            rows = []
            for name, each in ratios.items():
                rows.append([name, *(_factor(each.factors.get(factor)) for factor in factors)])
            # The names are fields of --json, whose spelling stays.
            yield Table(
                ["Ratio", *(factor.replace("isation", "ization") for factor in factors)], rows
            )
        yield from notes(_notes(known, ratios))
        yield from _runs(group)


def _known(group: Group, loss: float | None = None) -> Known:
    """Return what the systems need whose times are known; of two, first the one that a ratio is
    of.
    """
    if len(group.systems) == 2 and group.pairs:
        systems = [group.pairs[0].system, group.pairs[0].baseline]
    else:
        systems = None
    found = {}
    for each in systems or group.systems:
        found[each.name] = spent(each) if loss is None else target(each, loss)
    return {name: each for name, each in found.items() if each}


def _ratios(group: Group, loss: float | None = None) -> dict[str, TargetRatio]:
    found = {}
    for pair in group.pairs:
        found[f"{pair.system.name} vs {pair.baseline.name}"] = times(pair, loss)
    return {name: each for name, each in found.items() if each}


def _time_unit(known: Known) -> tuple[str, float]:
    longest = max(each.mean.get("seconds", 0.0) for each in known.values())
    if longest >= 18_000:
        return ("h", 3600)
    if longest >= 120:
        return ("min", 60)
    return ("s", 1)


def _sentence(known: Known, form: str = ".2f") -> str:
    """Return the times of all systems in a sentence; empty without any."""
    if not all("seconds" in each.mean for each in known.values()) or not known:
        return ""
    unit, seconds = _time_unit(known)
    meant = [each for each in known.values() if each.is_to_target] or known.values()
    values = [f"{each.mean['seconds'] / seconds:{form}}" for each in meant]
    if len(values) > tables.BESIDE:
        return f"{_what(known)} of {len(values)} systems"
    return f"{_what(known)}: {' vs '.join(values)} {unit}"


def _what(known: Known) -> str:
    if any(each.loss is not None for each in known.values()):
        return "Time to the loss"
    if any(each.is_to_target for each in known.values()):
        return "Time to the target"
    return "Wall time"


def _product(ratio: TargetRatio, digits: int = 3) -> str:
    """Return the ratio of two times as the product of its factors; empty if one is unknown."""
    names = ("time", "speed", "samples", "rest")
    found = [each.value for name in names if (each := ratio.factors.get(name))]
    # Decimals are too few for a factor such as 0.065.
    texts = []
    for value in found:
        if value is not None:
            texts.append(f"{value:.{digits}{'f' if value >= 0.1 else 'g'}}")
    if len(texts) < len(names):
        return ""
    return (
        f"{texts[0]}× ="
        f" {' × '.join(f'{name} {text}' for name, text in zip(names[1:], texts[1:], strict=True))}"
    )


def _needs(group: Group, known: Known, ratios: Mapping[str, TargetRatio]) -> Table:
    """Return the parts of each system's time, and what else it needs; of two with the baseline's
    over the other's.
    """
    every, (unit, seconds) = list(known.values()), _time_unit(known)
    wholes = [each.mean.get("seconds", 0.0) for each in every]
    parts = [parts_of(each.mean) for each in every]
    rows: list[list[str]] = []

    def add(title: str, values: list[float], texts: list[str]) -> None:
        is_compared = (
            len(every) == 2 and all(values) and any(each.factors for each in ratios.values())
        )
        rows.append([title, *texts, f"{values[1] / values[0]:.2f}×" if is_compared else ""])

    lacks = [not each.is_to_target and _what(known) == "Time to the target" for each in every]
    texts = [f"{whole / seconds:.2f} {unit}" if whole else units.UNKNOWN for whole in wholes]
    add(
        _what(known),
        wholes,
        [f"{text} (no target)" if no else text for text, no in zip(texts, lacks, strict=True)],
    )
    for name in PARTS:
        values = [part.get(name, 0.0) for part in parts]
        shares = []
        for value, whole in zip(values, wholes, strict=True):
            shares.append(value / whole if whole else 0.0)
        if max(shares) >= LEAST_SHARE:
            texts = []
            for value, share in zip(values, shares, strict=True):
                texts.append(f"{value / seconds:.2f} {unit} ({share:.1%})")
            add(f"– {name}", values, texts)
    for name, title, size in (
        ("steps", "Steps", 1.0),
        ("samples", "Samples", 1.0),
        ("tokens", "Tokens, 10⁶", 1e6),
    ):
        if any(name in each.mean for each in every):
            values = [each.mean.get(name, 0.0) for each in every]
            add(
                title,
                values,
                [units.number(value / size, 0) if value else units.UNKNOWN for value in values],
            )
    systems = {system.name: system for system in group.systems}
    found = [
        percentiles((result.run, result.summary) for result in systems[name].runs) for name in known
    ]
    if any(found):
        texts = []
        for each in found:
            texts.append(
                ", ".join(units.number(time, 3) for time in each) + " s" if each else units.UNKNOWN
            )
        rows.append(["Step p50, p90, p99", *texts, ""])
    rows.append(["Runs used", *(f"{len(each.counted)} of {len(each.runs)}" for each in every), ""])
    if any(each.official_minutes for each in every):
        scaling = [
            units.UNKNOWN if each.scaling is None else f"{each.scaling:.4f}" for each in every
        ]
        score = [units.number(each.official_minutes, 2) for each in every]
        rows += [["Normalization", *scaling, ""], ["Score, min", *score, ""]]
    width = len(every) + 1 + any(row[-1] for row in rows)
    columns = [["", *known, "ratio"][:width], *(row[:width] for row in rows)]
    if len(every) > tables.BESIDE:
        columns = [list(each) for each in zip(*columns, strict=True)]
    return Table(columns[0], columns[1:], most=MOST_ROWS)


def _notes(known: Known, ratios: Mapping[str, TargetRatio]) -> list[str]:
    texts = [f"{name}: {each.reason}" for name, each in ratios.items() if each.reason]
    whose = [(name, note) for name, each in known.items() for note in each.notes]
    return texts + each_once(whose, len(known) if len(known) > 1 else 0)


def _factor(factor: Value | None) -> str:
    if factor is None or factor.value is None:
        return units.UNKNOWN
    if factor.low is None or factor.high is None:
        bounds = ""
    else:
        bounds = f" [{factor.low:.3f}–{factor.high:.3f}]"
    return f"{factor.value:.3f}×{bounds}"


def accounts(group: Group) -> list[tuple[str, str, Account]]:
    """Return the account of each run whose source has a clock, with the names of its system and
    file.
    """
    runs = ((system.name, result) for system in group.systems for result in system.runs)
    found = [(name, result.file, account_of(result.run, result.summary)) for name, result in runs]
    return [
        (name, file, each) for name, file, each in found if each and each.is_whole and each.whole
    ]


def _runs(group: Group) -> Iterator[Block]:
    """Yield where the wall time of each run went; nothing if no source has a clock."""
    known = accounts(group)
    parts = [part for part in PARTS if any(part in account.parts for _, _, account in known)]
    rows: list[list[Content]] = []
    for name, file, account in known:
        found = [account.parts.get(part) for part in parts]
        shown = []
        for time in found:
            shown.append(
                f"{units.duration(time)} ({time / account.whole:.1%})" if time else units.UNKNOWN
            )
        rows.append([name, Code(file), units.duration(account.whole), *shown])
    if rows:
        yield Paragraph("Wall time of each run, by what it went to (docs/metrics.md):")
        yield Table(
            ["System", "File", "Wall time", *(part.capitalize() for part in parts)],
            rows,
            right_from=2,
        )
