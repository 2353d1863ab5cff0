"""What torchtitan states of its setup, line by line, and what follows from it."""

# ruff: noqa: E501 - lines of logs
from __future__ import annotations

import pytest
from stored_runs import sentences_of

from tprimat.read.parsing.records import LogContext, LoggedTraining, Record
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import LoggedValues, state
from tprimat.read.torchtitan import reader, setup
from tprimat.results.run import ModelConfig, ParallelismConfig, TrainingConfig


def stated(**values) -> LoggedValues:
    made = LoggedValues()
    for line, (name, value) in enumerate(values.items(), 1):
        state(made, name, value, name, line)
    return made


def fed(*texts: str, has_steps: bool = False) -> tuple[LogContext, list[bool]]:
    made, around = setup.Setup(), LogContext()
    return around, [
        made.feed(number, text, around, has_steps=has_steps) for number, text in enumerate(texts, 3)
    ]


MESH = {
    "tensor_model_parallel_size": 1,
    "pipeline_model_parallel_size": 1,
    "context_parallel_size": 1,
}


@pytest.mark.parametrize(
    ("text", "values", "weight", "own"),
    [
        ("arguments training.seq_len.... 1024", {"sequence_length": 1024}, 2, True),
        ("arguments parallelism.odd.... 7", {}, 2, True),
        ("arguments metrics.log_freq. 7", {"log_freq": 7}, 2, False),
        ("arguments model.name.... 'llama3'", {"model_name": "llama3"}, 2, False),
        ("arguments model.flavor.... 8B", {"model_flavor": "8B"}, 2, False),
        ("arguments seq_len.... 1024", {}, 2, False),
        (
            "Building 2-D device mesh with ['pp', 'tp'], [4, 2]",
            {
                **MESH,
                "pipeline_model_parallel_size": 4,
                "tensor_model_parallel_size": 2,
                "data_parallel_size": 1,
                "num_gpus": 8,
            },
            3,
            False,
        ),
        ("Building 2-D device mesh with ['pp', 'tp'], [4, 2, 3]", {}, 3, False),
        (
            "Building device mesh with parallelism: pp=3, dp_replicate=2, dp_shard=5, cp=7, tp=1, ep=4",
            {
                **MESH,
                "pipeline_model_parallel_size": 3,
                "context_parallel_size": 7,
                "data_parallel_size": 10,
                "num_gpus": 210,
            },
            3,
            False,
        ),
        ("Building device mesh with parallelism: none", {}, 3, False),
        (
            "Model llama3 8B size: 8,030,261,248 total parameters",
            {"model": "llama3 8B", "parameters": 8030261248},
            3,
            True,
        ),
        (
            "CUDA capacity: NVIDIA H100 with 79.11GiB memory",
            {"device_name": "NVIDIA H100", "device_gib": 79.11},
            3,
            False,
        ),
        ("Float8 tensorwise scaled training active", {"quantized": "fp8"}, 3, False),
        ("Swapped to MXLinear layers", {"quantized": "mxfp8"}, 3, False),
        (
            "Trainer is initialized with local batch size 3, global batch size 24, gradient accumulation steps 5, sequence length 512, "
            "total steps 70",
            {
                "micro_batch_size": 3,
                "global_batch_size": 24,
                "gradient_accumulation_steps": 5,
                "sequence_length": 512,
                "max_steps": 70,
            },
            3,
            True,
        ),
        (
            "Trainer: 4096 tokens per DP rank, 8192 tokens per train step",
            {"tokens_per_rank": 4096, "tokens_per_step": 8192},
            3,
            True,
        ),
        ("local batch size 3", {}, 3, False),
        ("nothing", {}, 3, False),
    ],
)
def test_a_line(text, values, weight, own):
    around, found = fed(text)
    assert {name: each.value for name, each in around.stated.items()} == values
    assert {(each.line, each.weight) for each in around.stated.values()} <= {(3, weight)}
    assert found == [own]


