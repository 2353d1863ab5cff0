"""The loader under fire: whatever the bytes, a Run or one line, within bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tprimat import metrics, store
from tprimat.errors import UnreadableError
from tprimat.run import Run

STEPS = 25
RUN = Run(
    platform="cpu",
    framework="lightning",
    model="llama",
    label="é\u202e",
    timestamp="2026-11-21T10:00:00+00:00",
    warnings=("a doubt",),
    native_metrics={"rate": 4.5, "each": (1.0,) * STEPS},
    steps=tuple(range(1, STEPS + 1)),
    window_steps=(1,) * STEPS,
    step_times=tuple(0.1 + step / 1e4 for step in range(STEPS)),
    loss_values=(2.5,) * STEPS,
    learning_rates=(None,) * STEPS,
    grad_norms=(1.5,) * STEPS,
    lines=(None,) * STEPS,
)
WHOLE = store.encode(store.as_file((RUN, RUN)))
MOST_LINES = 2000

EXAMPLES = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MANY = settings(EXAMPLES, max_examples=15_000)


def loads_or_says(folder: Path, content: bytes) -> bool:
    """Whether a file is read; where it isn't, that it is said as it should be."""
    path = folder / "x.json"
    path.write_bytes(content)
    try:
        runs = store.read(path)
    except UnreadableError as error:
        line = error.line()
        assert line.startswith(f"error: {path}")
        assert line.isprintable()
        assert len(line) < MOST_LINES
        return False
    for run in runs:
        # What is let through can be summed up and kept.
        metrics.summarize(run)
    assert store.as_file(runs[:1]).runs
    return True


flips = st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(1, 255)), min_size=1, max_size=12)


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
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
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


READS = """
import resource, sys
from pathlib import Path
from tprimat import metrics, store
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
(run,) = store.read(Path(sys.argv[1]))
total = metrics.summarize(run).performance.total_steps
print(len(run.steps), total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits are POSIX's")
@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.reliability)])
def test_a_long_training_is_read_within_bounds(tmp_path, repository, count):
    fields = {name: "[" + ",".join(["1"] * count) + "]" for name in ("window_steps", "loss_values", "grad_norms")}
    fields["steps"] = "[" + ",".join(map(str, range(1, count + 1))) + "]"
    fields["step_times"] = "[" + ",".join(f"0.1{step % 7}" for step in range(count)) + "]"
    fields |= {name: "[" + ",".join(["null"] * count) + "]" for name in ("learning_rates", "lines")}
    path = tmp_path / "long.json"
    body = ",".join(f'"{name}": {series}' for name, series in fields.items())
    path.write_text('{"schema_version": 1, "model": "llama", ' + body + "}")
    done = subprocess.run(
        [sys.executable, "-c", READS, str(path)], cwd=repository, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    steps, total, peak_kib = map(int, done.stdout.split())
    assert steps == total == count
    # Some 40 times the file's size would be out of all proportion.
    assert peak_kib * 1024 < 250e6 + 40 * path.stat().st_size
