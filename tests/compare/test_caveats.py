"""Caveats: codes, order, one of each."""

from __future__ import annotations

import datetime

import msgspec
import pytest
from made_runs import H100, MI300X, comparison, make_run, shape
from stored_runs import text_of

from tprimat.analysis import flops
from tprimat.compare.caveats import CODES
from tprimat.compare.cost import efficiencies
from tprimat.report.verdict import report
from tprimat.results.account import Timing
from tprimat.results.conditions import Disturbance
from tprimat.results.run import Data, Environment, Source, Tuning
from tprimat.results.telemetry import Telemetry, TelemetryIssue

AMD = {"device": MI300X, "stack": "rocm"}
TOKEN = flops.flops_per_token(shape(), 2048)
START = datetime.datetime(2026, 2, 1, tzinfo=datetime.timezone.utc)


def caveats(*runs, **options):
    (group,) = comparison(*runs, **options).models[0].groups
    return {caveat.code: caveat for caveat in group.caveats}


def test_between_equals_there_is_information_alone():
    found = caveats(make_run(), make_run(**AMD))
    assert set(found) == {"not-reported"}
    assert {caveat.severity for caveat in found.values()} == {"info"}


def test_two_runs_give_a_wide_interval():
    runs = [
        (
            make_run(step_time=3.2, **each),
            make_run(step_time=3.3, timestamp="2026-02-03T00:00:00+00:00", **each),
        )
        for each in ({}, AMD)
    ]
    assert caveats(*runs)["few-runs"].severity == "warning"


def test_the_weightiest_come_first():
    found = list(
        caveats(
            make_run(precision="fp8"), make_run(**AMD, batch=128, timing=Timing(covers="forward"))
        )
    )
    assert found == sorted(found, key=CODES.index)
    assert found[:2] == ["precision-differs", "timer-differs"]


def test_a_precision_that_differs_or_is_unknown():
    differs = caveats(make_run(precision="fp8"), make_run(**AMD, step_time=1.6))[
        "precision-differs"
    ]
    assert text_of(differs) == "precision differs: BF16 vs FP8"
    described = make_run(**AMD, precision="fp8")
    config = msgspec.structs.replace(
        described.training_config, precision_detail="system description: FP8 Training"
    )
    described = msgspec.structs.replace(described, training_config=config)
    text = "FP8 from the system description, not the log"
    assert (
        text_of(caveats(make_run(), described)["precision-differs"])
        == f"precision differs: BF16 vs FP8 ({text})"
    )
    assert (
        text_of(caveats(make_run(precision="fp8"), described)["precision-source"])
        == f"precision {text.replace('FP8', 'FP8 is')}"
    )
    found = caveats(make_run(precision=None), make_run(**AMD))
    assert (
        text_of(found["precision-unknown"])
        == "precision of 8×H100 is unknown and could explain the difference"
    )
    cpu = {"device": None, "stack": "cpu", "gpus": 1}
    assert "precision-unknown" not in caveats(
        make_run(**cpu, precision=None), make_run(**cpu, label="b", precision=None)
    )


def test_timers_name_what_they_cover():
    found = caveats(
        make_run(timing=Timing(covers="all of it")),
        make_run(**AMD, timing=Timing(covers="forward")),
    )
    assert "step timers differ: " in text_of(found["timer-differs"])
    assert "forward" in text_of(found["timer-differs"])


def test_batches():
    text = text_of(caveats(make_run(), make_run(**AMD, batch=128, step_time=3.2))["batch-differs"])
    assert text.endswith("sequences; compare tokens/s, not step time")


def test_what_disturbed_a_training_on_the_cpu():
    cpu = {"device": "AMD EPYC", "stack": "cpu"}
    busy = Disturbance(other_programs_cpu_share=0.23, steal_cpu_share=0.02)
    found = caveats(make_run(**cpu, disturbance=busy), make_run(**cpu, label="b"))["disturbed"]
    text = "other programs used up to 23% of the CPU during the measurement"
    assert (text_of(found), found.severity) == (text, "warning")
    stolen = Disturbance(other_programs_cpu_share=0.1, steal_cpu_share=0.3)
    text = text_of(
        caveats(make_run(**cpu, disturbance=busy), make_run(**cpu, label="b", disturbance=stolen))[
            "disturbed"
        ]
    )
    assert (
        text
        == "other programs used up to 23% of the CPU and the hypervisor used up to 30% of the CPU "
        "during the measurement"
    )
    quiet = Disturbance(other_programs_cpu_share=0.04, steal_cpu_share=0.0)
    assert "disturbed" not in caveats(
        make_run(**cpu, disturbance=quiet), make_run(**cpu, label="b")
    )
    assert "disturbed" not in caveats(make_run(disturbance=busy), make_run(**AMD))


