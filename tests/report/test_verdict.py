from __future__ import annotations

import msgspec
import pytest
from made_runs import MI300X, comparison, failed_run, make_run

from tprimat.compare.cost import with_prices
from tprimat.report import Sources, document, markdown, page, terminal
from tprimat.report.rates import rate, rate_unit
from tprimat.report.verdict import cost_texts, report
from tprimat.results.account import Timing
from tprimat.store import store

AMD = {"device": MI300X, "stack": "rocm"}


def answer(*runs, **options):
    (found,) = report(comparison(*runs, **options)).answers
    return found.verdict


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (5055.05, "5,055"), (213.44, "213.4"), (21.344, "21.34"), (2.1344, "2.134")]
)
def test_rates_have_three_digits_or_more(value, text):
    assert rate(value) == text


class TestUnit:
    def test_of_gpus(self):
        assert rate_unit(comparison(make_run()).models[0].systems) == "tokens/s/GPU"

    def test_of_one_processor(self):
        assert rate_unit(comparison(make_run(None, stack="cpu", gpus=1)).models[0].systems) == "tokens/s"

    def test_of_several_processes(self):
        assert rate_unit(comparison(make_run(None, stack="cpu", gpus=4)).models[0].systems) == "tokens/s/process"

    def test_of_both(self):
        systems = comparison(make_run(None, stack="cpu", gpus=1), make_run()).models[0].systems
        assert rate_unit(systems) == "tokens/s/device"


def repeated(step_time, factors=(1.0, 1.0005, 0.9995), **fields):
    """One run for each factor, a day apart."""
    return tuple(
        make_run(step_time=step_time * factor, timestamp=f"2026-02-{day:02d}T00:00:00+00:00", **fields)
        for day, factor in enumerate(factors, 1)
    )


H100_NAME, MI300X_NAME = "8×H100 80GB HBM3 (BF16)", "8×MI300X (BF16)"


