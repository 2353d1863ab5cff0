"""Failure reasons: the cause among the many lines that a crash leaves.

Eight processes die and each says so; torchrun adds that they died. The cause is what the first
one said last, unless a line names something more severe (memory, a device, a job's limit).
"""

from __future__ import annotations

import functools
import re

from tprimat.read.parsing.events import is_told
from tprimat.read.parsing.text import without_prefixes
from tprimat.text import ended

HINTS = (
    "rror", "ERROR", "CRITICAL", "xception", "ignal", "gated repo", "HSA_STATUS", "Memory access fault", "TIME LIMIT",
    "oom-kill", "out of memory", "egmentation fault", "No space left", "KeyboardInterrupt", "exited with code",
    "finished", "slurmstepd", "Killed", "Aborted", "Terminated", "core dumped", "SIG", "Xid", "atchdog", "OOM",
    "amdgpu", "what():", "Illegal instruction", "exit code", "exitcode: -", "eartbeat",
)  # fmt: skip
"""A line without any of these is not looked at more closely."""

_GRAVE = re.compile(
    r"OutOfMemory|(?:HIP|CUDA)(?: error:)? out of memory|STATUS_ALLOC_FAILED|Memory access fault by GPU"
    r"|HSA_STATUS_ERROR_\w+"
    r"|slurmstepd: error: .*|DUE TO TIME LIMIT|oom-kill|[Cc]annot access gated repo"
    r"|DistBackendError|(?:NCCL|RCCL) error|ncclSystemError|ncclUnhandledCudaError|No space left on device"
    r"|Segmentation fault|Bus error|Illegal instruction|\(core dumped\)|Fatal Python error|what\(\): +\S"
    r"|[Oo]ut of memory: Kill|OOMKilled|oom_kill|srun: error: .{0,300}(?:Killed|Aborted|Out Of Memory|Node failure)"
    r"|HW Exception by GPU|GPU Hang|\bXid \(|fallen off the bus|[Uu]ncorrectable ECC error"
    r"|amdgpu.{0,300}(?:GPU reset|uncorrectable hardware error)"
    r"|Watchdog caught collective|watchdog (?:thread terminated|got stuck)|Heartbeat monitor timed out"
    # Of a shell, behind its script's line and the process's number.
    r"|^(?:\S+: line \d+: +)?(?:\d+ +)?(?:Killed|Aborted|Terminated)(?:$|  )"
)
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)\b(?::|\s*$)")
_SIGNAL = re.compile(
    r"got signal: \d+|Received \d+ death signal|exited on signal \d+|Signal \d+ \(SIG\w+\) received"
    r"|[Rr]eceiv(?:ed|ing)(?: signal)? SIG[A-Z]|failed \(exitcode: -\d+\)"
)
_CONSEQUENCE = re.compile(r"ChildFailedError|closing signal|RendezvousConnectionError|BrokenPipeError|ConnectionReset")
_LOGGED = re.compile(r"\[(?:ERROR|CRITICAL)\s*\]|^ERROR\b")
_LOGGER = re.compile(r"\[rank-\d+/\d+\]|\[NODE-")
_CHAINED = re.compile(r"The above exception was the direct cause|During handling of the above exception")
_EXIT_CODE = re.compile(r"(?:exited with code|with exit code|finished .{0,300}\(code) (\d+)")
_SOMEBODY_ELSES = re.compile(r"^\s*(?:Traceback \(|File \"|\[|[WEI]\d{4} |={3,}|-{3,}|[A-Za-z_.]+Error\b|\s)")

LONGEST_REASON = 300
"""Characters."""


@functools.lru_cache(maxsize=1)
def may_name_a_cause(text: str) -> bool:
    """Return whether a line may name a cause; cached, since several readers ask for each line."""
    return is_told(text, HINTS)


@functools.lru_cache(maxsize=1)
def _cause_in(text: str) -> tuple[str, str]:
    """Return the kind of cause that a line names, with its text or exit code; two empty strings for none."""
    if not may_name_a_cause(text):
        return "", ""
    if (code := _EXIT_CODE.search(text)) and "exitcode" not in text:
        return "exit code", code[1]
    bare = without_prefixes(text).strip()
    if _CHAINED.search(bare):
        return "chained", bare
    if _CONSEQUENCE.search(bare):
        return "", ""
    if _GRAVE.search(bare) and not bare.startswith(("File ", "raise ")):
        return "grave", bare
    if _SIGNAL.search(bare) and "{" not in bare:
        return "signal", bare
    if _EXCEPTION.match(bare):
        return "exception", bare
    return ("logged", bare) if _LOGGED.search(text) else ("", "")


class FailureReasons:
    """Collects, line by line, what may have ended a training. Keeps a handful of lines at most."""

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self._found: dict[str, tuple[int, str]] = {}
        self._chained = False
        self._closed = False
        self._open: str | None = None

    def feed(self, number: int, text: str) -> None:
        """Read a line, with or without prefixes."""
        if self._open is not None:
            self._continue(text)
        kind, found = _cause_in(text)
        if kind == "exit code":
            self.exit_code = int(found)
        elif kind == "chained":
            self._chained = True
        elif kind == "signal":
            # SignalException names the signal and the process; torchrun's warning before it doesn't.
            self._keep(kind, number, found, replace="SignalException" in found)
        elif kind == "exception":
            # "A caused B caused C" is one failure, and C its end. Once another process tells its
            # own, the first one's is over.
            self._closed = self._closed or ("exception" in self._found and not self._chained)
            self._keep(kind, number, found, replace=self._chained and not self._closed)
            self._chained = False
        elif kind:
            self._keep(kind, number, found, replace=kind == "logged")

    @property
    def is_open(self) -> bool:
        """Whether the next line may go on with a message."""
        return self._open is not None

    def reason(self) -> str | None:
        """Return the cause with its line, or None if it is unknown."""
        found = self._found
        # A signal from outside that came before any exception is the cause of it.
        ended = sorted((found[kind] for kind in ("exception", "signal") if kind in found), key=lambda each: each[0])
        if cause := next(filter(None, (found.get("grave"), *ended, found.get("logged"))), None):
            return f"line {cause[0]}: {cause[1]}"
        return f"the launcher exited with code {self.exit_code}" if self.exit_code else None

    def _keep(self, kind: str, number: int, text: str, *, replace: bool = False) -> None:
        if kind in self._found and not replace:
            return
        self._found[kind] = (number, ended(text, LONGEST_REASON))
        self._open = kind

    def _continue(self, text: str) -> None:
        """Add the next line of a message of several lines."""
        kind, self._open = self._open, None
        assert kind is not None
        number, message = self._found[kind]
        # A message that ends in a full stop or a colon may go on; a logger's prefix means another speaker.
        bare = without_prefixes(text)
        if _LOGGER.search(text[: len(text) - len(bare)]) or _LOGGED.search(text):
            return
        if bare.strip() and not _SOMEBODY_ELSES.match(bare):
            self._found[kind] = (number, ended(f"{message} {bare.strip()}", LONGEST_REASON))
