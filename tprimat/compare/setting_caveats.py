"""Caveats about the settings of systems: precision, sources of values, timers, batches, tuning, and
differences.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from tprimat import units
from tprimat.checks import Severity
from tprimat.compare import one_text
from tprimat.compare.one_text import UNLIKE_TOKENS, logged_tokens
from tprimat.compare.result import PRINTED_RATES, Caveat, Pair, SystemResult, Unit
from tprimat.compare.speedup import kind_of_device
from tprimat.notes import Note, NoteValue, about
from tprimat.results.fields import COMPILE_TIME
from tprimat.results.run import FROM_DESCRIPTION
from tprimat.settings.rows import LEDGER, NOT_CONFIGURED
from tprimat.text import counted, join_names, plain

TIME_NOTES = (
    "steps-beyond-run",
    "blocks-too-slow",
    "read-otherwise",
    "early-block-ends",
    "steps-outside-blocks",
    "whole-run-mean",
)
"""Codes of notes on how a log's time was read."""

LONGEST_CLAUSE = 44
"""Most characters of the scope of a step timer."""

LONGEST_VALUE = 60
"""Most characters of a value of a setting."""

LONGEST_LIST, LONGEST_NOTE = 78, 48
"""Most characters of the settings that differ, in a warning and in a caveat of severity info: each
is one line of a screen. The latter has values only where they are short.
"""

MOST_VALUES = 4
"""Most values of one setting."""

SCOPES = {
    "data wait": "whole step with data wait",
    "one batch from its start hook to its end hook": "batch without data wait",
}
"""Names of step timer scopes by the first clause of their descriptions, where that clause is
unclear.
"""

_ELSEWHERE = ("global batch", "step timer scope", "clock")
"""Settings that have a caveat of their own if they matter."""


def some_names(names: Sequence[str], systems: int) -> str:
    """Return names for one line: one or two names; of more, only their number, such as "3 of 5
    systems".
    """
    if len(names) < 3:
        return join_names(names)
    return f"{len(names)} of {systems} systems"


def of_settings(systems: Sequence[SystemResult], pairs: Sequence[Pair]) -> Iterator[Caveat]:
    """Yield caveats on what differs or is uncertain in the settings of systems that are compared in
    these pairs.
    """
    yield from _of_precisions(systems)
    named = []
    for system in systems:
        if any(note.code == "gpu-from-platform" for note in system.run.notes):
            named.append(system.name)
    if named:
        note = Note("gpu-in-free-text", {"systems": tuple(named)})
        yield Caveat("gpu-source", "warning", (note,))
    in_doubt = []
    for system in systems:
        for note in system.run.notes:
            if note.code in TIME_NOTES:
                in_doubt.append(about(system.name, note))
    if in_doubt:
        yield Caveat("time-in-doubt", "warning", tuple(in_doubt))
    if len(systems) > 1 and all(one_text.is_unnamed(system.run) for system in systems):
        first, *others = (system.run for system in systems)
        if not one_text.are_of_one(systems):
            is_by_losses = all(one_text.began_alike(first, other) for other in others)
            evidence = "first losses" if is_by_losses else "FLOPs of a step"
            note = Note("model-by-evidence", {"evidence": evidence})
            yield Caveat("model-source", "info", (note,))
    for code, told, source in _GUESSES:
        guessed = []
        for system in systems:
            if any(note.code == source for note in system.run.notes):
                guessed.append(system.name)
        if guessed:
            note = Note(told)
            if len(guessed) < len(systems):
                note = Note(told, {"systems": tuple(guessed)})
            yield Caveat(code, "info", (note,))
    overridden: dict[tuple[str, str], Note] = {}
    for system in systems:
        for result in system.valid_runs:
            for key in result.run.source.overrides if result.run.source else ():
                note = Note("set-by-user", {"setting": key.replace("_", " ")})
                overridden[system.name, key] = about(system.name, note)
    if overridden:
        yield Caveat("overridden", "warning", tuple(overridden.values()))
    yield from _of_printed_rates(systems)
    yield from _of_work(systems)
    yield from _of_tuning(systems)
    yield from _of_config_diffs(systems, pairs)


