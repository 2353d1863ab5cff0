"""The options of `preflight`."""

from __future__ import annotations

from tprimat.cli.options._parser import Parser
from tprimat.cli.options._training import add_gpus, add_output_dir

DESCRIPTION = """\
Measure what this machine sustains, before a benchmark: matrix products per precision, memory bandwidth, copies between
host and GPU, all-reduce, disk. Report GPUs that are slower than the others, and settings or programs that may slow all
of them. Results of later benchmarks in the same output directory include these values.
"""

EPILOG = """\
All GPUs are measured at once. On several machines, start it with torchrun:
  torchrun --nnodes 2 --nproc-per-node 8 ... -m tprimat preflight
Exit status: {OK} success, {SLOWER} a device is slower than the others, {USAGE} wrong usage or no
torch, {TRAINING_FAILED} a measurement failed.
"""


def parser() -> Parser:
    """Return the parser of `preflight`."""
    parser = Parser("preflight", description=DESCRIPTION, epilog=EPILOG)
    parser.option("--quick", "measure for seconds instead of minutes")
    add_gpus(parser)
    add_output_dir(parser, "output")
    parser.add_output_options(
        quiet="print only the path of the file",
        verbose="also print every device, message size and progress",
        json="print JSON: the content of the file, its path, exit status",
    )
    return parser
