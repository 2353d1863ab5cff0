"""Detect `benchmark` arguments for the encoder-decoder, which has its own options."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from tprimat.errors import UsageError

MODEL = "encdec"

OWN_OPTIONS = (
    "--batch-size",
    "--bf16",
    "--d-model",
    "--data-dir",
    "--dim-feedforward",
    "--disk",
    "--drop-caches",
    "--epochs",
    "--full",
    "--nhead",
    "--no-amp",
    "--num-decoder-layers",
    "--num-encoder-layers",
    "--num-samples",
    "--num-shards",
    "--seq-len",
    "--single",
    "--vocab-size",
    "--warmup-epochs",
    "--workers",
)
"""Options that no other model has: any of them means the encoder-decoder where no model is named."""


def is_meant(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return whether the arguments of `benchmark` are for the encoder-decoder.

    Raises:
        UsageError: they name it beside other models, or torchrun started a command that starts its processes itself.
    """
    models = _named(argv, "--model")
    if models is None:
        # What started several processes means the one benchmark whose processes can be started so.
        return any(word.split("=", 1)[0] in OWN_OPTIONS for word in argv) or environ.get("WORLD_SIZE", "1") != "1"
    if models == [MODEL]:
        return True
    if MODEL in models:
        raise UsageError(
            f"{MODEL} has options of its own: measure it in a call of its own (--model {MODEL})",
            heading="encoder-decoder",
        )
    if "TORCHELASTIC_RUN_ID" in environ and _named(argv, "--framework") != ["nemo"]:
        raise UsageError(
            f"torchrun starts only the encoder-decoder and NeMo (pretrain_*.py); for {', '.join(models)} benchmark.py "
            "starts its processes itself: leave torchrun out, and say how many with --gpus",
            heading="torchrun",
        )
    return False


def _named(argv: Sequence[str], option: str) -> list[str] | None:
    """Return the values of an option, with commas between; None where there are none."""
    named = [following for word, following in itertools.pairwise(argv) if word == option]
    named += [word.split("=", 1)[1] for word in argv if word.startswith(f"{option}=")]
    return sorted({name.strip().lower() for each in named for name in each.split(",")}) or None
