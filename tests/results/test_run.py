"""The type Run, its JSON, and the documents that are generated from it."""

from __future__ import annotations

import datetime
import json
import math

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_runs import notes_of, series
from tool_modules import load_tool

from tprimat.results import run as run_module
from tprimat.results.fields import LARGEST_VALUE, known_items, known_values
from tprimat.results.result_file import ResultFile, decode, encode, json_schema, runs_of
from tprimat.results.run import (
    SERIES,
    SETUP_FIELDS,
    Environment,
    GpuInfo,
    Run,
    Source,
    SourceFile,
    TrainingConfig,
    finite,
    setup_key,
)
from tprimat.results.telemetry import Telemetry
from tprimat.store import store

# A strategy for every type that a field can have, so that a new field is tested from its first day.


def _values(kind) -> st.SearchStrategy:
    inspect = msgspec.inspect
    if isinstance(kind, inspect.Metadata):
        return _values(kind.type)
    if isinstance(kind, inspect.NoneType):
        return st.none()
    if isinstance(kind, inspect.BoolType):
        return st.booleans()
    if isinstance(kind, inspect.IntType):
        return st.integers(kind.ge, kind.le)
    if isinstance(kind, inspect.FloatType):
        low, high, open_low = (
            (kind.ge, kind.le, False) if kind.gt is None else (kind.gt, kind.le, True)
        )
        return st.floats(low, high, exclude_min=open_low, allow_nan=False, allow_infinity=False)
    if isinstance(kind, inspect.StrType):
        return st.text(max_size=12)
    if isinstance(kind, inspect.LiteralType):
        return st.sampled_from(kind.values)
    if isinstance(kind, inspect.UnionType):
        return st.one_of(*map(_values, kind.types))
    if isinstance(kind, inspect.DictType):
        return st.dictionaries(_values(kind.key_type), _values(kind.value_type), max_size=3)
    if isinstance(kind, inspect.VarTupleType):
        return st.lists(_values(kind.item_type), max_size=3).map(tuple)
    if isinstance(kind, inspect.StructType) and kind.cls is Telemetry:
        return _telemetry(kind.fields)
    if isinstance(kind, inspect.StructType):
        return st.builds(kind.cls, **{field.name: _values(field.type) for field in kind.fields})
    raise NotImplementedError(kind)


@st.composite
def _telemetry(draw, fields) -> Telemetry:
    """Series as long as its steps."""
    steps = sorted(draw(st.sets(st.integers(1, 10**6), max_size=3)))
    entries = st.lists(
        st.none() | st.floats(-1e300, 1e300), min_size=len(steps), max_size=len(steps)
    ).map(tuple)
    others = {
        each.name: draw(_values(each.type))
        for each in fields
        if each.name not in ("steps", "series")
    }
    series = draw(st.dictionaries(st.text(max_size=12), entries, max_size=3))
    return Telemetry(steps=tuple(steps), series=series, **others)


def _bare(kind):
    return _bare(kind.type) if isinstance(kind, msgspec.inspect.Metadata) else kind


_RUN_FIELDS = {field.name: _bare(field.type) for field in msgspec.inspect.type_info(Run).fields}
_OF_FIELD = {name: _values(kind) for name, kind in _RUN_FIELDS.items()}
_TIMESTAMPS = st.none() | st.datetimes(
    timezones=st.integers(-1439, 1439).map(
        lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes))
    )
).map(datetime.datetime.isoformat)


@st.composite
def repetition_fields(draw) -> dict:
    steps = sorted(draw(st.sets(st.integers(1, 10**6), max_size=30)))
    count = len(steps)
    fields = {
        name: draw(_OF_FIELD[name])
        for name in _RUN_FIELDS
        if name not in (*SETUP_FIELDS, *SERIES, "timestamp", "native_metrics")
    }
    for name in SERIES:
        fields[name] = tuple(
            draw(st.lists(_values(_RUN_FIELDS[name].item_type), min_size=count, max_size=count))
        )
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    of_all_steps = st.lists(st.none() | numbers, min_size=count, max_size=count).map(tuple)
    fields["native_metrics"] = draw(
        st.dictionaries(st.text(max_size=12), st.none() | numbers | of_all_steps, max_size=3)
    )
    return {**fields, "steps": tuple(steps), "timestamp": draw(_TIMESTAMPS)}


@st.composite
def runs_of_one_setup(draw) -> tuple[Run, ...]:
    setup = {name: draw(_OF_FIELD[name]) for name in SETUP_FIELDS}
    environment = draw(_OF_FIELD["environment"])
    count = draw(st.integers(1, 3))
    return tuple(
        Run(**{**setup, **draw(repetition_fields()), "environment": environment})
        for _ in range(count)
    )


@settings(max_examples=60, deadline=None)
@given(runs_of_one_setup())
def test_run_to_json_to_run_is_the_identity(runs):
    assert decode(encode(store.as_file(runs))) == runs


