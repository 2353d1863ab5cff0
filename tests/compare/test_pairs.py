from __future__ import annotations

import math
import re
import statistics

import msgspec
import pytest
import scipy.stats
from made_runs import H100, MI300X, comparison, make_run, shape
from stored_runs import reason_of, texts_of

from tprimat.analysis.summary import summarize
from tprimat.notes.catalogue import words
from tprimat.read.parsing.remarks import no_step_times
from tprimat.report.rates import rate_unit
from tprimat.results.run import Environment

AMD = {"device": MI300X, "stack": "rocm"}


def pair(one, other):
    (found,) = comparison(one, other).models[0].pairs
    return found


def withheld(**fields):
    """A run whose source printed four times the rate that its step times give."""
    run = make_run(**fields)
    times = run.step_times[1:]
    return make_run(
        **fields,
        native_metrics={"tokens_per_second": 4 * run.tokens_per_step * len(times) / sum(times)},  # type: ignore[operator]
    )


class TestRatio:
    def test_is_of_tokens_per_second_per_gpu_whatever_the_batch(self):
        # A step of twice the batch that takes twice as long is the same speed.
        found = pair(make_run(step_time=1.6, batch=64), make_run(**AMD, step_time=3.2, batch=128))
        assert found.ratio.value == pytest.approx(1.0, abs=0.01)

    def test_is_per_gpu(self):
        found = pair(make_run(gpus=8), make_run(gpus=16, step_time=1.6))
        assert found.ratio.value == pytest.approx(1.0, abs=0.01)

    @pytest.mark.parametrize("unknown", ["batch", "length", "gpus"])
    def test_without_a_rate_there_is_none(self, unknown):
        found = pair(make_run(), make_run(**AMD, **{unknown: None}))
        assert found.ratio is None
        assert reason_of(found).startswith(
            "tokens/s/GPU of 8×MI300X" if unknown != "gpus" else "tokens/s/GPU of MI300X"
        )
        assert re.search(r"/s/GPU of .* is unknown \(.* unknown: ", reason_of(found))

    def test_a_withheld_rate_gives_none_though_batches_are_said_to_be_equal(self):
        found = pair(make_run(), withheld(**AMD))
        assert found.ratio is None
        assert reason_of(found).startswith("8×MI300X (BF16): ")
        assert "64 × 2,048 tokens in 3.329 s are" in reason_of(found)
        assert words(found.system.exclusion.explanations[0]).startswith(
            "sequence length 8192 instead of 2048"
        )

    def test_two_withheld_rates_give_none_either(self):
        found = pair(withheld(step_time=3.2), withheld(step_time=1.6, label="after"))
        assert found.ratio is None


def runs_around(step_time, factors, **fields):
    """One run for each factor, a day apart."""
    return tuple(
        make_run(
            step_time=step_time * factor, timestamp=f"2026-02-{day:02d}T00:00:00+00:00", **fields
        )
        for day, factor in enumerate(factors, 1)
    )


def ratio(baseline, system):
    """Return the ratio of the system over the baseline, in this order."""
    (found,) = comparison(baseline, system, reference="H100").models[0].pairs
    return found.ratio


