"""Trainings of one text that names no model are compared per step; runs of one seed are of one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import msgspec
import pytest
from made_runs import make_run
from stored_runs import reason_of, text_of

from tprimat import cli
from tprimat.analysis.efficiency import Options
from tprimat.compare import Loaded, compare, one_text, systems_of
from tprimat.log_import.load import load
from tprimat.report import tables, verdict
from tprimat.results.run import ModelConfig, Source, SourceFile

CASES = Path(__file__).parents[3] / "shared" / "cases" / "4"
LINE = (
    " [2026-02-03 {hour}:{minute:02}:{second:02}] iteration {step:8}/{steps:8} | consumed samples: {seen:12} |"
    " elapsed time per iteration (ms): {ms:.1f} | learning rate: 1.0E-05 | global batch size: {batch:5} |"
    " lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations:   0 |"
    " number of nan iterations:   0 |\n"
)  # fmt: skip


def training(seconds, *, hour=10, batch=64, first=10.9, steps=30):
    """The lines of a training in Megatron's form."""
    times = [seconds * (1 + step % 3 / 400) for step in range(steps)]
    return "".join(
        LINE.format(
            hour=hour, minute=int(sum(times[:step])) // 60, second=int(sum(times[:step])) % 60, step=step,
            steps=steps, seen=batch * step, ms=1e3 * time, batch=batch, loss=first - step / 10,
        )
        for step, time in enumerate(times, 1)
    )  # fmt: skip


def compared(*words):
    return compare(load(list(map(str, words))).files)


@pytest.fixture
def page(tmp_path):
    def write(*parts, name="page.log"):
        (tmp_path / name).write_text("".join(parts))
        return tmp_path / name

    return write


TWO = training(4.0), "fp8\n", training(2.5, hour=11, first=10.91)
NO_MODEL = "the results don't say which model was trained"


