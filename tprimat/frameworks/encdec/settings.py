"""One training of the encoder-decoder, with every choice made."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tprimat.frameworks.arguments import AsArguments
from tprimat.frameworks.encdec.pairs import Pairs
from tprimat.results.run import ModelConfig, Optimizer, Platform

MODEL = "encdec"
FRAMEWORK = "pytorch"

DROPOUT = 0.1
"""The default of torch's nn.Transformer and of arXiv 1706.03762, section 5.4."""

OPTIMIZER = Optimizer(
    name="AdamW",
    learning_rate=1e-4,
    schedule="constant",
    beta1=0.9,
    beta2=0.98,
    epsilon=1e-8,
    weight_decay=0.01,
)


@dataclasses.dataclass(frozen=True)
class Settings(AsArguments):
    """A training with every choice made.

    Attributes:
        platform: nvd, amd or cpu.
        num_gpus: processes that train; one for each GPU, or on the CPU.
        precision: fp32, bf16 or fp16, of the matrix products; weights are fp32 in all of them.
        num_samples: sequence pairs of the data set; those that fill no whole step at the end aren't trained on.
        output_dir: folder for the result, absolute.
        d_model, nhead, num_encoder_layers, num_decoder_layers, dim_feedforward: as torch.nn.Transformer's.
        vocab_size: of source and target, which have an embedding each.
        seq_len: tokens of a source, and of a target.
        batch_size: sequence pairs of a process in a step.
        epochs: that are measured.
        warmup_epochs: before them, recorded but not measured.
        seed: of weights, dropout and data.
        data_dir: folder of the shards, absolute; None for data made in memory.
        num_shards: how many; 0 without data_dir.
        workers: reading processes of each training one; 0 without data_dir.
        drop_caches: whether the shards are dropped from the page cache before each epoch.
        data_checked: whether the parent process has written or checked the shards.
        time_limit_s: seconds for all epochs, after which the training ends early; None for no limit.
        label: the user's name for this setup, or None.
    """

    explicit = True

    platform: Platform
    num_gpus: int
    precision: str
    num_samples: int
    output_dir: Path
    d_model: int = 128
    nhead: int = 4
    num_encoder_layers: int = 3
    num_decoder_layers: int = 3
    dim_feedforward: int = 512
    vocab_size: int = 5480
    seq_len: int = 128
    batch_size: int = 32
    epochs: int = 3
    warmup_epochs: int = 1
    seed: int = 1234
    data_dir: Path | None = None
    num_shards: int = 0
    workers: int = 0
    drop_caches: bool = False
    data_checked: bool = False
    time_limit_s: float | None = None
    label: str | None = None

    @property
    def pairs(self) -> Pairs:
        """The training data."""
        return Pairs(self.vocab_size, self.seq_len, self.seed)

    @property
    def effective_batch(self) -> int:
        """Sequence pairs of one optimizer step, over all processes."""
        return self.batch_size * self.num_gpus

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of an epoch."""
        return self.num_samples // self.effective_batch

    @property
    def samples_per_epoch(self) -> int:
        """Sequence pairs that an epoch trains on."""
        return self.steps_per_epoch * self.effective_batch

    @property
    def all_epochs(self) -> int:
        """Warm-up and measured epochs."""
        return self.warmup_epochs + self.epochs

    @property
    def scale(self) -> str:
        """The sizes of the model as a name, which another shape doesn't have."""
        return (
            f"d{self.d_model}-h{self.nhead}-e{self.num_encoder_layers}-d{self.num_decoder_layers}"
            f"-f{self.dim_feedforward}-v{self.vocab_size}"
        )

    def shape(self) -> ModelConfig:
        """Return the model's shape as a result states it."""
        return ModelConfig(
            num_layers=self.num_decoder_layers,
            num_encoder_layers=self.num_encoder_layers,
            hidden_size=self.d_model,
            num_attention_heads=self.nhead,
            num_query_groups=self.nhead,
            head_dim=self.d_model // self.nhead,
            ffn_hidden_size=self.dim_feedforward,
            vocab_size=self.vocab_size,
            tie_word_embeddings=False,
            gated_ffn=False,
            num_parameters=parameters(self),
            source="the command's options",
        )


def parameters(settings: Settings) -> int:
    """Return the number of the model's parameters, in closed form.

    With d the width, f the inner one, V the vocabulary: an attention has 4 d² + 4 d, a feed-forward
    part 2 d f + f + d, a norm 2 d. An encoder layer has one attention and two norms, a decoder layer
    two and three; both stacks end with a norm. Two embeddings V d, a head V d + V.
    """
    d, f, v = settings.d_model, settings.dim_feedforward, settings.vocab_size
    attention, feed_forward, norm = 4 * d * d + 4 * d, 2 * d * f + f + d, 2 * d
    return (
        settings.num_encoder_layers * (attention + feed_forward + 2 * norm)
        + settings.num_decoder_layers * (2 * attention + feed_forward + 3 * norm)
        + 2 * norm
        + 3 * v * d
        + v
    )
