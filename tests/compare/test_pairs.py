from __future__ import annotations

import msgspec
import pytest
from made_runs import MI300X, comparison, make_run, shape

from tprimat.results.run import Environment, Timing

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
        assert found.reason.startswith("tokens/s/GPU of 8×MI300X" if unknown != "gpus" else "tokens/s/GPU of MI300X")
        assert "step times alone are no speed" in found.reason

    def test_a_withheld_rate_gives_none_though_batches_are_said_to_be_equal(self):
        found = pair(make_run(), withheld(**AMD))
        assert found.ratio is None
        assert "are left out" in found.reason
        assert "4.000 times the declared 64 × 2048" in found.reason
        assert found.side.refusal.explanations[0].startswith("sequence length 8192 instead of 2048")

    def test_two_withheld_rates_give_none_either(self):
        found = pair(withheld(step_time=3.2), withheld(step_time=1.6, label="after"))
        assert found.ratio is None


def runs_around(step_time, factors, **fields):
    """One run for each factor, a day apart."""
    return tuple(
        make_run(step_time=step_time * factor, timestamp=f"2026-02-{day:02d}T00:00:00+00:00", **fields)
        for day, factor in enumerate(factors, 1)
    )


class TestIntervals:
    SPREAD = (0.995, 1.002, 1.004, 0.999)

    def test_from_three_runs_a_side_there_is_one(self):
        found = pair(runs_around(3.2, self.SPREAD), runs_around(2.4, self.SPREAD, **AMD))
        assert found.ratio.low < 4 / 3 < found.ratio.high
        assert found.ratio.high / found.ratio.low < 1.03
        assert found.ratio.shown is True
        assert 0 < found.ratio.smallest < 0.05

    def test_two_runs_a_side_have_none(self):
        found = pair(runs_around(3.2, (0.99, 1.01)), runs_around(2.4, (0.99, 1.01), **AMD))
        assert (found.ratio.low, found.ratio.high, found.ratio.shown) == (None, None, None)

    def test_no_difference_is_shown_where_the_interval_holds_one(self):
        found = pair(runs_around(3.2, self.SPREAD), runs_around(3.203, self.SPREAD, **AMD))
        assert found.ratio.shown is False
        assert found.ratio.needed is None or found.ratio.needed > 4


def at_two_levels(first, second, steps=120, day=1):
    """A run that changes its level half-way."""
    run = make_run(**AMD, steps=steps, timestamp=f"2026-01-0{day}T00:00:00+00:00")
    half = steps // 2
    wobble = [1 + 0.002 * (-1) ** index for index in range(steps)]
    times = [first * w for w in wobble[:half]] + [second * w for w in wobble[half:]]
    return msgspec.structs.replace(run, step_times=(30.0, *times[1:]))


class TestLevels:
    def test_each_level_has_its_ratio(self):
        found = pair(make_run(step_time=3.2), at_two_levels(2.5, 2.0))
        assert [level.value for level in found.ratio.levels] == pytest.approx([1.28, 1.6], rel=0.01)
        assert [level.of_side for level in found.ratio.levels] == ["2–60", "61–120"]
        assert {level.of_reference for level in found.ratio.levels} == {None}
        assert any("changed its level" in caveat for caveat in found.caveats)

    def test_levels_of_both_sides_are_crossed(self):
        found = pair(at_two_levels(3.2, 3.0), msgspec.structs.replace(at_two_levels(2.5, 2.0), label="b"))
        assert len(found.ratio.levels) == 4


def drifting(step_time, by, **fields):
    """A run whose step time grows by a share from its first steady step to its last."""
    run = make_run(**fields, steps=160)
    grown = [time * (1 + by * index / 160) for index, time in enumerate(run.step_times)]
    return msgspec.structs.replace(run, step_times=tuple(time * step_time / 3.2 for time in grown))


class TestSeveralRuns:
    """A run of several levels has no single figure, among others just as alone."""

    def others(self, step_time, **fields):
        return tuple(
            make_run(steps=120, step_time=step_time, timestamp=f"2026-03-0{day}T00:00:00+00:00", **fields)
            for day in (1, 2, 3)
        )

    def test_one_that_changes_its_level_gives_the_least_and_the_largest(self):
        found = pair(self.others(3.2), (at_two_levels(2.5, 2.0), *self.others(2.0, **AMD)))
        assert [level.value for level in found.ratio.levels] == pytest.approx([1.28, 1.6], rel=0.01)
        assert found.ratio.levels[0].of_side == "2–60 of run 1"
        assert (found.ratio.low, found.ratio.high) == (None, None)

    def test_of_many_pairs_two_are_told(self):
        second = msgspec.structs.replace(at_two_levels(2.5, 2.0), label="b")
        found = pair(
            (at_two_levels(3.2, 3.0), at_two_levels(3.3, 3.1, day=2)), (second, *self.others(2.2, **AMD, label="b"))
        )
        assert [level.value for level in found.ratio.levels] == pytest.approx([3.0 / 2.5, 3.3 / 2.0], rel=0.01)

    def test_steady_ones_keep_their_interval(self):
        found = pair(runs_around(3.2, (0.99, 1.0, 1.01)), runs_around(2.0, (0.99, 1.0, 1.01), **AMD))
        assert found.ratio.levels == ()
        assert found.ratio.low is not None


