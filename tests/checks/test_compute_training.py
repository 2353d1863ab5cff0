"""The ledger of what costs time, and whether two runs are the same training."""

from __future__ import annotations

import math

import msgspec
import pytest
from stored_runs import series

from tprimat.checks import compute, settings, training
from tprimat.notes.catalogue import words
from tprimat.results.run import (
    Data,
    Environment,
    ModelConfig,
    Optimizer,
    ParallelismConfig,
    Run,
    TrainingConfig,
)
from tprimat.settings import Setting
from tprimat.store import store

SHAPE = ModelConfig(
    num_layers=2, hidden_size=64, num_attention_heads=4, ffn_hidden_size=128, vocab_size=1024
)


def run_of(losses, *, rates=None, **fields):
    known = {
        "loss_values": tuple(losses),
        **({} if rates is None else {"learning_rates": tuple(rates)}),
    }
    return Run(
        **{
            **series((1.0,) * len(losses), **known),
            "model_config": SHAPE,
            "training_config": TrainingConfig(
                global_batch_size=8, sequence_length=128, num_gpus=1, precision="bf16"
            ),
            **fields,
        }
    )


@pytest.fixture
def february(samples):
    names = ("amd_prim_llama", "nvd_nemo_llama", "amd_prim_qwen", "nvd_nemo_qwen")
    return {
        name: store.read(samples / "results" / f"train_{name}-516b342.json")[0] for name in names
    }


@pytest.mark.parametrize(("model", "share"), [("llama", 0.002), ("qwen", 0.040)])
def test_february_pairs_are_not_the_same_training(february, model, share):
    verdict = training.same_training(february[f"amd_prim_{model}"], february[f"nvd_nemo_{model}"])
    assert verdict.same is False
    assert verdict.agreeing_steps == pytest.approx(share, abs=0.0005)
    assert any("first losses" in reason for reason in map(words, verdict.reasons))
    assert any("learning rates differ" in reason for reason in map(words, verdict.reasons))


def test_february_pairs_may_be_compared_in_speed(february):
    ledger = compute.config_diff(february["amd_prim_llama"], february["nvd_nemo_llama"])
    assert ledger.verdict == "best configuration"
    assert {entry.title for entry in ledger.of("different")} >= {"step timer scope", "torch"}
    assert {entry.title for entry in ledger.of("unknown")} >= {
        "precision",
        "activation recomputation",
    }
    assert {entry.title for entry in ledger.of("equal")} >= {
        "global batch",
        "sequence length",
        "micro-batch",
    }


def test_identical_mode_refuses_a_difference(february):
    ledger = compute.config_diff(
        february["amd_prim_llama"], february["nvd_nemo_llama"], mode="same"
    )
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
    second = msgspec.structs.replace(
        first, **{field: msgspec.structs.replace(getattr(first, field), **change)}
    )
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
    note = settings.shape_conflict(first, second)
    assert (note and words(note)) == conflict
    both = [
        msgspec.structs.replace(run_of([7.0] * 3), model_config=each) for each in (first, second)
    ]
    assert (compute.config_diff(*both).verdict == "not comparable") is (conflict is not None)


@pytest.mark.parametrize(
    "change",
    [
        {
            "training_config": TrainingConfig(
                global_batch_size=16, sequence_length=128, num_gpus=1, precision="bf16"
            )
        },
        {
            "training_config": TrainingConfig(
                global_batch_size=8, sequence_length=128, num_gpus=1, precision="fp8"
            )
        },
        {"parallelism_config": ParallelismConfig(tensor_model_parallel_size=2)},
    ],
)
def test_a_difference_or_a_one_sided_unknown_is_no_identical_configuration(change):
    first = run_of([7.0] * 3)
    assert (
        compute.config_diff(first, msgspec.structs.replace(first, **change)).verdict
        == "best configuration"
    )


def test_uniform_random_tokens_are_recognised_by_the_curve():
    note = training.synthetic_data(run_of([math.log(1024) + 0.01] * 40))
    assert note.code == "uniform-loss"
    assert "ln(vocabulary) = 6.93" in words(note)


def test_counting_tokens_are_recognised_by_the_curve():
    note = training.synthetic_data(run_of([7.0 * 0.8**step for step in range(60)]))
    assert note.code == "collapsed-loss"


