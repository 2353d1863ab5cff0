"""Parts of a page -> HTML, by the macros of templates/, in which every text is escaped: a hostile
result stays text.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprimat.report import Plot, blocks
from tprimat.text import plain

if TYPE_CHECKING:
    import jinja2
    import markupsafe

_MEDIA = {"png": "image/png", "svg": "image/svg+xml"}
"""Formats of plots that browsers show as an image; for any other one, the page has its name."""


@dataclasses.dataclass(frozen=True)
class Fold:
    """Parts that open on a click or a key."""

    summary: str
    parts: Sequence[Part]
    is_open: bool = False
    anchor: str = ""


@dataclasses.dataclass(frozen=True)
class Control:
    """An element that the page's script uses: the macro of templates/controls.html that writes it,
    and its arguments.
    """

    macro: str
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)


Part = blocks.Block | blocks.Footnotes | Fold | Control
Parts = Iterator[Part]


class Writer:
    """Writes parts as HTML; an Image block shows the plot, and is left out without one."""

    def __init__(self, plot: Plot | None = None) -> None:
        self._values: dict[str, Any] = {"plot": None, "referred": set()}
        if plot is not None:
            media = _MEDIA.get(plot.kind)
            data = base64.b64encode(plot.content).decode("ascii") if media else ""
            self._values["plot"] = {"link": plot.link, "media": media, "data": data}

    def text(self, parts: Iterable[Part]) -> str:
        """Return parts as HTML, in their order on the page: a footnote leads back to its first
        mark.
        """
        macros: Any = _templates().get_template("blocks.html").make_module(self._values)
        return str(macros.parts(parts))

    def page(self, values: Mapping[str, Any]) -> str:
        """Return the whole page, from the values that templates/page.html names."""
        return _templates().get_template("page.html").render(values, **self._values)


@functools.cache
def _templates() -> jinja2.Environment:
    templates = environment(Path(__file__).parent / "templates")
    templates.filters["kind"] = lambda part: type(part).__name__
    templates.filters["pieces"] = blocks.pieces
    return templates


def environment(folder: Path) -> jinja2.Environment:
    """Return the templates in a directory: each text that they show is cleaned by plain() and
    escaped, and a missing value is an error.
    """
    import jinja2
    import markupsafe

    def shown(value: object) -> object:
        if isinstance(value, markupsafe.Markup):
            return value
        return plain(value)

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        cache_size=-1,
    )


def json_text(value: object) -> markupsafe.Markup:
    """Return JSON for a script element: it contains no tags, and only ASCII, so no Unicode line
    separators.
    """
    from jinja2.utils import htmlsafe_json_dumps

    return htmlsafe_json_dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
