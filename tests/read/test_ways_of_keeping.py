"""The same log as it is kept elsewhere, passed on, pasted, copied or recoded says the same."""

import functools
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tprimat import read
from tprimat.errors import UnreadableError
from tprimat.log_import import inputs
from tprimat.read.parsing import text
from tprimat.results.run import Run

LOGS = (
    "primus/megatron_core_llama32_1B_fp8_mi355x_12it_DUP.log",
    "primus/megatron_legacy_llama2_7B_4layer_mi300x_3it.log",
    "primus/torchtitan_llama3_8B_fp8_mi300x_3st.log",
    "primus/mlperf_flux_summary.log",
    "maxtext/tutorial.log",
)

WAYS: dict[str, Callable[[bytes, int], bytes]] = {
    "docker logs -t": lambda line, number: b"2026-06-01T10:00:%02d.123456789Z " % (number // 200 % 60) + line,
    "docker compose": lambda line, number: b"primus-1  | " + line,
    "docker's own file": lambda line, number: (
        json.dumps({
            "log": line.decode("utf-8", "replace") + "\n", "stream": "stdout", "time": "2026-06-01T10:00:00.1Z"
        }).encode()
    ),
    "kubectl logs --prefix": lambda line, number: b"[pod/primus-master-0/pytorch] " + line,
    "torchrun --tee": lambda line, number: b"[default7]:" + line,
    "srun --label": lambda line, number: b"7: " + line,
    "mpirun --tag-output": lambda line, number: b"[1,7]<stdout>:" + line,
    "journalctl": lambda line, number: b"Jun 01 10:00:00 node-17 python3[4242]: " + line,
    "ts": lambda line, number: b"Jun 01 10:00:00 " + line,
    "several": lambda line, number: b"2026-06-01T10:00:00.1Z stdout F [pod/x-0/y] 7: [rank7]: " + line,
    "no escape bytes": lambda line, number: line.replace(b"\x1b", b""),
    "cat -v": lambda line, number: line.replace(b"\x1b", b"^["),
    "JSON's escapes": lambda line, number: line.replace(b"\x1b", b"\\u001b"),
    "Windows": lambda line, number: line + b"\r",
    "a progress bar before": lambda line, number: b" 10%|#   | 1/10\r 20%|##  | 2/10\r" + line,
    "blanks at the end": lambda line, number: line + b"   ",
}  # fmt: skip

RECODED: dict[str, Callable[[bytes], bytes]] = {
    "UTF-16": lambda content: content.decode("utf-8", "replace").encode("utf-16"),
    "UTF-16 without a mark": lambda content: content.decode("utf-8", "replace").encode("utf-16-le"),
    "UTF-16, the other way round": (
        lambda content: content.decode("utf-8", "replace").encode("utf-16-be")
    ),
    "emptied while in use": lambda content: b"\x00" * 4096 + content,
    "every line twice": lambda content: b"".join(
        line + b"\n" + line + b"\n" for line in content.split(b"\n")[:-1]
    ),
}


def told(content: bytes) -> list[tuple[object, ...]]:
    return [shown(run) for run in read.read(text.lines([content]), "kept.log")]


def shown(run: Run) -> tuple[object, ...]:
    """What of a training must not depend on how its log is kept."""
    return (
        run.framework, run.model, run.scale, run.platform, run.status, run.steps, run.window_steps, run.step_times,
        run.loss_values, run.learning_rates, run.grad_norms, run.native_metrics, run.training_config,
        run.parallelism_config, run.model_config, run.memory_metrics,
    )  # fmt: skip


@functools.cache
def original(path: Path) -> tuple[bytes, list[tuple[object, ...]]]:
    """A log with its last line ended, and what is read of it."""
    content = path.read_bytes()
    content += b"" if content.endswith(b"\n") else b"\n"
    return content, told(content)


def way(log: bytes, how: Callable[[bytes, int], bytes]) -> bytes:
    return b"".join(how(line, number) + b"\n" for number, line in enumerate(log.split(b"\n")[:-1]))


@pytest.mark.parametrize("log", LOGS)
class TestRealLogs:
    @pytest.mark.parametrize("how", WAYS)
    def test_passed_on_by(self, log, how, samples):
        content, plainly = original(samples / log)
        assert told(way(content, WAYS[how])) == plainly

    @pytest.mark.parametrize("how", RECODED)
    def test_recoded(self, log, how, samples):
        content, plainly = original(samples / log)
        assert told(RECODED[how](content)) == plainly


def test_the_time_of_dockers_own_file_is_the_trainings():
    lines = [
        {
            "log": f"iteration {step}/ 2 | elapsed time per iteration (ms): 500.0 |\n",
            "stream": "stdout",
            "time": time,
        }
        for step, time in ((1, "2026-06-01T10:00:00.5Z"), (2, "2026-06-01T10:00:01Z"))
    ]
    (run,) = read.read(
        text.lines([b"".join(json.dumps(each).encode() + b"\n" for each in lines)]), "json.log"
    )
    assert run.timestamp == "2026-06-01T10:00:00.500000+00:00"
    assert run.step_times == (0.5, 0.5)


@pytest.mark.parametrize(
    "line", ['{"log":', '{"log": 3}', '{"log":"x"', '{"log":"x","time":5}', '{"log":"a\\r\\nb"}']
)
def test_what_only_looks_like_it_is_a_line(line):
    found = [each.text for each in text.lines([line.encode() + b"\nnext\n"])]
    assert found[-1] == "next"
    assert found[:-1] == {'{"log":"x","time":5}': ["x"], '{"log":"a\\r\\nb"}': ["a", "b"]}.get(
        line, [line]
    )


QUOTING = {
    "log": "a.log",
    "notes": [
        "two end-of-run lines ([EarlyStop], [TimeToTrain] status: success)",
        "50 :::MLLOG lines; the first one is :::MLLOG {cut",
        "steps: 1 loss: 3.5 iter time (s): 0.5 samples/sec: 2.0",
        "iteration 3/ 50 | elapsed time per iteration (ms): 700.0 |",
        "Step Time : 0.79s GPU utilization: 62.4MODEL_TFLOP/s/GPU",
    ],
}


@pytest.mark.parametrize("content", [QUOTING, [QUOTING, QUOTING]])
def test_notes_on_logs_in_json_are_no_log(content):
    with pytest.raises(
        UnreadableError,
        match=r"no supported training log in it",
    ):
        read.read(text.lines([json.dumps(content, indent=1).encode()]), "truth.json")


def test_what_a_notebook_keeps_of_a_log_is_one():
    lines = [
        f"iteration {step}/ 5 | elapsed time per iteration (ms): 70{step}.0 |\n"
        for step in range(1, 6)
    ]
    kept = json.dumps({"cells": [{"outputs": [{"text": lines}]}]}, indent=1)
    (run,) = read.read(text.lines([kept.encode()]), "training.ipynb")
    assert run.step_times == (0.701, 0.702, 0.703, 0.704, 0.705)


@pytest.mark.parametrize(
    "content", [":::MLLOG of nothing\n", ":::MLLOG {cut\n" * 9, "[x] :::MLLOG {}\n"]
)
def test_words_about_mlperfs_events_are_no_training(content):
    with pytest.raises(UnreadableError, match="no supported training log in it"):
        read.read(text.lines([content.encode()]), "notes.txt")


def test_every_description_of_the_samples_is_refused(samples):
    there = sorted(samples.glob("*/truth.json"))
    assert there
    for path in there:
        with pytest.raises(UnreadableError, match=re.escape("no supported training log in it")):
            read.read(text.lines([path.read_bytes()]), str(path))


def test_the_hash_of_a_long_log_is_of_all_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "HASHED_ASIDE", 500)
    monkeypatch.setattr(inputs, "CHUNK", 64)
    content = b"".join(b"line %d\n" % number for number in range(300))
    path = tmp_path / "long.log"
    path.write_bytes(content)
    log = inputs.Log(str(path))
    assert b"".join(log.chunks()) == content
    assert log.source_file().sha256 == hashlib.sha256(content).hexdigest()
    assert log.source_file().bytes == len(content)
