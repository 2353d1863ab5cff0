"""Two systems: the ratio of their speeds, or why they can't be compared."""

from __future__ import annotations

from tprimat.analysis.token_rates import NO_RATE
from tprimat.checks import compute, training
from tprimat.checks.compute import ConfigDiff, Mode
from tprimat.checks.settings import same_known_shape, shape_conflict
from tprimat.compare import one_text, speedup, windows
from tprimat.compare.result import UNLIKE, Pair, SystemResult, add_name
from tprimat.compare.speedup import RATE, kind_of_device
from tprimat.compare.systems import measurement
from tprimat.notes import Note, about
from tprimat.results.run import Run, sentences
from tprimat.text import plain


def pair(baseline: SystemResult, system: SystemResult, *, mode: Mode = "best") -> Pair:
    """Compare a system with the baseline; mode "same" rejects every difference of configuration."""
    config_diff = compute.config_diff(baseline.run, system.run, mode=mode)
    reasons = (
        _untimed(baseline, system)
        or _different_models(baseline, system)
        or _untimed(baseline, system, and_unexplained=True)
        or _why_excluded(baseline)
        or _why_excluded(system)
        or _unlike_runs(baseline)
        or _unlike_runs(system)
        or _same_run(baseline, system)
        or _other_configuration(config_diff, mode)
        or _no_ratio(baseline, system)
    )
    ratio = None if reasons else speedup.ratio(baseline, system)
    runs = (*system.valid_runs, *baseline.valid_runs)
    sensitivity: tuple[tuple[str, float], ...] = ()
    if ratio and len(baseline.valid_runs) == len(system.valid_runs) == 1:
        sensitivity = windows.sensitivity(baseline.run, system.run, system.unit)
    clocks = dict.fromkeys(result.summary.clock for result in runs)
    return Pair(
        baseline,
        system,
        ratio,
        reasons,
        config_diff,
        training.same_training(baseline.run, system.run),
        sensitivity,
        tuple(filter(None, clocks)),
        baseline.is_unsettled or system.is_unsettled,
    )


Reasons = tuple[Note, ...]
"""Why two systems can't be compared; empty if they can be."""


def _why_excluded(system: SystemResult) -> Reasons:
    if system.exclusion:
        return (about(system.name, system.exclusion.note),)
    return ()


def _unlike_runs(system: SystemResult) -> Reasons:
    if system.spread < UNLIKE or system.is_one_session:
        return ()
    return (about(system.name, Note("runs-of-several-configurations", {"spread": system.spread})),)


def _same_run(baseline: SystemResult, system: SystemResult) -> Reasons:
    """Return the reason if a run is compared with itself, such as a log that was read twice with
    different values of the user.
    """
    files: dict[tuple[object, ...], str] = {}
    for result in system.valid_runs:
        if hashes := _hashes(result.run):
            files[measurement(result.run), hashes] = result.file
    for result in baseline.valid_runs:
        copy = files.get((measurement(result.run), _hashes(result.run)))
        if copy is not None:
            return (Note("copies-of-one-run", {"file": result.file, "copy": copy}),)
    return ()


def _hashes(run: Run) -> frozenset[str | None]:
    """Return the hashes of the files that a run was read from."""
    files = run.source.files if run.source else ()
    return frozenset(file.sha256 for file in files)


def _other_configuration(config_diff: ConfigDiff, mode: Mode) -> Reasons:
    if mode != "same" or config_diff.verdict != "not comparable":
        return ()
    titles = [entry.title for entry in config_diff.of("blocking")]
    return (Note("configurations-not-equal", {"settings": tuple(titles)}),)


def _different_models(*systems: SystemResult) -> Reasons:
    """Return why the two trained something that can't be compared by its rate."""
    one, other = [system.run for system in systems]
    if conflict := shape_conflict(one.model_config, other.model_config):
        return (Note("shapes-differ", {"conflict": sentences([conflict])[0]}),)
    scales = {one.scale, other.scale}
    if len(scales) > 1 and scales != {None, "full"}:
        first = plain(one.scale) if one.scale else "unknown"
        second = plain(other.scale) if other.scale else "unknown"
        return (Note("scales-differ", {"first": first, "second": second}),)
    if one.model is None and not same_known_shape(one.model_config, other.model_config):
        if all(system.unit == "steps" for system in systems):
            return ()
        # Logs without a setup name no model and print rates, so their losses have to tell.
        if all(system.has_printed_rate for system in systems) and one_text.began_alike(one, other):
            return ()
        unlike = None
        if one_text.are_of_one(systems):
            unlike = one_text.unlike_steps(*systems)
        return (unlike or Note("models-unnamed"),)
    return ()


def _untimed(*systems: SystemResult, and_unexplained: bool = False) -> Reasons:
    """Return why systems have no valid step times. Empty if all have them, or, unless
    `and_unexplained`, if no source says why.
    """
    reasons = {}
    for system in systems:
        if system.run.environment.emulated or system.is_untimed:
            reasons[system.name] = system.why_untimed
    unexplained = Note("untimed")
    if and_unexplained or any(note != unexplained for note in reasons.values()):
        return tuple(about(name, note) for name, note in reasons.items())
    return ()


def different_work(one: SystemResult, other: SystemResult) -> Reasons:
    """Return why two systems did different work for what their rates count."""
    first = one.run.training_config.sequence_length
    second = other.run.training_config.sequence_length
    if one.unit != other.unit or (first != second and one.unit != "samples"):
        lengths = {"first": first or "unknown", "second": second or "unknown"}
        return (Note("workload-differs", {"what": "sequence length", **lengths}),)
    return _different_models(one, other)


def _no_ratio(baseline: SystemResult, system: SystemResult) -> Reasons:
    """Return why there is no ratio of throughputs. Step times never replace them, since steps may
    differ in work.
    """
    lacking: list[tuple[Note, list[str]]] = []
    unit = f"{system.unit}/s/{kind_of_device((baseline, system))}"
    for side in (baseline, system):
        if side.value(RATE) is None:
            add_name(lacking, _why_no_rate(side, unit), side.name)
    if lacking:
        reasons = []
        for note, names in lacking:
            if len(names) == 1:
                note = about(names[0], note)
            reasons.append(note)
        return tuple(reasons)
    return different_work(baseline, system)


_RATE_UNKNOWN = {
    "rate-withheld": "rate-contradicted",
    "no-rate": "rate-without-sizes",
    "no-rate-per-gpu": "rate-without-gpus",
    "no-times-recorded": "rate-without-times",
}
"""Codes of the reasons why a pair has no ratio, by the code of the system's note on its missing
rate, which is one of NO_RATE.
"""


def _why_no_rate(system: SystemResult, unit: str) -> Note:
    """Return why a system has no rate in this unit."""
    if system.unit == "samples":
        sizes = {
            "batch size": system.run.training_config.global_batch_size,
            "number of GPUs": system.run.num_gpus,
        }
        unknown = tuple(name for name, value in sizes.items() if not value)
        return Note("rate-without-batch", {"unit": unit, "unknown": unknown})
    for note in system.value_notes:
        if note.code in NO_RATE:
            return Note(_RATE_UNKNOWN[note.code], {**note.fields, "unit": unit})
    return Note("rate-unknown", {"unit": unit})
