#!/usr/bin/env python3
"""Pumps every regular expression of the package with texts that its own parse tree suggests, and
times two lengths.

For each repeat that may be long: a text that leads to it, what it repeats, many times, and an end
that doesn't fit. A pattern whose time grows faster than the text is printed. Times are compared
within one call; machines and loads differ.

    tools/pump_patterns.py
    tools/pump_patterns.py --all --length 20000
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import itertools
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if sys.version_info >= (3, 11):
    from re import _constants as codes
    from re import _parser as parser
else:
    import sre_constants as codes
    import sre_parse as parser

METHODS = ("search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")
LONG = 32
"""Repetitions from which a repeat is pumped."""

ALPHABET = " a1A.,-_/:='\"|[]()<>{}+*\\x0e\tzZ9\n!~é"
"""Characters of which a set is tried with those that it has; one that nothing has ends a text."""

PROBES = ("\n", "!", " x")
"""Ends of a text that few patterns accept."""

WHOLE = tuple(
    f"tprimat.read.{name}"
    for name in ("megatron.line.", "parsing.parsed_log._KINDS", "kineto.json_values.")
)
"""Beginnings of the places of patterns that are matched through another name, with all of a text.
"""

GROWTH = 3.0
"""Time of a text twice as long, from which on a pattern counts as superlinear: linear is 2,
quadratic is 4.
"""


@dataclasses.dataclass(frozen=True)
class Use:
    """A regular expression of the package: where it is, what it is, and how it is applied."""

    place: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]

    @property
    def is_anchored(self) -> bool:
        """Whether it is only applied at the start of a text."""
        return self.is_whole or (bool(self.methods) and self.methods <= {"match", "fullmatch"})

    @property
    def is_whole(self) -> bool:
        """Whether it is only applied to whole texts."""
        return self.methods == {"fullmatch"} or self.place.startswith(WHOLE)


def uses(
    package: Path = ROOT / "tprimat", only: Callable[[str], bool] = bool
) -> tuple[list[Use], list[str]]:
    """Return the patterns of a package, and the calls of `re` whose pattern is known only when they
    run.

    They are what its modules hold after they are imported, and what its functions pass to `re`; of
    modules alone whose source `only` takes.
    """
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    found: dict[tuple[Any, int], Use] = {}
    unknown = []
    for path, source in sources.items():
        if ("import re\n" not in source and "statements(" not in source) or not only(source):
            continue
        name = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        )
        if name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            unknown.append(f"{path.relative_to(package.parent)}: {error}")
            continue
        for where, pattern in _held(vars(module), name):
            own = where.rpartition(".")[2].partition("[")[0]
            other = (text for each, text in sources.items() if each != path)
            called = rf"{own}\.({'|'.join(METHODS)})\b"
            methods = frozenset(
                (
                    *re.findall(rf"(?<![\w.]){called}", source),
                    *re.findall(rf"\.{called}", "\n".join(other)),
                )
            )
            found.setdefault((pattern.pattern, pattern.flags), Use(where, pattern, methods))
        for call in ast.walk(ast.parse(source)):
            if not (isinstance(call, ast.Call) and call.args and (method := _method(call))):
                continue
            place = f"{path.relative_to(package.parent).as_posix()}:{ast.unparse(call.args[0])}"
            try:
                pattern = _evaluated(call, vars(module))
            except NameError:
                unknown.append(place)
                continue
            if method != "compile" or (pattern.pattern, pattern.flags) not in found:
                found.setdefault(
                    (pattern.pattern, pattern.flags), Use(place, pattern, frozenset({method}))
                )
    return list(found.values()), unknown


def _method(call: ast.Call) -> str:
    """Return the name of a function of `re` that is called, or of one that hands its pattern on; ""
    for another one.
    """
    function = call.func
    if isinstance(function, ast.Name):
        return (
            "search" if function.id == "_stated" and isinstance(call.args[0], ast.Constant) else ""
        )
    is_re = (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
    )
    return function.attr if is_re and function.attr in (*METHODS, "compile") else ""


def _evaluated(call: ast.Call, names: dict[str, Any]) -> re.Pattern[Any]:
    def value(node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), "pattern", "eval"), dict(names))

    given = [value(each) for each in call.args if "re." in ast.unparse(each)][:1]
    given += [value(each.value) for each in call.keywords if each.arg == "flags"]
    return re.compile(value(call.args[0]), given[-1] if given and isinstance(given[-1], int) else 0)


def _held(value: Any, place: str, depth: int = 0) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Yield the patterns in a value of a module, with their places."""
    if isinstance(value, re.Pattern):
        yield place, value
    elif isinstance(value, Mapping) and depth < 4:
        for name, each in list(value.items()):
            if not str(name).startswith("__"):
                yield from _held(each, f"{place}.{name}", depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)) and depth < 4:
        for index, each in enumerate(value):
            yield from _held(each, f"{place}[{index}]", depth + 1)
    elif isinstance(value, type) and value.__module__.startswith("tprimat") and depth < 2:
        yield from _held(vars(value), place, depth + 1)


