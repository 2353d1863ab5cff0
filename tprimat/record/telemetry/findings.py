"""Events among the readings: what lowers a clock, errors, other users of the GPUs and the CPU, each
with its steps.

An event is reported if a reader can act on it. A GPU that runs at its factory's power limit is at
work, so that isn't one; a lowered cap is. Thresholds are the constants below; docs/telemetry.md
explains each code.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from tprimat.machine.gpu import GpuState
from tprimat.machine.telemetry.trace import Sample, Trace
from tprimat.record.telemetry.energy import short_id
from tprimat.record.telemetry.timeline import (
    CLOCK_JUMP,
    Rows,
    Timeline,
    clock_jumps,
    rows_of,
    within,
)
from tprimat.results.fields import known_values
from tprimat.results.telemetry import THROTTLING, TelemetryIssue

SIDE = 12
"""Readings before and after a change of the clock whose medians are the two clocks."""

LEAST_CLOCK_CHANGE, LEAST_CLOCK_DIFFERENCE = 0.06, 0.05
"""Relative change within a run; and of one GPU from the median of the others."""

ORDERED = 0.97
"""Share of the pairs of a reading before and one after that are in the order of the change."""

DISTURBED_SHARE = 0.05
"""Share of the CPU's time that other programs, the hypervisor, or a control group's quota take,
from which on it is reported.
"""

STALLED_SHARES = {"memory": 0.02, "io": 0.1}
"""Share of the time in which no task could run for lack of memory or storage, from which on it is
reported.
"""

LEAST_READINGS = 2
"""Readings in a row with a limit in force."""

NAMED_PROGRAMS = 3

Severity = Literal["warning", "info"]
DeviceRows = Mapping[str, Rows]


def find(trace: Trace, steps: Timeline, steady: Timeline) -> list[TelemetryIssue]:
    """Return the events of all steps, warnings first, a kind once per time; clocks are compared in
    `steady` ones.
    """
    if clock_jumps(trace.samples):
        return [TelemetryIssue(code="clock-jump", text=CLOCK_JUMP)]
    start = steps.began
    end = steps.ends[-1]
    samples = within(trace.samples, start, end)
    events = _Events(rows_of(samples, trace.header.gpus), samples, steps, steady)
    issues = [
        *events.power_caps(),
        *(issue for code in THROTTLING for issue in events.throttling(code)),
        *events.clock_changes(),
        *events.slower_gpus(),
        *events.errors(),
        *events.lost(),
        *events.narrow_links(),
        *events.shared_gpus(),
        *_cpu(trace.samples, trace.header.platform == "cpu", start, end),
        *events.cpu_clock(),
    ]
    return sorted(issues, key=lambda issue: issue.severity != "warning")


_COUNTERS = (
    ("ecc_uncorrected", "ecc-uncorrected", "uncorrected memory error (ECC)", "warning"),
    ("retired_pages", "memory-retired", "memory row or page retired", "warning"),
    ("link_errors", "link-errors", "error on the links between GPUs", "warning"),
    ("ecc_corrected", "ecc-corrected", "corrected memory error (ECC)", "info"),
    ("pcie_replays", "pcie-replays", "PCIe replay", "info"),
)


@dataclasses.dataclass(frozen=True)
class _Events:
    """The events of a training's GPUs.

    Attributes:
        rows: the readings of each GPU, with their times.
        samples: all readings.
        steps, steady: all steps, and those in which clocks are compared.
    """

    rows: DeviceRows
    samples: Sequence[Sample]
    steps: Timeline
    steady: Timeline

    def power_caps(self) -> Iterator[TelemetryIssue]:
        """Yield caps below the factory's limit."""
        for (cap, default), devices, first, last in _grouped(
            self.rows,
            lambda gpu: (gpu.power_cap_w, gpu.power_default_w) if gpu.is_capped else None,
            least=1,
        ):
            text = f"power cap ({cap:.0f} W of {default:.0f} W){self._on(devices)}"
            yield self._issue("power-cap", text, first, last, devices, value=cap, expected=default)

    def throttling(self, reason: str) -> Iterator[TelemetryIssue]:
        """Yield when a reason lowers clocks."""
        for _, devices, first, last in _grouped(
            self.rows, lambda gpu: reason if reason in gpu.throttle else None
        ):
            states = []
            for device in devices:
                for at, gpu in self.rows[device]:
                    if first <= at <= last:
                        states.append(gpu)
            heats = known_values(gpu.temperature_c for gpu in states)
            clocks = known_values(gpu.clock_mhz for gpu in states)
            heat = max(heats, default=None)
            facts = []
            if heat is not None:
                facts.append(f"{heat:.0f} °C")
            lowest = min(clocks, default=0.0)
            if lowest:
                facts.append(f"down to {lowest:,.0f} MHz")
            text = ": ".join(filter(None, (THROTTLING[reason], ", ".join(facts))))
            text += self._on(devices)
            yield self._issue(reason, text, first, last, devices, value=heat)

    def clock_changes(self) -> Iterator[TelemetryIssue]:
        """Yield changes of clocks that last, those of several GPUs at one time together."""
        changes: list[tuple[float, float, float, str]] = []
        for name, readings in self.rows.items():
            clocks = []
            for at, gpu in self.steady.running(readings):
                if gpu.clock_mhz:
                    clocks.append((at, gpu.clock_mhz))
            changes += [(*change, name) for change in changed_levels(clocks)]
        changes.sort()
        while changes:
            at, before, after, _ = changes[0]
            together = [change for change in changes if change[0] - at < SIDE / 2]
            changes = [change for change in changes if change not in together]
            devices = [device for *_, device in together]
            step, _ = self.steps.steps_between(at, at)
            issue = _clock_change("clock-change", "clock", step, before, after)
            if len(self.rows) > 1 and len(devices) == 1:
                issue = issue.but(device=devices[0])
            yield issue.but(text=issue.text + self._on(devices))

    def slower_gpus(self) -> Iterator[TelemetryIssue]:
        """Yield GPUs whose clock is below that of the others."""
        means = {}
        for name, readings in self.rows.items():
            clocks = [gpu.clock_mhz for _, gpu in self.steady.running(readings) if gpu.clock_mhz]
            if len(clocks) >= SIDE:
                means[name] = statistics.fmean(clocks)
        if len(means) < 3:
            return
        for name, clock in means.items():
            usual = statistics.median(mean for other, mean in means.items() if other != name)
            if clock < (1 - LEAST_CLOCK_DIFFERENCE) * usual:
                text = (
                    f"GPU {short_id(name)} runs at {clock:,.0f} MHz, the others at {usual:,.0f} MHz"
                )
                yield TelemetryIssue(
                    code="slower-gpu", text=text, device=name, value=clock, expected=usual
                )

    def errors(self) -> Iterator[TelemetryIssue]:
        """Yield counters of errors that have risen, and errors of the driver."""
        for name, readings in self.rows.items():
            for field, code, words, severity in _COUNTERS:
                risen = _risen([(at, getattr(gpu, field)) for at, gpu in readings])
                if risen:
                    total = sum(count for _, count in risen)
                    text = f"{total:,.0f} × {words} on GPU {short_id(name)}"
                    first = risen[0][0]
                    last = risen[-1][0]
                    fields = {"value": total, "severity": severity}
                    yield self._issue(code, text, first, last, [name], whole=False, **fields)
            xids = [(at, xid) for at, gpu in readings for xid in gpu.xids]
            if xids:
                codes = ", ".join(map(str, sorted({xid for _, xid in xids})))
                text = f"driver error on GPU {short_id(name)} (XID {codes})"
                first, value = xids[0]
                last = xids[-1][0]
                yield self._issue("xid", text, first, last, [name], whole=False, value=value)

    def lost(self) -> Iterator[TelemetryIssue]:
        """Yield GPUs that are not read any more."""
        for name, readings in self.rows.items():
            if not readings:
                continue
            last = readings[-1][0]
            if sum(sample.at > last for sample in self.samples) > LEAST_READINGS:
                text = f"GPU {short_id(name)} stopped responding to the driver"
                yield self._issue("gpu-lost", text, last, self.samples[-1].at, [name], whole=False)

    def narrow_links(self) -> Iterator[TelemetryIssue]:
        """Yield links that have fewer lanes than they could."""
        for name, readings in self.rows.items():
            # A link rests at a lower speed, but keeps its lanes.
            widths = [gpu.pcie_width for _, gpu in readings if gpu.pcie_width]
            top = max((gpu.pcie_width_max or 0 for _, gpu in readings), default=0)
            if len(widths) >= LEAST_READINGS and max(widths) < top:
                text = f"PCIe link of GPU {short_id(name)} has {max(widths)} of {top} lanes"
                yield TelemetryIssue(
                    code="pcie-narrow", text=text, device=name, value=max(widths), expected=top
                )

    def shared_gpus(self) -> Iterator[TelemetryIssue]:
        """Yield processes that come to a GPU after the training has begun: those before it are memory
        held by others.
        """
        for name, readings in self.rows.items():
            at_start = next((set(gpu.pids) for _, gpu in readings if gpu.pids), set())
            came = _grouped(
                {name: readings},
                lambda gpu, own=at_start: tuple(sorted(set(gpu.pids or ()) - own)) or None,  # type: ignore[misc]
            )
            for pids, devices, first, last in came:
                named = ", ".join(map(str, pids[:NAMED_PROGRAMS]))
                noun = "process" if len(pids) == 1 else "processes"
                text = f"GPU {short_id(name)} is shared with {noun} {named}"
                yield self._issue("gpu-shared", text, first, last, devices, value=len(pids))

    def _issue(
        self,
        code: str,
        text: str,
        first: float,
        last: float,
        devices: Sequence[str],
        *,
        whole: bool = True,
        **fields: object,
    ) -> TelemetryIssue:
        """Return an event with its steps; without any if it holds from the first reading to the
        last.
        """
        times = [at for device in devices for at, _ in self.rows[device]]
        window: tuple[int | None, int | None] = (None, None)
        if not (whole and first <= min(times) and last >= max(times)):
            window = self.steps.steps_between(first, last)
        if len(devices) == 1:
            fields["device"] = devices[0]
        first_step, last_step = window
        issue = TelemetryIssue(code=code, text=text, first_step=first_step, last_step=last_step)
        return issue.but(**fields)

    def _on(self, devices: Sequence[str]) -> str:
        """Return which of several GPUs; nothing for all of them."""
        if len(devices) == len(self.rows):
            return ""
        if len(devices) == 1:
            return f" on GPU {short_id(devices[0])}"
        return f" on {len(devices)} of {len(self.rows)} GPUs"

    def cpu_clock(self) -> Iterator[TelemetryIssue]:
        """Yield changes of the CPU's clock, where no GPU trains."""
        if self.samples and self.samples[0].gpus:
            return
        rows = []
        for sample in self.samples:
            if sample.cpu is not None and sample.cpu.frequency_mhz is not None:
                rows.append((sample.at, sample.cpu.frequency_mhz))
        for at, before, after in changed_levels(self.steady.running(rows)):
            step, _ = self.steps.steps_between(at, at)
            issue = _clock_change("cpu-clock-change", "CPU clock", step, before, after)
            yield issue.but(device="cpu")


