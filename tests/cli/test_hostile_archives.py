"""Bundles that state, or unpack to, more than memory or patience holds: one answer, within 200
MB.
"""

from __future__ import annotations

import sys

import bounded
import pytest
from made_hostile import ARCHIVES

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="limits addresses and reads the peak from /proc"
)

MOST_BYTES = 200e6
FEW = (
    "a pax header of 2 GB",
    "a dictionary of xz",
    "bzip2 in a zip",
    "a header of records in records",
)
MANY_S = 60
"""Seconds of CPU."""


@pytest.mark.parametrize("command", ["compare", "verify", "read"])
@pytest.mark.parametrize(
    "what",
    [
        each if each in FEW else pytest.param(each, marks=pytest.mark.reliability)
        for each in ARCHIVES
    ],
)
def test_a_hostile_archive_takes_little(tmp_path, repository, what, command):
    name, make = ARCHIVES[what]
    make(tmp_path / name)
    done = bounded.run(tmp_path, repository, command, name)
    assert done.status in (0, 2), done.output
    assert "MemoryError" not in done.output
    assert len(done.output) < 8_000
    assert done.peak < MOST_BYTES
    assert done.seconds < MANY_S
    # Nothing of it stays.
    assert {each.name for each in tmp_path.iterdir()} <= {name, "peak", "output"}
