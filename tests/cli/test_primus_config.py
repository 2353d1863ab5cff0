"""What a configuration of Primus really is, as a command shows it."""

from __future__ import annotations

from pathlib import Path

import primus_tree
import pytest

from tprimat.cli import run
from tprimat.results.run import Optimizer, ParallelismConfig, Run, TrainingConfig
from tprimat.store import store

pytest.importorskip("yaml", reason="PyYAML isn't installed; Primus brings it")


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    for name in ("PRIMUS_CONFIG", "GPUS_PER_NODE", "NNODES"):
        monkeypatch.delenv(name, raising=False)
    tree = primus_tree.make(tmp_path / "Primus")
    monkeypatch.setenv("PRIMUS_PATH", str(tree))
    return tree


def rows(text: str) -> dict[str, str]:
    """The values of the table, by their labels."""
    lines = [line[2:].split("  ") for line in text.splitlines() if line.startswith("  ")]
    return {
        cells[0]: " ".join(cells[1:]).split()[0]
        for cells in lines
        if len(cells) > 1 and cells[0].strip()
    }


def test_shows_what_is_in_force_and_what_set_it(tree, capsys):
    assert run("primus-config", ["--model", "qwen", "--gpus", "8"]) == 0
    output = capsys.readouterr().out
    table = rows(output)
    assert table["global batch size"] == "640"
    assert table["sequence length"] == "2048"
    assert table["bf16"] == "True"
    assert table["data parallel"] == "8"
    assert table["accumulation steps"] == "8"
    assert "qwen2.5_7B-BF16-pretrain.yaml:20" in output
    assert "modules/pre_trainer.yaml" in output


def test_the_command_line_and_the_environment_count(tree, capsys, monkeypatch):
    monkeypatch.setenv("PRIMUS_SEQ_LENGTH", "4096")
    assert run("primus-config", ["--", "--global_batch_size", "64"]) == 0
    output = capsys.readouterr().out
    assert rows(output)["sequence length"] == "4096"
    assert rows(output)["global batch size"] == "64"
    assert "command line" in output


def test_a_file_of_ones_own_says_what_does_nothing(tree, tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text("micro_batch_size: 1\n" + primus_tree.experiment("llama3.1_8B"))
    assert run("primus-config", [str(path)]) == 0
    output = capsys.readouterr().out
    assert rows(output)["micro-batch size"] == "2"
    assert "is ignored by Primus" in " ".join(output.split())


@pytest.fixture
def theirs(tmp_path):
    def save(**fields) -> str:
        training = {
            "global_batch_size": 128, "micro_batch_size": 2, "sequence_length": 8192, "num_gpus": 8,
            "precision": "bf16", "recomputation": "none", **fields,
        }  # fmt: skip
        run = Run(
            framework="nemo", model="llama", platform="nvd", training_config=TrainingConfig(**training),
            optimizer=Optimizer(name="AdamW"),
            parallelism_config=ParallelismConfig(
                tensor_model_parallel_size=1, pipeline_model_parallel_size=1, context_parallel_size=1,
                expert_model_parallel_size=1,
            ),
        )  # fmt: skip
        return str(store.save(run, tmp_path / "theirs").path)

    return save


def test_the_same_as_a_result(tree, theirs, capsys):
    assert run("primus-config", ["--gpus", "8", "--against", theirs()]) == 0
    assert "Same configuration as" in capsys.readouterr().out


def test_how_it_differs_from_a_result(tree, theirs, capsys):
    assert (
        run(
            "primus-config",
            ["--gpus", "8", "--against", theirs(precision="fp8", micro_batch_size=1)],
        )
        == 3
    )
    output = capsys.readouterr().out.partition("Differences from")[2]
    assert rows(output) == {"micro-batch size": "2", "precision": "bf16"}
    assert "FAIR_CONFIG=1" in output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nonsense"], "--help lists the options"),
        (["/none.yaml"], "cannot be read"),
        (["--model", "gpt5"], "unknown model 'gpt5'"),
    ],
)
def test_wrong_usage_is_one_line(tree, arguments, words, capsys):
    assert run("primus-config", arguments) == 2
    line = capsys.readouterr().err.rstrip()
    assert words in line


def test_without_pyyaml_it_says_what_brings_it(tree, monkeypatch, capsys):
    import sys

    monkeypatch.setitem(sys.modules, "yaml", None)
    assert run("primus-config", []) == 2
    assert "pip install pyyaml" in capsys.readouterr().err


def test_real_configurations_of_every_version(tree, tmp_path, capsys):
    """All spellings give the same setup."""
    shown = []
    for spelling in ("BF16", "plain", "flat"):
        other = primus_tree.make(tmp_path / spelling, spelling=spelling)
        assert run("primus-config", ["--primus-path", str(other), "--gpus", "8"]) == 0
        shown.append(rows(capsys.readouterr().out))
    assert shown[0] == shown[1] == shown[2]
