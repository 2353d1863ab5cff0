"""An installation of Primus: which configurations and launchers it has, under the names of its
versions.

examples/megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml     since December 2025
examples/megatron/configs/MI300X/llama3.1_8B-pretrain.yaml          from October 2025
examples/megatron/configs/llama3.1_8B-pretrain.yaml                 before
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tprimat.catalog import gpus
from tprimat.errors import UsageError
from tprimat.frameworks import by_name
from tprimat.frameworks.primus import LAUNCHERS
from tprimat.frameworks.primus.match import PRECISION_ARGUMENTS
from tprimat.frameworks.request import Device
from tprimat.machine.host import Environ
from tprimat.results.run import GpuInfo
from tprimat.units import GB, GIB

DEFAULT_PATH = Path("/workspace/Primus")
"""Where AMD's containers have it."""

CONFIGS = Path("examples/megatron/configs")
SCRIPT = Path("examples/run_pretrain.sh")
CLI = Path("runner/primus-cli")
CLI_DIRECT = Path("runner/primus-cli-direct.sh")
MOCK_DATA = Path("primus/backends/megatron/patches/args/mock_data_patches.py")

FILES = {"llama": "llama3.1_8B", "qwen": "qwen2.5_7B"}
"""What Primus calls our models."""

BORROWED = {"mistral": "llama"}
"""Models for which Primus has no configuration, and the one whose configuration trains them, in
their own shape.
"""

FOLDERS = {
    "mi300x": ("MI300X",),
    "mi308x": ("MI300X",),
    "mi300a": ("MI300X",),
    # Before May 2026 there was no directory for it; it is an MI300X with more memory.
    "mi325x": ("MI325X", "MI300X"),
    "mi350x": ("MI355X",),
    "mi355x": ("MI355X",),
}
"""Directories of configurations for a GPU, the fitting one first."""

PRECISIONS = by_name("primus").precisions
"""What Primus has configurations for."""


@dataclasses.dataclass(frozen=True)
class ConfigFile:
    """A configuration's file, arguments that make up for its precision, and what should be known of
    the choice.
    """

    path: Path
    arguments: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Installation:
    """Primus in a directory."""

    path: Path

    def problem(self) -> str | None:
        """Return why nothing can be launched from this directory and what to do; None if it can."""
        if not self.path.is_dir():
            return (
                f"no Primus in {self.path}: set PRIMUS_PATH to its directory (AMD's containers have"
                f" it in {DEFAULT_PATH}), or clone https://github.com/AMD-AGI/Primus with its"
                " submodules"
            )
        if self.launcher is None:
            return (
                f"{self.path} is not Primus (no {SCRIPT} and no {CLI}): set PRIMUS_PATH to its"
                " directory"
            )
        return None

    @property
    def launcher(self) -> str | None:
        """The newer of LAUNCHERS that is there; None if there is neither."""
        return next(filter(self.has, LAUNCHERS), None)

    def has(self, launcher: str) -> bool:
        """Return whether a launcher is there."""
        files = (CLI, CLI_DIRECT) if launcher == "primus-cli" else (SCRIPT,)
        return all((self.path / file).is_file() for file in files)

    def needs_no_tokenizer(self) -> bool:
        """Return whether mock data replace a configuration's tokenizer by NullTokenizer, as from
        v26.3 on.
        """
        return "NullTokenizer" in self._text(MOCK_DATA)

    def evaluates(self, launcher: str) -> bool:
        """Return whether a launcher's shell reads our arguments a second time, so that they must be
        quoted.
        """
        text = self._text(CLI_DIRECT if launcher == "primus-cli" else SCRIPT)
        return not text or 'eval "$CMD"' in text

    def _text(self, file: Path) -> str:
        try:
            return (self.path / file).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def config(self, model: str, gpu: str | None, precision: str) -> ConfigFile:
        """Return the configuration of a model for a GPU, by the key of its row. Raises UsageError
        without one.
        """
        name = FILES[BORROWED.get(model, model)]
        folders = self._folders(gpu)
        # Primus has no configuration in FP16: that in BF16 is switched to it.
        in_file = "bf16" if precision == "fp16" else precision
        candidates = [folder / f"{name}-{in_file.upper()}-pretrain.yaml" for folder in folders]
        plain = f"{name}-pretrain.yaml"
        if in_file in ("bf16", "fp8"):
            # Older versions have one file a model, in bf16.
            candidates += [folder / plain for folder in (*folders, CONFIGS)]
        file = next((file for file in candidates if (self.path / file).is_file()), None)
        if file is None:
            raise UsageError(
                f"{self.path} has no configuration for {model} in {precision} (searched: "
                f"{', '.join(map(str, candidates))})",
                hint="choose one with PRIMUS_CONFIG=FILE",
                heading="primus-config",
            )
        notes = []
        added: tuple[str, ...] = ()
        if precision == "fp16" or (precision == "fp8" and file.name == plain):
            added = PRECISION_ARGUMENTS[precision]
            notes.append(f"{file} is for bf16: {' '.join(added)} is added")
        if gpu and file.parent in folders and file.parent.name.lower() != gpu:
            notes.append(f"this Primus has no configurations for {gpu.upper()}: {file} is used")
        return ConfigFile(self.path / file, added, tuple(notes))

    def _folders(self, gpu: str | None) -> list[Path]:
        if gpu in FOLDERS:
            return [CONFIGS / name for name in FOLDERS[gpu]]
        names = sorted(
            folder.name for folder in (self.path / CONFIGS).glob("MI*") if folder.is_dir()
        )
        if len(names) > 1:
            if gpu:
                which = f"Primus has no configurations for {gpu.upper()}"
            else:
                which = "this machine's GPU isn't known"
            raise UsageError(
                f"{which}, and {self.path} has some for {', '.join(names)}, which differ in their"
                " batch",
                hint="choose one with PRIMUS_CONFIG=FILE",
                heading="primus-config",
            )
        return [CONFIGS / name for name in names]


def from_environment(environ: Environ, path: Path | None = None) -> Installation:
    """Return the installation that a user means: of the option, of PRIMUS_PATH, or where containers
    have it.
    """
    return Installation(
        (path or Path(environ.get("PRIMUS_PATH") or DEFAULT_PATH)).expanduser().absolute()
    )


def gpu_of(device: Device) -> str | None:
    """Return the key of the GPU's row, or of the only one with configurations that has its
    architecture and memory.

    None if it isn't known, or isn't AMD's. MI350X and MI355X share both, and their configurations
    too.
    """
    memory = device.memory_bytes
    architecture = device.architecture
    size = None if memory is None else memory / GB
    named = gpus.match(
        GpuInfo(device_name=device.device_name, architecture=architecture, total_memory_gb=size)
    ).gpu
    if named is not None:
        if named.vendor == "AMD":
            return named.key
        return None
    fitting = gpus.amd_gpus_by_memory(memory / GIB) if memory is not None else []
    keys = [gpu.key for gpu in fitting if gpu.architecture == architecture and gpu.key in FOLDERS]
    if len({FOLDERS[key] for key in keys}) != 1:
        return None
    # If two share a directory, the one with its name counts.
    return next((key for key in keys if FOLDERS[key][0].lower() == key), keys[0])
