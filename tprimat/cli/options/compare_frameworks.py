"""The options of `compare-frameworks`."""

from __future__ import annotations

from tprimat.cli.options._log_values import add_log_values
from tprimat.cli.options._parser import Parser
from tprimat.cli.options.compare import add_precision

PLATFORMS = ("amd", "cpu", "cuda", "nvd", "nvidia", "rocm")
SHORT = (
    "nemo (nemo), prim (primus), mega (megatron), tran (transformers), deep (deepspeed), fsdp"
    " (fsdp)"
)
"""Both as in store/legacy_schema.py, which a test compares."""


def parser(platform: str | None = None, plot: str = "compare.png") -> Parser:
    """Return the parser of `compare-frameworks`, or of `nvd-compare` if the platform is given."""
    what = {"nvd": "NVIDIA results", "amd": "AMD results"}.get(
        platform or "", "results of all platforms"
    )
    parser = Parser(
        "nvd-compare" if platform else "compare-frameworks",
        usage="%(prog)s [options]",
        description=(
            f"Compare training frameworks in {what}, model by model: all results in a directory, "
            "regardless of file name. Exit status: as for compare_results.py."
        ),
        allow_abbrev=True,
    )
    parser.option(
        "--results-dir DIR",
        "directory to read results from (recursively) and write the plot to (default: output)",
        default="output",
    )
    parser.option(
        "--output FILE",
        f"plot file, .png, .svg or .pdf; a bare name lies in --results-dir (default: {plot})",
        default=plot,
    )
    if platform is None:
        parser.option(
            "--platform PLATFORM",
            "compare only nvd, amd or cpu (default: all)",
            choices=PLATFORMS,
        )
    parser.option(
        "--frameworks NAME",
        f"compare only these, by name or short name: {SHORT}",
        nargs="+",
        default=[],
    )
    parser.option(
        "--reference NAME",
        "baseline (default: the fastest of another vendor, or the second fastest)",
    )
    parser.option("--model MODEL", "compare only this model")
    add_precision(parser)
    parser.option("--no-plot", "write no plot")
    parser.add_output_options(
        quiet="print only the headline and its certainty",
        verbose="show all caveats, settings, warnings and files",
        json="print JSON, as compare does",
    )
    add_log_values(parser, precision=False)
    parser.set_defaults(only_platform=platform)
    return parser
