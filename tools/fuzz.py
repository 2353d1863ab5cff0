#!/usr/bin/env python3
"""Damages every kind of input and gives it to the commands: readers, loaders and writers together.

    tools/fuzz.py --minutes 60
    tools/fuzz.py --seed 7 --first 1234 --inputs 1        one input again, as a finding names it

The inputs are results, bundles, profiler traces, logs and files of every format (those of
tools/fuzz_logs.py), journals, telemetry, Primus' YAML, tuned configurations and preflights, each
damaged and with a secret planted in it. Each answer comes from a process of its own with limits of
memory and time. A finding is

- a traceback, an internal error, a status that no command promises, or an end by a signal;
- the planted secret, in what is printed or in a file that is written;
- a torn file: half a JSON, page, plot or archive, a part file, or a journal that stays;
- more than 60 s, or more memory than the limit.

Runs on Linux. Ends with status 1 after a finding.
"""

from __future__ import annotations

import argparse
import collections
import copy
import dataclasses
import gzip
import importlib
import io
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "tests"), str(ROOT / "tests" / "read")]
# Arrow's default allocator fails at random if the address space is limited.
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"

import fuzz_logs
import made_files
import made_preflights
import msgspec
import primus_tree
import telemetry_faults
from made_runs import H100, MI300X, make_run
from made_secrets import SECRETS
from made_traces import MadeTrace

import tprimat
from tprimat import cli
from tprimat.errors import TensorPrimatError
from tprimat.machine.telemetry import trace as telemetry_trace
from tprimat.record import folders, telemetry
from tprimat.redaction import redacted
from tprimat.results.run import Run
from tprimat.store.store import as_file, encode

LIMIT_S = 60.0
"""How long an answer may take."""

MEMORY = 1 << 30
"""Bytes of address space that an answer may need beyond what the fuzzer has itself."""

STATUSES = range(7)
"""Exit statuses that commands promise; 70 is an internal error."""

_BY_THEMSELVES = tuple(
    (word, secret)
    for line, secret in SECRETS
    for word in line.split()
    if secret in word
    and word.replace(secret, "").strip("-_.").isidentifier()
    and secret not in redacted(word)
)
"""Words that are known as secrets by their own form, wherever they stand, and the secret in each:
ghp_… and its ….
"""

_VALUES = (
    None,
    True,
    -1,
    0,
    1,
    1e308,
    10**30,
    "",
    "nan",
    "x" * 5000,
    "../../x",
    "\x1b[31m",
    "<script>",
    [],
    {},
    [[]],
)
"""What a field of a JSON is replaced by."""


