"""Failure reasons: the cause among the many lines that a crash leaves.

Eight processes die and each prints that; torchrun adds that they died. The cause is the last
failure of the first process, unless a line names something more severe (memory, a device, a job's
limit). What ends a training because its user asked for it is kept apart: that is no failure.
"""

from __future__ import annotations

import functools
import re

from tprimat.read.parsing.events import has_sign
from tprimat.read.parsing.text import without_prefixes
from tprimat.redaction import redacted_start
from tprimat.results.outcome import Cause

HINTS = (
    "rror", "ERROR", "CRITICAL", "xception", "ignal", "gated repo", "HSA_STATUS", "Memory access fault", "TIME LIMIT",
    "oom-kill", "out of memory", "egmentation fault", "No space left", "KeyboardInterrupt", "exited with code",
    "finished", "slurmstepd", "Killed", "Aborted", "Terminated", "core dumped", "SIG", "Xid", "atchdog", "OOM",
    "amdgpu", "what():", "Illegal instruction", "exit code", "exitcode: ", "eartbeat", "reempt", "PREEMPT", "TERM_",
    "PBS: job killed", "victed", "DeadlineExceeded", "return code", "non-zero", "Signaling Trainer",
    "Run cancel", "Check failed: ", "OCI runtime", "+ exit ", "exit_code", "exitCode",
)  # fmt: skip
"""A line without any of these is not looked at more closely."""

_GRAVE = re.compile(
    r"OutOfMemory|(?:HIP|CUDA)(?: error:)? out of memory|STATUS_ALLOC_FAILED|Memory access fault"
    r" by GPU"
    r"|HSA_STATUS_ERROR_\w+"
    r"|slurmstepd: error: (?!\*\*\* \w+ \S+ ON \S+ CANCELLED AT \S+ \*\*\*).*|DUE TO TIME"
    r" LIMIT|oom-kill"
    r"|[Cc]annot access gated repo"
    r"|DistBackendError|(?:NCCL|RCCL) error(?!s)|ncclSystemError|ncclUnhandledCudaError|No space"
    r" left on device"
    r"|Segmentation fault|Bus error|Illegal instruction|\(core dumped\)|Fatal Python"
    r" error|what\(\): +\S"
    r"|[Oo]ut of memory: Kill|OOMKilled|oom_kill|srun: error: .{0,300}(?:Killed|Aborted|Out Of"
    r" Memory|Node failure)"
    r"|HW Exception by GPU|GPU Hang|\bXid \(|fallen off the bus|[Uu]ncorrectable ECC error"
    r"|amdgpu.{0,300}(?:GPU reset|uncorrectable hardware error)"
    r"|Watchdog caught collective|watchdog (?:thread terminated|got stuck)|Heartbeat monitor"
    r" timed out"
    r"|^docker: Error response from daemon|\bOCI runtime (?:error|[a-z]+ failed)\b"
    # Limits of LSF, PBS and Kubernetes, and their words for a job that makes room for another one.
    r"|^TERM_[A-Z]{4,}: job|PBS: job killed: |\bDUE TO PREEMPTION\b|\bPREEMPTED\b|[Pp]reempted"
    r" (?:by|in order to)\b"
    r"|[Pp]reemption detected|\bEvicted\b|[Pp]od .{0,200}\bevicted\b|\bDeadlineExceeded\b"
    # A shell's message, after the line of its script and the number of the process.
    r"|^(?:\S+: line \d+: +)?(?:\d+ +)?(?:Killed|Aborted|Terminated)(?:$|  )"
)
_EXCEPTION = re.compile(
    # After the prefixes of any logger in brackets, and those of Ray in parentheses.
    r"(?:(?:\[[^\]]{1,80}\]|\(\w{1,60} pid=\d+[^)]{0,60}\)):?\s*){0,4}"
    # The lines of an exception group's traceback begin with bars.
    r"(?:\|"
    r" +)*((?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception|Interrupt)|(?:Base)?ExceptionGroup)\b(?::|\s*$))"
)
_LEVELED = re.compile(
    # [2025-01-02 03:05:00] CRITICAL [olmo.util:158, rank=0] Uncaught SomeReaderError: generator
    # thread failed
    r"\b(?:CRITICAL|FATAL|ERROR)\b.{0,200}?(?<![\w.])((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)): "
)
_WARNED = re.compile(r"\bWARN(?:ING)?\b|\bW\d{4} ")
_SIGNAL = re.compile(
    r"got signal: \d+|Received \d+ death signal|exited on signal \d+|Signal \d+ \(SIG\w+\) received"
    r"|[Rr]eceiv(?:ed|ing)(?: signal)? SIG[A-Z]|failed \(exitcode: -\d+\)|killed by signal: \w"
    r"|slurmstepd: error: \*\*\* \w+ \S+ ON \S+ CANCELLED|srun: error: .{0,300}: Terminated"
    # absl's lines, which XLA prints: F0511 02:10:00.000000 1234 all_reduce.cc:456] Check failed:
    # status.ok()
    r"|\*\*\* SIG[A-Z]{3,6} received|(?:^|\] )Check failed: \S|^(?:HIP|CUDA) error: \w"
)
_STOPPED = re.compile(
    r"DUE TO (?:TIME"
    r" LIMIT|PREEMPTION)|PREEMPTED|[Pp]reempted|[Pp]reemption|Evicted|evicted|DeadlineExceeded"
    r"|TERM_(?:RUNLIMIT|PREEMPT|DEADLINE|WINDOW|OWNER|FORCE_OWNER|ADMIN|FORCE_ADMIN|REQUEUE_\w+)"
    r"|PBS: job killed: (?:walltime|preempt)|CANCELLED AT \S+ \*\*\*"
    # SIGHUP, SIGINT, SIGTERM, and SIGUSR1 and SIGUSR2, by which a scheduler announces that time is
    # running out.
    r"|(?:got signal: |Received |on signal |Signal |exitcode:"
    r" -)(?:1|2|10|12|15)\b|SIG(?:HUP|INT|TERM|USR[12])\b"
    r"|KeyboardInterrupt|^(?:\S+: line \d+: +)?(?:\d+ +)?Terminated|: Terminated|TensorPrimat:"
    r" interrupted"
    r"|exited with code (?:-2|-15|130|143)\b"
)
"""What is no failure among the causes: a scheduler's limit, or that somebody has ended the training
from outside.
"""

