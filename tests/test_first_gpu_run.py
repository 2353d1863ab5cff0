"""The checks of a GPU's first minutes, where there is no GPU: with a stand-in, made-up tools and
made-up failures.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from tprimat.machine.gpu import GpuState

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the script is for bash, and ends process groups"
)

QUICK = (
    "machine",
    "events",
    "recorder",
    "memory",
    "matmul",
    "fp8",
    "recording-cost",
    "power",
    "graphs",
)
SLOW = ("tools", "callback-cost", "plans", "attention", "compile", "profilers", "options", "collective",
        "held", "killed", "out-of-memory", "no-compiler", "profile")  # fmt: skip

H100 = {
    "device_name": "NVIDIA H100 80GB HBM3",
    "device_count": 1,
    "software_stack": "cuda",
    "compute_units": 132,
    "architecture": "sm_90",
}
NVIDIA_SMI = """#!/bin/sh
case "$1" in
--query-gpu=index,name,uuid,memory.total,*)
    echo "0, NVIDIA H100 80GB HBM3, GPU-aa, 81559, 3000, 650.0, 700.0, 700.0, 1200, 1980, 3, 99.0, 40, 9, Disabled" ;;
--query-compute-apps=*) echo "GPU-aa, 77, python3, 2000" ;;
*) echo "some table" ;;
esac
"""
NOT_RUN = "no error", "everything that it needs is here"


@pytest.fixture
def report(first_gpu_run):
    return sys.modules["gpu_checks.report"].Report


@pytest.fixture
def check(first_gpu_run):
    return {check.name: check for check in first_gpu_run.CHECKS}


def seen(report, what):
    """The findings about something."""
    return [finding for finding in report.findings if what in finding["what"]]


class FakeCuda:
    """torch.cuda with one H100, on top of the stand-in for its clock and its allocator."""

    def __init__(self, stand_in):
        self._stand_in = stand_in

    def __getattr__(self, name):
        return getattr(self._stand_in, name)

    def device_count(self):
        return 1

    def is_bf16_supported(self):
        return True

    def get_arch_list(self):
        return ["sm_80", "sm_90"]

    def get_device_properties(self, index):
        return types.SimpleNamespace(
            name=H100["device_name"], major=9, minor=0, total_memory=85_017_755_648
        )


class FakeTorch:
    def __init__(self, cuda):
        self.cuda = cuda
        self.version = types.SimpleNamespace(hip=None, cuda="13.0")

    def __getattr__(self, name):
        return getattr(torch, name)


@pytest.fixture
def on_a_gpu(report, monkeypatch):
    """Reports that hold the CPU for an H100, so that the branches for a GPU run; the sizes are
    small.
    """
    device_module = sys.modules["gpu_checks.device"]
    monkeypatch.setattr(sys.modules["gpu_checks.compute"], "SIZES", (64,))
    monkeypatch.setattr(sys.modules["gpu_checks.compute"], "COMPARED_SIZE", 64)
    monkeypatch.setattr(sys.modules["gpu_checks.kernels"], "SHAPE", (1, 2, 64, 16))
    monkeypatch.setattr(sys.modules["gpu_checks.power"], "DURATION_S", 0.3)

    class FakeGpu(device_module.Device):
        def __init__(self):
            super().__init__(torch, is_stand_in=True)
            self.cuda = FakeCuda(self.cuda)
            self.torch = FakeTorch(self.cuda)

        def work(self, target_s):
            return super().work(target_s / 100)

        @property
        def stack(self):
            return "cuda"

    def make():
        made = report()
        made._device = FakeGpu()
        return made

    return make


class TestDryRun:
    def test_every_module_of_ours_is_where_it_is_looked_for(self, first_gpu_run):
        module = sys.modules["gpu_checks.report"]
        assert [name for name in module.INTERNALS if module.internal(name) is None] == []

    def test_these_tests_run_every_check(self, check):
        assert sorted(check) == sorted((*QUICK, *SLOW, "training", "frameworks"))

    @pytest.mark.parametrize(
        "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
    )
    def test_a_check_runs_to_its_end(self, first_gpu_run, report, check, name, monkeypatch):
        monkeypatch.setenv(
            "PYTORCH_CUDA_ALLOC_CONF", ""
        )  # one check sets it, in what is its own process elsewhere
        done = first_gpu_run.run_in_process(check[name], report(dry_run=True))
        assert done.findings
        # Some of them ask for what isn't here: Transformer Engine, NVML, Megatron.
        errors = NOT_RUN[:1] if name in ("fp8", "power", "options") else NOT_RUN
        assert [each for each in done.findings if each["expectation"] in errors] == []
        json.dumps(done.as_dict(), default=sys.modules["gpu_checks.report"].to_plain)

    @pytest.mark.slow
    def test_the_training_leaves_its_result_and_its_log_in_the_report(
        self, first_gpu_run, report, check
    ):
        done = first_gpu_run.run_in_process(check["training"], report(dry_run=True))
        assert [each for each in done.findings if each["expectation"] in NOT_RUN] == []
        (result,) = done.details["results"]
        assert len(result["step_times"]) == 3
        assert [each["status"] for each in seen(done, "platform")] == ["ok"]
        assert any(each["name"].endswith(".log") for each in done.raw)

    @pytest.mark.slow
    def test_every_framework_that_is_installed_trains(self, first_gpu_run, report, check):
        done = first_gpu_run.run_in_process(check["frameworks"], report(dry_run=True))
        trained = [each for each in done.findings if each["what"].endswith(": training")]
        assert {
            each["status"]
            for each in trained
            if each["what"].split(":")[0] in ("lightning", "fsdp")
        } == {"ok"}
        assert set(done.details["results"]) == {"lightning", "fsdp"}
        assert [each["status"] for each in seen(done, "fsdp: loss")] == ["ok"]
        # Those that aren't here say why.
        assert {each["seen"] == "it did" for each in trained if each["status"] == "skipped"} == {
            False
        }


class TestOnAGpu:
    """With a fake H100: no branch for a GPU may fail for a reason of its own."""

    @pytest.mark.parametrize("name", ["machine", "events", "memory", "matmul", "fp8", "power"])
    def test_a_check_runs_to_its_end(self, first_gpu_run, check, on_a_gpu, name):
        done = first_gpu_run.run_in_process(check[name], on_a_gpu())
        # NVML has a package here, but no driver.
        errors = [
            each
            for each in done.findings
            if each["expectation"] in NOT_RUN and "NVML" not in each["what"]
        ]
        assert [each for each in errors if "transformer_engine" not in each["seen"]] == []

    def test_a_gpu_that_torch_sees_and_we_do_not(self, first_gpu_run, check, on_a_gpu):
        if torch.cuda.is_available():
            pytest.skip("there is a GPU here")
        done = first_gpu_run.run_in_process(check["machine"], on_a_gpu())
        assert [each["status"] for each in seen(done, "GPUs that we see")] == ["failed"]

    def test_attention_and_what_the_counter_counts(self, first_gpu_run, check, on_a_gpu):
        done = first_gpu_run.run_in_process(check["attention"], on_a_gpu())
        assert {each["what"] for each in done.findings} > {"flash attention"}
        assert len(done.findings) == 3

    @pytest.mark.parametrize(
        ("share", "status"), [(0.75, "ok"), (0.3, "doubtful"), (1.2, "failed")]
    )
    def test_the_peak_of_another_gpu_is_found_out(
        self, first_gpu_run, check, on_a_gpu, monkeypatch, share, status
    ):
        from tprimat.catalog import gpus
        from tprimat.results.run import GpuInfo

        row = gpus.match(GpuInfo(**H100)).gpu
        done = on_a_gpu()
        done.catalog_row = lambda: row
        flops = 2 * 64**3
        monkeypatch.setattr(
            done.device, "seconds_of", lambda function: flops / (share * row.bf16_tflops * 1e12)
        )
        first_gpu_run.run_in_process(check["matmul"], done)
        assert [each["status"] for each in seen(done, "bf16: TFLOP/s")] == [status]

    def test_a_wrong_product_is_found_out(self, on_a_gpu):
        done = on_a_gpu()
        ones = torch.ones(4, 4)
        sys.modules["gpu_checks.compute"]._right(done, "bf16", 2 * ones, ones, 0.02)
        assert done.status == "failed"

    def test_clocks_that_disagree_are_found_out(self, first_gpu_run, check, on_a_gpu, monkeypatch):
        done = on_a_gpu()
        event = done.device.event()

        def twice_as_fast():
            made = type(done.device).event(done.device)
            elapsed = made.elapsed_time
            made.elapsed_time = lambda later: elapsed(later) * 2
            return made

        assert event.query()
        monkeypatch.setattr(done.device, "event", twice_as_fast)
        first_gpu_run.run_in_process(check["events"], done)
        assert [each["status"] for each in seen(done, "sum of event times")] == ["failed"]

    def test_a_reader_that_misses_memory_is_found_out(
        self, first_gpu_run, check, on_a_gpu, monkeypatch
    ):
        from tprimat.record.memory import DeviceMemory

        monkeypatch.setattr(DeviceMemory, "step_end", lambda self: None)
        done = first_gpu_run.run_in_process(check["memory"], on_a_gpu())
        assert [each["status"] for each in seen(done, "our peaks, allocated and reserved")] == [
            "failed"
        ]


class TestTools:
    @pytest.fixture
    def tools(self, tmp_path, monkeypatch):
        """Put programs of a vendor before those of this machine: tools({"nvidia-smi": script})."""

        def put(scripts):
            for name, script in scripts.items():
                path = tmp_path / name
                path.write_text(script)
                path.chmod(0o755)
            monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

        return put

    def run(self, report):
        """The check without what takes long: the doctor, and a process that imports torch."""
        vendor = sys.modules["gpu_checks.vendor"]
        for argv in vendor.COMMANDS:
            if argv[0] in ("nvidia-smi", "amd-smi", "rocm-smi"):
                report.command(argv)
        vendor._parsers(report, 77)
        return report

    def test_raw_output_lies_beside_what_we_make_of_it(self, on_a_gpu, tools):
        tools({"nvidia-smi": NVIDIA_SMI})
        done = self.run(on_a_gpu())
        assert {"nvidia-smi -q", "nvidia-smi"} <= {each["name"] for each in done.raw}
        states = {each["what"]: each for each in seen(done, "state of GPU 0")}
        assert states["state of GPU 0: power_cap_w"]["seen"] == 650.0
        assert {each["status"] for each in states.values()} == {"ok"}
        assert [each["status"] for each in seen(done, "total memory by the driver")] == ["ok", "ok"]
        for holder in seen(done, "the process that holds memory"):
            assert (holder["status"], holder["seen"][0].pid) == ("ok", 77)

    def test_a_parser_that_makes_nothing_of_the_output(self, on_a_gpu, tools):
        tools({"nvidia-smi": "#!/bin/sh\necho 'new words, for everything'\n"})
        done = self.run(on_a_gpu())
        assert [each["status"] for each in seen(done, "GPUs by the driver")] == ["doubtful"] * 2
        assert [each["status"] for each in seen(done, "the process that holds memory")] == [
            "doubtful"
        ] * 2
        assert any(each["text"] == "new words, for everything\n" for each in done.raw)

    def test_amd_smi(self, on_a_gpu, tools):
        usage = {
            "name": "python3",
            "pid": 77,
            "memory_usage": {"vram_mem": {"value": 2e9, "unit": "B"}},
        }
        text = json.dumps([{"gpu": 0, "process_list": [{"process_info": usage}]}])
        tools({"amd-smi": f"#!/bin/sh\necho '{text}'\n", "nvidia-smi": "#!/bin/sh\nexit 9\n"})
        done = self.run(on_a_gpu())
        assert {each["status"] for each in done.raw if each["name"] == "nvidia-smi"} == {9}
        assert {each["text"] for each in done.raw if each["name"] == "amd-smi process --json"} == {
            f"{text}\n"
        }
        assert [each["status"] for each in seen(done, "the process that holds memory")] == [
            "ok",
            "ok",
        ]

    def test_a_tool_that_hangs_is_killed_with_what_it_started(self, report, tmp_path):
        script = tmp_path / "tool"
        script.write_text(f"#!/bin/sh\nsleep 300 &\necho $! > {tmp_path}/child\necho some\nwait\n")
        script.chmod(0o755)
        output = report().command([str(script)], timeout_s=1)
        assert (output.status, output.text) == (None, "some\n")
        assert "killed after 1 s" in output.errors
        # Its pipe closes a moment before it has ended, and whoever inherits it may not wait for it.
        child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
        for _ in range(1000):
            try:
                state = child.read_text().rpartition(")")[2].split()[0]
            except OSError:
                return
            if state in ("Z", "X"):
                return
            time.sleep(0.05)
        pytest.fail("what the tool started still runs")

    def test_a_tool_that_is_not_here(self, report):
        assert report().command(["no-such-tool"]).status is None


class TestFile:
    """The process of each check is a script that does what the test wants."""

    @pytest.fixture
    def run(self, first_gpu_run, monkeypatch, capsys):
        def run(script, *arguments):
            folder = self.started(script, first_gpu_run, monkeypatch)
            status = first_gpu_run.main([str(folder), "--only", "events,memory", *arguments])
            (path,) = folder.iterdir()
            assert str(path) in capsys.readouterr().out
            return status, json.loads(path.read_text())

        return run

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path):
        self.place = tmp_path

    def started(self, script, first_gpu_run, monkeypatch):
        """Make the process of each check a script; where the file will be."""
        program = self.place / "python"
        program.write_text(f'#!/bin/sh\nwhile [ "$1" != --result ]; do shift; done\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        monkeypatch.setattr(first_gpu_run, "has_gpu", lambda: True)
        monkeypatch.setattr(first_gpu_run, "GRACE_S", 1.0)
        return self.place / "out"

    def finding(self, status):
        return json.dumps({"what": "it", "expectation": "so", "seen": "not", "status": status})

    def written(self, status):
        findings = f'{{"status": "{status}", "findings": [{self.finding(status)}], "raw": []}}'
        return f"""echo '{findings}' > "$2"; echo output"""

    @pytest.mark.parametrize(
        ("status", "ends_with"), [("ok", 0), ("doubtful", 0), ("skipped", 1), ("failed", 1)]
    )
    def test_status(self, run, status, ends_with):
        exit_status, document = run(self.written(status))
        assert exit_status == ends_with
        assert document["summary"] == {status: 2}
        (events, memory) = document["checks"]
        assert (events["name"], memory["name"]) == ("events", "memory")
        assert events["output"] == "output\n"
        assert set(events["findings"][0]) == {"what", "expectation", "seen", "status"}

    def test_a_crash_keeps_what_was_found_and_the_others_run(self, run):
        exit_status, document = run(f"{self.written('ok')}; kill -SEGV $$")
        assert exit_status == 1
        for entry in document["checks"]:
            assert entry["status"] == "failed"
            assert [each["status"] for each in entry["findings"]] == ["ok", "failed"]
            assert "-11" in entry["findings"][1]["seen"]

    def test_a_hang_is_killed_and_keeps_what_was_found(self, run, first_gpu_run, monkeypatch):
        short = tuple(dataclasses.replace(check, limit_s=2.0) for check in first_gpu_run.CHECKS)
        monkeypatch.setattr(first_gpu_run, "CHECKS", short)
        _, document = run(f"{self.written('ok')}; trap '' TERM; sleep 300 & wait; wait")
        (events, _) = document["checks"]
        assert [each["status"] for each in events["findings"]] == ["ok", "failed"]
        assert "killed after" in events["findings"][1]["seen"]

    def test_what_the_limit_of_all_checks_ends_has_not_failed(self, run):
        exit_status, document = run(f"{self.written('ok')}; sleep 300 & wait", "--time-limit", "3")
        # Nothing failed, and one that was asked for has not run.
        assert exit_status == 1
        assert document["summary"] == {"ok": 1, "skipped": 1}
        (events, memory) = document["checks"]
        assert [each["status"] for each in events["findings"]] == ["ok", "skipped"]
        assert (events["status"], memory["status"]) == ("ok", "skipped")

    def test_a_missing_wheel_is_named_and_is_status_1(
        self, run, first_gpu_run, capsys, monkeypatch
    ):
        lacks = json.dumps(
            {
                "what": "our part",
                "expectation": "…",
                "seen": "the wheel of msgspec is missing",
                "status": "skipped",
            }
        )
        document = f'{{"status": "ok", "findings": [{lacks}, {self.finding("ok")}], "raw": []}}'
        script = f"""echo '{document}' > "$2" """
        folder = self.started(script, first_gpu_run, monkeypatch)
        assert first_gpu_run.main([str(folder), "--only", "events"]) == 1
        text = capsys.readouterr().out
        assert "events has not run in full: the wheel of msgspec is missing" in text
        # The machine may have no network: wheels come from another one.
        assert "pip download" in text
        assert "pip install --no-index --find-links wheels msgspec" in text

    def test_a_half_names_the_other_one(self, first_gpu_run, monkeypatch, capsys):
        folder = self.started(self.written("ok"), first_gpu_run, monkeypatch)
        assert first_gpu_run.main([str(folder)]) == 0
        assert "--half 2" in capsys.readouterr().out
        (path,) = folder.glob("*.json")
        first = [entry["name"] for entry in json.loads(path.read_text())["checks"]]
        assert {"training", "events"} <= set(first)
        path.unlink()
        assert first_gpu_run.main([str(folder), "--half", "2"]) == 0
        (path,) = folder.glob("*.json")
        second = [entry["name"] for entry in json.loads(path.read_text())["checks"]]
        assert {"held", "killed", "out-of-memory", "no-compiler", "profile", "power"} <= set(second)
        assert not set(first) & set(second)
        assert {*first, *second} == {check.name for check in first_gpu_run.CHECKS} - {"frameworks"}

    def test_what_does_not_fit_is_skipped(self, run):
        _, document = run(self.written("ok"), "--time-limit", "0")
        assert document["summary"] == {"skipped": 2}

    def test_no_name_of_this_machine_in_the_name_of_the_file(self, run, tmp_path):
        run(self.written("ok"))
        (path,) = (tmp_path / "out").iterdir()
        assert path.name[: len("first_gpu_run_2")] == "first_gpu_run_2"
        assert os.uname().nodename not in path.name


class TestBudget:
    @pytest.mark.parametrize("half", [1, 2])
    def test_a_half_fits_into_ten_minutes(self, first_gpu_run, half):
        checks = [check for check in first_gpu_run.CHECKS if check.half == half]
        assert sum(check.expected_s for check in checks) <= 0.9 * first_gpu_run.TIME_LIMIT_S
        assert all(check.limit_s >= check.expected_s for check in checks)


class TestEnergy:
    """A training of ten seconds at 600 W between idle times at 70 W, by a counter that is read five
    times a second.
    """

    @pytest.fixture
    def samples(self, first_gpu_run):
        readings, joules = [], 0.0
        for tick in range(150):
            watts, clock = (600.0, 1980.0) if 50 <= tick < 100 else (70.0, 210.0)
            readings.append(sys.modules["gpu_checks.power"].Reading(tick / 5, joules, clock))
            joules += watts / 5
        return readings

    def result(self, joules, clock=1980.0, **telemetry):
        metrics = {"energy_joules": joules, "measured_seconds": 8.0, "clock_mhz": clock}
        usual = {"samples": 40, "energy_code": "counter", "unknown": []}
        return {"energy_metrics": metrics, "telemetry": {**usual, **telemetry}}

    @pytest.mark.parametrize(
        ("joules", "status"),
        [
            (4800.0, "ok"),
            (5270.0, "ok"),
            (5290.0, "doubtful"),
            (4310.0, "doubtful"),
            (None, "doubtful"),
        ],
    )
    def test_the_steps_energy_against_nvmls_counter(self, report, samples, joules, status):
        done = report()
        sys.modules["gpu_checks.power"].judge(done, samples, self.result(joules))
        (found,) = seen(done, "energy of the steps")
        assert found["status"] == status

    def test_clock_and_gaps(self, report, samples):
        done = report()
        sys.modules["gpu_checks.power"].judge(
            done, samples, self.result(4800.0, clock=1500.0, unknown=["no throttling"])
        )
        assert [each["status"] for each in seen(done, "clock of the steps")] == ["doubtful"]
        assert [each["status"] for each in seen(done, "telemetry")] == ["doubtful"]


class TestPower:
    @pytest.mark.parametrize(
        ("cap_w", "status"), [(700.0, "ok"), (693.0, "ok"), (692.9, "doubtful"), (None, "skipped")]
    )
    def test_a_cap_below_the_factorys_is_doubtful(self, report, first_gpu_run, cap_w, status):
        state = GpuState(
            0,
            "NVIDIA H200",
            clock_mhz=1500.0,
            clock_max_mhz=1980.0,
            power_cap_w=cap_w,
            power_default_w=700.0,
        )
        done = report()
        sys.modules["gpu_checks.power"]._judge_states(done, [state])
        assert [each["status"] for each in seen(done, "power cap")] == [status]


class TestAdversities:
    """./benchmark.py is a script that does what a training does then."""

    @pytest.fixture
    def after(self, report, first_gpu_run, monkeypatch):
        def run(name, status=0, text="", errors="", result=None):
            module = sys.modules["gpu_checks.adversities"]
            output = sys.modules["gpu_checks.report"].Output(status, text, errors)
            monkeypatch.setattr(
                module, "train", lambda *_, **__: (output, [result] if result else [])
            )
            monkeypatch.setattr(module, "holding", lambda *_: contextlib.nullcontext(70.0))
            done = report()
            done._device = types.SimpleNamespace(stack="cuda", cuda=None)
            getattr(module, name)(done)
            return {each["what"]: each["status"] for each in done.findings}

        return run

    def test_out_of_memory_has_advice(self, after):
        good = "error: llama bf16: out of memory: CUDA error: out of memory: try --micro-batch-size 32 or --scale large"
        assert set(after("out_of_memory", 5, errors=good).values()) == {"ok"}
        assert "failed" in after("out_of_memory", 5, errors="error: exited with status 1").values()
        assert "failed" in after("out_of_memory", 0, errors=good).values()

    def test_a_failing_compiler_leaves_an_eager_result(self, after):
        warning = "eager, since torch.compile failed: CalledProcessError"
        good = {"framework_config": {"torch_compile": False}, "warnings": [warning]}
        assert set(after("no_compiler", result=good).values()) == {"ok"}
        assert "failed" in after("no_compiler", 5).values()
        silent = {**good, "warnings": []}
        assert "failed" in after("no_compiler", result=silent).values()

    def test_held_memory_makes_the_model_smaller_and_is_said(self, after):
        note = "note: other processes hold memory of GPU 0 (70.0 of 85.0 GB)"
        assert set(
            after("held", errors=note, result={"scale": "medium", "warnings": []}).values()
        ) == {"ok"}
        assert "doubtful" in after("held", result={"scale": "medium", "warnings": []}).values()
        assert "failed" in after("held", 5, errors=note).values()
        assert (
            "failed" in after("held", errors=note, result={"scale": "1b", "warnings": []}).values()
        )

    def test_a_profile_is_read_back(self, after):
        parts = {"forward": 0.01, "backward": 0.02}
        good = {
            "profile": {"torch": "trace.json.gz"},
            "breakdown": parts,
            "profiled_steps": [6, 7],
            "warnings": [],
        }
        assert set(after("profile", result=good).values()) == {"ok"}
        assert "failed" in after("profile", result={**good, "profile": {}}).values()
        assert "failed" in after("profile", result={**good, "breakdown": {}}).values()
        problem = {**good, "warnings": ["--profile torch: no"]}
        assert "doubtful" in after("profile", result=problem).values()


class TestMachines:
    def test_no_gpu_is_two_lines(self, repository):
        if torch.cuda.is_available():
            pytest.skip("there is a GPU here")
        done = subprocess.run(
            [repository / "tools" / "first_gpu_run.sh"],
            env={**os.environ, "PYTHON": sys.executable},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (2, "")
        error, hint = done.stderr.splitlines()
        assert error.startswith("error: no GPU")
        assert hint.startswith("hint: ")

    def test_an_unknown_check(self, first_gpu_run, capsys):
        with pytest.raises(SystemExit) as ended:
            first_gpu_run.main(["--only", "everything"])
        assert ended.value.code == 2
        assert "unknown check 'everything'" in capsys.readouterr().err

    def test_without_our_requirements_the_rest_runs(self, repository, tmp_path):
        # A container has torch, and nothing of requirements.txt.
        (tmp_path / "msgspec.py").write_text("raise ModuleNotFoundError('no', name='msgspec')\n")
        reports = {}
        for name in ("memory", "recorder"):
            path = tmp_path / f"{name}.json"
            subprocess.run(
                [
                    sys.executable,
                    repository / "tools" / "first_gpu_run.py",
                    "--dry-run",
                    "--check",
                    name,
                    "--result",
                    path,
                ],
                env={**os.environ, "PYTHONPATH": str(tmp_path)},
                check=True,
            )
            reports[name] = json.loads(path.read_text())
        assert reports["recorder"]["status"] == "skipped"
        assert reports["recorder"]["findings"][0]["seen"] == "the wheel of msgspec is missing"
        found = {each["what"]: each["status"] for each in reports["memory"]["findings"]}
        assert found["allocated and peak of the allocator"] == "ok"
        assert found["our DeviceMemory"] == "skipped"

    def test_torch_without_a_gpu_is_a_finding(self, first_gpu_run, report, check):
        if torch.cuda.is_available():
            pytest.skip("there is a GPU here")
        done = first_gpu_run.run_in_process(check["events"], report())
        assert done.status == "failed"
        assert "has no GPU that it can use" in done.findings[0]["seen"]

    def test_what_is_missing_is_named(self, first_gpu_run, tmp_path, monkeypatch):
        (tmp_path / "requirements.txt").write_text(
            "# all\ntorch>=2\nno-such-package-at-all>=1\n-r other.txt\n"
        )
        monkeypatch.setattr(first_gpu_run, "ROOT", tmp_path)
        assert first_gpu_run.missing_packages() == ["no-such-package-at-all"]


def test_measurements_states_of_each_check_that_it_has_not_run(first_gpu_run, repository):
    page = (repository / "docs" / "measurements.md").read_text(encoding="utf-8")
    table = page.partition("| what | on the H200 |")[2].partition("\n\n")[0]
    assert {check.name for check in first_gpu_run.CHECKS} == {
        name
        for row in table.splitlines()
        for name in re.findall(r"`([a-z0-9-]+)`", row.rstrip("| ").rpartition("|")[2])
    }
