"""One iteration line of Megatron with all that is read of it, and the layouts by which further ones
are read.
"""

from __future__ import annotations

import datetime

import pytest

from tprimat.read.megatron import layout as layouts
from tprimat.read.megatron.layout import ParsedLine, find_line, layout_of
from tprimat.read.megatron.line import Kind, Record, micros, parse
from tprimat.read.parsing.text import Line
from tprimat.results.fields import LARGEST_VALUE

TIME = "elapsed time per iteration (ms): 2000.5"
HIP, ROCM = (f"{name} mem usage/free/total/usage_ratio" for name in ("hip", "rocm"))
NANS = "number of nan iterations: 3"
NOON = "2026-03-01 12:00:05.250000"
NOON_MICROS = 1_772_366_405_250_000


def records(text: str, *, whole: bool = True) -> list[Record]:
    return [record for record, _ in parse(Line(7, text, whole))]


def record(
    iteration: int = 4, *, planned: float = 9.0, at: int = 0, kind: Kind | None = None, **figures
) -> Record:
    return Record(
        iteration, 7, at, kind or Kind(), {"planned": planned, "elapsed_ms": 2000.5, **figures}
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"iteration 4/ 9 | {TIME} |", [record()]),
        (f"iteration 4/ 9 | {TIME}", [Record(4, 7, 0, Kind(), {"planned": 9.0})]),
        ("iteration 4/ 9 | lm loss: 3.5 |", []),
        (f"iteration 0/ 9 | {TIME} |", []),
        (
            (
                f"iteration 4/ 9 | {TIME} | lm loss: 3.5 | lm loss: 4.5 | "
                "Grad  Norm : 1.5 | loss scale: 7 | params norm: 8 |"
            ),
            [record(loss=3.5, grad_norm=1.5)],
        ),
        # A pair has its first value; so has one with a mean, and one in TFLOPS.
        (
            (
                f"iteration 4/ 9 | {TIME}/2100.5 | tokens/s/GPU: 1,234.5 (avg 7.0) | approx flops"
                " per GPU: 12.5TFLOPS |"
            ),
            [
                record(
                    tokens_rate=1234.5,
                    tflops=12.5,
                    kind=Kind(shape="primus-legacy", paired=True, marks=("primus",)),
                )
            ],
        ),
        # What isn't finite, can't be read, or isn't known.
        (
            (
                f"iteration 4/ 9 | {TIME} | lm loss: nan | grad norm: {LARGEST_VALUE * 10:.0f} |"
                " tflops: 7x | z_loss: 3 | b: c | ?: 3 |"
            ),
            [
                record(
                    kind=Kind(
                        not_finite=("loss", "grad_norm"),
                        garbled=("throughput per gpu (tflop/s/gpu)",),
                        unread=("z_loss",),
                    )
                )
            ],
        ),
        (
            f"iteration 4/ 9 | {TIME} | {'z' * 60}: 3 | {'y' * 61}: 4 |",
            [record(kind=Kind(unread=("z" * 60,)))],
        ),
        # The time and the rank before it, who printed it, and on what.
        (
            f"[rank-3/8] [{NOON}] iteration 4/ 9 | {TIME} |",
            [record(at=NOON_MICROS, rank=3.0, world=8.0, kind=Kind(aware=False, resolution=1e-6))],
        ),
        (
            f"2026-03-01T12:00:05Z iteration 4/ 9 | {TIME} | hipError |",
            [
                record(
                    at=1_772_366_405_000_000, kind=Kind(aware=True, resolution=1.0, marks=("amd",))
                )
            ],
        ),
        # Memory in use, and in all.
        (
            f"iteration 4/ 9 | {TIME} | {NANS} | {HIP}: 30.5GB/1.5GB/32.0GB/95% ",
            [
                record(
                    nans=3.0,
                    hip_gib=30.5,
                    memory_total_gib=32.0,
                    kind=Kind(shape="primus-core", marks=("primus", "amd")),
                )
            ],
        ),
        (
            f"iteration 4/ 9 | {TIME} | {ROCM}: 30.5GiB/1.5GiB/32.0GiB/95% | {NANS} |",
            [
                record(
                    nans=3.0,
                    rocm_gib=30.5,
                    memory_total_gib=32.0,
                    kind=Kind(shape="primus-legacy", marks=("primus", "amd")),
                )
            ],
        ),
        (
            f"iteration 4/ 9 | {TIME} | {HIP}: 30.5GB/1.5GB/32.0GB/95% |",
            [
                record(
                    hip_gib=30.5,
                    memory_total_gib=32.0,
                    kind=Kind(shape="primus-legacy", marks=("primus", "amd")),
                )
            ],
        ),
        (
            f"iteration 4/ 9 | {TIME} | mem usages: 0.25 |",
            [record(memory_fraction=0.25, kind=Kind(shape="rocm-fork"))],
        ),
        (
            f"iteration 4/ 9 | {TIME}/7.0 | mem usages: 0.25 |",
            [
                record(
                    memory_fraction=0.25,
                    kind=Kind(shape="primus-2025.03", paired=True, marks=("primus",)),
                )
            ],
        ),
        (
            f"iteration 4/ 9 | {TIME} | compute per GPU (TFLOP/s/GPU): 5.0 |",
            [record(tflops=5.0, kind=Kind(shape="primus-26.5", marks=("primus",)))],
        ),
        (
            f"iteration 4/ 9 | {TIME} | tokens/s/GPU inst/harmonic mean: 5.0 |",
            [record(tokens_rate=5.0, kind=Kind(shape="primus-26.5.1", marks=("primus",)))],
        ),
        (f"iteration 4/ 9 | {TIME} | tokens/s/GPU: 5.0 |", [record(tokens_rate=5.0)]),
        # GPT-NeoX's label before it; one of the record before isn't.
        (f"samples/sec: 12.5 | iteration 4/ 9 | {TIME} |", [record(samples_rate=12.5)]),
        (
            f"iteration 3/ 9 | {TIME} | samples/sec: 7.5 | iteration 4/ 9 | {TIME} |",
            [record(3, samples_rate=7.5), record(samples_rate=7.5)],
        ),
        # Several in a line: each has what is in front of it.
        (
            f"[{NOON}] iteration 3/ 8 | {TIME} | [rank-3/8] iteration 4/ 9 | {TIME} |",
            [
                record(3, planned=8.0, at=NOON_MICROS, kind=Kind(aware=False, resolution=1e-6)),
                record(rank=3.0, world=8.0),
            ],
        ),
    ],
)
def test_all_that_a_line_says(text, found):
    assert records(text) == found


