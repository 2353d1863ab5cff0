"""Result files: whole, broken and hostile ones, and finding them."""

from __future__ import annotations

import array
import json
import math
import os
from pathlib import Path

import pytest
from stored_runs import a_run, written

from tprimat.errors import UnreadableError
from tprimat.results.result_file import decode, encode
from tprimat.store import store


def refusal(path: Path) -> str:
    """The one line that reading this file ends with."""
    with pytest.raises(UnreadableError) as caught:
        store.read(path)
    line = caught.value.line()
    assert line.count("\n") <= 2
    assert line.startswith(f"error: {path}")
    return line


# Reading


@pytest.fixture(scope="module")
def content() -> bytes:
    return encode(store.as_file((a_run(1.0), a_run(2.0))))


def test_a_file_cut_at_any_byte_is_one_line(tmp_path):
    series = {
        "steps": [1, 2],
        "window_steps": [1, 1],
        "step_times": [1.25, None],
        "loss_values": [2.5, 2.25],
    }
    series |= {name: [None, None] for name in ("learning_rates", "grad_norms", "lines")}
    whole = json.dumps(
        {"schema_version": 1, "model": "llama – é", "gpu_info": {"device_count": 8}, **series}
    ).encode()
    path = tmp_path / "cut.json"
    for length in range(len(whole)):
        assert "not valid JSON" in refusal(written(path, whole[:length]))
    assert store.read(written(path, whole))[0].step_times == (1.25, None)


def _leaves(value, path=()):
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        yield from _leaves(value[0], (*path, 0))


def _replaced(value, path, new):
    if not path:
        return new
    if isinstance(value, dict):
        return {**value, path[0]: _replaced(value[path[0]], path[1:], new)}
    return [_replaced(value[0], path[1:], new), *value[1:]]


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            "{}",
            "[]",
            "[[]]",
            '{"a": {"b": []}}',
            '"text"',
            '""',
            '"\\u001b[31m"',
            "true",
            "null",
            "[null]",
        ),
        *("-1", "0", "1.5", "1e300", "9" * 400, "9" * 6000),
    ],
    ids=lambda wrong: wrong if len(wrong) < 20 else f"{len(wrong)}digits",
)
def test_a_field_of_another_type_is_one_line_that_names_it(tmp_path, content, wrong):
    file = json.loads(content)
    path = tmp_path / "mistyped.json"
    refused = 0
    for place in _leaves(file):
        # Python doesn't print numbers of thousands of digits, so they are put in as text.
        path.write_text(json.dumps(_replaced(file, place, "@wrong@")).replace('"@wrong@"', wrong))
        try:
            runs = store.read(path)
        except UnreadableError as error:
            refused += 1
            line = error.line()
            assert line.count("\n") <= 2
            assert len(line) < 1000
            names = [part for part in place if isinstance(part, str)]
            assert not names or names[0] in line or names[-1] in line
        else:
            # What is let through can be summed up and written again.
            assert decode(encode(store.as_file(runs[:1]))) == runs[:1]
    assert refused


@pytest.mark.parametrize("version", [3, 99, 2**53])
def test_a_newer_version_is_refused_with_what_to_do(tmp_path, content, version):
    newer = content.replace(b'"schema_version": 2', f'"schema_version": {version}'.encode())
    line = refusal(written(tmp_path / "newer.json", newer))
    assert f"schema version {version}, this one reads up to 2" in line
    assert "update" in line


@pytest.mark.parametrize("version", ["0", "-1", '"1"', "1.5", "true", "9" * 5000])
def test_a_version_that_is_none_is_refused(tmp_path, content, version):
    changed = content.replace(b'"schema_version": 2', b'"schema_version": ' + version.encode())
    assert "schema_version" in refusal(written(tmp_path / "odd.json", changed))


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"3",
        b'"text"',
        b"not json at all",
        b"\x00" * 100,
        b"\xff\xfe\xfd",
        b"\x1f\x8b\x08\x00compressed",
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"schema_version": 2, "schema_version": 3}',
        b'{"schema_version": 1, "step_times": [NaN]}',
        b'{"step_times": [1.0, NaN], }',
        b"NaN",
    ],
    ids=lambda junk: repr(junk[:24]),
)
def test_junk_is_one_line(tmp_path, junk):
    assert len(refusal(written(tmp_path / "junk.json", junk))) < 400


def test_the_line_of_a_syntax_error_is_named(tmp_path, content):
    lines = content.split(b"\n")
    lines[4] += b" oops"
    path = written(tmp_path / "oops.json", b"\n".join(lines))
    # The reader notices at the byte after the value, which is on the same line.
    assert f"{path}:5: not valid JSON" in refusal(path)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_that_went_through_windows_is_read(tmp_path, content, encoding):
    path = tmp_path / "windows.json"
    path.write_text(content.decode(), encoding=encoding)
    assert store.read(path) == (a_run(1.0), a_run(2.0))


