#!/usr/bin/env python3
"""How quickly long logs are read: all fields of every line, beside a plain loop that looks for the
step time alone.

Three logs are made and deleted afterwards: of eight ranks whose colored lines interleave, with an
iteration line among some thirty others, with nothing but iteration lines, and with a long
installation before the training. Then logs of eight console forms, beside one compiled expression
that finds the numbers of the whole text, and an installation alone, beside one that finds two
hundred words. Each way of reading runs in a process of its own, one after the other, round by
round.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import child
import console_forms

sys.path.insert(0, str(child.ROOT))

RANKS = 8
OTHERS = 30
"""Lines between two iteration lines of the mixed log."""

SEED = 5
PATTERN = rb"elapsed time per iteration \(ms\): ([0-9.]+)"
CHUNK = 1 << 18
WORDS = 200
BEFORE = 10_000_000
"""Bytes of text before a training that are read beside a search for words."""

_PREFIX = (
    "[\x1b[32m20260511 %s\x1b[0m][\x1b[36mrank-%d/8\x1b[0m]\x1b[34m\x1b[1m[DEBUG]   "
    " \x1b[0m\x1b[34m\x1b[1m[---------------%s] : "
)
_ITERATION = (
    "[2026-05-11 %s.%06d] iteration %8d/%8d | consumed samples: %12d | elapsed time per iteration"
    " (ms): %.1f/%.1f | throughput per GPU (TFLOP/s/GPU): %.1f/%.1f  | tokens per GPU"
    " (tokens/s/GPU): %.1f/%.1f | learning rate: %.6E | global batch size:   128 | lm loss: %.6E |"
    " loss scale: 1.0 | grad norm: %.3f | number of skipped iterations:   0 | number of nan"
    " iterations:   0 | hip mem usage/free/total/usage_ratio:"
    " %.2fGB/%.2fGB/191.98GB/%.2f%%\x1b[0m\n"
)
_SAID = (
    "saving checkpoint shard %d of 8, %d tensors, to /checkpoints/run",
    "bucket %d: all-gather of %d bytes enqueued on stream 3",
    "dataloader worker %d prefetched batch %d, queue is full",
    "(min, max) time across ranks (ms): forward-backward: (%d.11, %d.27)",
    "aiter: module_fmha_fwd loaded for head %d, tuned entry %d found",
    "cache of compiled kernels holds %d entries, %d were hit since the last report",
)


def steps_of(count: int) -> Iterator[tuple[int, float]]:
    """Yield number and time in ms of each step, to a tenth, as they are printed."""
    random.seed(SEED)
    for step in range(1, count + 1):
        yield step, round(random.gauss(700.0, 9.0), 1)


_INSTALLED = (
    "Collecting numpy=={0}.26 (from -r requirements.txt (line {0}))",
    "  Downloading torch-2.{0}.whl ({0} kB)",
    (
        "Requirement already satisfied: wheel in /usr/lib/python3/dist-packages (from"
        " triton=={0}.2) (0.{0}.1)"
    ),
    "",
    "[{0}/900] Building CXX object src/CMakeFiles/blas.dir/file{0}.cpp.o",
    "copying model/file{0}.py -> build/lib.linux-x86_64/model",
)


def make(path: Path, size: int, *, mixed: bool, before: int = 0) -> tuple[int, float]:
    """Write a log of about that many bytes; return its steps and the sum of their times in ms.

    An installation of `before` bytes precedes it.
    """
    chance = random.Random(SEED)
    others = [_others(chance) for _ in range(64)] if mixed else [""]
    written, steps, total = 0, 0, 0.0
    planned = 10_000_000
    with path.open("w", encoding="utf-8", buffering=1 << 20) as log:
        while before > 0:
            line = chance.choice(_INSTALLED).format(chance.randrange(1, 900)) + "\n"
            log.write(line)
            before -= len(line)
        log.write(
            "".join(
                f"  {name} {'.' * (47 - len(name))} {value}\n"
                for name, value in _arguments(planned)
            )
        )
        clock = 0.0
        for step, ms in steps_of(planned):
            if written >= size:
                break
            clock += ms / 1e3
            at = time.strftime("%H:%M:%S", time.gmtime(clock % 86_400))
            micros = int(clock % 1 * 1e6)
            rate = 128 * 4096 / (ms / 1e3) / RANKS
            lines = []
            for rank in chance.sample(range(RANKS), RANKS):
                used = 28.5 + rank / 10
                lines.append(_PREFIX % (at, rank, "utils.py:425"))
                lines.append(
                    _ITERATION
                    % (
                        at, micros, step, planned, step * 128, ms, 700.0, 4e5 / ms, 570.2, rate, 93622.9,
                        1e-5 * (1 - step / planned), 11.0 / (1 + step / 1000), 1 + step % 700 / 1000, used,
                        191.98 - used, used / 1.9198,
                    )
                )  # fmt: skip
                if mixed:
                    lines.append(chance.choice(others))
            text = "".join(lines)
            log.write(text)
            written += len(text)
            steps, total = step, total + ms
    return steps, total


def _arguments(planned: int) -> list[tuple[str, object]]:
    shape = [
        ("num_layers", 32),
        ("hidden_size", 4096),
        ("num_attention_heads", 32),
        ("seq_length", 4096),
    ]
    return [*shape, ("world_size", RANKS), ("train_iters", planned), ("bf16", True)]


def _others(chance: random.Random) -> str:
    lines = []
    for number in range(OTHERS):
        said = chance.choice(_SAID) % (chance.randrange(100), chance.randrange(10**9))
        where = f"{chance.choice(('utils', 'training', 'ckpt'))}.py:{chance.randrange(100, 999)}"
        lines.append(
            _PREFIX % (f"02:18:{number:02d}", chance.randrange(RANKS), where) + said + "\x1b[0m\n"
        )
    return "".join(lines)


def plain_loop(path: Path) -> tuple[int, float]:
    """Return the step time alone: lines with it, and their sum in ms."""
    search = re.compile(PATTERN).search
    lines, total = 0, 0.0
    with path.open("rb") as log:
        for line in log:
            if found := search(line):
                lines += 1
                total += float(found[1])
    return lines // RANKS, total / RANKS


def search_program(path: Path) -> tuple[int, float]:
    """Do what plain_loop() does, on what a search program leaves of the log."""
    program = shutil.which("rg") or shutil.which("grep")
    assert program
    search = re.compile(PATTERN).search
    lines, total = 0, 0.0
    options = ["-a", "-F", "elapsed time per iteration (ms)", str(path)]
    with subprocess.Popen([program, *options], stdout=subprocess.PIPE) as process:
        assert process.stdout
        for line in process.stdout:
            found = search(line)
            assert found
            lines += 1
            total += float(found[1])
    return lines // RANKS, total / RANKS


def reading(path: Path) -> tuple[int, float]:
    """Parse every field in one process; return the steps and the sum of their times in ms."""
    from tprimat import read

    with path.open("rb") as log:
        (found,) = read.parse_chunks(iter(lambda: log.read(CHUNK), b""), path.name)
    return found.steps, -1.0


def run(path: Path) -> tuple[int, float]:
    """Do what reading() does, and build the Run."""
    from tprimat import read

    with path.open("rb") as log:
        (found,) = read.parse_chunks(iter(lambda: log.read(CHUNK), b""), path.name)
    made = found.run()
    return len(made.steps), 1e3 * sum(seconds for seconds in made.step_times if seconds)


def hashed(path: Path) -> tuple[int, float]:
    """Do what reading() does, and hash the file, as a command does."""
    from tprimat import read
    from tprimat.log_import import inputs

    log = inputs.Log(str(path))
    (found,) = read.parse_chunks(log.chunks(), log.name)
    log.source_file()
    return found.steps, -1.0


def _imported() -> Any:
    """Return the package that reads, whose readers are loaded already."""
    from tprimat import read

    read.log_formats()
    return read


def numbers(path: Path, form: str) -> float:
    """Return the CPU time, s, of finding the numbers of all steps and converting them."""
    find = re.compile(console_forms.FORMS[form].numbers).findall
    begun = time.process_time()
    found = find(path.read_text(encoding="utf-8"))
    values = [float(number.replace(",", "")) for step in found for number in step]
    spent = time.process_time() - begun
    if len(found) != console_forms.STEPS or not values:
        raise SystemExit(f"{form}: {len(found)} steps found, not {console_forms.STEPS}")
    return spent


def words(path: Path, form: str) -> float:
    """Return the CPU time, s, of searching a text for two hundred words, those by which the readers
    know a line.
    """
    signs = {sign for reader in _imported().log_formats() for sign in reader().all_signs if sign}
    find = re.compile("|".join(map(re.escape, sorted(signs)[:WORDS]))).findall
    begun = time.process_time()
    find(path.read_text(encoding="utf-8"))
    return time.process_time() - begun


def parsed(path: Path, form: str) -> float:
    """Return the CPU time, s, of reading a log."""
    read = _imported()
    begun = time.process_time()
    with path.open("rb") as log:
        (found,) = read.parse_chunks(iter(lambda: log.read(CHUNK), b""), path.name)
    spent = time.process_time() - begun
    if form and found.steps != console_forms.STEPS:
        raise SystemExit(f"{form}: {found.steps} steps read, not {console_forms.STEPS}")
    return spent


def built(path: Path, form: str) -> float:
    """Return the CPU time, s, of reading a log and building the Run of it."""
    read = _imported()
    begun = time.process_time()
    with path.open("rb") as log:
        (found,) = read.parse_chunks(iter(lambda: log.read(CHUNK), b""), path.name)
    found.run()
    return time.process_time() - begun


SPENT: dict[str, Callable[[Path, str], float]] = {
    "numbers": numbers,
    "words": words,
    "parsed": parsed,
    "built": built,
}
"""Ways of which the CPU time is measured without Python's start and imports."""

