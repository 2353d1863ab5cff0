"""The product's own commands on this machine: what they would start, one training, and options that
others accept.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpu_checks import power
from gpu_checks.report import (
    FAILED,
    ROOT,
    MissingError,
    Output,
    Report,
    internal,
    no_wheel,
    relative_difference,
)

BENCHMARK = ROOT / "benchmark.py"
EMBEDDED = ("lightning", "transformers", "fsdp")
"""Frameworks whose training this package brings; the first that is installed trains."""

ENOUGH_MEMORY = 23e9
"""Bytes of free memory from which on the default is the scale COMMON."""

COMMON = "1b"

COMPILED = ("lightning", "fsdp")
"""Those whose training is compiled on a GPU."""

MFU_PERCENT = (25.0, 70.0)
"""Of the default, compiled: docs/frameworks.md calculates 38% (MI300X) to 56% (RTX 4090)."""
ANY_MFU_PERCENT = (0.5, 75.0)
"""Of any framework's training; a tiny model leaves most of a GPU idle."""

FSDP_FULL_GPUS = 4
"""GPUs over which FSDP2 trains a model at full size."""

BYTES_PER_PARAMETER = 16


def plans(report: Report) -> None:
    """Ask ./benchmark.py what it would start: with nothing said, and with each framework."""
    frameworks = internal("FRAMEWORKS")
    for arguments in ((), ("--model", "llama")):
        output = benchmark(report, *arguments, "--dry-run")
        name = " ".join(("./benchmark.py", *arguments))
        report.expect(name, "has a plan", _first_line(output), output.status == 0, FAILED)
        on_cpu = re.search(r" on CPU\b|--platform=cpu\b", output.text) is not None
        if output.status == 0 and not report.dry_run:
            report.expect(name, "trains on the GPU", _first_line(output), not on_cpu, FAILED)
    for framework in frameworks[:2] if report.dry_run else frameworks:
        reason = framework.unavailable()
        output = benchmark(report, "--framework", framework.name, "--model", "llama", "--dry-run")
        report.expect(
            f"--framework {framework.name} --model llama --dry-run",
            "has a plan" if reason is None else f"none is needed: {reason}",
            _first_line(output),
            output.status == 0 if reason is None else None,
        )


def training(report: Report) -> None:
    """Train the default twice through ./benchmark.py, and look at everything that the result
    states.
    """
    name = _embedded_framework()
    sizes = (
        ("--scale", "tiny", "--steps", "3", "--runs", "1") if report.dry_run else ("--runs", "2")
    )
    is_large = not report.dry_run and free_bytes(report) >= ENOUGH_MEMORY
    with tempfile.TemporaryDirectory() as folder, power.watching(report) as readings:
        output, results, measured = _train(
            report, Path(folder), name, *sizes, "--gpus", "1", "--time-limit", "60s"
        )
    report.note(results=results, nvml=readings)
    if not results:
        return
    for result in results:
        _judge_result(report, name, result)
        scale = result["scale"]
        report.expect(
            "scale by default", COMMON, scale, scale == COMMON if is_large else None, FAILED
        )
        if readings:
            power.judge(report, readings, result)
    _judge_mfu(report, measured, name, *MFU_PERCENT)
    means = [
        run["avg_step_time_seconds"] for run in _find(_document(output), "performance_metrics")
    ]
    if len(means) > 1:
        report.expect(
            "two runs of the same",
            "mean step times within 3%",
            ", ".join(f"{mean * 1e3:.3f} ms" for mean in means),
            relative_difference(max(means), min(means)) <= 0.03,
        )


def frameworks(report: Report) -> None:
    """Train a few steps with every framework that can run here, on all GPUs, and look at what the
    results state.
    """
    all_results = {}
    for framework in internal("FRAMEWORKS"):
        name = framework.name
        if (reason := framework.unavailable()) is not None or (
            report.dry_run and name not in COMPILED
        ):
            report.expect(f"{name}: training", "succeeds", reason or "not in a dry run", None)
            continue
        # The large models that divide over GPUs by default, at full size; else what starts quickly.
        full = framework.launcher.full_size_only or (
            name == "fsdp" and report.device.cuda.device_count() >= FSDP_FULL_GPUS
        )
        scale = ("--scale", "tiny" if report.dry_run else "full" if full else "small")
        arguments = (*scale, "--steps", "3" if report.dry_run else "20")
        with report.part(f"{name}: training"), tempfile.TemporaryDirectory() as folder:
            _, results, measured = _train(
                report, Path(folder), name, *arguments, "--time-limit", "60s"
            )
            all_results[name] = results
            report.note(results=all_results)
            for result in results:
                _judge_basics(report, name, result)
            if results:
                _judge_mfu(report, measured, name, *ANY_MFU_PERCENT)


