"""Secrets in text that others wrote: removed by the table of their forms, whatever stands around
them.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from tprimat.redaction.forms import ISSUED_FORMS, REMOVED, SECRET_FORMS
from tprimat.redaction.matching import Spans, compiled, matches, replaced
from tprimat.text import ended

_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|(?<![A-Z])(?:KEY|PW|PWD)(?![A-Z])", re.IGNORECASE
)
"""Names of environment variables that are never recorded, whatever their value."""

_RULES = [(mark, form.pattern) for form in SECRET_FORMS for mark in form.marks.split("|")]
_ISSUED_BY = {prefix: form.pattern for form in ISSUED_FORMS for prefix in form.prefixes.split()}
_PREFIXES = tuple(_ISSUED_BY)
_ISSUED_BY[""] = "|".join(form.pattern for form in ISSUED_FORMS if not form.prefixes)
# ＡＰＩ＿ＫＥＹ＝ in letters as wide as Chinese ones, and blanks at which no line breaks.
_WIDE = re.compile("[\uff01-\uff5e\u00a0\u2007\u202f\u3000]")
_NARROW = {0xFEE0 + code: code for code in range(0x21, 0x7F)} | dict.fromkeys(
    (0xA0, 0x2007, 0x202F, 0x3000), 0x20
)
# Of no width, within a word: zero-width space and joiners, soft hyphen, byte-order mark.
_HIDDEN = re.compile("[\u200b-\u200d\u2060\u00ad\ufeff]")


def redacted(text: str) -> str:
    """Return a text without the secrets in it; its lines stay as many.

    A figure of a step is none: forward_pass: 123.4 stays, and of --db-pass 1234 the number goes.
    """
    plain = text.translate(_NARROW) if not text.isascii() and _WIDE.search(text) else text
    # Where the signs of no width stood, counted in the text without them.
    if text.isascii():
        hidden = []
    else:
        hidden = [at.start() - number for number, at in enumerate(_HIDDEN.finditer(text))]
    if hidden:
        plain = _HIDDEN.sub("", plain)
    spans = []
    for start, end in (*_of_forms(plain), *_issued(plain), *_key_bodies(plain), *_columns(plain)):
        # JSON stays JSON: what stood there without quotes was a number.
        is_bare = _UNQUOTED.search(plain, max(0, start - 3), start)
        begin = start + bisect_right(hidden, start)
        last = end - 1 + bisect_right(hidden, end - 1)
        spans.append((begin, last + 1, f'"{REMOVED}"' if is_bare else REMOVED))
    if spans:
        return replaced(text, spans)
    return text


_UNQUOTED = re.compile(r"[\"']:[ ]?\Z")


def redacted_start(text: str, length: int) -> str:
    """Return the start of a text without secrets; one that is cut first would not be known."""
    return ended(redacted(text[: 4 * length]), length)


def _of_forms(text: str) -> Spans:
    """Yield where the forms are, and the lines with which a secret goes on: base64 that is
    folded.
    """
    seen = set()
    for match in matches(text, _RULES):
        start, end = match.span(match.lastindex or 0)
        if match.lastgroup == "drawn" and not _is_drawn(text[start:end]):
            continue
        if _PW_FIGURE.fullmatch(match[0]) and text[match.start() - 1 : match.start()] != "-":
            before = text[max(0, start - 300) : start]
            after = text[end : end + 300]
            if _STEP.search(before.rpartition("\n")[2]) or _STEP.search(after.partition("\n")[0]):
                continue
        yield start, end
        while end not in seen and (below := _BELOW.match(text, end)):
            seen.add(end)
            end = below.end()
            # Behind a backslash anything may follow.
            if not (below[1] or below[2].endswith("=") or _is_drawn(below[2])):
                break
            yield below.span(2)


# step 5 | pwd: 1234 | loss: 2.5
_PW_FIGURE = re.compile(r"(?:passwd|pwd|pw)\W{1,6}\d[\d_.:/]*[a-z%]?", re.IGNORECASE)
_STEP = re.compile(
    r"(?:step|iter(?:ation)?|loss|epoch)s?[\"']?[ \t]{0,9}[:= ][ \t]{0,9}[-+]?\d", re.IGNORECASE
)

_BELOW = re.compile(
    r"\\*[\"']?[ \t]*(\\?)\r?\n(?:[^\n]{0,80}?[\])|:>][ \t])?[ \t]*([\w+/.-]{4,}={0,2})\\*[\"']?["
    r" \t]*(?=\\?\r?$)",
    re.MULTILINE,
)


def _is_drawn(word: str) -> bool:
    """Return whether a program drew a word: aB3xK9qP2mZ7, while Llama3InstructBase has longer
    parts.
    """
    longest = max(re.findall(r"[A-Za-z0-9]+", word), key=len, default="")
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", longest)
    most = 4.0 if longest.lower() == longest or longest.upper() == longest else 3.0
    return len(longest) >= 8 and not longest.isdigit() and len(longest) <= most * len(parts)


# A word of letters and digits in one another, or a long one, behind a sign.
_LONG = re.compile(
    r"[_.~-]((?:(?=[A-Za-z]{0,15}\d)(?=\d{0,15}[A-Za-z])[A-Za-z0-9]{10}|[A-Za-z0-9]{20})[A-Za-z0-9]*)"
)
_BEFORE_LONG = re.compile(r"[\w.~-]{0,60}\Z")
_REST = re.compile(r"[\w.~+/=-]*")
_ISSUER = re.compile(
    r"(?!\w*(?:sha|md5|commit|hash|digest|rev|uuid))[A-Za-z][A-Za-z0-9]{0,23}(?:[_.~-][A-Za-z0-9]{1,12}){0,3}[_.~-]"
)
# Hexadecimal ones are versions, and the name of a kernel has words and sizes:
# fmhaSm100aKernel_Bfloat16PagedKvCausal PersistentContext, 128x64.
_NO_TOKEN = re.compile(r"[0-9a-f]+|[A-Za-z]+|.{1,23}")
_OF_A_NAME = re.compile(r"\dx\d{1,4}x\d|\d\dx\d\d|(?:[A-Z][a-z]{3}[a-zA-Z0-9]{0,40}?){4}")


def _issued(text: str) -> Spans:
    """Yield where a word is that nobody writes by hand, behind its issuer's letters: dop_v1_…,
    glrt-…, npm_…, SG.….
    """
    done = 0
    for match in _LONG.finditer(text):
        start = match.start(1)
        if start < done:
            continue
        done = start + len(_REST.match(text, start)[0])  # type: ignore[index]
        at = start - len(_BEFORE_LONG.search(text, max(0, start - 60), start)[0])  # type: ignore[index]
        if text.startswith(_PREFIXES, at):
            prefixes = [prefix for prefix in _PREFIXES if text.startswith(prefix, at)]
        else:
            prefixes = [""]
        for prefix in prefixes:
            issued = compiled(f"(?-i:{_ISSUED_BY[prefix]})").match(text, at + len(prefix))
            if issued and (issued.lastgroup != "drawn" or _is_drawn(issued[0])):
                yield at + len(prefix), max(issued.end(), done)
        is_token = (
            prefixes == [""]
            and not _NO_TOKEN.fullmatch(match[1])
            and not _OF_A_NAME.search(match[1])
        )
        if is_token and _is_drawn(match[1]) and _ISSUER.fullmatch(text, at, start):
            yield start, done


LARGEST_KEY = 16_000
_KEY_BEGINS = re.compile(
    r"----[- ]BEGIN[ A-Z0-9]{0,40} PRIVATE KEY(?: BLOCK)?(?:-----| ----)|Private-Lines: \d+"
)
_KEY_ENDS = re.compile(r"---[- ](?:END|BEGIN)|Private-MAC")
# Long, or closed by a sign of base64, or alone in its line, or before the end.
_KEY_LINE = re.compile(
    r"(?:^|(?<=[\s|>:\"']))([A-Za-z0-9+/]{16,}={0,2}|=?[A-Za-z0-9+/]{1,99}={1,2}|=[A-Za-z0-9+/]{4}|(?<=\n)[A-Za-z0-9+/]{4,16}"
    r"|[A-Za-z0-9+/]{2,16}(?=\s{1,9}[^\n]{0,80}---[- ]END))[\"',]{0,2}[ \t]{0,9}\r?$",
    re.MULTILINE,
)


def _key_bodies(text: str) -> Spans:
    """Yield the lines of private keys, behind prefixes and below headers such as Proc-Type, among
    lines of others.
    """
    for begin in _KEY_BEGINS.finditer(text):
        most = begin.end() + LARGEST_KEY
        end = _KEY_ENDS.search(text, begin.end(), most)
        for line in _KEY_LINE.finditer(text, begin.end(), end.end() if end else most):
            if not line[1].isdigit() and (len(line[1]) < 20 or _is_drawn(line[1])):
                yield line.span(1)


_COLUMNS = ("api_key", "apikey", "password", "passwd", "secret", "token", "private_key")
_COLUMN = re.compile(
    rf"[\"']?(?:[\w .-]{{0,40}}[_ .-])?(?:{'|'.join(_COLUMNS)})[\"']?", re.IGNORECASE
)
_LONGEST_HEADER = 4_000
_HEADER = re.compile(
    r"(?:\|[ ]{0,9})?[\"']?[A-Za-z][\w .-]{0,60}[\"']?(?:([,;\t|])[ ]{0,9}[\"']?[A-Za-z][\w"
    r" .-]{0,60}[\"']?){1,60}\|?"
)
_RULE = re.compile(r"[|: +-]+\n")
_NO_CELL = re.compile(rf"[-+\d.e%:]*|{re.escape(REMOVED)}|none|null|.{{1,3}}", re.IGNORECASE)

_TOKEN_CELL = re.compile(r"(?=[A-Za-z-]*\d)(?=[\d-]*[A-Za-z])[\w-]{8,}")


def _columns(text: str) -> Spans:
    """Yield the cells below the header of a column that has secrets. A token may be a word of a
    vocabulary.
    """
    seen = set()
    for name in matches(text, [(mark, mark) for mark in _COLUMNS] if "\n" in text else ()):
        # The marks one after the other: a table of the second may stand before one of the first.
        begin = text.rfind("\n", max(0, name.start() - _LONGEST_HEADER), name.start()) + 1
        end = text.find("\n", name.end(), name.end() + _LONGEST_HEADER)
        if begin in seen or not 0 < end - begin < _LONGEST_HEADER:
            continue
        header = text[begin:end].rstrip("\r")
        row = _HEADER.fullmatch(header)
        if row and row[1] == "|" and not _RULE.match(text, end + 1):
            continue
        while row and 0 <= end < len(text) - 1:
            at = end + 1
            end = text.find("\n", end + 1)
            cells = text[at : end if end >= 0 else len(text)].split(row[1])
            if len(cells) != header.count(row[1]) + 1:
                break
            seen.add(at)
            for title, cell in zip(header.split(row[1]), cells, strict=True):
                shown = cell.strip("\"' \r")
                is_known = _COLUMN.fullmatch(title.strip()) and not _NO_CELL.fullmatch(shown)
                if is_known and (
                    title.strip("\"' ").lower() != "token" or _TOKEN_CELL.fullmatch(shown)
                ):
                    yield at + cell.index(shown), at + cell.index(shown) + len(shown)
                at += len(cell) + 1


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable of the environment may hold a secret, by its name or by its
    value.
    """
    stated = f"{name}={value}"
    return (
        bool(_NAME.search(name) or re.search(r"[0-9a-fA-F]{32}", value))
        or redacted(stated) != stated
    )
