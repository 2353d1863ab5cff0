"""Prices of systems, the notes on those that fit none, and the cost of a pair, in full."""

from __future__ import annotations

import dataclasses

import pytest
from made_runs import MI300X, comparison, make_run
from made_systems import finding_of, pair_of, result, system
from stored_runs import note, notes_of

from tprimat.analysis import efficiency
from tprimat.analysis.efficiency import Options
from tprimat.catalog.prices import Price
from tprimat.compare.cost import PairCost, _file_of, cost, efficiencies, outcomes, with_prices
from tprimat.compare.result import Comparison, Ratio
from tprimat.errors import UsageError
from tprimat.results.run import Source

AMD = {"device": MI300X, "stack": "rocm"}


def priced(runs, *arguments, **options):
    found = with_prices(comparison(*runs), arguments, **options).comparison
    return found.prices, found.notes


FAST, SLOW = make_run(step_time=1.6), make_run(**AMD)


@pytest.mark.parametrize(
    ("runs", "arguments", "options", "prices", "notes"),
    [
        # In the order of the table no order is told.
        (
            (FAST, SLOW),
            ["2", "3"],
            {},
            {"8×H100 (BF16)": Price(2, 2), "8×MI300X (BF16)": Price(3, 3)},
            [note("prices-given", source="no source given", date="undated")],
        ),
        (
            (SLOW, FAST),
            ["2,3:4"],
            {"source": "a list", "date": "2026-05"},
            {"8×MI300X (BF16)": Price(2, 2), "8×H100 (BF16)": Price(3, 4)},
            [
                note("prices-given", source="a list", date="2026-05"),
                (
                    note(
                        "prices-in-order-of-files",
                        prices=("8×MI300X (BF16) $2.00", "8×H100 (BF16) $3.00 to $4.00"),
                    )
                ),
            ],
        ),
        (
            (SLOW, FAST),
            ["H100=3", "MI300X=2"],
            {},
            {"8×MI300X (BF16)": Price(2, 2), "8×H100 (BF16)": Price(3, 3)},
            [note("prices-given", source="no source given", date="undated")],
        ),
        # A system that is called otherwise is found by its GPU, and by all that is known of it.
        (
            (make_run(precision="fp8"), make_run(label="new", precision="fp8", step_time=2.0)),
            ["H100=3"],
            {"ordered": False},
            {"8×H100": Price(3, 3), "new": Price(3, 3)},
            [note("prices-given", source="no source given", date="undated")],
        ),
        # Prices that fit none, with the files of systems whose GPU nobody states.
        (
            (FAST, SLOW),
            ["H100=2", "B200=3"],
            {},
            {"8×H100 (BF16)": Price(2, 2)},
            [
                note("prices-given", source="no source given", date="undated"),
                (
                    note(
                        "prices-of-no-system",
                        systems=("8×H100 (BF16)", "8×MI300X (BF16)"),
                        names="'B200'",
                        prices_are="its price is",
                    )
                ),
            ],
        ),
        (
            (FAST, SLOW),
            ["A100=1", "B200=3", "H100=2"],
            {},
            {"8×H100 (BF16)": Price(2, 2)},
            [
                note("prices-given", source="no source given", date="undated"),
                (
                    note(
                        "prices-of-no-system",
                        systems=("8×H100 (BF16)", "8×MI300X (BF16)"),
                        names="'A100' or 'B200'",
                        prices_are="their prices are",
                    )
                ),
            ],
        ),
        (
            (FAST, make_run(None)),
            ["H100=2", "B200=3", "MI300X=4"],
            {},
            {"8×H100 (BF16)": Price(2, 2)},
            [
                note("prices-given", source="no source given", date="undated"),
                (
                    note(
                        "price-of-unnamed-gpu",
                        gpu="results/file_2.json=B200",
                        names="'B200'",
                        prices_are="its price is",
                    )
                ),
                (
                    note(
                        "prices-of-no-system",
                        systems=("8×H100 (BF16)", "8× unknown GPU (BF16)"),
                        names="'MI300X'",
                        prices_are="its price is",
                    )
                ),
            ],
        ),
        # In a directory a single system needs no name.
        (
            (FAST,),
            ["2"],
            {"ordered": False},
            {"8×H100 (BF16)": Price(2, 2)},
            [note("prices-given", source="no source given", date="undated")],
        ),
    ],
)
def test_prices_and_notes(runs, arguments, options, prices, notes):
    found, told = priced(runs, *arguments, **options)
    assert (found, told) == (prices, tuple(notes))