def test_one_extreme_step_is_named():
    run = make_run(**AMD, steps=120)
    times = list(run.step_times)
    times[70] = 60.0
    found = caveats(make_run(steps=120), msgspec.structs.replace(run, step_times=tuple(times)))[
        "outlier"
    ]
    assert text_of(found) == "8×MI300X (BF16): one outlier step took 13.2% of the measured time"
    assert found.severity == "info"


def test_no_steady_state():
    found = caveats(make_run(steps=8), make_run(**AMD))["no-steady-state"]
    assert text_of(found) == "no steady state in 8×H100 (BF16): the result may include warm-up"


def test_a_change_of_speed_is_a_warning_where_it_is_all_there_is():
    run = make_run(**AMD, steps=300, warmup=(20.0, *[2.6] * 99), step_time=2.4)
    found = caveats(make_run(steps=300), run)["speed-changed"]
    assert found.severity == "warning"
    assert text_of(found).startswith("speed changed: 8×MI300X (BF16) at step 101 (2.6")


@pytest.mark.parametrize(("planned", "steps"), [(60, ""), (61, " (60 of 61 steps)")])
def test_an_incomplete_run(planned, steps):
    whole = make_run(**AMD, step_time=3.1)
    config = msgspec.structs.replace(whole.training_config, max_steps=planned)
    cut = make_run(**AMD, status="incomplete", training_config=config)
    assert text_of(caveats(make_run(), cut)["incomplete"]) == f"8×MI300X (BF16): incomplete{steps}"
    # A run that broke off is not used beside a complete one: slow ones may be those that a time
    # limit ends.
    whole = msgspec.structs.replace(whole, training_config=config)
    text = "8×MI300X (BF16): 1 of 2 runs did not finish and is excluded"
    assert text_of(caveats(make_run(), (whole, cut))["incomplete"]) == text
    again = make_run(**AMD, step_time=3.3, status="failed", training_config=config)
    text = "8×MI300X (BF16): 2 of 3 runs did not finish and are excluded"
    assert text_of(caveats(make_run(), (whole, cut, again))["incomplete"]) == text
    assert "incomplete" not in caveats(make_run(), whole)


@pytest.mark.parametrize(
    ("held", "total", "is_named"), [(8.6, 85.0, True), (8.5, 85.0, False), (40.0, None, False)]
)
def test_memory_that_other_programs_held(held, total, is_named):
    gpu = msgspec.structs.replace(make_run().gpu_info, total_memory_gb=total)
    runs = [
        make_run(
            step_time=3.1 + each / 1000,
            gpu_info=gpu,
            environment=Environment(memory_held_by_others_gb=each),
        )
        for each in (0.0, held)
    ]
    found = caveats(tuple(runs), make_run(**AMD))
    assert ("shared" in found) is is_named
    if is_named:
        assert (
            text_of(found["shared"])
            == "8×H100 (BF16): other programs held 8.60 GB of GPU memory at the start"
        )


def test_what_the_user_set_unlike_a_log_is_named():
    source = Source(
        kind="log", overrides={"global_batch_size": "64, not 32", "gpu": "H100, not A100"}
    )
    runs = tuple(make_run(step_time=time, source=source) for time in (3.2, 3.3))
    text = "; ".join(
        f"8×H100 (BF16): {key} set by the user, unlike its log"
        for key in ("global batch size", "gpu")
    )
    assert text_of(caveats(runs, make_run(**AMD))["overridden"]) == text
    (alone,) = comparison(runs).models[0].groups
    assert [each.code for each in alone.caveats] == ["overridden"]
    assert "overridden" not in caveats(make_run(source=Source(kind="log")), make_run(**AMD))


