"""The table of GPUs, and that a device gets its own row or none."""

from __future__ import annotations

import json
import math
import re

import pytest

from tprimat.catalog import gpus
from tprimat.results.run import GpuInfo
from tprimat.units import GB, GIB

ROWS = {gpu.key: gpu for gpu in gpus.gpus()}

# Names as torch shows them, or as file names and descriptions of systems carry them.
NAMES = {
    "AMD Instinct MI355X 288GB HBM3e": "mi355x",
    "AMD Instinct MI350X 288GB HBM3e": "mi350x",
    "AMD Instinct MI325X DLC": "mi325x",
    "NVIDIA H200-NVL-141GB": "h200-nvl",
    "NVIDIA H100-NVL-94GB": "h100-nvl",
    "NVIDIA A100-PCIe-80GB": "a100-pcie-80gb",
    "Tesla V100-SXM2-16GB": "v100-sxm2-16gb",
    "Tesla V100-SXM2-32GB": "v100-sxm2-32gb",
    "Tesla V100-SXM3-32GB": "v100-sxm2-32gb",
    "Tesla V100-PCIE-16GB": "v100-pcie-16gb",
    "V100-PCIE-32GB": "v100-pcie-32gb",
    "A100-SXM4-40GB": "a100-sxm4-40gb",
    "NVIDIA A100-SXM4-40GB": "a100-sxm4-40gb",
    "NVIDIA A100-SXM4-80GB": "a100-sxm4-80gb",
    "NVIDIA_A100-SXM4-80GB": "a100-sxm4-80gb",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "NVIDIA A100-PCIe-40GB": "a100-pcie-40gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "NVIDIA A800-SXM4-80GB": "a800-sxm4-80gb",
    "NVIDIA A800 80GB PCIe": "a800-pcie-80gb",
    "NVIDIA A800 40GB Active": "a800-40gb-active",
    "NVIDIA H100 80GB HBM3": "h100-sxm5",
    "NVIDIA_H100_80GB_HBM3": "h100-sxm5",
    "NVIDIA H100-SXM5-80GB": "h100-sxm5",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA H100 80GB HBM2e": "h100-pcie",
    "NVIDIA H100 NVL": "h100-nvl",
    "NVIDIA H800": "h800-sxm5",
    "NVIDIA H20": "h20",
    "NVIDIA H20-3e": "h20-3e",
    "NVIDIA H200": "h200-sxm",
    "NVIDIA H200-SXM5-141GB": "h200-sxm",
    "NVIDIA H200 NVL": "h200-nvl",
    "NVIDIA GH200 480GB": "gh200-96gb",
    "NVIDIA GH200 120GB": "gh200-96gb",
    "NVIDIA GH200 144G HBM3e": "gh200-144gb",
    "NVIDIA B100": "b100",
    "NVIDIA B200": "b200-hgx",
    "NVIDIA GB200": "gb200",
    "NVIDIA B300 SXM6 AC": "b300-hgx",
    "NVIDIA GB300": "gb300",
    "NVIDIA L40S": "l40s",
    "NVIDIA L40": "l40",
    "NVIDIA L4": "l4",
    "NVIDIA GeForce RTX 4080": "rtx-4080",
    "NVIDIA GeForce RTX 4080 SUPER": "rtx-4080-super",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "rtx-pro-6000-ws",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000-server",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "rtx-pro-6000-maxq",
    "NVIDIA A10": "a10",
    "NVIDIA A10G": "a10g",
    "NVIDIA A30": "a30",
    "NVIDIA A40": "a40",
    "NVIDIA RTX A6000": "rtx-a6000",
    "NVIDIA GeForce RTX 3090": "rtx-3090",
    "Tesla T4": "t4",
    "NVIDIA T4": "t4",
    "NVIDIA H100 SXM5": "h100-sxm5",
    "NVIDIA H100-SXM-80GB": "h100-sxm5",
    "NVIDIA Blackwell GPU (B200-SXM-180GB)": "b200-hgx",
    "NVIDIA Blackwell GPU (GB200)": "gb200",
    "NVIDIA Blackwell Ultra GPU (B300-SXM-270GB)": "b300-hgx",
    "NVIDIA Blackwell GPU (B300-SXM-270GB)": "b300-hgx",
    "NVIDIA B300 Blackwell Ultra GPU": "b300-hgx",
    "NVIDIA Blackwell Ultra GPU (GB300)": "gb300",
    "Radeon RX 7900 XTX": "rx-7900-xtx",
    "AMD Radeon RX 7900 XTX": "rx-7900-xtx",
    "AMD Instinct MI100": "mi100",
    "AMD Instinct MI210": "mi210",
    "AMD Instinct MI250": "mi250-gcd",
    "AMD Instinct MI250X": "mi250x-gcd",
    "AMD Instinct MI300A": "mi300a",
    "AMD Instinct MI300X": "mi300x",
    "AMD_Instinct_MI300X": "mi300x",
    "AMD Instinct MI300X OAM": "mi300x",
    "AMD Instinct MI300X 192GB HBM3": "mi300x",
    "AMD Instinct MI308X": "mi308x",
    "AMD Instinct MI325X": "mi325x",
    "AMD Instinct MI325 OAM": "mi325x",
    "AMD Instinct MI325_OAM": "mi325x",
    "AMD Instinct MI350X": "mi350x",
    "AMD Instinct MI355X": "mi355x",
    "AMD Instinct MI355 OAM": "mi355x",
}

