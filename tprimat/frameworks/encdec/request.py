"""A training of the encoder-decoder: the user's options, and the request with every choice made."""

from __future__ import annotations

import bisect
import dataclasses
import functools
from pathlib import Path
from typing import Any

from tprimat.errors import UsageError
from tprimat.frameworks.encdec.pairs import Pairs
from tprimat.frameworks.request import Request, RequestedConfig
from tprimat.results.run import ModelConfig, Optimizer

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

refused = functools.partial(UsageError, heading="encoder-decoder")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What the options and the request have in common; sizes of the model are named as
    torch.nn.Transformer's.

    Attributes:
        vocab_size: that of source and target, which have an embedding each.
        epochs: that are measured.
        warmup_epochs: before them, recorded but not measured.
        data_dir: directory of the shards, absolute; None for data made in memory.
        drop_caches: whether the shards are dropped from the page cache before each epoch.
    """

    d_model: int = 128
    nhead: int = 4
    num_encoder_layers: int = 3
    num_decoder_layers: int = 3
    dim_feedforward: int = 512
    vocab_size: int = 5480
    epochs: int = 3
    warmup_epochs: int = 1
    data_dir: Path | None = None
    drop_caches: bool = False

    @property
    def all_epochs(self) -> int:
        """Warm-up and measured epochs."""
        return self.warmup_epochs + self.epochs

    @property
    def sizes(self) -> str:
        """The sizes of the model as a name, which another shape doesn't have."""
        return (
            f"d{self.d_model}-h{self.nhead}-e{self.num_encoder_layers}-d{self.num_decoder_layers}"
            f"-f{self.dim_feedforward}-v{self.vocab_size}"
        )

    @property
    def parameters(self) -> int:
        """The number of the model's parameters, in closed form.

        With d the width, f the inner one, V the vocabulary: an attention has 4 d² + 4 d, a
            feed-forward part
        2 d f + f + d, a norm 2 d. An encoder layer has one attention and two norms, a decoder layer
        two and three; both stacks end with a norm. Two embeddings V d, a head V d + V.
        """
        d = self.d_model
        f = self.dim_feedforward
        v = self.vocab_size
        attention = 4 * d * d + 4 * d
        feed_forward = 2 * d * f + f + d
        norm = 2 * d
        encoder = attention + feed_forward + 2 * norm
        decoder = 2 * attention + feed_forward + 3 * norm
        layers = self.num_encoder_layers * encoder + self.num_decoder_layers * decoder
        return layers + 2 * norm + 3 * v * d + v

    @property
    def model_config(self) -> ModelConfig:
        """The model's shape as a result states it."""
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
            num_parameters=self.parameters,
            source="the command's options",
        )


class RequestedEncDec(RequestedConfig, Settings):
    """The user's options; None if not given. Raises UsageError for what no machine can train.

    Attributes:
        micro_batch_size: sequence pairs of a process in a step.
        sequence_length: tokens of a source, and of a target.
        full: as many samples as make 30 GB of data.
    """

    DEFAULTS = (
        RequestedConfig.DEFAULTS
        | {field.name: field.default for field in dataclasses.fields(Settings)}
        | dict.fromkeys(("num_samples", "num_shards", "workers"))
        | {"micro_batch_size": 32, "sequence_length": 128, "full": False}
    )

    def __init__(self, **stated: Any) -> None:
        super().__init__(**stated)
        if self.d_model % self.nhead:
            divisors = [
                number for number in range(1, self.d_model + 1) if self.d_model % number == 0
            ]
            above = bisect.bisect(divisors, self.nhead)
            nearest = " or ".join(map(str, divisors[above - 1 : above + 1]))
            raise refused(
                f"--nhead {self.nhead} does not divide --d-model {self.d_model}: choose {nearest}"
            )
        if self.full and self.num_samples is not None:
            raise refused("--full and --num-samples contradict each other: choose one")
        for field in ("num_shards", "workers", "drop_caches") if self.data_dir is None else ():
            if getattr(self, field):
                raise refused(
                    f"--{field.replace('_', '-')} applies to data on disk only: add --disk or"
                    " --data-dir PATH"
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncDecRequest(Settings, Request):
    """A training with every choice made; a sequence is a source and its target.

    Attributes:
        num_samples: sequence pairs of the data set; those that fill no whole step at the end aren't
            trained on.
        num_shards: how many; 0 without data_dir.
        workers: reading processes of each training one; 0 without data_dir.
        data_checked: whether the parent process has written or checked the shards.
    """

    BATCH_OPTION = "--batch-size"
    LENGTH_OPTION = "--seq-len"

    num_samples: int
    num_shards: int = 0
    workers: int = 0
    data_checked: bool = False

    @property
    def pairs(self) -> Pairs:
        """The data; independent of the batch and of the number of processes."""
        return Pairs(
            self.vocab_size, self.sequence_length, self.seed, self.num_samples, self.num_shards
        )

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of an epoch."""
        return self.num_samples // self.global_batch_size

    @property
    def samples_per_epoch(self) -> int:
        """Sequence pairs that an epoch trains on."""
        return self.steps_per_epoch * self.global_batch_size
