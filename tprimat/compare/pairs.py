"""Two systems: the ratio of their speeds, or why they can't be compared."""

from __future__ import annotations

from tprimat.analysis.token_rates import NO_RATE
from tprimat.checks import compute, training
from tprimat.checks.compute import ConfigDiff, Mode
from tprimat.checks.settings import same_known_shape, shape_conflict
from tprimat.compare import one_text, speedup, windows
from tprimat.compare.result import UNLIKE, Pair, SystemResult
from tprimat.compare.speedup import RATE, kind_of_device
from tprimat.compare.systems import measurement
from tprimat.results.run import Run, sentences
from tprimat.text import plain


def pair(baseline: SystemResult, system: SystemResult, *, mode: Mode = "best") -> Pair:
    """Compare a system with the baseline; mode "same" rejects every difference of configuration."""
    config_diff = compute.config_diff(baseline.run, system.run, mode=mode)
    reason = (
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
    ratio = None if reason else speedup.ratio(baseline, system)
    runs = (*system.valid_runs, *baseline.valid_runs)
    sensitivity: tuple[tuple[str, float], ...] = ()
    if ratio and len(baseline.valid_runs) == len(system.valid_runs) == 1:
        sensitivity = windows.sensitivity(baseline.run, system.run, system.unit)
    clocks = dict.fromkeys(result.summary.clock for result in runs)
    return Pair(
        baseline,
        system,
        ratio,
        reason,
        config_diff,
        training.same_training(baseline.run, system.run),
        sensitivity,
        tuple(filter(None, clocks)),
        baseline.is_unsettled or system.is_unsettled,
    )


def _why_excluded(system: SystemResult) -> str | None:
    if system.exclusion:
        return f"{system.name}: {sentences([system.exclusion.note])[0]}"
    return None


def _unlike_runs(system: SystemResult) -> str | None:
    if system.spread < UNLIKE or system.is_one_session:
        return None
    return (
        f"{system.name} has runs that differ {system.spread:.3g}×, so they are not of one"
        " configuration"
    )


def _same_run(baseline: SystemResult, system: SystemResult) -> str | None:
    """Return that a log was read twice, with other values of the user, and is compared with itself;
    else None.
    """
    files: dict[tuple[object, ...], str] = {}
    for result in system.valid_runs:
        if hashes := _hashes(result.run):
            files[measurement(result.run), hashes] = result.file
    for result in baseline.valid_runs:
        copy = files.get((measurement(result.run), _hashes(result.run)))
        if copy is not None:
            return f"{result.file} and {copy} are copies of one run"
    return None


def _hashes(run: Run) -> frozenset[str | None]:
    """Return the hashes of the files that a run was read from."""
    files = run.source.files if run.source else ()
    return frozenset(file.sha256 for file in files)


def _other_configuration(config_diff: ConfigDiff, mode: Mode) -> str | None:
    if mode != "same" or config_diff.verdict != "not comparable":
        return None
    titles = [entry.title for entry in config_diff.of("blocking")]
    return f"the configurations differ in {', '.join(titles)}"


def _different_models(*systems: SystemResult) -> str | None:
    """Return why the two trained something that can't be compared by its rate; None if they can
    be.
    """
    one, other = [system.run for system in systems]
    if conflict := shape_conflict(one.model_config, other.model_config):
        return f"the models differ in shape ({sentences([conflict])[0]})"
    scales = {one.scale, other.scale}
    if len(scales) > 1 and scales != {None, "full"}:
        first = plain(one.scale) if one.scale else "unknown"
        second = plain(other.scale) if other.scale else "unknown"
        return f"the scales differ ({first} and {second}), so these are different models"
    if one.model is None and not same_known_shape(one.model_config, other.model_config):
        if all(system.unit == "steps" for system in systems):
            return None
        unlike = None
        if one_text.are_of_one(systems):
            unlike = one_text.unlike_steps(*systems)
        return unlike or "the results don't say which model was trained"
    return None


def _untimed(*systems: SystemResult, and_unexplained: bool = False) -> str:
    """Return why systems have no valid step times; empty if all have, or their sources don't say
    why.
    """
    untimed = []
    for system in systems:
        if system.run.environment.emulated or system.value("avg_step_time_seconds") is None:
            untimed.append(system)
    reasons = {system.name: system.why_untimed for system in untimed}
    if and_unexplained or set(reasons.values()) != {"has no step times"}:
        return "; ".join(f"{name} {why}" for name, why in reasons.items())
    return ""


def different_work(one: SystemResult, other: SystemResult) -> str | None:
    """Return why two systems did different work for what their rates count;
    else None.
    """
    first = one.run.training_config.sequence_length
    second = other.run.training_config.sequence_length
    if one.unit != other.unit or (first != second and one.unit != "samples"):
        return f"workload mismatch: sequence length {first or 'unknown'} vs {second or 'unknown'}"
    return _different_models(one, other)


def _no_ratio(baseline: SystemResult, system: SystemResult) -> str | None:
    """Return why there is no ratio of throughputs. Step times are never compared: steps differ in
    work.
    """
    lacking: dict[str, list[str]] = {}
    for side in (baseline, system):
        if side.value(RATE) is None:
            lacking.setdefault(_why_no_rate(side), []).append(side.name)
    if lacking:
        unit = f"{system.unit}/s/{kind_of_device((baseline, system))}"
        texts = []
        for why, names in lacking.items():
            whose = f" of {names[0]}" if len(names) == 1 else ""
            texts.append(f"{unit}{whose} is unknown{why}")
        return "; ".join(texts)
    return different_work(baseline, system)


def _why_no_rate(system: SystemResult) -> str:
    """Return in brackets why a system has no rate, with a space before; empty if that is
    unknown.
    """
    if system.unit == "samples":
        sizes = {
            "batch size": system.run.training_config.global_batch_size,
            "number of GPUs": system.run.num_gpus,
        }
        return f" ({' and '.join(name for name, value in sizes.items() if not value)} unknown)"
    for note in system.value_notes:
        if note.code in NO_RATE:
            return f" ({plain(sentences([note])[0]).removeprefix('no throughput: ')})"
    return ""
