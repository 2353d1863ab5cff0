"""What runs need to a target, and the ratio of two, in full; of runs whose wall time the test
states.
"""

from __future__ import annotations

import dataclasses
import math
import statistics

import msgspec
import pytest
import scipy.stats
from made_runs import make_run, shape
from made_systems import pair_of, result, system
from stored_runs import note, reason_of, series, text_of

from tprimat.analysis.efficiency.subject import Value
from tprimat.analysis.intervals import Difference
from tprimat.compare import target as module
from tprimat.compare.result import Ratio
from tprimat.compare.target import (
    RUNS,
    Target,
    TargetRatio,
    benchmark,
    parts_of,
    ratio,
    spent,
    target,
    times,
)
from tprimat.results.account import Entry
from tprimat.results.run import Data, Source, Steady


def entries(*parts, first=1):
    """Entries one after another: a kind, seconds, and steps of training."""
    found, at, step = [], 0.0, first
    for kind, seconds, *count in parts:
        steps = {"first_step": step, "last_step": step + count[0] - 1} if count else {}
        found.append(Entry(kind=kind, start=at, duration=seconds, **steps))
        at, step = at + seconds, step + (count[0] if count else 0)
    return tuple(found)


USUAL = (
    ("start-up", 7.0),
    ("training", 90.0, 30),
    ("evaluation", 11.0),
    ("training", 63.0, 21),
    ("end", 2.0),
)


def run_of(parts=USUAL, *, first=1, batch=16, **fields):
    known = {
        "framework": "mlperf",
        "source": Source(kind="log", dialect="mlperf (gpt3)"),
        "status": "complete",
    }
    made = make_run(steps=0, warmup=(), batch=batch, losses=False)
    return msgspec.structs.replace(
        made, **{**known, "timeline": entries(*parts, first=first), **fields}
    )


def done(minutes=5.0, parts=USUAL, scaling=None, accuracy=None, **fields):
    """A run that reaches its target after so many minutes."""
    figures = {
        "time_to_train_minutes": minutes,
        "scaling_factor": scaling,
        "target_accuracy": accuracy,
    }
    return result(
        100.0,
        run_of(parts, native_metrics={k: v for k, v in figures.items() if v is not None}, **fields),
        steady=Steady(first_step=1),
    )


NEED = {
    "start-up": 7.0,
    "training": 153.0,
    "evaluation": 11.0,
    "end": 2.0,
    "seconds": 173.0,
    "steps": 51,
    "samples": 51 * 16,
}


class TestNeed:
    def test_of_a_whole_run(self):
        assert module._spent(done()) == NEED
        # Steps of a training that goes on from an earlier one are its own.
        assert module._spent(result(run=run_of(first=101), steady=Steady())) == NEED
        assert "samples" not in module._spent(result(run=run_of(batch=None), steady=Steady()))
        without = module._spent(
            result(run=run_of((("training", 9.0), ("evaluation", 4.0))), steady=Steady())
        )
        assert without == {"training": 9.0, "evaluation": 4.0, "seconds": 13.0}

    def test_its_warm_up_is_a_part_of_its_training(self):
        timed = run_of(**series([5.0] * 4 + [3.0] * 47))
        found = module._spent(result(run=timed, steady=Steady(first_step=5)))
        assert found == {**NEED, "warm-up": 20.0}
        assert parts_of(found) == {
            "start-up": 7.0,
            "warm-up": 20.0,
            "training": 133.0,
            "evaluation": 11.0,
            "end": 2.0,
        }
        assert list(parts_of(found)) == ["start-up", "warm-up", "training", "evaluation", "end"]
        assert parts_of(NEED) == {
            "start-up": 7.0,
            "training": 153.0,
            "evaluation": 11.0,
            "end": 2.0,
        }
        assert parts_of({"seconds": 3.0, "end": 2.0}) == {"end": 2.0}

    def test_without_a_clock_there_is_none(self):
        assert module._spent(result(run=run_of(()), steady=Steady())) is None
        assert module._spent(result(run=run_of((("training", 0.0, 9),)), steady=Steady())) is None
        assert module._spent(result(run=run_of((), **series([1.0] * 9)), steady=Steady())) is None

    @pytest.mark.parametrize(
        ("made", "need"),
        [
            (done(5.0), {**NEED, "seconds": 300.0}),
            (done(5.0, ()), {"seconds": 300.0}),
            (done(None), None),
            (done(0.0), None),
            (done(-1.0), None),
            (done(0.5), {**NEED, "seconds": 30.0}),
            (done(5.0, status="incomplete"), None),
        ],
    )
    def test_to_the_target(self, made, need):
        assert module._official(made) == need

    def test_minutes_that_are_a_series_are_none(self):
        run = run_of(
            (), **series([1.0] * 3), native_metrics={"time_to_train_minutes": (1.0, 2.0, 3.0)}
        )
        assert module._official(result(run=run)) is None


