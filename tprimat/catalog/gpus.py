"""The GPUs, a row each (gpus.csv), and how a device is matched to a row.

Peaks are dense: data sheets often print the value with 2:4 sparsity, which is twice as much. A
wrong match is worse than none: a device whose name, compute units, architecture, memory or clock
contradicts a row gets no row, and the reason.

`evidence` of a row, words joined by +:

    read      is in the source named in the row
    derived   clock × compute units × operations per clock gives the same within 1 %
    memory    from memory of the data sheet: not to be printed as a fact
    conflict  sources disagree; the note says about what
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import importlib.resources
import itertools
import operator
import re
from typing import TypeVar

import msgspec

from tprimat.results.run import GpuInfo
from tprimat.text import ended, letters_and_digits, suggestion
from tprimat.units import GB, GIB

_Row = TypeVar("_Row")

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4")
"""The precisions that the table has a peak for."""

_COUNTED_AS = {"mxfp8": "fp8", "mxfp4": "fp4", "nvfp4": "fp4"}

_LACKS = {
    **dict.fromkeys(("sm_70", "sm_75"), ("tf32", "bf16", "fp8", "fp4")),
    **dict.fromkeys(("sm_80", "sm_86"), ("fp8", "fp4")),
    **dict.fromkeys(("sm_89", "sm_90", "gfx942"), ("fp4",)),
    **dict.fromkeys(("gfx908", "gfx90a"), ("tf32", "fp8", "fp4")),
    "gfx950": ("tf32",),
    "gfx1100": ("tf32", "fp8", "fp4"),
}
"""The precisions that an architecture has no matrix units for."""

OWN_FP8 = ("gfx940", "gfx941", "gfx942")
"""CDNA 3: its fp8 is not the Open Compute Project's (torch names it float8_e4m3fnuz), and it has no
MXFP8.
"""

_COMPUTED_IN = {"fp4": "fp8", "fp8": "bf16", "bf16": "fp32", "tf32": "fp32"}
"""The next wider precision, in which one is computed that a GPU lacks."""

VISIBLE_MEMORY = (0.90, 1.005)
"""Least and most that a device's total memory may be of its label, counted in GiB. Drivers keep
some back: an L4 of 24 GB shows 22.0 GiB, a B300 of 288 GB 268, an MI300X of 192 GB 191.98."""

_CLOCK_TOLERANCE = 0.02
_LONGEST_LABEL = 28
_SAYS_NOTHING = re.compile(
    r"(?<!\s)\s*(@.*|\bCPU\b|\bprocessor\b|\b\d+-core\b|\bwith radeon\b.*|\bgeneration$)",
    re.IGNORECASE,
)
"""Suffixes of CPU names."""

_GENERIC_AMD_NAME = "radeon graphics"
"""What the ROCm runtime calls a device whose PCI id its table of names lacks, in lower case."""

_MIG = re.compile(r"\bMIG\b.*", re.IGNORECASE)
_BRANDS = {"AMD": ("amd", "instinct", "radeon"), "NVIDIA": ("nvidia", "tesla", "geforce", "quadro")}

_ERROR = re.compile(
    r"\bno (supported |such |amd |nvidia )*(gpus?|devices?|file)\b"
    r"|\bnot (found|supported|available|loaded|initiali[sz]ed)"
    r"|\bfail(ed|ure)\b|\berror\b|\bunable\b|\bcould ?n[o']t\b|\bcan"
    r" ?not\b|\bunknown\b|\bdenied\b|\bis lost\b|\bn/a\b",
    re.IGNORECASE,
)
"""What nvidia-smi, rocm-smi, amd-smi and shells print in the place of a device's name."""