_GUESSES = (
    ("model-source", "model-guessed", "model-from-directory"),
    ("gpu-source", "gpu-guessed", "from-names"),
)
"""Values that are guessed from names: the code of the caveat, that of its note, and that of the
note on a run.
"""


def _of_precisions(systems: Sequence[SystemResult]) -> Iterator[Caveat]:
    """Yield caveats on precisions that are unknown, that differ, or that only a description of the
    system states.
    """
    unknown = []
    known: dict[str, None] = {}
    described: dict[str, None] = {}
    for system in systems:
        config = system.run.training_config
        if system.run.platform == "cpu":
            continue
        if config.precision is None:
            unknown.append(system.name)
        if config.precision:
            known[config.precision.upper()] = None
            if (config.precision_detail or "").startswith(FROM_DESCRIPTION):
                described[config.precision.upper()] = None
    if unknown:
        note = Note("precisions-unknown")
        if len(unknown) < len(systems):
            whose = some_names(unknown, len(systems))
            note = Note("precisions-unknown", {"whose": whose, "systems": tuple(unknown)})
        yield Caveat("precision-unknown", "warning", (note,))
    source = " and ".join(described) or None
    if len(known) > 1:
        note = Note("precisions-differ", {"precisions": tuple(known), "described": source})
        yield Caveat("precision-differs", "warning", (note,))
    elif described:
        note = Note("precision-described", {"described": source})
        yield Caveat("precision-source", "info", (note,))


_PRINTED_UNITS: Mapping[Unit, str] = {"tflops": "TFLOP/s", "mfu": "MFUs"}


def _prints_samples(system: SystemResult) -> bool:
    """Return whether samples/s are compared that a program prints; in MLPerf's logs, the benchmark
    fixes what a sample is.
    """
    of_mlperf = system.run.framework == "mlperf"
    printed = system.run.native_metrics.keys() & set(PRINTED_RATES["samples"])
    return system.unit == "samples" and bool(printed) and not of_mlperf


def _of_printed_rates(systems: Sequence[SystemResult]) -> Iterator[Caveat]:
    """Yield a caveat on rates that the sources print: one program may count padding, and another
    one not; the rates of one program are alike.
    """
    printed = [system for system in systems if system.has_printed_rate]
    if any(map(_prints_samples, systems)):
        yield Caveat("rate-printed", "warning", (Note("samples-compared"),))
    if not printed:
        return
    fields: dict[str, NoteValue] = {}
    if len(printed) < len(systems):
        fields["systems"] = tuple(system.name for system in printed)
    unit = printed[0].unit
    if unit != "tokens":
        yield Caveat(
            "rate-printed", "warning", (Note("flops-compared", {"unit": _PRINTED_UNITS[unit]}),)
        )
        return
    programs = {system.run.framework for system in systems}
    severity: Severity = "warning" if fields or len(programs) > 1 else "info"
    if fields or len(programs) == 1:
        note = Note("rates-printed", fields)
    else:
        note = Note("rates-printed-by-several")
    yield Caveat("rate-printed", severity, (note,))


