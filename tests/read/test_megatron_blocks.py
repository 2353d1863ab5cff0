"""However a log's bytes come, whole blocks or single lines or parts of the file, the same is read of them."""

import concurrent.futures
import hashlib
import os
import random
import signal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from megatron_stories import stories
from megatron_writer import NEWER, Setup, Step, dump, line, lines, prefixed

from tprimat import read
from tprimat.errors import UnreadableError
from tprimat.log_import import inputs, large_log
from tprimat.read.megatron import line as megatron_line
from tprimat.read.megatron import parts as megatron_parts
from tprimat.read.megatron import reader as megatron
from tprimat.read.parsing import text
from tprimat.read.parsing.feeder import DetectionLimits, LogFeeder
from tprimat.read.parsing.parsed_log import ParsedLog


def told(readings: list[ParsedLog]) -> list[tuple]:
    return [(reading.run(), reading.notes, dict(reading.stated)) for reading in readings]


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


SIZES = (1, 30, 700, 5000, 1 << 18)


def same(content: bytes, seed: int = 0, sizes: tuple[int, ...] = SIZES) -> list[tuple]:
    found = by_lines(content)
    assert by_blocks(content, random.Random(seed), sizes) == found
    return found


class Threads(concurrent.futures.ThreadPoolExecutor):
    """Stands for processes, which would take longer to start than the tests to run."""

    def __init__(self, workers, mp_context, initializer):
        super().__init__(workers, initializer=initializer)


@pytest.fixture(params=[0, 2000])
def in_parts(request, monkeypatch, tmp_path):
    """Reads content as a large file is read, in ranges of a few lines; more or less is left to the first process."""
    monkeypatch.setattr(large_log, "BEGINNING", request.param)
    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", Threads)
    monkeypatch.setattr(megatron_parts, "LINES_BEFORE", 3)
    monkeypatch.setattr(inputs, "CHUNK", 512)
    monkeypatch.setattr(read, "intake", lambda: LogFeeder([megatron.Reader()], DetectionLimits(steps=1, lines=1)))
    joined = []
    join = megatron.Reader.join

    def counted(*arguments):
        joined.append(join(*arguments))
        return joined[-1]

    monkeypatch.setattr(megatron.Reader, "join", counted)

    def reading(content: bytes, size: int) -> list[tuple]:
        path = tmp_path / "large.log"
        path.write_bytes(content)
        log = inputs.Log(str(path))
        found = told(large_log.readings(log, workers=2, least=1, size=size))
        assert log.source_file().bytes == len(content)
        return found

    reading.joined = joined
    return reading


def content_of(written: list[str], end: str = "\n") -> bytes:
    return "".join(f"{each}{end}" for each in written).encode("utf-8", "surrogateescape")


