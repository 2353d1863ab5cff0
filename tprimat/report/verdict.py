"""The verdict as text: speedup, certainty, caveats."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from tprimat import units
from tprimat.analysis.intervals import Method, level
from tprimat.analysis.summary import SHORT
from tprimat.compare import Caveat, Comparison, Group, ModelComparison, Pair, Ratio, SystemResult
from tprimat.compare.caveats import contradictions, incomplete
from tprimat.compare.cost import SAME, cost
from tprimat.compare.curves import Scaling
from tprimat.compare.result import DOUBTFUL_SPREAD
from tprimat.compare.speedup import kind_of_device
from tprimat.notes import SYSTEM, Note
from tprimat.notes.catalogue import safe_sentences, sentence, words
from tprimat.report import recommendations
from tprimat.report.blocks import Distinct
from tprimat.report.costs import cost_sentence, percent, span
from tprimat.report.rates import RATE, Systems, rate_of, rate_unit, why_untimed, work_of
from tprimat.results.account import Clock
from tprimat.text import capitalized, counted, join_names, plain

METHODS: Mapping[Method, str] = {
    "welch": f"{level()} CI of the ratio of the runs' geometric means (Welch's t on logarithms)",
    "paired": f"{level()} CI of the mean ratio of each round's two runs (paired t on logarithms)",
    "prediction": (
        f"{level()} prediction interval, which assumes equal run-to-run variation of both"
    ),
}
"""Explanations of the intervals, by method."""

CLOCKS: Mapping[Clock, str] = {
    "timer": "a step timer",
    "sampled": "single sampled steps",
    "partial": "a timer of parts of the steps",
    "stamps": "time stamps of records",
    "blocks": "wall time of training",
}
"""The names in headlines of what measures step times."""

_WORDS = re.compile(
    r"(?:micro-batch|batch|gradient|tensor|pipeline|context|expert|data|multi-token|optimizer|learning|weight|no|full"
    r"|selective|training|run|seed|driver) (?!is )"
)
"""The beginnings of system names that are plain English and may be capitalized; labels, packages
and identifiers keep their spelling.
"""

DOUBLE = 2.0
"""Speedup from which on a sentence says “2.0× as fast”; below it, “50% faster”."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The answer for a group of systems.

    Attributes:
        headline: one sentence without its period: which system is faster, and by how much; or why
            there is no answer.
        certainty: the speedup with its interval, and the number of runs; empty if nothing is
            compared.
        excluded: the systems that are not compared, one sentence for each reason.
        caveats: what could change the answer, those with the greatest effect first.
        next_steps: what would make it more certain, the most useful first.
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
        """The model, with what distinguishes the work from that of the model's other answers."""
        if len(self.model.groups) > 1:
            return self.group.title
        return self.model.short_title


