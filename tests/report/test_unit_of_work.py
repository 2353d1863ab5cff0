"""If systems are compared in samples, no output has a word about tokens; a cost is that of the
amount it names.
"""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from made_runs import MI300X, comparison, make_run
from screens import shown

from tprimat.compare.cost import with_prices
from tprimat.console import Verbosity
from tprimat.report import Sources, efficiency, json_values, markdown, page, plot, terminal
from tprimat.report.verdict import report

AMD = {"device": MI300X, "stack": "rocm"}
SOURCES = Sources("1.2.3", "compare_results.py")
WHY = (
    "sequence length unknown: step times only, no throughput in tokens",
    "sequence length unknown: throughput in samples/s only, not in tokens/s",
)
"""A log's own warnings, which say why its samples are compared."""


@pytest.fixture(params=[2, 3])
def priced(request):
    runs = [
        make_run(length=None, losses=False, batch=8),
        make_run(**AMD, length=None, losses=False, batch=8, step_time=1.6),
        make_run("NVIDIA B200", length=None, losses=False, batch=8, step_time=0.8),
    ]
    runs = [msgspec.structs.replace(run, framework="mlperf") for run in runs[: request.param]]
    return with_prices(comparison(*runs), ["H100=3", "MI300X=2:2.50", "B200=6"]).comparison


def seen(html):
    """Return what a reader of the page sees, and the data and sentences that its script shows."""
    scripts = "".join(
        re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', html, re.DOTALL)
    )
    values = [text for text in re.findall(r'"((?:[^"\\]|\\.)*)"(?!:)', scripts) if " " in text]
    tags = re.findall(r'(?:title|aria-label)="([^"]*)"', html)
    text = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    return "\n".join([re.sub(r"<[^>]*>", " ", text), *tags, *values])


def drawn(found):
    matplotlib = pytest.importorskip("matplotlib")
    figure = plot.figure(found)
    return "\n".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))


OUTPUTS = {
    "terminal": lambda found: shown(found),
    "verbose": lambda found: shown(found, verbosity=Verbosity.VERBOSE),
    "quiet": lambda found: shown(found, verbosity=Verbosity.QUIET),
    "efficiency": lambda found: terminal.write(
        efficiency.document(
            efficiency.efficiency_tables(found.comparison),
            efficiency.micro_batches(found.comparison),
        )
    ),
    "markdown": lambda found: markdown.render(found, SOURCES, None).decode(),
    "page": lambda found: seen(page.render(found, SOURCES, None).decode()),
    "json": lambda found: json_values.dumped(json_values.comparison_values(found)),
    "plot": drawn,
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_no_output_of_samples_has_a_word_about_tokens(output, priced):
    text = OUTPUTS[output](report(priced))
    assert "sample" in text.replace("\\u2076", "⁶")
    for warning in WHY:
        text = text.replace(warning, "")
    assert not re.findall(r".*token.*", text, re.IGNORECASE)


@pytest.mark.parametrize("output", ["terminal", "markdown", "page"])
def test_the_cost_is_that_of_a_million_samples(output, priced):
    text = OUTPUTS[output](report(priced))
    # 10⁶ samples at 8 per 3.2 s on 8 GPUs are 888.9 GPU-hours; at 8 per 1.6 s half of them.
    assert "10⁶ samples" in text or ("USD/10⁶" in text and "samples" in text)
    if output != "page":
        assert "2,667" in text
        assert "889–1,111" in text or "888.9–1,111" in text


def test_the_screen_and_the_efficiency_agree(priced):
    found = report(priced)
    values = json.loads(json_values.dumped(json_values.comparison_values(found)))
    (h100,) = [each for each in values["metrics"] if each["price_usd_per_gpu_hour"] == [3.0, 3.0]]
    (column,) = h100["columns"]
    assert column["values"]["dollars_per_million_samples"]["value"] == pytest.approx(
        3 * 1e6 * 3.2 / 3600, rel=2e-3
    )
    assert column["values"]["samples_per_second"]["value"] == pytest.approx(8 / 3.2, rel=2e-3)


class TestFirstScreen:
    """Rows of the table of two systems; the page and the report have all kinds of memory."""

    @pytest.mark.parametrize(
        ("kinds", "row"),
        [
            (({}, {}), ["memory allocated, peak", "40.25 GB", "40.25 GB"]),
            (
                (
                    {"peak_memory_allocated_gb": None, "peak_memory_reserved_gb": 50.0},
                    {"peak_memory_reserved_gb": 60.0},
                ),
                ["memory reserved, peak", "60.00 GB", "50.00 GB"],
            ),
            (({"peak_memory_allocated_gb": None}, {}), None),
        ],
    )
    def test_peak_memory_where_both_have_one_kind(self, kinds, row):
        runs = [make_run(), make_run(**AMD, step_time=1.6)]
        for index, kind in enumerate(kinds):
            memory = msgspec.structs.replace(runs[index].memory_metrics, **kind)
            runs[index] = msgspec.structs.replace(runs[index], memory_metrics=memory)
        rows = [
            re.split(r"  +", line.strip()) for line in shown(report(comparison(*runs))).splitlines()
        ]
        assert [each for each in rows if ", peak" in each[0]] == ([] if row is None else [row])

    def test_prices_take_its_line(self):
        text = shown(
            report(
                with_prices(
                    comparison(make_run(), make_run(**AMD)), ["H100=3", "MI300X=2"]
                ).comparison
            )
        )
        assert " peak" not in text
        assert len(text.splitlines()) <= 24

    @pytest.mark.parametrize("output", ["terminal", "verbose", "markdown", "page"])
    def test_a_reader_sees_six_digits_of_a_loss_at_most(self, output):
        run = make_run()
        losses = tuple(11.899412345678901 - index / 7 for index in range(60))
        found = comparison(
            msgspec.structs.replace(run, loss_values=losses), make_run(**AMD, step_time=1.6)
        )
        assert not re.findall(r"\b[1-9]\d*\.\d{6,}", OUTPUTS[output](report(found)))
