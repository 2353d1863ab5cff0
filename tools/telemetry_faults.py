#!/usr/bin/env python3
"""Plant faults in telemetry traces, and check that each leads to its code and no clean trace to
any.

Energies are compared with the power that was planted, and the steps of an event with those of its
fault.

    tools/telemetry_faults.py                      100 traces of each kind; a table
    tools/telemetry_faults.py --count 10
    tools/telemetry_faults.py --write TRACE.jsonl --fault thermal    a trace for TPRIMAT_TELEMETRY=replay:TRACE.jsonl
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent))

from telemetry_traces import START, Made, Plan, make

from tprimat.analysis.summary import summarize
from tprimat.machine.cpu import CpuState
from tprimat.machine.gpu import GpuState
from tprimat.machine.telemetry import trace as traces
from tprimat.machine.telemetry.trace import Sample
from tprimat.results.run import Run
from tprimat.results.telemetry import VALID_ENERGY

Edit = Callable[[GpuState, float, int], GpuState]


def each_gpu(change: Edit) -> Callable[[list[Sample], Plan], list[Sample]]:
    """Return an edit of each GPU's state, called with it, the moment and its number."""

    def edit(samples: list[Sample], plan: Plan) -> list[Sample]:
        return [
            msgspec.structs.replace(
                s, gpus=tuple(change(g, s.at, number) for number, g in enumerate(s.gpus))
            )
            for s in samples
        ]

    return edit


def during(plan: Plan, units: int | None = None, **fields: Any) -> None:
    """Have fields of the GPUs (of the first `units`) changed while the fault holds; a callable
    takes the state.
    """

    def change(gpu: GpuState, at: float, number: int) -> GpuState:
        if not plan.holds(at) or (units is not None and number >= units):
            return gpu
        new = {name: value(gpu) if callable(value) else value for name, value in fields.items()}
        return msgspec.structs.replace(gpu, **new)

    plan.edit = each_gpu(change)


def always(plan: Plan, units: int | None = None, **fields: Any) -> None:
    """Have fields changed in all readings."""
    plan.from_s, plan.to_s = -1e9, 1e9
    during(plan, units, **fields)


def counting_up(plan: Plan, field: str) -> None:
    """Have a counter of the first GPU rise by two in the middle."""
    middle = START + plan.from_s

    def change(gpu: GpuState, at: float, number: int) -> GpuState:
        risen = (getattr(gpu, field) or 0) + (2 if at >= middle and number == 0 else 0)
        return msgspec.structs.replace(gpu, **{field: risen})

    plan.edit = each_gpu(change)


@dataclasses.dataclass(frozen=True)
class Fault:
    """A planted fault and where it must lead.

    Attributes:
        plant: changes a plan.
        issues: codes of events that must be reported, and no others.
        energy: codes of which the energy must have one.
        may: codes of events that may be reported beside, as a consequence.
        at_steps: whether the event's steps must be those of the fault.
    """

    plant: Callable[[Plan], None]
    issues: frozenset[str] = frozenset()
    energy: tuple[str, ...] = VALID_ENERGY
    may: frozenset[str] = frozenset()
    at_steps: bool = False
    kinds: tuple[str, ...] = ("h100", "mi300x")


FAULTS: dict[str, Fault] = {}


def fault(
    name: str, *issues: str, **fields: Any
) -> Callable[[Callable[[Plan], None]], Callable[[Plan], None]]:
    """Register what plants a fault."""

    def register(plant: Callable[[Plan], None]) -> Callable[[Plan], None]:
        may = frozenset(fields.pop("may", ()))
        FAULTS[name] = Fault(plant, frozenset(issues), may=may, **fields)
        return plant

    return register


def simple(name: str, *issues: str, plant: Callable[[Plan], None], **fields: Any) -> None:
    """Register a fault whose planting is a line."""
    fault(name, *issues, **fields)(plant)


@fault("power cap for a while", "power-cap", at_steps=True, may=["clock-change"])
def _cap(plan: Plan) -> None:
    plan.power = lambda watts, at: min(watts, 480.0) if plan.holds(at) else watts
    during(
        plan, power_cap_w=500.0, clock_mhz=lambda gpu: gpu.clock_mhz * 0.8, throttle=("power-cap",)
    )


@fault("power cap throughout", "power-cap")
def _cap_always(plan: Plan) -> None:
    plan.watts = 450.0
    always(plan, power_cap_w=500.0, clock_mhz=lambda gpu: gpu.clock_mhz * 0.8)