def test_notes_come_after_those_of_the_comparison():
    found = with_prices(comparison(FAST, notes=notes_of("first")), ["2"]).comparison
    assert found.notes == (
        note("text", text="first"),
        note("prices-given", source="no source given", date="undated"),
    )


def test_five_systems_are_named_at_most():
    runs = [make_run(label=f"run {number}", step_time=3 + number / 10) for number in range(6)]
    _, notes = priced(runs, "B200=2")
    assert notes[-1].fields["systems"] == tuple(f"run {number}" for number in range(5))


@pytest.mark.parametrize(
    ("runs", "arguments", "hint"),
    [
        ((FAST, SLOW), ["2", "3"], "--cost H100=2 MI300X=3"),
        ((FAST, SLOW), ["2"], "--cost H100=2 MI300X=USD"),
        ((FAST, SLOW), ["2,3,4"], "--cost H100=2 MI300X=3"),
        # Where the GPU isn't enough, the whole name.
        ((FAST, make_run(gpus=16)), ["2", "3"], "--cost '8×H100 (BF16)=2' '16×H100 (BF16)=3'"),
        ((FAST, make_run(None)), ["2", "3"], "--cost H100=2 '8× unknown GPU (BF16)=3'"),
    ],
)
def test_the_files_of_a_directory_have_no_order(runs, arguments, hint):
    with pytest.raises(UsageError) as raised:
        priced(runs, *arguments, ordered=False)
    assert (raised.value.problem, raised.value.hint, raised.value.heading) == (
        "--cost: the files of a directory have no order for prices without names",
        f"give each price to its system: {hint}",
        "wrong-cost",
    )


def test_what_is_no_price_is_said_to_be_none():
    with pytest.raises(UsageError) as raised:
        priced((FAST, SLOW), "2", "many", ordered=False)
    assert "have no order" not in raised.value.problem


def unnamed(file, *, stack=None, platform=None):
    config = {} if platform is None else {"submission_platform": platform}
    return result(run=make_run(None, stack=stack, framework_config=config), file=file)


@pytest.mark.parametrize(
    ("name", "results", "file"),
    [
        ("B200", [], None),
        # The first file that names no other GPU; one that says the name wins.
        ("B200", [unnamed("a.log"), unnamed("b.log")], "a.log"),
        ("B200", [unnamed("h100.log"), unnamed("b.log"), unnamed("c.log")], "b.log"),
        ("B200", [unnamed("a.log"), unnamed("run_b200.log"), unnamed("B200.log")], "run_b200.log"),
        ("B200", [unnamed("8xB200.log")], "8xB200.log"),
        ("B200", [unnamed("a.log"), unnamed("b.log", platform="8x B200 node")], "b.log"),
        ("B200", [unnamed("h100.log"), unnamed("b.log", platform="MI300X")], None),
        ("b200 node", [unnamed("a.log"), unnamed("b200.log")], "b200.log"),
        # Whole words alone: GB200 is no B200, and B200x is no name of a GPU.
        ("B200", [unnamed("b200x.log")], "b200x.log"),
        ("B200", [unnamed("a.log"), unnamed("xb200.log")], "a.log"),
        # A stack on which the GPU doesn't run.
        ("B200", [unnamed("b200.log", stack="rocm"), unnamed("c.log")], "c.log"),
        ("MI300X", [unnamed("mi300x.log", stack="cuda"), unnamed("c.log", stack="rocm")], "c.log"),
        ("MI300X", [unnamed("c.log", stack="cuda")], None),
    ],
)
def test_the_file_that_may_be_from_a_gpu(name, results, file):
    assert _file_of(name, results) == file


