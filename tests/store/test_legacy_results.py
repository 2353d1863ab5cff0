"""Results of an earlier tool, made for these tests: all forms load, and what is wrong in them is
said.
"""

from __future__ import annotations

import json

import msgspec
import pytest
from made_runs import said

from tprimat.analysis.summary import summarize
from tprimat.errors import UnreadableError
from tprimat.store import legacy_results, store
from tprimat.store.legacy_schema import from_name

OWN = "tests/data/results"


@pytest.fixture
def own(repository):
    """A result of our own making in a form of the earlier tool."""

    def read(stem: str):
        (run,) = store.read(repository / OWN / f"{stem}.json")
        return run

    return read


def load(content: object, name: str = "result.json"):
    """The run of a file with this content, as a dict or as text."""
    text = content if isinstance(content, str) else json.dumps(content)
    (run,) = legacy_results.decode(text.encode(), name)
    return run


JANUARY = {
    "platform": "nvd",
    "gpu_info": {
        "device_count": 8,
        "device_name": "NVIDIA H100 80GB HBM3",
        "total_memory_gb": 85.018,
        "gpu_cores": 16896,
        "pytorch_version": "2.7.0",
        "software_stack": "cuda",
    },
    "training_config": {
        "max_steps": 3,
        "global_batch_size": 8,
        "sequence_length": 64,
        "num_gpus": 8,
    },
    "raw_step_times": [2.0, 1.0, 1.0],
}


def january(**changes) -> dict:
    """JANUARY with other top-level fields; a field that is None is left out."""
    return {name: value for name, value in {**JANUARY, **changes}.items() if value is not None}


# The first form


def test_the_first_form_loads(own):
    run = own("benchmark_cuda_20260105_143022")
    assert (run.platform, run.framework, run.model) == ("nvd", None, None)
    assert run.gpu_info.software_stack == "cuda"
    assert run.gpu_info.software_version == "12.1"
    assert run.step_times[0] == 2.895
    assert run.native_metrics["throughput_steps_per_second"] == 0.803
    assert run.memory_metrics.avg_memory_allocated_gb == 45.67
    assert run.timing.clock == "host clock (time.time)"
    assert said(run, "unknown: ", "framework", "model")
    assert said(run, "num_gpus is not in the file", "8 devices")


def test_the_first_form_on_amd_is_no_primus_log(own):
    run = own("benchmark_rocm_20260105_151210")
    assert (run.platform, run.framework, run.gpu_info.software_stack) == ("amd", None, "rocm")
    assert run.memory_metrics.known() == {"avg_memory_allocated_gb": 43.21}
    assert (run.status, run.status_reason) == ("incomplete", "8 of 10 requested steps in the file")
    assert not said(run, "avg_step_time_seconds")


def test_a_result_of_another_framework_loads_with_the_nan_of_a_diverged_run(own):
    run = own("train_mega_qwen")
    assert (run.platform, run.framework, run.model) == ("nvd", "megatron", "qwen")
    assert said(run, "framework: megatron (from file name)", "software_stack nemo ignored")
    assert run.loss_values == (12.5, 11.0, None, None, None, None)
    assert said(run, "loss_values: NaN or infinite at 4 of 6 steps (3, 4, 5, 6)")
    assert run.learning_rates == (1e-5, 2e-5, 3e-5, 4e-5, 5e-5, 0.0)
    assert run.timestamp == "2026-02-03T10:00:00+01:00"
    assert run.timing.known() == {}
    assert said(run, "step timer scope unknown")
    assert said(run, "unused fields of the file: ", "'dataset'", "'training_config.grad_accum'")


# Names


