"""The check of the loss: after the same tokens, by the noise within and between runs, and when it
has no answer.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from made_runs import make_run
from stored_runs import text_of
from tool_modules import load_tool

from tprimat.analysis import intervals
from tprimat.compare import Loaded
from tprimat.compare.loss import LEAST_RECORDS, WINDOW
from tprimat.compare.regression import check_regression
from tprimat.compare.threshold import parse
from tprimat.results.run import Data, Optimizer

STEPS = 400


def curve(tokens):
    """A loss after so many tokens, 131,072 of which are one step of the runs here."""
    return 2 + 8 / math.sqrt(1 + tokens / 131_072)


def run(
    seed=0, *, steps=STEPS, times=1.0, noise=0.02, batch=64, length=2048, losses=None, **fields
):
    random = np.random.default_rng(seed)
    if losses is None:
        values = [curve(step * batch * (length or 2048)) * times for step in range(steps)]
        losses = [value * (1 + noise * random.normal()) for value in values]
    made = make_run(steps=steps, batch=batch, length=length, step_time=3.2 * (1 + 1e-6 * seed))
    return msgspec.structs.replace(made, loss_values=tuple(losses), **fields)


def checked(before, after, threshold="1%"):
    files = [
        [Loaded(f"{name}.json", "0" * 64, tuple(runs))]
        for name, runs in (("old", before), ("new", after))
    ]
    found = check_regression(*files, parse("50%", [f"final_loss={threshold}"]))
    return found.checks[1]


def without(made, first, last):
    """A run whose losses are missing from one step to another."""
    return msgspec.structs.replace(
        made,
        loss_values=tuple(
            None if first <= step <= last else loss
            for step, loss in zip(made.steps, made.loss_values, strict=True)
        ),
    )


class TestAnswers:
    @pytest.mark.parametrize(
        ("times", "threshold", "answer"),
        [
            (1.0, "1.5%", "within"),
            (1.02, "0%", "worse"),
            (1.03, "1%", "worse"),
            (1.02, "2%", "inconclusive"),
            (1.02, "3.5%", "within"),
            (0.9, "0%", "within"),
            (1.5, "1%", "worse"),
            (1.02, "0.2", "within"),
            (1.2, "0.2", "worse"),
        ],
    )
    def test_of_one_run_each(self, times, threshold, answer):
        check = checked([run(1)], [run(2, times=times)], threshold)
        assert (check.answer, check.method, check.runs) == (answer, "batches", (1, 1))
        assert check.low < check.change < check.high
        assert "; assumes 0.2% run-to-run variation" in text_of(check.basis)

    def test_equal_losses_are_equal_at_any_threshold(self):
        check = checked([run(1)], [run(2, losses=run(1).loss_values)], "0%")
        assert (check.answer, check.change, check.low, check.high) == ("within", 1.0, 1.0, 1.0)

    @pytest.mark.parametrize(("threshold", "scale"), [("1%", 1.0), ("1", 2.43)])
    def test_of_equal_batches_only_what_seeds_may_do_remains(self, threshold, scale):
        def half(seed):
            check = checked(
                [run(1)],
                [run(2, losses=[1.003 * loss for loss in run(seed).loss_values])],
                threshold,
            )
            return (check.high - check.low) / 2 / scale

        # 1.96 · 0.2% · √2, since the noise of the batches cancels.
        assert half(1) == pytest.approx(0.00554, rel=0.02)
        # Of other batches, 2% · √(2 / 100) is added.
        assert half(2) == pytest.approx(2 * math.hypot(0.00283, 0.00283), rel=0.25)

    def test_the_values_are_means_over_the_last_common_tokens(self):
        before, after = run(1, noise=0.0), run(2, noise=0.0, steps=2 * STEPS)
        check = checked([before], [after])
        # The longer run's later losses are lower, and count for nothing.
        assert check.values[0] == pytest.approx(check.values[1], rel=1e-9)
        assert check.values[0] == pytest.approx(
            np.mean(before.loss_values[-int(WINDOW * STEPS) :]), rel=2e-3
        )
        assert f"the last 25% of {STEPS * 131_072 / 1e6:.1f}M common tokens" in text_of(check.basis)

    @pytest.mark.parametrize("batch", [16, 32, 128])
    def test_another_batch_is_compared_after_the_same_tokens(self, batch):
        # At these steps the loss falls by 0.08% per step: half of the difference of two steps would
        # show.
        before, after = (
            run(1, noise=2e-4, steps=176),
            run(2, noise=2e-4, batch=batch, steps=176 * 64 // batch),
        )
        assert checked([before], [after]).change == pytest.approx(1, abs=1e-4)

    def test_records_that_average_several_steps(self):
        fine = run(1, noise=0.0)
        steps = tuple(range(4, STEPS + 1, 4))
        losses = [np.mean(fine.loss_values[step - 4 : step]) for step in steps]
        coarse = msgspec.structs.replace(
            make_run(steps=len(steps), timestamp="2026-03-09T00:00:00+00:00"),
            steps=steps,
            window_steps=(4,) * len(steps),
            loss_values=tuple(losses),
        )
        assert checked([fine], [coarse]).change == pytest.approx(1, abs=2e-5)

    def test_samples_stand_for_tokens_where_these_are_unknown(self):
        check = checked([run(1, length=None)], [run(2, length=None, times=1.1)])
        assert check.answer == "worse"
        assert "common samples" in text_of(check.basis)

    def test_runs_that_vary_have_an_error_between_them(self):
        offsets = (0.99, 1.0, 1.01)
        before, after = ([run(seed + k, times=offsets[k]) for k in range(3)] for seed in (1, 11))
        check = checked(before, after)
        assert (check.answer, check.method) == ("inconclusive", "welch")
        assert check.high - check.low > 0.03
        alike = checked([run(seed) for seed in (1, 2, 3)], [run(seed) for seed in (11, 12, 13)])
        assert alike.high - alike.low < 0.02
        assert "run-to-run variation" not in text_of(alike.basis)

    def test_one_run_against_three_is_a_prediction(self):
        before = [run(1 + k, times=times) for k, times in enumerate((0.99, 1.0, 1.01))]
        assert checked(before, [run(11)]).method == "prediction"


class TestWhereItCannotBeTold:
    @pytest.mark.parametrize(
        ("before", "after", "text"),
        [
            ({}, {"losses": [None] * STEPS}, "no losses in a run of "),
            (
                {"data": Data(digest="a")},
                {"data": Data(digest="b")},
                "different data (checksums differ)",
            ),
            ({"data": Data(kind="c4")}, {"data": Data(kind="pile")}, "different data: c4 and pile"),
            (
                {"optimizer": Optimizer(learning_rate=1e-4)},
                {"optimizer": Optimizer(learning_rate=2e-4)},
                "learning rates differ: 0.0001 and 0.0002",
            ),
            ({"losses": [1e-4] * STEPS}, {"losses": [2e-4] * STEPS}, "loss reaches 0.0001 within"),
        ],
    )
    def test_is_not_comparable(self, before, after, text):
        check = checked([run(1, **before)], [run(2, **after)])
        assert (check.answer, check.change) == ("not comparable", None)
        assert text_of(check).startswith(f"final_loss: {text}")

    def test_a_large_regression_is_no_other_training(self):
        check = checked([run(1, data=Data(digest="a"))], [run(2, times=1.4, data=Data(digest="a"))])
        assert check.pair.training.same is False
        assert check.answer == "worse"

    def test_what_is_not_known_of_the_data_is_said(self):
        assert "assumes that both used the same data" in text_of(checked([run(1)], [run(2)]).basis)
        proven = checked([run(1, data=Data(digest="a"))], [run(2, data=Data(digest="a"))])
        assert "proven" not in text_of(proven.basis)

    def test_a_loss_that_became_infinite_doesnt_pass(self):
        check = checked([run(1)], [without(run(2), 201, STEPS)])
        assert (check.answer, text_of(check)[:48]) == (
            "not comparable",
            "final_loss: no finite loss after step 200 of 400",
        )

    def test_losses_that_are_logged_rarely_reach_the_end(self):
        sparse = run(1)
        losses = [
            loss if step % 4 == 1 else None
            for step, loss in zip(sparse.steps, sparse.loss_values, strict=True)
        ]
        assert (
            checked(
                [msgspec.structs.replace(sparse, loss_values=tuple(losses))], [run(2)], "5%"
            ).answer
            == "within"
        )

    @pytest.mark.parametrize(("more", "answer"), [(-1, "inconclusive"), (0, "within")])
    def test_the_least_number_of_records(self, more, answer):
        steps = round(LEAST_RECORDS / WINDOW) + 4 * more
        check = checked([run(1, steps=steps)], [run(2, steps=steps)], "20%")
        assert check.answer == answer
        if more:
            assert text_of(check).startswith(
                f"final_loss: {LEAST_RECORDS - 1} losses in the last 25% of "
            )
            assert text_of(check).endswith(f"common tokens, {LEAST_RECORDS} needed")

    def test_a_smoothed_loss_shows_too_little(self):
        def smoothed(seed):
            losses = list(run(seed).loss_values)
            for index in range(1, STEPS):
                losses[index] = 0.98 * losses[index - 1] + 0.02 * losses[index]
            return run(seed, losses=losses)

        check = checked([smoothed(1)], [smoothed(2)])
        assert (check.answer, check.low) == ("inconclusive", None)
        assert text_of(check).endswith("are too strongly autocorrelated")

    @pytest.mark.parametrize(("apart", "is_equal"), [(1e-10, True), (1e-8, False), (1e-7, False)])
    def test_losses_that_differ_by_rounding_alone_are_equal(self, apart, is_equal):
        before = run(noise=0.0)
        drifting = [loss + apart * step / STEPS * 8 for step, loss in enumerate(before.loss_values)]
        check = checked([before], [run(1, losses=drifting)])
        assert ("autocorrelated" not in text_of(check)) == is_equal


class TestSeriesMean:
    def test_a_series_that_never_varies_has_no_error(self):
        assert intervals.series_mean([1.0] * 30) is None

    def test_white_noise_has_the_error_of_its_batches(self):
        values = np.random.default_rng(1).normal(5, 1, 400).tolist()
        found = intervals.series_mean(values)
        assert found.value == pytest.approx(np.mean(values))
        assert found.error == pytest.approx(1 / math.sqrt(400), rel=0.5)
        assert (found.freedom, found.method) == (9, "batches")

    @pytest.mark.parametrize(("count", "is_known"), [(24, False), (90, True)])
    def test_correlated_values_are_worth_fewer(self, count, is_known):
        # Each value stands three times: a fifth of them are independent.
        values = np.repeat(np.random.default_rng(3).normal(0, 1, count // 3), 3).tolist()
        assert (intervals.series_mean(values) is not None) == is_known


def test_few_equal_losses_are_called_worse_and_greater_ones_are_found():
    tool = load_tool("simulate_comparisons")
    random = np.random.default_rng(1)
    assert tool.loss_share(12, random, "iid 2%", 1, 1.0, "1%", shared=False, seeds=0.0) == 0
    assert (
        tool.loss_share(12, random, "iid 2%", 1, 1.02, "1%", shared=True, seeds=0.0)
        >= tool.LEAST_FOUND_LOSS
    )
