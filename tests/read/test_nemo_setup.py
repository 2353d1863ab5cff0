"""What NeMo's console states, line by line, and the steps that its lines stand for."""

from __future__ import annotations

import pytest

from tprimat.read.nemo import reader, setup
from tprimat.read.parsing.records import LogContext, Record
from tprimat.read.parsing.text import Line


def fed(*texts: str) -> LogContext:
    around = LogContext()
    for number, text in enumerate(texts, 3):
        setup.feed(number, text, around)
    return around


@pytest.mark.parametrize(
    ("text", "values", "weight"),
    [
        ("distributed_backend=nccl Starting with 16 processes", {"num_gpus": 16}, 3),
        ("GLOBAL_RANK: 0, MEMBER: 1/16", {"num_gpus": 16}, 3),
        ("global_world_sizes=[16, 8]", {"num_gpus": 16}, 3),
        ("2x[H100:8]", {"num_gpus": 16, "device_name": "H100"}, 1),
        ("seq_length=512", {"sequence_length": 512}, 2),
        ("'encoder_seq_length': 512", {"sequence_length": 512}, 2),
        ("x.seq_length=512", {}, 2),
        ("micro_batch_size: 3, num_layers: 7", {"micro_batch_size": 3, "num_layers": 7}, 2),
        (
            "hidden_size=64 num_attention_heads=8 num_query_groups=4 kv_channels=16",
            {"hidden_size": 64, "num_attention_heads": 8, "num_query_groups": 4, "head_dim": 16},
            2,
        ),
        (
            "tensor_model_parallel_size=2 pipeline_model_parallel=3 context_parallel_size: 4 "
            "expert_model_parallel_size=5",
            {
                "tensor_model_parallel_size": 2,
                "pipeline_model_parallel_size": 3,
                "context_parallel_size": 4,
                "expert_model_parallel_size": 5,
            },
            2,
        ),
        ("max_steps=70", {"max_steps": 70}, 2),
        ("'max_steps' was set to 70", {}, 2),
        ("max_steps was set to 70", {"max_steps": 70}, 2),
        ("Padded vocab_size: 2048, x", {"vocab_size": 2048}, 3),
        (
            "OptimizerConfig(optimizer='adam', lr=3e-4, weight_decay=0.1, adam_beta2=0.95x)",
            {"optimizer": "adam", "peak_learning_rate": 3e-4, "weight_decay": 0.1},
            2,
        ),
        ("nemo_toolkit: 2.5.0rc1", {"nemo_version": "2.5.0rc1"}, 2),
        ("nemo 2.5", {}, 2),
        # Precisions.
        ("bf16=True fp16=False", {"precision": "bf16"}, 2),
        ("fp16: true", {"precision": "fp16"}, 2),
        ("precision: bf16-mixed", {"precision": "bf16"}, 2),
        ("precision: odd", {}, 2),
        ("fp8: hybrid", {"precision": "fp8", "precision_detail": "fp8 hybrid"}, 3),
        *((f"fp8: {off}", {}, 3) for off in ("None", "false", "null", "0")),
        ("fp8_recipe: mxfp8", {}, 3),
        ("x_bf16=True", {}, 2),
        (
            "All tensor model parallel group ranks: [[0, 1], [2, 3]]",
            {"tensor_model_parallel_size": 2, "num_gpus": 4},
            None,
        ),
        (
            "All tensor model parallel group ranks: [[0]]",
            {"tensor_model_parallel_size": 1, "num_gpus": 1},
            None,
        ),
        (
            "All pipeline model parallel group ranks: [[0, 1, 2]]",
            {"pipeline_model_parallel_size": 3},
            3,
        ),
        (
            "All pipeline model parallel group ranks: [[0], [1]]",
            {"pipeline_model_parallel_size": 1},
            3,
        ),
        ("All pipeline model parallel group ranks: [[0]]", {}, 3),
        ("All context parallel group ranks: [[0, 1], [2]]", {}, 3),
        (
            "number of parameters on (tensor, pipeline) model parallel rank (01 ,2): 1234",
            {"parameters of rank 1, 2": 1234},
            2,
        ),
        ("nothing", {}, 2),
        ("processes " + "x" * 19_980 + " max_steps=7", {}, 2),
        ("x" * 19_988 + " max_steps=7", {"max_steps": 7}, 2),
        ("x" * 19_989 + " max_steps=7", {}, 2),
    ],
)
def test_a_line(text, values, weight):
    found = fed(text).stated
    assert {name: each.value for name, each in found.items()} == values
    assert weight is None or {(each.line, each.weight) for each in found.values()} <= {(3, weight)}


