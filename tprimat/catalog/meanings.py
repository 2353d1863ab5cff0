"""The meaning of a printed number by its label and its unit, shared by all that reads labels: texts
of no known format, rows of programs, tables and trackers.

A label is the text before a number, as `lr` in `lr: 3e-4`; a unit is the text behind it. Labels are
compared in lower case, with spaces instead of `_`, `-` and `.`, and divided at capital letters
(`TrainLoss` is `train loss`). The first row that matches counts, so special rows come first.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

STEP, MICRO_STEP, EPOCH = "step", "micro_step", "epoch"
TIME, INTERVAL, ELAPSED = "seconds", "interval_seconds", "elapsed_seconds"
STEP_RATE = "steps_per_second"
IGNORED = ""
"""The kind of a known label whose number isn't used, such as an ETA."""

EVALUATION = "evaluation"
"""A number of an evaluation, not of a training step."""

AVERAGED = "averaged"
"""A mean over an unknown number of records, which changes too slowly to be the value of one."""

RATES = frozenset((
    "tokens_per_second", "tokens_per_second_per_gpu", "samples_per_second", "samples_per_second_per_gpu",
))  # fmt: skip
TIMES = frozenset((TIME, INTERVAL, ELAPSED, STEP_RATE, *RATES))
"""Kinds that say how fast the steps are."""


class Meaning(NamedTuple):
    """A row of the table.

    Attributes:
        kind: name of the value in a record, or one of the kinds above.
        words: found in a normalized label that means it.
    """

    kind: str
    words: re.Pattern[str]


def _rows(*rows: tuple[str, str]) -> tuple[Meaning, ...]:
    return tuple(Meaning(kind, re.compile(words)) for kind, words in rows)


_STEP_WORD = r"(?:it|iter|iters|iteration|iterations|step|steps|batch|batches|update|updates)"
_PER = r" ?(?:/|per) ?"
_SECOND = r"(?:s|sec|secs|second|seconds)"
_DEVICE = r"(?:gpu|gpus|device|devices|dev|npu|chip|rank|card|worker|core)"
_TOKENS = r"(?:tok|toks|token|tokens|tk|tks|words|wrds)"
_SAMPLES = (
    r"(?:sample|samples|ins|example|examples|ex|exs|sentence|sentences|sents|sequence|sequences|seq|seqs"
    r"|image|images|imgs|img|frames|videos)"
)
_OF_DEVICE = rf"(?:{_PER}{_DEVICE}\b|\b(?:per|each|one) {_DEVICE}\b)"

