"""From runs to a comparison, step by step and in full: copies, models, systems, groups, titles and
notes.
"""

from __future__ import annotations

import importlib

import msgspec
import pytest
from made_runs import H100, MI300X, comparison, failed_run, make_run, shape
from made_systems import result, system
from stored_runs import note, notes_of, texts_of

from tprimat.analysis.efficiency import Options
from tprimat.compare import Loaded, compare, systems_of, title_of
from tprimat.errors import UsageError
from tprimat.results.account import Entry
from tprimat.results.run import Environment, ModelConfig

package = importlib.import_module("tprimat.compare")

AMD = {"device": MI300X, "stack": "rocm"}
BLOCK = (Entry(kind="training", start=0, duration=99.0, first_step=1, last_step=60),)


def files(*groups):
    return [Loaded(name, name, tuple(runs)) for name, *runs in groups]


def entries(*groups):
    notes = [note("first")]
    found = package._entries(files(*groups), notes)
    assert notes[0] == note("first")
    return [name for _, name in found], notes[1:]


ONE, LATER = make_run(), make_run(timestamp="2026-03-01T00:00:00+00:00", step_time=3.3)
COPY_OF_4 = make_run(gpus=4, step_times=ONE.step_times)
PART = make_run(steps=40, training_config=ONE.training_config, status="incomplete")
ROUNDED = msgspec.structs.replace(ONE, step_times=tuple(round(time, 1) for time in ONE.step_times))
SUBMITTED = make_run(framework="mlperf", timeline=BLOCK)


@pytest.mark.parametrize(
    ("groups", "kept", "notes"),
    [
        ([("a", ONE, LATER), ("b", make_run(step_time=3.4))], ["a", "a", "b"], []),
        # The same measurement in another file, or twice in one.
        ([("a", ONE), ("b", LATER, ONE)], ["a", "b"], [note("run-again", file="b", other="a")]),
        (
            [("a", ONE), ("b", ONE), ("c", ONE)],
            ["a"],
            [note("run-again", file="b", other="a"), note("run-again", file="c", other="a")],
        ),
        ([("a", ONE, ONE)], ["a"], [note("run-twice", file="a")]),
        (
            [("a", ONE, msgspec.structs.replace(ONE, timestamp=LATER.timestamp))],
            ["a"],
            [note("run-twice", file="a")],
        ),
        # Rounded times may be equal by chance, but not all else.
        (
            [("a", ROUNDED, msgspec.structs.replace(ROUNDED, timestamp=LATER.timestamp))],
            ["a", "a"],
            [],
        ),
        ([("a", ROUNDED, ROUNDED)], ["a"], [note("run-twice", file="a")]),
        # Of one file with another setup: both stay, with a note where losses say that it is the
        # same one.
        ([("a", ONE), ("b", COPY_OF_4)], ["a", "b"], [note("copies", file="b", other="a")]),
        ([("a", ONE, COPY_OF_4)], ["a", "a"], [note("copies", file="a", other="a")]),
        # Few records may be the same by chance.
        ([("a", make_run(steps=19)), ("b", make_run(steps=19, gpus=4))], ["a", "b"], []),
        # A log that was read while it was written: the longer run counts, wherever it stands.
        ([("a", PART), ("b", ONE)], ["b"], [note("run-again", file="b", other="a")]),
        (
            [("a", PART), ("b", ONE), ("c", PART)],
            ["b"],
            [note("run-again", file="b", other="a"), note("run-again", file="c", other="b")],
        ),
        ([("a", ONE), ("b", PART)], ["a"], [note("run-again", file="b", other="a")]),
        (
            [("a", ONE), ("b", make_run(steps=19, training_config=ONE.training_config))],
            ["a", "b"],
            [],
        ),
        # Another model is another measurement. Other losses and another session are of a copy that
        # was edited, unless the times may be equal by chance.
        ([("a", ONE), ("b", make_run(model="qwen"))], ["a", "b"], []),
        (
            [("a", ONE), ("b", make_run(losses=False))],
            ["a"],
            [note("run-again", file="b", other="a")],
        ),
        (
            [("a", ONE), ("b", make_run(session="s", round=1))],
            ["a"],
            [note("run-again", file="b", other="a")],
        ),
        ([("a", ROUNDED), ("b", msgspec.structs.replace(ROUNDED, session="s"))], ["a", "b"], []),
        (
            [("a", ROUNDED), ("b", msgspec.structs.replace(ROUNDED, loss_values=(None,) * 60))],
            ["a", "b"],
            [],
        ),
        # Runs without step times are no copies, unless their time line is.
        ([("a", failed_run()), ("b", failed_run())], ["a", "b"], []),
        (
            [
                ("a", make_run(step_times=(None,) * 60, timeline=BLOCK)),
                ("b", make_run(step_times=(None,) * 60, timeline=BLOCK)),
            ],
            ["a"],
            [note("run-again", file="b", other="a")],
        ),
        # MLPerf's submissions of two rounds differ in their descriptions.
        (
            [
                ("a", SUBMITTED),
                (
                    "b",
                    msgspec.structs.replace(SUBMITTED, framework_config={"mlperf_round": "v5.1"}),
                ),
            ],
            ["a"],
            [note("run-again", file="b", other="a")],
        ),
        # One occasion with other times.
        (
            [("a", make_run(timeline=BLOCK)), ("b", make_run(timeline=BLOCK, step_time=3.3))],
            ["a", "b"],
            [note("run-otherwise", file="b", other="a")],
        ),
        (
            [("a", make_run(timeline=BLOCK, step_time=3.3), make_run(timeline=BLOCK))],
            ["a", "a"],
            [note("run-otherwise", file="a", other="a")],
        ),
    ],
)
def test_copies(groups, kept, notes):
    assert entries(*groups) == (kept, notes)


