"""Files of several ranks or nodes of one training are one run, whatever the log format."""

from __future__ import annotations

import re

import pytest

from tests.read.made_logs import LOGS
from tests.read.test_timeline import MegatronLog, TrainerLog, nemo
from tprimat.api import load

_TIME = re.compile(
    r"(timing in s: |iteration \(ms\): |took |timing_s/step:|\bdt: |norm: \d\.\d+ \| )(\d+\.\d+)"
)

FORMS = {
    **{name: text for name, text in LOGS.items() if not name.startswith("wandb")},
    "nemo": nemo(20),
    "trainer": "\n".join([*TrainerLog().starts().steps(1, 100).lines, ""]),
    "megatron": "\n".join(
        [*MegatronLog().starts().dated("after megatron is initialized").steps(1, 20).lines, ""]
    ),
}


def write(folder, names, text, share=1.02):
    """Write a log, and that of another rank, whose step times are a share of it."""
    for name, factor in zip(names, (1.0, share), strict=True):
        path = folder / f"{name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_TIME.sub(lambda match: f"{match[1]}{float(match[2]) * factor:.4f}", text))  # noqa: B023


@pytest.mark.parametrize("form", FORMS)
def test_two_ranks_are_one_run(form, tmp_path):
    write(tmp_path, ("run_rank0", "run_rank1"), FORMS[form])
    assert len(load(str(tmp_path)).runs) == 1


@pytest.mark.parametrize(
    ("names", "runs"),
    [
        (("node-0/train", "node-1/train"), 1),
        (("attempt_0/0/stdout", "attempt_0/1/stdout"), 1),
        (("first", "second"), 2),
        (("a/train", "b/train"), 2),
    ],
)
def test_names_tell_which_files_are_of_ranks(names, runs, tmp_path):
    """Two runs of one seed have the same losses too."""
    write(tmp_path, names, FORMS["megatron"])
    assert len(load(str(tmp_path)).runs) == runs


@pytest.mark.parametrize(("share", "runs"), [(1.045, 1), (1.06, 2)])
def test_steps_of_ranks_take_about_as_long(share, runs, tmp_path):
    write(tmp_path, ("rank_0", "rank_1"), FORMS["megatron"], share)
    assert len(load(str(tmp_path)).runs) == runs


def test_adapters_of_two_ranks_are_two_trainings(tmp_path):
    """Of LoRA, whose losses differ."""
    text = FORMS["nemo"]
    (tmp_path / "lora_rank8.log").write_text(text)
    (tmp_path / "lora_rank16.log").write_text(text.replace("train_loss: 2.5", "train_loss: 2.4"))
    assert len(load(str(tmp_path)).runs) == 2
