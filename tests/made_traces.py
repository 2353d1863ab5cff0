"""Traces in the form of PyTorch's profiler, made event by event; times in µs."""

from __future__ import annotations

import json


class MadeTrace:
    """A process with one GPU; launches are events of a host thread."""

    def __init__(self, rank: int | None = None, world_size: int | None = None) -> None:
        self.events: list[dict] = []
        self.head: dict = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
        }
        if rank is not None:
            self.head["distributedInfo"] = {
                "backend": "nccl",
                "rank": rank,
                "world_size": world_size or 8,
            }
        self._correlation = 0

    def event(
        self,
        category: str,
        name: str,
        start: float,
        end: float,
        tid: int | str = 1,
        **arguments: object,
    ) -> None:
        event = {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 1,
            "tid": tid,
            "ts": start,
            "dur": end - start,
        }
        self.events.append({**event, "args": arguments})

    def operator(self, name: str, start: float, end: float, **arguments: object) -> None:
        self.event("cpu_op", name, start, end, **arguments)

    def step(self, number: int, start: float, end: float) -> None:
        self.event("user_annotation", f"ProfilerStep#{number}", start, end)

    def kernel(
        self,
        name: str,
        launched: float | None,
        start: float,
        end: float,
        stream: int = 7,
        category: str = "kernel",
    ) -> None:
        self._correlation += 1
        link = {"correlation": self._correlation}
        if launched is not None:
            self.event("cuda_runtime", "cudaLaunchKernel", launched, launched + 1, **link)
        self.event(category, name, start, end, tid=stream, device=0, stream=stream, **link)

    def text(self, **layout: object) -> bytes:
        return json.dumps(
            {**self.head, "traceEvents": self.events, "traceName": "made"}, **layout
        ).encode()