@dataclasses.dataclass(frozen=True)
class Report:
    """What every report shows: a comparison, answers in the order of models and groups, and the
    scaling if it is requested (else None).
    """

    comparison: Comparison
    answers: tuple[Answer, ...]
    scaling: Scaling | None = None

    @property
    def headline(self) -> str:
        """The common headline for two systems that trained several models; empty if each group has
        its own headline.
        """
        pairs = set()
        models = set()
        for answer in self.answers:
            if len(answer.group.systems) != 2 or not answer.group.leaders:
                return ""
            pairs.add(frozenset(system.name for system in answer.group.systems))
            models.add(answer.model)
        if len(pairs) != 1 or not 1 < len(models) == len(self.answers):
            return ""
        return _headline_models(self.answers)

    @property
    def systems(self) -> str:
        """The names of the systems for a title, those of the first answer first."""
        names: Distinct = {}
        for answer in self.answers:
            names |= dict.fromkeys(plain(system.name) for system in answer.model.systems)
        if len(names) < 3:
            return " vs ".join(names)
        return join_names(list(names), 3)

    def of(self, answer: Answer) -> Report:
        """Return a report with only one of the answers."""
        model = dataclasses.replace(answer.model, groups=(answer.group,))
        comparison = dataclasses.replace(self.comparison, models=(model,))
        return Report(comparison, (dataclasses.replace(answer, model=model),))

    def shortened(self, most: int) -> Report:
        """Return the report with only the `most` fastest systems of each group, and the
        baseline.
        """
        groups = {}
        models = {}
        for model in self.comparison.models:
            for group in model.groups:
                groups[group] = _first(group, most)
            kept = tuple(groups[group] for group in model.groups)
            models[model] = dataclasses.replace(model, groups=kept)
        comparison = dataclasses.replace(self.comparison, models=tuple(models.values()))
        left = len(self.comparison.systems) - len(comparison.systems)
        if not left:
            return self
        names = set()
        paths = set()
        for system in comparison.systems:
            names.add(system.name)
            paths |= {result.file for result in system.runs}
        are = "system is" if left == 1 else "systems are"
        comparison = dataclasses.replace(
            comparison,
            files=tuple(file for file in comparison.files if file.name in paths),
            system_names=tuple(name for name in comparison.system_names if name in names),
            notes=(*comparison.notes, Note("systems-not-listed", {"systems": left, "are": are})),
        )
        answers = []
        for answer in self.answers:
            answers.append(Answer(models[answer.model], groups[answer.group], answer.verdict))
        return Report(comparison, tuple(answers), self.scaling)


def _first(group: Group, most: int) -> Group:
    is_kept = []
    for number, system in enumerate(group.systems):
        is_kept.append(number < most or system is group.baseline)
    systems = tuple(itertools.compress(group.systems, is_kept))
    pairs = tuple(pair for pair in group.pairs if pair.system in systems)
    settings = []
    for row in group.settings:
        values = tuple(itertools.compress(row.values, is_kept))
        settings.append(dataclasses.replace(row, values=values))
    return dataclasses.replace(group, systems=systems, pairs=pairs, settings=tuple(settings))


def report(comparison: Comparison) -> Report:
    """Return a comparison with the verdict on each group of systems."""
    names = {system.full_name for system in comparison.systems}
    answers = []
    for model in comparison.models:
        elsewhere = names - {system.full_name for system in model.systems}
        for group in model.groups:
            answers.append(Answer(model, group, _verdict(group, elsewhere)))
    return Report(comparison, tuple(answers))


def _verdict(group: Group, elsewhere: Collection[str]) -> Verdict:
    """Return the verdict on a group; `elsewhere` are systems that trained only other models."""
    steps = recommendations.next_steps(group)
    if len(group.systems) == 1:
        return _verdict_single(group, elsewhere, steps)
    excluded = tuple(_excluded(group))
    if group.leaders is None:
        return Verdict(excluded[0], "", excluded[1:], group.caveats, steps)
    headline, certainty, standing = _headline(group, group.leaders)
    if _WORDS.match(headline):
        headline = capitalized(headline)
    if standing != "unsettled":
        short = [pair.system.name for pair in group.pairs if pair.ratio and pair.is_unsettled]
        if short:
            excluded += (f"Too short to compare {join_names(short)}: no steady speed",)
        start = _assumed_start(group.leaders)
        if start is not None:
            headline += f", if the start-up was over by step {max(start, 1)}"
    if len(group.leaders.clocks) > 1:
        clocks = " vs ".join(CLOCKS[clock] for clock in group.leaders.clocks)
        headline += f"; but they are timed differently: {clocks}"
    headline += _contradicted([group.leaders])
    return Verdict(headline, certainty, excluded, group.caveats, steps, standing)


def _verdict_single(group: Group, elsewhere: Collection[str], steps: tuple[str, ...]) -> Verdict:
    """Return the verdict on a single system; it has next steps only if a value is missing."""
    (system,) = group.systems
    texts = [_headline_single(system, elsewhere)]
    texts += [words(contradiction.note) for contradiction in contradictions(system)]
    if (
        not system.is_untimed
        and system.exclusion is None
        and (not elsewhere or system.run.model is not None)
    ):
        steps = ()
    return Verdict("; but ".join(texts), "", (), group.caveats, steps, "single")