@pytest.mark.parametrize(
    ("changes", "is_copy"),
    [
        ({}, True),
        ({"framework_config": {"mlperf_round": "v5.1"}}, True),
        ({"label": "x"}, False),
        ({"timestamp": "2026-03-01T00:00:00+00:00", "framework_config": {"x": 1}}, False),
        ({"gpu_info": make_run(MI300X).gpu_info, "framework_config": {"x": 1}}, False),
        ({"training_config": make_run(gpus=4).training_config}, False),
        ({"framework": "nemo"}, False),
    ],
)
def test_a_copy_is_of_one_system_or_of_one_submission(changes, is_copy):
    other = msgspec.structs.replace(SUBMITTED, **changes)
    assert package._is_copy(SUBMITTED, other) is package._is_copy(other, SUBMITTED) is is_copy


@pytest.mark.parametrize("fields", [{"framework": "nemo"}, {"timestamp": None}])
def test_elsewhere_and_without_a_date_another_setup_is_another_system(fields):
    one = msgspec.structs.replace(SUBMITTED, **fields)
    assert package._is_copy(one, one)
    assert not package._is_copy(
        one, msgspec.structs.replace(one, framework_config={"mlperf_round": "v5.1"})
    )


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("llama", {"a": 1, "c": 2}),
        ("LLAMA 3.1 8B", {"a": 1, "c": 2}),
        ("Qwen 2.5 7B", {"b": 1, "c": 1}),
        ("unnamed model", {"d": 1}),
        ("mistral", {"e": 1}),
    ],
)
def test_the_files_of_a_model(asked, kept):
    given = files(
        ("a", ONE),
        ("b", make_run(model="qwen")),
        ("c", ONE, make_run(model="qwen"), LATER),
        ("d", make_run(model=None)),
        ("e", make_run(model="Mistral 7B")),
    )
    found = package._of_model(given, asked)
    assert {file.name: len(file.runs) for file in found} == kept
    assert all(file.sha256 == file.name for file in found)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [("lama", "did you mean llama?"), ("gpt", "available: llama, qwen, unnamed model")],
)
def test_a_model_that_is_not_there(asked, hint):
    given = files(("a", make_run(model="qwen"), ONE), ("b", make_run(model=None)))
    with pytest.raises(UsageError) as raised:
        package._of_model(given, asked)
    error = raised.value
    assert (error.problem, error.hint, error.heading) == (
        f"no results for model {asked!r}",
        hint,
        "unknown-model",
    )


