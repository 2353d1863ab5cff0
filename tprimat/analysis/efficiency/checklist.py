"""The performance checklist of docs/metrics.md: the conditions that a result can show, each with
what to try.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tprimat.analysis.efficiency.subject import ROOM_ABOVE, ROOM_BELOW, Subject, Value

LOW_MFU_PERCENT = 26.0
"""Lowest MFU among the BF16 runs on H100 in MosaicML's table, 1B to 70B parameters, full attention
(mosaicml/llm-foundry scripts/train/benchmarking/README.md @061f2c7)."""

BUSY_PERCENT = 90.0
"""GPU utilization below which the GPU waits for something."""

WAITING_SHARE = 0.05
"""Share of the time spent waiting for data, or of the CPU used by other programs, from which it is
reported.
"""


def hints(subject: Subject, values: Mapping[str, Value]) -> tuple[str, ...]:
    """Return a sentence for each condition that the runs of a setup meet."""
    return (*_of_memory(values), *_of_mfu(subject, values), *_of_waiting(subject))


def _of_memory(values: Mapping[str, Value]) -> Iterator[str]:
    used = values["memory_used_share"]
    # An average is little evidence of how much room is left.
    if used.value is None or "memory_headroom_gb" not in values:
        return
    if used.value < 100 * ROOM_BELOW:
        yield (
            f"only {used.value:.0f}% of the memory is used ({used.reason}): a larger micro-batch"
            " may be faster"
        )
    elif used.value > 100 * ROOM_ABOVE:
        yield (
            f"{used.value:.0f}% of the memory is used ({used.reason}): the allocator may have to"
            " retry; a smaller micro-batch, or expandable segments, may be faster"
        )


def _of_mfu(subject: Subject, values: Mapping[str, Value]) -> Iterator[str]:
    mfu = values.get("mfu_full")
    if (
        mfu is None
        or mfu.value is None
        or subject.precision != "bf16"
        or subject.run.platform == "cpu"
    ):
        return
    if subject.run.scale in (None, "full") and mfu.value < LOW_MFU_PERCENT:
        yield (
            f"MFU of {mfu.value:.0f}% with full attention: published BF16 runs of 1B to 70B"
            f" parameters on H100 reach {LOW_MFU_PERCENT:.0f}–46%"
        )


def _of_waiting(subject: Subject) -> Iterator[str]:
    run = subject.run
    busy = run.native_metrics.get("gpu_utilisation_percent")
    if isinstance(busy, (int, float)) and busy < BUSY_PERCENT:
        yield (
            f"GPU utilization of {busy:.0f}%: the GPU is often idle (waiting for the CPU, data or"
            " other GPUs); profile a few steps"
        )
    waits = run.breakdown.get("data_wait_s")
    computes = run.breakdown.get("compute_s")
    if waits and computes and waits / (waits + computes) > WAITING_SHARE:
        share = waits / (waits + computes)
        yield (
            f"{share:.0%} of the time is spent waiting for data: more loader processes or faster"
            " storage may help"
        )
    others = max(
        (run.disturbance.other_programs_cpu_share or 0.0 for run in subject.runs), default=0.0
    )
    if others > WAITING_SHARE:
        yield f"other programs used {others:.0%} of the CPU: close them and measure again"
