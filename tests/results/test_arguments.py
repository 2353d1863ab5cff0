"""Which arguments of a script make another configuration."""

from __future__ import annotations

import pytest
from stored_runs import a_run

from tprimat.results.arguments import variant
from tprimat.results.run import Source


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("python3 train.py", {"script": "train.py"}),
        (
            "/usr/bin/python3 -u dir/train.py --fused --bs=8 --lr 1e-3",
            {"script": "train.py", "fused": "", "bs": "8", "lr": "1e-3"},
        ),
        ("python -m pkg.train 32 bf16", {"script": "pkg.train 32 bf16"}),
        (
            "python train.py --betas 0.9 -0.1 +optim.lr=2 hydra.run.dir=x",
            {"script": "train.py", "betas": "0.9 -0.1", "optim.lr": "2"},
        ),
        # Seeds, steps, places and occasions.
        (
            (
                "python t.py --seed 1 --max_steps 9 --output-dir a --wandb-project p --run_name n"
                " --local_rank 0"
            ),
            {"script": "t.py"},
        ),
        (
            "python t.py --config-file a --lora_rank 8",
            {"script": "t.py", "config_file": "a", "lora_rank": "8"},
        ),
        ("python -m ipykernel_launcher -f kernel.json", {}),
        ("python -c pass", {}),
        ("", {}),
    ],
)
def test_i1_arguments_of_a_configuration(command, found):
    assert variant(a_run(source=Source(kind="live", command=tuple(command.split())))) == found


@pytest.mark.parametrize(
    "changes", [{"label": "a"}, {"session": "a"}, {"source": None}, {"source": Source(kind="log")}]
)
def test_i1_a_named_or_launched_configuration_has_none(changes):
    source = Source(kind="live", command=("python", "train.py"))
    assert variant(a_run(**{"source": source, **changes})) == {}
