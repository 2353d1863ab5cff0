"""`primus-config`: what a configuration of Primus really trains, and how that differs from a
result.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from tprimat import console, units
from tprimat.catalog import models
from tprimat.cli._arguments import prints_outcome
from tprimat.cli.run_primus import own_configuration
from tprimat.errors import ExitStatus
from tprimat.frameworks import by_name
from tprimat.frameworks.primus import installation as primus_installation
from tprimat.frameworks.primus.match import SHOWN, differences
from tprimat.frameworks.primus.request import PrimusRequest, PrimusTraining
from tprimat.frameworks.primus.resolve import Planner, model_of
from tprimat.machine import platforms
from tprimat.measure.plan import device_of
from tprimat.redaction import redacted
from tprimat.results.result_file import without_secrets
from tprimat.store import store
from tprimat.text import plain


@prints_outcome()
def main(options: argparse.Namespace) -> int:
    """Show a configuration, and compare it with a result."""
    config = own_configuration(options)
    installation = primus_installation.from_environment(os.environ, options.primus_path)
    if options.model is not None:
        model = options.model
    else:
        if config:
            model = model_of(config, installation, os.environ)
        else:
            model = by_name("primus").models[0]
    request = PrimusRequest(
        installation=installation,
        precision=options.precision,
        num_gpus=options.gpus,
        config=config,
        passed=options.passed,
    )
    device = device_of(platforms.detect(platforms.DESCRIBED))
    training = Planner(by_name("primus"), models.by_name(model), request, device).plan(Path())
    _show(training, is_outcome=options.against is None)
    if options.against is None:
        return ExitStatus.OK
    different = list(differences(training.setup, store.read(options.against)[0]))
    _show_differences(different, options.against)
    if different:
        return ExitStatus.NOT_COMPARABLE
    return ExitStatus.OK


def _show(training: PrimusTraining, *, is_outcome: bool) -> None:
    """Print the effective settings and where each was set; if this is the outcome, with --quiet
    only the settings that are stated.
    """
    run = training.setup
    settings = training.configuration.settings
    console.current().values |= {
        "configuration": str(training.configuration.path),
        "model": run.model,
        "precision": training.precision,
        "num_gpus": training.num_gpus,
        "settings": {
            name: {"value": _public(name, setting.value), "set_by": setting.text}
            for name, setting in sorted(settings.items())
        },
        "training_config": run.training_config.known(),
        "parallelism_config": run.parallelism_config.known(),
        "arguments": without_secrets(list(training.arguments)),
    }
    title = f"{models.title(run.model)}, {training.precision}, {training.num_gpus} GPUs"
    console.info(f"{plain(str(training.configuration.path))}: {title}")
    rows = [("", "value", "set by")]
    for label, name in SHOWN:
        setting = settings.get(name)
        if setting:
            shown = (plain(str(setting.value), 60), plain(setting.text))
        else:
            shown = (units.UNKNOWN, "")
        rows.append((label, *shown))
        if is_outcome and setting is not None and setting.value is not None:
            console.summary(f"{label}: {plain(setting.value)}")
    sizes = run.parallelism_config
    replicas, accumulation = (
        str(size or units.UNKNOWN)
        for size in (sizes.data_parallel_size, sizes.gradient_accumulation_steps)
    )
    rows.append(("data parallel", replicas, "GPUs / all other parallel sizes"))
    rows.append(("accumulation steps", accumulation, "batch / micro / data parallel"))
    _print_table(rows)
    named = {name for _, name in SHOWN}
    for name, setting in sorted(settings.items()):
        if name not in named:
            console.debug(
                f"  {plain(name)}: {plain(_public(name, setting.value))} ({plain(setting.text)})"
            )
    console.debug(f"  command line: {plain(redacted(shlex.join(training.arguments))) or 'nothing'}")
    for note in training.notes:
        console.note(note)


def _public(name: str, value: object) -> object:
    """Return a setting's value without secrets, which its name may help to recognize."""
    if isinstance(value, str):
        return redacted(f"{name}={value}").removeprefix(f"{name}=")
    return value


def _show_differences(different: Sequence[tuple[str, object, object]], named: Path) -> None:
    console.current().values |= {
        "against": str(named),
        "differences": [
            {"name": label, "here": here, "there": there} for label, here, there in different
        ],
    }
    console.info("")
    if not different:
        same = f"Same configuration as {plain(str(named))}."
        console.info(same)
        console.summary(same)
        return
    console.info(f"Differences from {plain(str(named))}:")
    rows = [("", "here", "there")]
    for label, *values in different:
        here, there = (units.UNKNOWN if value is None else plain(str(value)) for value in values)
        rows.append((label, here, there))
        console.summary(f"{label}: {here} here, {there} there")
    _print_table(rows)
    console.info(
        "To run Primus with that configuration: FAIR_CONFIG=1 scripts/run_amd_dual_comparison.sh"
        f" {plain(str(named))}"
    )


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    for line in console.table(rows):
        console.info(f"  {line}")
