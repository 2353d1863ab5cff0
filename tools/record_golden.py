"""Record what the product does today in tests/golden, or compare it with what is recorded there.

    python tools/record_golden.py              write the files anew and say what differs
    python tools/record_golden.py --check      compare all of it, write nothing; status 1 for a difference
    python tools/record_golden.py dry_run      these files alone

Only command lines are used, so the files outlive any change of the modules behind them. What depends
on the machine, the date or versions is left out: see tests/golden/README.md.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import importlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
cases = importlib.import_module("golden_cases")
worker = importlib.import_module("golden_worker")

REPOSITORY = Path(__file__).resolve().parent.parent
GOLDEN = REPOSITORY / "tests" / "golden"
DATA = REPOSITORY / "tests" / "data"
SAMPLES = REPOSITORY.parent / "shared" / "samples"

LONGEST_STRING = 80
LONGEST_SERIES = 8
SHARE_OF_DIFFERENCE, LOOK_BACK = 0.75, 60
"""A case is written as another and what differs where that takes less than this share; so many are tried."""
SENTENCES = re.compile(r"warnings|reason|status_reason|notes?|headline|brief|why|next|errors|err|out|covers|clock|text")
"""Fields whose long texts are ours, or quote at most a line: their beginning is kept for the reader of a difference."""

GROUPS: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
    "options": cases.options,
    "dry_run": cases.dry_runs,
    "machines": cases.machines,
    "logs_own": lambda: cases.logs(DATA, "data"),
    "comparisons_own": cases.own_comparisons,
    "logs_samples": lambda: cases.logs(SAMPLES, "samples"),
    "comparisons_samples": cases.sample_comparisons,
}
ABSENT = "(absent)"
OF_SAMPLES = frozenset({"logs_samples", "comparisons_samples"})
"""Groups that need ../shared/samples."""


def record(group: str, selection: Iterable[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Run the cases of a group and return what its golden file should hold.

    Args:
        group: key of GROUPS.
        selection: these cases instead of all.
    """
    todo = list(GROUPS[group]() if selection is None else selection)
    found: dict[str, Any] = {}
    for machine in dict.fromkeys(case["machine"] for case in todo):
        here = [case for case in todo if case["machine"] == machine]
        with tempfile.TemporaryDirectory(prefix="golden-") as name:
            folder = Path(name).resolve()
            for case, outcome in zip(here, _outcomes(machine, here, folder), strict=True):
                normal = Normal(folder, whole=group not in {*OF_SAMPLES, "logs_own"})
                found.setdefault(case["group"], {})[case["name"]] = normal.outcome(
                    outcome, brief=case.get("brief", False)
                )
    if group == "dry_run":
        found["environments"] = _name_environments(found)
    recorded: dict[str, Any] = json.loads(json.dumps(found))
    return recorded


def _outcomes(machine: str, here: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    environment = worker.build(machine, folder)
    links = {"data": str(DATA), **({"samples": str(SAMPLES)} if SAMPLES.is_dir() else {})}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("golden_worker.py"))],
        input=json.dumps({"folder": str(folder), "cases": here, "links": links}),
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        encoding="utf-8",
    )
    outcomes: list[dict[str, Any]] = json.loads(done.stdout)
    return outcomes


