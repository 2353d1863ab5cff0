"""What a trace says of a training: each planted fault leads to its code, energies are right, series
are bounded.
"""

from __future__ import annotations

import math
import random
import time

import msgspec
import pytest
from tool_modules import load_tool

from tprimat.machine.cpu import CpuState
from tprimat.machine.gpu import GpuState
from tprimat.machine.telemetry.trace import REPLAYED, Header, Sample, Trace, encode
from tprimat.record import telemetry
from tprimat.record.telemetry import energy, series
from tprimat.record.telemetry.timeline import Timeline
from tprimat.results import result_file
from tprimat.results.run import SERIES, Environment, Node, Run
from tprimat.results.telemetry import LONGEST_SERIES, Telemetry, TelemetryIssue
from tprimat.store import store

faults = load_tool("telemetry_faults")

SHOWN = 10
"""Traces of each kind; tools/telemetry_faults.py makes 100."""


@pytest.mark.parametrize("name", [*faults.CLEAN, *faults.FAULTS])
def test_each_planted_fault_leads_to_its_code_and_no_clean_trace_does(name):
    assert faults.check(name, SHOWN) == []


def drawn(name="h100", seed=0, **changes):
    plan = faults.Plan(random.Random(seed), name, **changes)
    return faults.make(plan)


class TestSentences:
    def planted(self, name, **changes):
        plan = faults.Plan(
            random.Random(5), **{"gpus": 2, "step_s": 1.0, "duration_s": 150.0, **changes}
        )
        plan.from_s, plan.to_s = 60.0, 90.0
        faults.FAULTS[name].plant(plan)
        (issue,) = (
            each
            for each in faults.make(plan).joined().telemetry.issues
            if each.code in faults.FAULTS[name].issues
        )
        return issue

    def test_a_lowered_cap_has_its_steps(self):
        issue = self.planted("power cap for a while")
        assert issue.text == "power cap (500 W of 700 W)"
        assert (issue.value, issue.expected, issue.device) == (500.0, 700.0, None)
        assert issue.sentence == f"steps {issue.first_step}–{issue.last_step}: {issue.text}"

    def test_one_throughout_has_none(self):
        assert self.planted("power cap throughout").sentence == "power cap (500 W of 700 W)"

    def test_a_clock_that_rises(self):
        issue = self.planted("clock rises")
        assert issue.text.startswith("clock rose 1,")
        assert issue.first_step == issue.last_step
        assert issue.sentence.startswith(f"step {issue.first_step}: ")
        assert (issue.expected, issue.value) == (
            pytest.approx(1410, rel=0.02),
            pytest.approx(1980, rel=0.02),
        )

    def test_a_neighbour_has_a_name_and_a_share(self):
        issue = self.planted("busy neighbour", kind="cpu", gpus=1)
        assert issue.value == pytest.approx(0.23, abs=0.01)
        assert (
            issue.text == f"{issue.value:.0%} of the CPU was used by other programs (neighbour (77)"
            f" {issue.value:.0%})"
        )
        assert (issue.severity, issue.device) == ("warning", "cpu")

    def test_beside_gpus_it_is_a_note(self):
        assert self.planted("busy neighbour").severity == "info"

    def test_the_hypervisor(self):
        issue = self.planted("hypervisor steal")
        assert (issue.text, issue.value) == ("hypervisor steal 8%", pytest.approx(0.08, abs=0.005))


