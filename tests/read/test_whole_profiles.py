"""Traces of PyTorch's profiler, with all that is read from them, and the parts of their reader."""

from __future__ import annotations

import io
import json
import math

import msgspec
import pytest
import whole
from made_traces import MadeTrace

from tprimat.analysis.traces.timeline import Launch, RangeKind, Timeline, Work
from tprimat.read.kineto import events
from tprimat.read.kineto.events import Event, EventStream
from tprimat.read.kineto.timeline import read_timeline


def trace_of_all() -> MadeTrace:
    trace = MadeTrace(rank=3, world_size=16)
    trace.head["deviceProperties"] = [
        {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 80_000_000_000, "numSms": 132},
        {"id": 1, "name": "NVIDIA L4", "totalGlobalMem": 24_000_000_000, "numSms": 58},
        {"id": 2, "name": ""},
    ]
    trace.head["cuda_runtime_version"] = 12_060
    trace.step(1, 1000, 1100)
    trace.operator(
        "aten::mm", 1005, 1009, **{"Input Dims": [[4, 8], [8, 2]], "Input type": ["float", "float"]}
    )
    trace.kernel("gemm", 1006, 1010, 1030.5)
    trace.kernel("ncclDevKernel_AllReduce", 1012, 1020, 1040, stream=9)
    trace.kernel("Memcpy HtoD (Pinned -> Device)", 1041, 1050, 1060.25, category="gpu_memcpy")
    trace.kernel("Memset (Device)", None, 1061, 1062, category="gpu_memset")
    trace.event("cuda_runtime", "cudaDeviceSynchronize", 1063, 1070, tid=2, correlation=0)
    trace.event("cuda_driver", "cuLaunchKernel", 1064, 1065, correlation=1)
    trace.event(
        "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1001, 1004
    )
    trace.event("python_function", "some.py(3): helper", 1002, 1003)
    trace.event("python_function", "torch/optim/adam.py(7): step", 1072, 1074)
    trace.operator("autograd::engine::evaluate_function: MmBackward0", 1075, 1080)
    trace.operator("Optimizer.step#Adam.step", 1074, 1090)
    trace.operator("Optimizer.step#Adam.step", 1076, 1079)
    trace.operator("Optimizer.step#Adam.step", 1091, 1091)
    trace.operator("nccl:all_reduce", 1012, 1014, **{"Collective name": "allreduce"})
    trace.events.append(
        {"ph": "i", "cat": "kernel", "name": "instant", "ts": 1000, "dur": 5, "tid": 7, "args": {}}
    )
    trace.events.append(
        {"ph": "X", "cat": "kernel", "name": "far", "ts": 1e17, "dur": 5, "tid": 7, "args": {}}
    )
    trace.events.append(
        {"ph": "X", "cat": "kernel", "name": "long", "ts": 1000, "dur": 1e17, "tid": 7, "args": {}}
    )
    trace.events.append(
        {"ph": "X", "cat": "kernel", "name": "bare", "ts": 1000, "dur": 5, "tid": 7}
    )
    trace.events.append(
        {"ph": "X", "cat": "cuda_runtime", "name": "bare", "ts": 1000, "dur": 5, "tid": 7}
    )
    trace.events.append(
        {"ph": "X", "cat": "kernel", "name": "none", "dur": 5, "tid": 7, "args": {}}
    )
    trace.events.append(
        {"ph": "X", "cat": "cpu_op", "name": "back", "ts": 1095, "dur": -1, "tid": 7}
    )
    trace.events.append(
        {"ph": "X", "cat": "other", "name": "aten::mm", "ts": 1095, "dur": 3, "tid": 7}
    )
    return trace


