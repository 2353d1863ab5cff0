"""Audit of published training results: contradictions within a row, and impossible values.

For each row, tokens/s, step time, TFLOP/s and MFU are computed from each other and from the model's
shape, and compared with the dense peak and with the other rows of the files.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence

from tprimat.analysis import conventions
from tprimat.analysis.conventions import EXACT, TOLERANCE, Match
from tprimat.catalog import models
from tprimat.catalog.figures import Figure
from tprimat.catalog.gpus import Gpu
from tprimat.checks import CONTRADICTION, Finding, finding_of
from tprimat.notes import Note, NoteValue
from tprimat.results.run import ModelConfig

ROUNDING = 0.03
"""Relative distance up to which two values in a row are equal."""
HIGHEST_SHARE = 0.8
"""Share of the dense peak that no published training exceeds."""
RL_TOKENS = (0.9, 1.6)
"""Range of the tokens of a step divided by samples × mean length, which doesn't include prompts."""
CLAIM = 0.1
"""Relative distance up to which claimed days agree with the rate; both are rounded."""
PACKED = ("sft", "lora")
"""Tasks whose sequences may consist of several shorter ones, or be padded."""
CLOSE, SEVERAL = 0.015, 3
"""CLOSE: relative distance of two ways of counting FLOPs that rounding may confuse. SEVERAL: number
of rows of a model from which on their way of counting decides.
"""
TWIN = 0.002
"""Relative distance up to which the FLOPs per token of two rows are equal: the same formula for the
same work.
"""
LENGTHS = (4096, 2048, 8192)
LONGEST = 32_768
"""Sequence lengths that are tried if none is stated, and the longest one, for upper bounds."""
TOWER = 6 * 9
"""Most FLOPs per token and parameter of an image encoder: a token stands for up to 9 patches of an
image.
"""
OUTLIER = 3.0
"""Ratio up to which a row may be faster than the other rows of its table with the same model and
GPU.
"""
SMALLEST = 1e9
NAMED = (0.75, 1.35)
"""SMALLEST: number of parameters from which on the embeddings are a small share. NAMED: range of
the FLOPs per token divided by 6 N (low) and 8 N (high), where N is the rounded number of parameters
in a model's name; attention comes on top.
"""
DIGITS = 4
"""Number of significant digits from which on equal values of two configurations are no
coincidence.
"""


@dataclasses.dataclass(frozen=True)
class Audited:
    """A row with the findings on it."""

    figure: Figure
    findings: tuple[Finding, ...]


def audit(figures: Sequence[Figure]) -> list[Audited]:
    """Return rows, of one file or several, each with its findings, errors first."""
    others = _Others()
    for figure in figures:
        others.add(figure)
    beside = (_copies(figures), _claims(figures), _outliers(figures))
    audited = []
    for index, figure in enumerate(figures):
        found = [*_own(figure), *_formula(figure, others)]
        for each in beside:
            if index in each:
                found.append(each[index])
        audited.append(
            Audited(figure, tuple(sorted(found, key=lambda finding: _ORDER[finding.severity])))
        )
    return audited


_ORDER = {"error": 0, "unverified": 1, "warning": 2, "info": 3}


def rate(figure: Figure) -> float | None:
    """Return tokens/s per GPU, as stated or computed from samples/s or step time; None if
    unknown.
    """
    if figure.tokens_per_second_per_gpu:
        return figure.tokens_per_second_per_gpu
    if figure.samples_per_second and figure.sequence_length and figure.gpus:
        return figure.samples_per_second * figure.sequence_length / figure.gpus
    tokens = _tokens_per_step(figure)
    if tokens and figure.step_time_s and figure.gpus:
        return tokens / figure.step_time_s / figure.gpus
    return None


def _tokens_per_step(figure: Figure) -> float:
    """Return the tokens of a step; 0 if they are unknown."""
    if figure.task == "rl":
        return (figure.samples_per_step or 0) * (figure.sample_tokens or 0)
    return figure.tokens_per_step or (figure.global_batch or 0) * (figure.sequence_length or 0)


