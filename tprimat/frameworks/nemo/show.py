"""The recipe of a dry run, if NeMo is here to make it."""

from __future__ import annotations

from collections.abc import Sequence

from tprimat import console
from tprimat.frameworks.nemo import launch as nemo
from tprimat.frameworks.nemo import recipe as nemo_recipe
from tprimat.frameworks.request import Request


def show_recipes(requests: Sequence[Request]) -> None:
    """Print the recipes that NeMo would run, field by field."""
    if reason := nemo.LAUNCHER.unavailable():
        console.note(f"the recipe can be shown only if NeMo is installed: {reason}")
        return
    for request in requests:
        console.info(f"\nRecipe of {request.model} for NeMo:")
        for line in nemo_recipe.lines(nemo_recipe.build(request)):
            console.info(f"  {line}")
