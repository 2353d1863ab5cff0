"""RegressionCheck -> workflow commands of GitHub Actions: one annotation per check, at the log or
result it rests on.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from tprimat.compare.regression import Check, RegressionCheck
from tprimat.errors import TensorPrimatError, UnreadableError
from tprimat.report import regression
from tprimat.text import plain


def workflow_commands(found: RegressionCheck) -> list[str]:
    """Return a workflow command for each check, the most severe first, as GitHub shows ten of each
    level.
    """
    levels = {
        "within": "notice",
        "inconclusive": "error" if found.fail_on_inconclusive else "warning",
    }
    return [
        _command(levels.get(check.answer, "error"), title, text, _place(check))
        for check, title, text in regression.sentences(found)
    ]


def of_error(error: TensorPrimatError) -> str:
    """Return the workflow command for an error, at the file that it is about."""
    place = {"file": str(error.path)} if isinstance(error, UnreadableError) else {}
    return _command("error", "Error", error.message, place)


def _place(check: Check) -> dict[str, str]:
    """Return the log of the candidate's first run, with the line of its first steady step; of a
    live run the result.

    If the baseline alone is excluded, as its values can't be true, it is the baseline's.
    """
    if check.pair is None:
        return {}
    is_baseline = check.pair.baseline.exclusion is not None and check.pair.system.exclusion is None
    side = check.pair.baseline if is_baseline else check.pair.system
    results = side.valid_runs or side.runs
    run = results[0].run
    first = results[0].summary.steady.first_step
    logs = run.source.files if run.source else ()
    line = run.lines[run.steps.index(first)] if logs and first in run.steps else None
    return {
        "file": logs[0].path if logs else results[0].file,
        **({"line": str(line)} if line else {}),
    }


def _command(level: str, title: str, text: str, place: dict[str, str]) -> str:
    """Return one line. The text comes from results and logs: it must neither end the line nor add a
    property.
    """
    properties = {"title": title, **place}
    shown = ",".join(
        f"{name}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
    )
    return f"::{level} {shown}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
