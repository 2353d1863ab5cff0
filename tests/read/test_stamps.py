"""Printed step times against the time stamps of their records."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from limits import limits
from made_runs import said
from stored_runs import findings_of

from tprimat import read
from tprimat.analysis.summary import summarize
from tprimat.checks import physics
from tprimat.read.parsing import stamps
from tprimat.read.parsing.placing import Row

CLOCK, BEYOND, CONTRADICT = "stamps-are-clock", "steps-beyond-stamps", "stamps-contradict"


def told(
    factor=1.0,
    *,
    seconds=1.0,
    steps=50,
    resolution=1.0,
    apart=(),
    digits=6,
    at=None,
    window=1,
    late=None,
):
    """The code of what stamps say of steps whose printed times are `factor` of what they took; None
    for nothing.

    `late`: by how many seconds some lines are written late. `at`: a pause in s after some steps.
    """
    noise = random.Random(5)
    took = [seconds * window * (1 + 0.02 * noise.random()) for _ in range(steps + 1)]
    ends = itertools.accumulate(
        time + (at or {}).get(number - 1, 0.0) for number, time in enumerate(took)
    )
    rows = [
        (
            Row(
                number * window,
                number,
                (end + (late or {}).get(number, 0.0)) // resolution * resolution,
            ),
            True,
            resolution,
        )
        for number, end in enumerate(ends)
    ]
    times = {
        number * window: (round(time / window * factor, digits), window)
        for number, time in enumerate(took)
    }
    found = stamps.contradiction(rows, times, apart)
    return found[0] if found else None


@limits(
    # 50 steps of 1 s with stamps in whole seconds: 2 s of both ends, 1%, and a tenth of the steps
    # is left out.
    ("x5 longer", told, (1.03, None), (1.1, BEYOND)),
    ("x5 shorter", told, (0.95, None), (0.9, CLOCK)),
    ("x5 longer, of more steps", lambda factor: told(factor, steps=500), (1.012, None), (1.02, BEYOND)),
    ("x5 longer, finer stamps", lambda factor: told(factor, resolution=1e-3), (1.01, None), (1.015, BEYOND)),
    ("x5 shorter, finer stamps", lambda factor: told(factor, resolution=1e-3), (0.982, None), (0.97, CLOCK)),
    ("x5 longer, windows of ten steps", lambda factor: told(factor, window=10), (1.01, None), (1.02, BEYOND)),
    ("x5 steps that decide", lambda steps: told(1.5, steps=steps), (14, CONTRADICT), (15, BEYOND)),
    ("x5 steps that change the clock", lambda n: told(0.5, steps=n, seconds=9.0), (14, CONTRADICT), (15, CLOCK)),
    ("x5 groups", lambda steps: told(2.0, steps=steps, seconds=5.0), (2, None), (3, CONTRADICT)),
    # 0.2 s is anything from 0.15 to 0.25 s.
    ("x5 printed digits", lambda digits: told(1.1, seconds=0.19, steps=999, digits=digits), (1, None), (2, BEYOND)),
    # A tenth of the groups may be exceptions: pauses that the log is silent about, or a first line
    # that came late.
    ("x5 silent pauses", lambda n: told(at={8 * k: 60 for k in range(n)}, seconds=5.0), (5, None), (6, CONTRADICT)),
    ("x5 lines that come late", lambda n: told(late={0: n}, seconds=5.0, resolution=1e-3), (0.0, None), (4.0, None)),
)  # fmt: skip
def test_x5_what_stamps_settle(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


@pytest.mark.parametrize(("share", "code"), [(0.1, BEYOND), (0.3, None)])
def test_x5_lines_that_were_written_at_once_say_nothing(share, code):
    """A buffer that is written when it is full: all of its lines have one time."""
    rows = [
        (Row(step, step, 2.0 * (step - step % 4 if step < 100 * share else step)), True, 1.0)
        for step in range(100)
    ]
    found = stamps.contradiction(rows, dict.fromkeys(range(100), (2.2, 1)), ())
    assert (found[0] if found else None) == code


@pytest.mark.parametrize(("apart", "code"), [(0.049, None), (0.051, BEYOND)])
def test_x5_a_log_that_was_written_at_its_end_says_nothing_and_milliseconds_are_no_seconds(
    apart, code
):
    rows = [(Row(step, step, apart * step), True, 1e-3) for step in range(100)]
    found = stamps.contradiction(rows, dict.fromkeys(range(100), (51.0, 1)), ())
    assert (found[0] if found else None) == code


def test_x5_a_pause_that_the_log_tells_of_is_left_out():
    pauses = dict.fromkeys(range(4, 50, 5), 20.0)
    assert told(at=pauses, seconds=5.0) == CONTRADICT
    assert told(at=pauses, seconds=5.0, apart=[number + 1 for number in pauses]) is None
    assert told(0.9, at=pauses, seconds=5.0, apart=[number + 1 for number in pauses]) == CLOCK
    assert told(1.1, at=pauses, seconds=5.0, apart=[number + 1 for number in pauses]) == BEYOND


def test_x5_a_clock_that_is_put_back_or_forward_is_no_contradiction():
    assert told(at={25: 3600.0}, seconds=5.0) is None
    rows = [(Row(step, step, 5.0 * step - 3600.0 * (step > 25)), False, 1.0) for step in range(50)]
    assert stamps.contradiction(rows, dict.fromkeys(range(50), (5.0, 1)), ()) is None


def test_x5_records_on_two_clocks_or_with_steps_missing_are_not_compared():
    times = dict.fromkeys(range(60), (9.0, 1))
    assert (
        stamps.contradiction(
            [(Row(step, step, 5.0 * step), step % 2 == 0, 1.0) for step in range(50)], times, ()
        )
        is None
    )
    assert (
        stamps.contradiction(
            [(Row(2 * step, step, 5.0 * step), True, 1.0) for step in range(30)], times, ()
        )
        is None
    )
    assert stamps.contradiction([], {}, ()) is None


def clock(seconds: float, digits: int = 0) -> str:
    text = f"{int(seconds) // 3600:02}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"
    return text + f"{seconds % 1:.{digits}f}"[1:] if digits else text


def honest(form: str, steps: int = 60) -> str:
    """A log whose time stamps and step times agree."""
    noise = random.Random(7)
    took = [2.0 + noise.random() / 10 for _ in range(steps)]
    ends = [60 + end for end in itertools.accumulate(took)]
    rows = list(enumerate(zip(took, ends, strict=True), 1))
    if form == "megatron":
        return "  seq_length ........ 2048\n  world_size ........ 8\n" + "".join(
            f" [2026-05-11 02:{clock(end)[3:]}] iteration {step:8d}/{steps:8d} | elapsed time per"
            f" iteration (ms): {1000 * time:.1f} | throughput per GPU (TFLOP/s/GPU):"
            f" {400 / time:.1f} | global batch size:    64 | lm loss: {10 - step / 100:.6E} |\n"
            for step, (time, end) in rows
        )
    if form == "torchtitan":
        return (
            "[titan] 2026-05-11 02:00:01,000 - root - INFO - Building 1-D device mesh with"
            " ['dp_shard'], [8]\n[titan] 2026-05-11 02:00:02,000 - root - INFO - Training starts"
            " at step 1, with local batch size 1, global batch size 8, sequence length 8192, total"
            f" steps {steps} (warmup 200)\n"
            + "".join(
                f"[titan] 2026-05-11 02:{clock(end, 3)[3:].replace('.', ',')} - root - INFO - step:"
                f" {step:2}  loss: 9.1  memory: 31.0GiB(25%)  tps: {8192 / time:,.0f}  tflops:"
                f" {400 / time:.2f}  mfu: 40.00%\n"
                for step, (time, end) in rows
            )
        )
    if form == "maxtext":
        return "".join(
            f"2026-05-11 02:{clock(end, 6)[3:]} completed step: {step}, seconds: {time:.3f},"
            f" TFLOP/s/device: {400 / time:.3f}, Tokens/s/device: {8192 / time:.3f}, total_weights:"
            f" 8000, loss: {10 - step / 100:.3f}\n"
            for step, (time, end) in rows
        )
    return "".join(
        f'{{"step": {step}, "epoch": 0, "timestamp": "2026-05-11T02:{clock(end, 3)[3:]}Z", "loss":'
        f' 2.5, "grad_norm": 1.9, "lr": 1e-05, "mem": 23.1, "tps": {65536 / time:.4f},'
        f' "tps_per_gpu": {8192 / time:.4f}, "mfu": 7.2, "num_tokens_per_step": 65536,'
        ' "num_label_tokens": 8209}\n'
        for step, (time, end) in rows
    )


TIMES, RATES = (
    r"(\(ms\): |\bseconds: )([\d.]+)",
    r"(/GPU\): |tps(?:_per_gpu)?\"?: |tflops: |/device: )([\d.,]*\d)",
)


def forged(text: str, factor: float) -> str:
    """A log with all step times times a factor, the rates to match, and its time stamps left as
    they are.
    """

    def changed(match: re.Match[str], factor: float) -> str:
        digits, comma = len(match[2].partition(".")[2]), "," if "," in match[2] else ""
        return match[1] + f"{float(match[2].replace(',', '')) * factor:{comma}.{digits}f}"

    return re.sub(
        RATES,
        lambda each: changed(each, 1 / factor),
        re.sub(TIMES, lambda each: changed(each, factor), text),
    )


def run_of(text: str):
    (log,) = read.parse_chunks([text.encode()], "train.log")
    return log.run()


@pytest.mark.parametrize("form", ["megatron", "torchtitan", "maxtext", "automodel"])
def test_x5_forged_step_times_are_those_by_the_stamps_or_refused(form):
    text = honest(form)
    run = run_of(text)
    assert findings_of(run) == ()
    mean = summarize(run).performance.avg_step_time_seconds
    for factor in (0.5, 0.9):
        cut = run_of(forged(text, factor))
        assert findings_of(cut)[0].code == CLOCK
        assert cut.timing.kind == "stamps"
        assert said(cut, "no pause in the log explains it")
        # 60 stamps of 1 s, of 2 s each, settle 1.7%.
        assert summarize(cut).performance.avg_step_time_seconds == pytest.approx(mean, rel=0.017)
    for factor in (1.1, 2.0):
        stretched = run_of(forged(text, factor))
        assert findings_of(stretched)[0].code == BEYOND
        assert "error" in [
            each.severity for each in physics.findings(stretched, summarize(stretched))
        ]


SAMPLES = (
    "primus/megatron_light_llama31_8B_bf16_50it.log",
    "automodel/llama3_1_8b_hellaswag_pp_h100.jsonl",
    "automodel/llama3_2_1b_squad_h100.jsonl",
    "maxtext/dpo_qwen3_demo.log",
)


@pytest.mark.parametrize("name", SAMPLES)
def test_x5_forged_real_logs(samples, name):
    text = (samples / name).read_text(errors="replace")
    run = run_of(text)
    assert findings_of(run) == ()
    mean = summarize(run).performance.avg_step_time_seconds
    for factor, codes in ((0.9, [CLOCK]), (0.5, [CLOCK]), (1.1, [BEYOND])):
        changed = run_of(forged(text, factor))
        told = [note.code for note in findings_of(changed) if note.code != "rates-against-stamps"]
        assert told == codes, factor
        if factor < 1:
            assert summarize(changed).performance.avg_step_time_seconds == pytest.approx(
                mean, rel=0.02
            )


def test_x5_pauses_of_an_honest_log_are_explained_by_its_lines():
    lines = honest("megatron").splitlines(True)
    later = [re.sub(r"02:0(\d)", lambda each: f"02:2{each[1]}", line) for line in lines[32:]]
    pause = [" validation loss at iteration 30 | lm loss value: 5.0E+00 |\n"]
    assert findings_of(run_of("".join([*lines[:32], *pause, *later]))) == ()


@pytest.mark.parametrize(("factor", "codes"), [(1.0, []), (0.9, [CLOCK]), (1.1, [BEYOND])])
@pytest.mark.parametrize("kept", [2, 3])
def test_x5_records_without_a_stamp_lie_between_two_that_have_one(factor, codes, kept):
    lines = forged(honest("megatron"), factor).splitlines(True)
    text = "".join(
        line if number % kept else re.sub(r"^ \[.*?\]", "", line)
        for number, line in enumerate(lines)
    )
    assert [note.code for note in findings_of(run_of(text))] == codes