def compared(**prices):
    return Comparison(
        (), (), (), (), (), prices={name: Price(*price) for name, price in prices.items()}
    )


A, B = system("A"), system("B", gpu=MI300X)
TWICE = Ratio(2.0, 1.5, 2.5)
FASTER, SLOWER = outcomes(1.5, 2.5)


class TestCost:
    @pytest.mark.parametrize(
        ("fields", "known"),
        [
            ({"ratio": None}, False),
            ({"ratio": TWICE}, True),
            ({"ratio": TWICE, "is_short": True}, False),
            ({"ratio": Ratio(2.0, None, None, is_too_wide=True)}, False),
        ],
    )
    def test_of_a_pair_that_is_compared(self, fields, known):
        for prices in ({}, {"A": (1.0, 1.0), "B": (1.0, 1.0)}):
            assert (cost(compared(**prices), pair_of(A, B, **fields)) is not None) is known

    def test_break_even_needs_no_price(self):
        pair = pair_of(A, B, ratio=TWICE)
        assert cost(compared(), pair) == PairCost(pair, (1.5, 2.5))
        assert cost(compared(A=(1.0, 1.0)), pair) == PairCost(pair, (1.5, 2.5))
        assert cost(compared(B=(1.0, 1.0)), pair) == PairCost(pair, (1.5, 2.5))
        turned = pair_of(A, B, ratio=Ratio(0.5, 0.4, 0.8))
        assert cost(compared(), turned) == PairCost(turned, (1.25, 2.5))

    @pytest.mark.parametrize(
        ("fields", "known"),
        [({"gpu": A.gpu}, False), ({"gpu": A.gpu, "count": 16}, True), ({"count": 8}, True)],
    )
    def test_of_the_same_gpus_prices_are_needed(self, fields, known):
        pair = pair_of(A, dataclasses.replace(B, **fields), ratio=TWICE)
        assert (cost(compared(), pair) is not None) is known
        assert cost(compared(A=(1.0, 1.0), B=(1.0, 1.0)), pair) is not None

    @pytest.mark.parametrize("turned", [False, True])
    def test_the_faster_one_is_cheaper(self, turned):
        pair = (
            pair_of(B, A, ratio=Ratio(0.5, 0.4, 1 / 1.5)) if turned else pair_of(A, B, ratio=TWICE)
        )
        found = cost(compared(A=(4.0, 5.0), B=(2.0, 3.0)), pair)
        # At least 1.5 times as fast for 3 instead of 4; at most 2.5 times as fast for 2 instead of
        # 5.
        assert (found.cheaper, found.dearer) == (B, A)
        assert found.saving == (pytest.approx(1 - 3 / (4 * 1.5)), pytest.approx(1 - 2 / (5 * 2.5)))
        assert found.break_even_price == (pytest.approx(2 / 2.5), pytest.approx(3 / 1.5))
        assert found.break_even == pytest.approx((1.5, 2.5))
        assert found.outcome.faster_is_cheaper is True

    @pytest.mark.parametrize("turned", [False, True])
    def test_the_slower_one_is_cheaper(self, turned):
        pair = (
            pair_of(B, A, ratio=Ratio(0.5, 0.4, 1 / 1.5)) if turned else pair_of(A, B, ratio=TWICE)
        )
        found = cost(compared(A=(1.0, 2.0), B=(6.0, 7.0)), pair)
        assert (found.cheaper, found.dearer) == (A, B)
        assert found.saving == (pytest.approx(1 - 2 * 2.5 / 6), pytest.approx(1 - 1 * 1.5 / 7))
        assert found.break_even_price == (pytest.approx(1 * 1.5), pytest.approx(2 * 2.5))
        assert found.outcome.faster_is_cheaper is False

    @pytest.mark.parametrize(
        ("prices", "is_faster"),
        [
            ((2.0, 2.998), True),
            ((2.0, 2.9985), None),
            ((2.0, 5.0), None),
            ((2.0, 5.0025), None),
            ((2.0, 5.003), False),
        ],
    )
    def test_a_saving_of_less_than_a_twentieth_of_a_percent_is_a_tie(self, prices, is_faster):
        slow, fast = prices
        found = cost(compared(A=(slow, slow), B=(fast, fast)), pair_of(A, B, ratio=TWICE))
        assert (found.outcome and found.outcome.faster_is_cheaper) is is_faster
        assert (found.saving is None, found.cheaper is None) == (is_faster is None,) * 2
        assert found.break_even == (1.5, 2.5)
        assert found.dearer is (A if is_faster else B)


