"""Somebody else's result as a setup: what is taken over, what isn't, what can't be matched."""

from __future__ import annotations

import msgspec
import pytest

from tprimat.catalog import models
from tprimat.errors import NotComparableError, UsageError
from tprimat.frameworks import by_name, match
from tprimat.frameworks.loops import recipe
from tprimat.results.run import (
    Data,
    GpuInfo,
    ModelConfig,
    Optimizer,
    ParallelismConfig,
    Run,
    TrainingConfig,
)
from tprimat.store import store

LIGHTNING = by_name("lightning")
OURS = recipe.hyperparameters(models.by_name("llama").shape)
THEIRS = Run(
    platform="nvd",
    framework="nemo",
    model="llama",
    scale="full",
    gpu_info=GpuInfo(device_count=8),
    model_config=models.by_name("llama").shape,
    training_config=TrainingConfig(
        max_steps=500,
        global_batch_size=128,
        micro_batch_size=1,
        sequence_length=2048,
        num_gpus=8,
        precision="bf16",
        recomputation="full",
        seed=7,
    ),
    parallelism_config=ParallelismConfig(
        tensor_model_parallel_size=4, pipeline_model_parallel_size=1
    ),
    optimizer=Optimizer(name="adamw", learning_rate=3e-4, weight_decay=0.1),
    data=Data(kind="mock"),
)


def changed(**groups):
    """THEIRS with fields of its groups replaced."""
    return msgspec.structs.replace(
        THEIRS,
        **{
            name: msgspec.structs.replace(getattr(THEIRS, name), **fields)
            for name, fields in groups.items()
        },
    )


def test_the_setup_is_taken_over():
    model, requested = match.requested_config(THEIRS, "x.json", LIGHTNING)
    assert model == "llama"
    assert requested.shape == THEIRS.model_config
    assert (requested.global_batch_size, requested.micro_batch_size, requested.sequence_length) == (
        128,
        1,
        2048,
    )
    assert (requested.precision, requested.seed, requested.steps) == ("bf16", 7, 500)
    assert requested.num_gpus is None


def test_an_eager_training_is_matched_by_one():
    eager = msgspec.structs.replace(THEIRS, framework_config={"torch_compile": False})
    assert match.requested_config(eager, "x.json", LIGHTNING)[1].eager
    assert match.requested_config(THEIRS, "x.json", LIGHTNING)[1].eager is None


@pytest.mark.parametrize(
    ("name", "recomputation", "taken", "said"),
    [
        ("lightning", "full", "full", None),
        ("lightning", "none", "none", None),
        ("fsdp", "selective", None, "recomputation of activations: selective there, none here"),
        ("automodel", "none", None, "recomputation of activations: none there, full here"),
        ("automodel", "full", None, None),
        ("megatron", "full", None, "recomputation of activations: full there, none here"),
        ("megatron", "none", None, None),
        ("nemo", "full", None, None),
        ("lightning", None, None, None),
    ],
)
def test_recomputation_is_matched_where_a_framework_can(name, recomputation, taken, said):
    run, framework = changed(training_config={"recomputation": recomputation}), by_name(name)
    assert match.requested_config(run, "x.json", framework)[1].recomputation == taken
    notes = [note for note in match.differences(run, framework, 8) if "recomputation" in note]
    assert notes == ([said] if said else [])


def test_attention_is_matched_where_a_framework_can():
    run = msgspec.structs.replace(THEIRS, framework_config={"attention": "eager"})
    assert match.requested_config(run, "x.json", LIGHTNING)[1].attention == "eager"
    assert match.requested_config(run, "x.json", by_name("automodel"))[1].attention is None
    assert "eager attention there: automodel's own is kept" in match.differences(
        run, by_name("automodel"), 8
    )
    own = msgspec.structs.replace(THEIRS, framework_config={"attention": "flash_attention_2"})
    assert match.requested_config(own, "x.json", LIGHTNING)[1].attention is None
    assert "flash_attention_2 attention there: lightning's own is kept" in match.differences(
        own, LIGHTNING, 8
    )


@pytest.mark.parametrize(
    ("name", "differs"), [("transformers", True), ("megatron", True), ("nemo", False)]
)
def test_the_optimizer_is_compared_with_the_one_that_trains_here(name, differs):
    run = changed(optimizer={"name": "adam"})
    said = [
        note for note in match.differences(run, by_name(name), 8) if note.startswith("optimizer")
    ]
    assert said == (["optimizer: learning rate 0.0003 there, 0.000125 here"] if differs else [])


