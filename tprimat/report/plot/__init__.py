"""Comparison -> a plot of up to 2 × 2 panels below the headline; if a panel has no data, the others
take its place.

Systems differ in colors that color-blind people can distinguish, and for print in the patterns of
their bars and in markers; models differ in line style.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tprimat.compare import ModelComparison
from tprimat.location import elsewhere
from tprimat.report import tables
from tprimat.report.items import Item, Items, items_of
from tprimat.report.plot import bars, charts, curves, lines
from tprimat.report.plot.layout import DPI, Panel, Sheet
from tprimat.report.verdict import Answer, Report
from tprimat.text import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_HEADLINES = 4
MOST_SYSTEMS, MOST_LINES = 30, 12
"""Most systems with bars, and most with lines: readers can't distinguish more lines."""

TITLE_POINTS, SEVERAL_POINTS, SUBTITLE_POINTS = 14, 12, 10.5

STYLE = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.alpha": 0.35,
    "grid.linewidth": 0.6,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0,
    "legend.columnspacing": 1.2,
    "hatch.linewidth": 0.6,
    "agg.path.chunksize": 10000,
    # A dollar sign in a label is a dollar sign.
    "text.parse_math": False,
}


class NoMatplotlibError(Exception):
    """matplotlib can't be loaded; the text says why, and has the command that installs it."""


Layout = Literal["standard", "frameworks", "scaling"]
"""standard: throughput, average step time, memory (or loss), step times. frameworks: throughput,
loss, step times, average. scaling: throughput and efficiency over the number of GPUs.
"""


@contextlib.contextmanager
def _matplotlib() -> Iterator[None]:
    """Apply our own settings, whatever the user's are, and silence matplotlib.

    It reports that its cache directory can't be written, that it builds its font cache, and
    characters that no font has: nothing that a reader of results can fix.
    """
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    # A missing backend would make the import fail, though none is needed to draw into a file.
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
    # The settings in the user's own directory must not apply, and may be damaged.
    os.environ["MATPLOTLIBRC"] = os.devnull
    try:
        # The first place where it looks for settings is the current directory.
        with elsewhere():
            import matplotlib
    except ModuleNotFoundError as error:
        package = (error.name or "matplotlib").split(".")[0]
        raise NoMatplotlibError(f"{package} is not installed: pip install {package}") from error
    except (ImportError, OSError) as error:
        raise NoMatplotlibError(
            f"matplotlib can't be loaded ({plain(error, 120)}): pip install --force-reinstall"
            " matplotlib"
        ) from error
    return matplotlib


@_matplotlib()
def render(report: Report, *, form: str = "png", layout: Layout = "standard") -> bytes:
    """Return the content of the plot as a png, svg or pdf file. Raises NoMatplotlibError."""
    stream = io.BytesIO()
    figure(report, layout=layout).savefig(stream, format=form, dpi=DPI)
    return stream.getvalue()


@_matplotlib()
def figure(report: Report, *, layout: Layout = "standard") -> Figure:
    """Return the plot as matplotlib's object. Raises NoMatplotlibError."""
    if layout == "scaling" and report.scaling is not None and report.scaling.curves:
        return curves.figure(report.scaling)
    items = items_of(report.comparison)[:MOST_SYSTEMS]
    few = _with_lines(items)
    sheet = Sheet()
    _titles(sheet, report)
    throughput, average = bars.speeds(sheet, items, side_by_side=layout == "standard")
    steps = lines.step_times(few)
    loss = lines.loss(few)
    memory = bars.memory(sheet, items)
    if layout == "frameworks":
        names = ("throughput", "loss over tokens", "step times", "average step time")
        panels = [throughput, loss, steps, average]
        missing = _missing(names, panels)
    else:
        names = ("throughput", "average step time", "memory", "step times")
        missing = _missing(names, [throughput, average, memory, steps])
        # Loss takes the place of memory if no run measured any.
        panels = [throughput, average, memory or loss, steps]
    drawn = [panel for panel in panels if panel is not None]
    if drawn:
        sheet.add(drawn)
    if steps or loss:
        _legends(sheet, few, has_steps=steps is not None, has_loss=loss in drawn)
    notes = [f"Not measured: {', '.join(missing)}"] if missing else []
    if not drawn:
        notes += [f"{item.label}: {charts.why_no_rate(item.system)}" for item in items]
    if steps is not None and len(few) < len(items):
        notes.append(f"Lines: {len(few)} of {len(items)} systems, the first of each model")
    sheet.y += 0.1
    sheet.write(notes)
    sheet.finish()
    return sheet.figure


def _with_lines(items: Items) -> list[Item]:
    """Return the items that have lines: the first ones of each model, MOST_LINES in all."""
    of_model: dict[ModelComparison, list[Item]] = {}
    for item in items:
        of_model.setdefault(item.model, []).append(item)
    most = max(1, MOST_LINES // max(1, len(of_model)))
    few = []
    for own in of_model.values():
        few += own[:most]
    return few


def _missing(names: Sequence[str], panels: Sequence[Panel | None]) -> list[str]:
    return [name for name, panel in zip(names, panels, strict=True) if panel is None]


def _legends(sheet: Sheet, items: Items, *, has_steps: bool, has_loss: bool) -> None:
    """Add a legend of the systems with lines, and one of what else is drawn."""
    handles = []
    labels = []
    measured = [item for item in items if item.system.valid_runs]
    for item in measured:
        handles.append(lines.handle(item))
        # matplotlib omits labels that begin with an underscore from legends.
        label = item.label.lstrip("_")
        labels.append(f"{label} (excluded)" if item.system.exclusion else label)
    if measured:
        sheet.legend(handles, labels)
        keys = lines.keys(measured, has_steps=has_steps, has_loss=has_loss)
        if keys:
            sheet.legend(list(keys.values()), list(keys))


def _titles(sheet: Sheet, report: Report) -> None:
    """Write the headline, and below it the certainty and what all systems share."""
    comparison = report.comparison
    headlines = []
    certainty = []
    for answer in report.answers[:MOST_HEADLINES]:
        name = f"{answer.title}: " if len(report.answers) > 1 else ""
        if report.headline:
            certainty.append(f"{name}{_row(answer)}")
            continue
        headlines.append(f"{name}{answer.verdict.headline}")
        if answer.verdict.certainty:
            certainty.append(f"{name}{answer.verdict.certainty}")
    if len(report.answers) > MOST_HEADLINES:
        certainty.append(f"{len(report.answers) - MOST_HEADLINES} more in the report")
    if report.headline or len(headlines) == 1:
        sheet.write([report.headline or headlines[0]], TITLE_POINTS, "bold", "black")
    else:
        sheet.write(headlines, SEVERAL_POINTS, "bold", "black")
    context = [tables.shared(comparison)]
    if len(comparison.models) == 1:
        context.insert(0, comparison.models[0].title)
    count = len(comparison.systems)
    if count > MOST_SYSTEMS:
        context.append(f"{MOST_SYSTEMS} of {count:,} systems")
    sheet.write([*certainty, ", ".join(filter(None, context))], SUBTITLE_POINTS)


def _row(answer: Answer) -> str:
    """Return the answer for one of several models, below their headline."""
    leaders = answer.group.leaders
    if leaders is None or answer.verdict.standing == "unknown":
        return answer.verdict.headline
    return f"{leaders.system.name} vs {leaders.baseline.name}, {answer.verdict.certainty}"
