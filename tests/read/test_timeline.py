"""Where the wall time of a log went: entries of its timeline, and what restarts cost."""

from __future__ import annotations

import datetime
import json
import re

import pytest

from tests.tool_modules import load_tool
from tprimat import read
from tprimat.analysis.run_account import account_of
from tprimat.api import load
from tprimat.cli import run as run_command
from tprimat.read.parsing import events, placing, timeline
from tprimat.read.parsing.text import Line

simulate_jobs = load_tool("simulate_jobs")
fuzz_logs = load_tool("fuzz_logs")

BEGIN = datetime.datetime(2026, 3, 1, 12, 0, 0)


class MegatronLog:
    """Writes a log in Megatron's form: a step takes 2 s, a line stands for `every` steps."""

    def __init__(self, every: int = 1) -> None:
        self.now = 0.0
        self.every = every
        self.lines: list[str] = []

    def wait(self, seconds: float) -> MegatronLog:
        self.now += seconds
        return self

    def say(self, text: str) -> MegatronLog:
        self.lines.append(text)
        return self

    def dated(self, text: str) -> MegatronLog:
        return self.say(
            f"[{text}] datetime: {BEGIN + datetime.timedelta(seconds=self.now):%Y-%m-%d %H:%M:%S} "
        )

    def starts(self) -> MegatronLog:
        self.say("using world size: 8, data-parallel size: 8").say(
            "------------- arguments -------------"
        )
        for name, value in (("num_layers", 32), ("hidden_size", 4096), ("seq_length", 4096)):
            self.say(f"  {name} {'.' * (46 - len(name))} {value}")
        return self

    def steps(self, first: int, last: int, seconds: float = 2.0, extra: float = 0.0) -> MegatronLog:
        for step in range(first + self.every - 1, last + 1, self.every):
            self.wait(self.every * seconds + (extra if step == last else 0.0))
            stamp = (BEGIN + datetime.timedelta(seconds=self.now)).isoformat(" ", "microseconds")
            self.say(
                f" [{stamp}] iteration {step:8d}/{500:8d} | consumed samples: {step * 64:12d} | "
                f"elapsed time per iteration (ms): {seconds * 1e3:.1f} | learning rate: 1.0E-04 | "
                "global batch size:    64 | lm loss: 2.500000E+00 | grad norm: 1.000 | "
                "number of skipped iterations:   0 | number of nan iterations:   0 |"
            )
        return self

    def bytes(self) -> bytes:
        return "\n".join([*self.lines, ""]).encode()

    def run(self):
        (log,) = read.parse_chunks([self.bytes()], "train.log")
        return log.run()


def parts(run) -> dict[str, float]:
    account = account_of(run)
    assert account is not None
    return {name: round(seconds, 2) for name, seconds in account.parts.items()}


def crashed() -> MegatronLog:
    """120 steps, a crash, 20 minutes down, and the last ten steps once more."""
    log = MegatronLog().starts().dated("after megatron is initialized").wait(30)
    log.dated("before the start of training step").steps(1, 110)
    log.say("saving checkpoint at iteration     110 to /ckpt").wait(5)
    log.say("  successfully saved checkpoint from iteration     110 to /ckpt").steps(111, 120)
    log.say("RuntimeError: NCCL error: unhandled system error").wait(1200).starts()
    log.dated("after megatron is initialized").wait(40)
    log.say("  successfully loaded checkpoint from /ckpt [ t 1/1, p 1/1 ] at iteration 110")
    return (
        log.dated("before the start of training step")
        .steps(111, 200)
        .wait(3)
        .dated("after training is done")
    )


class TestSimulatedJobs:
    """The tool tries 200 of them; its generator knows nothing of the readers."""

    @pytest.mark.parametrize("number", range(100, 112))
    def test_each_part_is_within_1_percent(self, number):
        text, truth = simulate_jobs.simulate(number)
        off = simulate_jobs.errors(text.encode(), truth)
        assert {
            part: share for part, share in off.items() if abs(share) > simulate_jobs.LIMIT
        } == {}

    def test_a_requeue_right_after_a_checkpoint(self):
        """The checkpoint is longer than what follows it without a process."""
        text, truth = simulate_jobs.simulate(101, seed=2)
        off = simulate_jobs.errors(text.encode(), truth)
        assert {
            part: share for part, share in off.items() if abs(share) > simulate_jobs.LIMIT
        } == {}

    def test_the_parts_are_those_of_the_wall_time(self):
        text, truth = simulate_jobs.simulate(101)
        account = account_of(read.parse_chunks([text.encode()], "job.log")[0].run())
        assert account.is_whole
        assert account.whole == pytest.approx(sum(truth.values()), rel=1e-3)


