"""Series over time and their changes: what belongs together, and what is found."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import pytest
from made_runs import make_run

from tprimat.analysis import intervals
from tprimat.compare import Loaded
from tprimat.compare.regression import check_regression
from tprimat.compare.threshold import parse
from tprimat.publish import points
from tprimat.publish.points import Evidence
from tprimat.publish.record import REJECTED, Point
from tprimat.publish.series import changes, series
from tprimat.results.run import Environment

POINT = Point(
    publisher="A",
    gpu="h100-sxm5",
    model="llama",
    task="pretrain",
    precision="fp8",
    sequence_length=8192,
    num_gpus=8,
    global_batch_size=128,
    framework="nemo",
    version="24.07",
    date="2024-09-09",
    tokens_per_second_per_gpu=100.0,
    mark="as published",
    source="a/b/c@0123456789ab:1",
)


def made(*steps, **fields):
    """Points with these dates and rates."""
    found = []
    for date, *rates in steps:
        mean = math.exp(sum(map(math.log, rates)) / len(rates))
        runs = tuple(rates) if len(rates) > 1 else ()
        point = dataclasses.replace(
            POINT, date=date, tokens_per_second_per_gpu=mean, rates=runs, **fields
        )
        found.append(Evidence(point))
    return found


def welch_p(before, after):
    return intervals.welch(
        [math.log(rate) for rate in after], [math.log(rate) for rate in before]
    ).p()


class TestSeries:
    def test_points_in_the_order_of_their_dates(self):
        assert series(made(("2025-12", 3.0), ("2024-09", 1.0), ("2025-10", 2.0))) == [[1, 2, 0]]

    def test_of_one_date_the_fastest(self):
        assert series(made(("2024", 1.0), ("2025", 2.0), ("2025", 3.0), ("2025", 1.5))) == [[0, 2]]

    def test_of_one_round_of_submissions_the_fastest(self):
        every = []
        for version, date, speed in (
            ("1", "2024-10-01", 1.0),
            ("1", "2024-10-03", 2.0),
            ("2", "2025-04-20", 1.5),
        ):
            source = f"mlcommons/training_results_v{version}/A/results/x/y@0123456789ab"
            (each,) = made(
                (date, speed), clock="blocks", source=source, url=f"https://github.com/{source}"
            )
            every.append(each)
        assert series(every) == [[1, 2]]
        assert series(every[:2]) == []

    def test_one_date_alone_is_no_series(self):
        assert series(made(("2025", 2.0), ("2025", 3.0))) == []

    @pytest.mark.parametrize(
        "field",
        [
            *(
                {"publisher": "B"},
                {"gpu": "mi300x"},
                {"model": "qwen"},
                {"task": "lora"},
                {"precision": "bf16"},
            ),
            *(
                {"sequence_length": 4096},
                {"num_gpus": 16},
                {"global_batch_size": 256},
                {"clock": "blocks"},
            ),
        ],
    )
    def test_other_work_machine_clock_or_configuration_is_another_series(self, field):
        assert series([*made(("2024", 1.0)), *made(("2025", 2.0), **field)]) == []

    @pytest.mark.parametrize(
        "field", [{"framework": "megatron"}, {"version": "25.11"}, {"system": "x"}, {"note": "y"}]
    )
    def test_other_software_is_the_same_series(self, field):
        assert series([*made(("2024", 1.0)), *made(("2025", 2.0), **field)]) == [[0, 1]]

    def test_words_of_the_publisher_on_the_work_set_a_series_apart(self):
        assert series([*made(("2024", 1.0)), *made(("2025", 2.0), work="tokendrop")]) == []

    @pytest.mark.parametrize(
        "field", ["date", "precision", "sequence_length", "num_gpus", "global_batch_size"]
    )
    def test_what_is_not_stated_may_differ(self, field):
        nothing = "" if isinstance(getattr(POINT, field), str) else None
        every = [*made(("2024", 1.0)), *made(("2025", 2.0))]
        bare = [Evidence(dataclasses.replace(each.point, **{field: nothing})) for each in every]
        assert series(bare) == []

    @pytest.mark.parametrize("mark", REJECTED)
    def test_a_rejected_value_is_in_none(self, mark):
        every = [*made(("2024", 1.0)), *made(("2025", 2.0)), *made(("2026", 9.0), mark=mark)]
        assert series(every) == [[0, 1]]

    def test_times_to_a_target_are_a_series_whose_changes_are_of_speed(self):
        nothing = {
            "tokens_per_second_per_gpu": None,
            "global_batch_size": None,
            "target": "loss 3.28",
        }
        every = [
            Evidence(
                dataclasses.replace(
                    POINT, date=date, time_to_target_seconds=time, precision=of, **nothing
                )
            )
            for date, time, of in (("2024", 2700.0, ""), ("2025", 900.0, "bf16"))
        ]
        (found,) = changes(every)
        assert (found.ratio, found.low, found.is_found) == (pytest.approx(3.0), None, False)
        other = Evidence(dataclasses.replace(every[1].point, target="loss 3.1"))
        assert series([every[0], other]) == []

    def test_rates_in_samples_and_in_tokens_are_two_series(self):
        samples = {"tokens_per_second_per_gpu": None, "samples_per_second": 8.0}
        first, second = made(("2024", 1.0)), made(("2025", 2.0))
        second = [Evidence(dataclasses.replace(each.point, **samples)) for each in second]
        assert series([*first, *second]) == []


class TestChanges:
    def test_the_interval_is_welchs_on_logarithms(self):
        before, after = (100.0, 101.0, 99.0), (120.0, 121.5, 119.0)
        (found,) = changes(made(("2024", *before), ("2025", *after)))
        difference = intervals.welch(
            [math.log(rate) for rate in after], [math.log(rate) for rate in before]
        )
        assert (found.before, found.after, found.is_found) == (0, 1, True)
        assert (found.low, found.high) == pytest.approx(tuple(map(math.exp, difference.interval())))
        assert found.low < found.ratio < found.high

    def test_identical_points_have_not_changed(self):
        (found,) = changes(made(("2024", 100.0, 101.0, 99.0), ("2025", 100.0, 101.0, 99.0)))
        assert (found.ratio, found.is_found) == (1.0, False)
        assert found.low < 1 < found.high

    def test_a_single_run_has_no_interval_and_is_not_found(self):
        every = made(("2024", 100.0), ("2025", 200.0, 200.5, 199.5), ("2026", 400.0))
        assert [(found.low, found.high, found.is_found) for found in changes(every)] == [
            (None, None, False)
        ] * 2

    def test_runs_that_never_vary_make_nothing_certain(self):
        (found,) = changes(made(("2024", 100.0, 100.0), ("2025", 110.0, 110.0)))
        assert (found.low, found.is_found) == (None, False)

    @pytest.mark.parametrize(("beyond", "is_found"), [(0.999, False), (1.001, True)])
    def test_just_below_and_just_above_significance(self, beyond, is_found):
        before = (99.0, 100.0, 101.0)
        low, high = 1.0, 1.2
        while high - low > 1e-12:
            middle = (low + high) / 2
            low, high = (
                (middle, high)
                if welch_p(before, [middle * x for x in before]) > 0.05
                else (low, middle)
            )
        after = [(1 + (high - 1) * beyond) * rate for rate in before]
        (found,) = changes(made(("2024", *before), ("2025", *after)))
        assert found.is_found == is_found

    def test_the_same_change_among_many_is_found_no_more(self):
        before = (99.0, 100.0, 101.0)
        after = [rate * 1.028 for rate in before]
        p = welch_p(before, after)
        assert 0.01 < p < 0.05
        one = made(("2024", *before), ("2025", *after))
        assert [found.is_found for found in changes(one)] == [True]
        others = [
            each
            for number in range(9)
            for each in made(("2024", *before), ("2025", *before), model=f"model {number}")
        ]
        every = changes([*others, *one])
        assert len(every) == 10
        assert not any(found.is_found for found in every)

    def test_holm_is_over_all_series_at_its_limit(self):
        before = (99.0, 100.0, 101.0)
        after = [rate * 1.05 for rate in before]
        p = welch_p(before, after)
        most = math.floor(0.05 / p - 1e-9)
        assert most > 2
        for count, is_found in ((most, True), (most + 1, False)):
            one = made(("2024", *before), ("2025", *after))
            others = [
                each
                for at in range(count - 1)
                for each in made(("2024", *before), ("2025", *before), model=f"{at}")
            ]
            assert changes([*others, *one])[-1].is_found == is_found

    @pytest.mark.parametrize(
        ("systems", "is_found"),
        [(("a", "a"), True), (("a", "b"), None), (("", "b"), True), (("", ""), True)],
    )
    def test_a_change_between_two_named_machines_is_not_found(self, systems, is_found):
        before, after = (100.0, 101.0, 99.0), (120.0, 121.5, 119.0)
        steps = made(("2024", *before), system=systems[0]) + made(
            ("2025", *after), system=systems[1]
        )
        (found,) = changes(steps)
        assert found.is_found is is_found
        (same,) = changes(made(("2024", *before), ("2025", *after)))
        assert (found.ratio, found.low, found.high) == (same.ratio, same.low, same.high)

    def test_changes_that_cannot_be_found_weaken_no_other(self):
        before = (99.0, 100.0, 101.0)
        one = made(("2024", *before), ("2025", *(rate * 1.028 for rate in before)))
        others = [
            each
            for at in range(20)
            for each in made(("2024", *before), model=f"{at}", system="a")
            + made(("2025", *before), model=f"{at}", system="b")
        ]
        assert [found.is_found for found in changes([*others, *one])] == [None] * 20 + [True]

    def test_runs_that_are_not_of_one_configuration_have_no_change(self):
        assert changes(made(("2024", 100.0, 199.0), ("2025", 100.0, 101.0))) != ()
        assert changes(made(("2024", 100.0, 200.0), ("2025", 100.0, 101.0))) == ()

    @pytest.mark.parametrize(("label", "count"), [("a", 1), ("b", 0), (None, 0)])
    def test_a_label_sets_results_of_ones_own_apart(self, label, count):
        runs = [
            make_run(
                timestamp=f"2026-02-0{day}T00:00:00+00:00", label=each, step_time=3.0 + day / 10
            )
            for day, each in enumerate(("a", label), start=1)
        ]
        versions = [Environment(versions={"torch": f"2.{at}"}) for at in range(2)]
        files = [
            Loaded(
                f"{at}.json",
                f"{at}" * 64,
                (msgspec.structs.replace(run, environment=versions[at]),),
            )
            for at, run in enumerate(runs)
        ]
        assert len(changes(points.result_points(files, []))) == count

    def test_results_of_ones_own_are_compared_as_the_regression_check_does(self):
        def runs(first, day, version):
            return tuple(
                make_run(
                    step_time=first + 0.01 * at,
                    timestamp=f"2026-02-{day:02}T0{at}:00:00+00:00",
                    environment=Environment(versions={"torch": version}),
                )
                for at in range(3)
            )

        halves = [
            Loaded("a.json", "a" * 64, runs(3.2, 1, "1.0")),
            Loaded("b.json", "b" * 64, runs(2.9, 5, "2.0")),
        ]
        (check,) = check_regression(halves[:1], halves[1:], parse("0%", [])).checks
        found = changes(points.result_points(halves, []))
        assert [(each.ratio, each.low, each.high) for each in found] == [
            (check.change, check.low, check.high)
        ]
        assert found[0].is_found
