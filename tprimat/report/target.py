"""Time as blocks of a report: how long each system takes to the target or to its end, what the time
is spent on, and why one system is faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tprimat import units
from tprimat.analysis.efficiency.subject import Value
from tprimat.analysis.intervals import level
from tprimat.analysis.run_account import account_of, percentiles
from tprimat.compare import Comparison, Group, ModelComparison
from tprimat.compare.target import Target, TargetRatio, benchmark, parts_of, spent, target, times
from tprimat.notes.catalogue import safe_sentences, sentence
from tprimat.report import tables
from tprimat.report.blocks import (
    DETAIL,
    Block,
    Blocks,
    Cells,
    Code,
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
"""Share of training, warm-up included, in the wall time, below which the first screen has a line on
time.
"""

LEAST_SHARE = 0.0005
"""Share of the wall time that a part must reach in some system to have a row; a smaller one would
be shown as 0.0%.
"""

MOST_ROWS = 20
"""Most systems in a table of the first screen."""

Needs = Mapping[str, Target]
"""What systems need to reach the target or their ends, by their names."""

Ratios = Mapping[str, TargetRatio]
Amount = tuple[str, list[str], list[float]]
"""A title, the text for each system, and the value that each text shows."""

TO_TARGET = "Time to the target"


def document(report: Report) -> Document:
    """Return what --time shows: the time of each system, its parts, and why one is faster."""
    screen: list[Block] = []
    details: list[Block] = []
    shared = tables.shared(report.comparison)
    for answer in report.answers:
        group = answer.group
        screen += _screen(group, report.comparison.options.target_loss, shared)
        details += _runs(group)
    return Document(screen, details)


def _screen(group: Group, loss: float | None, shared: str) -> Blocks:
    """Yield the times of a group in a sentence and a table, why one is faster, and the caveats.

    `loss` is the training loss that the user states as the target, or None.
    """
    needs = _needs_of(group, loss)
    ratios = _ratios(group, loss)
    products = []
    for name, ratio in ratios.items():
        if text := _product(ratio):
            products.append((name, text))
    answer = _sentence(needs)
    if not answer and loss is None:
        answer = "Wall times are unknown: no time stamps"
    elif not answer:
        answer = f"No run reaches a loss of {loss:g}"
    certainty = ""
    # With two systems, the headline says which time is divided by which.
    if len(needs) == 2 and products:
        certainty = products[0][1]
    yield Headline(answer, certainty, ", ".join(filter(None, [group.title, shared])))
    if needs:
        yield _needs_table(group, needs, ratios)
    if not certainty:
        yield from notes([f"{name}: {text}" for name, text in products], most=4)
    texts = []
    marks = []
    for caveat in group.caveats:
        if caveat.code in ("speed-changed", "unlike-blocks"):
            texts.append(sentence(caveat.notes))
            marks.append("!")
    for text in _notes(needs, ratios):
        texts.append(text)
        marks.append("i")
    yield from notes(texts, "Caveats", marks, 4)


def line(group: Group) -> Blocks:
    """Yield the line on time of the first screen, if a run is of MLPerf, or if less than
    ALL_TRAINING of the time of a system is training.
    """
    needs = _needs_of(group)
    if len(group.systems) != 2 or len(needs) < 2:
        return
    shares = []
    for need in needs.values():
        seconds = need.mean["seconds"]
        shares.append(need.mean.get("training", seconds) / seconds)
    if not any(benchmark(system.run) for system in group.systems) and min(shares) >= ALL_TRAINING:
        return
    texts = [_sentence(needs, ".3g").replace("the target:", "target")]
    for ratio in _ratios(group).values():
        texts.append(_product(ratio, 2))
    yield Paragraph(": ".join(filter(None, texts)), DETAIL)


def heading(comparison: Comparison) -> tuple[str, str]:
    """Return the title and the opening of the report's section on time."""
    if any(benchmark(system.run) for system in comparison.systems):
        return TO_TARGET, _SCORE + _RATIOS
    if comparison.options.target_loss is not None:
        return TO_TARGET, _RATIOS
    return "Wall time", _RATIOS


