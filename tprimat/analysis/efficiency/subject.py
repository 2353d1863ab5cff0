"""The inputs of the efficiency metrics, and the metrics: values with their intervals."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Literal

from tprimat.analysis import flops
from tprimat.catalog import gpus as hardware
from tprimat.catalog.prices import Price
from tprimat.notes import Note
from tprimat.results.run import FROM_DESCRIPTION, Run, sentences
from tprimat.results.telemetry import VALID_ENERGY

ROOM_BELOW, ROOM_ABOVE = 0.50, 0.95
"""Shares of a card's memory: less leaves room for a larger micro-batch, more leaves none for the
allocator.
"""

HIGH_MFU = 75.0
"""Percent that hardly any training exceeds: published runs in BF16 reach 40 to 60, attention
kernels alone 75.
"""


@dataclasses.dataclass(frozen=True)
class Value:
    """A value in the unit of its row, with its interval if the step time has one; or None.

    The reason is why there is no value, or what must be known about it.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    def scaled(self, factor: float, reason: str | None = None) -> Value:
        """Return the value times a factor."""
        value, low, high = (
            None if each is None else each * factor for each in (self.value, self.low, self.high)
        )
        return Value(value, low, high, reason)

    def inverted(self, factor: float, reason: str | None = None) -> Value:
        """Return a factor over the value."""
        value, low, high = (
            None if each is None else factor / each for each in (self.value, self.high, self.low)
        )
        return Value(value, low, high, reason)

    def priced(self, price: Price) -> Value:
        """Return the cost of GPU-hours; its interval combines those of time and price."""
        assert self.value is not None
        low = self.low or self.value
        high = self.high or self.value
        if low == high and price.low == price.high:
            return Value(price.cost(self.value))
        return Value(
            price.cost(self.value), price.cost(low, price.low), price.cost(high, price.high)
        )


@dataclasses.dataclass(frozen=True)
class Options:
    """Values from the user that the result doesn't state.

    Attributes:
        precision: fills in a precision that the result leaves open.
        precisions: the same of single systems, by their names or a part of them.
        peak_tflops: dense peak of the device, TFLOP/s, instead of the table's.
        price: USD per GPU-hour.
        tdp_energy: whether to give energy as if the device drew its TDP.
        electricity: USD per kWh.
        pue: power usage effectiveness of the building: all of its energy over that of the
            computers.
        target_loss: training loss, nats/token, until which steps are counted.
        doubt: why no MFU is shown, if so; from the checks, not from the user.
    """

    precision: str | None = None
    precisions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    peak_tflops: float | None = None
    price: Price | None = None
    tdp_energy: bool = False
    electricity: float | None = None
    pue: float = 1.0
    target_loss: float | None = None
    doubt: Note | None = None


