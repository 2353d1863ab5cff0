"""watch ends as `read` says that the training ended: logs between two records, results and journals
of recorders.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import msgspec
import pytest
from made_runs import make_run

from tests.watch.test_watch import HEAD, Training, events, log_lines, step_line
from tprimat import cli
from tprimat.errors import ExitStatus
from tprimat.log_import.given import GivenValues
from tprimat.record import recovery
from tprimat.record.journal import Journal
from tprimat.record.recorder import Record
from tprimat.results.ending import Ending
from tprimat.results.run import Source
from tprimat.store.store import save
from tprimat.watch import lines
from tprimat.watch.growing import GrowingLogs
from tprimat.watch.watcher import watch

LIVE = Source(kind="live")
BETWEEN_RECORDS = (
    "{'loss': 2.1, 'grad_norm': 1.1, 'learning_rate': 4e-05, 'epoch': 0.4}\n 40%|████      | 10/25"
    " [00:20<00:30,  2.00s/it]\n{'loss': 1.9, 'grad_norm': 1.0, 'learning_rate': 2e-05, 'epoch':"
    " 0.8}\n 80%|████████  | 20/25 [00:40<00:10,  2.00s/it]100%|██████████| 25/25 [00:50<00:00, "
    " 2.00s/it]\n{'train_runtime': 50.5, 'train_samples_per_second': 3.96,"
    " 'train_steps_per_second': 0.495, 'epoch': 1.0}\n"
)


class Clock:
    """Time that passes only while the watch sleeps, which does something each time."""

    def __init__(self, *actions) -> None:
        self.now, self.actions = 1e9, list(actions)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        assert self.actions, "the watch never ends"
        self.actions.pop(0)()


def nothing() -> None:
    """A look at which nothing has changed."""


def watched(path: Path, *actions):
    clock = Clock(*actions)
    return list(watch(GrowingLogs(str(path), GivenValues()), 1.0, clock=clock, sleep=clock.sleep))


def test_e4_a_training_whose_last_record_is_before_its_last_step_is_complete(tmp_path):
    (tmp_path / "train.log").write_text(BETWEEN_RECORDS, encoding="utf-8")
    (update,) = watched(tmp_path / "train.log")
    assert update.status == ExitStatus.OK
    assert update.events[-1].startswith("the training is complete: last record at step ")
    assert lines.values(update.state)["ending"] == "finished"
    assert " left" not in lines.line(update.state)


def test_e4_the_real_form_of_it(samples, tmp_path):
    case = samples.parent / "cases" / "4" / "b_watch_hf_complete_between_records.log"
    if not case.is_file():
        pytest.skip("the small inputs do not lie beside this clone")
    shutil.copy(case, tmp_path / "train.log")
    (update,) = watched(tmp_path / "train.log")
    assert update.status == ExitStatus.OK


def test_e4_steps_that_are_all_done_are_complete_without_a_last_word(tmp_path):
    """Just at the last step, and just before it."""
    for steps, status in ((100, ExitStatus.OK), (99, None)):
        log = tmp_path / f"{steps}.log"
        log.write_text("\n".join(log_lines((steps, 1.0))))
        assert next(watch(GrowingLogs(str(log), GivenValues()), 1.0)).status == status


@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [
        (Ending(kind="finished"), ExitStatus.OK, "the training is complete: 60 steps"),
        (
            Ending(kind="failed", cause="out of memory: x"),
            ExitStatus.TRAINING_FAILED,
            "the training failed",
        ),
        (
            Ending(kind="stopped", cause="interrupted (Ctrl-C)"),
            ExitStatus.TRAINING_FAILED,
            "the training failed",
        ),
        (
            Ending(kind="cut_off"),
            ExitStatus.TRAINING_FAILED,
            "the training broke off after step 60",
        ),
    ],
    ids=["finished", "failed", "interrupted", "killed"],
)
@pytest.mark.parametrize("names_folder", [True, False])
def test_e4_the_result_of_a_loop_of_ones_own_ends_the_watch(
    tmp_path, ending, status, said, names_folder
):
    saved = save(make_run(source=LIVE, ending=ending), tmp_path).path
    updates = watched(tmp_path if names_folder else saved, nothing)
    assert (updates[-1].status, updates[-1].events[-1]) == (status, said)
    told = events(updates)
    assert [event for event in told if event.startswith("an error")] == (
        [f"an error: {ending.cause}"] if ending.cause else []
    )


def test_e4_a_loop_of_ones_own_is_followed_by_its_journal_to_its_result(tmp_path):
    run = make_run(source=LIVE, ending=Ending(kind="running"), status="incomplete")
    empty = msgspec.structs.replace(run, **dict.fromkeys(run.__struct_fields__[:7], ()))
    journal = Journal(tmp_path)
    journal.add(run=empty)

    def steps(first: int, last: int) -> None:
        for step in range(first, last + 1):
            journal.step(Record(step, 1, 1.0, 2.0, None, None))

    def end() -> None:
        save(
            msgspec.structs.replace(run, status="complete", ending=Ending(kind="finished")),
            tmp_path,
        )
        journal.remove()

    steps(1, 10)
    updates = watched(tmp_path, lambda: steps(11, 30), end)
    assert [update.state.step for update in updates] == [10, 30, 60]
    assert [update.status for update in updates] == [None, None, ExitStatus.OK]
    assert updates[-1].events[-1] == "the training is complete: 60 steps"


def test_e4_a_log_beside_a_recording_is_not_shown_in_its_place(tmp_path):
    """The log is newer than the journal by some seconds, as one that prints more often."""
    (tmp_path / "train.log").write_text("\n".join(log_lines((40, 1.0))))
    saved = save(make_run(source=LIVE, ending=Ending(kind="finished")), tmp_path).path
    os.utime(saved, (1e9, 1e9))
    for later_s, step in ((59.0, 60), (61.0, 40)):
        os.utime(tmp_path / "train.log", (1e9 + later_s, 1e9 + later_s))
        assert next(watch(GrowingLogs(str(tmp_path), GivenValues()), 1.0)).state.step == step


def test_e4_a_pipe_beside_the_journals_is_no_journal(tmp_path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("the system has no named pipes")
    (tmp_path / ".journal").mkdir()
    os.mkfifo(tmp_path / ".journal" / "1-a.jsonl")
    (tmp_path / ".journal" / "2-b.jsonl").write_text("{}\n{}\n{}\n")
    save(make_run(source=LIVE, ending=Ending(kind="finished")), tmp_path)
    assert watched(tmp_path)[-1].status == ExitStatus.OK


def test_e4_a_journal_of_a_living_training_goes_on_and_of_a_dead_one_does_not(
    tmp_path, monkeypatch
):
    journal = Journal(tmp_path)
    journal.add(run=make_run(steps=0, warmup=()))
    journal.step(Record(1, 1, 1.0, 2.0, None, None))
    assert recovery.so_far(journal.path).ending.kind == "running"
    monkeypatch.setattr(recovery, "has_exited", lambda owner, handle: True)
    assert recovery.so_far(journal.path).ending.kind == "cut_off"
    journal.remove()


class TestLosses:
    def nan_from(self, step: int, steps: int = 100, until: int = 10**6) -> list[str]:
        return [
            *HEAD,
            *(
                (
                    step_line(each, 1.0).replace(f"{10 - 0.01 * each:.6E}", "nan")
                    if step <= each < until
                    else step_line(each, 1.0)
                )
                for each in range(1, steps + 1)
            ),
        ]

    def test_e2_a_loss_that_is_not_a_number_is_told_once_with_its_step(self, tmp_path):
        updates = Training(tmp_path / "train.log", self.nan_from(51)).watched()
        told = [event for event in events(updates) if "not a number" in event]
        assert told == ["loss is not a number at step 51"]
        assert updates[-1].status == ExitStatus.OK

    @pytest.mark.parametrize(("last", "is_shown"), [(50, True), (51, False)])
    def test_e2_the_last_number_is_not_shown_as_the_present_loss(self, tmp_path, last, is_shown):
        (tmp_path / "train.log").write_text("\n".join(self.nan_from(51, last)))
        state = next(watch(GrowingLogs(str(tmp_path / "train.log"), GivenValues()), 1.0)).state
        shown = next(
            text for text in lines.screen(state, "x", None) if text.lstrip().startswith("loss")
        )
        assert ("not a number" in shown) is not is_shown
        assert shown.endswith("9.5" if is_shown else "not a number (last: 9.5 at step 50)")
        values = lines.values(state)
        assert (values["loss"] == pytest.approx(9.5)) if is_shown else (values["loss"] is None)
        assert values["loss_is_not_finite"] is not is_shown

    def test_e2_a_loss_that_is_a_number_again_is_shown(self, tmp_path):
        (tmp_path / "train.log").write_text("\n".join(self.nan_from(51, until=60)))
        state = next(watch(GrowingLogs(str(tmp_path / "train.log"), GivenValues()), 1.0)).state
        assert not state.is_diverged
        assert state.last_loss == (100, 9.0)

    def test_e2_a_loss_that_never_is_a_number_is_told(self, tmp_path):
        (tmp_path / "train.log").write_text("\n".join(self.nan_from(1, 50)))
        state = next(watch(GrowingLogs(str(tmp_path / "train.log"), GivenValues()), 1.0)).state
        assert "loss        not a number" in "\n".join(lines.screen(state, "x", None))

    def test_e2_a_loop_of_ones_own_tells_it_while_it_runs(self, tmp_path):
        torch = pytest.importorskip("torch")
        assert torch
        from tprimat.record.loop import record

        told = []
        with record(model="mine", output_dir=tmp_path, quiet=True, max_steps=9) as recorder:
            for step in range(1, 10):
                recorder.step(loss=math.nan if step > 5 else 2.0)
                if step in (5, 6, 8):
                    state = next(watch(GrowingLogs(str(tmp_path), GivenValues()), 1.0)).state
                    told.append((state.step, state.is_diverged, state.run.ending.kind))
        assert told == [(5, False, "running"), (6, True, "running"), (8, True, "running")]
        state = next(watch(GrowingLogs(str(tmp_path), GivenValues()), 1.0)).state
        assert (state.is_diverged, state.run.ending.kind) == (True, "finished")


def test_e4_the_json_of_the_command_has_the_ending(tmp_path, capsys):
    save(
        make_run(source=LIVE, ending=Ending(kind="failed", cause="out of memory"), status="failed"),
        tmp_path,
    )
    assert (
        cli.run("watch", [str(tmp_path), "--json", "--interval", "0.05"])
        == ExitStatus.TRAINING_FAILED
    )
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["ending"], last["exit_status"]) == ("failed", 5)
