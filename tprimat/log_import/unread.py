"""Files that are left unread or count once, and the words for why."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class SkippedFile:
    """A skipped file, and why."""

    path: str
    reason: str


RESULT = "already a result; pass it to compare_results.py"
"""Why such a file is no log."""


NO_LOG_BY_NAME = "not a log by its name: name it explicitly to import it"


MLPERF_SYSTEM = "part of an MLPerf submission, read with the logs that it belongs to"
"""Why such a file is no source, whether a directory holds it or the user names it."""


TWIN = "counted once, as another log of the training in"
"""Why a log is skipped whose name doesn't show that it is from another process: repetitions are
never as alike.
"""


UNREAD = "skipped, possibly logs of a training script with results here"
"""In the note on skipped logs."""
