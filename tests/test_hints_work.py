"""Every `hint:` and `Next:` works when typed: it is taken from what a command prints, and done.

A situation is a command line that prints advice, and how the advice is followed: the words in
braces are groups of the advice as it was printed. What it asks the user for (RESULT, PRECISION, USD
…) is filled in by the table; trainings and jobs are dry runs. The same advice may not be printed
again. What the golden files and docs show is compared with the same patterns, and each option that
a text of the package names with the parser of its command.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.util
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import msgspec
import primus_tree
import pytest
from tool_modules import load_tool

from tprimat import __main__, frameworks
from tprimat.catalog import models
from tprimat.cli import COMMANDS
from tprimat.frameworks import scales

REPOSITORY = Path(__file__).resolve().parent.parent
DATA = REPOSITORY / "tests" / "data"
PUBLISHED = "data/published"
golden_cases = load_tool("golden_cases")
golden_form = load_tool("golden_form")

HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_GPU = any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/kfd"))


class Situation(NamedTuple):
    """A command that prints advice, and the command that follows it.

    Attributes:
        first: the command line.
        advice: a pattern of all of the text after `hint:`, `Next:` or `note:`; its groups are used
            in `then`.
        then: the command line that follows the advice; {first} is the first one.
        status: with which that ends.
        filled: what stands for the words of the advice that the user is asked for.
        trains: whether it is about trainings: with PyTorch, on a machine without a GPU.
        prepared: what is done before, with pytest's monkeypatch.
    """

    first: str
    advice: str
    then: str
    status: int = 0
    filled: dict[str, str] = {}  # noqa: RUF012
    trains: bool = False
    prepared: Callable[[pytest.MonkeyPatch], None] = lambda _: None


def _no_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in frameworks.FRAMEWORKS:
        monkeypatch.setattr(type(row), "unavailable", lambda self: "is not here")


def _primus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "PRIMUS_PATH",
        str(primus_tree.make(Path("Primus").absolute(), folders=("MI300X", "MI355X"))),
    )


COMPARE = "tprimat compare {} --no-plot --results-dir report"
CHECK = COMPARE.format("--baseline {} --candidate {}")
HELP = r"(?P<command>tprimat [\w-]+(?: --model encdec)? --help) lists the options"
MATCH = r"(?P<command>tprimat benchmark --match RESULT(?: --runs \d+)?)"
RESULT = {"RESULT": "small.json"}

SITUATIONS = [
    # Wrong usage.
    Situation("tprimat compair a.json", r"did you mean (?P<name>[a-z-]+)\?", "tprimat {name} a.json --no-plot"),
    Situation(
        "tprimat no-such-command",
        r"benchmark measures, read imports, compare compares; (?P<command>tprimat --help) lists all",
        "{command}",
    ),
    *(Situation(f"tprimat {name} --no-such-option", HELP, "{command}") for name in ("read", "collect", "watch")),
    Situation("tprimat benchmark --model encdec --vocab-size 1", HELP, "{command}", trains=True),
    Situation(
        "tprimat benchmark --mod llama --dry-run",
        r"did you mean (?P<option>--[a-z-]+)\?",
        "tprimat benchmark {option} llama --dry-run",
        trains=True,
    ),
    Situation(
        "tprimat benchmark llama --dry-run",
        r"did you mean (?P<options>--model llama)\?",
        "tprimat benchmark {options} --dry-run",
        trains=True,
    ),
    Situation(
        "tprimat run-primus --train-iters 0",
        r"put Primus' own arguments after --; (?P<command>tprimat run-primus --help) lists the options",
        "{command}",
    ),
    # Benchmarks.
    Situation(
        "tprimat benchmark --scale huge --dry-run",
        r"choose from (?P<name>tiny), [\w, ]+",
        "tprimat benchmark --scale {name} --dry-run",
        trains=True,
    ),
    Situation(
        "tprimat benchmark --framework nothing --dry-run",
        r"choose from .*\b(?P<name>lightning), [\w, ()-]+",
        "tprimat benchmark --framework {name} --dry-run",
        trains=True,
    ),
    Situation(
        "tprimat benchmark --bundle x.rar --dry-run",
        r"for example (?P<name>x\.rar\.tar\.gz)",
        "tprimat benchmark --bundle {name} --dry-run",
        trains=True,
    ),
    Situation(
        "tprimat benchmark --model encdec,llama",
        r"use only (?P<options>--model encdec)",
        "tprimat benchmark {options} --dry-run",
        trains=True,
    ),
    Situation(
        "tprimat benchmark --model llama --precision fp16 --dry-run",
        r"on a CPU use (?P<options>--precision fp32) or bf16",
        "tprimat benchmark --model llama {options} --dry-run",
        trains=True,
    ),
    Situation(
        "tprimat benchmark --framework fsdp --model llama --precision fp8 --dry-run",
        r"available: [\w, ]*\b(?P<name>bf16)(?:, \w+)*",
        "tprimat benchmark --framework fsdp --model llama --precision {name} --dry-run",
        trains=True,
    ),
    Situation(
        "tprimat benchmark --framework lightning --dry-run",
        r"available: (?:none|[\w, ]+) \((?P<command>tprimat doctor) shows why\)",
        "{command} --quiet",
        trains=True,
        prepared=_no_framework,
    ),
    Situation(
        "tprimat benchmark --tp 2 --framework lightning --dry-run",
        r"add (?P<options>--framework nemo), or remove (?P<other>--[a-z-]+)",
        "tprimat benchmark --tp 2 {options} --dry-run",
        trains=True,
    ),
    Situation(
        "tprimat benchmark --executor slurm --nodes 3 --gpus 8 --dry-run",
        r"(?P<option>--gpus) is the total over all nodes",
        "tprimat benchmark --executor slurm --nodes 3 {option} 24 --dry-run",
    ),
    Situation(
        "tprimat benchmark --executor slurm --nodes 2 --tune --dry-run --model llama",
        r"use (?P<options>--nodes 1)",
        "tprimat benchmark {options} --tune --dry-run --model llama",
        trains=True,
    ),
    Situation(
        "tprimat benchmark --nodes 2 --dry-run --model llama",
        r"add (?P<options>--executor slurm), or set NODE_RANK, MASTER_ADDR and MASTER_PORT on each machine",
        "{first} {options}",
        trains=True,
    ),
    Situation(
        "tprimat benchmark --executor slurm --model llama",
        r"submit from a machine of the Slurm cluster, or show the script with (?P<option>--dry-run)",
        "{first} {option}",
        prepared=lambda monkeypatch: monkeypatch.setenv("PATH", ""),
    ),
    Situation(
        "tprimat benchmark --budget 3m --dry-run --model llama",
        r"add (?P<option>--tune)",
        "{first} {option}",
        trains=True,
    ),
    Situation(
        "tprimat benchmark --tune --framework lightning,fsdp --model llama --dry-run",
        r"choose it: (?P<option>--framework)",
        "tprimat benchmark --tune {option} lightning --model llama --dry-run",
        trains=True,
    ),
    Situation(
        "tprimat benchmark --config small.json --dry-run",
        r"pass a tuned_….json; for a result, use (?P<option>--match)",
        "tprimat benchmark {option} small.json --dry-run",
        trains=True,
    ),
    Situation(
        "tprimat benchmark --framework megatron-bridge --model mistral --dry-run",
        r"choose --model llama or qwen, or (?P<options>--framework nemo)",
        "tprimat benchmark --model mistral {options} --dry-run",
        trains=True,
    ),
    Situation(
        "tprimat run-primus --model llama --dry-run",
        r"choose one with (?P<setting>PRIMUS_CONFIG=FILE)",
        "{setting} {first}",
        filled={"FILE": "Primus/examples/megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml"},
        trains=True,
        prepared=_primus,
    ),
    # Reading.
    Situation("tprimat read", r"pass (?P<what>a log file), a directory, or - for stdin", "tprimat read train.log"),
    Situation(
        "tprimat extract-primus",
        r"give (?P<what>a log file), or - for stdin",
        "tprimat extract-primus --log-file data/logs/primus_core_doubled.log --model-name llama",
    ),
    Situation(
        "tprimat read prose.log",
        r"pass a training log; (?P<command>tprimat read --help) lists formats, --columns and --pattern read others",
        "{command}",
    ),
    Situation(
        "tprimat read 'no unit.log'",
        r"confirm with (?P<options>--as-read), or say what the numbers are with --pattern '.+'",
        "{first} {options}",
    ),
    Situation(
        "tprimat read 'no unit.log'",
        r"confirm with --as-read, or say what the numbers are with (?P<options>--pattern '.+')",
        "{first} {options}",
    ),
    Situation(
        "tprimat read table.csv",
        r"(?P<command>tprimat read --columns step=COLUMN,time=COLUMN) reads this table",
        "{command} table.csv",
        filled={"step=COLUMN": "step=a", "time=COLUMN": "time=b"},
    ),
    Situation("tprimat read data/results/train_mega_qwen.json", r"(?P<command>tprimat compare \S+) compares a result",
              "{command} --no-plot"),
    Situation("tprimat read 'an old result.json'", r"(?P<command>tprimat compare '.+') compares a result",
              "{command} --no-plot"),
    Situation(
        "tprimat extract-primus --log-file data/logs/primus_core_doubled.log --model-name llama --num-gpus 3",
        r"remove the option, or add (?P<option>--override)",
        "{first} {option}",
    ),
    Situation(
        "tprimat read 'my run.log' --pattern 'step {step} took {time} s' --model-name qwen",
        r"pass the name of one model, or (?P<option>--model-shape)",
        "tprimat read 'my run.log' --pattern 'step {{step}} took {{time}} s' {option} shape.json",
    ),
    # Comparing.
    Situation(COMPARE.format("a.json b.json --reference nobody"), r"available: (?P<name>\S+) .+",
              COMPARE.format("a.json b.json --reference {name}")),
    Situation(COMPARE.format("a.json b.json --model gpt"), r"available: (?P<name>\w+)",
              COMPARE.format("a.json b.json --model {name}")),
    Situation(COMPARE.format("a.json b.json --cost cheap"),
              r"use e\.g\. (?P<one>H100=2\.95), or a range (?P<range>H100=2\.20:3\.10)",
              COMPARE.format("a.json b.json --cost {range}")),
    Situation(
        "tprimat efficiency data/results --cost 2",
        r"give each price to its system: (?P<options>--cost \S+( \S+=USD)+)",
        "tprimat efficiency data/results {options}",
        filled={"USD": "3"},
    ),
    Situation(COMPARE.format("a.json b.json --precision fp99"),
              r"use one of fp32, [\w, ]+, or NAME=PRECISION, such as (?P<example>MI355X)=(?P<precision>fp8)",
              COMPARE.format("a.json b.json --precision MI300X={precision}")),
    Situation(COMPARE.format("a.json --output plot.docx"), r"use a name that ends in (?P<ending>\.png), \.svg, \.pdf",
              COMPARE.format("a.json --output plot{ending}")),
    Situation("tprimat compare --results-dir empty --no-plot",
              r"run (?P<command>tprimat benchmark) first, or pass results or logs",
              "{command} --dry-run", trains=True),
    Situation("tprimat nvd-compare --results-dir empty", r"set the directory of your results with (?P<option>--\S+)",
              f"tprimat nvd-compare {{option}} {PUBLISHED} --no-plot"),
    Situation(f"tprimat publish {PUBLISHED} --output-dir occupied",
              r"choose an empty directory or an earlier site with (?P<option>--\S+)",
              f"tprimat publish {PUBLISHED} {{option}} new"),
    Situation("tprimat compare with_logs --no-plot", r".*; to compare the logs too: (?P<command>tprimat compare .+)",
              "{command} --no-plot", 3),
    Situation("tprimat explain a.json b.json", r"(?P<command>tprimat benchmark --profile torch) records one; .+",
              "{command} --dry-run", trains=True),
    Situation(COMPARE.format("a.json b.json"), rf"measure \d+ runs of each system: {MATCH}", "{command} --dry-run",
              filled=RESULT, trains=True),
    Situation(COMPARE.format("a.json length.json"), rf"measure both with the same workload: {MATCH}",
              "{command} --dry-run", filled=RESULT, trains=True),
    Situation(COMPARE.format("a.json unstated.json"),
              r"set the precision if you know it: (?P<options>--precision '.+'=PRECISION)", "{first} {options}",
              filled={"PRECISION": "bf16"}),
    Situation(COMPARE.format("three_a.json three_batch.json"),
              r"run .+ with (?P<options>--global-batch-size \d+) to rule out the batch size",
              "tprimat benchmark --match small.json {options} --dry-run", trains=True),
    Situation(COMPARE.format("unrated.json unrated_amd.json"),
              r"fill in missing values: (?P<options>(?:--[a-z-]+ N ?)+) \(FILE=VALUE sets it for one log\)",
              "{first} {options}", filled={" N": " 8"}),
    # The check.
    Situation(f"tprimat compare --baseline {PUBLISHED}", r"pass results to (?P<both>both)",
              CHECK.format("three_a.json", "three_b.json")),
    Situation(CHECK.format("a.json", "a.json") + " --threshold memory=1",
              r"use METRIC=(?P<amount>3%) or METRIC=0\.5; METRIC is one of (?P<name>\w+), .+",
              CHECK.format("three_a.json", "three_b.json") + " --threshold {name}={amount}"),
    Situation(CHECK.format("three_a.json", "three_b.json") + " --max-slowdown x",
              r"use e\.g\. (?P<amount>3%) or 0\.5",
              CHECK.format("three_a.json", "three_b.json") + " --max-slowdown {amount}"),
    Situation(CHECK.format("a.json", "b.json") + " --max-slowdown 1%",
              r"an inconclusive check exits with status 0 \(6 with (?P<option>--[a-z-]+)\)", "{first} {option}", 6),
    Situation(CHECK.format("a.json", "b.json") + " --max-slowdown 1%",
              rf"measure \d+ runs each, interleaved if possible \(if runs vary by 1%\): {MATCH}", "{command} --dry-run",
              filled=RESULT, trains=True),
    Situation(CHECK.format("a.json", "qwen.json"), rf"measure it for the candidate: {MATCH}", "{command} --dry-run",
              filled=RESULT, trains=True),
    Situation(CHECK.format("three_a.json", "three_slow.json"),
              r"find the cause: profile both with (?P<command>tprimat benchmark --match RESULT --profile torch), "
              r"then compare with (?P<other>tprimat explain)",
              "{command} --dry-run", filled=RESULT, trains=True),
    Situation(CHECK.format("three_a.json", "three_slow.json"),
              r"find the cause: .*, then compare with (?P<command>tprimat explain)",
              "{command} data/traces/rank0_trace.json data/traces/rank1_trace.json"),
]  # fmt: skip

NO_COMMAND = {
    r"(if one of its numbers is the time of a step, name it|confirm with --as-read, or say what the numbers are)"
    r" with --pattern": "where no pattern can be written for the user: tests/read/forms/test_asking.py",
    r"update TensorPrimat": "says what to do outside",
    r"choose another --results-dir": (
        "a directory that can be written to: tests/cli/test_compare_command.py"
    ),
    r"please report it and attach .+": "an internal error: tests/test_entry_points.py",
    r"run it on a machine with a GPU driver": "needs another machine",
    r"keep the candidate's results as the next baseline": "a file to keep",
    r"make runs vary less \(idle machine, fixed clocks\): not even 100 runs each would decide": (
        "needs another machine"
    ),
    r"check the log and configuration of .+, then import it again": "a file to look at",
    r"pip install -r (?:\S*/)?requirements(?:-analysis)?\.txt": (
        "a download: the file is there, see the test below"
    ),
}
"""Advice of golden files and docs that names no command of ours, or that can't be followed here,
and why.
"""


def files() -> dict[str, str]:
    """The files of the situations, those of the golden files among them."""
    made = golden_cases.made_up
    shape = msgspec.to_builtins(scales.shape(models.find("llama"), scales.by_name("tiny")))
    tiny = {"global_batch_size": 8, "sequence_length": 128, "num_gpus": 1}
    unrated = {"global_batch_size": None, "sequence_length": None, "num_gpus": None}
    runs = {
        "small": made(
            0.5, scale="tiny", framework="lightning", model_config=shape, training_config=tiny
        ),
        "unrated": made(15.0, training_config=unrated),
        "unrated_amd": made(15.5, gpu=golden_cases.AMD, training_config=unrated),
        "with_logs/own": made(17.0, source={"kind": "live"}),
    }
    found = {
        **golden_cases.FILES,
        **{f"{name}.json": json.dumps(run) for name, run in runs.items()},
    }
    for name, gpu, seconds, batch in (
        ("three_slow", golden_cases.NVIDIA, 21.0, 128),
        ("three_batch", golden_cases.AMD, 7.5, 64),
    ):
        several = [
            made(
                seconds + seed / 100,
                seed=seed,
                gpu=gpu,
                training_config={"global_batch_size": batch},
            )
            for seed in (1, 2, 3)
        ]
        found[f"{name}.json"] = json.dumps({**several[-1], "runs": several})
    for folder in ("with_logs/the logs", "."):
        found[f"{folder}/train.log"] = (DATA / "logs" / "litgpt_small.log").read_text(
            encoding="utf-8"
        )
    found["one step.log"] = "step 1 took 0.501 s loss 2.1\n"
    found["no unit.log"] = "".join(
        f"step {step} took {0.5 + step / 1000:.3f} loss 2.1\n" for step in range(1, 40)
    )
    found["my run.log"] = "".join(
        f"step {step} took {0.5 + step / 1000:.3f} s loss 2.1\n" for step in range(1, 40)
    )
    found["table.csv"] = "a,b,c\n" + "".join(f"{step},0.5,2\n" for step in range(1, 40))
    found["an old result.json"] = (DATA / "results" / "train_mega_qwen.json").read_text(
        encoding="utf-8"
    )
    found["occupied/page.html"] = "<p>somebody's page</p>"
    found["shape.json"] = json.dumps(
        {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128}
    )
    return found


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with the files, in which the installed command runs on a terminal that breaks no
    line.
    """
    for name, text in files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "data").symlink_to(DATA)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def typed(line: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Run a command line of tprimat in this process: exit status and all that it printed."""
    words = shlex.split(line)
    while setting := re.fullmatch(r"([A-Z_]+)=(.+)", words[0]):
        monkeypatch.setenv(*setting.groups())
        words = words[1:]
    assert words[0] == "tprimat", line
    out, before = io.StringIO(), sys.argv
    sys.argv = words
    try:
        with redirect_stdout(out), redirect_stderr(out):
            status = __main__.main()
    except SystemExit as end:
        status = end.code or 0
    finally:
        sys.argv = before
    return status, out.getvalue()


def advice(output: str) -> list[str]:
    """Return the texts after `hint:`, `Next:` and `note:` of what a command printed, each in one
    line.
    """
    found: list[str] = []
    is_open = False
    for line in output.splitlines():
        if begun := re.match(r"\s*(?:hint|Next|note): +(.*)", line):
            found.append(begun[1])
        elif is_open and re.match(r"\s*(?!\w+:)\S", line):
            found[-1] += f" {line.strip()}"
            continue
        is_open = bool(begun)
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="quotes as Unix shells do")
@pytest.mark.parametrize(
    "situation", SITUATIONS, ids=lambda each: f"{each.first} > {each.then}"[:90]
)
def test_c1_what_is_advised_works_when_typed(situation, here, monkeypatch):
    if situation.trains and (not HAS_TORCH or HAS_GPU):
        pytest.skip("PyTorch is not installed, or there is a GPU, for which other advice is right")
    situation.prepared(monkeypatch)
    _, printed = typed(situation.first, monkeypatch)
    matches = [found for text in advice(printed) if (found := re.fullmatch(situation.advice, text))]
    assert matches, f"{situation.first} printed:\n{printed}"
    (found,) = matches
    line = situation.then.format(first=situation.first, **found.groupdict())
    for word, value in situation.filled.items():
        assert word in line
        line = line.replace(word, value)
    status, printed = typed(line, monkeypatch)
    assert (status, "Traceback" in printed) == (
        situation.status,
        False,
    ), f"{line} printed:\n{printed}"
    repeated = found[0] in advice(printed)
    assert not repeated or situation.status == 6, f"{line} gives the same advice: {found[0]}"


def shown() -> Iterator[tuple[str, str]]:
    """Yield what golden files and docs show after `hint:` and `Next:`, with the place."""
    for path in sorted((REPOSITORY / "tests" / "golden").glob("*.json")):
        content = golden_form.expanded(json.loads(path.read_text(encoding="utf-8")))
        yield from ((text, path.name) for leaf in _strings(content) for text in advice(leaf))
    for path in sorted((DATA / "golden").glob("*.txt")):
        yield from ((text, path.name) for text in advice(path.read_text(encoding="utf-8")))
    for path in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]:
        lines = path.read_text(encoding="utf-8").splitlines()
        yield from (
            (text, path.name) for line in lines if line.startswith("    ") for text in advice(line)
        )


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if re.match(r"\s*(?:hint|Next): ", value):
            yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def whole(text: str, others: list[str]) -> str:
    """Return a text of which a golden file keeps the beginning, with the end of another, by its
    length and hash.
    """
    cut = re.fullmatch(r"(.*)… <(\d+) characters, sha256 (\w+)>", text)
    if cut is None:
        return text
    prefix, length = f"hint:  {cut[1]}", int(cut[2])
    ends = {other[len(prefix) - length :] for other in others}
    texts = (prefix + end for end in ends)
    return next(
        each
        for each in texts
        if hashlib.sha256(json.dumps(each).encode()).hexdigest().startswith(cut[3])
    )[7:]


def installed(pattern: str) -> str:
    """Return a pattern that takes the words of a clone too: ./benchmark.py for tprimat
    benchmark.
    """
    pattern = pattern.replace("tprimat benchmark", r"(?:tprimat benchmark|\./benchmark\.py)")
    return pattern.replace("tprimat ", "(?:python3 -m )?tprimat ").replace(
        r"(?:(?:python3 -m )?tprimat", "(?:tprimat"
    )


def test_c1_all_that_is_shown_is_tried_or_names_no_command():
    found = dict(shown())
    patterns = [*(each.advice for each in SITUATIONS), *NO_COMMAND]
    texts = {
        whole(text, list(found)).replace(", …", ", others"): place for text, place in found.items()
    }
    untried = {
        text: place
        for text, place in texts.items()
        if not any(re.fullmatch(installed(each), text) for each in patterns)
    }
    assert not untried, "\n".join(f"{place}: {text}" for text, place in untried.items())
    unused = [each for each in NO_COMMAND if not any(re.fullmatch(each, text) for text in texts)]
    assert not unused
    assert len(texts) > 50


# What the package says, from its source: each option in a text belongs to the command that the text
# names, or to one of those that the folder serves.
SERVED = {
    "frameworks": ("benchmark", "run-primus", "primus-config"),
    "measure": ("benchmark", "run-primus"),
    "slurm": ("benchmark", "collect"),
    "record": (),
    "watch": ("watch", "read"),
    "preflight": ("preflight",),
}
SCRIPTS = {"./benchmark.py": "benchmark", "./compare_results.py": "compare"}
OTHER_PROGRAMS = {"--ipc": "docker", "--shm-size": "docker", "--nproc_per_node": "torchrun"}
"""Options of other programs, and of which."""


@functools.cache
def options_of(command: str) -> frozenset[str]:
    """Return the options of a command."""
    named = [command, *(["encdec"] if command == "benchmark" else [])]
    modules = [
        importlib.import_module(f"tprimat.cli.options.{name.replace('-', '_')}") for name in named
    ]
    actions = [action for module in modules for action in module.parser()._actions]
    return frozenset(flag for action in actions for flag in action.option_strings)


def _text(node: ast.AST) -> str:
    """Return the text of an expression, with … for what is computed."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "…" for part in node.values)
    return " ".join(filter(None, map(_text, ast.iter_child_nodes(node))))


def _hints() -> Iterator[tuple[Path, int, str]]:
    """Yield the texts of hint=, of variables called so, and all that name a command with an
    option.
    """
    for path in sorted((REPOSITORY / "tprimat").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_hint = isinstance(node, ast.keyword) and node.arg in ("hint", "advice", "next_step")
            if isinstance(node, ast.Assign):
                names = [each.id.lower() for each in node.targets if isinstance(each, ast.Name)]
                is_hint = any(name.strip("_") in ("hint", "advice") for name in names)
            if is_hint:
                yield path, node.value.lineno, _text(node.value)
            elif isinstance(node, (ast.Constant, ast.JoinedStr)):
                text = _text(node)
                if re.search(r"(?:tprimat [a-z-]+|\./benchmark\.py) --", text) and "\n" not in text:
                    yield path, node.lineno, text


def test_c1_the_options_of_every_hint_exist():
    wrong = []
    checked = 0
    for path, line, text in _hints():
        parts = path.relative_to(REPOSITORY / "tprimat").parts
        own = path.stem.replace("_", "-")
        served = SERVED.get(parts[0]) or ((own,) if own in COMMANDS else tuple(COMMANDS))
        pieces = re.split(r"(tprimat [a-z-]+|\./\w+\.py)", text)
        for start, words in zip(["", *pieces[1::2]], pieces[::2], strict=True):
            named = SCRIPTS.get(start, start.removeprefix("tprimat "))
            commands = (named,) if named in COMMANDS else served
            for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", words):
                checked += 1
                if option not in OTHER_PROGRAMS and not any(
                    option in options_of(each) for each in commands
                ):
                    wrong.append(
                        f"{path.relative_to(REPOSITORY)}:{line}: {option} of {commands}: {text}"
                    )
    assert not wrong, "\n".join(wrong)
    assert checked > 60


@pytest.mark.skipif(sys.platform == "win32", reason="quotes as Unix shells do")
@pytest.mark.parametrize(
    "start",
    [
        "compare_results.py",
        "scripts/compare_with_enhanced_metrics.py",
        "tprimat/__main__.py compare",
    ],
)
def test_c1_a_clone_is_named_by_its_path_in_another_directory(start, here):
    script, *words = start.split()
    environment = {**os.environ, "COLUMNS": "200"}
    options = {
        "cwd": here,
        "env": environment,
        "text": True,
        "encoding": "utf-8",
        "stdin": subprocess.DEVNULL,
    }
    command = [sys.executable, str(REPOSITORY / script), *words, "--results-dir", "empty"]
    done = subprocess.run(command, capture_output=True, timeout=120, **options)
    (hint,) = advice(done.stderr)
    found = re.fullmatch(
        r"run python3 (?P<program>.+) benchmark first, or pass results or logs", hint
    )
    assert found, hint
    again = [sys.executable, *shlex.split(found["program"]), "compare", "a.json", "--no-plot"]
    done = subprocess.run(again, capture_output=True, timeout=120, **options)
    assert (done.returncode, done.stderr) == (0, "")
