"""Draw telemetry traces of runs by chance, for tests and tools without a GPU; telemetry_faults.py
plants faults.

A training of several GPUs (or on a CPU) has a warm-up, steps whose power swings, and at times a
pause for validation. Counters move ten times a second; readings are made once a second, and
sometimes late.
"""

from __future__ import annotations

import dataclasses
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tprimat.machine.cpu import CpuState
from tprimat.machine.gpu import GpuState
from tprimat.machine.telemetry import trace as traces
from tprimat.machine.telemetry.trace import Header, Sample, Trace
from tprimat.record import telemetry
from tprimat.record.telemetry.timeline import Timeline
from tprimat.results.run import SERIES, GpuInfo, Run, TrainingConfig

TICK = 0.1
"""s; so often counters move."""

START = 1000.0
BATCH, LENGTH = 64, 2048


@dataclasses.dataclass
class Plan:
    """A training before its trace is drawn, for a fault to change.

    Attributes:
        kind: of the device: h100, mi300x, mi250x or cpu.
        watts, mhz: under load.
        edit: changes the readings: called with all of them and the plan.
        from_s, to_s: time in which a fault holds, from the start of the first step.
        expected_gpus: processes on the machine, if not one per GPU.
    """

    chance: random.Random
    kind: str = "h100"
    gpus: int = 2
    step_s: float = 1.0
    duration_s: float = 200.0
    pause: bool = False
    watts: float = 600.0
    mhz: float = 1755.0
    from_s: float = 0.0
    to_s: float = 0.0
    edit: Callable[[list[Sample], Plan], list[Sample]] = lambda samples, plan: samples
    power: Callable[[float, float], float] = lambda watts, at: watts
    expected_gpus: int | None = None
    partly_sampled: bool = False
    cpu: dict[str, float] = dataclasses.field(default_factory=dict)

    def holds(self, at: float) -> bool:
        """Return whether the fault holds."""
        return self.from_s <= at - START <= self.to_s


@dataclasses.dataclass
class Made:
    """A training with its trace, and its true energy over all steps after the warm-up."""

    run: Run
    steps: Timeline
    trace: Trace
    expected_gpus: int
    energy_between: Callable[[float, float], float]
    plan: Plan

    def joined(self) -> Run:
        """Return the run as the recorder leaves it."""
        return telemetry.with_trace(self.run, self.steps, self.trace, self.expected_gpus)


DEVICES: dict[str, dict[str, Any]] = {
    "h100": {"name": "NVIDIA H100 80GB HBM3", "cap": 700.0, "platform": "nvd", "max": 1980.0},
    "mi300x": {"name": "AMD Instinct MI300X", "cap": 750.0, "platform": "amd", "max": 2100.0},
    "mi250x": {"name": "AMD Instinct MI250X", "cap": 560.0, "platform": "amd", "max": 1700.0},
    "cpu": {"name": "AMD EPYC 9654", "cap": 360.0, "platform": "cpu", "max": 3700.0},
}


def make(plan: Plan) -> Made:
    """Draw a training and its trace."""
    chance, known = plan.chance, DEVICES[plan.kind]
    ends, seconds, at = [], [], START
    warmup = [plan.step_s * factor for factor in (6.0, 2.5, 1.4)]
    pause_at = START + 0.5 * plan.duration_s if plan.pause else math.inf
    paused: list[tuple[float, float]] = []
    while at < START + plan.duration_s:
        took = (warmup[len(ends)] if len(ends) < 3 else plan.step_s) * chance.lognormvariate(
            0.0, 0.01
        )
        if at > pause_at:
            paused.append((at, at + 12.0))
            at, pause_at = at + 12.0, math.inf
        at += took
        ends.append(at)
        seconds.append(took)
    count = len(ends)
    run = Run(
        platform=known["platform"],
        framework="lightning",
        model="llama",
        gpu_info=GpuInfo(device_name=known["name"], device_count=plan.gpus),
        training_config=TrainingConfig(
            global_batch_size=BATCH, sequence_length=LENGTH, num_gpus=plan.gpus
        ),
        **{
            **dict.fromkeys(SERIES, (None,) * count),
            "steps": tuple(range(1, count + 1)),
            "window_steps": (1,) * count,
            "step_times": tuple(seconds),
        },
    )
    ticks = int((ends[-1] - START + 20.0) / TICK)
    phase = chance.uniform(0.0, 2 * math.pi)

    def is_loaded(moment: float) -> bool:
        return moment > START + 3 * plan.step_s and not any(
            low < moment < high for low, high in paused
        )

    def drawn(moment: float, noise: float) -> float:
        if not is_loaded(moment):
            return 90.0 + 5 * noise
        swing = 0.12 * math.sin(2 * math.pi * (moment - START) / plan.step_s + phase)
        return plan.power(plan.watts * (1 + swing + 0.03 * noise), moment)

    units = 1 if plan.kind == "cpu" else plan.gpus
    powers = [
        [drawn(START - 5.0 + TICK * n, chance.gauss(0.0, 1.0)) for n in range(ticks)]
        for _ in range(units)
    ]
    counters = [_sums(row) for row in powers]

    def counted(unit: int, moment: float) -> float:
        return counters[unit][min(max(int((moment - START + 5.0) / TICK), 0), ticks)]

    samples = []
    moment = START - 3.0 + chance.random()
    base = [chance.uniform(1e6, 1e8) for _ in range(units)]
    host = CpuDraw(plan)
    ids = [
        f"{unit:08x}-aaaa" if plan.kind == "h100" else f"0000:{unit + 1:02x}:00.0"
        for unit in range(plan.gpus)
    ]
    # The last reading is made when the training has ended.
    while samples == [] or samples[-1].at < ends[-1]:
        gpus = tuple(
            _gpu(
                plan,
                ids[unit],
                unit,
                moment,
                powers[unit],
                base[unit] + counted(unit, moment),
                is_loaded(moment),
            )
            for unit in range(units if plan.kind != "cpu" else 0)
        )
        energy = {"package-0": base[0] + counted(0, moment)} if plan.kind == "cpu" else {}
        samples.append(Sample(moment, gpus, host.at(moment, energy)))
        moment += chance.uniform(0.98, 1.02) + (
            chance.uniform(0.5, 2.0) if chance.random() < 0.02 else 0.0
        )
    samples = plan.edit(samples, plan)
    header = Header(traces.VERSION, known["platform"], () if plan.kind == "cpu" else tuple(ids), 1)
    counting = range(units)

    def energy_between(start: float, end: float) -> float:
        return sum(counted(unit, end) - counted(unit, start) for unit in counting)

    steps = Timeline(run.steps, tuple(ends), tuple(seconds), START)
    return Made(
        run, steps, Trace(header, samples), plan.expected_gpus or plan.gpus, energy_between, plan
    )


