"""The card at the top of the page: answers with their interval bars, caveats as chips, throughput,
and cost.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tprimat.analysis.intervals import Bounds, level
from tprimat.catalog.prices import Price
from tprimat.compare import Caveat, Ratio, SystemResult
from tprimat.compare.cost import PairCost, cost, efficiencies
from tprimat.notes.catalogue import sentence, words
from tprimat.report import costs, screen
from tprimat.report.blocks import Distinct, Inline, Paragraph, Strong
from tprimat.report.page.markup import Control, Parts
from tprimat.report.page.view import Placed, View
from tprimat.report.plot import charts
from tprimat.report.rates import RATE, rate_of, rate_unit, work_of
from tprimat.report.verdict import Answer, speedup_text
from tprimat.results.fields import JsonObject
from tprimat.text import capitalized, counted, join_names

MOST_ANSWERS = 4
MOST_SYSTEMS = 7
MOST_CHIPS = 5
"""Most items of each kind that the card shows; the others are folded."""

LISTED = 50
"""Most systems of an answer on the card; the results table has all."""

SCALES = ((0.9, 1.25), (0.8, 2), (0.5, 5), (0.2, 20), (0.1, 100))
"""Ends of the axis of speedups. The first that contain all speedups are used, so that a small one
doesn't look like a large one.
"""

FEW = 4
"""Most systems whose names have their own line above their bars."""

LONGEST_CHIP = 42
"""Most characters of a chip; its paragraph has the whole text."""

_AMOUNT = re.compile(r"(?<![\d.,–])[\d.,–]+(?:% faster|× as fast)")


@dataclasses.dataclass(frozen=True)
class Chip:
    """A short text that opens its paragraphs; styled "bad" (excluded), "warn", "ok" or "info"."""

    style: str
    label: str
    texts: tuple[str, ...]


def values(view: View) -> JsonObject:
    """Return what templates/card.html shows; its border says how certain the answer is.

    Several models each have a row below one headline.
    """
    several = len(view.answers) > 1
    answers = []
    compared = 0
    for answer in view.answers:
        standing = answer.verdict.standing if several else ""
        answers.append({"standing": standing, "parts": list(_answer(view, answer))})
        compared += answer.group.leaders is not None
    # Answers with a comparison come first; those beyond the limit are folded, and those without a
    # comparison are folded separately.
    shown = len(answers)
    if compared and shown > MOST_ANSWERS:
        shown = compared
    first = min(MOST_ANSWERS, shown)
    end = max(first, compared)
    rest = counted(len(answers) - end, "more answer")
    if compared:
        rest = f"Not compared ({len(answers) - end})"
    folds = ((counted(end - first, "more answer"), answers[first:end]), (rest, answers[end:]))
    chips = list(_chips(view))
    # A fold for a single chip would take as much room as the chip.
    most = MOST_CHIPS if len(chips) > MOST_CHIPS + 1 else len(chips)
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
        "headline": view.report.headline,
        "answers": answers[:first],
        "folded": [fold for fold in folds if fold[1]],
        "chips": chips[:most],
        "more_chips": chips[most:],
        "throughput": [_throughput(view, answer) for answer in view.answers],
        "shown": first,
        "cost": _cost(view),
    }


def _answer(view: View, answer: Answer) -> Parts:
    verdict = answer.verdict
    leaders = answer.group.leaders
    if len(view.answers) > 1:
        texts: list[Inline] = [Strong(f"{answer.title}:"), " "]
        if view.report.headline and leaders is not None:
            texts.append(f"{leaders.system.name} vs {leaders.baseline.name}")
        else:
            texts += _headline(verdict.headline)
        if verdict.certainty:
            texts.append(f", {verdict.certainty}")
        yield Paragraph(texts)
    else:
        yield Paragraph(_headline(verdict.headline), "headline")
        yield Paragraph(verdict.certainty, "certainty")
        yield from screen.profile(answer)
    if leaders is not None and leaders.ratio is not None:
        yield _interval(leaders.ratio, view.of(leaders.system).field, _scale(view))
    if verdict.standing == "excluded":
        yield from list(screen.explanations(answer.group))[:1]


def _headline(text: str) -> list[Inline]:
    """Return a headline in pieces, with its amount emphasized."""
    amount = _AMOUNT.search(text)
    if amount is None:
        return [text]
    return [text[: amount.start()], Strong(amount[0]), text[amount.end() :]]


def _scale(view: View) -> Bounds:
    """Return the ends of the common axis of all speedups on the page, so that equal lengths mean
    equal speedups.
    """
    low = high = 1.0
    for answer in view.answers:
        pair = answer.group.leaders
        if pair is not None and pair.ratio is not None:
            low = min(low, pair.ratio.bounds[0])
            high = max(high, pair.ratio.bounds[1])
    for start, end in SCALES:
        if start < low and high < end:
            return start, end
    return low / 2, high * 2


def _interval(ratio: Ratio, color: int, scale: Bounds) -> Control:
    """Return the speedup on a logarithmic axis with “no difference”; without an interval, the range
    of its segments.
    """
    start, end = scale

    def position(value: float) -> float:
        return 100 * math.log(value / start) / math.log(end / start)

    low, high = map(position, ratio.bounds)
    one = f"{position(1):.1f}"
    values = {
        "text": speedup_text(ratio),
        "color": color,
        "is_known": ratio.low is not None,
        "value": f"{position(ratio.value):.1f}",
        "one": one,
        "low": f"{low:.1f}",
        "width": f"{max(high - low, 0.8):.1f}",
        "marks": [("0.0", f"{start:.2g}×"), (one, "1.00 no difference"), ("100.0", f"{end:.3g}×")],
    }
    return Control("interval", values)


def _throughput(view: View, answer: Answer) -> JsonObject:
    """Return bars of throughput with the interval of each system, and none for a system that is
    excluded.
    """
    systems = answer.group.systems[:LISTED]
    bars = charts.throughput(systems).bars
    longest = 0.0
    for bar in bars:
        longest = max(longest, bar.bounds.high if bar.bounds else bar.value or 0.0)
    drawn = [_bar(view.of(bar.system), bar, longest) for bar in bars]
    return {"model": answer.title, "unit": rate_unit(systems), "bars": drawn}


def _bar(placed: Placed, bar: charts.Bar, longest: float) -> JsonObject:
    """Return a bar, relative to the longest one, which has the full width."""
    bounds = bar.bounds
    runs = counted(len(bar.system.valid_runs), "run")
    values: JsonObject = dict.fromkeys(("tip", "fill", "width", "is_open"), "")
    values |= {"color": placed.field, "name": placed.name, "text": bar.text}
    if bar.value is None:
        values["text"] = rate_of(bar.system)
        if bar.system.exclusion:
            values["text"] += " (excluded)"
        return values
    values["fill"] = f"{100 * bar.value / longest:.1f}"
    if bounds is None:
        values["is_open"] = "open"
        values["text"] = f"{bar.text} ({runs})"
        values["tip"] = f"{runs}: run-to-run variation is unknown"
    else:
        values["width"] = f"{100 * (bounds.high - bounds.low) / longest:.1f}"
        values["middle"] = f"{50 * (bounds.high + bounds.low) / longest:.1f}"
        values["tip"] = f"{level()} CI of the mean of {runs}"
    return values


def cost_values(view: View) -> list[JsonObject]:
    """Return the sentences of each pair, from which page.js chooses by the prices."""
    pairs = []
    for number, pair_cost in _pair_costs(view):
        systems = {
            "faster": view.of(pair_cost.pair.faster).index,
            "slower": view.of(pair_cost.pair.slower).index,
        }
        pairs.append({"answer": number, **systems, **costs.forms(pair_cost)})
    return pairs


def cost_of_work(system: SystemResult) -> float | None:
    """Return the cost, USD, of the stated amount of work at $1 per GPU-hour; None if unknown, or if
    the system is excluded.
    """
    # Rates in tokens and samples are those per GPU; a rate in steps is that of all GPUs.
    gpus = system.count if system.unit == "steps" else 1
    rate = None if system.unit == "mfu" else system.value(RATE)
    if not rate or not gpus or system.exclusion is not None:
        return None
    return Price(1.0, 1.0).cost(work_of([system]).size / 3600 * gpus / rate)


def _pair_costs(view: View) -> Iterator[tuple[int, PairCost]]:
    """Yield what the leaders of each answer cost, with the answer's number."""
    for number, answer in enumerate(view.answers):
        if answer.group.leaders is not None:
            pair_cost = cost(view.comparison, answer.group.leaders)
            if pair_cost is not None:
                yield number, pair_cost


