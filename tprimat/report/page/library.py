"""plotly.js as the page includes it: the basic bundle of npm's plotly.js-basic-dist-min 4.1.1, compressed."""

from __future__ import annotations

import base64
import gzip
import hashlib
from pathlib import Path

PLOTLY = gzip.decompress((Path(__file__).parent / "plotly-basic.min.js.gz").read_bytes())
"""The script, as a browser runs it."""


def packed(content: bytes) -> str:
    """Return content as the page includes it: gzip, base64."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode("ascii")


def digest(content: bytes) -> str:
    """Return the sha256 of a script as a content security policy names it."""
    return base64.b64encode(hashlib.sha256(content).digest()).decode("ascii")
