"""Two sources of one training: which one is the result, what it gets of the other, and what is one
training at all.
"""

from __future__ import annotations

import msgspec
import pytest
from stored_runs import notes_of

from tprimat.notes import Note
from tprimat.read import merge
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.values import LoggedValue
from tprimat.results.run import (
    Data,
    Environment,
    GpuInfo,
    MemoryMetrics,
    ModelConfig,
    Optimizer,
    ParallelismConfig,
    Run,
    Source,
    TrainingConfig,
)


def run(steps: tuple[int, ...] = (1, 2, 3, 4), **fields) -> Run:
    count = len(steps)
    made = {
        "steps": steps,
        "window_steps": (1,) * count,
        "step_times": tuple(2.0 + 0.1 * step for step in steps),
        "loss_values": tuple(5.0 - 0.1 * step for step in steps),
        "learning_rates": (None,) * count,
        "grad_norms": (None,) * count,
        "lines": (None,) * count,
        "status": "complete",
    }
    return Run(**{**made, **fields})


def log(name: str, *, steps: int = 4, **fields) -> ParsedLog:
    """A reading whose Run is called as the reading's format."""
    stated = {"who": LoggedValue(name, 1, ""), name: LoggedValue(steps, 2, "")}
    values = {"framework": name, "label": name, **fields}
    return ParsedLog(steps, stated, (f"note of {name}",), lambda given: run(**values, **given))


def merged(*found: tuple[str, list[ParsedLog]]) -> list[tuple[str, tuple[str, ...], dict]]:
    return [
        (each.run().framework, each.notes, {name: said.value for name, said in each.stated.items()})
        for each in merge.merge_logs(found)
    ]


def alone(name: str, steps: int = 4, *notes: str):
    return (name, (f"note of {name}", *notes), {"who": name, name: steps})


def both(host: str, inner: str, steps: tuple[int, int] = (4, 4), called: str | None = None):
    note = f"{inner} lines describe the same run and fill values missing from the {host} lines"
    stated = {"who": host, inner: steps[1], host: steps[0]}
    return (called or host, (f"note of {host}", f"note of {inner}", note), stated)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], []),
        ([("nemo", []), ("litgpt", [log("litgpt"), log("litgpt", steps=5)])], [alone("litgpt"), alone("litgpt", 5)]),
        ([("a", [log("a")]), ("b", [log("b")])], [alone("a"), alone("b")]),
        # The host goes first; Megatron's lines under another engine are of that.
        ([("deepspeed", [log("deepspeed")]), ("megatron", [log("megatron")])],
         [both("megatron", "deepspeed", called="deepspeed")]),
        ([("megatron", [log("megatron")]), ("megatron_bridge", [log("megatron_bridge")])],
         [both("megatron", "megatron_bridge", called="megatron_bridge")]),
        ([("hf_trainer", [log("hf_trainer")]), ("deepspeed", [log("deepspeed")])], [both("hf_trainer", "deepspeed")]),
        ([("deepspeed", [log("deepspeed")]), ("megatron", [log("megatron")]), ("hf_trainer", [log("hf_trainer")])],
         [both("megatron", "deepspeed", called="deepspeed"), alone("hf_trainer")]),
        ([("nemo", [log("nemo")]), ("mlperf", [log("mlperf")])], [both("mlperf", "nemo")]),
        ([("megatron", [log("megatron")]), ("mlperf", [log("mlperf")])], [both("mlperf", "megatron")]),
        # What has steps goes before what has none.
        ([("nemo", [log("nemo")]), ("mlperf", [log("mlperf", steps=0)])], [both("nemo", "mlperf", (4, 0))]),
        ([("nemo", [log("nemo", steps=0)]), ("mlperf", [log("mlperf", steps=0)])],
         [both("mlperf", "nemo", (0, 0))]),
        # A dump in Megatron's form without a step is of another's training.
        ([("litgpt", [log("litgpt")]), ("megatron", [log("megatron", steps=0)])], [alone("litgpt")]),
        ([("litgpt", [log("litgpt")]), ("megatron", [log("megatron", steps=0), log("megatron", steps=7)])],
         [alone("litgpt"), alone("megatron", 7)]),
        ([("megatron", [log("megatron", steps=0)])], [alone("megatron", 0)]),
        ([("litgpt", []), ("megatron", [log("megatron", steps=0)])], [alone("megatron", 0)]),
        ([("mlperf", [log("mlperf")]), ("megatron", [log("megatron", steps=0)])], [both("mlperf", "megatron", (4, 0))]),
        # Another number of runs.
        ([("nemo", [log("nemo")]), ("mlperf", [log("mlperf"), log("mlperf", steps=5)])],
         [alone("mlperf", 4, "nemo lines ignored: they describe 1 runs, the mlperf lines 2"),
          alone("mlperf", 5, "nemo lines ignored: they describe 1 runs, the mlperf lines 2")]),
        ([("nemo", [log("nemo"), log("nemo", steps=6)]), ("mlperf", [log("mlperf"), log("mlperf", steps=5)])],
         [both("mlperf", "nemo"), both("mlperf", "nemo", (5, 6))]),
    ],
)  # fmt: skip
def test_logs_in_one_log(found, expected):
    assert merged(*found) == expected


