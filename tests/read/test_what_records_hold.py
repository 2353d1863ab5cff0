"""Records that hold something else than training: evaluations, saves, captures, restarts; and
coarse clocks.
"""

from __future__ import annotations

import datetime
import json
import math
import random

import msgspec
import pytest
from limits import limits
from stored_runs import findings_of

from tprimat import api, read
from tprimat.analysis.records import longer, trained
from tprimat.analysis.summary import summarize
from tprimat.compare import compare
from tprimat.read.parsing import stamps
from tprimat.read.parsing.placing import Row
from tprimat.report.verdict import report
from tprimat.results.result_file import Loaded
from tprimat.results.run import TrainingConfig

HOLDS = "steps-hold-other"


def run_of(text):
    (log,) = read.parse_chunks([text.encode()], "train.log")
    return log.run()


def mean_of(run):
    return summarize(run).performance.avg_step_time_seconds


def held(run):
    """The steps that hold something else, and what, as the note says."""
    return next((note.fields for note in run.notes if note.code == HOLDS), None)


def evened(step):
    return 1 + 0.002 * math.sin(step)


def nanogpt(every, evaluates, took=7.4, evaluation=46.7, last=610):
    """Every so many iterations are printed, and one in `evaluates` evaluates; its line stands
    before that iteration.
    """
    lines = []
    for step in range(last + 1):
        if step % evaluates == 0:
            lines += [
                f"step {step}: train loss 4.4920, val loss 4.5420",
                "saving checkpoint to out",
            ]
        if step % every == 0:
            seconds = took * evened(step) + (evaluation if step % evaluates == 0 else 0.0)
            lines.append(
                f"iter {step}: loss {9 - step / 1000:.4f}, time {1000 * seconds:.2f}ms, mfu 35.20%"
            )
    return "\n".join(lines) + "\n"


TITAN = (
    "Building 1-D device mesh with ['dp_shard'], [8]",
    (
        "Training starts at step 1, with local batch size 1, global batch size 8, sequence length"
        " 8192, total steps 100 (warmup 20)"
    ),
)


def torchtitan(every, last=100):
    """The profiler's traces are written after step 20, 40, …; a record is the mean of the steps
    since the last one.
    """
    now, told, lines = 60.0, 60.0, list(TITAN)
    for step in range(1, last + 1):
        now += 2.0 * evened(step)
        if step % every == 0:
            rate = 8192 * every / (now - told)
            lines.append(
                f"step: {step:2}  loss: 9.1  memory: 31.0GiB(25%)  tps: {rate:,.0f}  tflops: 1.2 "
                " mfu: 40.00%"
            )
            told = now
        if step % 20 == 0:
            now += 30.0
            lines += [
                f"Dumping profiler traces at step {step}",
                "Finished dumping profiler traces in 30.00 seconds",
            ]
    return "".join(f"[titan] 2026-05-11 02:00:01,000 - root - INFO - {line}\n" for line in lines)


def maxtext(last=60):
    """Evaluations and checkpoints fall into the step that they follow."""
    lines = []
    for step in range(last):
        seconds = 2.0 * evened(step) + (21.0 if step % 20 == 1 and step > 1 else 0.0)
        lines.append(
            f"completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: 400.1, loss:"
            f" 9.{step:03}"
        )
        if step % 20 == 0 and step:
            lines.append(f"eval metrics after step: {step}, loss=9.1, total_weights=1024.0")
    return "\n".join(lines) + "\n"


def llama_factory(last=60):
    """In whole seconds; one in 20 steps evaluates after its record."""
    now, lines = 0.0, []
    for step in range(1, last + 1):
        now += 5.3
        known = {
            "current_steps": step,
            "total_steps": 200,
            "elapsed_time": str(datetime.timedelta(seconds=int(now))),
        }
        lines.append({**known, "loss": 9 - step / 100})
        if step % 20 == 0:
            now += 60.0
            lines.append({**known, "eval_loss": 8.0})
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize(
    ("log", "seconds", "steps", "what"),
    [
        (
            nanogpt(10, 100),
            7.4,
            "steps 101, 201, 301, 401, 501, 601",
            "an evaluation or a checkpoint",
        ),
        (nanogpt(1, 100, last=300), 7.4, "steps 101, 201, 301", "an evaluation or a checkpoint"),
        (torchtitan(1), 2.0, "steps 21, 41, 61, 81", "a profiler's capture"),
        (torchtitan(5), 2.0, "steps 25, 45, 65, 85", "a profiler's capture"),
        (maxtext(), 2.0, "steps 22, 42", "an evaluation"),
        (llama_factory(), 5.3, "steps 21, 41", "an evaluation"),
    ],
    ids=[
        "nanogpt",
        "nanogpt, every step",
        "torchtitan",
        "torchtitan, every fifth step",
        "maxtext",
        "llama_factory",
    ],
)
def test_i4_t6_what_a_record_holds_beside_its_steps_is_no_step(log, seconds, steps, what):
    run = run_of(log)
    assert mean_of(run) == pytest.approx(seconds, rel=0.005)
    assert held(run) == {"steps": steps, "what": what}


