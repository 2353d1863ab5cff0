"""Secrets and names in text that others wrote: the one list of their forms. Secrets are removed, names replaced.

A log has a secret if somebody passes it on a command line, or prints the environment or a configuration. It names
machines, users, directories and addresses all the time; what leaves a machine has pseudonyms for them.
"""

from __future__ import annotations

import collections
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from tprimat.text import counted

REMOVED = "[removed]"

_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|(?<![A-Z])KEY(?![A-Z])", re.IGNORECASE)
"""Names of environment variables that are never recorded, whatever their value."""


def _named(word: str, owners: str) -> str:
    """Return a pattern for a setting whose name ends in a word, behind that of an owner or not, and for its value."""
    behind = "|".join(rf"(?<={owner})|(?<={owner}[-_. ])" for owner in owners.split())
    upper = rf"(?-i:(?<=_){word.upper()}(?![A-Za-z]))"
    any_name = rf"{word}(?![a-z]){_IS}({_RANDOM}|{_OPAQUE})|(?<=-){word}[ \t]+{_QUOTE}({_RANDOM}|{_OPAQUE})"
    return rf"(?:{behind}){word}(?![a-z]){_SET}|{upper}{_IS}({_VALUE})|{any_name}"


_QUOTE = r"(?:\\*[\"'])?"
# API_KEY=…, "api_key": "…", api_key ..... …, ("api_key", "…"), | api_key | … |
_IS = rf"{_QUOTE}(?:[ \t]*(?:[=-]>|[=:|│┃]|\.{{3,99}})[ \t]*|(?<=[\"']),\s*(?=\\*[\"'])){_QUOTE}"
_NOTHING = r"(?:none|null|true|false)\b"
# No number, which may be one of tokens, no word for nothing, and not the next option.
_VALUE = rf"(?![-+]?[\d.,]+(?:e[-+]?\d+)?(?![\w+/=.-])|{_NOTHING}|--)[\w.~+/=@!%^&*#?:-]{{8,}}"
_SET = rf"(?:{_IS}({_VALUE})|[ \t]+{_QUOTE}((?=[^\s\"',]{{0,99}}\d){_VALUE}))"
# What nobody writes by hand: long, with digits and letters of both cases, or hexadecimal.
_MIXED = "".join(rf"(?=[\w+/=-]{{0,99}}{each})" for each in (r"\d", "[a-z]", "[A-Z]")) + r"[\w+/=-]{16,}"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_RANDOM = rf"(?-i:{_MIXED}|[0-9a-f]{{32,}}\b|{_UUID}\b)"
# Letters and digits in one another, in a name that nobody gives.
_OPAQUE = r"(?=[\w.~%-]{0,40}?(?=\d{0,40}[a-z])(?=[a-z]{0,40}\d)[a-z0-9]{16})[\w.~%+/=:-]{16,}"
_PASSWORD = rf"(?!{re.escape(REMOVED)}|{_NOTHING})(?:(?<=[\"'])[^\"'\n\\]+|(?:[^\s\"',;)\]}}\\]|\\u00\w\w)+)"
_KEYS = "access account api auth deploy encryption license master private secret service shared signing storage wandb"
_TOKENS = "access api auth bot deploy github gitlab hf hub job oauth personal private refresh security session wandb"

