"""The analysis tier on Windows and macOS: modules that are missing, forms of paths, names of
files.
"""

from __future__ import annotations

import errno
import io
import itertools
import ntpath
import os
import re
import subprocess
import sys
import unicodedata
import zipfile
from pathlib import Path, PureWindowsPath

import pytest

from tprimat import files
from tprimat.cli.options import read as read_options
from tprimat.errors import UsageError
from tprimat.log_import import bundle, bundle_names, load, named, verify
from tprimat.log_import.given import NOTHING_GIVEN, GivenValues
from tprimat.read import mlflow
from tprimat.read.parsing import parsed_log
from tprimat.results.run import Run
from tprimat.store import naming, store

HIDDEN = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")

PROGRAM = """
import importlib, pkgutil, sys
from pathlib import Path

# What others import, and what Python itself has loaded, is theirs.
import matplotlib.figure, msgspec, numpy, rich.console, psutil, scipy.special, subprocess, filelock, tempfile
hidden = set(sys.argv[1].split(","))
for name in hidden:
    sys.modules.pop(name, None)

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import tprimat
imported = 0
for module in pkgutil.walk_packages(tprimat.__path__, "tprimat."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        # Modules of runs import their framework; nothing else may be missing.
        assert (error.name or "").split(".")[0] not in hidden, f"{module.name} needs {error.name}"
        continue
    imported += 1

from tprimat.store import store
from tprimat.cli import run
from tprimat.results.run import Run
directory = Path(sys.argv[2])
times = tuple(0.1 + step % 3 / 1000 for step in range(30))
none = (None,) * 30
for label, factor in (("a", 1.0), ("b", 1.1)):
    series = {"steps": tuple(range(1, 31)), "window_steps": (1,) * 30, "step_times": tuple(t * factor for t in times)}
    series |= {name: none for name in ("loss_values", "learning_rates", "grad_norms", "lines")}
    store.save(Run(platform="nvd", framework="nemo", model="llama", label=label, **series), directory)
from tprimat.record import recovery
(directory / ".journal").mkdir()
first = b'{"journal":1,"owner":{"pid":999999999}}'
(directory / ".journal" / "1-ab.jsonl").write_bytes(first + b'\\n{"run":{"model":"llama"}}\\n')
import os
# Of another machine, as this one tells no start time: it counts as gone only after a while.
os.utime(directory / ".journal" / "1-ab.jsonl", (0, 0))
(recovered,) = recovery.recover(directory)
assert recovered.run.status == "incomplete", recovered
status = run("compare", [str(directory)])
assert status in (0, 3), status
assert run("enhanced-metrics", [str(directory)]) in (0, 2, 3)
print("imported", imported)
"""


def test_nothing_in_it_needs_a_unix_only_module(tmp_path, repository):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(HIDDEN), str(tmp_path / "output")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 60
    assert "internal error" not in done.stderr


TIMES = tuple(0.1 + step % 3 / 1000 for step in range(30))


def run_of(**fields):
    none = (None,) * 30
    series = {"steps": tuple(range(1, 31)), "window_steps": (1,) * 30, "step_times": TIMES}
    series |= dict.fromkeys(("loss_values", "learning_rates", "grad_norms", "lines"), none)
    return Run(**{"platform": "nvd", "framework": "nemo", "model": "llama", **series, **fields})


@pytest.mark.parametrize(
    ("word", "name", "path"),
    [
        (r"C:\logs\run.log", None, r"C:\logs\run.log"),
        ("C:/logs/run.log", None, "C:/logs/run.log"),
        (r"new=C:\logs\run.log", "new", r"C:\logs\run.log"),
        (r"new=C:\logs\lr=0.1.log", "new", r"C:\logs\lr=0.1.log"),
        (r"C:\logs\lr=0.1.log", None, r"C:\logs\lr=0.1.log"),
        (r"logs\lr=0.1.log", None, r"logs\lr=0.1.log"),
        (r"new=C:\logs\*.log", "new", r"C:\logs\*.log"),
        (r"new=\\server\share\run.log", "new", r"\\server\share\run.log"),
        ("mode\u0300le=run.log", "mod\u00e8le", "run.log"),
    ],
)
def test_the_name_of_a_system_and_its_path(word, name, path):
    assert named.apart(word) == (name, path)


@pytest.mark.parametrize(
    ("word", "file"),
    [
        ("MI300X", ""),
        (r"C:\logs\amd.log=MI300X", r"C:\logs\amd.log"),
        (r"C:\logs\lr=0.1.log=MI300X", r"C:\logs\lr=0.1.log"),
    ],
)
def test_the_file_of_an_option(word, file):
    parsed = read_options.parser().parse_args(["run.log", "--gpu", word])
    assert parsed.log_values == [(file, "--gpu", "MI300X")]


