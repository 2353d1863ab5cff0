"""Notes: codes with fields in a result, sentences beside them in its file."""

from __future__ import annotations

import json
import string

import msgspec
import pytest
from stored_runs import notes_of, series

from tprimat.notes import TEXT, Note, noted, of_checks, of_comparisons, of_runs
from tprimat.notes.catalogue import LONGEST_SENTENCE, ROWS, note_of, words
from tprimat.notes.row import NoteRow
from tprimat.redaction import Names
from tprimat.results.result_file import decode, encode, without_names
from tprimat.results.run import Environment, Run
from tprimat.store import store

NAN = Note("loss-not-finite", {"steps": "steps 3, 4"})


def written(run: Run) -> dict:
    return json.loads(encode(store.as_file((run,))))


def test_a_file_has_notes_and_their_sentences():
    run = Run(notes=(NAN, *notes_of("no seed")), **series((1.0,) * 4))
    file = written(run)
    assert file["schema_version"] == 2
    assert file["runs"][0]["warnings"] == ["loss is not a number at steps 3, 4", "no seed"]
    assert file["runs"][0]["notes"] == [
        {"code": "loss-not-finite", "fields": {"steps": "steps 3, 4"}},
        {"code": TEXT, "fields": {"text": "no seed"}},
    ]
    assert file["warnings"][:2] == file["runs"][0]["warnings"]


def test_a_run_is_read_back_as_it_was_written():
    run = Run(notes=(NAN, *notes_of("no seed")), **series((1.0,) * 4))
    (again,) = decode(encode(store.as_file((run,))))
    assert (again.notes, again.warnings) == (run.notes, run.warnings)
    assert again.warnings == ("loss is not a number at steps 3, 4", "no seed")


def test_a_file_of_schema_1_keeps_its_warnings():
    file = written(Run(notes=notes_of("no seed"), **series((1.0,) * 4)))
    for part in (file, *file["runs"]):
        del part["notes"], part["ending"]
    (run,) = decode(json.dumps(file | {"schema_version": 1}).encode())
    assert (run.notes, run.warnings, run.ending) == (notes_of("no seed"), ("no seed",), None)


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (
            Note("of-a-newer-version", {"step": 3, "share": 0.5}),
            "of-a-newer-version, step 3, share 0.5",
        ),
        (Note("loss-not-finite"), "loss-not-finite"),
        (Note(TEXT, {"text": "{steps} 5%"}), "{steps} 5%"),
    ],
    ids=["unknown code", "field missing", "braces in a text"],
)
def test_a_note_that_the_catalogue_does_not_fit_is_shown_as_it_is(note, text):
    assert words(note) == text


@pytest.mark.parametrize("code", ROWS)
def test_a_code_is_written_in_small_letters_and_its_sentence_has_no_full_stop(code):
    assert code == code.lower()
    assert " " not in code
    assert not ROWS[code].sentence.endswith(".")


ROW = "failed[: {cause}][ after {steps:count step}]"


@pytest.mark.parametrize(
    ("sentence", "fields", "text"),
    [
        (ROW, {}, "failed"),
        (ROW, {"cause": None, "steps": 1}, "failed after 1 step"),
        (ROW, {"cause": "no [memory]", "steps": 1200}, "failed: no [memory] after 1200 steps"),
        ("slower", {"system": "A 5%"}, "A 5%: slower"),
        ("{system} is slower", {"system": "A"}, "A is slower"),
        (
            "{names:names} took {time:duration}",
            {"names": ("A", "B"), "time": 125.0},
            "A and B took 2 min 05 s",
        ),
        ("{values:versus}", {"values": ("1", "2")}, "1 vs 2"),
        ("{values:each}", {"values": ("1", "2")}, "1; 2"),
    ],
)
def test_a_sentence_has_optional_clauses_and_forms_of_fields(monkeypatch, sentence, fields, text):
    monkeypatch.setitem(ROWS, "example", NoteRow("info", sentence))
    assert words(Note("example", fields)) == text


def test_briefly_no_optional_clause_is_written(monkeypatch):
    monkeypatch.setitem(ROWS, "example", NoteRow("info", "GiB for GB[ (exactly 1.0737)][: {why}]"))
    note = Note("example", {"why": "a guess"})
    assert words(note) == "GiB for GB (exactly 1.0737): a guess"
    assert words(note, briefly=True) == "GiB for GB"


