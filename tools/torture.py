#!/usr/bin/env python3
"""Kills real runs at random moments, and looks at what they leave behind.

    torture.py --times 200 --directory DIR
    torture.py --times 60 --kind encdec --signal SIGKILL
    torture.py --times 500 --kind all

A kind is one of `benchmark.py`, which trains twice (lightning, fsdp, encdec), a training of a
user's own (record, callback, trainer), a training by a launcher whose log is read (primus, with a
stand-in), or a measurement (preflight). Each time it is ended by SIGKILL, SIGTERM or SIGINT in one
of six phases: start, warm-up, steady, cool-down, writing, second run; a kind without a journal at
any moment. After each:

- no process of it is left within a bound, and no lock is held;
- every earlier result is there, readable and unchanged;
- every step and every epoch that stood in the journal stands in a result, which says complete,
incomplete or failed;
- every step in the log of a launcher is read from it;
- after the next command there is neither a journal nor a half file;
- the next benchmark works: it is the next one to be killed, and every tenth is let through.

Needs Linux: it looks at /proc. Ends with status 1 when anything of that doesn't hold.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import importlib.util
import json
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import filelock
import victims

import tprimat
from tprimat import files
from tprimat.errors import UnreadableError
from tprimat.record.folders import JOURNALS
from tprimat.results.run import Run
from tprimat.store import preflight, store

WARM_UP_STEPS = 3
RUNS = 2
COOL_DOWN_S = 1.0

PATIENCE_S = 180.0
"""How long a benchmark may take that nobody kills."""

GONE_S = 40.0
"""How long what was killed may take to be gone: the grace that a training has, and as much again.
"""

POLL_S = 0.002
MARK = "TPRIMAT_TORTURE"
PHASES = ("start", "warm-up", "steady", "cool-down", "writing", "second run", "let through")
OF_ONE_RUN = ("start", "warm-up", "steady", "writing")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@dataclasses.dataclass(frozen=True)
class Kind:
    """What is killed.

    Attributes:
        command: what is started, before the folder of the results.
        module: of the process that trains; none where that is the started one, or isn't to be
            found.
        steps: of one training; 0 for a measurement.
        runs: how many results it has at its end.
        journal: whether it keeps one.
        needs: a package without which it can't run.
        statuses: with which it may exit.
    """

    command: tuple[str, ...]
    module: str = ""
    steps: int = victims.STEPS
    runs: int = 1
    journal: bool = True
    needs: str = "torch"
    statuses: tuple[int, ...] = (0, 1, 2, 5)

    @property
    def is_own(self) -> bool:
        """Whether it is a user's program, which says itself how it ended."""
        return not self.module and self.journal


def benchmark(*options: str) -> tuple[str, ...]:
    """Return the command that measures with these options, before the folder of the results."""
    return (
        str(ROOT / "benchmark.py"),
        *options,
        "--runs",
        str(RUNS),
        "--cooldown",
        str(COOL_DOWN_S),
        "--output-dir",
    )


def _victim(name: str) -> tuple[str, ...]:
    return (str(ROOT / "tools" / "victims.py"), name)


_SMALL = (
    "--d-model=64",
    "--nhead=2",
    "--num-encoder-layers=1",
    "--num-decoder-layers=1",
    "--seq-len=64",
)
_ENCDEC = (
    "--model=encdec",
    "--batch-size=8",
    "--num-samples=40",
    "--epochs=4",
    "--vocab-size=500",
    *_SMALL,
)
KINDS = {
    "lightning": Kind(
        benchmark("--model=llama", "--steps=14"),
        "tprimat.frameworks.lightning.loop",
        14,
        RUNS,
        needs="lightning",
    ),
    "encdec": Kind(benchmark(*_ENCDEC), "tprimat.frameworks.encdec.loop", 25, RUNS),
    "fsdp": Kind(
        benchmark("--framework=fsdp", "--model=llama", "--steps=14"),
        *("tprimat.frameworks.fsdp.loop", 14, RUNS),
        needs="transformers",
    ),
    "record": Kind(_victim("record")),
    "callback": Kind(_victim("callback"), needs="lightning"),
    "trainer": Kind(_victim("trainer"), needs="accelerate"),
    # The launcher's own status: 128 and the signal.
    "primus": Kind(_victim("primus"), journal=False, needs="yaml", statuses=(0, 1, 2, 5, 130, 143)),
    "preflight": Kind(
        ("-m", "tprimat", "preflight", "--quick", "--gpus", "1", "--output-dir"),
        steps=0,
        runs=0,
        journal=False,
    ),
}


