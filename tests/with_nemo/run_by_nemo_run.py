"""Trains a request by NeMo-Run's local executor: the recipe is written down here and read by other
processes.

run_by_nemo_run.py FOLDER OPTION ...     the options are a Request's
"""

from __future__ import annotations

import os
import sys

import nemo_run as run

from tprimat.frameworks.nemo import recipe as nemo_recipe
from tprimat.frameworks.request import Request

if __name__ == "__main__":
    request = Request.from_arguments(sys.argv[2:])
    handed_on = {
        name: os.environ[name] for name in ("PYTHONPATH", "TPRIMAT_EMULATED", "PL_GLOBAL_SEED")
    }
    executor = run.LocalExecutor(
        ntasks_per_node=request.num_gpus, launcher="torchrun", env_vars=handed_on
    )
    with run.Experiment("bench", executor=executor, base_dir=sys.argv[1]) as experiment:
        experiment.add(nemo_recipe.build(request), executor=executor, name="llama")
        experiment.run(detach=False, tail_logs=True)
