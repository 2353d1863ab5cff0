"""How much a command prints, from its options."""

from __future__ import annotations

import argparse

from tprimat.cli._display import Verbosity


def verbosity(options: argparse.Namespace) -> Verbosity:
    """Return how much to print, from the options that add_output_options() adds."""
    levels = (("quiet", Verbosity.QUIET), ("verbose", Verbosity.VERBOSE), ("json", Verbosity.JSON))
    return next((each for name, each in levels if getattr(options, name)), Verbosity.NORMAL)
