"""Caveats of a comparison, ordered by how much they could change the result."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Iterator, Sequence

from tprimat import units
from tprimat.analysis.intervals import welch
from tprimat.analysis.summary import NAMED_WARM_UP, UNLIKE_BLOCKS
from tprimat.checks import CONTRADICTION, Finding, Severity
from tprimat.checks.endings import Divergence, divergence, is_finished
from tprimat.compare.figures import AT_CAP, longest_step_share, share_at_cap, trained_seconds
from tprimat.compare.result import DOUBTFUL_SPREAD, Caveat, Pair, SystemResult, add_name
from tprimat.compare.setting_caveats import of_settings, some_names
from tprimat.notes import Note, NoteValue, about
from tprimat.results.outcome import DIVERGED
from tprimat.results.run import sentences
from tprimat.text import join_names

CODES = (
    *("contradiction", "high-mfu", "above-sustained"), "steps-compared",
    "loss-not-finite", "time-in-doubt", "rate-printed",
    "incomplete", "precision-unknown", "throttled", "shared", "disturbed",
    "device-errors", "slow-device", "precision-differs", "unlike-blocks", "settings-differ", "at-power-cap",
    "compile-time", "overridden", "precision-source", "model-source", "gpu-source", "timer-differs", "clock-differs",
    "tuning-differs", "bf16-emulated", "speed-changed", "slow-start", "unlike-sessions", "steps-cut",
    "order-of-runs", "unlike-variables", "unlike-runs", "few-runs", "batch-differs", "no-steady-state", "drift",
    "outlier", "configuration-differs", "not-reported", "training-differs", "synthetic-data", "tuning",
)  # fmt: skip
"""Codes of caveats, those with the greatest effect on the decision first. The first three are also
rules of findings.
"""

EVENTS = {
    "throttled":
        ("thermal", "hardware-slowdown", "power-brake", "power-cap", "clock-setting", "sync-boost", "slower-gpu"),
    "shared": ("gpu-shared", "cpu-quota", "memory-pressure", "io-pressure"),
    "device-errors": ("gpu-lost", "xid", "ecc-uncorrected", "memory-retired", "link-errors", "pcie-narrow"),
}  # fmt: skip
"""Codes of caveats, and the events of telemetry that each of them names, the most severe first."""

DISTURBED_SHARE = 0.05
"""A caveat says so if others used more than this share of the CPU time during a training on the
CPU.
"""

BREAK_S, SURE = 600.0, 0.01
"""Length of a break in seconds, and p value: runs before and after such a break whose speeds differ
with a lower p value may not be runs of one program.
"""

OUTLIER_SHARE, HELD_SHARE = 0.01, 0.1
"""Share of a run's steady time that its longest record may take beyond the median without a caveat;
and share of a GPU's memory that other programs may hold before a run without one: a desktop holds
less, and so does the system where it shares the memory.
"""

OF_ONE = (
    *CODES[:3],
    *(
        "loss-not-finite",
        "throttled",
        "shared",
        "disturbed",
        "device-errors",
        "slow-device",
        "at-power-cap",
    ),
    *(
        "bf16-emulated",
        "unlike-variables",
        "overridden",
        "unlike-sessions",
        "unlike-runs",
        "time-in-doubt",
    ),
)
"""Codes of the caveats that also matter for a single system that isn't compared."""


def caveats(systems: Sequence[SystemResult], pairs: Sequence[Pair]) -> tuple[Caveat, ...]:
    """Return the caveats of systems that are compared in these pairs, each code once.

    Warnings, which could change the decision, come first, those with the greatest effect before the
    others. Caveats depend on the systems, never on which of them is the baseline.
    """
    found: dict[str, Caveat] = {}
    for code in CODES[:3]:
        notes = []
        for system in systems:
            for finding in system.findings:
                if finding.rule == code:
                    notes.append(about(system.name, finding.note))
        if notes:
            found[code] = Caveat(code, "warning", tuple(notes))
    every = (
        *of_settings(systems, pairs),
        *_of_events(systems),
        *_of_runs(systems),
        *_of_training(systems, pairs),
    )
    for caveat in every:
        found.setdefault(caveat.code, caveat)
    codes = CODES if len(systems) > 1 else OF_ONE
    ordered = [found[code] for code in codes if code in found]
    return tuple(sorted(ordered, key=lambda caveat: caveat.severity != "warning"))


def contradictions(system: SystemResult) -> list[Finding]:
    """Return the findings that a system's sources contradict themselves; the headline says that,
    too.
    """
    return [finding for finding in system.findings if finding.rule == CONTRADICTION]


