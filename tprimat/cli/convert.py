"""`convert`: convert a model from Hugging Face's format to NeMo's, and back."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from tprimat import console
from tprimat.catalog import models
from tprimat.cli._arguments import prints_outcome
from tprimat.errors import ExitStatus, UsageError
from tprimat.frameworks import by_name
from tprimat.frameworks.nemo import convert as nemo_convert
from tprimat.machine import platforms
from tprimat.machine.host import is_emulated
from tprimat.text import plain


@prints_outcome()
def main(options: argparse.Namespace) -> int:
    """Convert a model."""
    if options.target is None:
        raise UsageError("import or export, SOURCE and TARGET are required", heading="convert")
    target = options.target.absolute()
    nemo_convert.check_target(target, overwrite=options.overwrite)
    if options.direction == "import":
        source = nemo_convert.hugging_face_source(options.model, options.source)
    else:
        source = str(nemo_convert.nemo_folder(options.source))
    reason = by_name("nemo").unavailable()
    if reason is not None:
        raise UsageError(f"conversion needs NeMo: {reason}", heading="no-framework")
    if platforms.detect().platform != "nvd" and not is_emulated():
        raise UsageError(
            "conversion needs an NVIDIA GPU, and PyTorch finds none",
            hint="run it on a machine with a GPU",
            heading="nemo-needs-a-gpu",
        )
    values = console.current().values
    values |= {"command": shlex.join(["tprimat", "convert", *options.argv]), "model": options.model}
    values |= {"direction": options.direction, "source": source, "target": str(target)}
    for name in ("direction", "source", "target", "command"):
        console.debug(f"{name}: {plain(values[name])}")
    if options.direction == "import":
        nemo_convert.to_nemo(options.model, source, target, overwrite=options.overwrite)
    else:
        nemo_convert.to_hugging_face(Path(source), target, overwrite=options.overwrite)
    console.info(f"{models.title(options.model)} is in {options.target}")
    console.summary(str(options.target))
    return ExitStatus.OK
