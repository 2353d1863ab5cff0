"""Parts of small readers: what a line is taken for, and figures of DeepSpeed's profiler."""

from __future__ import annotations

import io

import pytest

from tprimat import read
from tprimat.analysis.warmup import MINIMUM_RECORDS
from tprimat.read import dllogger, megatron_bridge, tracelens, wandb_offline
from tprimat.read import golden as golden_values
from tprimat.read.deepspeed import profile, setup
from tprimat.read.hf_trainer import state
from tprimat.read.kineto import events
from tprimat.read.parsing.parsed_log import InputFile
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import LoggedValue, LoggedValues
from tprimat.read.tensorboard import tfevents

READERS = {each.name: each for each in read.log_formats()}


@pytest.mark.parametrize(
    ("name", "content", "is_taken"),
    [
        ("automodel", '{"step": 3, "tps": 5.0, "num_label_tokens": 1}', True),
        ("automodel", '{"step": 3, "tps": 5.0}', False),
        ("automodel", '{"step": 3, "tps": ', False),
        ("automodel", '{"step": 3, "tps_per_gpu": 5.0, "num_label_tokens": 1}', False),
        ("automodel", "step 3 | epoch 0 | loss 2.5 | tps 5.0", True),
        ("automodel", "step 3 | epoch 0 | loss 2.5", False),
        ("automodel", "else", False),
        ("composer", "[batch=3/20]:", True),
        ("composer", " Train loss/train/total: 2.5", True),
        ("composer", " Eval metrics/eval/Loss: 2.5", False),
        ("composer", "else", False),
        (
            "deepspeed",
            (
                "epoch=0/micro_step=3/global_step=3, RunningAvgSamplesPerSec=2.5,"
                " CurrSamplesPerSec=3.5"
            ),
            True,
        ),
        (
            "deepspeed",
            (
                "epoch=0/micro_step=3/global_step=0, RunningAvgSamplesPerSec=2.5,"
                " CurrSamplesPerSec=3.5"
            ),
            True,
        ),
        ("deepspeed", "SamplesPerSec=", False),
        ("dllogger", 'DLLL {"step": 3, "data": {"loss": 2.5}}', False),
        ("litgpt", "iter 1 step 1 | loss train: 2.5, val: n/a | iter time: 3.5 ms", True),
        ("litgpt", "iter 1 step 1 | loss train: 2.5, val: n/a | iter time: 3.5 ms (step)", True),
        ("litgpt", "iter time: 3.5 ms", False),
        ("llama_factory", '{"current_steps": 3, "loss": 2.5}', True),
        ("llama_factory", '{"current_steps": 3, "eval_loss": 2.5}', True),
        ("llama_factory", '{"current_steps": 0, "loss": 2.5}', False),
        ("maxtext", "completed step: 3, seconds: 2.5", True),
        ("maxtext", "completed step: 3, loss: 2.5", True),
        ("maxtext", "completed", False),
        ("megatron_bridge", "Step Time : 2.5s", True),
        ("megatron_bridge", "Step Time : ?", True),
        ("megatron_bridge", "Step Time", False),
        ("ms_swift", '{"global_step/max_steps": "3/5", "elapsed_time": "3s", "loss": 2.5}', True),
        ("ms_swift", '{"global_step/max_steps": "3/5", "loss": 2.5}', False),
        ("nanogpt", "s:3 trl:2.5", True),
        ("nanogpt", "s:3 tel:2.5", True),
        ("nanogpt", "else", False),
        ("nemo_rl", "== Epoch 1/2 ==", True),
        ("nemo_rl", "== Step 1/2 ==", True),
        ("nemo_rl", "else", False),
        ("olmo", "[step=3/4]", True),
        ("olmo", "    train/CE loss=2.5", False),
        ("torchtune", "Step 3 | loss:2.5", True),
        ("torchtune", "Step 3 | tokens_per_second:2.5", True),
        ("torchtune", "Step 3 | eval:2.5", False),
        ("torchtune", "Step", False),
        ("verl", "step:3 - train/time(s):2.5", True),
        ("verl", "train/time(s):2.5", False),
    ],
)
def test_what_a_line_is_taken_for(name, content, is_taken):
    """A line that is taken is looked at no further."""
    assert READERS[name]().take(Line(1, content, True)) is is_taken


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("litgpt", "iter 1 step 1 | loss train: 2.5, val: n/a | iter time: 3.5 ms"),
        ("verl", "step:3 - train/time(s):2.5"),
        ("megatron_bridge", "Step Time : ?"),
    ],
)
def test_the_last_line_of_a_file_that_is_cut(name, content):
    reader = READERS[name]()
    assert reader.take(Line(1, content, False)) is (name == "megatron_bridge")
    assert reader.recognized is False


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("2.5", 2.5), ("2.5 k", 2.5e3), ("2.5 K", 2.5e3), ("2.5 M", 2.5e6), ("2.5 GFLOPS", 2.5e9), ("2.5 T", 2.5e12),
        ("2.5 P", 2.5e15), ("2.5 s", 2.5), ("2.5 ms", 2.5e-3), ("2.5 us", 2.5e-6), ("2.5 μs", 2.5e-6),
        ("2.5 µs", 2.5e-6), ("1,234.5 MMACs", 1234.5e6), ("2.5 FLOPS", 2.5),
    ],
)  # fmt: skip
def test_units_of_the_profiler(printed, value):
    found = profile.Profile()
    found.feed(Line(7, "Profile Summary at step 3:", True))
    found.feed(Line(8, f"params per gpu:    {printed}", True))
    assert found.figures() == {
        "profile_step": 3.0,
        "profile_parameters_per_gpu": pytest.approx(value),
    }