WAYS: dict[str, tuple[str, Callable[[Path], tuple[int, float]]]] = {
    "plain": ("plain loop, step time alone", plain_loop),
    "program": ("rg or grep -F, piped into that loop", search_program),
    "reading": ("TensorPrimat, all fields of every line", reading),
    "hashed": ("TensorPrimat, and the hash", hashed),
    "run": ("TensorPrimat, and the Run of it", run),
}


def measured(way: str, path: Path) -> dict[str, float]:
    """Measure one way in its own process; return wall and CPU time in s, memory in MB, steps and
    their sum.
    """
    used = child.measure([__file__, "--way", way, "--log", str(path)])
    return {**json.loads(used.output), "memory": used.memory_mb, "cpu": used.cpu_s}


def main() -> int:
    """Make the logs, measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("--megabytes", type=int, default=1000, help="of each log (%(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="rounds; the medians are shown (%(default)s)"
    )
    parser.add_argument("--folder", type=Path, help="for the logs (a temporary one)")
    parser.add_argument(
        "--ways", nargs="+", choices=WAYS, default=list(WAYS), help="what is measured (all)"
    )
    parser.add_argument("--way", choices=(*WAYS, *SPENT), help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--form", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way in SPENT:
        print(SPENT[arguments.way](arguments.log, arguments.form))
        return 0
    if arguments.way:
        begun = time.perf_counter()
        steps, total = WAYS[arguments.way][1](arguments.log)
        print(json.dumps({"seconds": time.perf_counter() - begun, "steps": steps, "total": total}))
        return 0
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        compare_forms(Path(folder).resolve() / "made.log", arguments.rounds)
        size = arguments.megabytes * 10**6
        for name, mixed, installed in (
            ("one iteration line in thirty", True, 0),
            ("nothing but iteration lines", False, 0),
            ("an installation before the training", True, size),
        ):
            path = Path(folder).resolve() / "made.log"
            steps, total = make(path, 10**6 if installed else size, mixed=mixed, before=installed)
            found: dict[str, list[dict[str, float]]] = {way: [] for way in arguments.ways}
            for _ in range(arguments.rounds):
                for way in arguments.ways:
                    found[way].append(measured(way, path))
            _show(name, path.stat().st_size, steps, total, found)
    return 0


def compare_forms(path: Path, rounds: int) -> None:
    """Print the CPU times of reading each console form, and text before a training, as ratios."""
    print(f"CPU time without Python's start, lowest of {rounds}")
    print(f"{console_forms.STEPS} steps of   MB  {'numbers':>12} {'parsed':>12} {'with Run':>12}")
    for form in console_forms.FORMS:
        console_forms.make(path, form)
        _show_form(form, path, ("numbers", "parsed", "built"), rounds)
    make(path, 10**5, mixed=False, before=BEFORE)
    print(f"{'text before':<15}  MB  {'200 words':>12} {'parsed':>12}")
    _show_form("", path, ("words", "parsed"), rounds)


def _show_form(form: str, path: Path, ways: Sequence[str], rounds: int) -> None:
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            log = [__file__, "--way", way, "--log", str(path), "--form", form]
            spent[way].append(float(child.measure(log).output))
    plain, *others = (min(times) for times in spent.values())
    shown = [f"{plain:>10.2f} s", *(f"{each:>6.2f} s {each / plain:>4.1f}×" for each in others)]
    print(f"{form:<13} {path.stat().st_size / 1e6:>5.1f} {' '.join(shown)}")


def _show(
    name: str, size: int, steps: int, total: float, found: dict[str, list[dict[str, float]]]
) -> None:
    print(
        f"\n{name}: {size / 1e6:.0f} MB, {steps} steps, {RANKS} ranks; medians of"
        f" {len(next(iter(found.values())))}"
    )
    print(f"{'':<42} {'s':>7} {'MB/s':>7} {'CPU s':>7} {'memory MB':>10} {'of plain':>9}")
    middle = {
        way: {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        for way, rows in found.items()
    }
    for way, row in middle.items():
        for each in found[way]:
            if each["steps"] != steps or (
                each["total"] >= 0 and abs(each["total"] - total) > 1e-6 * total
            ):
                raise SystemExit(
                    f"{way} found {each['steps']} steps of {each['total']} ms, not {steps} of"
                    f" {total}"
                )
        ratio = f"{middle['plain']['seconds'] / row['seconds']:.2f}" if "plain" in middle else ""
        print(
            f"{WAYS[way][0]:<42} {row['seconds']:>7.2f} {size / row['seconds'] / 1e6:>7.0f}"
            f" {row['cpu']:>7.2f} {row['memory']:>10.0f} {ratio:>9}"
        )
    print(f"allowed memory: {100 + 250e-6 * steps:.0f} MB (100 MB and 250 bytes for each step)")


if __name__ == "__main__":
    sys.exit(main())
