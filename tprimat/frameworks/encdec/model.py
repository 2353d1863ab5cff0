"""The encoder-decoder: torch.nn.Transformer between two embeddings and a head, and its optimizer
step.
"""

from __future__ import annotations

import math
import os

import torch
from torch import nn

from tprimat.frameworks.encdec.request import DROPOUT, OPTIMIZER, EncDecRequest
from tprimat.frameworks.loops import recipe
from tprimat.record.ranks import Process


class EncoderDecoder(nn.Module):  # type: ignore[misc]  # untyped here
    """Maps the tokens of a source and a target to the loss of predicting the target's next
    tokens.
    """

    causal: torch.Tensor
    positions: torch.Tensor

    def __init__(self, request: EncDecRequest) -> None:
        super().__init__()
        width = request.d_model
        self.scale = math.sqrt(width)
        self.source_embedding = nn.Embedding(request.vocab_size, width)
        self.target_embedding = nn.Embedding(request.vocab_size, width)
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            d_model=width,
            nhead=request.nhead,
            num_encoder_layers=request.num_encoder_layers,
            num_decoder_layers=request.num_decoder_layers,
            dim_feedforward=request.dim_feedforward,
            dropout=DROPOUT,
            batch_first=True,
        )
        self.head = nn.Linear(width, request.vocab_size)
        self.register_buffer(
            "positions", sinusoids(request.sequence_length, width), persistent=False
        )
        self.register_buffer(
            "causal",
            nn.Transformer.generate_square_subsequent_mask(request.sequence_length),
            persistent=False,
        )
        for embedding in (self.source_embedding, self.target_embedding):
            # Times sqrt(width) in embedded(): of the same size as the positions that are added.
            nn.init.normal_(embedding.weight, std=1 / self.scale)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the mean loss, nats/token.

        Args:
            source: tokens, shape (batch, sequence).
            target: tokens, shape (batch, sequence + 1): the decoder's input, and one more token to
                predict.
        """
        # The hint selects torch's kernel for causal attention instead of one that reads a mask.
        decoded = self.transformer(
            self.embedded(self.source_embedding, source),
            self.embedded(self.target_embedding, target[:, :-1]),
            tgt_mask=self.causal,
            tgt_is_causal=True,
        )
        # cross_entropy needs 64-bit indices; embeddings accept the 32-bit ones of the data.
        return nn.functional.cross_entropy(
            self.head(decoded).flatten(0, 1), target[:, 1:].flatten().long()
        )

    def embedded(self, embedding: nn.Embedding, tokens: torch.Tensor) -> torch.Tensor:
        """Return the embeddings of tokens and positions, shape (batch, sequence, width)."""
        added: torch.Tensor = self.dropout(embedding(tokens) * self.scale + self.positions)
        return added


class Step:
    """One optimizer step of one process, in the requested precision: forward, backward, update."""

    def __init__(self, request: EncDecRequest, process: Process) -> None:
        self._device = device = process.device
        self._source = request.sequence_length
        module: nn.Module = build(request, device)
        # Each process drops other activations.
        torch.manual_seed(request.seed + process.rank)
        if process.world_size > 1:
            module = nn.parallel.DistributedDataParallel(
                module,
                device_ids=[device] if device.type == "cuda" else None,
                gradient_as_bucket_view=True,
            )
        self._module = module
        # The fused kernel unscales gradients itself, so that no step waits for the host to check
        # them.
        self._optimizer = recipe.adamw(module, OPTIMIZER, fused=True)
        self._scaler = torch.amp.GradScaler(device.type, enabled=request.precision == "fp16")
        self._dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(request.precision)
        self._calls = 0

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        """Train on a batch of pairs, shape (batch, 2 × sequence + 1); return the loss, on the
        device.
        """
        tokens = tokens.to(self._device, non_blocking=True)
        source = tokens[:, : self._source]
        target = tokens[:, self._source :]
        with torch.autocast(self._device.type, dtype=self._dtype, enabled=self._dtype is not None):
            loss: torch.Tensor = self._module(source, target)
        self._scaler.scale(loss).backward()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)
        self._calls += 1
        return loss

    def loss_scaling(self) -> tuple[float | None, int | None]:
        """Return the loss scale, and how many steps were skipped because gradients overflowed; None
        without scaling.
        """
        if not self._scaler.is_enabled():
            return None, None
        updates = [float(state["step"]) for state in self._optimizer.state.values()]
        return self._scaler.get_scale(), self._calls - round(max(updates, default=0.0))


def build(request: EncDecRequest, device: torch.device) -> EncoderDecoder:
    """Return the model on a device, in fp32."""
    with recipe.drawing(request.parameters, request.seed, device):
        model = EncoderDecoder(request)
    model.to(device)
    return model


def sinusoids(length: int, width: int) -> torch.Tensor:
    """Return positions as sines and cosines (arXiv 1706.03762, section 3.5), shape (length,
    width).
    """
    position = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10000.0) / width))
    angles = position * rate
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[:, :width]


def set_precision(request: EncDecRequest) -> str:
    """Set the precision of fp32 products; return the whole precision in torch's terms."""
    if request.precision != "fp32":
        name = "float16, with loss scaling" if request.precision == "fp16" else "bfloat16"
        return f"torch.autocast to {name}"
    if request.platform == "cpu":
        return "float32"
    # Some containers set NVIDIA_TF32_OVERRIDE, which turns float32 into TF32.
    torch.set_float32_matmul_precision("highest")
    if os.environ.get("NVIDIA_TF32_OVERRIDE") == "1":
        return "float32, computed in TF32 by NVIDIA_TF32_OVERRIDE"
    return "float32, without TF32"
