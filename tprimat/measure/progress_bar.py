"""A training while it runs: a bar with the time left on a terminal, its own lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tprimat import console, units
from tprimat.frameworks.request import Request
from tprimat.measure.output import OnLine, OnMessage
from tprimat.record.progress import Message, Step

NARROWEST_BAR = 10
"""Columns of the bar that moves; the text beside it gives way."""


@contextmanager
def following(title: str, request: Request) -> Iterator[tuple[OnLine, OnMessage]]:
    """Show a training; yields what to call with each line of its output, and with each message of progress."""
    if not console.has_progress_bar():
        console.info(f"\n{title}")
        yield console.info, lambda message: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    terminal = Console(highlight=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[pace]}", markup=False),
    )
    # Seldom redrawn: what draws the bar is taken from the training on a CPU.
    with Progress(*columns, console=terminal, refresh_per_second=2, transient=True, expand=True) as progress:
        task = progress.add_task(title, total=request.steps, pace="starting")

        def on_message(message: Message) -> None:
            if not isinstance(message, Step):
                return
            room = terminal.width - len(title) - len(f" {message.max_steps}/{message.max_steps} ") - NARROWEST_BAR
            pace = pace_of(message, request, room)
            progress.update(task, completed=message.step, total=message.max_steps, pace=pace)

        yield lambda line: None, on_message


def pace_of(message: Step, request: Request, room: int) -> str:
    """Return the text beside the bar: as much as there is room for, in columns, without what matters least."""
    parts: list[tuple[int, str]] = []
    if message.average:
        rate = request.global_batch_size * request.sequence_length / request.num_gpus / message.average
        one = "process" if request.platform == "cpu" else "GPU"
        parts.append((0, f"{units.seconds(message.average)}/step"))
        parts.append((2, f"{units.number(rate, 0)} tokens/s{f'/{one}' if request.num_gpus > 1 else ''}"))
    if message.loss is not None:
        parts.append((3, f"loss {message.loss:.3f}"))
    if message.memory_gb is not None:
        parts.append((4, units.gigabytes(message.memory_gb)))
    if message.average is not None:
        parts.append((1, f"{units.duration(time_left(message, request.time_limit_s))} left"))
    while len(parts) > 1 and len(", ".join(text for _, text in parts)) > room:
        parts.remove(max(parts))
    return ", ".join(text for _, text in parts)


def time_left(message: Step, limit_s: float | None) -> float:
    """Return how long a training will go on, at its mean pace so far and at most to its time limit. Units: s."""
    average = message.average or 0.0
    left = (message.max_steps - message.step) * average
    return left if limit_s is None else max(0.0, min(left, limit_s - message.step * average))
