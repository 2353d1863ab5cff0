"""Notes: codes with fields in a result, sentences beside them in its file."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.stored_runs import notes_of, series
from tprimat.notes import TEXT, Note
from tprimat.notes.catalogue import ROWS, words
from tprimat.results.result_file import decode, encode
from tprimat.results.run import Run
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


def test_notes_are_compared_by_value():
    assert (
        msgspec.convert({"code": "loss-not-finite", "fields": {"steps": "steps 3, 4"}}, Note) == NAN
    )
