"""Where this package is. Imports next to nothing, since every --help does."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
"""The clone or installation that this package is part of."""


def python_path() -> str:
    """Return PYTHONPATH for a child: a clone that is not installed is found by it alone in another directory."""
    return os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