@pytest.mark.parametrize(
    ("end", "figures"),
    [
        (" | lm loss: 3.5 | grad", {"elapsed_ms": 2000.5, "loss": 3.5}),
        (" | lm loss: 3.", {"elapsed_ms": 2000.5}),
        ("", {}),
        (" |", {"elapsed_ms": 2000.5}),
    ],
)
def test_a_line_that_the_file_does_not_finish(end, figures):
    (found,) = records(f"iteration 4/ 9 | {TIME}{end}", whole=False)
    assert found.figures == {"planned": 9.0, **figures}


def test_times_between_records():
    naive, later, aware = (
        record(at=at, kind=Kind(aware=is_aware))
        for at, is_aware in ((0, False), (2_500_000, False), (0, True))
    )
    assert later.seconds_after(naive) == 2.5
    assert naive.seconds_after(aware) is aware.seconds_after(naive) is None
    assert record().seconds_after(record()) is None
    assert (record().planned, record().seconds) == (9, 2.0005)


def test_microseconds():
    naive = datetime.datetime(2026, 3, 1, 12, 0, 5, 250_000)
    assert micros(naive) == micros(naive.replace(tzinfo=datetime.timezone.utc)) == NOON_MICROS
    assert (
        micros(naive.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2))))
        == NOON_MICROS - 7_200_000_000
    )


FULL = f"[rank-3/8] [{NOON}] iteration    4/   9 | {TIME} | lm loss: 3.5E+00 |"


def learnt(text: str) -> tuple[layouts.Layout | None, Record]:
    raw = text.encode()
    ((found, places),) = parse(Line(7, text.replace("\x1b[32m", "").replace("\x1b[0m", ""), True))
    return layout_of(raw, found, places), found


@pytest.mark.parametrize(
    "text", [FULL, FULL.replace("3.5E+00", "\x1b[32m3.5E+00\x1b[0m"), f"iteration 4/ 9 | {TIME} |"]
)
def test_a_layout_reads_lines_of_its_spelling(text):
    layout, found = learnt(text)
    assert layout is not None
    assert layout.spelling == text.encode().translate(layouts.ZEROS)
    assert layout.record(text.encode(), 7) == found
    other = (
        text.replace(" 4/", " 5/")
        .replace("3.5E", "4.5E")
        .replace("05.25", "07.25")
        .replace("2000.5", "3000.5")
    )
    ((expected, _),) = parse(Line(9, other.replace("\x1b[32m", "").replace("\x1b[0m", ""), True))
    assert layout.record(other.encode(), 9) == expected
    assert layout.record(text.replace(" 4/", " 0/").encode(), 7) is None
    if NOON in text:
        assert layout.record(text.replace("2026-03", "2026-13").encode(), 7) is None


