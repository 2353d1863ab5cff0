"""compare with logs in the place of results: files, directories, patterns, bundles, names, and what
can't be read.
"""

from __future__ import annotations

import datetime
import io
import json
import shlex
import shutil
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from made_runs import make_run

import tprimat
from tprimat.cli import run
from tprimat.errors import ExitStatus
from tprimat.log_import import bundle, extract
from tprimat.results.run import Environment, GpuInfo, Source
from tprimat.store.store import save


def titan(
    gpu: str, gib: float, tps: float, steps: int = 30, *, sequence_length: int | None = 2048
) -> str:
    """Return a log as torchtitan prints it."""
    length = f"sequence length {sequence_length}, " if sequence_length else ""
    lines = [
        (
            "[rank-0/8][titan] 2026-01-01 00:00:00,000 - root - INFO - Starting job: Llama 3 8B"
            " training"
        ),
        (
            f"[rank-0/8][titan] 2026-01-01 00:00:01,000 - root - INFO - GPU capacity: {gpu} with"
            f" {gib}GiB memory"
        ),
        "[rank-0/8][titan] INFO - Model llama3 8B size: 8,030,261,248 total parameters",
        (
            "[rank-0/8][titan] 2026-01-01 00:00:03,000 - root - INFO - Trainer is initialized with"
            " local batch size 2, global batch size 16, gradient accumulation steps 1,"
            f" {length}total steps {steps}"
        ),
    ]
    # Of 4,096 tokens per step and GPU.
    start = datetime.datetime(2026, 1, 1, 0, 1)
    lines += [
        "[rank-0/8][titan]"
        f" {start + datetime.timedelta(seconds=n * 4096 / tps):%Y-%m-%d %H:%M:%S,%f} - root - INFO"
        f" - step: {n:2}  loss: {12 - n / 10 + tps / 9999:.4f}  grad_norm: 1.5  memory:"
        f" 31.0GiB(25%)  tps: {tps + n % 3:,.0f}  tflops: 300.0  mfu: 30%"
        for n in range(1, steps + 1)
    ]
    return "\n".join(lines) + "\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with an NVIDIA and an AMD log."""
    monkeypatch.chdir(tmp_path)
    Path("nv.log").write_text(titan("NVIDIA H100 80GB HBM3", 79.1, 7000))
    Path("amd.log").write_text(titan("AMD Instinct MI300X", 191.98, 8400))
    return tmp_path


ANSWER = "8×MI300X is 20% faster per GPU than 8×H100"


def compared(capsys, *arguments: str) -> tuple[int, str, str]:
    status = run("compare", [*arguments, "--no-plot"])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_two_logs_in_one_command(here, capsys):
    status, out, err = compared(capsys, "nv.log", "amd.log")
    assert (status, err) == (ExitStatus.OK, "")
    assert ANSWER in out
    assert sorted(path.name for path in (here / "output").iterdir()) == [
        "comparison_report.html",
        "comparison_report.md",
    ]


def test_a_pattern_and_a_folder_that_the_shell_left(here, capsys):
    (here / "logs").mkdir()
    (here / "amd.log").rename(here / "logs" / "amd.log")
    assert ANSWER in compared(capsys, "nv*.log", "logs")[1]


def test_a_log_and_a_result(here, capsys):
    save(make_run(step_time=2.4), here / "results")
    status, out, _ = compared(capsys, "results", "amd.log")
    assert status == ExitStatus.OK
    assert "8×MI300X" in out
    assert "8×H100" in out


def test_from_the_standard_input(here, capsys, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(Path("amd.log").read_bytes()))
    monkeypatch.setattr("sys.stdin", stream)
    assert ANSWER in compared(capsys, "-", "nv.log")[1]


