"""The journal of a training: written step by step, and turned into a result when its program is
gone.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from stored_runs import notes_of

from tprimat import files
from tprimat.notes.catalogue import words
from tprimat.record import folders, journal, outcome, process_identity, recovery
from tprimat.record.recorder import Record
from tprimat.results.run import ModelConfig, Run
from tprimat.store import hosts, store
from tprimat.store.history import HISTORY, UNFINISHED

SETUP = Run(
    platform="cpu",
    framework="lightning",
    model="llama",
    status="incomplete",
    timestamp="2026-11-21T10:00:00+00:00",
    model_config=ModelConfig(num_layers=4),
    notes=notes_of("a doubt"),
)


def a_record(step, seconds: float | None = 0.25, window=1):
    return Record(step, window, seconds, 2.5, None, 1.5)


@pytest.fixture
def gone():
    """The owner of a journal who has certainly ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return msgspec.structs.replace(process_identity.current_process(), pid=child.pid, started=1)


def written(
    folder: Path, whose: process_identity.ProcessIdentity, *lines: object, name: str = "1-abc"
) -> Path:
    """A journal as its owner left it."""
    path = folder / folders.JOURNALS / f"{name}{journal.SUFFIX}"
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [{"journal": journal.VERSION, "owner": whose}, *lines]
    path.write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
    return path


class TestWriting:
    def test_each_step_stands_in_the_file_as_soon_as_it_is_recorded(self, tmp_path):
        kept = journal.Journal(tmp_path)
        assert kept.path is not None
        kept.add(run=SETUP)
        for step in (1, 2, 3):
            kept.step(a_record(step))
            assert json.loads(kept.path.read_bytes().splitlines()[-1]) == [
                step,
                1,
                0.25,
                2.5,
                None,
                1.5,
            ]
        first, setup, *_ = map(json.loads, kept.path.read_bytes().splitlines())
        assert first["owner"]["pid"] == os.getpid()
        assert setup["run"]["model"] == "llama"
        kept.remove()
        assert list(tmp_path.iterdir()) == []

    def test_only_one_of_several_removes_the_folder(self, tmp_path):
        first, second = journal.Journal(tmp_path), journal.Journal(tmp_path)
        first.remove()
        second.step(a_record(1))
        assert second.trouble is None
        assert second.path is not None
        assert second.path.exists()
        second.remove()
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_can_not_be_made_is_said_and_costs_nothing(self, tmp_path):
        (tmp_path / "file").write_text("in the way")
        kept = journal.Journal(tmp_path / "file" / "output")
        assert kept.trouble == "Not a directory"
        kept.add(run=SETUP)
        kept.step(a_record(1))
        kept.remove()

    @pytest.mark.parametrize("short", [False, True])
    def test_a_full_disk_ends_the_journal_and_not_the_training(self, tmp_path, monkeypatch, short):
        kept = journal.Journal(tmp_path)
        write, written = os.write, []

        def full(handle, content):
            if short and not written:
                written.append(write(handle, content[:3]))
                return 3
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            kept.step(a_record(1))
        assert kept.trouble == "No space left on device"
        size = kept.path.stat().st_size
        kept.step(a_record(2))
        assert kept.path.stat().st_size == size
        kept.remove()

    def test_what_is_written_in_parts_is_whole(self, tmp_path, monkeypatch):
        kept = journal.Journal(tmp_path)
        write = os.write
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda handle, content: write(handle, content[:3]))
            kept.step(a_record(1))
        assert kept.trouble is None
        assert json.loads(kept.path.read_bytes().splitlines()[-1]) == [1, 1, 0.25, 2.5, None, 1.5]
        kept.remove()

    def test_a_vanished_folder_costs_nothing(self, tmp_path):
        kept = journal.Journal(tmp_path / "output")
        kept.path.unlink()
        kept.path.parent.rmdir()
        (tmp_path / "output").rmdir()
        kept.step(a_record(1))
        kept.remove()
        assert kept.trouble is None