_CORES_PER_UNIT = {
    **dict.fromkeys(("sm_70", "sm_72", "sm_75", "sm_80"), 64),
    **dict.fromkeys(
        ("sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121"), 128
    ),
    **dict.fromkeys(("gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"), 64),
    "gfx1100": 128,
}
"""fp32 lanes of one multiprocessor or compute unit. Sources: CUDA C++ Programming Guide, arithmetic
throughput; AMD CDNA white papers. On RDNA torch counts units in pairs.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU as its maker describes it; of MI250 and MI250X also the single die, which is one
    device.

    Attributes:
        architecture: sm_90, gfx942, …
        title: for people, such as H100 SXM.
        short_name: for the labels of tables and plots, such as H100.
        name_pattern: matches the whole of the name that torch shows, without the maker's; empty
            if torch never shows this product as one device.
        compute_units: multiprocessors or compute units.
        cores: CUDA cores or stream processors.
        memory_gb: as the product is labeled; the card holds nearly that many GiB.
        tdp_w: None if it is configurable or unknown.
        link_gb_per_s: to the other GPUs, GB/s of both directions.
        fp32_tflops, …: dense peaks; None for a precision that the GPU lacks, or that isn't stated.
        sustained_bf16_tflops: the highest that a matrix product was seen to sustain; None if it
            wasn't measured (https://github.com/stas00/ml-engineering, 2026-08-22, or the row's
            source).
        clock_mhz, flops_per_clock: from which bf16 (MI100, V100, T4: fp16) follows, per compute
            unit.
        highest_clock_mhz: highest clock of a card that may run faster than its data sheet's clock
            if its power allows; else None.
        evidence: words that the module's head explains, joined by +.
    """

    key: str
    vendor: str
    family: str
    architecture: str
    title: str
    short_name: str
    name_pattern: str = ""
    compute_units: int
    cores: int
    memory_gb: float
    bandwidth_gb_per_s: float
    tdp_w: float | None = None
    link_gb_per_s: float | None = None
    link: str | None = None
    fp32_tflops: float | None = None
    tf32_tflops: float | None = None
    bf16_tflops: float | None = None
    fp16_tflops: float | None = None
    fp8_tflops: float | None = None
    fp4_tflops: float | None = None
    sustained_bf16_tflops: float | None = None
    clock_mhz: float | None = None
    highest_clock_mhz: float | None = None
    flops_per_clock: int | None = None
    evidence: str
    note: str = ""
    source: str

    def peak_tflops(self, precision: str | None) -> float | None:
        """Return the dense peak, TFLOP/s, of a name of PRECISIONS, mxfp8, mxfp4 or nvfp4; None for
        no value.
        """
        name = _COUNTED_AS.get(precision or "", precision)
        return getattr(self, f"{name}_tflops") if name in PRECISIONS else None

    def lacks(self, precision: str | None) -> bool:
        """Return whether the GPU has no matrix units for a precision."""
        return _COUNTED_AS.get(precision or "", precision) in _LACKS.get(self.architecture, ())

    def computes_in(self, precision: str | None) -> str | None:
        """Return the precision in which the matrix products of a precision are computed: itself, or
        a wider one if the GPU lacks it.
        """
        name = _COUNTED_AS.get(precision or "", precision)
        while name in _LACKS.get(self.architecture, ()):
            name = _COMPUTED_IN[name]
        return name

    @property
    def boost(self) -> float:
        """The maximum clock over that of the data sheet's peak."""
        if self.highest_clock_mhz and self.clock_mhz:
            return self.highest_clock_mhz / self.clock_mhz
        return 1.0

    def ceiling_tflops(self, precision: str | None) -> float | None:
        """Return what no product can exceed: the dense peak at the maximum clock; None if there is
        no value.
        """
        peak = self.peak_tflops(self.computes_in(precision))
        return peak and peak * self.boost

    @property
    def doubt(self) -> str | None:
        """Caveat for any value from this row, or None."""
        if "memory" in self.evidence:
            return f"{self.title}: peaks not confirmed by the vendor"
        if "conflict" in self.evidence:
            return f"{self.title}: sources disagree ({self.note})"
        return None


@dataclasses.dataclass(frozen=True)
class Match:
    """The row of a device, or None.

    Attributes:
        reason: how it was confirmed, or why there is none.
        partition: the part of a GPU that the device is, such as "MIG 3g.20gb" or "CPX partition
            (38 of 304 compute units)"; None for a whole one.
        candidates: the rows that it may be: one, or several if the source doesn't state what
            distinguishes them.
    """

    gpu: Gpu | None
    reason: str
    partition: str | None = None
    candidates: tuple[Gpu, ...] = ()


@functools.cache
def gpus() -> tuple[Gpu, ...]:
    """Return the table."""
    return read_table("gpus.csv", Gpu)


def read_table(name: str, row: type[_Row]) -> tuple[_Row, ...]:
    """Return the rows of a CSV file next to this one, whose columns are fields of `row`; an empty
    cell is a default.
    """
    return read_rows(
        importlib.resources.files("tprimat.catalog").joinpath(name).read_text(encoding="utf-8"), row
    )


