"""What sessions, searches and imports print as the next step works when typed; test_hints_work.py
has the other hints.

Each row is a situation: the command that prints a line, what of the line is meant to be typed, what
is then typed (the group of the pattern stands for {}), and the status. A training is shown by
--dry-run instead of run.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest
import timed_framework
from made_runs import MI300X, make_run
from test_find_logs import log, put

from tprimat.cli import run
from tprimat.store import store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX's")

PROGRAMS = {
    "benchmark.py": "benchmark",
    "compare_results.py": "compare",
    "extract_primus_metrics.py": "extract-primus",
    "analyze_existing_logs.py": "read",
}
NEXT, DRY = r"Next: +(.+)", " --dry-run"

SITUATIONS = {
    "a session": ("benchmark --model llama --runs 2", NEXT, "{}", 0),
    "a session into another directory": (
        "benchmark --model llama --output-dir 'my runs'",
        NEXT,
        "{}",
        0,
    ),
    "an interrupted session": (
        "benchmark --model llama --runs 2 --micro-batch-size 1",
        NEXT,
        "{}",
        0,
    ),
    "a search": ("benchmark --tune --model llama --global-batch-size 2", NEXT, "{}" + DRY, 0),
    "a search that the budget ends": (
        "benchmark --tune --model llama --global-batch-size 8 --budget 1s",
        r"for all of them: (--budget \w+)",
        "benchmark --tune --model llama --global-batch-size 8 {}" + DRY,
        0,
    ),
    "many logs": ("read logs", r"to compare them: (.+)", "{}", 3),
    "many logs without their sizes": (
        "compare logs",
        r"fill in missing values: --num-gpus N --sequence-length N()",
        "compare logs --num-gpus 8 --sequence-length 2048{}",
        0,
    ),
    "one log": ("read training_llama.log", r"Results saved to: (\S+)", "compare {}", 0),
    "logs instead of a measurement": (
        "benchmark",
        r"to measure this machine instead: (.+)",
        "{}" + DRY,
        0,
    ),
    "results in a directory that is not there": (
        "compare nowhere",
        r"(nowhere): no such",
        "benchmark --output-dir {}" + DRY,
        0,
    ),
    "an unknown model": (
        "benchmark --model lama",
        r"did you mean (\w+)\?",
        "benchmark --model {}" + DRY,
        0,
    ),
    "an unknown model in results": (
        "compare one --model lama",
        r"did you mean (\w+)\?",
        "compare one --model {}",
        0,
    ),
    "an unknown option": (
        "benchmark --modle llama",
        r"did you mean (--\w+)\?",
        "benchmark {} llama" + DRY,
        0,
    ),
    "a word that is no option": (
        "benchmark llama",
        r"did you mean (.+)\?",
        "benchmark {}" + DRY,
        0,
    ),
    "an option of which only help is known": (
        "compare --no-such-thing",
        r"hint: +(.+) lists the options",
        "{}",
        0,
    ),
    "the rest of the help": ("benchmark --help", r"`(.+)` explains all of them", "{}", 0),
    "no such configuration": (
        "benchmark --model llama --only 9",
        r"hint: +(--dry-run) numbers",
        "benchmark --model llama {}",
        0,
    ),
    "a budget without a search": (
        "benchmark --budget 3m",
        r"hint: +add (.+)",
        "benchmark --budget 3m --model llama --global-batch-size 2 {}" + DRY,
        0,
    ),
    "options of Slurm": (
        "benchmark --account us",
        r"hint: +add (.+)",
        "benchmark --account us {}" + DRY,
        0,
    ),
    "several nodes without Slurm": (
        "benchmark --nodes 1,2",
        r"(--executor slurm)",
        "benchmark --nodes 1,2 {}" + DRY,
        0,
    ),
    "a batch that nothing divides": (
        "benchmark --model llama --micro-batch-size 2 --global-batch-size 3",
        r"the (?:smallest|nearest)\D+(\d+)",
        "benchmark --model llama --micro-batch-size 2 --global-batch-size {}" + DRY,
        0,
    ),
    "a log in the place of a result": (
        "benchmark --match training_llama.log",
        r"hint: +tprimat (read) FILE imports",
        "{} training_llama.log",
        0,
    ),
    "a log without its model": (
        "read bare.log",
        r"(--model-name) sets it",
        "read bare.log {} llama-3.1-8b",
        0,
    ),
    "a family's name": (
        "read bare.log --model-name llama",
        r"such as ([\w.-]+)",
        "read bare.log --model-name {}",
        0,
    ),
    "half of a check": (
        "compare --baseline one",
        r"(--baseline and --candidate)",
        "compare --baseline one --candidate one2",
        0,
    ),
    "an unclear system": (
        "compare one two --reference H10",
        r"available: (.+?);",
        "compare one two --reference '{}'",
        0,
    ),
    "a price that is none": (
        "compare one two --cost foo",
        r"hint: +use e\.g\. (\S+),",
        "compare one two --cost {} MI300X=2",
        0,
    ),
    "too few prices": (
        "compare one two --cost 2",
        r"hint: +give each price to its system: (--cost .+)USD",
        "compare one two {}3",
        0,
    ),
    "a GPU that is spelt wrong": (
        "read bare.log --gpu H10O",
        r"did you mean (\w+)\?",
        "read bare.log --gpu {}",
        0,
    ),
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    timed_framework.install(monkeypatch, tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("LLAMA_LOG", "QWEN_LOG", "MISTRAL_LOG", "PRIMUS_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, day in (("one", 1), ("one2", 2)):
        for number in range(3):
            run_of = make_run(
                step_time=3.2 + day / 1e6 + number / 1e4,
                timestamp=f"2026-03-{day:02d}T0{number}:00:00Z",
            )
            store.save(run_of, tmp_path / name)
    store.save(make_run(MI300X, stack="rocm"), tmp_path / "two")
    put(tmp_path / "bare.log", re.sub(r"(?m)^ {2}\w+ \.+ .*\n", "", log("llama")))
    return tmp_path


def typed(text: str) -> tuple[int, str]:
    """Run a command as a user types it; the status, and what it prints with wrapped lines
    joined.
    """
    words = [word for word in shlex.split(text) if word not in ("python3", "-m", "tprimat")]
    words[0] = PROGRAMS.get(words[0].rpartition("/")[2], words[0])
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        try:
            status = run(words[0], words[1:])
        except SystemExit as ended:
            status = int(ended.code or 0)
    return status, re.sub(r"\n {2}(?=\S)", " ", stream.getvalue())


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_is_printed_works_when_it_is_typed(name, here):
    before, pattern, after, status = SITUATIONS[name]
    if "--tune" in before + after or "budget" in before:
        pytest.importorskip("optuna")
    if name == "an interrupted session":
        Path("switch").write_text("cut 1 none 1")
    if name in ("one log", "logs instead of a measurement", "a log in the place of a result"):
        put(here / "training_llama.log", log("llama", name="llama3.1_8B"))
    for number in range(4 if name.startswith("many logs") else 0):
        put(
            here / "logs" / f"{number}" / "train.log",
            log("llama", name="llama3.1_8B", batch=128 + 64 * number),
        )
    _, shown = typed(before)
    Path("switch").unlink(missing_ok=True)
    found = re.search(pattern, shown)
    assert found, shown
    command = after.format(found[1])
    ended, said = typed(command)
    assert ended == status, f"{command}\n{said}"