@settings(max_examples=25, deadline=None)
@given(runs_of_one_setup())
def test_every_file_that_is_written_is_valid_by_the_schema(runs):
    validator = jsonschema.validators.validator_for(json_schema())(json_schema())
    assert [
        error.message for error in validator.iter_errors(json.loads(encode(store.as_file(runs))))
    ] == []


def test_encoding_twice_gives_the_same_bytes():
    file = store.as_file(
        (Run(model="llama", **series((1.0,) * 30)), Run(model="llama", **series((1.0,) * 40)))
    )
    assert encode(msgspec.json.decode(encode(file), type=ResultFile)) == encode(file)


def test_whole_numbers_in_native_metrics_survive_as_the_same_number():
    run = Run(
        **series((1.0,) * 2, step_times=(1.0, 1.0)),
        native_metrics={"whole": 26850, "per_step": (3, None)},
    )
    (again,) = decode(encode(store.as_file((run,))))
    assert again == run
    assert isinstance(again.native_metrics["whole"], float)


def test_a_stated_value_may_be_a_whole_number_of_any_size():
    run = Run(
        **series((1.0,) * 2), source=Source(kind="log", given={"global_batch_size": -(10**30)})
    )
    assert decode(encode(store.as_file((run,)))) == (run,)


@pytest.mark.parametrize("value", [5e-324, 1.7976931348623157e308, -0.0, 0.1 + 0.2])
def test_extreme_floats_survive_to_the_last_bit(value):
    run = Run(**series((1.0,) * 0), native_metrics={"figure": value})
    (again,) = decode(encode(store.as_file((run,))))
    kept = again.native_metrics["figure"]
    assert kept == value
    assert math.copysign(1, kept) == math.copysign(1, value)


def test_a_series_stands_on_one_line():
    lines = encode(store.as_file((Run(**series((1.0,) * 500)),))).decode().splitlines()
    (steps,) = [line for line in lines if line.startswith('  "steps": ')]
    assert json.loads("{" + steps.strip().rstrip(",") + "}")["steps"] == list(range(1, 501))


def test_a_file_begins_with_what_it_is():
    file = json.loads(
        encode(store.as_file((Run(platform="nvd", model="llama", **series((1.0,) * 2)),)))
    )
    assert list(file)[:6] == [
        "schema_version",
        "status",
        "status_reason",
        "platform",
        "framework",
        "model",
    ]
    assert list(file)[-1] == "runs"


@pytest.mark.parametrize("name", [name for name in SERIES if name != "steps"])
def test_series_of_different_lengths_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} has 2 entries, steps has 3"):
        Run(**series((1.0,) * 3, **{name: series((1.0,) * 2)[name]}))


def test_a_native_series_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"native_metrics\.rate has 1 entries, steps has 2"):
        Run(**series((1.0,) * 2), native_metrics={"rate": (1.0,)})


@pytest.mark.parametrize("steps", [(1, 1), (2, 1)])
def test_steps_that_do_not_rise_are_refused(steps):
    with pytest.raises(ValueError, match="steps must rise"):
        Run(**series((1.0,) * 2, steps=steps))


@pytest.mark.parametrize("name", ["step_times", "loss_values", "learning_rates", "grad_norms"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e301])
def test_series_hold_no_value_that_is_not_finite(name, value):
    with pytest.raises(ValueError, match=f"{name} must be finite or null"):
        Run(**series((1.0,) * 2, **{name: (1.0, value)}))


@pytest.mark.parametrize("time", [0.0, -1.0, 1e-10, 1e10])
def test_a_time_that_no_file_may_hold_does_not_get_into_a_run(time):
    with pytest.raises(ValueError, match="step_times must lie between"):
        Run(**series((1.0,) * 2, step_times=(1.0, time)))


@pytest.mark.parametrize(
    "text", ["yesterday", "", "2026-01-05T12:19:33", "2026-13-05T12:19:33+00:00"]
)
def test_a_timestamp_has_an_offset(text):
    with pytest.raises(ValueError, match="offset from UTC"):
        Run(timestamp=text)


@pytest.mark.parametrize("text", ["2026-01-05T12:19:33Z", "2026-01-05T13:19:33.000000+01:00"])
def test_a_timestamp_is_a_moment(text):
    assert Run(timestamp=text).started == datetime.datetime(
        2026, 1, 5, 12, 19, 33, tzinfo=datetime.timezone.utc
    )


def test_finite_leaves_out_what_is_not():
    assert finite([1.0, None, math.nan, math.inf, -math.inf, LARGEST_VALUE, 2 * LARGEST_VALUE]) == (
        1.0,
        None,
        None,
        None,
        None,
        LARGEST_VALUE,
        None,
    )


def test_a_run_cannot_be_changed():
    with pytest.raises(AttributeError):
        Run().model = "qwen"


def test_a_changed_run_is_another_one():
    run = Run(label="a")
    assert (run.but(label="b").label, run.label) == ("b", "a")
    with pytest.raises(TypeError):
        run.but(unknown=1)


