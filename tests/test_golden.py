"""What the product does, against what it did when tests/golden was written: see the README
there.
"""

from __future__ import annotations

import importlib.util
import os

import pytest
from tool_modules import load_tool

golden = load_tool("record_golden")
form = load_tool("golden_form")

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the emulated machines are made of shell scripts"),
    pytest.mark.skipif(
        os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd"),  # noqa: PTH110
        reason="a real GPU shines through the emulated ones",
    ),
]
ONE_IN = 8
"""So many samples for one that is read here: the smallest, the ninth by size, and so on."""
SHOWN = 12
OF_TRAININGS = {"dry_run", "machines", "options"}
"""Groups whose machines see the packages that are installed: they are recorded with those of
requirements.txt.
"""


def differences(before, now):
    """Return the kinds of differences for people; nothing if there are none."""
    different = form.differences(before, now)
    shown = "\n".join(different[:SHOWN])
    return (
        different
        and f"{len(different)} kinds of differences (see tests/golden/README.md), the first are:\n{shown}"
    )


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in OF_TRAININGS))
        for name in golden.GROUPS
        if name not in golden.OF_SAMPLES
    ],
)
def test_as_before(group):
    if group in OF_TRAININGS and importlib.util.find_spec("torch") is None:
        pytest.skip("recorded with the packages of requirements.txt, and torch is not installed")
    different = differences(golden.read(group), golden.record(group))
    assert not different, different


def test_a_selection_of_the_samples_is_read_as_before(samples):
    selection = list(golden.cases.logs(samples, "samples", every=ONE_IN))
    assert len(selection) > 15
    now = golden.record("logs_samples", selection)
    before = golden.read("logs_samples")
    different = differences(
        {kind: {name: before[kind].get(name) for name in each} for kind, each in now.items()}, now
    )
    assert not different, different


def test_comparisons_of_samples(samples):
    different = differences(
        golden.read("comparisons_samples"), golden.record("comparisons_samples")
    )
    assert not different, different


def test_with_json_a_document_and_nothing_else_is_printed():
    found = 0
    for group in golden.GROUPS:
        for kind, cases in golden.read(group).items():
            for name, case in cases.items() if kind != "environments" else ():
                if "--json" in name.split() and isinstance(case, dict) and "out" in case:
                    found += 1
                    is_digest = str(case["out"]).startswith("sha256 ")
                    assert is_digest or isinstance(case["out"], dict), (
                        f"{kind} > {name}: {case['out'][:2]}"
                    )
    assert found > 50


def test_a_difference_is_found_and_shown():
    before = {"kind": {"case": {"status": 0, "out": ["a", "b"]}, "gone": {"status": 2}}}
    now = {"kind": {"case": {"status": False, "out": ["a", "c"]}, "new": {"status": 2}}}
    shown = form.differences(before, now)
    assert 'kind > case > out > 1\n  - "b"\n  + "c"' in shown
    assert "kind > case > status\n  - 0\n  + false" in shown
    assert 'kind > gone\n  - {"status": 2}\n  + (absent)' in shown
    assert len(shown) == 4
    assert form.differences(now, now) == []


def test_the_same_difference_is_shown_once_and_without_what_surrounds_it():
    words = [f"--word-{number}" for number in range(20)]
    before = {name: {"out": ["first", " ".join([*words, f"--limit=600 {name}"])]} for name in "abc"}
    now = {
        name: {"out": ["new", "first", " ".join([*words, f"--limit=660 {name}"])]} for name in "abc"
    }
    assert form.differences(before, now) == [
        'a > out > 0 and 2 more\n  - (absent)\n  + "new"',
        "a > out > 1 and 2 more\n  - … --limit=600 …\n  + … --limit=660 …",
    ]


def test_what_is_written_is_read_back():
    long = [f"line {number}" for number in range(20)]
    found = {
        "kind": {
            "a": {"out": long},
            "b": {"out": [*long[:19], "other"], "status": 1},
            "c": {"out": long[:3]},
        }
    }
    written = form.compressed(found)
    assert written["kind"]["b"]["like"] == ["kind", "a"]
    assert form.expanded(written) == found
