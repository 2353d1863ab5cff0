"""Which number of a line is taken for a part of one: by the lines of its shape, and by those it
resembles.
"""

from __future__ import annotations

import random

import pytest

from tprimat.read.parsing import torn
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.torn import TornLines


def shown(*texts: str, whole: bool = True, taken: bool = True) -> list[str]:
    """The lines as a reader gets them; `whole` is of the last one, `taken` whether the reader takes
    any.
    """
    lines, found = TornLines(), []
    for number, text in enumerate(texts, 1):

        def take(line: Line) -> bool:
            found.append(line.text)
            return taken

        assert lines.read(Line(number, text, whole or number < len(texts)), take) is taken
    return found


def last(*texts: str, **how) -> str:
    return shown(*texts, **how)[-1]


PAIRS = [f"step {step} loss {3 - step / 100:.3f}" for step in range(1, 9)]


@pytest.mark.parametrize(
    ("known", "text", "seen"),
    [
        # Decimals that three lines have are whole ones, others aren't.
        (PAIRS[:3], "step 4 loss 2.9", "step 4 loss ?"),
        (PAIRS[:2], "step 4 loss 2.9", "step 4 loss 2.9"),
        (PAIRS[:3], "step 4 loss 2.950", "step 4 loss 2.950"),
        (PAIRS[:3], "step 4 loss 2.", "step 4 loss ?"),
        # More decimals are no part of fewer; nor a number without any.
        (PAIRS[:3], "step 4 loss 2.9501", "step 4 loss 2.9501"),
        (PAIRS[:3], "step 4 loss 29", "step 4 loss ?"),
        # Eight characters with decimals are enough, but not with exponents.
        ([f"step {step} x 2.1234567890" for step in range(3)], "step 4 x 2.123456", "step 4 x 2.123456"),
        ([f"step {step} x 2.1234567890" for step in range(3)], "step 4 x 2.12345", "step 4 x ?"),
        ([f"step {step} x 2.1234567e-05" for step in range(3)], "step 4 x 2.123456", "step 4 x ?"),
        ([f"step {step} x 2.5e-05" for step in range(3)], "step 4 x 2.5e-0", "step 4 x ?"),
        ([f"step {step} x 2.5e-05" for step in range(3)], "step 4 x 2.5e-07", "step 4 x 2.5e-07"),
        # A shape that doesn't end in a number shows that its numbers are whole.
        ([f"loss {step}.125 end" for step in range(3)], "loss 4.1 end", "loss 4.1 end"),
        # A whole number that fell to less than a quarter.
        ([f"step {step} rate 900{step}" for step in range(3)], "step 4 rate 2250", "step 4 rate ?"),
        ([f"step {step} rate 900{step}" for step in range(3)], "step 4 rate 2251", "step 4 rate 2251"),
        ([f"step {step} rate 900{step}" for step in range(2)], "step 4 rate 90", "step 4 rate 90"),
        # The beginning of a known line, torn within its number or behind it.
        ([f"loss {step}.125 rate 5.50 x" for step in range(3)], "loss 4.1", "loss ?"),
        ([f"loss {step}.125 rate 5.50 x" for step in range(3)], "loss 4.125", "loss 4.125"),
        ([f"loss {step}.125 rate 5.50 x" for step in range(3)], "loss 4.125 rate 5.5", "loss 4.125 rate ?"),
        ([f"loss {step}.125 rate 5.50 x" for step in range(2)], "loss 4.1", "loss 4.1"),
        ([f"loss {step}.125 rate 5.50 x" for step in range(3)], "loss 4.125 ra", "loss 4.125 ra"),
        ([f"loss {step}.125 rate 5.50 x" for step in range(3)], "loss 4.1 ra", "loss 4.1 ra"),
        ([f"loss {step}.125 rate 5.50 x" for step in range(3)], "loss 4.12345", "loss ?"),
        ([f"loss {step}.125 rate 12345678 x" for step in range(3)], "loss 4.125 rate 12345678", "loss 4.125 rate ?"),
        # Of known decimals those that are a part of longer ones tell nothing.
        ([f"loss {step}{tail} end" for tail in (".125", ".1") for step in range(3)], "loss 4.1", "loss ?"),
        ([f"loss {step}{tail} end" for tail in (".125", ".1") for step in range(3)], "loss 4.125", "loss 4.125"),
        # Another process wrote on behind it.
        ([f"loss {step}.125, rate 5.50 x" for step in range(3)], "loss 4.1W0512 waited", "loss ?W0512 waited"),
        ([f"loss {step}.125, rate 5.50 x" for step in range(3)], "loss 4.125W0512 waited", "loss ?W0512 waited"),
        ([f"loss {step}.125" for step in range(3)], "loss 4.125, more 7", "loss 4.125, more 7"),
        ([f"loss {step}.125" for step in range(3)], "loss 4.1 more 7", "loss ? more 7"),
        ([f"loss {step}.125" for step in range(3)], "loss 4.1 | more 7", "loss 4.1 | more 7"),
        # No number is left, or nothing in common.
        (PAIRS[:3], "nothing", "nothing"),
        (PAIRS[:3], "other 2.9", "other 2.9"),
        # Of two shapes the one that it is like for longer tells.
        ([f"loss {step}.125 a 2.25 x" for step in range(3)] + [f"loss {step}.5 b 2.5 x" for step in range(3)],
         "loss 4.5 b 2.", "loss 4.5 b ?"),
    ],
)  # fmt: skip
def test_the_last_of_lines(known, text, seen):
    assert last(*known, text) == seen


def test_a_fall_that_lasts_is_none():
    """Three times it is doubtful; from then on the values are as small as this."""
    found = shown(
        *[f"step {step} rate 900{step}" for step in range(3)],
        *[f"step {step} rate 9{step}" for step in range(5)],
    )
    assert found[3:] == [
        *[f"step {step} rate ?" for step in range(3)],
        "step 3 rate 93",
        "step 4 rate 94",
    ]


