"""Small files of our own, each with all that is read from it: tests/read/whole_files/NAME,
whole_found/NAME.txt.

Each value in them differs from its neighbors, so that none can stand for another unnoticed.
UPDATE_GOLDEN=1 writes the golden texts, to be looked at.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import whole

FOLDER = Path(__file__).parent / "whole_files"
LOGS = sorted(FOLDER.glob("*.log"))
FILES = sorted(path for path in FOLDER.iterdir() if path.suffix != ".log")


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_all_that_a_log_tells(path):
    whole.check(f"{path.stem}.txt", whole.log(path.read_bytes()))


GIVEN = {"global_batch_size": 32, "sequence_length": 1024, "num_gpus": 12}


@pytest.mark.parametrize(
    "name", ["automodel_file", "deepspeed_every_step", "nanochat_undetermined", "trainer_console"]
)
def test_what_the_user_gives_goes_first(name):
    whole.check(f"{name}_given.txt", whole.log((FOLDER / f"{name}.log").read_bytes(), GIVEN))


# A document is one from its first line on, and an excerpt has nothing before it.
MAY_BEGIN_LATER = [
    path for path in LOGS if not path.stem.startswith(("golden", "megatron_bridge_excerpt"))
]


@pytest.mark.parametrize("path", MAY_BEGIN_LATER, ids=lambda path: path.stem)
def test_behind_other_lines_it_is_the_same(path):
    """Of a long log each reader gets the lines alone that it asks for."""
    content = path.read_bytes()
    assert whole.log_behind_others(content) == whole.log(content)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_all_that_a_file_tells(path):
    """A directory holds the files of one training; in its `beside` lie small ones that help."""
    inside = {
        each.relative_to(path).as_posix(): each
        for each in sorted(path.rglob("*"))
        if each.is_file()
    }
    files = {name: each.read_bytes() for name, each in (inside or {path.name: path}).items()}
    beside = {
        name.removeprefix("beside/"): files.pop(name)
        for name in list(files)
        if name.startswith("beside/")
    }
    whole.check(f"{path.name}.txt", whole.files(files, beside))
