"""What makes a Run of records and statements: sizes, shape, model, optimizer, what stays
unknown.
"""

from __future__ import annotations

import datetime

import pytest
from stored_runs import notes_of, sentences_of

from tprimat.notes import Note
from tprimat.notes.catalogue import note_of
from tprimat.read.parsing import run_builder
from tprimat.read.parsing.events import Mark
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.run_builder import RunBuilder, timer
from tprimat.read.parsing.text import Stamp
from tprimat.read.parsing.values import LoggedValues, state
from tprimat.results.account import Entry, Timing
from tprimat.results.ending import Ending
from tprimat.results.fields import LARGEST_VALUE, LONGEST_STEP
from tprimat.results.outcome import outcome_of
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


def stated(**values) -> LoggedValues:
    made = LoggedValues()
    for name, value in values.items():
        state(made, name, value)
    return made


SIZES = {"num_gpus": 16, "sequence_length": 512}


@pytest.mark.parametrize(
    ("values", "given", "training", "parallelism"),
    [
        ({}, {}, {}, {}),
        (
            {**SIZES, "global_batch_size": 96, "micro_batch_size": 2, "max_steps": 70, "precision": "fp8", "seed": 5,
             "precision_detail": "x", "recomputation": "full", "packing": True, "strategy_name": "ddp"},
            {},
            {**SIZES, "global_batch_size": 96, "micro_batch_size": 2, "max_steps": 70, "precision": "fp8", "seed": 5,
             "precision_detail": "x", "recomputation": "full", "packing": True},
            {"strategy_name": "ddp"},
        ),
        # Replicas are the GPUs that share no layer; each parallelism alone tells that it was
        # stated.
        ({**SIZES, "tensor_model_parallel_size": 4}, {}, SIZES,
         {"tensor_model_parallel_size": 4, "data_parallel_size": 4}),
        ({**SIZES, "pipeline_model_parallel_size": 2}, {}, SIZES,
         {"pipeline_model_parallel_size": 2, "data_parallel_size": 8}),
        ({**SIZES, "context_parallel_size": 8, "tensor_model_parallel_size": 2}, {}, SIZES,
         {"context_parallel_size": 8, "tensor_model_parallel_size": 2, "data_parallel_size": 1}),
        ({**SIZES, "expert_model_parallel_size": 4}, {}, SIZES, {"expert_model_parallel_size": 4}),
        ({**SIZES, "only_data_parallel": True}, {}, SIZES, {"data_parallel_size": 16}),
        ({**SIZES, "only_data_parallel": 1}, {}, SIZES, {}),
        ({**SIZES, "tensor_model_parallel_size": 3}, {}, SIZES, {"tensor_model_parallel_size": 3}),
        ({**SIZES, "tensor_model_parallel_size": 4, "data_parallel_size": 2}, {}, SIZES,
         {"tensor_model_parallel_size": 4, "data_parallel_size": 2}),
        ({"tensor_model_parallel_size": 4}, {}, {}, {"tensor_model_parallel_size": 4}),
        # The batch from tokens, or micro-batches, replicas and accumulation.
        ({**SIZES, "tokens_per_step": 5120}, {}, {**SIZES, "global_batch_size": 10}, {}),
        ({**SIZES, "tokens_per_step": 5121}, {}, SIZES, {}),
        ({"tokens_per_step": 5120}, {}, {}, {}),
        ({**SIZES, "tokens_per_step": 5120, "global_batch_size": 7}, {}, {**SIZES, "global_batch_size": 7}, {}),
        ({"micro_batch_size": 3, "data_parallel_size": 4, "gradient_accumulation_steps": 5}, {},
         {"micro_batch_size": 3, "global_batch_size": 60}, {"data_parallel_size": 4, "gradient_accumulation_steps": 5}),
        ({"data_parallel_size": 4, "gradient_accumulation_steps": 5}, {}, {},
         {"data_parallel_size": 4, "gradient_accumulation_steps": 5}),
        ({"micro_batch_size": 3, "gradient_accumulation_steps": 5}, {}, {"micro_batch_size": 3},
         {"gradient_accumulation_steps": 5}),
        ({"micro_batch_size": 3, "data_parallel_size": 4}, {}, {"micro_batch_size": 3}, {"data_parallel_size": 4}),
        # Accumulation from the batch.
        ({"micro_batch_size": 3, "data_parallel_size": 4, "global_batch_size": 60}, {},
         {"micro_batch_size": 3, "global_batch_size": 60}, {"data_parallel_size": 4, "gradient_accumulation_steps": 5}),
        ({"micro_batch_size": 3, "data_parallel_size": 4, "global_batch_size": 62}, {},
         {"micro_batch_size": 3, "global_batch_size": 62}, {"data_parallel_size": 4}),
        ({"micro_batch_size": 3, "data_parallel_size": 4, "global_batch_size": 60, "gradient_accumulation_steps": 9},
         {},
         {"micro_batch_size": 3, "global_batch_size": 60}, {"data_parallel_size": 4, "gradient_accumulation_steps": 9}),
        # What the user gives goes before it.
        ({**SIZES, "global_batch_size": 96}, {"num_gpus": 8, "sequence_length": 256, "global_batch_size": 12},
         {"num_gpus": 8, "sequence_length": 256, "global_batch_size": 12}, {}),
        ({"packing": "yes", "seed": "5", "precision": 8}, {}, {}, {}),
        ({"seed": True}, {}, {}, {}),
        ({"seed": 2**63 - 1, "packing": False}, {}, {"seed": 2**63 - 1, "packing": False}, {}),
        ({"seed": 2**63}, {}, {}, {}),
        ({"seed": -(2**63)}, {}, {}, {}),
    ],
)  # fmt: skip
def test_sizes(values, given, training, parallelism):
    found = run_builder.sizes_of(stated(**values), given)
    assert found == (TrainingConfig(**training), ParallelismConfig(**parallelism))