def shape_of(figure: Figure) -> ModelConfig | None:
    """Return the shape from which FLOPs are computed, for LoRA with adapters of an assumed size;
    None if it is unknown.
    """
    row = figure.row
    if row:
        if figure.task == "lora":
            return conventions.adapted(row.shape)
        return row.shape
    return None


def _own(figure: Figure) -> Iterator[Finding]:
    """Compare the values of a row with each other and with the peak."""
    if figure.unreadable:
        cells, headings = figure.unreadable
        rule = "unreadable-row"
        yield finding_of("error", rule, rule, cells=cells, headings=headings)
        return
    stated = figure.tokens_per_second_per_gpu
    tokens = _tokens_per_step(figure)
    gpus = figure.gpus
    if stated and tokens and gpus and figure.step_time_s:
        given = tokens / figure.step_time_s / gpus
        least, most = RL_TOKENS if figure.task == "rl" else (1 - ROUNDING, 1 + ROUNDING)
        # With packing or padding, a batch may have fewer tokens than its size allows.
        least = 0.0 if figure.task in PACKED else least
        if not least <= stated / given <= most:
            yield finding_of(
                "error",
                CONTRADICTION,
                "published-step-differs",
                _factor(stated / given, gpus),
                rate=stated,
                tokens=tokens,
                time=figure.step_time_s,
                gpus=round(gpus),
                own=given,
            )
    samples = figure.samples_per_second
    length = figure.sequence_length
    if stated and samples and length and gpus:
        least, most = (each * length / gpus for each in (samples - 0.5, samples + 1.0))
        if not least * (1 - ROUNDING) <= stated <= most * (1 + ROUNDING):
            given = samples * length / gpus
            yield finding_of(
                "error",
                CONTRADICTION,
                "published-samples-differ",
                _factor(stated / given, gpus),
                rate=stated,
                samples=samples,
                length=length,
                own=given,
            )
    yield from _peak(figure)


def _factor(factor: float, gpus: float | None = None) -> tuple[Note, ...]:
    """Return what would make a value too large by this factor."""
    causes = [(0.5, "half-counted"), (2.0, "counted-twice"), (1000.0, "thousandfold")]
    if gpus:
        causes += [(gpus, "covers-all-gpus"), (1 / gpus, "divided-twice")]
    return tuple(Note(code) for times, code in causes if abs(factor / times - 1) <= ROUNDING)


def _peak(figure: Figure) -> Iterator[Finding]:
    """Compare TFLOP/s, computed and printed, with the dense peak, and with MFU."""
    gpus = figure.candidates
    if not gpus:
        return
    if above := _above_peak(figure, gpus):
        yield above
    if figure.tflops_per_gpu and figure.mfu_percent:
        yield from _implied_peak(figure, gpus, figure.tflops_per_gpu, figure.mfu_percent)


def _computed(figure: Figure) -> float | None:
    """Return the TFLOP/s per GPU that tokens/s and the model's shape give; None if one is unknown."""
    speed = rate(figure)
    shape = shape_of(figure)
    if not speed or not shape:
        return None
    per_token = conventions.OWN.per_token(shape, 0)
    if not per_token:
        return None
    # Attention counts only for tasks whose sequences have the full length: packed ones may be
    # short.
    if figure.task in ("pretrain", ""):
        length = int(figure.sequence_length or 0)
        per_token = conventions.OWN.per_token(shape, length) or per_token
    return speed * per_token / 1e12


def _above_peak(figure: Figure, gpus: Sequence[Gpu]) -> Finding | None:
    """Return the finding if TFLOP/s, computed or printed, are above what any training reaches on
    the fastest of these GPUs; else None.
    """
    computed = _computed(figure)
    printed = figure.tflops_per_gpu
    precision = figure.precision
    if not precision:
        precision = max(("bf16", "fp16", "fp8"), key=lambda name: _ceiling(gpus, name))
    ceiling = _ceiling(gpus, precision)
    fastest = max(gpus, key=lambda gpu: gpu.ceiling_tflops(precision) or 0)
    for value, kind in ((computed, "published"), (printed, "printed")):
        if value and ceiling and value > HIGHEST_SHARE * ceiling:
            kind += "-above-peak" if value > ceiling else "-beyond-reach"
            return finding_of(
                "error",
                "above-peak",
                kind,
                rate=rate(figure),
                achieved=value,
                share=value / ceiling,
                precision=precision.upper(),
                gpu=fastest.title,
                peak=ceiling,
            )
    half = max(_ceiling(gpus, "bf16"), _ceiling(gpus, "fp16"))
    most = max(computed or 0.0, printed or 0.0)
    if not half or figure.precision or most <= HIGHEST_SHARE * half:
        return None
    return finding_of(
        "unverified",
        "precision-unstated",
        "published-precision-unstated",
        achieved=most,
        share=most / half,
        gpu=gpus[0].title,
    )


