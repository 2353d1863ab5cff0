"""`benchmark --model encdec`: when it is meant, what is refused, and a training from the command's
own processes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tprimat import cli
from tprimat.cli import _encdec as encdec
from tprimat.cli._encdec import requested_config
from tprimat.cli.options import encdec as options
from tprimat.cli.options.benchmark import is_meant, own_options
from tprimat.errors import UsageError
from tprimat.results.run import GpuInfo, Run
from tprimat.store import store
from tprimat.store.naming import file_name

TORCHRUN = {"RANK": "0", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "none"}
SMALL = (
    *("--d-model", "16", "--nhead", "2", "--num-encoder-layers", "1", "--num-decoder-layers", "1"),
    *("--dim-feedforward", "32", "--seq-len", "8", "--vocab-size", "50", "--batch-size", "4"),
)


def parse(argv):
    return options.parser().parse_args(argv)


def requested(argv):
    return requested_config(parse(argv))


class TestMeant:
    def test_options_that_no_other_model_has(self):
        assert {
            "--batch-size",
            "--epochs",
            "--single",
            "--disk",
            "--bf16",
            "--no-amp",
        } <= own_options()
        assert not own_options() & {"--model", "--runs", "--gpus", "--seed", "--label", "--help"}

    @pytest.mark.parametrize("flag", sorted(own_options()))
    def test_any_of_them_without_a_model(self, flag):
        assert is_meant([flag], {})
        assert is_meant(["--runs", "2", f"{flag}=3"], {})
        assert not is_meant(["--model", "llama", flag, "3"], {})

    @pytest.mark.parametrize("argv", [["--model", "encdec"], ["--model=ENCDEC", "--runs", "2"]])
    def test_by_its_name(self, argv):
        assert is_meant(argv, {})

    @pytest.mark.parametrize(
        "argv", [[], ["--runs", "3"], ["--model", "all"], ["--model=llama,qwen"], ["--model"]]
    )
    def test_other_models(self, argv):
        assert not is_meant(argv, {})

    def test_several_processes_without_a_word(self):
        assert is_meant([], TORCHRUN)
        assert not is_meant([], {"RANK": "0", "WORLD_SIZE": "1"})

    @pytest.mark.parametrize(
        "argv", [["--model", "encdec,llama"], ["--model", "encdec", "--model=qwen"]]
    )
    def test_not_beside_others(self, argv):
        with pytest.raises(UsageError, match="use only --model encdec"):
            is_meant(argv, {})

    def test_torchrun_starts_no_other_model(self):
        with pytest.raises(UsageError, match="without torchrun"):
            is_meant(["--model", "llama"], TORCHRUN)


class TestOptions:
    def test_as_typed_by_its_users(self):
        config = requested(["--disk", "--batch-size", "64", "--d-model", "1024", "--nhead", "16"])
        assert (config.micro_batch_size, config.d_model, config.nhead) == (64, 1024, 16)
        assert config.data_dir == Path.cwd() / "data"
        assert parse([]).output_dir == Path("results")
        assert requested(["--data-dir", "/mnt/ssd/data"]).data_dir == Path("/mnt/ssd/data")
        assert requested(["--single"]).num_gpus == 1
        assert requested(["--full"]).full

    def test_every_size(self):
        argv = [
            "--num-encoder-layers=5",
            "--num-decoder-layers=6",
            "--dim-feedforward=7",
            "--vocab-size=8",
        ]
        wishes = requested(
            [*argv, "--seq-len=9", "--epochs=10", "--warmup-epochs=0", "--num-samples=12"]
        )
        assert (wishes.num_encoder_layers, wishes.num_decoder_layers, wishes.dim_feedforward) == (
            5,
            6,
            7,
        )
        assert (wishes.vocab_size, wishes.sequence_length, wishes.epochs, wishes.warmup_epochs) == (
            8,
            9,
            10,
            0,
        )
        assert wishes.num_samples == 12

    def test_the_disk(self):
        wishes = requested(["--disk", "--num-shards", "3", "--workers", "2", "--drop-caches"])
        assert (wishes.num_shards, wishes.workers, wishes.drop_caches) == (3, 2, True)

    @pytest.mark.parametrize(
        ("argv", "precision"),
        [
            ([], None),
            (["--bf16"], "bf16"),
            (["--no-amp"], "fp32"),
            (["--precision", "fp16"], "fp16"),
        ],
    )
    def test_precision(self, argv, precision):
        assert requested(argv).precision == precision

    def test_the_session(self):
        argv = [
            "--runs",
            "3",
            "--cooldown",
            "5",
            "--time-limit",
            "2m",
            "--label",
            "a b",
            "--dry-run",
        ]
        session, config = parse(argv), requested(argv)
        assert (session.runs, session.cooldown, session.dry_run) == (3, 5.0, True)
        assert (config.time_limit_s, config.label) == (120.0, "a b")

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["--nhead", "5"], "--nhead 5 does not divide --d-model 128: choose 4 or 8"),
            (["--bf16", "--no-amp"], "not allowed with"),
            (["--epochs", "0"], "must be at least 1"),
            (["--batch-size", "many"], "not a whole number"),
            (["--vocab-size", "1"], "must be at least 2"),
            (["--seed", "9" * 18 + "9"], "not a whole number"),
            (["--single", "--gpus", "4"], "contradict each other"),
            (["--model", "llama"], "./benchmark.py --model llama"),
            (["--drop-caches"], "add --disk or --data-dir PATH"),
            (["--no-such"], "unrecognized arguments: --no-such"),
        ],
    )
    def test_refused_with_a_hint(self, argv, said):
        with pytest.raises(UsageError) as refused:
            requested(argv)
        assert said in refused.value.message
        lines = refused.value.line().splitlines()
        assert [line.partition(":")[0] for line in lines] in (
            ["error", "hint"],
            ["error", "see"],
            ["error", "hint", "see"],
        )


class TestRanks:
    @pytest.fixture(autouse=True)
    def _two(self, monkeypatch):
        monkeypatch.setattr(cli, "FIRST_ERROR_S", 0.0)
        for name, value in {
            "RANK": "1",
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "x",
            "MASTER_PORT": "1",
        }.items():
            monkeypatch.setenv(name, value)

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["--single"], "torchrun --nproc_per_node=1"),
            (["--gpus", "4"], "2 processes were started"),
            (["--epochs", "1", "--runs", "2"], "starts its own processes"),
            (["--epochs", "1", "--dry-run"], "without torchrun"),
        ],
    )
    def test_what_torchrun_has_said_already(self, argv, said, monkeypatch):
        monkeypatch.setenv("LOCAL_RANK", "0")
        with pytest.raises(UsageError) as refused:
            encdec.measure(parse(argv))
        assert said in refused.value.message

    def test_one_process_of_a_machine_speaks(self, monkeypatch, capsys):
        monkeypatch.setenv("LOCAL_RANK", "1")
        assert cli.run("benchmark", ["--nhead", "5"]) == 2
        assert cli.run("benchmark", ["--epochs", "0"]) == 2
        assert capsys.readouterr() == ("", "")


class TestFileName:
    def name(self, **fields):
        return file_name(Run(model="encdec", timestamp="2026-11-21T10:05:38+00:00", **fields))

    def test_says_gpu_number_and_time(self):
        h100 = GpuInfo(device_name="NVIDIA H100 80GB HBM3", device_count=8)
        assert self.name(platform="nvd", gpu_info=h100) == "bench_H100_8gpu_20261121_100538.json"
        assert self.name(
            platform="cpu", gpu_info=GpuInfo(device_name="AMD EPYC", device_count=1)
        ) == ("bench_cpu_1gpu_20261121_100538.json")

    def test_a_label_comes_last(self):
        mi300x = GpuInfo(device_name="AMD Instinct MI300X", device_count=4)
        assert self.name(platform="amd", gpu_info=mi300x, label="night run").endswith(
            "_100538_night-run.json"
        )


class TestForReal:
    @pytest.fixture(autouse=True)
    def _torch(self):
        pytest.importorskip("torch")

    def start(self, repository, folder, *argv, **options):
        return subprocess.run(
            [sys.executable, str(repository / "benchmark.py"), *argv],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=110,
            **options,
        )

    def test_with_the_disk_twice(self, repository, tmp_path):
        argv = (
            "--disk",
            "--num-samples",
            "40",
            "--epochs",
            "1",
            "--runs",
            "2",
            "--label",
            "two",
            *SMALL,
        )
        done = self.start(repository, tmp_path, *argv)
        assert done.returncode == 0, done.stderr
        assert "writing 1 shard" in done.stdout
        assert done.stdout.count("samples/s, ") >= 4
        assert re.search(r"Next:    python3 \S+/__main__\.py compare results\n", done.stdout)
        paths = sorted((tmp_path / "results").glob("bench_cpu_1gpu_*_two.json"))
        assert len(paths) in (1, 2)
        runs = [run for path in paths for run in store.read(path)]
        assert len(runs) == 2
        assert {run.status for run in runs} == {"complete"}
        assert len(list((tmp_path / "results" / "logs").glob("encdec_*.log"))) == 2

    def test_a_dry_run_changes_nothing(self, repository, tmp_path):
        done = self.start(repository, tmp_path, "--disk", "--epochs", "1", "--dry-run")
        assert done.returncode == 0, done.stderr
        shown = " ".join(done.stdout.replace("\\\n", "").split())
        assert "-m tprimat.frameworks.encdec.loop --framework=pytorch --platform=" in shown
        assert done.stdout.endswith("Nothing was run.\n")
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_takes_no_result(self, repository, tmp_path):
        (tmp_path / "results").write_text("")
        done = self.start(repository, tmp_path, "--epochs", "1", *SMALL)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")
        assert "choose another --output-dir" in done.stderr

    @pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX's")
    def test_interrupted_it_keeps_what_there_is(self, repository, tmp_path):
        argv = ("--num-samples", "40", "--epochs", "1000000", *SMALL)
        child = subprocess.Popen(
            [sys.executable, str(repository / "benchmark.py"), *argv],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            for line in child.stdout:
                if "epoch 2 " in line:
                    break
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=300)
        finally:
            # Its guard ends the training with it.
            child.kill()
        assert child.returncode == 5
        assert "interrupted; partial results saved (status: incomplete)" in errors
        (path,) = (tmp_path / "results").glob("bench_cpu_1gpu_*.json")
        (run,) = store.read(path)
        assert run.status == "incomplete"
        assert sum(run.window_steps) >= 20
