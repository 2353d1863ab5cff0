"""`primus-config`: what a configuration of Primus really trains, and how that differs from a result."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from tprimat import console, units
from tprimat.catalog import models
from tprimat.cli._arguments import prints_outcome
from tprimat.cli.run_primus import own_configuration, plan_here
from tprimat.errors import ExitStatus
from tprimat.frameworks import by_name
from tprimat.frameworks.primus import installation as primus_installation
from tprimat.frameworks.primus.match import SHOWN, differences
from tprimat.frameworks.primus.plan import PrimusRequest, PrimusTraining, model_of
from tprimat.machine import platforms
from tprimat.store import store
from tprimat.text import plain


@prints_outcome()
def main(options: argparse.Namespace) -> int:
    """Show a configuration, and compare it with a result."""
    config = own_configuration(options)
    installation = primus_installation.from_environment(os.environ, options.primus_path)
    if options.model is not None:
        model = models.by_name(options.model).name
    else:
        model = model_of(config, installation, os.environ) if config else by_name("primus").models[0]
    request = PrimusRequest(
        model=model, precision=options.precision, num_gpus=options.gpus, config=config, passed=options.passed
    )
    training = plan_here(request, installation, platforms.detect())
    _show(training)
    if options.against is None:
        # --quiet shows what is in force, where it is stated, without what set it.
        for label, name in SHOWN:
            setting = training.configuration.settings.get(name)
            if setting is not None and setting.value is not None:
                console.summary(f"{label}: {plain(setting.value)}")
        return ExitStatus.WELL
    different = list(differences(training.setup(), store.read(options.against)[0]))
    _show_differences(different, options.against)
    return ExitStatus.NOT_COMPARABLE if different else ExitStatus.WELL


def _show(training: PrimusTraining) -> None:
    run = training.setup()
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
    title = f"{models.title(run.model)}, {training.precision}, {training.num_gpus} GPUs"
    console.info(f"{plain(str(training.configuration.path))}: {title}")
    rows = [("", "in force", "set by")]
    settings = training.configuration.settings
    for label, name in SHOWN:
        setting = settings.get(name)
        shown = (plain(str(setting.value), 60), plain(setting.origin)) if setting else (units.UNKNOWN, "")
        rows.append((label, *shown))
    sizes = run.parallelism_config
    for label, size, origin in (
        ("data parallel", sizes.data_parallel_size, "GPUs / all other parallel sizes"),
        ("accumulation steps", sizes.gradient_accumulation_steps, "batch / micro / data parallel"),
    ):
        rows.append((label, str(size) if size else units.UNKNOWN, origin))
    _print_table(rows)
    named = {name for _, name in SHOWN}
    for name, setting in sorted(settings.items()):
        if name not in named:
            console.debug(f"  {plain(name)}: {plain(setting.value)} ({plain(setting.origin)})")
    console.debug(f"  command line: {plain(shlex.join(training.arguments)) or 'nothing'}")
    for note in training.notes:
        console.note(note)


def _show_differences(different: Sequence[tuple[str, object, object]], named: Path) -> None:
    console.current().values |= {
        "against": str(named),
        "differences": [{"name": label, "here": here, "there": there} for label, here, there in different],
    }
    console.info("")
    if not different:
        same = f"The same setup as {plain(str(named))}."
        console.info(same)
        console.summary(same)
        return
    console.info(f"Not as in {plain(str(named))}:")
    rows: list[tuple[str, ...]] = [("", "here", "there")]
    rows += [(label, *(_text(value) for value in pair)) for label, *pair in different]
    _print_table(rows)
    for label, here, there in different:
        console.summary(f"{label}: {_text(here)} here, {_text(there)} there")
    console.info(f"To run Primus with that setup: FAIR_CONFIG=1 scripts/run_amd_dual_comparison.sh {plain(str(named))}")


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    for line in console.table(rows):
        console.info(f"  {line}")


def _text(value: object) -> str:
    return units.UNKNOWN if value is None else plain(str(value))
