#!/usr/bin/env python3
"""What it costs to read a profiler trace, beside json.load with a pandas DataFrame of the events.

A trace of the wanted size is made by repeating a real one, with its times, correlations, ids and
step numbers moved on, and deleted afterwards. Each way of reading runs in a process of its own, one
after the other, round by round. Other tools join where a Python is named that has them, such as
that of a throw-away environment:

    ./benchmarks/trace_reading.py TRACE.json.gz --size 1000 --others /tmp/tools/bin/python
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

import child
from child import MB

sys.path.insert(0, str(child.ROOT))

APART = 10_000_000
"""How far ids of two repetitions lie apart."""

_NUMBERS = re.compile(
    rb'("(?:ts|correlation|External id|id|Python id|Python parent id)": ?|"ProfilerStep#)(\d+)'
)

OURS = "tprimat"
PLAIN = "json.load and pandas"
TRACELENS = "TraceLens"
HTA = "HolisticTraceAnalysis"


def make(source: Path, target: Path, size: int) -> int:
    """Write a trace of about `size` bytes that repeats another; return how many times."""
    content = source.read_bytes()
    text = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    begin = re.search(rb'"traceEvents"\s*:\s*\[', text)
    assert begin is not None, f"{source} has no traceEvents"
    end = text.rindex(b"]")
    events = text[begin.end() : end].strip()
    times = [float(each) for each in re.findall(rb'"ts": ?([0-9.]+)', events)]
    apart = {b"ts": int(max(times) - min(times)) + 1000, b"ProfilerStep#": 100}
    pieces = _NUMBERS.split(events)
    written = 0
    count = max(round(size / len(events)), 1)
    with target.open("wb", buffering=1 << 22) as trace:
        trace.write(text[: begin.end()] + b"\n")
        for number in range(count):
            moved = list(pieces)
            for index in range(1, len(pieces), 3):
                name = pieces[index].strip(b'": ')
                moved[index + 1] = str(
                    int(pieces[index + 1]) + number * apart.get(name, APART)
                ).encode()
            written += trace.write((b",\n  " if number else b"  ") + b"".join(moved))
        trace.write(b"\n" + text[end:])
    return count


def read(way: str, path: str) -> dict[str, float]:
    """Read a trace in one way; return the wall time in s and what was found."""
    found = 0.0
    before = time.perf_counter()
    if way == OURS:
        from tprimat.log_import import sources

        logs, _, _ = sources.log_sources([path])
        outcome = sources.read_source(logs[0])
        assert isinstance(outcome, list), outcome
        trace = outcome[0].run.trace
        assert trace is not None
        found = float(len(trace.steps))
    elif way == PLAIN:
        import pandas

        with Path(path).open(encoding="utf-8") as stream:
            frame = pandas.DataFrame(json.load(stream)["traceEvents"])
        found = float(frame["name"].nunique())
    elif way == TRACELENS:
        from TraceLens import TreePerfAnalyzer  # type: ignore[import-not-found]

        table = TreePerfAnalyzer.from_file(profile_filepath=path).get_df_gpu_timeline()
        found = float(table["time ms"].iloc[0])
    elif way == HTA:
        from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found]

        analysis = TraceAnalysis(trace_files={0: path}, trace_dir="")
        found = float(analysis.get_temporal_breakdown(visualize=False)["idle_time(us)"].iloc[0])
    return {"seconds": time.perf_counter() - before, "found": found}


def measured(python: str, way: str, path: Path) -> dict[str, float] | None:
    """Return what reading costs in a process of its own; None if the tool fails or isn't there."""
    try:
        used = child.measure([__file__, "--way", way, str(path)], python=python)
    except SystemExit as error:
        print(f"  {way}: {str(error).strip().splitlines()[-1]}")
        return None
    return {
        **json.loads(used.output.splitlines()[-1]),
        "cpu_seconds": used.cpu_s,
        "peak_mb": used.memory_mb,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "trace", type=Path, help="a real trace of PyTorch's profiler, .json or .json.gz"
    )
    parser.add_argument(
        "--size", type=int, default=1000, metavar="MB", help="of the trace to read (default: 1000)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each way reads it (default: 3)"
    )
    parser.add_argument(
        "--others",
        metavar="PYTHON",
        help="an interpreter that has TraceLens or HolisticTraceAnalysis",
    )
    parser.add_argument("--way", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(read(arguments.way, str(arguments.trace))))
        return
    ways = [(sys.executable, OURS), (sys.executable, PLAIN)]
    ways += [(arguments.others, name) for name in (TRACELENS, HTA) if arguments.others]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank0.pt.trace.json"
        count = make(arguments.trace, path, arguments.size * MB)
        print(f"{path.stat().st_size / MB:,.0f} MB, {arguments.trace.name} {count} times")
        results: dict[str, list[dict[str, float]]] = {}
        for _ in range(arguments.rounds):
            for python, way in ways:
                if (values := measured(python, way, path)) is not None:
                    results.setdefault(way, []).append(values)
    for way, values in results.items():
        wall, cpu = (
            statistics.median(each[name] for each in values) for name in ("seconds", "cpu_seconds")
        )
        # Of each round, as the load of the machine may change between them.
        ratio = statistics.median(
            each["cpu_seconds"] / own["cpu_seconds"]
            for each, own in zip(values, results[OURS], strict=False)
        )
        peak = max(each["peak_mb"] for each in values)
        print(
            f"  {way:<22} {wall:7.1f} s, of the CPU {cpu:6.1f} s, {ratio:5.2f} times {OURS};"
            f" {peak:7,.0f} MB at most"
        )


if __name__ == "__main__":
    main()
