"""The script of a job, to be read, kept and submitted again."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from tprimat.location import REPOSITORY
from tprimat.measure.attempt import JOB
from tprimat.slurm.settings import SlurmJob

NAME, LOG, STATE = "job.sh", "job.log", "state"
"""Files of a job's directory: its script, its output, and the script's own notes on its progress.
"""

_BODY = """\

cd {cwd}
export PYTHONPATH={package}${{PYTHONPATH:+:$PYTHONPATH}} PYTHONUNBUFFERED=1
export {job}={folder}

# All ranks connect to the first node. Slurm's name for it may differ from its host name.
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
getent hosts "$MASTER_ADDR" > /dev/null || MASTER_ADDR=$(hostname)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export MASTER_ADDR MASTER_PORT

note() {{ echo "$SLURM_JOB_ID $(date +%s) $*" >> "${job}/{state}"; }}
note started "$SLURM_JOB_NODELIST"
trap 'note terminated' TERM
trap 'note ended $?' EXIT
"""

_TASK = """\

# One task per node: it uses all CPUs of the node, and starts one process per GPU.
# If a task fails, or ends two minutes before the others, srun stops the others.
srun --ntasks-per-node=1 --cpus-per-task="$SLURM_CPUS_ON_NODE" --kill-on-bad-exit=1 --wait=120{container} \\
    {command} &
# A signal interrupts the wait, not the tasks: they save their results.
while wait $!; status=$?; kill -0 $! 2> /dev/null; do :; done
exit $status
"""

_APPTAINER = """\

gpu=--nv
[ -e /dev/kfd ] && gpu=--rocm
"""


def text(
    job: SlurmJob,
    nodes: int,
    gpus_per_node: int | None,
    words: Sequence[str],
    folder: Path,
    output_dir: Path,
) -> str:
    """Return the script of a benchmark; `words` are the arguments of `benchmark` on each node.

    It requests `gpus_per_node` from Slurm; None: all GPUs of a node. Both paths are absolute.
    """
    own = dict.fromkeys(f"{path}:{path}" for path in (REPOSITORY, Path.cwd(), output_dir))
    mounts = ",".join([*own, *job.mounts])
    benchmark = shlex.join(["-m", "tprimat", "benchmark", *words])
    container, before_task = "", ""
    if job.container is None:
        run = f"{shlex.quote(sys.executable)} {benchmark}"
    elif is_for_apptainer(job.container):
        before_task = _APPTAINER
        image = shlex.join(["--bind", mounts, str(job.container)])
        run = f'apptainer exec "$gpu" {image} \\\n    python3 {benchmark}'
    else:
        pyxis = [f"--container-image={job.container}", f"--container-mounts={mounts}"]
        container = f" \\\n    {shlex.join(pyxis)}"
        run = f"python3 {benchmark}"
    body = _BODY.format(
        cwd=shlex.quote(str(Path.cwd())),
        package=shlex.quote(str(REPOSITORY)),
        folder=shlex.quote(str(folder)),
        job=JOB,
        state=STATE,
    )
    head = [
        "#!/bin/bash",
        f"# TensorPrimat benchmark. Show its results: tprimat collect {shlex.quote(str(folder))}",
        *(f"#SBATCH {line}" for line in _options(job, nodes, gpus_per_node, folder)),
    ]
    body += before_task + _TASK.format(container=container, command=run)
    return "\n".join(head) + f"\n{body}"


def is_for_apptainer(image: str) -> bool:
    """Return whether apptainer is to run an image: a file, or an address with a scheme, as only it
    takes them.
    """
    return (
        image.endswith(".sif")
        or re.match(r"(docker|oras|library|(docker|oci)-archive|oci)://", image) is not None
    )


def _options(job: SlurmJob, nodes: int, gpus_per_node: int | None, folder: Path) -> list[str]:
    log = str(folder / LOG).replace("\\", "\\\\").replace("%", "%%").replace('"', '\\"')
    options = ["--job-name=tprimat"]
    if job.account:
        options.append(f"--account={job.account}")
    if job.partition:
        options.append(f"--partition={job.partition}")
    options += [f"--nodes={nodes}", "--ntasks-per-node=1"]
    if gpus_per_node:
        options.append(f"--gpus-per-node={gpus_per_node}")
    return [
        *options,
        # Other jobs on the nodes would disturb the measurement.
        "--exclusive",
        "--mem=0",
        f"--time={job.time}",
        f'--output="{log}"',
        # The next attempt of a requeued job continues this one.
        "--requeue",
        "--open-mode=append",
    ]
