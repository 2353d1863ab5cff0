"""A training by Primus, every choice made: its configuration, its overrides, and the command that runs it.

Choices that Megatron would refuse after minutes of starting are refused here.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tprimat.catalog import models
from tprimat.catalog.models import Model
from tprimat.errors import UsageError
from tprimat.frameworks import defaults, scales
from tprimat.frameworks.primus import DEFAULT_PRECISION, match, tokenizer, torchtitan
from tprimat.frameworks.primus import config as primus_config
from tprimat.frameworks.primus.config import Configuration
from tprimat.frameworks.primus.installation import BORROWED, CLI, PRECISIONS, SCRIPT, ConfigFile, Installation, gpu_of
from tprimat.frameworks.request import DIVISION, Device, Launch, Request, RequestedConfig
from tprimat.frameworks.resolve import check_batch
from tprimat.results.run import Run

BACKENDS = ("megatron", "light-megatron", torchtitan.NAME)
"""Frameworks of Primus whose parameters are known here."""

DEFAULT_GPUS = 8
"""What Primus takes where nobody says."""

_SAFE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_DOES_NOT_LOG = ("INFO", "SUCCESS", "WARNING", "ERROR", "CRITICAL")
"""Levels at which the iteration lines, which are of level DEBUG, don't appear."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrimusRequest(RequestedConfig):
    """The options of a training by Primus; None where not given.

    Attributes:
        model: a name in models.py.
        matched: a result whose setup is to be taken over, with its name for messages.
        passed: words for Primus' own command line; they go before all else.
        launcher: one of LAUNCHERS.
    """

    model: str
    config: Path | None = None
    matched: tuple[Run, str] | None = None
    passed: tuple[str, ...] = ()
    launcher: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrimusTraining(Request):
    """A training by Primus, every choice made; sizes that the configuration leaves open are 0.

    Attributes:
        launcher: one of LAUNCHERS.
        configuration: what is in force, the command line included.
        setup: as the training's log would state it.
        arguments: the command line.
        visible: the GPUs that HIP_VISIBLE_DEVICES allows; None for all.
    """

    installation: Installation
    launcher: str
    configuration: Configuration
    setup: Run
    arguments: tuple[str, ...]
    visible: str | None
    notes: tuple[str, ...]

    @property
    def division(self) -> dict[str, int]:
        """Sizes of tensor, pipeline and context parallelism."""
        return dict(zip(("TP", "PP", "CP"), (getattr(self, name) for name in DIVISION), strict=True))

    @property
    def result_elsewhere(self) -> str | None:
        """Why another machine makes the result; None where this one does."""
        if super().result_elsewhere is None:
            return None
        last = self.num_nodes - 1
        return f"the iteration lines are printed by the last machine (NODE_RANK={last}): the result is made there"

    def launch(self, moment: str) -> Launch:
        """Return the command of a training that starts at a moment, of which there is only one.

        The folder of TRAIN_LOG, Primus' own copy of the log, must be there: some versions don't make it, and the
        default of some can't be written at all.
        """
        path, root = self.configuration.path.absolute(), self.installation.path
        config = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
        if not _SAFE.fullmatch(config):
            raise UsageError(
                f"{path}: Primus' scripts don't support spaces or special characters in a path",
                hint="copy the configuration to another path",
                heading="primus-config",
            )
        # Primus appends to what is in a folder of this name, and its default is the same for all precisions.
        experiment = f"tprimat_{self.model}_{self.precision}_{moment}"
        train_log = str(self.output_dir.absolute() / "primus" / experiment / "train.log")
        environment = {
            "EXP": config,
            "PRIMUS_EXP_NAME": experiment,
            # Its name before v0.5.
            "EXP_NAME": experiment,
            "TRAIN_LOG": train_log,
            "GPUS_PER_NODE": str(self.gpus_per_node),
            "PYTHONUNBUFFERED": "1",
        }
        if self.rendezvous is not None:
            # As primus-cli-slurm-entry.sh sets them on each node before it calls `primus-cli direct` (Primus fd1eeab).
            address, _, port = self.rendezvous.rpartition(":")
            environment |= {"NNODES": str(self.num_nodes), "NODE_RANK": str(self.node_index)}
            environment |= {"MASTER_ADDR": address, "MASTER_PORT": port}
        if self.visible is not None:
            # Primus' launchers set HIP_VISIBLE_DEVICES to the first GPUs: the first of these.
            environment["ROCR_VISIBLE_DEVICES"] = self.visible
        evaluated = self.installation.evaluates(self.launcher)
        words = [shlex.quote(word) if evaluated else word for word in self.arguments]
        command = ["bash", str(SCRIPT)]
        if self.launcher != "run_pretrain.sh":
            # Several versions pass the file's name through a shell unquoted; all that is printed is kept here anyway.
            copy = train_log if not evaluated or _SAFE.fullmatch(train_log) else os.devnull
            command = ["bash", str(CLI), "direct", "--log_file", copy, "--", "train", "pretrain", "--config", config]
        return Launch((*command, *words), environment, root)


