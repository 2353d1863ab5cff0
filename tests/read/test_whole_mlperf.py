"""MLPerf logs, with all that is read from them (as in test_whole_logs.py), and the parts of their
reader.
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import msgspec
import pytest
import whole
from made_mlperf import BATCH, DIALECTS, EVEN, Log, mlperf_log
from made_runs import make_run
from stored_runs import notes_of

from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.read.mlperf import reader, streams, system
from tprimat.read.mlperf import run as mlperf_run
from tprimat.read.mlperf.streams import Block, Event, PlacedEvents, Point
from tprimat.read.mlperf.timeline import Mark, Timeline
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.values import LoggedValue, LoggedValues
from tprimat.results.account import Entry
from tprimat.results.fields import LARGEST_COUNT, LONGEST_STEP
from tprimat.results.run import Environment, GpuInfo

MLPERF_UNSTATED = words(Note("mlperf-gpus-unstated"))

GLOO = "[Gloo] Rank 3 is connected to 7 peer ranks. Expected number of connected peer ranks is : 7"
SYSTEM = {
    "submitter": "Nobody",
    "number_of_nodes": "2",
    "accelerators_per_node": "4",
    "accelerator_model_name": "NVIDIA B200",
    "accelerator_memory_capacity": "180 GB",
    "framework": "PyTorch 2.7",
    "host_processor_model_name": "Xeon 8570",
    "operating_system": "Ubuntu 24.04",
    "sw_notes": "trained in MXFP8",
}


def setup(log, **events):
    log.event("init_start")
    log.event("submission_benchmark", "llama31_8b")
    for key, value in events.items():
        log.event(key, value)
    log.now += 20_000
    log.event("init_stop")
    log.event("run_start")


def stats(log, values, **place):
    log.event("tracked_stats", values, **place)


def mllog(key="seed", value=1, *, time=1_700_000_000_000, kind="POINT_IN_TIME", **place):
    content = {"time_ms": time, "event_type": kind, "key": key, "value": value, "metadata": place}
    return f":::MLLOG {json.dumps(content)}"


def everything() -> str:
    log = Log()
    log.lines += [
        "0: NNODES=12",
        "0: GPUS_PER_NODE=4",
        "0: encoder_seq_length: 4096",
        "0: seq_length: 512",
        "0: precision: bf16-mixed",
        "0: fp8: hybrid",
        "0: fp8_recipe: delayed",
        "0: packed_sequence: true",
        "0: micro_batch_size: 5",
        "0: micro_batch_size: 6",
    ]
    setup(
        log, submission_org="SUBMISSION_ORG_PLACEHOLDER", submission_platform="3xNVIDIA B200", global_batch_size=24,
        gradient_accumulation_steps=2, tensor_parallelism=2, pipeline_parallelism=3, context_parallelism=4,
        expert_parallelism=6, opt_name="adamw", opt_base_learning_rate=0.0005, opt_adamw_beta_1=0.9,
        opt_adamw_beta_2=0.95, opt_adam_epsilon=1e-5, opt_adamw_weight_decay=0.1, opt_gradient_clip_norm=0.25,
        opt_learning_rate_decay_schedule="cosine", max_steps=40, seed=77, target_accuracy=3.3,
    )  # fmt: skip
    # A slower rank's copies, and one that is none.
    log.now += 100
    log.event("seed", 77)
    log.now += 2_000
    log.event("seed", 78)
    done = 0
    for block, steps in enumerate((6, 4, 3)):
        log.event("block_start", samples_count=24 * done)
        for step in range(done + 1, done + steps + 1):
            log.now += 2_000 + 250 * block
            stats(
                log,
                {"train_step_time": 1.5 + step / 8, "reduced_train_loss": 9 - step / 4, "max_memory_usage": 70 + step},
                samples_count=24 * step, lr=step / 1000,
            )  # fmt: skip
        done += steps
        log.event("block_stop", samples_count=24 * done)
        log.event("eval_start", samples_count=24 * done)
        log.now += 3_000 + 100 * block
        log.event("eval_accuracy", 4 - done / 8, samples_count=24 * done)
        log.event("eval_stop", samples_count=24 * done)
    log.now += 400
    log.event("run_stop", samples_count=24 * done, status="aborted")
    stats(log, {"throughput": 30.5, "note": "text"}, samples_count=24 * done)
    log.event("overall_throughput", 31.5)
    log.lines.append("RESULT,LLM_FINETUNING,,1234,nobody,2026-03-04 10:00:00 AM")
    return log.text()


def trials() -> str:
    """Two runs in one file, torn events, and lines that are none."""
    log = Log()
    log.lines.append(":::MLLOG and no event")
    log.lines.append(f"0: :::SYSJSON {json.dumps(SYSTEM)}")
    setup(
        log, global_batch_size=16, max_sequence_length=2048, lowest_numerical_precision_linear="FP8"
    )
    for step in (2, 4, 6):
        log.now += 3_000
        stats(log, {"train_loss": 9 - step / 8, "throughput": 12.0 + step / 8}, step=step)
    log.now += 1_000
    log.event("run_stop", step=6, status="success")
    log.lines.append("1: WORLD_SIZE=24")
    log.now += 60_000
    setup(log, global_batch_size=16, max_sequence_length=1024)
    for step in (2, 4):
        log.now += 2_000
        stats(log, {"train_loss": 8 - step / 8, "throughput": 16.5 + step / 8}, step=step)
    torn = log.lines.pop()
    log.lines += [torn[:70] + GLOO, torn[70:] + GLOO]
    log.lines += [torn[:60] + torn, torn[:90], *["another process"] * 5, torn[:40]]
    log.lines.append("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")
    return log.text()


def restarted_alike() -> str:
    """A second run_start: within a second it is another rank's, later another trial's."""
    log = Log()
    setup(log, global_batch_size=16)
    for apart in (900, 1_900):
        log.now += apart
        log.event("run_start", rank=apart)
        stats(log, {"train_step_time": 2.5}, step=apart)
    return log.text()


def places() -> str:
    """Tokens as positions, values without a unit, and a loss of its own."""
    log = Log()
    setup(log, global_batch_size=4, max_sequence_length=8, lowest_numerical_precision_linear="bf16")
    for step in (3, 6, 9, 12):
        log.now += 1_500
        stats(log, {"train_step_time": 0.5}, step=32 * step)
        log.event("train_loss", 5 - step / 8, epoch_num=4 * step)
        stats(log, {"throughput": 3.0}, other=7)
    log.event("eval_accuracy", 2.5, epoch_num=4 * 12)
    return log.text()


def blocks_of_throughput() -> str:
    log, done = Log(), 0
    setup(log, global_batch_size=16, max_sequence_length=2048)
    for steps, seconds, rate in ((20, 26, 16.0), (10, 11, 15.0), (10, 12, 14.0)):
        log.event("block_start", samples_count=done * 16)
        log.now += seconds * 1000
        done += steps
        stats(log, {"throughput": rate}, step=done * 16)
        log.event("block_stop", samples_count=done * 16)
        log.event("eval_accuracy", 3 - done / 64, samples_count=done * 16)
    log.event("run_stop", step=done, status="success")
    return log.text()


def stop_without_place() -> str:
    log = Log()
    setup(log, global_batch_size=16)
    log.event("block_start", samples_count=0)
    log.now += 5_000
    log.event("run_stop", status="success")
    return log.text()


def sampled() -> str:
    """Every eighth step's time, with a loss at some of them."""
    log = Log()
    setup(log, global_batch_size=16, max_sequence_length=2048)
    for step in (8, 16, 24, 40):
        log.now += 16_000
        stats(log, {"train_step_time": 1.5 + step / 64}, step=step)
        if step != 16:
            log.event("train_loss", 5 - step / 16, step=step)
    return log.text()