def test_i4_t6_evaluations_between_printed_steps_are_in_no_record():
    run = run_of(nanogpt(10, 55))
    # Iterations 110, 220, … are both.
    assert held(run)["steps"] == "steps 111, 221, 331, 441, 551"
    assert held(run_of(nanogpt(10, 100, evaluation=0.0))) is None
    assert mean_of(run) == pytest.approx(7.4, rel=0.005)


def state(every, evaluates, last=400):
    """trainer_state.json, with the time since the start at every so many steps."""
    history, now = [], 0.0
    for step in range(1, last + 1):
        now += 2.0 * evened(step)
        if step % every == 0:
            known = {
                "epoch": step / 400,
                "step": step,
                "loss": 9 - step / 1000,
                "learning_rate": 1e-4,
            }
            history.append(
                {**known, "train_runtime": round(now, 4), "train_tokens_per_second": 1.0}
            )
        if step % evaluates == 0:
            now += 60.0
            history.append(
                {"epoch": step / 400, "step": step, "eval_loss": 2.0, "eval_runtime": 59.9}
            )
    return {"global_step": last, "max_steps": last, "logging_steps": every, "log_history": history}


@pytest.mark.parametrize("evaluates", [50, 10])
def test_i4_t6_where_nearly_every_record_holds_an_evaluation_its_stated_time_is_taken_out(
    tmp_path, evaluates
):
    """Of one in five records, those are left out; of all but one, 60 s of an evaluation remain but
    for 0.1 s.
    """
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps(state(10, evaluates)))
    (run,) = api.read_log(path).runs
    assert mean_of(run) == pytest.approx(2.0, rel=0.006)


def around(**changes):
    """Whether the record in the middle of 21 holds something."""
    asked = {"time": 1.5, "noise": 0.0, "resolution": 0.0, "window": 1, "others": 20, **changes}
    times = [1.0 + asked["noise"] * (number % 3 - 1) for number in range(asked["others"] + 1)]
    place = len(times) // 2
    times[place] = asked["time"]
    return place in longer(times, [asked["window"]] * len(times), {place}, (), asked["resolution"])


