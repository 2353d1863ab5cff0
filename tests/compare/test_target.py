"""Time to the target: MLPerf's score, what makes the ratio of two, and steps to a loss
elsewhere.
"""

from __future__ import annotations

import json
import math
import re

import msgspec
import pytest
from made_mlperf import mlperf_log, read_log, submission
from stored_runs import reason_of, series, text_of, texts_of

from tprimat.cli import run as run_command
from tprimat.compare import Loaded, compare, speedup
from tprimat.compare.caveats import caveats
from tprimat.compare.pairs import pair
from tprimat.compare.target import RUNS, ratio, target
from tprimat.errors import ExitStatus
from tprimat.log_import.extract import with_system
from tprimat.results.run import Data, GpuInfo, ModelConfig, Run, TrainingConfig


def blocks(count: int, seconds: float):
    """So many blocks of ten steps of so many seconds, with evaluations of 3 s."""
    return tuple((10, round(10_000 * seconds), 3_000) for _ in range(count))


def log(count: int, seconds: float, **more) -> str:
    return mlperf_log(blocks(count, seconds), records=0, **more)


def official(count: int, seconds: float) -> float:
    """Minutes of such a run."""
    return (0.16 + count * (10 * seconds + 3) + (count - 1) * 0.002) / 60


def system_of(runs, label: str):
    # Identical runs would count as copies.
    runs = tuple(
        msgspec.structs.replace(run, label=label, timestamp=f"2026-03-{day:02d}T00:00:00+00:00")
        for day, run in enumerate(runs, 1)
    )
    (found,) = compare([Loaded(f"{label}.json", label * 8, runs)]).systems
    return found


@pytest.fixture
def made(tmp_path):
    """Makes a system of a set of logs."""

    def make(label: str, logs: list[str], **more):
        return system_of(submission(tmp_path / label, logs, **more), label)

    return make


COUNTS = (5, 6, 4, 5, 7, 5, 6, 5, 4, 9)
KEPT = (5, 6, 4, 5, 7, 5, 6, 5)


class TestScore:
    def test_the_mean_without_the_fastest_and_the_slowest_times_the_normalisation(self, made):
        found = target(made("a", [log(count, 1.0) for count in COUNTS], scaling=1.01))
        mean = math.fsum(official(count, 1.0) for count in KEPT) / 8
        assert len(found.counted) == 8
        assert found.mean["seconds"] / 60 == pytest.approx(mean, rel=1e-6)
        assert found.official_minutes == pytest.approx(1.01 * mean, rel=1e-6)
        assert found.mean["samples"] == sum(KEPT) * 160 / 8
        assert found.mean["training"] == pytest.approx(sum(KEPT) * 10 / 8)
        assert texts_of(found.notes) == ()

    @pytest.mark.parametrize("failed", [1, 2])
    def test_one_run_may_fail_and_counts_as_the_slowest(self, made, failed):
        logs = [log(count, 1.0) for count in COUNTS[:-failed]] + [
            log(2, 1.0, status="aborted")
        ] * failed
        found = target(made("a", logs))
        assert (found.official_minutes is not None) == (failed == 1)
        assert len(found.counted) == 8
        assert f"{failed} of 10 runs did not reach the target" in texts_of(found.notes)
        assert found.runs[-1] is None

    @pytest.mark.parametrize(
        ("name", "runs"),
        [("llama31_8b", 10), ("llama2_70b_lora", 10), ("gpt3", 3), ("llama31_405b", 3)],
    )
    @pytest.mark.parametrize("more", [-1, 0, 1])
    def test_how_many_runs_a_score_needs(self, made, name, runs, more):
        assert RUNS[name] == runs
        found = target(
            made(
                "a",
                [
                    log(5 + index % 2, 1.0 + index / 999, benchmark=name)
                    for index in range(runs + more)
                ],
            )
        )
        assert (found.official_minutes is not None) == (more == 0)
        assert any(note.startswith("no official score") for note in texts_of(found.notes)) == (
            more != 0
        )

    @pytest.mark.parametrize(("count", "counted"), [(2, 2), (3, 1)])
    def test_of_two_runs_both_count(self, made, count, counted):
        assert (
            len(target(made("a", [log(5, 1.0 + index / 99) for index in range(count)])).counted)
            == counted
        )

    def test_without_scaling_json_the_normalisation_is_unknown(self, made):
        found = target(made("a", [log(count, 1.0) for count in COUNTS]))
        assert found.scaling is None
        assert found.official_minutes == pytest.approx(found.mean["seconds"] / 60)
        assert any(note.startswith("normalization unknown") for note in texts_of(found.notes))

    @pytest.mark.parametrize(
        "content", ["{}", "[1]", "no JSON", '{"scaling_factor": -1}', '{"scaling_factor": 1e999}']
    )
    def test_a_broken_scaling_json_is_none(self, tmp_path, content):
        path = tmp_path / "result_0.txt"
        path.write_text(log(5, 1.0))
        (tmp_path / "scaling.json").write_text(content)
        assert "scaling_factor" not in with_system(read_log(log(5, 1.0)), path).native_metrics


