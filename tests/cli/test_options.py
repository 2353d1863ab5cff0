"""Help texts follow the tables; where a parser repeats names of a heavier part, they are compared with it."""

import dataclasses
import re

import pytest

from tprimat import frameworks
from tprimat.cli.options import benchmark, compare_frameworks, encdec
from tprimat.frameworks import defaults as framework_defaults
from tprimat.frameworks.encdec import launch as encdec_launch
from tprimat.frameworks.encdec.request import MODEL
from tprimat.frameworks.primus import installation
from tprimat.measure import plan
from tprimat.store.legacy_schema import FRAMEWORKS, PLATFORMS


def test_platforms_and_frameworks_are_those_of_the_older_results():
    assert sorted(PLATFORMS) == list(compare_frameworks.PLATFORMS)
    assert ", ".join(f"{short} ({name})" for short, name in FRAMEWORKS.items()) == compare_frameworks.SHORT


def test_help_of_benchmark_is_made_from_the_rows_of_frameworks(monkeypatch):
    monkeypatch.setattr(framework_defaults, "STEPS_ON_CPU", 61)
    row = frameworks.Framework("another-framework")
    monkeypatch.setattr(frameworks, "FRAMEWORKS", (*frameworks.FRAMEWORKS, row))
    shown = " ".join(benchmark.parser().format_help().split())
    assert f"(default: {framework_defaults.STEPS_ON_GPU}; 61 on a CPU)" in shown
    assert "megatron, torchtitan, another-framework" in shown
    assert f"(default: {plan.COOLDOWN_ON_GPU:.0f}; 0 on a CPU)" in shown


def test_primus_has_a_configuration_for_each_model_of_its_row():
    assert {*installation.FILES, *installation.BORROWED} == {*frameworks.by_name("primus").models}
    assert {*installation.BORROWED.values()} <= {*installation.FILES}


@pytest.mark.parametrize(
    "field", [field for field in dataclasses.fields(encdec_launch.RequestedEncDec) if type(field.default) is int]
)
def test_the_defaults_that_the_encoder_decoders_help_states(field):
    name = {"micro_batch_size": "batch_size", "sequence_length": "seq_len"}.get(field.name, field.name)
    (action,) = (each for each in encdec.parser()._actions if each.dest == name)
    assert re.search(r"default: (\d+)", action.help)[1] == str(field.default)


def test_the_other_numbers_of_the_encoder_decoders_help():
    shown = " ".join(encdec.parser().format_help().split())
    for words in (
        f"(default: {encdec_launch.SAMPLES_ON_GPU}; {encdec_launch.SAMPLES_ON_CPU} on a CPU)",
        f"generate {encdec_launch.FULL_BYTES / 1e9:.0f} GB",
        f"up to {encdec_launch.MOST_WORKERS}; 1 on a CPU",
        f"seed weights and data (default: {framework_defaults.SEED})",
    ):
        assert words in shown
    assert set(encdec.PRECISIONS) == set(encdec_launch.ENCDEC.precisions)
    assert encdec.MODEL == MODEL
