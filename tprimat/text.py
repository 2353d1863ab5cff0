"""Text from results and logs, made safe to show. Whoever wrote a result chose it; none is trusted.

plain() alone decides which characters reach a terminal, a plot or a page; a format's own escaping
comes on top.
"""

from __future__ import annotations

import re
import shlex
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from tprimat.location import REPOSITORY

_ESCAPE_SEQUENCES = re.compile(
    # CSI: colors, cursor, clearing the screen.
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"
    # OSC, DCS, SOS, PM, APC with their text: window titles, links, the clipboard.
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"
    # Any other escape, and an introducer whose sequence never ends.
    r"|\x1b[ -/]{0,16}[0-~]?"
)

_SPACES = {"Zs", "Zl", "Zp", "Cc"}
_DROPPED = {"Cf", "Cs", "Co", "Cn"}
"""Format characters turn text around or hide it; surrogates and unassigned ones can't be written.
"""

ELLIPSIS = "…"

_ASCII = {
    **dict.fromkeys("·–—−─", "-"),
    **{
        "×": "x",
        "…": "...",
        "→": "->",
        "≥": ">=",
        "≤": "<=",
        "±": "+/-",
        "²": "2",
        "⁹": "^9",
        "’": "'",
    },
}


def runnable(text: str) -> str:
    """Return advice with its `tprimat COMMAND`, `./SCRIPT.py` and `-r requirements` as they can be
    typed here.

    In a clone's directory its scripts are there, and tprimat is a module of this name. Elsewhere it
    is the installed command, or the clone's by its path, and does what the scripts do.
    """
    is_script = re.search(
        r"(?:tprimat[/\\]__main__|(?:^|[/\\])(?!__main__)[^/\\]*)\.py$", sys.argv[0]
    )
    # A script that isn't of the clone is the user's own, which imports tprimat.
    program = "python3 -m tprimat" if is_script else "tprimat"
    try:
        here = Path.cwd()
        script = Path(sys.argv[0]).resolve()
    except OSError:  # the current directory is gone
        return text
    if here != REPOSITORY:
        if is_script and script.is_relative_to(REPOSITORY) and "tprimat" not in sys.orig_argv:
            program = f"python3 {shlex.quote(str(REPOSITORY / 'tprimat' / '__main__.py'))}"
        text = re.sub(
            r"(?<![\w./-])(?:\./|python3 )(benchmark|compare)(?:_results)?\.py", r"tprimat \1", text
        )
        if (REPOSITORY / "requirements.txt").exists():
            text = text.replace(
                "pip install -r ", f"pip install -r {shlex.quote(str(REPOSITORY))}/"
            )
    return re.sub(r"(?<!-m )(?<![\w./-])tprimat(?= [a-z])", lambda _: program, text)


def plain(text: object, limit: int | None = None) -> str:
    """Return str(value) as one safe line: no control sequences or markup, cut by ended() at
    limit.
    """
    text = str(text)
    # What is printable has none of the categories below but letters, digits, signs and the space.
    if not text.isprintable():
        categories = (
            (letter, unicodedata.category(letter)) for letter in _ESCAPE_SEQUENCES.sub("", text)
        )
        kept = []
        for letter, category in categories:
            if category not in _DROPPED:
                kept.append(" " if category in _SPACES else letter)
        text = "".join(kept)
    line = " ".join(text.split())
    if limit is None:
        return line
    return ended(line, limit)


def ended(text: str, limit: int) -> str:
    """Return text of at most so many characters, cut between two words where it has some: “out of
    memory on …”.
    """
    if len(text) <= limit:
        return text
    words = text[: limit - 1].rpartition(" ")[0].rstrip()
    # A path or a name in one word is cut in the word.
    if 2 * len(words) >= limit:
        return f"{words} {ELLIPSIS}"
    return text[: limit - 1].rstrip() + ELLIPSIS


def shortened(text: str, limit: int) -> str:
    """Return text shortened to a length in the middle, since names differ at their ends."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head].rstrip()}{ELLIPSIS}{text[len(text) - (limit - 1 - head) :].lstrip()}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as “1 step” or “3 processes”."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number} {noun}{ending}"


def capitalized(text: str) -> str:
    """Return text as a sentence or a cell begins; other letters stay as they are."""
    return text[:1].upper() + text[1:]


def join_names(names: Sequence[str], most: int = 4, word: str = "and") -> str:
    """Return names as a sentence has them: a, b and c; beyond the first ones their number."""
    if len(names) <= most:
        shown = list(names)
    else:
        shown = [*names[: most - 1], f"{len(names) - most + 1} more"]
    comma = "; " if len(shown) > 2 and any(", " in name for name in shown) else ", "
    if len(shown) == 1:
        return shown[0]
    return f"{comma.join(shown[:-1])} {word} {shown[-1]}"


def each_once(texts: Iterable[tuple[str, str]], every: int) -> list[str]:
    """Return texts, given with the name that each is of, once after their names; alone those of so
    many names.
    """
    names_of: dict[str, list[str]] = {}
    for name, text in texts:
        names_of.setdefault(text, []).append(name)
    return [
        text if len(set(names)) == every else f"{join_names(names)}: {text}"
        for text, names in names_of.items()
    ]


def suggestion(
    name: str, known: Sequence[str], otherwise: str, *, most: int = 1, cutoff: float = 0.6
) -> str:
    """Return which of the known names may be meant by one that isn't known; if none is near, the
    other text.
    """
    # Imported here: each --help would pay for it.
    import difflib

    near = difflib.get_close_matches(name, known, n=most, cutoff=cutoff) or [
        other for other in known if other in name
    ]
    if not near:
        return otherwise
    if most == 1:
        return f"did you mean {near[0]}?"
    return f"the nearest are {', '.join(near)}"


def letters_and_digits(name: str) -> str:
    """Return a name as names of models and GPUs are compared: llama318b of Llama-3.1-8B and of
    Llama 3.1 8B.
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def is_binary(decoded: str) -> bool:
    """Return whether what was decoded is no text: it has control characters, and bytes that are no
    characters.
    """
    return "\ufffd" in decoded and re.search("[\x00-\x06\x0e-\x1a\x1c-\x1f]", decoded) is not None


def for_encoding(text: str, encoding: str | None) -> str:
    """Return text with characters that an encoding lacks replaced: × by x, unknown ones by a
    question mark.
    """
    encoding = encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        spelled = "\n".join(_spelled(line, encoding) for line in text.split("\n"))
        return spelled.encode(encoding, errors="replace").decode(encoding)
    except LookupError:
        return for_encoding(text, "ascii")
    return text


def _spelled(line: str, encoding: str) -> str:
    """Return a line with what an encoding lacks spelled out; the gap before a longer word shrinks:
    columns stay.
    """
    spelled = ""
    for character in line:
        if character.encode(encoding, "ignore"):
            word = character
        else:
            word = _ASCII.get(character, character)
        more = len(word) - 1
        gaps = list(re.finditer(rf"(?<=\S) {{{more + 2},}}", spelled)) if more > 0 else []
        if gaps:
            spelled = spelled[: gaps[-1].start()] + spelled[gaps[-1].start() + more :]
        spelled += word
    return spelled
