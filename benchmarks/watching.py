#!/usr/bin/env python3
"""What `tprimat watch` costs: an idle log, and one that grows, beside reading the same log once. CPU time.

python3 benchmarks/watching.py [SECONDS]    how long the idle log is watched (default: 60)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STEPS = 5_000
ROUNDS = 3
HEAD = "  seq_length ........ 2048\n  world_size ........ 8\n  global_batch_size ........ 64\n"


def step_line(step: int) -> str:
    """Return a line as Megatron-LM prints it."""
    return (
        f" iteration {step:8d}/{STEPS:8d} | elapsed time per iteration (ms): {1000 + step % 7:.1f} | "
        f"global batch size: 64 | lm loss: {10 - step / STEPS:.6E} |\n"
    )


def cpu_time(command: list[str], meanwhile: Callable[[], None] = lambda: None) -> float:
    """Return the CPU time of `tprimat` with these arguments, s."""
    process = subprocess.Popen([sys.executable, "-m", "tprimat", *command], cwd=ROOT, stdout=subprocess.DEVNULL)
    meanwhile()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def main(seconds: float) -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "train.log"
        lines = [step_line(step) for step in range(1, STEPS + 1)]
        log.write_text(HEAD + "".join(lines))
        once = min(cpu_time(["watch", str(log)]) for _ in range(ROUNDS))
        log.write_text(HEAD + "".join(lines[:-1]))
        # Two of them, so that start and reading cancel.
        short, idle = (
            min(cpu_time(["watch", str(log), "--max-stall", str(stall)]) for _ in range(rounds))
            for stall, rounds in ((1, ROUNDS), (seconds, 1))
        )
        log.write_text(HEAD)

        def write() -> None:
            with log.open("a") as stream:
                for start in range(0, STEPS, STEPS // 50):
                    stream.writelines(lines[start : start + STEPS // 50])
                    stream.flush()
                    time.sleep(seconds / 50)

        growing = cpu_time(["watch", str(log)], write)
    print(f"a complete log of {STEPS} steps, read once   {once:6.2f} s")
    share = (idle - short) / seconds
    print(f"idle for {seconds:.0f} s                               {idle - short:+6.2f} s  {share:.2%} of a CPU")
    times = growing / once
    print(f"the same log written within {seconds:.0f} s            {growing:6.2f} s  {times:.1f} × reading it once")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60)
