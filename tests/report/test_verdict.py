from __future__ import annotations

import re

import msgspec
import pytest
from made_runs import H100, MI300X, comparison, failed_run, make_run
from stored_runs import note, notes_of, text_of

from tprimat.analysis.summary import summarize
from tprimat.compare.cost import with_prices
from tprimat.compare.result import RunResult
from tprimat.report import Sources, document, json_values, markdown, page, recommendations, terminal
from tprimat.report.rates import rate, rate_unit
from tprimat.report.verdict import cost_texts, report
from tprimat.results.account import Timing
from tprimat.results.run import Environment, Source, TrainingConfig
from tprimat.store import store

AMD = {"device": MI300X, "stack": "rocm"}


def answer(*runs, **options):
    (found,) = report(comparison(*runs, **options)).answers
    return found.verdict


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (5055.05, "5,055"), (213.44, "213.4"), (21.344, "21.34"), (2.1344, "2.134")],
)
def test_rates_have_three_digits_or_more(value, text):
    assert rate(value) == text


class TestUnit:
    def test_of_gpus(self):
        assert rate_unit(comparison(make_run()).models[0].systems) == "tokens/s/GPU"

    def test_of_one_processor(self):
        assert (
            rate_unit(comparison(make_run(None, stack="cpu", gpus=1)).models[0].systems)
            == "tokens/s"
        )

    def test_of_several_processes(self):
        assert (
            rate_unit(comparison(make_run(None, stack="cpu", gpus=4)).models[0].systems)
            == "tokens/s/process"
        )

    def test_of_both(self):
        systems = comparison(make_run(None, stack="cpu", gpus=1), make_run()).models[0].systems
        assert rate_unit(systems) == "tokens/s/device"


def repeated(step_time, factors=(1.0, 1.0005, 0.9995), **fields):
    """One run for each factor, a day apart."""
    return tuple(
        make_run(
            step_time=step_time * factor, timestamp=f"2026-02-{day:02d}T00:00:00+00:00", **fields
        )
        for day, factor in enumerate(factors, 1)
    )


H100_NAME, H200_NAME, MI300X_NAME = "8×H100 (BF16)", "8×H200 (BF16)", "8×MI300X (BF16)"


