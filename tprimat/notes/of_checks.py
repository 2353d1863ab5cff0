"""Notes on what checks find: impossible and contradictory values, and what would explain them.

The text in square brackets at the end of an explanation is omitted in the brief form.
"""

from __future__ import annotations

from tprimat.notes.row import rows_of

_GPU = "{gpu}[, the fastest GPU {among},]"
_ACHIEVED = "{rate:,.1f} tokens/s/GPU is {achieved:,.0f} TFLOP/s per GPU"
_OF_PEAK = f"{{share:.0%}} of the dense {{precision}} peak of {_GPU} ({{peak:,.0f}} TFLOP/s)"
_LACKING = "[; it does not support {lacking} and computes it in {used}]"
_BY_SAME_FACTOR = "[ ({factor:.3f}× less)][, by the same factor at each of {records} records]"
_PUBLISHED = "{rate:,.6g} tokens/s/GPU"
_PUBLISHED_SHARE = (
    "{achieved:,.0f} TFLOP/s per GPU, {share:.0%} of the dense {precision} peak of {gpu}"
    " ({peak:,.0f})"
)

_DECISIVE = {
    # Values of a run.
    "precision-unstated": (
        "{achieved:,.0f} TFLOP/s per GPU is {share:.0%} of the dense BF16 peak of {gpu}[, the"
        " fastest GPU {among}]; only possible in {precisions}, but the precision is"
        " unknown"
    ),
    "above-peak": f"{_ACHIEVED}, {_OF_PEAK}{_LACKING}",
    "above-every-peak": (
        f"{_ACHIEVED}, more than {_GPU} reaches in any precision ({{peak:,.0f}} TFLOP/s dense)"
        f"{_LACKING}"
    ),
    "beyond-memory": "{metric} of {used:.2f} GB exceeds the {memory:.2f} GB of the device",
    "states-beyond-memory": (
        "{parameters:magnitude} parameters take at least {least:,.0f} GB with gradients and"
        " optimizer states ({bytes:.0f} bytes for each that is trained), but {gpus:count GPU} of"
        " {memory:.0f} GB have {total:,.0f} GB: possible only with frozen or offloaded weights,"
        " which are not stated"
    ),
    "above-power-cap": (
        "mean power of {power:.0f} W per GPU over {seconds:.0f} s exceeds the {cap:.0f} W power cap"
        " ({ratio:.2f}×)"
    ),
    "token-rate-differs": (
        "it reports {printed:,.0f} tokens/s, but {batch:,} × {length:,} tokens in {time:.4g} s are"
        f" {{own:,.0f}} tokens/s{_BY_SAME_FACTOR}[; {{uncounted}} may not be counted]"
    ),
    "sample-rate-differs": (
        "it reports {printed:.4g} samples/s, but {batch:,} samples in {time:.4g} s are {own:.4g}"
        f" samples/s{_BY_SAME_FACTOR}"
    ),
    "times-differ": (
        "its step times add up to {steps:seconds}, but its training took {training:seconds} on the"
        " same clock"
    ),
    "copied-measurement": "{file} has the step times of {others}, so they are copies of one measurement",
    # Losses and data, and whether two runs are the same training.
    "below-entropy": (
        "mean loss of {window} records from record {first} on is {mean:.4f} nats/token, more than"
        " four standard errors below the data's entropy ({entropy:.4f}): data leakage, or the"
        " logged value is not the training loss"
    ),
    # Published tables.
    "unreadable-row": "{cells} cells under {headings} headings: the values are in other columns",
    "published-step-differs": (
        f"{_PUBLISHED}, but {{tokens:,.0f}} tokens in {{time:,.5g}} s on {{gpus:count GPU}} are"
        " {own:,.5g}"
    ),
    "published-samples-differ": (
        f"{_PUBLISHED}, but {{samples:,.4g}} samples/s of {{length:,.0f}} tokens are {{own:,.5g}}"
    ),
    "published-above-peak": f"{_PUBLISHED} is {_PUBLISHED_SHARE}",
    "published-beyond-reach": f"{_PUBLISHED} is {_PUBLISHED_SHARE}; no training reaches that",
    "printed-above-peak": f"it prints {_PUBLISHED_SHARE}",
    "printed-beyond-reach": f"it prints {_PUBLISHED_SHARE}; no training reaches that",
    "published-precision-unstated": (
        "{achieved:,.0f} TFLOP/s per GPU is {share:.0%} of the dense BF16 peak of {gpu}: possible"
        " only in FP8, but no precision is stated"
    ),
    "implied-peak": (
        "{printed:,.5g} TFLOP/s at {mfu:.4g}% MFU implies a peak of {peak:,.0f}, which no precision"
        " of {gpu} has"
    ),
    "flops-per-token": (
        "{printed:,.5g} TFLOP/s at {rate:,.6g} tokens/s/GPU is {billions:,.4g} GFLOP per token; the"
        " shape gives {own:,.4g}[; {rows} other rows of this model count {counted}]"
    ),
    "flops-per-parameter": (
        "{printed:,.5g} TFLOP/s is {flops:.2g} FLOPs per token and parameter of {model}; training"
        " takes 6, with recomputed activations 8"
    ),
    "ratio-differs": (
        "{faster:,.6g} tokens/s/GPU is {own:.3g} times {slower:,.6g}, not {stated:.4g}"
    ),
    # Bundles that verify reads.
    "notes-withheld": "what {log} tells and the result doesn't: {codes}",
    "times-unconfirmed": "step times are only claimed: no stamps confirm them",
    "times-contradicted": "step times are only claimed: the stamps are others",
    "too-few-steps": "no speed: too few steps",
    "failed-without-speed": "no speed: the run failed",
    "value-overridden": "{field}: {stored} in the result, {recomputed} in {log}",
    "file-missing": "{file} is missing",
    "file-changed": "{file} was changed after it was packed",
    "file-added": "{file} is not in README.txt",
    # Machines before a benchmark.
    "slow-device": "{device} is slower than the others: {operations}",
    "wrong-sum": "an all-reduce of {bytes} bytes returned a wrong sum",
}

