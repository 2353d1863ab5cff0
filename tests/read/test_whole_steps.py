"""The steps of dictionaries that don't print them (hf_trainer/steps.py), and the errors of files
that are no logs.
"""

from __future__ import annotations

import contextlib
import io
import math

import pytest
import whole

from tprimat import read
from tprimat.errors import UnreadableError
from tprimat.read import lightning_csv
from tprimat.read.hf_trainer import fields, steps
from tprimat.read.hf_trainer import reader as hf_trainer
from tprimat.read.hf_trainer.reader import _Entry, _step_hint
from tprimat.read.hf_trainer.steps import StepHint, StepNumbers
from tprimat.read.parsing import text
from tprimat.read.parsing.parsed_log import InputFile
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.text import Line

GRID = "one record in 5 steps (logging_steps)"
EPOCHS = "epochs and progress bars, of 40 steps"
BESIDE = "the progress bar beside each record"


def hints(*rows):
    """Rows of epoch, bar before and bar after; epochs are printed with two digits."""
    return [StepHint(epoch, 0.005, before, after) for epoch, before, after in rows]


def bars(*pairs):
    return [StepHint(None, 0.0, before, after) for before, after in pairs]


def coarse(*rows):
    return [StepHint(epoch, 0.01, before, after) for epoch, before, after in rows]


@pytest.mark.parametrize(
    ("known", "total", "epochs", "interval", "numbers", "evidence"),
    [
        ([], 40, 4, 5, (), "no dictionaries"),
        # Multiples of the interval, from where a bar shows the start.
        (hints((0.1, 0, None), (0.2, 0, None), (0.3, 0, None)), 100, None, 5, (5, 10, 15), GRID),
        (bars((12, None), (15, None), (20, 25)), None, None, 5, (15, 20, 25), GRID),
        (bars((11, None), (20, None), (25, None)), None, None, 5, (15, 20, 25), GRID),
        (bars((15, None), (15, None)), None, None, 5, (15, 20), GRID),
        (bars((1, None), (1, None)), None, None, 5, (5, 10), GRID),
        # With the first step in addition.
        (bars((0, 1), (1, 5), (5, 10)), None, None, 5, (1, 5, 10), GRID),
        (bars((0, 1), (1, 5), (11, None)), None, None, 5, (1, 2, 3), None),
        # Behind the planned steps; epochs that contradict each other.
        (bars((0, None), (0, None), (0, None)), 15, None, 5, (5, 10, 15), GRID),
        (bars((0, None), (0, None), (0, None)), 14, None, 5, (1, 2, 3), None),
        (hints((0.1, 0, None), (0.3, 0, None)), None, None, 5, (1, 2), None),
        # Epochs of a known number; two numbers of epochs fit, of which a bar excludes one.
        (hints((0.5, 0, None), (1.0, 0, None), (1.5, 0, None)), 40, 4, None, (5, 10, 15), EPOCHS),
        (hints((0.5, 0, None), (1.0, 0, None), (1.5, 0, None)), 40, None, None, (1, 2, 3), None),
        (hints((0.5, 9, None), (1.0, 0, None), (1.5, 0, None)), 40, None, None, (10, 20, 30), EPOCHS),
        (hints((0.5, 0, 6), (1.0, 0, None), (1.5, 0, 15)), 40, 4, None, (5, 10, 15), EPOCHS),
        (hints((0.5, 6, None), (1.0, 0, None)), 40, 4, None, (1, 2), None),
        (hints((0.5, 0, 4), (1.0, 0, None)), 40, 4, None, (1, 2), None),
        (hints((None, 0, None), (1.0, 0, None)), 40, 4, None, (1, 2), None),
        (coarse((0.5, 0, None), (1.0, 0, None)), 400, 4, None, (1, 2), None),
        (hints((0.5, 0, None), (0.5, 0, None)), 40, 4, None, (1, 2), None),
        # The bar around each record, before it, or behind it.
        (bars((3, 3), (6, 6)), None, None, None, (3, 6), BESIDE),
        (bars((3, 3), (6, 6)), 6, None, None, (3, 6), BESIDE),
        (bars((3, 3), (6, 6)), 5, None, None, (1, 2), None),
        (bars((3, 3), (6, 6), (5, 5)), None, None, None, (1, 2, 3), None),
        (bars((6, 6), (3, 3)), None, None, None, (1, 2), None),
        (bars((0, None), (0, None)), None, None, None, (1, 2), None),
        (bars((0, 3), (3, 6), (6, 9)), None, None, None, (3, 6, 9), BESIDE),
        (bars((0, 3), (3, 6), (6, None)), None, None, None, (3, 6, 9), BESIDE),
        (bars((0, 3), (3, 6), (7, 11)), None, None, None, (1, 2, 3), None),
        (bars((0, 3), (3, 6), (6, 10), (10, None)), None, None, None, (1, 2, 3, 4), None),
        (bars((0, 3), (4, 6), (6, 9)), None, None, None, (1, 2, 3), None),
        (bars((3, 6), (6, 9), (9, 12)), None, None, None, (1, 2, 3), None),
        (hints((0.3, 3, 6), (0.6, 6, 9), (0.9, 9, 12)), None, None, None, (3, 6, 9), BESIDE),
        (hints((0.6, 3, 6), (0.9, 6, 9), (1.2, 9, 12)), None, None, None, (6, 9, 12), BESIDE),
        # The only interval that agrees with all bars and makes whole epochs.
        (coarse((0.05, 4, 12), (0.1, 9, 22), (0.15, 14, 32)), 100, None, None, (5, 10, 15),
         "one record in 5 steps, by progress bars"),
        (coarse((0.05, 4, 12), (0.1, 9, 22), (0.15, 14, 32)), None, None, None, (1, 2, 3), None),
        (coarse((0.05, 4, 12), (0.1, 9, 22)), 100, None, None, (1, 2), None),
        (coarse((0.05, 4, None), (0.1, 9, None), (0.15, 14, None)), 100, None, None, (1, 2, 3), None),
        (coarse((None, 4, 12), (None, 9, 22), (None, 14, 32)), 100, None, None, (1, 2, 3), None),
    ],
)  # fmt: skip
def test_the_steps_of_dictionaries(known, total, epochs, interval, numbers, evidence):
    assert steps.number_steps(known, total, epochs, interval) == StepNumbers(numbers, evidence)