class TestIntervals:
    SPREAD = (0.995, 1.002, 1.004, 0.999)

    @pytest.mark.parametrize("count", [2, 3, 4])
    def test_from_two_runs_of_each_there_is_one(self, count):
        spread = self.SPREAD[:count]
        found = ratio(runs_around(3.2, spread), runs_around(2.4, spread, **AMD))
        logs = [[math.log(rate) for rate in spread]] * 2
        reference = scipy.stats.ttest_ind(*logs, equal_var=False).confidence_interval()
        assert found.method == "welch"
        assert found.value == pytest.approx(4 / 3, rel=1e-3)
        assert math.log(found.high / found.low) == pytest.approx(
            reference.high - reference.low, rel=0.02
        )
        assert found.is_significant is (found.low > 1)

    def test_one_run_against_three_has_a_prediction_interval(self):
        found = ratio(runs_around(3.2, self.SPREAD[:3]), make_run(**AMD, step_time=2.4))
        assert found.method == "prediction"
        assert found.low < 4 / 3 < found.high

    def test_an_exclusion_states_the_same_values_whatever_it_is_compared_with(self):
        slow = (30.0, *[5.0] * 20)
        odd = make_run(
            **AMD, warmup=slow, steps=90, native_metrics={"tokens_per_second": 4 * 64 * 2048 / 3.2}
        )
        texts = set()
        for other in (make_run(steps=60), make_run(steps=40), make_run(warmup=slow, steps=70)):
            (model,) = comparison(other, odd, reference="H100").models
            texts.add(reason_of(model.pairs[0]))
            texts.add(
                f"{model.pairs[0].system.name}: {words(model.pairs[0].system.exclusion.note)}"
            )
        assert len(texts) == 1

    def test_its_interval_is_as_wide_as_that_within_the_single_run(self):
        single = make_run(**AMD, step_time=2.4)
        times = tuple(
            2.4 * (1.1 if index * index % 11 > 4 else 0.8)
            for index in range(len(single.step_times))
        )
        several = runs_around(3.2, (1.0, 1.0002, 1.0001, 0.9999))
        found = ratio(several, msgspec.structs.replace(single, step_times=times))
        within = summarize(msgspec.structs.replace(single, step_times=times)).within
        half = math.log(within.interval()[1] / within.value)
        assert half > 0.005
        assert math.log(found.high / found.value) >= half
        assert math.log(found.value / found.low) >= half
        calm = ratio(several, single)
        assert math.log(calm.high / calm.low) < half

    @pytest.mark.parametrize("counts", [(1, 1), (1, 2), (2, 1)])
    def test_with_fewer_there_is_none(self, counts):
        found = ratio(
            runs_around(3.2, self.SPREAD[: counts[0]]),
            runs_around(2.4, self.SPREAD[: counts[1]], **AMD),
        )
        assert (found.low, found.high, found.method, found.is_significant) == (
            None,
            None,
            None,
            None,
        )

    def test_no_significant_difference_says_how_many_runs_it_takes(self):
        found = ratio(runs_around(3.2, self.SPREAD), runs_around(3.203, self.SPREAD, **AMD))
        assert found.is_significant is False
        assert found.runs_needed is None or found.runs_needed > 4

    def test_equal_rounded_step_times_are_not_certain(self):
        def rounded(step_time, **fields):
            runs = runs_around(step_time, (1.0, 1.0, 1.0), **fields)
            return tuple(
                msgspec.structs.replace(run, step_times=(9.9, *[round(step_time, 1)] * 59))
                for run in runs
            )

        found = ratio(rounded(3.2), rounded(2.4, **AMD))
        assert found.low < found.value < found.high
        assert found.high / found.low == pytest.approx(1.051, abs=0.002)


class TestRounds:
    """Four rounds of one session, in alternating order, are compared in pairs."""

    DRIFT = (1.0, 1.1, 1.2, 1.3)

    def session(self, *, alternating=True, rounds=4):
        days = iter(range(1, 20))
        first, second = [], []
        for number in range(rounds):
            order = [(first, 3.2, {}), (second, 2.4, AMD)]
            for runs, step_time, fields in order[:: -1 if alternating and number % 2 else 1]:
                runs.append(
                    make_run(
                        **fields,
                        step_time=step_time * self.DRIFT[number] * (1 + 0.001 * len(runs)),
                        timestamp=f"2026-02-{next(days):02d}T00:00:00+00:00",
                        session="s",
                        round=number + 1,
                    )
                )
        return tuple(first), tuple(second)

    def test_the_drift_of_the_session_drops_out(self):
        found = ratio(*self.session())
        assert found.method == "paired"
        assert found.high / found.low < 1.01

    @pytest.mark.parametrize("fields", [{"alternating": False}, {"rounds": 3}])
    def test_otherwise_welch_decides(self, fields):
        found = ratio(*self.session(**fields))
        assert found.method == "welch"
        assert found.high / found.low > 1.2


