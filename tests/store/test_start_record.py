"""The record of a start, and what a log's run gets from it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from stored_runs import notes_of

from tprimat.errors import UnreadableError
from tprimat.results.run import (
    Environment,
    GpuInfo,
    ModelConfig,
    ParallelismConfig,
    Run,
    Source,
    TrainingConfig,
)
from tprimat.store import start_record
from tprimat.store.start_record import StartRecord

RECORD = StartRecord(
    experiment="tprimat_llama_bf16_20260511_025955_77_1",
    started="2026-05-11T02:59:55+02:00",
    platform="amd",
    gpu_info=GpuInfo(
        device_name="AMD Instinct MI300X", device_count=8, total_memory_gb=206.1, software_stack="rocm",
        software_version="7.1", pytorch_version="2.10.0", architecture="gfx942",
    ),
    environment=Environment(versions={"rccl": "2.27.3", "primus": "fd1eeabb", "driver": "amdgpu 6.16"}, hostname="a"),
    model="llama",
    scale="full",
    model_config=ModelConfig(num_layers=32, hidden_size=4096),
    training_config=TrainingConfig(
        max_steps=10, global_batch_size=128, micro_batch_size=2, sequence_length=8192, num_gpus=8, precision="bf16"
    ),
    parallelism_config=ParallelismConfig(tensor_model_parallel_size=1),
    command=("bash", "examples/run_pretrain.sh"),
)  # fmt: skip


def run(**fields) -> Run:
    known = {
        "platform": "amd",
        "framework": "primus",
        "model": "llama",
        "model_config": ModelConfig(num_layers=32),
        "gpu_info": GpuInfo(device_count=8, total_memory_gb=206.14, software_stack="rocm"),
        "source": Source(kind="log"),
    }
    return Run(**{**known, **fields})


class TestFile:
    @pytest.mark.parametrize(
        "name", ["training_llama.log", "training_llama.log.gz", "training_llama.txt.zst"]
    )
    def test_stands_beside_the_log(self, name):
        assert start_record.path_for(Path("output") / name) == Path(
            "output/training_llama.env.json"
        )

    def test_round_trip(self, tmp_path):
        path = tmp_path / "a.env.json"
        path.write_bytes(start_record.encode(RECORD))
        assert start_record.read(path) == RECORD
        assert "null" not in path.read_text()

    def test_none_and_another_file(self, tmp_path):
        assert start_record.read(tmp_path / "a.env.json") is None
        (tmp_path / "a.env.json").write_text('{"started": 3}')
        with pytest.raises(UnreadableError, match="not a start record"):
            start_record.read(tmp_path / "a.env.json")

    def test_belongs_to_the_log_that_names_it(self):
        head = [f"$ env PRIMUS_EXP_NAME={RECORD.experiment} bash examples/run_pretrain.sh"]
        assert start_record.belongs(RECORD, head)
        other = ["$ env PRIMUS_EXP_NAME=tprimat_llama_bf16_x"]
        assert not start_record.belongs(RECORD, other)
        assert not start_record.belongs(RECORD, [])


class TestApplied:
    def test_the_machine_is_the_one_that_trained(self):
        told = start_record.applied(run(), RECORD)
        assert told.gpu_info.device_name == "AMD Instinct MI300X"
        assert told.gpu_info.software_version == "7.1"
        assert told.gpu_info.pytorch_version == "2.10.0"
        assert told.environment.versions["rccl"] == "2.27.3"
        assert told.environment.versions["primus"] == "fd1eeabb"
        assert told.timestamp == "2026-05-11T02:59:55+02:00"
        assert told.source.command == RECORD.command

    def test_the_logs_own_word_goes_first(self):
        told = start_record.applied(
            run(
                environment=Environment(hostname="b", versions={"megatron-core": "0.16"}),
                training_config=TrainingConfig(sequence_length=4096),
                timestamp="2026-05-11T00:00:00+00:00",
            ),
            RECORD,
        )
        assert told.gpu_info.total_memory_gb == 206.14
        assert told.environment.hostname == "b"
        assert told.environment.versions["megatron-core"] == "0.16"
        assert told.training_config.sequence_length == 4096
        assert told.timestamp == "2026-05-11T00:00:00+00:00"

    def test_what_the_log_leaves_open_is_as_configured_and_said(self):
        told = start_record.applied(run(), RECORD)
        assert told.training_config.sequence_length == 8192
        assert told.parallelism_config.tensor_model_parallel_size == 1
        (warning,) = told.warnings
        assert "from the record of the start" in warning
        assert "sequence length 8192" in warning

    def test_a_batch_that_the_lines_leave_open_stays_so(self):
        assert start_record.applied(run(), RECORD).training_config.global_batch_size is None

    def test_the_log_of_the_last_machine_has_no_dump(self):
        told = start_record.applied(run(model=None, model_config=ModelConfig()), RECORD)
        assert (told.model, told.scale, told.model_config.num_layers) == ("llama", "full", 32)
        other = start_record.applied(run(model="mixtral", model_config=ModelConfig()), RECORD)
        assert (other.model, other.model_config.num_layers) == ("mixtral", None)

    def test_warnings_that_are_answered_go(self):
        doubts = (
            "timestamp unknown: the log begins at 2026-05-11 02:59:55, of no time zone",
            "the log doesn't state the GPU's name and the versions of ROCm and PyTorch",
            "GPU memory of 191.98 GiB matches: MI300X, MI308X",
            "no loss is printed at iteration 3",
        )
        told = start_record.applied(run(notes=notes_of(*doubts)), RECORD)
        assert [warning for warning in told.warnings if warning in doubts] == [
            "no loss is printed at iteration 3"
        ]

    def test_without_a_gpu_in_the_record_the_doubt_stays(self):
        doubt = "the log doesn't state the GPU's name and the versions of ROCm and PyTorch"
        blind = msgspec.structs.replace(RECORD, gpu_info=GpuInfo())
        assert doubt in start_record.applied(run(notes=notes_of(doubt)), blind).warnings

    def test_a_record_of_another_machine_is_left_out(self):
        told = start_record.applied(
            run(gpu_info=GpuInfo(device_name="AMD Instinct MI325X")), RECORD
        )
        assert told.gpu_info == GpuInfo(device_name="AMD Instinct MI325X")
        assert told.environment == Environment()
        assert "the record beside the log ignored" in told.warnings[-1]
