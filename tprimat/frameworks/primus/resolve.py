"""The choices of a training by Primus: its configuration, its overrides, the GPUs."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

from tprimat.catalog import models
from tprimat.catalog.models import Model
from tprimat.errors import UsageError
from tprimat.frameworks import defaults, resolve, scales
from tprimat.frameworks.loops import time_limit
from tprimat.frameworks.primus import DEFAULT_PRECISION, match, tokenizer, torchtitan
from tprimat.frameworks.primus import config as primus_config
from tprimat.frameworks.primus.config import Configuration
from tprimat.frameworks.primus.installation import (
    BORROWED,
    PRECISIONS,
    ConfigFile,
    Installation,
    from_environment,
    gpu_of,
)
from tprimat.frameworks.primus.request import PrimusRequest, PrimusTraining
from tprimat.frameworks.request import Request
from tprimat.frameworks.scales import Scale
from tprimat.machine.host import Environ
from tprimat.results.fields import FieldValues
from tprimat.results.run import ModelConfig, TrainingConfig
from tprimat.settings.rows import DIVISION, SETTINGS

BACKENDS = ("megatron", "light-megatron", torchtitan.NAME)
"""Frameworks of Primus whose parameters are known here."""

DEFAULT_GPUS = 8
"""The default of Primus."""

_DOES_NOT_LOG = ("INFO", "SUCCESS", "WARNING", "ERROR", "CRITICAL")
"""Levels at which the iteration lines, which are of level DEBUG, don't appear."""


