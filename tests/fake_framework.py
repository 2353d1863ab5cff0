"""A stand-in for a framework: a row of FRAMEWORKS whose command and reason not to run a test
gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tprimat.frameworks.framework import Framework, Launcher
from tprimat.frameworks.loops.launch import Loop
from tprimat.frameworks.request import Launch, Request


def fake_framework(
    name: str = "lightning",
    command: Callable[[Request], Launch] | None = None,
    *,
    reason: str | None = None,
    logged: bool = False,
    **row: Any,
) -> Framework:
    """Return a framework that resolves like any other.

    Args:
        name: its name.
        command: what launches a request; None if nothing is launched.
        reason: why it can't run; None if it can.
        logged: whether its log is read.
        row: further fields.
    """

    class FakeLauncher(Loop[Request]):
        def unavailable(self) -> str | None:
            return reason

        def launch(self, request: Request) -> Launch:
            assert command is not None
            return command(request)

    launcher = FakeLauncher()
    launcher.logged = logged

    class Fake(Framework):
        @property
        def launcher(self) -> Launcher[Any]:
            return launcher

    return Fake(name, **{"automatic_on": ("nvd", "amd", "cpu"), **row})
