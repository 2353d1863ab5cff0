"""Where the parts of a figure are: text is measured and wrapped, and the figure grows downwards.
Lengths are inches.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tprimat.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

WIDTH, MARGIN, GAP = 10.0, 0.25, 0.3
DPI = 144
NAMES = 2.1
"""Greatest width of the names beside bars, in inches; longer names take more lines."""

TICKS = 0.72
"""Width to the left of a panel with lines, for the numbers of its axis and their unit, in inches."""

TITLE, SMALL = 10.5, 9.0
"""Font sizes in points: of a panel's title, and of the text around and in a panel."""

TEXT_LINE = SMALL * 1.3 / 72

Look = dict[str, Any]
"""How something is drawn: arguments of matplotlib."""

AROUND: Look = {
    "xycoords": "axes fraction",
    "textcoords": "offset points",
    "color": "0.25",
    "fontsize": SMALL,
    "linespacing": 1.2,
    "annotation_clip": False,
}
"""The text around a panel: its detail above, its notes below."""

MOST_COLUMNS, KEY = 4, 0.55
"""Most columns of a legend, and the width of the symbol beside each text, in inches."""

LONGEST_TEXT = 500
"""Most characters of a text: it is measured for each place at which it may break, and a name may
have 60,000 characters.
"""

STRETCH = 1.5
"""Factor by which a panel may be higher than it needs to be, beside a higher one."""


@dataclasses.dataclass(frozen=True)
class Panel:
    """A chart and the text around it.

    Attributes:
        detail: the text below the title.
        draw: the function that draws into axes, given their width.
        height: the least height of the axes.
        left: the width that is needed to the left of the axes.
    """

    title: str
    detail: str
    draw: Callable[[Axes, float], None]
    height: float = 2.9
    notes: Sequence[str] = ()
    left: float = TICKS


