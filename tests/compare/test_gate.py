"""The gate: worse for sure, within what is allowed for sure, or not to be told."""

from __future__ import annotations

import msgspec
import pytest
from made_runs import H100, MI300X, failed_run, make_run

from tprimat.compare import Loaded
from tprimat.compare.allowance import GATED, parse
from tprimat.compare.gate import gate
from tprimat.errors import ExitStatus, UsageError
from tprimat.results.run import MemoryMetrics

SPREAD = (0.995, 1.0, 1.005, 0.998, 1.002)


def runs_of(step_time=3.2, count=5, *, spread=SPREAD, day=1, **fields):
    """Runs whose means spread by some 0.4 %; those of another day are other measurements."""
    return tuple(
        make_run(
            step_time=step_time * spread[index % len(spread)] * (1 + 1e-7 * day),
            timestamp=f"2026-03-{day + index:02d}T00:00:00+00:00",
            **fields,
        )
        for index in range(count)
    )


def held(before, after, slower="3%", allow=(), **options):
    files = [
        [Loaded(f"{kind}_{index}.json", str(index) * 64, group) for index, group in enumerate(groups)]
        for kind, groups in (("old", before), ("new", after))
    ]
    return gate(*files, parse(slower, allow), **options)


def one(*arguments, **options):
    (check,) = held(*arguments, **options).checks
    return check


class TestAnswers:
    def test_slower_than_allowed_for_sure(self):
        found = held([runs_of()], [runs_of(3.4, day=11)])
        (check,) = found.checks
        assert (check.answer, found.status) == ("worse", ExitStatus.SLOWER)
        assert check.change == pytest.approx(3.2 / 3.4, rel=1e-3)
        assert check.high < 0.97
        assert check.runs == (5, 5)

    @pytest.mark.parametrize("step_time", [3.2, 3.22, 2.9])
    def test_within_what_is_allowed(self, step_time):
        found = held([runs_of()], [runs_of(step_time, day=11)])
        assert (found.checks[0].answer, found.status) == ("within", ExitStatus.WELL)

    def test_slower_but_not_more_than_is_allowed(self):
        before, after = runs_of(), runs_of(3.4, day=11)
        assert one([before], [after], "10%").answer == "within"
        assert one([before], [after], None).answer == "worse"

    def test_a_limit_within_the_interval_cant_be_told(self):
        found = held([runs_of()], [runs_of(3.2 / 0.97, day=11)])
        (check,) = found.checks
        assert (check.answer, found.status) == ("can't tell", ExitStatus.WELL)
        assert check.low < 0.97 < check.high
        assert "is excluded" in check.text

    def test_more_runs_are_asked_for_and_would_tell(self):
        before, after = runs_of(count=3), runs_of(3.2 / 0.975, count=3, day=11)
        check = one([before], [after])
        assert check.answer == "can't tell"
        assert 3 < check.needed <= 100
        assert f"some {check.needed} runs a side would tell" in check.text
        many = [runs_of(step, count=14, day=day) for step, day in ((3.2, 1), (3.2 / 0.975, 15))]
        assert one(many[:1], many[1:]).answer == "within"

    @pytest.mark.parametrize("counts", [(1, 1), (2, 5), (5, 1)])
    def test_few_runs_never_tell_however_large_the_difference(self, counts):
        before, after = runs_of(count=counts[0]), runs_of(6.4, count=counts[1], day=11)
        found = held([before], [after])
        (check,) = found.checks
        assert (check.answer, found.status) == ("can't tell", ExitStatus.WELL)
        assert (check.low, check.needed) == (None, 3)
        assert "nothing is known of other runs: it takes 3 runs a side" in check.text

    def test_a_small_difference_of_single_runs_takes_more_than_three(self):
        check = one([runs_of(count=1)], [runs_of(3.25, count=1, day=11)])
        assert check.needed > 3
        assert f"some {check.needed} if they spread by 1%" in check.text

    def test_an_unchanged_program_with_nothing_allowed_stays_untold(self):
        check = one([runs_of()], [runs_of(day=11)], None)
        assert (check.answer, check.needed) == ("can't tell", None)
        assert "allow a little" in check.text


