"""The compare command as a regression check for CI, and with prices and precisions; the efficiency
command.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from made_runs import HOSTILE, MI300X, make_run

from tprimat.cli import run
from tprimat.errors import ExitStatus
from tprimat.notes import Note
from tprimat.results.ending import Ending
from tprimat.store.store import save

AMD = {"device": MI300X, "stack": "rocm"}


def saved(folder, step_time, *, count=5, day=1, **fields):
    for index, factor in enumerate((0.995, 1.0, 1.005, 0.998, 1.002)[:count]):
        save(
            make_run(
                step_time=step_time * factor * (1 + 1e-7 * day),
                timestamp=f"2026-03-{day + index:02d}T00:00:00+00:00",
                **fields,
            ),
            folder,
        )
    return str(folder)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return {
        "old": saved(tmp_path / "old", 3.2),
        "same": saved(tmp_path / "same", 3.2, day=11),
        "slow": saved(tmp_path / "slow", 3.5, day=21),
        "single": saved(tmp_path / "single", 3.5, count=1, day=26),
    }


def check(*arguments):
    return run("compare", arguments)


class TestCheck:
    def test_unchanged(self, folders, capsys, tmp_path):
        assert (
            check(
                "--baseline", folders["old"], "--candidate", folders["same"], "--max-slowdown", "3%"
            )
            == 0
        )
        assert capsys.readouterr().out.startswith("Pass (throughput per GPU ")
        # A check writes nothing that wasn't asked for.
        assert {path.name for path in tmp_path.iterdir()} == set(folders)

    def test_slower(self, folders, capsys):
        assert (
            check(
                "--baseline", folders["old"], "--candidate", folders["slow"], "--max-slowdown", "3%"
            )
            == 1
        )
        out = capsys.readouterr().out
        assert out.startswith("Fail: ")
        assert "-8.6%" in out

    def test_the_older_names_of_options(self, folders, capsys):
        arguments = ("--baseline", folders["old"], "--candidate", folders["slow"], "--json")
        older = (
            "--allow-slower",
            "3%",
            "--allow",
            "avg_step_time_seconds=20%",
            "--mode",
            "identical",
        )
        assert check(*arguments, *older) == 1
        assert len(json.loads(capsys.readouterr().out)["checks"]) == 2

    def test_too_few_runs(self, folders, capsys, tmp_path):
        arguments = (
            "--baseline",
            saved(tmp_path / "one", 3.2, count=1, day=27),
            "--candidate",
            folders["single"],
        )
        assert check(*arguments) == ExitStatus.OK
        out = " ".join(capsys.readouterr().out.split())
        assert out.startswith("Inconclusive: ")
        assert "--fail-on-inconclusive" in out
        for more in ("--quiet", "--json"):
            assert check(*arguments, more, "--fail-on-inconclusive") == ExitStatus.INCONCLUSIVE == 6
            (line,) = capsys.readouterr().err.splitlines()
            assert line.startswith("warning: Llama 3.1 8B")

    def test_one_run_is_compared_with_several(self, folders, capsys):
        assert (
            check("--baseline", folders["old"], "--candidate", folders["single"])
            == ExitStatus.SLOWER
        )

    def test_the_same_files_twice(self, folders, capsys):
        assert (
            check("--baseline", folders["old"], "--candidate", folders["old"])
            == ExitStatus.NOT_COMPARABLE
        )
        assert "contain the same run" in " ".join(capsys.readouterr().out.split())

    def test_implausible(self, folders, tmp_path, capsys):
        fast = saved(tmp_path / "fast", 0.5, day=16)
        assert check("--baseline", folders["old"], "--candidate", fast) == ExitStatus.IMPLAUSIBLE
        assert capsys.readouterr().out.startswith("Implausible result\n")

    def test_json(self, folders, capsys):
        assert check("--baseline", folders["old"], "--candidate", folders["slow"], "--json") == 1
        found = json.loads(capsys.readouterr().out)
        assert found["status"] == 1
        assert found["checks"][0]["answer"] == "worse"
        assert found["headline"].startswith("Fail: regression (throughput per GPU ")
        assert found["next_step"]
        assert found["caveats"] == []

    def test_e1_what_passed_is_to_be_kept_and_nothing_else(self, folders, capsys, tmp_path):
        """By --json, by the next step, on the first screen, and for GitHub."""
        cause = {
            "ending": Ending(kind="failed", cause="out of memory", line=812),
            "status": "failed",
        }
        some = saved(tmp_path / "some", 3.2, count=4, day=31 - 20)
        save(make_run(timestamp="2026-03-30T00:00:00+00:00", step_time=3.21, **cause), Path(some))
        every = saved(tmp_path / "every", 3.2, day=16, **cause)
        for candidate, status, words in (
            (folders["same"], 0, None),
            (some, 6, "1 of 5 runs did not finish and is excluded: out of memory, line 812"),
            (every, 3, "every run of the candidate failed (out of memory, line 812)"),
            (folders["slow"], 1, "beyond the threshold"),
        ):
            arguments = (
                "--baseline",
                folders["old"],
                "--candidate",
                candidate,
                "--max-slowdown",
                "3%",
            )
            arguments += ("--fail-on-inconclusive",)
            assert check(*arguments, "--json") == status
            values = json.loads(capsys.readouterr().out)
            assert values["keep_as_baseline"] is (words is None)
            assert words is None or words in values["why_no_baseline"]
            assert ("keep" in values["next_step"]) is (words is None)
            assert check(*arguments) == status
            screen = capsys.readouterr().out
            assert words is None or status == 1 or words in " ".join(screen.split())
            assert len(screen.splitlines()) <= 24
            if status == 6:
                assert "! 8×H100 (BF16) (candidate): 1 of 5 runs did not finish" in screen
            assert check(*arguments, "--format", "github") == status
            told = capsys.readouterr().out
            assert told.startswith("::notice" if words is None else "::error")
            assert words is None or words in told

    def test_e1_a_candidate_of_which_a_file_is_unreadable_is_not_kept(
        self, folders, capsys, tmp_path
    ):
        broken = tmp_path / "broken.json"
        broken.write_text('{"schema_version": 2, "steps": ')
        arguments = (
            "--baseline",
            folders["old"],
            "--candidate",
            folders["same"],
            str(broken),
            "--max-slowdown",
            "3%",
        )
        assert check(*arguments, "--json") == 2
        out = capsys.readouterr().out
        assert "keep the candidate's results" not in out
        assert json.loads(out)["keep_as_baseline"] is False

    @pytest.mark.parametrize(("kind", "status"), [("finished", 0), ("failed", 3)])
    def test_e1_the_first_baseline(self, kind, status, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        first = saved(tmp_path / "first", 3.2, ending=Ending(kind=kind, cause="Killed", line=9))
        assert check("--baseline", "none", "--candidate", first, "--max-slowdown", "3%") == status
        out = capsys.readouterr().out
        assert ("keep the candidate's results as the first baseline" in out) is (status == 0)
        assert ("(Killed, line 9)" in out) is (status == 3)

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            (
                {
                    "notes": (
                        Note("loss-not-finite", {"steps": "step 51", "first": 51, "last": 51}),
                    )
                },
                "at step 51",
            ),
            ({"ending": Ending(kind="failed", cause="Killed", line=9)}, "failed: Killed, line 9"),
        ],
        ids=["NaN", "failed"],
    )
    def test_e2_doubtful_runs_are_on_the_first_screen_of_a_comparison(
        self, fields, words, folders, capsys, tmp_path
    ):
        """With `!`, also among the figures of `efficiency`, and of a single system."""
        other = saved(tmp_path / "other", 1.6, **AMD, **fields)
        assert check(folders["old"], other, "--no-plot", "--results-dir", str(tmp_path)) == 0
        screen = capsys.readouterr().out
        assert words in " ".join(screen.split())
        assert "\n! 8×MI300X" in screen
        assert run("efficiency", [other]) == 0
        assert words in " ".join(capsys.readouterr().out.split())
        assert check(other, "--no-plot", "--results-dir", str(tmp_path)) == 0
        assert words in " ".join(capsys.readouterr().out.split())

    def test_the_fields_in_the_json_are_documented(self, folders, capsys):
        check("--baseline", folders["old"], "--candidate", folders["slow"], "--json")
        found = json.loads(capsys.readouterr().out)
        text = (Path(__file__).parents[2] / "docs" / "ci-gate.md").read_text(encoding="utf-8")
        named = set(re.findall(r"`([a-z_]+)`", text[text.index("## JSON") :]))
        assert {*found, *found["checks"][0]} <= named

    def test_an_error_leaves_stdout_empty(self, folders, capsys):
        assert (
            check("--baseline", folders["old"], "--candidate", "absent", "--json")
            == ExitStatus.USAGE
        )
        out, errors = capsys.readouterr()
        assert (out, errors.startswith("error: ")) == ("", True)

    def test_summary(self, folders, tmp_path, capsys):
        arguments = (
            "--baseline",
            folders["old"],
            "--candidate",
            folders["slow"],
            "--summary",
            "new/summary.md",
        )
        assert check(*arguments) == 1
        text = (tmp_path / "new" / "summary.md").read_text(encoding="utf-8")
        assert text.startswith("### Fail: regression (")
        assert "--candidate" in text

    def test_a_summary_that_cant_be_written(self, folders, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        status = check(
            "--baseline",
            folders["old"],
            "--candidate",
            folders["same"],
            "--summary",
            "file/summary.md",
        )
        assert status == ExitStatus.USAGE
        assert "choose another --summary" in capsys.readouterr().err

    def test_further_metrics(self, folders, capsys):
        status = check(
            "--baseline", folders["old"], "--candidate", folders["same"], "--max-slowdown", "3%",
            "--threshold", "peak_memory_allocated_gb=0.5", "--threshold", "avg_step_time_seconds=5%",
        )  # fmt: skip
        assert status == 0
        assert capsys.readouterr().out.startswith("Pass (3 of 3 checks)")

    def test_hostile_results_reach_no_terminal(self, folders, tmp_path, capsys):
        before, after = (
            saved(tmp_path / name, 3.2, day=day, label=HOSTILE)
            for name, day in (("a", 6), ("b", 16))
        )
        check("--baseline", before, folders["old"], "--candidate", after, "--summary", "s.md")
        assert "\x1b" not in capsys.readouterr().out
        assert "<script>" not in (tmp_path / "s.md").read_text(encoding="utf-8")


class TestGitHub:
    @pytest.fixture(autouse=True)
    def job_summary(self, tmp_path, monkeypatch):
        path = tmp_path / "job.md"
        path.write_text("# from the step before\n")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
        return path

    def test_an_annotation_and_a_job_summary(self, folders, capsys, job_summary):
        arguments = (
            "--baseline",
            folders["old"],
            "--candidate",
            folders["slow"],
            "--max-slowdown",
            "3%",
        )
        assert check(*arguments, "--format", "github") == ExitStatus.SLOWER
        assert (
            capsys.readouterr().out == "::error title=Fail%3A"
            f" regression,file={Path(folders['slow']).name}/benchmark_cuda_llama.json::Llama 3.1"
            " 8B, 8×H100 (BF16), throughput per GPU -8.6%25 (threshold 3%25 slower, 5 runs"
            " each): the 95%25 CI is beyond the threshold\n"
        )
        text = job_summary.read_text(encoding="utf-8")
        assert text.startswith("# from the step before\n### Fail: regression (")

    @pytest.mark.parametrize("side", ["--baseline", "--candidate"])
    def test_c16_what_cannot_be_true_stands_at_its_own_file(self, side, folders, capsys, tmp_path):
        wrong = saved(tmp_path / "wrong", 0.5, day=16)
        other = {"--baseline": "--candidate", "--candidate": "--baseline"}[side]
        status = check(
            side, wrong, other, folders["old"], "--max-slowdown", "3%", "--format", "github"
        )
        assert status == ExitStatus.IMPLAUSIBLE
        out = capsys.readouterr().out
        assert re.search(r"file=wrong/[\w.]+json::", out)
        assert "file=old/" not in out

    def test_levels(self, folders, capsys, monkeypatch, tmp_path):
        monkeypatch.delenv("GITHUB_STEP_SUMMARY")
        github = ("--format", "github", "--max-slowdown", "3%")
        assert check("--baseline", folders["old"], "--candidate", folders["same"], *github) == 0
        assert capsys.readouterr().out.startswith("::notice title=Pass,file=")
        one_each = (
            "--baseline",
            saved(tmp_path / "one", 3.2, count=1, day=27),
            "--candidate",
            folders["single"],
            *github,
        )
        assert check(*one_each) == 0
        assert capsys.readouterr().out.startswith(
            "::warning title=Inconclusive%3A too uncertain to decide,file="
        )
        assert check(*one_each, "--fail-on-inconclusive") == ExitStatus.INCONCLUSIVE
        assert capsys.readouterr().out.startswith("::error title=Inconclusive")

    def test_the_line_of_a_log(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        for name, milliseconds in (("old", 3200), ("new", 3300)):
            steps = [
                f" iteration {step:8d}/      40 | elapsed time per iteration (ms):"
                f" {milliseconds + step}.0 | global batch size:    64 | lm loss:"
                f" {10 - step / 10:.6E} |"
                for step in range(1, 41)
            ]
            (tmp_path / f"{name},.log").write_text(
                "\n".join(["  seq_length ..... 2048", "  world_size ..... 8", *steps])
            )
        given = ("--model-name", "llama3.1_8B", "--gpu", "H100")
        assert (
            check("--baseline", "old,.log", "--candidate", "new,.log", *given, "--format", "github")
            == 0
        )
        # Two lines of settings come before the first step.
        assert "file=new%2C.log,line=3::" in capsys.readouterr().out

    def test_an_error_is_annotated_too(self, folders, capsys):
        status = check(
            "--baseline",
            "none%,",
            folders["old"],
            "--candidate",
            folders["same"],
            "--format",
            "github",
        )
        assert status == ExitStatus.USAGE
        first, second = capsys.readouterr().out.splitlines()
        assert first == "::error title=Error,file=none%25%2C::none%25,: no such file or directory"
        assert second.startswith("::warning ")
        assert (
            check("--baseline", "absent", "--candidate", folders["same"], "--format", "github")
            == ExitStatus.USAGE
        )
        assert (
            capsys.readouterr().out
            == "::error title=Error,file=absent::absent: no such file or directory\n"
        )

    def test_a_hostile_name_gives_no_command(self, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        label = "x\n::stop-commands::y\r\n::set-env name=a::b,c"
        names = ("a", "b%0A,::error file=x::y")
        before, after = (
            saved(tmp_path / name, 3.2, day=1 + 9 * n, label=label) for n, name in enumerate(names)
        )
        check("--baseline", before, "--candidate", after, "--format", "github")
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("::warning title=Inconclusive")
        assert "file=b%250A%2C%3A%3Aerror file=x%3A%3Ay/" in line

    def test_an_unwritable_job_summary(self, folders, capsys, monkeypatch, tmp_path):
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
        arguments = (
            "--baseline",
            folders["old"],
            "--candidate",
            folders["same"],
            "--format",
            "github",
        )
        assert check(*arguments) == ExitStatus.USAGE
        assert "choose another GITHUB_STEP_SUMMARY" in capsys.readouterr().err

    def test_goes_with_no_other_output(self, folders, capsys):
        arguments = (
            "--baseline",
            folders["old"],
            "--candidate",
            folders["same"],
            "--format",
            "github",
            "--json",
        )
        assert check(*arguments) == ExitStatus.USAGE
        assert "--format github cannot be combined with" in capsys.readouterr().err
        assert check("old", "--format", "github") == ExitStatus.USAGE
        assert "--format github needs --baseline and --candidate" in capsys.readouterr().err


class TestWrongUsage:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--baseline", "old"], "must be given together"),
            (["--candidate", "same"], "must be given together"),
            (
                ["same", "--baseline", "old", "--candidate", "same"],
                "same is not assigned to --baseline or --candidate",
            ),
            (["old", "--max-slowdown", "3%"], "needs --baseline and --candidate"),
            (
                ["old", "--threshold", "tokens_per_second_per_gpu=3%"],
                "needs --baseline and --candidate",
            ),
            (["old", "--fail-on-inconclusive"], "needs --baseline and --candidate"),
            (["old", "--summary", "x.md"], "needs --baseline and --candidate"),
            (
                ["--baseline", "old", "--candidate", "same", "--cost", "3"],
                "cannot be combined with --baseline",
            ),
            (
                ["--baseline", "old", "--candidate", "same", "--max-slowdown", "3"],
                "--max-slowdown: '3' is not a percentage",
            ),
            (
                ["--baseline", "old", "--candidate", "same", "--threshold", "speed=3%"],
                "is not METRIC=AMOUNT",
            ),
            (["--baseline", "old", "--candidate", "none"], "no such file"),
            (["old", "--cost-date", "2026-05"], "need --cost"),
            (["old", "--peak-tflops", "0"], "must be above zero"),
            (["old", "--peak-tflops", "nan"], "must be above zero"),
            (["old", "slow", "--cost", "3"], "the files of a directory have no order"),
            (["old", "slow", "--cost", "free"], "'free' is not a price"),
            (["old", "--precision", "fp7"], "--precision: 'fp7' is not a precision"),
            (["old", "--precision", "bf16", "fp8"], "more than one value for all systems"),
            (["old", "--precision", "bf16", "H100=fp8"], "a system is given twice"),
            (["old", "--precision", "A100=fp8"], "no system matches 'A100'"),
            (["old", "--bogus"], "unrecognized arguments: --bogus"),
            (["old", "--cost", "2", "nosuch.json"], "'nosuch.json' is not a price"),
        ],
    )
    def test_is_a_line_and_a_hint(self, folders, capsys, arguments, words, tmp_path):
        saved(tmp_path / "slow", 3.2, label="other")
        assert run("compare", [*arguments, "--no-plot"]) == ExitStatus.USAGE
        said = capsys.readouterr()
        line, *hint = said.err.splitlines()
        assert words in line
        assert [each[:7] for each in hint] in ([], ["see:   "], ["hint:  "], ["hint:  ", "see:   "])
        assert said.out == ""

    def test_an_empty_folder(self, folders, capsys, tmp_path):
        (tmp_path / "empty").mkdir()
        assert (
            check("--baseline", folders["old"], "--candidate", str(tmp_path / "empty"))
            == ExitStatus.USAGE
        )
        assert "--candidate: no benchmark results or logs in" in capsys.readouterr().err

    def test_a_folder_with_only_trials(self, capsys, tmp_path):
        saved(tmp_path / "killed" / "autotune", 3.2)
        assert run("compare", [str(tmp_path / "killed")]) == ExitStatus.USAGE
        assert "compare its trials: " in capsys.readouterr().err


@pytest.fixture
def systems(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(make_run(), tmp_path / "output" / "nvidia")
    save(make_run(**AMD, step_time=2.4, batch=128), tmp_path / "output" / "amd")


class TestWhatTheUserKnows:
    FILES = ("output/amd/benchmark_rocm_llama.json", "output/nvidia/benchmark_cuda_llama.json")

    def test_prices_in_the_order_of_the_files(self, systems, capsys, tmp_path):
        arguments = [
            "--cost",
            "1.99",
            "2.95",
            "--cost-source",
            "a list",
            "--cost-date",
            "2026-05",
            "--no-plot",
        ]
        assert run("compare", [*self.FILES, *arguments]) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert "is 75% cheaper" in out
        report = (tmp_path / "output" / "comparison_report.md").read_text(encoding="utf-8")
        assert "from the command line (a list, 2026-05)" in report

    @pytest.mark.parametrize("step", [1, -1])
    def test_each_price_is_in_the_table_and_another_order_is_told(self, systems, capsys, step):
        assert (
            run("compare", ["--no-plot", *self.FILES[::step], "--cost", *("1.99", "2.95")[::step]])
            == 0
        )
        out, err = capsys.readouterr()
        (row,) = [
            line.split() for line in out.splitlines() if line.startswith("price per GPU-hour")
        ]
        assert row[-2:] == ["$1.99", "$2.95"]
        told = "warning: --cost: prices are in the order of the files, not of the table: 8×H100"
        assert (told in err) == (step < 0)

    def test_a_directory_has_no_order_for_prices(self, systems, capsys):
        for prices, hint in (
            (("1.99", "2.95"), "MI300X=1.99 H100=2.95"),
            (("1.99",), "MI300X=1.99 H100=USD"),
        ):
            assert run("compare", ["--no-plot", "--cost", *prices]) == ExitStatus.USAGE
            assert f"--cost {hint}\n" in capsys.readouterr().err

    @pytest.mark.parametrize("command", ["compare", "efficiency"])
    def test_a_price_of_a_system_that_is_absent_is_a_warning(self, systems, capsys, command):
        plots = ["--no-plot"] if command == "compare" else []
        assert run(command, [*self.FILES, *plots, "--cost", "H100=2.95", "B200=6"]) == 0
        out, err = capsys.readouterr()
        assert (
            "warning: --cost: no system matches 'B200', so its price is not used; systems: 8×MI300X"
            " (BF16)" in err
        )
        assert "$2.95" in out

    def test_prices_without_a_system_are_named_together(self, systems, capsys):
        assert (
            run("compare", [*self.FILES, "--no-plot", "--cost", "H100=2.95", "B200=6", "H20=1"])
            == 0
        )
        err = capsys.readouterr().err
        assert err.count("systems: ") == 1
        assert "no system matches 'B200' or 'H20', so their prices are not used" in err

    def test_a_price_may_say_which_gpu_a_log_is_from(self, systems, capsys, tmp_path):
        path = tmp_path / "my logs" / "train.json"
        save(make_run(None, stack=None, step_time=2.8), path.parent)
        (path,) = path.parent.glob("*.json")
        assert (
            run("compare", [*self.FILES, str(path), "--no-plot", "--cost", "H100=2.95", "B200=6"])
            == 0
        )
        err = capsys.readouterr().err
        option = shlex.split(re.search(r"if the log is from that GPU, add (--gpu .*)", err)[1])
        assert option == ["--gpu", f"my logs/{path.name}=B200"]
        assert (
            run("compare", [*self.FILES, str(path), "--no-plot", "--cost", "B200=6", *option]) == 0
        )
        out, err = capsys.readouterr()
        assert "warning" not in err
        assert "$6.00" in out

    @pytest.mark.parametrize(
        ("names", "suggested"),
        [
            (["train.json"], "train.json"),
            (["x_8xH200_r0.json"], None),
            (["x_8xH200_r0.json", "y_8xB200_r0.json"], "y_8xB200_r0.json"),
            (["train.json", "b200.json"], "b200.json"),
            (["8xB2000.json", "x_H200.json"], "8xB2000.json"),
        ],
    )
    def test_no_log_that_names_another_gpu_is_said_to_be_from_one(
        self, systems, capsys, tmp_path, names, suggested
    ):
        for number, name in enumerate(names):
            save(make_run(None, stack=None, step_time=2.8, label=f"run {number}"), tmp_path / "one")
            (path,) = (tmp_path / "one").glob("*.json")
            path.rename(tmp_path / name)
        paths = [str(tmp_path / name) for name in names]
        assert (
            run("compare", [*self.FILES, *paths, "--no-plot", "--cost", "H100=2.95", "B200=6"]) == 0
        )
        found = re.search(
            r"if the log is from that GPU, add --gpu .*?([^/]*)=B200", capsys.readouterr().err
        )
        assert (found and found[1]) == suggested

    @pytest.mark.parametrize("together", [True, False])
    def test_an_option_may_be_repeated(self, systems, capsys, together):
        prices = ["--cost", "H100=2.95", *([] if together else ["--cost"]), "MI300X=1.99"]
        assert run("compare", [*self.FILES, "--no-plot", *prices]) == 0
        out = capsys.readouterr().out
        assert "$2.95" in out
        assert "$1.99" in out

    def test_no_log_of_other_software_is_said_to_be_from_a_gpu(self, systems, capsys, tmp_path):
        path = tmp_path / "logs" / "train.json"
        save(make_run(None, stack="rocm", step_time=2.8), path.parent)
        (path,) = path.parent.glob("*.json")
        assert (
            run("compare", [*self.FILES, str(path), "--no-plot", "--cost", "H100=2.95", "B200=6"])
            == 0
        )
        assert "add --gpu" not in capsys.readouterr().err
        assert run("compare", [*self.FILES, str(path), "--no-plot", "--gpu", f"{path}=B200"]) == 2
        assert "--gpu B200: the training ran on ROCm" in capsys.readouterr().err
        assert (
            run("compare", [*self.FILES, str(path), "--no-plot", "--gpu", f"{path}=MI300X,B200"])
            == 2
        )
        assert "--gpu: 'MI300X,B200' is not a GPU" in capsys.readouterr().err

    def test_files_behind_the_prices_are_files(self, systems, capsys):
        files = self.FILES
        assert run("compare", ["--no-plot", "--cost", "1.99", "2.95", *files]) == 0
        assert "is 75% cheaper" in " ".join(capsys.readouterr().out.split())
        assert run("efficiency", ["--cost", "1.99", "2.95", *files]) == 0
        assert "$2.95 per GPU-hour" in capsys.readouterr().out

    def test_a_price_is_no_file_whatever_lies_there(self, systems, capsys, tmp_path):
        (tmp_path / "1.99").write_text("{}", encoding="utf-8")
        assert run("compare", ["--no-plot", "--cost", "1.99", "2.95", *self.FILES]) == 0

    def test_the_same_configuration_is_required(self, systems, capsys):
        assert run("compare", ["--mode", "same", "--no-plot"]) == ExitStatus.NOT_COMPARABLE
        assert "Not compared" in capsys.readouterr().out

    def test_json_is_all_that_is_printed(self, systems, capsys, tmp_path):
        assert run("compare", ["--json", "--cost", "1", "2", "--no-plot", *self.FILES]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["models"][0]["groups"][0]["pairs"][0]["cost"]["cheaper"] == "8×MI300X (BF16)"
        assert {each["system"] for each in found["metrics"]} == {"8×H100 (BF16)", "8×MI300X (BF16)"}
        assert (tmp_path / "output" / "comparison_report.html").exists()

    @pytest.mark.parametrize(
        "more", [["--efficiency"], ["--enhanced"], ["--energy-from-tdp"], ["--peak-tflops", "1000"]]
    )
    def test_the_efficiency_tables(self, systems, capsys, more):
        assert run("compare", [*more, "--no-plot"]) == 0
        assert "Time per trillion tokens, h" in capsys.readouterr().out

    def test_they_arent_printed_unasked(self, systems, capsys):
        run("compare", ["--no-plot"])
        assert "Time per trillion tokens, h" not in capsys.readouterr().out


class TestEfficiency:
    def test_a_table_for_each_system(self, systems, capsys):
        assert run("efficiency", ["output", "--cost", "H100=2.95", "MI300X=1.99"]) == 0
        out = capsys.readouterr().out
        assert "Llama 3.1 8B, 8×H100 (BF16), $2.95 per GPU-hour" in out
        assert "Tokens per dollar, tokens/$" in out

    def test_several_runs_are_one_system_with_their_interval(self, folders, capsys):
        assert run("enhanced-metrics", ["old"]) == 0
        out = capsys.readouterr().out
        assert "5 runs" in out
        assert "Intervals: 95% CI of the mean over runs." in out
        for cost, told in (("2", False), ("2:3", True)):
            assert run("enhanced-metrics", ["old", "--cost", cost]) == 0
            words = " ".join(capsys.readouterr().out.split())
            assert ("over runs; of costs, with the range of the price." in words) is told

    def test_excluded_values_arent_given(self, tmp_path, capsys):
        save(make_run(step_time=0.3), tmp_path)
        assert run("enhanced-metrics", [str(tmp_path)]) == 0
        out = capsys.readouterr().out
        assert "excluded: " in out
        assert "MFU (causal" not in out

    def test_the_largest_micro_batch_follows_from_two(self, tmp_path, capsys):
        import msgspec

        from tprimat.results.run import MemoryMetrics

        for micro, used in ((1, 30.0), (2, 40.0)):
            made = make_run(
                step_time=3.2 + micro / 100,
                memory_metrics=MemoryMetrics(peak_memory_reserved_gb=used),
                label=str(micro),
            )
            config = msgspec.structs.replace(made.training_config, micro_batch_size=micro)
            save(msgspec.structs.replace(made, training_config=config), tmp_path)
        assert run("enhanced-metrics", [str(tmp_path)]) == 0
        assert "a micro-batch of up to 6 sequences fits" in " ".join(
            capsys.readouterr().out.split()
        )

    def test_json(self, systems, capsys):
        assert run("enhanced-metrics", ["output", "--json", "--precision", "bf16"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["results"][-1]["columns"][0]["values"]["mfu"]["value"] > 20

    def test_nothing_there(self, tmp_path, capsys):
        assert run("enhanced-metrics", [str(tmp_path)]) == ExitStatus.USAGE
        assert "no benchmark results or logs in" in capsys.readouterr().err


def test_a_peak_of_zero_has_a_hint(folders, capsys):
    assert run("compare", ["old", "--peak-tflops", "0", "--no-plot"]) == ExitStatus.USAGE
    assert "must be above zero\nhint:  use e.g. 989" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["--gpu=H1000", "--gpu=none.log=H100"])
def test_a_value_that_no_result_needs_is_said(folders, capsys, value):
    assert (
        check("--baseline", folders["old"], "--candidate", folders["slow"], value)
        == ExitStatus.USAGE
    )
    assert capsys.readouterr().err.startswith("error: --gpu")