FULL = msgspec.structs.asdict(shape())


@pytest.mark.parametrize(
    ("model", "config", "name"),
    [
        ("llama", {}, "llama"),
        ("Llama 3.1 8B", {}, "llama"),
        (None, {}, None),
        ("", {}, None),
        ("mine", {}, "mine"),
        ("mine 70B", FULL, "llama"),
        # The shape of another model.
        ("llama", {"num_layers": 5}, "llama"),
        (
            "mine",
            FULL,
            "llama",
        ),
        (None, FULL, "llama"),
    ],
)
def test_the_name_of_a_model(model, config, name):
    assert package._model(make_run(model=model, model_config=ModelConfig(**config))) == name


@pytest.mark.parametrize(
    ("name", "run", "title"),
    [
        ("llama", make_run(), "Llama 3.1 8B"),
        (None, make_run(), "unnamed model"),
        ("mine", make_run(scale=None), "mine"),
        ("llama", make_run(scale="tiny"), "Llama tiny"),
        (
            "mine",
            make_run(scale="tiny", model_config=ModelConfig(num_parameters=7_480_000)),
            "mine tiny, 7.48M parameters",
        ),
        ("llama_lora", make_run(), "Llama 3.1 8B, LoRA"),
        ("Llama_SFT", make_run(), "Llama 3.1 8B, fine-tuning"),
        ("mine_lora", make_run(), "mine_lora"),
        ("llama_x", make_run(), "llama_x"),
        (
            "llama",
            make_run(model_config=ModelConfig(num_parameters=4_200)),
            "a model of 4.2k parameters, named llama",
        ),
        (
            "llama",
            make_run(model_config=ModelConfig(num_layers=5)),
            "a model of another shape, named llama",
        ),
    ],
)
def test_what_a_model_is_called(name, run, title):
    assert title_of(name, run) == title


@pytest.mark.parametrize(
    ("scales", "title"),
    [
        (("full",), "Llama 3.1 8B"),
        (("tiny", "full", "full"), "Llama 3.1 8B and Llama tiny"),
        (("c", "a", "b"), "Llama c, Llama a and Llama b"),
        (("a", "b", "c", "d"), "4 models named llama"),
    ],
)
def test_the_title_of_several(scales, title):
    systems = [system("A", result(run=make_run(scale=each))) for each in scales]
    assert package._title("llama", systems) == title
    nameless = [
        system("A", result(run=make_run(scale=each, model=None))) for each in ("a", "b", "c", "d")
    ]
    assert package._title(None, nameless) == "4 unnamed models"


def of(*runs, valid=True, **fields):
    return system("A", *(result(run=run, is_valid=valid) for run in runs), **fields)


@pytest.mark.parametrize(
    ("work", "others", "title"),
    [
        ([make_run()], [[make_run()]], "Llama 3.1 8B"),
        (
            [make_run()],
            [[make_run()], [make_run(length=4096)]],
            "Llama 3.1 8B, sequence length 2048",
        ),
        (
            [make_run(length=None)],
            [[make_run(length=4096)]],
            "Llama 3.1 8B, sequence length unknown",
        ),
        # Of rates in samples, lengths of one work may differ.
        ([make_run(length=None), make_run()], [[make_run(length=None)]], "Llama 3.1 8B"),
        # Each difference of shape once, by this work's own value.
        (
            [make_run(scale=None, model_config=shape()), make_run(scale=None)],
            [
                [make_run(model_config=shape(num_layers=16))] * 2,
                [make_run(length=1, model_config=shape(hidden_size=64))],
            ],
            "Llama 3.1 8B, sequence length 2048, num layers 32, hidden size 4096",
        ),
    ],
)
def test_the_title_of_one_work_among_several(work, others, title):
    own, *rest = ([of(run) for run in runs] for runs in (work, *others))
    assert package._title_of_work("llama", own, [rest[0], own, *rest[1:]]) == title


