"""The verdict as text: speedup, certainty, caveats."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Collection, Mapping, Sequence

from tprimat import units
from tprimat.analysis.intervals import Method, level
from tprimat.analysis.summary import SHORT
from tprimat.compare import Caveat, Comparison, Group, ModelComparison, Pair, Ratio, SystemResult
from tprimat.compare.caveats import contradictions, incomplete_text
from tprimat.compare.cost import SAME, cost
from tprimat.compare.curves import Scaling
from tprimat.compare.result import DOUBTFUL_SPREAD
from tprimat.compare.speedup import kind_of_device
from tprimat.report import recommendations
from tprimat.report.costs import cost_sentence, percent, span
from tprimat.report.rates import RATE, rate_of, rate_unit, work_of
from tprimat.results.account import Clock
from tprimat.text import capitalized, counted, join_names, plain

METHODS: Mapping[Method, str] = {
    "welch": f"{level()} CI of the ratio of the runs' geometric means (Welch's t on logarithms)",
    "paired": f"{level()} CI of the mean ratio of each round's two runs (paired t on logarithms)",
    "prediction": (
        f"{level()} prediction interval, which assumes equal run-to-run variation of both"
    ),
}
"""What an interval is."""

CLOCKS: Mapping[Clock, str] = {
    "timer": "a step timer",
    "sampled": "single sampled steps",
    "partial": "a timer of parts of the steps",
    "stamps": "time stamps of records",
    "blocks": "wall time of training",
}
"""What measures step times, as a headline names it."""

_WORDS = re.compile(
    r"(?:micro-batch|batch|gradient|tensor|pipeline|context|expert|data|multi-token|optimizer|learning|weight|no|full"
    r"|selective|training|run|seed|driver) (?!is )"
)
"""How a name of a system begins that is plain English; labels, packages and identifiers keep their
spelling.
"""

DOUBLE = 2.0
"""From this speedup on a sentence says “2.0× as fast”; below, by how many percent faster."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The answer for a group of systems.

    Attributes:
        headline: one sentence without its period: which system is faster, and by how much; or why
            that isn't said.
        certainty: the speedup with its interval, and the runs that it rests on; empty if nothing is
            compared.
        excluded: the systems that are not compared, a sentence for each reason.
        caveats: what could overturn it, the weightiest first.
        next_steps: what would make it better, the most useful first.
        standing: "significant", "preliminary" (two runs of a system), "none" (no significant
            difference), "unknown" (run-to-run variation), "unsettled" (too little to compare),
            "excluded" (nothing could be compared) or "single" (one system).
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

    @property
    def title(self) -> str:
        """The model, with what tells the work from that of another answer on the same model."""
        if len(self.model.groups) > 1:
            return self.group.title
        return self.model.short_title


@dataclasses.dataclass(frozen=True)
class Report:
    """What every report shows: a comparison, answers in the order of models and groups, and scaling
    if asked for.
    """

    comparison: Comparison
    answers: tuple[Answer, ...]
    scaling: Scaling | None = None

    @property
    def headline(self) -> str:
        """One headline for two systems that trained several models; empty if each group has its
        own.
        """
        groups = [answer.group for answer in self.answers]
        if len(groups) < 2 or not all(
            len(group.systems) == 2 and group.leaders for group in groups
        ):
            return ""
        pairs = {frozenset(system.name for system in group.systems) for group in groups}
        if len(pairs) > 1 or len({answer.model for answer in self.answers}) < len(self.answers):
            return ""
        return _headline_models(self.answers)

    @property
    def systems(self) -> str:
        """The names of the systems for a title, those of the first answer first: the fastest, and
        who is beside it.
        """
        every = (system for answer in self.answers for system in answer.model.systems)
        names = list(dict.fromkeys(plain(system.name) for system in every))
        if len(names) < 3:
            return " vs ".join(names)
        return join_names(names, 3)

    def of(self, answer: Answer) -> Report:
        """Return the report on one of the answers alone."""
        model = dataclasses.replace(answer.model, groups=(answer.group,))
        comparison = dataclasses.replace(self.comparison, models=(model,))
        return Report(comparison, (dataclasses.replace(answer, model=model),))

    def shortened(self, most: int) -> Report:
        """Return the report with at most so many systems of each group: the fastest, and the
        baseline.
        """
        shown = {}
        for model in self.comparison.models:
            for group in model.groups:
                shown[group] = _first(group, most)
        models = {}
        for model in self.comparison.models:
            models[model] = dataclasses.replace(
                model, groups=tuple(shown[group] for group in model.groups)
            )
        systems = [system for model in models.values() for system in model.systems]
        kept = {result.file for system in systems for result in system.runs}
        names = {system.name for system in systems}
        comparison = dataclasses.replace(
            self.comparison,
            models=tuple(models.values()),
            files=tuple(file for file in self.comparison.files if file.name in kept),
            system_names=tuple(name for name in self.comparison.system_names if name in names),
        )
        left = len(self.comparison.systems) - len(comparison.systems)
        if not left:
            return self
        note = (
            f"{left:,} more {'system is' if left == 1 else 'systems are'} not listed; use --json"
            " for all"
        )
        comparison = dataclasses.replace(comparison, notes=(*comparison.notes, note))
        answers = (
            Answer(models[answer.model], shown[answer.group], answer.verdict)
            for answer in self.answers
        )
        return Report(comparison, tuple(answers), self.scaling)