def _cost(view: View) -> JsonObject | None:
    """Return which system costs less per token, and a price field for each name; None if no system
    has a throughput.
    """
    prices = view.comparison.prices
    if not any(answer.group.leaders or len(answer.group.systems) == 1 for answer in view.answers):
        # The costs of different work can't be compared.
        return None
    if not prices and all(system.run.platform == "cpu" for system in view.comparison.systems):
        return None
    named: dict[str, list[Placed]] = {}
    amounts: Distinct = {}
    for answer in view.answers:
        amounts[work_of(answer.group.systems).amount] = None
        for system in answer.group.systems[:LISTED]:
            if cost_of_work(system):
                named.setdefault(system.name, []).append(view.of(system))
    if not named:
        return None
    several = len(view.answers) > 1
    sentences = []
    for number, pair_cost in _pair_costs(view):
        model = view.answers[number].title if several else ""
        text = costs.cost_sentence(pair_cost, prices)
        sentences.append({"number": number, "model": model, "text": text})
    rows = [_price_row(view, placed, has_amounts=len(amounts) > 1) for placed in named.values()]
    titles = ("System", "USD per GPU-hour", f"USD per {' or '.join(amounts)}")
    return {"titles": titles, "rows": rows, "sentences": sentences, "is_given": bool(prices)}