def models_of(
    named: str, config: Path | None, installation: Installation, environ: Mapping[str, str]
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
    model = model_of(config, installation, environ, ": unset PRIMUS_CONFIG, or name one of these")
    return tuple(dict.fromkeys((*names, model))), model


def model_of(config: Path, installation: Installation, environ: Mapping[str, str], advice: str = "") -> str:
    """Return the model that a user's own configuration is for. Raises UsageError, with advice, for an unknown one."""
    model = primus_config.setup(primus_config.read(config, installation.path, environ), None).model
    if model not in models.names():
        raise UsageError(
            f"{config}: is a configuration of {model or 'an unknown model'}, not one of "
            f"{', '.join(models.names())}{advice}",
            heading="primus-config",
        )
    return model


def plan(
    requested: PrimusRequest, installation: Installation, environ: Mapping[str, str], device: Device, output_dir: Path
) -> PrimusTraining:
    """Make every choice that is left open, for the GPUs of a machine; those of a CPU are unknown.

    The environment holds NNODES, NODE_RANK, GPUS_PER_NODE, and what configurations ask for. Raises UsageError or
    UnreadableError for what can't be met, with what would do.
    """
    if problem := installation.problem():
        raise UsageError(problem, heading="no-primus")
    launcher = requested.launcher or installation.launcher
    if launcher is None or not installation.has(launcher):
        raise UsageError(f"{installation.path} has no {launcher}: it has {installation.launcher}", heading="no-primus")
    model, own_config, precision = models.by_name(requested.model), requested.config, requested.precision
    if precision is not None and precision not in PRECISIONS:
        raise UsageError(
            f"Primus trains in {', '.join(PRECISIONS)}, not in {precision}: choose one of them", heading="precision"
        )
    nodes, node = _whole(environ, "NNODES", 1, least=1), _whole(environ, "NODE_RANK", 0, least=0)
    if node >= nodes:
        raise UsageError(f"NODE_RANK is {node} with {nodes} nodes; ranks count from 0", heading="wrong-usage")
    here = device.devices if device.platform != "cpu" else DEFAULT_GPUS
    if requested.num_nodes is None:
        gpus = nodes * (requested.num_gpus or _whole(environ, "GPUS_PER_NODE", here, least=1))
    else:
        nodes, node = requested.num_nodes, 0
        gpus = requested.num_gpus or nodes * here
        if gpus % nodes:
            raise UsageError(f"{gpus} GPUs can't be divided evenly among {nodes} nodes", heading="several-nodes")
    if own_config is None:
        source = installation.config(model.name, gpu_of(device), precision or DEFAULT_PRECISION)
    else:
        source = ConfigFile(own_config)
    base = primus_config.read(source.path, installation.path, environ)
    if base.framework not in BACKENDS:
        raise UsageError(
            f"{base.path}: is for {base.framework or 'no framework'}, and what is started from here is Primus' "
            "Megatron or torchtitan",
            hint="start it with Primus itself, and read its log with extract_primus_metrics.py",
            heading="primus-config",
        )
    configured = primus_config.setup(base, None).model
    if configured != model.name and own_config is not None:
        raise UsageError(
            f"{base.path}: is a configuration of {configured or 'an unknown model'}, not of {model.title}: "
            "PRIMUS_CONFIG must be for the requested model",
            heading="primus-config",
        )
    on_torchtitan = base.framework == torchtitan.NAME
    words, notes = [*_sizes(requested, base), *source.arguments], [*source.notes, *base.notes]
    if on_torchtitan:
        batch = _whole_batch(base.with_arguments([*words, *requested.passed]), gpus)
        words += base.arguments_for({"global_batch_size": batch})
    if own_config is None and model.name in BORROWED:
        words += base.arguments_for(_own_shape(model))
        lent = models.by_name(BORROWED[model.name]).title
        notes.append(
            f"Primus has no configuration for {model.title}: that for {lent} is used, with {model.name}'s shape"
        )
    if requested.matched is not None:
        run, named = requested.matched
        if on_torchtitan:
            raise UsageError(
                f"--match doesn't know the settings of Primus' torchtitan ({base.path.name})",
                hint="give the sizes one by one, or leave PRIMUS_CONFIG out",
                heading="cant-match",
            )
        matched, more = match.arguments(run, base.with_arguments(words), gpus, named)
        words, notes = [*matched, *words], [*notes, *more]
    if precision is not None and own_config is not None:
        words += _precision(base.with_arguments(words), precision, gpus)
    words += [*_logging(base), *requested.passed]
    configuration = base.with_arguments(words)
    if (
        not on_torchtitan
        and tokenizer.is_mock(configuration)
        and (reason := tokenizer.unobtainable(configuration, installation, environ))
    ):
        words += configuration.arguments_for(tokenizer.null_tokenizer(model))
        notes.append(f"{reason[0]}: mock data need none, so NullTokenizer with the same vocabulary is used")
        configuration = base.with_arguments(words)
    setup = primus_config.setup(configuration, gpus)
    training, seed = setup.training_config, configuration.settings.value("seed")
    division: dict[str, Any] = {name: getattr(setup.parallelism_config, name) or 1 for name in DIVISION}
    planned = PrimusTraining(
        framework="primus",
        platform="amd",
        model=model.name,
        scale=scales.FULL,
        precision=training.precision or "unknown",
        steps=configuration.settings.count("train_iters") or 0,
        global_batch_size=training.global_batch_size or 0,
        micro_batch_size=training.micro_batch_size or 0,
        sequence_length=training.sequence_length or 0,
        seed=seed if isinstance(seed, int) else defaults.SEED,
        num_gpus=gpus,
        output_dir=output_dir,
        time_limit_s=requested.time_limit_s,
        label=requested.label,
        num_nodes=nodes,
        **division,
        installation=installation,
        launcher=launcher,
        configuration=configuration,
        setup=setup,
        arguments=tuple(words),
        node_index=node,
        result_node=nodes - 1,
        visible=_visible(environ),
        notes=tuple(notes),
    )
    _check_sizes(planned)
    return planned


def _sizes(requested: PrimusRequest, base: Configuration) -> list[str]:
    words = [] if requested.steps is None else [base.option("train_iters"), str(requested.steps)]
    fields = ("global_batch_size", "micro_batch_size", "sequence_length", "seed", *DIVISION)
    words += base.arguments_for({name.replace("sequence", "seq"): getattr(requested, name) for name in fields})
    if requested.time_limit_s is not None and base.framework != torchtitan.NAME:
        words += ["--exit_duration_in_mins", str(max(1, math.ceil(requested.time_limit_s / 60)))]
    return words


def _whole_batch(configuration: Configuration, gpus: int) -> int | None:
    """Return torchtitan's global batch: unless it is given, one micro-batch of each replica."""
    settings = configuration.settings
    given, micro = settings.count("global_batch_size"), settings.count("micro_batch_size")
    sizes = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
    return given or (micro and micro * gpus // math.prod(settings.count(name) or 1 for name in sizes))


def _own_shape(model: Model) -> dict[str, Any]:
    """Return Primus' parameters that make another model's configuration this one's."""
    shape = model.shape
    names = ("num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_query_groups")
    return {
        **{name: getattr(shape, name) for name in names},
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
    """Return what makes every iteration appear in the log, none of them under torchtitan's profiler."""
    words: list[str] = []
    # torchtitan's step lines are of level INFO.
    levels = [level for level in _DOES_NOT_LOG if (level, configuration.framework) != ("INFO", torchtitan.NAME)]
    for name in ("stderr_sink_level", "sink_level"):
        level = configuration.settings.value(name)
        if level in levels or (name == "stderr_sink_level" and level is None):
            words += [f"--{name}", "DEBUG"]
    if configuration.settings.value("log_interval") not in (1, None):
        words += [configuration.option("log_interval"), "1"]
    if configuration.settings.value("profiling.enable_profiling") is True:
        words += ["--profiling.enable_profiling", "False"]
    return words


def _check_sizes(planned: PrimusTraining) -> None:
    """Refuse what Megatron would refuse after minutes of starting."""
    share = math.prod(planned.division.values())
    if planned.num_gpus % share:
        product = " × ".join(f"{name} {size}" for name, size in planned.division.items() if size > 1)
        raise UsageError(
            f"{planned.num_gpus} GPUs can't be divided by {product} = {share}",
            hint=f"use a multiple of {share} GPUs, or other parallel sizes",
            heading="batch-sizes",
        )
    if planned.global_batch_size and planned.micro_batch_size:
        check_batch(planned.global_batch_size, planned.micro_batch_size, planned.data_parallel_size)


def _visible(environ: Mapping[str, str]) -> str | None:
    """Return the GPUs that the environment allows, which Primus' launchers would replace by the first ones."""
    names = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    allowed = next((text for name in names if (text := environ.get(name, "").strip())), None)
    if allowed is not None and environ.get("ROCR_VISIBLE_DEVICES", "").strip():
        raise UsageError(
            f"Primus replaces HIP_VISIBLE_DEVICES ({allowed}), which ROCR_VISIBLE_DEVICES limits as well",
            hint="set ROCR_VISIBLE_DEVICES alone, to the GPUs that are to train",
            heading="wrong-usage",
        )
    return allowed


def _whole(environ: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = environ.get(name, "").strip()
    if not text:
        return default
    if not re.fullmatch(r"\d{1,6}", text) or int(text) < least:
        raise UsageError(f"{name} must be a whole number, at least {least}, not {text!r}", heading="wrong-usage")
    return int(text)
