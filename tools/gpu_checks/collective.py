"""All-reduce over all GPUs of this machine; run as a program, one process of it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from gpu_checks.report import FAILED, ROOT, Report, internal

MEBIBYTES = 256
ENOUGH = 0.5
"""Share of the links' bandwidth in one direction that a large all-reduce should reach."""


def all_reduce(report: Report) -> None:
    """Start one process for each GPU and compare the bus bandwidth with the catalogue's link."""
    count = report.device.cuda.device_count()
    if count < 2:
        report.expect("all-reduce", "two GPUs or more", f"{count} GPU", None)
        return
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={count}",
    ]
    backend = "gloo" if report.dry_run else "nccl"
    tools = str(Path(__file__).resolve().parents[1])
    paths = os.pathsep.join(filter(None, (tools, str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths}
    output = report.command(
        [*launcher, "-m", "gpu_checks.collective", backend], timeout_s=80, env=environment
    )
    lines = [line for line in output.text.splitlines() if line.startswith("{")]
    if output.status != 0 or not lines:
        report.expect("all-reduce", "runs", (output.errors or output.text)[-1000:], False)
        return
    measured = json.loads(lines[-1])
    report.note(all_reduce=measured)
    report.expect("sum over the GPUs", "right", measured["is_right"], measured["is_right"], FAILED)
    row = report.catalog_row()
    link = row.link_gb_per_s if row is not None else None
    bandwidth = measured["bus_gb_per_s"]
    report.expect(
        f"bus bandwidth of an all-reduce over {count} GPUs, {measured['mebibytes']} MiB",
        f"at least {ENOUGH:.0%} of the {link / 2:g} GB/s of one direction"
        if link
        else "unknown link: no expectation",
        f"{bandwidth:.4g} GB/s",
        None if link is None else bandwidth >= ENOUGH * link / 2,
    )


def main(backend: str) -> None:
    """Join the other processes, reduce, and print what rank 0 measured as a line of JSON."""
    platform = "cpu" if backend == "gloo" else "nvd"
    process = internal("from_environment")(os.environ).with_device(platform)
    mebibytes = 1 if backend == "gloo" else MEBIBYTES
    peers = internal("Peers")(process)
    (reduced,) = internal("all_reduce")(peers, process.device, [mebibytes * 2**20], 0.5)
    peers.leave()
    if process.is_first:
        measured = {
            "is_right": reduced.is_right,
            "mebibytes": mebibytes,
            "seconds": reduced.seconds,
        }
        print(json.dumps(measured | {"bus_gb_per_s": reduced.bus_gb_per_s}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
