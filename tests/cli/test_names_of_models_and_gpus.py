"""Names of models and GPUs are compared by letters and digits wherever a command takes one."""

from __future__ import annotations

import pytest
from made_runs import make_run
from timed_framework import CPU

from tprimat import api, cli
from tprimat.catalog import gpus, models, prices
from tprimat.errors import UsageError
from tprimat.frameworks.nemo import options as nemo_options
from tprimat.log_import.given import GivenValues
from tprimat.machine import platforms
from tprimat.results.run import GpuInfo
from tprimat.store import store


@pytest.fixture
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(platforms, "detect", lambda: CPU)
    return tmp_path


LLAMA = ["llama", "LLAMA", "Llama-3.1-8B", "Llama 3.1 8B", "llama3.1_8b", "Llama31-8B"]


@pytest.mark.parametrize("name", LLAMA)
def test_c7_benchmark_takes_a_model_as_it_is_printed(name, here, capsys):
    pytest.importorskip("torch")
    assert (
        cli.run("benchmark", ["--framework", "lightning", "--dry-run", "--quiet", "--model", name])
        == 0
    )
    assert "--model=llama" in capsys.readouterr().out


@pytest.mark.parametrize("name", [row.title for row in models.trained()])
def test_c7_titles_of_models_that_are_trained(name, here, capsys):
    pytest.importorskip("torch")
    assert (
        cli.run(
            "benchmark",
            ["--framework", "lightning", "--dry-run", "--quiet", "--model", f"{name},llama"],
        )
        == 0
    )


@pytest.mark.parametrize("name", ["Llama-3.1-8B", "Mistral 7B"])
def test_c7_convert_takes_it_too(name, here, capsys):
    assert cli.run("convert", ["--model", name, "import", "missing", "b"]) == 2
    assert "--model" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("lama", "did you mean llama?"),
        ("llama2", "choose from llama, qwen, mistral, encdec, all; llama is Llama 3.1 8B"),
        ("Llama 2 70B", "choose from llama, qwen, mistral, encdec, all; llama is Llama 3.1 8B"),
    ],
)
def test_c7_another_version_is_not_suggested(name, hint, here, capsys):
    assert cli.run("benchmark", ["--dry-run", "--model", name]) == 2
    err = capsys.readouterr().err
    assert hint in err
    assert ("did you mean" in err) == ("did you mean" in hint)


@pytest.mark.parametrize(
    "name", ["llama2_70b_lora", "Llama 2 70B", "llama-2-70b", "Llama 2 70B, LoRA", "LLAMA270B"]
)
def test_c7_compare_takes_a_model_as_it_is_printed(name, here):
    for model in ("llama2_70b_lora", "llama"):
        store.save(make_run(model=model), here)
    found = api.compare(str(here), model=name)
    assert [model.model for model in found._report.comparison.models] == ["llama2_70b_lora"]


def test_c7_compare_names_the_nearest_models(here):
    for model in ("llama2_70b_lora", "llama", "mixtral-8x7b"):
        store.save(make_run(model=model), here)
    for name, meant in (
        ("llama2", "llama2_70b_lora"),
        ("mixtral", "mixtral-8x7b"),
        ("lama", "llama"),
    ):
        with pytest.raises(UsageError, match=f"did you mean {meant}"):
            api.compare(str(here), model=name)


def test_c7_a_name_that_no_model_has_is_noted_with_the_nearest(capsys):
    GivenValues(model="llama2").check([])
    note = (
        "--model-name llama2 is not a known model; did you mean llama-2-7b, llama-2-13b or"
        " llama-2-70b?"
    )
    assert note in capsys.readouterr().err
    for name in ("my-own-model", "Llama 2 70B", "llama", "llama2_70b_lora", "llama-2-70b-hf"):
        GivenValues(model=name).check([])
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("typed", "title"),
    [("H100-SXM", "H100 SXM"), ("h100_sxm", "H100 SXM"), ("A100-80GB", "A100 80GB"), ("RTX-4090", "RTX 4090"),
     ("MI300-X", "MI300X"), ("H100PCIe", "H100 PCIe")],
)  # fmt: skip
def test_c7_gpus(typed, title):
    row = next(gpu for gpu in gpus.gpus() if title in (gpu.title, gpu.short_name))
    found = gpus.match(GpuInfo(device_name=typed))
    assert row.short_name in {gpu.short_name for gpu in found.candidates}
    assert gpus.suggested(typed) == ""
    assert prices.fitting_names(typed, [f"8×{title}", "8×B200"]) == [f"8×{title}"]
    if row.vendor == "NVIDIA":
        assert nemo_options._card(typed).short_name == row.short_name


@pytest.mark.parametrize("name", ["H10", "GB20", "L", "H1000", "MI30", "100", "A1000", "B2000"])
def test_c7_a_part_of_a_gpus_name_is_no_gpu(name):
    assert gpus.match(GpuInfo(device_name=name)).candidates == ()


def test_c7_all_printed_names_of_the_tables_are_found():
    for model in models.models():
        assert models.find(model.title) is model, model.title
        assert models.find(model.title.replace(" ", "-")) is model
        assert models.find(model.name.replace("-", "_")) is model
    for gpu in gpus.gpus():
        if gpu.name_pattern:
            for name in (gpu.short_name, gpu.short_name.replace(" ", "-"), gpu.short_name.lower()):
                assert gpu.short_name in {
                    each.short_name for each in gpus.match(GpuInfo(device_name=name)).candidates
                }
