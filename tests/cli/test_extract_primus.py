"""extract_primus_metrics.py as a user calls it."""

import bz2
import gzip
import importlib.util
import io
import json
import lzma
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tprimat.catalog import models
from tprimat.cli import run
from tprimat.log_import import inputs
from tprimat.store import store


@pytest.fixture
def logs(repository):
    return repository / "tests" / "data" / "logs"


@pytest.fixture
def core(logs):
    return logs / "primus_core_doubled.log"


@pytest.fixture
def extract(tmp_path, monkeypatch, capsys):
    """Calls the command in an empty directory; gives (status, output, errors)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        status = run("extract-primus", [str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_a_log_becomes_a_result_under_the_usual_name(extract, core, tmp_path):
    status, output, errors = extract("--log-file", core)
    assert (status, errors) == (0, "")
    path = tmp_path / "output" / "benchmark_rocm_llama2-7B.json"
    assert f"Results saved to: {path.relative_to(tmp_path)} (1 run)" in output
    (read,) = store.read(path)
    assert len(read.steps) == 24
    assert read.status == "complete"
    assert read.source.dialect == "megatron (primus-core)"
    assert read.source.files[0].bytes == core.stat().st_size
    assert json.loads(path.read_text())["steady"]["found"] is True


def test_what_was_recognised_is_shown_with_its_line(extract, core):
    _, output, _ = extract("--log-file", core)
    rows = {
        row[:20].strip(): row[20:].strip() for row in output.splitlines() if row.startswith("  ")
    }
    lines = core.read_text().splitlines()
    for label, argument in (
        ("sequence length", "seq_length"),
        ("micro-batch size", "micro_batch_size"),
    ):
        value, _, place = rows[label].partition(" ")
        number = int(place.split()[-1])
        assert argument in lines[number - 1]
        assert value in lines[number - 1]
    assert rows["steps"] == "24 of 24"
    assert rows["parallelism"].startswith("TP 2, PP 1, CP 1, EP 1, DP 4")
    assert "corrected to 0.6973 s" in output
    assert "24 duplicate iteration lines" in output


def test_the_same_log_again_is_no_second_run(extract, core, tmp_path):
    extract("--log-file", core)
    shutil.copy(core, tmp_path / "copy.log")
    (tmp_path / "copy.log.gz").write_bytes(gzip.compress(core.read_bytes()))
    for again in (core, "copy.log", "copy.log.gz"):
        status, output, _ = extract("--log-file", again)
        assert status == 0
        assert "not counted twice" in output
    (read,) = store.read(tmp_path / "output" / "benchmark_rocm_llama2-7B.json")
    assert len(read.steps) == 24


def test_a_log_that_has_grown_takes_the_place_of_its_beginning(extract, core, tmp_path):
    content = core.read_bytes()
    early = tmp_path / "early.log"
    early.write_bytes(content[: content.index(b"iteration       20/")])
    extract("--log-file", early)
    extract("--log-file", core)
    _, output, _ = extract("--log-file", early)
    (read,) = store.read(tmp_path / "output" / "benchmark_rocm_llama2-7B.json")
    assert (len(read.steps), read.status) == (24, "complete")
    assert "not counted twice" in output


def test_another_training_of_the_setup_joins(extract, core, tmp_path):
    extract("--log-file", core)
    other = tmp_path / "second.log"
    other.write_text(core.read_text().replace("(ms): 5", "(ms): 6"))
    _, output, _ = extract("--log-file", other)
    assert "(2 runs)" in output


def test_an_option_that_contradicts_the_log_shows_its_line(extract, core, tmp_path):
    status, _, errors = extract("--log-file", core, "--sequence-length", 8192)
    assert status == 2
    assert errors.count("error: ") == 1
    number = 1 + next(
        n for n, line in enumerate(core.read_text().splitlines()) if "seq_length" in line
    )
    assert f"{core}:{number}:" in errors
    assert "4096" in errors
    assert "--override" in errors
    assert not (tmp_path / "output").exists()


def test_override_uses_the_option_and_records_both(extract, core, tmp_path):
    status, output, _ = extract("--log-file", core, "--sequence-length", 8192, "--override")
    assert status == 0
    (read,) = store.read(tmp_path / "output" / "benchmark_rocm_llama2-7B.json")
    assert read.training_config.sequence_length == 8192
    assert "8192 on the command line, 4096 in the log" in read.source.overrides["sequence_length"]
    assert any("overridden" in warning for warning in read.warnings)
    assert "print tokens/s/GPU that disagree with batch" in output


def test_options_fill_what_the_log_leaves_open(extract, core, tmp_path):
    only_lines = tmp_path / "grep.log"
    kept = [line for line in core.read_text().splitlines() if "elapsed time" in line]
    only_lines.write_text("\n".join(kept) + "\n")
    given = (
        "--model-name",
        "llama-3.1-8b",
        "--sequence-length",
        4096,
        "--num-gpus",
        8,
        "--label",
        "a b",
    )
    status, output, _ = extract("--log-file", only_lines, *given)
    assert status == 0
    (read,) = store.read(tmp_path / "output" / "benchmark_rocm_llama-3.1-8b_a-b.json")
    assert (read.model, read.training_config.sequence_length, read.label) == (
        "llama-3.1-8b",
        4096,
        "a b",
    )
    assert sum("from the command line" in warning for warning in read.warnings) == 2
    assert read.source.overrides == {}
    assert "tokens/s/GPU" in output


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("llama", "llama-3.1-8b, llama-2-7b"),
        ("QWEN", "qwen-2.5-7b, qwen-2.5-14b"),
        ("mistral", "mistral-7b"),
    ],
)
def test_a_family_is_answered_with_its_models_where_nothing_states_the_shape(
    extract, core, name, near, tmp_path, capsys
):
    (tmp_path / "grep.log").write_text(
        "".join(line for line in core.read_text().splitlines(True) if "elapsed time" in line)
    )
    assert run("read", [str(tmp_path / "grep.log"), "--model-name", name]) == 2
    assert f"--model-name {name}: a family of models, such as {near}" in capsys.readouterr().err
    given = ("--log-file", tmp_path / "grep.log", "--sequence-length", 4096, "--num-gpus", 8)
    (tmp_path / "shape.json").write_text(json.dumps({"num_layers": 2, "hidden_size": 64}))
    assert extract(*given, "--model-name", name, "--model-shape", tmp_path / "shape.json")[0] == 0
    # A name of its own is none of ours.
    assert extract(*given, "--model-name", "llama-mine")[0] == 0


@pytest.mark.parametrize("name", ["llama2_7B", "llama", "LLaMA2-7b"])
def test_a_model_name_that_says_less_is_no_contradiction(extract, core, name, tmp_path):
    assert extract("--log-file", core, "--model-name", name)[0] == 0
    assert (tmp_path / "output" / "benchmark_rocm_llama2-7B.json").exists()


def test_another_model_is_a_contradiction(extract, core):
    status, _, errors = extract("--log-file", core, "--model-name", "qwen")
    assert status == 2
    assert "llama2_7B" in errors


def test_a_failed_training_gives_a_result_too(extract, logs, tmp_path):
    status, output, _ = extract(
        "--log-file", logs / "primus_out_of_memory.log", "--output", "deep/er/failed.json"
    )
    assert status == 0
    assert "reason: line" in output
    (read,) = store.read(tmp_path / "deep" / "er" / "failed.json")
    assert read.status == "failed"
    assert "HIP out of memory" in read.status_reason


def test_a_gpu_that_is_named_later_replaces_the_result_without_one(extract, core, tmp_path):
    for options in ((), ("--gpu", "MI300X"), ("--gpu", "MI300X", "--label", "mine")):
        status, _, _ = extract("--log-file", core, "--output-dir", tmp_path / "later", *options)
        assert status == 0
    usual, labelled = sorted((tmp_path / "later").glob("*.json"))
    assert labelled.stem == f"{usual.stem}_mine"
    (read,) = store.read(usual)
    assert (read.gpu_info.device_name, read.gpu_info.gpu_cores) == ("MI300X", 19456)
    assert not (tmp_path / "later" / "history").exists()


def test_a_named_file_is_written_and_another_setup_in_it_is_kept(extract, core, tmp_path):
    extract("--log-file", core, "--output", "mine.json")
    _, output, _ = extract(
        "--log-file", core, "--output", "mine.json", "--num-gpus", 16, "--override"
    )
    assert "existing result of another configuration moved to" in output
    (read,) = store.read(tmp_path / "mine.json")
    assert read.training_config.num_gpus == 16
    assert len(list((tmp_path / "history").iterdir())) == 1


def test_what_is_no_result_is_never_overwritten(extract, core, tmp_path):
    precious = tmp_path / "train.log"
    shutil.copy(core, precious)
    status, _, errors = extract("--log-file", precious, "--output", precious)
    assert status == 2
    assert "exists and is not a result file" in errors
    assert precious.read_bytes() == core.read_bytes()
    assert extract("--log-file", core, "--output", tmp_path)[0] == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n  \n", "is empty"),
        (b"hello\n", "no supported training log"),
        (b":::MLLOG {}\n", "no supported training log"),
        (bytes(range(256)) * 50, "no supported training log"),
    ],
)
def test_what_is_no_training_log_is_one_line(extract, tmp_path, content, words):
    (tmp_path / "some.log").write_bytes(content)
    status, output, errors = extract("--log-file", "some.log")
    assert (status, output) == (2, "")
    assert words in errors
    assert errors.count("error: ") == 1
    assert "some.log" in errors


def test_files_that_are_not_there_are_one_line_each_and_others_are_read(extract, core, tmp_path):
    status, output, errors = extract("--log-file", "missing.log", core, tmp_path)
    assert status == 2
    assert "missing.log: no such file" in errors
    assert "is a directory" in errors
    assert errors.count("error: ") == 2
    assert "Results saved to" in output


def test_patterns_that_the_shell_left_alone(extract, core, tmp_path):
    shutil.copy(core, tmp_path / "a.log")
    status, output, _ = extract("--log-file", "*.log")
    assert (status, output.count("Results saved to")) == (0, 1)
    status, _, errors = extract("--log-file", "none-*.log")
    assert status == 2
    assert "no file matches" in errors


def test_standard_input(extract, core, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(core.read_bytes())))
    status, output, _ = extract("--log-file", "-")
    assert status == 0
    assert output.startswith("standard input: ")
    (read,) = store.read(tmp_path / "output" / "benchmark_rocm_llama2-7B.json")
    assert read.source.files[0].path == "-"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_logs(extract, core, tmp_path, pack):
    (tmp_path / "packed").write_bytes(pack(core.read_bytes()))
    assert extract("--log-file", "packed")[0] == 0
    (read,) = store.read(tmp_path / "output" / "benchmark_rocm_llama2-7B.json")
    assert len(read.steps) == 24


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_log_that_is_cut_is_read_as_far_as_it_goes(extract, core, tmp_path, pack):
    # Incompressible lines, so that more than one block comes out before the cut.
    noise = b"".join(os.urandom(300).hex().encode() + b"\n" for _ in range(3000))
    content = pack(core.read_bytes() + noise)
    (tmp_path / "cut").write_bytes(content[: len(content) - 40])
    status, output, _ = extract("--log-file", "cut")
    assert status == 0
    assert "read only in part" in output


def test_zstd_without_its_package_names_the_package(extract, tmp_path, monkeypatch):
    (tmp_path / "x.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    status, _, errors = extract("--log-file", "x.zst")
    assert status == 2
    assert "pip install zstandard" in errors


@pytest.mark.skipif(
    importlib.util.find_spec("zstandard") is None, reason="zstandard is not installed"
)
def test_zstd(extract, core, tmp_path):
    import zstandard

    (tmp_path / "x.zst").write_bytes(zstandard.compress(core.read_bytes()))
    assert extract("--log-file", "x.zst")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--log-file"),
        (["--log-file", "x", "--num-gpus", "0"], "must be at least 1, not 0"),
        (["--log-file", "x", "--sequence-length", "4k"], "'4k' is not a whole number"),
        (["--log-file", "x", "--output", "a", "--output-dir", "b"], "not allowed with"),
    ],
)
def test_wrong_usage(extract, arguments, words):
    status, output, errors = extract(*arguments)
    assert (status, output, errors.count("error: ")) == (2, "", 1)
    assert words in errors


def test_the_hash_is_of_the_whole_file(tmp_path):
    import hashlib

    content = gzip.compress(b"a\nb\n") + b"rubbish behind"
    (tmp_path / "x.gz").write_bytes(content)
    log = inputs.Log(str(tmp_path / "x.gz"))
    assert [line.text for line in log.lines()] == ["a", "b"]
    assert log.source_file().sha256 == hashlib.sha256(content).hexdigest()
    assert log.cut is not None


def test_the_script_at_the_root(repository, core, tmp_path):
    done = subprocess.run(
        [sys.executable, repository / "extract_primus_metrics.py", "--log-file", core],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "benchmark_rocm_llama2-7B.json" in done.stdout


def test_a_real_log_from_start_to_result(extract, samples, truth, tmp_path):
    name = "megatron_light_llama31_8B_bf16_50it.log"
    status, _, _ = extract("--log-file", samples / "primus" / name)
    assert status == 0
    (read,) = store.read(tmp_path / "output" / "benchmark_rocm_llama.json")
    expected = truth("primus")[name]
    assert sum(read.step_times) == pytest.approx(expected["sum_step_time_s"]["sum"], abs=1e-3)
    assert (read.model, read.scale) == ("llama", "full")


BARE = "".join(
    f" iteration {n:8d}/      20 | consumed samples: {128 * n:12d} | elapsed time per iteration"
    f" (ms): {5000 + n}.1 | learning rate: 1.0E-05 | global batch size:   128 | lm loss:"
    f" {10 - n / 10:.6E} |\n"
    for n in range(1, 21)
)
"""Lines without the arguments that Megatron prints above them: the model is whatever the user says.
"""


@pytest.mark.parametrize("name", ["llama", "qwen", "mistral"])
def test_c16_bare_lines_with_the_name_of_a_family(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("train.log").write_text(BARE, encoding="utf-8")
    words = [
        "--log-file",
        "train.log",
        "--model-name",
        name,
        "--num-gpus",
        "8",
        "--sequence-length",
        "2048",
    ]
    assert run("extract-primus", words) == 0
    (path,) = Path("output").glob("*.json")
    (found,) = store.read(path)
    assert found.model == name
    assert models.find(found.model) in models.trained()
    out = capsys.readouterr().out
    assert f"the model ({name}) is from the command line" in out
    assert (
        f"{name} is taken for {models.find(name).title}: the log doesn't state the model's shape"
        in out
    )
    # Elsewhere a family's name alone doesn't say which of its models it is.
    assert run("read", ["train.log", "--model-name", name]) == 2
    assert "a family of models" in capsys.readouterr().err
