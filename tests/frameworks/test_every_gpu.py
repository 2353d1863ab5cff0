"""What every framework plans for the GPUs of data centres, against what the frameworks themselves
take.
"""

from __future__ import annotations

import re
import sys

import primus_tree
import pytest

from tprimat import frameworks
from tprimat.errors import UsageError
from tprimat.frameworks.megatron import launch as megatron
from tprimat.frameworks.request import Device, RequestedConfig
from tprimat.frameworks.torchtitan import launch as torchtitan

GPUS = {
    "H100": Device("nvd", 8, 85.02e9, "sm_90", "NVIDIA H100 80GB HBM3"),
    "H200": Device("nvd", 8, 150.75e9, "sm_90", "NVIDIA H200"),
    "B200": Device("nvd", 8, 191.51e9, "sm_100", "NVIDIA B200"),
    "GB200": Device("nvd", 4, 198.0e9, "sm_100", "NVIDIA GB200"),
    "MI300X": Device("amd", 8, 206.14e9, "gfx942", "AMD Instinct MI300X"),
    "MI325X": Device("amd", 8, 274.8e9, "gfx942", "AMD Instinct MI325X"),
    "MI355X": Device("amd", 8, 309.22e9, "gfx950", "AMD Instinct MI355X"),
}

CLONES = (
    (megatron.CLONE, {megatron.CLONE.script: ""}),
    (torchtitan.CLONE, {torchtitan.CLONE.script: "", torchtitan.OPTIONS: torchtitan.NEEDED}),
)
ELSEWHERE = {"nvd": ("primus",), "amd": ("nemo", "megatron_bridge")}
REFUSED = {
    "megatron_bridge": r"MXFP8 needs|NVFP4 needs|FP8 needs|no recipe for Qwen",
    "nemo": r"MXFP8 needs|FP8 needs",
    "megatron": r"MXFP8 needs",
    "primus": r"no configuration for \w+ in mxfp",
}
"""What a framework may refuse on some of these GPUs; the others refuse nothing."""

MEGATRON_OPTIONS = """
adam-beta1 adam-beta2 adam-eps add-qkv-bias attention-dropout bf16 clip-grad cross-entropy-loss-fusion
disable-bias-linear eval-iters exit-duration-in-mins ffn-hidden-size fp16 fp8-format fp8-recipe global-batch-size
group-query-attention
hidden-dropout hidden-size kv-channels log-interval log-throughput lr lr-decay-style make-vocab-size-divisible-by
manual-gc max-position-embeddings micro-batch-size min-lr mock-data no-create-attention-mask-in-dataloader
norm-epsilon normalization num-attention-heads num-layers num-query-groups optimizer overlap-grad-reduce
overlap-param-gather position-embedding-type rotary-base seed seq-length swiglu tokenizer-type train-iters
untie-embeddings-and-output-weights use-distributed-optimizer vocab-size weight-decay
"""
"""Accepted by Megatron-LM's own parser at core_v0.15.0, core_v0.16.0 and d98e8a64 (2026-08-22)."""

PRIMUS_PARAMETERS = {
    "bf16", "exit_duration_in_mins", "fp16", "fp8", "norm_epsilon", "rotary_base", "tokenizer_type", "train_iters",
    "vocab_size",
}  # fmt: skip
"""In the presets of Primus fd1eeabb (2026-08-22)."""


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Plan a training, and return the words of its command after the program's name."""
    for clone, files in CLONES:
        for name, text in files.items():
            path = tmp_path / clone.title / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.setenv(clone.variable, str(tmp_path / clone.title))
    tree = primus_tree.make(tmp_path / "Primus", folders=("MI300X", "MI325X", "MI355X"))
    monkeypatch.setenv("PRIMUS_PATH", str(tree))

    def plan(framework, model, precision, device):
        request, _ = framework.resolve_config(
            model, RequestedConfig(precision=precision, time_limit_s=480.0), device, tmp_path
        )
        return request, framework.launcher.launch(request).argv

    return plan


@pytest.mark.skipif(sys.platform == "win32", reason="Primus is started by bash")
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("framework", frameworks.FRAMEWORKS, ids=lambda framework: framework.name)
def test_each_model_and_precision_has_a_command(framework, gpu, planned):
    device = GPUS[gpu]
    if framework.name in ELSEWHERE[device.platform]:
        pytest.skip("of another vendor")
    if framework.name == "primus":
        pytest.importorskip("yaml")
    for model in framework.models:
        commands = 0
        for precision in framework.precisions:
            try:
                request, words = planned(framework, model, precision, device)
            except UsageError as error:
                if framework.name in REFUSED and re.search(REFUSED[framework.name], error.message):
                    continue
                raise
            commands += 1
            assert (request.precision, request.num_gpus) == (precision, device.devices)
            names = {word.partition("=")[0] for word in words if word.startswith("--")}
            if framework.name == "megatron":
                own = words[words.index("pretrain_gpt.py") + 1 :]
                assert {word.partition("=")[0].removeprefix("--") for word in own} <= {
                    *MEGATRON_OPTIONS.split()
                }
            elif framework.name == "primus":
                assert {name.removeprefix("--") for name in names} <= PRIMUS_PARAMETERS
        assert commands