def _of_work(systems: Sequence[SystemResult]) -> Iterator[Caveat]:
    """Yield caveats on what step times cover, and on steps that differ in work."""
    if any(system.unit == "steps" for system in systems):
        sized = all(system.run.tokens_per_step for system in systems)
        lacking = "neither a model nor the tokens of a step"
        if sized:
            lacking = "no model"
        note = Note("steps-compared", {"lacking": lacking})
        yield Caveat("steps-compared", "warning", (note,))
    # The scope of the step timer doesn't matter where the wall time of training is the clock.
    scopes: dict[str, None] = {}
    batches: dict[str, None] = {}
    is_emulated = False
    for system in systems:
        run = system.run
        config = run.training_config
        is_of_blocks = all(result.summary.clock == "blocks" for result in system.valid_runs)
        if run.timing.covers and not is_of_blocks:
            scopes[run.timing.covers] = None
        if run.platform == "cpu" and config.precision == "bf16" and run.environment.lacks_bf16:
            is_emulated = True
        batch = config.global_batch_size
        batches["unknown" if batch is None else str(batch)] = None
    if len(scopes) > 1:
        timers = tuple(map(_brief, itertools.islice(scopes, 2)))
        yield Caveat("timer-differs", "warning", (Note("timers-differ", {"timers": timers}),))
    if is_emulated:
        yield Caveat("bf16-emulated", "warning", (Note("bf16-emulated"),))
    if len(batches) > 1:
        listed = tuple(itertools.islice(batches, 4))
        note = Note("batches-differ", {"batches": listed, "unit": systems[0].unit})
        yield Caveat("batch-differs", "warning", (note,))
    uncounted = []
    for system in systems:
        if system.run.tokens_per_step is None:
            uncounted.append(system)
    logged = list(filter(None, map(logged_tokens, uncounted)))
    if logged and max(logged) / min(logged) - 1 > UNLIKE_TOKENS:
        note = Note("tokens-differ", {"tokens": tuple(f"{tokens:,.0f}" for tokens in logged[:4])})
        yield Caveat("batch-differs", "warning", (note,))


def _of_tuning(systems: Sequence[SystemResult]) -> Iterator[Caveat]:
    """Yield a caveat on how much each system was tuned, if any was. Settings that were tuned on
    another device don't count as tuning.
    """
    efforts = {}
    trials = {}
    for system in systems:
        tunings = (result.run.tuning for result in system.valid_runs)
        tuning = next(filter(None, tunings), None)
        device = system.run.gpu_info.device_name
        if tuning is None:
            efforts[system.name] = "no tuning"
        elif None not in (tuning.device_name, device) and tuning.device_name != device:
            efforts[system.name] = f"settings tuned on {plain(tuning.device_name)}"
        else:
            trials[system.name] = tuning.trials
            efforts[system.name] = counted(tuning.trials or 0, "tuning trial")
            if tuning.seconds:
                efforts[system.name] += f" ({units.duration(tuning.seconds)})"
    if set(efforts.values()) == {"no tuning"}:
        return
    listed = tuple(f"{name} had {effort}" for name, effort in efforts.items())
    note = Note("tuning", {"efforts": listed})
    if len(trials) < len(systems):
        yield Caveat("tuning-differs", "warning", (note,))
    else:
        yield Caveat("tuning", "info", (note,))


def _brief(covers: str) -> str:
    """Return the first clause of what a step time covers, cut between two words if it is long."""
    clause = plain(covers)
    if len(clause) > LONGEST_CLAUSE:
        clause = clause.partition(";")[0].partition(",")[0]
    return SCOPES.get(clause) or textwrap.shorten(clause, LONGEST_CLAUSE, placeholder=" …")