def ranks_of(count: int, setup: Setup, prefix: str = "coloured", ranks: tuple[int, ...] = (3, 0, 7, 5)) -> list[str]:
    """The lines of several ranks, each with its own memory, a line of other output between iterations."""
    written = []
    for text_of_step in lines([Step(number, 500.0 + number % 7) for number in range(1, count + 1)], setup):
        for rank in ranks:
            mine = text_of_step.replace("28.56", f"{28 + rank}.56").replace("0.6146", f"0.61{rank}6")
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
    def test_of_a_training_behind_another_say_what_their_lines_say(self, world, planned, first, in_parts):
        one, other = Setup("legacy", planned=60), Setup("legacy", planned=planned, world=world)
        written = ranks_of(60, one)
        for number in range(first, first + 60):
            said = line(Step(number, 700.0), other, f"2026-05-12 03:{number % 60:02d}:00.000000")
            written += [prefixed(said, "coloured", rank, world) for rank in (0, 5)]
        found = same(content_of(written))
        assert len(found) == (1 if first == 61 else 2)
        assert in_parts(content_of(written), 4000) == found

    @pytest.mark.parametrize("first", [30, 61])
    def test_of_another_models_training_say_what_their_lines_say(self, first, in_parts):
        setup = Setup("legacy", planned=200)
        written = [*dump(setup), *ranks_of(60, setup)]
        written += [
            each.replace("hidden_size ..................................... 4096", "hidden_size ... 3584")
            for each in dump(setup)
        ]
        for number in range(first, first + 60):
            said = line(Step(number, 700.0), setup, f"2026-05-12 03:{number % 60:02d}:00.000000")
            written += [prefixed(said, "coloured", rank) for rank in (0, 5)]
        found = same(content_of(written))
        assert [each[0].model_config.hidden_size for each in found] == [4096, 3584]
        assert in_parts(content_of(written), 4000) == found

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
            content[rng.randrange(len(content))] = rng.choice(b"0123456789|:./-e \n\r[]ainf\x00\xff")
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
                words[place] = rng.choice(("\x1b[01;31m\x1b[K", "\x1b[0m", "^[[1m", "\\u001b[0m")) + words[place]
            written.append(" ".join(words))
        assert by_blocks(content_of(written), random.Random(seed), SIZES) == by_lines(content_of(written))

    @pytest.mark.parametrize("folder", ["primus", "megatron", "deepspeed"])
    def test_of_real_logs_say_what_their_lines_say(self, folder, samples):
        found = 0
        for path in sorted((samples / folder).glob("*.log")):
            for seed, sizes in enumerate([(1 << 18,), (1, 900), (4096,)]):
                found += len(same(path.read_bytes(), seed, sizes))
        assert found or folder == "deepspeed"

    @pytest.mark.parametrize("prefix", ["coloured", "slurm", "none"])
    @pytest.mark.parametrize("shape", ["upstream", "fork", "legacy", *NEWER])
    def test_of_several_ranks_are_taken_quickly(self, shape, prefix, monkeypatch):
        content = content_of(ranks_of(60, Setup(shape, planned=60), prefix))
        closely = []
        monkeypatch.setattr(megatron, "records", lambda line: closely.append(line) or megatron_line.records(line))
        (found,) = by_blocks(content, random.Random(0), (2000,))
        monkeypatch.undo()
        assert len(found[0].steps) == 60
        assert by_lines(content) == [found]
        # Each layout once; the first lines of a process, and of conflicts that are said.
        assert len(closely) < 10

    def test_tell_figures_that_differ_as_lines_do(self):
        setup = Setup("legacy", planned=20)
        once = lines([Step(number, 500.0) for number in range(1, 21)], setup)
        twice = [each for one in once for each in (one, one.replace("lm loss: 2.5", "lm loss: 7.5"))]
        ((run, _, _),) = same(content_of(twice))
        assert sum("printed twice with different figures" in warning for warning in run.warnings) == 5

    def test_of_lines_that_are_all_of_another_make(self):
        setup = Setup("core", planned=300)
        written = [
            f"host{'x' * (number % 97)} {each}"
            for number, each in enumerate(lines([Step(number, 500.0) for number in range(1, 301)], setup))
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
        content = content_of([*first, *["noise"] * 50, *dump(Setup(planned=16, sequence=512)), *later])
        ((run, _, _),) = same(content)
        assert run.step_times[8:10] == (8.0, 0.5)
        assert run.training_config.sequence_length == 512

    def test_that_are_held_unread_are_read_when_they_are_many(self, monkeypatch):
        monkeypatch.setattr(megatron.Stretch, "hold", bounded(megatron.Stretch.hold))
        setup = Setup("core", planned=12)
        written = [*dump(setup)]
        for each in lines([Step(number, 500.0) for number in range(1, 10)], setup):
            written += [each, *["nothing of interest"] * 400]
        written.append("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2 GiB")
        ((run, _, _),) = same(content_of(written), sizes=(3000,))
        assert "HIP out of memory" in run.status_reason


def bounded(hold):
    def held(self, number, block):
        hold(self, number, block)
        if len(block) > 1000:
            self.context()

    return held


class TestParts:
    @given(stories(), st.integers(0, 2**32), st.sampled_from([300, 2500, 9000]))
    # The fixture only sets sizes, the same for every input.
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_of_any_log_say_what_its_lines_say(self, in_parts_again, story, seed, size):
        content = content_of(story.written(random.Random(seed)))
        assert in_parts_again(content, size) == by_lines(content)

    @pytest.fixture
    def in_parts_again(self, in_parts):
        return in_parts

    @pytest.mark.parametrize("size", [1500, 20_000, 60_000])
    @pytest.mark.parametrize("shape", ["upstream", "legacy", "core"])
    def test_are_joined(self, in_parts, shape, size):
        content = content_of(ranks_of(150, Setup(shape, planned=150)))
        assert in_parts(content, size) == by_lines(content)
        assert in_parts.joined == [True] * len(in_parts.joined)
        assert bool(in_parts.joined) == (size > 1500)

    def test_with_stragglers_of_the_iterations_before_are_joined(self, in_parts):
        written = ranks_of(200, Setup("core", planned=200))
        late = [each for index, each in enumerate(written) if index % 11 == 4]
        order = sorted((index + (7.5 if each in late else 0), each) for index, each in enumerate(written))
        content = content_of([each for _, each in order])
        assert in_parts(content, 30_000) == by_lines(content)
        assert any(in_parts.joined)

    def test_with_a_restart_in_the_middle(self, in_parts):
        setup = Setup("legacy", planned=200)
        first = ranks_of(150, setup)
        again = lines([Step(number, 700.0) for number in range(100, 201)], setup)
        again = [each.replace("2026-05-11", "2026-05-12") for each in again]
        content = content_of([*first, *dump(setup), *again])
        found = in_parts(content, 20_000)
        assert found == by_lines(content)
        assert found[0][0].step_times[99:101] == (0.7, 0.7)

    def test_with_another_training_behind_it(self, in_parts):
        setup = Setup("core", planned=100)
        other = [each.replace("2026-05-11", "2026-05-12") for each in ranks_of(100, setup)]
        content = content_of([*ranks_of(100, setup), *dump(setup), *other, "RuntimeError: at the end"])
        found = in_parts(content, 15_000)
        assert found == by_lines(content)
        assert len(found) == 2

    def test_with_a_line_as_long_as_several_ranges(self, in_parts):
        written = ranks_of(120, Setup("core", planned=120))
        content = content_of([*written[:300], "x" * 100_000, *written[300:]])
        assert in_parts(content, 20_000) == by_lines(content)

    def test_without_an_end_of_the_last_line(self, in_parts):
        content = content_of(ranks_of(120, Setup("core", planned=120)))
        for end in (1, 40, 300):
            assert in_parts(content[:-end], 20_000) == by_lines(content[:-end])

    def test_of_a_file_that_grows_meanwhile(self, in_parts, monkeypatch):
        content = content_of(ranks_of(120, Setup("core", planned=120)))
        monkeypatch.setattr(large_log, "_size_of", lambda log: len(content) - 5000)
        assert in_parts(content, 20_000) == by_lines(content)

    def test_of_a_file_that_goes_on_growing(self, in_parts, monkeypatch):
        content = content_of(ranks_of(120, Setup("core", planned=120)))

        class Growing(inputs.Log):
            def chunks(self):
                yield from super().chunks()
                yield from [] if self is asked[0] else [content]

        asked = []
        monkeypatch.setattr(inputs, "Log", lambda path: asked.append(Growing(path)) or asked[-1])
        monkeypatch.setattr(large_log, "_size_of", lambda log: len(content) - 5000)
        assert in_parts(content, 20_000) == by_lines(content)
        assert len(asked) == 2

    def test_of_a_file_that_another_one_replaces_meanwhile(self, in_parts, monkeypatch):
        content = content_of(ranks_of(120, Setup("core", planned=120)))
        files = iter([(0, 0)])
        monkeypatch.setattr(large_log, "_file_of", lambda stream: next(files, (0, 1)))
        assert in_parts(content, 20_000) == by_lines(content)
        assert in_parts.joined == []

    def test_where_no_process_can_be_had(self, in_parts, monkeypatch):
        def refuse(*arguments, **options):
            raise OSError(11, "no more processes")

        monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", refuse)
        content = content_of(ranks_of(120, Setup("core", planned=120)))
        assert in_parts(content, 20_000) == by_lines(content)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_share_a_log(method, tmp_path, monkeypatch):
    import multiprocessing

    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"{method} is no way to start a process here")
    path = tmp_path / "large.log"
    content = content_of(ranks_of(600, Setup("core", planned=600)))
    path.write_bytes(content)
    monkeypatch.setattr(large_log, "BEGINNING", 50_000)
    found = large_log.readings(inputs.Log(str(path)), workers=2, least=1, size=200_000, start_method=method)
    assert told(found) == by_lines(content)


