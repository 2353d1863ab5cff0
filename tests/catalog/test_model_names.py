"""Names that sources use for the models of models.csv, read from their repositories, and names of
other models.
"""

from __future__ import annotations

import collections
import re

import pytest

from tprimat.analysis.flops import flops_per_token
from tprimat.catalog import models

NAMES = {
    "llama": (
        """meta-llama/Llama-3.1-8B-Instruct meta-llama/Meta-Llama-3-8B NousResearch/Meta-Llama-3-8B llama31_8b
        nvidia/Llama-3.1-Nemotron-Nano-8B-v1 llama31_nemotron_nano_8b llama3_8b_16k llama3_8b Llama3Config8B
        Llama31Config8B llama31_8b_pretrain_8gpu_gb200_bf16_config llama3.1_8B-BF16-pretrain.yaml llama3_8b_mxfp8
        graph_trainer_llama3_8b"""
    ),
    "qwen": "Qwen/Qwen2.5-7B-Instruct qwen25_7b Qwen25Config7B qwen2.5_7B-FP8-pretrain.yaml",
    "mistral": "mistralai/Mistral-7B-v0.3 mistral_7b MistralConfig7B",
    "llama-2-7b": "meta-llama/Llama-2-7b-hf llama2_7b Llama2Config7B llama2_7B-BF16-pretrain.yaml",
    "llama-2-13b": "meta-llama/Llama-2-13b-hf Llama2Config13B llama2_13B.yaml",
    "llama-2-70b": "meta-llama/Llama-2-70b-hf Llama2Config70B llama2_70B.yaml llama2_70b_lora",
    "llama-3.1-70b": (
        """meta-llama/Llama-3.1-70B meta-llama/Meta-Llama-3-70B meta-llama/Llama-3.3-70B-Instruct
        nvidia/Llama-3.1-Nemotron-70B-Instruct-HF llama31_nemotron_70b Llama31Nemotron70BConfig llama3_70b_64k
        llama31_70b Llama3Config70B llama3.3_70B-FP8-pretrain.yaml llama31_70b_lora_posttrain.yaml llama3_70b"""
    ),
    "llama-3.1-405b": (
        "meta-llama/Llama-3.1-405B llama31_405b Llama31Config405B llama3.1_405B.yaml llama3_405b"
    ),
    "llama-3.2-1b": "meta-llama/Llama-3.2-1B llama32_1b Llama32Config1B llama3.2_1B.yaml",
    "llama-3.2-3b": "meta-llama/Llama-3.2-3B-Instruct llama32_3b Llama32Config3B llama3.2_3B.yaml",
    "llama-4-scout": (
        """meta-llama/Llama-4-Scout-17B-16E-Instruct llama4_e16 Llama4Experts16Config
        llama4_17B16E-BF16-pretrain.yaml llama4_17Bx16E.yaml llama4-17b-16e.yml"""
    ),
    "qwen-2.5-14b": "Qwen/Qwen2.5-14B qwen25_14b Qwen25Config14B qwen2.5_14B.yaml",
    "qwen-2.5-32b": "Qwen/Qwen2.5-32B qwen25_32b Qwen25Config32B qwen2.5_32B.yaml",
    "qwen-2.5-72b": "Qwen/Qwen2.5-72B qwen25_72b Qwen25Config72B qwen2.5_72B.yaml",
    "qwen-3-8b": (
        "Qwen/Qwen3-8B qwen3_8b Qwen3Config8B qwen3_8B-FP8-pretrain.yaml sft_qwen3_8b_math"
    ),
    "qwen-3-14b": "Qwen/Qwen3-14B qwen3_14b Qwen3Config14B qwen3_14B.yaml rl_grpo_qwen3_14b",
    "qwen-3-32b": "Qwen/Qwen3-32B qwen3_32b Qwen3Config32B qwen3_32B.yaml",
    "qwen-3-30b-a3b": (
        """Qwen/Qwen3-30B-A3B-Instruct-2507 qwen3_30b_a3b Qwen3Config30B_A3B qwen3_30B_A3B.yaml
        qwen3-30b-a3b-base.yml"""
    ),
    "qwen-3-235b-a22b": (
        "Qwen/Qwen3-235B-A22B qwen3_235b_a22b Qwen3Config235B_A22B qwen3_235B_A22B.yaml"
    ),
    "qwen-3.6-35b-a3b": (
        """Qwen/Qwen3.6-35B-A3B Qwen/Qwen3.5-35B-A3B-Base qwen35_35b_a3b qwen3_5_35B_A3B.yaml
        qwen35_vl_35b_a3b_sft_16gpu_h100_bf16_config qwen35_text_35b_a3b"""
    ),
    "qwen-3.8-27b": (
        "Qwen/Qwen3.8-27B Qwen/Qwen3.5-27B qwen35_27b"
        " qwen35_vl_27b_pretrain_16gpu_gb200_bf16_mock_config"
    ),
    "mixtral-8x7b": (
        "mistralai/Mixtral-8x7B-Instruct-v0.1 mixtral_8x7b_16k MixtralConfig8x7B"
        " mixtral_8x7B_v0.1.yaml"
    ),
    "mixtral-8x22b": (
        "mistralai/Mixtral-8x22B-v0.1 mixtral_8x22b_64k MixtralConfig8x22B mixtral_8x22B.yaml"
    ),
    "gpt-oss-20b": (
        "openai/gpt-oss-20b unsloth/gpt-oss-20b-BF16 gpt_oss_20b GPTOSSConfig20B gpt_oss_20B.yaml"
    ),
    "gpt-oss-120b": (
        "openai/gpt-oss-120b gpt_oss_120b GPTOSSConfig120B gpt_oss_120B-FP8-pretrain.yaml"
    ),
    "deepseek-v2-lite": (
        """deepseek-ai/DeepSeek-V2-Lite deepseek_v2_lite DeepSeekV2LiteConfig deepseek_v2_16B.yaml
        deepseek_v3_16b graph_trainer_deepseek_v3_16b deepseek2-16b.yml"""
    ),
    "deepseek-v2": (
        """deepseek-ai/DeepSeek-V2 deepseek-ai/DeepSeek-V2.5 deepseek_v2 DeepSeekV2Config deepseek_v3_236b
        deepseek2-236b"""
    ),
    "deepseek-v3": (
        """deepseek-ai/DeepSeek-V3-Base deepseek-ai/DeepSeek-V3.1-Base deepseek-ai/DeepSeek-R1 deepseek_v3
        DeepSeekV3Config deepseek_v3_671b deepseekv3_671b deepseek3-671b.yml
        deepseek_v3_pretrain_256gpu_gb200_bf16_config"""
    ),
    "kimi-k2": "moonshotai/Kimi-K2-Instruct moonshotai/Kimi-K2.5 kimi_k2 kimi_k2_5 kimi-k2-1t.yml",
    "moonlight-16b-a3b": "moonshotai/Moonlight-16B-A3B moonlight_16b moonlight_16b_a3b",
    "glm-5.2": (
        """zai-org/GLM-5 zai-org/GLM-5.1 zai-org/GLM-5.2 glm5-BF16-pretrain.yaml
        glm51_sft_416gpu_h100_bf16_config"""
    ),
    "gemma-4-26b-a4b": (
        "google/gemma-4-26B-A4B-it gemma4_26B.yaml gemma4_vl_26b_peft_config gemma4-26b.yml"
    ),
    "deepseek-v4-flash": "deepseek-ai/DeepSeek-V4-Flash deepseek_v4_flash.yaml deepseek4-284b.yml",
    "mpt-7b": "mosaicml/mpt-7b mosaicml/mpt-7b-instruct mpt-7b.yaml",
    "mpt-30b": "mosaicml/mpt-30b mpt-30b.yaml",
    "gpt-3-175b": "gpt3_175b GPTConfig175B",
    "nemotron-3-8b": "nvidia/nemotron-3-8b-base-4k nemotron3_8b Nemotron3Config8B",
    "nemotron-3-22b": "nemotron3_22b_64k Nemotron3Config22B",
    "nemotron-4-15b": "nemotron4_15b_16k Nemotron4Config15B",
    "nemotron-4-340b": "nvidia/Nemotron-4-340B-Instruct nemotron4_340b Nemotron4Config340B",
    "nemotron-3-nano-30b-a3b": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 nemotron_3_nano",
    "nemotron-3-nano-omni-30b-a3b": (
        """nvidia/Nemotron-3-Nano-Omni-30B-A3B-Reasoning-BF16
        nemotron_omni_cord_v2_sft_4gpu_h100_bf16_config"""
    ),
    "nemotron-3.5-lightning-30b-a3b": (
        "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16 nemotron_3_5_lightning"
    ),
    "nemotron-3-super-120b-a12b": "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16 nemotron_3_super",
    "nemotron-3-ultra-550b-a55b": "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16 nemotron_3_ultra",
    "nemotron-3-nano-4b": "nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16 nemotron_3_nano_4b",
    "internlm-7b": "internlm/internlm-7b internlm/internlm-chat-7b",
    "gpt-2-350m": "openai-community/gpt2-medium nvidia/megatron-gpt2-345m",
    "bloom-176b": "bigscience/bloom tr11-176B-ml",
}
"""Of Hugging Face, NeMo's recipes and classes, Megatron-Bridge's recipes, files of Primus and
MaxText, torchtitan and MLPerf.
"""

