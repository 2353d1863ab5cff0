"""MLPerf's events as a timeline: every second has an owner, and the speed is that of all blocks."""

from __future__ import annotations

import math
import random
from collections.abc import Collection

import msgspec
import pytest
from made_mlperf import (
    BATCH,
    BEGUN,
    BETWEEN,
    DIALECTS,
    END,
    EVEN,
    INIT,
    START,
    Log,
    mlperf_log,
    read_log,
)
from stored_runs import findings_of

from tprimat.analysis import account
from tprimat.analysis.summary import summarize
from tprimat.read.mlperf import timeline
from tprimat.read.mlperf.reader import Reader
from tprimat.read.parsing import text

OFFICIAL = (START + sum(train + evaluate for _, train, evaluate in EVEN) + 2 * BETWEEN + END) / 1e3


def stretches(run, kind):
    return [
        (entry.first_step, entry.last_step, entry.duration)
        for entry in run.timeline
        if entry.kind == kind
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("records", "steps"), [(0, 3), (1, 27), (3, 11)])
def test_blocks_and_events_of_steps_are_what_a_log_is_known_by(dialect, records, steps):
    reader, counts = Reader(), []
    for line in text.lines([mlperf_log(EVEN, dialect, records=records).encode()]):
        reader.feed(line)
        counts.append(reader.steps_found)
    assert counts == sorted(counts)
    assert counts[-1] == steps


class TestDialects:
    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_training_and_evaluation_are_what_they_are(self, dialect):
        run = read_log(mlperf_log(EVEN, dialect))
        assert stretches(run, "training") == [(1, 12, 12.0), (13, 18, 6.03), (19, 24, 6.0)]
        assert [entry.duration for entry in run.timeline if entry.kind == "evaluation"] == [
            0.9,
            0.9,
            0.93,
        ]
        starts = [entry.start for entry in run.timeline]
        assert starts == sorted(starts)
        found = account.account(run, None)
        assert found.whole == pytest.approx(OFFICIAL, abs=1e-9)
        assert found.before == INIT / 1e3
        assert found.parts == pytest.approx(
            {
                "start-up": START / 1e3,
                "training": 24.03,
                "evaluation": 2.73,
                "end": END / 1e3,
                "unknown": 0.004,
            },
            abs=0.0021,
        )
        assert run.native_metrics["time_to_train_minutes"] * 60 == pytest.approx(OFFICIAL, abs=1e-4)

    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_the_speed_is_all_steps_over_all_seconds_of_the_blocks(self, dialect):
        summary = summarize(read_log(mlperf_log(EVEN, dialect)))
        assert summary.clock == "blocks"
        assert summary.performance.avg_step_time_seconds == pytest.approx(24.03 / 24)
        assert summary.performance.median_step_time_seconds == pytest.approx(1.0)
        assert summary.performance.total_steps == 24
        assert summary.performance.tokens_per_second == pytest.approx(BATCH * 2048 * 24 / 24.03)

    @pytest.mark.parametrize("name", ["step", "curr_global_step"])
    def test_the_step_that_some_print_at_the_stop_serves_where_nothing_else_does(self, name):
        log, done = Log(), 0
        log.setup()
        for steps, training, _ in EVEN:
            log.event("block_start", samples_count=0)
            log.now += training
            done += steps
            log.event("block_stop", samples_count=0, **{name: done})
        log.event("run_stop", status="success")
        assert [each[:2] for each in stretches(read_log(log.text()), "training")] == [
            (1, 12),
            (13, 18),
            (19, 24),
        ]

    def test_a_planned_length_that_was_not_reached_gives_way_to_the_evaluations_position(self):
        content = mlperf_log(((12, 12_000, 900), (4, 4_000, 900)), "length")
        content = content.replace(
            '"samples_count": 64, "step": 16', '"samples_count": 96, "step": 18'
        )
        assert stretches(read_log(content), "training")[1][:2] == (13, 16)

    @pytest.mark.parametrize("key", ["block_start", "block_stop", "eval_start", "eval_stop"])
    def test_a_slower_ranks_event_ends_nothing_twice(self, key):
        def written(lag: int) -> str:
            log = Log()
            log.setup()
            for done in (0, 12):
                for each, place, after in (
                    ("block_start", done, 12_000),
                    ("block_stop", done + 12, 0),
                    ("eval_start", done + 12, 6_000),
                    ("eval_stop", done + 12, 0),
                ):
                    log.event(each, samples_count=place * BATCH)
                    now = log.now
                    if lag and each == key:
                        log.now += lag
                        log.event(each, samples_count=place * BATCH)
                    log.now = now + after
            log.event("run_stop", samples_count=24 * BATCH, status="success")
            # As they come together from the ranks.
            log.lines.sort(key=lambda line: int(line.partition('"time_ms": ')[2].partition(",")[0]))
            return log.text()

        slow, run = (
            [msgspec.structs.replace(each, line=None) for each in read_log(written(lag)).timeline]
            for lag in (3_000, 0)
        )
        assert slow[:5] == run[:5]

    @pytest.mark.parametrize("dialect", ["position", "length"])
    def test_a_log_that_breaks_off_has_its_training_until_the_last_record(self, dialect):
        content = mlperf_log(EVEN, dialect)
        content = content[: content.index('"samples_count": 256}}')].rsplit("\n", 1)[0] + "\n"
        run = read_log(content)
        assert run.status == "incomplete"
        assert "at step 15" in run.status_reason
        assert stretches(run, "training")[1] == (13, 15, pytest.approx(3.015, abs=0.001))

    def test_without_run_start_there_is_no_clock(self):
        assert read_log(mlperf_log().replace('"run_start"', '"run_begin"')).timeline == ()


