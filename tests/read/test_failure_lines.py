"""Which kind of cause a line names, and which of several is told."""

from __future__ import annotations

import pytest

from tprimat.read.parsing import failures
from tprimat.read.parsing.failures import FailureReasons


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("nothing", "", ""),
        ("it finished", "", ""),
        ("torchrun exited with code 7", "exit code", "7"),
        ("exited with code 7 exitcode 3", "", ""),
        ("tasks finished on a (code 3", "exit code", "3"),
        ("During handling of the above exception, another exception occurred:", "chained",
         "During handling of the above exception, another exception occurred:"),
        ("torch.ChildFailedError: x", "report", "torch.ChildFailedError: x"),
        ("7: torch.OutOfMemoryError: x", "grave", "torch.OutOfMemoryError: x"),
        ('  File "a.py", line 3, in OutOfMemoryError', "", ""),
        ("  raise torch.OutOfMemoryError(x)", "", ""),
        ("raise_for torch.OutOfMemoryError(x)", "grave", "raise_for torch.OutOfMemoryError(x)"),
        ("Received 15 death signal", "signal", "Received 15 death signal"),
        ('f"Process {os.getpid()} got signal: 15"', "", ""),
        ("a.ValueError: x", "exception", "a.ValueError: x"),
        ("KeyboardInterrupt", "exception", "KeyboardInterrupt"),
        ("a ValueError: x", "", ""),
        ("[ERROR] bad", "logged", "[ERROR] bad"),
        ("[WARNING] no Error", "", ""),
        ("ERROR bad", "logged", "ERROR bad"),
    ],
)  # fmt: skip
def test_a_line(text, kind, found):
    assert failures._cause_in(text) == (kind, found)
    assert failures.may_name_a_cause(text) or kind == ""


def reasons(*lines: str) -> FailureReasons:
    made = FailureReasons()
    for number, text in enumerate(lines, 5):
        made.feed(number, text)
    return made


A, B, C = "ValueError: a", "KeyError: b", "TypeError: c"
CHAIN = "The above exception was the direct cause of the following exception:"
GRAVE, SIGNAL, LOGGED = "Bus error", "Received 15 death signal", "[ERROR] d"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], None),
        ([A, B], "line 5: ValueError: a"),
        ([A, CHAIN, B], "line 7: KeyError: b"),
        ([A, CHAIN, B, CHAIN, C], "line 9: TypeError: c"),
        # Once another process tells its own, the first one's chain is over.
        ([A, B, CHAIN, C], "line 5: ValueError: a"),
        ([A, CHAIN, B, C, CHAIN, A], "line 7: KeyError: b"),
        ([CHAIN, A, B], "line 6: ValueError: a"),
        ([A, GRAVE], "line 6: Bus error"),
        ([GRAVE, "", "Segmentation fault"], "line 5: Bus error"),
        ([A, "", SIGNAL], "line 5: ValueError: a"),
        ([SIGNAL, A], "line 5: Received 15 death signal"),
        ([SIGNAL, "", "Received 9 death signal"], "line 5: Received 15 death signal"),
        (
            [SIGNAL, "SignalException: Process 3 got signal: 15"],
            "line 6: SignalException: Process 3 got signal: 15",
        ),
        ([LOGGED, A], "line 6: ValueError: a"),
        ([LOGGED, "[ERROR] e"], "line 6: [ERROR] e"),
        (["exited with code 3"], "line 5: the launcher exited with code 3"),
        (["exited with code 0"], None),
        (["exited with code 3", "exited with code 4"], "line 6: the launcher exited with code 4"),
        ([A, "exited with code 3"], "line 5: ValueError: a exited with code 3"),
        # The line behind a message may go on with it; the one behind that doesn't.
        ([A, "more", "and more"], "line 5: ValueError: a more"),
        ([A, "  more"], "line 5: ValueError: a"),
        ([A, "[x] more"], "line 5: ValueError: a"),
        ([A, "", "more"], "line 5: ValueError: a"),
        ([A, LOGGED], "line 5: ValueError: a"),
        # A logger's prefix is another speaker, but the same words within a message are its own.
        ([A, "[rank-3/8] more"], "line 5: ValueError: a"),
        ([A, "[20260511 02:17:24][rank-3/8][INFO ] [---x.py:7] : more"], "line 5: ValueError: a"),
        ([A, "more of [rank-3/8]"], "line 5: ValueError: a more of [rank-3/8]"),
        (["ValueError: " + "x" * 400], "line 5: ValueError: " + "x" * 287 + "…"),
        (
            ["ValueError: " + "x" * 280, "more and more"],
            "line 5: ValueError: " + "x" * 280 + " more …",
        ),
    ],
)
def test_the_cause_of_several(lines, reason):
    assert reasons(*lines).reason() == reason


def test_whether_a_message_may_go_on():
    assert [reasons(*lines).is_open for lines in ([], [A], [A, "more"], [A, B])] == [
        False,
        True,
        False,
        False,
    ]
    assert reasons("exited with code 3").exit_code == 3
    assert reasons().exit_code is None
