"""Profilers: what is refused, the command around a training, where its traces go."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from tprimat.errors import UsageError
from tprimat.frameworks import by_name, profiling
from tprimat.frameworks.request import Launch, Request
from tprimat.machine.host import Host

NEMO, LIGHTNING, PRIMUS = by_name("nemo"), by_name("lightning"), by_name("primus")
LAUNCH = Launch(("python3", "-m", "training"), {"A": "1"}, Path("/"))


@pytest.fixture
def request_for(tmp_path):
    def make(profile, **changes) -> Request:
        usual = {
            "framework": "nemo",
            "platform": "nvd",
            "model": "llama",
            "scale": "full",
            "precision": "bf16",
            "steps": 50,
            "global_batch_size": 8,
            "micro_batch_size": 1,
            "sequence_length": 4096,
            "seed": 1,
            "num_gpus": 8,
            "output_dir": tmp_path,
            "profile": profile,
        }
        return Request(**{**usual, **changes})

    return make


@pytest.fixture
def check(request_for, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/bin/{program}")

    def run(profile, framework=NEMO, torchrun=False, dry_run=False, **changes):
        profiling.check(
            request_for(profile, **changes), framework, torchrun=torchrun, dry_run=dry_run
        )

    return run


class TestCheck:
    @pytest.mark.parametrize(
        ("profile", "changes"),
        [
            ("torch", {}),
            ("torch", {"platform": "cpu", "framework": LIGHTNING}),
            ("torch", {"num_nodes": 2}),
            ("torch", {"torchrun": True}),
            ("nsys", {}),
            ("rocprof", {"platform": "amd", "framework": LIGHTNING}),
        ],
    )
    def test_what_can_be(self, check, profile, changes):
        check(profile, **changes)

    @pytest.mark.parametrize(
        ("profile", "changes", "words"),
        [
            (
                "torch",
                {"framework": PRIMUS},
                "watches megatron_bridge, nemo, lightning, and primus trains here",
            ),
            ("nsys", {"platform": "amd"}, "use --profile rocprof here"),
            ("rocprof", {}, "use --profile nsys here"),
            ("nsys", {"platform": "cpu"}, "use --profile torch here"),
            ("nsys", {"num_nodes": 2}, "doesn't work on several nodes: use --profile torch"),
            ("nsys", {"torchrun": True}, "doesn't work under torchrun: use --profile torch"),
            ("torch", {"steps": 7}, "set --steps 8 or more"),
        ],
    )
    def test_what_cant_be_names_what_can(self, check, profile, changes, words):
        with pytest.raises(UsageError, match=words):
            check(profile, **changes)

    def test_a_program_that_is_missing_is_named_but_not_needed_for_showing(
        self, check, monkeypatch
    ):
        monkeypatch.setattr(shutil, "which", lambda program: None)
        with pytest.raises(UsageError, match="needs nsys, which isn't on the PATH"):
            check("nsys")
        check("nsys", dry_run=True)

    def test_a_rocprofv3_that_cant_select_regions_is_refused(self, check, monkeypatch):
        """That of ROCm 6.2 can't."""
        answers = iter(
            ["usage: rocprofv3 [--runtime-trace]", "usage: rocprofv3 [--selected-regions]"]
        )
        monkeypatch.setattr(profiling, "Host", lambda: Host(command=lambda argv: next(answers)))
        with pytest.raises(
            UsageError,
            match="with --selected-regions, which this one lacks; or use --profile torch",
        ):
            check("rocprof", platform="amd", framework=LIGHTNING)
        check("rocprof", platform="amd", framework=LIGHTNING)


class TestAround:
    def test_nothing_without_a_profiler(self, request_for):
        assert profiling.around(request_for(None), LAUNCH) is LAUNCH

    def test_torchs_own_is_no_other_command(self, request_for):
        around = profiling.around(request_for("torch"), LAUNCH)
        assert around.argv == LAUNCH.argv
        assert around.env["A"] == "1"
        assert around.env[profiling.TRACE].startswith(
            f"{request_for('torch').output_dir}/profile/benchmark_cuda_llama"
        )

    def test_nsys_records_between_the_calls_and_lets_the_training_go_on(self, request_for):
        around = profiling.around(request_for("nsys"), LAUNCH)
        assert around.argv[:2] == ("nsys", "profile")
        assert {"--capture-range=cudaProfilerApi", "--capture-range-end=stop"} <= set(around.argv)
        # Else a CUDA graph is one block without its kernels.
        assert "--cuda-graph-trace=node" in around.argv
        assert f"--output={around.env[profiling.TRACE]}" in around.argv
        assert around.argv[-3:] == LAUNCH.argv

    def test_rocprof_records_what_roctx_selects(self, request_for):
        around = profiling.around(
            request_for("rocprof", platform="amd", framework="lightning"), LAUNCH
        )
        assert around.argv[0] == "rocprofv3"
        # The regions are ROCTx calls, which --runtime-trace watches; --kernel-trace alone doesn't.
        assert {"--runtime-trace", "--selected-regions"} <= set(around.argv)
        assert around.argv[-4:] == ("--", *LAUNCH.argv)

    def test_each_framework_that_says_so_wraps_its_command(self, request_for):
        for framework in (NEMO, LIGHTNING):
            assert (
                framework.launcher.launch(request_for("nsys", framework=framework.name)).argv[0]
                == "nsys"
            )

    def test_a_second_trace_doesnt_meet_the_first(self, request_for):
        request = request_for("torch")
        first = profiling.free_prefix(request)
        first.parent.mkdir()
        for seconds in ("", "_2"):
            (first.parent / f"{first.name}{seconds}.trace.json.gz").touch()
        assert not list(first.parent.glob(f"{profiling.free_prefix(request).name}*"))

    def test_the_training_is_told_where(self, request_for, monkeypatch):
        monkeypatch.setenv(profiling.TRACE, "/some/where")
        assert profiling.prefix(request_for("nsys")) == Path("/some/where")

    def test_it_is_a_part_of_the_request(self, request_for):
        request = request_for("nsys")
        assert Request.from_arguments(request.to_arguments()) == request
        assert (
            dataclasses.replace(request, profile=None).to_arguments() == request.to_arguments()[:-1]
        )
