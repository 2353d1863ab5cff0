"""The options of `convert`."""

from __future__ import annotations

from pathlib import Path

from tprimat.catalog import models
from tprimat.cli.options._parser import Parser

DESCRIPTION = """\
Convert the weights of a model from Hugging Face's format to NeMo's (import), and
back (export). Runs NeMo's own converter, which needs NeMo and a GPU.
"""

EPILOG = """\
  import meta-llama/Llama-3.1-8B nemo_llama     from the hub; a gated model needs HF_TOKEN
  import ./llama nemo_llama                     from a directory with config.json and weights
  export nemo_llama llama                       back

Exit status: {OK} success, {USAGE} wrong usage, or the conversion cannot run here.
"""


def parser() -> Parser:
    """Return the parser of `convert`."""
    parser = Parser(
        "convert",
        description=DESCRIPTION,
        usage="%(prog)s --model NAME [options] {import,export} SOURCE TARGET",
        epilog=EPILOG,
    )
    parser.option(
        "--model NAME",
        f"set the model: {', '.join(models.names())}",
        type=models.trained_name,
        choices=models.names(),
        required=True,
    )
    # They are optional only for argparse, which would otherwise report that they are missing before
    # it reports a wrong option.
    parser.add_argument(
        "direction",
        nargs="?",
        choices=("import", "export"),
        help="import to NeMo, or export to Hugging Face",
    )
    parser.add_argument("source", nargs="?", help="ORG/NAME on the hub, or a directory")
    parser.add_argument("target", nargs="?", type=Path, help="directory to write")
    parser.option("--overwrite", "replace an existing target")
    parser.add_output_options(
        False,
        quiet="print only the target path",
        verbose="print source, target and command too",
        json="print JSON: source, target, command, exit status",
    )
    return parser
