"""`benchmark --tune` and `--config`: from options to a search, and from its file to options."""

from __future__ import annotations

import dataclasses

from tprimat import console, frameworks
from tprimat.cli.options import benchmark as benchmark_options
from tprimat.cli.options._groups import DEFAULT_BUDGET
from tprimat.cli.options._training import duration
from tprimat.errors import ExitStatus, UsageError
from tprimat.frameworks import search_space
from tprimat.frameworks.request import BenchmarkOptions
from tprimat.machine.platforms import Machine
from tprimat.measure import display, tune, tuned_config
from tprimat.measure.plan import choose_framework, device_of, plan_for, requested_config
from tprimat.results.run import Tuning

_ONE = {"gpus": "--gpus", "num_nodes": "--nodes"}


def configured(options: BenchmarkOptions) -> tuple[BenchmarkOptions, Tuning | None]:
    """Return the options, completed by those in the file of --config, and the search that chose
    these.

    The search is None if the command overrides any of its options, since the configuration isn't
    the chosen one then.
    """
    if options.config is None:
        return options, None
    if options.match is not None or options.tune:
        other = "--match" if options.match is not None else "--tune"
        raise UsageError(f"--config and {other} cannot be combined", heading="tuning")
    config = tuned_config.read(options.config)
    words = list(tuned_config.words(config.options))
    parser = benchmark_options.parser()
    alone = parser.parse_args(words)
    both = parser.parse_args([*words, *options.argv])
    both.argv = options.argv
    flags = {flag: action.dest for action in parser._actions for flag in action.option_strings}
    changed = []
    for name in config.options:
        if getattr(alone, flags[name]) != getattr(both, flags[name]):
            changed.append(name)
    if changed:
        console.note(
            f"{options.config}: overridden by {', '.join(changed)}, so this run counts as untuned"
        )
    return both, None if changed else config.tuning


def _check(options: BenchmarkOptions) -> None:
    """Raise UsageError for options that can't be combined with a search."""
    if options.executor != "local" or frameworks.several(options.framework) is not None:
        raise UsageError(
            "--tune tunes one framework, on this machine",
            hint="choose it: --framework",
            heading="tuning",
        )
    for name, flag in _ONE.items():
        if isinstance(getattr(options, name), tuple):
            raise UsageError(
                f"--tune takes one value of {flag}",
                hint="tune each value separately",
                heading="tuning",
            )
    if (options.num_nodes or 1) > 1:
        raise UsageError(
            "--tune searches on one node", hint="use --nodes 1", heading="several-nodes"
        )
    if options.resume or options.retry_failed or options.only or options.profile:
        raise UsageError(
            "--tune cannot be combined with --resume, --retry-failed, --only and --profile",
            heading="tuning",
        )


def search(options: BenchmarkOptions, machine: Machine) -> int:
    """Search for the fastest settings of each model."""
    _check(options)
    framework = choose_framework(options, machine)
    notes: list[str] = []
    device = device_of(machine)
    models, requested = requested_config(options, device, framework, notes)
    if options.precision:
        requested = requested.but(precision=options.precision[0])
    micro_batches: tuple[int, ...] = ()
    if options.micro_batch_size and len(options.micro_batch_size) > 1:
        micro_batches = options.micro_batch_size
        requested = requested.but(micro_batch_size=None)
    output_dir = options.output_dir.absolute()
    plans = []
    for model in models:
        space = search_space.space_of(
            framework, model, requested, options.precision or (), device, output_dir, micro_batches
        )
        if len(space.candidates) < 2:
            raise UsageError(
                f"{model}: nothing to search: options fix every setting, or {framework.name} has"
                " one value that fits",
                hint="remove options such as --micro-batch-size",
                heading="tuning",
            )
        requests = [candidate.request for candidate in space.candidates]
        plan = plan_for(options, framework, requests, device.platform, (*machine.warnings, *notes))
        plans.append((dataclasses.replace(plan, output_dir=output_dir), space))
    if "precision" in plans[0][1].knobs:
        console.note(
            "precision is part of the search: a lower precision changes the model, not only the"
            " speed"
        )
    display.introduce(
        dataclasses.replace(plans[0][0], requests=tuple(s.candidates[0].request for _, s in plans)),
        machine,
    )
    budget_s = options.budget or duration(DEFAULT_BUDGET)
    if options.dry_run:
        for _, space in plans:
            model = space.candidates[0].request.model
            console.info(
                f"\n{model}: {len(space.candidates)} candidates, {len(space.excluded)} excluded"
            )
            for knob, values in space.knobs.items():
                console.info(f"  {knob}: {', '.join(map(str, values))}")
        console.info("\nNothing was run.")
        return ExitStatus.OK
    return tune.tune(plans, machine, budget_s)