@pytest.mark.parametrize(("after", "interval"), [(10_002, 9_973), (10_003, None)])
def test_how_many_intervals_are_tried(after, interval):
    """An epoch has ten records; the planned steps are ten times a prime number."""
    known = [StepHint(number / 10, 1e-9, 2, after * number) for number in (1, 2, 3)]
    assert steps._interval(known, 99_730) == interval


@pytest.mark.parametrize(("total", "interval"), [(15, 5), (14, None)])
def test_an_interval_fits_the_planned_steps(total, interval):
    assert steps._interval(bars((4, 5), (8, 12), (13, 18)), total) == interval


@pytest.mark.parametrize(
    ("rows", "numbers", "bounds"),
    [
        ([(0.5, 0.005), (1.0, 0.005), (1.5, 0.005)], (5, 10, 15), (15 / 1.505, 15 / 1.495)),
        ([(0.5, 0.005), (None, 0.005), (0.25, 0.005)], (5, 10, 2), (5 / 0.505, 2 / 0.245)),
        ([(0.0, 0.0), (0.005, 0.005)], (5, 10), (1000.0, math.inf)),
        ([(0.004, 0.005)], (5,), (5 / 0.009, math.inf)),
        ([], (), (0.0, math.inf)),
    ],
)
def test_how_many_steps_an_epoch_has(rows, numbers, bounds):
    known = [StepHint(epoch, resolution) for epoch, resolution in rows]
    assert steps._per_epoch(known, numbers) == pytest.approx(bounds)