class TestReading:
    def content(self, *lines: bytes) -> bytes:
        first = msgspec.json.encode({"journal": 1, "owner": process_identity.current_process()})
        return b"\n".join([first, msgspec.json.encode({"run": SETUP}), *lines]) + b"\n"

    def test_all_that_was_recorded(self):
        run, finished = recovery.read(
            self.content(b"[1,1,0.5,2.5,null,1.5]", b"[3,2,null,null,0.001,null]")
        )
        assert not finished
        assert (run.steps, run.window_steps, run.step_times) == ((1, 3), (1, 2), (0.5, None))
        assert (run.loss_values, run.learning_rates, run.grad_norms) == (
            (2.5, None),
            (None, 0.001),
            (1.5, None),
        )
        assert (run.status, run.status_reason, run.ending) == outcome.KILLED
        assert run.warnings == ("a doubt", words(recovery.RECOVERED))

    def test_cut_at_any_byte_it_loses_the_last_line_alone(self):
        whole = self.content(*(b"[%d,1,0.5,2.5,null,1.5]" % step for step in (1, 2, 3)))
        start = whole.index(b"\n[1,") + 1
        for length in range(start, len(whole) + 1):
            run, _ = recovery.read(whole[:length])
            assert len(run.steps) == whole[start:length].count(b"\n")

    @pytest.mark.parametrize(
        "damage",
        [
            b"\x00" * 40,
            b"[3,1,",
            b"[1,1,0.5,null,null,null]",
            b"[3,0,0.5,null,null,null]",
            b'["x"]',
            b"{}x",
            b"[" * 5000,
        ],
        ids=lambda damage: repr(damage[:12]),
    )
    def test_what_follows_a_damaged_line_is_lost_and_that_is_said(self, damage):
        lines = (
            b"[1,1,0.5,2.5,null,1.5]",
            b"[2,1,0.5,2.5,null,1.5]",
            damage,
            b"[4,1,0.5,2.5,null,1.5]",
        )
        run, _ = recovery.read(self.content(*lines))
        assert run.steps == (1, 2)
        assert any("the journal is damaged" in warning for warning in run.warnings)

    def test_the_last_word_on_the_setup_and_on_the_result_counts(self):
        later = msgspec.structs.replace(SETUP, label="later")
        run, _ = recovery.read(self.content(msgspec.json.encode({"run": later})))
        assert run.label == "later"
        ends = [
            msgspec.structs.replace(SETUP, status_reason=reason) for reason in ("first", "second")
        ]
        run, finished = recovery.read(
            self.content(*(msgspec.json.encode({"final": end}) for end in ends))
        )
        assert finished
        assert run == ends[1]

    def test_epochs_add_up_and_the_newest_metrics_count(self):
        first = journal.Update({"epoch": 1}, {"rate": None}, {}, notes_of("no epoch was measured"))
        second = journal.Update({"epoch": 2}, {"rate": 5.0}, {"wait": 0.1}, notes_of("short"))
        third = journal.Update({"epoch": 3})
        lines = [msgspec.json.encode({"update": each}) for each in (first, second, third)]
        run, finished = recovery.read(
            self.content(b"[1,1,0.5,2.5,null,1.5]", *lines[:2], b"[2,1,0.5,2.5,null,1.5]")
        )
        assert not finished
        assert (run.steps, run.epochs) == ((1, 2), ({"epoch": 1}, {"epoch": 2}))
        assert (run.native_metrics, run.breakdown) == ({"rate": 5.0}, {"wait": 0.1})
        assert run.warnings == ("short", words(recovery.RECOVERED))
        run, _ = recovery.read(self.content(*lines))
        assert [epoch["epoch"] for epoch in run.epochs] == [1, 2, 3]
        assert run.native_metrics == {"rate": 5.0}
        assert "native_metrics and breakdown cover the first 2 of 3 recorded epochs" in run.warnings

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"[]\n",
            b'{"journal":1}\n',
            b"\x00" * 100,
            b'{"journal":2,"owner":{"pid":1}}\n',
        ],
    )
    def test_what_is_no_journal_is_refused(self, content):
        with pytest.raises(ValueError):  # noqa: PT011 - msgspec's own words
            recovery.read(content)

    def test_a_journal_without_its_setup_is_refused(self):
        header = self.content().split(b"\n")[0] + b"\n"
        assert recovery.read(header) is None
        with pytest.raises(ValueError, match="ends before the configuration"):
            recovery.read(header + b"[1,1,0.5,2.5,null,1.5]\n")


