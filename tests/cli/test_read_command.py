"""tprimat read, scripts/analyze_existing_logs.py: as a user calls it."""

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import psutil
import pytest
from made_runs import make_run
from stored_runs import findings_of
from test_find_logs import log, put

from tprimat.catalog import models
from tprimat.cli import read as read_command
from tprimat.cli import run
from tprimat.log_import import sources
from tprimat.results.run import ModelConfig
from tprimat.store import store

TRAINER = "".join(
    f"{{'loss': {3 - step / 100}, 'learning_rate': {step}e-06, 'epoch': {step / 100}, "
    f"'global_step/max_steps': '{step}/50'}}\n"
    for step in range(10, 60, 10)
)
STATE = {
    "global_step": 50,
    "max_steps": 50,
    "logging_steps": 10,
    "log_history": [
        {
            "loss": 3 - step / 100,
            "learning_rate": step * 1e-6,
            "epoch": step / 100,
            "step": step,
        }
        for step in range(10, 60, 10)
    ]
    + [{"train_runtime": 100.0, "step": 50, "epoch": 0.5}],
}
NANO = "".join(
    f"iter {n}: loss {5 - n / 100:.4f}, time {500 + n}.00ms, mfu 30.00%\n" for n in range(30)
)

TITAN = (
    "[rank0]:[titan] 2026-01-01 10:00:00,000 - root - INFO - CUDA capacity: NVIDIA H100 80GB HBM3"
    " with 79.10GiB memory\n"
    + "".join(
        f"[rank0]:[titan] 2026-01-01 10:00:{n:02},000 - root - INFO - step: {n}  loss: {9 - n / 10}"
        "  memory: 40.00GiB(50.00%)  tps: 5,000  mfu: 30.00%\n"
        for n in range(1, 20)
    )
)


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        status = run("read", [str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def results(folder):
    return {path.name: store.read(path)[0] for path in sorted(folder.glob("*.json"))}


def test_what_a_log_leaves_open_is_given(call, tmp_path):
    (tmp_path / "nano.log").write_text(NANO)
    sizes = ("--num-gpus", 2, "--global-batch-size", 8, "--sequence-length", 1024)
    status, out, err = call(
        "nano.log", "--gpu", "MI300X", "--model-name", "llama-3.1-8b", "--precision", "BF16", *sizes
    )
    assert (status, err) == (0, "")
    assert "MI300X" in out
    (found,) = results(tmp_path / "output").values()
    assert (found.gpu_info.device_name, found.platform, found.training_config.precision) == (
        "MI300X",
        "amd",
        "bf16",
    )
    assert (found.model, found.num_gpus, found.tokens_per_step) == ("llama-3.1-8b", 2, 8192)


def test_what_contradicts_a_log_needs_override(call, tmp_path):
    (tmp_path / "titan.log").write_text(TITAN)
    status, _, err = call("titan.log", "--gpu", "MI300X")
    assert status == 2
    assert "--gpu" in err
    assert call("titan.log", "--gpu", "h100")[0] == 0
    assert call("titan.log", "--gpu", "MI300X", "--override", "--output-dir", "other")[0] == 0
    (found,) = results(tmp_path / "other").values()
    assert found.gpu_info.device_name == "MI300X"
    assert "NVIDIA H100 80GB HBM3 in the log" in found.source.overrides["gpu"]


def deepspeed(*config):
    lines = [
        f"[INFO] [config.py:1001:print]   {name} ............... {value}" for name, value in config
    ]
    rates = [
        f"epoch=0/micro_step={n}/global_step={n}, RunningAvgSamplesPerSec=50, CurrSamplesPerSec=32"
        for n in (1, 2)
    ]
    return "\n".join([*lines, *rates, ""])


def test_a_given_batch_turns_rates_into_step_times(call, tmp_path):
    (tmp_path / "a.log").write_text(deepspeed())
    assert call("a.log")[0] == 0
    assert call("a.log", "--global-batch-size", 48, "--output-dir", "given")[0] == 0
    (without,), (found,) = (results(tmp_path / name).values() for name in ("output", "given"))
    assert [list(run.step_times) for run in (without, found)] == [[None, None], [1.5, 1.5]]
    assert [any("no step times" in each for each in run.warnings) for run in (without, found)] == [
        True,
        False,
    ]


def test_a_batch_that_follows_from_what_a_log_states_is_stated(call, tmp_path):
    sizes = (
        ("train_micro_batch_size_per_gpu", 4),
        ("gradient_accumulation_steps", 2),
        ("world_size", 8),
    )
    (tmp_path / "a.log").write_text(deepspeed(*sizes))
    assert call("a.log", "--global-batch-size", 64)[0] == 0
    status, _, err = call("a.log", "--global-batch-size", 128)
    assert status == 2
    assert "the log gives the global batch size as 64" in err
    assert call("a.log", "--global-batch-size", 128, "--override", "--output-dir", "other")[0] == 0
    (agreed,), (found,) = (results(tmp_path / name).values() for name in ("output", "other"))
    # What the log states is the rate: the work of a step and its time change together.
    assert [list(run.step_times) for run in (agreed, found)] == [[2.0, 2.0], [4.0, 4.0]]
    assert agreed.source.overrides == {}
    assert "128 on the command line, 64 in the log" in found.source.overrides["global_batch_size"]


def test_a_given_batch_that_agrees_stays_with_another_number_of_gpus(call, tmp_path):
    sizes = (("train_micro_batch_size_per_gpu", 4), ("gradient_accumulation_steps", 2))
    ends = "".join(
        f"[INFO] [launch.py:347:main] Process {n} exits successfully.\n" for n in range(8)
    )
    (tmp_path / "a.log").write_text(deepspeed(*sizes) + ends)
    assert call("a.log", "--global-batch-size", 64, "--num-gpus", 16, "--override")[0] == 0
    (found,) = results(tmp_path / "output").values()
    # Without it, micro-batch, accumulation and 16 GPUs give 128.
    assert (found.num_gpus, found.training_config.global_batch_size) == (16, 64)
    assert list(found.step_times) == [2.0, 2.0]
    assert list(found.source.overrides) == ["num_gpus"]


def megatron(*batches, length=2048):
    return "".join(
        f" iteration {n:8d}/ 100 | consumed samples: {64 * n} | elapsed time per iteration (ms):"
        f" 500.0 | learning rate: 1.0E-04 | global batch size: {batch:5d} | lm loss:"
        f" {6 - n / 100:.6E} | loss scale: 1.0 | grad norm: 0.500 | actual seqlen:"
        f" {length + n * (length == 1)} | number of skipped iterations: 0 | number of nan"
        " iterations: 0 |\n"
        for n, batch in enumerate(batches, 1)
    )


@pytest.mark.parametrize(
    ("length", "contradicts"),
    [(6250, False), (6251, True), (5000, False), (4000, False), (3999, True)],
)
def test_sizes_that_the_time_stamps_of_torchtitan_contradict(call, tmp_path, length, contradicts):
    """Its lines print 5,000 tokens/s and stand a second apart; x5: no step takes less than that."""
    (tmp_path / "titan.log").write_text(TITAN)
    assert (
        call("titan.log", "--num-gpus", 1, "--global-batch-size", 1, "--sequence-length", length)[0]
        == 0
    )
    (found,) = results(tmp_path / "output").values()
    assert found.step_times[0] == pytest.approx(max(1.0, length / 5000))
    code = "stamps-are-clock" if length < 5000 else "steps-beyond-stamps"
    assert [note.code for note in findings_of(found)] == ([] if length == 5000 else [code])
    text = (
        f"{length:,} tokens per step and GPU and 5,000 by tps and the time stamps can't both be"
        " true"
    )
    assert (text in found.warnings) is contradicts


@pytest.mark.parametrize(
    ("content", "option", "value", "statement"),
    [
        (megatron(16, 32, 24), "--global-batch-size", 24, "16 to 32"),
        (megatron(16, 16, 16, length=1), "--sequence-length", 4, "2 to 4"),
        (
            "".join(
                f"Training epoch 0, iteration {n}/9 | lr: 1e-05 | global_batch_size: {batch} |"
                f" global_step: {n} | reduced_train_loss: {5 - n / 10} | train_step_timing in s:"
                " 2.5\n"
                for n, batch in enumerate((16, 48, 32))
            ),
            "--global-batch-size",
            32,
            "16 to 48",
        ),
    ],
)
def test_one_size_given_for_one_that_changes_during_the_run_contradicts_the_log(
    call, tmp_path, content, option, value, statement
):
    (tmp_path / "a.log").write_text(content)
    assert call("a.log")[0] == 0
    (found,) = results(tmp_path / "output").values()
    assert any("changes during the run" in each for each in found.warnings)
    status, _, err = call("a.log", option, value)
    assert status == 2
    assert f"as {statement} (" in err
    assert call("a.log", option, value, "--override", "--output-dir", "other")[0] == 0
    (found,) = results(tmp_path / "other").values()
    field = option[2:].replace("-", "_")
    assert getattr(found.training_config, field) == value
    assert f"{value} on the command line, {statement} in the log" in found.source.overrides[field]


def test_a_batch_that_changes_during_the_run_is_no_gap_that_another_source_fills(call, tmp_path):
    (tmp_path / "a.log").write_text(megatron(16, 32, 24) + deepspeed(("train_batch_size", 64)))
    (tmp_path / "b.log").write_text(
        megatron(64, 64, 64) + deepspeed(("train_batch_size", 64), ("world_size", 8))
    )
    assert all(call(name, "--output-dir", name[0])[0] == 0 for name in ("a.log", "b.log"))
    (changing,), (constant,) = (results(tmp_path / name).values() for name in "ab")
    assert (changing.framework, changing.training_config.global_batch_size) == ("deepspeed", None)
    assert (constant.training_config.global_batch_size, constant.num_gpus) == (64, 8)


SHAPE = {
    "num_layers": 2, "hidden_size": 1024, "num_attention_heads": 8, "num_query_groups": 8, "head_dim": 128,
    "ffn_hidden_size": 4096, "vocab_size": 32000, "gated_ffn": True,
}  # fmt: skip


@pytest.fixture
def shape(tmp_path):
    (tmp_path / "shape.json").write_text(json.dumps(SHAPE))
    return tmp_path / "shape.json"


COUNT = models.parameters(ModelConfig(**SHAPE))


@pytest.mark.parametrize(
    ("stated", "agrees"),
    [(2 * COUNT, True), (2 * COUNT + 1, False), (COUNT // 2 + 1, True), (COUNT // 2 - 1, False)],
)
def test_a_shape_with_twice_or_half_the_parameters_that_the_log_states_needs_override(
    call, tmp_path, shape, stated, agrees
):
    (tmp_path / "a.log").write_text(
        f"trainable params: 4,096 || all params: {stated:,} || trainable%: 0.1\n{TRAINER}"
    )
    status, _, err = call("a.log", "--model-shape", shape)
    assert status == (0 if agrees else 2)
    assert agrees or f"--model-shape: {COUNT:,} parameters, {stated:,} in the log" in err
    assert call("a.log", "--model-shape", shape, "--override", "--output-dir", "other")[0] == 0
    (found,) = results(tmp_path / "other").values()
    kept = found.model_config
    # Adapters stay adapters: nothing else says what is trained.
    assert (kept.num_layers, kept.trainable_parameters) == (2, 4096)
    assert kept.num_parameters == (stated if agrees else None)
    assert any(f"{stated:,} in the log" in each for each in found.warnings) is not agrees


@pytest.mark.parametrize(
    ("name", "contradicts"), [("mine-120M", False), ("mine-7B", True), ("llama-3.2-1b", True)]
)
def test_a_given_shape_that_is_not_of_the_model_that_the_log_names(
    call, tmp_path, shape, name, contradicts
):
    assert 60e6 < COUNT < 240e6
    step = (
        "step {} | epoch 0 | loss 4.5000 | mem 20.50 GiB | tps 800.00(400.00/gpu) |"
        " num_label_tokens 7\n"
    )
    (tmp_path / "a.log").write_text(
        f"  pretrained_model_name_or_path: /models/{name}\n" + "".join(map(step.format, range(3)))
    )
    for given in ((), ("--model-name", name)):
        assert call("a.log", "--model-shape", shape, *given)[0] == 0
        (found,) = results(tmp_path / "output").values()
        text = f"the model {name} and the given shape can't both be true"
        assert (text in found.warnings) is (contradicts and not given)
        assert not any("shape isn't stated" in each for each in found.warnings)


def test_an_overridden_shape_is_noted_and_keeps_the_trained_parameters(call, tmp_path, shape):
    (tmp_path / "a.log").write_text(
        "".join(
            f" {name} {'.' * 20} {value}\n"
            for name, value in (("num_layers", 4), ("hidden_size", 512))
        )
        + megatron(16, 16)
    )
    status, _, err = call("a.log", "--model-shape", shape)
    assert (status, "the model shape as another" in err) == (2, True)
    assert call("a.log", "--model-shape", shape, "--override")[0] == 0
    (found,) = results(tmp_path / "output").values()
    assert found.model_config.num_layers == 2
    assert found.source.overrides["model_shape"].endswith(
        " on the command line, another in the log"
    )


@pytest.mark.parametrize(
    ("content", "arguments", "heading"),
    [
        (TITAN, ["--gpu", "MI300X"], "option-against-log"),
        (NANO, ["--gpu", "MI300X,B200"], ""),
        ("", [], "not-a-training-log"),
        ("nothing here\n", [], "not-a-training-log"),
        (None, [], "unreadable-file"),
    ],
)
@pytest.mark.parametrize("command", ["read", "compare"])
@pytest.mark.parametrize("others", [[], ["nano.log"]])
def test_an_error_names_its_own_heading(
    tmp_path, monkeypatch, capsys, content, arguments, heading, command, others
):
    monkeypatch.chdir(tmp_path)
    Path("nano.log").write_text(NANO)
    if content is not None:
        Path("a.log").write_text(content)
    assert run(command, ["a.log", *others, *arguments]) == 2
    assert re.findall(r"troubleshooting\.md#(\S+)", capsys.readouterr().err) == [heading] * bool(
        heading
    )


def test_one_log_is_shown_in_full(call, tmp_path):
    (tmp_path / "anything.dat").write_text(NANO)
    status, out, err = call("anything.dat")
    assert (status, err) == (0, "")
    assert "anything.dat: nanogpt" in out
    assert "sequence length and number of GPUs unknown" in out
    (name,) = results(tmp_path / "output")
    assert f"Results saved to: output/{name}" in out
    (found,) = results(tmp_path / "output").values()
    assert found.source.files[0].path == "anything.dat"
    assert len(found.source.files[0].sha256) == 64


def test_reading_it_again_makes_no_second_result(call, tmp_path):
    (tmp_path / "train.log").write_text(NANO)
    call("train.log")
    call("train.log")
    (path,) = (tmp_path / "output").glob("*.json")
    assert len(store.read(path)) == 1
    # The log has grown: it is the same one.
    (tmp_path / "train.log").write_text(NANO + "iter 30: loss 4.0, time 530.00ms, mfu 30.00%\n")
    call("train.log")
    (path,) = (tmp_path / "output").glob("*.json")
    assert [len(each.steps) for each in store.read(path)] == [31]


def test_a_folder_each_training_its_own_file_and_the_rest_named(call, tmp_path):
    logs = tmp_path / "logs"
    for number, scale in enumerate((1, 2, 3, 4)):
        folder = logs / f"run{number}"
        folder.mkdir(parents=True)
        (folder / "log.txt").write_text(NANO.replace("time 5", f"time {scale}5"))
    (logs / "notes.txt").write_text("the run went well\n")
    (logs / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    (logs / "page.html").write_text("<p>step 1</p>")
    (logs / "core").write_bytes(b"\0" * 1000)
    (logs / "empty.log").write_bytes(b"")
    status, out, err = call("logs", "--output-dir", "results")
    assert (status, err) == (0, "")
    assert len(results(tmp_path / "results")) == 4
    assert "4 results saved in results" in out
    assert "skipped: 5 files" in out
    for reason in (
        "is empty",
        "a binary file",
        "not a log by its name",
        "no supported training log in it",
    ):
        assert reason in out


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (
            1.0,
            (
                "no supported training log in it\nhint:  tprimat compare saved.json compares a"
                " result\n"
            ),
        ),
        (
            0.9,
            (
                "no supported training log in it: it begins like JSON and is cut off\nhint:  copy"
                " the whole file\n"
            ),
        ),
    ],
)
def test_a_result_and_a_cut_document_are_named(call, tmp_path, share, said):
    (tmp_path / "train.log").write_text(NANO)
    call("train.log")
    (saved,) = (tmp_path / "output").glob("*.json")
    content = saved.read_bytes()
    (tmp_path / "saved.json").write_bytes(content[: int(len(content) * share)])
    status, _, err = call("saved.json")
    assert status == 2
    assert f"error: saved.json: {said}" in err


def test_many_logs_are_a_table_of_80_columns(call, tmp_path):
    folder = tmp_path / "a-folder-with-a-long-name" / "of-another-machine"
    folder.mkdir(parents=True)
    for number in range(5):
        (folder / f"nanogpt-of-a-team-with-a-long-name-{'x' * 40}-{number}.log").write_text(
            NANO.replace("loss 4", f"loss 4{number}")
        )
    status, out, err = call(*folder.glob("*.log"))
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines()[:6])) <= 80
    assert all(f"-{number}.log  30     " in out for number in range(5))


def test_an_mlperf_system_description_is_named_with_its_logs(call, tmp_path):
    (tmp_path / "nano.log").write_text(NANO)
    (tmp_path / "machine.json").write_text('{"accelerator_model_name": "AMD Instinct MI355X"}')
    status, out, err = call("nano.log", "machine.json")
    assert (status, err) == (0, "")
    assert "machine.json" in out
    assert call("machine.json")[0] == 2


def test_a_structured_file_goes_before_the_console_of_the_same_training(call, tmp_path):
    logs = tmp_path / "run"
    (logs / "checkpoint-30").mkdir(parents=True)
    setup = "  Total train batch size (w. parallel, distributed & accumulation) = 64\n"
    (logs / "console.log").write_text(setup + TRAINER)
    (logs / "trainer_state.json").write_text(json.dumps(STATE))
    (logs / "train_results.json").write_text(
        json.dumps({"train_runtime": 100.0, "train_loss": 2.5})
    )
    part = {**STATE, "global_step": 30, "log_history": STATE["log_history"][:3]}
    (logs / "checkpoint-30" / "trainer_state.json").write_text(json.dumps(part))
    status, out, _ = call("run")
    (found,) = results(tmp_path / "output").values()
    assert status == 0
    assert found.source.dialect == "hf_trainer (trainer_state.json)"
    assert found.status == "complete"
    assert found.training_config.global_batch_size == 64
    assert any("global_batch_size: from console.log" in warning for warning in found.warnings)
    assert "skipped: 3 files" in out
    assert out.count("same run as") == 1


def test_event_files_of_a_folder_are_one_training_with_their_hparams(call, tmp_path):
    import importlib

    writer = importlib.import_module("event_writer")
    folder = tmp_path / "nvi-logs" / "RUN"
    folder.mkdir(parents=True)
    for number, steps in enumerate((range(3), range(3, 6))):
        content = b"".join(
            writer.event(
                1.7e9,
                step,
                writer.scalar("train_step_timing in s", 0.5),
                writer.scalar("reduced_train_loss", 5),
            )
            for step in steps
        )
        (folder / f"events.out.tfevents.{number}").write_bytes(writer.version() + content)
    (folder / "hparams.yaml").write_text(
        "seq_length: 4096\nglobal_batch_size: 32\ndevices: 8\nnum_nodes: 1\n"
    )
    status, _, _ = call("nvi-logs")
    (found,) = results(tmp_path / "output").values()
    assert status == 0
    assert found.steps == (1, 2, 3, 4, 5, 6)
    assert (found.tokens_per_step, found.num_gpus) == (32 * 4096, 8)
    assert len(found.source.files) == 2


def test_workbooks_of_an_older_folder(call, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    folder = tmp_path / "amd-logs" / "llama"
    folder.mkdir(parents=True)
    book = openpyxl.Workbook()
    book.active.title = "gpu_timeline"
    for row in (
        ("type", "time ms"),
        ("computation_time", 8.0),
        ("idle_time", 2.0),
        ("total_time", 10.0),
    ):
        book.active.append(row)
    kernels = book.create_sheet("kernel_summary")
    kernel = f"void at::native::{'elementwise_' * 40}kernel<float>"
    for row in (("Kernel name", "Kernel duration (µs)_sum"), (kernel, 5000.0)):
        kernels.append(row)
    book.save(folder / "report.xlsx")
    status, out, _ = call("amd-logs")
    (found,) = results(tmp_path / "output").values()
    assert status == 0
    assert found.breakdown["computation"] == pytest.approx(0.008)
    assert "tracelens (xlsx)" in out
    assert max(map(len, out.splitlines())) < 120
    assert [each for each in found.warnings if "model" in each] == [
        "model from the name of the log's directory 'llama': Llama 3.1 8B; the log doesn't state it"
    ]


def test_compressed_and_piped(call, tmp_path, monkeypatch):
    (tmp_path / "state.json.gz").write_bytes(gzip.compress(json.dumps(STATE).encode()))
    assert call("state.json.gz", "--output-dir", "a")[0] == 0
    (found,) = results(tmp_path / "a").values()
    assert found.status == "complete"
    for content, folder in ((json.dumps(STATE), "b"), (NANO, "c")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        status, out, _ = call("-", "--output-dir", folder)
        assert status == 0
        assert "standard input: " in out
        assert len(results(tmp_path / folder)) == 1


class TestBundles:
    @pytest.fixture
    def packed(self, tmp_path):
        (tmp_path / "logs").mkdir()
        with tarfile.open(tmp_path / "logs" / "theirs.tar.gz", "w:gz") as archive:
            for name, content in (
                ("x/logs/nano.log", NANO),
                ("x/README.txt", "read me"),
                ("x/state.json", json.dumps(STATE)),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content.encode()))

    def test_their_logs_are_read_under_their_names(self, call, tmp_path, packed):
        (tmp_path / "mine.log").write_text(NANO.replace("time 5", "time 6"))
        status, out, err = call(
            "logs/theirs.tar.gz", "mine.log", "--gpu", "logs/theirs=H100", "--gpu", "mine=MI300X"
        )
        assert (status, err) == (0, "")
        assert "README.txt" not in out
        found = {
            run.source.files[0].path: run.gpu_info.device_name
            for run in results(tmp_path / "output").values()
        }
        assert found == {
            "logs/theirs.tar.gz/x/logs/nano.log": "H100",
            "logs/theirs.tar.gz/x/state.json": "H100",
            "mine.log": "MI300X",
        }

    def test_one_that_is_none_is_an_error_and_the_others_are_read(self, call, tmp_path, packed):
        (tmp_path / "none.zip").write_text("PK of a kind")
        status, out, err = call("none.zip", "logs/theirs.tar.gz")
        assert status == 2
        assert err.startswith("error: none.zip: not a readable archive")
        assert len(results(tmp_path / "output")) == 2
        status, out, err = call("none.zip")
        assert (status, out) == (2, "")


class TestErrors:
    def test_a_named_file_that_is_none_is_an_error_and_the_others_are_read(self, call, tmp_path):
        (tmp_path / "prose.txt").write_text("nothing here\n")
        (tmp_path / "train.log").write_text(NANO)
        status, out, err = call("prose.txt", "train.log")
        assert status == 2
        assert err.startswith("error: prose.txt: ")
        assert err.count("error: ") == 1
        assert "Results saved to" in out

    @pytest.mark.parametrize(
        "arguments", [(), ("absent.log",), ("absent*.log",), ("x", "--jobs", "0"), ("--what",)]
    )
    def test_wrong_usage_is_one_line(self, call, arguments):
        status, out, err = call(*arguments)
        assert (status, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("error: ") == 1

    def test_a_folder_without_a_training(self, call, tmp_path):
        (tmp_path / "logs").mkdir()
        assert call("logs")[0] == 2
        (tmp_path / "logs" / "notes.txt").write_text("nothing\n")
        status, out, err = call("logs")
        assert status == 2
        assert "no training log found" in err
        assert "skipped: 1 file" in out

    def test_a_damaged_structured_file_that_is_named(self, call, tmp_path):
        (tmp_path / "x.json").write_text('{"train_runtime": ')
        status, _, err = call("x.json")
        assert status == 2
        assert "train_results.json of Hugging Face's Trainer" in err
        assert err.count("error: ") == 1

    def test_results_of_ours_are_left_to_compare(self, call, tmp_path):
        (tmp_path / "train.log").write_text(NANO)
        call("train.log")
        status, out, _ = call("output", "--output-dir", "more")
        assert status == 2
        assert "already a result" in out

    @pytest.mark.skipif(sys.platform == "win32", reason="needs a symbolic link")
    def test_a_link_to_nothing_in_a_folder_is_passed_over(self, call, tmp_path):
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "a.log").write_text(NANO)
        (tmp_path / "logs" / "b.log").symlink_to(tmp_path / "none.log")
        status, out, _ = call("logs", "logs/a.log")
        assert status == 0
        assert "no such file or directory: logs/b.log" in out.replace("\\", "/")

    @pytest.mark.skipif(
        sys.platform == "win32" or os.getuid() == 0, reason="needs a file that this user can't read"
    )
    def test_a_file_that_may_not_be_read_is_passed_over(self, call, tmp_path):
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "a.log").write_text(NANO)
        (tmp_path / "logs" / "b.log").write_text(NANO)
        (tmp_path / "logs" / "b.log").chmod(0)
        status, out, _ = call("logs")
        assert status == 0
        assert "can't be read" in out


def test_in_processes_the_results_are_the_same(call, tmp_path, monkeypatch):
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.log").write_text(NANO.replace("time 5", f"time {number + 1}5"))
    call("logs", "--output-dir", "one", "--jobs", "1")
    monkeypatch.setattr(sources, "PARALLEL_FROM", 1)
    call("logs", "--output-dir", "several", "--jobs", "2")
    one, several = results(tmp_path / "one"), results(tmp_path / "several")
    assert len(one) == 4
    assert one == several


@pytest.mark.skipif(sys.platform == "win32", reason="ended by a signal")
def test_a_command_that_is_killed_leaves_no_process_that_reads(tmp_path):
    for number in range(2):
        (tmp_path / f"{number}.log").write_text(NANO)
    code = (
        "import psutil, time\nfrom tprimat import cli\nfrom tprimat.log_import import sources\ndef"
        " wait(*_):\n    print(*(each.pid for each in psutil.Process().children()), flush=True)\n  "
        "  time.sleep(600)\nsources.PARALLEL_FROM, sources._finished = 1, wait\ncli.run('read',"
        " ['.', '--jobs', '2'])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=tmp_path, env=environment
    ) as parent:
        children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
    assert len(children) >= 2
    assert psutil.wait_procs(children, 60)[1] == []


def test_label(call, tmp_path):
    (tmp_path / "train.log").write_text(NANO)
    call("train.log", "--label", "mine")
    (name,) = results(tmp_path / "output")
    assert "mine" in name


def test_a_large_piped_file_goes_to_the_disk(monkeypatch):
    import contextlib

    monkeypatch.setattr(sources, "IN_MEMORY", 100)
    with contextlib.ExitStack() as stack:
        stream = sources._spooled("a file", [b"x" * 60, b"y" * 60, b"z"], stack)
        assert not isinstance(stream, io.BytesIO)
        assert stream.read() == b"x" * 60 + b"y" * 60 + b"z"


def test_no_bar_where_nobody_looks(capsys):
    with read_command._progress(5) as advance:
        advance("a title")
    assert capsys.readouterr().err == ""


def test_the_script_runs_from_any_folder(repository, tmp_path):
    (tmp_path / "train.log").write_text(NANO)
    script = repository / "scripts" / "analyze_existing_logs.py"
    done = subprocess.run(
        [sys.executable, str(script), "train.log"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((tmp_path / "output").glob("*.json"))) == 1


@pytest.mark.parametrize("working", [".", "code"])
def test_without_arguments_the_directories_of_the_older_tool_are_read(
    tmp_path, monkeypatch, capsys, working
):
    (tmp_path / working).mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / working)
    line = "step: {n:2}  loss: 9.1  memory: 31.0GiB(25%)  tps: 7,000\n"
    for folder in ("amd-logs/llama", "nvi-logs/qwen25_7b_test_fp8"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "train.log").write_text("".join(line.format(n=n) for n in range(1, 4)))
    assert run("read", ["--quiet"]) == 0
    assert sorted(Path(each).name for each in capsys.readouterr().out.split()) == [
        "train_torchtitan_llama.json",
        "train_torchtitan_qwen.json",
    ]


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        ("H1000", "did you mean H100?"),
        (
            "H9000",
            (
                "the nearest are H800, H200, H100; its peak is unknown: pass --peak-tflops when"
                " comparing"
            ),
        ),
        ("Gaudi 3", "its peak is unknown: pass --peak-tflops when comparing"),
        # Known by name, or known as a whole.
        ("MI430X", None),
        ("NVIDIA H100 80GB HBM3", None),
    ],
)
def test_an_unknown_gpu_is_used_and_asked_about(tmp_path, capsys, gpu, said):
    log = Path(__file__).parent.parent / "data" / "logs" / "litgpt_small.log"
    assert run("read", [str(log), "--gpu", gpu, "--output-dir", str(tmp_path), "--quiet"]) == 0
    written = capsys.readouterr()
    assert written.err == (f"note: --gpu {gpu} is not a known GPU; {said}\n" if said else "")
    assert json.loads(Path(written.out.strip()).read_text())["gpu_info"]["device_name"] == gpu


