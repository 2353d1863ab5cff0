"""Comparisons and runs as plain values for --json: what the tables show, unrounded, with every reason."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tprimat.analysis.run_account import account_of
from tprimat.analysis.summary import Summary, summarize
from tprimat.compare import Comparison, Pair, SystemResult
from tprimat.compare.cost import cost
from tprimat.compare.regression import Check, RegressionCheck
from tprimat.compare.target import ratio, target
from tprimat.report.efficiency import EfficiencyTable, efficiency_tables, micro_batches
from tprimat.report.verdict import Answer, Report
from tprimat.results.run import Run


def dumped(values: Mapping[str, Any]) -> str:
    """Return values as JSON, as plain() makes them."""
    return json.dumps(plain(values), indent=2, ensure_ascii=False, allow_nan=False)


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON has them: None for infinity and NaN; a record is a dictionary of its fields."""
    return _finite(msgspec.to_builtins(values))  # type: ignore[no-any-return]


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, (list, tuple)) else value


def comparison_values(report: Report) -> dict[str, Any]:
    """Return a comparison with the efficiency of its systems. Speedups are of tokens/s/GPU, 1 or more."""
    comparison = report.comparison
    models = []
    for model in comparison.models:
        groups = [_group(comparison, answer) for answer in report.answers if answer.model is model]
        models.append({"model": model.model, "title": model.title, "groups": groups})
    files = [{"name": file.name, "sha256": file.sha256, "runs": len(file.runs)} for file in comparison.files]
    return {
        "status": int(comparison.status),
        "mode": comparison.mode,
        "models": models,
        "metrics": efficiency_values(efficiency_tables(comparison)),
        "notes": [*comparison.notes, *micro_batches(comparison)],
        "files": files,
    }


def run_values(run: Run, path: Path | str | None) -> dict[str, Any]:
    """Return a run by the names of the result file, without its series, and the path of its result if there is one."""
    summary = summarize(run)
    identity = ("model", "framework", "platform", "scale", "label", "timestamp", "num_gpus")
    return {
        "path": None if path is None else str(path),
        "status": run.status,
        "reason": run.status_reason,
        **{name: getattr(run, name) for name in identity},
        "training_config": run.training_config.known(),
        "performance_metrics": summary.performance.known(),
        "memory_metrics": run.memory_metrics.known(),
        "account": account_values(run, summary),
        "native_metrics": {name: value for name, value in run.native_metrics.items() if not isinstance(value, tuple)},
        "warnings": list(dict.fromkeys((*run.warnings, *summary.warnings))),
    }


def account_values(run: Run, summary: Summary) -> dict[str, Any] | None:
    """Return where a run's wall time went, s by part; None where nothing in it has a time."""
    account = account_of(run, summary)
    return None if account is None else {"whole": account.whole, **msgspec.to_builtins(account)}


def efficiency_values(tables: Sequence[EfficiencyTable]) -> list[dict[str, Any]]:
    """Return the efficiency of each system."""
    return [
        {
            "system": table.name,
            "model": table.model,
            "price_usd_per_gpu_hour": None if table.price is None else [table.price.low, table.price.high],
            "reason": table.reason,
            "columns": [
                {
                    "steps": each.steps,
                    "hints": list(each.hints),
                    "values": {
                        name: {"value": value.value, "low": value.low, "high": value.high, "note": value.reason}
                        for name, value in each.values.items()
                    },
                }
                for each in table.columns
            ],
        }
        for table in tables
    ]


def regression_values(found: RegressionCheck) -> dict[str, Any]:
    """Return a regression check with all its rows."""
    return {
        "status": int(found.status),
        "checks": [_check(check) for check in found.checks],
        "pairs": [_pair(None, pair) for pair in found.pairs],
        "notes": found.notes,
    }


def _check(check: Check) -> dict[str, Any]:
    threshold = check.threshold
    before, now = check.values or (None, None)
    return {
        "model": check.model,
        "baseline": check.baseline,
        "candidate": check.candidate,
        "metric": threshold and threshold.metric.name,
        "threshold": threshold and threshold.amount,
        "threshold_unit": threshold and ("%" if threshold.percent else threshold.metric.unit),
        "answer": check.answer,
        "text": check.text,
        "baseline_value": before,
        "candidate_value": now,
        "unit": threshold and threshold.metric.unit,
        "baseline_runs": check.runs[0],
        "candidate_runs": check.runs[1],
        "change": check.change,
        "low": check.low,
        "high": check.high,
        "method": check.method,
        "p": check.p,
        "p_adjusted": check.p_adjusted,
        "runs_needed": check.runs_needed,
    }


def _group(comparison: Comparison, answer: Answer) -> dict[str, Any]:
    group = answer.group
    return {
        **msgspec.to_builtins(answer.verdict),
        "baseline": group.baseline.name,
        "systems": [_system(comparison, system) for system in group.systems],
        "leaders": group.leaders and _pair(comparison, group.leaders),
        "pairs": [_pair(comparison, pair) for pair in group.pairs],
    }


def _system(comparison: Comparison, system: SystemResult) -> dict[str, Any]:
    return {
        "name": system.name,
        "full_name": system.full_name,
        "runs": len(system.runs),
        "valid_runs": len(system.valid_runs),
        "values": system.values,
        "segments": [msgspec.to_builtins(segment) for segment in system.segments],
        "findings": system.findings,
        "excluded": system.exclusion is not None,
        "order_of_runs": system.order,
        "target": target(system, comparison.options.target_loss),
        "warnings": [*system.value_warnings, *system.run_warnings],
        "files": list(dict.fromkeys(result.file for result in system.runs)),
        "accounts": [account_values(result.run, result.summary) for result in system.runs],
    }


def _pair(comparison: Comparison | None, pair: Pair) -> dict[str, Any]:
    found = None if comparison is None else cost(comparison, pair)
    return {
        "baseline": pair.baseline.name,
        "system": pair.system.name,
        "faster": pair.ratio and pair.faster.name,
        "slower": pair.ratio and pair.slower.name,
        "speedup": _speedup(pair),
        "reason": pair.reason,
        "configurations": pair.config_diff.verdict,
        "config_diff": pair.config_diff.entries,
        "same_training": pair.training.same,
        "same_training_reasons": pair.training.reasons,
        "agreeing_steps": pair.training.agreeing_steps,
        "target": comparison and ratio(pair.baseline, pair.system, comparison.options.target_loss),
        "sensitivity": {name: 1 / value if pair.is_inverted else value for name, value in pair.sensitivity},
        "cost": found
        and {
            "break_even_price_ratio": found.break_even,
            "cheaper": found.cheaper and found.cheaper.name,
            "saving_per_token": found.saving,
            "break_even_usd_per_gpu_hour": found.break_even_price,
        },
    }


def _speedup(pair: Pair) -> dict[str, Any] | None:
    """Return the speedup of the faster one; steps are those of the pair's system and baseline, whichever is faster."""
    if pair.ratio is None or pair.speedup is None:
        return None
    segments = [
        {"value": each.value, "system_steps": steps.system_steps, "baseline_steps": steps.baseline_steps}
        for each, steps in zip(pair.speedup.segments, pair.ratio.segments, strict=True)
    ]
    return {
        **msgspec.to_builtins(pair.speedup),
        "segments": segments,
        "significant": pair.speedup.is_significant,
    }
