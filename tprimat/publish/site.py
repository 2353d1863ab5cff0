"""A record -> a static site that opens from file://: an index with a script, other pages without
one.

Values come from other people, so the templates escape every text, only a web address becomes a
link, and the content security policy of the pages allows only the site's own files: no inline
script or style.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tprimat import units
from tprimat.analysis.intervals import level
from tprimat.catalog.published import TASKS
from tprimat.files import write_output
from tprimat.publish.data import UNKNOWN
from tprimat.publish.record import REJECTED, Change, Point, Record
from tprimat.report.page.markup import environment, json_text
from tprimat.report.tables import FRAMEWORKS
from tprimat.results.fields import JsonObject
from tprimat.text import capitalized, plain

if TYPE_CHECKING:
    import jinja2
    import markupsafe

_HERE = Path(__file__).parent
CHART_LIBRARY = _HERE / "vendor" / "uPlot.iife.min.js"
"""uPlot 1.6.32, from the npm package uplot."""
_ASSETS = (
    "site.css",
    "site.js",
    "chart.js",
    *(f"vendor/{name}" for name in (CHART_LIBRARY.name, "uPlot.min.css", "uPlot.LICENSE")),
)
SHORT_NOTE = 40
"""Number of characters of a note above which a table folds it."""
_NO_INTERVAL = "run-to-run variation unknown"

MARKS = {
    "recomputed from the log": (
        "the log is published, and TensorPrimat computed the value from it again"
    ),
    "agrees with its own FLOPs": (
        "the values printed together agree with each other and with the model's FLOPs"
    ),
    "as published": "the source prints nothing to check the value against",
    REJECTED[0]: "the values printed together can't all be right; not used in any ranking",
    REJECTED[1]: (
        "implausible, corrected later or a known regression, as the reason says; not used in any"
        " ranking"
    ),
}
_SOFTWARE = {
    **FRAMEWORKS,
    **{
        "automodel": "NeMo Automodel",
        "colossalai": "Colossal-AI",
        "composer": "Composer",
        "internevo": "InternEvo",
    },
    **{
        "flash_attention": "FlashAttention",
        "litgpt": "LitGPT",
        "maxtext": "MaxText",
        "nanogpt": "nanoGPT",
    },
    **{
        "megatron_deepspeed": "Megatron-DeepSpeed",
        "nemo_rl": "NeMo RL",
        "paxml": "PaxML",
        "pytorch": "PyTorch",
    },
}
"""Names of software as its makers write them."""

_PRODUCT = re.compile(r"(?!commit)[A-Za-z]+ \d")

_METRICS = (
    ("tokens_per_second_per_gpu", "tokens/s/GPU"),
    ("tflops_per_gpu", "TFLOP/s/GPU"),
    ("printed_tflops_per_gpu", "TFLOP/s/GPU as printed"),
    ("samples_per_second", "samples/s, all GPUs"),
    ("time_to_target_seconds", "min to target"),
)
"""Speeds, the one that is shown first; the last is a time."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A point as tables show it, with the pages that its names lead to.

    Attributes:
        number: the number of its GPU, which selects the color.
        anchor: the anchor of the point on the page of its source.
        evidence: a web address, or else the link to the point on the page of its source.
        amount: the value by which rows with the same unit are sorted; a larger one is faster.
    """

    point: Point
    gpu: JsonObject
    model: JsonObject
    source: JsonObject
    number: int
    anchor: str
    evidence: str
    is_web: bool
    value: str
    unit: str
    amount: float
    is_rejected: bool

    @property
    def work(self) -> str:
        """Task, sequence length and whatever else distinguishes the work of rows."""
        task = TASKS.get(self.point.task, self.point.task)
        length = self.point.sequence_length
        stated = f"{length:,} tokens per sequence" if length else "sequence length not stated"
        return ", ".join(filter(None, [task, stated, self.point.work]))

    @property
    def setup(self) -> str:
        """GPUs and batch, as far as they are stated."""
        gpus = self.point.num_gpus
        stated = []
        if gpus:
            stated.append(f"{gpus:,} GPU{'s' * (gpus > 1)}")
        if self.point.global_batch_size:
            stated.append(f"batch {self.point.global_batch_size:,}")
        return ", ".join(stated)

    @property
    def software(self) -> str:
        """Framework and version, in readable form."""
        return software(self.point.framework, self.point.version)

    @property
    def runs(self) -> str:
        """The interval of tokens/s over the runs, and their number, as far as they are known."""
        low, high = self.point.low, self.point.high
        number = len(self.point.rates)
        stated = []
        if low is not None and high is not None and self.unit == _METRICS[0][1]:
            stated.append(f"{level()} CI {low:,.0f}–{high:,.0f}")
        if number:
            stated.append(f"{number} run{'s' * (number > 1)}")
        return ", ".join(stated)


@dataclasses.dataclass(frozen=True)
class Series:
    """Rows of one configuration in the order of their dates.

    Attributes:
        changes: how a row differs from the row before it, by the anchor of the row.
    """

    rows: Sequence[Row]
    changes: Mapping[str, str]

    @property
    def anchor(self) -> str:
        """Its anchor on the page of its GPU."""
        return f"series-{self.rows[0].anchor}"

    @property
    def gain(self) -> float:
        """The newest speed divided by the oldest one."""
        ratio = self.rows[-1].amount / self.rows[0].amount
        if self.is_time:
            return 1 / ratio
        return ratio

    @property
    def is_time(self) -> bool:
        """Whether its values are times to a target."""
        return self.rows[0].amount < 0

    @property
    def caveats(self) -> list[str]:
        """What else differs between the oldest and the newest row, and whether there is no
        interval.
        """
        first = self.rows[0].point
        last = self.rows[-1].point
        caveats = []
        settings = _settings(first.configuration, last.configuration)
        if settings:
            caveats.append(settings)
        if first.system != last.system:
            caveats.append(f"system {first.system or UNKNOWN} → {last.system or UNKNOWN}")
        if any(_NO_INTERVAL in change for change in self.changes.values()):
            caveats.append(_NO_INTERVAL)
        return caveats

    @property
    def months(self) -> int:
        """Number of months between the oldest and the newest row."""
        return _month(self.rows[-1]) - _month(self.rows[0])


def _month(row: Row) -> int:
    """Return the month of a row's date, counted from the year 0; of a year alone its first."""
    year, month = (row.point.date + "-01")[:7].split("-")
    return 12 * int(year) + int(month)


