"""A seeded part of the simulation in benchmarks/coverage.py that takes a few seconds."""

import importlib.util
import math
import sys

import numpy as np
import pytest

from tprimat.analysis import intervals

SEED = 1
POINTS = 0.04


@pytest.fixture(scope="module")
def coverage(repository):
    path = repository / "benchmarks" / "coverage.py"
    if not path.is_file():
        pytest.skip("the benchmarks do not lie beside this package")
    specification = importlib.util.spec_from_file_location("coverage_benchmark", path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    yield module
    del sys.modules[specification.name]


def tolerance(simulations, share=0.92):
    """Four points, and three standard errors of so few simulations."""
    return POINTS + 3 * math.sqrt(share * (1 - share) / simulations)


# The generator


@pytest.fixture(scope="module")
def series(coverage):
    return coverage.steady_steps(np.random.default_rng(SEED), 2000, 400)


def test_the_generator_has_the_mean_and_the_median_that_coverage_is_counted_by(coverage, series):
    assert pytest.approx(1.009) == coverage.TRUE_MEAN
    assert series.mean() == pytest.approx(coverage.TRUE_MEAN, abs=0.0003)
    assert np.median(series) == pytest.approx(coverage.TRUE_MEDIAN, abs=0.0003)


def test_the_generators_spikes_and_noise(series):
    spikes = series > 1.06
    assert spikes.mean() == pytest.approx(0.04, abs=0.002)
    again = (spikes[:, 1:] & spikes[:, :-1]).sum() / spikes[:, :-1].sum()
    assert again == pytest.approx(0.3, abs=0.02)
    calm = ~(spikes[:, 1:] | spikes[:, :-1])
    before, after = series[:, :-1][calm] - 1, series[:, 1:][calm] - 1
    assert before.std() == pytest.approx(0.012, abs=0.0003)
    assert np.corrcoef(before, after)[0, 1] == pytest.approx(0.3, abs=0.01)


def test_both_warm_ups(coverage):
    assert coverage.warm_up(10).tolist() == [5.0] * 8 + [1.0] * 2
    fading = coverage.warm_up(60, fading=True)
    assert fading[:8].tolist() == [5.0] * 8
    assert fading[12] == pytest.approx(1 + 4 / math.e)
    assert (np.diff(fading[7:]) < 0).all()


# The intervals


@pytest.fixture(scope="module")
def methods(coverage):
    return coverage.methods(600, SEED)


def test_coverage_of_each_method_is_that_of_the_study(coverage, methods):
    for truncation, (bias, *shares) in coverage.STUDY_METHODS.items():
        found = methods[truncation]
        assert found["bias"] == pytest.approx(bias, abs=0.001)
        for method, share in zip(coverage.METHODS, shares, strict=True):
            assert found[method] == pytest.approx(share, abs=tolerance(600, 0.87)), (
                truncation,
                method,
            )


def test_the_order_of_the_methods_is_that_of_the_study(methods):
    for method in ("iid t", "10 batch means", "20 batch means", "Newey–West", "block bootstrap"):
        assert methods["TensorPrimat"][method] > methods["MSER-5"][method]
    for truncation in ("TensorPrimat", "MSER-5"):
        found = methods[truncation]
        assert found["10 batch means"] == max(
            found[method] for method in found if method not in ("bias", "longest")
        )
        assert found["iid t"] < found["Newey–West"]
    assert methods["drop 1"]["10 batch means"] == 0


@pytest.mark.parametrize("count", [100, 300, 500])
def test_the_procedure_covers_what_it_says(coverage, count):
    found = coverage.procedure(500, SEED, count)
    assert found.coverage == pytest.approx(found.stated, abs=tolerance(500))
    assert found.mean_coverage == pytest.approx(coverage.STUDY_PROCEDURE[count], abs=tolerance(500))
    assert found.abstains < 0.03


def test_a_warm_up_that_fades_away_is_seldom_taken_for_a_level(coverage):
    found = coverage.procedure(300, SEED, 500, fading=True)
    assert found.abstains < 0.04
    assert found.coverage == pytest.approx(found.stated, abs=tolerance(300))


@pytest.mark.parametrize(
    ("count", "window"),
    [
        (20, 1),
        (21, 1),
        (50, 1),
        (199, 1),
        (200, 1),
        (499, 1),
        (500, 1),
        (10, 10),
        (39, 5),
        (20, 10),
        (10, 50),
    ],
)
def test_an_interval_covers_what_it_says(coverage, count, window):
    about, says, holds, half = coverage.within(1000, SEED, count, window)
    assert about == ("mean" if window > 1 or count >= intervals.BATCH_MEANS_STEPS else "median")
    assert holds == pytest.approx(says, abs=tolerance(1000))
    assert 0 < half < 0.02


# Two systems


def test_two_equal_systems(coverage):
    for runs in (1, 3, 10):
        found = coverage.two_systems(500, SEED, runs)
        # Steps are no independent samples of a machine: what takes them for that is wrong most of
        # the time.
        assert found["pooled steps z"] < 0.7
        assert found["Mann–Whitney on steps"] > 0.6
        if runs > 1:
            assert found["log-Welch"] == pytest.approx(0.96, abs=tolerance(500))
            assert found["log-Welch"] > found["run bootstrap"] > found["pooled steps z"]
            assert found["Mann–Whitney on run means"] < 0.06


def test_three_runs_each_cannot_reach_significance_by_ranks(coverage):
    assert coverage.two_systems(200, SEED, 3)["Mann–Whitney on run means"] == 0


# Change points, drift and run order


def test_changes_are_seldom_noted_where_there_are_none(coverage):
    for count in (100, 200, 500):
        assert sum(coverage.detected(300, SEED, count, 0.0)) <= 0.02


@pytest.mark.parametrize(
    ("count", "shift", "least"),
    [(100, 0.05, 0.5), (200, 0.03, 0.65), (500, 0.03, 0.75), (500, 0.05, 0.95)],
)
def test_changes_are_found(coverage, count, shift, least):
    assert sum(coverage.detected(200, SEED, count, shift)) >= least


@pytest.mark.parametrize(
    ("name", "count", "most"), [("independent, 1%", 200, 0.01), ("AR .9, 5%", 500, 0.01)]
)
def test_noise_is_seldom_noted_as_a_change(coverage, name, count, most):
    assert max(coverage.noted(200, SEED, name, count)) <= most


def test_a_true_drift_is_found(coverage):
    assert coverage.noted(200, SEED, "a true drift of 3%", 200)[1] >= 0.85


@pytest.mark.parametrize("runs", [(2, 2), (3, 3), (5, 5), (1, 3)])
def test_the_interval_of_equal_systems_holds_under_a_busy_neighbour(coverage, runs):
    assert coverage.held(400, SEED, "busy neighbour, +40%", runs) == pytest.approx(
        0.95, abs=tolerance(400)
    )


def test_a_drift_of_the_machine_makes_no_difference_where_the_order_alternates(coverage):
    welch, paired = coverage.rounds(400, SEED, 4, 0.1, alternating=True)
    assert max(welch, paired) <= 0.08
    assert coverage.rounds(400, SEED, 4, 0.1, alternating=False)[1] > paired


@pytest.mark.parametrize("runs", [6, 10, 20])
def test_an_order_is_seldom_seen_in_independent_runs(coverage, runs):
    assert coverage.order_alarms(400, SEED, runs) <= 0.025


# The command


def test_the_command_prints_tables(coverage, capsys):
    assert (
        coverage.main(
            ["--simulations", "20", "--part", "methods", "--part", "differences", "--seed", "3"]
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert "| TensorPrimat" in printed
    assert "| 1.0% | 5.82% | 3.12% |" in printed
    assert coverage.main(["--simulations", "20", "--part", "methods", "--seed", "3"]) == 0
    assert capsys.readouterr().out == printed[: printed.index("**Smallest")]


def test_every_part_prints_a_table(coverage):
    for part, tables in coverage.PARTS.items():
        for table in tables(3, SEED) if part != "procedure" else ():
            assert all(len(row) == len(table.columns) for row in table.rows)
            assert table.markdown().count("\n") == len(table.rows) + 4


def test_the_command_declines_no_simulations(coverage, capsys):
    with pytest.raises(SystemExit, match="2"):
        coverage.main(["--simulations", "0"])
    assert "at least 1" in capsys.readouterr().err
