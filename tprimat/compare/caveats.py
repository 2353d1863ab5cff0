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
from tprimat.checks import CONTRADICTION, Finding
from tprimat.checks.endings import Divergence, divergence, is_finished
from tprimat.compare.figures import AT_CAP, longest_step_share, share_at_cap, trained_seconds
from tprimat.compare.result import DOUBTFUL_SPREAD, Caveat, Pair, SystemResult
from tprimat.compare.setting_caveats import of_settings, some_names
from tprimat.notes import Note
from tprimat.results.outcome import DIVERGED
from tprimat.results.run import sentences
from tprimat.text import counted, join_names, plain

CODES = (
    *("contradiction", "high-mfu", "above-sustained"), "steps-compared",
    "loss-not-finite", "time-in-doubt", "incomplete", "precision-unknown", "throttled", "shared", "disturbed",
    "device-errors", "slow-device", "precision-differs", "unlike-blocks", "settings-differ", "at-power-cap",
    "compile-time", "overridden", "precision-source", "model-source", "gpu-source", "timer-differs", "clock-differs",
    "tuning-differs", "bf16-emulated", "speed-changed", "slow-start", "unlike-sessions", "steps-cut",
    "order-of-runs", "unlike-variables", "unlike-runs", "few-runs", "batch-differs", "no-steady-state", "drift",
    "outlier", "configuration-differs", "not-reported", "training-differs", "synthetic-data", "tuning",
)  # fmt: skip
"""Codes of caveats, by their effect on the decision. The first three are rules of findings, too."""

EVENTS = {
    "throttled":
        ("thermal", "hardware-slowdown", "power-brake", "power-cap", "clock-setting", "sync-boost", "slower-gpu"),
    "shared": ("gpu-shared", "cpu-quota", "memory-pressure", "io-pressure"),
    "device-errors": ("gpu-lost", "xid", "ecc-uncorrected", "memory-retired", "link-errors", "pcie-narrow"),
}  # fmt: skip
"""Codes of caveats, and the events of telemetry that each of them names, the most severe first."""

DISTURBED_SHARE = 0.05
"""Share of the CPU time in other hands, during a training on the CPU, from which it is named."""

BREAK_S, SURE = 600.0, 0.01
"""Runs before and after a break of so many seconds that differ at this p value are not runs of one
program.
"""

OUTLIER_SHARE, HELD_SHARE = 0.01, 0.1
"""Share of a run's steady time that one record may take beyond the median before it is named; share
of a GPU's memory that other programs may hold before a run: less is a desktop's, or the system's
where the memory is shared.
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
"""Codes of what matters to a system that is compared with none, too."""


def caveats(systems: Sequence[SystemResult], pairs: Sequence[Pair]) -> tuple[Caveat, ...]:
    """Return the caveats of systems that are compared in these pairs, each code once.

    What could change the decision comes first, by its effect, then what is good to know. Which
    those are depends on the systems, never on which of them is the baseline.
    """
    found: dict[str, Caveat] = {}
    for code in CODES[:3]:
        texts = []
        for system in systems:
            for finding in system.findings:
                if finding.rule == code:
                    texts.append(f"{system.name}: {_text_of(finding.note)}")
        if texts:
            found[code] = Caveat(code, "warning", "; ".join(texts))
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


def _text_of(note: Note) -> str:
    """Return the sentence of a note, as a caveat still has it."""
    return sentences([note])[0]


def contradictions(system: SystemResult) -> list[Finding]:
    """Return what a system's sources say twice and differently: the headline says that, too."""
    return [finding for finding in system.findings if finding.rule == CONTRADICTION]


def _of_events(systems: Sequence[SystemResult]) -> Iterator[Caveat]:
    """Yield what telemetry and preflights saw of the machines, each kind with the system and the
    runs it concerns.
    """
    for code, kinds in EVENTS.items():
        texts = []
        for system in systems:
            if text := _event_text(system, kinds):
                texts.append(f"{system.name}: {text}")
            elif code == "shared":
                held = 0.0
                for result in system.valid_runs:
                    held = max(held, result.run.environment.memory_held_by_others_gb or 0.0)
                if held > HELD_SHARE * (system.run.gpu_info.total_memory_gb or math.inf):
                    texts.append(
                        f"{system.name}: other programs held {units.gigabytes(held)} of GPU memory"
                        " at the start"
                    )
        if texts:
            yield Caveat(code, "warning", "; ".join(texts))
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
        text = f"clock limited by the power cap (share of readings): {'; '.join(at_cap)}"
        yield Caveat("at-power-cap", "info", text)
    if slow:
        text = f"slower than the other GPUs in the preflight: {'; '.join(slow)}"
        yield Caveat("slow-device", "warning", text)


