"""The frameworks deepspeed-zero1, -zero2 and -zero3: DeepSpeed compiles an extension on a CPU."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tprimat.errors import UsageError
from tprimat.frameworks import resolve
from tprimat.frameworks.loops.launch import Loop
from tprimat.frameworks.request import Request

COMPILERS = ("c++", "g++", "clang++")


class Resolver(resolve.Resolver):
    """The choices of DeepSpeed."""

    def prepare(self) -> None:
        """Refuse a CPU without a compiler."""
        if self.device.platform != "cpu":
            return
        lacks = "ninja" if shutil.which("ninja", path=_path()) is None else None
        if all(shutil.which(compiler) is None for compiler in COMPILERS):
            lacks = "a C++ compiler"
        if lacks:
            raise UsageError(
                f"{self.framework.name} is not available: on a CPU, DeepSpeed compiles its"
                f" communication at its first start, and {lacks} is missing",
                hint="install g++ and ninja (Debian, Ubuntu: apt install g++ ninja-build)",
                heading="deepspeed",
            )

    def bytes_per_parameter(self) -> float:
        """Return the memory of one GPU: weights, gradients and optimizer states, each sharded from
        its stage on.

        Rajbhandari et al., arXiv 1910.02054, section 5: the optimizer's states are fp32 weights and
            AdamW's two. The
        model is built whole in fp32.
        """
        if self.device.platform == "cpu":
            return super().bytes_per_parameter()
        size = 4 if self.precision() == "fp32" else 2
        stage = int(self.framework.name.removeprefix("deepspeed-zero"))
        parts = {3: size, 2: size, 1: 12}
        return max(
            4, sum(part / self.gpus if stage >= first else part for first, part in parts.items())
        )


class DeepSpeed(Loop[Request]):
    """A loop that finds ninja and the CPU."""

    resolver = Resolver

    def variables(self, request: Request) -> dict[str, str]:
        """Return the search path of its programs, and the CPU as accelerator if it trains there."""
        return {"PATH": _path()} | ({"DS_ACCELERATOR": "cpu"} if request.platform == "cpu" else {})


LAUNCHER = DeepSpeed()


def _path() -> str:
    """Return where programs are looked for, with those of this Python's environment: ninja may be
    there alone.
    """
    return os.pathsep.join(
        [str(Path(sys.executable).parent), *filter(None, [os.environ.get("PATH")])]
    )
