"""Colors belong to the vendor and the GPU, and color-blind people can tell them apart."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from made_runs import H100, MI300X, comparison, make_run

from tprimat.catalog import gpus
from tprimat.report import plot
from tprimat.report.colors import FIRST_TONE, TONES, colors_of
from tprimat.report.page.view import View
from tprimat.report.verdict import report

AMD = {"device": MI300X, "stack": "rocm"}
B200 = "NVIDIA B200"
CPU = {"device": "AMD EPYC 9654 96-Core Processor", "stack": "cpu"}


def found(*runs):
    systems = comparison(*runs).systems
    return {
        name: color.tone for name, color in colors_of({each.name: each for each in systems}).items()
    }


def of_device(tones, part):
    (tone,) = (tone for name, tone in tones.items() if part in name)
    return tone


class TestOwner:
    def test_the_order_of_the_files_changes_nothing(self):
        runs = [
            make_run(),
            make_run(**AMD, step_time=2.4),
            make_run(B200, step_time=2.0),
            make_run(label="tuned"),
        ]
        assert all(found(*order) == found(*runs) for order in itertools.permutations(runs))

    def test_a_system_has_its_color_beside_any_other_and_whichever_is_faster(self):
        beside_amd = found(make_run(), make_run(**AMD, step_time=2.4))
        beside_slower_amd = found(make_run(), make_run(**AMD, step_time=4))
        beside_nvidia = found(make_run(), make_run(B200, step_time=2.0))
        h100 = {of_device(each, "H100") for each in (beside_amd, beside_slower_amd, beside_nvidia)}
        assert h100 == {TONES["NVIDIA"][0]}
        assert of_device(beside_amd, "MI300X") == TONES["AMD"][0]
        assert of_device(beside_nvidia, "B200") == TONES["NVIDIA"][FIRST_TONE["Blackwell"]]

    def test_three_systems_of_a_vendor_have_three_of_its_tones(self):
        tones = found(
            make_run(), make_run(label="tuned", step_time=3.0), make_run(B200, step_time=2.0)
        )
        assert len(set(tones.values())) == 3
        assert set(tones.values()) <= set(TONES["NVIDIA"])
        # The two of one GPU leave the other GPU its own.
        assert of_device(tones, "B200") == TONES["NVIDIA"][FIRST_TONE["Blackwell"]]

    def test_a_cpu_is_a_cpu_whoever_made_it(self):
        assert set(found(make_run(**CPU), make_run(**AMD)).values()) == {
            TONES["CPU"][0],
            TONES["AMD"][0],
        }

    def test_an_unknown_vendor_is_neutral(self):
        unknown = make_run("Accelerator 9000", stack=None)
        assert of_device(found(unknown, make_run()), "Accelerator") == TONES[None][0]

    def test_a_gpu_that_the_table_lacks_has_its_vendors_colour(self):
        assert set(
            found(make_run("NVIDIA X999"), make_run("AMD Instinct MI999", stack="rocm")).values()
        ) == {
            TONES["NVIDIA"][0],
            TONES["AMD"][0],
        }

    @pytest.mark.parametrize("count", [len(TONES["NVIDIA"]), len(TONES["NVIDIA"]) + 1])
    def test_systems_beyond_the_tones_are_told_apart_by_their_lines(self, count):
        systems = comparison(*(make_run(label=str(index)) for index in range(count))).systems
        colors = colors_of({each.name: each for each in systems})
        assert len(set(colors.values())) == count
        assert max(color.repeated for color in colors.values()) == (count > len(TONES["NVIDIA"]))
        view = View(report(comparison(*(make_run(label=str(index)) for index in range(count)))))
        assert len({(view.tones[each.field], each.dash) for each in view.systems}) == count

    def test_plot_and_page_have_the_same(self):
        result = comparison(make_run(), make_run(**AMD, step_time=2.4))
        view = View(report(result))
        bars = plot.figure(report(result)).axes[0].patches
        names = [
            label.get_text() for label in plot.figure(report(result)).axes[0].get_yticklabels()
        ]
        shown = {view.tones[each.field].light for each in view.systems}
        assert {hexadecimal(bar.get_facecolor()) for bar in bars} == shown == {"#06A878", "#D20606"}
        assert (
            hexadecimal(bars[names.index("8×MI300X (BF16)")].get_facecolor())
            == TONES["AMD"][0].light
        )
        assert H100 not in names


def hexadecimal(color):
    return "#" + "".join(f"{round(255 * part):02X}" for part in color[:3])


# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear light.
VISION = {
    "normal": np.eye(3),
    "deuteranopia": np.array(
        [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]
    ),
    "protanopia": np.array(
        [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]
    ),
    "tritanopia": np.array(
        [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]
    ),
}
TO_XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])


def linear(color):
    parts = np.array([int(color[index : index + 2], 16) / 255 for index in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(light):
    ratios = TO_XYZ @ np.clip(light, 0, 1) / (0.9505, 1, 1.0888)
    x, y, z = np.where(ratios > 0.008856, np.cbrt(ratios), 7.787 * ratios + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one, other):
    """Return the least CIELAB distance of two colors over the kinds of vision."""
    return min(
        np.linalg.norm(lab(each @ linear(one)) - lab(each @ linear(other)))
        for each in VISION.values()
    )


@pytest.mark.parametrize("scheme", [0, 1])
class TestPalette:
    def test_vendors_are_told_apart(self, scheme):
        firsts = [tones[0][scheme] for tones in TONES.values()]
        assert min(distance(*pair) for pair in itertools.combinations(firsts, 2)) > 17

    def test_the_first_systems_of_both_gpu_vendors_are_told_apart(self, scheme):
        for count, least in ((2, 17), (3, 13), (5, 10)):
            tones = [tone[scheme] for vendor in ("NVIDIA", "AMD") for tone in TONES[vendor][:count]]
            assert min(distance(*pair) for pair in itertools.combinations(tones, 2)) > least

    def test_all_tones_are_told_apart(self, scheme):
        tones = [tone[scheme] for tones in TONES.values() for tone in tones]
        assert min(distance(*pair) for pair in itertools.combinations(tones, 2)) > 7.5

    @pytest.mark.parametrize("vendor", TONES)
    def test_tones_of_a_vendor_are_told_apart(self, scheme, vendor):
        tones = [tone[scheme] for tone in TONES[vendor]]
        assert min(distance(*pair) for pair in itertools.combinations(tones[:3], 2)) > 13
        assert min(distance(*pair) for pair in itertools.combinations(tones, 2)) > 10

    def test_a_line_is_seen_on_its_ground(self, scheme):
        ground = TO_XYZ[1] @ linear(("#FFFFFF", "#14171C")[scheme])
        for color in (tone[scheme] for tones in TONES.values() for tone in tones):
            low, high = sorted((ground, TO_XYZ[1] @ linear(color)))
            assert (high + 0.05) / (low + 0.05) >= 3


def test_a_vendor_without_tones_has_those_of_an_unknown_one(monkeypatch):
    other = dataclasses.replace(
        gpus.gpus()[0], vendor="Foo", family="Ada", short_name="X9", name_pattern="X9"
    )
    systems = {system.name: system for system in comparison(make_run("Foo X9")).systems}
    monkeypatch.setattr(gpus, "gpus", lambda: (other,))
    monkeypatch.setattr(gpus, "short_name", lambda name: "X9")
    assert [color.tone for color in colors_of(systems).values()] == [TONES[None][0]]
