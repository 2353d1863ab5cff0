"""The shared memory through which the processes of several GPUs talk, of which a container has 64
MB by default.
"""

from __future__ import annotations

from tprimat.errors import UsageError
from tprimat.machine.host import Host, free_space
from tprimat.units import GB

PATH = "/dev/shm"

LEAST_MB = 128.0
EACH_MB = 32.0
"""What each GPU's process may take, MB of 10⁶ bytes: NCCL makes segments of 9.6 MB there, one for
each neighbor and direction, and loaders hand their micro-batches over. Docker and Kubernetes give a
container 64 MiB.
"""

HINT = "start the container with --ipc=host, or with --shm-size=8g"


def problem(host: Host, gpus: int) -> str | None:
    """Return the problem with this machine's shared memory for a number of GPUs that train
    together, or None.
    """
    folder = host.path(PATH)
    needed = max(LEAST_MB, EACH_MB * gpus)
    free = free_space(folder)[0] if gpus > 1 and folder.is_dir() else None
    if free is None or free * GB >= needed * 1e6:
        return None
    return (
        f"{PATH} has {free * GB / 1e6:.0f} MB free, and {gpus} GPUs that train together need"
        f" {needed:.0f} MB there"
    )


def check(gpus: int) -> None:
    """Raise UsageError if NCCL would fail after minutes of starting."""
    if lack := problem(Host(), gpus):
        raise UsageError(lack, hint=HINT, heading="shared-memory")