@pytest.mark.parametrize(
    ("lines", "values"),
    [
        (
            ['Running with args: {"training": {"seq_len": 512, "steps": 70}}'],
            {"sequence_length": 512, "max_steps": 70},
        ),
        (
            ["Running with configs: {", '  "training": {', '    "seq_len": 512', "  }", "}", "x"],
            {"sequence_length": 512},
        ),
        (
            ["Running with job config: {'training': {'seq_len': 512, 'x': None}}"],
            {"sequence_length": 512},
        ),
        (["Running with args: {", "x"], {}),
        (["Running with args: {x}"], {}),
        (
            ["Running with args: {", "y", 'Running with args: {"training": {"seq_len": 7}}'],
            {"sequence_length": 7},
        ),
    ],
)
def test_a_configuration_of_many_lines(lines, values):
    around, _ = fed(*lines)
    assert {name: each.value for name, each in around.stated.items()} == values
    assert all(
        (each.weight, each.text)
        == (2, f"training.{'seq_len' if 'seq' in name else 'steps'}: {each.value}")
        for name, each in around.stated.items()
    )


@pytest.mark.parametrize(("lines", "closes"), [(4998, True), (4999, True), (5000, False)])
def test_a_configuration_that_does_not_end(lines, closes):
    made, around = setup.Setup(), LogContext()
    made.feed(1, "Running with args: {", around, has_steps=False)
    for number in range(2, lines + 1):
        made.feed(number, "", around, has_steps=False)
    assert (len(made.dump), made._dump_line) == (lines, 1)
    made.feed(9, '"training": {"seq_len": 512}}', around, has_steps=False)
    assert ("sequence_length" in around.stated, made.dump) == (closes, [])


def test_so_many_characters_are_kept_of_one(monkeypatch):
    monkeypatch.setattr(setup, "LONGEST_DUMP", 10)
    around, _ = fed("Running with args: {", '"abcdefg"', 'Running with args: {"a": {}}', "}")
    assert around.stated == {}
    made = setup.Setup()
    made.feed(1, "Running with args: {", LogContext(), has_steps=False)
    made.feed(2, "123456789", LogContext(), has_steps=False)
    assert len(made.dump) == 2
    made.feed(3, "x", LogContext(), has_steps=False)
    assert made.dump == []


def test_how_it_begins_and_ends():
    around, _ = fed("Training completed")
    assert (around.marks, around.begun) == ({"success": 3}, False)
    assert [
        fed(text)[0].begun for text in ("Starting job: x", "Training starts at step 7", "Training")
    ] == [
        True,
        True,
        False,
    ]


OWN = "Model llama3 8B size: 8,030 total parameters"


@pytest.mark.parametrize(
    ("lines", "has_steps", "gpus"),
    [
        ([OWN, "[rank-3/16] Building x"], False, 16),
        (["[rank-3/16] Building x", OWN], False, None),
        ([OWN, "[rank-3/16] Building x"], True, None),
        ([OWN, "[rank-3/16] Starting job: x"], True, 16),
        ([f"[rank-3/16] {OWN}"], False, 16),
        ([OWN, "[rank-3/16] x"], False, None),
    ],
)
def test_ranks_of_its_own_lines(lines, has_steps, gpus):
    assert fed(*lines, has_steps=has_steps)[0].stated.value("num_gpus") == gpus


def completed(**values) -> dict:
    found = stated(**values)
    setup.complete(found)
    return {
        name: (each.value, each.line)
        for name, each in found.items()
        if name not in values or each.value != values[name]
    }