SUMMARY = """[TimeToTrain] duration: 123.5 sec, consumed_train_samples: 4096, throughput: 33.25 samples/s
0: [TimeToTrain] status: success
0: [EarlyStop] eval_loss: 3.25 (target: 3.3) samples_count: 2048
"""
FLUX = """0: FLUX MLPerf benchmark summary
0: local_batch_size: 64
0: nnodes: 2
0: gpus_per_node: 4
0: max_steps: 30
0: mean_step_time_s: 1.5
0: max_step_time_s: 2.5
0: steps_measured: 25
0: mean_words: many
0: other: 3.5
0: mean_step_time_s: 9.5
"""

LOGS = {
    "everything": everything(),
    "trials": trials(),
    "restarted_alike": restarted_alike(),
    "places": places(),
    "blocks_of_throughput": blocks_of_throughput(),
    "summary": SUMMARY,
    "summary_flux": FLUX,
    "nothing_begun": ":::MLLOG " + json.dumps({"key": "init_start", "time_ms": 1_700_000_000_500}) + "\n",
    "stop_without_place": stop_without_place(),
    "died_early": mllog("init_start", None) + "\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n",
    "started_alone": mllog("run_start", None) + "\n",
    "mixed": mlperf_log(EVEN, "mixed"),
    "without_run_stop": mlperf_log(((12, 12_000, 900), (6, 6_030, 900)), status=None, records=3),
    "sampled": sampled(),
    **{
        f"{name.replace(' ', '_')}_{every}": mlperf_log(EVEN, name, records=every)
        for name in DIALECTS
        for every in (0, 3)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_all_that_a_log_tells(name):
    content = LOGS[name].encode()
    whole.check(f"mlperf_{name}.txt", whole.log(content))
    assert whole.log_behind_others(content) == whole.log(content)


GIVEN = {"model": "own", "global_batch_size": 32, "sequence_length": 1024, "num_gpus": 12}


@pytest.mark.parametrize("name", ["everything", "summary_flux"])
def test_what_the_user_gives_goes_first(name):
    whole.check(f"mlperf_{name}_given.txt", whole.log(LOGS[name].encode(), GIVEN))


# Events at their steps


def event(time, place, values=None, block=None, line=1):
    return Event(float(time), line, place, values or {}, block)


def at(name, *positions):
    return [event(index, {name: position}) for index, position in enumerate(positions)]


@pytest.mark.parametrize(
    ("stream", "unit", "steps"),
    [
        (at("step", 32, 64), 16, [2, 4]),
        (at("step", 2, 4), 1, [2, 4]),
        # An index from 0 of the first step.
        (at("step", 0, 32, 64), 1, [1, 33, 65]),
        (at("step", 0, 32, 64), 16, [1, 3, 5]),
        # An index from 0 of the last step.
        (at("step", 31, 63, 95), 1, [32, 64, 96]),
        (at("step", 31, 63, 96), 1, [32, 64, 97]),
        (at("step", 33, 65, 97), 1, [33, 65, 97]),
        (at("step", 32, 64, 96), 1, [32, 64, 96]),
        (at("step", 31, 63, 95), 16, []),
        (at("step", 31 * 16, 63 * 16, 95 * 16), 16, [31, 63, 95]),
        (at("step", 32, 32, 64), 1, [32, 64]),
        (at("step", 32, 96, 64), 1, []),
        (at("step", 32, 32), 1, []),
        (at("step", 32), 16, [2]),
        (at("step", 0), 1, []),
        ([*at("step", 32), *at("other", 64)], 1, []),
        (at("step", 32, 64, 65), 16, []),
        ([], 1, []),
    ],
)
def test_positions_in_a_unit(stream, unit, steps):
    points = streams._in_unit(stream, "step", unit)
    assert [point.step for point in points] == steps
    # The first event at a step counts, and its time is of one step.
    first = {}
    for each in stream:
        first.setdefault(each.place.get("step"), each)
    assert [(point.event, point.window) for point in points] == [
        (each, 1) for each in first.values()
    ][: len(steps)]


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (None, None), (0, None), (0.9999995, None), (1, 1), (2.0000009, 2), (2.0000011, None), (1.9999991, 2),
        (2.5, None), (LARGEST_COUNT, LARGEST_COUNT), (LARGEST_COUNT + 1, None),
    ],
)  # fmt: skip
def test_a_count(value, count):
    assert streams._count(value) == count


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (3, 3.0),
        ("2.5", 2.5),
        (None, None),
        ("x", None),
        (float("nan"), None),
        (streams.LARGEST_VALUE, streams.LARGEST_VALUE),
        (-streams.LARGEST_VALUE, -streams.LARGEST_VALUE),
        (streams.LARGEST_VALUE * 1.01, None),
        (float("-inf"), None),
    ],
)
def test_a_finite_number(value, known):
    assert streams.number(value) == known


