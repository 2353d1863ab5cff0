"""The options of `make run`: two setups that differ honestly on any CPU, with runs enough for an
interval.
"""

from __future__ import annotations

import pytest
from tool_modules import load_tool

from tprimat import frameworks
from tprimat.cli.options import benchmark
from tprimat.machine.platforms import Machine
from tprimat.measure.plan import plan_of
from tprimat.results.run import Environment, GpuInfo

run_options = load_tool("run_options")


@pytest.mark.parametrize(
    ("instructions", "labels"),
    [
        (("avx2", "avx512_bf16"), ["fp32", "bf16"]),
        (("avx2",), ["micro1", "micro2"]),
        (None, ["micro1", "micro2"]),
    ],
)
def test_two_setups_of_llama_on_a_cpu(instructions, labels):
    words = run_options.options(gpu=False, instructions=instructions).split()
    machine = Machine(
        "cpu", GpuInfo(device_count=1, software_stack="cpu"), Environment(cpu_threads=2)
    )
    plan = plan_of(benchmark.parser().parse_args(words), frameworks.by_name("lightning"), machine)
    assert [(request.model, request.label) for request in plan.requests] == [
        ("llama", label) for label in labels
    ]
    assert len({request.global_batch_size for request in plan.requests}) == 1
    assert [index for _, index in plan.order()] == [0, 1, 1, 0, 0, 1, 1, 0, 0, 1]
    more = benchmark.parser().parse_args([*words, "--model", "all"])
    assert len(plan_of(more, frameworks.by_name("lightning"), machine).requests) == 6


def test_a_gpu_measures_as_benchmark_does_by_itself():
    assert run_options.options(gpu=True, instructions=None) == ""
