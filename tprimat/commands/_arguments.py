"""The parser of all commands: what is wrong with the arguments is said as every other error is."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from tprimat.errors import UsageError


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line.

    Args:
        hint: what else helps whoever typed it wrong; follows the message.
    """

    def __init__(self, *args: Any, hint: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        self._hint = f"{hint}; " if hint else ""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError."""
        raise UsageError(f"{message} ({self._hint}{self.prog} --help says more)", heading="wrong-usage")
