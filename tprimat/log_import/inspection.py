"""What a bundle holds besides its values: files that are more than data, and secrets and names left
in them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

from tprimat import read
from tprimat.log_import import bundle
from tprimat.log_import.bundle_names import bare
from tprimat.log_import.inputs import Log
from tprimat.read.parsing.text import LONGEST_LINE
from tprimat.redaction import PSEUDONYM, REMOVED, redacted
from tprimat.store import hosts, store
from tprimat.text import counted

KINDS = {
    "result": "results/*.json",
    "log": "logs/*.gz",
    "environment": "environment/*.json",
    "readme": "README.txt",
}
"""Kinds of files that bundles have, with the pattern of their paths."""

_LOG_NAME = re.compile(
    r"(?:^[^.]{1,255}|\.(?:log|txt|out|err|std(?:out|err)|jsonl?|ndjson|[ct]sv|ya?ml|xlsx|wandb|db"
    r"|(?:[oe]|rank_?)?\d{1,19}))$|\.tfevents\.[\w.-]{1,99}$",
    re.IGNORECASE,
)
"""How the names of logs end before they are packed; a file with any other ending may be one that a
system runs or shows.
"""
_RUNS = re.compile(r"\s*(?:#!|<(?:!doctype|html|head|body|script|svg|\?))", re.IGNORECASE)


def kinds(folder: Path) -> dict[str, str]:
    """Return the kind of each file of an unpacked bundle, one of KINDS, or the problem with it.
    Nothing is run.
    """
    return {file.relative_to(folder).as_posix(): _kind(file) for file in _files(folder)}


def _kind(file: Path) -> str:
    kind = next(
        (kind for kind, pattern in KINDS.items() if file.match(pattern)),
        "not a file that bundles have",
    )
    if kind == "log" and not _LOG_NAME.search(bare(file.name)):
        return "not a name that logs have"
    head = next(iter(Log(str(file)).chunks()), b"")[: read.HEAD]
    if kind == "log" and read.file_format_of(head):
        return kind
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return "binary, in no format of logs"
    if kind == "environment" and store.is_result(head):
        return "a result outside results/"
    if _RUNS.match(text):
        return "begins like a program or a page"
    return kind


def private(folder: Path) -> Iterator[str]:
    """Yield the secrets in each file, and the names with the files that have them first, which
    --bundle replaces.
    """
    names = hosts.names(lambda name: name if PSEUDONYM.fullmatch(name) else "node-?")
    names.keeps_devices = False
    for file in _files(folder):
        secrets = 0
        for text in _texts(file):
            names.learn(text)
            secrets += redacted(text).count(REMOVED) - text.count(REMOVED)
        if secrets:
            yield f"{file.relative_to(folder).as_posix()}: {counted(secrets, 'apparent secret')}"
    left = names.replaced()
    places = []
    for file in _files(folder):
        try:
            # A path in a result may be a name where it would be none in a text.
            bundle.json_without_names(file.read_bytes() if file.suffix == ".json" else b"", names)
        except ValueError:
            for text in _texts(file):
                names.text(text)
        if names.replaced() != left:
            left = names.replaced()
            places.append(file.relative_to(folder).as_posix())
    if places:
        yield f"{', '.join(places)}: {left}"


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _texts(file: Path) -> Iterator[str]:
    """Yield a file, decompressed, in pieces of whole lines."""
    rest = b""
    for chunk in Log(str(file)).chunks():
        lines, end, rest = (rest + chunk).rpartition(b"\n")
        if end or len(rest) > LONGEST_LINE:
            yield (lines or rest).decode("utf-8", "replace")
            rest = rest if end else b""
    yield rest.decode("utf-8", "replace")