def _of_config_diffs(systems: Sequence[SystemResult], pairs: Sequence[Pair]) -> Iterator[Caveat]:
    """Yield a warning on the differences that can explain the result, and a note on the others.

    Values are in the order of the systems, the fastest first, as in the table above them.
    """
    places = {system: place for place, system in enumerate(systems)}
    explaining: dict[str, dict[int, str]] = {}
    others: dict[str, dict[int, str]] = {}
    # The settings have a fixed order: the order in which pairs differ depends on the baseline.
    order = {setting.title: place for place, setting in enumerate(LEDGER)}
    entries = []
    for pair in pairs:
        for entry in pair.config_diff.of("different"):
            entries.append((pair, entry))
    for pair, entry in sorted(entries, key=lambda found: order.get(found[1].title, len(order))):
        before, after = (value or "unknown" for value in entry.values)
        if entry.title in _ELSEWHERE or (entry.title in NOT_CONFIGURED and not entry.explains):
            continue
        # A different precision has its own caveat; a different recipe of the same precision
        # doesn't.
        if entry.title == "precision" and before.split(" (")[0] != after.split(" (")[0]:
            continue
        title = entry.title
        if title == "GPUs" and kind_of_device(systems) == "process":
            title = "processes"
        kind = explaining if entry.explains else others
        values = kind.setdefault(title, {})
        before, after = _apart(before, after)
        values.setdefault(places[pair.baseline], before)
        values[places[pair.system]] = after
    if explaining:
        texts = [f"{title}: {_versus(values)}" for title, values in explaining.items()]
        note = _listed("settings-differ", texts, "; ", LONGEST_LIST, list(explaining))
        yield Caveat("settings-differ", "warning", (note,))
    if "compiler" in explaining:
        yield from _of_compiling(systems)
    if others:
        shown = []
        for title, values in others.items():
            text = f"{title} ({_versus(values)})"
            shown.append(text if len(text) <= LONGEST_NOTE else title)
        note = _listed("configuration-differs", shown, ", ", LONGEST_NOTE, list(others))
        yield Caveat("configuration-differs", "info", (note,))
    unknown = set()
    for pair in pairs:
        for entry in pair.config_diff.of("unknown"):
            unknown.add(entry.title)
    if unknown:
        note = Note("not-reported", {"settings": len(unknown)})
        yield Caveat("not-reported", "info", (note,))


def shown_settings(note: Note) -> set[str]:
    """Return the settings whose values a note on what differs shows; nothing for any other note."""
    shown = note.fields.get("shown")
    if note.code == "settings-differ" and isinstance(shown, tuple):
        return set(map(str, shown))
    return set()


def _of_compiling(systems: Sequence[SystemResult]) -> Iterator[Caveat]:
    """Yield a caveat on how long compiling took, if runs state it."""
    times = []
    for system in systems:
        for result in system.valid_runs:
            time = result.run.native_metrics.get(COMPILE_TIME)
            if isinstance(time, float):
                times.append(time)
    if times:
        most = max(times) if max(times) > min(times) else None
        note = Note("compile-time", {"least": min(times), "most": most})
        yield Caveat("compile-time", "info", (note,))


def _versus(values: dict[int, str]) -> str:
    """Return the different values of systems, given by the systems' places, in this order."""
    different = list(dict.fromkeys(values[place] for place in sorted(values)))
    return " vs ".join(different[:MOST_VALUES])


def _apart(first: str, second: str) -> tuple[str, str]:
    """Return the parts of each of two comma-separated lists that the other one lacks; both lists in
    full if one of them has no such part.
    """
    # A comma in parentheses separates no parts.
    one = re.split(r", (?![^(]*\))", first)
    other = re.split(r", (?![^(]*\))", second)
    own = ", ".join(part for part in one if part not in other)
    others = ", ".join(part for part in other if part not in one)
    if own and others:
        first, second = own, others
    return plain(first, LONGEST_VALUE), plain(second, LONGEST_VALUE)


def _listed(code: str, texts: Sequence[str], by: str, longest: int, titles: Sequence[str]) -> Note:
    """Return a note with as many texts as fit into `longest` characters, and the titles of the
    others. Its field `shown` has the titles of the texts.
    """
    shown = list(texts[:1])
    for text in texts[1:]:
        if len(by.join([*shown, text])) > longest:
            break
        shown.append(text)
    settings = by.join(shown)
    if len(shown) < len(titles):
        settings += f"{by}also {', '.join(titles[len(shown) :])}"
    return Note(code, {"settings": settings, "shown": tuple(titles[: len(shown)])})
