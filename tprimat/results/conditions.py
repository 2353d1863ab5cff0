"""The conditions under which a run was measured: other use of its CPUs, and the preflight rates of
its machine.
"""

from __future__ import annotations

from typing import Annotated

from tprimat.results.fields import Count, NonNegative, Positive, Section, Share


class Disturbance(Section, frozen=True, kw_only=True):
    """Other use of the training's CPUs, from its first to its last step."""

    other_programs_cpu_share: Annotated[
        Share | None, "share of CPU time used by other programs, 0 to 1"
    ] = None
    steal_cpu_share: Annotated[
        Share | None, "share of CPU time that the hypervisor gave to other machines, 0 to 1"
    ] = None
    load_average_at_start: Annotated[
        NonNegative | None, "one-minute load average before the first step"
    ] = None
    cpu_frequency_mhz: Annotated[
        Positive | None, "mean over the CPUs at the end, MHz, if reported"
    ] = None


class Preflight(Section, frozen=True, kw_only=True):
    """What `tprimat preflight` measured on this machine before the run; medians over the
    devices.
    """

    timestamp: Annotated[
        str | None, "when it was measured, ISO 8601 with offset; null without a preflight"
    ] = None
    devices: Annotated[Count | None, "devices measured, all at once"] = None
    matmul_tflops: Annotated[
        dict[str, NonNegative],
        "sustained matrix products by precision, best shape, TFLOP/s per device",
    ] = {}
    memory_gb_per_s: Annotated[
        NonNegative | None, "memory bandwidth (STREAM triad), GB/s per device"
    ] = None
    host_to_device_gb_per_s: Annotated[
        NonNegative | None, "copy from pinned memory, GB/s; GPUs only"
    ] = None
    device_to_host_gb_per_s: Annotated[
        NonNegative | None, "copy to pinned memory, GB/s; GPUs only"
    ] = None
    all_reduce_gb_per_s: Annotated[
        NonNegative | None, "highest bus bandwidth of an all-reduce, GB/s"
    ] = None
    disk_write_gb_per_s: Annotated[NonNegative | None, "writing to the output directory, GB/s"] = (
        None
    )
    disk_read_gb_per_s: Annotated[
        NonNegative | None, "reading from it, without the page cache, GB/s"
    ] = None
    slow_devices: Annotated[tuple[str, ...], "devices that are slower than the others"] = ()
    findings: Annotated[tuple[str, ...], "what may slow benchmarks on this machine"] = ()
