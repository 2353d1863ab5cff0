"""The exact names of metrics: the row that decides each one in the samples, and in which order."""

from __future__ import annotations

import csv

import pytest

from tprimat.catalog import meanings
from tprimat.catalog.exact_names import ROWS, names_of
from tprimat.read import tracked
from tprimat.read.nemo import reader as nemo
from tprimat.read.tensorboard.reader import LAYOUTS
from tprimat.read.tensorboard.tfevents import Events, read_into

EVENTS = {
    "nemo_autoconf_gpt3_126m": {
        "lr": ("NeMo", "learning_rate"),
        "consumed_samples": ("NeMo", "consumed_samples"),
        "global_batch_size": ("NeMo", "batch_size"),
        "reduced_train_loss": ("NeMo", "loss"),
        "grad_norm": ("NeMo", "grad_norm"),
        "train_step_timing in s": ("NeMo", "seconds"),
        "val_loss": ("whole trainings", "last_validation_loss"),
        "global_step": ("words", "step"),
        "epoch": ("words", "epoch"),
        "validation_step_timing in s": ("words", "evaluation"),
    },
    "nemo_lightning_v0": {"hp_metric": ("words", None)},
    "megatron_gpt3-357m_dgx": {
        "learning-rate": ("Megatron", "learning_rate"),
        "learning-rate vs samples": ("words", "learning_rate"),
        "lm loss": ("Megatron", "loss"),
        "lm loss vs samples": ("words", "consumed_samples"),
        "loss-scale": ("Megatron", "loss_scale"),
        "loss-scale vs samples": ("words", ""),
        "grad-norm": ("Megatron", "grad_norm"),
        "grad-norm vs samples": ("words", "grad_norm"),
        "params-norm": ("words", ""),
        "params-norm vs samples": ("words", ""),
        "num-zeros": ("words", None),
        "num-zeros vs samples": ("words", "consumed_samples"),
    },
    "megatron_deepseek_mtp": {
        "learning-rate": ("Megatron", "learning_rate"),
        "learning-rate vs samples": ("words", "learning_rate"),
        "batch-size": ("Megatron", "batch_size"),
        "batch-size vs samples": ("words", "consumed_samples"),
        "lm loss": ("Megatron", "loss"),
        "lm loss vs samples": ("words", "consumed_samples"),
        "lm loss validation": ("whole trainings", "last_validation_loss"),
        "lm loss validation vs samples": ("words", "evaluation"),
        "loss-scale": ("Megatron", "loss_scale"),
        "loss-scale vs samples": ("words", ""),
        "grad-norm": ("Megatron", "grad_norm"),
        "grad-norm vs samples": ("words", "grad_norm"),
        # The losses of predicted further tokens.
        "mtp_1 loss": ("words", "aux_loss"),
        "mtp_2 loss": ("words", "aux_loss"),
        "mtp_3 loss": ("words", "aux_loss"),
    },
}
"""The program and the kind of the row that decides a tag, by the folder of its sample."""


def decided(name: str, sources: tuple[str, ...]) -> tuple[str, str | None]:
    """Return the source and the kind of the row that decides a name; the words, if no row of these
    sources has it.
    """
    for source in sources:
        for kind, names in ROWS[source].items():
            if name in names:
                return source, kind
    meaning = meanings.meaning_of(name)
    return "words", meaning.kind if meaning else None


@pytest.mark.parametrize("folder", EVENTS)
def test_the_row_that_decides_each_tag_of_the_samples(samples, folder):
    events = Events()
    (path,) = (samples / "tfevents" / folder).glob("events.*")
    with path.open("rb") as stream:
        read_into(stream, events)
    program = {"nemo": "NeMo", "mega": "Megatron"}[folder[:4]]
    found = {tag: decided(tag, (program, "whole trainings")) for tag in events.scalars}
    assert found == EVENTS[folder]


def test_the_row_that_decides_each_column_of_lightning_in_the_samples(samples):
    with (samples / "lightning" / "slm_version_10_metrics.csv").open(encoding="utf-8") as stream:
        header = next(csv.reader(stream))
    assert {name: decided(name, ("Lightning",)) for name in header} == {
        "epoch": ("Lightning", "epoch"),
        "step": ("words", "step"),
        "train_loss_step": ("Lightning", "loss"),
        "train_perplexity_step": ("Lightning", "perplexity"),
    }


@pytest.mark.parametrize("source", ROWS)
def test_no_two_rows_of_a_source_have_the_same_name(source):
    every = [name for names in ROWS[source].values() for name in names]
    assert len(every) == len({*every})


def test_every_name_is_read():
    known = {*tracked.READ, *nemo.NAMES}
    for names in (*(layout.tags for layout in LAYOUTS), names_of("whole trainings")):
        known.update(name for tags in names.values() for name in tags)
    assert known >= {name for rows in ROWS.values() for names in rows.values() for name in names}


def test_the_names_of_several_sources_follow_each_other():
    both = names_of("NeMo", "torchtitan")
    assert both["learning_rate"] == ("lr", "learning_rate")
    assert both["seconds"][-1] == "time_metrics/end_to_end(s)"
    assert names_of("torchtitan")["seconds"] == ("time_metrics/end_to_end(s)",)
    assert names_of() == {}


WORDS_SAY_ELSE = {
    # A loss of the step, not a loss called step.
    "train/loss_step": "aux_loss",
    "loss_step": "aux_loss",
    "train_loss/step": "step",
    "loss_metrics/global_avg_loss": "averaged",
    "actor/pg_loss": "aux_loss",
    "actor/loss": "loss",
    # LitGPT's, of a micro-batch.
    "iter_time": "seconds",
    "total_tokens": "consumed_tokens",
    # The words don't say whose rate it is.
    "throughput/device/tokens_per_sec": "tokens_per_second",
    "throughput(tps)": "tokens_per_second",
    "wps": "tokens_per_second",
    "global_batch_size": "global_batch_size",
    "val_loss": "evaluation",
    "lm loss validation": "evaluation",
    "train/train_runtime": "elapsed_seconds",
    "train_runtime": "elapsed_seconds",
    "train/train_samples_per_second": "samples_per_second",
    "train/train_steps_per_second": "steps_per_second",
}
"""Names that words alone would take for something else."""


def test_the_names_that_words_would_take_for_something_else():
    found = {}
    for kind, names in ((kind, names) for rows in ROWS.values() for kind, names in rows.items()):
        for name in names:
            meaning = meanings.meaning_of(name)
            if meaning and meaning.kind not in (
                kind,
                "memory",
                "micro_batch_size",
                meanings.IGNORED,
            ):
                found[name] = meaning.kind
    assert found == WORDS_SAY_ELSE
