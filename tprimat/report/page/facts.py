"""The verdict's four questions in a line each: how much, how sure, is it fair, is it possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tprimat.analysis.intervals import RUNS_FOR_SIGNIFICANCE
from tprimat.compare import Comparison, Group, Pair, SideResult
from tprimat.compare.money import efficiencies
from tprimat.report.rates import rate_of, rate_unit
from tprimat.report.reasons import NAMED, listed
from tprimat.report.verdict import ratio_text

_KINDS = {
    "identical configuration": "identical configurations, as far as they are stated",
    "maximum performance": "each at its own configuration",
    "not comparable": "not comparable",
}


def facts(comparison: Comparison, group: Group) -> list[tuple[str, list[str]]]:
    """Titles with what is to be said; more than a few sides are left to the tables."""
    compared = [pair for pair in group.pairs if pair.ratio]
    found = [
        ("How much", list(_how_much(group, compared)) if compared else []),
        ("How sure", list(_how_sure(compared)) if compared else []),
        ("Is it fair", list(_fair(group.pairs))),
        ("Is it possible", list(_possible(comparison, group.sides))),
    ]
    return [(title, texts) for title, texts in found if texts]


def _how_much(group: Group, compared: Sequence[Pair]) -> Iterator[str]:
    reference = compared[0].reference
    yield f"{reference.name}: {rate_of(reference)} {rate_unit(group.sides)}, the reference"
    for pair in compared[:NAMED]:
        speed = f"{rate_of(pair.side)} {rate_unit(group.sides)}"
        yield f"{pair.side.name}: {speed}, against the reference {ratio_text(pair.ratio)}"
    if len(compared) > NAMED:
        yield f"{len(compared) - NAMED} more sides in the table"


def _how_sure(compared: Sequence[Pair]) -> Iterator[str]:
    counts = sorted({len(side.counted) for side in (compared[0].reference, *(pair.side for pair in compared))})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    runs += " run a side" if counts == [1] else " runs a side"
    if any(pair.ratio and pair.ratio.levels for pair in compared):
        yield f"{runs}, and a run changes its level: each ratio is of a level, none has an interval"
    elif counts[0] < RUNS_FOR_SIGNIFICANCE:
        yield (
            f"{runs}: a ratio without an interval. It takes {RUNS_FOR_SIGNIFICANCE} runs a side to say "
            "anything of other runs"
        )
    else:
        yield f"{runs}; intervals are of the ratio of the runs' means, 95 %, by log-Welch t"
        least = [pair.ratio.smallest for pair in compared if pair.ratio and pair.ratio.smallest is not None]
        if least:
            yield f"so many runs find a difference of {max(least):.1%} in four of five cases"


def _fair(pairs: Sequence[Pair]) -> Iterator[str]:
    for pair in pairs[:NAMED]:
        ledger = pair.ledger
        named = f"{pair.side.name}: " if len(pairs) > 1 else ""
        differing = [entry.title for entry in (*ledger.of("disqualifying"), *ledger.of("different"))]
        unknown = len(ledger.of("unknown"))
        differs = f"; they differ in {listed(differing)}" if differing else ""
        unstated = f"; {unknown} settings aren't stated by both" if unknown else ""
        yield f"{named}{_KINDS[ledger.verdict]}: {len(ledger.of('equal'))} settings are equal{differs}{unstated}"
    if len(pairs) > NAMED:
        yield f"{len(pairs) - NAMED} more in the ledger of differences"


def _possible(comparison: Comparison, sides: Sequence[SideResult]) -> Iterator[str]:
    shown = [side for side in sides if side.refusal or len(sides) <= NAMED]
    for side in shown:
        doubts = [finding.text for finding in side.findings if finding.gravity == "doubtful"]
        text = "; ".join(doubts) or _against_peak(comparison, side)
        yield f"{side.name}: {f'left out: {side.refusal.text}' if side.refusal else text}"
    rest = len(sides) - len(shown)
    if rest:
        yield f"{'the other' if shown else 'all'} {rest} sides: nothing impossible was found in what they state"


def _against_peak(comparison: Comparison, side: SideResult) -> str:
    if not side.counted:
        return f"no figures: its run {side.ended}"
    shares = [share for each in efficiencies(comparison, side) if (share := each.values.get("mfu")) is not None]
    known = [share.value for share in shares if share.value is not None]
    if known:
        percents = dict.fromkeys(f"{share:.0f}" for share in (min(known), max(known)))
        return f"{'–'.join(percents)} % of the dense peak"
    why = next((share.reason for share in shares if share.reason), "the peak isn't known")
    return f"nothing impossible was found, but it can't be held against a peak ({why})"
