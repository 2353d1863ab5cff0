"""Where each setting of a training is from: the user, a result that is matched, the launcher, a
default.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from made_runs import make_run, shape

from tprimat import console
from tprimat.cli.options import benchmark
from tprimat.frameworks import by_name, search_space
from tprimat.frameworks.request import Device, Request, RequestedConfig
from tprimat.measure import display, plan, sweep
from tprimat.store import store

H100S = Device("nvd", 8, 80e9, "sm_90", "NVIDIA H100 80GB HBM3")
MACHINE = SimpleNamespace(gpu_info=SimpleNamespace(device_name="NVIDIA H100 80GB HBM3"))


@pytest.fixture
def resolved(tmp_path):
    def request(*words, framework="lightning", notes=None, options=None):
        options = options or benchmark.parser().parse_args(words)
        row = by_name(framework)
        requested = plan.requested_config(options, H100S, row, [] if notes is None else notes)[1]
        return row.resolve_config("llama", requested, H100S, tmp_path)[0]

    return request


@pytest.fixture
def result(tmp_path):
    run = make_run(
        model_config=shape(hidden_size=256, num_layers=4, vocab_size=8000), batch=64, length=512
    )
    return str(store.save(run, tmp_path / "results").path)


def test_what_the_user_gives_and_what_is_left_open(resolved):
    request = resolved("--steps", "9", "--recomputation", "full")
    assert request.origins == {"steps": "user", "recomputation": "user", "time_limit_s": "user"}
    assert request.steps == 9


def test_a_result_that_is_matched_and_what_the_user_changes_of_it(resolved, result):
    notes = []
    request = resolved("--match", result, "--global-batch-size", "128", notes=notes)
    assert request.origins["sequence_length"] == request.origins["precision"] == result
    assert (request.sequence_length, request.global_batch_size) == (512, 128)
    assert request.origins["global_batch_size"] == "user"
    assert f"{result}: global batch size 64 there, 128 here, as requested" in notes


def test_the_launcher_says_how_many_processes_train(resolved, monkeypatch):
    options = benchmark.parser().parse_args(["--framework", "nemo"])
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    request = resolved(options=options, framework="nemo")
    assert (request.num_gpus, request.origins["num_gpus"]) == (4, "launcher")


def test_a_smaller_scale_for_the_memory_is_no_wish(tmp_path):
    request, _ = by_name("nemo").resolve_config(
        "llama", RequestedConfig(), Device("nvd", 1, 80e9, "sm_90"), tmp_path
    )
    assert (request.scale, request.origins["scale"]) == ("quarter", "default")


def test_origins_are_no_part_of_a_training(resolved):
    one, other = resolved("--steps", "200"), resolved()
    assert one == other
    assert sweep.digest(one, MACHINE) == sweep.digest(other, MACHINE)
    assert Request.from_arguments(one.to_arguments()) == one


@pytest.mark.parametrize(("framework", "shows"), [("lightning", True), ("automodel", False)])
def test_a_dry_run_states_each_setting_with_its_origin(resolved, framework, shows, tmp_path):
    request = resolved("--seed", "7", framework=framework)
    with console.capture_output(console.Verbosity.JSON, lambda: str) as output:
        display.show(
            plan.Plan((by_name(framework),), (request,), tmp_path), [tmp_path / "result.json"]
        )
    (shown,) = output.values["commands"]
    settings = shown["settings"]
    assert settings["seed"] == {"value": 7, "set_by": "user"}
    assert settings["steps"]["set_by"] == "default"
    # What a framework does by itself isn't what the request's default says.
    assert ("recomputation" in settings) == shows
    assert "framework" not in settings


def test_what_a_search_or_a_sweep_chooses(resolved, tmp_path):
    wish = RequestedConfig(steps=9, sequence_length=512)
    space = search_space.space_of(by_name("fsdp"), "llama", wish, (), H100S, tmp_path)
    origins = space.candidates[-1].request.origins
    assert {
        name: origins[name]
        for name in ("steps", "sequence_length", "global_batch_size", "attention")
    } == {
        **dict.fromkeys(("steps", "sequence_length"), "user"),
        "global_batch_size": "default",
        "attention": "--tune",
    }
    options = benchmark.parser().parse_args(["--micro-batch-size", "1,2"])
    machine = SimpleNamespace(
        platform="cpu",
        unusable_gpu=None,
        warnings=(),
        environment=SimpleNamespace(cpu_threads=4, lacks_bf16=False),
        gpu_info=SimpleNamespace(total_memory_gb=64.0),
        devices=(),
    )
    swept = plan.plan_of(options, by_name("lightning"), machine).requests[0]
    assert (swept.label, swept.origins["label"], swept.origins["micro_batch_size"]) == (
        "micro1",
        "default",
        "user",
    )
