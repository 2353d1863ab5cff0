"""scripts/nvd_compare.py and scripts/compare.py, as a user calls them."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from made_runs import MI300X, make_run

from tprimat.cli import run
from tprimat.errors import ExitStatus
from tprimat.store.store import save, save_as


@pytest.fixture
def results(tmp_path, monkeypatch):
    """output/ with three frameworks and two models on NVIDIA, one on AMD, and a result of another
    name.
    """
    monkeypatch.chdir(tmp_path)
    output = tmp_path / "output"
    for short, framework, seconds in (
        ("mega", "megatron", 3.2),
        ("tran", "transformers", 2.9),
        ("deep", "deepspeed", 3.0),
    ):
        save_as(
            make_run(framework=framework, step_time=seconds), output / f"train_{short}_llama.json"
        )
    save_as(make_run(framework="nemo", model="qwen"), output / "nvd_train_nemo_qwen.json")
    save_as(
        make_run(framework="deepspeed", model="qwen", step_time=2.8),
        output / "train_nvd_deep_qwen.json",
    )
    save_as(make_run(MI300X, stack="rocm", step_time=2.4), output / "train_amd_prim_llama.json")
    return output


@pytest.fixture
def earlier(samples, tmp_path):
    """The train_*.json of an earlier tool."""
    folder = tmp_path / "earlier"
    folder.mkdir()
    for file in (samples / "results").glob("train_*.json"):
        shutil.copy(file, folder)
    return folder


def test_logs_with_the_values_that_they_leave_open(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    for name, rate in (("one", 7000), ("two", 8400)):
        line = "step: {n:2}  loss: 9.1  memory: 31.0GiB(25%)  tps: {rate:,}\n"
        text = "".join(line.format(n=n, rate=rate + n % 3) for n in range(1, 31))
        (tmp_path / "logs" / f"{name}.log").write_text(text)
    sizes = [
        "--num-gpus",
        "8",
        "--global-batch-size",
        "16",
        "--sequence-length",
        "2048",
        "--model-name",
        "llama3_8b",
    ]
    options = [
        "--results-dir",
        "logs",
        "--no-plot",
        "--gpu",
        "one=H100",
        "--gpu",
        "two=H200",
        *sizes,
    ]
    for command in ("nvd-compare", "compare-frameworks"):
        assert run(command, options) == ExitStatus.OK
        assert "8×H200 is 20% faster per GPU than 8×H100" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "results"),
    [
        ("nvd-compare", "NVIDIA results"),
        ("compare-frameworks", "results of all platforms"),
    ],
)
def test_the_help_says_whose_results_are_compared(command, results, capsys):
    with pytest.raises(SystemExit):
        run(command, ["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Compare training frameworks in {results}, model by model" in shown
    assert ("--platform PLATFORM" in shown) is (command == "compare-frameworks")


class TestNvdCompare:
    def test_header_tables_and_summary(self, results, capsys):
        assert run("nvd-compare", []) == ExitStatus.OK
        said = capsys.readouterr()
        assert said.err == ""
        out = said.out
        assert "NVIDIA H100 80GB HBM3: framework comparison" in out
        for line in (
            "  Hardware: NVIDIA H100 80GB HBM3",
            "  GPUs: 8",
            "  PyTorch: unknown",
            "  CUDA: unknown",
        ):
            assert line in out.splitlines()
        tables = out.split("Performance summary")[0]
        llama, qwen = tables.split("Llama 3.1 8B")[1].split("Qwen 2.5 7B")
        rows = [
            line.split() for line in llama.splitlines() if line.startswith(("Mega", "Tran", "Deep"))
        ]
        assert [(row[0], row[1], row[2]) for row in rows] == [
            ("Transformers", "5,650", "2.900"),
            ("DeepSpeed", "5,461", "3.000"),
            ("Megatron", "5,120", "3.200"),
        ]
        assert [row[4] for row in rows] == ["2.2638"] * 3
        assert rows[0][5:] == ["3", "min", "29", "s"]
        assert [
            line.split()[0] for line in qwen.splitlines() if line.startswith(("NeMo", "Deep"))
        ] == [
            "DeepSpeed",
            "NeMo",
        ]
        summary = out.split("Performance summary")[1].split("Llama 3.1 8B")[1]
        assert "Highest throughput: Transformers, 5,650 tokens/s/GPU" in summary
        assert "Fastest step time: Transformers, 2.900 s" in summary
        assert "Performance range: 5,120–5,650 tokens/s/GPU" in summary

    def test_c16_the_loaded_files_are_listed(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        for count, framework in enumerate(("nemo", "lightning", "fsdp", "torchtitan"), 1):
            name = save(make_run(framework=framework), tmp_path / "output").path.name
            assert run("nvd-compare", ["--no-plot"]) == ExitStatus.OK
            loaded = capsys.readouterr().out.partition("  Loaded: ")[2].partition("\n\n")[0]
            assert name in loaded
            assert loaded.count(".json") == count

    def test_only_nvidia(self, results, capsys):
        run("nvd-compare", ["--verbose"])
        out = capsys.readouterr().out
        assert "Primus" not in out
        assert "MI300X" not in out

    def test_results_under_all_our_names(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        for platform in ({}, {"device": MI300X, "stack": "rocm"}):
            for framework in ("nemo", "primus", "lightning", "torchtitan"):
                assert (
                    save(make_run(framework=framework, **platform), tmp_path / "output").moved
                    is None
                )
        assert run("nvd-compare", ["--no-plot"]) == ExitStatus.OK
        out = capsys.readouterr().out
        assert all(name in out for name in ("NeMo", "Primus", "Lightning", "torchtitan"))
        assert "MI300X" not in out

    def test_the_folder_of_the_oldest_tool(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        save_as(
            make_run(framework="nemo"),
            tmp_path / "benchmark_results" / "benchmark_cuda_20260105_143022.json",
        )
        save_as(
            make_run(framework="megatron"),
            tmp_path / "benchmark_results" / "benchmark_cuda_20260106_143022.json",
        )
        assert run("nvd-compare", ["--no-plot"]) == ExitStatus.OK
        assert "NeMo" in capsys.readouterr().out
        assert run("compare", ["--no-plot"]) == ExitStatus.OK
        assert "nemo is as fast as megatron" in capsys.readouterr().out

    def test_the_plot_is_its_own(self, results, capsys):
        run("nvd-compare", [])
        assert (results / "nvd_compare.png").read_bytes().startswith(b"\x89PNG")
        assert "nvd_compare.png" in capsys.readouterr().out
        assert not (results / "comparison_plot.png").exists()

    def test_another_folder_and_name(self, results, tmp_path, capsys):
        elsewhere = tmp_path / "elsewhere"
        shutil.copytree(results, elsewhere)
        assert (
            run("nvd-compare", ["--results-dir", str(elsewhere), "--output", "mine"])
            == ExitStatus.OK
        )
        assert (elsewhere / "mine.png").exists()
        assert not (results / "nvd_compare.png").exists()

    @pytest.mark.parametrize("command", ["nvd-compare", "compare"])
    @pytest.mark.parametrize("output", ["./mine.png", "pictures/mine.png", "../mine.png"])
    def test_an_output_with_a_directory_is_relative_to_the_working_one(
        self, results, tmp_path, monkeypatch, command, output
    ):
        working = tmp_path / "here"
        working.mkdir()
        monkeypatch.chdir(working)
        assert run(command, ["--results-dir", str(results), "--output", output]) in (0, 3)
        assert (working / output).exists()

    def test_an_output_that_is_no_picture_is_wrong_usage(self, results, capsys):
        assert run("nvd-compare", ["--output", "mine.txt"]) == ExitStatus.USAGE
        assert "'mine.txt' is not a plot file" in capsys.readouterr().err

    def test_nothing_of_nvidia_is_wrong_usage(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        save_as(make_run(MI300X, stack="rocm"), tmp_path / "output" / "train_amd_prim_llama.json")
        assert run("nvd-compare", []) == ExitStatus.USAGE
        assert "error: no results of platform nvd in output or below\n" in capsys.readouterr().err

    def test_no_folder_is_wrong_usage(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        assert run("nvd-compare", []) == ExitStatus.USAGE
        assert "error: directory not found: output\n" in capsys.readouterr().err


class TestChecks:
    def test_an_implausible_result_is_excluded(self, repository, tmp_path, capsys):
        # The report goes beside the results.
        folder = shutil.copytree(
            repository / "tests" / "data" / "published", tmp_path / "published"
        )
        arguments = ["--results-dir", str(folder), "--no-plot", "--precision", "bf16"]
        assert run("nvd-compare", arguments) == ExitStatus.OK
        out = capsys.readouterr().out
        assert "21,933 (excluded)" in out
        assert "Highest throughput: Transformers, 6,171 tokens/s/GPU" in out
        assert "Fastest step time: Transformers, 2.655 s" in out
        assert "Performance range: 5,316–6,171 tokens/s/GPU" in out
        assert "  PyTorch: 2.7.0a0+7c8ec84dab.nv25.03\n  CUDA: 12.8\n" in out

    def test_without_a_second_plausible_result_nothing_is_compared(
        self, repository, tmp_path, capsys
    ):
        for name in ("deepspeed", "megatron"):
            shutil.copy(
                repository / "tests" / "data" / "published" / f"train_{name}_llama.json", tmp_path
            )
        arguments = ["--results-dir", str(tmp_path), "--no-plot", "--precision", "bf16"]
        assert run("nvd-compare", arguments) == ExitStatus.IMPLAUSIBLE
        out = capsys.readouterr().out
        assert "Not compared: deepspeed" in out
        assert "Next: check the log and configuration of deepspeed" in out
        assert "Highest throughput: " not in out

    def test_steps_of_different_work_have_no_fastest(self, tmp_path, capsys):
        save_as(make_run(framework="megatron"), tmp_path / "train_mega_llama.json")
        save_as(
            make_run(framework="deepspeed", batch=32, step_time=1.7),
            tmp_path / "train_deep_llama.json",
        )
        assert run("nvd-compare", ["--results-dir", str(tmp_path)]) == ExitStatus.OK
        out = capsys.readouterr().out
        assert "Highest throughput: Megatron, 5,120 tokens/s/GPU" in out
        assert "Fastest step time: not compared (batch, sequence length or GPUs differ)" in out
        assert "! global batch differs: 64 vs 32 sequences" in out

    def test_no_significant_difference(self, tmp_path, capsys):
        for framework, seconds in (("megatron", (3.2, 3.0, 3.4)), ("deepspeed", (3.21, 3.1, 3.3))):
            for index, each in enumerate(seconds):
                moment = f"2026-02-02T21:4{index}:16+00:00"
                made = make_run(framework=framework, step_time=each, timestamp=moment)
                save_as(made, tmp_path / f"train_{framework}_llama.json")
        run("nvd-compare", ["--results-dir", str(tmp_path), "--no-plot"])
        assert "No significant difference between megatron and deepspeed" in capsys.readouterr().out

    def test_headline_and_certainty_alone(self, results, capsys):
        run("nvd-compare", ["--quiet", "--model", "llama"])
        headline, certainty = capsys.readouterr().out.splitlines()
        assert headline.startswith("transformers is 3.4% faster")
        assert certainty.startswith("1.034×")

    def test_four_caveats_and_one_next_step(self, earlier, capsys):
        arguments = ["--results-dir", str(earlier), "--no-plot", "--model", "llama"]
        run("compare-frameworks", arguments)
        short = capsys.readouterr().out
        run("compare-frameworks", [*arguments, "--verbose"])
        long = capsys.readouterr().out
        assert (short.count("Next:"), short.count("\n! ") + short.count("\ni ")) == (1, 4)
        assert "more with --verbose" in short
        assert "Next steps\n- " in long
        assert "Configuration differences" in long


class TestCompare:
    def test_across_platforms(self, results, capsys):
        assert run("compare-frameworks", []) == ExitStatus.OK
        out = capsys.readouterr().out
        assert "Primus" in out
        assert "Megatron" in out
        assert "  Hardware: AMD Instinct MI300X, NVIDIA H100 80GB HBM3" in out
        assert (results / "compare.png").exists()

    def test_one_platform(self, results, capsys):
        run("compare-frameworks", ["--platform", "amd", "--no-plot"])
        out = capsys.readouterr().out
        assert "Primus" in out
        assert "Megatron" not in out
        assert not (results / "compare.png").exists()

    @pytest.mark.parametrize(
        "names", [["mega", "deep"], ["megatron,deepspeed"], ["Megatron", "DEEP"]]
    )
    def test_some_frameworks(self, results, names, capsys):
        run("compare-frameworks", ["--no-plot", "--frameworks", *names])
        out = capsys.readouterr().out
        assert "Megatron" in out
        assert "DeepSpeed" in out
        assert "Transformers" not in out
        assert "NeMo" not in out

    def test_a_framework_that_isnt_there_names_those_that_are(self, results, capsys):
        assert run("compare-frameworks", ["--frameworks", "jax"]) == ExitStatus.USAGE
        assert "available: deepspeed, " in capsys.readouterr().err

    def test_reference_and_model(self, results, capsys):
        run(
            "compare-frameworks",
            ["--platform", "nvd", "--reference", "megatron", "--model", "llama", "--no-plot"],
        )
        out = capsys.readouterr().out
        assert "faster per GPU than megatron" in out
        assert "; 3.4% faster than deepspeed" in " ".join(out.split())
        assert "Qwen" not in out

    def test_earlier_results_as_they_lie_there(self, earlier, capsys):
        assert (
            run("compare-frameworks", ["--results-dir", str(earlier), "--no-plot"]) == ExitStatus.OK
        )
        out = capsys.readouterr().out
        assert "8×MI300X is 28–36% faster" in out
        assert "29 min 07 s" in out


def test_the_scripts_do_the_same(results, repository):
    done = subprocess.run(
        [sys.executable, repository / "scripts" / "nvd_compare.py", "--no-plot"],
        capture_output=True,
        encoding="utf-8",
        env={"PYTHONIOENCODING": "utf-8", "PATH": "/usr/bin:/bin"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Highest throughput: Transformers" in done.stdout
