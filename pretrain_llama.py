#!/usr/bin/env python3
"""Pretrains Llama 3.1 8B with NeMo's own recipe, and times it. See --help."""

import sys

if sys.version_info < (3, 10):
    sys.stderr.write(
        "TensorPrimat needs Python 3.10 or newer; this is Python %d.%d\n" % sys.version_info[:2]
    )
    sys.exit(2)

from tprimat.cli import run

if __name__ == "__main__":
    sys.argv[1:1] = ["--framework", "nemo", "--model", "llama", "--training-lines"]
    sys.exit(run("benchmark"))