def falling(*losses, length=2048, first=1, **fields):
    known = {"loss_values": losses, "steps": tuple(range(first, first + len(losses)))}
    made = make_run(steps=0, warmup=(), batch=16, length=length)
    return msgspec.structs.replace(made, **{**series([2.0] * len(losses)), **known, **fields})


class TestToALoss:
    LOSSES = (9.0, *[4.0] * 9, 2.0, None, 3.0)

    @pytest.mark.parametrize(
        ("loss", "step"),
        # Means of ten: 4.5 at step 10, 3.8 at step 11; step 12 has no loss; 3.7 at step 13.
        [(4.5, 10), (4.49, 11), (3.8, 11), (3.79, 13), (3.7, 13), (3.69, None)],
    )
    def test_the_mean_of_ten_records_reaches_it(self, loss, step):
        made = result(run=falling(*self.LOSSES), performance={"avg_step_time_seconds": 2.5})
        need = step and {"steps": step, "tokens": step * 16 * 2048, "seconds": step * 2.5}
        assert module._to_loss(made, loss) == need

    def test_what_is_unknown_is_left_out(self):
        made = result(None, run=falling(*self.LOSSES, length=None))
        assert module._to_loss(made, 4.5) == {"steps": 10}
        assert module._to_loss(result(run=falling(*self.LOSSES[:9])), 9.0) is None


@pytest.mark.parametrize(
    ("framework", "source", "name"),
    [
        ("mlperf", Source(kind="log", dialect="mlperf (gpt3)"), "gpt3"),
        ("mlperf", Source(kind="log", dialect="mlperf"), None),
        ("mlperf", Source(kind="log"), None),
        ("mlperf", None, None),
        ("nemo", Source(kind="log", dialect="mlperf (gpt3)"), None),
    ],
)
def test_the_benchmark_of_a_run(framework, source, name):
    assert benchmark(run_of(framework=framework, source=source)) == name


MINUTES = (7.0, 5.0, 9.0, 6.0)
UNKNOWN_SCALING = note("normalization-unknown")


def needs(*minutes, **more):
    return [{**NEED, **more, "seconds": 60 * each} for each in minutes]


def of(*results, name="A"):
    return system(name, *results)


def named(name):
    return Source(kind="log", dialect=f"mlperf ({name})")