@pytest.mark.parametrize(
    ("norms", "tflops", "kept", "warned"),
    [
        ((0.0, 0.0, 0.0, 0.0), True, (None,) * 4, True),
        ((None,) * 4, False, (None,) * 4, False),
        ((0.0, 0.5, 0.0, 0.0), False, (0.0, 0.5, 0.0, 0.0), False),
    ],
)
def test_megatron_under_deepspeed(norms, tflops, kept, warned):
    native = {"tflops_per_gpu": (400.0,) * 4} if tflops else {}
    host = log("megatron", grad_norms=norms, native_metrics=native)
    (one,) = merge.merge_logs([("megatron", [host]), ("deepspeed", [log("deepspeed")])])
    words = "Megatron-DeepSpeed's TFLOP/s include recomputation: not comparable with Megatron-LM's"
    assert (one.run().grad_norms, words in one.run().warnings) == (kept, warned)
    (other,) = merge.merge_logs(
        [("megatron", [host]), ("megatron_bridge", [log("megatron_bridge")])]
    )
    assert (other.run().grad_norms, words in other.run().warnings) == (norms, False)


def test_what_the_user_gives_is_of_the_merged_run():
    (one,) = merge.merge_logs([("nemo", [log("nemo")]), ("mlperf", [log("mlperf", model="b")])])
    assert one.run({"scale": "full"}).scale == "full"


FULL = run(
    steps=(2, 3, 9),
    platform="amd",
    model="llama",
    scale="full",
    timestamp="2026-03-01T12:00:00+00:00",
    gpu_info=GpuInfo(device_name="MI300X", device_count=8, software_stack="rocm"),
    training_config=TrainingConfig(max_steps=9, global_batch_size=64, sequence_length=2048, num_gpus=8),
    parallelism_config=ParallelismConfig(tensor_model_parallel_size=2),
    model_config=ModelConfig(num_layers=32, hidden_size=4096, source="the other log"),
    optimizer=Optimizer(name="adam", beta1=0.9),
    data=Data(kind="mock"),
    memory_metrics=MemoryMetrics(peak_memory_allocated_gb=40.5),
    environment=Environment(versions={"torch": "2.1", "nemo": "2.5"}),
    native_metrics={
        "rate": (20.0, 30.0, 90.0), "late": (None, None, 90.0), "printed_step": (1.0, 2.0, 8.0), "total": 7.0,
        "odd": (22.0, 33.0, 99.0),
    },
    breakdown={"forward": 0.5, "backward": 0.7},
)  # fmt: skip


def sizes_unknown(*sizes):
    return Note("sizes-unknown", {"sizes": sizes})


UNKNOWN = (
    Note("model-unnamed"),
    Note("timestamp-unknown", {"why": "the source has no time of day"}),
    Note("gpu-unstated"),
    sizes_unknown("num_gpus"),
    sizes_unknown("global_batch_size", "sequence_length", "num_gpus"),
    Note("length-suggested", {"tokens": 2048}),
    Note("loss-not-finite", {"steps": "step 2"}),
)