@pytest.mark.parametrize(
    ("values", "added"),
    [
        ({}, {}),
        (
            {"dtype": "float32"},
            {"precision": ("fp32", 1), "precision_detail": ("parameters float32", 1)},
        ),
        (
            {"dtype": "float32", "parameter_type": "bfloat16"},
            {"precision": ("bf16", 2), "precision_detail": ("parameters bfloat16", 2)},
        ),
        (
            {"dtype": "float32", "quantized": "fp8"},
            {"precision": ("fp8", 2), "precision_detail": ("parameters float32", 2)},
        ),
        (
            {"dtype": "float32", "converters": ["float8"]},
            {
                "precision": ("fp8", 2),
                "precision_detail": ("converter float8; parameters float32", 2),
            },
        ),
        ({"device_name": "AMD Instinct MI300X"}, {"software_stack": ("rocm", 1)}),
        ({"device_name": "NVIDIA H100"}, {"software_stack": ("cuda", 1)}),
        ({"device_name": "odd"}, {}),
        ({"model_name": "llama3"}, {"model": ("llama3", 1)}),
        ({"model_flavor": "8B", "model_name": "llama3"}, {"model": ("llama3 8B", 2)}),
        ({"model_flavor": "8B"}, {}),
        ({"model": "mine", "model_name": "llama3"}, {}),
        ({"tokens_per_rank": 4096, "sequence_length": 512}, {"micro_batch_size": (8, 1)}),
        (
            {"tokens_per_rank": 4096, "sequence_length": 512, "pipeline_model_parallel_size": 1},
            {"micro_batch_size": (8, 1)},
        ),
        ({"tokens_per_rank": 4096, "sequence_length": 512, "pipeline_model_parallel_size": 2}, {}),
        ({"tokens_per_rank": 4096, "sequence_length": 500}, {}),
        ({"tokens_per_rank": 4096}, {}),
        ({"sequence_length": 512}, {}),
        ({"tokens_per_rank": 4096, "sequence_length": 512, "micro_batch_size": 3}, {}),
    ],
)
def test_what_follows(values, added):
    assert completed(**values) == added


@pytest.mark.parametrize(
    ("mode", "kept"),
    [("none", True), ("selective", True), ("full", True), ("odd", False), (5, False)],
)
def test_recomputation(mode, kept):
    found = stated(recomputation=mode)
    setup.complete(found)
    assert ("recomputation" in found) is kept


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, (None, None)),
        ({"converters": "mx"}, ("mxfp8", "converter mx, recipe mxfp8; None")),
        (
            {"converters": ["quantize.linear.mx"], "mx_recipe": "mxfp4_cublas", "dtype": "float32"},
            ("mxfp4", "converter quantize.linear.mx, recipe mxfp4_cublas; parameters float32"),
        ),
        (
            {"converters": ("primus_mx", "float8")},
            ("mxfp8", "converter primus_mx, recipe mxfp8; None"),
        ),
        (
            {"converters": ["odd", "quantize.linear.float8"]},
            ("fp8", "converter quantize.linear.float8; None"),
        ),
        ({"converters": ["fp8"]}, ("fp8", "converter fp8; None")),
        ({"converters": ["odd"], "parameter_type": "bfloat16"}, ("bf16", "parameters bfloat16")),
        ({"converters": 7, "quantized": "mxfp8"}, ("mxfp8", None)),
    ],
)
def test_precision(values, expected):
    assert setup.precision(stated(**values)) == expected


def shape(arguments: str, **more):
    return setup.model_config(stated(model_arguments=arguments, parameters=5000, **more))


SOURCE = {"num_parameters": 5000, "source": "the model arguments that the log prints"}
MIXED = ["feed-forward widths ignored: how this model mixes expert and dense layers isn't stated"]
PLAIN = {"num_layers": 6, "num_attention_heads": 16, "num_query_groups": 16}


