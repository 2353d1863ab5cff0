"""watch: follow a training while it runs."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
import textwrap
import time
from collections.abc import Callable, Iterator

from tprimat import console
from tprimat.cli import _comparing
from tprimat.errors import ExitStatus, UnreadableError
from tprimat.report import json_values
from tprimat.text import plain
from tprimat.watch import lines
from tprimat.watch.growing import GrowingLogs
from tprimat.watch.watcher import Conditions, Update, watch

EVERY_S = 60.0
"""Seconds between two lines if the display can't be updated in place."""

Show = Callable[[Update], None]


def main(arguments: argparse.Namespace) -> int:
    """Follow a training until it ends, a condition is met, or Ctrl-C is pressed."""
    given = _comparing.given_values(arguments)
    # What is assumed of a log's lines is shown as such; nothing is saved.
    given = dataclasses.replace(given, as_read=True)
    logs = GrowingLogs(arguments.log, given)
    hint = "pass results or a log"
    if arguments.baseline:
        baseline = _comparing.load([arguments.baseline], hint, "--baseline", given).files
    else:
        baseline = []
    conditions = Conditions(arguments.until_ci, arguments.max_slowdown, arguments.max_stall)
    update = Update(None, 0.0)
    try:
        with _display(arguments, logs) as show:
            for update in watch(logs, arguments.interval, baseline, conditions):
                show(update)
    except KeyboardInterrupt:
        status = ExitStatus.OK if conditions.until is None else ExitStatus.INCONCLUSIVE
    else:
        status = update.status or ExitStatus.OK
    if update.state is None and status == ExitStatus.USAGE:
        raise UnreadableError(
            logs.title,
            logs.problem,
            hint="tprimat read --help lists the formats",
            heading=logs.heading,
        )
    if arguments.json:
        console.echo(_json_line(update, exit_status=int(status)))
    elif arguments.quiet:
        console.echo(lines.line(update.state) if update.state else plain(logs.problem))
    else:
        width = console.terminal_size()[0]
        indent = " " * (lines.LEFT + 2)
        form = textwrap.TextWrapper(
            width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        console.echo("\n".join(map(form.fill, _screen(arguments, logs, update, sys.maxsize))))
    return status


@contextlib.contextmanager
def _display(arguments: argparse.Namespace, logs: GrowingLogs) -> Iterator[Show]:
    """Yield a function that shows an update: in place in a terminal, otherwise as a line every
    minute.
    """
    if arguments.json or arguments.quiet or arguments.verbose or not console.has_progress_bar():
        yield _line_by_line(arguments, logs)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    terminal = Console(highlight=False)

    def show(update: Update) -> None:
        for event in update.events:
            terminal.print(Text(f"{_now()}  {plain(event)}"))
        live.update(Text("\n".join(_screen(arguments, logs, update, terminal.width))), refresh=True)

    with Live(console=terminal, auto_refresh=False, transient=True) as live:
        yield show


def _line_by_line(arguments: argparse.Namespace, logs: GrowingLogs) -> Show:
    last_time = float("-inf")
    last_step = 0

    def show(update: Update) -> None:
        nonlocal last_time, last_step
        step = update.state.step if update.state else 0
        due = time.monotonic() - last_time >= EVERY_S or (arguments.verbose and step != last_step)
        if arguments.json:
            if due or update.events:
                console.echo(_json_line(update))
        else:
            if due and not arguments.quiet:
                if update.state:
                    text = lines.line(update.state)
                else:
                    text = f"waiting, until Ctrl-C: {plain(logs.problem)}"
                console.echo(f"{_now()}  {text}")
            for event in update.events:
                console.echo(f"{_now()}  {plain(event)}")
        if due:
            last_time = time.monotonic()
            last_step = step

    return show


def _screen(
    arguments: argparse.Namespace, logs: GrowingLogs, update: Update, width: int
) -> list[str]:
    if update.state is None:
        return [f"{plain(logs.title)}: waiting for the first step ({plain(logs.problem)})"]
    quiet_s, until = (update.quiet_s, arguments.until_ci) if update.status is None else (None, None)
    return lines.screen(update.state, logs.title, quiet_s, until, width)


def _json_line(update: Update, **more: object) -> str:
    stated = {}
    state = update.state
    if state:
        stated = {
            **lines.values(state),
            "account": json_values.account_values(state.run, state.summary),
        }
    values = {**stated, "seconds_since_last_step": update.quiet_s, "events": update.events, **more}
    return json.dumps(json_values.plain(values), ensure_ascii=False)


def _now() -> str:
    return time.strftime("%H:%M:%S")
