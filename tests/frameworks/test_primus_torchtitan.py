"""Primus' back end torchtitan: its parameters, the plan for a training, what is checked before
it.
"""

from __future__ import annotations

from pathlib import Path

import primus_tree
import pytest

from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks import by_name
from tprimat.frameworks.primus import checks
from tprimat.frameworks.primus.installation import Installation
from tprimat.frameworks.primus.launch import command
from tprimat.frameworks.primus.request import PrimusRequest
from tprimat.frameworks.primus.resolve import Planner
from tprimat.frameworks.request import Device
from tprimat.machine.platforms import Machine
from tprimat.results.run import Environment, GpuInfo, Run
from tprimat.store import start_record
from tprimat.store.start_record import StartRecord

pytest.importorskip("yaml", reason="PyYAML isn't installed; Primus brings it")

MI300XS = Device("amd", 8, 206.1e9, "gfx942", "AMD Instinct MI300X")
CONFIGS = Path("examples/torchtitan/configs")


@pytest.fixture
def planned(tmp_path):
    def make(
        kind="BF16", gpu="MI300X", environ=None, matched=None, change=lambda text: text, **options
    ):
        tree = primus_tree.make(tmp_path / "Primus", launchers=("primus-cli",))
        text = (tree / CONFIGS / "MI300X" / f"llama3.1_8B-{kind}-pretrain.yaml").read_text()
        config = tree / CONFIGS / gpu / f"llama3.1_8B-{kind}-pretrain.yaml"
        config.parent.mkdir(exist_ok=True)
        config.write_text(change(text))
        request = PrimusRequest(
            installation=Installation(tree), config=config, matched=matched, **options
        )
        planner = Planner(by_name("primus"), models.by_name("llama"), request, MI300XS)
        planner.environ = environ or {"HF_TOKEN": "made-up"}
        return planner.plan(tmp_path / "output")

    return make


def test_the_command_has_torchtitans_names(planned):
    made = planned(steps=60, micro_batch_size=2, sequence_length=4096, seed=7, time_limit_s=60.0)
    assert made.arguments == (
        *(
            "--training.steps",
            "60",
            "--training.local_batch_size",
            "2",
            "--training.seq_len",
            "4096",
        ),
        *("--training.seed", "7"),
        # Of every GPU, which the configuration leaves open.
        *("--training.global_batch_size", "16"),
        *("--metrics.log_freq", "1"),
    )
    assert command(made, "now").argv[:3] == ("bash", "runner/primus-cli", "direct")
    assert (made.steps, made.global_batch_size, made.sequence_length) == (60, 16, 4096)


def test_the_setup_is_that_of_the_configuration(planned):
    run = planned().setup
    assert (run.model, run.scale, run.model_config.num_layers) == ("llama", "full", 32)
    assert (run.training_config.precision, run.training_config.recomputation) == ("bf16", "none")
    assert run.training_config.global_batch_size == 32
    assert run.optimizer.learning_rate == 0.0008
    assert run.framework_config == {
        **{"backend": "torchtitan", "torch_compile": True},
        **{"enable_primus_turbo": True, "use_turbo_attention": True},
    }
    assert planned("FP8").setup.training_config.precision == "fp8"


def test_parallel_sizes_divide_the_batch(planned):
    made = planned(tensor_model_parallel_size=2)
    assert "--parallelism.tensor_parallel_degree" in made.arguments
    assert made.global_batch_size == 4 * 4


def test_log_lines_that_would_not_appear(planned):
    made = planned(
        change=lambda text: text.replace("stderr_sink_level: INFO", "stderr_sink_level: ERROR")
    )
    assert made.arguments[-4:-2] == ("--stderr_sink_level", "DEBUG")


def test_no_step_is_timed_under_the_profiler(planned):
    profiled = {"change": lambda text: f"{text}      profiling:\n        enable_profiling: true\n"}
    assert planned(**profiled).arguments[-2:] == ("--profiling.enable_profiling", "False")
    # Unless Primus' own command line asks for it.
    wanted = planned(**profiled, passed=("--profiling.enable_profiling", "True"))
    assert wanted.configuration.settings.value("profiling.enable_profiling") is True


@pytest.mark.parametrize("gpu", ["MI300X", "MI325X", "MI355X"])
def test_each_gpus_configuration_is_started_on_the_gpus_that_are_allowed(planned, gpu):
    made = planned(
        gpu=gpu, environ={"HF_TOKEN": "made-up", "HIP_VISIBLE_DEVICES": "4,5", "GPUS_PER_NODE": "2"}
    )
    launched = command(made, "now")
    config = f"examples/torchtitan/configs/{gpu}/llama3.1_8B-BF16-pretrain.yaml"
    assert launched.argv[launched.argv.index("--config") + 1] == config
    assert (launched.env["ROCR_VISIBLE_DEVICES"], launched.env["GPUS_PER_NODE"]) == ("4,5", "2")
    assert made.global_batch_size == 2 * 4


def test_another_precision_takes_a_configuration_of_its_own(planned):
    with pytest.raises(UsageError, match="is for bf16, and fp8 needs its own configuration"):
        planned(precision="fp8")


def test_matching_is_refused(planned):
    with pytest.raises(UsageError, match="--match doesn't know the settings of Primus' torchtitan"):
        planned(matched=(Run(model="llama"), "theirs.json"))


class TestChecks:
    MACHINE = Machine(
        "amd", GpuInfo(device_name="AMD Instinct MI300X", device_count=8), Environment()
    )

    def found(self, made, environ):
        result = checks.preflight(made, self.MACHINE, environ)
        return " ".join(result.errors), " ".join(result.warnings)

    def test_the_tokenizer_takes_a_token(self, planned):
        made = planned(environ={"HOME": "/nowhere"})
        errors, warnings = self.found(made, {"HOME": "/nowhere"})
        assert (
            "Primus' torchtitan fetches the tokenizer of meta-llama/Llama-3.1-8B, and HF_TOKEN is"
            " not set" in errors
        )
        assert "trains on c4 from the Hugging Face hub" in warnings
        assert not self.found(made, {"HF_TOKEN": "made-up"})[0]

    def test_one_in_a_folder_needs_none(self, planned, tmp_path):
        (tmp_path / "tokenizer").mkdir()
        made = planned(
            environ={"A": "B"}, passed=("--model.hf_assets_path", str(tmp_path / "tokenizer"))
        )
        assert not self.found(made, {})[0]

    def test_an_empty_submodule(self, planned):
        made = planned()
        folder = made.installation.path / "third_party" / "torchtitan"
        folder.mkdir()
        assert f"{folder} is empty" in self.found(made, {"HF_TOKEN": "x"})[0]
        assert not self.found(made, {"HF_TOKEN": "x", "TORCHTITAN_PATH": "/elsewhere"})[0]


def test_the_result_is_one_of_primus():
    record = StartRecord(
        experiment="x",
        started="2026-05-11T00:00:00+00:00",
        framework_config={"backend": "torchtitan"},
    )
    run = start_record.applied(Run(platform="amd", framework="torchtitan", model="llama"), record)
    assert (run.framework, run.framework_config) == ("primus", {"backend": "torchtitan"})
