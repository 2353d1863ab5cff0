"""A text that no reader knows is read, asked about or refused, by every command alike."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

import tprimat
from tprimat import cli, read
from tprimat.errors import ExitStatus, TensorPrimatError, UnreadableError
from tprimat.log_import import bundle, sources
from tprimat.notes import Note, assumed
from tprimat.read.forms.asking import FormError
from tprimat.read.forms.mining import LONGEST_LABEL
from tprimat.store import store

STEPS = 12


def text_of(line: str, steps: int = STEPS, start: float = 3.0) -> str:
    """A log with a line for each step, whose `{time}` is 0.500 s and 1 ms more from step to step."""
    lines = []
    for step in range(1, steps + 1):
        lines.append(line.format(step=step, time=0.5 + step / 1000, loss=start - step / 100))
    return "\n".join(["starting on 8 devices", *lines, ""])


STATED = text_of("step {step}/90 | loss {loss:.3f} | {time:.3f} s/step")
"""Labels and units say what each number is."""

ASKED = text_of("step {step}/90 | loss {loss:.3f} | time {time:.3f}")
"""The time has no unit."""

REFUSED = text_of("step {step}/90 | loss {loss:.3f} | gap {time:.3f}")
"""No number is a time."""

SECRET = "hf_" + "aB3" * 12

KEY = "hf_" + "aBcDe" * 7
"""One without digits, for which labels have zeros."""

WORD = "bluehorsebattery"
"""A secret only behind a word that says so."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current directory, with a log of each kind."""
    monkeypatch.chdir(tmp_path)
    Path("stated.log").write_text(STATED)
    Path("asked.log").write_text(ASKED)
    Path("refused.log").write_text(REFUSED)
    return tmp_path


