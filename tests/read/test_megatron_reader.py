import contextlib
import datetime
import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from megatron_writer import (
    NEWER,
    PREFIXES,
    SHAPES,
    Setup,
    Step,
    doubled,
    dump,
    line,
    lines,
    prefixed,
)

from tprimat import read
from tprimat.analysis import flops
from tprimat.analysis.summary import summarize
from tprimat.errors import UnreadableError
from tprimat.read.parsing import text
from tprimat.results.run import Run


def steps(*times: float, first: int = 1) -> list[Step]:
    return [Step(first + index, ms) for index, ms in enumerate(times)]


def runs_of(written: list[str]) -> list[Run]:
    content = "".join(f"{each}\n" for each in written).encode()
    return read.read(text.lines([content]), "made.log")


def single(written: list[str]) -> Run:
    (run,) = runs_of(written)
    return run


def said(run: Run, words: str) -> str:
    return next((warning for warning in run.warnings if words in warning), "")


def test_a_line_torn_by_a_requeue_gives_no_time():
    written = lines(steps(*[54_000.0] * 6), Setup("upstream", planned=12), stamps=False)
    torn = written[5][: written[5].index("(ms): 54") + len("(ms): 54")]
    run = single(
        [
            *written[:5],
            torn,
            *lines(steps(*[54_000.0] * 4, first=7), Setup("upstream", planned=12), stamps=False),
        ]
    )
    assert run.step_times == (*[54.0] * 5, None, *[54.0] * 4)
    assert said(run, "no readable step time at iteration 6")
    # The attempt that runs it again counts.
    run = single(
        [
            *written[:5],
            torn,
            *lines(steps(*[54_000.0] * 4, first=6), Setup("upstream", planned=12), stamps=False),
        ]
    )
    assert run.step_times == (54.0,) * 9


@pytest.mark.parametrize(
    ("factor", "resolution", "told"),
    # Half, twice, a fifth more; stamps in whole seconds; lines that were written at once.
    [
        (0.5, 6, True),
        (2.0, 6, True),
        (1.2, 6, True),
        (1.01, 6, False),
        (1.0, 0, False),
        (2.0, 0, True),
        (0.0, 6, False),
    ],
)
def test_stamps_that_contradict_the_step_times_are_told(factor, resolution, told):
    written = lines(steps(*[1500.0] * 240), Setup("upstream", planned=240), stamps=False)
    start = datetime.datetime(2026, 5, 11, 2)
    stamped = []
    for index, each in enumerate(written):
        stamp = (start + datetime.timedelta(seconds=1.5 * factor * index)).isoformat(
            " ", "microseconds"
        )
        stamped.append(f"[{stamp if resolution else stamp[:19]}] {each}")
    assert bool(said(single(stamped), "time stamps")) is told


def test_a_sequence_length_that_changes_leaves_no_throughput_in_tokens():
    written = [
        each.replace("loss scale: 1.0", f"actual seqlen: {64 if index < 3 else 2048}")
        for index, each in enumerate(lines(steps(*[900.0] * 5), Setup("upstream")))
    ]
    run = single(written)
    assert said(run, "sequence length changes during the run (64 to 2048)")
    assert run.training_config.sequence_length is None
    assert single(written[3:]).training_config.sequence_length == 2048


def test_labels_that_are_not_read_are_named_once():
    written = [
        each.replace("loss scale: 1.0", "z_loss: 1.5")
        for each in lines(steps(*[900.0] * 5), Setup("upstream"))
    ]
    run = single(written)
    assert [warning for warning in run.warnings if "not read" in warning] == [
        "1 label not read: z_loss"
    ]