def _clock_change(code: str, what: str, step: int, before: float, after: float) -> TelemetryIssue:
    """Return the event that a clock changes at a step, such as "clock fell 1,980 → 1,410 MHz"."""
    verb = "rose" if after > before else "fell"
    text = f"{what} {verb} {before:,.0f} → {after:,.0f} MHz"
    return TelemetryIssue(
        code=code, text=text, first_step=step, last_step=step, value=after, expected=before
    )


def changed_levels(values: Sequence[tuple[float, float]]) -> list[tuple[float, float, float]]:
    """Return changes that last: (time, level before, level after) each, for readings as (time,
    value).

    Levels are medians of SIDE readings. A change is large, and nearly all readings after it are on
    one side of those before it; of neighboring candidates the clearest counts.
    """
    levels = [value for _, value in values]
    candidates = []
    for index in range(SIDE, len(levels) - SIDE + 1):
        before = levels[index - SIDE : index]
        after = levels[index : index + SIDE]
        low = statistics.median(before)
        high = statistics.median(after)
        if abs(high / low - 1) < LEAST_CLOCK_CHANGE:
            continue
        rises = sum((b > a) - (b < a) for a, b in itertools.product(before, after)) / SIDE**2
        if abs(rises) >= 2 * ORDERED - 1:
            # How much better two levels describe the readings than one, by absolute deviations.
            gain = _deviations([*before, *after]) - _deviations(before) - _deviations(after)
            candidates.append((gain, index, low, high))
    changes: list[tuple[int, float, float]] = []
    for _, index, low, high in sorted(candidates, reverse=True):
        if all(abs(index - other) >= SIDE for other, *_ in changes):
            changes.append((index, low, high))
    return [(values[index][0], low, high) for index, low, high in sorted(changes)]


