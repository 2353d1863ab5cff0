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
        if texts := [
            f"{system.name}: {finding.text}"
            for system in systems
            for finding in system.findings
            if finding.rule == code
        ]:
            found[code] = Caveat(code, "warning", "; ".join(texts))
    every = (
        *of_settings(systems, pairs),
        *_of_events(systems),
        *_of_runs(systems),
        *_of_training(systems, pairs),
    )
    for caveat in every:
        found.setdefault(caveat.code, caveat)
    told = (found[code] for code in (CODES if len(systems) > 1 else OF_ONE) if code in found)
    return tuple(sorted(told, key=lambda caveat: caveat.severity != "warning"))


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
            runs = [result.run for result in system.valid_runs]
            issues = []
            for run in runs:
                issues.append(
                    [
                        issue
                        for issue in run.telemetry.issues
                        if issue.code in kinds and issue.severity == "warning"
                    ]
                )
            if found := [issue for issue in issues if issue]:
                worst = min(itertools.chain(*found), key=lambda issue: kinds.index(issue.code))
                more = f" (in {len(found)} of {len(runs)} runs)" if len(runs) > 1 else ""
                texts.append(f"{system.name}: {worst.sentence}{more}")
                continue
            held = max(
                (run.environment.memory_held_by_others_gb or 0.0 for run in runs), default=0.0
            )
            if code == "shared" and held > HELD_SHARE * (
                system.run.gpu_info.total_memory_gb or math.inf
            ):
                texts.append(
                    f"{system.name}: other programs held {units.gigabytes(held)} of GPU memory at"
                    " the start"
                )
        if texts:
            yield Caveat(code, "warning", "; ".join(texts))
    at_cap = (
        (system.name, share) for system in systems if (share := share_at_cap(system)) >= AT_CAP
    )
    if texts := [f"{name} {share:.0%}" for name, share in at_cap]:
        yield Caveat(
            "at-power-cap",
            "info",
            f"clock limited by the power cap (share of readings): {'; '.join(texts)}",
        )
    slow = {}
    for system in systems:
        slow[system.name] = list(
            dict.fromkeys(
                name for result in system.valid_runs for name in result.run.preflight.slow_devices
            )
        )
    if texts := [f"{join_names(names)} of {system}" for system, names in slow.items() if names]:
        yield Caveat(
            "slow-device",
            "warning",
            f"slower than the other GPUs in the preflight: {'; '.join(texts)}",
        )


def _unlike_variables(system: SystemResult) -> list[str]:
    """Return the environment variables in which a system's runs differ, except those that select
    GPUs.
    """
    known = [found for result in system.valid_runs if (found := result.run.environment.settings)]
    names = sorted(set().union(*known))
    return [
        name
        for name in names
        if "VISIBLE" not in name and len({found.get(name) for found in known}) > 1
    ]