MEANINGS = _rows(
    (EVALUATION, r"\b(?:val|valid|validation|eval|evaluation|evaluate|test|dev|cv)\b"),
    (
        IGNORED,
        r"\b(?:eta|remaining|left|to go|expected|estimated|skipped|nan iterations|scale|scaler"
        r"|weight decay|wd|seed|best|patience|clip|threshold|target|ratio|temperature|dropout"
        r"|pid|port|version|warmup|warm up|beta|beta1|beta2|eps|num params|parameters|params)\b",
    ),
    (IGNORED, r"\b(?:weight|param|parameter) norm$"),
    # Keras
    (IGNORED, rf"\b(?:us|ms|s)/{_SAMPLES}$"),
    (
        IGNORED,
        r"\b(?:total|max|num|number of|planned) (?:train |training |optimization )?(?:steps|iters"
        r"|iterations|epochs|batches)\b|\b(?:total|max) (?:num )?updates\b",
    ),
    (
        "num_gpus",
        r"\b(?:num|number|no)(?: of)? ?(?:gpus|devices)\b|\bworld ?size\b|^gpus$|^gpu count$",
    ),
    # A word for a mean makes any other label one.
    (AVERAGED, r"\b(?:avg|average|averaged|mean|smooth|smoothed|ema|running|moving|global avg)\b"),
    ("mfu_percent", r"\b(?:mfu|model flops utili[sz]ation)\b"),
    (IGNORED, r"\b(?:hfu|hardware (?:tflops|flops)|flops estimated)\b"),
    (IGNORED, r"\b(?:total|aggregate|global|cluster|overall|sum)\b.{0,40}flop"),
    ("tflops_per_gpu", r"\b(?:t ?flops?|tflop/s|teraflops|tflops)\b"),
    # The rate of one part of a step, such as generation, is not that of the step.
    (
        IGNORED,
        rf"\b(?:rollout|generation|gen|decode|prefill|actor|critic|ref)\b.{{0,40}}\b{_TOKENS}{_PER}{_SECOND}\b",
    ),
    (
        "tokens_per_second_per_gpu",
        rf"\b{_TOKENS}{_PER}{_SECOND}\b.{{0,40}}{_DEVICE}\b|\b{_TOKENS}{_PER}{_DEVICE}{_PER}{_SECOND}\b"
        rf"|\b(?:tps|tgs|tok s){_OF_DEVICE}|\btgs\b|\b{_DEVICE} {_TOKENS}{_PER}{_SECOND}\b",
    ),
    (
        "tokens_per_second",
        rf"\b(?:total )?{_TOKENS}{_PER}{_SECOND}\b|\b[kmg]?tps\b|\bwps\b"
        rf"|\b{_TOKENS}ps\b|\b{_TOKENS} s\b|\btoken throughput\b",
    ),
    (
        "samples_per_second_per_gpu",
        rf"\b{_SAMPLES}{_PER}{_SECOND}\b.{{0,40}}{_DEVICE}\b|\b{_SAMPLES}{_PER}{_DEVICE}{_PER}{_SECOND}\b",
    ),
    ("samples_per_second", rf"\b{_SAMPLES}{_PER}{_SECOND}\b|\bsps\b"),
    (STEP_RATE, rf"\b{_STEP_WORD}{_PER}{_SECOND}\b|\bups\b"),
    (
        IGNORED,
        r"\b(?:p\d{1,2}|max|maximum|min|minimum|best|worst|slowest|fastest|std|stddev|jitter)\b"
        r".{0,40}\b(?:time|latency|duration)\b",
    ),
    # Parts of a step come before the step's own time, whose words they share.
    (
        IGNORED,
        r"\b(?:data|forward|backward|fwd|bwd|optimizer|optim|comm|communication|load|loading|loader"
        r"|wait|io|gen|generation|rollout|reward|save|saving|checkpoint|ckpt|reduce|allreduce|sync"
        r"|h2d|dtf|dtb|compute|compile|cpu|gpu|device|ref|actor|critic|update weights|logging)"
        r" (?:\w+ )?(?:time|t|ms|s|duration|latency|took)?$",
    ),
    (IGNORED, r"\bepoch (?:time|duration|cost|took)\b|\btime (?:per|of|for) epoch\b"),
    # PaddleNLP
    (
        INTERVAL,
        r"\b(?:interval|window|log|logging) (?:time|runtime|duration|seconds|elapsed)\b"
        r"|\b(?:steps|iters|iterations|batches|updates) (?:in|take|takes|took)$"
        r"|\btime for (?:last )?\d* ?(?:steps|iterations)\b",
    ),
    (
        TIME,
        rf"\b(?:{_STEP_WORD}|train|training) ?(?:time|timing|duration|latency|took|elapsed|cost|dt|seconds|secs)\b"
        rf"|\b(?:time|{_SECOND}|ms){_PER}{_STEP_WORD}\b|\btime {_STEP_WORD}\b|\b{_STEP_WORD} (?:ms|s)$",
    ),
    (
        ELAPSED,
        r"\b(?:elapsed|wall ?clock|wall ?time|wall|since start|total time|time elapsed|time total"
        r"|runtime|cumulative time|uptime)\b",
    ),
    (
        TIME,
        r"\b(?:batch|step|iter) t$"
        r"|\b(?:time|dt|took|duration|latency|delta|secs|seconds)"
        r"(?: ?\(?(?:ms|s|sec|secs|seconds)\)?)?$",
    ),
    # Lightning
    ("loss", r"^train(?:ing)? loss step$"),
    (
        "aux_loss",
        r"\b[a-z]loss$|\b(?:g|d|generator|discriminator|aux|balance|balancing|z|router|mtp|distill"
        r"|kl|rl|pg|vf|policy|value|(?<!cross )entropy|reg|commit|adv|disc|gen|dur|mel|cls|bbox|box"
        r"|dfl|rpn|mask|obj|giou|l1|ctc|att|ins)(?: \d)? loss\b|\bloss (?!value|is|train|total)\w+$",
    ),
    ("loss", r"\bloss(?: value| is| train| total)?$|\bnll$|\bxent$|\bcross entropy$|\bce$"),
    (IGNORED, r"\b(?:acc|accuracy|ppl|perplexity|bpb|bpc|bits|entropy|kl|reward|score|top ?\d)\b"),
    ("learning_rate", r"\b(?:lr|learning rate|lrs)\b"),
    ("grad_norm", r"\bg(?:rad(?:ient)?)? ?norm\b|\bglobal norm\b|\bnorm$|\bgn(?:orm)?$"),
    (
        "tokens_per_step",
        rf"\b{_TOKENS}{_PER}{_STEP_WORD}\b|\bbatch {_TOKENS}\b|\b{_TOKENS} (?:in|per) batch\b",
    ),
    (
        "consumed_tokens",
        rf"\b(?:consumed|total|seen|trained|processed|cumulative|num|n) {_TOKENS}\b"
        rf"|\b{_TOKENS} (?:seen|consumed|processed|so far|total)\b|\b{_TOKENS}$",
    ),
    (
        "consumed_samples",
        rf"\b(?:consumed|total|seen|processed|num) {_SAMPLES}\b|\b{_SAMPLES} (?:seen|consumed|so far)\b|\b{_SAMPLES}$",
    ),
    ("memory", r"\b(?:mem|memory|vram|allocated|reserved|peak|max mem|cached)\b"),
    (
        "global_batch_size",
        r"\b(?:global|total|effective) (?:train )?batch ?(?:size)?$|\bgbs$|\bbsz$",
    ),
    (IGNORED, r"\b(?:micro )?batch ?size$|\bmbs$"),
    ("sequence_length", r"\b(?:seq|sequence|context) ?(?:len|length)$|\bblock size$"),
    (MICRO_STEP, r"\bmicro ?(?:step|batch|iter|iteration)$"),
    (STEP, r"\b(?:global|optimizer|opt|train|training) ?(?:step|iter|iteration|update)s?$"),
    (STEP, r"\b(?:iteration|iter|num updates|update|updates)s?$"),
    (STEP, r"\b(?:step|steps)$"),
    # mmengine
    (STEP, r"\b(?:step|iter|iteration|batch)s? train$"),
    (STEP, r"\b(?:it|itr|batch|batch idx|batch id|i)$"),
    # tqdm
    (STEP, r"^bar$"),
    (EPOCH, r"\b(?:epoch|epochs|ep)\b"),
)

