#!/usr/bin/env python3
"""What large inputs cost: wall time, CPU time and peak memory of the command that takes them, a row
per case.

Each case makes its input in a temporary directory, runs a command as a child, and removes the
input. Targets are CPU seconds, user and system, since other programs on the machine change the wall
time; the load average stands beside them. The exit status is 1 if a row misses its target.

    python tools/load.py                    all cases at full size, on an idle machine: 20 minutes, 4 GB of disk space
    python tools/load.py results page       two of them
    python tools/load.py --small            all of them, a hundred to a thousand times smaller: no target of time
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT)]

import many_results
import trace_reading
from child import MB, Usage, measure

from tprimat.results.result_file import encode
from tprimat.store import store

GB = 1000 * MB
FREE = 10 * GB
"""Bytes of disk space that are left free."""

EVERYTHING = 1 << 20
"""Bytes that are written at once."""


class Row(NamedTuple):
    """What a command did with an input.

    Attributes:
        command: without the directory of the input.
        size: of the input, in words.
        used: by the command.
        cpu_s: at most, at full size; None if there is no target.
        memory_mb: at most, at any size.
        remark: what else was found.
        missed: whether the remark misses its target.
    """

    command: str
    size: str
    used: Usage
    cpu_s: float | None = None
    memory_mb: float | None = None
    remark: str = ""
    missed: bool = False

    def misses(self, *, small: bool) -> bool:
        """Return whether the row misses a target."""
        is_slow = self.cpu_s is not None and self.used.cpu_s > self.cpu_s and not small
        return (
            is_slow
            or self.missed
            or (self.memory_mb is not None and self.used.memory_mb > self.memory_mb)
        )


def command(folder: Path, *words: str | Path, **how: object) -> tuple[str, Usage]:
    """Run `python -m tprimat` with some words; return the command for a reader, and what it
    used.
    """
    shown = " ".join(["tprimat", *(str(word).replace(f"{folder}{os.sep}", "") for word in words)])
    return shown, measure(["-m", "tprimat", *map(str, words)], **how)  # type: ignore[arg-type]


def results(folder: Path, *, small: bool) -> Iterator[Row]:
    """Compare many results, each its own system; and as many of four systems."""
    count = 200 if small else 10_000
    for systems in (None, 4):
        where = folder / f"{systems}"
        _write_results(where, count, systems)
        line, used = command(folder, "compare", where, "--results-dir", folder / "reports")
        kind = "each its own system" if systems is None else f"of {systems} systems"
        yield Row(line, f"{count:,} results, {kind}", used, 30.0, 500.0)
        shutil.rmtree(where)


def _write_results(folder: Path, count: int, systems: int | None) -> None:
    for number in range(count):
        path = folder / f"{number // 500}" / f"result_{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(store.as_file([many_results.make_run(number, systems)])))


def page(folder: Path, *, small: bool) -> Iterator[Row]:
    """Open the page of many results in a browser."""
    count = 200 if small else 2_000
    for systems in (None, 4):
        _write_results(folder / "results", count, systems)
        line, used = command(
            folder, "compare", folder / "results", "--results-dir", folder / "reports"
        )
        yield _opened(
            folder,
            line,
            f"{count:,} results, {systems or count:,} systems, one page",
            used,
            small=small,
        )
        shutil.rmtree(folder / "results")


def _opened(folder: Path, line: str, size: str, used: Usage, *, small: bool) -> Row:
    """Return a row with the size of a page in reports/, and what it takes a browser to open it."""
    report = folder / "reports" / "comparison_report.html"
    megabytes = report.stat().st_size / MB
    opened = None if small else _browsed(report)
    remark = f"page of {megabytes:.1f} MB; " + (
        "not opened in a browser"
        if opened is None
        else (
            f"opens in {opened['wall_s']:.2f} s ({opened['cpu_s']:.2f} s of CPU,"
            f" {opened['elements']:,.0f} elements)"
        )
    )
    missed = megabytes > 10 or (opened is not None and opened["cpu_s"] > 1)
    return Row(line, size, used, None, 500.0, remark, missed)


def _browsed(report: Path) -> dict[str, float] | None:
    """Open a page in Chromium; return wall time and CPU time of its thread in s; None without the
    browser.
    """
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    try:
        from selenium import webdriver
    except ImportError:
        return None
    if browser is None or driver is None:
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,800",
    ):
        options.add_argument(flag)
    chromium = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        chromium.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        begun = time.perf_counter()
        chromium.get(report.as_uri())
        while not chromium.execute_script("return document.documentElement.dataset.ready"):
            time.sleep(0.02)
        wall = time.perf_counter() - begun
        values = chromium.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        known = {each["name"]: each["value"] for each in values}
        elements = chromium.execute_script("return document.getElementsByTagName('*').length")
        return {"wall_s": wall, "cpu_s": known["TaskDuration"], "elements": elements}
    finally:
        chromium.quit()


def steps(folder: Path, *, small: bool) -> Iterator[Row]:
    """Compare and export results of many steps."""
    count = 100_000 if small else 1_000_000
    paths = [folder / f"{name}.json" for name in ("one", "other")]
    # Of two vendors and of one model.
    for number, path in zip((0, 3), paths, strict=True):
        many_results.FEWEST_STEPS = many_results.MOST_STEPS = count
        path.write_bytes(encode(store.as_file([many_results.make_run(number)])))
    size = (
        f"2 results of {count:,} steps, {sum(path.stat().st_size for path in paths) / MB:,.0f} MB"
    )
    line, used = command(folder, "compare", *paths, "--results-dir", folder / "reports")
    yield _opened(folder, line, size, used, small=small)._replace(
        cpu_s=60.0, memory_mb=1500.0, missed=False
    )
    line, used = command(folder, "export", *paths, "--csv", folder / "steps.csv")
    yield Row(line, size, used, 60.0, 1500.0)


HEAD = "  seq_length ........ 2048\n  world_size ........ 8\n  global_batch_size ........ 64\n"
STEP = (
    " iteration {:8d}/{:8d} | elapsed time per iteration (ms): {:.1f} | global batch size: 64 | lm"
    " loss: {:.6E} |\n"
)
TALK = (
    "saving checkpoint shard {} of 8, {} tensors, to /checkpoints/run",
    "bucket {}: all-gather of {} bytes enqueued on stream 3",
    "dataloader worker {} prefetched batch {}, queue is full",
    "cache of compiled kernels has {} entries, {} were hit since the last report",
)
"""What programs print between two steps."""


def _log(size: int, count: int) -> Iterator[bytes]:
    """Yield a log of so many bytes and steps, of Megatron-LM, step by step with what is printed
    between two.
    """
    chance = random.Random(5)
    talk: list[bytes] = []
    while sum(map(len, talk)) < max(size // count - len(STEP), 0):
        said = chance.choice(TALK).format(chance.randrange(100), chance.randrange(10**9))
        talk.append(f"[rank{chance.randrange(8)}]: {said}\n".encode())
    yield HEAD.encode()
    for step in range(1, count + 1):
        yield STEP.format(step, count, 1000 + step % 7, 2 + 8 / step).encode() + b"".join(talk)


def log(folder: Path, *, small: bool) -> Iterator[Row]:
    """Read a sparse log, whose hole is as if its disk had been full; and one as long from a
    pipe.
    """
    size = 100 * MB if small else 50 * GB
    path = folder / "sparse.log"
    first, *rest = _log(MB, 1000)
    with path.open("wb") as stream:
        stream.writelines([first, *rest[:500]])
        stream.seek(size, os.SEEK_CUR)
        stream.writelines(rest[500:])
    line, used = command(folder, "read", path, "--output-dir", folder)
    yield Row(line, f"{size / GB:,.1f} GB, a hole but for 1 MB", used, None, 200.0)
    path.unlink()
    size = size // 5

    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb", EVERYTHING) as stream:
            stream.writelines(_log(size, 20_000))

    line, used = command(
        folder, "read", "-", "--output-dir", folder, stdin=reading, meanwhile=write
    )
    yield Row(f"… | {line}", f"{size / GB:,.1f} GB from a pipe, 20,000 steps", used, None, 200.0)


def watch(folder: Path, *, small: bool) -> Iterator[Row]:
    """Watch a log that grows."""
    seconds, rate = (2, 5 * MB) if small else (60, 50 * MB)
    path = folder / "train.log"
    path.write_text(HEAD)

    def write() -> None:
        begun, written = time.monotonic(), 0
        with path.open("ab", EVERYTHING) as stream:
            for chunk in _log(seconds * rate, 100 * seconds):
                stream.write(chunk)
                written += len(chunk)
                time.sleep(max(0.0, begun + written / rate - time.monotonic()))

    line, used = command(folder, "watch", path, "--json", meanwhile=write)
    last = json.loads(used.output.splitlines()[-1])
    complete = last.get("exit_status") == 0 and last.get("step") == 100 * seconds
    size = f"{rate / MB:.0f} MB/s for {seconds} s"
    yield Row(line, size, used, 60.0, 300.0, f"last step shown: {last.get('step')}", not complete)


def files(folder: Path, *, small: bool) -> Iterator[Row]:
    """Read and compare a directory of many files, a few of which are logs or results."""
    count = 1000 if small else 100_000
    logs, mixed = folder / "logs", folder / "mixed"
    for where in (logs, mixed):
        for number in range(count - 10):
            kind = ("txt", "out", "json", "log", "py")[number % 5]
            path = where / f"{number % 100}" / f"file_{number}.{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                f'{{"number": {number}}}\n'
                if kind == "json"
                else f"nothing of interest, {number}\n"
            )
    for number in range(10):
        (logs / f"{number}.log").write_bytes(b"".join(_log(100_000, 1000)))
    _write_results(mixed, 10, 4)
    for where, words in ((logs, ("read", logs)), (mixed, ("compare", mixed))):
        option = "--output-dir" if where is logs else "--results-dir"
        line, used = command(folder, *words, option, folder / "reports")
        kind = "logs" if where is logs else "results"
        yield Row(line, f"{count:,} files, 10 of them {kind}", used, 60.0, 300.0)


def trace(folder: Path, *, small: bool) -> Iterator[Row]:
    """Read a trace of PyTorch's profiler."""
    size = 10 * MB if small else GB
    source, path = folder / "source.json", folder / "rank0.pt.trace.json"
    source.write_text(json.dumps({"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
                                  "traceEvents": list(_events())}))  # fmt: skip
    trace_reading.make(source, path, size)
    line, used = command(folder, "read", path, "--output-dir", folder)
    yield Row(line, f"trace of {path.stat().st_size / MB:,.0f} MB", used, 60.0, 1200.0)


