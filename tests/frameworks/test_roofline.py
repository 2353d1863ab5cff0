"""What a GPU should reach, calculated: for every row of the catalogue, and by hand for three."""

from __future__ import annotations

from pathlib import Path

import pytest

from tprimat import frameworks
from tprimat.catalog import gpus
from tprimat.frameworks import roofline
from tprimat.frameworks.request import Device, RequestedConfig

GPUS = {gpu.title: gpu for gpu in gpus.gpus()}


def expected(gpu, memory_bytes=None, **options):
    """Return what is calculated for Llama on one GPU of the catalogue, by the default of the
    embedded training.
    """
    platform = "nvd" if gpu.vendor == "NVIDIA" else "amd"
    device = Device(platform, 1, memory_bytes or 1e9 * gpu.memory_gb, gpu.architecture, gpu.title)
    framework = frameworks.by_name("lightning")
    request, _ = framework.resolve_config(
        "llama", RequestedConfig(**options), device, Path("output")
    )
    return request, roofline.expected(request, gpu)


@pytest.mark.parametrize("title", GPUS)
def test_every_row_has_a_value_that_is_possible(title):
    gpu = GPUS[title]
    request, found = expected(gpu)
    if gpu.peak_tflops(request.precision) is None:
        assert found is None
        return
    assert 0.2 < found.mfu < 1
    assert found.memory_bytes < 1e9 * gpu.memory_gb
    assert request.global_batch_size % found.micro_batch == 0


# By hand, of 16,384 tokens at the scale 1b (1,004 M weights in products, 105 TFLOP per step):
# products at 90% and attention at 45% of 794 and 668 TFLOP/s sustained, 72 + 10.5 + 52 + 6 GB at
# 2.85 and 3.98 TB/s.
@pytest.mark.parametrize(
    ("title", "milliseconds", "mfu"),
    [("H100 SXM", 206, 0.52), ("MI300X", 221, 0.36)],
    ids=["H100", "MI300X"],
)
def test_by_hand(title, milliseconds, mfu):
    _, found = expected(GPUS[title])
    assert 1e3 * found.seconds == pytest.approx(milliseconds, rel=0.02)
    assert found.mfu == pytest.approx(mfu, abs=0.01)
    # 1,135 M parameters of 18 bytes, a context, 8 sequences of 16 layers of 2·(7·2048 + 3·7168)
    # bytes, 1024 logits.
    assert found.memory_bytes == pytest.approx(20.4e9 + 1e9 + 18.8e9 + 0.66e9, rel=0.01)
    assert (found.micro_batch, found.recomputes) == (8, False)


def test_memory_is_what_an_h200_was_seen_to_take():
    _, eight = expected(GPUS["H200 SXM"])
    # 39.9 GB allocated, 41.8 GB in use (docs/measurements.md).
    assert 39.9e9 < eight.memory_bytes < 41.8e9


def test_a_card_of_24_gb_computes_activations_again():
    _, found = expected(GPUS["RTX 4090"])
    assert found.recomputes
    assert "activations computed again" in str(found)
    assert found.mfu < 0.61


@pytest.mark.parametrize("options", [{"eager": True, "micro_batch_size": 1}, {"precision": "fp32"}])
def test_nothing_is_calculated_for_eager_or_fp32_training(options):
    assert expected(GPUS["H100 SXM"], **options)[1] is None