def test_a_whole_value_between_ends_a_fall():
    texts = [
        *[f"rate 900{step}" for step in range(3)],
        "rate 90",
        "rate 91",
        "rate 9005",
        "rate 92",
        "rate 93",
        "rate 94",
    ]
    assert shown(*texts)[3:] == ["rate ?", "rate ?", "rate 9005", "rate ?", "rate ?", "rate ?"]


def test_decimals_become_known_ones_when_three_lines_have_them():
    found = shown(
        *PAIRS[:5], "step 6 loss 2.9", "step 7 loss 2.8", "step 8 loss 2.7", "step 9 loss 2.6"
    )
    assert found[5:] == ["step 6 loss ?", "step 7 loss ?", "step 8 loss ?", "step 9 loss 2.6"]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("step 5 loss 2.955", "step 5 loss ?"),
        ("step 5 loss 2.955 ", "step 5 loss 2.955 "),
        ("step 12", "step ?"),
    ],
)
def test_the_file_ends_within_a_number(text, seen):
    assert last("x 7 y", text, whole=False) == seen
    assert last("x 7 y", text) == text


def test_lines_that_the_reader_does_not_take_are_no_shapes():
    assert last(*PAIRS[:4], "step 5 loss 2.9", taken=False) == "step 5 loss 2.9"


@pytest.mark.parametrize(("shapes", "seen"), [(254, "z 5 loss ?"), (256, "z 5 loss 2.9")])
def test_so_many_shapes_are_known(shapes, seen):
    others = [f"{'x' * (number + 1)} 7" for number in range(shapes)]
    assert last(*others, *[f"z {step} loss 2.125" for step in range(3)], "z 5 loss 2.9") == seen


def test_a_known_shape_is_counted_on_when_there_are_enough():
    others = [f"{'x' * (number + 1)} 7" for number in range(torn.MOST_SHAPES)]
    texts = [
        *[f"z {step} loss 2.125" for step in range(3)],
        *others,
        *[f"z {step} loss 2.{step}" for step in range(5)],
    ]
    assert shown(*texts)[-5:] == [
        *[f"z {step} loss ?" for step in range(3)],
        "z 3 loss 2.3",
        "z 4 loss 2.4",
    ]


@pytest.mark.parametrize(
    ("length", "seen"), [(torn.LONGEST, "loss ?"), (torn.LONGEST + 1, "loss 4.1")]
)
def test_long_lines_are_left_alone(length, seen):
    known = [f"loss {step}.125 rate 5.50 x" for step in range(3)]
    text = "loss 4.1 " + " " * (length - 9)
    assert last(*known, text).rstrip() == seen


@pytest.mark.parametrize(
    ("number", "decimals"),
    [
        ("12", ""),
        ("1,234", ""),
        ("1,234.50", ".00"),
        ("2.", "."),
        ("2.5e-05", ".0e-00"),
        ("7e5", "e0"),
        ("0.25", ".00"),
    ],
)
def test_decimals(number, decimals):
    assert torn._decimals(number) == decimals


def every_text(texts: list[str], *, most_spellings: int, monkeypatch: pytest.MonkeyPatch) -> list:
    monkeypatch.setattr(torn, "MOST_SPELLINGS", most_spellings)
    return shown(*texts)


@pytest.mark.parametrize("seed", range(20))
def test_known_spellings_change_no_line(seed, monkeypatch):
    chance = random.Random(seed)
    texts = []
    for step in range(300):
        whole = f"step {step} loss {chance.uniform(1, 20):.{chance.choice((2, 2, 2, 3))}f} rate"
        text = f"{whole} {chance.choice((900, 900, 90000)) + step}{chance.choice(('', '', ' x'))}"
        texts.append(text[: chance.randrange(8, len(text))] if chance.random() < 0.1 else text)
    assert every_text(texts, most_spellings=4096, monkeypatch=monkeypatch) == every_text(
        texts, most_spellings=0, monkeypatch=monkeypatch
    )


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("x" * (torn.LONGEST_SPELLING - 7) + " {} 7 ms", True),
        ("x" * (torn.LONGEST_SPELLING - 6) + " {} 7 ms", False),
    ],
)
def test_spellings_of_so_many_bytes_are_kept(text, known):
    lines = TornLines()
    for step in range(torn.LEAST):
        lines.read(Line(step, text.format(step), True), lambda _: True)
        assert bool(lines._spellings) is (known and step == torn.LEAST - 1)


def test_so_many_spellings_are_kept(monkeypatch):
    monkeypatch.setattr(torn, "MOST_SPELLINGS", 2)
    lines = TornLines()
    for name in "abc":
        for step in range(torn.LEAST):
            lines.read(Line(step, f"{name} {step} ms", True), lambda _: True)
    assert sorted(lines._spellings) == [b"a 0 ms", b"b 0 ms"]


def test_lines_of_many_shapes_are_compared_once(monkeypatch):
    """A word that differs in each line makes many shapes; a shape with no more in common is skipped."""
    lines, compared = TornLines(), []
    words = [f"{chr(97 + n // 16)}{chr(97 + n % 16)}" for n in range(200)]
    for word in words * torn.LEAST:
        lines.read(Line(1, f"step 1 loss 2.5 shard={word}.bin", True), lambda line: True)
    shared = torn._shared
    monkeypatch.setattr(
        torn, "_shared", lambda *texts: bool(compared.append(texts)) or shared(*texts)
    )
    lines.read(Line(1, "step 1 loss 2.5 shard=zz.bin", True), lambda line: True)
    assert len(compared) == 1