def _train(
    report: Report, folder: Path, name: str, *arguments: str
) -> tuple[Output, list[Any], Output]:
    """Train through ./benchmark.py; what it prints, the results, and what enhanced_metrics.py makes
    of them.
    """
    arguments = ("--framework", name, "--model", "llama", *arguments, "--cooldown", "0")
    output = benchmark(report, *arguments, "--output-dir", str(folder), "--json", timeout_s=300)
    for path in sorted(folder.rglob("*.log")):
        report.keep(path.name, path.read_text(errors="replace")[-20_000:])
    problem = f"exit status {output.status}: {(output.errors or output.text)[-500:]}"
    report.expect(
        f"{name}: training",
        "succeeds",
        "it did" if output.status == 0 else problem,
        output.status == 0,
        FAILED,
    )
    results = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    argv = [sys.executable, str(ROOT / "enhanced_metrics.py"), str(folder), "--json"]
    return output, results, report.command(argv, timeout_s=60, cwd=folder)


def _judge_basics(report: Report, name: str, result: Mapping[str, Any]) -> None:
    """Check what a result says of platform and loss."""
    platform = {"cuda": "nvd", "rocm": "amd", "cpu": "cpu"}[report.device.stack]
    report.expect(
        f"{name}: platform", platform, result["platform"], result["platform"] == platform, FAILED
    )
    losses = [loss for loss in result["loss_values"] if loss is not None]
    seen = f"{losses[0]:.4f} to {losses[-1]:.4f}" if losses else "none"
    report.expect(
        f"{name}: loss",
        "finite, and lower at the end",
        seen,
        bool(losses) and losses[-1] < losses[0],
    )


def _judge_result(report: Report, name: str, result: Mapping[str, Any]) -> None:
    """Check what a result of ours says of platform, clock, memory and loss."""
    _judge_basics(report, name, result)
    clock = result["timing"]["clock"]
    report.expect(
        "clock", "device_event", clock, None if report.dry_run else clock == "device_event", FAILED
    )
    report.expect("warnings of the result", "none", result["warnings"], not result["warnings"])
    if name in COMPILED and not report.dry_run:
        settings, seconds = (
            result["framework_config"],
            result["native_metrics"].get("compile_time_seconds"),
        )
        is_compiled = settings.get("torch_compile") is True
        report.expect("kernels", "compiled", f"{settings}, {seconds} s", is_compiled, FAILED)
        first, *others = result["step_times"]
        seen = f"{first:.3f} s, the longest other one {max(others):.3f} s"
        report.expect("first step", "compiles nothing", seen, first < 5 + 2 * max(others))
    memory, parameters = result["memory_metrics"], result["model_config"]["num_parameters"]
    allocated, reserved, used = (
        memory[f"peak_memory_{name}_gb"] for name in ("allocated", "reserved", "device_used")
    )  # fmt: skip
    report.expect(
        "peak memory: allocated, reserved, of the device",
        "each at least the one before, and the first at least"
        f" {BYTES_PER_PARAMETER * parameters / 1e9:.3g} GB",
        f"{allocated}, {reserved}, {used} GB",
        (
            None
            if report.dry_run
            else None not in (allocated, reserved, used)
            and BYTES_PER_PARAMETER * parameters / 1e9 <= allocated <= reserved <= used * 1.01
        ),
    )


def _judge_mfu(report: Report, output: Output, name: str, low: float, high: float) -> None:
    """Find the MFU in what enhanced_metrics.py prints for programs; low and high are
    percentages.
    """
    entries = list(_find(_document(output), "mfu"))
    for entry in entries:
        value = entry.get("value") if isinstance(entry, Mapping) else entry
        report.expect(
            f"{name}: MFU",
            f"{low:g} to {high:g}%",
            (
                f"{value:.2f}%"
                if value is not None
                else f"none: {entry.get('note') if isinstance(entry, Mapping) else ''}"
            ),
            None if report.dry_run else value is not None and low <= value <= high,
        )
    if not entries:
        report.expect(f"{name}: MFU", "a figure", output.errors[-500:] or "none is printed", False)


def _document(output: Output) -> Any:
    """Return the JSON that a command printed; None if it printed none."""
    try:
        return json.loads(output.text)
    except ValueError:
        return None


def _find(document: Any, key: str) -> Iterator[Any]:
    """Yield every value of a key, however deep."""
    if isinstance(document, Mapping):
        for name, value in document.items():
            if name == key:
                yield value
            else:
                yield from _find(value, key)
    elif isinstance(document, list):
        for value in document:
            yield from _find(value, key)


