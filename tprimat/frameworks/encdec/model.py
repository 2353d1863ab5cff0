"""The encoder-decoder: torch.nn.Transformer between two embeddings and a head."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from tprimat.frameworks.encdec.settings import DROPOUT, Settings, parameters
from tprimat.frameworks.loops.building import LARGEST_FROM_CPU


class EncoderDecoder(nn.Module):  # type: ignore[misc]  # untyped here
    """From tokens of a source and of a target to the loss of predicting the target's next tokens.

    Args:
        settings: the sizes.
    """

    causal: torch.Tensor
    positions: torch.Tensor

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        width = settings.d_model
        self.scale = math.sqrt(width)
        self.source_embedding = nn.Embedding(settings.vocab_size, width)
        self.target_embedding = nn.Embedding(settings.vocab_size, width)
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            d_model=width,
            nhead=settings.nhead,
            num_encoder_layers=settings.num_encoder_layers,
            num_decoder_layers=settings.num_decoder_layers,
            dim_feedforward=settings.dim_feedforward,
            dropout=DROPOUT,
            batch_first=True,
        )
        self.head = nn.Linear(width, settings.vocab_size)
        self.register_buffer("positions", sinusoids(settings.seq_len, width), persistent=False)
        causal = nn.Transformer.generate_square_subsequent_mask(settings.seq_len)
        self.register_buffer("causal", causal, persistent=False)
        for embedding in (self.source_embedding, self.target_embedding):
            # Times sqrt(width) in forward(): of the size of the positions that are added to it.
            nn.init.normal_(embedding.weight, std=1 / self.scale)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The mean loss, nats/token.

        Args:
            source: tokens, shape (batch, seq_len).
            target: tokens, shape (batch, seq_len + 1): what the decoder sees, and one further.
        """
        # With the hint torch takes its kernel for causal attention; without, one that reads a mask.
        decoded = self.transformer(
            self.embedded(self.source_embedding, source),
            self.embedded(self.target_embedding, target[:, :-1]),
            tgt_mask=self.causal,
            tgt_is_causal=True,
        )
        logits = self.head(decoded)
        # Losses take 64-bit indices only, embeddings take the 32-bit ones of the data as they are.
        return nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten().long())

    def embedded(self, embedding: nn.Embedding, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens with their positions, shape (batch, seq_len, width)."""
        added: torch.Tensor = self.dropout(embedding(tokens) * self.scale + self.positions)
        return added


def sinusoids(length: int, width: int) -> torch.Tensor:
    """Positions as sines and cosines (arXiv 1706.03762, section 3.5), shape (length, width)."""
    position = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)[:, : width // 2]
    return table


def build(settings: Settings, device: torch.device) -> EncoderDecoder:
    """The model on a device, in fp32; torch's global generator is left as it was.

    Weights are drawn on the CPU while that takes no long time, so that the same seed gives the same
    ones on every platform.
    """
    drawn_on = device
    if device.type != "meta" and parameters(settings) <= LARGEST_FROM_CPU:
        drawn_on = torch.device("cpu")
    others: list[Any] = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=others), drawn_on:
        torch.manual_seed(settings.seed)
        model = EncoderDecoder(settings)
    model.to(device)
    return model
