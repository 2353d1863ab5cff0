"""Telemetry over the steps, as panels under the chart of step times: power, clock, temperature,
events.
"""

from __future__ import annotations

from collections.abc import Sequence

from tprimat.report.page.view import PlacedRun, chart_text
from tprimat.results.fields import JsonObject
from tprimat.text import plain

PANEL_HEIGHT = 120
MOST_EVENTS = 4
JOINED_STEPS = 3.0
"""Most steps between two events that are joined to one mark."""

PANELS = (
    ("power", "W", "Power per GPU, W", "power_watts_per_gpu"),
    ("power", "W", "Power of the CPU packages, W", "cpu_power_watts"),
    ("clock", "MHz", "Clock of the slowest GPU, MHz", "clock_mhz_lowest"),
    ("clock", "MHz", "Clock of the CPU, MHz", "cpu_frequency_mhz"),
    ("temperature", "°C", "Temperature of the hottest GPU, °C", "temperature_celsius_highest"),
    ("others", "%", "CPU used by other programs, %", "other_programs_cpu_percent"),
)
"""Kind, unit, title and series of each panel. For each of the three kinds, the first series that a
run has is drawn.
"""

MOST_PANELS = 3


def panels(runs: Sequence[PlacedRun]) -> list[JsonObject]:
    """Return the panels of the runs: title, unit, and the series of each run that has one."""
    panels_of_kinds: dict[str, JsonObject] = {}
    for kind, unit, title, series in PANELS:
        traces = []
        for run in runs:
            if any(value is not None for value in run.result.run.telemetry.series.get(series, ())):
                traces.append({"run": run.index, "system": run.system, "series": series})
        if traces and kind not in panels_of_kinds:
            panels_of_kinds[kind] = {"title": title, "unit": unit, "traces": traces}
    return list(panels_of_kinds.values())[:MOST_PANELS]


def events(runs: Sequence[PlacedRun]) -> list[JsonObject]:
    """Return the ranges of steps of each system in which there is a warning, without overlaps, each
    with the text of its first warning.
    """
    of_systems: dict[int, list[tuple[float, float, str]]] = {}
    for run in runs:
        for issue in run.result.run.telemetry.issues:
            if issue.severity != "warning" or issue.first_step is None or issue.last_step is None:
                continue
            row = issue.first_step - 0.5, issue.last_step + 0.5, chart_text(issue.sentence)
            of_systems.setdefault(run.system, []).append(row)
    marks: list[JsonObject] = []
    for system, rows in of_systems.items():
        first = len(marks)
        for start, end, text in sorted(rows, key=lambda row: (row[0], -row[1])):
            # Runs of a system throttle at about the same steps; shades on top of each other would
            # hide the lines.
            if len(marks) > first and start <= marks[-1]["to"] + JOINED_STEPS:
                marks[-1]["to"] = max(marks[-1]["to"], end)
            else:
                marks.append({"system": system, "from": start, "to": end, "text": text})
    return marks


def note(names: Sequence[str], marked: Sequence[JsonObject]) -> str:
    """Return a text that explains the marks."""
    if not marked:
        return ""
    texts = [f"{names[mark['system']]}, {mark['text']}" for mark in marked[:MOST_EVENTS]]
    if len(marked) > MOST_EVENTS:
        texts.append(f"{len(marked) - MOST_EVENTS} more")
    return " " + plain(f"Shaded: {'; '.join(texts)}.")