def _event_text(system: SystemResult, kinds: Sequence[str]) -> str:
    """Return the worst warning of telemetry among these events, and in how many runs there is one;
    empty without any.
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
        return ""
    worst = min(warnings, key=lambda issue: kinds.index(issue.code))
    runs = len(system.valid_runs)
    return worst.sentence + (f" (in {disturbed} of {runs} runs)" if runs > 1 else "")


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
    # With a single run there is no interval, which the verdict itself says.
    if min(len(system.valid_runs) for system in systems) == 2:
        yield Caveat(
            "few-runs", "warning", "only two runs per system, so the confidence interval is wide"
        )
    of_systems: dict[str, dict[str, Caveat]] = {}
    for system in systems:
        for caveat in _of_system(system, is_alone=len(systems) == 1):
            of_systems.setdefault(caveat.code, {}).setdefault(system.name, caveat)
    for told in of_systems.values():
        first, *others = told
        text = told[first].text
        if others:
            text += f"; also {join_names(others, 2)}"
        yield dataclasses.replace(told[first], text=text)
    yield from _of_disturbances(systems)
    yield from _of_speeds(systems)
    yield from _of_starts(systems)
    shares = {system.name: longest_step_share(system) for system in systems}
    name = max(shares, key=lambda name: shares[name])
    if shares[name] > OUTLIER_SHARE:
        text = f"{name}: one outlier step took {shares[name]:.1%} of the measured time"
        yield Caveat("outlier", "info", text)
    if texts := list(filter(None, map(_sessions_text, systems))):
        yield Caveat("unlike-sessions", "warning", "; ".join(texts))
    for code, text_of in (("incomplete", incomplete_text), ("loss-not-finite", diverged_text)):
        if texts := [f"{system.name}: {text}" for system in systems if (text := text_of(system))]:
            yield Caveat(code, "warning", "; ".join(texts))


def _of_disturbances(systems: Sequence[SystemResult]) -> Iterator[Caveat]:
    """Yield how much of the CPU others used during trainings on it."""
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
        yield Caveat("disturbed", "warning", f"{' and '.join(users)} during the measurement")


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
                cause = f", {_text_of(titled)}"
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
        yield Caveat("speed-changed", "warning", f"speed changed: {join_names(changes)}")
    elif changing:
        text = f"{changing} of {counted(runs, 'run')} changed speed part-way through"
        yield Caveat("speed-changed", "info", text)
    if drifts:
        text = (
            f"step time drifted by up to {max(drifts.values()):.0%} within a run of"
            f" {join_names(list(drifts))}"
        )
        yield Caveat("drift", "info", text)


def _of_starts(systems: Sequence[SystemResult]) -> Iterator[Caveat]:
    """Yield which steps are excluded as a slow start, and which speeds may include one."""
    skipped = max(result.summary.skipped for system in systems for result in system.valid_runs)
    if skipped > NAMED_WARM_UP and not any(system.is_unsettled for system in systems):
        text = (
            f"the first {skipped} steps of each run are excluded: the latest slow start takes as"
            " long"
        )
        yield Caveat("slow-start", "info", text)
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
        if len(averaged) == len(systems):
            whose = "each log"
        else:
            whose = f"the log of {join_names(averaged)}"
        text = f"{whose} has a single averaged record, which may include warm-up"
        yield Caveat("no-steady-state", "warning", text)
    elif unsteady:
        where = "any system"
        if len(unsteady) < len(systems):
            where = some_names(unsteady, len(systems))
        text = f"no steady state in {where}: the result may include warm-up"
        yield Caveat("no-steady-state", "info", text)


def doubt(system: SystemResult) -> str:
    """Return why a system passes no check however fast it is; empty if all its runs finished and
    none diverged.
    """
    return "; ".join(filter(None, (incomplete_text(system), diverged_text(system))))


def _of_system(system: SystemResult, *, is_alone: bool) -> Iterator[Caveat]:
    """Yield what is told of a system whatever the others are; of those that it is told of too there
    are the names.
    """
    if names := _unlike_variables(system):
        yield Caveat(
            "unlike-variables",
            "warning",
            f"the runs of {system.name} differ in {join_names(names)}",
        )
    for note in system.value_notes:
        if note.code == UNLIKE_BLOCKS:
            # Of a single run nobody knows whether the next one has such a block.
            if len(system.valid_runs) == 1:
                told = f"{note.fields['block']}; measure more runs"
            else:
                told = (
                    f"a step takes on average {note.fields['mean']:.4g} s, in the median block"
                    f" {note.fields['typical']:.4g} s"
                )
            yield Caveat("unlike-blocks", "warning", f"{system.name}: {told}")
        elif note.code == "steps-cut":
            yield Caveat("steps-cut", "info", f"{system.name}: {plain(sentences([note])[0])}")
    # If a single system's runs are of several sessions, the headline says that they differ.
    if system.spread >= DOUBTFUL_SPREAD and (not is_alone or system.is_one_session):
        text = f"runs of {system.name} differ {system.spread:.2f}×"
        question = ""
        if not system.is_one_session:
            question = ": are they of one configuration?"
        yield Caveat("unlike-runs", "warning", text + question)
    if system.order is not None:
        size = f"{abs(system.order.size):.1%}"
        text = f"throughput {system.order.kind} from run to run, by {size} from half to half"
        if system.order.kind == "alternates":
            text = f"odd- and even-numbered runs differ by {size}"
        yield Caveat("order-of-runs", "warning", f"{system.name}: {text}")


def incomplete_text(system: SystemResult) -> str:
    """Return how far a system came of which no run finished, of another how many did not, and the
    first cause.

    Empty if all runs finished.
    """
    lost = []
    for result in system.runs:
        if not is_finished(result.run):
            lost.append(result.run)
    if not system.valid_runs or not lost:
        return ""
    cause = f": {system.cause}" if system.cause else ""
    if len(lost) < len(system.runs):
        excluded = "are excluded" if len(lost) > 1 else "is excluded"
        runs = counted(len(system.runs), "run")
        return f"{len(lost)} of {runs} did not finish and {excluded}{cause}"
    text = "failed" if system.has_failed else "incomplete"
    done = max(system.run.steps, default=0)
    planned = system.run.training_config.max_steps or 0
    if 0 < done < planned:
        text += f" ({done:,} of {planned:,} steps)"
    return text + cause


def diverged_text(system: SystemResult) -> str:
    """Return how many runs of a system diverged, how, and at which steps; empty for none."""
    found: dict[tuple[str, bool], list[Divergence]] = {}
    for result in system.runs:
        if diverged := divergence(result.run):
            found.setdefault((diverged.code, diverged.is_lasting), []).append(diverged)
    texts = []
    for (code, is_lasting), alike in found.items():
        first = min(diverged.first for diverged in alike)
        last = max(diverged.last for diverged in alike)
        if is_lasting:
            where = f"from step {first:,} on"
        elif first < last:
            where = f"at steps between {first:,} and {last:,}"
        else:
            where = f"at step {first:,}"
        if len(system.runs) > 1:
            where += f" in {len(alike)} of {len(system.runs)} runs"
        texts.append(f"{DIVERGED[code]} {where}")
    return "; ".join(texts)


def _sessions_text(system: SystemResult) -> str:
    """Return how the runs after the longest break differ from those before; empty if they don't, or
    without a break.
    """
    timed = []
    for result in system.valid_runs:
        began = result.run.started
        if began and result.rate:
            timed.append((began.timestamp(), trained_seconds(result.run), result.rate))
    timed.sort()
    # Welch's t takes two runs before the break and two after it.
    if len(timed) < 4:
        return ""
    breaks = []
    for first, (early, late) in enumerate(itertools.pairwise(timed), 1):
        breaks.append((late[0] - early[0] - early[1], first))
    pause, first = max(breaks)
    rates = [rate for *_, rate in timed]
    before = rates[:first]
    after = rates[first:]
    found = welch(after, before) if pause >= BREAK_S else None
    if found is None or found.p() >= SURE:
        return ""
    change = statistics.fmean(after) / statistics.fmean(before) - 1
    how = f"{abs(change):.1%} {'faster' if change > 0 else 'slower'}"
    return (
        f"{system.name}: the last {len(after)} runs, {units.duration(pause)} after the first"
        f" {first}, are {how}"
    )


def _of_training(systems: Sequence[SystemResult], pairs: Sequence[Pair]) -> Iterator[Caveat]:
    if different := [pair for pair in pairs if pair.training.same is False]:
        if len(pairs) == 1:
            why = "; ".join(map(_text_of, different[0].training.reasons))
        else:
            why = "data, learning rate or loss differ"
        yield Caveat("training-differs", "info", f"model quality is not compared: {why}")
    synthetic: dict[str, list[str]] = {}
    for system in systems:
        for finding in system.findings:
            if finding.rule == "synthetic-data":
                synthetic.setdefault(_text_of(finding.note), []).append(system.name)
    for text, names in synthetic.items():
        whose = ""
        if len(names) < len(systems):
            whose = f"{join_names(names)}: "
        yield Caveat("synthetic-data", "info", f"{whose}{text}")
