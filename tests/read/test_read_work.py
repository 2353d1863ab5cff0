"""Work and memory grow with a log no faster than the log: counted, not timed."""

import random
import re
import sys
import tracemalloc
from collections.abc import Callable, Iterable

import made_files
import made_logs
import pytest
from megatron_writer import SHAPES, Setup, Step, dump, line, lines, prefixed

from tprimat import read
from tprimat.errors import UnreadableError
from tprimat.read.megatron import reader as megatron
from tprimat.read.megatron import training
from tprimat.read.parsing import text
from tprimat.read.parsing.text import Line

SETUP = Setup("legacy", planned=100_000)


def step(number: int, day: int = 1, second: int = 0) -> str:
    stamp = (
        f"2026-05-{day:02d}"
        f" {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000000"
    )
    return line(Step(number, 500.0), SETUP, stamp)


def plain(many: int) -> list[str]:
    return [step(number, second=number) for number in range(1, many + 1)]


def doubled(many: int) -> list[str]:
    return [prefixed(each, "primus", rank) for each in plain(many // 4) for rank in (1, 5, 0, 7)]


def restarts(many: int) -> list[str]:
    """Every fourth line runs an iteration again."""
    written, number = [], 1
    for second in range(many):
        written.append(step(number, second=30 * second))
        number += 1 if second % 4 else -1
        number = max(number, 1)
    return written


def back_to_the_last(many: int) -> list[str]:
    """All iterations, and then the last one again and again."""
    return [
        *plain(many // 2),
        *(step(many // 2, second=30 * number) for number in range(many // 2, many)),
    ]


def late(many: int) -> list[str]:
    """The last iteration first, and all others late."""
    return [
        step(1),
        step(many, second=many),
        *(step(number, second=number) for number in range(2, many)),
    ]


def trainings(many: int) -> list[str]:
    return [step(1 + number % 3, second=40 * number) for number in range(many)]


def other_makes(many: int) -> list[str]:
    return [f"h{'x' * (number % 97)} {each}" for number, each in enumerate(plain(many))]


def dumps(many: int) -> list[str]:
    return dump(SETUP) * (many // 25)


def noise(many: int) -> list[str]:
    return [
        "RuntimeError: survived |",
        "a | table | with elapsed",
        "[rank3]: Traceback (most recent call last):",
    ] * (many // 3)


def gaps(many: int) -> list[str]:
    return [step(1000 * number, second=number) for number in range(1, many + 1)]


def bars(many: int) -> list[str]:
    return [f"{'|' * 40} elapsed {each}" for each in plain(many)]


LOGS = (
    plain,
    doubled,
    restarts,
    back_to_the_last,
    late,
    trainings,
    other_makes,
    dumps,
    noise,
    gaps,
    bars,
)


def calls_of(work: Callable[[], object]) -> int:
    """Calls of functions, of Python's own ones too, in some work."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def all_of(chunks: Iterable[bytes]) -> None:
    try:
        for reading in read.parse_chunks(chunks, "made.log"):
            reading.run()
    except UnreadableError:
        pass


def assert_linear(small: str, large: str) -> None:
    """Fail where a log twice as long takes more than some twice as many calls."""
    # What is imported late would count for the first one.
    all_of([small.encode()])
    few = calls_of(lambda: all_of([small.encode()]))
    assert calls_of(lambda: all_of([large.encode()])) <= 2.3 * few


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.__name__)
def test_twice_the_log_is_twice_the_work(log):
    assert_linear(*("\n".join(log(many)) for many in (600, 1200)))


NUMBER = re.compile(r"(?<![\d.])(?<!\d:)\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\d*:\d)")
"""A number that is no part of a time of day."""

NOT_CONTINUED = {
    "llama_factory",
    "automodel",
    "golden",
    "torchtitan",
    "wandb, history",
    "wandb, chart",
    "fairseq",
    "mindformers",
    "mmengine",
    "mmengine, epochs",
    "nanotron",
    "xtuner",
}
"""Synthetic logs whose step lines can't be continued, or that are read as a whole."""


def continued(log: str, many: int) -> str:
    """Return a log with more records: its last lines of each form that recurs, with what rises
    rising further.
    """
    lines, forms = log.splitlines(), {}
    for at, text_of_line in enumerate(lines):
        forms.setdefault(NUMBER.sub("#", text_of_line), []).append(at)
    recurring = sorted((at[-2:] for at in forms.values() if len(at) > 1), key=lambda at: at[1])
    more = []
    for number in range(1, many + 1):
        for first, last in recurring:
            earlier = map(float, NUMBER.findall(lines[first]))

            def next_value(match, earlier=earlier, number=number):
                value, rise = float(match[0]), float(match[0]) - next(earlier)
                decimals = len(match[0].partition(".")[2])
                # What doesn't rise varies, or equal records would be taken for copies of one.
                further = number * rise if rise > 0 else number % 7 / 100 if rise else 0.0
                return f"{value + further:.{decimals if rise >= 0 else 4}f}" if rise else match[0]

            more.append(NUMBER.sub(next_value, lines[last]))
    end = recurring[-1][1] + 1
    return "\n".join([*lines[:end], *more, *lines[end:]])


@pytest.mark.parametrize("name", sorted({*made_logs.LOGS, *made_files.OTHER_LOGS} - NOT_CONTINUED))
def test_twice_the_records_are_twice_the_work(name):
    log = {**made_logs.LOGS, **made_files.OTHER_LOGS}[name]
    small, large = (continued(log, many) for many in (150, 300))
    assert_linear(small, large)


@pytest.mark.parametrize(
    "unit", [b"x", b"\r", b"\x1b[", b"iteration 1/2 | elapsed time per iteration (ms): 5 | "]
)
def test_twice_the_line_without_an_end_is_twice_the_work(unit, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 4096)

    def chunks(size: int) -> list[bytes]:
        content = unit * (size // len(unit))
        return [content[at : at + 50] for at in range(0, len(content), 50)]

    few = calls_of(lambda: list(text.lines(chunks(50_000))))
    assert calls_of(lambda: list(text.lines(chunks(100_000)))) <= 2.3 * few


def test_chunks_of_a_long_line_are_not_copied_again_and_again():
    content = b"y" * (text.LONGEST_LINE - 10)
    joined = 0

    class Counted(text.Blocks):
        def _cut(self, chunk):
            nonlocal joined
            before = len(self._parts)
            found = super()._cut(chunk)
            joined += len(self._parts) <= before
            return found

    blocks = Counted()
    for at in range(0, len(content), 100):
        assert blocks.feed(content[at : at + 100]) == []
    assert joined == 0


def ranks_of(shape: str, many: int) -> Iterable[bytes]:
    """A log of eight ranks as a stream, which takes no memory itself."""
    rng = random.Random(3)
    setup = Setup(shape, planned=many)
    yield "\n".join(dump(setup)).encode() + b"\n"
    for number in range(1, many + 1):
        figures = Step(
            number,
            round(rng.uniform(400, 900), 1),
            rng.random(),
            rng.random() / 1e4,
            round(rng.random(), 3),
        )
        (text_of_step,) = lines([figures], setup)
        yield "".join(f"{prefixed(text_of_step, 'coloured', rank)}\n" for rank in range(8)).encode()


def test_lines_before_a_training_are_not_read_by_each_format_anew():
    written = [
        Line(each, f"Collecting torch=={each}.4.5 (from -r requirements.txt (line 3))", True)
        for each in range(2000)
    ]
    read.new_feeder().feed_lines(written[:1000])
    feeder = read.new_feeder()
    # 20 formats and their contexts: some eight calls each.
    assert calls_of(lambda: feeder.feed_lines(written[1000:])) < 200 * 1000


def test_of_what_lies_between_iterations_lines_with_events_alone_are_read():
    first = "".join(f"{each}\n" for each in plain(100)).encode()
    noise_lines = "[rank3] prefetched a batch, the queue is full\n" * 200
    stretch = (
        f"{noise_lines}saving checkpoint at iteration 7 to /ckpt in torch format\n{noise_lines}"
    )
    later = "".join(
        f"{stretch}{step(number, second=number)}\n" for number in range(101, 151)
    ).encode()
    calls_of(lambda: megatron.Reader().feed_block(1, first + later))
    reader = megatron.Reader()
    number = reader.feed_block(1, first)
    # 401 lines lie between two iterations.
    assert calls_of(lambda: reader.feed_block(number, later)) < 50 * 401
    by_line = megatron.Reader()
    for each in text.lines([first + later]):
        by_line.feed(each)
    marks = [each._trainings[-1].around.events.marks for each in (reader, by_line)]
    assert marks[0] == marks[1]
    assert len(marks[0]) == 50


def peak_of(work: Callable[[], object]) -> int:
    """Bytes that some work takes at most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", [SHAPES[3], "core"])
def test_a_step_takes_few_bytes_while_a_log_is_read(shape):
    few, many = 1_000, 4_000
    kept = []

    def reading(steps: int) -> None:
        kept.append(read.parse_chunks(ranks_of(shape, steps), "made.log"))

    reading(few)
    small = peak_of(lambda: reading(few))
    assert (peak_of(lambda: reading(many)) - small) / (many - few) < 250
    assert [found.steps for each in kept for found in each] == [few, few, many]


def test_lines_between_iterations_are_not_kept(monkeypatch):
    monkeypatch.setattr(training, "MOST_HELD", 2 << 20)
    reader = megatron.Reader()
    number = 1
    content = "".join(f"{each}\n" for each in plain(30)).encode()
    number = reader.feed_block(number, content)

    def feed() -> None:
        nonlocal number
        # Blocks of their own: 4.7 MiB in all.
        for _ in range(20):
            number = reader.feed_block(
                number, b"nothing of interest happens here, and much of it\n" * 5000
            )

    assert peak_of(feed) < 4 << 20
    (reading,) = reader.finish()
    assert reading.steps == 30