def _of_events(systems: Sequence[SystemResult]) -> Iterator[Caveat]:
    """Yield what telemetry and preflight checks found about the machines, by kind, with the systems
    and the runs concerned.
    """
    for code, kinds in EVENTS.items():
        notes = []
        for system in systems:
            if note := _worst_event(system, kinds):
                notes.append(note)
            elif code == "shared":
                held = 0.0
                for result in system.valid_runs:
                    held = max(held, result.run.environment.memory_held_by_others_gb or 0.0)
                if held > HELD_SHARE * (system.run.gpu_info.total_memory_gb or math.inf):
                    note = Note("memory-held-at-start", {"held": held})
                    notes.append(about(system.name, note))
        if notes:
            yield Caveat(code, "warning", tuple(notes))
    at_cap = []
    slow = []
    for system in systems:
        share = share_at_cap(system)
        if share >= AT_CAP:
            at_cap.append(f"{system.name} {share:.0%}")
        devices: list[str] = []
        for result in system.valid_runs:
            devices += result.run.preflight.slow_devices
        if devices:
            slow.append(f"{join_names(list(dict.fromkeys(devices)))} of {system.name}")
    if at_cap:
        yield _caveat("at-power-cap", "info", Note("at-power-cap", {"shares": tuple(at_cap)}))
    if slow:
        yield _caveat("slow-device", "warning", Note("slow-devices", {"devices": tuple(slow)}))


def _caveat(code: str, severity: Severity, note: Note) -> Caveat:
    return Caveat(code, severity, (note,))


def _worst_event(system: SystemResult, kinds: Sequence[str]) -> Note | None:
    """Return the worst warning of telemetry among these events, and in how many runs there is one;
    None without any.
    """
    warnings = []
    disturbed = 0
    for result in system.valid_runs:
        issues = result.run.telemetry.issues
        own = []
        for issue in issues:
            if issue.code in kinds and issue.severity == "warning":
                own.append(issue)
        warnings += own
        disturbed += bool(own)
    if not warnings:
        return None
    worst = min(warnings, key=lambda issue: kinds.index(issue.code))
    fields: dict[str, NoteValue] = {"kind": worst.code, "event": worst.sentence}
    if len(system.valid_runs) > 1:
        fields |= {"disturbed": disturbed, "runs": len(system.valid_runs)}
    return about(system.name, Note("telemetry-event", fields))


def _unlike_variables(system: SystemResult) -> list[str]:
    """Return the environment variables in which a system's runs differ, except those that select
    GPUs.
    """
    settings = [result.run.environment.settings for result in system.valid_runs]
    stated = [variables for variables in settings if variables]
    unlike = []
    for name in sorted(set().union(*stated)):
        if "VISIBLE" not in name and len({variables.get(name) for variables in stated}) > 1:
            unlike.append(name)
    return unlike


def _of_runs(systems: Sequence[SystemResult]) -> Iterator[Caveat]:
    # With a single run there is no interval, and the verdict itself says so.
    if min(len(system.valid_runs) for system in systems) == 2:
        yield _caveat("few-runs", "warning", Note("few-runs"))
    of_systems: dict[str, dict[str, Caveat]] = {}
    for system in systems:
        for caveat in _of_system(system, is_alone=len(systems) == 1):
            of_systems.setdefault(caveat.code, {}).setdefault(system.name, caveat)
    for told in of_systems.values():
        first, *others = told
        caveat = told[first]
        if others:
            caveat = dataclasses.replace(caveat, notes=(*caveat.notes, _also(others)))
        yield caveat
    yield from _of_disturbances(systems)
    yield from _of_speeds(systems)
    yield from _of_starts(systems)
    shares = {system.name: longest_step_share(system) for system in systems}
    name = max(shares, key=lambda name: shares[name])
    if shares[name] > OUTLIER_SHARE:
        note = about(name, Note("outlier", {"share": shares[name]}))
        yield _caveat("outlier", "info", note)
    of_kinds: dict[str, list[Note]] = {
        "unlike-sessions": [],
        "incomplete": [],
        "loss-not-finite": [],
    }
    for system in systems:
        of_kinds["unlike-sessions"] += _of_sessions(system)
        of_kinds["incomplete"] += told_of(system.name, incomplete(system))
        of_kinds["loss-not-finite"] += told_of(system.name, diverged(system))
    for code, notes in of_kinds.items():
        if notes:
            yield Caveat(code, "warning", tuple(notes))


MOST_ALSO = 2
"""Most other systems that a note names to which the same caveat applies."""


def _also(names: Sequence[str]) -> Note:
    """Return a note on the other systems to which the same caveat applies."""
    if len(names) <= MOST_ALSO:
        return Note("also", {"systems": tuple(names)})
    shown = names[: MOST_ALSO - 1]
    return Note("also", {"systems": tuple(shown), "more": len(names) - len(shown)})