def _contradicted(pairs: Sequence[Pair]) -> str:
    """Return the end of a headline that names the systems whose own values contradict each other;
    empty if there are none.
    """
    names: Distinct = {}
    for pair in pairs:
        for system in (pair.faster, pair.slower):
            if contradictions(system):
                names[system.name] = None
    if names:
        return f"; but values of {join_names(list(names))} contradict each other"
    return ""


def _headline(group: Group, pair: Pair) -> tuple[str, str, str]:
    """Return the headline for the leaders of a group, their ratio with its interval, and the
    standing of the verdict.
    """
    ratio = pair.ratio
    assert ratio is not None
    if pair.is_unsettled:
        return (*_headline_unsettled(pair, units.times(ratio.value)), "unsettled")
    runs = _runs_of(pair)
    rank = _rank(group, pair.baseline)
    equal = f"No significant difference between {pair.system.name} and {pair.baseline.name}{rank}"
    if ratio.unresolved:
        least = f"{100 * ratio.unresolved:.1f}%"
        certainty = f"{runs}: their time stamps settle no difference below {least}"
        return equal, f"{units.times(ratio.value)}, {certainty}", "none"
    if ratio.low is None or ratio.high is None:
        certainty = f"{measured(pair, ratio)}: run-to-run variation unknown"
        return _ranked(group, pair, rank), certainty, "unknown"
    value, low, high = _with_bounds(ratio.value, ratio.low, ratio.high)
    kind = "prediction interval" if ratio.method == "prediction" else "CI"
    certainty = f"{value}× [{level()} {kind} {low}–{high}], {runs}"
    if not ratio.is_significant:
        return equal, certainty, "none"
    headline = _ranked(group, pair, rank)
    if min(len(pair.system.valid_runs), len(pair.baseline.valid_runs)) == 2:
        return f"Preliminary: {headline}", certainty, "preliminary"
    return headline, certainty, "significant"


def measured(pair: Pair, ratio: Ratio) -> str:
    """Return the ratio of a pair without an interval, and the number of runs."""
    runs = _runs_of(pair)
    if 1 < pair.steps[1] < SHORT:
        runs += f" ({_steps_of(pair)} steps)"
    return f"{units.times(ratio.value)}, {runs}"


def _headline_unsettled(pair: Pair, times: str) -> tuple[str, str]:
    """Return the headline for two systems of which one is too short to compare, and their ratio."""
    names = f"{pair.system.name} and {pair.baseline.name}"
    if pair.lacks is not None:
        few = f"too few {pair.lacks}"
        runs = f"{_runs_of(pair).replace(' each', '')} of {_steps_of(pair)} steps each"
        return f"{few.capitalize()} to compare {names}", f"{times}, {runs}: {few}"
    whose = join_names(
        [system.name for system in (pair.system, pair.baseline) if system.is_unsettled]
    )
    return (
        f"Too short to compare {names}: no steady speed in {whose}",
        f"{times} over the second half of the runs, which may be start-up",
    )


def _runs_of(pair: Pair) -> str:
    first = len(pair.system.valid_runs)
    second = len(pair.baseline.valid_runs)
    if first == second:
        return f"{counted(first, 'run')} each"
    return f"{first} vs {second} runs"


def _steps_of(pair: Pair) -> str:
    return span([f"{count:,}" for count in pair.steps])


def _rank(group: Group, baseline: SystemResult) -> str:
    """Return the words after the name of the baseline; empty if only two systems are compared."""
    compared = {baseline, *(pair.system for pair in group.pairs if pair.ratio)}
    if len(compared) == 2:
        return ""
    ranked = [system for system in group.systems if system in compared]
    rank = ranked.index(baseline)
    vendor = baseline.vendor
    is_its_fastest = all(system.vendor != vendor for system in ranked[:rank])
    if vendor and ranked[0].vendor not in (None, vendor) and is_its_fastest:
        return f", the fastest of {vendor}"
    if rank == 0:
        return f", the fastest of {len(ranked)}"
    if rank == 1:
        return f", the second fastest of {len(ranked)}"
    return ", the baseline"


