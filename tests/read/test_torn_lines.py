"""Lines torn within a number, in the middle of a log of every format: a number is whole, or it is
unknown.
"""

from __future__ import annotations

import math
import re

import made_files
import made_logs
import pytest
from megatron_writer import Setup, Step, lines

import tprimat
from tprimat import read
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.torn import TornLines

STEPS = range(1, 31)
_DEEPSPEED = made_files.OTHER_LOGS["deepspeed"].splitlines()
LOGS = {
    **{name: log for name, log in made_logs.LOGS.items() if not name.startswith("wandb")},
    **{
        name: log
        for name, log in made_files.OTHER_LOGS.items()
        if name not in ("golden", "mlperf", "deepspeed")
    },
    "deepspeed, timer": "\n".join(_DEEPSPEED[::2]),
    "deepspeed, pipeline": "\n".join(_DEEPSPEED[1::2]),
    "megatron": "\n".join(
        lines([Step(step, 700.0 + step) for step in STEPS], Setup("M5", planned=30))
    ),
    "nanogpt": "".join(
        f"iter {s}: loss {4 - s / 50:.4f}, time {135 + s / 7:.2f}ms, mfu 42.{s:02}%\n"
        for s in STEPS
    ),
    "nanochat": "".join(
        f"step {s:05d}/00100 ({s}.00%) | loss: {5 - s / 50:.6f} | dt: {350 + s:.2f}ms | tok/sec:"
        f" {1497965 - s:,} | mfu: 45.{s:02} | total time: 0.{s:02}m\n"
        for s in STEPS
    ),
    "modded-nanogpt": "".join(
        f"step:{s}/1480 train_time:{117 * s}ms step_avg:117.40ms\n" for s in STEPS
    ),
    "llm.c, main.log": "".join(
        f"s:{s} trl:{3 + s / 97:.6f} lr:0.0001{s:02} norm:1.2{s:02}\n" for s in STEPS
    ),
    "torchtune, whole numbers": "".join(
        f"Step {s} | loss:1.54 tokens_per_second:{9000 + s}\n" for s in STEPS
    ),
    "automodel, console": "".join(
        f"2026-04-01 16:05:{s:02} | INFO | step {s} | epoch 0 | loss 4.95{s:02} | grad_norm 4.0 |"
        f" lr 1.00e-04 | mem 47.74 GiB | tps 1124.{s:02}(140.58/gpu) | num_label_tokens"
        f" {15802 + s}\n"
        for s in STEPS
    ),
}
NUMBER = re.compile(r"\d[\d.,]*(?:[eE][-+]?\d+)?")
REST = (
    lambda head, tail: [head],
    lambda head, tail: [head, tail],
    lambda head, tail: [head + "W0512 03:11:02 store.cpp] waited 5 s", tail],
    lambda head, tail: [head + " WARNING: slow", tail],
    lambda head, tail: [head + "2026-05-12 03:11:02 INFO saved", tail],
    lambda head, tail: [head + "[rank3]: UserWarning: slow", tail],
)
"""What follows the first part of a torn line: the end of the line, or what another process writes.
"""


def values(reader: read.Reader, written: list[str]) -> dict[int, dict[str, float]]:
    """Return what a reader reads, by step and name."""
    for number, text in enumerate(written, start=1):
        reader.feed(Line(number, text, True))
    found: dict[int, dict[str, float]] = {}
    for parsed in reader.finish():
        run = parsed.run()
        series = {
            **{
                name: getattr(run, name)
                for name in ("step_times", "loss_values", "learning_rates", "grad_norms")
            },
            **{name: each for name, each in run.native_metrics.items() if isinstance(each, tuple)},
        }
        for place, step in enumerate(run.steps):
            known = {name: each[place] for name, each in series.items() if each[place] is not None}
            found.setdefault(step, {}).update(known)
    return found


def test_every_format_is_torn():
    names = {each.name for name in LOGS for each in readers_of(LOGS[name].splitlines())}
    # The whole of one is a JSON document; a line of the other is one.
    assert {each.name for each in read.log_formats()} - names == {"golden", "mlperf"}


def readers_of(written: list[str]) -> list[type[read.Reader]]:
    return [each for each in read.log_formats() if values(each(), written)]