def changing(first, second, steps=120, day=1, **fields):
    """A run that changes its speed half-way."""
    run = make_run(**{**AMD, **fields}, steps=steps, timestamp=f"2026-01-0{day}T00:00:00+00:00")
    half = steps // 2
    wobble = [1 + 0.002 * (-1) ** index for index in range(steps)]
    times = [first * w for w in wobble[:half]] + [second * w for w in wobble[half:]]
    return msgspec.structs.replace(run, step_times=(30.0, *times[1:]))


class TestSegments:
    def test_of_a_single_run_each_has_its_ratio(self):
        found = ratio(make_run(step_time=3.2), changing(2.5, 2.0))
        assert [segment.value for segment in found.segments] == pytest.approx([1.28, 1.6], rel=0.01)
        assert [segment.system_steps for segment in found.segments] == ["4–60", "61–120"]
        assert {segment.baseline_steps for segment in found.segments} == {None}
        # The ratio is that of the whole run.
        assert found.value == pytest.approx(3.2 / 2.244, rel=0.01)

    def test_of_both_systems_they_are_crossed(self):
        found = ratio(changing(3.2, 3.0, device=H100, stack="cuda"), changing(2.5, 2.0))
        assert len(found.segments) == 4

    def others(self, step_time, **fields):
        return tuple(
            make_run(
                steps=120,
                step_time=step_time + day * 1e-6,
                timestamp=f"2026-03-0{day}T00:00:00+00:00",
                **fields,
            )
            for day in (1, 2, 3)
        )

    def test_one_run_of_several_that_changes_leaves_the_interval(self):
        found = ratio(self.others(3.2), (changing(2.5, 2.0), *self.others(2.0, **AMD)))
        assert found.segments == ()
        assert found.low is not None

    def test_the_same_change_in_most_runs_is_named_beside_the_interval(self):
        runs = (
            *(changing(2.5 + day / 1000, 2.0, day=day) for day in (1, 2)),
            self.others(2.2, **AMD)[0],
        )
        found = ratio(self.others(3.2), runs)
        assert [segment.value for segment in found.segments] == pytest.approx([1.28, 1.6], rel=0.01)
        assert found.low is not None

    def test_a_drift_leaves_the_interval(self):
        def drifting(run):
            grown = tuple(
                time * (1 + 0.2 * index / 160) for index, time in enumerate(run.step_times)
            )
            return msgspec.structs.replace(run, step_times=grown)

        runs = tuple(map(drifting, runs_around(1.6, (0.99, 1.0, 1.01), steps=160, **AMD)))
        found = ratio(runs_around(3.2, (0.99, 1.0, 1.01), steps=160), runs)
        assert found.segments == ()
        assert found.low > 1


class TestOrientation:
    def test_the_faster_one_comes_first_whatever_the_baseline(self):
        for reference in ("H100", "MI300X", None):
            (found,) = (
                comparison(make_run(), make_run(**AMD, step_time=1.6), reference=reference)
                .models[0]
                .pairs
            )
            assert (found.faster.gpu, found.slower.gpu) == (MI300X, H100)
            assert found.speedup.value == pytest.approx(2.0, rel=0.01)

    def test_bounds_and_segments_are_inverted_together(self):
        (found,) = comparison(make_run(), changing(2.5, 2.0), reference="MI300X").models[0].pairs
        assert found.faster is found.baseline
        assert sorted(segment.value for segment in found.speedup.segments) == pytest.approx(
            [1.28, 1.6], rel=0.01
        )
        assert {segment.system_steps for segment in found.speedup.segments} == {"4–60", "61–120"}