MEAN_TIME, MEAN_LOSS = "mean_seconds", "mean_loss"
"""Means of step times and of losses over an unknown number of steps."""

BAR = "bar"
"""The label of the count of a progress bar, which is the step if nothing else counts steps."""


class Unit(NamedTuple):
    """The unit behind a number or at the end of its label.

    Attributes:
        kind: of any number with this unit, whatever its label; "" if the label decides.
        words: matches its spellings.
        factor: converts to the unit of a record, as a decimal number in a string.
        is_time: whether it is a time.
    """

    kind: str
    words: re.Pattern[str]
    factor: str = "1"
    is_time: bool = False

    @property
    def is_long(self) -> bool:
        """Whether it is minutes or hours, in which no step time is printed without a label."""
        return self.factor in ("60", "3600")


_TIMES = (
    (r"us|µs|(?i:microseconds?)", "1e-6"),
    (r"(?i:ms|msecs?|millis|milliseconds?)", "1e-3"),
    (r"s|(?i:secs?|seconds?)", "1"),
    # Not M, which may be a million.
    (r"m|(?i:mins?|minutes?)", "60"),
    (r"h|(?i:hrs?|hours?)", "3600"),
)


def _units() -> tuple[Unit, ...]:
    rows = [
        ("tokens_per_second_per_gpu", rf"{_TOKENS}{_PER}{_SECOND}{_PER}{_DEVICE}", "1"),
        ("tokens_per_second_per_gpu", rf"{_TOKENS}{_PER}{_DEVICE}{_PER}{_SECOND}", "1"),
        ("tokens_per_second", rf"{_TOKENS}{_PER}{_SECOND}|tps|t/s", "1"),
        ("samples_per_second_per_gpu", rf"{_SAMPLES}{_PER}{_SECOND}{_PER}{_DEVICE}", "1"),
        ("samples_per_second", rf"{_SAMPLES}{_PER}{_SECOND}", "1"),
        (STEP_RATE, rf"{_STEP_WORD}{_PER}{_SECOND}", "1"),
        ("tflops_per_gpu", r"t ?flop[s/ps]*(?: ?/ ?(?:gpu|device|npu))?", "1"),
        ("tflops_per_gpu", r"g ?flop[s/ps]*(?: ?/ ?(?:gpu|device|npu))?", "1e-3"),
        *((TIME, rf"(?:{words}){_PER}{_STEP_WORD}", factor) for words, factor in _TIMES),
    ]
    found = [
        Unit(kind, re.compile(rf"(?:{words})(?![\w/])", re.I), factor)
        for kind, words, factor in rows
    ]
    for words, factor in _TIMES:
        found.append(Unit("", re.compile(rf"(?:{words})(?![\w/])"), factor, is_time=True))
    return tuple(found)