@pytest.mark.parametrize(
    ("name", "platform", "framework", "model"),
    [
        ("train_nvd_nemo_llama-516b342.json", "nvd", "nemo", "llama"),
        ("train_amd_prim_qwen.json", "amd", "primus", "qwen"),
        ("train_nvd_mega_llama.json", "nvd", "megatron", "llama"),
        ("train_nvd_tran_mistral.json", "nvd", "transformers", "mistral"),
        ("train_nvd_deep_llama (1).json", "nvd", "deepspeed", "llama"),
        ("train_amd_fsdp_llama.json", "amd", "fsdp", "llama"),
        ("train_tran_qwen.json", None, "transformers", "qwen"),
        ("nvd_train_mega_llama.json", "nvd", "megatron", "llama"),
        ("amd_train_prim_qwen.json", "amd", "primus", "qwen"),
        ("train_nvd_nemo_llama3.1_8b.json", "nvd", "nemo", "llama"),
        ("train_nvd_nemo_llama-3.1-70B.json", "nvd", "nemo", "llama-3.1-70b"),
        ("train_nvd_nemo_gpt-deadbeef.json", "nvd", "nemo", "gpt-deadbeef"),
        ("train_nvd_nemo_gpt-dead1eef (2).json", "nvd", "nemo", "gpt"),
        ("benchmark_cuda_llama.json", "nvd", "nemo", "llama"),
        ("benchmark_rocm_mistral-627dfac.json", "amd", "primus", "mistral"),
        ("benchmark_cpu_llama.json", "cpu", None, "llama"),
        ("benchmark_cuda_20260105_143022.json", "nvd", None, None),
        ("train_llama.json", None, None, None),
        ("train_nvd_other_llama.json", None, None, None),
        ("result.json", None, None, None),
        ("train_nvd_nemo_\x1b[2J.json", "nvd", "nemo", None),
        ("train_nvd_nemo_" + "x" * 10_000 + ".json", "nvd", "nemo", None),
        ("train_nvd_nemo_..%2f..%2fetc.json", "nvd", "nemo", None),
        ("train_nvd_nemo_<b>.json", "nvd", "nemo", None),
        ("", None, None, None),
    ],
)
def test_what_a_name_says(name, platform, framework, model):
    named = from_name(name)
    assert (named.platform, named.framework, named.model) == (platform, framework, model)


def test_what_the_file_states_is_not_taken_from_its_name():
    stated = january(platform="amd", framework="prim", model="qwen", gpu_info=None)
    run = load(stated, "train_nvd_nemo_llama.json")
    assert (run.platform, run.framework, run.model) == ("amd", "primus", "qwen")
    assert not said(run, "(from file name)")


def test_a_platform_that_only_the_name_tells_is_said():
    run = load(january(platform=None, gpu_info=None), "train_amd_prim_llama.json")
    assert run.platform == "amd"
    assert said(run, "platform: amd (from file name)")


# Contradictions


def test_a_device_contradicts_its_platform():
    run = load(january(platform="amd"))
    assert run.platform is None
    assert said(run, "'amd' contradicts the device", "h100")


def test_a_platform_that_nobody_knows_is_said_and_the_device_decides():
    run = load(january(platform="tpu\x1b[2J"))
    assert run.platform == "nvd"
    assert said(run, "'tpu' ignored: not nvd, amd or cpu")


def test_the_device_that_was_invented_without_torch_is_left_out():
    gpu = {
        "device_name": "AMD GPU (from log)",
        "total_memory_gb": 192,
        "gpu_cores": 19456,
        "software_stack": "rocm",
    }
    run = load(january(platform="amd", gpu_info=gpu, source="primus_log_extraction"))
    assert run.platform is None
    assert run.gpu_info.known() == {}
    assert run.num_gpus == 8
    assert said(run, "without torch", "'AMD GPU (from log)'")


def test_more_memory_in_use_than_the_device_has_is_left_out():
    gpu = {
        "device_name": "AMD Instinct MI300X",
        "total_memory_gb": 206.142,
        "software_stack": "rocm",
    }
    memory = {"avg_memory_allocated_gb": 200.0}
    run = load(
        january(platform="amd", gpu_info=gpu, memory_metrics=memory, source="primus_log_extraction")
    )
    assert run.memory_metrics.known() == {}
    assert said(run, "200.0 GiB ignored: it exceeds the device's 206.142 GB")


