#!/usr/bin/env python3
"""Compares results, with MFU, cost, memory and time to train of each system. See --help."""

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
    # In sys.argv and not as an argument, so that a start in the clone's own environment has it too.
    sys.argv[1:1] = ["--efficiency"]
    sys.exit(run("compare"))