class TestPerStep:
    @pytest.mark.parametrize(
        ("name", "fastest", "ratio"),
        [
            ("a_03_two_trainings_one_paste.log", "fp8", 4.01 / 2.71),
            ("a_12_two_runs_one_page.md", "Mixed precision", 81 / 51),
        ],
    )
    def test_i1_trainings_of_one_text_are_compared_per_step(self, name, fastest, ratio):
        if not CASES.is_dir():
            pytest.skip("the directory of cases does not lie beside this clone")
        (model,) = compared(CASES / name).models
        (group,) = model.groups
        assert group.leaders.faster.name == fastest
        assert group.leaders.speedup.value == pytest.approx(ratio, rel=1e-3)
        assert {system.unit for system in group.systems} == {"steps"}
        caveat = group.caveats[0]
        assert (caveat.code, caveat.severity, text_of(caveat)) == (
            "steps-compared",
            "warning",
            "the log states neither a model nor the tokens of a step, so each step is taken to do the"
            " same work, and steps/s are compared",
        )
        rows = tables.screen_rows(compared(CASES / name), group)
        assert rows[0].title == "steps/s"

    @pytest.mark.parametrize("headings", [("bf16\n", "fp8\n"), ("", "fp8\n"), ("", "")])
    def test_i1_with_two_headings_with_one_and_without(self, headings, page):
        first, second = headings
        comparison = compared(page(first, TWO[0], second, TWO[2]))
        (pair,) = comparison.models[0].groups[0].pairs
        assert reason_of(pair) is None
        assert pair.speedup.value == pytest.approx(1.6, rel=2e-3)

    def test_i1_three_headings(self, page):
        path = page("bf16\n", TWO[0], *TWO[1:], "fp4\n", training(2.0, hour=12, first=10.92))
        (group,) = compared(path).models[0].groups
        assert [system.name for system in group.systems] == ["fp4", "fp8", "bf16"]
        assert all(pair.ratio for pair in group.pairs)

    def test_i1_two_parts_of_one_file_as_two_arguments(self, page):
        path = page(*TWO)
        (pair,) = compared(f"slow={path}#1", f"fast={path}#2").models[0].groups[0].pairs
        assert (pair.faster.name, pair.system.unit) == ("fast", "steps")
        assert pair.speedup.value == pytest.approx(1.6, rel=2e-3)

    def test_i1_a_text_with_different_batches(self, page):
        path = page("bf16\n", TWO[0], "fp8\n", training(2.5, hour=11, batch=128, first=10.91))
        (pair,) = compared(path).models[0].groups[0].pairs
        assert (pair.ratio, pair.system.unit) == (None, "tokens")
        assert reason_of(pair) in (
            "workload mismatch: global batch 64 vs 128",
            "workload mismatch: global batch 128 vs 64",
        )

    def test_i1_two_files_are_not_compared(self, page):
        files = page(TWO[0], name="a.log"), page(TWO[2], name="b.log")
        (pair,) = compared(*files).models[0].groups[0].pairs
        assert (pair.ratio, reason_of(pair), pair.system.unit) == (None, NO_MODEL, "tokens")

    def test_i1_nor_is_a_text_beside_another_file(self, page):
        files = page("bf16\n", *TWO), page(training(3.0, first=11.9), name="b.log")
        pairs = [pair for group in compared(*files).models[0].groups for pair in group.pairs]
        assert [reason_of(pair) for pair in pairs] == [NO_MODEL] * 2

    def test_i1_a_named_model_and_its_sizes_are_compared_in_tokens(self, page, tmp_path, capsys):
        words = [str(page("bf16\n", *TWO)), "--results-dir", str(tmp_path), "--no-plot"]
        named = ["--model-name", "llama3.1_8B", "--num-gpus", "8", "--sequence-length", "2048"]
        assert cli.run("compare", [*words, *named]) == 0
        shown = capsys.readouterr().out
        assert "fp8 is 60% faster per GPU than bf16" in shown
        assert "tokens/s/GPU" in shown
        assert "steps/s" not in shown
        # A model alone says what is missing.
        assert cli.run("compare", [*words, *named[:2]]) == 3
        assert "tokens/s/GPU is unknown" in capsys.readouterr().out

    def test_i1_all_outputs_have_the_unit(self, page, tmp_path, capsys):
        words = [str(page("bf16\n", *TWO)), "--num-gpus", "8", "--results-dir", str(tmp_path)]
        prices = ["--cost", "fp8=3", "bf16=2"]
        assert cli.run("compare", [*words, *prices, "--no-plot"]) == 0
        shown = capsys.readouterr().out
        assert "fp8 is 60% faster than bf16" in shown
        assert "fp8 is 6% cheaper per step than bf16" in " ".join(shown.split())
        assert "token" not in shown.replace("the tokens of a step", "")
        written = {path.suffix: path.read_text() for path in tmp_path.glob("comparison_report.*")}
        assert "Throughput, steps/s" in written[".md"]
        assert "USD per 10³ steps" in written[".html"]
        for text in written.values():
            assert "tokens/s/GPU" not in text
        assert cli.run("compare", [*words, "--json", "--no-plot"]) == 0
        (group,) = json.loads(capsys.readouterr().out)["models"][0]["groups"]
        assert (group["unit"], group["headline"][:27]) == ("steps", "fp8 is 60% faster than bf16")

    def test_i1_without_the_number_of_gpus_a_step_has_no_cost(self, page):
        report = verdict.report(compared(page("bf16\n", *TWO)))
        priced = dataclasses.replace(report.comparison, prices={})
        assert verdict.cost_texts(priced, report.answers) == []


def of_text(name, **fields):
    """A system of one run that was read from a text of a hash."""
    source = Source(kind="log", files=(SourceFile(path="page.log", sha256="aa"),))
    run = make_run(**{"model": None, "scale": None, "source": source, "label": name, **fields})
    return Loaded("page.log", "aa", (run,))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        # The parts of a batch are no work of their own.
        ({"micro": 2}, None),
        ({"batch": None}, "workload mismatch: global batch 64 vs unknown"),
        ({"length": 4096}, "workload mismatch: sequence length 2,048 vs 4,096"),
        ({"gpus": 16}, "workload mismatch: GPUs 8 vs 16"),
        ({"framework": "torchtitan"}, NO_MODEL),
        ({"source": None}, NO_MODEL),
        ({"model_config": ModelConfig(num_layers=5)}, NO_MODEL),
    ],
)
def test_i1_what_a_text_states_of_a_step_is_equal(fields, reason):
    micro = fields.pop("micro", None) if (fields := dict(fields)) else None
    other = of_text("b", step_time=2.0, **fields)
    if micro:
        (run,) = other.runs
        config = msgspec.structs.replace(run.training_config, micro_batch_size=micro)
        other = Loaded("page.log", "aa", (msgspec.structs.replace(run, training_config=config),))
    (group,) = compare([of_text("a"), other], reference="a").models[0].groups
    (pair,) = group.pairs
    assert (reason_of(pair), pair.ratio is None) == (reason, reason is not None)
    assert {system.unit for system in group.systems} == {"tokens" if reason else "steps"}
    if not reason:
        assert text_of(group.caveats[0]).startswith("the log states no model, so each step")


