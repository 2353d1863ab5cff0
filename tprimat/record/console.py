"""Console lines of a training that records itself: recording, steps if requested, outcome."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tprimat import units
from tprimat.analysis.summary import Summary
from tprimat.results.run import Environment, GpuInfo, Platform, Run
from tprimat.text import counted, plain

TITLES = {"nvd": "CUDA", "amd": "ROCm", "cpu": "CPU"}
MOST_WARNINGS = 2
"""Lines of warnings; the result has them all."""


def start(platform: Platform, gpu_info: GpuInfo, environment: Environment) -> str:
    """Return the line before the first step."""
    device = plain(gpu_info.device_name or "unknown device")
    if platform == "cpu":
        return f"Recording on {device}, {counted(environment.cpu_threads or 1, 'thread')}"
    parts = [
        f"{gpu_info.device_count or 'some'} × {device}",
        f"{units.gigabytes(gpu_info.total_memory_gb)} each",
    ]
    parts += (
        [f"{TITLES[platform]} {gpu_info.software_version}"] if gpu_info.software_version else []
    )
    return f"Recording on {', '.join(parts)}"


def step(
    platform: Platform,
    number: int,
    seconds: float | None,
    mean: float | None,
    memory_gb: float | None,
) -> str:
    """Return a line about one step. Units: s, GB."""
    return (
        f"[{TITLES[platform]}] Step {number:3d} | Time: {_shown(seconds, '{:.3f}s')} | "
        f"Avg: {_shown(mean, '{:.3f}s')} | Memory: {_shown(memory_gb, '{:.2f}GB')}"
    )


PRINTED_MEAN = re.compile(r"^(?:Avg Step Time|Step): +(\d+\.\d+) ?(m?)s\b", re.MULTILINE)
"""The mean step time that end() prints, in s or ms."""


def end(platform: Platform, run: Run, summary: Summary, path: Path | None, runs: int) -> list[str]:
    """Return the lines on the outcome of a training, after its last step; its result is in a file
    with `runs` runs, if in any.
    """
    figures = summary.performance
    memory = run.memory_metrics
    steady = summary.steady
    reason = f": {plain(run.status_reason)}" if run.status_reason else ""
    lines = [
        f"Recorded {plain(run.model or 'a training')}: {counted(len(run.steps), 'step')},"
        f" {run.status}{reason}"
    ]
    speed = ""
    if (rate := figures.tokens_per_second_per_gpu) is not None:
        speed = f", {units.number(rate, 0)} tokens/s"
    if speed and (run.num_gpus or 1) > 1:
        speed += " per process" if platform == "cpu" else " per GPU"
    if figures.avg_step_time_seconds is not None:
        mean = f"mean of steps {steady.first_step} to {steady.last_step}"
        lines.append(f"Step:    {units.seconds(figures.avg_step_time_seconds)}{speed}, {mean}")
    peak = memory.peak_memory_allocated_gb
    of = "allocated"
    if platform == "cpu":
        peak = memory.peak_memory_process_gb
        of = "of the process"
    lines += [f"Memory:  {units.gigabytes(peak)} {of}, peak"] if peak is not None else []
    lines.append(f"Results: {path}" if path else "Results were not saved")
    if runs > 1:
        lines[-1] += f" (now {runs} runs)"
    return lines


def warnings(texts: list[str]) -> list[str]:
    """Return the lines of warnings, of many the first ones."""
    lines = [f"warning: {plain(text)}" for text in texts]
    if len(lines) > MOST_WARNINGS:
        lines[MOST_WARNINGS - 1 :] = [
            f"warning: {len(lines) - MOST_WARNINGS + 1} more in the result"
        ]
    return lines


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
    if value is None:
        return "unknown"
    return form.format(value)
