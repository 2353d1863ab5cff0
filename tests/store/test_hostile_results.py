"""The loader under fire: whatever the bytes, a Run or one line, within bounds."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored_runs import notes_of, series

from tprimat import cli
from tprimat.analysis.summary import summarize
from tprimat.errors import UnreadableError
from tprimat.log_import import inputs
from tprimat.results.result_file import encode
from tprimat.results.run import Run
from tprimat.store import store

STEPS = 25
RUN = Run(
    platform="cpu",
    framework="lightning",
    model="llama",
    label="é\u202e",
    timestamp="2026-11-21T10:00:00+00:00",
    notes=notes_of("a doubt"),
    native_metrics={"rate": 4.5, "each": (1.0,) * STEPS},
    **series(
        [0.1 + step / 1e4 for step in range(STEPS)],
        loss_values=(2.5,) * STEPS,
        grad_norms=(1.5,) * STEPS,
    ),
)
WHOLE = encode(store.as_file((RUN, RUN)))
MOST_LINES = 2000

# The same ones each time: a check that fails is to fail again.
EXAMPLES = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
MANY = settings(EXAMPLES, max_examples=6_000)


def loads_or_says(folder: Path, content: bytes) -> bool:
    """Whether a file is read; where it isn't, that it is said as it should be."""
    path = folder / "x.json"
    path.write_bytes(content)
    try:
        runs = store.read(path)
    except UnreadableError as error:
        line = error.line()
        assert line.startswith(f"error: {path}")
        assert all(part.isprintable() for part in line.splitlines())
        assert len(line) < MOST_LINES
        return False
    for run in runs:
        # What is let through can be summed up and kept.
        summarize(run)
    assert store.as_file(runs[:1]).runs
    return True


flips = st.lists(
    st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(1, 255)), min_size=1, max_size=12
)


def flipped(places) -> bytes:
    content = bytearray(WHOLE)
    for place, mask in places:
        content[place] ^= mask
    return bytes(content)


splices = st.tuples(st.integers(0, len(WHOLE)), st.integers(0, len(WHOLE)), st.binary(max_size=30))


def spliced(splice) -> bytes:
    first, second, between = splice
    return WHOLE[:first] + between + WHOLE[second:]


@EXAMPLES
@given(flips)
def test_flipped_bytes(tmp_path, places):
    assert loads_or_says(tmp_path, flipped(places)) in (True, False)


@EXAMPLES
@given(splices)
def test_parts_left_out_doubled_and_put_in(tmp_path, splice):
    assert loads_or_says(tmp_path, spliced(splice)) in (True, False)


@pytest.mark.reliability
@MANY
@given(st.one_of(flips.map(flipped), splices.map(spliced)))
def test_the_same_thousands_of_times(tmp_path, content):
    assert loads_or_says(tmp_path, content) in (True, False)


PLAIN = json.loads(WHOLE)
odd = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=20),
        st.sampled_from(["../../x", "\x1b[2J", "<script>", "NaN", "9" * 400, "\ud800"[:0]]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


@EXAMPLES
@given(st.dictionaries(st.sampled_from(sorted(PLAIN)), odd, min_size=1, max_size=4))
def test_values_of_any_form_in_any_field(tmp_path, changes):
    assert loads_or_says(tmp_path, json.dumps({**PLAIN, **changes}).encode()) in (True, False)


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":', '"x",['])
@pytest.mark.parametrize("field", ["runs", "steps", "breakdown", "an unknown field"])
def test_deep_nesting_in_a_field(tmp_path, field, opening):
    head = json.dumps(PLAIN)[:-1]
    content = f"{head}, {json.dumps(field)}: [{opening * 300_000}".encode()
    assert not loads_or_says(tmp_path, content)


# The peak of its own memory: what getrusage calls that may be the peak of the process that started
# it.
READS = """
import re, sys
from pathlib import Path
from tprimat.analysis.summary import summarize
from tprimat.store import store
(run,) = store.read(Path(sys.argv[1]))
total = summarize(run).performance.total_steps
status = Path("/proc/self/status")
print(len(run.steps), total, re.search(r"VmHWM:\\s*(\\d+)", status.read_text())[1] if status.exists() else 0)
"""
NEVER_S = 1800
"""Seconds. What grew with the square of the steps would take longer, and no slow machine does."""


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.reliability)])
def test_a_long_training_is_read_within_bounds(tmp_path, repository, count):
    fields = {
        name: "[" + ",".join(["1"] * count) + "]"
        for name in ("window_steps", "loss_values", "grad_norms")
    }
    fields["steps"] = "[" + ",".join(map(str, range(1, count + 1))) + "]"
    fields["step_times"] = "[" + ",".join(f"0.1{step % 7}" for step in range(count)) + "]"
    fields |= {name: "[" + ",".join(["null"] * count) + "]" for name in ("learning_rates", "lines")}
    path = tmp_path / "long.json"
    body = ",".join(f'"{name}": {series}' for name, series in fields.items())
    path.write_text('{"schema_version": 1, "model": "llama", ' + body + "}")
    done = subprocess.run(
        [sys.executable, "-c", READS, str(path)],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=NEVER_S,
    )
    assert done.returncode == 0, done.stderr
    steps, total, peak_kib = map(int, done.stdout.split())
    assert steps == total == count
    # numpy and scipy are loaded on the way; 40 times the file's size would be out of all
    # proportion.
    assert peak_kib * 1024 < 250e6 + 40 * path.stat().st_size