def test_real_data_with_such_a_curve_is_a_finding():
    run = run_of([7.0 * 0.8**step for step in range(60)], data=Data(kind="fineweb"))
    (finding,) = training.findings(run)
    assert finding.severity == "warning"
    assert "fineweb" in words(finding.note)


def test_real_data_with_an_ordinary_curve_is_none():
    assert (
        list(
            training.findings(
                run_of([6.9 - 0.03 * step for step in range(60)], data=Data(kind="fineweb"))
            )
        )
        == []
    )


def test_loss_below_the_entropy_is_impossible():
    data = Data(kind="markov", entropy=2.0)
    wobble = [0.01 * (-1) ** step for step in range(60)]
    below = run_of([1.9 + each for each in wobble], data=data)
    above = run_of([2.1 + each for each in wobble], data=data)
    assert [finding.rule for finding in training.findings(below)] == [
        "below-entropy",
        "synthetic-data",
    ]
    assert [finding.rule for finding in training.findings(above)] == ["synthetic-data"]


def test_one_lucky_step_below_the_entropy_is_none():
    losses = [2.5] * 30
    losses[7] = 1.0
    assert training.below_entropy(run_of(losses, data=Data(entropy=2.0))) is None


def test_missing_losses_are_said():
    losses = [7.0, 6.5, None, 6.0, *[5.9] * 30]
    findings = list(training.findings(run_of(losses)))
    assert [finding.rule for finding in findings] == ["loss-missing"]
    assert "step 3" in words(findings[0].note)


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
    assert any(word in reason for reason in map(words, verdict.reasons))


@pytest.mark.parametrize(
    ("field", "title"), [("packing", "packing"), ("trainable", "trainable parameters")]
)
def test_packing_and_frozen_weights_are_settings(field, title):
    packed = [
        TrainingConfig(packing=value if field == "packing" else None) for value in (True, False)
    ]
    trained = [
        ModelConfig(trainable_parameters=value if field == "trainable" else None)
        for value in (7, 70)
    ]
    first, second = (
        Run(**series((1.0,)), training_config=config, model_config=shape)
        for config, shape in zip(packed, trained, strict=True)
    )
    assert [entry.title for entry in compute.config_diff(first, second).of("different")] == [title]