def elsewhere() -> Iterator[Use]:
    """Yield the patterns that functions make of the texts that modules hold: of `unknown` calls."""
    from tprimat.catalog import figures, gpus, kernels, meanings, models
    from tprimat.redaction import names
    from tprimat.redaction.forms import ISSUED_FORMS, SECRET_FORMS

    for form in SECRET_FORMS:
        pattern = re.compile(form.pattern, re.IGNORECASE | re.MULTILINE)
        yield Use(f"tprimat.redaction.forms: {form.kind}", pattern, frozenset({"match"}))
    for issued in ISSUED_FORMS:
        yield Use(
            f"tprimat.redaction.forms: {issued.kind}",
            re.compile(issued.pattern),
            frozenset({"match"}),
        )
    for gpu in gpus.gpus():
        if gpu.name_pattern:
            name = re.compile(gpu.name_pattern, re.IGNORECASE)
            yield Use(f"tprimat/catalog/gpus.csv: {gpu.key}", name, frozenset({"fullmatch"}))
    for kind in get_args(kernels.MatchedOn):
        for pattern, part in kernels._rules(kind):
            yield Use(f"tprimat/catalog/kernels.csv: {kind} {part}", pattern, frozenset({"search"}))
    for pattern, model in models._patterns():
        yield Use(f"tprimat/catalog/models.csv: {model.name}", pattern, frozenset({"search"}))
    for field, words in figures._HEADINGS.items():
        yield Use(
            f"tprimat.catalog.figures._HEADINGS.{field}",
            re.compile(words),
            frozenset({"fullmatch"}),
        )
    for row in meanings.MEANINGS:
        yield Use(f"tprimat.catalog.meanings: {row.kind}", row.words, frozenset({"search"}))
    for unit in meanings.UNITS:
        yield Use(f"tprimat.catalog.meanings: {unit.kind}", unit.words, frozenset({"match"}))
    for note in figures._NOTES:
        yield Use("tprimat.catalog.figures._NOTES", re.compile(note), frozenset({"search"}))
    for mark, rule in names._FORMS.items():
        yield Use(
            f"tprimat.redaction.names._FORMS.{mark}", names.compiled(rule), frozenset({"match"})
        )


def pumps(
    pattern: re.Pattern[Any], variants: int = 6, ends: int = len(PROBES)
) -> Iterator[tuple[str, str, str]]:
    """Yield beginning, pump and end of texts that a pattern's long repeats invite."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    seen = set()
    for before, pump in _repeats(list(tree), ""):
        for pumped in itertools.islice(_variants(pump), variants):
            for end in PROBES[:ends]:
                for text in ((before, pumped, end), ("", before + pumped, end)):
                    if pumped and text not in seen:
                        seen.add(text)
                        yield text


def _repeats(nodes: list[Any], before: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield a text that leads to each long repeat, and what it repeats."""
    for place, (code, value) in enumerate(nodes):
        lead = before + _sample(nodes[:place])
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            _, most, inner = value
            if most >= LONG:
                yield lead, list(inner)
            yield from _repeats(list(inner), lead)
        elif code is codes.BRANCH:
            for branch in value[1]:
                yield from _repeats(list(branch), lead)
        elif code is codes.SUBPATTERN:
            yield from _repeats(list(value[-1]), lead)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            yield from _repeats(list(value[1]), lead)


def _variants(inner: list[Any]) -> Iterator[str]:
    """Yield texts that a repeat repeats: of a set of characters, several."""
    if len(inner) == 1 and inner[0][0] in (codes.IN, codes.ANY, codes.NOT_LITERAL, codes.CATEGORY):
        yield from [each for each in ALPHABET if fits(*inner[0], each)][:6]
    else:
        yield _sample(inner)


