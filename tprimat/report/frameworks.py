"""Comparison -> frameworks beside each other on a terminal: the hardware, a table a model, who is at the front."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence

from tprimat import units
from tprimat.compare import Comparison, Group, ModelComparison, SideResult
from tprimat.compare.winners import winners
from tprimat.report import tables, verdict
from tprimat.report.rates import RATE, rate_of, rate_unit, untimed
from tprimat.report.tables import Footnotes
from tprimat.results.run import Run
from tprimat.text import plain, shortened

TITLES = {
    "deepspeed": "DeepSpeed",
    "fsdp": "FSDP",
    "lightning": "Lightning",
    "megatron": "Megatron",
    "nemo": "NeMo",
    "primus": "Primus",
    "transformers": "Transformers",
}
"""How the makers write the names."""

LONGEST_NAME = 44
"""Characters of a side's name in a table."""

LONGEST_VALUES = 240
"""Characters of the values of a setting."""

WARNINGS = 12
"""Warnings about runs that are printed; those about figures always are."""


def render(comparison: Comparison, *, width: int = 80) -> str:
    """The summary as text, ended by a newline."""
    width = max(width, 60)
    footnotes = Footnotes(comparison)
    devices = _each(side.gpu for side in comparison.sides)
    lines = ["=" * width, f"{' and '.join(devices) or 'Unknown GPU'}: frameworks compared", "=" * width, ""]
    lines += _header([side.run for side in comparison.sides])
    for model in comparison.models:
        lines += ["", "-" * width, plain(model.title), "-" * width, ""]
        for group in model.groups:
            lines += [*_table(group, footnotes, width), "", *_differing(group, width)]
    lines += ["=" * width, "Summary", "=" * width]
    for model in comparison.models:
        lines += _summary(model, width)
    notes = [f"- {note}" for note in comparison.notes]
    entries, rest = footnotes.first(WARNINGS)
    warnings = [f"{mark} {text}" for mark, text in entries]
    if rest:
        warnings.append(f"and {rest} more: ./compare_results.py has all")
    for title, texts in (("Notes", notes), ("Warnings", warnings)):
        if texts:
            lines += ["", title, *_wrapped(texts, width)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def brief(comparison: Comparison, *, width: int = 80) -> str:
    """Who is at the front, model by model, and nothing else."""
    lines = []
    for model in comparison.models:
        lines.append(plain(model.title))
        for group, answer in zip(model.groups, verdict.answers(model), strict=True):
            lines += _wrapped(_answer(group, answer), max(width, 60))
    return "\n".join(lines) + "\n"


_HEADER: tuple[tuple[str, Callable[[Run], object]], ...] = (
    ("Hardware", lambda run: run.gpu_info.device_name or (run.environment.cpu if run.platform == "cpu" else None)),
    ("GPUs", lambda run: run.num_gpus),
    ("PyTorch", lambda run: run.gpu_info.pytorch_version),
)
_STACKS = ("CUDA", "ROCm")


def _header(runs: Sequence[Run]) -> list[str]:
    lines = []
    for title, read in _HEADER:
        stated = [read(run) for run in runs]
        some = " (not all state it)" if any(stated) and None in stated else ""
        lines.append(f"  {title}: {', '.join(_each(stated)) or 'unknown'}{some}")
    for title in _STACKS:
        versions = [run.gpu_info.software_version for run in runs if run.gpu_info.software_stack == title.lower()]
        if versions:
            lines.append(f"  {title}: {', '.join(_each(versions)) or 'unknown'}")
    return lines


def _table(group: Group, footnotes: Footnotes, width: int) -> list[str]:
    unit = rate_unit(group.sides)
    rows = [["Framework", unit[0].upper() + unit[1:], "Avg step time", "Final loss", "Total time"]]
    for side in sorted(group.sides, key=lambda side: (side.refusal is not None, -(side.value(RATE) or 0.0))):
        loss, step = side.value("final_loss"), side.value("avg_step_time_seconds")
        marks = "".join(f" [{number}]" for number in footnotes.numbers(side.doubts))
        rows.append(
            [
                shortened(_name(side), LONGEST_NAME) + marks,
                rate_of(side) + (" (refused)" if side.refusal else ""),
                untimed(side) if step is None else units.seconds(step),
                units.UNKNOWN if loss is None else f"{loss:.4f}",
                _total_time(side),
            ]
        )
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(first), *(text.rjust(size) for text, size in zip(row[1:], others, strict=True))])
        for row in rows
    ]
    return [lines[0], "-" * min(max(map(len, lines)), width), *lines[1:]]


def _differing(group: Group, width: int) -> list[str]:
    lines = []
    for row in tables.differing(group):
        values = "; ".join(dict.fromkeys("unknown" if value is None else value for value in row.values))
        lines += _wrapped([f"- {row.title}: {shortened(values, LONGEST_VALUES)}"], width)
    return ["They differ in", *lines] if lines else []


def _summary(model: ModelComparison, width: int) -> list[str]:
    lines = ["", plain(model.title)]
    for group, answer in zip(model.groups, verdict.answers(model), strict=True):
        texts = [*(f"- {text}" for text in answer.why), *(f"- Next: {text}" for text in answer.next)]
        lines += _wrapped([*_answer(group, answer), *texts], width)
    return lines


def _answer(group: Group, answer: verdict.Answer) -> list[str]:
    return [" ".join([answer.headline, *answer.brief]), *_front(group)]


def _front(group: Group) -> list[str]:
    front = winners(group)
    if front is None:
        return ["Highest throughput, fastest step: nobody's, since nothing can be ranked."]
    unit = rate_unit(group.sides)
    doubt = f", not known to differ from {_name(front.doubt)}" if front.doubt else ""
    fastest = (
        "nobody's: steps of different work (batch, sequence or GPUs differ or are unknown) are no speed"
        if front.fastest is None
        else f"{_name(front.fastest)}, {units.seconds(front.fastest.value('avg_step_time_seconds'))}"
    )
    return [
        f"Highest throughput: {_name(front.highest)}, {rate_of(front.highest)} {unit}{doubt}",
        f"Fastest step: {fastest}",
        f"Range: {rate_of(front.lowest)} to {rate_of(front.highest)} {unit}",
    ]


def _name(side: SideResult) -> str:
    name = plain(side.name)
    framework = side.framework or ""
    parts = [TITLES.get(part, part) for part in name.split(", ")]
    # Where the GPU alone tells the sides apart the framework is said all the same: the table is about it.
    title = TITLES.get(framework, plain(framework))
    return ", ".join(parts if title in parts or not title else [title, *parts])


def _total_time(side: SideResult) -> str:
    """The longest of the runs' wall times: they ran one after the other, or at once; nobody says which."""
    times = [result.summary.performance.total_time_seconds for result in side.counted]
    known = [time for time in times if time is not None]
    if not known:
        return untimed(side)
    return units.duration(known[0]) if len(times) == 1 else f"up to {units.duration(max(known))}"


def _each(values: Iterable[object]) -> list[str]:
    return list(dict.fromkeys(plain(value) for value in values if value is not None))


def _wrapped(texts: Sequence[str], width: int) -> list[str]:
    lines = []
    for text in texts:
        mark = text.split(" ", 1)[0] if text.startswith(("-", "[")) else ""
        indent = " " * (len(mark) + 1 if mark else 0)
        lines += textwrap.wrap(
            plain(text), width - 2, initial_indent="  ", subsequent_indent=f"  {indent}", break_on_hyphens=False
        )
    return lines
