"""NeMo's own options of `benchmark`."""

from __future__ import annotations

import os

from tprimat.catalog import gpus
from tprimat.catalog.gpus import Gpu
from tprimat.errors import UsageError
from tprimat.frameworks.nemo.defaults import CLASSIC
from tprimat.frameworks.request import TOKENS, BenchmarkOptions, Device
from tprimat.machine.host import is_emulated
from tprimat.settings.rows import DIVISION, by_key
from tprimat.text import suggestion
from tprimat.units import GB

NEMO = "nemo"
"""The framework that takes all of these options; another one that can divide a model takes most."""

SETTINGS = (*DIVISION, "data", "preset", "settings")
"""Fields of RequestedConfig that are NeMo's."""

GPUS_OF_A_NODE = 8
"""The common number of GPUs in such machines, if it isn't stated and can't be detected."""


def check(framework: str, divides: bool, options: BenchmarkOptions) -> None:
    """Raise UsageError for options that a framework has no use for."""
    first = next((name for name in SETTINGS if getattr(options, name)), None)
    given = own_option(options) if divides else first and by_key(first).option
    if not divides and options.gpu is not None:
        given = f"--gpu {_card(options.gpu).short_name}"
    if given and framework != NEMO:
        raise UsageError(
            f"{given} is a NeMo option; the framework is {framework}",
            hint=f"add --framework nemo, or remove {given}",
            heading="nemo-options",
        )


def own_option(options: BenchmarkOptions) -> str | None:
    """Return an option, with its value, that NeMo alone takes; None if there is none."""
    values = (("preset", CLASSIC), ("data", TOKENS))
    return next(
        (f"--{name} {value}" for name, value in values if getattr(options, name) == value), None
    )


def under_torchrun() -> bool:
    """Return whether torchrun has started this process, as one of several that train together."""
    return "TORCHELASTIC_RUN_ID" in os.environ and "WORLD_SIZE" in os.environ


def device(here: Device, options: BenchmarkOptions, notes: list[str]) -> Device:
    """Return the device that will train, which needn't be this one for a dry run."""
    if options.gpu is None:
        if here.platform != "cpu" or not options.dry_run or is_emulated():
            return here
        notes.append(
            f"this machine has no GPU; this dry run is for {options.gpus or GPUS_OF_A_NODE} NVIDIA"
            " GPUs (choose others with --gpus and --gpu NAME)"
        )
    nodes = options.num_nodes or 1
    on_each = max(1, (options.gpus or GPUS_OF_A_NODE * nodes) // nodes)
    if options.gpu is None:
        return Device("nvd", on_each, None)
    card = _card(options.gpu)
    return Device("nvd", on_each, card.memory_gb * GB, card.architecture, card.short_name)


def _card(name: str) -> Gpu:
    """Return the row of a card by its short name or its key. Raises UsageError if there is none."""
    cards = [gpu for gpu in gpus.gpus() if gpu.vendor == "NVIDIA"]
    if exact := [gpu for gpu in cards if gpus.is_called(gpu, name)]:
        return exact[0]
    names = list(dict.fromkeys(gpu.short_name for gpu in cards))
    longer = [card for card in names if name.lower() in card.lower()]
    meant = suggestion(
        name,
        () if longer else names,
        f"choose from {', '.join(longer or names)}",
        most=3,
        cutoff=0.4,
    )
    raise UsageError(f"unknown NVIDIA GPU {name!r}", hint=meant, heading="nemo-options")
