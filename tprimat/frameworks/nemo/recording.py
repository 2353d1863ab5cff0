"""BenchmarkCallback of a NeMo recipe: made from plain words, so that NeMo-Run can write it down.

Its own part: NeMo's timing of each step as a cross-check, and the settings that NeMo really ran with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from tprimat.catalog import models
from tprimat.frameworks import scales
from tprimat.frameworks.loops.processes import vote_of_the_first
from tprimat.frameworks.loops.recipe import shape_of
from tprimat.frameworks.loops.requested import RequestedBenchmark
from tprimat.frameworks.nemo import data
from tprimat.frameworks.request import Request
from tprimat.machine.host import is_emulated
from tprimat.record import ranks
from tprimat.results.run import Environment, ModelConfig, Optimizer, Run, TrainingConfig

NATIVE = "train_step_timing_seconds"
"""NeMo's `train_step_timing in s`: host time from one hook to another, without waiting for the GPU."""

TIMER = "train_step_timing"

SIZES = (*scales.SIZES, "head_dim", "tie_word_embeddings", "sliding_window")
"""Fields of a ModelConfig that make the shape of a model here."""

_SETTINGS = {
    "model.config": (
        "apply_rope_fusion", "attention_backend", "bias_activation_fusion", "bias_dropout_fusion", "cp_comm_type",
        "cross_entropy_loss_fusion", "cross_entropy_fusion_impl", "enable_cuda_graph", "fp8", "fp8_recipe",
        "gradient_accumulation_fusion", "masked_softmax_fusion", "overlap_p2p_comm", "persist_layer_norm",
        "recompute_method", "recompute_num_layers", "sequence_parallel", "tp_comm_overlap", "use_te_rng_tracker",
        "use_transformer_engine_op_fuser", "window_size",
    ),
    "trainer.strategy.ddp": (
        "average_in_collective", "bucket_size", "check_for_nan_in_grad", "fp8_param_gather", "grad_reduce_in_fp32",
        "overlap_grad_reduce", "overlap_param_gather", "use_distributed_optimizer",
    ),
}  # fmt: skip
"""Fields of Megatron's configurations of the model and of data parallelism that change speed or memory, by the path
of their owner in a recipe."""


class NemoBenchmark(RequestedBenchmark):
    """Times the steps of a NeMo training, whose request is given as Request.to_arguments() writes it."""

    def __init__(self, arguments: Sequence[str]) -> None:
        request = Request.from_arguments(list(arguments))
        # What the training itself doesn't show. The model's shape, batches, precision, parallelism and optimizer are
        # left to the recorder, which reads what really is: --set may have changed what was asked for.
        setup = request.to_run(
            training_config=TrainingConfig(max_steps=request.steps, seed=request.seed),
            environment=Environment(emulated=is_emulated()),
            data=data.described(request),
        )
        super().__init__(request, setup)
        self._timer: Any = None
        self._native: dict[int, float] = {}
        self._settings: dict[str, Any] = {}
        self._optimizer: Any = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the first step; NeMo has made its own changes by now."""
        self._native = {}
        self._timer = next((each.timer for each in trainer.callbacks if type(each).__name__ == "TimingCallback"), None)
        self._settings = dict(settings_of(trainer, pl_module))
        self._optimizer = getattr(getattr(pl_module, "optim", None), "config", None)
        super().on_train_start(trainer, pl_module)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """End a step."""
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        if self._timer is not None and TIMER in self._timer.timers:
            self._native[trainer.global_step] = float(self._timer[TIMER])

    def agreement(self, trainer: Any) -> Callable[[bool], bool]:
        """Return a vote through torch's store: NeMo's strategy reduces on the GPU."""
        return vote_of_the_first(ranks.open_store(), trainer.global_rank)

    def completed(self, run: Run) -> Run:
        """Add NeMo's own timing and the settings that ran."""
        run = super().completed(run)
        native = dict(run.native_metrics)
        if self._native and run.steps:
            native[NATIVE] = tuple(self._native.get(step) for step in run.steps)
        shape, scale = shape_and_scale(run.model_config, self.request)
        return msgspec.structs.replace(
            run,
            native_metrics=native,
            framework_config=self._settings,
            model_config=shape,
            scale=scale,
            optimizer=optimizer_of(run.optimizer, self._optimizer),
        )


def shape_and_scale(config: ModelConfig, request: Request) -> tuple[ModelConfig, str]:
    """Return the shape that the recorder read, with its number of parameters, and its scale."""
    # There are no sizes where the model never came to be; --set may have changed those of the request.
    requested = shape_of(request)
    if config.num_layers is None or all(getattr(config, size) == getattr(requested, size) for size in SIZES):
        return requested, request.scale
    is_complete = all(getattr(config, size) is not None for size in scales.SIZES)
    counted = scales.parameters(models.by_name(request.model), config) if is_complete else None
    return msgspec.structs.replace(config, num_parameters=counted), scales.OTHER


def optimizer_of(recorded: Optimizer, config: Any) -> Optimizer:
    """Return what the recorder saw, with name and clipping, which only Megatron's own configuration states."""
    name = getattr(config, "optimizer", None)
    if name is None:
        return recorded
    if name == "adam" and getattr(config, "decoupled_weight_decay", True):
        name = "AdamW"
    clipping = getattr(config, "clip_grad", None)
    return msgspec.structs.replace(recorded, name=name, gradient_clipping=float(clipping) if clipping else None)


def settings_of(trainer: Any, module: Any) -> Iterator[tuple[str, bool | int | float | str | None]]:
    """Yield the framework's settings as they are once the model is built, by their paths in a recipe."""
    owners = (getattr(module, "config", None), getattr(trainer.strategy, "ddp_config", None))
    for (path, names), owner in zip(_SETTINGS.items(), owners, strict=True):
        for name in names:
            if hasattr(owner, name):
                value = getattr(owner, name)
                is_plain = value is None or isinstance(value, (bool, int, float, str))
                yield f"{path}.{name}", value if is_plain else str(value)
