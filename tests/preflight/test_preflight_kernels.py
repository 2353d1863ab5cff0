"""The operations do what they are counted as."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tprimat.preflight import kernels

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_a_product(precision, dtype):
    kernel = kernels.product(CPU, precision, 8, 16, 32)
    result = kernel.run()
    assert (result.shape, result.dtype) == ((8, 16), dtype)
    assert kernel.work == pytest.approx(2 * 8 * 16 * 32 / 1e12)
    assert kernel.shape == "8×16×32"


def test_streams_are_counted_as_stream_does():
    streams = kernels.streams(CPU, 4000)
    assert {name: kernel.work for name, kernel in streams.items()} == {
        "copy": pytest.approx(8e-6),
        "triad": pytest.approx(12e-6),
    }
    assert streams["triad"].run().tolist() == [4.0] * 1000
    assert streams["copy"].run().tolist() == [1.0] * 1000
