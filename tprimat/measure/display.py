"""Console output of a session, before, during and after its runs."""

from __future__ import annotations

import contextlib
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tprimat import __version__, console, units
from tprimat.analysis.summary import Summary
from tprimat.catalog import gpus
from tprimat.console import Verbosity
from tprimat.frameworks import defaults, roofline, scales
from tprimat.frameworks.loops import recipe
from tprimat.frameworks.request import BUILT_IN_CHOICES, DEFAULT, Request, RequestedConfig
from tprimat.machine.platforms import Machine
from tprimat.measure.output import OnLine, OnMessage
from tprimat.measure.plan import Plan, device_of
from tprimat.record.progress import Message, Step
from tprimat.results.run import Environment, Run
from tprimat.settings import Setting
from tprimat.settings.rows import SETTINGS
from tprimat.text import counted, plain, runnable

SMOKE_TEST_BELOW = defaults.STEPS_ON_CPU
"""Minimum recorded steps for a reliable within-run CI."""

LONGEST_LINE = 76
"""Characters of a line of a command, before its continuation."""

_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|\S)+""")

NARROWEST_BAR = 10
"""Columns of the bar that moves; the text next to it is shortened."""


def show(plan: Plan, results: Sequence[Path]) -> None:
    """Print what would be run and the result files; the commands are the outcome of a dry run, at
    any verbosity.

    A command that differs from the first one in values alone, such as --model=qwen, is shown by
    them.
    """
    first: list[str] = []
    for number, (request, result) in enumerate(zip(plan.requests, results, strict=True), 1):
        command = plan.framework_of(request).launcher.launch(request).shell_line()
        words = _WORD.findall(command)
        first = first or words
        other = " ".join(word for word, before in zip(words, first, strict=False) if word != before)
        title = f"{plan.name_of(request)}: {counted(plan.runs, 'run')}"
        if len(plan.requests) > 1:
            title = f"{number}. {title}"
        is_short = number > 1 and _names(words) == _names(first) and len(other) <= LONGEST_LINE
        if is_short and console.verbosity() is Verbosity.NORMAL:
            console.info(f"{title}, as 1 with {other}")
        else:
            console.info(f"\n{title}")
            console.info(_continued(command))
        console.summary(command)
        values: dict[str, object] = {
            "model": request.model,
            "framework": request.framework,
            "command": command,
        }
        # A part of the name may not be known before the training.
        values["result"] = None if "{" in result.name else str(result)
        settings = {}
        for row, value, origin in _settings(plan, request):
            settings[row.request] = {"value": value, "set_by": origin}
        if settings:
            values["settings"] = settings
        console.current().values.setdefault("commands", []).append(values)
        console.info(f"result: {result}")
    console.info("\nNothing was run.")


def _names(words: Sequence[str]) -> list[str]:
    """Return the words of a command without their values."""
    return [word.partition("=")[0] for word in words]


def _continued(command: str) -> str:
    """Return a shell command as lines of a screen, which can be copied as they are."""
    lines = [""]
    for word in _WORD.findall(command):
        if len(lines[-1]) + len(word) > LONGEST_LINE:
            lines.append(" ")
        lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n".join(lines)


def introduce(plan: Plan, machine: Machine) -> None:
    """Print where and what will be trained, and what should be known of it."""
    gpu = machine.gpu_info
    device = gpu.device_name or "unknown device"
    if machine.platform == "cpu":
        where = f"CPU: {device}"
        if machine.environment.cpu_threads:
            where += f", {machine.environment.cpu_threads} threads"
    else:
        where = (
            f"{gpu.device_count or 'some'} × {device}, {units.gigabytes(gpu.total_memory_gb)} each"
        )
    parts = [plain(where)]
    if gpu.pytorch_version:
        parts.append(f"torch {gpu.pytorch_version}")
    stack = {"cuda": "CUDA", "rocm": "ROCm"}.get(gpu.software_stack or "")
    if stack and gpu.software_version:
        parts.append(f"{stack} {gpu.software_version}")
    console.info(f"TensorPrimat {__version__} on {', '.join(parts)}")
    introduce_requests(plan, machine.environment)
    row = gpus.match(gpu).gpu
    if machine.platform == "cpu" or row is None:
        return
    held = device_of(machine).held_bytes
    for request in plan.requests:
        expected = roofline.expected(request, row, held)
        if expected is not None:
            console.info(f"calculated: {plan.name_of(request)}, {expected}")


def introduce_requests(plan: Plan, environment: Environment) -> None:
    """Print what will be trained, and what should be known of it."""
    for kind, facts in (("version", environment.versions), ("setting", environment.settings)):
        for name, value in facts.items():
            console.debug(f"{kind}: {plain(name)} {plain(value)}")
    for request in plan.requests:
        for row, chosen, origin in _settings(plan, request):
            console.debug(
                f"{plan.name_of(request)}: {row.title or row.key} {chosen} ({plain(origin)})"
            )
    requests = []
    lines = []
    for request in plan.requests:
        own = plan.framework_of(request).launcher.introduce(request)
        lines += own
        if not own:
            requests.append(request)
    console.info("")
    if requests:
        print_table([_setup(plan, request) for request in requests])
    for line in lines:
        console.info(line)
    for scale in dict.fromkeys(request.scale for request in requests):
        if scale not in (scales.FULL, scales.OTHER):
            loses = scales.by_name(scale).loses
            console.note(
                f"'{scale}' is a scaled-down model ({loses}); results do not apply to the full"
                " model"
            )
    for note in plan.notes:
        console.note(note)
    note_smoke_test(plan, min(request.steps for request in plan.requests))


def note_smoke_test(plan: Plan, steps: int) -> None:
    """Print a note on runs that are too short."""
    if steps < SMOKE_TEST_BELOW:
        smoke = (
            f"smoke test only: {counted(steps, 'step')} recorded, {SMOKE_TEST_BELOW}+ needed for a"
            " reliable result"
        )
        console.note(plan.advice or smoke)


def shows_lines(plan: Plan) -> bool:
    """Return whether the output of the runs is shown, instead of a line for each of them."""
    if console.verbosity() is Verbosity.VERBOSE:
        return True
    if plan.training_lines is None:
        return not console.has_progress_bar()
    return plan.training_lines


@contextlib.contextmanager
def following(
    title: str, request: Request, *, lines: bool, rest: Callable[[float], float] = lambda _: 0.0
) -> Iterator[tuple[OnLine, OnMessage]]:
    """Show a training; yields what to call with each line of its output, and with each message of
    progress.

    With `lines` its own lines are shown, otherwise, on a terminal, a bar with the time left. `rest`
    takes the seconds of this run and returns those of the runs after it.
    """
    if lines:
        console.info(f"\n{title}")
    if lines or not console.has_progress_bar():
        yield console.info if lines else lambda line: None, lambda message: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    terminal = Console(highlight=False)
    began = time.monotonic()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[pace]}", markup=False),
    )
    # Seldom redrawn: what draws the bar is taken from the training on a CPU.
    with Progress(
        *columns, console=terminal, refresh_per_second=2, transient=True, expand=True
    ) as progress:
        task = progress.add_task(title, total=request.steps, pace="starting")

        def on_message(message: Message) -> None:
            if not isinstance(message, Step):
                return
            room = (
                terminal.width
                - len(title)
                - len(f" {message.max_steps}/{message.max_steps} ")
                - NARROWEST_BAR
            )
            left = time_left(message, request.time_limit_s)
            pace = pace_of(message, request, room, left + rest(time.monotonic() - began + left))
            progress.update(task, completed=message.step, total=message.max_steps, pace=pace)

        yield lambda line: None, on_message


def pace_of(message: Step, request: Request, room: int, left_s: float) -> str:
    """Return the text next to the bar: as much as fits into the columns, without the least
    important parts.
    """
    parts = []
    if message.average:
        rate = (
            request.global_batch_size * request.sequence_length / request.num_gpus / message.average
        )
        unit = "tokens/s"
        if request.num_gpus > 1:
            unit = "tokens/s/process" if request.platform == "cpu" else "tokens/s/GPU"
        parts.append((0, f"{units.seconds(message.average)}/step"))
        parts.append((2, f"{units.number(rate, 0)} {unit}"))
    if message.loss is not None:
        parts.append((3, f"loss {message.loss:.3f}"))
    if message.memory_gb is not None:
        parts.append((4, units.gigabytes(message.memory_gb)))
    if message.average is not None:
        parts.append((1, f"{units.duration(left_s)} left"))
    while len(parts) > 1 and len(", ".join(text for _, text in parts)) > room:
        parts.remove(max(parts))
    return ", ".join(text for _, text in parts)


def time_left(message: Step, limit_s: float | None) -> float:
    """Return how long a training will continue, at its mean pace so far and at most to its time
    limit. Units: s.
    """
    average = message.average or 0.0
    left = (message.max_steps - message.step) * average
    if limit_s is None:
        return left
    return max(0.0, min(left, limit_s - message.step * average))


def outcome(title: str, run: Run, summary: Summary, left_s: float = 0.0) -> str:
    """Return one line on a training that has ended and left a result, with the time that the others
    will take.
    """
    pace = f"{units.seconds(summary.performance.avg_step_time_seconds)}/step"
    rate = f"{units.number(summary.performance.tokens_per_second, 0)} tokens/s"
    parts = [title, f"{summary.performance.total_steps} steps", pace, rate]
    if run.status != "complete":
        parts.append(run.status)
    if left_s:
        parts.append(f"{units.duration(left_s)} left")
    return "  ".join(parts)


def figures(rows: Sequence[tuple[str, str]]) -> None:
    """Print the results of a training beyond the closing table."""
    if rows:
        console.info("\n" + "\n".join(console.table(rows)))


def comparison_of(output_dir: Path) -> str:
    """Return the command that compares the results in a directory."""
    folder = short_path(Path.cwd() / output_dir)
    words = ["python3", "compare_results.py"]
    if folder != Path("output"):
        words.append(str(folder))
    return runnable(shlex.join(words))


def short_path(path: Path) -> Path:
    """Return a path as the user would type it from here."""
    if path.is_relative_to(Path.cwd()):
        return path.relative_to(Path.cwd())
    return path


def print_table(rows: Sequence[Mapping[str, str]]) -> None:
    """Print rows of cells by their headings, which are those of the first row."""
    for line in console.table([tuple(rows[0]), *(tuple(row.values()) for row in rows)]):
        console.info(line)


def _settings(plan: Plan, request: Request) -> Iterator[tuple[Setting, object, str]]:
    """Yield each setting of a training, its value, and where that is from; nothing if the origins
    are unknown.
    """
    if request.origins is None:
        return
    takes_all = plan.framework_of(request).embedded
    for row in SETTINGS:
        is_known = row.field and row.request in RequestedConfig.DEFAULTS
        if not is_known or (row.request in BUILT_IN_CHOICES and not takes_all):
            continue
        value = getattr(request, row.request, None)
        if row.request == "micro_batch_size" and request.finds_micro_batch:
            value = "auto"
        if value is not None:
            yield row, value, request.origins.get(row.request, DEFAULT)


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
        "micro": "auto" if request.finds_micro_batch else str(request.micro_batch_size),
        "sequence": str(request.sequence_length),
        "steps": str(request.steps),
        "processes": str(request.num_gpus),
        **framework_cell(plan, request),
    }


def framework_cell(plan: Plan, request: Request) -> dict[str, str]:
    """Return a cell with the framework, if there is more than one."""
    if len(plan.frameworks) > 1:
        return {"framework": request.framework}
    return {}