def test_how_the_model_is_divided_is_matched_where_a_framework_can():
    assert match.requested_config(THEIRS, "x.json", LIGHTNING)[1].tensor_model_parallel_size is None
    _, requested = match.requested_config(THEIRS, "x.json", by_name("nemo"))
    assert (requested.tensor_model_parallel_size, requested.context_parallel_size) == (4, None)
    assert any(
        "its context, expert parallelism" in note
        for note in match.differences(THEIRS, by_name("nemo"), 8)
    )


def test_the_model_is_known_by_its_shape_or_by_another_tools_name():
    for name in ("my experiment", "meta-llama-3.1-8B-pretrain", None):
        assert (
            match.requested_config(
                msgspec.structs.replace(THEIRS, model=name), "x.json", LIGHTNING
            )[0]
            == "llama"
        )


def test_what_cannot_be_taken_over_is_said():
    said = "; ".join(match.differences(THEIRS, LIGHTNING, 1))
    assert "trained with nemo, and here with lightning" in said
    assert "8 processes in the result, 1 here; the global batch is unchanged" in said
    assert "tensor parallelism of 4" in said
    assert "pipeline" not in said
    # Lightning recomputes as the result did.
    assert "recomputation" not in said
    assert "learning rate 0.0003 there, 0.000125 here" in said
    assert "weight decay" not in said
    assert "name" not in said  # adamw is AdamW
    assert "trained on mock, and here on markov tokens" in said


def test_a_negative_seed_is_not_taken_over():
    negative = changed(training_config={"seed": -3})
    assert match.requested_config(negative, "x.json", LIGHTNING)[1].seed is None
    assert "seed -3 there" in "; ".join(match.differences(negative, LIGHTNING, 8))


def test_the_same_setup_has_nothing_to_say():
    ours = changed(
        training_config={"recomputation": "none", "num_gpus": 1},
        parallelism_config={"tensor_model_parallel_size": 1},
    )
    ours = msgspec.structs.replace(
        ours, framework="lightning", optimizer=OURS, data=Data(kind="markov")
    )
    assert list(match.differences(ours, LIGHTNING, 1)) == []


class TestRefused:
    @pytest.mark.parametrize(
        ("groups", "words"),
        [
            (
                {"model_config": {"num_layers": None, "vocab_size": None}},
                (
                    "it lacks num_layers, vocab_size: set --model, --scale, --global-batch-size and"
                    " --sequence-length instead of --match"
                ),
            ),
            ({"training_config": {"global_batch_size": None}}, "it lacks global_batch_size"),
            ({"training_config": {"sequence_length": None}}, "it lacks sequence_length"),
            ({"model_config": {"num_experts": 8}}, "a mixture of experts"),
            ({"model_config": {"gated_ffn": False}}, "without gate"),
            ({"model_config": {"sliding_window": 1024}}, "a window of 1024 tokens"),
        ],
    )
    def test_in_one_line_with_the_file(self, groups, words):
        with pytest.raises(NotComparableError) as refused:
            match.requested_config(changed(**groups), "x.json", LIGHTNING)
        assert refused.value.message.startswith("x.json: cannot be matched")
        assert words in refused.value.message

    def test_a_window_longer_than_the_sequence_is_no_window(self):
        assert (
            match.requested_config(
                changed(model_config={"sliding_window": 4096}), "x.json", LIGHTNING
            )[0]
            == "llama"
        )

    def test_a_model_that_is_none_of_ours(self):
        run = msgspec.structs.replace(
            changed(model_config={"vocab_size": 50257, "num_layers": 12}), model="gpt2"
        )
        with pytest.raises(NotComparableError, match="gpt2 is not one of llama, qwen, mistral"):
            match.requested_config(run, "x.json", LIGHTNING)

    @pytest.mark.parametrize(
        ("precision", "words"), [("fp8", "ran in fp8"), (None, "states no precision")]
    )
    def test_a_precision_that_cannot_be_had(self, precision, words):
        with pytest.raises(UsageError, match=words):
            match.check_precision(
                changed(training_config={"precision": precision}), "x.json", LIGHTNING
            )
        match.check_precision(THEIRS, "x.json", LIGHTNING)

    def test_real_results_without_a_shape(self, samples):
        found, _ = store.find([samples / "results"])
        without = [
            (each.name, run)
            for each in found
            for run in each.runs
            if run.model_config == ModelConfig()
        ]
        assert without
        for path, run in without:
            with pytest.raises(NotComparableError, match="num_layers"):
                match.requested_config(run, path, LIGHTNING)


def test_primus_divides_as_the_result_was():
    primus = by_name("primus")
    _, requested = match.requested_config(THEIRS, "a.json", primus)
    assert (requested.tensor_model_parallel_size, requested.context_parallel_size) == (4, None)
    assert not any("data parallelism only" in note for note in match.differences(THEIRS, primus, 8))
