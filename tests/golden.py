"""Golden texts: what a program printed when somebody last looked at it and found it right."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "data" / "golden"


def check(name: str, text: str, folder: Path = FOLDER) -> None:
    """Holds a text against tests/data/golden/<name>; UPDATE_GOLDEN=1 writes it instead, to be
    looked at in the diff.
    """
    path = folder / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    assert path.exists(), (
        f"{path} is missing: run the test with UPDATE_GOLDEN=1 and look at what it writes"
    )
    assert text == path.read_text(encoding="utf-8"), "see UPDATE_GOLDEN in tests/golden.py"
