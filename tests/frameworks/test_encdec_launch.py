"""The encoder-decoder's choices where the user leaves them open, its refusals, and its command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tprimat.errors import UsageError
from tprimat.frameworks.encdec import launch as encdec
from tprimat.frameworks.encdec.request import EncDecRequest, RequestedEncDec
from tprimat.frameworks.request import Device

CPU = Device("cpu", 2, 25.3e9)
H100S = Device("nvd", 8, 85.02e9, "sm_90")
MI300X = Device("amd", 1, 206.1e9, "gfx942")
V100 = Device("nvd", 1, 34.1e9, "sm_70")
FOLDER = Path("/out")


def resolved(device, **options):
    return encdec.resolve_config(RequestedEncDec(**options), device, FOLDER)[0]


def refusal(device, **options):
    with pytest.raises(UsageError) as refused:
        resolved(device, **options)
    return refused.value.message


class TestDefaults:
    def test_on_a_cpu(self):
        settings = resolved(CPU)
        assert (settings.precision, settings.num_gpus, settings.num_samples) == ("fp32", 1, 1024)
        assert (settings.data_dir, settings.num_shards, settings.workers) == (None, 0, 0)

    @pytest.mark.parametrize(("device", "gpus"), [(H100S, 8), (MI300X, 1), (V100, 1)])
    def test_on_gpus(self, device, gpus):
        settings = resolved(device)
        assert (settings.precision, settings.num_gpus, settings.num_samples) == (
            "fp16",
            gpus,
            65_536,
        )
        assert settings.global_batch_size == 32 * gpus

    def test_the_default_model(self):
        settings = resolved(CPU)
        assert (
            settings.d_model,
            settings.nhead,
            settings.dim_feedforward,
            settings.vocab_size,
        ) == (128, 4, 512, 5480)
        assert (
            settings.num_encoder_layers,
            settings.num_decoder_layers,
            settings.warmup_epochs,
        ) == (3, 3, 1)

    def test_an_epoch_has_at_least_one_step(self):
        assert resolved(H100S, micro_batch_size=10_000).num_samples == 80_000


class TestRequested:
    def test_full_is_some_30_gigabytes(self):
        settings = resolved(H100S, full=True, data_dir=Path("/data"))
        assert settings.num_samples * (2 * 128 + 1) * 4 == pytest.approx(30e9, rel=1e-6)
        assert settings.num_shards == 235

    def test_data_on_disk(self):
        settings = resolved(
            H100S, data_dir=Path("/data"), num_samples=1000, micro_batch_size=4, workers=3
        )
        assert (settings.num_shards, settings.workers) == (1, 3)
        assert resolved(CPU, data_dir=Path("/data"), num_shards=7).num_shards == 7
        assert resolved(CPU, data_dir=Path("/data")).workers == 1

    def test_a_last_part_of_a_step_is_left_out_and_noted(self):
        settings, notes = encdec.resolve_config(
            RequestedEncDec(num_samples=1000, micro_batch_size=48), CPU, FOLDER
        )
        # What lies on disk doesn't depend on the batch.
        assert (settings.num_samples, settings.samples_per_epoch) == (1000, 960)
        assert notes == (
            (
                "an epoch is 960 samples, not 1,000: the last 40 do not fill a step of 48"
                " (--batch-size 48 × 1 process)"
            ),
        )

    @pytest.mark.parametrize(
        ("precision", "device"), [("bf16", CPU), ("bf16", H100S), ("bf16", MI300X), ("fp32", V100)]
    )
    def test_precision(self, precision, device):
        assert resolved(device, precision=precision).precision == precision


class TestRefused:
    @pytest.mark.parametrize(
        ("sizes", "message"),
        [
            ({"nhead": 5}, "--nhead 5 does not divide --d-model 128: choose 4 or 8"),
            ({"nhead": 7, "d_model": 96}, "choose 6 or 8"),
            ({"nhead": 200}, "choose 128"),
        ],
    )
    def test_heads_that_do_not_divide_the_width(self, sizes, message):
        assert message in refusal(CPU, **sizes)

    @pytest.mark.parametrize("option", [{"num_shards": 3}, {"workers": 2}, {"drop_caches": True}])
    def test_options_of_a_disk_without_one(self, option):
        assert "add --disk or --data-dir PATH" in refusal(CPU, **option)

    def test_two_sizes_of_the_data(self):
        assert "contradict each other" in refusal(CPU, full=True, num_samples=5)

    def test_less_than_a_step(self):
        assert "choose 64 or more" in refusal(H100S, num_samples=63, micro_batch_size=8)

    def test_more_shards_than_samples(self):
        assert "choose 40 or fewer" in refusal(
            CPU, data_dir=Path("/d"), num_samples=40, num_shards=41
        )

    def test_more_processes_than_the_machine_has_room_for(self):
        assert "8 GPUs: --gpus 8 is the most" in refusal(H100S, num_gpus=9)
        assert "2 CPU cores for its processes: --gpus 2 is the most" in refusal(CPU, num_gpus=3)

    def test_a_precision_that_the_machine_lacks(self):
        assert "FP16 needs a GPU" in refusal(CPU, precision="fp16")
        assert "this one is sm_70" in refusal(V100, precision="bf16")

    def test_a_model_that_does_not_fit(self):
        large = {"d_model": 2048, "nhead": 32, "num_encoder_layers": 24, "num_decoder_layers": 24}
        assert resolved(H100S, dim_feedforward=8192, **large).d_model == 2048
        assert "2,853.8 M parameters takes 45.66 GB" in refusal(V100, dim_feedforward=8192, **large)


class TestCommand:
    def test_one_process(self):
        launch = encdec.LAUNCHER.launch(resolved(CPU))
        assert launch.argv[:3] == (sys.executable, "-m", "tprimat.frameworks.encdec.loop")
        assert EncDecRequest.from_arguments(launch.argv[3:]) == resolved(CPU)

    def test_several_are_started_by_torchrun(self):
        launch = encdec.LAUNCHER.launch(resolved(H100S))
        assert launch.argv[1:5] == (
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=8",
        )
        assert "OMP_NUM_THREADS" not in launch.env

    def test_on_a_cpu_they_share_the_cores(self, monkeypatch):
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        assert int(encdec.LAUNCHER.launch(resolved(CPU, num_gpus=2)).env["OMP_NUM_THREADS"]) >= 1