@pytest.mark.parametrize(
    ("arguments", "more", "expected", "warnings"),
    [
        (
            "Args(dim=256, n_layers=6, n_heads=16, n_kv_heads=8, head_dim=24, hidden_dim=700, vocab_size=2048, dim=9)",
            {},
            {
                "hidden_size": 256,
                "num_layers": 6,
                "num_attention_heads": 16,
                "num_query_groups": 8,
                "head_dim": 24,
                "ffn_hidden_size": 700,
                "vocab_size": 2048,
            },
            [],
        ),
        (
            "{'n_layers': 6, 'n_heads': '16', 'enable_weight_tying': True}",
            {},
            {**PLAIN, "tie_word_embeddings": True},
            [],
        ),
        (
            "Args(n_layers=6, n_heads=16, enable_weight_tying=False, inter_dim=0)",
            {},
            {**PLAIN, "tie_word_embeddings": False},
            [],
        ),
        # Llama's own rule for the width.
        (
            "Args(n_layers=6, n_heads=16, dim=256, multiple_of=64)",
            {"model": "Llama3 x"},
            {**PLAIN, "hidden_size": 256, "ffn_hidden_size": 704},
            [],
        ),
        (
            "Args(n_layers=6, n_heads=16, dim=256, multiple_of=64, ffn_dim_multiplier=1.3)",
            {"model": "llama3 x"},
            {**PLAIN, "hidden_size": 256, "ffn_hidden_size": 896},
            [],
        ),
        (
            "Args(n_layers=6, n_heads=16, dim=256, multiple_of=64)",
            {"model": "qwen"},
            {**PLAIN, "hidden_size": 256},
            [],
        ),
        (
            "Args(n_layers=6, n_heads=16, dim=256)",
            {"model": "llama3 x"},
            {**PLAIN, "hidden_size": 256},
            [],
        ),
        (
            "Args(n_layers=6, n_heads=16, dim=256, multiple_of=64, hidden_dim=5)",
            {"model": "llama3 x"},
            {**PLAIN, "hidden_size": 256, "ffn_hidden_size": 5},
            [],
        ),
        # Experts.
        (
            "Args(n_layers=6, n_heads=16, inter_dim=500, moe_inter_dim=30, num_experts=64, top_k=4, num_shared_experts=2, n_dense_layers=1)",
            {},
            {
                **PLAIN,
                "ffn_hidden_size": 500,
                "num_experts": 64,
                "experts_per_token": 4,
                "expert_ffn_hidden_size": 30,
                "shared_expert_ffn_hidden_size": 60,
                "num_dense_layers": 1,
            },
            [],
        ),
        (
            "Args(n_layers=6, n_heads=16, inter_dim=500, moe_inter_dim=30, num_experts=64, top_k=4)",
            {},
            {
                **PLAIN,
                "ffn_hidden_size": 500,
                "num_experts": 64,
                "experts_per_token": 4,
                "expert_ffn_hidden_size": 30,
                "num_dense_layers": 0,
            },
            [],
        ),
        (
            "Args(n_layers=6, n_heads=16, inter_dim=500, num_experts=64, top_k=4, num_shared_experts=2)",
            {},
            {**PLAIN, "num_experts": 64, "experts_per_token": 4, "num_dense_layers": 0},
            MIXED,
        ),
        (
            "Args(n_layers=6, n_heads=16, inter_dim=500, moe_inter_dim=30, num_experts=64, top_k=4, moe_enabled=False)",
            {},
            {**PLAIN, "ffn_hidden_size": 500},
            [],
        ),
        # Latent attention.
        (
            "Args(n_layers=6, n_heads=16, q_lora_rank=21, kv_lora_rank=22, qk_nope_head_dim=23, qk_rope_head_dim=24, v_head_dim=25, head_dim=9)",
            {},
            {
                "num_layers": 6,
                "num_attention_heads": 16,
                "query_lora_rank": 21,
                "key_value_lora_rank": 22,
                "head_dim": 23,
                "rope_head_dim": 24,
                "value_head_dim": 25,
            },
            [],
        ),
        (
            "Args(n_layers=6, n_heads=16, qk_nope_head_dim=23, qk_rope_head_dim=24, v_head_dim=25, head_dim=9)",
            {},
            {**PLAIN, "head_dim": 9},
            [],
        ),
    ],
)
def test_shape(arguments, more, expected, warnings):
    made, notes = shape(arguments, **more)
    assert (made, sentences_of(notes)) == (ModelConfig(**SOURCE, **expected), warnings)


