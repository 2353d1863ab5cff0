"""collect: the results of a Slurm job."""

from __future__ import annotations

import argparse

from tprimat.cli._arguments import prints_outcome
from tprimat.slurm import collect
from tprimat.slurm.job import find


@prints_outcome("results")
def main(options: argparse.Namespace) -> int:
    """Print the state of a job and, once it has ended, write its results."""
    job = find(options.job, options.output_dir)
    if options.wait:
        return collect.until_the_end(job)
    return collect.collect(job)