def test_all_gaps_are_filled():
    empty = run(
        status="incomplete",
        status_reason="killed",
        notes=UNKNOWN,
        native_metrics={"odd": (1.0,) * 4},
    )
    filled = merge.fill_gaps(empty, FULL, "the other")
    names = (
        "max_steps, global_batch_size, sequence_length, num_gpus, tensor_model_parallel_size,"
        " num_layers, hidden_size, device_name, software_stack, name, beta1, kind,"
        " peak_memory_allocated_gb, platform, model, scale, timestamp"
    )
    taken = {
        name: getattr(FULL, name)
        for name in (
            "platform", "model", "scale", "timestamp", "gpu_info", "training_config", "parallelism_config",
            "model_config", "optimizer", "data", "memory_metrics", "environment", "breakdown",
        )
    }  # fmt: skip
    assert filled == msgspec.structs.replace(
        empty,
        **taken,
        status="complete",
        status_reason=None,
        notes=notes_of("loss is not a number at step 2", f"{names}: from the other"),
        # By step; what no step has in common, and the numbers that were printed, are left.
        native_metrics={"rate": (None, 20.0, 30.0, None), "total": 7.0, "odd": (1.0,) * 4},
    )


def test_sources_that_contradict_each_other():
    batch, parts = (
        TrainingConfig(global_batch_size=64),
        TrainingConfig(micro_batch_size=4, num_gpus=8),
    )
    for replicas, contradicts in ((8, False), (3, True)):
        other = run(
            training_config=parts, parallelism_config=ParallelismConfig(data_parallel_size=replicas)
        )
        warnings = merge.fill_gaps(run(training_config=batch), other, "the other").warnings
        assert [each for each in warnings if "both" in each] == [
            "number of GPUs 8 and data parallel size 3 can't both be true",
            "global batch size 64 and micro batch size 4 × data parallel size 3 can't both be true",
        ][: 2 * contradicts]


@pytest.mark.parametrize(("changes", "batch"), [((), 64), (("one",), None), (("other",), None)])
def test_what_changes_in_one_source_is_no_gap(changes, batch):
    notes = (Note("size-changes", {"size": "global batch size", "values": "16 to 64"}),)
    one = run(notes=notes if "one" in changes else ())
    config = TrainingConfig(global_batch_size=64, sequence_length=512)
    other = run(training_config=config, notes=notes if "other" in changes else ())
    found = merge.fill_gaps(one, other, "the other").training_config
    assert (found.global_batch_size, found.sequence_length) == (batch, 512)


def test_nothing_known_is_replaced():
    known = msgspec.structs.replace(
        FULL,
        notes=UNKNOWN,
        environment=Environment(versions={"torch": "2.4"}, hostname="a"),
        breakdown={"forward": 0.1},
        native_metrics={"rate": (1.0, 2.0, 3.0), "total": 8.0},
    )
    other = run(
        steps=FULL.steps,
        status="failed",
        platform="nvd",
        model="qwen",
        scale="small",
        timestamp="2026-05-01T12:00:00+00:00",
        gpu_info=GpuInfo(device_name="H100", device_count=4),
        model_config=ModelConfig(num_layers=16, source="x"),
        environment=Environment(versions={"torch": "2.9", "apex": "1"}, hostname="b"),
        breakdown={"forward": 0.9, "other": 0.2},
        native_metrics={"rate": (7.0, 7.0, 7.0), "total": 9.0},
    )
    assert merge.fill_gaps(known, other, "it") == msgspec.structs.replace(
        known,
        environment=Environment(versions={"torch": "2.4", "apex": "1"}, hostname="a"),
        breakdown={"forward": 0.1, "other": 0.2},
    )


