"""collect: the results of a Slurm job."""

from __future__ import annotations

import argparse

from tprimat.cli._arguments import prints_outcome
from tprimat.slurm import collect, follow
from tprimat.slurm.job import find


@prints_outcome("results")
def main(options: argparse.Namespace) -> int:
    """Print what has become of a job, and turn what it left into results."""
    job = find(options.job, options.output_dir)
    return follow.until_the_end(job) if options.wait else collect.collect(job)