NOTHING = (
    "NVIDIA A100X",
    "NVIDIA RTX A1000",
    "NVIDIA A100-SXM-64GB",
    "NVIDIA H100 64GB HBM2",
    "NVIDIA H100 96GB HBM3",
    "NVIDIA H800 PCIe",
    "NVIDIA H200Z",
    "NVIDIA L2",
    "NVIDIA L20",
    "NVIDIA L20Y",
    "NVIDIA L40G",
    "NVIDIA GB10",
    "NVIDIA GeForce RTX 4090 D",
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce RTX 5090 D",
    "Tesla V100S-PCIE-32GB",
    "NVIDIA Graphics Device",
    "AMD Instinct MI300XHF OAM",
    "AMD Instinct MI300X HF",
    "AMD Instinct MI308X HF",
    "AMD Instinct MI300",
    "AMD Instinct MI325",
    "AMD Instinct MI455X",
    "AMD Radeon RX 7900 XT",
    "AMD Radeon AI PRO R9700",
    "NVIDIA GeForce RTX 3090 Ti",
    "NVIDIA A2",
    "TPU-v5p",
    "Intel Gaudi 3",
    "Intel(R) Arc(TM) Pro B60 Graphics",
    # Clear to a person, but not which of several GPUs.
    "NVIDIA H100",
    "NVIDIA A100",
    "AMD Instinct MI250X / MI250",
    "AMD Radeon Graphics",
    # Whole only if more than the name says so.
    "AMD Instinct MI300X VF",
    # Parts of a GPU.
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    "NVIDIA H100 80GB HBM3 MIG 3g.20gb",
    "NVIDIA H200 MIG 1g.18gb",
    "GRID A100-10C",
    "GRID A100D-80C",
    "NVIDIA A100-40C",
    "NVIDIA A100-4-20C",
    "NVIDIA L40S-48Q",
    "",
)


def device(name="NVIDIA H100 80GB HBM3", gib=None, **facts) -> GpuInfo:
    memory = None if gib is None else gib * GIB / GB
    return GpuInfo(device_name=name, total_memory_gb=memory, **facts)


def key_of(info: GpuInfo) -> str | None:
    """The row of a device; a device without one has a reason."""
    match = gpus.match(info)
    assert match.gpu or match.reason, info
    return match.gpu and match.gpu.key


def test_a_name_means_its_own_row():
    assert {name: key_of(device(name)) for name in NAMES} == NAMES
    assert {name for name in NAMES if gpus.match(device(name)).partition} == set()


