"""Every real result log of MLPerf, held against what a careful reading of it finds."""

import json
import statistics
from pathlib import Path

import msgspec
import pytest
from cut_logs import cut
from read_truth import check, runs_of
from stored_runs import series

from tprimat import read
from tprimat.analysis import account
from tprimat.analysis.efficiency.subject import Options, Subject, Value
from tprimat.analysis.summary import summarize
from tprimat.log_import.extract import with_system
from tprimat.read.mlperf import system as mlperf_system
from tprimat.read.parsing import text
from tprimat.results.result_file import decode
from tprimat.results.run import Run, TrainingConfig
from tprimat.store.store import as_file, encode

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "samples" / "mlperf"
NAMES = sorted(path.name for path in FOLDER.glob("*.txt"))


def single(samples, folder, name):
    (run,) = runs_of(samples / folder / name)
    return with_system(run, samples / folder / name)


def test_there_are_logs_to_read(samples):
    assert len(list((samples / "mlperf").glob("*.txt"))) > 60


@pytest.mark.parametrize("name", NAMES)
def test_a_real_result_is_read_whole(name, samples, truth):
    run = single(samples, "mlperf", name)
    entry = truth("mlperf")[name]
    # Records with a loss stand at other steps than those with a time: all are kept.
    timed = [step for step, time in zip(run.steps, run.step_times, strict=True) if time is not None]
    assert (len(timed), timed[0], timed[-1]) == (
        entry["records"],
        entry["first_step"],
        entry["last_step"],
    )
    assert len(run.steps) == entry["records_union"]
    stated = entry.get("window_steps_by_step") or {
        str(step): entry["window_steps"] or 1 for step in timed
    }
    windows = dict(zip(run.steps, run.window_steps, strict=True))
    assert {str(step): windows[step] for step in timed} == stated
    unlike = ("records", "first_step", "last_step", "window_steps_by_step", "window_steps")
    if "FP8 Training" in (entry.get("precision_note") or ""):
        assert run.training_config.precision == "fp8"
        unlike = (*unlike, "precision")
    assert check(run, entry, ignore=unlike) == []
    assert run.native_metrics["time_to_train_minutes"] == pytest.approx(
        entry["time_to_train_min"], abs=1e-4
    )
    assert run.gpu_info.device_count == entry["world_size"]
    if run.gpu_info.device_name != entry["accelerator"]:
        # :::SYSJSON within the log names the device as its driver does.
        assert "on line" in " ".join(run.warnings)
    assert run.native_metrics["eval_accuracy_last"] == list(entry["eval"].values())[-1]
    times = [time for time in run.step_times if time is not None][1:]
    assert statistics.fmean(times) == pytest.approx(entry["mean_step_time_s"], rel=1e-6)
    assert decode(encode(as_file([run]))) == (run,)


@pytest.mark.parametrize(
    "name", ["mlperf_flux_mllog.log", "mlperf_flux_summary.log", "mlperf_llama31_8B_pr656_tail.log"]
)
def test_a_log_of_primus_without_steps_is_a_result_without_steps(name, samples, truth):
    run = single(samples, "primus", name)
    entry = truth("primus")[name]
    assert check(run, entry) == []
    assert run.steps == ()
    extra = entry["extra"]
    if "time_to_train_min" in extra:
        assert run.native_metrics["time_to_train_minutes"] == pytest.approx(
            extra["time_to_train_min"], abs=1e-4
        )
    if "time_to_train_s" in extra:
        assert run.native_metrics["time_to_train_minutes"] * 60 == pytest.approx(
            extra["time_to_train_s"]
        )
    if "mean_step_time_s" in extra:
        assert run.native_metrics["mean_step_time_s"] == extra["mean_step_time_s"]


def test_blocks_without_figures_are_timed_by_their_own_start_and_stop(samples, truth):
    name = "mlperf_gpt_oss_20b_mllog.log"
    (run,) = runs_of(samples / "primus" / name)
    entry = truth("primus")[name]
    assert check(run, entry, ignore=("records", "step_time_s")) == []
    blocks = account.blocks(run)
    assert (len(blocks), {block.steps for block in blocks}) == (19, {384})
    assert blocks[1].duration == pytest.approx(469.157)
    assert blocks[-1].last_step == 7296
    assert (len(run.steps), set(run.window_steps)) == (19, {384})
    assert run.step_times[1] == pytest.approx(469.157 / 384)
    assert any("no step times" in warning for warning in run.warnings)
    assert summarize(run).performance.median_step_time_seconds == pytest.approx(1.22, rel=0.01)
    assert run.native_metrics["overall_samples_per_second"] == 25.38


