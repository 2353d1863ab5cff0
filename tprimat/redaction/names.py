"""Names of machines, users, places and addresses in text that others wrote: pseudonyms stand for
them.
"""

from __future__ import annotations

import collections
import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator

from tprimat.redaction.matching import LONGEST, Spans, compiled, matches, replaced
from tprimat.text import counted

PlacedName = tuple[int, int, str, str]
"""A name in a text: its beginning, its end, its kind, and itself."""

INCLUDE_HOST = "TPRIMAT_INCLUDE_HOST"
"""The environment variable that --include-host sets to 1, for this command and the trainings that
it starts.
"""

PSEUDONYM = re.compile(r"(?:\S+/)?node-[1-9]\d*")
"""What stands for a machine's name, behind the directory in which it counts if a comparison has
several.
"""

_NOBODY = re.compile(
    r"admin|jovyan|local|localhost|nobody|nodes?|none|null|root|runner|true|false|ubuntu|unknown|user|\W*|\d*"
    r"|(?:user|address|email|mac|device)-\d+",
    re.IGNORECASE,
)
"""Names that say nothing about anybody, and what stands where there is none."""
_COMMON = (
    "all amd and bench benchmark cluster container cpu cuda data default deepspeed dev docker end"
    " epoch error for from global gpu host info input iter iteration job lightning llama log login"
    " loss main master megatron mistral model models nccl nemo nvidia out output primus python qwen"
    " rank rocm run runs server slurm start step steps system tensor test the time token tokens"
    " torch train training users warning with work worker workspace"
)
"""Words that a log may have anywhere: a name like them is replaced only where it is known to be
one.
"""

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_HOST = r"(?P<host>[A-Za-z][\w.-]{0,250})"
_USER = r"(?P<user>[A-Za-z_][\w.-]{0,99})"
_STATED = r"\\?[\"']?\s{0,40}(?:[=:]|\.{3,60})\s{0,9}\\?[\"']?"
_PART = r"[\w.+@%=~-]{1,255}"
_FORMS = {
    # Marks in lower case; the groups of the pattern say what is named.
    "[node-": rf"\[NODE-[\d?]{{1,6}}\({_HOST}\)",
    "] nccl": rf"(?<![\w.-]){_HOST}:\d{{1,9}}:\d{{1,9}} \[\d{{1,4}}\] NCCL",
    "--master|--rdzv": rf"--(?:master[-_]addr|rdzv[-_]endpoint)[\s=]{{1,9}}{_HOST}",
    "master_addr|master-addr|rdzv_endpoint|slurmd_nodename|slurm_submit_host|hostname|host_name":
        rf"(?:master[-_]addr|rdzv_endpoint|slurmd_nodename|slurm_submit_host|host_?name){_STATED}{_HOST}",
    # Several with commas, and ranges in brackets.
    "nodelist|node_list":
        rf"node_?list{_STATED}(?P<hosts>(?:[A-Za-z][\w.-]{{0,99}}(?:\[[\d,-]{{1,999}}\])?,?){{1,99}})",
    # uname, srun, Slurm's last words, torchrun's, those of torch's store.
    "linux |srun: error: |*** |host  |connect to ":
        r"(?:^Linux (?=\S{1,250} \d+\.)|srun: error: (?=\S{1,250} task)|\*\*\* (?:STEP|JOB) [\d.]{1,30} ON "
        rf"|host {{2,20}}: |connect to [\[(]){_HOST}",
    "/home/|/users/|\\users\\": r"(?P<home>[/\\](?:home|users)[/\\]{1,4}(?P<user>[^/\\\s\"':;,<>()]{1,99}))",
    "user|logname|slurm_job_account":
        rf"(?:(?<![a-z])user(?:_?name)?|logname|slurm_job_account)(?![a-z]){_STATED}{_USER}",
    "wandb": rf"wandb(?:[-_](?:entity|username)(?:{_STATED}|\s{{1,9}})|\.ai/){_USER}",
    "logged in as": rf"logged in as:? {_USER}(?: \((?P<user2>[\w.-]{{1,99}})\))?",
    "ssh ": rf"(?<![a-z])ssh (?:-\S{{1,99}} ){{0,9}}{_USER}@{_HOST}",
    # An address with an account: ssh://ada@gpu17.
    "ssh://|sftp://|scp://|rsync://": rf"\w+://(?:{_USER}@)?{_HOST}",
    # A shell's prompt, an account on a machine; an e-mail address.
    "@": rf"(?<![\w.+/@-])(?:{_USER}@(?:{_HOST}:(?=[~/])|(?={_IPV4}))"
        r"|(?P<email>\w[\w.+-]{0,99}@[A-Za-z][\w-]{0,99}(?:\.[\w-]{1,99}){1,9}))",
    "gpu-": r"(?<!\w)(?P<device>GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",
    "s3://|gs://|gcs://|hdfs://|abfs://|abfss://": rf"(?P<folder>\w{{2,5}}://[\w.@-]{{1,99}}/(?:{_PART}/){{0,99}})",
    "file://": rf"(?P<folder>file://(?:/{_PART}){{0,99}}/)",
    "/": r"(?<![\w./\\~%<])(?P<folder>/(?!(?:usr|opt|dev|proc|sys|etc|lib|lib64|bin|sbin|run|tmp|nix)/)"
        rf"(?:{_PART}/){{1,99}})(?=[\w.+@%=~-])",
    ":\\": r"(?<![a-z])(?P<folder>[a-z]:(?:\\{1,4}[^\\/\s\"':*?<>|]{1,255}){0,99}\\{1,4})(?=\w)",
    "::": r"(?<![\w:.])(?P<address>(?=fe[89ab]|f[cdf]|[23][0-9a-f]{3}:)"
        r"(?:[0-9a-f]{1,4}:){1,7}(?::[0-9a-f]{1,4}){1,7})(?![\w:])",
}  # fmt: skip
_NAMING = [(mark, form) for marks, form in _FORMS.items() for mark in marks.split("|")]
# What has no mark. Four numbers are a version too: only those with a sign of it are an address.
_NUMBERS = (
    rf"(?<![\w.])(?P<address>{_IPV4})(?!\w|\.\w)|(?<![\w:])(?P<mac>[0-9a-f]{{2}}(?::[0-9a-f]{{2}}){{5}})(?![\w:])"
    r"|(?<![\w:])(?P<address2>[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7})(?![\w:])|^\[?(?P<host>[a-z][\w.-]*\d)(?::\d+\]|: \[)"
)
_BEFORE_ADDRESS = (
    r"(?:(?<![a-z])(?:addr|address|host|endpoint|ip|client|connection|peer|remote|server|gateway|ping|connect"
    r"(?:ed|ing)? to|listening on)\\?[\"']?[\s=:(\[]{1,40}\\?[\"']?(?:\w{1,9}://)?|@|://)\Z"
)
_BEFORE_VERSION = (
    r"(?:version|driver|release|build|firmware|cuda|rocm|[nr]ccl|cudnn|cublas|torch|[=~><]=|[\w.]-|[+^~])"
    r"[\"']?[\s:=(]{0,9}v?\Z"
)
_PRIVATE = r"10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|169\.254\.|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\."
_NO_MACHINE = r"(?:0|127|255|22[4-9]|23\d)\."
MOST_NAMES, MOST_RANGES = 10_000, 100
"""Names, and beginnings of names with a number, that are looked for in the rest of a text."""