def _first(group: Group, most: int) -> Group:
    is_kept = []
    for number, system in enumerate(group.systems):
        is_kept.append(number < most or system is group.baseline)
    kept = tuple(itertools.compress(group.systems, is_kept))
    ids = set(kept)
    pairs = tuple(pair for pair in group.pairs if pair.system in ids)
    settings = (
        dataclasses.replace(row, values=tuple(itertools.compress(row.values, is_kept)))
        for row in group.settings
    )
    return dataclasses.replace(group, systems=kept, pairs=pairs, settings=tuple(settings))


def report(comparison: Comparison) -> Report:
    """Return a comparison with the verdict on each group of systems."""
    names = {system.full_name for system in comparison.systems}
    answers = (
        Answer(
            model, group, _verdict(group, names - {system.full_name for system in model.systems})
        )
        for model in comparison.models
        for group in model.groups
    )
    return Report(comparison, tuple(answers))


def _verdict(group: Group, elsewhere: Collection[str]) -> Verdict:
    """Return the verdict on a group; `elsewhere` are systems that trained only other models."""
    steps = recommendations.next_steps(group)
    if len(group.systems) == 1:
        (system,) = group.systems
        untimed = system.value("avg_step_time_seconds") is None
        shown = (
            untimed
            or system.exclusion is not None
            or (bool(elsewhere) and system.run.model is None)
        )
        headline = "; but ".join(
            [
                _headline_single(system, elsewhere),
                *(contradiction.text for contradiction in contradictions(system)),
            ]
        )
        return Verdict(
            headline, caveats=group.caveats, next_steps=steps if shown else (), standing="single"
        )
    excluded = tuple(_excluded(group))
    if group.leaders is None:
        return Verdict(excluded[0], "", excluded[1:], group.caveats, steps)
    headline, certainty, standing = _headline(group, group.leaders)
    if _WORDS.match(headline):
        headline = capitalized(headline)
    if standing != "unsettled":
        short = [pair.system.name for pair in group.pairs if pair.ratio and pair.is_unsettled]
        excluded += (f"Too short to compare {join_names(short)}: no steady speed",) if short else ()
    if standing != "unsettled" and (assumed := _assumed_start(group.leaders)) is not None:
        headline += f", if the start-up was over by step {max(assumed, 1)}"
    if len(group.leaders.clocks) > 1:
        headline += (
            "; but they are timed differently:"
            f" {' vs '.join(CLOCKS[clock] for clock in group.leaders.clocks)}"
        )
    headline += _contradicted([group.leaders])
    return Verdict(headline, certainty, excluded, group.caveats, steps, standing)


def _contradicted(pairs: Sequence[Pair]) -> str:
    """Return whose own values contradict each other, for the end of a headline; empty if nobody's
    do.
    """
    systems = [system for pair in pairs for system in (pair.faster, pair.slower)]
    names = dict.fromkeys(system.name for system in systems if contradictions(system))
    if names:
        return f"; but values of {join_names(list(names))} contradict each other"
    return ""


