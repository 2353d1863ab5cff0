"""What is typed after --cost."""

from __future__ import annotations

import pytest

from tprimat.catalog.prices import Price, parse
from tprimat.errors import UsageError

SIDES = (
    "8×MI300X, batch 64×2048",
    "8×H100 80GB HBM3, batch 64×2048",
    "8×H100 80GB HBM3, batch 8×8192",
)


def priced(arguments, names=SIDES):
    """Return prices of which each has its system."""
    prices, absent = parse(arguments, names)
    assert not absent
    return prices


def test_one_price_for_each_side_in_order():
    assert priced(["1.99", "2.95", "$3"]) == dict(
        zip(SIDES, (Price(1.99, 1.99), Price(2.95, 2.95), Price(3, 3)), strict=True)
    )


@pytest.mark.parametrize("typed", [["1.99", "2.95"], ["1"], ["1", "2", "3", "4"]])
def test_another_count_is_refused_with_the_order(typed):
    with pytest.raises(
        UsageError,
        match=(
            rf"--cost: {len(typed)} prices? for 3 systems: give one price per system, in this order"
        ),
    ):
        parse(typed, SIDES)


def test_a_name_is_meant_for_all_sides_that_it_fits():
    assert priced(["MI300X=1.99", "h100=2.20:3.10"]) == {
        SIDES[0]: Price(1.99, 1.99),
        SIDES[1]: Price(2.2, 3.1),
        SIDES[2]: Price(2.2, 3.1),
    }


def test_commas_separate_too():
    assert len(priced(["1,2,3"])) == 3
    assert len(priced(["MI300X=1,H100=2"])) == 3


@pytest.mark.parametrize(
    "typed",
    [
        ["micro-batch 8, torch.compile=3", "micro-batch 8, eager=2", "8×H100, run, 2 (BF16)=1"],
        ["micro-batch 8, torch.compile=3,micro-batch 8, eager=2,8×H100, run, 2 (BF16)=1"],
        ["torch.compile=3,eager=2", "H100=1"],
    ],
)
def test_a_comma_in_a_name_does_not_separate(typed):
    names = ("micro-batch 8, torch.compile", "micro-batch 8, eager", "8×H100, run, 2 (BF16)")
    prices, absent = parse(typed, names)
    assert list(map(str, (prices[name] for name in names))) == ["$3.00", "$2.00", "$1.00"]
    assert not absent


def test_a_whole_word_counts_before_a_part_of_one():
    assert set(priced(["H200=3"], ("8×GH200 480GB", "8×H200"))) == {"8×H200"}
    assert set(priced(["8xH200=3"], ("8×GH200 480GB", "8×H200"))) == {"8×H200"}
    # Both are of one GPU.
    assert set(priced(["8×H200=3"], ("8×H200", "8×H200, torch 3"))) == {"8×H200", "8×H200, torch 3"}
    assert set(priced(["MI300=1"])) == {SIDES[0]}


@pytest.mark.parametrize("typed", [["H200=3", "8×H200 slow=4"], ["8×H200 slow=4", "H200=3"]])
def test_a_price_for_a_whole_name_wins_over_one_for_a_part(typed):
    assert {
        name: price.low for name, price in priced(typed, ("8×H200", "8×H200 slow")).items()
    } == {
        "8×H200": 3,
        "8×H200 slow": 4,
    }


@pytest.mark.parametrize("typed", [["H200=3", "H200=4"], ["8×H200=3", "8xH200=4"]])
def test_two_prices_for_one_name_are_refused(typed):
    with pytest.raises(UsageError, match="8×H200 has two prices"):
        parse(typed, ("8×H200",))


def test_a_gpus_name_means_its_systems_whatever_other_tables_call_theirs():
    # One model's table calls a system by its GPU alone, another one by its precision, and one by
    # what all know.
    names, known = (
        ("MI355X", "8×MI355X (FP8)", "micro-batch 2"),
        {"micro-batch 2": "AMD Instinct MI355X, micro-batch 2"},
    )
    assert parse(["MI355X=3.95"], names, known) == (dict.fromkeys(names, Price(3.95, 3.95)), [])


@pytest.mark.parametrize("name", ["B200", "200", "GB20", "GB2"])
def test_a_part_within_a_word_is_another_gpu(name):
    assert parse([f"{name}=3"], ("8×GB200", "8×MI355X")) == ({}, [name])
    assert (
        parse([f"{name}=3", "GB200=6"], ("8×GB200", "8×B200", "8×GB2", "4×GB20", "2×200"))[1] == []
    )


def test_another_gpu_of_a_longer_name_is_not_meant():
    assert parse(["B200=5", "H200=4"], ("8×GB200", "8×GH200 480GB")) == ({}, ["B200", "H200"])


@pytest.mark.parametrize("name", ["B200", "", "H1"])
def test_a_name_that_fits_no_system_has_no_price(name):
    prices, absent = parse([f"{name}=3", "MI300X=2"], SIDES)
    assert absent == [name]
    assert len(prices) == 1
    with pytest.raises(UsageError, match="'free' is not a price"):
        parse([f"{name}=free"], SIDES)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["H100=3", "80GB=4"], "has two prices"),
        (["H100=3", "4"], "not both"),
        (["H100=free"], "'free' is not a price"),
        (["1.99", "free"], "'free' is not a price"),
        (["H100=0"], "'0' is not a price"),
        (["H100=-1"], "is not a price"),
        (["H100=3:2"], "is not a price"),
        (["H100=1:2:3"], "is not a price"),
        (["H100=nan"], "is not a price"),
        (["H100=inf"], "is not a price"),
        (["H100=0.00009"], "is not a price"),
        (["H100=1000001"], "is not a price"),
        (["H100=1:1000001"], "is not a price"),
    ],
)
def test_what_is_no_price(typed, words):
    with pytest.raises(UsageError, match=words) as caught:
        parse(typed, SIDES)
    assert caught.value.heading == "wrong-cost"


def test_the_least_and_the_highest_price():
    assert priced(["H100=0.0001:1000000"])[SIDES[1]] == Price(1e-4, 1e6)


def test_as_text():
    assert str(Price(2, 2)) == "$2.00"
    assert str(Price(2.2, 3.95)) == "$2.20 to $3.95"
    assert str(Price(0.125, 0.125)) == "$0.125"
    assert Price(2, 4).middle == 3
