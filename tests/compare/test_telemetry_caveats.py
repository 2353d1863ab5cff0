"""Two replayed systems: energy with its interval and cost, what limited or shared one of them,
first.
"""

from __future__ import annotations

import functools
import re
import statistics

import msgspec
import pytest
import screens
from made_runs import make_run
from made_telemetry import replayed
from stored_runs import text_of

from tprimat.analysis.efficiency import Options
from tprimat.compare import Loaded, compare
from tprimat.compare.cost import efficiencies
from tprimat.report.verdict import report
from tprimat.results.conditions import Preflight
from tprimat.results.telemetry import Telemetry, TelemetryIssue

SEEDS = (1, 2, 3)
AT_CAP = "clock limited by the power cap (share of readings): "


@functools.cache
def runs(kind: str, fault: str | None = None):
    return tuple(replayed(kind, fault, seed=seed) for seed in SEEDS)


def compared(*systems, **options):
    files = [Loaded(f"{number}.json", str(number), system) for number, system in enumerate(systems)]
    return compare(files, options=Options(**options))


def caveats(comparison):
    return {caveat.code: text_of(caveat) for caveat in comparison.models[0].groups[0].caveats}


def values(comparison, name):
    model = comparison.models[0]
    return {
        system.gpu: efficiencies(comparison, system)[0].values.get(name) for system in model.systems
    }


class TestEnergy:
    def test_tokens_per_joule_have_the_interval_between_runs(self):
        energy = runs("h100")
        found = values(compared(energy, runs("mi300x")), "tokens_per_joule")[
            "NVIDIA H100 80GB HBM3"
        ]
        measured = [
            run.energy_metrics["measured_tokens"] / run.energy_metrics["energy_joules"]
            for run in energy
        ]
        assert found.value == pytest.approx(statistics.geometric_mean(measured))
        assert found.low < min(measured) < max(measured) < found.high

    def test_the_cost_at_a_price_and_a_pue(self):
        comparison = compared(runs("h100"), runs("mi300x"), electricity=0.12, pue=1.3)
        joules = values(comparison, "joules_per_token")
        for gpu, cost in values(comparison, "electricity_dollars_per_billion_tokens").items():
            assert cost.value == pytest.approx(joules[gpu].value * 1e9 / 3.6e6 * 0.12 * 1.3)
            assert cost.low < cost.value < cost.high
            assert cost.reason == "$0.12 per kWh, PUE 1.3"

    def test_no_price_no_cost(self):
        found = values(
            compared(runs("h100"), runs("mi300x")), "electricity_dollars_per_billion_tokens"
        )
        assert set(found.values()) == {None}

    def test_energy_that_is_not_valid_does_not_count(self):
        bad = tuple(
            msgspec.structs.replace(
                run,
                telemetry=msgspec.structs.replace(
                    run.telemetry, energy_code="counter-stuck", energy_reason="it stands"
                ),
            )
            for run in runs("h100")
        )
        found = values(compared(bad, runs("mi300x")), "joules_per_token")["NVIDIA H100 80GB HBM3"]
        assert (found.value, found.reason) == (None, "energy: it stands")

    def test_one_run_has_no_interval(self):
        found = values(compared(runs("h100")[:1], runs("mi300x")), "tokens_per_joule")[
            "NVIDIA H100 80GB HBM3"
        ]
        assert found.value is not None
        assert (found.low, found.high) == (None, None)


