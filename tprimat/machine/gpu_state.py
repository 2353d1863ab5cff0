"""State of the GPUs: power cap, clocks, memory; from the driver, without torch."""

from __future__ import annotations

from tprimat.machine import amd, nvidia
from tprimat.machine.gpu import GpuState
from tprimat.machine.host import Host


def states(host: Host) -> tuple[GpuState, ...]:
    """Return all GPUs of this machine, NVIDIA's first; none where no driver answers."""
    return (*nvidia.states(host), *amd.states(host))
