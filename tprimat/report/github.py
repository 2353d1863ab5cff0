"""RegressionCheck -> workflow commands of GitHub Actions: one annotation per check, at the log or result it rests on.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from tprimat.compare.regression import Check, RegressionCheck
from tprimat.compare.result import RunResult
from tprimat.errors import TensorPrimatError, UnreadableError
from tprimat.report import regression
from tprimat.text import plain

_LEVELS = {"within": "notice", "inconclusive": "warning"}
"""Of an answer; the others are errors."""


def workflow_commands(found: RegressionCheck) -> list[str]:
    """Return a workflow command for each check, the most severe first, as GitHub shows ten of each level."""
    return [
        _command("error" if _fails(check, found) else _LEVELS[check.answer], title, text, _place(check, found))
        for check, title, text in regression.sentences(found)
    ]


def of_error(error: TensorPrimatError) -> str:
    """Return the workflow command for an error, at the file that it is about."""
    place = {"file": str(error.path)} if isinstance(error, UnreadableError) else {}
    return _command("error", "Error", error.message, place)


def _fails(check: Check, found: RegressionCheck) -> bool:
    return check.answer not in _LEVELS or (check.answer == "inconclusive" and found.fail_on_inconclusive)


def _place(check: Check, found: RegressionCheck) -> dict[str, str]:
    """Return the log of the candidate's first run, with the line of its first steady step; of a live run the result."""
    systems = (pair.system for pair in found.pairs if pair.system.name == check.candidate)
    results: tuple[RunResult, ...] = next((each.valid_runs or each.runs for each in systems), ())
    if not results:
        return {}
    run, first = results[0].run, results[0].summary.steady.first_step
    logs = run.source.files if run.source else ()
    line = run.lines[run.steps.index(first)] if logs and first in run.steps else None
    return {"file": logs[0].path if logs else results[0].file, **({"line": str(line)} if line else {})}


def _command(level: str, title: str, text: str, place: dict[str, str]) -> str:
    """Return one line. The text comes from results and logs: it must neither end the line nor add a property."""
    properties = {"title": title, **place}
    shown = ",".join(
        f"{name}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}" for name, value in properties.items()
    )
    return f"::{level} {shown}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