class TestRoundTrip:
    @given(
        st.sampled_from(SHAPES),
        st.sampled_from(PREFIXES),
        st.lists(st.integers(2000, 9_000_000), min_size=1, max_size=12),
        st.booleans(),
        st.booleans(),
        st.integers(0, 2**32),
    )
    @settings(max_examples=150, deadline=None)
    def test_what_was_written_is_read(self, shape, prefix, tenths, twice, with_dump, seed):
        rng = random.Random(seed)
        setup = Setup(shape, planned=len(tenths))
        # In tenths of a ms, as they are printed; an even sum, so that the mean is printed exactly.
        made = [
            Step(
                index + 1,
                # The first step takes longer, as it does: it is told from the mean by that.
                tenth // 2 * 2 / 10 + 20_000.0 * (not index),
                loss=None if rng.random() < 0.1 else round(rng.uniform(0, 12), 5),
                learning_rate=rng.choice([0.0, 1e-5, 9.755283e-06]),
                grad_norm=rng.choice([0.0, 7.105, None]),
            )
            for index, tenth in enumerate(tenths)
        ]
        # Between a second step and the mean of both that lie so near each other no stamp can
        # decide.
        assume(len(made) < 2 or abs(made[0].ms - made[1].ms) > 0.02 * made[0].ms + 2000)
        written = lines(made, setup)
        written = doubled(written, rng) if twice else written
        written = (dump(setup) if with_dump else []) + written
        run = single([prefixed(each, prefix) for each in written])
        assert run.steps == tuple(step.iteration for step in made)
        assert run.step_times == pytest.approx([step.ms / 1e3 for step in made], abs=1e-9)
        assert run.loss_values == pytest.approx([step.loss for step in made])
        assert run.learning_rates == pytest.approx([step.learning_rate for step in made])
        assert run.grad_norms == tuple(step.grad_norm for step in made)
        assert run.window_steps == (1,) * len(made)
        assert run.status == "complete"
        assert run.training_config.sequence_length == (setup.sequence if with_dump else None)

    @given(st.binary(max_size=400), st.sampled_from(SHAPES))
    @settings(max_examples=100, deadline=None)
    def test_any_bytes_between_the_lines_do_no_harm(self, noise, shape):
        written = "\n".join(lines(steps(3000.0, 500.0, 500.0), Setup(shape, planned=3))).encode()
        # At the very beginning two bytes would say which encoding the file has.
        (run,) = read.read(text.lines([b"\n", noise, b"\n", written, b"\n", noise]), "noise.log")
        assert run.steps == (1, 2, 3)

    @given(st.binary(max_size=2000))
    @settings(max_examples=100, deadline=None)
    def test_any_bytes_are_read_or_refused_in_one_line(self, content):
        with pytest.raises(UnreadableError) as raised:
            read.read(text.lines([content]), "noise.log")
        assert raised.value.line().count("\n") <= 2

    @given(st.integers(0, 2**32))
    @settings(max_examples=60, deadline=None)
    def test_damaged_lines_never_end_in_a_fault(self, seed):
        rng = random.Random(seed)
        setup = Setup(rng.choice(SHAPES), planned=4)
        content = list("\n".join(dump(setup) + lines(steps(3000.0, 500.0, 510.0, 505.0), setup)))
        for _ in range(rng.randint(1, 40)):
            content[rng.randrange(len(content))] = rng.choice("0123456789|:./-e \n\r[]ainf")
        found = []
        with contextlib.suppress(UnreadableError):
            found = read.read(text.lines(["".join(content).encode()]), "damaged.log")
        assert all(len(run.steps) <= 5 for run in found)


class TestTheSecondIteration:
    @pytest.mark.parametrize("shape", NEWER)
    @pytest.mark.parametrize("stamps", [True, False])
    def test_is_restored_by_the_stamps_or_by_the_shape(self, shape, stamps):
        run = single(
            lines(steps(19000.0, 700.0, 650.0, 660.0), Setup(shape, planned=4), stamps=stamps)
        )
        assert run.step_times == (19.0, 0.7, 0.65, 0.66)
        assert "9.85" in said(run, "corrected to")

    def test_is_restored_where_megatron_itself_prints_a_mean(self):
        setup = Setup("upstream", planned=3)
        written = lines(steps(19000.0, 700.0, 650.0), setup)
        written[1] = line(Step(2, 700.0), setup, "2026-05-11 02:18:19.700000", printed_ms=9850.0)
        assert single(written).step_times == (19.0, 0.7, 0.65)

    @pytest.mark.parametrize("shape", ["upstream", "fork", "M1", "legacy"])
    def test_is_left_alone_where_it_is_its_own_time(self, shape):
        run = single(lines(steps(23000.0, 15000.0, 15100.0), Setup(shape, planned=3)))
        assert run.step_times == (23.0, 15.0, 15.1)
        assert not said(run, "corrected to")

    def test_is_left_alone_when_stamps_of_whole_seconds_speak_against_it(self):
        setup = Setup("upstream", planned=2)
        written = [
            line(Step(1, 23102.2), setup, "2025-08-14 05:36:47"),
            line(Step(2, 14992.8), setup, "2025-08-14 05:37:02"),
        ]
        assert single(written).step_times == (23.1022, 14.9928)

    def test_is_doubtful_where_nothing_tells(self):
        run = single(lines(steps(23000.0, 15000.0), Setup("upstream", planned=2), stamps=False))
        assert run.step_times == (23.0, 15.0)
        assert said(run, "may be a mean")

    def test_of_a_process_that_started_again_is_doubtful_without_stamps(self):
        setup = Setup("core", planned=8)
        first = lines(steps(19000.0, 700.0, 650.0, 660.0), setup, stamps=False)
        again = [
            line(Step(4, 15000.0), setup),
            line(Step(5, 640.0), setup, printed_ms=7820.0),
            line(Step(6, 640.0), setup),
        ]
        run = single([*dump(setup), *first, *dump(setup), *again])
        assert run.step_times == (19.0, 0.7, 0.65, 15.0, 7.82, 0.64)
        assert "iteration 5 (7.82 s) may be a mean that includes iteration 4" in said(
            run, "may be a mean"
        )

    def test_of_a_process_that_started_again_is_restored_by_stamps_of_whole_seconds(self):
        setup = Setup("core", planned=8)
        first = lines(steps(19000.0, 700.0, 650.0, 660.0), setup, stamps=False)
        again = [
            line(Step(4, 15000.0), setup),
            line(Step(5, 640.0), setup, printed_ms=7820.0),
            line(Step(6, 640.0), setup),
        ]
        times = ("02:18:19", "02:18:19", "02:18:20", "02:18:21", "03:10:15", "03:10:15", "03:10:16")
        run = single(
            f"[20260511 {time}][rank-7/8][DEBUG]    [--utils.py:425] : {each}"
            for time, each in zip(times, first + again, strict=True)
        )
        assert run.step_times == (19.0, 0.7, 0.65, 15.0, 0.64, 0.64)
        assert "0 s apart, in whole seconds" in said(run, "iteration 5")

    def test_that_would_be_negative_is_not_restored(self):
        setup = Setup("core", planned=2)
        written = [line(Step(1, 30000.0), setup), line(Step(2, 14000.0), setup)]
        assert single(written).step_times == (30.0, 14.0)

    def test_alone_is_kept_as_a_mean_of_two_steps(self):
        written = lines(steps(19000.0, 700.0, 650.0), Setup("core", planned=3))[1:]
        run = single(written)
        assert run.window_steps == (2, 1)
        assert said(run, "mean of both")

    def test_of_a_process_that_started_at_it_is_its_own_time(self):
        setup = Setup("core", planned=4)
        again = [
            line(Step(2, 20000.0), setup, "2026-05-11 02:38:40.800000"),
            line(Step(3, 500.0), setup, "2026-05-11 02:38:41.300000", printed_ms=10250.0),
        ]
        run = single(lines(steps(20000.0, 200.0, 200.0), setup) + again)
        assert run.steps == (1, 2, 3)
        assert run.step_times == (20.0, 20.0, 0.5)

    def test_of_a_process_that_started_again_is_restored_too(self):
        setup = Setup("upstream", planned=12)
        first = lines(steps(9000.0, 500.0, 500.0, 500.0), setup)
        first[1] = line(Step(2, 500.0), setup, "2026-05-11 02:18:09.500000", printed_ms=4750.0)
        again = [
            line(Step(3, 8000.0), setup, "2026-05-11 02:30:08.000000"),
            line(Step(4, 600.0), setup, "2026-05-11 02:30:08.600000", printed_ms=4300.0),
            line(Step(5, 500.0), setup, "2026-05-11 02:30:09.100000"),
        ]
        run = single(first + again)
        assert run.steps == (1, 2, 3, 4, 5)
        assert run.step_times == (9.0, 0.5, 8.0, 0.6, 0.5)
        assert said(run, "restarted on line 5")


