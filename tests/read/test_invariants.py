"""What holds of every run that a reader makes, and what lines of any log tell of libraries, memory
and profilers.
"""

from __future__ import annotations

import msgspec
import pytest
from stored_runs import findings_of, series

from tprimat import read
from tprimat.log_import import sources
from tprimat.log_import.given import GivenValues
from tprimat.notes import Note
from tprimat.notes.catalogue import ROWS, words
from tprimat.read.parsing import invariants, text
from tprimat.results.account import Entry
from tprimat.results.run import GpuInfo, MemoryMetrics, Run

FAULTS = {"parts-exceed-wall-time", "steps-exceed-training"}
KNOWN: dict[str, str] = {}
"""Samples with a violation, and why it is none of the reader."""


def codes(run):
    return [note.code for note in invariants.checked(run).notes]


def parts(*entries):
    """Entries of a timeline: kind, start, duration, and the first and the last step of training."""
    return tuple(
        Entry(kind=kind, start=start, duration=time, first_step=a, last_step=b)
        for kind, start, time, a, b in entries
    )


def trained(*, times=1.0, training=100.0, evaluation=(100.0, 10.0), first=1.0):
    """100 steps in so many seconds of training, and an evaluation."""
    timeline = parts(("training", 0.0, training, 1, 100), ("evaluation", *evaluation, None, None))
    return Run(**series((first, *(times,) * 99)), timeline=timeline)


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (trained(), []),
        (Run(), []),
        # Parts that overlap: 110 s of parts within 107.93 s and 107.91 s, where 1% and 1 s are
        # rounding.
        (trained(evaluation=(97.93, 10.0)), []),
        (trained(evaluation=(97.91, 10.0)), ["parts-exceed-wall-time"]),
        # Steps of 1.0199 s and 1.0201 s, of which 100 take 101.99 s and 102.01 s: 1% and 1 s more
        # than their training.
        (trained(times=1.0199), []),
        (trained(times=1.0201), ["steps-exceed-training"]),
        # What a first record holds of the start-up is no violation.
        (trained(first=60.0), []),
    ],
)
def test_item3_sums_of_times_that_cannot_be(run, found):
    assert codes(run) == found


def test_item3_steps_that_no_record_has_count_by_the_others():
    run = trained(times=2.0, training=150.0, evaluation=(150.0, 1.0))
    tenth = {
        name: getattr(run, name)[::10]
        for name in ("steps", "window_steps", "step_times", "loss_values", "lines")
    }
    more = {name: getattr(run, name)[::10] for name in ("learning_rates", "grad_norms")}
    assert codes(msgspec.structs.replace(run, **tenth, **more)) == ["steps-exceed-training"]


@pytest.mark.parametrize(
    ("native", "found"),
    [
        ({"mfu_percent": (100.0,) * 3}, []),
        ({"mfu_percent": (100.1,) * 3}, ["utilization-above-peak"]),
        ({"mfu": (1.0,) * 3}, []),
        ({"mfu": (1.001,) * 3}, ["utilization-above-peak"]),
        # A single record may be an artifact of asynchronous dispatch.
        ({"mfu_percent": (40.0, 4000.0, None)}, []),
        ({"mfu_percent": 300.0}, []),
    ],
)
def test_u4_a_printed_utilization_above_the_peak(native, found):
    assert codes(Run(**series((1.0,) * 3) | {"native_metrics": native})) == found


@pytest.mark.parametrize(("used", "found"), [(94.99, []), (95.0, ["memory-nearly-full"])])
def test_u8_memory_that_is_nearly_full(used, found):
    run = Run(
        gpu_info=GpuInfo(total_memory_gb=100.0),
        memory_metrics=MemoryMetrics(peak_memory_reserved_gb=used),
    )
    assert codes(run) == found
    assert codes(msgspec.structs.replace(run, platform="cpu")) == []
    assert codes(msgspec.structs.replace(run, gpu_info=GpuInfo())) == []