class TestHeadline:
    @pytest.mark.parametrize("turned", [False, True])
    def test_the_faster_one_is_the_subject(self, turned):
        runs = make_run(), make_run(**AMD, step_time=6.4)
        found = answer(*(runs[::-1] if turned else runs))
        assert found.headline == f"{H100_NAME} is 2.0× as fast per GPU as {MI300X_NAME}"
        assert found.certainty == "2.00×, 1 run each: run-to-run variation unknown"
        assert found.standing == "unknown"

    def test_below_two_it_is_a_percentage(self):
        assert answer(make_run(), make_run(**AMD, step_time=2.8)).headline == (
            f"{MI300X_NAME} is 14% faster per GPU than {H100_NAME}"
        )

    def test_several_runs_have_an_interval(self):
        found = answer(repeated(3.2), repeated(2.8, **AMD))
        assert found.headline == f"{MI300X_NAME} is 14% faster per GPU than {H100_NAME}"
        assert found.certainty == "1.143× [95% CI 1.142–1.144], 3 runs each"
        assert found.standing == "significant"

    def test_two_runs_are_preliminary(self):
        factors = (1.0, 1.0005)
        found = answer(repeated(3.2, factors), repeated(2.4, factors, **AMD))
        assert found.headline == f"Preliminary: {MI300X_NAME} is 33% faster per GPU than {H100_NAME}"
        assert found.certainty.endswith(", 2 runs each")
        assert found.standing == "preliminary"

    def test_an_interval_that_includes_one_is_no_significant_difference(self):
        found = answer(repeated(3.2, (0.9, 1.1)), repeated(3.1, (0.9, 1.1), **AMD))
        assert found.headline == (f"No significant difference between {MI300X_NAME} and {H100_NAME}")
        assert found.standing == "none"

    def test_one_run_against_three(self):
        found = answer(repeated(3.2), make_run(**AMD, step_time=2.4))
        assert "95% prediction interval" in found.certainty
        assert found.certainty.endswith(", 1 and 3 runs; assumes equal run-to-run variation")

    def test_a_single_run_that_changed_its_speed(self):
        run = make_run(**AMD, steps=300, warmup=(20.0, *[2.6] * 99), step_time=2.0)
        found = answer(make_run(steps=300), run)
        assert (
            found.headline
            == f"{MI300X_NAME} is 23–60% faster per GPU than {H100_NAME}; {MI300X_NAME} sped up at step 101"
        )

    def test_a_change_in_one_of_several_runs_leaves_the_headline_alone(self):
        changed = make_run(**AMD, steps=60, warmup=(20.0, *[2.6] * 29), step_time=2.0)
        found = answer(repeated(3.2), (changed, *repeated(2.2, **AMD)))
        assert "step" not in found.headline

    def test_equal_systems(self):
        assert " is as fast as " in answer(make_run(), make_run(**AMD)).headline

    def test_what_is_not_compared_says_why(self):
        found = answer(make_run(), failed_run())
        assert found.headline == f"Not compared: {MI300X_NAME} has no step times: its run failed (out of memory)"
        assert (found.certainty, found.standing) == ("", "excluded")

    def test_of_three_the_fastest_and_the_second_fastest(self):
        found = answer(make_run(), make_run(**AMD, step_time=1.6), make_run("NVIDIA H200", step_time=2.0))
        assert found.headline == f"{MI300X_NAME} is 25% faster per GPU than 8×H200 (BF16), the second fastest of 3"

    def test_one_system(self):
        found = answer(make_run())
        assert found.headline.startswith("Only one system found (8×H100 80GB HBM3 (BF16), 5,120 tokens/s/GPU)")
        assert found.standing == "single"

    def test_two_systems_that_trained_different_models(self):
        first, second = report(comparison(make_run(), make_run(**AMD, model="qwen"))).answers
        for found in (first, second):
            assert found.verdict.headline.startswith("Only one system trained this model (8×")
        # Of one machine's models, a result of another machine is what is missing.
        alone = report(comparison(make_run(), make_run(model="qwen", batch=128))).answers
        assert all(found.verdict.headline.endswith("add a second result to compare") for found in alone)

    def test_equal_reasons_are_one_sentence(self):
        found = answer(make_run(), make_run(label="a", length=4096), make_run(label="b", length=4096), reference="H100")
        assert found.headline.startswith("Not compared: a and b with 8×H100 80GB HBM3: workload mismatch")

    def test_on_a_cpu_it_is_not_per_gpu(self):
        cpu = {"device": None, "stack": "cpu", "gpus": 1, "warmup": (200.0,)}
        found = answer(make_run(**cpu, step_time=64.0), make_run(**cpu, precision="fp32", step_time=32.0))
        assert found.headline == "fp32 is 2.0× as fast as bf16"


@pytest.mark.parametrize(("spread", "told", "compared"), [(1.24, 0, 1), (1.26, 1, 1), (1.99, 1, 1), (2.01, 0, 0)])
def test_runs_that_differ_much_are_not_of_one_system(spread, told, compared):
    def run(step_time, day, **fields):
        return make_run(step_time=step_time, timestamp=f"2026-02-0{day}T21:44:16+00:00", **fields)

    several = (run(3.2, 1), run(3.2 * spread, 2))
    found = answer(several, (run(2.0, 3, **AMD), run(2.01, 4, **AMD)))
    assert sum(caveat.code == "unlike-runs" for caveat in found.caveats) == told
    assert found.headline.startswith("Not compared: ") != compared
    alone = answer(several)
    assert ("but its runs differ" in alone.headline) == (spread > 1.25)


def test_february_is_a_range_and_never_another_number(samples):
    runs = [
        store.read(samples / "results" / f"train_{name}_llama-516b342.json")[0] for name in ("nvd_nemo", "amd_prim")
    ]
    found = answer(*runs)
    assert found.headline == "8×MI300X is 28–36% faster per GPU than 8×H100 80GB HBM3; 8×MI300X sped up at step 161"
    assert "1.41" not in " ".join([found.headline, found.certainty, *(caveat.text for caveat in found.caveats)])
    assert any(caveat.text.startswith("training runs differ") for caveat in found.caveats)


def test_next_steps_ask_for_runs_first():
    assert answer(make_run(), make_run(**AMD)).next_steps[0] == (
        "measure each system in 5 runs: ./benchmark.py --runs 5"
    )


