"""Pseudonyms for hosts, users and paths: the same name becomes the same pseudonym in results, logs and environment."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable
from typing import Any

import msgspec

_KEPT = {
    *("root", "user", "ubuntu", "runner", "nobody", "jovyan", "localhost"),
    *("none", "null", "true", "false", "unknown"),
}
"""Names that say nothing about anybody, and what stands where there is none."""
_SYSTEM = r"(?:usr|opt|dev|proc|sys|etc|lib|lib64|bin|sbin|run|tmp)/"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_IPV6 = (
    r"(?<![\w:.])(?=[0-9A-Fa-f:]*::|(?:[0-9A-Fa-f]+:){7})(?:fe80::|(?:[0-9A-Fa-f]{0,4}:){3,7})[0-9A-Fa-f]{1,4}(?![\w:])"
)
_HOSTS = (
    r"\bNODE-\d+\(([A-Za-z][\w.-]*)\)",
    r"\b([A-Za-z][\w.-]*):\d+:\d+ \[\d+\] NCCL",
    r"--(?:master[-_]addr|rdzv[-_]endpoint)[=\s]+([A-Za-z][\w.-]*)",
    r"\b(?:MASTER_ADDR|master_addr|SLURMD_NODENAME|SLURM_SUBMIT_HOST|HOSTNAME|hostname)"
    r"[\"']?\s*[=:]\s*[\"']?([A-Za-z][\w.-]*)",
    # Several with commas, and ranges in brackets.
    r"\b(?:SLURM_(?:JOB_|STEP_)?NODELIST|node_?list)[\"']?\s*[=:]\s*[\"']?((?:[A-Za-z][\w.-]*(?:\[[\d,-]+\])?,?)+)",
    # A launcher's prefix, a shell's prompt, uname.
    r"^\[?([A-Za-z][\w.-]*\d)(?::\d+\]|: \[)",
    r"(?<![\w.+/-])\w[\w.-]*@([A-Za-z][\w.-]*):[~/]",
    r"\bssh (?:-\S+ )*\w[\w.-]*@([A-Za-z][\w.-]*)",
    r"^Linux ([A-Za-z][\w.-]*) \d+\.\d",
)
_LISTED = re.compile(r"([A-Za-z][\w.-]*)\[([\d,-]+)\]|([A-Za-z][\w.-]*)")
MOST_HOSTS = 10_000
"""Hosts of one range in brackets that are looked for."""
_USERS = (
    r"(?:/home|/Users|\\Users|\\\\Users)[/\\]+([^/\\\s\"':;,]+)",
    r"\b(?:USER|LOGNAME|SLURM_JOB_USER|SLURM_JOB_ACCOUNT|WANDB_ENTITY|WANDB_USERNAME)[\"']?\s*[=:]\s*[\"']?([\w.-]+)",
    r"wandb\.ai/([\w.-]+)",
    r"\bwandb[-_]entity[\"']?[\s=:.]+[\"']?(\w[\w-]*)",
    r"\blogged in as:? (\w[\w.-]*)",
    r"\blogged in as:? \w[\w.-]* \((\w[\w.-]*)\)",
    # An account on a machine: a shell's prompt, or the target of ssh and scp.
    rf"(?<![\w.+/-])(\w[\w.-]*)@(?:[A-Za-z][\w.-]*:[~/]|{_IPV4}\b)",
    r"\bssh (?:-\S+ )*(\w[\w.-]*)@",
)
# Four numbers are a version too: only those with a name for it are an address wherever they stand.
_ADDRESSES = (
    rf"(?i:\b(?:[\w-]*[-_])?(?:addr|address|host|endpoint|ip|client|connection)[\"']?[\s=:]+[\"']?(?:\w+://)?)({_IPV4})\b",
    rf"(?<=@)({_IPV4})\b",
)
_PATTERNS = {
    "e-mail address": r"\b[\w.+-]+@[A-Za-z][\w-]*(?:\.[\w-]+)+",
    # Private ones, and those with a port.
    "IP address": rf"{_IPV6}"
    rf"|(?<![\w.=-])(?:(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.{_OCTET}){{2,3}}(?![\w.])"
    rf"|{_IPV4}(?=:\d|<\d))",
    "MAC address": r"\b(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}\b",
    "device": r"\bGPU-[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b",
    "folder": r"(?<=\bPWD=)/[^\s\"']*|(?<=\bSLURM_SUBMIT_DIR=)/[^\s\"']*"
    r"|\b(?:s3|gs|gcs|hdfs|abfss?)://[\w.@-]+/(?:[\w.+@%=~-]+/)*"
    rf"|(?<![\w./\\])/(?!{_SYSTEM})(?:[\w.+@%=~-]+/)+(?=[\w.+@%=~-])"
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
        found: dict[str, list[str]] = {"host": list(hosts), "user": list(users), "IP address": []}
        for text in texts:
            for kind, patterns in (("host", _HOSTS), ("user", _USERS), ("IP address", _ADDRESSES)):
                for pattern in patterns:
                    found[kind] += re.findall(pattern, text, re.MULTILINE)
        found["host"] = [host for text in found["host"] for host in _hosts_in(text)]
        for kind, names in found.items():
            # The short form and the full one are one host.
            for name in sorted({name.strip(".") for name in names}, key=lambda name: (len(name), name)):
                if len(name) < 2 or name.lower() in _KEPT or name.isdigit() or name in self._names:
                    continue
                short = name.split(".")[0] if kind == "host" else name
                self._names[name] = self._names.get(short) or self._new(kind)
                if any(character.isdigit() for character in short):
                    self._names[short] = self._names[name]
        domains = {domain for name in found["host"] if "." in (domain := name.partition(".")[2])}
        self._given: dict[str, str] = {}
        any_name = "|".join(re.escape(name) for name in sorted(self._names, key=len, reverse=True))
        parts = [f"(?P<k{index}>{pattern})" for index, pattern in enumerate(_PATTERNS.values())]
        if domains:
            any_domain = "|".join(re.escape(domain) for domain in sorted(domains, key=len, reverse=True))
            parts += [rf"(?P<host>\b[A-Za-z][\w-]*\.(?:{any_domain})\b)"]
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
        if isinstance(value, dict):
            return {
                self.text(name): self._path(each) if name == "path" and isinstance(each, str) else self._value(each)
                for name, each in value.items()
            }
        return value

    def _path(self, path: str) -> str:
        """Return the path of a log, relative or not, with a pseudonym for its directory."""
        name = re.split(r"[/\\]", path)[-1]
        folder = path.removesuffix(name)
        return (self._numbered(folder, "folder") if folder else "") + self.text(name)

    def _pseudonym(self, match: re.Match[str]) -> str:
        found, group = match.group(), match.lastgroup or "k0"
        if group == "name" or (group == "host" and found.split(".")[0] in self._names):
            pseudonym = self._names.get(found) or self._names[found.split(".")[0]]
            self._used[pseudonym] = "IP address" if pseudonym.startswith("address") else pseudonym.split("-")[0]
            return pseudonym
        return self._numbered(found, group if group == "host" else list(_PATTERNS)[int(group[1:])])

    def _numbered(self, found: str, kind: str) -> str:
        if found not in self._given:
            self._given[found] = self._new(kind) + ("/" if kind == "folder" else "")
        self._used[self._given[found]] = kind
        return self._given[found]

    def _new(self, kind: str) -> str:
        self._numbers[kind] += 1
        return f"{_WRITTEN.get(kind, kind)}-{self._numbers[kind]}"


def _hosts_in(text: str) -> list[str]:
    """Return the hosts in a list with commas, and ranges of numbers in brackets: gpu-[17-18,20],login1."""
    hosts = []
    for prefix, numbers, name in _LISTED.findall(text):
        if name:
            hosts.append(name)
            continue
        hosts.append(f"{prefix}[{numbers}]")
        for part in numbers.split(","):
            first, _, last = part.partition("-")
            if first.isdigit() and (last or first).isdigit():
                many = range(int(first), min(int(last or first), int(first) + MOST_HOSTS) + 1)
                hosts += [f"{prefix}{number:0{len(first)}}" for number in many]
    return hosts