@pytest.mark.parametrize("value", [0, -1, -(2**53)])
def test_counts_that_stand_for_unknown_are_unknown(value):
    run = load(january(training_config={"global_batch_size": value, "sequence_length": 64}))
    assert run.training_config.global_batch_size is None
    assert said(run, "unknown: ", f"training_config.global_batch_size ({value})")
    assert summarize(run).performance.tokens_per_second is None


@pytest.mark.parametrize("word", ["", "  ", "unknown", "Unknown", "N/A", "None", "\x00\x1b"])
def test_words_that_stand_for_unknown_are_unknown(word):
    run = load(
        january(model=word, framework=word, gpu_info={"device_name": word, "pytorch_version": word})
    )
    assert (run.model, run.framework) == (None, None)
    assert run.gpu_info.known() == {}


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ({"avg_step_time_seconds": 5.0}, ("5.0 in the file contradicts its step times", "1.333 s")),
        (
            {"total_time_seconds": 3.0},
            ("3.0 in the file is below the sum of its step times (4 s)",),
        ),
        ({"total_steps": 7}, ("total_steps is 7 in the file, which has 3 step times",)),
        (
            {"total_time_seconds": 1e999},
            ("performance_metrics.total_time_seconds ignored: not a finite number",),
        ),
    ],
)
def test_printed_figures_are_held_against_the_steps(printed, words):
    assert said(load(january(performance_metrics=printed)), *words)


@pytest.mark.parametrize(
    "printed", [{"avg_step_time_seconds": 1.333}, {"total_time_seconds": 4.001}, {"total_steps": 3}]
)
def test_figures_that_agree_up_to_their_rounding_are_not_spoken_of(printed):
    run = load(january(performance_metrics=printed))
    assert not said(run, next(iter(printed)))


def test_more_steps_than_were_asked_for_is_said():
    run = load(january(training_config={"max_steps": 2}))
    assert run.status == "complete"
    assert said(run, "3 step times", "2 requested steps")


def test_two_series_of_step_times_that_differ_are_said():
    assert said(load(january(step_times=[1.0, 1.0, 1.0])), "step_times and raw_step_times differ")
    assert not said(load(january(step_times=[2.0, 1.0, 1.0])), "differ;")


def test_a_precision_that_is_stated_is_kept():
    stated = load(january(training_config={"precision": "bf16"})).training_config
    assert (stated.precision, stated.precision_detail) == ("bf16", "bf16")
    other = load(january(training_config={"precision": "bf16-mixed"})).training_config
    assert (other.precision, other.precision_detail) == (None, "bf16-mixed")


# What is no result, and wrong types


