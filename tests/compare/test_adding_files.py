"""A file that is added to a comparison takes no answer away."""

from __future__ import annotations

from pathlib import Path

import pytest

import tprimat
from tprimat.compare import compare

LORA = "mlperf/v{}_llama2_70b_lora_{}_r0.txt"
PRETRAINING = "mlperf/v5.1_llama31_8b_{}.txt"
RESULTS = "results/{}.json"
PAIRS = [
    (LORA.format("5.1", "AMD_8xMI355X"), LORA.format("5.1", "NVIDIA_tyche_8gpu")),
    (LORA.format("5.0", "Oracle_8xH200"), LORA.format("5.0", "Oracle_8xMI300X")),
    (LORA.format("5.0", "AMD_8xMI325X"), LORA.format("4.1", "NVIDIA_8xH200")),
    (LORA.format("4.1", "Oracle_512xH100"), LORA.format("5.1", "AMD_8xMI350X")),
    (PRETRAINING.format("Nebius_8xB200_r01"), PRETRAINING.format("AMD_8xMI355X_r0")),
    (PRETRAINING.format("AMD_8xMI350X_r0"), PRETRAINING.format("NVIDIA_tyche_8gpu_r0")),
    ("mlperf/v4.1_gpt3_NVIDIA_256xH100_r0.txt", "mlperf/v4.1_gpt3_NVIDIA_64xB200_r0.txt"),
    (
        RESULTS.format("train_amd_prim_llama-516b342"),
        RESULTS.format("train_nvd_nemo_llama-516b342"),
    ),
    (RESULTS.format("train_amd_prim_qwen-516b342"), RESULTS.format("train_nvd_nemo_qwen-516b342")),
    (
        "primus/torchtitan_llama3_8B_bf16_mi300x_3st.log",
        "primus/torchtitan_llama3_8B_fp8_mi300x_3st.log",
    ),
]
ADDED = [
    *sorted({file for pair in PAIRS for file in pair})[:15],
    RESULTS.format("benchmark_cuda_llama-627dfac"),
    RESULTS.format("benchmark_rocm_llama-627dfac"),
    "primus/megatron_light_llama31_8B_bf16_50it.log",
    "primus/megatron_legacy_llama2_7B_4layer_mi300x_3it.log",
    LORA.format("5.0", "NVIDIA_nyx_8gpu"),
]


@pytest.fixture(scope="module")
def load(samples):
    names = {*ADDED, *(file for pair in PAIRS for file in pair)}
    return {name: tprimat.load(samples / name).files[0] for name in names}


def ratio(comparison, files):
    """The ratio of the systems of two files that are compared in one table, by their ratios to its
    baseline.
    """
    for group in (group for model in comparison.models for group in model.groups):
        ratios = {id(group.baseline): 1.0}
        ratios |= {id(pair.system): pair.ratio.value for pair in group.pairs if pair.ratio}
        found = [
            ratios[id(system)]
            for file in files
            for system in group.systems
            if id(system) in ratios
            and any(Path(result.file).name == Path(file).name for result in system.runs)
        ]
        if len(found) == 2:
            return found[0] / found[1]
    return None


@pytest.mark.parametrize("files", PAIRS, ids=lambda files: files[0])
def test_an_added_file_takes_no_answer_away(load, files):
    pair = [load[file] for file in files]
    names = [file.name for file in pair]
    before = ratio(compare(pair), names)
    assert before
    for added in ADDED:
        if added not in files:
            after = ratio(compare([*pair, load[added]]), names)
            assert after == pytest.approx(before, rel=0.01), added
    together = ratio(compare([*pair, *(load[each] for each in ADDED if each not in files)]), names)
    assert together == pytest.approx(before, rel=0.01)
