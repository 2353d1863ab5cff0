"""Lines before a training: most reach no reader, and a log reads as if all had reached every
reader.
"""

import random
import re

import made_files
import made_logs
import pytest

from tprimat import read
from tprimat.errors import UnreadableError
from tprimat.read.parsing import feeder
from tprimat.read.parsing.text import Line

MADE = {**made_logs.LOGS, **made_files.OTHER_LOGS}
INSTALLED = (
    "Collecting numpy=={0}.26 (from -r requirements.txt (line {0}))",
    "  Downloading torch-2.{0}.whl ({0} kB)",
    "Requirement already satisfied: wheel in /usr/lib/python3/dist-packages ({0}.2)",
    "",
    "[{0}/900] Linking CXX object src/CMakeFiles/blas.dir/file{0}.cpp.o",
    "copying kernels/file{0}.py -> build/lib.linux-x86_64/kernels",
)
TOLD = (
    "model {0} of torch.{0}: rate",
    "Building wheel {0}: step-by-step",
    "2026-05-11 02:18:20 extracted {0} files",
    "RuntimeError: wheel {0} failed.",
    "finished with exit code {0}",
    "| {0} | NVIDIA | --num-layers | seed = {0}",
)


def installation(lines: int, forms: tuple[str, ...] = INSTALLED) -> list[str]:
    chance = random.Random(3)
    return [chance.choice(forms).format(chance.randrange(1, 900)) for _ in range(lines)]


def found(lines: list[str]) -> object:
    numbered = [Line(number, text, True) for number, text in enumerate(lines, 1)]
    try:
        return repr(
            [
                (each.stated, each.notes, each.run())
                for each in read.parse_lines(numbered, "made.log")
            ]
        )
    except UnreadableError as error:
        return str(error)


@pytest.fixture
def to_all(monkeypatch):
    """Return a function after which every line reaches every reader."""
    return lambda: monkeypatch.setattr(
        feeder._Audience, "of", lambda audience, line, is_first: audience._readers
    )


@pytest.mark.parametrize("forms", [INSTALLED, INSTALLED + TOLD], ids=["installation", "with signs"])
@pytest.mark.parametrize("name", sorted(MADE))
def test_a_log_behind_an_installation_reads_as_if_all_readers_had_every_line(name, forms, to_all):
    log = MADE[name].splitlines()
    before = installation(200, forms)
    # Among the lines that come before the first record, too.
    mixed = [each for pair in zip(log[:10], installation(10, forms), strict=False) for each in pair]
    logs = [before + log, mixed + log[10:], log]
    some = [found(lines) for lines in logs]
    to_all()
    assert some == [found(lines) for lines in logs]


def test_a_line_of_an_installation_reaches_no_reader(monkeypatch):
    told = 0
    feeding = read.new_feeder()
    for reader in feeding.readers:

        def feed(line, whole=reader.feed):
            nonlocal told
            told += 1
            whole(line)

        monkeypatch.setattr(reader, "feed", feed)
    lines = installation(2_000)
    feeding.feed_lines(Line(number, text, True) for number, text in enumerate(lines, 1))
    # The first ones reach all, a file of JSON being one that begins like it.
    assert told <= feeder.OPENING * len(feeding.readers) * 2


@pytest.mark.parametrize("reader", read.log_formats(), ids=lambda reader: reader.name)
def test_a_reader_hears_the_signs_of_its_lines(reader):
    own = reader()
    assert not getattr(own, "within", False)
    signs = {sign for sign in getattr(reader, "signs", ()) if len(sign) > 2}
    assert signs <= set(own.all_signs)
    assert {row.sign for row in getattr(reader, "statements", ())} <= {*own.all_signs}


def test_a_sign_within_another_one_takes_its_place():
    routes = feeder._routes((("red colour", "colour: "), ("colour",), ("rror: lost",)))
    assert routes["colour"] == {0, 1}
    assert routes["rror"] is None
    assert not any(re.search("colour.|.colour|rror.", sign) for sign in routes)


def test_a_line_after_a_failure_and_a_line_with_a_time_reach_all():
    feeding = read.new_feeder()
    audience = feeding._audience
    texts = [
        "x",
        "RuntimeError: a message that",
        "goes on",
        "and ends",
        "at 10:11:12",
        "quiet",
        "quiet",
    ]
    lines = [Line(number, text, True) for number, text in enumerate(texts, 1)]
    audience.expect(lines)
    reached = [len(audience.of(line, is_first=False)) for line in lines]
    everybody = len(feeding.readers)
    assert reached == [0, everybody, everybody, 0, everybody, everybody, 0]
