"""The framework `lightning`: tprimat/frameworks/lightning/loop.py, alone or under torchrun."""

from __future__ import annotations

import importlib.util
import os
import sys

from tprimat.errors import INSTALL
from tprimat.frameworks import profiling
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.request import REPOSITORY, Launch, Request
from tprimat.frameworks.resolve import resolve_config
from tprimat.machine.host import Host, cpu_threads

MODULE = "tprimat.frameworks.lightning.loop"
PACKAGES = ("torch", "lightning", "transformers")


SPIN_COUNT = "2000"
"""How many turns a thread of GNU's OpenMP, which torch brings on Linux, waits for the others before it
sleeps. By default it spins for milliseconds, on a core that the others need as soon as anything else
runs on the machine: a step was seen to take five to twenty times as long then. On a quiet machine of
two cores, a step of the tiny Llama took 69 ms by default, 72 ms with this, and 92 ms without spinning."""

ENVIRONMENT = {
    # Nothing is downloaded and nothing is reported to anybody.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    # Lines arrive as they are printed, in a pipe too.
    "PYTHONUNBUFFERED": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def unavailable() -> str | None:
    """Why it can't run here: packages that are missing, with the command that brings them."""
    missing = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    if not missing:
        return None
    return f"it needs {', '.join(missing)}: {INSTALL}"


def launch(request: Request) -> Launch:
    """One process, or one for each GPU under torchrun; on a CPU they share its cores."""
    settings = dict(ENVIRONMENT)
    argv = [sys.executable]
    if request.num_gpus > 1:
        # --standalone finds a free port, so that two trainings on one machine don't meet.
        argv += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={request.num_gpus}"]
    if request.platform == "cpu":
        settings |= threads(request.num_gpus)
    argv += ["-m", MODULE, *request.to_arguments()]
    return profiling.around(request, Launch(tuple(argv), settings, REPOSITORY))


def cores() -> int:
    """Processor cores that this process may use."""
    return cpu_threads(Host()) or 1


def threads(processes: int) -> dict[str, str]:
    """How the threads of a training on a CPU live together, unless the user has set it."""
    chosen = {}
    if "OMP_WAIT_POLICY" not in os.environ:
        chosen["GOMP_SPINCOUNT"] = SPIN_COUNT
    if processes > 1:
        # torchrun would give each process one thread, whatever the machine has.
        chosen["OMP_NUM_THREADS"] = str(max(1, cores() // processes))
    return {name: value for name, value in chosen.items() if name not in os.environ}


LIGHTNING = Framework("lightning", unavailable, resolve_config, launch, profiles=True)
