"""Pseudonyms for hosts, users and paths: the same name becomes the same pseudonym in results, logs and environment."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable
from typing import Any

import msgspec

_KEPT = {
    "root",
    "user",
    "ubuntu",
    "runner",
    "nobody",
    "jovyan",
    "localhost",
    "none",
    "null",
    "true",
    "false",
    "unknown",
}
"""Names that say nothing about anybody, and what stands where there is none."""
_SYSTEM = r"(?:usr|opt|dev|proc|sys|etc|lib|lib64|bin|sbin|run|tmp)/"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_HOSTS = (
    r"\bNODE-\d+\(([A-Za-z][\w.-]*)\)",
    r"\b([A-Za-z][\w.-]*):\d+:\d+ \[\d+\] NCCL",
    r"--(?:master[-_]addr|rdzv[-_]endpoint)[=\s]+([A-Za-z][\w.-]*)",
    r"\b(?:MASTER_ADDR|master_addr|SLURMD_NODENAME|HOSTNAME|hostname)[\"']?\s*[=:]\s*[\"']?([A-Za-z][\w.-]*)",
)
_USERS = (
    r"(?:/home|/Users|\\Users|\\\\Users)[/\\]+([^/\\\s\"':;,]+)",
    r"\b(?:USER|LOGNAME|SLURM_JOB_USER|SLURM_JOB_ACCOUNT|WANDB_ENTITY|WANDB_USERNAME)[\"']?\s*[=:]\s*[\"']?([\w.-]+)",
    r"wandb\.ai/([\w.-]+)",
)
_PATTERNS = {
    "e-mail address": r"\b[\w.+-]+@[A-Za-z][\w-]*(?:\.[\w-]+)+",
    # Four numbers are a version too: only private addresses, and those with a port.
    "IP address": rf"(?<![\w.=-])(?:(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.{_OCTET}){{2,3}}(?![\w.])"
    rf"|{_OCTET}(?:\.{_OCTET}){{3}}(?=:\d|<\d))",
    "MAC address": r"\b(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}\b",
    "device": r"\bGPU-[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b",
    "folder": rf"(?<![\w./\\])/(?!{_SYSTEM})(?:[\w.+@%=~-]+/)+(?=[\w.+@%=~-])"
    r"|\b[A-Za-z]:(?:\\+[^\\/\s\"':*?<>|]+)*\\+(?=\w)",
}
_WRITTEN = {
    "e-mail address": "email",
    "IP address": "address",
    "MAC address": "mac",
    "device": "gpu",
    "folder": "/folder",
}


class Pseudonyms:
    """Replaces names, and counts what it replaced."""

    def __init__(self, texts: Iterable[str], hosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        """Collect the names that stand in texts, in addition to those that are known."""
        self._numbers: collections.Counter[str] = collections.Counter()
        self._used: dict[str, str] = {}
        self._names: dict[str, str] = {}
        found = {"host": list(hosts), "user": list(users)}
        for text in texts:
            for kind, patterns in (("host", _HOSTS), ("user", _USERS)):
                for pattern in patterns:
                    found[kind] += re.findall(pattern, text, re.MULTILINE)
        for kind, names in found.items():
            # The short form and the full one are one host.
            for name in sorted({name.strip(".") for name in names}, key=lambda name: (len(name), name)):
                if len(name) < 2 or name.lower() in _KEPT or name.isdigit() or name in self._names:
                    continue
                short = name.split(".")[0] if kind == "host" else name
                self._names[name] = self._names.get(short) or self._new(kind)
                if any(character.isdigit() for character in short):
                    self._names[short] = self._names[name]
        self._given: dict[str, str] = {}
        any_name = "|".join(re.escape(name) for name in sorted(self._names, key=len, reverse=True))
        parts = [f"(?P<k{index}>{pattern})" for index, pattern in enumerate(_PATTERNS.values())]
        parts += [rf"(?<![A-Za-z0-9])(?P<name>{any_name})(?![A-Za-z0-9])"] if any_name else []
        self._all = re.compile("|".join(parts))

    @property
    def replaced(self) -> collections.Counter[str]:
        """How many different hosts, users, folders, addresses and devices were replaced."""
        return collections.Counter(self._used.values())

    def text(self, text: str) -> str:
        """Return a text with pseudonyms."""
        return self._all.sub(self._pseudonym, text)

    def json(self, content: bytes) -> bytes:
        """Return JSON with pseudonyms in its strings; numbers and their notation stay."""
        return msgspec.json.format(msgspec.json.encode(self._value(msgspec.json.decode(content))), indent=2) + b"\n"

    def log(self, content: bytes) -> bytes:
        """Return a log with pseudonyms; bytes that are no UTF-8 stay."""
        return self.text(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(each) for each in value]
        return (
            {self.text(name): self._value(each) for name, each in value.items()} if isinstance(value, dict) else value
        )

    def _pseudonym(self, match: re.Match[str]) -> str:
        found = match.group()
        if match.lastgroup == "name":
            pseudonym = self._names[found]
            kind = pseudonym.split("-")[0]
        else:
            kind = list(_PATTERNS)[int((match.lastgroup or "k0")[1:])]
            if found not in self._given:
                self._given[found] = self._new(kind) + ("/" if kind == "folder" else "")
            pseudonym = self._given[found]
        self._used[pseudonym] = kind
        return pseudonym

    def _new(self, kind: str) -> str:
        self._numbers[kind] += 1
        return f"{_WRITTEN.get(kind, kind)}-{self._numbers[kind]}"
