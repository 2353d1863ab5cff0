"""torchtitan's Llama 3.1 8B as a request describes it, for torchtitan's options --module and
--config.

torchtitan has these since February 2026. Its other options change from month to month, the fields
that they set less often. Checked with torchtitan 0.3.0 and its commits baba6d8 (2026-06-04),
4a93ee4 (2026-08-12) and b5bcd76 (2026-08-21).
"""

from __future__ import annotations

import dataclasses
import os
import shlex
from typing import Any

from tprimat.frameworks.loops import recipe
from tprimat.frameworks.request import Request
from tprimat.results.fields import FieldValues
from tprimat.settings.rows import assign, launched

DATA = "c4_test"
"""The extract of C4 in torchtitan's clone."""

REQUEST = "TPRIMAT_REQUEST"
"""The environment variable with the arguments of a Request."""


def requested() -> Any:
    """Return torchtitan's own configuration of Llama 3.1 8B with the choices of the request."""
    from torchtitan.models.llama3 import config_registry

    request = Request.from_arguments(shlex.split(os.environ[REQUEST]))
    chosen = launched(
        "torchtitan", recipe.described(request, recomputation="none"), but=("optimizer", "schedule")
    )
    config = config_registry.llama3_8b()
    # Its own default profiles every hundredth step.
    config.profiler.enable_profiling = False
    config.metrics.log_freq = 1
    config.metrics.enable_tensorboard = False
    config.compile.enable = True
    config.lr_scheduler.warmup_steps = 0
    config.lr_scheduler.decay_ratio = 0.0
    config.dataloader.dataset = _data(config.dataloader.dataset)
    if not hasattr(config.optimizer, "lr"):
        # From 2026-06-04 on settings are those of groups of parameters.
        from torchtitan.components.optimizer import default_adamw

        values = _taken(chosen, "optimizer", "lr", "eps", "weight_decay", "beta1", "beta2")
        config.optimizer = default_adamw(betas=(values.pop("beta1"), values.pop("beta2")), **values)
    if not hasattr(config.activation_checkpoint, "mode"):
        # From 2026-06-15 on a policy each, and None for none.
        _taken(chosen, "activation_checkpoint", "mode")
        config.activation_checkpoint = None
    if not hasattr(config.training, "seq_len"):
        # From 2026-08-20 on in tokens.
        length, micro, batch = _taken(
            chosen, "training", "seq_len", "local_batch_size", "global_batch_size"
        ).values()
        config.training.max_context_length = length
        config.training.num_tokens_per_microbatch_per_dp_rank = micro * length
        config.training.num_tokens_per_train_step = batch * length
    assign(config, chosen)
    return config


def _taken(chosen: FieldValues, part: str, *names: str) -> FieldValues:
    return {name: chosen.pop(f"{part}.{name}") for name in names}


def _data(dataset: Any) -> Any:
    if isinstance(dataset, str):
        return DATA
    from torchtitan.hf_datasets.text_datasets import DATASETS

    return dataclasses.replace(dataset, dataset=DATASETS[DATA])