def _headline(group: Group, pair: Pair) -> tuple[str, str, str]:
    """Return the headline for the leaders of a group, their ratio with its interval, and how sure
    it is.
    """
    ratio = pair.ratio
    system = pair.system
    baseline = pair.baseline
    assert ratio is not None
    first = len(system.valid_runs)
    second = len(baseline.valid_runs)
    runs = f"{counted(first, 'run')} each" if first == second else f"{first} vs {second} runs"
    if pair.is_unsettled:
        if pair.lacks is not None:
            steps = span([f"{count:,}" for count in pair.steps])
            few = f"too few {pair.lacks}"
            certainty = (
                f"{units.times(ratio.value)}, {runs.replace(' each', '')} of {steps} steps each:"
                f" {few}"
            )
            return (
                f"{few.capitalize()} to compare {system.name} and {baseline.name}",
                certainty,
                "unsettled",
            )
        whose = join_names([each.name for each in (system, baseline) if each.is_unsettled])
        text = f"Too short to compare {system.name} and {baseline.name}: no steady speed in {whose}"
        return (
            text,
            f"{units.times(ratio.value)} over the second half of the runs, which may be start-up",
            "unsettled",
        )
    rank = _rank(group, baseline)
    if ratio.unresolved:
        certainty = (
            f"{units.times(ratio.value)}, {runs}: their time stamps settle no difference below "
        )
        certainty += f"{100 * ratio.unresolved:.1f}%"
        return (
            f"No significant difference between {system.name} and {baseline.name}{rank}",
            certainty,
            "none",
        )
    if ratio.low is None or ratio.high is None:
        runs += (
            f" ({span([f'{count:,}' for count in pair.steps])} steps)"
            if 1 < pair.steps[1] < SHORT
            else ""
        )
        certainty = f"{units.times(ratio.value)}, {runs}: run-to-run variation unknown"
        return _ranked(group, pair, rank), certainty, "unknown"
    value, low, high = _with_bounds(ratio.value, ratio.low, ratio.high)
    kind = "prediction interval" if ratio.method == "prediction" else "CI"
    certainty = f"{value}× [{level()} {kind} {low}–{high}], {runs}"
    if not ratio.is_significant:
        return (
            f"No significant difference between {system.name} and {baseline.name}{rank}",
            certainty,
            "none",
        )
    headline = _ranked(group, pair, rank)
    if min(first, second) == 2:
        return f"Preliminary: {headline}", certainty, "preliminary"
    return headline, certainty, "significant"


def _rank(group: Group, baseline: SystemResult) -> str:
    """Return the words after the name of the baseline; empty if only two systems are compared."""
    compared = {baseline, *(pair.system for pair in group.pairs if pair.ratio)}
    ranked = [system for system in group.systems if system in compared]
    place = [system is baseline for system in ranked].index(True)
    if len(ranked) == 2:
        return ""
    vendor = baseline.vendor
    if (
        vendor
        and ranked[0].vendor not in (None, vendor)
        and all(each.vendor != vendor for each in ranked[:place])
    ):
        return f", the fastest of {vendor}"
    if place < 2:
        return f", the {('fastest', 'second fastest')[place]} of {len(ranked)}"
    return ", the baseline"


def _ranked(group: Group, pair: Pair, rank: str) -> str:
    """Return how much faster than the baseline a system is, and the fastest one than the second
    fastest.
    """
    assert pair.ratio is not None
    second = group.runner_up
    text = f"{_gain(pair.system, pair.baseline, pair.ratio.estimates)}{rank}"
    if second is not None and second.ratio is not None:
        if second.ratio.is_significant is False:
            return f"{text}; no significant difference from {second.baseline.name}"
        gain = _gain(second.system, second.baseline, [second.ratio.value], says_per=False)
        own = f"{pair.system.name} is "
        text = f"{own}the fastest: {text.removeprefix(own)}; {gain.removeprefix(own)}"
    if pair.ratio.low is None and pair.ratio.segments:
        text = f"{text}; {_changes(pair)}"
    return text


def _assumed_start(pair: Pair) -> int | None:
    """Return the last step that the start-up of either's runs may take if they are too short to
    show it.
    """
    runs = (*pair.system.valid_runs, *pair.baseline.valid_runs)
    return min(
        (each for run in runs if (each := run.summary.assumed_start) is not None), default=None
    )


def _gain(
    system: SystemResult, baseline: SystemResult, values: Sequence[float], *, says_per: bool = True
) -> str:
    kind = kind_of_device((system, baseline))
    # Of two CPUs with one process each, or two, what is faster per process is faster as a whole.
    # Steps are those of all GPUs together.
    is_as_whole = (kind == "process" and system.count == baseline.count) or system.unit == "steps"
    per = f" per {kind}" if says_per and not is_as_whole else ""
    return f"{system.name} is {gain(values, per)} {baseline.name}"