def test_figures_of_the_profiler():
    found = profile.Profile()
    assert (found.figures(), found.breakdown()) == ({}, {})
    found.feed(Line(5, "iter latency:   4.5 s", True))
    assert found.figures() == {}
    rows = {
        "world size": "8", "data parallel size": "4", "batch size per GPU": "2.5", "iter latency": "4.5 s",
        "samples/second": "3.5", "fwd+bwd flops per GPU": "57.5 TFLOPS", "FLOPS per GPU": "82.5 TFLOPS",
        "fwd flops per GPU": "6.5 G", "fwd latency": "1.5 s", "bwd latency": "2.5 s", "step latency": "0.5 s",
    }  # fmt: skip
    for number, content in enumerate(
        ["Profile Summary at step 3:", *(f"{a}:    {b}" for a, b in rows.items())], 6
    ):
        found.feed(Line(number, content, True))
    assert found.figures() == pytest.approx(
        {
            "profile_step": 3.0,
            "profile_step_seconds": 4.5,
            "profile_samples_per_second": 3.5,
            "profile_tflops_per_gpu": 57.5,
            "profile_step_tflops_per_gpu": 82.5,
            "profile_forward_flops_per_gpu": 6.5e9,
        }
    )
    assert found.breakdown() == {"forward": 1.5, "backward": 2.5, "optimizer": 0.5}
    stated = LoggedValues()
    found.state(stated)
    assert {
        name: (each.value, each.line, each.text, each.weight) for name, each in stated.items()
    } == {
        "num_gpus": (8, 6, "world size: 8", 3),
        "data_parallel_size": (4, 6, "data parallel size: 4", 3),
    }


@pytest.mark.parametrize(
    ("stated", "gpus"),
    [
        ({"data_parallel_size": 6}, 6),
        ({"data_parallel_size": 6, "tensor_model_parallel_size": 2}, None),
        ({"data_parallel_size": 6, "pipeline_model_parallel_size": 2}, None),
        ({"data_parallel_size": 6, "num_gpus": 12}, 12),
        ({}, None),
    ],
)
def test_the_gpus_of_data_parallelism_alone(stated, gpus):
    found = LoggedValues({name: LoggedValue(value, 7, name) for name, value in stated.items()})
    setup.world_from_replicas(found)
    assert found.count("num_gpus") == gpus


@pytest.mark.parametrize(
    ("lines", "is_row"), [(profile.LONGEST, True), (profile.LONGEST + 1, False)]
)
def test_the_longest_block_of_the_profiler(lines, is_row):
    found = profile.Profile()
    found.feed(Line(100, "Profile Summary at step 3:", True))
    found.feed(Line(100 + lines, "iter latency:    4.5 s", True))
    assert ("profile_step_seconds" in found.figures()) is is_row


CONFIG = "[2026-03-04 10:00:00,000] [INFO] [config.py:1001:print]   "