class TestWhatFewStates:
    @pytest.mark.parametrize(
        ("first", "second", "status"),
        [
            (None, None, None),
            (True, None, "unknown"),
            (True, False, "different"),
            (False, False, "equal"),
        ],
    )
    def test_compiled_or_eager(self, first, second, status):
        runs = [
            Run(framework_config={} if each is None else {"torch_compile": each})
            for each in (first, second)
        ]
        found = {entry.title: entry.status for entry in compute.config_diff(*runs).entries}
        assert found.get("compiler") == status

    def test_a_power_cap_differs(self):
        runs = [Run(energy_metrics={"power_cap_watts": watts}) for watts in (500.0, 700.0)]
        entry = next(
            each for each in compute.config_diff(*runs).entries if each.title == "power cap"
        )
        assert (entry.status, entry.values) == ("different", ("500 W", "700 W"))

    def test_amds_switches_differ(self):
        first = Run(
            framework_config={
                "enable_primus_turbo": True,
                "use_turbo_attention": True,
                "use_turbo_gemm": False,
            },
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
        assert "Primus Turbo" not in {
            each.title for each in compute.config_diff(Run(), Run()).entries
        }


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
    note = settings.shape_conflict(first, second)
    assert (note and words(note)) == conflict


UNIFORM = math.log(1024)
NO_SHAPE = {"model_config": ModelConfig()}
MILLION = {"training_config": TrainingConfig(global_batch_size=1000, sequence_length=1000)}


@pytest.mark.parametrize(
    ("run", "code", "evidence"),
    [
        (
            run_of([2.0] * 40, data=Data(kind="markov", entropy=1.23456)),
            "known-entropy",
            "synthetic data (markov, entropy 1.235 nats/token)",
        ),
        (
            run_of([UNIFORM] * 40),
            "uniform-loss",
            (
                "loss stays at ln(vocabulary) = 6.93: random mock tokens, as in NeMo; speed is"
                " unaffected"
            ),
        ),
        (run_of([UNIFORM] * 40, **NO_SHAPE), None, None),
        (
            run_of([UNIFORM] * 40, model_config=msgspec.structs.replace(SHAPE, vocab_size=None)),
            None,
            None,
        ),
        # The mean of the last ten; the last and the median are elsewhere.
        (
            run_of([9.0] * 30 + [UNIFORM - 1] * 6 + [UNIFORM] + [UNIFORM + 2] * 3),
            "uniform-loss",
            None,
        ),
        # A record that stands for twenty steps, or fewer; of those without a loss nothing counts.
        (run_of([9.0, UNIFORM], window_steps=(1, 19)), None, None),
        (run_of([UNIFORM, UNIFORM], window_steps=(1, 19)), "uniform-loss", None),
        (run_of([UNIFORM, UNIFORM], window_steps=(1, 18)), None, None),
        (run_of([UNIFORM, UNIFORM, None], window_steps=(1, 18, 30)), None, None),
        (
            run_of([7.0] * 20 + [0.05] * 10, **MILLION),
            "collapsed-loss",
            (
                "loss reaches 0.0500 within 30.0 million tokens: typical of mock data (Megatron,"
                " Primus); speed is unaffected"
            ),
        ),
        # Of unknown tokens nobody knows how long it took.
        (run_of([7.0] * 20 + [0.05] * 10, training_config=TrainingConfig()), None, None),
        (
            run_of([5.0] * 40, data=Data(kind="Mock-GPT")),
            "synthetic-data",
            "synthetic data (Mock-GPT)",
        ),
        (run_of([5.0] * 40, data=Data(kind="c4")), None, None),
        (run_of([5.0] * 40), None, None),
        (run_of([]), None, None),
    ],
)
def test_what_a_run_was_trained_on(run, code, evidence):
    note = training.synthetic_data(run)
    assert (note and note.code) == code
    assert evidence is None or words(note) == evidence


def test_the_first_window_below_the_entropy():
    wobble = [0.01 * (-1) ** step for step in range(80)]
    losses = [
        each + level
        for each, level in zip(wobble, [2.5] * 20 + [1.9] * 20 + [1.8] * 40, strict=True)
    ]
    assert (
        words(training.below_entropy(run_of([None, *losses], data=Data(entropy=2.0))))
        == "mean loss of 20 records from record 21 on is 1.9000 nats/token, more than four standard"
        " errors below the data's entropy (2.0000): data leakage, or the logged value is not the"
        " training loss"
    )
    assert training.below_entropy(run_of(losses)) is None
    # Their mean is 1.7695, more than four standard errors of 0.0562 below 2; their median is 1.99.
    losses = [1.5] * 9 + [1.99] * 11
    note = training.below_entropy(run_of(losses, data=Data(entropy=2.0)))
    assert "is 1.7695 nats/token" in words(note)


def at(steps, losses, **fields):
    return run_of(losses, steps=tuple(steps), **fields)


SAME, OTHER = {"data": Data(digest="abc")}, {"data": Data(digest="xyz")}
AGREES = "loss agrees within 5% on {} of shared steps"
FIRST = "first losses 7.000 and {} (ln(vocabulary) = 6.93)"
MATCHES = "same data (matching checksum)"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (
            run_of([7.0] * 4, **SAME),
            run_of([7.0, 7.1, 7.2, 7.3], **SAME),
            (True, (MATCHES, FIRST.format("7.000"), AGREES.format("100.0%")), 1.0),
        ),
        (
            run_of([7.0] * 4, **SAME),
            run_of([7.0, 7.1, 9.0, 9.3], **OTHER),
            (False, ("different data (checksums differ)", AGREES.format("50.0%")), 0.5),
        ),
        (
            run_of([7.0] * 4, data=Data(kind="c4")),
            run_of([7.1, 7.1, 7.2, 7.3], data=Data(kind="pile")),
            (False, ("different data: c4 and pile", FIRST.format("7.100")), 1.0),
        ),
        (
            run_of([7.0] * 4, data=Data(kind="c4")),
            run_of([7.0] * 4),
            (None, (FIRST.format("7.000"), AGREES.format("100.0%")), 1.0),
        ),
        (
            run_of([7.0] * 4, data=Data(kind="c4", digest="abc")),
            run_of([7.0] * 4, data=Data(kind="pile", digest="abc")),
            (True, (MATCHES, FIRST.format("7.000"), AGREES.format("100.0%")), 1.0),
        ),
        # Only a first step has a first loss; the steps that both have are compared.
        (
            at([2, 3, 4, 5], [9.0, 7.0, None, 6.0], **SAME),
            at([1, 3, 4, 5, 6], [7.0, 7.2, 6.0, 5.0, 7.0], **SAME),
            (True, (MATCHES, AGREES.format("50.0%")), 0.5),
        ),
        (
            at([1, 3], [7.0, 6.0], **SAME, **NO_SHAPE),
            at([1, 2], [0.0, 7.0], **SAME, **NO_SHAPE),
            (False, ("first losses 7.000 and 0.000",), 0.0),
        ),
        (run_of([None] * 4, **SAME), run_of([7.0] * 4, **SAME), (None, (MATCHES,), None)),
        (
            run_of([7.0] * 2, **SAME),
            run_of([7.0] * 2),
            (None, (FIRST.format("7.000"), AGREES.format("100.0%")), 1.0),
        ),
        (run_of([7.0] * 2), run_of([None, 7.0]), (None, (AGREES.format("100.0%"),), 1.0)),
        (
            run_of([7.0] * 4, data=Data(kind="c4")),
            run_of([7.0] * 4, data=Data(kind="c4")),
            (None, (FIRST.format("7.000"), AGREES.format("100.0%")), 1.0),
        ),
        (run_of([], **SAME), run_of([7.0] * 4, **SAME), (None, (MATCHES,), None)),
        (run_of([]), run_of([]), (None, (), None)),
        (
            run_of([7.0] * 3, **SAME),
            run_of([7.0] * 5, rates=[1e-4] * 5, **SAME),
            (True, (MATCHES, FIRST.format("7.000"), AGREES.format("100.0%")), 1.0),
        ),
    ],
)
def test_whether_two_trainings_are_one(first, second, expected):
    match = training.same_training(first, second)
    assert (match.same, tuple(map(words, match.reasons)), match.agreeing_steps) == expected


