"""`convert`: a model from Hugging Face's form into NeMo's, and back."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from tprimat import console
from tprimat.catalog import models
from tprimat.cli._arguments import capture_output
from tprimat.cli.options._parser import Parser, add_output_options
from tprimat.errors import ExitStatus, UsageError
from tprimat.text import plain

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


def main(argv: Sequence[str]) -> int:
    """Converts.

    Args:
        argv: arguments, without the program's name.
    """
    options = _parser().parse_args(argv)
    if options.target is None:
        raise UsageError("say import or export, what to convert, and the folder to write", heading="convert")
    command = shlex.join(["tprimat", "convert", *argv])
    with capture_output(options, command=command, model=options.model) as output:
        return output.finish(_converted(options))


def _converted(options: argparse.Namespace) -> int:
    from tprimat.frameworks.nemo import convert as nemo_convert
    from tprimat.frameworks.nemo import launch as nemo
    from tprimat.machine import platforms
    from tprimat.machine.emulation import is_emulated

    target: Path = options.target.absolute()
    nemo_convert.check_target(target, overwrite=options.overwrite)
    if options.direction == "import":
        source = nemo_convert.hugging_face_source(options.model, options.source)
    else:
        source = str(nemo_convert.nemo_folder(options.source))
    reason = nemo.unavailable()
    if reason is not None:
        raise UsageError(f"NeMo converts: {reason}", heading="no-framework")
    if platforms.detect().platform != "nvd" and not is_emulated():
        raise UsageError(
            "NeMo converts on an NVIDIA GPU, and torch sees none here: run this where the GPU is",
            heading="nemo-needs-a-gpu",
        )
    values = console.current().values
    values |= {"direction": options.direction, "source": source, "target": str(target)}
    for name in ("direction", "source", "target", "command"):
        console.debug(f"{name}: {plain(values[name])}")
    if options.direction == "import":
        nemo_convert.to_nemo(options.model, source, target, overwrite=options.overwrite)
    else:
        nemo_convert.to_hugging_face(Path(source), target, overwrite=options.overwrite)
    console.info(f"{models.title(options.model)} is in {options.target}")
    console.summary(str(options.target))
    return ExitStatus.WELL


def _parser() -> argparse.ArgumentParser:
    program = Path(sys.argv[0]).name
    parser = Parser(
        prog="tprimat convert" if program in ("tprimat", "__main__.py") else program,
        description=DESCRIPTION,
        usage="%(prog)s [-h] [--overwrite] [--quiet | --verbose | --json] {import,export} SOURCE TARGET",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--model", choices=models.names(), required=True, metavar="NAME", help=f"one of {', '.join(models.names())}"
    )
    # Optional for argparse alone, which would otherwise miss them before it names a wrong option.
    parser.add_argument(
        "direction", nargs="?", choices=("import", "export"), help="import: to NeMo; export: to Hugging Face"
    )
    parser.add_argument("source", nargs="?", help="import: ORG/NAME on the hub, or a folder; export: NeMo's folder")
    parser.add_argument("target", nargs="?", type=Path, help="folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace the target where it is there")
    add_output_options(
        parser,
        quiet="print the path of the target alone, and nothing of NeMo's",
        verbose="print what is converted, and by which command, too",
        json="print one document for a program: source, target, command, exit status",
    )
    return parser