class TestRatio:
    def test_it_is_speed_times_samples_times_rest_times_normalisation(self, made):
        one = made("a", [log(count, 1.0 + index / 500) for index, count in enumerate(COUNTS)])
        other = made(
            "b",
            [log(count + 1, 1.5 + index / 700) for index, count in enumerate(COUNTS)],
            scaling=1.02,
        )
        factors = ratio(other, one).factors
        assert factors["time"].value == pytest.approx(
            math.prod(factors[name].value for name in ("speed", "samples", "rest"))
        )
        assert factors["official"].value == pytest.approx(
            factors["time"].value * factors["normalisation"].value
        )
        assert factors["normalisation"].value == 1.02
        assert factors["samples"].value == pytest.approx((sum(KEPT) + 8) / sum(KEPT))
        assert factors["speed"].value == pytest.approx(1.49, abs=0.01)
        assert all(
            factors[name].low < factors[name].value < factors[name].high
            for name in ("time", "speed", "samples", "rest")
        )
        back = ratio(one, other).factors
        assert back["time"].value == pytest.approx(1 / factors["time"].value)

    def test_identical_sets_need_the_same(self, made):
        logs = [log(count, 1.0 + index / 500) for index, count in enumerate(COUNTS)]
        later = [each.replace("1760000", "1770000") for each in logs]
        factors = ratio(made("a", logs, scaling=1.1), made("b", later, scaling=1.1)).factors
        assert all(factor.value == pytest.approx(1) for factor in factors.values())
        assert all(
            factor.low <= 1 <= factor.high for factor in factors.values() if factor.low is not None
        )

    @pytest.mark.parametrize("turned", [lambda time: 3 * 10**12 - time, lambda _: 5])
    def test_a_clock_that_goes_back_or_stands_still_gives_none(self, made, turned):
        text = re.sub(r'(?<="time_ms": )\d+', lambda time: str(turned(int(time[0]))), log(5, 1.0))
        assert text != log(5, 1.0)
        broken, sound = made("a", [text]), made("b", [log(5, 1.0)])
        assert target(broken) is None
        assert ratio(sound, broken) is None

    @pytest.mark.parametrize("stall", [0.0, 2.0])
    def test_a_single_run_brings_the_error_within_it_as_where_speeds_are_compared(
        self, made, stall
    ):
        many = made("a", [log(5, 1.0 + index / 500) for index in range(4)])
        steps = (*blocks(4, 1.2), (10, 12_000 + round(1000 * stall), 3_000))
        alone = made("b", [mlperf_log(steps, records=0)])
        factors, compared = ratio(many, alone).factors, speedup.ratio(many, alone)
        # Speed is of the same runs here and there, but for the mean without the fastest and the
        # slowest run.
        assert (factors["speed"].low, factors["speed"].high) == pytest.approx(
            (compared.low, compared.high), rel=0.01
        )
        assert (factors["time"].high / factors["time"].low > 1.1) is bool(stall)
        assert factors["samples"].low is None

    def test_where_nothing_varies_there_is_no_interval(self, made):
        one, other = (
            made(label, [log(5, seconds)] * 1 + [log(5, seconds + 1e-3)])
            for label, seconds in (("a", 1.0), ("b", 2.0))
        )
        samples = ratio(one, other).factors["samples"]
        assert (samples.value, samples.low, samples.high) == (1, None, None)

    def test_another_benchmark_or_target_is_another_thing(self, made):
        one = made("a", [log(5, 1.0)])
        for other in (
            made("b", [log(5, 1.0, benchmark="gpt3")]),
            made("c", [log(5, 1.0).replace('"value": 3.3', '"value": 3.0')]),
        ):
            assert reason_of(ratio(one, other)) == "their benchmarks or targets differ"

    def test_where_blocks_hold_their_evaluation_time_and_samples_remain(self, made):
        one, other = (
            made(label, [log(5, seconds, dialect="mixed", benchmark="gpt3")] * 1)
            for label, seconds in (("a", 1.0), ("b", 2.0))
        )
        assert set(ratio(one, other).factors) == {"time", "samples", "normalisation"}

    def test_of_no_mlperf_there_is_none(self):
        made = system_of([trained(1.0)], "a")
        assert target(made) is None
        assert ratio(made, made) is None


