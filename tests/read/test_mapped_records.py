"""Records of the values that a user names: what their times would be otherwise, torn lines."""

from __future__ import annotations

import io

import pytest
from test_line_pattern import file_of, run_of

from tprimat.notes.catalogue import words
from tprimat.read import mapped
from tprimat.read.parsing.mapped_records import (
    ELAPSED,
    INTERVAL,
    MILLISECONDS,
    columns_by_words,
)
from tprimat.read.parsing.parsed_log import InputFile


def log(apart: float, times: list[float], steps: int = 1, form: str = "{:09.6f}") -> str:
    """Return a log whose records lie `apart` s from each other."""
    lines = []
    for place, time in enumerate(times, 1):
        at = form.format(place * apart % 60)
        minute = int(place * apart / 60)
        lines.append(f"2026-01-01 10:{minute:02}:{at} step {place * steps} time {time:.4f}\n")
    return "".join(lines)


def codes(text: str, pattern: str = "step {step} time {time}") -> list[str]:
    (found,) = file_of(pattern, text)
    return [note.code for note in found.run().notes if note.code.startswith("times-fit")]


@pytest.mark.parametrize(
    ("apart", "times", "steps", "code"),
    [
        (2.0, [2.0] * 20, 1, []),
        (2.0, [2000.0] * 20, 1, [MILLISECONDS]),
        # A fifth of the time may be evaluations.
        (2.0, [1610.0] * 20, 1, [MILLISECONDS]),
        (2.0, [1590.0] * 20, 1, []),
        (2.0, [2390.0] * 20, 1, [MILLISECONDS]),
        (2.0, [2410.0] * 20, 1, []),
        (2.0, [2.0] * 20, 10, [INTERVAL]),
        (2.0, [0.2] * 20, 10, []),
        (2.0, [2.0 * place for place in range(1, 21)], 1, [ELAPSED]),
        (2.0, [2.0 * place + 100 for place in range(1, 21)], 1, [ELAPSED]),
        # One of them is no time since the start.
        (2.0, [*(2.0 * place for place in range(1, 20)), 37.0], 1, []),
    ],
)
def test_what_the_times_would_be_otherwise(apart, times, steps, code):
    assert codes(log(apart, times, steps)) == code


@pytest.mark.parametrize(("count", "code"), [(4, []), (5, [MILLISECONDS])])
def test_a_clock_of_whole_seconds_shows_it_after_four_of_them(count, code):
    assert codes(log(1.0, [1000.0] * count, form="{:02.0f}")) == code


def test_the_time_since_the_start_shows_it_too():
    rows = "".join(f"{step},500,{step / 2}\n" for step in range(1, 21))
    part = InputFile("a.csv", io.BytesIO(f"n,t,at\n{rows}".encode()))
    for named, code in (
        ("step=n,time=t,elapsed=at", [MILLISECONDS]),
        ("step=n,time_ms=t,elapsed=at", []),
    ):
        part.stream.seek(0)
        (found,) = mapped.file_format(mapped.columns(named)).read([part], {})
        notes = [note for note in found.run().notes if note.code.startswith("times-fit")]
        assert [note.code for note in notes] == code
        assert all("write ms behind {time}" in words(note) for note in notes)


TORN = "".join(
    f"step {step} loss {5 - step / 64:.4f} dt {2 + step / 512:.4f} s\n" for step in range(1, 10)
)


@pytest.mark.parametrize(
    ("tail", "steps"),
    [
        # Another process wrote into the line: what follows is of that one.
        ("step 10 loss 4.2 step 11 loss 4.3123 dt 2.0000 s\n", [11]),
        ("step 10 loss 4.2step 11 loss 4.3123 dt 2.0000 s\n", [11]),
        ("step 10 loss 4.2\nstep 11 loss 4.1234 dt 2.0000 s\n", [11]),
        ("step 10 loss 4.1234 dt 2.0000 s step 11 loss 4.3\n", [10]),
        ("step 10 loss 4.1234 dt 2.0", []),
        ("step 10 loss 4.1234 dt 2.0000 s, 12", [10]),
    ],
)
def test_values_of_two_lines_make_no_record(tail, steps):
    run = run_of("step {step} .* loss {loss} .* dt {time}", TORN + tail)
    assert list(run.steps[9:]) == steps
    assert set(run.step_times[9:]) <= {2.0}


@pytest.mark.parametrize(("count", "seconds"), [(2, [0.5] * 9), (3, [0.5] * 9 + [1.0])])
def test_lines_that_differ_in_the_same_way_are_whole(count, seconds):
    """In one line 1.00s behind a loss with fewer decimals may be another line's; in three it is a
    form of its own.
    """
    log = "".join(f"step {step} loss 4.1234 dt 0.5000 s\n" for step in range(1, 10))
    log += "".join(f"step {10 + step} loss 4.12345s dt 1.0000 s\n" for step in range(count))
    run = run_of("step {step} .* loss {loss} .* dt {time}", log)
    assert list(run.step_times) == seconds


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("step 1 loss 2 dt 3 s", "line 2 has step and loss, but not what comes after"),
        ("else", "no line of it has them all"),
    ],
)
def test_no_line_has_all_values(line, problem):
    with pytest.raises(ValueError, match=problem):
        file_of("step {step} .* loss {loss} .* dt {time} ms", f"x\n{line}\nstep 2\n")


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["n", "x"], "step=COLUMN,time=COLUMN"),
        (["step"], "step=COLUMN,time=COLUMN"),
        (["_step", "_runtime", "eval/loss"], "step=COLUMN,time=COLUMN"),
        (["loss", "lr"], "step=COLUMN,time=COLUMN"),
        (["epoch", "step", "lm_loss", "eval/loss"], "step=step,loss=lm_loss"),
        # The first one of each kind; a part of a step is none of them.
        (["iter", "data_time", "step_time_ms", "dt", "lr"], "step=iter,time=step_time_ms,lr=lr"),
        (["it", "gbs"], "step=it,batch=gbs"),
        (["it", "tok/s/gpu", "mfu"], "step=it,tokens_per_second_per_gpu=tok/s/gpu,mfu=mfu"),
        (["it", "step time, s", "loss=1", "loss"], "step=it,loss=loss"),
        (["train step", "loss"], "'step=train step,loss=loss'"),
    ],
)
def test_the_columns_that_words_name(names, columns):
    assert columns_by_words(names) == columns
