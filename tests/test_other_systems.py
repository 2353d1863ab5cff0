"""The analysis tier where Unix-only modules are missing, as they are on Windows."""

from __future__ import annotations

import os
import subprocess
import sys

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
        # Modules of trainings import their framework; nothing else may be missing.
        assert (error.name or "").split(".")[0] not in hidden, f"{module.name} needs {error.name}"
        continue
    imported += 1

from tprimat.store import store
from tprimat.cli import run
from tprimat.results.run import Run
folder = Path(sys.argv[2])
times = tuple(0.1 + step % 3 / 1000 for step in range(30))
none = (None,) * 30
for label, factor in (("a", 1.0), ("b", 1.1)):
    series = {"steps": tuple(range(1, 31)), "window_steps": (1,) * 30, "step_times": tuple(t * factor for t in times)}
    series |= {name: none for name in ("loss_values", "learning_rates", "grad_norms", "lines")}
    store.save(Run(platform="nvd", framework="nemo", model="llama", label=label, **series), folder)
from tprimat.record import recovery
(folder / ".journal").mkdir()
first = b'{"journal":1,"owner":{"pid":999999999}}'
(folder / ".journal" / "1-x.jsonl").write_bytes(first + b'\\n{"run":{"model":"llama"}}\\n')
import os
# Of another machine, as this one tells no start time: it counts as gone only after a while.
os.utime(folder / ".journal" / "1-x.jsonl", (0, 0))
(recovered,) = recovery.recover(folder)
assert recovered.run.status == "incomplete", recovered
status = run("compare", [str(folder)])
assert status in (0, 3), status
assert run("enhanced-metrics", [str(folder)]) in (0, 2, 3)
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