class TestCaveats:
    def test_throttling_comes_first_and_explains_the_change_of_speed(self):
        found = caveats(compared(runs("h100", "thermal"), runs("mi300x")))
        assert next(iter(found)) == "throttled"
        assert found["throttled"].startswith("2×H100 (BF16): steps ")
        assert "thermal throttling: 91 °C" in found["throttled"]
        assert found["throttled"].endswith("(in 3 of 3 runs)")
        assert "thermal throttling" in found["speed-changed"]

    def test_clean_systems_have_none_of_them(self):
        assert not {"throttled", "shared", "device-errors", "slow-device"} & set(
            caveats(compared(runs("h100"), runs("mi300x")))
        )

    @pytest.mark.parametrize(
        ("code", "caveat"),
        [("gpu-shared", "shared"), ("xid", "device-errors"), ("power-cap", "throttled")],
    )
    def test_each_kind_of_event(self, code, caveat):
        issue = TelemetryIssue(code=code, text="it happened", first_step=3, last_step=9)
        found = caveats(
            compared(
                (make_run(telemetry=Telemetry(issues=(issue,))),),
                (make_run("AMD Instinct MI300X", stack="rocm"),),
            )
        )
        assert found[caveat] == "8×H100 (BF16): steps 3–9: it happened"

    def test_information_is_none(self):
        issue = TelemetryIssue(code="memory-pressure", text="a little", severity="info")
        run = make_run(telemetry=Telemetry(issues=(issue,)))
        assert "shared" not in caveats(
            compared((run,), (make_run("AMD Instinct MI300X", stack="rocm"),))
        )

    @pytest.mark.parametrize(
        ("shares", "said"),
        [
            ([0.499], None),
            ([0.5], f"{AT_CAP}8×H100 (BF16) 50%"),
            ([1.0, 0.5], f"{AT_CAP}8×H100 (BF16) 75%"),
            # Without readings nothing is known of the second run.
            ([1.0, None], f"{AT_CAP}8×H100 (BF16) 100%"),
            ([None], None),
        ],
    )
    def test_a_factory_cap_that_is_reached_is_stated_once_per_system(self, shares, said):
        made = tuple(
            make_run(
                step_time=3.2 + number / 100,
                telemetry=Telemetry()
                if share is None
                else Telemetry(samples=9, throttle_shares={"power-cap": share}),
            )
            for number, share in enumerate(shares)
        )
        other = make_run("AMD Instinct MI300X", stack="rocm", telemetry=Telemetry(samples=9))
        assert caveats(compared(made, (other,))).get("at-power-cap") == said
        assert caveats(compared(made)).get("at-power-cap") == said

    @pytest.mark.parametrize(("readings", "share"), [(5, "50%"), (6, None)])
    def test_each_reading_at_the_cap_counts_once(self, readings, share):
        made = tuple(
            make_run(
                step_time=step_time,
                telemetry=Telemetry(samples=count, throttle_shares={"power-cap": at_cap}),
            )
            for step_time, count, at_cap in ((3.2, 3, 1.0), (3.3, readings, 0.2))
        )
        text = (
            share and f"clock limited by the power cap (share of readings): 8×H100 (BF16) {share}"
        )
        assert caveats(compared(made)).get("at-power-cap") == text

    def test_of_two_systems_both_are_stated_and_a_lowered_cap_is_not_said_twice(self):
        telemetry = Telemetry(samples=9, throttle_shares={"power-cap": 1.0, "thermal": 0.1})
        runs = (
            make_run(telemetry=telemetry),
            make_run("AMD Instinct MI300X", stack="rocm", telemetry=telemetry),
        )
        both = f"{AT_CAP}8×H100 (BF16) 100%; 8×MI300X (BF16) 100%"
        assert caveats(compared(runs[:1], runs[1:]))["at-power-cap"] == both
        issue = TelemetryIssue(
            code="power-cap", text="power cap (500 W of 700 W)", first_step=1, last_step=60
        )
        lowered = make_run(telemetry=msgspec.structs.replace(telemetry, issues=(issue,)))
        found = caveats(compared((lowered,)))
        assert found["throttled"].endswith("power cap (500 W of 700 W)")
        assert "at-power-cap" not in found

    def test_a_slow_gpu_of_the_preflight(self):
        run = make_run(
            preflight=Preflight(timestamp="2026-11-24T22:00:00+01:00", slow_devices=("GPU 3",))
        )
        found = caveats(compared((run,), (make_run("AMD Instinct MI300X", stack="rocm"),)))
        assert (
            found["slow-device"]
            == "slower than the other GPUs in the preflight: GPU 3 of 8×H100 (BF16)"
        )


class TestPlausibility:
    def test_a_cap_for_a_while_is_no_contradiction(self):
        # The lowest cap is recorded, 500 W; the mean power of all steps is above it, and honest.
        capped = tuple(
            replayed("h100", "power cap for a while", seed=seed, watts=690.0, to_s=120.0)
            for seed in SEEDS
        )
        assert all(run.energy_metrics["power_cap_watts"] == 500.0 for run in capped)
        assert all(run.energy_metrics["mean_power_watts_per_gpu"] > 1.05 * 500.0 for run in capped)
        comparison = compared(capped, runs("mi300x"))
        assert [system.exclusion for system in comparison.models[0].systems] == [None, None]

    def test_power_above_a_cap_that_held_throughout_is_one(self):
        metrics = {
            "mean_power_watts_per_gpu": 600.0,
            "measured_seconds": 100.0,
            "power_cap_watts": 500.0,
        }
        system = compared((make_run(energy_metrics=metrics),)).models[0].systems[0]
        assert system.exclusion is not None


class TestPreflightShare:
    def test_mfu_of_what_the_card_sustains(self):
        sustained = {"bf16": 700.0, "fp32": 50.0}
        run = make_run(
            preflight=Preflight(matmul_tflops=sustained), model_config=runs("h100")[0].model_config
        )
        comparison = compared((run,))
        (mfu,) = values(comparison, "mfu").values()
        (share,) = values(comparison, "share_of_preflight").values()
        assert share.value == pytest.approx(mfu.value * 989.4 / 700, rel=1e-3)
        assert share.reason == "700 TFLOP/s sustained in the preflight"

    def test_not_without_one_or_in_another_precision(self):
        run = make_run(
            preflight=Preflight(matmul_tflops={"fp32": 50.0}),
            model_config=runs("h100")[0].model_config,
        )
        assert values(compared((run,)), "share_of_preflight") == {"NVIDIA H100 80GB HBM3": None}


def test_the_screen():
    comparison = compared(runs("h100", "thermal"), runs("mi300x"), electricity=0.12, pue=1.3)
    text = screens.shown(report(comparison))
    assert len(text.splitlines()) <= 22  # an empty line and the report's follow
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"^tokens/J +[0-9.]+ ± 0\.\d% ", text, re.MULTILINE)
    assert "energy USD/10⁹" in text
