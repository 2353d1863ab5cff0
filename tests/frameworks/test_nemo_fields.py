"""--set on a tree that has fiddle's form, without fiddle."""

from __future__ import annotations

import pytest

from tprimat.errors import UsageError
from tprimat.frameworks.nemo import fields as nemo_fields


class Config:
    """As fiddle's: a class, and what it will be made with."""

    def __init__(self, made, **arguments):
        self.__dict__.update(arguments, __fn_or_cls__=made)


class Base:
    def __init__(self, find_unused=False):
        pass


class Strategy(Base):
    def __init__(self, tensor_model_parallel_size=1, sequence_parallel=False, **rest):
        super().__init__(**rest)


class Trainer:
    def __init__(self, strategy=None, max_steps=1, callbacks=None, logger=None):
        pass


def recipe(trainer):
    return None


class Timing:
    def __init__(self, log_tokens_per_sec=False):
        pass


@pytest.fixture
def tree():
    return Config(
        recipe,
        trainer=Config(Trainer, strategy=Config(Strategy), callbacks=[Config(Timing)], logger=None),
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("None", None),
        ("3", 3),
        ("1e-4", 1e-4),
        ("[1, 2]", [1, 2]),
        ("a2a", "a2a"),
        ("-5", -5),
    ],
)
def test_values(text, value):
    assert nemo_fields.parsed(text) == value


def test_a_field(tree):
    nemo_fields.assign(tree, "trainer.strategy.sequence_parallel=true")
    assert tree.trainer.strategy.sequence_parallel is True


def test_a_field_of_a_base_class_that_gets_the_rest(tree):
    nemo_fields.assign(tree, "trainer.strategy.find_unused=true")
    assert tree.trainer.strategy.find_unused is True


def test_a_place_in_a_list(tree):
    nemo_fields.assign(tree, "trainer.callbacks.0.log_tokens_per_sec=true")
    assert tree.trainer.callbacks[0].log_tokens_per_sec is True


def test_a_value_with_an_equals_sign(tree):
    nemo_fields.assign(tree, "trainer.logger=a=b")
    assert tree.trainer.logger == "a=b"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("trainer.strategy.sequence_paralel=1", "nearest are sequence_parallel"),
        ("trainer.callbacks.7.x=1", "trainer.callbacks has no field '7'"),
        ("trainer.logger.x=1", "trainer.logger has no fields"),
        ("trainer.max_steps=3", "use --steps"),
        ("nothing", "write path=value"),
        ("tariner.max_epochs=1", "the nearest are trainer"),
    ],
)
def test_a_wrong_path_names_the_nearest(tree, setting, words):
    with pytest.raises(UsageError, match=words):
        nemo_fields.assign(tree, setting)
