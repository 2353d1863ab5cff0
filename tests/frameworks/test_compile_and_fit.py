"""What makes the training on a GPU fast: the same loss and gradients as the plain model's, by the
CPU.
"""

from __future__ import annotations

import functools
import json

import msgspec
import pytest

torch = pytest.importorskip("torch", reason="the analysis tier has no torch")

from tprimat.catalog import models
from tprimat.frameworks import scales
from tprimat.frameworks.fsdp.loop import FullyShard
from tprimat.frameworks.lightning import loop
from tprimat.frameworks.loops import compile_and_fit, cross_entropy, half_linear, own_loop, recipe
from tprimat.frameworks.request import Request
from tprimat.record.ranks import Process
from tprimat.store import store

CPU = torch.device("cpu")


def shape(name="llama"):
    """A shape of two layers, which takes milliseconds."""
    tiny = scales.shape(models.by_name(name), scales.by_name("tiny"))
    sizes = {
        "num_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_query_groups": 2,
        "head_dim": 16,
    }
    return msgspec.structs.replace(tiny, ffn_hidden_size=128, vocab_size=512, **sizes)


def model(name="llama"):
    return recipe.build(models.by_name(name), shape(name), 128, seed=1, device=CPU)


def is_checkpointed(module):
    return module.model.layers[0].gradient_checkpointing


def gradients(module, batch, dtype=None):
    with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
        loss = module(input_ids=batch, labels=batch).loss
    loss.backward()
    return loss.item(), {name: each.grad.clone() for name, each in module.named_parameters()}


