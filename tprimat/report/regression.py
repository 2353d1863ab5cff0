"""RegressionCheck -> the text for a CI log and a pull request: the answer first, then one table."""

from __future__ import annotations

from collections.abc import Iterator

from tprimat import units
from tprimat.analysis.intervals import level
from tprimat.compare import Group, Pair, RunResult
from tprimat.compare.caveats import caveats
from tprimat.compare.regression import (
    MORE_OF_BASELINE,
    MORE_OF_CANDIDATE,
    Answer,
    Check,
    RegressionCheck,
)
from tprimat.compare.result import RATE, SAMPLES_RATE
from tprimat.compare.setting_caveats import shown_settings
from tprimat.compare.systems import short_device
from tprimat.compare.threshold import LOSS
from tprimat.errors import ExitStatus
from tprimat.notes import SYSTEM, TEXT, Note, noted
from tprimat.notes.catalogue import safe_sentences, sentence, words
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
from tprimat.text import counted, plain

MOST_NOTES, MOST_CAVEATS, MOST_ROWS = 2, 3, 4
"""Most notes or reasons, caveats, and rows of the table on the first screen; --verbose shows
all.
"""

_WORDS = {
    "implausible": ("Implausible result", "implausible"),
    "not comparable": ("Not comparable", "not compared"),
    "worse": ("Fail: regression", "FAIL"),
    "inconclusive": ("Inconclusive: too uncertain to decide", "inconclusive"),
    "within": ("Pass", "pass"),
}
"""The title of the whole check and that of a row of the table, by answer, the most severe first."""


def _lead(found: RegressionCheck) -> Check:
    """Return the check that the headline is about: the first regression, which nothing may hide; if
    there is none, the first one with the most severe answer.
    """
    for answer in ("worse", *_WORDS):
        for check in found.checks:
            if check.answer == answer:
                return check
    raise ValueError("nothing is checked")


def verdict(found: RegressionCheck) -> str:
    """Return the answer in one line: the regression with its change, and why other checks fail; or
    the most severe answer.
    """
    check = _lead(found)
    title = _WORDS[check.answer][0]
    if len(found.checks) == 1:
        if check.doubts and check.notes == check.doubts:
            title = "Inconclusive: not every run is usable"
        if check.threshold is None or check.change is None:
            return title
        return f"{title} ({_change(check)}, threshold {check.threshold}, {_runs_text(check)})"
    alike = [other for other in found.checks if other.answer == check.answer]
    text = f"{title} ({len(alike)} of {len(found.checks)} checks)"
    if check.answer == "worse":
        for failed in found.checks:
            if failed.answer in ("implausible", "not comparable"):
                text += f": {_change(check)}, threshold {check.threshold}"
                return f"{text}; {_WORDS[failed.answer][1]}: {sentence(failed.notes)}"
    return text


def _setups(found: RegressionCheck) -> set[tuple[str, str | None, str | None]]:
    return {(check.model, check.baseline, check.candidate) for check in found.checks}


def _subject(found: RegressionCheck) -> list[str]:
    """Return the setup that is checked, if there is only one, and what the intervals assume."""
    lines = []
    setups = _setups(found)
    if len(setups) == 1:
        ((model, baseline, candidate),) = setups
        systems = dict.fromkeys(_own_name(name) for name in (candidate, baseline) if name)
        lines.append(": ".join(filter(None, [model, " vs ".join(systems)])))
    if any(check.method == "prediction" for check in found.checks):
        lines.append(f"The {level()} CI assumes equal run-to-run variation.")
    return lines


def _own_name(name: str | None) -> str:
    """Return a system's name without its role in the check."""
    return (name or "").removesuffix(" (baseline)").removesuffix(" (candidate)")


def warnings(found: RegressionCheck) -> list[str]:
    """Return a line for each inconclusive check, and how to make CI fail because of it."""
    return [*(f"warning: {text}" for text in _reasons(found, "inconclusive")), *_hints(found)]


def _hints(found: RegressionCheck) -> list[str]:
    is_open = any(check.answer == "inconclusive" for check in found.checks)
    if is_open and found.status == ExitStatus.OK:
        return ["hint:  an inconclusive check exits with status 0 (6 with --fail-on-inconclusive)"]
    return []


