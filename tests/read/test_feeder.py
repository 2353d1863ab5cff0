"""What each reader gets of a log, and from when on only those that know it."""

from __future__ import annotations

import pytest

from tprimat.read.parsing import feeder
from tprimat.read.parsing.feeder import DetectionLimits, LogFeeder
from tprimat.read.parsing.text import Line


class Fake:
    """A reader that knows a log by a word, and counts another one as a step."""

    def __init__(
        self, name: str, *signs: str, knows: str = "none", step: str = "none", blocks: bool = False
    ) -> None:
        self.name, self.all_signs, self._knows, self._step = name, signs, knows, step
        self.recognized = self.within = False
        self.steps_found = 0
        self.got: list[int] = []
        self.cut: list[int] = []
        self.fed: list[tuple[int, bytes]] = []
        if blocks:
            self.feed_block = self._feed_block

    def feed(self, line: Line) -> None:
        self.got.append(line.number)
        self.cut += [] if line.whole else [line.number]
        self.recognized = self.recognized or self._knows in line.text
        self.within = "open" in line.text or (self.within and "shut" not in line.text)
        self.steps_found += self._step in line.text

    def _feed_block(self, number: int, block: bytes) -> int:
        self.fed.append((number, block))
        return number + block.count(b"\n")

    def finish(self) -> list:
        return [self.name]


def fed(readers: list[Fake], lines: list[str], limits: DetectionLimits | None = None) -> LogFeeder:
    made = LogFeeder(readers, limits)
    made.feed_lines(Line(number, text, True) for number, text in enumerate(lines, 1))
    return made


def got(
    readers: list[Fake], lines: list[str], limits: DetectionLimits | None = None
) -> dict[str, list[int]]:
    fed(readers, lines, limits)
    return {reader.name: reader.got for reader in readers}


def test_the_first_lines_are_everybodys_and_others_of_those_who_hear():
    """The opening counts lines with something in them."""
    lines = ["", "x", "", "y", "z", "alpha", "w", "beta alpha", "w"]
    assert got([Fake("a", "alpha"), Fake("b", "beta"), Fake("c", "")], lines) == {
        "a": [2, 4, 6, 8], "b": [2, 4, 8], "c": [2, 4],
    }  # fmt: skip


def test_times_events_failures_and_the_line_behind_are_everybodys():
    lines = [
        "1",
        "2",
        "3",
        "4",
        "at 12:30:45 it",
        "6",
        "7",
        "saving checkpoint",
        "9",
        "10",
        "ValueError: x",
        "12",
        "13",
    ]
    assert got([Fake("a"), Fake("b")], lines) == {each: [1, 2, 5, 6, 8, 9, 11, 12] for each in "ab"}


def test_a_line_that_is_not_whole_is_everybodys():
    made = LogFeeder([Fake("a")])
    made.feed_lines([Line(number, "x", number != 5) for number in range(1, 8)])
    assert made.readers[0].got == [1, 2, 5, 6]


def test_who_knows_the_log_or_is_within_something_gets_every_line():
    lines = ["1", "2", "3", "open alpha", "5", "shut", "7", "alpha", "8", "known beta", "11", "12"]
    readers = [Fake("a", "alpha"), Fake("b", "beta", knows="known"), Fake("c", "gamma")]
    # Once within something a reader stays attentive.
    assert got(readers, lines) == {"a": [1, 2, *range(4, 13)], "b": [1, 2, 10, 11, 12], "c": [1, 2]}


def routes(*signs: tuple[str, ...]) -> dict:
    found = feeder._routes(signs)
    return {
        sign: to
        for sign, to in found.items()
        if not any(sign in each for each in feeder._SIGNS_FOR_ALL)
    }


def test_signs_and_who_reads_them():
    assert routes(("abc", "xyz", ""), ("ab", "q"), ("zab",)) == {
        "xyz": frozenset({0}), "ab": frozenset({0, 1, 2}), "q": frozenset({1}),
    }  # fmt: skip
    everybodys = feeder._routes((("heck",),))
    assert everybodys["heck"] is None
    assert "heckpoint" not in everybodys


