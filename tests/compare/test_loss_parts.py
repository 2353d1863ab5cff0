"""Losses after the same tokens in full, of runs whose losses the test states."""

from __future__ import annotations

import math
import statistics

import msgspec
import numpy as np
import pytest
from made_runs import make_run
from made_systems import pair_of, result, system
from stored_runs import note, series, text_of

from tprimat.analysis import intervals
from tprimat.compare import loss as module
from tprimat.compare.loss import Losses, losses
from tprimat.results.run import Data, Optimizer

C4 = Data(kind="c4", digest="ab")


def run_of(values, *, batch=64, length=2048, windows=None, steps=None, **fields):
    made = make_run(steps=0, warmup=(), batch=batch, length=length)
    known = series([1.0] * len(values), loss_values=tuple(values))
    if steps:
        known |= {"steps": tuple(steps), "window_steps": tuple(windows or [1] * len(steps))}
    return msgspec.structs.replace(made, **{**known, "data": C4, **fields})


class TestCurve:
    @pytest.mark.parametrize(
        ("run", "edges", "sums"),
        [
            # A step of 2 tokens: a loss is of the weights before its step.
            (
                run_of([4.0, 3.0, 5.0], batch=1, length=2),
                [-1.0, 1.0, 3.0, 5.0],
                [0.0, 8.0, 14.0, 24.0],
            ),
            # Without the second loss, the first holds as far as half-way to the third.
            (
                run_of([4.0, None, 3.0, 5.0], batch=1, length=2),
                [-2.0, 2.0, 5.0, 7.0],
                [0.0, 16.0, 25.0, 35.0],
            ),
            # One that averages steps is of their middle: 4 steps up to step 4, 2 up to 6, 2 up to
            # 8.
            (
                run_of([4.0, 3.0, 5.0], batch=1, length=2, steps=(4, 6, 8), windows=(4, 2, 2)),
                [0.0, 6.0, 11.0, 15.0],
                [0.0, 24.0, 39.0, 59.0],
            ),
        ],
    )
    def test_the_integral_of_a_loss(self, run, edges, sums):
        assert module._curve(result(run=run)) == (edges, sums)

    def test_of_samples(self):
        run = run_of([4.0, 3.0], batch=3, length=None)
        assert module._curve(result(run=run)) == note("losses-of-unknown-steps")
        assert module._curve(result(run=run, unit="samples")) == (
            [-1.5, 1.5, 4.5],
            [0.0, 12.0, 21.0],
        )
        assert module._curve(result(run=run_of([4.0, 3.0], batch=None), unit="samples")) == note(
            "losses-of-unknown-steps"
        )

    @pytest.mark.parametrize(
        ("values", "why"),
        [
            ([4.0], note("losses-absent")),
            ([4.0, None], note("losses-absent")),
            ([None, None], note("losses-absent")),
            # The last loss may lie as many records before the end as the longest gap before it.
            ([4.0, 3.0, None], None),
            ([4.0, 3.0, None, None], note("losses-end", step=2, last=4)),
            ([4.0, None, 3.0, 2.0, None, None], None),
            ([4.0, None, 3.0, 2.0, None, None, None], note("losses-end", step=4, last=7)),
        ],
    )
    def test_why_there_is_none(self, values, why):
        found = module._curve(result(run=run_of(values)))
        assert found == why if why else isinstance(found, tuple)


def few_losses(count, found):
    """The answer for a number of losses in the window, for any amount of work in it."""
    fields = {"share": 0.25, "work": found.note.fields["work"], "unit": "tokens"}
    return Losses(note("losses-few", **fields, losses=count, needed=20), "inconclusive")


def swing(count, mean, size, phase=0.0):
    """Losses that fall and swing."""
    return [
        mean * (1 + 4 / (10 + step)) + size * math.sin(2.4 * step + phase) for step in range(count)
    ]


def of(*values, name="A", samples=False, **fields):
    return system(
        name,
        *(
            result(run=run_of(each, **fields), unit="samples" if samples else "tokens")
            for each in values
        ),
    )


def integral(values, start, end):
    """The mean of losses, of a step each that is centred on its number, from one place to
    another.
    """
    total = 0.0
    for step, each in enumerate(values):
        total += each * max(0.0, min(step + 0.5, end) - max(step - 0.5, start))
    return total / (end - start)


