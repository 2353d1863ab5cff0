"""Time in MLPerf's logs, compared with an independent account of 62 sets and six pairs."""

from __future__ import annotations

import functools
import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from read_truth import runs_of

from tprimat import read
from tprimat.analysis import account
from tprimat.analysis.summary import summarize
from tprimat.compare import Loaded, compare
from tprimat.compare.target import ratio
from tprimat.log_import.extract import with_system
from tprimat.read.parsing import text

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "samples" / "mlperf_clock"
TRUTH = (
    json.loads((FOLDER / "truth.json").read_text())
    if FOLDER.is_dir()
    else {"rows": [], "pairs": []}
)
PARTS = {"start-up": "start", "training": "train", "evaluation": "eval", "end": "end"}


@functools.cache
def run_of(path: Path):
    (run,) = runs_of(path)
    return with_system(run, path)


def logs() -> Iterator[Any]:
    for row in TRUTH["rows"]:
        name, within = (
            row["log"]["file"],
            FOLDER / "sets" / f"v{row['repo'][-3:]}" / row["log"]["path"],
        )
        path = FOLDER / name if name else within
        if path.exists():
            yield pytest.param(path, row["log"], id=f"{row['repo'][-3:]} {row['set']}")


def test_there_are_logs_to_read(samples):
    assert len(list(logs())) > 50


@pytest.mark.parametrize(("path", "known"), list(logs()))
def test_a_log_has_its_parts_and_its_speed(path, known):
    run = run_of(path)
    found = account.account(run, None)
    for part, name in PARTS.items():
        assert found.parts.get(part, 0.0) == pytest.approx(known["parts"][name], abs=0.5)
    unknown = known["parts"]["mixed"] + known["parts"]["between"]
    assert found.parts.get("unknown", 0.0) == pytest.approx(unknown, abs=0.5)
    assert found.whole == pytest.approx(known["official_seconds"], abs=0.0015)
    assert math.fsum(found.parts.values()) == pytest.approx(known["official_seconds"], abs=0.0015)
    assert found.before == pytest.approx(known["init_seconds"], abs=0.5)
    summary = summarize(run)
    if known["contains_evaluation"]:
        # An upper bound is no speed.
        assert summary.performance.avg_step_time_seconds is None
        assert any(
            f"a step takes at most {known['s_per_step']:.4g} s" in warning
            for warning in run.warnings
        )
        return
    assert summary.clock == "blocks"
    assert summary.performance.avg_step_time_seconds == pytest.approx(
        known["s_per_step"], rel=0.002
    )
    assert summary.performance.median_step_time_seconds == pytest.approx(
        known["s_per_step_typical_block"], rel=0.002
    )
    assert summary.performance.total_steps == known["steps"]
    assert len(account.blocks(run)) == known["blocks"]
    far = abs(known["s_per_step"] / known["s_per_step_typical_block"] - 1)
    if abs(far - 0.01) > 1e-4:
        assert any("in the median block" in warning for warning in summary.warnings) == (far > 0.01)


@pytest.mark.parametrize(("path", "known"), list(logs())[::6])
@pytest.mark.parametrize("left_out", [{1}, {2}, set(range(2, 9_999))])
def test_t1_a_log_without_some_of_its_block_starts_has_the_same_speed(path, known, left_out):
    lines, found = [], 0
    for line in path.read_text(errors="replace").splitlines():
        found += '"block_start"' in line
        if '"block_start"' not in line or found not in left_out:
            lines.append(line)
    (run,) = read.read(text.lines(["\n".join(lines).encode()]), path.name)
    performance = summarize(run).performance
    if known["contains_evaluation"]:
        assert performance.avg_step_time_seconds is None
        return
    assert performance.avg_step_time_seconds == pytest.approx(known["s_per_step"], rel=0.002)
    assert performance.total_steps == known["steps"]


@pytest.mark.parametrize("known", TRUTH["pairs"], ids=lambda known: known["pair"])
def test_a_pair_is_sooner_for_the_right_reasons(known):
    systems = []
    for side in ("a", "b"):
        paths = sorted((FOLDER / known[f"{side}_logs"]).glob("result_*.txt"))
        runs = tuple(map(run_of, paths))
        assert len(runs) in (3, 10)
        (system,) = compare([Loaded(side, side * 8, runs)]).systems
        systems.append(system)
    found = ratio(systems[1], systems[0])
    names = {"time": "time_ratio", "official": "official_ratio"}
    for name in ("time", "speed", "samples", "rest", "normalisation", "official"):
        assert found.factors[name].value == pytest.approx(known[names.get(name, name)], rel=0.001)
    for system, seconds, typical, scores in zip(
        systems, known["s_per_step"], known["typical"], known["official"], strict=True
    ):
        assert system.value("avg_step_time_seconds") == pytest.approx(seconds, rel=0.002)
        assert system.value("median_step_time_seconds") == pytest.approx(typical, rel=0.002)
        assert len({result.run.num_gpus for result in system.runs}) == 1
        assert scores > 0
    # The speed per GPU, over all runs, with its interval, as compare gives it.
    files = [
        Loaded(name, name * 8, tuple(each.run for each in system.runs))
        for name, system in zip("ab", systems, strict=True)
    ]
    pair = next(iter(compare(files).pairs))
    value = (
        pair.ratio if pair.system.runs[0].run == systems[0].runs[0].run else pair.ratio.inverted()
    )
    assert value.value == pytest.approx(known["per_gpu_mean_all"], rel=0.001)
    assert (value.low, value.high) == pytest.approx(tuple(known["ci"]), rel=0.003)


def test_the_slow_block_is_named_with_what_the_log_prints(samples):
    run = run_of(FOLDER / "v5.1_llama2_70b_lora_Nebius_nebius_b200_n2_r1.txt")
    (warning,) = [each for each in summarize(run).warnings if "median block" in each]
    assert warning.endswith(
        "block 5 takes 2.19× as long (steps 337–384): FP8 Healing starting (line 1110)"
    )
    paths = sorted((FOLDER / "sets/v5.1/Nebius/results/nebius_b200_n1/llama31_8b").glob("*.txt"))
    notes = [[block.note for block in account.blocks(run_of(path)) if block.note] for path in paths]
    assert len(notes) == 10
    assert all(
        "Running garbage collection at train global_step: 10000 (line" in " ".join(each)
        for each in notes
    )
    blocks = [account.blocks(run_of(path))[13] for path in paths]
    assert statistics.fmean(block.duration for block in blocks) == pytest.approx(393.6, abs=1)
