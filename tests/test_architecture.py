"""The rules of docs/architecture.md that a machine can see."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tprimat.commands import COMMANDS

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "tprimat"

# Which ring a module or folder of tprimat/ belongs to. What stands on the right may import what
# stands on its left; sources and judgement don't know each other.
RINGS = {
    "foundation": {
        "atomic_files", "earlier_fields", "earlier_forms", "efficiency", "errors", "flops", "hardware", "intervals",
        "levels", "metrics", "models", "plain_files", "prices", "published", "run", "stats", "store", "text", "units",
    },
    "sources": {
        "collect", "devices", "find_logs", "gpu_processes", "gpu_state", "host", "launch", "occupancy", "platforms",
        "read", "train",
    },
    "judgement": {"compare", "judge"},
    "report": {"report"},
    "commands": {"__main__", "commands"},
}  # fmt: skip
MAY_IMPORT = {
    "foundation": {"foundation"},
    "sources": {"foundation", "sources"},
    "judgement": {"foundation", "judgement"},
    "report": {"foundation", "judgement", "report"},
    "commands": {"foundation", "sources", "judgement", "report", "commands"},
}

HEAVY = ("jinja2", "lightning", "matplotlib", "numpy", "rich", "scipy", "torch", "transformers")
UNIX_ONLY = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
LONGEST_FILE = 450
"""Lines; one that passes some 400 has probably found a second job."""


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def entry_scripts() -> list[Path]:
    at_root = (path for path in REPOSITORY.glob("*.py") if path.read_text(encoding="utf-8").startswith("#!"))
    return sorted([*at_root, *(REPOSITORY / "scripts").glob("*.py")])


def own_code() -> list[Path]:
    """Every Python file of the repository but the tests."""
    folders = ("tprimat", "scripts", "tools", "benchmarks")
    return sorted([*REPOSITORY.glob("*.py"), *(path for name in folders for path in (REPOSITORY / name).rglob("*.py"))])


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def part_of(path: Path) -> str:
    """The module or folder directly below tprimat/ that a file is or lies in."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Modules that a file imports anywhere, by their full names, with the line."""
    package = path.relative_to(REPOSITORY).parent.parts
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join([*package[: len(package) - node.level + 1], node.module or ""]) if node.level else node.module
            )
            for alias in node.names:
                yield f"{base}.{alias.name}", node.lineno


def parts_imported(path: Path) -> Iterator[tuple[str, int]]:
    """The parts of tprimat/ that a file imports."""
    for module, line in imported(path):
        names = module.split(".")
        if names[0] == "tprimat" and len(names) > 1 and names[1] != "__version__":
            yield names[1], line


def ring_of(part: str) -> str:
    for ring, parts in RINGS.items():
        if part in parts:
            return ring
    raise AssertionError(f"tprimat/{part} has no ring: add it to RINGS in this file and to docs/architecture.md")


def test_there_is_something_to_look_at():
    assert len(modules()) > 10
    assert {"benchmark.py", "compare_results.py", "extract_primus_metrics.py"} <= {
        path.name for path in entry_scripts()
    }


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_go_one_way(path):
    part = part_of(path)
    if part == "__init__":
        assert list(parts_imported(path)) == []
        return
    allowed = MAY_IMPORT[ring_of(part)]
    wrong = [
        f"{name_of(path)}:{line} imports {other}"
        for other, line in parts_imported(path)
        if other != part and ring_of(other) not in allowed
    ]
    assert wrong == []


def test_no_ring_names_a_part_that_the_architecture_does_not_have():
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    there = {part_of(path) for path in modules()} - {"__init__", "__main__"}
    assert [part for part in sorted(there) if not re.search(rf"\b{part}\b", text)] == []


@pytest.mark.parametrize("path", [*modules(), *entry_scripts()], ids=name_of)
def test_every_module_says_what_it_is_for(path):
    assert (ast.get_docstring(tree(path)) or "").strip()


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_no_file_has_a_second_job(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("path", own_code(), ids=name_of)
def test_only_one_lightning_is_used(path):
    # lightning.pytorch and pytorch_lightning have separate classes: a callback of one is none of the other.
    assert [line for module, line in imported(path) if module.split(".")[0] == "pytorch_lightning"] == []


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_windows_can_import_it(path):
    bare = [node for node in tree(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in bare if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in bare if isinstance(node, ast.ImportFrom) and node.module}
    assert names & UNIX_ONLY == set()


class TestEntryScripts:
    @pytest.mark.parametrize("path", entry_scripts(), ids=name_of)
    def test_thin(self, path):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 20

    @pytest.mark.parametrize("path", entry_scripts(), ids=name_of)
    def test_an_older_python_can_read_it_up_to_its_refusal(self, path):
        body = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 7)).body
        refusal = next(
            i for i, node in enumerate(body) if isinstance(node, ast.If) and "version_info" in ast.dump(node)
        )
        before = [alias.name for node in body[:refusal] if isinstance(node, ast.Import) for alias in node.names]
        assert not any(isinstance(node, ast.ImportFrom) for node in body[:refusal])
        assert set(before) <= {"os", "sys"}

    @pytest.mark.parametrize("path", entry_scripts(), ids=name_of)
    def test_runs_a_command_that_there_is(self, path):
        (command,) = re.findall(r'\brun\("([a-z-]+)"', path.read_text(encoding="utf-8"))
        assert command in COMMANDS

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no executable bit")
    @pytest.mark.parametrize("path", entry_scripts(), ids=name_of)
    def test_can_be_started_by_its_name(self, path):
        assert path.stat().st_mode & 0o100


