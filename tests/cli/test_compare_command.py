from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from made_runs import HOSTILE, MI300X, failed_run, make_run
from stored_runs import notes_of

from tprimat.cli import run
from tprimat.errors import ExitStatus
from tprimat.results.run import Source, SourceFile
from tprimat.store.store import save

AMD = {"device": MI300X, "stack": "rocm"}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A directory output/ with two machines' results, and the directory above as the current
    one.
    """
    monkeypatch.chdir(tmp_path)
    save(make_run(), tmp_path / "output" / "nvidia")
    save(make_run(**AMD, step_time=2.4), tmp_path / "output" / "amd")
    return tmp_path / "output"


class TestOutputs:
    def test_default_folder(self, results, capsys):
        assert run("compare", []) == ExitStatus.OK
        said = capsys.readouterr()
        assert "33% faster" in said.out
        assert said.out.endswith(
            f"Report: {Path('output', 'comparison_report.html')}   Plot:"
            f" {Path('output', 'comparison_plot.png')}\n"
        )
        assert said.err == ""
        assert (results / "comparison_plot.png").read_bytes().startswith(b"\x89PNG")
        report = (results / "comparison_report.md").read_text(encoding="utf-8")
        assert "](comparison_plot.png)" in report

    @pytest.mark.parametrize(
        ("are_copies", "status"), [(True, ExitStatus.NOT_COMPARABLE), (False, ExitStatus.OK)]
    )
    def test_i6_copies_are_not_compared_and_have_no_prices(
        self, results, capsys, are_copies, status
    ):
        for device in ("NVIDIA H200", "NVIDIA B200"):
            times = {"step_times": make_run().step_times} if are_copies else {}
            save(make_run(device, **times), results / "copies" / device)
        names = ["output/nvidia", "output/copies", "--cost", "H100=2", "H200=3", "B200=4"]
        assert run("compare", [*names, "--no-plot"]) == status
        said = capsys.readouterr()
        assert ("contain identical step times under different" in said.err) is are_copies
        assert ("Not compared: " in said.out) is are_copies
        assert ("USD/10⁹ tokens" in said.out) is not are_copies

    def test_one_log_read_twice_is_not_compared_with_itself(self, results, capsys):
        source = Source(kind="log", files=(SourceFile(path="a.log", sha256="0" * 64),))
        for batch in (64, 128):
            times = make_run(steps=19).step_times
            save(
                make_run(batch=batch, steps=19, step_times=times, source=source),
                results / str(batch),
            )
        assert run("compare", ["output/64", "output/128", "--no-plot"]) == ExitStatus.NOT_COMPARABLE
        said = capsys.readouterr().out
        assert "Not compared: " in said
        assert "are copies of one run" in " ".join(said.split())

    def test_results_dir_and_a_name_for_the_picture(self, results, capsys):
        assert (
            run("compare", ["--results-dir", "output/nvidia", "--output", "nvd_compare"])
            == ExitStatus.OK
        )
        assert "Only one system found" in capsys.readouterr().out
        assert (results / "nvidia" / "nvd_compare.png").exists()
        assert "](nvd_compare.png)" in (results / "nvidia" / "comparison_report.md").read_text(
            encoding="utf-8"
        )

    def test_files_elsewhere_and_a_new_folder(self, results, tmp_path, capsys):
        arguments = [
            "output/nvidia",
            "output/amd/benchmark_rocm_llama.json",
            "--results-dir",
            "new/folder",
        ]
        assert run("compare", arguments) == ExitStatus.OK
        assert (tmp_path / "new" / "folder" / "comparison_report.md").exists()
        assert "1.33×" in capsys.readouterr().out

    def test_a_picture_in_another_folder_is_linked(self, results, tmp_path):
        assert run("compare", ["--output", str(tmp_path / "pictures" / "a.svg")]) == ExitStatus.OK
        assert (tmp_path / "pictures" / "a.svg").exists()
        assert "](../pictures/a.svg)" in (results / "comparison_report.md").read_text(
            encoding="utf-8"
        )

    def test_results_in_a_directory_that_are_skipped(self, results, capsys):
        """What probably is a result has a warning; a file of another kind, or one that is read as a
        log, has none.
        """
        whole = (results / "nvidia" / "benchmark_cuda_llama.json").read_text(encoding="utf-8")
        state = json.dumps(
            {"global_step": 3, "log_history": [{"loss": 1.5, "step": step} for step in (1, 2, 3)]}
        )
        newer = json.loads(whole) | {"schema_version": 99}
        texts = {"a": whole[:900], "b": whole[:-5], "newer": json.dumps(newer), "config": "{}"}
        for name, text in (texts | {"trainer_state": state[:-20]}).items():
            (results / f"{name}.json").write_text(text, encoding="utf-8")
        assert run("compare", ["output", "--no-plot", "--verbose"]) == ExitStatus.OK
        out, err = capsys.readouterr()
        cut, new = err.splitlines()
        assert re.fullmatch(
            r"warning: skipped: .*a\.json and .*b\.json: not valid JSON: Input data was truncated",
            cut,
        )
        assert re.fullmatch(
            r"warning: skipped: .*newer\.json: written by a newer TensorPrimat .*", new
        )
        assert "trainer_state.json" in out
        assert not re.search(r"skipped: \S*trainer_state", out)
        # One that is named is an error, and no warning.
        assert run("compare", ["output/nvidia", "output/a.json", "--no-plot"]) == ExitStatus.USAGE
        err = capsys.readouterr().err
        assert err.startswith("error: output/a.json: not valid JSON")
        assert "warning" not in err
        (results / "a.json").write_text(whole.replace(": ", ":"), encoding="utf-8")
        for name in ("b", "newer"):
            (results / f"{name}.json").unlink()
        assert run("compare", ["output", "--no-plot"]) == ExitStatus.OK
        assert capsys.readouterr().err == ""

    def test_no_plot(self, results, capsys):
        assert run("compare", ["--no-plot"]) == ExitStatus.OK
        assert not (results / "comparison_plot.png").exists()
        assert "![" not in (results / "comparison_report.md").read_text(encoding="utf-8")
        assert "Plot" not in capsys.readouterr().out

    def test_the_report_repeats_its_command_and_names_its_files(self, results):
        run("compare", ["output/amd", "output/nvidia", "--no-plot"])
        report = (results / "comparison_report.md").read_text(encoding="utf-8")
        assert "compare" in report.split("## Reproduce")[1]
        assert "output/amd output/nvidia --no-plot" in report
        assert (
            len(re.findall(r"^\| `output/\w+/\w+\.json` +\| 1 ", report, flags=re.MULTILINE)) == 2
        )

    def test_its_own_outputs_are_no_inputs(self, results, capsys):
        run("compare", [])
        first = capsys.readouterr().out
        run("compare", [])
        assert capsys.readouterr().out == first

    def test_a_system_may_have_a_long_name(self, results, capsys):
        assert (
            run("compare", [f"{'z' * 500}=output/nvidia", "b=output/amd", "--no-plot"])
            == ExitStatus.OK
        )
        assert "33% faster" in " ".join(capsys.readouterr().out.split())

    def test_reference_and_model(self, results, capsys):
        save(make_run(model="qwen"), results / "nvidia")
        assert (
            run("compare", ["--reference", "h100", "--model", "llama", "--no-plot"])
            == ExitStatus.OK
        )
        out = capsys.readouterr().out
        assert "Qwen" not in out
        assert "33% faster" in out

    def test_the_names_of_the_reports_have_a_line_each_where_one_is_too_narrow(
        self, results, capsys
    ):
        assert run("compare", ["output/nvidia", "--results-dir", "output/nvidia"]) == ExitStatus.OK
        lines = [f"Report: {Path('output', 'nvidia', 'comparison_report.html')} (also .md)"]
        lines += [f"Plot: {Path('output', 'nvidia', 'comparison_plot.png')}"]
        assert capsys.readouterr().out.splitlines()[-2:] == lines
        assert {path.suffix for path in (results / "nvidia").glob("comparison_*")} == {
            ".md",
            ".html",
            ".png",
        }
        assert list(results.glob("comparison_*")) == []

    @pytest.mark.parametrize(
        "inputs",
        [
            ("a",),
            ("a/one",),
            ("a/one/benchmark_cuda_llama.json",),
            ("a/one", "a/two"),
            ("a", "--results-dir", "output"),
        ],
        ids=[
            "only subdirectories",
            "a directory",
            "a file",
            "several directories",
            "a directory that is given",
        ],
    )
    def test_c13_no_report_goes_into_the_data(self, inputs, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        save(make_run(), tmp_path / "a" / "one")
        save(make_run(**AMD, step_time=2.4), tmp_path / "a" / "two")
        assert run("compare", [*inputs, "--no-plot"]) == ExitStatus.OK
        assert [path.parent for path in tmp_path.rglob("comparison_report.md")] == [
            tmp_path / "output"
        ]

    def test_c13_the_report_of_another_comparison_stays(self, results, monkeypatch, capsys):
        monkeypatch.chdir(results)
        save(make_run(step_time=3.0, label="new"), results / "new")
        folder = results / "pages"

        def written(*inputs):
            before = {path: path.stat().st_mtime_ns for path in folder.glob("*")}
            assert run("compare", [*inputs, "--results-dir", "pages"]) == ExitStatus.OK
            said = capsys.readouterr()
            names = sorted(
                path.name
                for path in folder.glob("*")
                if before.get(path) != path.stat().st_mtime_ns
            )
            assert all(
                str(Path("pages", name)) in said.out for name in names if not name.endswith(".md")
            )
            note = (
                "note: pages/comparison_report.html is the report of another comparison, and"
                " stays\n"
            )
            assert said.err == ("" if names[0] == "comparison_plot.png" else note)
            return names

        def report(number=""):
            return [
                f"comparison_plot{number}.png",
                *(f"comparison_report{number}.{ending}" for ending in ("html", "md")),
            ]

        assert written("nvidia", "amd/benchmark_rocm_llama.json") == report()
        # The same inputs in another order, one more input, and the directory of one.
        assert written("amd/benchmark_rocm_llama.json", "nvidia") == report()
        assert written("amd", "nvidia") == report()
        assert written("new", "nvidia") == report("_2")
        assert written("amd", "nvidia") == report()
        assert written("nvidia", "new") == report("_2")
        assert written("new") == report("_3")
        # What a report without that mark is of isn't known; nor a page alone.
        page = folder / "comparison_report.md"
        page.write_text(
            page.read_text(encoding="utf-8") + "<!-- compared: nonsense -->", encoding="utf-8"
        )
        assert written("amd", "nvidia") == report("_4")
        (folder / "comparison_report_2.md").unlink()
        assert written("nvidia", "new") == report("_3")
        (folder / "comparison_report.html").unlink()
        page.unlink()
        assert written("nvidia", "new") == report()

    def test_c8_what_the_screen_leaves_out_is_shown_alone(self, results, capsys):
        """The option that the screen names shows all of its lists, and none of the details of
        --verbose.
        """
        for number in range(8):
            save(
                make_run(step_time=3.2 + number / 9, batch=8 * (number + 1), precision=None),
                results / f"more{number}",
            )
            save(make_run(model=f"model{number}", step_time=3.2), results / f"other{number}")

        def shown(*options):
            assert run("compare", ["output", "--no-plot", *options]) == ExitStatus.OK
            return capsys.readouterr().out.splitlines()

        short, whole, verbose = shown(), shown("--all"), shown("--verbose")
        (title,) = (line for line in short if line.startswith("Other results ("))
        count = int(re.search(r"[(](\d+) more with --all[)]", title)[1])
        assert not any("more with" in line for line in whole)
        start, end = (
            screen.index(next(line for line in screen if line.startswith("Other results")))
            for screen in (short, whole)
        )
        listed = [
            sum(line[:2] in ("- ", "! ") for line in screen[at:])
            for screen, at in ((short, start), (whole, end))
        ]
        assert listed[1] - listed[0] == count > 0
        caveats = [line for line in verbose[: verbose.index("")] if line[:2] in ("! ", "i ")]
        assert set(caveats) <= set(whole)
        assert len(whole) < len(verbose) / 3
        assert "Performance metrics" not in whole
        assert "Next steps" in whole
        # More than all is all.
        assert shown("--all", "--verbose") == verbose

    def test_c13_a_plot_that_is_named_is_replaced(self, results, capsys):
        assert run("compare", ["output/nvidia", "--output", "mine.png"]) == ExitStatus.OK
        assert run("compare", ["output/amd", "--output", "mine.png"]) == ExitStatus.OK
        assert [path.name for path in results.glob("*.png")] == ["mine.png"]

    def test_without_matplotlib_all_but_the_picture(self, results, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        assert run("compare", []) == ExitStatus.OK
        said = capsys.readouterr()
        assert said.err == "no plot: matplotlib is not installed: pip install matplotlib\n"
        assert "1.33×" in said.out
        assert not (results / "comparison_plot.png").exists()
        assert "![" not in (results / "comparison_report.md").read_text(encoding="utf-8")


class TestNotComparable:
    def test_a_failed_system(self, results, capsys):
        save(failed_run("NVIDIA H200", stack="cuda"), results / "other")
        status = run("compare", ["output/other", "output/nvidia", "--no-plot"])
        assert status == ExitStatus.NOT_COMPARABLE
        assert "Not compared: 8×H200 (BF16)" in capsys.readouterr().out
        assert (results / "comparison_report.md").exists()

    def test_different_models(self, results):
        save(make_run(**AMD, model="qwen"), results / "qwen")
        assert (
            run("compare", ["output/nvidia", "output/qwen", "--no-plot"])
            == ExitStatus.NOT_COMPARABLE
        )


class TestWrongUsage:
    def line(self, capsys, *arguments):
        assert run("compare", arguments) == ExitStatus.USAGE
        said = capsys.readouterr()
        assert said.out == ""
        return said.err.rstrip()

    def test_no_folder(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        line = self.line(capsys)
        assert line.startswith("error: directory not found: output")
        assert line.endswith("docs/troubleshooting.md#no-results")
        assert list(tmp_path.iterdir()) == []

    def test_a_missing_results_dir_is_said_to_hold_the_results_too(self, capsys):
        assert run("compare", ["--results-dir", "missing"]) == ExitStatus.USAGE
        assert (
            "hint:  without PATH, the results to compare are in --results-dir too"
            in capsys.readouterr().err
        )

    def test_a_folder_of_pictures_says_so(self, tmp_path, capsys):
        (tmp_path / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
        assert run("compare", [str(tmp_path)]) == ExitStatus.USAGE
        assert "a binary file, such as an image, not a log)" in capsys.readouterr().err
        (tmp_path / "cat.png").rename(tmp_path / "cat.html").write_text("<p>step 1</p>")
        assert run("compare", [str(tmp_path)]) == ExitStatus.USAGE
        assert "not a log by its name" in capsys.readouterr().err

    def test_an_empty_folder(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "output").mkdir()
        assert "no benchmark results or logs in output" in self.line(capsys)

    def test_after_a_search_that_was_killed_the_trials_are_named(
        self, tmp_path, monkeypatch, capsys
    ):
        monkeypatch.chdir(tmp_path)
        trials = Path("output", "autotune")
        save(make_run(label="micro1"), trials / "tuned_cuda_nemo_llama" / "micro1")
        save(make_run(label="micro2", step_time=2.4), trials / "tuned_cuda_nemo_llama" / "micro2")
        assert run("compare", ["--no-plot"]) == ExitStatus.USAGE
        hint = capsys.readouterr().err.splitlines()[1]
        assert hint == f"hint:  run --tune again, or compare its trials: {trials}"
        assert run("compare", [str(trials), "--no-plot"]) == ExitStatus.OK
        assert "faster" in capsys.readouterr().out

    def test_a_session_that_left_no_result_is_resumed(self, tmp_path, capsys):
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "benchmark_cpu_llama_20261126_052338.log").write_text(
            "$ python3 -m loop --steps=200 -x=1\n"
        )
        assert run("compare", [str(tmp_path), "--no-plot"]) == ExitStatus.USAGE
        shown = capsys.readouterr().err
        assert (
            "hint:  no run there has left a result: repeat its ./benchmark.py command with --resume"
            in shown
        )
        assert "looks like a step" not in shown

    def test_a_folder_of_other_files(self, tmp_path, capsys):
        (tmp_path / "other.json").write_text("[1, 2]")
        line = self.line(capsys, "--results-dir", str(tmp_path))
        assert re.search(r"\(skipped: .*other\.json: .*\)\nhint:  run \./benchmark\.py", line)

    def test_a_file_that_isnt_there(self, tmp_path, capsys):
        assert self.line(capsys, str(tmp_path / "none.json")).startswith(
            f"error: {tmp_path / 'none.json'}: "
        )

    @pytest.mark.parametrize(
        "before", [[], ["output", "--cost"], ["output", "--precision"], ["x=output/nvidia"]]
    )
    def test_a_name_that_is_too_long(self, results, capsys, before):
        assert run("compare", [*before, "z" * 5000, "--no-plot"]) == ExitStatus.USAGE
        assert capsys.readouterr().err.startswith("error: ")

    def test_a_broken_file_that_was_named(self, results, tmp_path, capsys):
        broken = tmp_path / "broken.json"
        broken.write_text('{"schema_version": 1, "steps": [')
        assert f"{broken}" in self.line(capsys, str(broken))

    def test_an_ambiguous_reference(self, results, capsys):
        line = self.line(capsys, "--reference", "8")
        assert "'8' matches several systems" in line

    def test_a_picture_of_another_kind(self, results, capsys):
        assert ".png, .svg, .pdf" in self.line(capsys, "--output", "plot.json")

    def test_an_unknown_model(self, results, capsys):
        assert "'gpt'" in self.line(capsys, "--model", "gpt")

    def test_a_folder_that_cant_be_written(self, results, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        assert run("compare", ["output", "--results-dir", "file/folder"]) == ExitStatus.USAGE
        said = capsys.readouterr()
        assert "1.33×" in said.out
        assert "\nhint:  choose another --results-dir\n" in said.err

    def test_a_plot_that_cannot_be_written_elsewhere(self, results, capsys):
        Path("file").touch()
        assert (
            run("compare", ["output", "--output", str(Path("file/p.png").absolute())])
            == ExitStatus.USAGE
        )
        assert "\nhint:  choose another --output\n" in capsys.readouterr().err


def test_a_broken_file_in_a_folder_is_a_note(results, capsys):
    (results / "broken.json").write_text("{")
    assert run("compare", ["--no-plot", "--verbose"]) == ExitStatus.OK
    assert "broken.json" in " ".join(capsys.readouterr().out.split())


def test_hostile_results_reach_no_terminal(results, capsys):
    save(
        make_run("x", label=HOSTILE, framework="nemo", notes=notes_of(HOSTILE)), results / "hostile"
    )
    assert run("compare", ["--no-plot"]) == ExitStatus.OK
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert run("compare", ["--reference", "\x1b[31mred"]) == ExitStatus.USAGE
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "command"),
    [("/x/benchmark.py", "python3 compare_results.py"), ("/x/compare_results.py", "python3 compare_results.py"),
     ("/bin/tprimat", "tprimat compare")],
)  # fmt: skip
def test_the_report_names_a_command_that_compares_again(results, monkeypatch, script, command):
    monkeypatch.setattr(sys, "argv", [script, "--framework", "all"])
    assert run("compare", ["--no-plot"]) == ExitStatus.OK
    assert f"{command} --no-plot" in (results / "comparison_report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_any_encoding_of_the_terminal(results, repository, encoding):
    done = subprocess.run(
        [sys.executable, str(repository / "compare_results.py"), "--no-plot"],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert ("8xMI300X" if encoding == "ascii" else "8×MI300X") in done.stdout.decode(encoding)
    assert b"\x1b" not in done.stdout


class TestRealResults:
    """The six results of an earlier tool: two of January, four of February."""

    @pytest.fixture
    def said(self, samples, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        assert (
            run("compare", [str(samples / "results"), "--results-dir", "output"]) == ExitStatus.OK
        )
        return capsys.readouterr().out, (tmp_path / "output" / "comparison_report.md").read_text(
            encoding="utf-8"
        )

    def test_eight_steps_of_warm_up_are_excluded(self, said):
        (row,) = (
            line
            for line in said[1].splitlines()
            if "train_nvd_nemo_llama" in line and "9–500" in line
        )
        assert "3.241 s" in row
        assert "5,055" in row

    def test_results_of_january_and_february_are_not_mixed(self, said):
        out = " ".join(said[0].split())
        assert "28–36% faster" in out
        assert "8×H100, batch 8" in out

    def test_no_value_of_the_earlier_tool_that_is_wrong(self, said):
        # The step windows of other tools are listed, and decide nothing.
        claimed = [
            line for text in said for line in text.splitlines() if "sensitivity: " not in line
        ]
        for text in claimed:
            for wrong in ("6.34", "1.41", "9.68", "13,425", "13,363", "107,400"):
                assert wrong not in text

    def test_the_rate_that_contradicts_its_steps_is_explained(self, said):
        out = " ".join(said[0].split())
        assert "Not compared: 8×MI300X, batch 128: it reports 107,401 tokens/s, but" in out
        assert "sequence length 8192 instead of 2048" in said[1]

    def test_each_february_pair_is_compared_with_its_caveats(self, said):
        out = " ".join(said[0].split())
        assert "! Qwen 2.5 7B: MI300X vs H100 1.55×" in out
        assert "8×MI300X, batch 64 sped up at step 161" in out
        assert "52–56% faster" in said[1]
        assert all("step timers differ: " in text for text in (out, said[1]))
        assert "speed changed: " in said[1]

    def test_training_runs_differ(self, said):
        text = " ".join(said[1].split())
        assert text.count("model quality is not compared") >= 2
        assert "on 0.2% of shared steps" in text
        assert "on 4.0% of shared steps" in text

    def test_mfu_where_the_precision_is_given(self, samples, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        words = [str(samples / "results"), "--results-dir", "output"]
        assert run("compare", [*words, "--precision", "bf16", "--no-plot"]) == ExitStatus.OK
        report = (tmp_path / "output" / "comparison_report.md").read_text(encoding="utf-8")
        out = capsys.readouterr().out + report
        lines = [line.split() for line in out.splitlines()]
        shares = [line[-1] for line in lines if line and "batch" in line and line[-1].endswith("%")]
        assert shares[:2] == ["24.1%", "23.8%"]
        assert ["|", "MFU", "(share", "of", "peak)", "|", "21.8%", "|", "18.6%", "|", "|"] in lines
        assert "precision bf16 from the command line" in report

    def test_the_digests_of_all_six_files_are_in_the_report(self, said, samples):
        import hashlib

        for entry in json.loads((samples / "results" / "truth.json").read_text()):
            content = (samples / "results" / entry["file"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() in said[1]


class TestElectricity:
    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            (["--pue", "1.3"], "--pue needs --electricity"),
            (["--electricity", "-1"], "--electricity must be a price per kWh"),
            (["--electricity", "nan"], "--electricity must be a price per kWh"),
            (["--electricity", "0.1", "--pue", "0.9"], "--pue must be at least 1"),
            (["--electricity", "0.1", "--pue", "inf"], "--pue must be at least 1"),
        ],
    )
    def test_wrong_values(self, results, capsys, words, problem):
        assert run("compare", [*words, "--no-plot"]) == ExitStatus.USAGE
        assert problem in capsys.readouterr().err

    def test_the_cost_of_measured_energy(self, results, capsys):
        # 3.6 MJ for 10⁶ tokens are one kWh, and 1000 kWh for 10⁹ tokens.
        energy = {"energy_joules": 3.6e6, "measured_tokens": 1e6}
        save(make_run(step_time=3.3, energy_metrics=energy), results / "nvidia")
        assert (
            run("efficiency", ["output/nvidia", "--electricity", "0.1", "--pue", "1.2", "--json"])
            == ExitStatus.OK
        )
        (table,) = json.loads(capsys.readouterr().out)["results"]
        values = table["columns"][0]["values"]
        assert values["electricity_dollars_per_billion_tokens"]["value"] == pytest.approx(120.0)
        assert values["tokens_per_joule"]["value"] == pytest.approx(1 / 3.6)
