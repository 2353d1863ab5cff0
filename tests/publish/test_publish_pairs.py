"""Pairs that are compared ahead: compare's own answer on the same data, and no more pairs than
there may be.
"""

from __future__ import annotations

import dataclasses

import pytest
from made_runs import H100, MI300X, comparison, make_run
from test_series import POINT

from tprimat.compare import Loaded
from tprimat.publish import pairs, points
from tprimat.publish.points import Evidence


def runs(device, *times, **fields):
    stack = "rocm" if device == MI300X else "cuda"
    return tuple(make_run(device, stack=stack, step_time=time, **fields) for time in times)


def own(*groups):
    files = [Loaded(f"results/{at}.json", f"{at}" * 64, group) for at, group in enumerate(groups)]
    return points.result_points(files, [])


def rows(*rates, **fields):
    return [
        Evidence(
            dataclasses.replace(
                POINT, tokens_per_second_per_gpu=sum(each) / len(each), rates=each, **fields
            )
        )
        for each in rates
    ]


FAST, SLOW = runs(H100, 3.0, 3.02, 2.99), runs(MI300X, 3.5, 3.49, 3.53)


class TestOwnResults:
    def test_ratio_and_interval_are_those_of_compare(self):
        (found,) = pairs.pairs(own(FAST, SLOW))
        (model,) = comparison(FAST, SLOW).models
        (theirs,) = model.pairs
        assert theirs.system.gpu == H100
        assert (found.first, found.second) == (0, 1)
        assert (found.ratio, found.low, found.high) == (
            theirs.ratio.value,
            theirs.ratio.low,
            theirs.ratio.high,
        )

    def test_a_third_system_changes_nothing(self):
        short = tuple(make_run(H100, step_time=time, steps=40, batch=32) for time in (1.4, 1.41))
        alone, among = pairs.pairs(own(FAST, SLOW)), pairs.pairs(own(FAST, SLOW, short))
        assert len(among) == 3
        assert alone[0] in among

    def test_single_runs_have_no_pair(self):
        assert pairs.pairs(own(FAST, SLOW[:1])) == ()

    def test_work_that_differs_has_none(self):
        assert pairs.pairs(own(FAST, runs(MI300X, 3.5, 3.49, 3.53, length=4096))) == ()
        assert pairs.pairs(own(FAST, runs(MI300X, 3.5, 3.49, 3.53, gpus=16))) == ()
        assert pairs.pairs(own(FAST, runs(MI300X, 3.5, 3.49, 3.53, model="qwen"))) == ()

    def test_an_impossible_system_has_none(self):
        assert pairs.pairs(own(FAST, runs(H100, 0.05, 0.051, 0.052))) == ()


class TestPublishedRates:
    def test_a_log_that_is_read_and_its_rates_have_the_same_interval(self):
        """The rows of a tool are rates of runs; compare reads the runs."""
        mine = own(FAST, SLOW)
        bare = [Evidence(each.point) for each in mine]
        read, stated = pairs.compared(*mine), pairs.compared(*bare)
        assert stated[0] == pytest.approx(read[0], rel=1e-6)
        assert stated[1].interval() == pytest.approx(read[1].interval(), abs=1e-6)

    def test_precision_and_batch_may_differ(self):
        first = rows((100.0, 101.0, 102.0), precision="fp4")
        assert len(pairs.pairs([*first, *rows((90.0, 91.0), global_batch_size=256)])) == 1

    @pytest.mark.parametrize(
        "field",
        [
            *(
                {"model": "qwen"},
                {"task": "lora"},
                {"num_gpus": 16},
                {"sequence_length": 4096},
                {"clock": "blocks"},
            ),
            *(
                {"mark": "contradicts itself"},
                {"mark": "rejected"},
                {"num_gpus": None},
                {"work": "On policy"},
            ),
        ],
    )
    def test_other_work_or_clock_is_refused(self, field):
        assert pairs.pairs([*rows((100.0, 101.0, 102.0)), *rows((90.0, 91.0), **field)]) == ()

    def test_one_run_is_too_few_and_two_are_enough(self):
        assert pairs.pairs(rows((100.0, 101.0), (90.0,))) == ()
        assert len(pairs.pairs(rows((100.0, 101.0), (90.0, 91.0)))) == 1

    def test_runs_that_differ_twofold_are_not_of_one_configuration(self):
        assert len(pairs.pairs(rows((100.0, 101.0, 102.0), (50.0, 99.9, 75.0, 75.0, 76.0)))) == 1
        assert pairs.pairs(rows((100.0, 101.0, 102.0), (50.0, 100.0, 75.0, 75.0, 76.0))) == ()

    def test_an_interval_too_wide_to_say_anything_is_not_shown(self):
        assert pairs.pairs(rows((100.0, 150.0), (100.0, 140.0))) == ()


class TestBounds:
    def test_no_more_than_the_limit_and_the_fastest_first(self, monkeypatch):
        every = rows(*((100.0 + at, 100.5 + at) for at in range(5)))
        assert len(pairs.pairs(every)) == 10
        for most in (9, 10, 11):
            monkeypatch.setattr(pairs, "MOST_PAIRS", most)
            assert len(pairs.pairs(every)) == min(most, 10)
        monkeypatch.setattr(pairs, "MOST_PAIRS", 3)
        assert [(pair.first, pair.second) for pair in pairs.pairs(every)] == [
            (4, 3),
            (3, 2),
            (4, 2),
        ]

    def test_of_own_results_fewer(self, monkeypatch):
        every = own(FAST, SLOW, runs(H100, 4.0, 4.02, 3.99, batch=32))
        for most in (1, 2, 3, 4):
            monkeypatch.setattr(pairs, "MOST_RESULT_PAIRS", most)
            assert len(pairs.pairs(every)) == min(most, 3)

    def test_the_order_of_the_points_changes_no_pair(self):
        every = rows(*((100.0 + 3 * at, 101.0 + 3 * at) for at in range(6)))
        turned = every[::-1]

        def named(evidence):
            return {
                (evidence[pair.first].point, evidence[pair.second].point, pair.ratio)
                for pair in pairs.pairs(evidence)
            }

        assert named(every) == named(turned)
