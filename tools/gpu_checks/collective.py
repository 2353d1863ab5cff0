"""All-reduce over all GPUs of this machine; run as a program, one process of it."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from gpu_checks.report import Report

MEBIBYTES = 256
ENOUGH = 0.5
"""Share of the links' bandwidth in one direction that a large all-reduce should reach."""


def all_reduce(report: Report) -> None:
    """Start one process for each GPU and compare the bus bandwidth with the catalogue's link."""
    count = report.device.cuda.device_count()
    if count < 2:
        report.expect("all-reduce", "two GPUs or more", f"{count} GPU", None)
        return
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    backend = "gloo" if report.dry_run else "nccl"
    tools = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (tools, os.environ.get("PYTHONPATH"))))}
    output = report.command([*launcher, "-m", "gpu_checks.collective", backend], timeout_s=80, env=environment)
    lines = [line for line in output.text.splitlines() if line.startswith("{")]
    if output.status != 0 or not lines:
        report.expect("all-reduce", "runs", (output.errors or output.text)[-1000:], False)
        return
    measured = json.loads(lines[-1])
    report.note(all_reduce=measured)
    report.expect("sum over the GPUs", "right", measured["sum"], measured["sum"] == measured["expected"])
    row = report.catalog_row()
    link = row.link_gb_per_s if row is not None else None
    bandwidth = measured["bus_gb_per_s"]
    report.expect(
        f"bus bandwidth of an all-reduce over {count} GPUs, {measured['mebibytes']} MiB",
        f"at least {ENOUGH:.0%} of the {link / 2:g} GB/s of one direction" if link else "unknown link: no expectation",
        f"{bandwidth:.4g} GB/s",
        None if link is None else bandwidth >= ENOUGH * link / 2,
    )


def main(backend: str) -> None:
    """Join the other processes, reduce, and print what rank 0 measured as a line of JSON."""
    import torch
    import torch.distributed as dist

    dist.init_process_group(backend)
    rank, count = dist.get_rank(), dist.get_world_size()
    on_gpu = backend == "nccl"
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    mebibytes, times = (MEBIBYTES, 20) if on_gpu else (1, 2)
    values = torch.ones(mebibytes * 2**20 // 4, device=device)
    dist.all_reduce(values)
    total = float(values[0])
    for _ in range(3):
        dist.all_reduce(values)
    if on_gpu:
        torch.cuda.synchronize()
    dist.barrier()
    started = time.perf_counter()
    for _ in range(times):
        dist.all_reduce(values)
    if on_gpu:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - started) / times
    if rank == 0:
        # As nccl-tests counts it: what each link carries.
        bandwidth = 2 * (count - 1) / count * mebibytes * 2**20 / seconds / 1e9
        measured = {"sum": total, "expected": count, "mebibytes": mebibytes, "seconds": seconds}
        print(json.dumps(measured | {"bus_gb_per_s": bandwidth}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