@pytest.mark.parametrize(
    ("lengths", "found"),
    [
        ([("mlperf", 2048), ("mlperf", None)], {2048, None}),
        ([("mlperf", 2048), ("mlperf", 4096)], set()),
        ([("mlperf", 2048), ("nemo", None)], set()),
        ([("nemo", None)], set()),
        ([("mlperf", None)], {None}),
    ],
)
def test_sequence_lengths_of_a_benchmark_some_of_whose_logs_state_none(lengths, found):
    groups = [[(make_run(framework=name, length=length), "f")] for name, length in lengths]
    assert package._sample_lengths(groups) == found


@pytest.mark.parametrize(
    ("framework", "length", "lengths", "in_samples"),
    [
        ("mlperf", 2048, set(), False),
        ("mlperf", 2048, {None, 2048}, True),
        ("mlperf", None, {None}, True),
        # A run elsewhere of the only length that is stated.
        ("nemo", 2048, {None, 2048}, True),
        ("nemo", 4096, {None, 2048}, False),
        ("nemo", 2048, {None, 2048, 4096}, False),
        ("nemo", None, {None}, False),
        ("nemo", None, {None, 2048}, False),
        ("nemo", 2048, {None}, False),
    ],
)
def test_which_systems_are_compared_in_samples(framework, length, lengths, in_samples):
    runs = [(make_run(framework=framework, length=length), "f")]
    found = package.system_result(named(runs), package._run_results(runs, lengths))
    assert (found.unit == "samples") is in_samples


def named(runs):
    return package.name_systems({"llama": [runs[0][0]]})["llama"][0]


BROKEN = make_run(status="incomplete")
FAILED = make_run(status="failed")
EMPTY = make_run(steps=0, warmup=())


@pytest.mark.parametrize(
    ("runs", "valid"),
    [
        ((ONE, LATER), (True, True)),
        # A run that broke off is only used if there is none that ended.
        ((BROKEN, ONE, FAILED), (False, True, False)),
        # One that failed is only used if none broke off without a cause.
        ((BROKEN, FAILED), (True, False)),
        ((FAILED, FAILED), (True, True)),
        ((BROKEN, EMPTY), (True, False)),
        ((EMPTY, EMPTY), (False, False)),
    ],
)
def test_which_runs_count(runs, valid):
    given = [(run, str(place)) for place, run in enumerate(runs)]
    found = package.system_result(named(given), package._run_results(given, set()))
    assert [(each.file, each.is_valid) for each in found.runs] == [
        (str(n), each) for n, each in enumerate(valid)
    ]
    assert [each.run for each in found.runs] == list(runs)
    assert (found.name, found.gpu) == ("8×H100 (BF16)", H100)


def called(*names):
    return [
        system(name, gpu=None if name == "x" else H100, parts=(f"part {name}",)) for name in names
    ]


@pytest.mark.parametrize(
    ("asked", "found"), [("a", "a"), ("part b", "b"), ("B", "b"), ("a c", "a c"), ("x", "x")]
)
def test_the_system_that_a_reference_means(asked, found):
    assert package._chosen(asked, called("a", "b", "a c", "x")) == found


