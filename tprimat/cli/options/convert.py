"""The options of `convert`."""

from __future__ import annotations

from pathlib import Path

from tprimat.catalog import models
from tprimat.cli.options._parser import Parser, add_output_options, option

DESCRIPTION = """\
Turns the weights of a model from Hugging Face's form into NeMo's (import), and back
(export). NeMo itself does it, which takes its environment and a GPU.
"""

EPILOG = """\
  import meta-llama/Llama-3.1-8B nemo_llama     from the hub; a gated model takes HF_TOKEN
  import ./llama nemo_llama                     from a folder with config.json and the weights
  export nemo_llama llama                       back

Exit status: 0 well, 2 wrong usage, or it can't be done here.
"""


def parser() -> Parser:
    """Return the parser of `convert`."""
    usage = "%(prog)s [-h] [--overwrite] [--quiet | --verbose | --json] {import,export} SOURCE TARGET"
    parser = Parser("convert", description=DESCRIPTION, usage=usage, epilog=EPILOG)
    option(parser, "--model NAME", f"one of {', '.join(models.names())}", choices=models.names(), required=True)
    # Optional for argparse alone, which would otherwise miss them before it names a wrong option.
    parser.add_argument(
        "direction", nargs="?", choices=("import", "export"), help="import: to NeMo; export: to Hugging Face"
    )
    parser.add_argument("source", nargs="?", help="import: ORG/NAME on the hub, or a folder; export: NeMo's folder")
    parser.add_argument("target", nargs="?", type=Path, help="folder to write")
    option(parser, "--overwrite", "replace the target where it is there")
    add_output_options(
        parser,
        quiet="print the path of the target alone, and nothing of NeMo's",
        verbose="print what is converted, and by which command, too",
        json="print one document for a program: source, target, command, exit status",
    )
    return parser