class Normal:
    """Takes out of an outcome what depends on where and when it was recorded.

    Args:
        folder: the emulated machine's.
        whole: whether long texts are kept: none of them is from a log.
    """

    def __init__(self, folder: Path, *, whole: bool = False) -> None:
        self._whole = whole
        python = Path(sys.executable)
        names = {
            str(SAMPLES): "<samples>", str(SAMPLES.resolve()): "<samples>", str(DATA): "<data>",
            str(REPOSITORY): "<repository>", str(python): "<python>", str(python.parent): "<bin>",
        }  # fmt: skip
        self._names = sorted(names.items(), key=lambda each: -len(each[0]))
        machine = re.escape(str(folder))
        self._patterns = [
            (re.compile(pattern), text)
            for pattern, text in (
                (rf"{machine}/work/\d{{4}}", "<here>"),
                (machine, "<machine>"),
                (r"TensorPrimat \d+\.\d+[\w.+]*|tprimat \d+\.\d+[\w.+]*", "TensorPrimat <version>"),
                # Modules of ours that a command starts are free to move.
                (r"-m tprimat(\.\w+)+", "-m <training>"),
                (r"<repository>/tprimat/[\w/]+\.py", "<program of ours>"),
                (r"(?<!\d)20\d{6}[_-]?\d{6}(?!\d)", "<time>"),
                (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{6}\+00:00", "<now>"),
                (r"python \d+\.\d+\.\d+\w*", "python <version>"),
                # Which of the usual folders exist is this machine's affair.
                (r"is in <here>.*? are not there\)", "is in <folders>"),
            )
        ]

    def text(self, text: str) -> str:
        """A text without paths, versions and times."""
        for path, name in self._names:
            text = text.replace(path, name)
        for pattern, name in self._patterns:
            text = pattern.sub(name, text)
        return text

    def lines(self, text: str) -> list[str]:
        """A console text as lines: tables closed up, and what was broken over several lines in one."""
        found: list[str] = []
        for line in self.text(text).splitlines():
            if found and re.match(r" {2,}\S", line) and re.match(r"(note|warning|error|hint|  -)\b", found[-1]):
                found[-1] += " " + line.strip()
            elif line.strip():
                found.append(re.sub(r"(?<=\S) {2,}", "  ", line.rstrip()))
        return found

    def outcome(self, outcome: dict[str, Any], *, brief: bool = False) -> Any:
        """What the golden file keeps of a case.

        Args:
            outcome: of the worker.
            brief: whether of each result, and of the document, its hash alone.
        """
        if "options" in outcome:
            return {each.pop("name"): self.value(each) for each in outcome["options"]}
        kept: dict[str, Any] = {"status": outcome["status"]}
        if any(outcome["before"]):
            kept["before"] = outcome["before"]
        if outcome["err"]:
            kept["err"] = [self._short(line, begin=True) for line in self.lines(outcome["err"])]
        kept["out"] = self._out(outcome["out"], with_files="files" in outcome)
        if brief:
            kept["out"] = _sha(kept["out"])
        files = {self.text(name): _result(json.loads(text)) for name, text in outcome.get("files", {}).items()}
        if files:
            digests = {name: self.value(each) for name, each in sorted(files.items())}
            kept["results"] = {name: _sha(each) for name, each in digests.items()} if brief else digests
        return {name: value for name, value in kept.items() if value not in ([], {}, None)}

    def _out(self, text: str, *, with_files: bool) -> Any:
        """The document for a program, or the console's lines."""
        try:
            document = json.loads(text)
        except ValueError:
            return _closed_help(self.lines(text))
        if not isinstance(document, dict):
            return self.value(document)
        if with_files:
            # The result files say the same.
            document.pop("results", None)
            if document.get("status") in (0, None):
                document.pop("status", None)
        for name in ("System", "Disk", "Container"):
            document.get("facts", {}).pop(name, None)
        return self.value(document)

    def value(self, value: Any, field: str = "") -> Any:
        """A value of a document: without what is empty, figures with nine digits, long things as digests."""
        if isinstance(value, dict):
            cleaned = {name: self.value(each, name) for name, each in value.items()}
            return {self.text(name): each for name, each in cleaned.items() if each not in (None, [], {}, "")}
        if isinstance(value, list):
            if value and all(isinstance(each, dict) and set(each) == {"standing", "title", "values"} for each in value):
                return _ledger(value)
            if len(value) > LONGEST_SERIES and not any(isinstance(each, (dict, list, str)) for each in value):
                return _series([self.value(each) for each in value])
            return [self.value(each, field) for each in value]
        if isinstance(value, bool) or value is None or isinstance(value, int):
            return value
        if isinstance(value, float):
            return float(f"{value:.9g}")
        return self._short(self.text(value), begin=bool(SENTENCES.fullmatch(field)))

    def _short(self, text: str, *, begin: bool) -> str:
        if self._whole or len(text) <= LONGEST_STRING:
            return text
        kept = text[:LONGEST_STRING] + "… " if begin else ""
        return f"{kept}<{len(text)} characters, {_sha(text)}>"


def _result(run: Any) -> Any:
    """A result without what it says twice: a run is listed again among the runs."""
    if isinstance(run, dict) and isinstance(run.get("runs"), list):
        known = {name: value for name, value in run.items() if name != "warnings"}
        for each in run["runs"]:
            each["warnings"] = [text for text in each.get("warnings") or () if text not in run.get("warnings", ())]
        run["runs"] = [
            {name: value for name, value in each.items() if name not in known or known[name] != value}
            for each in run["runs"]
        ]
    return run


def _ledger(rows: list[dict[str, Any]]) -> list[str]:
    """The ledger of a comparison, a line for a setting; those that neither side states in one."""
    stated = [each for each in rows if any(value is not None for value in each["values"])]
    silent = [f"{each['title']} ({each['standing']})" for each in rows if each not in stated]
    lines = [f"{each['title']}: {each['standing']}: {json.dumps(each['values'])}" for each in stated]
    return [*lines, f"stated by none: {', '.join(silent)}"]


def _series(values: list[Any]) -> str:
    ends = ", ".join(json.dumps(each) for each in (*values[:2], *values[-2:]))
    return f"{len(values)} values, {_sha(values)}: {ends}"


def _sha(value: Any) -> str:
    return "sha256 " + hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _closed_help(lines: list[str]) -> list[str]:
    """A --help whose lines are joined: where Python breaks them differs between its versions."""
    if not lines or not lines[0].startswith("usage:"):
        return lines
    found: list[str] = []
    for line in lines:
        if found and re.match(r" {5,}\S", line):
            found[-1] += " " + line.strip()
        else:
            found.append(line)
    return [re.sub(r"\s+", " ", line) for line in found]


def _name_environments(found: dict[str, Any]) -> dict[str, str]:
    """Put a short name in the place of the variables that a shown command sets; return what each stands for."""
    names: dict[str, str] = {}

    def shorten(match: re.Match[str]) -> str:
        name = "environment " + hashlib.sha256(match[1].encode()).hexdigest()[:6]
        names[name] = match[1]
        return f"env <{name}> "

    pattern = re.compile(r"\benv ((?:[A-Z_0-9]+=(?:'[^']*'|\S)* )+)")

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: walk(each) for name, each in value.items()}
        if isinstance(value, list):
            return [walk(each) for each in value]
        return pattern.sub(shorten, value) if isinstance(value, str) else value

    for name in list(found):
        found[name] = walk(found[name])
    return dict(sorted(names.items()))


