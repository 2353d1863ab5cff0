"""The options of `compare-frameworks`."""

from __future__ import annotations

from tprimat.cli.options._overrides import PRECISIONS
from tprimat.cli.options._parser import Parser, add_output_options, program

DEFAULT_FOLDER = "output"
NAMED = "train_{framework}_{model}.json, also with nvd_ or amd_ before the framework or the whole name"
PLATFORMS = ("amd", "cpu", "cuda", "nvd", "nvidia", "rocm")
SHORT = "nemo (nemo), prim (primus), mega (megatron), tran (transformers), deep (deepspeed), fsdp (fsdp)"
"""Both as in store/legacy_schema.py, which a test compares."""


def parser(platform: str | None = None, picture: str = "compare.png") -> Parser:
    """Return the parser of `compare-frameworks`, or of `nvd-compare` where the platform is given."""
    what = {"nvd": "NVIDIA's results", "amd": "AMD's results"}.get(platform or "", "results of all platforms")
    command = "nvd-compare" if platform else "compare-frameworks"
    parser = Parser(
        prog=program(command),
        description=f"Sets the frameworks in {what} against each other, model by model. Files: {NAMED}. "
        "What can't be true wins nothing; exit status as of compare_results.py.",
    )
    parser.add_argument(
        "--results-dir",
        default=DEFAULT_FOLDER,
        metavar="DIR",
        help="where the results are, read with all that lies below, and where the picture goes (default: output)",
    )
    parser.add_argument(
        "--output", default=picture, metavar="NAME", help=f"the picture's name: .png, .svg or .pdf (default: {picture})"
    )
    if platform is None:
        parser.add_argument(
            "--platform", choices=PLATFORMS, metavar="PLATFORM", help="nvd, amd or cpu alone (default: all)"
        )
    parser.add_argument(
        "--frameworks", nargs="+", default=[], metavar="NAME", help=f"these alone, by name or in short: {SHORT}"
    )
    parser.add_argument(
        "--reference", metavar="SIDE", help="the side that all others are set against (default: the first one)"
    )
    parser.add_argument("--model", metavar="MODEL", help="compare this model alone")
    parser.add_argument(
        "--precision", choices=PRECISIONS, help="of the matrix products, where a result doesn't state it"
    )
    parser.add_argument("--no-plot", action="store_true", help="draw no picture")
    add_output_options(
        parser,
        quiet="print who is at the front, and nothing else",
        verbose="print the files too, and every doubt about a run",
        json="print the comparison and the metrics for a program, as compare does",
    )
    parser.set_defaults(only_platform=platform)
    return parser