@pytest.fixture
def call(folder, capsys):
    """Runs a command: its exit status, and its two streams."""

    def call(command: str, *arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli.run(command, list(arguments))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def parsed(text: str, *, as_read: bool = False, name: str = "a.log"):
    chunks = [text.encode()]
    return read.parse_chunks(chunks, name, lambda: chunks, as_read=as_read)


def saved(place: str = "output"):
    (path,) = Path(place).glob("*.json")
    (run,) = store.read(path)
    return run


class TestReading:
    """read.parse_chunks()."""

    def test_what_is_stated_is_read(self):
        (log,) = parsed(STATED)
        run = log.run()
        assert (run.steps, run.step_times[:3]) == (
            tuple(range(1, STEPS + 1)),
            (0.501, 0.502, 0.503),
        )
        assert (run.loss_values[0], run.training_config.max_steps) == (2.99, 90)
        assert "read-by-form" in [note.code for note in run.notes]
        assert assumed(run.notes) == []

    def test_what_is_assumed_is_asked(self):
        with pytest.raises(FormError) as caught:
            parsed(ASKED)
        would_read, unit = caught.value.notes
        assert caught.value.is_asked
        assert (would_read.code, unit.code) == ("form-would-read", "form-unit-assumed")
        assert would_read.fields == {
            "first": 1,
            "last": STEPS,
            "records": STEPS,
            "step": "“step”",
            "seconds": pytest.approx(0.507, abs=1e-3),
            "time": "“time”",
            "loss": "loss",
        }
        assert "--as-read" in caught.value.hint

    def test_what_is_confirmed_is_read_and_says_what_is_assumed(self):
        (log,) = parsed(ASKED, as_read=True)
        assert log.run().step_times[0] == 0.501
        assert [note.code for note in assumed(log.run().notes)] == ["form-unit-assumed"]

    @pytest.mark.parametrize("as_read", [False, True])
    @pytest.mark.parametrize(
        ("text", "codes"),
        [
            (REFUSED, ["form-recurs", "form-lacks-time", "form-unknown"]),
            (
                text_of("epoch {step} | loss {loss:.3f} | time {time:.3f} s"),
                ["form-recurs", "form-counts-epochs"],
            ),
            (
                "".join(
                    f"2026-01-30 12:00:{n:02} step {n} loss 2.{n} time 7.5 s\n"
                    for n in range(10, 20)
                ),
                ["form-recurs", "form-clocks-contradict"],
            ),
        ],
    )
    def test_what_lacks_a_number_or_contradicts_itself_is_refused(self, text, codes, as_read):
        with pytest.raises(FormError) as caught:
            parsed(text, as_read=as_read)
        assert not caught.value.is_asked
        assert [note.code for note in caught.value.notes] == codes

    def test_without_a_form_the_error_is_that_of_an_unknown_text(self):
        with pytest.raises(UnreadableError) as caught:
            parsed("nothing of a training here\n")
        assert not isinstance(caught.value, FormError)

    def test_a_program_is_none_of_its_output(self):
        with pytest.raises(UnreadableError) as caught:
            parsed(STATED, name="train.py")
        assert not isinstance(caught.value, FormError)

    def test_without_a_second_look_at_the_text_nothing_is_mined(self):
        with pytest.raises(UnreadableError):
            read.parse_chunks([STATED.encode()], "a.log")

    @pytest.mark.parametrize(("steps", "is_asked"), [(2, True), (3, False)])
    def test_three_lines_are_read_without_asking(self, steps, is_asked):
        text = text_of("step {step}/90 | loss {loss:.3f} | {time:.3f} s/step", steps)
        if not is_asked:
            assert parsed(text)[0].steps == steps
            return
        with pytest.raises(FormError) as caught:
            parsed(text)
        assert "form-few-steps" in [note.code for note in caught.value.notes]

    def test_the_micro_batches_of_ten_lines_are_added(self):
        text = "".join(
            f"iter {n} step {n // 2}: loss 3.{n}, iter time: {80 if n % 2 else 170}.50ms"
            f"{'' if n % 2 else ' (optimizer.step)'}\n"
            for n in range(1, 11)
        )
        run = parsed(text)[0].run()
        assert (run.steps, run.step_times[1:]) == ((1, 2, 3, 4, 5), (0.251,) * 4)

    @pytest.mark.parametrize(("lines", "is_said"), [(4, False), (5, True)])
    def test_a_form_that_changes_in_the_middle_is_noticed(self, lines, is_said):
        """Four lines of another form may be a summary; five have values of more steps."""
        others = "".join(f"[{n}] nll 2.{n} lr 1e-{n}\n" for n in range(1, lines + 1))
        run = parsed(STATED + others)[0].run()
        (line,) = [note.fields["line"] for note in run.notes if note.code == "form-changes"] or [0]
        assert line == (STEPS + 2 if is_said else 0)

    def test_a_secret_in_the_line_that_is_shown_is_redacted(self):
        text = text_of(f"token={SECRET} step {{step}} loss {{loss:.3f}} gap {{time:.3f}}")
        with pytest.raises(FormError) as caught:
            parsed(text)
        assert SECRET not in str(caught.value.notes)
        assert "step 1" in str(caught.value.notes)


class TestCommands:
    """What a user sees."""

    def test_an_asked_log_is_an_error_of_short_lines(self, call):
        status, _, shown = call("read", "asked.log")
        assert status == ExitStatus.USAGE
        assert shown.splitlines() == [
            "error: asked.log: it would read 12 records, steps 1 to 12 by “step”, 0.507 s per step"
            " by “time”, loss by “loss”",
            "assumed: the time is in seconds (it has no unit)",
            "hint:  confirm with --as-read, or say what the numbers are with --pattern"
            " 'step {step} .* loss {loss} .* time {time}'",
            "see:   docs/troubleshooting.md#not-a-training-log",
        ]
        assert not Path("output").exists()

    @pytest.mark.parametrize(("runs", "more"), [(1, None), (2, "it would read"), (3, "and 2 more")])
    def test_further_trainings_of_a_page_take_one_line(self, call, runs, more):
        line = "{step} | loss {loss:.3f} | time {time:.3f}"
        Path("page.log").write_text(
            "".join(f"# Run {number}\n" + text_of(line, start=9 - number) for number in range(runs))
        )
        lines = call("read", "page.log")[2].splitlines()
        assert lines[1].startswith(more or "assumed:")
        # What would be read, another line for others, two assumptions, the hint and the page.
        assert [text.startswith("assumed: ") for text in lines].count(True) == 2
        assert len(lines) == 5 + (more is not None)

    @pytest.mark.parametrize(("count", "last"), [(4, "assumed: "), (5, "2 more with --json")])
    def test_an_error_has_eight_lines_at_most(self, folder, count, last):
        notes = [Note("form-interval-assumed", {"steps": number}) for number in range(count)]
        would_read = Note("form-would-read", {"first": 1, "last": 2, "records": 2})
        error = FormError("a.log", [would_read, *notes], is_asked=True, hint="confirm")
        source = sources.LogSource(("a.log",), ".", named=True, size=1)
        lines = sources._not_read(error, source).error().line().splitlines()
        assert sources.MOST_DETAILS == 4
        assert lines[4].startswith(last)
        assert len(lines) == 7

    @pytest.mark.parametrize("indent", [None, 2])
    def test_a_result_is_no_log_though_it_has_numbers(self, call, indent):
        assert call("read", "stated.log")[0] == ExitStatus.OK
        (path,) = Path("output").glob("*.json")
        Path("mine.json").write_text(json.dumps(json.loads(path.read_text()), indent=indent))
        status, _, shown = call("read", "mine.json")
        assert status == ExitStatus.USAGE
        assert "it would read" not in shown
        assert ("compares a result" in shown) == (indent is not None)

    def test_a_refused_log_says_what_is_missing(self, call):
        status, _, shown = call("read", "refused.log")
        first, missing, unknown, *_ = shown.splitlines()
        assert status == ExitStatus.USAGE
        assert "refused.log: line 2 and others have one form, “step 1/90 | loss" in first
        assert missing.startswith("no number of it says how long a step takes")
        assert unknown == "nothing explains “gap”"

    def test_a_program_gets_codes(self, call):
        status, out, _ = call("read", "asked.log", "--json")
        (asked,) = json.loads(out)["asked"]
        assert status == ExitStatus.USAGE
        assert asked["file"] == "asked.log"
        assert [note["code"] for note in asked["note_codes"]] == [
            "form-would-read",
            "form-unit-assumed",
        ]
        assert "asked" not in json.loads(call("read", "refused.log", "--json")[1])

    def test_it_is_saved_once_it_is_confirmed(self, call):
        status, shown, _ = call("read", "asked.log", "--as-read")
        assert status == ExitStatus.OK
        assert "warning: assumed: the time is in seconds (it has no unit)" in shown
        run = saved()
        assert run.source.given["as_read"] is True
        assert [note.code for note in assumed(run.notes)] == ["form-unit-assumed"]
        assert run.step_times[0] == 0.501

    def test_what_is_stated_needs_no_confirmation_and_has_none(self, call):
        assert call("read", "stated.log", "--as-read")[0] == ExitStatus.OK
        assert assumed(saved().notes) == []

    def test_a_folder_reads_the_others_and_names_what_it_asks(self, call, folder):
        status, shown, _ = call("read", ".")
        assert status == ExitStatus.OK
        assert saved().step_times[0] == 0.501
        assert "skipped: 2 files" in shown
        assert (
            "its steps can be read with an assumption: tprimat read shows it, --as-read confirms it"
            ": asked.log" in shown
        )

    def test_a_comparison_of_a_folder_names_what_it_asks(self, call):
        Path("other").mkdir()
        Path("other/slow.log").write_text(STATED.replace("| 0.5", "| 0.8"))
        Path("refused.log").unlink()
        sizes = ("--num-gpus", "8", "--global-batch-size", "8", "--sequence-length", "1024")
        model = ("--model-name", "llama3.1_8B")
        status, shown, error = call("compare", "new=.", "old=other", *sizes, *model)
        assert status == ExitStatus.OK
        assert "new is 59% faster per GPU than old" in shown
        (line,) = [line for line in error.splitlines() if "asked.log" in line]
        assert line.endswith("tprimat read shows it, --as-read confirms it")

    def test_a_comparison_with_an_asked_log_shows_what_is_assumed(self, call):
        status, _, shown = call("compare", "stated.log", "asked.log")
        assert status == ExitStatus.USAGE
        assert "asked.log: it would read" in shown
        assert "\nassumed: the time is in seconds" in shown

    def test_watch_shows_what_is_assumed(self, call):
        """The log doesn't grow: the watch ends after a second without a step."""
        _, shown, _ = call("watch", "asked.log", "--json", "--max-stall", "1")
        first = json.loads(shown.splitlines()[0])
        assert first["assumed"] == ["form-unit-assumed"]
        assert first["step"] == STEPS

    def test_python_reads_it_once_it_is_confirmed(self, folder):
        with pytest.raises(TensorPrimatError, match="assumed: the time is in seconds"):
            tprimat.read_log("asked.log")
        (run,) = tprimat.read_log("asked.log", as_read=True)
        assert run.step_times[0] == 0.501
        assert [note.code for note in assumed(run.notes)] == ["form-unit-assumed"]

    def test_a_bundle_of_a_confirmed_log_is_verified(self, call):
        assert call("read", "asked.log", "--as-read")[0] == ExitStatus.OK
        bundle.write(Path("mine.tar.gz"), list(Path("output").glob("*.json")), [Path("asked.log")])
        status, out, _ = call("verify", "mine.tar.gz", "--json")
        (run,) = json.loads(out)["runs"]
        assert (run["log"], run["original"], run["differences"]) == ("asked.log", True, [])
        assert run["values"] > 5 * STEPS // 2
        assert status in (ExitStatus.OK, ExitStatus.IMPLAUSIBLE)

    @pytest.mark.parametrize("way", ["pipe", "gzip"])
    def test_the_same_text_by_another_way(self, call, monkeypatch, way):
        assert call("read", "stated.log", "--output-dir", "straight")[0] == ExitStatus.OK
        name = "-"
        if way == "pipe":
            stream = io.TextIOWrapper(io.BytesIO(STATED.encode()))
            monkeypatch.setattr("sys.stdin", stream)
        else:
            name = "stated.log.gz"
            Path(name).write_bytes(gzip.compress(STATED.encode()))
        assert call("read", name, "--output-dir", "other")[0] == ExitStatus.OK
        straight, other = saved("straight"), saved("other")
        assert straight.step_times == other.step_times
        assert straight.loss_values == other.loss_values
        assert [note.code for note in straight.notes] == [note.code for note in other.notes]

    def test_a_pipe_of_more_than_is_held_in_memory_is_read_to_its_end(self, call, monkeypatch):
        monkeypatch.setattr(sources, "IN_MEMORY", 100)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(STATED.encode())))
        status, shown, _ = call("read", "-")
        assert status == ExitStatus.OK
        assert f"log ends at step {STEPS}" in shown

    def test_an_asked_text_by_a_pipe(self, call, monkeypatch):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(ASKED.encode())))
        status, _, shown = call("read", "-")
        assert status == ExitStatus.USAGE
        assert shown.startswith("error: standard input: it would read 12 records")

    def test_a_secret_reaches_no_screen_and_no_result(self, call):
        line = f"token={SECRET} step {{step}} loss {{loss:.3f}} gap {{time:.3f}}"
        Path("secret.log").write_text(text_of(line))
        assert SECRET not in "".join(map(str, call("read", "secret.log")))
        assert SECRET not in "".join(map(str, call("read", "secret.log", "--explain")))
        assert SECRET not in "".join(map(str, call("read", "secret.log", "--explain", "--json")))

    @pytest.mark.parametrize(
        "line",
        [
            f"step {{step}} {KEY} train loss {{loss:.3f}} time {{time:.3f}}",
            f"step {{step}} loss {{loss:.3f}} {KEY} time {{time:.3f}}",
            f"{KEY} step {{step}} loss {{loss:.3f}} time {{time:.3f}}",
            f"password: {WORD} step {{step}} loss {{loss:.3f}} time {{time:.3f}} s",
            f"{KEY} step {{step}} loss {{loss:.3f}} time {{time:.3f}} s",
            f"step {{step}} loss {{loss:.3f}} {KEY} gap {{time:.3f}}",
            f"step {{step}} loss {{loss:.3f}} api_key: {WORD} {{time:.3f}}",
        ],
    )
    @pytest.mark.parametrize("options", [(), ("--as-read",), ("--explain",)])
    def test_a_secret_is_part_of_no_label(self, call, line, options):
        Path("secret.log").write_text(text_of(line))
        status, out, error = call("read", "secret.log", "--json", *options)
        _, shown, shown_error = call("read", "secret.log", "--output-dir", "again", *options)
        written = [path.read_text() for path in Path().glob("*/*.json")]
        everything = "".join([out, error, shown, shown_error, *written]).lower()
        for secret in (KEY, WORD):
            assert secret.lower() not in everything
            assert secret.lower().replace("_", " ") not in everything
        assert status in (ExitStatus.OK, ExitStatus.USAGE)

    def test_no_pattern_is_proposed_without_its_secret(self, call):
        Path("secret.log").write_text(
            text_of(f"step {{step}} loss {{loss:.3f}} {KEY} time {{time:.3f}}")
        )
        _, _, error = call("read", "secret.log")
        assert "removed" not in error
        assert "--pattern\n" in error

    def test_a_label_is_shown_as_it_is_printed(self):
        (log,) = parsed(text_of("host7.Train_Step {step} loss {loss:.3f} {time:.3f} s/step"))
        (labels,) = [note.fields for note in log.run().notes if note.code == "read-by-form"]
        assert labels["step"] == "“host7.Train_Step”"

    def test_a_long_label_is_cut(self):
        words = "words of a long prefix " * 6
        (log,) = parsed(text_of(f"{words}step {{step}} loss {{loss:.3f}} {{time:.3f}} s/step"))
        (labels,) = [note.fields for note in log.run().notes if note.code == "read-by-form"]
        assert len(labels["step"]) <= LONGEST_LABEL + 2