@dataclasses.dataclass(frozen=True)
class Input:
    """What a command is given.

    Attributes:
        name: of the file, relative to the working directory.
        content: of it.
        commands: that may be given it: `{}` is its name; `good.json` and `other.json` lie beside
            it.
        beside: further files.
    """

    name: str
    content: bytes
    commands: tuple[str, ...]
    beside: dict[str, bytes] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that must not be.

    Attributes:
        number: of the input.
        kind: of it.
        command: that answered.
        what: in words.
    """

    number: int
    kind: str
    command: str
    what: str


READING = (
    "read {} --output-dir out",
    "read {} --output-dir out --json --jobs 1 --gpu H100 --num-gpus 8",
    "extract-primus --log-file {} --output-dir out",
    "compare {} good.json --no-plot --json",
    "compare {} good.json --results-dir out",
    "compare good.json {} --no-plot --verbose --cost 2 3",
    "compare --baseline good.json --candidate {} --max-slowdown 3% --summary out/summary.md",
    "export {} --csv out/steps.csv",
    "export {} --jsonl -",
    "efficiency {} --gpu H100 --precision bf16",
    "watch {} --max-stall 0.05 --interval 0.05 --baseline good.json",
    "extract-primus --log-file {} --output-dir out --bundle out/packed.tar.gz --anonymise",
    "api {}",
)
RESULTS = (
    *READING[3:8],
    "efficiency {} --json --cost 2.5",
    "project {} good.json --gpus 64",
    "compare {} good.json other.json --scaling --time --efficiency --no-plot",
    "compare-frameworks --results-dir . --no-plot",
    "nvd-compare --results-dir .",
    "benchmark --match {} --dry-run --output-dir out",
    "primus-config --against {}",
    "export {} --parquet out/steps.parquet",
    "collect {}",
    "api {}",
)
BUNDLES = (
    "verify {}",
    "verify {} --json",
    "compare {} good.json --results-dir out",
    "read {} --output-dir out",
    "api {}",
)
TRACES = (
    "explain {} good_trace.json",
    "explain good_trace.json {} --json",
    "explain {} {} --verbose",
)


def damaged(rng: random.Random, content: bytes) -> bytes:
    """Return a whole file with some damage, as tools/fuzz_logs.py does it; one in ten times
    none.
    """
    return content if rng.random() < 0.1 else fuzz_logs.damaged(rng, [content], whole=True)


def damaged_json(rng: random.Random, content: bytes, secret: str) -> bytes:
    """Return JSON with other values in some places, a secret in a text, or bytes damaged."""
    if rng.random() < 0.3:
        return damaged(rng, content)
    value = json.loads(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place, key = _place(rng, value)
        if place is None:
            continue
        draw = rng.random()
        old = place[key]
        if draw < 0.3 and isinstance(old, str):
            place[key] = f"{old} {secret} {old}"
        elif draw < 0.45 and isinstance(place, dict):
            place[rng.choice([*place, "more"])] = place.pop(key)
        elif draw < 0.6 and isinstance(old, (int, float)):
            place[key] = old * rng.choice((-1, 0, 1e-9, 1000, 1e300))
        elif draw < 0.7 and isinstance(old, list):
            place[key] = old * rng.choice((0, 2, 30))
        else:
            place[key] = copy.deepcopy(rng.choice(_VALUES))
    return json.dumps(value).encode()


def _place(rng: random.Random, value: object) -> tuple[dict | list | None, str | int]:
    """Return a container within a value, and a key of it."""
    if not isinstance(value, (dict, list)) or not value:
        return None, 0
    key, chosen = rng.choice(list(value.items() if isinstance(value, dict) else enumerate(value)))
    if isinstance(chosen, (dict, list)) and chosen and rng.random() < 0.8:
        return _place(rng, chosen)
    return value, key


def with_secret(rng: random.Random, content: bytes, line: str) -> bytes:
    """Return a text with another line somewhere, in the text's own encoding."""
    encoding = "utf-16-le" if content[:2] == b"\xff\xfe" else "utf-8"
    newline = "\n".encode(encoding)
    place = content.find(newline, rng.randrange(len(content) + 1))
    place = len(content) if place < 0 else place + len(newline)
    if encoding == "utf-16-le" and place % 2:
        return content
    return content[:place] + f"{line}\n".encode(encoding) + content[place:]


def a_run(rng: random.Random, **fields: object) -> Run:
    """Return a run as it would be stored."""
    amd = rng.random() < 0.5
    return make_run(
        MI300X if amd else H100, stack="rocm" if amd else "cuda", steps=rng.choice((0, 1, 5, 60)),
        step_time=rng.uniform(0.1, 4.0), gpus=rng.choice((1, 8, 16, None)), precision=rng.choice(("bf16", "fp8", None)),
        **fields,
    )  # fmt: skip


def _result(rng: random.Random, line: str, secret: str) -> Input:
    roots = (ROOT / "tests" / "data", ROOT / "docs" / "examples", fuzz_logs.SAMPLES / "results")
    files = [
        path
        for each in roots
        for path in sorted(each.rglob("*.json"))
        if "golden" not in path.parts
    ]
    made = encode(as_file([a_run(rng)] * rng.choice((1, 1, 3))))
    content = made if rng.random() < 0.5 else rng.choice(files).read_bytes()
    return Input("given.json", damaged_json(rng, content, secret), RESULTS)


def _log(rng: random.Random, line: str, secret: str) -> Input:
    name = rng.choice(list(_logs()))
    content = fuzz_logs.made(rng, name, _logs()[name])
    if name in fuzz_logs.LINES or name.startswith("real"):
        content = with_secret(rng, content, line)
    ending = (
        rng.choice((".log", ".txt", ".jsonl", ".csv", ".json", ""))
        if name not in made_files.RECORDS
        else ""
    )
    packed = rng.random() < 0.1
    named = {"wandb, run": "run-1.wandb", "tensorboard": "events.out.tfevents.1.host"}.get(
        name, f"given{ending}"
    )
    beside = {
        f"{Path(named).stem}.env.json": damaged_json(
            rng, b'{"started": "2026-01-01T00:00:00+00:00"}', secret
        )
    }
    commands = (
        READING
        if name not in made_files.TABLES
        else ("read {} --columns step=step,time=time --output-dir out",)
    )
    return Input(
        named + ".gz" * packed, gzip.compress(content) if packed else content, commands, beside
    )


