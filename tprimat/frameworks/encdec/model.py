"""The encoder-decoder: torch.nn.Transformer between two embeddings and a head."""

from __future__ import annotations

import math

import torch
from torch import nn

from tprimat.frameworks.encdec.settings import DROPOUT, Settings, parameters
from tprimat.frameworks.loops import building


class EncoderDecoder(nn.Module):  # type: ignore[misc]  # untyped here
    """Maps the tokens of a source and a target to the loss of predicting the target's next tokens.

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
            # Times sqrt(width) in embedded(): of the same size as the positions that are added.
            nn.init.normal_(embedding.weight, std=1 / self.scale)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the mean loss, nats/token.

        Args:
            source: tokens, shape (batch, seq_len).
            target: tokens, shape (batch, seq_len + 1): the decoder's input, and one more token to predict.
        """
        # The hint selects torch's kernel for causal attention instead of one that reads a mask.
        decoded = self.transformer(
            self.embedded(self.source_embedding, source),
            self.embedded(self.target_embedding, target[:, :-1]),
            tgt_mask=self.causal,
            tgt_is_causal=True,
        )
        logits = self.head(decoded)
        # cross_entropy needs 64-bit indices; embeddings accept the 32-bit ones of the data.
        return nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten().long())

    def embedded(self, embedding: nn.Embedding, tokens: torch.Tensor) -> torch.Tensor:
        """Return the embeddings of tokens and positions, shape (batch, seq_len, width)."""
        added: torch.Tensor = self.dropout(embedding(tokens) * self.scale + self.positions)
        return added


def sinusoids(length: int, width: int) -> torch.Tensor:
    """Return positions as sines and cosines (arXiv 1706.03762, section 3.5), shape (length, width)."""
    position = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)[:, : width // 2]
    return table


def build(settings: Settings, device: torch.device) -> EncoderDecoder:
    """Return the model on a device, in fp32."""
    with building.drawing(parameters(settings), settings.seed, device):
        model = EncoderDecoder(settings)
    model.to(device)
    return model