@dataclasses.dataclass(frozen=True)
class Plan:
    """One killing.

    Attributes:
        phase: in which, one of PHASES.
        number: the signal; a training itself gets no SIGINT, which a terminal sends to the command.
        whom: command, training or all.
        share: where in the phase, 0 to 1.
        kind: one of KINDS.
    """

    phase: str
    number: signal.Signals
    whom: str
    share: float
    kind: str = "lightning"


def _running_since(pid: int) -> int:
    """Return when a process started, in ticks since boot; 0 when it has ended with all its
    threads.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    # The first thread of a killed process is a zombie while the others end.
    return 0 if fields[0] in (b"Z", b"X") and int(fields[17]) <= 1 else int(fields[19])


class Victim:
    """A running benchmark with all its processes.

    Args:
        folder: of the results.
        kind: what it trains.
    """

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.kind = kind
        self._folder = folder
        self._mark = f"{MARK}={secrets.token_hex(8)}".encode()
        self._log = folder.parent / "said.log"
        name, _, value = self._mark.decode().partition("=")
        self._began = time.monotonic()
        self._started: dict[int, int] = {}
        self.gone_s = 0.0
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *kind.command, str(folder)],
                cwd=folder.parent,
                env={**os.environ, name: value, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def output(self) -> str:
        """Return what the command has printed."""
        return self._log.read_text(errors="replace")

    def pids(self) -> list[int]:
        """Return the ids of its processes that still run."""
        for file in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if self._mark in file.read_bytes().split(b"\0"):
                    pid = int(file.parent.name)
                    self._started[pid] = _running_since(pid)
        # While its memory is freed, a killed process has no environment any more, and still holds
        # its locks.
        return [
            pid
            for pid, started in self._started.items()
            if started and started == _running_since(pid)
        ]

    def training(self) -> int | None:
        """Return the process that trains."""
        for pid in self.pids() if self.kind.module else ():
            with contextlib.suppress(OSError):
                trains = self.kind.module.encode() in Path(
                    f"/proc/{pid}/cmdline"
                ).read_bytes().split(b"\0")
                parent = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
                # What it starts itself looks like it for a moment.
                if trains and parent == self.process.pid:
                    return pid
        return None

    def journal(self) -> tuple[int, int, bool]:
        """Return the steps and epochs in its journal, and whether the result is about to be
        written.
        """
        for path in (self._folder / JOURNALS).glob("*.jsonl"):
            with contextlib.suppress(OSError):
                lines = path.read_bytes().split(b"\n")[:-1]
                steps, epochs, ends = (
                    sum(line.startswith(start) for line in lines)
                    for start in (b"[", b'{"update"', b'{"final"')
                )
                return steps, epochs, bool(ends)
        return 0, 0, False

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        """Wait until a condition holds; return False when the command ended first."""
        while not condition():
            if self.process.poll() is not None or time.monotonic() - self._began > PATIENCE_S:
                return False
            time.sleep(POLL_S)
        return True

    def reach(self, plan: Plan, typical_start_s: float) -> bool:
        """Wait for the moment of a plan; return False when it was missed."""
        if plan.phase == "let through":
            self.process.wait(PATIENCE_S)
            return False
        if plan.phase == "start" or not self.kind.journal:
            time.sleep(plan.share * typical_start_s * (1 if self.kind.journal else 1.3))
            return self.process.poll() is None
        if plan.phase == "warm-up":
            return self.wait_for(
                lambda: self.journal()[0] >= int(plan.share * WARM_UP_STEPS) and self.has_journal()
            )
        if plan.phase == "steady":
            step = WARM_UP_STEPS + int(plan.share * (self.kind.steps - WARM_UP_STEPS))
            return self.wait_for(lambda: self.journal()[0] >= step)
        if plan.phase == "writing":
            reached = self.wait_for(lambda: self.journal()[2])
            time.sleep(plan.share * 0.02)
            return reached
        cooled = self.wait_for(lambda: "cooling down" in self.output())
        if plan.phase == "cool-down":
            time.sleep(plan.share * COOL_DOWN_S)
            return cooled
        time.sleep(COOL_DOWN_S + plan.share * (typical_start_s + 1.0))
        return cooled and self.process.poll() is None

    def has_journal(self) -> bool:
        """Return whether a training has begun its journal."""
        return any((self._folder / JOURNALS).glob("*.jsonl"))

    def kill(self, plan: Plan) -> None:
        """Send the signal."""
        targets, everyone = [self.process.pid], self.pids()
        if plan.whom == "training":
            targets = [pid for pid in [self.training()] if pid is not None] or targets
        elif plan.whom == "all":
            targets = everyone
        for pid in targets:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, plan.number)

    def gone(self) -> dict[int, str]:
        """Wait for its end; return the processes left after that, and what each runs, in which
        state.
        """
        # Where its training alone was killed, the command goes on to the next one.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE_S)
        began = time.monotonic()
        while time.monotonic() < began + GONE_S:
            if self.process.poll() is not None and not self.pids():
                break
            time.sleep(0.05)
        self.gone_s = time.monotonic() - began
        left = {}
        for pid in self.pids():
            with contextlib.suppress(OSError):
                state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
                said = b" ".join((state, *Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")))
                left[pid] = " ".join(said.decode(errors="replace").split())[-200:]
        return left


_PRINTED = re.compile(r"iteration +(\d+)/.*\n")
"""A whole line of a step, of a launcher whose log is read."""


def recorded(folder: Path) -> dict[str, Run]:
    """Return all runs below a directory, history too, by fingerprint. Raises UnreadableError for a
    broken file.
    """
    found = []
    for path in sorted(folder.rglob("*.json")):
        if path.name.endswith(".env.json"):
            json.loads(path.read_bytes())
        elif not path.name.startswith("preflight_"):
            found.append(store.read(path))
        elif preflight.read(path) is None:
            raise UnreadableError(path, "half a preflight", heading="fault")
    return {store.fingerprint(run): run for runs in found for run in runs}


def look(
    victim: Victim, before: dict[str, Run], folder: Path, journaled: tuple[int, int, bool]
) -> Iterator[str]:
    """Yield what is wrong after a kill."""
    left = victim.gone()
    if left:
        yield f"processes are left: {left}"
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    status = victim.process.returncode
    if (
        status is not None
        and status >= 0
        and status not in victim.kind.statuses
        and not victim.kind.is_own
    ):
        yield f"status {status}"
    output = victim.output()
    # An interruption of Python's own start is none of ours, and a user's program shows what
    # interrupted it.
    shown = "Traceback" in output and "tprimat" in output
    if (shown and not victim.kind.is_own) or "internal error: " in output:
        yield "a traceback: " + output[-600:]
    following = subprocess.run(
        [sys.executable, str(ROOT / "compare_results.py"), str(folder), "--no-plot"],
        cwd=folder.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    if following.returncode not in (0, 2, 3, 4) or "Traceback" in following.stderr:
        yield f"the next command ended with {following.returncode}: {following.stderr[-600:]}"
    if folder.exists():
        lock = filelock.FileLock(str(folder / files.LOCK_NAME), timeout=0)
        try:
            with lock:
                pass
        except filelock.Timeout:
            yield "a lock is held"
        half = [
            str(path)
            for path in folder.rglob("*")
            if ".part" in path.name or path.parent.name == JOURNALS
        ]
        if half:
            yield f"half files: {half}"
    try:
        after = recorded(folder)
    except UnreadableError as error:
        yield error.message
        return
    lost = [key for key, run in before.items() if after.get(key) != run]
    if lost:
        yield f"{len(lost)} earlier runs are gone or changed"
    new = [run for key, run in after.items() if key not in before]
    if len(new) > victim.kind.runs:
        yield f"{len(new)} runs of {victim.kind.runs} runs"
    for log in folder.glob("logs/*.log"):
        printed = len(set(_PRINTED.findall(log.read_text(errors="replace"))))
        read = sum(len(run.steps) for run in tprimat.load(log).runs) if printed else 0
        if read < printed:
            yield f"{log.name} has {printed} steps, {read} were read"
    for what, count, counts in (
        ("steps", journaled[0], [len(run.steps) for run in new]),
        ("epochs", journaled[1], [len(run.epochs) for run in new]),
    ):
        if max(counts, default=0) < count:
            yield f"{count} {what} stood in the journal, {counts} in the results"
    for run in new:
        if run.status == "complete" and len(run.steps) != victim.kind.steps:
            yield f"complete with {len(run.steps)} of {victim.kind.steps} steps"
        if run.status != "complete" and not run.status_reason:
            yield f"{run.status} without a reason"


def plans(
    times: int,
    chance: random.Random,
    kinds: Sequence[str] = ("lightning",),
    signals: Sequence[signal.Signals] = SIGNALS,
) -> Iterator[Plan]:
    """Yield the plans: kinds, phases and signals in turn, moments at random."""
    for number in range(times):
        kind, turn = kinds[number % len(kinds)], number // len(kinds)
        phases = (
            PHASES[:-1]
            if KINDS[kind].runs > 1
            else [each for each in PHASES[:-1] if each in OF_ONE_RUN]
        )
        phase = "let through" if turn % 10 == 9 else phases[turn % len(phases)]
        sent = chance.choice(signals)
        whom = "command" if sent == signal.SIGINT else chance.choice(("command", "training", "all"))
        yield Plan(phase, sent, whom, chance.random(), kind)


def main() -> int:
    """Kill repeatedly; print a line for each kill and a table at the end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=200, help="how often (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (%(default)s)")
    parser.add_argument(
        "--kind",
        choices=(*KINDS, "all"),
        default="lightning",
        help="what is killed; all: those that can run, in turn",
    )
    parser.add_argument(
        "--signal", choices=[each.name for each in SIGNALS], help="this one alone, not all in turn"
    )
    parser.add_argument("--folder", type=Path, help="where; a temporary one is removed at the end")
    arguments = parser.parse_args()
    # What a shell starts in the background ignores SIGINT, and so would all that this starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        place = arguments.folder or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="tprimat-torture-"))
        )
        place.mkdir(parents=True, exist_ok=True)
        signals = [each for each in SIGNALS if arguments.signal in (None, each.name)]
        chance = random.Random(arguments.seed)
        kinds = [arguments.kind]
        if arguments.kind == "all":
            kinds = [name for name, kind in KINDS.items() if importlib.util.find_spec(kind.needs)]
            print(
                "left out, for want of a package:"
                f" {', '.join(sorted(set(KINDS) - set(kinds))) or 'none'}"
            )
        return torture(list(plans(arguments.times, chance, kinds, signals)), place / "output")


