"""Console output of a session, before, during and after its trainings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from tprimat import __version__, console, units
from tprimat.analysis import stats
from tprimat.analysis.summary import Summary
from tprimat.checks import physics, training
from tprimat.console import Verbosity
from tprimat.frameworks import defaults, scales
from tprimat.frameworks.loops import recipe
from tprimat.frameworks.request import Request
from tprimat.machine.platforms import Machine
from tprimat.measure.plan import Plan
from tprimat.results.run import Environment, Run
from tprimat.text import counted, plain

SMOKE_TEST_BELOW = defaults.STEPS_ON_CPU
"""Recorded steps, as few as a default training has. With fewer, a run's interval covers far less than it promises."""

Group = tuple[Request, Sequence[tuple[Run, Summary]]]
"""A request with those of its runs that left a result, complete or not."""


def show(plan: Plan) -> None:
    """Print what would be run, to the last option; its command is the outcome of a dry run, at any verbosity."""
    for request in plan.requests:
        framework = plan.framework_of(request)
        command = framework.launch(request).shell_line()
        result = plan.output_dir / framework.hook("result_name")(request)
        console.info(f"\n{plan.name_of(request)}, run {counted(plan.runs, 'time')}:")
        console.info(command)
        console.summary(command)
        # A part of the name may not be known before the training.
        shown = {"command": command, "result": None if "{" in result.name else str(result)}
        values = {"model": request.model, "framework": request.framework, **shown}
        console.current().values.setdefault("commands", []).append(values)
        console.info(f"result: {result}")
    console.info("\nNothing was run.")


def introduce(plan: Plan, machine: Machine) -> None:
    """Print where and what will be trained, and what should be known of it."""
    gpu, threads = machine.gpu_info, machine.environment.cpu_threads
    device = gpu.device_name or "a device that does not state its name"
    if machine.platform == "cpu":
        where = f"CPU: {device}" + (f", {threads} threads" if threads else "")
    else:
        where = f"{gpu.device_count or 'some'} × {device}, {units.gigabytes(gpu.total_memory_gb)} each"
    stack = {"cuda": "CUDA", "rocm": "ROCm"}.get(gpu.software_stack or "", "")
    software = [f"torch {gpu.pytorch_version}"] if gpu.pytorch_version else []
    software += [f"{stack} {gpu.software_version}"] if stack and gpu.software_version else []
    console.info(f"TensorPrimat {__version__} on {', '.join([plain(where), *software])}")
    introduce_requests(plan, machine.environment)


def introduce_requests(plan: Plan, environment: Environment) -> None:
    """Print what will be trained, and what should be known of it."""
    for kind, facts in (("version", environment.versions), ("setting", environment.settings)):
        for name, value in facts.items():
            console.debug(f"{kind}: {plain(name)} {plain(value)}")
    lines = [(request, plan.framework_of(request).hook("introduce")(request)) for request in plan.requests]
    requests = [request for request, own in lines if not own]
    console.info("")
    if requests:
        _print_table([_setup(plan, request) for request in requests])
    for line in (line for _, own in lines for line in own):
        console.info(line)
    for scale in dict.fromkeys(request.scale for request in requests):
        if scale not in (scales.FULL, scales.OTHER):
            console.note(f"{scale} is not the full model: {scales.by_name(scale).loses}")
    for note in plan.notes:
        console.note(note)
    note_smoke_test(plan, min(request.steps for request in plan.requests))


def note_smoke_test(plan: Plan, steps: int) -> None:
    """Print a note on trainings that are too short."""
    if steps < SMOKE_TEST_BELOW:
        console.note(
            plan.advice
            or f"this is a smoke test: {steps} recorded {'step shows' if steps == 1 else 'steps show'} that it runs, "
            f"a figure to rely on takes {SMOKE_TEST_BELOW} or more"
        )


def outcome(title: str, run: Run, summary: Summary) -> str:
    """Return one line on a training that has ended and left a result."""
    reached = summary.performance
    pace = f"{units.seconds(reached.avg_step_time_seconds)}/step"
    rate = f"{units.number(reached.tokens_per_second, 0)} tokens/s"
    status = [run.status] if run.status != "complete" else []
    return "  ".join([title, f"{reached.total_steps} steps", pace, rate, *status])


