"""A recipe of Megatron-Bridge with a request's changes. Runs inside Megatron-Bridge's environment.

Classes, fields and functions as in Megatron-Bridge 067f987, and its scripts/training/run_recipe.py
for what NVIDIA's launcher adds to a recipe.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

from tprimat import files
from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks.loops import recipe as loops
from tprimat.frameworks.megatron_bridge.defaults import HUB, PERFORMANCE
from tprimat.frameworks.megatron_bridge.launch import hub_folder
from tprimat.frameworks.request import Request
from tprimat.settings.rows import DIVISION, assign, launched

PACKAGES = ("megatron.bridge.perf_recipes.llama", "megatron.bridge.recipes")
"""Where recipes are exported: performance recipes by the model's family, general ones together."""

REVISION = "0" * 40
"""Stands for the commit of a model on the Hub."""

WARMUP_STEPS = 10
"""Warm-up steps of the learning rate, in performance recipes."""


def build(request: Request) -> Any:
    """Return the ConfigContainer of a request. Raises UsageError for a recipe or field that this
    version lacks.
    """
    write_configuration(request)
    name = request.recipe or ""
    make = None
    for package in PACKAGES:
        make = make or getattr(importlib.import_module(package), name, None)
    if make is None:
        raise UsageError(f"this Megatron-Bridge has no recipe {name}", heading="no-framework")
    config = make()
    # A general recipe's vocabulary would be its tokenizer's, of 32,000 words.
    config.tokenizer.tokenizer_type = "NullTokenizer"
    config.tokenizer.tokenizer_model = None
    config.tokenizer.use_tokenizer_vocab_size = False
    config.dataset.blend = None
    chosen = launched("megatron_bridge", loops.described(request, *DIVISION))
    assign(config, {**chosen, "train.train_iters": request.all_steps})
    config.scheduler.lr_warmup_iters = min(WARMUP_STEPS, request.steps // 2)
    if request.tensor_model_parallel_size == 1:
        config.model.sequence_parallel = False
    if request.pipeline_model_parallel_size > 1:
        import torch

        config.model.pipeline_dtype = torch.bfloat16
    config.checkpoint.save = config.checkpoint.load = None
    config.validation.eval_iters = 0
    config.logger.log_interval = 1
    config.logger.tensorboard_dir = None
    if request.precision == "bf16" and name in {row.source for row in PERFORMANCE}:
        # As run_recipe.py does; the recipe itself doesn't.
        config.optimizer.use_precision_aware_optimizer = True
    if request.settings:
        from megatron.bridge.training.utils import omegaconf_utils

        try:
            config = omegaconf_utils.process_config_with_overrides(
                config, cli_overrides=list(request.settings)
            )
        except omegaconf_utils.OverridesError as error:
            raise UsageError(f"--set: {str(error).splitlines()[0]}", heading="nemo-set") from error
    return config


def write_configuration(request: Request) -> None:
    """Write the model's config.json into a cache of the Hub, where the recipe finds it: Llama's is
    gated.

    It has the shape of the request, so that the recipe builds this one.
    """
    model = models.by_name(request.model)
    shape = loops.shape_of(request)
    content = loops.configuration(model, shape, request.sequence_length).to_dict()
    content |= {
        "architectures": [model.architecture.replace("Config", "ForCausalLM")],
        "dtype": "bfloat16",
    }
    folder = hub_folder(request) / f"models--{HUB[request.model].replace('/', '--')}"
    written = {
        folder / "snapshots" / REVISION / "config.json": json.dumps(content),
        folder / "refs" / "main": REVISION,
    }
    for path, text in written.items():
        files.write_output(path, text.encode(), "--output-dir")
