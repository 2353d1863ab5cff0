"""The card that the page opens on: answers with their interval bars, caveats as chips, throughput,
and cost.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence

from tprimat.analysis.intervals import Bounds, level
from tprimat.catalog.prices import Price
from tprimat.compare import Caveat, Ratio, SystemResult
from tprimat.compare.caveats import CODES
from tprimat.compare.cost import cost, efficiencies
from tprimat.report import costs, explain
from tprimat.report.blocks import Inline, Paragraph, Strong
from tprimat.report.page.markup import Control, Part
from tprimat.report.page.view import Placed, View
from tprimat.report.plot import charts
from tprimat.report.rates import RATE, rate_of, rate_unit, work_of
from tprimat.report.verdict import Answer, speedup_text
from tprimat.results.fields import JsonObject
from tprimat.text import capitalized, counted, join_names

MOST_ANSWERS = 4
MOST_SYSTEMS = 7
MOST_CHIPS = 5
"""What the card shows; the rest of each is folded."""

LISTED = 50
"""Systems of an answer that the card holds; the results table has all."""

SCALES = ((0.9, 1.25), (0.8, 2), (0.5, 5), (0.2, 20), (0.1, 100))
"""Ends of the axis of speedups, the narrowest that holds all: a small one must not look like a
large one.
"""

FEW = 4
"""Systems whose names have a line of their own above their bars."""

LONGEST_CHIP = 42
"""Characters of a chip; its paragraph has the whole text."""

_AMOUNT = re.compile(r"(?<![\d.,–])[\d.,–]+(?:% faster|× as fast)")


@dataclasses.dataclass(frozen=True)
class Chip:
    """A short text that opens its paragraphs; styled "bad" (excluded), "warn", "ok" or "info"."""

    style: str
    label: str
    texts: tuple[str, ...]


def values(view: View) -> JsonObject:
    """Return what templates/card.html shows; its border says how certain the answer is.

    Several models are a row each below one headline.
    """
    several = len(view.answers) > 1
    parts = []
    for answer in view.answers:
        parts.append(
            {
                "standing": answer.verdict.standing if several else "",
                "parts": list(_answer(view, answer, several=several)),
            }
        )
    compared = sum(answer.group.leaders is not None for answer in view.answers)
    first = min(MOST_ANSWERS, compared if compared and len(parts) > MOST_ANSWERS else len(parts))
    end = max(first, compared)
    if compared:
        rest = f"Not compared ({len(parts) - end})"
    else:
        rest = counted(len(parts) - end, "more answer")
    folds = ((counted(end - first, "more answer"), parts[first:end]), (rest, parts[end:]))
    chips = list(_chips(view))
    # A fold for a single chip would take as much room as the chip.
    shown = MOST_CHIPS if len(chips) > MOST_CHIPS + 1 else len(chips)
    return {
        "few": FEW,
        "most": {
            "answers": MOST_ANSWERS,
            "systems": max(2, MOST_SYSTEMS // first),
            "prices": MOST_SYSTEMS,
        },
        "several": several,
        "compared": bool(compared),
        "standing": "" if several else view.answers[0].verdict.standing,
        "headline": view.headline,
        "answers": parts[:first],
        "folded": [(text, some) for text, some in folds if some],
        "chips": chips[:shown],
        "more_chips": chips[shown:],
        "throughput": [_throughput(view, answer) for answer in view.answers],
        "shown": first,
        "cost": _cost(view),
    }


def _answer(view: View, answer: Answer, *, several: bool) -> Iterator[Part]:
    verdict = answer.verdict
    leaders = answer.group.leaders
    if several:
        texts = [Strong(f"{answer.title}:"), " ", *_headline(verdict.headline)]
        if view.headline and leaders is not None:
            texts[2:] = [f"{leaders.system.name} vs {leaders.baseline.name}"]
        yield Paragraph([*texts, f", {verdict.certainty}"] if verdict.certainty else texts)
    else:
        yield Paragraph(_headline(verdict.headline), "headline")
        yield Paragraph(verdict.certainty, "certainty")
        if (explanation := explain.of_model(answer.model)) is not None:
            yield Paragraph(f"Profile: {explain.brief(explanation)}.")
    if leaders is not None and leaders.ratio is not None:
        yield _interval(leaders.ratio, view.of(leaders.system).field, _scale(view))
    if verdict.standing == "excluded":
        for system in answer.group.systems:
            if system.exclusion is not None and system.exclusion.explanations:
                yield Paragraph("Possible explanations, most likely first")
                yield Control("ranked", {"texts": system.exclusion.explanations[:3]})
                break


def _headline(text: str) -> list[Inline]:
    """Return a headline in pieces, its amount strong."""
    amount = _AMOUNT.search(text)
    if amount is None:
        return [text]
    return [text[: amount.start()], Strong(amount[0]), text[amount.end() :]]


def _scale(view: View) -> Bounds:
    """Return the ends of the axis of all speedups on the page, so that equal lengths are equal
    speedups.
    """
    leaders = [answer.group.leaders for answer in view.answers]
    bounds = [pair.ratio.bounds for pair in leaders if pair is not None and pair.ratio is not None]
    low = min([1.0, *(bound[0] for bound in bounds)])
    high = max([1.0, *(bound[1] for bound in bounds)])
    fitting = (scale for scale in SCALES if scale[0] < low and high < scale[1])
    return next(fitting, (low / 2, high * 2))


def _interval(ratio: Ratio, color: int, scale: tuple[float, float]) -> Control:
    """Return the speedup on a logarithmic axis with “no difference”; without an interval, the range
    of its segments.
    """

    def place(value: float) -> float:
        return 100 * math.log(value / scale[0]) / math.log(scale[1] / scale[0])

    low, high = map(place, ratio.bounds)
    marks = (
        (scale[0], f"{scale[0]:.2g}×"),
        (1.0, "1.00 no difference"),
        (scale[1], f"{scale[1]:.3g}×"),
    )
    places = {
        "value": f"{place(ratio.value):.1f}",
        "one": f"{place(1):.1f}",
        "low": f"{low:.1f}",
        "width": f"{max(high - low, 0.8):.1f}",
        "marks": [(f"{place(value):.1f}", text) for value, text in marks],
    }
    return Control(
        "interval",
        {"text": speedup_text(ratio), "color": color, "is_known": ratio.low is not None, **places},
    )


def _throughput(view: View, answer: Answer) -> JsonObject:
    """Return bars of throughput with the interval of each system, and none for a system that is
    excluded.
    """
    shown = answer.group.systems[:LISTED]
    bars = charts.throughput(shown).bars
    longest = max(bar.bounds.high if bar.bounds else bar.value or 0.0 for bar in bars)

    def drawn(bar: charts.Bar) -> JsonObject:
        system = view.of(bar.system)
        bounds = bar.bounds
        runs = counted(len(bar.system.valid_runs), "run")
        values: JsonObject = dict.fromkeys(("tip", "fill", "width", "is_open"), "")
        values |= {"color": system.field, "name": system.name, "text": bar.text}
        if bar.value is None:
            values["text"] = f"{rate_of(bar.system)}{' (excluded)' if bar.system.exclusion else ''}"
            return values
        values["fill"] = f"{100 * bar.value / longest:.1f}"
        if bounds is None:
            tip = f"{runs}: run-to-run variation is unknown"
            return values | {"is_open": "open", "text": f"{bar.text} ({runs})", "tip": tip}
        values["width"] = f"{100 * (bounds.high - bounds.low) / longest:.1f}"
        values["middle"] = f"{50 * (bounds.high + bounds.low) / longest:.1f}"
        values["tip"] = f"{level()} CI of the mean of {runs}"
        return values

    return {"model": answer.title, "unit": rate_unit(shown), "bars": list(map(drawn, bars))}


def _rate(system: SystemResult) -> float:
    """Return the rate that a bar shows; none for a system that is excluded."""
    if system.exclusion is not None:
        return 0.0
    return system.value(RATE) or 0.0


def cost_values(view: View) -> JsonObject:
    """Return what page.js computes costs with: USD per amount of work at $1 an hour, and the
    sentences of each pair.
    """
    comparison = view.comparison
    systems = [
        {
            "field": placed.field,
            "name": placed.name,
            "cost": _cost_of_work(placed.system),
        }
        for placed in view.systems
    ]
    pairs = []
    for number, answer in enumerate(view.answers):
        found = cost(comparison, answer.group.leaders) if answer.group.leaders is not None else None
        if found is not None:
            places = {}
            for name in ("faster", "slower"):
                places[name] = view.of(getattr(found.pair, name)).index
            pairs.append({"answer": number, **places, **costs.forms(found)})
    return {"systems": systems, "pairs": pairs}


def _cost_of_work(system: SystemResult) -> float | None:
    """Return the USD that the stated amount of work costs at $1 per GPU-hour; None if unknown."""
    # Tokens and samples are those of one GPU, steps of all.
    value, gpus = _rate(system), system.count if system.unit == "steps" else 1
    hours = work_of([system]).size / 3600 * gpus / value if value and gpus else None
    return None if hours is None else Price(1.0, 1.0).cost(hours)


def _cost(view: View) -> JsonObject | None:
    """Return who costs less per token, and a price field for each name; None if no system has a
    throughput.
    """
    prices = view.comparison.prices
    several = len(view.answers) > 1
    if not any(answer.group.leaders or len(answer.group.systems) == 1 for answer in view.answers):
        # What does different work has no cost to compare.
        return None
    if not prices and all(system.run.platform == "cpu" for system in view.comparison.systems):
        return None
    named: dict[str, list[Placed]] = {}
    for placed in (
        view.of(system) for answer in view.answers for system in answer.group.systems[:LISTED]
    ):
        if _cost_of_work(placed.system):
            named.setdefault(placed.system.name, []).append(placed)
    if not named:
        return None
    rows = []
    amounts = dict.fromkeys(work_of(answer.group.systems).amount for answer in view.answers)
    for name, group in named.items():
        price = prices.get(name)
        if price is None:
            typed = ""
        else:
            typed = ":".join(dict.fromkeys(f"{bound:g}" for bound in (price.low, price.high)))
        titled = ((each.index, each.model.short_title if several else "", each) for each in group)
        costed = []
        for i, title, each in titled:
            costed.append((i, title, work_of([each.system]).amount if len(amounts) > 1 else ""))
        rows.append(
            {"name": group[0].name, "field": group[0].field, "typed": typed, "costs": costed}
        )
    sentences = [
        {
            "number": number,
            "model": answer.title if several else "",
            "text": costs.cost_sentence(found, prices),
        }
        for number, answer in enumerate(view.answers)
        if answer.group.leaders is not None
        and (found := cost(view.comparison, answer.group.leaders)) is not None
    ]
    titles = ("System", "USD per GPU-hour", f"USD per {' or '.join(amounts)}")
    return {"titles": titles, "rows": rows, "sentences": sentences, "is_given": bool(prices)}


def _chips(view: View) -> Iterator[Chip]:
    """Yield what is excluded, what could change the decision, checks that passed, and what is good
    to know.
    """
    several = len(view.answers) > 1
    caveats: dict[str, list[tuple[Answer, Caveat]]] = {}
    warned: dict[str, list[str]] = {}
    for answer in view.answers:
        for caveat in answer.verdict.caveats:
            caveats.setdefault(caveat.code, []).append((answer, caveat))
        for system in answer.group.systems:
            if system.exclusion is not None:
                texts = [f"{system.name}: {system.exclusion.text}", *system.exclusion.explanations]
                yield Chip("bad", f"{system.name} excluded", tuple(texts))
            for finding in system.findings:
                if finding.severity == "warning":
                    warned.setdefault(finding.rule, []).append(f"{system.name}: {finding.text}")
    chips = [
        Chip(
            "warn" if any(caveat.severity == "warning" for _, caveat in found) else "info",
            _label(found[0][1]) + (f" ({len(found)} models)" if several and len(found) > 1 else ""),
            _texts(found, several=several),
        )
        for code, found in sorted(caveats.items(), key=lambda item: CODES.index(item[0]))
    ]
    chips += [
        Chip("warn", rule.replace("-", " ").capitalize(), tuple(texts))
        for rule, texts in warned.items()
    ]
    yield from (chip for chip in chips if chip.style == "warn")
    yield from _passed(view)
    yield from (chip for chip in chips if chip.style == "info")


def _texts(found: Sequence[tuple[Answer, Caveat]], *, several: bool) -> tuple[str, ...]:
    """Return the texts of a caveat, each with its model if models differ in it."""
    texts = dict.fromkeys(caveat.text for _, caveat in found)
    if not several or (len(texts) == 1 and len(found) > 1):
        return tuple(texts)
    return tuple(dict.fromkeys(f"{answer.title}: {caveat.text}" for answer, caveat in found))


def _label(caveat: Caveat) -> str:
    """Return a caveat in short: the start of its text if that says what its code does, else the
    code.
    """
    words = caveat.code.replace("disturbed", "other-programs-were-running").split("-")
    starts = [caveat.text.partition(mark)[0] for mark in ("; ", " (", ": ", ", ")]
    telling = (
        start
        for start in starts
        if len(start) <= LONGEST_CHIP and any(word[:5] in start for word in words)
    )
    return capitalized(next(telling, " ".join(words).replace("bf16", "BF16")))


def _passed(view: View) -> Iterator[Chip]:
    """Yield the checks that passed: values below the hardware peak, and equal settings."""
    shares = {
        view.title(placed): share.value
        for placed in view.systems[:LISTED]
        for efficiency in efficiencies(view.comparison, placed.system)
        if (share := efficiency.values.get("mfu")) is not None and share.value is not None
    }
    if shares:
        names = dict.fromkeys(
            f"{share:.0f}" for share in (min(shares.values()), max(shares.values()))
        )
        listed = "; ".join(f"{name} {share:.1f}%" for name, share in shares.items())
        label = f"Within hardware peak ({'–'.join(names)}% MFU)"
        if len(shares) < len(view.systems):
            if len(shares) < 3:
                checked = join_names(list(shares), 2)
            else:
                checked = counted(len(shares), "system")
            label = f"{checked} within hardware peak"
        yield Chip(
            "ok",
            label,
            (f"MFU (model FLOPs utilization), of the dense peak of the precision used: {listed}",),
        )
    compared = [pair for pair in view.pairs if pair.ratio]
    if compared and not any(pair.config_diff.of("different") for pair in compared):
        yield Chip(
            "ok",
            "No reported settings differ",
            ("Settings that only some results report are not compared.",),
        )