@pytest.mark.parametrize(
    ("name", "vendor"),
    [
        ("NVIDIA anything", "NVIDIA"),
        ("H200", "NVIDIA"),
        ("8xB300", "NVIDIA"),
        ("Tesla V100-SXM2-16GB", "NVIDIA"),
        ("AMD anything", "AMD"),
        ("mi300", "AMD"),
        ("MI325X VF", "AMD"),
        ("Gaudi 3", None),
        ("default4", None),
        ("", None),
    ],
)
def test_a_name_shows_the_vendor(name, vendor):
    assert gpus.vendor(name) == vendor


def test_a_name_that_is_no_row_gets_none():
    assert {name: key_of(device(name)) for name in NOTHING} == dict.fromkeys(NOTHING)


def test_the_table_is_large_enough_to_mean_something():
    assert len(NAMES) >= 50
    assert len(NOTHING) >= 8
    torch_shows = {gpu.key for gpu in gpus.gpus() if gpu.name_pattern}
    assert torch_shows == set(NAMES.values())


def test_every_row_is_found_by_all_its_facts():
    for gpu in gpus.gpus():
        if not gpu.name_pattern:
            continue
        name = next(name for name, key in NAMES.items() if key == gpu.key)
        match = gpus.match(
            device(
                name,
                gib=gpu.memory_gb * 0.99,
                compute_units=gpu.compute_units,
                architecture=gpu.architecture,
                software_stack="rocm" if gpu.vendor == "AMD" else "cuda",
            )
        )
        assert match.gpu == gpu, (gpu.key, match.reason)
        assert str(gpu.compute_units) in match.reason, gpu.key


def test_real_results_of_earlier_tools_are_matched(samples):
    keys = set()
    for file in sorted((samples / "results").glob("*.json")):
        content = json.loads(file.read_text())
        if not isinstance(content, dict) or "gpu_info" not in content:
            continue
        stated = content["gpu_info"]
        info = GpuInfo(device_name=stated["device_name"], total_memory_gb=stated["total_memory_gb"])
        found = gpus.match(info).gpu
        assert found is not None, file.name
        keys.add(found.key)
    assert keys == {"h100-sxm5", "mi300x"}


BY_FACTS = (
    (device("NVIDIA H100", gib=79.2, compute_units=132), "h100-sxm5"),
    (device("NVIDIA H100", gib=79.2, compute_units=114), "h100-pcie"),
    (device("NVIDIA H100", gib=93.1, compute_units=132), "h100-nvl"),
    (device("AMD Instinct MI250X / MI250", compute_units=104), "mi250-gcd"),
    (device("AMD Instinct MI250X / MI250", compute_units=110), "mi250x-gcd"),
    (device("AMD Instinct MI300X VF", gib=191.98, compute_units=304), "mi300x"),
    (device("AMD Radeon Graphics", gib=191.98, compute_units=304, architecture="gfx942"), "mi300x"),
    (device("AMD Radeon Graphics", gib=255.98, compute_units=304, architecture="gfx942"), "mi325x"),
    (device("AMD Radeon Graphics", gib=191.98, compute_units=80, architecture="gfx942"), "mi308x"),
    (device("AMD Radeon Graphics", gib=127.5, compute_units=228, architecture="gfx942"), "mi300a"),
    (
        device("AMD Radeon Graphics", gib=63.98, compute_units=110, architecture="gfx90a"),
        "mi250x-gcd",
    ),
    (device("AMD Radeon Graphics", gib=31.98, compute_units=120, architecture="gfx908"), "mi100"),
    (
        device(
            "AMD Radeon Graphics",
            gib=287.98,
            compute_units=256,
            architecture="gfx950:sramecc+:xnack-",
            clock_mhz=2200.0,
        ),
        "mi350x",
    ),
    (
        device(
            "AMD Radeon Graphics",
            gib=287.98,
            compute_units=256,
            architecture="gfx950",
            clock_mhz=2400.0,
        ),
        "mi355x",
    ),
    (device("NVIDIA GB200", gib=184.4, compute_units=152, architecture="sm_100"), "gb200"),
    (device("NVIDIA GB300", gib=276.6, compute_units=152, architecture="sm_103"), "gb300"),
    # Torch states NVIDIA's maximum clock, which is not the one the peak follows from.
    (
        device("NVIDIA H100 80GB HBM3", compute_units=132, clock_mhz=1980.0, architecture="sm_90"),
        "h100-sxm5",
    ),
    (device("NVIDIA H100 80GB HBM3", architecture="sm90a"), "h100-sxm5"),
    # A count of cores isn't a fact of the device: earlier tools wrote the H100's for all.
    (device("AMD Instinct MI300X", gib=191.98, gpu_cores=16896), "mi300x"),
    # Some write the label, 80 or 192, as GB.
    (GpuInfo(device_name="NVIDIA A100-SXM4-80GB", total_memory_gb=80.0), "a100-sxm4-80gb"),
    (GpuInfo(device_name="NVIDIA L4", total_memory_gb=22.03 * GIB / GB), "l4"),
)