_ASKED = re.compile(
    r"Time limit reached\. Elapsed time is .{1,40}\. Signaling Trainer to stop|.{1,300}\. Signaling"
    r" Trainer to stop"
    r"|Run canceled (?:due to|from) .{1,200}"
)
"""Limits and early stopping that the user asked for, of Lightning and OLMo."""

_CONSEQUENCE = re.compile(
    r"closing signal|RendezvousConnectionError|BrokenPipeError|ConnectionReset"
)
_REPORT = re.compile(
    r"^(?:\S+\.)?ChildFailedError\b|failed \(exitcode: [1-9]|non-zero (?:exit"
    r" (?:code|status)|status)\b"
    # make's lines, and those of a shell with set -x.
    r"|^g?make(?:\[\d+\])?: \*\*\* \[.{1,200}\] Error [1-9]|^\+{1,9} exit [1-9]\d{0,2}$"
)
"""Tells that a process failed, not why."""

_LOGGED = re.compile(r"\[(?:ERROR|CRITICAL)\s*\]|^ERROR\b")
_DECISIVE = re.compile(r"\bCRITICAL\b|\bTensorPrimat: ")
"""Among the lines that are only logged as errors: those that end a training."""

_LOGGER = re.compile(r"\[rank-\d+/\d+\]|\[NODE-")
_CHAINED = re.compile(
    r"The above exception was the direct cause|During handling of the above exception"
)
_EXIT_CODE = re.compile(
    r"(?:(?:exited with code|with exit code|finished .{0,300}\(code|return code =)"
    r" |\"exit_?[cC]ode\": ?)(-?\d+)"
)
_SOMEBODY_ELSES = re.compile(
    r"^\s*(?:Traceback \(|File \"|\[|[WEI]\d{4} |={3,}|-{3,}|[A-Za-z_.]+Error\b|\s)"
)

LONGEST_REASON = 300
"""Characters."""


@functools.lru_cache(maxsize=1)
def may_name_a_cause(text: str) -> bool:
    """Return whether a line may name a cause; cached, since several readers ask for each line."""
    return has_sign(text, HINTS)