PARTS = {"micro_batch_size": 4, "gradient_accumulation_steps": 2, "data_parallel_size": 8}


@pytest.mark.parametrize(
    ("values", "given", "contradiction"),
    [
        ({**PARTS, "global_batch_size": 64}, {}, None),
        ({**PARTS, "global_batch_size": 64}, {"global_batch_size": 64}, None),
        (
            {**PARTS, "global_batch_size": 64},
            {"global_batch_size": 128},
            (
                "global batch size 128 and micro batch size 4 × gradient accumulation steps 2 ×"
                " data parallel size 8"
            ),
        ),
        ({"micro_batch_size": 6}, {"global_batch_size": 66}, None),
        (
            {"micro_batch_size": 6},
            {"global_batch_size": 64},
            "global batch size 64 and micro batch size 6",
        ),
        ({"data_parallel_size": 5, "tensor_model_parallel_size": 2}, {"num_gpus": 20}, None),
        (
            {"data_parallel_size": 5, "tensor_model_parallel_size": 2},
            {"num_gpus": 8},
            "number of GPUs 8 and data parallel size 5 × tensor model parallel size 2",
        ),
        (
            {
                f"{kind}_parallel_size": 2
                for kind in ("data", "tensor_model", "pipeline_model", "context")
            },
            {"num_gpus": 32},
            (
                "number of GPUs 32 and data parallel size 2 × tensor model parallel size 2 ×"
                " pipeline model parallel size 2 × context parallel size 2"
            ),
        ),
        ({"tokens_per_step": 4096}, {"global_batch_size": 4, "sequence_length": 1024}, None),
        # The batch follows from the length alone.
        ({"tokens_per_step": 4096}, {"sequence_length": 1024}, None),
        (
            {"tokens_per_step": 4096},
            {"global_batch_size": 8, "sequence_length": 1024},
            "tokens per step 4096 and global batch size 8 × sequence length 1024",
        ),
    ],
)
def test_a_size_that_is_not_the_product_of_its_parts(values, given, contradiction):
    warnings = build(training(**values), given).warnings
    assert [each for each in warnings if each.endswith(" can't both be true")] == (
        [f"{contradiction} can't both be true"] if contradiction else []
    )


def test_sizes_without_inference():
    values = stated(num_gpus=16, tensor_model_parallel_size=4)
    assert run_builder.sizes_of(values, {}, infer=False)[1] == ParallelismConfig(
        tensor_model_parallel_size=4
    )


