"""`benchmark`: its options, its plan, its runs and what it says of them."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from fake_framework import fake_framework
from made_runs import make_run
from stored_runs import notes_of, series

from tprimat import frameworks
from tprimat.analysis.summary import summarize
from tprimat.cli import run
from tprimat.cli.options import benchmark as benchmark_options
from tprimat.errors import ExitStatus, TensorPrimatError
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.request import Launch
from tprimat.machine import platforms
from tprimat.machine.platforms import Machine
from tprimat.measure import closing, display
from tprimat.measure.plan import plan_of, plan_of_several
from tprimat.record.progress import Step
from tprimat.results.run import Environment, GpuInfo, Run, TrainingConfig
from tprimat.store import store

CPU = Machine(
    "cpu",
    GpuInfo(device_name="a processor", device_count=1, total_memory_gb=25.3, software_stack="cpu"),
    Environment(cpu_threads=2),
)
H100S = Machine(
    "nvd",
    GpuInfo(
        device_name="NVIDIA H100 80GB HBM3",
        device_count=8,
        total_memory_gb=85.02,
        software_stack="cuda",
        software_version="12.8",
        pytorch_version="2.10.0",
        architecture="sm_90",
    ),
    Environment(),
)

CHILD = """
import os, signal, sys, time
from pathlib import Path
from tprimat.store import store
from tprimat.record import progress
from tprimat.frameworks.request import Request
from tprimat.results.run import Run, TrainingConfig

request = Request.from_arguments(sys.argv[2:])
behaviour = sys.argv[1]
print("BENCHMARK START", flush=True)
print("a library's warning", file=sys.stderr, flush=True)
if behaviour == "fail" and request.model == "llama":
    raise SystemExit("RuntimeError: no such kernel")
steps = request.steps if behaviour != "hang" else 2
for step in range(1, steps + 1):
    print(progress.encode(progress.Step(step, request.steps, 0.1, 0.1)), flush=True)

def save(status, reason):
    saved = store.save(
        Run(
            platform=request.platform, framework=request.framework, model=request.model, label=request.label,
            timestamp=f"2026-11-21T10:00:00.{time.time_ns() % 10**9:09d}"[:26] + "+00:00",
            status=status, status_reason=reason,
            training_config=TrainingConfig(
                max_steps=request.steps, global_batch_size=request.global_batch_size, seed=request.seed,
                sequence_length=request.sequence_length, num_gpus=request.num_gpus, precision=request.precision,
            ),
            # Trainings of equal times would be copies of one.
            steps=tuple(range(1, steps + 1)), window_steps=(1,) * steps,
            step_times=(0.1 + time.time_ns() % 10**6 * 1e-12, *(0.1,) * (steps - 1)),
            loss_values=(2.0,) * steps, learning_rates=(None,) * steps, grad_norms=(None,) * steps,
            lines=(None,) * steps,
        ),
        request.output_dir,
    )
    print(progress.encode(progress.Saved(str(saved.path))), flush=True)

def end(*_):
    save("incomplete", "terminated (SIGTERM)")
    raise SystemExit(1)

if behaviour == "hang":
    signal.signal(signal.SIGTERM, end)
    print("han" "ging", flush=True)
    time.sleep(600)
save("complete", None)
"""


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """A framework whose runs take no time; returns what makes them behave."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(platforms, "detect", lambda: CPU)

    def behave(behaviour):
        def command(request):
            arguments = (sys.executable, "-c", CHILD, behaviour, *request.to_arguments())
            return Launch(arguments, {}, tmp_path)

        monkeypatch.setattr(frameworks, "FRAMEWORKS", (fake_framework(command=command),))

    behave("train")
    return behave


def plan(argv, machine=CPU):
    return plan_of(
        benchmark_options.parser().parse_args(argv), frameworks.by_name("lightning"), machine
    )


def refusal(argv, machine=CPU):
    with pytest.raises(TensorPrimatError) as refused:
        plan(argv, machine)
    lines = refused.value.line().splitlines()
    assert [line.partition(":")[0] for line in lines] in (
        ["error", "hint"],
        ["error", "see"],
        ["error", "hint", "see"],
    )
    return refused.value.message


