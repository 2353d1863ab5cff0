"""Comparisons and runs -> plain values for a program: what the tables show, unrounded, with every reason."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tprimat.analysis.summary import SegmentMetrics, summarize
from tprimat.catalog.prices import Price
from tprimat.checks.finding import Finding
from tprimat.compare import Comparison, Group, Pair, SideResult
from tprimat.compare.gate import Gate
from tprimat.compare.money import cost
from tprimat.report import verdict
from tprimat.report.efficiency import Sheet
from tprimat.report.sheets import micro_batches, sheets
from tprimat.results.run import Run


def dumped(values: dict[str, Any]) -> str:
    """Values as JSON, which knows no infinity."""
    return json.dumps(_finite(values), indent=2, ensure_ascii=False, allow_nan=False)


def comparison_values(comparison: Comparison) -> dict[str, Any]:
    """A comparison with the metrics of its sides.

    Ratios are of tokens/s/GPU, above 1 where the side is faster than the reference.
    """
    return {
        "status": int(comparison.status),
        "mode": comparison.mode,
        "models": [
            {
                "model": model.model,
                "title": model.title,
                "groups": [
                    _group(comparison, group, answer)
                    for group, answer in zip(model.groups, verdict.answers(model), strict=True)
                ],
            }
            for model in comparison.models
        ],
        "metrics": sheet_values(sheets(comparison)),
        "notes": [*comparison.notes, *micro_batches(comparison)],
        "files": [
            {"name": file.name, "sha256": file.sha256, "runs": len(file.runs)} for file in comparison.files
        ],
    }  # fmt: skip


def run_values(run: Run, path: Path | str | None) -> dict[str, Any]:
    """A training by the names of the result file, without its series.

    Args:
        run: the training.
        path: the file of its result; None where there is none.
    """
    summary = summarize(run)
    return {
        "path": None if path is None else str(path),
        "status": run.status,
        "reason": run.status_reason,
        "model": run.model,
        "framework": run.framework,
        "platform": run.platform,
        "scale": run.scale,
        "label": run.label,
        "timestamp": run.timestamp,
        "num_gpus": run.num_gpus,
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
            "price_usd_per_gpu_hour": _price(sheet.price),
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
        "checks": [
            {
                "model": check.model,
                "baseline": check.baseline,
                "candidate": check.candidate,
                "metric": None if check.allowance is None else check.allowance.metric.name,
                "allowed": None if check.allowance is None else check.allowance.amount,
                "allowed_in": None if check.allowance is None else "%" if check.allowance.percent else "unit",
                "answer": check.answer,
                "text": check.text,
                "baseline_value": None if check.values is None else check.values[0],
                "candidate_value": None if check.values is None else check.values[1],
                "unit": None if check.allowance is None else check.allowance.metric.unit,
                "baseline_runs": check.runs[0],
                "candidate_runs": check.runs[1],
                "change": check.change,
                "low": check.low,
                "high": check.high,
                "runs_needed": check.needed,
            }
            for check in found.checks
        ],
        "pairs": [_pair(None, pair) for pair in found.pairs],
        "notes": list(found.notes),
    }


def _group(comparison: Comparison, group: Group, answer: verdict.Answer) -> dict[str, Any]:
    return {
        "headline": answer.headline,
        "brief": list(answer.brief),
        "why": list(answer.why),
        "next": list(answer.next),
        "sides": [_side(side) for side in group.sides],
        "pairs": [_pair(comparison, pair) for pair in group.pairs],
    }


def _side(side: SideResult) -> dict[str, Any]:
    return {
        "name": side.side.name,
        "full_name": side.side.full_name,
        "runs": len(side.runs),
        "counted": len(side.counted),
        "figures": {name: dataclasses.asdict(figure) for name, figure in side.figures.items()},
        "levels": [_level(segment) for result in side.counted[:1] for segment in result.summary.segments],
        "findings": [_finding(finding) for finding in side.findings],
        "refused": side.refusal is not None,
        "order_of_runs": None if side.order is None else dataclasses.asdict(side.order),
        "warnings": [*side.doubts, *side.warnings],
        "files": list(dict.fromkeys(result.file for result in side.runs)),
    }


def _level(segment: SegmentMetrics) -> dict[str, Any]:
    names = {"outliers": "spikes", "outlier_share": "spike_share"}
    return {names.get(name, name): value for name, value in dataclasses.asdict(segment).items()}


def _finding(finding: Finding) -> dict[str, Any]:
    return {**dataclasses.asdict(finding), "explanations": list(finding.explanations)}


def _pair(comparison: Comparison | None, pair: Pair) -> dict[str, Any]:
    ratio = None
    if pair.ratio is not None:
        ratio = {**dataclasses.asdict(pair.ratio), "shown": pair.ratio.shown}
    money = None if comparison is None else cost(comparison, pair)
    return {
        "reference": pair.reference.side.name,
        "side": pair.side.side.name,
        "ratio": ratio,
        "reason": pair.reason,
        "caveats": list(pair.caveats),
        "configurations": pair.ledger.verdict,
        "ledger": [dataclasses.asdict(entry) for entry in pair.ledger.entries],
        "same_training": pair.training.same,
        "same_training_reasons": list(pair.training.reasons),
        "agreeing_steps": pair.training.agreeing_steps,
        "sensitivity": dict(pair.sensitivity),
        "money": None
        if money is None
        else {
            "break_even_price_ratio": list(money.break_even),
            "tokens_per_dollar_ratio": None if money.per_dollar is None else list(money.per_dollar),
            "winner": None if money.winner is None else money.winner.side.name,
            "other_wins_below_usd_per_gpu_hour": None if money.wins_below is None else list(money.wins_below),
        },
    }


def _price(price: Price | None) -> list[float] | None:
    return None if price is None else [price.low, price.high]


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, (list, tuple)) else value
