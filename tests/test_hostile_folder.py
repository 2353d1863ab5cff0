"""Somebody's folder as the current directory: nothing in it is imported, executed or used as
configuration.

It holds logs, and beside them a module of the name of every module there is, which hands on to the
real one, settings of matplotlib and git, programs, and pipes. Each module and program leaves its
name in a file.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tprimat import current_directory, location
from tprimat.cli import run
from tprimat.log_import import sources
from tprimat.machine import host
from tprimat.machine.telemetry import sampler
from tprimat.report import plot

REPOSITORY = Path(__file__).resolve().parent.parent

LINE = "step:{step}/60 train_loss:{loss:.4f} train_time:{passed}ms step_avg:{ms}.00ms\n"
FILLER = "#" + "x" * 65534 + "\n"
"""Of the large logs: of two together other processes are started."""

MODULE = """import posix, sys
posix.write(posix.open({marks!r}, posix.O_WRONLY | posix.O_APPEND), {mark!r})
path = sys.path[:]
sys.path[:] = [each for each in path if each not in ("", {folder!r})]
del sys.modules[{name!r}]
try:
    __import__({name!r})
finally:
    sys.path[:] = path
"""
OPTIONAL = (
    "amdsmi benchmark_utils megatron nemo pynvml sitecustomize torch tprimat usercustomize"
    " zstandard"
)
NAMES = sorted(
    {*sys.stdlib_module_names, *metadata.packages_distributions(), *OPTIONAL.split()} - {"__main__"}
)
PROGRAMS = (
    "amd-smi",
    "fc-list",
    "gcc",
    "git",
    "ldconfig",
    "nvidia-smi",
    "rocm-smi",
    "rocminfo",
    "sbatch",
    "sh",
)
HAS_TORCH = importlib.util.find_spec("torch") is not None
ENTRY_POINT = (
    "import sys\nfrom tprimat.__main__ import main\nif __name__ == '__main__':\n   "
    " sys.exit(main())\n"
)
"""As pip writes bin/tprimat."""


class Folder:
    """The current directory, and what was started in it."""

    def __init__(self, path: Path) -> None:
        self.path, self.outside = path / "logs of somebody", path / "mine"
        self._by_python: dict[str, set[str]] = {}
        self.marks = self.outside / "marks"
        for folder in (self.path, self.outside / "bin"):
            folder.mkdir(parents=True)
        for name in filter(str.isidentifier, NAMES):
            self.plant(name)
        for name in PROGRAMS:
            (self.path / name).write_text(
                f"#!/bin/sh\necho 'program {name}' >> '{self.marks}'\n", encoding="utf-8"
            )
            (self.path / name).chmod(0o755)
        (self.path / "probe").mkdir()
        for name in ("probe/__init__.py", "probe/__main__.py"):
            (self.path / name).write_text("", encoding="utf-8")
        for name in ("objects", "refs"):
            (self.path / ".git" / name).mkdir(parents=True)
        (self.path / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        monitor = (
            "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"echo 'fsmonitor' >>"
            f" '{self.marks}' #\"\n"
        )
        (self.path / ".git" / "config").write_text(monitor, encoding="utf-8")
        (self.path / ".env").write_text(
            "PYTHONSTARTUP=evil.py\nTPRIMAT_TELEMETRY=wrong\n", encoding="utf-8"
        )
        (self.path / "pyvenv.cfg").write_text("home = /nowhere\n", encoding="utf-8")
        (self.path / "setup.cfg").write_text("[metadata\n", encoding="utf-8")
        (self.path / "evil.pth").write_text(
            f"import os; open({str(self.marks)!r}, 'a').write('pth')\n", encoding="utf-8"
        )
        if hasattr(os, "mkfifo"):
            os.mkfifo(self.path / "matplotlibrc")
            os.mkfifo(self.path / "pipe.log")
        for name, ms in {"a": 100, "b": 140}.items():
            steps = range(1, 61)
            text = "".join(
                LINE.format(step=step, loss=6 - step / ms, passed=step * ms, ms=ms)
                for step in steps
            )
            (self.path / f"{name}.log").write_text(
                text + FILLER * (sources.PARALLEL_FROM // 2 // len(FILLER) + 1)
            )
            (self.path / f"small_{name}.log").write_text(text)

    def plant(self, name: str) -> None:
        text = MODULE.format(
            marks=os.fsencode(self.marks),
            mark=f"{name}\n".encode(),
            name=name,
            folder=str(self.path),
        )
        (self.path / f"{name}.py").write_text(text, encoding="utf-8")

    def start(
        self, *argv: object, **variables: str
    ) -> tuple[subprocess.CompletedProcess[str], set[str]]:
        """Start a program in the folder, and return with it what was executed of the folder."""
        self.marks.write_text("", encoding="utf-8")
        unset = ("PYTHONPATH", "PYTHONSAFEPATH", "VIRTUAL_ENV", "MATPLOTLIBRC")
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        done = subprocess.run(
            [str(part) for part in argv],
            cwd=self.path,
            env={
                **environment,
                "COLUMNS": "100",
                "PATH": f"{environment['PATH']}{os.pathsep}",
                **variables,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
        )
        return done, set(self.marks.read_text(encoding="utf-8").splitlines())

    def executed_by_python(
        self, way: str, probe: list[object], variables: dict[str, str]
    ) -> set[str]:
        """Return what Python executes itself when a program that does nothing is started in a way,
        which is tried once.
        """
        if way not in self._by_python:
            self._by_python[way] = self.start(sys.executable, *probe, **variables)[1]
        return self._by_python[way]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = Folder(tmp_path_factory.mktemp("hostile"))
    shutil.copy(
        REPOSITORY / "tests/data/published/train_megatron_llama.json", made.path / "a_result.json"
    )
    shutil.copy(REPOSITORY / "tests/data/traces/rank0_trace.json", made.path / "trace.json")
    (made.path / "table.md").write_text(
        "| Model | GPU | Precision | #-GPUs | GBS | Sequence Length | Tokens / sec / GPU | TFLOP /"
        " sec / GPU |\n|--|--|--|--|--|--|--|--|\n| LLAMA3_8B | DGX-H100 | FP8 | 8 | 128 | 8192 |"
        " 14451 | 744 |\n",
        encoding="utf-8",
    )
    assert run("read", [str(made.path / "small_a.log"), "--quiet", "--output-dir", str(made.outside / "read"),
                        "--bundle", str(made.path / "bundle.tar.gz")]) == 0  # fmt: skip
    return made


WAYS = ("script", "module", "entry point")


def ways(
    way: str, folder: Folder, command: str, script: str
) -> tuple[list[object], list[object], dict[str, str]]:
    """How a command is started, how a program that does nothing is, and with which variables."""
    (folder.outside / "probe.py").write_text("", encoding="utf-8")
    if way == "script":
        return [REPOSITORY / script], [folder.outside / "probe.py"], {}
    if way == "module":
        return ["-m", "tprimat", command], ["-m", "probe"], {"PYTHONPATH": str(REPOSITORY)}
    entry_point = folder.outside / "bin" / "tprimat"
    entry_point.write_text(ENTRY_POINT, encoding="utf-8")
    # The empty entry at the end is the current directory, where Python looks for what it imports
    # before us.
    variables = {"PYTHONPATH": f"{REPOSITORY}{os.pathsep}"}
    return [entry_point, command], [folder.outside / "probe.py"], variables


COMMANDS = {
    "compare": ("script", "compare_results.py", "a.log b.log --results-dir {out}", 3),
    "read": ("entry point", "", "a.log b.log . --output-dir {out}", 0),
    "publish": ("module", "", "a.log b.log --output-dir {out}/site", 0),
    "export": ("entry point", "", "a.log b.log --csv {out}/steps.csv", 0),
    "efficiency": ("script", "enhanced_metrics.py", "a.log b.log", 0),
    "extract-primus": (
        "script",
        "extract_primus_metrics.py",
        "--log-file small_a.log --output {out}/x.json",
        0,
    ),
    "audit": ("module", "", "table.md", 0),
    "explain": ("module", "", "trace.json trace.json", 3),
    "verify": ("module", "", "bundle.tar.gz", 0),
    "watch": ("module", "", "small_a.log --interval 0.1 --max-stall 1", 0),
    "project": ("module", "", str(REPOSITORY / "tests/data/scaling") + " --gpus 128", 0),
    "doctor": ("module", "", "", 0),
    "benchmark": (
        "script",
        "benchmark.py",
        "--dry-run --model llama --output-dir {out}",
        0 if HAS_TORCH else 2,
    ),
    "collect": ("entry point", "", "4711", 2),
}


@pytest.mark.skipif(sys.platform == "win32", reason="plants pipes and shell scripts")
@pytest.mark.parametrize("command", COMMANDS)
def test_x1_nothing_in_the_current_directory_is_executed(folder, command):
    way, script, words, status = COMMANDS[command]
    argv, probe, variables = ways(way, folder, command, script)
    # With the module of our own name beside the logs `-m tprimat` starts that one: SECURITY.md.
    (folder.path / "tprimat.py").unlink(missing_ok=True)
    if way != "module":
        folder.plant("tprimat")
    by_python = folder.executed_by_python(way, probe, variables)
    done, executed = folder.start(
        sys.executable, *argv, *words.format(out=folder.outside / command).split(), **variables
    )
    assert executed - by_python == set(), done.stderr
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


LOADED_MODULES = """
import sys
found = {name: module.__spec__ for name, module in sys.modules.items() if "." not in name and module.__spec__}
print(*(name for name, spec in found.items() if spec.origin not in (None, "built-in", "frozen")))
"""


def test_x1_what_python_imports_from_the_current_directory_stands_in_security_md(tmp_path):
    """With `-m`, before it starts us."""
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe" / "__init__.py").write_text("")
    loaded = []
    for name in ("probe.py", "probe/__main__.py"):
        (tmp_path / name).write_text(LOADED_MODULES)
    for way in (["probe.py"], ["-m", "probe"]):
        command = [sys.executable, *way]
        loaded.append(
            set(subprocess.check_output(command, cwd=tmp_path, text=True, encoding="utf-8").split())
        )
    first, by_module = loaded
    assert "probe" in by_module - first
    text = (REPOSITORY / "SECURITY.md").read_text(encoding="utf-8")
    named = {name for name in by_module - first if name != "probe" and not name.startswith("_")}
    assert {name for name in named if f"`{name}`" not in text} == set()


@pytest.mark.skipif(
    sys.platform == "win32" or shutil.which("bash") is None, reason="needs bash, plants pipes"
)
def test_x1_the_shell_scripts(folder):
    folder.plant("tprimat")
    done, executed = folder.start(
        "bash", REPOSITORY / "run_primus_all.sh", "--help", PYTHON=sys.executable
    )
    assert (done.returncode, done.stderr, executed) == (0, "", set())


def test_x1_amds_package_loads_no_library_from_the_current_directory(tmp_path, monkeypatch):
    """Its wrapper ends its search for libamd_smi.so there."""
    (tmp_path / "amdsmi.py").write_text(
        "from pathlib import Path\nhere = Path.cwd() / 'libamd_smi.so'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    # What is imported here is gone for other tests.
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    del sys.modules["amdsmi"]
    assert host.vendor_library("amdsmi").here == tmp_path / "libamd_smi.so"
    (tmp_path / "libamd_smi.so").symlink_to("/nowhere")
    assert host.vendor_library("amdsmi") is None


SAMPLED = """
import time
from tprimat.machine.telemetry.sampler import Sampler
sampler = Sampler("cpu")
end = time.monotonic() + 60
while sampler.so_far() is None and time.monotonic() < end:
    time.sleep(0.05)