def without(content: str, key: str, numbers: Collection[int] = range(99)) -> str:
    """A log without the events of a name that have one of these numbers, from 1."""
    found, lines = 0, []
    for line in content.splitlines():
        found += f'"{key}"' in line
        if f'"{key}"' not in line or found not in numbers:
            lines.append(line)
    return "\n".join(lines) + "\n"


class TestUnmarkedBlocks:
    @pytest.mark.parametrize("dialect", DIALECTS)
    @pytest.mark.parametrize("missing", [{1}, {2}, {3}, {2, 3}, {1, 3}])
    def test_t1_training_goes_on_after_an_evaluation(self, dialect, missing):
        run = read_log(without(mlperf_log(EVEN, dialect), "block_start", missing))
        # What lies between run_start or an evaluation and an unmarked block is the block's.
        before = [
            (START if 1 in missing else 0) / 1e3,
            *(BETWEEN / 1e3 * (number in missing) for number in (2, 3)),
        ]
        assert stretches(run, "training") == [
            (first, last, pytest.approx(seconds + more))
            for (first, last, seconds), more in zip(
                [(1, 12, 12), (13, 18, 6.03), (19, 24, 6)], before, strict=True
            )
        ]
        assert list(run.steps) == list(range(1, 25))
        assert findings_of(run) == ()

    @pytest.mark.parametrize("value", [None, {"throughput": 16.0}])
    def test_t1_a_log_without_any_block_start_has_no_blocks(self, value):
        log = Log()
        log.setup()
        for done in (12, 18, 24):
            log.now += 6_000
            if value:
                log.event("tracked_stats", value, samples_count=done * BATCH)
            for key in ("block_stop", "eval_start", "eval_stop"):
                log.event(key, samples_count=done * BATCH)
        run = read_log(log.text())
        assert run.timeline == ()
        assert list(run.steps) == ([12, 18, 24] if value else [])

    @pytest.mark.parametrize("step", [13, 15, 17, 20, 24])
    def test_t1_a_growing_log_has_its_training_until_the_last_record(self, step):
        content = without(mlperf_log(EVEN, "tokens"), "block_start", {2, 3})
        end = next(
            index
            for index, line in enumerate(content.splitlines())
            if f'"samples_count": {step * BATCH}}}' in line
        )
        run = read_log("\n".join(content.splitlines()[: end + 1]) + "\n")
        assert run.steps[-1] == step
        assert stretches(run, "training")[-1][1] == step
        assert summarize(run).performance.avg_step_time_seconds == pytest.approx(1, rel=0.01)

    @pytest.mark.parametrize(
        ("first", "code"),
        # The run takes 13.962 s more than its first block, which has half of the steps.
        [(13_900, "steps-outside-blocks"), (14_000, "blocks-too-slow")],
    )
    def test_t1_steps_that_no_block_has_are_counted_and_an_impossible_speed_is_none(
        self, first, code
    ):
        blocks = ((12, first, 900), (12, 12_000, 900))
        content = without(
            without(mlperf_log(blocks, "tokens", records=0), "block_start", {2}), "eval_stop"
        )
        run = read_log(content)
        assert [(note.code, note.fields) for note in findings_of(run)] == [(code, {"count": 12})]
        speed = summarize(run).performance.avg_step_time_seconds
        assert speed == (None if code == "blocks-too-slow" else pytest.approx(first / 12e3))

    def test_t1_a_block_does_not_have_the_steps_before_its_own(self):
        run = read_log(
            without(without(mlperf_log(EVEN, "mixed"), "block_start", {1}), "block_stop", {1})
        )
        assert [each[:2] for each in stretches(run, "unknown")] == [(13, 18), (19, 24)]

    @pytest.mark.parametrize(("step", "first"), [(17, 18), (18, 13), (192, 13)])
    def test_t1_a_step_at_its_start_beyond_its_end_is_none(self, step, first):
        content = mlperf_log(EVEN, "position", records=0)
        begun = f'"samples_count": {12 * BATCH}'
        lines = [
            line.replace(begun, f'{begun}, "step": {step}') if "block_start" in line else line
            for line in content.splitlines()
        ]
        run = read_log("\n".join(lines) + "\n")
        assert [entry.first_step for entry in run.timeline if entry.steps] == [1, first, 19]