def placed(events, blocks=(), batch=16, sequence=None, last=None):
    found = PlacedEvents(list(events), list(blocks), batch, sequence, last)
    return (
        found.kind,
        found.steps,
        found.missed and round(found.missed, 6),
        found.times,
        found.unplaced,
    ), [
        (
            each.step,
            each.line,
            each.seconds,
            each.window,
            each.loss,
            each.learning_rate,
            each.native,
        )
        for each in found.records.values()
    ]


def timed(step, time, seconds, *, unit=1, loss=None, **values):
    values = {"train_step_time": seconds, **values, **({"train_loss": loss} if loss else {})}
    return event(time, {"step": step * unit}, values, line=step + 100)


@pytest.mark.parametrize(
    ("events", "arguments", "found"),
    [
        ([], {}, ((None, [], None, {}, 0), [])),
        # Single steps, each a record.
        (
            [timed(step, 2.5 * step, 2.5, loss=9 - step) for step in (1, 2, 3)],
            {},
            (
                ("mean", [1, 2, 3], None, {1: 2.5, 2: 5.0, 3: 7.5}, 0),
                [(step, 100 + step, 2.5, 1, 9 - step, None, {}) for step in (1, 2, 3)],
            ),
        ),
        # Means of the steps since the record before.
        (
            [timed(step, 2.5 * step, 2.5) for step in (4, 8, 14)],
            {},
            (
                ("mean", [4, 8, 14], None, {4: 10.0, 8: 20.0, 14: 35.0}, 0),
                [
                    (4, 104, 2.5, 4, None, None, {}),
                    (8, 108, 2.5, 4, None, None, {}),
                    (14, 114, 2.5, 6, None, None, {}),
                ],
            ),
        ),
        # Sampled steps: the wall clock says something else.
        (
            [timed(step, 2.52 * step, 2.5) for step in (4, 8, 14)],
            {},
            (
                ("sampled", [4, 8, 14], None, {4: 10.08, 8: 20.16, 14: 35.28}, 0),
                [(step, 100 + step, 2.5, 1, None, None, {}) for step in (4, 8, 14)],
            ),
        ),
        # Positions in samples: a unit of the batch fits the wall clock.
        (
            [timed(step, 2.5 * step, 2.5, unit=16) for step in (4, 8, 14)],
            {},
            (
                ("mean", [4, 8, 14], None, {4: 10.0, 8: 20.0, 14: 35.0}, 0),
                [
                    (4, 104, 2.5, 4, None, None, {}),
                    (8, 108, 2.5, 4, None, None, {}),
                    (14, 114, 2.5, 6, None, None, {}),
                ],
            ),
        ),
        # In tokens.
        (
            [timed(step, 2.5 * step, 2.5, unit=16 * 8) for step in (4, 8)],
            {"sequence": 8},
            (
                ("mean", [4, 8], None, {4: 10.0, 8: 20.0}, 0),
                [(4, 104, 2.5, 4, None, None, {}), (8, 108, 2.5, 4, None, None, {})],
            ),
        ),
        # In none.
        (
            [timed(step, 2.5 * step, 2.5, unit=7) for step in (4, 8)],
            {},
            ((None, [], None, {}, 2), []),
        ),
        # A rate gives the time, and a printed time goes before it.
        (
            [
                event(
                    2.0 * n,
                    {"samples_count": 16 * n, "lr": n / 8},
                    {"throughput": 8.0, "max_memory_usage": 70 + n},
                )
                for n in (1, 2)
            ],
            {},
            (
                ("mean", [1, 2], None, {1: 2.0, 2: 4.0}, 0),
                [
                    (
                        n,
                        1,
                        2.0,
                        1,
                        None,
                        n / 8,
                        {"samples_per_second": 8.0, "max_memory_usage": 70.0 + n},
                    )
                    for n in (1, 2)
                ],
            ),
        ),
        (
            [
                *(event(2.0 * n, {"samples_count": 16 * n}, {"throughput": 8.0}) for n in (1, 2)),
                *(timed(step, 2.0 * step, 1.75, step_time=2.25) for step in (1, 2)),
            ],
            {},
            (
                ("mean", [1, 2], None, {1: 2.0, 2: 4.0}, 0),
                [(n, 100 + n, 1.75, 1, None, None, {}) for n in (1, 2)],
            ),
        ),
        # A time that can't be one: the next one counts.
        (
            [timed(step, 2.0 * step, LONGEST_STEP * 2, step_time=2.25) for step in (1, 2)],
            {},
            (
                ("mean", [1, 2], None, {1: 2.0, 2: 4.0}, 0),
                [(n, 100 + n, 2.25, 1, None, None, {}) for n in (1, 2)],
            ),
        ),
        # The losses alone, by steps.
        (
            [event(3.0 * n, {"step": n}, {"train_loss": 5 - n / 8}) for n in (2, 4)],
            {},
            (
                (None, [], None, {2: 6.0, 4: 12.0}, 0),
                [(n, 1, None, None, 5 - n / 8, None, {}) for n in (2, 4)],
            ),
        ),
    ],
)
def test_events_at_their_steps(events, arguments, found):
    assert placed(events, **arguments) == found


def block(begun, stop=None, evaluation=None, **place):
    made = Block(event(begun, place))
    if stop is not None:
        made.end("block_stop", event(*stop))
    if evaluation is not None:
        made.end("eval_start", event(*evaluation))
    return made


def test_the_first_end_of_a_block_counts():
    one = block(0)
    for key, time in (("block_stop", 3), ("eval_start", 4), ("block_stop", 5), ("eval_stop", 6)):
        one.end(key, event(time, {}))
    assert (one.stop.time, one.evaluation.time) == (3.0, 4.0)


