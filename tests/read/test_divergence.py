"""What a log tells of a training that diverged, also where the framework doesn't print a loss that
is NaN.
"""

from __future__ import annotations

import re

import pytest
from made_endings import FORMATS, PLANNED, log

from tprimat.checks.endings import DIVERGED, divergence
from tprimat.log_import import load
from tprimat.log_import.given import GivenValues
from tprimat.read.parsing.remarks import SEVERAL, Health, diverged

LINES = {"megatron": r"iteration +(\d+)/", "torchtitan": r"step: +(\d+) "}
LOSS = {"megatron": r" lm loss: \S+ \|", "torchtitan": r"(?<=loss: )\S+"}


def changed(form, change, steps, folder):
    """Returns the run of a log in which the lines of these steps are changed."""
    lines = log(form).splitlines(keepends=True)
    for place, line in enumerate(lines):
        found = re.search(LINES[form], line)
        if found and int(found[1]) in steps:
            lines[place] = change(line)
    path = folder / "train.log"
    path.write_text("".join(lines), encoding="utf-8")
    (file,) = load.load([str(path)], GivenValues()).files
    (run,) = file.runs
    return run


def without_loss(line):
    return re.sub(LOSS["megatron"], "", line)


def of(run):
    found = divergence(run)
    return found and (found.code, found.first, found.last, found.is_lasting)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("ending", ["complete", "crashed", "own limit", "cut off"])
def test_e2_a_training_with_numbers_has_no_such_note(form, ending, tmp_path):
    path = tmp_path / "train.log"
    path.write_text(log(form, ending), encoding="utf-8")
    (file,) = load.load([str(path)], GivenValues()).files
    assert not {note.code for run in file.runs for note in run.notes} & DIVERGED.keys()


class TestMegatron:
    @pytest.mark.parametrize("first", [2, 20, PLANNED - SEVERAL + 1])
    def test_e2_a_loss_that_vanishes_from_the_lines(self, first, tmp_path):
        run = changed("megatron", without_loss, range(first, PLANNED + 1), tmp_path)
        assert of(run) == ("loss-vanished", first, PLANNED, True)

    @pytest.mark.parametrize(
        "steps", [range(1, 20), range(20, 40), range(PLANNED - SEVERAL + 2, PLANNED + 1)]
    )
    def test_e2_a_loss_that_comes_back_or_lacks_at_a_few_lines_has_not(self, steps, tmp_path):
        assert of(changed("megatron", without_loss, steps, tmp_path)) is None

    def test_e2_a_log_that_never_prints_a_loss(self, tmp_path):
        assert of(changed("megatron", without_loss, range(PLANNED + 1), tmp_path)) is None

    def test_e2_counted_nan_iterations(self, tmp_path):
        def counted(line):
            return without_loss(line).replace("nan iterations:   0", "nan iterations:   1")

        assert of(changed("megatron", counted, [17], tmp_path)) == (
            "loss-not-finite",
            17,
            17,
            False,
        )
        assert of(changed("megatron", counted, range(17, PLANNED + 1), tmp_path)) == (
            *("loss-not-finite", 17),
            *(PLANNED, True),
        )

    def test_e2_skipped_iterations(self, tmp_path):
        """The first ones of FP16 are normal; a training that skips most of its steps, or the last
        ones, is none.
        """

        def skipped(line):
            return line.replace("skipped iterations:   0", "skipped iterations:   1")

        def first_and_last(steps):
            found = of(changed("megatron", skipped, steps, tmp_path))
            return found and found[:3]

        half = PLANNED // 2
        assert first_and_last(range(1, half + 1)) is None
        assert first_and_last(range(1, half + 2)) == ("steps-skipped", 1, half + 1)
        assert first_and_last(range(PLANNED - SEVERAL + 2, PLANNED + 1)) is None
        assert first_and_last(range(PLANNED - SEVERAL + 1, PLANNED + 1)) == (
            "steps-skipped",
            116,
            PLANNED,
        )

    def test_e2_gradient_norms(self, tmp_path):
        def bad(line):
            return line.replace("grad norm: 1.250", "grad norm: nan")

        assert of(changed("megatron", bad, [1, 2, 3], tmp_path)) is None
        assert of(changed("megatron", bad, range(30, PLANNED + 1), tmp_path)) == (
            *("grad-norm-not-finite", 30),
            *(PLANNED, True),
        )


class TestTorchtitan:
    def test_e2_a_loss_of_none(self, tmp_path):
        run = changed(
            "torchtitan",
            lambda line: re.sub(LOSS["torchtitan"], "None", line),
            range(20, 121),
            tmp_path,
        )
        assert of(run) == ("loss-vanished", 20, PLANNED, True)

    def test_e2_a_gradient_norm_of_nan(self, tmp_path):
        def bad(line):
            return line.replace("grad_norm:  1.2500", "grad_norm: nan")

        assert of(changed("torchtitan", bad, [5], tmp_path)) is None
        assert of(changed("torchtitan", bad, range(1, 121), tmp_path))[:3] == (
            "grad-norm-not-finite",
            1,
            PLANNED,
        )


def of_losses(printed, last, interval=1):
    rows = [
        Health(step, True if step in printed else None, None)
        for step in range(interval, last + 1, interval)
    ]
    return [(note.code, note.fields["first"]) for note in diverged(rows, prints_each_loss=False)]


def test_e2_a_loss_that_is_printed_every_tenth_step_is_missing_after_twenty():
    assert of_losses({1, 10, 20}, 39) == []
    assert of_losses({1, 10, 20}, 40) == [("loss-vanished", 21)]
    assert of_losses({1}, 40) == []
    assert of_losses({1, 2}, 2 + SEVERAL - 1) == []
    assert of_losses({1, 2}, 2 + SEVERAL) == [("loss-vanished", 3)]
    assert of_losses({10, 20, 30, 40}, 50, interval=10) == []
    assert of_losses({10, 20, 30, 40}, 60, interval=10) == [("loss-vanished", 50)]


def test_e2_less_than_several_steps_tell_nothing_of_skipping():
    """Logs of three steps with FP16, each skipped while the loss scale comes down, are no
    divergence.
    """
    rows = [Health(step, True, False, True) for step in range(1, SEVERAL + 1)]
    assert diverged(rows[:-1], prints_each_loss=True) == ()
    codes = [note.code for note in diverged(rows, prints_each_loss=True)]
    assert codes == ["grad-norm-not-finite", "steps-skipped"]
