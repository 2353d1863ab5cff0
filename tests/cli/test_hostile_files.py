"""Logs, metric files, results and configurations that are out of all proportion: one answer each,
in bounds.
"""

from __future__ import annotations

import contextlib
import io
import json
import lzma
import os
import stat
import sys
import threading
import time
import zipfile
from pathlib import Path

import bounded
import event_writer
import made_hostile
import pytest
from made_hostile import FILES, MIB, RESULTS
from stored_runs import series
from test_verify import log_text

from tprimat import cli, files
from tprimat.errors import UnreadableError
from tprimat.frameworks.primus import config
from tprimat.log_import import extract, inputs, sources
from tprimat.read import tracelens, wandb_offline
from tprimat.read.kineto.events import EventStream
from tprimat.read.parsing import protobuf
from tprimat.read.parsing.parsed_log import InputFile
from tprimat.read.tensorboard import tfevents
from tprimat.record import recovery
from tprimat.results.run import Run
from tprimat.store import start_record, store
from tprimat.watch import growing

linux = pytest.mark.skipif(
    sys.platform != "linux", reason="limits addresses and reads the peak from /proc"
)
FEW = {
    *(
        "a log in xz with a dictionary",
        "a workbook of 10^5 parts",
        "an event file with a record of 2 GB",
    ),
    *("10^6 runs", "a start record of lists"),
}


def rows(table):
    return [
        each if each in FEW else pytest.param(each, marks=pytest.mark.reliability) for each in table
    ]


@linux
@pytest.mark.parametrize("what", rows(FILES))
def test_a_hostile_file_is_one_answer(tmp_path, repository, what):
    name, make = FILES[what]
    make(tmp_path / name)
    done = bounded.run(tmp_path, repository, "read", name)
    assert done.status in (0, 2), done.output
    assert "MemoryError" not in done.output
    assert len(done.output) < 8_000
    assert done.peak < made_hostile.PEAKS.get(what, 200 * MIB)
    assert done.seconds < 60


@linux
@pytest.mark.parametrize("command", ["compare", "enhanced-metrics", "read"])
@pytest.mark.parametrize("what", rows(RESULTS))
def test_a_hostile_result_is_one_answer(tmp_path, repository, what, command):
    name, make = RESULTS[what]
    make(tmp_path / name)
    if name.endswith(".env.json"):
        name = "x.log"
        (tmp_path / name).write_bytes(made_hostile.STEPS)
    done = bounded.run(tmp_path, repository, command, name)
    assert done.status in (0, 2, 3), done.output
    assert "MemoryError" not in done.output
    assert len(done.output) < 8_000
    assert done.seconds < 60


