"""Comparison -> frameworks side by side on a terminal: the hardware, a table for each model, then who is fastest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from tprimat import units
from tprimat.compare import Group, ModelComparison, SystemResult
from tprimat.report import tables
from tprimat.report.rates import rate_of, rate_unit, untimed
from tprimat.report.terminal import Terminal
from tprimat.report.verdict import Answer, Report
from tprimat.results.run import Run
from tprimat.text import plain, shortened

LONGEST_NAME = 44
"""Characters of a system's name in a table."""

LONGEST_VALUES = 240
"""Characters of the values of a setting."""

MOST_CAVEATS = 4
STEP_TIME = "avg_step_time_seconds"


def render(report: Report, *, width: int = 80, verbose: bool = False) -> str:
    """Return the summary as text, ended by a newline."""
    comparison = report.comparison
    out = Terminal(width=max(width, 60), color=False)
    devices = _each(system.gpu for system in comparison.systems)
    _title(out, f"{' and '.join(devices) or 'Unknown GPU'}: framework comparison", "=")
    for text in _header([system.run for system in comparison.systems]):
        out.line(text, indent=2)
    for model in comparison.models:
        out.line()
        _title(out, model.title, "-")
        for group in model.groups:
            unit = rate_unit(group.systems)
            header = ["Framework", unit[0].upper() + unit[1:], "Avg step time", "Final loss", "Total time"]
            out.table(header, map(_row, group.systems))
            if verbose:
                out.entries("Configuration differences", _differing(group))
    out.line()
    _title(out, "Performance summary", "=")
    for model in comparison.models:
        _summary(out, model, [each for each in report.answers if each.model is model], verbose)
    if verbose:
        out.entries("Notes", [("-", note) for note in comparison.notes])
    return out.text()


def _title(out: Terminal, text: str, rule: str) -> None:
    for line in (rule * out.width, text, rule * out.width, ""):
        out.line(line)


_HEADER: tuple[tuple[str, Callable[[Run], object]], ...] = (
    ("Hardware", lambda run: run.gpu_info.device_name or (run.environment.cpu if run.platform == "cpu" else None)),
    ("GPUs", lambda run: run.num_gpus),
    ("PyTorch", lambda run: run.gpu_info.pytorch_version),
)
_STACKS = ("CUDA", "ROCm")


def _header(runs: Sequence[Run]) -> list[str]:
    lines = []
    for title, read in _HEADER:
        stated = [read(run) for run in runs]
        some = " (not reported by all)" if any(stated) and None in stated else ""
        lines.append(f"{title}: {', '.join(_each(stated)) or 'unknown'}{some}")
    for title in _STACKS:
        versions = [run.gpu_info.software_version for run in runs if run.gpu_info.software_stack == title.lower()]
        if versions:
            lines.append(f"{title}: {', '.join(_each(versions)) or 'unknown'}")
    return lines


def _row(system: SystemResult) -> list[str]:
    loss, step = system.value("final_loss"), system.value(STEP_TIME)
    return [
        shortened(_name(system), LONGEST_NAME),
        rate_of(system) + (" (excluded)" if system.exclusion else ""),
        untimed(system) if step is None else units.seconds(step),
        units.UNKNOWN if loss is None else f"{loss:.4f}",
        _total_time(system),
    ]


def _differing(group: Group) -> list[tuple[str, str]]:
    texts = []
    for row in tables.differing(group):
        values = "; ".join(dict.fromkeys("unknown" if value is None else value for value in row.values))
        texts.append(("-", f"{row.title}: {shortened(values, LONGEST_VALUES)}"))
    return texts


def _summary(out: Terminal, model: ModelComparison, answers: Sequence[Answer], verbose: bool) -> None:
    out.line(model.title, "bold")
    for group, answer in ((each.group, each.verdict) for each in answers):
        for text in (answer.headline, answer.certainty, *answer.excluded, *_fastest(group)):
            if text:
                out.line(text, indent=2)
        most = len(answer.caveats) if verbose else MOST_CAVEATS
        marks = {"warning": "!", "info": "i"}
        texts = [(marks.get(caveat.severity, "!"), caveat.text) for caveat in answer.caveats[:most]]
        if len(answer.caveats) > most:
            texts.append(("", f"{len(answer.caveats) - most} more: --verbose"))
        out.entries("Caveats", texts, gap=False)
        for text in answer.next_steps if verbose else answer.next_steps[:1]:
            out.line(f"Next: {text}")
        out.line()


def _fastest(group: Group) -> list[str]:
    if group.leaders is None:
        return []
    ranked = [group.baseline, *(pair.system for pair in group.pairs if pair.ratio)]
    ranked = [system for system in group.systems if any(system is each for each in ranked)]
    unit = rate_unit(group.systems)
    works = {(system.count, *_work(system)) for system in ranked}
    fastest = "not compared (batch, sequence length or GPUs differ)"
    if len(works) == 1 and None not in next(iter(works)):
        first = min(ranked, key=lambda system: system.value(STEP_TIME) or math.inf)
        fastest = f"{_name(first)}, {units.seconds(first.value(STEP_TIME))}"
    return [
        f"Highest throughput: {_name(ranked[0])}, {rate_of(ranked[0])} {unit}",
        f"Fastest step time: {fastest}",
        f"Performance range: {rate_of(ranked[-1])}–{rate_of(ranked[0])} {unit}",
    ]


def _work(system: SystemResult) -> tuple[int | None, int | None]:
    config = system.run.training_config
    return config.global_batch_size, config.sequence_length


def _name(system: SystemResult) -> str:
    name = plain(system.name)
    framework = system.framework or ""
    parts = [tables.FRAMEWORKS.get(part, part) for part in name.split(", ")]
    # Where the GPU alone distinguishes the systems, the framework is named all the same: the table is about it.
    title = tables.FRAMEWORKS.get(framework, plain(framework))
    return ", ".join(parts if title in parts or not title else [title, *parts])


def _total_time(system: SystemResult) -> str:
    """Return the longest of the runs' wall times: nobody states whether they ran one after the other."""
    times = [result.summary.performance.total_time_seconds for result in system.valid_runs]
    known = [time for time in times if time is not None]
    if not known:
        return untimed(system)
    return units.duration(known[0]) if len(times) == 1 else f"up to {units.duration(max(known))}"


def _each(values: Iterable[object]) -> list[str]:
    return list(dict.fromkeys(plain(value) for value in values if value is not None))
