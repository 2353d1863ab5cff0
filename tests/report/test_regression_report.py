"""What a regression check shows: the answer first, what to do next, and all of it on one screen."""

from __future__ import annotations

import dataclasses
import json

import golden
import msgspec
import pytest
from made_runs import make_run
from stored_runs import note, notes_of

from tprimat.compare import Loaded
from tprimat.compare.regression import check_regression
from tprimat.compare.threshold import parse
from tprimat.notes import skipped
from tprimat.report import json_values, terminal
from tprimat.report import regression as regression_report
from tprimat.results.run import MemoryMetrics, Source


def a_check(slower="3%", candidate=3.4, count=3, *, old=None, new=None, more=(), **options):
    def runs(step_time, fields):
        return tuple(
            make_run(
                **{
                    "step_time": step_time * factor,
                    "timestamp": f"2026-03-0{day}T00:00:00+00:00",
                    **(fields or {}),
                }
            )
            for day, factor in enumerate((0.998, 1.0, 1.002)[:count], start=1)
        )

    files = [
        [Loaded(f"{name}.json", "0" * 64, runs(step_time, fields))]
        for name, step_time, fields in (("old", 3.2, old), ("new", candidate, new))
    ]
    return check_regression(*files, parse(slower, ["peak_memory_allocated_gb=1", *more]), **options)


UNKNOWN = "peak_memory_device_used_gb=1"
MORE = MemoryMetrics(avg_memory_allocated_gb=60.0, peak_memory_allocated_gb=70.0)


def test_a_regression_check():
    found = json.loads(json_values.dumped(json_values.regression_values(a_check())))
    rate, memory = found["checks"]
    assert found["status"] == 1
    assert [rate[key] for key in ("metric", "answer", "threshold", "threshold_unit", "method")] == [
        *("tokens_per_second_per_gpu", "worse", 3.0, "%", "welch")
    ]
    assert rate["low"] < rate["change"] < rate["high"] < 0.97
    assert (rate["baseline_runs"], rate["candidate_runs"], rate["runs_needed"]) == (3, 3, None)
    assert rate["p"] <= rate["p_adjusted"] < 0.05
    assert (memory["answer"], memory["threshold_unit"], memory["change"]) == ("within", "GB", 0)
    assert (found["pairs"][0]["faster"], found["pairs"][0]["speedup"]["significant"]) == (
        "8×H100 (BF16) (baseline)",
        True,
    )


SCREENS = {
    "pass": {"slower": "10%"},
    "fail": {},
    "inconclusive": {"slower": "5.9%", "count": 2},
    "not_comparable": {"old": {"length": 4096}},
    "implausible": {"candidate": 0.3},
}


def shown(check, **options):
    return terminal.write(regression_report.document(check), width=80, **options)


@pytest.mark.parametrize("name", SCREENS)
def test_the_first_screen_of_a_regression_check(name):
    lines = shown(
        a_check(
            **SCREENS[name],
            notes=[skipped(f"file_{number}.json", "not a result") for number in range(9)],
        )
    )
    first = lines.splitlines()[:24]
    golden.check(f"regression_{name}.txt", "\n".join(first) + "\n")
    assert max(map(len, first)) <= 80
    assert any(line.startswith("Next: ") for line in first)


def test_many_checks_fit_one_screen_and_a_change_is_read_first():
    def runs(step_time, **fields):
        return [
            make_run(
                step_time=step_time * factor * (1 + model / 1000), model=f"model-{model}", **fields
            )
            for model in range(12)
            for factor in (0.99, 1.0, 1.01)
        ]

    files = [
        [Loaded(f"{name}.json", "0" * 64, tuple(each))]
        for name, each in (("old", runs(3.2, device="NVIDIA H200")), ("new", runs(3.3)))
    ]
    thresholds = parse("3%", ["avg_step_time_seconds=1%", "final_loss=1%"])
    lines = shown(
        check_regression(*files, thresholds, notes=[*notes_of("skipped")] * 70)
    ).splitlines()
    assert any(line.startswith("Next: ") for line in lines[:24])
    assert len(lines) < 30


