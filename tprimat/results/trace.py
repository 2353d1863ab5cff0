"""Trace: where the time of profiled steps goes, as read from profiler traces.

Part of a result file; see run.py, which these types can't import.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tprimat.results.fields import Natural, Seconds, Value

COMPUTATION = (
    "matrix_multiplication", "attention", "convolution", "normalisation", "softmax", "elementwise", "loss", "embedding",
    "optimizer", "quantisation", "reduction", "routing", "other",
)  # fmt: skip
"""Categories of computation. `quantisation` includes casts, `elementwise` copies that a kernel
makes, `routing` is that of mixture-of-experts models, `other` is what no rule recognizes.
"""

KINDS = (("convolution",), ("routing",), ("matrix_multiplication",), ("attention", "softmax"))
"""Parts that belong to a model, however it is implemented; attention may be products with a
softmax.
"""

COPIES = "copies"
"""The part of the copy engines: copies between host and device or within a device, and buffer
clears.
"""

COMMUNICATION = "communication_"
"""How the part of a collective begins; its kind follows, such as all_reduce."""

IDLE = ("idle_host_launch", "idle_data", "idle_synchronisation", "idle_other")
"""Causes of idle time: the host had not launched the next work yet; it was loading or preparing
data; it was waiting for the GPU; anything else, such as the gaps between kernels that were already
queued.
"""

Phase = Literal["forward", "backward", "optimizer"]


class TracedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A profiled step of one rank. Its parts don't overlap and add up to its time."""

    name: Annotated[
        str, "the step in the trace, such as ProfilerStep#6; empty if the trace has no steps"
    ] = ""
    rank: Annotated[Natural | None, "rank of the process"] = None
    seconds: Annotated[Seconds, "from the end of the previous step to the end of this one, s"]
    parts: Annotated[
        dict[str, Seconds], "exposed computation, communication, copies and idle time by cause, s"
    ]
    overlapped_communication: Annotated[
        Value, "communication hidden by computation, not included in the parts, s"
    ] = 0.0
    gpu_seconds: Annotated[Seconds, "from the step's first GPU work to its last, s"] = 0.0


class TracedWork(msgspec.Struct, frozen=True, kw_only=True):
    """GPU work of one kernel, launched by one operator on inputs of one shape; means per step."""

    kernel: Annotated[str, "name of the kernel, copy or buffer clear"]
    part: Annotated[str, "the part of a step that it belongs to"]
    operator: Annotated[str | None, "operator that launched it, such as aten::addmm"] = None
    phase: Annotated[Phase | None, "forward, backward or optimizer, if known"] = None
    shapes: Annotated[
        tuple[tuple[Natural, ...], ...], "dimensions of the operator's inputs; [] if none"
    ] = ()
    types: Annotated[tuple[str, ...], "types of the operator's inputs"] = ()
    calls: Annotated[Value, "executions per step"]
    seconds: Annotated[Seconds, "duration per step, including what overlaps other work, s"]
    exposed_seconds: Annotated[Seconds, "its share of the part, s"]


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time goes in profiled steps. A profiler slows the training."""

    steps: Annotated[
        tuple[TracedStep, ...], "profiled steps of all ranks; the whole trace if it has no steps"
    ]
    work: Annotated[tuple[TracedWork, ...], "the longest GPU work, sorted by duration"] = ()