def gain(values: Sequence[float], per: str) -> str:
    """Return a ratio, or the span of several, as the words between two systems, such as "14% faster
    per GPU than".
    """
    low = min(values)
    high = max(values)
    if high <= 1 - SAME:
        return (
            f"{span([f'{100 * (1 - value):.{0 if low <= 0.9 else 1}f}' for value in (high, low)])}%"
            f" slower{per} than"
        )
    if low < 1 - SAME:
        return (
            f"{span([units.times(value).removesuffix('×') for value in (low, high)])}× as"
            f" fast{per} as"
        )
    if high >= DOUBLE:
        return f"{span([f'{value:.1f}' for value in (low, high)])}× as fast{per} as"
    if high - 1 < SAME:
        return "as fast as"
    return (
        f"{span([f'{100 * (value - 1):.{0 if high >= 1.1 else 1}f}' for value in (low, high)])}%"
        f" faster{per} than"
    )


def _changes(pair: Pair) -> str:
    """Return where the speed of two systems changes, if no interval says by how much runs
    differ.
    """
    changes = []
    for system in (pair.system, pair.baseline):
        for before, after in zip(system.segments, system.segments[1:2], strict=False):
            changes.append(
                f"{system.name} {'sped up' if after.mean < before.mean else 'slowed down'} at step"
                f" {after.first_step}"
            )
    return join_names(changes)


def _headline_models(answers: Sequence[Answer]) -> str:
    leaders = []
    for answer in answers:
        if answer.group.leaders is not None:
            leaders.append((answer.group.leaders, answer.verdict.standing))
    decided = [pair for pair, standing in leaders if standing in ("significant", "preliminary")]
    doubt = _contradicted([pair for pair, _ in leaders])
    names = join_names(
        list(dict.fromkeys(system.name for answer in answers for system in answer.group.systems))
    )
    settled = [(pair, standing) for pair, standing in leaders if standing != "unsettled"]
    if not settled:
        return f"Too short to compare {names} in any of {len(leaders)} models"
    if len(settled) < len(leaders):
        short = f"; too short to compare in {len(leaders) - len(settled)}"
    else:
        short = ""
    if not decided and any(standing == "none" for _, standing in settled):
        return (
            f"No significant difference between {names} in any of {len(settled)}"
            f" models{short}{doubt}"
        )
    if assumed := [step for pair, _ in settled if (step := _assumed_start(pair)) is not None]:
        short += f", if the start-up was over by step {max(min(assumed), 1)}"
    won: dict[str, list[Pair]] = {}
    for pair in decided or [pair for pair, _ in settled]:
        won.setdefault(pair.faster.name, []).append(pair)
    text = "; ".join(_headline_wins(pairs, len(leaders)) for pairs in won.values())
    if any(len(pair.clocks) > 1 for pair, _ in leaders):
        text += "; but not all are timed by one clock"
    if not decided:
        return f"{text}; run-to-run variation unknown{short}{doubt}"
    undecided = len(settled) - len(decided)
    if any(standing == "preliminary" for _, standing in leaders):
        preliminary = "Preliminary: "
    else:
        preliminary = ""
    return (
        f"{preliminary}{text}"
        + (f"; no significant difference in {undecided}" if undecided else "")
        + short
        + doubt
    )


def _headline_wins(pairs: Sequence[Pair], models: int) -> str:
    """Return by how much one of two systems is faster in these of so many models."""
    values = [value for pair in pairs if pair.speedup for value in pair.speedup.estimates]
    where = f"in {len(pairs)} of {models} models"
    if len(pairs) == models:
        where = "in both models" if models == 2 else f"in all {models} models"
    return f"{_gain(pairs[0].faster, pairs[0].slower, values)} {where}"


def _headline_single(system: SystemResult, elsewhere: Collection[str]) -> str:
    name = system.name
    step = system.value("avg_step_time_seconds")
    if step is None:
        return f"Only one system found ({name}), which {system.why_untimed}"
    if system.exclusion is not None:
        return f"Only one system found ({name}), and it is excluded: {system.exclusion.text}"
    speed = f"{units.seconds(step)} a step"
    if system.value(RATE) is not None:
        speed = f"{rate_of(system)} {rate_unit([system])}"
    speed = ", ".join(filter(None, [speed, incomplete_text(system)]))
    if system.spread >= DOUBTFUL_SPREAD and not system.is_one_session:
        return (
            f"Only one system found ({name}), but its runs differ {system.spread:.2f}×; if they"
            " belong to several configurations, name them: NAME=PATH"
        )
    files = len({result.file for result in system.runs})
    if files > 1:
        return (
            f"Only one system found ({name}, {speed}, {files} files); to compare files, use"
            " --baseline and --candidate"
        )
    if elsewhere:
        return (
            f"Only one system trained this model ({name}, {speed}); models are not compared with"
            " each other"
        )
    return f"Only one system found ({name}, {speed}); add a second result to compare"


