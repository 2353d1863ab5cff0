"""Several processes: who each is, whose times count, who is slow, and what a missing one costs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tprimat.errors import UsageError
from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.record import ranks, recovery
from tprimat.record.ranks import Process, Times, from_environment
from tprimat.record.recorder import Record
from tprimat.store import store

TORCHRUN = {
    "RANK": "11",
    "WORLD_SIZE": "16",
    "LOCAL_RANK": "3",
    "LOCAL_WORLD_SIZE": "8",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500",
}


def records(*seconds):
    return [Record(step, 1, each, 2.0, 0.1, None) for step, each in enumerate(seconds, 1)]


class Shelf:
    """A store within one process, with the timeout of torch's."""

    def __init__(self):
        self.entries = {}
        self.broken = False

    def set(self, key, value):
        assert len(value) <= ranks.CHUNK
        self.entries[key] = value.encode()

    def get(self, key):
        return self.entries[key]

    def wait(self, keys, timeout):
        assert timeout.total_seconds() > 0
        if self.broken or not all(key in self.entries for key in keys):
            raise RuntimeError("wait timeout")


@pytest.fixture
def shelf(monkeypatch):
    made = Shelf()
    monkeypatch.setattr(ranks, "open_store", lambda: made)
    return made


def gathered(shelf, own, others, laps=None):
    """What the first process gets when the others have told these times."""
    laps = laps or {}
    for rank, their in others.items():
        said = ranks.gather(their, laps.get(rank, ()), "fit", rank, len(others) + 1)
        assert said.records == their
    return ranks.gather(own, laps.get(0, ()), "fit", 0, len(others) + 1)


class TestGathering:
    def test_the_longest_time_of_each_step_counts(self, shelf):
        found = gathered(
            shelf, records(1.0, 2.0, 3.0), {1: records(2.0, 1.0, 3.5), 2: records(1.5, 1.5, 1.5)}
        )
        assert [record.seconds for record in found.records] == [2.0, 2.0, 3.5]
        assert [record.loss for record in found.records] == [2.0] * 3
        assert found.over_ranks == "the longest of 3 processes, step by step"
        assert found.notes == ()

    def test_where_one_is_unknown_so_is_the_longest(self, shelf):
        found = gathered(shelf, records(1.0, 2.0), {1: records(2.0, None)})
        assert [record.seconds for record in found.records] == [2.0, None]

    def test_a_process_that_does_not_come_is_named(self, shelf, monkeypatch):
        monkeypatch.setattr(ranks, "TIMEOUT_S", 0.2)
        ranks.gather(records(5.0), (), "fit", 2, 4)
        found = ranks.gather(records(1.0), (), "fit", 0, 4)
        assert [record.seconds for record in found.records] == [1.0]
        assert found.over_ranks == "the first of 4 processes"
        (note,) = found.notes
        why = "ranks 1, 3 did not report within 0.2 s of the end"
        assert note == Note("ranks-not-gathered", {"processes": 4, "why": why})

    def test_processes_with_other_steps_are_named(self, shelf):
        found = gathered(shelf, records(1.0, 2.0), {1: records(1.0), 2: records(1.0, 1.0)})
        assert "rank 1 recorded different steps than rank 0" in found.notes[0].fields["why"]
        assert [record.seconds for record in found.records] == [1.0, 2.0]

    def test_a_store_that_is_gone_hinders_nobody(self, shelf):
        shelf.broken = True
        shelf.set = _gone
        own = records(1.0)
        assert ranks.gather(own, (), "fit", 1, 2).records == own
        assert "did not report" in ranks.gather(own, (), "fit", 0, 2).notes[0].fields["why"]

    def test_what_is_no_times_is_taken_for_none(self, shelf):
        shelf.set("fit/1/0", "[1, 2]")
        shelf.set("fit/1", "1")
        assert (
            "rank 1 did not report"
            in ranks.gather(records(1.0), (), "fit", 0, 2).notes[0].fields["why"]
        )

    def test_long_trainings_travel_in_pieces(self, shelf, monkeypatch):
        monkeypatch.setattr(ranks, "CHUNK", 100)
        many = records(*(1 + step / 1e4 for step in range(1000)))
        found = gathered(shelf, records(*[1.0] * 1000), {1: many})
        assert found.records == many
        assert len(shelf.entries) > 100

    def test_without_torchs_store_the_first_process_counts(self, monkeypatch):
        monkeypatch.setattr(ranks, "open_store", lambda: None)
        found = ranks.gather(records(1.0), (), "fit", 0, 8)
        assert "the processes share no torch.distributed store" in found.notes[0].fields["why"]


