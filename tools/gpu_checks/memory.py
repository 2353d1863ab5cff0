"""Memory: do the allocator, the driver and the vendor's tool agree, and does our reader see what
was allocated?
"""

from __future__ import annotations

import os

from gpu_checks.device import Device
from gpu_checks.report import FAILED, Report, internal, relative_difference

GB = 1e9
MIB = 2**20


def memory(report: Report) -> None:
    """Allocate four blocks, free two, and compare every reading with what is known."""
    device = report.device
    block = 4 * MIB if report.dry_run else min(512 * MIB, device.free_bytes() // 16 // MIB * MIB)
    # A context and the library's workspaces are there before anything is counted.
    device.work(0.001)()
    device.synchronize()
    device.cuda.empty_cache()
    base, base_reserved = _allocator(device)
    free, total = device.cuda.mem_get_info(device.torch_device)
    reader = None
    with report.part("our DeviceMemory"):
        reader = internal("DeviceMemory")(device.torch_device, device.cuda)
        reader.start()
    blocks = [device.bytes(block) for _ in range(4)]
    device.synchronize()
    del blocks[2:]
    allocated, reserved = _allocator(device)
    peak = device.cuda.memory.memory_stats_as_nested_dict(device.torch_device)["allocated_bytes"][
        "all"
    ]["peak"]
    free_after, _ = device.cuda.mem_get_info(device.torch_device)
    report.note(
        block_bytes=block,
        allocated_before=base,
        reserved_before=base_reserved,
        allocated=allocated,
        reserved=reserved,
        peak=peak,
        free_before=free,
        free_after=free_after,
        total=total,
    )
    report.expect(
        "allocated and peak of the allocator",
        f"{2 * block} and {4 * block} bytes more than before, within 1%",
        f"{allocated - base} and {peak - base} bytes more",
        relative_difference(allocated - base, 2 * block) <= 0.01
        and relative_difference(peak - base, 4 * block) <= 0.01,
        FAILED,
    )
    grown, taken = reserved - base_reserved, free - free_after
    report.expect(
        "what the driver counts against what the allocator reserved",
        "the same growth within 2% and 64 MiB",
        f"the driver {taken / MIB:.0f} MiB, the allocator {grown / MIB:.0f} MiB",
        abs(taken - grown) <= 0.02 * grown + 64 * MIB,
    )
    if reader is not None:
        with report.part("our DeviceMemory"):
            reader.step_end()
            reader.sample()
            metrics = reader.metrics()
            report.note(memory_metrics=metrics)
            report.expect(
                "warnings of DeviceMemory",
                "none",
                [note.code for note in reader.notes],
                not reader.notes,
            )
            seen_gb = (metrics.peak_memory_allocated_gb, metrics.peak_memory_reserved_gb)
            report.expect(
                "our peaks, allocated and reserved",
                f"{peak / GB:.4g} and {reserved / GB:.4g} GB",
                seen_gb,
                None not in seen_gb
                and relative_difference(seen_gb[0], peak / GB) < 0.01
                and relative_difference(seen_gb[1], reserved / GB) < 0.01,
                FAILED,
            )
            used_gb = metrics.peak_memory_device_used_gb
            report.expect(
                "our peak of the whole device",
                f"{(total - free_after) / GB:.4g} GB, the driver's figure",
                used_gb,
                used_gb is not None
                and relative_difference(used_gb, (total - free_after) / GB) < 0.01,
                FAILED,
            )
    _against_tool(report, (total - free_after) / GB, total / GB)
    del blocks
    device.cuda.empty_cache()
    after = _allocator(device)
    report.expect(
        "after everything is freed", "as before, within 2 MiB", f"{after[0] - base} bytes more",
        after[0] - base <= 2 * MIB,
    )  # fmt: skip


def _against_tool(report: Report, used_gb: float, total_gb: float) -> None:
    """Compare the driver's figures within this process with those of the vendor's tool."""
    with report.part("the vendor's tool against the driver"):
        states = internal("states")(report.host())
        state = _state_of_device_0(states)
        if state is None:
            report.expect(
                "the vendor's tool against the driver",
                "a GPU",
                f"{len(states)} GPUs, which one is unknown",
                None,
            )
            return
        report.expect(
            "memory in use by the vendor's tool",
            f"{used_gb:.4g} GB by the driver, within 5% and 0.8 GB (a tool may count the driver's"
            " own share)",
            state.memory_used_gb,
            state.memory_used_gb is not None
            and abs(state.memory_used_gb - used_gb) <= 0.05 * used_gb + 0.8,
        )
        report.expect(
            "total memory by the vendor's tool",
            f"{total_gb:.4g} GB by the driver, within 3%",
            state.memory_total_gb,
            state.memory_total_gb is not None
            and relative_difference(state.memory_total_gb, total_gb) <= 0.03,
        )


def _state_of_device_0(states: tuple) -> object:
    """Return the tool's row of torch's device 0, where that is certain."""
    if len(states) == 1:
        return states[0]
    visible = next(
        (
            os.environ[name]
            for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
            if os.environ.get(name)
        ),
        "0",
    )
    first = visible.split(",")[0].strip()
    return next((state for state in states if str(state.index) == first), None)


def _allocator(device: Device) -> tuple[int, int]:
    """Return what torch's allocator has handed out and what it has reserved. Units: bytes."""
    stats = device.cuda.memory.memory_stats_as_nested_dict(device.torch_device)
    return stats["allocated_bytes"]["all"]["current"], stats["reserved_bytes"]["all"]["current"]
