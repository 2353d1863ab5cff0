"""Runs used epochs: samples, epochs, what these cost, and which batch would be the same."""

from __future__ import annotations

import msgspec
import pytest
from made_runs import MI300X, comparison, make_run
from stored_runs import reason_of

from tprimat.compare.cost import efficiencies, with_prices
from tprimat.report.verdict import report
from tprimat.results.run import ModelConfig, ParallelismConfig, Run

LAYERS = {
    "num_layers": 3,
    "hidden_size": 128,
    "num_attention_heads": 4,
    "ffn_hidden_size": 512,
    "vocab_size": 5480,
}


def training(
    samples: float = 4096,
    seconds: float = 8.0,
    *,
    gpus: int = 8,
    batch: int = 256,
    encoder: int = 3,
    **fields: object,
) -> Run:
    """A warm-up epoch that takes twice as long, and three measured ones."""
    epochs = tuple(
        {
            "epoch": float(number),
            "warmup": float(number == 1),
            "samples": samples,
            "wall_time_s": seconds * (2 if number == 1 else 1),
        }
        for number in range(1, 5)
    )
    return make_run(
        **{
            "model": "encdec",
            "framework": "pytorch",
            "gpus": gpus,
            "batch": batch,
            "length": 128,
            "epochs": epochs,
            "native_metrics": {"seconds_per_epoch": seconds},
            "model_config": ModelConfig(num_encoder_layers=encoder, **LAYERS),
            **fields,
        }
    )


def worth(run, price=None):
    found = comparison(run)
    if price:
        found = with_prices(found, [price]).comparison
    (system,) = found.models[0].systems
    (figures,) = efficiencies(found, system)
    return figures.values


def test_samples_are_of_the_measured_epochs_alone():
    values = worth(training())
    assert values["samples_per_second"].value == pytest.approx(3 * 4096 / 24)
    assert values["seconds_per_epoch"].value == pytest.approx(8.0)
    assert "dollars_per_epoch" not in values


def test_cost_is_that_of_all_gpus():
    values = worth(training(), "3.00")
    # 8 GPUs at 3 USD an hour for 8 s; and for a million of 512 samples a second.
    assert values["dollars_per_epoch"].value == pytest.approx(8 * 3.0 * 8 / 3600)
    assert values["dollars_per_million_samples"].value == pytest.approx(8 * 3.0 * 1e6 / 512 / 3600)


def test_a_range_of_prices_is_a_range_of_costs():
    value = worth(training(), "2:4")["dollars_per_epoch"]
    assert (value.low, value.high) == pytest.approx((8 * 2 * 8 / 3600, 8 * 4 * 8 / 3600))


def test_several_runs_have_an_interval():
    runs = tuple(
        training(
            seconds=seconds, timestamp=f"2026-02-0{day}T00:00:00+00:00", step_time=3.2 + day / 1000
        )
        for day, seconds in enumerate((7.9, 8.0, 8.1), 1)
    )
    value = worth(runs, "3.00")["dollars_per_epoch"]
    assert value.low < 8 * 3.0 * 8 / 3600 < value.high


def test_an_epoch_that_was_cut_short_has_no_time():
    assert "seconds_per_epoch" not in worth(training(native_metrics={"seconds_per_epoch": None}))


def test_other_models_have_none():
    values = worth(make_run(), "3.00")
    assert not {"samples_per_second", "seconds_per_epoch", "dollars_per_epoch"} & set(values)


def test_the_batch_that_would_be_the_same_is_named():
    runs = training(), training(gpus=4, batch=128, device=MI300X, stack="rocm")
    answer = report(comparison(*runs, reference="H100")).answers[0].verdict
    assert "batch-differs" in [caveat.code for caveat in answer.caveats]
    assert (
        "run 4×MI300X (BF16) with --batch-size 64 to rule out the batch size" in answer.next_steps
    )


def test_a_batch_that_the_gpus_cannot_share_is_not_advised():
    runs = training(), training(gpus=3, batch=96, device=MI300X, stack="rocm")
    answer = report(comparison(*runs, reference="H100")).answers[0].verdict
    assert not any("run 3×MI300X" in text for text in answer.next_steps)


def test_language_models_have_their_own_option():
    runs = (make_run(), make_run(MI300X, stack="rocm", batch=128))
    answer = report(comparison(*runs, reference="H100")).answers[0].verdict
    assert (
        "run 8×MI300X (BF16) with --global-batch-size 64 to rule out the batch size"
        in answer.next_steps
    )


def test_other_encoders_are_other_models():
    (pair,) = (
        comparison(training(), training(encoder=6, device=MI300X, stack="rocm")).models[0].pairs
    )
    assert pair.ratio is None
    assert "num encoder layers 3 and 6" in reason_of(pair)


def test_the_configuration_diff_names_encoder_and_decoder():
    run = training()
    (pair,) = (
        comparison(
            run, msgspec.structs.replace(run, label="b", timestamp="2026-02-09T00:00:00+00:00")
        )
        .models[0]
        .pairs
    )
    (shape,) = [entry for entry in pair.config_diff.entries if entry.title == "model shape"]
    assert shape.values[0].startswith("3 encoder layers, 3 decoder layers, hidden 128")


def test_a_batch_that_the_micro_batch_cannot_divide_is_not_advised():
    one_step = ParallelismConfig(gradient_accumulation_steps=1)
    runs = [
        msgspec.structs.replace(
            make_run(batch=batch, gpus=1, label=f"micro{batch}"), parallelism_config=one_step
        )
        for batch in (1, 2)
    ]
    steps = report(comparison(*runs)).answers[0].verdict.next_steps
    (advice,) = [text for text in steps if "batch size" in text]
    assert "micro-batch 1" in advice
    assert "--global-batch-size 2" in advice
