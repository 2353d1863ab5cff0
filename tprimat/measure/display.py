"""Console output of a session, before, during and after its trainings."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path

from tprimat import __version__, console, units
from tprimat.analysis import stats
from tprimat.analysis.summary import Summary
from tprimat.checks import physics, training
from tprimat.console import Verbosity
from tprimat.frameworks import scales
from tprimat.frameworks.loops import recipe
from tprimat.frameworks.request import Request
from tprimat.machine.platforms import Machine
from tprimat.measure.plan import Plan
from tprimat.results.run import Environment, GpuInfo, Platform, Run
from tprimat.text import plain

SMOKE_TEST_BELOW = 60
"""Recorded steps. With fewer, the interval of a single run covers far less than it promises."""


@dataclasses.dataclass(frozen=True)
class Group:
    """The runs of one request.

    Attributes:
        request: the request.
        requested: number of runs requested.
        runs: those that left a result, complete or not, each with its summary.
    """

    request: Request
    requested: int
    runs: tuple[tuple[Run, Summary], ...]


def would_run(command: str, request: Request, result: Path | None) -> None:
    """Print a command of a dry run, which is its outcome: at any verbosity.

    Args:
        command: as one would type it.
        request: that it would train.
        result: the file that it would write; None where its name isn't known before.
    """
    console.info(command)
    console.summary(command)
    shown = {"model": request.model, "framework": request.framework, "command": command}
    console.current().values.setdefault("commands", []).append({**shown, "result": result and str(result)})


def introduce(plan: Plan, machine: Machine) -> None:
    """Print where and what will be trained, and what should be known of it."""
    for line in machine_lines(machine.platform, machine.gpu_info, machine.environment):
        console.info(line)
    introduce_requests(plan, machine.environment)


def introduce_requests(plan: Plan, environment: Environment) -> None:
    """Print what will be trained, and what should be known of it."""
    for line in software(environment):
        console.debug(line)
    described = [(request, plan.framework_of(request).hook("introduce")(request)) for request in plan.requests]
    requests = [request for request, lines in described if not lines]
    console.info("")
    if requests:
        for line in setups(requests, [recipe.shape_of(request).num_parameters for request in requests]):
            console.info(line)
    for line in (line for _, lines in described for line in lines):
        console.info(line)
    for scale in dict.fromkeys(request.scale for request in requests):
        if scale not in (scales.FULL, scales.OTHER):
            console.note(f"{scale} is not the full model: {scales.by_name(scale).loses}")
    for note in plan.notes:
        console.note(note)
    fewest = min(request.steps for request in plan.requests)
    if fewest < SMOKE_TEST_BELOW:
        console.note(plan.advice or smoke_test(fewest))


def machine_lines(platform: Platform, gpu: GpuInfo, environment: Environment) -> list[str]:
    """Return where the trainings will run, in a line or two."""
    device = gpu.device_name or "a device that does not state its name"
    if platform == "cpu":
        threads = f", {environment.cpu_threads} threads" if environment.cpu_threads else ""
        where = f"CPU: {device}{threads}"
    else:
        where = f"{gpu.device_count or 'some'} × {device}, {units.gigabytes(gpu.total_memory_gb)} each"
    stack = {"cuda": "CUDA", "rocm": "ROCm"}.get(gpu.software_stack or "", "")
    software = [f"torch {gpu.pytorch_version}"] if gpu.pytorch_version else []
    software += [f"{stack} {gpu.software_version}"] if stack and gpu.software_version else []
    return [f"TensorPrimat {__version__} on {', '.join([plain(where), *software])}"]


def software(environment: Environment) -> list[str]:
    """Return the versions and settings that speed depends on, a line each."""
    known = (("version", environment.versions), ("setting", environment.settings))
    return [f"{kind}: {plain(name)} {plain(value)}" for kind, facts in known for name, value in facts.items()]


def smoke_test(steps: int) -> str:
    """Return the note on trainings that are too short."""
    return (
        f"this is a smoke test: {steps} recorded {'step shows' if steps == 1 else 'steps show'} that it runs, "
        f"a figure to rely on takes {SMOKE_TEST_BELOW} or more"
    )


def setups(requests: Sequence[Request], parameters: Sequence[int | None]) -> list[str]:
    """Return a line for each request that will be run, with a heading."""
    heading = ("model", "scale", "parameters", "precision", "batch", "micro", "sequence", "steps", "processes")
    rows = [(*heading, *_framework(requests, "framework"))]
    rows += [
        (
            request.model,
            request.scale,
            _count(number),
            request.precision,
            str(request.global_batch_size),
            str(request.micro_batch_size),
            str(request.sequence_length),
            str(request.steps),
            str(request.num_gpus),
            *_framework(requests, request.framework),
        )
        for request, number in zip(requests, parameters, strict=True)
    ]
    return console.table(rows)


def outcome(title: str, run: Run, summary: Summary) -> str:
    """Return one line on a training that has ended and left a result."""
    figures = summary.performance
    parts = [
        title,
        f"{figures.total_steps} steps",
        f"{units.seconds(figures.avg_step_time_seconds)}/step",
        f"{units.number(figures.tokens_per_second, 0)} tokens/s",
    ]
    return "  ".join([*parts, *([run.status] if run.status != "complete" else [])])


def results(groups: Sequence[Group]) -> list[str]:
    """Return the closing table: a line for each request, of the run whose mean step time is the median one."""
    per = "process" if all(group.request.platform == "cpu" for group in groups) else "GPU"
    labelled = any(group.request.label for group in groups)
    requests = [group.request for group in groups]
    rows = [
        [
            "model",
            *_framework(requests, "framework"),
            *(["label"] if labelled else []),
            "runs",
            "steps",
            "step time",
            f"tokens/s/{per}",
            "status",
        ]
    ]
    for group in groups:
        summaries = [summary.performance for _, summary in group.runs]
        times = [(each.avg_step_time_seconds, each) for each in summaries if each.avg_step_time_seconds is not None]
        median = times[stats.median_index([time for time, _ in times])][1] if times else None
        statuses = [run.status for run, _ in group.runs] + ["failed"] * (group.requested - len(group.runs))
        bad = [status for status in statuses if status != "complete"]
        rows.append(
            [
                group.request.model,
                *_framework(requests, group.request.framework),
                *([plain(group.request.label or "", 24)] if labelled else []),
                f"{statuses.count('complete')}/{group.requested}",
                str(median.total_steps) if median else units.UNKNOWN,
                units.seconds(median.avg_step_time_seconds) if median else units.UNKNOWN,
                units.number(median.tokens_per_second_per_gpu, 0) if median else units.UNKNOWN,
                bad[0] if bad else "complete",
            ]
        )
    return console.table(rows)


def findings(groups: Sequence[Group], known: Sequence[str]) -> list[str]:
    """Return what should be known of the runs, each text once and with the runs that it is about.

    With --quiet that is what the checks find to be wrong; the results hold the rest.

    Args:
        groups: the runs.
        known: texts already printed; skipped.
    """
    verbosity = console.verbosity()
    about: dict[str, list[str]] = {}
    for group in groups:
        for number, (run, summary) in enumerate(group.runs, 1):
            issues = [*training.findings(run), *physics.findings(run, summary)]
            texts = [
                *([run.status_reason] if run.status == "complete" and run.status_reason else []),
                *(() if verbosity is Verbosity.QUIET else (*run.warnings, *summary.warnings)),
                *(each.text for each in issues if verbosity is Verbosity.VERBOSE or each.gravity != "note"),
            ]
            framework = _framework([each.request for each in groups], group.request.framework)
            name = " ".join([group.request.model, group.request.precision, *framework])
            for text in dict.fromkeys(texts):
                if text not in known:
                    about.setdefault(text, []).append(f"{name}, run {number}" if len(group.runs) > 1 else name)
    everywhere = sum(len(group.runs) for group in groups)
    return [text if len(names) == everywhere > 1 else f"{'; '.join(names)}: {text}" for text, names in about.items()]


def _framework(requests: Sequence[Request], word: str) -> list[str]:
    """Return a cell about the framework, where there is more than one."""
    return [word] if len({request.framework for request in requests}) > 1 else []


def _count(number: int | None) -> str:
    if number is None:
        return units.UNKNOWN
    return f"{number / 1e9:.2f} B" if number >= 1e9 else f"{number / 1e6:.2f} M"


def comparison_of(output_dir: Path) -> str:
    """Return the command that compares what a folder holds."""
    folder = short_path(Path.cwd() / output_dir)
    return shlex.join(["python3", "compare_results.py", *([] if folder == Path("output") else [str(folder)])])


def short_path(path: Path) -> Path:
    """Return a path as the user would type it from here."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path