class TestDrift:
    def test_has_a_ratio_for_its_slowest_and_its_fastest_quarter(self):
        found = pair(make_run(step_time=3.2, steps=160), drifting(1.6, 0.2, **AMD))
        values = [level.value for level in found.ratio.levels]
        assert values == pytest.approx([3.2 / (1.6 * 1.026), 3.2 / (1.6 * 1.176)], rel=0.01)
        assert any("drifts by" in caveat for caveat in found.caveats)

    def test_several_runs_of_it_have_no_interval(self):
        found = pair(
            runs_around(3.2, (0.99, 1.0, 1.01), steps=160),
            tuple(
                drifting(1.6 * factor, 0.2, **AMD, timestamp=f"2026-03-01T0{factor}:00:00+00:00")
                for factor in (1, 2, 3)
            ),
        )
        assert found.ratio.low is None
        assert len(found.ratio.levels) == 2


class TestJudged:
    def test_identical_mode_refuses_a_difference_of_configuration(self):
        files = (make_run(), make_run(**AMD, batch=128, step_time=3.2))
        (found,) = comparison(*files, mode="identical").models[0].pairs
        assert found.ratio is None
        assert "aren't identical: they differ in global batch" in found.reason

    def test_the_windows_of_other_tools_are_tried(self):
        found = pair(make_run(steps=200), make_run(**AMD, steps=200, step_time=1.6))
        names = [name for name, _ in found.sensitivity]
        assert names == ["all but the first", "steps 35–44", "10 ending at 90", "skip 10 %", "last 10", "100 after 40"]

    def test_runs_that_follow_their_order_are_named(self):
        rising = tuple(1 + 0.01 * index for index in range(8))
        found = pair(runs_around(3.2, rising), runs_around(2.4, rising, **AMD))
        assert any("falls from run to run" in caveat for caveat in found.caveats)


class TestRefusals:
    @pytest.mark.parametrize(
        ("one", "other", "reason"),
        [
            ({"scale": "tiny"}, {"scale": "full"}, "the scales differ (tiny and full)"),
            ({"scale": None}, {"scale": "tiny"}, "the scales differ (unknown and tiny)"),
            ({"model_config": shape()}, {"model_config": shape(num_layers=16)}, "num_layers 32 and 16"),
            ({"model_config": shape()}, {"model_config": shape(vocab_size=32000)}, "vocab_size 128256 and 32000"),
            ({"length": 2048}, {"length": 8192}, "sequences of 2048 and 8192 tokens"),
            ({"model": None}, {"model": None}, "don't say which model"),
            ({}, {"environment": Environment(emulated=True)}, "emulated device"),
        ],
    )
    def test_says_why(self, one, other, reason):
        found = pair(make_run(**one), make_run(**AMD, **other))
        assert found.ratio is None
        assert reason in found.reason

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


class TestCaveats:
    def test_none_between_equals(self):
        assert pair(make_run(), make_run(**AMD)).caveats == ()

    def test_timers_that_cover_other_things(self):
        found = pair(make_run(), make_run(**AMD, timing=Timing(covers="forward and backward")))
        assert found.caveats == ("the step times don't cover the same parts of a step",)

    def test_one_extreme_step_is_named(self):
        run = make_run(**AMD, steps=120)
        times = list(run.step_times)
        times[70] = 60.0
        found = pair(make_run(steps=120), msgspec.structs.replace(run, step_times=tuple(times)))
        (said,) = (caveat for caveat in found.caveats if "a single step" in caveat)
        assert "8×MI300X took 13.2% of its steady time" in said

    def test_too_few_steps_for_a_steady_state(self):
        found = pair(make_run(steps=12), make_run(**AMD))
        assert any("no steady state was found" in caveat for caveat in found.caveats)

    def test_a_single_record_holds_no_known_warm_up(self):
        found = pair(make_run(steps=1, warmup=()), make_run(**AMD))
        assert "8×H100 80GB HBM3: a single record, from which no warm-up can be told" in found.caveats
