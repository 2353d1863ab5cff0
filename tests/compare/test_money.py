"""Tokens per dollar, break-even, and the price at which the other side wins."""

from __future__ import annotations

import pytest
from made_runs import MI300X, comparison, failed_run, make_run

from tprimat.compare import money
from tprimat.errors import UsageError

AMD = {"device": MI300X, "stack": "rocm"}


def priced(*runs, cost, **options):
    return money.with_prices(comparison(*runs), cost, **options)


def cost_of(found):
    return money.cost(found, found.models[0].pairs[0])


def test_break_even_needs_no_price():
    found = cost_of(comparison(make_run(), make_run(**AMD, step_time=1.6)))
    assert found.break_even == (pytest.approx(2.0), pytest.approx(2.0))
    assert (found.per_dollar, found.winner, found.wins_below) == (None, None, None)


def test_the_dearer_one_may_win():
    found = cost_of(priced(make_run(), make_run(**AMD, step_time=1.6), cost=["2", "3"]))
    assert found.per_dollar[0] == pytest.approx(2 / 1.5)
    assert found.winner.gpu == MI300X
    # The H100 is half as fast, so it wins below half of the other's price.
    assert found.wins_below[0] == pytest.approx(1.5)
    assert found.other.name == "8×H100 80GB HBM3"


def test_the_faster_one_may_lose():
    found = cost_of(priced(make_run(), make_run(**AMD, step_time=1.6), cost=["2", "5"]))
    assert found.winner.name == "8×H100 80GB HBM3"
    assert found.wins_below[0] == pytest.approx(4)


def test_a_range_of_prices_may_hold_both():
    found = cost_of(priced(make_run(), make_run(**AMD, step_time=1.6), cost=["2", "3:5"]))
    assert found.per_dollar == (pytest.approx(0.8), pytest.approx(4 / 3))
    assert (found.winner, found.wins_below) == (None, None)


def test_levels_are_bounds():
    levelled = make_run(**AMD, steps=300, warmup=(20.0, *[2.0] * 149), step_time=1.6)
    found = cost_of(comparison(make_run(), levelled))
    assert found.break_even == (pytest.approx(1.6, rel=0.01), pytest.approx(2.0, rel=0.01))


def test_what_isnt_compared_costs_nothing():
    found = comparison(make_run(), failed_run())
    assert money.cost(found, found.models[0].pairs[0]) is None
    assert money.efficiencies(found, found.models[0].sides[1]) == ()


def test_refused_figures_are_worth_nothing():
    found = comparison(make_run(step_time=0.3))
    assert found.models[0].sides[0].refusal is not None
    assert money.efficiencies(found, found.models[0].sides[0]) == ()


def test_prices_are_in_the_order_of_the_table_and_their_source_is_told():
    found = priced(make_run(), make_run(**AMD), cost=["1", "2"], source="a list", date="2026-05")
    assert found.prices["8×H100 80GB HBM3"].low == 1
    assert found.notes[-1] == "prices per GPU-hour as given on the command line (a list, 2026-05)"
    assert "no source given, no date given" in priced(make_run(), cost=["1"]).notes[-1]


def test_another_count_is_wrong():
    with pytest.raises(UsageError, match="1 price for 2 sides"):
        priced(make_run(), make_run(**AMD), cost=["1"])