OTHERS = """
    meta-llama/Llama-3.2-11B-Vision llama3.2_90b llama_8b llama2_34b CodeLlamaConfig7B zebra_llama_8B.yaml
    meta-llama/Llama-4-Maverick-17B-128E llama4_e128 llama4_17B128E.yaml Llama4Experts128Config llama3_debugmodel
    nvidia/Llama-3_1-Nemotron-51B-Instruct llama31_nemotron_ultra_253b llama33_nemotron_super_49b
    Qwen/Qwen2.5-VL-7B-Instruct Qwen/Qwen2-7B qwen2_7b qwen25_1p5b Qwen/Qwen3-VL-30B-A3B-Instruct qwen3_vl_8b qwen3_4b
    qwen3_235B_A22B_4layer.yaml Qwen/Qwen3-Next-80B-A3B-Instruct Qwen/Qwen3-Omni-30B-A3B-Instruct qwen35_397b_a17b
    qwen35_397b_grpo qwen35_9b qwen35_vl_122b_a10b mistral_nemo_12b ministral3_8b MixtralConfig8x3B
    deepseek-ai/DeepSeek-V3.2-Exp deepseek_v3_2 deepseek_v3_debugmodel deepseek-ai/DeepSeek-R1-Distill-Llama-70B
    deepseek-ai/DeepSeek-R1-Distill-Qwen-7B deepseek-ai/deepseek-moe-16b-base deepseek_v4_pro moonshotai/Kimi-K3
    kimi_k2_5_debugmodel kimi_k2_7 kimi_vl_a3b zai-org/GLM-4.5-Air glm45_355b google/gemma-4-31B-it gemma4_e4b
    gemma2_27b GPTConfig7B GPTConfig40B gpt-20b gpt-2 openai-community/gpt2-xl openai-community/gpt2-large
    nemotron3_4b nemotronh_8b
    nvidia/NVIDIA-Nemotron-Nano-9B-v2 bigscience/bloom-7b1 bigscience/bloom-1b7 bigscience/bloom-560m internlm2-7b
"""
"""Models of these sources that models.csv doesn't have: other sizes, versions, or a part of the
layers.
"""


