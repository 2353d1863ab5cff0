"""Gate -> what a CI log and a pull request show: the answer first, then one table."""

from __future__ import annotations

from collections.abc import Iterator

from tprimat import units
from tprimat.compare.gate import SIDES, Check, Gate
from tprimat.report.blocks import Block, Heading, Paragraph, Strong, Table, plain_bullets, titled_bullets
from tprimat.report.markdown import text_of
from tprimat.report.terminal import Terminal
from tprimat.text import plain

_WORDS = {
    "impossible": ("The evidence can't be true", "rests on figures that can't be true"),
    "not comparable": ("Not comparable", "not comparable"),
    "worse": ("Worse than allowed", "worse than allowed"),
    "can't tell": ("Can't tell with this many runs", "can't tell with this many runs"),
    "within": ("Not worse than allowed", "within what is allowed"),
}
"""How the whole and a single check are called by an answer, the gravest first."""

_HEADER = ("", "baseline", "candidate", "change", "95 %", "allowed", "runs")


def verdict(found: Gate) -> str:
    """The answer in one line, by the gravest check."""
    answers = [check.answer for check in found.checks]
    first = next(answer for answer in _WORDS if answer in answers)
    of = f" ({answers.count(first)} of {len(answers)} checks)" if len(answers) > 1 else ""
    return f"{_WORDS[first][0]}{of}."


def sentences(found: Gate) -> list[str]:
    """What came out of each check, the gravest first."""
    return [_sentence(check) for answer in _WORDS for check in found.checks if check.answer == answer]


def console(found: Gate, *, width: int = 80, color: bool = False) -> str:
    """The gate as text, each line at most `width` wide."""
    out = Terminal(width=width, color=color)
    out.line(verdict(found), "bold")
    for text in sentences(found):
        out.line(f"- {plain(text)}")
    if rows := _rows(found):
        out.line()
        out.table(_HEADER, rows)
    for title, texts in _remarks(found).items():
        out.line()
        out.line(title, "bold")
        for text in texts:
            out.line(f"- {plain(text)}")
    return out.text()


def summary(found: Gate, command: str) -> bytes:
    """The gate as Markdown, for a pull request."""
    return text_of(_blocks(found, command)).encode()


def _blocks(found: Gate, command: str) -> Iterator[Block]:
    yield Heading(3, f"Speed: {verdict(found)}")
    yield plain_bullets(sentences(found))
    if rows := _rows(found):
        yield Table(_HEADER, rows)
    for title, texts in _remarks(found).items():
        yield from titled_bullets(Strong(f"{title}:"), texts)
    yield Paragraph(f"Made by: {command}")


def _remarks(found: Gate) -> dict[str, list[str]]:
    caveats = list(dict.fromkeys(caveat for pair in found.pairs for caveat in pair.caveats))
    return {title: texts for title, texts in (("But", caveats), ("Notes", list(found.notes))) if texts}


def _sentence(check: Check) -> str:
    what = "" if check.allowance is None else f", {check.allowance.metric.title}"
    name = check.candidate or check.baseline
    sides = "" if name in (None, *SIDES) else f" ({name})"
    change = "" if check.change is None else f" {_amount(check, check.change)}{_interval(check, ', 95 %: ')};"
    return f"{check.model}{sides}{what}: {_WORDS[check.answer][1]}:{change} {check.text}."


def _rows(found: Gate) -> list[list[str]]:
    rows = []
    for check in found.checks:
        if check.allowance is None or check.values is None or check.change is None:
            continue
        metric = check.allowance.metric
        before, now = (units.number(value, 0) if value >= 1000 else f"{value:.4g}" for value in check.values)
        change = _amount(check, check.change)
        rows.append(
            [
                plain(f"{check.model}: {metric.title}, {metric.unit}"),
                before,
                now,
                change if check.answer != "can't tell" else f"~ {change}",
                _interval(check, "") or units.UNKNOWN,
                str(check.allowance),
                f"{check.runs[0]}, {check.runs[1]}",
            ]
        )
    return rows


def _amount(check: Check, change: float) -> str:
    assert check.allowance is not None
    return f"{change - 1:+.1%}" if check.allowance.percent else f"{change:+.4g} {check.allowance.metric.unit}"


def _interval(check: Check, before: str) -> str:
    if check.low is None or check.high is None or check.low == check.high:
        return ""
    return f"{before}{_amount(check, check.low)} to {_amount(check, check.high)}"
