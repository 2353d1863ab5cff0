"""A request: what it says of itself, and its way through a command line."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tprimat.frameworks.request import Launch, Request
from tprimat.results.run import ModelConfig

REQUEST = Request(
    framework="lightning",
    platform="cpu",
    model="llama",
    scale="tiny",
    precision="fp32",
    steps=60,
    global_batch_size=16,
    micro_batch_size=2,
    sequence_length=128,
    seed=1234,
    num_gpus=2,
    output_dir=Path("/some/where"),
)


class TestArguments:
    def test_there_and_back(self):
        assert Request.from_arguments(REQUEST.to_arguments()) == REQUEST

    @given(
        label=st.none()
        | st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
        limit=st.none() | st.floats(0.1, 1e6),
        seed=st.integers(0, 2**62),
        folder=st.sampled_from(["/a directory/with 'quotes'", "/-dash", "/ü"]),
        shape=st.none() | st.builds(ModelConfig, num_layers=st.integers(1, 99), source=st.text()),
    )
    def test_whatever_the_user_chose(self, label, limit, seed, folder, shape):
        request = dataclasses.replace(
            REQUEST,
            label=label,
            time_limit_s=limit,
            seed=seed,
            output_dir=Path(folder),
            shape=shape,
        )
        assert Request.from_arguments(request.to_arguments()) == request

    def test_a_text_stays_a_text_whatever_it_looks_like(self):
        request = dataclasses.replace(
            REQUEST, label="null", settings=("a=1", "true", "3"), cuda_graphs=True
        )
        assert Request.from_arguments(request.to_arguments()) == request

    @pytest.mark.parametrize("arguments", [["--steps=ten"], ["--model=llama"], ["--unknown=1"], []])
    def test_anything_else_is_wrong_usage(self, arguments, capsys):
        with pytest.raises(SystemExit) as ended:
            Request.from_arguments(arguments)
        assert ended.value.code == 2
        assert "usage" in capsys.readouterr().err


def test_accumulation():
    assert REQUEST.gradient_accumulation_steps == 4


def test_shell_line_can_be_typed(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/mine")
    launch = Launch(
        ("python", "-c", "print('a b')"), {"B": "x y", "A": "1"}, Path("/tmp/a directory")
    )
    words = shlex.split(launch.shell_line())
    assert words[:3] == ["cd", "/tmp/a directory", "&&"]
    assert words[3:6] == ["env", "A=1", "B=x y"]
    assert words[6].startswith("PYTHONPATH=")
    assert words[6].endswith(":/mine")
    assert words[7:] == ["python", "-c", "print('a b')"]