class TestBlocksThatHoldTheirEvaluation:
    def test_they_give_no_speed_but_a_bound(self):
        run = read_log(mlperf_log(EVEN, "mixed"))
        assert account.clocks(run) == ()
        assert summarize(run).performance.avg_step_time_seconds is None
        mixed = stretches(run, "unknown")
        assert [each[:2] for each in mixed] == [(1, 12), (13, 18), (19, 24)]
        assert account.account(run, None).whole == pytest.approx(
            OFFICIAL - 2 * BETWEEN / 1e3 - BETWEEN / 1e3, abs=0.01
        )
        bound = math.fsum(each[2] for each in mixed) / 24
        assert any(f"a step takes at most {bound:.4g} s" in warning for warning in run.warnings)

    @pytest.mark.parametrize(("delay", "kind"), [(5, "unknown"), (8, "training")])
    def test_from_when_on_a_result_is_of_an_evaluation_that_followed(self, delay, kind):
        # A block of 6.9 s and a limit of a thousandth of it.
        assert timeline.AT_ONCE == 0.001
        run = read_log(mlperf_log(((6, 6_000, 900),), "mixed", mixed_delay=delay))
        assert len(stretches(run, kind)) == 1


class TestUnlikeBlocks:
    """T1: nothing is dropped, nothing gets double weight, and the block is named."""

    SWITCH = (
        (192, 192_000, 9_000),
        (48, 48_000, 9_000),
        (48, 48_000, 9_000),
        (48, 48_000, 9_000),
        (48, 105_000, 18_000),
    )
    COLLECTION = ((192, 192_000, 9_000), *((192, 192_000, 9_000),) * 3, (192, 235_000, 9_000))
    START_UP = ((192, 212_000, 9_000), (48, 48_000, 9_000), (48, 48_000, 9_000))

    @pytest.mark.parametrize(
        ("blocks", "said", "mean", "named"),
        [
            (
                SWITCH,
                {341: "0: FP8 Healing starting..."},
                441 / 384,
                "block 5 takes 2.19× as long (steps 337–384): FP8 Healing starting (line",
            ),
            (
                COLLECTION,
                {
                    800: (
                        "0: [NeMo I 2025-10-18] Running garbage collection at train"
                        " global_step: 800"
                    )
                },
                1003 / 960,
                (
                    "block 5 takes 1.22× as long (steps 769–960): Running garbage collection at"
                    " train global_step: 800 "
                ),
            ),
            (START_UP, {}, 308 / 288, "block 1 takes 1.10× as long (steps 1–192)"),
        ],
    )
    def test_the_mean_has_them_and_the_warning_names_them(self, blocks, said, mean, named):
        content = mlperf_log(blocks, "length", said=said, records=10)
        summary = summarize(read_log(content))
        assert summary.performance.avg_step_time_seconds == pytest.approx(mean)
        assert summary.performance.median_step_time_seconds == pytest.approx(1.0)
        (warning,) = [
            each for each in summary.warnings if each.startswith("a step takes on average")
        ]
        assert named in warning
        if said:
            line = 1 + next(
                index
                for index, each in enumerate(content.splitlines())
                if next(iter(said.values())) in each
            )
            assert f"(line {line})" in warning

    def test_a_switch_that_the_log_does_not_print_is_no_cause(self):
        (warning,) = [
            each
            for each in summarize(read_log(mlperf_log(self.SWITCH, records=10))).warnings
            if "block 5" in each
        ]
        assert "ealing" not in warning

    @pytest.mark.parametrize(("last", "is_named"), [(48_900, False), (49_100, True)])
    def test_a_difference_of_two_percent_in_half_of_the_steps_is_the_limit(self, last, is_named):
        # The mean is 1% above the median block from 49.0 s on.
        blocks = ((24, 24_000, 900), (24, 24_000, 900), (48, last, 900))
        warnings = summarize(read_log(mlperf_log(blocks))).warnings
        assert any("median block" in each for each in warnings) == is_named

    @staticmethod
    def notes(slow: dict[int, int]) -> list[str | None]:
        """The notes on three blocks of twenty steps of 1 s, some of which take so many ms more."""
        log = Log()
        log.setup()
        for block in range(3):
            log.event("block_start", samples_count=block * 20 * BATCH)
            for step in range(block * 20 + 1, block * 20 + 21):
                log.now += 1_000 + slow.get(step, 0)
                log.event("tracked_stats", {"train_loss": 3.0}, samples_count=step * BATCH)
            log.event("block_stop", samples_count=(block + 1) * 20 * BATCH)
        log.event("run_stop", samples_count=60 * BATCH, status="success")
        return [entry.note for entry in read_log(log.text()).timeline if entry.kind == "training"]

    @pytest.mark.parametrize(
        ("slow", "note"),
        [
            ({33: 6_000}, "steps 33–33 take 6 s more than typical steps"),
            # A hundredth of the block.
            ({33: 199}, None),
            ({33: 202}, "steps 33–33 take 0.202 s more than typical steps"),
            # Four fifths of what it takes more.
            ({33: 8_100, 39: 1_900}, "steps 33–33 take 8.1 s more than typical steps"),
            ({33: 7_900, 39: 2_100}, "steps 33–39 take 10 s more than typical steps"),
            # Slow all over, or but for the last step.
            (dict.fromkeys(range(21, 41), 500), None),
            (dict.fromkeys(range(21, 40), 500), "steps 21–36 take 8 s more than typical steps"),
            ({**dict.fromkeys(range(21, 40), 500), 40: 25}, None),
        ],
    )
    def test_a_stall_stands_in_the_note_with_its_steps(self, slow, note):
        assert self.notes(slow) == [None, note, None]

    def test_what_the_submitters_mean_leaves_out_of_the_first_block(self):
        log = Log()
        log.setup()
        done = 0
        for steps, seconds in ((20, 26), (10, 10), (10, 10)):
            log.event("block_start", samples_count=done * BATCH)
            log.now += seconds * 1000
            done += steps
            log.event("tracked_stats", {"throughput": float(BATCH)}, step=done * BATCH)
            log.event("block_stop", samples_count=done * BATCH)
        log.event("run_stop", samples_count=done * BATCH, status="success")
        run = read_log(log.text())
        assert run.timing.kind == "partial"
        assert run.timeline[1].note == "its submitter's own mean leaves out 6 s of it"
        assert summarize(run).performance.avg_step_time_seconds == pytest.approx(46 / 40)