def figures(rows: Sequence[tuple[str, str]]) -> None:
    """Print what a training reached beyond the closing table."""
    if rows:
        console.info("\n" + "\n".join(console.table(rows)))


def results(plan: Plan, groups: Sequence[Group]) -> None:
    """Print the closing table: a line for each request, of the run whose mean step time is the median one."""
    per = "process" if all(request.platform == "cpu" for request, _ in groups) else "GPU"
    labelled = any(request.label for request, _ in groups)
    rows = []
    for request, runs in groups:
        summaries = [summary.performance for _, summary in runs]
        times = [(each.avg_step_time_seconds, each) for each in summaries if each.avg_step_time_seconds is not None]
        median = times[stats.median_index([time for time, _ in times])][1] if times else None
        statuses = [run.status for run, _ in runs] + ["failed"] * (plan.runs - len(runs))
        rows.append(
            {
                "model": request.model,
                **_framework(plan, request),
                **({"label": plain(request.label or "", 24)} if labelled else {}),
                "runs": f"{statuses.count('complete')}/{plan.runs}",
                "steps": str(median.total_steps) if median else units.UNKNOWN,
                "step time": units.seconds(median.avg_step_time_seconds) if median else units.UNKNOWN,
                f"tokens/s/{per}": units.number(median.tokens_per_second_per_gpu, 0) if median else units.UNKNOWN,
                "status": next((status for status in statuses if status != "complete"), "complete"),
            }
        )
    _print_table(rows)


def findings(plan: Plan, groups: Sequence[Group]) -> list[str]:
    """Return what should be known of the runs beyond the plan's notes, each text once and with the runs it is about.

    With --quiet that is what the checks find to be wrong; the results hold the rest.
    """
    verbosity = console.verbosity()
    about: dict[str, list[str]] = {}
    for request, runs in groups:
        for number, (run, summary) in enumerate(runs, 1):
            issues = [*training.findings(run), *physics.findings(run, summary)]
            texts = [
                *([run.status_reason] if run.status == "complete" and run.status_reason else []),
                *(() if verbosity is Verbosity.QUIET else (*run.warnings, *summary.warnings)),
                *(each.text for each in issues if verbosity is Verbosity.VERBOSE or each.gravity != "note"),
            ]
            name = plan.name_of(request) + (f", run {number}" if len(runs) > 1 else "")
            for text in dict.fromkeys(texts):
                if text not in plan.notes:
                    about.setdefault(text, []).append(name)
    everywhere = sum(len(runs) for _, runs in groups)
    return [text if len(names) == everywhere > 1 else f"{'; '.join(names)}: {text}" for text, names in about.items()]


def comparison_of(output_dir: Path) -> str:
    """Return the command that compares what a folder holds."""
    folder = short_path(Path.cwd() / output_dir)
    return shlex.join(["python3", "compare_results.py", *([] if folder == Path("output") else [str(folder)])])


def short_path(path: Path) -> Path:
    """Return a path as the user would type it from here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _print_table(rows: Sequence[Mapping[str, str]]) -> None:
    """Print rows of cells by their headings, which are those of the first row."""
    for line in console.table([tuple(rows[0]), *(tuple(row.values()) for row in rows)]):
        console.info(line)


def _setup(plan: Plan, request: Request) -> dict[str, str]:
    """Return the row of a request that will be run."""
    number = recipe.shape_of(request).num_parameters
    count = units.UNKNOWN
    if number is not None:
        count = f"{number / 1e9:.2f} B" if number >= 1e9 else f"{number / 1e6:.2f} M"
    return {
        "model": request.model,
        "scale": request.scale,
        "parameters": count,
        "precision": request.precision,
        "batch": str(request.global_batch_size),
        "micro": str(request.micro_batch_size),
        "sequence": str(request.sequence_length),
        "steps": str(request.steps),
        "processes": str(request.num_gpus),
        **_framework(plan, request),
    }


def _framework(plan: Plan, request: Request) -> dict[str, str]:
    """Return a cell with the framework, where there is more than one."""
    return {"framework": request.framework} if len(plan.frameworks) > 1 else {}