class TestNextStep:
    """Every answer has one, and one alone."""

    @pytest.mark.parametrize(
        ("options", "status", "step"),
        [
            ({"slower": "10%"}, 0, "keep the candidate's results as the next baseline"),
            (
                {},
                1,
                "find the cause: profile both with ./benchmark.py --match RESULT --profile torch",
            ),
            (
                {"old": {"device": "NVIDIA H200"}},
                1,
                "measure the baseline with the candidate's GPU, so that",
            ),
            (
                {"slower": "5.7%"},
                0,
                (
                    "measure 18 runs each, interleaved if possible: ./benchmark.py --match RESULT"
                    " --runs 18"
                ),
            ),
            (
                {"slower": "0%", "candidate": 3.2001},
                0,
                (
                    "set a threshold, such as --max-slowdown 3%: at 0%, an unchanged program is"
                    " always inconclusive"
                ),
            ),
            (
                {"slower": "5.89%"},
                0,
                "make runs vary less (idle machine, fixed clocks): not even 100 runs each",
            ),
            (
                {"new": {"steps": 30, "warmup": (5.0,) * 16}},
                0,
                (
                    "run longer (at least 200 steps, better 500): ./benchmark.py --match RESULT"
                    " --steps 500"
                ),
            ),
            (
                {"old": {"length": 4096}},
                3,
                "measure both with the same workload: ./benchmark.py --match RESULT",
            ),
            ({"old": {"length": None}}, 3, "fill in missing values: --sequence-length N"),
            (
                {"new": {"status": "failed", "steps": 0, "warmup": ()}},
                3,
                "repeat the runs of 8×H100",
            ),
            (
                {"new": {"length": None, "steps": 0, "warmup": ()}},
                3,
                "fill in missing values: --sequence-length N",
            ),
            (
                {"new": {"model": "qwen"}},
                3,
                "measure it for the candidate: ./benchmark.py --match RESULT",
            ),
            ({"candidate": 3.2}, 3, "pass the results of another measurement as --candidate"),
            (
                {"slower": "10%", "more": [UNKNOWN]},
                3,
                "leave out --threshold peak_memory_device_used_gb",
            ),
            ({"more": [UNKNOWN]}, 3, "find the cause: profile both"),
            ({"candidate": 0.3}, 4, "check the log and configuration of"),
            ({"slower": "5.7%", "fail_on_inconclusive": True}, 6, "measure 18 runs each"),
        ],
    )
    def test_of(self, options, status, step):
        found = a_check(**options)
        assert found.status == status
        assert regression_report.next_step(found).startswith(step)
        assert shown(found).count("Next: ") == 1
        assert step.partition(":")[0] in regression_report.summary(
            found, "command"
        ).decode().replace("\\", "")

    @pytest.mark.parametrize(
        ("options", "step"),
        [
            (
                {"slower": "5.7%"},
                "measure 18 runs each, interleaved if possible (run the training 18 times)",
            ),
            (
                {"new": {"steps": 30, "warmup": (5.0,) * 16}},
                "run longer (at least 200 steps, better 500)",
            ),
            ({"old": {"length": 4096}}, "measure both with the same workload"),
            ({}, "find the cause: profile both, then compare with tprimat explain"),
        ],
    )
    def test_runs_of_others_are_not_repeated_with_our_command(self, options, step):
        log = {"source": Source(kind="log")}
        sides = {side: {**options.get(side, {}), **log} for side in ("old", "new")}
        assert regression_report.next_step(a_check(**{**options, **sides})) == step
        assert "./benchmark.py" in regression_report.next_step(
            a_check(**{**options, "old": sides["old"]})
        )


@pytest.mark.parametrize(
    ("code", "steps"),
    [("measure-runs", (1, 2)), ("measure-baseline-runs", (1,)), ("measure-candidate-runs", (2,))],
)
def test_the_commands_are_those_of_the_runs_that_are_needed(code, steps):
    found = a_check(old={"arguments": ("--steps", "1")}, new={"arguments": ("--steps", "2")})
    check = dataclasses.replace(found.checks[0], advice=note(code, runs=9))
    text = regression_report.next_step(dataclasses.replace(found, checks=(check,)))
    assert text.startswith("measure 9 ")
    commands = "; ".join(f"./benchmark.py --steps {each} --runs 9" for each in steps)
    assert text.endswith(f": {commands}")


@pytest.mark.parametrize(("slower", "is_told"), [(1.0, False), (1.1, True)])
def test_earlier_runs_in_the_candidate_are_told(slower, is_told):
    def runs(month, factors):
        return tuple(
            make_run(step_time=3.2 * factor, timestamp=f"2026-{month}-{day:02d}T00:00:00+00:00")
            for day, factor in enumerate(factors, start=1)
        )

    spread = (0.998, 1.0, 1.002)
    candidate = (*runs("03", spread), *runs("04", [slower * each for each in spread]))
    baseline = runs("02", [1.0001 * each for each in spread])
    files = [[Loaded(f"{len(each)}.json", "0" * 64, each)] for each in (baseline, candidate)]
    found = check_regression(*files, parse("3%", []))
    text = " ".join(terminal.write(regression_report.document(found), width=200).split())
    assert ("the last 3 runs, " in text) is is_told
    assert (
        regression_report.next_step(found).startswith("compare runs of one program only")
    ) is is_told


