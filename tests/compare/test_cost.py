"""Cost per token, break-even, and the price at which the other system costs the same."""

from __future__ import annotations

import msgspec
import pytest
from made_runs import H100, MI300X, comparison, failed_run, make_run
from stored_runs import texts_of

from tprimat.compare.cost import cost, efficiencies, outcomes, with_prices
from tprimat.errors import UsageError
from tprimat.report.costs import cost_sentence, forms

AMD = {"device": MI300X, "stack": "rocm"}


def priced(*runs, cost, **options):
    return with_prices(comparison(*runs), cost, **options).comparison


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
        assert (
            cost_sentence(cost_of(found), found.prices)
            == "8×MI300X (BF16) at $3.00 is 25% cheaper per token than 8×H100 (BF16) at $2.00; "
            "break-even price of 8×H100 (BF16): $1.50 per GPU-hour"
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
    found = priced(
        make_run(), make_run(**AMD, step_time=1.6), cost=["1", "2"], source="a list", date="2026-05"
    )
    assert found.prices["8×H100 (BF16)"].low == 1
    stated, order = texts_of(found.notes)[-2:]
    assert stated == "prices per GPU-hour from the command line (a list, 2026-05)"
    assert order.startswith(
        "prices are in the order of the files, not of the table: 8×H100 (BF16) $1.00"
    )
    assert "no source given, undated" in texts_of(priced(make_run(), cost=["1"]).notes)[-1]


def test_another_count_is_wrong():
    with pytest.raises(UsageError, match="1 price for 2 systems"):
        priced(make_run(), make_run(**AMD), cost=["1"])


class TestByHand:
    """USD per GPU-hour to USD per 10⁹ and 10¹² tokens: made without the package's formulas, from
    GPU-seconds.
    """

    @pytest.mark.parametrize(
        ("price", "batch", "length", "gpus", "step_time", "billion"),
        [
            # One GPU, 1000 tokens per second: 10⁹ tokens take 10⁶ s = 277.78 h.
            ("1", 1, 1000, 1, 1.0, 277.7778),
            ("2.95", 1, 1000, 1, 1.0, 819.4444),
            ("3.6", 1, 1000, 1, 1.0, 1000.0),
            # The number of GPUs multiplies the hours: eight GPUs at 8000 tokens per second cost as
            # much as one at 1000.
            ("1", 8, 1000, 8, 1.0, 277.7778),
            # 64 × 2048 = 131,072 tokens in 3.2 s on 8 GPUs: 5,120 tokens/s/GPU, 195,312.5 s =
            # 54.2535 GPU-hours.
            ("2.95", 64, 2048, 8, 3.2, 160.0477),
            ("1.99", 64, 2048, 8, 1.6, 53.9822),
            # 16 × 8192 in 456 ms on 8 GPUs: 35,929.8 tokens/s/GPU, 7.73111 GPU-hours.
            ("5.50", 16, 8192, 8, 0.456, 42.5211),
            ("3.95", 32, 8192, 8, 1.044, 34.9579),
            # 1,024 GPUs: 2048 × 4096 tokens in 10 s are 819.2 tokens/s/GPU, 339.084 GPU-hours.
            ("12", 2048, 4096, 1024, 10.0, 4069.0104),
            ("0.125", 4, 128, 2, 0.5, 67.8168),
        ],
    )
    def test_cost_of_tokens(self, price, batch, length, gpus, step_time, billion):
        run = make_run(
            "NVIDIA B200",
            precision="fp4",
            batch=batch,
            length=length,
            gpus=gpus,
            warmup=(),
            steps=200,
        )
        run = msgspec.structs.replace(run, step_times=(step_time,) * 200)
        found = priced(run, cost=[price])
        (system,) = found.models[0].systems
        (values,) = (each.values for each in efficiencies(found, system))
        assert values["dollars_per_billion_tokens"].value == pytest.approx(billion, rel=1e-5)
        assert values["dollars_per_trillion_tokens"].value == pytest.approx(
            1000 * billion, rel=1e-5
        )
        assert values["tokens_per_dollar"].value == pytest.approx(1e9 / billion, rel=1e-5)


class TestOutcomes:
    """The rule as linear forms of the prices, from which the page's script computes the reader's
    answer.
    """

    @pytest.mark.parametrize(
        ("fast", "slow", "faster_is_cheaper"),
        [
            # 1.5 to 2 times as fast: cheaper below 1.5 times the price, more expensive above twice
            # the price.
            ((2.99, 2.99), (2, 2), True),
            ((3, 3), (2, 2), None),
            ((4, 4), (2, 2), None),
            ((4.01, 4.01), (2, 2), False),
            ((1, 2.99), (2, 3), True),
            ((1, 3.01), (2, 3), None),
        ],
    )
    def test_which_one_is_cheaper(self, fast, slow, faster_is_cheaper):
        prices = (*fast, *slow)
        held = [each for each in outcomes(1.5, 2.0) if of(each.below_zero, prices) < 0]
        assert [each.faster_is_cheaper for each in held] == (
            [] if faster_is_cheaper is None else [faster_is_cheaper]
        )

    def test_what_is_saved_and_where_costs_are_equal(self):
        faster, slower = outcomes(1.5, 2.0)
        prices = (2.0, 2.4, 2.0, 3.0)
        saved = [1 - of(part, prices) / of(whole, prices) for part, whole in faster.savings]
        assert saved == [pytest.approx(1 - 2.4 / (2.0 * 1.5)), pytest.approx(1 - 2.0 / (3.0 * 2.0))]
        assert [of(form, prices) for form in faster.break_even] == [
            pytest.approx(1.0),
            pytest.approx(1.6),
        ]
        prices = (8.0, 9.0, 2.0, 3.0)
        saved = [1 - of(part, prices) / of(whole, prices) for part, whole in slower.savings]
        assert saved == [pytest.approx(1 - 3.0 * 2.0 / 8.0), pytest.approx(1 - 2.0 * 1.5 / 9.0)]
        assert [of(form, prices) for form in slower.break_even] == [3.0, 6.0]


def of(form, prices):
    return sum(factor * price for factor, price in zip(form, prices, strict=True))


@pytest.mark.parametrize(
    ("prices", "text"),
    [
        # Twice as fast.
        (["2", "3.9985"], None),
        (
            ["2", "3.9975"],
            (
                "0.06% cheaper per token than 8×H100 (BF16) at $2.00; break-even price of 8×H100"
                " (BF16): $2.00"
            ),
        ),
        (["2", "4.0015"], None),
        (
            ["2", "4.0025"],
            "0.06% cheaper per token than 8×MI300X (BF16) at $4.0025; break-even price of",
        ),
        (["2", "3.964"], " 0.9% cheaper"),
        (["2", "3.956"], " 1% cheaper"),
        (["2", "0.0204"], " 99% cheaper"),
        (["2", "0.0196"], " >99% cheaper"),
        (["0.1998", "0.0004"], "break-even price of 8×H100 (BF16): $0.0002 per GPU-hour"),
        (["0.3", "0.19"], "break-even price of 8×H100 (BF16): $0.095 per GPU-hour"),
        (["0.3", "0.21"], "break-even price of 8×H100 (BF16): $0.10 per GPU-hour"),
        (["0.0005"], "at $0.0005, 8×MI300X (BF16) is cheaper per token below $0.001"),
    ],
)
def test_what_is_not_nothing_is_not_written_as_nothing(prices, text):
    cost = prices if len(prices) > 1 else [f"H100={prices[0]}"]
    found = priced(make_run(), make_run(**AMD, step_time=1.6), cost=cost)
    assert (text or "no significant difference in cost per token") in cost_sentence(
        cost_of(found), found.prices
    )


def test_a_name_that_looks_like_a_slot_stays_a_name():
    found = priced(make_run(label="{saving}"), make_run(**AMD, step_time=1.6), cost=["2", "3"])
    held = forms(cost_of(found))["outcomes"][0]["text"]
    assert {"slot": "saving"} in held
    assert any("{saving}" in piece for piece in held if isinstance(piece, str))
    assert "{saving}" in cost_sentence(cost_of(found), found.prices)


@pytest.mark.parametrize(
    ("cost", "ordered", "problem"),
    [
        (["H100=2", "3"], False, "not both"),
        (["H100=2", "3"], True, "not both"),
        (["2", "3"], False, "have no order"),
    ],
)
def test_prices_with_and_without_names(cost, ordered, problem):
    with pytest.raises(UsageError) as raised:
        priced(make_run(), make_run(**AMD), cost=cost, ordered=ordered)
    assert problem in raised.value.problem


@pytest.mark.parametrize(("number", "price"), [(0, "MI300X=3"), (1, "H100=2"), (1, "H100=2:3")])
def test_the_page_s_sentence_with_one_price_is_that_of_the_commands(number, price):
    found = priced(make_run(), make_run(**AMD, step_time=1.6), cost=[price])
    held, (known,) = forms(cost_of(found)), found.prices.values()
    prices = [0, 0, 0, 0]
    prices[2 * number : 2 * number + 2] = known.low, known.high
    low, high = (f"${of(form, prices):.2f}" for form in held["outcomes"][number]["even"])
    values = {"price": str(known), "low": low, "high": high}
    pieces = [*held["one"][number], *(held["above"] if low != high else [])]
    text = "".join(each if isinstance(each, str) else values[each["slot"]] for each in pieces)
    assert text == cost_sentence(cost_of(found), found.prices)
