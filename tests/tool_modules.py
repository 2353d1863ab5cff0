"""Modules of tools/ and docs/, for tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def load_tool(name: str, folder: str = "tools"):
    """Return a module of tools/ or docs/, which are no packages: they run before anything is
    installed.
    """
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
