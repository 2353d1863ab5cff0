"""However a log's bytes come, whole blocks or single lines, the same is read of them."""

import functools
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from megatron_stories import stories
from megatron_writer import NEWER, Setup, Step, dump, line, lines, prefixed

from tprimat import read
from tprimat.errors import UnreadableError
from tprimat.read.megatron import line as megatron_line
from tprimat.read.megatron import reader as megatron
from tprimat.read.parsing import text
from tprimat.read.parsing.parsed_log import ParsedLog


def told(readings: list[ParsedLog]) -> list[tuple]:
    return [(reading.run(), reading.notes, dict(reading.stated)) for reading in readings]


@functools.lru_cache(maxsize=1)
def by_lines(content: bytes) -> list[tuple]:
    reader = megatron.Reader()
    for each in text.lines([content]):
        reader.feed(each)
    return told(reader.finish())


def by_blocks(content: bytes, rng: random.Random, sizes: tuple[int, ...]) -> list[tuple]:
    """As a log is read whose first line shows whose it is."""
    reader = megatron.Reader()
    blocks = text.Blocks()
    number, at = 1, 0
    while at < len(content):
        size = rng.choice(sizes)
        for block in blocks.feed(content[at : at + size]):
            number = reader.feed_block(number, block)
        at += size
    for block, whole in blocks.finish():
        for each in text.lines_of(block, number, whole=whole):
            reader.feed(each)
        number += block.count(b"\n")
    return told(reader.finish())


BARS = ("|", "|\n", " |\n ")
"""A bar, and two at which a line is wrapped."""

SIZES = (1, 30, 700, 5000, 1 << 18)


def same(content: bytes, seed: int = 0, sizes: tuple[int, ...] = SIZES) -> list[tuple]:
    found = by_lines(content)
    assert by_blocks(content, random.Random(seed), sizes) == found
    return found


def content_of(written: list[str], end: str = "\n") -> bytes:
    return "".join(f"{each}{end}" for each in written).encode("utf-8", "surrogateescape")


def ranks_of(
    count: int, setup: Setup, prefix: str = "coloured", ranks: tuple[int, ...] = (3, 0, 7, 5)
) -> list[str]:
    """The lines of several ranks, each with its own memory, a line of other output between
    iterations.
    """
    written = []
    for text_of_step in lines(
        [Step(number, 500.0 + number % 7) for number in range(1, count + 1)], setup
    ):
        for rank in ranks:
            mine = text_of_step.replace("28.56", f"{28 + rank}.56").replace(
                "0.6146", f"0.61{rank}6"
            )
            written.append(prefixed(mine, prefix, rank))
        written.append(prefixed("nothing of interest", prefix, ranks[0]))
    return written


