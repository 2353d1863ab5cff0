"""Sentences that compare a system with the nearest published result with the same GPU, model, task,
precision and sequence length.
"""

from __future__ import annotations

from tprimat import units
from tprimat.analysis import flops
from tprimat.catalog import published
from tprimat.compare import ModelComparison, SystemResult
from tprimat.report.rates import RATE, rate
from tprimat.text import plain

CLOSE = 97
"""Percent of a published result from which on a gap needs no explanation."""


def beside(model: ModelComparison) -> list[str]:
    """Return a sentence for each system for which there is a comparable published result; none for
    an excluded system.
    """
    sentences = []
    for system in model.systems:
        speed = system.value(RATE)
        if speed is None or system.exclusion is not None or system.unit != "tokens":
            continue
        row = published.nearest(system.run)
        if row is not None:
            sentences.append(_sentence(system, row, speed))
    return sentences


def _sentence(system: SystemResult, row: published.Published, speed: float) -> str:
    theirs = row.tokens_per_second_per_gpu or 0.0
    share = 100 * speed / theirs
    length = row.sequence_length or 0
    differing = _differing(system, row)
    # A result made from the published value, or from its logs, can't confirm it.
    if abs(share - 100) < 0.05:
        match = "is"
    elif 99 <= share <= 101:
        match = "matches"
    else:
        match = f"reaches {share:.0f}% of"
    stated = [
        row.date,
        row.version,
        "" if row.task == "pretrain" else published.TASKS[row.task],
        row.note,
    ]
    details = "; ".join([*filter(None, stated), *differing.values(), row.source])
    shape, _ = flops.model_shape(system.run)
    count = flops.flops_per_token(shape, length) if shape else None
    # TFLOP/s by the formula of all results here: the values of publishers follow other conventions.
    tflops = f" ({units.number(theirs * count / 1e12, 0)} TFLOP/s)" if count else ""
    text = (
        f"{plain(system.name)} {match} the published result of {row.publisher}: {rate(theirs)}"
        f" tokens/s/GPU{tflops}, {row.precision.upper()}, sequence length {units.number(length, 0)}"
        f" ({details})"
    )
    if share >= CLOSE:
        return text
    return f"{text}. {_gap(system, list(differing))}"


def _differing(system: SystemResult, row: published.Published) -> dict[str, str]:
    """Return the settings that are known to differ, by name, each with both values."""
    config = system.run.training_config
    packed: dict[bool | None, str] = {True: "packed", False: "not packed"}
    differing = {}
    for name, theirs, ours, text in (
        ("number of GPUs", row.num_gpus, system.count, "{} GPUs, here {}"),
        (
            "batch size",
            row.global_batch_size,
            config.global_batch_size,
            "{} sequences per step, here {}",
        ),
        ("framework", row.framework, published.framework(system.run), "{}, here {}"),
        ("packing", packed.get(row.packing), packed.get(config.packing), "{}, here {}"),
    ):
        if theirs and ours is not None and theirs != ours:
            differing[name] = text.format(theirs, ours)
    return differing


def _gap(system: SystemResult, differing: list[str]) -> str:
    """Return what may explain a gap: known differences, or else frequent causes."""
    run = system.run
    causes = []
    if differing:
        *some, last = differing
        causes.append(f"a different {' or '.join(filter(None, [', '.join(some), last]))}")
    if run.framework_config.get("torch_compile") is False:
        causes.append("eager PyTorch")
    cap = run.energy_metrics.get("power_cap_watts")
    default = run.energy_metrics.get("power_default_watts")
    if cap and default and cap < default:
        causes.append(f"a power cap of {cap:.0f} W instead of {default:.0f} W")
    if causes:
        return f"Possible causes of the gap: {', '.join(causes)}"
    return (
        "Usual causes of such a gap: parallelism and micro-batch, different kernel versions, clocks"
        " and power"
    )
