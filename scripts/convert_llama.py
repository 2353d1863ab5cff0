#!/usr/bin/env python3
"""Turns Llama 3.1 8B from Hugging Face's form into NeMo's, and back. See --help."""

import os
import sys

if sys.version_info < (3, 10):
    sys.stderr.write(
        "TensorPrimat needs Python 3.10 or newer; this is Python %d.%d\n" % sys.version_info[:2]
    )
    sys.exit(2)

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # noqa: PTH120

from tprimat.cli import run

if __name__ == "__main__":
    sys.argv[1:1] = ["--model", "llama"]
    sys.exit(run("convert"))