def _deviations(values: Sequence[float]) -> float:
    level = statistics.median(values)
    return sum(abs(value - level) for value in values)


def _risen(counts: Sequence[tuple[float, float | None]]) -> list[tuple[float, float]]:
    """Return when a counter was seen to have risen, and by how much."""
    risen = []
    stated = ((at, count) for at, count in counts if count is not None)
    for (_, before), (at, now) in itertools.pairwise(stated):
        if now > before:
            risen.append((at, now - before))
    return risen


def _cpu(
    samples: Sequence[Sample], on_cpu: bool, start: float, end: float
) -> Iterator[TelemetryIssue]:
    shares = cpu_shares(samples, start, end)
    severity: Severity = "warning" if on_cpu else "info"
    others = shares.get("others", 0.0)
    if others > DISTURBED_SHARE:
        programs = sorted(programs_of(samples, start, end).items(), key=lambda row: -row[1])
        named = []
        for name, share in programs[:NAMED_PROGRAMS]:
            if share >= 0.01:
                named.append(f"{name} {share:.0%}")
        text = f"{others:.0%} of the CPU was used by other programs"
        if named:
            text += f" ({', '.join(named)})"
        yield _cpu_issue("cpu-shared", text, others, severity)
    stolen = shares.get("stolen", 0.0)
    if stolen > DISTURBED_SHARE:
        yield _cpu_issue("cpu-steal", f"hypervisor steal {stolen:.0%}", stolen, severity)
    held_back = shares.get("held_back", 0.0)
    if held_back > DISTURBED_SHARE:
        text = f"the control group's CPU quota was used up for {held_back:.0%} of the time"
        yield _cpu_issue("cpu-quota", text, held_back)
    for name, least in STALLED_SHARES.items():
        share = shares.get(f"stalled_{name}", 0.0)
        if share > least:
            what = "storage" if name == "io" else name
            text = f"all tasks waited for {what} for {share:.0%} of the time"
            yield _cpu_issue(f"{name}-pressure", text, share)