@pytest.mark.parametrize(
    ("asked", "problem", "hint"),
    [
        (
            "H100",
            "--reference: 'H100' matches several systems",
            "be more specific; matches: a; b; c; d; e",
        ),
        ("y\x1b[31m", "--reference: no system matches 'y'", "available: x; a; b; c; d"),
    ],
)
def test_a_reference_that_is_none(asked, problem, hint):
    with pytest.raises(UsageError) as raised:
        package._chosen(asked, called(*"xabcdef"))
    error = raised.value
    assert (error.problem, error.hint, error.heading) == (problem, hint, "unknown-system")


class TestSystemsOf:
    def test_models_systems_and_files(self):
        remarks = [note("x", files=("of /somewhere/else/b.json",))]
        given = files(
            ("/somewhere/else/a.json", ONE, make_run(model="qwen", precision=None)),
            ("/somewhere/else/b.json", LATER, ONE, make_run(batch=32, step_time=3.4)),
        )
        found, results = systems_of(given, Options(precision="fp8"), remarks)
        assert [file.name for file in found] == ["a.json", "b.json"]
        # The files stay as they are.
        assert [file.runs for file in found] == [file.runs for file in given]
        assert {
            name: [(each.name, [run.file for run in each.runs]) for each in systems]
            for name, systems in results.items()
        } == {
            "llama": [("batch 64", ["a.json", "b.json"]), ("batch 32", ["b.json"])],
            "qwen": [("8×H100 (FP8)", ["a.json"])],
        }
        assert remarks == [
            note("x", files=("of b.json",)),
            note("precision-given", precision="fp8", files=("a.json",)),
            note("run-again", file="b.json", other="a.json"),
        ]

    def test_runs_of_models_that_nobody_names_are_of_one_within_a_file(self):
        unnamed = {"model": None, "scale": None, "losses": False}
        nameless = [make_run(**unnamed, step_time=3 + n / 10) for n in range(3)]
        _, results = systems_of(files(("a", *nameless[:2]), ("b", nameless[2])), Options(), [])
        assert [len(each.runs) for each in results[None]] == [2, 1]
        shaped = [
            msgspec.structs.replace(run, model_config=ModelConfig(num_layers=5)) for run in nameless
        ]
        _, results = systems_of(files(("a", *shaped[:2]), ("b", shaped[2])), Options(), [])
        assert [len(each.runs) for each in results[None]] == [3]