def _names_in(text: str) -> Iterable[PlacedName]:
    """Return the names in a text: where each begins and ends, of what kind it is, and the name."""
    if len(text) < LONGEST:
        return _names_in_short(text)
    return _find_names(text)


@functools.lru_cache(1 << 12)
def _names_in_short(text: str) -> tuple[PlacedName, ...]:
    """Return the names in a text that thousands of results may have."""
    return tuple(_find_names(text))


def _find_names(text: str) -> Iterator[PlacedName]:
    for match in (*matches(text, _NAMING), *compiled(_NUMBERS).finditer(text)):
        for group, name in match.groupdict().items():
            if (
                name is not None
                and not _NOBODY.fullmatch(name)
                and ("." not in name or _may_be(group, match))
            ):
                yield *match.span(group), group.rstrip("2"), name


def _may_be(group: str, match: re.Match[str]) -> bool:
    """Return whether a name is one: of four numbers whether they are an address."""
    if group != "address":
        return True
    name, start, end, text = match[group], *match.span(group), match.string
    before = text[max(0, start - 60) : start]
    if compiled(_NO_MACHINE).match(name) or compiled(_BEFORE_VERSION).search(before):
        return False
    signs = compiled(_PRIVATE).match(name), re.match(r"[:<]\d", text[end : end + 2])
    return any(signs) or compiled(_BEFORE_ADDRESS).search(before) is not None