def _implied_peak(
    figure: Figure, gpus: Sequence[Gpu], printed: float, mfu: float
) -> Iterator[Finding]:
    """Yield a finding if printed TFLOP/s and MFU imply a peak that the GPU has in no precision."""
    peaks = {}
    for gpu in gpus:
        for precision in ("bf16", "fp16", "fp8", "fp4"):
            if peak := gpu.peak_tflops(precision):
                peaks[precision] = peak
    implied = printed / mfu * 100
    # 41.2% may be 41.15% to 41.25%.
    rounded = 0.5 * 10 ** -len(f"{mfu:.12g}".partition(".")[2]) / mfu + ROUNDING
    if not peaks or any(abs(implied / peak - 1) <= rounded for peak in peaks.values()):
        return
    causes: tuple[Note, ...] = ()
    for precision, peak in peaks.items():
        if not causes and abs(implied / peak / 2 - 1) <= ROUNDING:
            causes = (Note("sparse-peak", {"precision": precision.upper()}),)
    yield finding_of(
        "error",
        CONTRADICTION,
        "implied-peak",
        causes,
        printed=printed,
        mfu=mfu,
        peak=implied,
        gpu=figure.gpu,
    )


def _ceiling(gpus: Sequence[Gpu], precision: str) -> float:
    return max(gpu.ceiling_tflops(precision) or 0.0 for gpu in gpus)


def _per_token(figure: Figure) -> float | None:
    """Return the FLOPs per token that follow from TFLOP/s and tokens/s; None without these."""
    speed = rate(figure)
    if figure.tflops_per_gpu and speed:
        return figure.tflops_per_gpu * 1e12 / speed
    return None


def _length(figure: Figure) -> int:
    """Return the sequence length, as stated or from the tokens of a step; 0 if it is unknown."""
    stated = figure.sequence_length
    speed = figure.tokens_per_second_per_gpu
    batch = figure.global_batch
    if (
        not stated
        and figure.task == "pretrain"
        and speed
        and batch
        and figure.step_time_s
        and figure.gpus
    ):
        stated = speed * figure.step_time_s * figure.gpus / batch
    return round(stated or 0)


def _explanations(figure: Figure) -> list[Match]:
    shape = shape_of(figure)
    per_token = _per_token(figure)
    packed = figure.task in PACKED
    if shape is None or per_token is None:
        return []
    if length := _length(figure):
        return conventions.explanations(per_token, shape, length, packed=packed)
    if packed:
        return conventions.explanations(per_token, shape, LONGEST, packed=True)
    for tried in LENGTHS:
        if found := conventions.explanations(per_token, shape, tried, tolerance=EXACT):
            return found
    return []


def _group(figure: Figure) -> tuple[str, ...]:
    """Return the publisher, framework and model of a row: rows that agree in these use the same
    formula for TFLOP/s.
    """
    return figure.publisher, figure.framework, figure.row.name if figure.row else ""