@fault("clock rises", "clock-change")
def _clock_rises(plan: Plan) -> None:
    plan.mhz = 1410.0
    plan.to_s = 1e9
    during(plan, clock_mhz=lambda gpu: gpu.clock_mhz * 1980 / 1410)


@fault("clock of one GPU falls", "clock-change", may=["slower-gpu"])
def _clock_falls(plan: Plan) -> None:
    plan.to_s = 1e9
    during(plan, 1, clock_mhz=lambda gpu: gpu.clock_mhz * 0.7)


@fault("one slower GPU", "slower-gpu")
def _slower(plan: Plan) -> None:
    plan.gpus = max(plan.gpus, 3)
    always(plan, 1, clock_mhz=lambda gpu: gpu.clock_mhz * 0.8)


for _reason in ("thermal", "hardware-slowdown", "power-brake"):
    simple(
        _reason,
        _reason,
        at_steps=True,
        may=["clock-change"],
        plant=lambda plan, reason=_reason: during(plan, throttle=(reason,), temperature_c=91.0),
    )
for _field, _code in (
    ("ecc_uncorrected", "ecc-uncorrected"),
    ("ecc_corrected", "ecc-corrected"),
    ("retired_pages", "memory-retired"),
    ("link_errors", "link-errors"),
    ("pcie_replays", "pcie-replays"),
):
    simple(_code, _code, plant=lambda plan, field=_field: counting_up(plan, field))


@fault("XID", "xid", kinds=("h100",))
def _xid(plan: Plan) -> None:
    def edit(samples: list[Sample], plan: Plan) -> list[Sample]:
        place = next(
            index for index, sample in enumerate(samples) if sample.at > START + plan.from_s
        )
        first, *others = samples[place].gpus
        failed = (msgspec.structs.replace(first, xids=(79,)), *others)
        return [
            *samples[:place],
            msgspec.structs.replace(samples[place], gpus=failed),
            *samples[place + 1 :],
        ]

    plan.edit = edit


simple("PCIe with 8 lanes", "pcie-narrow", plant=lambda plan: always(plan, 1, pcie_width=8))


@fault("a process comes to a GPU", "gpu-shared", at_steps=True)
def _shared(plan: Plan) -> None:
    during(plan, 1, pids=lambda gpu: (*gpu.pids, 4711))


@fault("a GPU is lost", "gpu-lost", energy=("devices-missing",))
def _lost(plan: Plan) -> None:
    plan.edit = lambda samples, plan: [
        msgspec.structs.replace(s, gpus=s.gpus[1:]) if s.at > START + plan.from_s else s
        for s in samples
    ]


_HOST = {"kinds": ("h100", "mi300x", "cpu")}
simple("busy neighbour", "cpu-shared", plant=lambda plan: plan.cpu.update(others=0.23), **_HOST)
simple("hypervisor steal", "cpu-steal", plant=lambda plan: plan.cpu.update(stolen=0.08), **_HOST)
simple("CPU quota", "cpu-quota", plant=lambda plan: plan.cpu.update(held=0.3), **_HOST)
simple("no memory", "memory-pressure", plant=lambda plan: plan.cpu.update(memory=0.1), **_HOST)
simple("slow storage", "io-pressure", plant=lambda plan: plan.cpu.update(io=0.3), **_HOST)


def _cpu_edit(
    change: Callable[[CpuState, float, Plan], CpuState],
) -> Callable[[list[Sample], Plan], list[Sample]]:
    return lambda samples, plan: [
        msgspec.structs.replace(s, cpu=change(s.cpu, s.at, plan)) for s in samples
    ]


@fault("CPU clock falls", "cpu-clock-change", kinds=("cpu",))
def _cpu_clock(plan: Plan) -> None:
    plan.to_s = 1e9
    plan.edit = _cpu_edit(
        lambda cpu, at, plan: (
            msgspec.structs.replace(cpu, frequency_mhz=cpu.frequency_mhz * 0.7)
            if plan.holds(at)
            else cpu
        )
    )


@fault("RAPL wraps", kinds=("cpu",), energy=("counter-wrapped",))
def _wraps(plan: Plan) -> None:
    def change(cpu: CpuState, at: float, plan: Plan) -> CpuState:
        joules = {name: value % 65_532.610987 for name, value in cpu.energy_j.items()}
        return msgspec.structs.replace(cpu, energy_j=joules)

    plan.watts, plan.duration_s = 500.0, 250.0
    plan.edit = _cpu_edit(change)


