"""--quiet, --verbose and --json: every command has them, and they mean the same in each."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import itertools
import json
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import primus_tree
import pytest
from fake_framework import fake_framework
from made_runs import MI300X, make_run
from test_benchmark import CHILD, CPU
from test_find_logs import log, put

from tprimat import console, frameworks, units
from tprimat.cli import COMMANDS, _local_logs, run
from tprimat.console import Verbosity
from tprimat.errors import ExitStatus, UsageError
from tprimat.frameworks.nemo import convert as nemo_convert
from tprimat.frameworks.nemo import launch as nemo
from tprimat.frameworks.request import Launch
from tprimat.machine import gpu_processes, nvidia, platforms
from tprimat.machine.gpu import GpuProcess, GpuState
from tprimat.machine.platforms import Machine
from tprimat.report import json_values
from tprimat.results.run import Environment, GpuInfo, TrainingConfig
from tprimat.store import store
from tprimat.store.store import save_as

DATA = Path(__file__).resolve().parent.parent / "data"
NANO = "".join(
    f"iter {n}: loss {5 - n / 100:.4f}, time {500 + n}.00ms, mfu 30.00%\n" for n in range(30)
)
AMD = Machine(
    "amd",
    GpuInfo(device_name="AMD Instinct MI300X", device_count=8, total_memory_gb=206.1, software_stack="rocm",
            software_version="7.1.0", architecture="gfx942"),
    Environment(versions={"torch": "2.10.0"}, settings={"NCCL_DEBUG": "WARN"}),
)  # fmt: skip

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="the analysis tier has no torch"
)
needs_yaml = pytest.mark.skipif(
    importlib.util.find_spec("yaml") is None, reason="PyYAML isn't installed"
)
needs_bash = pytest.mark.skipif(os.name == "nt", reason="Primus' scripts need bash")
needs_users = pytest.mark.skipif(
    sys.platform == "win32", reason="there are no numbers of users there"
)


@pytest.mark.parametrize("command", COMMANDS)
class TestEveryCommand:
    def test_help_lists_all_three(self, command, capsys):
        with pytest.raises(SystemExit):
            run(command, ["--help"])
        shown = capsys.readouterr().out
        # Where there are many options, a line names those that every command has.
        assert {"--quiet", "--verbose", "--json"} <= set(shown.split())

    def test_quiet_and_verbose_exclude_each_other(self, command, capsys):
        assert run(command, ["--quiet", "--verbose"]) == ExitStatus.USAGE
        said = capsys.readouterr()
        assert said.out == ""
        line = said.err.rstrip()
        assert "--verbose: not allowed with argument --quiet" in line
        assert line.endswith("--help lists the options")


def test_the_encoder_decoder_has_them_too(capsys):
    assert run("benchmark", ["--model", "encdec", "--quiet", "--verbose"]) == ExitStatus.USAGE
    assert "not allowed with argument --quiet" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("benchmark", ["--model", "encdec", "--help"])
    shown = capsys.readouterr().out
    assert all(f"\n  {option} " in shown for option in ("--quiet", "--verbose", "--json"))


def benchmark(folder: Path, patch: pytest.MonkeyPatch, behaviour: str = "train") -> list[str]:
    patch.setattr(platforms, "detect", lambda *_: CPU)

    def command(request):
        return Launch((sys.executable, "-c", CHILD, behaviour, *request.to_arguments()), {}, folder)

    patch.setattr(frameworks, "FRAMEWORKS", (fake_framework(command=command),))
    return ["benchmark", "--model", "llama,qwen", "--steps", "10"]


def failing(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    return benchmark(folder, patch, "fail")


def dry_run(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    words = benchmark(folder, patch)
    settings = Environment(cpu_threads=2, settings={"OMP_NUM_THREADS": "2"})
    patch.setattr(platforms, "detect", lambda *_: Machine("cpu", CPU.gpu_info, settings))
    return [*words, "--dry-run"]


def found_logs(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    patch.setattr(platforms, "detect", lambda *_: AMD)
    patch.setattr(_local_logs, "REPOSITORY", folder / "clone")
    for name in ("LLAMA_LOG", "QWEN_LOG", "MISTRAL_LOG", "PRIMUS_PATH"):
        patch.delenv(name, raising=False)
    put(folder / "output" / "training_llama.log", log("llama", name="llama3.1_8B"))
    put(folder / "training_qwen.log", log("qwen", name="qwen2.5_7B"))
    return ["benchmark"]


def encdec(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    settings = Environment(cpu_threads=2, settings={"OMP_NUM_THREADS": "2"})
    patch.setattr(platforms, "detect", lambda *_: Machine("cpu", CPU.gpu_info, settings))
    return ["benchmark", "--model", "encdec", "--epochs", "1", "--dry-run"]


def results(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    output = folder / "output"
    save_as(make_run(framework="megatron"), output / "train_mega_llama.json")
    save_as(make_run(framework="deepspeed", step_time=3.0), output / "train_deep_llama.json")
    save_as(make_run(MI300X, stack="rocm", step_time=2.4), output / "train_amd_prim_llama.json")
    return output


def compare(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    output = results(folder, patch)
    # More settings than the ordinary summary lists.
    for batch in (16, 32, 128, 256, 512):
        save_as(make_run(batch=batch, label=f"b{batch}"), output / f"b{batch}.json")
    return ["compare", "--no-plot"]


def compare_frameworks(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    results(folder, patch)
    return ["compare-frameworks", "--no-plot"]


def nvd_compare(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    results(folder, patch)
    return ["nvd-compare"]


def enhanced_metrics(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    results(folder, patch)
    return ["enhanced-metrics"]


def convert(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    patch.setattr(nemo.LAUNCHER, "unavailable", lambda: None)
    patch.setattr(platforms, "detect", lambda *_: Machine("nvd", GpuInfo(), Environment()))
    patch.setattr(nemo_convert, "to_nemo", lambda *_, **__: print("NeMo speaks\nat length"))
    return ["convert", "--model", "llama", "import", "org/name", "new"]


def doctor(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    return ["doctor"]


def gpu_memory(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    found = (
        GpuProcess(7, "0", None, "python3", 12.5, "me", f"python3 train.py {'x' * 80}"),
        GpuProcess(8, "1"),
    )
    patch.setattr(gpu_processes, "list_processes", lambda host: found)
    patch.setattr(gpu_processes, "can_terminate", lambda process, host: process.pid == 7)
    states = (GpuState(0, "NVIDIA H200", 139.8, 12.6), GpuState(1, "NVIDIA H200", 139.8))
    patch.setattr(nvidia, "states", lambda host: states)
    return ["gpu-memory"]


def primus(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    for name in (
        "PRIMUS_CONFIG",
        "TRAIN_ITERS",
        "RUNS",
        "NNODES",
        "NODE_RANK",
        "GPUS_PER_NODE",
        "HF_HOME",
    ):
        patch.delenv(name, raising=False)
    tree = primus_tree.make(folder / "Primus")
    for name, value in primus_tree.environment(folder, tree).items():
        patch.setenv(name, value)
    patch.setattr(platforms, "detect", lambda *_: AMD)
    patch.setattr("tprimat.measure.plan.COOLDOWN_ON_GPU", 0.0)
    return tree


def primus_config(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    primus(folder, patch)
    return ["primus-config", "--gpus", "8"]


def primus_against(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    primus(folder, patch)
    theirs = make_run(
        training_config=TrainingConfig(num_gpus=8, precision="fp8", global_batch_size=128)
    )
    return [
        "primus-config",
        "--gpus",
        "8",
        "--against",
        str(store.save(theirs, folder / "theirs").path),
    ]


def run_primus(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    primus(folder, patch)
    return ["run-primus", "--model", "llama", "--train-iters", "12"]


def run_primus_dry(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    return [*run_primus(folder, patch), "--dry-run"]


def extract_primus(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    return ["extract-primus", "--log-file", str(DATA / "logs" / "primus_core_doubled.log")]


def read(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    for number in range(5):
        put(
            folder / "logs" / f"run{number}" / "log.txt",
            NANO.replace("time 5", f"time {number + 1}5"),
        )
        put(folder / "logs" / f"notes{number}.txt", "it went well\n")
    return ["read", "logs"]


def read_one(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    put(folder / "train.log", NANO)
    return ["read", "train.log"]


CASES = [
    benchmark,
    dry_run,
    found_logs,
    pytest.param(encdec, marks=needs_torch),
    compare,
    compare_frameworks,
    nvd_compare,
    enhanced_metrics,
    convert,
    doctor,
    pytest.param(gpu_memory, marks=needs_users),
    pytest.param(primus_config, marks=needs_yaml),
    pytest.param(primus_against, marks=needs_yaml),
    pytest.param(run_primus, marks=[needs_yaml, needs_bash]),
    pytest.param(run_primus_dry, marks=[needs_yaml, needs_bash]),
    extract_primus,
    read,
    read_one,
]


@dataclasses.dataclass(frozen=True)
class Said:
    """What a call has printed, with its exit status and directory."""

    status: int
    out: str
    err: str
    folder: Path


def called(
    case: Callable[[Path, pytest.MonkeyPatch], list[str]], folder: Path, *options: str
) -> Said:
    """Runs a case in a directory, which is made."""
    folder.mkdir(exist_ok=True)
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        command, *words = case(folder, patch)
        status = run(command, [*words, *options])
    return Said(status, out.getvalue(), err.getvalue(), folder)


@pytest.fixture
def call(tmp_path):
    """Runs a case in a directory of its own: call(case, "--quiet")."""
    folders = (tmp_path / f"call{number}" for number in itertools.count())
    return lambda case, *options: called(case, next(folders), *options)


@pytest.fixture(scope="module", params=CASES)
def amounts(request, tmp_path_factory) -> dict[str, Said]:
    """What a case prints with each option, and without any."""
    folder = tmp_path_factory.mktemp("amounts")
    return {
        option: called(request.param, folder / f"in{option}", *option.split())
        for option in ("", "--quiet", "--verbose", "--json")
    }


class TestAmounts:
    def test_the_exit_status_is_the_same(self, amounts):
        assert len({said.status for said in amounts.values()}) == 1

    def test_json_is_one_document(self, amounts):
        document = json.loads(amounts["--json"].out)
        assert document.get("status", amounts[""].status) == amounts[""].status

    def test_quiet_is_less(self, amounts):
        # A dry run shows similar commands by what differs; alone, for a shell, each of them is
        # whole.
        other = amounts["--verbose" if "Nothing was run." in amounts[""].out else ""]
        assert 0 < len(amounts["--quiet"].out.splitlines()) < len(other.out.splitlines())

    def test_verbose_is_more(self, amounts):
        usual, verbose = amounts[""].out.splitlines(), amounts["--verbose"].out.splitlines()
        assert len(verbose) >= len(usual)
        assert set(verbose) - set(usual)

    def test_results_are_told_by_their_paths(self, amounts):
        document = json.loads(amounts["--json"].out)
        found = [each for each in document.get("results", ()) if "path" in each]
        if not found:
            pytest.skip("this writes no results")
        assert list(document)[-2:] == ["notes", "status"]
        for each in found:
            recorded = store.read(amounts["--json"].folder / each["path"])[-1]
            assert (each["status"], each["framework"]) == (recorded.status, recorded.framework)
            assert each["performance_metrics"]["avg_step_time_seconds"] > 0
            assert isinstance(each["warnings"], list)
        paths = amounts["--quiet"].out.splitlines()
        assert sorted(paths) == sorted({each["path"] for each in found})
        assert all(store.read(amounts["--quiet"].folder / path) for path in paths)


class TestBenchmark:
    def test_a_training_that_failed_is_among_the_results(self, call):
        said = call(failing, "--json")
        document = json.loads(said.out)
        assert said.status == document["status"] == ExitStatus.TRAINING_FAILED
        assert [
            (each["model"], each["status"], each["path"] is None) for each in document["results"]
        ] == [
            ("llama", "failed", True),
            ("qwen", "complete", False),
        ]
        assert "exited with status 1" in document["results"][0]["reason"]
        assert "error: [1/2] llama fp32" in said.err

    def test_quiet_keeps_errors(self, call):
        said = call(failing, "--quiet")
        assert said.status == ExitStatus.TRAINING_FAILED
        assert said.out == f"{Path('output', 'benchmark_cpu_qwen.json')}\n"
        assert "error: [1/2] llama fp32" in said.err
        assert "note:" not in said.err

    def test_verbose_has_the_commands_that_are_started(self, call):
        lines = call(benchmark, "--verbose").out.splitlines()
        commands = [line for line in lines if line.startswith("command: cd ")]
        assert len(commands) == 2
        assert all("PYTHONPATH=" in line for line in commands)

    def test_a_dry_run_for_a_program(self, call):
        document = json.loads(call(dry_run, "--json").out)
        assert document["results"] == []
        assert [each["model"] for each in document["commands"]] == ["llama", "qwen"]
        assert document["commands"][0]["result"] == str(Path("output", "benchmark_cpu_llama.json"))

    @pytest.mark.parametrize("option", ["--quiet", "--json"])
    def test_several_frameworks_are_compared_in_the_same_amount(self, call, option):
        def several(folder, patch):
            words = benchmark(folder, patch)
            (one,) = frameworks.FRAMEWORKS
            patch.setattr(
                frameworks, "FRAMEWORKS", (one, fake_framework("transformers", one.launcher.launch))
            )
            return [*words[:2], "llama", *words[3:], "--framework", "all"]

        said = call(several, option)
        assert said.status == 0, said.err
        if option == "--json":
            document = json.loads(said.out)
            assert {each["framework"] for each in document["results"]} == {
                "lightning",
                "transformers",
            }
            assert document["comparison"]["models"]
        else:
            assert len([line for line in said.out.splitlines() if line.endswith(".json")]) == 2
            assert "Next:" not in said.out


@pytest.mark.slow
@needs_torch
def test_the_encoder_decoder_for_a_program(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sizes = [
        "--d-model=16",
        "--nhead=2",
        "--num-encoder-layers=1",
        "--num-decoder-layers=1",
        "--vocab-size=50",
    ]
    sizes += [
        "--dim-feedforward=32",
        "--seq-len=8",
        "--batch-size=4",
        "--num-samples=40",
        "--epochs=1",
    ]
    assert run("benchmark", [*sizes, "--gpus=1", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["results"]
    assert (found["model"], found["status"]) == ("encdec", "complete")
    assert found["native_metrics"]["samples_per_second"] > 0
    assert Path(found["path"]).is_file()


class TestReading:
    def test_what_was_passed_over_is_all_there(self, call):
        names = [f"notes{number}.txt" for number in range(5)]
        assert "and 1 more" in call(read).out
        verbose = call(read, "--verbose").out
        assert all(name in verbose for name in names)
        passed = json.loads(call(read, "--json").out)["passed_over"]
        assert [Path(each["path"]).name for each in passed] == names
        assert all(each["reason"] for each in passed)

    def test_nothing_found_is_a_document_too(self, call):
        def nothing(folder, patch):
            put(folder / "logs" / "notes.txt", "it went well\n")
            return ["read", "logs"]

        said = call(nothing, "--json")
        document = json.loads(said.out)
        assert said.status == document["status"] == ExitStatus.USAGE
        assert document["results"] == []
        assert "no training log found" in said.err

    def test_quiet_warns_of_a_training_that_did_not_end_well(self, call):
        def cut(folder, patch):
            text = (DATA / "logs" / "primus_core_doubled.log").read_text()
            (folder / "cut.log").write_text(text[: text.index("iteration       20/")])
            return ["extract-primus", "--log-file", "cut.log"]

        said = call(cut, "--quiet")
        assert (said.status, len(said.out.splitlines())) == (0, 1)
        assert said.err.startswith("warning: cut.log: incomplete: ")

    def test_what_was_written_is_said_though_another_step_failed(self, call):
        def unwritable(folder, patch):
            (folder / "file").write_text("")
            return [*extract_primus(folder, patch), "--bundle", "file/below.zip"]

        said = call(unwritable, "--json")
        document = json.loads(said.out)
        assert document["status"] == said.status == ExitStatus.USAGE
        assert len(document["results"]) == 1
        assert "choose another --bundle" in said.err


class TestOthers:
    def test_converting_leaves_out_what_nemo_says(self, call):
        assert call(convert, "--quiet").out == "new\n"
        said = call(convert, "--json")
        document = json.loads(said.out)
        assert (document["source"], Path(document["target"]).name) == ("hf://org/name", "new")
        assert document["command"] == "tprimat convert --model llama import org/name new --json"
        assert "NeMo speaks" in said.err

    @needs_users
    def test_processes_for_a_program(self, call):
        document = json.loads(call(gpu_memory, "--json").out)
        first, second = document["processes"]
        assert (first["pid"], first["memory_gb"], first["may_be_ended"]) == (7, 12.5, True)
        assert (second["pid"], second["may_be_ended"]) == (8, False)
        used = [
            (each["index"], each["memory_used_gb"], each["memory_total_gb"])
            for each in document["gpus"]
        ]
        assert used == [(0, 12.6, 139.8), (1, None, 139.8)]

    @needs_users
    def test_memory_of_each_gpu(self, call):
        lines = call(gpu_memory).out.splitlines()
        assert lines[0].split() == ["GPU", "name", "used", "total"]
        assert lines[1].split() == ["0", "NVIDIA", "H200", "12.60", "GB", "139.80", "GB"]
        assert lines[2].split() == ["1", "NVIDIA", "H200", units.UNKNOWN, "139.80", "GB"]

    @needs_yaml
    def test_settings_and_differences_for_a_program(self, call):
        said = call(primus_against, "--json")
        document = json.loads(said.out)
        assert said.status == document["status"] == ExitStatus.NOT_COMPARABLE
        assert document["settings"]["global_batch_size"]["value"] == 128
        assert (
            "llama3.1_8B-BF16-pretrain.yaml" in document["settings"]["global_batch_size"]["set_by"]
        )
        assert {"name": "precision", "here": "bf16", "there": "fp8"} in document["differences"]

    @needs_yaml
    @needs_bash
    def test_what_primus_prints_is_left_out(self, call):
        assert "elapsed time per iteration" in call(run_primus).out
        assert "elapsed time per iteration" not in call(run_primus, "--quiet").out
        verbose = call(run_primus, "--verbose").out
        assert "command: cd " in verbose
        assert "setting: NCCL_DEBUG WARN" in verbose


class TestTelling:
    def test_each_function_has_its_amounts(self, capsys):
        spoken = {}
        for amount in Verbosity:
            with console.capture_output(amount, lambda: json_values) as output:
                print("somebody else")
                console.info("told")
                console.debug("detail")
                console.summary("essence")
                console.warn("wrong")
                output.finish(0)
            said = capsys.readouterr()
            spoken[amount] = said.out.splitlines(), said.err.splitlines()
        assert spoken[Verbosity.NORMAL] == (["somebody else", "told"], [])
        assert spoken[Verbosity.VERBOSE] == (["somebody else", "told", "detail"], [])
        assert spoken[Verbosity.QUIET] == (["essence"], ["warning: wrong"])
        out, err = spoken[Verbosity.JSON]
        assert json.loads("\n".join(out)) == {"notes": [], "status": 0}
        assert err == ["somebody else"]

    def test_an_error_before_any_result_leaves_the_output_empty(self, capsys):
        with (
            pytest.raises(UsageError),
            console.capture_output(Verbosity.JSON, lambda: json_values, results=[]),
        ):
            raise UsageError("no: do", heading="wrong-usage")
        assert capsys.readouterr() == ("", "")
