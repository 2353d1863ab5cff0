"""Console lines of a training that records itself: start, a line every so many steps, the end."""

from __future__ import annotations

import re
import sys

from tprimat.analysis.summary import Summary
from tprimat.results.run import Environment, GpuInfo, Platform, Run

WIDTH = 60
RULE = "=" * WIDTH
TITLES: dict[Platform, str] = {"nvd": "CUDA", "amd": "ROCm", "cpu": "CPU"}


def start(platform: Platform, gpu_info: GpuInfo, environment: Environment) -> list[str]:
    """Return the block before the first step."""
    facts = {
        "device_count": gpu_info.device_count,
        "device_name": gpu_info.device_name,
        "total_memory_gb": gpu_info.total_memory_gb,
        **({"cpu_threads": environment.cpu_threads} if platform == "cpu" else {}),
        **({f"{gpu_info.software_stack}_version": gpu_info.software_version} if platform != "cpu" else {}),
    }
    return [
        RULE,
        f"BENCHMARK START - Platform: {TITLES[platform]}",
        RULE,
        *(f"{name}: {'unknown' if value is None else value}" for name, value in facts.items()),
        RULE,
    ]


def step(platform: Platform, number: int, seconds: float | None, mean: float | None, memory_gb: float | None) -> str:
    """Return a line about one step. Units: s, GB."""
    return (
        f"[{TITLES[platform]}] Step {number:3d} | Time: {_shown(seconds, '{:.3f}s')} | "
        f"Avg: {_shown(mean, '{:.3f}s')} | Memory: {_shown(memory_gb, '{:.2f}GB')}"
    )


PRINTED_MEAN = re.compile(r"^(?:Avg Step Time|Step): +(\d+\.\d+) ?(m?)s\b", re.MULTILINE)
"""The mean step time that end() prints, in s or ms."""


def end(platform: Platform, run: Run, summary: Summary) -> list[str]:
    """Return the block of metrics after the last step, without its last rule."""
    figures, memory = summary.performance, run.memory_metrics
    if platform == "cpu":
        kind, mean, peak = "Process ", memory.avg_memory_process_gb, memory.peak_memory_process_gb
    else:
        kind, mean, peak = "", memory.avg_memory_allocated_gb, memory.peak_memory_allocated_gb
    reason = [f"Reason: {run.status_reason}"] if run.status != "complete" else []
    rate = figures.tokens_per_second_per_gpu
    return [
        RULE,
        f"BENCHMARK {run.status.upper()} - Platform: {TITLES[platform]}",
        RULE,
        *reason,
        f"Total Steps: {figures.total_steps}",
        f"Total Time: {_shown(figures.total_time_seconds, '{:.2f}s')}",
        f"Avg Step Time: {_shown(figures.avg_step_time_seconds, '{:.3f}s')}",
        f"Throughput: {_shown(figures.steps_per_second, '{:.3f} steps/s')}",
        *([] if rate is None else [f"Throughput per GPU: {rate:,.1f} tokens/s"]),
        f"Avg {kind}Memory: {_shown(mean, '{:.2f}GB')}",
        f"Peak {kind}Memory: {_shown(peak, '{:.2f}GB')}",
        "",
    ]


def echo(lines: list[str], *, to_errors: bool = False) -> None:
    """Print immediately, in any encoding; a closed pipe is ignored."""
    stream = sys.stderr if to_errors else sys.stdout
    if stream is None:
        return  # a program without a console
    text = "\n".join(lines) + "\n"
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except (OSError, ValueError):
        # A closed pipe or stream: the training goes on, and the result file holds all of this.
        return


def _shown(value: float | None, form: str) -> str:
    return "unknown" if value is None else form.format(value)
