"""RegressionCheck -> workflow commands of GitHub Actions: one annotation per check, at the log or
result with its evidence.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from tprimat.compare.regression import Check, RegressionCheck
from tprimat.errors import TensorPrimatError, UnreadableError
from tprimat.report import regression
from tprimat.text import plain


def workflow_commands(found: RegressionCheck) -> list[str]:
    """Return a workflow command for each check, the most severe first, since GitHub shows only ten
    of each level.
    """
    levels = {"within": "notice", "inconclusive": "warning"}
    if found.fail_on_inconclusive:
        levels["inconclusive"] = "error"
    commands = []
    for check, title, text in regression.sentences(found):
        commands.append(_command(levels.get(check.answer, "error"), title, text, _place(check)))
    return commands


def of_error(error: TensorPrimatError) -> str:
    """Return the workflow command for an error, at the file that it is about."""
    location = {"file": str(error.path)} if isinstance(error, UnreadableError) else {}
    return _command("error", "Error", error.message, location)


def _place(check: Check) -> dict[str, str]:
    """Return the log of the candidate's first run, with the line of its first steady step; for a
    live run, its result file.

    If only the baseline is excluded because its values can't be true, the place is in the
    baseline's files.
    """
    if check.pair is None:
        return {}
    system = check.pair.system
    if system.exclusion is None and check.pair.baseline.exclusion is not None:
        system = check.pair.baseline
    result = (system.valid_runs or system.runs)[0]
    run = result.run
    if not run.source or not run.source.files:
        return {"file": result.file}
    location = {"file": run.source.files[0].path}
    first = result.summary.steady.first_step
    if first in run.steps:
        line = run.lines[run.steps.index(first)]
        if line:
            location["line"] = str(line)
    return location


def _command(level: str, title: str, text: str, place: dict[str, str]) -> str:
    """Return one command as one line. The text comes from results and logs, so it is escaped: it
    must neither end the line nor add a property.
    """
    properties = []
    for name, value in {"title": title, **place}.items():
        properties.append(f"{name}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}")
    return f"::{level} {','.join(properties)}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