def read_rows(content: str, row: type[_Row]) -> tuple[_Row, ...]:
    """Return the rows of the text of such a file."""
    rows = []
    for line in csv.DictReader(content.splitlines()):
        stated = {column: text for column, text in line.items() if text}
        rows.append(msgspec.convert(stated, row, strict=False))
    return tuple(rows)


_UNRATED = re.compile(r"(GB10|Rubin|VR200|R100|MI430X|MI440X|MI455X)\b.*", re.IGNORECASE)
"""GPUs that are known by name alone, without the maker's."""


@functools.lru_cache(maxsize=1024)
def match(info: GpuInfo) -> Match:
    """Return the row of a device, confirmed by everything known about it.

    A name is enough if it can mean only one GPU and nothing contradicts that. There is no nearest
    row: a GPU that isn't in the table has none.
    """
    if info.software_stack == "cpu":
        return Match(None, "trained on a CPU, not on a GPU")
    if not info.device_name:
        return Match(None, "the GPU's name is unknown")
    name = _bare(info.device_name)
    part = _virtual_part(info.device_name)
    if part is not None:
        return Match(
            None,
            f"{info.device_name} is a GPU partition ({part}): the peak of the whole GPU does not"
            " apply",
            part,
        )
    if name.lower() == _GENERIC_AMD_NAME:
        return _match_by_facts(info)
    objections = {gpu: _objections(gpu, info) for gpu in _named(name)}
    fitting = [gpu for gpu, against in objections.items() if not against]
    if not objections and _UNRATED.fullmatch(name):
        return Match(
            None,
            f"no dense peak of {info.device_name} is published in a source that can be cited:"
            " no MFU",
        )
    if not objections:
        return Match(None, f"{info.device_name} is not a known GPU")
    if not fitting:
        partition = _partition(next(iter(objections)), info) if len(objections) == 1 else None
        against = "; ".join(dict.fromkeys(itertools.chain(*objections.values())))
        return Match(None, f"named {info.device_name}, but {against}", partition)
    if len(fitting) > 1:
        either = " or ".join(gpu.title for gpu in fitting)
        return Match(
            None,
            f"{info.device_name} may be {either}: the source doesn't say which",
            candidates=tuple(fitting),
        )
    if name.upper().endswith(" VF") and None in (info.compute_units, info.total_memory_gb):
        return Match(
            None,
            f"{info.device_name} is a virtual function: a whole GPU only if compute units and"
            " memory match",
        )
    return Match(
        fitting[0],
        f"{fitting[0].title}, by {', '.join(_confirmations(info))}",
        candidates=(fitting[0],),
    )


@functools.lru_cache(maxsize=1024)
def short_name(device_name: str | None) -> str:
    """Return a device's name for the labels of tables and plots: never empty, and short.

    Names of the table become its short names (H100, H100 PCIe, MI300X); others lose the parts
    without information.
    """
    if not device_name or not device_name.strip():
        return "unknown"
    name = _bare(device_name)
    part = _MIG.search(name)
    whole = name[: part.start()].strip() if part else name
    rows = _named(whole)
    whole = rows[0].short_name if len(rows) == 1 else _SAYS_NOTHING.sub("", whole).strip() or name
    return ended(f"{whole} {part[0]}" if part else whole, _LONGEST_LABEL)


def suggested(name: str) -> str:
    """Return advice on an unknown name: the GPU that is likely meant, the nearest ones, or to set
    the peak.
    """
    named = list(dict.fromkeys(gpu.short_name for gpu in gpus()))
    bare = _bare(name)
    if _named(bare) or _UNRATED.fullmatch(bare):
        return ""
    nearest = suggestion(name.upper(), named, "", most=3, cutoff=0.5)
    advice = filter(None, (nearest, "its peak is unknown: pass --peak-tflops when comparing"))
    return suggestion(name.upper(), named, "; ".join(advice), cutoff=0.75)


def is_error(device_name: str) -> bool:
    """Return whether what stands for a device's name is an error text of the tool that was to print
    it.
    """
    return _ERROR.search(device_name) is not None