def profilers(report: Report) -> None:
    """See whether torch's profiler sees kernels, and whether nsys and rocprofv3 know the options
    that we pass.
    """
    device, torch = report.device, report.device.torch
    with report.part("torch's profiler"):
        from torch.profiler import ProfilerActivity, profile

        activity = ProfilerActivity.CPU if report.dry_run else ProfilerActivity.CUDA
        work = device.work(0.001)
        with profile(activities=[activity]) as profiled:
            work()
            device.synchronize()
        kernels = [
            event
            for event in profiled.events()
            if report.dry_run or "cuda" in str(event.device_type).lower()
        ]
        report.expect("torch's profiler", "sees kernels", f"{len(kernels)} events", bool(kernels))
        report.note(
            profiled=sorted({event.name for event in kernels})[:20], torch=torch.__version__
        )
    for name, program, helps in (
        ("nsys", "nsys", (["nsys", "--version"], ["nsys", "profile", "--help"])),
        ("rocprof", "rocprofv3", (["rocprofv3", "--version"], ["rocprofv3", "--help"])),
    ):
        if shutil.which(program) is None:
            report.expect(program, "is on PATH", "it isn't", None)
            continue
        known = " ".join(report.command(argv).text for argv in helps)
        plan = benchmark(
            report, "--framework", "lightning", "--model", "llama", "--profile", name, "--dry-run"
        )
        words = _words_after(plan.text, program)
        options = [word.split("=")[0] for word in words if word.startswith("--") and len(word) > 2]
        unknown = [option for option in options if option not in known]
        report.expect(
            f"options that we pass to {program}",
            "all are in its help",
            (
                f"unknown: {', '.join(unknown)}"
                if unknown
                else ", ".join(options) or _first_line(plan)
            ),
            None if not options else not unknown,
        )


def _words_after(plan: str, program: str) -> list[str]:
    """Return the words of a plan's command between a profiler and the Python that it starts."""
    line = next((line for line in plan.splitlines() if f" {program} " in line), "")
    words = shlex.split(line)[shlex.split(line).index(program) :] if line else []
    end = next(
        (index for index, word in enumerate(words) if Path(word).name.startswith("python")),
        len(words),
    )
    return words[:end]


def framework_options(report: Report) -> None:
    """Ask the installed Megatron and torchtitan whether they still accept what we and NeMo give
    them.
    """
    with report.part("megatron-core's get_megatron_optimizer"):
        if not _is_here("megatron.core"):
            raise MissingError("megatron-core isn't installed")
        code = (
            "import inspect, megatron.core as core, megatron.core.optimizer as optimizer; "
            "print(core.__version__, inspect.signature(optimizer.get_megatron_optimizer))"
        )
        output = report.command([sys.executable, "-c", code], timeout_s=60)
        report.expect(
            "megatron-core's get_megatron_optimizer",
            "has no_weight_decay_cond, which NeMo 2 passes",
            output.text.strip() or output.errors[-500:],
            (
                None
                if output.status
                else "no_weight_decay_cond" in output.text or not _is_here("nemo")
            ),
        )
    with report.part("torchtitan's options"):
        plan = benchmark(report, "--framework", "torchtitan", "--model", "llama", "--dry-run")
        options = re.findall(r"--(\w+\.\w+)=", plan.text)
        clone = os.environ.get("TORCHTITAN_PATH")
        if not options or not clone:
            raise MissingError("no torchtitan: TORCHTITAN_PATH names its clone")
        known = report.command(
            [sys.executable, "-m", "torchtitan.train", "--help"], timeout_s=60, cwd=Path(clone)
        )
        plain = known.text.replace("-", "_")
        unknown = [option for option in options if option not in plain]
        report.expect(
            "torchtitan's options", "all that we pass are in its help", f"unknown: {', '.join(unknown) or 'none'}",
            not unknown if known.text else None,
        )  # fmt: skip


def _embedded_framework() -> str:
    """Return the first framework of EMBEDDED that can train here. Raises MissingError where none
    can.
    """
    reasons = {framework.name: framework.unavailable() for framework in internal("FRAMEWORKS")}
    for name in EMBEDDED:
        if name in reasons and reasons[name] is None:
            return name
    raise no_wheel(EMBEDDED[0])


def free_bytes(report: Report) -> int:
    """Ask another process for the free memory: a context here would be memory that the training
    finds held.
    """
    output = report.command(
        [sys.executable, "-c", "import torch; print(torch.cuda.mem_get_info(0)[0])"], timeout_s=60
    )
    return int(output.text) if output.text.strip().isdigit() else 0


def benchmark(
    report: Report, *arguments: str, timeout_s: float = 60.0, env: dict[str, str] | None = None
) -> Output:
    """Run ./benchmark.py with these arguments."""
    return report.command(
        [sys.executable, str(BENCHMARK), *arguments], timeout_s=timeout_s, cwd=ROOT, env=env
    )


def _first_line(output: Output) -> str:
    lines = (
        (output.text if output.status == 0 else output.errors or output.text).strip().splitlines()
    )
    return f"exit status {output.status}: {lines[0] if lines else ''}"[:300]


def _is_here(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
