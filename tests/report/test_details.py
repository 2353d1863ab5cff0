"""--verbose says once what is the same of several systems, pairs, runs or files."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from made_runs import MI300X, comparison, failed_run, make_run

from tprimat.notes import Note, skipped
from tprimat.report import document, tables, terminal
from tprimat.report.tables import Cell, Row
from tprimat.report.verdict import report
from tprimat.results.run import Source, SourceFile

AMD = {"device": MI300X, "stack": "rocm"}


def text_of(found, title=""):
    """Return the section of this title, or all of the details, on a line."""
    written = terminal.write(
        document.on_screen(report(found)), verbosity=terminal.Verbosity.VERBOSE, width=160
    )
    section = written.partition(f"\n{title}\n---")[2].partition("\n---")[0] if title else written
    return " ".join(section.split())


def many(count, **fields):
    return [
        make_run(label=f"setting {number}", step_time=3 + number / 10, **fields)
        for number in range(count)
    ]


class TestTexts:
    def rows(self, *values):
        names = [f"system {number}" for number in range(len(values))]
        table = tables.texts(names, [Row("title", tuple(map(Cell, values)))])
        return list(table.header), [list(row) for row in table.rows]

    def test_four_systems_are_side_by_side(self):
        assert self.rows("a", "b", "a", "a") == (
            ["", "system 0", "system 1", "system 2", "system 3"],
            [["title", "a", "b", "a", "a"]],
        )

    def test_of_five_each_value_has_its_systems_and_the_most_frequent_is_last(self):
        assert self.rows("a", "b", "a", "c", "a") == (
            ["", "Value", "Systems"],
            [["title", "b", "system 1"], ["", "c", "system 3"], ["", "a", "all others"]],
        )

    def test_one_value_is_that_of_all(self):
        assert self.rows(*["a"] * 5)[1] == [["title", "a", "all"]]


def test_what_is_the_same_of_most_pairs_is_said_once():
    details = text_of(comparison(*many(4)), "Detailed analysis")
    assert details.count("same configuration, as far as both report it") == 1
    assert "- all: same configuration" in details


def test_a_pair_that_differs_is_named():
    details = text_of(
        comparison(*many(4), make_run(label="setting 9", step_time=9.0, batch=32)),
        "Detailed analysis",
    )
    assert (
        "- all but setting 9 vs setting 1: same configuration, as far as both report it" in details
    )
    assert details.count("settings differ; each system runs its own configuration") == 1


def test_of_one_pair_nothing_is_moved():
    details = text_of(comparison(make_run(), make_run(**AMD)), "Detailed analysis")
    assert "- all" not in details


def test_why_a_pair_is_not_compared_is_below_it():
    details = text_of(comparison(make_run(), failed_run()), "Detailed analysis")
    assert (
        "not compared - 8×MI300X (BF16) has no step times: its run failed (out of memory)"
        in details
    )


def test_what_is_the_same_of_all_runs_is_above_their_table():
    details = text_of(comparison(*many(3)), "Detailed analysis")
    assert (
        "Runs (same in all: start 2026-02-02T21:44:16+00:00, status complete, steps 60, steady"
        " state 4–60" in details
    )
    two = text_of(comparison(*many(2)), "Detailed analysis")
    assert "Runs: System File Start Status Steps Steady state Warm-up Mean step" in two


def test_the_rate_of_a_run_is_in_the_unit_of_its_column():
    """Samples are compared, though one of the two states its sequence length."""
    mlperf = {"framework": "mlperf", "model": "llama2_70b_lora"}
    systems = (
        make_run(**mlperf, step_time=8.0),
        make_run(**mlperf, **AMD, step_time=9.0, length=None),
    )
    table = text_of(comparison(*systems), "Detailed analysis").partition("Runs:")[2]
    # 64 samples of 2,048 tokens in 7.948 s on 8 GPUs.
    assert " 7.948 s 1.007 8×" in table
    assert "2,061" not in table


def test_skipped_files_of_one_reason_are_one_note():
    found = comparison(make_run(), make_run(**AMD))
    notes = (
        skipped("a/b.json", "no step times"),
        skipped("c.json", "no step times"),
        skipped("d", "empty"),
        Note("text", {"text": "other: note"}),
    )
    sources = text_of(dataclasses.replace(found, notes=notes), "Sources")
    assert (
        "- skipped: a/b.json and c.json: no step times - skipped: d: empty - other: note" in sources
    )


@pytest.mark.parametrize(("digest", "count"), [("a" * 64, 1), ("b" * 64, 0)])
def test_a_log_that_was_compared_itself_is_no_source_of_a_result(digest, count):
    found = comparison(make_run(), make_run(**AMD))
    file, *rest = found.files
    source = Source(kind="log", files=(SourceFile(path=file.name, sha256="a" * 64),))
    run = msgspec.structs.replace(file.runs[0], source=source)
    files = (dataclasses.replace(file, sha256=digest, runs=(run,)), *rest)
    sources = text_of(dataclasses.replace(found, files=files), "Sources")
    assert sources.count("The results were imported from these logs") == 1 - count


def test_the_title_of_an_answer_is_not_repeated_below_it():
    found = comparison(*many(3), make_run(model="qwen"), make_run(model="qwen", **AMD))
    written = terminal.write(
        document.on_screen(report(found)), verbosity=terminal.Verbosity.VERBOSE
    )
    assert "\nQwen 2.5 7B\n8 GPUs each\n" in written


def test_break_evens_of_all_pairs_need_prices():
    found = comparison(
        make_run(), make_run(**AMD, step_time=3.0), make_run("NVIDIA H200", step_time=2.0)
    )
    assert text_of(found, "Performance metrics").count("is cheaper per token") == 1
