"""`tprimat <command>`, for those who installed the package; the scripts call the same.

`python3 CLONE/tprimat/__main__.py <command>` is safe in the directory of somebody's logs, where
`-m` lets Python itself look for modules.
"""

import os
import sys

if sys.version_info < (3, 10):
    sys.stderr.write(
        "TensorPrimat needs Python 3.10 or newer; this is Python %d.%d\n" % sys.version_info[:2]
    )
    sys.exit(2)

if not __package__:
    # Started by its path, which puts its own directory first, not the one that holds the package.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120

from tprimat import __version__

# Its first lines take the current directory out of sys.path.
from tprimat.cli import ALIASES, COMMANDS, drop_output, run
from tprimat.errors import UsageError
from tprimat.text import suggestion

FIRST = {
    "doctor": "",
    "benchmark": "--model llama",
    "read": "train.log",
    "compare": "output/",
    "watch": "train.log",
}
"""The commands that most people need, with the arguments of an example: `tprimat --help` begins
with them.
"""

GROUPS = {
    "measure, e.g. tprimat preflight --gpus 8": "benchmark preflight run-primus watch",
    "read, e.g. tprimat export output/ --csv steps.csv": "read extract-primus export verify",
    "compare, e.g. tprimat explain a.pt.trace.json b.pt.trace.json": (
        "compare compare-frameworks nvd-compare efficiency explain project audit publish"
    ),
    "cluster, e.g. tprimat benchmark --executor slurm --nodes 2": "collect",
    "tools, e.g. tprimat gpu-memory": "doctor gpu-memory primus-config convert",
}
"""All commands by what they are for, with an example: the rest of `tprimat --help`."""


def _help() -> str:
    """Return the commands that most people need, and all of them in groups."""
    parts = {"most used": {f"{name} {words}": COMMANDS[name] for name, words in FIRST.items()}}
    parts |= {
        title: {name: COMMANDS[name] for name in names.split()} for title, names in GROUPS.items()
    }
    width = max(len(call) for rows in parts.values() for call in rows)
    lines = ["usage: tprimat COMMAND [...]"]
    for title, rows in parts.items():
        lines += ["", f"{title}:", *(f"  {call:<{width}}  {text}" for call, text in rows.items())]
    return "\n".join([*lines, "", "tprimat COMMAND --help shows the options of a command."])


def main() -> int:
    """Run the command that the first argument names."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        try:
            print(_help(), flush=True)
        except BrokenPipeError:
            drop_output()
        if arguments:
            return 0
        return 2
    if arguments[0] == "--version":
        print(f"tprimat {__version__}")
        return 0
    if arguments[0] not in {*COMMANDS, *ALIASES}:
        main_ones = "benchmark measures, read imports, compare compares; tprimat --help lists all"
        hint = suggestion(arguments[0], [*COMMANDS, *ALIASES], main_ones)
        print(
            UsageError(
                f"unknown command {arguments[0]!r}", heading="wrong-usage", hint=hint
            ).line(),
            file=sys.stderr,
        )
        return 2
    return run(arguments[0], arguments[1:], [__file__, *arguments])


if __name__ == "__main__":
    sys.exit(main())