class TestCompare:
    def test_of_several_models_the_best_supported_is_the_first(self):
        runs = [
            make_run(model="qwen"),
            ONE,
            make_run(**AMD, step_time=3.0),
            make_run("NVIDIA H200", step_time=2.0),
        ]
        found = comparison(*runs, notes=notes_of("first \x1b[31mx"))
        assert [each.model for each in found.models] == ["llama", "qwen"]
        assert [each.title for each in found.models] == ["Llama 3.1 8B", "Qwen 2.5 7B"]
        assert found.notes == (note("text", text="first x"),)
        # In the order of the files.
        assert found.system_names == ("8×H100 (BF16)", "8×MI300X (BF16)", "8×H200 (BF16)")
        assert found.shared == ("scale full", "BF16")
        assert [file.name for file in found.files] == [
            f"results/file_{n}.json" for n in (1, 2, 3, 4)
        ]
        assert (found.mode, found.options, found.prices) == ("best", Options(), {})
        options = Options(tdp_energy=True)
        same = comparison(*runs, mode="same", options=options)
        assert (same.mode, same.options) == ("same", options)

    def test_nothing(self):
        found = compare([])
        assert (found.models, found.shared, found.system_names) == ((), (), ())

    def test_rates_in_samples_are_noted_where_there_are_some(self):
        told = (
            "rates are in samples/s/GPU, since not all logs state the sequence length"
            " (--sequence-length sets it)"
        )
        submitted = {"framework": "mlperf", "length": None}
        runs = [
            make_run(**submitted),
            make_run(model="qwen", **submitted, step_time=2.0),
            make_run(model="mistral"),
        ]
        assert texts_of(comparison(*runs).notes) == (
            f"Llama 3.1 8B: {told}",
            f"Qwen 2.5 7B: {told}",
        )
        assert texts_of(comparison(make_run(**submitted, batch=None)).notes) == ()
        other = make_run(**AMD, framework="mlperf", length=None, batch=None, step_time=2.0)
        with_one = comparison(make_run(**submitted), other)
        assert texts_of(with_one.notes) == (f"Llama 3.1 8B: {told}",)

    def test_a_reference_that_a_model_lacks(self):
        runs = [
            *(make_run(), make_run(**AMD, step_time=3.0)),
            *(make_run(model="qwen", **AMD), make_run("NVIDIA H200", model="qwen", step_time=2.0)),
            make_run("NVIDIA B200", model="mistral"),
        ]
        found = comparison(*runs, reference="H100")
        assert [model.groups[0].baseline.gpu for model in found.models] == [
            H100,
            MI300X,
            "NVIDIA B200",
        ]
        assert found.notes == (
            note("baseline-absent", model="Qwen 2.5 7B", reference="8×H100 (BF16)"),
        )

    def test_groups_of_other_work(self):
        def named_groups(*runs, **options):
            (model,) = comparison(*runs, **options).models
            return [([each.gpu for each in group.systems], group.title) for group in model.groups]

        a100, h200, b200 = (f"NVIDIA {each}" for each in ("A100-SXM4-80GB", "H200", "B200"))
        one, two = (make_run(each, step_time=time) for each, time in ((a100, 4.0), (H100, 3.0)))
        long = [
            make_run(each, length=4096, step_time=time)
            for each, time in ((h200, 5.0), (b200, 4.0), (MI300X, 6.0))
        ]
        alone = make_run("NVIDIA L40S", length=512, step_time=9.0)
        short, title = "Llama 3.1 8B, sequence length 2048", "Llama 3.1 8B, sequence length 4096"
        assert named_groups(one, two) == [([H100, a100], "Llama 3.1 8B")]
        # What is alone with its work is in the group that was found first.
        assert named_groups(one, two, alone, *long) == [
            ([b200, h200, MI300X, "NVIDIA L40S"], title),
            ([H100, a100], short),
        ]
        # A baseline that is named is that of its own group; beside others all are one group.
        (model,) = comparison(one, two, *long, reference="H200").models
        assert [
            (group.baseline.gpu, len(group.systems), group.title) for group in model.groups
        ] == [
            (h200, 3, title),
            (a100, 2, short),
        ]
        assert named_groups(one, two, alone, reference="L40S") == [
            ([a100, H100, "NVIDIA L40S"], "Llama 3.1 8B")
        ]
        (model,) = comparison(one, two, alone, reference="L40S").models
        assert [pair.ratio for pair in model.pairs] == [None, None]
        assert model.groups[0].baseline.gpu == "NVIDIA L40S"

    def test_the_short_title_has_no_parameters(self):
        config = shape(num_layers=4, hidden_size=256, num_parameters=7_482_368)
        (model,) = comparison(make_run(scale="tiny", model_config=config)).models
        assert (model.title, model.short_title) == ("Llama tiny, 7.48M parameters", "Llama tiny")

    def test_what_the_user_knows_is_filled_in(self):
        found = comparison(make_run(precision=None), options=Options(precision="fp8"))
        assert found.systems[0].run.training_config.precision == "fp8"
        assert found.files[0].runs[0].training_config.precision is None

    def test_only_the_runs_of_a_model(self):
        found = comparison((make_run(), make_run(model="qwen")), make_run(**AMD), model="qwen")
        assert [(each.name, len(each.runs)) for each in found.files] == [("results/file_1.json", 1)]
        assert [model.model for model in found.models] == ["qwen"]

    def test_versions_of_the_environment_are_systems_of_their_own(self):
        newer = make_run(step_time=3.3, environment=Environment(versions={"torch": "3.0"}))
        assert len(comparison(ONE, newer).systems) == 2
