"""Options for values missing from results: prices, precision, peak; for the comparison and the metrics."""

from __future__ import annotations

from tprimat.cli.options._parser import Parser, option

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4")


def add_options(parser: Parser) -> None:
    """Add them to a command."""
    option(
        parser,
        "--cost PRICE",
        "USD per GPU-hour: one for each side in the order of the printed table, or NAME=PRICE; a price may be "
        "a range, 2.20:3.10",
        nargs="+",
        default=[],
    )
    option(parser, "--cost-source TEXT", "where the prices come from, printed beside them")
    option(parser, "--cost-date DATE", "when they were valid")
    text = "of the matrix products, where a result doesn't state it; the files stay as they are"
    option(parser, "--precision", text, choices=PRECISIONS)
    option(parser, "--peak-tflops TFLOPS", "dense peak of the device, instead of the table's", type=float)
    option(
        parser,
        "--energy-from-tdp",
        "give energy as if each GPU drew its TDP; it is a bound from a data sheet, and called so",
    )
