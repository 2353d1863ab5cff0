#!/usr/bin/env python3
"""Print the efficiency of real systems at each size, and how far each size is missed that is
projected from the others.

The tables are those of docs/scaling.md. Logs: MLPerf Training v4.1, v5.0 and v5.1, three systems of
several sizes.

    tools/projection_errors.py LOGS
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tprimat.analysis import projection as sizes
from tprimat.compare import compare
from tprimat.compare.curves import Curve, scaling_of
from tprimat.log_import import load as loader
from tprimat.log_import.given import GivenValues
from tprimat.report.markdown import table
from tprimat.report.rates import rate

_NAMES = (
    re.compile(r"_(?P<nodes>\d*)x?XE9680x(?P<each>8)(?P<gpu>H100)"),
    re.compile(r"_(?P<each>\d+)x(?P<gpu>GB200)"),
    re.compile(r"_(?P<nodes>\d+)x(?P<each>8)x(?P<gpu>B200)"),
)
"""File names of the logs, which alone say how many GPUs trained."""


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A measured size that was projected from the others.

    Attributes:
        errors: by form, projected / measured − 1.
        used: the form that was offered, and its error.
        bounds: of its interval, relative to what was measured.
    """

    curve: Curve
    size: sizes.Size
    errors: dict[str, float | None]
    used: tuple[str, float]
    bounds: tuple[float, float]

    @property
    def is_largest(self) -> bool:
        """Whether nothing larger was measured."""
        return self.size.gpus == self.curve.sizes[-1].gpus


def curves(folder: Path) -> list[Curve]:
    """Return the curves of the logs in a directory."""
    values: list[tuple[str, str, object]] = []
    for path in sorted(folder.glob("*.txt")):
        found = next(match for pattern in _NAMES if (match := pattern.search(path.name)))
        nodes = int(found.groupdict().get("nodes") or 1)
        values += [
            (path.name, "--gpu", found["gpu"]),
            (path.name, "--num-gpus", nodes * int(found["each"])),
        ]
    inputs = loader.load([str(folder)], GivenValues().with_options(values), jobs=1)
    return list(scaling_of(compare(inputs.files)).curves)


def left_out(curve: Curve) -> list[LeftOut]:
    """Return each size of a curve, projected from the others."""
    results = []
    for size in curve.points:
        others = [each for each in curve.points if each.gpus != size.gpus]
        projection = sizes.project(others, size.gpus, size.batch)
        assert projection is not None
        errors = {form: sizes.left_out(curve.points, size.gpus, form) for form in sizes.FORMS}
        used = projection.fit.form, projection.rate / size.rate - 1
        bounds = projection.low / size.rate - 1, projection.high / size.rate - 1
        results.append(LeftOut(curve, size, dict(errors), used, bounds))
    return results


def efficiency_table(found: Sequence[Curve]) -> str:
    """Return the table of the measured sizes."""
    rows = []
    for curve in found:
        for size in curve.sizes:
            ratio = size.efficiency
            percent = (
                "100%"
                if ratio is None
                else f"{ratio.value:.1%} [{100 * ratio.low:.1f}–{100 * ratio.high:.1f}]"
            )
            per_gpu = rate(size.rate)
            rows.append(
                [
                    f"{size.gpus:,}×{curve.name}",
                    f"{size.batch:,}",
                    f"{size.batch / size.gpus:.3g}",
                    per_gpu,
                    percent,
                ]
            )
    return table(["size", "batch", "per GPU", "throughput per GPU", "efficiency [95% CI]"], rows)


def errors_table(results: Sequence[LeftOut]) -> str:
    """Return the table of docs/scaling.md."""
    rows = []
    for each in results:
        name = f"{each.size.gpus:,}×{each.curve.name}"
        forms = (
            "–" if each.errors[form] is None else f"{each.errors[form]:+.1%}"
            for form in sizes.FORMS
        )
        interval = f"{each.bounds[0]:+.1%} to {each.bounds[1]:+.1%}"
        rows.append([f"**{name}**" if each.is_largest else name, *forms, each.used[0], interval])
    header = ["held out", "communication model", "straight line", "offered", "its interval"]
    return table(header, rows)


def main() -> int:
    """Print the tables, and how often the interval holds what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path)
    found = curves(parser.parse_args().logs)
    print(efficiency_table(found), end="\n\n")
    results = [each for curve in found for each in left_out(curve)]
    print(errors_table(results))
    held = sum(each.bounds[0] <= 0 <= each.bounds[1] for each in results)
    print(f"\n{held} of {len(results)} intervals hold the measured value.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