def _gone(*_):
    raise RuntimeError("Broken pipe")


class TestSlowOnes:
    def said(self, until, step=1.0):
        own, *others = (Times((1, 2, 3), (step,) * 3, each) for each in until)
        note = ranks.straggler_note(own, dict(enumerate(others, 1)))
        return None if note is None else words(note)

    def test_the_one_that_all_wait_for_is_named(self):
        said = self.said([0.3, 0.31, 0.5, 0.29])
        assert said.startswith(
            "rank 2 is a straggler: up to 0.5 s from step start to backward pass (typical 0.3 s"
        )

    @pytest.mark.parametrize("until", [[0.3, 0.5], [0.5, 0.3]])
    def test_of_two_the_slower_one(self, until):
        said = self.said(until)
        assert said.startswith(f"rank {until.index(0.5)} is a straggler")

    @pytest.mark.parametrize(
        "until",
        [[0.3] * 4, [0.3, 0.35, 0.32, 0.39], [0.3, None], [None, None], [0.3, 0.9, 0.9, 0.9]],
        ids=["alike", "little", "one unknown", "all unknown", "most"],
    )
    def test_nobody_is_named_without_a_reason(self, until):
        assert self.said(until) is None

    def test_its_node_and_its_share_of_the_step_are_named(self):
        own, slow = (
            Times((1, 2), (2.0, 2.0), until, node) for until, node in ((0.3, "n1"), (0.9, "n2"))
        )
        said = words(ranks.straggler_note(own, {1: slow}))
        assert said.startswith("rank 1 on n2 is a straggler: up to 0.9 s")
        assert said.endswith("this delays the other ranks by 30% of each step")

    def test_each_nodes_slowest_rank_counts(self, shelf):
        others = {
            rank: Times((1,), (1.0,), until, node)
            for rank, until, node in ((1, 0.4, "n1"), (2, 0.6, "n2"))
        }
        for rank, times in others.items():
            ranks.publish_times(shelf, "fit", rank, times)
        found = ranks.gather(records(1.0), (0.5, 0.5), "fit", 0, 3, "n1")
        assert found.until_backward == {"n1": 0.5, "n2": 0.6}

    def test_two_of_eight(self):
        assert self.said([0.3] * 6 + [0.6, 0.7]).startswith(
            "ranks 6, 7 are stragglers: up to 0.7 s"
        )


GLOOS_TIMEOUT_S = 1800

PROGRAM = """
import os, signal, sys, time
import torch, lightning.pytorch as pl
from benchmark_utils import BenchmarkCallback
from tprimat.record import ranks

ranks.TIMEOUT_S = 3.0
rank = int(os.environ.get("LOCAL_RANK", "0"))

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, batch_idx):
        if rank == 1:
            {act}
        loss = self.layer(batch).square().mean()
        print(f"LOSS {{rank}} {{float(loss)!r}}", flush=True)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

class End(pl.Callback):
    def on_train_end(self, trainer, module):
        if rank == 1:
            {end}

measured = BenchmarkCallback(output_dir=sys.argv[1], model_name="llama", sequence_length=8, quiet=True)
trainer = pl.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_steps={steps}, max_epochs=1, logger=False,
    callbacks=[End(), measured] if {measured} else [], enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False)
data = torch.randn(4000, 8, generator=torch.Generator().manual_seed(1))
trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=2))
"""

