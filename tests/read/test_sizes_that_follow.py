"""Batch, length and GPUs that no line states: they follow from printed rates if they are whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from limits import limits

import tprimat
from tprimat import read
from tprimat.analysis.summary import summarize
from tprimat.read.parsing import text
from tprimat.read.parsing.following import sizes_that_follow
from tprimat.results.run import TrainingConfig

CASE = Path(__file__).parents[3] / "shared" / "cases" / "4" / "b_10_torchtitan_wps_gpus_follow.log"
ONE, ALL, SAMPLES = "tokens_per_second_per_gpu", "tokens_per_second", "samples_per_second"


def found(times=0.5, *, batch=None, length=None, gpus=None, rate=ONE, said=(), **native):
    """The sizes that follow for ten records, given one value or one of each record."""
    columns = {name: _column(values) for name, values in native.items()}
    series = {"step_times": _column(times), "native_metrics": columns}
    sizes = TrainingConfig(global_batch_size=batch, sequence_length=length, num_gpus=gpus)
    values, notes = sizes_that_follow(series, sizes, rate, said)
    assert [note.fields["value"] for note in notes] == list(values.values())
    return values


def _column(values):
    return values if isinstance(values, tuple) else (values,) * 10


@pytest.mark.parametrize(
    ("printed", "sizes"),
    [
        # 16 × 4,096 tokens in 0.5 s at 16,384 tokens/s/GPU.
        ({"batch": 16, "length": 4096, ONE: 16384.0}, {"num_gpus": 8}),
        ({ONE: 16384.0, ALL: 131072.0}, {"num_gpus": 8}),
        ({SAMPLES: 32.0}, {"global_batch_size": 16}),
        # A length takes five digits of everything.
        (
            {"times": 0.48828, SAMPLES: 32.768, ALL: 134218.0},
            {"global_batch_size": 16, "sequence_length": 4096},
        ),
        ({"times": 0.48828, "batch": 16, ALL: 134218.0}, {"sequence_length": 4096}),
        ({"times": 0.48828, "batch": 16, "gpus": 8, ONE: 16777.3}, {"sequence_length": 4096}),
        ({"times": 0.488, "batch": 16, ALL: 134218.0}, {}),
        ({"length": 4096, ALL: 131072.0}, {"global_batch_size": 16}),
        ({"length": 4096, "gpus": 8, ONE: 16384.0}, {"global_batch_size": 16}),
        # One figure follows from another that does.
        (
            {SAMPLES: 32.0, ONE: 16384.0, "length": 4096},
            {"global_batch_size": 16, "num_gpus": 8},
        ),
        # Two are unknown, or none.
        ({"batch": 16, ONE: 16384.0}, {}),
        ({"batch": 16, "length": 4096, "gpus": 4, ONE: 16384.0}, {}),
        # 8.7 GPUs: padding isn't counted.
        ({"batch": 16, "length": 4096, ONE: 15100.0}, {}),
        ({"batch": 16, "length": 4096, ONE: 16384.0, "times": None}, {}),
    ],
)
def test_what_follows(printed, sizes):
    assert found(**printed) == sizes


def test_the_first_record_holds_the_initialization():
    times = (6.0, *(0.5,) * 9)
    rates = (1365.0, *(16384.0,) * 9)
    assert found(times, batch=16, length=4096, **{ONE: rates}) == {"num_gpus": 8}
    assert found((6.0, *(0.55,) * 9), batch=16, length=4096, **{ONE: rates}) == {}


def test_rates_that_count_other_tokens_tell_nothing():
    assert found(batch=16, length=4096, rate=None, **{ONE: 16384.0}) == {}
    assert found(rate=None, **{SAMPLES: 32.0}) == {"global_batch_size": 16}


def test_a_size_that_changes_does_not_follow():
    assert found(said=["sequence_length"], batch=16, **{ALL: 131072.0}) == {}


def _agreed(records):
    """Of 40 records after the first so many give 8 GPUs, and the others 9.1."""
    rates = (1.0, *(16384.0,) * records, *(14400.0,) * (40 - records))
    series = {"step_times": (0.5,) * 41, "native_metrics": {ONE: rates}}
    sizes = TrainingConfig(global_batch_size=16, sequence_length=4096)
    return sizes_that_follow(series, sizes, ONE, ())[0].get("num_gpus")


@limits(("records that agree", _agreed, (35, None), (36, 8)))
def test_limits_of_what_follows(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def titan(*, size):
    """Torchtitan's log of these sizes, with tokens/s of 8 GPUs."""
    lines = [
        "[rank0]:2024-06-02 09:00:00,000 - root - INFO - Training starts at step 1, with local"
        f" batch size 2, global batch size {size}, sequence length 4096, total steps 60 (warmup 10)"
    ]
    for step in range(5, 61, 5):
        lines.append(
            f"[rank0]:2024-06-02 09:00:{step / 2 + 4:06.3f} - root - INFO - step: {step:2}  loss:"
            f" {11 - step / 50:.4f}  memory: 40.10GiB(50.12%)  wps: 16,384  mfu: 24.10%"
        )
    return "\n".join(lines) + "\n"


def test_gpus_of_torchtitan_follow_and_are_said_to():
    (run,) = read.read(text.lines([titan(size=16).encode()]), "a log")
    assert run.num_gpus == 8
    assert "number of GPUs (8) follows" in run.told("size-follows")[0]
    performance = summarize(run).performance
    assert performance.tokens_per_second_per_gpu == pytest.approx(16384, rel=1e-3)
    assert performance.tokens_per_second == pytest.approx(131072, rel=1e-3)


def test_gpus_of_a_pattern_follow_from_sizes_that_the_user_gives(tmp_path):
    """4 × 2,048 tokens in 0.4 s at 10,240 tokens/s of a device are 2 devices."""
    lines = []
    for step in range(1, 13):
        time = 2.4 if step == 1 else 0.4 + step % 3 / 500
        lines.append(f"global_step: {step}, runtime: {time:.4f}, per_device: {4096 / time:.4f}\n")
    (tmp_path / "a.log").write_text("".join(lines))
    pattern = "global_step: {step}, runtime: {time}, per_device: {tokens_per_second_per_gpu}"
    found = tprimat.read_log(
        tmp_path / "a.log", pattern=pattern, global_batch_size=4, sequence_length=2048
    )
    (run,) = found.runs
    assert run.num_gpus == 2
    assert "number of GPUs (2) follows" in run.told("size-follows")[0]


def test_gpus_that_are_not_whole_do_not_follow():
    (run,) = read.read(text.lines([titan(size=17).encode()]), "a log")
    assert (run.num_gpus, run.told("size-follows")) == (None, ())


def test_the_case_of_torchtitan():
    if not CASE.is_file():
        pytest.skip("the directory of cases does not lie beside this clone")
    (run,) = read.read(text.lines([CASE.read_bytes()]), CASE.name)
    performance = summarize(run).performance
    assert (run.num_gpus, performance.avg_step_time_seconds) == (8, pytest.approx(0.5, rel=1e-3))