@pytest.mark.parametrize(
    ("name", "memory_gb", "words", "scale"),
    [
        ("nemo", 85.02, [], "quarter"),  # alone, Mistral would be trained at half
        ("nemo", 85.02, ["--scale", "largest"], "quarter"),
        ("lightning", 85.02, ["--scale", "largest"], "quarter"),
        ("lightning", 20.5, [], "medium"),  # alone, Mistral at 1b
    ],
)
def test_all_models_of_a_call_have_one_scale(name, memory_gb, words, scale):
    info = GpuInfo(
        device_name="NVIDIA H100", device_count=1, total_memory_gb=memory_gb, architecture="sm_90"
    )
    machine = Machine("nvd", info, Environment())
    options = benchmark_options.parser().parse_args(words)
    made = plan_of(options, frameworks.by_name(name), machine)
    assert [request.scale for request in made.requests] == [scale] * 3
    said = f"scale {scale} for all runs, the largest at which every run fits"
    assert said in made.notes
    assert not any(
        f"scale {other} is trained" in note for note in made.notes for other in ("half", "1b")
    )
    options = benchmark_options.parser().parse_args([*words, "--model", "mistral"])
    alone = plan_of(options, frameworks.by_name(name), machine)
    assert len(alone.requests) == 1
    assert said not in alone.notes


def test_so_have_the_frameworks_of_one_recipe(monkeypatch):
    monkeypatch.setattr(Framework, "unavailable", lambda self: None)
    info = GpuInfo(
        device_name="NVIDIA GeForce RTX 4090",
        device_count=1,
        total_memory_gb=25.39,
        architecture="sm_89",
    )
    machine = Machine("nvd", info, Environment())
    options = benchmark_options.parser().parse_args(["--model", "llama"])
    # lightning alone recomputes activations and trains 1b.
    made = plan_of_several(("lightning", "transformers"), options, machine)
    assert [request.scale for request in made.requests] == ["medium", "medium"]
    assert [
        request.scale for request in plan_of_several(("lightning",), options, machine).requests
    ] == ["1b"]


def test_a_gpu_that_cannot_be_used_is_no_cpu_benchmark():
    broken = dataclasses.replace(
        CPU, unusable_gpu="torch found no GPU, though the NVIDIA driver is installed"
    )
    assert "though the NVIDIA driver is installed" in refusal([], broken)
    assert "though the NVIDIA driver is installed" in refusal(["--dry-run"], broken)


class TestOptions:
    @pytest.mark.parametrize(
        ("argv", "words"),
        [
            (["--model", "lama"], "unknown model 'lama'; did you mean llama?"),
            (["--model", "gpt"], "choose from llama, qwen, mistral, encdec, all"),
            (
                ["--model", "meta-llama/Llama-3.1-8B"],
                "'meta-llama/Llama-3.1-8B'; did you mean llama?",
            ),
            (["Llama"], "did you mean --model llama?"),
            (["nothing"], "--help lists the options"),
            (["--precision", "int8"], "choose from fp32, bf16, fp16"),
            (["--precision", "fp"], "unknown precision 'fp'"),
            (["--steps", "0"], "must be at least 1, not 0"),
            (["--steps", "many"], "'many' is not a whole number"),
            (["--steps", "9" * 5000], "is not a whole number"),
            (["--runs", "-1"], "must be at least 1"),
            (["--seed", "-1"], "must be at least 0"),
            (["--sequence-length", "1"], "must be at least 2"),
            (["--cooldown", "-3"], "invalid number of seconds"),
            (["--cooldown", "nan"], "invalid number of seconds"),
            (["--time-limit", "soon"], "use e.g. 90s, 10m, 1h30m"),
            (["--time-limit", "0"], "use e.g. 90s, 10m, 1h30m"),
            (["--label", " "], "a label needs"),
            (["--modle", "llama"], "unrecognized arguments: --modle"),
            (["extra"], "unrecognized arguments: extra"),
        ],
    )
    def test_wrong_ones_are_an_error_with_a_hint(self, argv, words):
        assert words in refusal(argv)

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("90", 90),
            ("90s", 90),
            ("10m", 600),
            ("10min", 600),
            ("1h30m", 5400),
            ("1.5h", 5400),
            ("1h2m3s", 3723),
        ],
    )
    def test_time_limit(self, text, seconds):
        assert plan(["--time-limit", text]).requests[0].time_limit_s == seconds

    def test_status_of_wrong_usage(self, capsys):
        assert run("benchmark", ["--steps", "0"]) == ExitStatus.USAGE
        error = capsys.readouterr().err
        assert error.startswith("error: --steps: must be at least 1")
        assert error.count("\n") == 2

    def test_unknown_framework(self, fake, capsys):
        assert run("benchmark", ["--framework", "nemmo"]) == ExitStatus.USAGE
        assert "unknown framework 'nemmo'\nhint:  choose from lightning" in capsys.readouterr().err


