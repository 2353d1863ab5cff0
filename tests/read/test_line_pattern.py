"""--pattern: text lines of which the user says where their values are."""

from __future__ import annotations

import io

import pytest

from tprimat.analysis.summary import summarize
from tprimat.errors import UsageError
from tprimat.read import mapped
from tprimat.read.parsing.parsed_log import InputFile
from tprimat.results.run import Run


def rows(pattern: str, text: str) -> list[tuple[int, dict[str, str]]]:
    """Return the values of a text by line."""
    stream = io.BytesIO(text.encode())
    return [
        (line, dict(row))
        for line, row in mapped.LinePattern(pattern).rows(InputFile("a.log", stream))
    ]


@pytest.mark.parametrize(
    ("pattern", "line", "values"),
    [
        (
            "step {step} .* {time}ms .* {loss}",
            "INFO step 1 | took 512.4 ms | 7.1 nats",
            ("1", "512.4", "7.1"),
        ),
        ("step {step} .* {time}ms .* {loss}", "STEP  2 in 1,500ms, nan", ("2", "1,500", "nan")),
        ("[{step}/100] loss={loss} dt {time} s", "[5/100] loss=2. dt 1e-1 s", ("5", "2.", "1e-1")),
        ("step{step}: {loss}", "rank 0 step7: -3.5.", ("7", "-3.5")),
        ("{step} .* {loss}", "x1 v2.5 12 0.5", ("12", "0.5")),
        ("a+b {step} (loss {loss})", "a+b 3 (loss 4)", ("3", "4")),
        ("step {step} .* loss {loss}", "\x1b[32mstep 9\x1b[0m, loss 3", ("9", "3")),
    ],
)
def test_a_line_has_its_values(pattern, line, values):
    assert [tuple(row.values()) for _, row in rows(pattern, f"{line}\n")] == [values]


@pytest.mark.parametrize("line", ["step x loss 2", "loss 2 step 1", "step 1", "ste p 1 loss 2", ""])
def test_a_line_without_all_of_them_is_none(line):
    assert rows("step {step} .* loss {loss}", f"{line}\n") == []


def test_a_value_at_the_end_of_a_file_may_be_cut():
    assert rows("step {step} .* loss {loss}", "step 1 loss 2.5\nstep 2 loss 2.6") == [
        (1, {"step": "1", "loss": "2.5"})
    ]
    assert len(rows("step {step} .* loss {loss}", "step 1 loss 2.5\nstep 2 loss 2.6 n")) == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            (f"{{step}} {each}", "time_ms")
            for each in ("{time} ms", "{time}MS", "{time} msec", "{time} milliseconds")
        ),
        *(
            (f"{{step}} {each}", "time_ms")
            for each in ("dt (ms): {time}", "time_ms={time}", "Time [MS] {time}")
        ),
        *(
            (f"{{step}} {each}", "time")
            for each in ("{time} s", "{time} memory", "{time} msgs", "3 ms {time}")
        ),
    ],
)
def test_time_beside_ms_is_in_milliseconds(text, value):
    assert list(mapped.LinePattern(text)) == ["step", value]


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("step", "needs {step} and another value"),
        ("{step}", "needs {step} and another value"),
        ("{loss} {time}", "needs {step} and another value"),
        ("{step} {speed}", "unknown value 'speed'"),
        ("{step} {}", "unknown value ''"),
        ("{step} {loss} {loss}", "loss occurs twice"),
    ],
)
def test_another_text_is_refused(pattern, problem):
    with pytest.raises(UsageError, match=f"--pattern:? {problem}".replace("{", r"\{")) as refused:
        mapped.LinePattern(pattern)
    assert "time_ms" in str(refused.value.hint)


@pytest.mark.parametrize(
    "line",
    [
        "2026-01-01 10:00:00 INFO step 1/50 | loss: 7.123 | lr 1e-4 | dt 512.3ms | tok 3",
        "Iteration 12, train_loss=2.5, step_time 0.31 s",
        "global step: 7 grad norm 1.5",
        "step 3 loss 2.5 12,345.6 tok/s lr 3e-4",
        "step 1 76.9ms loss 7.96",
    ],
)
def test_the_suggested_pattern_reads_the_line_that_it_was_made_of(line):
    pattern = mapped.suggested(line)
    ((_, row),) = rows(pattern, f"{line}\n")
    assert row["step"] in line
    assert len(row) > 1


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("step 1 76.9ms loss 7.96", "step {step} .* {time}ms .* loss {loss}"),
        ("step 1/50 | loss 2.5 | 76.9 ms/step", "step {step} .* loss {loss} .* {time} ms/step"),
        ("step 1, 0.31 s/it", "step {step} .* {time} s/it"),
        # A time since the start, a part of a step, one of two, one that has no label next to one
        # that has.
        ("step 1 76.9s loss 7.96", "step {step} .* loss {loss}"),
        ("step 1 data 3ms loss 7.96", "step {step} .* loss {loss}"),
        ("step 1 3ms 76.9ms loss 7.96", "step {step} .* loss {loss}"),
        ("step 1 3ms loss 7.96 dt 76.9ms", "step {step} .* loss {loss} .* dt {time}ms"),
        ("step 1 76.9ms/token loss 7.96", "step {step} .* loss {loss}"),
    ],
)
def test_a_time_without_a_label_is_suggested_if_it_can_only_be_the_step_s(line, pattern):
    assert mapped.suggested(line) == pattern


