"""Throughput of steps that differ in their tokens, as those of reinforcement learning do."""

from __future__ import annotations

import random

import msgspec
import pytest
from stored_runs import text_of

from tprimat import read
from tprimat.analysis.summary import summarize
from tprimat.compare import Loaded, compare
from tprimat.read.parsing.text import lines


def log(tokens: list[int | None], seconds: list[float]) -> str:
    """Return verl's console of eight GPUs."""
    rows = []
    for step, (count, time) in enumerate(zip(tokens, seconds, strict=True), start=1):
        counted = (
            f"perf/total_num_tokens:{count} - perf/throughput:{count / time / 8} - "
            if count
            else ""
        )
        rows.append(
            f"step:{step} - actor/lr:1e-06 - {counted}perf/time_per_step:{time} -"
            " timing_s/gen:1.5\n"
        )
    return "".join(rows)


def summary(text: str):
    (run,) = read.read(lines([text.encode()]), "verl.log")
    return summarize(run)


def steps(count: int, seed: int = 1) -> tuple[list[int], list[float]]:
    draw = random.Random(seed)
    tokens = [draw.randrange(700_000, 900_000) for _ in range(count)]
    return tokens, [round(each / 20_000 * draw.uniform(0.99, 1.01), 3) for each in tokens]


def test_a_rate_is_all_tokens_over_all_time():
    tokens, seconds = steps(60)
    found = summary(log(tokens, seconds))
    start = next(index for index in range(60) if index + 1 == found.steady.first_step)
    expected = sum(tokens[start:]) / sum(seconds[start:])
    assert found.performance.tokens_per_second == pytest.approx(expected, rel=1e-6)
    assert found.performance.tokens_per_second_per_gpu == pytest.approx(expected / 8, rel=1e-6)
    assert any(text.startswith("tokens per step vary from") for text in found.warnings)


def test_a_slow_start_takes_its_tokens_with_it():
    tokens, seconds = steps(60)
    seconds[:4] = [each * 5 for each in seconds[:4]]
    found = summary(log(tokens, seconds))
    start = found.steady.first_step - 1
    assert start >= 4
    assert found.performance.tokens_per_second == pytest.approx(
        sum(tokens[start:]) / sum(seconds[start:]), rel=1e-6
    )


def test_one_step_without_a_count_leaves_the_printed_rate():
    tokens, seconds = steps(60)
    found = summary(log([*tokens[:30], None, *tokens[31:]], seconds))
    del tokens[30], seconds[30]
    start = found.steady.first_step - 1
    expected = sum(tokens[start:]) / sum(seconds[start:])
    assert found.performance.tokens_per_second == pytest.approx(expected, rel=1e-6)
    assert [note.code for note in found.notes if "rate" in note.code] == ["rate-printed"]


def test_a_log_may_state_the_tokens_of_every_step_at_once():
    rows = "".join(
        f"step {step:05}/21400 (0.02%) | loss: 8.9 | lrm: 1.00 | dt: 1000.00ms | tok/sec: 524,288 |"
        " mfu: 70.00 | total time: 0.00m\n"
        for step in range(1, 41)
    )
    found = summary(rows)
    assert found.performance.tokens_per_second == pytest.approx(524_288, rel=1e-3)
    assert not any("tokens per step vary" in text for text in found.warnings)


@pytest.mark.parametrize(("factor", "named"), [(1.0, False), (1.009, False), (1.011, True)])
def test_other_tokens_per_step_are_a_caveat(factor, named):
    tokens = [800_000] * 40
    runs = []
    # Runs of equal times would be copies of one.
    for share, model, phase in ((1.0, "H100", 0), (factor, "MI300X", 1)):
        text = log(
            [round(each * share) for each in tokens],
            [40.0 + 0.01 * ((step + phase) % 3) for step in range(40)],
        )
        (run,) = read.read(lines([text.encode()]), "verl.log")
        gpu = msgspec.structs.replace(run.gpu_info, device_name=model, device_count=8)
        runs.append(
            Loaded(
                f"{model}.json", model, (msgspec.structs.replace(run, model="llama", gpu_info=gpu),)
            )
        )
    (model,) = compare(runs).models
    caveats = [text_of(caveat) for group in model.groups for caveat in group.caveats]
    assert any("tokens per step differ" in text and "800,000" in text for text in caveats) is named