def to_text(value: Any, indent: str = "") -> str:
    """JSON with sorted keys, and a line for whatever fits into one."""
    short = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(short) + len(indent) <= 118 or not value or not isinstance(value, (dict, list)):
        return short
    inner = indent + " "
    if isinstance(value, list):
        rows = [to_text(each, inner) for each in value]
        return "[\n" + ",\n".join(inner + row for row in rows) + f"\n{indent}]"
    rows = [f"{json.dumps(name, ensure_ascii=False)}: {to_text(value[name], inner)}" for name in sorted(value)]
    return "{\n" + ",\n".join(inner + row for row in rows) + f"\n{indent}}}"


def read(group: str) -> dict[str, Any]:
    """What is recorded; empty where nothing is."""
    path = GOLDEN / f"{group}.json"
    return expanded(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def compressed(found: dict[str, Any]) -> dict[str, Any]:
    """Write a case that is much like another, of its kind or of its name, as that one's name and what differs."""
    result: dict[str, Any] = {}
    bases: list[tuple[str, str, dict[str, Any]]] = []
    for kind in sorted(found):
        result[kind] = {}
        for name in sorted(found[kind]):
            flat, best = _flat(found[kind][name]), found[kind][name]
            size = len(json.dumps(best)) * SHARE_OF_DIFFERENCE
            near = [base for base in bases if base[0] == kind][-LOOK_BACK:] + [
                base for base in bases if base[1] == name
            ]
            for base_kind, base, known in near:
                but = {place: value for place, value in flat.items() if place not in known or known[place] != value}
                trial: dict[str, Any] = {"like": [base_kind, base], "but": but}
                if absent := sorted(set(known) - set(flat)):
                    trial["without"] = absent
                if len(json.dumps(trial)) < size:
                    best, size = trial, len(json.dumps(trial))
            if best is found[kind][name]:
                bases.append((kind, name, flat))
            result[kind][name] = best
    assert expanded(result) == found
    return result


def expanded(content: dict[str, Any]) -> dict[str, Any]:
    """Undo compressed()."""
    result: dict[str, Any] = {}
    for kind, each in content.items():
        result[kind] = {}
        for name, value in each.items():
            if isinstance(value, dict) and "like" in value:
                base_kind, base = value["like"]
                flat = {**_flat(content[base_kind][base]), **value["but"]}
                value = _nested({place: flat[place] for place in flat if place not in value.get("without", ())})
            result[kind][name] = value
    return result


def _flat(value: Any, place: str = "") -> dict[str, Any]:
    """Leaves by their places, such as " > out > #3"."""
    if isinstance(value, (dict, list)) and value:
        pairs = value.items() if isinstance(value, dict) else ((f"#{index}", each) for index, each in enumerate(value))
        return {inner: leaf for name, each in pairs for inner, leaf in _flat(each, f"{place} > {name}").items()}
    return {place: value}


def _nested(flat: dict[str, Any]) -> Any:
    """Undo _flat()."""
    if set(flat) == {""}:
        return flat[""]
    parts: dict[str, dict[str, Any]] = {}
    for place, leaf in flat.items():
        name, more, rest = place.removeprefix(" > ").partition(" > ")
        parts.setdefault(name, {})[more + rest] = leaf
    built = {name: _nested(each) for name, each in parts.items()}
    if all(re.fullmatch(r"#\d+", name) for name in built):
        return [built[f"#{index}"] for index in range(len(built))]
    return built


def differences(before: Any, now: Any) -> list[str]:
    """What differs between two recordings: a text for each kind of difference, with the places where it stands."""
    places: dict[tuple[str, str], list[str]] = {}
    for place, old, new in _walk(before, now, ""):
        places.setdefault((old, new), []).append(place)
    found = []
    for (old, new), where in places.items():
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        found.append(f"{where[0]}{more}\n  - {old}\n  + {new}")
    return found


def _walk(before: Any, now: Any, place: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}):
            inner = f"{place} > {name}" if place else name
            if name in before and name in now:
                yield from _walk(before[name], now[name], inner)
            else:
                yield inner, *(_line(each[name]) if name in each else ABSENT for each in (before, now))
    elif isinstance(before, list) and isinstance(now, list):
        # Whatever is the same in both goes, so that one line more doesn't shift all that follow.
        left, right = [_line(each) for each in before], [_line(each) for each in now]
        for tag, a, b, c, d in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
            if tag == "replace" and b - a == d - c:
                for index in range(b - a):
                    yield from _walk(before[a + index], now[c + index], f"{place} > {a + index}")
            elif tag != "equal":
                inner = f"{place} > {a}"
                yield inner, *(" ".join(texts) or ABSENT for texts in (left[a:b], right[c:d]))
    elif isinstance(before, str) and isinstance(now, str) and before != now:
        yield place, *_parts(before.split(" "), now.split(" "))
    elif before != now or isinstance(before, bool) != isinstance(now, bool):
        yield place, _line(before), _line(now)


