"""Durations and sizes of the measurements of a preflight."""

from __future__ import annotations

import dataclasses

from tprimat.results.run import Platform

MIB, GIB = 2**20, 2**30

Shape = tuple[int, int, int]


@dataclasses.dataclass(frozen=True)
class Plan:
    """Durations and sizes.

    Attributes:
        precisions: those of the matrix products.
        shapes: those of the products; the rate of the fastest one is the sustained rate.
        probe_s, product_s: seconds for each shape, and for the fastest one.
        stream_s, transfer_s: seconds for each copy, and for each direction between host and device.
        array_bytes: size of each array of a copy; transfer_bytes: size of each transfer.
        messages: sizes of all-reduces, bytes; message_s: seconds for each.
        file_bytes: written to the disk.
    """

    precisions: tuple[str, ...]
    shapes: tuple[Shape, ...]
    probe_s: float
    product_s: float
    stream_s: float
    transfer_s: float
    array_bytes: int
    transfer_bytes: int
    messages: tuple[int, ...]
    message_s: float
    file_bytes: int

    def seconds(self, processes: int) -> float:
        """Return about how long the measurements take, without starting the processes, s."""
        products = len(self.precisions) * (len(self.shapes) * self.probe_s + self.product_s)
        messages = len(self.messages) * self.message_s if processes > 1 else 0.0
        return products + 2 * self.stream_s + 2 * self.transfer_s + messages


def _squares(*sizes: int) -> tuple[Shape, ...]:
    return tuple((size, size, size) for size in sizes)


def _powers(least: int, most: int, step: int) -> tuple[int, ...]:
    return tuple(2**power for power in range(least, most + 1, step))


_ON_GPU = Plan(
    precisions=("fp32", "tf32", "bf16", "fp16", "fp8"),
    # The last ones are feed-forward layers of Llama 3.1 8B and 70B for 8192 tokens.
    shapes=(*_squares(4096, 8192, 16384), (8192, 14336, 4096), (8192, 28672, 8192)),
    probe_s=0.5,
    product_s=15.0,
    stream_s=3.0,
    transfer_s=3.0,
    array_bytes=GIB,
    transfer_bytes=256 * MIB,
    messages=_powers(10, 30, 2),
    message_s=0.5,
    file_bytes=1024 * MIB,
)
_QUICK_ON_GPU = dataclasses.replace(
    _ON_GPU,
    shapes=(*_squares(4096, 8192), (8192, 14336, 4096)),
    probe_s=0.2,
    product_s=2.0,
    stream_s=0.5,
    transfer_s=0.5,
    messages=_powers(12, 30, 4),
    message_s=0.1,
    file_bytes=64 * MIB,
)
_ON_CPU = dataclasses.replace(
    _ON_GPU,
    precisions=("fp32", "bf16"),
    shapes=_squares(512, 1024, 2048),
    transfer_s=0.0,
    array_bytes=256 * MIB,
    messages=_powers(10, 26, 2),
)
_QUICK_ON_CPU = dataclasses.replace(
    _QUICK_ON_GPU,
    precisions=_ON_CPU.precisions,
    shapes=_squares(512, 1024),
    transfer_s=0.0,
    array_bytes=64 * MIB,
    messages=_powers(12, 26, 4),
)


def plan_of(platform: Platform, *, quick: bool) -> Plan:
    """Return the plan for a platform."""
    if platform == "cpu":
        return _QUICK_ON_CPU if quick else _ON_CPU
    return _QUICK_ON_GPU if quick else _ON_GPU