UNITS = _units()

UNIT_OF_TIME = (
    rf"(?:{_STEP_WORD}{_PER}{_SECOND}"
    rf"|(?:{'|'.join(words for words, _ in _TIMES[:3])})(?:{_PER}{_STEP_WORD})?)(?![\w/])"
)
"""A unit behind a time in a line, as a regular expression: ms, s, s/it, it/s. Minutes are not one,
since `0.5 min` may be a minimum.
"""

MULTIPLIERS = {"K": "1e3", "k": "1e3", "M": "1e6", "G": "1e9", "B": "1e9", "T": "1e12"}
_MULTIPLIER = re.compile(
    rf"([KkMGBT])(?=\W|{_TOKENS}{_PER}|$)|(?: ?([KkMmG]) ?)(?={_TOKENS}{_PER})"
)
_MULTIPLIER_OF_LABEL = re.compile(
    rf"(?<![a-z])([kmg])[ _]?(?:tps|{_TOKENS})(?:\b|_)[\w/. ]{{0,40}}\W*\Z", re.IGNORECASE
)
_BEFORE_UNIT = re.compile(r" ?[\[(]?")
_SCOPE = re.compile(_OF_DEVICE)
_UNIT_OF_STEP = re.compile(rf"(us|ms|s|secs?){_PER}{_STEP_WORD}\b", re.IGNORECASE)
_UNIT_OF_LABEL = re.compile(r"(?:^|[\s_(\[])\(?([^\W_]+)[)\]]*$")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_APART = re.compile(r"[_\-.\s()\[\]#*'\"`]+")


def normalized(label: str) -> str:
    """Return a label as it is compared with the rows of MEANINGS: `train loss` for `TrainLoss`."""
    return _APART.sub(" ", _CAMEL.sub(" ", label)).strip().lower()


PERCENT = Unit("", re.compile("%"))
"""The sign of a share in percent."""


@functools.lru_cache(maxsize=4096)
def unit_of(behind: str) -> tuple[Unit | None, str, int]:
    """Return the unit at the start of the text behind a number, the factor of a K, M, G, B or T
    before it, and the index at which both end: tokens/s, 1e3 and 7 for `K tok/s, loss`.
    """
    factor = "1"
    begin = 0
    if match := _MULTIPLIER.match(behind):
        factor = MULTIPLIERS[match[1] or match[2].upper()]
        begin = match.end()
    before = _BEFORE_UNIT.match(behind, begin)
    at = before.end() if before else begin
    for unit in UNITS:
        if match := unit.words.match(behind, at):
            return unit, factor, match.end()
    return None, factor, begin


def with_scope(kind: str, label: str) -> str:
    """Return the kind of a rate, per GPU if its label says so: `throughput per GPU: 9 tok/s`."""
    if kind in ("tokens_per_second", "samples_per_second") and _SCOPE.search(normalized(label)):
        return f"{kind}_per_gpu"
    return kind


