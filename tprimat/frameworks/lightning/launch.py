"""The framework `lightning`: the default, made to suit its GPU before the first step
(loops/compile_and_fit.py).
"""

from tprimat.frameworks import resolve
from tprimat.frameworks.loops.launch import Loop
from tprimat.frameworks.request import Request


class Resolver(resolve.Resolver):
    """The choices of Lightning."""

    compiles = True
    finds_micro_batch = True


class Lightning(Loop[Request]):
    """A loop that a profiler can watch."""

    profiles = True
    resolver = Resolver


LAUNCHER = Lightning()