def _events() -> Iterator[dict[str, object]]:
    """Yield the events of three steps of one GPU, in µs."""
    kernels = ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "sm90_xmma_gemm_bf16bf16_bf16f32", "flash_fwd_kernel",
               "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>")  # fmt: skip
    for step in range(3):
        begin = 1000 + step * 200_000
        yield {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": begin,
               "dur": 200_000}  # fmt: skip
        for index in range(2000):
            link, start = step * 2000 + index + 1, begin + index * 99
            shared = {"ph": "X", "pid": 1, "ts": start}
            known = {"External id": link, "Record function id": 0, "Ev Idx": link}
            inputs = {"Concrete Inputs": ["", ""], "Input type": ["c10::BFloat16", "c10::BFloat16"],
                      "Input Strides": [[16777216, 4096, 1], [1, 4096]],
                      "Input Dims": [[4, 4096, 4096], [4096, 4096]]}  # fmt: skip
            yield {
                **shared,
                "cat": "cpu_op",
                "name": "aten::mm",
                "tid": 1,
                "dur": 40,
                "args": {**known, **inputs},
            }
            yield {**shared, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "dur": 5,
                   "args": {"External id": link, "cbid": 211, "correlation": link}}  # fmt: skip
            yield {**shared, "cat": "kernel", "name": kernels[index % 4], "tid": 7 + index % 2, "dur": 70,
                   "args": {"External id": link, "queued": 0, "device": 0, "context": 1, "stream": 7 + index % 2,
                            "correlation": link, "registers per thread": 168, "shared memory": 213_000,
                            "blocks per SM": 15.5, "warps per SM": 62.1, "grid": [132, 1, 1], "block": [128, 1, 1],
                            "est. achieved occupancy %": 25}}  # fmt: skip


