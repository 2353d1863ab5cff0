"""The patterns of kernels.csv against real kernels that were classified by hand."""

from __future__ import annotations

import csv

import pytest

from tprimat.catalog import kernels
from tprimat.results.trace import COMMUNICATION, COMPUTATION, IDLE

# What the table by hand calls the categories that it doesn't have: it counts convolutions and the
# routing of experts as other, quantization and losses by the kind of their kernels.
BY_HAND = {
    "convolution": {"other"},
    "routing": {"other"},
    "quantisation": {"elementwise"},
    "loss": {"elementwise", "reduction"},
    "normalisation": {"normalization"},
}


@pytest.fixture(scope="module")
def by_hand(samples):
    with (samples / "traces" / "kernels.tsv").open(newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))
    # Copies are no kernels: the trace says so.
    return [row for row in rows if not row["kernel"].startswith(("Memcpy", "Memset"))]


def agrees(row, ranges):
    part = kernels.part_of(row["kernel"], ranges)
    found = {"collective"} if part.startswith(COMMUNICATION) else BY_HAND.get(part, {part})
    return bool(found & {row["category"], *row["also_acceptable"].split(",")})


def test_agreement_with_operators(by_hand):
    cases = [
        (row, tuple(reversed(chain.split(" > "))) if chain else ())
        for row in by_hand
        for chain in row["operator"].split("; ")
    ]
    wrong = [(row["kernel"][:60], ranges) for row, ranges in cases if not agrees(row, ranges)]
    assert len(cases) > 200
    assert len(wrong) / len(cases) <= 0.03, wrong


def test_agreement_by_names_alone(by_hand):
    wrong = [row["kernel"][:60] for row in by_hand if not agrees(row, ())]
    assert len(wrong) / len(by_hand) <= 0.03, wrong


@pytest.mark.parametrize(
    ("kernel", "part"),
    [
        (
            "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "communication_reduce_scatter",
        ),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", "communication_all_reduce"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "communication_send_receive"),
        (
            (
                "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64>>()"
            ),
            "attention",
        ),
        (
            "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0",
            "attention",
        ),
        ("_ZN7ck_tile6kentryINS_13FmhaBwdKernelE", "attention"),
        ("aiter::fmha_fwd_hd128_bf16_causal", "attention"),
        ("bwd_kernel_dk_dv", "attention"),
        ("nvjet_hsh_192x192_64x4_2x1_v_bz_coopB_TNN", "matrix_multiplication"),
        ("Cijk_Alik_Bljk_F8BS_BH_Bias_HAS_SAV_UserArgs_MT256x256x128", "matrix_multiplication"),
        ("triton_tem_fused_addmm_4", "matrix_multiplication"),
        ("void transformer_engine::normalization::rmsnorm_fwd_general_kernel<>", "normalisation"),
        (
            "void transformer_engine::detail::cast_transpose_fused_kernel_notaligned<>",
            "quantisation",
        ),
        ("triton_per_fused__log_softmax_nll_loss_forward_3", "loss"),
        (
            (
                "void at::native::(anonymous"
                " namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>"
            ),
            "optimizer",
        ),
        ("triton_poi_fused_add_mul_silu_3", "elementwise"),
        ("some_kernel_of_ones_own", "other"),
    ],
)
def test_names(kernel, part):
    assert kernels.part_of(kernel) == part


@pytest.mark.parametrize(
    ("kernel", "ranges", "part"),
    [
        (
            "generic",
            ("aten::mm", "autograd::engine::evaluate_function: MmBackward0"),
            "matrix_multiplication",
        ),
        ("gemm", ("aten::mm", "Optimizer.step#Muon.step"), "optimizer"),
        ("reduce_kernel", ("aten::_log_softmax", "aten::cross_entropy_loss"), "loss"),
        ("reduce_kernel", ("torch/nn/functional.py(3104): cross_entropy",), "loss"),
        ("my_kernel", ("nn.Module: LlamaRMSNorm_3",), "normalisation"),
        ("flash_fwd", ("nn.Module: LlamaRMSNorm_3",), "attention"),
        (
            "ncclDevKernel_Generic",
            ("record_param_comms", "nccl:_all_gather_base"),
            "communication_all_gather",
        ),
        ("ncclDevKernel_AllReduce", ("Optimizer.step#AdamW.step",), "communication_all_reduce"),
    ],
)
def test_what_launched_a_kernel_goes_before_its_name(kernel, ranges, part):
    assert kernels.part_of(kernel, ranges) == part


@pytest.mark.parametrize(
    ("types", "part"),
    [(("float", "c10::BFloat16"), "quantisation"), (("float", "float"), "elementwise")],
)
def test_a_copy_to_another_type_is_a_cast(types, part):
    assert kernels.part_of("direct_copy_kernel", ("aten::copy_",), types) == part


def test_a_generic_collective_by_ncclrecord():
    assert (
        kernels.part_of("ncclDevKernel_Generic", ("record_param_comms",), (), "allreduce")
        == "communication_all_reduce"
    )
    assert kernels.part_of("ncclDevKernel_Generic") == "communication_unknown"


def test_phases():
    assert (
        kernels.phase_of(("aten::mm", "autograd::engine::evaluate_function: MmBackward0"))
        == "backward"
    )
    assert kernels.phase_of(("aten::_foreach_add_", "Optimizer.step#AdamW.step")) == "optimizer"
    assert kernels.phase_of(("aten::mm",)) == "forward"
    assert kernels.phase_of(()) is None


def test_each_row_stands_for_a_part_that_exists():
    kinds = {rule.part for rule in kernels.read_table("kernels.csv", kernels._Rule)}
    assert kinds <= {*COMPUTATION, *IDLE}