@pytest.mark.parametrize(
    ("epochs", "evidence"), [(64, "epochs and progress bars, of 640 steps"), (65, None)]
)
def test_how_many_numbers_of_epochs_are_tried(epochs, evidence):
    """Ten steps an epoch; a bar excludes fewer epochs."""
    known = hints((30.1, 0, 301), (30.2, 0, None))
    assert steps.number_steps(known, 10 * epochs, None, None).evidence == evidence


def test_a_hint_without_bars():
    assert StepHint(0.5, 0.1) == (0.5, 0.1, 0, None)


def test_epochs_that_no_number_of_steps_fits():
    assert steps._agrees_with_epochs(hints((0.5, 0, None), (1.0, 0, None)), (5, 10)) is True
    assert steps._agrees_with_epochs(hints((0.5, 0, None), (1.0, 0, None)), (5, 11)) is False
    # A millionth is rounding.
    exact = [StepHint(1.0, 0.0), StepHint(10.0, 0.0)]
    assert [
        steps._agrees_with_epochs(exact, (1_000_000, last)) for last in (10_000_009, 10_000_011)
    ] == [
        True,
        False,
    ]
    assert steps._by_epoch([StepHint(0.0, 0.0), StepHint(0.1, 0.0)], 10.0, None) is None
    assert steps._by_epoch([StepHint(0.1, 0.0), StepHint(0.2, 0.0)], 10.0, None) == (1, 2)


@pytest.mark.parametrize(
    ("epoch", "resolution"),
    [
        ("0.25", 0.005), ("1", 0.5), ("1.5e-01", 0.005), ("2.5E+01", 0.5), ("0.12345678901", 5e-12),
        ("0.123456789012", 1e-9), ("1.5e123", 0.05), ("", 0.5),
    ],
)  # fmt: skip
def test_the_digits_of_an_epoch(epoch, resolution):
    entry = _Entry(1, {"epoch": epoch}, 2.5, {40: 7, 50: 9}, None, {40: 8})
    assert _step_hint(entry, 40) == StepHint(2.5, pytest.approx(resolution), 7, 8)
    assert _step_hint(entry, 60)[2:] == (0, None)
    assert _step_hint(entry, None)[2:] == (0, None)


def test_what_formats_are_known_by():
    paths = "runs/abc/metrics/rank3/a_1.1234567890123.pt.trace.json", "runs/b/loss"
    rows = [
        f"{each.name}: {each.looks_for} | {', '.join(each.beside)} | streamed {each.is_streamed} | "
        f"{[each.together(path) for path in paths] if each.together else None}"
        for each in read.file_formats()
    ]
    whole.check("formats.txt", "\n".join([*rows, f"head {read.HEAD}", ""]))


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ("_step,_runtime,loss\n", "the history of a W&B run"),
        ("_step,_timestamp\n", "the history of a W&B run"),
        ("_step,loss\n", None),
        ("_runtime,loss\n", None),
        ("step,_runtime\n", None),
        ("x,a - b,a - b__MIN,a - b__MAX\n", "a chart of W&B"),
        ("x,a - b,a - b__MIN\n", None),
        ("x,ab,ab__MIN,ab__MAX\n", None),
        ("x,a - b,a - b__MAX,a - b__MIN\n", None),
        ("x,a - b,a - c__MIN,a - c__MAX\n", None),
        ("step,train_loss\n", "metrics.csv of Lightning"),
        ("step,Val_LOSS\n", "metrics.csv of Lightning"),
        ("step,epoch\n", "metrics.csv of Lightning"),
        ("step,lr\n", "metrics.csv of Lightning"),
        ("step,lrs\n", None),
        ("step\n", None),
        ("loss,epoch\n", None),
        ("step,loss,loss\n", None),
        # The second row has as many columns as the header, where that is known.
        ("step,loss\n1,2,3\n1,2\n1,2\n", None),
        ("step,loss\n1,2\n1,2,3\n1,2\n", "metrics.csv of Lightning"),
        ("step,loss\n1,2,3\n1,2\n", "metrics.csv of Lightning"),
        ("step;loss\n1;2,5,3\n", "metrics.csv of Lightning"),
        ("run_id,key,value,step,timestamp\n", "metric histories of MLflow"),
        ("more,run_id,key,value,step,timestamp\n", "metric histories of MLflow"),
        ("run_id,key,value,step\n", None),
        ("1700000001500 1.99 1\n", "a metric in the directory of an MLflow run"),
        ("1700000001500 -1e-5 1 more\r\n", "a metric in the directory of an MLflow run"),
        ("170000000150 1.99 1\n", None),
        ("1700000001500 1.99 x\n", None),
        ('{"log_history": []}', "trainer_state.json"),
        ('\ufeff \n{"a": 1, "log_history" : [', "trainer_state.json"),
        ('{"log_history": {}}', None),
        ('["log_history": []', None),
        ('{"train_runtime": 3}', "train_results.json"),
        ('{"schema_version": 3, "train_runtime": 3}', None),
        ('{"a": "' + " " * 174 + '", "schema_version": 3, "train_runtime": 3}', None),
        (
            '{"a": "' + " " * 175 + '", "schema_version": 3, "train_runtime": 3}',
            "train_results.json",
        ),
        ('["train_runtime"]', None),
        (":W&B\x00", "the file of a W&B run"),
        ("x:W&B", None),
        ("", None),
    ],
)
def test_what_a_file_is_known_by(head, kind):
    found = read.file_format_of(head.encode())
    assert (found and found.looks_for.startswith(kind or "?"), found is None) == (
        (True, False) if kind else (None, True)
    )