def rated(*rates, peak=None, **printed):
    optimizer = Optimizer(learning_rate=peak)
    return run_of([7.0] * len(rates), rates=rates, optimizer=optimizer, native_metrics=printed)


PRINTED = {"first_learning_rate": 1e-4, "last_learning_rate": 3e-5}
LATER = {**series((1.0,) * 2, loss_values=(7.0, 7.0), learning_rates=(2e-4, 1e-5)), "steps": (8, 9)}


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (
            rated(1e-4, 2e-4, 3e-4),
            rated(1e-4, 2.01e-4, 4e-4),
            "learning rates differ, first at step 2: 0.0002 and 0.000201",
        ),
        (rated(1e-4, 2e-4, peak=3e-4), rated(1e-4, 2e-4, peak=5e-4), None),
        (
            rated(None, peak=3e-4),
            rated(None, peak=5e-4),
            "learning rates differ: 0.0003 and 0.0005",
        ),
        (rated(None, peak=3e-4), rated(None, peak=3e-4), None),
        (rated(None, peak=3e-4), rated(None), None),
        (rated(None), rated(None, peak=5e-4), None),
        # First and last of a series, or as printed.
        (
            rated(2e-4, 9e-4, 1e-4),
            run_of([7.0] * 2, **LATER),
            "learning rates differ: 0.0002 to 0.0001 and 0.0002 to 1e-05",
        ),
        (rated(2e-4, 9e-4, 1e-5), run_of([7.0] * 2, **LATER), None),
        (
            rated(None, **PRINTED),
            run_of([7.0] * 2, **LATER),
            "learning rates differ: 0.0001 to 3e-05 and 0.0002 to 1e-05",
        ),
        (rated(None, **PRINTED), rated(None, **PRINTED, peak=1.0), None),
        (rated(None, **{**PRINTED, "first_learning_rate": 2}), run_of([7.0] * 2, **LATER), None),
        (rated(None, **{**PRINTED, "last_learning_rate": 2}), run_of([7.0] * 2, **LATER), None),
        (rated(None), run_of([7.0] * 2, **LATER), None),
        (run_of([7.0] * 2, **LATER), rated(None), None),
        # What the data are comes before, what the losses show after it.
        (run_of([7.0], **SAME), run_of([7.0], **OTHER), "different data (checksums differ)"),
        (
            run_of([7.0] * 20 + [0.05] * 10, rates=[1e-4] * 30),
            run_of([7.0] * 20 + [0.05] * 10, rates=[2e-4] * 30),
            "learning rates differ, first at step 1: 0.0001 and 0.0002",
        ),
        (
            run_of([5.0] * 30),
            run_of([7.0] * 20 + [0.05] * 10),
            (
                "loss reaches 0.0500 within 0.0 million tokens: typical of mock data (Megatron,"
                " Primus); speed is unaffected"
            ),
        ),
        (
            run_of([UNIFORM] * 30),
            run_of([5.0] * 30),
            (
                "loss stays at ln(vocabulary) = 6.93: random mock tokens, as in NeMo; speed is"
                " unaffected"
            ),
        ),
        (run_of([5.0] * 30, data=Data(kind="mock")), run_of([5.0] * 30), None),
    ],
)
def test_what_is_against_a_comparison_of_losses(first, second, reason):
    note = training.no_loss_comparison(first, second)
    assert (note and words(note)) == reason


