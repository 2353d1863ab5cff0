"""How a run ended. The status is whether all requested steps were recorded; the ending is why no
more were.
"""

from __future__ import annotations

from typing import Annotated, Literal

from tprimat.results.fields import Count, Section

EndingKind = Literal["finished", "failed", "stopped", "cut_off", "running"]


class Ending(Section, frozen=True, kw_only=True):
    """How a run ended, and the evidence in the log or the program."""

    kind: Annotated[
        EndingKind,
        "finished: all its steps, or a limit that the user asked for; failed: an exception, a"
        " signal or an exit code; stopped: a limit of the scheduler, or a request from outside;"
        " cut_off: the records end without a cause; running: it had not ended when it was read",
    ]
    cause: Annotated[
        str | None, "exception, signal, exit code or limit, in the words of its source"
    ] = None
    line: Annotated[Count | None, "line of the log that states the cause"] = None
