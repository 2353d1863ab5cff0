"""The rules of docs/architecture.md that a machine can check, each over the whole tree."""

from __future__ import annotations

import ast
import collections
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stored_runs import a_run

from tprimat import read
from tprimat.cli import COMMANDS
from tprimat.frameworks import FRAMEWORKS
from tprimat.store import store

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "tprimat"

BASE = {
    "console",
    "current_directory",
    "errors",
    "files",
    "location",
    "notes",
    "redaction",
    "settings",
    "text",
}
BASE |= {"units"}
# What each directory of tprimat/ may import besides BASE and itself. Readers and checks don't know
# each other, so that no check depends on where a run came from.
MAY_IMPORT = {
    "results": set(),
    "catalog": {"results"},
    "analysis": {"results", "catalog"},
    "store": {"results", "catalog", "analysis"},
    "machine": {"results", "catalog"},
    "read": {"results", "catalog", "analysis"},
    "record": {"results", "catalog", "analysis", "store", "machine"},
    "frameworks": {"results", "catalog", "analysis", "store", "machine", "read", "record"},
    "preflight": {"results", "catalog", "analysis", "store", "machine", "record"},
    "log_import": {
        "results",
        "catalog",
        "analysis",
        "store",
        "machine",
        "read",
        "record",
        "checks",
    },
    "measure": {
        "results",
        "catalog",
        "analysis",
        "store",
        "machine",
        "read",
        "record",
        "log_import",
        "frameworks",
        "checks",
        "compare",
        "report",
        "preflight",
    },
    "checks": {"results", "catalog", "analysis"},
    "compare": {"results", "catalog", "analysis", "checks"},
    "report": {"results", "catalog", "analysis", "checks", "compare"},
}
MAY_IMPORT["watch"] = {*MAY_IMPORT} - {
    "frameworks",
    "machine",
    "measure",
    "preflight",
    "record",
    "report",
}
MAY_IMPORT["slurm"] = {*MAY_IMPORT} - {"preflight", "report"}
MAY_IMPORT["api"] = {*MAY_IMPORT} - {"measure", "preflight", "slurm", "watch"}
MAY_IMPORT["__init__"] = {"api"}
MAY_IMPORT["publish"] = {*MAY_IMPORT["api"], "api"} - {"frameworks", "machine", "record"}
MAY_IMPORT["cli"] = MAY_IMPORT["__main__"] = {*MAY_IMPORT, "cli"}

HEAVY = (
    "jinja2",
    "lightning",
    "matplotlib",
    "numpy",
    "pandas",
    "pyarrow",
    "rich",
    "scipy",
    "torch",
    "transformers",
)
UNIX_ONLY = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
_ROWS = ("defaults", "framework", "nemo.defaults", "request", "scales")
FRAMEWORK_ROWS = {
    "tprimat.frameworks",
    *(
        f"tprimat.frameworks.{path.parent.name}"
        for path in (PACKAGE / "frameworks").glob("*/__init__.py")
    ),
    *(f"tprimat.frameworks.{name}" for name in _ROWS),
}
"""Tables of frameworks and their defaults, from which options and their help are made: data, no
behaviour.
"""
DENSE = (
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.IfExp,
    ast.NamedExpr,
    ast.Lambda,
)
"""Expressions that make a statement dense."""
MOST_DENSE = 3
"""Dense expressions of a statement; one with more is crowded."""
LONGEST_FUNCTION = 60
"""Lines."""
SHAPE = {
    "names": 133554,
    "names per statement": 2.71,
    "comprehensions per 1000": 55,
    "conditionals per 1000": 28,
    "crowded statements": 0,
    "functions over 60 lines": 0,
    "id() calls": 0,
}
"""The size and density of tprimat/, counted in the syntax tree: line breaks don't matter. They only
fall; a change that needs more raises them, and its commit says what it bought.
"""
NAMES = {
    "__init__.py": 32,
    "__main__.py": 88,
    "analysis": 7502,
    "api.py": 413,
    "catalog": 3631,
    "checks": 4063,
    "cli": 6322,
    "compare": 10730,
    "console.py": 272,
    "current_directory.py": 46,
    "errors.py": 144,
    "files.py": 199,
    "frameworks": 13186,
    "location.py": 55,
    "log_import": 6374,
    "machine": 4354,
    "measure": 5406,
    "notes": 475,
    "preflight": 1326,
    "publish": 2247,
    "read": 32487,
    "record": 7349,
    "redaction": 1314,
    "report": 17491,
    "results": 2143,
    "settings": 414,
    "slurm": 1217,
    "store": 2518,
    "text.py": 270,
    "units.py": 91,
    "watch": 1395,
}
"""The names of each part of tprimat/, which also only fall."""
SLACK = 0.01
"""By so much a count may fall before its limit must follow."""
PLACES = {
    "attention": (
        (
            r"\"attention\"|--attention|(request|requested|options)\.attention\b|\bATTENTION\b|\battention(=|:"
            r" str)"
        ),
        6,
    ),
    "micro_batch_size": (r"\bmicro_batch_size\b|micro-batch-size|\blocal_batch_size\b", 54),
    "recomputation": (
        r"\brecomputation\b|\brecompute_\w+|activation_checkpoint|gradient_checkpointing",
        32,
    ),
}
"""Settings, how code names them, and the files of tprimat/ that may: a new setting is a row and few
of these.
"""
BROAD_CATCHES = 4
"""Places that catch Exception, each with its reason: see CONTRIBUTING.md."""


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def entry_scripts() -> list[Path]:
    at_root = (
        path
        for path in REPOSITORY.glob("*.py")
        if path.read_text(encoding="utf-8").startswith("#!")
    )
    return sorted([*at_root, *(REPOSITORY / "scripts").glob("*.py")])