class TestLevels:
    def level_runs(self, first, second, day):
        return tuple(
            make_run(
                steps=300,
                warmup=(20.0, *[first * factor] * 149),
                step_time=second * factor,
                timestamp=f"2026-03-{day + index:02d}T00:00:00+00:00",
            )
            for index, factor in enumerate((0.999, 1.0, 1.001))
        )

    def test_worse_at_every_level_is_worse(self):
        check = one([self.level_runs(2.6, 2.4, 1)], [self.level_runs(3.6, 3.4, 11)])
        assert check.answer == "worse"

    def test_worse_by_some_levels_cant_be_told(self):
        check = one([self.level_runs(2.6, 2.4, 1)], [self.level_runs(2.62, 2.42, 11)])
        assert (check.answer, check.needed) == ("can't tell", None)


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
        rate, memory = held([before], [after], allow=[f"peak_memory_reserved_gb={amount}"]).checks
        assert rate.allowance.metric.name == "tokens_per_second_per_gpu"
        assert memory.answer == answer

    def test_less_memory_is_never_worse(self):
        before, after = self.with_memory([40.0] * 5, 1), self.with_memory([30.0] * 5, 11)
        assert held([before], [after], allow=["peak_memory_reserved_gb=0"]).checks[1].answer == "within"

    def test_memory_that_varies_has_an_interval(self):
        before, after = (self.with_memory([40.0, 40.1, 39.9, 40.0, 40.2], 1), self.with_memory([40.4] * 4 + [41.0], 11))
        check = held([before], [after], allow=["peak_memory_reserved_gb=0.5"]).checks[1]
        assert check.answer == "can't tell"
        assert check.low < 0.5 < check.high

    def test_a_metric_that_nobody_measured_is_not_comparable(self):
        found = held([runs_of()], [runs_of(day=11)], allow=["peak_memory_device_used_gb=1"])
        assert found.checks[1].answer == "not comparable"
        assert "is unknown of" in found.checks[1].text
        assert found.status == ExitStatus.NOT_COMPARABLE

    def test_a_step_time_in_seconds(self):
        check = held([runs_of()], [runs_of(3.4, day=11)], allow=["median_step_time_seconds=0.05"]).checks[1]
        assert check.answer == "worse"
        assert check.change == pytest.approx(0.2, abs=0.01)


class TestPartners:
    def test_each_model_is_held_against_its_own(self):
        found = held([runs_of(), runs_of(model="qwen")], [runs_of(3.4, day=11), runs_of(model="qwen", day=11)])
        assert [(check.model, check.answer) for check in found.checks] == [
            ("Llama 3.1 8B", "worse"),
            ("Qwen 2.5 7B", "within"),
        ]
        assert found.status == ExitStatus.SLOWER

    def test_a_setup_that_vanished_must_not_pass(self):
        found = held([runs_of(), runs_of(model="qwen")], [runs_of(day=11)])
        assert [check.answer for check in found.checks] == ["within", "not comparable"]
        assert found.status == ExitStatus.NOT_COMPARABLE

    def test_a_setup_that_is_new_is_a_note(self):
        found = held([runs_of()], [runs_of(day=11), runs_of(model="qwen")])
        assert found.status == ExitStatus.WELL
        assert any("Qwen 2.5 7B: the baseline has no result" in note for note in found.notes)

    def test_several_setups_are_told_apart_by_their_configuration(self):
        before = [runs_of(precision="bf16"), runs_of(2.0, precision="fp8")]
        after = [runs_of(2.3, precision="fp8", day=11), runs_of(3.2, precision="bf16", day=11)]
        found = held(before, after)
        assert [check.answer for check in found.checks] == ["within", "worse"]

    def test_other_software_is_what_is_compared(self):
        environment = msgspec.structs.replace(make_run().environment, versions={"torch": "3.0"})
        assert one([runs_of()], [runs_of(3.4, day=11, environment=environment)]).answer == "worse"

    def test_two_versions_in_the_baseline_are_asked_about(self):
        environment = msgspec.structs.replace(make_run().environment, versions={"torch": "3.0"})
        found = held([runs_of(), runs_of(environment=environment, day=6)], [runs_of(day=11)])
        assert found.status == ExitStatus.NOT_COMPARABLE
        assert "several sides have this setup" in found.checks[0].text

    def test_another_card_is_compared_when_it_is_the_only_one(self):
        check = one([runs_of(device=H100)], [runs_of(6.4, device=MI300X, stack="rocm", day=11)])
        assert check.answer == "worse"
        assert check.candidate == "8×MI300X (candidate)"


