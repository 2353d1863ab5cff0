"""`tprimat <command>`, for those who installed the package; the scripts call the same."""

from __future__ import annotations

import sys

from tprimat import __version__
from tprimat.cli import ALIASES, COMMANDS, run
from tprimat.errors import UsageError


def main() -> int:
    """Run the command that the first argument names."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        width = max(map(len, COMMANDS))
        rows = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
        print(f"usage: tprimat COMMAND [...]\n\n{rows}\n\nRun tprimat COMMAND --help for the options of a command.")
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"tprimat {__version__}")
        return 0
    if arguments[0] not in {*COMMANDS, *ALIASES}:
        hint = f"choose from {', '.join(COMMANDS)}"
        print(UsageError(f"unknown command {arguments[0]!r}", heading="wrong-usage", hint=hint).line(), file=sys.stderr)
        return 2
    return run(arguments[0], arguments[1:])


if __name__ == "__main__":
    sys.exit(main())
