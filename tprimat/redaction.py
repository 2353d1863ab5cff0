"""Secrets in text that others wrote: the one list of their forms, and their removal.

A log has one if somebody passes it on a command line, or prints the environment or a configuration.
"""

from __future__ import annotations

import functools
import re

REMOVED = "[removed]"

_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|(?<![A-Z])KEY(?![A-Z])", re.IGNORECASE)
"""Names of environment variables that are never recorded, whatever their value."""


def _named(word: str, owners: str) -> str:
    """Return a pattern for a setting whose name ends in a word, behind that of an owner or not, and for its value."""
    behind = "|".join(rf"(?<={owner})|(?<={owner}[-_. ])" for owner in owners.split())
    upper = rf"(?-i:(?<=_){word.upper()}(?![A-Za-z]))"
    return rf"(?:{behind}){word}(?![a-z]){_SET}|{upper}{_IS}({_VALUE})|{word}(?![a-z]){_IS}({_RANDOM})"


_QUOTE = r"(?:\\*[\"'])?"
# API_KEY=…, "api_key": "…", api_key ..... …, ("api_key", "…"), | api_key | … |
_IS = rf"{_QUOTE}(?:[ \t]*(?:[=-]>|[=:|│┃]|\.{{3,99}})[ \t]*|(?<=[\"']),\s*(?=\\*[\"'])){_QUOTE}"
_NOTHING = r"(?:none|null|true|false)\b"
# No number, which may be one of tokens, no word for nothing, and not the next option.
_VALUE = rf"(?![-+]?[\d.,]+(?:e[-+]?\d+)?(?![\w+/=.-])|{_NOTHING}|--)[\w.~+/=@!%^&*#?:-]{{8,}}"
_SET = rf"(?:{_IS}({_VALUE})|[ \t]+{_QUOTE}((?=[^\s\"',]{{0,99}}\d){_VALUE}))"
# What nobody writes by hand: long, with digits and letters of both cases, or hexadecimal.
_MIXED = "".join(rf"(?=[\w+/=-]{{0,99}}{each})" for each in (r"\d", "[a-z]", "[A-Z]")) + r"[\w+/=-]{16,}"
_RANDOM = rf"(?-i:{_MIXED}|[0-9a-f]{{32,}}\b)"
_PASSWORD = rf"(?!{re.escape(REMOVED)}|{_NOTHING})(?:(?<=[\"'])[^\"'\n\\]+|(?:[^\s\"',;)\]}}\\]|\\u00\w\w)+)"
_KEYS = "access account api auth deploy encryption license master private secret service shared signing storage wandb"
_TOKENS = "access api auth bot deploy github gitlab hf hub job oauth personal refresh security session wandb"

_RULES = {
    # Marks in lower case, one of which the pattern begins with: the pattern, whose one group is the secret.
    "hf_": r"(?<![a-z0-9])(hf_[a-z0-9]{16,})",
    "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_": r"(?<![a-z0-9])((?:gh[pousr]|github_pat)_\w{16,})",
    "glpat- nvapi- xox": r"(?<![a-z0-9])((?:glpat|nvapi|xox[a-z])-[\w-]{8,})",
    "sk-": r"(?<![a-z0-9])(sk-(?=[\w-]{0,99}\d)[\w-]{16,})",
    "aiza akia asia eyj": r"(?<![a-z0-9])(?-i:(AIza[\w-]{20,}|A[KS]IA[A-Z0-9]{12,}|eyJ[\w-]{8,}(?:\.[\w-]*)*))",
    "key": _named("key", _KEYS),
    "token": _named("token", _TOKENS),
    "auth": rf"auth(?:orization)?{_IS}(?:(?:basic|bearer|token)[ \t]+({_VALUE})|({_RANDOM}))",
    "bearer": rf"bearer[ \t]+({_VALUE})",
    "secret credential": rf"(?:secret|credential)[\w-]{{0,30}}{_SET}",
    "pass": rf"pass(?:w\w{{0,9}}|phrase|(?<=_pass)(?![a-z]))(?:{_IS}|[ \t]+(?=\S{{6}})(?=\S{{0,30}}\d))({_PASSWORD})",
    "pwd": rf"pwd{_IS}(?![/~.]|[a-z]:)({_PASSWORD})",
    "sig": rf"sig(?:nature)?{_IS}([\w%+/=-]{{40,}}|{_RANDOM})",
    "://": r"://([^\s/@:]*:[^\s/@]+|(?<=https://)[^\s/@:]{8,})@",
    "login": r"login\b[^\n]{0,80}?[ \t](?:-p[ \t]*(\S+)|((?=[\w-]{0,99}\d)(?=[\w-]{0,99}[a-z])[\w-]{20,}))",
    "-----begin": r"-----begin [a-z ]{0,20}private key-----((?:\\n|[\sa-z0-9+/=])+)",
}
_MARKS = tuple((mark, rule) for marks, rule in _RULES.items() for mark in marks.split())


@functools.cache
def _compiled(rule: str) -> re.Pattern[str]:
    """Return the pattern of a rule, compiled where its mark is met: a --help meets none."""
    return re.compile(rule, re.IGNORECASE)


def redacted(text: str) -> str:
    """Return a text without the secrets in it; its lines stay as many."""
    found = []
    # As long as the text: only of this letter the small one has two characters.
    lower = text.replace("İ", "I").lower()
    for mark, rule in _MARKS:
        at = lower.find(mark)
        while at >= 0:
            end = at + len(mark)
            if match := _compiled(rule).match(text, at):
                found.append(match.span(match.lastindex or 0))
                end = match.end()
            at = lower.find(mark, end)
    shown = 0
    parts = []
    for start, end in sorted(found):
        if start >= shown:
            parts += [text[shown:start], REMOVED, "\n" * text.count("\n", start, end)]
        shown = max(shown, end)
    return "".join((*parts, text[shown:]))


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable of the environment may hold a secret, by its name or by its value."""
    return bool(_NAME.search(name) or re.search(r"[0-9a-fA-F]{32}", value)) or redacted(value) != value