def write(record: Record, tables: JsonObject, folder: Path) -> None:
    """Write the pages and the files that they need into the folder of a site. `tables` is the
    object that data.values() makes of the record.

    The folder is created if it doesn't exist. Raises UsageError if a file can't be written.
    """
    rows = _rows(record, tables)
    groups = {"gpus": "gpu", "models": "model", "sources": "source"}
    models = sorted(_grouped(rows, "model").values(), key=len, reverse=True)
    first = [row for own in models for row in next(iter(_best(own, "model").values()), [])]
    repeats = _repeats(rows, tables["gpus"])
    shared = {"tables": tables, "rows": rows, "marks": MARKS, "short": SHORT_NOTE, "level": level()}
    words = _words(record, repeats)
    _page(folder, "index.html", "index.html", {**shared, "words": words, "best": first})
    counts = Counter(row.point.mark for row in rows)
    _page(folder, "how.html", "how.html", {**shared, "counts": counts})
    for group, name in groups.items():
        members = _grouped(rows, name)
        titles = sorted(tables[group].values(), key=lambda about: _natural(about["title"]))
        values = {**shared, "group": group, "titles": titles, "of": members}
        _page(folder, f"{group}/index.html", "list.html", values)
        for key, about in tables[group].items():
            page = about["page"]
            own = members[page]
            series = _history(record, page, rows) if group == "gpus" else []
            values = {**shared, "about": {**about, "key": key}, "own": own}
            values |= {"best": _best(own, name), "series": series}
            _page(folder, page, f"{name}.html", values)
    for name in _ASSETS:
        write_output(
            folder / "assets" / Path(name).name, (_HERE / name).read_bytes(), "--output-dir"
        )
    write_output(
        folder / "assets" / "colors.css",
        _colors(tables["gpus"].values(), repeats).encode(),
        "--output-dir",
    )


