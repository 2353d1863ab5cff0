"""--pattern: text lines of which the user says where their values are, and the units that
--columns knows too.
"""

from __future__ import annotations

import io
import json

import pytest

from tprimat.analysis.summary import summarize
from tprimat.errors import UsageError
from tprimat.read import mapped
from tprimat.read.parsing import grouping
from tprimat.read.parsing.parsed_log import InputFile, ParsedLog
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.text import lines
from tprimat.results.run import Run


def rows(pattern: str, text: str) -> list[tuple[int, dict[str, str]]]:
    """Return the values of a text by line."""
    parsed = mapped.LinePattern(pattern)
    found = []
    for line in lines([text.encode()]):
        values, is_whole = parsed.values_in(line.text)
        if is_whole:
            found.append((line.number, dict(zip(parsed, values, strict=True))))
    return found


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
        # A word is rather a whole one than a part of another one, if both are there.
        (
            "step {step} .* wall={elapsed}",
            "global_step 2 at step 3, train_wall=4, wall=5",
            ("3", "5"),
        ),
        ("step {step} .* loss {loss}", "global_step 2, lm_loss 4", ("2", "4")),
        # Numbers may be padded behind a bracket or another sign, and braces may be of the line.
        ("[ {step}/900] loss: {loss}", "[1000/900] loss:   3", ("1000", "3")),
        ("[{step}/900] loss={loss}", "[  10/900] loss= 3", ("10", "3")),
        ("perf {step}: {'loss': {loss}}", "perf 1: {'loss': 3}", ("1", "3")),
    ],
)
def test_a_line_has_its_values(pattern, line, values):
    assert [tuple(row.values()) for _, row in rows(pattern, f"{line}\n")] == [values]


@pytest.mark.parametrize(
    "line",
    [
        "step1 loss 2",
        "step 1 loss 01:12",
        "step x loss 2",
        "loss 2 step 1",
        "step 1",
        "ste p 1 loss 2",
        "",
    ],
)
def test_a_line_without_all_of_them_is_none(line):
    assert rows("step {step} .* loss {loss}", f"{line}\n") == []


def test_a_value_at_the_end_of_a_file_may_be_cut():
    log = "step 1 loss 2.5\nstep 2 loss 2.6"
    assert run_of("step {step} .* loss {loss}", log).loss_values == (2.5,)
    assert run_of("step {step} .* loss {loss}", f"{log} n").loss_values == (2.5, 2.6)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(
            (f"{{step}} {each}", 0.5)
            for each in ("{time} ms", "{time}MS", "{time} msec", "{time} milliseconds")
        ),
        *(
            (f"{{step}} {each}", 0.5)
            for each in ("dt (ms): {time}", "x_ms={time}", "T [MS] {time}")
        ),
        *((f"{{step}} {each}", 500.0) for each in ("{time} s", "{time} memory", "{time} msgs")),
        ("{step} 3 ms {time}", 500.0),
        ("{step} {time} ms/step", 0.5),
        ("{step} {time} s/it", 500.0),
        ("{step} {time} min", 30_000.0),
        ("{step} {time}h", 1_800_000.0),
        ("{step} time_hours={time}", 1_800_000.0),
        ("{step} {time} us", 0.0005),
        ("{step} {time} m", 30_000.0),
        ("{step} pace (s/it): {time}", 500.0),
        ("{step} pace (it/s): {time}", 0.002),
        ("{step} {time} s/token", 500.0),
        # The least of several times, and a part of a word.
        ("{step} time_min={time}", 500.0),
        ("{step} rooms {time}", 500.0),
        ("{step} {time} it/s", 0.002),
        ("{step} {time} steps/sec", 0.002),
    ],
)
def test_the_unit_beside_a_time_counts(text, seconds):
    assert run_of(text, text.format(step=1, time=500) + "\n").step_times == (seconds,)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("step 1 took 512.4ms loss 3", 0.5124),
        ("step 1 took 512.4 ms loss 3", 0.5124),
        ("step 1 took 2s loss 3", 2.0),
        ("step 1 took 1,500 ms/it loss 3", 1.5),
        ("step 1 took 2.36K ms loss 3", 2.36),
        ("step 1 took 1.5k loss 3", 1500.0),
        # Not of the number: the least of several, another unit, the begin of a word.
        ("step 1 took 2 min 1 loss 3", 2.0),
        ("step 1 took 2 s/token loss 3", 2.0),
        ("step 1 took 2 milk loss 3", 2.0),
        ("step 1 took 4.00it/s loss 3", 0.25),
        ("step 1 took 512 us loss 3", 0.000512),
    ],
)
def test_the_unit_of_a_time_in_the_line_counts(line, seconds):
    assert run_of("step {step} took {time} .* loss {loss}", f"{line}\n").step_times == (seconds,)