@pytest.mark.parametrize("name", LOGS)
def test_no_torn_number_is_read(name):
    written = LOGS[name].splitlines()
    (reader,) = readers_of(written)
    whole = values(reader(), written)
    middle = len(written) * 3 // 5
    for place in range(middle, middle + max(2, len(written) // 30)):
        text = written[place]
        cuts = [
            cut
            for number in NUMBER.finditer(text)
            for cut in range(number.start() + 1, number.end())
        ]
        for index, cut in enumerate(cuts):
            torn = REST[index % len(REST)](text[:cut], text[cut:])
            found = values(reader(), [*written[:place], *torn, *written[place + 1 :]])
            assert found
            if reader.name == "hf_trainer":
                # Without one of its dictionaries, those behind it have other numbers.
                losses = {each["loss_values"] for each in whole.values() if "loss_values" in each}
                assert {
                    each["loss_values"] for each in found.values() if "loss_values" in each
                } <= losses, torn
                continue
            for step, known in found.items():
                for each, value in known.items():
                    assert math.isclose(value, whole[step][each], rel_tol=1e-6), (torn, step, each)


@pytest.mark.parametrize("name", LOGS)
def test_a_whole_log_keeps_all_its_numbers(name, monkeypatch):
    written = LOGS[name].splitlines()
    (reader,) = readers_of(written)
    guarded = values(reader(), written)
    monkeypatch.setattr(TornLines, "read", lambda self, line, take: take(line))
    assert guarded == values(reader(), written)


def told(*written: str) -> list[str]:
    """Return lines as they are given to what reads them."""
    torn, given = TornLines(), []
    for text in written:
        torn.read(Line(1, text, True), lambda line: bool(given.append(line.text)) or True)
    return given


def test_lines_are_known_from_the_third_on():
    line = "step 10 loss 2.35 time 1.5 s"
    assert told(*[line] * 2, "step 11 loss 2.")[-1] == "step 11 loss 2."
    assert told(*[line] * 3, "step 11 loss 2.")[-1] == "step 11 loss ?"


def test_a_number_with_the_decimals_of_the_others_is_whole():
    line = "step 10 loss 2.35 time 1.5 s"
    assert told(*[line] * 3, "step 11 loss 2.34")[-1] == "step 11 loss 2.34"
    # What is glued to it may be some of its decimals.
    assert told(*[line] * 3, "step 11 loss 2.34W0512")[-1] == "step 11 loss ?W0512"


def test_shorter_lines_are_another_shape_once_there_are_three():
    line, shorter = "loss 2.351 lr 1e-05 tokens 4096 s", "loss 2.351 lr 1e-05 tokens 8192"
    given = told(*[line] * 9, *[shorter] * 4)
    assert given[9:] == [*["loss 2.351 lr 1e-05 tokens ?"] * 3, shorter]


def test_a_longer_line_is_no_torn_one():
    line = "loss 2.351 tokens 4096"
    assert told(*[line] * 9, f"{line} | val 2.2", f"{line}, val 2.2")[9:] == [
        f"{line} | val 2.2",
        f"{line}, val 2.2",
    ]


@pytest.mark.parametrize("rest", [', "test_pass": 0.53}', ', "accuracy": 1}', "}}"])
def test_x0_a_longer_object_is_no_torn_one(rest):
    line = '{"step": 12, "loss": 2.351, "num_label_tokens": 267}'
    longer = line[:-1] + rest
    assert told(*[line] * 9, longer, longer)[9:] == [longer] * 2
    # Another process wrote into the number, and its own text follows.
    torn = '{"step": 12, "loss": 2.351, "num_label_tokens": 26[rank1] 7}'
    assert told(*[line] * 9, torn)[9] == torn.replace("26[", "?[")


def test_numbers_of_many_digits_may_be_shorter_than_the_others():
    line = "rate 1395.2561291608{}"
    long = "rate 1395.256"
    assert told(*[line.format(place) for place in range(9)], long)[-1] == long
    assert told(*[line.format(place) for place in range(9)], long[:-1])[-1] == "rate ?"


@pytest.mark.parametrize(
    ("end", "loss"),
    [("\n", 2.7444), ("", None), ("4", None), ("4\n", 2.74444)],
    ids=["whole", "cut", "cut later", "longer"],
)
def test_the_last_cell_of_a_table_that_ends_early_is_unknown(tmp_path, end, loss):
    rows = "".join(f"{step},0,2.7{step:03}\n" for step in range(1, 40))
    path = tmp_path / "metrics.csv"
    path.write_text(f"step,epoch,train_loss\n{rows}40,0,2.7444{end}", encoding="utf-8")
    (run,) = tprimat.read_log(path)
    known = dict(zip(run.steps, run.loss_values, strict=True))
    # The file counts from 0.
    assert known.get(41) == loss
    assert known[40] == 2.7039
