"""A Slurm of several nodes on this machine, on loopback: Debian's slurm-wlm and munge, everything
in one directory.

    python tests/slurm/cluster.py FOLDER [NODES]    start it, print what to export; stop it at the end of its input

So it never outlives whoever started it, however that ends: the input's other end is closed then.

Nothing of the system's own is changed: munge has a key and a socket of its own, Slurm a
configuration that names both.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")
START_S = 60.0

CONFIGURATION = """\
ClusterName=tprimat
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SwitchType=switch/none
# A job ends soon after its time, and may be queued again at once.
OverTimeLimit=0
KillWait=10
MinJobAge=300
InactiveLimit=0
SchedulerParameters=sched_interval=2,bf_interval=5
SlurmctldTimeout=60
SlurmdTimeout=60
{nodes}
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Return a reason why no Slurm can run here, or None."""
    if not sys.platform.startswith("linux"):
        return "Slurm runs on Linux"
    absent = [program for program in PROGRAMS if which(program) is None]
    if absent:
        return f"{', '.join(absent)} not installed: sudo apt-get install slurm-wlm munge"
    return None


def which(program: str) -> str | None:
    """Return the path of a program; the daemons are in sbin, which isn't on everybody's PATH."""
    return shutil.which(
        program, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    )


class Cluster:
    """Munge, the controller and the daemons of the nodes, by their pid files."""

    def __init__(self, folder: Path, nodes: int = 2) -> None:
        self.folder = folder
        self.nodes = [f"tp{number}" for number in range(1, nodes + 1)]

    @property
    def environment(self) -> Mapping[str, str]:
        """What clients need to find this Slurm."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self) -> None:
        """Start everything. Raises RuntimeError where a daemon doesn't come up, after all were
        stopped.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        folder = self.folder
        folder.mkdir(parents=True, exist_ok=True)
        # munged insists on directories that others can't write.
        folder.chmod(0o755)
        for name in ("state", *(f"spool.{node}" for node in self.nodes)):
            (folder / name).mkdir(exist_ok=True)
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        host, ports = socket.gethostname(), _free_ports(1 + len(self.nodes))
        user = psutil.Process().username()
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2"
            " State=UNKNOWN"
            for node, port in zip(self.nodes, ports[1:], strict=True)
        )
        text = CONFIGURATION.format(host=host, port=ports[0], folder=folder, user=user, nodes=nodes)
        (folder / "slurm.conf").write_text(text, encoding="utf-8")
        files = {name: folder / f"munge.{name}" for name in ("socket", "pid", "seed")}
        _run("munged", "--force", f"--key-file={key}", f"--socket={files['socket']}", f"--pid-file={files['pid']}",
             f"--seed-file={files['seed']}", f"--log-file={folder / 'munge.log'}", "--num-threads=2")  # fmt: skip
        self._run_daemon("slurmctld")
        for node in self.nodes:
            self._run_daemon("slurmd", "-N", node)
        deadline = time.monotonic() + START_S
        while (states := self.command("sinfo", "-h", "-N", "-o", "%t", check=False).split()) != [
            "idle"
        ] * len(self.nodes):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the nodes are {states}: {self.logs()}")
            time.sleep(0.5)

    def _run_daemon(self, name: str, *words: str) -> None:
        _run(name, "-f", str(self.folder / "slurm.conf"), *words, env=self.environment)

    def stop(self) -> None:
        """Stop everything, by pid files: jobs first, then the daemons of the nodes, the controller
        and munge.
        """
        if (self.folder / "slurmctld.pid").exists():
            with contextlib.suppress(subprocess.SubprocessError, OSError):
                self.command(
                    "scancel", "--quiet", f"--user={psutil.Process().username()}", check=False
                )
        steps = self.left()
        for pattern in ("slurmd.*.pid", "slurmctld.pid", "munge.pid"):
            _end([psutil.Process(pid) for pid in self._pids(pattern)])
        # A step has a daemon of its own, which outlives that of its node.
        _end([*steps, *self.left()])

    def left(self) -> list[psutil.Process]:
        """Return the processes of this cluster that still run."""
        mark, own = str(self.folder), psutil.Process().pid
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                texts = [
                    *process.cmdline(),
                    process.environ().get("SLURM_CONF", "") if process.pid != own else "",
                ]
                is_job = "SLURM_JOB_ID" in process.environ() or process.name().startswith(
                    ("slurm", "munge")
                )
                if (
                    is_job
                    and any(mark in text for text in texts)
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process)
        # Those that supervise steps and scripts hide their environment, and are beside what they
        # supervise.
        for process in list(found):
            with contextlib.suppress(psutil.Error):
                relatives = [process.parent(), *process.children()]
                found += [
                    each
                    for each in relatives
                    if each and each.name().startswith("slurm") and each not in found
                ]
        return found

    def names(self) -> list[str]:
        """Return the names of the processes that still run; one may end while it is asked."""
        names = []
        for process in self.left():
            with contextlib.suppress(psutil.Error):
                names.append(process.name())
        return names

    def command(self, *words: str, check: bool = True) -> str:
        """Run a client, and return what it prints."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr or done.stdout}")
        return done.stdout

    def logs(self) -> str:
        """Return the ends of the daemons' logs."""
        return "\n".join(
            f"{path.name}: {path.read_text(encoding='utf-8', errors='replace')[-1500:]}"
            for path in sorted(self.folder.glob("*.log"))
        )

    def _pids(self, pattern: str) -> list[int]:
        pids = []
        for path in sorted(self.folder.glob(pattern)):
            with contextlib.suppress(ValueError, OSError):
                pid = int(path.read_text())
                if psutil.pid_exists(pid) and psutil.Process(pid).name().startswith(
                    ("slurm", "munge")
                ):
                    pids.append(pid)
        return pids


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=10)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=5)


def _run(program: str, *words: str, env: Mapping[str, str] | None = None) -> None:
    path = which(program) or program
    done = subprocess.run(
        [path, *words],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{program}: {done.stderr or done.stdout}")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def main() -> None:
    """Run a cluster until the input ends, Ctrl-C, SIGTERM or a hang-up."""
    folder, *nodes = sys.argv[1:]
    cluster = Cluster(Path(folder).absolute(), *map(int, nodes))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        cluster.start()
        for name, value in cluster.environment.items():
            print(f"export {name}={value}", flush=True)
        sys.stdin.read()
    except KeyboardInterrupt:
        pass
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        cluster.stop()


if __name__ == "__main__":
    main()