def test_shape():
    counts = dict.fromkeys(run_builder._SHAPE_COUNTS) | {
        name: number for number, name in enumerate(run_builder._SHAPE_COUNTS, 7)
    }
    switches = {"tie_word_embeddings": False, "gated_ffn": True}
    assert run_builder.shape_of(stated(**counts, **switches)) == ModelConfig(
        **counts, **switches, source="the log"
    )
    assert run_builder.shape_of(stated(num_layers="x", gated_ffn=1)) == ModelConfig()
    assert run_builder.shape_of(stated(gated_ffn=False)) == ModelConfig(
        gated_ffn=False, source="the log"
    )


def test_optimizer():
    numbers = {
        "beta1": 0.9,
        "beta2": 0.95,
        "epsilon": 1e-8,
        "weight_decay": 0.1,
        "gradient_clipping": 2.0,
    }
    values = stated(optimizer="adam", schedule="cosine", peak_learning_rate=0.25, **numbers)
    assert run_builder.optimizer_of(values) == Optimizer(
        name="adam", learning_rate=0.25, schedule="cosine", **numbers
    )
    assert run_builder.optimizer_of(stated(peak_learning_rate=0.0)) == Optimizer(learning_rate=0.0)
    assert run_builder.optimizer_of(stated(peak_learning_rate=-0.5)) == Optimizer()


@pytest.mark.parametrize(
    ("values", "platform"),
    [
        ({}, None), ({"platform": "amd", "device_name": "NVIDIA H100"}, "amd"), ({"platform": "odd"}, None),
        ({"device_name": "NVIDIA H100 80GB HBM3"}, "nvd"), ({"device_name": "AMD Instinct MI300X"}, "amd"),
        ({"device_name": "abacus"}, None),
    ],
)  # fmt: skip
def test_platform(values, platform):
    assert run_builder.platform_of(stated(**values)) == platform


LLAMA = ModelConfig(
    num_layers=32, hidden_size=4096, num_attention_heads=32, num_query_groups=8, ffn_hidden_size=14336,
    vocab_size=128256, tie_word_embeddings=False, gated_ffn=True,
)  # fmt: skip
UNNAMED = "the log doesn't name its model: --model-name sets it"


@pytest.mark.parametrize(
    ("config", "name", "expected"),
    [
        (LLAMA, None, ("llama", "full", [])),
        (LLAMA, "anything", ("llama", "full", [])),
        (ModelConfig(), None, (None, None, [UNNAMED])),
        (ModelConfig(num_layers=4), "odd thing", ("odd thing", None, [])),
        (ModelConfig(hidden_size=4096), "llama3.1-8b",
         ("llama", None, ["the model's shape isn't stated; llama3.1-8b is the name of its configuration"])),
        (ModelConfig(num_layers=4, hidden_size=64), "llama3.1-8b",
         ("llama3.1-8b", None, ["the configuration is named llama3.1-8b, but the model is not Llama 3.1 8B: "
                                "num_layers 4, not 32, hidden_size 64, not 4096"])),
        (ModelConfig(num_layers=32), "llama3.1-8b",
         ("llama3.1-8b", None, ["the configuration is named llama3.1-8b, but the model is not Llama 3.1 8B: "
                                "its shape is stated only in part"])),
    ],
)  # fmt: skip
def test_model(config, name, expected):
    model, scale, doubts = run_builder.known_model(config, name)
    assert (model, scale, sentences_of(doubts)) == expected


def training(steps: int = 3, *, first: int = 1, stamped: bool = True, **values) -> LoggedTraining:
    made = LoggedTraining()
    for step in range(first, first + steps):
        time = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.timezone.utc) + datetime.timedelta(
            seconds=2 * step
        )
        made.records[step] = made.last = Record(
            step, 10 * step, seconds=2.0, loss=5.0 - step / 8, window=1, stamp=Stamp(time, 1e-3) if stamped else None,
        )  # fmt: skip
    for name, value in values.items():
        state(made.around.stated, name, value)
    if stamped:
        made.around.first_stamp = made.records[first].stamp
    return made