def blocks(comparison: Comparison, model: ModelComparison) -> Blocks:
    """Yield tables of what the systems of each group need, of the ratios, and of the parts of each
    run.
    """
    loss = comparison.options.target_loss
    for group in model.groups:
        needs = _needs_of(group, loss)
        ratios = _ratios(group, loss)
        if loss is not None and (needs or ratios):
            yield Paragraph(
                f"Until the mean training loss of ten records is {loss:g} or less, at the mean step"
                " time:"
            )
        if needs:
            yield _needs_table(group, needs, ratios)
        yield from _factors(ratios)
        yield from notes(_notes(needs, ratios))
        yield from _runs(group)


def _factors(ratios: Ratios) -> Blocks:
    """Yield a table of the factors of each ratio; nothing if no factor is known."""
    factors = dict.fromkeys(name for ratio in ratios.values() for name in ratio.factors)
    if not factors:
        return
    rows = []
    for name, ratio in ratios.items():
        rows.append([name, *(_factor(ratio.factors.get(factor)) for factor in factors)])
    # The names are keys in the output of --json, whose spelling must not change.
    yield Table(["Ratio", *(factor.replace("isation", "ization") for factor in factors)], rows)


def _needs_of(group: Group, loss: float | None = None) -> Needs:
    """Return what the systems with known times need. If there are two, the one whose ratio to the
    other is shown comes first.
    """
    systems = group.systems
    if len(systems) == 2 and group.pairs:
        systems = (group.pairs[0].system, group.pairs[0].baseline)
    needs = {}
    for system in systems:
        need = spent(system) if loss is None else target(system, loss)
        if need:
            needs[system.name] = need
    return needs


def _ratios(group: Group, loss: float | None = None) -> Ratios:
    ratios = {}
    for pair in group.pairs:
        if ratio := times(pair, loss):
            ratios[f"{pair.system.name} vs {pair.baseline.name}"] = ratio
    return ratios


def _time_unit(needs: Needs) -> tuple[str, float]:
    longest = max(need.mean.get("seconds", 0.0) for need in needs.values())
    if longest >= 18_000:
        return ("h", 3600)
    if longest >= 120:
        return ("min", 60)
    return ("s", 1)


def _sentence(needs: Needs, form: str = ".2f") -> str:
    """Return the times of all systems in a sentence; empty if one is unknown."""
    if not all("seconds" in need.mean for need in needs.values()) or not needs:
        return ""
    unit, seconds = _time_unit(needs)
    reaching = [need for need in needs.values() if need.is_to_target]
    values = []
    for need in reaching or needs.values():
        values.append(f"{need.mean['seconds'] / seconds:{form}}")
    if len(values) > tables.BESIDE:
        return f"{_what(needs)} of {len(values)} systems"
    return f"{_what(needs)}: {' vs '.join(values)} {unit}"


def _what(needs: Needs) -> str:
    if any(need.loss is not None for need in needs.values()):
        return "Time to the loss"
    if any(need.is_to_target for need in needs.values()):
        return TO_TARGET
    return "Wall time"


def _product(ratio: TargetRatio, digits: int = 3) -> str:
    """Return the ratio of two times as the product of its factors; empty if a factor is unknown."""
    texts = []
    for name in ("time", "speed", "samples", "rest"):
        factor = ratio.factors.get(name)
        if factor is None or factor.value is None:
            return ""
        # A factor such as 0.065 needs significant digits instead of decimals.
        text = f"{factor.value:.{digits}{'f' if factor.value >= 0.1 else 'g'}}"
        texts.append(f"{name} {text}")
    return f"{texts[0].removeprefix('time ')}× = {' × '.join(texts[1:])}"


def _needs_table(group: Group, needs: Needs, ratios: Ratios) -> Table:
    """Return the parts of each system's time, and what else it needs; with two systems also the
    ratio of the baseline's value to the other's.
    """
    is_compared = len(needs) == 2 and any(ratio.factors for ratio in ratios.values())
    lines = [["", *needs, ""]]
    for title, texts, values in [*_times(needs), *_amounts(needs)]:
        lines.append([title, *texts, ""])
        if is_compared and all(values):
            lines[0][-1] = "ratio"
            lines[-1][-1] = f"{values[1] / values[0]:.2f}×"
    lines += [[*row, ""] for row in _runs_used(group, needs)]
    if not lines[0][-1]:
        lines = [row[:-1] for row in lines]
    if len(needs) > tables.BESIDE:
        lines = [list(column) for column in zip(*lines, strict=True)]
    return Table(lines[0], lines[1:], most=MOST_ROWS)