def denies(device_name: str, stack: str | None) -> bool:
    """Return whether a device is of a vendor whose GPUs this software stack doesn't run on."""
    return (vendor(device_name), stack) in (("AMD", "cuda"), ("NVIDIA", "rocm"))


def vendor(device_name: str) -> str | None:
    """Return AMD or NVIDIA if one of its brands, or a GPU of the table, is part of a name; else
    None.
    """
    name = device_name.lower()
    short = short_name(device_name)
    for gpu in gpus():
        if gpu.short_name == short:
            return gpu.vendor
    for maker, brands in _BRANDS.items():
        if any(brand in name for brand in brands):
            return maker
    for gpu in gpus():
        # MI300X is also called MI300. Shorter names, such as L4, may be part of any word.
        model = gpu.short_name.split()[0].rstrip("X").lower()
        if len(model) >= 4 and model in name:
            return gpu.vendor
    return None


def amd_gpus_by_memory(total_gib: float) -> list[Gpu]:
    """Return the rows of AMD's data-center GPUs that show this much memory, for logs with a total
    and no name.

    AMD's drivers show all but some 20 MiB, so that the classes lie far apart.
    """
    most = VISIBLE_MEMORY[1]
    rows = [gpu for gpu in _amd_devices() if gpu.family.startswith("CDNA")]
    return [gpu for gpu in rows if 0.995 * gpu.memory_gb <= total_gib <= most * gpu.memory_gb]


def _amd_devices() -> list[Gpu]:
    return [gpu for gpu in gpus() if gpu.vendor == "AMD" and gpu.name_pattern]


def cores(architecture: str | None, compute_units: int | None) -> int | None:
    """Return CUDA cores or stream processors of a device, or None if its architecture isn't known
    here.
    """
    per_unit = _CORES_PER_UNIT.get(_plain_architecture(architecture) or "")
    if per_unit is None or compute_units is None:
        return None
    return per_unit * compute_units


def _named(name: str) -> list[Gpu]:
    """Return the rows that a bare name can mean. Patterns match the whole name, never a part."""
    rows = [gpu for gpu in gpus() if gpu.name_pattern]
    matching = [gpu for gpu in rows if re.fullmatch(gpu.name_pattern, name, re.IGNORECASE)]
    return matching or [gpu for gpu in rows if is_called(gpu, name)]


def is_called(gpu: Gpu, name: str) -> bool:
    """Return whether a row's key, title or short name has the letters and digits of a name: H100
    SXM of H100-SXM.
    """
    return letters_and_digits(name) in map(letters_and_digits, (gpu.key, gpu.title, gpu.short_name))


def _match_by_facts(info: GpuInfo) -> Match:
    names = {
        "architecture": "architecture",
        "compute_units": "number of compute units",
        "total_memory_gb": "memory",
    }
    unknown = [fact for field, fact in names.items() if getattr(info, field) is None]
    if unknown:
        return Match(
            None, f"{info.device_name} names no GPU, and its {' and '.join(unknown)} is unknown"
        )
    fitting = [gpu for gpu in _amd_devices() if not _objections(gpu, info)]
    if info.clock_mhz is not None:
        fitting = [
            gpu for gpu in fitting if not _twins(gpu) or _near(info.clock_mhz, gpu.clock_mhz)
        ]
    if len(fitting) == 1:
        return Match(
            fitting[0],
            f"{fitting[0].title}, by {', '.join(_confirmations(info)[1:])}",
            candidates=(fitting[0],),
        )
    facts = (
        f"{_plain_architecture(info.architecture)}, {info.compute_units} compute units,"
        f" {_gib(info)}"
    )
    if fitting:
        either = " or ".join(gpu.title for gpu in fitting)
        return Match(
            None, f"{info.device_name} may be {either} ({facts})", candidates=tuple(fitting)
        )
    clock = f", {info.clock_mhz:.0f} MHz" if info.clock_mhz else ", clock unknown"
    return Match(
        None,
        f"{info.device_name} names no GPU, and no known GPU has {facts}{clock}: an unknown GPU or a"
        " partition",
    )


