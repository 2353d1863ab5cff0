"""PyTorch profiler traces: real ones against what a careful reading finds, and the ways in which
they are written.
"""

from __future__ import annotations

import gzip
import io
import json

import pytest
from made_traces import MadeTrace

from tprimat.analysis.traces.breakdown import Breakdown, sums
from tprimat.log_import import sources
from tprimat.read.kineto import events
from tprimat.read.kineto.events import EventStream
from tprimat.read.kineto.timeline import read_timeline
from tprimat.results.trace import COMMUNICATION, IDLE, Trace

MICRO = 1e6

TRACES = (
    "b200/eager_trace.json.gz",
    "h100/Falconsai_nsfw_image_detection__1016002.json.gz",
    "h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "h100/facebook_timesformer-base-finetuned-k400__1016002.json.gz",
    "h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "mi210/gpu_only_trace.json.gz",
    "mi300/Falconsai_nsfw_image_detection__1016002.json.gz",
    "mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "mi300/facebook_timesformer-base-finetuned-k400__1016002.json.gz",
    "mi300/gaunernst_bert-small-uncased__1016001.json.gz",
    "mi300/resnet_act_checkpoint.json.gz",
    "torch_compile_triton/trace.json.gz",
)


def trace_of(content: bytes) -> Trace:
    timeline, doubts = read_timeline(io.BytesIO(content))
    assert doubts == []
    breakdown = Breakdown()
    breakdown.add(timeline)
    trace = breakdown.trace()
    assert trace is not None
    return trace


@pytest.fixture(scope="module")
def read_trace(samples):
    known: dict[str, Trace] = {}

    def read(name: str) -> Trace:
        if name not in known:
            known[name] = trace_of(gzip.decompress((samples / "traces" / name).read_bytes()))
        return known[name]

    return read


@pytest.fixture(scope="module")
def by_hand(samples):
    """What a careful reading finds; the file has comparisons of pairs too."""
    entries = json.loads((samples / "traces" / "truth.json").read_text())
    return {entry["file"]: entry for entry in entries if "whole" in entry}


class TestRealTraces:
    def test_none_is_forgotten(self, by_hand):
        assert set(by_hand) == set(TRACES)

    @pytest.mark.parametrize("name", TRACES)
    def test_parts_add_up(self, name, read_trace):
        for step in read_trace(name).steps:
            assert sum(step.parts.values()) == pytest.approx(step.seconds, rel=1e-9)
            assert min(step.parts.values()) > 0

    @pytest.mark.parametrize("name", TRACES)
    def test_steps_agree_with_a_careful_reading(self, name, read_trace, by_hand):
        """Against truth.json, which has a step's GPU work only: from its first start to its last
        end.

        A step here also has the time until its first GPU work, and in a synchronized loop that
        after its last. So a step whose GPU work lies within its annotation is that annotation
        (in_window), any other its GPU work (launched_in_step) with the pause before it, which is
        idle.
        """
        entry, trace = by_hand[name], read_trace(name)
        expected = entry["steps"] or [{"name": "", "launched_in_step": entry["whole"]}]
        assert [step.name for step in trace.steps] == [each["name"] for each in expected]
        for step, each in zip(trace.steps, expected, strict=True):
            own, window = each["launched_in_step"], each.get("in_window")
            is_synchronised = window is not None and window["busy_us"] == own["busy_us"]
            found = sums(step.parts)
            before_and_after = 0.0 if is_synchronised else step.seconds * MICRO - own["duration_us"]
            right = window if is_synchronised else own
            assert step.gpu_seconds * MICRO == pytest.approx(own["duration_us"], rel=1e-3)
            assert step.seconds * MICRO - before_and_after == pytest.approx(
                right["duration_us"], rel=1e-3
            )
            assert 0 <= before_and_after < 0.02 * step.seconds * MICRO
            assert (step.seconds - found["idle"]) * MICRO == pytest.approx(
                right["busy_us"], rel=1e-2
            )
            assert found["idle"] * MICRO - before_and_after == pytest.approx(
                right["idle_us"], rel=1e-2, abs=0.01
            )
            # There, a buffer clear is computation; here it is a copy, which hides no communication.
            most = own["exposed_communication_us"]
            assert most <= found["exposed_communication"] * MICRO + 0.01
            assert found["exposed_communication"] * MICRO == pytest.approx(most, rel=1e-2, abs=0.01)
            whole = found["exposed_communication"] + step.overlapped_communication
            assert whole * MICRO == pytest.approx(own["communication_us"], rel=1e-3, abs=0.01)

    @pytest.mark.parametrize("name", TRACES)
    def test_little_is_unknown(self, name, read_trace):
        for step in read_trace(name).steps:
            busy = sum(time for part, time in step.parts.items() if part not in IDLE)
            assert step.parts.get("other", 0.0) < 0.05 * busy

    @pytest.mark.parametrize(
        ("name", "cause", "share"),
        [
            ("h100/Falconsai_nsfw_image_detection__1016002.json.gz", "idle_host_launch", 0.8),
            ("mi300/gaunernst_bert-small-uncased__1016001.json.gz", "idle_host_launch", 0.85),
            ("h100/facebook_timesformer-base-finetuned-k400__1016002.json.gz", "idle_data", 0.55),
            ("mi300/facebook_timesformer-base-finetuned-k400__1016002.json.gz", "idle_data", 0.65),
            ("b200/eager_trace.json.gz", "idle_host_launch", 0.85),
        ],
    )
    def test_what_the_gpu_waits_for(self, name, cause, share, read_trace):
        (step,) = read_trace(name).steps
        assert max(step.parts, key=lambda part: step.parts[part]) == cause
        assert step.parts[cause] > share * step.seconds

    def test_the_work_behind_a_part(self, read_trace):
        trace = read_trace("h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz")
        attention = [each for each in trace.work if each.part == "attention"]
        assert {each.operator for each in attention} == {"aten::_flash_attention_forward"}
        assert attention[0].shapes[0] == (16, 559, 16, 64)
        assert attention[0].types[0] == "c10::BFloat16"
        assert sum(each.calls for each in attention) == 24
        by_part = sum(each.exposed_seconds for each in attention)
        assert by_part == pytest.approx(trace.steps[0].parts["attention"], rel=1e-6)

    def test_phases_of_a_training(self, read_trace):
        work = read_trace("mi300/resnet_act_checkpoint.json.gz").work
        assert {each.phase for each in work} >= {"forward", "backward", "optimizer"}
        collectives = {each.part for each in work if each.part.startswith(COMMUNICATION)}
        assert collectives == {"communication_all_reduce", "communication_broadcast"}