def test_facts_decide_where_a_name_does_not():
    for info, key in BY_FACTS:
        assert key_of(info) == key, (info, gpus.match(info).reason)


CONTRADICTIONS = (
    (device(compute_units=114), "114 of 132 compute units"),
    (device(compute_units=144), "144 compute units"),
    (device(gib=139.8), "150.1 GB of memory"),
    (device(gib=39.4), "42.3 GB of memory"),
    (device(architecture="sm_80"), "sm_80"),
    (device(software_stack="rocm"), "under rocm"),
    (device("AMD H100 PCIe"), "is made by NVIDIA"),
    (device("NVIDIA A100-SXM4-40GB", gib=79.2), "85.0 GB of memory"),
    (device("NVIDIA H20", gib=139.8), "150.1 GB"),
    (device("AMD Instinct MI300X", gib=255.98), "274.9 GB"),
    (device("AMD Instinct MI300X", compute_units=80), "80 of 304"),
    (device("AMD Instinct MI325X", gib=191.98), "206.1 GB"),
    (device("AMD Instinct MI300X", architecture="gfx950"), "gfx950"),
    (device("AMD Instinct MI355X", compute_units=256, clock_mhz=2200.0), "that of MI350X"),
    (device("AMD Instinct MI250X", compute_units=104), "104 of 110"),
    (device("AMD Instinct MI250", compute_units=110), "110 compute units"),
    (device("AMD Instinct MI300X VF", gib=95.9, compute_units=152), "DPX"),
    (
        device("AMD Radeon Graphics", gib=287.98, compute_units=256, architecture="gfx950"),
        "MI350X or MI355X",
    ),
    (
        device(
            "AMD Radeon Graphics",
            gib=287.98,
            compute_units=256,
            architecture="gfx950",
            clock_mhz=1800.0,
        ),
        "no known GPU has",
    ),
    (
        device("AMD Radeon Graphics", gib=63.98, compute_units=104, architecture="gfx90a"),
        "MI210 or MI250",
    ),
    (
        device("AMD Radeon Graphics", gib=23.98, compute_units=38, architecture="gfx942"),
        "partition",
    ),
    (
        device("AMD Radeon Graphics", gib=15.6, compute_units=12, architecture="gfx1103"),
        "unknown GPU",
    ),
    (
        device("AMD Radeon Graphics", architecture="gfx942"),
        "number of compute units and memory is unknown",
    ),
    (device("AMD EPYC", software_stack="cpu"), "on a CPU"),
    (device(None), "unknown"),
)


def test_a_contradiction_refuses_with_its_reason():
    for info, reason in CONTRADICTIONS:
        match = gpus.match(info)
        assert match.gpu is None, info
        assert reason in match.reason, info


