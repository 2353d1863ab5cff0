"""torchtitan's Llama 3.1 8B as a request describes it, for torchtitan's options --module and --config.

torchtitan has these since February 2026. Its other options change from month to month, the fields behind them less.
Checked with torchtitan's commits baba6d8 (2026-06-04), 4a93ee4 (2026-08-12) and b5bcd76 (2026-08-21).
"""

from __future__ import annotations

import dataclasses
import os
import shlex
from typing import Any

from tprimat.frameworks.loops import recipe
from tprimat.frameworks.request import Request
from tprimat.results.run import Optimizer

DATA = "c4_test"
"""The extract of C4 in torchtitan's clone."""

REQUEST = "TPRIMAT_REQUEST"
"""The environment variable with the arguments of a Request."""


def requested() -> Any:
    """Return torchtitan's own configuration of Llama 3.1 8B with the choices of the request."""
    from torchtitan.models.llama3 import config_registry

    request = Request.from_arguments(shlex.split(os.environ[REQUEST]))
    settings = recipe.hyperparameters(recipe.shape_of(request))
    config: Any = config_registry.llama3_8b()
    # Its own default profiles every hundredth step.
    config.profiler.enable_profiling = False
    config.metrics.log_freq, config.metrics.enable_tensorboard = 1, False
    config.compile.enable = True
    config.lr_scheduler.warmup_steps, config.lr_scheduler.decay_ratio = 0, 0.0
    config.optimizer = _optimizer(config.optimizer, settings)
    config.dataloader.dataset = _data(config.dataloader.dataset)
    _set_batch(config.training, request)
    config.debug.seed = request.seed
    config.training.steps, config.training.max_norm = request.steps, settings.gradient_clipping
    if hasattr(config.activation_checkpoint, "mode"):
        config.activation_checkpoint.mode = "none"
    else:
        # From 2026-06-15 on a policy each, and None for none.
        config.activation_checkpoint = None
    return config


def _optimizer(config: Any, settings: Optimizer) -> Any:
    values = {"lr": settings.learning_rate, "eps": settings.epsilon, "weight_decay": settings.weight_decay}
    betas = settings.beta1, settings.beta2
    if not hasattr(config, "lr"):
        # From 2026-06-04 on settings are those of groups of parameters.
        from torchtitan.components.optimizer import default_adamw

        return default_adamw(**values, betas=betas)
    for name, value in {**values, "beta1": betas[0], "beta2": betas[1]}.items():
        setattr(config, name, value)
    return config


def _data(dataset: Any) -> Any:
    if isinstance(dataset, str):
        return DATA
    from torchtitan.hf_datasets.text_datasets import DATASETS

    return dataclasses.replace(dataset, dataset=DATASETS[DATA])


def _set_batch(training: Any, request: Request) -> None:
    micro, batch, length = request.micro_batch_size, request.global_batch_size, request.sequence_length
    if hasattr(training, "seq_len"):
        training.seq_len, training.local_batch_size, training.global_batch_size = length, micro, batch
        return
    # From 2026-08-20 on in tokens.
    training.max_context_length = length
    training.num_tokens_per_microbatch_per_dp_rank = micro * length
    training.num_tokens_per_train_step = batch * length