def own_code() -> list[Path]:
    """Every Python file of the repository but the tests."""
    folders = ("tprimat", "scripts", "tools", "benchmarks")
    return sorted(
        [
            *REPOSITORY.glob("*.py"),
            *(path for name in folders for path in (REPOSITORY / name).rglob("*.py")),
        ]
    )


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")


def part_of(path: Path) -> str:
    """The module or directory directly below tprimat/ that a file is or lies in."""
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
                ".".join([*package[: len(package) - node.level + 1], node.module or ""])
                if node.level
                else node.module
            )
            for alias in node.names:
                yield f"{base}.{alias.name}", node.lineno


def own_imports(path: Path, there: set[str]) -> Iterator[tuple[str, int]]:
    """Modules of tprimat/ that a file imports anywhere, with the line."""
    for name, line in imported(path):
        module = name if name in there else name.rpartition(".")[0]
        if module in there and module != "tprimat":
            yield module, line


def test_there_is_something_to_check():
    assert len(modules()) > 10
    assert {"benchmark.py", "compare_results.py", "extract_primus_metrics.py"} <= {
        path.name for path in entry_scripts()
    }


def test_imports_go_one_way():
    there = {module_of(path) for path in modules()}
    wrong = []
    for path in modules():
        part = part_of(path)
        allowed = {part, *BASE, *MAY_IMPORT.get(part, BASE)}
        wrong += [
            f"{name_of(path)}:{line} imports {module}"
            for module, line in own_imports(path, there)
            if module.split(".")[1] not in allowed
        ]
    assert wrong == []