def _sample(nodes: list[Any]) -> str:
    """Return a short text that nodes match."""
    text = ""
    for code, value in nodes:
        if code is codes.LITERAL:
            text += chr(value)
        elif code in (codes.IN, codes.NOT_LITERAL, codes.ANY, codes.CATEGORY):
            text += next((each for each in "1a x.-/:=" + ALPHABET if fits(code, value, each)), "")
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            text += _sample(list(value[2])) * min(value[0], LONG)
        elif code is codes.BRANCH:
            text += _sample(list(value[1][0]))
        elif code is codes.SUBPATTERN:
            text += _sample(list(value[-1]))
    return text


_CATEGORIES = {
    codes.CATEGORY_DIGIT: str.isdecimal,
    codes.CATEGORY_NOT_DIGIT: lambda character: not character.isdecimal(),
    codes.CATEGORY_SPACE: str.isspace,
    codes.CATEGORY_NOT_SPACE: lambda character: not character.isspace(),
    codes.CATEGORY_WORD: lambda character: character.isalnum() or character == "_",
    codes.CATEGORY_NOT_WORD: lambda character: not (character.isalnum() or character == "_"),
}


def fits(code: Any, value: Any, character: str) -> bool:
    """Return whether a node of a parse tree that stands for one character matches it."""
    if code is codes.LITERAL:
        return ord(character) == value
    if code is codes.NOT_LITERAL:
        return ord(character) != value
    if code is codes.ANY:
        return character != "\n"
    if code is codes.RANGE:
        return value[0] <= ord(character) <= value[1]
    if code is codes.CATEGORY:
        return _CATEGORIES[value](character)
    assert code is codes.IN
    kinds = value[1:] if value[0][0] is codes.NEGATE else value
    return any(fits(*kind, character) for kind in kinds) is (kinds is value)


def seconds(use: Use, parts: tuple[str, str, str], length: int) -> float:
    """Return the CPU time of a pattern on a text of about that length."""
    before, pump, end = parts
    text: Any = before + pump * (length // len(pump)) + end
    if isinstance(use.pattern.pattern, bytes):
        text = text.encode("utf-8", "replace")
    function = use.pattern.fullmatch if use.is_whole else use.pattern.match
    if not use.is_anchored:
        function = use.pattern.search
    start = time.process_time()
    if use.methods & {"finditer", "findall", "sub", "split"}:
        use.pattern.findall(text)
    else:
        function(text)
    return time.process_time() - start


SHORTEST = 2e-3
"""s. A time that can be compared."""


def growth(use: Use, parts: tuple[str, str, str], length: int) -> tuple[float, float]:
    """Return the time of a text of a length over that of half of it, the least of three; and the
    time.
    """
    if (whole := seconds(use, parts, length)) < SHORTEST:
        return 0.0, whole
    whole = min(whole, *(seconds(use, parts, length) for _ in range(2)))
    half = min(seconds(use, parts, length // 2) for _ in range(3))
    return whole / max(half, 1e-7), whole


def main() -> int:
    """Print the patterns whose time grows faster than their text."""
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument(
        "--length", type=int, default=10_000, help="characters of the longer text (default: 10000)"
    )
    command.add_argument(
        "--all", action="store_true", help="print the slowest text of every pattern"
    )
    options = command.parse_args()
    found, unknown = uses()
    found += elsewhere()
    texts = slow = 0
    for use in found:
        worst = (0.0, 0.0, ("", "", ""))
        for parts in pumps(use.pattern):
            texts += 1
            grown, whole = growth(use, parts, options.length)
            worst = max(worst, (grown if grown > GROWTH else 0.0, whole, parts))
        is_slow = worst[0] > GROWTH
        slow += is_slow
        if is_slow or options.all:
            print(
                f"{use.place}: {worst[1] * 1e3:.1f} ms, ×{worst[0]:.1f} for twice the text,"
                f" {worst[2]!r}",
                flush=True,
            )
    print(
        f"{len(found)} patterns, {texts} texts of {options.length} characters; {slow} grow faster"
        " than their text"
    )
    print(f"{len(unknown)} calls of re with patterns that are made when they run")
    if options.all:
        print("\n".join(unknown))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