class TestChanges:
    def test_an_unknown_precision_explains_no_difference_that_there_isnt(self):
        unknown = {"old": {"precision": None}, "new": {"precision": None}}
        assert "precision is unknown and could explain" in shown(a_check(**unknown))
        assert "precision is unknown" not in shown(a_check(candidate=3.2001, **unknown))
        worse = {**unknown, "new": {"precision": None, "memory_metrics": MORE}}
        assert "precision is unknown" in shown(a_check(candidate=3.2001, **worse))

    def test_a_change_below_the_program_is_a_caveat_with_both_values(self):
        def environment(driver):
            return msgspec.structs.replace(make_run().environment, versions={"driver": driver})

        old, new = {"environment": environment("550.54")}, {"environment": environment("570.86")}
        found = a_check(old=old, new=new)
        assert "! driver: 550.54 vs 570.86" in shown(found)
        assert regression_report.next_step(found).startswith(
            "measure the baseline with the candidate's driver"
        )
        found = a_check(old={**old, "device": "NVIDIA H200", "precision": "fp8"}, new=new)
        caveats = shown(found).partition("Caveats")[2]
        for text in (
            "GPU changed: H200 → H100 80GB HBM3",
            "driver changed: 550.54 → 570.86",
            "precision changed: ",
        ):
            assert text in caveats
        assert "FP8 → BF16" in caveats.upper()
        assert "precision differs" not in caveats

    def test_nothing_changed_in_equal_environments(self):
        assert "changed" not in shown(a_check())


class TestRegressionCheckAsText:
    def test_the_answer_comes_first(self):
        text = terminal.write(regression_report.document(a_check()))
        assert text.startswith("Fail: regression (1 of 2 checks)\nLlama 3.1 8B: 8×H100 (BF16)\n\n")
        assert "FAIL:\ntokens/s/GPU " in text
        assert "-5.9%" in text
        assert max(map(len, text.splitlines())) <= 80

    def test_nothing_hides_a_regression(self):
        found = a_check(more=[UNKNOWN])
        assert found.status == 3
        assert regression_report.verdict(found).startswith(
            "Fail: regression (1 of 3 checks): throughput per GPU -5.9%, threshold "
        )
        assert "; not compared: peak_memory_device_used_gb of " in regression_report.verdict(found)
        assert (
            regression_report.verdict(a_check("10%", more=[UNKNOWN]))
            == "Not comparable (1 of 3 checks)"
        )

    def test_no_reason_is_cut(self):
        found, reason = a_check("10%", more=[UNKNOWN]), " ".join(["a long reason"] * 15)
        checks = [
            dataclasses.replace(each, notes=notes_of(reason)) if each.change is None else each
            for each in found.checks
        ]
        assert reason in " ".join(shown(dataclasses.replace(found, checks=tuple(checks))).split())

    def test_pass(self):
        assert regression_report.verdict(a_check("10%")) == "Pass (2 of 2 checks)"

    def test_the_summary_is_markdown(self):
        command = "compare_results.py --baseline old --candidate new"
        text = regression_report.summary(a_check(), command).decode()
        assert text.startswith(
            "### Fail: regression (1 of 2 checks)\n\nLlama 3.1 8B: 8×H100 (BF16)\n\n"
        )
        assert "| tokens/s/GPU " in text
        assert text.rstrip().endswith(f"Command: {command}")

    def test_an_inconclusive_check_is_a_warning(self):
        text = " ".join(terminal.write(regression_report.document(a_check("5.9%"))).split())
        assert text.startswith("Inconclusive: too uncertain to decide")
        assert "Llama 3.1 8B: 8×H100 (BF16) throughput per GPU -5.9%: the 95% CI includes" in text
        assert "an inconclusive check exits with status 0" in text

    def test_a_large_regression_without_an_interval_is_named(self):
        check = a_check(candidate=4.8, count=1)
        first, hint = (line for line in regression_report.warnings(check) if "memory" not in line)
        assert (
            first == "warning: Llama 3.1 8B, 8×H100 (BF16), throughput per GPU -33.3%: beyond the"
            " threshold of 3% slower, but with 1 run each, run-to-run variation is unknown"
        )
        assert hint.startswith("hint: ")
        failing = a_check(candidate=4.8, count=1, fail_on_inconclusive=True)
        assert failing.status == 6
        assert not any(line.startswith("hint") for line in regression_report.warnings(failing))