@pytest.mark.parametrize(
    ("pattern", "text", "rate"),
    [
        ("rate {tokens_per_second}", "rate 55.7K", 55_700.0),
        ("rate {tokens_per_second}", "rate 55.7k | x", 55_700.0),
        ("{tokens_per_second} tok/s", "1.2M tok/s", 1_200_000.0),
        ("{tokens_per_second} tok/s", "1.2B tok/s", 1_200_000_000.0),
        ("{tokens_per_second} tok/s", "1.2G tok/s", 1_200_000_000.0),
        ("{tokens_per_second}K tok/s", "55.7K tok/s", 55_700.0),
        ("{tokens_per_second} Ktok/s", "55.7 Ktok/s", 55_700.0),
        ("mtps={tokens_per_second}", "mtps=0.6722", 672_200.0),
        ("M tokens/s: {tokens_per_second}", "M tokens/s: 0.6722", 672_200.0),
        # Neither memory nor a sequence of letters.
        ("{tokens_per_second} .* x", "12 Mem x", 12.0),
        ("num tokens/s {tokens_per_second}", "num tokens/s 12", 12.0),
    ],
)
def test_thousands_and_millions_belong_to_the_number(pattern, text, rate):
    run = run_of(f"step {{step}} {pattern}", f"step 1 {text}\n")
    assert run.native_metrics["tokens_per_second"] == (rate,)


@pytest.mark.parametrize(
    ("before", "printed", "seconds"),
    [
        ("", ["40.5", "81"], 4.05),
        ("", ["40500ms", "81000ms"], 4.05),
        ("", ["0:00:40", "0:01:20"], 4.0),
        ("[", ["00:40", "01:20"], 4.0),
        ("", ["0:00:40.500", "0:01:21"], 4.05),
        ("", ["1 day, 2:03:04", "1 day, 2:03:44"], 4.0),
        ("", ["1 day, 23:59:50", "2 days, 0:00:30"], 4.0),
    ],
)
def test_the_time_since_the_start_in_all_its_forms(before, printed, seconds):
    log = "".join(f"step {10 * n} {before}{at}<x loss 3\n" for n, at in enumerate(printed, 11))
    pattern = f"step {{step}} {before}{{elapsed}}<x loss {{loss}}"
    assert run_of(pattern, log).step_times == (None, seconds)


def test_an_interval_is_divided_by_the_steps_since_the_record_before():
    log = "".join(f"step {step} interval {step / 5 + 2} s\n" for step in (10, 20, 40))
    run = run_of("step {step} interval {interval} s", log)
    assert (run.step_times, run.window_steps) == ((0.4, 0.6, 0.5), (10, 10, 20))
    assert run_of("step {step} interval {interval}ms", "step 1 interval 400ms\n").step_times == (
        0.4,
    )
    # A record that is alone, and not of step 1, has an unknown number of steps.
    assert run_of("step {step} interval {interval}", "step 2 interval 4\n").step_times == (None,)


