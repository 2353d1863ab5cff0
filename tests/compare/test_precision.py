"""The precision that a user states, for all results that don't or system by system."""

from __future__ import annotations

import pytest
from made_runs import MI300X, comparison, make_run
from stored_runs import note, texts_of

from tprimat.analysis.efficiency import Options
from tprimat.compare import Loaded
from tprimat.compare.precision import fill
from tprimat.compare.regression import check_regression
from tprimat.compare.threshold import parse
from tprimat.errors import UsageError

AMD = {"device": MI300X, "stack": "rocm"}


def precisions(*runs, **stated):
    found = comparison(*runs, options=Options(precisions=stated))
    (model,) = found.models
    return {system.gpu: system.run.training_config.precision for system in model.systems}, found


@pytest.fixture
def runs():
    return make_run(precision=None), make_run(**AMD, precision=None, step_time=2.4)


def test_each_system_by_a_part_of_its_name(runs):
    found, comparison = precisions(*runs, MI300X="fp8", H100="bf16")
    assert set(found.values()) == {"fp8", "bf16"}
    assert {system.name for system in comparison.systems} == {"8×MI300X (FP8)", "8×H100 (BF16)"}
    assert sum("from the command line" in text for text in texts_of(comparison.notes)) == 2


def test_the_others_stay_unknown(runs):
    found, _ = precisions(*runs, mi300x="fp8")
    assert sorted(map(str, found.values())) == ["None", "fp8"]


def test_a_precision_that_the_result_states_stays_with_a_note(runs):
    found, comparison = precisions(make_run(precision="bf16"), runs[1], H100="fp8", MI300X="fp8")
    assert sorted(found.values()) == ["bf16", "fp8"]
    assert note("precision-ignored", name="H100", precision="fp8") in comparison.notes


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"A100": "fp8"}, "no system matches 'A100'"),
        ({"8": "fp8", "H100": "bf16"}, "another --precision"),
    ],
)
def test_wrong_names(runs, stated, words):
    with pytest.raises(UsageError) as caught:
        precisions(*runs, **stated)
    assert words in caught.value.problem


@pytest.mark.parametrize("count", [2, 5, 6])
def test_five_systems_are_offered_at_most(count):
    several = [make_run(precision=None, label=f"run {place}") for place in range(count)]
    with pytest.raises(UsageError) as caught:
        precisions(*several, A100="fp8")
    assert caught.value.hint.count("run ") == min(count, 5)


def test_a_regression_check_knows_the_systems_of_both(runs):
    files = [[Loaded(f"{index}.json", str(index) * 64, (run,))] for index, run in enumerate(runs)]
    found = check_regression(
        *files, parse("3%", ()), options=Options(precisions={"MI300X": "fp8", "H100": "bf16"})
    )
    (pair,) = found.pairs
    assert (
        pair.baseline.run.training_config.precision,
        pair.system.run.training_config.precision,
    ) == ("bf16", "fp8")


def test_a_name_of_two_models_means_the_system_of_which_more_is_said():
    runs = (
        make_run(precision=None, framework="nemo"),
        make_run(precision=None, framework="megatron", model="qwen"),
    )
    found = comparison(*runs, options=Options(precisions={"nemo": "fp8"}))
    assert {system.name for system in comparison(*runs).systems} == {"8×H100"}
    assert [system.run.training_config.precision for system in found.systems] == ["fp8", None]


def filled(runs, **options):
    """The precisions of runs, one file each, after what the user states, and the notes."""
    notes = ["first"]
    files = [Loaded(f"{place}.json", f"{place}" * 64, (run,)) for place, run in enumerate(runs)]
    found = fill(files, Options(**options), notes)
    assert [(each.name, each.sha256) for each in found] == [
        (each.name, each.sha256) for each in files
    ]
    if found is files:
        return None, notes
    return [each.runs[0].training_config.precision for each in found], notes


SINCE = "from the command line, since the result doesn't state it:"


@pytest.mark.parametrize(
    ("runs", "options", "found", "notes"),
    [
        ((make_run(precision=None),), {}, None, []),
        (
            (make_run(precision=None), make_run(), make_run(**AMD, precision=None)),
            {"precision": "fp8"},
            ["fp8", "bf16", "fp8"],
            [note("precision-given", precision="fp8", files=("0.json", "2.json"))],
        ),
        # Of a system that is named its own precision, of the others that for all.
        (
            (make_run(precision=None), make_run(), make_run(**AMD, precision=None)),
            {"precision": "fp8", "precisions": {"MI300X": "fp16"}},
            ["fp8", "bf16", "fp16"],
            [
                note("precision-given", precision="fp8", files=("0.json",)),
                note("precision-given", precision="fp16", files=("2.json",)),
            ],
        ),
        # Runs of one system and names of one model.
        (
            (
                make_run(precision=None),
                make_run(precision=None, step_time=3.4),
                make_run(model="qwen", precision=None),
            ),
            {"precisions": {"H100": "fp8"}},
            ["fp8"] * 3,
            [note("precision-given", precision="fp8", files=("0.json", "1.json", "2.json"))],
        ),
        (
            (make_run(), make_run(**AMD, precision=None)),
            {"precisions": {"H100": "fp8", "MI300X": "fp16"}},
            ["bf16", "fp16"],
            [
                note("precision-ignored", name="H100", precision="fp8"),
                note("precision-given", precision="fp16", files=("1.json",)),
            ],
        ),
        # A whole name wins over a part of one.
        (
            (make_run(precision=None, label="a"), make_run(precision=None, label="a b")),
            {"precisions": {"a": "fp8", "a b": "fp16"}},
            ["fp8", "fp16"],
            [
                note("precision-given", precision="fp8", files=("0.json",)),
                note("precision-given", precision="fp16", files=("1.json",)),
            ],
        ),
        # What a name leaves out is known all the same: here the framework.
        (
            (
                make_run(precision=None, label="a"),
                make_run(precision=None, label="b", framework="megatron"),
            ),
            {"precisions": {"megatron": "fp8"}},
            [None, "fp8"],
            [note("precision-given", precision="fp8", files=("1.json",))],
        ),
    ],
)
def test_what_is_filled_in(runs, options, found, notes):
    assert filled(runs, **options) == (found, ["first", *notes])


@pytest.mark.parametrize(
    ("stated", "problem", "hint", "heading"),
    [
        (
            {"A100": "fp8"},
            "--precision: no system matches 'A100'",
            "available: 8×H100; 8×MI300X",
            "unknown-system",
        ),
        (
            {"H100": "fp8", "8": "bf16"},
            "--precision: '8' matches a system with another --precision",
            "use a longer part of its name",
            "wrong-usage",
        ),
    ],
)
def test_what_fits_no_system_or_two_precisions(runs, stated, problem, hint, heading):
    with pytest.raises(UsageError) as caught:
        filled(runs, precisions=stated)
    error = caught.value
    assert (error.problem, error.hint, error.heading) == (problem, hint, heading)