@pytest.mark.parametrize(
    "rate", ["tok/s 31980", "31980 tok/s", "tokens/sec: 31980", "tokens_per_second=31980"]
)
def test_the_suggested_pattern_has_the_rate_in_tokens_with_its_label_before_or_after_it(rate):
    pattern = mapped.suggested(f"step 1 loss 2.5 dt 512ms {rate} end")
    assert pattern.startswith("step {step} .* loss {loss} .* dt {time}ms .* ")
    assert pattern.endswith(rate.replace("31980", "{tokens_per_second}"))


@pytest.mark.parametrize(
    "rate", ["tok/s/gpu 31980", "tokens per second per GPU 31980", "stok/s 31980", "tok 31980"]
)
def test_another_rate_is_not_suggested(rate):
    assert mapped.suggested(f"step 1 loss 2.5 {rate}") == "step {step} .* loss {loss}"


LOG = "".join(
    f"2026-01-01T10:00:{10 + 2 * step:02}Z step {step} loss {4 - step / 10:.1f} dt {900 + step}ms"
    " tok/s 1000\n"
    for step in range(1, 21)
)


def run_of(pattern: str, log: str = LOG) -> Run:
    """Return the run of a log by a pattern."""
    (found,) = mapped.file_format(mapped.LinePattern(pattern)).read(
        [InputFile("a.log", io.BytesIO(log.encode()))], {}
    )
    return found.run()


def test_the_time_of_a_line_is_that_of_its_step():
    run = run_of("step {step} .* loss {loss}")
    assert run.timestamp == "2026-01-01T10:00:12+00:00"
    assert [(entry.kind, entry.duration, entry.last_step) for entry in run.timeline] == [
        ("training", 38.0, 20)
    ]
    assert summarize(run).performance.avg_step_time_seconds == 2.0
    assert run_of("step {step} .* dt {time}ms").step_times[:2] == (0.901, 0.902)
    without = run_of("step {step} .* loss {loss}", LOG.replace("2026-01-01T10:", "x"))
    assert without.timestamp is None
    assert without.timeline == ()


def test_the_status_says_what_a_pattern_does_not_read():
    reason = run_of("step {step} .* loss {loss}").status_reason
    assert (
        reason == "log ends at step 20; --pattern reads neither the planned steps nor a normal end"
    )


def test_a_rate_in_tokens_is_one_of_the_run():
    found = summarize(run_of("step {step} .* dt {time}ms tok/s {tokens_per_second}"))
    assert found.performance.tokens_per_second == pytest.approx(1000)
    assert summarize(run_of("step {step} .* dt {time}ms")).performance.tokens_per_second is None


@pytest.mark.parametrize(("rate", "named"), [(1000, False), (1009, False), (1012, True)])
def test_tokens_that_differ_by_rounding_alone_are_no_other_ones(rate, named):
    log = "".join(
        f"step {step} dt 1000ms tok/s {rate if step % 2 else 1000}\n" for step in range(40)
    )
    found = summarize(run_of("step {step} .* dt {time}ms tok/s {tokens_per_second}", log))
    assert any("tokens per step vary" in text for text in found.warnings) is named


@pytest.mark.parametrize(
    "line", ["step 3 of the plan", "loss 2.5 lr 1e-4", "time 3", "footstep 3 gloss 4", ""]
)
def test_nothing_is_suggested_without_a_step_and_another_value(line):
    assert mapped.suggested(line) == ""


def test_columns_and_pattern_are_one_or_the_other():
    assert mapped.given(None, None) is None
    with pytest.raises(UsageError, match="use one of them"):
        mapped.given("step=a,loss=b", "{step} {loss}")


@pytest.mark.parametrize("options", [("", None), (None, "")])
def test_an_empty_one_is_none_that_is_left_out(options):
    with pytest.raises(UsageError):
        mapped.given(*options)


def test_a_long_line_of_digits_is_soon_read():
    text = "1" * 50_000 + " step 1 loss " + "1" * 50_000
    assert rows("{step} .* {loss} .* {time}", f"{text}\n" * 20) == []