class _Others:
    """An index of all rows: comparing each of 8,000 rows with every other one takes minutes.

    Attributes:
        preferred: by group (see _group()), the number of rows that each convention explains
            closely; packed rows are omitted.
        full: by group, FLOPs per token and place of each full (not LoRA) training, in this order.
        mtp: by model and task, the number of rows that count multi-token prediction minus the
            number of those that don't.
        partners: by publisher, field (0: tokens/s, 1: TFLOP/s) and its value, the places of rows by
            the value of the other field.
    """

    def __init__(self) -> None:
        self.preferred: dict[tuple[str, ...], collections.Counter[str]] = collections.defaultdict(
            collections.Counter
        )
        self.full: dict[tuple[str, ...], list[tuple[float, str]]] = collections.defaultdict(list)
        self.mtp: collections.Counter[tuple[str, str]] = collections.Counter()
        self.partners: dict[tuple[str, int, float | None], dict[float | None, str]] = (
            collections.defaultdict(dict)
        )

    def add(self, figure: Figure) -> None:
        """Add a row."""
        found = _explanations(figure)
        group = _group(figure)
        place = figure.place
        per_token = _per_token(figure)
        if figure.task not in PACKED and figure.sequence_length:
            close = [match for match in found if abs(match.deviation) <= CLOSE]
            least = min((abs(match.deviation) for match in close), default=0.0) + EXACT / 2
            self.preferred[group].update(
                {match.convention.name for match in close if abs(match.deviation) <= least}
            )
        if figure.task not in ("lora", "rl") and per_token:
            bisect.insort(self.full[group], (per_token, place))
        self.mtp[group[-1], figure.task] += 1 if any(match.further for match in found[:1]) else -1
        for field, (value, other) in enumerate(_both(figure)):
            self.partners[figure.publisher, field, value].setdefault(other, place)


def _both(figure: Figure) -> Sequence[tuple[float | None, float | None]]:
    """Return tokens/s with TFLOP/s, and TFLOP/s with tokens/s."""
    speed = figure.tokens_per_second_per_gpu
    flops = figure.tflops_per_gpu
    return (speed, flops), (flops, speed)


def _formula(figure: Figure, others: _Others) -> Iterator[Finding]:
    """Compare TFLOP/s with tokens/s, and say which way of counting explains it."""
    printed = figure.tflops_per_gpu
    speed = rate(figure)
    shape = shape_of(figure)
    if not printed or not speed:
        return
    per_token = printed * 1e12 / speed
    if shape is None or conventions.OWN.per_token(shape, 0) is None:
        yield from _by_name(figure, per_token)
        return
    counts = others.preferred[_group(figure)]
    found = _fitting(figure, shape, per_token, counts)
    near = conventions.matches(per_token, shape, _length(figure) or LENGTHS[0])
    of_model = [match for match in near if match.convention is conventions.OWN]
    own = next(match.per_token for match in of_model if not match.trains_all)
    fields: dict[str, NoteValue] = {
        "printed": printed,
        "rate": speed,
        "billions": per_token / 1e9,
        "own": own / 1e9,
    }
    usual, times = max(counts.items(), key=lambda item: item[1], default=("", 0))
    best = found[0] if found else None
    if best and best.convention not in (conventions.OWN, conventions.PACKED):
        alike = [match for match in found if abs(match.deviation) <= abs(best.deviation) + CLOSE]
        best = max(alike, key=lambda match: (counts[match.convention.name], -abs(match.deviation)))
        if times >= SEVERAL and not counts[best.convention.name] and abs(best.deviation) > CLOSE:
            best = None
            fields |= {"rows": times, "counted": usual}
    note = Note("flops-per-token", fields)
    if best is None:
        least = conventions.FULL.per_token(shape, 1) or 0.0
        most = conventions.FULL.per_token(shape, LONGEST) or 0.0
        is_possible = least * (1 - TOLERANCE) <= per_token <= most * (1 + TOLERANCE)
        if figure.sequence_length or not is_possible:
            near.sort(key=lambda match: match.convention.name != (usual or conventions.OWN.name))
            likely = _likely(figure, near, others)
            tower = figure.row.tower_parameters if figure.row else 0
            if 0 < per_token - own <= TOWER * tower:
                causes = (Note("encoders-included", {"billions": tower / 1e9}), *likely)
                yield Finding("unverified", "encoders", note, causes)
            else:
                yield Finding("error", CONTRADICTION, note, tuple(likely))
    elif best.is_mistake or best.convention not in (conventions.OWN, conventions.PACKED):
        cause = Note("flops-count", {"counted": best.name})
        if best.is_mistake:
            yield Finding("warning", "formula", note, (cause,))
        else:
            yield Finding("info", "convention", note, (cause,))
    elif figure.task == "lora" and (twin := _full_twin(figure, per_token, others)):
        yield Finding("warning", "formula", note, (Note("lora-as-full", {"place": twin}),))
    elif (
        best.convention is conventions.OWN
        and not best.further
        and shape.num_mtp_layers
        and others.mtp[_group(figure)[-1], figure.task] > 0
    ):
        yield Finding("info", "convention", Note("prediction-omitted"))


