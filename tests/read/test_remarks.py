"""Warnings of what records lack, and of values that contradict each other: every sentence, and
where it begins.
"""

from __future__ import annotations

import pytest
from stored_runs import notes_of, sentences_of

from tprimat.read.parsing import remarks
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.results.run import TrainingConfig


def record(step: int, **values) -> Record:
    return Record(step, 10 * step, **{"seconds": 2.0, "loss": 3.0, "window": 1} | values)


def training(*records: Record, **values) -> LoggedTraining:
    return LoggedTraining({each.step: each for each in records}, **values)


@pytest.mark.parametrize(
    ("stretches", "words"),
    [
        ([], ""),
        ([(3, 3)], "step 3"),
        ([(1, 3), (7, 7)], "steps 1–3, 7"),
        # What follows is joined, what lies a step apart isn't.
        ([(1, 1), (2, 2), (3, 5), (7, 8)], "steps 1–5, 7–8"),
        ([(4, 4), (4, 4)], "steps 4, 4"),
        (
            [(10 * each, 10 * each) for each in range(12)],
            "steps " + ", ".join(str(10 * each) for each in range(12)),
        ),
        (
            [(10 * each, 10 * each + 2) for each in range(15)],
            "steps "
            + ", ".join(f"{10 * each}–{10 * each + 2}" for each in range(12))
            + ", and 3 more",
        ),
    ],
)
def test_spans(stretches, words):
    assert remarks.spans(iter(stretches)) == words


@pytest.mark.parametrize(
    ("steps", "windows", "warnings"),
    [
        ([], [], []),
        ([1, 2, 3], [1, 1, 1], []),
        ([2, 3], [1, 1], ["log begins at record 2"]),
        # It begins with a window of its steps, or later.
        ([10, 20], [10, 10], []),
        ([11, 21], [10, 10], ["log begins at record 11"]),
        ([1, 4, 5, 9], [1, 1, 1, 3], ["no line for records 2–3, 6"]),
        ([10, 20, 40], [10, 10, 10], ["no line for records 21–30"]),
        ([10, 20, 31], [10, 10, 10], ["no line for record 21"]),
        ([5, 12], [2, 2], ["log begins at record 5", "no line for records 6–10"]),
    ],
)
def test_missing(steps, windows, warnings):
    assert sentences_of(remarks.missing(steps, windows, "record", "lines-missing")) == warnings


def test_missing_by_itself_is_of_steps():
    assert sentences_of(remarks.missing([3, 6], [1, 1])) == [
        "log begins at step 3",
        "no record of steps 4–5",
    ]


@pytest.mark.parametrize(
    ("names", "warnings"),
    [
        ([], []),
        (["a", "a"], ["1 label not read: a"]),
        (["b", "a", "b"], ["2 labels not read: b, a"]),
        (list("abcdefgh"), ["8 labels not read: a, b, c, d, e, f, g, h"]),
        (list("abcdefghi"), ["9 labels not read: a, b, c, d, e, f, g, h, …"]),
    ],
)
def test_unread_labels(names, warnings):
    assert sentences_of(remarks.unread_labels(iter(names))) == warnings


def test_tokens_per_step():
    seen = {1: 10.0, 3: 50.0, 4: 50.0, 5: 65.0, 6: 60.0, 7: 61.0}
    records = [record(step, native={"tokens_seen": tokens}) for step, tokens in seen.items()]
    records.insert(2, record(2))
    # From 3 to 4 nothing is added, and from 5 to 6 less than nothing.
    assert remarks.tokens_per_step(records) == [20.0, 15.0, 1.0]


@pytest.mark.parametrize(
    ("tokens", "varies"),
    [
        ([0.0, 100.0, 204.0], False),
        ([0.0, 100.0, 205.0], True),
        ([0.0, 105.0, 205.0], True),
        ([7.0], False),
    ],
)
def test_sequence_lengths_that_vary(tokens, varies):
    records = [record(step, native={"tokens_seen": seen}) for step, seen in enumerate(tokens, 1)]
    words = "sequence lengths vary: 100 to 105 tokens per step, so step times vary with them"
    assert sentences_of(remarks.warnings_of(training(*records))) == ([words] if varies else [])


