from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from tprimat.record.sigterm import SigtermWatch

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows delivers no SIGTERM")


@pytest.fixture
def earlier():
    """An earlier handler, which notes what it gets; all is put back afterwards."""
    usual = signal.getsignal(signal.SIGTERM)
    seen = []
    signal.signal(signal.SIGTERM, lambda signum, frame: seen.append(signum))
    handler = signal.getsignal(signal.SIGTERM)
    yield seen, handler
    signal.signal(signal.SIGTERM, usual)


def no_last_words():
    raise AssertionError("nobody asked for last words")


def test_the_signal_is_noted_and_passed_on(earlier):
    seen, handler = earlier
    watch = SigtermWatch(no_last_words)
    watch.install()
    watch.install()
    os.kill(os.getpid(), signal.SIGTERM)
    assert watch.received
    assert seen == [signal.SIGTERM]
    watch.remove()
    watch.remove()
    assert signal.getsignal(signal.SIGTERM) is handler


def test_an_ignored_signal_ends_nothing(earlier):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    watch = SigtermWatch(no_last_words)
    watch.install()
    os.kill(os.getpid(), signal.SIGTERM)
    assert not watch.received
    watch.remove()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN


def test_a_handler_that_came_later_stays(earlier):
    watch = SigtermWatch(no_last_words)
    watch.install()
    ours = signal.getsignal(signal.SIGTERM)
    later = []

    def over_ours(signum, frame):
        later.append(signum)
        ours(signum, frame)

    signal.signal(signal.SIGTERM, over_ours)
    watch.remove()
    assert signal.getsignal(signal.SIGTERM) is over_ours
    os.kill(os.getpid(), signal.SIGTERM)
    assert later == [signal.SIGTERM]
    assert watch.received


def test_one_that_calls_ours_decides_itself_what_follows(earlier):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    watch = SigtermWatch(no_last_words)
    watch.install()
    ours = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda signum, frame: ours(signum, frame))
    os.kill(os.getpid(), signal.SIGTERM)  # we live on
    assert watch.received


def test_outside_the_main_thread_there_is_no_handler(earlier):
    _, handler = earlier
    watch = SigtermWatch(no_last_words)
    thread = threading.Thread(target=lambda: (watch.install(), watch.remove()))
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is handler


PROGRAM = """
import os, signal
from tprimat.record.sigterm import SigtermWatch

def last_words():
    print("last words", flush=True)
    return {ready}

watch = SigtermWatch(last_words)
watch.install()
os.kill(os.getpid(), signal.SIGTERM)
print("still here", flush=True)
watch.release()
print("not reached", flush=True)
"""


@pytest.mark.parametrize(
    ("ready", "said"),
    [(True, "last words\n"), (False, "last words\nstill here\n")],
    ids=["at once", "when released"],
)
def test_where_nobody_else_would_act_last_words_come_first(repository, ready, said):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(ready=ready)],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.stdout == said
    assert done.returncode == -signal.SIGTERM