class TestTimersThatLeaveOutPauses:
    """T2 and T13: step times of single steps, and a first event at zero."""

    @staticmethod
    def sampled(
        first: int, every: int = 32, unit: int = BATCH, *, blocks: bool = True, pause: int = 10_000
    ) -> Log:
        """A log of four blocks of 64 steps of 0.5 s, with a pause in the third that no sampled step
        sees.
        """
        log = Log()
        log.setup()
        name = "samples_count" if unit > 1 else "step"
        for step in range(1, 257):
            if blocks and step % 64 == 1:
                log.event("block_start", samples_count=64 * BATCH, step=step - 1)
            log.now += 500 + (pause if step == 150 else 0)
            if (step - 1 if first == 0 else step) % every == 0:
                position = (step - 1 if first == 0 else step) * unit
                log.event(
                    "tracked_stats",
                    {"train_step_time": 0.49, "reduced_train_loss": 5 - step / 100},
                    **{name: position},
                )
            if blocks and step % 64 == 0:
                log.event("block_stop", samples_count=64 * BATCH, step=step)
                log.event("eval_start", samples_count=step * BATCH, step=step)
                log.now += 3_000
                log.event("eval_stop", samples_count=step * BATCH, step=step)
        log.event("run_stop", samples_count=256 * BATCH, status="success")
        return log

    @pytest.mark.parametrize(("every", "unit"), [(32, BATCH), (32, 1), (16, BATCH)])
    @pytest.mark.parametrize("first", [0, 32])
    def test_sampled_steps_are_read_and_the_speed_is_of_the_blocks(self, first, every, unit):
        run = read_log(self.sampled(first, every, unit).text())
        assert run.timing.kind == "sampled"
        steps = list(range(1, 257, every)) if first == 0 else list(range(every, 257, every))
        assert list(run.steps) == steps
        assert list(run.loss_values) == pytest.approx([5 - step / 100 for step in steps])
        assert not any("values ignored" in warning for warning in run.warnings)
        summary = summarize(run)
        assert summary.performance.avg_step_time_seconds == pytest.approx((128 + 10) / 256)
        assert summary.performance.total_steps == 256

    def test_without_blocks_sampled_steps_count_as_what_they_stand_for(self):
        run = read_log(self.sampled(32, blocks=False).text())
        assert summarize(run).performance.total_steps == 256
        assert any("pauses in between are not included" in warning for warning in run.warnings)

    def test_records_of_each_step_are_no_proof_against_pauses_between_them(self):
        run = read_log(self.sampled(32, every=1).text())
        assert run.timing.kind == "partial"
        assert summarize(run).performance.avg_step_time_seconds == pytest.approx((128 + 10) / 256)

    def test_identical_runs_with_other_timers_are_equally_fast(self):
        means = {
            kind: summarize(read_log(log.text())).performance.avg_step_time_seconds
            for kind, log in (
                ("sampled", self.sampled(32)),
                ("each", self.sampled(32, every=1)),
                ("blocks", self.sampled(32, every=999)),
            )
        }
        assert len({round(mean, 9) for mean in means.values()}) == 1

    def test_a_log_with_blocks_alone_has_a_speed(self):
        run = read_log(self.sampled(32, every=999).text())
        assert run.steps == (64, 128, 192, 256)
        assert run.step_times == pytest.approx((0.5, 0.5, 42 / 64, 0.5))
        assert any(warning.startswith("no step times in the log") for warning in run.warnings)
        assert summarize(run).performance.avg_step_time_seconds == pytest.approx((128 + 10) / 256)


