"""Plan of a session: resolved requests, and the order of their runs."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tprimat import frameworks
from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks import match, profiling, scales, search_space
from tprimat.frameworks import nodes as several_nodes
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.nemo import options as nemo_options
from tprimat.frameworks.nemo.options import under_torchrun
from tprimat.frameworks.nodes import Node
from tprimat.frameworks.request import (
    DEFAULT,
    LAUNCHER,
    BenchmarkOptions,
    Device,
    Request,
    RequestedConfig,
    SessionOptions,
)
from tprimat.machine import held_memory
from tprimat.machine.host import Host, memory_limit_gb
from tprimat.machine.platforms import Machine
from tprimat.results.fields import FieldValues, known_items
from tprimat.results.run import Tuning
from tprimat.store import store
from tprimat.text import counted
from tprimat.units import GB

COOLDOWN_ON_GPU = 30.0
BF16_IN_SOFTWARE = (
    "this CPU has no BF16 instructions; BF16 is emulated in software, about 20 times slower than"
    " FP32 with only AVX2"
)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The runs to run.

    Attributes:
        requests: one for each configuration, in the order of the models and precisions.
        output_dir: directory of results and logs, as the user named it.
        runs: number of runs of each configuration.
        bundle: file for results and logs together; None for none.
        limit_s: seconds after which a training is stopped; None to derive it from the request's
            time limit.
        stops_at_failure: whether nothing more is run after a training that failed.
        tuning: how the configuration was chosen that --config brings; None if it wasn't.
        arguments: those of the command, which the results keep so that it can be repeated; None for
            another command.
        advice: warning for too short runs; None for the default one.
        resumes: whether runs with a result in the output directory aren't repeated, except
            interrupted ones.
        retries_failed: whether what failed is run again then.
        keeps_failures: whether a training that failed before it could write a result leaves one all
            the same.
        training_lines: whether the output of the runs is shown; None to show it if no progress bar
            can be drawn.
    """

    frameworks: tuple[Framework, ...]
    requests: tuple[Request, ...]
    output_dir: Path
    runs: int = 1
    cooldown_s: float = 0.0
    notes: tuple[str, ...] = ()
    bundle: Path | None = None
    limit_s: float | None = None
    stops_at_failure: bool = False
    advice: str | None = None
    training_lines: bool | None = None
    resumes: bool = False
    retries_failed: bool = False
    keeps_failures: bool = False
    tuning: Tuning | None = None
    arguments: tuple[str, ...] | None = None

    def framework_of(self, request: Request) -> Framework:
        """Return the framework that trains a request."""
        return next(
            (framework for framework in self.frameworks if framework.name == request.framework),
            self.frameworks[0],
        )

    def name_of(self, request: Request) -> str:
        """Return the name of a request in messages: with its label if nothing else distinguishes it
        from another.
        """
        name = self._usual_name(request)
        alike = [request for request in self.requests if self._usual_name(request) == name]
        if len(alike) > 1 and request.label:
            return f"{name}, {request.label}"
        return name

    def _usual_name(self, request: Request) -> str:
        parts = [request.model, request.precision]
        alike = [other for other in self.requests if other.model == request.model]
        if len({other.micro_batch_size for other in alike}) > 1:
            parts.append(f"micro-batch {request.micro_batch_size}")
        if len({other.num_gpus for other in alike}) > 1:
            unit = "process" if request.platform == "cpu" else "GPU"
            parts.append(f"on {counted(request.num_gpus, unit)}")
        if len({other.num_nodes for other in alike}) > 1:
            parts.append(f"on {counted(request.num_nodes, 'node')}")
        if len(self.frameworks) > 1:
            parts.append(request.framework)
        return " ".join(parts)

    def order(self) -> Iterator[tuple[int, int]]:
        """Yield runs as (number of the run, index of the request): AB BA AB, model by model.

        One run of each configuration comes before the next of any, so that whatever drifts with
        time, such as the temperature, meets all alike. The frameworks and precisions of a model
        change places from run to run, since whichever comes second finds the machine warmer.
        """
        for run in range(1, self.runs + 1):
            for model in dict.fromkeys(request.model for request in self.requests):
                indices = []
                for index, request in enumerate(self.requests):
                    if request.model == model:
                        indices.append(index)
                for index in indices if run % 2 else reversed(indices):
                    yield run, index