# What is no file


def said_of(repository, folder, *arguments):
    """What a command prints as an error, and its status; it must not wait for anything."""
    done = subprocess.run(
        [sys.executable, "-m", "tprimat", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(repository)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=NEVER_S,
    )
    return done.returncode, done.stderr.splitlines()


posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")


@posix
@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "NAME"],
        ["compare", "--baseline", "NAME", "--candidate", "NAME"],
        ["enhanced-metrics", "NAME"],
        ["read", "NAME"],
        ["extract-primus", "--log-file", "NAME"],
        ["benchmark", "--match", "NAME", "--dry-run"],
        ["primus-config", "NAME"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
@pytest.mark.parametrize(
    ("make", "kind"), [(True, "a pipe"), (False, "a device")], ids=["pipe", "device"]
)
def test_what_is_no_file_is_one_line_and_not_waited_for(
    tmp_path, monkeypatch, capsys, arguments, make, kind
):
    pytest.importorskip("yaml")
    monkeypatch.chdir(tmp_path)
    name = "/dev/zero"
    if make:
        name = "log.json"
        os.mkfifo(tmp_path / name)
    command, *words = (name if each == "NAME" else each for each in arguments)
    assert cli.run(command, words) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) <= 3
    assert f"it is {kind}, not a file" in said[0]
    assert said[0].count(name) <= 2


@posix
def test_pipes_in_a_folder_are_passed_over(tmp_path, repository):
    for name in ("x.json", "x.log", "events.out.tfevents.1", "hparams.yaml", ".journal/1-a.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / name)
    (tmp_path / "good.json").write_bytes(WHOLE)
    assert [Path(each.name).name for each in store.find([tmp_path])[0]] == ["good.json"]
    for command in ("compare", "read"):
        _, said = said_of(repository, tmp_path, command, str(tmp_path))
        assert not any("fault" in line for line in said)


@posix
def test_x6_a_pipe_in_the_place_of_a_file_of_ours_is_not_waited_for(tmp_path, repository):
    for name in ("comparison_report.md", "job.description", "0.node", "trainings.jsonl"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "good.json").write_bytes(WHOLE)
    words = ("compare", "good.json", "--results-dir", str(tmp_path), "--no-plot", "--verbose")
    assert said_of(repository, tmp_path, *words)[0] in (0, 3)
    assert said_of(repository, tmp_path, "collect", str(tmp_path))[0] == 2
    code = "import pathlib; from tprimat.measure import attempt; from tprimat.record import nodes; "
    code += (
        "here = pathlib.Path(); assert nodes.read(here, 1)[0] == () and attempt.begun(here) == []"
    )
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, timeout=60, check=True
    )


@pytest.mark.skipif(
    not hasattr(os, "symlink") or sys.platform == "win32", reason="needs symbolic links"
)
def test_links_that_lead_nowhere_or_round_are_a_warning(tmp_path):
    (tmp_path / "good.json").write_bytes(WHOLE)
    (tmp_path / "nowhere.json").symlink_to("gone.json")
    (tmp_path / "round.json").symlink_to("round.json")
    loaded, warnings = store.find([tmp_path])
    assert [Path(each.name).name for each in loaded] == ["good.json"]
    assert len(warnings) == 2


# What unpacks without end


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("filling", [b"\0", b"\n", b"step:1 loss:2.0\n"])
def test_a_bomb_is_unpacked_to_a_bound(tmp_path, monkeypatch, pack, filling):
    monkeypatch.setattr(inputs, "UNPACKED_FREELY", 1 << 20)
    path = tmp_path / "bomb.log"
    size = 4 << 20
    packed = pack(filling * (size // len(filling)))
    path.write_bytes(packed)
    log = inputs.Log(str(path))
    unpacked = sum(len(chunk) for chunk in log.chunks())
    assert unpacked <= max(1 << 20, inputs.MOST_TIMES * len(packed))
    assert unpacked < size
    assert "times its size" in log.cut
    assert log.source_file().sha256 == hashlib.sha256(packed).hexdigest()


def test_what_a_bomb_begins_with_is_read_and_the_rest_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(inputs, "UNPACKED_FREELY", 1 << 16)
    monkeypatch.chdir(tmp_path)
    steps = "".join(
        f"step:{step}/99 train_loss:2.5 train_time:{100 * step}ms step_avg:100.00ms\n"
        for step in range(1, 60)
    )
    Path("bomb.log.gz").write_bytes(gzip.compress(steps.encode() + b"\n" * (8 << 20)))
    assert cli.run("read", ["bomb.log.gz", "--output-dir", "out"]) == 0, capsys.readouterr()
    (path,) = Path("out").glob("*.json")
    (run,) = store.read(path)
    assert len(run.steps) == 59
    assert any("read only in part" in warning for warning in run.warnings)


def test_a_log_that_packs_well_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "UNPACKED_FREELY", 1 << 16)
    lines = "".join(
        f"step {step} loss {1 / (1 + step):.6f} time {step * 7919 % 997}\n"
        for step in range(20_000)
    )
    path = tmp_path / "x.log.gz"
    path.write_bytes(gzip.compress(lines.encode()))
    log = inputs.Log(str(path))
    assert b"".join(log.chunks()).decode() == lines
    assert log.cut is None
