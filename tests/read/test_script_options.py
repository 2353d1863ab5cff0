"""Options of training scripts in what a log echoes of them: each option, as a command line, a dump
and JSON have it.
"""

from __future__ import annotations

import made_logs
import pytest
from limits import limits

from tprimat.read import read as read_log
from tprimat.read.parsing import options
from tprimat.read.parsing.text import lines
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
        assert read(text) == ({} if name in options._DASHED_ONLY else expected), text
        assert read(text, bare=False) == {}
    # A blank alone is of a command line.
    assert read(f"{name} {value}") == {}
    # Hyphens are of a command line, too.
    hyphened = name.replace("_", "-")
    assert read(f"python train.py --{hyphened} {value}", bare=False) == expected
    if hyphened != name:
        assert read(f"{hyphened}: {value}") == {}


@pytest.mark.parametrize(("name", "expected"), READ.items())
def test_the_field_that_an_option_states(name, expected):
    assert read(f"--{name} {VALUES.get(name, '8')}") == dict([expected])


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("--num_processes 16", 16),
        ("--num-processes=16", 16),
        ("accelerate launch --num_processes 8 --num_machines 2 train.py", 8),
        ("--num-gpus 8 --num-nodes 4", 32),
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


def wrapped(*texts, apart=1):
    """The number of GPUs of a command over lines that are so far apart."""
    stated = LoggedValues()
    for place, text in enumerate(texts):
        options.options_in(text, 3 + apart * place, stated)
    return stated.count("num_gpus")


@pytest.mark.parametrize(
    ("texts", "gpus"),
    [
        (("torchrun --nnodes 2 \\", "  --nproc_per_node 8 \\", "  train.py --seed 1"), 16),
        (("torchrun --nproc_per_node 8 \\", "  --nnodes 2 train.py"), 16),
        (("torchrun --nproc_per_node 8 \\", "  train.py --seed 1"), 8),
        # Another command.
        (("torchrun --nnodes 2 --nproc_per_node 4", "torchrun --nproc_per_node 8"), 8),
        (("torchrun --nnodes 2", "torchrun --nproc_per_node 8"), 8),
    ],
)
def test_the_number_of_gpus_of_a_command_over_several_lines(texts, gpus):
    assert wrapped(*texts) == gpus


@limits(
    (
        "lines of a command",
        lambda apart: wrapped("torchrun --nnodes 2 \\", "--nproc_per_node 8", apart=apart),
        (19, 16),
        (20, 8),
    )
)
def test_limits_of_a_command(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


@pytest.mark.parametrize("log", ["MS_SWIFT", "LLAMA_FACTORY"])
def test_u6_a_launch_command_states_sizes_for_a_small_reader(log):
    command = (
        "torchrun --nproc-per-node 4 --nnodes 2 \\\n  train.py --global-batch-size 128 \\\n"
        "  --seq-length 4096\n"
    )
    content = command + getattr(made_logs, log)
    (run,) = read_log(lines([content.encode()]), "a log")
    config = run.training_config
    assert (run.num_gpus, config.global_batch_size, config.sequence_length) == (8, 128, 4096)
    assert run.told("sizes-unknown") == ()


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("--bf16 --fp16 x", {"precision": "bf16"}),
        ("--bf16 \\", {"precision": "bf16"}),
        ("--bf16 false", {}),
        ("fp16: True,", {"precision": "fp16"}),
        ("--gradient_checkpointing", {"recomputation": "full"}),
        ("--gradient_checkpointing False", {"recomputation": "none"}),
        ("--gradient_checkpointing no", {}),
        ("--seed 0", {"seed": 0}),
        ("--seed 1e3", {}),
        ("--seed 1234567890123456789", {}),
        ("--base_model /data/llama/", {"model": "/data/llama"}),
        ("--base_model 7", {}),
        ("--max_steps 0", {}),
        (
            "--max_steps 8 --max_steps 9 --max_grad_norm=0.5",
            {"max_steps": 9, "gradient_clipping": 0.5},
        ),
        ("x_max_steps=7 a/max_steps=7 a-max_steps=7 a.max_steps=7", {}),
        ("--max_steps -7", {}),
        ("--num_gpus 8 --num_nodes 4 --num_processes 16", {"num_gpus": 16}),
        ("--nproc_per_node 8 --nnodes 2 --num_nodes 4", {"num_gpus": 16}),
        ("--nproc_per_node 8 --num_gpus 4", {"num_gpus": 8}),
        ("nothing", {}),
        ("x" * 19_986 + " --max_steps 8", {"max_steps": 8}),
        ("x" * 19_987 + " --max_steps 8", {}),
    ],
)
def test_what_a_line_states(text, stated):
    assert read(text) == stated


def test_a_statement_has_its_line_and_weighs_little():
    stated = LoggedValues()
    options.options_in("--max_steps 8", 3, stated)
    options.options_in("Num processes: 4", 5, stated)
    assert {name: tuple(vars(each).values()) for name, each in stated.items()} == {
        "max_steps": (8, 3, "--max_steps 8", options.ECHOED),
        "num_gpus": (4, 5, "Num processes: 4", options.ECHOED),
    }


def told(stated):
    return {name: tuple(vars(each).values()) for name, each in stated.items()}