NO_LOG = "no supported training log in it"


@pytest.mark.parametrize(
    ("entry", "steps"),
    [
        ({"global_step/max_steps": "5/40"}, (5, 40)),
        ({"global_step/max_steps": "0/40", "step": 3}, (None, 40)),
        ({"iteration": "5/0"}, (5, None)),
        ({"global_step/max_steps": "5/40", "iteration": "6/50"}, (5, 40)),
        ({"iteration": "5", "step": "7"}, (7, None)),
        ({"step": 0}, (None, None)),
        ({"step": 1}, (1, None)),
        ({"step": 2**53 - 1}, (2**53 - 1, None)),
        ({"step": 2**53}, (None, None)),
        ({"step": "x"}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_the_step_that_a_dictionary_states(entry, steps):
    assert fields.printed_step(entry) == steps


@pytest.mark.parametrize(
    ("entry", "is_record"),
    [
        *(
            ({"loss": 1, name: 2}, True)
            for name in ("learning_rate", "epoch", "grad_norm", "step", "iteration")
        ),
        ({"loss": 1}, False),
        ({"loss": 1, "lr": 2}, False),
        ({"eval_loss": 1, "epoch": 2}, False),
    ],
)
def test_a_dictionary_of_training_steps(entry, is_record):
    assert fields.is_record(entry) is is_record


@pytest.mark.parametrize(
    ("entry", "step", "seconds", "known"),
    [
        ({"train_speed(s/it)": 2.5}, 10, 25.0, 25.0),
        ({"train_speed(s/it)": 2.5}, 10, 26.0, 25.0),
        ({"train_speed(s/it)": 2.5}, 10, 24.0, 25.0),
        ({"train_speed(s/it)": 2.5}, 10, 26.1, None),
        ({"train_speed(iter/s)": 0.4}, 10, 25.0, 25.0),
        ({"train_speed(iter/s)": 0.4, "train_speed(s/it)": 2.4}, 10, 24.0, 24.0),
        ({"train_speed(iter/s)": 0.3}, 1, 3.0, 3.3333),
        ({"train_speed(iter/s)": 0.0}, 10, 25.0, None),
        ({"train_speed(iter/s)": -0.4}, 10, -25.0, None),
        ({}, 10, 25.0, None),
    ],
)
def test_the_time_since_the_start_by_the_mean_speed(entry, step, seconds, known):
    assert fields.since_start(entry, step, seconds) == known


@pytest.mark.parametrize(
    ("runtime", "steps", "before", "seconds"),
    [(40.0, 10, 2, 5.0), (40.0, 2, 2, None), (40.0, 3, 2, 40.0), (40.0, None, 0, None), (0.0, 10, 0, None),
     (None, 10, 0, None), (-4.0, 10, 0, None)],
)  # fmt: skip
def test_the_mean_time_of_a_step(runtime, steps, before, seconds):
    found = fields.summary_of({"train_runtime": runtime, "epoch": 1.5, "other": 3}, steps, before)
    assert found == {"train_runtime_seconds": runtime, "epochs": 1.5} | (
        {} if seconds is None else {"whole_run_seconds_per_step": seconds}
    )


def series(*rows):
    """Rows of window and time since the start; the step times that follow."""
    records = [Record(step, 1, window=window) for step, (window, _) in enumerate(rows)]
    for record, (_, elapsed) in zip(records, rows, strict=True):
        if elapsed is not None:
            record.native["cumulative_train_seconds"] = elapsed
    return fields._set_step_times(records), [record.seconds for record in records]


@pytest.mark.parametrize(
    ("rows", "times"),
    [
        ([(2, 5.12345), (1, 6.5), (3, 9.5)], [2.561725, 1.37655, 1.0]),
        ([(2, 5.12345), (1, None), (3, 9.12345), (None, 9.62345)], [2.561725, None, 1.0, 0.5]),
        # A resumed training counts from its own start.
        ([(2, 5.12345), (2, 3.0), (2, 4.0)], [2.561725, 1.5, 0.5]),
        ([(2, 5.12345), (2, 5.12345)], [2.561725, None]),
    ],
)
def test_step_times_by_the_time_since_the_start(rows, times):
    assert series(*rows) == (True, pytest.approx(times))


def test_four_digits_are_too_few_for_a_difference():
    assert series((1, 5.123), (1, 6.5), (1, None)) == (False, [None] * 3)


def console(*contents):
    reader = hf_trainer.Reader()
    for number, content in enumerate(contents, 1):
        reader.feed(Line(number, content, True))
    return reader


def test_a_console_is_known_by_its_dictionaries():
    assert console("{'a': 1}").recognized is False
    assert console("{'loss': 1.5, 'epoch': 0.5}").recognized is True


@pytest.mark.parametrize(("totals", "left"), [(1_000, 1_000), (1_001, 0), (1_002, 1)])
def test_bars_are_forgotten_by_the_thousand(totals, left):
    assert (
        len(console(*(f"|# | 3/{total} [00:01<" for total in range(5, 5 + totals)))._bars) == left
    )


def test_the_last_nine_dictionaries_wait_for_a_bar():
    dictionaries = [f"{{'loss': {number}.5, 'epoch': {number / 10}}}" for number in range(1, 11)]
    (training,) = console(*dictionaries, "|# | 7/40 [00:01<", "|# | 8/40 [00:01<")._trainings
    assert [entry.after for entry in training.entries] == [{}] + [{40: 7}] * 9
    (training,) = console(*dictionaries[:1], "|# | 7/50 [00:01<", "|# | 8/40 [00:01<")._trainings
    assert [entry.after for entry in training.entries] == [{50: 7}]


@pytest.mark.parametrize(
    ("column", "is_rate"),
    [
        *(
            (name, True)
            for name in ("learning_rate", "lr", "train/lr", "train/learning_rate", "lr-x")
        ),
        ("lrs", False),
    ],
)
def test_the_columns_of_a_learning_rate(column, is_rate):
    content = f"step,train_loss,{column}\n0,2.5,\n0,,0.5\n"
    (parsed,) = lightning_csv._read(InputFile("a", io.BytesIO(content.encode())), {})
    assert parsed.run().learning_rates == ((0.5,) if is_rate else (None,))


HELP = "pass a training log; tprimat read --help lists formats, --columns and --pattern read others"


@pytest.mark.parametrize(
    ("content", "name", "problem", "hint"),
    [
        ("", "a.log", "is empty", "name the log of a training"),
        ("\n \n", "a.log", "is empty", "name the log of a training"),
        ("x = 1\n", "a.py", "is a program, not a log", "pass what it prints"),
        ("x = 1\n", "a.sh", "is a program, not a log", "pass what it prints"),
        ("x = 1\n", "a.txt", NO_LOG, HELP),
        ('{\n"schema_version": 1\n}\n', "a b.json", NO_LOG, "tprimat compare 'a b.json' compares a result"),
        ('{\n"a": 1\n}\n', "a b.json", NO_LOG, HELP),
        ("[\n1\n]\n", "a.json", NO_LOG, HELP),
        ('{\n"a": [1,\n', "a.json", f"{NO_LOG}: it begins like JSON and is cut off", "copy the whole file"),
        ("\x89PNG\ufffd\x02\n", "a.png", f"{NO_LOG}: it is a binary file, such as an image",
         "pass the text that the training printed"),
        ("a,b,c\n1,2,3\n4,5,6\n", "a.csv", NO_LOG, "tprimat read --columns step=COLUMN,time=COLUMN reads this table"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n", "a.json",
         "is a Git LFS pointer, not the file itself", "git lfs pull in its repository fetches the file"),
        ('{\n "cells": [\n  {\n   "step 7 loss 2.5 dt 3ms\\n"\n  }\n ]\n}\n', "a",
         "is a Jupyter notebook, and no supported training log is in its outputs",
         "--pattern reads the lines of its outputs, e.g. tprimat read --pattern 'step {step} .* {time}ms .* "
         "loss {loss}'"),
        ('{"metadata":{},"nbformat":4,"cells":[]}\n', "a.ipynb",
         "is a Jupyter notebook, and no supported training log is in its outputs",
         "--pattern reads the lines of its outputs, e.g. tprimat read --pattern 'step {step} .* {time}ms .* "
         "loss {loss}'"),
        ("\ufffd\x02\n", "a.wandb", "is no W&B run, whose file begins with “:W&B”",
         "export the run's history as CSV, and name its columns with --columns"),
        ("step 7 at 2.5 with loss 3.5\n", "a.log",
         f"{NO_LOG}; line 1 looks like a step, “step 7 at 2.5 with loss 3.5”", HELP),
    ],
)  # fmt: skip
def test_what_is_no_log(content, name, problem, hint):
    with pytest.raises(UnreadableError) as refused:
        read.parse_lines(text.lines([content.encode()]), name)
    error = refused.value
    assert (error.problem, error.hint, error.heading) == (
        f"{name}: {problem}",
        hint,
        "not-a-training-log",
    )
    with pytest.raises(UnreadableError):
        read.parse_chunks([content.encode()], name)


def trainer(count, end="\n"):
    return "".join(
        f"{{'loss': {3 - n / 8}, 'learning_rate': 0.5, 'epoch': {n / 10}}}{end}"
        for n in range(1, count + 1)
    )


@pytest.mark.parametrize(("quoted", "found"), [(2, []), (3, [3])])
def test_how_many_steps_a_document_quotes(quoted, found):
    """The last line that closes the document tells that it is one."""
    content = "{\n" + trainer(quoted, ",\n") + "}\n"
    with (
        contextlib.nullcontext()
        if found
        else pytest.raises(UnreadableError, match=f"a.json: {NO_LOG}: ")
    ):
        assert [
            len(run.steps) for run in read.read(text.lines([content.encode()]), "a.json")
        ] == found
    assert [len(run.steps) for run in read.read(text.lines([content[:-2].encode()]), "a.json")] == [
        quoted
    ]


def test_blocks_and_lines_are_the_same():
    content = trainer(5).encode()
    for found in (
        read.parse_chunks([content[:40], content[40:]], "a"),
        read.parse_lines(text.lines([content]), "a"),
    ):
        assert [parsed.steps for parsed in found] == [5]
    (run,) = read.read(text.lines([content]), "a")
    assert run.loss_values == (2.875, 2.75, 2.625, 2.5, 2.375)