@fault("RAPL unreadable", kinds=("cpu",), energy=("no-counter",))
def _unreadable(plan: Plan) -> None:
    plan.edit = _cpu_edit(lambda cpu, at, plan: msgspec.structs.replace(cpu, energy_j={}))


simple("dead counter", energy=("counter-stuck",), plant=lambda plan: always(plan, energy_j=12345.0))


@fault("counter dies", energy=("counter-stuck",))
def _dies(plan: Plan) -> None:
    kept: dict[int, float] = {}

    def change(gpu: GpuState, at: float, number: int) -> GpuState:
        if at < START + plan.duration_s / 2:
            return gpu
        return msgspec.structs.replace(gpu, energy_j=kept.setdefault(number, gpu.energy_j))

    plan.edit = each_gpu(change)


@fault("driver reloaded", energy=("counter-reset",))
def _reset(plan: Plan) -> None:
    def change(gpu: GpuState, at: float, number: int) -> GpuState:
        start = START + plan.duration_s / 2
        return msgspec.structs.replace(gpu, energy_j=600.0 * (at - start)) if at > start else gpu

    plan.edit = each_gpu(change)


simple(
    "counter of another scale",
    energy=("power-disagrees", "above-power-cap"),
    plant=lambda plan: always(plan, energy_j=lambda gpu: gpu.energy_j * 0.6),
)
simple(
    "counter twice as fast",
    energy=("above-power-cap",),
    plant=lambda plan: always(plan, energy_j=lambda gpu: gpu.energy_j * 2),
)


@fault("power sampled a quarter of the time", energy=("partly-sampled",), kinds=("h100",))
def _quarter(plan: Plan) -> None:
    plan.partly_sampled = True
    always(plan, power_w=lambda gpu: gpu.power_w * 0.6)


@fault("no counter, power sampled a quarter of the time", energy=("no-counter",), kinds=("h100",))
def _quarter_only(plan: Plan) -> None:
    plan.partly_sampled = True
    always(plan, energy_j=None)


simple(
    "no counter, power known",
    energy=("from-power",),
    plant=lambda plan: always(plan, energy_j=None),
)
simple("no power", energy=("unverified",), plant=lambda plan: always(plan, power_w=None))
simple(
    "neither", energy=("no-counter",), plant=lambda plan: always(plan, power_w=None, energy_j=None)
)
simple(
    "MIG",
    energy=("partitioned",),
    kinds=("h100",),
    plant=lambda plan: always(plan, 1, partitioned=True),
)


@fault("one die of each package", energy=("shared-counter",), kinds=("mi250x",))
def _one_die(plan: Plan) -> None:
    plan.gpus, plan.watts = 1, 250.0


@fault("GPUs that aren't visible", energy=("devices-missing",))
def _missing(plan: Plan) -> None:
    plan.expected_gpus = plan.gpus + 2


@fault("swapped indices", may=["gpu-shared"], energy=("devices-swapped",))
def _swapped(plan: Plan) -> None:
    def edit(samples: list[Sample], plan: Plan) -> list[Sample]:
        swapped = []
        for s in samples:
            gpus = list(s.gpus)
            if s.at > START + plan.duration_s / 2:
                gpus[0], gpus[1] = (
                    msgspec.structs.replace(gpus[1], id=gpus[0].id),
                    msgspec.structs.replace(gpus[0], id=gpus[1].id),
                )
            swapped.append(msgspec.structs.replace(s, gpus=tuple(gpus)))
        return swapped

    # Both are of one machine that trains: everything but what they have counted is alike.
    plan.edit = edit


@fault("another GPU than the one that trains", energy=("wrong-device",))
def _wrong(plan: Plan) -> None:
    def change(gpu: GpuState, at: float, number: int) -> GpuState:
        idle = {
            "utilisation_percent": 0.0,
            "power_w": 90.0,
            "energy_j": 5e6 + 90.0 * at,
            "clock_mhz": 345.0,
        }
        return msgspec.structs.replace(gpu, **idle)

    plan.edit = each_gpu(change)


@fault("four seconds", energy=("window-short", "no-counter"))
def _short(plan: Plan) -> None:
    plan.duration_s, plan.step_s = 4.0, 0.25


@fault("the machine's clock jumps", "clock-jump", energy=("clock-jump",))
def _jump(plan: Plan) -> None:
    def edit(samples: list[Sample], plan: Plan) -> list[Sample]:
        middle = START + plan.duration_s / 2
        return [msgspec.structs.replace(s, at=s.at - 30.0) if s.at > middle else s for s in samples]

    plan.edit = edit


