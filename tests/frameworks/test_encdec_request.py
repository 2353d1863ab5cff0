"""The request of an encoder-decoder, and its way through a command line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tprimat.frameworks.encdec.launch import resolve_config
from tprimat.frameworks.encdec.request import EncDecRequest, RequestedEncDec
from tprimat.frameworks.request import Device

REQUESTED = RequestedEncDec(num_samples=1000, micro_batch_size=12)
REQUEST, _ = resolve_config(REQUESTED, Device("nvd", 8, None), Path("/out"))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "data_dir": Path("/a b"),
            "num_shards": 3,
            "workers": 2,
            "drop_caches": True,
            "data_checked": True,
        },
        {"label": "--odd one", "time_limit_s": 90.5, "seed": 0, "warmup_epochs": 0},
    ],
)
def test_arguments_hold_the_whole_request(changes):
    request = dataclasses.replace(REQUEST, **changes)
    assert EncDecRequest.from_arguments(request.to_arguments()) == request


def test_batch_and_steps_follow_from_samples_and_processes():
    assert (REQUEST.global_batch_size, REQUEST.steps) == (96, 40)
    assert (REQUEST.steps_per_epoch, REQUEST.samples_per_epoch, REQUEST.all_epochs) == (10, 960, 4)


def test_the_pairs_are_those_of_the_request():
    assert REQUEST.pairs.num_samples == 1000
    assert REQUEST.pairs.bytes == (2 * 128 + 1) * 4


def test_models_of_one_name_have_one_shape():
    assert REQUEST.scale == REQUESTED.sizes == "d128-h4-e3-d3-f512-v5480"
    assert (
        dataclasses.replace(REQUESTED, sequence_length=7, micro_batch_size=1).sizes == REQUEST.scale
    )
    for field in (
        "d_model",
        "nhead",
        "num_encoder_layers",
        "num_decoder_layers",
        "dim_feedforward",
        "vocab_size",
    ):
        assert dataclasses.replace(REQUESTED, **{field: 64}).sizes != REQUEST.scale
