"""What is to be tried where memory ran out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tprimat.frameworks import out_of_memory_advice
from tprimat.frameworks.encdec.request import EncDecRequest
from tprimat.frameworks.request import Request


def request(kind=Request, **changes) -> Request:
    usual = {
        "framework": "nemo",
        "platform": "nvd",
        "model": "llama",
        "scale": "full",
        "precision": "bf16",
        "steps": 50,
        "global_batch_size": 128,
        "micro_batch_size": 1,
        "sequence_length": 8192,
        "seed": 1,
        "num_gpus": 8,
        "output_dir": Path("/output"),
    }
    return kind(**{**usual, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"micro_batch_size": 4}, "--micro-batch-size 2 or --tensor-model-parallel-size 2"),
        ({"micro_batch_size": 3, "num_gpus": 1}, "--micro-batch-size 1 or --scale "),
        ({}, "--tensor-model-parallel-size 2 or --scale "),
        # Eight key/value heads can't be divided by sixteen.
        (
            {"tensor_model_parallel_size": 8, "num_gpus": 16},
            "--scale half or --sequence-length 4096",
        ),
        ({"framework": "lightning"}, "--scale "),
        ({"framework": "lightning", "scale": "tiny"}, "--sequence-length 4096"),
        ({"framework": "primus"}, "--sequence-length 4096"),
    ],
)
def test_less_at_once_then_a_divided_model_then_a_smaller_one(changes, words):
    assert out_of_memory_advice.advice(request(**changes)).startswith(words)


def test_the_encoder_decoders_options_have_names_of_their_own():
    training = request(
        EncDecRequest, framework="encdec", scale="90m", micro_batch_size=32, num_samples=4096
    )
    assert out_of_memory_advice.advice(training) == "--batch-size 16 or --seq-len 4096"


def test_only_after_memory_ran_out():
    assert out_of_memory_advice.advised("out of memory: CUDA out of memory.", request()).startswith(
        "out of memory: CUDA out of memory: try "
    )
    assert out_of_memory_advice.advised("RuntimeError: no.", request()) == "RuntimeError: no."
