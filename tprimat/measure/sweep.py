"""Sweeps: the combinations of options with several values, the runs of a plan that exist, and those
that are left.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from tprimat import console, units
from tprimat.checks.endings import divergence
from tprimat.errors import UsageError
from tprimat.frameworks import scales
from tprimat.frameworks.request import BenchmarkOptions, Request
from tprimat.machine.platforms import Machine
from tprimat.measure.plan import Plan
from tprimat.record import recovery
from tprimat.results.run import Data, Run
from tprimat.store import store
from tprimat.text import counted

SWEPT = ("num_nodes", "gpus")
"""Options whose values are planned separately: the defaults of a training depend on them."""

STILL_ENDING_S = 40.0
"""How long a training may take to end whose session was killed: twice the grace that it has to
write its result.
"""

START_S, SEQUENCE_S = 10.0, 0.05
"""Of a run of a tiny model on a CPU: start-up, and a sequence of a step, for a rough duration. Two
threads of an EPYC take 69 ms for a step of two sequences.
"""

_OF_A_SESSION = {"output_dir", "node_index", "result_node", "rendezvous", "origins"}
"""Fields of a request that are no part of the configuration: another session has others."""

Key = tuple[str, int]
"""Digest of a request, and the number of the run."""


@dataclasses.dataclass(frozen=True)
class Found:
    """A run of a plan that is in a result file."""

    run: Run
    path: Path


def points(options: BenchmarkOptions) -> Iterator[BenchmarkOptions]:
    """Yield the options with one value of each swept option, in the order of the values."""
    values = []
    for name in SWEPT:
        value = getattr(options, name)
        values.append(value if isinstance(value, tuple) else (value,))
    for chosen in itertools.product(*values):
        yield options.but(**dict(zip(SWEPT, chosen, strict=True)))


def of_options(plan: Plan, options: BenchmarkOptions) -> Plan:
    """Return a plan as the options of sweeps change it: resumed, or one configuration of it.

    Raises UsageError for a configuration that it doesn't have.
    """
    several = len(plan.requests) > len({request.model for request in plan.requests})
    plan = dataclasses.replace(
        plan,
        resumes=options.resume or options.retry_failed,
        retries_failed=options.retry_failed,
        keeps_failures=several or options.resume or options.retry_failed,
    )
    if options.only is None:
        return plan
    if options.only > len(plan.requests):
        raise UsageError(
            f"--only {options.only}: the plan has {counted(len(plan.requests), 'configuration')}",
            hint="--dry-run numbers them",
            heading="sweeps",
        )
    return dataclasses.replace(plan, requests=(plan.requests[options.only - 1],))


def digest(request: Request, machine: Machine) -> str:
    """Return the digest of a requested configuration: a hash of its settings and the device,
    without its directory.
    """
    # Defaults are omitted, so a field that a later version adds doesn't change the digests of
    # earlier results.
    stated = []
    for field in dataclasses.fields(Request):
        value = getattr(request, field.name)
        if field.name not in _OF_A_SESSION and value != field.default:
            stated.append((field.name, value))
    # Settings of Primus beyond a Request's fields.
    text = repr((stated, getattr(request, "arguments", ()), machine.gpu_info.device_name))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def recover(folder: Path, digests: Collection[str]) -> None:
    """Write results for killed runs, after waiting for runs of these digests that still run."""
    deadline = time.monotonic() + STILL_ENDING_S
    waiting = False
    while True:
        for recovered in recovery.recover(folder):
            console.note(recovered.line, weakens=True)
        if not recovery.running(folder, digests) or time.monotonic() > deadline:
            return
        if not waiting:
            console.info("waiting for another run to finish")
            waiting = True
        time.sleep(0.5)


def found(plan: Plan, machine: Machine) -> dict[Key, list[Found]]:
    """Return the runs of each request of a plan in its directory: the latest first, complete ones
    before others.

    More than one if the whole plan was measured again.
    """
    if not plan.output_dir.is_dir():
        return {}
    wanted = {digest(request, machine) for request in plan.requests}
    runs: dict[Key, list[Found]] = {}
    for file in store.find([plan.output_dir])[0]:
        for run in file.runs:
            if run.request in wanted and run.round is not None:
                runs.setdefault((run.request, run.round), []).append(Found(run, Path(file.name)))
    for alike in runs.values():
        alike.sort(
            key=lambda one: (one.run.status == "complete", one.run.timestamp or ""), reverse=True
        )
    return runs


def result_files(plan: Plan, machine: Machine) -> list[Path]:
    """Return the result file of each request of a plan, as its runs will write them; parts of a
    name may be unknown.
    """
    planned: dict[Path, tuple[Run, ...]] = {}
    paths = []
    for request in plan.requests:
        config = request.training_config(num_gpus=request.num_gpus, precision=request.precision)
        stated = {
            "request": digest(request, machine),
            "gpu_info": machine.gpu_info,
            "data": Data(seed=request.seed),
        }
        name = plan.framework_of(request).launcher.result_name(request)
        paths.append(
            store.planned_place(
                plan.output_dir / name, request.to_run(training_config=config, **stated), planned
            )
        )
    return paths


def is_done(run: Run, *, retries_failed: bool) -> bool:
    """Return whether a training isn't to be repeated: an interrupted one is, a failed one if that
    is requested.

    One whose loss is not a number has failed.
    """
    if run.status == "failed" or divergence(run):
        return not retries_failed
    return run.status == "complete"


def introduce(plan: Plan, machine: Machine, runs: Mapping[Key, Sequence[Found]]) -> None:
    """Print how many runs a plan has, how many are done, and the time and GPU hours of the
    others.
    """
    digests = [digest(request, machine) for request in plan.requests]
    order = list(plan.order())
    left = []
    for number, index in order:
        results = runs.get((digests[index], number))
        if results is None or not is_done(results[0].run, retries_failed=plan.retries_failed):
            left.append(plan.requests[index])
    if len(order) < 2:
        return
    done = len(order) - len(left)
    parts = [f"{counted(len(order), 'run')} of {counted(len(plan.requests), 'configuration')}"]
    if plan.resumes:
        parts.append(f"{done} done")
    values: dict[str, object] = {
        "runs": len(order),
        "configurations": len(plan.requests),
        "done": done,
    }
    if left and all(request.time_limit_s is not None for request in left):
        seconds = plan.cooldown_s * (len(left) - 1)
        gpu_seconds = 0.0
        starts_s = set()
        for request in left:
            start_s = 0.0
            if request.platform != "cpu":
                start_s = plan.framework_of(request).launcher.start_s
            starts_s.add(start_s)
            run_s = (request.time_limit_s or 0.0) + start_s
            seconds += run_s
            gpu_seconds += request.num_gpus * run_s
        values["seconds_at_most"] = seconds
        text = f"at most {units.duration(seconds)}"
        if any(starts_s):
            values["gpu_hours_at_most"] = hours = gpu_seconds / 3600
            minutes = " to ".join(f"{start_s / 60:g}" for start_s in sorted(starts_s))
            text += (
                f" and {units.number(hours)} GPU hours, including an estimated {minutes} min of"
                " start-up per run"
            )
        else:
            text += ", plus start-up time"
        parts.append(text)
    console.current().values["plan"] = values
    console.info(f"plan: {', '.join(parts)}")
    if "seconds_at_most" in values:
        sooner = "a run that completes its steps ends sooner"
        tiny = scales.SCALES[0].name
        if all(request.scale == tiny and request.platform == "cpu" for request in left):
            sequences = sum(request.steps * request.global_batch_size for request in left)
            usual_s = START_S * len(left) + SEQUENCE_S * sequences
            sooner = f"all steps should take about {math.ceil(usual_s / 60)} min"
        console.info(f"(upper bound set by --time-limit; {sooner})")
