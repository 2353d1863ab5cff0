"""The framework `megatron_bridge`: NVIDIA's Megatron-Bridge, its performance recipes, timed by its
callbacks.

Nothing here imports Megatron-Bridge, which takes tens of seconds: training.py does, in its own
process.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tprimat.errors import UsageError, lacking
from tprimat.frameworks.loops import launch as loops
from tprimat.frameworks.megatron_bridge.defaults import GENERAL, HUB, PERFORMANCE
from tprimat.frameworks.nemo import resolve as nemo
from tprimat.frameworks.nemo.defaults import PERFORMANCE as FOR_SPEED
from tprimat.frameworks.nemo.defaults import Defaults
from tprimat.frameworks.request import Request
from tprimat.machine.host import installed_version, package_folders
from tprimat.results.run import ModelConfig

RECIPES = "perf_recipes/llama"
"""A directory of 0.6.0, the first release whose performance recipes are part of the package."""

_INSTALL = "run in a container nvcr.io/nvidia/nemo:26.08 or newer (docs/nemo.md)"


class Resolver(nemo.Resolver):
    """The choices of Megatron-Bridge: a performance recipe for the GPU and precision, else the
    general recipe.
    """

    title = "Megatron-Bridge"
    recipe = ""

    def prepare(self) -> None:
        """Refuse what no recipe trains."""
        super().prepare()
        if self.model.name not in HUB:
            raise UsageError(
                f"Megatron-Bridge has no recipe for {self.model.title}",
                hint=f"choose --model {' or '.join(HUB)}, or --framework nemo",
                heading="unknown-model",
            )

    def published(self, precision: str) -> Defaults:
        """Return the row of a recipe. Raises UsageError if there is none in this precision."""
        rows = [row for row in PERFORMANCE if row.model == self.model.name and self.gpu in row.gpus]
        general = [row for row in GENERAL if row.model == self.model.name]
        candidates = rows + general if self.preset == FOR_SPEED else general
        row = next((row for row in candidates if precision in row.precisions), None)
        if row is None:
            precisions = dict.fromkeys(
                name for candidate in candidates for name in candidate.precisions
            )
            where = f" on {self.gpu}" if self.gpu else ""
            raise UsageError(
                f"Megatron-Bridge has no recipe for {self.model.title} in"
                f" {precision.upper()}{where}",
                hint=f"available: {', '.join(precisions)}",
                heading="precision",
            )
        self.recipe = row.source
        if row in GENERAL and self.preset == FOR_SPEED:
            where = f"for {self.gpu}" if self.gpu else "without a known GPU"
            note = (
                f"Megatron-Bridge has no performance recipe of this model {where}: the general one"
                " is used"
            )
            row = dataclasses.replace(row, note=note)
        return row

    def complete(self, request: Request, shape: ModelConfig) -> Request:
        """Return the request with its recipe, which has its own variables; refuse a training that
        doesn't fit in the memory.
        """
        return dataclasses.replace(
            super().complete(request, shape), recipe=self.recipe, max_connections=1
        )


class MegatronBridge(loops.Loop[Request]):
    """Its recipe, started as a program of ours."""

    plans_anywhere = True
    profiles = True
    program = "tprimat.frameworks.megatron_bridge.training"
    start_s = 60 * nemo.START_MINUTES
    resolver = Resolver

    def unavailable(self) -> str | None:
        """Return why Megatron-Bridge can't train here and what to do; None if it can."""
        # Looked up by its directory: to ask for megatron.bridge itself would fail if there is no
        # megatron.
        folders = (folder / "bridge" for folder in package_folders("megatron"))
        folder = next((folder for folder in folders if folder.is_dir()), None)
        if folder is None:
            return f"Megatron-Bridge isn't installed: {_INSTALL}"
        named = f"Megatron-Bridge {installed_version('megatron-bridge') or ''}".rstrip()
        if not (folder / RECIPES).is_dir():
            return f"{named} has no performance recipes, 0.6.0 is the first with them: {_INSTALL}"
        missing = lacking("torch", "transformers", "transformer_engine")
        if missing:
            return f"{named} lacks {', '.join(missing)}: {_INSTALL}"
        return None

    def variables(self, request: Request) -> dict[str, str]:
        """Return where its model is found; the process itself sets the recipe's variables before it
        trains.
        """
        return dict.fromkeys(("HF_HUB_CACHE", "MEGATRON_CONFIG_LOCK_DIR"), str(hub_folder(request)))


LAUNCHER = MegatronBridge()


def hub_folder(request: Request) -> Path:
    """Return the cache of the Hugging Face Hub where the recipe finds its model offline."""
    return request.output_dir / "megatron_bridge" / "hub"
