"""The options of `benchmark` for sweeps, for settings that are tuned, and for the search."""

from __future__ import annotations

import argparse
from pathlib import Path

from tprimat.cli.options._parser import option
from tprimat.cli.options._training import add_setting, at_least, duration
from tprimat.frameworks.request import EMBEDDED

DEFAULT_BUDGET = "30m"


def add_settings(group: argparse._ArgumentGroup) -> None:
    """Add the settings of the built-in frameworks, and the file that holds a tuned configuration."""
    for key, values in EMBEDDED.items():
        add_setting(group, key, choices=values)
    text = "use the configuration that --tune wrote to FILE; further options override it"
    option(group, "--config FILE", text, type=Path)


def add_search(group: argparse._ArgumentGroup) -> None:
    """Add the search and its budget."""
    option(group, "--tune", "search for the fastest configuration and save it for --config")
    text = f"time for the search of each model (default: {DEFAULT_BUDGET})"
    option(group, "--budget TIME", text, type=duration)


def add_sweep(group: argparse._ArgumentGroup) -> None:
    """Add what runs a part of a plan."""
    option(group, "--resume", "run only what is missing in the output directory")
    option(group, "--retry-failed", "like --resume, but also repeat failed runs")
    text = "run only configuration N (as numbered by --dry-run), e.g. in a job array"
    option(group, "--only N", text, type=at_least(1))
