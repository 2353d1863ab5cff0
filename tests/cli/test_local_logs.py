"""What ./benchmark.py does when nothing is said: it measures, or reads the logs that are here."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import msgspec
import primus_tree
import pytest
from fake_framework import fake_framework
from test_find_logs import log, put

from tprimat import frameworks
from tprimat.cli import _local_logs, benchmark, run
from tprimat.cli.options import benchmark as benchmark_options
from tprimat.machine import platforms
from tprimat.machine.platforms import Machine
from tprimat.results.run import Environment, GpuInfo
from tprimat.store import store

AMD = Machine(
    "amd",
    GpuInfo(device_name="AMD Instinct MI300X", device_count=8, software_stack="rocm"),
    Environment(),
)
NVIDIA = Machine(
    "nvd", GpuInfo(device_name="NVIDIA H100", device_count=8, software_stack="cuda"), Environment()
)
CPU = Machine(
    "cpu", GpuInfo(device_name="a processor", device_count=1, software_stack="cpu"), Environment()
)


class MeasuringError(Exception):
    """Raised where a measurement would begin."""


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty working directory; where a measurement would begin, MeasuringError is raised."""

    def choose(name, *platform, **options):
        raise MeasuringError

    for name in ("LLAMA_LOG", "QWEN_LOG", "MISTRAL_LOG", "PRIMUS_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tprimat.frameworks.choose", choose)
    monkeypatch.setattr(_local_logs, "REPOSITORY", tmp_path / "clone")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def machine(monkeypatch):
    def become(one: Machine, *, nemo: bool = False) -> None:
        monkeypatch.setattr(platforms, "detect", lambda *_: one)
        find = importlib.util.find_spec

        def spec(name: str, *rest: object) -> object:
            return (object() if nemo else None) if name == "nemo" else find(name, *rest)

        monkeypatch.setattr(importlib.util, "find_spec", spec)

    return become


def options(*words: str):
    return benchmark_options.parser().parse_args(words)


class TestReads:
    @pytest.mark.parametrize("where", [AMD, CPU], ids=["amd", "cpu"])
    def test_the_logs_that_are_here(self, here, machine, capsys, where):
        machine(where)
        put(here / "output" / "training_llama.log", log("llama", name="llama3.1_8B"))
        put(here / "training_qwen.log.gz", log("qwen", name="qwen2.5_7B"))
        assert run("benchmark", []) == 0
        output = capsys.readouterr().out
        assert "nothing is trained" in output
        assert "output/training_llama.log" in output
        assert "found by its name, and the model in the log" in output
        assert "no log of mistral (set MISTRAL_LOG=FILE)" in output
        # Without torch nothing measures here.
        has_torch = importlib.util.find_spec("torch") is not None
        assert (
            "to measure this machine instead: tprimat benchmark --framework " in output
        ) == has_torch
        names = {path.name for path in (here / "output").glob("*.json")}
        assert len(names) == 2

    @pytest.mark.parametrize(
        ("usable", "advised"),
        [(("primus", "lightning"), "primus"), (("fsdp",), "fsdp"), ((), None)],
    )
    def test_c16_what_measures_here_is_advised(
        self, here, machine, capsys, monkeypatch, usable, advised
    ):
        machine(AMD)
        rows = [
            fake_framework(name, reason=None if name in usable else "missing")
            for name in ("primus", "lightning", "fsdp")
        ]
        monkeypatch.setattr(frameworks, "FRAMEWORKS", tuple(rows))
        put(here / "training_llama.log", log("llama", name="llama3.1_8B"))
        assert run("benchmark", []) == 0
        out = " ".join(capsys.readouterr().out.split())
        advice = f"to measure this machine instead: tprimat benchmark --framework {advised}"
        assert (advice in out) if advised else ("to measure this machine" not in out)

    def test_a_real_log(self, here, machine, samples, capsys):
        machine(CPU)
        shutil.copyfile(
            samples / "primus" / "megatron_light_llama31_8B_bf16_50it.log", here / "run1.log"
        )
        assert run("benchmark", ["--model", "llama"]) == 0
        (path,) = (here / "output").glob("*.json")
        assert len(store.read(path)[0].steps) == 50
        assert "found by the model in the log" in capsys.readouterr().out

    def test_those_that_the_environment_names_on_any_machine(self, here, machine, monkeypatch):
        machine(NVIDIA)
        monkeypatch.setenv("LLAMA_LOG", str(put(here / "x.dat", log("llama", name="llama3.1_8B"))))
        assert run("benchmark", ["--model", "llama"]) == 0
        assert list((here / "output").glob("*llama*.json"))

    def test_refuses_a_named_log_of_another_model(self, here, machine, monkeypatch, capsys):
        machine(CPU)
        monkeypatch.setenv("LLAMA_LOG", str(put(here / "x.log", log("qwen", name="qwen2.5_7B"))))
        assert run("benchmark", ["--model", "llama"]) == 2
        assert "--model-name as llama" in capsys.readouterr().err

    def test_a_log_that_cannot_be_read_does_not_stop_the_others(
        self, here, machine, monkeypatch, capsys
    ):
        machine(AMD)
        put(here / "training_llama.log", log("llama", name="llama3.1_8B"))
        broken = put(here / "training_qwen.log", log("qwen", name="qwen2.5_7B"))
        monkeypatch.setenv("QWEN_LOG", str(broken))
        broken.write_text("nothing\n")
        assert run("benchmark", ["--model", "llama,qwen"]) == 2
        assert "no supported training log in it" in capsys.readouterr().err
        assert list((here / "output").glob("*llama*.json"))

    def test_a_dry_run_reads_nothing(self, here, machine, capsys):
        machine(AMD)
        put(here / "training_llama.log", log("llama"))
        assert run("benchmark", ["--dry-run"]) == 0
        assert "nothing was imported" in capsys.readouterr().out
        assert not (here / "output").exists()

    def test_a_bundle_of_what_was_read(self, here, machine):
        machine(AMD)
        put(here / "training_llama.log", log("llama", name="llama3.1_8B"))
        assert run("benchmark", ["--model", "llama", "--bundle", "b.zip"]) == 0
        assert (here / "b.zip").is_file()


