"""The token file through Megatron's own reader, and through the data set that it trains on."""

from __future__ import annotations

import numpy as np
import pytest

from tprimat.frameworks.loops.tokens import TokenSource
from tprimat.frameworks.nemo import data


@pytest.mark.parametrize("vocabulary", [512, 128256])
def test_megatron_reads_the_very_tokens(tmp_path, vocabulary):
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    source = TokenSource(vocabulary, 7)
    data.write_tokens(tmp_path / "tokens", source, sequences=9, length=32)
    read = IndexedDataset(str(tmp_path / "tokens"))
    expected = source.rows(np.ones(9, dtype=np.int64), np.arange(9), 32)
    assert len(read) == 9
    assert np.array_equal(np.stack([read[place] for place in range(9)]), expected)
    assert list(read.document_indices) == list(range(10))
