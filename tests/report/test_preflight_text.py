"""A preflight on a screen."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from made_preflights import device, preflight

from tprimat.console import Verbosity
from tprimat.preflight.findings import findings
from tprimat.report import terminal
from tprimat.report.preflight import document
from tprimat.results.preflight import Finding


def lines(file, verbosity=Verbosity.NORMAL):
    return terminal.write(document(file, PATH), verbosity=verbosity).splitlines()


PATH = Path("output/preflight_node1.json")


def test_eight_gpus_with_all_that_may_be_found_fit_a_screen():
    devices = [
        device(index, 0.8 if index % 3 == 0 else 1.0, power_cap_w=500.0 + index)
        for index in range(8)
    ]
    file = preflight(*devices)
    file = msgspec.structs.replace(file, findings=findings(file))
    shown = lines(file)
    assert len(shown) <= 23  # and a line before
    assert max(map(len, shown)) <= 80
    assert "  10 more with --verbose" in shown
    assert len(lines(file, Verbosity.VERBOSE)) > 24 + 8 * 9


def test_values_units_and_shares():
    text = "\n".join(lines(preflight(device(0), device(1, 0.9))))
    text = re.sub(" +", " ", text)
    # The median of 700 and 630, and the H100's dense peak of 989.
    assert "bf16 matmul, TFLOP/s 665.0 658.4 678.3 +0.0% 630.0 GPU 1 67%" in text
    assert "all-reduce: 420.0 GB/s bus bandwidth, 1 GiB (2 devices, nccl)" in text
    assert "disk: write 2.10 GB/s, read 3.40 GB/s (1 GiB)" in text


def test_what_could_not_be_measured_is_there_with_its_reason():
    text = "\n".join(lines(preflight(device(0, unknown={"fp8": "no kernel"}))))
    assert "! not measured: fp8: no kernel" in text
    assert "slowest" not in text


@pytest.mark.parametrize(
    ("devices", "wrong", "verdict"),
    [
        ((1.0, 1.0, 1.0), (), "Ready: nothing was found that slows a benchmark"),
        ((1.0, 1.0, 0.8), (), "Not ready: GPU 2 is slower than the others"),
        ((1.0, 1.0, 1.0), ("power_cap",), "Usable: 1 finding may slow a benchmark"),
        ((1.0, 1.0, 1.0), ("power_cap", "cpu_busy"), "Usable: 2 findings may slow a benchmark"),
        (
            (1.0, 1.0, 1.0),
            ("cpu_busy", "wrong_sum"),
            "Not ready: an all-reduce returned a wrong sum",
        ),
    ],
)
def test_c11_a_preflight_ends_with_a_verdict(devices, wrong, verdict):
    file = preflight(*(device(index, rate) for index, rate in enumerate(devices)))
    found = [*findings(file), *(Finding(code=code, text=f"found {code}") for code in wrong)]
    file = msgspec.structs.replace(file, findings=tuple(found))
    assert lines(file)[0] == verdict
