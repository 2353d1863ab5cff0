"""Where what telemetry tells turns: each limit with a value just below it and one just above it."""

from __future__ import annotations

import pytest
from limits import limits

from tprimat.machine.cpu import CpuState
from tprimat.machine.gpu import GpuState
from tprimat.machine.telemetry.trace import Header, Sample, Trace
from tprimat.record.telemetry import energy, findings
from tprimat.record.telemetry.timeline import Timeline


def gpu(number=0, **fields):
    return GpuState(index=number, name="H100", id=f"{number:08d}", **fields)


def codes(samples, *, count=1, platform="nvd"):
    """The events of a training whose steps of 1 s lie around readings once a second."""
    ends = tuple(float(each) for each in range(1, len(samples) + 1))
    steps = Timeline(tuple(range(1, len(samples) + 1)), ends, (1.0,) * len(samples), 0.0)
    header = Header(1, platform, tuple(f"{number:08d}" for number in range(count)))
    return {issue.code: issue for issue in findings.find(Trace(header, samples), steps, steps)}


def of_clocks(*clocks):
    """Whether a change is told of readings of the clock of each GPU, MHz."""
    samples = [
        Sample(place + 0.5, tuple(gpu(number, clock_mhz=each) for number, each in enumerate(row)))
        for place, row in enumerate(zip(*clocks, strict=True))
    ]
    return codes(samples, count=len(clocks))


def falls_once(lowest):
    """Whether a lower clock is told where a single earlier reading lies among those of the lower
    one.
    """
    after = [900.0 + each for each in range(12)]
    return "clock-change" in of_clocks([1000.0] * 11 + [lowest] + after)


def throttled(count):
    reasons = [("thermal",) if 5 <= place < 5 + count else () for place in range(20)]
    return "thermal" in codes(
        [Sample(place + 0.5, (gpu(throttle=each),)) for place, each in enumerate(reasons)]
    )


def lost(count):
    return "gpu-lost" in codes(
        [Sample(place + 0.5, (gpu(),) if place < 20 - count else ()) for place in range(20)]
    )


def of_cpu(platform="cpu", **shares):
    """The events of a CPU of which a share of the time went to each of these."""

    def state(at):
        spent = {name: share * at for name, share in shares.items()}
        stalled = {
            name.removeprefix("stalled_"): spent.pop(name)
            for name in list(spent)
            if "stalled" in name
        }
        programs = {
            f"program {number}": 0.02 * at for number in range(int(shares.get("programs", 0)))
        }
        spent.pop("programs", None)
        busy = spent.pop("others", 0.0)
        return CpuState(
            total_s=at, busy_s=busy, own_s=0.0, stalled_s=stalled, programs=programs, **spent
        )

    return codes([Sample(float(at), cpu=state(at)) for at in range(41)], platform=platform)


