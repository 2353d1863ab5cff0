"""Comparison -> a picture of 2 × 2 panels: throughput, step times, loss, memory.

Colours are those of Okabe and Ito, which colour-blind people can tell apart; sides differ in
marker and models in line style as well. What was not measured is said in its panel.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from tprimat.compare import Comparison
from tprimat.report.plot import bars, lines
from tprimat.report.plot.items import items_of
from tprimat.text import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 12.0
ROW_HEIGHT = 0.46
LEAST_PANEL_HEIGHT = 4.3
ENTRY_HEIGHT = 0.2
LETTER_WIDTH = 0.078
"""Inches; of the legend's letters, on average."""

SHORT_NAME, MEAN_LENGTH = 16, 16
"""Letters of a name beside a bar that leave a panel its full width, and of the average in a legend's entry."""

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10.5,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.alpha": 0.35,
    "grid.linewidth": 0.6,
    "legend.framealpha": 0.85,
    "legend.fontsize": 9,
    "legend.edgecolor": "0.8",
    "figure.constrained_layout.w_pad": 0.12,
    "figure.constrained_layout.h_pad": 0.12,
    "hatch.linewidth": 0.7,
    "agg.path.chunksize": 10000,
    # A dollar sign in a label is a dollar sign.
    "text.parse_math": False,
}


class NoMatplotlibError(Exception):
    """matplotlib can't be loaded; the text says why, and the command that brings it."""


Layout = Literal["standard", "frameworks"]
"""standard: throughput, step times, loss, memory. frameworks: throughput, loss, step times, average step time."""


def render(comparison: Comparison, *, form: str = "png", layout: Layout = "standard") -> bytes:
    """The picture as a png, svg or pdf file. Raises NoMatplotlibError."""
    with _matplotlib():
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        drawn = _figure(comparison, layout)
        FigureCanvasAgg(drawn)
        stream = io.BytesIO()
        drawn.savefig(stream, format=form, dpi=120)
    return stream.getvalue()


def figure(comparison: Comparison, *, layout: Layout = "standard") -> Figure:
    """The picture as matplotlib's object. Raises NoMatplotlibError."""
    with _matplotlib():
        return _figure(comparison, layout)


def _figure(comparison: Comparison, layout: Layout) -> Figure:
    from matplotlib.figure import Figure

    items = items_of(comparison)
    rows = bars.rows(items), bars.memory_rows(items) if layout == "standard" else bars.rows(items)
    heights = [max(LEAST_PANEL_HEIGHT, 1.3 + ROW_HEIGHT * each) for each in rows]
    # Long names beside the bars of two panels take room from them.
    width = WIDTH + 2 * LETTER_WIDTH * max(0, max(map(bars.name_width, items), default=0) - SHORT_NAME)
    # The longest entry of the legend must fit its column.
    longest = max((len(item.label) for item in items), default=0) + MEAN_LENGTH
    columns = max(1, min(4, int(width / (longest * LETTER_WIDTH + 0.6))))
    entries = -(-len(items) // columns)
    drawn = Figure(figsize=(width, sum(heights) + 0.9 + ENTRY_HEIGHT * entries), layout="constrained")
    (first, second), (third, fourth) = drawn.subplots(2, 2, height_ratios=heights)
    bars.throughput(first, items)
    if layout == "standard":
        handles, labels = lines.step_times(second, items)
        lines.loss(third, items)
        bars.memory(fourth, items)
    else:
        lines.loss(second, items)
        handles, labels = lines.step_times(third, items)
        bars.average_step_times(fourth, items)
    if handles:
        drawn.legend(handles, labels, loc="outside lower left", ncols=columns, frameon=False)
    titles = [plain(model.title, 40) for model in comparison.models]
    shown = ", ".join(titles[:4]) + (f" and {len(titles) - 4} more models" if len(titles) > 4 else "")
    shared = f"\nAll sides: {', '.join(map(plain, comparison.shared))}" if comparison.shared and len(items) > 1 else ""
    drawn.suptitle(f"Training speed: {shown}{shared}", x=0.01, ha="left", fontsize=14, fontweight="bold")
    return drawn


@contextlib.contextmanager
def _matplotlib() -> Iterator[None]:
    """Our settings, whatever the user's are, and matplotlib without its talk.

    Where its cache folder can't be written it takes a temporary one by itself; that, the building
    of its font cache, and letters that no font has are nothing that a reader of results can mend.
    """
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    # A back end that isn't there stops the import, though none is needed to draw into a file.
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        matplotlib = _loaded()
        with matplotlib.rc_context(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(STYLE)
            yield
    finally:
        logger.setLevel(level)
        if backend is not None:
            os.environ["MPLBACKEND"] = backend


def _loaded() -> Any:
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        package = (error.name or "matplotlib").split(".")[0]
        raise NoMatplotlibError(f"{package} is not installed: pip install {package}") from error
    except ImportError as error:
        raise NoMatplotlibError(
            f"matplotlib can't be loaded ({plain(error, 120)}): pip install --force-reinstall matplotlib"
        ) from error
    return matplotlib