class TestOptionsOfALog:
    """FILE=VALUE is for the logs with FILE in their path."""

    PATH = r"C:\Logs\NVIDIA\run.log"

    def value(self, file, path, label=None):
        given = GivenValues(label=label).with_options([(file, "--gpu", "H100")])
        return given.of(path).gpu

    @pytest.mark.parametrize(
        "file", [r"Logs\NVIDIA", "Logs/NVIDIA", "c:/logs/nvidia/run.log", "nvidia", "RUN.LOG"]
    )
    def test_neither_case_nor_slashes_count_on_windows(self, monkeypatch, file):
        monkeypatch.setattr(os.path, "normcase", ntpath.normcase)
        assert self.value(file, self.PATH) == "H100"

    def test_case_counts_elsewhere(self):
        assert self.value("nvidia", "logs/NVIDIA/run.log") is None
        assert self.value("NVIDIA", "logs/NVIDIA/run.log") == "H100"

    def test_accents_as_macos_gives_them(self):
        typed, of_file = "mod\u00e8le", "logs/mode\u0300le.log"
        assert unicodedata.normalize("NFC", of_file) != of_file
        assert self.value(typed, of_file) == "H100"
        assert self.value("mode\u0300le", "run.log", label=typed) == "H100"


class TestFilesOfOneTraining:
    """Which files of a directory belong together."""

    def test_metrics_of_mlflow(self, monkeypatch):
        monkeypatch.setattr(mlflow, "PurePath", PureWindowsPath)
        paths = [r"D:\mlruns\1\abc\metrics\loss", r"D:\mlruns\1\abc\metrics\train\step_time"]
        assert {mlflow._run_folder(path) for path in paths} == {r"D:\mlruns\1\abc"}
        found, other = mlflow._points(
            [parsed_log.InputFile(path, io.BytesIO(b"1700000001500 1.5 1\n")) for path in paths]
        )
        assert (found[0], other[0]) == ("loss", "train/step_time")

    def test_event_files_and_reports(self, monkeypatch):
        monkeypatch.setattr(parsed_log, "PurePath", PureWindowsPath)
        assert parsed_log.folder_of(r"C:\runs\a\events.out.tfevents.1") == r"C:\runs\a"
        assert parsed_log.without_rank(r"C:\runs\rank0") == parsed_log.without_rank(
            r"C:\runs\rank7"
        )

    def test_a_log_in_a_result_of_windows(self):
        assert bundle_names.bare(r"C:\logs\run.log.gz") == "run.log"


RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)


class TestNamesOfResults:
    """Names that every file system takes."""

    def test_whatever_a_model_and_a_system_are_called(self):
        texts = [
            "CON",
            "nul.txt",
            "a:b",
            r"..\x",
            "../x",
            "x.",
            "x ",
            " ",
            "",
            'a<b>|?*"',
            "mod\u00e8le",
            300 * "x",
        ]
        frameworks = ["nemo", "primus", "lightning", "con", "a/b", None]
        for platform, framework, text in itertools.product(
            ["nvd", "amd", "cpu", None], frameworks, texts
        ):
            name = naming.file_name(
                run_of(platform=platform, framework=framework, model=text, label=text or None)
            )
            assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*\.json", name)
            assert not RESERVED.match(name)
            assert len(name) < 230

    def test_two_that_differ_in_case_alone(self, tmp_path):
        """On Windows and macOS they would be one file: the directory may be copied there."""
        saved = [
            store.save(run_of(label=label), tmp_path).path.name
            for label in ("Old", "old", "OLD", "old")
        ]
        assert len({name.casefold() for name in saved}) == 3
        assert saved[1] == saved[3]
        loaded = [run.label for path in sorted(tmp_path.glob("*.json")) for run in store.read(path)]
        assert sorted(loaded) == ["OLD", "Old", "old", "old"]

    def test_a_file_that_another_program_holds_open(self, tmp_path, monkeypatch):
        """Windows replaces no file that is open: the older result stays, and nothing else."""
        path = store.save(run_of(), tmp_path).path
        before = path.read_bytes()

        def held(source, target):
            raise PermissionError(errno.EACCES, "The process cannot access the file", str(target))

        monkeypatch.setattr(os, "replace", held)
        with pytest.raises(UsageError) as raised:
            store.save(run_of(timestamp="2026-01-01T00:00:00+00:00"), tmp_path)
        assert (
            "the result cannot be written: The process cannot access the file"
            in raised.value.message
        )
        with pytest.raises(UsageError):
            files.write_output(tmp_path / "report.html", b"x", "--output")
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir() if file.name != files.LOCK_NAME] == [
            path.name
        ]


class TestArchives:
    """Members of an archive of another system."""

    @pytest.mark.parametrize(
        ("name", "place"),
        [
            (r"results\train.json", "results/train.json"),
            (r"C:\Users\me\run.log", "C_/Users/me/run.log"),
            (r"..\..\run.log", "run.log"),
            ("logs/run: 1.log", "logs/run_ 1.log"),
            ("logs/NUL.gz", "logs/_NUL.gz"),
            ("con/aux", "_con/_aux"),
            ("logs/concat.log", "logs/concat.log"),
            ("logs./run.log ", "logs_/run.log_"),
        ],
    )
    def test_where_they_are_written(self, name, place):
        assert bundle_names.place_of(name, Path("x")) == Path("x", place)

    def test_one_that_was_packed_on_windows(self, tmp_path):
        path = store.save(run_of(), tmp_path).path
        packed = tmp_path / "bundle.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(rf"mine\results\{path.name}", path.read_bytes())
        (verified,) = verify.verify(packed).runs
        assert (verified.result, verified.differences) == (path.name, ())
        (file,) = load.load([str(packed)], NOTHING_GIVEN).files
        assert tuple(file.runs[0].step_times) == TIMES

    def test_two_members_never_differ_in_case_alone(self):
        members = {"logs/Run.log.gz": b""}
        assert bundle._free("logs/run.log.gz", members) == "logs/run_2.log.gz"
