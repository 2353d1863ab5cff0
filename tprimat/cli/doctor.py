"""`doctor`: what this machine has, what can therefore be run, what is missing and the command that gets it."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprimat import console
from tprimat.cli import _display
from tprimat.cli.options._parser import Parser, add_output_options
from tprimat.errors import ExitStatus

if TYPE_CHECKING:
    from tprimat.machine.gpu import GpuState
    from tprimat.machine.host import Host
    from tprimat.machine.platforms import Machine

DESCRIPTION = """\
Says what this machine has (GPUs, driver, CUDA or ROCm, torch, frameworks, memory held by others,
power cap, clocks, disk), what can be run with it, and what is missing with the command that gets
it. Changes nothing.
"""

EPILOG = "Exit status: 0 whatever was found, 2 wrong usage."

LEAST_FREE_GB = 5.0
"""GB that a folder of results and logs should have; checkpoints are never written."""

REPORTS = {
    "matplotlib": "the picture",
    "plotly": "the charts of the HTML report",
    "rich": "tables on the terminal",
    "scipy": "intervals",
    "openpyxl": "reports of traces as workbooks",
}
"""Packages of the analysis tier, and what they are for."""


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        facts: titles with what is so, in the order in which they are shown.
        gpus: the GPUs as their driver states them.
        able: frameworks that can train here.
        unable: the others, with the reason and the command.
        missing: what else is missing, each with what it is for and the command.
        doubts: what will weaken a measurement made now.
    """

    facts: tuple[tuple[str, str], ...]
    gpus: tuple[GpuState, ...]
    able: tuple[str, ...]
    unable: tuple[tuple[str, str], ...]
    missing: tuple[str, ...]
    doubts: tuple[str, ...]


def main(argv: Sequence[str]) -> int:
    """Says what this machine has and can run.

    Args:
        argv: arguments, without the program's name.
    """
    options = _parser().parse_args(argv)
    found = diagnose(Path(options.output_dir))
    if options.json:
        import json

        _display.echo(json.dumps(_values(found), indent=2, ensure_ascii=False))
    else:
        _display.echo("\n".join(lines(found, quiet=options.quiet, verbose=options.verbose)))
    return ExitStatus.WELL


def diagnose(output: Path, host: Host | None = None, machine: Machine | None = None) -> Diagnosis:
    """Looks at the machine.

    Args:
        output: where results would be written; the disk that holds it is looked at.
        host: what to ask instead of this machine's operating system.
        machine: what a training would find there; None to find out.
    """
    from tprimat.frameworks import FRAMEWORKS
    from tprimat.machine import gpu_state, platforms
    from tprimat.machine.host import Host

    host = host or Host()
    machine = machine or platforms.detect(host=host)
    gpus = gpu_state.states(host)
    reasons = {framework.name: framework.unavailable() for framework in FRAMEWORKS}
    free, where = _free(output)
    return Diagnosis(
        facts=tuple(_facts(host, machine, free, where)),
        gpus=gpus,
        able=tuple(name for name, reason in reasons.items() if reason is None),
        unable=tuple((name, reason) for name, reason in reasons.items() if reason is not None),
        missing=tuple(
            f"{package}, for {purpose}: pip install {package}"
            for package, purpose in REPORTS.items()
            if importlib.util.find_spec(package) is None
        ),
        doubts=tuple(_doubts(host, machine, gpus, free, where)),
    )


def lines(found: Diagnosis, *, quiet: bool = False, verbose: bool = False) -> list[str]:
    """The diagnosis as text: everything; or what is missing or doubtful alone.

    Args:
        found: what to show.
        quiet: leave out what is well.
        verbose: with every version and setting that was found.
    """
    from tprimat.text import plain

    shown = []
    if not quiet:
        width = max(len(title) for title, _ in found.facts)
        for title, text in found.facts:
            if verbose or title not in ("Versions", "Settings"):
                shown.append(f"{title:<{width}}  {plain(text)}")
        if found.gpus:
            shown += ["", *_gpu_table(found.gpus)]
        able = ", ".join(found.able) or "none"
        shown += ["", f"Frameworks that can train here: {able}."]
        if found.able:
            shown.append(f"  ./benchmark.py --framework {found.able[0]} measures with the first of them.")
        shown.append("Logs of trainings can be read and results compared: tprimat read, ./compare_results.py.")
    for title, texts in (
        (
            "Can't train here",
            [f"{name}: {reason}" for name, reason in found.unable] if not quiet or not found.able else [],
        ),
        ("Missing", found.missing),
        ("Doubtful", found.doubts),
    ):
        if texts:
            shown += ["", f"{title}:", *(f"- {plain(text)}" for text in texts)]
    return shown[1:] if shown and not shown[0] else shown or ["Nothing is missing."]


