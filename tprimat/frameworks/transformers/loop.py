"""The training of the framework `transformers`: transformers.Trainer, as a program of its own:

    torchrun --standalone --nproc-per-node=2 -m tprimat.frameworks.transformers.loop --model=llama …

Its options are a Request's. What it trains is in recipe.py; the loop, DDP, the loader, clipping and
accumulation are the Trainer's.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import SequentialSampler
from transformers import Trainer, TrainingArguments, default_data_collator

from tprimat.frameworks.loops import processes, recipe
from tprimat.frameworks.loops.processes import TIMEOUT, joined, this_one
from tprimat.frameworks.loops.recipe import PREFETCHED, Recipe
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.frameworks.request import Request
from tprimat.frameworks.transformers.callback import TrainerBenchmarkCallback
from tprimat.record.progress import reporter
from tprimat.record.ranks import Process
from tprimat.results.fields import FieldValues


def train(request: Request) -> None:
    """Train, with the recorder watching, and write the result to the request's directory."""
    process = this_one(request.platform)
    training = recipe.of(request)
    recording = RequestedTrainerBenchmark(training, process)
    group = joined(process) if process.world_size > 1 else contextlib.nullcontext()
    # The Trainer wants a directory for its checkpoints, and none is written.
    with group, tempfile.TemporaryDirectory() as scratch:
        trainer = _trainer(training, process, recording, scratch)
        try:
            trainer.train()
        except BaseException as error:
            recording.failed(error)
            raise


class RequestedTrainerBenchmark(TrainerBenchmarkCallback):  # type: ignore[misc,unused-ignore]
    """Times the steps of a training that a request describes, and ends it, in good order, when its
    time is up.
    """

    def __init__(self, training: Recipe, process: Process) -> None:
        super().__init__(
            training.request.output_dir, setup=training.setup(), on_step=reporter(process.rank)
        )
        self._request = training.request
        self._process = process

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the first step."""
        super().on_train_begin(args, state, control, **kwargs)
        self._limit = TimeLimit(
            self._request.steps,
            self._request.time_limit_s,
            self._process.world_size,
            self._process.any_rank,
        )

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End an optimizer step."""
        super().on_step_end(args, state, control, **kwargs)
        reason = self._limit.reached(state.global_step)
        if reason is not None:
            self.stop_reason = reason
            control.should_training_stop = True


class Sequences:
    """The training's sequences in their order, for a loader that makes the micro-batches itself.

    Taken micro-batch by micro-batch in turn by the processes, as accelerate does it, they are those
    of recipe.MicroBatches.
    """

    def __init__(self, training: Recipe) -> None:
        self._training = training

    def __len__(self) -> int:
        return self._training.request.steps * self._training.request.global_batch_size

    def __getitem__(self, index: int) -> FieldValues:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[FieldValues]:
        """Return several at once, as torch's loader asks if it can."""
        rows = self._training.source.in_order(
            np.asarray(indices),
            self._training.request.global_batch_size,
            self._training.request.sequence_length,
        )
        return [{"input_ids": row, "labels": row} for row in torch.from_numpy(rows)]


class Pretraining(Trainer):  # type: ignore[misc]  # untyped here
    """The Trainer, on its sequences in their order; `recording` sees it wait for them."""

    recording: TrainerBenchmarkCallback

    def get_train_dataloader(self) -> Any:
        """Return the loader of the training."""
        loader = super().get_train_dataloader()
        # Newer versions of accelerate iterate over torch's own within theirs.
        self.recording.watch(getattr(loader, "base_dataloader", loader))
        return loader

    def _get_train_sampler(self, *_: Any) -> Any:
        return SequentialSampler(self.train_dataset)


def _trainer(
    training: Recipe, process: Process, recording: TrainerBenchmarkCallback, scratch: str
) -> Trainer:
    several = process.world_size > 1
    backend = None
    if several:
        backend = "nccl" if training.on_gpu else "gloo"
    arguments = TrainingArguments(
        output_dir=scratch,
        max_steps=training.request.steps,
        per_device_train_batch_size=training.request.micro_batch_size,
        gradient_accumulation_steps=training.request.gradient_accumulation_steps,
        lr_scheduler_type="constant",
        learning_rate=training.settings.learning_rate,
        max_grad_norm=training.settings.gradient_clipping,
        bf16=training.request.precision == "bf16",
        fp16=training.request.precision == "fp16",
        use_cpu=not training.on_gpu,
        seed=training.request.seed % 2**32,
        ddp_backend=backend,
        ddp_find_unused_parameters=False if several else None,
        ddp_timeout=round(TIMEOUT.total_seconds()),
        dataloader_num_workers=training.loader_workers,
        dataloader_prefetch_factor=PREFETCHED if training.loader_workers else None,
        dataloader_pin_memory=training.on_gpu,
        remove_unused_columns=False,
        # Its log would wait for the GPU, and for all processes, in each step.
        logging_strategy="no",
        logging_nan_inf_filter=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    model = training.weights(process.device)
    trainer = Pretraining(
        model=model,
        args=arguments,
        train_dataset=Sequences(training),
        data_collator=default_data_collator,
        optimizers=(training.optimizer(model), None),
        callbacks=[recording],
    )
    trainer.recording = recording
    # Otherwise it would divide by the tokens of the whole batch, which versions count differently.
    trainer.model_accepts_loss_kwargs = False
    clip = trainer.accelerator.clip_grad_norm_

    def clip_and_note(*arguments: Any, **named: Any) -> Any:
        """Hand the gradient norm to the recorder: a by-product of clipping, which the Trainer only
        logs.
        """
        norm = clip(*arguments, **named)
        recording.note_grad_norm(norm)
        return norm

    trainer.accelerator.clip_grad_norm_ = clip_and_note
    return trainer


if __name__ == "__main__":
    sys.exit(processes.main(sys.argv[1:], train))