class TestPlan:
    def test_nothing_said_on_a_cpu(self):
        made = plan([])
        assert [request.model for request in made.requests] == ["llama", "qwen", "mistral"]
        assert {
            (request.scale, request.precision, request.steps, request.label)
            for request in made.requests
        } == {("tiny", "fp32", 60, None)}
        assert (made.runs, made.cooldown_s) == (1, 0)

    def test_nothing_said_on_gpus(self):
        made = plan([], H100S)
        assert {
            (request.precision, request.steps, request.num_gpus) for request in made.requests
        } == {("bf16", 200, 8)}
        assert made.cooldown_s == 30

    def test_several_precisions_are_labelled(self):
        made = plan(["--precision", "fp32,bf16", "--model", "qwen"])
        assert [(request.precision, request.label) for request in made.requests] == [
            ("fp32", "fp32"),
            ("bf16", "bf16"),
        ]
        labelled = plan(["--precision", "fp32,bf16", "--label", "mine", "--model", "qwen"])
        assert [request.label for request in labelled.requests] == ["mine-fp32", "mine-bf16"]
        assert plan(["--precision", "bf16"]).requests[0].label is None

    def test_one_run_of_each_before_the_next_of_any_and_precisions_change_places(self):
        made = plan(["--model", "llama,qwen", "--precision", "fp32,bf16", "--runs", "2"])
        assert [
            (run, made.requests[index].model, made.requests[index].precision)
            for run, index in made.order()
        ] == [
            (1, "llama", "fp32"),
            (1, "llama", "bf16"),
            (1, "qwen", "fp32"),
            (1, "qwen", "bf16"),
            (2, "llama", "bf16"),
            (2, "llama", "fp32"),
            (2, "qwen", "bf16"),
            (2, "qwen", "fp32"),
        ]

    def test_results_go_to_the_folder_as_seen_from_here(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert plan([]).requests[0].output_dir == tmp_path / "output"
        assert plan(["--output-dir", "/else"]).requests[0].output_dir == Path("/else")

    def test_the_machines_warnings_are_said(self):
        machine = dataclasses.replace(CPU, notes=notes_of("torch found no GPU"))
        assert "torch found no GPU" in plan([], machine).notes

    @pytest.mark.parametrize(
        ("precision", "instructions", "said"),
        [
            ("bf16", ("avx2",), True),
            ("fp32", ("avx2",), False),
            ("bf16", ("avx512_bf16",), False),
            ("bf16", None, False),
        ],
    )
    def test_bf16_in_software_is_said(self, precision, instructions, said):
        machine = dataclasses.replace(
            CPU, environment=Environment(cpu_threads=2, cpu_instructions=instructions)
        )
        notes = plan(["--precision", precision], machine).notes
        assert any("no BF16 instructions" in note for note in notes) is said

    def test_the_smallest_gpu_bounds_the_scale(self):
        small = platforms.Device(1, GpuInfo(total_memory_gb=16.0))
        machine = dataclasses.replace(H100S, devices=(platforms.Device(0, H100S.gpu_info), small))
        assert plan(["--model", "llama"], machine).requests[0].scale == "medium"

    def test_several_micro_batches_are_labelled(self):
        made = plan(["--micro-batch-size", "1,2", "--global-batch-size", "2", "--model", "llama"])
        assert [(request.micro_batch_size, request.label) for request in made.requests] == [
            (1, "micro1"),
            (2, "micro2"),
        ]
        assert {request.global_batch_size for request in made.requests} == {2}
        assert made.name_of(made.requests[0]) == "llama fp32 micro-batch 1"
        both = plan(
            [
                "--micro-batch-size",
                "1,2",
                "--global-batch-size",
                "2",
                "--precision",
                "fp32,bf16",
                "--label",
                "a",
            ]
        )
        assert [request.label for request in both.requests[:4]] == [
            "a-fp32-micro1",
            "a-fp32-micro2",
            "a-bf16-micro1",
            "a-bf16-micro2",
        ]
        assert "must be at least 1" in refusal(["--micro-batch-size", "1,0"])


class TestMatch:
    @pytest.fixture
    def result(self, tmp_path):
        """A result of the full Llama on eight GPUs."""
        from tprimat.catalog import models

        shape = models.by_name("llama").shape
        made = Run(
            platform="nvd",
            framework="nemo",
            model="llama",
            model_config=shape,
            training_config=TrainingConfig(
                max_steps=500,
                global_batch_size=128,
                micro_batch_size=1,
                sequence_length=2048,
                num_gpus=8,
                precision="bf16",
                seed=7,
            ),
            **series((1.0,)),
        )
        return str(store.save(made, tmp_path / "theirs").path)

    def test_the_very_setup(self, result):
        machine = dataclasses.replace(
            H100S, gpu_info=msgspec.structs.replace(H100S.gpu_info, total_memory_gb=206.1)
        )
        made = plan(["--match", result], machine)
        (request,) = made.requests
        assert (request.model, request.scale, request.precision, request.steps) == (
            "llama",
            "full",
            "bf16",
            500,
        )
        assert (request.global_batch_size, request.micro_batch_size, request.sequence_length) == (
            128,
            1,
            2048,
        )
        assert (request.seed, request.num_gpus, request.gradient_accumulation_steps) == (7, 8, 16)
        assert any("trained with nemo" in note for note in made.notes)

    def test_too_large_for_here(self, result):
        assert "--scale quarter" in refusal(["--match", result], H100S)

    def test_an_option_wins_and_is_said(self, result):
        machine = dataclasses.replace(
            H100S, gpu_info=msgspec.structs.replace(H100S.gpu_info, total_memory_gb=206.1)
        )
        made = plan(["--match", result, "--steps", "20", "--precision", "fp32"], machine)
        assert (made.requests[0].steps, made.requests[0].precision) == (20, "fp32")
        said = "; ".join(made.notes)
        assert "steps 500 there, 20 here, as requested" in said
        assert "bf16 there, fp32 here, as requested" in said

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            (["--scale", "tiny"], "--scale and --match cannot be combined"),
            (["--model", "qwen"], "is a result of llama"),
            (["--model", "all"], "is a result of llama"),
        ],
    )
    def test_contradictions(self, result, more, words):
        assert words in refusal(["--match", result, *more])

    def test_no_such_file(self):
        assert "nowhere.json: no such file" in refusal(["--match", "nowhere.json"])


