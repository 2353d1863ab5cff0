"""`benchmark`: measures the training of language models on this machine, and of an encoder-decoder."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tprimat import console, frameworks
from tprimat.cli import _encdec, _local_logs, compare
from tprimat.cli._arguments import prints_outcome
from tprimat.cli.options import compare as compare_options
from tprimat.console import Verbosity
from tprimat.errors import ExitStatus, UsageError
from tprimat.frameworks.nemo import submit as nemo_submit
from tprimat.frameworks.nemo.options import NEMO, under_torchrun
from tprimat.log_import import bundle
from tprimat.machine import platforms
from tprimat.machine.telemetry import sampler
from tprimat.measure import torchrun
from tprimat.measure.plan import choose_framework, plan_of, plan_of_several
from tprimat.measure.session import measure, show


@prints_outcome("results")
def main(options: argparse.Namespace) -> int:
    """Measure, or show what would be run."""
    sampler.choose(options.telemetry)
    if options.encdec:
        return _encdec.measure(options)
    bundle.check(options.bundle, options.anonymise)
    machine = platforms.detect()
    status = _local_logs.import_local_logs(options, machine)
    if status is not None:
        return status
    names = frameworks.several(options.framework)
    if names is not None:
        if options.executor != "local":
            raise UsageError(
                f"--executor {options.executor} takes one framework: name it with --framework", heading="wrong-usage"
            )
        plan = plan_of_several(names, options, machine)
    else:
        framework = choose_framework(options, machine)
        plan = plan_of(options, framework, machine)
        if framework.divides and under_torchrun():
            return torchrun.train_nemo(plan, machine)
        if options.executor != "local":
            nemo_submit.submit(plan.requests, plan.notes, options)
            return ExitStatus.OK
    if options.dry_run:
        show(plan, machine)
        if names is None and framework.name == NEMO:
            nemo_submit.show_recipes(plan.requests)
        return ExitStatus.OK
    status, files = measure(plan, machine)
    if names is None or len(files) < 2:
        return status
    console.info("")
    compared = _compare([*map(str, files), "--results-dir", str(plan.output_dir)])
    return status if status != ExitStatus.OK else compared


def _compare(words: Sequence[str]) -> int:
    """Compare at the same verbosity; a program gets the comparison in the one document."""
    output = console.current()
    if output.verbosity is Verbosity.JSON:
        status, output.values["comparison"] = compare.for_program(words)
        return status
    option = {Verbosity.QUIET: ["--quiet"], Verbosity.VERBOSE: ["--verbose"]}.get(output.verbosity, [])
    with output.standard_output():
        return compare.main(compare_options.parser().parse_args([*words, *option]))
