#!/usr/bin/env python3
"""Damages logs in every way and reads them, for as long as it is told to; keeps the inputs that
show a fault.

A fault is an exception other than TensorPrimat's own, a result that doesn't read back, another
reading from blocks than from lines, or more time than the length of the input explains.

    tools/fuzz_logs.py --minutes 60
    tools/fuzz_logs.py --minutes 5 --formats verl "wandb, run"
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import itertools
import random
import re
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "read")]

import made_files
import made_logs
import msgspec

from tprimat import read
from tprimat.errors import TensorPrimatError
from tprimat.read import mapped, merge
from tprimat.read.parsing import text
from tprimat.read.parsing.feeder import DetectionLimits, LogFeeder
from tprimat.read.parsing.parsed_log import FileFormat, InputFile, ParsedLog
from tprimat.results.result_file import decode
from tprimat.results.run import Run
from tprimat.store.store import as_file, encode

SAMPLES = ROOT.parent / "shared" / "samples"
LONGEST = 40_000
"""Bytes of a log that are taken at a time."""

SECONDS, SECONDS_PER_BYTE = 2.0, 5e-5
"""CPU time that an input may take: so much, and so much for each byte."""

OWN = (
    "[2026-05-11 02:18:20.200000] iteration        3/      40 | consumed samples:           16 |"
    " elapsed time per iteration (ms): 700.1/711.2 | throughput per GPU (TFLOP/s/GPU): 400.0/397.0 "
    " | tokens per GPU (tokens/s/GPU): 40960.0/40953.0 | learning rate: 1.000000E-05 | global batch"
    " size:    16 | lm loss: 2.500000E+00 | loss scale: 1.0 | grad norm: 1.250 | number of skipped"
    " iterations:   0 | number of nan iterations:   0 | hip mem usage/free/total/usage_ratio:"
    " 28.56GB/163.42GB/191.98GB/14.88%\n"
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
    "\r", "\n", "\r\n", "\x1b[0m", "\x1b[38;5;1m", "\x1b]0;", "[32m", "^[[0m", "\\u001b[1m", "\x00", "\ufeff", "ä",
    "\x9b1m",
)  # fmt: skip
FAULTS = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, NameError, OSError,
    RuntimeError, StopIteration, TypeError, ValueError, msgspec.MsgspecError, re.error, TensorPrimatError,
)  # fmt: skip
"""What no input may lead to. An error of our own is a fault where reading is begun, not where it
ends.
"""


@dataclasses.dataclass(frozen=True)
class Fault:
    """Something that must not be.

    Attributes:
        number: of the input; with the seed and the formats it makes the input again.
        content: the input.
        what: in words.
    """

    number: int
    content: bytes
    what: str


LINES = {"megatron", *made_logs.LOGS, *made_files.OTHER_LOGS}
"""Formats that are read line by line: from anywhere on."""

COLUMNS = mapped.file_format(mapped.columns("step=step,time=time,loss=loss"))
BESIDE = ("meta.yaml", "params/max_steps", "hparams.yaml", "files/wandb-metadata.json")
"""Names of what may lie beside a file that is read as a whole."""


def originals(formats: Iterable[str] = ()) -> dict[str, list[bytes]]:
    """Return what is damaged, by format: synthetic logs and files, and real ones beside the
    repository, if any.

    `formats` are those that are wanted; all without any.
    """
    logs = {"megatron": [OWN.encode() * 30]}
    for group in (made_logs.LOGS, made_files.OTHER_LOGS, made_files.FILES, made_files.TABLES):
        for name, each in group.items():
            logs.setdefault(name, []).append(each.encode())
    for name in made_files.RECORDS:
        logs.setdefault(name, []).append(b"")
    for path in sorted(SAMPLES.glob("*/*")) if SAMPLES.is_dir() else []:
        if (
            path.suffix in (".log", ".txt", ".out", ".csv", ".json", ".jsonl", ".xlsx")
            and path.is_file()
        ):
            logs.setdefault(f"real, {path.parent.name}", []).append(path.read_bytes())
    return {name: logs[name] for name in formats or logs}


def made(rng: random.Random, name: str, logs: Sequence[bytes]) -> bytes:
    """Return a damaged file of a format. Of one with checksums, records are damaged before they get
    theirs.
    """
    if name not in made_files.RECORDS:
        return damaged(
            rng, logs, whole=not (name in LINES or name.startswith("real")) or rng.random() < 0.3
        )
    records, write = made_files.RECORDS[name]
    changed = list(records)
    for _ in range(rng.choice((0, 1, 1, 3, 20))):
        place = rng.randrange(len(changed))
        changed[place] = damaged(rng, [changed[place]], whole=True)[:20_000]
    content = write(changed)
    return damaged(rng, [content], whole=True) if rng.random() < 0.3 else content


def damaged(rng: random.Random, logs: Sequence[bytes], *, whole: bool = False) -> bytes:
    """Return a log with some damage; only a piece of it without `whole`."""
    content = bytearray(
        rng.choice(logs)[:LONGEST] if whole and rng.random() < 0.9 else _piece(rng, logs)
    )
    for _ in range(rng.choice((1, 1, 2, 4, 8, 30))):
        place = rng.randrange(len(content) + 1)
        rng.choice(_DAMAGES)(rng, content, place, logs)
        if len(content) > 4 * LONGEST:
            del content[4 * LONGEST :]
    if rng.random() < 0.03:
        return (
            bytes(content)
            .decode("utf-8", "replace")
            .encode(rng.choice(("utf-16", "utf-8-sig", "utf-32")))
        )
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
    content[place : place + 1] = bytes(
        [rng.choice([each for each in range(256) if each not in (0x00, 0x1B)])]
    )


def _word(rng: random.Random, content: bytearray, place: int, logs: Sequence[bytes]) -> None:
    content[place:place] = rng.choice(WORDS).encode()


def _control(rng: random.Random, content: bytearray, place: int, logs: Sequence[bytes]) -> None:
    while (
        place < len(content) and chr(content[place]).isalnum() and chr(content[place - 1]).isalnum()
    ):
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


_DAMAGES = (
    _digit,
    _digit,
    _byte,
    _word,
    _control,
    _without,
    _again,
    _elsewhere,
    _another,
    _line_twice,
    _cut,
)


def chunks_of(rng: random.Random, content: bytes) -> Iterator[bytes]:
    """Return the input in chunks of some size."""
    size = rng.choice((7, 300, 5000, 1 << 18))
    return (content[at : at + size] for at in range(0, len(content), size))


def fault_of(content: bytes, rng: random.Random, name: str = "") -> str | None:
    """Return what is wrong with the reading of an input of a format; None if nothing is."""
    begun = time.process_time()
    file_format = (
        COLUMNS if name in made_files.TABLES else read.file_format_of(content[: read.HEAD])
    )
    try:
        if file_format is not None:
            read_whole(content, file_format, rng)
            blocks = lines = []
        else:
            blocks = _outcome(content, list(chunks_of(rng, content)))
        spent = time.process_time() - begun
        if file_format is None:
            lines = _outcome(content, None)
    except FAULTS:
        return traceback.format_exc()
    if blocks != lines:
        return f"blocks and lines differ:\n{blocks}\n{lines}"
    if spent > SECONDS + SECONDS_PER_BYTE * len(content):
        return f"{spent:.1f} s for {len(content)} bytes"
    return None


def read_whole(content: bytes, file_format: FileFormat, rng: random.Random) -> None:
    """Read a file that is read as a whole, with damaged files beside it."""
    beside = {each: damaged(rng, [made_files.BESIDE.encode()], whole=True) for each in BESIDE}
    try:
        found = file_format.read([InputFile("runs/metrics/loss", io.BytesIO(content))], beside)
    except ValueError as error:
        # Its message is the reason that a user is told: one of Python's own is none.
        if type(error) is not ValueError or "\n" in str(error):
            raise
        return
    _runs_of(found)


def _runs_of(found: Sequence[ParsedLog]) -> list[Run]:
    runs: list[Run] = [reading.run() for reading in found]
    for run in runs:
        if decode(encode(as_file([run]))) != (run,):
            raise ValueError("the result doesn't read back")
    return runs


def _outcome(content: bytes, chunks: list[bytes] | None) -> list[object]:
    # Readers that don't know the log are sent away at once, so that blocks are read as such.
    log = LogFeeder(
        [dialect() for dialect in read.log_formats()],
        DetectionLimits(steps=1, lines=1, known_lines=200),
    )
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
        runs = _runs_of(found)
    except TensorPrimatError as error:
        line = error.line()
        if "\n" in line:
            raise ValueError(f"an error of several lines: {line!r}") from error
        return [line]
    return [*runs, *(reading.notes for reading in found)]


def fuzz(
    seed: int,
    *,
    minutes: float | None = None,
    inputs: int | None = None,
    first: int = 0,
    formats: Iterable[str] = (),
) -> Iterator[Fault | None]:
    """Read damaged logs; yield None for each that shows no fault.

    Args:
        seed: the same one makes the same inputs.
        minutes: of CPU time, after which it ends.
        inputs: after which it ends.
        first: number of the first input.
        formats: names of those that are damaged, in turn; all without any.
    """
    logs = originals(formats)
    names = list(logs)
    ends = None if minutes is None else time.process_time() + 60 * minutes
    for number in itertools.count(first):
        if (inputs is not None and number >= first + inputs) or (
            ends is not None and time.process_time() >= ends
        ):
            return
        rng = random.Random(f"{seed} {number}")
        name = names[number % len(names)]
        content = made(rng, name, logs[name])
        what = fault_of(content, rng, name)
        yield Fault(number, content, what) if what else None


def main() -> int:
    """Fuzz; return 1 when a fault was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="of CPU time (%(default)g)")
    parser.add_argument(
        "--formats",
        nargs="+",
        choices=list(originals()),
        metavar="FORMAT",
        default=[],
        help="(all)",
    )
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="makes the same inputs again (the time)"
    )
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first input (%(default)s)"
    )
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-faults"), help="directory for inputs (%(default)s)"
    )
    arguments = parser.parse_args()
    logs = originals(arguments.formats)
    print(
        f"seed {arguments.seed}, {sum(map(len, logs.values()))} logs of {', '.join(logs)}",
        flush=True,
    )
    count = faults = 0
    reported = time.monotonic()
    settings = {
        "minutes": arguments.minutes,
        "first": arguments.first,
        "formats": arguments.formats,
    }
    for fault in fuzz(arguments.seed, **settings):
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
