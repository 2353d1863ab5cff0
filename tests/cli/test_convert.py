"""`convert` and the scripts convert_*.py where nothing is converted: what they refuse, each in one
line.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types

import pytest

from tprimat.catalog import models
from tprimat.cli import run
from tprimat.errors import UsageError
from tprimat.frameworks.nemo import convert as nemo_convert
from tprimat.frameworks.nemo import launch as nemo


def convert(*words, model="llama"):
    return run("convert", ["--model", model, *map(str, words)])


@pytest.fixture
def hugging_face(tmp_path):
    """A directory as transformers writes it, for a type of model."""

    def make(kind):
        folder = tmp_path / f"hf_{kind}"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"model_type": kind}))
        return folder

    return make


@pytest.fixture
def nemo_model(tmp_path):
    folder = tmp_path / "nemo_model"
    for part in ("weights", "context"):
        (folder / part).mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    ("message", "raised", "shown"),
    [
        (
            "fused_rope needs it. Please install TE\nmore",
            UsageError,
            "fused_rope needs it. Please install TE: NeMo needs Transformer Engine",
        ),
        ("hidden_size must be divisible by heads", ValueError, "hidden_size must be"),
    ],
)
def test_what_nemo_refuses(monkeypatch, tmp_path, message, raised, shown):
    """Only a refusal for lack of Transformer Engine is the user's; NeMo itself isn't needed here."""

    def import_ckpt(**_):
        raise ValueError(message)

    llm = types.SimpleNamespace(import_ckpt=import_ckpt, LlamaModel=list, Llama31Config8B=list)
    monkeypatch.setitem(sys.modules, "nemo", types.ModuleType("nemo"))
    monkeypatch.setitem(sys.modules, "nemo.collections", types.SimpleNamespace(llm=llm))
    with pytest.raises(raised, match=shown) as refused:
        nemo_convert.to_nemo("llama", "hf://org/name", tmp_path, overwrite=False)
    assert refused.type is raised


def test_every_model_has_its_classes():
    assert set(nemo_convert.CLASSES) == set(models.names())


class TestSource:
    def test_a_name_on_the_hub(self):
        assert (
            nemo_convert.hugging_face_source("llama", "meta-llama/Llama-3.1-8B")
            == "hf://meta-llama/Llama-3.1-8B"
        )

    @pytest.mark.parametrize("model", models.names())
    def test_a_folder(self, model, hugging_face):
        folder = hugging_face(nemo_convert.CLASSES[model][0])
        assert nemo_convert.hugging_face_source(model, str(folder)) == f"hf://{folder}"

    @pytest.mark.parametrize("text", ["./no-such-folder", "/no/such/folder", "llama", ".hidden/x"])
    def test_neither(self, text):
        with pytest.raises(
            UsageError, match="no such directory, and a model on the hub is written ORG/NAME"
        ):
            nemo_convert.hugging_face_source("llama", text)

    def test_a_folder_of_another_model_names_its_script(self, hugging_face):
        with pytest.raises(
            UsageError, match=r"type qwen2, which isn't Llama 3.1 8B: convert_qwen\.py"
        ):
            nemo_convert.hugging_face_source("llama", str(hugging_face("qwen2")))
        with pytest.raises(UsageError, match=r"type gpt2.*: there are llama, qwen, mistral"):
            nemo_convert.hugging_face_source("llama", str(hugging_face("gpt2")))

    @pytest.mark.parametrize("content", [None, "no json", "[]", "{}", b"\xff"])
    def test_a_folder_without_its_configuration(self, tmp_path, content):
        if content is not None:
            (tmp_path / "config.json").write_bytes(
                content if isinstance(content, bytes) else content.encode()
            )
        with pytest.raises(UsageError, match=r"no config\.json with a model_type"):
            nemo_convert.hugging_face_source("llama", str(tmp_path))

    def test_no_model_of_nemo(self, tmp_path, nemo_model):
        assert nemo_convert.nemo_folder(str(nemo_model)) == nemo_model
        with pytest.raises(UsageError, match="is not a NeMo 2 model"):
            nemo_convert.nemo_folder(str(tmp_path))


class TestCommand:
    def test_a_target_that_is_there_is_left_alone(self, tmp_path, capsys):
        assert convert("import", "org/name", tmp_path) == 2
        assert "--overwrite" in capsys.readouterr().err

    def test_without_nemo(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(nemo.LAUNCHER, "unavailable", lambda: "NeMo isn't installed: do this")
        assert convert("import", "org/name", tmp_path / "new") == 2
        line = capsys.readouterr().err.rstrip()
        assert line.startswith("error: conversion needs NeMo: NeMo isn't installed: do this")

    @pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="the analysis tier has no torch"
    )
    @pytest.mark.parametrize("direction", ["import", "export"])
    def test_without_a_gpu(self, direction, tmp_path, capsys, monkeypatch, nemo_model):
        monkeypatch.setattr(nemo.LAUNCHER, "unavailable", lambda: None)
        monkeypatch.delenv("TPRIMAT_EMULATED", raising=False)
        from tprimat.machine import platforms
        from tprimat.machine.platforms import Machine
        from tprimat.results.run import Environment, GpuInfo

        monkeypatch.setattr(platforms, "detect", lambda: Machine("cpu", GpuInfo(), Environment()))
        source = "org/name" if direction == "import" else nemo_model
        assert convert(direction, source, tmp_path / "new") == 2
        line = capsys.readouterr().err.rstrip()
        assert line.startswith("error: conversion needs an NVIDIA GPU, and PyTorch finds none")
        assert not (tmp_path / "new").exists()

    @pytest.mark.parametrize("words", [[], ["import"], ["import", "org/name"], ["turn", "a", "b"]])
    def test_missing_words_are_an_error(self, words, capsys):
        assert convert(*words) == 2
        assert capsys.readouterr().err.startswith("error: ")
