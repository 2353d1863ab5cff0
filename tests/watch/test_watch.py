"""watch: logs that grow, rotate and stop, with a clock of the test's own."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import golden
import pytest

from tests.read.test_timeline import crashed
from tprimat import cli
from tprimat.errors import ExitStatus, UnreadableError
from tprimat.log_import import inputs, load
from tprimat.log_import.given import GivenValues
from tprimat.watch import growing, lines
from tprimat.watch.growing import GrowingLogs
from tprimat.watch.watcher import Conditions, watch

ROOT = Path(__file__).resolve().parents[2]
GIVEN = GivenValues("llama3.1_8B", gpu="MI300X", precision="bf16")
STEPS = 100
HEAD = [
    f"  {name} {'.' * 20} {value}"
    for name, value in {
        "num_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_query_groups": 8,
        "group_query_attention": True,
        "ffn_hidden_size": 14336,
        "swiglu": True,
        "padded_vocab_size": 128256,
        "untie_embeddings_and_output_weights": True,
        "seq_length": 2048,
        "micro_batch_size": 1,
        "world_size": 8,
        "global_batch_size": 64,
    }.items()
]


def step_line(step, seconds):
    return (
        f" iteration {step:8d}/{STEPS:8d} | consumed samples: {64 * step} | elapsed time per"
        f" iteration (ms): {1000 * seconds * (1 + 0.004 * ((7 * step) % 5 - 2)):.1f} | learning"
        f" rate: 3.0E-04 | global batch size:    64 | lm loss: {10 - 0.01 * step:.6E} |"
    )


def log_lines(*speeds):
    """The lines of a log; each (steps, seconds) goes on with so many steps of so many seconds."""
    found, step = list(HEAD), 0
    for count, seconds in speeds:
        for _ in range(count):
            step += 1
            found.append(step_line(step, seconds))
    return found


class Training:
    """A training that writes its log while the watch sleeps: so many lines each time."""

    def __init__(
        self, log: Path, lines_of_log: list[str], at_once: int = 10, first: int = len(HEAD) + 1
    ):
        self.log, self.rest, self.at_once, self.now = log, list(lines_of_log), at_once, time.time()
        self.slept: list[float] = []
        self.before: list = []
        self.write(first)

    def write(self, count: int) -> None:
        taken, self.rest = self.rest[:count], self.rest[count:]
        if taken:
            with self.log.open("a") as stream:
                stream.write("".join(f"{line}\n" for line in taken))
            os.utime(self.log, (self.now, self.now))

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        assert len(self.slept) < 200, "the watch never ends"
        self.now += seconds
        for action in self.before:
            action(len(self.slept))
        self.write(self.at_once)

    def watched(self, conditions=None, baseline=(), interval_s=10.0):
        return list(
            watch(
                GrowingLogs(str(self.log), GIVEN),
                interval_s,
                baseline,
                conditions,
                self.clock,
                self.sleep,
            )
        )


def events(updates):
    return [event for update in updates for event in update.events]


def test_a_training_is_followed_to_its_end(tmp_path):
    updates = Training(tmp_path / "train.log", log_lines((3, 3.0), (97, 1.0))).watched()
    assert updates[0].state.step == 1
    assert [update.state.step for update in updates[1:4]] == [11, 21, 31]
    assert updates[-1].status == ExitStatus.OK
    assert events(updates) == ["steady state from step 4", "the training is complete: 100 steps"]
    state = updates[5].state
    assert state.step == 51
    assert state.time_left_s == pytest.approx(49 * state.recent_s)
    # 64 × 2,048 tokens in 1 s on 8 GPUs.
    assert state.summary.performance.tokens_per_second_per_gpu == pytest.approx(16384, rel=2e-3)
    # 8.03 B parameters × 6 × tokens/s of the MI300X's 1,307 TFLOP/s, and the attention: some 60%.
    assert 55 < state.mfu < 65


def test_step_time_and_throughput_of_a_line_are_of_the_same_steps(tmp_path):
    """64 × 2,048 tokens per step on 8 GPUs: 16,384 tokens/s/GPU at 1 s per step, and 4,096 at 4
    s.
    """
    state = (
        Training(tmp_path / "train.log", log_lines((60, 1.0), (40, 4.0)), at_once=100)
        .watched()[-1]
        .state
    )
    screen = lines.screen(state, "train.log", None)
    shown = [line.split(maxsplit=1 + line.startswith("  last"))[-1] for line in screen[3:5]]
    assert shown[0] == "4.000 s per step, 4,096 tokens/s/GPU"
    assert shown[1].startswith("2.200 s per step, 7,447 tokens/s/GPU, MFU ")
    assert "; ".join((shown[0], f"mean {shown[1]}")) in lines.line(state)
    found = lines.values(state)
    for time_s, rate in (
        ("recent_step_time_seconds", "recent_tokens_per_second_per_gpu"),
        ("avg_step_time_seconds", "tokens_per_second_per_gpu"),
    ):
        assert found[time_s] * found[rate] == pytest.approx(64 * 2048 / 8)


def test_a_change_of_speed_is_told_once(tmp_path):
    updates = Training(tmp_path / "train.log", log_lines((50, 1.0), (50, 1.25))).watched()
    told = [event for event in events(updates) if "changed" in event]
    assert told == ["step time changed at step 51: 1.000 s → 1.250 s (25% slower)"]
    assert "step time changed at step 51" in "\n".join(
        lines.screen(updates[-1].state, "train.log", None)
    )


def test_the_interval_is_of_the_steps_whose_mean_it_follows(tmp_path):
    updates = Training(tmp_path / "train.log", log_lines((50, 1.0), (50, 1.25))).watched()
    state = updates[-1].state
    assert "; mean 1.125 s per step" in lines.line(state)
    assert "; since step 51: 1.250 s ±" in lines.line(state)
    shown = next(text for text in lines.screen(state, "train.log", None) if "interval" in text)
    assert "since step 51: 1.250 s ±" in shown
    steady = Training(tmp_path / "steady.log", log_lines((100, 1.0))).watched()[-1].state
    assert "since" not in lines.line(steady)
    assert "; ±" in lines.line(steady)


def test_a_slowdown_ends_the_watch_with_a_status(tmp_path):
    updates = Training(tmp_path / "train.log", log_lines((50, 1.0), (50, 1.25))).watched(
        Conditions(max_slowdown=0.1)
    )
    assert updates[-1].status == ExitStatus.SLOWER
    limit = "20.0% slower, more than the 10.0% of --max-slowdown"
    assert events(updates)[-1] == f"{limit}: a reason to stop this run, not a proof"
    assert updates[-1].state.step < 100


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.8, "25% faster so far"), (1.25, "20% slower so far")]
)
def test_the_baseline_is_compared_while_it_runs(tmp_path, seconds, said):
    (tmp_path / "base.log").write_text("\n".join(log_lines((100, 1.0))))
    baseline = load.load([str(tmp_path / "base.log")], GIVEN).files
    updates = Training(tmp_path / "train.log", log_lines((60, seconds))).watched(
        Conditions(max_stall_s=120), baseline
    )
    assert (
        lines.against_baseline(updates[-1].state)
        == f"{said} (one run; run-to-run variation unknown)"
    )
    slower = Training(tmp_path / "again.log", log_lines((60, seconds)))
    status = slower.watched(Conditions(max_slowdown=0.1, max_stall_s=120), baseline)[-1].status
    assert status == (ExitStatus.SLOWER if seconds > 1 else ExitStatus.TRAINING_FAILED)


def test_several_baseline_runs_give_an_interval(tmp_path):
    for name, seconds in (("a", 1.0), ("b", 1.01), ("c", 0.99)):
        (tmp_path / f"{name}.log").write_text("\n".join(log_lines((100, seconds))))
    baseline = load.load([str(tmp_path / f"{name}.log") for name in "abc"], GIVEN).files
    updates = Training(tmp_path / "train.log", log_lines((60, 0.8))).watched(
        Conditions(max_stall_s=120), baseline
    )
    ratio = updates[-1].state.pair.ratio
    assert ratio.value == pytest.approx(1.25, rel=5e-3)
    assert ratio.low < 1.25 < ratio.high
    assert "95% prediction interval +1" in lines.against_baseline(updates[-1].state)


def test_another_model_is_not_compared(tmp_path):
    other = [line.replace("14336", "28672") for line in log_lines((100, 1.0))]
    (tmp_path / "base.log").write_text("\n".join(other))
    baseline = load.load(
        [str(tmp_path / "base.log")], GivenValues("llama3.1_70B", gpu="MI300X", override=True)
    ).files
    updates = Training(tmp_path / "train.log", log_lines((60, 1.0))).watched(
        Conditions(max_stall_s=120), baseline
    )
    assert lines.against_baseline(updates[-1].state).startswith("not compared: ")


def test_the_watch_ends_once_the_interval_is_narrow(tmp_path):
    log = log_lines((100, 1.0))
    updates = Training(tmp_path / "train.log", log).watched(Conditions(until=0.01))
    assert updates[-1].status == ExitStatus.OK
    assert 20 <= updates[-1].state.step < 100
    assert updates[-1].state.half_width <= 0.01
    assert all(
        update.state.half_width is None or update.state.half_width > 0.01 for update in updates[:-1]
    )
    assert (
        events(updates)[-1]
        == f"the within-run interval is ±{lines.percent(updates[-1].state.half_width)}"
    )
    missed = Training(tmp_path / "again.log", log).watched(Conditions(until=0.0001))
    assert missed[-1].status == ExitStatus.INCONCLUSIVE


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0995, "10%"), (0.0994, "9.9%"), (0.00095, "0.1%"), (0.00094, "0.09%"), (0.0004, "0.04%")],
)
def test_a_share_keeps_a_digit(share, text):
    assert lines.percent(share) == text


def test_a_stall_is_told_once_and_can_end_the_watch(tmp_path):
    training = Training(tmp_path / "train.log", log_lines((40, 1.0)))
    training.before.append(
        lambda count: training.rest.extend(log_lines((60, 1.0))[-20:]) if count == 30 else None
    )
    updates = training.watched(Conditions(max_stall_s=600))
    told = [event for event in events(updates) if event.startswith("no step for")]
    assert told[0] == "no step for 1 min 10 s; before that, one every 1.0 s"
    assert sum("steps resumed" in event for event in events(updates)) == 1
    assert updates[-1].status == ExitStatus.TRAINING_FAILED
    assert told[-1] == "no step for 10 min 10 s; --max-stall allows 10 min 00 s"


def test_an_idle_log_is_not_read_again(tmp_path, monkeypatch):
    training = Training(tmp_path / "train.log", log_lines((40, 1.0)), at_once=100)
    logs = GrowingLogs(str(training.log), GIVEN)
    reads = []
    read = logs.read
    monkeypatch.setattr(logs, "read", lambda: reads.append(training.now) or read())
    list(watch(logs, 10.0, (), Conditions(max_stall_s=600), training.clock, training.sleep))
    assert len(reads) == 2
    assert len(training.slept) > 50


def test_of_a_large_log_the_beginning_and_the_end_are_read(tmp_path, monkeypatch):
    # However long the log is, a look costs the same, and shows the last step.
    log, content = tmp_path / "train.log", log_lines((90, 1.0))
    log.write_text("\n".join(content) + "\n")
    size = log.stat().st_size
    for name, value in (("CHUNK", 1000), ("HEAD", 3000), ("TAIL", 5000)):
        monkeypatch.setattr(inputs, name, value)
    for module in (growing, inputs):
        monkeypatch.setattr(module, "LARGEST_WHOLE", size)
    whole = next(iter(watch(GrowingLogs(str(log), GIVEN), 1)))
    assert whole.state.run.steps == tuple(range(1, 91))
    assert not any("large" in event for event in whole.events)
    for module in (growing, inputs):
        monkeypatch.setattr(module, "LARGEST_WHOLE", size - 1)
    training = Training(log, [step_line(91, 1.0)], first=0)
    update, later = itertools.islice(
        watch(GrowingLogs(str(log), GIVEN), 1, sleep=training.sleep), 2
    )
    assert later.state.step == 91
    assert not later.events
    steps = update.state.run.steps
    assert steps[:3] == (1, 2, 3)
    assert steps[-3:] == (88, 89, 90)
    assert 20 < len(steps) < 60
    assert update.state.run.model_config == whole.state.run.model_config
    assert update.state.recent_s == whole.state.recent_s
    assert [event for event in update.events if "large" in event] == [
        f"{log} is large: its values come from its first 4 MB and last 12 MB"
    ]


def test_a_log_that_grows_faster_than_it_is_read_is_read_to_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "CHUNK", 1000)
    log = tmp_path / "train.log"
    log.write_text("a line\n" * 1000)
    content = b""
    for chunk in inputs.Log(str(log), 7000).chunks():
        content += chunk
        with log.open("ab") as stream:
            stream.write(2 * chunk)
        assert len(content) <= 7000
    assert content == b"a line\n" * 1000


def test_a_log_that_takes_long_to_read_is_no_stall(tmp_path, monkeypatch):
    training = Training(tmp_path / "train.log", log_lines((100, 1.0)), at_once=1)
    logs = GrowingLogs(str(training.log), GIVEN)
    read = logs.read

    def slow():
        training.now += 30.0
        return read()

    monkeypatch.setattr(logs, "read", slow)
    updates = list(
        watch(logs, 10.0, (), Conditions(max_stall_s=100), training.clock, training.sleep)
    )
    assert events(updates)[-1] == "the training is complete: 100 steps"
    assert not [event for event in events(updates) if "no step" in event]


def test_what_cant_be_true_is_told_once(tmp_path):
    updates = Training(tmp_path / "train.log", log_lines((100, 0.3))).watched()
    told = [event for event in events(updates) if event.startswith("implausible: ")]
    assert len(told) == 1
    assert "of the dense BF16 peak of MI300X" in told[0]
    screen = lines.screen(updates[-1].state, "train.log", None)
    assert any(line.startswith("  implausible ") for line in screen)
    assert max(map(len, screen)) <= 80


def test_a_failure_ends_the_watch(tmp_path):
    text = [
        "Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ]
    updates = Training(tmp_path / "train.log", [*log_lines((40, 1.0)), *text]).watched()
    assert updates[-1].status == ExitStatus.TRAINING_FAILED
    told = events(updates)
    assert told[1] == "an error in the log: " + updates[-1].state.cause
    assert "OutOfMemoryError: CUDA out of memory" in told[1]
    assert told[2].startswith("no step for 1 min")
    assert told[3:] == ["the training failed"]


@pytest.mark.parametrize(
    "ending",
    [
        "HW Exception by GPU node-9 (Agent handle: 0x6a10) reason :GPU Hang",
        "Aborted (core dumped)",
        "Bus error",
        "Killed",
    ],
)
def test_an_ending_without_an_exception_ends_the_watch(tmp_path, ending):
    updates = Training(tmp_path / "train.log", [*log_lines((40, 1.0)), ending]).watched()
    assert updates[-1].status == ExitStatus.TRAINING_FAILED
    assert events(updates)[1].endswith(ending)
    assert events(updates)[-1] == "the training failed"


def test_a_failure_before_the_first_step_ends_the_watch(tmp_path):
    text = ["Traceback (most recent call last):", "torch.OutOfMemoryError: CUDA out of memory."]
    updates = Training(tmp_path / "train.log", [*HEAD, *text]).watched()
    assert updates[-1].status == ExitStatus.TRAINING_FAILED
    assert "CUDA out of memory" in events(updates)[0]


def test_an_error_that_the_training_survives_is_told_only(tmp_path):
    log = log_lines((100, 1.0))
    log.insert(len(HEAD) + 30, "wandb.errors.CommError: network unreachable")
    updates = Training(tmp_path / "train.log", log).watched()
    assert updates[-1].status == ExitStatus.OK
    assert any("network unreachable" in event for event in events(updates))


@pytest.mark.parametrize("how", ["renamed", "copied"])
def test_a_rotated_log_goes_on(tmp_path, how):
    log = tmp_path / "train.log"
    training = Training(log, log_lines((50, 1.0), (50, 1.25)))

    def rotate(count):
        if count != 4:
            return
        old = log.with_name("train.log.1")
        if how == "renamed":
            log.rename(old)
        else:
            shutil.copy(log, old)
            os.truncate(log, 0)

    training.before.append(rotate)
    updates = training.watched()
    assert "train.log was rotated to train.log.1; both are read" in events(updates)
    last = updates[-1].state
    assert (last.step, last.run.num_gpus, len(last.run.steps)) == (100, 8, 100)
    assert [segment.first_step for segment in last.summary.segments] == [1, 51]


def test_a_log_that_is_written_anew_is_another_training(tmp_path):
    log = tmp_path / "train.log"
    training = Training(log, log_lines((40, 1.0)), at_once=20)

    def restart(count):
        if count == 4:
            os.truncate(log, 0)
            training.rest = log_lines((100, 1.1))

    training.before.append(restart)
    updates = training.watched()
    assert "train.log was overwritten; its earlier content is lost" in events(updates)
    assert any(event.startswith("a new run started") for event in events(updates))
    assert updates[-1].state.summary.performance.avg_step_time_seconds == pytest.approx(
        1.1, rel=5e-3
    )


def test_the_ranks_of_a_training_are_watched_together(tmp_path):
    for rank, seconds in enumerate((1.0, 1.01, 1.2)):
        (tmp_path / f"rank_{rank}.log").write_text("\n".join(log_lines((60, seconds))))
    updates = list(
        watch(
            GrowingLogs(str(tmp_path), GIVEN),
            1.0,
            (),
            Conditions(until=0.05),
            time.time,
            lambda _: None,
        )
    )
    assert sorted(updates[-1].state.ranks) == ["rank_0.log", "rank_1.log", "rank_2.log"]
    shown = "\n".join(lines.screen(updates[-1].state, "logs", None))
    assert "3 logs; the slowest, rank_2.log, takes 19% more than the median" in shown


def test_a_pipe_is_followed_until_it_is_closed(tmp_path):
    text = "\n".join(log_lines((60, 1.0)))
    command = [
        sys.executable,
        "-m",
        "tprimat",
        "watch",
        "-",
        "--interval",
        "0.05",
        "--gpu",
        "MI300X",
    ]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "the pipe was closed" in done.stdout
    assert "standard input: megatron, llama, 8 × MI300X" in done.stdout


def test_an_empty_pipe_is_an_error(tmp_path):
    command = [sys.executable, "-m", "tprimat", "watch", "-", "--interval", "0.05"]
    done = subprocess.run(
        command, input="hello\n", capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.returncode == ExitStatus.USAGE
    assert "the pipe was closed" in done.stdout
    assert done.stderr.startswith("error: standard input: no supported training log in it\nhint: ")


def test_a_missing_log_is_an_error(tmp_path):
    with pytest.raises(UnreadableError):
        GrowingLogs(str(tmp_path / "no.log"), GIVEN)
    assert cli.run("watch", [str(tmp_path / "no.log")]) == ExitStatus.USAGE


def test_a_log_without_steps_is_waited_for(tmp_path):
    (tmp_path / "train.log").write_text("loading data\n")
    training = Training(tmp_path / "train.log", log_lines((100, 1.0)), at_once=40, first=0)
    updates = training.watched()
    assert updates[0].state is None
    assert updates[-1].state.step == 100


def test_json_is_one_object_a_line(tmp_path, capsys):
    (tmp_path / "train.log").write_text("\n".join(log_lines((100, 1.0))))
    assert cli.run("watch", [str(tmp_path / "train.log"), "--json"]) == 0
    *_, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert (last["step"], last["max_steps"], last["exit_status"]) == (100, 100, 0)
    assert last["tokens_per_second_per_gpu"] == pytest.approx(16384, rel=2e-3)


@pytest.mark.parametrize(
    "words",
    [("--until-ci", "0"), ("--until-ci", "x"), ("--max-slowdown", "100"), ("--interval", "nan")],
)
def test_wrong_values_are_refused(tmp_path, words, capsys):
    assert cli.run("watch", ["train.log", *words]) == ExitStatus.USAGE
    assert (
        "not a percentage" in (said := capsys.readouterr().err) or "not a number of seconds" in said
    )


def test_every_line_of_the_screen_fits_80_columns(tmp_path):
    (tmp_path / "base.log").write_text("\n".join(log_lines((100, 1.0))))
    baseline = load.load([str(tmp_path / "base.log")], GIVEN).files
    log = log_lines((20, 3.0), (20, 1.0), (20, 1.5), (20, 1.0), (19, 0.8))
    updates = Training(tmp_path / "train.log", log).watched(Conditions(max_stall_s=120), baseline)
    shown = lines.screen(updates[-1].state, str(tmp_path / "train.log"), 12.0, 0.01)
    assert max(map(len, shown)) <= 80
    assert len(shown) <= 20


def test_the_last_screen_is_whole(tmp_path, capsys):
    text = "RuntimeError: " + "the reason of a failure in many words " * 4 + "and its end"
    log = [
        *log_lines((40, 1.0)),
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in <module>',
        text,
    ]
    (tmp_path / "train.log").write_text("\n".join([*log, ""]))
    assert (
        cli.run("watch", [str(tmp_path / "train.log"), "--max-stall", "1"])
        == ExitStatus.TRAINING_FAILED
    )
    out = capsys.readouterr().out
    screen = out[out.index("\n  step ") + 1 :].splitlines()
    assert max(map(len, screen)) <= 80
    assert text in " ".join("\n".join(screen).split())
    assert all(line.startswith("  ") and line[14] != " " for line in screen)
    assert any(not line[:14].strip() for line in screen)


def test_the_time_since_the_start_and_what_a_restart_cost(tmp_path, capsys):
    (tmp_path / "job.log").write_bytes(crashed().bytes())
    state = next(watch(GrowingLogs(str(tmp_path / "job.log"), GIVEN), 1.0)).state
    shown = "\n".join(lines.screen(state, "job.log", 4.0))
    golden.check("watch_restart.txt", f"{shown}\n")
    assert "28 min 18 s: lost 72%, training 24%, start-up 4%" in shown
    assert max(map(len, shown.splitlines())) <= 80
    with contextlib.suppress(SystemExit):
        cli.run("watch", [str(tmp_path / "job.log"), "--json", "--max-stall", "1"])
    account = json.loads(capsys.readouterr().out.splitlines()[-1])["account"]
    assert account["whole"] == pytest.approx(sum(account["parts"].values()))


def test_percentiles_of_means_of_steps_are_unknown(tmp_path):
    log = log_lines((100, 1.0))
    (tmp_path / "job.log").write_text("\n".join([*log[: len(HEAD)], *log[len(HEAD) + 9 :: 10], ""]))
    state = next(watch(GrowingLogs(str(tmp_path / "job.log"), GIVEN), 1.0)).state
    assert "  percentiles unknown: each record averages several steps" in lines.screen(
        state, "job.log", None
    )


def test_a_log_of_no_known_format_is_followed_by_its_pattern(tmp_path, capsys):
    lines = (
        f"it {number} took {100 + number % 3}ms nll {5 - number / 20}\n" for number in range(1, 40)
    )
    (tmp_path / "mine.txt").write_text("".join(lines))
    words = [
        "--pattern",
        "it {step} took {time}ms nll {loss}",
        "--interval",
        "0.05",
        "--max-stall",
        "0.1",
    ]
    assert cli.run("watch", [str(tmp_path / "mine.txt"), *words]) == ExitStatus.TRAINING_FAILED
    assert "0.101 s per step" in capsys.readouterr().out


def test_why_there_is_no_training_has_the_heading_of_its_error(tmp_path):
    line = "[rank0]:[titan] 2026-01-01 10:00:0{n},000 - root - INFO - "
    first = line.format(n=0) + "CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory\n"
    step = "step: {n}  loss: 9.0  memory: 40.00GiB(50.00%)  tps: 5,000  mfu: 30.00%\n"
    (tmp_path / "a.log").write_text(first + "".join((line + step).format(n=n) for n in range(1, 9)))
    logs = GrowingLogs(str(tmp_path / "a.log"), GivenValues(gpu="MI300X"))
    assert logs.heading == "not-a-training-log"
    assert (logs.has_grown(), logs.read()) == (True, [])
    assert logs.heading == "option-against-log"


def test_a_training_that_goes_on_in_another_form_has_not_stalled(tmp_path):
    own = [f"step {n}, loss 3.{n}, step time 0.50{n % 3} s" for n in range(1, 31)]
    other = [f"iter={n} loss=3.{n} iter_time=5.0{n % 3}s" for n in range(1, 51)]
    training = Training(tmp_path / "train.log", [*own, *other], at_once=5, first=30)
    updates = training.watched(Conditions(max_stall_s=60))
    (last,) = events(updates)[-1:]
    assert "no step for" in last
    # 50 lines, of which 5 come each 10 s, and the patience.
    assert len(training.slept) > 14