class TestDryRun:
    def test_shows_the_exact_command_and_runs_nothing(self, fake, tmp_path, capsys):
        fake("fail")
        assert (
            run("benchmark", ["--dry-run", "--model", "llama", "--steps", "7", "--label", "mine"])
            == 0
        )
        shown = capsys.readouterr().out
        assert "--steps=7" in shown
        assert "PYTHONPATH=" in shown
        assert "output/benchmark_cpu_llama_mine.json" in shown
        assert "smoke test" in shown
        assert list(tmp_path.iterdir()) == []

    def test_results_of_one_name(self, monkeypatch, capsys):
        monkeypatch.setattr(platforms, "detect", lambda: H100S)
        row = dataclasses.replace(frameworks.by_name("lightning"), packages=())
        monkeypatch.setattr(frameworks, "FRAMEWORKS", (row,))
        assert run("benchmark", ["--dry-run", "--model", "llama", "--gpus", "2,4"]) == 0
        results = [
            line for line in capsys.readouterr().out.splitlines() if line.startswith("result: ")
        ]
        assert len(results) == 2
        # Each has a file of its own.
        assert len(set(results)) == 2
        assert all(str(Path("output/benchmark_cuda_llama")) in each for each in results)

    def test_torchrun_for_several_gpus(self, monkeypatch, capsys):
        monkeypatch.setattr(platforms, "detect", lambda: H100S)
        row = dataclasses.replace(frameworks.by_name("lightning"), packages=())
        monkeypatch.setattr(frameworks, "FRAMEWORKS", (row,))
        assert run("benchmark", ["--dry-run", "--gpus", "4"]) == 0
        shown = capsys.readouterr().out
        assert "--nproc-per-node=4" in shown


def interrupted_while_hanging(logs):
    """Send Ctrl-C to this process once a training hangs."""

    def interrupt():
        while not any("hanging" in log.read_text() for log in logs.glob("*.log")):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()


