#!/usr/bin/env python3
"""What a site costs: its size, and in Chromium the first paint and the slowest filter, of a record
and of a large one.

Every point is repeated until there are enough. A filter is timed on the page's thread, from the
event until the page is laid out; the first paint by the clock, so on an idle machine. Limits: 3 MB
compressed, 1 s until the first paint and 100 ms for a filter; three times that for 10,000 points.
Needs Chromium, chromedriver and Selenium.
"""

from __future__ import annotations

import dataclasses
import gzip
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import child

sys.path.insert(0, str(child.ROOT))

from tprimat.publish import data, pairs, points, series, site
from tprimat.publish.record import Record

MANY = 10_000
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--window-size=1280,800",
)
CHOOSE = """
const field = document.getElementById(arguments[0]);
field.value = arguments[1];
field.dispatchEvent(new Event(field.type === "search" ? "input" : "change", { bubbles: true }));
document.body.offsetHeight;
"""
STEPS = (
    *(
        ("precision", "fp8"),
        ("precision", "*"),
        ("model", "*"),
        ("count", "8"),
        ("count", "*"),
        ("task", "pretrain"),
    ),
    *(("q", "megatron"), ("q", "nvidia h100"), ("metric", "tokens"), ("model", "llama")),
)
"""Filters and what is chosen in them, one after the other."""


def main() -> int:
    """Measure both records; return 1 if one is over a limit."""
    evidence = points.published_points()
    shown = tuple(each.point for each in evidence)
    record = Record(points=shown, pairs=pairs.pairs(evidence), changes=series.changes(evidence))
    large = dataclasses.replace(record, points=shown * -(-MANY // len(shown)))
    # In turn, and the best of three: another program may take the time of one.
    found = [
        min((_measured(each) for _ in range(3)), key=lambda one: one["filter"])
        for each in (record, large)
    ]
    for each, times in zip(found, (1, 3), strict=True):
        print(
            f"{each['points']:,.0f} points: {each['size'] / 1e6:.2f} MB compressed (limit"
            f" {3 * times}), first paint {each['paint']:.0f} ms (limit {1000 * times}), slowest"
            f" filter {each['filter']:.0f} ms: {each['slowest']} (limit {100 * times})"
        )
    return int(any(each["size"] > 3e6 * n or each["paint"] > 1e3 * n or each["filter"] > 100 * n
                   for each, n in zip(found, (1, 3), strict=True)))  # fmt: skip


def _measured(record: Record) -> dict[str, Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = data.values(record, "2026-11-26")
        site.write(record, tables, folder)
        data.write(record, tables, folder)
        size = sum(
            len(gzip.compress(path.read_bytes())) for path in folder.rglob("*") if path.is_file()
        )
        options = webdriver.ChromeOptions()
        for flag in FLAGS:
            options.add_argument(flag)
        with webdriver.Chrome(
            options=options, service=Service(shutil.which("chromedriver"))
        ) as driver:
            driver.get((folder / "index.html").as_uri())
            paint = driver.execute_script(
                "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
            )
            driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
            times = {step: _time_of(driver, step) for step in STEPS}
    slowest = max(times, key=times.__getitem__)
    return {
        **{"points": len(record.points), "size": size, "paint": paint},
        **{"filter": times[slowest], "slowest": " ".join(slowest)},
    }


def _time_of(driver: Any, step: tuple[str, str]) -> float:
    """Return the time that a filter takes on the page's thread, ms."""

    def now() -> float:
        metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return next(each["value"] for each in metrics if each["name"] == "ThreadTime")

    before = now()
    driver.execute_script(CHOOSE, *step)
    return 1e3 * (now() - before)


if __name__ == "__main__":
    sys.exit(main())