def test_a_trackers_configuration():
    stated = LoggedValues()
    config = {
        "max_steps": 90, "devices": 4, "num_hidden_layers": 12, "model": "none", "gpu_name": "H100", "odd": 7,
        "precision": "bf16-mixed", "train_batch_size": 64, "vocab_size": {"a": 1}, "seed": 3,
    }  # fmt: skip
    options.state_config(config, stated, "wandb")
    assert told(stated) == {
        "max_steps": (90, 1, "wandb: max_steps: 90", 1),
        "devices": (4, 1, "wandb: devices: 4", 1),
        "num_layers": (12, 1, "wandb: num_hidden_layers: 12", 1),
        "device_name": ("H100", 1, "wandb: gpu_name: H100", 1),
        "precision": ("bf16", 1, "wandb: precision: bf16-mixed", 1),
        "global_batch_size": (64, 1, "wandb: train_batch_size: 64", 1),
        "seed": (3, 1, "wandb: seed: 3", 1),
    }


def test_a_trainers_configuration_has_the_batch_of_a_process():
    stated = LoggedValues()
    options.state_config(
        {"train_batch_size": 64, "per_device_train_batch_size": 8}, stated, "wandb"
    )
    assert told(stated) == {
        "micro_batch_size": (8, 1, "wandb: per_device_train_batch_size: 8", 1),
        "only_data_parallel": (True, 1, "only_data_parallel: True", 1),
    }


def test_a_models_configuration():
    stated = LoggedValues()
    options.state_model_config(
        {"head_dim": 64, "_name_or_path": "a/b", "seed": 3, "vocab_size": None}, stated
    )
    assert told(stated) == {
        "head_dim": (64, 1, "head_dim: 64", 1),
        "model": ("a/b", 1, "model: a/b", 1),
    }


HPARAMS = """\
# made by Lightning
devices: 4
num_nodes: 2
precision: 16-mixed
model:
  hidden_size: 512   # narrow
"max_steps": '900'
- seed: 7
gpu_name: 80
data: !!python/object:x
lr: 3e-4
odd: 5
"""


def test_hparams():
    stated = LoggedValues()
    options.state_hparams({"hparams.yaml": HPARAMS.encode(), "other": b"seed: 9"}, stated)
    assert told(stated) == {
        "precision": ("fp16", 4, "hparams.yaml: precision: 16-mixed", 0),
        "precision_detail": ("16-mixed", 4, "hparams.yaml: precision: 16-mixed", 0),
        "hidden_size": (512, 6, "hparams.yaml: hidden_size: 512", -2),
        "max_steps": (900, 7, "hparams.yaml: max_steps: 900", 0),
        "seed": (7, 8, "hparams.yaml: seed: 7", 0),
        "peak_learning_rate": (0.0003, 11, "hparams.yaml: lr: 3e-4", 0),
        "num_gpus": (8, 1, "hparams.yaml: devices: 4, num_nodes: 2", 1),
    }


@pytest.mark.parametrize(
    ("text", "earlier", "gpus"),
    [
        ("devices: 4", {}, 4), ("gpus_per_node: 4\nnum_nodes: 3", {}, 12), ("num_nodes: 3", {}, None),
        ("devices: 4", {"num_gpus": 2}, 2), ("devices: 4\nnum_gpus: 6", {}, 6), ("devices: auto", {}, None),
        ("x: " + "y" * 480 + "\ndevices: 4", {}, 4),
    ],
)  # fmt: skip
def test_gpus_of_hparams(text, earlier, gpus):
    stated = LoggedValues()
    for name, value in earlier.items():
        options.state(stated, name, value)
    options.state_hparams({"hparams.yaml": text.encode()}, stated)
    assert stated.value("num_gpus") == gpus
    assert not stated.keys() & {"devices", "num_nodes"}


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("model: llama", "llama"),
        ("model: True", None),
        ("model: null", None),
        ("model: None", None),
        ("model: 70", None),
        (" " * 488 + "model: llama", "llama"),
        (" " * 489 + "model: llama", "llam"),
    ],
)
def test_the_model_of_hparams(text, model):
    stated = LoggedValues()
    options.state_hparams({"hparams.yaml": text.encode()}, stated)
    assert stated.value("model") == model


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("model:\n  num_layers: 32\nvision:\n  tower:\n    num_layers: 24\n", 32),
        ("vision:\n  tower:\n    num_layers: 24\nnum_layers: 32\n", 32),
        ("text:\n  num_layers: 32\nvision:\n  num_layers: 32\n", 32),
        # Nobody knows which of them is the training's.
        ("text:\n  num_layers: 32\nvision:\n  num_layers: 24\n", None),
        ("text:\n  num_layers: 32\nvision:\n  num_layers: 24\naudio:\n  num_layers: 32\n", None),
        ("text:\n  num_layers: 32\nvision:\n  num_layers: 24\nnum_layers: 28\n", 28),
    ],
)
def test_of_one_name_in_several_objects_of_hparams_the_outermost_counts(text, layers):
    stated = LoggedValues()
    options.state_hparams({"hparams.yaml": text.encode()}, stated)
    assert stated.count("num_layers") == layers


def test_no_hparams():
    stated = LoggedValues()
    options.state_hparams({}, stated)
    assert told(stated) == {}