class TestNames:
    def test_keep_two_folders_of_one_machine_apart(self, here, capsys):
        for folder, speed in (("yesterday", 7000), ("today", 7700)):
            (here / folder).mkdir()
            for number in range(2):
                text = titan("NVIDIA H100 80GB HBM3", 79.1, speed + 100 * number)
                (here / folder / f"{number}.log").write_text(text)
        status, out, _ = compared(capsys, "old=yesterday/*.log", "new=today/")
        assert status == ExitStatus.OK
        assert "new is 9.9% faster per GPU than old" in out
        assert "2 runs each" in out

    def test_of_results(self, here, capsys):
        save(make_run(step_time=2.0), here / "a")
        save(make_run(step_time=2.5), here / "b")
        assert "new is 25% faster per GPU than old" in compared(capsys, "new=a", "old=b")[1]

    def test_a_file_with_such_a_name_is_that_file(self, here, capsys):
        (here / "lr=1").mkdir()
        (here / "amd.log").rename(here / "lr=1" / "amd.log")
        (here / "nv.log").rename(here / "seed=2.log")
        assert ANSWER in compared(capsys, "lr=1/amd.log", "seed=2.log")[1]


class TestErrors:
    def test_the_rest_is_compared_and_the_status_says_so(self, here, capsys):
        Path("notes.txt").write_text("nothing\n")
        Path("cut.json").write_text('{"schema_version": 1, "steps": [')
        status, out, err = compared(
            capsys, "nv.log", "none.log", "amd.log", "notes.txt", "cut.json", "no*.csv", ""
        )
        assert status == ExitStatus.USAGE
        assert ANSWER in out
        for line in (
            "error: none.log: no such file",
            "error: notes.txt: no supported training log in it",
            "error: cut.json: not valid JSON",
            "error: no*.csv: no file matches this pattern",
            'error: "": the name is empty',
        ):
            assert line in err
        assert "not read: none.log: no such file" in Path("output/comparison_report.md").read_text(
            encoding="utf-8"
        )

    def test_in_json(self, here, capsys):
        status, out, _ = compared(capsys, "nv.log", "amd.log", "none.log", "--json")
        assert (status, json.loads(out)["status"]) == (ExitStatus.USAGE, ExitStatus.USAGE)

    def test_all_of_several_are_named(self, here, capsys):
        status, out, err = compared(capsys, "none.log", "neither.log")
        assert (status, out) == (ExitStatus.USAGE, "")
        assert err.count("error: ") == 2

    def test_reading_goes_on_too(self, here, capsys):
        assert run("read", ["none.log", "nv.log", "--quiet"]) == ExitStatus.USAGE
        said = capsys.readouterr()
        assert said.out.count(".json") == 1
        assert "none.log: no such file" in said.err


class TestBundles:
    @pytest.mark.parametrize("name", ["b.tar.gz", "b.tgz", "b.zip"])
    def test_are_compared_as_they_come(self, here, capsys, name):
        result = save(make_run(step_time=2.4), here / "results").path
        bundle.write(here / name, [result], [here / "nv.log"])
        status, out, _ = compared(capsys, name, "amd.log")
        assert status == ExitStatus.OK
        assert "8×H100" in out
        assert f"{name}/b/results/" in Path("output/comparison_report.md").read_text(
            encoding="utf-8"
        )

    @pytest.mark.parametrize("secret", ["", "HF_TOKEN=hf_abcdefghijklmnop1234567890\n"])
    def test_a_log_that_a_result_was_made_of_is_the_same_run(self, here, secret):
        """What the user gave for the log is in the result alone, so that the log would be another
        system.
        """
        log = here / "nv.log"
        log.write_text(secret + log.read_text())
        assert (
            run(
                "read",
                [
                    "nv.log",
                    "--output-dir",
                    "results",
                    "--model-name",
                    "qwen",
                    "--override",
                    "--quiet",
                ],
            )
            == 0
        )
        (result,) = (here / "results").glob("*.json")
        bundle.write(here / "b.zip", [result], [log])
        for names in (["b.zip"], ["results", "nv.log"], ["nv.log", str(result)]):
            (found,) = tprimat.load(*names)
            assert found.source.files[0].path.endswith("nv.log"), names
            assert found.model == "qwen"

    def test_a_log_that_no_result_was_made_of_is_a_run_of_its_own(self, here):
        assert run("read", ["nv.log", "--output-dir", "results", "--quiet"]) == 0
        (result,) = (here / "results").glob("*.json")
        bundle.write(here / "b.zip", [result], [here / "nv.log", here / "amd.log"])
        for names in (["b.zip"], ["results", "amd.log"]):
            assert len(tprimat.load(*names)) == 2
        # Of the same steps, but other content.
        (here / "nv.log").write_text((here / "nv.log").read_text().replace("7,", "8,"))
        assert len(tprimat.load("results", "nv.log")) == 2

    def test_the_list_of_files_is_no_log(self, here):
        with zipfile.ZipFile("logs.zip", "w") as archive:
            archive.write("nv.log", "b/logs/nv.log")
            archive.write("amd.log", "b/README.txt")
        assert len(tprimat.load("logs.zip")) == 1

    def test_of_logs_alone(self, here, capsys):
        with zipfile.ZipFile("logs.zip", "w") as archive:
            archive.write("nv.log", "logs/nv.log")
        (run,) = tprimat.load("nvidia=logs.zip")
        assert run.source.files[0].path == str(Path("logs.zip", "logs", "nv.log"))
        assert run.label == "nvidia"

    def test_nothing_is_written_beside(self, here, capsys):
        with tarfile.open("evil.tar.gz", "w:gz") as archive:
            for name in ("../../evil.log", "/tmp/evil.log"):
                archive.add("nv.log", name)
            link = tarfile.TarInfo("link.log")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
        before = set(here.parent.rglob("*"))
        assert {len(run.steps) for run in tprimat.load("evil.tar.gz")} == {30}
        assert set(here.parent.rglob("*")) == before

    @pytest.mark.parametrize("name", ["b.tar.gz", "b.zip"])
    def test_a_broken_one_and_a_bomb(self, here, capsys, name, monkeypatch):
        Path(name).write_bytes(b"PK\x03\x04 or not")
        assert f"error: {name}: not a readable archive" in compared(capsys, name, "nv.log")[2]
        monkeypatch.setattr(bundle, "UNPACKED_FREELY", 1000)
        Path("big.log").write_bytes(b"\0" * (4 << 20))
        with (
            tarfile.open(name, "w:gz")
            if "tar" in name
            else zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED)
        ) as packed:
            (packed.add if "tar" in name else packed.write)("big.log")
        assert f"error: {name}: unpacks to more than" in compared(capsys, name, "nv.log")[2]


