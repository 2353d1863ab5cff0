"""The machine in an MLPerf system description: systems/*.json, or :::SYSJSON within a log.

A submission keeps them apart: results/<system>/<benchmark>/result_0.txt and systems/<system>.json.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from tprimat.catalog import gpus
from tprimat.notes import Note, NoteValue, noted
from tprimat.redaction import redacted_start
from tprimat.results.run import (
    FROM_DESCRIPTION,
    Environment,
    GpuInfo,
    Platform,
    Run,
    SoftwareStack,
)
from tprimat.units import gib_to_gb, round_figure

MARK = ":::SYSJSON"

_PRECISION = re.compile(
    r"(?<![a-z0-9])(?:(mx)?(fp[48])|nv(fp4)|(bf16|fp16|tf32))(?![a-z0-9])", re.IGNORECASE
)

_ROUND = re.compile(
    r"^(?:training_results_|mlperf[_-](?:training[_-])?)?v([0-9]\.[0-9])(?:_|$)", re.IGNORECASE
)

_GPUS = re.compile(
    r"(?:(?<![A-Za-z\d])(?P<nodes>\d{1,4})x(?:[A-Za-z][\w-]{0,40}?[x-])?(?=\d{1,5}x?[A-Z]{1,2}\d{3}))?"
    r"(?:(?<![A-Za-z\d])|(?<=x))(?:(?P<count>\d{1,5})x?)?(?P<gpu>(?:MI|GB|[ABH])\d{3}[AX]?)(?![A-Za-z\d])"
)
"""GPUs in a name, with their number and that of their nodes: MI355X, 8xB200, 2x8xB200,
2xXE9680x8H100.
"""

_NUMBER = re.compile(
    r"(?<![A-Za-z])(?:n?gpus?[_-]?(\d{1,5})|(?<!\d)(\d{1,5})[_-]?gpus?)(?![A-Za-z\d])"
)
"""A number of GPUs in a name: ngpu8, 8gpu."""

_PLATFORMS: dict[str | None, tuple[Platform, SoftwareStack]] = {
    "AMD": ("amd", "rocm"),
    "NVIDIA": ("nvd", "cuda"),
}


@dataclasses.dataclass(frozen=True)
class System:
    """A machine as its submitter describes it.

    Attributes:
        notes: on the software; they often name the precision.
        error: text of a failed command where the GPU's name belongs; nothing is known of the GPUs
            then.
    """

    platform: Platform | None
    gpu: GpuInfo
    host: Environment
    notes: str | None
    error: str | None = None
    submitter: str | None = None

    @property
    def precision(self) -> str | None:
        """The precision of the training, if the notes name one and no other."""
        named = set()
        for match in _PRECISION.finditer(self.notes or ""):
            named.add("".join(filter(None, match.groups())).lower())
        # FP4 (mxfp4) names one.
        named -= {name.removeprefix("mx") for name in named if name.startswith("mx")}
        if len(named) == 1:
            return named.pop()
        return None


def of(description: Mapping[str, Any] | None) -> System | None:
    """Return the system that a JSON object describes; None if it describes none."""
    if not description or "accelerator_model_name" not in description:
        return None

    def word(name: str) -> str | None:
        value = description.get(name)
        if not isinstance(value, (str, int, float)):
            return None
        text = redacted_start(" ".join(str(value).split()), 200)
        if not text or text.lower() in ("n/a", "none") or "UNKNOWN_MLPERF" in text:
            return None
        return text

    def size(name: str) -> int:
        text = word(name) or ""
        return int(text) if re.fullmatch(r"\d{1,12}", text) else 0

    device = word("accelerator_model_name")
    error = None
    gpu = GpuInfo()
    platform = None
    if device and gpus.is_error(device):
        # A tool that fails prints a line, which a script counts as a device.
        error = device
    else:
        platform, stack = _stack_of(device)
        gpu = GpuInfo(
            device_name=device,
            device_count=size("number_of_nodes") * size("accelerators_per_node") or None,
            total_memory_gb=_memory(word("accelerator_memory_capacity") or ""),
            software_stack=stack,
        )
    framework = word("framework")
    host = Environment(
        cpu=word("host_processor_model_name"),
        os=word("operating_system"),
        versions={"framework": framework} if framework else {},
    )
    return System(platform, gpu, host, word("sw_notes"), error, word("submitter"))


def _stack_of(device: str | None) -> tuple[Platform | None, SoftwareStack | None]:
    """Return the software that follows from the maker of a device."""
    return _PLATFORMS.get(gpus.vendor(device or ""), (None, None))


def _memory(text: str) -> float | None:
    """Return the memory of a device in GB: driver tools write MiB; data sheets write GB of either
    kind.
    """
    match = re.match(r"(\d{1,9}(?:\.\d{1,6})?)\s*([MGT])(i?)B", text)
    if not match:
        return None
    value = float(match[1])
    scale = match[2]
    binary = match[3]
    gib = {"M": value / 1024, "G": value, "T": value * 1024}[scale]
    # What a vendor calls 80 GB or 192 GB of HBM is its nominal size: kept as it is called.
    return round_figure(gib_to_gb(gib) if binary else gib)


def choose(log: PurePath, descriptions: Iterable[PurePath]) -> PurePath | None:
    """Return the description that belongs to a result file, by their paths; None if none or several
    may.
    """
    folders = {part.lower() for part in log.parts[:-1]}
    paths = list(descriptions)
    within = [path for path in paths if path.stem.lower() in folders]
    if len(within) != 1:
        # 8xB200_nemo_run1.txt begins with the two words of 8xB200_nemo.json; one word isn't enough.
        words = _words(log.stem)
        common = {path: len(_words(path.stem)) for path in paths if _words(path.stem) <= words}
        most = max(common.values(), default=0)
        within = [path for path, count in common.items() if count == most > 1]
    if len(within) == 1:
        return within[0]
    return None


def round_of(log: PurePath) -> str | None:
    """Return the round of MLPerf Training that a path states: training_results_v5.1/ or v5.1_NAME;
    else None.
    """
    for part in (log.name, *reversed(log.parts[:-1])):
        if match := _ROUND.search(part):
            return f"v{match[1]}"
    return None


def _words(stem: str) -> set[str]:
    return {word for word in stem.lower().split("_") if word}


def inferred(run: Run, log: PurePath) -> Run:
    """Return an MLPerf run with GPUs inferred from its path or else its platform, if nothing else
    states them.

    The platform's text names a GPU only where the path names none: submitters copy it (128xNVIDIA
    GB200 for GB300). Its first number is that of nodes, so it is used only with GPUs per node:
    2xXE9680x8H100.
    """
    if run.framework != "mlperf" or (run.gpu_info.device_name and run.num_gpus):
        return run
    platform = str(run.framework_config.get("submission_platform") or "")
    names = [log.name, *reversed(log.parts[-4:-1])]
    in_path = [match for name in names for match in _GPUS.finditer(name)]
    in_platform = [*_GPUS.finditer(platform)]
    of_path = _known_gpus(in_path)
    rows = of_path or _known_gpus(in_platform)
    if len(rows) > 1:
        return run
    device = None if run.gpu_info.device_name else next(iter(rows), None)
    notes = run.notes
    if device and not of_path:
        notes = (*notes, Note("gpu-from-platform", {"gpu": device, "platform": platform}))
    counts = set()
    for match in (*in_path, *in_platform):
        nodes = match["nodes"]
        if match.string is platform and rows and match["gpu"] not in rows:
            continue
        if match["count"] and (nodes or (match.string is not platform and match["count"] != "1")):
            counts.add(int(match["count"]) * int(nodes or 1))
    for name in names:
        counts.update(int(match[1] or match[2]) for match in _NUMBER.finditer(name))
    vendor, stack = _stack_of(device)
    count = counts.pop() if len(counts) == 1 else None
    info = GpuInfo(device_name=device, device_count=count, software_stack=stack)
    return applied(run.but(notes=notes), System(vendor, info, Environment(), None), "")


def _known_gpus(matches: Iterable[re.Match[str]]) -> dict[str, None]:
    """Return the GPUs of the table among those found, each once."""
    names = [match["gpu"] for match in matches]
    return dict.fromkeys(name for name in names if _candidates(name))


def _candidates(name: str) -> Sequence[object]:
    """Return the rows of the table that a name may mean."""
    return gpus.match(GpuInfo(device_name=name)).candidates


def applied(run: Run, system: System, where: str) -> Run:
    """Return an MLPerf run with what its system description, at that place, adds; the log's own
    values take precedence.

    An empty place means that the system was inferred from names.

    If two descriptions contradict each other, the one in the log, which the machine itself wrote,
    is kept.
    """
    config = run.training_config
    doubts = []
    if system.error:
        facts: dict[str, NoteValue] = {"where": where, "error": system.error}
        doubts.append(Note("description-has-error", facts))
    if other := _contradiction(run, system):
        doubts.append(Note("description-contradicts", {"where": where, "what": other}))
        return run.but(notes=noted((*run.notes, *doubts)))
    devices = config.num_gpus or system.gpu.device_count
    added = []
    if devices and not config.num_gpus:
        added.append(f"GPUs {devices}")
    if system.gpu.device_name and not run.gpu_info.device_name:
        added.append(f"GPU {system.gpu.device_name}")
    config = config.but(num_gpus=devices)
    if config.precision is None and system.precision:
        added.append(f"precision {system.precision.upper()}")
        detail = f"{FROM_DESCRIPTION}: {system.notes}"
        config = config.but(precision=system.precision, precision_detail=detail)
    notes: list[Note] = []
    for note in run.notes:
        if not (devices and note.code == "mlperf-gpus-unstated"):
            notes.append(note)
    notes += doubts
    if added:
        facts = {"where": where, "facts": ", ".join(added)}
        notes.append(Note("from-description" if where else "from-names", facts))
    settings = {**run.framework_config}
    if system.submitter:
        # Whoever runs another one's code may leave the name of its author in it.
        settings["submitter"] = system.submitter
    versions = {**system.host.versions, **run.environment.versions}
    return run.but(
        platform=run.platform or system.platform,
        notes=noted(notes),
        gpu_info=run.gpu_info.over(system.gpu),
        environment=run.environment.over(system.host).but(versions=versions),
        training_config=config,
        framework_config=settings,
    )


def _contradiction(run: Run, system: System) -> str | None:
    """Return the contradiction between a description's GPUs and a run; None if both agree."""
    names = run.gpu_info.device_name, system.gpu.device_name
    counts = run.num_gpus, system.gpu.device_count
    rows = [{*_candidates(name)} if name else set() for name in names]
    if (all(rows) and rows[0].isdisjoint(rows[1])) or (all(counts) and counts[0] != counts[1]):
        one, other = (
            f"{count or '?'}×{name or 'unknown GPU'}"
            for name, count in zip(names, counts, strict=True)
        )
        return f"{other}, the log {one}"
    return None