@pytest.mark.parametrize(
    ("texts", "precision", "detail"),
    [
        (["fp8: e4m3 fp8_recipe: mxfp8"], "mxfp8", "fp8 e4m3"),
        (["fp8_recipe: mxfp8 fp8: e4m3"], "fp8", "fp8 e4m3"),
        (["bf16=True", "fp8_recipe: mxfp8"], "bf16", None),
        (["fp8: e4m3", "bf16=True"], "fp8", "fp8 e4m3"),
        (["fp8: e4m3", "fp8_recipe: delayed"], "fp8", "fp8 e4m3"),
    ],
)
def test_precisions_one_after_the_other(texts, precision, detail):
    found = fed(*texts).stated
    assert (found.value("precision"), found.value("precision_detail")) == (precision, detail)


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        ("`Trainer.fit` stopped: `max_steps=30` reached.", True),
        ("Trainer.fit stopped: max_epochs", True),
        ("`Trainer.fit` stopped: an error", False),
        ("stopped: x", False),
    ],
)
def test_the_end(text, ended):
    assert fed("x", text).marks == ({"success": 4} if ended else {})


@pytest.mark.parametrize(
    ("steps", "windows"),
    [
        ([0, 1, 2], [1, 1, 1]),
        ([9, 19, 29], [10, 10, 10]),
        ([0, 10, 20], [1, 10, 10]),
        ([9, 19, 39], [10, 10, 10]),
        ([9, 19, 29, 34, 39], [10, 10, 10, 5, 5]),
        # Four of five lines stand there, and three of four don't.
        ([9, 19, 29, 39, 43], [10, 10, 10, 10, 4]),
        ([9, 19, 29, 32], [1, 1, 1, 1]),
        ([3], [1]),
        ([], []),
        ([14, 24, 34], [10, 10, 10]),
    ],
)
def test_windows(steps, windows):
    found = [Record(step, 1) for step in steps]
    reader.set_windows(found)
    assert [each.window for each in found] == windows


@pytest.mark.parametrize(
    ("text", "step"),
    [(None, None), ("4", 4), ("4.000", 4), ("1.2e+03", None), ("1E3", None), ("4.5", None)],
)
def test_a_step_as_it_is_printed(text, step):
    assert reader._whole(text) == step


def read(*texts: str, whole: bool = True) -> reader.Reader:
    made = reader.Reader()
    for number, text in enumerate(texts, 1):
        made.feed(Line(number, text, whole or number < len(texts)))
    return made


def records(*texts: str, **how) -> list[Record]:
    return [
        each
        for training in read(*texts, **how).sorter.trainings
        for each in training.records.values()
    ]


AT = "Training epoch 0, iteration {} | "


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            AT.format("4/29")
            + "lr: 1e-05 | Reduced_Train_Loss: 3.5 | loss: 9 | train_step_timing in s: 2.5",
            [Record(4, 1, loss=3.5, learning_rate=1e-5, seconds=2.5)],
        ),
        (
            AT.format("4") + "global_step: 34 | reduced_train_loss: 3.5 | odd: 7",
            [Record(34, 1, loss=3.5, unread=("odd",))],
        ),
        # Without a step the samples tell, if they are a whole number of batches.
        (
            AT.format("4") + "consumed_samples: 64 | global_batch_size: 16",
            [Record(3, 1, native={"consumed_samples": 64.0})],
        ),
        (
            AT.format("4") + "consumed_samples: 16 | global_batch_size: 16",
            [Record(0, 1, native={"consumed_samples": 16.0})],
        ),
        (
            AT.format("4") + "consumed_samples: 65 | global_batch_size: 16",
            [Record(4, 1, native={"consumed_samples": 65.0})],
        ),
        (
            AT.format("4") + "consumed_samples: 0 | global_batch_size: 16",
            [Record(4, 1, native={"consumed_samples": 0.0})],
        ),
        (
            AT.format("4") + "consumed_samples: 64",
            [Record(4, 1, native={"consumed_samples": 64.0})],
        ),
        (
            AT.format("4") + "max_memory_reserved: 2500000000 | peak_memory_usage: 7",
            [Record(4, 1, native={"memory_reserved_gb": 2.5})],
        ),
        (
            AT.format("4") + "loss: 3.5 " + AT.format("5") + "loss: 3.25",
            [Record(4, 1, loss=3.5), Record(5, 1, loss=3.25)],
        ),
        (AT.format("4") + "loss: 3.5 | loss: 7", [Record(4, 1, loss=3.5)]),
        ("Training epoch 0", []),
    ],
)
def test_a_line_of_a_step(text, found):
    assert records(text) == found


