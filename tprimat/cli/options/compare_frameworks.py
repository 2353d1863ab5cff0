"""The options of `compare-frameworks`."""

from __future__ import annotations

import argparse

from tprimat.cli.options._overrides import PRECISIONS
from tprimat.cli.options._parser import Parser, add_output_options, option

NAMED = "train_{framework}_{model}.json, also with nvd_ or amd_ before the framework or the whole name"
PLATFORMS = ("amd", "cpu", "cuda", "nvd", "nvidia", "rocm")
SHORT = "nemo (nemo), prim (primus), mega (megatron), tran (transformers), deep (deepspeed), fsdp (fsdp)"
"""Both as in store/legacy_schema.py, which a test compares."""


def parser(platform: str | None = None, picture: str = "compare.png") -> Parser:
    """Return the parser of `compare-frameworks`, or of `nvd-compare` where the platform is given."""
    what = {"nvd": "NVIDIA's results", "amd": "AMD's results"}.get(platform or "", "results of all platforms")
    parser = Parser(
        "nvd-compare" if platform else "compare-frameworks",
        description=f"Sets the frameworks in {what} against each other, model by model. Files: {NAMED}. "
        "What can't be true wins nothing; exit status as of compare_results.py.",
        formatter_class=argparse.HelpFormatter,
        allow_abbrev=True,
    )
    text = "where the results are, read with all that lies below, and where the picture goes (default: output)"
    option(parser, "--results-dir DIR", text, default="output")
    text = f"the picture's name: .png, .svg or .pdf (default: {picture})"
    option(parser, "--output NAME", text, default=picture)
    if platform is None:
        option(parser, "--platform PLATFORM", "nvd, amd or cpu alone (default: all)", choices=PLATFORMS)
    option(parser, "--frameworks NAME", f"these alone, by name or in short: {SHORT}", nargs="+", default=[])
    option(parser, "--reference SIDE", "the side that all others are set against (default: the first one)")
    option(parser, "--model MODEL", "compare this model alone")
    option(parser, "--precision", "of the matrix products, where a result doesn't state it", choices=PRECISIONS)
    option(parser, "--no-plot", "draw no picture")
    add_output_options(
        parser,
        quiet="print who is at the front, and nothing else",
        verbose="print the files too, and every doubt about a run",
        json="print the comparison and the metrics for a program, as compare does",
    )
    parser.set_defaults(only_platform=platform)
    return parser
