"""Stored results that were read from a log by rules that have changed since carry a caveat."""

from __future__ import annotations

import msgspec
import pytest
from made_mlperf import mlperf_log, read_log
from made_runs import make_run
from stored_runs import series, text_of, written

from tprimat.compare import Loaded, compare
from tprimat.notes import Note
from tprimat.results.result_file import encode
from tprimat.results.run import Run, Source
from tprimat.store import store

BLOCKS = ((12, 12_000, 900), (12, 12_000, 900), (12, 12_000, 900))
NOTE = (Note("read-otherwise"),)


def stored(folder, run: Run, version: int = 1) -> tuple[Note, ...]:
    """The notes of a run that was read from a log, written with a schema version and read again."""
    dialect = f"mlperf ({run.model})" if run.framework == "mlperf" else "llama_factory"
    run = msgspec.structs.replace(run, source=Source(kind="log", dialect=dialect), notes=())
    content = encode(store.as_file((run,))).decode()
    (again,) = store.read(
        written(
            folder / "r.json",
            content.replace('"schema_version": 2', f'"schema_version": {version}'),
        )
    )
    return again.notes


def changed(run: Run, **durations: float) -> Run:
    """A run whose entries of a kind last so many times as long, and begin where they did."""
    entries = (
        msgspec.structs.replace(each, duration=each.duration * durations.get(each.kind, 1.0))
        for each in run.timeline
    )
    return msgspec.structs.replace(run, timeline=tuple(entries))


@pytest.mark.parametrize("version", [1, 2])
def test_t1_blocks_that_older_versions_did_not_read(tmp_path, version):
    run = read_log(mlperf_log(BLOCKS))
    assert stored(tmp_path, run, version) == ()
    first = next(index for index, each in enumerate(run.timeline) if each.kind == "training")
    without = [
        each for index, each in enumerate(run.timeline) if each.kind != "training" or index == first
    ]
    # A file of the present version was not read by an older one.
    assert stored(
        tmp_path, msgspec.structs.replace(run, timeline=tuple(without)), version
    ) == NOTE * (version == 1)


@pytest.mark.parametrize(("start", "is_said"), [(1_660, False), (1_690, True)])
def test_t1_a_start_up_as_long_as_a_block(tmp_path, start, is_said):
    # Of 36 s of training 5% are 1.8 s; 0.12 s are there as it is, and 0.004 s lie between blocks.
    lines = mlperf_log(BLOCKS).splitlines()
    begun = next(index for index, line in enumerate(lines) if '"block_start"' in line)
    for index in range(begun, len(lines)):
        time = lines[index].partition('"time_ms": ')[2].partition(",")[0]
        lines[index] = lines[index].replace(time, str(int(time) + start))
    assert stored(tmp_path, read_log("\n".join(lines) + "\n")) == NOTE * is_said


@pytest.mark.parametrize(
    ("share", "is_said"), [(1.0, False), (1 / 1.0049, False), (1 / 1.0051, True), (1.1, False)]
)
def test_t3_blocks_that_are_faster_than_the_records_of_their_steps(tmp_path, share, is_said):
    content = mlperf_log(BLOCKS).replace('"train_loss"', '"train_step_time": 1.0, "train_loss"')
    run = read_log(content)
    assert set(run.step_times) == {1.0}
    assert stored(tmp_path, changed(run, training=share)) == NOTE * is_said


@pytest.mark.parametrize(("length", "is_said"), [(None, False), (4096, True)])
def test_t2_tokens_of_reinforcement_learning(tmp_path, length, is_said):
    run = read_log(mlperf_log(BLOCKS, benchmark="moe_grpo"))
    config = msgspec.structs.replace(run.training_config, sequence_length=length)
    assert stored(tmp_path, msgspec.structs.replace(run, training_config=config)) == NOTE * is_said


@pytest.mark.parametrize(
    ("times", "is_said"),
    [
        ((None, 1.0, None, 1.0), True),
        ((None, 1.0, 1.0), False),
        ((None, None), False),
        ((None, 2.0, None, 2.0), False),
    ],
)
def test_t7_steps_below_a_second_by_a_clock_in_whole_seconds(tmp_path, times, is_said):
    run = msgspec.structs.replace(make_run(framework="llama_factory"), **series(times))
    assert stored(tmp_path, run) == NOTE * is_said


@pytest.mark.parametrize("code", ["read-otherwise", "early-block-ends", "steps-beyond-run"])
def test_t3_notes_on_the_time_of_a_log_are_caveats(code):
    fields = {"count": 3, "percent": 7.0, "doubt": 0.5, "share": 1.2}
    one, other = make_run("NVIDIA H100 80GB HBM3"), make_run("NVIDIA B200")

    def found(*runs):
        files = [Loaded(str(index), str(index) * 8, (run,)) for index, run in enumerate(runs)]
        caveats = compare(files).models[0].groups[0].caveats
        return [(each.severity, text_of(each)) for each in caveats if each.code == "time-in-doubt"]

    assert found(one, other) == []
    doubted = msgspec.structs.replace(other, notes=(Note(code, fields),))
    ((severity, text),) = found(one, doubted)
    assert severity == "warning"
    assert text.endswith(doubted.told(code)[0])