def sentences(found: RegressionCheck) -> Iterator[tuple[Check, str, str]]:
    """Yield each check with the title of its answer and a sentence, the most severe first."""
    for answer, (title, _) in _WORDS.items():
        for check in found.checks:
            if check.answer == answer:
                text = _where(check)
                if check.change is not None:
                    text += f" (threshold {check.threshold}, {_runs_text(check)})"
                yield check, title, f"{text}: {sentence(check.notes)}"


def next_step(found: RegressionCheck) -> str:
    """Return the next step for the check of the headline, with the commands that measured the
    systems that it is for.
    """
    step = advice(found)
    results: list[RunResult] = []
    for pair in found.pairs:
        if step.code != MORE_OF_CANDIDATE:
            results += pair.baseline.runs
        if step.code != MORE_OF_BASELINE:
            results += pair.system.runs
    return recommendations.for_runs(words(step), results)


def advice(found: RegressionCheck) -> Note:
    """Return the next step for the check of the headline, without the commands of its runs."""
    check = _lead(found)
    pair = check.pair
    if pair is not None and check.change is not None:
        of_pair = caveats((pair.baseline, pair.system), [pair])
        if any(caveat.code == "unlike-sessions" for caveat in of_pair):
            return Note("compare-one-program")
    if check.advice is not None or pair is None:
        return check.advice or Note(TEXT, {"text": ""})
    if check.answer in ("implausible", "not comparable"):
        return _mending(pair)
    if check.answer == "within":
        if found.is_partial:
            return Note("pass-readable-files")
        return Note("keep-as-next-baseline")
    if check.threshold and check.threshold.metric.name == LOSS:
        return Note("compare-losses")
    if changed := tuple(_changes(pair)):
        return Note("measure-with-changes", {"changed": changed})
    return Note("profile-both")


def _mending(pair: Pair) -> Note:
    """Return what would make two systems comparable."""
    systems = (pair.baseline, pair.system)
    for system in systems:
        if system.has_failed:
            return Note("repeat-runs-of-system", {SYSTEM: _own_name(system.name)})
    steps = recommendations.next_steps(Group(systems, pair.baseline, (pair,), ()))
    if steps:
        return Note(TEXT, {"text": steps[0]})
    return Note("measure-same-workload")


def document(found: RegressionCheck) -> Document:
    """Return the document: the answer, the setup, a row for each check with a change, caveats, and
    the next step.
    """
    answer = Heading(3, verdict(found))
    screen: list[Block] = [answer, *map(Paragraph, _subject(found))]
    failing: tuple[Answer, ...] = ("implausible", "not comparable", "inconclusive")
    reasons = _reasons(found, *failing, is_named=len(_setups(found)) == 1)
    screen += notes(reasons, marks="", most=MOST_NOTES)
    header, *rows = _table(found)
    if rows:
        screen.append(Table(header, rows, most=MOST_ROWS))
    bases = noted(check.basis for check in found.checks if check.basis)
    screen += [Paragraph(f"{basis}.", DETAIL) for basis in safe_sentences(bases)]
    screen += [Paragraph(text, "warning") for text in _hints(found)]
    screen += notes(caveat_texts(found), "Caveats", "!", MOST_CAVEATS)
    screen += [
        NextSteps([next_step(found)]),
        *notes(safe_sentences(found.notes), "Notes", most=MOST_NOTES),
    ]
    return Document(screen, answer=[answer])


def summary(found: RegressionCheck, command: str) -> bytes:
    """Return the check as Markdown, for a pull request."""
    return markdown.write(
        Document(document(found).screen, [Paragraph(f"Command: {command}")])
    ).encode()


def _changes(matched: Pair) -> dict[str, Note]:
    """Return what changed besides the program (GPU, driver, precision), each with a note that has
    both values.
    """
    before = matched.baseline.gpu
    after = matched.system.gpu
    values = [("GPU", before and short_device(before), after and short_device(after))]
    for entry in matched.config_diff.of("different"):
        if entry.title in ("driver", "precision"):
            values.append((entry.title, *entry.values))
    changed = {}
    for title, old, new in values:
        if old and new and old != new:
            changed[title] = Note("changed", {"what": title, "before": old, "after": new})
    return changed


def caveat_texts(found: RegressionCheck) -> list[str]:
    """Return texts on what could explain a change, or hide one, besides the program."""
    return list(map(sentence, caveat_codes(found)))


