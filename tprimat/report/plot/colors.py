"""The colours of systems, for the plot and the page: they belong to the vendor and the GPU, whatever the order.

The first tone of each vendor is one of Okabe and Ito's (https://jfly.uni-koeln.de/color/); the others lie in its range
of hues. They were chosen so that tones of a vendor, and the first tones of all, stay apart in lightness and hue for
colour-blind people too (CIELAB distances under the simulation of Machado et al. 2009), with a contrast of 3:1 or more
on white and on the page's dark ground.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tprimat.catalog import gpus
from tprimat.compare import SystemResult


class Tone(NamedTuple):
    """A colour on a light ground and on a dark one."""

    light: str
    dark: str


def _tones(pairs: str) -> tuple[Tone, ...]:
    return tuple(Tone(*pair.split("/")) for pair in pairs.split())


TONES = {
    "NVIDIA": _tones(
        "#0072B2/#56B4E9 #009E73/#2FBF94 #213C01/#B7FA9F #173752/#5E7091 "
        "#103C2D/#C3F3DD #456D38/#667454 #589845/#4F8B00 #4A6584/#B9DEFE"
    ),
    "AMD": _tones(
        "#D55E00/#F28E4E #512930/#F3BFC6 #BC785A/#B26856 #6F521B/#9D6216 "
        "#8D3E45/#91636A #3E3416/#F1E9C2 #AA7F73/#E18D84 #C4753A/#F7AD8C"
    ),
    "CPU": _tones(
        "#CC79A7/#E39BC4 #22199F/#7655E5 #5B1262/#BA3AA1 #61183A/#BD446A "
        "#63506E/#FEDEFE #9574EB/#A381F9 #C915AD/#F573D8 #6749D7/#9451C1"
    ),
    None: _tones("#4D4D4D/#7A7A7A #8A8A8A/#DCDCDC #1A1A1A/#A8A8A8"),
}
"""By vendor; None is for a vendor that isn't known."""

FIRST_TONE = {"Hopper": 0, "Blackwell": 1, "Ampere": 2, "Ada": 3, "CDNA3": 0, "CDNA4": 1, "CDNA2": 2, "RDNA3": 3}
"""The tone of a GPU's family, so that a GPU has its colour beside any other; a family not named here has the first."""

PARTS = _tones(
    "#0072B2/#56B4E9 #D55E00/#F28E4E #009E73/#2FBF94 #CC79A7/#E39BC4 #56B4E9/#9AD3F5 #E69F00/#F0C24B #000000/#F2F2F2"
)
"""For what isn't a system, such as parts of the time: Okabe and Ito's, with grey instead of yellow."""


class Color(NamedTuple):
    """A system's tone, and how many systems before it have the same one since the vendor has no more."""

    tone: Tone
    repeated: int


def colors_of(systems: Mapping[str, SystemResult]) -> dict[str, Color]:
    """Return the colour of each name, whatever the order of the systems.

    Of several systems of a GPU the first by name has its tone; the others have the next free ones of the vendor.
    """
    found: dict[str, Color] = {}
    uses = {vendor: [0] * len(tones) for vendor, tones in TONES.items()}
    later: list[tuple[str, str | None]] = []
    for name in sorted(systems):
        vendor, first = _preferred(systems[name])
        if uses[vendor][first]:
            later.append((name, vendor))
        else:
            uses[vendor][first] = 1
            found[name] = Color(TONES[vendor][first], 0)
    for name, vendor in later:
        count = uses[vendor]
        index = count.index(min(count))
        found[name] = Color(TONES[vendor][index], count[index])
        count[index] += 1
    return found


def _preferred(system: SystemResult) -> tuple[str | None, int]:
    """Return the vendor of a system and the number of its GPU's tone."""
    run = system.run
    if run.platform == "cpu":
        return "CPU", 0
    name = run.gpu_info.device_name or ""
    # By its name alone: what speaks against a peak, such as a partition's memory, changes no colour.
    short = gpus.short_name(name)
    row = next((each for each in gpus.gpus() if each.short_name == short), None)
    vendor = row.vendor if row else gpus.vendor(name) or {"nvd": "NVIDIA", "amd": "AMD"}.get(run.platform or "")
    family = row.family.split()[0] if row and row.family else ""
    return (vendor, FIRST_TONE.get(family, 0)) if vendor in TONES else (None, 0)