def test_a_file_of_absurd_size_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "LARGEST_FILE", 10)
    assert "larger than 0 MiB" in refusal(written(tmp_path / "big.json", b"{" + b" " * 10 + b"}"))


def test_a_hostile_file_name_reaches_no_terminal(tmp_path):
    path = written(tmp_path / "a\x1b[2Jb.json", b"{")
    with pytest.raises(UnreadableError) as caught:
        store.read(path)
    assert "\x1b" not in caught.value.line()


# Finding


def test_folders_are_read_with_all_below_them_but_not_history(tmp_path):
    places = ["a", "machine/b", "machine/history/old", "history/old", ".hidden/c", "d"]
    for place in places:
        folder = tmp_path / Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        store.save(a_run(label=place), folder)
    loaded, warnings = store.find([tmp_path])
    assert [Path(file.name).parent.relative_to(tmp_path).as_posix() for file in loaded] == [
        "a",
        "d",
        "machine/b",
    ]
    assert warnings == []


def test_a_folder_named_history_itself_is_read(tmp_path):
    folder = tmp_path / "history"
    store.save(a_run(), folder)
    assert len(store.find([folder])[0]) == 1


def test_junk_in_a_folder_is_a_warning_each(tmp_path):
    good = store.save(a_run(), tmp_path).path
    for name in ("package.json", "zz.json"):
        written(tmp_path / name, b'{"name": "x"}')
    written(tmp_path / "notes.txt", b"no result")
    (tmp_path / "broken_link.json").symlink_to(tmp_path / "nowhere.json")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    loaded, notes = store.find([tmp_path])
    assert [file.name for file in loaded] == [str(good)]
    assert [note.code for note in notes] == ["skipped"] * 3
    assert all(str(tmp_path) in note.fields["files"][0] for note in notes)


def test_a_broken_file_that_was_named_is_an_error(tmp_path):
    good = store.save(a_run(), tmp_path).path
    broken = written(tmp_path / "broken.json", b"{}")
    with pytest.raises(UnreadableError, match="not a result"):
        store.find([good, broken])


@pytest.mark.parametrize("name", ["nowhere", "a\x00b", "x" * 5000, "file/below"])
def test_what_is_not_there_is_an_error(tmp_path, name):
    written(tmp_path / "file", b"")
    with pytest.raises(UnreadableError, match=r"can't be read|no such file") as caught:
        store.find([tmp_path / name])
    assert caught.value.heading == "unreadable-file"


def test_a_file_that_is_named_twice_counts_once(tmp_path):
    path = store.save(a_run(), tmp_path).path
    link = tmp_path / "link.json"
    link.symlink_to(path)
    loaded, _ = store.find([path, tmp_path / "." / path.name, tmp_path, link])
    assert [file.name for file in loaded] == [str(path)]


def test_files_stand_in_the_order_of_the_arguments(tmp_path):
    paths = [store.save(a_run(label=label), tmp_path).path for label in ("a", "b", "c")]
    loaded, _ = store.find(paths[::-1])
    assert [file.name for file in loaded] == [str(path) for path in paths[::-1]]


def test_the_numbers_of_steps_are_one_object_in_files_that_have_the_same(tmp_path):
    paths = [store.save(a_run(label=label), tmp_path).path for label in ("a", "b")]
    (first,), (second,) = (file.runs for file in store.find(paths)[0])
    assert first.steps is second.steps
    assert first.lines is second.lines
    assert (first.steps, first.window_steps) == (a_run().steps, a_run().window_steps)


def test_loaded_series_have_the_values_and_the_fingerprint_of_the_file(tmp_path):
    path = store.save(a_run(), tmp_path).path
    (run,) = store.find([path])[0][0].runs
    assert isinstance(run.step_times, array.array)
    assert list(run.step_times) == list(a_run().step_times)
    assert store.fingerprint(run) == store.fingerprint(store.read(path)[0])


@pytest.mark.parametrize("broken", [math.nan, math.inf, 0.0])
def test_a_series_is_checked_before_it_becomes_an_array(tmp_path, broken):
    path = store.save(a_run(), tmp_path).path
    content = json.loads(path.read_text())
    content["runs"][0]["step_times"][0] = broken
    path.write_text(json.dumps(content))
    with pytest.raises(UnreadableError):
        store.find([path])


def test_the_runs_of_a_file_count_and_not_its_top_level(tmp_path):
    path = store.save(a_run(), tmp_path).path
    content = json.loads(path.read_text())
    content["steps"] = [3, 2, 1]
    path.write_text(json.dumps(content))
    assert store.read(path)[0].steps == a_run().steps
    content["runs"] = []
    path.write_text(json.dumps(content))
    with pytest.raises(UnreadableError, match="steps must rise"):
        store.read(path)
