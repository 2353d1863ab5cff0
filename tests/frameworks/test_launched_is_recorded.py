"""What a launch sets is in the result that is read from its log, and there it is compared or named
harmless.
"""

from __future__ import annotations

import pytest

from tprimat.checks import compute
from tprimat.frameworks import by_name
from tprimat.frameworks.megatron import launch as megatron
from tprimat.frameworks.request import Device, RequestedConfig
from tprimat.frameworks.torchtitan import launch as torchtitan
from tprimat.read.megatron import setup as megatron_log
from tprimat.read.parsing.run_builder import optimizer_of, sizes_of
from tprimat.read.parsing.values import LoggedValues
from tprimat.read.torchtitan import setup as torchtitan_log
from tprimat.results.run import Data, Run
from tprimat.settings.rows import HARMLESS, LEDGER

H100S = Device("nvd", 8, 85e9, "sm_90")

INVERTED = {
    "disable_bias_linear": "add_bias_linear",
    "no_create_attention_mask_in_dataloader": "create_attention_mask_in_dataloader",
}
"""Flags by which Megatron sets an argument to False."""

RENAMED = {"fp8_format": "fp8"}

NOT_RECORDED = {
    "make_vocab_size_divisible_by": "the padded vocabulary is recorded",
    "max_position_embeddings": (
        "the longest sequence that a model could take; sequence_length is what it takes"
    ),
    "min_lr": "equal to the learning rate, which is constant",
    "log_throughput": "what the log prints",
    "log_interval": "how often the log prints, which the steps of its records show",
    "eval_iters": "evaluations that aren't run",
    "exit_duration_in_mins": "when the training ends",
}

TITAN_NOT_RECORDED = {
    "job.config_file": "the file of which the log dumps the values",
    "lr_scheduler.warmup_steps": "the schedule of the learning rate, which costs no time",
    "lr_scheduler.decay_ratio": "the schedule of the learning rate, which costs no time",
    "metrics.log_freq": "how often the log prints, which the reader uses",
    "metrics.enable_tensorboard": "what the log prints",
    "profiling.enable_profiling": "the profiler, which is off",
}


@pytest.fixture
def words(tmp_path, monkeypatch):
    """The options of a launch, by name, as the program would parse them."""

    def options(framework, **choices):
        monkeypatch.setenv(framework.CLONE.variable, str(tmp_path))
        (tmp_path / "pretrain_gpt.py").write_text("")
        (tmp_path / "torchtitan" / "config").mkdir(parents=True, exist_ok=True)
        (tmp_path / "torchtitan" / "train.py").write_text("")
        (tmp_path / torchtitan.OPTIONS).write_text(f"{torchtitan.NEEDED}\nclass Debug:\n")
        name = framework.CLONE.title.partition("-")[0].lower()
        request, _ = by_name(name).resolve_config(
            "llama", RequestedConfig(**choices), H100S, tmp_path
        )
        return [word.removeprefix("--") for word in framework.options(request)]

    return options


def parsed(words):
    arguments = {}
    for word in words:
        name, sign, text = word.partition("=")
        name = name.replace("-", "_")
        is_inverted = name in INVERTED
        name = INVERTED.get(name, RENAMED.get(name, name))
        arguments[name] = text if sign else not is_inverted
    return arguments


def run_of(arguments):
    """The setup that Megatron's dump of these arguments states."""
    stated = LoggedValues()
    # A dump prints what isn't set, too.
    for number, (name, value) in enumerate(
        {"fp16": False, "data_path": "/data/text", **arguments}.items(), 1
    ):
        megatron_log.read_setup(
            number, f"  {name} ................................ {value}", stated
        )
    stated.pop("model", None)
    fields = megatron_log.fields_of(stated)
    training, spread = sizes_of(fields, {"num_gpus": 8})
    return Run(
        framework="megatron",
        model_config=megatron_log.model_config(stated)[0],
        training_config=training,
        parallelism_config=spread,
        optimizer=optimizer_of(fields),
        data=Data(kind=fields.word("data")),
        framework_config=megatron_log.switches(stated),
    )


def other(value):
    if isinstance(value, bool):
        return not value
    try:
        return int(value) * 2 or 1
    except ValueError:
        pass
    try:
        return float(value) * 2
    except ValueError:
        return f"other{value}"


@pytest.mark.parametrize("choices", [{}, {"precision": "fp8"}, {"time_limit_s": 60.0}])
def test_what_megatron_is_launched_with_is_recorded_and_compared(words, choices):
    arguments = parsed(words(megatron, **choices))
    assert len(arguments) > 35
    before, forgotten, silent = run_of(arguments), [], []
    for name in sorted(arguments.keys() - NOT_RECORDED.keys()):
        if (name, choices.get("precision")) == ("bf16", "fp8"):
            # The precision of what is not multiplied in fp8.
            continue
        after = run_of({**arguments, name: other(arguments[name])})
        if after == before:
            forgotten.append(name)
        elif f"framework_config.{name}" not in HARMLESS:
            diff = compute.config_diff(before, after)
            silent += [] if diff.of("different") or diff.of("blocking") else [name]
    assert (forgotten, silent) == ([], [])
    assert {name for name in HARMLESS if name.startswith("framework_config.")} >= {
        f"framework_config.{name}" for name in ("norm_epsilon", "rotary_base", "tokenizer_type")
    }


def test_what_torchtitan_is_launched_with_is_recorded(words):
    arguments = parsed(word.replace("no-enable", "enable") for word in words(torchtitan))
    called = {
        torchtitan_log.ARGUMENTS.get(name) for name in arguments.keys() - TITAN_NOT_RECORDED.keys()
    }
    assert None not in called
    assert called <= {*(setting.key for setting in LEDGER), *Run.__struct_fields__, *TRAINING}


TRAINING = {"peak_learning_rate", "beta1", "beta2", "epsilon", "weight_decay", "gradient_clipping"}
"""Parts of the row `optimizer`."""
