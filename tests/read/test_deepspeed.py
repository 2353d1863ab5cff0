"""DeepSpeed: throughput timer, pipeline engine, breakdown, flops profiler; also within Megatron."""

import pytest
import read_truth
from cut_logs import cut

from tprimat import read
from tprimat.read.parsing import text


def runs_of_text(content: str):
    return read.read(text.lines([content.encode()]), "a log")


@pytest.mark.parametrize(
    "name",
    [
        "bigscience_meg_ds_3d_old_n16.log",
        "bigscience_meg_ds_3d_n16_dson.log",
        "dschat_step1_opt1.3b_gbs128.log",
        "flops_profiler_readme_bert.log",
    ],
)
def test_a_real_log_is_read_as_its_truth_says(name, samples, truth):
    expected = truth("deepspeed")[name]
    (run,) = read_truth.runs_of(samples / "deepspeed" / name)
    assert read_truth.check(run, expected) == []
    extra = expected.get("extra", {})
    if "samples_per_second_global" in extra:
        printed = dict(zip(run.steps, run.native_metrics["samples_per_second"], strict=True))
        assert {step: printed[int(step)] for step in extra["samples_per_second_global"]} == (
            extra["samples_per_second_global"]
        )
    if "iter_latency_s" in extra:
        assert run.native_metrics["profile_step_seconds"] == pytest.approx(extra["iter_latency_s"])
        assert run.native_metrics["profile_samples_per_second"] == extra["samples_per_second"]
        assert run.native_metrics["profile_tflops_per_gpu"] == pytest.approx(
            extra["fwd_bwd_tflops_per_gpu"]
        )
        assert run.native_metrics["profile_step"] == extra["profile_step"]
        assert run.breakdown == pytest.approx(
            {"forward": 0.07667, "backward": 0.10802, "optimizer": 3.409e-5}
        )


PREFIX = "[2024-01-01 10:00:{second:02d},000] [INFO] [timer.py:264:stop] "
CONFIG = (
    "[2024-01-01 10:00:00,000] [INFO] [config.py:1001:print]   train_batch_size ............."
    " 64\n[2024-01-01 10:00:00,000] [INFO] [config.py:1001:print]   train_micro_batch_size_per_gpu "
    " 8\n[2024-01-01 10:00:00,000] [INFO] [config.py:1001:print]   world_size ..................."
    " 8\n[2024-01-01 10:00:00,000] [INFO] [config.py:1001:print]   bfloat16_enabled ............."
    " True\n[2024-01-01 10:00:00,000] [INFO] [config.py:1001:print]   zero_optimization_stage"
    " ...... 2\n"
)


def timer(step, rate):
    return (
        PREFIX.format(second=step % 60)
        + f"epoch=0/micro_step={step}/global_step={step}, RunningAvgSamplesPerSec={rate},"
        f" CurrSamplesPerSec={rate}, MemAllocated=1.0GB, MaxMemAllocated=2.0GB\n"
    )


def test_times_are_the_batch_over_the_rate_of_the_last_step():
    (run,) = runs_of_text(CONFIG + timer(10, 128.0) + timer(20, 64.0))
    assert run.step_times == (0.5, 1.0)
    assert run.window_steps == (1, 1)
    assert run.training_config.known() == {
        "global_batch_size": 64, "micro_batch_size": 8, "num_gpus": 8, "precision": "bf16",
    }  # fmt: skip
    assert run.parallelism_config.strategy_name == "DeepSpeed ZeRO stage 2"
    assert run.memory_metrics.peak_memory_allocated_gb == pytest.approx(2.147, abs=1e-3)


def test_without_a_batch_there_are_rates_and_no_times():
    (run,) = runs_of_text(timer(10, 128.0))
    assert run.step_times == (None,)
    assert run.native_metrics["samples_per_second"] == (128.0,)
    assert any(
        "global batch size" in warning and "no step times" in warning for warning in run.warnings
    )