CLEAN = ("h100", "mi300x", "mi250x", "cpu")


def draw(name: str, seed: int) -> Made:
    """Return a trace of one kind: a device of CLEAN, or a fault."""
    chance = random.Random(f"{name} {seed}")
    chosen = FAULTS.get(name)
    kind = chance.choice(chosen.kinds) if chosen else name
    plan = Plan(
        chance,
        kind,
        gpus=1 if kind == "cpu" else chance.choice((2, 4)),
        step_s=chance.uniform(0.4, 3.0),
        duration_s=chance.uniform(120.0, 260.0),
        pause=chance.random() < 0.3,
        watts={"h100": 600.0, "mi300x": 640.0, "mi250x": 240.0, "cpu": 280.0}[kind]
        * chance.uniform(0.8, 1.0),
        mhz={"h100": 1755.0, "mi300x": 2000.0, "mi250x": 1600.0, "cpu": 3000.0}[kind],
    )
    plan.from_s = chance.uniform(0.35, 0.5) * plan.duration_s
    plan.to_s = plan.from_s + chance.uniform(0.15, 0.25) * plan.duration_s
    if chosen:
        chosen.plant(plan)
    return make(plan)


def problem(name: str, made: Made) -> str | None:
    """Return what is wrong with what a trace leads to; None for nothing."""
    chosen = FAULTS.get(name) or Fault(lambda plan: None)
    run = made.joined()
    known = run.telemetry
    codes = {issue.code for issue in known.issues}
    if not chosen.issues <= codes <= chosen.issues | chosen.may:
        return f"events {sorted(codes)} for {sorted(chosen.issues)}"
    if known.energy_code not in chosen.energy:
        return f"energy {known.energy_code} ({known.energy_reason})"
    if known.energy_code in VALID_ENERGY:
        truth = _true_energy(run, made)
        apart = abs((run.energy_metrics["energy_joules"] or 0.0) - truth)
        # Without a counter the error is a standard error's, not a bound.
        least = 0.01 if known.energy_code == "from-power" else 0.002
        if apart > (run.energy_metrics["energy_error_joules"] or 0.0) + least * truth:
            return (
                f"energy off by {apart / truth:.2%}, error stated"
                f" ±{run.energy_metrics['energy_error_joules']}"
            )
    if chosen.at_steps:
        return _wrong_steps(
            made, next(issue for issue in known.issues if issue.code in chosen.issues)
        )
    return None


def _true_energy(run: Run, made: Made) -> float:
    steady = summarize(run).steady
    part = made.steps.part(steady.first_step or 1, steady.last_step or run.steps[-1])
    return sum(made.energy_between(start, end) for start, end in part.intervals())


def _wrong_steps(made: Made, issue: Any) -> str | None:
    """Return a sentence where an event isn't at the fault's steps, to the distance of two late
    readings.
    """
    start, end = START + made.plan.from_s, START + made.plan.to_s
    first, late_first = made.steps.steps_between(start, start + 4.5)
    early_last, last = made.steps.steps_between(end - 4.5, end)
    if (
        issue.first_step
        and first <= issue.first_step <= late_first
        and early_last <= issue.last_step <= last
    ):
        return None
    return f"{issue.where} for steps {first}–{last}"


def check(name: str, count: int) -> list[str]:
    """Return what is wrong with so many traces of one kind."""
    problems = ((seed, problem(name, draw(name, seed))) for seed in range(count))
    return [f"{name} #{seed}: {text}" for seed, text in problems if text]


def main() -> int:
    """Print the table; 1 where a fault is missed or a clean trace leads to anything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="traces of each kind (%(default)s)")
    parser.add_argument("--fault", choices=[*CLEAN, *FAULTS], help="only this kind")
    parser.add_argument(
        "--write", type=Path, help="write one trace for TPRIMAT_TELEMETRY=replay:FILE"
    )
    arguments = parser.parse_args()
    kinds = [arguments.fault] if arguments.fault else [*CLEAN, *FAULTS]
    if arguments.write:
        recorded = draw(kinds[0], 0).trace
        arguments.write.write_bytes(
            b"".join(map(traces.encode, (recorded.header, *recorded.samples)))
        )
        return 0
    wrong = 0
    print(f"{'trace':<50} {'right':>6} of {arguments.count}")
    for name in kinds:
        problems = check(name, arguments.count)
        wrong += len(problems)
        title = f"{name} without a fault" if name in CLEAN else name
        print(f"{title:<50} {arguments.count - len(problems):>6}", flush=True)
        for text in problems[:3]:
            print(f"    {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
