"""NeMo's data: its own random tokens, or our token source as a file in Megatron's format."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tprimat.frameworks.loops import indexed_tokens, recipe
from tprimat.frameworks.request import MOCK, TOKENS, Request
from tprimat.results.run import Data


def prefix(request: Request) -> Path:
    """Return the path of a request's token file without its two endings."""
    source = recipe.of(request).source
    name = f"markov_v{source.vocab_size}_s{source.seed}_l{request.sequence_length}_n{_sequences(request)}"
    return request.output_dir / "data" / name


def write(request: Request) -> None:
    """Write the token file where a request trains on one, unless it is there."""
    if request.data == TOKENS:
        source = recipe.of(request).source
        indexed_tokens.write(prefix(request), source, _sequences(request), request.sequence_length)


def described(request: Request) -> Data:
    """Return what a result states of the data. Megatron shuffles the token file by its own seed, which is ours."""
    if request.data != TOKENS:
        return Data(kind=MOCK)
    data = recipe.of(request).source.described(_sequences(request), request.sequence_length)
    return msgspec.structs.replace(data, kind=TOKENS)


def _sequences(request: Request) -> int:
    """Return the sequences that a training reads: one more, since each label is the token after."""
    return request.steps * request.global_batch_size + 1