@functools.lru_cache(maxsize=1)
def _cause_in(text: str) -> tuple[str, str]:
    """Return the kind of cause that a line names, with its text or exit code; two empty strings for
    none.
    """
    if not may_name_a_cause(text):
        return "", ""
    if (code := _EXIT_CODE.search(text)) and "exitcode" not in text:
        return "exit code", code[1]
    bare = without_prefixes(text).strip()
    if _CHAINED.search(bare):
        return "chained", bare
    if (limit := _ASKED.search(bare)) and "{" not in bare:
        return "asked", limit[0]
    if _CONSEQUENCE.search(bare):
        return "", ""
    if _GRAVE.search(bare) and not bare.startswith(("File ", "raise ")):
        return "grave", bare
    if _SIGNAL.search(bare) and "{" not in bare:
        return "signal", bare
    if _REPORT.search(bare):
        return "report", bare
    # What is logged as a warning was caught.
    if (named := _EXCEPTION.match(bare)) and not _WARNED.search(
        text[: len(text) - len(bare) + named.start(1)]
    ):
        return "exception", bare[named.start(1) :]
    if named := _LEVELED.search(text):
        return "exception", text[named.start(1) :].strip()
    if _LOGGED.search(text):
        return ("logged", bare)
    return ("", "")


class FailureReasons:
    """Collects, line by line, what may have ended a training. Keeps a handful of lines at most.

    Attributes:
        exit_code: exit code of a launcher, or None.
        asked: the limit that the user asked for.
    """

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self.asked: Cause | None = None
        self._found: dict[str, tuple[int, str]] = {}
        self._chained = False
        self._closed = False
        self._open: str | None = None

    def feed(self, number: int, text: str) -> None:
        """Read a line, with or without prefixes."""
        if self._open is not None:
            self._continue(text)
        kind, words = _cause_in(text)
        if kind == "exit code":
            self.exit_code = int(words)
            if self.exit_code:
                self._found[kind] = number, f"the launcher exited with code {words}"
        elif kind == "asked":
            self.asked = Cause("stopped", words, number)
        elif kind == "chained":
            self._chained = True
        elif kind == "signal":
            # SignalException names the signal and the process; torchrun's warning before it
            # doesn't.
            self._keep(kind, number, words, replace="SignalException" in words)
        elif kind == "exception":
            # "A caused B caused C" is one failure, and C its end. Once another process prints its
            # failure, that of the first one is complete.
            self._closed = self._closed or ("exception" in self._found and not self._chained)
            self._keep(kind, number, words, replace=self._chained and not self._closed)
            self._chained = False
        elif kind:
            self._keep(kind, number, words, replace=kind == "logged")

    @property
    def is_empty(self) -> bool:
        """Whether no line has said anything."""
        return not (self._found or self._chained or self.asked) and self.exit_code is None

    @property
    def is_open(self) -> bool:
        """Whether the next line may go on with a message."""
        return self._open is not None

    def reason(self) -> str | None:
        """Return the cause with its line, or None if it is unknown."""
        cause = self.cause()
        if cause is None:
            return None
        return cause.sentence

    def cause(self) -> Cause | None:
        """Return what ended the training, or None if it is unknown."""
        found = self._found
        # A signal from outside that came before any exception is the cause of it.
        ended = sorted(
            (found[kind] for kind in ("exception", "signal") if kind in found),
            key=lambda each: each[0],
        )
        severe = next(filter(None, (found.get("grave"), *ended)), None)
        logged = found.get("logged")
        last = found.get("exit code") or found.get("report")
        if (
            severe is None
            and logged is not None
            and last is None
            and not _DECISIVE.search(logged[1])
        ):
            # Frameworks continue after most of the errors that they log.
            return Cause(None, logged[1], logged[0])
        if (cause := severe or logged or last) is None:
            return None
        return Cause("stopped" if _STOPPED.search(cause[1]) else "failed", cause[1], cause[0])

    def _keep(self, kind: str, number: int, text: str, *, replace: bool = False) -> None:
        if kind in self._found and not replace:
            return
        self._found[kind] = (number, redacted_start(text, LONGEST_REASON))
        self._open = kind

    def _continue(self, text: str) -> None:
        """Add the next line of a message of several lines."""
        kind = self._open
        self._open = None
        assert kind is not None
        number, message = self._found[kind]
        # A message that ends in a full stop or a colon may go on; a logger's prefix means another
        # speaker.
        bare = without_prefixes(text)
        if _LOGGER.search(text[: len(text) - len(bare)]) or _LOGGED.search(text):
            return
        if bare.strip() and not _SOMEBODY_ELSES.match(bare):
            self._found[kind] = (
                number,
                redacted_start(f"{message} {bare.strip()}", LONGEST_REASON),
            )