class TestTarget:
    def test_three_runs_of_three_are_a_score(self):
        found = target(
            of(done(7.0, scaling=1.25), done(5.0, scaling=1.25), done(9.0, scaling=1.25))
        )
        runs, (middle,) = needs(7.0, 5.0, 9.0), needs(7.0)
        assert found == Target(None, tuple(runs), (middle,), middle, 1.25, 7.0 * 1.25)

    def test_one_may_fail_and_is_the_slowest(self):
        found = target(of(done(7.0), done(None), done(5.0)))
        runs, (slow,) = needs(7.0, 5.0), needs(7.0)
        notes = (note("target-missed", failed=1, runs=3), note("normalization-unknown"))
        assert found == Target(None, (runs[0], None, runs[1]), (slow,), slow, None, 7.0, notes)

    def test_of_more_of_which_two_fail_all_that_reach_it_count(self):
        found = target(
            of(done(7.0), done(None), done(5.0), done(None), done(8.5, (("training", 60.0, 10),)))
        )
        assert [need["seconds"] for need in found.counted] == [300.0, 420.0, 510.0]
        # A part of the time that a run has not is zero, and steps are known of all.
        assert found.mean == {
            "start-up": pytest.approx(14 / 3),
            "training": pytest.approx((2 * 153 + 60) / 3),
            "evaluation": pytest.approx(22 / 3),
            "end": pytest.approx(4 / 3),
            "seconds": pytest.approx(410.0),
            "steps": pytest.approx(112 / 3),
            "samples": pytest.approx(112 * 16 / 3),
        }
        assert found.notes == (
            note("target-missed", failed=2, runs=5),
            note("score-of-other-runs", needed=3, runs=5),
            note("normalization-unknown"),
        )
        assert (found.official_minutes, found.is_to_target, found.loss) == (None, True, None)

    @pytest.mark.parametrize(
        ("minutes", "counted"),
        [
            (MINUTES, [360.0, 420.0]),
            ((*MINUTES, None), [360.0, 420.0, 540.0]),
            ((7.0, None, 5.0), [420.0]),
            ((7.0, 5.0), [300.0, 420.0]),
            ((7.0, None), [420.0]),
            ((7.0,), [420.0]),
            ((7.0, None, None, 5.0), [300.0, 420.0]),
        ],
    )
    def test_the_fastest_and_the_slowest_of_three_or_more_don_t_count(self, minutes, counted):
        found = target(of(*map(done, minutes)))
        assert [need["seconds"] for need in found.counted] == counted
        assert found.mean["seconds"] == statistics.fmean(counted)

    def test_an_unknown_benchmark_has_no_number_of_runs(self):
        found = target(
            of(*(done(each, source=named("x"), scaling=2.0) for each in (5.0, 6.0, 7.0)))
        )
        assert (found.official_minutes, found.scaling) == (None, 2.0)
        assert found.notes == (note("score-of-unknown-runs", runs=3),)
        assert RUNS == {"llama2_70b_lora": 10, "llama31_8b": 10, "gpt3": 3, "llama31_405b": 3}

    @pytest.mark.parametrize(
        ("factors", "scaling"), [((1.5, 1.5), 1.5), ((1.5, 2.0), None), ((1.5, None), None)]
    )
    def test_the_normalization_is_that_of_all_runs(self, factors, scaling):
        found = target(of(*(done(5.0, scaling=each) for each in factors)))
        assert (found.scaling, note("normalization-unknown") in found.notes) == (
            scaling,
            scaling is None,
        )

    def test_of_two_that_fail_there_is_no_score(self):
        found = target(of(done(7.0), done(None), done(None)))
        assert (found.official_minutes, len(found.notes)) == (None, 3)

    def test_runs_that_don_t_count_are_runs_of_a_submission(self):
        runs = [done(each) for each in (5.0, 6.0, 7.0)]
        runs[2] = dataclasses.replace(runs[2], is_valid=False)
        assert target(of(*runs)).official_minutes == 6.0

    def test_without_a_target_there_is_none(self):
        assert target(of(done(None))) is None
        assert target(of(done(5.0, source=None))) is None

    def test_to_a_loss(self):
        runs = [
            result(
                run=falling(*[8.0] * more, *[2.0] * 10), performance={"avg_step_time_seconds": 2.0}
            )
            for more in (3, 1)
        ]
        lost = result(run=falling(*[9.0] * 20))
        unused = dataclasses.replace(runs[0], is_valid=False)
        found = target(of(runs[0], lost, runs[1], unused), 2.0)
        steps = [{"steps": n, "tokens": n * 32768, "seconds": 2.0 * n} for n in (11, 13)]
        mean = {"steps": 12.0, "tokens": 12.0 * 32768, "seconds": 24.0}
        told = note("target-missed", failed=1, runs=3)
        assert found == Target(2.0, (steps[1], None, steps[0]), tuple(steps), mean, notes=(told,))
        assert target(of(lost), 2.0) is None


def bounds(one, other):
    """The interval of the ratio of the geometric means of the first over the second."""
    logs = [[math.log(each) for each in of] for of in (one, other)]
    low, high = scipy.stats.ttest_ind(*logs, equal_var=False).confidence_interval()
    return pytest.approx(math.exp(low)), pytest.approx(math.exp(high))


