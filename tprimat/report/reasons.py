"""What an answer rests on, and what would make it better. For all reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tprimat.analysis.intervals import RUNS_FOR_SIGNIFICANCE
from tprimat.compare import Group, Pair, SideResult
from tprimat.report.rates import RATE, rate

NAMED = 4
"""Sides that a sentence names; beyond, the table has them."""

STEPS = 4
"""Things to do that are listed; more are a wish list."""


def why(group: Group, unit: str) -> Iterator[str]:
    """What the answer rests on and what weakens it, in whole sentences; `unit` is that of the rate."""
    compared = [pair for pair in group.pairs if pair.ratio]
    for caveat in dict.fromkeys(caveat for pair in compared for caveat in pair.caveats):
        yield f"{_capital(caveat)}."
    # Without any ratio the reasons are the headline.
    if compared:
        sides = [group.sides[0], *(pair.side for pair in compared)]
        yield from _of_processor(sides)
        yield from _of_ledger(compared)
        yield from _of_runs(sides, compared, unit)
        yield from _of_training(compared)
        for pair in group.pairs:
            if not pair.ratio:
                yield f"{_capital(pair.reason or 'not compared')}."
    for side in group.sides:
        # The report lists what is excluded.
        for explanation in side.refusal.explanations if side.refusal else ():
            if ": excluded" not in explanation:
                yield f"{side.name} would fit with {explanation}"
    yield from _of_data(group.sides)


def what_next(group: Group) -> tuple[str, ...]:
    """What would make the answer better, the most useful first."""
    return tuple(dict.fromkeys(_wishes(group)))[:STEPS]


def _wishes(group: Group) -> Iterator[str]:
    yield from _of_refused(group.sides)
    compared = [pair for pair in group.pairs if pair.ratio]
    if not compared:
        differ = any(pair.ledger.verdict == "not comparable" for pair in group.pairs)
        if differ and not any(side.refusal for side in group.sides):
            yield "Measure both with the same setup: ./benchmark.py --match RESULT repeats another result's."
        return
    sides = [group.sides[0], *(pair.side for pair in compared)]
    fewest = min(len(side.counted) for side in sides)
    needed = [pair.ratio.needed for pair in compared if pair.ratio and pair.ratio.needed is not None]
    if fewest < RUNS_FOR_SIGNIFICANCE:
        yield (
            f"{RUNS_FOR_SIGNIFICANCE} runs a side, better 5 and in turns, give the ratio an interval: "
            f"./benchmark.py --runs {RUNS_FOR_SIGNIFICANCE} on each."
        )
    elif needed:
        yield f"{max(needed)} runs a side would show the difference that was seen: ./benchmark.py --runs {max(needed)}."
    if any(side.levels for side in sides):
        yield "Find what changed where the level did, or run longer: the level that lasts decides."
    if any(not result.summary.steady.found for side in sides for result in side.counted):
        yield "Run longer, for a steady state and an interval: ./benchmark.py --steps 200 (500 for its full coverage)."
    unstated = [side for side in sides if side.run.training_config.precision is None and side.run.platform != "cpu"]
    if unstated:
        yield (
            "State the precision (--precision bf16, where all sides that don't state it ran in that): the check "
            "against the peak needs it."
        )
    yield from _equal_batches(compared)
    covers = {side.run.timing.covers for side in sides}
    if len(covers) > 1:
        yield "Time all sides alike: with ./benchmark.py on each, or BenchmarkCallback in the training script."
    if any(pair.ledger.of("different") for pair in compared if pair.ledger.verdict != "identical configuration"):
        yield "For identical configurations: ./benchmark.py --match RESULT, then compare with --mode identical."


def _equal_batches(compared: Sequence[Pair]) -> Iterator[str]:
    """With which batch a side would do the reference's steps, where its GPUs can divide that."""
    for pair in compared:
        config = pair.side.run.training_config
        wanted, gpus = pair.reference.run.training_config.global_batch_size, pair.side.run.num_gpus
        if not wanted or not gpus or config.global_batch_size in (None, wanted) or wanted % gpus:
            continue
        # The encoder-decoder benchmark is told the batch of one GPU, as its users know it.
        own = f"--batch-size {wanted // gpus}" if pair.side.run.model == "encdec" else f"--global-batch-size {wanted}"
        yield f"For the same effective batch of {wanted}: {own} on {pair.side.name}."