def made() -> MadeTrace:
    trace = MadeTrace(rank=3)
    trace.step(1, 0, 100)
    trace.operator(
        "aten::mm", 5, 9, **{"Input Dims": [[4, 8], [8, 2]], "Input type": ["float", "float"]}
    )
    trace.kernel("a {gemm}, [\"] \\ of ']', '},{'", 6, 10, 30)
    trace.kernel("Memcpy HtoD (Pinned -> Device)", 40, 50, 60, category="gpu_memcpy")
    return trace


class TestForms:
    """However the JSON is laid out, the events are the same."""

    @pytest.mark.parametrize(
        "content",
        [
            made().text(),
            made().text(indent=2),
            made().text(separators=(",", ":")),
            made().text(sort_keys=True, indent=1),
            json.dumps(made().events).encode(),
            json.dumps({"traceEvents": made().events, **made().head}).encode(),
            json.dumps({**made().head, "traceEvents": made().events}).encode(),
        ],
        ids=["kineto", "indented", "compact", "sorted", "array", "events first", "events last"],
    )
    @pytest.mark.parametrize("piece", [40, 500, 1 << 22])
    def test_layouts(self, content, piece, monkeypatch):
        monkeypatch.setattr(events, "PIECE", piece)
        (step,) = trace_of(content).steps
        assert step.parts["matrix_multiplication"] == pytest.approx(20e-6)
        assert step.parts["copies"] == pytest.approx(10e-6)
        assert step.seconds == pytest.approx(100e-6)

    @pytest.mark.parametrize(("longest", "is_read"), [(262_075, False), (262_076, True)])
    def test_the_longest_event(self, longest, is_read, monkeypatch):
        """An event that never ends is read in pieces, each as long as all before it."""
        monkeypatch.setattr(events, "LONGEST", longest)
        monkeypatch.setattr(events, "PIECE", 1 << 16)
        head, event = b'{"traceEvents": [', b'{"name": "'
        stream = events.EventStream(
            io.BytesIO(head + event + b"x" * (4 * ((1 << 16) - len(head)) - len(event)))
        )
        if is_read:
            assert list(stream.pieces()) == [[]]
            assert stream.cut
        else:
            with pytest.raises(ValueError, match="an event is longer than 0 MiB"):
                list(stream.pieces())

    def test_nested_objects_are_no_events(self, monkeypatch):
        monkeypatch.setattr(events, "PIECE", 300)
        trace = MadeTrace()
        for number in range(50):
            trace.event(
                "cpu_op",
                f"op{number}",
                number,
                number + 1,
                inner=[{"ph": "X"}, {"a": [{}, {}]}] * 12,
            )
        found = [
            event.name
            for piece in EventStream(io.BytesIO(trace.text())).pieces()
            for event in piece
        ]
        assert found == [f"op{number}" for number in range(50)]

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b'"device": 0', b'"device": 0, "occupancy": nan'),
            (b'"device": 0', b'"device": 0, "GB/s": -Inf'),
            (b'"device": 0', b'"device": 0, "path": "C:\\User"'),
            (b'"device": 0', b'"device": 0, "path": "\xff\xfe"'),
            (b'"device": 0', b'"device": 0, "path": "a\tb"'),
        ],
        ids=["nan", "infinity", "backslash", "no UTF-8", "control character"],
    )
    def test_what_is_no_json_is_repaired(self, old, new):
        (step,) = trace_of(made().text().replace(old, new)).steps
        assert step.parts["matrix_multiplication"] == pytest.approx(20e-6)

    def test_an_event_of_another_form_is_skipped(self):
        trace = made()
        trace.events.insert(
            1,
            {"ph": "X", "cat": "kernel", "name": "x", "ts": "soon", "dur": 1, "tid": 1, "args": {}},
        )
        timeline, doubts = read_timeline(io.BytesIO(trace.text()))
        assert doubts == ["skipped 1 event of the trace that can't be decoded"]
        assert len(timeline.work) == 2

    def test_a_trace_that_is_cut(self):
        content = made().text()
        timeline, doubts = read_timeline(io.BytesIO(content[: content.rindex(b'"correlation"')]))
        assert [doubt.partition(":")[0] for doubt in doubts] == ["the trace ends within an event"]
        assert len(timeline.work) == 1

    @pytest.mark.parametrize("content", [b"", b"{}", b'{"a": 1}', b"[1, 2]", b"\0" * 100])
    def test_what_is_no_trace(self, content):
        stream = EventStream(io.BytesIO(content))
        try:
            found = [event for piece in stream.pieces() for event in piece]
        except ValueError:
            return
        assert found == []

    def test_stamps_since_1970_keep_their_distances(self):
        trace = MadeTrace()
        trace.kernel("gemm", 1751410836000000, 1751410836000010, 1751410836000030)
        (step,) = trace_of(trace.text()).steps
        assert step.seconds == pytest.approx(20e-6, rel=1e-9)