class TestRatio:
    def test_of_two_submissions(self):
        one = of(*(done(each, scaling=1.5) for each in (10.0, 12.0, 11.0)), name="A")
        parts = (("training", 66.0, 22), ("evaluation", 20.0))
        others = [done(each, parts, scaling=1.2) for each in (6.0, 5.0, 7.0)]
        other = of(*others, name="B")
        found = ratio(one, other)
        speed = (153 / (51 * 16)) / (66 / (22 * 16))
        assert dict(found.factors) == {
            "time": Value(11 / 6, *bounds((10.0, 12.0, 11.0), (6.0, 5.0, 7.0))),
            "speed": Value(pytest.approx(speed), None, None),
            "samples": Value(51 / 22, None, None),
            "rest": Value(
                pytest.approx((660 / 153) / (360 / 66)),
                *bounds(
                    [each / 153 for each in (10.0, 12.0, 11.0)],
                    [each / 66 for each in (6.0, 5.0, 7.0)],
                ),
            ),
            "normalisation": Value(1.25),
            "official": Value(pytest.approx(11 / 6 * 1.25)),
        }
        assert list(found.factors) == [
            "time",
            "speed",
            "samples",
            "rest",
            "normalisation",
            "official",
        ]
        assert (found.reasons, found.notes) == ((), ())

    def test_notes_are_those_of_the_system_and_then_of_the_baseline(self):
        found = ratio(of(done(10.0, scaling=2.0), name="A"), of(done(5.0, scaling=None), name="B"))
        few = {"needed": 3, "runs": 1}
        assert found.notes == (
            note("score-of-other-runs", **few, system="B"),
            note("normalization-unknown", system="B"),
            note("score-of-other-runs", **few, system="A"),
        )
        assert found.factors["normalisation"] == Value(2.0)
        assert "official" not in found.factors
        back = ratio(of(done(5.0)), of(done(10.0, scaling=2.0)))
        assert back.factors["normalisation"] == Value(0.5)
        scored, few = of(*map(done, (5.0, 6.0, 7.0))), of(done(5.0))
        assert "official" not in ratio(scored, few).factors | ratio(few, scored).factors

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"source": named("x")}, (note("targets-differ"),)),
            ({"accuracy": 3.5}, (note("targets-differ"),)),
            ({"accuracy": 3.25}, ()),
            ({}, ()),
        ],
    )
    def test_only_of_one_benchmark_and_target(self, fields, reason):
        one, other = of(done(10.0, accuracy=3.25)), of(done(5.0, **fields), name="B")
        for found in (ratio(one, other), ratio(other, one)):
            assert (found.reasons, bool(found.factors)) == (reason, not reason)

    def test_without_a_target_of_both_there_is_none(self):
        assert ratio(of(done(5.0)), of(done(None))) is None
        assert ratio(of(done(None)), of(done(5.0))) is None

    def test_the_error_within_a_single_run_is_one_of_its_speed_and_time(self):
        rows = ((6.0, 60.0, 9.0), (6.3, 62.0, 8.0), (6.5, 66.0, 9.5))
        many = of(
            *(
                done(each, (("training", seconds, 20), ("evaluation", other)))
                for each, seconds, other in rows
            )
        )
        alone = done(3.0, (("training", 30.0, 20),))
        alone = dataclasses.replace(
            alone, summary=dataclasses.replace(alone.summary, within=Difference(4.0, 0.1, 9.0))
        )
        found = ratio(many, of(alone, name="B")).factors
        half = math.log((4.0 + scipy.stats.t.ppf(0.975, 9) * 0.1) / 4.0)
        of_rows = {"time": [row[0] for row in rows], "speed": [row[1] for row in rows]}
        of_rows["rest"] = [row[0] / row[1] for row in rows]
        for name, values in of_rows.items():
            between = (
                statistics.stdev(map(math.log, values))
                * math.sqrt(4 / 3)
                * scipy.stats.t.ppf(0.975, 2)
            )
            own = 0.0 if name == "rest" else half
            assert math.log(found[name].high / found[name].low) / 2 == pytest.approx(
                math.hypot(between, own)
            )
        assert found["samples"] == Value(1.0)


DATA = {"data": Data(kind="c4", digest="ab"), "model_config": shape()}