def trained(
    decay: float, *, steps: int = 200, seconds: float = 0.5, vocabulary: int = 50_000, **data
) -> Run:
    """A run whose loss falls from 10 to 2, and is 2 + 8 / e after 100 × decay steps."""
    times = [seconds] * steps
    losses = tuple(2 + 8 * math.exp(-step / (100 * decay)) for step in range(1, steps + 1))
    return Run(
        framework="nemo",
        model="llama",
        **{**series(times), "loss_values": losses},
        gpu_info=GpuInfo(
            device_name="NVIDIA H100 80GB HBM3", device_count=8, software_stack="cuda"
        ),
        training_config=TrainingConfig(global_batch_size=32, sequence_length=1024, num_gpus=8),
        model_config=ModelConfig(
            num_layers=4,
            hidden_size=256,
            num_attention_heads=4,
            ffn_hidden_size=512,
            vocab_size=vocabulary,
        ),
        data=Data(**(data or {"kind": "tokens", "digest": "ab"})),
    )


def step_at(decay: float, loss: float) -> int:
    """The first step at which the mean of the last ten losses is no higher."""
    return next(
        step
        for step in range(10, 999)
        if math.fsum(2 + 8 * math.exp(-each / (100 * decay)) for each in range(step - 9, step + 1))
        / 10
        <= loss
    )


class TestToALoss:
    def test_steps_tokens_and_time(self):
        found = target(system_of([trained(1.0)], "a"), 4.0)
        step = step_at(1.0, 4.0)
        assert found.mean == {
            "steps": step,
            "tokens": step * 32 * 1024,
            "seconds": pytest.approx(step * 0.5),
        }
        assert found.official_minutes is None

    @pytest.mark.parametrize("loss", [4.0, 6.0])
    def test_just_above_is_reached_and_just_below_is_later(self, loss):
        step = step_at(1.0, loss)
        mean = math.fsum(2 + 8 * math.exp(-each / 100) for each in range(step - 9, step + 1)) / 10
        system = system_of([trained(1.0)], "a")
        assert target(system, mean + 1e-9).mean["steps"] == step
        assert target(system, mean - 1e-9).mean["steps"] == step + 1

    def test_what_nobody_reaches(self):
        system = system_of([trained(1.0)], "a")
        assert target(system, 0.5) is None
        assert reason_of(ratio(system, system, 0.5)) == "not both reach a loss of 0.5"

    def test_nine_records_are_too_few(self):
        for steps in (9, 10):
            assert (target(system_of([trained(0.01, steps=steps)], "a"), 9.0) is not None) == (
                steps == 10
            )

    def test_the_ratio_of_two(self):
        one, other = (
            system_of([trained(decay, seconds=seconds)], label)
            for decay, seconds, label in ((1.0, 0.5, "a"), (0.8, 0.5, "b"))
        )
        factors = ratio(one, other, 4.0).factors
        expected = step_at(1.0, 4.0) / step_at(0.8, 4.0)
        assert {name: factor.value for name, factor in factors.items()} == pytest.approx(
            dict.fromkeys(("time", "steps", "tokens"), expected)
        )

    @pytest.mark.parametrize(
        ("other", "reason"),
        [
            ({"kind": "tokens", "digest": "cd"}, "different data (checksums differ)"),
            ({"kind": "C4"}, "the data is tokens and C4"),
            ({"kind": None}, "the data is tokens and unknown"),
            ({"vocabulary": 32_000}, "the vocabulary has 50000 and 32000 tokens"),
        ],
    )
    def test_where_data_or_vocabulary_differ_it_is_said_why_not(self, other, reason):
        systems = [system_of([trained(1.0)], "a"), system_of([trained(1.0, **other)], "b")]
        found = ratio(*systems, 4.0)
        assert (found.factors, reason_of(found)) == ({}, reason)