TITAN = """[titan] 2026-02-03 10:00:{:02},000 - root - INFO - step: {:2}  loss:  8.1234  grad_norm:  1.2345  \
memory: 134.43GiB({}%)  tps: 4,959  tflops: 186.35  mfu: 18.84%"""
RETRIES = "[titan] 2026-02-03 10:00:05,100 - root - WARNING - 25 CUDA memory allocation retries."
CAPTURE = "[titan] 2026-02-03 10:00:08,100 - root - INFO - Dumping profiler traces at step 5"
FLUSHES = (
    "[WARNING] [stage3.py:1826:step] 2 pytorch allocator cache flushes since last step. this"
    " happens when there is"
)


def titan(*between, percent="40.00"):
    lines = [TITAN.replace("\\\n", "").format(step, step, percent) for step in range(1, 12)]
    lines[5:5] = between
    (run,) = read.read(text.lines(["\n".join(lines).encode()]), "a.log")
    return run


@pytest.mark.parametrize(
    ("between", "note"),
    [
        (RETRIES, Note("allocation-retries", {"line": 6, "value": 25})),
        (FLUSHES, Note("allocation-retries", {"line": 6, "value": 2})),
        (
            CAPTURE,
            Note("profiler-captures", {"line": 6, "value": "Dumping profiler traces at step 5"}),
        ),
        (
            (
                "[rank0]: STAGE:2026-02-03 10:00:07 12:12 ActivityProfilerController.cpp:320]"
                " Completed Stage: Collection"
            ),
            None,
        ),
        ("0: FP8 Healing starting...", Note("precision-changes", {"line": 6, "value": "FP8"})),
        ("the profiler is off, no allocation retries, warmup_healing: false", ...),
    ],
)
def test_u8_what_any_log_tells_of_memory_and_profilers(between, note):
    found = [each for each in findings_of(titan(between)) if each.code not in FAULTS]
    if note in (None, ...):
        assert [each.code for each in found] == ([] if note is ... else ["profiler-captures"])
    else:
        assert found == [note]
    assert all(words(each) for each in found)


@pytest.mark.parametrize(
    ("percent", "is_told"), [("94.99", False), ("95.00", True), ("96.21", True), ("100.00", True)]
)
def test_u8_memory_that_a_line_says_is_nearly_full(percent, is_told):
    told = [
        each.fields["value"]
        for each in findings_of(titan(percent=percent))
        if each.code == "memory-nearly-full"
    ]
    assert told == ([float(percent)] if is_told else [])


@pytest.mark.parametrize(
    ("line", "versions"),
    [
        ("NCCL version 2.22.3+cuda12.6", {"nccl": "2.22.3"}),
        ("0: node1:12:12 [0] NCCL INFO NCCL version 2.21.5+cuda12.4", {"nccl": "2.21.5"}),
        ("RCCL version : 2.22.3-HEAD:9ef3a49", {"rccl": "2.22.3"}),
        (
            "Supported flash-attn versions are >= 2.1.1, <= 2.8.0.post2. Found flash-attn 2.8.3.",
            {"flash-attn": "2.8.3"},
        ),
        ("NCCL version is unknown", {}),
    ],
)
def test_u7_versions_that_any_log_prints(line, versions):
    assert titan(line).environment.versions == versions


def test_every_note_has_its_words():
    assert {
        *FAULTS,
        "memory-nearly-full",
        "allocation-retries",
        "profiler-captures",
        "utilization-above-peak",
    } <= {*ROWS}


def test_item3_no_sample_has_a_violation(samples):
    """All logs, files and histories but traces; what they are read as is tested elsewhere."""
    found = {}
    for path in sorted(
        path for path in samples.rglob("*") if path.is_file() and path.suffix != ".tsv"
    ):
        folder = path.relative_to(samples).parts[0]
        if (
            folder in ("traces", "results", "tracelens")
            or path.name == "truth.json"
            or path.stat().st_size > 3_000_000
        ):
            continue
        for source in sources.log_sources([str(path)])[0]:
            outcome = sources.read_source(source, GivenValues())
            runs = [each.run for each in outcome] if isinstance(outcome, list) else []
            if any(note.code in FAULTS for run in runs for note in run.notes):
                found[path.name] = runs
    assert found.keys() == KNOWN.keys()