def test_a_shape_that_is_not_stated():
    assert setup.model_config(stated(parameters=5000)) == (ModelConfig(num_parameters=5000), [])


@pytest.mark.parametrize(
    ("dim", "multiple", "scale", "width"),
    [
        (4096, 1024, "1.3", 14336),
        (256, 64, "None", 704),
        (256, 1, "None", 682),
        (256, 341, "1.0", 682),
        (256, 64, "0", None),
        (256, 64, "1000", None),
        (256, 64, "999", 681_344),
        (256, 64, "x", None),
    ],
)
def test_the_width_of_llama(dim, multiple, scale, width):
    assert setup._llama_width(dim, multiple, scale) == width


UNSET = "log_freq isn't stated (torchtitan's default is 10): each record counts as one step"


@pytest.mark.parametrize(
    ("steps", "interval", "windows", "warnings"),
    [
        ([1, 5, 10], 5, [1, 4, 5], []), ([1, 10, 20, 50], None, [1, 9, 10, 10], []), ([10, 25], None, [5, 5], []),
        ([10], None, [10], []), ([1, 10], None, [1, 9], []), ([1, 2], None, [1, 1], []), ([1, 7], None, [1, 1], [UNSET]),
        ([7], None, [1], [UNSET]), ([1], None, [1], []), ([], None, [], []), ([7], 3, [3], []),
    ],
)  # fmt: skip
def test_windows(steps, interval, windows, warnings):
    found, said = [Record(step, step) for step in steps], []
    reader._set_windows(found, interval, said)
    assert ([each.window for each in found], sentences_of(said)) == (windows, warnings)


LACK = "no step times: torchtitan prints none, and the log lacks {} to compute them from tps; printed rates are in native_metrics"
COMPUTED = (
    "step times computed as batch × sequence length / (tps × GPUs) (8 × 512 / (tps × 4)), to the precision of the printed "
    "tps"
)
FULL = {"global_batch_size": 8, "sequence_length": 512, "num_gpus": 4}


@pytest.mark.parametrize(
    ("rates", "sizes", "tokens", "seconds", "warnings"),
    [
        ([], FULL, 0.0, [], []),
        ([None], FULL, 0.0, [None], ["no step times: the lines have no tps"]),
        ([512.0, None, 300.0], FULL, 7.0, [2.0, None, 3.413333333],
         [COMPUTED, "1,024 tokens per step and GPU and 7 by tps and the time stamps can't both be true"]),
        ([512.0], FULL, 0.0, [2.0], [COMPUTED]),
        ([512.0], FULL, 1024 * 1.25, [2.0], [COMPUTED]),
        ([512.0], {"num_gpus": 4}, 0.0, [None], [LACK.format("the global batch size, the sequence length")]),
        ([512.0], {**FULL, "num_gpus": None}, 0.0, [None], [LACK.format("the number of GPUs")]),
        ([512.0], {**FULL, "sequence_length": None}, 1536.0, [3.0],
         ["step times computed from tps and the time stamps, which show 1,536 tokens per step and GPU: the log lacks the sequence length"]),
    ],
)  # fmt: skip
def test_step_times(rates, sizes, tokens, seconds, warnings):
    found = [
        Record(step, step, native={} if rate is None else {reader.RATE: rate})
        for step, rate in enumerate(rates, 1)
    ]
    assert sentences_of(reader._derive_times(found, TrainingConfig(**sizes), tokens)) == warnings
    assert [each.seconds for each in found] == seconds


def read(*texts: str, whole: bool = True):
    made = reader.Reader()
    for number, text in enumerate(texts, 1):
        made.feed(Line(number, text, whole or number < len(texts)))
    return made


