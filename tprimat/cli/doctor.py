"""`doctor`: what this machine has, what can therefore be run, what is missing and the command that
gets it.
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
        values = dataclasses.asdict(diagnosis) | {
            "gpus": [msgspec.structs.asdict(gpu) for gpu in diagnosis.gpus]
        }
        del values["analyses_only"]
        console.echo(json.dumps(values, indent=2, ensure_ascii=False))
    else:
        try:
            show(document(diagnosis), options)
        except ImportError as error:
            # Only rich is imported there. One that isn't installed is among what is missing.
            if not any(text.startswith("rich, ") for text in diagnosis.missing):
                diagnosis.doubts.append(f"rich can't be imported ({error}): install it again")
            found = document(diagnosis)
            if options.quiet:
                parts = found.answer
            else:
                parts = [*found.screen, *(found.details if options.verbose else ())]
            console.echo("\n".join(_without_rich(parts)).lstrip("\n"))
    return ExitStatus.OK


def document(diagnosis: Diagnosis) -> Document:
    """Return a diagnosis: what can train here, the machine, and what is missing; then versions and
    settings.
    """
    trains = diagnosis.can_train
    shown: list[Block] = [
        Headline(f"Frameworks that can train here: {', '.join(trains) or 'none'}")
    ]
    shown += [
        Paragraph(f"To benchmark with the first one: ./benchmark.py --framework {name}")
        for name in trains[:1]
    ]
    without = "Without training: tprimat read imports logs, ./compare_results.py compares results."
    shown += [
        Paragraph(without),
        _table("This machine", diagnosis.facts, SOFTWARE),
        *_gpus(diagnosis.gpus),
    ]
    problems = [*notes(diagnosis.missing, "Missing", ""), *notes(diagnosis.doubts, "Warnings", "")]
    reasons = [_table("Not available", diagnosis.cannot_train)] if diagnosis.cannot_train else []
    software = {title: text for title, text in diagnosis.facts.items() if title in SOFTWARE}
    answer = [*problems, *([] if trains or diagnosis.analyses_only else reasons)] or [
        Paragraph("Nothing is missing.")
    ]
    return Document([*shown, *problems, *reasons], [_table("Software", software)], answer)


def _table(title: str, texts: Mapping[str, str], without: Sequence[str] = ()) -> Table:
    return Table(
        [title, ""], [each for each in texts.items() if each[0] not in without], right_from=2
    )


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
                yield from console.table(
                    [[plain(text_of(cell)) for cell in row] for row in (part.header, *part.rows)]
                )


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
    first, second = (units.UNKNOWN if each is None else f"{each:.0f}" for each in (value, most))
    return f"{first} of {second} {unit}"
