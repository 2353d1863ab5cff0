"""The choices that are made where the user leaves them open, and the requests that are refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks import by_name, defaults, scales
from tprimat.frameworks.request import Device, RequestedConfig

CPU = Device("cpu", 2, 25.3e9)
H100S = Device("nvd", 8, 85.02e9, "sm_90")
MI300X = Device("amd", 1, 206.1e9, "gfx942")
V100 = Device("nvd", 1, 34.1e9, "sm_70")
FOLDER = Path("/out")


def resolved(device, model="llama", **requested):
    return by_name("lightning").resolve_config(model, RequestedConfig(**requested), device, FOLDER)


def refusal(device, model="llama", **requested):
    with pytest.raises(UsageError) as refused:
        resolved(device, model, **requested)
    return refused.value.message


class TestNothingSaid:
    @pytest.mark.parametrize("model", models.names())
    def test_on_a_cpu(self, model):
        request, notes = resolved(CPU, model)
        assert (request.scale, request.precision, request.steps, request.num_gpus) == (
            "tiny",
            "fp32",
            60,
            1,
        )
        assert (request.global_batch_size, request.micro_batch_size, request.sequence_length) == (
            2,
            2,
            128,
        )
        assert notes == ()

    def test_on_eight_gpus(self):
        request, _ = resolved(H100S)
        assert (request.scale, request.precision, request.steps, request.num_gpus) == (
            "1b",
            "bf16",
            200,
            8,
        )
        assert request.global_batch_size == 64

    @pytest.mark.parametrize("model", models.names())
    @pytest.mark.parametrize("memory_gib", [192.0, 79.2, 23.6])
    def test_an_h100_an_mi300x_and_a_4090_train_the_same(self, model, memory_gib):
        request, notes = resolved(Device("nvd", 1, memory_gib * 2**30), model)
        assert (request.scale, request.global_batch_size, request.sequence_length) == (
            "1b",
            8,
            2048,
        )
        assert not any("default on larger GPUs" in note for note in notes)

    @pytest.mark.parametrize(
        ("requested", "needed"),
        [({}, 18), ({"precision": "fp16"}, 18), ({"precision": "fp32"}, 16), ({"eager": True}, 18)],
    )
    def test_copies_in_half_precision_take_memory_too(self, requested, needed):
        resolver = by_name("lightning").resolver("llama", RequestedConfig(**requested), H100S)
        assert resolver.bytes_per_parameter() == needed
        assert (
            by_name("lightning")
            .resolver("llama", RequestedConfig(precision="bf16"), CPU)
            .bytes_per_parameter()
            == 16
        )

    @pytest.mark.parametrize(
        ("memory_gb", "scale", "said"),
        [
            (25.7, "1b", None),  # 80% are more than 18 bytes for each of 1.135 billion parameters
            (
                25.39,
                "1b",
                "less than 20% is left, activations are recomputed if they don't fit",
            ),  # RTX 4090
            (22.75, "1b", "less than 20% is left, activations are recomputed if they don't fit"),
            (
                22.65,
                "medium",
                (
                    "scale medium is trained: Llama 3.1 8B at 1b, the default on larger GPUs, takes"
                    " 20.43 GB"
                ),
            ),
        ],
    )
    def test_a_card_of_24_gb_recomputes_and_says_so(self, memory_gb, scale, said):
        request, notes = resolved(Device("nvd", 1, memory_gb * 1e9, "sm_89"))
        assert request.scale == scale
        assert (said is None and notes == ()) or said in " ".join(notes)

    def test_a_gpu_is_measured_with_compiled_kernels(self):
        assert resolved(MI300X)[0].compiled
        assert resolved(MI300X)[0].finds_micro_batch
        eager = resolved(MI300X, eager=True)[0]
        assert (eager.compiled, eager.finds_micro_batch) == (False, True)
        stated = resolved(MI300X, micro_batch_size=2)[0]
        assert (stated.compiled, stated.finds_micro_batch, stated.micro_batch_size) == (
            True,
            False,
            2,
        )

    def test_a_cpu_stays_eager(self):
        assert not resolved(CPU)[0].tuned

    def test_a_smaller_gpu_trains_what_fits_and_is_told_so(self):
        request, notes = resolved(Device("nvd", 1, 15.7 * 2**30, "sm_75"))
        assert request.scale == "medium"
        assert "1b, the default on larger GPUs, takes 20.43 GB before activations" in notes[0]

    def test_a_gpu_without_bf16_takes_fp16(self):
        assert resolved(V100)[0].precision == "fp16"

    @pytest.mark.parametrize(
        ("architecture", "precision"),
        [("sm_79", "fp16"), ("sm_80", "bf16"), ("sm_103a", "bf16"), (None, "bf16")],
    )
    def test_gpus_have_bf16_from_ampere_on(self, architecture, precision):
        assert defaults.precision(Device("nvd", 1, 80e9, architecture)) == precision

    def test_unknown_memory_is_said(self):
        request, notes = resolved(Device("nvd", 1, None))
        assert request.scale == "tiny"
        assert "memory of the device is unknown" in notes[0]


class TestScale:
    def test_largest(self):
        assert resolved(H100S, scale="largest")[0].scale == "quarter"
        request, _ = resolved(MI300X, scale="largest")
        assert (request.scale, request.shape) == ("full", None)

    def test_an_unknown_one(self):
        assert (
            "choose from tiny, small, medium, 1b, large, quarter, half, full, largest"
            in refusal(CPU, scale="huge")
        )

    def test_too_large_names_the_largest_that_fits(self):
        message = refusal(H100S, scale="full")
        assert "144.54 GB" in message
        assert "85.02 GB" in message
        assert "--scale quarter" in message

    def test_a_tight_one_is_run_and_said(self):
        request, notes = resolved(H100S, scale="half")
        assert request.scale == "half"
        assert "may run out" in notes[0]

    def test_a_shape_that_is_a_scale_gets_its_name(self):
        llama = models.by_name("llama")
        request, _ = resolved(CPU, shape=scales.shape(llama, scales.by_name("small")))
        assert (request.scale, request.shape) == ("small", None)

    def test_any_other_shape_is_taken_as_it_is(self):
        llama = models.by_name("llama")
        shape = msgspec.structs.replace(
            scales.shape(llama, scales.by_name("tiny")), num_layers=3, num_parameters=1
        )
        request, _ = resolved(CPU, shape=shape)
        assert request.scale == scales.OTHER
        assert request.shape.num_layers == 3
        assert request.shape.num_parameters == scales.parameters(llama, shape)


class TestBatch:
    def test_the_nearest_are_named(self):
        message = refusal(CPU, global_batch_size=10, micro_batch_size=4)
        assert (
            message
            == "global batch size 10 is not a multiple of 4 (micro-batch 4 × 1 process): the"
            " nearest are 8 and 12"
        )

    def test_too_small_names_the_least(self):
        assert refusal(H100S, global_batch_size=4).endswith(
            "(micro-batch 1 × 8 processes): the smallest is 8"
        )

    def test_a_global_batch_alone_finds_its_micro_batch(self):
        request, _ = resolved(CPU, scale="small", global_batch_size=6)
        assert (request.global_batch_size, request.micro_batch_size) == (6, 3)

    def test_a_micro_batch_alone_makes_its_global_batch(self):
        request, _ = resolved(H100S, micro_batch_size=2)
        assert (request.global_batch_size, request.gradient_accumulation_steps) == (128, 8)


class TestGpus:
    def test_fewer(self):
        assert resolved(H100S, num_gpus=2)[0].global_batch_size == 16

    @pytest.mark.parametrize(
        ("device", "num_gpus", "words"),
        [
            (H100S, 9, "this machine has 8 GPUs: --gpus 8 is the most"),
            (MI300X, 2, "this machine has 1 GPU: --gpus 1 is the most"),
            (CPU, 3, "2 CPU cores for its processes: --gpus 2 is the most"),
        ],
    )
    def test_more_than_there_are(self, device, num_gpus, words):
        assert words in refusal(device, num_gpus=num_gpus)

    def test_on_a_cpu_they_are_processes(self):
        request, _ = resolved(CPU, num_gpus=2)
        assert (request.num_gpus, request.global_batch_size) == (2, 4)


class TestPrecision:
    def test_fp16_on_a_cpu(self):
        assert "use --precision fp32 or bf16" in refusal(CPU, precision="fp16")

    def test_one_that_it_cannot_train_in(self):
        assert "does not support fp8 here: available: fp32, bf16, fp16" in refusal(
            H100S, precision="fp8"
        )


def test_what_is_said_is_kept():
    wishes = {
        "steps": 7,
        "seed": 0,
        "sequence_length": 64,
        "label": "mine",
        "time_limit_s": 5.0,
        "precision": "bf16",
    }
    request, _ = resolved(CPU, **wishes)
    assert {name: getattr(request, name) for name in wishes} == wishes
    assert (request.output_dir, request.framework, request.platform) == (FOLDER, "lightning", "cpu")


@pytest.mark.parametrize(("length", "fits"), [(49_414, True), (49_415, False)])
def test_the_output_of_one_layer_must_fit(length, fits):
    # Tiny Llama is 256 wide: 25.3 GB hold 49,414,062 tokens at two bytes a value.
    options = {"scale": "tiny", "micro_batch_size": 1000, "sequence_length": length}
    if fits:
        resolved(CPU, **options)
    else:
        assert (
            refusal(CPU, **options)
            == "a micro-batch of 1000 × 49415 tokens takes 25.30 GB for the output of one layer,"
            " and this machine has 25.30 GB: use a smaller micro-batch or --sequence-length"
        )
