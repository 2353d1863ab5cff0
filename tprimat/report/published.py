"""Sentences that set a side beside what is published of the same GPU, model, precision and sequence length."""

from __future__ import annotations

from tprimat import units
from tprimat.catalog import published
from tprimat.compare import ModelComparison, SideResult
from tprimat.report.rates import RATE, rate
from tprimat.text import plain


def beside(model: ModelComparison) -> list[str]:
    """One sentence for each side and published figure that agree; what is refused is set beside nothing."""
    return [
        text
        for side in model.sides
        if side.refusal is None and side.value(RATE) is not None
        for row in published.of_the_same(side.run)
        for text in [_sentence(side, row)]
    ]


def _sentence(side: SideResult, row: published.Published) -> str:
    found = [level.tokens_per_second_per_gpu for level in side.levels] or [side.value(RATE)]
    shares = sorted({round(100 * each / row.tokens_per_second_per_gpu) for each in found if each})
    share = " to ".join(f"{each}" for each in ([shares[0], shares[-1]] if len(shares) > 1 else shares))
    config = side.run.training_config
    differing = [
        f"{theirs} {what}, here {ours}"
        for what, theirs, ours in (
            ("GPUs", row.gpus, side.count),
            ("sequences a step", row.global_batch_size, config.global_batch_size),
        )
        if theirs is not None and ours is not None and theirs != ours
    ]
    said = "; ".join([*filter(None, [row.date, row.note]), *differing])
    return (
        f"{plain(side.name)}: {share} % of what {row.publisher} publishes for this: "
        f"{rate(row.tokens_per_second_per_gpu)} tokens/s/GPU, {row.precision}, sequence "
        f"{units.number(row.sequence_length, 0)} ({said}; {row.source})"
    )