def _excluded(group: Group) -> list[str]:
    names: dict[str, list[str]] = {}
    for pair in group.pairs:
        if not pair.ratio:
            reason = pair.reason or ""
            # Named before, where there are several.
            if len(group.pairs) == 1:
                reason = reason
            else:
                reason = reason.replace(f" of {pair.system.name} is", " is")
            names.setdefault(reason, []).append(pair.system.name)
    return [
        (
            f"Not compared: {reason}"
            if reason.startswith(tuple(systems)) or len(group.systems) == 2
            else f"Not compared: {join_names(systems)} with {group.baseline.name}: {reason}"
        )
        for reason, systems in names.items()
    ]


def speedup_text(ratio: Ratio | None) -> str:
    """Return a speedup as a table shows it, with its interval."""
    if ratio is None:
        return units.UNKNOWN
    if ratio.low is None or ratio.high is None:
        return units.times(ratio.value)
    value, low, high = _with_bounds(ratio.value, ratio.low, ratio.high)
    return f"{value}× [{low}–{high}]"


def _with_bounds(value: float, low: float, high: float) -> tuple[str, str, str]:
    """Return a ratio and its bounds as text, with as many decimals as it takes to distinguish the
    bounds.
    """
    digits = next((digits for digits in (2, 3) if f"{low:.{digits}f}" != f"{high:.{digits}f}"), 4)
    if high - low < 0.02:
        digits = max(digits, 3)
    elif low >= 10:
        digits = 1
    return f"{value:.{digits}f}", f"{low:.{digits}f}", f"{high:.{digits}f}"


def cost_texts(
    comparison: Comparison, answers: Sequence[Answer], *, is_brief: bool = False
) -> list[str]:
    """Return which system costs least per token in each answer; one sentence if it is the same in
    several models.

    A brief text has no prices.
    """
    found = [cost(comparison, answer.group.leaders) for answer in answers if answer.group.leaders]
    names = set()
    for each in found:
        names.add(
            (each.cheaper.name, each.dearer.name) if each and each.cheaper and each.saving else None
        )
    if len(answers) == len(found) > 1 and len(names) == 1 and None not in names:
        ((cheaper, dearer),) = filter(None, names)
        savings = [saving for each in found if each and each.saving for saving in each.saving]
        amount = span([percent(each) for each in (min(savings), max(savings))])
        prices = comparison.prices
        noun = work_of([system for answer in answers for system in answer.group.systems]).noun
        text = (
            f"{cheaper} at {prices[cheaper]} is {amount}% cheaper per {noun} than {dearer} at"
            f" {prices[dearer]}"
        )
        return [f"{text} in {'both' if len(found) == 2 else f'all {len(found)}'} models"]
    texts = []
    for answer in answers:
        texts.append((answer.group.title, _cost_text(comparison, answer.group, is_brief)))
    return [text if len(answers) == 1 else f"{title}: {text}" for title, text in texts if text]


def _cost_text(comparison: Comparison, group: Group, is_brief: bool) -> str:
    """Return which leader of a group costs less per token, and which other system costs least;
    empty if unknown.
    """
    if group.leaders is None or group.leaders.is_unsettled:
        return ""
    pairs = {pair.system.name: pair for pair in group.pairs if pair.ratio}
    costs = {
        system.name: price.cost(1 / speed)
        for system in (group.baseline, *(pair.system for pair in pairs.values()))
        if (price := comparison.prices.get(system.name)) and (speed := system.value(RATE))
    }
    shown = [group.leaders.system.name]
    base = group.baseline.name
    if base in costs and len(costs) > 1:
        least, *others = sorted(costs, key=lambda name: costs[name])
        # Pairs have a ratio to the baseline only.
        shown += [least] if least != base else others[:1] if shown[0] not in costs else []
    found = filter(None, (cost(comparison, pairs[name]) for name in dict.fromkeys(shown)))
    names = [system.name for system in group.systems] if is_brief else []
    return "; ".join(cost_sentence(each, comparison.prices, names) for each in found)