def _of_runs(systems: Sequence[SystemResult]) -> Iterator[Caveat]:
    # With a single run there is no interval, which the verdict itself says.
    if min(len(system.valid_runs) for system in systems) == 2:
        yield Caveat(
            "few-runs", "warning", "only two runs per system, so the confidence interval is wide"
        )
    found: dict[str, dict[str, Caveat]] = {}
    for system in systems:
        for caveat in _of_system(system, is_alone=len(systems) == 1):
            found.setdefault(caveat.code, {}).setdefault(system.name, caveat)
    for code in found:
        first, *also = found[code]
        text = found[code][first].text + (f"; also {join_names(also, 2)}" if also else "")
        yield dataclasses.replace(found[code][first], text=text)
    disturbances = []
    for system in systems:
        for result in system.valid_runs:
            if result.run.platform == "cpu":
                disturbances.append(result.run.disturbance)
    others = max(
        (disturbance.other_programs_cpu_share or 0.0 for disturbance in disturbances), default=0.0
    )
    stolen = max((disturbance.steal_cpu_share or 0.0 for disturbance in disturbances), default=0.0)
    users = [
        f"{user} used up to {share:.0%} of the CPU"
        for user, share in (("other programs", others), ("the hypervisor", stolen))
        if share > DISTURBED_SHARE
    ]
    if users:
        yield Caveat("disturbed", "warning", f"{' and '.join(users)} during the measurement")
    changed = []
    for system in systems:
        for before, after in itertools.pairwise(system.segments):
            changed.append(
                f"{system.name} at step {after.first_step} ({units.seconds(before.mean)} →"
                f" {units.seconds(after.mean)}"
                + (f", {after.cause.partition(':')[0]})" if after.cause else ")")
            )
    if changed:
        yield Caveat("speed-changed", "warning", f"speed changed: {join_names(changed)}")
    else:
        runs = [result.summary for system in systems for result in system.valid_runs]
        if several := sum(len(summary.segments) > 1 for summary in runs):
            text = f"{several} of {counted(len(runs), 'run')} changed speed part-way through"
            yield Caveat("speed-changed", "info", text)
    drifts = {}
    for system in systems:
        if known := [
            segment.drift
            for run in system.valid_runs
            for segment in run.summary.segments
            if segment.drift
        ]:
            drifts[system.name] = max(abs(drift) for drift in known)
    if drifts:
        text = (
            f"step time drifted by up to {max(drifts.values()):.0%} within a run of"
            f" {join_names(list(drifts))}"
        )
        yield Caveat("drift", "info", text)
    skipped = max(result.summary.skipped for system in systems for result in system.valid_runs)
    if skipped > NAMED_WARM_UP and not any(system.is_unsettled for system in systems):
        text = (
            f"the first {skipped} steps of each run are excluded: the latest slow start takes as"
            " long"
        )
        yield Caveat("slow-start", "info", text)
    unsteady = []
    for system in systems:
        if not all(run.summary.steady.found for run in system.valid_runs):
            unsteady.append(system.name)
    alone = []
    for system in systems:
        if any(
            len(result.run.steps) == 1 and result.summary.clock != "blocks"
            for result in system.valid_runs
        ):
            alone.append(system.name)
    if alone:
        whose = "each log" if len(alone) == len(systems) else f"the log of {join_names(alone)}"
        yield Caveat(
            "no-steady-state",
            "warning",
            f"{whose} has a single averaged record, which may include warm-up",
        )
    elif unsteady:
        where = some_names(unsteady, len(systems)) if len(unsteady) < len(systems) else "any system"
        text = f"no steady state in {where}: the result may include warm-up"
        yield Caveat("no-steady-state", "info", text)
    if shares := {
        system.name: share
        for system in systems
        if (share := longest_step_share(system)) > OUTLIER_SHARE
    }:
        name = max(shares, key=lambda name: shares[name])
        text = f"{name}: one outlier step took {shares[name]:.1%} of the measured time"
        yield Caveat("outlier", "info", text)
    if texts := [text for system in systems if (text := _sessions_text(system))]:
        yield Caveat("unlike-sessions", "warning", "; ".join(texts))
    for code, text_of in (("incomplete", incomplete_text), ("loss-not-finite", diverged_text)):
        if texts := [f"{system.name}: {text}" for system in systems if (text := text_of(system))]:
            yield Caveat(code, "warning", "; ".join(texts))


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
    for note in system.value_notes:
        if note.code == "steps-cut":
            yield Caveat("steps-cut", "info", f"{system.name}: {plain(sentences([note])[0])}")
    # If a single system's runs are of several sessions, the headline says that they differ.
    if system.spread >= DOUBTFUL_SPREAD and (not is_alone or system.is_one_session):
        text = f"runs of {system.name} differ {system.spread:.2f}×"
        question = "" if system.is_one_session else ": are they of one configuration?"
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
    lost = [result.run for result in system.runs if not is_finished(result.run)]
    if not system.valid_runs or not lost:
        return ""
    cause = f": {system.cause}" if system.cause else ""
    if len(lost) < len(system.runs):
        is_excluded = "are excluded" if len(lost) > 1 else "is excluded"
        return (
            f"{len(lost)} of {counted(len(system.runs), 'run')} did not finish and"
            f" {is_excluded}{cause}"
        )
    run = system.run
    word = "failed" if system.has_failed else "incomplete"
    done = max(run.steps, default=0)
    planned = run.training_config.max_steps or 0
    return (f"{word} ({done:,} of {planned:,} steps)" if 0 < done < planned else word) + cause


def diverged_text(system: SystemResult) -> str:
    """Return how many runs of a system diverged, how, and at which steps; empty for none."""
    found: dict[tuple[str, bool], list[Divergence]] = {}
    for result in system.runs:
        if one := divergence(result.run):
            found.setdefault((one.code, one.is_lasting), []).append(one)
    texts = []
    for (code, is_lasting), those in found.items():
        first = min(each.first for each in those)
        last = max(each.last for each in those)
        place = f"at steps between {first:,} and {last:,}" if first < last else f"at step {first:,}"
        place = f"from step {first:,} on" if is_lasting else place
        runs = f" in {len(those)} of {len(system.runs)} runs" if len(system.runs) > 1 else ""
        texts.append(f"{DIVERGED[code]} {place}{runs}")
    return "; ".join(texts)


def _sessions_text(system: SystemResult) -> str:
    """Return how the runs after the longest break differ from those before; empty if they don't, or
    without a break.
    """
    timed = (
        (result.run.started, trained_seconds(result.run), result.rate)
        for result in system.valid_runs
    )
    known = sorted(
        (began.timestamp(), seconds, rate) for began, seconds, rate in timed if began and rate
    )
    # Welch's t takes two runs before the break and two after it.
    if len(known) < 4:
        return ""
    breaks = (
        (late[0] - early[0] - early[1], i)
        for i, (early, late) in enumerate(itertools.pairwise(known), 1)
    )
    pause, first = max(breaks)
    before, after = ([rate for *_, rate in part] for part in (known[:first], known[first:]))
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
            why = "; ".join(different[0].training.reasons)
        else:
            why = "data, learning rate or loss differ"
        yield Caveat("training-differs", "info", f"model quality is not compared: {why}")
    synthetic: dict[str, list[str]] = {}
    for system in systems:
        for finding in system.findings:
            if finding.rule == "synthetic-data":
                synthetic.setdefault(finding.text, []).append(system.name)
    for text, names in synthetic.items():
        yield Caveat(
            "synthetic-data",
            "info",
            f"{join_names(names)}: {text}" if len(names) < len(systems) else text,
        )
