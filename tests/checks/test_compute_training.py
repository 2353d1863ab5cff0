"""The ledger of what costs time, and whether two runs are the same training."""

from __future__ import annotations

import math

import msgspec
import pytest
from stored_runs import series

from tprimat.checks import compute, settings, training
from tprimat.results.run import Data, Environment, ModelConfig, ParallelismConfig, Run, TrainingConfig
from tprimat.store import store

SHAPE = ModelConfig(num_layers=2, hidden_size=64, num_attention_heads=4, ffn_hidden_size=128, vocab_size=1024)


def run_of(losses, *, rates=None, **fields):
    known = {"loss_values": tuple(losses), **({} if rates is None else {"learning_rates": tuple(rates)})}
    return Run(
        **{
            **series((1.0,) * len(losses), **known),
            "model_config": SHAPE,
            "training_config": TrainingConfig(global_batch_size=8, sequence_length=128, num_gpus=1, precision="bf16"),
            **fields,
        }
    )


@pytest.fixture
def february(samples):
    names = ("amd_prim_llama", "nvd_nemo_llama", "amd_prim_qwen", "nvd_nemo_qwen")
    return {name: store.read(samples / "results" / f"train_{name}-516b342.json")[0] for name in names}


@pytest.mark.parametrize(("model", "share"), [("llama", 0.002), ("qwen", 0.040)])
def test_february_pairs_are_not_the_same_training(february, model, share):
    verdict = training.same_training(february[f"amd_prim_{model}"], february[f"nvd_nemo_{model}"])
    assert verdict.same is False
    assert verdict.agreeing_steps == pytest.approx(share, abs=0.0005)
    assert any("first losses" in reason for reason in verdict.reasons)
    assert any("learning rates differ" in reason for reason in verdict.reasons)


def test_february_pairs_may_be_compared_in_speed(february):
    ledger = compute.config_diff(february["amd_prim_llama"], february["nvd_nemo_llama"])
    assert ledger.verdict == "best configuration"
    assert {entry.title for entry in ledger.of("different")} >= {"step timer scope", "torch"}
    assert {entry.title for entry in ledger.of("unknown")} >= {"precision", "activation recomputation"}
    assert {entry.title for entry in ledger.of("equal")} >= {"global batch", "sequence length", "micro-batch"}


def test_identical_mode_refuses_a_difference(february):
    ledger = compute.config_diff(february["amd_prim_llama"], february["nvd_nemo_llama"], mode="same")
    assert ledger.verdict == "not comparable"
    assert ledger.entries[0].status == "blocking"


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("model_config", {"num_layers": 3}),
        ("training_config", {"sequence_length": 256}),
    ],
)
def test_other_work_per_token_is_not_comparable(field, change):
    first = run_of([7.0] * 3)
    second = msgspec.structs.replace(first, **{field: msgspec.structs.replace(getattr(first, field), **change)})
    assert compute.config_diff(first, second).verdict == "not comparable"


def test_padded_vocabulary_is_the_same_shape():
    first = run_of([7.0] * 3)
    padded = msgspec.structs.replace(SHAPE, vocab_size=1000)
    second = msgspec.structs.replace(first, model_config=padded)
    assert compute.config_diff(first, second).verdict != "not comparable"


@pytest.mark.parametrize(
    ("change", "conflict"),
    [
        ({"sliding_window": 64, "full_attention_layers": 1}, None),
        ({"sliding_window": 65, "full_attention_layers": 1}, None),
        ({"sliding_window": 66, "full_attention_layers": 1}, "sliding window 64 and 66"),
        ({"sliding_window": 64}, "full attention layers 1 and 0"),
        ({"sliding_window": 64, "full_attention_layers": 2}, "full attention layers 1 and 2"),
        ({"sliding_window": None}, None),
    ],
)
def test_windows_are_a_part_of_the_shape(change, conflict):
    first = msgspec.structs.replace(SHAPE, sliding_window=64, full_attention_layers=1)
    second = msgspec.structs.replace(SHAPE, **change)
    assert settings.shape_conflict(first, second) == conflict
    both = [msgspec.structs.replace(run_of([7.0] * 3), model_config=each) for each in (first, second)]
    assert (compute.config_diff(*both).verdict == "not comparable") is (conflict is not None)


@pytest.mark.parametrize(
    "change",
    [
        {"training_config": TrainingConfig(global_batch_size=16, sequence_length=128, num_gpus=1, precision="bf16")},
        {"training_config": TrainingConfig(global_batch_size=8, sequence_length=128, num_gpus=1, precision="fp8")},
        {"parallelism_config": ParallelismConfig(tensor_model_parallel_size=2)},
    ],
)
def test_a_difference_or_a_one_sided_unknown_is_no_identical_configuration(change):
    first = run_of([7.0] * 3)
    assert compute.config_diff(first, msgspec.structs.replace(first, **change)).verdict == "best configuration"


def test_uniform_random_tokens_are_recognised_by_the_curve():
    nature, evidence = training.nature_of_data(run_of([math.log(1024) + 0.01] * 40))
    assert nature == "uniform random"
    assert "ln(vocabulary) = 6.93" in evidence


def test_counting_tokens_are_recognised_by_the_curve():
    nature, _ = training.nature_of_data(run_of([7.0 * 0.8**step for step in range(60)]))
    assert nature == "predictable"