def _fitting(
    figure: Figure, shape: ModelConfig, per_token: float, counts: Mapping[str, int]
) -> list[Match]:
    """Return the ways of counting that explain a row, the likeliest first. `counts` has the number
    of rows of its group that each way explains closely.
    """
    found = _explanations(figure)
    length = _length(figure)
    if figure.task not in PACKED or not length:
        return found
    # Many ways fit by chance, so only those count that rows with a known length use, too.
    exact = []
    close = []
    for match in conventions.matches(per_token, shape, length):
        if counts[match.convention.name]:
            if match.convention.is_mistake and abs(match.deviation) <= EXACT:
                exact.append(match)
            if abs(match.deviation) <= TOLERANCE:
                close.append(match)
    return exact or found or close


def _likely(figure: Figure, near: Sequence[Match], others: _Others) -> list[Note]:
    """Return what may explain a row that no way of counting explains, given the nearest ways."""
    likely = _joined(figure, others)
    for match in (near[0], *near):
        if match is near[0] or match.convention is conventions.FULL:
            for cause in _factor(1 + match.deviation):
                if cause not in likely:
                    likely.append(cause)
    if near[0].deviation > 0 and figure.step_time_s:
        likely.append(Note("slow-step"))
    # The distance to the nearest way is no cause, so it comes last.
    distance = near[0].deviation
    likely.append(Note("nearest-count", {"deviation": distance, "counted": near[0].name}))
    return likely


def _full_twin(figure: Figure, per_token: float, others: _Others) -> str | None:
    """Return the place of a full training in the same group with the same FLOPs per token; None if
    there is none.
    """
    alike = others.full[_group(figure)]
    nearest = bisect.bisect_left(alike, (per_token / (1 + TWIN), ""))
    other, place = alike[nearest] if nearest < len(alike) else (math.inf, None)
    if abs(per_token / other - 1) <= TWIN:
        return place
    return None


def _by_name(figure: Figure, per_token: float) -> Iterator[Finding]:
    """Compare FLOPs per token with the number of parameters in the name of a dense model whose
    shape is unknown.
    """
    size = models.stated_size(figure.model)
    stated = figure.flops_per_parameter
    if (
        figure.row
        or size is None
        or size < SMALLEST
        or re.search(r"(?i)moe|a\d+b|\dx\d", figure.model)
    ):
        return
    if not NAMED[0] * (stated or 6) <= per_token / size <= NAMED[1] * (stated or 8):
        yield finding_of(
            "error",
            CONTRADICTION,
            "flops-per-parameter",
            printed=figure.tflops_per_gpu,
            flops=per_token / size,
            model=figure.model,
        )


def _joined(figure: Figure, others: _Others) -> list[Note]:
    """Return a note if tokens/s and TFLOP/s of a row may come from two different rows: each is in
    another row, with a different partner.
    """
    places = []
    for field, (value, other) in enumerate(_both(figure)):
        partners = others.partners[figure.publisher, field, value]
        places.append(next((place for flops, place in partners.items() if flops != other), None))
    rate_place, flops_place = places
    if rate_place and flops_place:
        fields = {"rate_place": rate_place, "flops_place": flops_place}
        return [Note("rows-joined", fields)]
    return []


def _configuration(figure: Figure) -> dict[str, object]:
    """Return the configuration of a row, as far as it is stated."""
    names = ("gpu", "precision", "task", "gpus", "sequence_length", "global_batch")
    known = {name: getattr(figure, name) for name in names} | {
        "model": figure.row.name if figure.row else figure.model
    }
    return {name: value for name, value in known.items() if value not in (None, "")}


def _digits(value: float | None) -> int:
    if value:
        return len(f"{value:.12g}".replace(".", "").strip("0"))
    return 0