def test_older_forms_of_the_timer():
    log = (
        "[Rank 0] step=10, skipped=1, lr=[0.001, 0.002], mom=[(0.9, 0.999)]\n"
        "[INFO] [timer.py:157:stop] 0/10, SamplesPerSec=12.5\n"
        "[Rank 0] step=20, skipped=1, lr=[0.0005], mom=[(0.9, 0.999)]\n"
        "[INFO] [timer.py:193:stop] 1/4, RunningAvgSamplesPerSec=12.6, CurrSamplesPerSec=13.0\n"
    )
    (run,) = runs_of_text(log)
    assert run.steps == (10, 20)
    assert run.learning_rates == (0.001, 0.0005)
    assert run.native_metrics["running_samples_per_second"] == (12.5, 12.6)


def test_a_pipeline_line_is_a_mean():
    log = "".join(
        f"steps: {n} loss: {3 - n / 100:.4f} iter time (s): 1.5 samples/sec: 42.667\n"
        for n in (10, 20, 30)
    )
    (run,) = runs_of_text(log)
    assert run.window_steps == (10, 10, 10)
    assert run.step_times == (1.5, 1.5, 1.5)
    assert run.loss_values == (2.9, 2.8, 2.7)


def test_the_breakdown_leaves_the_first_print_out():
    parts = (
        "[Rank 0] time (ms) | fwd: {0:.2f} | bwd: {1:.2f} | bwd_inner: 1.0 | bwd_allreduce: 0.5 |"
        " step: {2:.2f}\n"
    )
    log = (
        CONFIG
        + timer(10, 64.0)
        + parts.format(900, 900, 900)
        + timer(20, 64.0)
        + parts.format(10, 20, 5)
    )
    (run,) = runs_of_text(log)
    assert run.breakdown["fwd"] == pytest.approx(0.01)
    assert run.breakdown["bwd"] == pytest.approx(0.02)
    assert run.breakdown["step"] == pytest.approx(0.005)


def test_an_engine_that_dies_before_its_first_step_is_a_failed_training():
    (run,) = runs_of_text(
        CONFIG + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    )
    assert run.status == "failed"
    assert "OutOfMemoryError" in run.status_reason


def test_cut_anywhere(samples):
    content = (samples / "deepspeed" / "dschat_step1_opt1.3b_gbs128.log").read_bytes()[:6000]
    whole = [171.97903593624417, 171.4073346136102, 171.8685942346471]
    for _, runs in cut(content, range(0, len(content), 97)):
        for run in runs:
            rates = [
                rate
                for rate in run.native_metrics.get("samples_per_second", ())[:3]
                if rate is not None
            ]
            assert rates == whole[: len(rates)]


def test_megatron_deepspeeds_line_and_the_timer_are_one_training():
    line = (
        " iteration {0:8d}/     100 | consumed samples: {1:12d} | consumed tokens: 4096 | elapsed"
        " time per iteration (ms): 500.0 | learning rate: 1.0E-04 | global batch size:    64 | lm"
        " loss: 5.0E+00 | loss scale: 1.0 | grad norm: 0.000 | actual seqlen:  2048 | number of"
        " skipped iterations:   0 | number of nan iterations:   0 | samples per second: 128.0 |"
        " tokens per gpu per second (tgs): 4096.000 | TFLOPs: 99.00 |\n"
    )
    (run,) = runs_of_text(
        "".join(timer(step, 130.0) + line.format(step, 64 * step) for step in (1, 2, 3))
    )
    assert run.framework == "deepspeed"
    assert run.step_times == (0.5, 0.5, 0.5)
    assert run.training_config.sequence_length == 2048
    assert run.native_metrics["tokens_per_second_per_gpu"] == (4096.0,) * 3
    assert run.native_metrics["samples_per_second"] == (130.0,) * 3
    # The engine keeps the norm to itself; a printed 0.000 is none.
    assert run.grad_norms == (None, None, None)
    assert any("include recomputation" in warning for warning in run.warnings)
