"""The chart library's script, as the page carries it: compressed, and named by its hash."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
from pathlib import Path

HOW_TO_GET = "pip install plotly"


@dataclasses.dataclass(frozen=True)
class Library:
    """plotly.js, as packed() and digest() make it."""

    packed: str
    digest: str


def load() -> Library | None:
    """The script that the plotly package carries; None where the package isn't there or carries none."""
    try:
        import plotly

        text = (Path(plotly.__file__ or "").parent / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    except (ImportError, OSError):
        return None
    # A browser hashes the text that it runs; a script element turns no line ends around.
    content = text.encode()
    return Library(packed(content), digest(content))


def packed(content: bytes) -> str:
    """Content as the page carries it: gzip, base64."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode("ascii")


def digest(content: bytes) -> str:
    """sha256 of a script as a content security policy names it."""
    return base64.b64encode(hashlib.sha256(content).digest()).decode("ascii")
