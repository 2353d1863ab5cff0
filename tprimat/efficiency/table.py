"""What a speed is worth: a row each. How the figures come about stands in this folder's __init__."""

from __future__ import annotations

from tprimat.metrics import Metric

_PALM = "Chowdhery et al. 2022, PaLM, appendix B"
_MEGATRON = "Megatron-LM, num_floating_point_operations"

METRICS = (
    Metric(
        "model_tflops_per_gpu",
        "Achieved, causal",
        "TFLOP/s/GPU",
        "higher",
        "tokens_per_second_per_gpu × FLOPs per token (causal attention) / 10¹²",
        _MEGATRON,
    ),
    Metric(
        "model_tflops_per_gpu_full",
        "Achieved, full attention",
        "TFLOP/s/GPU",
        "higher",
        "tokens_per_second_per_gpu × FLOPs per token (full attention) / 10¹²",
        _PALM,
    ),
    Metric(
        "mfu",
        "MFU (causal, dense peak)",
        "%",
        "higher",
        "model_tflops_per_gpu / dense peak of the precision that ran",
        f"{_PALM}; {_MEGATRON}",
    ),
    Metric("mfu_full", "MFU (full attention)", "%", "higher", "model_tflops_per_gpu_full / dense peak", _PALM),
    Metric(
        "hfu",
        "HFU (recomputation counted)",
        "%",
        "higher",
        "mfu without recomputation; mfu × 4/3 with full recomputation; nothing where only parts are recomputed",
        "Korthikanti et al. 2022",
    ),
    Metric(
        "share_of_sustained",
        "Share of the best matmul known",
        "%",
        "higher",
        "model_tflops_per_gpu / the highest sustained bf16 matrix product that was measured on the card",
        "https://github.com/stas00/ml-engineering, compute/accelerator/README.md, 2026-08-22",
    ),
    Metric(
        "memory_used_share",
        "Memory used",
        "%",
        None,
        "highest of what was measured (device, reserved or allocated, as named) / total_memory_gb",
        "",
    ),
    Metric("memory_headroom_gb", "Memory free", "GB", None, "total_memory_gb − highest memory", ""),
    Metric(
        "memory_per_token_kb",
        "Memory per token of the micro batch",
        "kB",
        "lower",
        "highest memory / (micro_batch_size × sequence_length); weights and optimizer included",
        "",
    ),
    Metric("joules_per_token", "Energy per token, measured", "J/token", "lower", "energy_joules / measured tokens", ""),
    Metric(
        "tdp_joules_per_token",
        "Energy per token if it drew its TDP",
        "J/token",
        "lower",
        "TDP / tokens_per_second_per_gpu; an upper bound from the data sheet, nothing was measured",
        "",
    ),
    Metric(
        "tokens_per_dollar",
        "Tokens per dollar",
        "tokens/$",
        "higher",
        "tokens_per_second_per_gpu × 3600 / price per GPU-hour",
        "",
    ),
    Metric(
        "dollars_per_trillion_tokens",
        "Cost of 10¹² tokens",
        "$",
        "lower",
        "10¹² / tokens_per_second_per_gpu / 3600 × price per GPU-hour",
        "",
    ),
    Metric("hours_per_trillion_tokens", "Time for 10¹² tokens", "h", "lower", "10¹² / tokens_per_second / 3600", ""),
    Metric(
        "days_to_pretrain",
        "Time for the model's own pretraining",
        "days",
        "lower",
        "tokens that the model was pretrained on / tokens_per_second / 86400, at this speed and without failures",
        "the models' reports, see models.py",
    ),
)