def caveat_codes(found: RegressionCheck) -> list[tuple[Note, ...]]:
    """Return the notes from which caveat_texts() makes its texts, one tuple for each text."""
    texts: dict[str, tuple[Note, ...]] = {}
    for check in found.checks:
        pair = check.pair
        if pair is None or check.change is None:
            continue
        untold = {"precision-differs"}
        # An unknown precision can't explain a difference that there isn't.
        is_worse = any(other.answer == "worse" for other in found.checks if other.pair is pair)
        if pair.ratio and pair.ratio.is_significant is False and not is_worse:
            untold.add("precision-unknown")
        warned = []
        told: set[str] = set()
        for caveat in caveats((pair.baseline, pair.system), [pair]):
            if caveat.severity == "warning" and caveat.code not in untold:
                warned.append(caveat.notes)
                for note in caveat.notes:
                    told |= shown_settings(note)
        changed = []
        for title, note in _changes(pair).items():
            if title not in told:
                changed.append((note,))
        for notes_of_text in (*changed, *warned):
            texts.setdefault(sentence(notes_of_text), notes_of_text)
    return list(texts.values())


def _reasons(found: RegressionCheck, *answers: Answer, is_named: bool = False) -> Iterator[str]:
    """Yield the reasons of the checks with these answers, in this order; without the setup if
    `is_named`, since it is shown above them then.
    """
    for answer in answers:
        for check in found.checks:
            if check.answer == answer:
                why = sentence(check.notes)
                yield plain(": ".join(filter(None, (_where(check, is_named=is_named), why))))


def _where(check: Check, *, is_named: bool = False) -> str:
    parts = []
    if not is_named:
        parts += [check.model, _own_name(check.candidate or check.baseline)]
    if check.change is not None:
        parts.append(_change(check))
    return ", ".join(filter(None, parts))


def _runs_text(check: Check) -> str:
    """Return the numbers of runs that a check compares."""
    first, second = check.runs
    if first == second:
        return f"{counted(first, 'run')} each"
    return f"{first} baseline and {second} candidate runs"


def _change(check: Check) -> str:
    assert check.threshold is not None
    assert check.change is not None
    metric = check.threshold.metric
    unit = "" if check.threshold.percent else f" {metric.unit}"
    return f"{metric.title[0].lower()}{metric.title[1:]} {_amount(check, check.change)}{unit}"


def _table(found: RegressionCheck) -> list[list[str]]:
    """Return the header and a row for each check with a change; if the answers differ, in titled
    sections.
    """
    checks = [check for check in found.checks if check.change is not None]
    has_models = len({check.model for check in checks}) > 1
    has_runs = len({check.runs for check in checks}) > 1
    header = ["", "baseline", "candidate", "change", f"{level()} CI", "threshold"]
    if has_runs:
        header.append("runs")
    table = [header]
    for answer, (_, title) in _WORDS.items():
        rows = []
        for check in checks:
            if check.answer == answer:
                row = _row(check, has_model=has_models)
                if has_runs:
                    row.append(f"{check.runs[0]}, {check.runs[1]}")
                rows.append(row)
        if rows and len(rows) < len(found.checks):
            table.append([f"{title}:", *[""] * (len(header) - 1)])
        table += rows
    return table


def _row(check: Check, *, has_model: bool) -> list[str]:
    assert check.threshold is not None
    assert check.values is not None
    assert check.change is not None
    metric = check.threshold.metric
    name = metric.unit
    if metric.name not in (RATE, SAMPLES_RATE):
        name = f"{metric.title}, {name}"
    if has_model:
        name = f"{check.model}: {name}"
    row = [plain(name)]
    for value in check.values:
        row.append(units.number(value, 0) if value >= 1000 else f"{value:.4g}")
    interval = units.UNKNOWN
    if check.low is not None and check.high is not None and check.low != check.high:
        interval = f"{_amount(check, check.low).removesuffix('%')} … {_amount(check, check.high)}"
    return [*row, _amount(check, check.change), interval, str(check.threshold)]


def _amount(check: Check, change: float) -> str:
    """Return a change of the check's metric, or a bound of its interval, as text. In percent, all
    three have the same number of decimals.

    +0.31% [+0.12%, +0.50%] has two decimals, +4.1% [+3.2%, +5.0%] has one.
    """
    if check.threshold is None or not check.threshold.percent:
        return f"{change:+.3g}"
    digits = 2
    for value in (check.change, check.low, check.high):
        if value is not None and abs(value - 1) >= 0.01:
            digits = 1
    return f"{change - 1:+.{digits}%}"