class TestHeadline:
    @pytest.mark.parametrize("turned", [False, True])
    def test_the_faster_one_is_the_subject(self, turned):
        runs = make_run(), make_run(**AMD, step_time=6.4)
        found = answer(*(runs[::-1] if turned else runs))
        assert found.headline == f"{H100_NAME} is 2.0× as fast per GPU as {MI300X_NAME}"
        assert found.certainty == "2.00×, 1 run each: run-to-run variation unknown"
        assert found.standing == "unknown"

    def test_below_two_it_is_a_percentage(self):
        assert (
            answer(make_run(), make_run(**AMD, step_time=2.8)).headline
            == f"{MI300X_NAME} is 14% faster per GPU than {H100_NAME}"
        )

    def test_several_runs_have_an_interval(self):
        found = answer(repeated(3.2), repeated(2.8, **AMD))
        assert found.headline == f"{MI300X_NAME} is 14% faster per GPU than {H100_NAME}"
        assert found.certainty == "1.143× [95% CI 1.142–1.144], 3 runs each"
        assert found.standing == "significant"

    def test_two_runs_are_preliminary(self):
        factors = (1.0, 1.0005)
        found = answer(repeated(3.2, factors), repeated(2.4, factors, **AMD))
        assert (
            found.headline == f"Preliminary: {MI300X_NAME} is 33% faster per GPU than {H100_NAME}"
        )
        assert found.certainty.endswith(", 2 runs each")
        assert found.standing == "preliminary"

    def test_an_interval_that_includes_one_is_no_significant_difference(self):
        found = answer(repeated(3.2, (0.92, 1.08)), repeated(3.1, (0.92, 1.08), **AMD))
        assert found.headline == f"No significant difference between {MI300X_NAME} and {H100_NAME}"
        assert found.standing == "none"

    def test_one_run_against_three(self):
        found = answer(repeated(3.2), make_run(**AMD, step_time=2.4))
        assert "95% prediction interval" in found.certainty
        assert found.certainty.endswith(", 1 vs 3 runs")

    def test_a_single_run_that_changed_its_speed(self):
        run = make_run(**AMD, steps=300, warmup=(20.0, *[2.6] * 99), step_time=2.0)
        found = answer(make_run(steps=300), run)
        assert (
            found.headline
            == f"{MI300X_NAME} is 23–60% faster per GPU than {H100_NAME}; {MI300X_NAME} sped up at"
            " step 101"
        )

    def test_a_change_in_one_of_several_runs_leaves_the_headline_alone(self):
        changed = make_run(**AMD, steps=60, warmup=(20.0, *[2.6] * 29), step_time=2.0)
        found = answer(repeated(3.2), (changed, *repeated(2.2, **AMD)))
        assert "step" not in found.headline

    def test_equal_systems(self):
        assert " is as fast as " in answer(make_run(), make_run(**AMD)).headline

    def test_what_is_not_compared_says_why(self):
        found = answer(make_run(), failed_run())
        assert (
            found.headline
            == f"Not compared: {MI300X_NAME} has no step times: its run failed (out of memory)"
        )
        assert (found.certainty, found.standing) == ("", "excluded")

    @pytest.mark.parametrize(
        ("devices", "headline"),
        [
            (("NVIDIA B200", "NVIDIA H200", H100), "8×B200 (BF16) is 25% faster per GPU than 8×H200 (BF16), the second "
             "fastest of 3"),
            ((MI300X, "NVIDIA H200", H100), f"{MI300X_NAME} is 25% faster per GPU than 8×H200 (BF16), the fastest of "
             "NVIDIA"),
            (("NVIDIA H200", H100, MI300X), f"8×H200 (BF16) is the fastest: 2.0× as fast per GPU as {MI300X_NAME}, the "
             f"fastest of AMD; 25% faster than {H100_NAME}"),
        ],
    )  # fmt: skip
    def test_of_three_the_fastest_of_another_vendor_is_named(self, devices, headline):
        runs = [
            make_run(device, step_time=time)
            for device, time in zip(devices, (1.6, 2.0, 3.2), strict=True)
        ]
        assert answer(*runs).headline == headline

    @pytest.mark.parametrize(
        ("reference", "headline", "certainty"),
        [
            (
                "H100",
                "8×H200 (BF16) is 2.0× as fast per GPU as 8×H100 (BF16), the baseline",
                "2.00×",
            ),
            (
                "H200",
                "8×MI300X (BF16) is 20% slower per GPU than 8×H200 (BF16), the fastest of 3",
                "0.80×",
            ),
            (
                "MI300X",
                "8×H200 (BF16) is 25% faster per GPU than 8×MI300X (BF16), the fastest of AMD",
                "1.25×",
            ),
        ],
    )
    def test_the_headline_has_the_ratio_to_the_reference(self, reference, headline, certainty):
        runs = [make_run(), make_run(**AMD, step_time=2.0), make_run("NVIDIA H200", step_time=1.6)]
        found = report(comparison(*runs, reference=reference)).answers[0]
        leaders = found.group.leaders
        if found.group.runner_up:
            headline = (
                headline.replace(" is ", " is the fastest: ", 1)
                + "; 25% faster than 8×MI300X (BF16)"
            )
        assert found.verdict.headline == headline
        assert found.verdict.certainty == f"{certainty}, 1 run each: run-to-run variation unknown"
        assert f"{leaders.ratio.value:.2f}×" == certainty

    def test_a_fastest_one_that_is_not_clearly_faster_is_not_called_that(self):
        one, other = (
            repeated(time, (1.0, 1.02, 0.98), label=label)
            for time, label in ((1.6, "a"), (1.61, "b"))
        )
        found = answer(one, other, repeated(6.0, **AMD))
        assert (
            found.headline
            == "8×H100, a (BF16) is 3.8× as fast per GPU as 8×MI300X (BF16), the fastest of AMD; "
            "no significant difference from 8×H100, b (BF16)"
        )

    def test_a_run_that_is_too_short_is_named_and_takes_no_answer(self):
        slow = runs_with(16, 30, 1.0, device="NVIDIA H200")
        found = answer(make_run(), make_run(**AMD, step_time=1.6), slow)
        assert found.standing == "unknown"
        assert found.excluded == ("Too short to compare 8×H200 (BF16): no steady speed",)

    def test_one_system(self):
        found = answer(make_run())
        assert found.headline.startswith(
            "Only one system found (8×H100 (BF16), 5,120 tokens/s/GPU)"
        )
        assert found.standing == "single"

    def test_two_systems_that_trained_different_models(self):
        first, second = report(comparison(make_run(), make_run(**AMD, model="qwen"))).answers
        for found in (first, second):
            assert found.verdict.headline.startswith("Only one system trained this model (8×")
        # Of one machine's models, a result of another machine is what is missing.
        alone = report(comparison(make_run(), make_run(model="qwen", batch=128))).answers
        assert all(
            found.verdict.headline.endswith("add a second result to compare") for found in alone
        )

    def test_equal_reasons_are_one_sentence(self):
        found = answer(
            make_run(),
            make_run(label="a", length=4096),
            make_run(label="b", length=4096),
            reference="H100",
        )
        assert found.headline.startswith("Not compared: a and b with 8×H100: workload mismatch")

    def test_on_a_cpu_it_is_not_per_gpu(self):
        cpu = {"device": None, "stack": "cpu", "gpus": 1, "warmup": (200.0,)}
        found = answer(
            make_run(**cpu, step_time=64.0), make_run(**cpu, precision="fp32", step_time=32.0)
        )
        assert found.headline == "fp32 is 2.0× as fast as bf16"


