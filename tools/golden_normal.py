"""Takes out of what a command did whatever depends on the machine, the date or versions; long
things become digests.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
DATA = REPOSITORY / "tests" / "data"
SAMPLES = REPOSITORY.parent / "shared" / "samples"

LONGEST_STRING = 80
LONGEST_SERIES = 8
SENTENCES = re.compile(
    r"warnings|reason|status_reason|notes?|headline|brief|why|next|errors|err|out|covers|clock|text"
)
"""Fields whose long texts are ours, or quote at most a line: their beginning is kept for the reader
of a difference.
"""


class Normal:
    """Takes out of an outcome what depends on where and when it was recorded.

    Args:
        folder: the emulated machine's.
        checkout: whose code ran.
        whole: whether long texts are kept: none of them is from a log.
    """

    def __init__(self, folder: Path, checkout: Path, *, whole: bool = False) -> None:
        self._whole = whole
        python = Path(sys.executable)
        names = {
            str(SAMPLES): "<samples>", str(SAMPLES.resolve()): "<samples>", str(DATA): "<data>",
            str(checkout): "<repository>", str(python): "<python>", str(python.parent): "<bin>",
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
                # Which of the usual directories exist is this machine's affair.
                (r"is in <here>.*? are not there\)", "is in <directories>"),
            )
        ]

    def text(self, text: str) -> str:
        """Return a text without paths, versions and times."""
        for path, name in self._names:
            text = text.replace(path, name)
        for pattern, name in self._patterns:
            text = pattern.sub(name, text)
        return text

    def lines(self, text: str) -> list[str]:
        """Return a console text as lines: tables closed up, and what was broken over several lines
        in one.
        """
        found: list[str] = []
        # Where a command is broken depends on the lengths of its paths.
        text = re.sub(
            r"(?m)^cd (?:.* \\\n)+.*$", lambda command: command[0].replace(" \\\n  ", " "), text
        )
        for line in self.text(text).splitlines():
            if (
                found
                and re.match(r" {2,}\S", line)
                and re.match(r"(note|warning|error|hint|  -)\b", found[-1])
            ):
                found[-1] += " " + line.strip()
            elif line.strip():
                found.append(re.sub(r"(?<=\S) {2,}", "  ", line.rstrip()))
        return found

    def outcome(self, outcome: dict[str, Any], *, brief: bool = False) -> Any:
        """Return what the golden file keeps of a case.

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
        files = {
            self.text(name): _result(json.loads(text))
            for name, text in outcome.get("files", {}).items()
        }
        if files:
            digests = {name: self.value(each) for name, each in sorted(files.items())}
            kept["results"] = (
                {name: _sha(each) for name, each in digests.items()} if brief else digests
            )
        return {name: value for name, value in kept.items() if value not in ([], {}, None)}

    def _out(self, text: str, *, with_files: bool) -> Any:
        """Return the document for a program, or the console's lines."""
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
        """Return a value of a document: empty parts dropped, numbers to nine digits, long parts as
        digests.
        """
        if isinstance(value, dict):
            if isinstance(value.get("timeline"), list):
                value = {**value, "timeline": _parts(value["timeline"])}
            cleaned = {name: self.value(each, name) for name, each in value.items()}
            return {
                self.text(name): each
                for name, each in cleaned.items()
                if each not in (None, [], {}, "")
            }
        if isinstance(value, list):
            if value and all(
                isinstance(each, dict) and set(each) == {"standing", "title", "values"}
                for each in value
            ):
                return _ledger(value)
            if len(value) > LONGEST_SERIES and not any(
                isinstance(each, (dict, list, str)) for each in value
            ):
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
    """Return a result without its duplicates: a run is listed again among the runs, a warning among
    the notes.
    """
    if isinstance(run, dict) and isinstance(run.get("runs"), list):
        for each in (run, *run["runs"]):
            each["notes"] = [note for note in each.get("notes") or () if note["code"] != "text"]
        known = {name: value for name, value in run.items() if name != "warnings"}
        for each in run["runs"]:
            each["warnings"] = [
                text for text in each.get("warnings") or () if text not in run.get("warnings", ())
            ]
        run["runs"] = [
            {
                name: value
                for name, value in each.items()
                if name not in known or known[name] != value
            }
            for each in run["runs"]
        ]
    return run


def _ledger(rows: list[dict[str, Any]]) -> list[str]:
    """Return the ledger of a comparison, a line for a setting; those that neither side states in
    one.
    """
    stated = [each for each in rows if any(value is not None for value in each["values"])]
    silent = [f"{each['title']} ({each['standing']})" for each in rows if each not in stated]
    lines = [
        f"{each['title']}: {each['standing']}: {json.dumps(each['values'])}" for each in stated
    ]
    return [*lines, f"stated by none: {', '.join(silent)}"]


def _parts(timeline: list[dict[str, Any]]) -> dict[str, float]:
    """Return the seconds of each part of a timeline."""
    kinds = dict.fromkeys(each["kind"] for each in timeline)
    return {
        kind: round(sum(each["duration"] for each in timeline if each["kind"] == kind), 6)
        for kind in kinds
    }


def _series(values: list[Any]) -> str:
    ends = ", ".join(json.dumps(each) for each in (*values[:2], *values[-2:]))
    return f"{len(values)} values, {_sha(values)}: {ends}"


def digest(outcome: dict[str, Any]) -> str:
    """Return a line for a case: its status, the steps and the speed of its results, and the hash of
    all but sentences, of which there is the number: their codes and figures are among the notes.
    """
    words = [f"status {outcome['status']}"]
    for result in outcome.get("results", {}).values():
        if isinstance(result, dict):
            measured = result.get("performance_metrics", {})
            steps = measured.get("total_steps", 0)
            seconds = measured.get("avg_step_time_seconds", "unknown time")
            words.append(f"{steps} steps of {seconds}")
    return "; ".join([*words, _sha(_without_sentences(outcome))])


def _without_sentences(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {}
        for name, inner in value.items():
            is_list = isinstance(inner, list) and all(isinstance(item, str) for item in inner)
            if name in ("warnings", "err", "notes") and is_list:
                kept[name] = len(inner)
            elif name != "status_reason":
                kept[name] = _without_sentences(inner)
        return kept
    if isinstance(value, list):
        return [_without_sentences(inner) for inner in value]
    return value


def _sha(value: Any) -> str:
    return "sha256 " + hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _closed_help(lines: list[str]) -> list[str]:
    """Return a --help whose lines are joined: where Python breaks them differs between its
    versions.
    """
    if not lines or not lines[0].startswith("usage:"):
        return lines
    found: list[str] = []
    for line in lines:
        if found and re.match(r" {5,}\S", line):
            found[-1] += " " + line.strip()
        else:
            found.append(line)
    return [re.sub(r"\s+", " ", line) for line in found]


def name_environments(found: dict[str, Any]) -> dict[str, str]:
    """Put a short name in the place of the variables that a shown command sets; return what each
    stands for.
    """
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