def test_the_source_of_a_shape_stays_with_it():
    """Unless there was none; neither is told as filled, nor is the number of devices."""
    known = run(model_config=ModelConfig(num_layers=32))
    other = run(
        model_config=ModelConfig(source="x", hidden_size=64), gpu_info=GpuInfo(device_count=4)
    )
    filled = merge.fill_gaps(known, other, "it")
    assert filled.model_config == ModelConfig(num_layers=32, hidden_size=64)
    assert (filled.gpu_info.device_count, filled.warnings) == (4, ("hidden_size: from it",))
    assert merge.fill_gaps(run(), other, "it").model_config == ModelConfig(
        source="x", hidden_size=64
    )


@pytest.mark.parametrize(
    ("own", "others", "status"),
    [
        ("complete", "complete", ("complete", "mine")), ("complete", "failed", ("complete", "mine")),
        ("failed", "incomplete", ("failed", "mine")), ("failed", "complete", ("complete", None)),
    ],
)  # fmt: skip
def test_a_complete_source_completes(own, others, status):
    filled = merge.fill_gaps(
        run(status=own, status_reason="mine"), run(status=others, status_reason="its"), "it"
    )
    assert (filled.status, filled.status_reason) == status


@pytest.mark.parametrize(
    ("warning", "filled", "resolved"),
    [
        *((each, {name}, True) for name, each in zip(
            ("model", "timestamp", "device_name", "num_gpus"), UNKNOWN, strict=False)),
        (UNKNOWN[0], {"timestamp"}, False),
        # Each that is named must be there.
        (sizes_unknown("global_batch_size", "num_gpus"), {"global_batch_size", "num_gpus"}, True),
        (sizes_unknown("sequence_length", "global_batch_size"), {"num_gpus"}, False),
        (UNKNOWN[5], {"sequence_length"}, True),
        (UNKNOWN[5], {"num_gpus"}, False),
        (UNKNOWN[6], {"model", "sequence_length"}, False),
    ],
)  # fmt: skip
def test_warnings_of_what_is_known_now(warning, filled, resolved):
    assert merge._is_resolved(warning, sorted(filled)) is resolved


LOSSES = (5.0, 4.0, 3.0, 2.0, 1.0)


def losses(values=LOSSES, times=(2.0,) * 5, first: int = 1, **fields) -> Run:
    steps = tuple(range(first, first + len(values)))
    return run(steps, **{"loss_values": values, "step_times": times[: len(values)], **fields})


FILE = Source(kind="log", dialect="trainer_state.json")
START = "2026-03-01T12:00:00+00:00"


