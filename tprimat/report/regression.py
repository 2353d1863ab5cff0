"""RegressionCheck -> what a CI log and a pull request show: the answer first, then one table."""

from __future__ import annotations

from collections.abc import Sequence

from tprimat import units
from tprimat.analysis.intervals import level
from tprimat.compare import Group, Pair, RunResult
from tprimat.compare.caveats import caveats
from tprimat.compare.regression import Answer, Check, RegressionCheck, runs_text
from tprimat.compare.result import RATE, SAMPLES_RATE
from tprimat.compare.systems import short_device
from tprimat.compare.threshold import LOSS
from tprimat.errors import ExitStatus
from tprimat.report import markdown, recommendations
from tprimat.report.blocks import (
    DETAIL,
    Block,
    Document,
    Heading,
    NextSteps,
    Paragraph,
    Table,
    notes,
)
from tprimat.text import join_names, plain

MOST_NOTES, MOST_CAVEATS, MOST_ROWS = 2, 3, 4
"""Notes or reasons, caveats, and rows of the table, on the first screen; --verbose has all."""

_WORDS = {
    "implausible": ("Implausible result", "implausible"),
    "not comparable": ("Not comparable", "not compared"),
    "worse": ("Fail: regression", "FAIL"),
    "inconclusive": ("Inconclusive: too uncertain to decide", "inconclusive"),
    "within": ("Pass", "pass"),
}
"""What the whole and a row of the table are called by an answer, the most severe first."""


def _lead(found: RegressionCheck) -> Answer:
    """Return the answer of the headline: a regression, which nothing may hide, or the most
    severe.
    """
    answers = {check.answer for check in found.checks}
    if "worse" in answers:
        return "worse"
    return next(answer for answer in _WORDS if answer in answers)


def verdict(found: RegressionCheck) -> str:
    """Return the answer in one line: a regression with its change, and why other checks fail; or
    the most severe.
    """
    answers = [check.answer for check in found.checks]
    first = _lead(found)
    if len(answers) > 1:
        text = f"{_WORDS[first][0]} ({answers.count(first)} of {len(answers)} checks)"
        failed = [
            check for check in found.checks if check.answer in ("implausible", "not comparable")
        ]
        if first != "worse" or not failed:
            return text
        check = next(check for check in found.checks if check.answer == first)
        return (
            f"{text}: {_change(check)}, threshold {check.threshold}; {_WORDS[failed[0].answer][1]}:"
            f" {failed[0].text}"
        )
    (check,) = found.checks
    if check.text and check.text == check.doubt:
        title = "Inconclusive: not every run is usable"
    else:
        title = _WORDS[first][0]
    if check.threshold is None or check.change is None:
        return title
    return f"{title} ({_change(check)}, threshold {check.threshold}, {runs_text(check)})"


def _setups(found: RegressionCheck) -> set[tuple[str, str | None, str | None]]:
    return {(check.model, check.baseline, check.candidate) for check in found.checks}


def _subject(found: RegressionCheck) -> list[str]:
    """Return the setup that is checked, if it is one, and what its intervals assume."""
    setups = _setups(found)
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
    return [*(f"warning: {text}" for text in _reasons(found, "inconclusive")), *_hints(found)]


def _hints(found: RegressionCheck) -> list[str]:
    is_passed = found.status == ExitStatus.OK and any(
        check.answer == "inconclusive" for check in found.checks
    )
    if is_passed:
        return ["hint:  an inconclusive check exits with status 0 (6 with --fail-on-inconclusive)"]
    return []


def sentences(found: RegressionCheck) -> list[tuple[Check, str, str]]:
    """Return each check with the name of its answer and a sentence on it, the most severe first."""
    rows = []
    for answer, (title, _) in _WORDS.items():
        for check in (check for check in found.checks if check.answer == answer):
            if check.change is None:
                basis = ""
            else:
                basis = f" (threshold {check.threshold}, {runs_text(check)})"
            rows.append((check, title, f"{_where(check)}{basis}: {check.text}"))
    return rows


def next_step(found: RegressionCheck) -> str:
    """Return the next step, by the check of the headline, with the commands that measured what it
    is for.
    """
    text = _next_step(found)
    rivals = []
    for pair in found.pairs:
        rivals += [(pair.baseline, "candidate"), (pair.system, "baseline")]
    results: list[RunResult] = []
    for system, other in rivals:
        if f"{other} runs" not in text:
            results += system.runs
    return recommendations.for_runs(text, results)


def _next_step(found: RegressionCheck) -> str:
    check = next(check for check in found.checks if check.answer == _lead(found))
    pairs = [check.pair] if check.pair and check.change is not None else []
    if any(
        caveat.code == "unlike-sessions"
        for pair in pairs
        for caveat in caveats((pair.baseline, pair.system), pairs)
    ):
        return "compare runs of one program only: record each in a new directory"
    if check.advice or check.pair is None:
        return check.advice
    systems = (check.pair.baseline, check.pair.system)
    if check.answer in ("implausible", "not comparable"):
        if failed := [system for system in systems if system.has_failed]:
            return f"repeat the runs of {_own_name(failed[0].name)}: ./benchmark.py --retry-failed"
        steps = recommendations.next_steps(Group(systems, systems[0], (check.pair,), ()))
        return next(iter(steps), "measure the same workload twice: ./benchmark.py --match RESULT")
    if check.answer == "within":
        kept = "keep the candidate's results as the next baseline"
        if found.is_partial:
            return "pass files that can be read: not all of them could be"
        return kept
    if check.threshold and check.threshold.metric.name == LOSS:
        return "compare the loss curves in the report: ./compare_results.py BASELINE CANDIDATE"
    if changed := list(_changes(check.pair)):
        return (
            f"measure the baseline with the candidate's {join_names(changed)}, so that only the"
            " program differs"
        )
    return (
        "find the cause: profile both with ./benchmark.py --profile torch, then compare with"
        " tprimat explain"
    )