def titan(step: int, at: int, tps: float | str = 512, rest: str = "", loss: float = 5.0) -> str:
    return f"2026-05-11 02:{at // 60:02}:{at % 60:02} - step: {step:2}  loss: {loss}  memory: 1.00GiB(1%)  tps: {tps}  {rest}"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("step: 5 loss: 3.5 memory: 2.00GiB(1%) tps: 1,024 mfu: 5.5% tflops: 7",
         {"loss": 3.5, "native": {"memory_reserved_gb": 2.1475, reader.RATE: 1024.0, "mfu_percent": 5.5, "tflops_per_gpu": 7.0}}),
        ("step: 1,005 global_avg_loss: 3.5 wps: 7 lr: 1e-4 x: 7 y/z: 8 w: a",
         {"step": 1005, "loss": 3.5, "learning_rate": 1e-4, "native": {reader.RATE: 7.0}, "unread": ("x", "y/z")}),
        ("step: 5 loss: -1.0 memory: 0.00GiB tps: 7", {"native": {reader.RATE: 7.0}}),
        ("step: 5 loss: -2.0 memory: 0.01GiB tps: N/A", {"native": {"memory_reserved_gb": 0.0107}}),
        ("step: 5 loss: -0.5 tps: 7 tps: 8", {"loss": -0.5, "native": {reader.RATE: 7.0}}),
        ("step: 5 loss: nan tps: 7", {"not_finite": ("loss",), "native": {reader.RATE: 7.0}}),
        ("step: 5 loss: 3.5 memory: 2.00GiB", {"loss": 3.5, "native": {"memory_reserved_gb": 2.1475}}),
        ("[rank-3/8] [rank-5/8] step: 5 tps: 7", {"origin": "[rank-5/8]", "native": {reader.RATE: 7.0}}),
        ("7: step: 5 tps: 7", {"origin": "7", "native": {reader.RATE: 7.0}}),
        ("[replicagroup-3] step: 5 tps: 7", {"origin": "[replicagroup-3]", "native": {reader.RATE: 7.0}}),
        ("step: 5 loss: 3.5", None), ("step: 5 memory: 2.00GiB", None), ("step: 0 tps: 7", None), ("step: , tps: 7", None),
        ("validate step: 5 tps: 7", None), ("mystep: 5 tps: 7", None),
    ],
)  # fmt: skip
def test_a_step(text, values):
    found = [
        record for training in read(text).sorter.trainings for record in training.records.values()
    ]
    assert found == ([] if values is None else [Record(values.pop("step", 5), 1, **values)])


def test_what_it_hears():
    assert {*setup.SIGNS, "step:", "Args", "Config", " with {"} - {"Building "} <= {
        *reader.Reader().all_signs
    }
    assert "Building " not in reader.Reader().all_signs


def test_gpus_of_the_rank_that_prints():
    (parsed,) = read("[rank-3/16] step: 5 loss: 3.5 tps: 7").finish()
    assert (parsed.stated["num_gpus"].value, parsed.stated["num_gpus"].text) == (16, "[rank-3/16]")


@pytest.mark.parametrize(("gib", "known"), [("0.50", 0.53687), ("0.00", None), ("80.00", 85.899)])
def test_the_memory_of_a_device(gib, known):
    run = read(f"CUDA capacity: NVIDIA H100 with {gib}GiB memory", titan(1, 5)).finish()[0].run()
    assert run.gpu_info.total_memory_gb == (known and pytest.approx(known, rel=1e-4))


@pytest.mark.parametrize(
    ("value", "settings"), [("true", {"torch_compile": True}), ("false", {"torch_compile": False})]
)
def test_whether_it_is_compiled(value, settings):
    run = read(
        f'Running with args: {{"compile": {{"enable": {value}}}, "training": {{"compile": {value}}}}}',
        titan(1, 5),
    )
    assert run.finish()[0].run().framework_config == settings


def test_replica_groups():
    lines = [
        f"[replicagroup-{group}] {titan(step, 5 * step)}" for step in (1, 2) for group in (0, 1)
    ]
    words = [each for each in read(*lines).finish()[0].run().warnings if "replica groups" in each]
    assert words == [
        "2 replica groups of one fault-tolerant run print into this log: values are from the first group to print each step, "
        "and the batch is that of one group"
    ]