@pytest.mark.parametrize(
    "text",
    [
        FULL.replace("3.5E+00", "nan"),
        FULL.replace("3.5E+00", "3x5"),
        FULL.replace("lm", "ä"),
        FULL.replace("3.5E+00", "1,234.5"),
        FULL.replace("3.5E+00", "1234567890123456"),
        FULL + " [31m",
        "\\x" + FULL,
        FULL.replace("3.5E", "3.\x1b[32m5E"),
    ],
)
def test_spellings_that_tell_not_all(text):
    assert learnt(text)[0] is None


def test_a_layout_of_two_anchors_is_none():
    text = f"iteration 0/ 9 | {FULL}"
    ((found, places),) = parse(Line(7, text, True))
    assert layout_of(text.encode(), found, places) is None


def parsed(text: str) -> ParsedLine:
    layout, found = learnt(text)
    assert layout is not None
    return ParsedLine.of(text.encode(), layout, found)


OTHER = FULL.replace("rank-3", "rank-4")
UNTIMED = FULL.replace(f"[{NOON}] ", "")


@pytest.mark.parametrize(
    ("known", "again", "repeats"),
    [
        (FULL, OTHER, True),
        (FULL, FULL, False),
        (FULL, OTHER.replace(" 4/", " 5/"), False),
        # Half a step of 2 s later, or earlier.
        (FULL, OTHER.replace("05.250000", "06.250000"), True),
        (FULL, OTHER.replace("05.250000", "06.250250"), True),
        (FULL, OTHER.replace("05.250000", "06.250251"), False),
        (FULL, OTHER.replace("05.250000", "04.249749"), False),
        (FULL, OTHER.replace("2026-03", "2026-13"), False),
        # Fewer values, more, or without a time.
        (FULL, OTHER.replace(" | lm loss: 3.5E+00 |", " |"), True),
        (FULL.replace(" | lm loss: 3.5E+00 |", " |"), OTHER, False),
        (FULL, UNTIMED.replace("rank-3", "rank-4"), False),
        (UNTIMED, UNTIMED.replace("rank-3", "rank-4"), True),
        (UNTIMED, UNTIMED, False),
        (UNTIMED.replace("[rank-3/8] ", ""), UNTIMED.replace("[rank-3/8] ", ""), False),
        (UNTIMED, UNTIMED.replace("[rank-3/8] ", ""), False),
        (UNTIMED.replace("[rank-3/8] ", ""), UNTIMED, False),
        (FULL.replace("[rank-3/8] ", ""), FULL.replace("[rank-3/8] ", ""), False),
    ],
)
def test_another_rank_surely_repeats_it(known, again, repeats):
    layout, _ = learnt(again.replace("2026-13", "2026-03"))
    assert parsed(known).is_repeated_by(again.encode(), layout) is repeats


@pytest.mark.parametrize(
    ("block", "at", "found"),
    [
        (b"a\nb | elapsed c\nd", 0, (2, 15)),
        (b"a | elapsed", 0, (0, 11)),
        (b"a | b\nelapsed c\n| elapsed", 0, (6, 15)),
        (b"a | b\nc | d\n", 0, None),
        (b"elapsed\n", 0, None),
        (b"x | elapsed\ny | elapsed\n", 12, (12, 23)),
        (b"", 0, None),
        (b"x | elapsed\n\ny | elapsed\n", 12, (13, 24)),
    ],
)
def test_the_next_line_that_may_be_one(block, at, found):
    assert find_line(block, at) == found


@pytest.mark.parametrize(
    ("stamp", "known"),
    [
        ("", 0),
        (NOON, NOON_MICROS),
        ("2026-03-01T12:00:05.25Z", NOON_MICROS),
        ("20260301 12:00:05", NOON_MICROS - 250_000),
        ("2026-03-01 12:00:05,250", NOON_MICROS),
        ("2026-13-01 12:00:05", None),
        ("x", None),
    ],
)
def test_microseconds_of_a_time(stamp, known):
    assert layouts._micros(stamp) == known