PARTS = (
    (
        device("AMD Instinct MI300X", gib=23.98, compute_units=38),
        "CPX partition (38 of 304 compute units)",
    ),
    (
        device("AMD Instinct MI300X", gib=95.98, compute_units=152),
        "DPX partition (152 of 304 compute units)",
    ),
    (device("AMD Instinct MI300X", compute_units=76), "QPX partition (76 of 304 compute units)"),
    (device("AMD Instinct MI300A", compute_units=38), "CPX partition (38 of 228 compute units)"),
    (device("AMD Instinct MI300A", compute_units=76), "TPX partition (76 of 228 compute units)"),
    (device("AMD Instinct MI355X", compute_units=32), "CPX partition (32 of 256 compute units)"),
    (device("AMD Instinct MI300X", compute_units=300), "partition (300 of 304 compute units)"),
    (
        device("NVIDIA H100 80GB HBM3", compute_units=60),
        "MIG slice or MPS share (60 of 132 compute units)",
    ),
    (device("NVIDIA H100 80GB HBM3 MIG 3g.20gb", compute_units=60), "MIG 3g.20gb"),
    (device("GRID A100-10C"), "vGPU"),
    (device("NVIDIA H100 80GB HBM3", compute_units=132), None),
)


def test_parts_of_a_gpu_are_named():
    for info, partition in PARTS:
        assert gpus.match(info).partition == partition, info


def test_every_row_is_whole():
    for gpu in gpus.gpus():
        assert all((gpu.source, gpu.title, gpu.short_name, gpu.evidence)), gpu.key
        assert set(gpu.evidence.split("+")) <= {"read", "derived", "memory", "conflict"}, gpu.key
        assert {"read", "memory"} & set(gpu.evidence.split("+")), gpu.key
        assert gpu.vendor in ("NVIDIA", "AMD"), gpu.key
        assert re.compile(gpu.name_pattern), gpu.key
        assert gpu.cores == gpus.cores(gpu.architecture, gpu.compute_units), gpu.key
        assert (gpu.doubt is not None) == bool(
            {"memory", "conflict"} & set(gpu.evidence.split("+"))
        ), gpu.key
        # A table of dense peaks: halving the width of a number at most doubles the rate, but for
        # fp4.
        for wide, narrow in (("bf16", "fp8"), ("fp8", "fp4")):
            if gpu.peak_tflops(wide) and gpu.peak_tflops(narrow):
                assert 1.9 < gpu.peak_tflops(narrow) / gpu.peak_tflops(wide) < 4.1, (
                    gpu.key,
                    wide,
                    narrow,
                )


def test_keys_titles_and_short_names_tell_rows_apart():
    for field in ("key", "title", "short_name"):
        values = [getattr(gpu, field) for gpu in gpus.gpus()]
        assert len(values) == len(set(values))


def test_announced_gpus_are_not_in_the_table():
    assert not [gpu.key for gpu in gpus.gpus() if "455" in gpu.key]


def test_derived_peaks_agree_within_a_percent():
    rows = [gpu for gpu in gpus.gpus() if "derived" in gpu.evidence]
    assert len(rows) > 10
    for gpu in rows:
        derived = gpu.compute_units * gpu.clock_mhz * gpu.flops_per_clock / 1e6
        # V100 and T4 have no bf16, and MI100 does fp16 at twice the rate.
        stated = (
            gpu.peak_tflops("fp16")
            if gpu.architecture in ("sm_70", "sm_75", "gfx908")
            else gpu.peak_tflops("bf16")
        )
        assert derived == pytest.approx(stated, rel=0.01), gpu.key


DENSE_PEAKS = (
    ("a100-sxm4-40gb", 312, None),
    ("a100-sxm4-80gb", 312, None),
    ("h100-sxm5", 989.4, 1978.9),
    ("h100-pcie", 756, 1513),
    ("h100-nvl", 835.5, 1670.5),
    ("h20", 148, 296),
    ("h200-sxm", 989.4, 1978.9),
    ("h200-nvl", 835.5, 1670.5),
    ("b200-hgx", 2250, 4500),
    ("gb200", 2500, 5000),
    ("b300-hgx", 2250, 4500),
    ("gb300", 2500, 5000),
    ("mi250x-gcd", 191.5, None),
    ("mi300a", 980.6, 1961.2),
    ("mi300x", 1307.4, 2614.9),
    ("mi325x", 1307.4, 2614.9),
    ("mi350x", 2306.9, 4613.7),
    ("mi355x", 2516.6, 5033.2),
    ("mi308x", None, None),
    ("v100-sxm2-16gb", None, None),
    ("l4", 121, 242),
    ("l40s", 362, 733),
    ("rtx-4090", 165.2, 330.3),
    ("rtx-5090", 209.5, 838),
    ("a10", 125, None),
    ("a10g", 70, None),
    ("a30", 165, None),
    ("a40", 149.7, None),
    ("rtx-a6000", 154.8, None),
    ("rtx-3090", 71.2, None),
    ("t4", None, None),
    ("rx-7900-xtx", 122.8, None),
)


