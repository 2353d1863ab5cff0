"""The base of readers of a line, an object or a block per step: what each part of it takes from a
line.
"""

from __future__ import annotations

import re
from typing import ClassVar

import pytest

from tprimat.read.parsing.records import Record
from tprimat.read.parsing.step_lines import BlockReader, ElapsedReader, StepReader
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import count, statements


class Steps(StepReader):
    name = "steps"
    signs = ("step ", "|")
    other_signs = ("hello",)
    names: ClassVar = {
        "loss": "loss",
        "ms": "milliseconds",
        "mem_gb": "memory_max_allocated_gb",
        "left": "",
    }
    needs = ("loss", "ms")
    statements = statements(("size", count, 1, r"size=(?P<global_batch_size>\d+)"))
    rate = None

    def take(self, line: Line) -> bool:
        words = line.text.split()
        if len(words) < 2 or not words[1].isdigit():
            return False
        step, printed = int(words[1]), dict(word.split("=") for word in words[2:])
        if not printed and self.cut_off(step, line):
            return True
        if self.counts(printed):
            self.sorter.take(self.new_record(step, line.number, printed))
        return True


def feed(reader: StepReader, *texts: str, whole: bool = True) -> StepReader:
    for number, text in enumerate(texts, 1):
        reader.feed(Line(number, text, whole or number < len(texts)))
    return reader


def test_what_it_hears():
    signs = Steps().all_signs
    assert signs[:3] == ("step ", "size", "hello")
    assert "--max_steps" in signs
    assert "|" not in signs


def test_a_reader_knows_a_log_by_its_records():
    reader = feed(Steps(), "step x loss=3", "size=8")
    assert (reader.recognized, reader.finish()) == (False, [])
    feed(reader, "step 3 loss=2")
    assert reader.recognized


def test_one_training():
    reader = Steps()
    reader.figures, reader.memory, reader.notes = (
        {"total": 5.0},
        {"peak_memory_reserved_gb": 7.0},
        ["noted"],
    )
    feed(
        reader,
        "size=8",
        "--max_steps 9",
        "max_steps: 7",
        "x" * 1995 + "size=9",
        "step 4 loss=3.5 ms=2500 mem_gb=3 odd=7",
        "step 5 loss=3.25 ms=1500 mem_gb=5 left=7",
        "step 7 loss=3.0 ms=3500 mem_gb=4",
        "step 8 other=5",
        "ValueError: x",
    )
    for seconds in (1.0, 2.0, 6.0, "7.0", "x"):
        reader.add_part("forward", seconds)
    (parsed,) = reader.finish()
    run = parsed.run()
    assert (parsed.steps, parsed.notes) == (3, ("noted",))
    assert (run.framework, run.source.dialect) == ("steps", "steps")
    assert (run.steps, run.window_steps, run.step_times) == ((4, 5, 7), (1, 1, 2), (2.5, 1.5, 3.5))
    assert (run.loss_values, run.lines) == ((3.5, 3.25, 3.0), (5, 6, 7))
    assert run.native_metrics == {"total": 5.0, "memory_max_allocated_gb": (3.0, 5.0, 4.0)}
    assert run.memory_metrics.known() == {
        "peak_memory_allocated_gb": 5.0,
        "peak_memory_reserved_gb": 7.0,
    }
    assert run.training_config.known() == {"global_batch_size": 8, "max_steps": 9}
    assert run.breakdown == {"forward": 4.0}
    assert run.status_reason == "log ends at step 7 of 9: line 9: ValueError: x"
    assert "1 label not read: odd" in run.warnings


def test_what_a_log_says_once_is_of_its_last_training():
    reader = feed(
        Steps(), "step 4 loss=3.5", "step 5 loss=3.25", "step 4 loss=3.0", "step 6 loss=2.5"
    )
    reader.figures, reader.memory, reader.notes = (
        {"total": 5.0},
        {"peak_memory_reserved_gb": 7.0},
        ["noted"],
    )
    reader.add_part("forward", 3.0)
    first, last = reader.finish()
    assert (first.notes, last.notes) == ((), ("noted",))
    for parsed, told in ((first, False), (last, True)):
        run = parsed.run()
        assert (
            "total" in run.native_metrics,
            bool(run.breakdown),
            bool(run.memory_metrics.known()),
        ) == (told,) * 3