class TestBlocks:
    @given(stories(), st.integers(0, 2**32), st.sampled_from(["\n", "\r\n"]))
    @settings(max_examples=100, deadline=None)
    def test_of_any_log_say_what_its_lines_say(self, story, seed, end):
        assert same(content_of(story.written(random.Random(seed)), end), seed)

    @pytest.mark.parametrize(
        ("world", "planned", "first"), [(64, 900, 424), (8, 900, 424), (8, 300, 424), (64, 900, 61)]
    )
    def test_of_a_training_behind_another_say_what_their_lines_say(self, world, planned, first):
        one, other = Setup("legacy", planned=60), Setup("legacy", planned=planned, world=world)
        written = ranks_of(60, one)
        for number in range(first, first + 60):
            said = line(Step(number, 700.0), other, f"2026-05-12 03:{number % 60:02d}:00.000000")
            written += [prefixed(said, "coloured", rank, world) for rank in (0, 5)]
        found = same(content_of(written))
        assert len(found) == (1 if first == 61 else 2)

    @pytest.mark.parametrize("first", [30, 61])
    def test_of_another_models_training_say_what_their_lines_say(self, first):
        setup = Setup("legacy", planned=200)
        written = [*dump(setup), *ranks_of(60, setup)]
        written += [
            each.replace(
                "hidden_size ..................................... 4096", "hidden_size ... 3584"
            )
            for each in dump(setup)
        ]
        for number in range(first, first + 60):
            said = line(Step(number, 700.0), setup, f"2026-05-12 03:{number % 60:02d}:00.000000")
            written += [prefixed(said, "coloured", rank) for rank in (0, 5)]
        found = same(content_of(written))
        assert [each[0].model_config.hidden_size for each in found] == [4096, 3584]

    @given(stories(most=2), stories(most=1), st.integers(0, 2**32))
    @settings(max_examples=50, deadline=None)
    def test_of_two_trainings_say_what_their_lines_say(self, one, other, seed):
        rng = random.Random(seed)
        assert same(content_of(one.written(rng) + other.written(rng, day=1)), seed)

    @given(stories(), st.integers(0, 2**32))
    @settings(max_examples=100, deadline=None)
    def test_of_damaged_lines_say_what_these_say(self, story, seed):
        rng = random.Random(seed)
        content = bytearray(content_of(story.written(rng)))
        for _ in range(rng.randint(1, 40)):
            content[rng.randrange(len(content))] = rng.choice(
                b"0123456789|:./-e \n\r[]ainf\x00\xff"
            )
        assert by_blocks(bytes(content), random.Random(seed), SIZES) == by_lines(bytes(content))

    @given(stories(most=1), st.integers(0, 2**32))
    @settings(max_examples=50, deadline=None)
    def test_with_colours_between_any_two_words_say_what_lines_say(self, story, seed):
        rng = random.Random(seed)
        written = []
        for each in story.written(rng):
            words = each.split(" ")
            for _ in range(rng.randint(0, 3)):
                place = rng.randrange(len(words))
                words[place] = (
                    rng.choice(("\x1b[01;31m\x1b[K", "\x1b[0m", "^[[1m", "\\u001b[0m"))
                    + words[place]
                )
            written.append(" ".join(words))
        assert by_blocks(content_of(written), random.Random(seed), SIZES) == by_lines(
            content_of(written)
        )

    @pytest.mark.parametrize("folder", ["primus", "megatron", "deepspeed"])
    def test_of_real_logs_say_what_their_lines_say(self, folder, samples):
        found = 0
        for path in sorted((samples / folder).glob("*.log")):
            for seed, sizes in enumerate([(1 << 18,), (1, 900), (4096,)]):
                found += len(same(path.read_bytes(), seed, sizes))
        assert found or folder == "deepspeed"

    @pytest.mark.parametrize("seed", range(3))
    def test_of_lines_that_are_wrapped_at_bars_say_what_these_say_unwrapped(self, seed):
        rng = random.Random(seed)
        steps = [Step(number, 500.0 + number, loss=10 - number / 10) for number in range(1, 13)]
        written = lines(steps, Setup("upstream"))
        wrapped = []
        for each in written:
            # The first part has the step and its time.
            beginning, sign, rest = each.partition("| throughput")
            parts = f"{sign}{rest}".split("|")
            wrapped.append(beginning + "".join(f"{part}{rng.choice(BARS)}" for part in parts[:-1]))
        ((run, *_),) = same(content_of(wrapped), seed)
        ((whole, *_),) = by_lines(content_of(written))
        assert msgspec.structs.replace(run, lines=whole.lines) == whole

    @pytest.mark.parametrize("after", ["a warning", "| a | table: 1 |", " mask: 1.0 |", ""])
    def test_of_a_line_that_is_torn_at_a_bar_are_taken_as_they_are(self, after):
        steps = [Step(number, 500.0 + number, loss=5.0) for number in range(1, 6)]
        torn = [each.partition(" throughput")[0] for each in lines(steps, Setup("upstream"))]
        ((run, *_),) = same(content_of([each for one in torn for each in (one, after)]))
        assert run.steps == (1, 2, 3, 4, 5)
        assert run.step_times == (0.501, 0.502, 0.503, 0.504, 0.505)
        assert not any(run.loss_values)

    @pytest.mark.parametrize("prefix", ["coloured", "slurm", "none"])
    @pytest.mark.parametrize("shape", ["upstream", "fork", "legacy", *NEWER])
    def test_of_several_ranks_are_taken_quickly(self, shape, prefix, monkeypatch):
        content = content_of(ranks_of(300, Setup(shape, planned=300), prefix))
        closely = []
        monkeypatch.setattr(
            megatron, "parse", lambda line: closely.append(line) or megatron_line.parse(line)
        )
        (found,) = by_blocks(content, random.Random(0), (2000,))
        monkeypatch.undo()
        assert len(found[0].steps) == 300
        assert by_lines(content) == [found]
        # Of 1,200 lines: each spelling once; the first lines of a process, and of conflicts that
        # are said.
        assert len(closely) < 24

    def test_tell_figures_that_differ_as_lines_do(self):
        setup = Setup("legacy", planned=20)
        once = lines([Step(number, 500.0) for number in range(1, 21)], setup)
        twice = [
            each for one in once for each in (one, one.replace("lm loss: 2.5", "lm loss: 7.5"))
        ]
        ((run, _, _),) = same(content_of(twice))
        assert (
            sum("printed twice with different values" in warning for warning in run.warnings) == 5
        )

    def test_of_lines_that_are_all_of_another_make(self):
        setup = Setup("core", planned=300)
        written = [
            f"host{'x' * (number % 97)} {each}"
            for number, each in enumerate(
                lines([Step(number, 500.0) for number in range(1, 301)], setup)
            )
        ]
        ((run, _, _),) = same(content_of(written))
        assert run.steps == tuple(range(1, 301))

    def test_of_a_process_that_goes_on_without_going_back(self):
        setup = Setup("core", planned=16)
        first = lines([Step(number, 500.0) for number in range(1, 9)], setup)
        later = [
            line(Step(9, 8000.0), setup, "2026-05-11 02:30:08.000000"),
            line(Step(10, 500.0), setup, "2026-05-11 02:30:08.500000", printed_ms=4250.0),
            *(line(Step(n, 500.0), setup, f"2026-05-11 02:30:{n}.000000") for n in range(11, 17)),
        ]
        content = content_of(
            [*first, *["noise"] * 50, *dump(Setup(planned=16, sequence=512)), *later]
        )
        ((run, _, _),) = same(content)
        assert run.step_times[8:10] == (8.0, 0.5)
        assert run.training_config.sequence_length == 512

    def test_that_are_held_unread_are_read_when_they_are_many(self, monkeypatch):
        monkeypatch.setattr(megatron.Context, "hold", bounded(megatron.Context.hold))
        setup = Setup("core", planned=12)
        written = [*dump(setup)]
        for each in lines([Step(number, 500.0) for number in range(1, 10)], setup):
            written += [each, *["nothing of interest"] * 400]
        written.append("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2 GiB")
        ((run, _, _),) = same(content_of(written), sizes=(3000,))
        assert "HIP out of memory" in run.status_reason


def bounded(hold):
    def held(self, number, block, *, dumped=False):
        hold(self, number, block, dumped=dumped)
        if len(block) > 1000:
            self.read()

    return held


class TestPatience:
    def test_ends_when_one_reader_has_steps_enough(self):
        content = content_of(ranks_of(60, Setup("core", planned=60)))
        log = read.new_feeder()
        log.feed(content)
        assert log.alone is not None
        assert log.alone.name == "megatron"
        assert told(read.parsed_logs(log, "a.log")) == by_lines(content)

    def test_lasts_as_long_as_no_reader_knows_the_log(self):
        log = read.new_feeder()
        log.feed(b"nothing of interest\n" * 3000)
        assert log.alone is None
        assert log.number == 3001
        with pytest.raises(UnreadableError):
            read.parsed_logs(log, "a.log")

    def test_keeps_all_readers_that_know_the_log(self):
        made = content_of(ranks_of(20, Setup("core", planned=20)))
        also = (
            b':::MLLOG {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key":'
            b' "seed", "value": 1}\n'
        )
        log = read.new_feeder()
        log.feed(also + made * 5)
        assert log.alone is None
