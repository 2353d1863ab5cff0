"""Submit a benchmark as a job, or show its script. What trains is decided on the nodes, and needn't
be here.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from tprimat import console, frameworks
from tprimat.console import Verbosity
from tprimat.errors import ExitStatus, UsageError, most_severe
from tprimat.files import write_output
from tprimat.frameworks.profiling import PROGRAMS
from tprimat.frameworks.request import BenchmarkOptions
from tprimat.measure import sweep
from tprimat.measure.display import short_path
from tprimat.slurm import client, collect, script, settings
from tprimat.slurm.job import Description, Job, make_folder
from tprimat.slurm.settings import SlurmJob
from tprimat.text import runnable


def submit(options: BenchmarkOptions) -> int:
    """Submit a job for each number of nodes and GPUs, or show the scripts; the exit status.

    All other configurations of a sweep share the job's nodes and are interleaved there. Raises
    UsageError if something is wrong, or Slurm refuses.
    """
    points = list(sweep.points(options))
    is_several = any((point.num_nodes or 1) > 1 for point in points)
    if is_several and options.tune:
        raise UsageError(
            "--tune searches on one node", hint="use --nodes 1", heading="several-nodes"
        )
    if is_several and options.profile in PROGRAMS:
        raise UsageError(
            f"--profile {options.profile} needs one node",
            hint="use --profile torch",
            heading="profile",
        )
    jobs = list(map(_job, points))
    # Submitted only now, so that errors in any of them are found before the first one is submitted.
    statuses = [_submit(point, *job) for point, job in zip(points, jobs, strict=True)]
    return most_severe(statuses)


def _job(options: BenchmarkOptions) -> tuple[SlurmJob, int | None]:
    """Return where a job runs, and the GPUs of each node. Raises UsageError where something is
    wrong.
    """
    if options.framework:
        # An unknown framework is an error now, not after the job's wait in the queue.
        for name in frameworks.several(options.framework) or (options.framework,):
            if name != frameworks.ALL:
                frameworks.by_name(name)
    job = settings.job(options.slurm, {name: getattr(options, name) for name in settings.NAMES})
    return job, _gpus_per_node(options, job.partition, options.num_nodes or 1)


def _submit(options: BenchmarkOptions, job: SlurmJob, on_each: int | None) -> ExitStatus:
    nodes = options.num_nodes or 1
    output_dir = Path.cwd() / options.output_dir
    words = [*options.words_of_nodes, f"--nodes={nodes}", f"--output-dir={output_dir}"]
    if options.gpus is not None:
        words.append(f"--gpus={options.gpus}")
    if options.dry_run:
        folder = output_dir / "slurm" / "NAME"
        text = script.text(job, nodes, on_each, words, folder, output_dir)
        # It is the outcome of a dry run, at any verbosity.
        output = console.current()
        output.values.setdefault("jobs", []).append({"script": text, "folder": str(folder)})
        if output.verbosity is not Verbosity.JSON:
            output.put(text.rstrip("\n"))
        console.info("\n# Nothing was submitted.")
        return ExitStatus.OK
    client.check()
    submitted = Job(make_folder(output_dir), Description(str(output_dir), nodes, tuple(words)))
    path = submitted.folder / script.NAME
    write_output(
        path,
        script.text(job, nodes, on_each, words, submitted.folder, output_dir).encode(),
        "--output-dir",
    )
    path.chmod(0o755)
    submitted.write()
    job_id = client.submit(path)
    submitted = Job(submitted.folder, submitted.description.but(job_id=job_id))
    submitted.write()
    command = f"tprimat collect {job_id}"
    if options.output_dir != collect.DEFAULT_DIR:
        command += f" --output-dir {shlex.quote(str(options.output_dir))}"
    command = runnable(command)
    values = {
        "job": job_id,
        "folder": str(submitted.folder),
        "script": str(path),
        "collect": command,
    }
    console.current().values.setdefault("jobs", []).append(values)
    console.info(f"Job:     {job_id}, submitted")
    console.info(f"Script:  {short_path(path)}")
    if options.wait:
        return collect.until_the_end(submitted)
    console.summary(job_id)
    console.info(f"Results: {command}")
    return ExitStatus.OK


def _gpus_per_node(options: BenchmarkOptions, partition: str | None, nodes: int) -> int | None:
    """Return the GPUs to ask for on each node; None for all that an exclusive node has, or if it
    has none.

    Raises UsageError if those of all nodes can't be shared out evenly.
    """
    if options.gpus is not None and options.gpus % nodes:
        raise UsageError(
            f"--gpus {options.gpus} cannot be divided evenly among {nodes} nodes",
            hint="--gpus is the total over all nodes",
            heading="several-nodes",
        )
    of_a_node = client.gpus_of_a_node(partition)
    if of_a_node == 0:
        return None
    if options.gpus is not None:
        return int(options.gpus // nodes)
    return of_a_node