class TestMeasuring:
    def test_all_goes_well(self, fake, tmp_path, capsys):
        assert (
            run("benchmark", ["--runs", "2", "--model", "llama,qwen", "--steps", "60"])
            == ExitStatus.OK
        )
        shown = capsys.readouterr()
        (line,) = (
            line
            for line in shown.out.splitlines()
            if line.startswith("[3/4] llama fp32, run 2 of 2")
        )
        assert "60 steps  0.100 s/step" in line
        assert line.endswith(" s left")
        assert "BENCHMARK START" not in shown.out
        assert "a library's warning" not in shown.out + shown.err
        assert "llama  2/2   60     0.100 s" in shown.out
        assert "smoke test" not in shown.out
        assert "Next:    tprimat compare\n" in shown.out
        assert len(store.read(tmp_path / "output" / "benchmark_cpu_llama.json")) == 2
        logs = sorted((tmp_path / "output" / "logs").iterdir())
        assert len(logs) == 4
        assert all("a library's warning" in log.read_text() for log in logs)
        assert all("BENCHMARK START" in log.read_text() for log in logs)

    @pytest.mark.parametrize("option", ["--verbose", "--training-lines"])
    def test_the_lines_of_the_trainings_on_request(self, fake, capsys, option):
        assert (
            run("benchmark", ["--runs", "2", "--model", "llama", "--steps", "60", option])
            == ExitStatus.OK
        )
        shown = capsys.readouterr().out
        assert shown.count("\nBENCHMARK START\n") == 2
        assert "\n[2/2] llama fp32, run 2 of 2\n" in shown

    def test_it_ends_with_what_compare_results_says(self, fake, capsys):
        words = [
            "--runs",
            "2",
            "--model",
            "llama",
            "--micro-batch-size",
            "1,2",
            "--global-batch-size",
            "2",
        ]
        assert run("benchmark", [*words, "--steps", "60"]) == ExitStatus.OK
        measured = capsys.readouterr().out
        assert run("compare", ["--quiet", "output"]) == ExitStatus.OK
        headline, certainty = capsys.readouterr().out.splitlines()
        assert f"\n{headline}\n{certainty}\n" in measured
        assert "micro1" in headline
        assert "micro2" in headline
        assert run("benchmark", [*words, "--steps", "60"]) == ExitStatus.OK
        assert capsys.readouterr().out.count("2/2 and 2 earlier runs") == 2

    def test_many_runs_with_the_same_note_are_counted(self, fake):
        made = plan(["--model", "llama", "--runs", "5"])
        reached = "the time limit of 12.0 s was reached"
        runs = [
            Run(
                status_reason=None if number == 5 else f"{number} of max_steps=60 steps: {reached}",
                **series((0.1,) * number),
            )
            for number in range(1, 6)
        ]
        groups = [(made.requests[0], [(each, summarize(each)) for each in runs])]
        assert closing.findings(made, groups) == [f"4 of 5 runs: {reached}"]

    @pytest.mark.parametrize(
        "warnings", [(), ("eager, since torch.compile failed: no C compiler",)]
    )
    def test_what_the_recorder_warns_of_is_said(self, fake, warnings):
        made = plan(["--model", "llama"])
        one = Run(notes=notes_of(*warnings), **series((0.1,) * 60))
        found = closing.findings(made, [(made.requests[0], [(one, summarize(one))])])
        assert found == [f"llama fp32: {text}" for text in warnings]

    @pytest.mark.parametrize(("planned", "steps"), [(60, "60 "), (90, "60 of 90 ")])
    def test_a_run_that_was_ended_early_shows_its_planned_steps(
        self, fake, tmp_path, capsys, planned, steps
    ):
        made = plan(["--model", "llama"])
        one = make_run()
        one = msgspec.structs.replace(
            one, training_config=msgspec.structs.replace(one.training_config, max_steps=planned)
        )
        closing.results(
            made, [(made.requests[0], [(one, summarize(one))])], [store.save(one, tmp_path).path]
        )
        assert f" 1/1 {steps}" in " ".join(capsys.readouterr().out.split())

    def test_how_far_it_is_from_a_published_result_is_said(self, fake, tmp_path, capsys):
        made = plan(["--model", "llama"])
        one = make_run(
            step_time=12.0,
            warmup=(30.0,),
            batch=128,
            length=8192,
            precision="fp8",
            framework="lightning",
        )
        closing.results(
            made, [(made.requests[0], [(one, summarize(one))])], [store.save(one, tmp_path).path]
        )
        shown = " ".join(capsys.readouterr().out.split())
        assert "reaches 76% of the published result" in shown
        assert "megatron_bridge, here lightning; " in shown
        assert "Possible causes of the gap: a different framework" in shown

    def test_it_cools_down_between_the_runs_which_are_pooled(self, fake, tmp_path, capsys):
        assert (
            run(
                "benchmark",
                ["--runs", "3", "--model", "llama", "--steps", "60", "--cooldown", "0.01"],
            )
            == 0
        )
        assert capsys.readouterr().out.count("waiting 0.01 s") == 2
        assert len(store.read(tmp_path / "output" / "benchmark_cpu_llama.json")) == 3

    def test_a_smoke_test_is_named(self, fake, capsys):
        run("benchmark", ["--model", "qwen", "--steps", "59"])
        assert capsys.readouterr().out.count("smoke test only: 59 steps recorded") == 1

    def test_a_failure_leaves_the_others_their_turn(self, fake, tmp_path, capsys):
        fake("fail")
        assert run("benchmark", ["--steps", "60"]) == ExitStatus.TRAINING_FAILED
        shown = capsys.readouterr()
        assert "error: [1/3] llama fp32: " in shown.err
        assert "RuntimeError: no such kernel" in shown.err
        assert "full log: output/logs/benchmark_cpu_llama_" in shown.err
        assert sorted(path.name for path in (tmp_path / "output").glob("*.json")) == [
            "benchmark_cpu_mistral.json",
            "benchmark_cpu_qwen.json",
        ]
        assert "0/1" in next(
            line
            for line in shown.out.splitlines()
            if line.startswith("llama ") and "failed" in line
        )

    def test_ctrl_c_keeps_what_there_is_and_ends_the_rest(self, fake, tmp_path, capsys):
        fake("hang")
        logs = tmp_path / "output" / "logs"
        interrupted_while_hanging(logs)
        assert run("benchmark", ["--steps", "60"]) == ExitStatus.TRAINING_FAILED
        shown = capsys.readouterr()
        assert "llama fp32: interrupted" in shown.err
        rows = [" ".join(line.split()) for line in shown.out.splitlines() if "/1 " in line]
        assert rows[0].startswith("llama 0/1 2 ")
        assert rows[0].endswith(" incomplete")
        assert rows[1:] == ["qwen 0/1 – – – not run", "mistral 0/1 – – – not run"]
        assert "earlier" not in shown.out
        (kept,) = store.read(tmp_path / "output" / "benchmark_cpu_llama.json")
        assert (kept.status, kept.steps) == ("incomplete", (1, 2))
        assert len(list(logs.iterdir())) == 1
        assert "Next:    tprimat benchmark --steps 60 --resume" in shown.out

    def test_ctrl_c_in_the_first_of_two_configurations_names_both(self, fake, tmp_path, capsys):
        fake("hang")
        interrupted_while_hanging(tmp_path / "output" / "logs")
        run(
            "benchmark",
            [
                "--model",
                "llama",
                "--micro-batch-size",
                "1,2",
                "--global-batch-size",
                "2",
                "--runs",
                "2",
            ],
        )
        rows = [
            " ".join(line.split()) for line in capsys.readouterr().out.splitlines() if "/2 " in line
        ]
        assert [(row.split()[:3], row.rpartition("tokens/s")[2].split()[-1]) for row in rows] == [
            (["llama", "micro1", "0/2"], "incomplete"),
            (["llama", "micro2", "0/2"], "run"),
        ]

    def test_a_result_of_another_setup_has_a_file_of_its_own(self, fake, tmp_path, capsys):
        run("benchmark", ["--model", "llama", "--sequence-length", "64"])
        run("benchmark", ["--model", "llama", "--sequence-length", "128"])
        shown = " ".join(capsys.readouterr().out.split())
        assert "moved" not in shown
        names = sorted((path.name for path in (tmp_path / "output").glob("*.json")), key=len)
        assert len(names) == 2
        assert names[0] == "benchmark_cpu_llama.json"
        assert names[1] in shown

    def test_another_folder_is_named_to_the_next_command(self, fake, capsys):
        run("benchmark", ["--model", "llama", "--output-dir", "my results"])
        assert "Next:    tprimat compare 'my results'" in capsys.readouterr().out

    def test_an_unwritable_folder(self, fake, tmp_path, capsys):
        (tmp_path / "output").write_text("")
        assert run("benchmark", ["--model", "llama"]) == ExitStatus.USAGE
        assert "choose another --output-dir" in capsys.readouterr().err


