"""What torch, the driver and the vendor's tools say, raw, and what our parsers and the catalogue
make of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from gpu_checks.report import FAILED, ROOT, Report, internal, relative_difference

NVIDIA_FIELDS = (
    "index,name,uuid,pci.bus_id,driver_version,memory.total,memory.used,memory.reserved,power.draw,power.limit,"
    "power.default_limit,power.max_limit,clocks.sm,clocks.max.sm,temperature.gpu,mig.mode.current,compute_mode,ecc.mode.current"
)
COMMANDS = (
    ["nvidia-smi"],
    ["nvidia-smi", "-L"],
    ["nvidia-smi", "-q"],
    ["nvidia-smi", f"--query-gpu={NVIDIA_FIELDS}", "--format=csv"],
    ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv"],
    ["nvidia-smi", "--help-query-gpu"],
    ["nvidia-smi", "topo", "-m"],
    ["amd-smi", "version"],
    ["amd-smi", "list", "--json"],
    ["amd-smi", "static", "--json"],
    ["amd-smi", "metric", "--json"],
    ["amd-smi", "process", "--json"],
    ["amd-smi", "partition", "--json"],
    ["amd-smi", "topology"],
    ["rocm-smi", "--showallinfo", "--json"],
    ["rocm-smi", "--showpids", "--json"],
    ["rocm-smi", "--showenergycounter", "--json"],
    ["rocm-smi", "--showtopo"],
    ["rocminfo"],
)
"""What is asked of the tools that are here, whether our code asks it or not."""

FILES = (
    "/proc/driver/nvidia/version",
    "/proc/sys/kernel/numa_balancing",
    "/sys/module/amdgpu/version",
    "/sys/class/kfd/kfd/topology/nodes/*/properties",
    *(
        f"/sys/class/drm/card*/device/{name}"
        for name in (
            "vendor", "device", "product_name", "mem_info_vram_total", "mem_info_vram_used", "pp_dpm_sclk",
            "current_compute_partition", "current_memory_partition", "hwmon/hwmon*/power1_*",
            "hwmon/hwmon*/freq1_input", "hwmon/hwmon*/energy1_input", "hwmon/hwmon*/temp1_input",
        )
    ),
)  # fmt: skip

HELD_BYTES = 2**30


def machine(report: Report) -> None:
    """Keep everything that torch says of the device, and find its row in the catalogue."""
    report.keep_files(*FILES)
    report.note(
        python=platform.python_version(), kernel=platform.release(), architecture=platform.machine()
    )
    with report.part("torch"):
        device = report.device
        torch = device.torch
        properties = None if report.dry_run else torch.cuda.get_device_properties(0)
        report.note(
            torch=torch.__version__,
            cuda=torch.version.cuda,
            hip=torch.version.hip,
            devices=device.cuda.device_count(),
            architectures=torch.cuda.get_arch_list(),
            properties={
                name: getattr(properties, name)
                for name in dir(properties)
                if properties and not name.startswith("_")
            },
        )
        if properties is not None:
            _architecture(report, torch, properties)
    with report.part("our view of the machine"):
        seen = internal("detect")(host=report.host())
        report.note(machine=seen)
        count = 0 if report.dry_run else report.device.cuda.device_count()
        report.expect(
            "GPUs that we see",
            f"{count}, as torch",
            len(seen.devices),
            len(seen.devices) == count,
            FAILED,
        )
        report.expect("our warnings about the machine", "none", seen.warnings, not seen.warnings)
        for name in (
            "device_name",
            "total_memory_gb",
            "gpu_cores",
            "compute_units",
            "architecture",
            "clock_mhz",
        ):
            value = getattr(seen.gpu_info, name)
            report.expect(
                f"gpu_info.{name}", "known", value, None if report.dry_run else value is not None
            )
        driver = seen.environment.versions.get("driver")
        report.expect(
            "the driver's version", "known", driver, None if report.dry_run else driver is not None
        )
    row = report.catalog_row()
    if row is not None:
        report.note(catalog_row=row)
        report.expect("catalogue row of the GPU", "one", row.title, True)


def _architecture(report: Report, torch: Any, properties: Any) -> None:
    """Check that this torch was built for this GPU."""
    name = f"sm_{properties.major}{properties.minor}"
    if torch.version.hip:
        name = properties.gcnArchName.split(":")[0]
    built = torch.cuda.get_arch_list()
    # NVIDIA's code runs on later minor versions of the same major one.
    family = [each for each in built if each.rstrip("a").startswith(f"sm_{properties.major}")]
    fits = name in built or (not torch.version.hip and bool(family))
    report.expect("torch's build", f"has code for {name}", ", ".join(built), fits, FAILED)


def tools(report: Report) -> None:
    """Run the vendor's tools while another process holds memory, and compare our parsers with
    torch.
    """
    for package in ("pynvml", "amdsmi"):
        with contextlib.suppress(Exception):
            report.note(
                **{package: getattr(importlib.import_module(package), "__version__", "here")}
            )
    with report.part("a process that holds memory"), _holder(report) as holder:
        here = [argv for argv in COMMANDS if shutil.which(argv[0])]
        report.expect(
            "a vendor's tool on PATH", "at least one", sorted({argv[0] for argv in here}), bool(here) or None
        )  # fmt: skip
        for argv in here:
            report.command(argv)
        report.command(
            [sys.executable, "-m", "tprimat", "doctor", "--json"], timeout_s=60, cwd=ROOT
        )
        _parsers(report, holder)


def _parsers(report: Report, holder: int) -> None:
    """Look at what our readers make of the same machine: by the vendor's library, and by the tools
    alone.
    """
    host = report.host()
    _readers(report, holder, host, "")
    _readers(
        report,
        holder,
        dataclasses.replace(host, library=lambda name: None),
        " (without NVML and amdsmi)",
    )


def _readers(report: Report, holder: int, host: Any, how: str) -> None:
    """Look at what our readers make of this machine.

    Args:
        report: gets the findings.
        holder: process number of the one that holds memory.
        host: where they read.
        how: ends the findings' names.
    """
    count, total_gb = 0, None
    if not report.dry_run:
        with report.part("torch's GPUs"):
            count = report.device.cuda.device_count()
            total_gb = report.device.cuda.get_device_properties(0).total_memory / 1e9
    with report.part(f"our reader of the GPUs' state{how}"):
        states = internal("states")(host)
        report.note(**{f"states{how}": states})
        report.expect(
            f"GPUs by the driver{how}", f"{count}, as torch", len(states), len(states) == count
        )
        for name in (
            "memory_total_gb",
            "memory_used_gb",
            "power_cap_w",
            "power_default_w",
            "clock_mhz",
            "clock_max_mhz",
        ):
            if states:
                value = getattr(states[0], name)
                report.expect(f"state of GPU 0: {name}{how}", "known", value, value is not None)
        if states and total_gb and states[0].memory_total_gb:
            report.expect(
                f"total memory by the driver{how}",
                f"{total_gb:.4g} GB, as torch, within 3%",
                states[0].memory_total_gb,
                relative_difference(states[0].memory_total_gb, total_gb) <= 0.03,
            )
    with report.part(f"our list of processes on the GPUs{how}"):
        processes = internal("list_processes")(host)
        report.note(**{f"processes{how}": processes})
        listed = [process for process in processes or () if process.pid == holder]
        report.expect(
            f"the process that holds memory, by the vendor{how}",
            f"listed with its number, and at least {HELD_BYTES / 1e9:.3g} GB (a container may hide"
            " both)",
            listed or f"not among {len(processes or ())} processes",
            (
                None
                if report.dry_run
                else any(
                    process.memory_gb is not None and process.memory_gb >= HELD_BYTES / 1e9
                    for process in listed
                )
            ),
        )
    with report.part(f"memory held by others{how}"):
        held_gb = internal("detect")(host=host).environment.memory_held_by_others_gb
        report.expect(
            f"memory held by other processes{how}",
            f"at least {HELD_BYTES / 1e9:.3g} GB",
            held_gb,
            None if report.dry_run else held_gb is not None and held_gb >= HELD_BYTES / 1e9,
        )


@contextlib.contextmanager
def _holder(report: Report) -> Iterator[int]:
    """Have another process hold memory of the GPU; its number."""
    code = (
        "import torch\n"
        + (
            ""
            if report.dry_run
            else f"kept = torch.empty({HELD_BYTES}, dtype=torch.uint8, device='cuda:0')\n"
        )
        + "print('ready', flush=True)\ninput()\n"
    )
    if report.dry_run:
        code = "print('ready', flush=True)\ninput()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline().strip() == "ready"
        report.expect(
            "a process that holds memory", "starts", "it does" if ready else "it doesn't", ready
        )
        yield process.pid
    finally:
        process.kill()
        _, errors = process.communicate()
        if errors:
            report.keep("errors of the process that holds memory", errors)