@pytest.mark.parametrize(
    ("spread", "told", "compared"), [(1.24, 0, 1), (1.26, 1, 1), (1.99, 1, 1), (2.01, 0, 0)]
)
def test_runs_that_differ_much_are_not_of_one_system(spread, told, compared):
    def run(step_time, day, **fields):
        return make_run(step_time=step_time, timestamp=f"2026-02-0{day}T21:44:16+00:00", **fields)

    # One label keeps them together; without it they would be two systems.
    several = (run(3.2, 1, label="x"), run(3.2 * spread, 2, label="x"))
    found = answer(several, (run(2.0, 3, **AMD), run(2.01, 4, **AMD)))
    assert sum(caveat.code == "unlike-runs" for caveat in found.caveats) == told
    assert found.headline.startswith("Not compared: ") != compared
    alone = answer(several)
    assert ("but its runs differ" in alone.headline) == (spread > 1.25)


def test_february_is_a_range_and_never_another_number(samples):
    runs = [
        store.read(samples / "results" / f"train_{name}_llama-516b342.json")[0]
        for name in ("nvd_nemo", "amd_prim")
    ]
    found = answer(*runs)
    assert (
        found.headline
        == "8×MI300X is 28–36% faster per GPU than 8×H100; 8×MI300X sped up at step 161"
    )
    assert "1.41" not in " ".join(
        [found.headline, found.certainty, *(text_of(caveat) for caveat in found.caveats)]
    )
    assert any(
        text_of(caveat).startswith("model quality is not compared: ") for caveat in found.caveats
    )


@pytest.mark.parametrize(("unrated", "comes_first"), [(2, False), (3, True)])
def test_next_steps_ask_first_for_what_most_systems_leave_open(unrated, comes_first):
    devices = ["NVIDIA H200", "NVIDIA B200", "NVIDIA A100-SXM4-80GB"][:unrated]
    open_ones = [make_run(device, batch=None) for device in devices]
    steps = answer(make_run(), make_run(**AMD), *open_ones).next_steps
    assert steps[0].startswith("fill in missing values: --global-batch-size N") is comes_first


def test_next_steps_ask_for_runs_first():
    assert (
        answer(make_run(), make_run(**AMD)).next_steps[0]
        == "measure 5 runs of each system: ./benchmark.py --match RESULT --runs 5"
    )


ARGUMENTS = (
    "--model",
    "llama",
    "--micro-batch-size",
    "4",
    "--runs=2",
    "--output-dir",
    "my results",
    "--resume",
)