CASES: dict[str, Callable[..., Iterator[Row]]] = {
    "results": results, "page": page, "steps": steps, "log": log, "watch": watch, "files": files, "trace": trace,
}  # fmt: skip
SPACE = {
    "results": GB,
    "page": GB,
    "steps": GB,
    "log": GB // 10,
    "watch": 4 * GB,
    "files": GB,
    "trace": 2 * GB,
}
"""Bytes of disk space that a case needs at most."""


def run(names: Sequence[str], parent: Path | None = None, *, small: bool = False) -> list[Row]:
    """Run some of CASES, print a row each, and return the rows."""
    rows = []
    for name in names:
        if shutil.disk_usage(parent or tempfile.gettempdir()).free < SPACE[name] + FREE:
            raise SystemExit(
                f"{name}: needs {SPACE[name] / GB:g} GB of disk space, and leaves {FREE / GB:g} GB"
                " free"
            )
        with tempfile.TemporaryDirectory(prefix="tprimat-load-", dir=parent) as folder:
            for row in CASES[name](Path(folder).resolve(), small=small):
                rows.append(row)
                used, missed = row.used, "  MISSED" if row.misses(small=small) else ""
                print(
                    f"{name:<8} {row.size:<44} {used.wall_s:7.1f} s {used.cpu_s:7.1f} s of CPU"
                    f" {used.memory_mb:6.0f} MB  load {os.getloadavg()[0]:.1f}{missed} "
                    f" {row.command}{f'  ({row.remark})' if row.remark else ''}",
                    flush=True,
                )
    return rows


def main() -> int:
    """Measure the cases that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help=f"{', '.join(CASES)} (default: all)"
    )
    parser.add_argument("--small", action="store_true", help="small inputs, and no target of time")
    parser.add_argument(
        "--folder", type=Path, help="for the inputs (default: a temporary directory)"
    )
    given = parser.parse_args()
    if unknown := set(given.cases) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    rows = run(given.cases or list(CASES), given.folder, small=given.small)
    return 1 if any(row.misses(small=given.small) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