def _price_row(view: View, systems: Sequence[Placed], *, has_amounts: bool) -> JsonObject:
    """Return the price field for the systems of one name, and the outputs for the cost of each."""
    first = systems[0]
    typed = ""
    if price := view.comparison.prices.get(first.system.name):
        typed = f"{price.low:g}"
        if f"{price.high:g}" != typed:
            typed += f":{price.high:g}"
    outputs = []
    for placed in systems:
        model = placed.model.short_title if len(view.answers) > 1 else ""
        amount = work_of([placed.system]).amount if has_amounts else ""
        outputs.append((placed.index, model, amount))
    return {"name": first.name, "field": first.field, "typed": typed, "costs": outputs}


def _chips(view: View) -> Iterator[Chip]:
    """Yield chips: excluded systems, what could change the decision, checks that passed, and other
    information.
    """
    warned: dict[str, list[str]] = {}
    for answer in view.answers:
        for system in answer.group.systems:
            if system.exclusion is not None:
                texts = [f"{system.name}: {words(system.exclusion.note)}"]
                texts += map(words, system.exclusion.explanations)
                yield Chip("bad", f"{system.name} excluded", tuple(texts))
            for finding in system.findings:
                if finding.severity == "warning":
                    text = f"{system.name}: {words(finding.note)}"
                    warned.setdefault(finding.rule, []).append(text)
    of_caveats = _of_caveats(view.answers)
    yield from (chip for chip in of_caveats if chip.style == "warn")
    for rule, texts in warned.items():
        yield Chip("warn", rule.replace("-", " ").capitalize(), tuple(texts))
    yield from _passed(view)
    yield from (chip for chip in of_caveats if chip.style == "info")


def _of_caveats(answers: Sequence[Answer]) -> list[Chip]:
    """Return a chip for each code of the first screen's caveats."""
    counts = Counter(caveat.code for answer in answers for caveat in answer.verdict.caveats)
    texts: dict[str, list[str]] = {}
    first: dict[str, Caveat] = {}
    for text, caveat in screen.caveats(answers).items():
        texts.setdefault(caveat.code, []).append(text)
        first.setdefault(caveat.code, caveat)
    chips = []
    for code, caveat in first.items():
        label = _label(caveat)
        if counts[code] > 1:
            label += f" ({counts[code]} models)"
        style = "warn" if caveat.severity == "warning" else "info"
        chips.append(Chip(style, label, tuple(texts[code])))
    return chips


def _label(caveat: Caveat) -> str:
    """Return a short form of a caveat: the start of its text if that tells as much as its code,
    else the code.

    “global batch differs: 64 (8×H100), 128 (8×MI300X) sequences; compare tokens/s/GPU, not step
    time” with the code batch-differs becomes “Global batch differs”: the start up to the colon is
    the first one that is short enough.
    """
    words = caveat.code.replace("disturbed", "other-programs-were-running").split("-")
    for mark in ("; ", " (", ": ", ", "):
        start = sentence(caveat.notes).partition(mark)[0]
        if len(start) <= LONGEST_CHIP and any(word[:5] in start for word in words):
            return capitalized(start)
    return capitalized(" ".join(words).replace("bf16", "BF16"))


def _passed(view: View) -> Iterator[Chip]:
    """Yield the checks that passed: values below the hardware peak, and equal settings."""
    shares = {}
    for placed in view.systems[:LISTED]:
        for efficiency in efficiencies(view.comparison, placed.system):
            share = efficiency.values.get("mfu")
            if share is not None and share.value is not None:
                shares[placed.label] = share.value
    if shares:
        listed = "; ".join(f"{name} {share:.1f}%" for name, share in shares.items())
        of = "MFU (model FLOPs utilization), of the dense peak of the precision used"
        yield Chip("ok", _within_peak(shares, len(view.systems)), (f"{of}: {listed}",))
    compared = [pair for pair in view.pairs if pair.ratio]
    if compared and not any(pair.config_diff.of("different") for pair in compared):
        text = "Settings that only some results report are not compared."
        yield Chip("ok", "No reported settings differ", (text,))


def _within_peak(shares: Mapping[str, float], systems: int) -> str:
    """Return how many of the systems have an MFU below the peak; the range of MFU if all do."""
    if len(shares) >= systems:
        low = f"{min(shares.values()):.0f}"
        high = f"{max(shares.values()):.0f}"
        return f"Within hardware peak ({low if low == high else f'{low}–{high}'}% MFU)"
    if len(shares) < 3:
        return f"{join_names(list(shares), 2)} within hardware peak"
    return f"{counted(len(shares), 'system')} within hardware peak"