class TestTheListingOfAnalyzeExistingLogs:
    """C16: without paths it shows event files, profiler reports, logs and the results that are
    here.
    """

    @pytest.fixture(autouse=True)
    def _here(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize("folder", ["output", "benchmark_results"])
    def test_c16_results_are_listed(self, folder, tmp_path, capsys):
        path = store.save(make_run(), tmp_path / folder).path
        assert run("read", []) == 0
        assert capsys.readouterr().out == f"Result:  {path.relative_to(tmp_path)}: llama, 1 run\n"

    def test_c16_after_the_logs_and_each_once(self, tmp_path, capsys):
        path = store.save(make_run(), tmp_path / "output").path
        put(tmp_path / "training_llama.log", log("llama", name="llama3.1_8B"))
        for _ in range(2):
            assert run("read", []) == 0
            lines = capsys.readouterr().out.splitlines()
            assert lines[-1] == f"Result:  {path.relative_to(tmp_path)}: llama, 1 run"
            assert sum(line.startswith("Result:") for line in lines) == 1

    def test_c16_with_paths_only_those(self, tmp_path, capsys):
        store.save(make_run(), tmp_path / "output")
        put(tmp_path / "training_llama.log", log("llama", name="llama3.1_8B"))
        assert run("read", ["training_llama.log"]) == 0
        assert "Result: " not in capsys.readouterr().out