@pytest.mark.parametrize(("low", "high"), [(1.5, 2.5)])
def test_outcomes_as_forms_of_the_prices(low, high):
    # Prices are those of the faster one, low and high, and of the slower one.
    assert FASTER.below_zero == (0.0, 1.0, pytest.approx(-0.9995 * low), 0.0)
    assert FASTER.savings == (((0, 1, 0, 0), (0, 0, low, 0)), ((1, 0, 0, 0), (0, 0, 0, high)))
    assert FASTER.break_even == (
        (pytest.approx(1 / high), 0, 0, 0),
        (0, pytest.approx(1 / low), 0, 0),
    )
    assert SLOWER.below_zero == (pytest.approx(-0.9995), 0.0, 0.0, high)
    assert SLOWER.savings == (((0, 0, 0, high), (1, 0, 0, 0)), ((0, 0, low, 0), (0, 1, 0, 0)))
    assert SLOWER.break_even == ((0, 0, low, 0), (0, 0, 0, high))
    assert (FASTER.faster_is_cheaper, SLOWER.faster_is_cheaper) == (True, False)


class TestEfficiencies:
    def of(self, *results, name="A", findings=(), **options):
        prices = {"A": Price(3.0, 5.0)}
        made = Comparison((), (), (), (), (), prices=prices, options=Options(**options))
        return efficiencies(made, system(name, *results, findings=findings))

    def test_of_a_price_and_an_option(self):
        (found,) = self.of(result(250.0))
        # 10⁹ tokens at 250 tokens/s/GPU are 1111.1 GPU-hours of 4 USD.
        assert found.values["dollars_per_billion_tokens"].value == pytest.approx(
            1e9 / 250 / 3600 * 4
        )
        (without,) = self.of(result(250.0), name="B")
        assert "dollars_per_billion_tokens" not in without.values
        (assumed,) = self.of(result(250.0), tdp_energy=True)
        assert assumed.values != found.values

    def test_of_what_has_no_values_or_is_excluded_there_is_none(self):
        assert self.of(result(is_valid=False)) == ()
        assert self.of(result(), findings=(finding_of("error", "x", "y"),)) == ()
        assert len(self.of(result(), findings=(finding_of("warning", "x", "y"),))) == 1

    def test_of_runs_in_samples_the_rates_are_those(self):
        run = make_run(length=None, framework="mlperf", source=Source(kind="log"))
        (in_samples,) = self.of(
            result(None, run, unit="samples", performance={"avg_step_time_seconds": 2.0})
        )
        (in_tokens,) = self.of(result(None, run, performance={"avg_step_time_seconds": 2.0}))
        token = result(250.0)
        assert self.of(token) == (
            efficiency.of_runs([token.run], [token.summary], Options(price=Price(3.0, 5.0))),
        )
        given = {
            name: each.value for name, each in in_samples.values.items() if each.value is not None
        }
        assert given != {
            name: each.value for name, each in in_tokens.values.items() if each.value is not None
        }