@pytest.fixture
def batch():
    return torch.randint(0, 512, (3, 128), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", models.names())
class TestTheSameTraining:
    def test_chunked_cross_entropy(self, name, batch, monkeypatch):
        monkeypatch.setattr(cross_entropy, "CHUNK", 100)  # the last chunk is shorter
        plain, expected = gradients(model(name), batch)
        module = model(name)
        cross_entropy.install(module)
        loss, found = gradients(module, batch)
        assert loss == pytest.approx(plain, rel=1e-6)
        for parameter, gradient in expected.items():
            torch.testing.assert_close(found[parameter], gradient, rtol=1e-4, atol=1e-6)

    def test_half_precision_copies(self, name, batch):
        plain, expected = gradients(model(name), batch, torch.bfloat16)
        module = model(name)
        half_linear.install(module, torch.bfloat16)
        cross_entropy.install(module)
        loss, found = gradients(module, batch, torch.bfloat16)
        assert loss == pytest.approx(plain, rel=2e-3)
        for parameter, gradient in expected.items():
            assert found[parameter].dtype == torch.float32
            cosine = torch.nn.functional.cosine_similarity(
                found[parameter].flatten(), gradient.flatten(), dim=0
            )
            assert cosine > 0.98, parameter


def test_fp32_logits_exist_for_a_chunk_alone(batch, monkeypatch):
    monkeypatch.setattr(cross_entropy, "CHUNK", 64)
    seen = []

    def of_chunk(logits, targets):
        seen.append(logits.shape)
        return cross_entropy.of_chunk(logits, targets)

    module = model()
    cross_entropy.install(module, of_chunk)
    gradients(module, batch)
    assert len(seen) == 6
    assert {shape[0] for shape in seen} == {64}


def test_the_copies_follow_the_weights(batch):
    module = model()
    half_linear.install(module, torch.bfloat16)
    layer = module.model.layers[0].mlp.up_proj
    with torch.no_grad():
        layer.weight.add_(1)
    assert not torch.equal(layer.rounded, layer.weight.bfloat16())
    half_linear.refresh(module)
    assert torch.equal(layer.rounded, layer.weight.bfloat16())
    assert "rounded" not in dict(module.named_buffers())


@pytest.fixture
def request_for(tmp_path):
    def make(**changes):
        usual = {
            "framework": "lightning",
            "platform": "cpu",
            "model": "llama",
            "scale": "other",
            "shape": shape(),
            "precision": "bf16",
            "steps": 3,
            "global_batch_size": 4,
            "micro_batch_size": 1,
            "sequence_length": 64,
            "seed": 1,
            "num_gpus": 1,
            "output_dir": tmp_path,
        }
        return Request(**{**usual, **changes})

    return make


@pytest.fixture
def no_compiler(monkeypatch):
    """torch.compile that compiles nothing."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)


@pytest.fixture
def memory(monkeypatch):
    """A GPU's memory: micro-batches of more sequences run out of it, with checkpointing or
    without.
    """
    tried = []

    def limit(
        plain, checkpointed, error="HIP out of memory. Tried to allocate 2.00 GiB.", compiled=None
    ):
        micro_batch = compile_and_fit._micro_batch

        def try_one(module, training, process):
            size = training.request.micro_batch_size
            tried.append((size, is_checkpointed(module)))
            most = checkpointed if is_checkpointed(module) else plain
            if compiled is not None and module.model.layers[0]._compiled_call_impl is not None:
                most = compiled
            if size > most:
                raise RuntimeError(error)
            micro_batch(module, training, process)

        monkeypatch.setattr(compile_and_fit, "_micro_batch", try_one)
        return tried

    return limit


def prepared(request):
    return compile_and_fit.prepare(recipe.of(request), Process(device=CPU))


class TestTheMicroBatch:
    def test_all_at_once_where_it_fits(self, request_for, memory):
        memory(4, 4)
        found = prepared(request_for(finds_micro_batch=True))
        assert found.training.request.micro_batch_size == 4
        assert found.setup.training_config.micro_batch_size == 4
        assert not is_checkpointed(found.module)

    def test_out_of_memory_halves_it(self, request_for, memory):
        tried = memory(1, 4)
        found = prepared(request_for(finds_micro_batch=True))
        assert tried == [(4, False), (2, False), (1, False)]
        assert found.training.request.gradient_accumulation_steps == 4
        assert not is_checkpointed(found.module)

    @pytest.mark.parametrize(
        "error",
        [
            "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "backend='inductor' raised:\nOutOfMemoryError: CUDA out of memory.",
        ],
    )
    def test_so_does_that_of_any_library(self, request_for, memory, no_compiler, error):
        memory(4, 4, error, compiled=2)
        found = prepared(request_for(finds_micro_batch=True, compiled=True))
        assert found.training.request.micro_batch_size == 2
        assert found.setup.framework_config["torch_compile"] is True
        assert found.setup.warnings == ()

    def test_eager_where_no_compiled_one_fits(self, request_for, memory, no_compiler):
        memory(1, 2, compiled=0)
        found = prepared(request_for(finds_micro_batch=True, compiled=True))
        assert found.setup.framework_config["torch_compile"] is False
        assert "eager, since compiled layers run out of memory" in found.setup.warnings
        assert found.module.model.layers[0]._compiled_call_impl is None

    def test_another_error_ends_the_search(self, request_for, memory):
        memory(0, 0, "CUDA error: unspecified launch failure")
        with pytest.raises(RuntimeError, match="launch failure"):
            prepared(request_for(finds_micro_batch=True))

    def test_activations_are_checkpointed_where_nothing_else_fits(self, request_for, memory):
        memory(0, 2)
        found = prepared(request_for(finds_micro_batch=True))
        assert found.training.request.micro_batch_size == 2
        assert is_checkpointed(found.module)
        recomputed = "activations are recomputed: no micro-batch fits the GPU's memory without"
        assert found.setup.warnings == (recomputed,)
        asked = prepared(request_for(finds_micro_batch=True, recomputation="full"))
        assert is_checkpointed(asked.module)
        assert asked.setup.warnings == ()

    def test_a_stated_one_stays(self, request_for, memory, no_compiler):
        tried = memory(4, 4)
        found = prepared(request_for(compiled=True, micro_batch_size=2))
        assert {size for size, _ in tried} == {2}
        assert found.training.request.micro_batch_size == 2

    def test_it_is_tried_with_bf16_copies_and_the_chunked_loss(
        self, request_for, no_compiler, monkeypatch
    ):
        seen, try_one = set(), compile_and_fit._micro_batch

        def look(module, *rest):
            seen.add((type(module.lm_head), module.forward.func))
            try_one(module, *rest)

        monkeypatch.setattr(compile_and_fit, "_micro_batch", look)
        prepared(request_for(compiled=True))
        assert seen == {(half_linear.HalfLinear, cross_entropy._forward)}

    def test_the_plain_loop_tries_nothing(self, request_for, memory):
        tried = memory(0, 0)
        found = prepared(request_for())
        assert tried == []
        assert type(found.module.lm_head) is torch.nn.Linear
        assert found.setup.framework_config == {}


class TestCompiling:
    def test_one_compilation_serves_all_layers(self, request_for, monkeypatch):
        monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        found = prepared(request_for(compiled=True))
        assert found.setup.framework_config == {
            "torch_compile": True,
            "chunked_cross_entropy": True,
        }
        assert found.setup.native_metrics[compile_and_fit.COMPILE_TIME] > 0
        # One for the layers, one for the loss.
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2

    def test_eager_where_the_compiler_fails(self, request_for, monkeypatch):
        def fail(*_, **__):
            raise RuntimeError(
                "Failed to find C compiler. Please specify via CC environment variable.\nmore"
            )

        monkeypatch.setattr(
            torch.nn.Module, "compile", lambda self, **_: setattr(self, "_compiled_call_impl", fail)
        )
        found = prepared(request_for(compiled=True))
        assert found.setup.framework_config["torch_compile"] is False
        assert compile_and_fit.COMPILE_TIME not in found.setup.native_metrics
        assert found.setup.warnings == (
            (
                "eager, since torch.compile failed: Failed to find C compiler. Please specify via"
                " CC environment variable."
            ),
        )
        batch = torch.zeros((1, 64), dtype=torch.long)
        assert found.module(input_ids=batch, labels=batch).loss.isfinite()


class TestFsdp:
    @pytest.fixture
    def train(self, request_for, tmp_path):
        def run(**changes):
            request = request_for(framework="fsdp", micro_batch_size=2, **changes)
            assert own_loop.main(request.to_arguments(), FullyShard) == 0
            return store.read(next(tmp_path.glob("*.json")))[0]

        return run

    def test_compiled(self, train, no_compiler):
        run = train(compiled=True)
        assert run.framework_config == {"torch_compile": True, "chunked_cross_entropy": True}
        assert run.native_metrics[compile_and_fit.COMPILE_TIME] > 0
        assert run.loss_values[-1] < run.loss_values[0]

    def test_eager_where_the_compiler_fails(self, train, monkeypatch):
        def fail(*_, **__):
            raise RuntimeError("Failed to find C compiler.")

        monkeypatch.setattr(
            torch.nn.Module, "compile", lambda self, **_: setattr(self, "_compiled_call_impl", fail)
        )
        run = train(compiled=True)
        assert run.framework_config == {"torch_compile": False, "chunked_cross_entropy": False}
        assert "eager, since torch.compile failed: Failed to find C compiler." in run.warnings
        assert run.status == "complete"

    def test_out_of_memory_is_no_failing_compiler(self, request_for, monkeypatch, capsys):
        def fail(*_, **__):
            raise RuntimeError(
                "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
            )

        monkeypatch.setattr(
            torch.nn.Module, "compile", lambda self, **_: setattr(self, "_compiled_call_impl", fail)
        )
        request = request_for(framework="fsdp", micro_batch_size=2, compiled=True)
        assert own_loop.main(request.to_arguments(), FullyShard) == 5
        # A process that fails ends without waiting for others; this one goes on with the next test.
        torch.distributed.destroy_process_group()
        error = capsys.readouterr().err.splitlines()[-2]
        assert error.startswith(
            "error: out of memory: RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED"
        )
        assert error.endswith("try --micro-batch-size 1 or --sequence-length 32")


class TestTheResult:
    def test_names_what_was_measured(self, request_for, memory, no_compiler, tmp_path):
        memory(0, 2)
        loop.train(request_for(compiled=True, finds_micro_batch=True))
        run = store.read(next(tmp_path.glob("*.json")))[0]
        assert run.status == "complete"
        assert run.framework_config["torch_compile"] is True
        assert run.training_config.recomputation == "full"
        assert run.training_config.micro_batch_size == 2
        assert run.parallelism_config.gradient_accumulation_steps == 2
        assert run.native_metrics[compile_and_fit.COMPILE_TIME] > 0

    def test_nothing_is_compiled_within_a_step(self, request_for, monkeypatch):
        monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        loop.train(request_for(compiled=True))
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2

    def test_names_eager_training_on_a_gpu(self, request_for):
        assert (
            recipe.of(request_for(platform="amd")).setup().framework_config["torch_compile"]
            is False
        )
        assert recipe.of(request_for()).setup().framework_config == {}

    def test_trains_like_the_plain_loop(self, request_for, no_compiler, tmp_path):
        losses = []
        for name, changes in {
            "plain": {},
            "tuned": {"compiled": True, "finds_micro_batch": True},
        }.items():
            loop.train(request_for(steps=12, output_dir=tmp_path / name, **changes))
            losses.append(
                json.loads(next((tmp_path / name).glob("*.json")).read_text())["loss_values"]
            )
        assert losses[1] == pytest.approx(losses[0], rel=0.01)
        assert losses[1][-1] < losses[1][0]