def test_a_whole_run():
    made = training(
        num_gpus=4, global_batch_size=8, sequence_length=16, max_steps=3, device_name="NVIDIA H100 80GB HBM3",
        software_stack="cuda", software_version="12.4", pytorch_version="2.6", hostname="a", model="mine",
        optimizer="adam", data="mock", num_layers=7, strategy_name="ddp",
    )  # fmt: skip
    # A step has 128 tokens: 16 a second and GPU.
    for record, rate in zip(made.records.values(), (16.0, 16.1, 20.0), strict=True):
        record.native["tokens_per_second_per_gpu"] = rate
    timing = timer(clock="c", covers="d")
    builder = RunBuilder(
        "nemo", "nemo (x)", made, timing,
        figures={"total": 5.0, "none": None, "odd": LARGEST_VALUE * 2, "same": -LARGEST_VALUE},
        memory={
            "peak_memory_allocated_gb": 40.0, "peak_memory_reserved_gb": -1.0, "avg_memory_allocated_gb": float("inf"),
        },
        gpu={"total_memory_gb": 80.5}, breakdown={"forward": 0.5, "odd": float("nan")}, versions={"nemo": "2.5"},
        settings={"switch": True}, label="side", left_out=[*notes_of("left")], remarks=[*notes_of("last", "left")],
        unknown=unknown_of(num_gpus="a", energy="energy unknown"),
    )  # fmt: skip
    off = {"off": 1, "count": 3, "percent": 25.0, "step": 3}
    rates = Note("rates-disagree", {**off, "batch": 8, "length": 16, "gpus": 4})
    assert builder.run({}) == Run(
        status="complete",
        ending=Ending(kind="finished"),
        platform="nvd",
        framework="nemo",
        model="mine",
        label="side",
        timestamp="2026-03-01T12:00:02+00:00",
        notes=(*notes_of("left"), rates, *notes_of("energy unknown", "last")),
        source=Source(kind="log", dialect="nemo (x)"),
        gpu_info=GpuInfo(
            device_name="NVIDIA H100 80GB HBM3", device_count=4, software_stack="cuda", software_version="12.4",
            pytorch_version="2.6", total_memory_gb=80.5,
        ),
        environment=Environment(versions={"nemo": "2.5"}, hostname="a"),
        model_config=ModelConfig(num_layers=7, source="the log"),
        training_config=TrainingConfig(num_gpus=4, global_batch_size=8, sequence_length=16, max_steps=3),
        parallelism_config=ParallelismConfig(strategy_name="ddp"),
        optimizer=Optimizer(name="adam"),
        data=Data(kind="mock"),
        timing=timing,
        framework_config={"switch": True},
        memory_metrics=MemoryMetrics(peak_memory_allocated_gb=40.0),
        breakdown={"forward": 0.5, "odd": None},
        timeline=(Entry(kind="training", start=0.0, duration=6.0, first_step=1, last_step=3, line=10),),
        steps=(1, 2, 3),
        window_steps=(1, 1, 1),
        step_times=(2.0, 2.0, 2.0),
        loss_values=(4.875, 4.75, 4.625),
        learning_rates=(None,) * 3,
        grad_norms=(None,) * 3,
        lines=(10, 20, 30),
        native_metrics={
            "total": 5.0, "none": None, "odd": None, "same": -LARGEST_VALUE,
            "tokens_per_second_per_gpu": (16.0, 16.1, 20.0),
        },
    )  # fmt: skip
    assert timing == Timing(clock="c", covers="d", kind="timer", over_ranks="rank 0")


def build(made: LoggedTraining, given: dict | None = None, **fields) -> Run:
    return RunBuilder("nemo", "nemo", made, **{"timing": timer(), "rate": None, **fields}).run(
        given or {}
    )


GPU = "the source doesn't state the GPU's name"
ALL = "global batch size, sequence length and number of GPUs unknown: the source doesn't state them"


def unknown_of(**texts: str) -> dict[str, Note]:
    return {name: note_of(text) for name, text in texts.items()}


