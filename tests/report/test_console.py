from __future__ import annotations

import random

import golden
import pytest
import screens
from made_runs import HOSTILE, MI300X, comparison, failed_run, make_run
from rich.cells import cell_len
from stored_runs import notes_of

from tprimat.console import Verbosity
from tprimat.report import terminal
from tprimat.report.blocks import Document, Table
from tprimat.report.verdict import report

AMD = {"device": MI300X, "stack": "rocm"}


def two_runs(**fields):
    return (
        make_run(**fields),
        make_run(
            **{**fields, "step_time": 1.02 * fields.get("step_time", 3.2)},
            timestamp="2026-02-03T00:00:00+00:00",
        ),
    )


def many(count):
    return [
        make_run(label=f"setting {index} of a rather long name", step_time=3 + 0.1 * index)
        for index in range(count)
    ]


CASES = {
    "two_systems": lambda: comparison(
        make_run(precision=None), make_run(**AMD, step_time=2.4, batch=128)
    ),
    "runs_and_models": lambda: comparison(
        two_runs(),
        two_runs(**AMD, step_time=2.4),
        make_run(model="qwen"),
        make_run(**AMD, model="qwen", step_time=3.25),
    ),
    "one_system": lambda: comparison(make_run()),
    "failed": lambda: comparison(make_run(), failed_run()),
    "six_systems": lambda: comparison(*many(6)),
    "impossible": lambda: comparison(make_run(step_time=0.3), make_run(**AMD)),
    "other_work": lambda: comparison(make_run(batch=8, length=8192), make_run()),
}


@pytest.mark.parametrize("name", CASES)
def test_golden(name):
    golden.check(f"console_{name}.txt", screens.shown(report(CASES[name]())))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("name", CASES)
def test_no_line_is_too_wide_or_ends_in_spaces(name, width):
    for line in screens.shown(report(CASES[name]()), width=width).splitlines():
        assert cell_len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("name", ["two_systems", "runs_and_models", "impossible", "other_work"])
def test_the_answer_fits_one_screen(name):
    text = screens.shown(report(CASES[name]()))
    # Two lines name the files below it.
    assert text.count("\n") <= 22


class TestAnswer:
    def test_comes_first(self):
        text = screens.shown(report(comparison(make_run(), make_run(**AMD, step_time=1.6))))
        assert text.startswith(
            "Llama 3.1 8B, 8 GPUs each\n\n  8×MI300X (BF16) is 2.0× as fast per GPU as 8×H100"
            " (BF16)\n  2.00×, 1 run each: run-to-run variation unknown\n\n"
        )

    def test_several_models_are_rows(self):
        lines = screens.shown(report(CASES["runs_and_models"]())).splitlines()
        rows = [line for line in lines if line.startswith(("Llama 3.1 8B ", "Qwen 2.5 7B "))]
        assert len(rows) == 2
        assert "MI300X" in rows[0]

    def test_pairs_of_one_model_or_of_other_systems_are_answers_of_their_own(self):
        workloads = comparison(
            *(make_run(**each, length=length) for each in ({}, AMD) for length in (2048, 4096))
        )
        others = comparison(
            make_run(),
            make_run(**AMD),
            make_run(model="qwen"),
            make_run("NVIDIA H200", model="qwen"),
        )
        for found in (workloads, others):
            text = screens.shown(report(found))
            assert text.count("tokens/s/GPU  ") == 1
            assert "(other results below)" in text.splitlines()[0]
            # One run each has no interval.
            assert "\nOther results\n! " in text
            assert "models" not in text

    def test_each_further_system_is_a_row(self):
        heights = [
            screens.shown(report(comparison(*many(count)))).count("\n") for count in (4, 5, 7)
        ]
        assert heights[1] - heights[0] == 1
        assert heights[2] - heights[1] == 2

    def test_two_thousand_systems_are_still_a_screen(self):
        text = screens.shown(report(comparison(*many(200))))
        assert "\n20 of 200 systems  " in text
        assert text.count("\n") < 45


def test_of_many_excluded_systems_the_first_are_named():
    runs = [
        make_run(label=f"build {number}", step_time=0.1 + number / 1000) for number in range(30)
    ]
    found = comparison(make_run(), make_run(**AMD), *runs)
    text = screens.shown(report(found))
    assert text.count("Not compared: ") == 3
    assert "27 more with --verbose" in text
    assert screens.shown(report(found), verbosity=Verbosity.VERBOSE).count("Not compared: ") == 30


