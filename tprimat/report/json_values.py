"""Comparisons and runs as plain values for --json: what the tables show, unrounded, with every
reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tprimat.analysis.run_account import account_of
from tprimat.analysis.summary import SegmentMetrics, Summary, summarize
from tprimat.checks import Finding
from tprimat.compare import Comparison, Pair, SystemResult
from tprimat.compare.cost import cost
from tprimat.compare.regression import Check, RegressionCheck
from tprimat.compare.target import Target, TargetRatio, ratio, target
from tprimat.notes import Note
from tprimat.notes.catalogue import safe_sentences, sentence, words
from tprimat.report.blocks import Distinct
from tprimat.report.efficiency import EfficiencyTable, efficiency_tables, micro_batches
from tprimat.report.rates import loss_ends, run_warnings, value_warnings
from tprimat.report.verdict import Answer, Report
from tprimat.results.fields import JsonObject
from tprimat.results.run import Run


def dumped(values: Mapping[str, Any]) -> str:
    """Return the JSON text of values, converted by plain()."""
    return json.dumps(plain(values), indent=2, ensure_ascii=False, allow_nan=False)


def plain(values: Mapping[str, Any]) -> JsonObject:
    """Return values that JSON can represent: None instead of infinity and NaN, and dictionaries
    instead of records.
    """
    return _finite(msgspec.to_builtins(values))  # type: ignore[no-any-return]


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_finite, value))
    return value


def fields(record: object, *names: str) -> JsonObject:
    """Return fields of a record by name. `name=path.to.it` is the field at that path, None if a
    part of the path is None.
    """
    values = {}
    for text in names:
        name, _, path = text.partition("=")
        value: Any = record
        for part in (path or name).split("."):
            if value is not None:
                value = value[int(part)] if part.isdecimal() else getattr(value, part)
        values[name] = value
    return values


def note_values(name: str, notes: Sequence[Note]) -> JsonObject:
    """Return the sentences of notes under a name such as notes, and their codes with fields under
    note_codes.
    """
    return {name: [*map(words, notes)], f"{name.removesuffix('s')}_codes": notes}


def findings_values(findings: Sequence[Finding]) -> list[JsonObject]:
    """Return findings of checks: each sentence, and its code with fields."""
    values = []
    for finding in findings:
        values.append(
            {
                **fields(finding, "severity", "rule"),
                "text": words(finding.note),
                "text_code": finding.note,
                **note_values("explanations", finding.explanations),
            }
        )
    return values


def comparison_values(report: Report) -> JsonObject:
    """Return a comparison with the efficiency of its systems. Speedups are the system's rate over
    the baseline's.
    """
    comparison = report.comparison
    models = []
    for model in comparison.models:
        groups = [_group(comparison, answer) for answer in report.answers if answer.model is model]
        models.append({**fields(model, "model", "title"), "groups": groups})
    files = []
    for file in comparison.files:
        files.append({**fields(file, "name", "sha256"), "runs": len(file.runs)})
    return {
        "status": int(comparison.status),
        "mode": comparison.mode,
        "models": models,
        "metrics": efficiency_values(efficiency_tables(comparison)),
        "notes": [*safe_sentences(comparison.notes), *micro_batches(comparison)],
        "note_codes": comparison.notes,
        "files": files,
    }


def run_values(run: Run, path: Path | str | None) -> JsonObject:
    """Return a run by the names of the result file, without its series, and the path of its result
    if there is one.
    """
    summary = summarize(run)
    native = {}
    for name, value in run.native_metrics.items():
        if not isinstance(value, tuple):
            native[name] = value
    return {
        "path": path and str(path),
        **fields(run, *_RUN),
        "training_config": run.training_config.known(),
        "performance_metrics": summary.performance.known(),
        "memory_metrics": run.memory_metrics.known(),
        "account": account_values(run, summary),
        "native_metrics": native,
        "warnings": list(dict.fromkeys((*run.warnings, *summary.warnings))),
    }


_RUN = (
    *("status", "reason=status_reason", "model", "framework", "platform", "scale", "label"),
    *("timestamp", "num_gpus"),
)


def account_values(run: Run, summary: Summary) -> JsonObject | None:
    """Return the parts of a run's wall time, s; None if nothing in it has a time."""
    account = account_of(run, summary)
    if account is None:
        return None
    return {"whole": account.whole, **msgspec.to_builtins(account)}


def efficiency_values(tables: Sequence[EfficiencyTable]) -> list[JsonObject]:
    """Return the efficiency of each system."""
    systems = []
    for table in tables:
        columns = []
        for column in table.columns:
            values = {}
            for name, value in column.values.items():
                values[name] = fields(value, "value", "low", "high", "note=reason")
            columns.append({"steps": column.steps, "hints": list(column.hints), "values": values})
        systems.append(
            {
                **fields(table, "system=name", "model"),
                "price_usd_per_gpu_hour": table.price and [table.price.low, table.price.high],
                "reason": table.reason,
                "columns": columns,
            }
        )
    return systems