def test_real_data_with_such_a_curve_is_a_finding():
    run = run_of([7.0 * 0.8**step for step in range(60)], data=Data(kind="fineweb"))
    (finding,) = training.findings(run)
    assert finding.severity == "warning"
    assert "fineweb" in finding.text


def test_real_data_with_an_ordinary_curve_is_none():
    assert list(training.findings(run_of([6.9 - 0.03 * step for step in range(60)], data=Data(kind="fineweb")))) == []


def test_loss_below_the_entropy_is_impossible():
    data = Data(kind="markov", entropy=2.0)
    wobble = [0.01 * (-1) ** step for step in range(60)]
    below = run_of([1.9 + each for each in wobble], data=data)
    above = run_of([2.1 + each for each in wobble], data=data)
    assert [finding.rule for finding in training.findings(below)] == ["below-entropy", "synthetic-data"]
    assert [finding.rule for finding in training.findings(above)] == ["synthetic-data"]


def test_one_lucky_step_below_the_entropy_is_none():
    losses = [2.5] * 30
    losses[7] = 1.0
    assert training.below_entropy(run_of(losses, data=Data(entropy=2.0))) is None


def test_missing_losses_are_said():
    losses = [7.0, 6.5, None, 6.0, *[5.9] * 30]
    findings = list(training.findings(run_of(losses)))
    assert [finding.rule for finding in findings] == ["loss-missing"]
    assert "step 3" in findings[0].text


def test_same_digest_and_curve_is_the_same_training():
    losses = [7.0 - 0.01 * step for step in range(100)]
    rates = [1e-4] * 100
    first = run_of(losses, rates=rates, data=Data(digest="abc"))
    second = run_of([loss * 1.001 for loss in losses], rates=rates, data=Data(digest="abc"))
    assert training.same_training(first, second).same is True


def test_equal_curves_on_unknown_data_prove_nothing():
    losses = [math.log(1024)] * 40
    assert training.same_training(run_of(losses), run_of(losses)).same is None


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"data": Data(digest="other")}, "different data"),
        ({"learning_rates": (2e-4,) * 100}, "learning rates differ, first at step 1"),
        ({"loss_values": tuple([7.0] * 90 + [3.0] * 10)}, "loss agrees"),
        ({"loss_values": tuple([6.0] + [7.0] * 99)}, "first losses"),
    ],
)
def test_each_difference_of_training_is_named(change, word):
    first = run_of([7.0] * 100, rates=[1e-4] * 100, data=Data(digest="abc"))
    verdict = training.same_training(first, msgspec.structs.replace(first, **change))
    assert verdict.same is False
    assert any(word in reason for reason in verdict.reasons)


@pytest.mark.parametrize(("field", "title"), [("packing", "packing"), ("trainable", "trainable parameters")])
def test_packing_and_frozen_weights_are_settings(field, title):
    packed = [TrainingConfig(packing=value if field == "packing" else None) for value in (True, False)]
    trained = [ModelConfig(trainable_parameters=value if field == "trainable" else None) for value in (7, 70)]
    first, second = (
        Run(**series((1.0,)), training_config=config, model_config=shape)
        for config, shape in zip(packed, trained, strict=True)
    )
    assert [entry.title for entry in compute.config_diff(first, second).of("different")] == [title]


class TestWhatFewStates:
    @pytest.mark.parametrize(
        ("first", "second", "status"),
        [(None, None, None), (True, None, "unknown"), (True, False, "different"), (False, False, "equal")],
    )
    def test_compiled_or_eager(self, first, second, status):
        runs = [Run(framework_config={} if each is None else {"torch_compile": each}) for each in (first, second)]
        found = {entry.title: entry.status for entry in compute.config_diff(*runs).entries}
        assert found.get("compiler") == status

    def test_a_power_cap_differs(self):
        runs = [Run(energy_metrics={"power_cap_watts": watts}) for watts in (500.0, 700.0)]
        entry = next(each for each in compute.config_diff(*runs).entries if each.title == "power cap")
        assert (entry.status, entry.values) == ("different", ("500 W", "700 W"))

    def test_amds_switches_differ(self):
        first = Run(
            framework_config={"enable_primus_turbo": True, "use_turbo_attention": True, "use_turbo_gemm": False},
            environment=Environment(gpu_partition="SPX/NPS1", numa_balancing=False),
        )
        second = Run(
            framework_config={"enable_primus_turbo": False, "use_turbo_attention": True},
            environment=Environment(gpu_partition="CPX/NPS4", numa_balancing=True),
        )
        found = {entry.title: entry.values for entry in compute.config_diff(first, second).entries}
        assert found["Primus Turbo"] == ("attention", "off")
        assert found["GPU partition"] == ("SPX/NPS1", "CPX/NPS4")
        assert found["NUMA balancing"] == ("off", "on")
        assert "Primus Turbo" not in {each.title for each in compute.config_diff(Run(), Run()).entries}


@pytest.mark.parametrize(
    ("counts", "conflict"),
    [
        ((1_000_000, 1_500_000), None),
        ((1_000_000, 1_500_001), "parameters 1,000,000 and 1,500,001"),
        ((1_500_001, 1_000_000), "parameters 1,500,001 and 1,000,000"),
        ((1_000_000, None), None),
        ((None, None), None),
    ],
)
def test_one_name_with_other_parameters_is_another_model(counts, conflict):
    first, second = (ModelConfig(num_parameters=count) for count in counts)
    assert settings.shape_conflict(first, second) == conflict