def _ranked(group: Group, pair: Pair, rank: str) -> str:
    """Return how much faster than the baseline a system is, and how much faster than the second
    fastest system if that is another one.
    """
    assert pair.ratio is not None
    second = group.runner_up
    text = f"{_gain(pair.system, pair.baseline, pair.ratio.estimates)}{rank}"
    if second is not None and second.ratio is not None:
        if second.ratio.is_significant is False:
            return f"{text}; no significant difference from {second.baseline.name}"
        over_baseline = _gain_over(pair.system, pair.baseline, pair.ratio.estimates)
        over_second = _gain_over(
            second.system, second.baseline, [second.ratio.value], says_per=False
        )
        text = f"{pair.system.name} is the fastest: {over_baseline}{rank}; {over_second}"
    if pair.ratio.low is None and pair.ratio.segments:
        text = f"{text}; {_changes(pair)}"
    return text


def _assumed_start(pair: Pair) -> int | None:
    """Return the last step by which the start-up must have ended in runs of either system that are
    too short to show it; None if they all show it.
    """
    starts = []
    for run in (*pair.system.valid_runs, *pair.baseline.valid_runs):
        if run.summary.assumed_start is not None:
            starts.append(run.summary.assumed_start)
    return min(starts, default=None)


def _gain(system: SystemResult, baseline: SystemResult, values: Sequence[float]) -> str:
    return f"{system.name} is {_gain_over(system, baseline, values)}"


def _gain_over(
    system: SystemResult, baseline: SystemResult, values: Sequence[float], *, says_per: bool = True
) -> str:
    kind = kind_of_device((system, baseline))
    # With equal numbers of processes, the system that is faster per process is faster as a whole.
    # Steps are those of all GPUs together.
    is_as_whole = (kind == "process" and system.count == baseline.count) or system.unit == "steps"
    per = f" per {kind}" if says_per and not is_as_whole else ""
    return f"{gain(values, per)} {baseline.name}"


def gain(values: Sequence[float], per: str) -> str:
    """Return a ratio, or the span of several, as the words between two systems, such as "14% faster
    per GPU than".
    """
    low = min(values)
    high = max(values)
    if high <= 1 - SAME:
        digits = 0 if low <= 0.9 else 1
        share = span([f"{100 * (1 - high):.{digits}f}", f"{100 * (1 - low):.{digits}f}"])
        return f"{share}% slower{per} than"
    if low < 1 - SAME:
        times = span([units.times(value).removesuffix("×") for value in (low, high)])
        return f"{times}× as fast{per} as"
    if high >= DOUBLE:
        return f"{span([f'{low:.1f}', f'{high:.1f}'])}× as fast{per} as"
    if high - 1 < SAME:
        return "as fast as"
    digits = 0 if high >= 1.1 else 1
    share = span([f"{100 * (low - 1):.{digits}f}", f"{100 * (high - 1):.{digits}f}"])
    return f"{share}% faster{per} than"


def _changes(pair: Pair) -> str:
    """Return where the speeds of two systems change, for a ratio without an interval."""
    changes = []
    for system in (pair.system, pair.baseline):
        if len(system.segments) > 1:
            before, after = system.segments[:2]
            how = "sped up" if after.mean < before.mean else "slowed down"
            changes.append(f"{system.name} {how} at step {after.first_step}")
    return join_names(changes)


