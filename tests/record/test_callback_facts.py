"""What the callback finds out, takes over, and prints, in real runs on the CPU."""

from __future__ import annotations

import types

import pytest
from stored_runs import notes_of

from tprimat.compare import Loaded, compare
from tprimat.errors import UsageError
from tprimat.notes.catalogue import words
from tprimat.record import result
from tprimat.report.verdict import report
from tprimat.results.run import Environment, ModelConfig, Run, TrainingConfig

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's advice on runs as small as these


def test_unknown_sizes_stay_unknown_whatever_a_batch_looks_like(trainings, callback):
    import torch

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            while True:
                yield torch.randn(4, 8)

    torch.manual_seed(0)
    ours = callback()
    loader = torch.utils.data.DataLoader(Stream(), batch_size=None)
    trainings.trainer(ours, max_steps=3).fit(trainings.linear(), loader)
    run = ours.result
    assert run.training_config.global_batch_size is None
    assert run.training_config.micro_batch_size is None
    assert run.training_config.sequence_length is None
    assert all(run.step_times)
    for name in ("global_batch_size", "sequence_length"):
        assert any(
            warning.startswith(f"{name} unknown: neither an argument") for warning in run.warnings
        )


def test_a_stated_batch_that_contradicts_the_trainers_is_said(trainings, callback):
    ours = callback(global_batch_size=128, sequence_length=8)
    trainings.fit(ours, max_steps=2)
    assert ours.result.training_config.global_batch_size == 128
    assert any(
        "128 was stated, but the trainer is configured for 2" in warning
        for warning in ours.result.warnings
    )


def test_a_contradiction_stands_in_the_headline_and_a_tiny_model_is_not_called_llama(
    trainings, callback
):
    ours = callback(model_name="llama", global_batch_size=128, sequence_length=8)
    trainings.fit(ours, max_steps=12)
    (answer,) = report(compare([Loaded("result.json", "0" * 64, (ours.result,))])).answers
    assert "128 was stated, but the trainer is configured for 2" in answer.verdict.headline
    assert answer.model.title.startswith("a model of ")
    assert answer.model.title.endswith(" parameters, named llama")


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"global_batch_size": 8}, []),
        ({"global_batch_size": 16}, ["global_batch_size 16 was stated, but the training shows 8"]),
        ({"sequence_length": 64, "num_gpus": 2}, [
            "sequence_length 64 was stated, but the training shows 32",
            "num_gpus 2 was stated, but the training shows 1",
        ]),
    ],
)  # fmt: skip
def test_what_a_caller_states_otherwise_than_the_training_shows_is_said(stated, told):
    shown = Run(
        training_config=TrainingConfig(global_batch_size=8, sequence_length=32, num_gpus=1),
        model_config=ModelConfig(num_layers=2),
    )
    notes = result.contradictions(Run(training_config=TrainingConfig(**stated)), shown)
    assert [words(note).partition(": ")[0] for note in notes] == told
    (layers,) = result.contradictions(Run(model_config=ModelConfig(num_layers=32)), shown)
    assert words(layers) == (
        "num_layers 32 was stated, but the training shows 2: they can't both be true; the stated one"
        " is used"
    )


def test_a_setup_is_kept_and_arguments_win(trainings, callback):
    setup = Run(
        platform="nvd",
        framework="mine",
        model="qwen",
        scale="tiny",
        label="from setup",
        model_config=ModelConfig(num_layers=2, hidden_size=64),
        training_config=TrainingConfig(
            max_steps=3, global_batch_size=4, sequence_length=16, precision="bf16", seed=7
        ),
        environment=Environment(settings={"A": "b"}),
        notes=notes_of("said before"),
    )
    ours = callback(
        setup=setup, label="from argument", global_batch_size=2, model_config={"num_layers": 3}
    )
    trainings.fit(ours, max_steps=3)
    run = ours.result
    assert (run.platform, run.framework, run.model, run.scale, run.label) == (
        "cpu",
        "mine",
        "qwen",
        "tiny",
        "from argument",
    )
    assert (run.model_config.num_layers, run.model_config.hidden_size) == (3, 64)
    assert (run.training_config.global_batch_size, run.training_config.sequence_length) == (2, 16)
    assert (run.training_config.precision, run.training_config.seed) == ("bf16", 7)
    assert run.environment.settings == {"A": "b"}
    assert run.environment.hostname
    assert run.warnings[0] == "said before"


