"""The commands that users of the older tools type, as their documents write them: each is here,
with its options.
"""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tprimat.cli import COMMANDS

REPOSITORY = Path(__file__).resolve().parent.parent
OLDER_TOOLS = (REPOSITORY / "docs" / "older-tools.md").read_text(encoding="utf-8")

TYPED = {
    "./benchmark.py": "benchmark",
    "./benchmark.py --help": "benchmark",
    "./benchmark.py --model llama": "benchmark",
    "./benchmark.py --model qwen": "benchmark",
    "./benchmark.py --runs 3": "benchmark",
    "./benchmark.py --runs 5": "benchmark",
    "LLAMA_LOG=/path/to/llama.log ./benchmark.py": "benchmark",
    "python benchmark.py --data-dir /mnt/ssd/data": "benchmark",
    "python benchmark.py --data-dir /mnt/nfs/data": "benchmark",
    "torchrun --nproc_per_node=8 benchmark.py --batch-size 128 --epochs 5": "benchmark",
    "nsys profile --trace=cuda,nvtx python3 pretrain_llama.py": "pretrain",
    "rocprof --stats --timestamp on python3 pretrain_llama.py": "pretrain",
    "python3 compare_results.py": "compare",
    "python compare_results.py results/": "compare",
    "python compare_results.py results/ --cost 3.00 5.50 8.00": "compare",
    "python compare_results.py results/bench_H100_8gpu.json results/bench_H200_8gpu.json --cost 3.00 5.50": "compare",
    "python3 extract_primus_metrics.py --log-file training_llama.log --model-name llama --num-gpus 8 "
    "--global-batch-size 128 --sequence-length 2048": "extract-primus",
    "./run_primus_all.sh": "run-primus",
    "./run_primus_llama.sh": "run-primus",
    "./run_primus_qwen.sh": "run-primus",
    "./check_primus_config.sh": "primus-config",
    "./fix_gpu_memory.sh": "gpu-memory",
    "./run_amd_dual_comparison.sh": "run-primus",
    "FAIR_CONFIG=1 ./run_amd_dual_comparison.sh": "run-primus",
    "python3 analyze_existing_logs.py": "read",
    "python3 compare_with_enhanced_metrics.py": "compare",
    "python3 nvd_compare.py": "nvd-compare",
    "python3 nvd_compare.py --help": "nvd-compare",
    "python3 nvd_compare.py --results-dir /path/to/results": "nvd-compare",
    "python3 nvd_compare.py --output my_comparison.png": "nvd-compare",
    "./run_benchmark.sh llama": "benchmark",
    "./run_benchmark.sh qwen": "benchmark",
    "./run_benchmark.sh mistral": "benchmark",
    "./run_benchmark.sh $model": "benchmark",
    "./run_benchmark.sh llama 5": "benchmark",
    "./run_benchmark.sh": "benchmark",
    "./run_benchmark.sh --single": "benchmark",
    "./run_benchmark.sh --full": "benchmark",
    "./run_benchmark.sh --disk": "benchmark",
    "./run_benchmark.sh --disk --batch-size 64 --d-model 1024 --nhead 16": "benchmark",
    "./run_benchmark.sh --d-model 512 --nhead 8 --num-encoder-layers 6 --num-decoder-layers 6 "
    "--dim-feedforward 2048": "benchmark",
    "./run_benchmark.sh --d-model 768 --nhead 12 --num-encoder-layers 12 --num-decoder-layers 12 "
    "--dim-feedforward 3072": "benchmark",
    "./run_benchmark.sh --disk --batch-size 8 --seq-len 512 --d-model 2048 --nhead 32 "
    "--num-encoder-layers 24 --num-decoder-layers 24 --dim-feedforward 8192": "benchmark",
}
"""As the documents write them, and the command of `tprimat` that each starts; `pretrain` is a
script of its own.
"""

NOT_OURS = re.compile(r"run_pretrain\.sh|^(?:chmod|cp|cat|ls|open) ")
"""Primus' own script, and what a shell does with files."""


@pytest.fixture(scope="module")
def arguments_of(tmp_path_factory):
    """What a script in this clone would give to tprimat: a Python that prints its arguments takes
    the place of ours.
    """
    python = tmp_path_factory.mktemp("bin") / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)

    def run(script: Path, words: list[str], folder: Path) -> list[str]:
        environment = {"PATH": "/usr/bin:/bin", "PYTHON": str(python), "HOME": str(folder)}
        done = subprocess.run(
            ["bash", script, *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        found = re.search(r"/tprimat/__main__\.py\n(.+)", done.stdout, re.DOTALL | re.MULTILINE)
        assert found, done.stderr
        return found[1].splitlines()

    return run


def script_of(typed: str) -> tuple[str, list[str]]:
    """Return the script in a command line, and the words after it."""
    words = shlex.split(typed)
    place = next(index for index, word in enumerate(words) if re.search(r"\.(?:py|sh)$", word))
    return words[place].removeprefix("./"), words[place + 1 :]


@pytest.mark.parametrize("typed", TYPED)
def test_is_at_the_root_or_named_with_its_directory(typed):
    script, _ = script_of(typed)
    if not (REPOSITORY / script).is_file():
        assert (REPOSITORY / "scripts" / script).is_file()
        assert f"`scripts/{script}" in OLDER_TOOLS or (
            script in OLDER_TOOLS and "the same names in `scripts/`" in OLDER_TOOLS
        )


@pytest.mark.parametrize(
    "typed", [typed for typed, command in TYPED.items() if command != "pretrain"]
)
def test_its_options_are_those_of_the_command(typed, arguments_of, tmp_path):
    name, words = script_of(typed)
    words = ["llama" if word == "$model" else word for word in words if word != "--help"]
    script = next(
        path for path in (REPOSITORY / name, REPOSITORY / "scripts" / name) if path.is_file()
    )
    if script.suffix == ".py":
        command = re.search(r"\brun\(\"([\w-]+)\"", script.read_text(encoding="utf-8"))
        assert command, script
        words = [command[1], *words]
    elif shutil.which("bash") is None:
        pytest.skip("this system has no bash")
    else:
        words = arguments_of(script, words, tmp_path)
    assert words[0] == TYPED[typed]
    assert words[0] in COMMANDS
    options = importlib.import_module(f"tprimat.cli.options.{words[0].replace('-', '_')}")
    options.parser().parse_args(words[1:])


@pytest.mark.parametrize("script", ["run_benchmark.sh", "scripts/run_benchmark.sh"])
def test_the_number_after_a_model_is_that_of_runs(arguments_of, tmp_path, script):
    command, *words = arguments_of(REPOSITORY / script, ["llama", "5"], tmp_path)
    parser = importlib.import_module(f"tprimat.cli.options.{command}").parser()
    found = parser.parse_args(words)
    assert (found.model, found.runs) == (parser.parse_args(["--model", "llama"]).model, 5)


def test_the_table_holds_every_command_of_the_documents(samples):
    documents = sorted((samples.parent / "requests").glob("[0-9]*.txt"))
    assert documents
    typed = {
        " ".join(line.split("  #")[0].split())
        for path in documents
        for block in re.findall(
            r"```(?:bash|sh)\n(.*?)```", path.read_text(encoding="utf-8", errors="replace"), re.S
        )
        for line in block.replace("\\\n", " ").splitlines()
        if re.search(r"^[^#]*\.(?:py|sh)\b", line) and not NOT_OURS.search(line.strip())
    }
    assert typed - TYPED.keys() == set()
    assert TYPED.keys() - typed == set()
