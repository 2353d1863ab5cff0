#!/usr/bin/env python3
"""Read files that are no trainings, such as documentation, sources and settings, and report how many
become a result or are asked about.

    tools/not_trainings.py --count 1000 --seed 1 /usr/share/doc /usr/include docs tests

A directory counts with all files below it; of all together COUNT are drawn, as many of each
directory as it has where they are few. Programs are refused by their names; they are read all the
same, as a paste of them is.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from tprimat import read
from tprimat.errors import TensorPrimatError
from tprimat.log_import import sources
from tprimat.log_import.inputs import Log
from tprimat.read.forms.asking import FormError

LARGEST = 8 << 20
"""Bytes of a file that is read."""

RESULT, ASKED, REFUSED = "becomes a result", "is asked", "is refused"
UNNAMED = "without its name"
"""What a program becomes, whose output is asked for instead."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the files, and name those that are taken for a training."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIRECTORY")
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="files to read")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the draw")
    options = parser.parse_args(arguments)
    outcomes = collections.Counter[str]()
    for path in _drawn(options.folders, options.count, random.Random(options.seed)):
        is_program = path.suffix in read.PROGRAMS
        outcome, detail = _outcome_of_text(path) if is_program else _outcome(path)
        kind = f"{outcome} {UNNAMED}" if is_program and outcome != REFUSED else outcome
        outcomes[kind] += 1
        if outcome != REFUSED:
            print(f"{path} {kind}: {detail}")
    counts = ", ".join(f"{count} {kind}" for kind, count in outcomes.most_common())
    print(f"{outcomes.total()} files: {counts}")
    return 0


def _drawn(folders: Sequence[Path], count: int, chance: random.Random) -> Iterator[Path]:
    """Yield so many files, evenly from all directories, those with few files first."""
    found = sorted((sorted(_files(folder)) for folder in folders), key=len)
    for place, files in enumerate(found):
        share = count // (len(found) - place)
        drawn = chance.sample(files, min(share, len(files)))
        count -= len(drawn)
        yield from sorted(drawn)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a directory that anyone may read."""
    for path in folder.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink() and 0 < path.stat().st_size <= LARGEST:
                with path.open("rb"):
                    yield path
        except OSError:
            continue


def _outcome(path: Path) -> tuple[str, str]:
    """Return what becomes of a file, and its steps or what is assumed of it."""
    try:
        (source,) = sources.log_sources([str(path)])[0] or [None]
    except TensorPrimatError:
        return REFUSED, ""
    if source is None:
        return REFUSED, ""
    outcome = sources.read_source(source)
    if isinstance(outcome, list):
        steps = [len(training.run.steps) for training in outcome]
        return RESULT, f"{steps} steps, {outcome[0].run.framework}"
    if outcome.asked:
        return ASKED, outcome.problem.removeprefix(f"{outcome.place}: ")
    return REFUSED, ""


def _outcome_of_text(path: Path) -> tuple[str, str]:
    log = Log(str(path))
    try:
        parsed = read.parse_chunks(log.chunks(), path.stem, log.chunks)
    except FormError as error:
        return (ASKED, str(error.notes[0].fields)) if error.is_asked else (REFUSED, "")
    except TensorPrimatError:
        return REFUSED, ""
    steps = [training.steps for training in parsed]
    return RESULT, f"{steps} steps, {parsed[0].run().framework}"


if __name__ == "__main__":
    sys.exit(main())
