"""JSON nested without end, wherever JSON from outside is decoded: an error or nothing, never the
end of the command.
"""

from __future__ import annotations

import io

import pytest

from tprimat.errors import UsageError
from tprimat.machine.telemetry import trace
from tprimat.measure import tuned_config
from tprimat.read.kineto import events
from tprimat.record import folders, nodes, progress, recovery
from tprimat.slurm import job
from tprimat.store import preflight

DEPTH = 100_000
DEEP = [b"[" * DEPTH, b'{"a":' * DEPTH, b'{"x": ' + b"[" * DEPTH]
JOURNAL = b'{"journal": 1, "owner": {"pid": 999999999, "started": 1, "host": "h", "boot": "b"}}\n'


@pytest.fixture(params=DEEP, ids=["lists", "objects", "a field"])
def deep(request) -> bytes:
    return request.param


def test_journals(tmp_path, deep):
    folder = tmp_path / folders.JOURNALS
    folder.mkdir()
    for name, content in (("1-abc", deep), ("2-abc", JOURNAL + deep + b"\n" + deep + b"\n")):
        (folder / f"{name}.jsonl").write_bytes(content)
    assert len(recovery.recover(tmp_path)) == 2
    assert {path.suffix for path in folder.iterdir()} <= {".unreadable", ".jsonl"}


def test_telemetry(deep):
    header = b'{"telemetry": 1, "platform": "nvd"}'
    assert trace.decode([deep]) is None
    assert trace.decode([header, deep, b'{"at": 1.0}']).samples == (trace.Sample(1.0),)


def test_files_of_ours(tmp_path, deep):
    for name in ("tuned.json", job.DESCRIPTION, "0.node", "preflight.json"):
        (tmp_path / name).write_bytes(deep)
    assert preflight.read(tmp_path / "preflight.json") is None
    assert nodes.read(tmp_path, 1)[0] == ()
    with pytest.raises(UsageError, match="not a configuration of --tune"):
        tuned_config.read(tmp_path / "tuned.json")
    with pytest.raises(UsageError, match="not the description of a job"):
        job.find(str(tmp_path), tmp_path)


def test_a_line_of_a_training(deep):
    assert progress.decode(progress.MARK + deep.decode()) is None


@pytest.mark.parametrize("closed", [False, True])
def test_traces(closed):
    deep = b'{"a":' * DEPTH + b"1" + b"}" * DEPTH * closed
    event = b'{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "args": %s}'
    content = b'{"schemaVersion": 1, "traceEvents": [%s, %s]}' % (event % b"{}", event % deep)
    found = events.EventStream(io.BytesIO(content))
    assert [each.name for piece in found.pieces() for each in piece] == ["k"]
