"""Comparison -> the sheets of its sides: what each speed is worth, or why that isn't said."""

from __future__ import annotations

import itertools

from tprimat.analysis import efficiency
from tprimat.compare import Comparison
from tprimat.compare.money import efficiencies
from tprimat.compare.sides import device
from tprimat.report.efficiency import Sheet


def sheets(comparison: Comparison) -> list[Sheet]:
    """One for each side of each model, in the order of the tables."""
    found = []
    for model in comparison.models:
        for side in model.sides:
            why = None
            if side.refusal is not None:
                why = f"Left out: {side.refusal.text}."
            elif not side.counted:
                why = f"No figures: its run {side.ended}."
            price = comparison.prices.get(side.side.name)
            found.append(Sheet(side.side.name, model.title, price, efficiencies(comparison, side), why))
    return found


def micro_batches(comparison: Comparison) -> list[str]:
    """The largest micro batch that fits, for each device on which two were measured."""
    said = []
    for model in comparison.models:
        for one, other in itertools.combinations(model.sides, 2):
            runs = one.run, other.run
            sizes = [run.training_config.micro_batch_size for run in runs]
            alike = device(runs[0]) == device(runs[1]) and all(
                getattr(runs[0].training_config, name) == getattr(runs[1].training_config, name)
                for name in ("sequence_length", "num_gpus", "precision", "recomputation")
            )
            if not alike or runs[0].parallelism_config != runs[1].parallelism_config or None in sizes:
                continue
            fits, why = efficiency.largest_micro_batch(*runs)
            if fits is not None:
                said.append(f"{model.title}, {one.side.name}: a micro batch of up to {fits} sequences fits ({why})")
    return said
