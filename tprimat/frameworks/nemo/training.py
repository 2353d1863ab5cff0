"""A NeMo training as a program of its own, inside NeMo's environment:

    python -m tprimat.frameworks.nemo.training --model=llama --scale=full …

Its options are a Request's. Under torchrun each process runs this module, and the first one writes
the result.
"""

from __future__ import annotations

import os
import sys

from tprimat.errors import UsageError
from tprimat.frameworks.loops import processes
from tprimat.frameworks.nemo import data
from tprimat.frameworks.nemo import launch as nemo
from tprimat.frameworks.nemo import recipe as nemo_recipe
from tprimat.frameworks.nemo.convert import WITHOUT_TE
from tprimat.frameworks.request import Request


def train(request: Request) -> None:
    """Run the recipe in this process, one of request.num_gpus. Raises TensorPrimatError if one line
    can state why it failed.
    """
    os.environ.update(nemo.environment(request))
    import nemo_run as run

    data.write(request)
    recipe = nemo_recipe.build(request)
    try:
        run.run(recipe, direct=True)
    except (RuntimeError, ValueError) as error:
        if WITHOUT_TE in str(error):
            first = next(iter(str(error).splitlines()), "")
            raise UsageError(
                f"{first}: NeMo's recipes need Transformer Engine on a GPU, which its"
                " container has",
                heading="no-framework",
            ) from error
        raise


if __name__ == "__main__":
    sys.exit(processes.main(sys.argv[1:], train))
