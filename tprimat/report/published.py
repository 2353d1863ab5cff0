"""Sentences that compare a system with published results of the same GPU, model, precision and sequence length."""

from __future__ import annotations

from tprimat import units
from tprimat.catalog import published
from tprimat.compare import ModelComparison, SystemResult
from tprimat.report.rates import RATE, rate
from tprimat.text import plain

CLOSE = 97
"""Percent of a published result from which on nothing needs an explanation."""


def beside(model: ModelComparison) -> list[str]:
    """Return a sentence for each system and published result of the same; none for an excluded system."""
    return [
        text
        for system in model.systems
        if system.exclusion is None and system.value(RATE) is not None and not system.per_sample
        for row in published.of_the_same(system.run)
        for text in [_sentence(system, row)]
    ]


def _sentence(system: SystemResult, row: published.Published) -> str:
    share = 100 * (system.value(RATE) or 0) / row.tokens_per_second_per_gpu
    config = system.run.training_config
    differing = [
        f"{theirs} {what}, here {ours}"
        for what, theirs, ours in (
            ("GPUs", row.gpus, system.count),
            ("sequences a step", row.global_batch_size, config.global_batch_size),
        )
        if theirs is not None and ours is not None and theirs != ours
    ]
    # A result made from the published figure, or from its logs, can't confirm it.
    is_itself = abs(share - 100) < 0.05
    match = "is" if is_itself else "matches" if 99 <= share <= 101 else f"reaches {share:.0f}% of"
    details = "; ".join([*filter(None, [row.date, row.note]), *differing, row.source])
    text = (
        f"{plain(system.name)} {match} the published result of {row.publisher}: {rate(row.tokens_per_second_per_gpu)} "
        f"tokens/s/GPU, {row.precision.upper()}, sequence length {units.number(row.sequence_length, 0)} ({details})"
    )
    return text if share >= CLOSE else f"{text}. {_gap(system, row, bool(differing))}"


def _gap(system: SystemResult, row: published.Published, differing: bool) -> str:
    """Return what explains a gap: what the result shows to be different, else what the cause often is."""
    run = system.run
    cap, default = (run.energy_metrics.get(f"power_{name}_watts") for name in ("cap", "default"))
    known = [
        f"trained with {run.framework}, published with {row.framework}"
        if row.framework and run.framework and run.framework != row.framework
        else None,
        "eager PyTorch" if run.framework_config.get("torch_compile") is False else None,
        f"a power cap of {cap:.0f} W instead of {default:.0f} W" if cap and default and cap < default else None,
        "another batch size or number of GPUs" if differing else None,
    ]
    causes = ", ".join(filter(None, known))
    if causes:
        return f"What may explain the gap: {causes}"
    return "Usual causes of such a gap: parallelism and micro-batch, kernels of another version, clocks and power"
