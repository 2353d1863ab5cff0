"""The answer in words: which system is faster, by how much, how sure that is, and what could overturn it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tprimat import units
from tprimat.analysis.intervals import Method
from tprimat.catalog.prices import Price
from tprimat.compare import Caveat, Comparison, Group, ModelComparison, Pair, Ratio, SystemResult
from tprimat.compare.cost import PairCost
from tprimat.report import recommendations
from tprimat.report.rates import RATE, rate_of, rate_unit
from tprimat.text import counted, join_names

METHODS: Mapping[Method, str] = {
    "welch": "95% CI of the ratio of the runs' geometric means (Welch's t on logarithms)",
    "paired": "95% CI of the mean ratio of each round's two runs (paired t on logarithms)",
    "prediction": "95% prediction interval, which assumes equal run-to-run variation of both",
}
"""What an interval is."""

DOUBLE = 2.0
"""From this speedup on a sentence says “2.0× as fast”; below, by how many percent faster."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The answer for a group of systems.

    Attributes:
        headline: one sentence without its period: which system is faster, and by how much; or why that isn't said.
        certainty: the speedup with its interval, and the runs that it rests on; empty where nothing is compared.
        excluded: the systems that are not compared, a sentence for each reason.
        caveats: what could overturn it, the weightiest first.
        next_steps: what would make it better, the most useful first.
        standing: "significant", "preliminary" (two runs of a system), "none" (no significant difference),
            "unknown" (run-to-run variation), "excluded" (nothing could be compared) or "single" (one system).
    """

    headline: str
    certainty: str = ""
    excluded: tuple[str, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    next_steps: tuple[str, ...] = ()
    standing: str = "excluded"


@dataclasses.dataclass(frozen=True)
class Answer:
    """The verdict on a group of systems that trained a model."""

    model: ModelComparison
    group: Group
    verdict: Verdict


@dataclasses.dataclass(frozen=True)
class Report:
    """What every report shows: a comparison, and its answers in the order of its models and their groups."""

    comparison: Comparison
    answers: tuple[Answer, ...]

    @property
    def headline(self) -> str:
        """One headline for two systems that trained several models; empty where each group has its own."""
        if len(self.answers) < 2 or not all(_is_pair(answer.group) for answer in self.answers):
            return ""
        return _headline_models([(answer.group, answer.verdict) for answer in self.answers])

    def shortened(self, most: int) -> Report:
        """Return the report with at most so many systems of each group: the fastest, and the baseline."""
        shown = {id(group): _first(group, most) for model in self.comparison.models for group in model.groups}
        models = {
            id(model): dataclasses.replace(model, groups=tuple(shown[id(group)] for group in model.groups))
            for model in self.comparison.models
        }
        kept = {result.file for model in models.values() for system in model.systems for result in system.runs}
        comparison = dataclasses.replace(
            self.comparison,
            models=tuple(models.values()),
            files=tuple(file for file in self.comparison.files if file.name in kept),
        )
        left = len(self.comparison.systems) - len(comparison.systems)
        if not left:
            return self
        note = f"{left:,} more {'system is' if left == 1 else 'systems are'} not listed here: --json has all"
        comparison = dataclasses.replace(comparison, notes=(*comparison.notes, note))
        answers = (Answer(models[id(each.model)], shown[id(each.group)], each.verdict) for each in self.answers)
        return Report(comparison, tuple(answers))


def _first(group: Group, most: int) -> Group:
    """Return a group with its first systems and its baseline."""
    kept = [system for number, system in enumerate(group.systems) if number < most or system is group.baseline]
    indices = [number for number, system in enumerate(group.systems) if number < most or system is group.baseline]
    ids = set(map(id, kept))
    settings = [
        dataclasses.replace(row, values=tuple(row.values[index] for index in indices)) for row in group.settings
    ]
    return dataclasses.replace(
        group,
        systems=tuple(kept),
        pairs=tuple(pair for pair in group.pairs if id(pair.system) in ids),
        settings=tuple(settings),
    )


def report(comparison: Comparison) -> Report:
    """Return a comparison with the verdict on each group of systems."""
    answers = (Answer(model, group, _verdict(group)) for model in comparison.models for group in model.groups)
    return Report(comparison, tuple(answers))


def _verdict(group: Group) -> Verdict:
    steps = recommendations.next_steps(group)
    if len(group.systems) == 1:
        (system,) = group.systems
        return Verdict(_headline_single(system), next_steps=steps if system.exclusion else (), standing="single")
    excluded = tuple(_excluded(group))
    if group.leaders is None:
        return Verdict(excluded[0], "", excluded[1:], group.caveats, steps)
    count = 1 + sum(pair.ratio is not None for pair in group.pairs)
    headline, certainty, standing = _headline(group.leaders, count)
    return Verdict(headline, certainty, excluded, group.caveats, steps, standing)


def _headline(pair: Pair, count: int) -> tuple[str, str, str]:
    """Return the headline for the fastest two of so many systems, the ratio with its interval, and how sure it is."""
    ratio, faster, slower = pair.speedup, pair.faster, pair.slower
    assert ratio is not None
    per_gpu = " per GPU" if {system.run.platform for system in (faster, slower)} != {"cpu"} else ""
    rank = "" if count == 2 else f", the second fastest of {count}"
    runs = _runs_text(faster, slower)
    if ratio.low is None or ratio.high is None:
        certainty = f"{units.times(ratio.value)}, {runs}: run-to-run variation unknown"
        if ratio.segments:
            return _headline_segments(pair, per_gpu) + rank, certainty, "unknown"
        return f"{faster.name} is {_faster(ratio.value, per_gpu)} {slower.name}{rank}", certainty, "unknown"
    value, low, high = _with_bounds(ratio.value, ratio.low, ratio.high)
    kind = "prediction interval" if ratio.method == "prediction" else "CI"
    certainty = f"{value}× [95% {kind} {low}–{high}], {runs}"
    if ratio.method == "prediction":
        certainty += "; assumes equal run-to-run variation"
    preliminary = min(len(faster.valid_runs), len(slower.valid_runs)) == 2
    if not ratio.is_significant:
        note = f" ({counted(2, 'run')} each, preliminary)" if preliminary and runs == "2 runs each" else ""
        return f"No significant difference between {faster.name} and {slower.name}{rank}{note}", certainty, "none"
    headline = f"{faster.name} is {_faster(ratio.value, per_gpu)} {slower.name}{rank}"
    return (
        (f"Preliminary: {headline}", certainty, "preliminary") if preliminary else (headline, certainty, "significant")
    )


def _faster(value: float, per_gpu: str) -> str:
    """Return by how much, as the words between two names."""
    if value >= DOUBLE:
        return f"{value:.1f}× as fast{per_gpu} as"
    if value - 1 < 0.0005:
        return "as fast as"
    gain = 100 * (value - 1)
    return f"{gain:.0f}% faster{per_gpu} than" if gain >= 10 else f"{gain:.1f}% faster{per_gpu} than"


def _headline_segments(pair: Pair, per_gpu: str) -> str:
    """Return the headline where a speed changes and no interval says by how much runs differ."""
    assert pair.speedup is not None
    faster, slower = pair.faster, pair.slower
    values = sorted(segment.value for segment in pair.speedup.segments)
    low, high = values[0], values[-1]
    changes = [
        f"{system.name} {'sped up' if after.mean < before.mean else 'slowed down'} at step {after.first_step}"
        for system in (faster, slower)
        for before, after in zip(system.segments, system.segments[1:2], strict=False)
    ]
    if low < 1 or high >= DOUBLE:
        gain = f"{_factor(low)}–{_factor(high)}× as fast{per_gpu} as"
    else:
        gain = f"{'–'.join(dict.fromkeys(f'{100 * (value - 1):.0f}' for value in (low, high)))}% faster{per_gpu} than"
    return f"{faster.name} is {gain} {slower.name}; {join_names(changes)}"


def _is_pair(group: Group) -> bool:
    """Return whether a group is two systems that are compared: of several models, a row in one answer."""
    return len(group.systems) == 2 and group.leaders is not None


def _headline_models(answers: Sequence[tuple[Group, Verdict]]) -> str:
    """Return one headline for two systems that trained several models."""
    count = len(answers)
    leaders = [(group.leaders, answer.standing) for group, answer in answers if group.leaders is not None]
    decided = [pair.faster.name for pair, standing in leaders if standing in ("significant", "preliminary")]
    if not decided and any(standing == "none" for _, standing in leaders):
        names = list(dict.fromkeys(system.name for group, _ in answers for system in group.systems))
        return f"No significant difference between {join_names(names)} in any of {count} models"
    faster = decided or [pair.faster.name for pair, _ in leaders]
    wins = {name: faster.count(name) for name in dict.fromkeys(faster)}
    text = "; ".join(f"{name} is faster in {number} of {count} models" for name, number in wins.items())
    if not decided:
        return f"{text} (run-to-run variation unknown)"
    rest = count - len(decided)
    return f"{text}; undecided in {rest}" if rest else text


def _headline_single(system: SystemResult) -> str:
    name, step = system.name, system.value("avg_step_time_seconds")
    if step is None:
        return f"Only one system found ({name}), and its run {system.exit_summary}"
    if system.exclusion is not None:
        return f"Only one system found ({name}), and it is excluded: {system.exclusion.text}"
    speed = (
        f"{rate_of(system)} {rate_unit([system])}"
        if system.value(RATE) is not None
        else f"{units.seconds(step)} a step"
    )
    return f"Only one system found ({name}, {speed}); add a second result to compare"


def _excluded(group: Group) -> list[str]:
    """Return a sentence for each reason why systems are not compared."""
    names: dict[str, list[str]] = {}
    for pair in group.pairs:
        if not pair.ratio:
            names.setdefault(pair.reason or "", []).append(pair.system.name)
    return [
        f"Not compared: {reason}"
        if reason.startswith(tuple(systems)) or len(group.systems) == 2
        else f"Not compared: {join_names(systems)} with {group.baseline.name}: {reason}"
        for reason, systems in names.items()
    ]


def _runs_text(faster: SystemResult, slower: SystemResult) -> str:
    first, second = len(faster.valid_runs), len(slower.valid_runs)
    return f"{counted(first, 'run')} each" if first == second else f"{counted(first, 'run')} vs {second}"


def speedup_text(ratio: Ratio | None) -> str:
    """Return a speedup as a table shows it, with its interval."""
    if ratio is None:
        return units.UNKNOWN
    if ratio.low is None or ratio.high is None:
        return units.times(ratio.value)
    value, low, high = _with_bounds(ratio.value, ratio.low, ratio.high)
    return f"{value}× [{low}–{high}]"


def _with_bounds(value: float, low: float, high: float) -> tuple[str, str, str]:
    """Return a ratio and its bounds as text, with as many decimals as it takes to distinguish the bounds."""
    digits = next((digits for digits in (2, 3) if f"{low:.{digits}f}" != f"{high:.{digits}f}"), 4)
    if high - low < 0.02:
        digits = max(digits, 3)
    return f"{value:.{digits}f}", f"{low:.{digits}f}", f"{high:.{digits}f}"


def _factor(ratio: float) -> str:
    return units.times(ratio).removesuffix("×")


def cost_sentence(cost: PairCost, prices: Mapping[str, Price]) -> str:
    """Return which system costs less per token, with the price of each next to its name; and the break-even price."""
    faster, slower = cost.pair.faster.name, cost.pair.slower.name
    if cost.cheaper is None or cost.saving is None or cost.break_even_price is None:
        if faster in prices and slower in prices:
            given = f"{faster} at {prices[faster]} and {slower} at {prices[slower]} per GPU-hour"
            return f"cost per token is a tie within the uncertainty: {given}"
        below = _span([f"{each:.2f}" for each in cost.break_even])
        return f"{faster} is cheaper per token below {below}× the price of {slower}"
    cheaper, dearer = cost.cheaper.name, cost.dearer.name
    saving = _span([f"{100 * each:.0f}" for each in cost.saving])
    price = _span([f"${each:.2f}" for each in cost.break_even_price])
    return (
        f"{cheaper} at {prices[cheaper]} is {saving}% cheaper per token than {dearer} at {prices[dearer]}; "
        f"break-even price of {dearer}: {price} per GPU-hour"
    )


def _span(bounds: Sequence[str]) -> str:
    """Return two bounds as text; once where they are equal."""
    return "–".join(dict.fromkeys(bounds))
