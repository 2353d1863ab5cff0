#!/usr/bin/env python3
"""How long a comparison of two logs takes, from the logs to the answer: CPU time, beside `import matplotlib.pyplot`.

python3 benchmarks/direct_comparison.py A.log B.log [C.log D.log ...]    each pair is one command
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile

from help_time import cpu_time

ROUNDS = 5


def main(logs: list[str]) -> None:
    """Print the median CPU time of each command, s."""
    with tempfile.TemporaryDirectory() as folder:
        commands = {"import matplotlib.pyplot": ["-c", "import matplotlib.pyplot"]}
        for pair in zip(logs[::2], logs[1::2], strict=True):
            paths = [os.path.abspath(path) for path in pair]  # noqa: PTH100
            compare = ["compare_results.py", *paths, "--results-dir", folder]
            commands |= {f"{pair[0]} {pair[1]}": compare, "  the answer alone": [*compare, "--no-plot", "--quiet"]}
            for title, command in commands.items():
                times = [cpu_time(command, dict(os.environ)) for _ in range(ROUNDS)]
                print(f"{statistics.median(times):6.2f} s  {title}", flush=True)
            commands = {}


if __name__ == "__main__":
    main(sys.argv[1:])