def _logs(known: dict[str, list[bytes]] = {}) -> dict[str, list[bytes]]:  # noqa: B006 - read once
    if not known:
        known.update(fuzz_logs.originals())
    return known


def _bundle(rng: random.Random, line: str, secret: str) -> Input:
    members = {
        "given/results/benchmark_rocm_llama.json": damaged_json(
            rng, encode(as_file([a_run(rng)])), secret
        ),
        "given/logs/train.log.gz": gzip.compress(
            with_secret(rng, fuzz_logs.OWN.encode() * 5, line)
        ),
        "given/environment/benchmark_rocm_llama.json": damaged_json(
            rng, b'{"versions": {"torch": "2.8"}}', secret
        ),
        "given/README.txt": damaged(rng, b"what is here\n"),
        rng.choice(
            ("../x.json", "/etc/x.log", "given/results/a/b.json", "given/logs/y.log")
        ): damaged(rng, b"{}"),
    }
    names = rng.sample(list(members), rng.randint(1, len(members)))
    buffer = io.BytesIO()
    if rng.random() < 0.5:
        with zipfile.ZipFile(buffer, "w") as archive:
            for name in names:
                archive.writestr(name, members[name])
        name = "given.zip"
    else:
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for each in names:
                entry = tarfile.TarInfo(each)
                entry.size = len(members[each])
                entry.type = rng.choice((tarfile.REGTYPE,) * 8 + (tarfile.SYMTYPE, tarfile.LNKTYPE))
                entry.linkname = "../../good.json"
                archive.addfile(entry, io.BytesIO(members[each]) if entry.isreg() else None)
        name = "given.tar.gz"
    content = buffer.getvalue()
    return Input(name, damaged(rng, content) if rng.random() < 0.3 else content, BUNDLES)


def a_trace() -> bytes:
    """Return a profiler trace of three steps."""
    made = MadeTrace(0, 1)
    for step in range(3):
        start = step * 1000.0
        made.step(step, start, start + 1000)
        made.operator("aten::mm", start + 5, start + 20)
        made.kernel("ampere_bf16_gemm", start + 10, start + 100, start + 600)
        made.kernel(
            "ncclDevKernel_AllReduce_Sum_bf16", start + 30, start + 500, start + 900, stream=20
        )
    return made.text()


def _trace(rng: random.Random, line: str, secret: str) -> Input:
    content = damaged_json(rng, a_trace(), secret)
    packed = rng.random() < 0.3
    return Input(
        "given.pt.trace.json" + ".gz" * packed,
        gzip.compress(content) if packed else content,
        TRACES,
    )


def _journal(rng: random.Random, line: str, secret: str) -> Input:
    owner = {"pid": 999999999, "started": 1, "host": rng.choice((os.uname().nodename, "elsewhere"))}
    run = msgspec.to_builtins(make_run(steps=0, warmup=()))
    lines = [
        {"journal": 1, "owner": owner},
        {"run": run},
        *([step, 1, 0.5, 2.0, None, 1.0] for step in range(1, 9)),
    ]
    content = b"".join(json.dumps(each).encode() + b"\n" for each in lines)
    commands = ("compare out good.json --no-plot", "efficiency out", "export out --csv -")
    return Input(
        f"out/{folders.JOURNALS}/1-abc.jsonl",
        with_secret(rng, damaged(rng, content), line),
        commands,
    )


def _telemetry(rng: random.Random, line: str, secret: str) -> Input:
    plan = telemetry_faults.Plan(
        rng, rng.choice(("h100", "mi300x", "cpu")), gpus=1, duration_s=20.0
    )
    trace = telemetry_faults.make(plan).trace
    content = b"\n".join(map(telemetry_trace.encode, (trace.header, *trace.samples)))
    return Input("given.telemetry", damaged(rng, content), ("telemetry {}",))


def _primus(rng: random.Random, line: str, secret: str) -> Input:
    content = with_secret(rng, damaged(rng, primus_tree.experiment("llama").encode()), line)
    return Input(
        "given.yaml",
        content,
        ("primus-config {}", "primus-config {} --json", "primus-config {} --against good.json"),
    )


def _tuned(rng: random.Random, line: str, secret: str) -> Input:
    tuned = {
        "tuned_config": 1,
        "options": {"--model": "llama", "--micro-batch-size": 2},
        "default": "x",
        "trials": [],
    }
    commands = (
        "benchmark --config {} --dry-run --output-dir out",
        "benchmark --config {} --dry-run --json",
    )
    return Input(
        "tuned_given.json", damaged_json(rng, json.dumps(tuned).encode(), secret), commands
    )


