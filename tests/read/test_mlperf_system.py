"""What describes the machine of an MLPerf log: the description that can be true, and never an error
text.
"""

from __future__ import annotations

import json
from pathlib import PurePath, PurePosixPath

import msgspec
import pytest
from made_files import OTHER_LOGS
from made_mlperf import BEGUN, SYSTEM, mlperf_log, read_log, submission
from made_runs import make_run
from stored_runs import findings_of, text_of

from tprimat.catalog import gpus
from tprimat.cli import run
from tprimat.compare import Loaded, compare
from tprimat.log_import import extract, sources
from tprimat.log_import.given import GivenValues
from tprimat.notes import Note
from tprimat.read.mlperf import system
from tprimat.report import tables
from tprimat.results.run import GpuInfo

GB300 = GpuInfo(device_name="NVIDIA GB300")

FAILED = (
    "No devices were found",
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
    "Failed to initialize NVML: Driver/library version mismatch",
    "bash: rocm-smi: command not found",
    "Unable to determine the device handle for GPU0000:19:00.0: Unknown Error",
)
"""What tools print in the place of a GPU's name."""


def within(**fields: str) -> str:
    return f"0: :::SYSJSON {json.dumps({**SYSTEM, **fields})}\n"


@pytest.mark.parametrize("name", FAILED)
def test_an_error_text_beats_no_description_beside_the_log(name, tmp_path):
    broken = within(
        accelerator_model_name=name, accelerators_per_node="1", accelerator_memory_capacity=name
    )
    (run,) = submission(tmp_path, [mlperf_log(before=broken)])
    assert (run.gpu_info.device_name, run.num_gpus, run.platform) == ("NVIDIA B200", 8, "nvd")
    assert run.gpu_info.total_memory_gb == 180
    assert any(f"error text for its GPU: {name}" in warning for warning in run.warnings)
    assert any(
        "systems/machine.json beside the log: GPUs 8, GPU NVIDIA B200" in warning
        for warning in run.warnings
    )


@pytest.mark.parametrize("name", FAILED)
def test_alone_it_says_nothing_of_the_gpus(name):
    run = read_log(
        mlperf_log(before=within(accelerator_model_name=name, accelerators_per_node="1"))
    )
    assert (run.gpu_info.device_name, run.num_gpus, run.platform) == (None, None, None)


@pytest.mark.parametrize(
    "name",
    [
        *(gpu.title for gpu in gpus.gpus()),
        "NVIDIA GeForce RTX 4090",
        "AMD Radeon Graphics",
        "TPU-trillium",
        "Intel Gaudi3",
    ],
)
def test_no_name_of_a_gpu_is_an_error_text(name):
    assert not gpus.is_error(name)


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("training_results_v5.1/Nebius/results/b200/llama31_8b/result_0.txt", "v5.1"),
        ("logs/v4.1_gpt3_NVIDIA_r0.txt", "v4.1"),
        ("mlperf-training-v5.0/result_0.txt", "v5.0"),
        ("v5.1/result_0.txt", "v5.1"),
        ("megatron_v2.3/result_0.txt", None),
        ("v5.10/result_0.txt", None),
        ("result_v5.1.txt", None),
    ],
)
def test_the_round_is_that_of_the_path(path, known):
    assert system.round_of(PurePath(path)) == known


@pytest.mark.parametrize(
    ("in_log", "described", "known"),
    [
        ("AMD", "Oracle", "Oracle"),
        ("AMD", "UNKNOWN_MLPERF_SUBMITTER", "AMD"),
        ("SUBMISSION_ORG_PLACEHOLDER", "Nebius", "Nebius"),
        (None, "Nebius", "Nebius"),
        ("SUBMISSION_ORG_PLACEHOLDER", "UNKNOWN_MLPERF_SUBMITTER", None),
    ],
)
def test_the_submitter_is_that_of_the_description_else_the_logs(in_log, described, known):
    log = mlperf_log(before=within(submitter=described))
    if in_log:
        event = {
            "time_ms": BEGUN,
            "event_type": "POINT_IN_TIME",
            "key": "submission_org",
            "value": in_log,
        }
        log = log.replace(":::MLLOG", f":::MLLOG {json.dumps(event)}\n:::MLLOG", 1)
    assert read_log(log).framework_config.get("submitter") == known


def test_another_round_is_a_caveat_and_the_same_one_stands_above(tmp_path):
    found = {}
    for number in ("v5.0", "v5.1"):
        folder = tmp_path / f"training_results_{number}"
        folder.mkdir()
        (run,) = submission(folder, [mlperf_log()])
        assert run.framework_config["mlperf_round"] == number
        found[number] = run
    other = msgspec.structs.replace(
        found["v5.1"], gpu_info=GpuInfo(device_name="AMD Instinct MI355X"), platform="amd"
    )
    for number, told in (("v5.0", True), ("v5.1", False)):
        files = [Loaded(name, "", (run,)) for name, run in (("a", found[number]), ("b", other))]
        made = compare(files)
        (group,) = made.models[0].groups
        assert any("MLPerf round: v5" in text_of(each) for each in group.caveats) is told
        assert ("MLPerf v5.1" in tables.shared(made)) is not told


