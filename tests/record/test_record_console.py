from __future__ import annotations

import io
import sys
from pathlib import Path

import msgspec
import pytest
from stored_runs import series

from tprimat import cli
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


def test_the_start_is_one_line():
    assert console.start("nvd", A100, Environment()) == (
        "Recording on 8 × NVIDIA A100-SXM4-80GB, 80.00 GB each, CUDA 12.1"
    )


def test_c10_a_rate_per_gpu_is_per_process_on_a_cpu():
    config = TrainingConfig(global_batch_size=8, sequence_length=512, num_gpus=2)
    run = finished(training_config=config)
    for platform, unit in (("nvd", "tokens/s per GPU"), ("cpu", "tokens/s per process")):
        (line,) = (each for each in ended(platform, run) if "tokens/s" in each)
        assert f"1,645 {unit}, mean of steps 2 to 10" in line
    alone = msgspec.structs.replace(config, num_gpus=1)
    (line,) = (each for each in ended("cpu", finished(training_config=alone)) if "tokens/s" in each)
    assert "3,290 tokens/s, mean" in line


def test_without_a_batch_there_is_no_rate():
    run = finished(training_config=TrainingConfig(num_gpus=2))
    assert not any("tokens/s" in line for line in ended("nvd", run))


def test_rocm_names_its_own_version():
    info = GpuInfo(
        device_count=1,
        device_name="AMD Instinct MI300X",
        software_stack="rocm",
        software_version="7.1",
    )
    assert (
        console.start("amd", info, Environment())
        == "Recording on 1 × AMD Instinct MI300X, – each, ROCm 7.1"
    )


def test_a_processor_has_threads_and_no_version():
    info = GpuInfo(
        device_count=1, device_name="AMD EPYC", total_memory_gb=25.3, software_stack="cpu"
    )
    assert (
        console.start("cpu", info, Environment(cpu_threads=2)) == "Recording on AMD EPYC, 2 threads"
    )


def test_a_steps_line_is_what_users_know():
    assert console.step("nvd", 10, 1.234, 1.245, 45.67) == (
        "[CUDA] Step  10 | Time: 1.234s | Avg: 1.245s | Memory: 45.67GB"
    )
    assert console.step("cpu", 1000, None, None, None) == (
        "[CPU] Step 1000 | Time: unknown | Avg: unknown | Memory: unknown"
    )


def ended(platform, run, path=Path("output/result.json"), runs=1):
    return console.end(platform, run, summarize(run), path, runs)


def test_the_end_says_what_ran_how_fast_with_how_much_memory_and_where_it_is():
    run = finished(model="llama", memory_metrics=MemoryMetrics(peak_memory_allocated_gb=45.89))
    assert ended("nvd", run, runs=2) == [
        "Recorded llama: 10 steps, complete",
        "Step:    1.245 s, mean of steps 2 to 10",
        "Memory:  45.89 GB allocated, peak",
        f"Results: {Path('output/result.json')} (now 2 runs)",
    ]


def test_the_memory_of_a_process_is_called_that():
    run = finished(
        memory_metrics=MemoryMetrics(avg_memory_process_gb=1.0, peak_memory_process_gb=2.0)
    )
    assert "Memory:  2.00 GB of the process, peak" in ended("cpu", run)


def test_an_end_before_its_time_has_its_reason():
    run = Run(status="failed", status_reason="ValueError: bad data")
    assert ended("cpu", run, path=None) == [
        "Recorded a training: 0 steps, failed: ValueError: bad data",
        "Results were not saved",
    ]


@pytest.mark.parametrize(("count", "shown"), [(0, 0), (1, 1), (2, 2), (3, 1), (9, 1)])
def test_c10_warnings_take_two_lines_at_most(count, shown):
    lines = console.warnings([f"number {number}" for number in range(count)])
    assert lines[:shown] == [f"warning: number {number}" for number in range(shown)]
    assert lines[shown:] == (
        [f"warning: {count - shown} more in the result"] if count > shown else []
    )
    assert len(lines) <= console.MOST_WARNINGS


def test_c10_a_recording_takes_eight_lines_and_warns_of_what_can_be_changed(tmp_path, capsys):
    torch = pytest.importorskip("torch")
    import benchmark_utils

    module = torch.nn.Linear(2, 2)
    with benchmark_utils.record(
        model="mine",
        module=module,
        output_dir=tmp_path,
        global_batch_size=8,
        sequence_length=16,
        precision="fp32",
    ) as recorder:
        for _ in range(60):
            recorder.step()
    out, err = capsys.readouterr()
    lines = [*out.splitlines(), *err.splitlines()]
    assert len(lines) <= 8
    assert "per GPU" not in out
    assert "gradient norm unknown" not in err
    assert any("gradient norm unknown" in text for text in recorder.result.warnings)
    assert lines[4] == f"Results: {recorder.path}"
    command = next(line for line in lines if line.startswith("Next:")).removeprefix("Next:").split()
    assert command[-2:] == ["compare", str(tmp_path)]
    assert cli.run("compare", [*command[-1:], "--no-plot"]) == 0


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
