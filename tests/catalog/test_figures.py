"""Tables of figures as they stand in pages, files and cards."""

from __future__ import annotations

import pytest

from tprimat.catalog.figures import _field, figures

BRIDGE = """\
## 25.11 NeMo Container

#### System: DGX-H100

| Model | #-GPUs | Precision | GBS | MBS | Sequence Length | Tokens / sec / GPU | Model TFLOP / sec / GPU |
|-------|--------|-----------|-----|-----|-----------------|--------------------|-------------------------|
| LLAMA3_8B | 8 | FP8-CS (FP8-MX) | 128 | 1 | 8,192 | 14451 (14002) | 744 (721) |
| DeepSeekV3 | 256 | FP8-MX | 2048 | 1 | 4096 | 2139 | 557 |
| Qwen3_235B_a22B | 256 | FP8-CS | 1 | 4096 | 1575 | 233 |

### LoRA Performance

#### System: DGX-GB200

| Model | Tokens / sec / GPU |
|---|---|
| LLAMA3_70B | 4312 |
"""


def test_a_markdown_table_with_what_the_headings_above_it_say():
    first, second, shifted, other = figures(BRIDGE)
    assert (first.line, first.gpu, first.row.name, first.precision) == (
        7,
        "DGX-H100",
        "llama",
        "fp8",
    )
    assert (first.gpus, first.global_batch, first.sequence_length) == (8, 128, 8192)
    assert (first.tokens_per_second_per_gpu, first.tflops_per_gpu) == (14451, 744)
    assert (second.precision, second.row.name) == ("mxfp8", "deepseek-v3")
    assert (shifted.line, shifted.tflops_per_gpu) == (9, None)
    assert shifted.unreadable == (7, 8)
    assert (first.task, other.task) == ("", "lora")
    assert (other.gpu, other.table, [gpu.key for gpu in other.candidates]) == (
        "DGX-GB200",
        2,
        ["gb200"],
    )


def test_csv_with_units_in_headings_and_cells():
    text = (
        "gpu,model,Step time (ms),tokens/s,GPUs,MFU\nH100 SXM,Llama 3.1"
        " 8B,1200,120k,8,41.5%\n,,,,,\n"
    )
    (row,) = figures(text, "a.csv")
    assert (row.line, row.step_time_s, row.tokens_per_second_per_gpu, row.mfu_percent) == (
        2,
        1.2,
        15_000,
        41.5,
    )


@pytest.mark.parametrize(
    ("model", "key", "row"),
    [
        ("Nemotron-3-Nano-Omni-30B-A3B", "nemotron-3-nano-30b-a3b", "nemotron-3-nano-omni-30b-a3b"),
        ("Llama-like 7B", "llama-2-7b", "llama-2-7b"),
        ("", "llama-2-7b", "llama-2-7b"),
    ],
)
def test_a_printed_name_that_has_a_row_is_nearer_than_a_key(model, key, row):
    for table in (
        f"model,model_key,tflops\n{model},{key},1\n",
        f"model_key,model,tflops\n{key},{model},1\n",
    ):
        (figure,) = figures(table, "table.csv")
        assert figure.row.name == row


def test_a_row_names_its_model_before_the_heading_does():
    (figure,) = figures(
        "## Llama 3.1 8B\n\n| model | gpu | tflops |\n|---|---|---|\n| Llama 2 7B | H100 | 400 |\n"
    )
    assert figure.row.name == "llama-2-7b"


def test_plain_text_with_columns_two_spaces_apart():
    text = """\
  Hardware: NVIDIA H100 80GB HBM3

LLAMA 3.1 8B COMPARISON
-----------------------
Framework     Tokens/s/GPU   Avg Step Time
-----------------------
DeepSpeed         21,924.6          0.747s
"""
    (row,) = figures(text)
    assert (row.line, row.row.name, row.gpu) == (7, "llama", "H100")
    assert (row.tokens_per_second_per_gpu, row.step_time_s) == (21_924.6, 0.747)


def test_a_table_whose_columns_are_gpus():
    text = """\
| Metric | NVIDIA H100 | AMD MI300X | Advantage |
|--------|-------------|------------|-----------|
| Tokens/s/GPU | 1,380 | 13,363 | 6.34x AMD |
| Configuration | TP=4, FP8 | TP=1, BF16 | Different |
"""
    nvidia, amd, ratio = figures(text)
    assert (nvidia.tokens_per_second_per_gpu, nvidia.precision, nvidia.line) == (1380, "fp8", 3)
    assert (amd.gpu, amd.precision) == ("AMD MI300X", "bf16")
    assert (ratio.ratio, ratio.tokens_per_second_per_gpu) == (6.34, None)