class TestTooLittleMemory:
    """A value that Python cannot hold is an error that names its file."""

    SAID = "reading it needs more memory than there is"

    @pytest.fixture(autouse=True)
    def full(self, monkeypatch):
        def fail(*_args, **_known):
            raise MemoryError

        self.fail = fail

    def test_a_result(self, tmp_path, monkeypatch):
        monkeypatch.setattr(store, "decode", self.fail)
        path = tmp_path / "x.json"
        path.write_text(json.dumps(made_hostile.RESULT))
        with pytest.raises(UnreadableError, match=f"x.json: {self.SAID}"):
            store.read(path)

    def test_a_log(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setattr(sources, "_read", self.fail)
        (tmp_path / "x.log").write_bytes(made_hostile.STEPS)
        assert cli.run("read", [str(tmp_path / "x.log"), "--output-dir", str(tmp_path)]) == 2
        assert f"x.log: {self.SAID}" in capsys.readouterr().err

    def test_a_journal_stays(self, tmp_path, monkeypatch):
        path = tmp_path / recovery.JOURNALS / "1-a.jsonl"
        path.parent.mkdir()
        path.write_bytes(b"{}\n")
        monkeypatch.setattr(recovery, "_turn_into_result", self.fail)
        (recovered,) = recovery.recover(tmp_path)
        assert "it needs more memory than there is" in recovered.line
        assert path.is_file()

    def test_a_command(self, monkeypatch, capsys):
        from tprimat.cli import doctor

        monkeypatch.setattr(doctor, "main", self.fail)
        assert cli.run("doctor", []) == 2
        assert f"tprimat doctor: {self.SAID}" in capsys.readouterr().err


# Limits, just below and just above


@pytest.mark.parametrize("more", [0, 1])
def test_small_files_are_bounded(tmp_path, more):
    path = tmp_path / "x.yaml"
    made_hostile.hole(b"", (4 << 20) + more)(path)
    if not more:
        assert len(files.read_plain(path)) == 4 << 20
        return
    with pytest.raises(OSError, match="larger than 4 MiB"):
        files.read_plain(path)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("begin", [b"", b'1,"7,5"\n'], ids=["plain", "commas"])
def test_lines_of_tables_are_bounded(begin, more):
    # With its end, one byte less than a MiB: a longer line is read in pieces.
    line = b"1," * ((1 << 19) - 1) + b"1" * more + b"\n"
    part = InputFile("x.csv", io.BytesIO(b"step,y\n" + begin + line))
    if not more:
        assert len(list(part.lines())) == 2 + bool(begin)
        if not begin:
            assert [len(row) for _, row in part.rows()] == [2, 1 << 19]
        return
    with pytest.raises(ValueError, match="a line is longer than 1 MiB"):
        list(part.lines())
    with pytest.raises(ValueError, match=r"a line is longer than 1 MiB|two ways"):
        list(part.rows())


@pytest.mark.parametrize("count", [1000, 1001])
def test_fields_of_a_message_are_bounded(count):
    message = b"".join(event_writer.varint(number << 3) + b"\0" for number in range(1, count + 1))
    if count == 1000:
        assert len(protobuf.fields_of(message)) == 1000
        return
    with pytest.raises(ValueError, match="more fields"):
        protobuf.fields_of(message)


@pytest.mark.parametrize(("size", "is_held"), [(1 << 24, True), ((1 << 24) + 1, False)])
def test_a_long_record_of_an_event_file_is_passed_over(monkeypatch, size, is_held):
    held = []
    monkeypatch.setattr(tfevents, "_add_event", lambda content, events: held.append(len(content)))
    record = made_hostile.event_record(size)
    short = event_writer.record(b"\x10\x01")
    events = tfevents.Events()
    tfevents.read_into(io.BytesIO(short + record + b"\0" * (size + 4) + short), events)
    assert held == [2, size if is_held else 0, 2]
    assert events.cut is None
    tfevents.read_into(io.BytesIO(record + b"\0" * (size + 3)), events)
    assert events.cut == "the file ends within a record"


@pytest.mark.parametrize("more", [0, 1])
def test_a_record_of_wandb_is_bounded(monkeypatch, more):
    monkeypatch.setattr(wandb_offline, "_LONGEST", 100_000)
    content = b"".join(made_hostile.wandb_record(b"x" * (100_000 + more)))
    assert [len(each) for each in wandb_offline._contents(io.BytesIO(content), [])] == [100_000] * (
        1 - more
    )


@pytest.mark.parametrize("more", [0, 1])
def test_the_event_of_a_trace_is_bounded(more):
    """Read in pieces that double from 4 MiB on, it is refused when it is longer than 32 MiB."""
    event = b'{"name": "' + b"x" * ((1 << 25) - 12 + more)
    stream = io.BytesIO(made_hostile.TRACE + event + b"x" * more * (1 << 22) + b'"}]}')
    events = EventStream(stream)
    if not more:
        assert [len(each.name) for piece in events.pieces() for each in piece] == [(1 << 25) - 12]
        return
    with pytest.raises(ValueError, match="an event is longer than 32 MiB"):
        list(events.pieces())


@pytest.mark.parametrize("more", [0, 1])
def test_a_journals_first_line_is_bounded(tmp_path, monkeypatch, more):
    monkeypatch.setattr(recovery, "LONGEST_LINE", 1000)
    path = tmp_path / recovery.JOURNALS / "1-a.jsonl"
    path.parent.mkdir()
    path.write_bytes(b" " * (1 << 20))
    read = []

    class File(io.FileIO):
        def readline(self, size=-1):
            read.append(size)
            return super().readline(size)

    with File(path, "r+") as file, contextlib.suppress(OSError):
        recovery._is_abandoned(path, file, None)
    assert read == [1000]


PRIMUS = "modules: {pre_trainer: {framework: megatron, model: x}}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
            + "".join(
                f"a{each}: &a{each} [{', '.join([f'*a{each - 1}'] * 9)}]\n" for each in range(1, 10)
            ),
            "more values",
            id="a billion laughs",
        ),
        pytest.param("a: &a {b: *a}\n", "more values", id="a circle"),
        pytest.param("a: 2026-13-32\n", "is not YAML", id="a day that isn't"),
        pytest.param(f"a: {'1' * 5000}\n", "is not YAML", id="5000 digits"),
        pytest.param("a: " + "[" * 30_000 + "\n", "is not YAML", id="deep"),
        pytest.param("a: " + "x" * (1 << 19) + "\n", "cannot be read", id="large"),
    ],
)
def test_hostile_yaml_is_refused(tmp_path, text, said):
    pytest.importorskip("yaml")
    path = tmp_path / "x.yaml"
    path.write_text(text + PRIMUS)
    with pytest.raises(UnreadableError, match=said):
        config.read(path, tmp_path, {})


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize(("bound", "sign"), [("MOST_OBJECTS", b"{"), ("MOST_VALUES", b",")])
def test_objects_and_values_of_a_result_are_bounded(tmp_path, monkeypatch, bound, sign, more):
    path = store.save(
        Run(platform="cpu", framework="lightning", model="llama", **series([0.5] * 3)), tmp_path
    ).path
    monkeypatch.setattr(store, bound, path.read_bytes().count(sign) - more)
    if not more:
        assert len(store.read(path)) == 1
        return
    with pytest.raises(UnreadableError, match="more objects or values than a result has"):
        store.read(path)


