"""Comparison -> a plot of 2 × 2 panels below the headline.

Colours are those of Okabe and Ito, which colour-blind people can tell apart; systems differ in
marker and models in line style as well. A panel without data says why.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tprimat.report import tables
from tprimat.report.plot import bars, charts, curves, lines
from tprimat.report.plot.items import items_of
from tprimat.report.verdict import Answer, Report
from tprimat.text import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 12.0
ROW_HEIGHT = 0.46
LEAST_PANEL_HEIGHT = 4.3
ENTRY_HEIGHT = 0.2
LETTER_WIDTH = 0.078
"""Inches; of the legend's letters, on average."""

SHORT_NAME = 16
"""Letters of a name beside a bar that leave a panel its full width."""

MOST_HEADLINES = 4
MOST_SYSTEMS = 20
TITLE_POINTS, SEVERAL_POINTS, SUBTITLE_POINTS = 14, 12, 11
LINE_HEIGHT = 1.3 / 72
"""Inches of a line for each point of its letters."""

TITLE_LETTER, SUBTITLE_LETTER = 0.0084, 0.0075
"""Inches of a letter, on average, for each point of its size."""

TOP = 0.12
"""Inches above and below the titles."""

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10.5,
    "axes.titlesize": 11,
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


Layout = Literal["standard", "frameworks", "scaling"]
"""standard: average step time, throughput, memory, step times. frameworks: throughput, loss, step times, average.
scaling: throughput and efficiency over the number of GPUs.
"""


def render(report: Report, *, form: str = "png", layout: Layout = "standard") -> bytes:
    """Return the plot as a png, svg or pdf file. Raises NoMatplotlibError."""
    with _matplotlib():
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        drawn = _figure(report, layout)
        FigureCanvasAgg(drawn)
        stream = io.BytesIO()
        drawn.savefig(stream, format=form, dpi=120)
    return stream.getvalue()


def figure(report: Report, *, layout: Layout = "standard") -> Figure:
    """Return the plot as matplotlib's object. Raises NoMatplotlibError."""
    with _matplotlib():
        return _figure(report, layout)


def _figure(report: Report, layout: Layout) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if layout == "scaling":
        assert report.scaling is not None
        return curves.figure(report.scaling)
    items = items_of(report.comparison)[:MOST_SYSTEMS]
    rows = bars.rows(items), bars.memory_rows(items) if layout == "standard" else bars.rows(items)
    heights = [max(LEAST_PANEL_HEIGHT, 1.3 + ROW_HEIGHT * each) for each in rows]
    # Long names beside the bars of two panels take room from them.
    width = WIDTH + 2 * LETTER_WIDTH * max(0, max(map(bars.name_width, items), default=0) - SHORT_NAME)
    # The longest entry of the legend must fit its column.
    longest = max((len(item.label) for item in items), default=0)
    columns = max(1, min(4, int(width / (longest * LETTER_WIDTH + 0.6))))
    entries = -(-len(items) // columns)
    points, title, subtitle = _titles(report, width)
    below = TOP + LINE_HEIGHT * points * len(title)
    head = below + LINE_HEIGHT * SUBTITLE_POINTS * len(subtitle) + TOP
    height = sum(heights) + 0.3 + ENTRY_HEIGHT * entries + head
    engine = ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - head / height))
    drawn = Figure(figsize=(width, height), layout=engine)
    place: dict[str, Any] = {"x": 0.01, "ha": "left", "va": "top"}
    drawn.suptitle("\n".join(title), y=1 - TOP / height, fontsize=points, fontweight="bold", **place)
    drawn.text(s="\n".join(subtitle), y=1 - below / height, fontsize=SUBTITLE_POINTS, color="0.25", **place)
    (first, second), (third, fourth) = drawn.subplots(2, 2, height_ratios=heights)
    if layout == "standard":
        bars.average_step_times(first, items)
        bars.throughput(second, items)
        if charts.memory([item.system for item in items]) or not lines.has_loss(items):
            bars.memory(third, items)
        else:
            lines.loss(third, items, note="memory was not measured")
        handles, labels = lines.step_times(fourth, items)
    else:
        bars.throughput(first, items)
        lines.loss(second, items)
        handles, labels = lines.step_times(third, items)
        bars.average_step_times(fourth, items)
    if handles:
        drawn.legend(handles, labels, loc="outside lower left", ncols=columns, frameon=False)
    return drawn


def _titles(report: Report, width: float) -> tuple[float, list[str], list[str]]:
    """Return the title's size in points and its lines; and those below it: the certainty, and what all share."""
    comparison, several = report.comparison, len(report.comparison.models) > 1
    answers = [(f"{plain(each.model.short_title, 40)}: " if several else "", each) for each in report.answers]
    points = TITLE_POINTS
    shown = answers[:MOST_HEADLINES]
    certainty = [f"{name}{each.verdict.certainty}" for name, each in shown if each.verdict.certainty]
    if report.headline:
        headlines = [report.headline]
        certainty = [f"{name}{_row(each)}" for name, each in shown]
    else:
        headlines = [f"{name}{each.verdict.headline}" for name, each in shown]
        points = TITLE_POINTS if len(answers) == 1 else SEVERAL_POINTS
    title = _wrapped(headlines, int(width / (TITLE_LETTER * points)))
    if len(answers) > len(shown):
        certainty.append(f"{len(answers) - len(shown)} more: see the report")
    count = len(comparison.systems)
    many = f"{MOST_SYSTEMS} of {count:,} systems" if count > MOST_SYSTEMS else ""
    title_of_model = "" if several else comparison.models[0].title
    context = ", ".join(filter(None, [title_of_model, tables.shared(comparison), many]))
    subtitle = _wrapped([*certainty, *filter(None, [context])], int(width / (SUBTITLE_LETTER * SUBTITLE_POINTS)))
    return points, title, subtitle


def _row(answer: Answer) -> str:
    """Return the answer for one of several models, below their headline."""
    leaders = answer.group.leaders
    if leaders is None or answer.verdict.standing == "unknown":
        return answer.verdict.headline
    return f"{leaders.faster.name} vs {leaders.slower.name}, {answer.verdict.certainty}"


def _wrapped(texts: Sequence[str], letters: int) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(plain(text), letters)]


@contextlib.contextmanager
def _matplotlib() -> Iterator[None]:
    """Set our own settings, whatever the user's are, and silence matplotlib.

    It reports that its cache folder can't be written, that it builds its font cache, and letters that no font has:
    nothing that a reader of results can mend.
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