class TestMeasures:
    @pytest.mark.parametrize(
        "words",
        [("--framework", "lightning"), ("--scale", "tiny"), ("--precision", "fp32"), ("--match", "r.json"),
         ("--runs", "3"), ("--steps", "5"), ("--gpus", "1"), ("--seed", "3"), ("--cooldown", "0"),
         ("--global-batch-size", "8"), ("--micro-batch-size", "8"), ("--sequence-length", "8")],
        ids=lambda words: words[0],
    )  # fmt: skip
    def test_when_an_option_speaks_of_measuring(self, here, words):
        put(here / "training_llama.log", log("llama"))
        assert _local_logs.import_local_logs(options(*words), AMD) is None

    def test_on_a_machine_with_nvidia(self, here):
        put(here / "training_llama.log", log("llama"))
        assert _local_logs.import_local_logs(options(), NVIDIA) is None

    def test_on_rocm_with_nemo(self, here, machine):
        machine(AMD, nemo=True)
        put(here / "training_llama.log", log("llama"))
        assert _local_logs.import_local_logs(options(), AMD) is None

    def test_on_a_processor_without_logs(self, here):
        put(here / "llama_notes.txt", "llama\n")
        assert _local_logs.import_local_logs(options(), CPU) is None

    def test_the_call_reaches_the_measurement(self, here, machine, monkeypatch, tmp_path):
        machine(CPU)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        with pytest.raises(MeasuringError):
            benchmark.main(options())


class TestOnRocmWithoutLogs:
    """A GPU that can train trains: with Primus where it is installed and suits, else with the
    embedded framework.
    """

    @pytest.fixture
    def rocm(self, tmp_path, monkeypatch):
        for name in (
            "LLAMA_LOG",
            "QWEN_LOG",
            "MISTRAL_LOG",
            "PRIMUS_CONFIG",
            "NNODES",
            "NODE_RANK",
            "GPUS_PER_NODE",
        ):
            monkeypatch.delenv(name, raising=False)
        info = msgspec.structs.replace(AMD.gpu_info, total_memory_gb=206.1, architecture="gfx942")
        monkeypatch.setattr(platforms, "detect", lambda *_: Machine("amd", info, Environment()))
        monkeypatch.setattr(_local_logs, "REPOSITORY", tmp_path / "clone")
        monkeypatch.setenv("PRIMUS_PATH", str(tmp_path / "Primus"))
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize(
        ("words", "with_primus"),
        [
            ((), "primus"),
            (("--model", "llama"), "primus"),
            (("--model", "mistral"), "primus"),
            (("--scale", "tiny"), "lightning"),
            (("--precision", "fp16"), "primus"),
            (("--precision", "fp32"), "lightning"),
        ],
        ids=" ".join,
    )
    def test_measures(self, rocm, tmp_path, capsys, words, with_primus):
        pytest.importorskip("torch")
        assert run("benchmark", ["--dry-run", *words]) == 0
        assert "tprimat.frameworks.lightning.loop" in capsys.readouterr().out
        primus_tree.make(tmp_path / "Primus")
        assert run("benchmark", ["--dry-run", *words]) == 0
        command = {"primus": "run_pretrain.sh", "lightning": "tprimat.frameworks.lightning.loop"}[
            with_primus
        ]
        assert command in capsys.readouterr().out