class TestEnergy:
    def test_of_two_gpus(self):
        made = drawn(duration_s=120.0)
        run = made.joined()
        known = run.energy_metrics
        assert run.telemetry.energy_code == "measured"
        assert run.telemetry.energy_covers == "the GPUs that train"
        assert "fans" in run.telemetry.energy_excludes
        first = next(
            step
            for step in run.steps
            if known["measured_seconds"] > sum(run.step_times[step - 1 :]) - 1e-3
        )
        assert known["measured_tokens"] == (len(run.steps) - first + 1) * 64 * 2048
        assert known["joules_per_token"] == pytest.approx(
            known["energy_joules"] / known["measured_tokens"], rel=1e-5
        )
        assert known["mean_power_watts_per_gpu"] == pytest.approx(
            known["mean_power_watts"] / 2, abs=0.1
        )
        assert known["mean_power_watts_per_gpu"] == pytest.approx(600.0, rel=0.01)
        assert known["energy_error_joules"] < 0.1 * known["energy_joules"]

    def test_a_pause_is_not_counted(self):
        made = drawn(duration_s=120.0, pause=True)
        known = made.joined().energy_metrics
        assert known["measured_seconds"] < made.steps.ends[-1] - made.steps.began - 12.0
        assert known["mean_power_watts_per_gpu"] == pytest.approx(600.0, rel=0.02)

    def test_the_stated_error_holds_whatever_the_power_does_between_two_readings(self):
        chance = random.Random(1)
        for _ in range(300):
            times = [0.0]
            joules = [0.0]
            for _ in range(400):
                times.append(times[-1] + 0.1)
                joules.append(joules[-1] + chance.choice((0.0, 70.0)))
            counter = energy.unwrapped([(times[n], joules[n]) for n in range(0, 401, 10)], None)
            low, high = chance.randrange(5, 200), chance.randrange(220, 395)
            measured, error = counter.between(times[low], times[high])
            assert abs(measured - (joules[high] - joules[low])) <= error + 1e-9

    @pytest.mark.parametrize(
        ("values", "top", "total", "wraps"),
        [
            ((10.0, 90.0, 5.0, 40.0), 100.0, 130.0, 1),
            ((10.0, 10.0, 20.0), None, 10.0, 0),
        ],
    )
    def test_wraps(self, values, top, total, wraps):
        counter = energy.unwrapped(list(enumerate(values)), top)
        assert (counter.joules[-1] - counter.joules[0], counter.wraps) == (total, wraps)

    @pytest.mark.parametrize(
        ("values", "top"), [((90.0, 5.0), None), ((40.0, 5.0), 100.0), ((140.0, 5.0), 100.0)]
    )
    def test_a_counter_that_falls_otherwise_is_rejected(self, values, top):
        assert energy.unwrapped(list(enumerate(values)), top).code == "counter-reset"

    def test_of_all_machines_or_none(self):
        made = drawn(duration_s=60.0)
        config = msgspec.structs.replace(made.run.training_config, num_gpus=16)
        run = telemetry.with_trace(
            msgspec.structs.replace(made.run, training_config=config),
            made.steps,
            made.trace,
            made.expected_gpus,
        )
        assert run.telemetry.energy_code == "devices-missing"
        assert "energy_joules" not in run.energy_metrics

    def test_of_the_cpus_of_all_machines_or_none(self):
        made = drawn("cpu", gpus=1, duration_s=60.0)
        environment = Environment(nodes=(Node(hostname="a"), Node(hostname="b")))
        config = msgspec.structs.replace(made.run.training_config, num_gpus=2)
        for known in ({"environment": environment}, {"training_config": config}):
            run = telemetry.with_trace(
                msgspec.structs.replace(made.run, **known), made.steps, made.trace, 1
            )
            assert run.telemetry.energy_code == "devices-missing"
            assert run.telemetry.energy_reason == "the CPUs of the other machines were not read"
            assert "energy_joules" not in run.energy_metrics

    @pytest.mark.parametrize(
        ("dies", "code"),
        [
            ((0, 1), "measured"),
            ((2, 3), "measured"),
            ((0, 3), "shared-counter"),
            ((1, 2), "shared-counter"),
        ],
    )
    def test_of_both_dies_of_each_package_or_none(self, dies, code):
        # The even die counts the energy of its package, 500 W.
        def die(index, second):
            joules, watts = (500.0 * second, 500.0) if index % 2 == 0 else (0.0, 0.0)
            known = {
                "energy_j": joules,
                "power_w": watts,
                "counter_is_shared": True,
                "utilisation_percent": 99.0,
            }
            return GpuState(index=index, name="MI250X", id=f"die{index}", **known)

        samples = [
            Sample(float(second), tuple(die(index, second) for index in dies))
            for second in range(121)
        ]
        steps = Timeline(
            tuple(range(1, 101)), tuple(10.0 + step for step in range(1, 101)), (1.0,) * 100, 10.0
        )
        found = energy.of_gpus(samples, [f"die{index}" for index in dies], steps, 2)
        assert (found.code, found.joules) == (
            code,
            pytest.approx(50_000) if code == "measured" else None,
        )

    def test_the_code_is_that_of_the_least_sure_gpu(self):
        codes = ("counter-wrapped", "from-power", "measured")
        assert energy._sum([energy.Energy(code, code, 1.0) for code in codes])[:3] == (
            "from-power",
            "from-power",
            3.0,
        )

    def test_a_log_has_no_power_either(self):
        made = drawn(duration_s=60.0)

        class Stopped:
            unknown = gpus_unknown = None

            def so_far(self):
                return made.trace

        run = telemetry.without_steps(made.run, Stopped(), made.steps.began, made.steps.ends[-1])
        assert run.telemetry.energy_code == "no-step-times"
        # The mean of the whole process isn't that of the steady steps, as other results state it.
        assert not [name for name in run.energy_metrics if "joules" in name or "mean_power" in name]
        assert run.energy_metrics["power_cap_watts"] == 700

    def test_never_the_cpus_in_the_place_of_the_gpus(self):
        made = drawn("cpu", gpus=1, duration_s=60.0)
        assert made.joined().telemetry.energy_code == "measured"
        run = msgspec.structs.replace(made.run, platform="nvd")
        for unknown, code in (
            ("GPUs: the drivers report none for a GPU partition (MIG)", "partitioned"),
            ("", "no-counter"),
        ):
            joined = telemetry.with_trace(run, made.steps, made.trace, 1, (unknown,))
            assert (joined.telemetry.energy_code, "energy_joules" in joined.energy_metrics) == (
                code,
                False,
            )

    def test_steps_without_a_time_are_in_neither(self):
        made = drawn(duration_s=60.0)
        lost = made.run.steps[40]
        times = tuple(
            None if step == lost else time
            for step, time in zip(made.run.steps, made.run.step_times, strict=True)
        )
        run = msgspec.structs.replace(made.run, step_times=times)
        steps = Timeline.of(
            run, dict(zip(made.steps.steps, made.steps.ends, strict=True)), made.steps.began
        )
        whole, part = (
            made.joined().energy_metrics,
            telemetry.with_trace(run, steps, made.trace, 2).energy_metrics,
        )
        assert whole["measured_tokens"] - part["measured_tokens"] == 64 * 2048
        assert part["joules_per_token"] == pytest.approx(whole["joules_per_token"], rel=0.02)

    def test_readings_that_end_before_the_training(self):
        made = drawn(duration_s=60.0)
        cut = made.trace._replace(samples=made.trace.samples[:-10])
        run = telemetry.with_trace(made.run, made.steps, cut, 2)
        assert (run.telemetry.energy_code, "energy_joules" in run.energy_metrics) == (
            "no-counter",
            False,
        )