def test_dense_peaks():
    of_table = [
        (key, ROWS[key].peak_tflops("bf16"), ROWS[key].peak_tflops("fp8"))
        for key, *_ in DENSE_PEAKS
    ]
    assert of_table == list(DENSE_PEAKS)


PEAKS = (
    ("mi355x", "mxfp8", 5033.2),
    ("mi355x", "mxfp4", 10066.3),
    ("mi355x", "fp4", 10066.3),
    ("mi355x", "tf32", None),
    ("mi300x", "tf32", 653.7),
    ("h100-sxm5", "fp32", 66.9),
    ("h100-sxm5", "fp4", None),
    ("h100-sxm5", "mxfp4", None),
    ("h100-sxm5", "int8", None),
    ("h100-sxm5", "BF16", None),
    ("h100-sxm5", "", None),
    ("h100-sxm5", None, None),
    ("mi308x", "bf16", None),
)


def test_a_peak_is_of_a_known_precision_or_none():
    assert [(key, name, ROWS[key].peak_tflops(name)) for key, name, _ in PEAKS] == list(PEAKS)


SHORT_NAMES = (
    ("NVIDIA H100 80GB HBM3", "H100"),
    ("AMD Instinct MI300X", "MI300X"),
    ("AMD Instinct MI325 OAM", "MI325X"),
    ("NVIDIA H100 PCIe", "H100 PCIe"),
    ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Server"),
    ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100 40GB MIG 1g.5gb"),
    ("NVIDIA GeForce RTX 3090", "RTX 3090"),
    ("AMD Radeon Graphics", "Radeon Graphics"),
    ("AMD Instinct MI250X / MI250", "MI250X / MI250"),
    ("AMD EPYC", "EPYC"),
    ("AMD EPYC 9654 96-Core Processor", "EPYC 9654"),
    ("AMD Ryzen 7 5800U with Radeon Graphics", "Ryzen 7 5800U"),
    ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "Xeon E5-2680 v4"),
    ("13th Gen Intel(R) Core(TM) i7-1365U", "Core i7-1365U"),
    ("Apple M2 Pro", "Apple M2 Pro"),
    ("NVIDIA", "NVIDIA"),
    ("Processor", "Processor"),
    (None, "unknown"),
    ("  ", "unknown"),
)


def test_short_names():
    assert [(name, gpus.short_name(name)) for name, _ in SHORT_NAMES] == list(SHORT_NAMES)


def test_an_endless_name_is_cut():
    short = gpus.short_name("Experimental accelerator of the third generation, revision seven")
    assert len(short) <= 28
    assert short.endswith("…")


@pytest.mark.parametrize(
    ("gib", "titles"),
    [
        (191.98, {"MI300X", "MI308X"}),
        (255.98, {"MI325X"}),
        (287.98, {"MI350X", "MI355X"}),
        (63.98, {"MI210", "MI250 (one die)", "MI250X (one die)"}),
        (24.0, set()),
        (79.18, set()),
    ],
)
def test_amds_gpus_of_a_memory_total(gib, titles):
    assert {gpu.title for gpu in gpus.amd_gpus_by_memory(gib)} == titles


@pytest.mark.parametrize(
    ("architecture", "units", "cores"),
    [
        ("sm_90", 132, 16896),
        ("gfx942:sramecc+:xnack-", 304, 19456),
        ("gfx942", 38, 2432),
        ("sm_86", 82, 10496),
        ("gfx1100", 48, 6144),
        ("gfx1030", 40, None),
        ("sm_90", None, None),
        (None, 132, None),
    ],
)
def test_cores_of_a_device(architecture, units, cores):
    assert gpus.cores(architecture, units) == cores