class TestWindows:
    def test_lines_every_ten_iterations_are_means_of_ten(self):
        setup = Setup("upstream", planned=40)
        written = [line(Step(number, 100.0), setup) for number in (10, 20, 30, 40)]
        assert single(written).window_steps == (10, 10, 10, 10)

    def test_the_first_iteration_may_be_printed_in_addition(self):
        setup = Setup("upstream", planned=40)
        written = [line(Step(number, 100.0), setup) for number in (1, 10, 20, 30, 40)]
        assert single(written).window_steps == (1, 9, 10, 10, 10)

    def test_a_mean_over_the_first_ten_is_restored_to_the_nine(self):
        setup = Setup("upstream", planned=30)
        written = [
            line(Step(1, 19000.0), setup, "2026-05-11 02:18:19.000000"),
            line(Step(10, 2350.0), setup, "2026-05-11 02:18:23.500000"),
            line(Step(20, 500.0), setup, "2026-05-11 02:18:28.500000"),
            line(Step(30, 500.0), setup, "2026-05-11 02:18:33.500000"),
        ]
        run = single(written)
        assert run.step_times == (19.0, 0.5, 0.5, 0.5)
        assert run.window_steps == (1, 9, 10, 10)

    def test_a_lost_line_makes_no_window(self):
        run = single(
            [line(Step(number, 100.0), Setup("upstream", planned=6)) for number in (1, 2, 4, 5, 6)]
        )
        assert run.window_steps == (1,) * 5
        assert said(run, "no line for iteration 3")

    def test_the_dump_decides_over_the_numbers(self):
        setup = Setup("upstream", planned=30)
        written = [line(Step(number, 100.0), setup) for number in (10, 20, 30)]
        assert single(dump(setup) + written).window_steps == (1, 1, 1)