def device_of(machine: Machine) -> Device:
    """Return the device of a machine that platforms.detect() has looked at."""
    gpu = machine.gpu_info
    if machine.platform == "cpu":
        limits = (gpu.total_memory_gb, memory_limit_gb(Host()))
        memory = min((limit * GB for limit in limits if limit is not None), default=None)
        return Device("cpu", machine.environment.cpu_threads or 1, memory)
    # If the GPUs differ, the smallest one limits the memory of each, and the fullest one the free
    # memory.
    sizes = [
        (device.info.total_memory_gb, device.memory_held_gb or 0.0) for device in machine.devices
    ] or [(gpu.total_memory_gb, 0.0)]
    stated = [(size * GB, held * GB) for size, held in sizes if size is not None]
    memory, held = None, 0.0
    if stated:
        memory = min(size for size, _ in stated)
        held = memory - min(size - held for size, held in stated)
        if held <= held_memory.HELD_SHARE * memory:
            held = 0.0
    return Device(
        machine.platform, gpu.device_count or 1, memory, gpu.architecture, gpu.device_name, held
    )


def plan_for(
    options: SessionOptions,
    framework: Framework,
    requests: Iterable[Request],
    platform: str,
    notes: Iterable[str],
    **settings: Any,
) -> Plan:
    """Return the plan of a command on this platform: its requests, the options of its session, and
    settings.
    """
    cooldown_s = options.cooldown
    if cooldown_s is None:
        cooldown_s = 0.0 if platform == "cpu" else COOLDOWN_ON_GPU
    return Plan(
        frameworks=(framework,),
        requests=tuple(requests),
        output_dir=options.output_dir,
        runs=options.runs,
        cooldown_s=cooldown_s,
        notes=tuple(dict.fromkeys(notes)),
        bundle=getattr(options, "bundle", None),
        **settings,
    )


def plan_of(options: BenchmarkOptions, framework: Framework, machine: Machine) -> Plan:
    """Return the plan that the options of `benchmark` give for a framework. Raises UsageError if it
    doesn't support one.
    """
    if machine.unusable_gpu and framework.on_cpu:
        raise UsageError(
            machine.unusable_gpu,
            hint="fix the GPU driver, or set CUDA_VISIBLE_DEVICES=-1 to benchmark the CPU",
            heading="unusable-gpu",
        )
    notes: list[str] = []
    device = device_of(machine)
    if framework.divides:
        device = nemo_options.device(device, options, notes)
    names, requested = requested_config(options, device, framework, notes)
    resolved = _resolved(options, framework, device, names, requested)
    trained = {request.scale for request, _ in resolved}
    if len(trained) > 1 and requested.shape is None:
        # The memory that suffices for one model is no limit if the others need less.
        smallest = _smallest(trained)
        for request, about_request in resolved:
            if request.scale == smallest:
                notes += about_request
        notes.append(f"scale {smallest} for all runs, the largest at which every run fits")
        resolved = _resolved(options, framework, device, names, requested.but(scale=smallest))
    requests = []
    for request, about_request in resolved:
        requests.append(request)
        notes += about_request
    in_software = device.platform == "cpu" and machine.environment.lacks_bf16
    if in_software and any(request.precision == "bf16" for request in requests):
        notes.append(BF16_IN_SOFTWARE)
    return plan_for(
        options,
        framework,
        requests,
        device.platform,
        (*machine.warnings, *notes),
        training_lines=options.training_lines,
    )


