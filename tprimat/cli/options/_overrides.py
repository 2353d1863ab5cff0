"""Options for values missing from results: prices, precision, peak; for the comparison and the metrics."""

from __future__ import annotations

import argparse

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add them to a command."""
    parser.add_argument(
        "--cost",
        nargs="+",
        default=[],
        metavar="PRICE",
        help="USD per GPU-hour: one for each side in the order of the printed table, or NAME=PRICE; a price may be "
        "a range, 2.20:3.10",
    )
    parser.add_argument("--cost-source", metavar="TEXT", help="where the prices come from, printed beside them")
    parser.add_argument("--cost-date", metavar="DATE", help="when they were valid")
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        help="of the matrix products, where a result doesn't state it; the files stay as they are",
    )
    parser.add_argument(
        "--peak-tflops", type=float, metavar="TFLOPS", help="dense peak of the device, instead of the table's"
    )
    parser.add_argument(
        "--energy-from-tdp",
        action="store_true",
        help="give energy as if each GPU drew its TDP; it is a bound from a data sheet, and called so",
    )