_WARNINGS = {
    # Values of a run.
    "flops-differ": (
        "the log prints {printed:,.4g} TFLOP/s per GPU; shape, batch, sequence length and step time"
        " give {own:,.3g}"
    ),
    "precision-lacking": (
        "{gpu} does not support {precision}: the run used {used} or another precision"
    ),
    "above-sustained": (
        "{achieved:,.0f} TFLOP/s per GPU is {share:.0%} of the best BF16 matrix product measured on"
        f" {_GPU} ({{best:,.0f}} TFLOP/s)"
    ),
    "high-mfu": (
        "MFU of {mfu:.0f}%: hardly any training is above {highest:.0f}%; check batch, sequence"
        " length, times"
    ),
    "tf32-as-fp32": f"only possible in TF32, not in the stated FP32: {_ACHIEVED}, {_OF_PEAK}",
    "above-rated-power": (
        "mean power of {power:.0f} W per GPU over {seconds:.0f} s exceeds the {cap:.0f} W of the"
        " data sheet ({ratio:.2f}×); the power cap is not recorded"
    ),
    "token-rate-near": (
        "{printed:,.0f} tokens/s reported, {deviation:+.1%} from batch × sequence length / step"
        " time (of {window})"
    ),
    "sample-rate-near": (
        "{printed:.4g} samples/s reported, {deviation:+.1%} from batch / step time (of {window})"
    ),
    "work-changes": (
        "the {metric} that records print, times their step times, changes by {ratio:.3f}×, though"
        " the batch doesn't"
    ),
    "work-differs": (
        "the {metric} that records print, times their step times, is {ratio:.3f}× batch × sequence"
        " length"
    ),
    # Losses and data, and whether two runs are the same training.
    "loss-missing": "no finite loss in {missing} of {records} records (first at step {step})",
    # Published tables.
    "values-repeated": "the same values as {place}, for another {what}",
    "claim-differs": "{days:.4g} days at this rate are {own:,.0f}B tokens, not {claimed:,.0f}B",
    "claim-differs-from-rows": (
        "{days:.4g} days at this rate are {own:,.0f}B tokens, not {claimed:,.0f}B as in the rows"
        " beside it"
    ),
    "row-too-fast": "{ratio:.2g} times as fast as the rows beside it, of the same model and GPU",
    # Bundles that verify reads.
    "times-unstamped": (
        "step times are only claimed: the log has no time stamps, or none in a known form"
    ),
    # Machines before a benchmark.
    "power-capped": "{devices:names}: power capped at {cap:.0f} of {default:.0f} W",
    "fell-under-load": "{device}: {operation} fell by {drop:.0%} under load (heat or power)",
    "other-process": "other process[ on {host}]: {process}",
    "cpu-busy": "other programs used {share:.0%} of the CPU[ on {host}]",
    "cpu-stolen": "the hypervisor took {share:.0%} of the CPU[ on {host}]",
    "memory-held": "{device}: other processes held {memory:.1f} GB of its memory",
    "devices-differ": "the devices differ: {devices:names}",
    "versions-differ": "{package} differs: {versions:names}",
    "clock-low": "{device}: {clock} {mhz:.0f} of {usual:.0f} MHz",
    "numa-balancing": "NUMA balancing is on[ on {host}]: sysctl kernel.numa_balancing=0",
    "gpus-partitioned": "the GPUs are partitioned[ on {host}]: {partition}",
    "device-partitioned": "partitioned GPU: {partition}",
}