class TestWhatALogLeavesOpen:
    @pytest.fixture
    def open_logs(self, here):
        """Two logs that name no GPU, and state no sequence length."""
        for name in ("nv.log", "amd.log"):
            text = titan("GPU", 1, 7000 if name == "nv.log" else 8400, sequence_length=None)
            lines = [line for line in text.splitlines() if "capacity" not in line]
            Path(name).write_text("\n".join(lines) + "\n")

    def test_for_all_logs_and_for_one(self, open_logs, capsys):
        values = [
            "--gpu",
            "nv.log=H100",
            "--gpu",
            "MI300X",
            "--sequence-length",
            "2048",
            "--num-gpus",
            "8",
        ]
        status, out, err = compared(capsys, "nv.log", "amd.log", *values)
        assert (status, err) == (ExitStatus.OK, "")
        assert "8×MI300X is 20% faster per GPU than 8×H100" in out

    def test_for_a_named_system(self, open_logs, capsys):
        values = ["--gpu", "b=MI300X", "--gpu", "a=H100", "--sequence-length", "2048"]
        assert "is 20% faster per GPU than" in compared(capsys, "a=nv.log", "b=amd.log", *values)[1]

    def test_for_no_log(self, open_logs, capsys):
        status, _, err = compared(capsys, "nv.log", "amd.log", "--gpu", "none.log=H100")
        assert status == ExitStatus.USAGE
        assert "error: --gpu: no log has 'none.log' in its path" in err

    def test_a_contradiction_is_an_error_of_that_log(self, here, capsys):
        status, out, err = compared(capsys, "nv.log", "amd.log", "--gpu", "H100")
        assert status == ExitStatus.USAGE
        assert "error: amd.log: " in err
        assert "Only one system found" in out

    @pytest.mark.parametrize(
        ("value", "used"),
        [
            ("--gpu=H100", True),
            ("--gpu=H1000", False),
            ("--gpu=cuda=H100", True),
            ("--gpu=cuda=H1000", False),
            ("--num-gpus=8", True),
            ("--num-gpus=9", False),
        ],
    )
    def test_one_that_no_result_needs_is_said(self, here, capsys, value, used):
        save(make_run(), here / "output")
        status, _, err = compared(capsys, "output", value)
        if used:
            assert (status, err) == (ExitStatus.OK, "")
            return
        assert status == ExitStatus.USAGE
        assert (
            f"error: {value.replace('=', ' ', 1)} is not used: each result or log states the "
            in err
        )
        assert "hint:  remove the option" in err

    def test_with_override(self, here, capsys):
        assert (
            "8×MI355X is 20%"
            in compared(capsys, "nv.log", "amd.log", "--gpu", "amd=MI355X", "--override")[1]
        )

    def test_efficiency_takes_them_too(self, open_logs, capsys):
        assert (
            run(
                "efficiency",
                ["amd.log", "--gpu", "amd.log=MI300X", "--cost", "MI300X=2", "--quiet"],
            )
            == ExitStatus.OK
        )
        out, err = capsys.readouterr()
        assert "MI300X" in out
        assert err == ""

    def test_of_a_result_of_the_oldest_tool(self, here, capsys):
        save(make_run(model=None), here / "output")
        (run_found,) = tprimat.load("output")
        assert run_found.model is None
        assert "Llama 3.1 8B" in compared(capsys, "output", "--model-name", "llama-3.1-8b")[1]

    @pytest.mark.parametrize(
        "command", [["read", "amd.log"], ["extract-primus", "--log-file", "amd.log"]]
    )
    def test_the_same_options_when_importing(self, open_logs, capsys, command):
        values = [
            "--gpu",
            "MI300X",
            "--precision",
            "bf16",
            "--sequence-length",
            "2048",
            "--output-dir",
            "results",
        ]
        assert run(command[0], [*command[1:], *values]) == ExitStatus.OK
        (found,) = tprimat.load("results")
        assert found.gpu_info.device_name == "MI300X"
        assert (found.platform, found.gpu_info.software_stack) == ("amd", "rocm")
        assert (found.training_config.precision, found.training_config.sequence_length) == (
            "bf16",
            2048,
        )
        assert any(
            "the GPU (MI300X) is from the command line" in warning for warning in found.warnings
        )

    def test_reading_without_a_log_takes_what_is_here(self, here, capsys):
        Path("nv.log").rename("training_llama.log")
        Path("amd.log").unlink()
        assert run("read", ["--quiet"]) == ExitStatus.OK
        assert capsys.readouterr().out.count(".json") == 1