class TestEarlyBlockEnds:
    """T3: block_stop is logged before the GPU is done."""

    EVALUATION = 3_000

    @classmethod
    def log(
        cls,
        early: int,
        blocks=((24, 1_000),) * 4,
        every: int = 5,
        late: int = 0,
        evaluation: int = EVALUATION,
    ):
        """A log of blocks of steps of so many ms, whose stop comes ms early if no record falls on
        their last step.

        Every so many steps have a record, which is logged so many steps late.
        """
        log, done = Log(), 0
        log.setup()
        for steps, pace in blocks:
            log.event("block_start", samples_count=steps * BATCH, step=done)
            begun = log.now
            for step in range(1, steps + 1):
                log.now = begun + step * pace
                if (done + step - late) % every == 0 and step > late:
                    value = {"train_step_time": pace / 1000, "reduced_train_loss": 3.0}
                    log.event("tracked_stats", value, samples_count=(done + step - late) * BATCH)
            done += steps
            log.now -= early * (done % every > 0)
            where = {"samples_count": done * BATCH, "step": done}
            log.event("block_stop", samples_count=steps * BATCH, step=done)
            log.event("eval_start", **where)
            log.now = begun + steps * pace + evaluation
            log.event("eval_stop", **where)
        log.event("run_stop", samples_count=done * BATCH, status="success")
        return log.text()

    @pytest.mark.parametrize("early", [0, 510, 900, 2_600])
    def test_t3_the_speed_is_that_of_the_steps(self, early):
        run = read_log(self.log(early))
        assert stretches(run, "training") == [(at, at + 23, 24.0) for at in (1, 25, 49, 73)]
        assert [entry.duration for entry in run.timeline if entry.kind == "evaluation"] == [3.0] * 4
        assert summarize(run).performance.avg_step_time_seconds == pytest.approx(1.0)
        notes = [(note.code, note.fields) for note in findings_of(run)]
        percent = pytest.approx(400 * early / 1e3 / (96 - 4 * early / 1e3), abs=0.001)
        assert notes == (
            [("early-block-ends", {"count": 4, "percent": percent, "doubt": 0.0})] if early else []
        )

    @pytest.mark.parametrize(("early", "is_moved"), [(490, False), (510, True)])
    def test_t3_half_a_step_is_the_limit(self, early, is_moved):
        run = read_log(self.log(early))
        assert any(note.code == "early-block-ends" for note in run.notes) == is_moved
        assert stretches(run, "training")[0][2] == (24.0 if is_moved else 24 - early / 1e3)

    @pytest.mark.parametrize(("last", "is_moved"), [(12, False), (14, True)])
    def test_t3_it_takes_three_intervals_to_know_a_step(self, last, is_moved):
        # Records of steps 5 and 10, and of 15, 20 and perhaps 25.
        assert timeline.LEAST_PACES == 3
        notes = findings_of(read_log(self.log(900, ((12, 1_000), (last, 1_000)))))
        assert any(note.code == "early-block-ends" for note in notes) == is_moved

    def test_t3_a_block_whose_last_step_has_a_record_ends_there_and_one_without_records_as_early_as_others(
        self,
    ):
        blocks = ((24, 1_000), (6, 1_000), (3, 1_000), (22, 1_000))
        run = read_log(self.log(900, blocks))
        assert [each[2] for each in stretches(run, "training")] == [24.0, 6.0, 3.0, 22.0]
        (note,) = findings_of(run)
        # 24 and 33 steps; a record falls on step 30, and on step 55.
        assert note.fields["count"] == 2

    @pytest.mark.parametrize("late", [0, 1])
    def test_t3_a_stop_that_waits_is_right_even_if_records_come_a_step_late(self, late):
        run = read_log(self.log(0, late=late))
        assert findings_of(run) == ()
        assert [each[2] for each in stretches(run, "training")] == [24.0] * 4

    @pytest.mark.parametrize(("evaluation", "third"), [(500, 38.4), (-400, 38.0)])
    def test_t3_another_precision_has_a_pace_of_its_own(self, evaluation, third):
        blocks = ((24, 1_000), (24, 1_000), (24, 1_600), (3, 1_600))
        run = read_log(self.log(900, blocks, every=7, evaluation=evaluation))
        # At most the whole evaluation belongs to training.
        first = min(24.0, 24.0 - 0.9 + (evaluation + 900) / 1e3)
        assert [each[2] for each in stretches(run, "training")][:3] == pytest.approx(
            [first, first, third]
        )
        assert (
            min(entry.duration for entry in run.timeline if entry.kind == "evaluation")
            == max(0, evaluation) / 1e3
        )

    def test_t3_what_blocks_without_records_may_be_off_is_the_doubt(self):
        content = self.log(900, ((24, 1_000), (24, 1_000), (3, 1_000)), every=5)
        assert findings_of(read_log(content))[0].fields["doubt"] == 0
        other = self.log(900, ((24, 1_000), (22, 1_000), (3, 1_000)), every=5)
        # The stop of one block comes 1.4 s early, of the other 0.9 s: 0.5 s of 46.3 s are in doubt.
        lines = other.splitlines()
        place = next(index for index, line in enumerate(lines) if '"block_stop"' in line)
        for index in (place, place + 1):
            time = lines[index].partition('"time_ms": ')[2].partition(",")[0]
            lines[index] = lines[index].replace(time, str(int(time) - 500))
        (note,) = findings_of(read_log("\n".join(lines) + "\n"))
        assert note.fields["doubt"] == pytest.approx(100 * 0.5 / (49 - 3.2), abs=0.5)

    def test_t3_means_of_blocks_are_no_records(self):
        lines = []
        for line in self.log(900).splitlines():
            if '"block_stop"' in line:
                lines.append(
                    line.replace("block_stop", "tracked_stats").replace(
                        "null", '{"train_step_time": 0.96}'
                    )
                )
            lines.append(line.replace('"train_step_time": 1.0, ', ""))
        run = read_log("\n".join(lines) + "\n")
        assert run.timing.covers == "mean between evaluations, by the submitter's timer"
        assert [each[2] for each in stretches(run, "training")] == [24.0] * 4