def _times(needs: Needs) -> Iterator[Amount]:
    """Yield the whole time of each system, and the parts that aren't negligible in every system."""
    unit, seconds = _time_unit(needs)
    what = _what(needs)
    wholes = []
    texts = []
    for need in needs.values():
        whole = need.mean.get("seconds", 0.0)
        text = f"{whole / seconds:.2f} {unit}" if whole else units.UNKNOWN
        if what == TO_TARGET and not need.is_to_target:
            text += " (no target)"
        wholes.append(whole)
        texts.append(text)
    yield what, texts, wholes
    parts = [parts_of(need.mean) for need in needs.values()]
    for name in PARTS:
        values = [part.get(name, 0.0) for part in parts]
        texts = []
        largest = 0.0
        for value, whole in zip(values, wholes, strict=True):
            share = value / whole if whole else 0.0
            largest = max(largest, share)
            texts.append(f"{value / seconds:.2f} {unit} ({share:.1%})")
        if largest >= LEAST_SHARE:
            yield f"– {name}", texts, values


def _amounts(needs: Needs) -> Iterator[Amount]:
    """Yield the steps, samples and tokens that the systems need, each if any system's is known."""
    for name, title, size in (
        ("steps", "Steps", 1.0),
        ("samples", "Samples", 1.0),
        ("tokens", "Tokens, 10⁶", 1e6),
    ):
        if any(name in need.mean for need in needs.values()):
            values = [need.mean.get(name, 0.0) for need in needs.values()]
            yield title, [units.number(value / size or None, 0) for value in values], values


def _runs_used(group: Group, needs: Needs) -> Iterator[list[str]]:
    """Yield percentiles of the step times, the number of runs that count, and MLPerf's score if
    there is one.
    """
    runs = {system.name: system.runs for system in group.systems}
    texts = []
    for name in needs:
        times = percentiles((result.run, result.summary) for result in runs[name])
        numbers = ", ".join(units.number(time, 3) for time in times)
        texts.append(f"{numbers} s" if times else units.UNKNOWN)
    if any(text != units.UNKNOWN for text in texts):
        yield ["Step p50, p90, p99", *texts]
    used = ["Runs used"]
    scaling = ["Normalization"]
    score = ["Score, min"]
    for need in needs.values():
        used.append(f"{len(need.counted)} of {len(need.runs)}")
        scaling.append(units.number(need.scaling, 4))
        score.append(units.number(need.official_minutes, 2))
    yield used
    if any(need.official_minutes for need in needs.values()):
        yield from (scaling, score)


def _notes(needs: Needs, ratios: Ratios) -> list[str]:
    texts = []
    for name, ratio in ratios.items():
        if ratio.reasons:
            texts.append(f"{name}: {sentence(ratio.reasons)}")
    of_systems = []
    for name, need in needs.items():
        for text in safe_sentences(need.notes):
            of_systems.append((name, text))
    return texts + each_once(of_systems, len(needs) if len(needs) > 1 else 0)


def _factor(factor: Value | None) -> str:
    if factor is None or factor.value is None:
        return units.UNKNOWN
    text = f"{factor.value:.3f}×"
    if factor.low is None or factor.high is None:
        return text
    return f"{text} [{factor.low:.3f}–{factor.high:.3f}]"


def accounts(group: Group) -> Iterator[tuple[str, str, Account]]:
    """Yield the account of each run whose source has a clock, with the names of its system and
    file.
    """
    for system in group.systems:
        for result in system.runs:
            account = account_of(result.run, result.summary)
            if account and account.is_whole and account.whole:
                yield system.name, result.file, account


def _runs(group: Group) -> Blocks:
    """Yield a table of what the wall time of each run was spent on; nothing if no source has a
    clock.
    """
    measured = list(accounts(group))
    parts = [part for part in PARTS if any(part in account.parts for _, _, account in measured)]
    rows: list[Cells] = []
    for name, file, account in measured:
        row: Cells = [name, Code(file), units.duration(account.whole)]
        for part in parts:
            time = account.parts.get(part)
            share = f" ({time / account.whole:.1%})" if time else ""
            row.append(f"{units.duration(time or None)}{share}")
        rows.append(row)
    if rows:
        yield Paragraph("Wall time of each run, by what it went to (docs/metrics.md):")
        header = ["System", "File", "Wall time", *map(str.capitalize, parts)]
        yield Table(header, rows, right_from=2)
