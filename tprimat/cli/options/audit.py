"""The options of `audit`."""

from __future__ import annotations

from tprimat.cli.options._parser import Parser

EPILOG = """\
Columns are recognized by their headings: GPU, model, precision, sequence length, global batch, GPUs, step time,
tokens/s/GPU, TFLOP/s, MFU and others. tokens/s, step time, TFLOP/s and MFU are recomputed from each other and from the
model's shape, and compared with the dense peak of the GPU and with the other rows. docs/audit.md explains the findings.

Exit status: {OK} no contradiction, {USAGE} wrong usage, or a file without results, {IMPLAUSIBLE} a row can't be
right as printed.
"""


def parser() -> Parser:
    """Return the parser of `audit`."""
    parser = Parser(
        "audit", description="Find contradictions in published training results.", epilog=EPILOG
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="Markdown or text tables, CSV, or Megatron-Bridge's model verification cards",
    )
    parser.add_output_options(
        quiet="print only the conclusion",
        verbose="print every finding",
        json="print JSON: findings with their rows, exit status",
    )
    return parser
