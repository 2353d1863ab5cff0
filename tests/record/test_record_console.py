from __future__ import annotations

import io
import sys

import pytest
from stored_runs import series

from tprimat.analysis.summary import summarize
from tprimat.record import console
from tprimat.results.run import Environment, GpuInfo, MemoryMetrics, Run, TrainingConfig

A100 = GpuInfo(
    device_count=8,
    device_name="NVIDIA A100-SXM4-80GB",
    total_memory_gb=80.0,
    software_stack="cuda",
    software_version="12.1",
)


def finished(**fields):
    return Run(**series((1.5, *[1.245] * 9)), **fields)


def test_the_start_is_what_users_know():
    assert "\n".join(console.start("nvd", A100, Environment())) == (
        "============================================================\n"
        "BENCHMARK START - Platform: CUDA\n"
        "============================================================\n"
        "device_count: 8\n"
        "device_name: NVIDIA A100-SXM4-80GB\n"
        "total_memory_gb: 80.0\n"
        "cuda_version: 12.1\n"
        "============================================================"
    )


@pytest.mark.parametrize(("batch", "lines"), [(8, ["Throughput per GPU: 1,645.0 tokens/s"]), (None, [])])
def test_the_end_has_the_rate_that_is_compared_if_it_is_known(batch, lines):
    config = TrainingConfig(global_batch_size=batch, sequence_length=512, num_gpus=2)
    run = finished(training_config=config)
    assert [line for line in console.end("nvd", run, summarize(run)) if line.startswith("Throughput per")] == lines


def test_rocm_names_its_own_version():
    info = GpuInfo(device_count=1, device_name="AMD Instinct MI300X", software_stack="rocm", software_version="7.1")
    lines = console.start("amd", info, Environment())
    assert "BENCHMARK START - Platform: ROCm" in lines
    assert lines[-2] == "rocm_version: 7.1"
    assert "total_memory_gb: unknown" in lines


def test_a_processor_has_threads_and_no_version():
    info = GpuInfo(device_count=1, device_name="AMD EPYC", total_memory_gb=25.3, software_stack="cpu")
    assert console.start("cpu", info, Environment(cpu_threads=2))[3:-1] == [
        "device_count: 1",
        "device_name: AMD EPYC",
        "total_memory_gb: 25.3",
        "cpu_threads: 2",
    ]


def test_a_steps_line_is_what_users_know():
    assert console.step("nvd", 10, 1.234, 1.245, 45.67) == (
        "[CUDA] Step  10 | Time: 1.234s | Avg: 1.245s | Memory: 45.67GB"
    )
    assert console.step("cpu", 1000, None, None, None) == (
        "[CPU] Step 1000 | Time: unknown | Avg: unknown | Memory: unknown"
    )


def test_the_end_is_what_users_know():
    run = finished(memory_metrics=MemoryMetrics(avg_memory_allocated_gb=45.67, peak_memory_allocated_gb=45.89))
    assert "\n".join(console.end("nvd", run, summarize(run))) == (
        "============================================================\n"
        "BENCHMARK COMPLETE - Platform: CUDA\n"
        "============================================================\n"
        "Total Steps: 10\n"
        "Total Time: 12.71s\n"
        "Avg Step Time: 1.245s\n"
        "Throughput: 0.803 steps/s\n"
        "Avg Memory: 45.67GB\n"
        "Peak Memory: 45.89GB\n"
    )


def test_the_memory_of_a_process_is_called_that():
    run = finished(memory_metrics=MemoryMetrics(avg_memory_process_gb=1.0, peak_memory_process_gb=2.0))
    assert console.end("cpu", run, summarize(run))[-3:-1] == [
        "Avg Process Memory: 1.00GB",
        "Peak Process Memory: 2.00GB",
    ]


def test_an_end_before_its_time_has_its_reason():
    run = Run(status="failed", status_reason="ValueError: bad data")
    lines = console.end("cpu", run, summarize(run))
    assert lines[1] == "BENCHMARK FAILED - Platform: CPU"
    assert lines[3:6] == ["Reason: ValueError: bad data", "Total Steps: 0", "Total Time: unknown"]


class Closed(io.StringIO):
    def write(self, text):
        raise BrokenPipeError


@pytest.mark.parametrize("stream", [Closed(), None])
def test_a_reader_that_has_gone_is_no_reason_to_stop(monkeypatch, stream):
    monkeypatch.setattr(sys, "stdout", stream)
    console.echo(["a line"])
    assert sys.stdout is stream


def test_what_a_terminal_can_not_show_is_escaped(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    console.echo(["Results saved to: Ergebnisse/größe.json"])
    assert stream.buffer.getvalue() == b"Results saved to: Ergebnisse/gr\\xf6\\xdfe.json\n"
