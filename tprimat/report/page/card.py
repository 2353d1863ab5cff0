"""The card that the page opens on: answers with their interval bars, caveats as chips, throughput, and cost."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tprimat.compare import Caveat, Ratio, SystemResult
from tprimat.compare.caveats import CODES
from tprimat.compare.cost import cost, efficiencies
from tprimat.report import explain, tables
from tprimat.report.page.markup import escape
from tprimat.report.page.view import Placed, View
from tprimat.report.rates import RATE, bounds_of, rate_of, rate_unit, work_of
from tprimat.report.verdict import Answer, cost_sentence, speedup_text
from tprimat.text import counted, join_names

MOST_ANSWERS = 4
MOST_SYSTEMS = 7
MOST_CHIPS = 7
"""What the card shows; the rest of each is folded."""

LISTED = 50
"""Systems of an answer that the card holds; the results table has all."""

SCALES = ((0.9, 1.25), (0.8, 2), (0.5, 5), (0.2, 20), (0.1, 100))
"""Ends of the axis of speedups, the narrowest that holds all: a small one must not look like a large one."""

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


def section(view: View) -> str:
    """Return the card; its border says how certain the answer is. Several models are a row each below one headline."""
    several = len(view.answers) > 1
    answers = [_answer(view, answer, several=several) for answer in view.answers]
    style = "" if several else f" {view.answers[0].verdict.standing}"
    headline = f'<p class="headline">{escape(view.headline)}</p>' if view.headline else ""
    listed = _folded("".join, answers, MOST_ANSWERS, "more answers")
    right = f"<div>{_throughput(view)}{_cost(view)}</div>"
    return f'<section id="card" class="card{style}"><div>{headline}{listed}</div>{_chips(view)}{right}</section>'


def _folded(write: Callable[[Sequence[str]], str], entries: Sequence[str], most: int, what: str) -> str:
    """Return entries as one text; those beyond the first ones in a fold."""
    text = write(entries[:most])
    if len(entries) > most:
        text += f"<details><summary>{len(entries) - most} {what}</summary>{write(entries[most:])}</details>"
    return text


def _answer(view: View, answer: Answer, *, several: bool) -> str:
    verdict, leaders = answer.verdict, answer.group.leaders
    headline = _AMOUNT.sub(lambda match: f"<strong>{match[0]}</strong>", escape(verdict.headline), count=1)
    if several:
        if view.headline and leaders is not None:
            headline = f"{escape(leaders.faster.name)} vs {escape(leaders.slower.name)}"
        texts = ", ".join(filter(None, (headline, escape(verdict.certainty))))
        parts = [f"<p><strong>{escape(answer.model.short_title)}:</strong> {texts}</p>"]
    else:
        parts = [f'<p class="headline">{headline}</p><p class="certainty">{escape(verdict.certainty)}</p>']
        if (explanation := explain.of_model(answer.model)) is not None:
            parts.append(f"<p>Profile: {escape(explain.brief(explanation))}.</p>")
    if leaders is not None and leaders.speedup is not None:
        parts.append(_interval(leaders.speedup, view.of(leaders.faster).color, _scale(view)))
    if verdict.standing == "excluded":
        for system in answer.group.systems:
            if system.exclusion is not None and system.exclusion.explanations:
                explanations = "".join(f"<li>{escape(text)}</li>" for text in system.exclusion.explanations[:3])
                parts.append(f"<p>Possible explanations, most likely first</p><ol>{explanations}</ol>")
                break
    return f'<div class="answer{f" row {verdict.standing}" if several else ""}">{"".join(parts)}</div>'


def _scale(view: View) -> tuple[float, float]:
    """Return the ends of the axis of all speedups on the page, so that equal lengths are equal speedups."""
    leaders = [each.group.leaders for each in view.answers]
    bounds = [pair.speedup.bounds for pair in leaders if pair is not None and pair.speedup is not None]
    low, high = min([1.0, *(each[0] for each in bounds)]), max([1.0, *(each[1] for each in bounds)])
    fitting = (scale for scale in SCALES if scale[0] < low and high < scale[1])
    return next(fitting, (low / 2, high * 2))


def _interval(ratio: Ratio, color: int, scale: tuple[float, float]) -> str:
    """Return the speedup on a logarithmic axis with “no difference”; without an interval, the range of its segments."""
    low, high = ratio.bounds

    def place(value: float) -> float:
        return 100 * math.log(value / scale[0]) / math.log(scale[1] / scale[0])

    def label(value: float, text: str, style: str) -> str:
        # Shifted by as much of its width as it is along the axis, it never leaves the axis.
        at = place(value)
        return f'<span class="{style}" style="left:{at:.1f}%;transform:translateX(-{at:.1f}%)">{text}</span>'

    text = speedup_text(ratio)
    kind = "" if ratio.low is not None else " unknown"
    marks = ((scale[0], f"{scale[0]:.2g}×"), (1.0, "1.00 no difference"), (scale[1], f"{scale[1]:.3g}×"))
    below = "".join(label(value, shown, "none") for value, shown in marks)
    width = f"left:{place(low):.1f}%;width:{max(place(high) - place(low), 0.8):.1f}%"
    return (
        f'<div class="interval{kind}" role="img" style="--color:var(--c{color})" aria-label="Speedup {escape(text)}; '
        f'no difference is 1.00">{label(ratio.value, escape(text), "value")}<span class="axis"></span>'
        f'<span class="one" style="left:{place(1):.1f}%"></span><span class="range" style="{width}"></span>'
        f'<span class="dot" style="left:{place(ratio.value):.1f}%"></span>{below}</div>'
    )


def _throughput(view: View) -> str:
    """Return bars of throughput with the interval of each system, and none for a system that is excluded."""
    shown = [view.of(system) for answer in view.answers for system in answer.group.systems[:LISTED]]
    bounds = {each.index: bounds_of(each.system) if _rate(each.system) else None for each in shown}
    longest = max([_rate(each.system) for each in shown] + [found.high for found in bounds.values() if found])

    def bar(placed: Placed) -> str:
        system, found = placed.system, bounds[placed.index]
        text = f"{rate_of(system)}{tables.between(system)}{' (excluded)' if system.exclusion else ''}"
        drawn, title = "", ""
        if value := _rate(system):
            drawn = f'<span class="fill" style="width:{100 * value / longest:.1f}%"></span>'
        if found is not None:
            width, middle = 100 * (found.high - found.low) / longest, 50 * (found.high + found.low) / longest
            drawn += f'<span class="ci" style="left:{middle:.1f}%;width:{width:.1f}%"></span>'
            title = f"{found.coverage:.0%} interval within one run; run-to-run variation is unknown"
            if found.kind == "between":
                title = f"95% CI of the mean of {len(system.valid_runs)} runs"
        return (
            f'<p class="bar" style="--color:var(--c{placed.color})" title="{title}"><span>{escape(view.title(placed))}'
            f'</span><span>{escape(text)}</span><span class="track">{drawn}</span></p>'
        )

    units = " and ".join(dict.fromkeys(rate_unit(answer.group.systems) for answer in view.answers))
    style = ' class="many"' if len(shown) > FEW else ""
    bars = _folded("".join, list(map(bar, shown)), MOST_SYSTEMS, "more systems")
    title = f"Throughput, {escape(units)}"
    if any(answer.group.leaders for answer in view.answers):
        title += " <span>(higher is better)</span>"
    return f'<div id="throughput"{style}><h2>{title}</h2>{bars}</div>'


def _rate(system: SystemResult) -> float:
    """Return the rate that a bar shows; none for a system that is excluded."""
    return 0.0 if system.exclusion is not None else system.value(RATE) or 0.0


def cost_values(view: View) -> dict[str, Any]:
    """Return what page.js computes the cost with: USD per amount of work at $1 an hour, and bounds of speedups."""
    comparison = view.comparison
    systems = [
        {
            "field": view.names.index(placed.system.name),
            "name": placed.name,
            "cost": work_of([placed.system]).size / 3600 / value if value else None,
        }
        for placed in view.systems
        for value in [_rate(placed.system)]
    ]
    pairs = []
    for number, answer in enumerate(view.answers):
        found = cost(comparison, answer.group.leaders) if answer.group.leaders is not None else None
        if found is not None:
            places = {name: view.of(getattr(found.pair, name)).index for name in ("faster", "slower")}
            work = work_of(answer.group.systems).noun
            pairs.append(
                {"answer": number, **places, "low": found.break_even[0], "high": found.break_even[1], "work": work}
            )
    return {"systems": systems, "pairs": pairs}


def _cost(view: View) -> str:
    """Return who costs less per token, and a price field for each name; nothing where no system has a throughput."""
    prices, several = view.comparison.prices, len(view.answers) > 1
    if not any(answer.group.leaders or len(answer.group.systems) == 1 for answer in view.answers):
        # What does different work has no cost to compare.
        return ""
    named: dict[str, list[Placed]] = {}
    for placed in (view.of(system) for answer in view.answers for system in answer.group.systems[:LISTED]):
        if _rate(placed.system):
            named.setdefault(placed.system.name, []).append(placed)
    if not named:
        return ""
    rows = []
    amounts = dict.fromkeys(work_of(answer.group.systems).amount for answer in view.answers)
    for name, group in named.items():
        price, field = prices.get(name), group[0].field
        typed = "" if price is None else ":".join(dict.fromkeys(f"{bound:g}" for bound in (price.low, price.high)))
        costs = "<br>".join(
            f'{escape(placed.model.short_title) if several else ""} <output id="per-token-{placed.index}">–</output>'
            f"{f' per {work_of([placed.system]).amount}' if len(amounts) > 1 else ''}"
            for placed in group
        )
        rows.append(
            f'<tr><th scope="row"><label for="price-{field}">{escape(group[0].name)}</label></th><td><input '
            f'id="price-{field}" data-price="{field}" inputmode="decimal" autocomplete="off" placeholder="price" '
            f'aria-describedby="price-help" value="{typed}"></td><td>{costs}</td></tr>'
        )
    sentences = [
        f'<p class="money">{f"{escape(answer.model.short_title)}: " if several else ""}'
        f'<output id="cost-{number}">{escape(cost_sentence(found, prices))}</output></p>'
        for number, answer in enumerate(view.answers)
        if answer.group.leaders is not None and (found := cost(view.comparison, answer.group.leaders)) is not None
    ]
    titles = ("System", "USD per GPU-hour", f"USD per {' or '.join(amounts)}")
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)

    def table(rows: Sequence[str]) -> str:
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"

    text = _folded("".join, sentences, MOST_ANSWERS, "more answers")
    fields = (
        f'{_folded(table, rows, MOST_SYSTEMS, "more systems")}<p id="price-help" class="hint">'
        "A number such as 2.95, or a range such as 2.20:3.10. Prices stay in this page.</p>"
    )
    before, within = ("", text) if several else (text, "")
    return (
        f'<div id="cost"><h2>Cost</h2>{before}<details id="prices"{"" if several else " open"}>'
        f"<summary>Enter your price per GPU-hour</summary>{within}{fields}</details></div>"
    )


def _chips(view: View) -> str:
    chips = list(_all_chips(view))
    drawn = [
        f'<details class="chip {chip.style}"><summary>{escape(chip.label)}</summary>'
        f"{''.join(f'<p>{escape(text)}</p>' for text in chip.texts)}</details>"
        for chip in chips
    ]
    if len(drawn) > MOST_CHIPS + 1:
        more = (
            f'<summary>{len(drawn) - MOST_CHIPS} more</summary><div class="chips">{"".join(drawn[MOST_CHIPS:])}</div>'
        )
        drawn[MOST_CHIPS:] = [f'<details class="chip info">{more}</details>']
    return f'<div class="chips" role="group" aria-label="Caveats and checks">{"".join(drawn)}</div>' if drawn else ""


def _all_chips(view: View) -> Iterator[Chip]:
    """Yield what is excluded, what could change the decision, checks that passed, and what is good to know."""
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
    chips += [Chip("warn", rule.replace("-", " ").capitalize(), tuple(texts)) for rule, texts in warned.items()]
    yield from (chip for chip in chips if chip.style == "warn")
    yield from _passed(view)
    yield from (chip for chip in chips if chip.style == "info")


def _texts(found: Sequence[tuple[Answer, Caveat]], *, several: bool) -> tuple[str, ...]:
    """Return the texts of a caveat, each with its model where models differ in it."""
    texts = dict.fromkeys(caveat.text for _, caveat in found)
    if not several or (len(texts) == 1 and len(found) > 1):
        return tuple(texts)
    return tuple(dict.fromkeys(f"{answer.model.short_title}: {caveat.text}" for answer, caveat in found))


def _label(caveat: Caveat) -> str:
    """Return a caveat in short: the start of its text where that says what its code does, else the code."""
    words = caveat.code.split("-")
    starts = [caveat.text.partition(mark)[0] for mark in ("; ", " (", ": ", ", ")]
    telling = (each for each in starts if len(each) <= LONGEST_CHIP and any(word[:5] in each for word in words))
    text = next(telling, " ".join(words).replace("bf16", "BF16"))
    return text[0].upper() + text[1:]


def _passed(view: View) -> Iterator[Chip]:
    """Yield the checks that passed: values below the hardware peak, and equal settings."""
    shares = {
        view.title(placed): share.value
        for placed in view.systems[:LISTED]
        for each in efficiencies(view.comparison, placed.system)
        if (share := each.values.get("mfu")) is not None and share.value is not None
    }
    if shares:
        names = dict.fromkeys(f"{share:.0f}" for share in (min(shares.values()), max(shares.values())))
        listed = "; ".join(f"{name} {share:.1f}%" for name, share in shares.items())
        label = f"Within hardware peak ({'–'.join(names)}% MFU)"
        if len(shares) < len(view.systems):
            checked = join_names(list(shares), 2) if len(shares) < 3 else counted(len(shares), "system")
            label = f"{checked} within hardware peak"
        yield Chip("ok", label, (f"MFU, of the dense peak of the precision used: {listed}",))
    compared = [pair for pair in view.pairs if pair.ratio]
    if compared and not any(pair.config_diff.of("different") for pair in compared):
        yield Chip("ok", "No reported setting differs", ("Settings that only some results report are not compared.",))
