"""Recomputation and attention change how a model is computed, and nothing of what it learns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tprimat import frameworks
from tprimat.errors import UsageError
from tprimat.frameworks.request import Device, RequestedConfig

CPU = Device("cpu", 2, 16e9)


def trained(**requested):
    """Loss and gradient norm of a micro-batch, the model's description, and forward passes of its
    first layer.
    """
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tprimat.frameworks.loops import recipe
    from tprimat.record import describe

    request, _ = frameworks.by_name("lightning").resolve_config(
        "llama", RequestedConfig(**requested), CPU, Path("/o")
    )
    training = recipe.of(request)
    module = training.weights(torch.device("cpu"))
    passes = []
    module.model.layers[0].mlp.register_forward_pre_hook(lambda *_: passes.append(1))
    batch = torch.as_tensor(recipe.MicroBatches(training, 0)[0])
    loss = module(input_ids=batch, labels=batch).loss
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    stated = describe.recomputation(module), training.setup().framework_config.get("attention")
    return (loss.item(), norm.item()), stated, len(passes)


def test_the_same_is_learnt_with_every_setting():
    plain, stated, passes = trained()
    assert (stated, passes) == (("none", None), 1)
    values, stated, passes = trained(recomputation="full")
    assert (stated, passes) == (("full", None), 2)
    assert values == pytest.approx(plain, rel=1e-5)
    values, stated, passes = trained(attention="eager")
    assert (stated, passes) == (("none", "eager"), 1)
    assert values == pytest.approx(plain, rel=1e-5)


@pytest.mark.parametrize("name", ["recomputation", "attention"])
def test_a_framework_with_its_own_configuration_refuses_it(name):
    bridge = frameworks.by_name("megatron_bridge")
    requested = RequestedConfig(**{name: {"recomputation": "full", "attention": "eager"}[name]})
    with pytest.raises(UsageError, match=f"megatron_bridge does not support --{name}"):
        bridge.resolve_config(
            "llama", requested, Device("nvd", 8, 80e9, "sm_90", "NVIDIA H100 80GB HBM3"), Path("/o")
        )


def test_recomputation_is_read_without_a_warning(recwarn):
    # transformers 5 warns of the older of two names.
    _, (stated, _), _ = trained(recomputation="full")
    assert stated == "full"
    assert not [each for each in recwarn if "checkpointing" in str(each.message)]