def document(found: RegressionCheck) -> Document:
    """Return the check: the answer, what is checked, a row for each check with a change, doubts,
    and what to do now.
    """
    answer, (header, *rows) = Heading(3, verdict(found)), _table(found)
    screen: list[Block] = [answer, *map(Paragraph, _subject(found))]
    reasons = _reasons(
        found, "implausible", "not comparable", "inconclusive", is_named=len(_setups(found)) == 1
    )
    screen += notes(reasons, marks="", most=MOST_NOTES)
    screen += [Table(header, rows, most=MOST_ROWS)] if rows else []
    screen += [
        Paragraph(text, DETAIL)
        for text in dict.fromkeys(check.basis for check in found.checks)
        if text
    ]
    screen += [Paragraph(text, "warning") for text in _hints(found)]
    screen += notes(caveat_texts(found), "Caveats", "!", MOST_CAVEATS)
    screen += [NextSteps([next_step(found)]), *notes(found.notes, "Notes", most=MOST_NOTES)]
    return Document(screen, answer=[answer])


def summary(found: RegressionCheck, command: str) -> bytes:
    """Return the check as Markdown, for a pull request."""
    return markdown.write(
        Document(document(found).screen, [Paragraph(f"Command: {command}")])
    ).encode()


def _changes(matched: Pair) -> dict[str, str]:
    """Return what changed below the program: GPU, driver, precision, each with a text that has both
    values.
    """
    values: dict[str, Sequence[str | None]] = {
        "GPU": [
            system.gpu and short_device(system.gpu) for system in (matched.baseline, matched.system)
        ]
    }
    entries = matched.config_diff.of("different")
    values |= {
        entry.title: entry.values for entry in entries if entry.title in ("driver", "precision")
    }
    return {
        title: f"{title} changed: {before} → {after}"
        for title, (before, after) in values.items()
        if before and after and before != after
    }


def caveat_texts(found: RegressionCheck) -> list[str]:
    """Return what could explain a change, or hide one, besides the program."""
    texts: dict[str, None] = {}
    for pair in (check.pair for check in found.checks if check.pair and check.change is not None):
        every = caveats((pair.baseline, pair.system), [pair])
        untold = {"precision-differs"}
        # An unknown precision can't explain a difference that there isn't.
        is_worse = any(check.answer == "worse" and check.pair is pair for check in found.checks)
        if pair.ratio and pair.ratio.is_significant is False and not is_worse:
            untold.add("precision-unknown")
        warned = []
        for each in every:
            if each.severity == "warning" and each.code not in untold:
                warned.append(each.text)
        own = (
            text
            for title, text in _changes(pair).items()
            if not any(f"{title}: " in each for each in warned)
        )
        texts |= dict.fromkeys((*own, *warned))
    return list(texts)


def _reasons(found: RegressionCheck, *answers: Answer, is_named: bool = False) -> list[str]:
    """Return why checks have these answers, in their order; without the setup if it is named above
    them.
    """
    checks = [check for answer in answers for check in found.checks if check.answer == answer]
    return [
        plain(": ".join(filter(None, (_where(check, is_named=is_named), check.text))))
        for check in checks
    ]


def _where(check: Check, *, is_named: bool = False) -> str:
    setup = () if is_named else (check.model, _own_name(check.candidate or check.baseline))
    return ", ".join(filter(None, (*setup, None if check.change is None else _change(check))))


def _change(check: Check) -> str:
    assert check.threshold is not None
    assert check.change is not None
    metric = check.threshold.metric
    unit = "" if check.threshold.percent else f" {metric.unit}"
    return f"{metric.title[0].lower()}{metric.title[1:]} {_amount(check, check.change)}{unit}"


def _table(found: RegressionCheck) -> list[list[str]]:
    """Return the header and a row for each check with a change; with several answers, in sections
    that have a title.
    """
    checks = [check for check in found.checks if check.change is not None]
    models = len({check.model for check in checks}) > 1
    runs = len({check.runs for check in checks}) > 1
    table = [
        [
            "",
            "baseline",
            "candidate",
            "change",
            f"{level()} CI",
            "threshold",
            *(["runs"] if runs else []),
        ]
    ]
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
    name = metric.unit if metric.name in (RATE, SAMPLES_RATE) else f"{metric.title}, {metric.unit}"
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
    """Return a change of the check's metric, or a bound of it; in percent with the same decimals
    for all three.
    """
    if check.threshold is None or not check.threshold.percent:
        return f"{change:+.3g}"
    values = (check.change, check.low, check.high)
    digits = 1 if max(abs(value - 1) for value in values if value is not None) >= 0.01 else 2
    return f"{change - 1:+.{digits}%}"