def _preflight(rng: random.Random, line: str, secret: str) -> Input:
    content = msgspec.json.encode(made_preflights.preflight())
    commands = (
        "efficiency good.json --gpu H100",
        "compare good.json other.json --no-plot",
        "compare . --no-plot",
        "doctor",
    )
    return Input("preflight_given.json", damaged_json(rng, content, secret), commands)


KINDS: dict[str, Callable[[random.Random, str, str], Input]] = {
    "log": _log, "result": _result, "bundle": _bundle, "trace": _trace, "journal": _journal, "telemetry": _telemetry,
    "primus": _primus, "tuned": _tuned, "preflight": _preflight,
}  # fmt: skip


def answer(arguments: Sequence[str]) -> int:
    """Run a command of tprimat, or one of the two that are none: `api FILE` and `telemetry
    FILE`.
    """
    command, *rest = arguments
    if command == "api":
        try:
            found = tprimat.load(rest[0])
            print(found, len(found.steps()))
            print(tprimat.compare(rest[0], "good.json"))
        except TensorPrimatError as error:
            print(error.line(), file=sys.stderr)
            return error.status
        return 0
    if command == "telemetry":
        made = telemetry_faults.make(
            telemetry_faults.Plan(random.Random(1), "h100", gpus=1, duration_s=20.0)
        )
        trace = telemetry_trace.decode(Path(rest[0]).read_bytes().splitlines())
        if trace is not None:
            encode(as_file([telemetry.with_trace(made.run, made.steps, trace, 1)]))
        return 0
    return cli.run(command, rest)