def _cpu_issue(
    code: str, text: str, share: float, severity: Severity = "warning"
) -> TelemetryIssue:
    return TelemetryIssue(
        code=code, text=text, severity=severity, device="cpu", value=round(share, 4)
    )


def cpu_shares(samples: Sequence[Sample], start: float, end: float) -> dict[str, float]:
    """Return shares of the CPU's time by others, stolen, and held back, between the readings
    nearest to two moments.

    What the training itself uses is known of some readings only, so others' share is that between
    two of those.
    """
    readings = [(sample.at, sample.cpu) for sample in samples if sample.cpu is not None]
    shares = {}
    if looked := _looked(samples, start, end):
        (_, first), (_, last) = looked
        shares["others"] = min(last.share_of_others(first), 1.0)
    if pair := _nearest(readings, start, end):
        (began, first), (ended, last) = pair
        shares["stolen"] = min(last.share_stolen(first), 1.0)
        if first.held_back_s is not None and last.held_back_s is not None:
            shares["held_back"] = max(last.held_back_s - first.held_back_s, 0.0) / (ended - began)
        for name in set(first.stalled_s) & set(last.stalled_s):
            stalled_s = last.stalled_s[name] - first.stalled_s[name]
            shares[f"stalled_{name}"] = stalled_s / (ended - began)
    return shares


def programs_of(samples: Sequence[Sample], start: float, end: float) -> dict[str, float]:
    """Return other programs' shares of the CPU's time between the readings nearest to two
    moments.
    """
    looked = _looked(samples, start, end)
    if looked is None:
        return {}
    (_, first), (_, last) = looked
    total = last.total_s - first.total_s
    return {
        name: (used - first.programs.get(name, 0.0)) / total for name, used in last.programs.items()
    }


def _looked(samples: Sequence[Sample], start: float, end: float) -> tuple | None:  # type: ignore[type-arg]
    """Return what _nearest() does of the readings that looked at the processes."""
    rows = []
    for sample in samples:
        if sample.cpu is not None and sample.cpu.own_s is not None:
            rows.append((sample.at, sample.cpu))
    return _nearest(rows, start, end)


def _nearest(rows: Sequence, start: float, end: float) -> tuple | None:  # type: ignore[type-arg]
    """Return the last row before the start and the first one after the end, or the nearest
    within.
    """
    if not rows:
        return None
    first = next((row for row in reversed(rows) if row[0] <= start), rows[0])
    last = next((row for row in rows if row[0] >= end), rows[-1])
    if last[1].total_s <= first[1].total_s:
        return None
    return (first, last)


def _grouped(
    rows: DeviceRows, kind: Callable[[GpuState], object], *, least: int = LEAST_READINGS
) -> Iterator[tuple[tuple, list[str], float, float]]:  # type: ignore[type-arg]
    """Yield (kind, GPUs, first reading, last reading) for readings in a row are of one kind; None
    is none.

    GPUs whose times begin and end within a reading of each other are put together.
    """
    runs = []
    for name, readings in rows.items():
        for value, group in itertools.groupby(readings, key=lambda row: kind(row[1])):
            times = [at for at, _ in group]
            if value is not None and len(times) >= least:
                runs.append((value, name, times[0], times[-1]))
    while runs:
        value, _, first, last = runs[0]
        together = []
        for run in runs:
            if run[0] == value and abs(run[2] - first) < 2 and abs(run[3] - last) < 2:
                together.append(run)
        runs = [run for run in runs if run not in together]
        _, devices, begins, ends = zip(*together, strict=True)
        yield value, list(devices), min(begins), max(ends)  # type: ignore[misc]