_LISTED = re.compile(r"([A-Za-z][\w.-]*)(?:\[([\d,-]+)\])?")


def _machines(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the names in a list with commas, and first and last number of ranges behind one:
    gpu-[17-18,20],login1.

    A range is not expanded: [1-99999] in a hundred places would be ten million names.
    """
    for name, numbers in _LISTED.findall(text):
        for part in numbers.split(","):
            first, _, last = part.partition("-")
            yield name, first, last or first


class Names:
    """Replaces names by pseudonyms, each by the same wherever it is met, and counts what it
    replaced.

    Args:
        number: returns the pseudonym of a machine.
        kept: words that are no names wherever a name isn't sure to be.

    Attributes:
        keeps_devices: whether serial numbers of GPUs stay.
    """

    def __init__(self, number: Callable[[str], str], kept: Iterable[str] = ()) -> None:
        self.number = number
        self.keeps_devices = True
        self._kept = {*_COMMON.split(), *map(str.lower, kept)}
        self._known: dict[str, str] = {}
        self._words: set[str] = set()
        self._ranges: dict[tuple[str, int], tuple[int, int]] = {}
        self._domains: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._given: dict[str, dict[str, str]] = collections.defaultdict(dict)

    def replaced(self) -> str:
        """Return how many different hosts, users, paths, addresses and devices were replaced, in
        words.
        """
        counts = (
            counted(len(names), _TITLES.get(kind, kind))
            for kind, names in self._given.items()
            if names
        )
        return ", ".join(counts) or "nothing"

    def learn(self, text: str, kind: str = "") -> str:
        """Collect the names in a text, or one of a kind, to replace them wherever they are; return
        the text.
        """
        for of_kind, name in [(kind, text)] if kind else [match[2:] for match in _names_in(text)]:
            if of_kind in ("host", "user", "address"):
                self._learn(of_kind, name.strip("."))
            for one, first, last in _machines(name) if of_kind == "hosts" else ():
                if not first:
                    self._learn("host", one)
                elif (one, len(first)) in self._ranges or len(self._ranges) < MOST_RANGES:
                    # Ranges of one name become one: h[1-3,7-9] is looked for as h1 to h9.
                    low, high = self._ranges.get((one, len(first)), (int(first), int(first)))
                    self._ranges[one, len(first)] = min(low, int(first)), max(high, int(last))
        self._pattern = None
        return text

    def _learn(self, kind: str, name: str) -> None:
        short, _, domain = name.partition(".") if kind == "host" else (name, "", "")
        if "." in domain and len(self._domains) < MOST_RANGES:
            self._domains.add(domain)
        # The short form of a machine's name that is a word may be one.
        for form in (name, short) if re.search(r"\d", short) else (name,):
            form = form.strip("._-")
            is_name = (
                len(form) > 2 and form.lower() not in self._kept and not _NOBODY.fullmatch(form)
            )
            if is_name and len(self._known) < MOST_NAMES:
                self._known.setdefault(form, kind)
                if first := _WORDS.match(form):
                    self._words.add(first[0])

    def text(self, text: str) -> str:
        """Return a text with pseudonyms; its lines stay as many."""
        spans = []
        for start, end, kind, name in _names_in(text):
            spans.append((start, end, self.pseudonym(name, kind)))
        for start, end in self._known_in(text):
            spans.append((start, end, self.pseudonym(text[start:end])))
        if self._pattern is None:
            domains = "|".join(map(re.escape, self._domains)) or "(?!)"
            self._pattern = re.compile(
                rf"(?<![A-Za-z0-9])[A-Za-z][\w-]{{0,99}}\.(?:{domains})(?![A-Za-z0-9])"
            )
        matches = self._pattern.finditer(text)
        return replaced(
            text, [*spans, *((*match.span(), self.pseudonym(match[0])) for match in matches)]
        )

    def _known_in(self, text: str) -> Spans:
        """Yield where known names are, the longest that begins with a word, and those of ranges."""
        for word in _WORDS.finditer(text) if self._words else ():
            if word[0] in self._words:
                start = word.start()
                ends = []
                for following in itertools.islice(_WORDS.finditer(text, start, start + 250), 8):
                    ends.append(following.end())
                end = next((end for end in reversed(ends) if text[start:end] in self._known), None)
                if end:
                    yield start, end
        for (name, digits), (low, high) in self._ranges.items():
            number = re.compile(
                rf"(?<![A-Za-z0-9]){re.escape(name)}(\d{{{digits},18}})(?![A-Za-z0-9])"
            )
            yield from (
                match.span() for match in number.finditer(text) if low <= int(match[1]) <= high
            )

    def path(self, text: str) -> str:
        """Return words with tabs between them, of which some may be paths, relative or without
        directories.
        """
        words = text.split("\t")
        shown = relative_words(words)
        for word, new in zip(words, shown, strict=True):
            if word != new:
                self._given["path"][word] = ""
        return self.text("\t".join(shown))

    def pseudonym(self, name: str, kind: str = "") -> str:
        """Return what replaces a name, of a kind or a known one."""
        kind = kind or self._known.get(name, "host")
        name = name.strip(".")
        if _NOBODY.fullmatch(name) or (kind == "device" and self.keeps_devices):
            return name
        if kind == "hosts":
            return "nodes"
        if kind == "host":
            short = name.partition(".")[0]
            if (number := self.number(short)) != short:
                self._given[kind][short] = number
            return number
        given = self._given["path" if kind in ("folder", "home") else kind]
        fixed = {"home": "~", "folder": relative(f"{name}x")[:-1]}
        return given.get(name) or given.setdefault(
            name, fixed.get(kind, f"{kind}-{len(given) + 1}")
        )


_WORDS = re.compile(r"[^\W_]+")
_TITLES = {"address": "IP address", "mac": "MAC address", "email": "e-mail address"}


def names_stay() -> bool:
    """Return whether --include-host was given."""
    return os.environ.get(INCLUDE_HOST) == "1"


def shown_paths(paths: Iterable[str]) -> dict[str, str]:
    """Return how others see each of several paths: absolute ones relative, or with what of them
    tells them apart.
    """
    shown = {path: path for path in paths}
    whole = [path for path in shown if os.path.isabs(path) and not names_stay()]  # noqa: PTH117 - it is a text
    for parts in range(1, 99):
        shown |= {path: relative(path, parts) for path in whole}
        if len(set(shown.values())) == len(shown):
            break
    return shown


def relative_words(words: Iterable[str]) -> list[str]:
    """Return words of a command, of which some may be absolute paths or have one after =, without
    their directories.
    """
    parts = [word.rpartition("=") for word in words]
    is_path = re.compile(r"/|~|\\\\|[A-Za-z]:[\\/]")
    return [
        f"{name}{sign}{relative(path) if is_path.match(path) and not names_stay() else path}"
        for name, sign, path in parts
    ]


def relative(path: str, parts: int = 1) -> str:
    """Return a path relative to the working directory if it is below it, else the last parts of
    it.
    """
    folder = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118 - a text is compared, with its separator
    if path.startswith(folder) and len(path) > len(folder) > 1:
        return path[len(folder) :]
    return "/".join(re.split(r"[/\\]", path.rstrip("/\\"))[-parts:])