class TestOutputs:
    @pytest.fixture
    def shown(self, made, tmp_path, capsys):
        made("a", [log(count, 1.0 + index / 500) for index, count in enumerate(COUNTS)])
        made("b", [log(count + 1, 1.5) for count in COUNTS], scaling=1.02)

        def show(*words: str):
            names = [f"one={tmp_path / 'a'}", f"two={tmp_path / 'b'}"]
            status = run_command(
                "compare", [*names, "--no-plot", "--results-dir", str(tmp_path / "out"), *words]
            )
            return (
                status,
                capsys.readouterr().out,
                (tmp_path / "out" / "comparison_report.md").read_text(),
            )

        return show

    def test_json_and_the_report_have_it_and_the_first_screen_has_not(self, shown):
        status, out, report = shown()
        assert status == ExitStatus.OK
        assert "Score, min" not in out
        section = report.partition("## Time to the target")[2].partition("\n## ")[0]
        assert "| Score, min" in section
        assert "| Samples" in section
        assert "normalization unknown: no scaling.json next to the logs" in section
        _, out, _ = shown("--json")
        (group,) = json.loads(out)["models"][0]["groups"]
        (pair,) = group["pairs"]
        assert (
            pair["target"]["factors"]["speed"]["low"] < pair["target"]["factors"]["speed"]["value"]
        )
        assert {each["name"]: each["target"]["scaling"] for each in group["systems"]}.keys()
        assert sorted(each["target"]["scaling"] or 0 for each in group["systems"]) == [0, 1.02]

    @pytest.mark.parametrize("word", ["0", "-1", "inf", "nan"])
    def test_a_loss_that_is_none_is_wrong_usage(self, word, tmp_path, capsys):
        assert run_command("compare", [str(tmp_path), f"--target-loss={word}"]) == ExitStatus.USAGE
        assert "--target-loss must be above zero" in capsys.readouterr().err

    def test_logs_with_blocks_alone_are_compared_in_every_output(self, shown, tmp_path):
        pytest.importorskip("matplotlib")
        names = [f"one={tmp_path / 'a'}", f"two={tmp_path / 'b'}"]
        assert (
            run_command("compare", [*names, "--results-dir", str(tmp_path / "plot"), "--verbose"])
            == ExitStatus.OK
        )
        assert (tmp_path / "plot" / "comparison_plot.png").stat().st_size > 10_000
        assert (tmp_path / "plot" / "comparison_report.html").exists()


@pytest.mark.parametrize(
    ("runs", "told"), [(1, "; measure more runs"), (3, " s, in the median block 1.2 s")]
)
def test_an_unlike_block_of_a_single_run_asks_for_more_runs(made, runs, told):
    steps = (*blocks(4, 1.2), (10, 24_000, 3_000))
    stalled = made(
        "b",
        [mlperf_log(steps, records=0).replace("1760000", f"17{run}0000") for run in range(runs)],
    )
    usual = made("a", [log(5, 1.0 + index / 500) for index in range(4)])
    (caveat,) = (
        each
        for each in caveats([stalled, usual], [pair(usual, stalled)])
        if each.code == "unlike-blocks"
    )
    assert text_of(caveat).startswith(f"{stalled.name}: ")
    assert text_of(caveat).endswith(told)
    assert ("block 5 takes 2.00× as long (steps 41–50)" in text_of(caveat)) is (runs == 1)
    assert len(text_of(caveat)) < 79