def test_colour_only_when_asked():
    result = comparison(make_run(), make_run(**AMD))
    assert "\x1b[" not in screens.shown(report(result))
    colored = screens.shown(report(result), color=True)
    assert "\x1b[1m" in colored


def test_hostile_text_does_nothing():
    run = make_run(
        HOSTILE,
        label=HOSTILE,
        framework=HOSTILE,
        model=HOSTILE,
        notes=notes_of(HOSTILE, "[/bold] [link=a]"),
    )
    found = comparison(run, make_run(**AMD, model=HOSTILE), notes=notes_of(HOSTILE))
    text = screens.shown(report(found))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "[bold]x[/bold]" in text
    assert "[/bold] [link=a]" in " ".join(
        screens.shown(report(found), verbosity=Verbosity.VERBOSE).split()
    )


def test_caveats_are_few_and_counted():
    models = [
        make_run(model=name, **each)
        for name in ("llama", "qwen")
        for each in ({"precision": None}, AMD)
    ]
    text = " ".join(screens.shown(report(comparison(*models))).split())
    assert text.count("precision of 8×H100 is unknown") == 1


def test_warnings_are_left_to_verbose():
    shared = (
        make_run(notes=notes_of("a clock was guessed")),
        make_run(**AMD, notes=notes_of("a clock was guessed", "another")),
    )
    assert "guessed" not in screens.shown(report(comparison(*shared)))
    text = screens.shown(report(comparison(*shared)), verbosity=Verbosity.VERBOSE)
    assert text.count("a clock was guessed") == 1
    assert "another" in text


class TestVerbosity:
    def test_quiet_is_the_verdict_alone(self):
        text = screens.shown(report(CASES["two_systems"]()), verbosity=Verbosity.QUIET)
        assert text.splitlines() == [
            "8×MI300X (BF16) is 2.7× as fast per GPU as 8×H100",
            "2.67×, 1 run each: run-to-run variation unknown",
        ]

    def test_quiet_has_a_verdict_for_every_model(self):
        text = screens.shown(report(CASES["runs_and_models"]()), verbosity=Verbosity.QUIET)
        assert "Llama 3.1 8B" in text
        assert "Qwen 2.5 7B" in text

    @pytest.mark.parametrize("name", CASES)
    def test_verbose_holds_what_the_normal_one_holds(self, name):
        normal = screens.shown(report(CASES[name]())).split("Caveats")[0].split("Next")[0]
        assert normal in screens.shown(report(CASES[name]()), verbosity=Verbosity.VERBOSE)


def test_verbose_lists_the_files():
    text = screens.shown(
        report(comparison(make_run(), make_run(**AMD))), verbosity=Verbosity.VERBOSE
    )
    lines = text.splitlines()
    (head,) = [number for number, line in enumerate(lines) if line.startswith("Result file")]
    assert [line.split()[1] for line in lines[head + 2 : head + 6 : 2]] == ["1", "1"]


@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize("seed", range(8))
def test_names_in_a_table_are_whole_whatever_their_length(seed, width):
    """No name is cut or broken within a word; where there is room each has one line."""
    draw = random.Random(seed)
    count, longest = draw.randint(2, 30), draw.choice([24, 36, 120])
    names = [
        " ".join("w" * draw.randint(2, 9) for _ in range(draw.randint(1, longest // 10)))
        + f" {number}"
        for number in range(count)
    ]
    cells = ["1,234 ± 0.1%", "1.234 s", "1.23× [1.21–1.25]"]
    for table in (
        Table(
            ["", "tokens/s/GPU", "step time", "vs baseline [95% CI]"],
            [[name, *cells] for name in names],
        ),
        Table(["", *names[:2], "A / B"], [["step time, mean", *cells]]),
    ):
        lines = terminal.write(Document([table]), width=width).splitlines()
        assert max(map(len, lines)) <= width
        assert not [line for line in lines if "…" in line]
        shown = {word for line in lines for word in line.split()}
        assert {
            word for name in (names if len(table.rows) > 1 else names[:2]) for word in name.split()
        } <= shown
    if longest <= 24 and width >= 80:
        lines = terminal.write(
            Document([Table(["", "rate"], [[name, "1"] for name in names])]), width=width
        )
        assert len(lines.splitlines()) == len(names) + 2
