"""Two systems: the ratio of their speeds, or why they can't be compared."""

from __future__ import annotations

from tprimat.analysis.summary import WITHHELD
from tprimat.checks import compute, training
from tprimat.checks.compute import ConfigDiff, Mode
from tprimat.checks.settings import same_known_shape, shape_conflict
from tprimat.compare import speedup, windows
from tprimat.compare.result import UNLIKE, Pair, SystemResult
from tprimat.compare.speedup import RATE
from tprimat.results.run import Run
from tprimat.text import plain


def pair(baseline: SystemResult, system: SystemResult, *, mode: Mode = "best") -> Pair:
    """Compare a system with the baseline; mode "same" rejects every difference of configuration."""
    config_diff = compute.config_diff(baseline.run, system.run, mode=mode)
    reason = (
        _different_models(baseline.run, system.run)
        or _no_values(baseline)
        or _no_values(system)
        or _excluded(baseline)
        or _excluded(system)
        or _unlike_runs(baseline)
        or _unlike_runs(system)
        or _other_configuration(config_diff, mode)
        or _no_ratio(baseline, system)
    )
    ratio = None if reason else speedup.ratio(baseline, system)
    single = len(baseline.valid_runs) == len(system.valid_runs) == 1
    return Pair(
        baseline,
        system,
        ratio,
        reason,
        config_diff,
        training.same_training(baseline.run, system.run),
        windows.sensitivity(baseline.run, system.run, per_sample=system.per_sample) if ratio and single else (),
    )


def _excluded(system: SystemResult) -> str | None:
    finding = system.exclusion
    return None if finding is None else f"{system.name} is excluded: {finding.text}"


def _unlike_runs(system: SystemResult) -> str | None:
    if system.spread < UNLIKE:
        return None
    return f"{system.name} has runs that differ {system.spread:.3g}×, so they are not of one configuration"


def _other_configuration(config_diff: ConfigDiff, mode: Mode) -> str | None:
    if mode != "same" or config_diff.verdict != "not comparable":
        return None
    titles = [entry.title for entry in config_diff.of("blocking")]
    return f"the configurations differ in {', '.join(titles)}"


def _different_models(one: Run, other: Run) -> str | None:
    """Return why the two trained something that can't be compared per token; None where they can be."""
    conflict = shape_conflict(one.model_config, other.model_config)
    if conflict:
        return f"the models differ in shape ({conflict})"
    scales = {one.scale, other.scale}
    if len(scales) > 1 and scales != {None, "full"}:
        first, second = (plain(scale) if scale else "unknown" for scale in (one.scale, other.scale))
        return f"the scales differ ({first} and {second}), so these are different models"
    if one.model is None and not same_known_shape(one.model_config, other.model_config):
        return "the results don't say which model was trained"
    return None


def _no_values(system: SystemResult) -> str | None:
    name = system.name
    if system.run.environment.emulated:
        return f"{name} ran on an emulated device; its timings are not valid"
    if system.value("avg_step_time_seconds") is None:
        why = next((text for text in system.run_warnings if text.startswith("no step times: ")), None)
        return f"{name} has {why.partition(';')[0] if why else f'no step times: its run {system.exit_summary}'}"
    return None


def _no_ratio(baseline: SystemResult, system: SystemResult) -> str | None:
    """Return why there is no ratio of throughputs. Step times are never compared: steps differ in work."""
    lacking = [_why_no_rate(each) for each in (baseline, system) if each.value(RATE) is None]
    if lacking:
        return f"{'; '.join(dict.fromkeys(lacking))}; throughput needs batch size and sequence length"
    lengths = [each.run.training_config.sequence_length for each in (baseline, system)]
    if lengths[0] != lengths[1] and not system.per_sample:
        return f"workload mismatch: sequence length {lengths[0]} vs {lengths[1]}"
    return None


def _why_no_rate(system: SystemResult) -> str:
    warning = next((warning for warning in system.value_warnings if WITHHELD in warning), None)
    why = f" ({warning.removeprefix(WITHHELD).lstrip(': ')})" if warning else ""
    return f"{'samples' if system.per_sample else 'tokens'}/s/GPU of {system.name} is unknown{why}"