def test_a_timeline_is_all_that_matters_of_a_trace():
    timeline, doubts = read_timeline(io.BytesIO(trace_of_all().text()))
    assert doubts == []
    # The first event is the zero of all times, in ns.
    shapes, types = b"[[4, 8], [8, 2]]", b'["float", "float"]'
    ranges = {
        thread: list(zip(each._starts, each._ends, each._kinds, strict=True))
        for thread, each in timeline.ranges.items()
    }
    timeline.ranges = {}
    assert timeline == Timeline(
        work=[
            Work(10_000, 30_500, "gemm", False, 0, 7, 1),
            Work(20_000, 40_000, "ncclDevKernel_AllReduce", False, 0, 9, 2),
            Work(50_000, 60_250, "Memcpy HtoD (Pinned -> Device)", True, 0, 7, 3),
            Work(61_000, 62_000, "Memset (Device)", True, 0, 7, 4),
        ],
        # The first call with a correlation counts; 0 is none.
        launches={
            1: Launch(6_000, 7_000, 1),
            2: Launch(12_000, 13_000, 1),
            3: Launch(41_000, 42_000, 1),
        },
        waits={2: [(63_000, 70_000)]},
        loads={1: [(1_000, 4_000)]},
        steps=[("ProfilerStep#1", 0, 100_000, 1)],
        rank=3,
        world_size=16,
        device_name="NVIDIA H100 80GB HBM3",
        software_stack="cuda",
        software_version="12.6",
        memory_bytes=80_000_000_000,
        compute_units=132,
    )
    assert ranges == {
        1: [
            (0, 100_000, RangeKind("ProfilerStep#1")),
            (5_000, 9_000, RangeKind("aten::mm", shapes, types)),
            (
                1_000,
                4_000,
                RangeKind("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
            ),
            (75_000, 80_000, RangeKind("autograd::engine::evaluate_function: MmBackward0")),
            (12_000, 14_000, RangeKind("nccl:all_reduce", collective="allreduce")),
            (72_000, 74_000, RangeKind("torch/optim/adam.py(7): step")),
            # An optimizer step begins after the backward passes in its closure; the second lies
            # within one.
            (80_000, 90_000, RangeKind("Optimizer.step#Adam.step")),
            (76_000, 79_000, RangeKind("Optimizer.step#Adam.step")),
        ],
        7: [(95_000, 95_000, RangeKind("back"))],
    }


@pytest.mark.parametrize(
    "category", ["cuda_runtime", "cuda_driver", "xpu_runtime", "hip_runtime", "runtime", "other"]
)
def test_categories_of_calls(category):
    trace = MadeTrace()
    trace.event(category, "launch", 10, 12, correlation=5)
    timeline, _ = read_timeline(io.BytesIO(trace.text()))
    assert timeline.launches == ({} if category == "other" else {5: Launch(0, 2_000, 1)})


@pytest.mark.parametrize(
    ("head", "known"),
    [
        ({"cuda_runtime_version": 11_080}, {"software_stack": "cuda", "software_version": "11.8"}),
        ({"hip_runtime_version": 60_342_134}, {"software_stack": "rocm", "software_version": "6.3.42134"}),
        ({"deviceProperties": [{"id": 5, "name": "A", "totalGlobalMem": 7, "numSms": 3}]},
         {"device_name": "A", "memory_bytes": 7, "compute_units": 3}),
        ({"deviceProperties": [{"id": 5, "name": "A", "numSms": 3}, {"id": 6, "name": "A", "numSms": 4}]},
         {"device_name": "A"}),
        ({"deviceProperties": [{"id": 5, "name": "A"}, {"id": 6, "name": "B"}]}, {}),
        ({"deviceProperties": [{"id": 5, "name": "A"}, {"id": 6, "name": ""}]}, {"device_name": "A"}),
        ({"deviceProperties": [{"id": 5, "name": "A"}, {"id": 0, "name": "B", "numSms": 3}]},
         {"device_name": "B", "compute_units": 3}),
        ({"deviceProperties": [], "distributedInfo": {"rank": "2"}}, {"rank": 2}),
    ],
)  # fmt: skip
def test_what_a_trace_states(head, known):
    trace = MadeTrace()
    trace.head = head
    trace.kernel("gemm", None, 10, 30)
    timeline, _ = read_timeline(io.BytesIO(trace.text()))
    names = (
        "rank",
        "world_size",
        "device_name",
        "software_stack",
        "software_version",
        "memory_bytes",
        "compute_units",
    )
    assert {name: getattr(timeline, name) for name in names} == dict.fromkeys(names) | known


@pytest.mark.parametrize(
    ("content", "ends", "closed"),
    [
        (b'{"a": 1}, {"b": [2, {}]}', [8, 24], None),
        (b'{"a": 1}]}', [8], 8),
        (b'{"a": "}]{"}, {"b"', [12], None),
        (b'{"a": "\\"}"}]', [12], 12),
        (b'{"a": "cut }', [], None),
        (b"]", [], 0),
        (b"", [], None),
    ],
)
def test_where_events_end(content, ends, closed):
    assert events._scan(content) == (ends, closed)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"name": "a"}, {"name": "b"}, {"na', (["a", "b"], 28)),
        (b'{"name": "a"},{"na', (["a"], 13)),
        (b'{"name": "a"}', None),
        # A cut within an event is no cut.
        (b'{"name": "a"}, {"name": "b", "args": {"x": [{}, {', (["a"], 13)),
        (b'{"name": "a", "args": {"x": [{}, {', None),
    ],
)
def test_a_guess_of_a_cut(content, found):
    guess = events._guess(content)
    assert (guess and ([event.name for event in guess[0]], guess[1])) == found