class TestShortened:
    def test_the_fastest_and_the_baseline_stay(self):
        found = report(comparison(*(make_run(label=f"s{index:02}", step_time=1 + index / 10) for index in range(9))))
        (answer,) = found.shortened(3).answers
        assert [system.name for system in answer.group.systems] == ["s00", "s01", "s02", "s08"]
        assert [pair.system.name for pair in answer.group.pairs] == ["s00", "s01", "s02"]
        assert {len(row.values) for row in answer.group.settings} == {4}
        assert answer.verdict == found.answers[0].verdict
        assert found.shortened(3).comparison.notes[-1] == "5 more systems are not listed here: --json has all"
        assert len(found.shortened(3).comparison.files) == 4

    def test_few_systems_are_all_there(self):
        found = report(comparison(make_run(), make_run(MI300X, stack="rocm")))
        assert found.shortened(3) is found


class TestCost:
    def texts(self, *runs, prices):
        found = report(with_prices(comparison(*runs), prices))
        return cost_texts(found.comparison, found.answers)

    def test_the_cheapest_of_three_is_named_with_its_price_and_beside_the_fastest(self):
        runs = make_run(), make_run(**AMD, step_time=1.2), make_run("NVIDIA H200", step_time=1.5)
        (text,) = self.texts(*runs, prices=["H100=1", "MI300X=4", "H200=4"])
        assert text.startswith(f"{H100_NAME} at $1.00 per GPU-hour costs least per token, ")
        assert text.endswith(f"% less than {MI300X_NAME} at $4.00")

    def test_one_sentence_where_it_is_the_same_in_several_models(self):
        runs = [
            make_run(**each, model=model) for model in ("llama", "qwen") for each in ({}, {**AMD, "step_time": 1.6})
        ]
        (text,) = self.texts(*runs, prices=["H100=3", "MI300X=2"])
        assert text.startswith(f"{MI300X_NAME} at $2.00 is ")
        assert text.endswith(f"% cheaper per token than {H100_NAME} at $3.00 in both models")


def test_systems_that_share_no_clock_are_said_to_be_timed_differently():
    stamps = Timing(kind="stamps")
    found = answer(make_run(timing=stamps), make_run(step_time=4.0, **AMD))
    assert found.headline.endswith("but they are timed differently: time stamps of records vs a step timer")
    same = answer(make_run(timing=stamps), make_run(step_time=4.0, timing=stamps, **AMD))
    assert "timed" not in same.headline


def runs_with(slow, steps, step_time, **fields):
    """Three runs, the first steps of which take 1.5 times as long."""
    return tuple(
        make_run(
            step_time=step_time * (1 + day / 1000),
            warmup=tuple(step_time * 1.5 for _ in range(slow)),
            steps=steps,
            timestamp=f"2026-02-0{day}T21:44:16+00:00",
            **fields,
        )
        for day in (1, 2, 3)
    )


def test_runs_that_never_settle_are_too_short_to_compare():
    found = answer(runs_with(3, 30, 3.2), runs_with(16, 30, 3.2, **AMD))
    assert found.headline.startswith("Too short to compare 8×")
    assert found.headline.endswith(": no steady speed in 8×MI300X (BF16)")
    assert found.standing == "unsettled"
    assert "[" not in found.certainty


@pytest.mark.parametrize(
    ("slow", "headline"),
    [
        ((16, 16), f"Too short to compare {MI300X_NAME} and {H100_NAME} in any of 2 models"),
        ((3, 16), f"{MI300X_NAME} is 2.1× as fast per GPU as {H100_NAME} in 1 of 2 models; too short to compare in 1"),
    ],
)
def test_the_headline_of_several_models_says_which_are_too_short(slow, headline):
    runs = [
        run
        for model, count in zip(("llama", "qwen"), slow, strict=True)
        for step_time, fields in ((3.2, {}), (1.5, AMD))
        for run in runs_with(count, 30, step_time, model=model, **fields)
    ]
    found = report(comparison(*runs))
    assert found.headline == headline
    costs = cost_texts(with_prices(comparison(*runs), ["H100=3", "MI300X=2"]), found.answers)
    assert len(costs) == slow.count(3)