class TestRefusals:
    def test_the_same_runs_cant_be_held_against_themselves(self):
        runs = runs_of()
        found = held([runs], [runs])
        assert found.status == ExitStatus.NOT_COMPARABLE
        assert "hold the same run (new_0.json)" in found.checks[0].text

    def test_one_shared_run_is_enough(self):
        before = runs_of()
        assert one([before], [(before[2], *runs_of(day=11)[3:])]).answer == "not comparable"

    def test_copies_on_one_side_count_once(self):
        once = runs_of(count=1)
        check = one([once, once, once], [runs_of(6.4, day=11)])
        assert check.runs == (1, 5)
        assert check.answer == "can't tell"

    def test_a_failed_candidate_is_not_comparable(self):
        found = held([runs_of()], [(failed_run(H100, stack="cuda"),)])
        assert found.status == ExitStatus.NOT_COMPARABLE
        assert "its run failed (out of memory)" in found.checks[0].text

    def test_figures_that_cant_be_true_are_status_4(self):
        found = held([runs_of()], [runs_of(0.5, day=11)])
        assert (found.checks[0].answer, found.status) == ("impossible", ExitStatus.IMPOSSIBLE)
        assert "of the dense bf16 peak" in found.checks[0].text

    def test_a_precision_that_the_user_knows_is_judged_by(self):
        before, after = runs_of(precision=None), runs_of(0.5, precision=None, day=11)
        assert one([before], [after]).answer == "not comparable"
        from tprimat.analysis.efficiency import Options

        found = held([before], [after], options=Options(precision="bf16"))
        assert found.status == ExitStatus.IMPOSSIBLE
        assert any("precision bf16 as given on the command line" in note for note in found.notes)

    def test_identical_configurations_may_be_asked_for(self):
        before, after = runs_of(), runs_of(batch=128, step_time=6.4, day=11)
        assert one([before], [after]).answer == "within"
        assert one([before], [after], mode="identical").answer == "not comparable"

    def test_another_sequence_length_is_other_work(self):
        assert one([runs_of()], [runs_of(length=4096, day=11)]).answer == "not comparable"


class TestAllowances:
    def test_nothing_is_allowed_unless_it_is_said(self):
        (rate,) = parse(None, ())
        assert (rate.metric.name, rate.percent, rate.amount) == ("tokens_per_second_per_gpu", True, 0.0)

    def test_the_rate_may_be_allowed_in_its_unit(self):
        (rate,) = parse(None, ["tokens_per_second_per_gpu=100"])
        assert (rate.percent, rate.amount, str(rate)) == (False, 100.0, "100 tokens/s/GPU less")

    def test_percent_and_units(self):
        rate, memory = parse(" 3 % ", ["peak_memory_reserved_gb= .5"])
        assert (str(rate), str(memory)) == ("3% less", "0.5 GB more")

    @pytest.mark.parametrize("text", ["3", "0.03", "-3%", "100%", "nan%", "inf%", "", "3%%", "three"])
    def test_what_is_no_share_of_a_speed(self, text):
        with pytest.raises(UsageError) as caught:
            parse(text, ())
        assert caught.value.heading == "wrong-allowance"

    @pytest.mark.parametrize(
        "text", ["memory=1", "final_loss=1", "tokens_per_second", "=3%", "peak_memory_reserved_gb=-1", "x=1"]
    )
    def test_what_is_no_allowance(self, text):
        with pytest.raises(UsageError) as caught:
            parse(None, [text])
        assert caught.value.heading == "wrong-allowance"
        assert "\n" not in caught.value.line()

    def test_two_for_one_metric(self):
        with pytest.raises(UsageError, match="two allowances"):
            parse("3%", ["tokens_per_second_per_gpu=100"])

    def test_every_gated_metric_is_a_row(self):
        assert {"tokens_per_second_per_gpu", "peak_memory_reserved_gb"} <= {metric.name for metric in GATED}