class TestCommands:
    def test_table_and_files_are_the_same(self):
        files = {path.stem.replace("_", "-") for path in (PACKAGE / "commands").glob("*.py") if path.stem != "__init__"}
        # What commands share lies in files with a leading underscore.
        assert {name for name in files if not name.startswith("-")} == set(COMMANDS)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_help_loads_nothing_heavy(self, command):
        code = (
            "import sys\n"
            "from tprimat.commands import run\n"
            "try:\n"
            f"    run({command!r}, ['--help'])\n"
            "except SystemExit:\n"
            "    pass\n"
            f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules])\n"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
        assert done.stderr == ""
        assert done.stdout.splitlines()[-1] == "LOADED []"
        assert "usage:" in done.stdout


class TestFolders:
    @pytest.mark.parametrize("path", sorted((PACKAGE / "read").rglob("*.py")), ids=name_of)
    def test_readers_neither_open_nor_print(self, path):
        assert list(calls(path, {"open", "print", "read_bytes", "read_text", "write_bytes", "write_text"})) == []

    @pytest.mark.parametrize("path", sorted((PACKAGE / "report").rglob("*.py")), ids=name_of)
    def test_reports_neither_write_nor_print(self, path):
        assert list(calls(path, {"open", "print", "write_bytes", "write_text"})) == []

    @pytest.mark.parametrize("path", sorted((PACKAGE / "launch").rglob("*.py")), ids=name_of)
    def test_only_one_launcher_module_starts_processes(self, path):
        starts = any(module.split(".")[0] == "subprocess" for module, _ in imported(path))
        assert not starts or path.stem == "family"

    def test_the_recorder_takes_its_clock_as_an_argument(self):
        names = {module.split(".")[0] for module, _ in imported(PACKAGE / "collect" / "recorder.py")}
        assert names & {"time", "torch"} == set()

    @pytest.mark.parametrize("path", modules(), ids=name_of)
    def test_every_module_is_used(self, path):
        """A file that nothing imports, runs or lists in a table was forgotten."""
        module = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")
        if part_of(path) in RINGS["commands"] or module == "tprimat":
            return
        short = module.rpartition(".")[2]
        for other in own_code():
            if other == path:
                continue
            if any(name == module or name.startswith(module + ".") for name, _ in imported(other)):
                return
            # Tables and child processes name a module as a string: "megatron", "tprimat.train.loop".
            strings = {node.value for node in ast.walk(tree(other)) if isinstance(node, ast.Constant)}
            if module in strings or (other == path.parent / "__init__.py" and short in strings):
                return
        pytest.fail(f"nothing uses {module}")

    def test_dialects_are_files(self):
        read = importlib.import_module("tprimat.read")
        names = {getattr(dialect, "__module__", None) or dialect.__name__ for dialect in read.DIALECTS}
        assert names
        for name in names:
            assert (REPOSITORY / Path(*name.split("."))).with_suffix(".py").is_file() or name == "tprimat.read"


class TestTroubleshooting:
    def test_every_heading_that_an_error_names_is_there(self):
        text = (REPOSITORY / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
        there = {anchor(line.lstrip("# ")) for line in text.splitlines() if line.startswith("#")}
        named = dict(headings())
        assert named
        assert {heading: place for heading, place in named.items() if heading not in there} == {}


def headings() -> Iterator[tuple[str, str]]:
    """Headings of docs/troubleshooting.md that the code names, and where."""
    for path in own_code():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.keyword) and node.arg == "heading" and isinstance(node.value, ast.Constant):
                yield node.value.value, f"{name_of(path)}:{node.value.lineno}"
        for heading in re.findall(r"troubleshooting\.md#([a-z0-9-]+)", path.read_text(encoding="utf-8")):
            yield heading, name_of(path)


def anchor(heading: str) -> str:
    """The anchor that a Markdown heading gets where the repository is read."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def calls(path: Path, names: set[str]) -> Iterator[str]:
    """Calls of functions or methods with one of these names."""
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", None)
        # rich is asked for text by printing to a console that records.
        on_console = isinstance(function, ast.Attribute) and name == "print"
        if name in names and not on_console:
            yield f"{name_of(path)}:{node.lineno} calls {name}"
