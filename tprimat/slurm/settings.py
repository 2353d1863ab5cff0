"""The settings of a Slurm job: from options, over a small file of `name = value` lines."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from tprimat import files
from tprimat.errors import UsageError
from tprimat.frameworks.request import BenchmarkOptions
from tprimat.text import suggestion


@dataclasses.dataclass(frozen=True)
class SlurmJob:
    """Where a job runs.

    Attributes:
        account, partition: None for the cluster's own default.
        time: wall time, as Slurm writes it.
        container: image; None to run in the job's own environment.
        mounts: directory:directory for the container, beyond this clone and the output directory.
    """

    account: str | None = None
    partition: str | None = None
    time: str = "01:00:00"
    container: str | None = None
    mounts: tuple[str, ...] = ()


NAMES = tuple(field.name for field in dataclasses.fields(SlurmJob))
_TIME = re.compile(r"(\d+-)?\d{1,4}(:\d{2}){0,2}")


def job(path: Path | None, options: Mapping[str, str | None]) -> SlurmJob:
    """Return the job of a file, if any, and the options by their names in NAMES; options win.

    Raises UsageError if a value is wrong, or the file is.
    """
    stated = read(path) if path is not None else {}
    stated |= {name: value for name, value in options.items() if value}
    mounts = tuple(filter(None, map(str.strip, stated.pop("mounts", "").split(","))))
    job = SlurmJob(**stated, mounts=mounts)
    if not _TIME.fullmatch(job.time):
        raise _refusal(f"{job.time!r} is not a Slurm time limit; use e.g. 00:30:00 or 1-12:00:00")
    for name, text in stated.items():
        if not text.isprintable():
            raise _refusal(f"{name} {text!r}: write it in one line of printable characters")
    for mount in mounts:
        if ":" not in mount:
            raise _refusal(
                f"mount {mount!r}: write source:target, the directory here and in the container"
            )
    return job


def given(options: BenchmarkOptions) -> str | None:
    """Return the first option that only a Slurm job has a use for; None if none is given."""
    return next((f"--{name}" for name in ("slurm", *NAMES, "wait") if getattr(options, name)), None)


def read(path: Path) -> dict[str, str]:
    """Return the values of a file. Raises UsageError for one that can't be read, or a name that
    isn't known.
    """
    try:
        text = files.read_plain(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise _refusal(f"{path}: can't be read: {reason}") from error
    values = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, sign, value = (part.strip() for part in line.split("#")[0].partition("="))
        if not name + sign:
            continue
        if not sign or name not in NAMES:
            meant = suggestion(name, NAMES, f"write NAME = VALUE with one of {', '.join(NAMES)}")
            raise _refusal(f"{path}:{number}: {name!r} is not a job setting: {meant}")
        values[name] = value.strip("\"'")
    return values


def _refusal(problem: str) -> UsageError:
    return UsageError(problem, heading="slurm")
