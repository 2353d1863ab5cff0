"""What other code selects from the rows of settings: a new row reaches it by its role."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest
from made_runs import comparison, make_run, shape

from tprimat.cli import _local_logs
from tprimat.cli.options import benchmark
from tprimat.compare import curves, regression
from tprimat.report import efficiency
from tprimat.results.run import MemoryMetrics, Run
from tprimat.settings import Setting, value_of
from tprimat.settings.rows import DIVISION, IDENTITY, LEDGER, NEEDED, SHAPE, SIZES


def with_other(run: Run, row: Setting) -> Run:
    """A run with another value of a setting."""
    field = row.field.split()[0]
    value = value_of(run, field)
    other = 2 * value if isinstance(value, int) else f"other {value}"
    section, _, name = field.rpartition(".")
    return changed(run, section, **{name: other})


def changed(run: Run, section: str, **values: object) -> Run:
    if not section:
        return msgspec.structs.replace(run, **values)
    return msgspec.structs.replace(
        run, **{section: msgspec.structs.replace(getattr(run, section), **values)}
    )


def test_a_key_without_a_name_is_a_key():
    run = make_run(framework_config={"": "one", "other": "two"})
    assert value_of(run, "framework_config.") == "one"
    assert value_of(make_run(framework_config={"other": "two"}), "framework_config.") is None
    assert value_of(run, "framework_config") == run.framework_config


@pytest.mark.parametrize("row", IDENTITY, ids=lambda row: row.key)
def test_another_identity_is_another_system(row):
    run = make_run(label="a")
    other = with_other(run, row)
    assert regression._key(run) != regression._key(other)
    found = {curves._key(SimpleNamespace(run=each, unit="tokens")) for each in (run, other)}
    assert len(found) == (1 if row.key in ("num_gpus", "global_batch_size") else 2)


def test_what_is_tuned_and_new_software_is_the_same_system():
    run = make_run(label="a")
    faster = changed(run, "training_config", micro_batch_size=4, recomputation="none")
    assert regression._key(run) == regression._key(
        changed(faster, "gpu_info", software_version="13.0")
    )


@pytest.mark.parametrize(
    ("section", "values", "notes"),
    [
        ("label", {}, 1),
        ("training_config", {"seed": 7}, 1),
        ("training_config", {"recomputation": "full"}, 0),
        ("training_config", {"sequence_length": 4096}, 0),
        ("parallelism_config", {"tensor_model_parallel_size": 2}, 0),
        ("parallelism_config", {"strategy_name": "FSDP"}, 0),
        ("model_config", {"trainable_parameters": 10}, 0),
    ],
)
def test_the_micro_batch_that_fits_is_that_of_one_configuration(section, values, notes):
    small, large = (
        changed(
            make_run(
                model_config=shape(),
                memory_metrics=MemoryMetrics(peak_memory_allocated_gb=10.0 * micro),
                label=str(micro),
            ),
            "training_config",
            micro_batch_size=micro,
        )
        for micro in (1, 2)
    )
    found = efficiency.micro_batches(
        comparison(small, changed(large, section, **values) if values else large)
    )
    assert len(found) == notes


def test_all_that_two_trainings_do_alike_is_looked_at():
    passed = {row.key for row in LEDGER if row.role != "harmless" and row.configured} - {
        *efficiency._VARIED
    }
    assert passed <= {row.key for row in efficiency._KEPT}


@pytest.mark.parametrize(
    "words", [["--steps", "9"], ["--eager"], ["--tp", "2"], ["--set", "a=b"], ["--cooldown", "1"]]
)
def test_who_gives_a_setting_wants_to_measure(monkeypatch, words):
    monkeypatch.setenv("LLAMA_LOG", "/no/such.log")
    assert (
        _local_logs.import_local_logs(
            benchmark.parser().parse_args(words), SimpleNamespace(platform="amd")
        )
        is None
    )


def test_parts_of_a_shape():
    assert (
        *("num_layers", "hidden_size", "num_attention_heads"),
        *("num_query_groups", "ffn_hidden_size", "vocab_size"),
    ) == SIZES
    assert set(NEEDED) < set(SIZES) < set(SHAPE)
    assert DIVISION == (
        "tensor_model_parallel_size",
        "pipeline_model_parallel_size",
        "context_parallel_size",
    )
