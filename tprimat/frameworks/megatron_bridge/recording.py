"""The recorder as a callback of Megatron-Bridge's training loop
(megatron.bridge.training.callbacks, 067f987).

The loop calls each method with a CallbackContext. It asks for methods by name, so none of its
classes is needed here.
"""

from __future__ import annotations

import math
import os
from typing import Any

from tprimat.catalog import shapes
from tprimat.frameworks.loops import processes, profiled
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.frameworks.nemo.described import optimizer_of, settings_of, shape_and_scale
from tprimat.frameworks.request import MOCK, Request
from tprimat.record import ranks
from tprimat.record.describe import number
from tprimat.record.options import Benchmark
from tprimat.record.outcome import stopped_by
from tprimat.record.progress import reporter
from tprimat.record.scalars import LOSS, NORM
from tprimat.results.fields import FieldValues
from tprimat.results.run import Data, ModelConfig, Optimizer, ParallelismConfig, Run, TrainingConfig
from tprimat.settings.rows import DIVISION

COVERS = (
    "from one callback on_train_step_end of Megatron-Bridge to the next, data and its own logging"
    " included; the first from the start of the training, with any compilation in it; without"
    " evaluation and saving, which are off"
)

LOSS_KEY = "lm loss"

ABSENT = {
    LOSS: "only processes of the last pipeline stage compute it",
    NORM: "Megatron-Bridge reported none",
}


class BridgeBenchmark(Benchmark):
    """Times the steps of a request's training."""

    _window: profiled.Window
    _settings: FieldValues

    def __init__(self, request: Request) -> None:
        self.request = request
        self.process = processes.this_one(request.platform)
        setup = request.to_run(data=Data(kind=MOCK))
        super().__init__(request.output_dir, setup=setup, on_step=reporter(self.process.rank))

    def on_train_start(self, context: Any) -> None:
        """Start the first step; the configuration is final by now."""
        config = context.state.cfg
        recording = self._begin(self.process, covers=COVERS, absent=ABSENT)
        # Megatron-Bridge reduces it over all replicas.
        recording.values.is_global = True
        self._settings = {
            "recipe": self.request.recipe,
            **dict(settings_of(("model", "ddp"), (config.model, config.ddp))),
            "optimizer.use_precision_aware_optimizer": (
                config.optimizer.use_precision_aware_optimizer
            ),
            **{f"env_vars.{name}": os.environ.get(name) for name in config.env_vars},
        }
        agree = processes.vote_of_the_first(ranks.open_store(), self.process.rank)
        limit = TimeLimit(
            self.request.steps, self.request.time_limit_s, self.process.world_size, agree
        )
        self._window = profiled.window(
            self.request, limit, first_process=self.process.is_first, before=recording.end_measuring
        )
        recording.start(
            describe(config, self.process.world_size), step=context.state.train_state.step
        )

    def on_train_step_start(self, context: Any) -> None:
        """Note the learning rate; at the step's end it is the next one's."""
        if self._recording:
            self._recording.values.note_rate(context.optimizer)

    def on_train_step_end(self, context: Any) -> None:
        """End a step, which the loop counts after this; end the training when its time is up."""
        if self._recording is None:
            return
        step = context.state.train_state.step + 1
        values = self._recording.values
        loss = values.take(LOSS, (context.loss_dict or {}).get(LOSS_KEY))
        self._recording.step_end(step, values.of([loss], values.take(NORM, context.grad_norm)))
        reason = self._window.reached(step)
        if reason is not None:
            self.stop_reason = reason
            # The loop asks this field before each step.
            context.state.cfg.train.train_iters = step

    def on_train_end(self, context: Any) -> None:
        """Write the result."""
        if self._recording:
            self._recording.end(stopped_by(self.stop_reason), regular=True)

    def fail(self, error: BaseException) -> None:
        """Write what there is of a training that an exception ended, with the reason."""
        if self._recording:
            self._recording.fail(error)

    def completed(self, run: Run) -> Run:
        """Add the settings that ran, and mark the profiled steps."""
        shape, scale = shape_and_scale(run.model_config, self.request)
        return self._window.noted(
            run.but(framework_config=self._settings, model_config=shape, scale=scale)
        )


def describe(config: Any, world_size: int) -> Run:
    """Return a ConfigContainer's values on its training, once the loop has completed it."""
    sizes = {name: getattr(config.model, name) for name in DIVISION}
    replicas = world_size // math.prod(sizes.values())
    precision, detail = precision_of(config.model)
    settings = Optimizer(
        learning_rate=number(config.optimizer.lr),
        schedule=config.scheduler.lr_decay_style,
        beta1=number(config.optimizer.adam_beta1),
        beta2=number(config.optimizer.adam_beta2),
        epsilon=number(config.optimizer.adam_eps),
        weight_decay=number(config.optimizer.weight_decay),
    )
    return Run(
        model_config=shapes.of_config(config.model) or ModelConfig(),
        training_config=TrainingConfig(
            global_batch_size=config.train.global_batch_size,
            micro_batch_size=config.train.micro_batch_size,
            sequence_length=config.model.seq_length,
            max_steps=config.train.train_iters,
            num_gpus=world_size,
            precision=precision,
            precision_detail=detail,
            recomputation=config.model.recompute_granularity or "none",
            seed=config.rng.seed,
        ),
        parallelism_config=ParallelismConfig(
            strategy_name="Megatron-Bridge",
            expert_model_parallel_size=1,
            data_parallel_size=replicas,
            gradient_accumulation_steps=config.train.global_batch_size
            // (config.train.micro_batch_size * replicas),
            **sizes,
        ),
        optimizer=optimizer_of(settings, config.optimizer),
    )


def precision_of(model: Any) -> tuple[str, str]:
    """Return the precision of the matrix products, and how Megatron's configuration states it."""
    if getattr(model, "fp4", None):
        return "nvfp4", f"fp4={model.fp4}, fp4_recipe={model.fp4_recipe}"
    if getattr(model, "fp8", None):
        name = "mxfp8" if str(model.fp8_recipe).endswith("mxfp8") else "fp8"
        return name, f"fp8={model.fp8}, fp8_recipe={model.fp8_recipe}"
    return "bf16", "bf16 mixed"