def _copies(figures: Sequence[Figure]) -> dict[int, Finding]:
    """Return a finding, by place, for each row with the values of another row that states a
    different configuration.
    """
    same: dict[tuple[object, ...], list[int]] = collections.defaultdict(list)
    for index, figure in enumerate(figures):
        known = (figure.tokens_per_second_per_gpu, figure.tflops_per_gpu, figure.step_time_s)
        exact = [value if _digits(value) >= DIGITS else None for value in known]
        if len(exact) - exact.count(None) > 1:
            same[tuple(exact)].append(index)
        if exact[0] and figure.row:
            # A single equal value counts only if nothing except the precision differs.
            rest = {}
            for name, each in _configuration(figure).items():
                if name != "precision":
                    rest[name] = each
            same[("", exact[0], tuple(rest.items()))].append(index)
    found = {}
    for key, indices in same.items():
        for index in indices:
            other = next((each for each in indices if each != index), None)
            own = _configuration(figures[index])
            if other is None:
                continue
            theirs = _configuration(figures[other])
            differing = []
            for name in own:
                if theirs.get(name, own[name]) != own[name]:
                    differing.append(name)
            if differing or (key[0] != "" and None not in key):
                what = " and ".join(name.replace("_", " ") for name in differing) or "item"
                found[index] = finding_of(
                    "warning",
                    "repeated",
                    "values-repeated",
                    (Note("line-copied"),),
                    place=figures[other].place,
                    what=what,
                )
    return found


def _claims(figures: Sequence[Figure]) -> dict[int, Finding]:
    """Return a finding, by place, for each claimed number of days that disagrees with the target
    tokens of its row or, without these, with the publisher's other claims.
    """
    tokens = {}
    for index, figure in enumerate(figures):
        speed = rate(figure)
        if figure.days and speed and figure.gpus:
            gpus = figure.target_gpus or figure.gpus
            tokens[index] = figure.days * 86_400 * speed * gpus
    beside: dict[str, list[float]] = collections.defaultdict(list)
    for index, trained in tokens.items():
        if not figures[index].target_tokens:
            beside[figures[index].publisher].append(trained)
    usual = {}
    for publisher, claimed in beside.items():
        if claimed:
            usual[publisher] = statistics.median(claimed)
    found = {}
    for index, trained in tokens.items():
        figure = figures[index]
        target = figure.target_tokens or usual[figure.publisher]
        if abs(trained / target - 1) > CLAIM:
            found[index] = finding_of(
                "warning",
                "claim",
                "claim-differs" if figure.target_tokens else "claim-differs-from-rows",
                (Note("token-targets-differ"),),
                days=figure.days,
                own=trained / 1e9,
                claimed=target / 1e9,
            )
    return found


def _outliers(figures: Sequence[Figure]) -> dict[int, Finding]:
    """Return a finding, by place, for each row that is far faster than the comparable rows of its
    table, and for each wrong ratio of two rows.
    """
    beside: dict[tuple[object, ...], dict[int, float]] = collections.defaultdict(dict)
    at: dict[str, list[float]] = collections.defaultdict(list)
    found = {}
    for index, figure in enumerate(figures):
        if speed := rate(figure):
            at[figure.place].append(speed)
        if speed and figure.row:
            where = (
                figure.file,
                figure.table,
                figure.publisher,
                figure.version,
                tuple(_configuration(figure).items()),
            )
            beside[where][index] = speed
    for index, figure in enumerate(figures):
        if figure.ratio:
            rates = at[figure.place]
            own = max(rates) / min(rates) if len(rates) == 2 else None
            if own and abs(own / figure.ratio - 1) > ROUNDING:
                found[index] = finding_of(
                    "error",
                    CONTRADICTION,
                    "ratio-differs",
                    faster=max(rates),
                    slower=min(rates),
                    own=own,
                    stated=figure.ratio,
                )
    for speeds in beside.values():
        # Only a row well above the median is of interest, so the fastest row is omitted of it.
        others = sorted(speeds.values())[:-1]
        usual = math.inf
        if len(others) > 1:
            usual = statistics.median(others)
        for index, speed in speeds.items():
            if speed > OUTLIER * usual:
                found[index] = finding_of("warning", "outlier", "row-too-fast", ratio=speed / usual)
    return found