@limits(
    (
        "clock",
        lambda clock: "clock-change" in of_clocks([1000.0] * 20 + [clock] * 20),
        (939.0, True),
        (941.0, False),
    ),
    (
        "readings",
        lambda count: "clock-change" in of_clocks([1000.0] * 20 + [900.0] * count),
        (11, False),
        (12, True),
    ),
    ("readings in order", falls_once, (906.5, False), (907.5, True)),
    (
        "clock of one GPU",
        lambda clock: "slower-gpu" in of_clocks([1000.0] * 20, [1000.0] * 20, [clock] * 20),
        (949.0, True),
        (951.0, False),
    ),
    (
        "readings of one GPU",
        lambda count: (
            "slower-gpu" in of_clocks([1000.0] * count, [1000.0] * count, [900.0] * count)
        ),
        (11, False),
        (12, True),
    ),
    ("readings with a limit", throttled, (1, False), (2, True)),
    ("readings without a GPU", lost, (2, False), (3, True)),
    (
        "other programs",
        lambda share: "cpu-shared" in of_cpu(others=share),
        (0.0499, False),
        (0.0501, True),
    ),
    (
        "hypervisor",
        lambda share: "cpu-steal" in of_cpu(stolen_s=share),
        (0.0499, False),
        (0.0501, True),
    ),
    (
        "quota",
        lambda share: "cpu-quota" in of_cpu(held_back_s=share),
        (0.0499, False),
        (0.0501, True),
    ),
    (
        "memory",
        lambda share: "memory-pressure" in of_cpu(stalled_memory=share),
        (0.0199, False),
        (0.0201, True),
    ),
    (
        "storage",
        lambda share: "io-pressure" in of_cpu(stalled_io=share),
        (0.0999, False),
        (0.1001, True),
    ),
    (
        "named programs",
        lambda count: of_cpu(others=0.2, programs=count)["cpu-shared"].text.count("program "),
        (3, 3),
        (4, 3),
    ),
)
def test_an_event(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def validity(factor=1.0, *, seconds=40, counted=None, watts=500.0, readings=None, **fields):
    """The code of the energy of steps between the midst of two readings, of one GPU that draws so
    many watts.

    Args:
        factor: of the counter over power times time.
        seconds: of the steps, read once a second from half a second before.
        counted: seconds of power that the counter has at each reading; by default as many as
            passed.
        readings: of the power; the others have none.
    """
    samples = []
    for at in range(seconds + 2):
        joules = factor * watts * (counted(at) if counted else at)
        power = watts if readings is None or at < readings else None
        samples.append(Sample(float(at), (gpu(energy_j=joules, power_w=power, **fields),)))
    steady = Timeline((1,), (seconds + 0.5,), (float(seconds),), 0.5)
    return energy.of_gpus(samples, [gpu().id], steady, 1).code


def standing_still(seconds):
    """The code of a counter of 100 s that stands still for so long, and then has what it missed."""
    return validity(
        seconds=99, counted=lambda at: 40 if 40 <= at <= 40 + seconds else at, power_is_average=True
    )


def wrapped(start):
    """The code of a counter that falls from such a share of its range to where it starts again."""
    top = 40_000.0
    return energy.unwrapped([(0.0, start * top), (1.0, 10.0)], top)


@limits(
    (
        "of averages, higher",
        lambda factor: validity(factor, power_is_average=True),
        (1.099, "measured"),
        (1.101, "power-disagrees"),
    ),
    (
        "of averages, lower",
        lambda factor: validity(factor, power_is_average=True),
        (0.899, "power-disagrees"),
        (0.901, "measured"),
    ),
    # 0.1 + 0.5 / √25
    (
        "of single readings",
        lambda factor: validity(factor, seconds=23),
        (1.199, "measured"),
        (1.201, "power-disagrees"),
    ),
    (
        "of readings that cover a part",
        lambda factor: validity(factor, power_is_average=False),
        (1.99, "partly-sampled"),
        (2.01, "power-disagrees"),
    ),
    # The first readings cover a tenth of the time, and the counter states as little.
    (
        "power readings",
        lambda count: validity(readings=count, factor=0.08),
        (4, "unverified"),
        (5, "measured"),
    ),
    ("seconds", lambda seconds: validity(seconds=seconds), (11, "window-short"), (13, "measured")),
    ("standing still", standing_still, (19, "measured"), (21, "counter-stuck")),
    (
        "utilisation",
        lambda percent: validity(utilisation_percent=percent),
        (5.0, "wrong-device"),
        (5.1, "measured"),
    ),
    (
        "power cap",
        lambda cap: validity(power_cap_w=cap),
        (454.0, "above-power-cap"),
        (455.0, "measured"),
    ),
    (
        "start again",
        lambda start: getattr(wrapped(start), "code", "wrapped"),
        (0.49, "counter-reset"),
        (0.51, "wrapped"),
    ),
)
def test_an_energy(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def test_a_counter_may_be_an_update_late_at_either_end():
    # Half a second and a tenth of 500 W, twice.
    samples = [Sample(float(at), (gpu(energy_j=500.0 * at, power_w=500.0),)) for at in range(42)]
    found = energy.of_gpus(samples, [gpu().id], Timeline((1,), (40.5,), (40.0,), 0.5), 1)
    assert (found.joules, found.error_joules) == (pytest.approx(20_000.0), pytest.approx(600.0))
