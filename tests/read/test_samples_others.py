"""Real logs of NeMo-Automodel, MaxText, Megatron-Bridge, and golden values, against a careful
reading of each.
"""

import json

import msgspec
import pytest
from cut_logs import cut
from read_truth import check, check_all, runs_of

from tprimat import read
from tprimat.errors import UnreadableError
from tprimat.read.parsing import text
from tprimat.results.result_file import decode
from tprimat.store.store import as_file, encode

AUTOMODEL = (
    "gpt_oss_20b_h100.jsonl",
    "llama3_1_8b_hellaswag_pp_h100.jsonl",
    "llama3_2_1b_squad_h100.jsonl",
    "llama3_3_nemotron_super_49B_squad_peft_h100.jsonl",
    "nemotron_nano_9b_squad_h100.jsonl",
)
MAXTEXT = (
    "dpo_qwen3_demo.log",
    "elastic_no_tokens.log",
    "gpu_a4_b200_llama31_70b.log",
    "tutorial.log",
)
GOLDEN = (
    "golden_gpt3_15b_8t_release_sm_dev_dgx_h100.json",
    "golden_gpt3_7b_tp1_pp4_memory_speed_dev_dgx_gb200.json",
)
BRIDGE = (
    "golden_test_deepseek_recipes_pretrain_fsdp_gb200.json",
    "reduced_precision_tutorial_gb200.log",
)
WHERE = (
    dict.fromkeys(AUTOMODEL, "automodel")
    | dict.fromkeys(MAXTEXT, "maxtext")
    | dict.fromkeys(GOLDEN, "megatron")
    | dict.fromkeys(BRIDGE, "megatron_bridge")
    | {
        "maxtext_daily_report_docstring_line.log": "primus",
        "maxdiffusion_pr979_lines.log": "primus",
    }
)


@pytest.mark.parametrize("name", WHERE)
def test_a_real_log_is_read_whole(name, samples, truth):
    folder = WHERE[name]
    runs = runs_of(samples / folder / name)
    assert check_all(runs, truth(folder)[name]) == []
    for run in runs:
        assert decode(encode(as_file([run]))) == (run,)


def test_automodels_rate_per_gpu_is_corrected_where_the_gpus_are_known(samples):
    path = samples / "automodel" / "llama3_1_8b_hellaswag_pp_h100.jsonl"
    with path.open("rb") as stream:
        (reading,) = read.parse_lines(text.lines([stream.read()]), path.name)
    plain = reading.run()
    assert "tokens_per_second_per_gpu_corrected" not in plain.native_metrics
    assert any("too high by TP × PP" in warning for warning in plain.warnings)
    run = reading.run({"num_gpus": 8})
    total, corrected = (
        run.native_metrics[name]
        for name in ("tokens_per_second", "tokens_per_second_per_gpu_corrected")
    )
    assert corrected == tuple(rate / 8 for rate in total)
    assert any("2 times too high" in warning for warning in run.warnings)
    # No batch size × sequence length is true of steps whose tokens differ.
    assert run.tokens_per_step is None


def test_lines_of_a_file_that_are_tied_by_nothing_are_not_averaged(samples):
    runs = runs_of(samples / "megatron_bridge" / "reduced_precision_tutorial_gb200.log")
    assert [run.step_times for run in runs] == [(11.65,), (8.57,), (8.63,), (7.47,)]
    assert [run.native_metrics["tflops_per_gpu"] for run in runs] == [
        (1158.1,),
        (1574.0,),
        (1562.8,),
        (1805.6,),
    ]


def test_a_time_every_hundred_steps_is_a_mean_of_a_hundred(samples):
    (run,) = runs_of(samples / "megatron" / GOLDEN[0])
    timed = [
        window
        for window, time in zip(run.window_steps, run.step_times, strict=True)
        if time is not None
    ]
    assert set(timed) == {100}
    assert run.lines == (None,) * len(run.steps)


def test_a_training_whose_loop_ended_is_complete(samples):
    (run,) = runs_of(samples / "maxtext" / "dpo_qwen3_demo.log")
    assert (run.num_gpus, run.platform, run.status) == (4, None, "complete")
    assert run.native_metrics["train_loop_seconds"] == 165.2978


@pytest.mark.parametrize("name", ["llama3_2_1b_squad_h100.jsonl", "dpo_qwen3_demo.log", BRIDGE[0]])
def test_a_file_cut_anywhere_is_read_for_what_it_holds(name, samples):
    content = (samples / WHERE[name] / name).read_bytes()[:20_000]
    (whole,) = runs_of(samples / WHERE[name] / name)
    times = {time for time in whole.step_times if time is not None}
    for _, runs in cut(content, range(0, len(content), max(1, len(content) // 40)), name):
        if not runs:
            continue
        assert {time for time in runs[0].step_times if time is not None} <= times
        msgspec.json.encode(runs)


def test_other_json_is_no_golden_file(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"lm loss": "none", "layers": {"values": [1, 2]}}))
    with pytest.raises(UnreadableError):
        runs_of(path)


def test_one_record_of_several_is_enough(samples, truth):
    name = AUTOMODEL[0]
    lines = (samples / "automodel" / name).read_bytes().splitlines(keepends=True)
    (run,) = read.read(text.lines(lines[50:51]), name)
    assert run.steps == (51,)
    assert check(run, {"loss": {"50": truth("automodel")[name]["loss"]["50"]}}) == []