def test_what_telemetry_saw_of_other_programs_is_named_alone():
    seen = Telemetry(
        issues=(TelemetryIssue(code="gpu-shared", text="2 other programs used the GPU"),)
    )
    run = make_run(environment=Environment(memory_held_by_others_gb=40.0), telemetry=seen)
    assert (
        text_of(caveats(run, make_run(**AMD))["shared"])
        == "8×H100 (BF16): 2 other programs used the GPU"
    )


@pytest.mark.parametrize(
    ("instructions", "emulated"), [(("avx2",), True), (("avx512_bf16",), False), (None, False)]
)
def test_bf16_in_software(instructions, emulated):
    cpu = {
        "device": None,
        "stack": "cpu",
        "gpus": 1,
        "environment": Environment(cpu_instructions=instructions),
    }
    found = caveats(make_run(**cpu, step_time=64.0), make_run(**cpu, precision="fp32"))
    assert ("bf16-emulated" in found) is emulated


@pytest.mark.parametrize(("stack", "emulated"), [("cpu", True), ("cuda", False), ("rocm", False)])
def test_what_the_host_lacks_says_nothing_of_its_gpus(stack, emulated):
    fields = {
        "stack": stack,
        "environment": Environment(cpu="Some CPU", cpu_instructions=("avx2",)),
    }
    found = caveats(make_run(None, **fields, step_time=64.0), make_run(**fields, precision="fp32"))
    assert ("bf16-emulated" in found) is emulated


def test_runs_that_follow_their_order():
    def rising(step_time, **fields):
        return tuple(
            make_run(
                step_time=step_time * (1 + 0.01 * day),
                timestamp=f"2026-02-{day + 1:02d}T00:00:00+00:00",
                **fields,
            )
            for day in range(8)
        )

    found = caveats(rising(3.2), rising(2.4, **AMD))["order-of-runs"]
    assert "throughput falls from run to run" in text_of(found)
    assert text_of(found).endswith("from run to run, by 3.8% from half to half; also 8×H100 (BF16)")


@pytest.mark.parametrize(("apart", "are_beside"), [(0.48, True), (0.51, False)])
def test_runs_beside_each_other_have_no_order(apart, are_beside):
    def runs(step_time, **fields):
        whole = sum(make_run(step_time=step_time, **fields).step_times)
        starts = (
            START + datetime.timedelta(seconds=apart * 1.08 * whole * number) for number in range(8)
        )
        return tuple(
            make_run(
                step_time=step_time * (1 + 0.01 * number), timestamp=start.isoformat(), **fields
            )
            for number, start in enumerate(starts)
        )

    assert ("order-of-runs" not in caveats(runs(3.2), runs(2.4, **AMD))) is are_beside


def sessions(factor=1.04, pause=86_400.0, counts=(3, 3), **fields):
    """Runs one after another in two sessions, the second of which takes a factor longer, after a
    break.
    """
    starts, now, runs = START, 0.0, []
    for session, count in enumerate(counts):
        for number in range(count):
            time = 3.2 * factor**session * (1 + 0.002 * number)
            run = make_run(
                step_time=time,
                timestamp=(starts + datetime.timedelta(seconds=now)).isoformat(),
                **fields,
            )
            runs.append(run)
            now += sum(run.step_times)
        now += pause
    return tuple(runs)


@pytest.mark.parametrize(
    ("candidate", "is_told"),
    [
        (sessions(), True),
        (sessions(1.0), False),
        (sessions(1.003), False),
        (sessions(1.012), True),
        (sessions(pause=595.0), False),
        (sessions(pause=605.0), True),
        (sessions(counts=(3, 1)), False),
        (sessions(counts=(6,)), False),
        (tuple(msgspec.structs.replace(run, timestamp=None) for run in sessions()), False),
    ],
)
def test_sessions_that_differ(candidate, is_told):
    assert ("unlike-sessions" in caveats(sessions(1.0, **AMD), candidate)) is is_told


