#!/usr/bin/env python3
"""Kills sweeps with SIGKILL at random moments, resumes them, and compares what they leave with an
unbroken sweep.

    sweep_kills.py --times 20 --directory DIR

A sweep is three configurations of a tiny Llama, twice each, interleaved. The command, its training
or all its processes are killed, and the same command goes on with --resume, until the sweep is
complete. Then:

- each configuration and run of the unbroken sweep is there once, complete, with the same losses,
and nothing else;
- all of them belong to one session;
- no run that was complete before a kill is gone or changed after it; no process is left, no file is
half written.

Needs Linux: it looks at /proc. Ends with status 1 when anything of that doesn't hold.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from torture import JOURNALS, PATIENCE_S, RUNS, Kind, Plan, Victim, benchmark, recorded

from tprimat.results.run import Run
from tprimat.store import store

STEPS = 8
CONFIGURATIONS = 3
OPTIONS = ("--model=llama", f"--steps={STEPS}", "--global-batch-size=4", "--micro-batch-size=1,2,4")
SWEEP = Kind(benchmark(*OPTIONS, "--resume"), "tprimat.frameworks.lightning.loop", STEPS)
LATEST = 1.5
"""Runs of the unbroken sweep, in time, within which a command is killed."""


def finish(folder: Path) -> Victim:
    """Run a sweep, or what is left of it, to its end."""
    victim = Victim(folder, SWEEP)
    victim.process.wait(RUNS * CONFIGURATIONS * PATIENCE_S)
    return victim


def current(folder: Path) -> list[Run]:
    """Return the runs in a directory without history/."""
    return [run for path in sorted(folder.glob("*.json")) for run in store.read(path)]


def losses(runs: list[Run]) -> list[tuple[str | None, int | None, str, tuple[float | None, ...]]]:
    """Return what an unbroken and a resumed sweep have alike: configuration, round, status and
    losses.
    """
    return sorted((run.request, run.round, run.status, tuple(run.loss_values)) for run in runs)


def kill(folder: Path, whom: str, delays_s: Sequence[float]) -> tuple[bool, list[str]]:
    """Start or resume a sweep and kill it; return whether it still ran then, and what is wrong
    after that.

    A command whose training alone was killed goes on to the next one, and is killed after a second
    delay.
    """
    before = (
        {key: run for key, run in recorded(folder).items() if run.status == "complete"}
        if folder.exists()
        else {}
    )
    victim = Victim(folder, SWEEP)
    running = False
    for target, delay_s in zip((whom, "command"), delays_s, strict=False):
        deadline = time.monotonic() + delay_s
        alive = victim.wait_for(lambda deadline=deadline: time.monotonic() > deadline)
        if alive:
            victim.kill(Plan("", signal.SIGKILL, target, 0.0))
        running = running or alive
        if whom != "training":
            break
    return running, list(wrong_after(victim, folder, before))


def wrong_after(victim: Victim, folder: Path, before: dict[str, Run]) -> Iterator[str]:
    """Yield what is wrong after a kill."""
    with contextlib.suppress(Exception):
        victim.process.wait(PATIENCE_S)
    if left := victim.gone():
        yield f"processes are left: {left}"
    if "Traceback" in victim.output() and "tprimat" in victim.output():
        yield "a traceback: " + victim.output()[-600:]
    after = recorded(folder) if folder.exists() else {}
    lost = [key for key, run in before.items() if after.get(key) != run]
    if lost:
        yield f"{len(lost)} complete runs are gone or changed"


def torture(times: int, chance: random.Random, place: Path, latest_s: float | None = None) -> int:
    """Kill so many times; return 1 when anything was wrong, else 0."""
    began = time.monotonic()
    finish(place / "unbroken")
    latest_s = latest_s or LATEST * (time.monotonic() - began) / (RUNS * CONFIGURATIONS)
    unbroken = losses(current(place / "unbroken"))
    if [entry[2] for entry in unbroken] != ["complete"] * RUNS * CONFIGURATIONS:
        print(f"the unbroken sweep isn't complete: {unbroken}")
        return 1
    killed = number = broken = 0
    while killed < times:
        number += 1
        folder = place / f"sweep{number}"
        running, here = True, 0
        while running and killed < times:
            whom = chance.choice(("command", "training", "all"))
            delays_s = [chance.uniform(0.0, latest_s) for _ in range(2)]
            running, wrong = kill(folder, whom, delays_s)
            killed, here = killed + running, here + running
            broken += bool(wrong)
            done = (
                sum(run.status == "complete" for run in current(folder)) if folder.exists() else 0
            )
            word = f"killed {whom} after {delays_s[0]:.1f} s" if running else "ended before"
            print(
                f"sweep {number}, {word}: {done} complete; {'; '.join(wrong) or 'holds'}",
                flush=True,
            )
        output = finish(folder).output()
        runs = current(folder)
        wrong = (
            []
            if losses(runs) == unbroken
            else [f"not as the unbroken sweep: {losses(runs)}\n{output}"]
        )
        if len({run.session for run in runs}) != 1:
            wrong.append("several sessions")
        if half := [
            str(path)
            for path in folder.rglob("*")
            if ".part" in path.name or path.parent.name == JOURNALS
        ]:
            wrong.append(f"half files: {half}")
        broken += bool(wrong)
        print(
            f"sweep {number}, resumed after {here} kills:"
            f" {'; '.join(wrong) or 'as the unbroken sweep'}",
            flush=True,
        )
    print(f"{killed} kills of {number} sweeps, {broken} times something that doesn't hold")
    return 1 if broken else 0


def main() -> int:
    """Kill and resume sweeps; print a line for each kill."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=20, help="how often (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (%(default)s)")
    parser.add_argument(
        "--latest", type=float, help="seconds within which to kill (default: 1.5 runs)"
    )
    parser.add_argument("--folder", type=Path, help="where; a temporary one is removed at the end")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        place = arguments.folder or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="tprimat-sweeps-"))
        )
        place.mkdir(parents=True, exist_ok=True)
        return torture(arguments.times, random.Random(arguments.seed), place, arguments.latest)


if __name__ == "__main__":
    sys.exit(main())