def torture(todo: Sequence[Plan], folder: Path) -> int:
    """Kill as planned; return 1 when anything was wrong, else 0."""
    outcomes: collections.Counter[tuple[str, str, str]] = collections.Counter()
    broken = 0
    starts = dict.fromkeys(KINDS, 8.0)
    for number, plan in enumerate(todo, 1):
        # Each kind has a directory: a result of another one is none that it may touch.
        place = folder / plan.kind
        place.mkdir(parents=True, exist_ok=True)
        before = recorded(place)
        began = time.monotonic()
        kind = KINDS[plan.kind]
        victim = Victim(place, kind)
        reached = victim.reach(plan, starts[plan.kind])
        journaled = (0, 0, False)
        if reached:
            if plan.phase in ("warm-up", "steady") and kind.journal:
                starts[plan.kind] = 0.5 * starts[plan.kind] + 0.5 * (time.monotonic() - began)
            journaled = victim.journal()
            victim.kill(plan)
        if not reached and not kind.journal:
            starts[plan.kind] = time.monotonic() - began
        wrong = list(look(victim, before, place, journaled))
        after = recorded(place)
        new = [f"{run.status} {len(run.steps)}" for key, run in after.items() if key not in before]
        word = (
            plan.number.name
            if reached
            else "ended before"
            if plan.phase != "let through"
            else "nothing"
        )
        outcomes[plan.kind, plan.phase, word] += 1
        if plan.phase == "let through" and new != [f"complete {kind.steps}"] * kind.runs:
            wrong.append(f"let through: {new}")
        broken += bool(wrong)
        print(
            f"{number:4d} {plan.kind:9s} {plan.phase:12s} {word:12s} {plan.whom:8s} "
            f"{journaled[0]:3d} in the journal -> {', '.join(new) or 'no new run'}; "
            f"status {victim.process.returncode}; gone after {victim.gone_s:.1f} s; "
            f"{'; '.join(wrong) or 'holds'}",
            flush=True,
        )
    print()
    for (name, phase, word), count in sorted(outcomes.items()):
        print(f"{name:9s} {phase:12s} {word:12s} {count}")
    killed = sum(count for (*_, word), count in outcomes.items() if word.startswith("SIG"))
    print(f"{len(todo)} times, {killed} kills, {broken} of them with something that doesn't hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
