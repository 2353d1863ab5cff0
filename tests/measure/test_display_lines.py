"""The lines of a dry run: a command on several, which together are the command, and the time that a plan takes."""

from __future__ import annotations

import shlex
from types import SimpleNamespace

import pytest

from tprimat import frameworks
from tprimat.measure import display, sweep

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


@pytest.mark.parametrize(("length", "lines"), [(display.LONGEST_LINE - 1, 1), (display.LONGEST_LINE, 2)])
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
        ("nvd", ("lightning", "nemo"), "19 min 30 s and 2.5 GPU hours, including an estimated 1 to 2 min of start-up"),
        ("cpu", ("lightning",), "at most 16 min 30 s, plus start-up time"),
    ],
)
def test_the_time_of_a_plan_includes_the_start_up_of_gpu_runs(monkeypatch, capsys, platform, names, said):
    requests = [SimpleNamespace(platform=platform, framework=each, time_limit_s=480.0, num_gpus=8) for each in names]
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
