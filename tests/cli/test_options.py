"""Parsers name what they offer without importing it; here the names are compared with the tables."""

import dataclasses
import re

import pytest

from tprimat import frameworks
from tprimat.cli.options import _encdec_choice, _nemo, benchmark, compare_frameworks, encdec, run_primus
from tprimat.frameworks import defaults as framework_defaults
from tprimat.frameworks import request, scales
from tprimat.frameworks.encdec import launch as encdec_launch
from tprimat.frameworks.encdec.settings import MODEL
from tprimat.frameworks.nemo import defaults
from tprimat.frameworks.primus import installation
from tprimat.measure import plan
from tprimat.store.legacy_schema import FRAMEWORKS, PLATFORMS


def test_platforms_and_frameworks_are_those_of_the_older_results():
    assert sorted(PLATFORMS) == list(compare_frameworks.PLATFORMS)
    assert ", ".join(f"{short} ({name})" for short, name in FRAMEWORKS.items()) == compare_frameworks.SHORT


def test_benchmark_and_nemo_know_the_names_of_the_frameworks():
    assert scales.names() == benchmark.SCALES
    assert request.PRECISIONS == benchmark.PRECISIONS
    assert request.PROFILERS == benchmark.PROFILERS
    assert request.DATA == _nemo.DATA
    assert defaults.PRESETS == _nemo.PRESETS
    assert defaults.PERFORMANCE == _nemo.DEFAULT_PRESET
    shown = " ".join(benchmark.parser().format_help().split())
    assert all(name in shown for name in frameworks.names())
    steps = f"(default: {framework_defaults.STEPS_ON_CPU} on a CPU, {framework_defaults.STEPS_ON_GPU} on a GPU)"
    assert steps in shown
    assert f"(default: {plan.COOLDOWN_ON_GPU:.0f} on a GPU, 0 on a CPU)" in shown


def test_run_primus_knows_the_names_of_primus():
    assert tuple(installation.FILES) == run_primus.MODELS
    assert tuple(installation.LAUNCHERS) == run_primus.LAUNCHERS
    assert tuple(installation.PRECISIONS) == run_primus.PRECISIONS


@pytest.mark.parametrize(
    "field", [field for field in dataclasses.fields(encdec_launch.RequestedConfig) if type(field.default) is int]
)
def test_the_defaults_that_the_encoder_decoders_help_states(field):
    (action,) = (each for each in encdec.parser()._actions if each.dest == field.name)
    assert re.search(r"default: (\d+)", action.help)[1] == str(field.default)


def test_the_other_numbers_of_the_encoder_decoders_help():
    shown = " ".join(encdec.parser().format_help().split())
    for words in (
        f"(default: {encdec_launch.SAMPLES_ON_GPU} on GPUs, {encdec_launch.SAMPLES_ON_CPU} on a CPU)",
        f"as many as make {encdec_launch.FULL_BYTES / 1e9:.0f} GB",
        f"up to {encdec_launch.MOST_WORKERS}, by the cores",
    ):
        assert words in shown
    assert encdec.PRECISIONS == encdec_launch.PRECISIONS
    assert _encdec_choice.MODEL == MODEL