@functools.lru_cache(maxsize=4096)
def meaning_of(label: str) -> Meaning | None:
    """Return the first row that matches a label, which may be normalized; None if none does."""
    words = normalized(label)
    for row in MEANINGS:
        if row.words.search(words):
            return row
    return None


_OF_STEP = re.compile(rf"\b{_STEP_WORD}\b")


def words_of(label: str) -> str:
    """Return the words of a label that say its meaning; empty if nothing does."""
    meaning = meaning_of(label)
    match = meaning.words.search(normalized(label)) if meaning else None
    return match[0] if match else ""


def is_of_step(label: str, unit: Unit | None) -> bool:
    """Return whether the label or the unit of a time says that it is the time of one step, as `iter
    time` and `s/it` do.
    """
    if unit is not None and unit.kind == TIME:
        return True
    return _OF_STEP.search(normalized(label)) is not None


_EVALUATES = re.compile(
    r"\b(?:val|valid|validation|validating|eval|evaluation|evaluating|test|cv)\b", re.IGNORECASE
)
_TRAINS = re.compile(r"\btrain(?:ing|ed)?\b|(?<![A-Za-z])train_", re.IGNORECASE)


def says_training(text: str) -> bool:
    """Return whether a text has a word such as `train` or `training`."""
    return _TRAINS.search(text) is not None


def is_of_evaluation(text: str, whole: str = "") -> bool:
    """Return whether a text has a word such as `eval` or `validation`, and neither it nor the whole
    line, if that is given, has one such as `train`.
    """
    return _EVALUATES.search(text) is not None and not says_training(whole or text)


# The words of a label that leave open which time it is. Any other word may name a part of a step.
_PLAIN_TIME = re.compile(
    r"\b(?:time|timing|took|taken|takes|duration|latency|delta|dt|elapsed|costs?|used?|usage|spent|run|wall"
    r"|e\de|total|full|whole|overall|secs?|seconds?|this|last|current|cur|per|the|log|perf|timers?|train"
    r"|training)\b|[^a-z0-9]+"
)

SHORTEST_PART = 3
"""Fewest characters of a word that may name a part of a step."""


@functools.lru_cache(maxsize=4096)
def is_qualified(label: str, unit: Unit | None) -> bool:
    """Return whether a time's label has a word that may name a part of a step, or another thing than
    a step: `stall time`.
    """
    others = _PLAIN_TIME.sub(" ", normalized(label)).split()
    return not is_of_step(label, unit) and any(len(word) >= SHORTEST_PART for word in others)


_MEAN = re.compile(r"\b(?:avg|average|averaged|mean|smooth|smoothed|ema|running|moving)\b")
_MEANS = {TIME: MEAN_TIME, "loss": MEAN_LOSS}


def kind_of_mean(label: str) -> str:
    """Return the kind of a mean by its label: MEAN_TIME for `avg step time`."""
    meaning = meaning_of(_MEAN.sub(" ", normalized(label)))
    return _MEANS.get(meaning.kind, AVERAGED) if meaning else AVERAGED


_STEPS_BEHIND = re.compile(rf"\s?{_STEP_WORD}\b", re.IGNORECASE)


def counts_steps(behind: str) -> bool:
    """Return whether the text behind a number says that it counts steps: `100 iters`."""
    return _STEPS_BEHIND.match(behind) is not None


def unit_in(label: str) -> Unit | None:
    """Return the unit of time in a label, as in `elapsed (ms)`, `step_time_s` or `ms/batch`."""
    match = _UNIT_OF_STEP.match(label.strip()) or _UNIT_OF_LABEL.search(label)
    # step_time_min is a minimum, not a time in minutes.
    if match is None or match[0] == "_min":
        return None
    return next((unit for unit in UNITS if unit.is_time and unit.words.fullmatch(match[1])), None)


def multiplier_in(label: str) -> str:
    """Return the factor of a K, M or G before the tokens of a label, as in `Mtok/s`; else 1."""
    match = _MULTIPLIER_OF_LABEL.search(label)
    return MULTIPLIERS[match[1].upper()] if match else "1"
