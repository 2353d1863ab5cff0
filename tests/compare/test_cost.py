"""Cost per token, break-even, and the price at which the other system costs the same."""

from __future__ import annotations

import pytest
from made_runs import H100, MI300X, comparison, failed_run, make_run

from tprimat.compare.cost import cost, efficiencies, with_prices
from tprimat.errors import UsageError
from tprimat.report.verdict import cost_sentence

AMD = {"device": MI300X, "stack": "rocm"}


def priced(*runs, cost, **options):
    return with_prices(comparison(*runs), cost, **options)


def cost_of(found):
    return cost(found, found.models[0].pairs[0])


def test_break_even_needs_no_price():
    found = cost_of(comparison(make_run(), make_run(**AMD, step_time=1.6)))
    assert found.break_even == (pytest.approx(2.0), pytest.approx(2.0))
    assert (found.cheaper, found.saving, found.break_even_price) == (None, None, None)


@pytest.mark.parametrize("turned", [False, True])
def test_the_dearer_gpu_may_be_cheaper_per_token(turned):
    runs = (make_run(), make_run(**AMD, step_time=1.6))
    found = cost_of(priced(*(runs[::-1] if turned else runs), cost=["H100=2", "MI300X=3"]))
    assert found.cheaper.gpu == MI300X
    # Twice as fast at 1.5 times the price: a token costs a quarter less.
    assert found.saving == (pytest.approx(0.25), pytest.approx(0.25))
    # The H100 is half as fast, so it costs the same at half of the other's price.
    assert found.break_even_price[0] == pytest.approx(1.5)
    assert found.dearer.gpu == H100


@pytest.mark.parametrize("turned", [False, True])
def test_the_faster_one_may_be_dearer(turned):
    runs = (make_run(), make_run(**AMD, step_time=1.6))
    found = cost_of(priced(*(runs[::-1] if turned else runs), cost=["H100=2", "MI300X=5"]))
    assert found.cheaper.gpu == H100
    assert found.saving[0] == pytest.approx(0.2)
    assert found.break_even_price[0] == pytest.approx(4)
    assert found.dearer.gpu == MI300X


def test_a_range_of_prices_may_include_both():
    found = cost_of(priced(make_run(), make_run(**AMD, step_time=1.6), cost=["2", "3:5"]))
    assert (found.cheaper, found.saving, found.break_even_price) == (None, None, None)


def test_the_sentence_names_each_price_with_its_system():
    for prices in (["H100=2", "MI300X=3"], ["MI300X=3", "H100=2"]):
        found = priced(make_run(), make_run(**AMD, step_time=1.6), cost=prices)
        assert cost_sentence(cost_of(found), found.prices) == (
            "8×MI300X (BF16) at $3.00 is 25% cheaper per token than 8×H100 80GB HBM3 (BF16) at $2.00; "
            "break-even price of 8×H100 80GB HBM3 (BF16): $1.50 per GPU-hour"
        )


def test_segments_are_bounds():
    changed = make_run(**AMD, steps=300, warmup=(20.0, *[2.0] * 149), step_time=1.6)
    found = cost_of(comparison(make_run(), changed))
    assert found.break_even == (pytest.approx(1.6, rel=0.01), pytest.approx(2.0, rel=0.01))


def test_what_isnt_compared_costs_nothing():
    found = comparison(make_run(), failed_run())
    assert cost(found, found.models[0].pairs[0]) is None
    assert efficiencies(found, found.models[0].systems[1]) == ()


def test_refused_figures_are_worth_nothing():
    found = comparison(make_run(step_time=0.3))
    assert found.models[0].systems[0].exclusion is not None
    assert efficiencies(found, found.models[0].systems[0]) == ()


def test_prices_are_in_the_order_of_the_files_and_their_source_is_told():
    found = priced(make_run(), make_run(**AMD, step_time=1.6), cost=["1", "2"], source="a list", date="2026-05")
    assert found.prices["8×H100 80GB HBM3 (BF16)"].low == 1
    assert found.notes[-1] == "prices per GPU-hour from the command line (a list, 2026-05)"
    assert "no source given, no date given" in priced(make_run(), cost=["1"]).notes[-1]


def test_another_count_is_wrong():
    with pytest.raises(UsageError, match="1 price for 2 systems"):
        priced(make_run(), make_run(**AMD), cost=["1"])