class TestDoublesAndRestarts:
    def test_a_conflict_between_doubles_is_said_and_the_first_is_kept(self):
        setup = Setup("legacy", planned=2)
        written = lines(steps(3000.0, 500.0), setup)
        run = single([*written, written[1].replace("lm loss: 2.5", "lm loss: 7.5")])
        assert run.loss_values == (2.5, 2.5)
        assert "loss" in said(run, "printed twice with different values")

    def test_a_double_fills_what_the_first_line_lacks(self):
        written = lines(steps(3000.0, 500.0), Setup("legacy", planned=2))
        broken = written[1].replace("lm loss: 2.500000E+00", "lm loss: 2.5000[rank3]: warning")
        run = single([written[0], broken, written[1]])
        assert run.loss_values == (2.5, 2.5)

    def test_a_log_behind_its_own_copy_is_one_training(self):
        written = dump(Setup(planned=4)) + lines(
            steps(3000.0, 500.0, 500.0, 500.0), Setup(planned=4)
        )
        assert single(written + written).steps == (1, 2, 3, 4)

    def test_the_same_iteration_of_several_ranks_is_one_step(self):
        written = lines(steps(3000.0, 500.0, 500.0), Setup("legacy", planned=3))
        run = single(
            [prefixed(each, "primus", rank=rank) for each in written for rank in (3, 1, 7)]
        )
        assert run.steps == (1, 2, 3)

    def test_a_restart_takes_the_place_of_what_it_runs_again(self):
        setup = Setup("legacy", planned=6)
        late = [
            line(Step(number, 700.0), setup, f"2026-05-11 03:00:0{number}.000000")
            for number in (3, 4)
        ]
        run = single(lines(steps(3000.0, 500.0, 510.0, 520.0, 530.0), setup) + late)
        assert run.steps == (1, 2, 3, 4)
        assert run.step_times == (3.0, 0.5, 0.7, 0.7)
        assert "iterations 3 to 5" in said(run, "restarted")

    def test_a_second_training_is_a_run_of_its_own(self):
        setup = Setup("legacy", planned=3)
        first = lines(steps(3000.0, 500.0, 510.0), setup)
        second = [
            line(Step(number, 800.0), setup, f"2026-05-12 03:00:0{number}.000000")
            for number in (1, 2, 3)
        ]
        early, late = runs_of(
            [*dump(setup), *first, *dump(Setup(planned=3, sequence=2048)), *second]
        )
        assert early.step_times == (3.0, 0.5, 0.51)
        assert late.step_times == (0.8, 0.8, 0.8)
        assert (early.training_config.sequence_length, late.training_config.sequence_length) == (
            4096,
            2048,
        )

    def test_a_start_that_never_stepped_is_said(self):
        setup = Setup("legacy", planned=9)
        written = [*dump(setup), *lines(steps(3000.0, 500.0), setup), *dump(setup)]
        run = single(
            [*written, "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2 GiB"]
        )
        assert run.steps == (1, 2)
        assert "HIP out of memory" in said(run, "restarted")

    def test_lines_that_are_late_by_thousands_take_their_places(self):
        written = [
            line(
                Step(number, 500.0, loss=number / 1e3),
                Setup("legacy", planned=3000),
                f"2026-05-11 {clock}.000000",
            )
            for number in (1, 3000, *range(2, 3000))
            for clock in [f"{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}"]
        ]
        run = single([*written, *written[500:600]])
        assert run.steps == tuple(range(1, 3001))
        assert run.loss_values == pytest.approx([number / 1e3 for number in run.steps])


class TestALogBehindAnother:
    """The lines of a training that don't follow from those before them, though their numbers do."""

    def behind(
        self, first: Setup, second: Setup, *numbers: int, batch: int = 16, prefix: str = "primus"
    ) -> list[Run]:
        before = [
            prefixed(each, prefix, 7, first.world)
            for each in lines(steps(3000.0, 500.0, 500.0), first)
        ]
        late = [
            line(Step(number, 700.0, batch=batch), second, "2026-05-12 03:00:00.000000")
            for number in numbers
        ]
        return runs_of(
            before + [prefixed(each, prefix, second.world - 1, second.world) for each in late]
        )

    def test_of_more_gpus_and_another_plan_is_another_training(self):
        first, second = self.behind(
            Setup("legacy", planned=9), Setup("legacy", planned=900, world=64), 424, 425
        )
        assert (first.steps, first.training_config.num_gpus) == ((1, 2, 3), 8)
        assert (second.steps, second.training_config.num_gpus) == ((424, 425), 64)
        assert first.status == second.status == "incomplete"

    def test_of_another_plan_behind_a_whole_training(self):
        first, second = self.behind(
            Setup("legacy", planned=3), Setup("legacy", planned=900), 424, 425, prefix="none"
        )
        assert (first.steps, first.status) == ((1, 2, 3), "complete")
        assert second.steps == (424, 425)

    def test_of_another_batch_behind_a_whole_training(self):
        first, second = self.behind(
            Setup("legacy", planned=3), Setup("legacy", planned=3), 424, batch=256
        )
        assert (
            first.training_config.global_batch_size,
            second.training_config.global_batch_size,
        ) == (16, 256)

    def test_that_goes_on_where_the_other_ended_is_the_same_training(self):
        (run,) = self.behind(
            Setup("legacy", planned=3), Setup("legacy", planned=6, world=64), 4, 5, 6
        )
        assert (run.steps, run.status) == ((1, 2, 3, 4, 5, 6), "complete")

    def test_that_goes_on_at_the_next_line_of_every_tenth_iteration(self):
        setup, longer = Setup("upstream", planned=30), Setup("upstream", planned=60)
        written = [
            line(Step(number, 500.0), setup if number <= 30 else longer)
            for number in range(10, 70, 10)
        ]
        assert single(written).steps == (10, 20, 30, 40, 50, 60)

    def test_whose_samples_go_on_with_another_batch_is_the_same_training(self):
        setup = Setup("legacy", planned=3)
        grown = line(Step(8, 500.0, batch=32), Setup("legacy", planned=9)).replace(
            f"consumed samples: {8 * 32:12d}", f"consumed samples: {3 * 16 + 5 * 32:12d}"
        )
        assert single([*lines(steps(3000.0, 500.0, 500.0), setup), grown]).steps == (1, 2, 3, 8)

    def test_whose_lines_were_lost_is_the_same_training(self):
        (run,) = self.behind(Setup("legacy", planned=900), Setup("legacy", planned=900), 424)
        assert run.steps == (1, 2, 3, 424)

    @pytest.mark.parametrize("first", [2, 3, 4, 9])
    def test_behind_the_dump_of_another_model_is_another_training(self, first):
        setup = Setup("core", planned=12)
        other = [f"{each[:-1]}28" if "num_layers" in each else each for each in dump(setup)]
        late = [line(Step(first, 700.0), setup, "2026-05-11 05:00:00.000000")]
        one, two = runs_of(
            [*dump(setup), *lines(steps(3000.0, 500.0, 500.0), setup), *other, *late]
        )
        assert (one.steps, one.model_config.num_layers) == ((1, 2, 3), 4)
        assert (two.steps, two.model_config.num_layers) == ((first,), 28)

    def test_that_is_older_is_not_taken_for_late_lines(self):
        later = [line(Step(424, 700.0), Setup("legacy", planned=900), "2026-06-12 03:00:00.000000")]
        first, second = runs_of(
            [*later, *lines(steps(3000.0, 500.0, 500.0), Setup("legacy", planned=3))]
        )
        assert (first.steps, second.steps) == ((424,), (1, 2, 3))