@pytest.mark.parametrize("values", [20_000, 20_001])
def test_values_of_a_configuration_are_bounded(tmp_path, values):
    # a, modules, and what is in them: 2, 1, 2.
    content = {
        "a": [1] * (values - 5),
        "modules": {"pre_trainer": {"framework": "megatron", "model": "x"}},
    }
    if values == 20_000:
        config._check_size(content, tmp_path)
        return
    with pytest.raises(UnreadableError, match="more values"):
        config._check_size(content, tmp_path)


class TestStartRecord:
    """The record of a start, *.env.json, beside a log."""

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"[]",
            b"\xff\xfe",
            b"{" * 300_000,
            b'{"experiment": 1}',
            b'{"experiment": "x", "started": []}',
        ],
        ids=["empty", "list", "bytes", "deep", "number", "wrong"],
    )
    def test_what_is_none_is_an_error(self, tmp_path, content):
        path = tmp_path / "x.env.json"
        path.write_bytes(content)
        with pytest.raises(UnreadableError, match=r"x\.env\.json"):
            start_record.read(path)

    def test_a_large_one_is_not_read(self, tmp_path):
        path = tmp_path / "x.env.json"
        made_hostile.hole(b'{"experiment": "x", "started": "y"}', 4 << 20)(path)
        with pytest.raises(UnreadableError, match="larger than 4 MiB"):
            start_record.read(path)

    def test_a_moment_without_an_offset_is_an_error(self, tmp_path, capsys):
        log = tmp_path / "x.log"
        log.write_bytes(b"experiment-1\n" + made_hostile.STEPS)
        start_record.path_for(log).write_text(
            '{"experiment": "experiment-1", "started": "2026-01-01"}'
        )
        assert cli.run("read", [str(log), "--output-dir", str(tmp_path / "out")]) == 2
        assert "x.env.json: is not a start record: timestamp must" in capsys.readouterr().err

    @pytest.mark.parametrize("value", [1e400, -1, 2**63, "x" * 100_000, [], {"a": {}}, None])
    @pytest.mark.parametrize(
        "field", ["gpu_info", "model_config", "command", "framework_config", "model"]
    )
    def test_any_value_in_any_field_is_a_result_or_an_error(self, tmp_path, capsys, field, value):
        log = tmp_path / "x.log"
        log.write_bytes(b"experiment-1\n" + made_hostile.STEPS)
        inner = {
            "gpu_info": "device_count",
            "model_config": "num_layers",
            "framework_config": "x",
        }.get(field)
        record = {
            "experiment": "experiment-1",
            "started": "2026-01-01T00:00:00+00:00",
            field: {inner: value} if inner else value,
        }
        start_record.path_for(log).write_text(json.dumps(record))
        assert cli.run("read", [str(log), "--output-dir", str(tmp_path / "out")]) in (0, 2)
        assert len(capsys.readouterr().err) < 2_000


class TestDictionaries:
    """xz and zstd state how much memory unpacking takes."""

    def read(self, tmp_path, content: bytes) -> inputs.Log:
        path = tmp_path / "x.log.xz"
        path.write_bytes(content)
        log = inputs.Log(str(path))
        self.content = b"".join(log.chunks())
        return log

    def test_the_largest_of_xz_itself_is_read(self, tmp_path):
        log = self.read(tmp_path, lzma.compress(made_hostile.STEPS, preset=9 | lzma.PRESET_EXTREME))
        assert (self.content, log.cut) == (made_hostile.STEPS, None)

    def test_a_larger_one(self, tmp_path):
        assert self.read(tmp_path, made_hostile.wide_xz(made_hostile.STEPS, 30)).cut is None
        with pytest.raises(UnreadableError, match="can't be unpacked: Memory usage limit exceeded"):
            self.read(tmp_path, made_hostile.wide_xz(made_hostile.STEPS, 34))

    @pytest.mark.parametrize("padding", [0, 4, 8 << 18])
    def test_streams_in_a_row(self, tmp_path, padding):
        one = lzma.compress(made_hostile.STEPS)
        log = self.read(tmp_path, one + b"\0" * padding + one + b"\0" * padding)
        assert (self.content, log.cut) == (made_hostile.STEPS * 2, None)

    def test_cut(self, tmp_path):
        log = self.read(tmp_path, lzma.compress(made_hostile.NOISE)[:-1000])
        assert made_hostile.NOISE.startswith(self.content)
        assert "ended before" in log.cut

    def test_a_window_of_zstd(self, tmp_path):
        pytest.importorskip("zstandard")
        with pytest.raises(UnreadableError, match="too much memory"):
            self.read(tmp_path, made_hostile.wide_zstd(made_hostile.STEPS))
        log = self.read(tmp_path, made_hostile.zstd(made_hostile.NOISE))
        assert (self.content, log.cut) == (made_hostile.NOISE, None)


