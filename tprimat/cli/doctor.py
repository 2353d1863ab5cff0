"""`doctor`: what this machine has, what can be run on it, what is missing, and the commands that
install it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tprimat import console, units
from tprimat.cli._showing import show
from tprimat.errors import ExitStatus
from tprimat.machine.gpu import GpuState
from tprimat.measure.diagnosis import Diagnosis, diagnose
from tprimat.report.blocks import Block, Document, Headline, Notes, Paragraph, Table, notes, text_of
from tprimat.text import plain

SOFTWARE = ("Versions", "Settings")
"""Facts that --verbose shows."""


def main(options: argparse.Namespace) -> int:
    """Print what this machine has and can run."""
    diagnosis = diagnose(Path(options.output_dir))
    if options.json:
        values = dataclasses.asdict(diagnosis)
        values["gpus"] = list(map(msgspec.structs.asdict, diagnosis.gpus))
        del values["analyses_only"]
        console.echo(json.dumps(values, indent=2, ensure_ascii=False))
    else:
        try:
            show(document(diagnosis), options)
        except ImportError as error:
            # Only rich is imported there. If it isn't installed, it is listed as missing.
            if not any(text.startswith("rich, ") for text in diagnosis.missing):
                diagnosis.doubts.append(f"rich can't be imported ({error}): install it again")
            report = document(diagnosis)
            parts = report.answer if options.quiet else report.screen
            if options.verbose:
                parts = [*parts, *report.details]
            console.echo("\n".join(_without_rich(parts)).lstrip("\n"))
    return ExitStatus.OK


def document(diagnosis: Diagnosis) -> Document:
    """Return a diagnosis: what can train here, the machine, and what is missing; then versions and
    settings.
    """
    trains = diagnosis.can_train
    screen: list[Block] = [
        Headline(f"Frameworks that can train here: {', '.join(trains) or 'none'}")
    ]
    if trains:
        first = f"./benchmark.py --framework {trains[0]}"
        screen.append(Paragraph(f"To benchmark with the first one: {first}"))
    without = "Without training: tprimat read imports logs, ./compare_results.py compares results."
    software = {title: text for title, text in diagnosis.facts.items() if title in SOFTWARE}
    others = {title: text for title, text in diagnosis.facts.items() if title not in SOFTWARE}
    screen += [Paragraph(without), _table("This machine", others), *_gpus(diagnosis.gpus)]
    problems = [*notes(diagnosis.missing, "Missing", ""), *notes(diagnosis.doubts, "Warnings", "")]
    reasons = [_table("Not available", diagnosis.cannot_train)] if diagnosis.cannot_train else []
    answer = [*problems]
    if not trains and not diagnosis.analyses_only:
        answer += reasons
    if not answer:
        answer.append(Paragraph("Nothing is missing."))
    return Document([*screen, *problems, *reasons], [_table("Software", software)], answer)


def _table(title: str, texts: Mapping[str, str]) -> Table:
    return Table([title, ""], list(texts.items()), right_from=2)


def _without_rich(parts: Sequence[Block]) -> Iterator[str]:
    for part in parts:
        match part:
            case Headline(text) | Paragraph(text):
                yield text_of(text)
            case Notes():
                yield f"\n{text_of(part.title)}"
                yield from (f"- {plain(text_of(entry))}" for entry, _ in part.entries)
            case Table():
                yield ""
                rows = (part.header, *part.rows)
                yield from console.table([list(map(plain, map(text_of, row))) for row in rows])


def _gpus(gpus: Sequence[GpuState]) -> list[Block]:
    rows = []
    for gpu in gpus:
        name = plain(gpu.name, 40) + (" (MIG)" if gpu.partitioned else "")
        memory = _share(gpu.memory_used_gb, gpu.memory_total_gb, "GB")
        power = _share(gpu.power_cap_w, gpu.power_max_w or gpu.power_default_w, "W")
        rows.append(
            [str(gpu.index), name, memory, power, _share(gpu.clock_mhz, gpu.clock_max_mhz, "MHz")]
        )
    if rows:
        return [Table(["GPU", "name", "memory in use", "power cap", "clock"], rows, right_from=2)]
    return []


def _share(value: float | None, most: float | None, unit: str) -> str:
    if value is None and most is None:
        return units.UNKNOWN
    first = units.UNKNOWN if value is None else f"{value:.0f}"
    second = units.UNKNOWN if most is None else f"{most:.0f}"
    return f"{first} of {second} {unit}"
