"""Nothing in a plot is cut, and no text lies over another or outside, at any length of names."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from made_runs import HOSTILE, MI300X, comparison, failed_run, make_run
from matplotlib.backends.backend_agg import FigureCanvasAgg

from tprimat.compare.curves import scaling_of
from tprimat.report import plot
from tprimat.report.plot.layout import Sheet
from tprimat.report.verdict import report
from tprimat.results.run import MemoryMetrics

AMD = {"device": MI300X, "stack": "rocm"}
MEMORY = MemoryMetrics(
    avg_memory_allocated_gb=30.0,
    peak_memory_allocated_gb=35.0,
    peak_memory_reserved_gb=50.0,
    peak_memory_device_used_gb=60.0,
)


def repeated(step_time, factors=(1.0, 1.003, 0.997), **fields):
    return tuple(
        make_run(
            step_time=step_time * factor, timestamp=f"2026-02-{day:02d}T00:00:00+00:00", **fields
        )
        for day, factor in enumerate(factors, 1)
    )


def named(length, count):
    """Return a comparison of as many systems, whose names have this length."""
    found = comparison(
        *(
            make_run(**(AMD if n % 2 else {}), label=str(n), step_time=2 + 0.1 * n)
            for n in range(count)
        )
    )
    for number, system in enumerate(found.systems):
        words = ("8×H100, a configuration in some words, " * 4)[: length - 3].rstrip()
        object.__setattr__(system, "name", f"{words} {number:02d}".rjust(length, "x"))
    return found


def shown(figure):
    """Return the texts that are drawn, with their boxes in pixels and the axes that they belong
    to.
    """
    FigureCanvasAgg(figure).draw()
    found = [(text, None) for text in figure.texts]
    found += [(text, None) for legend in figure.legends for text in legend.get_texts()]
    for axes in figure.axes:
        found += [
            (text, axes)
            for text in (axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.texts)
        ]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            found += [
                (tick.label1, axes)
                for tick in axis.get_major_ticks()
                if low <= tick.get_loc() <= high
            ]
    return [
        (text.get_text(), text.get_window_extent(), axes) for text, axes in found if text.get_text()
    ]


def check(figure):
    texts = shown(figure)
    edge = figure.bbox
    outside = [
        text
        for text, box, _ in texts
        if min(box.x0, box.y0) < 0 or box.x1 > edge.x1 or box.y1 > edge.y1
    ]
    assert outside == []
    touching = [
        (one, other)
        for (one, first, _), (other, second, _) in itertools.combinations(texts, 2)
        if min(first.x1, second.x1) - max(first.x0, second.x0) > 0.5
        and min(first.y1, second.y1) - max(first.y0, second.y0) > 0.5
    ]
    assert touching == []
    for axes in figure.axes:
        right = axes.get_window_extent().x1
        beside = [text for text in axes.texts if text.xycoords == "data"]
        assert [text.get_text() for text in beside if text.get_window_extent().x1 > right + 1] == []
    places = [axes.get_window_extent() for axes in figure.axes]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(places, 2))
    return texts


@pytest.mark.parametrize("layout", ["standard", "frameworks"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: comparison(make_run(), make_run(**AMD, step_time=2.4)),
        lambda: comparison(make_run()),
        lambda: comparison(make_run(memory_metrics=MEMORY), make_run(**AMD, memory_metrics=MEMORY)),
        lambda: comparison(repeated(3.2), repeated(2.8, **AMD)),
        lambda: comparison(repeated(3.2, (1, 1.01, 1.02, 0.99, 1.0)), make_run(**AMD, batch=32)),
        lambda: comparison(repeated(3.2, (0.8, 1.2)), repeated(3.0, (0.8, 1.2), **AMD)),
        lambda: comparison(
            make_run("NVIDIA H100", framework="mlperf", length=None), failed_run(framework="mlperf")
        ),
        lambda: comparison(
            make_run(), make_run(**AMD, native_metrics={"tokens_per_second": 1e6}), failed_run()
        ),
        lambda: comparison(
            *(make_run(**more, model=f"model {index}") for index in range(3) for more in ({}, AMD))
        ),
        lambda: comparison(make_run(label=HOSTILE), make_run(**AMD, label="x" * 90)),
        lambda: comparison(failed_run()),
    ],
)
def test_texts_are_inside_and_apart(make, layout):
    check(plot.figure(report(make()), layout=layout))


@pytest.mark.parametrize(
    ("count", "length"), [(2, 12), (2, 40), (2, 80), (2, 120), (30, 12), (30, 120)]
)
def test_names_of_any_length_are_shown_whole(count, length):
    systems = named(length, count)
    assert {len(system.name) for system in systems.systems} == {length}
    figure = plot.figure(report(systems))
    check(figure)
    names = [" ".join(label.get_text().split()) for label in figure.axes[0].get_yticklabels()]
    assert names == [" ".join(system.name.split()) for system in systems.systems]
    entries = [" ".join(text.get_text().split()) for text in figure.legends[0].get_texts()]
    assert entries == names[:12]


def test_a_word_is_broken_only_where_it_is_wider_than_a_line():
    sheet = Sheet()
    room = sheet.width("a line of words")
    assert sheet.wrapped("a line of words and one more", room) == [
        "a line of words",
        "and one more",
    ]
    assert sheet.wrapped("a line of words", room - 0.01) == ["a line of", "words"]
    path = sheet.wrapped("megatron_core_llama32_1B_fp8_mi355x.log", room)
    assert "".join(path) == "megatron_core_llama32_1B_fp8_mi355x.log"
    assert all(line.endswith("_") for line in path[:-1])
    assert all(sheet.width(line) <= room for line in path)


def test_x3_a_name_of_many_characters_is_cut_before_it_is_measured(monkeypatch):
    """Each place at which it may break is measured: of 60,000 characters that took minutes."""
    sheet, measured = Sheet(), []
    whole = sheet.width
    monkeypatch.setattr(sheet, "width", lambda *line: measured.append(len(line[0])) or whole(*line))
    assert "".join(sheet.wrapped("x" * 499, 5.0)) == "x" * 499
    shown = "".join(sheet.wrapped("h[1-99999]" * 6_000, 5.0))
    assert (len(shown), shown[-1]) == (500, "…")
    assert max(measured) <= 500


def scaling(points, curves=1, label=""):
    groups = [
        repeated(
            (2.2 + 0.1 * number) * 1.05**power,
            (1.0, 1.004),
            gpus=8 * 2**power,
            batch=32 * 2**power,
            label=f"{label}{number}" if label else None,
            **(AMD if number % 2 else {}),
        )
        for number in range(curves)
        for power in range(points)
    ]
    found = comparison(*groups)
    return dataclasses.replace(report(found), scaling=scaling_of(found))


@pytest.mark.parametrize("curves", [1, 2, 3])
@pytest.mark.parametrize("points", [2, 3, 7, 12])
def test_texts_of_a_scaling_are_apart_from_each_other_and_from_all_that_is_drawn(points, curves):
    long = (
        "a configuration whose name is so long that it has more than one line in the legend below"
        " all panels, number "
    )
    figure = plot.figure(scaling(points, curves, long if curves > 1 else ""), layout="scaling")
    check(figure)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "Throughput of all GPUs",
        "Scaling efficiency",
    ]
    # Inside the axes there is no text that could lie over a point or its error bar.
    assert [
        text.get_text() for axes in figure.axes for text in axes.texts if text.xycoords == "data"
    ] == []


@pytest.mark.parametrize(("curves", "label"), [(1, "8\n32"), (2, "8")])
def test_the_batch_of_one_curve_is_below_its_gpus(curves, label):
    figure = plot.figure(scaling(3, curves), layout="scaling")
    assert [axes.get_xticklabels()[-1].get_text() for axes in figure.axes] == [label] * 2
    assert figure.axes[0].get_xlabel() == (
        "GPUs, and below them the global batch" if curves == 1 else "GPUs"
    )


def test_without_a_curve_the_systems_are_compared():
    found = comparison(make_run(), make_run(**AMD, step_time=2.4))
    figure = plot.figure(
        dataclasses.replace(report(found), scaling=scaling_of(found)), layout="scaling"
    )
    assert figure.axes[0].get_title(loc="left") == "Throughput, tokens/s/GPU"