print(sampler.stop() is not None, sampler.unknown)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="plants pipes and shell scripts")
def test_x1_the_telemetry_of_a_training_beside_a_json_module(folder):
    program = folder.outside / "train.py"
    program.write_text(SAMPLED, encoding="utf-8")
    done, executed = folder.start(sys.executable, program, PYTHONPATH=str(REPOSITORY))
    assert (done.stdout, done.stderr, executed) == ("True None\n", "", set())


def test_x1_a_trace_to_play_is_found_from_every_directory(monkeypatch, tmp_path):
    started = {}
    monkeypatch.setattr(sampler.subprocess, "Popen", lambda *_, **known: started.update(known))
    monkeypatch.setenv("TPRIMAT_TELEMETRY", "replay:traces/eight.jsonl")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "deps", str(tmp_path / "more")]))
    monkeypatch.chdir(tmp_path)
    sampler.Sampler("cpu").stop()
    assert started["env"]["TPRIMAT_TELEMETRY"] == f"replay:{tmp_path / 'traces/eight.jsonl'}"
    entries = [str(REPOSITORY), str(tmp_path / "deps"), str(tmp_path / "more")]
    assert started["env"]["PYTHONPATH"].split(os.pathsep) == entries
    assert started["cwd"] == sys.prefix


LOADED = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
from tprimat.report import plot
print(plot._loaded().rcParams["savefig.dpi"])
"""


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.skipif(
    sys.platform != "linux", reason="limits the memory, and makes pipes and links to devices"
)
@pytest.mark.parametrize("where", ["current directory", "home"])
@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        endless,
        lambda path: path.write_bytes(b"\xff\xfe\n"),
        lambda path: path.write_text("savefig.dpi: 7\n"),
    ],
    ids=["a pipe", "an endless device", "no text", "settings"],
)
def test_x2_settings_of_matplotlib(tmp_path, make, where):
    home = tmp_path / "home" / ".config" / "matplotlib"
    home.mkdir(parents=True)
    make((home if where == "home" else tmp_path) / "matplotlibrc")
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "HOME": str(tmp_path / "home"),
            "MPLCONFIGDIR": "",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "figure\n"), done.stderr


def test_x2_a_plot_leaves_the_current_directory_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with location.elsewhere() as here:
        assert (str(here), str(Path.cwd())) == (str(tmp_path), os.path.realpath(sys.prefix))
    assert str(Path.cwd()) == str(tmp_path)
    with pytest.raises(KeyError), location.elsewhere():
        raise KeyError
    assert str(Path.cwd()) == str(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep the directory of a process")
def test_x1_a_current_directory_that_was_removed(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert sources._pool(2) is None
    with pytest.raises(plot.NoMatplotlibError):
        plot._loaded()
    current_directory.forget()


class TestForget:
    @pytest.fixture(autouse=True)
    def known(self, monkeypatch, tmp_path):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["/elsewhere/bin/tprimat"])
        self.here, self.rest = (
            str(tmp_path),
            ["/lib/python311.zip", "/lib/python3.11", "/lib/site-packages"],
        )

    @pytest.mark.parametrize(
        ("stated", "first", "left"),
        [
            (None, ["HERE"], []),
            (None, [""], []),
            (None, ["/elsewhere/bin"], ["/elsewhere/bin"]),
            (":/clone", ["HERE", "HERE", "/clone"], ["/clone"]),
            ("/clone:", ["/elsewhere/bin", "/clone", "HERE"], ["/elsewhere/bin", "/clone"]),
            (".", ["/elsewhere/bin", "HERE"], ["/elsewhere/bin"]),
            # Who spells it out means it.
            ("HERE", ["/elsewhere/bin", "HERE"], ["/elsewhere/bin", "HERE"]),
        ],
    )
    def test_x1_places_of_modules(self, monkeypatch, stated, first, left):
        if stated is None:
            monkeypatch.delenv("PYTHONPATH", raising=False)
        else:
            monkeypatch.setenv(
                "PYTHONPATH", stated.replace("HERE", self.here).replace(":", os.pathsep)
            )
        monkeypatch.setattr(
            sys, "path", [each.replace("HERE", self.here) for each in first] + self.rest
        )
        current_directory.forget()
        assert sys.path == [each.replace("HERE", self.here) for each in left] + self.rest
        assert not {"", "."} & {*os.environ.get("PYTHONPATH", "/x").split(os.pathsep)} - {""}

    def test_x1_the_directory_of_the_program_stays(self, monkeypatch, tmp_path):
        monkeypatch.setattr(sys, "argv", ["train.py"])
        monkeypatch.setattr(sys, "path", [self.here, *self.rest])
        current_directory.forget()
        assert sys.path == [self.here, *self.rest]

    def test_x1_that_of_the_standard_library_stays(self, monkeypatch):
        monkeypatch.delenv("PYTHONPATH", raising=False)
        monkeypatch.setattr(sys, "path", ["/elsewhere/bin", "/lib/python311.zip", self.here])
        current_directory.forget()
        assert sys.path == ["/elsewhere/bin", "/lib/python311.zip", self.here]

    def test_x1_places_of_programs(self, monkeypatch):
        monkeypatch.setenv("PATH", os.pathsep.join(["", "/usr/bin", ".", "/bin", ""]))
        current_directory.forget()
        assert os.environ["PATH"] == os.pathsep.join(["/usr/bin", "/bin"])