@pytest.mark.parametrize(
    ("first", "second", "step"),
    [
        (  # One command measured both.
            {"arguments": ARGUMENTS},
            {"arguments": ARGUMENTS},
            ": ./benchmark.py --model llama --micro-batch-size 4 --output-dir results --runs 5",
        ),
        ({"arguments": ()}, {"arguments": ("--bundle", "b.zip")}, ": ./benchmark.py --runs 5"),
        (
            {"arguments": ()},
            {"arguments": ("--steps", "9", "--json")},
            ": ./benchmark.py --runs 5; ./benchmark.py --steps 9 --runs 5",
        ),
        (  # On two machines.
            {"arguments": (), "environment": Environment(hostname="a")},
            {"arguments": ("--steps", "9"), "environment": Environment(hostname="b")},
            ": ./benchmark.py --match RESULT --runs 5 (for each)",
        ),
        (
            {"source": Source(kind="log")},
            {"source": Source(kind="log")},
            " (run the training 5 times)",
        ),
        (
            {"source": Source(kind="live")},
            {"source": Source(kind="live")},
            " (run your script 5 times)",
        ),
        (
            {"source": Source(kind="live")},
            {"arguments": ()},
            " (run your script 5 times): ./benchmark.py --runs 5",
        ),
        # Measured by an earlier version, which did not keep the arguments.
        (
            {"source": Source(kind="live"), "session": "a"},
            {},
            ": ./benchmark.py --match RESULT --runs 5",
        ),
    ],
)
def test_a_next_step_repeats_what_was_measured(first, second, step):
    found = answer(make_run(**first), make_run(**{**AMD, **second}))
    assert found.next_steps[0] == f"measure 5 runs of each system{step}"


@pytest.mark.parametrize(
    ("file", "stored", "folder"),
    [
        ("results/slow/a.json", "slow", "results/slow"),
        ("results/slow/a.json", "results/slow", "results/slow"),
        ("my results/a.json", "slow", "'my results'"),
        ("slow/a.json", "slow", "slow"),
        ("a.json", "slow", "DIR"),
    ],
)
def test_a_repeated_command_writes_where_the_result_is(file, stored, folder):
    run = make_run(arguments=("--model", "llama", "--output-dir", stored))
    found = RunResult(run, summarize(run), file, is_valid=True)
    text = recommendations.for_runs("measure again: ./benchmark.py --runs 5", [found])
    assert text == f"measure again: ./benchmark.py --model llama --output-dir {folder} --runs 5"


class TestShortened:
    def test_the_fastest_and_the_baseline_stay(self):
        found = report(
            comparison(
                *(make_run(label=f"s{index:02}", step_time=1 + index / 10) for index in range(9))
            )
        )
        (answer,) = found.shortened(3).answers
        assert [system.name for system in answer.group.systems] == ["s00", "s01", "s02"]
        assert [pair.system.name for pair in answer.group.pairs] == ["s00", "s02"]
        assert {len(row.values) for row in answer.group.settings} == {3}
        assert answer.verdict == found.answers[0].verdict
        left_out = note("systems-not-listed", systems=6, are="systems are")
        assert found.shortened(3).comparison.notes[-1] == left_out
        assert len(found.shortened(3).comparison.files) == 3

    def test_few_systems_are_all_there(self):
        found = report(comparison(make_run(), make_run(MI300X, stack="rocm")))
        assert found.shortened(3) is found