def _natural(title: str) -> list[tuple[int, str]]:
    """Return a key by which names sort as people do: 18B before 104B."""
    parts = re.findall(r"\d+|\D+", title.casefold())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def software(framework: str, version: str) -> str:
    """Return the software in readable form: name and version, without repeating the name."""
    name = _SOFTWARE.get(framework, framework.replace("_", "-"))
    version = version.replace("nvcr.io/nvidia/", "")
    if version.lower().startswith(name.lower()):
        version = version[len(name) :].lstrip(": ")
    # If the version is that of another product, a comma separates it from the framework.
    return f"{name}{',' * bool(name and _PRODUCT.match(version))} {version}".strip()


def _rows(record: Record, tables: JsonObject) -> list[Row]:
    columns = tables["points"]
    numbers = {key: number for number, key in enumerate(tables["gpus"])}
    rows = []
    for point, key, anchor in zip(record.points, columns["source_key"], columns["id"], strict=True):
        gpu = tables["gpus"][point.gpu]
        model = tables["models"][point.model]
        source = tables["sources"][key]
        value, unit, amount = _value(point)
        is_web = point.url.startswith(("https://", "http://"))
        evidence = point.url if is_web else f"{source['page']}#{anchor}"
        shown = (evidence, is_web, value, unit, amount, point.mark in REJECTED)
        rows.append(Row(point, gpu, model, source, numbers[point.gpu], anchor, *shown))
    return rows


def _grouped(rows: Iterable[Row], name: str) -> dict[str, list[Row]]:
    groups = defaultdict(list)
    for row in rows:
        groups[getattr(row, name)["page"]].append(row)
    return groups


def _value(point: Point) -> tuple[str, str, float]:
    """Return the first metric that a point has: its text, unit, and the value to sort by."""
    for name, unit in _METRICS:
        value = getattr(point, name)
        if value is not None:
            is_time = name == "time_to_target_seconds"
            amount = value
            if is_time:
                value /= 60
                amount = -value
            digits = 0 if value >= 100 else 1 if value >= 10 else 2
            return units.number(value, digits), unit, amount
    return "–", "", 0.0


def _best(rows: Iterable[Row], of: str) -> dict[tuple[str, str], list[Row]]:
    """Return the fastest rows that aren't rejected, by their work and unit, the work of most rows
    first.

    For a model they are those of each GPU and precision, for a GPU those of each model.
    """
    fastest: dict[tuple[object, ...], Row] = {}
    for row in rows:
        if not row.is_rejected and row.unit:
            of_row = (row.gpu["page"], row.point.precision) if of == "model" else row.model["page"]
            key = (row.work, row.unit, of_row)
            fastest[key] = max(fastest.get(key, row), row, key=lambda one: one.amount)
    groups = defaultdict(list)
    for row in sorted(fastest.values(), key=lambda one: -one.amount):
        groups[row.work, row.unit].append(row)
    units = [unit for _, unit in _METRICS]
    works = Counter(row.work for row in fastest.values())

    def rank(group: tuple[str, str]) -> tuple[int, str, int]:
        work, unit = group
        return -works[work], work, units.index(unit)

    return {group: groups[group] for group in sorted(groups, key=rank)}


def _history(record: Record, page: str, rows: Sequence[Row]) -> list[Series]:
    """Return the series of the GPU with this page, those over the longest time first."""
    after = {}
    for change in record.changes:
        if rows[change.before].gpu["page"] == page:
            after[change.before] = change
    histories = []
    for index in sorted(after.keys() - {change.after for change in after.values()}):
        series = [rows[index]]
        changes = {}
        while index in after:
            change = after.pop(index)
            index = change.after
            series.append(rows[index])
            changes[rows[index].anchor] = _change(change)
        histories.append(Series(series, changes))
    return sorted(
        histories, key=lambda one: (-one.months, -len(one.rows), one.rows[0].model["title"])
    )


