"""Scaling on the screen, in Markdown, on the page and as a plot; projections on the screen."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import pytest
import screens
from made_runs import H100, HOSTILE, MI300X, comparison, make_run

from tprimat.compare.cost import with_prices
from tprimat.compare.curves import scaling_of
from tprimat.console import Verbosity
from tprimat.report import (
    Plot,
    Sources,
    json_values,
    markdown,
    page,
    plot,
    projection,
    scaling,
    verdict,
)

SOURCES = Sources("1.0", "compare_results.py --scaling")


def size(gpus: int, step_time: float, device: str = H100, count: int = 2, **fields) -> tuple:
    return tuple(
        make_run(
            device,
            gpus=gpus,
            step_time=step_time * (1 + 0.002 * index),
            timestamp=f"2026-02-02T1{index}:44:16+00:00",
            **fields,
        )
        for index in range(count)
    )


def report(*groups, prices=()) -> verdict.Report:
    found = comparison(*groups)
    found = (
        with_prices(found, prices, source="quote", date="2026-11-01").comparison
        if prices
        else found
    )
    return dataclasses.replace(verdict.report(found), scaling=scaling_of(found))


def communicating(gpus: int, batch: int = 64, **fields) -> tuple:
    return size(gpus, 0.4 * batch / gpus + 0.05 * math.log2(gpus), batch=batch, **fields)


def screen(text: str) -> str:
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert len(text.splitlines()) <= 22, text  # and the files' names
    return " ".join(text.split())


def test_the_screen_of_one_system():
    text = screen(screens.shown(report(size(8, 3.2), size(16, 1.7), size(32, 1.0))))
    assert "strong scaling, global batch 64 throughout" in text
    assert "80.0% scaling efficiency at 32 GPUs (8 = 100%) [95% CI" in text
    assert "Efficiency falls below 90% between 16 and 32 GPUs; 2 runs per point" in text
    assert "16 64 4,814 ± 1.3% 77,026 81,840 94.1% [93.5–94.7]" in text
    assert "ideal" in text


def test_nodes_are_a_column_where_they_are_known():
    found = report(size(8, 3.2), size(16, 1.7), size(32, 1.0))
    (curve,) = found.scaling.curves
    sizes = tuple(dataclasses.replace(each, nodes=each.gpus // 8) for each in curve.sizes)
    found = dataclasses.replace(
        found,
        scaling=dataclasses.replace(
            found.scaling, curves=(dataclasses.replace(curve, sizes=sizes),)
        ),
    )
    text = screen(screens.shown(found))
    assert "GPUs nodes batch" in text
    assert "32 4 64 4,092 ± 1.3% 130,944 163,680" in text


def test_prices_and_energy_fit_the_screen():
    energy = {"energy_joules": 6.4e6, "measured_tokens": 1.6e6}
    groups = [size(8 * 2**i, 3.2 / 2**i * 1.05**i, energy_metrics=energy) for i in range(12)]
    text = screen(screens.shown(report(*groups, prices=["H100=2.5"])))
    assert "Per GPU-hour: H100 (BF16) $2.50 from the command line (quote, 2026-11-01)" in text
    assert "tokens/USD" in text
    assert "tokens/J" in text
    assert "…" in text  # of twelve sizes the smallest and the largest ones


def test_several_systems_beside_each_other():
    first = [size(8, 3.2), size(16, 1.7), size(32, 1.1)]
    second = [
        size(8, 4.0, MI300X, stack="rocm"),
        size(16, 2.0, MI300X, 1, stack="rocm"),
        size(64, 0.5, MI300X, stack="rocm"),
    ]
    text = screen(screens.shown(report(*first, *second, prices=["H100=2", "MI300X=3:4"])))
    assert "Crossover between 16 and 32: H100 (BF16), nemo is faster per GPU below" in text
    assert "MI300X (BF16), primus: one run at 16 GPUs" in text
    many = [
        size(gpus, 40 / gpus, label=f"system {number}") for gpus in (8, 16) for number in range(12)
    ]
    text = screens.shown(report(*many))
    assert "4 more with --verbose" in text
    assert "4 more with --verbose" not in screens.shown(report(*many), verbosity=Verbosity.VERBOSE)
    assert (
        screens.shown(report(*many), verbosity=Verbosity.QUIET).count("efficiency at 16 GPUs") == 12
    )


def test_processes_on_a_cpu():
    groups = [
        size(1, 1.0, "a CPU", stack="cpu"),
        size(2, 0.6, "a CPU", stack="cpu"),
        size(4, 0.4, "a CPU", stack="cpu"),
    ]
    found = report(*groups)
    text = screens.shown(found)
    assert "efficiency at 4 processes" in text
    assert "GPU" not in text
    projected = projection.of_curve(found.scaling.curves[0], 8, None)
    assert "GPUs " not in screens.projected([projected], found.scaling).replace(
        "batch / GPUs", ""
    ).replace("(GPUs)", "")


def test_no_curve():
    found = report(size(8, 3.2), size(16, 1.7, length=4096))
    assert screens.shown(found).startswith(
        "No scaling data: no system was measured at two GPU counts\n"
    )
    assert "is not shown: measured at one GPU count only" in " ".join(screens.shown(found).split())
    text = markdown.render(found, SOURCES, None).decode()
    assert "**No scaling data: no system was measured at two GPU counts**" in text
    with_plot(found)


def with_plot(found) -> str:
    pytest.importorskip("matplotlib")
    content = plot.render(found, layout="scaling")
    assert content.startswith(b"\x89PNG")
    assert plot.render(found, layout="scaling", form="svg").lstrip().startswith(b"<?xml")
    return page.render(found, SOURCES, Plot("comparison_plot.png", "png", content)).decode()


def test_markdown_and_page():
    found = report(size(8, 3.2), size(16, 1.7), size(32, 1.0), prices=["H100=2"])
    text = " ".join(markdown.render(found, SOURCES, Plot("p.png", "png", b"")).decode().split())
    assert "## Scaling" in text
    assert "| 16 | 64 | 4 | 4,814 ± 1.3% | 77,026 | 81,840 | 94.1%" in text
    assert text.count("![") == 1
    html = with_plot(found)
    assert html.index('id="scaling"') < html.index('id="card"')
    assert html.count("<img") == 1
    assert "4,814 ± 1.3%" in html
    # Without --scaling nothing of it is there.
    plain = dataclasses.replace(found, scaling=None)
    assert 'id="scaling"' not in page.render(plain, SOURCES, None).decode()
    assert "Scaling" not in markdown.render(plain, SOURCES, None).decode()


def test_hostile_names_stay_text():
    found = report(
        size(8, 3.2, label=HOSTILE), size(16, 1.7, label=HOSTILE), size(32, 1.0, label=HOSTILE)
    )
    html = with_plot(found)
    assert "<script>alert" not in html
    for text in (
        screens.shown(found),
        screens.projected([projection.of_curve(found.scaling.curves[0], 64, None)], found.scaling),
    ):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_json():
    found = report(size(8, 3.2), size(16, 1.7), size(32, 1.0), prices=["H100=2"])
    values = json.loads(json_values.dumped(scaling.values(found.scaling)))
    (curve,) = values["curves"]
    assert (curve["kind"], curve["breaks_at_gpus"], curve["unit"]) == ("strong", 32, "tokens/s/GPU")
    last = curve["sizes"][-1]
    assert last["total"] == pytest.approx(last["per_gpu"]["value"] * 32)
    assert last["total"] / last["ideal"] == pytest.approx(last["efficiency"]["value"])
    assert curve["sizes"][0]["efficiency"] is None


def test_the_screen_of_a_projection():
    found = report(*(communicating(gpus) for gpus in (8, 16, 32, 64)))
    text = screen(
        screens.projected([projection.of_curve(found.scaling.curves[0], 256, None)], found.scaling)
    )
    assert "256×H100 (BF16): 262,000 tokens/s projected" in text
    assert re.search(
        r"Model: step time = 0\.40\d+ s × batch / GPUs \+ 0\.050\d* s × log2\(GPUs\)\.", text
    )
    assert "the communication model is used" in text
    assert "4 times the largest measured GPU count (64)" in text
    assert "0.25 sequences per GPU" in text


@pytest.mark.parametrize(
    ("gpus", "batch", "expected"),
    [
        (32, None, ("interpolated", "32 GPUs were measured:")),
        (4, None, ("below the smallest measured GPU count (8)",)),
        (100, None, ("batch 800 assumed (change it with --batch)",)),
        (100, 500, ("; batch 500",)),
        (
            100,
            123,
            ("; batch 123", "batch 123 is far from the measured batches (800 at this GPU count)"),
        ),
    ],
)
def test_what_a_projection_warns_of(gpus, batch, expected):
    found = report(*(communicating(each, 8 * each) for each in (8, 16, 32, 64)))
    text = " ".join(
        screens.projected(
            [projection.of_curve(found.scaling.curves[0], gpus, batch)], found.scaling
        ).split()
    )
    assert [each for each in expected if each not in text] == []


def test_a_given_batch_smaller_than_the_gpus():
    found = report(*(communicating(gpus) for gpus in (8, 16, 32, 64)))
    text = " ".join(projection.warnings(projection.of_curve(found.scaling.curves[0], 256, 60)))
    assert "0.234 sequences per GPU" in text


def test_an_interval_that_is_too_wide():
    found = report(size(8, 3.2), size(16, 2.5), size(32, 1.0))
    text = screens.projected(
        [projection.of_curve(found.scaling.curves[0], 64, None)], found.scaling
    )
    assert "too wide for planning: only 3 GPU counts were measured" in text


def test_two_sizes_are_not_projected():
    found = report(size(8, 3.2), size(16, 1.7))
    assert projection.of_curve(found.scaling.curves[0], 64, None) is None
    text = screens.projected([], found.scaling)
    assert text.startswith("No projection: no system was measured at 3 GPU counts")
    assert "Llama 3.1 8B, H100 (BF16): 2 GPU counts" in text
