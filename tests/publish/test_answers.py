"""Three answers that the record must give: docs/publish.md states them, and here they are computed
from the data.
"""

from __future__ import annotations

import json
import math

import pytest
from test_data import MADE, record_of

from tprimat.publish import data, points
from tprimat.publish.record import REJECTED

NAMES = {"nemo": "NeMo", "megatron_bridge": "Megatron-Bridge"}


@pytest.fixture(scope="module")
def values():
    record = record_of(points.published_points())
    # As the pages have it: from JSON.
    return json.loads(json.dumps(data.values(record, MADE)))


@pytest.fixture(scope="module")
def rows(values):
    columns = values["points"]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.fixture(scope="module")
def pretraining(rows):
    """Pretraining of Llama 3.1 8B at its usual length."""
    return [
        row
        for row in rows
        if (row["model"], row["task"], row["sequence_length"]) == ("llama", "pretrain", 8192)
        and row["mark"] not in REJECTED
        and row["precision"]
        and row["tokens_per_second_per_gpu"]
    ]


@pytest.fixture(scope="module")
def page(repository):
    return " ".join((repository / "docs" / "publish.md").read_text(encoding="utf-8").split())


def fastest(rows):
    return max(rows, key=lambda row: row["tokens_per_second_per_gpu"])


def software(row):
    """Name and release, of NVIDIA's containers the release alone."""
    release = row["version"].rpartition("nemo:")[2]
    name = NAMES.get(row["framework"], "")
    return release if release.startswith(name) else f"{name} {release}".strip()


def described(values, row):
    gpu = values["gpus"][row["gpu"]]["title"]
    speed = f"{row['tokens_per_second_per_gpu']:,.0f} tokens/s/GPU"
    return (
        f"{row['num_gpus']}×{gpu}, {row['precision'].upper()}: {speed} ({row['publisher']},"
        f" {row['date']}"
    )


@pytest.mark.parametrize("fp4", [True, False])
def test_the_fastest_system_for_llama_with_and_without_fp4(values, pretraining, page, fp4):
    best = fastest([row for row in pretraining if ("fp4" in row["precision"]) == fp4])
    assert described(values, best) in page


def test_how_much_h100_gained_since_its_first_entry_and_by_what_software_and_configuration(
    values, rows, page
):
    after = {before: (after, ratio) for before, after, ratio, *_ in values["changes"]}
    firsts = [
        place
        for place in after.keys() - {place for place, _ in after.values()}
        if rows[place]["gpu"] == "h100-sxm5" and rows[place]["tokens_per_second_per_gpu"]
    ]
    oldest = min(rows[place]["date"] for place in firsts)
    (first,) = (
        place
        for place in firsts
        if (rows[place]["date"], rows[place]["model"]) == (oldest, "llama")
    )
    last, gain = first, 1.0
    while last in after:
        last, ratio = after[last]
        gain *= ratio
    start, end = rows[first], rows[last]
    assert gain == pytest.approx(
        end["tokens_per_second_per_gpu"] / start["tokens_per_second_per_gpu"], rel=1e-4
    )
    assert (
        f"rose {100 * (gain - 1):.1f}%, from {start['tokens_per_second_per_gpu']:,.0f} tokens/s/GPU"
        in page
    )
    for row in (start, end):
        assert f"({software(row)}, {row['date']}; {row['configuration']}" in page
    assert f"to {end['tokens_per_second_per_gpu']:,.0f} (" in page
    # Both of one precision, batch and number of GPUs, and of unstated runs: nothing is found.
    assert all(
        start[name] == end[name]
        for name in ("precision", "global_batch_size", "num_gpus", "publisher", "clock")
    )
    assert not any(found for before, _, *_, found in values["changes"] if before == first)


def test_what_mi355x_costs_beside_b200_at_a_price_of_ones_own(values, pretraining, page):
    # Prices are examples, USD per GPU-hour.
    for key, price, precisions in (
        ("mi355x", 4.0, ""),
        ("b200-hgx", 5.0, ""),
        ("b200-hgx", 5.0, "fp8"),
    ):
        best = fastest(
            [
                row
                for row in pretraining
                if row["gpu"] == key and row["precision"].endswith(precisions)
            ]
        )
        cost = price * 1e9 / best["tokens_per_second_per_gpu"] / 3600
        assert math.isfinite(cost)
        assert (
            f"| {values['gpus'][key]['title']} | {best['precision'].upper()} "
            f"| {best['tokens_per_second_per_gpu']:,.0f} | {price:.2f} | {cost:.2f} |" in page
        )