@pytest.mark.parametrize(
    ("limits", "settled_at"),
    [
        # It looks once in 64 lines, here at the first of them.
        (DetectionLimits(steps=10, lines=10**6, known_lines=10**6), 64),
        (DetectionLimits(steps=64, lines=10**6, known_lines=10**6), 64),
        (DetectionLimits(steps=65, lines=10**6, known_lines=10**6), 128),
        (DetectionLimits(steps=10**6, lines=64, known_lines=10**6), 128),
        (DetectionLimits(steps=10**6, lines=65, known_lines=10**6), 192),
        (DetectionLimits(steps=10**6, lines=10**6, known_lines=128), 192),
        (DetectionLimits(steps=10**6, lines=10**6, known_lines=129), 256),
    ],
)
def test_from_when_on_other_readers_get_nothing(limits, settled_at):
    lines = ["known stepped"] * 320
    readers = [Fake("a", "known", knows="known", step="stepped"), Fake("b", "known")]
    found = got(readers, lines, limits)
    assert found == {"a": list(range(1, 321)), "b": list(range(1, settled_at + 1))}


def test_a_reader_that_counts_no_steps_is_alone_behind_so_many_lines():
    readers = [Fake("a", "known", knows="known"), Fake("b", "known")]
    limits = DetectionLimits(steps=1, lines=1, known_lines=128)
    assert got(readers, ["known"] * 320, limits)["b"] == list(range(1, 193))


def test_while_nobody_knows_the_log_all_hear_it():
    readers = [Fake("a", "x"), Fake("b", "x")]
    assert got(readers, ["x"] * 300, DetectionLimits(1, 1, 1)) == {
        each: list(range(1, 301)) for each in "ab"
    }


def test_limits_by_default():
    assert LogFeeder([])._limits == DetectionLimits(25, 2_000, 20_000)


@pytest.mark.parametrize(
    ("blocks", "others", "alone"), [(True, "", True), (False, "", False), (True, "known", False)]
)
def test_a_single_reader_takes_blocks(blocks, others, alone):
    one = Fake("a", "known", knows="known", step="known", blocks=blocks)
    made = LogFeeder([one, Fake("b", "known", knows=others or "none")], DetectionLimits(steps=25))
    made.feed(b"known\n" * 70)
    assert (made.alone is one, made.number) == (alone, 71)
    made.feed(b"known\nx\n")
    made.feed(b"last", whole=False)
    assert (one.fed, made.number) == ([(71, b"known\nx\n")] if alone else [], 73)
    assert one.got == [*range(1, 71), *([] if alone else [71, 72]), 73]
    assert one.cut == [73]


def test_names_with_what_was_found():
    assert LogFeeder([Fake("a"), Fake("b")]).finish() == [("a", ["a"]), ("b", ["b"])]


@pytest.mark.parametrize(
    ("lines", "opening", "document"),
    [
        (["", " a ", "b", "", "c", "d"], ["a", "b", "c"], False),
        (["{", '"a": 1', "}", ""], ["{", '"a": 1', "}"], True),
        (["[", "1", "2", "3", " ]"], ["[", "1", "2"], True),
        (["[", "1", "2", "3", "]", "4"], ["[", "1", "2"], False),
        (["[", "1", "2", "}"], ["[", "1", "2"], False),
        (["x", "{", "1", "}"], ["x", "{", "1"], False),
        (["{}"], ["{}"], False),
        ([], [], False),
    ],
)
def test_how_it_opens_and_closes(lines, opening, document):
    made = fed([], lines)
    assert (made.opening, made.document) == (opening, document)


def test_the_first_line_that_looks_like_a_step():
    lines = ["x", "step 3 loss 2.5", "step 4 loss 2.25"]
    assert fed([], lines).step_like == Line(2, "step 3 loss 2.5", True)
    assert fed([], ["x"]).step_like is None
    settled = [Fake("a", "known", knows="known", step="known")]
    assert fed(settled, ["known"] * 64 + lines).step_like is None