def told_of(system: str, notes: Sequence[Note]) -> Iterator[Note]:
    """Yield notes on a system; only the first one names it."""
    for place, note in enumerate(notes):
        yield note if place else about(system, note)


def _of_disturbances(systems: Sequence[SystemResult]) -> Iterator[Caveat]:
    """Yield a caveat on how much of the CPU other programs used during trainings on the CPU."""
    others = 0.0
    stolen = 0.0
    for system in systems:
        for result in system.valid_runs:
            if result.run.platform == "cpu":
                disturbance = result.run.disturbance
                others = max(others, disturbance.other_programs_cpu_share or 0.0)
                stolen = max(stolen, disturbance.steal_cpu_share or 0.0)
    users = []
    for user, share in (("other programs", others), ("the hypervisor", stolen)):
        if share > DISTURBED_SHARE:
            users.append(f"{user} used up to {share:.0%} of the CPU")
    if users:
        yield _caveat("disturbed", "warning", Note("cpu-used-by-others", {"users": tuple(users)}))


def _of_speeds(systems: Sequence[SystemResult]) -> Iterator[Caveat]:
    """Yield how speeds change within runs: from a step on, or gradually."""
    changes = []
    runs = 0
    changing = 0
    drifts: dict[str, float] = {}
    for system in systems:
        for before, after in itertools.pairwise(system.segments):
            cause = ""
            if after.cause:
                fields = after.cause.fields
                titled = Note(after.cause.code, {**fields, "text": fields["title"]})
                cause = f", {sentences([titled])[0]}"
            changes.append(
                f"{system.name} at step {after.first_step} ({units.seconds(before.mean)} →"
                f" {units.seconds(after.mean)}{cause})"
            )
        for result in system.valid_runs:
            runs += 1
            changing += len(result.summary.segments) > 1
            for segment in result.summary.segments:
                if segment.drift:
                    drifts[system.name] = max(drifts.get(system.name, 0.0), abs(segment.drift))
    if changes:
        note = Note("speeds-changed", {"changes": tuple(changes)})
        yield _caveat("speed-changed", "warning", note)
    elif changing:
        note = Note("speeds-changed-in-some", {"changing": changing, "runs": runs})
        yield _caveat("speed-changed", "info", note)
    if drifts:
        note = Note("drift", {"share": max(drifts.values()), "systems": tuple(drifts)})
        yield _caveat("drift", "info", note)


def _of_starts(systems: Sequence[SystemResult]) -> Iterator[Caveat]:
    """Yield caveats on the steps that are excluded as a slow start, and on speeds that may include
    one.
    """
    skipped = max(result.summary.skipped for system in systems for result in system.valid_runs)
    if skipped > NAMED_WARM_UP and not any(system.is_unsettled for system in systems):
        yield _caveat("slow-start", "info", Note("slow-start-of-runs", {"steps": skipped}))
    unsteady = []
    averaged = []
    for system in systems:
        if not all(result.summary.steady.found for result in system.valid_runs):
            unsteady.append(system.name)
        for result in system.valid_runs:
            if len(result.run.steps) == 1 and result.summary.clock != "blocks":
                averaged.append(system.name)
                break
    if averaged:
        note = Note("single-record-each")
        if len(averaged) < len(systems):
            note = Note("single-record", {"systems": tuple(averaged)})
        yield _caveat("no-steady-state", "warning", note)
    elif unsteady:
        where = "any system"
        if len(unsteady) < len(systems):
            where = some_names(unsteady, len(systems))
        note = Note("no-steady-state", {"where": where, "systems": tuple(unsteady)})
        yield _caveat("no-steady-state", "info", note)


def doubts(system: SystemResult) -> tuple[Note, ...]:
    """Return why a system can't pass a check, however fast it is; empty if all its runs finished
    and none diverged.
    """
    return (*incomplete(system), *diverged(system))


def _of_system(system: SystemResult, *, is_alone: bool) -> Iterator[Caveat]:
    """Yield the caveats on a system that don't depend on the others. If one applies to several
    systems, the caller adds the names of the others to it.
    """
    if names := _unlike_variables(system):
        note = about(system.name, Note("unlike-variables", {"variables": tuple(names)}))
        yield _caveat("unlike-variables", "warning", note)
    for note in system.value_notes:
        if note.code == UNLIKE_BLOCKS:
            # A single run doesn't show whether others have such a block, too.
            code = "unlike-blocks-of-runs"
            if len(system.valid_runs) == 1:
                code = "unlike-block"
            told = about(system.name, Note(code, note.fields))
            yield _caveat("unlike-blocks", "warning", told)
        elif note.code == "steps-cut":
            yield _caveat("steps-cut", "info", about(system.name, note))
    # If the runs of a system that isn't compared are of several sessions, the headline says that
    # they differ.
    if system.spread >= DOUBTFUL_SPREAD and (not is_alone or system.is_one_session):
        code = "unlike-runs-of-sessions"
        if system.is_one_session:
            code = "unlike-runs"
        note = about(system.name, Note(code, {"spread": system.spread}))
        yield _caveat("unlike-runs", "warning", note)
    if system.order is not None:
        code = "throughput-by-order"
        if system.order.kind == "alternates":
            code = "throughput-alternates"
        size = abs(system.order.size)
        note = about(system.name, Note(code, {"kind": system.order.kind, "size": size}))
        yield _caveat("order-of-runs", "warning", note)