class TestOwner:
    @pytest.fixture
    def handle(self, tmp_path):
        handle = os.open(tmp_path / "x", os.O_CREAT | os.O_RDWR)
        yield handle
        os.close(handle)

    def changed(self, **fields):
        return msgspec.structs.replace(process_identity.current_process(), **fields)

    def test_this_process_is_not_gone(self, handle):
        assert not process_identity.has_exited(process_identity.current_process(), handle)

    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when a process started")
    def test_another_process_that_got_the_number_is_not_the_owner(self, handle):
        assert process_identity.has_exited(
            self.changed(started=process_identity.current_process().started - 1), handle
        )

    def test_one_of_an_earlier_boot_of_this_machine_is_gone(self, handle):
        assert process_identity.has_exited(self.changed(boot="another"), handle)

    def test_of_another_machine_nothing_is_known_for_a_day(self, handle, tmp_path):
        stranger = self.changed(boot="another", host="elsewhere")
        assert not process_identity.has_exited(stranger, handle)
        long_ago = time.time() - 2 * process_identity.STRANGERS_WAIT_S
        os.utime(tmp_path / "x", (long_ago, long_ago))
        assert process_identity.has_exited(stranger, handle)

    def test_in_another_container_the_lock_decides(self, handle, tmp_path):
        elsewhere = self.changed(namespace="pid:[1]", host="container")
        if process_identity.current_process().boot is None:
            pytest.skip("this system names no boots")
        code = (
            "import os, sys, time; from tprimat.record import process_identity\n"
            "h = os.open(sys.argv[1], os.O_RDWR); assert process_identity.lock(h); "
            "print('locked', flush=True); time.sleep(3600)"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "x")],
            stdout=subprocess.PIPE,
            cwd=Path(process_identity.__file__).parents[2],
        )
        try:
            assert child.stdout.readline() == b"locked\n"
            assert not process_identity.has_exited(elsewhere, handle)
        finally:
            child.kill()
            child.communicate()
        assert process_identity.has_exited(elsewhere, handle)

    def test_a_zombie_has_ended(self):
        child = subprocess.Popen([sys.executable, "-c", ""])
        deadline = time.monotonic() + 600
        while process_identity.started_at(child.pid) is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert process_identity.started_at(child.pid) is None
        child.wait()


class TestRecovering:
    def test_a_result_takes_the_journals_place(self, tmp_path, gone):
        written(tmp_path, gone, {"run": SETUP}, a_record(1), a_record(2))
        (recovered,) = recovery.recover(tmp_path)
        assert recovered.line.startswith("recovered 2 records of an interrupted run")
        assert store.read(recovered.path) == (recovered.run,)
        assert recovered.run.steps == (1, 2)
        assert not (tmp_path / folders.JOURNALS).exists()
        assert recovery.recover(tmp_path) == []

    def test_it_joins_earlier_runs_of_its_setup(self, tmp_path, gone):
        earlier = msgspec.structs.replace(
            SETUP, status="complete", timestamp="2026-11-20T10:00:00+00:00"
        )
        store.save(earlier, tmp_path)
        written(tmp_path, gone, {"run": SETUP}, a_record(1))
        (recovered,) = recovery.recover(tmp_path)
        assert [run.status for run in store.read(recovered.path)] == ["complete", "incomplete"]

    def test_the_journal_of_a_training_that_goes_on_is_left_alone(self, tmp_path):
        path = written(tmp_path, process_identity.current_process(), {"run": SETUP}, a_record(1))
        assert recovery.recover(tmp_path) == []
        assert path.exists()

    def test_a_result_that_was_written_already_is_not_written_again(self, tmp_path, gone):
        run = msgspec.structs.replace(SETUP, status="complete")
        saved = store.save(run, tmp_path)
        written(tmp_path, gone, {"run": SETUP}, {"final": run})
        (recovered,) = recovery.recover(tmp_path)
        assert "had already written its result" in recovered.line
        assert store.read(saved.path) == (run,)

    def test_neither_where_it_has_moved_to_history(self, tmp_path, gone):
        run = msgspec.structs.replace(SETUP, status="complete")
        saved = store.save(run, tmp_path)
        store.save_as(msgspec.structs.replace(run, scale="tiny"), saved.path)
        written(tmp_path, gone, {"run": SETUP}, {"final": run})
        (recovered,) = recovery.recover(tmp_path)
        assert recovered.path.parent.name == HISTORY
        assert len([each for path in tmp_path.rglob("*.json") for each in store.read(path)]) == 2

    def test_a_recovery_that_was_killed_counts_nothing_twice(self, tmp_path, gone, monkeypatch):
        written(tmp_path, gone, {"run": SETUP}, a_record(1))
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", _killed)
            with pytest.raises(KeyboardInterrupt):
                recovery.recover(tmp_path)
        (recovered,) = recovery.recover(tmp_path)
        assert "had already written its result" in recovered.line
        assert len(store.read(recovered.path)) == 1

    def test_commands_that_start_at_once_recover_it_once(self, tmp_path, gone):
        for number in range(6):
            label = msgspec.structs.replace(SETUP, label=f"l{number}")
            written(tmp_path, gone, {"run": label}, a_record(1), name=f"1-{number}")
        context = multiprocessing.get_context("spawn")
        commands = [context.Process(target=recovery.recover, args=(tmp_path,)) for _ in range(4)]
        for command in commands:
            command.start()
        for command in commands:
            command.join(1800)
        assert [command.exitcode for command in commands] == [0] * 4
        counts = [len(store.read(path)) for path in tmp_path.glob("*.json")]
        assert counts == [1] * 6

    def test_an_unreadable_one_is_said_once_and_kept(self, tmp_path, gone):
        path = written(tmp_path, gone, a_record(1))
        (said,) = recovery.recover(tmp_path)
        assert "can't be read (the journal ends before the configuration)" in said.line
        assert path.with_suffix(recovery.BROKEN).exists()
        assert recovery.recover(tmp_path) == []

    @pytest.mark.parametrize("cut", [b"", b'{"run":{"platf'])
    def test_one_that_ends_before_its_setup_holds_nothing_and_goes(self, tmp_path, gone, cut):
        path = written(tmp_path, gone)
        with path.open("ab") as file:
            file.write(cut)
        (said,) = recovery.recover(tmp_path)
        assert said.line == "an interrupted run left no steps to recover"
        assert not path.parent.exists()
        assert not list(tmp_path.glob("*.json"))

    def test_where_no_result_can_be_written_the_journal_stays(self, tmp_path, gone, monkeypatch):
        path = written(tmp_path, gone, {"run": SETUP}, a_record(1))
        with monkeypatch.context() as patch:
            patch.setattr(store, "save", _no_space)
            (said,) = recovery.recover(tmp_path)
        assert "can't be saved as a result: no space" in said.line
        assert path.exists()
        (recovered,) = recovery.recover(tmp_path)
        assert len(store.read(recovered.path)) == 1

    def test_half_written_results_go_too(self, tmp_path, gone):
        (tmp_path / f".benchmark.x{UNFINISHED}").write_bytes(b"{")
        written(tmp_path, gone, {"run": SETUP})
        recovery.recover(tmp_path)
        assert not list(tmp_path.glob(f".*{UNFINISHED}"))


