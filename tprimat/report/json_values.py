"""Comparisons and runs -> plain values for a program: what the tables show, unrounded, with every reason."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tprimat.analysis.summary import SegmentMetrics, summarize
from tprimat.compare import Comparison, Group, Pair, SideResult
from tprimat.compare.gate import Check, Gate
from tprimat.compare.money import cost
from tprimat.report import verdict
from tprimat.report.efficiency import Sheet, micro_batches, sheets
from tprimat.results.run import Run


def dumped(values: dict[str, Any]) -> str:
    """Values as JSON, which knows no infinity; a record in them is a dictionary of its fields."""
    return json.dumps(_finite(msgspec.to_builtins(values)), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list) else value


def comparison_values(comparison: Comparison) -> dict[str, Any]:
    """A comparison with the metrics of its sides.

    Ratios are of tokens/s/GPU, above 1 where the side is faster than the reference.
    """
    models = []
    for model in comparison.models:
        answers = zip(model.groups, verdict.answers(model), strict=True)
        groups = [_group(comparison, group, answer) for group, answer in answers]
        models.append({"model": model.model, "title": model.title, "groups": groups})
    files = [{"name": file.name, "sha256": file.sha256, "runs": len(file.runs)} for file in comparison.files]
    return {
        "status": int(comparison.status),
        "mode": comparison.mode,
        "models": models,
        "metrics": sheet_values(sheets(comparison)),
        "notes": [*comparison.notes, *micro_batches(comparison)],
        "files": files,
    }


def run_values(run: Run, path: Path | str | None) -> dict[str, Any]:
    """A training by the names of the result file, without its series, and the file of its result if there is one."""
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
        "native_metrics": {name: value for name, value in run.native_metrics.items() if not isinstance(value, tuple)},
        "warnings": list(dict.fromkeys((*run.warnings, *summary.warnings))),
    }


def sheet_values(found: Sequence[Sheet]) -> list[dict[str, Any]]:
    """What speeds are worth, side by side."""
    return [
        {
            "side": sheet.name,
            "model": sheet.model,
            "price_usd_per_gpu_hour": None if sheet.price is None else [sheet.price.low, sheet.price.high],
            "why_none": sheet.why_none,
            "levels": [
                {
                    "steps": each.steps,
                    "hints": list(each.hints),
                    "figures": {
                        name: {"value": value.value, "low": value.low, "high": value.high, "note": value.reason}
                        for name, value in each.values.items()
                    },
                }
                for each in sheet.found
            ],
        }
        for sheet in found
    ]


def gate_values(found: Gate) -> dict[str, Any]:
    """A gate with all its checks."""
    return {
        "status": int(found.status),
        "checks": [_check(check) for check in found.checks],
        "pairs": [_pair(None, pair) for pair in found.pairs],
        "notes": found.notes,
    }


def _check(check: Check) -> dict[str, Any]:
    allowance = check.allowance
    before, now = check.values or (None, None)
    return {
        "model": check.model,
        "baseline": check.baseline,
        "candidate": check.candidate,
        "metric": allowance and allowance.metric.name,
        "allowed": allowance and allowance.amount,
        "allowed_in": allowance and ("%" if allowance.percent else "unit"),
        "answer": check.answer,
        "text": check.text,
        "baseline_value": before,
        "candidate_value": now,
        "unit": allowance and allowance.metric.unit,
        "baseline_runs": check.runs[0],
        "candidate_runs": check.runs[1],
        "change": check.change,
        "low": check.low,
        "high": check.high,
        "runs_needed": check.needed,
    }


def _group(comparison: Comparison, group: Group, answer: verdict.Answer) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(answer),
        "sides": [_side(side) for side in group.sides],
        "pairs": [_pair(comparison, pair) for pair in group.pairs],
    }


def _side(side: SideResult) -> dict[str, Any]:
    return {
        "name": side.name,
        "full_name": side.full_name,
        "runs": len(side.runs),
        "counted": len(side.counted),
        "figures": side.figures,
        "levels": [_level(segment) for result in side.counted[:1] for segment in result.summary.segments],
        "findings": side.findings,
        "refused": side.refusal is not None,
        "order_of_runs": side.order,
        "warnings": [*side.doubts, *side.warnings],
        "files": list(dict.fromkeys(result.file for result in side.runs)),
    }


def _level(segment: SegmentMetrics) -> dict[str, Any]:
    names = {"outliers": "spikes", "outlier_share": "spike_share"}
    return {names.get(name, name): value for name, value in msgspec.to_builtins(segment).items()}


def _pair(comparison: Comparison | None, pair: Pair) -> dict[str, Any]:
    money = None if comparison is None else cost(comparison, pair)
    return {
        "reference": pair.reference.name,
        "side": pair.side.name,
        "ratio": pair.ratio and {**msgspec.to_builtins(pair.ratio), "shown": pair.ratio.shown},
        "reason": pair.reason,
        "caveats": pair.caveats,
        "configurations": pair.ledger.verdict,
        "ledger": pair.ledger.entries,
        "same_training": pair.training.same,
        "same_training_reasons": pair.training.reasons,
        "agreeing_steps": pair.training.agreeing_steps,
        "sensitivity": dict(pair.sensitivity),
        "money": money
        and {
            "break_even_price_ratio": money.break_even,
            "tokens_per_dollar_ratio": money.per_dollar,
            "winner": money.winner and money.winner.name,
            "other_wins_below_usd_per_gpu_hour": money.wins_below,
        },
    }