_RULES = {
    # Marks in lower case, one of which the pattern begins with: the pattern, whose last group is the secret.
    "hf_|api_org_": r"(?<![a-z0-9])((?:hf|api_org)_[a-z0-9]{16,})",
    "ghp_|gho_|ghu_|ghs_|ghr_|github_pat_": r"(?<![a-z0-9])((?:gh[pousr]|github_pat)_\w{16,})",
    "glpat-|nvapi-|xox": r"(?<![a-z0-9])((?:glpat|nvapi|xox[a-z])-[\w-]{8,})",
    "sk-": r"(?<![a-z0-9])(sk-(?=[\w-]{0,99}\d)[\w-]{16,})",
    # Google, AWS, Alibaba, Artifactory, a web token, Databricks, Azure, Telegram.
    "aiza": r"(?<![a-z0-9])(?-i:(AIza[\w-]{20,}))",
    "akia|asia|abia|acca|absk|ltai": r"(?<![a-z0-9])(?-i:((?:A[KS]IA|ABIA|ACCA|ABSK|LTAI)[\w+/=]{12,}))",
    "akcp|cmvm|eyj|zxlk": r"(?<![a-z0-9])(?-i:((?:AKCp|cmVmd|ZXlK)[\w+/=]{16,}|eyJ[\w-]{8,}(?:\.[\w-]*)*))",
    "dapi": r"(?<![a-z0-9])(dapi[0-9a-f]{32})",
    "q~": r"(?-i:([\w.~-]{3}\dQ~[\w.~-]{31,40}))",
    ":aa": r"(?<=\d):(?-i:(AA[\w-]{33}))",
    "hooks.slack.com/|webhook": r"(?:hooks\.slack\.com/|webhook(?:\.office\.com/webhookb2|s)/)([\w./@-]{20,})",
    "cookie": r"cookie\\?[\"']?:[ \t]+([^\r\n]{8,})",
    "curl": r"curl\b[^\n]{0,200}?[ \t](?:-u|--user)[ \t=]*[\"']?[^\s:\"']{1,99}:([^\s\"']+)",
    "key": _named("key", _KEYS),
    "token": _named("token", _TOKENS),
    "auth": rf"auth(?:orization)?{_IS}(?:(?:basic|bearer|token)[ \t]+({_VALUE})|({_RANDOM}))",
    "bearer": rf"bearer[ \t]+({_VALUE})",
    "secret|cred": rf"(?:secret|cred(?:ential|s))[\w-]{{0,30}}{_SET}",
    "pass": rf"pass(?:w\w{{0,9}}|phrase|(?<=_pass)(?![a-z]))(?:{_IS}|[ \t]+(?=\S{{6}})(?=\S{{0,30}}\d))({_PASSWORD})",
    "pwd": rf"pwd{_IS}(?![/~.]|[a-z]:)({_PASSWORD})",
    "sig": rf"sig(?:nature)?{_IS}([\w%+/=-]{{40,}}|{_RANDOM})",
    "://": r"://([^\s/@:]*:[^\s/@]+|(?<=https://)[^\s/@:]{8,})@",
    "login": r"login\b[^\n]{0,80}?[ \t](?:-p[ \t]*(\S+)|((?=[\w-]{0,99}\d)(?=[\w-]{0,99}[a-z])[\w-]{20,}))",
    "-----begin": r"-----begin [a-z ]{0,20}private key(?: block)?-----((?:\\n|[\sa-z0-9+/=])+)",
}


@functools.cache
def _compiled(rule: str) -> re.Pattern[str]:
    """Return the pattern of a rule, compiled if its mark is met: a --help meets none."""
    return re.compile(rule, re.IGNORECASE | re.MULTILINE)


def _matches(text: str, rules: Mapping[str, str]) -> Iterator[re.Match[str]]:
    """Yield where the rules match. Each begins with one of its marks, or some of _BEFORE characters earlier."""
    # As long as the text: only of this letter the small one has two characters.
    lower = text.replace("İ", "I").lower()
    for marks, rule in rules.items():
        for mark in marks.split("|"):
            before, at, done = _BEFORE.get(mark, 0), lower.find(mark), 0
            while at >= 0:
                end = at + len(mark)
                if before:
                    match = _compiled(rule).search(text, max(done, at - before), end + _LONGEST)
                else:
                    match = _compiled(rule).match(text, at)
                if match:
                    yield match
                    end = done = max(end, match.end())
                at = lower.find(mark, end)