class Planner(resolve.Resolver):
    """The choices of Primus: those of an experiment's configuration, under a command line with what
    is requested.

    What Megatron would refuse after minutes of starting is refused here. A CPU stands for GPUs that
    are unknown.

    Attributes:
        environ: holds NNODES, NODE_RANK, GPUS_PER_NODE, and what configurations ask for.
    """

    requested: PrimusRequest
    environ: Environ = os.environ
    full_size = True

    def plan(self, output_dir: Path) -> PrimusTraining:
        """Return the training. Raises UsageError or UnreadableError for what can't be met, with
        what would do.
        """
        training = self.resolve(output_dir)
        assert isinstance(training, PrimusTraining)
        return training

    def prepare(self) -> None:
        """Find the installation and the configuration; put what is requested on the command
        line.
        """
        self.installation = self.requested.installation or from_environment(self.environ)
        if problem := self.installation.problem():
            raise UsageError(problem, heading="no-primus")
        launcher = self.requested.launcher or self.installation.launcher
        if launcher is None or not self.installation.has(launcher):
            raise UsageError(
                f"{self.installation.path} has no {launcher}: it has {self.installation.launcher}",
                heading="no-primus",
            )
        self.launcher = launcher
        if self.requested.precision is not None and self.requested.precision not in PRECISIONS:
            raise UsageError(
                f"Primus trains in {', '.join(PRECISIONS)}, not in {self.requested.precision}:"
                " choose one of them",
                heading="precision",
            )
        self.trains_on, self.node = self._machines()
        source, base = self._base()
        self.notes += [*source.notes, *base.notes]
        self.words = self._words(base, source.arguments)
        self.configuration = base.with_arguments(self.words)
        if (
            base.framework != torchtitan.NAME
            and tokenizer.is_mock(self.configuration)
            and (
                reason := tokenizer.unobtainable(
                    self.configuration, self.installation, self.environ
                )
            )
        ):
            self.words += self.configuration.arguments_for(tokenizer.null_tokenizer(self.model))
            self.notes.append(
                f"{reason[0]}: mock data need none, so NullTokenizer with the same vocabulary is"
                " used"
            )
            self.configuration = base.with_arguments(self.words)
        self.setup = primus_config.setup(self.configuration, self.trains_on[0])

    def precision(self) -> str:
        """Return the precision of the configuration."""
        return self.setup.training_config.precision or "unknown"

    def size(self) -> tuple[Scale, ModelConfig]:
        """Return the full size, and the shape."""
        return scales.by_name(scales.FULL), self.setup.model_config

    def choose_defaults(self, scale: Scale | None, precision: str) -> TrainingConfig:
        """Return the sizes of the configuration."""
        return self.setup.training_config

    def processes(self) -> tuple[int, int]:
        """Return how many GPUs train, and on how many machines."""
        return self.trains_on

    def divide(self, shape: ModelConfig, gpus: int) -> tuple[int, int, int]:
        """Return tensor, pipeline and context parallelism. Raises UsageError if they don't divide
        the GPUs.
        """
        tensor, pipeline, context = (
            getattr(self.setup.parallelism_config, name) or 1 for name in DIVISION
        )
        share = tensor * pipeline * context
        if gpus % share:
            sizes = {"TP": tensor, "PP": pipeline, "CP": context}
            product = " × ".join(f"{name} {size}" for name, size in sizes.items() if size > 1)
            raise UsageError(
                f"{gpus} GPUs cannot be divided by {product} = {share}",
                hint=f"use a multiple of {share} GPUs, or other parallel sizes",
                heading="batch-sizes",
            )
        return tensor, pipeline, context

    def batch(self, replicas: int, gpus: int) -> tuple[int, int]:
        """Return micro and global batch size. Raises UsageError if one is no multiple of the
        other.
        """
        micro = self.row.micro_batch_size or 0
        batch = self.row.global_batch_size or 0
        if micro and batch:
            resolve.check_batch(batch, micro, replicas)
        return micro, batch

    def complete(self, request: Request, shape: ModelConfig) -> PrimusTraining:
        """Return the request with Primus' own fields."""
        settings = self.configuration.settings
        seed = settings.value("seed")
        stated = {
            "platform": "amd",
            "steps": settings.count("train_iters") or 0,
            "sequence_length": self.row.sequence_length or 0,
            "seed": seed if isinstance(seed, int) else defaults.SEED,
            "node_index": self.node,
            "result_node": request.num_nodes - 1,
            "origins": (
                {
                    row.request: settings[row.megatron].text
                    for row in SETTINGS
                    if row.megatron in settings
                }
                | {**(request.origins or {})}
            ),
        }
        return PrimusTraining(
            **{**vars(request), **stated},
            installation=self.installation,
            launcher=self.launcher,
            configuration=self.configuration,
            setup=self.setup,
            arguments=tuple(self.words),
            visible=_visible(self.environ),
            notes=tuple(self.notes),
        )

    def _machines(self) -> tuple[tuple[int, int], int]:
        """Return how many GPUs train on how many machines, and the number of this one."""
        nodes = _whole(self.environ, "NNODES", 1, least=1)
        node = _whole(self.environ, "NODE_RANK", 0, least=0)
        if node >= nodes:
            raise UsageError(
                f"NODE_RANK is {node} with {nodes} nodes; ranks count from 0", heading="wrong-usage"
            )
        here = self.device.devices if self.device.platform != "cpu" else DEFAULT_GPUS
        if self.requested.num_nodes is None:
            on_each = self.requested.num_gpus or _whole(
                self.environ, "GPUS_PER_NODE", here, least=1
            )
            return (nodes * on_each, nodes), node
        gpus = self.requested.num_gpus or self.requested.num_nodes * here
        resolve.check_nodes(gpus, self.requested.num_nodes)
        return (gpus, self.requested.num_nodes), 0

    def _base(self) -> tuple[ConfigFile, Configuration]:
        """Return the configuration's file, and what it sets without a command line."""
        own = self.requested.config
        if own is None:
            precision = self.requested.precision or DEFAULT_PRECISION
            source = self.installation.config(self.model.name, gpu_of(self.device), precision)
        else:
            source = ConfigFile(own)
        base = primus_config.read(source.path, self.installation.path, self.environ)
        if base.framework not in BACKENDS:
            raise UsageError(
                f"{base.path}: is for {base.framework or 'no framework'}, and what is started from"
                " here is Primus' Megatron or torchtitan",
                hint=(
                    "start it with Primus itself; tprimat extract-primus --log-file FILE reads"
                    " its log"
                ),
                heading="primus-config",
            )
        configured = primus_config.setup(base, None).model
        if configured != self.model.name and own is not None:
            raise UsageError(
                f"{base.path}: is a configuration of {configured or 'an unknown model'}, not of"
                f" {self.model.title}: PRIMUS_CONFIG must be for the requested model",
                heading="primus-config",
            )
        return source, base

    def _words(self, base: Configuration, added: Sequence[str]) -> list[str]:
        """Return the command line: what is requested, over what `added` makes up for in the
        configuration.
        """
        gpus = self.trains_on[0]
        words = [*_sizes(self.requested, base, self.trains_on[1]), *added]
        if base.framework == torchtitan.NAME:
            batch = _whole_batch(base.with_arguments([*words, *self.requested.passed]), gpus)
            words += base.arguments_for({"global_batch_size": batch})
        if self.requested.config is None and self.model.name in BORROWED:
            words += base.arguments_for(_own_shape(self.model))
            lent = models.by_name(BORROWED[self.model.name]).title
            self.notes.append(
                f"Primus has no configuration for {self.model.title}: that for {lent} is used, with"
                f" {self.model.name}'s shape"
            )
        if self.requested.matched is not None:
            run, named = self.requested.matched
            if base.framework == torchtitan.NAME:
                raise UsageError(
                    f"--match doesn't know the settings of Primus' torchtitan ({base.path.name})",
                    hint="give the sizes one by one, or leave PRIMUS_CONFIG out",
                    heading="cant-match",
                )
            matched, more = match.arguments(run, base.with_arguments(words), gpus, named)
            words = [*matched, *words]
            self.notes = [*self.notes, *more]
        if self.requested.precision is not None and self.requested.config is not None:
            words += _precision(base.with_arguments(words), self.requested.precision, gpus)
        return [*words, *_logging(base), *self.requested.passed]


