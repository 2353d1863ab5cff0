"""The settings of a training, and their way through a command line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tprimat.frameworks.encdec.settings import Settings

PLAIN = Settings("nvd", 8, "fp16", 1000, Path("/out"), batch_size=12)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"data_dir": Path("/a b"), "num_shards": 3, "workers": 2, "drop_caches": True, "data_checked": True},
        {"label": "--odd one", "time_limit_s": 90.5, "seed": 0, "warmup_epochs": 0},
    ],
)
def test_arguments_say_all_of_it(changes):
    settings = dataclasses.replace(PLAIN, **changes)
    assert Settings.from_arguments(settings.to_arguments()) == settings


def test_what_follows_from_them():
    assert PLAIN.effective_batch == 96
    assert (PLAIN.steps_per_epoch, PLAIN.samples_per_epoch, PLAIN.all_epochs) == (10, 960, 4)


def test_models_of_one_name_have_one_shape():
    assert PLAIN.scale == "d128-h4-e3-d3-f512-v5480"
    assert dataclasses.replace(PLAIN, seq_len=7, batch_size=1).scale == PLAIN.scale
    for field in ("d_model", "nhead", "num_encoder_layers", "num_decoder_layers", "dim_feedforward", "vocab_size"):
        assert dataclasses.replace(PLAIN, **{field: 64}).scale != PLAIN.scale