@pytest.mark.parametrize(
    ("rate", "seconds"), [("7.94", 1 / 7.94), ("0.500", 2.0), ("9.5", None), ("0.05", None)]
)
def test_a_rate_of_three_digits_gives_a_time(rate, seconds):
    run = run_of("step {step} it/s {steps_per_second}", f"step 1 it/s {rate}\n")
    assert run.step_times == (seconds,)
    assert run.native_metrics["steps_per_second"] == (float(rate),)
    told = [note.fields["why"] for note in run.notes if note.code == "no-step-times"]
    assert told == ([] if seconds else ["the printed rate has too few digits"])


@pytest.mark.parametrize(
    ("pattern", "text", "seconds"),
    [
        ("{tokens} tokens, {tokens_per_second} tok/s", "65536 tokens, 32768 tok/s", 2.0),
        ("{tokens} tokens, {tokens_per_second} tok/s", "655K tokens, 328K tok/s", 655 / 328),
        ("{tokens} tokens, {tokens_per_second} tok/s", "0.7M tokens, 350K tok/s", None),
        ("batch {batch} {samples_per_second} samples/s", "batch 8 4.00 samples/s", 2.0),
        ("batch {batch} {samples_per_second} samples/s", "batch 8 4.0 samples/s", None),
        ("{samples_per_second} samples/s", "4.00 samples/s", None),
        # A time that is printed counts.
        ("{time} s, {steps_per_second} it/s", "2 s, 4.00 it/s", 2.0),
    ],
)
def test_rates_give_a_time_if_nothing_else_does(pattern, text, seconds):
    assert run_of(f"step {{step}} {pattern}", f"step 1 {text}\n").step_times == (seconds,)


def test_printed_figures_have_the_names_that_other_readers_use():
    values = "{time} s {samples_per_second} {tflops_per_gpu} {mfu}% {tokens_per_second_per_gpu}"
    run = run_of(f"step {{step}} {values}", "step 1 2.5 s 3.25 410.5 41.2% 1.5K\n")
    assert run.native_metrics == {
        "samples_per_second": (3.25,),
        "tflops_per_gpu": (410.5,),
        "mfu_percent": (41.2,),
        "tokens_per_second_per_gpu": (1500.0,),
    }


@pytest.mark.parametrize(
    ("pattern", "printed", "native"),
    [
        ("mfu {mfu}", ("0.41", "1.0"), {"mfu": (0.41, 1.0)}),
        ("mfu {mfu}", ("0.41", "1.01"), {"mfu_percent": (0.41, 1.01)}),
        ("mfu {mfu}", ("0.41%", "0.5%"), {"mfu_percent": (0.41, 0.5)}),
        ("mfu (%) {mfu}", ("0.41", "0.5"), {"mfu_percent": (0.41, 0.5)}),
        # The peak of the GPU is unknown.
        ("mfu {mfu}", ("-100.0", "4.4"), {"mfu_percent": (None, 4.4)}),
    ],
)
def test_a_utilization_is_a_share_or_a_percentage(pattern, printed, native):
    log = "".join(
        f"step {step} {pattern.format(mfu=each)}\n" for step, each in enumerate(printed, 1)
    )
    assert run_of(f"step {{step}} {pattern}", log).native_metrics == native


def test_sizes_that_agree_on_all_lines_are_those_of_the_run():
    pattern = (
        "step {step} batch {batch} {tokens} tokens {tokens_per_second} {tokens_per_second_per_gpu}"
    )
    log = "".join(f"step {step} batch 128 262144 tokens 57.66K 14.4K\n" for step in range(1, 4))
    run = run_of(pattern, log)
    assert run.training_config.global_batch_size == 128
    assert run.training_config.num_gpus == 4
    assert "samples_per_step" not in run.native_metrics
    assert summarize(run).performance.tokens_per_second == pytest.approx(57_660)
    changed = run_of(pattern, log.replace("step 3 batch 128", "step 3 batch 256"))
    assert changed.training_config.global_batch_size is None
    assert changed.native_metrics["samples_per_step"] == (128, 128, 256)
    assert [note.fields["values"] for note in changed.notes if note.code == "size-changes"] == [
        "128 to 256"
    ]