def test_what_a_gpu_lacks_has_no_peak_and_what_it_has_has_one():
    for gpu in gpus.gpus():
        if gpu.fp16_tflops is None:
            assert gpu.key == "mi308x"
            continue
        for precision in gpus.PRECISIONS:
            assert gpu.lacks(precision) == (gpu.peak_tflops(precision) is None), (
                gpu.key,
                precision,
            )


def test_what_a_gpu_lacks_is_computed_in_a_wider_precision():
    wider = [
        (key, name, ROWS[key].computes_in(name))
        for key in ("v100-sxm2-16gb", "h100-sxm5", "mi355x")
        for name in ("mxfp4", "mxfp8", "bf16", "tf32", "fp16", None)
    ]
    assert [computed for *_, computed in wider] == [
        *("fp32", "fp32", "fp32", "fp32", "fp16", None),
        *("fp8", "fp8", "bf16", "tf32", "fp16", None),
        *("fp4", "fp8", "bf16", "fp32", "fp16", None),
    ]


def test_a_ceiling_is_at_the_highest_clock_and_above_what_was_measured():
    assert ROWS["rtx-4090"].ceiling_tflops("bf16") == pytest.approx(165.2 * 3105 / 2520)
    assert ROWS["h100-sxm5"].ceiling_tflops("bf16") == 989.4
    assert ROWS["h100-sxm5"].ceiling_tflops("int8") is None
    for gpu in gpus.gpus():
        assert (gpu.sustained_bf16_tflops or 0) <= (gpu.ceiling_tflops("bf16") or 0), gpu.key
        assert (gpu.highest_clock_mhz or math.inf) > (gpu.clock_mhz or 0), gpu.key


def test_a_name_of_several_gpus_has_them_as_candidates():
    names = {
        "NVIDIA H100": 3,
        "NVIDIA A100": 4,
        "AMD Instinct MI250X / MI250": 2,
        "NVIDIA H200": 1,
        "TPU-v5p": 0,
    }
    assert {name: len(gpus.match(device(name)).candidates) for name in names} == names
    facts = {"gib": 287.98, "compute_units": 256, "architecture": "gfx950"}
    assert len(gpus.match(device("AMD Radeon Graphics", **facts)).candidates) == 2


@pytest.mark.parametrize("name", ["TPU-v5p", "Intel Gaudi 3"])
def test_what_is_no_gpu_of_the_table_is_said_to_be_unknown(name):
    assert gpus.match(device(name)).reason == f"{name} is not a known GPU"


def test_hgx_b200_is_that_of_its_data_sheet():
    row = ROWS["b200-hgx"]
    assert (row.fp32_tflops, row.tf32_tflops, row.bf16_tflops, row.bandwidth_gb_per_s) == (
        75,
        1100,
        2250,
        7700,
    )


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("H1000", "H100"),
        ("mi300xx", "MI300X"),
        ("MI355", "MI355X"),
        ("H100", None),
        ("MI430X", None),
    ],
)
def test_a_misspelled_gpu_is_recognized_and_a_known_one_is_not_asked_about(name, near):
    assert gpus.suggested(name) == ("" if near is None else f"did you mean {near}?")


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GB10",
        "NVIDIA Rubin",
        "NVIDIA VR200",
        "AMD Instinct MI430X",
        "AMD Instinct MI455X OAM",
    ],
)
def test_a_gpu_without_a_citable_peak_is_said_to_have_none(name):
    found = gpus.match(device(name))
    assert (found.gpu, found.candidates) == (None, ())
    assert (
        found.reason
        == f"no dense peak of {name} is published in a source that can be cited: no MFU"
    )


def test_a_grace_hopper_of_unknown_memory_may_be_either():
    found = gpus.match(device("NVIDIA Hopper GPU (GH200)"))
    assert [gpu.key for gpu in found.candidates] == ["gh200-96gb", "gh200-144gb"]
