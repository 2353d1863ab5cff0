"""What charts show, at the limits of their rules."""

from __future__ import annotations

import pytest
from made_runs import MI300X, comparison, make_run

from tprimat.report.plot import charts
from tprimat.report.plot.charts import Series

AMD = {"device": MI300X, "stack": "rocm"}


def runs(*made):
    systems = comparison(*made).systems
    return [Series(system, result) for system in systems for result in system.valid_runs]


def flat(step_time, **fields):
    return make_run(warmup=(), step_times=(step_time,) * 60, **fields)


@pytest.mark.parametrize(("slow", "is_log"), [(3.99, False), (4.0, True)])
def test_an_axis_is_logarithmic_from_four_times_the_fastest_run_on(slow, is_log):
    assert charts.step_times(runs(flat(1.0), flat(slow, **AMD))).is_log is is_log


@pytest.mark.parametrize(("outlier", "beyond"), [(2.0, ()), (2.01, (2.01,))])
def test_an_outlier_is_cut_from_twice_the_median_on(outlier, beyond):
    times = [1.0] * 300
    times[200] = outlier
    chart = charts.step_times(runs(make_run(steps=300, warmup=(), step_times=tuple(times))))
    assert chart.beyond == beyond
    assert (chart.limits[1] > outlier) is not bool(beyond)


@pytest.mark.parametrize(("highest", "is_log"), [(50.0, False), (50.1, True)])
def test_a_loss_that_falls_far_has_a_logarithmic_axis(highest, is_log):
    losses = (highest, *[1.0] * 59)
    assert charts.loss(runs(make_run(loss_values=losses)), "tokens").is_log is is_log


@pytest.mark.parametrize(
    ("steps", "unit"),
    [(59, "10⁶ tokens"), (60, "10⁹ tokens")],
    ids=["below a billion", "a billion"],
)
def test_tokens_have_the_largest_unit_that_they_reach(steps, unit):
    run = make_run(steps=steps, batch=10_000, length=1667)
    assert charts.loss(runs(run), "tokens").x_title == unit


def test_without_records_there_is_no_chart():
    found = runs(make_run(batch=None, losses=False))
    assert charts.loss(found, "tokens") is None
    assert charts.loss(found, "wall") is None
    assert charts.step_times([]) is None
