"""A training of Megatron-Bridge as a program of its own, inside its environment:

    python -m tprimat.frameworks.megatron_bridge.training --model=llama --scale=full --recipe=…

Its options are a Request's. Under torchrun each process runs this module, and the first one writes
the result.
"""

from __future__ import annotations

import os
import sys

from tprimat.frameworks.loops import processes
from tprimat.frameworks.megatron_bridge import recipe
from tprimat.frameworks.megatron_bridge.recording import BridgeBenchmark
from tprimat.frameworks.request import Request


def train(request: Request) -> None:
    """Run the recipe in this process, one of request.num_gpus. Raises TensorPrimatError if one line
    can state why it failed.
    """
    config = recipe.build(request)
    from megatron.bridge.training.config import apply_environment_variables

    before = dict(os.environ)
    apply_environment_variables(config)
    if dict(os.environ) != before:
        # Libraries read them when they are imported, and making the recipe has imported them: begin
        # again, as bootstrap_recipe_environment of NVIDIA's scripts/training/recipe_runner.py does.
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    from megatron.bridge.training.gpt_step import forward_step
    from megatron.bridge.training.pretrain import pretrain

    benchmark = BridgeBenchmark(request)
    try:
        pretrain(config, forward_step, callbacks=[benchmark])
    except BaseException as error:
        benchmark.fail(error)
        raise


if __name__ == "__main__":
    sys.exit(processes.main(sys.argv[1:], train))