class TestStatus:
    def test_the_planned_iterations_make_it_complete(self):
        assert single(lines(steps(300.0, 100.0), Setup(planned=2))).status == "complete"

    def test_the_marker_of_success_makes_it_complete(self):
        run = single(
            [
                *lines(steps(300.0, 100.0), Setup(planned=9)),
                "[after training is done] datetime: 2026-05-11",
            ]
        )
        assert run.status == "complete"
        assert said(run, "after iteration 2 of 9")

    @pytest.mark.parametrize(
        ("said", "reason"),
        [
            (
                "[exiting program after 8.016668 minutes] datetime: 2026-05-11",
                "Megatron exited after 8.0 minutes",
            ),
            (
                "[exiting program at iteration 2] datetime: 2026-05-11",
                "Megatron exited at iteration 2",
            ),
        ],
    )
    def test_its_own_limit_makes_it_complete_and_says_what_was_cut(self, said, reason):
        # It leaves by sys.exit(), before it prints that the training is done.
        run = single([*lines(steps(300.0, 100.0), Setup(planned=9)), said])
        assert (run.status, run.status_reason) == ("complete", f"2 of max_steps=9 steps: {reason}")

    def test_a_log_that_stops_is_incomplete(self):
        run = single(lines(steps(300.0, 100.0), Setup(planned=9)))
        assert (run.status, "2 of 9" in run.status_reason) == ("incomplete", True)

    def test_a_crash_on_the_way_is_failed_with_its_cause(self):
        run = single(
            [*lines(steps(300.0, 100.0), Setup(planned=9)), "[rank3]: RuntimeError: the data ended"]
        )
        assert (run.status, run.ending.kind) == ("failed", "failed")
        assert "RuntimeError: the data ended" in run.status_reason

    def test_an_error_that_was_survived_is_no_cause(self):
        run = single(["ValueError: ignored", *lines(steps(300.0, 100.0), Setup(planned=9))])
        assert "ValueError" not in run.status_reason

    def test_a_training_that_never_stepped_failed(self):
        run = single(
            [*dump(Setup()), "FileNotFoundError: [Errno 2] No such file or directory: 'data.bin'"]
        )
        assert run.status == "failed"
        assert "data.bin" in run.status_reason

    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            ("bash: line 1: torchrun: command not found", "the launcher exited with code 127"),
            (
                "[2026-05-08 02:14:02] [NODE-0(gpu-40)] [ERROR] [direct] no such config: x.yaml",
                "no such config: x.yaml",
            ),
            ("ModuleNotFoundError: No module named 'yaml'", "No module named 'yaml'"),
        ],
    )
    def test_a_launch_that_came_to_nothing_failed(self, error, reason):
        started = (
            "[NODE-0(gpu-40)] [INFO] EXP:"
            " examples/megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml"
        )
        run = single(
            [started, error, "[NODE-0(gpu-40)] [INFO] primus launcher exited with code 127"]
        )
        assert (run.framework, run.model, run.status) == ("primus", "llama", "failed")
        assert reason in run.status_reason
        with pytest.raises(UnreadableError):
            runs_of([started, "[NODE-0(gpu-40)] [INFO] primus launcher exited with code 0"])

    def test_hidden_iteration_lines_are_not_a_failure(self):
        run = single([*dump(Setup()), "[after training is done] datetime: 2026-05-11 02:18:07"])
        assert run.status == "incomplete"
        assert "stderr_sink_level" in run.status_reason

    def test_a_crash_after_the_last_iteration_is_said(self):
        run = single(
            [
                *lines(steps(300.0, 100.0), Setup(planned=2)),
                "OSError: disk full",
                "exited with code 1",
            ]
        )
        assert run.status == "complete"
        assert said(run, "disk full")


