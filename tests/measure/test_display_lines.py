"""The lines of a dry run: a command on several, which together are the command, and the time that a
plan takes.
"""

from __future__ import annotations

import shlex
from types import SimpleNamespace

import pytest

from tprimat import cli, frameworks
from tprimat.machine import platforms
from tprimat.machine.platforms import Machine
from tprimat.measure import display, sweep
from tprimat.results.run import Environment, GpuInfo

WORDS = [
    "cd",
    "/a directory",
    "&&",
    "env",
    "A=it's",
    "python3",
    "-m",
    "loop",
    *[f"--option-{n}={n}" for n in range(20)],
]


def test_a_command_is_continued():
    shown = display._continued(shlex.join(WORDS))
    assert shown.count("\n") > 3
    assert max(map(len, shown.split("\n"))) <= 80
    assert shlex.split(shown.replace("\\\n", "")) == WORDS


@pytest.mark.parametrize(
    ("length", "lines"), [(display.LONGEST_LINE - 1, 1), (display.LONGEST_LINE, 2)]
)
def test_a_line_is_filled(length, lines):
    # The first word is a character.
    assert len(display._continued(f"a {'b' * length}").split("\n")) == lines


@pytest.mark.parametrize(
    ("platform", "names", "said"),
    [
        (
            "nvd",
            ("lightning",),
            "at most 18 min 30 s and 2.4 GPU hours, including an estimated 1 min of start-up",
        ),
        (
            "nvd",
            ("lightning", "nemo"),
            "19 min 30 s and 2.5 GPU hours, including an estimated 1 to 2 min of start-up",
        ),
        ("cpu", ("lightning",), "at most 16 min 30 s, plus start-up time"),
    ],
)
def test_the_time_of_a_plan_includes_the_start_up_of_gpu_runs(
    monkeypatch, capsys, platform, names, said
):
    requests = [
        SimpleNamespace(
            platform=platform, framework=each, time_limit_s=480.0, num_gpus=8, scale="1b"
        )
        for each in names
    ]
    requests = (requests * 2)[:2]
    monkeypatch.setattr(sweep, "digest", lambda request, machine: id(request))
    plan = SimpleNamespace(
        requests=requests,
        order=lambda: [(1, 0), (1, 1)],
        resumes=False,
        retries_failed=False,
        cooldown_s=30.0,
        framework_of=lambda request: frameworks.by_name(request.framework),
    )
    sweep.introduce(plan, None, {})
    assert said in " ".join(capsys.readouterr().out.split())


def test_c11_the_dry_run_of_the_default_fits_a_screen_and_says_how_long(
    monkeypatch, tmp_path, capsys
):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    machine = Machine("cpu", GpuInfo(device_name="a processor"), Environment(cpu_threads=2))
    monkeypatch.setattr(platforms, "detect", lambda: machine)
    assert cli.run("benchmark", ["--framework", "lightning", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 30
    assert "all steps should take about 1 min" in out
    # What is run is all there: the first command, and by what the others differ.
    assert "--model=llama" in out
    assert (
        "3. mistral fp32: 1 run, as 1 with --model=mistral\nresult:"
        " output/benchmark_cpu_mistral.json" in out
    )


def test_c11_all_commands_are_there_for_who_asks_for_them(monkeypatch, tmp_path, capsys):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        platforms, "detect", lambda: Machine("cpu", GpuInfo(), Environment(cpu_threads=2))
    )
    for word in ("--verbose", "--quiet", "--json"):
        assert cli.run("benchmark", ["--framework", "lightning", "--dry-run", word]) == 0
        out = capsys.readouterr().out
        assert all(f"--model={model}" in out for model in ("llama", "qwen", "mistral"))
        assert out.count("tprimat.frameworks.lightning.loop") == 3


@pytest.mark.parametrize(("batch", "minutes"), [(6, 1), (7, 2)])
def test_c11_the_duration_follows_the_batch(batch, minutes, monkeypatch, tmp_path, capsys):
    """Two runs start in 20 s, and take 3 s for each sequence of a step of 60 steps each."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        platforms, "detect", lambda: Machine("cpu", GpuInfo(), Environment(cpu_threads=2))
    )
    words = ["--framework", "lightning", "--model", "llama,qwen", "--micro-batch-size", "1"]
    assert cli.run("benchmark", [*words, "--global-batch-size", str(batch), "--dry-run"]) == 0
    assert f"about {minutes} min)" in capsys.readouterr().out
