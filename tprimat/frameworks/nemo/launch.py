"""The framework `nemo`: NVIDIA's NeMo 2, its own pretraining recipes, timed.

tprimat/frameworks/nemo/training.py builds the recipe inside NeMo's environment and runs it: alone,
or under torchrun. Nothing here imports NeMo, which takes some twenty seconds.
"""

from __future__ import annotations

import os

from tprimat.errors import lacking
from tprimat.frameworks.loops import launch as loops
from tprimat.frameworks.nemo.resolve import START_MINUTES, Resolver
from tprimat.frameworks.request import Request
from tprimat.machine.host import installed_version, package_folders

ALLOCATOR, ALSO_ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
SEGMENTS = "expandable_segments:True"
"""Lets torch's allocator grow its segments in place, so that less memory is lost to fragments. The
variable's second name is that of torch from 2.9 on, which takes both. Megatron Core refuses it with
CUDA graphs.
"""

TUNED = {
    "NCCL_NVLS_ENABLE": "0",
    "NVTE_FLASH_ATTN": "1",
    "NVTE_FUSED_ATTN": "1",
    "NVTE_FWD_LAYERNORM_SM_MARGIN": "16",
    "NVTE_BWD_LAYERNORM_SM_MARGIN": "16",
    "TORCH_NCCL_AVOID_RECORD_STREAMS": "1",
    "TORCH_NCCL_HIGH_PRIORITY": "1",
}
"""Set by scripts/performance/executors.py and PerfEnvPlugin of NeMo 8cfedd7 for their
configurations.
"""

SEED_VARIABLE = "PL_GLOBAL_SEED"
"""Where Lightning, and through it NeMo, takes the seed of the weights from."""

LAST_CONTAINER = "nvcr.io/nvidia/nemo:25.11"
"""The last of NVIDIA's containers whose Megatron Core fits its NeMo 2: 26.02 has Megatron Core 0.16
with NeMo 2.7.0, 26.04 and later have no NeMo (docs/releases/software-versions.md of Megatron-Bridge
067f987).
"""

_INSTALL = (
    f"run in {LAST_CONTAINER}, or make an environment with python3 tools/make_nemo_env.py"
    " (docs/nemo.md)"
)

OPTIMIZER, PASSED = "core/optimizer/__init__.py", "no_weight_decay_cond"
"""Where Megatron Core defines get_megatron_optimizer, and an argument that NeMo 2 passes to it:
0.15.3 has it, 0.16.0 doesn't. Its source is checked, since containers have a clone of Megatron
whose version doesn't show it.
"""


class Nemo(loops.Loop[Request]):
    """Its recipe, started as a program of ours."""

    plans_anywhere = True
    profiles = True
    program = "tprimat.frameworks.nemo.training"
    start_s = 60 * START_MINUTES
    resolver = Resolver

    def unavailable(self) -> str | None:
        """Return why NeMo can't train here and what to do; None if it can."""
        if lacking("nemo"):
            return f"NeMo isn't installed: {_INSTALL}"
        named = f"NeMo {installed_version('nemo_toolkit') or ''}".rstrip()
        if not any(
            (folder / "collections" / "llm" / "recipes").is_dir()
            for folder in package_folders("nemo")
        ):
            return (
                f"{named} has no recipes for language models, which 2.7.3 was the last to have:"
                f" {_INSTALL}"
            )
        missing = lacking("nemo_run", "modelopt", "megatron", "lightning")
        if missing:
            # Without modelopt NeMo drops its recipes with a line in the log.
            return (
                f"{named} lacks {', '.join(missing)}, without which it has no recipes: pip install"
                " -r requirements-nemo.txt"
            )
        sources = [folder / OPTIMIZER for folder in package_folders("megatron")]
        if any(
            source.is_file() and PASSED not in source.read_text(encoding="utf-8")
            for source in sources
        ):
            core = f"Megatron Core {installed_version('megatron-core') or ''}".rstrip()
            return f"{named} cannot train with {core}; 0.15.3 is the last that it can: {_INSTALL}"
        return None

    def variables(self, request: Request) -> dict[str, str]:
        """Return the variables of NeMo's training."""
        return environment(request)


LAUNCHER = Nemo()


def environment(request: Request) -> dict[str, str]:
    """Return the variables that the training has. What the user has set stays, but for what CUDA
    graphs rule out.
    """
    settings = loops.environment(request.platform, request.gpus_per_node) | {
        SEED_VARIABLE: str(request.seed)
    }
    if request.platform != "cpu":
        if request.vendor_settings:
            settings |= {name: os.environ.get(name, value) for name, value in TUNED.items()}
        # One queue keeps the order in which tensor- and context-parallel communication overlaps
        # computation. NVIDIA sets it for these alone.
        overlaps = request.tensor_model_parallel_size > 1 or request.context_parallel_size > 1
        if overlaps or not request.vendor_settings:
            connections = str(request.max_connections)
            settings["CUDA_DEVICE_MAX_CONNECTIONS"] = os.environ.get(
                "CUDA_DEVICE_MAX_CONNECTIONS", connections
            )
        # By its configuration, or by a field that the user has set.
        if request.cuda_graphs or any("cuda_graph" in setting for setting in request.settings):
            if SEGMENTS in os.environ.get(ALLOCATOR, ""):
                options = os.environ[ALLOCATOR].split(",")
                kept = [option for option in options if option != SEGMENTS]
                settings[ALLOCATOR] = ",".join(kept)
        elif ALSO_ALLOCATOR not in os.environ:
            settings[ALLOCATOR] = os.environ.get(ALLOCATOR, SEGMENTS)
    return settings