class TestCost:
    def texts(self, *runs, prices):
        found = report(with_prices(comparison(*runs), prices).comparison)
        return cost_texts(found.comparison, found.answers)

    THREE = make_run(), make_run(**AMD, step_time=1.2), make_run("NVIDIA H200", step_time=1.5)

    def test_of_three_the_leaders_are_compared_and_the_cheapest_with_the_baseline(self):
        (text,) = self.texts(*self.THREE, prices=["H100=1", "MI300X=4", "H200=4"])
        leaders, cheapest = text.split("; 8×H100")
        assert (
            leaders
            == f"{MI300X_NAME} at $4.00 is 20% cheaper per token than {H200_NAME} at $4.00; "
            f"break-even price of {H200_NAME}: $3.20 per GPU-hour"
        )
        # The H200 does 3.2 s / 1.5 s as much for each dollar of its price.
        assert cheapest.startswith(
            f" (BF16) at $1.00 is 47% cheaper per token than {H200_NAME} at $4.00; "
        )
        assert cheapest.endswith(f"break-even price of {H200_NAME}: $2.13 per GPU-hour")

    def test_a_leader_without_a_price_has_a_break_even_beside_the_cheapest(self):
        (text,) = self.texts(*self.THREE, prices=["H100=1", "H200=4"])
        first, second = text.split("; ")[:2]
        assert (
            first
            == f"compared with {H200_NAME} at $4.00, {MI300X_NAME} is cheaper per token below $5.00"
        )
        assert second.startswith(
            f"{H100_NAME} at $1.00 is 47% cheaper per token than {H200_NAME} at $4.00"
        )

    def test_a_baseline_without_a_price_too(self):
        (text,) = self.texts(*self.THREE, prices=["H100=1", "MI300X=4"])
        assert (
            text
            == f"compared with {MI300X_NAME} at $4.00, {H200_NAME} is cheaper per token below $3.20"
        )

    def test_a_wide_interval_has_two_break_evens(self):
        runs = repeated(3.2, (1.0, 1.02, 0.98)), repeated(3.0, (1.0, 1.02, 0.98), **AMD)
        (text,) = self.texts(*runs, prices=["H100=2"])
        found = re.fullmatch(
            r"compared with .* at \$2.00, .* below \$(\d\.\d\d), more .* above \$(\d\.\d\d)", text
        )
        low, high = map(float, found.groups())
        assert low < 2 * 3.2 / 3.0 < high

    def test_names_are_only_as_short_as_tells_all_systems_of_the_table_apart(self):
        runs = make_run(), make_run(step_time=2.5, precision="fp8"), make_run(step_time=2.9, **AMD)
        for prices in (["3", "3.1", "4"], ["FP8=3.1", "MI300X=4"]):
            found = report(with_prices(comparison(*runs), prices).comparison)
            (text,) = cost_texts(found.comparison, found.answers, is_brief=True)
            assert (
                text
                == "8×H100 (FP8) is 33% cheaper per token than 8×MI300X, which breaks even at $2.67"
            )

    def test_equal_systems_cost_the_same(self):
        (text,) = self.texts(repeated(3.2), repeated(3.2, **AMD), prices=["H100=2", "MI300X=2"])
        assert text.startswith("no significant difference in cost per token between 8×")
        found = report(
            with_prices(
                comparison(repeated(3.2), repeated(3.2, **AMD)), ["H100=2", "MI300X=2"]
            ).comparison
        )
        (text,) = cost_texts(found.comparison, found.answers, is_brief=True)
        assert text.startswith("no significant difference in cost per token between 8×")

    def test_one_sentence_where_it_is_the_same_in_several_models(self):
        runs = [
            make_run(**each, model=model)
            for model in ("llama", "qwen")
            for each in ({}, {**AMD, "step_time": 1.6})
        ]
        (text,) = self.texts(*runs, prices=["H100=3", "MI300X=2"])
        assert text.startswith(f"{MI300X_NAME} at $2.00 is ")
        assert text.endswith(f"% cheaper per token than {H100_NAME} at $3.00 in both models")


def test_systems_that_share_no_clock_are_said_to_be_timed_differently():
    stamps = Timing(kind="stamps")
    found = answer(make_run(timing=stamps), make_run(step_time=4.0, **AMD))
    assert found.headline.endswith(
        "but they are timed differently: time stamps of records vs a step timer"
    )
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


def on_cpu(size, step_time, **fields):
    """Five runs on a CPU with this micro-batch, as the first measurement of a newcomer makes
    them.
    """
    factors = (1.0, 1.002, 0.998, 1.001, 0.999)
    runs = repeated(
        step_time, factors, device=None, stack="cpu", gpus=1, label=f"micro{size}", **fields
    )
    config = msgspec.structs.replace(runs[0].training_config, micro_batch_size=size)
    return tuple(msgspec.structs.replace(run, training_config=config) for run in runs)