def _objections(gpu: Gpu, info: GpuInfo) -> list[str]:
    stack = {"cuda": "NVIDIA", "rocm": "AMD"}.get(info.software_stack or "")
    named = (info.device_name or "").split(" ")[0].split("_")[0].upper()
    architecture = _plain_architecture(info.architecture)
    part = _partition(gpu, info)
    memory = info.total_memory_gb
    least, most = (share * gpu.memory_gb * GIB / GB for share in VISIBLE_MEMORY)
    units = f"it has {info.compute_units} compute units, and {gpu.title} has {gpu.compute_units}"
    objections = {
        f"{gpu.title} is made by {gpu.vendor}": named in ("NVIDIA", "AMD") and named != gpu.vendor,
        f"it ran under {info.software_stack}, and {gpu.title} is made by {gpu.vendor}": (
            stack not in (None, gpu.vendor)
        ),
        f"its architecture is {architecture}, and {gpu.title} has {gpu.architecture}": (
            architecture not in (None, gpu.architecture)
        ),
        f"it is a partition: {part}" if part else units: (
            info.compute_units not in (None, gpu.compute_units)
        ),
        f"it has {memory or 0:.1f} GB of memory, and {gpu.title} shows {least:.0f} to {most:.0f} GB": (
            memory is not None and not least <= memory <= most
        ),
        **{
            f"its clock of {info.clock_mhz:.0f} MHz is that of {twin.title}": _near(
                info.clock_mhz, twin.clock_mhz
            )
            for twin in _twins(gpu)
            if info.clock_mhz is not None
        },
    }
    return [text for text, contradicts in objections.items() if contradicts]


def _twins(gpu: Gpu) -> list[Gpu]:
    """Return the rows that differ from one only in the clock (MI350X and MI355X).

    NVIDIA's have none: torch states their maximum clock, the table the clock from which the data
    sheet's peak follows.
    """
    shape = operator.attrgetter("vendor", "architecture", "compute_units", "memory_gb")
    alike = [other for other in gpus() if gpu.vendor == "AMD" and shape(other) == shape(gpu)]
    return [other for other in alike if other.clock_mhz != gpu.clock_mhz]


def _near(clock_mhz: float, expected: float | None) -> bool:
    return expected is not None and abs(clock_mhz / expected - 1) <= _CLOCK_TOLERANCE


def _virtual_part(name: str) -> str | None:
    name = name.replace("_", " ").strip()
    part = _MIG.search(name)
    if part is not None:
        return part[0]
    if name.upper().startswith("GRID") or re.search(r"-\d+(-\d+)?[ABCQ]$", name):
        return "vGPU"
    return None


def _partition(gpu: Gpu, info: GpuInfo) -> str | None:
    """Return which part of the row's GPU a device with fewer units is; None for a whole one."""
    units = info.compute_units
    if units is None or units >= gpu.compute_units:
        return None
    share = f"({units} of {gpu.compute_units} compute units)"
    if gpu.vendor == "NVIDIA":
        return f"MIG slice or MPS share {share}"
    mode = {2.0: "DPX ", 3.0: "TPX ", 4.0: "QPX ", 6.0: "CPX ", 8.0: "CPX "}.get(
        gpu.compute_units / units, ""
    )
    return f"{mode}partition {share}"


def _confirmations(info: GpuInfo) -> list[str]:
    units = info.compute_units and f"{info.compute_units} compute units"
    clock = info.clock_mhz and f"{info.clock_mhz:.0f} MHz"
    facts = [units, _plain_architecture(info.architecture), _gib(info), clock]
    stated = [str(fact) for fact in facts if fact]
    if stated:
        return [f"its name {info.device_name}", *stated]
    return ["its name only"]


def _gib(info: GpuInfo) -> str | None:
    if info.total_memory_gb:
        return f"{info.total_memory_gb * GB / GIB:.2f} GiB"
    return None


def _bare(name: str) -> str:
    """Return a name without the maker's, trademarks, and the underscores of file names."""
    plain = re.sub(r"\((R|TM|C)\)|[®™]", " ", name, flags=re.IGNORECASE).replace("_", " ")
    plain = " ".join(plain.split())
    return re.sub(
        r"(?i)^(\d+th gen\s+)?((nvidia|amd|intel|tesla|geforce|instinct)\s+)+(?=\S)", "", plain
    )


def _plain_architecture(architecture: str | None) -> str | None:
    """Return gfx942 of gfx942:sramecc+:xnack-, sm_90 of sm90a."""
    return (
        re.sub(r"^sm_?(\d+)a?$", r"sm_\1", (architecture or "").split(":")[0].strip().lower())
        or None
    )