def _sums(powers: list[float]) -> list[float]:
    sums = [0.0]
    for watts in powers:
        sums.append(sums[-1] + watts * TICK)
    return sums


def _gpu(
    plan: Plan,
    name: str,
    unit: int,
    moment: float,
    powers: list[float],
    joules: float,
    loaded: bool,
) -> GpuState:
    chance, known = plan.chance, DEVICES[plan.kind]
    now = min(int((moment - START + 5.0) / TICK), len(powers) - 1)
    last_second = powers[max(0, now - 10) : now + 1]
    two_dies = plan.kind == "mi250x"
    silent = two_dies and unit % 2 == 1  # the other die of the package counts for both
    watts = powers[now] if plan.partly_sampled else sum(last_second) / len(last_second)
    if two_dies:
        joules, watts = 2 * joules, 2 * watts
    return GpuState(
        index=unit,
        name=known["name"],
        id=name,
        memory_total_gb=85.5,
        memory_used_gb=60.0 if loaded else 1.0,
        power_cap_w=known["cap"],
        power_default_w=known["cap"],
        power_max_w=known["cap"],
        clock_max_mhz=known["max"],
        clock_mhz=plan.mhz * (1 + 0.02 * chance.gauss(0.0, 1.0)) if loaded else 345.0,
        utilisation_percent=float(chance.randint(94, 100)) if loaded else 0.0,
        power_w=None if silent else watts,
        power_is_average=False if plan.partly_sampled else True if plan.kind == "h100" else None,
        energy_j=None if silent else round(joules, 3),
        counter_is_shared=two_dies,
        temperature_c=62.0 + chance.gauss(0.0, 1.0) if loaded else 40.0,
        throttle=("power-cap",) if chance.random() < 0.3 else (),
        ecc_corrected=3,
        ecc_uncorrected=0,
        retired_pages=0,
        pcie_replays=0,
        pcie_width=16,
        pcie_width_max=16,
        link_errors=0,
        pids=(100 + unit,),
    )


class CpuDraw:
    """The host's counters, which rise between two readings as the plan's shares say."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._at = plan, START - 5.0
        self._known = dict.fromkeys(
            ("total", "own", "others", "stolen", "held", "memory", "io"), 0.0
        )

    def at(self, moment: float, energy: dict[str, float]) -> CpuState:
        """Return the counters at a moment."""
        plan, chance, known = self._plan, self._plan.chance, self._known
        passed, self._at = moment - self._at, moment
        shares = {
            "own": 0.6,
            "others": abs(chance.gauss(0.01, 0.01)),
            "stolen": abs(chance.gauss(0.0, 0.004)),
        }
        shares |= {"held": 0.0, "memory": 0.0, "io": abs(chance.gauss(0.0, 0.01))} | plan.cpu
        known["total"] += 2 * passed
        for name in ("own", "others", "stolen"):
            known[name] += 2 * passed * shares[name]
        for name in ("held", "memory", "io"):
            known[name] += passed * shares[name]
        looked = chance.random() < 0.4
        return CpuState(
            total_s=known["total"],
            busy_s=known["own"] + known["others"],
            stolen_s=known["stolen"],
            own_s=known["own"] if looked else None,
            programs={"neighbour (77)": known["others"]} if looked else {},
            stalled_s={"cpu": known["total"] / 10, "memory": known["memory"], "io": known["io"]},
            held_back_s=known["held"],
            frequency_mhz=2600.0 * (1 + 0.01 * chance.gauss(0.0, 1.0)),
            load_average=2.0,
            energy_j=energy,
            energy_range_j=dict.fromkeys(energy, 65_532.610987),
        )