class TestFigures:
    def test_nan_skipped_and_missing_losses_keep_their_iteration(self):
        setup = Setup("upstream", planned=4)
        written = lines(
            [
                Step(1, 900.0),
                Step(2, 500.0, loss=float("nan")),
                Step(3, 500.0, loss=None, skipped=1),
                Step(4, 500.0),
            ],
            setup,
        )
        run = single(written)
        assert run.loss_values == (2.5, None, None, 2.5)
        assert "step 2" in said(run, "not a number")
        assert "iteration 3" in said(run, "skipped")

    def test_zero_learning_rate_and_gradient_norm_are_figures(self):
        run = single(
            lines([Step(1, 900.0, learning_rate=0.0, grad_norm=0.0)], Setup("legacy", planned=1))
        )
        assert (run.learning_rates, run.grad_norms) == ((0.0,), (0.0,))

    def test_rates_that_contradict_the_setup_are_said(self):
        setup = Setup("legacy", planned=3)
        written = lines(steps(3000.0, 500.0, 500.0), setup)
        assert not said(single(dump(setup) + written), "one of them is wrong")
        other = dump(Setup("legacy", planned=3, sequence=2048))
        assert "3 of 3" in said(single(other + written), "one of them is wrong")

    def test_a_sequence_length_that_nobody_states_stays_open_with_a_hint(self):
        written = lines(steps(3000.0, 500.0, 500.0), Setup("legacy", planned=3))
        run = single([prefixed(each, "primus") for each in written])
        assert run.training_config.sequence_length is None
        assert run.training_config.num_gpus == 8
        assert "4096 tokens" in said(run, "sequence length")

    def test_a_batch_that_grows_is_left_open(self):
        setup = Setup("legacy", planned=2)
        run = single(lines([Step(1, 900.0, batch=16), Step(2, 900.0, batch=32)], setup))
        assert run.training_config.global_batch_size is None
        assert run.optimizer.learning_rate is None or run.optimizer.learning_rate >= 0
        assert "16 to 32" in said(run, "changes")

    def test_only_evidence_makes_it_an_amd_gpu(self):
        assert single(lines(steps(300.0), Setup("upstream", planned=1))).platform is None
        assert single(lines(steps(300.0), Setup("upstream", planned=1))).framework == "megatron"
        run = single(lines(steps(300.0), Setup("legacy", planned=1)))
        assert (run.platform, run.framework, run.gpu_info.software_stack) == (
            "amd",
            "primus",
            "rocm",
        )
        assert run.gpu_info.total_memory_gb == pytest.approx(206.137, abs=1e-3)

    def test_a_stated_offset_makes_a_timestamp(self):
        written = [
            prefixed(each, "docker") for each in lines(steps(300.0, 100.0), Setup(planned=2))
        ]
        assert single(written).timestamp == "2026-05-11T02:18:01.123456+00:00"
        assert said(single(lines(steps(300.0), Setup(planned=1))), "no time zone")


class TestSetup:
    @pytest.mark.parametrize(
        ("arguments", "precision"),
        [
            (["bf16 ... True", "fp8 ... hybrid", "fp8_recipe ... delayed"], "fp8"),
            (["bf16 ... True", "fp8 ... e4m3", "fp8_recipe ... mxfp8"], "mxfp8"),
            (["bf16 ... True", "fp8 ... None", "fp4 ... e2m1", "fp4_recipe ... mxfp4"], "mxfp4"),
            (["bf16 ... True", "fp16 ... False", "fp8 ... None"], "bf16"),
            (["bf16 ... False", "fp16 ... True"], "fp16"),
            (["bf16 ... False", "fp16 ... False"], "fp32"),
            ([], None),
        ],
    )
    def test_precision(self, arguments, precision):
        run = single([*(f"  {each}" for each in arguments), *lines(steps(300.0), Setup(planned=1))])
        assert run.training_config.precision == precision

    @pytest.mark.parametrize(
        ("arguments", "recomputation"),
        [
            (["recompute_granularity .... None"], "none"),
            (["recompute_granularity .... selective"], "selective"),
            (["recompute_granularity .... full", "recompute_method .... uniform"], "full"),
            (
                [
                    "recompute_granularity .... full",
                    "recompute_method .... block",
                    "recompute_num_layers .... 0",
                ],
                "none",
            ),
            ([], None),
        ],
    )
    def test_recomputation(self, arguments, recomputation):
        run = single([*(f"  {each}" for each in arguments), *lines(steps(300.0), Setup(planned=1))])
        assert run.training_config.recomputation == recomputation

    def test_both_forms_of_the_dump_are_read_and_the_later_holds(self):
        first = [
            "  seq_length         : 2048 (int)",
            "  micro_batch_size   : 4 (int)",
            "  fp8      : None (NoneType)",
        ]
        run = single(
            [*first, "  seq_length ........... 4096", *lines(steps(300.0), Setup(planned=1))]
        )
        assert (run.training_config.sequence_length, run.training_config.micro_batch_size) == (
            4096,
            4,
        )

    @pytest.mark.parametrize(
        ("frequency", "dense"),
        [("1", 0), ("[0, 1, 1, 1]", 1), ("([0]*1+[1]*3)", 1), ("2", 2), ("None", 0)],
    )
    def test_layers_without_experts(self, frequency, dense):
        experts = [
            "  num_experts ..... 8",
            "  moe_router_topk ..... 2",
            f"  moe_layer_freq ..... {frequency}",
        ]
        run = single([*dump(Setup(planned=1)), *experts, *lines(steps(300.0), Setup(planned=1))])
        assert run.model_config.num_dense_layers == dense
        assert run.model_config.expert_ffn_hidden_size == 11008

    def test_a_special_attention_leaves_the_widths_out(self):
        written = [
            *dump(Setup(planned=1)),
            "  compress_ratios ..... [0, 4]",
            *lines(steps(300.0), Setup(planned=1)),
        ]
        run = single(written)
        assert run.model_config.ffn_hidden_size is None
        assert said(run, "special attention")

    def test_other_lines_with_dots_state_nothing(self):
        run = single(
            [
                "building GPT model ...",
                "  num_layers .... four",
                *lines(steps(300.0), Setup(planned=1)),
            ]
        )
        assert run.model is None
        assert run.model_config.num_layers is None

    @pytest.mark.parametrize("hostile", ["9" * 5000, "-1", "0", "nan", "1e400", "True"])
    def test_hostile_numbers_are_unknown(self, hostile):
        names = (
            "num_layers",
            "seq_length",
            "lr",
            "global_batch_size",
            "micro_batch_size",
            "data_parallel_size",
            "seed",
        )
        written = [f"  {name} .... {hostile}" for name in names]
        without_batch = [
            each.replace("global batch size", "batch")
            for each in lines(steps(300.0), Setup(planned=1))
        ]
        run = single([*dump(Setup(planned=1)), *written, *without_batch])
        assert run.training_config.global_batch_size is None
        assert run.optimizer.learning_rate is None or run.optimizer.learning_rate >= 0
        assert run.model_config.num_layers is None
        assert run.training_config.sequence_length is None

    def test_a_name_without_a_shape_is_the_model_with_a_doubt(self):
        written = ["EXP: examples/megatron/configs/MI300X/qwen2.5_7B-BF16-pretrain.yaml"]
        run = single([*written, *lines(steps(300.0), Setup(planned=1))])
        assert (run.model, run.scale) == ("qwen", None)
        assert said(run, "shape isn't stated")


