"""The options of `benchmark` that only NeMo takes."""

from __future__ import annotations

import argparse

from tprimat.cli.options._parser import option
from tprimat.cli.options._training import add_setting, at_least
from tprimat.frameworks.nemo.defaults import PERFORMANCE, PRESETS
from tprimat.frameworks.request import DATA, MOCK
from tprimat.settings.rows import DIVISION


def add_options(group: argparse._ArgumentGroup) -> None:
    """Add them to a group."""
    for key in DIVISION:
        add_setting(group, key)
    option(group, "--max-steps N", "alias of --steps", dest="steps", type=at_least(1))
    add_setting(group, "preset", ", ".join(PRESETS), PERFORMANCE, choices=tuple(PRESETS))
    add_setting(group, "data", MOCK, choices=DATA)
    add_setting(group, "settings", action="append")
    option(group, "--gpu NAME", "use the defaults of this GPU, e.g. H100 (default: detected)")
