"""The directory of a job, below the output directory: its script, its log, the started trainings,
and the number of the job.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from pathlib import Path

import msgspec

from tprimat import files
from tprimat.errors import UsageError
from tprimat.measure.attempt import session_of
from tprimat.results.fields import Fixed
from tprimat.slurm import script

FOLDER = "slurm"
DESCRIPTION = "job.description"
"""Its name doesn't end in .json, as those of results do."""


class Description(Fixed, frozen=True):
    """What a submitted job was to do.

    Attributes:
        job_id: None while it isn't submitted.
        output_dir: directory of the results, absolute.
        words: arguments of the benchmark on each node.
    """

    output_dir: str
    nodes: int
    words: tuple[str, ...]
    job_id: str | None = None


@dataclasses.dataclass(frozen=True)
class Job:
    """A job and its directory."""

    folder: Path
    description: Description

    @property
    def output_dir(self) -> Path:
        """Where its results are."""
        return Path(self.description.output_dir)

    @property
    def job_id(self) -> str | None:
        """The id that Slurm gave it last: someone may have submitted the script again."""
        noted = [note[0] for note in self.notes()]
        if noted:
            return noted[-1]
        return self.description.job_id

    @property
    def session(self) -> str:
        """The session of its runs."""
        return (
            session_of({"SLURM_JOB_ID": self.job_id or "", "TPRIMAT_JOB": str(self.folder)}) or ""
        )

    def notes(self) -> list[tuple[str, ...]]:
        """Return the script's notes on its progress: (job, time, event, …) each."""
        try:
            lines = (
                files.read_plain(self.folder / script.STATE).decode("utf-8", "replace").splitlines()
            )
        except OSError:
            return []
        return [tuple(words) for line in lines if len(words := line.split()) > 2]

    def write(self) -> None:
        """Write the description. Raises UsageError if it can't be written."""
        files.write_output(
            self.folder / DESCRIPTION, msgspec.json.encode(self.description), "--output-dir"
        )


def make_folder(output_dir: Path) -> Path:
    """Make the directory of a new job. Raises UsageError if it can't be made."""
    stem = f"{datetime.datetime.now():%Y%m%d_%H%M%S}"
    for name in itertools.chain([stem], (f"{stem}_{number}" for number in itertools.count(2))):
        folder = output_dir / FOLDER / name
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            if not folder.is_dir():
                raise UsageError(
                    f"{folder}: a file with this name exists", heading="unwritable-directory"
                ) from None
        except OSError as error:
            raise files.unwritable(folder, error) from error
    raise AssertionError


def find(name: str, output_dir: Path) -> Job:
    """Return a job by its id, or by its directory. Raises UsageError if there is none, or several
    have that id.
    """
    if not name.isdecimal():
        return _read(Path(name))
    jobs = []
    for path in sorted((output_dir / FOLDER).glob(f"*/{DESCRIPTION}")):
        job = _read(path.parent)
        if name in (job.description.job_id, *(note[0] for note in job.notes())):
            jobs.append(job)
    if not jobs:
        raise UsageError(
            f"no job {name} was submitted to {output_dir / FOLDER}",
            hint=(
                "name its output directory with --output-dir, or its own directory instead of"
                " the id"
            ),
            heading="collect",
        )
    return jobs[-1]


def _read(folder: Path) -> Job:
    path = folder / DESCRIPTION
    try:
        return Job(folder.absolute(), msgspec.json.decode(files.read_plain(path), type=Description))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{str(folder)!r} is neither the id of a job nor the directory of one",
            hint=(
                "use the id that benchmark.py --executor slurm printed, or its directory below"
                " output/slurm"
            ),
            heading="collect",
        ) from None
    except OSError as error:
        raise files.unreadable(path, error) from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(
            f"{path}: not the description of a job: {error}", heading="collect"
        ) from error
