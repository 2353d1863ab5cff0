"""What an H200 measured (docs/measurements.md), against its files by json alone and another reader
of NVML.
"""

from __future__ import annotations

import json
import statistics

import pytest
from stored_runs import text_of

import tprimat
from tprimat.compare import compare
from tprimat.compare.cost import efficiencies
from tprimat.record.result import COVERS
from tprimat.results.account import Timing

NVML_JOULES = (22_194, 22_196)
"""By NVML's counter, which another process read, over the steps of the two compiled runs."""


@pytest.fixture(scope="module")
def folder(repository):
    return repository / "tests" / "data" / "h200"


@pytest.fixture(scope="module")
def found(folder):
    return compare(
        [tprimat.load(folder / f"{name}.json").files[0] for name in ("compiled", "eager")]
    )


def times(folder, name):
    """The times of steps 2 to 40 of each run, s."""
    document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return [run["step_times"][1:40] for run in document["runs"]]


def test_both_are_compared_over_the_steps_that_both_have(folder, found):
    ((group,),) = [model.groups for model in found.models]
    ((pair,),) = [group.pairs]
    compiled, eager = (
        statistics.fmean(statistics.fmean(run) for run in times(folder, name))
        for name in ("compiled", "eager")
    )
    assert max(pair.ratio.value, 1 / pair.ratio.value) == pytest.approx(eager / compiled, rel=1e-3)
    assert eager / compiled == pytest.approx(1.395, abs=0.005)


def test_energy_is_that_of_nvmls_counter(folder):
    runs = json.loads((folder / "compiled.json").read_text(encoding="utf-8"))["runs"]
    for run, joules in zip(runs, NVML_JOULES, strict=True):
        assert run["energy_metrics"]["energy_joules"] == pytest.approx(joules, rel=0.005)
        assert (
            abs(run["energy_metrics"]["energy_joules"] - joules)
            < run["energy_metrics"]["energy_error_joules"]
        )


def test_mfu_by_hand(folder, found):
    # 1,004 M weights in products and causal attention over 2,048 tokens in 16 layers of 2,048,
    # forward and backward.
    flops = 6 * (1_135_151_104 - 64_128 * 2_048) + 6 * 16 * 2_048 * 2_048
    (system,) = [each for each in found.systems if each.run.framework_config["torch_compile"]]
    (values,) = {
        row.values["mfu"].value for row in efficiencies(found, system) if "mfu" in row.values
    }
    tokens_s = (
        8 * 2_048 / statistics.fmean(statistics.fmean(run) for run in times(folder, "compiled"))
    )
    assert values == pytest.approx(100 * tokens_s * flops / 989.4e12, rel=2e-3)


def test_what_compiling_took_is_said_where_it_tells_systems_apart(folder, found):
    def said(comparison):
        caveats = [
            each for model in comparison.models for group in model.groups for each in group.caveats
        ]
        return [text_of(each) for each in caveats if each.code == "compile-time"]

    assert said(found) == [
        "compiling took 3.3 to 10.8 s before the first step; no speed includes it"
    ]
    compiled = [
        tprimat.load(folder / f"{name}.json").files[0] for name in ("compiled", "micro_batch_1")
    ]
    assert said(compare(compiled)) == []


def test_the_names_say_every_setting_that_differs(folder):
    files = [
        tprimat.load(folder / f"{name}.json").files[0]
        for name in ("compiled", "eager", "micro_batch_1")
    ]
    called = {
        "micro-batch 8, torch.compile",
        "micro-batch 8, eager",
        "micro-batch 1, torch.compile",
    }
    assert {system.name for system in compare(files).systems} == called
    assert {system.name for system in compare(files[1:]).systems} == {
        *sorted(called)[:1],
        "micro-batch 8, eager",
    }


def test_the_timer_of_results_that_claim_compilation_in_the_first_step_is_todays(folder):
    # The loop compiles before its first step, and so do runs that are recorded today: their timer
    # is the same one.
    assert "with compilation" in (folder / "compiled.json").read_text(encoding="utf-8")
    (compiled,) = tprimat.load(folder / "compiled.json").files
    assert {run.timing.covers for run in compiled.runs} == {COVERS}
    assert "; the first from the start of the training, with any compilation in it; " in COVERS
    other = Timing(covers="a step, with compilation of its kernels")
    assert other.covers == "a step, with compilation of its kernels"
