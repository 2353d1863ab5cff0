"""Primus: its installation, its configurations, the plan for a training, what is checked before
it.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import shlex
import shutil
from pathlib import Path
from unittest import mock

import msgspec
import primus_tree
import pytest

from tprimat import frameworks
from tprimat.catalog import gpus, models
from tprimat.errors import UnreadableError, UsageError
from tprimat.frameworks.primus import checks as primus_checks
from tprimat.frameworks.primus import config as primus_config
from tprimat.frameworks.primus import installation as primus_installation
from tprimat.frameworks.primus import launch as primus
from tprimat.frameworks.primus import match as primus_match
from tprimat.frameworks.primus.installation import Installation
from tprimat.frameworks.primus.launch import command as command_of
from tprimat.frameworks.primus.request import PrimusRequest, PrimusTraining
from tprimat.frameworks.primus.resolve import Planner
from tprimat.frameworks.request import Device, RequestedConfig
from tprimat.machine.platforms import Machine
from tprimat.results.run import (
    Environment,
    GpuInfo,
    Optimizer,
    ParallelismConfig,
    Run,
    TrainingConfig,
)

pytest.importorskip("yaml", reason="PyYAML isn't installed; Primus brings it")

MI300X = GpuInfo(device_name="AMD Instinct MI300X", device_count=8, total_memory_gb=206.1, compute_units=304,
                 software_stack="rocm", architecture="gfx942", gpu_cores=19456)  # fmt: skip
MI300XS = Device("amd", 8, 206.1e9, "gfx942", "AMD Instinct MI300X")


@pytest.fixture
def tree(tmp_path) -> Path:
    return primus_tree.make(tmp_path / "Primus")


def primus_request(model: str, **options) -> tuple[str, PrimusRequest]:
    return model, PrimusRequest(**options)


def planned(
    tree: Path,
    wanted: tuple[str, PrimusRequest],
    environ: dict[str, str] | None = None,
    device: Device = MI300XS,
    output_dir: Path = Path(),
) -> PrimusTraining:
    model, requested = wanted
    requested = requested.but(installation=Installation(tree))
    planner = Planner(frameworks.by_name("primus"), models.by_name(model), requested, device)
    planner.environ = {"HF_TOKEN": "made-up", **(environ or {})}
    return planner.plan(output_dir)


def told(words: tuple[str, ...]) -> dict[str, object]:
    return primus_config.overrides(words)


class TestInstallation:
    def test_nothing_there_says_where_to_look(self, tmp_path):
        problem = Installation(tmp_path / "Primus").problem()
        assert "PRIMUS_PATH" in problem
        assert "https://github.com/AMD-AGI/Primus" in problem

    def test_a_folder_that_is_no_primus(self, tmp_path):
        assert "run_pretrain.sh" in Installation(tmp_path).problem()

    @pytest.mark.parametrize(
        ("spelling", "file"),
        [
            ("BF16", "MI300X/llama3.1_8B-BF16-pretrain.yaml"),
            ("plain", "MI300X/llama3.1_8B-pretrain.yaml"),
            ("flat", "llama3.1_8B-pretrain.yaml"),
        ],
    )
    def test_finds_each_spelling(self, tmp_path, spelling, file):
        installation = Installation(primus_tree.make(tmp_path, spelling=spelling))
        found = installation.config("llama", "mi300x", "bf16")
        assert found.path == tmp_path / "examples/megatron/configs" / file
        assert found.arguments == ()

    @pytest.mark.parametrize("spelling", ["plain", "flat"])
    def test_an_older_version_trains_in_fp8_by_an_override(self, tmp_path, spelling):
        found = Installation(primus_tree.make(tmp_path, spelling=spelling)).config(
            "qwen", "mi300x", "fp8"
        )
        assert found.arguments == ("--fp8", "hybrid")
        assert "is for bf16" in found.notes[0]

    def test_takes_the_folder_of_the_gpu(self, tmp_path):
        installation = Installation(
            primus_tree.make(tmp_path, folders=("MI300X", "MI325X", "MI355X"))
        )
        for gpu, folder in (
            ("mi300x", "MI300X"),
            ("mi325x", "MI325X"),
            ("mi350x", "MI355X"),
            ("mi355x", "MI355X"),
        ):
            assert installation.config("llama", gpu, "bf16").path.parent.name == folder

    def test_says_when_another_gpus_configuration_is_taken(self, tmp_path):
        installation = Installation(primus_tree.make(tmp_path, folders=("MI300X", "MI355X")))
        found = installation.config("llama", "mi325x", "bf16")
        assert found.path.parent.name == "MI300X"
        assert any("MI325X" in note for note in found.notes)
        assert any(
            "MI350X" in note for note in installation.config("llama", "mi350x", "bf16").notes
        )

    def test_never_guesses_the_gpu(self, tmp_path):
        installation = Installation(primus_tree.make(tmp_path, folders=("MI300X", "MI355X")))
        with pytest.raises(UsageError, match=r"GPU isn't known.*MI300X, MI355X.*PRIMUS_CONFIG"):
            installation.config("llama", None, "bf16")

    def test_mistral_is_trained_by_the_configuration_of_llama_in_its_own_shape(self, tree):
        made = planned(tree, primus_request("mistral", precision="fp8"))
        assert made.configuration.path.name == "llama3.1_8B-FP8-pretrain.yaml"
        assert (made.setup.model, made.setup.scale) == ("mistral", "full")
        assert made.setup.model_config.vocab_size == 32768
        words = told(made.arguments)
        assert (words["rotary_base"], words["norm_epsilon"], words["vocab_size"]) == (
            1000000,
            1e-5,
            32767,
        )
        assert any("no configuration for Mistral 7B" in note for note in made.notes)

    def test_says_where_it_looked(self, tree):
        with pytest.raises(UsageError, match=r"MI300X/llama3.1_8B-MXFP8-pretrain.yaml"):
            Installation(tree).config("llama", "mi300x", "mxfp8")

    def test_prefers_the_newer_launcher(self, tmp_path):
        both = ("run_pretrain.sh", "primus-cli")
        assert (
            Installation(primus_tree.make(tmp_path / "new", launchers=both)).launcher
            == "primus-cli"
        )
        assert Installation(primus_tree.make(tmp_path / "old")).launcher == "run_pretrain.sh"

    @pytest.mark.parametrize(
        ("architecture", "gigabytes", "key"),
        [("gfx942", 206.1, "mi300x"), ("gfx942", 274.9, "mi325x"), ("gfx950", 309.2, "mi355x"), ("gfx90a", 68.7, None),
         (None, 206.1, None), ("gfx942", None, None), ("gfx942", 100.0, None)],
    )  # fmt: skip
    def test_knows_a_gpu_by_architecture_and_memory(self, architecture, gigabytes, key):
        memory = None if gigabytes is None else gigabytes * 1e9
        assert primus_installation.gpu_of(Device("amd", 8, memory, architecture)) == key

    def test_knows_a_gpu_by_its_name(self):
        assert primus_installation.gpu_of(MI300XS) == "mi300x"
        assert (
            primus_installation.gpu_of(
                dataclasses.replace(MI300XS, device_name="AMD Instinct MI308X")
            )
            == "mi308x"
        )
        assert (
            primus_installation.gpu_of(Device("nvd", 8, 85e9, "sm_90", "NVIDIA H100 80GB HBM3"))
            is None
        )
        assert primus_installation.gpu_of(Device("cpu", 4, 206.1e9)) is None

    def test_every_gpu_with_configurations_is_a_row(self):
        assert {gpu.vendor for gpu in gpus.gpus() if gpu.key in primus_installation.FOLDERS} == {
            "AMD"
        }
        assert set(primus_installation.FOLDERS) <= {gpu.key for gpu in gpus.gpus()}


class TestConfiguration:
    @pytest.mark.parametrize("spelling", ["BF16", "plain", "flat"])
    def test_merges_as_primus_does(self, tmp_path, spelling):
        tree = primus_tree.make(tmp_path, spelling=spelling)
        found = Installation(tree).config("llama", "mi300x", "bf16")
        config = primus_config.read(found.path, tree, {})
        assert config.framework == "megatron"
        assert config.model == "llama3.1_8B"
        assert config.settings.count("global_batch_size") == 128
        assert config.settings["global_batch_size"].text == f"{found.path.name}:20"
        assert config.settings["log_interval"].text == "modules/pre_trainer.yaml"
        assert (config.settings.value("bf16"), config.settings["bf16"].text) == (
            True,
            "modules/pre_trainer.yaml",
        )
        assert config.settings.value("num_layers") == 32
        assert config.notes == ()

    def test_takes_the_environment(self, tree):
        path = Installation(tree).config("llama", "mi300x", "bf16").path
        config = primus_config.read(path, tree, {"PRIMUS_SEQ_LENGTH": "4096", "PRIMUS_TP": "4"})
        assert config.settings.count("seq_length") == 4096
        assert config.settings.count("tensor_model_parallel_size") == 4

    def test_an_environment_variable_without_default_must_be_set(self, tree):
        path = tree / "own.yaml"
        path.write_text(
            primus_tree.experiment("llama3.1_8B").replace("train_iters: 50", "train_iters: ${MINE}")
        )
        with pytest.raises(UnreadableError, match="environment variable MINE"):
            primus_config.read(path, tree, {})
        assert primus_config.read(path, tree, {"MINE": "7"}).settings.count("train_iters") == 7

    def test_what_stands_at_the_top_does_nothing_and_is_said(self, tree):
        path = tree / "own.yaml"
        path.write_text(
            "micro_batch_size: 1\nrecompute_granularity: full\n"
            + primus_tree.experiment("llama3.1_8B")
        )
        config = primus_config.read(path, tree, {})
        assert config.settings.count("micro_batch_size") == 2
        assert any(
            "micro_batch_size: 1 at the top of the file is ignored by Primus" in note
            for note in config.notes
        )
        assert primus_config.setup(config, 8).training_config.recomputation == "none"

    def test_the_command_line_goes_before_all(self, tree):
        path = Installation(tree).config("llama", "mi300x", "bf16").path
        words = (
            "--train_iters",
            "10",
            "--fp8=hybrid",
            "recompute_granularity=full",
            "--mock_data",
            "--lr",
            "1.0e-4",
        )
        config = primus_config.read(path, tree, {}).with_arguments(words)
        run = primus_config.setup(config, 8)
        assert run.training_config.max_steps == 10
        assert run.training_config.precision == "fp8"
        assert run.training_config.recomputation == "full"
        assert config.settings.value("mock_data") is True
        assert config.settings["fp8"].text == primus_config.COMMAND_LINE

    def test_describes_the_setup(self, tree):
        path = Installation(tree).config("qwen", "mi300x", "bf16").path
        run = primus_config.setup(primus_config.read(path, tree, {}), 8)
        assert (run.model, run.scale) == ("qwen", "full")
        assert run.training_config == TrainingConfig(
            max_steps=50, global_batch_size=640, micro_batch_size=10, sequence_length=2048, num_gpus=8,
            precision="bf16", recomputation="none",
        )  # fmt: skip
        assert run.parallelism_config.data_parallel_size == 8
        assert run.parallelism_config.gradient_accumulation_steps == 8
        assert run.data.kind == "mock"

    def test_a_missing_preset_is_said_and_nothing_is_made_up(self, tmp_path):
        path = tmp_path / "own.yaml"
        path.write_text(primus_tree.experiment("llama3.1_8B"))
        config = primus_config.read(path, tmp_path / "nowhere", {})
        assert any("pre_trainer.yaml isn't in" in note for note in config.notes)
        run = primus_config.setup(config, 8)
        assert run.training_config.precision is None
        assert run.training_config.recomputation is None
        assert run.training_config.global_batch_size == 128

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("modules: [\n", "is not YAML"),
            ("- a list\n", "it has no settings"),
            ("modules:\n  nobody: {}\n", "no modules.pre_trainer"),
            ("", "it has no settings"),
        ],
    )
    def test_other_files_are_refused_in_one_line(self, tmp_path, text, words):
        path = tmp_path / "own.yaml"
        path.write_text(text)
        with pytest.raises(UnreadableError, match=words) as caught:
            primus_config.read(path, tmp_path, {})
        assert "\n" not in caught.value.message

    def test_a_missing_file(self, tmp_path):
        with pytest.raises(UnreadableError, match="cannot be read"):
            primus_config.read(tmp_path / "none.yaml", tmp_path, {})

    def test_presets_that_stand_on_each_other_end(self, tree):
        preset = tree / "primus/configs/modules/megatron/pre_trainer.yaml"
        preset.write_text("extends: pre_trainer.yaml\n")
        with pytest.raises(UnreadableError, match="circular preset reference"):
            primus_config.read(Installation(tree).config("llama", "mi300x", "bf16").path, tree, {})


class TestPlan:
    def test_the_command_of_run_pretrain(self, tree, tmp_path):
        made = planned(tree, primus_request("llama", steps=10))
        command = command_of(dataclasses.replace(made, output_dir=tmp_path / "out put"), "now")
        assert command.argv == ("bash", "examples/run_pretrain.sh", "--train_iters", "10")
        assert command.cwd == tree
        assert (
            command.env["EXP"] == "examples/megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml"
        )
        assert command.env["PRIMUS_EXP_NAME"] == "tprimat_llama_bf16_now"
        assert command.env["TRAIN_LOG"] == str(
            tmp_path / "out put/primus/tprimat_llama_bf16_now/train.log"
        )
        assert command.env["GPUS_PER_NODE"] == "8"
        assert "HF_TOKEN" not in command.env

    def test_the_command_of_primus_cli(self, tmp_path):
        tree = primus_tree.make(tmp_path / "Primus", launchers=("run_pretrain.sh", "primus-cli"))
        command = command_of(
            planned(tree, primus_request("llama", steps=10), output_dir=Path("/out")), "now"
        )
        assert (
            shlex.join(command.argv) == "bash runner/primus-cli direct --log_file"
            " /out/primus/tprimat_llama_bf16_now/train.log -- train pretrain --config"
            " examples/megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml --train_iters 10"
        )

    def test_the_older_launcher_can_be_chosen(self, tmp_path):
        tree = primus_tree.make(tmp_path, launchers=("run_pretrain.sh", "primus-cli"))
        assert (
            planned(tree, primus_request("llama", launcher="run_pretrain.sh")).launcher
            == "run_pretrain.sh"
        )
        with pytest.raises(UsageError, match="has no primus-cli"):
            planned(
                primus_tree.make(tmp_path / "old"), primus_request("llama", launcher="primus-cli")
            )

    def test_quotes_for_shells_that_read_twice(self, tmp_path):
        passed = ("--train_data_path", "/data/my set", "--note", "$HOME")
        old = planned(primus_tree.make(tmp_path / "old"), primus_request("llama", passed=passed))
        assert command_of(old, "now").argv[-4:] == (
            "--train_data_path",
            "'/data/my set'",
            "--note",
            "'$HOME'",
        )
        new = planned(
            primus_tree.make(tmp_path / "new", launchers=("primus-cli",)),
            primus_request("llama", passed=passed),
        )
        assert command_of(new, "now").argv[-4:] == passed

    def test_a_log_that_an_old_primus_cli_would_cut_apart_is_kept_by_us_alone(self, tmp_path):
        tree = primus_tree.make(tmp_path, launchers=("primus-cli",))
        cli = tree / "runner" / "primus-cli-direct.sh"
        cli.write_text(cli.read_text().replace('"${CMD[@]}" 2>&1', 'eval "$CMD" 2>&1'))
        made = planned(tree, primus_request("llama"))
        assert (
            command_of(dataclasses.replace(made, output_dir=Path("/my out")), "now").argv[4]
            == os.devnull
        )
        copy = command_of(dataclasses.replace(made, output_dir=Path("/out")), "now").argv[4]
        assert copy == "/out/primus/tprimat_llama_bf16_now/train.log"

    def test_makes_the_iteration_lines_appear(self, tmp_path):
        tree = primus_tree.make(tmp_path, level="INFO")
        assert (
            told(planned(tree, primus_request("llama")).arguments)["stderr_sink_level"] == "DEBUG"
        )
        assert "stderr_sink_level" not in told(
            planned(primus_tree.make(tmp_path / "b"), primus_request("llama")).arguments
        )

    def test_what_is_passed_goes_before_all_else(self, tree):
        made = planned(
            tree,
            primus_request("llama", steps=10, global_batch_size=64, passed=("--train_iters", "30")),
        )
        assert made.configuration.settings.count("train_iters") == 30
        assert made.configuration.settings.count("global_batch_size") == 64

    def test_each_setting_says_what_set_it(self, tree):
        origins = planned(tree, primus_request("llama", steps=30)).origins
        assert origins["steps"] == "user"
        assert origins["global_batch_size"] == "llama3.1_8B-BF16-pretrain.yaml:20"
        assert origins["seed"] == "modules/pre_trainer.yaml"

    def test_machines_and_gpus_come_from_the_environment(self, tree):
        environ = {"NNODES": "2", "NODE_RANK": "1", "GPUS_PER_NODE": "4"}
        made = planned(tree, primus_request("llama"), environ)
        assert (made.num_nodes, made.node_index, made.gpus_per_node, made.num_gpus) == (2, 1, 4, 8)
        assert planned(tree, primus_request("llama", num_gpus=2), environ).gpus_per_node == 2
        assert (
            planned(tree, primus_request("llama"), device=Device("cpu", 4, None)).gpus_per_node == 8
        )

    def test_a_part_of_several_nodes(self, tree):
        """As primus-cli-slurm-entry.sh states it to `primus-cli direct`."""
        made = planned(tree, primus_request("llama", num_nodes=2), device=Device("amd", 8, None))
        assert (made.num_gpus, made.gpus_per_node, made.result_node) == (16, 8, 1)
        placed = dataclasses.replace(made, node_index=1, rendezvous="n1:2000")
        assert placed.result_elsewhere is None
        env = command_of(placed, "TIME").env
        names = ("NNODES", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "GPUS_PER_NODE")
        assert [env[name] for name in names] == ["2", "1", "n1", "2000", "8"]
        assert "NNODES" not in command_of(planned(tree, primus_request("llama")), "TIME").env

    @pytest.mark.parametrize(
        ("environ", "words"),
        [
            ({"NNODES": "two"}, "NNODES must be a whole number"),
            ({"NODE_RANK": "1"}, "NODE_RANK is 1 with 1 nodes"),
        ],
    )
    def test_refuses_a_wrong_environment(self, tree, environ, words):
        with pytest.raises(UsageError, match=words):
            planned(tree, primus_request("llama"), environ)

    def test_refuses_batches_that_megatron_would_refuse(self, tree):
        with pytest.raises(UsageError, match=r"128 is not a multiple of 24 .*120 and 144"):
            planned(tree, primus_request("llama", micro_batch_size=3))
        with pytest.raises(UsageError, match=r"8 GPUs cannot be divided by TP 3 = 3"):
            planned(tree, primus_request("llama", passed=("--tensor_model_parallel_size", "3")))

    def test_refuses_a_precision_that_primus_has_not(self, tree):
        with pytest.raises(UsageError, match="Primus trains in bf16, fp16, fp8, mxfp8, mxfp4"):
            planned(tree, primus_request("llama", precision="fp32"))

    @pytest.mark.parametrize("model", ["llama", "mistral"])
    def test_fp16_is_the_configuration_of_bf16_switched(self, tree, model):
        made = planned(tree, primus_request(model, precision="fp16"))
        assert made.configuration.path.name == "llama3.1_8B-BF16-pretrain.yaml"
        assert {name: told(made.arguments)[name] for name in ("bf16", "fp16", "fp8")} == {
            "bf16": False,
            "fp16": True,
            "fp8": None,
        }
        assert made.setup.training_config.precision == "fp16"
        assert any("is for bf16: --bf16 False --fp16 True" in note for note in made.notes)

    def test_a_configuration_of_ones_own(self, tree, tmp_path):
        path = tmp_path / "mine.yaml"
        path.write_text(primus_tree.experiment("mistral_7B", length=4096))
        made = planned(tree, primus_request("mistral", config=path))
        assert made.setup.model == "mistral"
        assert command_of(made, "now").env["EXP"] == str(path)
        assert (
            told(planned(tree, primus_request("mistral", config=path, precision="fp8")).arguments)[
                "fp8"
            ]
            == "hybrid"
        )
        with pytest.raises(UsageError, match="mxfp8 needs its own configuration"):
            planned(tree, primus_request("mistral", config=path, precision="mxfp8"))

    def test_a_configuration_of_another_model_is_refused(self, tree, tmp_path):
        path = tmp_path / "mine.yaml"
        path.write_text(primus_tree.experiment("qwen2.5_7B"))
        with pytest.raises(UsageError, match=r"a configuration of qwen, not of Llama"):
            planned(tree, primus_request("llama", config=path))

    def test_a_configuration_of_another_framework_is_refused(self, tree, tmp_path):
        path = tmp_path / "mine.yaml"
        path.write_text(
            primus_tree.experiment("llama3.1_8B").replace(
                "framework: megatron", "framework: maxtext"
            )
        )
        with pytest.raises(UsageError, match=r"is for maxtext.*tprimat extract-primus"):
            planned(tree, primus_request("llama", config=path))

    def test_a_path_that_primus_cannot_pass_on_is_refused(self, tree, tmp_path):
        folder = tmp_path / "my configs"
        folder.mkdir()
        path = folder / "mine.yaml"
        path.write_text(primus_tree.experiment("llama3.1_8B"))
        with pytest.raises(UsageError, match="copy the configuration to another path"):
            command_of(planned(tree, primus_request("llama", config=path)), "now")

    def test_a_blank_in_primus_own_path_is_no_matter(self, tmp_path):
        tree = primus_tree.make(tmp_path / "my Primus")
        assert " " not in command_of(planned(tree, primus_request("llama")), "now").env["EXP"]

    def test_a_time_limit_is_megatrons_own(self, tree):
        assert (
            told(planned(tree, primus_request("llama", exit_after_s=90.0)).arguments)[
                "exit_duration_in_mins"
            ]
            == 2
        )

    @pytest.mark.parametrize(("nodes", "minutes"), [(1, None), (2, 7)])
    def test_benchmarks_time_limit_is_for_the_steps(self, tree, nodes, minutes):
        # The session ends a training on one machine; of several, Megatron does, which counts from
        # its start.
        arguments = planned(
            tree, primus_request("llama", time_limit_s=90.0, num_nodes=nodes)
        ).arguments
        assert told(arguments).get("exit_duration_in_mins") == minutes

    def test_longer_sequences_need_more_positions(self, tree):
        assert told(planned(tree, primus_request("llama", sequence_length=16384)).arguments) == {
            "seq_length": 16384,
            "max_position_embeddings": 16384,
        }


class TestMatch:
    result = Run(
        model="llama",
        framework="nemo",
        training_config=TrainingConfig(
            global_batch_size=64, micro_batch_size=1, sequence_length=2048, num_gpus=8, precision="fp8",
            recomputation="full",
        ),
        parallelism_config=ParallelismConfig(
            tensor_model_parallel_size=4, pipeline_model_parallel_size=1, context_parallel_size=1,
            expert_model_parallel_size=1,
        ),
        optimizer=Optimizer(name="adam"),
    )  # fmt: skip

    def test_takes_over_what_decides_the_speed(self, tree):
        made = planned(tree, primus_request("llama", matched=(self.result, "r.json")))
        run = made.setup
        assert run.training_config.global_batch_size == 64
        assert run.training_config.micro_batch_size == 1
        assert run.training_config.sequence_length == 2048
        assert run.training_config.precision == "fp8"
        assert run.training_config.recomputation == "full"
        assert run.parallelism_config.tensor_model_parallel_size == 4
        assert run.parallelism_config.data_parallel_size == 2
        assert [note for note in made.notes if note.startswith("r.json")] == []

    def test_what_is_alike_needs_no_override(self, tree):
        base = planned(tree, primus_request("llama"))
        same = base.setup
        words, _ = primus_match.arguments(same, base.configuration, 8, "r.json")
        assert words == []

    def test_back_from_fp8_to_bf16(self, tree):
        bf16 = msgspec.structs.replace(
            self.result,
            training_config=msgspec.structs.replace(self.result.training_config, precision="bf16"),
        )
        made = planned(tree, primus_request("llama", precision="fp8", matched=(bf16, "r.json")))
        assert made.setup.training_config.precision == "bf16"
        # A word that an old Primus would take for a true one.
        assert "None" in made.arguments

    def test_says_what_is_not_stated(self, tree):
        sparse = Run(
            model="llama", training_config=TrainingConfig(global_batch_size=64, num_gpus=16)
        )
        notes = planned(tree, primus_request("llama", matched=(sparse, "r.json"))).notes
        assert any(
            "doesn't state micro_batch_size" in note and "recomputation" in note for note in notes
        )
        assert any("16 GPUs trained there, 8 here" in note for note in notes)
        assert any("doesn't state its precision" in note for note in notes)

    def test_an_option_goes_before_the_result(self, tree):
        made = planned(
            tree, primus_request("llama", global_batch_size=32, matched=(self.result, "r.json"))
        )
        assert made.configuration.settings.count("global_batch_size") == 32

    def test_another_model_is_refused(self, tree):
        other = msgspec.structs.replace(self.result, model="qwen")
        with pytest.raises(UsageError, match=r"r.json is for qwen"):
            planned(tree, primus_request("llama", matched=(other, "r.json")))

    def test_a_precision_of_its_own_is_left_and_said(self, tree):
        other = msgspec.structs.replace(
            self.result,
            training_config=msgspec.structs.replace(self.result.training_config, precision="mxfp8"),
        )
        made = planned(tree, primus_request("llama", matched=(other, "r.json")))
        assert made.setup.training_config.precision == "bf16"
        assert any("mxfp8, which needs a configuration of its own" in note for note in made.notes)


Space = collections.namedtuple("Space", "free")
AMD = Machine("amd", MI300X, Environment())


class TestChecks:
    def check(self, made: PrimusTraining, tmp_path: Path, environ=None, machine=AMD, free_gb=500.0):
        environ = {"HF_TOKEN": "made-up", "HOME": str(tmp_path)} if environ is None else environ
        made = dataclasses.replace(made, output_dir=tmp_path / "output")
        with mock.patch.object(shutil, "disk_usage", return_value=Space(free_gb * 1e9)):
            return primus_checks.preflight(made, machine, environ)

    def test_nothing_is_wrong(self, tree, tmp_path):
        found = self.check(planned(tree, primus_request("llama")), tmp_path)
        assert (found.errors, found.warnings) == ((), ())

    def test_a_gated_tokenizer_needs_a_token(self, tree, tmp_path):
        environ = {"HOME": str(tmp_path)}
        (fault,) = self.check(planned(tree, primus_request("llama")), tmp_path, environ).errors
        assert "HF_TOKEN" in fault
        assert "https://huggingface.co/meta-llama/Llama-3.1-8B" in fault
        assert self.check(planned(tree, primus_request("qwen")), tmp_path, environ).errors == ()

    @pytest.mark.parametrize(
        "where", ["token", "hub/models--meta-llama--Llama-3.1-8B/snapshots/1/tokenizer.json"]
    )
    def test_a_saved_token_or_tokenizer_does_too(self, tree, tmp_path, where):
        file = tmp_path / "hf" / where
        file.parent.mkdir(parents=True)
        file.write_text("")
        environ = {"HF_HOME": str(tmp_path / "hf")}
        assert self.check(planned(tree, primus_request("llama")), tmp_path, environ).errors == ()

    def test_offline_without_the_tokenizer(self, tree, tmp_path):
        environ = {"HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)}
        (fault,) = self.check(planned(tree, primus_request("qwen")), tmp_path, environ).errors
        assert "HF_HUB_OFFLINE" in fault

    def test_a_tokenizer_of_ones_own(self, tree, tmp_path):
        made = planned(tree, primus_request("llama", passed=("--tokenizer_model", str(tmp_path))))
        assert self.check(made, tmp_path, {}).errors == ()
        made = planned(
            tree, primus_request("llama", passed=("--tokenizer_model", "/nowhere/at/all"))
        )
        assert "not found" in self.check(made, tmp_path, {}).errors[0]

    def test_a_clone_without_submodules(self, tree, tmp_path):
        (tree / "third_party/Megatron-LM/README.md").unlink()
        (fault,) = self.check(planned(tree, primus_request("llama")), tmp_path).errors
        assert "submodule update --init --recursive" in fault

    def test_more_gpus_than_there_are(self, tree, tmp_path):
        few = dataclasses.replace(AMD, gpu_info=msgspec.structs.replace(MI300X, device_count=4))
        (fault,) = self.check(planned(tree, primus_request("llama")), tmp_path, machine=few).errors
        assert "GPUS_PER_NODE=4" in fault

    def test_no_space(self, tree, tmp_path):
        (fault,) = self.check(planned(tree, primus_request("llama")), tmp_path, free_gb=0.2).errors
        assert "0.2 GB free" in fault

    def test_no_space_for_a_checkpoint(self, tree, tmp_path):
        made = planned(tree, primus_request("llama", passed=("--disable_last_saving", "False")))
        (fault,) = self.check(made, tmp_path, free_gb=20).errors
        assert "112 GB needed" in fault
        assert "--disable_last_saving True" in fault

    def test_real_data_takes_long(self, tree, tmp_path):
        made = planned(tree, primus_request("llama", passed=("--mock_data", "False")))
        (doubt,) = self.check(made, tmp_path).warnings
        assert "BookCorpus" in doubt

    def test_no_gpu_is_said(self, tree, tmp_path):
        machine = Machine("cpu", GpuInfo(software_stack="cpu"), Environment())
        made = planned(tree, primus_request("llama", num_gpus=2))
        assert any(
            "no AMD GPU" in doubt for doubt in self.check(made, tmp_path, machine=machine).warnings
        )

    def test_mock_data_need_no_tokenizer(self, tree, tmp_path):
        environ = {"HOME": str(tmp_path)}
        made = planned(tree, primus_request("llama"), {**environ, "HF_TOKEN": ""})
        assert self.check(made, tmp_path, environ).errors == ()
        words = told(made.arguments)
        assert (words["tokenizer_type"], words["vocab_size"]) == ("NullTokenizer", 128255)
        assert any("NullTokenizer" in note and "HF_TOKEN is not set" in note for note in made.notes)
        assert "tokenizer_type" not in told(
            planned(tree, primus_request("qwen"), {"HF_TOKEN": ""}).arguments
        )
        patch = tree / primus_installation.MOCK_DATA
        patch.parent.mkdir(parents=True, exist_ok=True)
        patch.write_text('args.tokenizer_type = "NullTokenizer"\n')
        assert self.check(made, tmp_path, environ).errors == ()
        real = planned(tree, primus_request("llama", passed=("--mock_data", "False")))
        assert len(self.check(real, tmp_path, environ).errors) == 1


class TestVisibleGpus:
    """Primus' launchers overwrite HIP_VISIBLE_DEVICES: a training must not take the GPUs of
    others.
    """

    @pytest.mark.parametrize("name", ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"])
    def test_the_allowed_ones_train(self, tree, name):
        made = planned(tree, primus_request("llama", num_gpus=2), {name: "4,5"})
        assert command_of(made, "now").env["ROCR_VISIBLE_DEVICES"] == "4,5"
        assert command_of(made, "now").env["GPUS_PER_NODE"] == "2"

    def test_all_train_where_nothing_is_set(self, tree):
        assert (
            "ROCR_VISIBLE_DEVICES"
            not in command_of(planned(tree, primus_request("llama"), {}), "now").env
        )

    def test_two_limits_are_refused(self, tree):
        with pytest.raises(UsageError, match="ROCR_VISIBLE_DEVICES"):
            planned(
                tree,
                primus_request("llama"),
                {"HIP_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "4,5"},
            )


class TestFramework:
    def resolve(self, model, requested, output_dir):
        device = Device("amd", 8, 206.1e9, "gfx942")
        return frameworks.by_name("primus").resolve_config(model, requested, device, output_dir)

    @pytest.fixture(autouse=True)
    def _here(self, tree, monkeypatch):
        for name in ("PRIMUS_CONFIG", "NNODES", "NODE_RANK", "GPUS_PER_NODE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PRIMUS_PATH", str(tree))
        monkeypatch.setenv("HF_TOKEN", "made-up")

    def test_is_chosen_unnamed_on_amd_alone(self):
        assert frameworks.choose("primus") is frameworks.by_name("primus")
        assert frameworks.choose(None, "amd").name == "primus"
        assert "primus" not in (
            frameworks.choose(None, "nvd").name,
            frameworks.choose(None, "cpu").name,
        )

    def test_says_why_it_cannot_run(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PRIMUS_PATH", str(tmp_path / "none"))
        assert "PRIMUS_PATH" in primus.LAUNCHER.unavailable()

    def test_settles_from_the_configuration(self, tmp_path):
        request, notes = self.resolve("qwen", RequestedConfig(), tmp_path)
        assert (request.framework, request.platform, request.scale) == ("primus", "amd", "full")
        assert (request.global_batch_size, request.micro_batch_size, request.sequence_length) == (
            640,
            10,
            2048,
        )
        assert (request.precision, request.num_gpus, request.seed, request.steps) == (
            "bf16",
            8,
            1234,
            200,
        )
        assert any("qwen2.5_7B-BF16-pretrain.yaml" in note for note in notes)

    def test_wishes_hold(self, tmp_path):
        wishes = RequestedConfig(
            steps=60,
            global_batch_size=64,
            micro_batch_size=4,
            sequence_length=4096,
            num_gpus=4,
            seed=7,
        )
        request, _ = self.resolve("llama", wishes, tmp_path)
        assert (request.steps, request.global_batch_size, request.num_gpus, request.seed) == (
            60,
            64,
            4,
            7,
        )

    @pytest.mark.parametrize(
        "wishes", [RequestedConfig(scale="tiny"), RequestedConfig(precision="fp32")]
    )
    def test_refuses_what_primus_cannot(self, wishes, tmp_path):
        with pytest.raises(UsageError):
            self.resolve("llama", wishes, tmp_path)

    @pytest.mark.parametrize(("name", "value"), [("recomputation", "full"), ("attention", "sdpa")])
    def test_refuses_what_its_configuration_sets(self, name, value, tmp_path):
        with pytest.raises(
            UsageError, match=f"primus does not support --{name}; its own configuration sets it"
        ):
            self.resolve("llama", RequestedConfig(**{name: value}), tmp_path)

    def test_divides_the_model_as_a_matched_result(self, tmp_path):
        asked = RequestedConfig(tensor_model_parallel_size=2, pipeline_model_parallel_size=1)
        request, _ = self.resolve("llama", asked, tmp_path)
        assert told(request.arguments)["tensor_model_parallel_size"] == 2
        assert request.data_parallel_size == 4

    def test_launches_primus_itself(self, tmp_path):
        request, _ = self.resolve("llama", RequestedConfig(time_limit_s=600.0), tmp_path)
        command = primus.LAUNCHER.launch(request)
        assert command.argv == (
            "bash", "examples/run_pretrain.sh", "--train_iters", "200",
        )  # fmt: skip
        assert command.env["GPUS_PER_NODE"] == "8"
