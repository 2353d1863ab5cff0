#!/usr/bin/env python3
"""CPU time of whole commands: every --help, a comparison of two logs, and `tprimat watch`.

command_cost.py help                     bytecode compiled, compared with `python3 -c pass`
command_cost.py compare A B [C D ...]    from two logs to the answer, beside `import matplotlib.pyplot`
command_cost.py watch [--seconds 60]     an idle log, and one that grows, beside reading the same log once
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from child import ROOT, measure

sys.path.insert(0, str(ROOT))

from tprimat.cli import COMMANDS

NOTHING = "python3 -c pass"
LIMIT = 8
"""Times the CPU time of `python3 -c pass` that a command's --help may take."""

STEPS = 5_000
HEAD = "  seq_length ........ 2048\n  world_size ........ 8\n  global_batch_size ........ 64\n"


def help_texts(rounds: int) -> int:
    """Print the time of each --help; return 1 where one is above the limit."""
    commands = {NOTHING: ["-c", "pass"]}
    commands |= {f"{name} --help": ["-m", "tprimat", name, "--help"] for name in COMMANDS}
    times: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as cache:
        environment = {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
        environment["PYTHONPYCACHEPREFIX"] = cache
        for number in range(rounds + 1):
            for name, command in commands.items():
                took = measure(command, environment=environment).cpu_s
                if number:  # the first round compiles
                    times[name].append(took)
    medians = {name: statistics.median(measured) for name, measured in times.items()}
    print(f"CPU time in ms, of {rounds} calls each")
    print(f"{'':<26} {'median':>7} {'lowest':>7} {'highest':>8} {'ratio':>6}")
    for name, measured in times.items():
        ms = [1e3 * each for each in (medians[name], min(measured), max(measured))]
        print(
            f"{name:<26} {ms[0]:>7.1f} {ms[1]:>7.1f} {ms[2]:>8.1f}"
            f" {medians[name] / medians[NOTHING]:>6.1f}"
        )
    slow = [name for name, median in medians.items() if median > LIMIT * medians[NOTHING]]
    print(f"limit: {LIMIT}; above it: {', '.join(slow) or 'none'}")
    return 1 if slow else 0


def comparisons(logs: list[str], rounds: int) -> None:
    """Print the median CPU time of comparing each two logs, s."""
    with tempfile.TemporaryDirectory() as folder:
        commands = {"import matplotlib.pyplot": ["-c", "import matplotlib.pyplot"]}
        for pair in zip(logs[::2], logs[1::2], strict=True):
            command = [
                "compare_results.py",
                *(str(Path(path).resolve()) for path in pair),
                "--results-dir",
                folder,
            ]
            commands[" ".join(pair)] = command
            commands[f"{' '.join(pair)}: the answer alone"] = [*command, "--no-plot", "--quiet"]
        for title, command in commands.items():
            print(
                f"{statistics.median(measure(command).cpu_s for _ in range(rounds)):6.2f} s "
                f" {title}",
                flush=True,
            )


def step_line(step: int) -> str:
    """Return a line as Megatron-LM prints it."""
    return (
        f" iteration {step:8d}/{STEPS:8d} | elapsed time per iteration (ms): {1000 + step % 7:.1f}"
        f" | global batch size: 64 | lm loss: {10 - step / STEPS:.6E} |\n"
    )


def watching(seconds: float, rounds: int) -> None:
    """Print what watching a log costs."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "train.log"
        lines = [step_line(step) for step in range(1, STEPS + 1)]
        watch = ["-m", "tprimat", "watch", str(log)]
        log.write_text(HEAD + "".join(lines))
        once = min(measure(watch).cpu_s for _ in range(rounds))
        log.write_text(HEAD + "".join(lines[:-1]))
        # Two of them, so that start and reading cancel.
        short = min(
            measure([*watch, "--max-stall", "1"], statuses=(5,)).cpu_s for _ in range(rounds)
        )
        idle = measure([*watch, "--max-stall", str(seconds)], statuses=(5,)).cpu_s - short
        log.write_text(HEAD)

        def write() -> None:
            with log.open("a") as stream:
                for start in range(0, STEPS, STEPS // 50):
                    stream.writelines(lines[start : start + STEPS // 50])
                    stream.flush()
                    time.sleep(seconds / 50)

        growing = measure(watch, meanwhile=write).cpu_s
    print(f"a complete log of {STEPS} steps, read once   {once:6.2f} s")
    print(
        f"idle for {seconds:.0f} s                               {idle:+6.2f} s "
        f" {idle / seconds:.2%} of a CPU"
    )
    print(
        f"the same log written within {seconds:.0f} s            {growing:6.2f} s "
        f" {growing / once:.1f} × read once"
    )


def main() -> int:
    """Measure one kind of command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("help", "compare", "watch"))
    parser.add_argument("logs", nargs="*", help="pairs to compare")
    parser.add_argument("--rounds", type=int, help="calls of each (help: 15, compare: 5, watch: 3)")
    parser.add_argument(
        "--seconds", type=float, default=60, help="that a log is watched (%(default)g)"
    )
    given = parser.parse_args()
    if given.what == "help":
        return help_texts(given.rounds or 15)
    if given.what == "compare":
        comparisons(given.logs, given.rounds or 5)
    else:
        watching(given.seconds, given.rounds or 3)
    return 0


if __name__ == "__main__":
    sys.exit(main())