@pytest.mark.parametrize(
    ("name", "row"), [(name, row) for row, names in NAMES.items() for name in names.split()]
)
def test_the_names_of_the_sources_find_their_row(name, row):
    for text in (name, f"exp_{name}", f"{name}/run-3"):
        assert models.recognize(text) is models.find(row), text


@pytest.mark.parametrize("name", OTHERS.split())
def test_names_of_other_models_find_none(name):
    assert models.find(name) is models.recognize(name) is None


def test_no_alias_names_two_rows():
    rows = collections.defaultdict(set)
    for model in models.models():
        for alias in (model.name, *model.aliases):
            rows[re.sub("[-.]", "", alias)].add(model.name)
    assert {alias: names for alias, names in rows.items() if len(names) > 1} == {}


@pytest.mark.parametrize(
    ("text", "is_it"),
    [
        ("kimi_k2_6", False),
        ("kimi_k2_16", True),
        ("kimi_k2.6", False),
        ("kimi_k2_6x", True),
        ("kimi_k2_8gpu", True),
    ],
)
def test_another_version_is_another_model(text, is_it):
    assert (models.recognize(text) is not None) is is_it


@pytest.mark.parametrize(
    ("layers", "is_it"),
    [("32 layers", True), ("32layers", True), ("31 layers", False), ("4layer", False), ("", True)],
)
def test_a_name_that_states_a_part_of_the_layers(layers, is_it):
    assert (models.recognize(f"Llama 3.1 8B, {layers}") is not None) is is_it


@pytest.mark.parametrize(
    ("text", "size"), [("bloom-7b1", 7.1e9), ("x-7b", 7e9), ("x_350m", 3.5e8), ("7b12", None)]
)
def test_a_size_in_a_name(text, size):
    assert models.stated_size(text) == size


def test_what_the_flops_of_glm_leave_out_is_documented(repository):
    glm = models.find("glm-5.2").shape
    # For each of 32 heads of 128: its queries, of the query rank, and its weight; one key for all
    # heads.
    indexer = (
        6
        * glm.num_layers
        * (32 * 128 * glm.query_lora_rank + 32 * glm.hidden_size + 128 * glm.hidden_size)
    )
    share = f"{indexer / flops_per_token(glm, 2048):.1%}"
    assert (
        f"indexer of its sparse attention is not counted (its weight matmuls would add {share} at"
        in (repository / "docs" / "metrics.md").read_text(encoding="utf-8")
    )