def started(arguments: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run a command in a process of its own; return its wait status (-1: too late) and what it
    printed.
    """
    with (folder / "said").open("wb") as said:
        pid = os.fork()
        if pid == 0:
            status = 99
            try:
                os.setsid()
                os.chdir(folder)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
                sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
                sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
                size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY,) * 2)
                sys.argv = ["tprimat", *arguments]
                try:
                    status = answer(arguments)
                except SystemExit as error:
                    status = error.code if isinstance(error.code, int) else 1
                except BaseException:  # noqa: BLE001 - whatever it is, the parent looks for it
                    traceback.print_exc()
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)
    deadline = time.monotonic() + LIMIT_S
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            status = -1
            break
        time.sleep(0.002)
    return status, (folder / "said").read_text(encoding="utf-8", errors="replace")


_ENDS = {".html": b"</html>", ".png": b"IEND\xaeB`\x82"}


def torn(path: Path) -> str | None:
    """Return what is wrong with the form of a file that was written; None if nothing is."""
    if ".part" in path.name or path.parent.name == folders.JOURNALS:
        return f"{path.name} is left"
    content = path.read_bytes()
    try:
        if path.suffix == ".json":
            json.loads(content)
        elif (end := _ENDS.get(path.suffix)) and not content.rstrip().endswith(end):
            return f"{path.name} has no end"
        elif path.suffix == ".gz":
            gzip.decompress(content)
    except (ValueError, OSError, EOFError) as error:
        return f"{path.name}: {error}"
    return None


def wrong(status: int, said: str, written: Sequence[Path], secret: str) -> Iterator[str]:
    """Yield what must not be about an answer."""
    if status == -1:
        yield f"no answer within {LIMIT_S:.0f} s"
    elif os.WIFSIGNALED(status):
        yield f"ended by signal {os.WTERMSIG(status)}"
    elif os.WEXITSTATUS(status) not in STATUSES:
        yield f"status {os.WEXITSTATUS(status)}"
    if (
        "Traceback (most recent call last)" in said
        or "internal error" in said
        or "MemoryError" in said
    ):
        yield "a traceback"
    if secret in said:
        yield "the secret is printed"
    for path in written:
        if secret.encode() in _plain(path):
            yield f"the secret is in {path.name}"
        if (reason := torn(path)) is not None:
            yield f"torn: {reason}"


def _plain(path: Path) -> bytes:
    """Return what a written file holds, unpacked."""
    content = path.read_bytes()
    if not path.name.endswith(".tar.gz"):
        return content
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = [archive.extractfile(each) for each in archive if each.isreg()]
        parts = [each.read() for each in members if each is not None]
    return b"\n".join(gzip.decompress(each) if each[:2] == b"\x1f\x8b" else each for each in parts)


def given(seed: int, number: int, kinds: Sequence[str]) -> tuple[str, Input, str, str]:
    """Return the kind of an input, it, the command that gets it and the secret in it."""
    rng = random.Random(f"{seed} {number}")
    kind = kinds[number % len(kinds)]
    line, secret = rng.choice(SECRETS)
    word, by_itself = rng.choice(_BY_THEMSELVES)
    # Lines carry what makes their secret one; other places get one that is known by itself.
    made = KINDS[kind](rng, line, word)
    return (
        kind,
        made,
        rng.choice(made.commands),
        secret if secret.encode() in made.content else by_itself,
    )


def fuzz(
    seed: int,
    *,
    minutes: float | None = None,
    inputs: int | None = None,
    first: int = 0,
    kinds: Sequence[str] = (),
) -> Iterator[tuple[str, Finding | None]]:
    """Give damaged inputs to commands; yield the kind of each, and what was found.

    Args:
        seed: the same one makes the same inputs.
        minutes: of wall time, after which it ends.
        inputs: after which it ends.
        first: number of the first input.
        kinds: names in KINDS; all without any.
    """
    for name in (
        *(f"tprimat.cli.{each.replace('-', '_')}" for each in cli.COMMANDS),
        "matplotlib.pyplot",
        "pandas",
    ):
        importlib.import_module(name)  # once, not in each process that answers
    ends = None if minutes is None else time.monotonic() + 60 * minutes
    for number in itertools.count(first):
        if (inputs is not None and number >= first + inputs) or (
            ends is not None and time.monotonic() >= ends
        ):
            return
        kind, made, command, secret = given(seed, number, kinds or list(KINDS))
        folder = Path(tempfile.mkdtemp(prefix="tprimat-fuzz-"))
        try:
            yield kind, _tried(folder, number, kind, made, command, secret)
        finally:
            shutil.rmtree(folder)


def _tried(
    folder: Path, number: int, kind: str, made: Input, command: str, secret: str
) -> Finding | None:
    (folder / "out").mkdir()
    rng = random.Random(1)
    good = {name: encode(as_file([a_run(rng, label=name)])) for name in ("good", "other")}
    laid = {
        made.name: made.content,
        **made.beside,
        "good.json": good["good"],
        "other.json": good["other"],
    }
    for name, content in {**laid, "good_trace.json": a_trace()}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    status, said = started(command.replace("{}", made.name).split(), folder)
    written = [
        path for path in folder.rglob("*")
        # A journal that can't be read is kept as it is, under another name.
        if path.is_file() and path.name != "said" and path.suffix != ".unreadable"
        and path.stat().st_mtime_ns != before.get(path)
    ]  # fmt: skip
    found = list(wrong(status, said, sorted(written), secret))
    return Finding(number, kind, command, f"{'; '.join(found)}\n{said[-1500:]}") if found else None


def main() -> int:
    """Fuzz; return 1 when something was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--minutes", type=float, help="how long (60, or as many as --inputs take)")
    parser.add_argument("--inputs", type=int, help="how many")
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=KINDS,
        metavar="KIND",
        default=list(KINDS),
        help=", ".join(KINDS),
    )
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="makes the same inputs again (the time)"
    )
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first input (%(default)s)"
    )
    parser.add_argument("--keep", type=Path, help="a directory to keep the inputs of findings in")
    options = parser.parse_args()
    minutes = 60.0 if options.minutes is None and options.inputs is None else options.minutes
    print(f"seed {options.seed}: {', '.join(options.kinds)}", flush=True)
    counts: collections.Counter[str] = collections.Counter()
    found = 0
    reported = time.monotonic()
    settings = {
        "minutes": minutes,
        "inputs": options.inputs,
        "first": options.first,
        "kinds": options.kinds,
    }
    for kind, finding in fuzz(options.seed, **settings):
        counts[kind] += 1
        if time.monotonic() - reported >= 60:
            reported = time.monotonic()
            print(f"{counts.total()} inputs so far, {found} findings", flush=True)
        if finding is None:
            continue
        found += 1
        again = (
            f"--seed {options.seed} --first {finding.number} --inputs 1 --kinds"
            f" {' '.join(options.kinds)}"
        )
        print(
            f"\n{finding.kind}, {finding.command}: {finding.what}\nagain: tools/fuzz.py {again}",
            flush=True,
        )
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            content = given(options.seed, finding.number, options.kinds)[1].content
            (options.keep / f"{options.seed}-{finding.number}-{finding.kind}").write_bytes(content)
    print(
        f"{counts.total()} inputs ({', '.join(f'{n} {kind}' for kind, n in counts.items())}),"
        f" {found} findings"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
