"""`benchmark --framework all`: the same model in several frameworks, in turn, and then compared."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tprimat import frameworks
from tprimat.cli import _benchmark_display as display
from tprimat.cli import _benchmark_session as session
from tprimat.cli import _display, benchmark, compare
from tprimat.cli._display import Verbosity
from tprimat.cli.options import compare as compare_options
from tprimat.errors import ExitStatus, UsageError
from tprimat.frameworks.framework import Framework

if TYPE_CHECKING:
    from tprimat.cli.benchmark import Plan
    from tprimat.machine.platforms import Machine


def main(names: Sequence[str], options: argparse.Namespace, machine: Machine) -> int:
    """Measures, or shows what would be run.

    Args:
        names: of the frameworks, or all.
        options: of the command line.
        machine: this one.
    """
    if options.executor != "local":
        raise UsageError(
            f"--executor {options.executor} takes one framework: name it with --framework", heading="wrong-usage"
        )
    plan = _plan(names, options, machine)
    if options.dry_run:
        session.show(plan, machine)
        return ExitStatus.WELL
    status, files = session.measured(plan, machine)
    if len(files) < 2:
        return status
    display.say("")
    compared = _compared([*map(str, files), "--results-dir", str(plan.output_dir)])
    return status if status != ExitStatus.WELL else compared


def _compared(words: Sequence[str]) -> int:
    """Compares as much aloud as the rest; a program gets the comparison in the one document."""
    output = _display.current()
    if output.verbosity is Verbosity.JSON:
        status, output.values["comparison"] = compare.for_program(words)
        return status
    option = {Verbosity.QUIET: ["--quiet"], Verbosity.VERBOSE: ["--verbose"]}.get(output.verbosity, [])
    with output.standard_output():
        return compare.main(compare_options.parser().parse_args([*words, *option]))


def _plan(names: Sequence[str], options: argparse.Namespace, machine: Machine) -> Plan:
    """One plan of several frameworks: model by model, all that can train it."""
    everything = tuple(names) == (frameworks.ALL,)
    left_out: list[str] = []
    plans = []
    for framework in _all(left_out) if everything else _named(names, machine, options):
        try:
            plans.append(benchmark.plan_of(options, framework, machine))
        except UsageError as error:
            if not everything:
                raise
            left_out.append(f"{framework.name} is left out: {error.message}")
    if not plans:
        raise frameworks.none_can_train(f"no framework can train that here: {'; '.join(left_out)}")
    models = dict.fromkeys(request.model for plan in plans for request in plan.requests)
    requests = [request for model in models for plan in plans for request in plan.requests if request.model == model]
    return dataclasses.replace(
        plans[0],
        requests=tuple(requests),
        others=tuple(plan.framework for plan in plans[1:]),
        notes=tuple(dict.fromkeys((*left_out, *(note for plan in plans for note in plan.notes)))),
    )


def _all(left_out: list[str]) -> list[Framework]:
    """Those that can run here; why the others can't is added to left_out."""
    able = []
    for framework in frameworks.FRAMEWORKS:
        reason = framework.unavailable()
        if reason is None:
            able.append(framework)
        else:
            left_out.append(f"{framework.name} is left out: {reason}")
    return able


def _named(names: Sequence[str], machine: Machine, options: argparse.Namespace) -> list[Framework]:
    if frameworks.ALL in names:
        raise UsageError(f"--framework {options.framework}: all stands alone", heading="wrong-usage")
    return [frameworks.choose(name, machine.platform, to_show=options.dry_run) for name in names]