class Sheet:
    """A figure of a fixed width; `y` is where the next part goes, from the top."""

    def __init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.transforms import ScaledTranslation

        self.figure = Figure(figsize=(WIDTH, WIDTH), dpi=DPI)
        canvas: Any = FigureCanvasAgg(self.figure)
        self._renderer = canvas.get_renderer()
        whole: Any = self.figure.transFigure
        self._from_top = self.figure.dpi_scale_trans + ScaledTranslation(0, 1, whole)
        self._axes: list[tuple[Axes, tuple[float, float, float, float]]] = []
        self.y = 0.8 * MARGIN

    def width(self, text: str, size: float = SMALL, weight: str = "normal") -> float:
        """Return the width of a line of text."""
        from matplotlib.font_manager import FontProperties

        font = FontProperties(size=size, weight=weight)
        width, _, _ = self._renderer.get_text_width_height_descent(text, font, False)
        return float(width / DPI)

    def wrapped(
        self, text: str, room: float, size: float = SMALL, weight: str = "normal"
    ) -> list[str]:
        """Return text in lines that fit: broken between words, and within a word only if that is
        wider than a line.
        """
        lines: list[str] = []
        for word in plain(text, LONGEST_TEXT).split():
            longer = f"{lines[-1]} {word}" if lines else word
            if self.width(longer, size, weight) <= room:
                lines[-1:] = [longer]
                continue
            while len(word) > 1 and self.width(word, size, weight) > room:
                fits = self._fitting(word, room, size, weight)
                fits = max(word.rfind(mark, fits // 2, fits) + 1 for mark in "-_/.,+") or fits
                lines.append(word[:fits])
                word = word[fits:]
            lines.append(word)
        return lines

    def _fitting(self, word: str, room: float, size: float, weight: str) -> int:
        """Return how many characters of a word that is too wide fit, at least one."""
        fitting = bisect.bisect_right(
            range(1, len(word)), room, key=lambda length: self.width(word[:length], size, weight)
        )
        return max(1, fitting)

    def write(
        self, texts: Sequence[str], size: float = SMALL, weight: str = "normal", color: str = "0.25"
    ) -> None:
        """Write texts across the figure."""
        lines = []
        for text in texts:
            lines += self.wrapped(text, WIDTH - 2 * MARGIN, size, weight)
        self.figure.text(
            MARGIN,
            -self.y,
            "\n".join(lines),
            fontsize=size,
            fontweight=weight,
            color=color,
            va="top",
            linespacing=1.2,
            transform=self._from_top,
        )
        self.y += _height(lines, size)

    def add(self, panels: Sequence[Panel]) -> None:
        """Add panels, two in a row; the last of an odd number has the whole width."""
        first = max([0.0, *(panel.left for panel in panels[::2])])
        second = max([0.0, *(panel.left for panel in panels[1::2])])
        half = (WIDTH - 2 * MARGIN - first - second - GAP) / 2
        for index in range(0, len(panels), 2):
            pair = panels[index : index + 2]
            left = MARGIN + first
            end = left + half if len(pair) == 2 else WIDTH - MARGIN
            # A panel with lines doesn't need the width of the names beside bars.
            if pair[0].left < first / 2:
                left = MARGIN + pair[0].left
            self._add_row(pair, [(left, end - left), (WIDTH - MARGIN - half, half)][: len(pair)])

    def _add_row(self, panels: Sequence[Panel], places: Sequence[tuple[float, float]]) -> None:
        titles = []
        details = []
        head = 0.0
        for panel, (_, width) in zip(panels, places, strict=True):
            titles.append(self.wrapped(panel.title, width, TITLE, "bold"))
            details.append(self.wrapped(panel.detail, width))
            head = max(head, _height(titles[-1], TITLE) + _height(details[-1], SMALL))
        self.y += GAP / 2 + head
        height = max(panel.height for panel in panels)
        below = 0.0
        for panel, title, detail, (left, width) in zip(
            panels, titles, details, places, strict=True
        ):
            axes = self.figure.add_axes((0, 0, 1, 1))
            tall = min(height, STRETCH * panel.height)
            self._axes.append((axes, (left, self.y, width, tall)))
            pad = 72 * _height(detail, SMALL) + 8
            axes.set_title("\n".join(title), fontsize=TITLE, linespacing=1.2, pad=pad)
            panel.draw(axes, width)
            axes.tick_params(labelsize=SMALL)
            axes.annotate("\n".join(detail), (0, 1), xytext=(0, 5), va="bottom", **AROUND)
            # The numbers of the axis, which may have two lines, and its label.
            under = 0.28
            if any("\n" in label.get_text() for label in axes.get_xticklabels()):
                under += TEXT_LINE
            if axes.get_xlabel():
                under += 0.18
            notes = []
            for note in panel.notes:
                notes += self.wrapped(note, width)
            if notes:
                offset = (0, -72 * under)
                axes.annotate("\n".join(notes), (0, 0), xytext=offset, va="top", **AROUND)
            below = max(below, tall - height + under + _height(notes, SMALL))
        self.y += height + below

    def legend(self, handles: Sequence[Line2D | Patch], labels: Sequence[str]) -> None:
        """Add a legend across the figure, in as many columns as the longest label allows."""
        room = WIDTH - 2 * MARGIN
        longest = max(map(self.width, labels)) + KEY
        columns = max(1, min(MOST_COLUMNS, int(room / longest)))
        texts = ["\n".join(self.wrapped(label, room - KEY)) for label in labels]
        self.y += GAP / 2
        drawn = self.figure.legend(
            handles,
            texts,
            loc="upper left",
            ncols=columns,
            bbox_to_anchor=(MARGIN, -self.y),
            bbox_transform=self._from_top,
        )
        self.y += drawn.get_window_extent(self._renderer).height / DPI

    def finish(self) -> None:
        """Give the figure its height, and the axes their places."""
        height = self.y + MARGIN
        self.figure.set_size_inches(WIDTH, height)
        for axes, (left, top, width, tall) in self._axes:
            axes.set_position(
                (left / WIDTH, 1 - (top + tall) / height, width / WIDTH, tall / height)
            )


def _height(lines: Sequence[str], size: float) -> float:
    return len(lines) * size * 1.3 / 72