class TestJudged:
    def test_identical_mode_refuses_a_difference_of_configuration(self):
        files = (make_run(), make_run(**AMD, batch=128, step_time=3.2))
        (found,) = comparison(*files, mode="same").models[0].pairs
        assert found.ratio is None
        assert reason_of(found) == "the configurations differ in global batch"

    def test_the_windows_of_other_tools_are_tried(self):
        found = pair(make_run(steps=200), make_run(**AMD, steps=200, step_time=1.6))
        names = [name for name, _ in found.sensitivity]
        assert names == [
            "all but the first",
            "steps 35–44",
            "10 ending at 90",
            "skip 10 %",
            "last 10",
            "100 after 40",
        ]


class TestRefusals:
    @pytest.mark.parametrize(
        ("one", "other", "reason"),
        [
            ({"scale": "tiny"}, {"scale": "full"}, "the scales differ (tiny and full)"),
            ({"scale": None}, {"scale": "tiny"}, "the scales differ (unknown and tiny)"),
            (
                {"model_config": shape()},
                {"model_config": shape(num_layers=16)},
                "num layers 32 and 16",
            ),
            (
                {"model_config": shape()},
                {"model_config": shape(vocab_size=32000)},
                "vocab size 128256 and 32000",
            ),
            ({"length": 2048}, {"length": 8192}, "workload mismatch: sequence length 2048 vs 8192"),
            ({"model": None}, {"model": None}, "don't say which model"),
            ({}, {"environment": Environment(emulated=True)}, "emulated device"),
            (
                {"model": None, "notes": (no_step_times("A", but="; B"),), "steps": 0},
                {"model": None},
                "has no step times: A",
            ),
        ],
    )
    def test_says_why(self, one, other, reason):
        found = pair(make_run(**one), make_run(**AMD, **other))
        assert found.ratio is None
        assert reason in reason_of(found)

    def test_different_models_are_named_before_times_that_are_missing_for_no_known_reason(self):
        untimed = {"steps": 0, "model_config": shape()}
        assert "num layers 16 and 32" in reason_of(
            pair(make_run(**untimed), make_run(model_config=shape(num_layers=16)))
        )
        assert reason_of(pair(make_run(**untimed), make_run(**AMD, model_config=shape()))).endswith(
            "has no step times"
        )

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({"scale": None}, {"scale": "full"}),
            ({"model_config": shape()}, {"model_config": shape(vocab_size=128256 + 512)}),
            ({"model_config": shape()}, {}),
            ({"model": None, "model_config": shape()}, {"model": None, "model_config": shape()}),
        ],
    )
    def test_not_for_what_is_the_same_or_unstated(self, one, other):
        assert pair(make_run(**one), make_run(**AMD, **other)).ratio is not None


@pytest.mark.parametrize("length", [None, 8192])
def test_mlperf_without_a_sequence_length_is_compared_in_samples(length):
    def runs(framework):
        fast = make_run(**AMD, step_time=1.0, batch=8, length=None, framework=framework)
        return make_run(step_time=2.0, batch=16, length=length, framework=framework), fast

    found = comparison(*runs("mlperf"))
    (group,) = found.models[0].groups
    (one,) = group.pairs
    assert [statistics.fmean(each.speeds) for each in group.systems] == pytest.approx(
        [1.0, 1.0], rel=0.01
    )
    assert one.ratio.value == pytest.approx(1.0, rel=0.01)
    assert rate_unit(group.systems) == "samples/s/GPU"
    assert any("samples/s/GPU" in note for note in texts_of(found.notes))
    in_tokens = [each.gpu for each in group.systems if "tokens_per_second_per_gpu" in each.values]
    assert in_tokens == [H100] * bool(length)
    # Samples of other runs have any length.
    assert not any(each.ratio for each in comparison(*runs("nemo")).models[0].pairs)