@pytest.mark.parametrize(
    ("blocks", "arguments", "spans"),
    [
        # The position of the evaluation, in samples, in tokens, in steps.
        ([block(0, evaluation=(9, {"samples_count": 64})), block(10, evaluation=(19, {"samples_count": 96}))], {},
         [(0, 4), (4, 6)]),
        ([block(0, evaluation=(9, {"epoch_num": 64 * 8}))], {"sequence": 8}, [(0, 4)]),
        ([block(0, evaluation=(9, {"epoch_num": 64 * 8}))], {}, [None]),
        ([block(0, evaluation=(9, {"epoch_num": 64 * 8, "step": 5}))], {}, [(0, 5)]),
        ([block(0, evaluation=(9, {"samples_count": 64, "step": 5}))], {"batch": None}, [(0, 5)]),
        # The position that some print at the stop; a slower rank's evaluation comes late.
        ([block(0, stop=(9, {"step": 4})), block(10, stop=(19, {"curr_global_step": 6}))], {}, [(0, 4), (4, 6)]),
        ([block(0, evaluation=(9, {"samples_count": 64})),
          block(10, stop=(19, {"step": 7}), evaluation=(19, {"samples_count": 64}))], {}, [(0, 4), (4, 7)]),
        # The samples at the start and at the stop, else at the start of the next block or at the
        # end.
        ([block(0, stop=(9, {"samples_count": 48}), samples_count=0)], {}, [(0, 3)]),
        ([block(0, stop=(9, {"samples_count": 0}), samples_count=0), block(10, samples_count=80)], {"last": 112},
         [(0, 5), (5, 7)]),
        ([block(0, samples_count=16)], {"last": 16}, [None]),
        ([block(0, samples_count=16)], {}, [None]),
        ([block(0, samples_count=0)], {"last": 40}, [None]),
        # The length of the block in tokens.
        ([block(0, epoch_count=512), block(9, epoch_count=256, first_epoch_num=512)], {"sequence": 8},
         [(0, 4), (4, 6)]),
        ([block(0, epoch_count=512)], {"batch": None, "sequence": 8}, [None]),
    ],
)  # fmt: skip
def test_completed_steps_of_blocks(blocks, arguments, spans):
    placed([], blocks, **arguments)
    assert [each.span for each in blocks] == spans


def test_one_value_a_block_is_its_mean():
    blocks = [
        block(100, evaluation=(112, {"samples_count": 64})),
        block(115, evaluation=(121, {"samples_count": 96})),
    ]
    events = [
        event(
            time, {"step": 5}, {"throughput": rate, "train_loss": 3.5}, block=index, line=20 + index
        )
        for index, (time, rate) in enumerate(((111, 6.4), (120, 8.0)))
    ]
    # The first block takes 11 s, its mean says 4 steps of 2.5 s.
    found, records = placed(events, blocks)
    # When a mean was logged tells nothing of when its last step was done.
    assert found == ("block", [4, 6], 1.0, {}, 2)
    assert [each[:4] for each in records] == [(4, 20, 2.5, 4), (6, 21, 2.0, 2)]
    # Two in a block are no mean of it.
    again = event(121, {"step": 6}, {"throughput": 8.0, "train_loss": 3.5}, block=1)
    assert placed([*events, again], blocks)[0][0] is None
    assert placed([each._replace(block=None) for each in events], blocks)[0][0] is None


def test_a_mean_of_a_block_without_its_steps_is_ignored():
    events = [event(111, {"step": 5.5}, {"throughput": 6.4}, block=0)]
    assert placed(events, [block(100)])[0] == (None, [], None, {}, 1)


@pytest.mark.parametrize(("step", "kind"), [(104, "mean"), (103, "mean"), (105, None)])
def test_no_step_lies_behind_the_last_block(step, kind):
    """102 completed steps: a hundredth of them and one step more at most."""
    blocks = [block(0, evaluation=(90, {"samples_count": 16 * 102}))]
    assert placed([timed(step, 100, 1.0)], blocks)[0][0] == kind


@pytest.mark.parametrize(
    ("factor", "kind", "losses"),
    [(1.45, "sampled", 2), (1.55, None, 2), (4.9, None, 2), (5.1, None, 0)],
)
def test_how_far_a_unit_may_miss_the_wall_clock(factor, kind, losses):
    """Times by half, losses by four fifths."""
    events = [timed(step, 1.0 * step, factor, loss=3.0) for step in (2, 4)]
    found, records = placed(events, batch=None)
    assert (found[0], sum(each[4] is not None for each in records)) == (kind, losses)


@pytest.mark.parametrize(("apart", "kind"), [(0.0009, "mean"), (0.0011, "sampled")])
def test_how_closely_a_mean_fits_the_wall_clock(apart, kind):
    events = [timed(step, step * (1 + apart), 1.0) for step in (2, 4, 6, 8)]
    assert placed(events)[0][0] == kind


def test_a_few_evaluations_leave_means_what_they_are():
    """The middle one of the misses tells, the higher of two."""
    ends = {2: 2, 4: 4, 6: 9, 8: 11, 10: 13}
    assert placed([timed(step, time, 1.0) for step, time in ends.items()])[0][0] == "mean"
    ends = {2: 2, 4: 4, 6: 9}
    assert placed([timed(step, time, 1.0) for step, time in ends.items()])[0][0] == "sampled"


def test_the_place_of_a_loss_shows_in_the_step_times_of_others():
    times = [timed(step, 2.0 * step, 2.0) for step in (1, 2, 3)]
    losses = [
        event(2.0 * n, {"samples_count": 16 * n, "epoch_num": 99 + n}, {"loss": 4 - n / 8})
        for n in (1, 2, 3)
    ]
    found, records = placed([*times, *losses])
    assert found == ("mean", [1, 2, 3], None, {1: 2.0, 2: 4.0, 3: 6.0}, 0)
    assert [each[4] for each in records] == [3.875, 3.75, 3.625]


# The timeline


def entries(marks, *, times=None, missed=None, last=100.0, **milestones):
    events = {"run_start": event(10, {}), "last": event(last, {}), **milestones}
    made = Timeline(
        {key: each for key, each in events.items() if each is not None}, marks, times or {}, missed
    ).entries
    names = ("kind", "start", "duration", "first_step", "last_step", "line", "note")
    return [tuple(getattr(each, name) for name in names) for each in made]


def one_block(begun=12, span=(0, 10), line=5, said=()):
    made = Block(event(begun, {}, line=line), said=list(said))
    made.span = span
    return made


def mark(key, time, block=None, line=7):
    return Mark(key, event(time, {}, line=line), block)


