"""Lines of any framework's log: versions of libraries, scarce memory, profilers, another precision
from a step on.
"""

from __future__ import annotations

from tprimat.read.parsing.values import count, number, statements

VERSION = r"\d{1,4}(?:\.\d{1,6}){1,3}"

LINES = statements(
    # NCCL version 2.22.3+cuda12.6; RCCL version : 2.22.3-HEAD:9ef3a49
    (
        "CCL version",
        str,
        1,
        (
            rf"\bNCCL version[ :]{{1,4}}(?P<nccl>{VERSION})|\bRCCL version["
            rf" :]{{1,4}}(?P<rccl>{VERSION})"
        ),
    ),
    # Supported flash-attn versions are >= 2.1.1, <= 2.8.0.post2. Found flash-attn 2.8.3
    ("Found flash-attn", str, 1, rf"\bFound flash-attn (?P<flash_attn>{VERSION})"),
    # 25 CUDA memory allocation retries. (torchtitan); 2 pytorch allocator cache flushes since last
    # step (DeepSpeed)
    ("allocation retries", count, 1, r"\b(?P<retries>\d{1,9}) \w{1,9} memory allocation retries\b"),
    (
        "cache flushes",
        count,
        1,
        r"\b(?P<retries>\d{1,9}) pytorch allocator cache flushes since last step",
    ),
    # FP8 Healing starting..., of NVIDIA's code for FP4
    ("ealing starting", str, 1, r"\b(?P<healing>\w{2,9}) [Hh]ealing starting\b"),
    # memory: 134.43GiB (96.21%), the part of a step line of torchtitan, if no more than 5% is free
    (
        "memory: ",
        number,
        1,
        # It begins with letters, as those are found more quickly than a word's boundary.
        r"memory:(?<=\bmemory:) *[\d.]{1,12}Gi?B ?\((?P<memory_percent>9[5-9]\.\d{1,9}|100\.0{1,9})%\)",
    ),
    # torchtitan, others that took its function over, and torch.profiler itself
    ("profiler", str, 1, r"\b(?P<profiler>Dumping profiler traces at step \d{1,12})"),
    (
        "ActivityProfiler",
        str,
        1,
        r"\b(?P<profiler>ActivityProfilerController\.cpp:\d{1,6}\] Completed Stage: Collection)",
    ),
)
"""Values in such lines, by the names here."""

SIGNS = tuple(row.sign for row in LINES)

VERSIONS = {"nccl": "nccl", "rccl": "rccl", "flash-attn": "flash_attn"}
"""Those of libraries, by their names in a result."""

NOTES = {
    "memory_percent": "memory-nearly-full",
    "retries": "allocation-retries",
    "profiler": "profiler-captures",
    "healing": "precision-changes",
}
"""The others, with the codes of the notes on them."""