@pytest.mark.parametrize(
    "unit",
    [
        "a : b ",
        "EXP:",
        "a.",
        "[",
        "\x1b[",
        "\x1b]",
        "iteration ",
        "iteration 1/2 | ",
        " ",
        "2026-05-11 ",
        "x .. ",
        "(1, ",
    ],
)
def test_long_hostile_lines_take_no_longer_than_their_length(unit):
    # A pattern that backtracks over a line would need hours for this one.
    hostile = unit * (800_000 // len(unit)) + "elapsed time per iteration (ms): 5 | Error (int)\n"
    content = (hostile + "\n".join(lines(steps(3000.0, 500.0), Setup(planned=2))) + "\n").encode()
    assert any(run.steps[-1:] == (2,) for run in read.read(text.lines([content]), "hostile.log"))


def of_nodes(prefix: str, *shares: float, loss: float | None = 2.5) -> list[str]:
    """A log of several nodes, each of whose last ranks prints its own time."""
    times = [9000.0, *[3200.0 + 3 * index for index in range(11)]]
    nodes = [
        lines(
            [Step(each.iteration, each.ms * share, loss) for each in steps(*times)],
            Setup("upstream"),
            stamps=False,
        )
        for share in shares
    ]
    return [
        prefix.format(node) + each
        for printed in zip(*nodes, strict=True)
        for node, each in enumerate(printed)
    ]


@pytest.mark.parametrize("prefix", ["node-{}: [default7]: ", "{}: ", "[{}]: ", ""])
@pytest.mark.parametrize("shares", [(1, 1.002, 0.998, 1.001), (1, 1.049)])
def test_nodes_whose_times_differ_a_little_are_one_training(prefix, shares):
    run = single(of_nodes(prefix, *shares))
    assert (run.steps, run.step_times[:2]) == (tuple(range(1, 13)), (9.0, 3.2))
    assert not said(run, "restarted")
    assert not said(run, "printed twice")


def test_nodes_of_a_training_without_a_loss_are_one_training():
    run = single(of_nodes("{}: ", 1, 1.01, loss=None))
    assert (len(run.steps), run.step_times[0]) == (12, 9.0)


def test_another_time_of_the_same_iteration_is_another_attempt():
    """Just above what nodes differ by; and of another loss at the same time."""
    assert len(runs_of(of_nodes("", 1, 1.06))) == 2
    first, second = (lines([Step(1, 3200.0, 2.5), Step(2, 3200.0, loss)], Setup("upstream"), stamps=False)
                     for loss in (2.4, 2.3))  # fmt: skip
    assert said(
        single([*first, second[1].replace("3200.0", "3201.0")]),
        "restarted on line 3 from iteration 2",
    )


def dumped(**values: object) -> Run:
    """A training of GPT-OSS' attention whose dump has these arguments, too."""
    shape = {
        "num_layers": 24, "hidden_size": 2880, "num_attention_heads": 64, "group_query_attention": True,
        "num_query_groups": 8, "kv_channels": 64, "ffn_hidden_size": 2880, "swiglu": True, "padded_vocab_size": 201088,
        "world_size": 8, "global_batch_size": 16, "seq_length": 8192, "train_iters": 4,
    }  # fmt: skip
    arguments = [
        f"  {name} {'.' * (48 - len(name))} {value}" for name, value in {**shape, **values}.items()
    ]
    return single(
        [*arguments, *lines(steps(2000.0, 1000.0, 1000.0, 1000.0), Setup("upstream", planned=4))]
    )


class TestLayersOfSeveralKinds:
    @pytest.mark.parametrize(
        ("arguments", "window", "unbounded"),
        [
            ({"window_size": "(127, 0)", "window_attn_skip_freq": 2}, 127, 12),
            ({"window_size": "(4095, 0)", "window_attn_skip_freq": 6}, 4095, 4),
            (
                {"window_size": "(127, 0)", "window_attn_skip_freq": "[1, 1, 1, 0, 1, 1, 1, 0]"},
                127,
                2,
            ),
            ({"window_size": "(127, 0)", "window_attn_skip_freq": "([1]*22+[0]*2)"}, 127, 2),
            ({"window_size": "(127, 0)", "window_attn_skip_freq": None}, 127, 0),
            ({"window_size": "(127, 0)"}, 127, 0),
            ({"window_size": None, "window_attn_skip_freq": 2}, None, None),
        ],
    )
    def test_the_layers_without_a_window_are_counted(self, arguments, window, unbounded):
        shape = dumped(**arguments).model_config
        assert (shape.sliding_window, shape.full_attention_layers) == (window, unbounded)
        assert shape.ffn_hidden_size == 2880

    @pytest.mark.parametrize("pattern", ["0", "every other", "True"])
    def test_windows_in_an_unknown_order_leave_no_flops(self, pattern):
        run = dumped(window_size="(127, 0)", window_attn_skip_freq=pattern)
        assert run.model_config.ffn_hidden_size is None
        assert said(run, "windows in an unknown order of layers")

    def test_flops_are_those_of_both_kinds(self):
        run = dumped(
            window_size="(127, 0)",
            window_attn_skip_freq=2,
            num_experts=32,
            moe_router_topk=4,
            moe_ffn_hidden_size=2880,
        )
        per_token = flops.flops_per_token(run.model_config, 8192)
        assert per_token * 16 * 8192 / 8 / 1e12 == pytest.approx(395.4, abs=0.05)


class TestOtherEntryScripts:
    @pytest.mark.parametrize(
        ("encoder", "decoder"),
        # An image's patches, those of several tiles, and T5's source.
        [(576, 4096), (1024, 8192), (512, 128)],
    )
    def test_the_decoders_sequence_counts(self, encoder, decoder):
        run = dumped(seq_length=encoder, encoder_seq_length=encoder, decoder_seq_length=decoder)
        assert run.training_config.sequence_length == decoder
        rate = summarize(run).performance.tokens_per_second_per_gpu
        assert rate == pytest.approx(16 * decoder / 8, rel=0.4)
        # Nobody knows how much the encoder computes.
        assert flops.flops_per_token(run.model_config, decoder) is None
        assert said(
            run, f"seq_length {encoder} is the encoder's, decoder_seq_length {decoder} counts"
        )

    @pytest.mark.parametrize(
        "others", [{}, {"encoder_seq_length": 8192, "decoder_seq_length": None}]
    )
    def test_a_decoder_alone_has_its_usual_length(self, others):
        run = dumped(**others)
        assert run.training_config.sequence_length == 8192
        assert flops.flops_per_token(run.model_config, 8192)


def plain_line(number, planned=20, batch=32, samples=None):
    return (
        f" iteration {number:8d}/{planned:8d} | consumed samples: {samples or number * batch:12d} |"
        f" elapsed time per iteration (ms): 2000.0 | global batch size: {batch:5d} | lm loss:"
        " 2.5E+00 |"
    )


@pytest.mark.parametrize(
    ("last", "changes", "counts"),
    [
        (10, {}, [1, 1, 1]),
        # A training goes on with a longer plan, and with another batch, as long as its plan isn't
        # over.
        (10, {"planned": 40}, [1, 1, 1]),
        (10, {"batch": 64, "samples": 960}, [1, 1, 1]),
        (10, {"planned": 40, "batch": 64, "samples": 9999}, [1, 2, 2]),
        (20, {}, [1, 1, 1]),
        (20, {"planned": 40}, [1, 2, 2]),
        (20, {"planned": 40, "batch": 64, "samples": 9999}, [1, 2, 2]),
    ],
)
def test_later_iterations_are_of_another_training_where_enough_shows_it(last, changes, counts):
    """Of iterations that go on, leave one out, and leave four out."""
    before = [plain_line(number) for number in range(1, last + 1)]
    found = []
    for first in (last + 1, last + 2, last + 5):
        lines = [
            *before,
            *(plain_line(number, **changes) for number in range(first, first + 5)),
            "",
        ]
        found.append(len(read.parse_chunks(["\n".join(lines).encode()], "train.log")))
    assert found == counts