class TestFiles:
    def read(self, *paths):
        logs, _, errors = sources.log_sources([str(path) for path in paths])
        assert errors == []
        return [sources.read_source(log) for log in logs]

    def test_ranks_of_a_folder(self, tmp_path):
        for rank in (0, 1):
            trace = MadeTrace(rank=rank, world_size=2)
            trace.kernel("gemm", 0, 10, 30 + 20 * rank)
            (tmp_path / f"rank{rank}_trace.json").write_bytes(trace.text())
        ((imported,),) = self.read(tmp_path)
        run = imported.run
        assert [(step.rank, round(step.seconds * MICRO)) for step in run.trace.steps] == [
            (0, 20),
            (1, 40),
        ]
        assert run.breakdown["total"] == pytest.approx(30e-6)
        assert run.num_gpus == 2
        assert run.gpu_info.device_name == "NVIDIA H100 80GB HBM3"
        assert imported.notes == ("means over 2 traces",)

    def test_names_by_torchs_handler(self, tmp_path):
        for process, time in ((71, 1), (71, 2), (72, 1)):
            trace = MadeTrace()
            trace.kernel("gemm", 0, 10, 30)
            path = tmp_path / f"node-1_{process}.170000000000{time}.pt.trace.json.gz"
            path.write_bytes(gzip.compress(trace.text()))
        ((imported,),) = self.read(tmp_path)
        assert [step.rank for step in imported.run.trace.steps] == [0, 0, 1]

    def test_traces_of_other_names_are_other_trainings(self, tmp_path):
        for name in ("llama.pt.trace.json", "qwen.pt.trace.json"):
            (tmp_path / name).write_bytes(made().text())
        assert len(self.read(tmp_path)) == 2

    def test_a_trace_of_the_cpu_alone(self, tmp_path):
        trace = MadeTrace()
        trace.operator("aten::mm", 0, 10)
        (tmp_path / "trace.json").write_bytes(trace.text())
        ((reason, *_),) = self.read(tmp_path / "trace.json")
        assert reason.endswith(
            "this is a trace of PyTorch's profiler, but it has no GPU work: profile with"
            " ProfilerActivity.CUDA on a GPU"
        )

    def test_a_trace_that_is_cut_before_its_gpu_work(self, tmp_path):
        trace = MadeTrace()
        trace.operator("aten::mm", 0, 10)
        trace.kernel("gemm", 0, 10, 30)
        content = trace.text()
        (tmp_path / "trace.json").write_bytes(content[: content.index(b"cudaLaunchKernel")])
        ((reason, *_),) = self.read(tmp_path / "trace.json")
        assert "it has no GPU work: the trace ends within an event" in reason

    def test_a_compressed_file_that_is_cut(self, tmp_path):
        trace = MadeTrace()
        for number in range(500):
            trace.kernel(f"gemm_{number * 7919}", number, number, number + 1)
        content = gzip.compress(trace.text())
        (tmp_path / "trace.json.gz").write_bytes(content[: len(content) * 3 // 4])
        ((outcome,),) = self.read(tmp_path / "trace.json.gz")
        assert any("read only in part" in warning for warning in outcome.run.warnings)

    def test_annotations_without_a_kernel_are_counted(self, tmp_path):
        trace = MadeTrace()
        trace.step(1, 0, 100)
        trace.kernel("gemm", 1, 5, 90)
        trace.step(2, 100, 101)
        (tmp_path / "trace.json").write_bytes(trace.text())
        ((imported,),) = self.read(tmp_path / "trace.json")
        assert imported.run.breakdown["total"] == pytest.approx(100e-6)
        assert "skipped 1 step annotation without a kernel" in imported.run.warnings