def killed(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked off on Unix alone")
def test_where_processes_are_killed_one_reads_on(tmp_path, monkeypatch):
    path = tmp_path / "large.log"
    content = content_of(ranks_of(200, Setup("core", planned=200)))
    path.write_bytes(content)
    monkeypatch.setattr(large_log, "BEGINNING", 50_000)
    monkeypatch.setattr(large_log, "segments_of", killed)
    log = inputs.Log(str(path))
    found = large_log.readings(log, workers=2, least=1, size=50_000, start_method="fork")
    assert told(found) == by_lines(content)
    assert log.source_file().sha256 == hashlib.sha256(content).hexdigest()


def test_a_process_does_not_read_a_file_that_has_taken_the_name(tmp_path):
    path = tmp_path / "large.log"
    path.write_bytes(content_of(ranks_of(60, Setup("core", planned=60))))
    with path.open("rb") as stream:
        former = large_log._file_of(stream)
        assert large_log.segments_of(str(path), former, 0, 9000)
        path.rename(tmp_path / "large.log.1")
        path.write_bytes(b"started anew\n" * 2000)
        with pytest.raises(FileNotFoundError, match="another file"):
            large_log.segments_of(str(path), former, 0, 9000)


class TestPatience:
    def test_ends_when_one_reader_has_steps_enough(self):
        content = content_of(ranks_of(60, Setup("core", planned=60)))
        log = read.intake()
        log.feed(content)
        assert log.alone is log.readers[0]
        assert told(read.readings_in(log, "a.log")) == by_lines(content)

    def test_lasts_as_long_as_no_reader_knows_the_log(self):
        log = read.intake()
        log.feed(b"nothing of interest\n" * 3000)
        assert log.alone is None
        assert log.number == 3001
        with pytest.raises(UnreadableError):
            read.readings_in(log, "a.log")

    def test_keeps_all_readers_that_know_the_log(self):
        made = content_of(ranks_of(20, Setup("core", planned=20)))
        also = b':::MLLOG {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": "seed", "value": 1}\n'
        log = read.intake()
        log.feed(also + made * 5)
        assert log.alone is None
