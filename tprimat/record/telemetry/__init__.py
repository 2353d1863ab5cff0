"""The values in a training's trace: energy of the steady steps, readings by step, events,
disturbance.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tprimat.analysis.summary import summarize
from tprimat.machine.telemetry.sampler import Sampler
from tprimat.machine.telemetry.trace import REPLAYED, Sample, Trace
from tprimat.notes import Note, noted
from tprimat.record.telemetry import energy, findings, series
from tprimat.record.telemetry.energy import Energy
from tprimat.record.telemetry.timeline import Timeline, within
from tprimat.results.conditions import Disturbance
from tprimat.results.fields import Figures, known_items, known_values
from tprimat.results.run import Run
from tprimat.results.telemetry import VALID_ENERGY, Telemetry

EXCLUDED_BY_GPUS: tuple[str, ...] = (
    "CPUs and memory of the host",
    "fans",
    "network",
    "losses of power supplies",
    "other machines",
)
EXCLUDED_BY_CPUS: tuple[str, ...] = ("board, disks, fans and network", "losses of power supplies")

_OF_STEADY_STEPS = (
    "energy_joules",
    "measured_tokens",
    "joules_per_token",
    "measured_seconds",
    "energy_error_joules",
    "mean_power_watts",
    "mean_power_watts_per_gpu",
    "cpu_mean_power_watts",
)
"""Metrics of the steady steps alone: of a whole process they would be other figures."""


def disturbance(samples: Sequence[Sample], start: float, end: float) -> Disturbance:
    """Return what else used the CPU between two moments on time.perf_counter(), s."""
    shares = findings.cpu_shares(samples, start, end)
    states = known_values(sample.cpu for sample in samples)
    disturbed = Disturbance(
        other_programs_cpu_share=_share(shares, "others"), steal_cpu_share=_share(shares, "stolen")
    )
    if not states:
        return disturbed
    return disturbed.but(
        load_average_at_start=states[0].load_average,
        cpu_frequency_mhz=states[-1].frequency_mhz,
    )


def _share(shares: dict[str, float], name: str) -> float | None:
    if name in shares:
        return round(shares[name], 4)
    return None


def joined(run: Run, steps: Timeline, sampler: Sampler, processes_here: int) -> Run:
    """Return a run with the readings from during it.

    The sampler, stopped by now, is that of the machine on which rank 0 runs; `processes_here` train
    on this machine.
    """
    trace = sampler.so_far()
    unknown = []
    if sampler.unknown:
        unknown.append(sampler.unknown)
    if run.platform != "cpu" and sampler.gpus_unknown:
        unknown.append(f"GPUs: {sampler.gpus_unknown}")
    if trace is not None:
        unknown += trace.header.unknown
    if trace is None or not steps.steps or len(trace.samples) < 2:
        if trace is not None:
            unknown.append("fewer than two readings during the training")
        return run.but(telemetry=Telemetry(unknown=tuple(unknown)))
    if REPLAYED in unknown:
        run = run.but(notes=noted((*run.notes, Note("telemetry-replayed"))))
    return with_trace(run, steps, trace, processes_here, tuple(unknown))


def without_steps(run: Run, sampler: Sampler, began: float, ended: float) -> Run:
    """Return a run read from a log, which doesn't state when its steps ran: events of the whole
    training, no energy.

    The sampler is stopped by now; `began` and `ended` are the process's times on
    time.perf_counter(), s.
    """
    whole = Timeline((run.steps[-1] if run.steps else 1,), (ended,), (ended - began,), began)
    recorded = joined(run, whole, sampler, run.num_gpus or 1)
    issues = []
    for issue in recorded.telemetry.issues:
        stepless = issue.but(first_step=None, last_step=None)
        if stepless not in issues:
            issues.append(stepless)
    figures = {}
    for name, value in recorded.energy_metrics.items():
        if name not in _OF_STEADY_STEPS:
            figures[name] = value
    return recorded.but(
        energy_metrics=figures,
        telemetry=recorded.telemetry.but(
            energy_code=recorded.telemetry.energy_code and "no-step-times",
            energy_reason="the log doesn't state when its steps ran",
            energy_covers=None,
            energy_excludes=(),
            issues=tuple(issues),
            steps=(),
            series={},
        ),
    )


def with_trace(
    run: Run, steps: Timeline, trace: Trace, processes_here: int, unknown: tuple[str, ...] = ()
) -> Run:
    """Return a run with the values of a trace; see joined()."""
    bounds = summarize(run).steady
    steady = steps.part(bounds.first_step or steps.steps[0], bounds.last_step or steps.steps[-1])
    if not steady.steps:
        steady = steps
    measured = _energy(run, trace, steady, processes_here, unknown)
    inside = within(trace.samples, steps.began, steps.ends[-1])
    interval = None
    if len(inside) > 1:
        interval = round((inside[-1].at - inside[0].at) / (len(inside) - 1), 3)
    axis, values = series.join(trace.samples, steps)
    telemetry = Telemetry(
        interval_seconds=interval,
        samples=len(inside),
        devices=trace.header.gpus,
        energy_code=measured.code,
        energy_reason=measured.reason,
        throttle_shares=_throttle_shares(inside),
        issues=tuple(findings.find(trace, steps, steady)),
        unknown=unknown or trace.header.unknown,
        steps=axis,
        series=values,
    )
    if measured.code in VALID_ENERGY:
        covers = "CPU packages and memory, other programs' share included"
        excludes = EXCLUDED_BY_CPUS
        if trace.header.gpus:
            covers = "the GPUs that train"
            excludes = EXCLUDED_BY_GPUS
        telemetry = telemetry.but(energy_covers=covers, energy_excludes=excludes)
    return run.but(
        telemetry=telemetry,
        energy_metrics={
            **run.energy_metrics,
            **_power_and_clock(inside),
            **_metrics(run, measured, steady, trace),
        },
        disturbance=disturbance(trace.samples, steps.began, steps.ends[-1]),
    )


def _energy(
    run: Run, trace: Trace, steady: Timeline, processes_here: int, unknown: tuple[str, ...]
) -> Energy:
    """Return the energy of what trains over the steady steps, or why it is unknown."""
    if trace.header.gpus:
        measured = energy.of_gpus(trace.samples, trace.header.gpus, steady, processes_here)
        what = "GPUs"
    elif run.platform != "cpu":
        # Never the CPU's energy in the place of the GPUs'.
        why = next((text for text in unknown if text.startswith("GPUs: ")), "GPUs: no GPU was read")
        return Energy("partitioned" if "partition" in why else "no-counter", why)
    else:
        measured = energy.of_cpu(trace.samples, steady)
        what = "CPUs"
    elsewhere = (run.num_gpus or processes_here) > processes_here or len(run.environment.nodes) > 1
    if elsewhere and measured.joules is not None:
        return Energy("devices-missing", f"the {what} of the other machines were not read")
    return measured


def _metrics(run: Run, measured: Energy, steady: Timeline, trace: Trace) -> Figures:
    if measured.joules is None:
        return {}
    seconds = steady.running_s()
    watts = measured.joules / seconds
    metrics: Figures = {
        "energy_joules": round(measured.joules, 3),
        "energy_error_joules": round(measured.error_joules, 3),
        "measured_seconds": round(seconds, 3),
        "measured_tokens": None,
        "joules_per_token": None,
        "mean_power_watts": round(watts, 1),
    }
    if run.tokens_per_step is not None:
        windows = dict(zip(run.steps, run.window_steps, strict=True))
        tokens = float(run.tokens_per_step * sum(windows[step] for step in steady.steps))
        metrics["measured_tokens"] = tokens
        metrics["joules_per_token"] = float(f"{measured.joules / tokens:.6g}")
    if trace.header.gpus:
        metrics["mean_power_watts_per_gpu"] = round(watts / len(trace.header.gpus), 1)
        on_host = energy.of_cpu(trace.samples, steady)
        if on_host.joules is not None:
            metrics["cpu_mean_power_watts"] = round(on_host.joules / seconds, 1)
    return metrics


def _power_and_clock(samples: Sequence[Sample]) -> Figures:
    """Return cap and clock of the GPU with the lowest cap, the clock as the mean of all."""
    gpus = [gpu for sample in samples for gpu in sample.gpus]
    if not gpus:
        return {}
    lowest = min(gpus, key=lambda gpu: gpu.power_cap_w or float("inf"))
    figures = {
        "power_cap_watts": lowest.power_cap_w,
        "power_default_watts": lowest.power_default_w,
        "clock_mhz": None,
        "clock_max_mhz": lowest.clock_max_mhz,
    }
    clocks = known_values(gpu.clock_mhz for gpu in gpus)
    if clocks:
        figures["clock_mhz"] = round(statistics.fmean(clocks), 1)
    return known_items(figures)


def _throttle_shares(samples: Sequence[Sample]) -> dict[str, float]:
    gpus = [gpu for sample in samples for gpu in sample.gpus]
    reasons = sorted({reason for gpu in gpus for reason in gpu.throttle})
    return {
        name: round(sum(name in gpu.throttle for gpu in gpus) / len(gpus), 4) for name in reasons
    }
