"""Options of training scripts in what a log echoes of them: each option, as a command line, a dump and JSON have it."""

from __future__ import annotations

import pytest

from tprimat.read.parsing import options
from tprimat.read.parsing.values import LoggedValues

VALUES = {
    "bf16": "true", "fp16": "true", "gradient_checkpointing": "true", "torch_dtype": "bfloat16",
    "lr_scheduler_type": "cosine", "model_name_or_path": "meta-llama/Llama-3.1-8B",
    "base_model": "Qwen/Qwen2.5-7B",
}  # fmt: skip
"""Of options that aren't numbers."""
READ = {
    "bf16": ("precision", "bf16"),
    "fp16": ("precision", "fp16"),
    "gradient_checkpointing": ("recomputation", "full"),
    "torch_dtype": ("weights_precision", "bf16"),
    "model_name_or_path": ("model", "meta-llama/Llama-3.1-8B"),
    "base_model": ("model", "Qwen/Qwen2.5-7B"),
    "logging_steps": ("logging_steps", 8),
    "num_epochs": ("num_epochs", 8),
    "num_train_epochs": ("num_epochs", 8),
    "per_device_train_batch_size": ("micro_batch_size", 8),
    "global_batch_size": ("global_batch_size", 8),
    "gradient_accumulation_steps": ("gradient_accumulation_steps", 8),
    "learning_rate": ("peak_learning_rate", 8.0),
    "max_steps": ("max_steps", 8),
    "cutoff_len": ("sequence_length", 8),
    "block_size": ("sequence_length", 8),
    "seed": ("seed", 8),
}


def read(text, **more):
    stated = LoggedValues()
    options.options_in(text, 3, stated, **more)
    return {name: each.value for name, each in stated.items()}


@pytest.mark.parametrize("name", options._OPTIONS)
def test_each_option_is_read_in_each_form(name):
    value = VALUES.get(name, "8")
    expected = read(f"--{name} {value}")
    assert len(expected) == 1
    for text in (f"--{name}={value}", f"python train.py --{name} {value} \\"):
        assert read(text) == read(text, bare=False) == expected, text
    for text in (f"{name}: {value}", f"{name}={value},", f'"{name}": "{value}",'):
        assert read(text) == ({} if name == "block_size" else expected), text
        assert read(text, bare=False) == {}
    # A blank alone is of a command line.
    assert read(f"{name} {value}") == {}


@pytest.mark.parametrize(("name", "expected"), READ.items())
def test_the_field_that_an_option_states(name, expected):
    assert read(f"--{name} {VALUES.get(name, '8')}") == dict([expected])


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("--num_processes 16", 16),
        ("--num-processes=16", None),
        ("--nproc_per_node 8", 8),
        ("--nproc-per-node=8", 8),
        ("--nproc-per-node=8 --nnodes=2", 16),
        ("--num_gpus 8 --num_nodes 4", 32),
        ("--nnodes 2", None),
        ("Num processes: 4", 4),
        ("about Num processes: 4", None),
    ],
)
def test_the_number_of_gpus(text, gpus):
    assert read(text).get("num_gpus") == gpus