def test_a_timeline_from_start_to_stop():
    first, second = one_block(said=["a", "b"]), one_block(32, (10, 15), 8)
    marks = [
        mark("block_start", 9.4, first), mark("block_start", 12, first), mark("block_stop", 22, first),
        mark("eval_start", 23, first, 9), mark("eval_accuracy", 30), mark("eval_stop", 31, first),
        mark("block_start", 32, second), mark("eval_start", 37.5, second, 11), mark("eval_stop", 40, second),
    ]  # fmt: skip
    found = entries(
        marks[1:],
        init_start=event(4, {}, line=1),
        run_stop=event(41.5, {}, line=12),
        run_start=event(10, {}, line=2),
    )
    assert found == [
        ("start-up", -6.0, 6.0, None, None, 1, None),
        ("start-up", 0.0, 2.0, None, None, 7, None),
        ("training", 2.0, 10.0, 1, 10, 5, "a; b"),
        ("evaluation", 13.0, 8.0, None, None, 9, None),
        ("training", 22.0, 5.5, 11, 15, 8, None),
        ("evaluation", 27.5, 2.5, None, None, 11, None),
        ("end", 30.0, 1.5, None, None, 12, None),
    ]
    # What ranks log with run_start may be stamped up to a second earlier; its block begins with the
    # run then.
    assert entries(marks[:1])[0] == ("unknown", 0.0, 90.0, 1, 10, 5, "holds its evaluation")
    assert entries([mark("block_start", 9.0, first)]) == []
    assert entries(marks, run_start=None) == []
    assert entries([mark("eval_start", 12)]) == []


def test_init_after_run_start_is_no_start_up():
    found = entries([mark("block_start", 12, one_block())], init_start=event(10, {}))
    assert [each[:3] for each in found] == [("start-up", 0.0, 2.0), ("unknown", 2.0, 88.0)]


@pytest.mark.parametrize(
    ("times", "found"),
    [
        # The block ends with its last record, the evaluation takes the rest.
        ({10: 20.0}, [("training", 2.0, 8.0, 1, 10), ("evaluation", 10.0, 20.0, None, None)]),
        ({10: 30.0}, [("training", 2.0, 18.0, 1, 10), ("evaluation", 20.0, 10.0, None, None)]),
        ({10: 30.5}, [("unknown", 2.0, 28.0, 1, 10)]),
        ({10: 12.0}, [("unknown", 2.0, 28.0, 1, 10)]),
        ({9: 20.0}, [("unknown", 2.0, 28.0, 1, 10)]),
        ({}, [("unknown", 2.0, 28.0, 1, 10)]),
    ],
)
def test_a_block_without_an_end(times, found):
    """Its evaluation ends at 40 s."""
    marks = [mark("block_start", 12, one_block()), mark("eval_stop", 40)]
    if times == {10: 30.5}:
        marks = [mark("block_start", 12, one_block()), mark("eval_stop", 30.25)]
        found = [("unknown", 2.0, 18.25, 1, 10)]
    found = [
        (
            kind,
            start,
            30 - start if kind == "evaluation" else 28.0 if start + duration == 30 else duration,
            *rest,
        )
        for kind, start, duration, *rest in found
    ]
    assert [each[:5] for each in entries(marks, times=times)[1:]] == found


def test_a_block_of_unknown_steps_has_those_of_its_records():
    first, second = one_block(span=(0, 4)), one_block(30, None)
    marks = [
        mark("block_start", 12, first), mark("block_stop", 20, first), mark("block_start", 30, second),
        mark("block_start", 50, one_block(50, None)),
    ]  # fmt: skip
    times = {4: 20.0, 5: 25.0, 6: 35.0, 9: 45.0, 12: 60.0}
    assert [each[:5] for each in entries(marks, times=times, last=60.0)] == [
        ("start-up", 0.0, 2.0, None, None),
        ("training", 2.0, 8.0, 1, 4),
        ("training", 20.0, 15.0, 5, 9),
        ("training", 40.0, 10.0, 10, 12),
    ]


def test_a_late_record_of_the_block_before_is_no_step_of_a_block():
    first, second = one_block(span=(0, 4)), one_block(30, None)
    marks = [
        mark("block_start", 12, first),
        mark("block_stop", 20, first),
        mark("block_start", 30, second),
    ]
    assert [each[:5] for each in entries(marks, times={3: 18.0, 4: 35.0}, last=60.0)][1:] == [
        ("training", 2.0, 8.0, 1, 4),
        ("unknown", 20.0, 30.0, None, None),
    ]


def test_a_block_behind_one_of_unknown_steps():
    first, second = one_block(span=None), one_block(30, None)
    marks = [
        mark("block_start", 12, first),
        mark("block_stop", 20, first),
        mark("block_start", 30, second),
    ]
    assert [each[:5] for each in entries(marks, times={1: 35.0, 2: 40.0}, last=60.0)][1:] == [
        ("training", 2.0, 8.0, None, None),
        ("training", 20.0, 10.0, 1, 2),
    ]


def test_slower_ranks_end_nothing_twice():
    first = one_block()
    marks = [
        mark("block_start", 12, first), mark("block_stop", 22, first), mark("block_stop", 24, first),
        mark("eval_start", 23, first), mark("eval_start", 25, first), mark("eval_stop", 30), mark("eval_stop", 33),
    ]  # fmt: skip
    assert [each[:3] for each in entries(marks)] == [
        ("start-up", 0.0, 2.0), ("training", 2.0, 10.0), ("evaluation", 13.0, 7.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("result", "kind"), [(22.0, "unknown"), (22.0099, "unknown"), (22.0101, "training")]
)
def test_a_block_that_holds_its_evaluation(result, kind):
    first = one_block()
    marks = [
        mark("block_start", 12, first),
        mark("eval_accuracy", result),
        mark("block_stop", 22, first),
    ]
    assert [each[0] for each in entries(marks)[1:2]] == [kind]
    # Where evaluations are told apart, the result says nothing.
    assert [each[0] for each in entries([*marks, mark("eval_start", 50)])[1:2]] == ["training"]


def three_blocks(*durations, said=None):
    """Blocks of ten steps, one after the other, each with its seconds."""
    marks, now = [], 12.0
    for number, seconds in enumerate(durations):
        made = one_block(
            now, (10 * number, 10 * number + 10), said=[said] if said and number == 0 else []
        )
        marks += [mark("block_start", now, made), mark("block_stop", now + seconds, made)]
        now += seconds
    return marks


@pytest.mark.parametrize(
    ("durations", "missed", "note"),
    [
        ((10.2, 10, 10), 0.2, "its submitter's own mean leaves out 0.2 s of it"),
        ((10.05, 10, 10), 0.05, None),
        ((12, 10, 10), 1.62, "its submitter's own mean leaves out 1.62 s of it"),
        ((12, 10, 10), 1.58, None),
        ((12, 10, 10), None, None),
        ((8, 10, 10), 2.0, None),
    ],
)
def test_what_the_submitters_mean_leaves_out(durations, missed, note):
    assert [each[6] for each in entries(three_blocks(*durations), missed=missed)[1:]] == [
        note,
        None,
        None,
    ]
    # Only of the first block, and not where something is printed.
    later = entries(three_blocks(10, *durations), missed=missed)
    assert [each[6] for each in later[1:]] == [None] * 4
    assert entries(three_blocks(*durations, said="x"), missed=missed)[1][6] == "x"


# The reader


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        ({"a": 1, "b": "2.5", "c": None, "d": "x", "e": True}, {"a": 1.0, "b": 2.5}),
        ({"n" * 61: 3}, {"n" * 60: 3.0}),
        ([1], {}),
        (None, {}),
    ],
)
def test_numbers_of_an_object(value, numbers):
    found = reader._numbers(value)
    found.pop("e", None)
    assert found == numbers


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ("True", True), ("false", False), ("null", None), ("None", None), ("bf16", "bf16"), ("3.0", 3), (4, 4),
        (2.5, 2.5), ("1e14", 10**14), (1e15, 1e15), (-1e15, -1e15), (None, None), ([1], [1]),
    ],
)  # fmt: skip
def test_a_plain_value(value, plain):
    found = reader._plain(value)
    assert (found, type(found)) == (plain, type(plain))


