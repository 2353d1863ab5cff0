"""Which logs are of one training: repetitions are runs of their own, processes of one training are
not.
"""

from __future__ import annotations

import datetime
import random
import shutil
from pathlib import Path

import pytest

from tprimat import cli
from tprimat.log_import import load

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "4"
BEGIN = datetime.datetime(2026, 3, 1, 12)


@pytest.fixture
def case():
    """Paths of small inputs, where they lie beside this clone."""

    def path_of(name):
        if not (CASES / name).is_file():
            pytest.skip("the directory of cases does not lie beside this clone")
        return CASES / name

    return path_of


def loaded(*names):
    """Return all runs in what a user names, and the notes."""
    found = load.load(map(str, names))
    assert found.errors == []
    return [run for file in found.files for run in file.runs], found.notes


def megatron(times, begin=BEGIN, zone="", losses=None) -> str:
    """Return a log of Megatron's with these step times, s; each line has the time of its step's
    end.
    """
    now, lines = begin, []
    for step, seconds in enumerate(times, 1):
        now += datetime.timedelta(seconds=seconds)
        loss = losses[step - 1] if losses else 9 - step / 100
        lines.append(
            f" [{now:%Y-%m-%d %H:%M:%S}{zone}] iteration {step:8d}/{len(times):8d} | consumed"
            f" samples: {step * 64:12d} | elapsed time per iteration (ms): {seconds * 1e3:.1f} |"
            f" learning rate: 1.0E-04 | global batch size:    64 | lm loss: {loss:.6E} | grad norm:"
            " 1.000 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        )
    return "".join(lines)


def varied(count=40, seed=1, seconds=5.0, variation=1e-3):
    """Return step times, s."""
    chance = random.Random(seed)
    return [round(seconds * (1 + chance.gauss(0, variation)), 4) for _ in range(count)]


def litgpt(times, total) -> str:
    lines = [
        f"Epoch 1 | iter {step} step {step} | loss train: {3 - step / 50:.3f}, val: n/a | "
        f"iter time: {seconds * 1e3:.2f} ms (step)\n"
        for step, seconds in enumerate(times, 1)
    ]
    return "".join([*lines, f"Training time: {total:.2f}s\n"])


class TestRepetitions:
    def test_i8_three_logs_of_three_days_with_one_seed_are_three_runs(self, case, tmp_path):
        for number in (1, 2, 3):
            shutil.copy(case(f"g_same_seed_{number}.log"), tmp_path)
        runs, notes = loaded(tmp_path)
        assert (len(runs), notes) == (3, [])

    def test_i8_the_check_has_three_baseline_runs(self, case, tmp_path, capsys):
        (tmp_path / "old").mkdir()
        (tmp_path / "new").mkdir()
        for number in (1, 2, 3):
            shutil.copy(case(f"g_same_seed_{number}.log"), tmp_path / "old")
            text = megatron(varied(120, number), BEGIN + datetime.timedelta(days=number)).replace(
                "  64 ", " 128 "
            )
            (tmp_path / "new" / f"{number}.log").write_text(text)
        words = [
            "--baseline",
            str(tmp_path / "old"),
            "--candidate",
            str(tmp_path / "new"),
            "--model-name",
            "llama3.1_8B",
        ]
        words += [
            "--num-gpus",
            "8",
            "--sequence-length",
            "2048",
            "--results-dir",
            str(tmp_path / "out"),
        ]
        cli.run("compare", [*words, "--verbose"])
        assert "3 runs each" in capsys.readouterr().out

    @pytest.mark.parametrize("zone", ["", "+02:00"])
    @pytest.mark.parametrize(("after", "runs"), [(0, 1), (199, 1), (202, 2), (86_400, 2)])
    def test_i8_what_begins_after_another_has_ended_is_another_run(
        self, after, runs, zone, tmp_path
    ):
        """40 steps of 5 s take 200 s. Times that differ by nothing but the date are of one training
        until then.
        """
        (tmp_path / "a.log").write_text(megatron([5.0] * 40, zone=zone))
        (tmp_path / "b.log").write_text(
            megatron([5.0] * 40, BEGIN + datetime.timedelta(seconds=after), zone)
        )
        found, notes = loaded(tmp_path)
        assert (len(found), len(notes)) == (runs, 2 - runs)

    @pytest.mark.parametrize(("hours", "runs"), [(14, 1), (14.1, 2)])
    def test_i8_a_time_without_a_zone_may_be_fourteen_hours_off(self, hours, runs, tmp_path):
        (tmp_path / "a.log").write_text(megatron([5.0] * 40, zone="+00:00"))
        (tmp_path / "b.log").write_text(
            megatron([5.0] * 40, BEGIN + datetime.timedelta(hours=hours))
        )
        assert len(loaded(tmp_path)[0]) == runs

    def test_i8_one_seed_and_one_printed_total_are_no_single_training(self, tmp_path):
        """LitGPT prints neither dates nor names: the step times differ, which one process prints
        once.
        """
        for name, seed in (("a", 1), ("b", 2)):
            (tmp_path / f"{name}.log").write_text(litgpt(varied(seed=seed, seconds=0.5), 20.0))
        assert len(loaded(tmp_path)[0]) == 2

    def test_i8_the_last_printed_digit_tells_two_logs_apart(self, tmp_path):
        times = varied(seconds=0.5)
        for name, share in (("a", 1.0), ("b", 1.0001)):
            (tmp_path / f"{name}.log").write_text(litgpt([time * share for time in times], 20.0))
        assert len(loaded(tmp_path)[0]) == 2

    @pytest.mark.parametrize("cut", [40, 25])
    def test_i8_a_copy_and_an_earlier_state_of_a_log_are_the_same_run(self, cut, tmp_path):
        text = litgpt(varied(seconds=0.5), 20.0)
        (tmp_path / "a.log").write_text(text)
        (tmp_path / "b.log").write_text("".join(text.splitlines(keepends=True)[:cut]))
        runs, notes = loaded(tmp_path)
        assert (len(runs), len(runs[0].steps)) == (1, 40)
        (skipped,) = notes
        fields = (skipped.fields["files"], skipped.fields["kind"])
        assert (skipped.code, *fields) == ("skipped", (f"{tmp_path}/b.log",), "twin")


class TestProcesses:
    def test_i4_four_ranks_without_a_name_are_one_training(self, tmp_path, capsys):
        times, chance = varied(), random.Random(9)
        for name in ("a", "b", "c", "d"):
            own = [time + chance.gauss(0, 1e-4) for time in times]
            (tmp_path / f"{name}.log").write_text(megatron(own))
        runs, notes = loaded(tmp_path)
        assert (len(runs), len(notes)) == (1, 1)
        cli.run("compare", [str(tmp_path), "--results-dir", str(tmp_path / "out")])
        assert (
            "and 2 more: counted once, as another log of the training in" in capsys.readouterr().err
        )

    def test_i4_four_trainings_that_are_started_together_are_four(self, tmp_path):
        for seed in range(4):
            (tmp_path / f"{seed}.log").write_text(megatron(varied(seed=seed)))
        assert len(loaded(tmp_path)[0]) == 4

    @pytest.mark.parametrize(("share", "runs"), [(1.0045, 1), (1.0055, 2)])
    def test_i4_processes_that_wait_for_each_other_take_the_same_time(self, share, runs, tmp_path):
        times = varied(variation=0.03)
        (tmp_path / "a.log").write_text(megatron(times))
        (tmp_path / "b.log").write_text(megatron([time * share for time in times]))
        assert len(loaded(tmp_path)[0]) == runs

    @pytest.mark.parametrize(("apart", "runs"), [(2, 1), (3, 2)])
    def test_i4_ranks_begin_at_one_moment(self, apart, runs, tmp_path):
        times = varied()
        (tmp_path / "a.log").write_text(megatron(times))
        later = BEGIN + datetime.timedelta(seconds=apart)
        (tmp_path / "b.log").write_text(megatron([time * 1.0001 for time in times], later))
        assert len(loaded(tmp_path)[0]) == runs


BLOCK = (
    "iter 0: loss 4.4000, time 40000.00ms\niter 10: loss {0}, time {1}.00ms\niter 20: loss 3.2,"
    " time {1}.00ms\n"
)


class TestTrainingsOfOneText:
    @pytest.mark.parametrize(
        ("above", "below", "labels"),
        [
            ("bf16\n", "fp8\n", ("bf16", "fp8")),
            ("=== bf16 ===\n\n", "\n=== fp8 ===\n\n", ("bf16", "fp8")),
            ("# Runs\n\n## H100\n\n```\n", "```\n\n## MI300X\n\n```text\n", ("H100", "MI300X")),
            (
                "## H100\nIt takes a while.\n```\n",
                "```\n## MI300X\nThis one is slower.\n```\n",
                ("H100", "MI300X"),
            ),
            ("**batch_size=8:**\n", "\n**batch_size=16:**\n", ("batch_size=8", "batch_size=16")),
            (
                "$ python train.py --compile\n",
                "\n$ python train.py\n",
                ("python train.py --compile", "python train.py"),
            ),
            # Not all have one, or all the same, or they are lines of a log.
            ("", "fp8\n", (None, None)),
            ("Output:\n", "Output:\n", (None, None)),
            ("loading\ndata 1\n", "loading\ndata 2\n", (None, None)),
            ("Training time: 120.53s\n", "Training time: 130.50s\n", (None, None)),
            ("2026-03-01 12:00:00 begins\n", "2026-03-02 12:00:00 begins\n", (None, None)),
            ("x" * 80 + "\n", "y" * 80 + "\n", ("x" * 80, "y" * 80)),
            ("x" * 81 + "\n", "y" * 81 + "\n", (None, None)),
        ],
    )
    def test_i1_headings(self, above, below, labels, tmp_path):
        text = tmp_path / "page.md"
        text.write_text(f"{above}{BLOCK.format(3.4, 50)}{below}{BLOCK.format(3.5, 80)}")
        runs, _ = loaded(text)
        assert tuple(run.label for run in runs) == labels

    def test_i1_one_training_needs_no_name(self, tmp_path):
        (tmp_path / "one.log").write_text(f"bf16\n{BLOCK.format(3.4, 50)}")
        assert loaded(tmp_path)[0][0].label is None

    @pytest.mark.parametrize(
        ("words", "times", "labels"),
        [
            (("two.log#1", "two.log#2"), [0.05, 0.08], ["two.log#1", "two.log#2"]),
            (("slow=two.log#2", "two.log#1"), [0.08, 0.05], ["slow", "two.log#1"]),
            (("headed.log#FP8", "x=headed.log#1"), [0.08, 0.05], ["fp8", "x"]),
            (("odd#1.log",), [0.05, 0.08], [None, None]),
            (("odd#1.log#2",), [0.08], ["odd#1.log#2"]),
        ],
    )
    def test_i1_one_training_of_a_text_is_selected(
        self, words, times, labels, tmp_path, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        blocks = BLOCK.format(3.4, 50), BLOCK.format(3.5, 80)
        for name in ("two.log", "odd#1.log"):
            Path(name).write_text("".join(blocks))
        Path("headed.log").write_text(f"bf16\n{blocks[0]}fp8\n{blocks[1]}")
        runs, _ = loaded(*words)
        assert [run.step_times[1] for run in runs] == times
        assert [run.label for run in runs] == labels

    @pytest.mark.parametrize(("word", "there"), [("two.log#3", "1, 2"), ("one.log#2", "1")])
    def test_i1_a_training_that_is_not_there(self, word, there, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("one.log").write_text(BLOCK.format(3.4, 50))
        Path("two.log").write_text(BLOCK.format(3.4, 50) + BLOCK.format(3.5, 80))
        (error,) = load.load([word]).errors
        assert (error.problem, error.hint) == (
            f"{word}: no such training in it",
            f"there are {there}",
        )

    def test_i1_two_headings_are_compared(self, case, tmp_path, capsys):
        words = ["--model-name", "llama3.1_8B", "--num-gpus", "8", "--sequence-length", "2048"]
        path = case("a_03_two_trainings_one_paste.log")
        assert cli.run("compare", [str(path), *words, "--results-dir", str(tmp_path)]) == 0
        assert "fp8 is 48% faster per GPU than bf16" in capsys.readouterr().out


class TestWhatCannotBeLoaded:
    @pytest.fixture
    def results(self, tmp_path):
        """A directory with results: a whole one, and those that can't be loaded."""
        (tmp_path / "log").mkdir()
        (tmp_path / "log" / "a.log").write_text(megatron(varied()))
        folder = tmp_path / "results"
        assert cli.run("read", [str(tmp_path / "log"), "--output-dir", str(folder)]) == 0
        (whole,) = folder.glob("*.json")
        (folder / "wrong.json").write_text(
            whole.read_text().replace('"max_steps": 40', '"max_steps": "forty"')
        )
        (folder / "old.json").write_text('{"performance_metrics": {}, "model": "llama"}')
        (folder / "other.json").write_text('{"settings": {}}')
        return folder

    NAMED = (
        "wrong.json: this result can't be loaded: ",
        "old.json: this result can't be loaded: no step times",
    )

    def test_i7_it_is_named_beside_others(self, results, capsys, tmp_path):
        cli.run("compare", [str(results), "--results-dir", str(tmp_path / "out")])
        said = capsys.readouterr().err
        assert all(f"warning: skipped: {each}" in said for each in self.NAMED)
        assert "other.json" not in said

    @pytest.mark.parametrize("place", [0, 1])
    def test_i7_it_is_named_alone(self, results, place, capsys, tmp_path):
        alone = tmp_path / "alone"
        alone.mkdir()
        shutil.copy(results / self.NAMED[place].partition(":")[0], alone)
        assert cli.run("compare", [str(alone), "--results-dir", str(tmp_path / "out")]) == 2
        said = capsys.readouterr().err
        assert f"{alone}/{self.NAMED[place]}" in said
        assert "already a result" not in said

    def test_i7_a_log_of_the_same_name_and_size_is_another_one(self, tmp_path):
        for day in (1, 2):
            (tmp_path / f"{day}").mkdir()
            text = megatron(varied(seed=day), BEGIN + datetime.timedelta(days=day))
            (tmp_path / f"{day}" / "train.log").write_text(text)
        assert len({path.stat().st_size for path in tmp_path.rglob("train.log")}) == 1
        assert cli.run("read", [str(tmp_path / "1"), "--output-dir", str(tmp_path)]) == 0
        runs, notes = loaded(tmp_path)
        assert (len(runs), notes) == (2, [])