def _replaced(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """Return a text with others in place of parts of it, of which some may lie in others; its lines stay as many."""
    shown = 0
    parts = []
    for start, end, new in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= shown:
            parts += [text[shown:start], new, "\n" * text.count("\n", start, end)]
        shown = max(shown, end)
    return "".join((*parts, text[shown:]))


def redacted(text: str) -> str:
    """Return a text without the secrets in it; its lines stay as many."""
    found = [*(match.span(match.lastindex or 0) for match in _matches(text, _RULES)), *_prefixed(text)]
    return _replaced(text, [(start, end, REMOVED) for start, end in found])


_LONG = re.compile(r"[_.~-]([A-Za-z0-9]{20,})")
_ISSUED = re.compile(
    r"(?<![\w./~-])(?!\w*(?:sha|md5|commit|hash|digest|rev|uuid))[A-Za-z][A-Za-z0-9]{0,23}"
    r"(?:[_.~-][A-Za-z0-9]{1,12}){0,3}[_.~-]\Z"
)


def _prefixed(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a word is that nobody writes by hand, behind its issuer's letters: dop_v1_…, glrt-…, npm_…, SG.…."""
    for match in _LONG.finditer(text):
        (start, end), word = match.span(1), match[1]
        # The name of a kernel has words and sizes: fmhaSm100aKernel_Bfloat16PagedKvCausalPersistentContext, 128x64.
        if re.search(r"\dx\d+x\d|\d\dx\d\d", word) or len(re.findall("[A-Z][a-z]{3}", word)) > 3:
            continue
        changes = len(re.findall(r"\d+|[A-Za-z]+", word)) if len(word) >= 24 else 0
        if (changes > 6 or re.fullmatch(_RANDOM, word)) and _ISSUED.search(text, max(0, start - 60), start):
            rest = re.compile(r"[\w.~+/=-]*").match(text, end)
            yield start, rest.end() if rest else end


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable of the environment may hold a secret, by its name or by its value."""
    return bool(_NAME.search(name) or re.search(r"[0-9a-fA-F]{32}", value)) or redacted(value) != value


INCLUDE_HOST = "TPRIMAT_INCLUDE_HOST"
"""The environment variable that --include-host sets to 1, for this command and the trainings that it starts."""

PSEUDONYM = re.compile(r"(?:\S+/)?node-[1-9]\d*")
"""What stands for a machine's name, behind the directory in which it counts if a comparison has several."""

_NOBODY = re.compile(
    r"admin|jovyan|local|localhost|nobody|nodes?|none|null|root|runner|true|false|ubuntu|unknown|user|\W*|\d*"
    r"|(?:user|address|email|mac|device)-\d+",
    re.IGNORECASE,
)
"""Names that say nothing about anybody, and what stands where there is none."""
_COMMON = (
    "all amd and bench benchmark cluster container cpu cuda data default deepspeed dev docker end epoch error for from"
    " global gpu host info input iter iteration job lightning llama log login loss main master megatron mistral model"
    " models nccl nemo nvidia out output primus python qwen rank rocm run runs server slurm start step steps system"
    " tensor test the time token tokens torch train training users warning with work worker workspace"
)
"""Words that a log may have anywhere: a name like them is replaced only where it is known to be one."""

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_HOST = r"(?P<host>[A-Za-z][\w.-]{0,250})"
_USER = r"(?P<user>[A-Za-z_][\w.-]{0,99})"
_STATED = r"\\?[\"']?\s{0,40}(?:[=:]|\.{3,60})\s{0,9}\\?[\"']?"
_PART = r"[\w.+@%=~-]{1,255}"
_LONGEST = 300
_BEFORE = {"q~": 4, "] nccl": _LONGEST, "@": 100, ":\\": 1, "::": 40}
"""How many characters before its mark a rule may begin, where that isn't its beginning."""
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
MOST_HOSTS = 10_000
"""Machines of one range in brackets that are looked for."""


def _names_in(text: str) -> Iterable[tuple[int, int, str, str]]:
    """Return the names in a text: where each begins and ends, of what kind it is, and the name."""
    return _names_in_short(text) if len(text) < _LONGEST else _find_names(text)


@functools.lru_cache(1 << 12)
def _names_in_short(text: str) -> tuple[tuple[int, int, str, str], ...]:
    """Return the names in a text that thousands of results may have."""
    return tuple(_find_names(text))


def _find_names(text: str) -> Iterator[tuple[int, int, str, str]]:
    for match in (*_matches(text, _FORMS), *_compiled(_NUMBERS).finditer(text)):
        for group, name in match.groupdict().items():
            if name is not None and not _NOBODY.fullmatch(name) and ("." not in name or _may_be(group, match)):
                yield *match.span(group), group.rstrip("2"), name


def _may_be(group: str, match: re.Match[str]) -> bool:
    """Return whether a name is one: of four numbers whether they are an address."""
    if group != "address":
        return True
    name, start, end, text = match[group], *match.span(group), match.string
    before = text[max(0, start - 60) : start]
    if _compiled(_NO_MACHINE).match(name) or _compiled(_BEFORE_VERSION).search(before):
        return False
    signs = _compiled(_PRIVATE).match(name), re.match(r"[:<]\d", text[end : end + 2])
    return any(signs) or _compiled(_BEFORE_ADDRESS).search(before) is not None


def _machines(text: str) -> Iterator[str]:
    """Yield the names in a list with commas, and ranges of numbers in brackets: gpu-[17-18,20],login1."""
    for name, numbers in re.findall(r"([A-Za-z][\w.-]*)(?:\[([\d,-]+)\])?", text):
        for first, _, last in (part.partition("-") for part in numbers.split(",")):
            most = int(first or 0) + MOST_HOSTS
            for number in range(int(first or 0), min(int(last or first or 0), most) + 1):
                yield f"{name}{number:0{len(first)}}" if first else name


class Names:
    """Replaces names by pseudonyms, each by the same wherever it is met, and counts what it replaced.

    Args:
        number: returns the pseudonym of a machine.
        kept: words that are no names wherever a name isn't sure to be.

    Attributes:
        keeps_devices: whether serial numbers of GPUs stay.
    """

    def __init__(self, number: Callable[[str], str], kept: Iterable[str] = ()) -> None:
        self.number, self.keeps_devices = number, True
        self._kept = {*_COMMON.split(), *map(str.lower, kept)}
        self._known: dict[str, str] = {}
        self._domains: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._given: dict[str, dict[str, str]] = collections.defaultdict(dict)

    def replaced(self) -> str:
        """Return how many different hosts, users, paths, addresses and devices were replaced, in words."""
        counts = (counted(len(names), _TITLES.get(kind, kind)) for kind, names in self._given.items() if names)
        return ", ".join(counts) or "nothing"

    def learn(self, text: str, kind: str = "") -> str:
        """Collect the names in a text, or one of a kind, to replace them wherever they are; return the text."""
        for each, name in [(kind, text)] if kind else [found[2:] for found in _names_in(text)]:
            if each in ("host", "hosts", "user", "address"):
                for one in _machines(name) if each == "hosts" else (name.strip("."),):
                    self._learn(each.rstrip("s") if each == "hosts" else each, one)
        return text

    def _learn(self, kind: str, name: str) -> None:
        short, _, domain = name.partition(".") if kind == "host" else (name, "", "")
        self._domains.update([domain] if "." in domain else [])
        # The short form of a machine's name that is a word may be one.
        for each in (name, short) if re.search(r"\d", short) else (name,):
            if len(each) > 2 and each.lower() not in self._kept and not _NOBODY.fullmatch(each):
                self._known.setdefault(each, kind)
        self._pattern = None

    def text(self, text: str) -> str:
        """Return a text with pseudonyms; its lines stay as many."""
        spans = [(start, end, self.pseudonym(name, kind)) for start, end, kind, name in _names_in(text)]
        if self._pattern is None:
            any_name = [re.escape(name) for name in sorted(self._known, key=len, reverse=True)]
            any_name += [rf"[A-Za-z][\w-]*\.{re.escape(domain)}" for domain in self._domains]
            self._pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(any_name) or '(?!)'})(?![A-Za-z0-9])")
        found = self._pattern.finditer(text)
        return _replaced(text, [*spans, *((*each.span(), self.pseudonym(each[0])) for each in found)])

    def path(self, text: str) -> str:
        """Return words with tabs between them, of which some may be paths, relative or without directories."""
        words = text.split("\t")
        shown = relative_words(words)
        self._given["path"].update((word, "") for word, new in zip(words, shown, strict=True) if word != new)
        return self.text("\t".join(shown))

    def pseudonym(self, name: str, kind: str = "") -> str:
        """Return what replaces a name, of a kind or a known one."""
        kind, name = kind or self._known.get(name, "host"), name.strip(".")
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
        return given.get(name) or given.setdefault(name, fixed.get(kind, f"{kind}-{len(given) + 1}"))