def test_gradient_norms_are_taken_where_the_module_keeps_them(trainings, callback):
    import torch

    class Clips(trainings.linear):
        def __init__(self):
            super().__init__()
            self.grad_norm = None
            self.norms = []

        def configure_gradient_clipping(
            self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None
        ):
            self.grad_norm = torch.nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)
            self.norms.append(float(self.grad_norm))

    ours = callback()
    module = trainings.fit(ours, Clips(), max_steps=5, gradient_clip_val=0.5)
    assert ours.result.grad_norms == pytest.approx(module.norms)
    assert ours.result.optimizer.gradient_clipping == 0.5
    assert not any("gradient norm" in warning for warning in ours.result.warnings)


def test_what_nemo_logs_wins_over_the_rank_s_own_loss(trainings, callback):
    import torch

    class Logs(trainings.linear):
        def training_step(self, batch, batch_idx):
            self.log("reduced_train_loss", torch.tensor(10.0 + batch_idx), prog_bar=True)
            if batch_idx != 2:
                self.log("grad_norm", torch.tensor(0.5 + batch_idx))
            return super().training_step(batch, batch_idx)

    ours = callback()
    trainings.fit(ours, Logs(), max_steps=4)
    assert ours.result.loss_values == (10.0, 11.0, 12.0, 13.0)
    # Step 3 logged none, and has none of another step's.
    assert ours.result.grad_norms == (0.5, 1.5, None, 3.5)


def test_a_loss_that_is_not_finite_is_named(trainings, callback):
    import torch

    class Breaks(trainings.linear):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            return loss * torch.tensor(float("nan")) if batch_idx == 2 else loss

    ours = callback()
    trainings.fit(ours, Breaks(), max_steps=3)
    assert ours.result.loss_values[2] is None
    assert "loss is not a number at step 3" in ours.result.warnings


@pytest.mark.parametrize(
    ("precision", "ours", "detail"),
    [("bf16-mixed", "bf16", "bf16-mixed"), ("64-true", "fp64", "64-true")],
)
def test_precisions_have_our_names_and_the_frameworks(trainings, callback, precision, ours, detail):
    watch = callback()
    module = trainings.linear()
    if precision == "64-true":
        module = module.double()
    trainings.fit(watch, module, max_steps=2, precision=precision)
    config = watch.result.training_config
    assert (config.precision, config.precision_detail) == (ours, detail)


def test_parameters_tell_more_than_a_trainers_default(trainings, callback):
    import torch

    class Half(trainings.linear):
        def training_step(self, batch, batch_idx):
            return super().training_step(batch.to(torch.bfloat16), batch_idx)

    ours = callback()
    trainings.fit(ours, Half().to(torch.bfloat16), max_steps=2)
    config = ours.result.training_config
    assert (config.precision, config.precision_detail) == ("bf16", "32-true, parameters bfloat16")


def test_another_platform_than_the_trainings_is_an_error(trainings, callback):
    ours = callback(platform="cuda")
    with pytest.raises(
        UsageError, match="platform='cuda' was requested, but the training runs on cpu"
    ):
        trainings.fit(ours, max_steps=2)
    assert ours.result is None


def test_what_is_printed_has_the_form_that_users_know(trainings, callback, capsys, tmp_path):
    ours = callback(
        quiet=False, log_every=5, model_name="llama", global_batch_size=2, sequence_length=8
    )
    trainings.fit(ours, max_steps=12)
    out, errors = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("Recording on ")
    steps = [line for line in lines if line.startswith("[CPU] Step")]
    assert [line[:15] for line in steps] == ["[CPU] Step   5 ", "[CPU] Step  10 "]
    assert lines[-2] == f"Results: {tmp_path / 'output' / 'benchmark_cpu_llama.json'}"
    assert lines[-1].endswith(f" compare {tmp_path / 'output'}")
    assert "Recorded llama: 12 steps, complete" in lines
    assert "gradient norm unknown: the training logs none as grad_norm" in ours.result.warnings
    assert "gradient norm unknown" not in errors


