"""A stand-in for a framework: a row of FRAMEWORKS whose command and reason not to run a test gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tprimat.frameworks.framework import Framework
from tprimat.frameworks.request import Launch, Request


def fake_framework(
    name: str = "lightning",
    command: Callable[[Request], Launch] | None = None,
    *,
    reason: str | None = None,
    **row: Any,
) -> Framework:
    """Return a framework that resolves like any other.

    Args:
        name: its name.
        command: what launches a request; None where nothing is launched.
        reason: why it can't run; None where it can.
        row: further fields.
    """

    class Fake(Framework):
        def unavailable(self) -> str | None:
            return reason

        def launch(self, request: Request) -> Launch:
            assert command is not None
            return command(request)

    return Fake(name, **{"automatic_on": ("nvd", "amd", "cpu"), **row})
