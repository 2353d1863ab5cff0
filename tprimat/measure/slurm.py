"""Trainings by NeMo as Slurm jobs; and the recipes of a dry run."""

from __future__ import annotations

import argparse
import contextlib

from tprimat import console
from tprimat.console import Verbosity
from tprimat.frameworks import slurm
from tprimat.frameworks.nemo import recipe as nemo_recipe
from tprimat.frameworks.nemo import submit as nemo_submit
from tprimat.measure.plan import Plan


def submit(plan: Plan, options: argparse.Namespace) -> None:
    """Hand each training to Slurm, or show the job."""
    output = console.current()
    job = slurm.job(options.slurm, {name: getattr(options, name, None) for name in slurm.NAMES})
    for note in plan.notes:
        console.note(note)
    for request in plan.requests:
        # A job that is only shown is itself the outcome.
        quiet = options.dry_run and output.verbosity is Verbosity.QUIET
        with output.standard_output() if quiet else contextlib.nullcontext():
            nemo_submit.submit(request, job, dry_run=options.dry_run)
        submitted = {"model": request.model, "folder": str(request.output_dir), "submitted": not options.dry_run}
        output.values.setdefault("jobs", []).append(submitted)
        if not options.dry_run:
            console.info(f"submitted; the result will be in {request.output_dir}")
            console.summary(str(request.output_dir))


def show_recipes(plan: Plan) -> None:
    """Print the recipes that NeMo would run, field by field, where NeMo is here to make them."""
    framework = plan.frameworks[0]
    if not framework.divides:
        return
    reason = framework.unavailable()
    if reason is not None:
        console.note(f"the recipe itself can only be shown where NeMo is: {reason}")
        return
    for request in plan.requests:
        console.info(f"\nThe recipe of {request.model}, as NeMo will get it:")
        for line in nemo_recipe.lines(nemo_recipe.build(request)):
            console.info(f"  {line}")