def _headline_models(answers: Sequence[Answer]) -> str:
    leaders = []
    settled = []
    decided = []
    standings = set()
    starts = []
    names: Distinct = {}
    for answer in answers:
        names |= dict.fromkeys(system.name for system in answer.group.systems)
        pair = answer.group.leaders
        if pair is None:
            continue
        standing = answer.verdict.standing
        leaders.append(pair)
        standings.add(standing)
        if standing != "unsettled":
            settled.append(pair)
            start = _assumed_start(pair)
            if start is not None:
                starts.append(start)
        if standing in ("significant", "preliminary"):
            decided.append(pair)
    both = join_names(list(names))
    if not settled:
        return f"Too short to compare {both} in any of {len(leaders)} models"
    end = ""
    if len(settled) < len(leaders):
        end = f"; too short to compare in {len(leaders) - len(settled)}"
    doubt = _contradicted(leaders)
    if not decided and "none" in standings:
        equal = f"No significant difference between {both} in any of {len(settled)} models"
        return f"{equal}{end}{doubt}"
    if starts:
        end += f", if the start-up was over by step {max(min(starts), 1)}"
    won: dict[str, list[Pair]] = {}
    for pair in decided or settled:
        won.setdefault(pair.faster.name, []).append(pair)
    text = "; ".join(_headline_wins(pairs, len(leaders)) for pairs in won.values())
    if any(len(pair.clocks) > 1 for pair in leaders):
        text += "; but not all are timed by one clock"
    if not decided:
        return f"{text}; run-to-run variation unknown{end}{doubt}"
    if "preliminary" in standings:
        text = f"Preliminary: {text}"
    if len(settled) > len(decided):
        text += f"; no significant difference in {len(settled) - len(decided)}"
    return f"{text}{end}{doubt}"


def _headline_wins(pairs: Sequence[Pair], models: int) -> str:
    """Return by how much one of two systems is faster, in these pairs out of `models` models."""
    values: list[float] = []
    for pair in pairs:
        if pair.speedup:
            values += pair.speedup.estimates
    where = f"in {len(pairs)} of {models} models"
    if len(pairs) == models:
        where = "in both models" if models == 2 else f"in all {models} models"
    return f"{_gain(pairs[0].faster, pairs[0].slower, values)} {where}"


def _headline_single(system: SystemResult, elsewhere: Collection[str]) -> str:
    name = system.name
    step = system.value("avg_step_time_seconds")
    if system.is_untimed:
        return f"Only one system found ({name}), which {why_untimed(system)}"
    if system.exclusion is not None:
        return f"Only one system found ({name}), and it is excluded: {words(system.exclusion.note)}"
    speed = f"{units.seconds(step)} a step"
    if system.value(RATE) is not None:
        speed = f"{rate_of(system)} {rate_unit([system])}"
        if system.has_printed_rate:
            speed += " printed by the source"
    speed = ", ".join([speed, *safe_sentences(incomplete(system))])
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


RATE_UNKNOWN = frozenset(
    {
        "rate-unknown",
        "rate-without-batch",
        "rate-contradicted",
        "rate-without-sizes",
        "rate-without-gpus",
        "rate-without-times",
    }
)
"""Codes of reasons that say which system's rate is unknown, and why."""


def _excluded(group: Group) -> Iterator[str]:
    """Yield why systems aren't compared, a sentence for each reason."""
    names: dict[str, list[str]] = {}
    named = set()
    for pair in group.pairs:
        if not pair.ratio:
            reasons = []
            for note in pair.reasons:
                is_own = note.fields.get(SYSTEM) == pair.system.name
                if is_own and note.code in RATE_UNKNOWN and len(group.pairs) > 1:
                    # The system is named before.
                    note = Note(note.code, {**note.fields, SYSTEM: None})
                reasons.append(note)
            reason = sentence(reasons)
            names.setdefault(reason, []).append(pair.system.name)
            if reasons[0].fields.get(SYSTEM) == pair.system.name:
                named.add(reason)
    for reason, systems in names.items():
        if reason in named or len(group.systems) == 2:
            yield f"Not compared: {reason}"
        else:
            yield f"Not compared: {join_names(systems)} with {group.baseline.name}: {reason}"


def in_brief(note: Note) -> Note:
    """Return a reason without its explanation, for a row that has no room for it."""
    if note.code in RATE_UNKNOWN:
        return Note("rate-unknown", note.fields)
    if note.code in ("shapes-differ", "untimed"):
        return Note(note.code, {**note.fields, "conflict": None, "reason": None})
    return note