class TestSlowStretch:
    def test_t3_its_work_grows_with_the_records(self):
        class Counted(float):
            count = 0

            def __rmul__(self, other):
                Counted.count += 1
                return other * float(self)

        points = [(step, step + 5.0 * (step > 300)) for step in range(1_000)]
        assert timeline.shortest_stretch(points, Counted(1.0), 4.0) == (
            300,
            301,
            pytest.approx(5.0),
        )
        assert Counted.count == 1_000

    @pytest.mark.parametrize("seed", range(40))
    def test_t3_it_finds_what_all_pairs_show(self, seed):
        rng = random.Random(seed)
        steps = sorted(rng.sample(range(1, 60), 12))
        points = [
            (step, step + sum(rng.random() for _ in range(index)))
            for index, step in enumerate(steps)
        ]
        least = rng.uniform(0.5, 6)
        found = [
            (later[0] - one[0], one[0], later[0])
            for index, one in enumerate(points)
            for later in points[index + 1 :]
            if later[1] - one[1] - (later[0] - one[0]) >= least
        ]
        shortest = timeline.shortest_stretch(points, 1.0, least)
        assert (shortest and shortest[:2]) == (min(found)[1:] if found else None)


@pytest.mark.parametrize(("printed", "is_said"), [(1.26, False), (1.28, True)])
def test_t1_steps_that_take_longer_than_the_run_are_a_fault_of_the_reader(printed, is_said):
    # 24 steps of 1 s in a run that evaluates for 6 s: 1% more than its 30 s is the limit.
    log = Log()
    log.setup()
    for step in range(1, 25):
        log.now += 1_000
        log.event(
            "tracked_stats",
            {"train_step_time": printed, "train_loss": 3.0},
            samples_count=step * BATCH,
        )
    log.now += 6_000
    log.event("eval_accuracy", 3.0, samples_count=24 * BATCH)
    log.event("run_stop", samples_count=24 * BATCH, status="success")
    notes = [note.code for note in findings_of(read_log(log.text()))]
    assert notes == ["steps-beyond-run"] * is_said