def test_a_log_that_counts_from_0():
    (parsed,) = feed(Steps(), "step 0 loss=3.5", "step 1 loss=3.25").finish()
    assert parsed.run().steps == (1, 2)


def test_a_training_without_a_record():
    reader = feed(Steps(), "size=8")
    reader.has_own_lines = True
    (parsed,) = reader.finish()
    assert (parsed.steps, parsed.stated["global_batch_size"].value) == (0, 8)


@pytest.mark.parametrize(
    ("whole", "reason"), [(True, "killed"), (False, "file truncated within the next record")]
)
def test_a_file_that_ends_in_a_step(whole, reason):
    (parsed,) = feed(Steps(), "--max_steps 9", "step 4 loss=3.5", "step 5 ", whole=whole).finish()
    assert reason in parsed.run().status_reason


def test_labels_need_not_be_told():
    class Quiet(Steps):
        warns_of_unread = False
        untimed = "none are printed"

    (parsed,) = feed(Quiet(), "step 4 loss=3.5 odd=7").finish()
    assert not [words for words in parsed.run().warnings if "not read" in words]
    assert "no step times: none are printed" in parsed.run().warnings


def test_around_the_records_times_and_events_alone_are_heard_before_the_first():
    reader = Steps()
    reader.hear(Line(1, "2026-05-11T02:00:05+00:00 ValueError: x", True))
    reader.hear(Line(2, "saving checkpoint at iteration 4", True))
    assert reader.sorter.pending.causes.reason() is None
    assert reader.sorter.pending.first_stamp.time.isoformat() == "2026-05-11T02:00:05+00:00"
    assert [mark.kind for mark in reader.sorter.pending.events.marks] == ["checkpoint"]
    reader.sorter.take(Record(4, 3))
    reader.hear(Line(4, "ValueError: y", True))
    assert reader.sorter.pending.causes.reason() == "line 4: ValueError: y"


class Elapsed(ElapsedReader):
    name = "elapsed"
    signs = ("{",)
    names: ClassVar = {"loss": "loss", "step": "", "of": "", "elapsed_time": "", "exact": ""}

    def place(self, entry):
        return entry.get("step"), entry.get("of")

    def exactly(self, entry, step, seconds):
        return entry.get("exact")


def entries(*found: str) -> list[str]:
    return [f"x {{{each}}} y" for each in found]


COARSE = "step times are differences of elapsed_time, which has whole seconds"


@pytest.mark.parametrize("exact", [True, False])
def test_objects_with_the_time_since_the_start(exact):
    def last(seconds: float) -> str:
        return f', "exact": {seconds}' if exact else ""

    written = entries(
        f'"step": 10, "of": 40, "loss": 3.5, "elapsed_time": "0:00:20"{last(20.5)}',
        f'"step": 20, "of": 40, "loss": 3.25, "elapsed_time": "0:00:50"{last(50.25)}',
        '"step": 20, "of": 40, "eval": 7',
        '"of": 41, "loss": 3',
        '"step": 30, "of": 40, "loss": 3.0',
    )
    (parsed,) = feed(Elapsed(), *written, "{", '{"step": 0, "loss": 2}').finish()
    run = parsed.run()
    assert (run.steps, run.window_steps, run.loss_values, run.lines) == (
        (10, 20, 30),
        (10,) * 3,
        (3.5, 3.25, 3.0),
        (1, 2, 5),
    )
    assert run.step_times == ((2.05, 2.975, None) if exact else (2.0, 3.0, None))
    assert run.training_config.max_steps == 40
    assert (COARSE in run.warnings) is not exact
    assert parsed.stated["max_steps"].text == written[0]


