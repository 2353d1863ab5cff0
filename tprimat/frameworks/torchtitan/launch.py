"""The framework `torchtitan`: its own trainer, on the small extract of C4 in its clone.

It trains Llama 3.1 8B at full size, with its own weights.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from tprimat.errors import UsageError
from tprimat.frameworks import scales
from tprimat.frameworks.logged_training import Clone, ExternalResolver, LoggedTraining
from tprimat.frameworks.loops.recipe import described
from tprimat.frameworks.request import Launch, Request
from tprimat.frameworks.torchtitan import registry
from tprimat.results.run import ModelConfig
from tprimat.settings.rows import launched

CLONE = Clone(
    variable="TORCHTITAN_PATH",
    title="torchtitan",
    script="torchtitan/train.py",
    data="torchtitan trains on text with its own tokenizer (it wants Llama 3.1's in its assets/)",
)

REGISTRY = "torchtitan/models/llama3/config_registry.py"
"""Where torchtitan keeps its configurations from 2026-02-23 on."""

CONFIGURATION = "torchtitan/models/llama3/train_configs/llama3_8b.toml"
"""The configuration of releases 0.2.0 to 0.2.2."""

OPTIONS, NEEDED = "torchtitan/config/job_config.py", "class Compile"
"""Where these define their options, and one that 0.1.0 lacks."""


def too_old(clone: Path) -> str | None:
    """Return why a clone is too old, and what to do; None if it isn't."""
    options = clone / OPTIONS
    if (clone / REGISTRY).is_file() or (
        options.is_file() and NEEDED in options.read_text(encoding="utf-8")
    ):
        return None
    return (
        f"{clone} is older than torchtitan 0.2.0, which lacks --compile.enable: git -C {clone}"
        " checkout v0.2.2"
    )


class Resolver(ExternalResolver):
    """The choices of torchtitan, which shards the model over the GPUs: one GPU's memory decides
    nothing.
    """

    clone = CLONE
    full_size = True

    def prepare(self) -> None:
        """Refuse all but Llama 3.1 8B."""
        if reason := too_old(CLONE.folder()):
            raise UsageError(reason, heading="no-framework")
        if self.model.name not in self.framework.models:
            raise UsageError(
                f"torchtitan has no {self.model.name}: choose --model {self.framework.models[0]}",
                heading="unknown-model",
            )
        if self.requested.scale not in (None, scales.FULL) or self.requested.shape is not None:
            raise UsageError(
                "torchtitan trains Llama 3.1 8B at full size only", heading="unknown-scale"
            )
        super().prepare()

    def complete(self, request: Request, shape: ModelConfig) -> Request:
        """Return the request as it is."""
        return request


class Torchtitan(LoggedTraining):
    """torchtitan's own program, with its options or a configuration of ours."""

    clone = CLONE
    full_size_only = True
    resolver = Resolver

    def unavailable(self) -> str | None:
        """Return why torchtitan can't train here and what to do; None if it can."""
        return super().unavailable() or too_old(CLONE.folder())

    def launch(self, request: Request) -> Launch:
        """Return the command for a request."""
        # Every process prints each step; one is enough.
        launcher = ["--local-ranks-filter=0", "--role=rank", "--tee=3"]
        environment = {"NO_COLOR": "1"}
        if (CLONE.folder() / REGISTRY).is_file():
            words = [f"--module={registry.__name__}", f"--config={registry.requested.__name__}"]
            environment[registry.REQUEST] = shlex.join(request.to_arguments())
        else:
            words = options(request)
        return CLONE.launch(request, launcher, ["-m", "torchtitan.train", *words], environment)


LAUNCHER = Torchtitan()


def options(request: Request) -> list[str]:
    """Return the options of torchtitan's releases 0.2.0 to 0.2.2."""
    # Its schedules have other names: none of them is needed.
    settings = launched(
        "torchtitan", described(request, recomputation="none"), but=("optimizer", "schedule")
    )
    # From 0.2.1 on the seed has the name of the rows.
    if "class Debug" not in (CLONE.folder() / OPTIONS).read_text(encoding="utf-8"):
        settings["training.seed"] = settings.pop("debug.seed")
    return [
        f"--job.config_file={CONFIGURATION}",
        f"--training.dataset={registry.DATA}",
        *(f"--{name}={value}" for name, value in settings.items()),
        "--lr_scheduler.warmup_steps=0",
        "--lr_scheduler.decay_ratio=0",
        "--compile.enable",
        # The configuration profiles every hundredth step.
        "--profiling.no-enable_profiling",
        "--metrics.no-enable_tensorboard",
        "--metrics.log_freq=1",
    ]