def test_no_two_files_import_each_other():
    there = {module_of(path) for path in modules()}
    # A file imports its own package's __init__ whenever it is imported; that is Python's doing, not
    # a circle of ours.
    imports = {
        module_of(path): {module for module, _ in own_imports(path, there)} - {module_of(path)}
        for path in modules()
    }
    assert circles(imports) == []


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other: what is left when modules that nobody waits for are
    taken away.
    """
    left = {module: set(others) for module, others in imports.items()}
    while True:
        done = {module for module, others in left.items() if not others & left.keys()}
        done |= {module for module in left if not any(module in others for others in left.values())}
        if not done:
            return [sorted(left)] if left else []
        left = {module: others for module, others in left.items() if module not in done}


def test_the_architecture_page_names_every_folder():
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    parts = {part_of(path) for path in modules()} - {"__init__", "__main__"}
    assert [part for part in sorted(parts) if not re.search(rf"\b{part}\b", text)] == []


def test_the_workshop_page_has_a_line_for_each_program():
    page = (REPOSITORY / "tools" / "README.md").read_text(encoding="utf-8")
    programs = [
        path for folder in ("tools", "benchmarks") for path in (REPOSITORY / folder).glob("*.py")
    ]
    names = ["golden_*.py" if path.name.startswith("golden_") else path.name for path in programs]
    assert [name for name in names if f"`{name}`" not in page and name != "first_gpu_run.py"] == []


def test_every_module_says_what_it_is_for():
    paths = [*modules(), *entry_scripts()]
    assert [
        name_of(path) for path in paths if not (ast.get_docstring(tree(path)) or "").strip()
    ] == []


def test_the_package_keeps_its_shape():
    found = shape_of(modules())
    assert {count: found[count] for count, most in SHAPE.items() if found[count] > most} == {}
    low = {
        count: found[count] for count, most in SHAPE.items() if found[count] < most * (1 - SLACK)
    }
    assert low == {}, "the package has shrunk: lower its limits"


def test_each_part_of_the_package_keeps_its_names():
    parts = collections.defaultdict(list)
    for path in modules():
        parts[path.relative_to(PACKAGE).parts[0]].append(path)
    found = {part: shape_of(paths)["names"] for part, paths in parts.items()}
    assert found.keys() == NAMES.keys()
    assert {part: names for part, names in found.items() if names > NAMES[part]} == {}
    low = {part: names for part, names in found.items() if names < NAMES[part] * (1 - SLACK) - 20}
    assert low == {}, "these parts have shrunk: lower their limits"


def shape_of(paths):
    """Count names and dense expressions in the syntax trees of files."""
    nodes = [node for path in paths for node in ast.walk(tree(path))]
    statements = [node for node in nodes if isinstance(node, ast.stmt) and not is_docstring(node)]
    functions = [
        node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    names = sum(isinstance(node, ast.Name) for node in nodes)
    comprehensions = sum(isinstance(node, DENSE[:4]) for node in nodes)
    conditionals = sum(isinstance(node, ast.IfExp) for node in nodes)
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    count = max(len(statements), 1)
    return {
        "names": names,
        "names per statement": round(names / count, 2),
        "comprehensions per 1000": round(1000 * comprehensions / count),
        "conditionals per 1000": round(1000 * conditionals / count),
        "crowded statements": sum(dense_expressions(node) > MOST_DENSE for node in statements),
        "functions over 60 lines": sum(
            node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION for node in functions
        ),
        "id() calls": sum(isinstance(call, ast.Name) and call.id == "id" for call in calls),
    }


def dense_expressions(statement):
    """Count the dense expressions of a statement without the statements in its body."""
    count, queue = 0, [statement]
    while queue:
        children = ast.iter_child_nodes(queue.pop())
        own = [child for child in children if not isinstance(child, ast.stmt)]
        count += sum(isinstance(child, DENSE) for child in own)
        queue += own
    return count


def is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def test_only_what_writes_for_people_turns_notes_into_words():
    """Everything else decides by codes and fields, never by a sentence."""
    writers = {
        *("notes", "results", "record", "report", "cli", "store", "publish", "watch", "api"),
        # The errors of files.
        "log_import",
    }
    there = {module_of(path) for path in modules()}
    wrong = [
        f"{name_of(path)}:{line}"
        for path in modules()
        if part_of(path) not in writers
        for module, line in own_imports(path, there)
        if module == "tprimat.notes.catalogue"
    ]
    assert wrong == []


@pytest.mark.parametrize("setting", PLACES)
def test_a_setting_is_named_in_few_places(setting):
    pattern, most = PLACES[setting]
    found = [
        name_of(path) for path in modules() if re.search(pattern, path.read_text(encoding="utf-8"))
    ]
    assert 0 < len(found) <= most, found


def test_exceptions_are_caught_by_name():
    broad = [
        f"{name_of(path)}:{node.lineno}"
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
        # One that cleans up and raises catches nothing.
        and not (isinstance(node.body[-1], ast.Raise))
    ]
    assert len(broad) == BROAD_CATCHES, broad


def test_only_one_lightning_is_used():
    # lightning.pytorch and pytorch_lightning have separate classes: a callback of one is none of
    # the other.
    uses = {
        name_of(path): [module.split(".")[0] for module, _ in imported(path)] for path in own_code()
    }
    assert [name for name, packages in uses.items() if "pytorch_lightning" in packages] == []


def test_commands_are_wiring():
    sizes = {name_of(path): shape_of([path])["names"] for path in (PACKAGE / "cli").rglob("*.py")}
    assert {name: names for name, names in sizes.items() if names > 370} == {}


MOST_MODULES = 161
"""Modules of tprimat that are loaded to compare two results; it only falls."""
COMPARED = """
import sys
from tprimat import cli
cli.run("compare", sys.argv[1:])
print(sum(name.partition(".")[0] == "tprimat" for name in sys.modules))
"""


def test_comparing_two_results_loads_no_reader(tmp_path):
    for number in (1, 2):
        store.save(a_run(1.0 + number / 10, label=f"number {number}"), tmp_path)
    output = ["--quiet", "--output", str(tmp_path / "c.png")]
    command = [sys.executable, "-c", COMPARED, str(tmp_path), *output]
    done = subprocess.run(command, cwd=REPOSITORY, text=True, capture_output=True, check=True)
    assert int(done.stdout.split()[-1]) <= MOST_MODULES


def test_windows_can_import_every_module():
    wrong = []
    for path in modules():
        bare = [node for node in tree(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {
            alias.name for node in bare if isinstance(node, ast.Import) for alias in node.names
        }
        names |= {node.module for node in bare if isinstance(node, ast.ImportFrom) and node.module}
        wrong += [f"{name_of(path)}: {name}" for name in sorted(names & UNIX_ONLY)]
    assert wrong == []


def test_entry_scripts_are_thin_and_run_a_command():
    for path in entry_scripts():
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 20, path
        (command,) = re.findall(r'\brun\("([a-z-]+)"', text)
        assert command in COMMANDS, path
        assert sys.platform == "win32" or path.stat().st_mode & 0o100, f"{path} is not executable"


def test_an_older_python_reads_entry_scripts_up_to_their_refusal():
    for path in entry_scripts():
        body = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 7)).body
        refusal = next(
            i
            for i, node in enumerate(body)
            if isinstance(node, ast.If) and "version_info" in ast.dump(node)
        )
        before = [
            alias.name
            for node in body[:refusal]
            if isinstance(node, ast.Import)
            for alias in node.names
        ]
        assert not any(isinstance(node, ast.ImportFrom) for node in body[:refusal]), path
        assert set(before) <= {"os", "sys"}, path


def test_only_commands_know_parsed_arguments():
    """Everything else takes options of a type of its own."""
    wrong = [
        name_of(path)
        for path in modules()
        if part_of(path) not in ("cli", "__main__")
        and "argparse.Namespace" in path.read_text(encoding="utf-8")
    ]
    assert wrong == []


def test_every_command_has_a_file():
    files = {path.stem.replace("_", "-") for path in (PACKAGE / "cli").glob("*.py")}
    assert set(COMMANDS) <= files


def test_help_loads_no_reader_framework_report_or_heavy_package():
    code = (
        "import sys\nfrom tprimat.cli import COMMANDS, run\nfor command in COMMANDS:\n    try:\n  "
        "      run(command, ['--help'])\n    except SystemExit:\n        pass\nheavy ="
        f" {HEAVY!r}\nrows = {FRAMEWORK_ROWS!r}\nprint('LOADED', sorted(n for n in sys.modules if"
        " n.split('.')[0] in heavy or n not in rows and n.startswith(('tprimat.read',"
        " 'tprimat.frameworks', 'tprimat.report', 'tprimat.compare', 'tprimat.store'))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "LOADED []"
    assert done.stdout.count("usage:") >= len(COMMANDS)


def test_readers_neither_open_nor_print_and_reports_neither_write_nor_print():
    for folder, names in (
        ("read", {"open", "print", "read_bytes", "read_text", "write_bytes", "write_text"}),
        ("report", {"open", "print", "write_bytes", "write_text"}),
    ):
        found = [
            call for path in sorted((PACKAGE / folder).rglob("*.py")) for call in calls(path, names)
        ]
        assert found == []


def test_frameworks_start_no_processes():
    starts = [
        name_of(path)
        for path in sorted((PACKAGE / "frameworks").rglob("*.py"))
        if any(module.split(".")[0] == "subprocess" for module, _ in imported(path))
    ]
    assert starts == []


def test_the_recorder_takes_its_clock_as_an_argument():
    names = {module.split(".")[0] for module, _ in imported(PACKAGE / "record" / "recorder.py")}
    assert names & {"time", "torch"} == set()


def test_every_module_is_used():
    """A file that nothing imports, runs or lists in a table was forgotten."""
    used: set[str] = set()
    for path in own_code():
        used |= {name for name, _ in imported(path) if not module_of(path).startswith(name)}
        used |= {name.rpartition(".")[0] for name, _ in imported(path)}
        # Tables and child processes name a module as a string: "megatron",
        # "tprimat.frameworks.fsdp.loop".
        strings = {
            node.value
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        used |= strings
        if path.name == "__init__.py":
            used |= {f"{module_of(path)}.{string}" for string in strings}
    # Log formats are found by the names that their files define.
    used |= {each.__module__ for each in read.log_formats()} | {
        each.recognizes.__module__ for each in read.file_formats()
    }
    used |= {each.read.__module__ for each in read.file_formats()}
    # A row of FRAMEWORKS names its directory.
    used |= {
        f"tprimat.frameworks.{row.folder}.{part}"
        for row in FRAMEWORKS
        for part in ("launch", "loop")
    }
    forgotten = [
        module_of(path)
        for path in modules()
        if path.name != "__init__.py"
        and part_of(path) not in ("cli", "__main__")
        and module_of(path) not in used
    ]
    assert forgotten == []


def test_every_heading_that_an_error_names_is_in_troubleshooting():
    text = (REPOSITORY / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    there = {anchor(line.lstrip("# ")) for line in text.splitlines() if line.startswith("#")}
    named = dict(headings())
    assert named
    assert {heading: place for heading, place in named.items() if heading not in there} == {}


def headings() -> Iterator[tuple[str, str]]:
    """Headings of docs/troubleshooting.md that the code names, and where."""
    for path in own_code():
        for node in ast.walk(tree(path)):
            if (
                isinstance(node, ast.keyword)
                and node.arg in ("heading", "see")
                and isinstance(node.value, ast.Constant)
            ):
                yield node.value.value, f"{name_of(path)}:{node.value.lineno}"
        for heading in re.findall(
            r"troubleshooting\.md#([a-z0-9-]+)", path.read_text(encoding="utf-8")
        ):
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
