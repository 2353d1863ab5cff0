"""Preflights that are made up."""

from __future__ import annotations

from tprimat.results.preflight import (
    AllReduce,
    DevicePreflight,
    Disk,
    NodePreflight,
    PreflightFile,
    Rate,
)

H100 = "NVIDIA H100 80GB HBM3"
OPERATIONS = {
    "fp32": 51.0,
    "tf32": 370.0,
    "bf16": 700.0,
    "fp16": 690.0,
    "fp8": 1300.0,
    "copy": 2700.0,
    "triad": 2800.0,
    "host to device": 55.0,
    "device to host": 54.0,
}


def rate(value: float, **more) -> Rate:
    return Rate(median=value, mean=value * 0.99, best=value * 1.02, **more)


def device(index: int, factor: float = 1.0, host: str = "node1", **more) -> DevicePreflight:
    """A GPU with the id gpu-{index}, of which all products reach this much of the usual."""
    rates = {
        name: rate(value * (factor if index_of < 5 else 1))
        for index_of, (name, value) in enumerate(OPERATIONS.items())
    }
    known = {"name": H100, "id": f"gpu-{index}", "power_cap_w": 700.0, "power_default_w": 700.0}
    return DevicePreflight(
        rank=index, local_rank=index, host=host, **{"rates": rates, **known, **more}
    )


def preflight(*devices: DevicePreflight, **more) -> PreflightFile:
    node = NodePreflight(host="node1", versions={"driver": "NVIDIA 570.86"})
    known = {
        "timestamp": "2026-11-24T22:00:00+01:00",
        "platform": "nvd",
        "quick": False,
        "seconds": 131.0,
        "nodes": (node,),
        "all_reduce": tuple(
            AllReduce(bytes=2**power, seconds=1e-4, bus_gb_per_s=14.0 * power)
            for power in (10, 20, 30)
        ),
        "all_reduce_backend": "nccl",
        "disk": Disk(bytes=2**30, write_gb_per_s=2.1, read_gb_per_s=3.4),
    }
    return PreflightFile(devices=devices or tuple(map(device, range(8))), **{**known, **more})