def feed(*contents):
    made = reader.Reader()
    for number, content in enumerate(contents, 1):
        made.feed(reader.Line(number, content, True))
    return made


@pytest.mark.parametrize(
    ("second", "is_copy"),
    [
        ({"time": 1_700_000_000_999}, True),
        ({"time": 1_700_000_001_000}, False),
        ({"time": 1_699_999_999_001}, True),
        ({"value": {"loss": 2.5, "lr": 3}}, True),
        ({"value": {"loss": 2.5}}, False),
        ({"kind": "INTERVAL_END"}, False),
        ({"step": 4}, False),
        ({"key": "train_loss"}, False),
        ({"lineno": 12, "file": "b.py"}, True),
    ],
)
def test_another_ranks_copy(second, is_copy):
    first = {
        "key": "tracked_stats",
        "value": {"loss": 1.5, "lr": 2},
        "step": 3,
        "file": "a.py",
        "lineno": 11,
    }
    made = feed(mllog(**first), mllog(**{**first, **second}))
    expected = 1 if is_copy or second.get("key") else 2
    assert len(made._trainings[0].events) == expected


def test_cached_events_are_forgotten_by_the_thousand():
    lines = [mllog(step=step) for step in range(10_001)]
    made = feed(*lines)
    assert len(made._seen) == 5_000
    assert next(iter(made._seen)) == "seed|POINT_IN_TIME|1|[('step', 5001.0)]"
    assert len(feed(*lines[:10_000])._seen) == 10_000


@pytest.mark.parametrize(
    ("content", "is_event"),
    [
        ({"key": "seed", "time_ms": 0, "value": 3}, True),
        ({"key": "seed", "time_ms": -1, "value": 3}, False),
        ({"key": "seed", "time_ms": 99_999_999_999_999, "value": 3}, True),
        ({"key": "seed", "time_ms": 1e14, "value": 3}, False),
        ({"key": 7, "time_ms": 5, "value": 3}, False),
        ({"key": "seed", "value": 3}, False),
    ],
)
def test_what_an_event_is(content, is_event):
    assert feed(f":::MLLOG{json.dumps(content)}").recognized is is_event
    made = feed(f":::MLLOG {json.dumps(content)}")
    assert made.recognized is is_event
    assert made._trainings[0].figures == ({"seed": 3.0} if is_event else {})


@pytest.mark.parametrize(("lines", "figures"), [(2, {"seed": 5.0}), (5, {"seed": 5.0}), (6, {})])
def test_over_how_many_lines_an_event_goes(lines, figures):
    """Over the first one and LINES_OF_OTHERS further ones."""
    content = mllog(value=5)
    ends = [30 + 4 * number for number in range(lines - 1)]
    made = feed(*(content[begin:end] for begin, end in zip([0, *ends], [*ends, None], strict=True)))
    assert made._trainings[0].figures == figures
    assert made._trainings[0].unreadable == ([] if figures else [1])


# The system


@pytest.mark.parametrize(
    ("text", "gigabytes"),
    [
        ("180 GB", 180.0), ("183359 MiB", 192.3), ("1.5 TB", 1536.0), ("80 GiB", 85.9), ("81920 MB", 80.0),
        ("1 TiB", 1100.0), ("many", None), ("80", None), ("", None),
    ],
)  # fmt: skip
def test_the_memory_of_a_device(text, gigabytes):
    found = system._memory(text)
    assert found == (None if gigabytes is None else pytest.approx(gigabytes, rel=1e-3))


def test_a_description_is_a_system():
    assert system.of(SYSTEM) == system.System(
        "nvd",
        GpuInfo(
            device_name="NVIDIA B200", device_count=8, total_memory_gb=180.0, software_stack="cuda"
        ),
        Environment(cpu="Xeon 8570", os="Ubuntu 24.04", versions={"framework": "PyTorch 2.7"}),
        "trained in MXFP8",
        None,
        "Nobody",
    )
    failed = {**SYSTEM, "accelerator_model_name": "No devices were found"}
    assert system.of(failed) == system.System(
        None,
        GpuInfo(),
        Environment(cpu="Xeon 8570", os="Ubuntu 24.04", versions={"framework": "PyTorch 2.7"}),
        "trained in MXFP8",
        "No devices were found",
        "Nobody",
    )
    unknown = dict.fromkeys(SYSTEM, "N/A") | {
        "accelerator_model_name": "AMD Instinct MI355X",
        "sw_notes": " a \n b ",
    }
    unknown |= {
        "submitter": "UNKNOWN_MLPERF_SUBMITTER",
        "framework": "none",
        "number_of_nodes": "0",
    }
    assert system.of(unknown) == system.System(
        "amd",
        GpuInfo(device_name="AMD Instinct MI355X", software_stack="rocm"),
        Environment(),
        "a b",
    )
    long = {
        "accelerator_model_name": "x" * 201,
        "number_of_nodes": 3,
        "accelerators_per_node": 2.5,
        "framework": [1],
    }
    assert system.of(long) == system.System(
        None, GpuInfo(device_name="x" * 199 + "…"), Environment(), None
    )
    assert system.of({"number_of_nodes": "2"}) is None
    assert system.of({}) is None
    assert system.of(None) is None


