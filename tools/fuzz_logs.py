#!/usr/bin/env python3
"""Damages logs in every way and reads them, for as long as it is told to; keeps the inputs that show a fault.

A fault is an exception other than TensorPrimat's own, a result that doesn't read back, another
reading from blocks than from lines, or more time than the length of the input explains.

    tools/fuzz_logs.py --minutes 60
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import random
import re
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "read")]

import made_logs
import msgspec

from tprimat import read
from tprimat.errors import TensorPrimatError
from tprimat.read import merge
from tprimat.read.parsing import text
from tprimat.read.parsing.feeder import DetectionLimits, LogFeeder
from tprimat.results.result_file import decode
from tprimat.results.run import Run
from tprimat.store.store import as_file, encode

SAMPLES = ROOT.parent / "shared" / "samples"
LONGEST = 40_000
"""Bytes of a log that are taken at a time."""

SECONDS, SECONDS_PER_BYTE = 2.0, 5e-5
"""CPU time that an input may take: so much, and so much for each byte."""

OWN = (
    "[2026-05-11 02:18:20.200000] iteration        3/      40 | consumed samples:           16 | elapsed time per "
    "iteration (ms): 700.1/711.2 | throughput per GPU (TFLOP/s/GPU): 400.0/397.0  | tokens per GPU (tokens/s/GPU): "
    "40960.0/40953.0 | learning rate: 1.000000E-05 | global batch size:    16 | lm loss: 2.500000E+00 | "
    "loss scale: 1.0 | grad norm: 1.250 | number of skipped iterations:   0 | number of nan iterations:   0 | "
    "hip mem usage/free/total/usage_ratio: 28.56GB/163.42GB/191.98GB/14.88%\n"
)
"""What is damaged where there are no real logs."""

WORDS = (
    "iteration", "iteration 1/2 |", "elapsed time per iteration (ms):", "elapsed", "|", "/", ":", "lm loss:", "nan",
    "inf", "-1", "0", "1e400", "9" * 30, "9" * 5000, "1,234.5", "1/0", "(avg 1.0)", "GB", "GiB", "%", "tps:", "step:",
    ":::MLLOG {", "{'loss': 1.0}", "completed step: 1, seconds: 1.0", "world_size", "[after training is done]",
    "num_layers ...................................... 4", "RuntimeError: x", "[rank-0/8]", "2026-05-11 02:18:20",
    "[20260511 02:18:20]", "\t", "  ",
)  # fmt: skip
CONTROLS = (
    "\r",
    "\n",
    "\r\n",
    "\x1b[0m",
    "\x1b[38;5;1m",
    "\x1b]0;",
    "[32m",
    "^[[0m",
    "\\u001b[1m",
    "\x00",
    "\ufeff",
    "ä",
    "\x9b1m",
)


FAULTS = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, NameError, OSError,
    RuntimeError, StopIteration, TypeError, ValueError, msgspec.MsgspecError, re.error, TensorPrimatError,
)  # fmt: skip
"""What no input may lead to. An error of our own is a fault where reading is begun, not where it ends."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """Something that must not be.

    Attributes:
        number: of the input; with the seed it makes the input again.
        content: the input.
        what: in words.
    """

    number: int
    content: bytes
    what: str


def originals() -> list[bytes]:
    """Return the real logs beside the repository, if any, and synthetic ones."""
    found = [OWN.encode() * 30, *(each.encode() for each in made_logs.LOGS.values())]
    there = sorted(SAMPLES.glob("*/*")) if SAMPLES.is_dir() else []
    return found + [path.read_bytes() for path in there if path.suffix in (".log", ".txt", ".out") and path.is_file()]


def damaged(rng: random.Random, logs: Sequence[bytes]) -> bytes:
    """Return a log with some damage."""
    content = bytearray(_piece(rng, logs))
    for _ in range(rng.choice((1, 1, 2, 4, 8, 30))):
        place = rng.randrange(len(content) + 1)
        rng.choice(_DAMAGES)(rng, content, place, logs)
        if len(content) > 4 * LONGEST:
            del content[4 * LONGEST :]
    if rng.random() < 0.03:
        return bytes(content).decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-8-sig", "utf-32")))
    return bytes(content)


def _piece(rng: random.Random, logs: Sequence[bytes]) -> bytes:
    log = rng.choice(logs)
    size = rng.choice((200, 2000, LONGEST))
    if rng.random() < 0.3 and (place := log.find(b"elapsed time per iteration")) >= 0:
        start = max(0, place - rng.randrange(size))
    else:
        start = rng.randrange(max(1, len(log) - size))
    return log[start : start + size]


def _digit(rng: random.Random, content: bytearray, place: int, logs: Sequence[bytes]) -> None:
    content[place : place + 1] = bytes([rng.choice(b"0123456789.,-+eE|:/ []()%")])


def _byte(rng: random.Random, content: bytearray, place: int, logs: Sequence[bytes]) -> None:
    # Escape and NUL come between words only: a word that they part is not looked for.
    content[place : place + 1] = bytes([rng.choice([each for each in range(256) if each not in (0x00, 0x1B)])])


def _word(rng: random.Random, content: bytearray, place: int, logs: Sequence[bytes]) -> None:
    content[place:place] = rng.choice(WORDS).encode()


def _control(rng: random.Random, content: bytearray, place: int, logs: Sequence[bytes]) -> None:
    while place < len(content) and chr(content[place]).isalnum() and chr(content[place - 1]).isalnum():
        place += 1
    content[place:place] = rng.choice(CONTROLS).encode()


def _without(rng: random.Random, content: bytearray, place: int, logs: Sequence[bytes]) -> None:
    del content[place : place + rng.choice((1, 3, 20, 500))]


def _again(rng: random.Random, content: bytearray, place: int, logs: Sequence[bytes]) -> None:
    unit = content[place : place + rng.choice((1, 4, 30, 700))]
    content[place:place] = bytes(unit) * rng.choice((1, 2, 50, 2000))


def _elsewhere(rng: random.Random, content: bytearray, place: int, logs: Sequence[bytes]) -> None:
    start = rng.randrange(len(content) + 1)
    moved = content[start : start + 600]
    content[place:place] = bytes(moved)


def _another(rng: random.Random, content: bytearray, place: int, logs: Sequence[bytes]) -> None:
    content[place:place] = _piece(rng, logs)[: rng.choice((100, 3000))]


def _line_twice(rng: random.Random, content: bytearray, place: int, logs: Sequence[bytes]) -> None:
    start = content.rfind(b"\n", 0, place) + 1
    end = content.find(b"\n", place) + 1 or len(content)
    line = bytes(content[start:end])
    if rng.random() < 0.5:
        line = line.replace(b"rank-7", b"rank-1").replace(b"E-0", b"E+0")
    content[end:end] = line


def _cut(rng: random.Random, content: bytearray, place: int, logs: Sequence[bytes]) -> None:
    if rng.random() < 0.2:
        del content[place:]


_DAMAGES = (_digit, _digit, _byte, _word, _control, _without, _again, _elsewhere, _another, _line_twice, _cut)


def chunks_of(rng: random.Random, content: bytes) -> Iterator[bytes]:
    """Return the input in chunks of some size."""
    size = rng.choice((7, 300, 5000, 1 << 18))
    return (content[at : at + size] for at in range(0, len(content), size))


def fault_of(content: bytes, rng: random.Random) -> str | None:
    """Return what is wrong with the reading of an input; None where nothing is."""
    begun = time.process_time()
    try:
        blocks = _outcome(content, list(chunks_of(rng, content)))
        spent = time.process_time() - begun
        lines = _outcome(content, None)
    except FAULTS:
        return traceback.format_exc()
    if blocks != lines:
        return f"blocks and lines differ:\n{blocks}\n{lines}"
    if spent > SECONDS + SECONDS_PER_BYTE * len(content):
        return f"{spent:.1f} s for {len(content)} bytes"
    return None


def _outcome(content: bytes, chunks: list[bytes] | None) -> list[object]:
    # Readers that don't know the log are sent away at once, so that blocks are read as such.
    log = LogFeeder([dialect() for dialect in read.LOG_FORMATS], DetectionLimits(steps=1, lines=1, known_lines=200))
    if chunks is None:
        log.feed_lines(text.lines([content]))
    else:
        blocks = text.Blocks()
        for chunk in chunks:
            for block in blocks.feed(chunk):
                log.feed(block)
        for block, whole in blocks.finish():
            log.feed(block, whole=whole)
    try:
        found = merge.merge_logs(log.finish())
        runs: list[Run] = [reading.run() for reading in found]
    except TensorPrimatError as error:
        line = error.line()
        if "\n" in line:
            raise ValueError(f"an error of several lines: {line!r}") from error
        return [line]
    for run in runs:
        if decode(encode(as_file([run]))) != (run,):
            raise ValueError("the result doesn't read back")
    return [*runs, *(reading.notes for reading in found)]


def fuzz(
    seed: int, *, minutes: float | None = None, inputs: int | None = None, first: int = 0
) -> Iterator[Fault | None]:
    """Read damaged logs; yield None for each that shows no fault.

    Args:
        seed: the same one makes the same inputs.
        minutes: after which it ends.
        inputs: after which it ends.
        first: number of the first input.
    """
    logs = originals()
    ends = None if minutes is None else time.monotonic() + 60 * minutes
    for number in itertools.count(first):
        if (inputs is not None and number >= first + inputs) or (ends is not None and time.monotonic() >= ends):
            return
        rng = random.Random(f"{seed} {number}")
        content = damaged(rng, logs)
        what = fault_of(content, rng)
        yield Fault(number, content, what) if what else None


def main() -> int:
    """Fuzz; return 1 when a fault was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (%(default)g)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="makes the same inputs again (the time)")
    parser.add_argument("--first", type=int, default=0, help="number of the first input (%(default)s)")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-faults"), help="folder for inputs (%(default)s)")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, {len(originals())} logs", flush=True)
    count = faults = 0
    reported = time.monotonic()
    for fault in fuzz(arguments.seed, minutes=arguments.minutes, first=arguments.first):
        count += 1
        if time.monotonic() - reported >= 60:
            reported = time.monotonic()
            print(f"{count} inputs so far, {faults} faults", flush=True)
        if fault is None:
            continue
        faults += 1
        arguments.keep.mkdir(parents=True, exist_ok=True)
        path = arguments.keep / f"{arguments.seed}-{fault.number}.log"
        path.write_bytes(fault.content)
        print(f"\n{path}: {fault.what[-3000:]}", flush=True)
    print(f"{count} inputs, {faults} faults", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
