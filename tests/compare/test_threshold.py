"""Thresholds of the regression check in full: what is parsed, what each says, and what is
refused.
"""

from __future__ import annotations

import pytest

from tprimat.analysis import metrics
from tprimat.compare.threshold import CHECKED, Threshold, parse
from tprimat.errors import UsageError

RATE = "tokens_per_second_per_gpu"


def of(name):
    return next(each for each in CHECKED if each.name == name)


@pytest.mark.parametrize(
    ("slower", "others", "found"),
    [
        (None, (), [(RATE, True, 0.0)]),
        ("3%", (), [(RATE, True, 3.0)]),
        (" 2.5 % ", (), [(RATE, True, 2.5)]),
        ("99.9%", (), [(RATE, True, 99.9)]),
        # That of throughput comes first, the others in their order.
        (
            None,
            [
                "final_loss=0.1",
                "peak_memory_allocated_gb= .5 ",
                f"{RATE}=200",
                " tokens_per_second =4%",
            ],
            [
                (RATE, False, 200.0),
                ("final_loss", False, 0.1),
                ("peak_memory_allocated_gb", False, 0.5),
                ("tokens_per_second", True, 4.0),
            ],
        ),
        ("1%", ["final_loss=2%"], [(RATE, True, 1.0), ("final_loss", True, 2.0)]),
        (None, ["final_loss=7."], [("final_loss", False, 7.0)]),
        (None, ["peak_memory_allocated_gb=150"], [("peak_memory_allocated_gb", False, 150.0)]),
    ],
)
def test_what_is_asked_for(slower, others, found):
    expected = [
        Threshold(metrics.by_name(RATE) if name == RATE else of(name), percent, amount)
        for name, percent, amount in found
    ]
    assert list(parse(slower, others)) == expected


def test_metrics_that_can_be_checked_are_all_but_the_rate_of_steps():
    names = [each.name for each in metrics.METRICS]
    assert [each.name for each in CHECKED] == [name for name in names if name != "steps_per_second"]
    assert {
        each.name: each.title for each in CHECKED if each.title != metrics.by_name(each.name).title
    } == {"final_loss": "Final loss"}


@pytest.mark.parametrize(
    ("name", "percent", "amount", "falls", "limit", "unit", "text"),
    [
        (RATE, True, 3.0, True, 0.97, "%", "3% slower"),
        (RATE, False, 250.0, True, -250.0, "tokens/s/GPU", "250 tokens/s/GPU slower"),
        (RATE, True, 0.0, True, 1.0, "%", "0%"),
        ("tokens_per_second", True, 2.5, True, 0.975, "%", "2.5% lower"),
        ("tokens_per_second", False, 0.0, True, 0.0, "tokens/s", "0 tokens/s"),
        ("final_loss", True, 4.0, False, 1.04, "%", "+4%"),
        ("final_loss", False, 0.25, False, 0.25, "nats/token", "+0.25 nats/token"),
        ("final_loss", False, 0.0, False, 0.0, "nats/token", "0 nats/token"),
        ("peak_memory_allocated_gb", True, 1234567.0, False, 12346.67, "%", "+1.23457e+06%"),
    ],
)
def test_what_a_threshold_says(name, percent, amount, falls, limit, unit, text):
    made = Threshold(of(name), percent, amount)
    assert (made.falls, made.limit, made.unit, str(made)) == (
        falls,
        pytest.approx(limit),
        unit,
        text,
    )


NAMES = ", ".join(each.name for each in CHECKED)
METRIC = f"use METRIC=3% or METRIC=0.5; METRIC is one of {NAMES}"
AMOUNT = "use e.g. 3% or 0.5"


@pytest.mark.parametrize(
    ("slower", "others", "problem", "hint"),
    [
        ("3", (), "--max-slowdown: '3' is not a percentage", "use e.g. 3%"),
        ("100%", (), "--max-slowdown: invalid threshold '100%'", AMOUNT),
        (" x ", (), "--max-slowdown: invalid threshold 'x'", AMOUNT),
        (f"{'9' * 400}%", (), f"--max-slowdown: invalid threshold '{'9' * 400}%'", AMOUNT),
        (
            None,
            [f"final_loss={'9' * 400}"],
            f"--threshold final_loss: invalid threshold '{'9' * 400}'",
            AMOUNT,
        ),
        (None, ["final_loss=100%"], "--threshold final_loss: invalid threshold '100%'", AMOUNT),
        (None, ["final_loss=-1"], "--threshold final_loss: invalid threshold '-1'", AMOUNT),
        (None, ["final_loss="], "--threshold final_loss: invalid threshold ''", AMOUNT),
        (None, ["final_loss"], "--threshold: 'final_loss' is not METRIC=AMOUNT", METRIC),
        (None, ["x=1"], "--threshold: 'x=1' is not METRIC=AMOUNT", METRIC),
        (
            None,
            ["final_loss=1", "final_loss=2"],
            "--threshold: final_loss is given twice",
            "use one",
        ),
        ("3%", [f"{RATE}=1"], f"--threshold: {RATE} is given twice", "use one"),
    ],
)
def test_what_is_no_threshold(slower, others, problem, hint):
    with pytest.raises(UsageError) as raised:
        parse(slower, others)
    assert (raised.value.problem, raised.value.hint, raised.value.heading) == (
        problem,
        hint,
        "wrong-threshold",
    )
