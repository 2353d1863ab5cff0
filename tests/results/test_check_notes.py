"""The words of what checks find: a row for each code, so that a sentence is reworded here alone."""

from __future__ import annotations

import pytest

from tprimat.notes import Note, of_checks
from tprimat.notes.catalogue import words

EXAMPLES = {
    "event": (
        {"event": "thermal", "text": "thermal throttling: 91 °C", "title": "thermal throttling"},
        "thermal throttling: 91 °C",
    ),
    "event-ended": (
        {"event": "power-cap", "text": "power cap (500 W of 700 W)"},
        "end of power cap (500 W of 700 W)",
    ),
    "parameter-conflict": (
        {"first": 1000000, "second": 1500001},
        "parameters 1,000,000 and 1,500,001",
    ),
    "shape-conflict": (
        {"title": "sliding window", "first": 64, "second": 66},
        "sliding window 64 and 66",
    ),
    "above-every-peak": (
        {
            "gpu": "GB300",
            "among": "that it may be",
            "rate": 1637900.0,
            "achieved": 76388.0,
            "peak": 15000.0,
        },
        "1,637,900.0 tokens/s/GPU is 76,388 TFLOP/s per GPU, more than GB300, the fastest"
        " GPU that it may be, reaches in any precision (15,000 TFLOP/s dense)",
    ),
    "above-peak": (
        {
            "gpu": "MI355X",
            "among": "that it may be",
            "rate": 109190.0,
            "achieved": 5092.5,
            "share": 2.0236,
            "precision": "BF16",
            "peak": 2516.6,
        },
        "109,190.0 tokens/s/GPU is 5,092 TFLOP/s per GPU, 202% of the dense BF16 peak of"
        " MI355X, the fastest GPU that it may be, (2,517 TFLOP/s)",
    ),
    "above-power-cap": (
        {"power": 600.0, "seconds": 60.0, "cap": 500.0, "ratio": 1.2},
        "mean power of 600 W per GPU over 60 s exceeds the 500 W power cap (1.20×)",
    ),
    "above-rated-power": (
        {"power": 800.0, "seconds": 60.0, "cap": 700.0, "ratio": 1.1429},
        "mean power of 800 W per GPU over 60 s exceeds the 700 W of the data sheet"
        " (1.14×); the power cap is not recorded",
    ),
    "above-sustained": (
        {"achieved": 1250.0, "share": 1.8713, "best": 668.0, "gpu": "MI300X"},
        "1,250 TFLOP/s per GPU is 187% of the best BF16 matrix product measured on MI300X"
        " (668 TFLOP/s)",
    ),
    "accumulation-omitted": (
        {"size": 4, "place": "printed rate"},
        "one of the two counts micro-batches: gradient accumulation of 4 is not in the"
        " printed rate",
    ),
    "below-entropy": (
        {"window": 20, "first": 21, "mean": 1.9, "entropy": 2.0},
        "mean loss of 20 records from record 21 on is 1.9000 nats/token, more than four"
        " standard errors below the data's entropy (2.0000): data leakage, or the logged"
        " value is not the training loss",
    ),
    "beyond-memory": (
        {"metric": "peak_memory_device_used_gb", "used": 210.0, "memory": 206.14},
        "peak_memory_device_used_gb of 210.00 GB exceeds the 206.14 GB of the device",
    ),
    "checksums-differ": (
        {},
        "different data (checksums differ)",
    ),
    "claim-differs": (
        {"days": 3.0, "own": 1036.8, "claimed": 518.4},
        "3 days at this rate are 1,037B tokens, not 518B",
    ),
    "claim-differs-from-rows": (
        {"days": 3.0, "own": 518.4, "claimed": 371.52},
        "3 days at this rate are 518B tokens, not 372B as in the rows beside it",
    ),
    "clock-low": (
        {"clock": "clock under load", "mhz": 1200.0, "usual": 1755.0, "device": "GPU 2"},
        "GPU 2: clock under load 1200 of 1755 MHz",
    ),
    "collapsed-loss": (
        {"loss": 4.459e-05, "millions": 0.06144, "kind": "fineweb"},
        "loss reaches 0.0000 within 0.1 million tokens: typical of mock data (Megatron,"
        " Primus); speed is unaffected; but the result names its data fineweb",
    ),
    "copied-measurement": (
        {"file": "b.json", "others": "a.json"},
        "b.json has the step times of a.json, so they are copies of one measurement",
    ),
    "counted-length": (
        {"length": 1024, "stated": 2048},
        "sequence length 1024 instead of 2048",
    ),
    "counted-twice": (
        {},
        "it is counted twice: tokens of twice the batch, or of half the time",
    ),
    "covers-all-gpus": (
        {},
        "it covers all GPUs",
    ),
    "cpu-busy": (
        {"share": 0.3},
        "other programs used 30% of the CPU",
    ),
    "cpu-stolen": (
        {"share": 0.12, "host": "n1"},
        "the hypervisor took 12% of the CPU on n1",
    ),
    "training-data-differs": (
        {"first": "c4", "second": "pile"},
        "different data: c4 and pile",
    ),
    "default-batch": (
        {
            "batch": 640,
            "stated": 320,
            "accumulation": "2 times",
            "framework": "primus",
            "source": "https://github.com/AMD-AGI/Primus/tree/main/examples/megatron/configs/MI300X",
        },
        "global batch 640 instead of 320, or 2 times the gradient accumulation: the primus"
        " default for this model"
        " (https://github.com/AMD-AGI/Primus/tree/main/examples/megatron/configs/MI300X)",
    ),
    "default-length": (
        {
            "length": 8192,
            "stated": 4096,
            "framework": "primus",
            "source": "https://github.com/AMD-AGI/Primus/tree/main/examples/megatron/configs/MI300X",
        },
        "sequence length 8192 instead of 4096: the primus default for this model"
        " (https://github.com/AMD-AGI/Primus/tree/main/examples/megatron/configs/MI300X)",
    ),
    "device-partitioned": (
        {"partition": "CPX/NPS4"},
        "partitioned GPU: CPX/NPS4",
    ),
    "devices-differ": (
        {"devices": ("NVIDIA H100 80GB HBM3", "NVIDIA H200")},
        "the devices differ: NVIDIA H100 80GB HBM3 and NVIDIA H200",
    ),
    "divided-twice": (
        {},
        "it is divided by the GPUs twice",
    ),
    "dual-die-counted-once": (
        {"gpus": 16, "stated": 8},
        "16 GPUs instead of 8 (dual-die GPU counted as one device; no supporting evidence)",
    ),
    "encoders-included": (
        {"billions": 0.55},
        "it may include the image and audio encoders (0.55B parameters), whose FLOPs do"
        " not depend on the tokens",
    ),
    "failed-without-speed": (
        {},
        "no speed: the run failed",
    ),
    "fell-under-load": (
        {"operation": "bf16", "drop": 0.08, "device": "GPU 1"},
        "GPU 1: bf16 fell by 8% under load (heat or power)",
    ),
    "file-added": (
        {"file": "mine/notes.txt"},
        "mine/notes.txt is not in README.txt",
    ),
    "file-changed": (
        {"file": "logs/train.log.gz"},
        "logs/train.log.gz was changed after it was packed",
    ),
    "file-missing": (
        {"file": "logs/train.log.gz"},
        "logs/train.log.gz is missing",
    ),
    "first-losses": (
        {"first": 11.895, "second": 12.579, "level": 11.762},
        "first losses 11.895 and 12.579 (ln(vocabulary) = 11.76)",
    ),
    "flops-convention": (
        {"printed": 394.7, "counted": "6 FLOPs for every parameter, no attention", "own": 421.65},
        "it prints 394.7 TFLOP/s per GPU, counting 6 FLOPs for every parameter, no"
        " attention; here 421.6",
    ),
    "flops-count": (
        {"counted": "PaLM's formula: 6 FLOPs for every parameter, and full attention"},
        "it counts PaLM's formula: 6 FLOPs for every parameter, and full attention",
    ),
    "flops-differ": (
        {"printed": 331.65, "own": 421.65},
        "the log prints 331.6 TFLOP/s per GPU; shape, batch, sequence length and step time"
        " give 422",
    ),
    "flops-per-parameter": (
        {"printed": 44.9, "flops": 4.49, "model": "GPT 10B"},
        "44.9 TFLOP/s is 4.5 FLOPs per token and parameter of GPT 10B; training takes 6,"
        " with recomputed activations 8",
    ),
    "flops-per-token": (
        {"printed": 51.47, "rate": 1000.0, "billions": 51.47, "own": 48.249},
        "51.47 TFLOP/s at 1,000 tokens/s/GPU is 51.47 GFLOP per token; the shape gives 48.25",
    ),
    "formula-unfit": (
        {},
        "a formula of the framework that doesn't fit this model; another batch, shape or"
        " number of GPUs",
    ),
    "fp8-instead": (
        {"precision": "FP16"},
        "FP8 instead of FP16 (the peak would be about twice as high)",
    ),
    "frozen-weights": (
        {"share": 0.66667},
        "frozen weights, as in LoRA (would be 67% of peak or more): state"
        " model_config.trainable_parameters",
    ),
    "gib-as-gb": (
        {},
        "GiB read as GB (the factor is exactly 1.0737)",
    ),
    "gpu-count-excluded": (
        {"gpus": 16, "stated": 8, "ratio": 8.0072},
        "16 GPUs instead of 8 (ruled out: the printed total is 8.007 times the printed"
        " rate per GPU)",
    ),
    "gpus-partitioned": (
        {"partition": "CPX/NPS4"},
        "the GPUs are partitioned: CPX/NPS4",
    ),
    "half-counted": (
        {},
        "half of it is missing: tokens of half the batch, or of twice the time",
    ),
    "half-the-tokens": (
        {"share": 1.0},
        "half the declared tokens per step (would be 100% of peak)",
    ),
    "high-mfu": (
        {"mfu": 80.857, "highest": 75.0},
        "MFU of 81%: hardly any training is above 75%; check batch, sequence length, times",
    ),
    "implied-peak": (
        {"printed": 515.0, "mfu": 13.01, "peak": 3958.5, "gpu": "NVIDIA H100 80GB HBM3"},
        "515 TFLOP/s at 13.01% MFU implies a peak of 3,958, which no precision of NVIDIA"
        " H100 80GB HBM3 has",
    ),
    "known-entropy": (
        {"kind": "markov", "entropy": 1.2346},
        "synthetic data (markov, entropy 1.235 nats/token)",
    ),
    "learning-rate-ends-differ": (
        {
            "first_begins": 6e-06,
            "first_ends": 3.7e-09,
            "second_begins": 1.1765e-05,
            "second_ends": 3e-05,
        },
        "learning rates differ: 6e-06 to 3.7e-09 and 1.18e-05 to 3e-05",
    ),
    "learning-rates-differ": (
        {"step": 2, "first": 0.0002, "second": 0.000201},
        "learning rates differ, first at step 2: 0.0002 and 0.000201",
    ),
    "line-copied": (
        {},
        "a line copied from the other page or row",
    ),
    "lora-as-full": (
        {"place": ":2"},
        "it counts LoRA as full training: the same per token as :2, which is no LoRA",
    ),
    "loss-missing": (
        {"missing": 1, "records": 34, "step": 3},
        "no finite loss in 1 of 34 records (first at step 3)",
    ),
    "losses-agree": (
        {"tolerance": 0.05, "share": 1.0},
        "loss agrees within 5% on 100.0% of shared steps",
    ),
    "memory-gib-as-gb": (
        {"memory": 107.37},
        "GiB reported as GB (the device would have 107.37 GB)",
    ),
    "memory-held": (
        {"memory": 12.3, "device": "GPU 3"},
        "GPU 3: other processes held 12.3 GB of its memory",
    ),
    "milliseconds-as-seconds": (
        {},
        "milliseconds read as seconds (the factor is exactly 1000)",
    ),
    "narrow-as-fp32": (
        {},
        "TF32 or BF16 in the matrix products instead of FP32 (the peak would be several"
        " times higher)",
    ),
    "nearest-count": (
        {"deviation": 1.185, "counted": "causal attention"},
        "+118% from causal attention",
    ),
    "notes-withheld": (
        {"log": "train.log", "codes": "loss-not-finite, steps-skipped"},
        "what train.log tells and the result doesn't: loss-not-finite, steps-skipped",
    ),
    "numa-balancing": (
        {},
        "NUMA balancing is on: sysctl kernel.numa_balancing=0",
    ),
    "other-batch": (
        {"batch": 128, "stated": 64, "accumulation": "2 times"},
        "global batch 128 instead of 64, or 2 times the gradient accumulation (no"
        " supporting evidence)",
    ),
    "other-gpu-count": (
        {"gpus": 128, "stated": 32},
        "128 GPUs instead of 32 (no supporting evidence)",
    ),
    "other-length": (
        {"length": 4096, "stated": 2048},
        "sequence length 4096 instead of 2048 (no supporting evidence)",
    ),
    "other-process": (
        {"process": "GPU 0: python (77)"},
        "other process: GPU 0: python (77)",
    ),
    "peak-learning-rates-differ": (
        {"first": 0.0003, "second": 0.0005},
        "learning rates differ: 0.0003 and 0.0005",
    ),
    "per-gpu-rate-as-total": (
        {"gpus": 8},
        "per-GPU rate reported as the total (the factor is exactly 1/8)",
    ),
    "power-capped": (
        {"devices": ("GPU 0",), "cap": 500, "default": 700},
        "GPU 0: power capped at 500 of 700 W",
    ),
    "precision-lacking": (
        {"gpu": "V100 SXM 16GB", "precision": "BF16", "used": "fp32"},
        "V100 SXM 16GB does not support BF16: the run used fp32 or another precision",
    ),
    "precision-unstated": (
        {"achieved": 2547.1, "share": 1.132, "precisions": "FP8 or FP4", "gpu": "B200"},
        "2,547 TFLOP/s per GPU is 113% of the dense BF16 peak of B200; only possible in"
        " FP8 or FP4, but the precision is unknown",
    ),
    "prediction-omitted": (
        {},
        "its TFLOP/s leaves out multi-token prediction, which most rows of this model count",
    ),
    "printed-above-peak": (
        {
            "achieved": 900.0,
            "share": 4.6997,
            "precision": "BF16",
            "gpu": "MI250X (one die)",
            "peak": 191.5,
        },
        "it prints 900 TFLOP/s per GPU, 470% of the dense BF16 peak of MI250X (one die) (192)",
    ),
    "printed-beyond-reach": (
        {
            "achieved": 1800.0,
            "share": 0.9096,
            "precision": "FP8",
            "gpu": "H100 SXM",
            "peak": 1978.9,
        },
        "it prints 1,800 TFLOP/s per GPU, 91% of the dense FP8 peak of H100 SXM (1,979);"
        " no training reaches that",
    ),
    "published-above-peak": (
        {
            "rate": 20000.0,
            "achieved": 1030.0,
            "share": 1.041,
            "precision": "BF16",
            "gpu": "H100 SXM",
            "peak": 989.0,
        },
        "20,000 tokens/s/GPU is 1,030 TFLOP/s per GPU, 104% of the dense BF16 peak of H100"
        " SXM (989)",
    ),
    "published-beyond-reach": (
        {
            "rate": 16002.0,
            "achieved": 823.6,
            "share": 0.83243,
            "precision": "BF16",
            "gpu": "H100 SXM",
            "peak": 989.4,
        },
        "16,002 tokens/s/GPU is 824 TFLOP/s per GPU, 83% of the dense BF16 peak of H100"
        " SXM (989); no training reaches that",
    ),
    "published-precision-unstated": (
        {"achieved": 900.0, "share": 0.90964, "gpu": "H100 SXM"},
        "900 TFLOP/s per GPU is 91% of the dense BF16 peak of H100 SXM: possible only in"
        " FP8, but no precision is stated",
    ),
    "published-samples-differ": (
        {"rate": 2788.5, "samples": 12.0, "length": 1000.0, "own": 3000.0},
        "2,788.5 tokens/s/GPU, but 12 samples/s of 1,000 tokens are 3,000",
    ),
    "published-step-differs": (
        {"rate": 16384.0, "tokens": 1048600.0, "time": 16.0, "gpus": 8, "own": 8192.0},
        "16,384 tokens/s/GPU, but 1,048,600 tokens in 16 s on 8 GPUs are 8,192",
    ),
    "ratio-differs": (
        {"faster": 4000.0, "slower": 1000.0, "own": 4.0, "stated": 3.882},
        "4,000 tokens/s/GPU is 4 times 1,000, not 3.882",
    ),
    "replicas-omitted": (
        {"size": 8, "place": "printed rate"},
        "data-parallel size 8 is not in the printed rate",
    ),
    "row-too-fast": (
        {"ratio": 3.0769},
        "3.1 times as fast as the rows beside it, of the same model and GPU",
    ),
    "rows-joined": (
        {"rate_place": ":3", "flops_place": "x.md:2"},
        "its tokens/s is that of :3, its TFLOP/s that of x.md:2",
    ),
    "same-data": (
        {},
        "same data (matching checksum)",
    ),
    "sample-rate-differs": (
        {"printed": 256.0, "batch": 64, "time": 1.0, "own": 64.0, "factor": 4.0, "records": 39},
        "it reports 256 samples/s, but 64 samples in 1 s are 64 samples/s (4.000× less),"
        " by the same factor at each of 39 records",
    ),
    "sample-rate-near": (
        {"printed": 64.646, "deviation": 0.0101, "window": "the steady-state steps"},
        "64.65 samples/s reported, +1.0% from batch / step time (of the steady-state steps)",
    ),
    "slow-device": (
        {
            "operations": "fp32 -20%, tf32 -20%, bf16 -20%, fp16 -20%, fp8 -20%",
            "device": "GPU 3 on node1",
        },
        "GPU 3 on node1 is slower than the others: fp32 -20%, tf32 -20%, bf16 -20%, fp16"
        " -20%, fp8 -20%",
    ),
    "slow-step": (
        {},
        "a slow step: TFLOP/s is the mean of the steps' rates, tokens/s that of their mean time",
    ),
    "sparse-peak": (
        {"precision": "FP8"},
        "the FP8 peak with sparsity, twice the dense one",
    ),
    "states-beyond-memory": (
        {
            "parameters": 70553706496,
            "least": 423.32,
            "bytes": 6.0,
            "gpus": 4,
            "memory": 85.02,
            "total": 340.08,
        },
        "70.6B parameters take at least 423 GB with gradients and optimizer states (6"
        " bytes for each that is trained), but 4 GPUs of 85 GB have 340 GB: possible only"
        " with frozen or offloaded weights, which are not stated",
    ),
    "steps-not-timed": (
        {},
        "skipped steps, or timing without GPU synchronization",
    ),
    "synthetic-data": (
        {"kind": "Mock-GPT"},
        "synthetic data (Mock-GPT)",
    ),
    "token-targets-differ": (
        {},
        "the rows train different numbers of tokens",
    ),
    "tf32-as-fp32": (
        {
            "gpu": "A100 SXM 80GB",
            "rate": 3342.7,
            "achieved": 155.9,
            "share": 7.9949,
            "precision": "FP32",
            "peak": 19.5,
        },
        "only possible in TF32, not in the stated FP32: 3,342.7 tokens/s/GPU is 156"
        " TFLOP/s per GPU, 799% of the dense FP32 peak of A100 SXM 80GB (20 TFLOP/s)",
    ),
    "thousandfold": (
        {},
        "milliseconds are read as seconds",
    ),
    "times-contradicted": (
        {},
        "step times are only claimed: the stamps are others",
    ),
    "times-differ": (
        {"steps": 20.0, "training": 30.0},
        "its step times add up to 20.000 s, but its training took 30.000 s on the same clock",
    ),
    "times-unconfirmed": (
        {},
        "step times are only claimed: no stamps confirm them",
    ),
    "times-unstamped": (
        {},
        "step times are only claimed: the log has no time stamps, or none in a known form",
    ),
    "token-rate-differs": (
        {
            "printed": 124390.0,
            "batch": 64,
            "length": 2048,
            "time": 1.0,
            "own": 131070.0,
            "uncounted": "padding",
        },
        "it reports 124,390 tokens/s, but 64 × 2,048 tokens in 1 s are 131,070 tokens/s;"
        " padding may not be counted",
    ),
    "token-rate-near": (
        {"printed": 123510.0, "deviation": -0.019, "window": "all steps after the first"},
        "123,510 tokens/s reported, -1.9% from batch × sequence length / step time (of all"
        " steps after the first)",
    ),
    "too-few-steps": (
        {},
        "no speed: too few steps",
    ),
    "total-as-per-gpu": (
        {"gpus": 8, "share": 1.0},
        "total of 8 GPUs reported as per-GPU (would be 100% of peak)",
    ),
    "total-rate-as-per-gpu": (
        {"gpus": 8},
        "total rate reported as per-GPU (the factor is exactly 8)",
    ),
    "uniform-loss": (
        {"level": 6.9315},
        "loss stays at ln(vocabulary) = 6.93: random mock tokens, as in NeMo; speed is unaffected",
    ),
    "unreadable-row": (
        {"cells": 7, "headings": 8},
        "7 cells under 8 headings: the values are in other columns",
    ),
    "value-overridden": (
        {
            "field": "training_config.global_batch_size",
            "stored": "80",
            "recomputed": "64",
            "log": "train.log",
        },
        "training_config.global_batch_size: 80 in the result, 64 in train.log",
    ),
    "values-repeated": (
        {"place": "x.md:2", "what": "item"},
        "the same values as x.md:2, for another item",
    ),
    "versions-differ": (
        {"package": "driver", "versions": ("NVIDIA 560", "NVIDIA 570")},
        "driver differs: NVIDIA 560 and NVIDIA 570",
    ),
    "work-changes": (
        {"metric": "tflops_per_gpu", "ratio": 1.021},
        "the tflops_per_gpu that records print, times their step times, changes by 1.021×,"
        " though the batch doesn't",
    ),
    "work-differs": (
        {"metric": "tokens_per_second", "ratio": 0.979},
        "the tokens_per_second that records print, times their step times, is 0.979× batch"
        " × sequence length",
    ),
    "wrong-sum": (
        {"bytes": 1024},
        "an all-reduce of 1024 bytes returned a wrong sum",
    ),
}


def test_every_code_has_an_example():
    assert EXAMPLES.keys() == of_checks.ROWS.keys()


@pytest.mark.parametrize("code", EXAMPLES)
def test_the_sentence_of_a_code(code):
    fields, sentence = EXAMPLES[code]
    assert words(Note(code, fields)) == sentence
