"""`benchmark`: measures the training of language models on this machine, and of an
encoder-decoder.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence

from tprimat import console, frameworks
from tprimat.cli import _encdec, _local_logs, _tuning, compare
from tprimat.cli._arguments import prints_outcome
from tprimat.cli.options import compare as compare_options
from tprimat.console import Verbosity
from tprimat.errors import ExitStatus, UsageError
from tprimat.frameworks.nemo import recipe as nemo_recipe
from tprimat.frameworks.nemo.options import NEMO, under_torchrun
from tprimat.frameworks.request import BenchmarkOptions
from tprimat.log_import import bundle
from tprimat.machine import platforms
from tprimat.machine.telemetry import sampler
from tprimat.measure import sweep, torchrun
from tprimat.measure.plan import choose_framework, merged, plan_of, plan_of_several
from tprimat.measure.session import measure, show
from tprimat.slurm import settings, submit


@prints_outcome("results")
def main(options: argparse.Namespace | BenchmarkOptions) -> int:
    """Measure, or show what would be run."""
    sampler.choose(options.telemetry)
    if isinstance(options, argparse.Namespace):
        return _encdec.measure(options)
    bundle.check(options.bundle)
    if options.executor == "slurm":
        return submit.submit(options)
    if unused := settings.given(options):
        raise UsageError(
            f"{unused} needs --executor slurm", hint="add --executor slurm", heading="slurm"
        )
    options, tuning = _tuning.configured(options)
    machine = platforms.detect()
    if options.tune:
        return _tuning.search(options, machine)
    if options.budget is not None:
        raise UsageError("--budget needs --tune", hint="add --tune", heading="wrong-usage")
    status = _local_logs.import_local_logs(options, machine)
    if status is not None:
        return status
    if isinstance(options.num_nodes, tuple):
        # Each machine runs the same command: each would do the whole training by itself.
        raise UsageError(
            "--nodes takes several values only with --executor slurm",
            hint="without Slurm, start one benchmark per number of nodes",
            heading="several-nodes",
        )
    points = list(sweep.points(options))
    names = frameworks.several(options.framework)
    if names is not None:
        plan = merged([plan_of_several(names, point, machine) for point in points])
    else:
        framework = choose_framework(options, machine)
        plan = merged([plan_of(point, framework, machine) for point in points])
        if framework.divides and under_torchrun():
            return torchrun.train_nemo(plan, machine)
    plan = dataclasses.replace(
        sweep.of_options(plan, options), tuning=tuning, arguments=options.argv
    )
    if options.dry_run:
        show(plan, machine)
        if names is None and framework.name == NEMO:
            nemo_recipe.show(plan.requests)
        return ExitStatus.OK
    status, files = measure(plan, machine)
    if names is None or len(files) < 2:
        return status
    console.info("")
    compared = _compare([*map(str, files), "--results-dir", str(plan.output_dir)])
    if status != ExitStatus.OK:
        return status
    return compared


def _compare(words: Sequence[str]) -> int:
    """Compare with the same verbosity; with --json the comparison is part of the same document."""
    output = console.current()
    if output.verbosity is Verbosity.JSON:
        status, output.values["comparison"] = compare.for_program(words)
        return status
    option = {Verbosity.QUIET: ["--quiet"], Verbosity.VERBOSE: ["--verbose"]}.get(
        output.verbosity, []
    )
    with output.standard_output():
        return compare.main(compare_options.parser().parse_args([*words, *option]))