def _killed(*_args, **_options):
    raise KeyboardInterrupt


def _no_space(*_):
    from tprimat.errors import UsageError

    raise UsageError("no space", heading="unwritable-directory")


def seen(path: Path) -> tuple[int, ...]:
    """What a reader of a file may not change."""
    status = path.lstat()
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns


@pytest.mark.skipif(sys.platform == "win32", reason="needs links and pipes")
class TestOthersFiles:
    """Reading a directory renames and removes nothing but what a recording of ours has left in
    it.
    """

    OLD = time.time() - 2 * recovery.LEFT_UNNAMED_S

    @pytest.fixture
    def elsewhere(self, tmp_path, gone):
        """A user's directory of data, with a journal that was moved there and the directory's names
        of ours.
        """
        folder = tmp_path / "elsewhere"
        written(folder, gone, {"run": SETUP}, a_record(1)).rename(folder / "1-abc.jsonl")
        (folder / folders.JOURNALS).rmdir()
        for name in (
            "train.jsonl",
            "x.claimed",
            "1-abd.jsonl",
            "notes.new",
            "1-abe.new",
            f".x.y{UNFINISHED}",
        ):
            (folder / name).write_text('{"text": "mine"}\n')
            os.utime(folder / name, (self.OLD, self.OLD))
        return folder

    @pytest.mark.parametrize("link", [folders.JOURNALS, HISTORY])
    def test_x6_a_linked_directory_is_neither_followed_nor_cleaned(self, tmp_path, elsewhere, link):
        names = {path.name: path.read_bytes() for path in elsewhere.iterdir()}
        results = tmp_path / "results"
        results.mkdir()
        (results / f".x.y{UNFINISHED}").write_text("{")  # which has this directory looked at
        (results / link).symlink_to(elsewhere)
        assert recovery.names(results) == set()
        assert recovery.recover(results) == []
        assert {path.name: path.read_bytes() for path in elsewhere.iterdir()} == names
        assert (results / link).is_symlink()

    def test_x6_below_a_linked_directory_nothing_is_recovered_that_was_not_named(
        self, tmp_path, gone
    ):
        written(tmp_path / "theirs" / "machine", gone, {"run": SETUP}, a_record(1))
        (tmp_path / "results").mkdir()
        (tmp_path / "results" / "machine").symlink_to(tmp_path / "theirs" / "machine")
        assert folders.with_journals([tmp_path / "results"]) == []
        assert folders.with_journals([tmp_path / "theirs"]) == [tmp_path / "theirs" / "machine"]

    def test_x6_links_pipes_and_files_of_others_in_it_stay(self, tmp_path, elsewhere, gone):
        before = {path.name: path.read_bytes() for path in elsewhere.iterdir()}
        journals = written(tmp_path, gone, {"run": SETUP}, a_record(1), name="2-abc").parent
        for name in ("train.jsonl", "x.claimed", "notes.new", "1-abd.new", ".x.part"):
            (journals / name).write_text('{"text": "mine"}\n')
            os.utime(journals / name, (self.OLD, self.OLD))
        (journals / "1-abe.jsonl").symlink_to(elsewhere / "1-abc.jsonl")
        (journals / "1-abf.jsonl").symlink_to(elsewhere / "train.jsonl")
        (journals / "3-abf.new").symlink_to(elsewhere / "train.jsonl")
        os.mkfifo(journals / "3-abc.jsonl")
        os.mkfifo(journals / "3-abd.new")
        (tmp_path / f".x.y{UNFINISHED}").symlink_to(elsewhere / "train.jsonl")
        kept = {path.name for path in journals.iterdir()} - {"2-abc.jsonl"}
        (recovered,) = recovery.recover(tmp_path)
        assert recovered.run.steps == (1,)
        assert {path.name for path in journals.iterdir()} == kept
        assert {path.name: path.read_bytes() for path in elsewhere.iterdir()} == before
        assert (tmp_path / f".x.y{UNFINISHED}").is_symlink()

    @pytest.mark.parametrize(
        ("content", "goes"),
        [("", True), ('{"journal":1,', True), ('{"journal":1,"owner":{}}\n', True), ("{}", False)],
    )
    def test_x6_one_without_a_name_goes_an_hour_later_if_it_begins_as_a_journal(
        self, tmp_path, content, goes
    ):
        path = tmp_path / folders.JOURNALS / "1-abc.new"
        path.parent.mkdir()
        path.write_text(content)
        for left_s, is_there in (
            (recovery.LEFT_UNNAMED_S - 60, True),
            (recovery.LEFT_UNNAMED_S + 60, not goes),
        ):
            os.utime(path, (time.time() - left_s,) * 2)
            recovery.recover(tmp_path)
            assert path.exists() == is_there

    def test_x6_an_empty_directory_of_the_name_stays_unless_a_journal_was_in_it(
        self, tmp_path, gone
    ):
        (tmp_path / folders.JOURNALS).mkdir()
        recovery.recover(tmp_path)
        assert (tmp_path / folders.JOURNALS).is_dir()
        written(tmp_path, gone, {"run": SETUP}, a_record(1))
        recovery.recover(tmp_path)
        assert not (tmp_path / folders.JOURNALS).exists()

    @pytest.mark.parametrize(
        "call", ["recovery.running(folder, ['abc'])", "live._of_journals(job)"]
    )
    def test_x6_a_pipe_among_the_journals_is_not_waited_for(self, tmp_path, call):
        (tmp_path / folders.JOURNALS).mkdir()
        os.mkfifo(tmp_path / folders.JOURNALS / "1-abc.jsonl")
        code = (
            "import sys, types, pathlib; from tprimat.record import recovery; from tprimat.slurm"
            " import live\nfolder = pathlib.Path(sys.argv[1]); job ="
            f" types.SimpleNamespace(output_dir=folder, session='x')\nassert not {call}"
        )
        repository = Path(process_identity.__file__).parents[2]
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], cwd=repository, timeout=60, check=True
        )

    def test_x6_no_journal_is_written_through_a_link(self, tmp_path, elsewhere):
        before = sorted(elsewhere.iterdir())
        (tmp_path / folders.JOURNALS).symlink_to(elsewhere)
        kept = journal.Journal(tmp_path)
        assert kept.trouble == "it is a link"
        kept.step(a_record(1))
        kept.remove()
        assert sorted(elsewhere.iterdir()) == before

    @pytest.mark.parametrize(
        "command",
        [
            *("compare HERE --quiet --no-plot", "publish HERE --output-dir OUT", "efficiency HERE"),
            *(
                "export HERE --csv OUT/x.csv",
                "read HERE/x.log --output-dir OUT",
                "watch HERE/x.log --max-stall 1",
                "verify HERE/x.log",
            ),
        ],
    )
    def test_x6_commands_that_read_leave_what_a_link_leads_to(
        self, tmp_path, elsewhere, command, capsys
    ):
        from tprimat import cli

        here = tmp_path / "here"
        (here / "machine").mkdir(parents=True)
        for folder in (here, here / "machine"):
            (folder / folders.JOURNALS).symlink_to(elsewhere)
        (here / "x.log").write_text("step: 1 loss: 2.0\n")
        before = {path: seen(path) for path in (*elsewhere.rglob("*"), *here.rglob("*"))}
        (tmp_path / "out").mkdir()
        words = command.replace("HERE", str(here)).replace("OUT", str(tmp_path / "out")).split()
        cli.run(words[0], words[1:])
        assert "recovered" not in capsys.readouterr().err
        assert {path: seen(path) for path in (*elsewhere.rglob("*"), *here.rglob("*"))} == before