class TestOfALoss:
    def system(self, name, *more, **fields):
        return of(
            *(
                result(
                    run=falling(*[8.0] * each, *[2.0] * 10, **fields),
                    performance={"avg_step_time_seconds": 2.0},
                )
                for each in more
            ),
            name=name,
        )

    def test_in_full(self):
        one, other = self.system("A", 11, 13, **DATA), self.system("B", 3, 1, **DATA)
        found = ratio(one, other, 2.0)
        value = Value(22 / 12, *bounds((21, 23), (13, 11)))
        assert found == TargetRatio(dict.fromkeys(("time", "steps", "tokens"), value))

    def test_of_two_benchmarks_on_the_same_data(self):
        one, other = (
            self.system(name, 3, framework="mlperf", source=named(name), **DATA)
            for name in ("gpt3", "llama31_8b")
        )
        assert ratio(one, other, 2.0).factors["time"] == Value(1.0)

    def test_what_only_one_reaches(self):
        one, other = (
            self.system("A", 3, **DATA),
            of(result(run=falling(*[9.0] * 20, **DATA)), name="B"),
        )
        for systems in ((one, other), (other, one)):
            assert ratio(*systems, 2.25) == TargetRatio({}, (note("loss-not-reached", loss=2.25),))

    def test_why_not_comes_before_that(self):
        one = self.system("A", 3, **DATA)
        other = of(result(run=falling(*[9.0] * 20, data=Data(kind="c4", digest="cd"))), name="B")
        assert ratio(one, other, 2.0) == TargetRatio({}, (note("data-differs"),))

    @pytest.mark.parametrize(
        ("one", "other", "reason"),
        [
            ({}, {}, None),
            ({"digest": "cd"}, {}, note("data-differs")),
            ({"digest": None}, {}, None),
            (
                {"digest": None, "kind": "pile"},
                {},
                note("data-of-kinds", first="pile", second="c4"),
            ),
            (
                {"digest": None, "kind": None},
                {},
                note("data-of-kinds", first="unknown", second="c4"),
            ),
            ({"digest": None}, {"kind": None}, note("data-of-kinds", first="c4", second="unknown")),
            (
                {"digest": None, "kind": None},
                {"digest": None, "kind": None},
                note("data-of-kinds", first="unknown", second="unknown"),
            ),
            ({"kind": "pile"}, {}, None),
            ({"vocab": 32_000}, {}, note("vocabularies-differ", first=32000, second=128256)),
            (
                {"vocab": None},
                {},
                note("vocabularies-differ", first="an unknown number of", second=128256),
            ),
            (
                {},
                {"vocab": None},
                note("vocabularies-differ", first=128256, second="an unknown number of"),
            ),
            ({"vocab": None}, {"vocab": None}, None),
            (
                {"vocab": None, "digest": None},
                {"vocab": None},
                note(
                    "vocabularies-differ",
                    first="an unknown number of",
                    second="an unknown number of",
                ),
            ),
        ],
    )
    def test_the_same_data_and_vocabulary(self, one, other, reason):
        runs = []
        for fields in (one, other):
            known = {"kind": "c4", "digest": "ab", "vocab": 128_256, **fields}
            config = shape(vocab_size=known.pop("vocab"))
            runs.append(falling(*[3.0] * 12, model="x", data=Data(**known), model_config=config))
        assert module._unlike_losses(*runs) == reason

    def test_data_that_says_nothing_of_quality(self):
        known, mock = falling(*[3.0] * 20, **DATA), falling(*[0.001] * 20, **DATA)
        uniform = falling(*[math.log(128_256)] * 20, **DATA)
        for runs in ((known, mock), (mock, known)):
            text = text_of(module._unlike_losses(*runs))
            assert text.startswith("loss reaches 0.0010 within ")
        for runs in ((known, uniform), (uniform, known)):
            text = text_of(module._unlike_losses(*runs))
            assert text.startswith("loss stays at ln(vocabulary) = 11.76")
        # Runs of one benchmark of MLPerf have its data.
        submitted = [
            msgspec.structs.replace(each, framework="mlperf", source=named("x"))
            for each in (known, mock)
        ]
        assert module._unlike_losses(*submitted) is None
        other = msgspec.structs.replace(submitted[1], source=named("y"))
        assert text_of(module._unlike_losses(submitted[0], other)).startswith(
            "loss reaches 0.0010 within "
        )


