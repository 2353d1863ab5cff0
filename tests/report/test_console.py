from __future__ import annotations

import golden
import pytest
from made_runs import HOSTILE, MI300X, comparison, failed_run, make_run
from rich.cells import cell_len

from tprimat.report import console

AMD = {"device": MI300X, "stack": "rocm"}


def two_runs(**fields):
    return (
        make_run(**fields),
        make_run(**{**fields, "step_time": 1.02 * fields.get("step_time", 3.2)}, timestamp="2026-02-03T00:00:00+00:00"),
    )


def many(count):
    return [
        make_run(label=f"setting {index} of a rather long name", step_time=3 + 0.1 * index) for index in range(count)
    ]


CASES = {
    "two_sides": lambda: comparison(make_run(precision=None), make_run(**AMD, step_time=2.4, batch=128)),
    "runs_and_models": lambda: comparison(
        two_runs(),
        two_runs(**AMD, step_time=2.4),
        make_run(model="qwen"),
        make_run(**AMD, model="qwen", step_time=3.25),
    ),
    "one_side": lambda: comparison(make_run()),
    "failed": lambda: comparison(make_run(), failed_run()),
    "six_sides": lambda: comparison(*many(6)),
}


@pytest.mark.parametrize("name", CASES)
def test_golden(name):
    golden.check(f"console_{name}.txt", console.render(CASES[name]()))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("name", CASES)
def test_no_line_is_too_wide_or_ends_in_spaces(name, width):
    for line in console.render(CASES[name](), width=width).splitlines():
        assert cell_len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("width", [60, 72, 80, 100])
def test_no_column_runs_out_of_the_line(width):
    long = {"framework": "a framework of a long name", "warnings": tuple(map(str, range(9)))}
    sides = [make_run(label=label, **long, step_time=step) for label, step in (("a", 3.2), ("b", 1.6), ("last", 0.3))]
    text = console.render(comparison(*sides), width=width)
    # Mean and median of the last column.
    assert text.count("0.300 s") == 2


class TestAnswer:
    def test_comes_first(self):
        text = console.render(comparison(make_run(), make_run(**AMD, step_time=1.6)))
        assert text.startswith(
            "All sides: scale full\n\nLlama 3.1 8B\n8×MI300X is 2.00 times as fast as 8×H100 80GB HBM3: "
            "10,240 against 5,120\ntokens/s/GPU."
        )

    def test_one_run_a_side_proves_little(self):
        text = " ".join(console.render(comparison(make_run(), make_run(**AMD))).split())
        assert "One run a side proves nothing about other runs." in text


def test_colour_only_when_asked():
    result = comparison(make_run(), make_run(**AMD))
    assert "\x1b[" not in console.render(result)
    colored = console.render(result, color=True)
    assert "\x1b[1m" in colored


def test_hostile_text_does_nothing():
    run = make_run(HOSTILE, label=HOSTILE, framework=HOSTILE, model=HOSTILE, warnings=(HOSTILE, "[/bold] [link=a]"))
    text = console.render(comparison(run, make_run(**AMD, model=HOSTILE), notes=[HOSTILE]))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "[bold]x[/bold]" in text
    assert "[/bold] [link=a]" in text


def test_footnotes_are_deduplicated_and_marked():
    shared = make_run(warnings=("a clock was guessed",)), make_run(**AMD, warnings=("a clock was guessed", "another"))
    text = console.render(comparison(*shared))
    assert text.count("a clock was guessed") == 1
    assert "1 [1]" in text
    assert "1 [1,2]" in text


def test_many_warnings_are_left_to_the_report_but_those_about_figures():
    run = make_run(steps=10, warnings=tuple(f"warning {index}" for index in range(30)))
    text = console.render(comparison(run))
    assert "[1] no steady state" in text
    assert "warning 10" in text
    assert "warning 11" not in text
    assert "Warnings 13 to 31 stand in the report." in text


class TestHowMuch:
    def test_quiet_is_the_verdict_alone(self):
        text = console.render(CASES["two_sides"](), limits=console.QUIET)
        assert " ".join(text.split()).startswith("Llama 3.1 8B 8×MI300X is 2.67 times as fast as 8×H100 80GB HBM3")
        assert "Why" not in text
        assert "Throughput" not in text
        assert "Warnings" not in text

    def test_quiet_has_a_verdict_for_every_model(self):
        text = console.render(CASES["runs_and_models"](), limits=console.QUIET)
        assert "Llama 3.1 8B" in text
        assert "Qwen 2.5 7B" in text

    def test_verbose_leaves_nothing_to_the_report(self):
        run = make_run(steps=10, warnings=tuple(f"warning {index}" for index in range(30)))
        text = console.render(comparison(run), limits=console.VERBOSE)
        assert "warning 29" in text
        assert "stand in the report" not in text

    @pytest.mark.parametrize("name", CASES)
    def test_verbose_holds_all_that_the_normal_one_holds(self, name):
        normal = " ".join(console.render(CASES[name]()).split())
        verbose = " ".join(console.render(CASES[name](), limits=console.VERBOSE).split())
        assert normal.split("Warnings")[0] in verbose or "more in the report" in normal