@pytest.mark.parametrize(
    ("notes", "precision"),
    [
        ("trained in FP8", "fp8"), ("NVFP4 and nvfp4", "fp4"), ("MXFP4", "mxfp4"), ("BF16, FP8", None), ("xfp8", None),
        ("fp16", "fp16"), ("tf32x", None), ("fp32", None), (None, None),
    ],
)  # fmt: skip
def test_the_precision_that_notes_name(notes, precision):
    assert system.System(None, GpuInfo(), Environment(), notes).precision == precision


@pytest.mark.parametrize(
    ("log", "descriptions", "chosen"),
    [
        ("results/b200_n2/llama/result_0.txt", ["s/b200_n2.json", "s/other.json"], 0),
        ("results/B200_N2/llama/result_0.txt", ["s/other.json", "s/b200_n2.json"], 1),
        ("results/a/b/result_0.txt", ["s/a.json", "s/b.json"], None),
        # By words of the file's name: the one with the most of them, at least two.
        ("logs/v5_b200_n2_r0.txt", ["s/b200_n2.json", "s/b200.json"], 0),
        ("logs/v5_b200_n2_r0.txt", ["s/b200.json"], None),
        ("logs/v5_b200_n2_r0.txt", ["s/b200_n2.json", "s/v5_b200.json"], None),
        ("logs/v5_b200_r0.txt", ["s/b200_n2.json"], None),
        ("logs/v5_b200_n2_r0.txt", ["s/_b200_n2.json"], 0),
        ("logs/result_0.txt", [], None),
    ],
)
def test_the_description_of_a_log(log, descriptions, chosen):
    paths = [PurePosixPath(each) for each in descriptions]
    assert system.choose(PurePosixPath(log), paths) == (None if chosen is None else paths[chosen])


DESCRIBED = system.of(SYSTEM)


def applied(run, described=DESCRIBED, where="machine.json"):
    """What a description changes in a run."""
    return differences(run, system.applied(run, described, where))


def differences(before, after):
    """What differs, by the dotted names of fields; of notes their sentences."""
    found, old = (
        {**json.loads(msgspec.json.encode(run)), "notes": list(run.warnings)}
        for run in (after, before)
    )
    changed = {}
    for name, value in found.items():
        if value != old[name]:
            inner = value if isinstance(value, dict) else None
            changed |= (
                {f"{name}.{key}": each for key, each in inner.items() if each != old[name].get(key)}
                if inner is not None
                else {name: value}
            )
    return changed


def test_what_a_description_adds():
    run = make_run(
        None,
        gpus=None,
        stack=None,
        framework="mlperf",
        notes=notes_of(MLPERF_UNSTATED, "other"),
    )
    run = msgspec.structs.replace(
        run,
        platform=None,
        gpu_info=GpuInfo(),
        training_config=msgspec.structs.replace(
            run.training_config, precision=None, precision_detail=None
        ),
        environment=Environment(versions={"torch": "2.6"}),
        framework_config={"submission_platform": "x"},
    )
    assert applied(run) == {
        "platform": "nvd",
        "notes": [
            "other",
            "from the system description machine.json: GPUs 8, GPU NVIDIA B200, precision MXFP8",
        ],
        "gpu_info.device_name": "NVIDIA B200",
        "gpu_info.device_count": 8,
        "gpu_info.total_memory_gb": 180.0,
        "gpu_info.software_stack": "cuda",
        "environment.cpu": "Xeon 8570",
        "environment.os": "Ubuntu 24.04",
        "environment.versions": {"torch": "2.6", "framework": "PyTorch 2.7"},
        "training_config.num_gpus": 8,
        "training_config.precision": "mxfp8",
        "training_config.precision_detail": "system description: trained in MXFP8",
        "framework_config.submitter": "Nobody",
    }
    assert applied(run, where="")["notes"][1].startswith(
        "inferred from the names of the platform and of the log's"
    )
    # Nothing but the count is unknown.
    empty = system.System(None, GpuInfo(), Environment(), None, "No devices")
    assert applied(run, empty) == {
        "notes": [
            MLPERF_UNSTATED,
            "other",
            "the system description machine.json has an error text for its GPU: No devices",
        ]
    }


INFERRED = "inferred from the names of the platform and of the log's files"
NONE = MLPERF_UNSTATED


def by_platform(text):
    return words(Note("gpu-from-platform", {"gpu": "B200", "platform": text}))


@pytest.mark.parametrize(
    ("platform", "path", "known", "changed"),
    [
        ("2xNVIDIA B200", "ngpu16_x/a/b/result_0.txt", (None, None),
         {"gpu_info.device_name": "B200", "gpu_info.device_count": 16, "gpu_info.software_stack": "cuda",
          "platform": "nvd", "training_config.num_gpus": 16,
          "notes": [by_platform("2xNVIDIA B200"), f"{INFERRED}: GPUs 16, GPU B200"]}),
        # Of four directories the last three count.
        ("x", "8xMI300X/ngpu16/a/b/result_0.txt", (None, None),
         {"gpu_info.device_count": 16, "training_config.num_gpus": 16, "notes": [f"{INFERRED}: GPUs 16"]}),
        (None, "8xMI300X/a/b/result_0.txt", (None, None),
         {"gpu_info.device_name": "MI300X", "gpu_info.device_count": 8, "gpu_info.software_stack": "rocm",
          "platform": "amd", "training_config.num_gpus": 8, "notes": [f"{INFERRED}: GPUs 8, GPU MI300X"]}),
        # The log knows one of both.
        ("x", "2x8xB200/result_0.txt", ("NVIDIA B200", None),
         {"gpu_info.device_count": 16, "training_config.num_gpus": 16, "notes": [f"{INFERRED}: GPUs 16"]}),
        ("4xB200", "result_0.txt", (None, 8),
         {"gpu_info.device_name": "B200", "gpu_info.software_stack": "cuda", "platform": "nvd",
          "notes": [by_platform("4xB200"), f"{INFERRED}: GPU B200"]}),
        ("3x4xB200", "8xB200/result_0.txt", (None, None),
         {"gpu_info.device_name": "B200", "gpu_info.software_stack": "cuda", "platform": "nvd",
          "notes": [NONE, f"{INFERRED}: GPU B200"]}),
        ("1xB200", "1xB200/result_0.txt", ("NVIDIA B200", 8), {}),
        ("8xMI300X", "8xB200/result_0.txt", (None, None),
         {"gpu_info.device_name": "B200", "gpu_info.device_count": 8, "gpu_info.software_stack": "cuda",
          "platform": "nvd", "training_config.num_gpus": 8, "notes": [f"{INFERRED}: GPUs 8, GPU B200"]}),
    ],
)  # fmt: skip
def test_what_names_tell(platform, path, known, changed):
    run = make_run(
        known[0],
        gpus=known[1],
        stack=None,
        framework="mlperf",
        notes=() if known[1] else notes_of(NONE),
    )
    run = msgspec.structs.replace(
        run,
        platform=None,
        gpu_info=GpuInfo(device_name=known[0], device_count=known[1]),
        framework_config={"submission_platform": platform} if platform else {},
    )
    assert differences(run, system.inferred(run, PurePosixPath("/logs", path))) == changed
    other = msgspec.structs.replace(run, framework="nemo")
    assert system.inferred(other, PurePosixPath("/logs", path)) == other


