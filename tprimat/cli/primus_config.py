"""`primus-config`: what a configuration of Primus really trains, and how that differs from a result."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from tprimat import console, units
from tprimat.catalog import models
from tprimat.cli._arguments import capture_output
from tprimat.errors import ExitStatus
from tprimat.frameworks import by_name
from tprimat.frameworks.primus import installation as primus_installation
from tprimat.frameworks.primus.match import SHOWN, differences
from tprimat.frameworks.primus.plan import PrimusRequest, PrimusTraining, model_of, plan
from tprimat.machine import platforms
from tprimat.store import store
from tprimat.text import plain


def main(options: argparse.Namespace) -> int:
    """Show a configuration, and compare it with a result.

    Args:
        options: of `primus-config`; those in `passed` are Primus' command line.
    """
    with capture_output(options) as output:
        return output.finish(_show_all(options))


def _show_all(options: argparse.Namespace) -> int:
    config = options.config or (Path(os.environ["PRIMUS_CONFIG"]) if os.environ.get("PRIMUS_CONFIG") else None)
    machine = platforms.detect()
    training = plan(
        PrimusRequest(
            model=_model(options, config),
            precision=options.precision,
            num_gpus=options.gpus,
            config=config,
            passed=options.passed,
        ),
        primus_installation.from_environment(os.environ, options.primus_path),
        os.environ,
        gpu=primus_installation.gpu_of(machine.gpu_info),
        devices=(machine.gpu_info.device_count or 0) if machine.platform == "amd" else 0,
    )
    _show(training)
    if options.against is None:
        _show_essence(training)
        return ExitStatus.WELL
    different = list(differences(training.setup(), store.read(options.against)[0]))
    _show_differences(different, options.against)
    return ExitStatus.NOT_COMPARABLE if different else ExitStatus.WELL


def _model(options: argparse.Namespace, config: Path | None) -> str:
    """Return the model that was named, or that the file is for."""
    if options.model is not None:
        return models.by_name(options.model).name
    if config is None:
        return by_name("primus").models[0]
    return model_of(config, primus_installation.from_environment(os.environ, options.primus_path), os.environ)


def _show(training: PrimusTraining) -> None:
    run = training.setup()
    title = models.title(run.model)
    console.current().values |= {
        "configuration": str(training.configuration.path),
        "model": run.model,
        "precision": training.precision,
        "num_gpus": training.num_gpus,
        "settings": {
            name: {"value": setting.value, "set_by": setting.origin}
            for name, setting in sorted(training.configuration.settings.items())
        },
        "training_config": run.training_config.known(),
        "parallelism_config": run.parallelism_config.known(),
        "arguments": list(training.arguments),
    }
    console.info(f"{plain(str(training.configuration.path))}: {title}, {training.precision}, {training.num_gpus} GPUs")
    rows = [("", "in force", "set by")]
    for label, name in SHOWN:
        setting = training.configuration.settings.get(name)
        if setting is None:
            rows.append((label, units.UNKNOWN, ""))
        else:
            rows.append((label, plain(str(setting.value), 60), plain(setting.origin)))
    replicas = run.parallelism_config.data_parallel_size
    rows.append(("data parallel", str(replicas) if replicas else units.UNKNOWN, "GPUs / all other parallel sizes"))
    accumulation = run.parallelism_config.gradient_accumulation_steps
    rows.append(
        ("accumulation steps", str(accumulation) if accumulation else units.UNKNOWN, "batch / micro / data parallel")
    )
    for line in console.table(rows):
        console.info(f"  {line}")
    named = {name for _, name in SHOWN}
    for name, setting in sorted(training.configuration.settings.items()):
        if name not in named:
            console.debug(f"  {plain(name)}: {plain(setting.value)} ({plain(setting.origin)})")
    console.debug(f"  command line: {plain(shlex.join(training.arguments)) or 'nothing'}")
    for note in training.notes:
        console.note(note)


def _show_essence(training: PrimusTraining) -> None:
    """Print what is in force, where it is stated, without what set it."""
    for label, name in SHOWN:
        setting = training.configuration.settings.get(name)
        if setting is not None and setting.value is not None:
            console.summary(f"{label}: {plain(setting.value)}")


def _show_differences(different: Sequence[tuple[str, object, object]], named: Path) -> None:
    console.current().values |= {
        "against": str(named),
        "differences": [{"name": label, "here": here, "there": there} for label, here, there in different],
    }
    console.info("")
    if not different:
        console.info(f"The same setup as {plain(str(named))}.")
        console.summary(f"The same setup as {plain(str(named))}.")
        return
    console.info(f"Not as in {plain(str(named))}:")
    rows: list[tuple[str, ...]] = [("", "here", "there")]
    rows += [(label, *(_text(value) for value in pair)) for label, *pair in different]
    for line in console.table(rows):
        console.info(f"  {line}")
    for label, here, there in different:
        console.summary(f"{label}: {_text(here)} here, {_text(there)} there")
    console.info(f"To run Primus with that setup: FAIR_CONFIG=1 scripts/run_amd_dual_comparison.sh {plain(str(named))}")


def _text(value: object) -> str:
    return units.UNKNOWN if value is None else plain(str(value))
