"""Exchanging a site: whole or not at all, whatever happens meanwhile, and files of others stay."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tprimat.errors import UsageError
from tprimat.publish import exchange

MARK = exchange._MARK.decode()
NAMES = (
    "index.html",
    "how.html",
    "gpus/index.html",
    "models/index.html",
    "data/record.json",
    "assets/site.css",
)


class Killed(BaseException):
    """What leaves no time to tidy up."""


def write(folder: Path, version: str, *more: str) -> None:
    """Write a site's files, all of one version."""
    with exchange.exchanged(folder) as new:
        fill(new, version, *more)


def fill(new: Path, version: str, *more: str) -> None:
    for name in (*NAMES, *more):
        (new / name).parent.mkdir(exist_ok=True)
        (new / name).write_text(f"{MARK if name.endswith('.html') else ''}{version}")


def fail(folder: Path) -> None:
    def write() -> None:
        with exchange.exchanged(folder) as new:
            (new / "index.html").write_text(f"{MARK}failed")
            raise OSError(28, "No space left on device")

    with pytest.raises(UsageError, match="No space"):
        write()


def versions(folder: Path) -> set[str]:
    return {(folder / name).read_text().removeprefix(MARK) for name in NAMES}


def files(folder: Path) -> set[str]:
    every = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    return {*every} - {exchange.LOCK_NAME}


def test_a_first_site_and_a_second_one(tmp_path):
    write(tmp_path / "site", "1", "gpus/gone.html")
    write(tmp_path / "site", "2", "gpus/new.html")
    assert versions(tmp_path / "site") == {"2"}
    assert files(tmp_path / "site") == {*NAMES, "gpus/new.html"}


def test_files_of_others_stay(tmp_path):
    write(tmp_path, "1")
    own = ("CNAME", "gpus/mine.html", "assets/deep/logo.png", "models/link.txt", "mine/page.html")
    for name in own:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to("x") if "link" in name else (tmp_path / name).write_text(
            "mine"
        )
    write(tmp_path, "2")
    assert versions(tmp_path) == {"2"}
    assert files(tmp_path) == {*NAMES, *own}


def test_nothing_is_written_through_a_link(tmp_path):
    site, outside = tmp_path / "site", tmp_path / "outside"
    write(site, "1")
    outside.mkdir()
    (outside / "mine.css").write_text("mine")
    (site / "assets" / "site.css").unlink()
    (site / "assets").rmdir()
    (site / "assets").symlink_to("../outside")
    (site / "how.html").unlink()
    (site / "how.html").symlink_to("../outside/mine.css")
    write(site, "2")
    assert versions(site) == {"2"}
    assert files(outside) == {"mine.css"}
    assert (outside / "mine.css").read_text() == "mine"


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("moves", range(13))
def test_killed_at_any_moment(tmp_path, monkeypatch, moves, is_first):
    """Between two renames only a new call can restore the site; it does, and files of others are
    still there.
    """
    site = tmp_path / "site"
    if not is_first:
        write(site, "1")
        (site / "models" / "mine.txt").write_text("mine")
    left = iter(range(moves))

    def one_more(move):
        def moved(path, target):
            if next(left, None) is None:
                raise Killed
            return move(path, target)

        return moved

    with monkeypatch.context() as patch:
        calls = []
        restore = exchange._restore
        patch.setattr(exchange, "_restore", lambda folder: restore(folder) if not calls else None)
        patch.setattr(Path, "rename", one_more(Path.rename))
        patch.setattr(Path, "replace", one_more(Path.replace))
        is_killed = False
        try:
            with exchange.exchanged(site) as new:
                calls.append(new)
                fill(new, "2")
        except Killed:
            is_killed = True
    fail(site)
    assert is_first or versions(site) == {"1" if is_killed else "2"}
    write(site, "3")
    assert versions(site) == {"3"}
    assert files(site) == {*NAMES, *(() if is_first else ("models/mine.txt",))}


def test_an_error_leaves_the_old_site(tmp_path):
    write(tmp_path, "1")
    fail(tmp_path)
    assert (versions(tmp_path), files(tmp_path)) == ({"1"}, {*NAMES})


def test_two_at_once_do_not_mix(tmp_path):
    started, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        with exchange.exchanged(tmp_path) as new:
            started.set()
            go_on.wait(20)
            fill(new, "1", "gpus/one.html")

    threads = [threading.Thread(target=slow), threading.Thread(target=write, args=(tmp_path, "2"))]
    threads[0].start()
    started.wait(20)
    threads[1].start()
    threads[1].join(0.3)
    assert threads[1].is_alive()
    assert not (tmp_path / "index.html").exists()
    go_on.set()
    for each in threads:
        each.join()
    assert (versions(tmp_path), files(tmp_path)) == ({"2"}, {*NAMES})


class TestCheck:
    def test_a_directory_with_other_files_is_refused(self, tmp_path):
        (tmp_path / "index.html").write_text("mine")
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "record.json").write_text('{"gpus": {}, "models": {}, "sources": {}}')
        with pytest.raises(UsageError, match="not a site"):
            write(tmp_path, "1")
        assert files(tmp_path) == {"index.html", "data/record.json"}

    def test_what_a_killed_call_left_is_a_site(self, tmp_path):
        (tmp_path / exchange.STAGING / "new").mkdir(parents=True)
        (tmp_path / exchange.LOCK_NAME).touch()
        write(tmp_path, "1")
        assert files(tmp_path) == {*NAMES}

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
    def test_a_pipe_is_no_page(self, tmp_path):
        os.mkfifo(tmp_path / "index.html")
        with pytest.raises(UsageError, match="not a site"):
            exchange.check(tmp_path)


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symbolic links")
def test_x6_a_linked_staging_directory_makes_no_site_of_a_directory(tmp_path):
    (tmp_path / "elsewhere" / "old").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "notes.txt").write_text("mine")
    (tmp_path / "here" / exchange.STAGING).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="not a site"):
        exchange.check(tmp_path / "here")
    (tmp_path / "here" / "index.html").write_text(MARK)
    (tmp_path / "elsewhere" / "new").mkdir()
    for folder in ("old", "new"):
        (tmp_path / "elsewhere" / folder / "index.html").write_text(MARK)
    before = sorted(tmp_path.glob("elsewhere/**/*"))
    write(tmp_path / "here", "new")
    assert sorted(tmp_path.glob("elsewhere/**/*")) == before
    assert not (tmp_path / "here" / exchange.STAGING).is_symlink()


@pytest.mark.skipif(
    not hasattr(os, "fchdir") or sys.version_info >= (3, 12), reason="deep directories are no fault"
)
def test_x8_directories_nested_too_deeply_are_an_error_of_the_directory(tmp_path):
    write(tmp_path, "old")
    here = Path.cwd()
    os.chdir(tmp_path / "data")
    try:
        for _ in range(1200):
            Path("d").mkdir()
            os.chdir("d")
        Path("own.txt").write_text("own")
    finally:
        os.chdir(here)
    with pytest.raises(UsageError, match="nested too deeply"):
        write(tmp_path, "new")
    assert versions(tmp_path) == {"old"}
    assert not (tmp_path / exchange.STAGING).exists()
    subprocess.run(["rm", "-rf", str(tmp_path / "data")], check=True)
