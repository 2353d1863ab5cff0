"""The search space: what each framework lets a search vary, and what can't fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tprimat import frameworks
from tprimat.frameworks import search_space
from tprimat.frameworks.request import Device, RequestedConfig

H100 = Device("nvd", 8, 80e9, "sm_90", "NVIDIA H100 80GB HBM3")
CPU = Device("cpu", 2, 16e9)


def space(framework, device=H100, precisions=(), micro_batches=(), **requested):
    return search_space.space_of(
        frameworks.by_name(framework),
        "llama",
        RequestedConfig(**requested),
        precisions,
        device,
        Path("/o"),
        micro_batches,
    )


def test_on_a_cpu_the_untuned_setting_comes_first_and_all_train_the_same_batch():
    found = space("lightning", CPU, global_batch_size=4)
    assert len(found.candidates) == 12
    assert found.candidates[0].name == "micro2-recompute-none-sdpa-attention"
    assert {each.request.global_batch_size for each in found.candidates} == {4}
    assert all(
        each.request.micro_batch_size * each.request.gradient_accumulation_steps == 4
        for each in found.candidates
    )
    assert not found.excluded


def test_what_is_requested_is_not_varied():
    found = space("lightning", CPU, micro_batch_size=1, global_batch_size=4, attention="sdpa")
    assert dict(found.knobs) == {"recomputation": ("none", "full")}
    found = space(
        "lightning",
        CPU,
        micro_batches=(1, 4),
        global_batch_size=4,
        attention="sdpa",
        recomputation="none",
    )
    assert [each.name for each in found.candidates] == ["micro1", "micro4"]


def test_precision_is_varied_on_request_alone():
    assert "precision" not in space("lightning", CPU).knobs
    assert space("lightning", CPU, ("fp32", "bf16")).knobs["precision"] == ("fp32", "bf16")


def test_on_a_gpu_compilation_is_varied_and_the_training_may_choose_its_micro_batch():
    found = space("lightning", scale="1b")
    assert found.knobs["eager"] == (False, True)
    first = found.candidates[0]
    assert first.request.finds_micro_batch
    assert "micro_batch_size" not in first.setting
    assert first.name.startswith("recompute-none")
    assert not any(each.request.finds_micro_batch for each in found.candidates[1:])


def test_parallelism_where_the_framework_divides_a_model():
    found = space("megatron_bridge")
    assert "tensor_model_parallel_size" in found.knobs
    for each in found.candidates:
        request = each.request
        assert (
            request.num_gpus
            % (
                request.tensor_model_parallel_size
                * request.pipeline_model_parallel_size
                * request.context_parallel_size
            )
            == 0
        )
    one = Device("nvd", 1, 80e9, "sm_90", "NVIDIA H100 80GB HBM3")
    assert (
        not {"tensor_model_parallel_size", "recomputation", "attention"}
        & space("megatron_bridge", one).knobs.keys()
    )


def test_what_takes_more_than_the_memory_is_excluded_with_the_reason():
    found = space("fsdp", scale="full", global_batch_size=8192, sequence_length=8192)
    large = "micro1024-recompute-none-sdpa-attention-uncompiled"
    assert "takes at least" in found.excluded[large]
    assert all(each.name != large for each in found.candidates)
    assert any(each.request.micro_batch_size == 1 for each in found.candidates)


def test_the_estimate_is_a_lower_bound_that_recomputation_and_small_batches_lower():
    framework = frameworks.by_name("lightning")

    def needed(**fields):
        requested = RequestedConfig(scale="1b", eager=True, global_batch_size=64, **fields)
        request, _ = framework.resolve_config("llama", requested, H100, Path("/o"))
        return search_space.memory_at_least(framework, request, requested, H100)

    assert needed(micro_batch_size=8) > needed(micro_batch_size=1)
    assert needed(micro_batch_size=8) > needed(micro_batch_size=8, recomputation="full")
    # 16 layers of 4 × 2048 + 2 × 7168 values in two bytes for each of 2048 tokens, beside 16 bytes
    # a parameter.
    activations = needed(micro_batch_size=2) - needed(micro_batch_size=1)
    assert activations == pytest.approx(2048 * 16 * (4 * 2048 + 2 * 7168) * 2)
