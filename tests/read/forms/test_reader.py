"""Trainings of a text by the form of its lines: where one ends, and what is no longer of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tprimat import read
from tprimat.read.forms.asking import FormError
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.results.run import Run


def logs_of(lines: Sequence[str], *, as_read: bool = False) -> list[ParsedLog]:
    """The trainings of a log of these lines."""
    content = "".join(f"{line}\n" for line in lines).encode()
    return read.parse_chunks([content], "made.log", lambda: [content], as_read=as_read)


def run_of(lines: Sequence[str], *, as_read: bool = False) -> Run:
    (log,) = logs_of(lines, as_read=as_read)
    return log.run()


def steps(count: int, begin: int = 1) -> list[str]:
    return [
        f"it {step} nll 2.{step % 10} took 1{step % 7}0 ms" for step in range(begin, begin + count)
    ]


@pytest.mark.parametrize(("others", "is_told"), [(4, False), (5, True)])
def test_a_change_of_form_is_told(others, is_told):
    changed = [f"[train] at={step}; train_loss: 2.{step}" for step in range(others)]
    codes = [note.code for note in run_of([*steps(20), *changed]).notes]
    assert ("form-changes" in codes) == is_told


@pytest.mark.parametrize(("before", "behind", "told"), [(30, 29, (31, 59)), (5, 54, (1, 5))])
def test_lines_with_another_counter_are_another_form(before, behind, told):
    own = [f"step {n}, loss 3.{n}, step time 0.50{n % 3} s" for n in range(1, before + 1)]
    other = [f"iter={n} loss=3.{n} iter_time=5.0{n % 3}s" for n in range(1, behind + 1)]
    run = run_of([*own, *other])
    (note,) = [note for note in run.notes if note.code == "form-changes"]
    assert (note.fields["line"], note.fields["last"]) == told
    assert len(run.steps) == max(before, behind)


def test_a_line_with_another_counter_beside_each_record_is_of_its_step():
    lines = [
        line
        for n in range(1, 13)
        for line in (f"step {n} took 50{n % 3} ms", f"iter={n} loss=3.{n}")
    ]
    run = run_of(lines)
    assert "form-changes" not in [note.code for note in run.notes]
    assert run.loss_values[1] == 3.2


def test_another_number_of_planned_steps_is_another_training():
    lines = [
        f"{step}/{total} batches | loss 2.{step % 7} | 1{step}0 ms/batch"
        for total in (90, 80)
        for step in (10, 20, 30)
    ]
    first, second = logs_of(lines)
    assert (first.stated["max_steps"].value, second.stated["max_steps"].value) == (90, 80)


def test_a_bar_changes_between_its_two_rates():
    rates = ("1.25s/it", "1.00it/s", "1.25it/s", "1.25it/s")
    bars = [
        f" {step}/90 [00:0{step}<01:30,  {rate}, loss=2.{step}]"
        for step, rate in enumerate(rates, 1)
    ]
    assert run_of(bars, as_read=True).step_times == (1.25, 1.0, 0.8, 0.8)


def test_whole_epochs_of_bars_add_up():
    bars = [
        f"100%|##| 352/352 [35:1{epoch}<00:00,  6.00s/it, loss=0.{epoch}]" for epoch in (4, 3, 2)
    ]
    assert run_of(bars).steps == (352, 704, 1056)


def test_the_loss_of_an_average_counts_where_no_other_is_printed():
    lines = [f"step {step} avg loss 2.{step} took 1{step}0 ms" for step in (1, 2, 3)]
    assert run_of(lines).loss_values == (2.1, 2.2, 2.3)
    lines = [f"{line} loss 3.{step}" for step, line in enumerate(lines)]
    assert run_of(lines).loss_values == (3.0, 3.1, 3.2)


def test_a_mean_of_times_is_asked_where_no_clock_confirms_it():
    lines = [f"step {step} loss 2.{step} avg step time: 1.{step} s" for step in (1, 2, 3)]
    codes = [note.code for note in run_of(lines, as_read=True).notes]
    assert "form-average-assumed" in codes


@pytest.mark.parametrize(("own", "dialect"), [(9, "litgpt"), (10, "text (by its form)")])
def test_a_reader_that_knows_two_lines_of_many_does_not_read_the_log(own, dialect):
    known = [
        f"Epoch 1 | iter {step} step {step} | loss train: 1.6{step}, val: n/a | iter time: 548.72 ms (step)"
        for step in (1, 2)
    ]
    logs = logs_of([*known, *steps(own)])
    assert {log.run().source.dialect for log in logs} == {dialect}


@pytest.mark.parametrize(("same", "gpus"), [(9, 4), (8, None)])
def test_gpus_follow_from_the_rates_of_nine_lines_of_ten(same, gpus):
    every = ["400.0K"] * same + ["300.0K"] * (10 - same)
    lines = [
        f"step {step} | loss 2.{step} | 1{step % 7}0 ms | tokens/s: {rate} | tokens/s/gpu: 100.0K"
        for step, rate in enumerate(every)
    ]
    assert run_of(lines).num_gpus == gpus


def test_the_last_line_may_say_how_long_all_took():
    lines = [f"step {step} | loss 2.5 | time 50.0 s" for step in range(100, 600, 100)]
    assert run_of([*lines, "test took 3.0 s"], as_read=True).step_times[0] == 50.0
    assert run_of([*lines, "training took 00:05:00"], as_read=True).step_times[0] == 0.5


@pytest.mark.parametrize(
    ("line", "is_whole"),
    [
        ("Saving the checkpoint took 1.2 s", False),
        ("generation took 1.2 s", False),
        ("training completed at 00:02:03", False),
        ("Epoch 1 finished in 1.2 s", False),
        ("total time for saving: 1.2 s", False),
        ("training finished in 00:05:00", True),
        ("Training completed in 300.0 s", True),
        ("total training time: 5.0 minutes", True),
        ("train_runtime = 300.0", True),
        ("Total time: 300 s", True),
        ("wall time: 300.0 s", True),
    ],
)
def test_only_the_time_of_the_whole_training_bounds_its_steps(line, is_whole):
    lines = [f"step {step} | loss 2.5 | time 50.{step % 3} s" for step in range(100, 600, 100)]
    run = run_of([*lines, line], as_read=True)
    assert ("form-window-assumed" in [note.code for note in run.notes]) == is_whole


def test_a_step_behind_a_heading_that_does_not_go_on_is_another_trainings():
    first, second = steps(4, 1094), steps(4, 1001)
    assert len(logs_of([*first, "```", "", "```", *second])) == 2
    assert len(logs_of([*first, "```", *steps(4, 1098)])) == 1
    assert len(logs_of([*first, *steps(4, 1101)])) == 1


def test_an_epoch_that_falls_is_another_trainings():
    lines = [
        f"epoch {epoch} iter {step}/30 loss 2.{step} took 1{step}0 ms/iter"
        for epoch in (1, 2, 1, 2)
        for step in (10, 20, 30)
    ]
    first, second = logs_of(lines)
    assert first.run().steps == second.run().steps == (10, 20, 30, 40, 50, 60)


def epochs(*headings: str) -> list[str]:
    return [
        line
        for epoch, heading in enumerate(headings)
        for line in (
            heading,
            *(f"batch {n}/10 loss {9 - epoch}.{n} time 0.5{n % 3} s" for n in range(1, 11)),
        )
    ]


@pytest.mark.parametrize(
    ("headings", "counts"),
    [
        (("Epoch 1/3", "Epoch 2/3", "Epoch 3/3"), [30]),
        (("Epoch 1", "Epoch 2", "Epoch 3"), [30]),
        (("Epoch 1/2", "Epoch 2/2", "Epoch 1/2", "Epoch 2/2"), [20, 20]),
        (("Epoch 1/1", "Epoch 1/1", "Epoch 1/1"), [10, 10, 10]),
        (("Epoch 1/3", "Epoch 2/4", "Epoch 3/5"), [10, 10, 10]),
    ],
)
def test_epochs_below_headings_are_one_training(headings, counts):
    assert [len(log.run().steps) for log in logs_of(epochs(*headings))] == counts


def test_what_was_cut_out_has_no_time():
    lines = [f"step {step} loss 2.5 took 100 ms/step" for step in (10, 20, 30, 9000, 9010)]
    assert run_of(lines).window_steps == (1, 10, 10, 10, 10)


def test_a_number_that_rises_like_the_steps_is_asked_as_the_time_since_the_start():
    lines = [f"[{step} | {step * 2.4 + 4.7:.2f}] loss=3.{step}" for step in (10, 20, 30, 40, 50)]
    run = run_of(lines, as_read=True)
    assert run.step_times[1] == pytest.approx(2.4)
    assert "form-elapsed-assumed" in [note.code for note in run.notes]


@pytest.mark.parametrize(
    ("rate", "tokens"),
    [("mtps: 0.65536", 65_536), ("tokens/s: 655.36K", 65_536), ("tps: 655360", 65_536)],
)
def test_the_tokens_of_a_step_follow_from_its_time_and_rate(rate, tokens):
    run = run_of([f"step {step} loss 2.{step} took 100 ms {rate}" for step in (1, 2, 3)])
    assert run.native_metrics["tokens_per_step"] == pytest.approx((tokens,) * 3)


@pytest.mark.parametrize(
    ("sizes", "is_told"),
    [("global batch size 32", True), ("batch size per device 32", False), ("batch size 32", False)],
)
def test_a_batch_that_contradicts_time_and_rate_is_told(sizes, is_told):
    lines = [
        f"step {step} loss 2.{step} step time 2.0 s, samples/s 64.0, {sizes}" for step in range(12)
    ]
    if not is_told:
        assert run_of(lines).step_times[1] == 2.0
        return
    with pytest.raises(FormError) as caught:
        run_of(lines)
    assert "form-clocks-contradict" in [note.code for note in caught.value.notes]


@pytest.mark.parametrize("time", ["0.0", "-0.5", "nan", "inf"])
def test_times_that_can_not_be_are_lacking(time):
    lines = [f"step {step} loss 2.{step} step time {time} s" for step in range(1, 13)]
    with pytest.raises(FormError) as caught:
        run_of(lines)
    assert "form-lacks-time" in [note.code for note in caught.value.notes]