def test_tokens_in_thousands_are_no_exact_size():
    log = "step 1 524K tokens 2.5 s\nstep 2 524K tokens 2.5 s\n"
    pattern = "step {step} {tokens} tokens {time} s"
    found = file_of(pattern, log)[0]
    assert "tokens_per_step" not in found.stated
    assert found.run().native_metrics["tokens_per_step"] == (524_000, 524_000)
    assert "global_batch_size" not in file_of("step {step} {batch}", "step 1 1.2K\n")[0].stated
    assert (
        file_of(pattern, log.replace("524K", "524288"))[0].stated["tokens_per_step"].value
        == 524_288
    )


def test_lines_without_a_step_are_numbered():
    run = run_of("loss {loss} dt {time}ms", "loss 3 dt 500ms\nelse\nloss 2 dt 400ms\n")
    assert run.steps == (1, 2)
    assert run.step_times == (0.5, 0.4)
    assert [note.fields for note in run.notes if note.code == "records-numbered"] == [{"count": 2}]


def micro_batches(*lines: tuple[int, int, float]) -> Run:
    """Return the run of lines with a micro-batch, the step and a time in s."""
    text = "".join(
        f"iter {micro} step {step} loss {time} time {time} s\n" for micro, step, time in lines
    )
    return run_of("iter {micro_step} step {step} loss {loss} time {time} s", text)


@pytest.mark.parametrize(
    ("lines", "steps", "times"),
    [
        # As LitGPT counts: the line on which the step rises ends it.
        (
            [(1, 0, 1.0), (2, 1, 9.0), (3, 1, 1.0), (4, 2, 2.0), (5, 2, 1.5), (6, 3, 2.5)],
            (1, 2, 3),
            (10.0, 3.0, 4.0),
        ),
        # A slice of it: what belongs to its first step is unknown.
        (
            [(5, 2, 1.0), (6, 3, 2.0), (7, 3, 1.0), (8, 4, 2.5), (9, 4, 1.0)],
            (3, 4),
            (None, 3.5),
        ),
        # The counter begins with each step.
        (
            [(0, 1, 1.0), (1, 1, 2.0), (0, 2, 1.5), (1, 2, 2.5), (0, 3, 1.0)],
            (1, 2, 3),
            (3.0, 4.0, None),
        ),
        # It counts from 0 on, with the step that it belongs to.
        (
            [(0, 0, 1.0), (1, 0, 2.0), (2, 1, 1.5), (3, 1, 2.5), (4, 2, 1.0), (5, 2, 1.0)],
            (1, 2, 3),
            (3.0, 4.0, 2.0),
        ),
        # Each is a step.
        ([(1, 1, 1.0), (2, 2, 2.0), (3, 3, 3.0)], (1, 2, 3), (1.0, 2.0, 3.0)),
        # One is not logged; one is printed by two ranks.
        (
            [(0, 0, 1.0), (1, 0, 2.0), (2, 1, 1.5), (4, 2, 1.0), (5, 2, 1.0)],
            (1, 2, 3),
            (3.0, None, None),
        ),
        ([(0, 1, 1.0), (0, 1, 1.1), (1, 1, 2.0), (0, 2, 1.0), (1, 2, 2.0)], (1, 2), (3.0, 3.0)),
    ],
)
def test_a_step_is_the_sum_of_its_micro_batches(lines, steps, times):
    run = micro_batches(*lines)
    assert run.steps == steps
    assert run.step_times == times


def test_micro_batches_of_which_most_are_not_logged_give_no_time():
    run = micro_batches((0, 0, 1.0), (10, 1, 1.0), (20, 2, 1.0), (30, 3, 1.0))
    assert run.step_times == (None,) * 4
    assert any("some micro-batches are not logged" in str(note.fields) for note in run.notes)