def test_the_difference_of_two_sessions():
    found = caveats(sessions(1.0, **AMD), sessions(counts=(3, 2)))["unlike-sessions"]
    assert found.severity == "warning"
    assert text_of(found).endswith(
        ": the last 2 runs, 24 h 00 min after the first 3, are 3.8% slower"
    )


def test_a_tuned_system_against_an_untuned_one():
    tuned = Tuning(trials=12, seconds=1500.0, device_name=H100)
    found = caveats(make_run(tuning=tuned), make_run(**AMD))
    assert found["tuning-differs"].severity == "warning"
    assert (
        text_of(found["tuning-differs"])
        == "8×H100 (BF16) had 12 tuning trials (25 min 00 s) and 8×MI300X (BF16) had no tuning"
    )
    assert "tuning" not in found
    assert not {"tuning", "tuning-differs"} & set(caveats(make_run(), make_run(**AMD)))


def test_settings_of_another_device_are_no_tuning():
    tuned = Tuning(trials=12, device_name=H100)
    found = caveats(make_run(tuning=tuned), make_run(**AMD, tuning=tuned))
    assert text_of(found["tuning-differs"]).endswith(
        "8×MI300X (BF16) had settings tuned on NVIDIA H100 80GB HBM3"
    )


def test_two_tuned_systems_state_their_trials():
    runs = (
        make_run(tuning=Tuning(trials=12)),
        make_run(**AMD, tuning=Tuning(trials=3, device_name=MI300X)),
    )
    assert caveats(*runs)["tuning"].severity == "info"
    assert "3 tuning trials" in text_of(caveats(*runs)["tuning"])


def test_what_a_system_alone_suffers_from_is_said_too():
    cpu = {"device": "AMD EPYC", "stack": "cpu"}
    busy = Disturbance(other_programs_cpu_share=0.88)
    assert list(caveats(make_run(**cpu, disturbance=busy))) == ["disturbed"]
    assert not caveats(make_run(**cpu))
    assert not caveats(make_run(**cpu, steps=0, warmup=(), disturbance=busy))


def test_that_the_last_steps_of_a_longer_run_are_excluded():
    runs = make_run(steps=180), make_run(**AMD, steps=60), make_run(**AMD, steps=60)
    text = text_of(caveats(*runs)["steps-cut"])
    assert text.endswith("steps 61–180 are excluded: not all runs of the comparison are as long")
    assert "steps-cut" not in caveats(make_run(), make_run(**AMD))


@pytest.mark.parametrize("is_close", [True, False])
def test_closing_programs_names_the_runs_that_it_may_save(is_close):
    cpu = {
        "device": "AMD EPYC",
        "stack": "cpu",
        "disturbance": Disturbance(other_programs_cpu_share=0.88),
    }
    times = (3.0, 3.3, 3.2)
    other = [(1.04 if is_close else 2.0) * time for time in (3.31, 3.0, 3.2)]
    runs = [
        make_run(
            **cpu,
            step_time=time,
            label=label,
            timestamp=f"2026-03-0{day}T08:00:00+00:00",
            arguments=("--steps", "9"),
        )
        for label, each in (("a", times), ("b", other))
        for day, time in enumerate(each, 1)
    ]
    (answer,) = report(comparison(*runs)).answers
    step = answer.verdict.next_steps[0]
    assert step.startswith("close other programs")
    assert ("otherwise about " in step) is is_close
    assert step.endswith("then measure again: ./benchmark.py --steps 9 --runs 5")


