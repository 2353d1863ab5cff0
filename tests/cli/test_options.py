"""Help texts follow the tables; where a parser repeats names of a heavier part, they are compared
with it.
"""

import argparse
import contextlib
import dataclasses
import importlib
import io
import re
import shlex

import pytest

from tprimat import frameworks
from tprimat.cli import COMMANDS, run
from tprimat.cli.options import benchmark, compare_frameworks, encdec
from tprimat.frameworks import defaults as framework_defaults
from tprimat.frameworks.encdec import launch as encdec_launch
from tprimat.frameworks.encdec.request import MODEL
from tprimat.frameworks.primus import installation
from tprimat.measure import plan
from tprimat.store.legacy_schema import FRAMEWORKS, PLATFORMS


def test_platforms_and_frameworks_are_those_of_the_older_results():
    assert sorted(PLATFORMS) == list(compare_frameworks.PLATFORMS)
    assert (
        ", ".join(f"{short} ({name})" for short, name in FRAMEWORKS.items())
        == compare_frameworks.SHORT
    )


def test_help_of_benchmark_is_made_from_the_rows_of_frameworks(monkeypatch):
    monkeypatch.setattr(framework_defaults, "STEPS_ON_CPU", 61)
    row = frameworks.Framework("another-framework")
    monkeypatch.setattr(frameworks, "FRAMEWORKS", (*frameworks.FRAMEWORKS, row))
    shown = " ".join(benchmark.parser().format_help().split())
    assert f"(default: {framework_defaults.STEPS_ON_GPU}; 61 on a CPU)" in shown
    assert "megatron, torchtitan, another-framework" in shown
    assert f"(default: {plan.COOLDOWN_ON_GPU:.0f}; 0 on a CPU)" in shown


@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("benchmark", ["--model", "--precision", "--framework", "--runs", "--dry-run"]),
        ("compare", ["PATH", "--cost", "--precision", "--reference", "--efficiency"]),
    ],
)
def test_the_help_begins_with_examples_and_the_options_that_most_people_need(
    monkeypatch, command, first
):
    monkeypatch.setenv("COLUMNS", "80")
    parser = importlib.import_module(f"tprimat.cli.options.{command}").parser()
    usage, _, examples, most_used, *others = parser.format_help().split("\n\n")
    assert usage.startswith(f"usage: {parser.prog} ")
    assert (
        re.findall(r"^  (--[\w-]+|[A-Z]+)", most_used.removeprefix("most used:\n"), re.MULTILINE)
        == first
    )
    assert len(parser.format_help().partition(others[0])[0].splitlines()) <= 29
    words = [
        line.strip().partition("  ")[0].removeprefix(parser.prog)
        for line in examples.splitlines()[1:]
    ]
    assert len(words) >= 4
    for each in words:
        if "--help" not in each:
            parser.parse_args(shlex.split(each))


@pytest.mark.parametrize(
    ("command", "words", "hint"),
    [
        ("benchmark", ["--modle", "llama"], "did you mean --model?"),
        ("compare", ["--price", "2.95"], "did you mean --cost?"),
        ("compare", ["--prices", "H100=2.95"], "did you mean --cost?"),
        ("benchmark", ["--modle=llama"], "did you mean --model?"),
        ("benchmark", ["--model", "encdec", "--epocs", "3"], "did you mean --epochs?"),
        ("benchmark", ["--model", "llama", "stray", "--stepps", "3"], "did you mean --steps?"),
        ("compare", ["--refrence", "H100"], "did you mean --reference?"),
        ("compare", ["--no-such-thing"], "tprimat compare --help lists the options"),
        (
            "run-primus",
            ["--ouput-dir", "x"],
            "put Primus' own arguments after --; did you mean --output-dir?",
        ),
        # An abbreviation stays one where it is not ambiguous; an option that the help hides is not
        # proposed.
        ("compare", ["--enhancd"], "tprimat compare --help lists the options"),
        ("benchmark", ["--training-line"], "tprimat benchmark --help lists the options"),
    ],
)
def test_an_option_with_a_slip_of_the_pen_is_recognized(command, words, hint, capsys):
    assert run(command, words) == 2
    assert capsys.readouterr().err.splitlines()[1] == f"hint:  {hint}"


@pytest.mark.parametrize(
    "command", [(name,) for name in COMMANDS] + [("benchmark", "--model", "encdec")]
)
def test_each_command_knows_its_version(command, capsys):
    with pytest.raises(SystemExit) as ended:
        run(command[0], [*command[1:], "--version"])
    assert ended.value.code == 0
    assert re.fullmatch(r"tprimat \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_primus_has_a_configuration_for_each_model_of_its_row():
    assert {*installation.FILES, *installation.BORROWED} == {*frameworks.by_name("primus").models}
    assert {*installation.BORROWED.values()} <= {*installation.FILES}


@pytest.mark.parametrize(
    "field",
    [
        field
        for field in dataclasses.fields(encdec_launch.RequestedEncDec)
        if type(field.default) is int
    ],
)
def test_the_defaults_that_the_encoder_decoders_help_states(field):
    name = {"micro_batch_size": "batch_size", "sequence_length": "seq_len"}.get(
        field.name, field.name
    )
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


def shown_help(command, *words):
    """What a command prints with --help, in lines."""
    done = io.StringIO()
    with contextlib.redirect_stdout(done), pytest.raises(SystemExit) as ended:
        run(command, [*words])
    assert ended.value.code == 0
    return done.getvalue().splitlines()


@pytest.mark.parametrize(
    "command", [name for name in COMMANDS if name != "benchmark"] + ["benchmark"]
)
def test_c11_help_is_short_and_names_every_option(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    parser = importlib.import_module(f"tprimat.cli.options.{command.replace('-', '_')}").parser()
    short, whole = shown_help(command, "--help"), shown_help(command, "--verbose", "--help")
    assert len(short) <= 60
    assert "\n".join(whole) + "\n" == parser.format_help()
    shown = [
        action
        for action in parser._actions
        if action.help != argparse.SUPPRESS and action.option_strings
    ]
    for action in shown:
        assert action.option_strings[-1] in " ".join(short).replace(",", " ").split()


@pytest.mark.parametrize(
    "words", [["--help", "--verbose"], ["-h", "--verbose"], ["--verbose", "-h"]]
)
def test_c11_verbose_explains_every_option(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert len(shown_help("benchmark", *words)) > 100
    (line,) = shown_help("benchmark", "--help")[-1:]
    assert line == "`tprimat benchmark --help --verbose` explains all of them."
