"""Secrets in logs of every compression and encoding, looked for in everything that is written or
shown of them.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
import tarfile
from pathlib import Path

import event_writer
import pytest
from made_secrets import SECRETS
from test_verify import log_text

import tprimat
from tprimat import cli
from tprimat.errors import ExitStatus
from tprimat.log_import import bundle, extract
from tprimat.measure import training_files
from tprimat.store import store

PACKED = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": None}
ENCODINGS = {
    "utf8": lambda text: text.encode(),
    "bom": lambda text: text.encode("utf-8-sig"),
    "utf16le": lambda text: b"\xff\xfe" + text.encode("utf-16-le"),
    "utf16be": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "latin1": lambda text: text.encode("latin-1"),
}


def found_in(content: bytes | str) -> list[str]:
    """The secrets that stand in an output, in whichever of the encodings."""
    if isinstance(content, str):
        content = content.encode()
    spelled = ((secret, json.dumps(secret)[1:-1]) for _, secret in SECRETS)
    return [
        secret
        for secret, inner in spelled
        if any(
            each.encode(code) in content
            for each in {secret, inner}
            for code in ("utf-8", "utf-16-le", "utf-16-be")
        )
    ]


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        held = {each.name: archive.extractfile(each).read() for each in archive if each.isfile()}
    return {
        name: gzip.decompress(each) if name.endswith(".gz") else each for name, each in held.items()
    }


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> list[Path]:
    """A log of each compression and encoding with all secrets; the failure at its end, which is
    quoted, has two.
    """
    zstandard = pytest.importorskip("zstandard")
    folder = tmp_path_factory.mktemp("logs")
    paths = []
    planted = "".join(f"+ {line}\n" for line, _ in SECRETS)
    for number, (encoding, encode) in enumerate(ENCODINGS.items()):
        for packing, pack in PACKED.items():
            index = len(paths)
            quoted = "; ".join(SECRETS[(2 * index + each) % len(SECRETS)][0] for each in (0, 1))
            coloured = f"\x1b[36m[rank-0/8]\x1b[0m WANDB_API_KEY=\x1b[32m{SECRETS[7][1]}\x1b[0m\n"
            text = f"café\n{planted}{coloured}{log_text(40, 1000 + 50 * index).rpartition(' iteration       31')[0]}"
            text += f"Traceback (most recent call last):\nRuntimeError: 401 for {quoted}\n"
            path = folder / f"run{number}" / f"{encoding}.log{packing}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes((pack or zstandard.ZstdCompressor().compress)(encode(text)))
            assert len(found_in(encode(text))) == len(SECRETS)
            paths.append(path)
    return paths


@pytest.fixture(scope="module")
def clean(tmp_path_factory) -> list[str]:
    """Two logs of whole runs without a secret, so that there is something to compare."""
    folder = tmp_path_factory.mktemp("clean")
    for name, milliseconds in (("one", 1000.0), ("two", 1100.0)):
        (folder / f"{name}.log").write_text(log_text(30, milliseconds))
    return [f"{name}={folder / name}.log" for name in ("one", "two")]


GIVEN = ["--gpu", "H200", "--model-name", "llama3.1_8B"]


def test_in_results_bundles_and_what_the_commands_say(logs, tmp_path, capsys):
    output, path = tmp_path / "output", tmp_path / "b.tar.gz"
    arguments = [each for log in logs for each in ("--log-file", str(log))]
    options = ["--output-dir", str(output), "--bundle", str(path), "--verbose"]
    assert cli.run("extract-primus", [*arguments, *options, *GIVEN]) == ExitStatus.OK
    assert cli.run("verify", [str(path), "--verbose"]) == ExitStatus.OK
    said = capsys.readouterr()
    assert "(decompressed or redacted copy)" in said.out
    results = sorted(output.glob("*.json"))
    reasons = [run.status_reason for result in results for run in store.read(result)]
    assert len(reasons) == len(logs)
    assert all(re.search(r"RuntimeError: 401 for .*\[removed\]", reason) for reason in reasons)
    held = members(path)
    assert sum("/logs/" in name for name in held) == len(logs)
    for name, content in {**held, **{each.name: each.read_bytes() for each in results}}.items():
        assert (name, found_in(content)) == (name, [])
        assert (
            "/logs/" not in name
            or content.startswith("café\n+ export AWS".encode())
            or b"caf\xef\xbf\xbd" in content
        )
    assert found_in(said.out + said.err) == []


@pytest.mark.parametrize("from_results", [False, True])
def test_in_comparisons(logs, clean, tmp_path, capsys, from_results):
    # Of an earlier version, which knew less: with the secret in it.
    chosen = [str(log) for log in logs]
    if from_results:
        plain = "".join(f"{line} " for line, _ in SECRETS)
        run = next(iter(tprimat.load(str(logs[0]))))
        (tmp_path / "old").mkdir()
        saved = store.save(run, tmp_path / "old").path
        content = json.loads(saved.read_text())
        for each in (content, *content["runs"]):
            each |= {
                "status_reason": f"line 3: {plain}",
                "warnings": [plain],
                "label": SECRETS[19][0],
            }
            each["source"]["command"] = [
                "train.py",
                "--wandb-key",
                SECRETS[15][1],
                *(line for line, _ in SECRETS),
            ]
            each["framework_config"] = {"hub_token": "abcd-1234-efgh", "note": plain}
        saved.write_text(json.dumps(content))
        chosen = [str(saved)]
    arguments = [*clean, *chosen, *GIVEN, "--results-dir", str(tmp_path)]
    assert cli.run(
        "compare", [*arguments, "--verbose", "--output", str(tmp_path / "plot.svg")]
    ) in (0, 2, 3)
    assert cli.run("compare", [*arguments, "--no-plot", "--json"]) in (0, 2, 3)
    said = capsys.readouterr()
    assert "faster" in said.out
    assert found_in(said.out + said.err) == []
    written = [each for each in tmp_path.iterdir() if each.suffix in (".html", ".md", ".svg")]
    assert len(written) == 3
    assert [(each.name, found_in(each.read_bytes())) for each in written] == [
        (each.name, []) for each in written
    ]


def test_a_binary_file_with_one_is_not_in_the_bundle(clean, tmp_path):
    """Its lengths and sums would no longer fit."""
    kept, left = (tmp_path / f"events.out.tfevents.{name}" for name in ("1.host", "2.host"))
    kept.write_bytes(
        event_writer.version() + event_writer.event(1.0, 1, event_writer.scalar("loss", 1.0))
    )
    left.write_bytes(
        kept.read_bytes() + event_writer.event(2.0, 2, event_writer.scalar(SECRETS[8][0], 1.0))
    )
    run = next(iter(tprimat.load(clean[0])))
    _, notes = bundle.write(
        tmp_path / "b.tar.gz", [store.save(run, tmp_path / "output").path], [kept, left]
    )
    held = members(tmp_path / "b.tar.gz")
    assert [name for name in held if "/logs/" in name] == [f"b/logs/{kept.name}.gz"]
    assert held[f"b/logs/{kept.name}.gz"] == kept.read_bytes()
    assert notes == [f"not in the bundle: {left}: a binary file with apparent secrets"]


def test_in_the_quote_of_a_contradiction(tmp_path, capsys):
    line, _ = SECRETS[8]
    (tmp_path / "train.log").write_text(
        log_text().replace("batch_size ........ 64", f"batch_size ........ 64 {line}")
    )
    assert (
        cli.run("read", [str(tmp_path / "train.log"), "--global-batch-size", "63"])
        == ExitStatus.USAGE
    )
    assert found_in("".join(capsys.readouterr())) == []


def test_in_the_last_words_of_a_training_that_failed(logs, tmp_path):
    lines = [line for line, _ in SECRETS]
    (tmp_path / "run.log").write_text("".join(f"error: {line}\n" for line in lines))
    words = training_files.last_words(tmp_path / "run.log", lines)
    assert len(words) > training_files.TAIL_LINES
    assert found_in("\n".join(words)) == []


def test_in_the_file_of_an_internal_error(logs, tmp_path, capsys, monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError(f"unexpected:\n{' '.join(line for line, _ in SECRETS)}")

    monkeypatch.setattr(extract, "imported", fail)
    monkeypatch.setattr("tprimat.log_import.sources.imported", fail)
    assert (
        cli.run("read", [str(logs[0]), "--output-dir", str(tmp_path)]) == ExitStatus.INTERNAL_ERROR
    )
    said = "".join(capsys.readouterr())
    file = Path(re.search(r"attach (\S+)", said)[1])
    content = file.read_text()
    file.unlink()
    assert "RuntimeError: unexpected" in content
    assert found_in(said + content) == []