@pytest.mark.parametrize(
    ("notes", "precision"),
    [
        ("FP4 (mxfp4) precision", "mxfp4"),
        ("MXFP8 precision; full CUDA graphs", "mxfp8"),
        ("FP8 and mxfp4", None),
        ("FP4, then FP8", None),
        ("FP4 (nvfp4)", "fp4"),
    ],
)
def test_the_notes_name_one_precision_or_none(notes, precision, tmp_path):
    content = mlperf_log().replace("lowest_numerical_precision_linear", "unstated")
    (run,) = submission(tmp_path, [content], system={**SYSTEM, "sw_notes": notes})
    assert run.training_config.precision == precision


@pytest.mark.parametrize("name", FAILED)
def test_every_error_text_is_one(name):
    assert gpus.is_error(name)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"accelerator_model_name": "NVIDIA H200"},
            "says 8×NVIDIA H200, the log 8×NVIDIA B200: the log's is kept",
        ),
        ({"number_of_nodes": "2"}, "says 16×NVIDIA B200, the log 8×NVIDIA B200: the log's is kept"),
        ({"accelerator_model_name": "NVIDIA B200-SXM-180GB"}, None),
        ({}, None),
    ],
)
def test_a_contradiction_is_stated(fields, said, tmp_path):
    (run,) = submission(tmp_path, [mlperf_log(before=within())], system={**SYSTEM, **fields})
    assert (run.gpu_info.device_name, run.num_gpus) == ("NVIDIA B200", 8)
    found = [warning for warning in run.warnings if "the log's is kept" in warning]
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


class TestTwoRounds:
    """T16: the logs of one round, published again in the next."""

    LOGS = tuple(
        mlperf_log(((12, 12_000 + number, 900), (6, 6_000 + number, 900)), records=0)
        for number in range(3)
    )

    def compared(self, tmp_path, second: dict[str, str]):
        files = [
            Loaded(
                f"{name}.json",
                name * 8,
                tuple(submission(tmp_path / name, list(self.LOGS), system=system)),
            )
            for name, system in (("v5.0", SYSTEM), ("v5.1", {**SYSTEM, **second}))
        ]
        return compare(files)

    @pytest.mark.parametrize(
        "second", [{}, {"framework": "NeMo 25.09"}, {"host_processor_model_name": "another name"}]
    )
    def test_they_count_once(self, second, tmp_path):
        found = self.compared(tmp_path, second)
        assert [len(system.runs) for system in found.systems] == [3]
        assert [note.code for note in found.notes].count("run-again") == 3

    def test_other_gpus_are_no_copy(self, tmp_path):
        found = self.compared(tmp_path, {"accelerator_model_name": "NVIDIA H200"})
        assert [len(system.runs) for system in found.systems] == [3, 3]


@pytest.mark.parametrize("name", ["No devices were found", "Unknown GPU"])
def test_no_reader_takes_an_error_text_for_a_gpu(name):
    line = (
        f"[titan] 2025-06-04 08:50:59,557 - root - INFO - CUDA capacity: {name} with 79.19GiB"
        " memory\n"
    )
    run = read_log(line + OTHER_LOGS["torchtitan"], "training.log")
    assert (run.framework, run.gpu_info.device_name, run.platform) == ("torchtitan", None, None)
    assert f"in the place of the GPU's name the source has an error text: {name}" in run.warnings


@pytest.mark.parametrize(
    ("platform", "path", "count", "device"),
    [
        ("1xMI355X", "v5.1_AMD_8xMI355X_r0.txt", 8, "MI355X"),
        # One node, of how many GPUs?
        ("1xMI355X", "result_0.txt", None, "MI355X"),
        ("1xMI355X", "1xMI355X/result_0.txt", None, "MI355X"),
        ("2xXE9680x8H100-SXM-80GB", "result_0.txt", 16, "H100"),
        ("1xSR680aV3-8xB200_SXM_180GB", "result_0.txt", 8, "B200"),
        ("9xXE9712x4GB200", "result_0.txt", 36, "GB200"),
        ("", "v5.1_llama31_8b_UF_2x8xB200_r0.txt", 16, "B200"),
        ("2xNVIDIA GB200", "tyche_ngpu8_ngc25.09_nemo/llama31_8b/result_0.txt", 8, "GB200"),
        ("2xNVIDIA GB200", "v5.1_tyche_8gpu_r0.txt", 8, "GB200"),
        ("64xND_H200_v5", "result_0.txt", None, "H200"),
        ("1xSUBMISSION_PLATFORM_PLACEHOLDER", "v5.1_llama31_8b_Nebius_8xB200_r01.txt", 8, "B200"),
        # A platform that the path contradicts names nothing.
        ("1xMI300X", "8xH100/result_0.txt", 8, "H100"),
        ("2xNVIDIA GB200", "8xGB300/llama31_8b/result_0.txt", 8, "GB300"),
        ("9xXE9712x4GB200", "8xGB300/result_0.txt", 8, "GB300"),
        # Names that contradict each other say nothing.
        ("1xMI300X", "8xH100/8xB200_r0.txt", None, None),
        ("", "16gpu/ngpu8/result_0.txt", None, None),
        ("tpu-v5p", "llama31_8b/result_0.txt", None, None),
        ("1xMI999X", "result_0.txt", None, None),
    ],
)
def test_without_a_description_names_say_what_they_can(platform, path, count, device):
    run = make_run(
        None, gpus=None, stack=None, framework="mlperf", notes=(Note("mlperf-gpus-unstated"),)
    )
    run = msgspec.structs.replace(run, framework_config={"submission_platform": platform})
    found = system.inferred(run, PurePosixPath("/logs", path))
    assert (found.num_gpus, found.gpu_info.device_name) == (count, device)
    assert bool(found.told("from-names")) == bool(count or device)
    assert bool(found.told("mlperf-gpus-unstated")) == (count is None)
    # What the log or a description states is left.
    known = make_run(framework="mlperf", framework_config={"submission_platform": platform})
    assert system.inferred(known, PurePosixPath("/logs", path)) == known


