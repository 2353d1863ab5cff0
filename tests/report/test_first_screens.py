"""The first screen: which is faster, by how much, how sure, what could overturn it, what next, in 24 lines of 80."""

from __future__ import annotations

import re

import golden
import msgspec
import pytest
from made_runs import H100, MI300X, comparison, failed_run, make_run, shape

import tprimat
from tprimat.compare.cost import with_prices
from tprimat.report import document, terminal
from tprimat.report.verdict import report

LINES, COLUMNS = 24, 80
AMD = {"device": MI300X, "stack": "rocm"}
B200 = "NVIDIA B200"


def runs(step_time, count=3, **fields):
    """Runs a day apart whose speeds differ by some tenths of a percent."""
    return tuple(
        make_run(step_time=step_time * (1 + day / 500), timestamp=f"2026-03-{day:02d}T08:00:00+00:00", **fields)
        for day in range(1, count + 1)
    )


def two():
    return comparison(runs(3.2), runs(2.5, **AMD))


def three_with_cost():
    systems = runs(1.6, device=B200, precision="fp8"), runs(2.5, **AMD, batch=128), runs(3.2)
    return with_prices(comparison(*systems), ["B200=5.50", "MI300X=2.10", "H100=2.95"])


def mixed():
    tiny = {"model": "my-model", "model_config": shape(num_layers=4)}
    return comparison(
        *(runs(1.6, device=B200, precision="fp8"), runs(2.5, **AMD, batch=128), runs(3.2), runs(4.1, batch=8, gpus=4)),
        *(runs(step_time, batch=16, length=8192, device=device) for step_time, device in ((4.9, H100), (3.8, B200))),
        *(runs(step_time, 1, model="qwen", **fields) for step_time, fields in ((4.0, {}), (3.1, AMD))),
        msgspec.structs.replace(make_run(**AMD), **tiny),
        failed_run("NVIDIA A100"),
        *(make_run(device, model=None) for device in (H100, B200)),
    )


def lines(made):
    return terminal.write(document.on_screen(report(made)), width=COLUMNS).splitlines()


@pytest.mark.parametrize("made", [two, three_with_cost, mixed])
def test_golden(made):
    screen = lines(made())
    golden.check(f"screen_{made.__name__}.txt", "\n".join([*screen, ""]))
    assert max(map(len, screen)) <= COLUMNS
    # An empty line and the names of the reports follow.
    assert made is mixed or len(screen) <= LINES - 2
    assert made is two or any(line.startswith("Next: ") for line in screen[:LINES])


def test_the_first_screen_says_what_else_there_is():
    screen = lines(mixed())
    assert screen[0].endswith(" (2 more answers below)")
    assert "Other results (1 more with --verbose)" in screen
    assert [line.split(":")[0] for line in screen if line.startswith("- ")] == [
        *("- Llama 3.1 8B, sequence length 8192", "- Qwen 2.5 7B", "- my-model")
    ]


def test_what_all_systems_share_stands_above_their_table():
    eight, other = runs(2.5, **AMD), runs(3.2, gpus=4)
    assert [line.split(" / ")[0].split() for line in lines(comparison(runs(3.2), eight))[5:6]] == [
        ["MI300X", "(BF16)", "H100", "(BF16)", "MI300X"]
    ]
    assert lines(comparison(runs(3.2), eight))[0] == "Llama 3.1 8B, 8 GPUs each"
    apart = lines(comparison(other, eight))
    assert apart[0] == "Llama 3.1 8B"
    assert any("8×MI300X (BF16)   H100 / MI300X" in line for line in apart)


def test_every_answer_is_among_the_details():
    text = terminal.write(document.on_screen(report(mixed())), verbosity=terminal.Verbosity.VERBOSE)
    assert text.count("Next steps") == 3


FOLDERS = ["mlperf", "primus", "results", "mlperf_scaling", "megatron", "nemo", "traces"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_real_folder_is_answered_on_the_first_screen(samples, folder):
    screen = str(tprimat.compare(samples / folder)).splitlines()
    if folder in FOLDERS[:3]:
        assert re.search(r" faster per GPU than |No significant difference between ", " ".join(screen[:8]))
    assert max(map(len, screen)) <= COLUMNS
    # The names of other results may follow.
    assert any(line.startswith("Next: ") for line in screen[: LINES - 1])
    assert len(screen) <= LINES + 2
    assert not any(line.endswith("…") for line in screen if line != "…")
