from __future__ import annotations

import msgspec
import pytest
from made_runs import MI300X, comparison, failed_run, make_run

from tprimat.report.rates import rate, rate_unit
from tprimat.report.verdict import answers, fold
from tprimat.results.run import Environment

AMD = {"device": MI300X, "stack": "rocm"}


def answer(*runs, **options):
    (found,) = answers(comparison(*runs, **options).models[0])
    return found


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (5055.05, "5,055"), (213.44, "213.4"), (21.344, "21.34"), (2.1344, "2.134")]
)
def test_rates_have_three_digits_or_more(value, text):
    assert rate(value) == text


@pytest.mark.parametrize(("ratio", "text"), [(1.3621, "1.36 times"), (1.0312, "1.031 times"), (12.3, "12.30 times")])
def test_fold(ratio, text):
    assert fold(ratio) == text


class TestUnit:
    def test_of_gpus(self):
        assert rate_unit(comparison(make_run()).models[0].sides) == "tokens/s/GPU"

    def test_of_one_processor(self):
        assert rate_unit(comparison(make_run(None, stack="cpu", gpus=1)).models[0].sides) == "tokens/s"

    def test_of_several_processes(self):
        assert rate_unit(comparison(make_run(None, stack="cpu", gpus=4)).models[0].sides) == "tokens/s/process"

    def test_of_both(self):
        sides = comparison(make_run(None, stack="cpu", gpus=1), make_run()).models[0].sides
        assert rate_unit(sides) == "tokens/s/device"


class TestHeadline:
    def test_the_faster_one_is_the_subject(self):
        slower_second = answer(make_run(), make_run(**AMD, step_time=6.4))
        assert slower_second.headline.startswith(
            "8×H100 80GB HBM3 is 2.00 times as fast as 8×MI300X: 5,120 against 2,560"
        )

    def test_with_other_numbers_of_gpus_it_is_per_gpu(self):
        found = answer(make_run(), make_run(**AMD, step_time=1.6, gpus=16, batch=256))
        assert found.headline.startswith("16×MI300X is 4.00 times as fast per GPU as 8×H100 80GB HBM3: ")

    def test_bounds_can_be_told_apart(self):
        def runs(step_time, **fields):
            days = enumerate((1.0, 1.0005, 0.9995), 1)
            return tuple(
                make_run(step_time=step_time * factor, timestamp=f"2026-02-0{day}T00:00:00+00:00", **fields)
                for day, factor in days
            )

        found = answer(runs(3.2), runs(2.8, **AMD))
        assert "1.143 times (95 %: 1.142 to 1.144)" in found.headline

    def test_a_run_that_never_settled_is_named_at_once(self):
        found = answer(make_run(), make_run(**AMD, steps=15))
        assert "No steady state was found in 8×MI300X: a rough figure." in found.brief

    def test_several_runs_one_of_which_drifts_have_no_single_headline(self):
        run = make_run(**AMD, steps=160, step_time=1.6, warmup=())
        grown = tuple(time * (1 + index / 800) for index, time in enumerate(run.step_times))
        found = answer(
            make_run(steps=160),
            (make_run(**AMD, steps=160, step_time=1.6), msgspec.structs.replace(run, step_times=grown)),
        )
        assert found.headline.count(" times") > 1
        assert "of run 2" in found.headline

    def test_equal_sides(self):
        assert "equally fast" in answer(make_run(), make_run(**AMD)).headline

    def test_no_ratio_is_said_first(self):
        found = answer(make_run(), failed_run())
        assert found.headline.startswith("8×MI300X can't be compared with 8×H100 80GB HBM3: ")
        assert found.brief == ()

    def test_three_sides(self):
        found = answer(make_run(), make_run(**AMD, step_time=1.6), make_run("NVIDIA H200", step_time=2.0))
        assert found.headline == (
            "Against 8×H100 80GB HBM3 (5,120 tokens/s/GPU), 8×MI300X is 2.00 times as fast, "
            "8×H200 is 1.60 times as fast."
        )

    def test_many_sides_name_the_ends(self):
        found = answer(*(make_run(label=str(index), step_time=2.0 + index) for index in range(8)))
        assert found.headline.endswith("; the other 5 sides lie between.")

    def test_equal_refusals_are_one_sentence(self):
        found = answer(make_run(), make_run(label="a", length=4096), make_run(label="b", length=4096), reference="H100")
        assert found.headline.startswith("a and b can't be compared with 8×H100 80GB HBM3: ")


def test_runs_are_told_with_their_range():
    second = make_run(step_time=3.3, timestamp="2026-02-03T00:00:00+00:00")
    found = answer((make_run(), second), make_run(**AMD, step_time=2.0))
    assert "8×H100 80GB HBM3: 4,965 to 5,120 in 2 runs; 8×MI300X: a single run" in found.why[-1]
    assert "takes 3 runs a side" in found.why[-1]
    assert found.brief[0] == "Fewer than 3 runs a side: no claim about other runs."
    assert found.next[0].startswith("3 runs a side, better 5 and in turns")


def test_enough_runs_without_an_interval_are_not_asked_for_again():
    def runs(step_time, **fields):
        return tuple(
            make_run(steps=160, step_time=step_time, timestamp=f"2026-02-0{day}T00:00:00+00:00", **fields)
            for day in (1, 2, 3)
        )

    drifting = tuple(
        msgspec.structs.replace(
            run, step_times=tuple(time * (1 + index / 800) for index, time in enumerate(run.step_times))
        )
        for run in runs(1.6, **AMD)
    )
    found = answer(runs(3.2), drifting)
    assert any("They have no interval, since not every run keeps one level." in each for each in found.why)


@pytest.mark.parametrize(("instructions", "said"), [(("avx2",), True), (("avx512_bf16",), False), (None, False)])
@pytest.mark.parametrize(
    ("labels", "whose"), [(("bf16", "fp32"), "its processor"), (("one", "other"), "the processor of one")]
)
def test_bf16_in_software_is_a_reason(instructions, said, labels, whose):
    cpu = {"device": None, "stack": "cpu", "gpus": 1, "environment": Environment(cpu_instructions=instructions)}
    slow = make_run(**cpu, step_time=64.0, label=labels[0])
    found = answer(slow, make_run(**cpu, precision="fp32", label=labels[1]))
    reason = f"bf16 is computed in software: {whose} has no bf16 instructions."
    assert (reason in found.why) is said