class TestSeries:
    @pytest.mark.parametrize(
        ("step_s", "duration_s"), [(0.02, 60.0), (0.5, 60.0), (20.0, 200.0), (0.1, 1500.0)]
    )
    def test_entries_are_bounded_and_cover_all_steps(self, step_s, duration_s):
        made = drawn(step_s=step_s, duration_s=duration_s, gpus=1)
        axis, values = series.join(made.trace.samples, made.steps)
        assert len(axis) <= LONGEST_SERIES
        assert axis[-1] == made.run.steps[-1]
        assert set(series.OF_GPUS) <= set(values)
        known = [watts for watts in values["power_watts_per_gpu"] if watts is not None]
        assert len(known) > 0.8 * len(axis)

    def test_a_file_of_a_long_training_grows_little(self):
        made = drawn(step_s=0.1, duration_s=2000.0, gpus=1)
        encoded = result_file.encode(result_file.ResultFile(telemetry=made.joined().telemetry))
        assert len(encoded) < 60_000

    def test_values_are_means_over_the_steps_of_an_entry(self):
        steps = Timeline((1, 2), (10.0, 20.0), (10.0, 10.0), 0.0)
        samples = [
            Sample(at, cpu=CpuState(total_s=2 * at, busy_s=at, own_s=at / 2))
            for at in (0.0, 5.0, 10.0, 20.0)
        ]
        assert series.join(samples, steps) == (
            (1, 2),
            {"other_programs_cpu_percent": (25.0, 25.0), "steal_cpu_percent": (0.0, 0.0)},
        )

    @pytest.mark.parametrize("samples", [[], [Sample(5.0)], [Sample(5.0), Sample(5.0)]])
    def test_next_to_nothing_was_read(self, samples):
        steps = Timeline((1,), (10.0,), (10.0,), 0.0)
        assert series.join(samples, steps)[1] == {}
        run = Run(
            **{
                **dict.fromkeys(SERIES, (None,)),
                "steps": (1,),
                "window_steps": (1,),
                "step_times": (10.0,),
            }
        )
        known = telemetry.with_trace(run, steps, Trace(Header(1, "cpu"), samples), 1)
        assert known.telemetry.series == {}


