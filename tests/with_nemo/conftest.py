"""Real NeMo, in an environment that has it (make test-nemo); elsewhere these tests skip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tprimat.frameworks.nemo import launch as nemo

REPOSITORY = Path(__file__).resolve().parents[2]
TORCHRUN = "-m torch.distributed.run --standalone --nproc-per-node={}"
EMULATED_GPU = Path(__file__).resolve().parent / "emulated_gpu"

ON_A_CPU = (
    "trainer.accelerator=cpu",
    "model.config.apply_rope_fusion=false",
    "model.config.use_cpu_initialization=true",
    "model.config.gradient_accumulation_fusion=false",
    "model.config.persist_layer_norm=false",
    "model.config.masked_softmax_fusion=false",
    "model.config.bias_dropout_fusion=false",
    "model.config.cross_entropy_loss_fusion=false",
    "model.config.num_layers=2",
    "data.pin_memory=false",
    "data.num_workers=0",
)
"""What Megatron does without Transformer Engine and without a GPU; and two layers of the recipe's.
"""


@pytest.fixture(scope="session", autouse=True)
def nemo_is_here():
    reason = nemo.LAUNCHER.unavailable()
    if reason is not None:
        pytest.skip(f"{reason}; make test-nemo runs these tests")


@pytest.fixture(scope="session")
def command():
    """Runs one of the commands on the emulated device: command("pretrain_llama.py", "--steps", "3",
    cwd=...).

    With `processes`, under torchrun as a user starts it.
    """

    def run(
        script: str,
        *options: str,
        cwd: Path,
        emulated: bool = True,
        processes: int = 0,
        **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "COLUMNS": "200", **variables}
        if emulated:
            environment |= {"TPRIMAT_EMULATED": "1", "PYTHONPATH": str(EMULATED_GPU)}
        return subprocess.run(
            [
                sys.executable,
                *(TORCHRUN.format(processes).split() if processes else ()),
                str(REPOSITORY / script),
                *options,
            ],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )

    return run


@pytest.fixture(scope="session")
def on_a_cpu() -> list[str]:
    """Options that let a recipe train on the emulated device."""
    return [part for setting in ON_A_CPU for part in ("--set", setting)]