def _parts(before: list[str], now: list[str]) -> tuple[str, str]:
    """Two texts without the words that both begin or end with, where those are many."""
    if min(len(before), len(now)) < 10:
        return _line(" ".join(before)), _line(" ".join(now))
    shorter = min(len(before), len(now))
    start = next((index for index in range(shorter) if before[index] != now[index]), shorter)
    end = next((index for index in range(shorter - start) if before[-1 - index] != now[-1 - index]), shorter - start)
    old, new = (f"… {' '.join(words[start : len(words) - end])} …" for words in (before, now))
    return old, new


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group", nargs="*", choices=[[], *GROUPS], help=f"of {', '.join(GROUPS)} (default: all)")
    parser.add_argument("--check", action="store_true", help="compare and write nothing")
    parser.add_argument(
        "--all", action="store_true", help="show every difference in full instead of the first 20 of a file"
    )
    options = parser.parse_args()
    wrong = False
    for group in options.group or GROUPS:
        if group in OF_SAMPLES and not SAMPLES.is_dir():
            print(f"{group}: skipped, there are no samples beside this clone")
            continue
        now = record(group)
        different = differences(read(group), now)
        wrong = wrong or bool(different)
        print(f"{group}: {f'{len(different)} kinds of differences' if different else 'as recorded'}")
        for each in different if options.all else different[:20]:
            text = each if options.all else "\n".join(line[:300] for line in each.splitlines())
            print(f"  {text}".replace("\n", "\n  "))
        if not options.check:
            GOLDEN.mkdir(exist_ok=True)
            (GOLDEN / f"{group}.json").write_text(to_text(compressed(now)) + "\n", encoding="utf-8", newline="\n")
    return int(options.check and wrong)


if __name__ == "__main__":
    sys.exit(main())