LIVE = note("recording-begins-late")
PLAIN = {"source": None, "framework": "nemo"}


class TestSpent:
    def test_to_the_end_where_there_is_no_target(self):
        runs = [
            done(None, **PLAIN),
            result(run=run_of((), **PLAIN)),
            done(None, (("training", 60.0, 10),), **PLAIN),
        ]
        found = spent(of(*runs))
        short = {"training": 60.0, "seconds": 60.0, "steps": 10, "samples": 160}
        mean = {"start-up": 3.5, "training": 106.5, "evaluation": 5.5, "end": 1.0, "seconds": 116.5}
        mean |= {"steps": 30.5, "samples": 488.0}
        assert found == Target(None, (NEED, None, short), (NEED, short), mean, is_to_target=False)
        assert spent(of(result(run=run_of((), **PLAIN)))) is None

    def test_to_the_target_where_there_is_one(self):
        made = of(done(5.0), done(6.0))
        assert spent(made) == target(made)

    @pytest.mark.parametrize(
        ("kinds", "notes"),
        [
            (("log", "log"), ()),
            (("log", "live"), (note("recording-begins-late"),)),
            ((None, "log"), ()),
        ],
    )
    def test_of_a_live_run_the_clock_begins_late(self, kinds, notes):
        sources = [each and Source(kind=each) for each in kinds]
        assert (
            spent(of(*(done(None, framework="nemo", source=each) for each in sources))).notes
            == notes
        )


SHORT = (("start-up", 3.0), ("training", 102.0, 51))


def ended(name, parts=USUAL, **fields):
    run = run_of(parts, **{**PLAIN, **series([2.0] * 51), **fields})
    return of(result(run=run, steady=Steady(first_step=1)), name=name)


class TestTimes:
    ONE, OTHER = ended("A"), ended("B", SHORT)

    def test_to_the_same_number_of_steps(self):
        found = times(pair_of(self.ONE, self.OTHER, ratio=Ratio(1.5, None, None)))
        assert found == TargetRatio(
            {
                "time": Value(173 / 105),
                "speed": Value(pytest.approx(153 / 102)),
                "samples": Value(1.0),
                "rest": Value(pytest.approx((173 / 153) / (105 / 102))),
            }
        )

    def test_a_run_without_a_clock_is_no_part_of_it(self):
        lost = result(run=run_of((), **PLAIN))
        one = dataclasses.replace(self.ONE, runs=(lost, *self.ONE.runs))
        pair = pair_of(one, self.OTHER, ratio=Ratio(1.5, None, None))
        assert times(pair) == times(dataclasses.replace(pair, baseline=self.ONE))

    def test_where_much_is_unclear_the_time_alone_remains(self):
        unclear = ended("B", (("unknown", 52.0), ("training", 51.0, 51)))
        reasons = (note("time-unexplained"),)
        for one, other, value in ((self.ONE, unclear, 173 / 103), (unclear, self.ONE, 103 / 173)):
            found = times(pair_of(one, other, ratio=Ratio(1.5, None, None)))
            assert found == TargetRatio({"time": Value(value)}, reasons)

    def test_a_target_of_both_comes_first(self):
        one, other = of(done(10.0), name="A"), of(done(5.0), name="B")
        assert times(pair_of(one, other)) == ratio(one, other)
        assert times(pair_of(one, other)).factors["time"] == Value(2.0)

    @pytest.mark.parametrize(
        ("one", "other", "fields", "reason"),
        [
            (
                ended("A"),
                of(done(5.0), name="B"),
                {"ratio": Ratio(1.5, None, None)},
                note("target-of-one"),
            ),
            (
                of(done(5.0), name="A"),
                ended("B"),
                {"ratio": Ratio(1.5, None, None)},
                note("target-of-one"),
            ),
            (ended("A"), ended("B"), {"reasons": (note("other"),)}, note("other")),
            (ended("A"), ended("B"), {}, note("target-of-one")),
            (
                ended("A"),
                ended("B", (("training", 90.0, 52),)),
                {"ratio": Ratio(1.5, None, None)},
                note("steps-without-target"),
            ),
        ],
    )
    def test_why_there_is_none(self, one, other, fields, reason):
        assert times(pair_of(one, other, **fields)) == TargetRatio({}, (reason,))

    def test_without_a_clock_there_is_none(self):
        lost = of(result(run=run_of((), **PLAIN)), name="B")
        assert times(pair_of(self.ONE, lost, ratio=Ratio(1.5, None, None))) is None
        assert times(pair_of(lost, self.ONE, ratio=Ratio(1.5, None, None))) is None
        # To a loss there is the reason of that.
        assert reason_of(
            times(pair_of(self.ONE, self.OTHER, ratio=Ratio(1.5, None, None)), 2.0)
        ).startswith("the data is")