class TestTimeLeft:
    @pytest.mark.parametrize(
        ("step", "average", "limit", "left"),
        [
            (10, 0.5, None, 25.0),
            (10, 0.5, 20.0, 15.0),
            (10, 0.5, 4.0, 0.0),
            (60, 0.5, None, 0.0),
            (1, None, None, 0.0),
        ],
    )
    def test_by_the_pace_and_the_limit(self, step, average, limit, left):
        message = Step(step, 60, average, average)
        assert display.time_left(message, limit) == left


class TestBesideTheBar:
    @pytest.mark.parametrize(
        ("room", "said"),
        [
            (80, "0.500 s/step, 512 tokens/s, loss 7.125, 0.69 GB, 25.0 s left"),
            (56, "0.500 s/step, 512 tokens/s, loss 7.125, 25.0 s left"),
            (45, "0.500 s/step, 512 tokens/s, 25.0 s left"),
            (30, "0.500 s/step, 25.0 s left"),
            (5, "0.500 s/step"),
        ],
    )
    def test_what_matters_least_gives_way(self, room, said):
        (request,) = plan(["--model", "llama"]).requests
        message = Step(10, 60, 0.5, 0.5, 7.125, 0.69)
        assert display.pace_of(message, request, room, 25.0) == said

    def test_what_is_unknown_is_left_out(self):
        (request,) = plan(["--model", "llama"]).requests
        assert display.pace_of(Step(1, 60, None, None), request, 80, 0.0) == ""


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals there")
class TestTerminal:
    def test_a_bar_in_eighty_columns_without_colour(self, tmp_path, repository):
        pytest.importorskip("rich")
        import pty

        script = tmp_path / "show.py"
        script.write_text(
            "import dataclasses, time\nfrom pathlib import Path\nfrom tprimat.measure import"
            " display\nfrom tprimat.record.progress import Step\nfrom tprimat.frameworks.request"
            " import Request\nrequest = Request('lightning', 'cpu', 'llama', 'tiny', 'fp32', 60, 2,"
            " 2, 128, 1, 1, Path('/x'), 600.0)\ntitle = '[11/12] mistral bf16, run 2 of 2'\nwith"
            " display.following(title, request, lines=False, rest=lambda _: 45.0) as (on_line,"
            " on_message):\n    on_line('hidden')\n    on_message(Step(30, 60, 0.5, 0.5))\n   "
            " time.sleep(1.2)\n"
        )
        leader, follower = pty.openpty()
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "NO_COLOR": "1",
            "COLUMNS": "80",
            "PYTHONPATH": str(repository),
        }
        child = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=environment,
        )
        os.close(follower)
        shown = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        os.close(leader)
        assert child.wait() == 0
        text = shown.decode()
        assert "hidden" not in text
        assert "[11/12] mistral bf16, run 2 of 2" in text
        assert "30/60" in text
        assert "0.500 s/step" in text
        assert "1 min 00 s left" in text
        assert "\x1b[3" not in text  # no color


def test_end_to_end(tmp_path, repository):
    """The real thing: one model, three steps, through the script at the root, from another
    directory.
    """
    for package in ("torch", "lightning", "transformers"):
        pytest.importorskip(package)
    done = subprocess.run(
        [
            sys.executable,
            str(repository / "benchmark.py"),
            "--model",
            "mistral",
            "--steps",
            "3",
            "--scale",
            "tiny",
            "--precision",
            "fp32",
        ],
        cwd=tmp_path,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "[1/1] mistral fp32" in done.stdout
    assert "Recorded llama" not in done.stdout
    (log,) = (tmp_path / "output" / "logs").iterdir()
    assert "Recorded " in log.read_text()
    assert "smoke test only" in done.stdout
    assert re.search(r"Next:    python3 \S+/__main__\.py compare\n", done.stdout)
    content = json.loads((tmp_path / "output" / "benchmark_cpu_mistral.json").read_text())
    assert (content["status"], content["framework"], content["scale"]) == (
        "complete",
        "lightning",
        "tiny",
    )
    assert content["steps"] == [1, 2, 3]
    assert content["data"]["kind"] == "markov"
    assert content["model_config"]["num_parameters"] == 4_458_752
    assert {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & set(content["environment"]["settings"])