class TestWorkbooks:
    def refused(self, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> str:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", method) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        try:
            tracelens._check_workbook(InputFile("x.xlsx", stream))
        except ValueError as error:
            return str(error)
        return ""

    @pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_what_zipfile_unpacks_at_once(self, method):
        assert self.refused(made_hostile.WORKBOOK, method) == "it is not packed with deflate"
        assert not self.refused(made_hostile.WORKBOOK, zipfile.ZIP_STORED)

    @pytest.mark.parametrize("tags", [1_000_000, 1_000_001])
    def test_tags(self, tags):
        content = b"".join(b"<a%d/>" % (number % 99_991) for number in range(tags))
        assert self.refused({"xl/styles.xml": content}) == (
            "it has more than 1000000 tags" * (tags > 1_000_000)
        )

    @pytest.mark.parametrize("more", [0, 1])
    def test_size(self, monkeypatch, more):
        monkeypatch.setattr(tracelens, "LARGEST_WORKBOOK", 1000)
        assert ("unpack to more" in self.refused({"x.xml": b"x" * (1000 + more)})) == bool(more)


class TestNothingYet:
    """What is read without waiting, and has nothing to read yet: io answers None."""

    @linux
    @pytest.mark.parametrize("command", ["compare", "publish", "export", "read"])
    def test_x8_a_log_that_only_calls_itself_a_plain_file_is_one_error(
        self, tmp_path, monkeypatch, capsys, command
    ):
        # As a link to /proc/kmsg does, which not everyone may read.
        (tmp_path / "a.log").write_text(log_text())
        os.mkfifo(tmp_path / "kmsg.log")
        writer = os.open(tmp_path / "kmsg.log", os.O_RDWR)
        monkeypatch.setattr(stat, "S_ISREG", lambda mode: True)
        monkeypatch.setattr(stat, "S_ISFIFO", lambda mode: False)
        monkeypatch.chdir(tmp_path)
        outputs = {"export": ["--csv", "x.csv"], "publish": ["--output-dir", "site"]}
        cli.run(command, [*outputs.get(command, []), "."])
        os.close(writer)
        said = capsys.readouterr()
        assert "internal error" not in said.err
        assert "kmsg.log" in said.out + said.err
        assert (
            "egatron" in said.out
            or (tmp_path / "x.csv").exists()
            or any((tmp_path / "site").glob("*.html"))
        )
        assert (said.out + said.err).count("it is a device, not a file") == 1

    @pytest.mark.parametrize("size", [-1, 1])
    def test_x8_a_plain_file_with_nothing_yet_is_an_error(self, tmp_path, size):
        (tmp_path / "x").write_bytes(b"")
        with files.open_plain(tmp_path / "x") as file:
            assert file.read(size) == b""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        with (
            io.BufferedReader(files._PlainFile(reader)) as file,
            pytest.raises(OSError, match="a device, not a file"),
        ):
            file.read(size)
        os.close(writer)

    @pytest.mark.skipif(not hasattr(os, "set_blocking"), reason="no such pipes on this system")
    @pytest.mark.parametrize("is_watched", [False, True])
    def test_x8_a_standard_input_that_does_not_block_is_waited_for(self, monkeypatch, is_watched):
        reader, writer = os.pipe()
        os.set_blocking(reader, False)

        def write_slowly():
            for line in (b"step 1\n", b"step 2\n"):
                time.sleep(0.2)
                os.write(writer, line)
            os.close(writer)

        threading.Thread(target=write_slowly).start()
        with os.fdopen(reader) as piped:
            monkeypatch.setattr(sys, "stdin", piped)
            if not is_watched:
                assert b"".join(inputs.Log("-").chunks()) == b"step 1\nstep 2\n"
                return
            log = growing.GrowingLogs("-", extract.NOTHING_GIVEN)
            while not log.ended:
                time.sleep(0.02)
            assert Path(log._spool.name).read_bytes() == b"step 1\nstep 2\n"