class TestUnnamedGpus:
    def a_run(self, gib, **changes):
        info = GpuInfo(device_count=8, total_memory_gb=gib * 1.073741824, software_stack="rocm")
        return make_run(platform="amd", gpu_info=info, **changes)

    @pytest.mark.parametrize(
        ("gib", "name"), [(255.98, "MI325X"), (191.98, None), (287.98, None), (100.0, None)]
    )
    def test_by_the_memory_where_one_has_so_much(self, gib, name):
        found = extract.with_inferred_gpu(self.a_run(gib))
        assert found.gpu_info.device_name == name
        told = [warning for warning in found.warnings if "MI325X" in warning]
        assert told == (
            ["GPU MI325X: from its memory of 256 GiB; the log doesn't name it"] if name else []
        )

    @pytest.mark.parametrize(
        ("host", "devices", "name"), [("here", 2, "AMD Instinct MI300X"), ("there", 2, None)]
    )
    def test_of_this_machine_where_the_log_was_written_here(self, monkeypatch, host, devices, name):
        device = SimpleNamespace(info=GpuInfo(device_name="AMD Instinct MI300X"))
        monkeypatch.setattr(extract.socket, "gethostname", lambda: "here.cluster")
        monkeypatch.setattr(
            extract.platforms, "detect", lambda torch: SimpleNamespace(devices=(device,) * devices)
        )
        run_found = self.a_run(191.98, environment=Environment(hostname=host))
        assert extract.with_inferred_gpu(run_found).gpu_info.device_name == name


BARE = (
    "[rank0]:[titan] 2026-01-01 00:00:{n:02} - root - INFO - step: {n:2}  loss: 9.1  memory:"
    " 31.0GiB(25%)  tps: {tps:,}"
)