def setting(**fields):
    return Setting("t", "f", **fields)


DIFFER, ONE, NONE = ("a", "b"), ("a", None), (None, None)


@pytest.mark.parametrize(
    ("row", "values", "mode", "status", "explains", "verdict"),
    [
        (setting(), ("a", "a"), "same", "equal", False, "same configuration"),
        (setting(), DIFFER, "best", "different", False, "best configuration"),
        (setting(), DIFFER, "same", "blocking", False, "not comparable"),
        (setting(), ONE, "same", "unknown", False, "best configuration"),
        (setting(), NONE, "same", "unknown", False, "same configuration"),
        (setting(role="forbids"), DIFFER, "best", "blocking", False, "not comparable"),
        (setting(role="forbids"), ONE, "best", "unknown", False, "best configuration"),
        (setting(role="explains"), DIFFER, "best", "different", True, "best configuration"),
        (setting(role="explains"), DIFFER, "same", "blocking", False, "not comparable"),
        (setting(role="explains"), ("a", "a"), "best", "equal", False, "same configuration"),
        (
            setting(role="explains", within="device"),
            DIFFER,
            "best",
            "different",
            False,
            "best configuration",
        ),
        # What is compared or costs no time makes no other configuration, unless it explains.
        (setting(role="harmless"), DIFFER, "same", "different", False, "same configuration"),
        (
            setting(role="differs", configured=False),
            DIFFER,
            "same",
            "different",
            False,
            "same configuration",
        ),
        (
            setting(role="explains", configured=False),
            DIFFER,
            "same",
            "different",
            True,
            "best configuration",
        ),
        (
            setting(role="explains", configured=False),
            ONE,
            "same",
            "unknown",
            False,
            "same configuration",
        ),
        # Whether a value agrees with an unknown one is for its function to say.
        (setting(same="same_shape"), ONE, "best", "unknown", False, "best configuration"),
        (setting(same="same_shape"), DIFFER, "same", "equal", False, "same configuration"),
        (setting(same="same_data"), ONE, "best", "different", False, "best configuration"),
        (setting(same="same_data"), ("a", "a"), "same", "blocking", False, "not comparable"),
    ],
)
def test_a_setting_of_two_runs(monkeypatch, row, values, mode, status, explains, verdict):
    monkeypatch.setattr(
        settings, "SAMES", {"same_shape": lambda *_: True, "same_data": lambda *_: False}
    )
    monkeypatch.setattr(settings, "rows_of", lambda runs: [(row, values)])
    entry = compute.Entry("t", status, values, explains)
    assert compute.config_diff(Run(), Run(), mode=mode) == compute.ConfigDiff((entry,), verdict)


def test_settings_are_sorted_by_what_their_difference_means(monkeypatch):
    rows = [
        (Setting(title, "f", **more), values)
        for title, more, values in (
            ("equal", {}, ("a", "a")),
            ("unknown", {}, ONE),
            ("none", {"optional": True}, NONE),
            ("no one", {}, NONE),
            ("one", {"optional": True}, ONE),
            ("different", {"role": "harmless"}, DIFFER),
            ("blocking", {"role": "forbids"}, DIFFER),
            ("another", {"role": "explains"}, DIFFER),
        )
    ]
    monkeypatch.setattr(settings, "rows_of", lambda runs: rows)
    diff = compute.config_diff(Run(), Run())
    found = [entry.title for entry in diff.entries]
    assert found == ["blocking", "different", "another", "unknown", "no one", "one", "equal"]
    assert diff.verdict == "not comparable"
    assert [entry.title for entry in diff.of("different")] == ["different", "another"]
