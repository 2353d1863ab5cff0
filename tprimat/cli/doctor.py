"""`doctor`: what this machine has, what can therefore be run, what is missing and the command that gets it."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tprimat import console, units
from tprimat.errors import ExitStatus
from tprimat.machine.gpu import GpuState
from tprimat.measure.diagnosis import Diagnosis, diagnose
from tprimat.text import plain


def main(options: argparse.Namespace) -> int:
    """Print what this machine has and can run."""
    diagnosis = diagnose(Path(options.output_dir))
    if options.json:
        values = dataclasses.asdict(diagnosis) | {"gpus": [msgspec.structs.asdict(gpu) for gpu in diagnosis.gpus]}
        del values["analyses_only"]
        console.echo(json.dumps(values, indent=2, ensure_ascii=False))
    else:
        console.echo("\n".join(lines(diagnosis, quiet=options.quiet, verbose=options.verbose)))
    return ExitStatus.OK


def lines(diagnosis: Diagnosis, *, quiet: bool = False, verbose: bool = False) -> list[str]:
    """Return the diagnosis as text: all but versions and settings, everything, or what is missing or doubtful alone."""
    shown = []
    if not quiet:
        width = max(map(len, diagnosis.facts))
        for title, text in diagnosis.facts.items():
            if verbose or title not in ("Versions", "Settings"):
                shown.append(f"{title:<{width}}  {plain(text)}")
        if diagnosis.gpus:
            shown += ["", *_gpu_table(diagnosis.gpus)]
        shown += ["", f"Frameworks that can train here: {', '.join(diagnosis.can_train) or 'none'}."]
        if diagnosis.can_train:
            shown.append(f"To benchmark with the first one: ./benchmark.py --framework {diagnosis.can_train[0]}")
        shown.append("Without training: python3 -m tprimat read imports logs, ./compare_results.py compares results.")
    reasons = [f"{name}: {reason}" for name, reason in diagnosis.cannot_train.items()]
    if quiet and (diagnosis.can_train or diagnosis.analyses_only):
        reasons = []
    for title, texts in {"Not available": reasons, "Missing": diagnosis.missing, "Warnings": diagnosis.doubts}.items():
        if texts:
            shown += ["", f"{title}:", *(f"- {plain(text)}" for text in texts)]
    return shown[1:] if shown and not shown[0] else shown or ["Nothing is missing."]


def _gpu_table(gpus: Sequence[GpuState]) -> list[str]:
    rows = [("GPU", "name", "memory in use", "power cap", "clock")]
    for gpu in gpus:
        name = plain(gpu.name, 40) + (" (MIG)" if gpu.partitioned else "")
        memory = _share(gpu.memory_used_gb, gpu.memory_total_gb, "GB")
        power = _share(gpu.power_cap_w, gpu.power_max_w or gpu.power_default_w, "W")
        rows.append((str(gpu.index), name, memory, power, _share(gpu.clock_mhz, gpu.clock_max_mhz, "MHz")))
    return console.table(rows)


def _share(value: float | None, most: float | None, unit: str) -> str:
    if value is None and most is None:
        return units.UNKNOWN
    first, second = (units.UNKNOWN if each is None else f"{each:.0f}" for each in (value, most))
    return f"{first} of {second} {unit}"