def incomplete(system: SystemResult) -> tuple[Note, ...]:
    """Return how many runs of a system did not finish, and the first cause; if none finished, how
    far they came. Empty if all finished, or if the system has no valid run.
    """
    lost = []
    for result in system.runs:
        if not is_finished(result.run):
            lost.append(result.run)
    if not system.valid_runs or not lost:
        return ()
    fields: dict[str, NoteValue] = {}
    if system.cause:
        fields["cause"] = system.cause
    if len(lost) < len(system.runs):
        are = "are" if len(lost) > 1 else "is"
        fields |= {"lost": len(lost), "runs": len(system.runs), "are": are}
        return (Note("runs-excluded", fields),)
    fields["outcome"] = "failed" if system.has_failed else "incomplete"
    done = max(system.run.steps, default=0)
    planned = system.run.training_config.max_steps or 0
    if 0 < done < planned:
        fields |= {"done": done, "planned": planned}
    return (Note("no-run-finished", fields),)


def diverged(system: SystemResult) -> tuple[Note, ...]:
    """Return how many runs of a system diverged, how, and at which steps; empty if none did."""
    found: dict[tuple[str, bool], list[Divergence]] = {}
    for result in system.runs:
        if divergent := divergence(result.run):
            found.setdefault((divergent.code, divergent.is_lasting), []).append(divergent)
    notes = []
    for (kind, is_lasting), alike in found.items():
        first = min(divergent.first for divergent in alike)
        last = max(divergent.last for divergent in alike)
        code = "diverged-at"
        if is_lasting:
            code = "diverged-from"
        elif first < last:
            code = "diverged-between"
        fields: dict[str, NoteValue] = {"kind": kind, "what": DIVERGED[kind]}
        fields |= {"first": first, "last": last}
        if len(system.runs) > 1:
            fields |= {"alike": len(alike), "runs": len(system.runs)}
        notes.append(Note(code, fields))
    return tuple(notes)


def _of_sessions(system: SystemResult) -> tuple[Note, ...]:
    """Return by how much the runs after the longest break differ from those before; empty if they
    don't, or without a break of BREAK_S.
    """
    timed = []
    for result in system.valid_runs:
        began = result.run.started
        if began and result.rate:
            timed.append((began.timestamp(), trained_seconds(result.run), result.rate))
    timed.sort()
    # Welch's t-test needs two runs before the break and two after it.
    if len(timed) < 4:
        return ()
    breaks = []
    for first, (early, late) in enumerate(itertools.pairwise(timed), 1):
        breaks.append((late[0] - early[0] - early[1], first))
    pause, first = max(breaks)
    rates = [rate for *_, rate in timed]
    before = rates[:first]
    after = rates[first:]
    found = welch(after, before) if pause >= BREAK_S else None
    if found is None or found.p() >= SURE:
        return ()
    change = statistics.fmean(after) / statistics.fmean(before) - 1
    fields: dict[str, NoteValue] = {"later": len(after), "first": first, "pause": pause}
    fields |= {"change": abs(change), "how": "faster" if change > 0 else "slower"}
    return (about(system.name, Note("unlike-sessions", fields)),)


def _of_training(systems: Sequence[SystemResult], pairs: Sequence[Pair]) -> Iterator[Caveat]:
    if different := [pair for pair in pairs if pair.training.same is False]:
        reasons: tuple[str, ...] = ("data, learning rate or loss differ",)
        if len(pairs) == 1:
            reasons = tuple(sentences(different[0].training.reasons))
        note = Note("training-differs", {"reasons": reasons})
        yield _caveat("training-differs", "info", note)
    synthetic: list[tuple[Note, list[str]]] = []
    for system in systems:
        for finding in system.findings:
            if finding.rule == "synthetic-data":
                add_name(synthetic, finding.note, system.name)
    for note, names in synthetic:
        if len(names) < len(systems):
            note = about(join_names(names), note)
        yield _caveat("synthetic-data", "info", note)