@pytest.mark.parametrize(
    ("values", "fields", "warnings"),
    [
        ({}, {}, (UNNAMED, ALL, GPU)),
        ({"num_gpus": 8}, {},
         (UNNAMED, "global batch size and sequence length unknown: the source doesn't state them", GPU)),
        ({"num_gpus": 8, "global_batch_size": 7, "device_name": "x", "model": "m"}, {},
         ("sequence length unknown: the source doesn't state it",)),
        ({}, {"of_training": False}, (GPU,)),
        ({}, {"unknown": unknown_of(num_gpus="why", odd="too", step_times="not")},
         (UNNAMED, "why", "global batch size and sequence length unknown: the source doesn't state them", GPU, "too")),
        ({"model": "m"}, {"unknown": unknown_of(sequence_length="a", num_gpus="b", global_batch_size="c")},
         ("c", "a", "b", GPU)),
        ({}, {"shift": 1}, ("step numbers shifted by one: the source counts from 0", UNNAMED, ALL, GPU)),
        ({"device_name": "CUDA error: out of memory"}, {},
         (UNNAMED, "in the place of the GPU's name the source has an error text: CUDA error: out of memory", ALL, GPU)),
    ],
)  # fmt: skip
def test_warnings(values, fields, warnings):
    assert build(training(**values, max_steps=3), **fields).warnings == warnings


@pytest.mark.parametrize(
    ("unknown", "words"),
    [({}, "no step times in the source"), (unknown_of(step_times="not printed"), "not printed")],
)
def test_without_step_times(unknown, words):
    made = training()
    for record in made.records.values():
        record.seconds = None
    assert build(made, unknown=unknown).warnings == (UNNAMED, words, ALL, GPU)
    made.records[2].seconds = 2.0
    assert words not in build(made, unknown=unknown).warnings


@pytest.mark.parametrize(
    ("given", "stated_model", "fields", "model"),
    [
        ({}, "mine", {}, ("mine", None)),
        ({"model": "given"}, "mine", {}, ("given", None)),
        ({"model": "given"}, "mine", {"of_training": False}, ("given", None)),
        ({}, "mine", {"of_training": False}, (None, None)),
        ({}, "mine", {"shape": LLAMA}, ("llama", "full")),
        ({"model": "llama"}, "mine", {"shape": LLAMA}, ("llama", "full")),
        ({"model": "other", "scale": "small"}, "mine", {"shape": LLAMA}, ("other", "full")),
    ],
)
def test_the_models_name(given, stated_model, fields, model):
    run = build(training(model=stated_model), given, **fields)
    assert (run.model, run.scale) == model
    assert UNNAMED not in run.warnings


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (
            {},
            (
                "incomplete",
                "log ends at step 3 of 4 without an error (killed, still running, or truncated)",
            ),
        ),
        ({"shift": 1}, ("complete", None)),
        ({"ended": True}, ("complete", None)),
        (
            {"ended": False},
            (
                "incomplete",
                "log ends at step 3 of 4 without an error (killed, still running, or truncated)",
            ),
        ),
        ({"ended": True, "fixed": outcome_of(Ending(kind="failed"), "fixed")}, ("failed", "fixed")),
    ],
)
def test_status(fields, status):
    run = build(training(max_steps=4), **fields)
    assert (run.status, run.status_reason) == status


@pytest.mark.parametrize(
    ("stamped", "fields", "began", "warned"),
    [
        (True, {}, "2026-03-01T12:00:02+00:00", False),
        (False, {}, None, True),
        (False, {"of_training": False}, None, False),
        (True, {"timestamp": "2026-03-02T12:00:02+00:00"}, "2026-03-02T12:00:02+00:00", False),
    ],
)
def test_when_it_began(stamped, fields, began, warned):
    run = build(training(stamped=stamped), **fields)
    assert run.timestamp == began
    assert ("timestamp unknown: the source has no time of day" in run.warnings) is warned


def test_a_source_without_lines():
    made = training(2)
    made.lost = [Record(2, 15, seconds=2.0)]
    assert build(made, lines=False).lines == (None, None)
    assert [row.line for row, *_ in RunBuilder("a", "a", made, timer(), lines=False).rows({})] == [
        10,
        20,
    ]
    assert [row.line for row, *_ in RunBuilder("a", "a", made, timer()).rows({})] == [10, 15, 20]


def times(record: Record, **fields):
    made = LoggedTraining({record.step: record})
    ((row, clock, resolution),) = RunBuilder(
        "a", "a", made, fields.pop("timing", timer()), **fields
    ).rows({})
    return (tuple(row), clock, resolution)


NOON = Stamp(datetime.datetime(2026, 3, 1, 12), 0.5)