def models_of(
    named: str, config: Path | None, installation: Installation, environ: Environ
) -> tuple[tuple[str, ...], str | None]:
    """Return the models to train, and the one that the user's own configuration is for.

    They are named `all`, or with commas between them. Raises UsageError for an unknown one.
    """
    names = models.names()
    if named != "all":
        names = tuple(dict.fromkeys(models.by_name(name.strip()).name for name in named.split(",")))
        if config is None or len(names) == 1:
            return names, names[0] if config is not None else None
    if config is None:
        return names, None
    model = model_of(config, installation, environ, ": unset PRIMUS_CONFIG, or choose one of these")
    return tuple(dict.fromkeys((*names, model))), model


def model_of(config: Path, installation: Installation, environ: Environ, advice: str = "") -> str:
    """Return the model that a user's own configuration is for. Raises UsageError, with advice, for
    an unknown one.
    """
    model = primus_config.setup(primus_config.read(config, installation.path, environ), None).model
    if model not in models.names():
        raise UsageError(
            f"{config}: is a configuration of {model or 'an unknown model'}, not one of "
            f"{', '.join(models.names())}{advice}",
            heading="primus-config",
        )
    return model


def _sizes(requested: PrimusRequest, base: Configuration, nodes: int) -> list[str]:
    words = [] if requested.steps is None else [base.option("train_iters"), str(requested.steps)]
    fields = ("global_batch_size", "micro_batch_size", "sequence_length", "seed", *DIVISION)
    words += base.arguments_for(
        {name.replace("sequence", "seq"): getattr(requested, name) for name in fields}
    )
    minutes = time_limit.megatrons(requested.time_limit_s, nodes)
    if requested.exit_after_s is not None:
        minutes = max(1, math.ceil(requested.exit_after_s / 60))
    if minutes and base.framework != torchtitan.NAME:
        words += ["--exit_duration_in_mins", str(minutes)]
    return words


def _whole_batch(configuration: Configuration, gpus: int) -> int | None:
    """Return torchtitan's global batch: unless it is given, one micro-batch of each replica."""
    count = configuration.settings.count
    micro = count("micro_batch_size")
    return count("global_batch_size") or (
        micro and micro * gpus // math.prod(count(name) or 1 for name in DIVISION)
    )


def _own_shape(model: Model) -> FieldValues:
    """Return Primus' parameters that make another model's configuration this one's."""
    names = (
        "num_layers",
        "hidden_size",
        "ffn_hidden_size",
        "num_attention_heads",
        "num_query_groups",
    )
    return {
        **{name: getattr(model.shape, name) for name in names},
        "rotary_base": round(float(str(model.settings["rope_theta"]))),
        "norm_epsilon": model.settings["rms_norm_eps"],
        **tokenizer.null_tokenizer(model),
    }


def _precision(configuration: Configuration, precision: str, num_gpus: int) -> tuple[str, ...]:
    """Return what makes a user's own configuration train in a precision."""
    own = primus_config.setup(configuration, num_gpus).training_config.precision
    if own == precision:
        return ()
    if precision not in match.PRECISION_ARGUMENTS or configuration.framework == torchtitan.NAME:
        raise UsageError(
            f"{configuration.path}: is for {own}, and {precision} needs its own configuration",
            hint="set it with PRIMUS_CONFIG=FILE",
            heading="precision",
        )
    return match.PRECISION_ARGUMENTS[precision]


def _logging(configuration: Configuration) -> list[str]:
    """Return what makes every iteration appear in the log, none of them under torchtitan's
    profiler.
    """
    words = []
    # torchtitan's step lines are of level INFO.
    levels = [*_DOES_NOT_LOG]
    if configuration.framework == torchtitan.NAME:
        levels.remove("INFO")
    for name in ("stderr_sink_level", "sink_level"):
        level = configuration.settings.value(name)
        if level in levels or (name == "stderr_sink_level" and level is None):
            words += [f"--{name}", "DEBUG"]
    if configuration.settings.value("log_interval") not in (1, None):
        words += [configuration.option("log_interval"), "1"]
    if configuration.settings.value("profiling.enable_profiling") is True:
        words += ["--profiling.enable_profiling", "False"]
    return words


def _visible(environ: Environ) -> str | None:
    """Return the GPUs that the environment allows, which Primus' launchers would replace by the
    first ones.
    """
    names = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    allowed = next((text for name in names if (text := environ.get(name, "").strip())), None)
    if allowed is not None and environ.get("ROCR_VISIBLE_DEVICES", "").strip():
        raise UsageError(
            f"Primus replaces HIP_VISIBLE_DEVICES ({allowed}), which ROCR_VISIBLE_DEVICES limits as"
            " well",
            hint="set only ROCR_VISIBLE_DEVICES, to the GPUs to train on",
            heading="wrong-usage",
        )
    return allowed


def _whole(environ: Environ, name: str, default: int, *, least: int) -> int:
    text = environ.get(name, "").strip()
    if not text:
        return default
    if not re.fullmatch(r"\d{1,6}", text) or int(text) < least:
        raise UsageError(
            f"{name} must be a whole number, at least {least}, not {text!r}", heading="wrong-usage"
        )
    return int(text)