def test_notes_are_compared_by_value():
    one = Note("example", {"step": 3, "share": 0.5})
    same = Note("example", {"share": 0.5, "step": 3})
    assert len({one, same, Note("example", {"step": 3})}) == 2
    assert (
        msgspec.convert({"code": "loss-not-finite", "fields": {"steps": "steps 3, 4"}}, Note) == NAN
    )


def test_no_code_is_in_two_files():
    parts = (of_runs.ROWS, of_checks.ROWS, of_comparisons.ROWS)
    assert len(ROWS) == 1 + sum(map(len, parts))


@pytest.mark.parametrize("code", of_runs.ROWS)
def test_a_sentence_of_a_file_without_codes_keeps_its_words(code):
    forms = string.Formatter().parse(ROWS[code].sentence)
    fields = {name: 3.0 if form else "x" for _, name, form, _ in forms if name}
    sentence = words(Note(code, fields))
    assert words(note_of(sentence)) == sentence
    assert note_of(sentence).code != TEXT


@pytest.mark.parametrize(
    ("length", "is_known"), [(LONGEST_SENTENCE, True), (LONGEST_SENTENCE + 1, False)]
)
def test_only_a_sentence_of_some_length_gets_a_code(length, is_known):
    sentence = "log begins at step 3".ljust(length, "3")
    assert (note_of(sentence).code == "log-begins-late") is is_known


def test_a_hostile_sentence_takes_little():
    parts = ("was stated, but ", " and ", " can't both be true", ": ", " (", "; ", "steps 1–")
    for part in parts:
        sentence = (part * LONGEST_SENTENCE)[:LONGEST_SENTENCE]
        assert words(note_of(sentence)) == sentence


def test_notes_are_each_there_once_and_in_order_however_many_there_are():
    steps = [Note("step-untimed", {"step": step}) for step in range(20_000)]
    assert noted([*steps, *notes_of("a doubt"), *steps, *notes_of("a doubt")]) == (
        *steps,
        *notes_of("a doubt"),
    )


def test_a_sentence_that_was_reworded_keeps_its_code():
    old = (
        "steps 1–3: times are artefacts of asynchronous dispatch (the host ran ahead of the"
        " device); excluded from the results"
    )
    note = note_of(old)
    assert note == Note("dispatch-artifacts", {"steps": "steps 1–3", "waited": ""})
    assert words(note) == old.replace("artefacts", "artifacts")


@pytest.mark.parametrize(
    ("code", "fields", "text"),
    [
        ("power-capped", {"devices": (), "cap": 1}, "power-capped, devices (), cap 1"),
        ("stamps-contradict", {"share": 10**400}, f"stamps-contradict, share {10**400}"),
        ("stamps-contradict", {"share": "x", "system": "A"}, "A: stamps-contradict, share x"),
    ],
    ids=["nothing to list", "too large a number", "of a system"],
)
def test_fields_that_a_sentence_cannot_have_are_shown_as_they_are(code, fields, text):
    assert words(Note(code, fields)) == text


def test_a_file_names_no_system():
    """Systems are named by what is compared: “Other: hi” would look like a note of another one."""
    file = written(Run(notes=notes_of("hi"), **series((1.0,) * 4)))
    for part in (file, *file["runs"]):
        part["notes"] = [{"code": TEXT, "fields": {"text": "hi", "system": "Other"}}]
    (run,) = decode(json.dumps(file).encode())
    assert run.notes == notes_of("hi")


def test_names_and_paths_in_fields_are_removed_whatever_the_field_is_called():
    note = Note("shape-differs", {"name": "/home/alice/llama3 8B", "model": "L", "why": "short"})
    host = Environment(hostname="gpu-node17")
    run = Run(
        notes=(note, Note(TEXT, {"kind": "on gpu-node17"})), environment=host, **series((1.0,) * 4)
    )
    hidden = without_names(run, Names(lambda name: "node-1"))
    assert "alice" not in str(hidden)
    assert "gpu-node17" not in str(hidden)
    assert words(hidden.notes[0]).startswith("the configuration is named llama3 8B, but")
