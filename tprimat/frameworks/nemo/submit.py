"""A NeMo training as a Slurm job, by NeMo-Run's SlurmExecutor; and the recipe of a dry run. Inside NeMo's environment.

The job's machines make the recipe again from what is written down here; they must share the output folder.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tprimat import console
from tprimat.console import Verbosity
from tprimat.errors import UsageError
from tprimat.frameworks import slurm
from tprimat.frameworks.nemo import data
from tprimat.frameworks.nemo import launch as nemo
from tprimat.frameworks.nemo import recipe as nemo_recipe
from tprimat.frameworks.request import Request
from tprimat.frameworks.slurm import SlurmJob
from tprimat.location import REPOSITORY

NEEDED = "msgspec, psutil"
"""Packages that the recorder imports in the job."""


def submit(requests: Sequence[Request], notes: Sequence[str], options: argparse.Namespace) -> None:
    """Hand each training to Slurm, or print its job. Raises UsageError where NeMo-Run isn't here, or Slurm refuses."""
    output = console.current()
    job = slurm.job(options.slurm, {name: getattr(options, name, None) for name in slurm.NAMES})
    for note in notes:
        console.note(note)
    if reason := nemo.unavailable():
        raise UsageError(f"the job is written by NeMo-Run: {reason}", heading="no-framework")
    if job.container:
        # Every rank imports them; nothing here can look into the image.
        check = shlex.join(["srun", f"--container-image={job.container}", "python3", "-c", f"import {NEEDED}"])
        console.note(f"the container needs {NEEDED}; this checks it: {check}")
    for request in requests:
        # A job that is only shown is itself the outcome.
        quiet = options.dry_run and output.verbosity is Verbosity.QUIET
        with output.standard_output() if quiet else contextlib.nullcontext():
            _submit(request, job, dry_run=options.dry_run)
        submitted = {"model": request.model, "folder": str(request.output_dir), "submitted": not options.dry_run}
        output.values.setdefault("jobs", []).append(submitted)
        if not options.dry_run:
            console.info(f"submitted; the result will be in {request.output_dir}")
            console.summary(str(request.output_dir))


def show_recipes(requests: Sequence[Request]) -> None:
    """Print the recipes that NeMo would run, field by field, where NeMo is here to make them."""
    if reason := nemo.unavailable():
        console.note(f"the recipe itself can only be shown where NeMo is: {reason}")
        return
    for request in requests:
        console.info(f"\nThe recipe of {request.model}, as NeMo will get it:")
        for line in nemo_recipe.lines(nemo_recipe.build(request)):
            console.info(f"  {line}")


def _submit(request: Request, job: SlurmJob, *, dry_run: bool) -> None:
    if not sys.stdout.isatty():
        # NeMo-Run shows the job in lines of a terminal's width, and breaks them in a pipe.
        os.environ.setdefault("COLUMNS", "500")
    import nemo_run as run

    recipe = nemo_recipe.build(request)
    if not dry_run:
        data.write(request)
    folder = request.output_dir / "slurm"
    new_folders = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    here, name = executor(request, job, folder), f"tprimat_{request.model}"
    try:
        with run.Experiment(name, executor=here, base_dir=str(folder)) as experiment:
            experiment.add(recipe, executor=executor(request, job, folder), name=request.model)
            if dry_run:
                experiment.dryrun()
            else:
                experiment.run(detach=True)
    finally:
        if dry_run and new_folders:
            # NeMo-Run makes folders to show what would lie in them.
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                for parent in new_folders[1:]:
                    parent.rmdir()


def executor(request: Request, job: SlurmJob, folder: Path) -> Any:
    """Return NeMo-Run's executor for a request on a cluster."""
    import nemo_run as run

    per_node = request.num_gpus // request.num_nodes
    mounts = [*(f"{path}:{path}" for path in (REPOSITORY, request.output_dir)), *job.mounts]
    return run.SlurmExecutor(
        account=job.account,
        partition=job.partition,
        time=job.time,
        nodes=request.num_nodes,
        ntasks_per_node=per_node,
        gpus_per_node=per_node,
        exclusive=True,
        mem="0",
        container_image=job.container,
        container_mounts=mounts if job.container else [],
        launcher="torchrun",
        tunnel=run.LocalTunnel(job_dir=str(folder)),
        # Nothing is packed: the clone is where it is, on a file system that the machines share.
        packager=run.Packager(),
        env_vars={**nemo.environment(request), "PYTHONPATH": str(REPOSITORY)},
    )