def test_the_first_run_without_a_gpu_says_what_was_compared():
    found = report(comparison(on_cpu(1, 3.68, scale="tiny"), on_cpu(2, 3.2, scale="tiny")))
    headline, *_ = terminal.write(document.on_screen(found), width=80).split("\n\n  ")
    assert headline == "Llama tiny, on a CPU (to try the tool, not to judge GPUs)"
    assert found.answers[0].verdict.headline == "Micro-batch 2 is 15% faster than micro-batch 1"
    assert found.answers[0].verdict.certainty.endswith(", 5 runs each")


@pytest.mark.parametrize("scales", [("full", "full"), (None, None)])
def test_a_full_model_on_a_cpu_is_a_comparison_of_cpus(scales):
    runs = [on_cpu(size, 3.0 + size, scale=scale) for size, scale in enumerate(scales, 1)]
    assert "to try the tool" not in terminal.write(
        document.on_screen(report(comparison(*runs))), width=80
    )


def two_runs(step_times, steps, **fields):
    return tuple(
        make_run(
            step_time=time,
            warmup=(),
            steps=steps,
            timestamp=f"2026-02-0{day}T21:44:16+00:00",
            **fields,
        )
        for day, time in enumerate(step_times, 1)
    )


@pytest.mark.parametrize(
    ("steps", "few"),
    [((3, 3), "steps"), ((29, 40), "steps"), ((30, 40), "runs"), ((200, 200), "runs")],
)
def test_two_runs_that_differ_much_say_what_there_is_too_little_of(steps, few):
    runs = two_runs((3.2, 3.8), steps[0]), two_runs((4.0, 4.1), steps[1], **AMD)
    found = answer(*runs)
    assert found.headline == f"Too few {few} to compare 8×H100 (BF16) and 8×MI300X (BF16)"
    several = "–".join(map(str, dict.fromkeys(steps)))
    assert found.certainty == f"1.16×, 2 runs of {several} steps each: too few {few}"
    assert found.standing == "unsettled"
    assert ("--steps 60" in found.next_steps[0]) is (few == "steps")
    values = json_values.comparison_values(report(comparison(*runs)))
    assert "[" not in json_values.dumped(
        {"certainty": values["models"][0]["groups"][0]["certainty"]}
    )
    (pair,) = values["models"][0]["groups"][0]["pairs"]
    assert (pair["speedup"]["low"], pair["speedup"]["high"]) == (None, None)


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
        (
            (3, 16),
            (
                f"{MI300X_NAME} is 2.1× as fast per GPU as {H100_NAME} in 1 of 2 models; too short"
                " to compare in 1"
            ),
        ),
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
    costs = cost_texts(
        with_prices(comparison(*runs), ["H100=3", "MI300X=2"]).comparison, found.answers
    )
    assert len(costs) == slow.count(3)


@pytest.mark.parametrize(("steps", "assumed"), [(29, True), (30, False)])
def test_below_thirty_steps_the_headline_of_several_models_has_its_assumption(steps, assumed):
    runs = [
        run
        for model in ("llama", "qwen")
        for step_time, fields in ((3.2, {}), (1.5, AMD))
        for run in runs_with(3, steps, step_time, model=model, **fields)
    ]
    assert (
        report(comparison(*runs)).headline.endswith("if the start-up was over by step 14")
        == assumed
    )


@pytest.mark.parametrize(("steps", "assumed"), [(29, True), (30, False)])
def test_below_thirty_steps_the_headline_has_its_assumption(steps, assumed):
    found = answer(runs_with(3, steps, 3.2), runs_with(3, steps, 1.7, **AMD))
    assert found.headline.endswith("if the start-up was over by step 14") == assumed


def test_all_systems_are_averaged_over_the_same_steps():
    # Identical but for the slow start: the pause at step 50 counts in both or in neither.
    def paused(run):
        return msgspec.structs.replace(
            run, step_times=(*run.step_times[:49], 30.0, *run.step_times[50:])
        )

    one, other = (
        tuple(map(paused, runs_with(slow, 200, 3.2, **fields)))
        for slow, fields in ((3, {}), (55, AMD))
    )
    (pair,) = comparison(one, other).models[0].pairs
    assert pair.ratio.value == pytest.approx(1, abs=0.0005)
    assert {result.summary.skipped for result in (*pair.system.runs, *pair.baseline.runs)} == {55}