class TestExplaining:
    """`read --explain`."""

    def test_each_number_has_its_meaning_and_what_says_so(self, call):
        status, shown, _ = call("read", "asked.log", "--explain")
        assert status == ExitStatus.OK
        rows = [line.split() for line in shown.splitlines()]
        assert ["0.501", "0.501", "time", "seconds", "time"] in rows
        assert ["1", "1", "step", "step", "step"] in rows
        assert "steps by “step”" in shown
        assert "assumed: the time is in seconds (it has no unit)" in shown

    def test_clocks_are_shown_with_their_quotients(self, call):
        lines = []
        for n in range(10, 20):
            lines.append(f"2026-01-30 12:00:{2 * n:02} step {n} loss 2.{n} time 2000.0\n")
        Path("clock.log").write_text("".join(lines))
        status, out, _ = call("read", "clock.log", "--explain", "--json")
        (found,) = json.loads(out)["explained"]
        assert status == ExitStatus.OK
        assert found["clocks"] == {"stamp": pytest.approx(1.0)}
        assert (found["counter"], found["time"], found["note_codes"]) == ("“step”", "“time”", [])

    def test_without_a_form_the_status_says_so(self, call):
        Path("other.txt").write_text("nothing of a training here\n")
        status, shown, _ = call("read", "other.txt", "--explain")
        assert status == ExitStatus.USAGE
        assert "no form of training lines recurs" in shown

    def test_a_number_that_is_a_secret_is_not_shown(self, call):
        line = "step {step} loss {loss:.3f} --db-pass 481516 time {time:.3f}"
        Path("secret.log").write_text(text_of(line))
        for options in ((), ("--json",)):
            status, shown, _ = call("read", "secret.log", "--explain", *options)
            assert status == ExitStatus.OK
            assert "481516" not in shown

    def test_a_pipe_is_explained(self, call, monkeypatch):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(ASKED.encode())))
        status, shown, _ = call("read", "-", "--explain")
        assert status == ExitStatus.OK
        assert "steps by “step”" in shown

    def test_a_notebook_is_explained(self, call):
        cell = {"cell_type": "code", "outputs": [{"output_type": "stream", "text": [ASKED]}]}
        Path("a.ipynb").write_text(json.dumps({"cells": [cell], "nbformat": 4}))
        status, shown, _ = call("read", "a.ipynb", "--explain")
        assert status == ExitStatus.OK
        assert "times by “time”" in shown

    @pytest.mark.parametrize("name", ["missing.log", "."])
    def test_what_cannot_be_read_is_an_error(self, call, name):
        status, _, error = call("read", name, "--explain")
        assert status == ExitStatus.USAGE
        assert error.startswith("error: ")

    @pytest.mark.parametrize("sign", ["\u202e", "\u2066", "\a", "\b", "\x9d0;title\x9c", "\x1b[2J"])
    def test_no_control_character_reaches_the_terminal(self, call, sign):
        line = f"a{sign}b step {{step}} loss {{loss:.3f}} x{sign}y time {{time:.3f}}"
        Path("signs.log").write_text(text_of(line))
        status, shown, _ = call("read", "signs.log", "--explain")
        assert status == ExitStatus.OK
        assert all(character.isprintable() for character in shown.replace("\n", ""))


