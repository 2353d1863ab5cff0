"""`run-primus` (run_primus_*.sh): a training by AMD's Primus, from the checks before it to its
result.
"""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from tprimat import frameworks
from tprimat.catalog import models
from tprimat.cli._arguments import prints_outcome
from tprimat.cli.options import run_primus as primus_options
from tprimat.errors import ExitStatus, UsageError
from tprimat.frameworks.primus import installation as primus_installation
from tprimat.frameworks.primus import launch as primus
from tprimat.frameworks.primus.installation import Installation
from tprimat.frameworks.primus.request import PrimusRequest, PrimusTraining
from tprimat.frameworks.primus.resolve import Planner, models_of
from tprimat.log_import import bundle
from tprimat.machine import platforms
from tprimat.machine.platforms import Machine
from tprimat.measure import sweep
from tprimat.measure.display import SMOKE_TEST_BELOW, introduce, show
from tprimat.measure.plan import device_of, plan_for
from tprimat.measure.session import Session
from tprimat.store import store

MEASUREMENT_ITERATIONS = 200


@prints_outcome("results")
def main(options: argparse.Namespace) -> int:
    """Check, train and read; return the status of the last training, or an ExitStatus if none was
    started.
    """
    bundle.check(options.bundle)
    installation = primus_installation.from_environment(os.environ, options.primus_path)
    if problem := installation.problem():
        raise UsageError(problem, heading="no-primus")
    machine = platforms.detect(platforms.DESCRIBED)
    trainings = _trainings(options, installation, machine)
    iterations = min(training.steps for training in trainings)
    plan_of_session = plan_for(
        options,
        frameworks.by_name("primus"),
        # Megatron ends trainings after --exit-after; only after --time-limit are they killed.
        trainings,
        machine.platform,
        [note for training in trainings for note in primus.notes(training)],
        limit_s=options.time_limit,
        stops_at_failure=True,
        advice=_advice(options, iterations) if iterations < SMOKE_TEST_BELOW else None,
    )
    introduce(plan_of_session, machine)
    session = Session(plan_of_session, machine)
    is_ready = session.is_ready()
    if options.dry_run:
        show(plan_of_session, sweep.result_files(plan_of_session, machine))
    if options.dry_run or not is_ready:
        if is_ready:
            return ExitStatus.OK
        return ExitStatus.USAGE
    session.run()
    session.sum_up()
    return session.status


def _trainings(
    options: argparse.Namespace, installation: Installation, machine: Machine
) -> tuple[PrimusTraining, ...]:
    """Return the requested trainings; all are planned before the first is started."""
    config = own_configuration(options)
    names, own = models_of(options.model, config, installation, os.environ)
    if options.match is not None:
        matched = (store.read(options.match)[0], str(options.match))
    else:
        matched = None
    same_names = PrimusRequest.DEFAULTS.keys() & vars(options).keys()
    fields = {name: getattr(options, name) for name in same_names} | {"matched": matched}
    fields |= {
        "steps": options.train_iters,
        "num_gpus": options.gpus,
        "exit_after_s": options.exit_after,
    }
    fields |= {"installation": installation}
    output_dir = Path.cwd() / options.output_dir
    device = device_of(machine)
    primus_row = frameworks.by_name("primus")
    requests = {}
    for name in names:
        requests[name] = PrimusRequest(**fields | {"config": config if name == own else None})
    trainings = []
    for name, request in requests.items():
        planner = Planner(primus_row, models.by_name(name), request, device)
        trainings.append(planner.plan(output_dir))
    return tuple(trainings)


def own_configuration(options: argparse.Namespace) -> Path | None:
    """Return the configuration that the user names, as an option or in the environment."""
    return options.config or (
        Path(os.environ["PRIMUS_CONFIG"]) if os.environ.get("PRIMUS_CONFIG") else None
    )


def _advice(options: argparse.Namespace, iterations: int) -> str:
    """Return a hint on a training that is too short, with the command for a measurement."""
    if options.model == "all":
        script = "./run_primus_all.sh"
    else:
        script = f"scripts/run_primus_{options.model}.sh"
    if options.model not in ("all", *primus_options.PRIMUS.models):
        script = f"tprimat run-primus --model {shlex.quote(options.model)}"
    return (
        f"Smoke test only: {iterations} iterations show that it runs, not how fast. "
        f"For a measurement: TRAIN_ITERS={MEASUREMENT_ITERATIONS} RUNS=3 {script}"
    )
