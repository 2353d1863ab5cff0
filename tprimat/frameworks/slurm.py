"""The Slurm job of a NeMo training: from options, over a small file of `name = value` lines."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from pathlib import Path

from tprimat import files
from tprimat.errors import UsageError


@dataclasses.dataclass(frozen=True)
class SlurmJob:
    """Where a job runs.

    Attributes:
        account, partition: as the cluster names them.
        time: wall time, as Slurm writes it.
        container: image; None to run in the job's own environment.
        mounts: folder:folder for the container, beyond this clone and the output folder.
    """

    account: str
    partition: str
    time: str = "01:00:00"
    container: str | None = None
    mounts: tuple[str, ...] = ()


NAMES = tuple(field.name for field in dataclasses.fields(SlurmJob))
_TIME = re.compile(r"(\d+-)?\d{1,4}(:\d{2}){0,2}")


def job(path: Path | None, options: Mapping[str, str | None]) -> SlurmJob:
    """Return the job of a file and the options; options win.

    Args:
        path: the small file, or None.
        options: values by their names in NAMES; None where an option was not given.

    Raises:
        UsageError: a value is missing or wrong, or the file is.
    """
    known = read(path) if path is not None else {}
    known |= {name: value for name, value in options.items() if value}
    for name in ("account", "partition"):
        if name not in known:
            article = "an" if name == "account" else "a"
            raise UsageError(
                f"a Slurm job takes {article} {name}: say --{name} NAME, or `{name} = NAME` in the file of --slurm",
                heading="slurm",
            )
    time = known.get("time", SlurmJob.time)
    if not _TIME.fullmatch(time):
        raise UsageError(
            f"{time!r} is no wall time as Slurm writes it, such as 00:30:00 or 1-12:00:00", heading="slurm"
        )
    mounts = tuple(part.strip() for part in known.get("mounts", "").split(",") if part.strip())
    for mount in mounts:
        if ":" not in mount:
            raise UsageError(f"mount {mount!r}: write folder:folder, here and in the container", heading="slurm")
    return SlurmJob(known["account"], known["partition"], time, known.get("container"), mounts)


def read(path: Path) -> dict[str, str]:
    """Return the values of a file. Raises UsageError for one that can't be read, or a name that isn't known."""
    try:
        text = files.read_plain(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"{path}: can't be read: {reason}", heading="slurm") from error
    values = {}
    for number, line in enumerate(text.splitlines(), 1):
        content = line.split("#")[0].strip()
        if not content:
            continue
        name, sign, value = (part.strip() for part in content.partition("="))
        if not sign or name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            meant = f"is {near[0]} meant?" if near else f"write NAME = VALUE with one of {', '.join(NAMES)}"
            raise UsageError(f"{path}:{number}: {name!r} is none of what a job is told: {meant}", heading="slurm")
        values[name] = value.strip("\"'")
    return values