@pytest.mark.parametrize(("steps", "assumed"), [(29, True), (30, False)])
def test_below_thirty_steps_the_headline_of_several_models_has_its_assumption(steps, assumed):
    runs = [
        run
        for model in ("llama", "qwen")
        for step_time, fields in ((3.2, {}), (1.5, AMD))
        for run in runs_with(3, steps, step_time, model=model, **fields)
    ]
    assert report(comparison(*runs)).headline.endswith("if the start-up was over by step 14") == assumed


@pytest.mark.parametrize(("steps", "assumed"), [(29, True), (30, False)])
def test_below_thirty_steps_the_headline_has_its_assumption(steps, assumed):
    found = answer(runs_with(3, steps, 3.2), runs_with(3, steps, 1.7, **AMD))
    assert found.headline.endswith("if the start-up was over by step 14") == assumed


def test_all_systems_are_averaged_over_the_same_steps():
    # Identical but for the slow start: the pause at step 50 counts in both or in neither.
    def paused(run):
        return msgspec.structs.replace(run, step_times=(*run.step_times[:49], 30.0, *run.step_times[50:]))

    one, other = (tuple(map(paused, runs_with(slow, 200, 3.2, **fields))) for slow, fields in ((3, {}), (55, AMD)))
    (pair,) = comparison(one, other).models[0].pairs
    assert pair.ratio.value == pytest.approx(1, abs=0.0005)
    assert {result.summary.skipped for result in (*pair.system.runs, *pair.baseline.runs)} == {55}


@pytest.mark.parametrize("form", [terminal, markdown, page], ids=lambda form: form.__name__)
def test_where_samples_are_compared_nothing_speaks_of_tokens(form):
    mlperf = {"framework": "mlperf", "warmup": (20.0,)}
    runs = make_run(**mlperf, length=None), make_run(**AMD, **mlperf, length=8192, step_time=4.0)
    shown = report(with_prices(comparison(*runs), ["H100=2.50", "MI300X=2.00"]))
    if form is terminal:
        text = terminal.write(document.on_screen(shown), width=100)
        # Both had a price, so both have a cost: 10⁶ samples at 64 / 8 in 3.2 s and in 4 s.
        (row,) = [line.split() for line in text.splitlines() if line.startswith("USD/10⁶ samples")]
        assert [float(value) for value in row[-2:]] == pytest.approx([278, 278], abs=1)
    else:
        text = form.render(shown, Sources("0", ""), None).decode()
    for words in ("cheaper per token", "cost per token", "USD/10⁹ tokens", "USD per 10⁹ tokens"):
        assert words not in text


class TestContradictions:
    """The headline states a contradiction, and it is the first caveat."""

    WARNING = "global_batch_size 128 was stated, but the training shows 8: they can't both be true"

    def test_of_one_of_two_systems(self):
        found = answer(make_run(), make_run(**AMD, step_time=1.6, warnings=(self.WARNING,)))
        assert found.headline.endswith("; but values of 8×MI300X (BF16) contradict each other")
        assert (found.caveats[0].code, found.caveats[0].severity) == ("contradiction", "warning")
        assert self.WARNING in found.caveats[0].text

    def test_of_both(self):
        runs = make_run(warnings=(self.WARNING,)), make_run(**AMD, step_time=1.6, warnings=(self.WARNING,))
        told = "; but values of 8×MI300X (BF16) and 8×H100 80GB HBM3 (BF16) contradict each other"
        assert answer(*runs).headline.endswith(told)

    def test_of_a_single_system(self):
        assert answer(make_run(warnings=(self.WARNING,))).headline.endswith(f"; but {self.WARNING}")

    def test_of_several_models(self):
        pairs = [
            run
            for model in ("llama", "qwen")
            for run in (make_run(model=model), make_run(**AMD, model=model, step_time=1.6, warnings=(self.WARNING,)))
        ]
        assert "contradict each other" in (report(comparison(*pairs)).headline or "")

    def test_none_without_one(self):
        found = answer(make_run(warnings=("padding unknown",)), make_run(**AMD, step_time=1.6))
        assert "contradict" not in found.headline
        assert all(caveat.code != "contradiction" for caveat in found.caveats)