def speedup_text(ratio: Ratio | None) -> str:
    """Return a speedup as a table shows it, with its interval."""
    if ratio is None:
        return units.UNKNOWN
    if ratio.low is None or ratio.high is None:
        return units.times(ratio.value)
    value, low, high = _with_bounds(ratio.value, ratio.low, ratio.high)
    return f"{value}× [{low}–{high}]"


def _with_bounds(value: float, low: float, high: float) -> tuple[str, str, str]:
    """Return a ratio and its bounds as text, with enough decimals to distinguish the bounds.

    1.143 with 1.136 and 1.150 has three, as its bounds are less than 0.02 apart; 12.3 with 11.9 and
    12.8 has one.
    """
    digits = 2
    while digits < 4 and f"{low:.{digits}f}" == f"{high:.{digits}f}":
        digits += 1
    if high - low < 0.02:
        digits = max(digits, 3)
    elif low >= 10:
        digits = 1
    return f"{value:.{digits}f}", f"{low:.{digits}f}", f"{high:.{digits}f}"


def cost_texts(
    comparison: Comparison, answers: Sequence[Answer], *, is_brief: bool = False
) -> list[str]:
    """Return which system costs least per token in each answer; a single sentence if it is the same
    system in several models.

    Brief texts omit the prices.
    """
    text = _cost_of_all(comparison, answers)
    if text:
        return [text]
    texts = []
    for answer in answers:
        text = _cost_text(comparison, answer.group, is_brief)
        if text:
            texts.append(text if len(answers) == 1 else f"{answer.group.title}: {text}")
    return texts


def _cost_of_all(comparison: Comparison, answers: Sequence[Answer]) -> str:
    """Return a sentence on which of two systems is cheaper for all models; empty if it isn't the
    same one for all.
    """
    names = set()
    savings: list[float] = []
    systems: list[SystemResult] = []
    for answer in answers:
        pair_cost = answer.group.leaders and cost(comparison, answer.group.leaders)
        if not pair_cost or not pair_cost.cheaper or not pair_cost.saving:
            return ""
        names.add((pair_cost.cheaper.name, pair_cost.dearer.name))
        savings += pair_cost.saving
        systems += answer.group.systems
    if len(answers) < 2 or len(names) > 1:
        return ""
    cheaper, dearer = names.pop()
    amount = span([percent(min(savings)), percent(max(savings))])
    prices = comparison.prices
    models = "both models" if len(answers) == 2 else f"all {len(answers)} models"
    return (
        f"{cheaper} at {prices[cheaper]} is {amount}% cheaper per {work_of(systems).noun} than"
        f" {dearer} at {prices[dearer]} in {models}"
    )


def _cost_text(comparison: Comparison, group: Group, is_brief: bool) -> str:
    """Return which leader of a group costs less per token, and which other system costs least;
    empty if unknown.
    """
    if group.leaders is None or group.leaders.is_unsettled:
        return ""
    pairs = {pair.system.name: pair for pair in group.pairs if pair.ratio}
    leader = group.leaders.system.name
    shown = [pairs[leader]]
    ranked = _cheapest_first(
        comparison, [group.baseline, *(pair.system for pair in pairs.values())]
    )
    base = group.baseline.name
    if base in ranked and len(ranked) > 1:
        # Pairs have a ratio to the baseline only.
        if ranked[0] not in (base, leader):
            shown.append(pairs[ranked[0]])
        elif ranked[0] == base and leader not in ranked:
            shown.append(pairs[ranked[1]])
    names = [system.name for system in group.systems] if is_brief else []
    texts = []
    for pair in shown:
        pair_cost = cost(comparison, pair)
        if pair_cost:
            texts.append(cost_sentence(pair_cost, comparison.prices, names))
    return "; ".join(texts)


def _cheapest_first(comparison: Comparison, systems: Systems) -> list[str]:
    """Return the names of the systems whose cost per token is known, the cheapest first."""
    costs = {}
    for system in systems:
        price = comparison.prices.get(system.name)
        speed = system.value(RATE)
        if price and speed:
            costs[system.name] = price.cost(1 / speed)
    return sorted(costs, key=lambda name: costs[name])
