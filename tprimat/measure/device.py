"""The device that defaults depend on."""

from __future__ import annotations

from tprimat.errors import UsageError
from tprimat.frameworks.encdec.ranks import Ranks
from tprimat.frameworks.loops.launch import cores
from tprimat.frameworks.request import Device
from tprimat.machine.host import Host, memory_limit_gb
from tprimat.machine.platforms import Machine
from tprimat.units import GB


def device_of(machine: Machine) -> Device:
    """Return the device of a machine that platforms.detect() has looked at."""
    gpu, environment = machine.gpu_info, machine.environment
    if machine.platform == "cpu":
        limits = [limit for limit in (gpu.total_memory_gb, memory_limit_gb(Host())) if limit is not None]
        return Device("cpu", environment.cpu_threads or 1, min(limits) * GB if limits else None)
    # Where the GPUs differ, the smallest bounds what each of them can hold.
    sizes = [each.info.total_memory_gb for each in machine.devices] or [gpu.total_memory_gb]
    known = [size for size in sizes if size is not None]
    memory = min(known) * GB if known else None
    return Device(machine.platform, gpu.device_count or 1, memory, gpu.architecture, gpu.device_name)


def device_of_rank(ranks: Ranks) -> Device:
    """Return the device of one of several processes, by torch alone: eight that ask the drivers take seconds.

    Raises:
        UsageError: there is no GPU for this process.
    """
    import torch

    if not torch.cuda.is_available():
        return Device("cpu", max(ranks.world_size, cores()), None)
    count = torch.cuda.device_count()
    if ranks.local_rank >= count:
        raise UsageError(
            f"process {ranks.local_rank + 1} of this machine finds no GPU of its own, {count} are here: start {count} "
            f"(torchrun --nproc_per_node={count})",
            heading="torchrun",
        )
    properties = torch.cuda.get_device_properties(ranks.local_rank)
    return Device(
        "amd" if torch.version.hip else "nvd",
        ranks.world_size,
        float(properties.total_memory),
        None if torch.version.hip else f"sm_{properties.major}{properties.minor}",
    )
