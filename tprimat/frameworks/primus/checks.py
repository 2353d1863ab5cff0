"""Checks before Primus is started, which would fail only after minutes.

An error stops the start, a warning doesn't. Nothing is written, and no secret is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tprimat.catalog import models
from tprimat.frameworks.primus import tokenizer, torchtitan
from tprimat.frameworks.primus.request import PrimusTraining
from tprimat.frameworks.request import PreflightResult
from tprimat.machine.host import Environ, free_space
from tprimat.machine.platforms import Machine
from tprimat.units import GB

NO_AMD_GPU = "no AMD GPU visible to PyTorch: Primus will fail"

LEAST_FREE_GB = 1.0
"""For logs, results and the caches of compiled kernels, GB."""

CHECKPOINT_BYTES_PER_PARAMETER = 14
"""bf16 weights (2), and Megatron's fp32 weights and two states of Adam (12)."""

_BACKENDS = {
    "megatron": ("third_party/Megatron-LM", "third_party/megatron"),
    torchtitan.NAME: ("third_party/torchtitan",),
}
"""Where a clone has each back end, unless BACKEND_PATH or its own variable names another directory.
"""


def preflight(
    request: PrimusTraining, machine: Machine, environ: Environ = os.environ
) -> PreflightResult:
    """Return what Primus would fail on after minutes of starting."""
    return PreflightResult(
        (
            *_of_installation(request, machine, environ),
            *_of_tokenizer(request, environ),
            *_of_space(request),
        ),
        tuple(_warnings(request, machine, environ)),
    )


def _of_installation(request: PrimusTraining, machine: Machine, environ: Environ) -> Iterator[str]:
    root = request.installation.path
    backend = request.configuration.framework or ""
    if not any(map(environ.get, ("BACKEND_PATH", f"{backend.upper()}_PATH"))):
        # A clone without its submodules has an empty directory for each.
        folders = [root / name for name in _BACKENDS.get(backend, ()) if (root / name).is_dir()]
        if folders and not any(any(folder.iterdir()) for folder in folders):
            yield f"{folders[0]} is empty: git -C {root} submodule update --init --recursive"
    here = machine.gpu_info.device_count or 0
    if machine.platform == "amd" and request.gpus_per_node > here > 0:
        yield (
            f"{request.gpus_per_node} GPUs requested, but this machine has {here}: set"
            f" GPUS_PER_NODE={here}"
        )


def _of_tokenizer(request: PrimusTraining, environ: Environ) -> Iterator[str]:
    missing = tokenizer.missing_folder(request.configuration, request.installation)
    if missing:
        yield missing
    reason = tokenizer.unobtainable(request.configuration, request.installation, environ)
    if reason:
        yield ": ".join(reason)


def _of_space(request: PrimusTraining) -> Iterator[str]:
    needed = {request.output_dir: LEAST_FREE_GB}
    # Primus' own default is to save when the training ends.
    if (
        request.configuration.framework == "megatron"
        and request.configuration.settings.value("disable_last_saving") is False
    ):
        run = request.setup
        root = request.installation.path
        full = models.by_name(request.model).shape.num_parameters if run.scale == "full" else None
        parameters = run.model_config.num_parameters or full or 0
        needed[root] = needed.get(root, 0.0) + parameters * CHECKPOINT_BYTES_PER_PARAMETER / GB
    for folder, gigabytes in needed.items():
        free, _ = free_space(folder)
        if free is not None and free < gigabytes:
            instead = "free some, or choose another --output-dir"
            if gigabytes > 2 * LEAST_FREE_GB:
                instead = (
                    "a checkpoint is written at the end: -- --disable_last_saving True leaves"
                    " it out"
                )
            yield f"{folder}: {free:.1f} GB free, {gigabytes:.0f} GB needed: {instead}"


def _warnings(request: PrimusTraining, machine: Machine, environ: Environ) -> Iterator[str]:
    value = request.configuration.settings.value
    given = value("train_data_path") or environ.get("TOKENIZED_TRAIN_DATA_PATH")
    if (
        request.configuration.framework == "megatron"
        and value("mock_data") is not True
        and not given
    ):
        yield (
            "the configuration has no mock_data and no train_data_path: Primus will fetch and"
            " tokenize BookCorpus first, which takes a long time and needs HF_TOKEN (-- --mock_data"
            " True trains on mock tokens)"
        )
    if request.configuration.framework == torchtitan.NAME and value("mock_data") is not True:
        yield (
            f"the configuration trains on {value('training.dataset')} from the Hugging Face hub "
            "(-- --training.mock_data True trains on mock data)"
        )
    if machine.platform != "amd":
        yield NO_AMD_GPU