@pytest.mark.parametrize(("last", "steps", "doubles"), [(2, 3, 3), (1, 2, 0)])
def test_lines_of_several_ranks_are_one_step(last, steps, doubles):
    """Of each step two lines, with other losses; of fewer than three steps that isn't known."""
    log = "".join(
        f"step {step} loss {9 - step + rank / 5} 2.5 s\n"
        for step in range(last + 1)
        for rank in (0, 1)
    )
    found = file_of("step {step} loss {loss} {time} s", log)
    if doubles:
        (one,) = found
        assert len(one.run().steps) == steps
        assert f"{doubles} repeated step lines skipped" in one.notes
    else:
        assert len(found) > 1


def test_a_step_that_is_done_again_is_no_rank():
    log = "".join(
        f"step {step} loss {each} 2.5 s\n" for step, each in ((0, 9), (1, 8), (2, 7), (2, 6))
    )
    (found,) = file_of("step {step} loss {loss} {time} s", log)
    assert [note.code for note in found.run().notes].count("restarted") == 1


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("step", "needs {step} and another value"),
        ("{step}", "needs {step} and another value"),
        ("{step} {micro_step}", "needs {step} and another value"),
        ("{micro_step} {loss}", "micro_step needs step"),
        ("{step} {speed}", "unknown value 'speed'"),
        ("{step} {}", "unknown value ''"),
        ("{step} {loss} {loss}", "loss occurs twice"),
    ],
)
def test_another_text_is_refused(pattern, problem):
    with pytest.raises(UsageError, match=f"--pattern:? {problem}".replace("{", r"\{")) as refused:
        mapped.LinePattern(pattern)
    assert "time_ms" in str(refused.value.hint)


LOG = "".join(
    f"2026-01-01T10:00:{10 + 2 * step:02}Z step {step} loss {4 - step / 10:.1f} dt {900 + step}ms"
    " tok/s 1000\n"
    for step in range(1, 21)
)


def file_of(pattern: str, log: str) -> list[ParsedLog]:
    """Return the trainings of a log by a pattern."""
    part = InputFile("a.log", io.BytesIO(log.encode()))
    return mapped.file_format(mapped.LinePattern(pattern)).read([part], {})


def run_of(pattern: str, log: str = LOG) -> Run:
    """Return the run of a log by a pattern."""
    (found,) = file_of(pattern, log)
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


def table_of(columns: str, text: str) -> Run:
    """Return the run of a table."""
    part = InputFile("a.csv", io.BytesIO(text.encode()))
    (found,) = mapped.file_format(mapped.columns(columns)).read([part], {})
    return found.run()


@pytest.mark.parametrize(
    ("name", "cell", "seconds"),
    [
        ("time", "0.5", 0.5),
        ("step_time_ms", "512", 0.512),
        ("time (ms)", "512.4", 0.5124),
        ("time [min]", "0.5", 30.0),
        ("step_time_min", "0.5", 0.5),
        ("time", "512 ms", 0.512),
        ("time", "0.5 min", 30.0),
        ("time", "2.36K ms", 2.36),
        ("time", "4.00 it/s", 0.25),
        # What the cell says counts.
        ("time_ms", "2 s", 2.0),
        ("time", "12 apples", None),
        ("time", "12 s/token", None),
    ],
)
def test_the_unit_of_a_column_stands_in_its_name_or_its_cells(name, cell, seconds):
    table = f"step,{name},loss\n1,{cell},3\n"
    assert table_of(f"step=step,time={name},loss=loss", table).step_times == (seconds,)


@pytest.mark.parametrize(("cell", "seconds"), [("512", 0.512), ("512 ms", 0.512), ("2 s", 2.0)])
def test_milliseconds_that_the_user_names_are_none_where_a_cell_says_so(cell, seconds):
    assert table_of("step=step,time_ms=dt_s", f"step,dt_s\n1,{cell}\n").step_times == (seconds,)


