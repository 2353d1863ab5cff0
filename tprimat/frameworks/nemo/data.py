"""NeMo's data: its own random tokens, or our token source as a file in Megatron's form.

The file, `PREFIX.bin` with the tokens and `PREFIX.idx` with the index, lets NVIDIA's and AMD's
recipes train on the very same tokens. Form, little-endian, as
megatron.core.datasets.indexed_dataset of 0.15 reads it:

    .bin   the tokens of all sequences, one after the other
    .idx   MMIDIDX and two zero bytes, version 1 (8 bytes), code of the tokens' type (1 byte), sequences (8),
           documents + 1 (8), then arrays: length of each sequence (int32), its first byte in .bin
           (int64), and the sequence that each document begins with, closed by their number (int64)

Each sequence is a document of its own, all of one length, so that each sample of a training is one
sequence and the first token of another. Megatron shuffles them by the seed of its data.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from tprimat import files
from tprimat.frameworks.loops import recipe
from tprimat.frameworks.loops.tokens import TokenSource
from tprimat.frameworks.request import MOCK, TOKENS, Request
from tprimat.results.run import Data

HEADER = b"MMIDIDX\x00\x00"
VERSION = 1
TYPES = ((65_500, "<u2", 8), (2**31, "<i4", 4))
"""Vocabularies below the first number are stored as the second, which has the third as its code."""

CHUNK_TOKENS = 4_000_000
"""Tokens that are made at once: some hundred megabytes of memory."""


def prefix(request: Request) -> Path:
    """Return the path of a request's token file without its two endings."""
    source = recipe.of(request).source
    name = f"markov_v{source.vocab_size}_s{source.seed}_l{request.sequence_length}_n{_sequences(request)}"
    return request.output_dir / "data" / name


def write(request: Request) -> None:
    """Write the token file if a request trains on one, unless it is there."""
    if request.data == TOKENS:
        write_tokens(
            prefix(request), recipe.of(request).source, _sequences(request), request.sequence_length
        )


def described(request: Request) -> Data:
    """Return a result's values on the data. Megatron shuffles the token file by its own seed, which
    is ours.
    """
    if request.data != TOKENS:
        return Data(kind=MOCK)
    data = recipe.of(request).source.described(_sequences(request), request.sequence_length)
    return data.but(kind=TOKENS)


def write_tokens(prefix: Path, source: TokenSource, sequences: int, length: int) -> None:
    """Write both files of a prefix, unless they exist, with a number of sequences from the source's
    first step on.

    One of several processes writes, the others wait. Raises UsageError if the directory can't be
    written to.
    """
    import numpy as np
    from filelock import FileLock

    _, kind, code = next(row for row in TYPES if source.vocab_size < row[0])
    tokens_path = Path(f"{prefix}.bin")
    index_path = Path(f"{prefix}.idx")
    size = sequences * length * int(kind[2])
    rows_at_once = max(1, CHUNK_TOKENS // length)
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{prefix}.lock"):
            if index_path.exists() and tokens_path.exists() and tokens_path.stat().st_size == size:
                return
            part = tokens_path.with_suffix(".bin.part")
            with part.open("wb") as file:
                for first in range(0, sequences, rows_at_once):
                    positions = np.arange(first, min(first + rows_at_once, sequences))
                    file.write(source.in_order(positions, sequences, length).astype(kind).tobytes())
            os.replace(part, tokens_path)
            # Last: where the index is, the tokens are whole.
            files.write_atomically(index_path, index(sequences, length, int(kind[2]), code))
    except OSError as error:
        raise files.unwritable(
            prefix, error, f"the tokens cannot be written ({size / 1e9:.1f} GB)"
        ) from error


def index(sequences: int, length: int, item_size: int, code: int) -> bytes:
    """Return the content of an .idx file: documents of one sequence each, with the number of tokens
    and the bytes per token.

    `code` is Megatron's code for the type of the tokens.
    """
    import numpy as np

    numbers = np.arange(sequences + 1, dtype="<i8")
    head = HEADER + struct.pack("<QBQQ", VERSION, code, sequences, sequences + 1)
    arrays = np.full(sequences, length, dtype="<i4"), numbers[:-1] * (length * item_size), numbers
    return b"".join([head, *(array.tobytes() for array in arrays)])


def _sequences(request: Request) -> int:
    """Return the sequences that a training reads: one more, since each label is the token after."""
    return request.all_steps * request.global_batch_size + 1
