"""Names that are no UTF-8, and directories that lie deep in one another: each command ends well."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from stored_runs import notes_of

from tprimat import cli
from tprimat.errors import UnreadableError
from tprimat.log_import import bundle, named
from tprimat.results.result_file import readable
from tprimat.results.run import Run, Source
from tprimat.store.history import files_below

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names of bytes")

CAFE = os.fsdecode(b"caf\xe9")
LEVELS = 1_900


@pytest.fixture
def place(tmp_path, repository, monkeypatch):
    """A working directory with a log, and one whose name and directory are in Latin-1."""
    log = repository / "tests" / "data" / "logs" / "litgpt_small.log"
    try:
        (tmp_path / CAFE).mkdir()
        shutil.copy(log, tmp_path / CAFE / f"{CAFE}.log")
    except OSError:
        pytest.skip("this file system takes no such names")
    shutil.copy(log, tmp_path / "x.log")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said_by(*words: str) -> tuple[int, str]:
    """The status and the output of a command in a process of its own, whose streams are UTF-8 as a
    terminal's.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(cli.__file__).parents[2]),
        "PYTHONUTF8": "1",
    }
    command = [sys.executable, "-m", "tprimat", *words]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, errors="replace", timeout=300
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("read LOG --json", 0),
        ("read LOG --bundle b.tar.gz", 0),
        ("read LOG --bundle CAFE/b.zip --output-dir CAFE/out", 0),
        ("read x.log --label CAFE --model-name CAFE --gpu CAFE", 0),
        ("export LOG --csv x.csv", 0),
        ("export CAFE=x.log --jsonl x.jsonl", 0),
        ("export LOG --parquet x.parquet", 0),
        ("compare LOG CAFE=x.log --global-batch-size 8 --sequence-length 64 --num-gpus 1", None),
        ("compare CAFE=LOG y=x.log --json --results-dir CAFE/out", None),
        ("compare --baseline LOG --candidate x.log --format github", None),
        ("publish CAFE --output-dir siteCAFE", 0),
        ("efficiency LOG --json", 0),
        ("watch LOG --max-stall 0.1 --json", 0),
        ("extract-primus --log-file LOG --output CAFE/x.json", None),
        ("explain LOG LOG", 2),
        ("verify LOG", 2),
        ("audit LOG", 2),
        ("benchmark --label CAFE --dry-run --json", 0),
    ],
)
def test_x8_a_name_that_is_no_utf8_ends_well(place, command, status):
    if "parquet" in command:
        pytest.importorskip("pyarrow")
    if command.startswith("benchmark"):
        pytest.importorskip("torch")
    words = [
        word.replace("LOG", f"{CAFE}/{CAFE}.log").replace("CAFE", CAFE) for word in command.split()
    ]
    done, said = said_by(*words)
    assert done in ((0, 2, 3) if status is None else (status,)), said
    assert "internal error" not in said
    for path in place.rglob("*.json"):
        assert json.loads(path.read_text(encoding="utf-8")) is not None


def test_x8_a_bundle_of_such_a_log_is_verified(place):
    assert said_by("read", f"{CAFE}/{CAFE}.log", "--bundle", "b.tar.gz")[0] == 0
    (result,) = Path("output").glob("*.json")
    assert (
        json.loads(result.read_text(encoding="utf-8"))["source"]["files"][0]["path"]
        == "caf?/caf?.log"
    )
    assert "Can be accepted" in said_by("verify", "b.tar.gz")[1]


def test_x8_a_bundle_finds_the_log_of_a_name_that_it_changes(place, capsys):
    shutil.copy("x.log", "run (1)#a.log")
    assert cli.run("read", ["run (1)#a.log", "--bundle", "b.zip"]) == 0
    assert cli.run("verify", ["b.zip"]) == 0
    assert "Can be accepted" in capsys.readouterr().out


def test_x8_every_text_of_a_run_can_be_written():
    config = {"a\udce9": ["b\ud800", {"c": "d\udfff"}]}
    run = Run(
        label="é\udce9",
        notes=notes_of("\udcff"),
        source=Source(kind="live", command=("a", "\udce9")),
    )
    run = readable(
        Run(
            **{
                **{name: getattr(run, name) for name in ("label", "notes", "source")},
                "model": "x",
            }
        )
    )
    assert (run.label, run.warnings, run.source.command) == ("é?", ("?",), ("a", "?"))
    assert readable(config) == {"a?": ["b?", {"c": "d?"}]}
    assert readable(plain := Run(label="é", notes=notes_of("ok"))) is plain


@pytest.fixture
def deep(tmp_path, monkeypatch):
    """A directory with a log, and with another log 1,900 directories below it."""
    monkeypatch.chdir(tmp_path)
    Path("top").mkdir()
    os.chdir("top")
    for _ in range(LEVELS):
        Path("d").mkdir()
        os.chdir("d")
    shutil.copy(Path(__file__).parents[1] / "data" / "logs" / "litgpt_small.log", "x.log")
    os.chdir(tmp_path)
    shutil.copy(Path(__file__).parents[1] / "data" / "logs" / "litgpt_small.log", "top/a.log")
    yield tmp_path
    # What removes it may call itself for each level too.
    subprocess.run(["rm", "-rf", str(tmp_path / "top")], check=True)


@pytest.mark.parametrize(
    "command", ["read", "compare", "publish", "export --csv x.csv", "efficiency"]
)
def test_x8_a_log_deep_down_is_read(deep, command):
    name, *more = command.split()
    done, said = said_by(name, "top", *more)
    assert done in (0, 2, 3), said
    assert "internal error" not in said


def test_x8_files_below_are_in_the_order_of_their_names(deep):
    for name in ("b/x", "b/c/y", "a/z", "history/h", ".hidden/i", "autotune/j"):
        (deep / "some" / name).parent.mkdir(parents=True, exist_ok=True)
        (deep / "some" / name).touch()
    (deep / "some" / "link").symlink_to(deep / "some" / "b")
    (deep / "some" / "q").touch()
    found = [
        path.relative_to(deep / "some").as_posix() for path in files_below(deep / "some", print)
    ]
    assert found == ["q", "a/z", "b/x", "b/c/y"]
    assert len(list(files_below(deep / "top", print))) == 2


def test_x8_a_pattern_that_is_too_deep_is_one_error(deep):
    if sys.version_info >= (3, 12):
        pytest.skip("the library lists such directories")
    with pytest.raises(UnreadableError, match="nested too deep"):
        named.named_files(["top/**/*.log"])


@pytest.mark.parametrize(
    ("levels", "is_read"), [(bundle.MOST_LEVELS, True), (bundle.MOST_LEVELS + 1, False)]
)
def test_x8_an_archive_is_unpacked_to_a_depth(deep, levels, is_read):
    with tarfile.open("b.tar.gz", "w:gz") as archive:
        archive.add("top/a.log", "d/" * (levels - 1) + "a.log")
    done, said = said_by("read", "b.tar.gz")
    assert (done == 0) is is_read
    assert ("unpacks to more than logs and results do" in said) is not is_read


def test_x8_a_window_that_is_too_large_is_said(tmp_path, capsys):
    pytest.importorskip("zstandard")
    from made_hostile import STEPS, wide_zstd

    (tmp_path / "x.log.zst").write_bytes(wide_zstd(STEPS))
    for command in ("read", "compare"):
        assert cli.run(command, [str(tmp_path / "x.log.zst")]) == 2
        said = capsys.readouterr().err
        assert "x.log.zst: can't be unpacked: " in said
        assert "is empty" not in said