def _facts(host: Host, machine: Machine, free: float | None, where: Path) -> list[tuple[str, str]]:
    from tprimat import units
    from tprimat.machine import amd, nvidia
    from tprimat.machine import host as hosts

    environment, info = machine.environment, machine.gpu_info
    memory = hosts.memory_gb()
    threads = hosts.cpu_threads(host)
    processor = hosts.cpu_name(host) or "unknown"
    drivers = [driver for vendor in (nvidia, amd) if (driver := vendor.driver_version(host))]
    stack = (
        f"{info.software_stack} {info.software_version or ''}".strip() if machine.devices else "no GPU that torch sees"
    )
    packages = {name: host.package(name) for name in ("torch", "lightning", "transformers", "nemo-toolkit")}
    versions = hosts.versions(host)
    entries = [
        ("System", hosts.operating_system(host)),
        ("Container", hosts.container(host) or "none"),
        ("Processor", f"{processor}, {threads or 'unknown'} threads for us, {units.gigabytes(memory)} of memory"),
        ("GPUs", _gpus(machine)),
        ("Driver", ", ".join(drivers) or "none was found"),
        ("CUDA or ROCm", stack),
        *((name, version or "not installed") for name, version in packages.items()),
        ("Disk", f"{units.gigabytes(free)} free at {where}"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        (
            "Settings",
            ", ".join(f"{name}={text}" for name, text in environment.settings.items()) or "none that change speed",
        ),
    ]
    return [(title, text) for title, text in entries if text]


def _gpus(machine: Machine) -> str:
    if not machine.devices:
        return "none"
    names: dict[str, int] = {}
    for device in machine.devices:
        name = device.info.device_name or "unknown GPU"
        names[name] = names.get(name, 0) + 1
    return ", ".join(f"{count}× {name}" for name, count in names.items())


def _doubts(host: Host, machine: Machine, gpus: Sequence[GpuState], free: float | None, where: Path) -> list[str]:
    from tprimat import units
    from tprimat.machine import platforms

    found = list(machine.warnings)
    if gpus and not machine.devices:
        found.append(f"the driver sees {len(gpus)} GPUs and torch none: is this torch built for them?")
    held = platforms.held_by_others(machine, host) if machine.devices else None
    if held:
        found.append(f"{held}; tprimat gpu-memory shows who it is")
    found += [
        f"GPU {gpu.index} is capped at {gpu.power_cap_w:.0f} W, below its {gpu.power_default_w:.0f} W: it will be "
        "slower than others of its kind"
        for gpu in gpus
        if gpu.is_capped
    ]
    if free is not None and free < LEAST_FREE_GB:
        found.append(f"only {units.gigabytes(free)} are free at {where}: results and logs may not fit")
    return list(dict.fromkeys(found))


def _gpu_table(gpus: Sequence[GpuState]) -> list[str]:
    from tprimat import units
    from tprimat.text import plain

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


def _free(output: Path) -> tuple[float | None, Path]:
    """GB that are free where results would be written, and the folder that was asked; None where none answers."""
    from tprimat.units import GB

    where = output
    for folder in (output, *output.absolute().parents):
        where = folder
        if folder.is_dir():
            break
    try:
        return shutil.disk_usage(where).free / GB, where
    except OSError:
        return None, where


def _values(found: Diagnosis) -> dict[str, Any]:
    """The diagnosis for a program."""
    return {
        "facts": dict(found.facts),
        "gpus": [dataclasses.asdict(gpu) for gpu in found.gpus],
        "can_train": list(found.able),
        "cannot_train": dict(found.unable),
        "missing": list(found.missing),
        "doubts": list(found.doubts),
    }


def _program() -> str:
    program = Path(sys.argv[0]).name
    return "tprimat doctor" if program in ("tprimat", "__main__.py") else program


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=_program(), description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output-dir", default="output", metavar="DIR", help="where results would go (default: output)"
    )
    add_output_options(
        parser,
        quiet="show only what is missing or doubtful",
        verbose="show every version and setting too",
        json="for programs",
    )
    return parser