@pytest.mark.parametrize(
    ("platform", "path", "is_doubted"),
    [
        ("2xNVIDIA GB200", "ngpu8/result_0.txt", True),
        ("2xNVIDIA GB200", "8xGB200/result_0.txt", False),
        ("", "8xGB200/result_0.txt", False),
        ("tpu-v5p", "result_0.txt", False),
    ],
)
def test_i5_a_gpu_that_only_the_platform_names_is_doubted(platform, path, is_doubted):
    run = make_run(None, gpus=None, stack=None, framework="mlperf")
    run = msgspec.structs.replace(run, framework_config={"submission_platform": platform})
    found = system.inferred(run, PurePosixPath("/logs", path))
    doubts = [note.fields["gpu"] for note in found.notes if note.code == "gpu-from-platform"]
    assert doubts == ["GB200"] * is_doubted
    other = make_run("NVIDIA GB300")
    caveats = (
        compare([Loaded("a", "a" * 8, (found,)), Loaded("b", "b" * 8, (other,))])
        .models[0]
        .groups[0]
        .caveats
    )
    said = [each for each in caveats if each.code == "gpu-source" and each.severity == "warning"]
    assert len(said) == is_doubted


@pytest.mark.parametrize("name", ["gb300x8", "gb300x512", "gb300x8192"])
def test_i5_a_description_beats_the_platform(name, samples, tmp_path):
    path = samples.parent / "cases" / "4" / f"f_v6_system_{name}.json"
    if not path.is_file():
        pytest.skip("the directory of cases does not lie beside this clone")
    content = mlperf_log(platform="2xNVIDIA GB200")
    (run,) = submission(tmp_path, [content], system=json.loads(path.read_text()))
    found = system.inferred(run, tmp_path / "results" / "machine" / "benchmark" / "result_0.txt")
    assert gpus.match(found.gpu_info).gpu.key == "gb300"
    assert not found.told("gpu-from-platform")
    assert found.num_gpus == int(name.partition("x")[2])


def test_i5_what_the_machine_recorded_beats_the_platform(tmp_path, monkeypatch):
    path = tmp_path / "result_0.txt"
    path.write_text(mlperf_log(platform="2xNVIDIA GB200"))
    (source,) = sources.log_sources([str(path)])[0]
    (found,) = sources.read_source(source, GivenValues())
    assert found.run.gpu_info.device_name == "GB200"
    monkeypatch.setattr(
        extract, "with_inferred_gpu", lambda run: msgspec.structs.replace(run, gpu_info=GB300)
    )
    (found,) = sources.read_source(source, GivenValues())
    assert (found.run.gpu_info.device_name, findings_of(found.run)) == (GB300.device_name, ())


def test_gpus_that_names_say_are_compared_with_a_caveat_and_the_user_knows_better(tmp_path, capsys):
    for name, step in (("8xMI355X", 1.0), ("8xB200", 0.5)):
        path = tmp_path / f"v5.1_{name}_r0.txt"
        path.write_text(mlperf_log([(10, round(90_000 * step), 1_000)] * 4))
    assert run("compare", [str(tmp_path), "--no-plot", "--results-dir", str(tmp_path / "out")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "8×B200 (FP8) is 2.0× as fast per GPU as 8×MI355X (FP8)" in out
    assert "i GPUs inferred from the names of the platform and of the log's files" in out
    run(
        "compare",
        [
            str(tmp_path),
            "--gpu",
            "8xB200=H200",
            "--no-plot",
            "--results-dir",
            str(tmp_path / "out"),
        ],
    )
    assert "8×H200 (FP8) is 2.0×" in " ".join(capsys.readouterr().out.split())