CARD = """\
model:
  hf_id: zai-org/GLM-5.2
items:
  inference:
    status: verified
    command: >
      infer.sh --nodes 4 --gpus-per-node 8
  pretrain:
    H100:
      status: verified
      precision: bf16
      command: >
        ./train.sh --nodes 44 --gpus-per-node 8 --seq_length 2048
        dataset.random_seed=1234
      metrics:
        final_loss: 6.385243
        last_10_steps_step_time_ms_avg: 31204.920
        last_10_steps_model_tflops_per_gpu_avg: 54.595
        last_10_steps_tokens_per_second_per_gpu_avg: 190.926
      expected_result: >
        steps at GBS/MBS 1024/1 with MTP1.
  peft:
    GB200:
      status: unverified
      metrics:
        last_10_steps_step_time_ms_avg: null
    H100:
      fp8_mx:
        status: verified
        precision: fp8_mx
        metrics:
          last_10_steps_model_tflops_per_gpu_avg: 2.846
          last_10_steps_tokens_per_second_per_gpu_avg: 9.954
        expected_result: >
          the sequence-length-8,192 recipe
      bf16:
        status: verified
        precision: bf16
        metrics:
          last_10_steps_model_tflops_per_gpu_avg: 1.423
          last_10_steps_tokens_per_second_per_gpu_avg: 4.977
"""


def test_a_model_verification_card():
    pretrain, narrow, peft = figures(CARD, "card.yaml")
    assert (pretrain.row.name, pretrain.gpu, pretrain.task) == ("glm-5.2", "H100", "pretrain")
    assert (pretrain.gpus, pretrain.sequence_length, pretrain.global_batch) == (352, 2048, 1024)
    assert pretrain.step_time_s == pytest.approx(31.20492)
    assert (pretrain.tflops_per_gpu, pretrain.line, pretrain.precision) == (54.595, 19, "bf16")
    assert (narrow.task, narrow.precision, narrow.sequence_length) == ("lora", "mxfp8", 8192)
    assert (peft.task, peft.tokens_per_second_per_gpu, peft.gpus) == ("lora", 4.977, None)


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "plain text\n", "items:\n"]
)
def test_no_figures(text):
    assert figures(text) == []


@pytest.mark.parametrize(
    ("heading", "field"),
    [
        ("Tokens/s/GPU", "tokens_per_second_per_gpu"),
        ("Throughput (tokens/sec/GPU)", "tokens_per_second_per_gpu"),
        ("tokens per second per GPU", "tokens_per_second_per_gpu"),
        ("Tokens Per Second", "tokens_per_second"),
        ("Total tokens/s", "tokens_per_second"),
        ("Samples / sec", "samples_per_second"),
        ("sequences/s", "samples_per_second"),
        ("Model TFLOP/s/GPU", "tflops_per_gpu"),
        ("TFLOPs (per GPU)", "tflops_per_gpu"),
        ("MFU (%)", "mfu_percent"),
        ("**Avg Step Time**", "step_time_s"),
        ("`step_time_ms`", "step_time_s"),
        ("Time per training step", "step_time_s"),
        ("ms/iteration", "step_time_s"),
        ("#GPUs", "gpus"),
        ("No. of GPUs", "gpus"),
        ("world_size", "gpus"),
        ("Global batch size", "global_batch"),
        ("Effective batch size", "global_batch"),
        ("Max seq len", "sequence_length"),
        ("context length", "sequence_length"),
        ("Days to train (in days)", "days"),
        # Of one GPU or of all, of all GPUs or of one: not said.
        ("tps", None),
        ("wps", None),
        ("Batch size", None),
        ("Samples/s/GPU", None),
        ("TFLOP/s (8 GPUs)", None),
        ("Tokens/s, tokens/s/GPU", None),
        # Not the figure itself, or not of a step of training.
        ("Change of tokens/s", None),
        ("Speedup (tokens/s)", None),
        ("Max tokens/s", None),
        ("Training time", None),
        ("Step time (min)", None),
        ("Eval step time", None),
        ("HFU", None),
    ],
)
def test_what_a_heading_means(heading, field):
    assert _field(heading) == field


@pytest.mark.parametrize(
    ("heading", "cell", "seconds"),
    [
        ("Step time (ms)", "1200", 1.2),
        ("`step_time_ms`", "1200", 1.2),
        ("ms/iteration", "1200", 1.2),
        ("Step time (ms)", "2s", 2.0),
        ("Step time", "2", 2.0),
    ],
)
def test_the_unit_of_a_step_time_stands_in_its_heading_or_its_cell(heading, cell, seconds):
    (figure,) = figures(f"| Model | {heading} |\n|---|---|\n| Llama 3.1 8B | {cell} |\n")
    assert figure.step_time_s == pytest.approx(seconds)


@pytest.mark.parametrize(("rows", "count"), [("| GPUs | 8 | 16 |\n", 2), ("", 0)])
def test_a_table_with_its_headings_in_the_first_column(rows, count):
    """The systems above the other columns may have any names."""
    found = figures(
        f"| Metric | Aster | Bolt |\n|---|---|---|\n{rows}| tokens/s/GPU | 256 | 512 |\n"
    )
    assert [figure.gpu for figure in found] == ["Aster", "Bolt"][:count]
    assert [figure.gpus for figure in found] == [8, 16][:count]
    assert [figure.tokens_per_second_per_gpu for figure in found] == [256, 512][:count]