@pytest.mark.parametrize(
    ("one", "other", "as_files", "as_ranks"),
    [
        (losses(), losses(), True, True),
        (losses(), losses(LOSSES[:3]), True, True),
        (losses(), losses(LOSSES[:2]), False, False),
        (losses(), losses(LOSSES, first=6), False, False),
        (losses(), losses(LOSSES, first=2), False, False),
        # The same loss at each step is no sign, but between ranks.
        (losses((2.5,) * 5), losses((2.5,) * 5), False, True),
        (losses(), losses(times=(2.09,) * 5), False, True),
        (losses(), losses(times=(2.2,) * 5), False, False),
        (losses(), losses(times=(None,) * 5), True, True),
        (losses((None,) * 5), losses(), False, False),
        # Reinforcement learning has another loss, and some have gradients alone.
        (losses((None,) * 5, native_metrics={"policy_loss": LOSSES}),
         losses((None,) * 5, native_metrics={"policy_loss": LOSSES}), True, True),
        (losses((None,) * 5, grad_norms=LOSSES), losses((None,) * 5, grad_norms=LOSSES), True, True),
        (losses((None,) * 5, grad_norms=LOSSES), losses((None,) * 5, grad_norms=LOSSES[::-1]), False, False),
        (losses(grad_norms=LOSSES), losses(LOSSES[::-1], grad_norms=LOSSES), False, False),
        # The total time decides of files.
        (losses(native_metrics={"train_runtime_seconds": 50.0}),
         losses(LOSSES[::-1], native_metrics={"train_runtime_seconds": 50.02}, source=FILE), True, False),
        # In one format it is the same in both, and so are the losses.
        (losses((None,) * 5, native_metrics={"train_runtime_seconds": 50.0}),
         losses((None,) * 5, native_metrics={"train_runtime_seconds": 50.02}), False, True),
        (losses(native_metrics={"train_runtime_seconds": 50.0}),
         losses(LOSSES[::-1], native_metrics={"train_runtime_seconds": 50.0}), False, False),
        # A clock of another format differs a little from the one that prints.
        (losses(), losses(times=(2.009,) * 5, source=FILE), True, True),
        (losses(), losses(times=(2.011,) * 5, source=FILE), False, True),
        (losses(), losses(times=(2.009,) * 5), False, True),
        (losses(native_metrics={"train_runtime_seconds": 50.0}),
         losses(native_metrics={"train_runtime_seconds": 51.0}), False, True),
        (losses((None,) * 5, native_metrics={"train_runtime_seconds": 50.0}),
         losses(native_metrics={"train_runtime_seconds": 50.0}), True, True),
        # One began when the other had ended: 10 s of steps, of two windows of 2 s each 20 s.
        (losses(timestamp=START), losses(timestamp="2026-03-01T12:00:10+00:00"), True, True),
        (losses(timestamp=START), losses(timestamp="2026-03-01T12:00:11+00:00"), False, False),
        (losses(timestamp="2026-03-01T12:00:11+00:00"), losses(timestamp=START), False, False),
        (losses(timestamp=START, window_steps=(2,) * 5), losses(timestamp="2026-03-01T12:00:11+00:00"), True, True),
        (losses(timestamp=START, window_steps=(2,) * 5), losses(timestamp="2026-03-01T12:00:21+00:00"), False, False),
        (losses(timestamp=START, times=(None,) * 5), losses(timestamp="2026-03-01T12:00:11+00:00"), True, True),
        (losses(timestamp=START), losses(), True, True),
    ],
)  # fmt: skip
def test_one_training_or_two(one, other, as_files, as_ranks):
    assert merge.same_training(one, other) is as_files
    assert merge.same_training(one, other, ranks=True) is as_ranks
    assert merge.same_training(other, one) is as_files


NOW = (1.7e9, True)
UNEVEN = tuple(2.0 + 0.1 * ((7 * step) % 5) for step in range(40))
"""Times of steps of which two neighbors lie 4% to 10% apart."""


def timed(times) -> Run:
    return losses((2.5,) * len(times), times=times)


@pytest.mark.parametrize(
    ("times", "moments", "is_together"),
    [
        (UNEVEN, (NOW, NOW), True),
        # A mean that is 0.49% off is of another clock, one of 0.51% of another training.
        ([time * 1.0049 for time in UNEVEN], (NOW, NOW), True),
        ([time * 1.0051 for time in UNEVEN], (NOW, NOW), False),
        # The same mean, but slow in other steps.
        (UNEVEN[::-1], (NOW, NOW), False),
        (UNEVEN, (NOW, (NOW[0] + merge.SAME_MOMENT, True)), True),
        (UNEVEN, (NOW, (NOW[0] + merge.SAME_MOMENT + 1, True)), False),
        (UNEVEN, (NOW, (NOW[0], False)), False),
        (UNEVEN, (NOW, None), False),
        # Too few steps tell nothing.
        (UNEVEN[1:3], (NOW, NOW), True),
    ],
)
def test_processes_that_wait_for_each_other(times, moments, is_together):
    one = timed(UNEVEN)
    other = timed(tuple(times))
    assert merge.in_lockstep(one, other, moments) is is_together
    assert merge.in_lockstep(other, one, moments[::-1]) is is_together


def test_values_of_the_steps_that_both_have():
    one = run(
        (1, 2, 5), loss_values=(9.0, None, 7.0), native_metrics={"x": (1.0, 2.0, 3.0), "y": 5.0}
    )
    other = run(
        (1, 2, 5, 8), loss_values=(6.0, 3.0, 4.0, 5.0), native_metrics={"x": (4.5, 1.5, None, 2.5)}
    )
    assert merge._pairs(one, other, "loss_values") == [(9.0, 6.0), (7.0, 4.0)]
    assert merge._pairs(one, other, "x") == [(1.0, 4.5), (2.0, 1.5)]
    assert merge._pairs(one, other, "y") == merge._pairs(one, other, "z") == []