class TestLosses:
    ONE, OTHER = swing(101, 3.0, 0.05), swing(101, 3.1, 0.06, 1.0)

    def grid(self, first=-0.5, end=100.5):
        start = end - 0.25 * (end - first)
        return [edge for edge in (step - 0.5 for step in range(102)) if start <= edge <= end]

    def expected(self, ones, others, transform):
        """Means and the difference of the error between runs or within them, by hand."""
        grid = self.grid()
        means = [[integral(each, grid[0], grid[-1]) for each in of] for of in (ones, others)]
        at = [int(edge + 0.5) for edge in grid[:-1]]
        per_step = [
            [statistics.fmean(each[step] for each in of) for step in at] for of in (ones, others)
        ]
        within = intervals.series_mean(
            [transform(b) - transform(a) for a, b in zip(*per_step, strict=True)]
        )
        between = intervals.difference(
            [transform(m) for m in means[1]], [transform(m) for m in means[0]]
        )
        return means, within, between

    @pytest.mark.parametrize("transform", [math.log, float])
    def test_of_single_runs_a_run_to_run_variation_is_assumed(self, transform):
        found = losses(pair_of(of(self.ONE), of(self.OTHER, name="B")), transform)
        means, within, between = self.expected([self.ONE], [self.OTHER], transform)
        assert between is None
        (one,), (other,) = means
        assert found.means == (pytest.approx(one), pytest.approx(other))
        scale = 1.0 if transform is math.log else (one + other) / 2
        error = math.hypot(within.error, 0.002 * scale * math.sqrt(2))
        assert found.difference.error == pytest.approx(error)
        assert found.difference.freedom == pytest.approx(
            within.freedom * (error / within.error) ** 4
        )
        assert found.difference.value == pytest.approx(within.value)
        assert (found.answer, found.difference.method) == ("inconclusive", "batches")
        assert found.note == note(
            "losses-averaged", share=0.25, work=13238272.0, unit="tokens", spread=0.002
        )

    def test_of_several_runs_the_larger_error_decides(self):
        ones = [self.ONE, [each * 1.001 for each in self.ONE], [each * 0.99 for each in self.ONE]]
        others = [self.OTHER, [each * 1.004 for each in self.OTHER]]
        found = losses(pair_of(of(*ones), of(*others, name="B")), math.log)
        means, within, between = self.expected(ones, others, math.log)
        assert found.means == (
            pytest.approx(statistics.fmean(means[0])),
            pytest.approx(statistics.fmean(means[1])),
        )
        half = {each: each.interval()[1] - each.value for each in (within, between)}
        larger = max(half, key=half.get)
        assert found.difference.method == larger.method
        assert found.difference.error == pytest.approx(larger.error)
        assert found.difference.value == pytest.approx(larger.value)
        assert found.note == note("losses-averaged", share=0.25, work=13238272.0, unit="tokens")

    def test_one_run_against_two_has_the_assumption_for_each(self):
        twos = [self.OTHER, [each * 1.0005 for each in self.OTHER]]
        found = losses(pair_of(of(self.ONE), of(*twos, name="B")), math.log)
        _, within, _ = self.expected([self.ONE], twos, math.log)
        assert found.difference.error == pytest.approx(
            math.hypot(within.error, 0.002 * math.sqrt(1 + 1 / 2))
        )

    def test_two_runs_against_one_have_it_too(self):
        twos = [self.ONE, [each * 1.0005 for each in self.ONE]]
        found = losses(pair_of(of(*twos), of(self.OTHER, name="B")), math.log)
        _, within, _ = self.expected(twos, [self.OTHER], math.log)
        assert found.difference.error == pytest.approx(
            math.hypot(within.error, 0.002 * math.sqrt(1 / 2 + 1))
        )

    def test_where_runs_hardly_vary_the_error_within_them_decides_as_it_is(self):
        ones, others = (
            [each, [loss * 1.00001 for loss in each]] for each in (self.ONE, self.OTHER)
        )
        found = losses(pair_of(of(*ones), of(*others, name="B")), math.log)
        _, within, between = self.expected(ones, others, math.log)
        assert between.interval()[1] - between.value < within.interval()[1] - within.value
        assert found.difference.error == pytest.approx(within.error)
        assert (found.difference.method, found.difference.freedom) == ("batches", within.freedom)

    def test_losses_below_one_are_losses(self):
        small = [[each / 9 for each in of_one] for of_one in (self.ONE, self.OTHER)]
        assert losses(pair_of(of(small[0]), of(small[1], name="B")), math.log).means is not None

    def test_equal_losses_have_no_difference(self):
        found = losses(pair_of(of(self.ONE), of(self.ONE, name="B")), math.log)
        mean = integral(self.ONE, self.grid()[0], self.grid()[-1])
        text = note("losses-averaged", share=0.25, work=13238272.0, unit="tokens", spread=0.002)
        assert found == Losses(
            text, "inconclusive", (pytest.approx(mean), pytest.approx(mean)), None
        )

    @pytest.mark.parametrize("unknown", [0, 1])
    def test_what_is_not_known_of_the_data_is_assumed(self, unknown):
        data = [C4, C4]
        data[unknown] = Data(kind="c4")
        one, other = (
            of(each, name=name, data=of_one)
            for each, name, of_one in zip((self.ONE, self.OTHER), "AB", data, strict=True)
        )
        found = losses(pair_of(one, other), math.log).note
        assert (found.code, found.fields["spread"]) == ("losses-averaged-of-unknown-data", 0.002)

    def test_only_what_both_trained_counts(self):
        # The second one goes on from step 41, and the first one ends at 101.
        late = run_of(swing(120, 3.1, 0.06), steps=range(41, 161))
        found = losses(pair_of(of(self.ONE), system("B", result(run=late))), math.log)
        assert found == few_losses(15, found)
        # From 39.5 to 100.5 there are 61 steps; the last quarter begins at 85.25.
        none = run_of(swing(120, 3.1, 0.06), steps=range(201, 321))
        found = losses(pair_of(of(self.ONE), system("B", result(run=none))), math.log)
        assert found == few_losses(0, found)

    @pytest.mark.parametrize(("steps", "is_known"), [(79, False), (80, True)])
    def test_twenty_losses_are_needed(self, steps, is_known):
        one, other = swing(steps, 3.0, 0.05), swing(steps, 3.1, 0.05)
        found = losses(pair_of(of(one), of(other, name="B")), math.log)
        assert (found.means is not None) is is_known
        if not is_known:
            assert found == few_losses(19, found)

    def test_the_coarsest_curve_gives_the_places(self):
        coarse = [statistics.fmean(self.ONE[4 * place : 4 * place + 4]) for place in range(25)]
        run = run_of(coarse, steps=range(4, 104, 4), windows=[4] * 25)
        found = losses(pair_of(of(self.ONE), system("B", result(run=run))), math.log)
        assert found == few_losses(6, found)

    def test_in_samples(self):
        one, other = (
            of(each, name=name, length=None, samples=True)
            for each, name in ((self.ONE, "A"), (self.OTHER, "B"))
        )
        found = losses(pair_of(one, other), math.log).note
        assert found == note(
            "losses-averaged", share=0.25, work=pytest.approx(6464), unit="samples", spread=0.002
        )

    @pytest.mark.parametrize("zero", [0.0, -3.0])
    def test_a_loss_of_nothing_or_less(self, zero):
        for place in (60, 90):
            values = [zero if step == place else each for step, each in enumerate(self.OTHER)]
            for systems in (
                (of(self.ONE), of(values, name="B")),
                (of(values), of(self.ONE, name="B")),
            ):
                found = losses(pair_of(*systems), math.log)
                assert (found == Losses(note("losses-not-positive"))) is (place == 90)

    @pytest.mark.parametrize("broken", ["A", "B"])
    def test_a_run_without_losses(self, broken):
        values = {"A": self.ONE, "B": self.OTHER}
        one, other = (
            of(values[name], [None, 3.0] if name == broken else values[name], name=name)
            for name in "AB"
        )
        assert losses(pair_of(one, other), math.log) == Losses(note("losses-absent", system=broken))

    def test_another_training(self):
        other = of(self.OTHER, name="B", data=Data(kind="c4", digest="cd"))
        assert losses(pair_of(of(self.ONE), other), math.log) == Losses(
            note("losses-not-comparable", why="different data (checksums differ)")
        )
        rates = [
            of(self.ONE, name=name, optimizer=Optimizer(learning_rate=each))
            for name, each in (("A", 0.1), ("B", 0.2))
        ]
        assert text_of(losses(pair_of(*rates), math.log)).startswith(
            "final_loss: learning rates differ: "
        )

    def test_what_is_too_strongly_autocorrelated_decides_nothing(self):
        drifting = [each * (1 + 1e-4 * step) for step, each in enumerate(self.ONE)]
        found = losses(pair_of(of(self.ONE), of(drifting, name="B")), math.log)
        why = note("losses-autocorrelated", share=0.25, work=13238272.0, unit="tokens")
        assert found == Losses(why, "inconclusive")
        assert np.ptp(drifting) > 1e-9
