"""What a GPU should reach in the training that is our own program, calculated from its data sheet
before it trains.

Each kind of work takes its FLOPs or bytes over a rate that GPUs of its kind sustain. Launch gaps,
throttling, overlap and communication are not included: a measurement well below it has a cause to
look for. docs/frameworks.md has a table.
"""

from __future__ import annotations

from typing import NamedTuple

from tprimat.analysis.flops import flops_per_token
from tprimat.catalog.gpus import Gpu
from tprimat.frameworks.loops.recipe import shape_of
from tprimat.frameworks.request import Request
from tprimat.frameworks.scales import BYTES_PER_PARAMETER
from tprimat.units import seconds

PRODUCTS, ATTENDED = 0.9, 0.45
"""Share of a GPU's best sustained matrix product that a training's products, and its fused
attention, reach.
"""

SUSTAINED, BANDWIDTH = {"NVIDIA": 0.75, "AMD": 0.6}, {"NVIDIA": 0.85, "AMD": 0.75}
"""Share of its peak that a GPU sustains at best, if it wasn't measured, and of its data sheet's
bandwidth.
"""

HIDDEN_BYTES, WIDTH_BYTES = 64, 20
"""Memory traffic of the other compiled kernels of a layer, forward and backward, for each value of
the hidden state and of the feed-forward part of a token.
"""

LOGIT_BYTES, UPDATE_BYTES, FIRST_GRADIENT_BYTES, GRADIENT_BYTES = 10, 46, 5, 16
"""Of a logit; of a parameter in clipping, AdamW and the BF16 copies, for the gradients of a single
micro-batch, and of each of several that are added up.
"""

CONTEXT_BYTES, COPY_BYTES = 1e9, 2
"""Memory of the driver's context and the libraries' workspaces; and of a parameter's copy that
compiled layers take.
"""

EAGER_HIDDEN, EAGER_WIDTH = 11, 6
COMPILED_HIDDEN, COMPILED_WIDTH = 7, 3
"""Half-precision values that a layer keeps for the backward pass, for each of the hidden state and
of the feed-forward part of a token: autograd's saved tensors, counted on a CPU. An H200 allocates
39.9 GB compiled, as calculated.
"""

CARD_BYTES, SPARE, LOGITS_AT_ONCE = 1.06e9, 0.03, 1024
"""Bytes of a card for each GB of its label, the share that no allocation can use, tokens of the
loss at a time.
"""


class Expected(NamedTuple):
    """What a GPU should reach in a training.

    Attributes:
        seconds: time of a step.
        mfu: from 0 to 1, of the dense peak, with causal attention.
        memory_bytes: at the peak of a step.
        micro_batch: sequences; the largest that fits, if the training chooses it.
        recomputes: whether activations are computed again, as not even one sequence fits otherwise.
    """

    gpu: Gpu
    seconds: float
    mfu: float
    memory_bytes: float
    micro_batch: int
    recomputes: bool

    def __str__(self) -> str:
        memory = f"{self.memory_bytes / 1e9:.0f} of {self.gpu.memory_gb:.0f} GB"
        text = f"{seconds(self.seconds)} per step, MFU {self.mfu:.0%}, {memory}"
        text += f", micro-batch {self.micro_batch}"
        if self.recomputes:
            text += ", activations computed again"
        return text


def expected(request: Request, gpu: Gpu, held_bytes: float = 0.0) -> Expected | None:
    """Return what a GPU should reach where the training suits itself to it; None elsewhere, and for
    an unknown peak.

    `held_bytes` of its memory belong to other processes.
    """
    peak = gpu.peak_tflops(request.precision)
    if not request.finds_micro_batch or request.precision not in ("bf16", "fp16") or peak is None:
        return None
    shape = shape_of(request)
    length = request.sequence_length
    layers = shape.num_layers or 0
    all_flops = flops_per_token(shape, length, causal=False)
    causal = flops_per_token(shape, length)
    if all_flops is None or causal is None or not shape.num_parameters:
        return None
    sustained = 1e12 * (gpu.sustained_bf16_tflops or SUSTAINED.get(gpu.vendor, 0.6) * peak)
    tokens = request.global_batch_size * length // request.num_gpus
    hidden = shape.hidden_size or 0
    width = shape.ffn_hidden_size or 0
    weights = shape.num_parameters
    states = weights * (BYTES_PER_PARAMETER + COPY_BYTES)
    logits = min(LOGITS_AT_ONCE, tokens) * (shape.vocab_size or 0) * LOGIT_BYTES

    def memory(sequences: int, values: float) -> float:
        """Return the bytes at the peak if a number of half-precision values per token is kept."""
        return CONTEXT_BYTES + states + logits + 2 * values * sequences * length

    # The training tries eager layers first, which keep the most.
    eager = EAGER_HIDDEN * hidden + EAGER_WIDTH * width
    compiled = COMPILED_HIDDEN * hidden + COMPILED_WIDTH * width
    replica = tokens // length
    room = (1 - SPARE) * (CARD_BYTES * gpu.memory_gb - held_bytes)
    sizes = [size for size in range(replica, 0, -1) if replica % size == 0]
    again = layers * hidden + eager
    tries = [(size, values) for values in (layers * eager, again) for size in sizes]
    micro, values = next((fitting for fitting in tries if memory(*fitting) <= room), tries[-1])
    recomputes = values == again
    attended = tokens * (all_flops - causal)
    products = tokens * causal - attended
    if recomputes:
        # The forward pass, a third of the work, is done twice.
        attended = attended * 4 / 3
        products = products * 4 / 3
    batches = tokens // (micro * length)
    of_gradients = FIRST_GRADIENT_BYTES if batches == 1 else GRADIENT_BYTES * batches
    of_layers = layers * (HIDDEN_BYTES * hidden + WIDTH_BYTES * width)
    traffic = tokens * (of_layers + LOGIT_BYTES * (shape.vocab_size or 0))
    traffic += weights * (UPDATE_BYTES + of_gradients)
    bandwidth = 1e9 * gpu.bandwidth_gb_per_s * BANDWIDTH.get(gpu.vendor, 0.75)
    time = products / (PRODUCTS * sustained) + attended / (ATTENDED * sustained)
    time += traffic / bandwidth
    needed = memory(micro, again if recomputes else layers * compiled)
    return Expected(gpu, time, tokens * causal / time / (1e12 * peak), needed, micro, recomputes)
