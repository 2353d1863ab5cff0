"""The scripts pretrain_*.py where NeMo isn't: what they show, and what they refuse in one line."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tprimat.catalog import models
from tprimat.cli import run
from tprimat.cli.options import benchmark as benchmark_options
from tprimat.cli.options.benchmark import is_meant
from tprimat.errors import UsageError
from tprimat.frameworks.request import RequestedConfig
from tprimat.measure import torchrun
from tprimat.measure.plan import Plan, given_options
from tprimat.results import run as run_module
from tprimat.results.result_file import ResultFile, encode

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="the analysis tier has no torch"
)
without_nemo = pytest.mark.skipif(
    importlib.util.find_spec("modelopt") is not None, reason="NeMo is here"
)


def pretrain(*options, model="llama"):
    return run("benchmark", ["--framework", "nemo", "--model", model, *options])


@without_nemo
class TestWithoutNemo:
    def test_a_dry_run_shows_the_exact_command(self, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert (
            pretrain(
                "--dry-run", "--gpu", "H100", "--precision", "fp8", "--max-steps", "80", "--tp", "2"
            )
            == 0
        )
        # Where a command's lines break depends on the length of the interpreter's path.
        printed = capsys.readouterr().out.replace(" \\\n", " ")
        for words in (
            "--nproc-per-node=8 -m tprimat.frameworks.nemo.training --framework=nemo",
            "--precision=fp8",
            "--steps=80",
            "--tensor-model-parallel-size=2",
            "PL_GLOBAL_SEED=1234",
            "result: output/benchmark_cuda_llama.json",
            "the recipe can be shown only if NeMo is installed",
        ):
            assert words in " ".join(printed.split())
        assert list(tmp_path.iterdir()) == []

    def test_to_train_is_refused_with_what_to_do(self, capsys):
        assert pretrain("--max-steps", "3") == 2
        line = capsys.readouterr().err.rstrip()
        assert "NeMo isn't installed" in line
        assert "tools/make_nemo_env.py" in line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--dry-run", "--gpu", "H1000"], "the nearest are"),
        (
            ["--dry-run", "--gpu", "a100"],
            "choose from A100 40GB, A100 80GB, A100 PCIe 40GB, A100 PCIe 80GB\n",
        ),
        (["--dry-run", "--gpu", "H100", "--tp", "3"], "needs a multiple of"),
        (["--dry-run", "--nodes", "2"], "--executor slurm"),
        (["--dry-run", "--preset", "fastest"], "invalid choice"),
        (["--dry-run", "--gpu", "H100", "--precision", "fp32"], "nemo does not support fp32 here"),
        (["--dry-run", "--gpu", "H100", "--profile", "rocprof"], "use --profile nsys here"),
        (["--dry-run", "--gpu", "H100", "--profile", "perf"], "invalid choice"),
    ],
)
def test_wrong_options_are_one_line(options, words, capsys):
    assert pretrain(*options) == 2
    line = capsys.readouterr().err.rstrip()
    assert words in line


@needs_torch
def test_another_framework_has_no_use_for_nemos_options(capsys):
    assert run("benchmark", ["--framework", "lightning", "--tp", "2", "--dry-run"]) == 2
    assert "--tensor-model-parallel-size is a NeMo option" in capsys.readouterr().err
    for gpu, problem in (
        ("H100", "--gpu H100 is a NeMo option"),
        ("H1000", "unknown NVIDIA GPU 'H1000'"),
    ):
        assert run("benchmark", ["--framework", "lightning", "--gpu", gpu, "--dry-run"]) == 2
        assert problem in capsys.readouterr().err


def test_a_result_of_the_other_side_is_matched(tmp_path, capsys):
    theirs = ResultFile(
        platform="amd",
        framework="primus",
        model="llama",
        model_config=models.by_name("llama").shape,
        training_config=run_module.TrainingConfig(
            max_steps=70,
            global_batch_size=96,
            micro_batch_size=2,
            sequence_length=4096,
            num_gpus=8,
            precision="fp8",
            recomputation="none",
            seed=99,
        ),
        parallelism_config=run_module.ParallelismConfig(
            tensor_model_parallel_size=2, pipeline_model_parallel_size=1, context_parallel_size=1
        ),
    )
    path = tmp_path / "theirs.json"
    path.write_bytes(encode(theirs))
    assert json.loads(path.read_text())["model"] == "llama"
    assert pretrain("--dry-run", "--gpu", "H100", "--match", str(path)) == 0
    printed = " ".join(capsys.readouterr().out.replace(" \\\n", " ").split())
    for words in (
        "--precision=fp8",
        "--steps=70",
        "--global-batch-size=96",
        "--micro-batch-size=2",
        "--sequence-length=4096",
        "--seed=99",
        "--tensor-model-parallel-size=2",
        "it was trained with primus, and here with nemo",
    ):
        assert words in printed
    assert "tensor parallelism of 2: here" not in printed


def test_every_option_of_nemo_is_a_wish():
    options = benchmark_options.parser().parse_args(
        ["--tp", "2", "--set", "a.b=1", "--set", "c=2", "--data", "tokens"]
    )
    wished = RequestedConfig(**given_options(options))
    assert wished.tensor_model_parallel_size == 2
    assert wished.settings == ("a.b=1", "c=2")
    assert wished.data == "tokens"


def test_torchrun_says_how_many_nodes_there_are(monkeypatch):
    options = benchmark_options.parser().parse_args([])
    for name, value in (
        ("TORCHELASTIC_RUN_ID", "x"),
        ("WORLD_SIZE", "16"),
        ("LOCAL_WORLD_SIZE", "8"),
    ):
        monkeypatch.setenv(name, value)
    wished = given_options(options)
    assert (wished["num_gpus"], wished["num_nodes"]) == (16, 2)


def test_the_three_scripts_differ_in_their_model_alone(repository):
    scripts = {
        name: (repository / f"pretrain_{name}.py").read_text().splitlines()
        for name in models.names()
    }
    # Their first two lines say which model it is.
    rest = {"\n".join(lines[2:]).replace(f'"{name}"', "NAME") for name, lines in scripts.items()}
    assert len(rest) == 1


def test_they_train_with_megatron_bridge_where_that_is_named(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert pretrain("--framework", "megatron_bridge", "--dry-run", "--gpu", "H100") == 0
    shown = capsys.readouterr().out.replace("\\\n", "")
    assert "-m tprimat.frameworks.megatron_bridge.training" in " ".join(shown.split())


def test_torchrun_may_start_nemo_and_no_other_model():
    environ = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2"}
    for words in (["--framework", "nemo"], ["--framework=nemo"]):
        assert not is_meant([*words, "--model", "llama", "--tp", "2"], environ)
    with pytest.raises(
        UsageError, match="only the encoder-decoder and NeMo can be started by torchrun"
    ):
        is_meant(["--model", "llama"], environ)


def test_under_torchrun_one_training_is_run():
    with pytest.raises(UsageError, match="use one --model and --runs 1"):
        torchrun.train_nemo(Plan((), (None,), Path(), runs=2), None)


def test_a_profiler_is_in_the_command_that_is_shown(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert pretrain("--dry-run", "--gpu", "H100", "--profile", "nsys") == 0
    printed = " ".join(capsys.readouterr().out.replace(" \\\n", " ").split())
    assert "nsys profile --capture-range=cudaProfilerApi" in printed
    assert "--profile=nsys" in printed
    assert list(tmp_path.iterdir()) == []