@pytest.mark.parametrize(
    "content", ["[]", "{}", "null", "3", '"x"', '{"step_times": []}', '{"step_times": null}']
)
def test_what_is_no_result_is_refused(content):
    with pytest.raises(msgspec.ValidationError, match="no step times"):
        load(content)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"step_times": "fast"}, "step_times must be"),
        ({"step_times": {"1": 2.0}}, "step_times must be"),
        ({"step_times": [1.0, None]}, r"step_times[1] must be"),
        ({"step_times": [1.0, "2"]}, r"step_times[1] must be"),
        ({"step_times": [True]}, r"step_times[0] must be"),
        ({"step_times": [1.0, -1.0]}, r"step_times[1] must be"),
        ({"step_times": [0]}, r"step_times[0] must be"),
        ({"raw_step_times": [1e999]}, r"raw_step_times[0] must be"),
        ({"raw_step_times": [1.0, float("nan")]}, r"raw_step_times[1] must be"),
        ({"loss_values": [1.0, "x", 2.0]}, r"loss_values[1] must be"),
        ({"learning_rates": 3}, "learning_rates must be"),
        ({"gpu_info": None, "platform": 5}, "platform must be"),
        ({"gpu_info": []}, "gpu_info must be"),
        ({"gpu_info": {"device_count": 8.5}}, "gpu_info.device_count must be"),
        ({"gpu_info": {"device_count": True}}, "gpu_info.device_count must be"),
        ({"gpu_info": {"gpu_cores": 10**400}}, "gpu_info.gpu_cores must be"),
        ({"gpu_info": {"total_memory_gb": {"value": 80}}}, "gpu_info.total_memory_gb must be"),
        ({"training_config": {"max_steps": "500"}}, "training_config.max_steps must be"),
        (
            {"memory_metrics": {"avg_memory_allocated_gb": "N/A"}},
            "memory_metrics.avg_memory_allocated_gb must be",
        ),
        ({"performance_metrics": {"total_steps": {}}}, "performance_metrics.'total_steps' must be"),
        (
            {"performance_metrics": {"total_steps": True}},
            "performance_metrics.'total_steps' must be",
        ),
        ({"performance_metrics": {"x" * 999: "fast"}}, "performance_metrics.'xxx"),
        (
            {"parallelism_config": {"tensor_model_parallel_size": "1"}},
            "tensor_model_parallel_size must be",
        ),
        ({"timestamp": 1767615573}, "timestamp must be"),
    ],
)
def test_a_field_of_another_type_is_one_line_that_names_it(tmp_path, change, words):
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(january(**change)))
    with pytest.raises(UnreadableError) as caught:
        store.read(path)
    line = caught.value.line()
    assert words in line
    assert line.count("\n") <= 2
    assert len(line) < 400


def test_huge_figures_are_left_out_and_not_computed_with():
    times = [1e9] * 30
    run = load(
        january(
            step_times=times, performance_metrics={"total_time_seconds": 10**400, "x": 10**4000}
        )
    )
    assert run.native_metrics == {}
    assert summarize(run).performance.total_time_seconds == 3e10


@pytest.mark.parametrize("stem", ["benchmark_cuda_20260105_143022", "train_mega_qwen"])
def test_a_file_cut_at_any_byte_is_one_line(repository, tmp_path, stem):
    whole = (repository / OWN / f"{stem}.json").read_bytes().rstrip()
    path = tmp_path / "cut.json"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(UnreadableError, match="not valid JSON"):
            store.read(path)


def test_nan_in_a_file_of_today_is_refused(tmp_path):
    path = tmp_path / "nan.json"
    path.write_text('{"schema_version": 1,\n "step_times": [NaN]}')
    with pytest.raises(UnreadableError, match=r"nan\.json:2: not valid JSON"):
        store.read(path)


def test_hostile_text_loses_its_escapes_and_its_length():
    gpu = {"device_name": "\x1b[31mNVIDIA H100\x07" + "x" * 9999, "software_version": "12\n8"}
    run = load(
        january(
            gpu_info=gpu,
            training_config={"parallel_strategy": "a\x1b[2Jb"},
            dataset="x",
            **{"\x1b[2J": 1},
        )
    )
    assert run.gpu_info.device_name.startswith("NVIDIA H100 xxx")
    assert len(run.gpu_info.device_name) == 200
    assert run.gpu_info.software_version == "12 8"
    assert run.parallelism_config.strategy_name == "ab"
    assert all("\x1b" not in warning and len(warning) < 600 for warning in run.warnings)


def test_many_unknown_fields_are_not_all_listed():
    run = load(january(**{f"field{number}": number for number in range(500)}))
    (warning,) = [warning for warning in run.warnings if "unused fields" in warning]
    assert warning.endswith("'field7', …")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("2026-02-02T21:44:16Z", "2026-02-02T21:44:16+00:00"),
        ("2026-02-02T21:44:16.5+01:00", None),
        ("2026-02-02T21:44:16.500000+01:00", "2026-02-02T21:44:16.500000+01:00"),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_timestamp_with_its_offset_is_kept(text, kept):
    run = load(january(timestamp=text))
    # Python 3.10 reads fractions of three and six digits only.
    assert run.timestamp == kept or text.endswith(".5+01:00")
    assert said(run, "timestamp") == (run.timestamp is None)
