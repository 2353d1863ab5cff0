"""The sliders for another window of steps, and the tables of ratios that belong to them."""

from __future__ import annotations

from tprimat import units
from tprimat.compare import Group, Pair
from tprimat.report.html_blocks import escape
from tprimat.report.page import windows
from tprimat.report.page.markup import details, table
from tprimat.report.page.view import View
from tprimat.report.rates import rate_of
from tprimat.report.verdict import ratio_text


def section(view: View, group: Group) -> str:
    """The sliders, and the table that they fill; as it stands before anybody moves them."""
    grid = windows.grid(group)
    if grid is None:
        return ""
    number = next(
        index
        for index, each in enumerate(group for model in view.comparison.models for group in model.groups)
        if each is group
    )
    begin, end = windows.start_of(grid)
    found = windows.values(grid)
    most = len(grid.stops) - 1
    pairs = {id(pair.side): index for index, pair in enumerate(group.pairs)}
    rows = []
    for index, side in enumerate(group.sides):
        own = pairs.get(id(side))
        rate = found["rates"][index][begin][end]
        ratio = units.UNKNOWN if own is None else found["ratios"][own][begin][end] or units.UNKNOWN
        said = "reference" if own is None else ratio_text(group.pairs[own].ratio)
        rows.append(
            [
                escape(view.of(side).name),
                f'<output id="window-{number}-rate-{index}">{rate or units.UNKNOWN}</output>',
                f'<output id="window-{number}-ratio-{index}">{ratio}</output>' if own is not None else "reference",
                escape(rate_of(side)),
                escape(said),
            ]
        )
    body = table(
        ["", "In this window", "Ratio in this window", "By the verdict", "Ratio by the verdict"],
        rows,
        caption="Throughput in the window of the sliders, beside the verdict's",
    )
    others = _other_windows(view, [pair for pair in group.pairs if pair.sensitivity])
    sliders = "".join(
        f'<label for="window-{number}-{which}">{title}<input type="range" id="window-{number}-{which}" min="0" '
        f'max="{most}" step="1" value="{at}" data-window="{number}"><output id="window-{number}-{which}-text">'
        f"{text}</output></label>"
        for which, title, at, text in (
            ("begin", "After step", begin, grid.stops[begin]),
            ("end", "Up to step", end, grid.stops[end]),
        )
    )
    return (
        "<h4>Another window of steps</h4><p>What the ratio would be if other steps were measured. The verdict stays: "
        "it rests on the steady steps, which are found from the step times alone.</p>"
        f'<fieldset class="window" data-window="{number}"><legend>Steps that count</legend>{sliders}</fieldset>'
        f"{body}{others}"
    )


def _other_windows(view: View, pairs: list[Pair]) -> str:
    if not pairs:
        return ""
    names = list(dict.fromkeys(name for pair in pairs for name, _ in pair.sensitivity))
    rows = []
    for pair in pairs:
        found = dict(pair.sensitivity)
        cells = [units.times(found[name]) if name in found else units.UNKNOWN for name in names]
        rows.append([escape(view.of(pair.side).name), *cells])
    body = table(["", *map(escape, names)], rows, caption="The ratio by the windows that other tools use")
    return details("Table: windows that other tools use", body)