def test_times_are_those_since_run_start():
    init, start, *_ = read_log(mlperf_log()).timeline
    assert (init.kind, init.start, init.duration) == ("start-up", -INIT / 1e3, INIT / 1e3)
    assert (start.kind, start.start, start.duration) == ("start-up", 0.0, START / 1e3)
    assert BEGUN % 1000 == 0


class TestReinforcementLearning:
    @staticmethod
    def log(**figures: float) -> str:
        """A log of four steps of 10 s with these figures, the first of which begins late."""
        log = Log()
        log.setup()
        log.event("num_generations_per_prompt", 16)
        log.event("block_start", samples_count=0)
        log.now += 30_000
        for step in range(1, 5):
            log.now += 10_000
            log.event("tracked_stats", {"train_step_time": 10.0, **figures}, step=step)
        log.event("block_stop", samples_count=4 * BATCH)
        log.event("run_stop", samples_count=4 * BATCH, status="success")
        return log.text()

    @pytest.mark.parametrize(
        ("gpus", "count"), [(8.009, 8), (7.991, 8), (8.011, None), (8.5, None)]
    )
    def test_t2_the_gpus_follow_from_the_tokens_and_their_rate(self, gpus, count):
        run = read_log(
            self.log(global_valid_toks=10 * 100 * gpus, valid_tokens_per_sec_per_gpu=100.0)
        )
        assert run.num_gpus == count
        assert summarize(run).performance.tokens_per_second == pytest.approx(100 * gpus)

    def test_t2_without_printed_tokens_there_is_no_rate_in_tokens(self):
        run = read_log(self.log())
        performance = summarize(run).performance
        assert (performance.avg_step_time_seconds, performance.tokens_per_second) == (10.0, None)
        assert "tokens per step vary with the length of the answers" in run.warnings

    def test_t2_a_reward_is_a_sign_too(self):
        content = self.log(reward=0.5).replace("num_generations_per_prompt", "num_answers")
        assert read_log(content).training_config.sequence_length is None
        assert read_log(content.replace("reward", "award")).training_config.sequence_length == 2048