def test_a_log_that_states_nothing_is_told_the_options_and_compared_with_them(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for name, tps in (("old.log", 7000), ("new.log", 8400)):
        # Written at once: the stamps say nothing of the steps.
        at_once = BARE.replace("00:00:{n:02}", "00:00:00")
        Path(name).write_text(
            "".join(at_once.format(n=n, tps=tps + n % 3) + "\n" for n in range(1, 31))
        )
    status, out, _ = compared(capsys, "old=old.log", "new=new.log")
    assert status == ExitStatus.NOT_COMPARABLE
    hint = "--model-name NAME --num-gpus N --global-batch-size N --sequence-length N"
    assert hint in " ".join(out.split())
    options = (
        hint.replace("NAME", "llama3_8b").replace("-gpus N", "-gpus 8").replace("size N", "size 16")
    )
    status, out, _ = compared(
        capsys, "old=old.log", "new=new.log", *options.replace("length N", "length 2048").split()
    )
    assert (status, "new is 20% faster per GPU than old" in out) == (ExitStatus.OK, True)
    # With a model alone, the printed rates are compared.
    named = ("old=old.log", "new=new.log", "--model-name", "llama3_8b")
    status, out, _ = compared(capsys, *named)
    assert (status, "new is 20% faster per GPU than old" in out) == (ExitStatus.OK, True)
    assert "tokens/s/GPU are printed by the source" in out


LEFT = ["logs/benchmark_rocm_llama_20261126_095724.log", "profile/benchmark_rocm_llama_20261126_095724.trace.json.gz",
        "profile/benchmark_rocm_llama_20261126_095724_2.memory.pickle", "primus/amd/train.log",
        "slurm/job/slurm.log"]  # fmt: skip


def with_logs(folder, logs, **fields):
    """Save a measured result in a directory, with copies of a log."""
    for log in logs:
        Path(folder, log).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(log if Path(log).exists() else "amd.log", Path(folder, log))
    save(make_run(source=Source(kind="live"), **fields), Path(folder))


@pytest.mark.parametrize(
    ("logs", "count"), [([], 0), (["nv.log"], 1), (["nv.log", "amd.log"], 2), (LEFT[:3], 0)]
)
def test_logs_next_to_a_result_of_a_training_script_are_counted_and_the_last_line_compares_them(
    here, capsys, logs, count
):
    with_logs("all", logs)
    _, out, err = compared(capsys, "all")
    assert "Only one system found" in out
    if not count:
        assert not err
        return
    assert (
        f"{count} file{'s' * (count > 1)} skipped, possibly logs of a training script with results"
        " here" in " ".join(err.split())
    )
    words = shlex.split(err.split("tprimat compare ")[1])
    assert words == ["all", "all/*.log"]
    assert "Only one system found" not in compared(capsys, *words)[1]


def test_logs_next_to_results_of_benchmark_are_compared_with_them_but_not_what_its_runs_left(
    here, capsys
):
    with_logs("all", LEFT, session="a", round=1)
    status, out, err = compared(capsys, "all")
    assert "Only one system found" in out
    assert not err
    for log in ("nv.log", "amd.log"):
        shutil.copy(log, Path("all", log))
    status, out, err = compared(capsys, "all")
    assert (status, err) == (ExitStatus.OK, "")
    assert ANSWER in out


def test_linked_directories_are_read_once(here, capsys):
    Path("far", "deep").mkdir(parents=True)
    for log in ("nv.log", "amd.log"):
        Path(log).rename(Path("far", "deep" if log == "nv.log" else "", log))
    Path("all").mkdir()
    for name, target in {"a": "far/deep", "b": "far", "c": "all", "d": ".", "e": "nowhere"}.items():
        Path("all", name).symlink_to(Path(target).absolute())
    Path("far", "back").symlink_to(Path("far").absolute())
    status, out, err = compared(capsys, "all")
    assert (status, err) == (ExitStatus.OK, "")
    assert ANSWER in out
    assert "1 run each" in out


def headline(capsys, *names):
    _, out, err = compared(capsys, *names)
    assert "not read" not in err
    return next(line for line in out.splitlines() if "8×MI300X is" in line)


def test_logs_beside_other_results_are_read_but_not_those_that_these_were_made_of(here, capsys):
    assert run("read", ["amd.log"]) == 0
    (made,) = Path("output").glob("*.json")
    Path("all").mkdir()
    alone = headline(capsys, "amd.log", "nv.log")
    made.rename(Path("all", made.name))
    for log in ("amd.log", "nv.log"):
        Path(log).rename(Path("all", log))
    assert headline(capsys, "all") == alone
    shutil.copy(Path("all", "amd.log"), Path("all", "copy.log"))
    assert headline(capsys, "all") == alone


def test_a_log_without_a_model_beside_one_with_a_model(here, capsys):
    Path("bare.log").write_text("".join(BARE.format(n=n, tps=7000) + "\n" for n in range(1, 31)))
    out = compared(capsys, "nv.log", "bare.log")[1]
    assert "--model-name NAME" in out
    assert len(out.splitlines()) <= 24


def test_a_directory_named_after_a_model_names_it_where_the_log_does_not(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for name, tps in (
        ("amd-logs/llama/train.log", 8400),
        ("nvi-logs/llama3_1_8b_pretrain_fp8/train.log", 7000),
    ):
        Path(name).parent.mkdir(parents=True)
        Path(name).write_text(
            "".join(BARE.format(n=n, tps=tps + n % 3) + "\n" for n in range(1, 31))
        )
    sizes = ["--num-gpus", "8", "--global-batch-size", "16", "--sequence-length", "2048"]
    status, out, _ = compared(capsys, "AMD=amd-logs", "NVIDIA=nvi-logs", *sizes)
    assert status == ExitStatus.OK, out
    assert out.startswith("Llama 3.1 8B")
    assert "i model from the name of the log's directory, not the log" in out
    # What the user or the log says comes first; a name that means no model is none.
    assert compared(capsys, "amd-logs", "nvi-logs", *sizes, "--model-name", "qwen-2.5-7b")[
        1
    ].startswith("Qwen 2.5 7B")
    Path("own_70b").mkdir()
    Path("amd-logs/llama/train.log").rename("own_70b/train.log")
    assert tprimat.read_log("own_70b/train.log").runs[0].model is None
    Path("qwen").mkdir()
    Path("qwen/train.log").write_text(titan("NVIDIA H100 80GB HBM3", 79.1, 7000))
    assert tprimat.load("qwen/train.log").runs[0].model == "llama"


def own_loop(seconds: float) -> str:
    """Return a log of no known format."""
    lines = (
        f"at {step} nll {5 - step / 20} after {seconds:.3f} s, {16384 / seconds:.1f} tok/s"
        for step in range(1, 21)
    )
    return "\n".join(lines) + "\n"


PATTERN = "at {step} nll {loss} after {time} s, {tokens_per_second} tok/s"


@pytest.mark.parametrize("options", [("--pattern", PATTERN), ("--columns", "step=n,time=s")])
def test_logs_of_no_known_format_are_compared_by_what_the_user_says_of_them(here, capsys, options):
    """As `read` does, before two results are compared."""
    for name, seconds in (("a", 0.5), ("b", 0.4)):
        rows = "".join(f"{step},{seconds}\n" for step in range(1, 21))
        content = own_loop(seconds) if options[0] == "--pattern" else f"n,s\n{rows}"
        Path(f"{name}.txt").write_text(content)
    given = ("--model-name", "own", "--num-gpus", "8", *(
        () if options[0] == "--pattern" else ("--global-batch-size", "16", "--sequence-length", "1024")
    ))  # fmt: skip
    status, out, _ = compared(capsys, "a.txt", "b.txt", *options, *given)
    assert status == 0
    assert "25% faster" in out
    assert compared(capsys, "--baseline", "a.txt", "--candidate", "b.txt", *options, *given)[0] == 0


def test_one_option_says_where_the_values_of_a_log_are(here, capsys):
    status, _, err = compared(capsys, "nv.log", "--pattern", PATTERN, "--columns", "step=n,time=s")
    assert status == ExitStatus.USAGE
    assert "--columns is for tables, --pattern for text logs: use one of them" in err


def test_two_trainings_of_one_text_have_their_headings_with_a_pattern_too(here, capsys):
    text = f"# Before\n\n{own_loop(0.5)}\n# After\n\n{own_loop(0.4)}"
    Path("page.md").write_text(text)
    given = ("--pattern", PATTERN, "--model-name", "own", "--num-gpus", "8")
    status, out, _ = compared(capsys, "page.md", *given)
    assert status == 0
    assert "After is 25% faster per GPU than Before" in " ".join(out.split())
    assert "Before" in compared(capsys, "page.md#before", *given)[1]
