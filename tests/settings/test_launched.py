"""The arguments of launches, from the rows of settings."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from tprimat.cli.options import benchmark
from tprimat.errors import UsageError
from tprimat.frameworks import by_name
from tprimat.frameworks.loops import recipe
from tprimat.frameworks.nemo import recipe as nemo
from tprimat.frameworks.request import BUILT_IN_CHOICES, Device, Request, RequestedConfig
from tprimat.settings import rows
from tprimat.settings.rows import DIVISION

H100S = Device("nvd", 8, 80e9, "sm_90", "NVIDIA H100 80GB HBM3")


@pytest.fixture
def request_of(tmp_path):
    return lambda framework, **wishes: by_name(framework).resolve_config(
        "llama", RequestedConfig(**wishes), H100S, tmp_path
    )[0]


class Fields(SimpleNamespace):
    """A part of a recipe, which makes the parts that it is asked for."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, Fields())
        return getattr(self, name)


@pytest.fixture
def nemo_is_here(monkeypatch):
    made = Fields(trainer=Fields(callbacks=[]))
    llm = SimpleNamespace(
        llama31_8b=SimpleNamespace(pretrain_recipe=lambda **_: made),
        MockDataModule=None,
        PreTrainingDataModule=None,
    )
    modules = {
        "nemo_run": {"Config": lambda kind, **fields: Fields(**fields)},
        "nemo.collections": {"llm": llm},
        "nemo.collections.common.tokenizers.null_tokenizer": {"NullTokenizer": None},
        "nemo.collections.llm.recipes.llama3_8b": {
            "pretrain_performance_optimizations": lambda _: None
        },
        "tprimat.frameworks.nemo.recording": {"NemoBenchmark": None},
    }
    for name, content in modules.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**content))


def test_a_recipe_of_nemo_has_the_requests_choices(nemo_is_here, request_of):
    request = request_of("nemo", steps=30, sequence_length=4096, micro_batch_size=2)
    made = nemo.build(request)
    assert (made.data.seq_length, made.data.micro_batch_size) == (4096, 2)
    assert (made.data.global_batch_size, made.trainer.max_steps) == (request.global_batch_size, 30)
    strategy, config = made.trainer.strategy, made.model.config
    assert [getattr(strategy, name) for name in DIVISION] == [1, 1, 2]
    assert (config.num_layers, config.kv_channels, config.seq_length) == (32, 128, 4096)
    assert (config.share_embeddings_and_output_weights, config.vocab_size) == (False, 128256)
    # The recipe's own activation stays.
    assert "gated_linear_unit" not in vars(config)


@pytest.mark.parametrize("column", rows.RECIPES)
def test_a_new_row_reaches_a_launch_by_all_of_its_paths(monkeypatch, request_of, column):
    run = recipe.described(request_of("lightning"))
    before = rows.launched(column, run)
    row = rows.Setting(
        "", "training_config.seed", called="other", **{column: "model.other data.other"}
    )
    monkeypatch.setattr(rows, "SETTINGS", (*rows.SETTINGS, row))
    assert rows.launched(column, run) == before | dict.fromkeys(
        ("model.other", "data.other"), run.training_config.seed
    )


def test_an_option_has_the_first_of_its_names(request_of):
    run = recipe.described(request_of("lightning"))
    assert {"debug.seed", "training.seed"} & rows.launched("torchtitan", run).keys() == {
        "debug.seed"
    }


@pytest.mark.parametrize("row", [row for row in rows.SETTINGS if row.flag], ids=lambda row: row.key)
def test_a_row_with_an_option_can_be_requested(row):
    assert row.option in benchmark.parser().flags()
    assert row.key == "framework" or row.request in RequestedConfig.DEFAULTS


@pytest.mark.parametrize("name", BUILT_IN_CHOICES)
def test_a_choice_of_the_built_in_loops_is_a_row_and_a_field(request_of, name):
    default, *others = BUILT_IN_CHOICES[name]
    assert getattr(Request, name) == getattr(request_of("lightning"), name) == default
    for value in others:
        assert getattr(request_of("lightning", **{name: value}), name) == value
        options = benchmark.parser().parse_args([f"--{name}", value])
        assert getattr(options, name) == value
    with pytest.raises(UsageError):
        benchmark.parser().parse_args([f"--{name}", "other"])
    with pytest.raises(UsageError, match="does not support"):
        request_of("nemo", **{name: default})
