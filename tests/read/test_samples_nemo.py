"""Every real log of NeMo, held against what a careful reading of it finds."""

import msgspec
import pytest
from cut_logs import cut
from read_truth import check, check_all, runs_of

from tprimat import read
from tprimat.read.parsing import text
from tprimat.results.result_file import decode
from tprimat.store.store import as_file, encode

LOGS = (
    "aws_skypilot_l40s.log",
    "embedding_cell16.log",
    "resiliency_cell14.log",
    "resiliency_cell22.log",
    "resiliency_cell36.log",
    "dllogger_gpt3_175b_a3mega.json.txt",
    "dllogger_llama3_70b_a3ultra.json.txt",
)


@pytest.mark.parametrize("name", LOGS)
def test_a_real_log_of_nemo_is_read_whole(name, samples, truth):
    runs = runs_of(samples / "nemo" / name)
    assert check_all(runs, truth("nemo")[name]) == []
    assert decode(encode(as_file([runs[0]]))) == (runs[0],)


def test_a_restart_keeps_the_attempt_that_went_on(samples, truth):
    (run,) = runs_of(samples / "nemo" / "resiliency_cell22.log")
    assert (run.steps, run.status) == (tuple(range(1, 21)), "complete")
    last = truth("nemo")["resiliency_cell22.log"]["trainings"][1]
    assert check(run, {"step_time_s": last["step_time_s"]}) == []
    assert any("restarted on line 763 from step 10" in warning for warning in run.warnings)


def test_the_last_line_of_a_new_epoch_is_the_last_step(samples):
    (run,) = runs_of(samples / "nemo" / "resiliency_cell14.log")
    assert run.steps[-1] == 20
    assert run.native_metrics["printed_step"][-1] == 19


def test_the_batch_that_samples_and_steps_would_give_is_a_hint(samples):
    (run,) = runs_of(samples / "nemo" / "dllogger_gpt3_175b_a3mega.json.txt")
    assert any("suggest 2048" in warning for warning in run.warnings)
    assert run.timestamp.startswith("2024-09-27T18:29:41")


@pytest.mark.parametrize("name", ["resiliency_cell22.log", "dllogger_llama3_70b_a3ultra.json.txt"])
def test_a_log_cut_anywhere_is_read_for_what_it_holds(name, samples):
    content = (samples / "nemo" / name).read_bytes()
    (whole,) = read.read(text.lines([content]), name)
    ends = {
        *range(0, len(content), max(1, len(content) // 15)),
        *range(max(0, len(content) - 300), len(content), 11),
    }
    for _, runs in cut(content, sorted(ends), name):
        if not runs:
            continue
        assert set(runs[0].steps) <= set(whole.steps)
        assert {loss for loss in runs[0].loss_values if loss} <= set(whole.loss_values)
        msgspec.json.encode(runs)
