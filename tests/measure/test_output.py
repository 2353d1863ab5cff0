"""What a child prints: bounded in memory and on disk, however much it is."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tprimat.frameworks.request import Launch
from tprimat.location import REPOSITORY
from tprimat.measure import output, process
from tprimat.measure.output import Output


class Log(io.BytesIO):
    """A log in memory; refuses what goes beyond `room` as a full disk does."""

    def __init__(self, room=None):
        super().__init__()
        self.room = room

    def write(self, content):
        if self.room is not None and self.tell() + len(content) > self.room:
            raise OSError(28, "No space left on device")
        return super().write(content)

    @property
    def text(self):
        return self.getvalue().decode()


def passed_on(content: bytes, log: Log, limit=1 << 20, on_line=None):
    """An Output that has taken in all of this."""
    lines: list[str] = []
    taken = Output(
        [(io.BufferedReader(io.BytesIO(content)), on_line or lines.append)], print, log, limit
    )
    taken.close(60)
    return taken, lines


def test_a_log_is_bounded_and_ends_with_the_last_lines():
    log = Log()
    taken, lines = passed_on(
        b"".join(b"line %d\n" % number for number in range(100_000)), log, limit=100_000
    )
    assert len(lines) == 100_000
    assert len(log.text) < 300_000
    written = log.text.splitlines()
    assert written[0] == "line 0"
    assert written[-1] == "line 99999"
    (cut,) = [line for line in written if line.startswith("[")]
    count = int(cut[1:].split()[0])
    assert written.index(cut) + count == 100_000
    assert taken.tail == tuple(f"line {number}" for number in range(99_988, 100_000))


def test_a_line_without_end_is_taken_in_pieces():
    log = Log()
    _, lines = passed_on(b"x" * 1_000_000, log)
    assert max(map(len, lines)) <= output.LONGEST_LINE
    assert sum(map(len, lines)) == 1_000_000


def test_characters_that_are_cut_by_reading_arrive_whole():
    text = "äöü€😀" * 40_000
    log = Log()
    passed_on(text.encode(), log, limit=1 << 30)
    assert log.text.replace("\n", "") == text


def test_a_full_disk_is_noted_and_lines_are_still_handed_on():
    log = Log(room=50)
    taken, lines = passed_on(
        b"".join(b"line %d\n" % number for number in range(5000)), log, limit=1 << 30
    )
    assert taken.trouble == "No space left on device"
    assert len(lines) == 5000
    assert taken.tail[-1] == "line 4999"
    assert len(log.getvalue()) <= 50


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX's")
class TestFloods:
    def run(self, code, tmp_path, **options):
        launch = Launch((sys.executable, "-c", code), {}, tmp_path)
        log = tmp_path / "child.log"
        return process.run(launch, log, on_line=lambda line: None, on_message=print, **options), log

    def test_one_that_never_stops_printing_is_still_ended_in_time(self, tmp_path):
        began = time.monotonic()
        code = (
            "import os\nwhile True: os.write(2, b'a line of a library that has lost its mind\\n' *"
            " 1000)"
        )
        ended, _ = self.run(code, tmp_path, limit_s=1.0, grace_s=2)
        assert ended.overdue
        # A bound at all: it would go on for ever.
        assert time.monotonic() - began < 1800

    def test_so_is_it_by_ctrl_c(self, tmp_path):
        code = "import os\nwhile True: os.write(1, b'a line\\n' * 1000)"
        log = tmp_path / "child.log"

        def interrupt():
            while not (log.exists() and log.stat().st_size > 10_000):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        ended, _ = self.run(code, tmp_path, grace_s=2)
        thread.join()
        assert ended.interrupted

    @pytest.mark.reliability
    def test_a_gigabyte_on_standard_error(self, tmp_path):
        code = (
            "import os\n"
            "block = b'%s\\n' % (b'x' * 99)\n"
            "left = 10**9\n"
            "while left > 0: left -= os.write(2, block * 600)\n"
            "os.write(2, b'the last word\\n')\n"
            "raise SystemExit(3)\n"
        )
        launch = Launch((sys.executable, "-c", code), {}, tmp_path)
        program = (
            "import re, sys\n"
            "from pathlib import Path\n"
            "from tprimat.measure import process\n"
            "from tprimat.frameworks.request import Launch\n"
            f"ended = process.run(Launch({launch.argv!r}, {{}}, Path({str(tmp_path)!r})),"
            " Path('child.log'),\n"
            "    on_line=print, on_message=print)\n"
            # What getrusage calls the peak may be the peak of the process that started this one.
            "status = Path('/proc/self/status')\n"
            "peak = re.search(r'VmHWM:\\s*(\\d+)', status.read_text())[1] if status.exists()"
            " else 0\n"
            "print(ended.status, ended.tail[-1], peak)\n"
        )
        root = os.fspath(REPOSITORY)
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            timeout=1800,
        )
        status, *last, peak_kib = done.stdout.split()
        assert (status, " ".join(last)) == ("3", "the last word"), done.stderr
        assert int(peak_kib) < 200_000
        size = (tmp_path / "child.log").stat().st_size
        assert output.LOG_CHARACTERS <= size < output.LOG_CHARACTERS + 2_000_000