def test_a_single_inexact_time_is_told():
    written = entries(
        '"step": 10, "loss": 3.5, "elapsed_time": "0:00:20"',
        '"step": 20, "loss": 3.25, "elapsed_time": "0:00:50", "exact": 50.25',
    )
    assert COARSE in feed(Elapsed(), *written).finish()[0].run().warnings


class Blocks(BlockReader):
    name = "blocks"
    signs = ("==", ":")
    header = re.compile(r"== (\d+)(?:/(\d+))? ==")
    metric = re.compile(r"(\w+): ([\d.]+)")
    names: ClassVar = {"loss": "loss"}
    needs = ("loss", "speed")
    rates = ("speed",)
    caveat = "times from speed"
    untimed = "speeds have few digits"
    rate = None


class Headless(Blocks):
    headless = True

    def step_within(self, block):
        return int(block["at"]) if "at" in block else None


def read(reader: BlockReader, *texts: str):
    (parsed,) = feed(reader, *texts).finish()
    return parsed.run()


HEADERS = "records without a step number ({}) are numbered in order"
FEW = "no step times: speeds have few digits"


def test_blocks():
    run = read(
        Blocks(),
        "loss: 9.0",
        "== 4/90 ==",
        "loss: 3.5",
        "speed: 0.250",
        "other: 7",
        "== 6/90 ==",
        "speed: 0.125 x",
        "loss: 3.25",
        "== 8/90 ==",
        "nothing: 5",
        "== 10/90 == loss: 3.0",
    )
    assert (run.steps, run.window_steps, run.lines) == ((4, 6, 10), (1, 2, 4), (2, 6, 11))
    assert (run.loss_values, run.step_times) == ((3.5, 3.25, 3.0), (4.0, 8.0, None))
    assert run.native_metrics == {"batches_per_second": (0.25, 0.125, None)}
    assert run.training_config.max_steps == 90
    assert "times from speed" in run.warnings
    assert "1 label not read: other" in run.warnings
    assert not [words for words in run.warnings if "without a step number" in words or words == FEW]


@pytest.mark.parametrize(("speed", "seconds"), [("0.25", None), ("0.250", 4.0), ("0.0", None)])
def test_a_speed_needs_three_digits(speed, seconds):
    run = read(Blocks(), "== 4 ==", "loss: 3.5", f"speed: {speed}")
    assert run.step_times == (seconds,)
    assert (FEW in run.warnings) is (speed == "0.25")
    assert ("times from speed" in run.warnings) is (seconds is not None)


def test_a_metric_again_is_of_another_block_without_a_header():
    run = read(Blocks(), "== 4 ==", "loss: 3.5", "loss: 3.25", "speed: 0.250")
    assert (run.steps, run.loss_values, run.lines) == ((4, 5), (3.5, 3.25), (1, 3))
    assert HEADERS.format(1) in run.warnings


def test_blocks_without_any_header():
    run = read(Headless(), "loss: 3.5", "x: 1", "loss: 3.25", "at: 7", "loss: 3.0", "loss: 2.75")
    assert (run.steps, run.loss_values, run.lines) == (
        (1, 7, 8, 9),
        (3.5, 3.25, 3.0, 2.75),
        (1, 3, 5, 6),
    )
    assert HEADERS.format(3) in run.warnings


@pytest.mark.parametrize(("length", "losses"), [(391, (3.5,)), (392, (3.0,))])
def test_a_metric_is_looked_for_in_400_characters(length, losses):
    run = read(Blocks(), "== 4 ==", "speed: 0.250", " " * length + "loss: 3.5")
    assert run.loss_values == losses


def test_a_line_is_tried_once():
    calls = []

    class Tried(Steps):
        def take(self, line: Line) -> bool:
            calls.append(line.text)
            return False

    feed(Tried(), "step x | y", "nothing", "| y")
    assert calls == ["step x | y", "| y"]