def test_readers_that_count_no_steps_or_find_some_before_they_know_the_log():
    assert fed([], ["x"] * 64).document is False
    uncounted = Fake("a", "x")
    del uncounted.steps_found
    uncounted.feed = lambda line: uncounted.got.append(line.number)
    assert got([uncounted], ["x"] * 80, DetectionLimits(1, 1, 1)) == {"a": list(range(1, 81))}
    # It counts from the first step on, and no reader knows the log: nobody gets more of it.
    assert got([Fake("a", "x", step="x")], ["x"] * 200, DetectionLimits(10**6, 10**6, 64)) == {
        "a": list(range(1, 129))
    }


def test_a_reader_that_has_steps_and_does_not_count_them_is_alone_after_so_many_lines():
    """A second one, such as DeepSpeed's beside the Trainer's, is heard until then."""
    limits = DetectionLimits(steps=1, lines=128, known_lines=10**6)
    readers = [Fake("a", "known", knows="known"), Fake("b", "know")]
    readers[0].has_steps = True
    readers[0].feed = lambda line: readers[0].got.append(line.number) or True
    readers[0].recognized = True
    assert got(readers, ["known"] * 320, limits)["b"] == list(range(1, 193))
    late = [Fake("a", "known", knows="known"), Fake("b", "known", knows="mine")]
    late[0].has_steps = True
    lines = [*["known"] * 150, "known mine", *["known"] * 169]
    assert got(late, lines, limits)["b"] == list(range(1, 321))


def fed_beyond(lines: list[str], *readers: Fake, **limits: int) -> LogFeeder:
    """Feed lines when the first reader, which has steps, is alone: from line 193 on."""
    readers[0].has_steps = True
    all_limits = {"steps": 25, "lines": 128, "known_lines": 10**6, **limits}
    return fed([*readers], [*["known"] * 192, *lines], DetectionLimits(**all_limits))


def test_a_line_that_is_no_step_is_overheard_by_who_has_a_sign_in_it():
    one, other = Fake("a", "known", knows="known"), Fake("b", "mine", "x1", knows="mine 7")
    fed_beyond(["mine 1", "12:30:45", "x", "x2", "mine 7", "12:30:45", "x"], one, other)
    # A sign may differ in its digits. Who knows the log then reads on.
    assert other.got == [1, 2, 193, 196, 197, 198, 199]
    assert one.got == list(range(1, 200))


def test_a_step_is_overheard_by_nobody():
    one, other = Fake("a", "known", knows="known"), Fake("b", "mine", knows="mine")
    feed = one.feed
    one.feed = lambda line: feed(line) or "step" in line.text
    fed_beyond(["mine step", "mine"], one, other)
    assert other.got == [1, 2, 194]


def test_nobody_overhears_beside_a_reader_that_counts_its_steps():
    one = Fake("a", "known", knows="known", step="known")
    other = Fake("b", "mine", knows="mine")
    fed_beyond(["mine"], one, other)
    assert other.got == [1, 2]


@pytest.mark.parametrize("length", [feeder.LONGEST_SPELLING, feeder.LONGEST_SPELLING + 1])
@pytest.mark.parametrize("most", [0, 1, 2])
def test_so_many_spellings_with_their_readers_are_kept(length, most, monkeypatch):
    monkeypatch.setattr(feeder, "MOST_SPELLINGS", most)
    one, other = Fake("a", "known", knows="known"), Fake("b", "mine")
    said = ["mine 1".rjust(length), "mine x", "known x", "mine 1".rjust(length)]
    made = fed_beyond(said, one, other)
    assert other.got == [1, 2, 193, 194, 196]
    kept = 3 if length == feeder.LONGEST_SPELLING else 2
    assert len(made._audience._by_spelling) == min(most, kept)