def at(moment: str, *, seconds: float, gap: float = 0.0) -> MegatronLog:
    """A log of 80 steps of 2 s that begins at a time; behind half of them the clock shows so many
    seconds more.
    """
    log = MegatronLog()
    log.wait((datetime.datetime.fromisoformat(moment) - BEGIN).total_seconds()).starts()
    return log.steps(1, 40).wait(seconds + gap).steps(41, 80)


class TestClocksWithoutAZone:
    """An hour that wasn't, or was twice, is in no account; step times are those that the log
    prints.
    """

    @pytest.mark.parametrize(
        ("moment", "seconds", "why"),
        [
            ("2026-10-25 02:58:30", -3600.0, "go back by 59 min"),
            ("2026-06-10 12:00:00", -7200.0, "go back by 1 h 59 min"),
            ("2026-06-10 12:00:00", timeline.SET_BACK * -1 - 3.0, "go back by 1 min 01 s"),
            ("2026-06-10 12:00:00", timeline.SET_BACK * -1 - 1.0, None),
            # Central Europe and the United States, the United Kingdom.
            ("2026-03-29 01:58:39", 3600.0, "on 2026-03-29 clocks may go forward"),
            ("2026-03-08 01:58:39", 3600.0, "on 2026-03-08 clocks may go forward"),
            ("2026-03-29 00:58:39", 3600.0, "on 2026-03-29 clocks may go forward"),
            # A Saturday, a month without, an hour by day.
            ("2026-03-28 01:58:39", 3600.0, None),
            ("2026-06-14 01:58:39", 3600.0, None),
            ("2026-03-29 05:58:45", 3600.0, None),
            ("2026-03-29 01:58:45", 3300.0, None),
            ("2026-12-31 23:58:45", 0.0, None),
        ],
    )
    def test_a_change_of_the_clock(self, moment, seconds, why):
        run = at(moment, seconds=seconds).run()
        assert run.step_times == (2.0,) * 80
        assert bool(run.timeline) == (why is None)
        assert [warning for warning in run.warnings if "account unknown" in warning] == [
            warning for warning in run.warnings if why and why in warning
        ]
        assert bool(why) == any("account unknown" in warning for warning in run.warnings)

    def test_midnight(self):
        account = account_of(at("2026-12-31 23:58:45", seconds=0.0).run())
        assert account.parts["training"] == pytest.approx(160.0)

    def test_times_with_a_zone_are_added_up(self):
        log = at("2026-03-29 01:58:39", seconds=3600.0)
        log.lines = [re.sub(r"^( \[[^]]{26})\]", r"\1+00:00]", line) for line in log.lines]
        run = log.run()
        assert not any("account unknown" in warning for warning in run.warnings)

    @pytest.mark.parametrize("name", ["torchtitan", "olmo"])
    def test_other_formats(self, name):
        (text,) = (each.decode() for each in fuzz_logs.originals([name])[name][:1])
        stamp = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?![.,]?\d*(?:Z|[+-]\d\d))")
        places = [match.start() for match in stamp.finditer(text)]
        if not places:
            pytest.skip("no times in it")
        half = places[len(places) // 2]

        def earlier(match):
            back = datetime.timedelta(hours=1 if match.start() >= half else 0)
            return f"{datetime.datetime.fromisoformat(match[1]) - back:%Y-%m-%d %H:%M:%S}"

        (before,), (after,) = (
            [log.run() for log in read.parse_chunks([each.encode()], "x.log")]
            for each in (text, stamp.sub(earlier, text))
        )
        assert before.step_times == after.step_times
        assert not after.timeline


class TestRestarts:
    def test_what_a_restart_costs_is_stated(self):
        run = crashed().run()
        assert run.steps == tuple(range(1, 201))
        assert parts(run) == {
            "start-up": 70.0,
            "training": 400.0,
            "checkpoint": 5.0,
            "lost": 1220.0,
            "end": 3.0,
        }  # fmt: skip
        assert (
            run.warnings[0]
            == "lost: 20 min 20 s (20 min 00 s down after step 120, 10 steps done twice)"
        )
        lost = [
            (each.first_step, each.last_step, each.duration)
            for each in run.timeline
            if each.kind == "lost"
        ]
        assert lost == [
            (111, 120, pytest.approx(20.0, abs=0.1)),
            (None, None, pytest.approx(1200.0, abs=1.0)),
        ]

    @pytest.mark.parametrize("apart", [False, True])
    def test_down_time_begins_at_the_last_sign_of_life(self, apart, tmp_path):
        """In one log, and where the next attempt has a log of its own."""
        log = (
            MegatronLog().starts().dated("before the start of training step").steps(1, 30).wait(90)
        )
        log.dated("a heartbeat of a process that hangs")
        cut = len(log.lines)
        log.wait(600).starts().dated("after megatron is initialized")
        log.say("  successfully loaded checkpoint from /c [ t 1/1, p 1/1 ] at iteration 30").steps(
            31, 60
        )
        parts = (log.lines[:cut], log.lines[cut:]) if apart else (log.lines,)
        for number, lines in enumerate(parts):
            (tmp_path / f"{number}.log").write_text("\n".join([*lines, ""]))
        (run,) = load(str(tmp_path)).runs
        lost = [(each.note, round(each.duration)) for each in run.timeline if each.kind == "lost"]
        assert lost == [("without another step after step 30", 90), ("down after step 30", 600)]
        cost = (
            "lost: 11 min 30 s (10 min 00 s down after step 30, 1 min 30 s without another step"
            " after step 30)"
        )
        assert cost in run.warnings

    def test_without_a_crash_nothing_is_said_to_be_lost(self):
        run = MegatronLog().starts().dated("before the start of training step").steps(1, 50).run()
        assert "lost" not in parts(run)
        assert not any("lost" in warning for warning in run.warnings)

    def test_a_failed_training_that_starts_over_is_one_training(self):
        log = MegatronLog().starts().dated("before the start of training step").steps(1, 30)
        log.say("RuntimeError: the link is down").wait(600).starts().dated(
            "before the start of training step"
        ).steps(1, 60)
        run = log.run()
        assert run.steps == tuple(range(1, 61))
        assert parts(run)["lost"] == pytest.approx(660.0, abs=1.0)

    @pytest.mark.parametrize(
        "end", ["[after training is done] datetime: 2026-03-01 13:00:00 ", "all is well"]
    )
    def test_one_that_did_not_fail_and_begins_again_is_another(self, end):
        log = (
            MegatronLog().starts().dated("before the start of training step").steps(1, 30).say(end)
        )
        log.wait(600).starts().dated("before the start of training step").steps(1, 30)
        assert len(read.parse_chunks([log.bytes()], "x")) == 2

    @pytest.mark.parametrize(("seconds", "lost"), [(4.0, 600.0), (6.0, 606.0)])
    def test_silence_before_a_second_start(self, seconds, lost):
        """Shorter than AGAIN, both starts are of one attempt."""
        log = (
            MegatronLog()
            .starts()
            .dated("before the start of training step")
            .steps(1, 30)
            .wait(600)
            .starts()
        )
        log.dated("after megatron is initialized").wait(seconds).starts().dated(
            "after megatron is initialized"
        )
        log.say("  successfully loaded checkpoint from /c [ t 1/1, p 1/1 ] at iteration 30").steps(
            31, 40
        )
        assert parts(log.run())["lost"] == pytest.approx(lost, abs=1.0)

    @pytest.mark.parametrize(("down", "ends"), [(22.0, "down"), (18.0, "work")])
    def test_the_silence_right_before_a_start_is_the_time_without_a_process(self, down, ends):
        """From a tenth of the longest one on: below, what lies between is a launcher at work."""
        kept = events.Events()
        for line, (at, text) in enumerate(
            [(0, "the last sign of life"), (200, "an error"), (200 + down, "using world size: 8")]
        ):
            kept.feed(line, f"[{BEGIN + datetime.timedelta(seconds=at):%Y-%m-%d %H:%M:%S}] {text}")
        begin, end = kept.marks[0].silence
        assert end[0] - begin[0] == (down if ends == "down" else 200)

    def test_attempts_in_files_of_their_own_are_one_run(self, tmp_path):
        first = crashed()
        cut = max(
            number for number, line in enumerate(first.lines) if line.startswith("using world size")
        )
        (tmp_path / "slurm-1.out").write_text("\n".join([*first.lines[:cut], ""]))
        (tmp_path / "slurm-2.out").write_text("\n".join([*first.lines[cut:], ""]))
        (run,) = load(str(tmp_path)).runs
        assert run.steps == tuple(range(1, 201))
        assert account_of(run).parts["lost"] == pytest.approx(1220.0, abs=1.0)
        assert account_of(run).whole == pytest.approx(account_of(crashed().run()).whole, abs=1.0)
        assert any(
            "slurm-2.out goes on after step 110 of slurm-1.out" in warning
            for warning in run.warnings
        )
        assert [
            file.path.endswith(name)
            for file, name in zip(run.source.files, ("1.out", "2.out"), strict=True)
        ] == [True] * 2

    def test_another_configuration_is_no_attempt(self, tmp_path):
        first = crashed()
        cut = max(
            number for number, line in enumerate(first.lines) if line.startswith("using world size")
        )
        (tmp_path / "a.log").write_text("\n".join([*first.lines[:cut], ""]))
        other = "\n".join([*first.lines[cut:], ""]).replace(
            "global batch size:    64", "global batch size:    32"
        )
        (tmp_path / "b.log").write_text(other)
        assert len(load(str(tmp_path)).runs) == 2

    def test_json_and_the_report_have_it(self, tmp_path, capsys, monkeypatch):
        (tmp_path / "a.log").write_bytes(crashed().bytes())
        (tmp_path / "b.log").write_bytes(
            crashed().bytes().replace(b"2.500000E+00", b"2.600000E+00")
        )
        monkeypatch.chdir(tmp_path)
        run_command("compare", ["a=a.log", "b=b.log", "--json"])
        (group,) = json.loads(capsys.readouterr().out)["models"][0]["groups"]
        for system in group["systems"]:
            (account,) = system["accounts"]
            assert account["parts"]["lost"] == pytest.approx(1220.0, abs=1.0)
            assert account["whole"] == pytest.approx(sum(account["parts"].values()))
        run_command("compare", ["a=a.log", "b=b.log"])
        text = next(tmp_path.rglob("*.md")).read_text()
        assert "Wall time of each run" in text
        assert re.search(r"\| *Lost *\|", text)
        assert "20 min 20 s (" in text


class TestPauses:
    @pytest.mark.parametrize(("extra", "unknown"), [(1.99, 0.0), (2.01, 2.01)])
    def test_more_time_than_the_steps_take_is_unknown_from_a_limit_on(self, extra, unknown):
        """PAUSE of the 20 s that ten steps take."""
        log = MegatronLog(10).starts().dated("before the start of training step").steps(1, 100)
        run = log.steps(101, 110, extra=extra).steps(111, 200).run()
        assert parts(run).get("unknown", 0.0) == pytest.approx(unknown, abs=1e-6)
        assert pytest.approx(2.0) == placing.PAUSE * 20.0

    @pytest.mark.parametrize(("extra", "unknown"), [(0.9, 0.0), (1.1, 1.1)])
    def test_or_from_the_resolution_of_the_times_on(self, extra, unknown):
        rows = [
            placing.Row(step, step, 0.1 * step + (extra if step > 50 else 0.0), 0.1, 1)
            for step in range(1, 101)
        ]
        built = timeline.TimelineBuilder(rows, events.Events(), False, 1.0).build()
        assert sum(each.duration for each in built if each.kind == "unknown") == pytest.approx(
            unknown, abs=1e-6
        )

    @pytest.mark.parametrize(
        ("lines", "part"),
        [
            (["saving checkpoint at iteration      50 to /ckpt"], "checkpoint"),
            ([" validation loss at iteration 50 | lm loss value: 2.0E+00 | "], "evaluation"),
        ],
    )
    def test_a_line_says_whose_the_time_is(self, lines, part):
        log = MegatronLog(10).starts().dated("before the start of training step").steps(1, 50)
        for line in lines:
            log.say(line)
        run = log.wait(7.5).steps(51, 100).run()
        assert parts(run)[part] == pytest.approx(7.5, abs=1e-3)
        assert parts(run)["training"] + parts(run).get("warm-up", 0.0) == pytest.approx(
            200.0, abs=0.01
        )

    def test_timers_tell_two_of_them_apart(self):
        log = MegatronLog(10).starts().dated("before the start of training step").steps(1, 50)
        log.say("(min, max) time across ranks (ms):").say(
            f"    evaluate {'.' * 40}: (2999.1, 3000.0)"
        )
        log.say("saving checkpoint at iteration      50 to /ckpt")
        run = (
            log.say(f"    save-checkpoint {'.' * 33}: (8990.0, 9000.0)")
            .wait(12)
            .steps(51, 100)
            .run()
        )
        assert (parts(run)["evaluation"], parts(run)["checkpoint"]) == (3.0, 9.0)

    def test_without_timers_both_are_unknown(self):
        log = MegatronLog(10).starts().dated("before the start of training step").steps(1, 50)
        log.say(" validation loss at iteration 50 | lm loss value: 2.0E+00 | ")
        run = (
            log.say("saving checkpoint at iteration      50 to /ckpt").wait(12).steps(51, 100).run()
        )
        assert parts(run)["unknown"] == pytest.approx(12.0, abs=1e-3)

    def test_whole_seconds_add_up_no_errors(self):
        rows = [
            placing.Row(step, step, float(int(0.3 * step)), 0.3, 1) for step in range(1, 10_001)
        ]
        built = timeline.TimelineBuilder(rows, events.Events(), False, 1.0).build()
        assert [each.kind for each in built] == ["training"]
        assert built[0].duration == pytest.approx(3000.0, abs=1.0)

    def test_blocks_of_training_have_the_steps_of_their_time(self):
        run = crashed().run()
        blocks = [each for each in run.timeline if each.kind == "training"]
        assert [(each.first_step, each.last_step) for each in blocks] == [(1, 110), (111, 200)]
        assert [each.duration / each.steps for each in blocks] == pytest.approx(
            [2.0, 2.0], rel=1e-6
        )


class TestClocks:
    def test_a_log_without_a_clock_has_the_parts_of_its_steps_alone(self):
        content = re.sub(rb" \[2026[^]]*\]|\[[^\n]*datetime[^\n]*\n", b"", crashed().bytes())
        (log,) = read.parse_chunks([content], "x")
        run = log.run()
        assert run.timeline == ()
        account = account_of(run)
        assert not account.is_whole
        assert account.parts == {"training": pytest.approx(400.0)}

    def test_lines_on_another_clock_say_nothing_of_time(self):
        """A container's UTC before some lines, Megatron's own time in others."""
        log = MegatronLog().say(
            "2026-03-01T01:00:00.000000Z using world size: 8, data-parallel size: 8"
        )
        assert parts(log.steps(1, 20).run()) == {"training": 40.0}

    @pytest.mark.parametrize("form", ["megatron", "primus", "torchtitan", "deepspeed"])
    def test_at_most_2_percent_of_a_real_log_is_unknown(self, samples, form):
        checked = 0
        for path in sorted((samples / form).glob("*.log")):
            for log in read.parse_chunks([path.read_bytes()], path.name):
                account = account_of(log.run())
                if account is not None and account.is_whole:
                    checked += 1
                    assert account.parts.get("unknown", 0.0) <= 0.02 * account.whole, path.name
        assert checked or form == "megatron"


class TestEventLines:
    @pytest.mark.parametrize(
        ("text", "kind", "seconds", "step"),
        [
            ("-------------- arguments --------------", "start", None, None),
            ("time to initialize megatron (seconds): 12.345", "started", 12.345, None),
            ("  successfully loaded checkpoint from /c [ t 1/8, p 1/1 ] at iteration 40", "resume", None, 40),
            ("saving checkpoint at iteration     100 to /c in torch_dist format", "checkpoint", None, 100),
            ("    save-checkpoint ....................: (1203.10, 1500.00)", "checkpoint", 1.5, None),
            ("    evaluate ...........................: (1203.10, 2500.00)", "evaluation", 2.5, None),
            ("Evaluating iter 1/10", "evaluation", None, None),
            (" validation loss at iteration 100 on validation set | lm loss value: 2.0", "evaluation", None, 100),
            ("i.finetune/0 Validation: iteration 1/8", "evaluation", None, None),
            ("Global Checkpoint Save : Rank: 0 : Start time: 17.3s : Save duration: 0.026s", "checkpoint", 0.026, None),
            ("[titan] INFO - Starting job: Llama 3 8B", "start", None, None),
            ("[titan] INFO - Training starts at step 41", "resume", None, 40),
            ("Finished saving the checkpoint (or staging)in 5.53 seconds.", "checkpoint", 5.53, None),
            ("validate step: 20  loss:  8.1  memory: 1.0GiB", "evaluation", None, 20),
            ("***** Running training *****", "start", None, None),
            ("  Continuing training from global step 700", "resume", None, 700),
            ("***** Running Evaluation *****", "evaluation", None, None),
            ("Saving model checkpoint to out/checkpoint-100", "checkpoint", None, None),
            ("iter 100: val loss 1.2, val time: 1500.00 ms", "evaluation", 1.5, None),
            ("eval metrics after step: 10, loss=3.1", "evaluation", None, 10),
        ],
    )  # fmt: skip
    def test_are_known_in_the_form_of_each_framework(self, text, kind, seconds, step):
        kept = events.Events()
        kept.feed(7, text)
        (mark,) = kept.marks
        assert (mark.kind, mark.line, mark.seconds, mark.step) == (kind, 7, seconds, step)

    @pytest.mark.parametrize(
        "text",
        [
            "  use_checkpoint_args ............................. False",
            "arguments validation.freq.......................... 10",
            "iteration 5/ 10 | consumed samples: 3 | interval: 4 |",
            "Resuming from checkpoint, setting has_simulated_crash_happened to True!",
        ],
    )
    def test_other_lines_with_their_words_are_none(self, text):
        kept = events.Events()
        kept.feed(1, text)
        assert kept.marks == []


class TestResumedTrainer:
    """Hugging Face's Trainer counts the steps of all sessions, and the time of the last one."""

    RECORD = "{{'loss': 1.5, 'learning_rate': 1e-05, 'epoch': {epoch:.4f}{more}}}"

    def log(self, more: str, resumed: int = 60, step_s: float = 3.0) -> bytes:
        lines = [
            "***** Running training *****",
            "  Num Epochs = 1",
            "  Total train batch size (w. parallel, distributed & accumulation) = 8",
            "  Total optimization steps = 100",
            f"  Continuing training from global step {resumed}" if resumed else "",
        ]
        for step in range(resumed + 10, 101, 10):
            tokens, time = step * 8 * 512, (step - resumed) * step_s
            values = more.format(tokens=tokens, rate=round(tokens / time, 3), time=time)
            lines.append(self.RECORD.format(epoch=step / 100, more=values))
        time = (100 - resumed) * step_s
        lines.append(
            f"{{'train_runtime': {time}, 'train_steps_per_second': {100 / time:.3f}, 'epoch': 1.0}}"
        )
        return "\n".join([*lines, ""]).encode()

    @pytest.mark.parametrize(
        "more",
        [
            "",
            ", 'num_input_tokens_seen': {tokens}, 'train_tokens_per_second': {rate}",
            ", 'num_input_tokens_seen': {tokens}, 'train_runtime': {time}00001",
        ],
    )
    @pytest.mark.parametrize("resumed", [0, 60])
    def test_a_step_takes_what_it_took_in_its_session(self, more, resumed):
        run = read.parse_chunks([self.log(more, resumed)], "x")[0].run()
        assert run.native_metrics["whole_run_seconds_per_step"] == pytest.approx(3.0)
        assert any("resumed after step 60" in warning for warning in run.warnings) is (
            resumed == 60
        )
        if more:
            assert run.step_times == pytest.approx([3.0] * len(run.steps), rel=1e-4)
            assert run.timing.kind == "stamps"

    def test_a_state_of_two_sessions(self, tmp_path):
        history = [
            {"step": step, "epoch": step / 100, "loss": 1.0, "learning_rate": 1e-5}
            for step in range(10, 101, 10)
        ]
        history.insert(6, {"step": 60, "epoch": 0.6, "train_runtime": 180.0})
        history.append({"step": 100, "epoch": 1.0, "train_runtime": 120.0})
        state = {
            "epoch": 1.0,
            "global_step": 100,
            "max_steps": 100,
            "logging_steps": 10,
            "log_history": history,
        }
        (tmp_path / "trainer_state.json").write_text(json.dumps(state))
        (run,) = load(str(tmp_path / "trainer_state.json")).runs
        assert run.native_metrics["whole_run_seconds_per_step"] == pytest.approx(3.0)


def test_lines_are_read_one_by_one_as_in_blocks():
    text = simulate_jobs.simulate(103)[0]
    (one,) = read.parse_lines(
        [Line(number, line, True) for number, line in enumerate(text.split("\n")[:-1], 1)], "x"
    )
    (other,) = read.parse_chunks([text.encode()], "x")
    assert one.run().timeline == other.run().timeline


NEMO = """\
[NeMo I 2026-03-01 12:00:00 megatron_init:513] Rank 0 has pipeline model parallel rank 0
[NeMo W 2026-03-01 12:00:30 rerun_state_machine:211] RerunStateMachine initialized in mode disabled
"""


def nemo(until: int) -> str:
    """Return a NeMo log, of whose lines only others than the steps' have times: each tenth step a
    checkpoint of 5 s.
    """
    now, lines = BEGIN + datetime.timedelta(seconds=30), [NEMO]
    for step in range(until):
        now += datetime.timedelta(seconds=2)
        lines.append(
            f"Training epoch 0, iteration {step}/{until - 1} | global_batch_size: 512 |"
            f" global_step: {step} | reduced_train_loss: 2.5 | train_step_timing in s: 2.0 |"
            f" consumed_samples: {512 * (step + 1)}\n"
        )
        if step % 10 == 9:
            lines.append(
                f"[NeMo I {now:%Y-%m-%d %H:%M:%S} trainer:1] saving checkpoint at iteration {step}"
                " to /c\n"
            )
            now += datetime.timedelta(seconds=5)
            lines.append(
                f"[NeMo I {now:%Y-%m-%d %H:%M:%S} trainer:1] successfully saved checkpoint from"
                " iteration 9\n"
            )
    return "".join(lines)


class TestTimesOnOtherLines:
    """Records without a time have it from the lines around them, as far as these bound it."""

    def test_the_parts_add_up(self):
        (log,) = read.parse_chunks([nemo(40).encode()], "nemo.log")
        run = log.run()
        assert parts(run) == {"start-up": 30.0, "training": 80.0, "checkpoint": 20.0}
        assert [(each.first_step, each.last_step) for each in run.timeline if each.kind == "training"] == [
            (1, 10), (11, 20), (21, 30), (31, 40),
        ]  # fmt: skip

    def test_steps_behind_the_last_time_took_what_they_state(self):
        (log,) = read.parse_chunks([nemo(45).encode()], "nemo.log")
        assert parts(log.run()) == {"start-up": 30.0, "training": 90.0, "checkpoint": 20.0}

    @pytest.mark.parametrize(("late", "unknown"), [(2, {}), (3, {"unknown": 3.0})])
    def test_a_time_that_comes_late_leaves_it_open(self, late, unknown):
        """By more than a tenth of the steps' time and twice the resolution, where no others show
        how long they take.
        """
        text = nemo(9) + f"[NeMo I 2026-03-01 12:00:{48 + late} trainer:1] done\n"
        (log,) = read.parse_chunks([text.encode()], "nemo.log")
        found = parts(log.run())
        assert {name: found[name] for name in found if name == "unknown"} == unknown
        assert sum(found.values()) == pytest.approx(48 + late)

    def test_megatron_deepspeed_in_blocks(self):
        """DeepSpeed's line stands before that of the step, whose timer misses a tenth; checkpoints
        have no times.
        """
        now, lines = 30.0, [f"[after dataloaders are built] datetime: {BEGIN:%Y-%m-%d %H:%M:%S} "]
        lines.append(
            "[before the start of training step] datetime:"
            f" {BEGIN + datetime.timedelta(seconds=30)} "
        )
        for step in range(1, 181):
            now += 2.2
            lines += [
                (
                    f"[{BEGIN + datetime.timedelta(seconds=now):%Y-%m-%d %H:%M:%S},000] [INFO]"
                    f" [Rank 0] step={step}"
                ),
                (
                    f" iteration {step:8d}/     180 | elapsed time per iteration (ms): 2000.0 | lm"
                    f" loss: {2.5:.6E} |"
                ),
            ]
            if step % 50 == 0:
                lines.append(f"saving checkpoint at iteration {step} to /c")
                now += 10
        data = "\n".join([*lines, ""]).encode()
        (log,) = read.parse_chunks(
            [data[place : place + 5_000] for place in range(0, len(data), 5_000)], "x"
        )
        found = parts(log.run())
        assert found["training"] == pytest.approx(180 * 2.2, rel=0.01)
        assert found["checkpoint"] == pytest.approx(30.0, abs=2.0)
        assert "unknown" not in found

    def test_without_any_time_of_steps_there_is_no_timeline(self):
        text = re.sub(r"train_step_timing in s: [\d.]+ ", "", nemo(9))
        (log,) = read.parse_chunks([text.encode()], "nemo.log")
        assert log.run().timeline == ()

    @pytest.mark.parametrize(("seconds", "checkpoint"), [("0.000", 0.0), ("1.500", 1.5)])
    def test_the_end_of_an_asynchronous_checkpoint_takes_time(self, seconds, checkpoint):
        first, second = nemo(18)[: -len(nemo(18).splitlines()[-1]) - 1], nemo(18).splitlines()[-1]
        text = (
            f"{first}[NeMo I 2026-03-01 12:01:10 trainer:1] Async finalization time took {seconds}"
            f" s\n{second}\n"
        )
        (log,) = read.parse_chunks([text.encode()], "nemo.log")
        assert parts(log.run())["checkpoint"] == pytest.approx(5.0 + checkpoint, abs=0.6)


class TrainerLog:
    """Writes a log of Hugging Face's Trainer: ten steps take 20 s, after 40 steps each a checkpoint
    4 s.
    """

    def __init__(self, dated: bool = True) -> None:
        self.now = 0
        self.dated = dated
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        stamp = f"{BEGIN + datetime.timedelta(seconds=self.now):%Y-%m-%dT%H:%M:%SZ} "
        self.lines.append((stamp if self.dated else "") + text)

    def starts(self, resumed: int = 0) -> TrainerLog:
        for text in (
            "***** Running training *****",
            "  Total optimization steps = 100",
            "  Num Epochs = 1",
        ):
            self.say(text)
        if resumed:
            self.say(f"  Continuing training from global step {resumed}")
        return self

    def steps(self, first: int, last: int) -> TrainerLog:
        for step in range(first + 9, last + 1, 10):
            self.now += 20
            self.say(
                f"{{'loss': {2 - step / 1000}, 'learning_rate': 1e-05, 'epoch': {step / 100:.2f}}}"
            )
            if step % 40 == 0:
                self.say("Saving model checkpoint to out")
                self.now += 4
        return self


class TestTrainer:
    @pytest.mark.parametrize("apart", [False, True])
    def test_what_a_resumed_training_lost(self, apart, tmp_path):
        """In one log, and where the next attempt has a log of its own."""
        log = TrainerLog().starts().steps(1, 60)
        cut = len(log.lines)
        log.now += 300
        log.starts(resumed=40).steps(41, 100)
        for number, lines in enumerate(
            (log.lines[:cut], log.lines[cut:]) if apart else (log.lines,)
        ):
            (tmp_path / f"{number}.log").write_text("\n".join([*lines, ""]))
        (run,) = load(str(tmp_path)).runs
        assert run.steps == tuple(range(10, 101, 10))
        assert parts(run) == {"training": 200.0, "checkpoint": 8.0, "lost": 340.0}
        assert (
            run.warnings[0]
            == "lost: 5 min 40 s (5 min 00 s down after step 60, 20 steps done twice)"
        )

    def test_without_a_clock_the_parts_are_those_that_are_stated(self):
        log = TrainerLog(dated=False).starts().steps(1, 50)
        log.say("{'eval_loss': 1.9, 'eval_runtime': 7.5, 'epoch': 0.5}")
        log.steps(51, 100).say("{'eval_loss': 1.8, 'eval_runtime': '8.5', 'epoch': 1.0}")
        (parsed,) = read.parse_chunks(["\n".join([*log.lines, ""]).encode()], "x")
        account = account_of(parsed.run())
        assert dict(account.parts) == {"evaluation": 16.0}
        assert not account.is_whole

    def test_the_file_of_its_state_has_the_same_parts(self, tmp_path):
        history = [{"loss": 2.0, "step": step, "epoch": step / 100} for step in (10, 20)]
        history += [{"eval_loss": 1.9, "eval_runtime": 7.5, "step": 20, "epoch": 0.2}]
        (tmp_path / "trainer_state.json").write_text(
            json.dumps({"log_history": history, "global_step": 20})
        )
        (run,) = load(str(tmp_path)).runs
        assert parts(run) == {"evaluation": 7.5}

    def test_where_each_gap_holds_a_checkpoint_nothing_tells_them_from_steps(self):
        """The Trainer prints no step times."""
        lines = TrainerLog().starts().steps(1, 80).lines
        lines = [line.partition(" ")[2] if "'loss'" in line else line for line in lines]
        (parsed,) = read.parse_chunks(["\n".join([*lines, ""]).encode()], "x")
        assert parts(parsed.run()) == {"unknown": 164.0}


@pytest.mark.parametrize(
    ("dated", "warning"),
    [
        (
            "2026-03-01 12:00:00.5: I tensorflow/core] oneDNN\n",
            "no time zone in the log (2026-03-01 12:00:00)",
        ),
        ("", "no year in the log"),
    ],
)
def test_maxtext_has_times_without_a_year(dated, warning):
    lines = ["I0301 12:00:01.000000 14 train.py:1] System Information: Jax Version: 0.5.0"]
    lines += [
        f"I0301 12:00:{11 + step:02d}.000000 14 metric_logger.py:214] completed step: {step},"
        " seconds: 1.000, TFLOP/s/device: 86.0, Tokens/s/device: 16384.0, total_weights: 4096,"
        " loss: 2.500"
        for step in range(20)
    ]
    (log,) = read.parse_chunks([(dated + "\n".join([*lines, ""])).encode()], "x")
    run = log.run()
    assert parts(run) == {"start-up": pytest.approx(9.5, abs=0.6), "training": 20.0}
    assert f"timestamp unknown: {warning}" in run.warnings