class Subject:
    """What the metrics are computed from: runs of one configuration, and their speed in
    tokens/s/GPU.

    `samples` is their speed in samples/s/GPU, if these are compared instead.
    """

    def __init__(
        self, runs: Sequence[Run], speed: Value, options: Options, samples: Value | None = None
    ) -> None:
        self.runs = runs
        self.speed = speed
        self.samples = samples
        self.options = options
        # What must fit is the run that took the most memory.
        self.run = max(runs, key=lambda run: ((memory := highest_memory(run)) and memory[0]) or 0.0)
        self.gpus = self.run.num_gpus

    @functools.cached_property
    def device(self) -> hardware.Match:
        """The GPU's row."""
        return hardware.match(self.run.gpu_info)

    @functools.cached_property
    def precision(self) -> str | None:
        """The precision that ran."""
        return self.run.training_config.precision or self.options.precision

    @functools.cached_property
    def peak(self) -> tuple[float | None, str]:
        """The dense peak, TFLOP/s, and where it is from; or None and why."""
        if self.options.peak_tflops is not None:
            return (
                self.options.peak_tflops,
                f"peak of {self.options.peak_tflops:g} TFLOP/s from the command line",
            )
        if self.precision is None:
            return None, "precision unknown: set it with --precision"
        gpu = self.device.gpu
        if gpu is None:
            return None, f"{self.device.reason}: set the peak with --peak-tflops"
        peak = gpu.peak_tflops(self.precision)
        if peak is None:
            return (
                None,
                f"no known dense {self.precision} peak of {gpu.title}: set it with --peak-tflops",
            )
        config = self.run.training_config
        start = ""
        if not config.precision:
            start = f"precision {self.precision} from the command line; "
        if (config.precision_detail or "").startswith(FROM_DESCRIPTION):
            start = f"precision {self.precision} from the {FROM_DESCRIPTION}; "
        doubt = f"; {gpu.doubt}" if gpu.doubt else ""
        return peak, f"{start}dense {self.precision} peak of {gpu.title}: {peak:g} TFLOP/s{doubt}"

    @functools.cached_property
    def total(self) -> Value:
        """The speed of all GPUs together, tokens/s."""
        if self.gpus:
            return self.speed.scaled(self.gpus)
        return Value(None)

    def tflops(self, *, causal: bool) -> Value:
        """Return the model TFLOP/s of a GPU."""
        if self.speed.value is None:
            return Value(
                None, reason="no throughput: see the warnings" if self.samples is None else None
            )
        shape, note = flops.model_shape(self.run)
        length = self.run.training_config.sequence_length
        packing = self.run.training_config.packing
        counted = 0 if packing else length
        if shape and counted is not None:
            per_token = flops.flops_per_token(shape, counted, causal=causal)
        else:
            per_token = None
        if per_token is None:
            unknown = "no FLOPs: the model's shape or the sequence length is incomplete"
            return Value(None, reason=unknown if shape else note)
        if packing:
            note = "; ".join(filter(None, (note, "packed documents: attention is not counted")))
        return self.speed.scaled(per_token / 1e12, note)

    @functools.cached_property
    def joules_per_token(self) -> tuple[float, ...]:
        """The measured energy per token of each run that has one, J."""
        energies = []
        for run in self.runs:
            energy = run.energy_metrics.get("energy_joules")
            tokens = run.energy_metrics.get("measured_tokens")
            if energy and tokens and run.telemetry.energy_code in (None, *VALID_ENERGY):
                energies.append(energy / tokens)
        return tuple(energies)

    def share_of_peak(self, achieved: Value) -> Value:
        """Return achieved TFLOP/s in percent of the peak."""
        if doubt := self.options.doubt:
            peak = None
            reason = f"no MFU, since {sentences([doubt])[0]}"
        else:
            peak, reason = self.peak
        if achieved.value is None or peak is None:
            return Value(None, reason=achieved.reason if achieved.value is None else reason)
        return achieved.scaled(100 / peak, reason)

    @property
    def mfu(self) -> float | None:
        """Percent of the peak with causal attention; None if it is unknown."""
        return self.share_of_peak(self.tflops(causal=True)).value

    def memory(self, factor: float, *, free: bool = False) -> Value | None:
        """Return the highest memory, or the free memory besides it, times a factor; None if one is
        unknown.
        """
        highest = highest_memory(self.run)
        total = self.run.gpu_info.total_memory_gb
        if highest is None or self.run.platform == "cpu" or (free and total is None):
            return None
        return Value(
            factor * ((total or 0.0) - highest[0] if free else highest[0]),
            reason=f"{highest[1]}, highest",
        )


def highest_memory(
    run: Run,
) -> tuple[float, Literal["in use on the device", "reserved", "allocated"]] | None:
    """Return the highest memory of the kind that comes nearest to what the card must hold, GB."""
    memory = run.memory_metrics
    if memory.peak_memory_device_used_gb is not None:
        return memory.peak_memory_device_used_gb, "in use on the device"
    if memory.peak_memory_reserved_gb is not None:
        return memory.peak_memory_reserved_gb, "reserved"
    if memory.peak_memory_allocated_gb is not None:
        return memory.peak_memory_allocated_gb, "allocated"
    return None