SIZED = "Trainer is initialized with local batch size 3, global batch size 24, sequence length 512, total steps 70"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([SIZED, titan(30, 5), "Training completed"], True), ([SIZED, titan(30, 5)], False),
        ([SIZED, titan(70, 5), "Training completed"], False), ([titan(30, 5), "Training completed"], False),
    ],
)  # fmt: skip
def test_the_last_step_that_is_printed(lines, told):
    words = [
        each
        for each in read(*lines).finish()[0].run().warnings
        if each.startswith("the last printed")
    ]
    assert words == (
        ["the last printed step is 30 of 70: torchtitan prints every 10 steps"] if told else []
    )


def test_a_batch_follows_without_a_global_one():
    lines = [
        "arguments training.local_batch_size.... 3",
        "Building device mesh with parallelism: dp_shard=4",
        titan(1, 5),
    ]
    (parsed,) = read(*lines).finish()
    found = parsed.stated["global_batch_size"]
    assert (found.value, found.line, found.weight) == (12, 1, 0)
    run = parsed.run()
    assert run.training_config == TrainingConfig(
        micro_batch_size=3, global_batch_size=12, num_gpus=4
    )
    assert run.parallelism_config.gradient_accumulation_steps == 1
    given = parsed.run({"global_batch_size": 36})
    assert given.parallelism_config.gradient_accumulation_steps == 3


def test_sizes_by_default():
    made = reader.TorchtitanRun("torchtitan", "torchtitan", LoggedTraining(), reader.Reader.timing)
    assert made.sizes({}) == (TrainingConfig(), ParallelismConfig())


@pytest.mark.parametrize(
    ("lines", "tokens"),
    [
        # 1,000 tokens a second: 20 s for 2 steps are 10,000 tokens each.
        ([titan(1, 0, 1000), titan(3, 20, 1000), titan(5, 60, 2000)], [10_000.0, 40_000.0]),
        ([titan(1, 0, 1000), titan(3, 19, 1000)], []),
        ([titan(1, 0, 1000), titan(2, 10, 1000), titan(3, 20, 500)], [20 / (1 / 1000 + 1 / 500)]),
        # An evaluation, a start, or a line without a rate begins again.
        (
            [titan(1, 0, 1000), "validate step: 1", titan(3, 20, 1000), titan(5, 60, 1000)],
            [20_000.0],
        ),
        ([titan(1, 0, 1000), titan(3, 20, "N/A"), titan(5, 60, 1000)], [20_000.0]),
        (
            [titan(1, 0, 1000), "Starting job: x", titan(3, 20, 1000), titan(5, 60, 1000)],
            [20_000.0],
        ),
        ([titan(1, 0, 1000), titan(2, 10, 1000), titan(4, 15, "N/A"), titan(6, 30, 1000)], []),
    ],
)
def test_tokens_from_rates_and_times(lines, tokens):
    (training,) = read(*lines).sorter.finish()
    made = reader.TorchtitanRun("torchtitan", "torchtitan", training, reader.Reader.timing)
    expected = sum(tokens) / len(tokens) if tokens else 0.0
    assert made._tokens(super(reader.TorchtitanRun, made).rows({})) == pytest.approx(expected)


def test_saving_is_no_time_of_steps():
    lines = [SIZED, "Building device mesh with parallelism: dp_shard=8", titan(10, 0, 512), "Finished saving the checkpoint in 10.00 seconds",
             titan(20, 40, 512), titan(30, 70, 512)]  # fmt: skip
    (parsed,) = read(*lines).finish()
    run = parsed.run()
    assert run.step_times == (3.0, 3.0, 3.0)
    (training,) = read(*lines).sorter.finish()
    made = reader.TorchtitanRun("torchtitan", "torchtitan", training, reader.Reader.timing)
    made.series(made.sizes({})[0], [])
    assert [(row.step, row.seconds) for row, *_ in made.rows({})] == [
        (10, 3.0),
        (20, 2.0),
        (30, 3.0),
    ]