@pytest.mark.parametrize(
    ("tokens", "is_equal"),
    [(131_072.0, True), (132_382.0, True), (132_384.0, False), (None, False)],
)
def test_i1_the_tokens_of_a_step_by_a_printed_rate_are_equal_to_1_percent(
    tokens, is_equal, monkeypatch
):
    both = [of_text(name, batch=None, length=None, gpus=None) for name in "ab"]
    systems = [each for file in both for each in compare([file]).systems]
    known = {systems[0]: 131_072.0, systems[1]: tokens}
    monkeypatch.setattr(one_text, "logged_tokens", lambda system, _="": known[system])
    assert (one_text.unlike_steps(*systems) is None) is is_equal


def nameless(losses, *, day=1, **fields):
    """A run of this day whose first losses are these."""
    run = make_run(model=None, scale=None, step_time=3.2 + day / 1000, **fields)
    later = tuple(value - day / 100 for value in run.loss_values[len(losses) :] if value)
    return msgspec.structs.replace(
        run, loss_values=(*losses, *later), timestamp=f"2026-03-{day:02}T12:00:00+00:00"
    )


FIRST = tuple(9 - step / 100 for step in range(10))


class TestOfOneSeed:
    @pytest.mark.parametrize(
        ("losses", "others", "runs"),
        [
            (FIRST, FIRST, [2]),
            (FIRST, (*FIRST[:9], FIRST[9] + 1e-4), [1, 1]),
            # What comes later may differ.
            (FIRST, (*FIRST, 3.0), [2]),
            (FIRST, (FIRST[0] + 1e-4, *FIRST[1:]), [1, 1]),
            # Five different losses, and four.
            ((9.0, 8.9, 8.8, 8.7, *[8.6] * 6),) * 2 + ([2],),
            ((9.0, 8.9, 8.8, *[8.7] * 7),) * 2 + ([1, 1],),
            # Only what both print is compared.
            ((*FIRST, 8.5), (*FIRST[:4], None, *FIRST[5:], 8.5), [2]),
        ],
    )
    def test_i8_equal_first_losses_tell_that_both_trained_one_model(self, losses, others, runs):
        files = [
            Loaded(f"{day}.json", "", (nameless(each, day=day),))
            for day, each in enumerate((losses, others), 1)
        ]
        _, systems = systems_of(files, Options(), [])
        assert [len(system.runs) for system in systems[None]] == runs

    def test_i8_three_logs_of_one_seed_are_one_system(self):
        if not CASES.is_dir():
            pytest.skip("the directory of cases does not lie beside this clone")
        names = [str(CASES / f"g_same_seed_{number}.log") for number in (1, 2, 3)]
        (system,) = compared(*names).systems
        assert len(system.valid_runs) == 3
        assert system.value("avg_step_time_seconds") == pytest.approx(5.006, abs=0.01)

    def test_i8_what_is_slower_by_a_gap_stays_another_system(self, page):
        """Two runs of 4.0 s and two of 4.4 s: one seed, but no repetitions."""
        times = {"a": 4.0, "b": 4.01, "c": 4.4, "d": 4.41}
        files = [
            page(training(seconds, hour=10 + place), name=f"{name}.log")
            for place, (name, seconds) in enumerate(times.items())
        ]
        (model,) = compared(*files).models
        assert [len(system.runs) for group in model.groups for system in group.systems] == [2, 2]

    def test_i8_a_copy_stays_a_copy(self, page):
        files = page(training(4.0), name="a.log"), page(training(4.0), name="b.log")
        (system,) = compared(*files).systems
        assert len(system.runs) == 1