class TestFolders:
    def test_the_default_ones_and_those_that_are_named(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for name in ("output", "named", "option", "collected/machine", "empty/x"):
            folder = tmp_path / name
            folder.mkdir(parents=True)
            if name != "empty/x":
                (folder / folders.JOURNALS).mkdir()
        (tmp_path / "named" / "a.json").write_text("{}")
        names = ("named/a.json", "option", "collected", "empty", "no-such", "a\0b", "x" * 5000)
        found = folders.with_journals(map(Path, names))
        assert found == [Path(name) for name in ("output", "named", "option", "collected/machine")]

    def test_nothing_there_is_nothing_to_do(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert folders.with_journals([Path("llama")]) == []


@pytest.mark.skipif(sys.platform == "win32", reason="commands are called as on POSIX")
class TestCommands:
    @pytest.mark.parametrize(
        ("command", "option"),
        [
            ("compare_results.py", "{}"),
            ("enhanced_metrics.py", "{}"),
            ("compare_results.py", "--results-dir={}"),
        ],
    )
    def test_the_next_command_says_what_it_found(self, tmp_path, gone, repository, command, option):
        written(tmp_path, gone, {"run": SETUP}, *map(a_record, range(1, 31)))
        done = subprocess.run(
            [sys.executable, str(repository / command), option.format(tmp_path)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode in (0, 3), done.stderr
        notes = [line for line in done.stderr.splitlines() if line.startswith("note: recovered")]
        assert len(notes) == 1
        assert "recovered 30 records of an interrupted run, incomplete" in notes[0]


class TestInATraining:
    pytestmark = pytest.mark.filterwarnings("ignore")

    def test_it_is_there_while_it_trains_and_gone_afterwards(self, trainings, callback, tmp_path):
        from lightning.pytorch.callbacks import Callback

        seen = []

        class Watch(Callback):
            def on_train_batch_end(self, *_):
                (path,) = (tmp_path / "output" / folders.JOURNALS).iterdir()
                seen.append(recovery.read(path.read_bytes())[0])

        ours = callback(model_name="llama", label="x", sequence_length=8)
        # Ours comes first: each look at the journal is after the step was recorded.
        trainings.fit(ours, more=[Watch()], max_steps=5)
        assert [len(run.steps) for run in seen] == [1, 2, 3, 4, 5]
        last = seen[-1]
        assert last.step_times == ours.result.step_times
        assert last.loss_values == ours.result.loss_values
        assert last.training_config == ours.result.training_config
        assert last.memory_metrics.known() == {}
        assert store.setup_key(last) == store.setup_key(ours.result)
        assert {path.name for path in (tmp_path / "output").iterdir()} <= {
            *(ours.path.name, files.LOCK_NAME, hosts.FILE)
        }

    def test_a_training_that_has_nothing_to_do_leaves_none(self, trainings, callback, tmp_path):
        trainings.fit(callback(), max_steps=0)
        assert list((tmp_path / "output").glob("*/*")) == []

    def test_with_nowhere_to_write_the_result_it_stays(
        self, trainings, callback, tmp_path, monkeypatch, capsys
    ):
        from tprimat.record import result

        with monkeypatch.context() as patch:
            patch.setattr(result, "write", lambda *_: (None, ["error: no space anywhere"]))
            ours = callback()
            trainings.fit(ours, max_steps=3)
        assert "the next command saves them as a result" in capsys.readouterr().err
        (path,) = (tmp_path / "output" / folders.JOURNALS).iterdir()
        run, finished = recovery.read(path.read_bytes())
        assert finished
        assert run == ours.result
