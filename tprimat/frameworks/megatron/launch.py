"""The framework `megatron`: Megatron-LM's own pretrain_gpt.py, on mock data."""

from __future__ import annotations

import dataclasses

from tprimat.catalog import models
from tprimat.frameworks.logged_training import Clone, ExternalResolver, LoggedTraining
from tprimat.frameworks.loops import time_limit
from tprimat.frameworks.loops.recipe import described
from tprimat.frameworks.request import Launch, Request
from tprimat.frameworks.resolve import check_memory
from tprimat.frameworks.scales import Scale
from tprimat.results.run import ModelConfig
from tprimat.settings.rows import launched

CLONE = Clone(
    "MEGATRON_PATH", "Megatron-LM", "pretrain_gpt.py", "Megatron trains on its own mock data"
)

FP8_RECIPES = {"fp8": "tensorwise", "mxfp8": "mxfp8"}
"""Megatron's names: FP8 has current scaling, as NVIDIA's recipes in Megatron-Bridge have."""


class Resolver(ExternalResolver):
    """The choices of Megatron-LM, whose optimizer's states are divided over the GPUs."""

    clone = CLONE

    def default_scale(self) -> Scale:
        """Return the largest scale that fits."""
        return self.largest_that_fits()

    def bytes_per_parameter(self) -> float:
        """Return the memory of one GPU for weights, gradients and its share of Adam's states.

        As the guide to Megatron Core's distributed optimizer states them for fp32 and bf16; with
        fp16 gradients it would be less.
        """
        if self.precision() == "fp32":
            return 8 + 8 / self.gpus
        return 6 + 12 / self.gpus

    def complete(self, request: Request, shape: ModelConfig) -> Request:
        """Refuse a training that doesn't fit in the memory."""
        check_memory(
            self.model.title,
            self.bytes_needed(shape),
            self.device,
            self.advise_scale,
            "weights, gradients and its share of Adam's states",
        )
        # The last rank prints the iterations.
        return dataclasses.replace(request, result_node=request.num_nodes - 1)


class Megatron(LoggedTraining):
    """Megatron's own program, with its options."""

    clone = CLONE
    resolver = Resolver

    def launch(self, request: Request) -> Launch:
        """Return the command for a request."""
        return CLONE.launch(
            request, [], [CLONE.script, *options(request)], {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
        )


LAUNCHER = Megatron()


def options(request: Request) -> list[str]:
    """Return Megatron's options for the training that all frameworks are given."""
    model = models.by_name(request.model)
    run = described(request)
    settings = {name.replace("_", "-"): value for name, value in launched("megatron", run).items()}
    settings |= {
        # The null tokenizer adds one token for the end of a document.
        "vocab-size": (run.model_config.vocab_size or 1) - 1,
        "make-vocab-size-divisible-by": 1,
        "max-position-embeddings": request.sequence_length,
        "norm-epsilon": model.settings["rms_norm_eps"],
        "rotary-base": f"{model.settings['rope_theta']:.0f}",
        "optimizer": "adam",  # Megatron's name for AdamW
        "min-lr": run.optimizer.learning_rate,
        "attention-dropout": 0,
        "hidden-dropout": 0,
        "normalization": "RMSNorm",
        "position-embedding-type": "rope",
        "tokenizer-type": "NullTokenizer",
        "log-interval": 1,
        "eval-iters": 0,
    }
    if minutes := time_limit.megatrons(request.time_limit_s, request.num_nodes):
        settings["exit-duration-in-mins"] = minutes
    flags = ["swiglu", "group-query-attention", "disable-bias-linear"]
    flags += ["mock-data", "log-throughput", "use-distributed-optimizer"]
    # As Megatron's own examples/llama/train_llama3_8b_h100_fp8.sh has them.
    flags += [
        "overlap-grad-reduce",
        "overlap-param-gather",
        "cross-entropy-loss-fusion",
        "manual-gc",
    ]
    flags.append("no-create-attention-mask-in-dataloader")
    if model.architecture == "Qwen2Config":
        flags.append("add-qkv-bias")
    if not run.model_config.tie_word_embeddings:
        flags.append("untie-embeddings-and-output-weights")
    if request.precision in FP8_RECIPES:
        settings |= {"fp8-format": "hybrid", "fp8-recipe": FP8_RECIPES[request.precision]}
    if request.precision != "fp32":
        flags.append("fp16" if request.precision == "fp16" else "bf16")
    return [
        *(f"--{flag}" for flag in flags),
        *(f"--{name}={value}" for name, value in settings.items()),
    ]