def test_a_parent_can_show_a_bar(trainings, callback, capsys):
    seen = []
    trainings.fit(callback(log_every=2, on_step=lambda *each: seen.append(each)), max_steps=4)
    assert [each[:2] for each in seen] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert seen[0][2] == seen[0][3]
    assert all(each[4] is not None for each in seen)
    # Memory is read with the lines that are printed: here with every other step.
    assert [each[5] is not None for each in seen] == [False, True, True, True]
    assert seen[3][3] == pytest.approx(sum(each[2] for each in seen[1:]) / 3)
    assert capsys.readouterr().out == ""


def test_a_result_of_another_setup_has_a_file_of_its_own(trainings, callback, tmp_path):
    for batch in (2, 4):
        trainings.fit(callback(model_name="llama", global_batch_size=batch), max_steps=2)
    names = sorted(path.name for path in (tmp_path / "output").glob("*.json"))
    assert names == ["benchmark_cpu_llama.json", "benchmark_cpu_llama_4batch.json"]


def test_nemos_hooks_count_as_steps_too(trainings, callback):
    """No batch at first, then the last step's, with an index that counts micro-batches."""
    import torch

    module = trainings.linear()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    trainer = types.SimpleNamespace(
        strategy=types.SimpleNamespace(
            root_device=torch.device("cpu"),
            tensor_model_parallel_size=1,
            pipeline_model_parallel_size=1,
            context_parallel_size=1,
        ),
        datamodule=types.SimpleNamespace(
            global_batch_size=4, micro_batch_size=2, seq_length=128, batch_size=99
        ),
        world_size=1,
        num_devices=1,
        is_global_zero=True,
        global_step=0,
        max_steps=4,
        max_epochs=-1,
        current_epoch=0,
        should_stop=False,
        sanity_checking=False,
        accumulate_grad_batches=1,
        optimizers=[optimizer],
        precision="bf16-mixed",
        precision_plugin=types.SimpleNamespace(dtype_config=types.SimpleNamespace(fp8="hybrid")),
        lr_scheduler_configs=[],
    )
    ours = callback(model_name="llama")
    ours.setup(trainer, module, "fit")
    ours.on_fit_start(trainer, module)
    ours.on_train_start(trainer, module)
    batch = None
    for step in range(1, 5):
        ours.on_train_batch_start(trainer, module, batch, max(0, 2 * step - 3))
        batch = {"tokens": torch.zeros(2, 128)}
        trainer.global_step = step
        ours.on_train_batch_end(
            trainer, module, {"loss": torch.tensor(float(step))}, batch, 2 * step - 1
        )
    ours.on_train_end(trainer, module)
    ours.teardown(trainer, module, "fit")
    run = ours.result
    assert run.steps == (1, 2, 3, 4)
    assert run.loss_values == (1.0, 2.0, 3.0, 4.0)
    assert run.learning_rates == (0.01,) * 4
    assert run.training_config.global_batch_size == 4
    assert run.training_config.sequence_length == 128
    assert run.parallelism_config.gradient_accumulation_steps == 2
    assert (run.training_config.precision, run.training_config.precision_detail) == (
        "fp8",
        "bf16-mixed, fp8=hybrid",
    )


def test_a_strategy_that_nobody_here_knows_leaves_its_split_unknown(trainings):
    from tprimat.frameworks.lightning.description import describe
    from tprimat.results.run import TrainingConfig

    class Splitting:
        tensor_parallel_size = "auto"

    trainer = types.SimpleNamespace(
        strategy=Splitting(),
        world_size=8,
        num_devices=8,
        accumulate_grad_batches=1,
        precision="32-true",
        max_steps=5,
        train_dataloader=trainings.loader(3),
    )
    found = describe(trainer, trainings.linear(), "cpu", TrainingConfig())
    assert found.parallelism_config.tensor_model_parallel_size is None
    assert found.parallelism_config.data_parallel_size is None
    assert found.training_config.micro_batch_size == 2
    assert found.training_config.global_batch_size is None
    assert found.model_config.num_parameters is None


def test_other_processes_record_and_say_nothing(trainings, callback, capsys, tmp_path):
    ours = callback(quiet=False, log_every=1)
    trainer = trainings.trainer(ours, max_steps=3)
    # As it is on the second of two processes.
    trainer.strategy.__class__ = type(
        "Second", (type(trainer.strategy),), {"is_global_zero": False}
    )
    trainer.fit(trainings.linear(), trainings.loader(5))
    assert ours.result.steps == (1, 2, 3)
    assert ours.path is None
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "output").exists()