def regression_values(found: RegressionCheck) -> JsonObject:
    """Return a regression check with all its rows."""
    why = None
    codes: tuple[Note, ...] = ()
    if found.is_partial:
        codes = (Note("file-unread"),)
        why = sentence(codes)
    elif check := found.first_not_passed:
        codes = check.notes
        why = f"{check.answer}: {sentence(codes)}"
    return {
        "status": int(found.status),
        "keep_as_baseline": why is None,
        "why_no_baseline": why,
        "why_no_baseline_codes": codes,
        "checks": list(map(_check, found.checks)),
        "pairs": [_pair(None, pair) for pair in found.pairs],
        "notes": safe_sentences(found.notes),
        "note_codes": found.notes,
    }


def _check(check: Check) -> JsonObject:
    return {
        **fields(check, *_CHECK),
        "text": sentence(check.notes),
        "text_codes": check.notes,
        **fields(check, *_VALUES),
        "basis": f"{words(check.basis)}." if check.basis else "",
        "basis_code": check.basis,
    }


_CHECK = (
    *("model", "baseline", "candidate"),
    *(
        "metric=threshold.metric.name",
        "threshold=threshold.amount",
        "threshold_unit=threshold.unit",
        "answer",
    ),
)
_VALUES = (
    *("baseline_value=values.0", "candidate_value=values.1", "unit=threshold.metric.unit"),
    *(
        "baseline_runs=runs.0",
        "candidate_runs=runs.1",
        "change",
        "low",
        "high",
        "method",
        "p",
        "p_adjusted",
    ),
    "runs_needed",
)


def _group(comparison: Comparison, answer: Answer) -> JsonObject:
    group = answer.group
    caveats = []
    for caveat in answer.verdict.caveats:
        values = fields(caveat, "code", "severity")
        caveats.append({**values, "text": sentence(caveat.notes), "notes": caveat.notes})
    return {
        **msgspec.to_builtins(answer.verdict),
        "caveats": caveats,
        "baseline": group.baseline.name,
        "unit": group.baseline.unit,
        "systems": [_system(comparison, system) for system in group.systems],
        "leaders": group.leaders and _pair(comparison, group.leaders),
        "pairs": [_pair(comparison, pair) for pair in group.pairs],
    }


def _system(comparison: Comparison, system: SystemResult) -> JsonObject:
    files: Distinct = {}
    accounts = []
    for result in system.runs:
        files[result.file] = None
        accounts.append(account_values(result.run, result.summary))
    return {
        **fields(system, "name", "full_name"),
        "runs": len(system.runs),
        "valid_runs": len(system.valid_runs),
        **fields(system, "values"),
        "segments": list(map(_segment, system.segments)),
        "findings": findings_values(system.findings),
        "excluded": system.exclusion is not None,
        "order_of_runs": system.order,
        "final_loss_steps": loss_ends(system),
        "target": _target(target(system, comparison.options.target_loss)),
        "warnings": [*value_warnings(system), *run_warnings(system)],
        "warning_codes": [*system.value_notes, *system.run_notes],
        "files": list(files),
        "accounts": accounts,
    }


def _segment(segment: SegmentMetrics) -> JsonObject:
    """Return a segment with the cause of its speed as a sentence, and as a code with fields."""
    values = msgspec.to_builtins(segment)
    cause = segment.cause and words(segment.cause)
    return {**values, "cause": cause, "cause_code": segment.cause}


def _pair(comparison: Comparison | None, pair: Pair) -> JsonObject:
    ratio_values = None
    faster = slower = None
    if pair.ratio:
        ratio_values = msgspec.to_builtins(pair.ratio)
        ratio_values["significant"] = pair.ratio.is_significant
        faster = pair.faster.name
        slower = pair.slower.name
    to_target = None
    costs = None
    if comparison is not None:
        to_target = _target(ratio(pair.baseline, pair.system, comparison.options.target_loss))
        costs = cost(comparison, pair)
    return {
        **fields(pair, "baseline=baseline.name", "system=system.name"),
        "faster": faster,
        "slower": slower,
        "speedup": ratio_values,
        "reason": sentence(pair.reasons) or None,
        "reason_codes": pair.reasons,
        **fields(pair, "configurations=config_diff.verdict", "config_diff=config_diff.entries"),
        **fields(pair.training, "same_training=same"),
        **note_values("same_training_reasons", pair.training.reasons),
        **fields(pair.training, "agreeing_steps"),
        "target": to_target,
        "sensitivity": dict(pair.sensitivity),
        "cost": costs and fields(costs, *_COST),
    }


def _target(found: Target | TargetRatio | None) -> JsonObject | None:
    if found is None:
        return None
    values = {
        **msgspec.to_builtins(found),
        "notes": safe_sentences(found.notes),
        "note_codes": found.notes,
    }
    if isinstance(found, TargetRatio):
        del values["reasons"]
        values["reason"] = sentence(found.reasons) or None
        values["reason_codes"] = found.reasons
    return values


_COST = (
    *("break_even_price_ratio=break_even", "cheaper=cheaper.name", "saving"),
    "break_even_usd_per_gpu_hour=break_even_price",
)