_TITLES = {"address": "IP address", "mac": "MAC address", "email": "e-mail address"}


def names_stay() -> bool:
    """Return whether --include-host was given."""
    return os.environ.get(INCLUDE_HOST) == "1"


def shown_paths(paths: Iterable[str]) -> dict[str, str]:
    """Return how others see each of several paths: absolute ones relative, or with what of them tells them apart."""
    shown = {path: path for path in paths}
    whole = [path for path in shown if os.path.isabs(path) and not names_stay()]  # noqa: PTH117 - it is a text
    for parts in range(1, 99):
        shown |= {path: relative(path, parts) for path in whole}
        if len(set(shown.values())) == len(shown):
            break
    return shown


def relative_words(words: Iterable[str]) -> list[str]:
    """Return words of a command, of which some may be absolute paths or have one after =, without their directories."""
    parts = [word.rpartition("=") for word in words]
    is_path = re.compile(r"/|~|\\\\|[A-Za-z]:[\\/]")
    return [
        f"{name}{sign}{relative(path) if is_path.match(path) and not names_stay() else path}"
        for name, sign, path in parts
    ]


def relative(path: str, parts: int = 1) -> str:
    """Return a path relative to the working directory if it is below it, else the last parts of it."""
    folder = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118 - a text is compared, with its separator
    if path.startswith(folder) and len(path) > len(folder) > 1:
        return path[len(folder) :]
    return "/".join(re.split(r"[/\\]", path.rstrip("/\\"))[-parts:])
