"""The panels under the chart of step times: which series, on which axis, and what is marked."""

from __future__ import annotations

import json
import re

from made_telemetry import replayed

from tprimat.compare import Loaded, compare
from tprimat.report import Sources, page
from tprimat.report.verdict import report


def chart_of(*systems):
    files = [Loaded(f"{number}.json", str(number), system) for number, system in enumerate(systems)]
    html = page.render(report(compare(files)), Sources("0", ""), None).decode()
    data = json.loads(
        re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1]
    )
    return next(chart for chart in data["charts"] if chart["kind"] == "steps"), html


def test_power_clock_and_temperature_of_gpus():
    chart, html = chart_of((replayed("h100", "thermal"),), (replayed("mi300x"),))
    assert [panel["title"].split(",")[0] for panel in chart["panels"]] == [
        "Power per GPU",
        "Clock of the slowest GPU",
        "Temperature of the hottest GPU",
    ]
    assert [trace["run"] for trace in chart["panels"][0]["traces"]] == [0, 1]
    # page.js reads the series from the result of the run, which is in the page.
    assert '"power_watts_per_gpu"' in html
    (marked,) = chart["events"]
    assert "thermal throttling" in marked["text"]
    assert marked["to"] - marked["from"] > 50
    assert " Shaded: 2×H100" in chart["note"]


def test_runs_of_one_system_are_marked_once():
    runs = tuple(replayed("h100", "thermal", seed=seed) for seed in (1, 2, 3))
    chart, _ = chart_of(runs, (replayed("mi300x"),))
    assert len(chart["events"]) == 1


def test_on_a_cpu():
    chart, _ = chart_of(
        (replayed("cpu", scale="tiny"),), (replayed("cpu", seed=2, scale="tiny", label="other"),)
    )
    units = [panel["unit"] for panel in chart["panels"]]
    assert units == ["W", "MHz", "%"]


def test_without_telemetry_the_chart_is_as_before():
    from made_runs import make_run

    chart, _ = chart_of((make_run(),), (make_run("AMD Instinct MI300X", stack="rocm"),))
    assert not {"panels", "events"} & set(chart)
