"""The regression check: worse, within the threshold, or inconclusive."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from made_runs import H100, MI300X, failed_run, make_run
from stored_runs import text_of, texts_of

from tprimat.checks.endings import how_ended
from tprimat.compare import Loaded
from tprimat.compare.caveats import caveats
from tprimat.compare.regression import check_regression
from tprimat.compare.threshold import CHECKED, parse
from tprimat.errors import ExitStatus, UsageError
from tprimat.notes import Note
from tprimat.report import regression as report
from tprimat.report.json_values import regression_values
from tprimat.results.account import Entry
from tprimat.results.ending import Ending
from tprimat.results.run import MemoryMetrics

SPREAD = (0.995, 1.0, 1.005, 0.998, 1.002)


def runs_of(step_time=3.2, count=5, *, spread=SPREAD, day=1, **fields):
    """Runs whose means spread by some 0.4 %; those of another day are other measurements."""
    return tuple(
        make_run(
            step_time=step_time
            * spread[index % len(spread)]
            * (1 + 1e-7 * day + 1e-9 * (index // len(spread))),
            timestamp=f"2026-03-{day + index:02d}T00:00:00+00:00",
            **fields,
        )
        for index in range(count)
    )


def checked(before, after, slower="3%", allow=(), **options):
    files = [
        [
            Loaded(f"{kind}_{index}.json", str(index) * 64, group)
            for index, group in enumerate(groups)
        ]
        for kind, groups in (("old", before), ("new", after))
    ]
    return check_regression(*files, parse(slower, allow), **options)


def one(*arguments, **options):
    (check,) = checked(*arguments, **options).checks
    return check


def why_no_baseline(found):
    return regression_values(found)["why_no_baseline"]


class TestAnswers:
    def test_slower_than_the_threshold(self):
        found = checked([runs_of()], [runs_of(3.4, day=11)])
        (check,) = found.checks
        assert (check.answer, found.status) == ("worse", ExitStatus.SLOWER)
        assert check.change == pytest.approx(3.2 / 3.4, rel=1e-3)
        assert check.high < 0.97
        assert check.runs == (5, 5)

    @pytest.mark.parametrize("step_time", [3.2, 3.22, 2.9])
    def test_within_the_threshold(self, step_time):
        found = checked([runs_of()], [runs_of(step_time, day=11)])
        assert (found.checks[0].answer, found.status) == ("within", ExitStatus.OK)

    @pytest.mark.parametrize(("slow", "answer"), [(15, "within"), (16, "inconclusive")])
    def test_a_run_that_does_not_settle_by_its_middle_decides_nothing(self, slow, answer):
        before, after = (
            runs_of(steps=30, warmup=tuple([5.0] * count), day=day)
            for count, day in ((3, 1), (slow, 11))
        )
        check = one([before], [after])
        assert check.answer == answer
        assert text_of(check).startswith("too short to compare") == (answer == "inconclusive")

    def test_slower_but_less_than_the_threshold(self):
        before, after = runs_of(), runs_of(3.4, day=11)
        assert one([before], [after], "10%").answer == "within"
        assert one([before], [after], None).answer == "worse"

    def test_a_threshold_within_the_interval_is_inconclusive(self):
        found = checked([runs_of()], [runs_of(3.2 / 0.97, day=11)])
        (check,) = found.checks
        assert (check.answer, found.status) == ("inconclusive", ExitStatus.OK)
        assert check.low < 0.97 < check.high
        assert text_of(check).startswith(
            "beyond the threshold of 3% slower, but the 95% CI includes the threshold"
        )
        assert (
            checked([runs_of()], [runs_of(3.2 / 0.97, day=11)], fail_on_inconclusive=True).status
            == 6
        )

    def test_more_runs_are_asked_for_and_would_decide(self):
        before, after = runs_of(count=3), runs_of(3.2 / 0.975, count=3, day=11)
        check = one([before], [after])
        assert check.answer == "inconclusive"
        assert 3 < check.runs_needed <= 100
        assert text_of(check.advice).startswith(
            f"measure {check.runs_needed} runs each, interleaved if possible: ./benchmark.py"
        )
        many = [runs_of(step, count=14, day=day) for step, day in ((3.2, 1), (3.2 / 0.975, 15))]
        assert one(many[:1], many[1:]).answer == "within"

    @pytest.mark.parametrize("counts", [(1, 1), (1, 2), (2, 1)])
    def test_too_few_runs_decide_nothing_but_name_a_large_regression(self, counts):
        before, after = runs_of(count=counts[0]), runs_of(6.4, count=counts[1], day=11)
        for fail, status in ((False, ExitStatus.OK), (True, ExitStatus.INCONCLUSIVE)):
            found = checked([before], [after], fail_on_inconclusive=fail)
            (check,) = found.checks
            assert (check.answer, found.status) == ("inconclusive", status)
            assert (check.low, check.runs_needed) == (None, 2)
            assert text_of(check).startswith("beyond the threshold of 3% slower, but with ")
            whose = {(1, 1): "runs each", (1, 2): "baseline runs", (2, 1): "candidate runs"}[counts]
            assert text_of(check).endswith("run-to-run variation is unknown")
            assert text_of(check.advice).startswith(f"measure 2 {whose}")

    def test_two_runs_each_find_a_large_regression(self):
        found = checked([runs_of(count=2)], [runs_of(3.2 / 0.7, count=2, day=11)])
        assert (found.checks[0].answer, found.checks[0].method, found.status) == (
            "worse",
            "welch",
            1,
        )

    def test_two_runs_each_that_vary_a_lot_are_inconclusive(self):
        before, after = (
            runs_of(step, count=2, spread=(0.8, 1.2), day=day)
            for step, day in ((3.2, 1), (4.6, 11))
        )
        check = one([before], [after])
        assert check.answer == "inconclusive"
        assert text_of(check).startswith(
            "beyond the threshold of 3% slower, but the 95% CI includes the threshold"
        )

    @pytest.mark.parametrize("counts", [(5, 1), (1, 5)])
    def test_one_run_has_a_prediction_interval_from_three_others_on(self, counts):
        before, after = runs_of(count=counts[0]), runs_of(3.4, count=counts[1], day=11)
        check = one([before], [after])
        assert (check.answer, check.method) == ("worse", "prediction")
        assert one([before], [after], "5.5%").answer == "inconclusive"

    def test_rounds_of_one_session_are_compared_in_pairs(self):
        drift = (1.0, 1.05, 1.1, 1.15, 1.2)

        def rounds(step_time, first):
            return tuple(
                msgspec.structs.replace(
                    run,
                    session="s",
                    round=index + 1,
                    timestamp=f"2026-03-0{index + 1}T0{(index + first) % 2}:00:00+00:00",
                )
                for index, run in enumerate(runs_of(step_time, spread=drift, day=first))
            )

        before, after = rounds(3.2, 1), rounds(3.4, 2)
        check = one([before], [after])
        assert (check.answer, check.method) == ("worse", "paired")
        _, in_seconds = checked([before], [after], allow=["avg_step_time_seconds=0.1"]).checks
        assert (in_seconds.answer, in_seconds.method) == ("worse", "paired")

    def test_pairs_need_as_many_runs_as_their_own_differences_vary(self):
        def rounds(step_time, first, noise):
            return tuple(
                msgspec.structs.replace(
                    run,
                    session="s",
                    round=index + 1,
                    timestamp=f"2026-03-0{index + 1}T0{(index + first) % 2}:00:00+00:00",
                )
                for index, run in enumerate(runs_of(step_time, spread=noise, day=first))
            )

        drift = (1.0, 1.1, 1.2, 1.3, 1.4)
        before = rounds(3.2, 1, drift)
        noise = (1.01, 0.99, 1.012, 0.992, 1.011)
        after = rounds(3.2, 2, [each * other for each, other in zip(drift, noise, strict=True)])
        check = one([before], [after], "1%")
        assert (check.answer, check.method) == ("inconclusive", "paired")
        # Runs vary by 15 %, which a hundred runs would not decide; the differences of the rounds by
        # 1 %.
        assert 5 < check.runs_needed <= 100

    def test_several_checks_are_corrected_by_holm(self):
        before, after = runs_of(count=2, spread=(0.9995, 1.0005)), runs_of(3.33, count=2, day=11)
        allow = [f"{name}=1000" for name in ("peak_memory_allocated_gb",)]
        assert one([before], [after], None).answer == "worse"
        alone = one([before], [after], None).p
        others = [f"{name}=1.1%" for name in ("avg_step_time_seconds", "median_step_time_seconds")]
        rate, *_ = checked([before], [after], "0%", allow=[*allow, *others]).checks
        assert rate.p == alone > 0.05 / 3
        # Memory never varies and comes first; the three others follow by their p values.
        assert rate.p_adjusted > 0.05 > rate.p
        assert (rate.answer, "Holm's correction for 4 checks" in text_of(rate)) == (
            "inconclusive",
            True,
        )

    def test_a_small_difference_of_single_runs_takes_more_than_three(self):
        check = one([runs_of(count=1)], [runs_of(3.25, count=1, day=11)])
        assert check.runs_needed > 3
        assert (
            f"measure {check.runs_needed} runs each, interleaved if possible (if runs vary by 1%)"
            in text_of(check.advice)
        )

    def test_an_unchanged_program_at_a_threshold_of_0_is_inconclusive(self):
        check = one([runs_of()], [runs_of(day=11)], None)
        assert (check.answer, check.runs_needed) == ("inconclusive", None)
        assert (
            text_of(check.advice)
            == "set a threshold, such as --max-slowdown 3%: at 0%, an unchanged program is always"
            " inconclusive"
        )


class TestChangePoints:
    def runs_with_a_change(self, first, second, day):
        return tuple(
            make_run(
                steps=300,
                warmup=(20.0, *[first * factor] * 149),
                step_time=second * factor,
                timestamp=f"2026-03-{day + index:02d}T00:00:00+00:00",
            )
            for index, factor in enumerate((0.99917, 1.00013, 1.00071))
        )

    def test_a_change_point_in_every_run_doesnt_hide_a_regression(self):
        before = self.runs_with_a_change(2.6, 2.4, 1)
        check = one([before], [self.runs_with_a_change(2.7, 2.5, 11)])
        assert (check.answer, check.low is not None) == ("worse", True)

    def test_nor_does_it_make_one(self):
        before = self.runs_with_a_change(2.6, 2.4, 1)
        assert one([before], [self.runs_with_a_change(2.62, 2.42, 11)]).answer == "within"


class TestOtherMetrics:
    def with_memory(self, peaks, day):
        return tuple(
            msgspec.structs.replace(run, memory_metrics=MemoryMetrics(peak_memory_reserved_gb=peak))
            for run, peak in zip(runs_of(day=day), peaks, strict=True)
        )

    @pytest.mark.parametrize(
        ("amount", "answer"),
        [("0.5", "worse"), ("1.0", "within"), ("2%", "worse"), ("2.5%", "within"), ("3", "within")],
    )
    def test_memory_that_never_varies_is_compared_as_it_is(self, amount, answer):
        before, after = self.with_memory([40.0] * 5, 1), self.with_memory([41.0] * 5, 11)
        rate, memory = checked(
            [before], [after], allow=[f"peak_memory_reserved_gb={amount}"]
        ).checks
        assert rate.threshold.metric.name == "tokens_per_second_per_gpu"
        assert memory.answer == answer

    def test_less_memory_is_never_worse(self):
        before, after = self.with_memory([40.0] * 5, 1), self.with_memory([30.0] * 5, 11)
        assert (
            checked([before], [after], allow=["peak_memory_reserved_gb=0"]).checks[1].answer
            == "within"
        )

    def test_memory_that_varies_has_an_interval(self):
        before, after = (
            self.with_memory([40.0, 40.1, 39.9, 40.0, 40.2], 1),
            self.with_memory([40.4] * 4 + [41.0], 11),
        )
        check = checked([before], [after], allow=["peak_memory_reserved_gb=0.5"]).checks[1]
        assert check.answer == "inconclusive"
        assert check.low < 0.5 < check.high

    def test_a_metric_that_nobody_measured_is_not_comparable(self):
        found = checked([runs_of()], [runs_of(day=11)], allow=["peak_memory_device_used_gb=1"])
        assert found.checks[1].answer == "not comparable"
        assert "is unknown" in text_of(found.checks[1])
        assert found.status == ExitStatus.NOT_COMPARABLE

    def test_a_step_time_in_seconds(self):
        check = checked(
            [runs_of()], [runs_of(3.4, day=11)], allow=["median_step_time_seconds=0.05"]
        ).checks[1]
        assert check.answer == "worse"
        assert check.change == pytest.approx(0.2, abs=0.01)


class TestUnits:
    """Tokens if they are known; else samples, if these are known to be alike."""

    @pytest.mark.parametrize("framework", ["mlperf", "nemo"])
    def test_samples_where_tokens_are_unknown(self, framework):
        before, after = (
            runs_of(step, length=None, framework=framework, day=day)
            for step, day in ((3.2, 1), (3.4, 9))
        )
        found = checked(
            [before], [after], allow=["avg_step_time_seconds=3%", "tokens_per_second=3%"]
        )
        rate, step_time, total = found.checks
        assert (rate.threshold.metric.name, rate.threshold.metric.unit) == (
            "samples_per_second_per_gpu",
            "samples/s/GPU",
        )
        assert (rate.answer, step_time.answer, total.answer) == ("worse", "worse", "not comparable")
        assert rate.values[0] == pytest.approx(64 / 3.2 / 8, rel=1e-3)
        assert step_time.change == pytest.approx(3.4 / 3.2, rel=1e-3)
        assert [note for note in texts_of(found.notes) if "samples" in note] == [
            "Llama 3.1 8B: rates are in samples/s/GPU, since the sequence length is unknown"
        ]

    def test_only_mlperf_fixes_what_a_sample_is(self):
        def answer(framework, **second):
            runs = (
                runs_of(length=None, framework=framework),
                runs_of(framework=framework, day=9, **second),
            )
            return one([runs[0]], [runs[1]]).answer

        for second in ({"length": None, "batch": 32, "step_time": 1.6}, {"length": 2048}):
            assert answer("mlperf", **second) == "within"
            assert answer("nemo", **second) == "not comparable"
        assert answer("nemo", length=None, batch=None) == "not comparable"

    def test_tokens_are_compared_though_another_system_of_the_model_lacks_them(self):
        before, after = (runs_of(framework="mlperf", day=day) for day in (1, 9))
        other = runs_of(framework="mlperf", length=None, precision="fp8", day=17)
        check = checked([before, other], [after]).checks[0]
        assert check.threshold.metric.unit == "tokens/s/GPU"

    def test_step_times_only_with_the_same_batch(self):
        before, after = runs_of(), runs_of(6.4, batch=128, day=11)
        rate, step_time, memory = checked(
            [before], [after], allow=["avg_step_time_seconds=3%", "peak_memory_allocated_gb=1"]
        ).checks
        assert (rate.answer, step_time.answer, memory.answer) == (
            "within",
            "not comparable",
            "within",
        )
        assert (
            text_of(step_time)
            == "avg_step_time_seconds: steps differ in work (global batch 64 vs 128); compare"
            " throughput"
        )


class TestPartners:
    def test_each_model_has_its_own_check(self):
        found = checked(
            [runs_of(), runs_of(model="qwen")],
            [runs_of(3.4, day=11), runs_of(model="qwen", day=11)],
        )
        assert [(check.model, check.answer) for check in found.checks] == [
            ("Llama 3.1 8B", "worse"),
            ("Qwen 2.5 7B", "within"),
        ]
        assert found.status == ExitStatus.SLOWER

    def test_a_setup_that_vanished_must_not_pass(self):
        found = checked([runs_of(), runs_of(model="qwen")], [runs_of(day=11)])
        assert [check.answer for check in found.checks] == ["within", "not comparable"]
        assert found.status == ExitStatus.NOT_COMPARABLE

    def test_a_setup_that_is_new_is_a_note(self):
        found = checked([runs_of()], [runs_of(day=11), runs_of(model="qwen")])
        assert found.status == ExitStatus.OK
        assert any(
            note == "Qwen 2.5 7B: no baseline for 8×H100 (BF16); skipped"
            for note in texts_of(found.notes)
        )

    def test_several_setups_are_matched_by_their_configuration(self):
        before = [runs_of(precision="bf16"), runs_of(2.0, precision="fp8")]
        after = [runs_of(2.3, precision="fp8", day=11), runs_of(3.2, precision="bf16", day=11)]
        found = checked(before, after)
        assert [check.answer for check in found.checks] == ["worse", "within"]

    def test_other_software_is_what_is_compared(self):
        environment = msgspec.structs.replace(make_run().environment, versions={"torch": "3.0"})
        assert one([runs_of()], [runs_of(3.4, day=11, environment=environment)]).answer == "worse"

    def test_two_versions_in_the_baseline_are_ambiguous(self):
        environment = msgspec.structs.replace(make_run().environment, versions={"torch": "3.0"})
        found = checked([runs_of(), runs_of(environment=environment, day=6)], [runs_of(day=11)])
        assert found.status == ExitStatus.NOT_COMPARABLE
        assert (
            text_of(found.checks[0])
            == "2 baseline systems and 1 of the candidate match this configuration"
        )

    def test_another_card_is_compared_when_it_is_the_only_one(self):
        check = one([runs_of(device=H100)], [runs_of(6.4, device=MI300X, stack="rocm", day=11)])
        assert check.answer == "worse"
        assert check.candidate == "8×MI300X (BF16) (candidate)"


class TestSteps:
    @pytest.mark.parametrize(
        ("count", "basis"), [(60, ""), (40, "Speeds use steps 4–40, which all runs have")]
    )
    def test_common_steps_are_named_if_they_are_not_all(self, count, basis):
        after = runs_of(3.4, day=11, steps=count)
        found = checked(
            [runs_of()], [after], allow=["avg_step_time_seconds=3%", "peak_memory_allocated_gb=1"]
        ).checks
        assert [text_of(check.basis) for check in found] == [basis, basis, ""]

    def test_the_steps_do_not_change_the_advice(self):
        check = one([runs_of(count=1)], [runs_of(3.2, count=1, day=11, steps=40)])
        assert text_of(check.basis)
        assert text_of(check.advice).startswith("measure ")


class TestRefusals:
    @pytest.mark.parametrize(
        ("batch", "text"), [(None, "steps may differ in work: global batch unknown"), (64, "")]
    )
    def test_step_times_need_a_batch(self, batch, text):
        check = one(
            [runs_of(batch=batch)],
            [runs_of(batch=batch, day=11)],
            None,
            ["avg_step_time_seconds=3%"],
        )
        assert (text_of(check) == text) is (check.answer == "not comparable") is (batch is None)

    def test_other_metrics_are_not_compared_for_lack_of_a_throughput(self):
        allowed = ["avg_step_time_seconds=3%", "peak_memory_allocated_gb=1"]
        check = one([runs_of(batch=None)], [runs_of(batch=None, day=11)], None, allowed)
        assert "is unknown" in text_of(check)

    @pytest.mark.parametrize("model", [None, "mine"])
    def test_logs_of_a_model_that_nobody_names_are_not_matched(self, model):
        nameless = {"model": model, "scale": None, "batch": None, "length": None, "gpus": None}
        before, after = (
            [(run,) for run in runs_of(3.2, count=3, day=day, **nameless)] for day in (1, 11)
        )
        texts = [text_of(check) for check in checked(before, after).checks]
        assert (texts == ["the results don't say which model was trained"]) is (model is None)

    def test_the_same_runs_are_not_compared_with_themselves(self):
        runs = runs_of()
        found = checked([runs], [runs])
        assert found.status == ExitStatus.NOT_COMPARABLE
        assert "contain the same run (new_0.json)" in text_of(found.checks[0])

    @pytest.mark.parametrize(("other", "same"), [(3.2, True), (3.3, False)])
    def test_runs_without_times_of_steps_are_the_same_by_the_times_of_their_logs(self, other, same):
        before, after = (
            msgspec.structs.replace(
                run,
                step_times=(None,) * len(run.steps),
                timeline=(
                    Entry(kind="training", start=0, duration=50 * time, first_step=1, last_step=50),
                ),
            )
            for run, time in ((make_run(), 3.2), (make_run(), other))
        )
        assert before.loss_values == after.loss_values
        assert ("contain the same run" in text_of(one([(before,)], [(after,)]))) is same

    @pytest.mark.parametrize(
        ("change", "same"),
        [
            ({}, True),
            ({"timestamp": "2026-03-01T00:00:01+00:00"}, False),
            ({"timestamp": None}, False),
            ({"timeline": (Entry(kind="training", start=0, duration=99.000001),)}, False),
            ({"timeline": ()}, False),
            ({"loss_values": (2.0,) * 60}, False),
        ],
    )
    def test_a_run_with_changed_step_times_is_the_same(self, change, same):
        timeline = (Entry(kind="training", start=0, duration=99),)
        before, after = (runs_of(factor, count=1, timeline=timeline) for factor in (3.2, 3.52))
        found = checked([before], [tuple(msgspec.structs.replace(run, **change) for run in after)])
        text = "baseline and candidate contain the same run with other step times (new_0.json)"
        assert (text_of(found.checks[0]) == text) is same
        assert (found.status == ExitStatus.NOT_COMPARABLE) is same

    def test_one_shared_run_is_enough(self):
        before = runs_of()
        assert one([before], [(before[2], *runs_of(day=11)[3:])]).answer == "not comparable"

    def test_copies_count_once(self):
        once = runs_of(count=1)
        check = one([once, once, once], [runs_of(6.4, day=11)])
        assert check.runs == (1, 5)
        assert check.method == "prediction"

    def test_a_failed_candidate_is_not_comparable(self):
        found = checked([runs_of()], [(failed_run(H100, stack="cuda"),)])
        assert found.status == ExitStatus.NOT_COMPARABLE
        assert text_of(found.checks[0]) == "every run of the candidate failed (out of memory)"

    @pytest.mark.parametrize(
        ("failed", "is_refused"), [((4, 0), False), ((0, 4), False), ((5, 0), True), ((0, 5), True)]
    )
    def test_runs_that_all_failed_pass_no_check_however_fast(self, failed, is_refused):
        error = {"status": "failed", "status_reason": "RuntimeError: NCCL\nerror"}
        sides = [
            tuple(
                msgspec.structs.replace(run, **error) if n < count else run
                for n, run in enumerate(runs_of(day=day))
            )
            for day, count in zip((1, 11), failed, strict=True)
        ]
        check = one(sides[:1], sides[1:])
        if is_refused:
            kind = "baseline" if failed[0] else "candidate"
            assert check.answer == "not comparable"
            assert text_of(check) == f"every run of the {kind} failed (RuntimeError: NCCL error)"
        else:
            assert check.answer != "not comparable"

    @pytest.mark.parametrize(("step_time", "answer"), [(3.2, "inconclusive"), (3.4, "worse")])
    def test_e1_runs_that_broke_off_are_compared_and_pass_nothing(self, step_time, answer):
        cut = tuple(
            msgspec.structs.replace(run, status="incomplete") for run in runs_of(step_time, day=11)
        )
        assert one([runs_of()], [cut]).answer == answer

    @pytest.mark.parametrize("side", ["baseline", "candidate"])
    @pytest.mark.parametrize(
        ("ending", "said"),
        [
            (Ending(kind="failed", cause="out of memory", line=812), "out of memory, line 812"),
            (Ending(kind="stopped", cause="DUE TO TIME LIMIT"), "DUE TO TIME LIMIT"),
            (Ending(kind="cut_off"), "is excluded"),
            (Ending(kind="running"), "is excluded"),
        ],
        ids=["failed", "stopped", "cut off", "running"],
    )
    def test_e1_one_run_of_three_that_did_not_finish_passes_nothing(self, ending, said, side):
        sides = {"baseline": list(runs_of(count=3)), "candidate": list(runs_of(count=3, day=11))}
        sides[side][1] = msgspec.structs.replace(sides[side][1], ending=ending)
        found = checked(
            [tuple(sides["baseline"])], [tuple(sides["candidate"])], fail_on_inconclusive=True
        )
        (check,) = found.checks
        assert (check.answer, found.status) == ("inconclusive", ExitStatus.INCONCLUSIVE)
        assert sorted(check.runs) == [2, 3]
        assert text_of(check).startswith(f"{side}: 1 of 3 runs did not finish and is excluded")
        assert text_of(check).endswith(said)
        assert why_no_baseline(found) == f"inconclusive: {text_of(check)}"
        first, *_ = caveats((check.pair.baseline, check.pair.system), [check.pair])
        assert text_of(first).endswith(said)

    def test_e1_a_limit_that_was_asked_for_passes(self):
        limited = [
            msgspec.structs.replace(
                run, ending=Ending(kind="finished", cause="stopped after 10 min")
            )
            for run in runs_of(day=11)
        ]
        found = checked([runs_of()], [tuple(limited)])
        assert (found.checks[0].answer, why_no_baseline(found)) == ("within", None)

    def test_e1_runs_that_failed_are_left_out_beside_those_that_broke_off(self):
        kinds = ("cut_off", "failed", "cut_off")
        runs = [
            msgspec.structs.replace(run, ending=Ending(kind=kind))
            for run, kind in zip(runs_of(count=3, day=11), kinds, strict=True)
        ]
        check = one([runs_of()], [tuple(runs)])
        assert (check.answer, check.runs) == ("inconclusive", (5, 2))

    def test_e1_a_regression_is_one_whatever_its_runs_end_in(self):
        broken = [
            msgspec.structs.replace(run, ending=Ending(kind="stopped", cause="a limit"))
            for run in runs_of(4.0, day=11)
        ]
        found = checked([runs_of()], [tuple(broken)])
        assert (found.checks[0].answer, found.status) == ("worse", ExitStatus.SLOWER)
        assert why_no_baseline(found).startswith("worse: ")

    @pytest.mark.parametrize(("kind", "status"), [("finished", 0), ("cut_off", 6), ("failed", 3)])
    def test_e1_a_configuration_without_a_baseline_is_not_kept_if_it_did_not_finish(
        self, kind, status
    ):
        new = make_run(
            length=4096,
            ending=Ending(kind=kind, cause="a cause"),
            timestamp="2026-03-11T00:00:00+00:00",
        )
        both = (*runs_of(day=11), new)
        found = checked([(*runs_of(), make_run(length=1024))], [both], fail_on_inconclusive=True)
        told = [check for check in found.checks if check.baseline is None]
        assert [check.answer for check in told] == {
            0: [],
            6: ["inconclusive"],
            3: ["not comparable"],
        }[status]
        assert all("a cause" in text_of(check) for check in told)

    @pytest.mark.parametrize(("kind", "status"), [("finished", 0), ("stopped", 6), ("failed", 3)])
    def test_e1_without_a_baseline_the_candidate_is_checked_for_becoming_one(self, kind, status):
        runs = tuple(
            msgspec.structs.replace(run, ending=Ending(kind=kind)) for run in runs_of(count=2)
        )
        found = checked([], [runs], fail_on_inconclusive=True)
        assert found.status == status
        assert (why_no_baseline(found) is None) is (status == 0)
        first = "keep the candidate's results as the first baseline"
        assert (report.next_step(found) == first) is (status == 0)

    def test_e1_what_could_not_be_read_is_no_baseline(self):
        found = dataclasses.replace(checked([runs_of()], [runs_of(day=11)]), is_partial=True)
        assert why_no_baseline(found) == "a file that was named could not be read"
        assert "keep" not in report.next_step(found)

    @pytest.mark.parametrize("count", [1, 5])
    @pytest.mark.parametrize("side", ["baseline", "candidate"])
    def test_e2_a_loss_that_is_not_a_number_passes_nothing(self, side, count):
        note = Note("loss-not-finite", {"steps": "steps 51–60", "first": 51, "last": 60})
        sides = {"baseline": list(runs_of()), "candidate": list(runs_of(day=11))}
        sides[side][:count] = [
            msgspec.structs.replace(
                run,
                notes=(note,),
                loss_values=(*run.loss_values[:50], *[None] * (len(run.steps) - 50)),
            )
            for run in sides[side][:count]
        ]
        found = checked(
            [tuple(sides["baseline"])], [tuple(sides["candidate"])], fail_on_inconclusive=True
        )
        (check,) = found.checks
        assert (check.answer, found.status, check.runs) == (
            "inconclusive",
            ExitStatus.INCONCLUSIVE,
            (5, 5),
        )
        assert (
            text_of(check) == f"{side}: loss is not a number from step 51 on in {count} of 5 runs"
        )
        assert "not a number from step 51" in report.caveat_texts(found)[0]
        assert "keep" not in report.next_step(found)

    @pytest.mark.parametrize(
        ("code", "last", "words"),
        [
            ("loss-not-finite", 17, "loss is not a number at step 17"),
            ("loss-not-finite", 30, "loss is not a number at steps between 17 and 30"),
            ("loss-vanished", 100, "no loss is printed from step 17 on"),
            ("grad-norm-not-finite", 100, "gradient norm is not a number from step 17 on"),
            ("steps-skipped", 100, "the optimizer skips steps from step 17 on"),
        ],
    )
    def test_e2_how_a_training_diverged_and_for_how_long(self, code, last, words):
        """“From step 17 on” is said only where no step after it is in order."""
        note = Note(code, {"steps": "", "first": 17, "last": last})
        those = [msgspec.structs.replace(run, notes=(note,)) for run in runs_of(day=11, steps=100)]
        found = checked([runs_of(steps=100)], [tuple(those)], fail_on_inconclusive=True)
        assert found.status == ExitStatus.INCONCLUSIVE
        assert text_of(found.checks[0]) == f"candidate: {words} in 5 of 5 runs"
        assert words in report.caveat_texts(found)[0]
        assert why_no_baseline(found) is not None

    def test_e2_runs_that_diverge_at_once_and_for_good_are_counted_apart(self):
        runs = list(runs_of(day=11, steps=100))
        for place, (first, last) in enumerate([(17, 17), (20, 20), (99, 100)]):
            lost = range(first, last + 1)
            losses = tuple(None if step in lost else 2.0 for step in runs[place].steps)
            note = Note("loss-not-finite", {"steps": "", "first": first, "last": last})
            runs[place] = msgspec.structs.replace(runs[place], notes=(note,), loss_values=losses)
        (found,) = checked([runs_of(steps=100)], [tuple(runs)]).checks
        transient = "loss is not a number at steps between 17 and 20 in 2 of 5 runs"
        assert (
            text_of(found)
            == f"candidate: {transient}; loss is not a number from step 99 on in 1 of 5 runs"
        )

    def test_implausible_results_are_status_4(self):
        found = checked([runs_of()], [runs_of(0.5, day=11)])
        assert (found.checks[0].answer, found.status) == ("implausible", ExitStatus.IMPLAUSIBLE)
        assert "of the dense BF16 peak" in text_of(found.checks[0])

    def test_a_precision_that_the_user_states_is_checked_with(self):
        before, after = runs_of(precision=None), runs_of(0.5, precision=None, day=11)
        assert one([before], [after]).answer == "not comparable"
        from tprimat.analysis.efficiency import Options

        found = checked([before], [after], options=Options(precision="bf16"))
        assert found.status == ExitStatus.IMPLAUSIBLE
        assert any("precision bf16 from the command line" in note for note in texts_of(found.notes))

    def test_the_same_configuration_may_be_required(self):
        before, after = runs_of(), runs_of(batch=128, step_time=6.4, day=11)
        assert one([before], [after]).answer == "within"
        assert one([before], [after], mode="same").answer == "not comparable"

    def test_another_sequence_length_is_other_work(self):
        assert one([runs_of()], [runs_of(length=4096, day=11)]).answer == "not comparable"


class TestThresholds:
    def test_the_default_is_0_percent(self):
        (rate,) = parse(None, ())
        assert (rate.metric.name, rate.percent, rate.amount) == (
            "tokens_per_second_per_gpu",
            True,
            0.0,
        )

    def test_only_what_is_named_is_checked(self):
        (memory,) = parse(None, ["peak_memory_reserved_gb=1"])
        assert memory.metric.name == "peak_memory_reserved_gb"
        found = checked([runs_of()], [runs_of(day=11)], None, ["peak_memory_reserved_gb=1"])
        assert [check.threshold for check in found.checks] == [memory]
        assert "throughput is not checked: --max-slowdown does" in texts_of(found.notes)
        assert not texts_of(
            checked([runs_of()], [runs_of(day=11)], "3%", ["peak_memory_reserved_gb=1"]).notes
        )
        both = parse(None, ["peak_memory_reserved_gb=1", "tokens_per_second_per_gpu=3%"])
        names = [each.metric.name for each in both]
        assert names == ["tokens_per_second_per_gpu", "peak_memory_reserved_gb"]

    def test_a_threshold_of_throughput_in_its_unit(self):
        (rate,) = parse(None, ["tokens_per_second_per_gpu=100"])
        assert (rate.percent, rate.amount, str(rate)) == (False, 100.0, "100 tokens/s/GPU slower")

    def test_percent_and_units(self):
        rate, memory = parse(" 3 % ", ["peak_memory_reserved_gb= .5"])
        assert (str(rate), str(memory)) == ("3% slower", "+0.5 GB")

    @pytest.mark.parametrize(
        "text", ["3", "0.03", "-3%", "100%", "nan%", "inf%", "", "3%%", "three"]
    )
    def test_what_is_no_percentage(self, text):
        with pytest.raises(UsageError) as caught:
            parse(text, ())
        assert caught.value.heading == "wrong-threshold"

    @pytest.mark.parametrize(
        "text",
        [
            "memory=1",
            "final_loss",
            "steps_per_second=1",
            "tokens_per_second",
            "=3%",
            "peak_memory_reserved_gb=-1",
            "x=1",
        ],
    )
    def test_what_is_no_threshold(self, text):
        with pytest.raises(UsageError) as caught:
            parse(None, [text])
        assert caught.value.heading == "wrong-threshold"
        assert caught.value.line().splitlines()[1].startswith("hint: ")

    def test_two_for_one_metric(self):
        with pytest.raises(UsageError, match="is given twice"):
            parse("3%", ["tokens_per_second_per_gpu=100"])

    def test_metrics_that_can_be_checked(self):
        assert {"tokens_per_second_per_gpu", "peak_memory_reserved_gb", "final_loss"} <= {
            metric.name for metric in CHECKED
        }


@pytest.mark.parametrize(
    ("status", "kind", "cause", "steps", "right"),
    [
        ("complete", "finished", None, 60, "finished"),
        # A log of the Hugging Face trainer states a regular end, and no cause of an early one.
        ("complete", "finished", None, 38, "finished"),
        ("complete", "finished", "time limit reached", 38, "finished"),
        ("failed", "finished", None, 60, "failed"),
        ("failed", "finished", "time limit reached", 38, "failed"),
        ("failed", "stopped", "SIGTERM", 38, "failed"),
        ("incomplete", "finished", None, 60, "cut_off"),
        ("incomplete", "stopped", "SIGTERM", 38, "stopped"),
        ("incomplete", "running", None, 38, "running"),
        ("complete", "failed", "out of memory", 60, "failed"),
    ],
)
def test_e1_the_worse_of_status_and_ending_counts(status, kind, cause, steps, right):
    run = make_run(steps=steps, status=status, ending=Ending(kind=kind, cause=cause))
    run = msgspec.structs.replace(run, training_config=make_run(steps=60).training_config)
    assert how_ended(run).kind == right


def test_e1_a_candidate_whose_ending_its_status_denies_is_no_baseline():
    out = {"status": "failed", "ending": Ending(kind="finished")}
    found = checked([runs_of()], [runs_of(day=11, **out)])
    assert found.status == ExitStatus.NOT_COMPARABLE