@pytest.mark.parametrize(
    ("records", "warnings"),
    [
        ([], []),
        ([record(1), record(2), record(3)], []),
        ([record(1), record(2, loss=None, not_finite=("loss",)), record(3)], []),
        ([record(1), record(2, loss=None), record(3)], ["no loss printed at step 2"]),
        ([record(1, loss=None), record(2, loss=None)], []),
        ([record(1), record(2, seconds=None), record(3)], ["no step time printed at step 2"]),
        ([record(1, seconds=None), record(2, seconds=None)], []),
        (
            [record(1, not_finite=("grad_norm",)), record(2), record(3, not_finite=("grad_norm",))],
            ["gradient norm is not finite at steps 1, 3"],
        ),
        (
            [record(1, unread=("b", "a")), record(2, unread=("c", "a"))],
            ["3 labels not read: b, a, c"],
        ),
        (
            [record(20, window=10), record(40, window=10)],
            ["log begins at step 20", "no record of steps 21–30"],
        ),
        (
            [record(2, window=None), record(4, window=None)],
            ["log begins at step 2", "no record of step 3"],
        ),
    ],
)
def test_what_records_lack(records, warnings):
    assert sentences_of(remarks.warnings_of(training(*records))) == warnings


def test_warnings_of_a_training_in_their_order():
    records = [
        record(7, not_finite=("loss", "grad_norm"), loss=None),
        record(3, unread=("x",)),
        record(5, loss=None),
    ]
    made = training(
        *records, warnings=[*notes_of("w")], conflicts=[*notes_of("c")], again=list(range(52))
    )
    assert sentences_of(remarks.warnings_of(made)) == [
        "w",
        "restarted 2 more times",
        "c",
        "gradient norm is not finite at step 7",
        "no loss printed at step 5",
        "1 label not read: x",
        "log begins at step 3",
        "no record of steps 4, 6",
    ]


RATES = (
    "records print tokens/s/GPU that disagree with batch × sequence length / time / GPUs (8 × 100 /"
    " 4) by up to"
)


def rated(rates, batch=8, length=100, devices=4):
    """Return the warnings about records whose steps take 2 s, and one without a time."""
    made = {
        "steps": tuple(range(1, len(rates) + 2)),
        "step_times": (*(2.0 for _ in rates), None),
        "native_metrics": {"rate": (*rates, 5.0)},
    }
    sizes = TrainingConfig(global_batch_size=batch, sequence_length=length, num_gpus=devices)
    return remarks.check_rates(made, "rate", sizes)


@pytest.mark.parametrize(
    ("rates", "sizes", "warnings"),
    [
        # 800 tokens in 2 s by 4 devices are 100 a second and device.
        ([100.0, 100.9, 99.1], {}, []),
        ([100.0, 103.0, 98.0, 101.1], {}, [f"3 of 4 {RATES} 3.0% (step 2); one of them is wrong"]),
        ([100.0, 103.0, 95.0], {}, [f"2 of 3 {RATES} 5.0% (step 3); one of them is wrong"]),
        ([100.0, 103.0, 103.0], {}, [f"2 of 3 {RATES} 3.0% (step 2); one of them is wrong"]),
        ([None, 103.0, 0.0], {}, [f"1 of 1 {RATES} 3.0% (step 2); one of them is wrong"]),
        ([200.0], {"batch": None}, []),
        ([200.0], {"length": None}, []),
        ([200.0], {"devices": None}, []),
    ],
)
def test_rates_against_the_other_values(rates, sizes, warnings):
    assert sentences_of(rated(rates, **sizes)) == warnings
    assert remarks.check_rates({"native_metrics": {}}, None, TrainingConfig()) == []


@pytest.mark.parametrize(
    ("share", "tells"), [(1.0099, False), (1.0101, True), (0.9901, False), (0.9899, True)]
)
def test_a_share_that_disagrees(share, tells):
    words = f"1 of 2 {RATES} 1.0% (step 2); one of them is wrong"
    assert sentences_of(rated([100.0, 100 * share])) == ([words] if tells else [])