def test_a_run_says_whether_it_was_recorded_and_from_which_files_it_was_read():
    file = SourceFile(path="a.log")
    assert not Run().is_live
    assert Run().source_files == ()
    assert Run(source=Source(kind="live")).is_live
    read = Run(source=Source(kind="log", files=(file,)))
    assert (read.is_live, read.source_files) == (False, (file,))


def test_zero_and_false_are_known():
    assert known_values([0, None, False, 1.5]) == [0, False, 1.5]
    assert known_items({"a": 0, "b": None, "c": ""}) == {"a": 0, "c": ""}


def test_tokens_per_step_needs_batch_and_sequence():
    assert (
        Run(
            training_config=TrainingConfig(global_batch_size=64, sequence_length=2048)
        ).tokens_per_step
        == 131072
    )
    assert Run(training_config=TrainingConfig(global_batch_size=64)).tokens_per_step is None
    assert Run(training_config=TrainingConfig(sequence_length=64)).tokens_per_step is None


def test_the_configuration_says_how_many_gpus_before_the_machine_does():
    machine = GpuInfo(device_count=8)
    assert Run(gpu_info=machine).num_gpus == 8
    assert Run(gpu_info=machine, training_config=TrainingConfig(num_gpus=4)).num_gpus == 4
    assert Run().num_gpus is None


def test_known_leaves_out_what_is_unknown_and_keeps_false():
    assert GpuInfo(device_name="X").known() == {"device_name": "X"}
    assert Environment().known()["emulated"] is False


def test_the_setup_is_more_than_the_configuration_and_less_than_the_run():
    run = Run(
        model="llama", environment=Environment(versions={"torch": "2.13.0"}), **series((1.0,) * 3)
    )
    assert setup_key(run) == setup_key(
        msgspec.structs.replace(run, notes=notes_of("doubt"), **series((1.0,) * 5))
    )
    for change in (
        {"model": "qwen"},
        {"label": "second"},
        {"training_config": TrainingConfig(micro_batch_size=1)},
        {"environment": Environment(versions={"torch": "2.4.0"})},
        {"environment": Environment(versions={"torch": "2.13.0"}, emulated=True)},
    ):
        assert setup_key(run) != setup_key(msgspec.structs.replace(run, **change))


def test_a_file_without_runs_is_one_run():
    source = Source(kind="log", files=(SourceFile(path="a.log"),))
    file = ResultFile(model="llama", source=source, **series((1.0,) * 3))
    assert runs_of(file) == (Run(model="llama", source=source, **series((1.0,) * 3)),)


@pytest.fixture(scope="module")
def generate():
    return load_tool("generate", "docs")


def test_the_generated_documents_are_current(generate, capsys):
    assert generate.main(["--check"]) == 0, capsys.readouterr().out


def test_generating_says_what_is_out_of_date_and_writes_it(generate, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generate, "DOCS", tmp_path)
    assert generate.main(["--check"]) == 1
    assert not list(tmp_path.iterdir())
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    assert (
        "docs/result-file.md is out of date: run python3 docs/generate.py"
        in capsys.readouterr().out
    )


def test_the_schema_file_is_a_schema_and_takes_our_files(repository, samples):
    schema = json.loads((repository / "docs" / "result.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    for path in sorted((samples / "results").glob("*-*.json")):
        jsonschema.validate(json.loads(encode(store.as_file(store.read(path)))), schema)


@pytest.mark.parametrize(
    "change",
    [
        {"step_times": "fast"},
        {"step_times": [0.0]},
        {"status": "fine"},
        {"gpu_info": {"device_count": 0}},
        {"runs": [{"step_times": [True]}]},
        {"memory_metrics": {"peak_memory_allocated_gb": -1}},
    ],
)
def test_the_schema_refuses_what_decoding_refuses(change):
    content = {**json.loads(encode(store.as_file((Run(**series((1.0,) * 1)),)))), **change}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, json_schema())
    with pytest.raises(msgspec.ValidationError):
        decode(json.dumps(content).encode())


def test_every_field_stands_in_the_page(repository):
    page = (repository / "docs" / "result-file.md").read_text(encoding="utf-8")
    names = {
        field.name
        for kind in vars(run_module).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        for field in msgspec.structs.fields(kind)
    }
    assert {name for name in names if f"| `{name}` |" not in page} == set()


def test_the_metrics_are_in_their_marked_place(generate):
    from tprimat.analysis import efficiency, metrics

    text = generate.contents()["metrics.md"]
    place = text.partition("<!-- generated: metrics -->\n")[2].partition(generate.END)[0]
    for metric in (*metrics.METRICS, *efficiency.METRICS):
        assert f"| {metric.title} | `{metric.name}` | {metric.unit} |" in place
    assert "46.639 / 51.470" in place


def test_a_page_that_has_lost_its_marks_is_said(generate, tmp_path, monkeypatch):
    monkeypatch.setattr(generate, "HAND_WRITTEN", tmp_path)
    (tmp_path / "metrics.md").write_text("# Metrics\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="has lost its marks"):
        generate.page_with("metrics.md", {"metrics": iter(())})