@pytest.mark.parametrize(
    ("content", "stated"),
    [
        (CONFIG + "train_batch_size ............. 96", {"global_batch_size": (96, 3)}),
        (CONFIG + "train_micro_batch_size_per_gpu  3", {"micro_batch_size": (3, 3)}),
        (CONFIG + "gradient_accumulation_steps .. 4", {"gradient_accumulation_steps": (4, 3)}),
        (CONFIG + "world_size ................... 8", {"data_parallel_size": (8, 3)}),
        (CONFIG + "fp16_enabled ................. True", {"precision": ("fp16", 3)}),
        (CONFIG + "fp16_enabled ................. False", {}),
        (CONFIG + "bfloat16_enabled ............. True", {"precision": ("bf16", 3)}),
        (CONFIG + "float16_config ............... enabled=True auto_cast=False", {"precision": ("fp16", 3)}),
        (CONFIG + "bfloat16_config .............. enabled=False", {}),
        (CONFIG + "zero_optimization_stage ...... 2", {"strategy_name": ("DeepSpeed ZeRO stage 2", 3)}),
        (CONFIG + "zero_optimization_stage ...... 0", {"strategy_name": ("DeepSpeed", 3)}),
        (CONFIG + "zero_optimization_stage ...... x", {"strategy_name": ("DeepSpeed", 3)}),
        ("data_parallel_size: 6, parameter_parallel_size: 6", {"data_parallel_size": (6, 3)}),
        ("CONFIG: micro_batches=6 micro_batch_size=2",
         {"gradient_accumulation_steps": (6, 3), "micro_batch_size": (2, 3)}),
        ("CONFIG: micro_batches=6 micro_batch=2", {"gradient_accumulation_steps": (6, 3)}),
        ("dist_world_size=16 x", {"num_gpus": (16, 3)}),
        ("nnodes=2, num_local_procs=3, node_rank=0", {"num_gpus": (6, 1)}),
        ("DeepSpeed info: version=0.14.5+x, git", {"deepspeed_version": ("0.14.5+x", 3)}),
        ("OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 2, reducing to 1", {"precision": ("fp16", 1)}),
        (" " * 10_000 + "dist_world_size=16 x", {}),
        (" " * (10_000 - 18) + "dist_world_size=16 x", {"num_gpus": (16, 3)}),
    ],
)  # fmt: skip
def test_what_deepspeed_states(content, stated):
    found = LoggedValues()
    setup.statements_in(content, 9, found)
    assert {name: (each.value, each.weight) for name, each in found.items()} == stated
    assert {each.line for each in found.values()} <= {9}


def test_how_many_lines_without_steps_are_one_training():
    def runs(count):
        reader = megatron_bridge.Reader()
        for number in range(count):
            reader.feed(Line(number + 1, f"Step Time : {number + 2}.5s", True))
        return [parsed.run().step_times for parsed in reader.finish()]

    assert runs(MINIMUM_RECORDS - 1) == [(number + 2.5,) for number in range(MINIMUM_RECORDS - 1)]
    assert runs(MINIMUM_RECORDS) == [tuple(number + 2.5 for number in range(MINIMUM_RECORDS))]
    assert runs(0) == []


def bridge(*contents):
    reader = megatron_bridge.Reader()
    for number, content in enumerate(contents, 1):
        reader.feed(Line(number, content, True))
    return [
        (parsed.run().steps, parsed.run().step_times, parsed.run().warnings[0])
        for parsed in reader.finish()
    ]


def megatron(step):
    return f" iteration {step:8d}/     100 | elapsed time per iteration (ms): 500.0 |"


def test_the_steps_of_megatrons_lines():
    in_order = "lines without step numbers are numbered in order, one step each"
    times = [f"Step Time : {number}.5s" for number in (2, 3, 4)]
    begins = "log begins at step 7"
    found = bridge(*times, *map(megatron, (7, 8, 9)))
    assert [each[:2] for each in found] == [((7, 8, 9), (2.5, 3.5, 4.5))]
    assert found[0][2] == begins
    # A line that several ranks print, or one more than there are times: the line next in the order
    # counts.
    assert bridge(times[0], *map(megatron, (7, 7, 8)), times[1], megatron(9), times[2])[0][:2] == (
        (7, 8, 9),
        (2.5, 3.5, 4.5),
    )
    assert bridge(times[0], *map(megatron, (7, 8)), times[1], *map(megatron, (9, 10)), times[2])[0][
        :2
    ] == (
        (7, 9, 10),
        (2.5, 3.5, 4.5),
    )
    # Fewer lines than times say nothing.
    assert bridge(*times, *map(megatron, (7, 8)))[0] == ((1, 2, 3), (2.5, 3.5, 4.5), in_order)
    assert bridge(*times, *map(megatron, (0, 7, 8)))[0] == ((1, 2, 3), (2.5, 3.5, 4.5), in_order)


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (golden_values, "LARGEST", 2**25),
        (state, "LARGEST", 2**28),
        (events, "PIECE", 2**22),
        (events, "LONGEST", 2**25),
        (tfevents, "LONGEST_READ", 2**24),
        (tracelens, "LARGEST_WORKBOOK", 2**26),
        (tracelens, "MOST_TAGS", 1_000_000),
        (tracelens, "MOST_ROWS", 100_000),
        (tracelens, "MOST_COLUMNS", 200),
        (wandb_offline, "_LONGEST", 2**25),
        (wandb_offline, "_BLOCK", 2**15),
    ],
)
def test_limits_that_no_small_file_reaches(module, name, value):
    assert getattr(module, name) == value