def _of_refused(sides: Sequence[SideResult]) -> Iterator[str]:
    for side in sides:
        name, finding = side.name, side.refusal
        if finding is None:
            continue
        if finding.rule == "precision-unstated":
            # Not --precision: that would fill in the other sides too.
            yield f"State the precision of {name} in its result (training_config.precision), if you know it."
        else:
            best = [each.partition(":")[0] for each in finding.explanations[:1] if finding.rule == "own-rate"]
            ran = f"really ran ({best[0]}?)" if best else "really ran"
            yield f"Look what {name} {ran} and make its result again with that stated."


def _of_processor(sides: Sequence[SideResult]) -> Iterator[str]:
    """A precision that the processor can't compute: its slowness says nothing about the precision elsewhere."""
    slow = [
        side.name
        for side in sides
        if side.run.platform == "cpu"
        and side.run.training_config.precision == "bf16"
        and side.run.environment.lacks_bf16
    ]
    if slow:
        whose = "its processor" if slow == ["bf16"] else f"the processor of {_few(slow)}"
        yield f"bf16 is computed in software: {whose} has no bf16 instructions."


def listed(names: Sequence[str], most: int = NAMED, more: str = "more") -> str:
    """Names as a sentence says them: a, b and c."""
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} {more}"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _few(titles: Sequence[str]) -> str:
    return listed(titles, NAMED + 1, "more settings")


def _of_ledger(compared: Sequence[Pair]) -> Iterator[str]:
    different = list(dict.fromkeys(entry.title for pair in compared for entry in pair.ledger.of("different")))
    unknown = (entry for pair in compared for entry in pair.ledger.of("unknown"))
    one_sided = list(dict.fromkeys(entry.title for entry in unknown if entry.values != (None, None)))
    parts = [f"the sides differ in {_few(different)}"] if different else []
    if one_sided:
        parts.append(f"only some state {_few(one_sided)}")
    if parts:
        text = "; ".join(parts)
        yield f"{text[0].upper()}{text[1:]} (see below)."


def _of_training(compared: Sequence[Pair]) -> Iterator[str]:
    """Whether anything may be said about quality; nothing where the trainings can't be distinguished."""
    different = [pair for pair in compared if pair.training.same is False]
    if different and len(compared) == 1:
        reasons = "; ".join(different[0].training.reasons)
        yield f"It was not the same training, so nothing follows for quality: {reasons}."
    elif different:
        yield f"{len(different)} of {len(compared)} pairs were not the same training: nothing follows for quality."


def _of_data(sides: Sequence[SideResult]) -> Iterator[str]:
    """What the losses say of the data: no evidence for or against speed."""
    found: dict[str, list[str]] = {}
    for side in sides:
        for finding in side.findings:
            if finding.rule == "synthetic-data":
                found.setdefault(finding.text, []).append(side.name)
    for text, names in found.items():
        who = "" if len(names) == len(sides) else f"{_few(names)}: "
        yield f"{who}{text if who else _capital(text)}."


def _of_runs(sides: Sequence[SideResult], compared: Sequence[Pair], unit: str) -> Iterator[str]:
    if all(len(side.counted) == 1 for side in sides):
        return
    spreads = []
    for side in sides[:NAMED]:
        figure = side.figures.get(RATE)
        if figure is not None and figure.low is not None:
            spreads.append(f"{side.name}: {rate(figure.low)} to {rate(figure.high)} in {figure.runs} runs")
        else:
            spreads.append(f"{side.name}: a single run")
    more = "; …" if len(sides) > NAMED else ""
    yield f"Run means in {unit}: {'; '.join(spreads)}{more}. {_of_chance(compared)}"


def _of_chance(compared: Sequence[Pair]) -> str:
    """What so many runs can show."""
    tested = [pair.ratio for pair in compared if pair.ratio is not None and pair.ratio.smallest is not None]
    if not tested:
        fewest = min(len(side.counted) for pair in compared for side in (pair.reference, pair.side))
        if fewest >= RUNS_FOR_SIGNIFICANCE:
            return "They have no interval, since not every run keeps one level."
        return f"Whether the difference exceeds chance takes {RUNS_FOR_SIGNIFICANCE} runs a side."
    smallest = max(ratio.smallest for ratio in tested if ratio.smallest is not None)
    return f"So many runs find a difference of {smallest:.1%} in four of five cases."


def _capital(text: str) -> str:
    # Only an article: what begins with the name of a side keeps it as it is.
    return "The" + text[3:] if text.startswith("the ") else text