pytestmark = pytest.mark.filterwarnings("ignore")


class TestRealOnes:
    """Two processes with gloo on the CPU."""

    def train(self, tmp_path, repository, launcher=(), **fields):
        usual = {"act": "pass", "end": "pass", "steps": 8, "measured": True}
        script = tmp_path / "train.py"
        script.write_text(PROGRAM.format(**{**usual, **fields}))
        environment = {
            **os.environ,
            "PYTHONPATH": str(repository),
            "PYTHONWARNINGS": "ignore",
            "OMP_NUM_THREADS": "1",
        }
        process = subprocess.Popen(
            [sys.executable, *launcher, str(script), str(tmp_path / "output")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            # What waited for a dead process would do so for gloo's half an hour.
            said, _ = process.communicate(timeout=GLOOS_TIMEOUT_S / 2)
        finally:
            _end_group(process.pid)
        losses = re.findall(r"LOSS (\d) ([\d.e+-]+)", said)
        path = tmp_path / "output" / "benchmark_cpu_llama.json"
        return said, sorted(losses), store.read(path)[-1] if path.exists() else None

    @pytest.mark.slow
    def test_under_torchrun_the_slow_one_is_named(self, trainings, tmp_path, repository):
        torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
        said, _, run = self.train(tmp_path, repository, torchrun, act="time.sleep(0.5)")
        assert run is not None, said
        assert run.status == "complete"
        assert run.steps == tuple(range(1, 9))
        assert run.timing.over_ranks == "the longest of 2 processes, step by step"
        assert min(run.step_times) >= 0.5
        (slow,) = [warning for warning in run.warnings if "straggler" in warning]
        assert (
            float(re.match(r"rank 1 is a straggler: up to ([\d.]+) s from step start", slow)[1])
            >= 0.5
        )

    @pytest.mark.reliability
    def test_losses_are_bit_identical_with_and_without(self, trainings, tmp_path, repository):
        (tmp_path / "with").mkdir()
        (tmp_path / "without").mkdir()
        _, losses, run = self.train(tmp_path / "with", repository)
        said, bare, nothing = self.train(tmp_path / "without", repository, measured=False)
        assert run is not None
        assert nothing is None
        assert len(bare) == 16, said
        assert losses == bare

    @pytest.mark.reliability
    def test_one_that_is_killed_hangs_nobody(self, trainings, tmp_path, repository):
        act = "if self.global_step == 4: os.kill(os.getpid(), signal.SIGKILL)"
        said, _, run = self.train(tmp_path, repository, act=act, steps=1000)
        assert run is not None, said
        assert run.status in ("failed", "incomplete")
        assert len(run.steps) == 4
        assert run.timing.over_ranks == "the first of 2 processes"
        assert any(
            "the training ended before they were collected" in warning for warning in run.warnings
        )

    @pytest.mark.reliability
    def test_one_that_dies_at_the_end_loses_nothing(self, trainings, tmp_path, repository):
        """Lightning's launcher kills the first process, which waits for the other's times."""
        said, _, run = self.train(tmp_path, repository, end="os.kill(os.getpid(), signal.SIGKILL)")
        assert run is None, said
        (recovered,) = recovery.recover(tmp_path / "output")
        run = recovered.run
        assert run.status == "complete"
        assert run.steps == tuple(range(1, 9))
        assert run.timing.over_ranks == "the first of 2 processes"
        assert any("was killed while it collected them" in warning for warning in run.warnings)

    @pytest.mark.reliability
    def test_a_failure_on_one_is_a_result_of_the_other(self, trainings, tmp_path, repository):
        act = "if self.global_step == 3: raise ValueError('rank 1 gives up')"
        said, _, run = self.train(tmp_path, repository, act=act, steps=1000)
        assert run is not None, said
        assert run.status in ("failed", "incomplete")
        assert len(run.steps) == 3


@pytest.mark.reliability
def test_benchmark_starts_torchrun_itself(trainings, tmp_path, repository):
    command = [
        sys.executable,
        str(repository / "benchmark.py"),
        "--model",
        "llama",
        "--steps",
        "4",
        "--gpus",
        "2",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=GLOOS_TIMEOUT_S
    )
    assert done.returncode == 0, done.stderr
    (run,) = store.read(tmp_path / "output" / "benchmark_cpu_llama.json")
    assert (run.status, run.steps) == ("complete", (1, 2, 3, 4))
    assert run.training_config.num_gpus == 2
    assert run.timing.over_ranks == "the longest of 2 processes, step by step"
    (log,) = (tmp_path / "output" / "logs").iterdir()
    assert "torch.distributed.run --standalone --nproc-per-node=2" in log.read_text()


def _end_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def test_a_lap_is_the_time_from_a_steps_start_to_its_first_one():
    from tprimat.record.recorder import Recorder

    class Clock:
        name = "monotonic"
        now = 0

        def mark(self):
            return self.now

        host_ns = mark

        def is_ready(self, stamp):
            return True

        def wait(self, stamp, timeout_s):
            return True

        def seconds(self, earlier, later):
            return (later - earlier) / 1e9

    clock = Clock()
    recorder = Recorder(clock)
    recorder.lap()
    recorder.start()
    for event, at in [
        ("lap", 2),
        ("lap", 3),
        ("step", 5),
        ("pause", 6),
        ("resume", 16),
        ("lap", 17),
        ("step", 20),
    ]:
        clock.now = at * 10**9
        if event == "step":
            recorder.step_end(len(recorder.records) + 1)
        else:
            getattr(recorder, event)()
    assert recorder.laps == [2.0, 2.0]
    assert [record.seconds for record in recorder.records] == [5.0, 5.0]


def test_the_store_is_torchs_own(trainings, tmp_path):
    import torch.distributed as dist

    assert ranks.open_store() is None
    dist.init_process_group(
        "gloo", init_method=f"file://{Path(tmp_path, 'meet')}", rank=0, world_size=1
    )
    try:
        store_of_group = ranks.open_store()
        ranks.publish_times(store_of_group, "fit", 1, Times((1, 2), (0.5, None), 0.25))
        heard, silent = ranks.collect_times(store_of_group, "fit", 3, timeout_s=0.2)
    finally:
        dist.destroy_process_group()
    assert heard == {1: Times((1, 2), (0.5, None), 0.25)}
    assert silent == [2]


def test_torchrun_says_all_of_it():
    assert from_environment(TORCHRUN) == Process(11, 16, 3, 8, 1)
    assert not Process(11, 16, 3, 8, 1).is_first


def test_nobody_says_anything():
    assert from_environment({}) is None
    assert from_environment({"RANK": "0"}) is None


def test_one_process_needs_nobody_to_meet():
    assert from_environment({"RANK": "0", "WORLD_SIZE": "1"}) == Process()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"RANK": "x"}, "RANK is 'x'"),
        ({"RANK": "16"}, "RANK is 16 and WORLD_SIZE is 16"),
        ({"WORLD_SIZE": "-1"}, "WORLD_SIZE is '-1'"),
        ({"LOCAL_RANK": ""}, "LOCAL_RANK is ''"),
        ({"MASTER_PORT": None}, "MASTER_PORT is not set"),
    ],
)
def test_half_of_it_is_wrong_usage(change, said):
    environ = {name: value for name, value in {**TORCHRUN, **change}.items() if value is not None}
    with pytest.raises(UsageError) as refused:
        from_environment(environ)
    assert said in refused.value.message
    assert "torchrun" in refused.value.message


def test_alone_everything_is_agreed_at_once():
    assert Process().max_over_ranks([1.0, 3.5]) == [1.0, 3.5]
    assert Process().any_rank(True)
    assert not Process().any_rank(False)