_EXPLAINING = {
    # Values of a run.
    "flops-convention": (
        "it prints {printed:,.4g} TFLOP/s per GPU, counting {counted}; here {own:,.4g}"
    ),
    # Single corrections that would make the values of a run possible.
    "flops-count": "it counts {counted}",
    "accumulation-omitted": (
        "one of the two counts micro-batches[: gradient accumulation of {size} is not in the"
        " {place}]"
    ),
    "replicas-omitted": "data-parallel size {size} is not in the {place}",
    "other-length": "sequence length {length} instead of {stated}[ (no supporting evidence)]",
    "default-length": (
        "sequence length {length} instead of {stated}[: the {framework} default for this model]"
        "[ ({source})]"
    ),
    "counted-length": "sequence length {length} instead of {stated}",
    "other-batch": (
        "global batch {batch} instead of {stated}, or {accumulation} the gradient accumulation[ (no"
        " supporting evidence)]"
    ),
    "default-batch": (
        "global batch {batch} instead of {stated}, or {accumulation} the gradient accumulation"
        "[: the {framework} default for this model][ ({source})]"
    ),
    "other-gpu-count": "{gpus} GPUs instead of {stated}[ (no supporting evidence)]",
    "dual-die-counted-once": (
        "{gpus} GPUs instead of {stated}[ (dual-die GPU counted as one device; no supporting"
        " evidence)]"
    ),
    "gpu-count-excluded": (
        "{gpus} GPUs instead of {stated}[ (ruled out: the printed total is {ratio:.3f} times the"
        " printed rate per GPU)]"
    ),
    "per-gpu-rate-as-total": (
        "per-GPU rate reported as the total[ (the factor is exactly 1/{gpus})]"
    ),
    "total-rate-as-per-gpu": "total rate reported as per-GPU[ (the factor is exactly {gpus})]",
    "milliseconds-as-seconds": "milliseconds read as seconds[ (the factor is exactly 1000)]",
    "gib-as-gb": "GiB read as GB[ (the factor is exactly 1.0737)]",
    "memory-gib-as-gb": "GiB reported as GB[ (the device would have {memory:.2f} GB)]",
    "narrow-as-fp32": (
        "TF32 or BF16 in the matrix products instead of FP32[ (the peak would be several times"
        " higher)]"
    ),
    "total-as-per-gpu": "total of {gpus} GPUs reported as per-GPU[ (would be {share:.0%} of peak)]",
    "fp8-instead": "FP8 instead of {precision}[ (the peak would be about twice as high)]",
    "half-the-tokens": "half the declared tokens per step[ (would be {share:.0%} of peak)]",
    "frozen-weights": (
        "frozen weights, as in LoRA[ (would be {share:.0%} of peak or more): state"
        " model_config.trainable_parameters]"
    ),
    "steps-not-timed": "skipped steps, or timing without GPU synchronization",
    "formula-unfit": (
        "a formula of the framework that doesn't fit this model; another batch, shape or number of"
        " GPUs"
    ),
    # Losses and data, and whether two runs are the same training.
    "known-entropy": "synthetic data ({kind}, entropy {entropy:.3f} nats/token)",
    "uniform-loss": (
        "loss stays at ln(vocabulary) = {level:.2f}: random mock tokens, as in NeMo; speed is"
        " unaffected[; but the result names its data {kind}]"
    ),
    "collapsed-loss": (
        "loss reaches {loss:.4f} within {millions:,.1f} million tokens: typical of mock data"
        " (Megatron, Primus); speed is unaffected[; but the result names its data {kind}]"
    ),
    "synthetic-data": "synthetic data ({kind})",
    "shape-conflict": "{title} {first}[ and {second}]",
    "parameter-conflict": "parameters {first:,}[ and {second:,}]",
    "event": "{text}",
    "event-ended": "end of {text}",
    "same-data": "same data (matching checksum)",
    "training-data-differs": "different data: {first} and {second}",
    "checksums-differ": "different data (checksums differ)",
    "first-losses": "first losses {first:.3f} and {second:.3f}[ (ln(vocabulary) = {level:.2f})]",
    "losses-agree": "loss agrees within {tolerance:.0%} on {share:.1%} of shared steps",
    "learning-rates-differ": (
        "learning rates differ, first at step {step}: {first:.4g} and {second:.4g}"
    ),
    "learning-rate-ends-differ": (
        "learning rates differ: {first_begins:.3g} to {first_ends:.3g} and {second_begins:.3g} to"
        " {second_ends:.3g}"
    ),
    "peak-learning-rates-differ": "learning rates differ: {first:.4g} and {second:.4g}",
    # Published tables.
    "prediction-omitted": (
        "its TFLOP/s leaves out multi-token prediction, which most rows of this model count"
    ),
    "half-counted": "half of it is missing: tokens of half the batch, or of twice the time",
    "counted-twice": "it is counted twice: tokens of twice the batch, or of half the time",
    "thousandfold": "milliseconds are read as seconds",
    "covers-all-gpus": "it covers all GPUs",
    "divided-twice": "it is divided by the GPUs twice",
    "sparse-peak": "the {precision} peak with sparsity, twice the dense one",
    "encoders-included": (
        "it may include the image and audio encoders ({billions:.2g}B parameters), whose FLOPs do"
        " not depend on the tokens"
    ),
    "lora-as-full": (
        "it counts LoRA as full training: the same per token as {place}, which is no LoRA"
    ),
    "slow-step": (
        "a slow step: TFLOP/s is the mean of the steps' rates, tokens/s that of their mean time"
    ),
    "nearest-count": "{deviation:+.0%} from {counted}",
    "rows-joined": "its tokens/s is that of {rate_place}, its TFLOP/s that of {flops_place}",
    "line-copied": "a line copied from the other page or row",
    "token-targets-differ": "the rows train different numbers of tokens",
}

ROWS = {
    **rows_of("decisive", _DECISIVE),
    **rows_of("warning", _WARNINGS),
    **rows_of("info", _EXPLAINING),
}
"""Rows by code."""
