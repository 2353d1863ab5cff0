"""The token source in Megatron's indexed form; Megatron's own reader is asked in
tests/with_nemo.
"""

from __future__ import annotations

import struct

import pytest

np = pytest.importorskip("numpy")

from tprimat.errors import UsageError
from tprimat.frameworks.loops.tokens import TokenSource
from tprimat.frameworks.nemo import data


@pytest.mark.parametrize(("vocabulary", "kind", "code"), [(512, "<u2", 8), (65_500, "<i4", 4)])
def test_the_tokens_are_those_of_the_source(tmp_path, vocabulary, kind, code):
    source = TokenSource(vocabulary, 3)
    data.write_tokens(tmp_path / "t", source, sequences=5, length=16)
    tokens = np.frombuffer((tmp_path / "t.bin").read_bytes(), dtype=kind).reshape(5, 16)
    assert np.array_equal(tokens, source.rows(np.ones(5, dtype=np.int64), np.arange(5), 16))
    assert (tmp_path / "t.idx").read_bytes()[17] == code


def test_the_index(tmp_path):
    content = data.index(3, 10, 2, 8)
    assert content[:9] == b"MMIDIDX\x00\x00"
    assert struct.unpack("<QBQQ", content[9:34]) == (1, 8, 3, 4)
    assert np.frombuffer(content[34:46], "<i4").tolist() == [10, 10, 10]
    assert np.frombuffer(content[46:70], "<i8").tolist() == [0, 20, 40]
    assert np.frombuffer(content[70:], "<i8").tolist() == [0, 1, 2, 3]


def test_chunks_make_no_difference(tmp_path, monkeypatch):
    source = TokenSource(64, 1)
    data.write_tokens(tmp_path / "whole", source, 7, 8)
    monkeypatch.setattr(data, "CHUNK_TOKENS", 16)
    data.write_tokens(tmp_path / "parts", source, 7, 8)
    assert (tmp_path / "whole.bin").read_bytes() == (tmp_path / "parts.bin").read_bytes()


def test_it_is_written_once_and_a_cut_off_one_again(tmp_path):
    source = TokenSource(64, 1)
    data.write_tokens(tmp_path / "t", source, 3, 8)
    whole = (tmp_path / "t.bin").read_bytes()
    first = (tmp_path / "t.bin").stat().st_mtime_ns
    data.write_tokens(tmp_path / "t", source, 3, 8)
    assert (tmp_path / "t.bin").stat().st_mtime_ns == first
    (tmp_path / "t.bin").write_bytes(whole[:-4])
    data.write_tokens(tmp_path / "t", source, 3, 8)
    assert (tmp_path / "t.bin").read_bytes() == whole


def test_a_folder_that_cant_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        data.write_tokens(tmp_path / "file" / "t", TokenSource(64, 1), 3, 8)