@pytest.mark.parametrize(
    ("name", "cell", "rate"),
    [
        ("rate", "55.7K", 55_700.0),
        ("rate", "1.2 M tok/s", 1_200_000.0),
        ("rate", "32 tok/s", 32.0),
        ("mtps", "0.6722", 672_200.0),
        ("ktok/s", "1.2M", 1_200_000.0),
        ("rate", "1.2 Mtok/s", 1_200_000.0),
        ("rate", "1.2mtok/s", 1_200_000.0),
    ],
)
def test_a_rate_of_a_column_in_thousands(name, cell, rate):
    run = table_of(f"step=step,tokens_per_second={name}", f"step,{name}\n1,{cell}\n")
    assert run.native_metrics["tokens_per_second"] == (rate,)


def test_the_time_since_the_start_of_a_column_in_hours_minutes_and_seconds():
    rows = "".join(
        f"{step},0:{4 * step // 60:02}:{4 * step % 60:02},2.5\n" for step in range(10, 60, 10)
    )
    run = table_of("step=step,elapsed=elapsed,loss=loss", f"step,elapsed,loss\n{rows}")
    assert run.step_times == (4.0,) * 5
    assert any(note.code == "times-in-whole-seconds" for note in run.notes)
    finer = table_of("step=step,elapsed=elapsed", "step,elapsed\n1,4.5\n2,9\n")
    assert not any(note.code == "times-in-whole-seconds" for note in finer.notes)


def test_rows_of_a_table_without_a_step_are_numbered():
    run = table_of("time=t,loss=loss", "t,loss\n0.5,3\nt,loss\n0.4,2\n")
    assert (run.steps, run.step_times) == ((1, 2), (0.5, 0.4))


def test_half_of_the_steps_may_be_printed_again_before_ranks_are_assumed():
    def origins(*steps: int) -> set[str | None]:
        records = [Record(step, line) for line, step in enumerate(steps)]
        grouping.number_ranks(records)
        return {record.origin for record in records}

    assert origins(1, 1, 2, 2, 3, 4) == {None}
    assert origins(1, 1, 2, 2, 3, 3, 4) == {"0", "1"}


def notebook(*outputs: object, indent: int | None = 1) -> str:
    """Return a notebook with a cell for each output."""
    cells = [
        {"cell_type": "code", "source": ["step 9 loss 9"], "outputs": [each]} for each in outputs
    ]
    return json.dumps(
        {"cells": [{"cell_type": "markdown", "source": []}, *cells], "nbformat": 4}, indent=indent
    )


@pytest.mark.parametrize("indent", [1, None])
def test_the_lines_that_a_notebook_printed(indent):
    content = notebook(
        {"output_type": "stream", "text": ["step 1 loss 5\n", "step 2 loss 4\n"]},
        {"output_type": "stream", "text": "step 3 loss 3\nstep 4 loss 2\r step 5 loss 1"},
        {"output_type": "execute_result", "data": {"text/plain": ["step 6 loss 0.5"]}},
        {"output_type": "error", "traceback": ["Traceback", "\u001b[31mRuntimeError\u001b[0m: CUDA out of memory"]},
        7,
        indent=indent,
    )  # fmt: skip
    run = run_of("step {step} loss {loss}", content)
    assert run.loss_values == (5, 4, 3, 2, 1, 0.5)
    assert run.status == "failed"


@pytest.mark.parametrize(
    "content",
    [
        notebook({"text": ["step 1 loss 5\n"]})[:-3],
        '{"nbformat": 4, "cells": 5,\n"x": "step 1 loss 5"}',
        "x " + notebook({"text": ["step 1 loss 5\n"]}),
    ],
)
def test_what_is_no_whole_notebook_is_read_line_by_line(content):
    assert file_of("step {step} loss {loss}", content)[-1].run().loss_values == (5,)


def test_a_git_lfs_pointer_is_named():
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n"
    with pytest.raises(ValueError, match="it is a Git LFS pointer: git lfs pull"):
        run_of("step {step} loss {loss}", pointer)
    with pytest.raises(ValueError, match="it is a Git LFS pointer: git lfs pull"):
        table_of("step=step,loss=loss", pointer)
