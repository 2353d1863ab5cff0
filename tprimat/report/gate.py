"""Gate -> what a CI log and a pull request show: the answer first, then one table."""

from __future__ import annotations

from collections.abc import Iterator

from tprimat import units
from tprimat.compare.gate import SIDES, Check, Gate
from tprimat.report.blocks import Block, Content, Heading, Paragraph, Strong, Table, plain_bullets
from tprimat.report.markdown import text_of
from tprimat.text import plain

_WORDS = {
    "worse": "worse than allowed",
    "within": "within what is allowed",
    "can't tell": "can't tell with this many runs",
    "not comparable": "not comparable",
    "impossible": "rests on figures that can't be true",
}
_GRAVEST = ("impossible", "not comparable", "worse", "can't tell", "within")

_VERDICTS = {
    "worse": "Worse than allowed",
    "within": "Not worse than allowed",
    "can't tell": "Can't tell with this many runs",
    "not comparable": "Not comparable",
    "impossible": "The evidence can't be true",
}


def verdict(found: Gate) -> str:
    """The answer in one line, by the gravest check."""
    answers = [check.answer for check in found.checks]
    first = next(answer for answer in _GRAVEST if answer in answers)
    of = f" ({answers.count(first)} of {len(answers)} checks)" if len(answers) > 1 else ""
    return f"{_VERDICTS[first]}{of}."


def sentences(found: Gate) -> list[str]:
    """What came out of each check, the gravest first."""
    ordered = sorted(found.checks, key=lambda check: _GRAVEST.index(check.answer))
    return [_sentence(check) for check in ordered]


def console(found: Gate, *, width: int = 80, color: bool = False) -> str:
    """The gate as text, each line at most `width` wide."""
    import io

    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    stream = io.StringIO()
    out = Console(
        file=stream,
        width=max(width, 40),
        color_system="standard" if color else None,
        force_terminal=color,
        no_color=not color,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    out.print(Text(verdict(found), style="bold"))
    for text in sentences(found):
        out.print(Text(f"- {plain(text)}"))
    checks = [check for check in found.checks if check.values is not None]
    if checks:
        out.print()
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for index, title in enumerate(_HEADER):
            table.add_column(title, justify="left" if index == 0 else "right", overflow="fold")
        for check in checks:
            table.add_row(*(Text(plain(cell)) for cell in _cells(check)))
        out.print(table)
    for title, texts in (("But", _caveats(found)), ("Notes", list(found.notes))):
        if texts:
            out.print()
            out.print(Text(title, style="bold"))
            for text in texts:
                out.print(Text(f"- {plain(text)}"))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).rstrip("\n") + "\n"


def summary(found: Gate, command: str) -> bytes:
    """The gate as Markdown, for a pull request."""
    return text_of(_blocks(found, command)).encode()


_HEADER = ("", "baseline", "candidate", "change", "95 %", "allowed", "runs")


def _blocks(found: Gate, command: str) -> Iterator[Block]:
    yield Heading(3, f"Speed: {verdict(found)}")
    yield plain_bullets(sentences(found))
    rows: list[list[Content]] = [list(_cells(check)) for check in found.checks if check.values is not None]
    if rows:
        yield Table(_HEADER, rows)
    for title, texts in (("But:", _caveats(found)), ("Notes:", list(found.notes))):
        if texts:
            yield Paragraph(Strong(title))
            yield plain_bullets(texts)
    yield Paragraph(f"Made by: {command}")


def _caveats(found: Gate) -> list[str]:
    return list(dict.fromkeys(caveat for pair in found.pairs for caveat in pair.caveats))


def _sentence(check: Check) -> str:
    what = "" if check.allowance is None else f", {check.allowance.metric.title}"
    name = check.candidate or check.baseline
    sides = "" if name in (None, *SIDES) else f" ({name})"
    change = "" if check.change is None else f" {_change(check)}{_interval(check, ', 95 %: ')}"
    return f"{check.model}{sides}{what}: {_WORDS[check.answer]}:{change and f'{change};'} {check.text}."


def _cells(check: Check) -> tuple[str, ...]:
    assert check.allowance is not None
    assert check.values is not None
    metric = check.allowance.metric
    before, now = (_number(value) for value in check.values)
    return (
        f"{check.model}: {metric.title}, {metric.unit}",
        before,
        now,
        _change(check) if check.answer != "can't tell" else f"~ {_change(check)}",
        _interval(check, "") or units.UNKNOWN,
        str(check.allowance),
        f"{check.runs[0]}, {check.runs[1]}",
    )


def _change(check: Check) -> str:
    assert check.change is not None
    return _of(check, check.change)


def _of(check: Check, change: float) -> str:
    assert check.allowance is not None
    return f"{change - 1:+.1%}" if check.allowance.percent else f"{change:+.4g} {check.allowance.metric.unit}"


def _interval(check: Check, before: str) -> str:
    if check.low is None or check.high is None or check.low == check.high:
        return ""
    return f"{before}{_of(check, check.low)} to {_of(check, check.high)}"


def _number(value: float) -> str:
    return units.number(value, 0) if value >= 1000 else f"{value:.4g}"
