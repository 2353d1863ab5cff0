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
from tprimat.results.run import sentences
from tprimat.text import plain


def pair(baseline: SystemResult, system: SystemResult, *, mode: Mode = "best") -> Pair:
    """Compare a system with the baseline; mode "same" rejects every difference of configuration."""
    config_diff = compute.config_diff(baseline.run, system.run, mode=mode)
    reason = (
        _untimed(baseline, system)
        or _different_models(baseline, system)
        or _untimed(baseline, system, and_unexplained=True)
        or next(
            (
                f"{each.name}: {each.exclusion.text}"
                for each in (baseline, system)
                if each.exclusion
            ),
            None,
        )
        or _unlike_runs(baseline)
        or _unlike_runs(system)
        or _same_run(baseline, system)
        or _other_configuration(config_diff, mode)
        or _no_ratio(baseline, system)
    )
    ratio = None if reason else speedup.ratio(baseline, system)
    runs = (*system.valid_runs, *baseline.valid_runs)
    single = len(baseline.valid_runs) == len(system.valid_runs) == 1
    return Pair(
        baseline,
        system,
        ratio,
        reason,
        config_diff,
        training.same_training(baseline.run, system.run),
        (windows.sensitivity(baseline.run, system.run, system.unit) if ratio and single else ()),
        tuple(dict.fromkeys(clock for result in runs if (clock := result.summary.clock))),
        any(result.summary.unsettled for result in runs),
    )


def _unlike_runs(system: SystemResult) -> str | None:
    if system.spread < UNLIKE or system.is_one_session:
        return None
    return (
        f"{system.name} has runs that differ {system.spread:.3g}×, so they are not of one"
        " configuration"
    )


def _same_run(*systems: SystemResult) -> str | None:
    """Return that a log was read twice, with other values of the user, and is compared with itself;
    else None.
    """
    one, other = (
        {
            (measurement(run), frozenset(file.sha256 for file in run.source.files)): result.file
            for result in system.valid_runs
            if (run := result.run).source and run.source.files
        }
        for system in systems
    )
    for key in one:
        if key in other:
            return f"{one[key]} and {other[key]} are copies of one run"
    return None


def _other_configuration(config_diff: ConfigDiff, mode: Mode) -> str | None:
    if mode != "same" or config_diff.verdict != "not comparable":
        return None
    titles = [entry.title for entry in config_diff.of("blocking")]
    return f"the configurations differ in {', '.join(titles)}"


def _different_models(*systems: SystemResult) -> str | None:
    """Return why the two trained something that can't be compared by its rate; None if they can
    be.
    """
    one, other = (each.run for each in systems)
    if conflict := shape_conflict(one.model_config, other.model_config):
        return f"the models differ in shape ({conflict})"
    scales = {one.scale, other.scale}
    if len(scales) > 1 and scales != {None, "full"}:
        first, second = (plain(scale) if scale else "unknown" for scale in (one.scale, other.scale))
        return f"the scales differ ({first} and {second}), so these are different models"
    if one.model is None and not same_known_shape(one.model_config, other.model_config):
        if all(each.unit == "steps" for each in systems):
            return None
        unlike = one_text.unlike_steps(*systems) if one_text.are_of_one(systems) else None
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
    is_said = and_unexplained or any(each.why_untimed != "has no step times" for each in untimed)
    if is_said:
        return "; ".join(f"{each.name} {each.why_untimed}" for each in untimed)
    return ""


def different_work(one: SystemResult, other: SystemResult) -> str | None:
    """Return why two systems did different work for what their rates count;
    else None.
    """
    lengths = [each.run.training_config.sequence_length for each in (one, other)]
    if one.unit != other.unit or (lengths[0] != lengths[1] and one.unit != "samples"):
        return (
            f"workload mismatch: sequence length {lengths[0] or 'unknown'} vs"
            f" {lengths[1] or 'unknown'}"
        )
    return _different_models(one, other)


def _no_ratio(baseline: SystemResult, system: SystemResult) -> str | None:
    """Return why there is no ratio of throughputs. Step times are never compared: steps differ in
    work.
    """
    lacking: dict[str, list[str]] = {}
    for each in (baseline, system):
        if each.value(RATE) is None:
            lacking.setdefault(_why_no_rate(each), []).append(each.name)
    if lacking:
        unit = f"{system.unit}/s/{kind_of_device((baseline, system))}"
        return "; ".join(
            f"{unit}{'' if len(names) == 2 else f' of {names[0]}'} is unknown{why}"
            for why, names in lacking.items()
        )
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