@pytest.mark.parametrize(("size", "fits"), [(40, True), (41, False)])
def test_the_largest_file_of_the_trainer(size, fits, monkeypatch):
    monkeypatch.setattr(state, "LARGEST", 40)
    part = InputFile("a", io.BytesIO(b'{"train_runtime": 2.5}'.ljust(size)))
    if fits:
        (parsed,) = state._results(part, {})
        assert parsed.run().native_metrics == {"train_runtime_seconds": 2.5}
    else:
        with pytest.raises(ValueError, match="larger than 0 MiB, which no such file is"):
            state._results(part, {})


def test_bytes_of_no_text_in_a_file_of_the_trainer():
    (parsed,) = state._results(
        InputFile("a", io.BytesIO(b'{"train_runtime": 2.5, "x": "\xff"}')), {}
    )
    assert parsed.run().native_metrics == {"train_runtime_seconds": 2.5}


@pytest.mark.parametrize(("lines", "steps"), [(201, [4]), (202, [])])
def test_the_longest_object_of_dllogger(lines, steps):
    """Its last line is looked at as well, so that one line more is read if it ends the object."""
    reader = dllogger.Reader()
    content = ['DLLL {"step": 3, "data": {', *[""] * (lines - 2), '"reduced_train_loss": 2.5}}']
    for number, each in enumerate(content, 1):
        reader.feed(Line(number, each, True))
    assert [step for parsed in reader.finish() for step in parsed.run().steps] == steps


@pytest.mark.parametrize(("size", "found"), [(0, 1), (1, 0)])
def test_the_largest_document_of_golden_values(size, found, monkeypatch):
    content = ['{"1": {"lm loss": 2.5,', ' "x": 3}}']
    monkeypatch.setattr(golden_values, "LARGEST", sum(map(len, content)) + 2 - size)
    reader = golden_values.Reader()
    for number, each in enumerate(content, 1):
        reader.feed(Line(number, each, True))
    assert len(reader.finish()) == found


@pytest.mark.parametrize(
    ("content", "within"),
    [
        (['{"lm loss": 1'], 1),
        (["", "  ", '{"lm loss": 1'], 1),
        (["x", '{"lm loss": 1'], 0),
        (['{"lm loss": 1}', '{"lm loss": 2}'], 0),
        (['{"lm loss": 1', '{"lm loss": 2}'], 2),
        (['{"lm loss": 1}', ' {"lm loss": 2}'], 2),
        (['{"lm loss": 1', "x"], 2),
    ],
)
def test_what_may_be_a_document_of_golden_values(content, within):
    reader = golden_values.Reader()
    for number, each in enumerate(content, 1):
        reader.feed(Line(number, each, True))
    assert (len(reader.within), reader.recognized) == (within, within > 0)


@pytest.mark.parametrize(
    ("scalar", "points"),
    [
        ({"values": {"1": 2.5, "3": "3.5", "x": 4.5, "0": 5.5, "4": "nan", "5": None, "6": "inf"}},
         [(1, 2.5), (3, 3.5)]),
        ({"values": [2.5, 3.5, "nan", 4.5]}, [(1, 2.5), (2, 3.5), (4, 4.5)]),
        ({"values": [2.5, 3.5], "start_step": 10, "step_interval": 5}, [(10, 2.5), (15, 3.5)]),
        ({"values": [2.5, 3.5], "start_step": 0, "step_interval": 0}, [(1, 3.5)]),
        ({"values": [2.5, 3.5], "start_step": "4"}, [(4, 2.5), (5, 3.5)]),
        ({"values": 2.5}, []),
        ([2.5], []),
        (None, []),
    ],
)  # fmt: skip
def test_points_of_golden_values(scalar, points):
    assert golden_values._points(scalar) == points