@limits(
    ("t6 fraction", lambda time: around(time=time), (1.019, False), (1.021, True)),
    # 4 × 1.4826 × 0.01
    ("t6 sigmas", lambda time: around(time=time, noise=0.01), (1.059, False), (1.06, True)),
    (
        "t7 two resolutions",
        lambda time: around(time=time, resolution=1.0),
        (2.9, False),
        (3.1, True),
    ),
    (
        "t7 of a window",
        lambda time: around(time=time, resolution=1.0, window=10),
        (1.19, False),
        (1.21, True),
    ),
    ("t6 plain records", lambda others: around(others=others), (2, False), (3, True)),
)
def test_i4_t6_what_is_longer(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def megatron(attempts, *, slow=(90.0, 9.0, 6.0), stamped=True):
    """Attempts of so many iterations each: a start is slow for three of them."""
    step, now, lines = 0, datetime.datetime(2026, 5, 11, 2), []
    for count in attempts:
        lines += [
            "------------------------ arguments ------------------------",
            "  seq_length ........ 2048",
        ]
        for index in range(count):
            step += 1
            seconds = slow[index] if index < len(slow) else 5.0 * evened(step)
            now += datetime.timedelta(seconds=seconds)
            lines.append(
                f" {f'[{now:%Y-%m-%d %H:%M:%S}] ' if stamped else ''}iteration {step:8d}/     200 |"
                f" elapsed time per iteration (ms): {1000 * seconds:.1f} | global batch size:    64"
                f" | lm loss: {9 - step / 100:.6E} |"
            )
        now += datetime.timedelta(seconds=100)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("attempts", [(40, 40), (25, 20, 30), (40, 5)])
@pytest.mark.parametrize("stamped", [True, False])
def test_i4_b5_a_process_that_goes_on_starts_slowly_again(attempts, stamped):
    run = run_of(megatron(attempts, stamped=stamped))
    assert mean_of(run) == pytest.approx(5.0, rel=0.01)
    assert held(run)["what"] == "the start of a process"
    # A start that isn't slow holds nothing.
    assert held(run_of(megatron(attempts, slow=(), stamped=stamped))) is None


def test_i4_t4_a_single_step_that_its_stamps_do_not_allow_is_none(samples):
    path = samples.parent / "cases" / "4" / "a_09c_saves_in_times_megatron.log"
    if not path.is_file():
        pytest.skip("the directory of cases does not lie beside this clone")
    (run,) = api.read_log(path).runs
    assert mean_of(run) == pytest.approx(5.0, abs=0.01)
    assert held(run) == {
        "steps": "steps 130, 160",
        "what": "more than passed between its time stamps",
    }


def test_i4_t6_small_input_of_nanogpt(samples):
    path = samples.parent / "cases" / "4" / "a_09b_evals_in_times_nanogpt.log"
    if not path.is_file():
        pytest.skip("the directory of cases does not lie beside this clone")
    (run,) = api.read_log(path).runs
    assert mean_of(run) == pytest.approx(7.36, abs=0.005)
    assert "steps 500, 600 includes an evaluation" in run.told(HOLDS)[0]
    assert trained(run).steps == tuple(step for step in run.steps if step not in (500, 600))
    # A slow start that is faster than the rest is none.
    assert summarize(run).steady.first_step == 420


def impossible(time=30.0, *, passed=5.0, late=0.0, resolution=1.0, count=1):
    """How many of 40 steps of 5 s can't have lasted `time`, if `passed` s have; the line before was
    written `late`.
    """
    bad = {10 + 5 * index for index in range(count)}
    now, rows, times = 0.0, [], {}
    for step in range(40):
        now += passed if step in bad else 5.0
        rows.append((Row(step, step, now + (late if step + 1 in bad else 0.0)), True, resolution))
        times[step] = (time if step in bad else 5.0, 1)
    return len(stamps.impossible(rows, times, ()))


@limits(
    # Twice 5 s and both resolutions.
    ("t4 longer", impossible, (14.0, 0), (14.1, 1)),
    ("t4 finer stamps", lambda time: impossible(time, resolution=0.0), (10.0, 0), (10.1, 1)),
    # Stamps are 1 s apart, since the line before was written late, and lies as much further from
    # the one before it.
    ("t4 a line that came late", lambda late: impossible(passed=1.0 + late, late=late), (11.9, 1), (12.0, 0)),
    ("t4 exceptions", lambda count: impossible(count=count), (4, 4), (5, 0)),
)  # fmt: skip
def test_i4_t4_what_stamps_make_impossible(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def automodel(noise, steps=30, seconds=1.0, beside=0.25):
    """A log in whole seconds whose printed times leave out a part of each step."""
    now = datetime.datetime(2026, 4, 1, 16) + datetime.timedelta(seconds=noise.random())
    lines = []
    for step in range(steps):
        took = seconds * noise.gauss(1, 0.01)
        now += datetime.timedelta(seconds=took * (1 + beside))
        rate = 40960 / took
        lines.append(
            f"{now:%Y-%m-%d %H:%M:%S} | INFO | root | step {step} | epoch 0 | loss"
            f" {5 - step / 100:.4f} | grad_norm 4.0 | lr 1.00e-04 | mem 47.74 GiB | tps"
            f" {rate:.2f}({rate / 8:.2f}/gpu) | num_tokens_per_step 40960 | num_label_tokens"
            " 15802\n"
        )
    return "".join(lines)


def compared(*runs):
    """The verdict on two systems of a run each."""
    sizes = TrainingConfig(global_batch_size=8, sequence_length=5120, num_gpus=8, precision="bf16")
    runs = [
        msgspec.structs.replace(run, model="llama", label=name, training_config=sizes)
        for name, run in zip("ab", runs, strict=True)
    ]
    return report(
        compare([Loaded(name, name * 64, (run,)) for name, run in zip("ab", runs, strict=True)])
    ).answers[0]


def test_i4_t7_equal_logs_in_whole_seconds_are_not_different():
    noise = random.Random(4)
    standings = []
    for _ in range(10):
        first, second = (run_of(automodel(noise)) for _ in range(2))
        assert first.native_metrics["clock_resolution_seconds"] == 1.0
        assert mean_of(first) == pytest.approx(1.25, rel=1 / 30)
        verdict = compared(first, second).verdict
        standings.append(verdict.standing)
    assert standings == ["none"] * 10
    assert verdict.headline.startswith("No significant difference between")
    assert ", 1 run each: their time stamps settle no difference below " in verdict.certainty


def test_i4_t7_a_difference_that_whole_seconds_settle_is_said():
    noise = random.Random(4)
    verdict = compared(run_of(automodel(noise)), run_of(automodel(noise, seconds=1.2))).verdict
    assert verdict.standing == "unknown"
    assert "faster" in verdict.headline


def test_i4_t7_the_interval_of_a_coarse_clock_holds_its_resolution():
    """60 steps, from second to second: either end may be off by 1 s, of 318 s."""
    summary = summarize(run_of(llama_factory(60).replace('"eval_loss"', '"other"')))
    assert summary.coarseness == pytest.approx(1 / 436, rel=0.02)
    assert summary.rounding == pytest.approx(2**0.5 * summary.coarseness)
    assert summary.within.error >= summary.coarseness * summary.within.value / 6**0.5
    (segment,) = summary.segments
    assert segment.interval.about == "mean"
    assert segment.interval.high - segment.interval.low >= 1.8 * summary.coarseness * segment.mean
    assert summarize(run_of(maxtext())).coarseness == 0.0


@pytest.mark.parametrize("beside", [0.09, 0.2])
def test_i4_t7_what_whole_seconds_say_of_a_log_is_no_matter_of_chance(beside):
    """A twelfth of a group of 4 s is lost in whole seconds; of a log of 450 s it isn't."""
    noise = random.Random(6)
    for _ in range(8):
        run = run_of(automodel(noise, steps=300, seconds=1.37, beside=beside))
        assert [note.code for note in findings_of(run)] == [stamps.OWN_CLOCK]
        assert mean_of(run) == pytest.approx(1.37 * (1 + beside), rel=0.006)