BAR = "Epoch {}: :  5%|x | {}/{} [00:12<03:59, {}]"


@pytest.mark.parametrize(
    ("texts", "found", "planned"),
    [
        (
            [BAR.format(0, 5, 90, "reduced_train_loss=3.5, global_step=4.000, lr=0.5")],
            [(4, 3.5, 0.5)],
            90,
        ),
        ([BAR.format(0, 5, 90, "reduced_train_loss=3.5")], [(4, 3.5, None)], 90),
        ([BAR.format(0, 0, 90, "reduced_train_loss=3.5")], [(0, 3.5, None)], 90),
        ([BAR.format(1, 5, 90, "reduced_train_loss=3.5")], [(4, 3.5, None)], None),
        ([BAR.format(0, 5, "?", "reduced_train_loss=3.5")], [(4, 3.5, None)], None),
        (
            [BAR.format(0, 5, 90, "reduced_train_loss=3.5")] * 2
            + [BAR.format(0, 6, 90, "reduced_train_loss=3.25")],
            [(4, 3.5, None), (5, 3.25, None)],
            90,
        ),
        ([BAR.format(0, 5, 90, "loss=3.5")], [], None),
        (["x reduced_train_loss=3.5"], [], None),
    ],
)
def test_a_progress_bar(texts, found, planned):
    made = read(*texts)
    (training,) = made.sorter.trainings or [None]
    kept = training.records.values() if training else []
    assert [(each.step, each.loss, each.learning_rate) for each in kept] == found
    assert (training and training.around.stated.value("max_steps")) == planned


@pytest.mark.parametrize(("whole", "cut"), [(True, None), (False, 5)])
def test_a_file_that_ends_in_a_step(whole, cut):
    made = read(AT.format("4/29") + "loss: 3.5", AT.format("5/29"), whole=whole)
    assert made.sorter.cut_off == cut
    assert [
        each.step for training in made.sorter.trainings for each in training.records.values()
    ] == ([4, 5] if whole else [4])


def test_what_it_hears():
    assert {*setup.SIGNS, "Training epoch ", "reduced_train_loss=", "stopped:"} <= {
        *reader.Reader().all_signs
    }


def test_a_stamp_before_a_step():
    (record,) = records("[2026-05-11 02:00:05] " + AT.format("4") + "loss: 3.5")
    assert record.stamp.time.isoformat() == "2026-05-11T02:00:05"


def run(*texts: str):
    (parsed,) = read(*texts).finish()
    return parsed.run()


def test_a_batch_that_changes_is_none():
    lines = [
        AT.format(f"{step}/29") + f"loss: 3.5 | global_batch_size: {batch}"
        for step, batch in ((1, 16), (2, 48), (3, 32))
    ]
    made = run(*lines)
    assert made.training_config.global_batch_size is None
    assert (
        "global batch size changes during the run (16 to 48): no throughput in tokens"
        in made.warnings
    )
    made = run(*lines[:1])
    assert (made.training_config.global_batch_size, made.training_config.max_steps, made.steps) == (
        16,
        30,
        (2,),
    )


RANK = "number of parameters on (tensor, pipeline) model parallel rank (0 ,{}): {}"
ONE = ("tensor_model_parallel_size=1", "Starting with 1 processes")
STEP = AT.format("4/29") + "loss: 3.5"


@pytest.mark.parametrize(
    ("lines", "parameters"),
    [
        ([*ONE, RANK.format(0, 1234)], 1234),
        ([*ONE, RANK.format(0, 1234), RANK.format(1, 1235)], None),
        ([ONE[0], RANK.format(0, 1234)], None),
        ([ONE[1], RANK.format(0, 1234)], None),
        (["tensor_model_parallel_size=2", ONE[1], RANK.format(0, 1234)], None),
        ([ONE[0], "Starting with 2 processes", RANK.format(0, 1234)], None),
    ],
)
def test_parameters_of_a_single_rank(lines, parameters):
    assert run(*lines, STEP).model_config.num_parameters == parameters


def test_causes_before_the_first_step():
    """Of lines that name NeMo or an error, all is heard; of others times and events."""
    made = read("ValueError: x", "2026-05-11 02:00:05 Killed", "nemo_toolkit: 2.5.0")
    assert made.sorter.pending.causes.reason() == "line 1: ValueError: x"
    assert made.sorter.pending.first_stamp.time.second == 5
    assert read("NeMo 2026-05-11 02:00:07").sorter.pending.first_stamp.time.second == 7
    assert run("nemo_toolkit: 2.5.0", STEP).environment.versions == {"nemo": "2.5.0"}