class TestU4:
    """A printed rate that contradicts batch, sequence length and time."""

    SLOW = 0.25, 0.35, 0.3

    def printing(self, *shares, step_time=3.2, **more):
        """A run of Llama 8B that prints so many times its tokens/s, by turns."""
        run = make_run(step_time=step_time, model_config=shape(), **more)
        rates = tuple(
            64 * 2048 / time * shares[index % len(shares)]
            for index, time in enumerate(run.step_times)
        )
        return msgspec.structs.replace(run, native_metrics={"tokens_per_second": rates})

    def test_u4_what_varies_is_the_first_caveat_and_has_no_mfu(self):
        honest, doubted = self.printing(1.0), self.printing(*self.SLOW, step_time=2.0, label="x")
        made = comparison(honest, doubted)
        (group,) = made.models[0].groups
        assert (group.caveats[0].code, group.caveats[0].severity) == ("contradiction", "warning")
        assert "padding may not be counted" in text_of(group.caveats[0])
        values = {
            system.run.label: efficiencies(made, system)[0].values["mfu"]
            for system in group.systems
        }
        assert values[None].value == pytest.approx(
            100 * 64 * 2048 / 8 / 3.2 * TOKEN / 989.4e12, rel=0.01
        )
        assert values["x"].value is None
        assert values["x"].reason.startswith("no MFU, since it reports ")

    def test_u4_one_factor_is_refused(self):
        (group,) = (
            comparison(self.printing(1.0), self.printing(0.25, step_time=2.0, label="x"))
            .models[0]
            .groups
        )
        (refused,) = [system for system in group.systems if system.exclusion]
        assert (refused.run.label, refused.exclusion.rule) == ("x", "own-rate")

    @pytest.mark.parametrize(("percent", "told"), [(74.9, False), (75.1, True)])
    def test_u4_an_mfu_above_75_percent_has_a_caveat(self, percent, told):
        seconds = 64 * 2048 / 8 * TOKEN / (percent / 100 * 989.4e12)
        # In FP16 no matrix product is known that says more.
        runs = [make_run(step_time=seconds * slow, precision="fp16", model_config=shape(), label=name, steps=200)
                for name, slow in (("x", 1.0), ("y", 2.0))]  # fmt: skip
        assert ("high-mfu" in caveats(*runs)) is told
        (group,) = comparison(runs[0]).models[0].groups
        assert ("high-mfu" in {each.code for each in group.caveats}) is told


VERSIONS = {
    "nccl": ("NCCL", "2.21.5", "2.27.3"),
    "rccl": ("RCCL", "2.21.5", "2.22.3"),
    "transformer_engine": ("Transformer Engine", "1.13", "2.4"),
    "megatron-core": ("megatron-core", "0.12.0", "0.15.3"),
    "flash-attn": ("flash-attn", "2.7.4", "2.8.3"),
    "triton": ("Triton", "3.2.0", "3.4.0"),
    "pytorch-triton-rocm": ("Triton", "3.2.0", "3.4.0"),
    "hipblaslt": ("hipBLASLt", "0.10.0", "1.0.60402"),
    "aotriton": ("AOTriton", "0.8.0", "0.10.0"),
    "driver": ("driver", "550.54", "580.95"),
}


@pytest.mark.parametrize("name", VERSIONS)
def test_u7_versions_of_libraries_that_differ_are_a_caveat(name):
    title, old, new = VERSIONS[name]

    def with_version(version, device=H100, **fields):
        return make_run(device, environment=Environment(versions={name: version}), **fields)

    found = caveats(with_version(old), with_version(new, step_time=3.0, label="x"))
    assert (found["settings-differ"].severity, text_of(found["settings-differ"])) == (
        "warning",
        f"{title}: {new} vs {old}",
    )
    assert "settings-differ" not in caveats(
        with_version(old), with_version(old, step_time=3.0, label="x")
    )
    # Between two kinds of GPU other libraries are what is compared.
    other = with_version(new, "NVIDIA B200", step_time=3.0)
    assert "settings-differ" not in caveats(with_version(old), other)


def test_values_that_differ_in_digits_that_are_not_shown_are_one_finding():
    """Both runs have an MFU of 77%."""
    later = "2026-02-03T00:00:00+00:00"
    runs = (make_run(step_time=1.0), make_run(step_time=1.0004, timestamp=later))
    (group,) = comparison(runs, make_run(**AMD)).models[0].groups
    (system,) = (each for each in group.systems if len(each.valid_runs) == 2)
    assert [finding.rule for finding in system.findings] == ["high-mfu"]


def test_systems_with_the_same_sentence_are_named_together():
    """Entropies of 1.213008 and 1.213011 nats per token are both shown as 1.213."""
    data = [Data(kind="markov", entropy=entropy) for entropy in (1.213008, 1.213011)]
    found = caveats(make_run(data=data[0]), make_run(**AMD, data=data[1]))
    assert text_of(found["synthetic-data"]).startswith("synthetic data (markov")
