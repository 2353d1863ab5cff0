"""Prints the texts of reports at a level as JSON: `python texts_at_level.py 0.9`
(report/test_confidence.py).
"""

from __future__ import annotations

import dataclasses
import io
import json
import sys

from tprimat.analysis import intervals

# Texts that are constants of modules are made from the level, so it is set before these are
# imported.
intervals.CONFIDENCE = float(sys.argv[1])

import screens
from made_runs import MI300X, comparison, make_run
from made_traces import MadeTrace

from tprimat.analysis.traces.breakdown import Breakdown
from tprimat.compare import Loaded
from tprimat.compare.curves import scaling_of
from tprimat.compare.regression import check_regression
from tprimat.compare.step_difference import Traced, explain
from tprimat.compare.threshold import parse
from tprimat.console import Verbosity
from tprimat.read.kineto.timeline import read_timeline
from tprimat.report import (
    Sources,
    efficiency,
    frameworks,
    markdown,
    projection,
    regression,
    terminal,
)
from tprimat.report import explain as explanation_report
from tprimat.report.verdict import report


def runs(step_time, count=4, **fields):
    return tuple(
        make_run(
            step_time=step_time * (1 + 0.002 * day),
            timestamp=f"2026-02-0{day}T00:00:00+00:00",
            **fields,
        )
        for day in range(1, count + 1)
    )


def traced(name, product):
    made, breakdown = MadeTrace(), Breakdown()
    for step in range(3):
        made.step(step, 1000 * step, 1000 * step + product + step)
        made.kernel("gemm", 1000 * step + 2, 1000 * step + 4, 1000 * step + product + step)
    breakdown.add(read_timeline(io.BytesIO(made.text()))[0])
    return Traced(name, breakdown.trace(), None)


AMD = {"device": MI300X, "stack": "rocm"}


def texts() -> dict[str, str]:
    """Return the texts of each view by its name."""
    pair = report(comparison(runs(3.2), runs(3.0, **AMD)))
    trained = [(runs(3.2, model=name), runs(3.0, model=name, **AMD)) for name in ("llama", "qwen")]
    models = report(comparison(*(group for each in trained for group in each)))
    several = report(comparison(runs(3.2), runs(3.0, **AMD), runs(2.8, device="NVIDIA H200")))
    curve = scaling_of(
        comparison(*(runs(32 / gpus + 0.1 * gpus**0.5, gpus=gpus) for gpus in (8, 16, 32)))
    )
    sized = dataclasses.replace(pair, scaling=curve)
    projected = [projection.of_curve(curve.curves[0], 64, None)]
    files = [
        [Loaded("old", "1" * 64, runs(3.2))],
        [Loaded("new", "2" * 64, runs(3.6, label="new"))],
    ]
    check = check_regression(*files, parse("3%", ()))
    difference = explain(traced("A", 500), traced("B", 700))
    sources = Sources("1.0", "compare_results.py")
    systems = efficiency.efficiency_tables(pair.comparison)
    return {
        "comparison": screens.shown(pair),
        "models": screens.shown(models),
        "several systems": screens.shown(several, verbosity=Verbosity.VERBOSE),
        "frameworks": terminal.write(frameworks.document(pair)),
        "efficiency": terminal.write(efficiency.document(systems, [])),
        "scaling": screens.shown(sized),
        "projection": screens.projected(projected, curve),
        "explanation": terminal.write(explanation_report.document(difference)),
        "regression check": terminal.write(regression.document(check)),
        "summary of the check": regression.summary(check, "").decode(),
        "report": markdown.render(pair, sources, None).decode(),
        "report of scaling": markdown.render(sized, sources, None).decode(),
    }


print(json.dumps(texts()))