def test_guesses_are_few():
    """Each wrong cut is within an event: one more of them than are tried, and the events must be
    counted.
    """
    for wrong, is_found in ((7, True), (8, False)):
        content = b'{"name": "a"}, {"args": {"x": [{}' + b", {}" * wrong
        assert (events._guess(content) is not None) is is_found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'{"a": nan}', b'{"a": null}'),
        (b'{"a": -Infinity, "b":inf}', b'{"a": null, "b":null}'),
        (b'{"a": nano}', b'{"a": nano}'),
        (b'{"a": "C:\\Path"}', b'{"a": "C:\\\\Path"}'),
        (b'{"a": "\\n\\u00e4\\""}', b'{"a": "\\n\\u00e4\\""}'),
        (b'{"a": "\\uxyz"}', b'{"a": "\\\\uxyz"}'),
        (b'{"a": "\x00\x1f\x20"}', b'{"a": "   "}'),
        (b'{"a": "\xff"}', b'{"a": "\xef\xbf\xbd"}'),
    ],
)
def test_a_repair(old, new):
    assert events._repaired(old) == new


NAMES = [f"op{number}" for number in range(12)]
EVENTS = b", ".join(
    b'{"ph": "X", "name": "%s", "ts": %d}' % (name.encode(), n) for n, name in enumerate(NAMES)
)


@pytest.mark.parametrize("piece", [1, 30, 100, 1 << 20])
@pytest.mark.parametrize(
    ("content", "names", "skipped", "cut", "rank"),
    [
        (
            b'{"a": 1, "traceEvents" : [' + EVENTS + b'], "distributedInfo": {"rank": 3}}',
            NAMES,
            0,
            False,
            3,
        ),
        (b'{"distributedInfo": {"rank": 4}, "traceEvents": [' + EVENTS + b"]}", NAMES, 0, False, 4),
        (
            b'{"distributedInfo": {"rank": 5}, "traceEvents": [' + EVENTS + b', {"ph": "X"',
            NAMES,
            0,
            True,
            5,
        ),
        (
            b'{"distributedInfo": {"rank": 6}, "traceEvents": [' + EVENTS + b'], "other": tor',
            NAMES,
            0,
            False,
            6,
        ),
        (b" \n[" + EVENTS + b"]", NAMES, 0, False, None),
        (b"[" + EVENTS + b', {"ts": "soon"}, ' + EVENTS + b"]", NAMES * 2, 1, False, None),
        (b"[" + EVENTS + b', {"ts": nan, "name": "none"}]', NAMES, 1, False, None),
        (b"[" + EVENTS + b', {"other": nan, "name": "last"}]', [*NAMES, "last"], 0, False, None),
        (b'{"traceEvents": []}', [], 0, False, None),
        (b'{"traceEvents": [', [], 0, True, None),
    ],
)
def test_the_events_of_a_stream(content, names, skipped, cut, rank, piece, monkeypatch):
    monkeypatch.setattr(events, "PIECE", piece)
    stream = EventStream(io.BytesIO(content))
    found = [event for each in stream.pieces() for event in each]
    assert [event.name for event in found] == names
    assert (stream.skipped, stream.cut, stream.properties.distributed.rank) == (skipped, cut, rank)


def test_an_event_has_no_time_unless_it_states_one():
    (found,) = [
        event for each in EventStream(io.BytesIO(b'[{"name": "a"}]')).pieces() for event in each
    ]
    assert msgspec.structs.astuple(found)[:3] == ("", "", "a")
    assert math.isnan(found.ts)
    assert math.isnan(found.dur)
    assert (found.tid, found.args) == (0, None)
    assert Event() != found