def _smallest(trained: set[str]) -> str:
    return next(scale.name for scale in scales.SCALES if scale.name in trained)


def _resolved(
    options: BenchmarkOptions,
    framework: Framework,
    device: Device,
    names: Sequence[str],
    requested: RequestedConfig,
) -> list[tuple[Request, tuple[str, ...]]]:
    """Return the request of each model, precision and micro-batch, with notes on it."""
    node = this_node(options)
    output_dir = Path.cwd() / options.output_dir
    resolved = []
    for name in names:
        precisions = options.precision or (requested.precision,)
        sizes = options.micro_batch_size or (requested.micro_batch_size,)
        for precision, micro in itertools.product(precisions, sizes):
            swept = {}
            if len(precisions) > 1:
                swept["precision"] = precision
            if len(sizes) > 1:
                swept["micro_batch_size"] = micro
            label = "-".join(filter(None, (requested.label, search_space.name_of(swept))))
            config = requested.but(precision=precision, micro_batch_size=micro, label=label or None)
            if requested.label is None:
                config = config.but(origins={**requested.origins, "label": DEFAULT})
            request, more = framework.resolve_config(name, config, device, output_dir)
            if node is not None:
                request = dataclasses.replace(
                    request, node_index=node.rank, rendezvous=node.rendezvous
                )
            if options.profile is not None:
                request = dataclasses.replace(request, profile=options.profile)
                profiling.check(
                    request, framework, torchrun=under_torchrun(), dry_run=options.dry_run
                )
            resolved.append((request, more))
    return resolved


def this_node(options: BenchmarkOptions) -> Node | None:
    """Return which machine of several this is; None for one, and where torchrun has started the
    processes.

    Raises UsageError if the environment doesn't state it.
    """
    if (options.num_nodes or 1) == 1 or under_torchrun():
        return None
    return several_nodes.this_node(os.environ, options.num_nodes)


def choose_framework(options: BenchmarkOptions, machine: Machine) -> Framework:
    """Return the framework in the options, or the one that can run their request on this machine.

    Raises UsageError if it can't run here.
    """
    is_full = options.scale in (None, scales.FULL, scales.LARGEST)
    if options.framework is None and options.match is not None:
        is_full = models.with_shape(store.read(options.match)[0].model_config) is not None

    def suits(framework: Framework) -> bool:
        if framework.name != nemo_options.NEMO and nemo_options.own_option(options) is not None:
            return False
        return (
            set(options.model or ()) <= set(framework.models)
            and set(options.precision or ()) <= set(framework.precisions)
            and (is_full or not framework.launcher.full_size_only)
        )

    return frameworks.choose(
        options.framework, machine.platform, to_show=options.dry_run, suits=suits
    )


def plan_of_several(names: Sequence[str], options: BenchmarkOptions, machine: Machine) -> Plan:
    """Return one plan for several frameworks, or `all` that can run here: for each model, all that
    can train it.

    Raises UsageError where a named framework can't train that, or none can.
    """
    everything = tuple(names) == (frameworks.ALL,)
    if frameworks.ALL in names and not everything:
        raise UsageError(
            f"--framework {options.framework}: 'all' cannot be combined with other names",
            heading="wrong-usage",
        )
    notes = []
    plans = []
    chosen = []
    if everything:
        for framework in frameworks.FRAMEWORKS:
            reason = framework.unavailable()
            if reason is None:
                chosen.append(framework)
            else:
                notes.append(f"{framework.name} skipped: {reason}")
    else:
        for name in names:
            chosen.append(frameworks.choose(name, machine.platform, to_show=options.dry_run))
    for framework in chosen:
        try:
            plans.append(plan_of(options, framework, machine))
        except UsageError as error:
            if not everything:
                raise
            notes.append(f"{framework.name} skipped: {error.message}")
    if not plans:
        raise frameworks.none_can_train(f"no framework can train this here: {'; '.join(notes)}")
    embedded = [number for number, plan in enumerate(plans) if plan.frameworks[0].embedded]
    trained = {request.scale for number in embedded for request in plans[number].requests}
    if len(trained) > 1 and options.scale is None and options.match is None:
        # They are compared, and some take more memory than others.
        options = options.but(scale=_smallest(trained))
        for number in embedded:
            plans[number] = plan_of(options, plans[number].frameworks[0], machine)
    return merged(plans, notes)