def repeated(line: str, steps: int = 8) -> str:
    """A log with a line for each step; `{s}` is the step."""
    return "".join(line.format(s=step) + "\n" for step in range(1, steps + 1))


def of_micro_steps(*times: str) -> str:
    """A log of 8 steps whose micro-steps take these times."""
    lines = []
    for step in range(1, 9):
        for number, time in enumerate(times):
            lines.append(f"step {step}, micro step {number}, loss 3.1, time {time} s\n")
    return "".join(lines)


class TestImpossibleValues:
    """Numbers that no step has are none of it, and end no command."""

    @pytest.mark.parametrize(
        "text",
        [
            repeated("step {s}, loss 4, 1e-308 it/s"),
            repeated("step {s}, loss 4, -{s} it/s"),
            repeated("step {s}, loss 4, time 1e{s}00 s"),
            repeated("step {s}e300 | loss 4 | time 0.5 s"),
            repeated("step {s}, loss 3.1, tokens: {s}e300, tok/s: 1e-10"),
            of_micro_steps("0.5", "1e308", "1e308", "0.5"),
            of_micro_steps("0.5", "inf", "-inf", "0.5"),
            "10:00:01 step 1 loss 3 step time 0.4 s\n10:00:02 step 2 loss 3 step time 0.4 s\n"
            "10:00:03 step 99999999999999999999 loss 3 step time 0.4 s\n",
            "0000:step, global batch size:0s/it, iter-5it/s\n"
            "0001:step, global batch size:0s/it, iter5.it/s\n"
            "0002:step|global batch size:0s/it, iter.5it/s\n"
            "0007:step|1s/it\n0008:step, global batch size:2s/it, iter-5it/s\n",
            "iter:0:00s/it, lr:0.0615us/step\niter:5.s/it\niter:1,234,567s/it\n"
            "iter:99lr:0.8684us/step\niter:7/3s/it, lr:0.5664us/step",
            "2026-01-01 10:00:39\rstep0 2s/it\rstep30lr 0.6571\rstep30lr 0.4618 310s/it",
            "9, samples/s 9\n23:59:10 10loss 5.0h\r2026-01-01 10:00:10 10loss=5.5\r11, samples/s 110",
        ],
    )
    def test_a_text_with_them_is_read_or_refused(self, call, text):
        Path("odd.log").write_text(text)
        for options in ((), ("--as-read",), ("--explain",)):
            status, *_ = call("read", "odd.log", *options)
            assert status in (ExitStatus.OK, ExitStatus.USAGE)

    def test_the_other_steps_keep_their_times(self):
        lines = STATED.splitlines(keepends=True)
        lines[6] = "step 6/90 | loss 2.940 | 1e300 s/step\n"
        run = parsed("".join(lines))[0].run()
        assert run.steps == tuple(range(1, STEPS + 1))
        assert (run.step_times[4], run.step_times[5], run.step_times[6]) == (0.505, None, 0.507)

    @pytest.mark.parametrize("rate", ["1e-308", "1e-200", "5e-324"])
    def test_a_rate_of_columns(self, call, rate):
        rows = [f"{step},1e250,{rate},3\n" for step in range(1, 9)]
        Path("odd.csv").write_text("".join(["step,tokens,rate,loss\n", *rows]))
        columns = "step=step,tokens=tokens,tokens_per_second=rate,loss=loss"
        assert call("read", "odd.csv", "--columns", columns)[0] == ExitStatus.OK