@pytest.mark.parametrize("form", [terminal, markdown, page], ids=lambda form: form.__name__)
def test_where_samples_are_compared_nothing_speaks_of_tokens(form):
    mlperf = {"framework": "mlperf", "warmup": (20.0,)}
    runs = make_run(**mlperf, length=None), make_run(**AMD, **mlperf, length=8192, step_time=4.0)
    shown = report(with_prices(comparison(*runs), ["H100=2.50", "MI300X=2.00"]).comparison)
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

    WARNING = (
        "global_batch_size 128 was stated, but the training shows 8: they can't both be true; the"
        " stated one is used"
    )

    def test_of_one_of_two_systems(self):
        found = answer(make_run(), make_run(**AMD, step_time=1.6, notes=notes_of(self.WARNING)))
        assert found.headline.endswith("; but values of 8×MI300X (BF16) contradict each other")
        assert (found.caveats[0].code, found.caveats[0].severity) == ("contradiction", "warning")
        assert self.WARNING in text_of(found.caveats[0])

    def test_of_both(self):
        runs = (
            make_run(notes=notes_of(self.WARNING)),
            make_run(**AMD, step_time=1.6, notes=notes_of(self.WARNING)),
        )
        told = "; but values of 8×MI300X (BF16) and 8×H100 (BF16) contradict each other"
        assert answer(*runs).headline.endswith(told)

    def test_of_a_single_system(self):
        assert answer(make_run(notes=notes_of(self.WARNING))).headline.endswith(
            f"; but {self.WARNING}"
        )

    def test_of_several_models(self):
        pairs = [
            run
            for model in ("llama", "qwen")
            for run in (
                make_run(model=model),
                make_run(**AMD, model=model, step_time=1.6, notes=notes_of(self.WARNING)),
            )
        ]
        assert "contradict each other" in (report(comparison(*pairs)).headline or "")

    def test_none_without_one(self):
        found = answer(make_run(notes=notes_of("padding unknown")), make_run(**AMD, step_time=1.6))
        assert "contradict" not in found.headline
        assert all(caveat.code != "contradiction" for caveat in found.caveats)


def test_a_single_run_that_was_cut_says_how_far_it_came():
    run = make_run(
        status="incomplete",
        status_reason="interrupted",
        training_config=TrainingConfig(max_steps=90),
    )
    assert (
        ", incomplete (60 of 90 steps): interrupted); add a second result" in answer(run).headline
    )


def test_logs_without_step_times_are_all_named_with_what_would_record_them():
    untimed = [
        make_run(
            steps=0,
            framework=framework,
            model=None,
            notes=notes_of(f"no step times: {why}; more"),
            label=framework,
        )
        for framework, why in (("hf_trainer", "none"), ("lightning", "no column"))
    ]
    (answer,) = report(comparison(*untimed)).answers
    assert answer.verdict.headline.startswith("Not compared: ")
    assert all(
        f"has no step times: {why}" in answer.verdict.headline for why in ("none", "no column")
    )
    assert (
        "TrainerBenchmarkCallback to the script of hf_trainer and BenchmarkCallback to"
        in answer.verdict.next_steps[0]
    )
    assert len(answer.verdict.next_steps) == 1


@pytest.mark.parametrize(("session", "advised"), [("s", False), (None, True)])
def test_runs_that_are_interleaved_need_not_be(session, advised):
    """Runs of one session take turns in being first: the trend that both follow cancels in their
    paired interval.
    """

    def rising(step_time, first, **fields):
        return tuple(
            make_run(
                step_time=step_time * (1 + 0.01 * day),
                timestamp=f"2026-02-{day + 1:02d}T{(day + first) % 2:02d}:00:00+00:00",
                session=session,
                round=day + 1,
                **fields,
            )
            for day in range(8)
        )

    found = answer(rising(3.2, 0), rising(2.4, 1, **AMD))
    assert ("interleave the runs of both systems" in found.next_steps) is advised
