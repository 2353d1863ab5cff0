"""A run on a simulated device: "emulated" stands for each of its times, wherever times are
shown.
"""

from __future__ import annotations

import re

import pytest
import screens
from made_runs import MI300X, comparison, make_run

from tprimat.analysis import summary as summaries
from tprimat.report import Sources, frameworks, markdown, page, terminal
from tprimat.report.verdict import report
from tprimat.results.run import Environment

EMULATED = Environment(emulated=True)


@pytest.fixture(scope="module")
def compared():
    return comparison(make_run(), make_run(device=MI300X, stack="rocm", environment=EMULATED))


def rows(text, *titles):
    return [line for line in text.splitlines() if any(title in line for title in titles)]


def test_it_has_no_speeds_and_says_why():
    summary = summaries.summarize(make_run(environment=EMULATED))
    figures = summary.performance
    assert (
        figures.avg_step_time_seconds
        is figures.tokens_per_second_per_gpu
        is figures.total_time_seconds
        is None
    )
    assert figures.total_steps == summaries.summarize(make_run()).performance.total_steps
    assert summary.warnings == ("ran on an emulated device, whose timings are not valid",)


def test_the_console(compared):
    text = screens.shown(report(compared), width=120)
    shown = rows(text, "tokens/s/GPU", "step time, mean")
    assert len(shown) == 2
    assert all(line.count("emulated") == 1 for line in shown)
    assert "8×MI300X (BF16) ran on an emulated device; its timings are not valid" in " ".join(
        text.split()
    )


def test_the_markdown(compared):
    text = markdown.render(report(compared), Sources("1", "x"), None).decode()
    shown = rows(text, "| Throughput,", "| Step time,")
    assert len(shown) == 7
    assert all("emulated" in line for line in shown)
    # A row for the run itself: warm-up, mean step, rate.
    assert any(line.count("emulated |") == 3 for line in text.splitlines())


def test_the_page(compared):
    text = page.render(report(compared), Sources("1", "x"), None).decode()
    shown = re.findall(r"<tr>.*?</tr>", text, re.DOTALL)
    for title in ("Throughput, tokens/s/GPU", "Step time, mean", "Step time, median"):
        (row,) = [each for each in shown if f'<th scope="row">{title}</th>' in each]
        assert len(re.findall(r"<td[^>]*>emulated<", row)) == 1
    assert any("an emulated device" in each for each in shown)
    assert "<span>emulated</span>" in text.partition("</section>")[0]
    # What isn't there leads nowhere.
    assert not re.search(r"<a[^>]*>emulated</a>", text)


def test_the_comparison_of_frameworks(compared):
    (line,) = [
        each
        for each in terminal.write(frameworks.document(report(compared)), width=160).splitlines()
        if each.startswith("Primus,")
    ]
    assert line.count("emulated") == 3
