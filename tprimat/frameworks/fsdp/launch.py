"""The framework `fsdp`: needs a torch with public FSDP2."""

from __future__ import annotations

from tprimat.frameworks import resolve, scales
from tprimat.frameworks.loops.launch import Loop
from tprimat.frameworks.request import Request
from tprimat.machine.host import installed_version

OLDEST = (2, 6)
"""Version of torch from which on fully_shard is in torch.distributed.fsdp."""


class Resolver(resolve.Resolver):
    """The choices of FSDP2."""

    compiles = True

    def bytes_per_parameter(self) -> float:
        """Return the memory of one GPU: its share of weights and AdamW's states, and whole
        gradients.
        """
        if self.device.platform == "cpu":
            return super().bytes_per_parameter()
        return scales.bytes_sharded(self.gpus)


class Fsdp(Loop[Request]):
    """A loop that needs a torch of today."""

    resolver = Resolver

    def unavailable(self) -> str | None:
        """Return why it can't run here and what to do; torch itself is not imported: that takes a
        second.
        """
        version = installed_version("torch")
        digits = [int(part) for part in (version or "").split(".")[:2] if part.isdecimal()]
        if version is not None and tuple(digits) < OLDEST:
            return (
                f"needs torch {'.'.join(map(str, OLDEST))} or newer, and {version} is installed:"
                " upgrade it"
            )
        return None


LAUNCHER = Fsdp()
