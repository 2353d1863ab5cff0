"""Which runs are one system: told apart by what is known of them or by their speed, whatever file
they are in.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from made_runs import H100, MI300X, make_run

from tprimat.compare import Loaded, compare
from tprimat.compare.cost import with_prices
from tprimat.errors import ExitStatus
from tprimat.log_import.load import load
from tprimat.notes.catalogue import words
from tprimat.report.verdict import report
from tprimat.results.run import Environment, Source

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "4"


def files(*groups):
    """Return files of runs with these step times, each of a day of its own."""
    day = iter(range(1, 29))
    return [
        Loaded(name, name, tuple(made(time, next(day)) for time in times))
        for name, *times in groups
    ]


def made(time, day=1, **fields):
    return make_run(step_time=time, timestamp=f"2026-02-{day:02d}T21:44:16+00:00", **fields)


def named(*groups, **options):
    found = compare(files(*groups), **options)
    return [(system.name, len(system.runs)) for system in found.systems], [
        words(note) for note in found.notes if note.code == "compared-apart"
    ]


@pytest.mark.parametrize(
    ("groups", "systems", "note"),
    [
        # Repetitions: three files, a glob, two folders.
        ([("a.json", 3.2), ("b.json", 3.23), ("c.json", 3.17)], [("8×H100 (BF16)", 3)], None),
        ([("old/a.json", 3.2, 3.21), ("new/a.json", 3.23, 3.24)], [("8×H100 (BF16)", 4)], None),
        ([("a.json", 3.2), ("b.json", 3.8)], [("8×H100 (BF16)", 2)], None),
        # Two folders, two files, runs of one file, and of two.
        (
            [("old/a.json", 3.2, 3.21), ("new/a.json", 3.5, 3.51)],
            [("old", 2), ("new", 2)],
            (
                "old and new are compared as 2 systems: run-to-run variation does not explain a gap"
                " of 9%"
            ),
        ),
        (
            [("a.json", 3.2), ("b.json", 4.2)],
            [("a.json", 1), ("b.json", 1)],
            "a.json and b.json are",
        ),
        (
            [("a.json", 3.2, 3.21, 3.6, 3.61)],
            [("group of runs 1–2", 2), ("group of runs 3–4", 2)],
            "group of runs 1–2 and group of runs 3–4 are compared as 2 systems",
        ),
        (
            [("a.json", 3.2, 4.5, 3.21)],
            [("group of runs 1, 3", 2), ("run 2", 1)],
            "group of runs 1, 3 and run 2 are",
        ),
        (
            [("a.json", 3.2), ("b.json", 3.21), ("c.json", 3.6), ("d.json", 3.61)],
            [("group of a.json and b.json", 2), ("group of c.json and d.json", 2)],
            "group of a.json and b.json and group of c.json and d.json are",
        ),
        (
            [("a.json", 3.2, 3.6), ("b.json", 3.21, 3.61)],
            [
                ("group of run 1 of a.json and run 1 of b.json", 2),
                ("group of run 2 of a.json and run 2 of b.json", 2),
            ],
            "are compared as 2 systems",
        ),
    ],
)
def test_i1_runs_that_variation_cannot_explain_are_systems_by_file_and_number(
    groups, systems, note
):
    found, notes = named(*groups)
    assert sorted(found) == sorted(systems)
    assert len(notes) == (note is not None)
    assert all(note in each for each in notes)


def test_i1_without_tokens_they_are_told_apart_too():
    runs = [
        msgspec.structs.replace(
            made(time, day), training_config=made(1.0).training_config, model=None
        )
        for day, time in enumerate((3.2, 4.8), 1)
    ]
    assert len(compare([Loaded("a", "a", tuple(runs))]).systems) == 2


@pytest.mark.parametrize(
    "fields",
    [
        # What the user named, and what one session measured, is one system however much it differs.
        {"label": "mine"},
        {"session": "s"},
    ],
)
def test_i1_a_name_or_a_session_always_decides(fields):
    runs = tuple(made(time, day, **fields) for day, time in enumerate((3.2, 4.8), 1))
    (system,) = compare([Loaded("a", "a", runs)]).systems
    assert len(system.runs) == 2


def test_i1_a_check_and_a_series_over_time_are_not_split():
    assert named(("a", 3.2, 3.21, 3.6, 3.61), splits=False) == ([("8×H100 (BF16)", 4)], [])


def test_i1_a_variable_that_differs_names_the_groups():
    runs = [
        made(
            time,
            day,
            environment=Environment(settings={"NCCL_ALGO": "Ring" if day < 3 else "Tree"}),
        )
        for day, time in enumerate((3.2, 3.21, 3.6, 3.61), 1)
    ]
    systems = compare([Loaded("a", "a", tuple(runs))]).systems
    assert [system.name for system in systems] == ["NCCL_ALGO=Ring", "NCCL_ALGO=Tree"]


def live(time, day, *words, **fields):
    return made(
        time, day, source=Source(kind="live", command=("python3", "train.py", *words)), **fields
    )


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((("--fused",), ()), ["fused", "no fused"]),
        ((("--bs=8", "--seed", "1"), ("--bs", "16", "--seed", "2")), ["bs 8", "bs 16"]),
        # Repetitions.
        (
            (("--seed", "1", "--output-dir", "a"), ("--seed", "2", "--output-dir", "b")),
            ["8×H100 (BF16)"],
        ),
        ((("--max-steps=60", "--run-name", "x"), ("--max-steps=100",)), ["8×H100 (BF16)"]),
    ],
)
def test_i1_arguments_of_the_script_tell_equally_fast_runs_apart(words, names):
    runs = [live(3.2 + day / 100, day, *each) for day, each in enumerate(words, 1)]
    assert [
        each.name
        for each in compare([Loaded(f"{n}", f"{n}", (run,)) for n, run in enumerate(runs)]).systems
    ] == (names)


def test_i1_compiled_and_eager_are_two_systems():
    runs = [
        made(3.2 + day / 100, day, framework_config={"torch_compile": day == 1}) for day in (1, 2)
    ]
    assert [each.name for each in compare([Loaded("a", "a", tuple(runs))]).systems] == [
        "torch.compile",
        "eager",
    ]


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("a_03_two_trainings_one_paste.log", (2.71, 4.01)),
        ("a_12_two_runs_one_page.md", (0.051, 0.081)),
    ],
)
def test_i1_two_trainings_of_one_text_are_two_systems(name, seconds):
    if not CASES.is_dir():
        pytest.skip("the directory of cases does not lie beside this clone")
    systems = compare(load([str(CASES / name)]).files).systems
    assert sorted(system.value("avg_step_time_seconds") for system in systems) == pytest.approx(
        seconds, rel=0.002
    )


def test_i2_planned_steps_and_seeds_are_values_of_a_run():
    config = make_run().training_config
    runs = [
        msgspec.structs.replace(
            made(3.2 + day / 100, day),
            training_config=msgspec.structs.replace(config, max_steps=steps, seed=day),
        )
        for day, steps in enumerate((60, 60, 100), 1)
    ]
    (system,) = compare([Loaded(str(n), str(n), (run,)) for n, run in enumerate(runs)]).systems
    assert [each.run.training_config.max_steps for each in system.runs] == [60, 60, 100]


def copies(*devices):
    times = make_run().step_times
    return [
        Loaded(f"{device}.json", device, (make_run(device, step_times=times),))
        for device in devices
    ]


def test_i6_copies_are_not_compared():
    found = compare([*copies(H100, "NVIDIA H200", "NVIDIA B200")])
    priced = with_prices(found, ["H100=2", "H200=3", "B200=4"]).comparison
    (answer,) = report(priced).answers
    assert answer.group.leaders is None
    assert answer.verdict.headline.startswith("Not compared: ")
    assert "copies of one measurement" in answer.verdict.headline
    assert all(system.exclusion is not None for system in found.systems)
    assert found.status == ExitStatus.NOT_COMPARABLE


def test_i6_what_is_no_copy_is_compared_beside_copies():
    other, third = (
        make_run(MI300X, step_time=3.3, stack="rocm"),
        make_run("NVIDIA B200", step_time=2.0),
    )
    found = compare(
        [*copies(H100, "NVIDIA H200"), Loaded("x", "x", (other,)), Loaded("y", "y", (third,))]
    )
    assert [pair.system.gpu for pair in found.pairs if pair.ratio] == ["NVIDIA B200"]
    assert found.status == ExitStatus.OK


@pytest.mark.parametrize(
    ("seconds", "are_copies"), [((4.0,), False), ((4.0, 5.0), False), ((4.0, 5.0, 6.0), True)]
)
def test_i6_whole_seconds_alone_make_no_copy(seconds, are_copies):
    times = tuple(seconds[place % len(seconds)] for place in range(60))
    runs = [make_run(device, step_times=times, losses=False) for device in (H100, "NVIDIA H200")]
    found = compare([Loaded(str(n), str(n), (run,)) for n, run in enumerate(runs)])
    assert any(pair.ratio for pair in found.pairs) is not are_copies