def _change(change: Change) -> str:
    """Return a change as part of a sentence: its size, interval, and whether it is significant."""
    size = f"{100 * (change.ratio - 1):+.1f}%".replace("-", "−")
    if change.low is None or change.high is None:
        return f"{size}, {_NO_INTERVAL}"
    interval = f"{change.ratio:.3f}×, {level()} CI {change.low:.3f}–{change.high:.3f}"
    if change.is_found is None:
        return f"{size} ({interval}), between two systems"
    if change.is_found:
        return f"{size} ({interval})"
    return f"no significant change ({interval})"


def _settings(before: str, after: str) -> str:
    """Return how two configurations differ, such as "micro-batch 1 → 4, VP stated for one only"."""
    one, other = _sizes(before), _sizes(after)
    differences = []
    for name in one:
        if other.get(name, one[name]) != one[name]:
            differences.append(f"{name} {one[name]} → {other[name]}")
    partly = ", ".join(name for name in {**one, **other} if (name in one) != (name in other))
    if partly:
        differences.append(f"{partly} stated for one only")
    return ", ".join(differences)


def _sizes(configuration: str) -> dict[str, str]:
    """Return the values that a configuration states, by their names."""
    return dict(part.rpartition(" ")[::2] for part in configuration.split(", ") if part)


def _words(record: Record, repeats: Sequence[int]) -> markupsafe.Markup:
    """Return the texts that the script shares with the other pages."""
    names = {(point.framework, point.version) for point in record.points}
    table = [[*pair, plain(software(*pair))] for pair in sorted(names)]
    words = {
        "tasks": TASKS,
        "marks": list(MARKS),
        "rejected": REJECTED,
        "frameworks": _SOFTWARE,
        "software": table,
    }
    return json_text({**words, "repeats": repeats, "short": SHORT_NOTE, "level": level()})


def _repeats(rows: Iterable[Row], gpus: JsonObject) -> list[int]:
    """Return for each GPU the number of GPUs with more results that have the same color; if it is
    above 0, the GPU's bars are hatched.
    """
    colors = [gpu["color"] for gpu in gpus.values()]
    ranked = [number for number, _ in Counter(row.number for row in rows).most_common()]
    same = [[other for other in ranked if colors[other] == color] for color in colors]
    return [others.index(number) for number, others in enumerate(same)]


def _colors(gpus: Iterable[JsonObject], repeats: Iterable[int]) -> str:
    """Return a CSS class for each GPU, by its number, with its color on a light and on a dark
    background, and its hatching.
    """
    light = [f".gpu-{number}{{--gpu:{gpu['color']}}}" for number, gpu in enumerate(gpus)]
    dark = [f".gpu-{number}{{--gpu:{gpu['dark']}}}" for number, gpu in enumerate(gpus)]
    lines = "repeating-linear-gradient({}deg,#000 0 3px,#0004 3px 6px)".format
    hatched = []
    for number, repeat in enumerate(repeats):
        if repeat:
            hatched.append(f".gpu-{number}{{--hatch:{lines(45 * repeat)}}}")
    return "\n".join(
        [*light, *hatched, "@media screen and (prefers-color-scheme: dark) {", *dark, "}\n"]
    )


def _page(folder: Path, path: str, template: str, values: JsonObject) -> None:
    """Write a page; `root` leads from it to the site's directory."""
    text = (
        _templates().get_template(template).render(values, root="../" * path.count("/"), page=path)
    )
    write_output(folder / path, text.encode(), "--output-dir")


@functools.cache
def _templates() -> jinja2.Environment:
    templates = environment(_HERE / "templates")
    templates.filters["capitalized"] = capitalized
    return templates
