"""`doctor`: what this machine has, what can therefore be run, what is missing and the command that gets it."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tprimat import console, units
from tprimat.errors import ExitStatus
from tprimat.machine.gpu import GpuState
from tprimat.measure.diagnosis import Diagnosis, diagnose
from tprimat.text import plain


def main(options: argparse.Namespace) -> int:
    """Print what this machine has and can run."""
    diagnosis = diagnose(Path(options.output_dir))
    if options.json:
        console.echo(json.dumps(_values(diagnosis), indent=2, ensure_ascii=False))
    else:
        console.echo("\n".join(lines(diagnosis, quiet=options.quiet, verbose=options.verbose)))
    return ExitStatus.WELL


def lines(diagnosis: Diagnosis, *, quiet: bool = False, verbose: bool = False) -> list[str]:
    """Return the diagnosis as text: all but versions and settings, everything, or what is missing or doubtful alone."""
    shown = []
    if not quiet:
        width = max(len(title) for title, _ in diagnosis.facts)
        for title, text in diagnosis.facts:
            if verbose or title not in ("Versions", "Settings"):
                shown.append(f"{title:<{width}}  {plain(text)}")
        if diagnosis.gpus:
            shown += ["", *_gpu_table(diagnosis.gpus)]
        able = ", ".join(diagnosis.able) or "none"
        shown += ["", f"Frameworks that can train here: {able}."]
        if diagnosis.able:
            shown.append(f"  ./benchmark.py --framework {diagnosis.able[0]} measures with the first of them.")
        shown.append("Logs of trainings can be read and results compared: tprimat read, ./compare_results.py.")
    has_reasons = not quiet or not (diagnosis.able or diagnosis.analyses_only)
    for title, texts in (
        ("Can't train here", [f"{name}: {reason}" for name, reason in diagnosis.unable] if has_reasons else []),
        ("Missing", diagnosis.missing),
        ("Doubtful", diagnosis.warnings),
    ):
        if texts:
            shown += ["", f"{title}:", *(f"- {plain(text)}" for text in texts)]
    return shown[1:] if shown and not shown[0] else shown or ["Nothing is missing."]


def _gpu_table(gpus: Sequence[GpuState]) -> list[str]:
    def pair(one: float | None, other: float | None, unit: str) -> str:
        if one is None and other is None:
            return units.UNKNOWN
        first, second = (units.UNKNOWN if each is None else f"{each:.0f}" for each in (one, other))
        return f"{first} of {second} {unit}"

    rows = [("GPU", "name", "memory in use", "power cap", "clock")]
    rows += [
        (
            str(gpu.index),
            plain(gpu.name, 40) + (" (MIG)" if gpu.partitioned else ""),
            pair(gpu.memory_used_gb, gpu.memory_total_gb, "GB"),
            pair(gpu.power_cap_w, gpu.power_max_w or gpu.power_default_w, "W"),
            pair(gpu.clock_mhz, gpu.clock_max_mhz, "MHz"),
        )
        for gpu in gpus
    ]
    return console.table(rows)


def _values(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis for a program."""
    return {
        "facts": dict(diagnosis.facts),
        "gpus": [dataclasses.asdict(gpu) for gpu in diagnosis.gpus],
        "can_train": list(diagnosis.able),
        "cannot_train": dict(diagnosis.unable),
        "missing": list(diagnosis.missing),
        "doubts": list(diagnosis.warnings),
    }
