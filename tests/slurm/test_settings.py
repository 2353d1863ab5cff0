"""What a Slurm job is told: options over a small file."""

from __future__ import annotations

import pytest

from tprimat.errors import UsageError
from tprimat.slurm import settings


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "cluster.txt"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_file(file):
    path = file(
        "# ours\naccount = acct\npartition=batch # the short one\ntime = 1-12:00:00\nmounts ="
        " /a:/a, /b:/c\n"
    )
    assert settings.job(path, {}) == settings.SlurmJob(
        "acct", "batch", "1-12:00:00", None, ("/a:/a", "/b:/c")
    )


def test_options_win(file):
    job = settings.job(
        file("account = a\npartition = p\n"), {"account": "b", "time": None, "container": "image:1"}
    )
    assert (job.account, job.partition, job.time, job.container) == (
        "b",
        "p",
        "01:00:00",
        "image:1",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("acount = a\n", "cluster.txt:1: 'acount' .* did you mean account"),
        ("nonsense\n", "cluster.txt:1"),
        ("account = a\npartition = p\ntime = soon\n", "'soon' is not a Slurm time limit"),
        ("account = a\npartition = p\nmounts = /data\n", "source:target"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(file, text, words):
    with pytest.raises(UsageError, match=words):
        settings.job(file(text), {})


def test_the_cluster_decides_what_is_not_said():
    assert settings.job(None, {}) == settings.SlurmJob(None, None, "01:00:00", None, ())


def test_a_line_break_is_refused():
    """It would end the script's comment that holds the option."""
    with pytest.raises(UsageError, match="in one line"):
        settings.job(None, {"account": "a\nrm -rf x"})


def test_a_missing_file(tmp_path):
    with pytest.raises(UsageError, match="can't be read"):
        settings.job(tmp_path / "none", {})