def test_what_a_log_states_wins():
    run = make_run("NVIDIA B200", gpus=8, framework="mlperf", notes=notes_of("other"))
    config = msgspec.structs.replace(run.training_config, precision="bf16", precision_detail="own")
    run = msgspec.structs.replace(
        run,
        gpu_info=msgspec.structs.replace(run.gpu_info, total_memory_gb=None),
        training_config=config,
        environment=Environment(cpu="own", versions={"framework": "own"}),
        platform="nvd",
    )
    assert applied(run) == {
        "gpu_info.total_memory_gb": 180.0,
        "environment.os": "Ubuntu 24.04",
        "framework_config.submitter": "Nobody",
    }


@pytest.mark.parametrize(
    ("device", "count", "other"),
    [
        ("NVIDIA B200", 8, None),
        ("NVIDIA H100 80GB HBM3", 8, "8×NVIDIA B200, the log 8×NVIDIA H100 80GB HBM3"),
        ("NVIDIA B200", 16, "8×NVIDIA B200, the log 16×NVIDIA B200"),
        (None, 16, "8×NVIDIA B200, the log 16×unknown GPU"),
        ("NVIDIA H200", None, "8×NVIDIA B200, the log ?×NVIDIA H200"),
        (None, 8, None),
        ("something", 8, None),
    ],
)
def test_a_contradiction(device, count, other):
    run = make_run(device, gpus=count, stack=None, framework="mlperf")
    assert system._contradiction(run, DESCRIBED) == other
    if other:
        assert applied(run) == {"notes": [*run.warnings, f"the system description machine.json says {other}: the "
                                             "log's is kept"]}  # fmt: skip


# What follows from statements


def stated(**values):
    return LoggedValues({name: LoggedValue(value, 7, name, 2) for name, value in values.items()})


@pytest.mark.parametrize(
    ("values", "known"),
    [
        ({"lowest_numerical_precision_linear": "FP8", "precision": "bf16", "fp4": "x"},
         ("fp8", "lowest precision of linear layers: FP8", "lowest_numerical_precision_linear")),
        ({"precision": "bf16-mixed"}, ("bf16", "precision bf16-mixed", "precision")),
        ({"precision": "bf16-mixed", "fp8": "hybrid"}, ("fp8", "precision bf16-mixed, fp8", "fp8")),
        ({"fp8": True, "fp8_recipe": "delayed"}, ("fp8", "fp8, recipe delayed", "fp8")),
        ({"fp8": True, "fp4": "nv", "fp8_recipe": "delayed"}, ("fp4", "fp4", "fp4")),
        ({"fp8": False, "fp4": None, "precision": "16"}, ("fp16", "precision 16", "precision")),
        ({"fp8": ""}, (None, None, None)),
    ],
)  # fmt: skip
def test_the_precision(values, known):
    precision, detail, deciding = mlperf_run.precision(stated(**values))
    assert (precision, detail, deciding and deciding.text) == known


@pytest.mark.parametrize(
    ("values", "derived"),
    [
        ({"peak_learning_rate": 0}, {}),
        ({"peak_learning_rate": 0.5}, {"peak_learning_rate": 0.5}),
        ({"seq_length": 512}, {"seq_length": 512, "sequence_length": 512}),
        ({"encoder_seq_length": 4096, "seq_length": 512},
         {"encoder_seq_length": 4096, "seq_length": 512, "sequence_length": 4096}),
        ({"sequence_length": 7, "seq_length": 512}, {"sequence_length": 7, "seq_length": 512}),
        ({"packed_sequence": False}, {"packed_sequence": False, "packing": False}),
        ({"precision": "bf16"}, {"precision": "bf16", "precision_detail": "precision bf16"}),
        ({"precision": "odd"}, {"precision_detail": "precision odd"}),
        ({"submission_benchmark": "llama31_8b"}, {"submission_benchmark": "llama31_8b", "model": "llama"}),
        ({"submission_benchmark": "bert"}, {"submission_benchmark": "bert", "model": "bert"}),
        ({"num_nodes": 3, "devices": 4}, {"num_nodes": 3, "devices": 4, "num_gpus": 12}),
        ({"num_nodes": 3}, {"num_nodes": 3}),
        ({"num_gpus": 5, "num_nodes": 3, "devices": 4}, {"num_gpus": 5, "num_nodes": 3, "devices": 4}),
        ({"system": DESCRIBED, "num_nodes": 3, "devices": 4},
         {"system": DESCRIBED, "num_nodes": 3, "devices": 4, "num_gpus": 8}),
    ],
)  # fmt: skip
def test_fields_that_follow(values, derived):
    known = stated(**values)
    mlperf_run._derive_fields(known)
    assert {name: each.value for name, each in known.items()} == derived
    assert {(each.line, each.weight) for each in known.values()} <= {(7, 2)}


def test_made_entries_are_whole():
    assert (
        Entry(kind="training", start=0.0, duration=1.0, first_step=1, last_step=BATCH).steps
        == BATCH
    )
    assert Record(3, 4).figures() == {}
    assert Point(3, event(1, {})).window == 1