@pytest.mark.parametrize(
    ("need", "steps", "is_unclear"),
    [
        ({"training": 30.0, "warm-up": 15.0, "steps": 9}, 9, False),
        ({"training": 30.0, "warm-up": 15.01, "steps": 9}, 9, True),
        ({"training": 30.0, "unknown": 30.0, "steps": 9}, 9, False),
        ({"training": 30.0, "unknown": 30.01, "steps": 9}, 9, True),
        ({"training": 30.0, "warm-up": 5.0, "unknown": 20.0, "steps": 9}, 9, False),
        ({"training": 30.0, "warm-up": 5.0, "unknown": 20.01, "steps": 9}, 9, True),
        ({"steps": 9}, 9, False),
        ({"unknown": 0.1, "steps": 9}, 9, True),
        # Steps without a time: more than a tenth of those that are printed.
        ({"training": 30.0, "steps": 36}, 40, False),
        ({"training": 30.0, "steps": 35}, 40, True),
        ({"training": 30.0, "steps": 44}, 40, False),
        ({"training": 30.0, "steps": 45}, 40, True),
        ({"training": 30.0}, 40, True),
        ({"training": 30.0, "steps": 45}, 0, False),
        ({}, 0, False),
        ({}, 1, True),
    ],
)
def test_a_wall_time_that_is_unclear(need, steps, is_unclear):
    assert module._is_unclear(make_run(steps=steps), need) is is_unclear


@pytest.mark.parametrize(
    ("need", "names", "value"),
    [
        ({"a": 6.0, "b": 4.0}, ("a", "b"), 1.5),
        ({"a": 6.0, "b": 4.0}, ("a", None), 6.0),
        ({"a": 6.0}, ("a", "b"), None),
        ({"b": 6.0}, ("a", "b"), None),
        ({"b": 6.0}, ("a", None), None),
        ({"a": 6.0, "b": 0.0}, ("a", "b"), None),
    ],
)
def test_one_need_per_another(need, names, value):
    assert module._per(need, *names) == value


def test_what_one_run_lacks_is_no_factor():
    one = Target(
        None, ({"seconds": 3.0, "steps": 5}, None, {"steps": 7}), (), {"seconds": 3.0, "steps": 6.0}
    )
    other = Target(None, ({"seconds": 2.0, "steps": 5}, {"steps": 6}), (), {"steps": 5.5})
    parts = {"time": ("seconds", None), "steps": ("steps", None), "speed": ("seconds", "steps")}
    assert module._factors(one, other, parts, 0.5) == {
        "steps": Value(pytest.approx(6 / 5.5), *bounds((5, 7), (5, 6)))
    }
    assert module._factors(other, one, parts, 0.5).keys() == {"steps"}
    zero = dataclasses.replace(one, mean={"seconds": 3.0, "steps": 0.0})
    assert module._factors(zero, other, parts, 0.5) == {}


def test_a_mean_is_of_what_all_runs_state_but_for_parts_of_the_time():
    needed = [
        {"seconds": 3.0, "evaluation": 2.0, "steps": 7},
        {"seconds": 5.0},
        {"seconds": 10.0, "end": 3.0},
    ]
    assert module._mean(needed) == {"seconds": 6.0, "evaluation": 2 / 3, "end": 1.0}


def test_needs_above_zero_are_known():
    assert module._known(a=0.5, b=0, c=None, d=-1.0, e=3) == {"a": 0.5, "e": 3}
