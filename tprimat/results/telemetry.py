"""Fields of a result: what telemetry read from the devices and the CPU during a training."""

from __future__ import annotations

import operator
from typing import Annotated, Literal

from tprimat.results.fields import LARGEST_VALUE, Count, Natural, Positive, Section, Share, Value

LONGEST_SERIES = 512
"""Entries of a series on the step axis; a longer training has more steps in each."""

VALID_ENERGY = ("measured", "counter-wrapped", "partly-sampled", "unverified", "from-power")
"""Values of `energy_code` with which there is an energy, the surest first; docs/telemetry.md
explains all.
"""


THROTTLING = {
    "thermal": "thermal throttling",
    "hardware-slowdown": "hardware slowdown (the GPU protects itself)",
    "power-brake": "power brake (the server limits the GPUs' power)",
    "clock-setting": "clock limited by a setting (nvidia-smi -lgc or -ac)",
    "sync-boost": "clock held down by another GPU (sync boost)",
}
"""Titles of what lowers clocks, by the code of the event."""


class TelemetryIssue(Section, frozen=True, kw_only=True):
    """An event on the machine that may explain a step time or reduce the validity of the
    measurement.
    """

    code: Annotated[str, "kind of event, such as power-cap; docs/telemetry.md lists them"]
    text: Annotated[str, "the event in words, without its steps"]
    severity: Annotated[Literal["warning", "info"], "warning: it affects speed or correctness"] = (
        "warning"
    )
    first_step: Annotated[Count | None, "first step affected; null: all steps"] = None
    last_step: Annotated[Count | None, "last step affected; null: all steps"] = None
    device: Annotated[str | None, "UUID or PCI address of the GPU, or cpu; null: several"] = None
    value: Annotated[
        Value | None, "measured value, in the unit of the text; a share from 0 to 1"
    ] = None
    expected: Annotated[Value | None, "value without the event, in the same unit"] = None

    @property
    def where(self) -> str | None:
        """The steps in words; None for all."""
        if self.first_step is None or self.last_step is None:
            return None
        if self.first_step == self.last_step:
            return f"step {self.first_step}"
        return f"steps {self.first_step}–{self.last_step}"

    @property
    def sentence(self) -> str:
        """The event with its steps."""
        if self.where:
            return f"{self.where}: {self.text}"
        return self.text


class Telemetry(Section, frozen=True, kw_only=True):
    """Readings of devices and CPU during a training, from drivers and the system; no step waits for
    them.
    """

    interval_seconds: Annotated[Positive | None, "time between two readings, mean, s"] = None
    samples: Annotated[Natural | None, "readings from the first to the last step"] = None
    devices: Annotated[
        tuple[str, ...], "UUID (NVIDIA) or PCI address (AMD) of each GPU that was read"
    ] = ()
    energy_code: Annotated[
        str | None,
        f"validity of the energy; it counts with {', '.join(VALID_ENERGY)}; null: not measured",
    ] = None
    energy_reason: Annotated[str | None, "why there is no energy, or what limits it"] = None
    energy_covers: Annotated[str | None, "what the energy includes"] = None
    energy_excludes: Annotated[tuple[str, ...], "what the energy doesn't include"] = ()
    throttle_shares: Annotated[
        dict[str, Share],
        "share of the readings in which a GPU's driver reports this reason for a lower clock",
    ] = {}
    issues: Annotated[tuple[TelemetryIssue, ...], "events, the most severe first"] = ()
    unknown: Annotated[tuple[str, ...], "what could not be read, and why"] = ()
    steps: Annotated[
        tuple[Count, ...], f"last step of each entry of `series`; up to {LONGEST_SERIES}"
    ] = ()
    series: Annotated[
        dict[str, tuple[Value | None, ...]],
        "readings on the step axis, means over an entry's steps; unit in the name",
    ] = {}

    def __post_init__(self) -> None:
        if len(self.steps) > LONGEST_SERIES or not all(
            map(operator.lt, self.steps, self.steps[1:])
        ):
            raise ValueError(f"telemetry.steps must rise, and have up to {LONGEST_SERIES} entries")
        for name, values in self.series.items():
            if len(values) != len(self.steps):
                raise ValueError(
                    f"telemetry.series.{name} has {len(values)} entries, steps has"
                    f" {len(self.steps)}"
                )
            if not all(value is None or abs(value) <= LARGEST_VALUE for value in values):
                raise ValueError(f"telemetry.series.{name} must be finite or null")
