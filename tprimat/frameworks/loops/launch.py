"""The launch of a framework whose loop is in its directory, and the parts that other launches
share: command, variables.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from tprimat.frameworks import profiling
from tprimat.frameworks.framework import Launcher
from tprimat.frameworks.request import AnyRequest, Launch, Request
from tprimat.frameworks.resolve import Resolver
from tprimat.location import REPOSITORY
from tprimat.machine.host import Host, cpu_threads
from tprimat.results.run import Platform
from tprimat.store.naming import file_name

SPIN_COUNT = "2000"
"""Turns that a thread of GNU's OpenMP, which torch brings on Linux, waits for the others before it
sleeps. By default it spins for milliseconds, on a core that the others need as soon as anything
else runs on the machine: a step was seen to take five to twenty times as long then. On a quiet
machine of two cores, a step of the tiny Llama took 69 ms by default, 72 ms with this, and 92 ms
without spinning.
"""

JOIN_S = 900
"""Seconds that a machine waits for the others: longer than a process waits within a step
(loops/processes.py), since those whose process died first begin the next training first.
"""

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


class Loop(Launcher[AnyRequest]):
    """A training by a program of ours.

    Attributes:
        program: its module; "" for loop.py of the framework's directory.
    """

    resolver = Resolver
    program = ""

    def launch(self, request: AnyRequest) -> Launch:
        """Return the command for a request."""
        program = self.program or f"tprimat.frameworks.{request.framework.partition('-')[0]}.loop"
        return command(program, request, self.variables(request))

    def variables(self, request: AnyRequest) -> Mapping[str, str]:
        """Return the variables that a training has beyond those of all."""
        return {}

    def result_name(self, request: AnyRequest) -> str:
        """Return the name of the result file, as far as it is known before the training."""
        return file_name(request.to_run())


LAUNCHER: Launcher[Request] = Loop()


def command(module: str, request: Request, more: Mapping[str, str] | None = None) -> Launch:
    """Return the command of a training: one process, or one for each GPU; on a CPU they share its
    cores.

    `module` is its program, which reads a Request's arguments; `more` are further variables to set.
    """
    launcher = torchrun(request) if request.num_gpus > 1 else ()
    argv = (sys.executable, *launcher, "-m", module, *request.to_arguments())
    variables = environment(request.platform, request.gpus_per_node) | dict(more or {})
    return profiling.around(request, Launch(argv, variables, REPOSITORY))


def environment(platform: Platform, processes: int) -> dict[str, str]:
    """Return the variables that every training has; on a CPU those of its threads that the user has
    not set.
    """
    variables = {}
    if platform == "cpu":
        if "OMP_WAIT_POLICY" not in os.environ:
            variables["GOMP_SPINCOUNT"] = SPIN_COUNT
        if processes > 1:
            # torchrun would give each process one thread, whatever the machine has.
            variables["OMP_NUM_THREADS"] = str(max(1, cores() // processes))
    return ENVIRONMENT | {
        name: value for name, value in variables.items() if name not in os.environ
    }


def torchrun(request: Request) -> Sequence[str]:
    """Return Python's arguments that start a program in several processes, of this machine or of
    several.
    """
    if request.rendezvous is None:
        return torchrun_here(request.gpus_per_node)
    address, _, port = request.rendezvous.rpartition(":")
    # Static: ranks follow the numbers of the machines, as a straggler's name and Megatron's last
    # rank need.
    where = [f"--nnodes={request.num_nodes}", f"--node-rank={request.node_index}"]
    where += [f"--master-addr={address}", f"--master-port={port}", f"--rdzv-conf=timeout={JOIN_S}"]
    return ("-m", "torch.distributed.run", *where, f"--nproc-per-node={request.gpus_per_node}")


def torchrun_here(processes: int) -> Sequence[str]:
    """Return Python's arguments that start a program in several processes of this machine."""
    # --standalone finds a free port, so that two runs on one machine don't meet.
    return ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}")


def cores() -> int:
    """Return the CPU cores that this process may use."""
    return cpu_threads(Host()) or 1
