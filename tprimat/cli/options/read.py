"""The options of `read`."""

from __future__ import annotations

from tprimat.cli.options._log_values import add_as_read, add_log_values, add_mapping
from tprimat.cli.options._parser import Parser
from tprimat.cli.options._training import add_bundle, at_least

EPILOG = """\
Log formats are detected from the content, not the file name: console logs of Megatron-LM, Primus, NeMo, torchtitan,
Hugging Face Trainer, Axolotl, DeepSpeed, MLPerf and others, trainer_state.json, TensorBoard event files, runs of W&B
and MLflow, Lightning's metrics.csv, PyTorch profiler traces and TraceLens reports. Several files of the same run are
merged; structured data wins over console logs.

Exit status: {OK} a result was written (even of a failed training), {USAGE} wrong usage, a named file could not be
read, or no training log was found.
"""


def parser() -> Parser:
    """Return the parser of `read`."""
    parser = Parser(
        "read", description="Import training logs from any supported framework.", epilog=EPILOG
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="log files, directories, globs, bundles, or - for stdin (default: logs found here)",
    )
    parser.option("--output-dir DIR", "write results to DIR (default: output)", default="output")
    parser.option("--label NAME", "name this configuration; becomes part of file names")
    add_bundle(parser, "bundle results, logs and environment into one archive")
    add_mapping(parser)
    add_as_read(parser)
    parser.option("--explain", "show how the lines of an unknown log are read, and save nothing")
    parser.option("--jobs N", "read N files in parallel (default: one per CPU)", type=at_least(1))
    add_log_values(parser)
    parser.add_output_options(
        quiet="print only result paths, one per line",
        verbose="print every run, its sources, and skipped files",
        json="print JSON: results, skipped files, exit status",
    )
    return parser