@pytest.mark.parametrize(("longest", "fits"), [(100, True), (99, False)])
def test_the_longest_head_of_a_trace(longest, fits, monkeypatch):
    monkeypatch.setattr(events, "LONGEST", longest)
    monkeypatch.setattr(events, "PIECE", 1 << 10)
    content = io.BytesIO(b'{"a": "')
    chunks = [b'{"a": "' + b"x" * 93, b'", "traceEvents": [{"name": "b"}]}']
    content.read = lambda size: chunks.pop(0) if chunks else b""
    stream = EventStream(content)
    if fits:
        assert [[event.name for event in each] for each in stream.pieces()] == [["b"]]
    else:
        with pytest.raises(ValueError, match="it has no traceEvents"):
            list(stream.pieces())


def made(name="gemm", *, rank=None, head=None, size=20):
    trace = MadeTrace(rank=rank, world_size=4)
    trace.head |= head or {}
    trace.kernel(name, 0, 10, 10 + size)
    return trace


def kernels(*rows):
    """A trace of kernels, each with its length."""
    trace, now = MadeTrace(), 0
    for name, length in rows:
        trace.kernel(name, None, now, now + length)
        now += length
    return trace


NVIDIA = {
    "deviceProperties": [
        {"id": 0, "name": "NVIDIA L4", "totalGlobalMem": 24_000_000_000, "numSms": 58}
    ],
    "cuda_runtime_version": 12_040,
}
AMD = {
    "deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X"}],
    "hip_runtime_version": 60_342_134,
}


def stepped():
    trace = MadeTrace(rank=1, world_size=4)
    for number, (begin, end) in enumerate(((0, 100), (100, 250), (250, 260)), 5):
        trace.step(number, begin, end)
        if number < 7:
            trace.kernel("gemm", begin + 1, begin + 5, end - 5)
    return trace


def cpu_alone():
    trace = MadeTrace(rank=2, world_size=4)
    trace.operator("aten::mm", 0, 10)
    return trace


TRACES = {
    "one": {"a.json": made(rank=3, head=NVIDIA)},
    "amd": {"a.json": made(head=AMD)},
    "steps": {"a.json": stepped()},
    "ranks": {
        "rank0.json": made(size=20),
        "rank1.json": made(size=60, head=AMD),
        "rank2.json": cpu_alone(),
    },
    "handler": {
        f"node-1_{process}.{10**12 + number}.pt.trace.json": made(size=10 * number)
        for number, process in ((1, 71), (2, 71), (3, 72))
    },
    "unknown_kernels": {
        "a.json": kernels(("gemm", 94), *((f"mystery_{letter}", 1.5) for letter in "abcd"))
    },
    "few_unknown_kernels": {"a.json": kernels(("gemm", 95), ("mystery", 5))},
    "cpu": {"a.json": cpu_alone()},
}


@pytest.mark.parametrize("name", TRACES)
def test_all_that_traces_tell(name):
    found = whole.files({file: trace.text() for file, trace in TRACES[name].items()})
    whole.check(f"trace_{name}.txt", found)


def test_the_file_of_a_doubt_is_named_if_there_are_several():
    whole_one = kernels(("gemm", 20), ("gemm", 30)).text()
    cut = whole_one[: whole_one.rindex(b'"dur"')]
    doubt = (
        "the trace ends within an event: the profiler was killed while it wrote, or the file"
        " was cut"
    )
    for files, told in (
        ({"a.json": cut}, doubt),
        ({"a.json": whole_one, "b.json": cut}, f"b.json: {doubt}"),
    ):
        assert f'"text": "{told}"' in whole.files(files)


@pytest.mark.parametrize(
    ("head", "is_one"),
    [
        (b'{"traceEvents": []}', True),
        (b' \n{"deviceProperties": []', True),
        (b'{"baseTimeNanoseconds": 5', True),
        (b'[{"distributedInfo": 3}', True),
        (b'[ {"name": "a", "ph": "X"}]', True),
        (b'[{"name": "a", "ph": "1"}]', False),
        (b'{"schemaVersion": 1}', False),
        (b'"traceEvents"', False),
        (b"", False),
    ],
)
def test_what_a_trace_is_known_by(head, is_one):
    assert whole.is_format("torch_profiler", head) is is_one


def test_a_document_that_is_no_trace_is_told():
    assert json.loads(MadeTrace().text())["traceEvents"] == []
    assert (
        whole.files({"a.json": MadeTrace().text()})
        == "format: torch_profiler\nValueError: it has no GPU work: profile with"
        " ProfilerActivity.CUDA on a GPU\n"
    )
