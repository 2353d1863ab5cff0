"""The colors of systems, for the plot and the HTML page: they depend on vendor and GPU, not on the
order of the systems.

Greens are NVIDIA's and reds AMD's. The tones of a vendor, and the first ones of all vendors, can be
distinguished by color-blind people, too (CIELAB distances under the simulation of Machado et al.
2009), and have a contrast of 3:1 or more on white and on the page's dark background. For prints in
black there are markers, line styles and patterns of bars.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tprimat.catalog import gpus
from tprimat.compare import SystemResult


class Tone(NamedTuple):
    """A color for a light background, and one for a dark background."""

    light: str
    dark: str


def _tones(pairs: str) -> tuple[Tone, ...]:
    return tuple(Tone(*pair.split("/")) for pair in pairs.split())


TONES = {
    "NVIDIA": _tones(
        "#06A878/#0CBAA2 #245430/#D2FC6C #66903C/#AEFCC6 #36785A/#9CCC72 "
        "#60A260/#66B43C #485A24/#127806 #427218/#7ED848 #849A00/#72F09C"
    ),
    "AMD": _tones(
        "#D20606/#C6300C #F06C0C/#FC782A #C00648/#AE785A #8A1E06/#EA1242 "
        "#F64E48/#E48484 #7E184E/#B43660 #D86090/#E49CAE #5A122A/#FC1E8A"
    ),
    "CPU": _tones("#8424D8/#CC96F6 #3C0C66/#8448C0 #606CB4/#6084C6 #2490EA/#4E5AE4"),
    None: _tones("#66666C/#667878 #90909C/#C6C6D2 #24241E/#F0EAF0"),
}
"""Tones by vendor; None for an unknown vendor."""

FIRST_TONE = {
    **{
        "Hopper": 0,
        "Blackwell": 1,
        "H200": 2,
        "Ampere": 3,
        "GB200": 4,
        "Ada": 5,
        "B300": 6,
        "GB300": 7,
    },
    **{"CDNA3": 0, "CDNA4": 1, "MI325X": 2, "MI350X": 3, "CDNA2": 4, "RDNA3": 5},
}
"""The number of the tone of a GPU or of its family, so that a GPU keeps its color whatever it is
compared with; other GPUs have the first tone.
"""

PARTS = _tones(
    "#0072B2/#56B4E9 #D55E00/#F28E4E #009E73/#2FBF94 #CC79A7/#E39BC4 #56B4E9/#9AD3F5"
    " #E69F00/#F0C24B #000000/#F2F2F2"
)
"""Colors for other things than systems, such as parts of the time: Okabe and Ito's, with gray
instead of yellow.
"""


class Color(NamedTuple):
    """A system's tone, and the number of systems before it with the same tone; above 0 if there are
    more systems than tones.
    """

    tone: Tone
    repeated: int


def colors_of(systems: Mapping[str, SystemResult]) -> dict[str, Color]:
    """Return the color of each name, whatever the order of the systems.

    Of several systems with one GPU, the first by name has the GPU's tone; the others have the next
    free tones of the vendor.
    """
    return _assigned({name: _preferred(systems[name]) for name in sorted(systems)})


def colors_of_gpus(names: Mapping[str, tuple[str | None, str]]) -> dict[str, Color]:
    """Return the color of each GPU, given its vendor and its short name, in an order of priority
    for their own tones.
    """
    preferred = {}
    for key, (vendor, short) in names.items():
        own = vendor if vendor in TONES else None
        preferred[key] = (own, _first_tone(short) if own else None)
    return _assigned(preferred)


def _assigned(preferred: Mapping[str, tuple[str | None, int | None]]) -> dict[str, Color]:
    """Return a color for each name, from its vendor and the number of its tone, None if it has none
    of its own.
    """
    colors = {}
    uses = {vendor: [0] * len(tones) for vendor, tones in TONES.items()}
    later = []
    for name, (vendor, first) in preferred.items():
        if first is None or uses[vendor][first]:
            later.append((name, vendor))
        else:
            uses[vendor][first] = 1
            colors[name] = Color(TONES[vendor][first], 0)
    for name, vendor in later:
        count = uses[vendor]
        index = count.index(min(count))
        colors[name] = Color(TONES[vendor][index], count[index])
        count[index] += 1
    return colors


def _preferred(system: SystemResult) -> tuple[str | None, int]:
    run = system.run
    if run.platform == "cpu":
        return "CPU", 0
    # Only the name counts: what makes its peak unknown, such as the memory of a partition, doesn't
    # change its color.
    first = _first_tone(gpus.short_name(run.gpu_info.device_name or ""))
    if system.vendor in TONES:
        return (system.vendor, first or 0)
    return (None, 0)


def _first_tone(short: str) -> int | None:
    """Return the number of the tone of a GPU, by its short name or its family; None if it has none
    of its own.
    """
    names = short.split()[:1]
    for gpu in gpus.gpus():
        if gpu.short_name == short:
            names += (gpu.family or "").split()[:1]
            break
    for name in names:
        if name in FIRST_TONE:
            return FIRST_TONE[name]
    return None