@pytest.mark.parametrize(
    ("pattern", "seconds", "rate", "batch"),
    [
        ("v5.1_llama31_8b_AMD_8xMI355X_r?.txt", 1.0441, 31_384, 32),
        ("v5.1_llama31_8b_Nebius_8xB200_r??.txt", 0.4604, 35_583, 16),
    ],
)
def test_ten_runs_of_a_system_give_its_speed(pattern, seconds, rate, batch, samples):
    paths = sorted((samples / "mlperf").glob(pattern))
    runs = [single(samples, "mlperf", path.name) for path in paths]
    assert len(runs) == 10
    means = [summarize(run).performance for run in runs]
    assert statistics.fmean(each.avg_step_time_seconds for each in means) == pytest.approx(
        seconds, rel=2e-4
    )
    assert statistics.fmean(each.tokens_per_second_per_gpu for each in means) == pytest.approx(
        rate, rel=2e-4
    )
    assert {run.training_config.global_batch_size for run in runs} == {batch}
    # Time to train differs by how many evaluations it took, and is no speed.
    minutes = [run.native_metrics["time_to_train_minutes"] for run in runs]
    assert max(minutes) / min(minutes) > 1.05


def test_the_system_of_a_submission_is_found_by_the_names_of_its_folders(samples, tmp_path):
    log = tmp_path / "AMD" / "results" / "MI355X_box" / "llama31_8b" / "result_0.txt"
    log.parent.mkdir(parents=True)
    log.write_bytes((samples / "mlperf" / "v5.1_llama31_8b_AMD_8xMI355X_r0.txt").read_bytes())
    systems = tmp_path / "AMD" / "systems"
    systems.mkdir()
    described = json.loads((samples / "mlperf" / "systems" / "v5.1_AMD_8xMI355X.json").read_text())
    (systems / "MI355X_box.json").write_text(json.dumps(described))
    (systems / "other.json").write_text(json.dumps({**described, "number_of_nodes": "4"}))
    (read_run,) = runs_of(log)
    assert read_run.num_gpus is None
    run = with_system(read_run, log)
    assert (run.num_gpus, run.gpu_info.device_name, run.platform) == (
        8,
        "AMD Instinct MI355X",
        "amd",
    )
    assert any(
        "systems/MI355X_box.json" in warning and "precision FP8" in warning
        for warning in run.warnings
    )
    assert run.training_config.precision == "fp8"
    assert run.training_config.precision_detail == "system description: FP8 Training"
    peak, why = Subject([run], Value(31_400.0), Options()).peak
    assert peak == 5033.2
    assert why.startswith("precision fp8 from the system description; dense fp8 peak")
    (systems / "MI355X_box.json").unlink()
    assert with_system(read_run, log) == read_run


@pytest.mark.parametrize(
    "name",
    ["v5.1_llama2_70b_lora_NVIDIA_tyche_8gpu_r0.txt", "v5.0_llama2_70b_lora_Oracle_8xH200_r0.txt"],
)
def test_a_log_cut_anywhere_is_read_for_what_it_holds(name, samples):
    content = (samples / "mlperf" / name).read_bytes()
    (whole,) = read.read(text.lines([content]), name)
    losses = {loss for loss in whole.loss_values if loss is not None}
    for end, runs in cut(content, range(0, len(content), max(1, len(content) // 60)), name):
        if not runs:
            continue
        (run,) = runs
        assert {loss for loss in run.loss_values if loss is not None} <= losses
        stopped = content.find(b"}}", content.find(b'"key": "run_stop"')) + 2
        assert (run.status == "complete") == (end >= stopped)
        msgspec.json.encode(run)


def test_packed_sequences_are_recorded(samples):
    assert (
        single(
            samples, "mlperf", "v5.0_llama2_70b_lora_Oracle_8xH200_r1.txt"
        ).training_config.packing
        is True
    )
    assert (
        single(samples, "mlperf", "v5.1_llama31_8b_AMD_8xMI355X_r0.txt").training_config.packing
        is None
    )


@pytest.mark.parametrize(
    ("notes", "precision"),
    [
        ("FP8 Training", "fp8"),
        ("trained in MXFP4, see README", "mxfp4"),
        ("NVFP4", "fp4"),
        ("bf16", "bf16"),
        ("FP8 forward, BF16 backward", None),
        ("maxtext commit/07700cbfp8d3e93a9a164aaab9a3b39b0d46615288d", None),
        ("Container: nvcr.io/nvdlfwea/mlperftv51/llama31_8b-amd:20251006", None),
        ("N/A", None),
        ("", None),
    ],
)
def test_a_precision_is_taken_from_a_system_description_that_names_one_only(notes, precision):
    system = mlperf_system.of({"accelerator_model_name": "AMD Instinct MI355X", "sw_notes": notes})
    assert system.precision == precision
    run = Run(framework="mlperf", **series((1.0,)), training_config=TrainingConfig(num_gpus=8))
    config = mlperf_system.applied(run, system, "here").training_config
    assert (config.precision, config.num_gpus) == (precision, 8)
    stated = TrainingConfig(precision="bf16", num_gpus=8)
    run = msgspec.structs.replace(run, training_config=stated)
    assert mlperf_system.applied(run, system, "here").training_config == stated