def test_on_a_gpu_no_step_waits_and_all_is_read_in_the_end(
    trainings, callback, capsys, monkeypatch, tmp_path
):
    """The way of a GPU, with a device of ours that lags a step and a half behind."""
    import gpu_fakes
    from fake_gpu import Cuda, Gpu

    from tprimat.machine import nvidia
    from tprimat.machine.gpu import Device
    from tprimat.machine.platforms import Machine
    from tprimat.machine.telemetry.trace import Header, Sample, Trace
    from tprimat.record import lifecycle
    from tprimat.results.run import GpuInfo

    class Both(Gpu, Cuda):
        def __init__(self):
            Gpu.__init__(self)
            Cuda.__init__(self)

    cuda = Both()
    a100 = GpuInfo(device_name="NVIDIA A100-SXM4-80GB", total_memory_gb=85.0, software_stack="cuda")
    clock, scalars, memory = lifecycle.DeviceClock, lifecycle.DeviceScalars, lifecycle.DeviceMemory
    monkeypatch.setattr(lifecycle, "platform_of", lambda device, torch, stated: "nvd")
    devices = (Device(0, a100, id=gpu_fakes.H100["uuid"].lower()),)
    monkeypatch.setattr(lifecycle, "detect", lambda: Machine("nvd", a100, Environment(), devices))
    driver = gpu_fakes.fake_host(
        tmp_path, libraries={"pynvml": gpu_fakes.FakeNvml([{**gpu_fakes.H100, "uuid": "aa-0"}])}
    )

    class Read:
        """Readings before, in and after the training, whose clock begins with 0."""

        unknown = gpus_unknown = None

        def __init__(self, platform, trains, *, with_siblings):
            self.ids = tuple(device.id for device in trains)

        def stop(self):
            gpus = nvidia.Reader(driver, self.ids).read()
            self.read = Trace(
                Header(1, "nvd", self.ids), [Sample(at, gpus) for at in (-1.0, 0.1, 0.3, 99.0)]
            )

        def so_far(self):
            return self.read

    monkeypatch.setattr(lifecycle, "Sampler", Read)
    monkeypatch.setattr(lifecycle, "DeviceClock", lambda device, _: clock(device, cuda))
    monkeypatch.setattr(lifecycle, "DeviceMemory", lambda device, _: memory(device, cuda))
    monkeypatch.setattr(lifecycle, "DeviceScalars", lambda: scalars(pin=False))
    monkeypatch.setattr(clock, "host_ns", lambda self: round(cuda.host_ms * 1e6))

    class Measured(trainings.linear):
        def on_train_batch_start(self, batch, batch_idx):
            assert cuda.waits == 1
            cuda.host_ms += 100.0
            cuda.gpu_ms = max(cuda.gpu_ms, cuda.host_ms - 150.0)
            cuda.hold(40_000_000_000, 50_000_000_000, 60_000_000_000, 70_000_000_000)

    ours = callback(quiet=False, log_every=2, model_name="llama")
    module = trainings.fit(ours, Measured(), max_steps=5)
    run = ours.result
    assert cuda.waits == 2
    assert run.step_times == pytest.approx([0.1] * 5)
    assert run.loss_values == pytest.approx(module.losses)
    assert run.timing.clock == "device_event"
    assert run.memory_metrics.known() == {
        "avg_memory_allocated_gb": 40.0,
        "peak_memory_allocated_gb": 50.0,
        "avg_memory_reserved_gb": 60.0,
        "peak_memory_reserved_gb": 60.0,
        "peak_memory_device_used_gb": 70.0,
    }
    assert run.gpu_info.device_count == 1
    assert (run.energy_metrics["power_cap_watts"], run.energy_metrics["power_default_watts"]) == (
        500.0,
        700.0,
    )
    assert [issue.sentence for issue in run.telemetry.issues] == ["power cap (500 W of 700 W)"]
    printed = capsys.readouterr()
    assert "warning: power cap (500 W of 700 W)" in printed.err.splitlines()
    out = printed.out.splitlines()
    assert "[CUDA] Step   2 | Time: 0.100s | Avg: 0.100s | Memory: 40.00GB" in out
    assert "[CUDA] Step   4 | Time: 0.100s | Avg: 0.100s | Memory: 40.00GB" in out
    assert "Memory:  50.00 GB allocated, peak" in out
