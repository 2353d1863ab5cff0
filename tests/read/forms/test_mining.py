"""The line form that recurs in a text, and the number in it that counts the steps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tprimat.read.forms import mining
from tprimat.read.forms.mining import Form, Miner
from tprimat.read.parsing.text import Line


def form_of(lines: Sequence[str]) -> Form | None:
    """The form of a text of these lines."""
    return mined(lines).form()


def mined(lines: Sequence[str]) -> Miner:
    """The miner that a text of these lines was fed to."""
    miner = Miner()
    for number, line in enumerate(lines, 1):
        miner.feed(Line(number, line, True))
    return miner


def counter_of(lines: Sequence[str]) -> str | None:
    """The key of the number that counts the steps; None without a form."""
    form = form_of(lines)
    return None if form is None else form.counter


def records(steps: Sequence[int], line: str = "step {} loss 2.{} 120 ms") -> list[str]:
    """A line for each step."""
    return [line.format(step, index) for index, step in enumerate(steps, 1)]


def test_a_form_names_its_counter_its_values_and_a_line():
    form = form_of(["start at 8 nodes", *records([10, 20, 30]), "done in 5 minutes"])
    assert (form.counter, form.is_stated, form.counter_label) == ("step", True, "“step”")
    assert form.labels == {"step": "step", "loss": "loss", "seconds": ""}
    assert form.example == (2, "step 10 loss 2.1 120 ms")
    assert (form.micro, form.epoch, form.has_bars, form.has_rates) == (None, None, False, False)


@pytest.mark.parametrize(("count", "counter"), [(1, None), (2, "step")])
def test_two_lines_make_a_form(count, counter):
    assert counter_of(records(range(1, count + 1))) == counter


@pytest.mark.parametrize(("count", "counter"), [(2, None), (3, "")])
def test_three_lines_that_nothing_counts_make_a_form(count, counter):
    assert counter_of([f"loss 2.{index} 120 ms" for index in range(count)]) == counter


@pytest.mark.parametrize(
    ("lines", "is_form"),
    [
        # Other work counts, too: without a loss, a norm or a learning rate a word must say it.
        (records([1, 2, 3], "step {} of 3 took 1.{} s"), False),
        (records([1, 2, 3], "training step {} of 3 took 1.{} s"), True),
        (records([1, 2, 3], "step {} lr 1e-{}"), True),
        (records([1, 2, 3], "step {} MFU 41.{}"), True),
        (records([1, 2, 3], "step {} memory 40.{} GB"), False),
        (records([1, 2, 3], "eval step {} loss 2.{}"), False),
    ],
)
def test_a_form_is_of_a_training(lines, is_form):
    assert (form_of(lines) is not None) == is_form


class TestStatedCounters:
    """A label says that a number counts steps."""

    @pytest.mark.parametrize(
        ("line", "counter"),
        [
            ("iter {0} step {0} loss 2.{1}", "step"),
            ("iter {0} update {0} loss 2.{1}", "update"),
            ("step {0} global_step {0} loss 2.{1}", "global step"),
            ("step {0} optimizer step {0} loss 2.{1}", "optimizer step"),
            ("batch {0} iter {0} loss 2.{1}", "iter"),
        ],
    )
    def test_the_clearest_label_counts(self, line, counter):
        assert counter_of(records([1, 2, 3], line)) == counter

    def test_the_number_that_stands_still_while_the_epoch_rises_is_a_total(self):
        lines = [f"Epoch {n} step 500 iter {9 * n} loss 2.{n}" for n in range(1, 6)]
        # It must rise at all to be considered: another part of the log has 501.
        lines.append("Epoch 9 step 501 iter 99 loss 2.9")
        assert counter_of(lines) == "iter"

    @pytest.mark.parametrize(("with_step", "counter"), [(29, ""), (30, "step")])
    def test_a_counter_is_in_three_tenths_of_the_lines(self, with_step, counter):
        lines = [f"loss 2.{n} 120 ms" for n in range(100)]
        lines[:with_step] = records(range(with_step))
        assert mining.SHARE == 0.3
        assert counter_of(lines) == counter

    @pytest.mark.parametrize(("beside", "counter"), [(2, "step"), (3, "")])
    def test_a_header_has_the_step_and_no_values(self, beside, counter):
        """Of ten lines with a step, so many have a loss; twenty others have one, too."""
        lines = []
        for step in range(1, 11):
            header = f"step {step}"
            lines.append(f"{header} loss 2.1" if step <= beside else header)
            lines += [f"loss 2.{step}", f"loss 3.{step}"]
        assert counter_of(lines) == counter

    @pytest.mark.parametrize(("falls", "counter"), [(2, "step"), (3, "iter")])
    def test_a_counter_that_begins_again_comes_after_one_that_does_not(self, falls, counter):
        steps = list(range(100))
        for place in range(falls):
            steps[20 * place + 10] = 0
        # 12 after 0 is a rise, 0 after 9 a fall.
        lines = [f"iter {n} step {step} loss 2.{n}" for n, step in enumerate(steps)]
        assert counter_of(lines) == counter


class TestCountersByBehavior:
    """No label says that a number counts steps."""

    def test_a_whole_number_that_rises_by_one_stride(self):
        form = form_of(records([490, 500, 510], "{} | loss 4.{} | 7354.76ms"))
        assert (form.counter, form.is_stated) == ("#0", False)
        assert form.counter_label == "number 1 of the line"

    def test_the_count_behind_an_epoch_is_stated(self):
        form = form_of(records([10, 20, 30], "Epoch [1][{}/196] loss 4.{}"))
        assert (form.counter, form.is_stated, form.has_total) == ("#1", True, True)

    @pytest.mark.parametrize(("beside", "counter"), [(6, ""), (7, "#0")])
    def test_it_is_in_seven_tenths_of_the_lines(self, beside, counter):
        lines = records(range(10, 10 + beside), "{} | loss 4.{} | 80ms")
        lines += [f"| loss 4.{n} | 80ms" for n in range(10 - beside)]
        # As a list of records it needs seven tenths of lines with the same numbers, too.
        lines += ["| loss 4.5 | 80ms"] * (14 if not counter else 0)
        assert mining.STEADY == 0.7
        assert counter_of(lines) == counter

    @pytest.mark.parametrize(("even", "counter"), [(6, ""), (7, "#0")])
    def test_seven_tenths_of_its_rises_are_by_one_stride(self, even, counter):
        steps = [0]
        for place in range(10):
            steps.append(steps[-1] + (1 if place < even else 2 + place))
        assert counter_of(records(steps, "{} | loss 4.{} | 80ms")) == counter

    @pytest.mark.parametrize(
        ("steps", "counter"),
        [
            # Five rises each, and two or three falls.
            ([1, 2, 1, 2, 1, 2, 3, 4], "#0"),
            ([1, 2, 1, 2, 1, 2, 1, 2, 3], ""),
        ],
    )
    def test_it_falls_half_as_often_as_it_rises(self, steps, counter):
        assert counter_of(records(steps, "{} | loss 4.{} | 80ms")) == counter

    @pytest.mark.parametrize("number", ["4.5{}", "-{}", "{} ms", "lr {}"])
    def test_what_is_no_count_counts_nothing(self, number):
        lines = records([1, 2, 3], f"{number} | loss 4.{{}} | 80ms | 9.3 GB")
        assert counter_of(lines) == ""


class TestShortTexts:
    """Prose quotes figures of trainings, too."""

    @pytest.mark.parametrize(("words", "is_form"), [(5, True), (6, False)])
    def test_a_line_of_four_has_three_words_a_number_at_most(self, words, is_form):
        # "step" and "loss" are words; of two numbers there may be six.
        line = " ".join(["step {} loss 2.{}", *["word"] * (words - 1)])
        assert mining.TERSE == 3
        assert (form_of(records([1, 2, 3, 4], line)) is not None) == is_form

    @pytest.mark.parametrize(("count", "is_form"), [(4, False), (5, True)])
    def test_five_lines_of_one_form_may_have_many_words(self, count, is_form):
        line = "step {} loss 2.{} " + "many more words than numbers stand in it"
        assert mining.SHORT == 5
        assert (form_of(records(range(1, count + 1), line)) is not None) == is_form

    def test_a_list_that_nothing_counts_is_terse_at_any_length(self):
        line = "loss 2.{} " + "and many more words than numbers stand in it"
        assert form_of([line.format(n) for n in range(10)]) is None

    @pytest.mark.parametrize(("alike", "is_form"), [(6, False), (7, True)])
    def test_seven_tenths_of_a_list_have_the_same_numbers(self, alike, is_form):
        lines = [f"loss 2.{n} 120 ms" for n in range(alike)]
        lines += [f"loss 3.{n} 120 ms weight {n} of 9.5" for n in range(10 - alike)]
        assert (form_of(lines) is not None) == is_form

    def test_padding_makes_no_other_line(self):
        lines = ["loss   9.5 | 120 ms", "loss  10.5 |  80 ms", "loss 100.5 |   9 ms"]
        assert counter_of(lines) == ""


class TestMicroBatches:
    """Two counters in a line, of which one runs ahead."""

    @staticmethod
    def lines(steps: Sequence[int], line: str = "iter {} step {} loss 2.1, 80 ms") -> list[str]:
        return [line.format(index, step) for index, step in enumerate(steps, 1)]

    def test_each_step_has_as_many_lines(self):
        form = form_of(self.lines([1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]))
        assert (form.counter, form.micro, form.micro_batches) == ("step", "iter", 4)
        assert not form.closes

    def test_a_line_that_says_more_closes_the_step(self):
        steps = [0, 1, 1, 2, 2, 3, 3, 4]  # eight lines: their seven rises are 1.75 times four
        lines = self.lines(steps)
        for place in range(1, len(lines), 2):
            lines[place] += " (optimizer.step)"
        assert form_of(lines).closes

    @pytest.mark.parametrize(
        ("steps", "micro"),
        [
            # 21 lines, and 12 or 11 rises of the other: 1.75 and 1.9 times as many.
            ([*range(1, 6), *(n for n in range(6, 14) for _ in range(2))], None),
            ([*range(1, 4), *(n for n in range(4, 13) for _ in range(2))], "iter"),
        ],
    )
    def test_it_rises_nearly_twice_as_often(self, steps, micro):
        assert len(steps) == 21
        assert form_of(self.lines(steps)).micro == micro

    @pytest.mark.parametrize(("beside", "micro"), [(13, None), (14, "iter")])
    def test_it_is_in_seven_tenths_of_the_lines_of_the_other(self, beside, micro):
        lines = self.lines([1 + n // 4 for n in range(20)])
        lines[beside:] = [line.partition(" ")[2].partition(" ")[2] for line in lines[beside:]]
        assert form_of(lines).micro == micro


class TestEpochs:
    """A counter that begins again with each epoch."""

    def test_the_epoch_is_found(self):
        lines = [f"epoch {n} step {k}/5 loss 2.{k}" for n in (1, 2, 3) for k in range(1, 6)]
        form = form_of(lines)
        assert (form.counter, form.epoch, form.has_total) == ("step", "epoch", True)

    @pytest.mark.parametrize(("late", "epoch"), [(3, "epoch"), (4, None)])
    def test_it_rises_where_seven_tenths_of_the_falls_are(self, late, epoch):
        lines = []
        shown = 1
        for n in range(1, 12):
            for k in range(1, 9):
                lines.append(f"epoch {shown} step {k} loss 2.{k}")
            # Of ten falls so many are restarts within an epoch.
            shown += n > late
        assert form_of(lines).epoch == epoch

    def test_without_a_fall_there_is_none(self):
        lines = [f"epoch {k // 5} step {k} loss 2.{k}" for k in range(15)]
        assert form_of(lines).epoch is None

    @pytest.mark.parametrize(("epochs", "counts_epochs"), [(6, False), (7, True)])
    def test_lines_of_epochs(self, epochs, counts_epochs):
        """Of ten records seven begin an epoch: these are epochs, not steps."""
        lines = [f"epoch {min(n, epochs)} loss 2.{n} 120 s" for n in range(1, 11)]
        assert form_of(lines).counts_epochs == counts_epochs


class TestCopies:
    """Several processes write to one text."""

    @pytest.mark.parametrize(("copied", "has_copies"), [(5, False), (6, True)])
    def test_more_than_half_of_the_steps_are_there_twice(self, copied, has_copies):
        lines = []
        for step in range(1, 11):
            lines += records([step] * (1 + (step <= copied)))
        assert form_of(lines).has_copies == has_copies

    def test_two_trainings_one_after_the_other_are_no_copies(self):
        assert not form_of(records([1, 2, 3, 4, 1, 2, 3, 4])).has_copies

    @pytest.mark.parametrize(("others", "has_copies"), [(4, True), (5, False)])
    def test_a_process_lags_by_half_of_the_steps(self, others, has_copies):
        """Of ten steps most are there twice, with so many lines of other steps between them."""
        steps = []
        for first in (1, 1 + others + 1):
            block = list(range(first, first + others + 1))
            steps += [*block, *block]
        steps = [step for step in steps if step <= 10]
        assert form_of(records(steps)).has_copies == has_copies

    def test_lines_with_other_values_are_no_copies(self):
        lines = []
        for step in range(1, 6):
            lines += [f"step {step} loss 2.5", f"step {step} 120 ms"]
        assert not form_of(lines).has_copies


class TestBarsAndEvaluations:
    """Lines that may be records, and others that are."""

    BARS = tuple(
        f"{n}%|█   | {n}/90 [00:{n:02}<05:16,  1.00s/it, loss=1.{n}]" for n in range(10, 15)
    )

    def test_bars_are_records_where_nothing_else_has_a_loss(self):
        form = form_of(self.BARS)
        assert (form.counter, form.has_bars, form.has_total) == ("bar", True, True)

    def test_other_lines_with_a_loss_go_before_bars(self):
        lines = [*self.BARS, *records([100, 200, 300])]
        form = form_of(lines)
        assert (form.counter, form.has_bars) == ("step", False)
        assert form.labels["loss"] == "loss"

    def test_lines_of_training_and_evaluation_are_records_if_there_are_no_others(self):
        mixed = [f"step {n}: train loss 4.{n}, val loss 4.{n}" for n in (5, 6, 7)]
        assert form_of(mixed).is_mixed
        assert not form_of([*mixed, *records([1, 2])]).is_mixed
        assert form_of([*mixed, *records([1])]).is_mixed


class TestKeys:
    """The numbers that recur in the lines of a form."""

    @pytest.mark.parametrize(("count", "recurs"), [(29, False), (30, True)])
    def test_three_tenths_of_the_records_have_them(self, count, recurs):
        lines = records(range(100))
        lines[:count] = [f"{line} grad norm 1.5" for line in lines[:count]]
        form = form_of(lines)
        assert ("grad norm" in form.keys) == recurs
        assert ("grad_norm" in form.labels) == recurs

    @pytest.mark.parametrize(("count", "recurs"), [(29, False), (30, True)])
    def test_a_record_has_the_numbers_of_the_lines_below_it(self, count, recurs):
        lines = []
        for step, line in enumerate(records(range(100))):
            lines += [line, "grad norm 1.5"] if step < count else [line]
        assert ("grad norm" in form_of(lines).keys) == recurs

    @pytest.mark.parametrize("name", sorted(["tokens/s", "samples/s", "tok/s/GPU"]))
    def test_rates(self, name):
        assert form_of(records([1, 2, 3], f"step {{}} loss 2.{{}} 900 {name}")).has_rates

    @pytest.mark.parametrize(("values", "is_named"), [(5, False), (6, True)])
    def test_a_number_that_changes_in_half_of_the_lines_is_named(self, values, is_named):
        lines = [f"step {n} loss 2.{n} quux {min(n, values)}.5" for n in range(1, 11)]
        assert mining.CHANGING == 0.5
        assert form_of(lines).unknown == (("“quux”",) if is_named else ())

    def test_three_such_numbers_are_named(self):
        lines = [f"step {n} loss 2.{n} a1a={n}.5 bb {n}.5 cc {n}.5 dd {n}.5" for n in range(1, 5)]
        lines = [line.replace("a1a", "aa") for line in lines]
        assert mining.MOST_UNKNOWN == 3
        assert form_of(lines).unknown == ("“aa”", "“bb”", "“cc”")


def test_rows_are_kept_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(mining, "MOST_ROWS", 3)
    epochs = ["epoch 1", "epoch 1"]
    assert form_of([*epochs, *records([1, 2])]) is None
    assert counter_of([*epochs[1:], *records([1, 2])]) == "step"
    # What can't be of a step isn't kept.
    assert counter_of(["version 1.5", "port 80", *records([1, 2])]) == "step"


def test_later_lines_are_looked_at_if_they_have_a_sign(monkeypatch):
    monkeypatch.setattr(mining, "ALL_LOOKED_AT", 3)
    lines = [f"[{number}][0.5 ms][{2 - number / 10}]" for number in range(1, 8)]
    assert form_of(lines) is None
    assert len(mined([*lines, "step 9 loss 2.5"]).rows) == 4
