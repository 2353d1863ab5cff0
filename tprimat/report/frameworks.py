"""Comparison -> a document on frameworks side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from tprimat import units
from tprimat.compare import Group, SystemResult
from tprimat.compare.systems import device
from tprimat.notes.catalogue import safe_sentences, sentence
from tprimat.report import tables
from tprimat.report.blocks import (
    DETAIL,
    Block,
    Blocks,
    Document,
    Heading,
    Headline,
    NextSteps,
    Paragraph,
    Table,
    notes,
)
from tprimat.report.rates import STEP_TIME, final_losses, rate_of, rate_unit, untimed
from tprimat.report.screen import mark, verdicts
from tprimat.report.verdict import Answer, Report
from tprimat.results.run import Run
from tprimat.text import capitalized, join_names, plain, shortened

LONGEST_VALUES = 240
"""Most characters of the values of a setting."""

MOST_CAVEATS = 4


def document(report: Report) -> Document:
    """Return the hardware, a table for each model, and the fastest system; then what differs."""
    comparison = report.comparison
    devices = " and ".join(_distinct(system.gpu for system in comparison.systems))
    screen: list[Block] = [Heading(1, f"{devices or 'Unknown GPU'}: framework comparison")]
    lines = _header([system.run for system in comparison.systems])
    lines.append(f"Loaded: {join_names([plain(file.name) for file in comparison.files])}")
    screen += [Paragraph(line, DETAIL) for line in lines]
    details: list[Block] = []
    for model in comparison.models:
        screen.append(Heading(2, model.title))
        for group in model.groups:
            rate = capitalized(rate_unit(group.systems))
            header = ["Framework", rate, "Avg step time", "Final loss", "Total time"]
            losses = final_losses(group.systems, ".4f")
            screen.append(Table(header, [*map(_row, group.systems, losses)]))
            details += _differences(group, f"Configuration differences, {model.title}")
    screen.append(Heading(1, "Performance summary"))
    for answer in report.answers:
        screen += _summary(answer)
    return Document(
        screen, [*details, *notes(safe_sentences(comparison.notes), "Notes")], [*verdicts(report)]
    )


def _differences(group: Group, title: str) -> list[Block]:
    texts = []
    for row in group.settings:
        if row.differs:
            values = dict.fromkeys("unknown" if value is None else value for value in row.values)
            texts.append(f"{row.title}: {shortened('; '.join(values), LONGEST_VALUES)}")
    return notes(texts, title)


_HEADER: tuple[tuple[str, Callable[[Run], object]], ...] = (
    ("Hardware", device),
    ("GPUs", lambda run: run.num_gpus),
    ("PyTorch", lambda run: run.gpu_info.pytorch_version),
)
_STACKS = ("CUDA", "ROCm")


def _header(runs: Sequence[Run]) -> list[str]:
    lines = []
    for title, read in _HEADER:
        stated = [read(run) for run in runs]
        line = f"{title}: {', '.join(_distinct(stated)) or 'unknown'}"
        if any(stated) and None in stated:
            line += " (not reported by all)"
        lines.append(line)
    for title in _STACKS:
        versions = []
        for run in runs:
            if run.gpu_info.software_stack == title.lower():
                versions.append(run.gpu_info.software_version)
        if versions:
            lines.append(f"{title}: {', '.join(_distinct(versions)) or 'unknown'}")
    return lines


def _row(system: SystemResult, loss: str) -> list[str]:
    rate = rate_of(system)
    if system.exclusion:
        rate += " (excluded)"
    return [_name(system), rate, tables.step_time(system), loss, _total_time(system)]


def _summary(answer: Answer) -> Blocks:
    verdict = answer.verdict
    yield Headline(verdict.headline, verdict.certainty, answer.group.title)
    yield from (Paragraph(text, DETAIL) for text in (*verdict.excluded, *_fastest(answer.group)))
    marks = list(map(mark, verdict.caveats))
    yield from notes(
        [sentence(caveat.notes) for caveat in verdict.caveats], "Caveats", marks, MOST_CAVEATS
    )
    if verdict.next_steps:
        yield NextSteps(verdict.next_steps)


def _fastest(group: Group) -> list[str]:
    if group.leaders is None:
        return []
    ranked = [system for system in group.systems if system in group.compared]
    unit = rate_unit(group.systems)
    works = set()
    for system in ranked:
        config = system.run.training_config
        works.add((system.count, config.global_batch_size, config.sequence_length))
    fastest = "not compared (batch, sequence length or GPUs differ)"
    if len(works) == 1 and None not in next(iter(works)):
        first = min(ranked, key=lambda system: system.value(STEP_TIME) or math.inf)
        fastest = f"{_name(first)}, {units.seconds(first.value(STEP_TIME))}"
    highest = rate_of(ranked[0])
    return [
        f"Highest throughput: {_name(ranked[0])}, {highest} {unit}",
        f"Fastest step time: {fastest}",
        f"Performance range: {rate_of(ranked[-1])}–{highest} {unit}",
    ]


def _name(system: SystemResult) -> str:
    parts = [tables.FRAMEWORKS.get(part, part) for part in plain(system.name).split(", ")]
    # The framework is named even if only the GPU distinguishes the systems: the table is about
    # frameworks.
    framework = system.framework or ""
    title = tables.FRAMEWORKS.get(framework, plain(framework))
    if title and title not in parts:
        parts.insert(0, title)
    return ", ".join(parts)


def _total_time(system: SystemResult) -> str:
    """Return the longest of the runs' wall times, not their sum: it is unknown whether they ran one
    after the other.
    """
    times = [result.summary.performance.total_time_seconds for result in system.valid_runs]
    measured = [time for time in times if time is not None]
    if not measured:
        return untimed(system)
    if len(times) == 1:
        return units.duration(measured[0])
    return f"up to {units.duration(max(measured))}"


def _distinct(values: Iterable[object]) -> list[str]:
    return list(dict.fromkeys(plain(value) for value in values if value is not None))