class TestField:
    def test_old_results_have_none(self):
        assert Run().telemetry == Telemetry()

    @pytest.mark.parametrize(
        "fields",
        [
            {"steps": (2, 1)},
            {"steps": (1,), "series": {"a": ()}},
            {"steps": (1,), "series": {"a": (math.inf,)}},
            {"steps": (1,), "series": {"a": (math.nan,)}},
            {"steps": tuple(range(1, LONGEST_SERIES + 2))},
        ],
    )
    def test_series_that_are_none_are_rejected(self, fields):
        with pytest.raises(ValueError, match=r"telemetry\."):
            Telemetry(**fields)

    def test_where(self):
        assert TelemetryIssue(code="a", text="b", first_step=3, last_step=9).where == "steps 3–9"
        assert TelemetryIssue(code="a", text="b").sentence == "b"


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((1.0, 2.0, 3.0), [(0.0, 3.0)]),
        ((1.0, 2.0, 9.0, 10.0), [(0.0, 2.0), (8.0, 10.0)]),
    ],
)
def test_times_in_which_steps_ran(ends, expected):
    steps = Timeline(tuple(range(1, len(ends) + 1)), ends, (1.0,) * len(ends), 0.0)
    assert steps.intervals() == expected
    assert steps.running([(0.5, "a"), (8.5, "b"), (5.0, "c")])[0] == (0.5, "a")
    assert (5.0, "c") not in steps.running([(5.0, "c")])


def test_steps_of_a_time():
    steps = Timeline((1, 2, 5), (1.0, 2.0, 5.0), (1.0, 1.0, 3.0), 0.0)
    assert steps.steps_between(0.5, 1.5) == (1, 2)
    assert steps.steps_between(1.5, 3.5) == (2, 5)
    assert steps.steps_between(3.5, 3.6) == (3, 5)
    assert steps.steps_between(-9.0, 99.0) == (1, 5)


def test_a_recorded_trace_reaches_the_result_and_says_so(tmp_path, monkeypatch, capfd):
    pytest.importorskip("torch")
    import benchmark_utils

    recorded = faults.draw("power cap throughout", 0).trace
    path = tmp_path / "capped.jsonl"
    path.write_bytes(b"".join(map(encode, (recorded.header, *recorded.samples))))
    monkeypatch.setenv("TPRIMAT_TELEMETRY", f"replay:{path}")
    with benchmark_utils.record(model="mine", output_dir=tmp_path, log_every=1000) as recorder:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            time.sleep(0.1)
            recorder.step()
            read = recorder._recording.sampler.so_far()
            if read and len(read.samples) > 3:
                break
    run = recorder.result
    assert [issue.sentence for issue in run.telemetry.issues if issue.code == "power-cap"] == [
        "power cap (500 W of 700 W)"
    ]
    assert run.energy_metrics["power_cap_watts"] == 500.0
    # Four GPUs were read for one process; where the sampler started late, the first steps lack a
    # reading.
    assert run.telemetry.energy_code in ("devices-missing", "no-counter")
    assert REPLAYED in run.warnings
    assert "warning: power cap (500 W of 700 W)" in capfd.readouterr().err
    assert store.read(recorder.path)[-1].telemetry == run.telemetry


def test_switched_off(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    import benchmark_utils

    monkeypatch.setenv("TPRIMAT_TELEMETRY", "off")
    with benchmark_utils.record(model="mine", output_dir=tmp_path, quiet=True) as recorder:
        recorder.step()
    (why,) = recorder.result.telemetry.unknown
    assert why.startswith("switched off")
    assert recorder.result.status == "complete"
