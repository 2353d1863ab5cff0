"""RegressionCheck -> what a CI log and a pull request show: the answer first, then one table."""

from __future__ import annotations

from tprimat import units
from tprimat.analysis.intervals import level
from tprimat.compare.caveats import caveats
from tprimat.compare.regression import Answer, Check, RegressionCheck, runs_text
from tprimat.compare.speedup import RATE
from tprimat.errors import ExitStatus
from tprimat.report import markdown
from tprimat.report.blocks import Block, Document, Heading, Paragraph, Table, notes
from tprimat.text import plain

_WORDS: dict[Answer, tuple[str, str]] = {
    "implausible": ("Implausible result", "implausible"),
    "not comparable": ("Not comparable", "not compared"),
    "worse": ("Fail: regression", "FAIL"),
    "inconclusive": ("Inconclusive: more runs needed", "inconclusive"),
    "within": ("Pass", "pass"),
}
"""What the whole and a row of the table are called by an answer, the most severe first."""


def verdict(found: RegressionCheck) -> str:
    """Return the answer in one line, by the most severe check."""
    answers = [check.answer for check in found.checks]
    first = next(answer for answer in _WORDS if answer in answers)
    if len(answers) > 1:
        return f"{_WORDS[first][0]} ({answers.count(first)} of {len(answers)} checks)"
    (check,) = found.checks
    if check.threshold is None or check.change is None:
        return _WORDS[first][0]
    return f"{_WORDS[first][0]} ({_change(check)}, threshold {check.threshold}, {runs_text(check)})"


def _subject(found: RegressionCheck) -> list[str]:
    """Return the setup that is checked, where it is one, and what its intervals assume."""
    setups = {(check.model, check.baseline, check.candidate) for check in found.checks}
    assumed = any(check.method == "prediction" for check in found.checks)
    lines = [f"The {level()} CI assumes equal run-to-run variation."] if assumed else []
    if len(setups) > 1:
        return lines
    ((model, *names),) = setups
    systems = dict.fromkeys(_own_name(name) for name in names if name)
    return [": ".join([model, " vs ".join(reversed(systems))] if systems else [model]), *lines]


def _own_name(name: str | None) -> str:
    """Return a system's name without what it is in the check."""
    return (name or "").removesuffix(" (baseline)").removesuffix(" (candidate)")


def warnings(found: RegressionCheck) -> list[str]:
    """Return a line for each inconclusive check, and how to make CI fail by it."""
    lines = [f"warning: {_where(check)}: {check.text}" for check in found.checks if check.answer == "inconclusive"]
    if lines and found.status == ExitStatus.OK:
        lines.append("hint:  inconclusive ends with exit status 0, or 6 with --fail-on-inconclusive")
    return list(map(plain, lines))


def sentences(found: RegressionCheck) -> list[tuple[Check, str, str]]:
    """Return each check with the name of its answer and a sentence on it, the most severe first."""
    rows = []
    for answer, (title, _) in _WORDS.items():
        for check in (each for each in found.checks if each.answer == answer):
            basis = "" if check.change is None else f" (threshold {check.threshold}, {runs_text(check)})"
            rows.append((check, title, f"{_where(check)}{basis}: {check.text}"))
    return rows


def document(found: RegressionCheck) -> Document:
    """Return the check: the answer, what is checked, a row for each check with a change, and what is doubtful."""
    answer = Heading(3, verdict(found))
    screen: list[Block] = [answer, *map(Paragraph, (*_subject(found), *_reasons(found)))]
    header, *rows = _table(found)
    if rows:
        screen.append(Table(header, rows))
    screen += [Paragraph(text, "warning") for text in warnings(found)]
    for title, texts in _remarks(found).items():
        screen += notes(texts, title)
    return Document(screen, answer=[answer])


def summary(found: RegressionCheck, command: str) -> bytes:
    """Return the check as Markdown, for a pull request."""
    return markdown.write(Document(document(found).screen, [Paragraph(f"Command: {command}")])).encode()


def _remarks(found: RegressionCheck) -> dict[str, list[str]]:
    pairs = [pair for pair in found.pairs if pair.ratio]
    of_pairs = (each for pair in pairs for each in caveats((pair.baseline, pair.system), [pair]))
    texts = list(dict.fromkeys(caveat.text for caveat in of_pairs if caveat.severity == "warning"))
    return {title: each for title, each in (("Caveats", texts), ("Notes", list(found.notes))) if each}


def _reasons(found: RegressionCheck) -> list[str]:
    """Return why nothing was compared, the most severe first."""
    return [
        f"{_where(check)}: {plain(check.text)}"
        for answer in ("implausible", "not comparable")
        for check in found.checks
        if check.answer == answer
    ]


def _where(check: Check) -> str:
    name = _own_name(check.candidate or check.baseline)
    return f"{check.model}{f', {name}' if name else ''}{'' if check.change is None else f', {_change(check)}'}"


def _change(check: Check) -> str:
    """Return by how much the metric changed, with its name."""
    assert check.threshold is not None
    assert check.change is not None
    metric = check.threshold.metric
    unit = "" if check.threshold.percent else f" {metric.unit}"
    return f"{metric.title[0].lower()}{metric.title[1:]} {_amount(check, check.change)}{unit}"


def _table(found: RegressionCheck) -> list[list[str]]:
    """Return the header and a row for each check with a change; with several answers, in sections that have a title."""
    checks = [check for check in found.checks if check.change is not None]
    models = len({check.model for check in checks}) > 1
    runs = len({check.runs for check in checks}) > 1
    table = [["", "baseline", "candidate", "change", f"{level()} CI", "threshold", *(["runs"] if runs else [])]]
    for answer, (_, title) in _WORDS.items():
        rows = [_row(check, models=models, runs=runs) for check in checks if check.answer == answer]
        if rows and len(rows) < len(found.checks):
            table.append([f"{title}:", *[""] * (len(table[0]) - 1)])
        table += rows
    return table


def _row(check: Check, *, models: bool, runs: bool) -> list[str]:
    assert check.threshold is not None
    assert check.values is not None
    assert check.change is not None
    metric = check.threshold.metric
    name = metric.unit if metric.name == RATE else f"{metric.title}, {metric.unit}"
    interval = units.UNKNOWN
    if check.low is not None and check.high is not None and check.low != check.high:
        interval = f"{_amount(check, check.low).removesuffix('%')} … {_amount(check, check.high)}"
    return [
        plain(f"{check.model}: {name}" if models else name),
        *(units.number(value, 0) if value >= 1000 else f"{value:.4g}" for value in check.values),
        _amount(check, check.change),
        interval,
        str(check.threshold),
        *([f"{check.runs[0]}, {check.runs[1]}"] if runs else []),
    ]


def _amount(check: Check, change: float) -> str:
    """Return a change of the check's metric, or a bound of it; in percent with the same decimals for all three."""
    if check.threshold is None or not check.threshold.percent:
        return f"{change:+.3g}"
    values = (check.change, check.low, check.high)
    digits = 1 if max(abs(value - 1) for value in values if value is not None) >= 0.01 else 2
    return f"{change - 1:+.{digits}%}"