def merged(plans: Sequence[Plan], notes: Iterable[str] = ()) -> Plan:
    """Return one plan of the requests of several, each once, model by model."""
    requests = []
    every_framework: list[Framework] = []
    every_note = [*notes]
    for plan in plans:
        for request in plan.requests:
            if request not in requests:
                requests.append(request)
        every_framework += plan.frameworks
        every_note += plan.notes
    order = list(dict.fromkeys(request.model for request in requests))
    return dataclasses.replace(
        plans[0],
        frameworks=tuple(dict.fromkeys(every_framework)),
        requests=tuple(sorted(requests, key=lambda request: order.index(request.model))),
        notes=tuple(dict.fromkeys(every_note)),
    )


def given_options(options: BenchmarkOptions) -> FieldValues:
    """Return the options as fields of a RequestedConfig; precisions, which may be several,
    aside.
    """
    names = RequestedConfig.DEFAULTS.keys() & vars(options).keys()
    given = {name: getattr(options, name) for name in sorted(names - {"precision"})}
    # Each of several micro-batches makes a request of its own.
    given |= {
        "eager": options.eager or None,
        "micro_batch_size": (options.micro_batch_size or (None,))[0],
    }
    given["num_gpus"] = options.gpus
    given["settings"] = tuple(options.settings or ()) or None
    if under_torchrun():
        world = int(os.environ["WORLD_SIZE"])
        given |= {
            "num_gpus": world,
            "num_nodes": world // int(os.environ.get("LOCAL_WORLD_SIZE", world)),
        }
        given["origins"] = dict.fromkeys(("num_gpus", "num_nodes"), LAUNCHER)
    return known_items(given)


def requested_config(
    options: BenchmarkOptions, device: Device, framework: Framework, notes: list[str]
) -> tuple[tuple[str, ...], RequestedConfig]:
    """Return models and settings: the options override the result to match; adds what is not as
    there to the notes.
    """
    nemo_options.check(framework.name, framework.divides, options)
    stated = given_options(options)
    if options.match is None:
        return options.model or framework.models, RequestedConfig(**stated)
    if options.scale is not None:
        raise UsageError(
            "--scale and --match cannot be combined: the result defines the scale",
            heading="cant-match",
        )
    run = store.read(options.match)[0]
    model, matched = match.requested_config(run, options.match, framework)
    if options.precision is None:
        match.check_precision(run, options.match, framework)
    elif options.precision != (matched.precision,):
        reference = matched.precision or "an unknown precision"
        notes.append(
            f"{options.match}: {reference} there, {', '.join(options.precision)} here, as requested"
        )
    num_gpus = options.gpus
    if not num_gpus:
        a_node = 1 if device.platform == "cpu" else device.devices
        num_gpus = a_node * (options.num_nodes or 1)
    for note in match.differences(run, framework, num_gpus, options.data):
        notes.append(f"{options.match}: {note}")
    if options.model not in (None, (model,)):
        raise UsageError(
            f"{options.match} is a result of {model}: omit --model, or use --model {model}",
            heading="cant-match",
        )
    for field, value in stated.items():
        reference = getattr(matched, field)
        if field in matched.origins and reference not in (None, value):
            notes.append(
                f"{options.match}: {field.replace('_', ' ')} {reference} there, {value} here, as"
                " requested"
            )
    own = {*stated}
    if options.precision:
        own.add("precision")
    theirs = {name: origin for name, origin in matched.origins.items() if name not in own}
    return (model,), matched.but(**stated | {"origins": theirs | stated.get("origins", {})})