@pytest.mark.parametrize(
    ("values", "fields", "expected"),
    [
        ({}, {}, ((4, 7, 0.0, 2.0, 3, None), None, 0.0)),
        ({}, {"shift": 1}, ((5, 7, 0.0, 2.0, 3, None), None, 0.0)),
        ({}, {"timing": Timing(kind="stamps")}, ((4, 7, 0.0, None, None, None), None, 0.0)),
        ({}, {"timing": Timing(kind="sampled")}, ((4, 7, 0.0, 2.0, None, None), None, 0.0)),
        ({"stamp": NOON}, {}, ((4, 7, 1772366400.0, 2.0, 3, None), False, 0.5)),
        ({"stamp": Stamp(NOON.time.replace(tzinfo=datetime.timezone.utc), 0.25)}, {},
         ((4, 7, 1772366400.0, 2.0, 3, None), True, 0.25)),
        ({"native": {"elapsed_seconds": 9.0}}, {}, ((4, 7, 9.0, 2.0, 3, None), "elapsed", 1.0)),
        ({"native": {"cumulative_train_seconds": 9.5}}, {}, ((4, 7, 9.5, 2.0, 3, None), "elapsed", 1e-3)),
        ({"native": {"elapsed_seconds": 8.0, "cumulative_train_seconds": 9.5}}, {},
         ((4, 7, 8.0, 2.0, 3, None), "elapsed", 1.0)),
        ({"stamp": NOON, "native": {"elapsed_seconds": 8.0}}, {}, ((4, 7, 1772366400.0, 2.0, 3, None), False, 0.5)),
    ],
)  # fmt: skip
def test_times_of_records(values, fields, expected):
    assert times(Record(4, 7, seconds=2.0, window=3, **values), **fields) == expected


def test_a_restart_says_what_it_cost_first():
    made = training()
    made.lost = [Record(3, 25, seconds=2.0, stamp=made.records[3].stamp)]
    late = Stamp(made.records[3].stamp.time + datetime.timedelta(seconds=90), 1e-3)
    made.records[3].stamp, made.again = late, [30]
    run = build(made)
    assert run.warnings[0] == "lost: 1 min 30 s (1 min 28 s down after step 3, 1 step done twice)"
    assert [entry.kind for entry in run.timeline] == ["training", "lost", "lost", "training"]


@pytest.mark.parametrize(
    ("hours", "is_known"), [(LONGEST_STEP / 3600 - 1, True), (LONGEST_STEP / 3600 + 1, False)]
)
def test_broken_times_make_no_timeline(hours, is_known):
    made = training(8)
    made.records[8].stamp = Stamp(
        made.records[8].stamp.time + datetime.timedelta(hours=hours), 1e-3
    )
    assert bool(build(made).timeline) is is_known


def test_a_clock_that_was_put_back_makes_no_timeline():
    made = training()
    for record, seconds in zip(made.records.values(), (100, 102, 0), strict=True):
        record.stamp = Stamp(NOON.time + datetime.timedelta(seconds=seconds), 1e-3)
    run = build(made)
    assert run.timeline == ()
    words = "account unknown: times in the log go back by 1 min 42 s, and it states no time zone"
    assert words in run.warnings


def test_what_a_reader_hands_over():
    made = training(num_gpus=8)
    made.doubles = 2
    made.around.events.marks = [
        Mark("checkpoint", "", 3, None, None, 5),
        Mark("resume", "", 4, None, None, 7),
        Mark("resume", "", 5, None, None, 9),
    ]
    made.around.events.first = (5.0, True)
    parsed = RunBuilder("a", "a", made, timer(), notes=("mine",)).reading()
    assert (parsed.steps, parsed.notes, parsed.resumed, parsed.began) == (
        3, ("mine", "2 repeated step lines skipped"), 7, (5.0, True),
    )  # fmt: skip
    assert {name: each.value for name, each in parsed.stated.items()} == {"num_gpus": 8}
    assert parsed.run() == parsed.run({}) == RunBuilder("a", "a", made, timer()).run({})
    made.around.events.marks = [Mark("resume", "", 4, None, None, 0)]
    assert RunBuilder("a", "a", made, timer()).reading().resumed is None
