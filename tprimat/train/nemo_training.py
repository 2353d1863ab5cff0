"""A NeMo training as a program of its own, inside NeMo's environment:

    python -m tprimat.train.nemo_training --model=llama --scale=full …

Its options are a Request's. Under torchrun each process runs this module, and the first one writes
the result.
"""

from __future__ import annotations

import os
import sys

from tprimat.errors import TensorPrimatError, UsageError
from tprimat.launch import nemo
from tprimat.launch.request import TOKENS, Request
from tprimat.train import nemo_recipe

WITHOUT_TE = "Please install TE"
"""How Megatron's refusals end where Transformer Engine is missing."""


def main(arguments: list[str]) -> int:
    """Trains as asked; the exit status of the process."""
    try:
        train(Request.from_arguments(arguments))
    except TensorPrimatError as error:
        print(error.line(), file=sys.stderr)
        return error.status
    return 0


def train(request: Request) -> None:
    """Runs the recipe in this process, one of request.num_gpus.

    Raises:
        UsageError: the recipe can't be built or run as it was asked for.
    """
    for name, value in nemo.environment(request).items():
        os.environ.setdefault(name, value)
    import nemo_run as run

    if request.data == TOKENS:
        nemo_recipe.write_tokens(request)
    recipe = nemo_recipe.build(request)
    try:
        run.run(recipe, direct=True)
    except ValueError as error:
        if WITHOUT_TE not in str(error):
            raise
        raise UsageError(
            f"{str(error).splitlines()[0]}: NeMo's recipes need Transformer Engine on a GPU, which its container has",
            heading="no-framework",
        ) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
