#!/usr/bin/env python3
"""Sets frameworks against each other, on one platform or across all. See --help."""

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
    sys.exit(run("compare-frameworks"))
