"""A preflight on a screen."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from made_preflights import device, preflight

from tprimat.console import Verbosity
from tprimat.preflight.findings import findings
from tprimat.report import terminal
from tprimat.report.preflight import document


def lines(file, verbosity=Verbosity.NORMAL):
    return terminal.write(document(file, PATH), verbosity=verbosity).splitlines()


PATH = Path("output/preflight_node1.json")


def test_eight_gpus_with_all_that_may_be_found_fit_a_screen():
    devices = [device(index, 0.8 if index % 3 == 0 else 1.0, power_cap_w=500.0 + index) for index in range(8)]
    file = preflight(*devices)
    file = msgspec.structs.replace(file, findings=findings(file))
    shown = lines(file)
    assert len(shown) <= 23  # and a line before
    assert max(map(len, shown)) <= 80
    assert "  9 more with --verbose" in shown
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
