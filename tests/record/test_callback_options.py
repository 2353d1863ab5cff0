from __future__ import annotations

from pathlib import Path

import pytest
from stored_runs import series

from tprimat.errors import UsageError
from tprimat.results.run import Run, TrainingConfig

pytest.importorskip("torch")
from tprimat.record.loop import LoopRecorder
from tprimat.record.options import Benchmark

WELL = {
    "output_dir": "./output",
    "platform": "auto",
    "model_name": None,
    "global_batch_size": None,
    "micro_batch_size": None,
    "sequence_length": None,
    "model_config": None,
    "log_every": None,
    "label": None,
    "setup": None,
    "quiet": False,
    "on_step": None,
}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("output_dir", "", "output_dir='' is invalid\nhint:  give a directory"),
        ("output_dir", 3, "output_dir=3 is invalid\nhint:  give a directory"),
        ("platform", "tpu", "platform='tpu' is invalid\nhint:  give one of auto, cuda, rocm, cpu"),
        ("platform", None, "platform=None is invalid"),
        ("model_name", " ", "model_name=' ' is invalid\nhint:  give a name, or None"),
        ("label", 5, "label=5 is invalid"),
        (
            "global_batch_size",
            -8,
            "global_batch_size=-8 is invalid\nhint:  give a whole number above zero, or None",
        ),
        ("global_batch_size", 0, "global_batch_size=0 is invalid"),
        ("micro_batch_size", "2", "micro_batch_size='2' is invalid"),
        ("sequence_length", 2048.0, "sequence_length=2048.0 is invalid"),
        ("sequence_length", True, "sequence_length=True is invalid"),
        ("log_every", 0, "log_every=0 is invalid\nhint:  give a whole number above zero"),
        (
            "setup",
            {"model": "llama"},
            "setup='dict' is invalid\nhint:  give a tprimat.results.run.Run without records",
        ),
        ("quiet", 1, "quiet=1 is invalid\nhint:  give True or False"),
        ("on_step", "print", "on_step='print' is invalid"),
        ("model_config", 3, "model_config is a int"),
    ],
)
def test_a_wrong_argument_is_one_line(name, value, said):
    with pytest.raises(UsageError) as caught:
        Benchmark(**{**WELL, name: value})
    assert said in caught.value.line()
    assert caught.value.line().startswith("error: BenchmarkCallback: ")
    assert caught.value.heading == "benchmark-callback"


def test_a_batch_that_its_micro_batches_do_not_fill_is_wrong():
    with pytest.raises(UsageError, match="a multiple of micro_batch_size=3"):
        Benchmark(**{**WELL, "global_batch_size": 8, "micro_batch_size": 3})


@pytest.mark.parametrize("measure", [Benchmark, LoopRecorder])
def test_the_model_has_the_same_names_everywhere(measure):
    assert {measure(**{name: "qwen"})._options.known.model for name in ("model", "model_name")} == {
        "qwen"
    }
    with pytest.raises(UsageError, match="only one of model= and model_name='llama'"):
        measure(model="qwen", model_name="llama")


def test_a_setup_with_records_is_wrong():
    run = Run(**series((1.0,)))
    with pytest.raises(UsageError, match="without records"):
        Benchmark(**{**WELL, "setup": run})


def test_arguments_win_over_the_setup():
    known = Run(
        training_config=TrainingConfig(
            global_batch_size=128, micro_batch_size=2, sequence_length=2048
        )
    )
    said = Benchmark(**{**WELL, "setup": known, "global_batch_size": 64})._options
    assert said.known.training_config == TrainingConfig(
        global_batch_size=64, micro_batch_size=2, sequence_length=2048
    )
    assert said.output_dir == Path("output")
    assert said.platform is None
    assert Benchmark(**{**WELL, "platform": "CUDA"})._options.platform == "nvd"
