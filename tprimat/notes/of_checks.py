"""Notes on what checks find: impossible and contradictory values, and what would explain them.

What stands in brackets at the end of an explanation is left out where only its first words are
shown.
"""

from __future__ import annotations

from tprimat.notes.row import NoteRow

_GPU = "{gpu}[, the fastest GPU {among},]"
_ACHIEVED = "{rate:,.1f} tokens/s/GPU is {achieved:,.0f} TFLOP/s per GPU"
_OF_PEAK = f"{{share:.0%}} of the dense {{precision}} peak of {_GPU} ({{peak:,.0f}} TFLOP/s)"
_LACKING = "[; it does not support {lacking} and computes it in {used}]"
_BY_SAME_FACTOR = "[ ({factor:.3f}× less)][, by the same factor at each of {records} records]"

_OF_VALUES = {
    "flops-convention": NoteRow(
        "info", "it prints {printed:,.4g} TFLOP/s per GPU, counting {counted}; here {own:,.4g}"
    ),
    "flops-differ": NoteRow(
        "warning",
        "the log prints {printed:,.4g} TFLOP/s per GPU; shape, batch, sequence length and step time"
        " give {own:,.3g}",
    ),
    "precision-unstated": NoteRow(
        "decisive",
        "{achieved:,.0f} TFLOP/s per GPU is {share:.0%} of the dense BF16 peak of {gpu}[, the"
        " fastest GPU {among}]; only possible in {precision}[ or {narrower}], but the precision is"
        " unknown",
        "set the precision if you know it: --precision NAME=PRECISION",
    ),
    "precision-lacking": NoteRow(
        "warning",
        "{gpu} does not support {precision}: the run used {used} or another precision",
    ),
    "above-sustained": NoteRow(
        "warning",
        "{achieved:,.0f} TFLOP/s per GPU is {share:.0%} of the best BF16 matrix product measured on"
        f" {_GPU} ({{best:,.0f}} TFLOP/s)",
    ),
    "high-mfu": NoteRow(
        "warning",
        "MFU of {mfu:.0f}%: hardly any training is above {highest:.0f}%; check batch, sequence"
        " length, times",
    ),
    "above-peak": NoteRow("decisive", f"{_ACHIEVED}, {_OF_PEAK}{_LACKING}"),
    "above-every-peak": NoteRow(
        "decisive",
        f"{_ACHIEVED}, more than {_GPU} reaches in any precision ({{peak:,.0f}} TFLOP/s dense)"
        f"{_LACKING}",
    ),
    "tf32-as-fp32": NoteRow(
        "warning", f"only possible in TF32, not in the stated FP32: {_ACHIEVED}, {_OF_PEAK}"
    ),
    "beyond-memory": NoteRow(
        "decisive", "{metric} of {used:.2f} GB exceeds the {memory:.2f} GB of the device"
    ),
    "states-beyond-memory": NoteRow(
        "decisive",
        "{parameters:magnitude} parameters take at least {least:,.0f} GB with gradients and"
        " optimizer states ({bytes:.0f} bytes for each that is trained), but {gpus:count GPU} of"
        " {memory:.0f} GB have {total:,.0f} GB: possible only with frozen or offloaded weights,"
        " which are not stated",
    ),
    "above-power-cap": NoteRow(
        "decisive",
        "mean power of {power:.0f} W per GPU over {seconds:.0f} s exceeds the {cap:.0f} W power cap"
        " ({ratio:.2f}×)",
    ),
    "above-rated-power": NoteRow(
        "warning",
        "mean power of {power:.0f} W per GPU over {seconds:.0f} s exceeds the {cap:.0f} W of the"
        " data sheet ({ratio:.2f}×); the power cap is not recorded",
    ),
    "token-rate-near": NoteRow(
        "warning",
        "{printed:,.0f} tokens/s reported, {deviation:+.1%} from batch × sequence length / step"
        " time (of {window})",
    ),
    "sample-rate-near": NoteRow(
        "warning",
        "{printed:.4g} samples/s reported, {deviation:+.1%} from batch / step time (of {window})",
    ),
    "token-rate-differs": NoteRow(
        "decisive",
        "it reports {printed:,.0f} tokens/s, but {batch:,} × {length:,} tokens in {time:.4g} s are"
        f" {{own:,.0f}} tokens/s{_BY_SAME_FACTOR}[; {{uncounted}} may not be counted]",
    ),
    "sample-rate-differs": NoteRow(
        "decisive",
        "it reports {printed:.4g} samples/s, but {batch:,} samples in {time:.4g} s are {own:.4g}"
        f" samples/s{_BY_SAME_FACTOR}",
    ),
    "work-changes": NoteRow(
        "warning",
        "the {metric} that records print, times their step times, changes by {ratio:.3f}×, though"
        " the batch doesn't",
    ),
    "work-differs": NoteRow(
        "warning",
        "the {metric} that records print, times their step times, is {ratio:.3f}× batch × sequence"
        " length",
    ),
    "times-differ": NoteRow(
        "decisive",
        "its step times add up to {steps:seconds}, but its training took {training:seconds} on the"
        " same clock",
        "restore the original result, or measure it again",
    ),
    "copies": NoteRow(
        "decisive",
        "{file} has the step times of {others}, so they are copies of one measurement",
    ),
}
"""What is impossible or contradictory in a run."""

_EXPLAINING = {
    "flops-count": NoteRow("info", "it counts {counted}"),
    "accumulation-omitted": NoteRow(
        "info",
        "one of the two counts micro-batches[: gradient accumulation of {size} is not in the"
        " {place}]",
    ),
    "replicas-omitted": NoteRow("info", "data-parallel size {size} is not in the {place}"),
    "other-length": NoteRow(
        "info", "sequence length {length} instead of {stated}[ (no supporting evidence)]"
    ),
    "default-length": NoteRow(
        "info",
        "sequence length {length} instead of {stated}[: the {framework} default for this model]"
        "[ ({source})]",
    ),
    "counted-length": NoteRow("info", "sequence length {length} instead of {stated}"),
    "other-batch": NoteRow(
        "info",
        "global batch {batch} instead of {stated}, or {accumulation} the gradient accumulation[ (no"
        " supporting evidence)]",
    ),
    "default-batch": NoteRow(
        "info",
        "global batch {batch} instead of {stated}, or {accumulation} the gradient accumulation"
        "[: the {framework} default for this model][ ({source})]",
    ),
    "other-gpu-count": NoteRow(
        "info", "{gpus} GPUs instead of {stated}[ (no supporting evidence)]"
    ),
    "dual-die-counted-once": NoteRow(
        "info",
        "{gpus} GPUs instead of {stated}[ (dual-die GPU counted as one device; no supporting"
        " evidence)]",
    ),
    "gpu-count-excluded": NoteRow(
        "info",
        "{gpus} GPUs instead of {stated}[ (ruled out: the printed total is {ratio:.3f} times the"
        " printed rate per GPU)]",
    ),
    "per-gpu-rate-as-total": NoteRow(
        "info", "per-GPU rate reported as the total[ (the factor is exactly 1/{gpus})]"
    ),
    "total-rate-as-per-gpu": NoteRow(
        "info", "total rate reported as per-GPU[ (the factor is exactly {gpus})]"
    ),
    "milliseconds-as-seconds": NoteRow(
        "info", "milliseconds read as seconds[ (the factor is exactly 1000)]"
    ),
    "gib-as-gb": NoteRow("info", "GiB read as GB[ (the factor is exactly 1.0737)]"),
    "memory-gib-as-gb": NoteRow(
        "info", "GiB reported as GB[ (the device would have {memory:.2f} GB)]"
    ),
    "narrow-as-fp32": NoteRow(
        "info",
        "TF32 or BF16 in the matrix products instead of FP32[ (the peak would be several times"
        " higher)]",
    ),
    "total-as-per-gpu": NoteRow(
        "info", "total of {gpus} GPUs reported as per-GPU[ (would be {share:.0%} of peak)]"
    ),
    "fp8-instead": NoteRow(
        "info", "FP8 instead of {precision}[ (the peak would be about twice as high)]"
    ),
    "half-the-tokens": NoteRow(
        "info", "half the declared tokens per step[ (would be {share:.0%} of peak)]"
    ),
    "frozen-weights": NoteRow(
        "info",
        "frozen weights, as in LoRA[ (would be {share:.0%} of peak or more): state"
        " model_config.trainable_parameters]",
    ),
    "steps-not-timed": NoteRow("info", "skipped steps, or timing without GPU synchronization"),
    "formula-unfit": NoteRow(
        "info",
        "a formula of the framework that doesn't fit this model; another batch, shape or number of"
        " GPUs",
    ),
}
"""Single corrections that would make the values of a run possible."""

_OF_TRAINING = {
    "loss-missing": NoteRow(
        "warning", "no finite loss in {missing} of {records} records (first at step {step})"
    ),
    "below-entropy": NoteRow(
        "decisive",
        "mean loss of {window} records from record {first} on is {mean:.4f} nats/token, more than"
        " four standard errors below the data's entropy ({entropy:.4f}): data leakage, or the"
        " logged value is not the training loss",
    ),
    "known-entropy": NoteRow("info", "synthetic data ({kind}, entropy {entropy:.3f} nats/token)"),
    "uniform-loss": NoteRow(
        "info",
        "loss stays at ln(vocabulary) = {level:.2f}: random mock tokens, as in NeMo; speed is"
        " unaffected[; but the result names its data {kind}]",
    ),
    "collapsed-loss": NoteRow(
        "info",
        "loss reaches {loss:.4f} within {millions:,.1f} million tokens: typical of mock data"
        " (Megatron, Primus); speed is unaffected[; but the result names its data {kind}]",
    ),
    "synthetic-data": NoteRow("info", "synthetic data ({kind})"),
    "same-data": NoteRow("info", "same data (matching checksum)"),
    "data-differs": NoteRow("info", "different data: {first} and {second}"),
    "checksums-differ": NoteRow("info", "different data (checksums differ)"),
    "first-losses": NoteRow(
        "info", "first losses {first:.3f} and {second:.3f}[ (ln(vocabulary) = {level:.2f})]"
    ),
    "losses-agree": NoteRow(
        "info", "loss agrees within {tolerance:.0%} on {share:.1%} of shared steps"
    ),
    "learning-rates-differ": NoteRow(
        "info",
        "learning rates differ, first at step {step}: {first:.4g} and {second:.4g}",
    ),
    "learning-rate-ends-differ": NoteRow(
        "info",
        "learning rates differ: {first_begins:.3g} to {first_ends:.3g} and {second_begins:.3g} to"
        " {second_ends:.3g}",
    ),
    "peak-learning-rates-differ": NoteRow(
        "info", "learning rates differ: {first:.4g} and {second:.4g}"
    ),
}
"""What the losses of runs show of their data, and whether two runs are the same training."""

_PUBLISHED = "{rate:,.6g} tokens/s/GPU"
_PUBLISHED_SHARE = (
    "{achieved:,.0f} TFLOP/s per GPU, {share:.0%} of the dense {precision} peak of {gpu}"
    " ({peak:,.0f})"
)

_OF_PUBLISHED = {
    "unreadable-row": NoteRow(
        "decisive",
        "{cells} cells under {headings} headings: the values are in other columns",
    ),
    "published-step-differs": NoteRow(
        "decisive",
        f"{_PUBLISHED}, but {{tokens:,.0f}} tokens in {{time:,.5g}} s on {{gpus:count GPU}} are"
        " {own:,.5g}",
    ),
    "published-samples-differ": NoteRow(
        "decisive",
        f"{_PUBLISHED}, but {{samples:,.4g}} samples/s of {{length:,.0f}} tokens are {{own:,.5g}}",
    ),
    "published-above-peak": NoteRow("decisive", f"{_PUBLISHED} is {_PUBLISHED_SHARE}"),
    "published-beyond-reach": NoteRow(
        "decisive", f"{_PUBLISHED} is {_PUBLISHED_SHARE}; no training reaches that"
    ),
    "printed-above-peak": NoteRow("decisive", f"it prints {_PUBLISHED_SHARE}"),
    "printed-beyond-reach": NoteRow(
        "decisive", f"it prints {_PUBLISHED_SHARE}; no training reaches that"
    ),
    "published-precision-unstated": NoteRow(
        "decisive",
        "{achieved:,.0f} TFLOP/s per GPU is {share:.0%} of the dense BF16 peak of {gpu}: possible"
        " only in FP8, but no precision is stated",
    ),
    "implied-peak": NoteRow(
        "decisive",
        "{printed:,.5g} TFLOP/s at {mfu:.4g}% MFU implies a peak of {peak:,.0f}, which no precision"
        " of {gpu} has",
    ),
    "flops-per-token": NoteRow(
        "decisive",
        "{printed:,.5g} TFLOP/s at {rate:,.6g} tokens/s/GPU is {billions:,.4g} GFLOP per token; the"
        " shape gives {own:,.4g}[; {rows} other rows of this model count {counted}]",
    ),
    "prediction-omitted": NoteRow(
        "info",
        "its TFLOP/s leaves out multi-token prediction, which most rows of this model count",
    ),
    "flops-per-parameter": NoteRow(
        "decisive",
        "{printed:,.5g} TFLOP/s is {flops:.2g} FLOPs per token and parameter of {model}; training"
        " takes 6, with recomputed activations 8",
    ),
    "values-repeated": NoteRow("warning", "the same values as {place}, for another {what}"),
    "claim-differs": NoteRow(
        "warning", "{days:.4g} days at this rate are {own:,.0f}B tokens, not {claimed:,.0f}B"
    ),
    "claim-differs-from-rows": NoteRow(
        "warning",
        "{days:.4g} days at this rate are {own:,.0f}B tokens, not {claimed:,.0f}B as in the rows"
        " beside it",
    ),
    "ratio-differs": NoteRow(
        "decisive",
        "{faster:,.6g} tokens/s/GPU is {own:.3g} times {slower:,.6g}, not {stated:.4g}",
    ),
    "row-too-fast": NoteRow(
        "warning", "{ratio:.2g} times as fast as the rows beside it, of the same model and GPU"
    ),
    "half-counted": NoteRow(
        "info", "half of it is missing: tokens of half the batch, or of twice the time"
    ),
    "counted-twice": NoteRow(
        "info", "it is counted twice: tokens of twice the batch, or of half the time"
    ),
    "thousandfold": NoteRow("info", "milliseconds are read as seconds"),
    "covers-all-gpus": NoteRow("info", "it covers all GPUs"),
    "divided-twice": NoteRow("info", "it is divided by the GPUs twice"),
    "sparse-peak": NoteRow("info", "the {precision} peak with sparsity, twice the dense one"),
    "encoders-included": NoteRow(
        "info",
        "it may include the image and audio encoders ({billions:.2g}B parameters), whose FLOPs do"
        " not depend on the tokens",
    ),
    "lora-as-full": NoteRow(
        "info",
        "it counts LoRA as full training: the same per token as {place}, which is no LoRA",
    ),
    "slow-step": NoteRow(
        "info",
        "a slow step: TFLOP/s is the mean of the steps' rates, tokens/s that of their mean time",
    ),
    "nearest-count": NoteRow("info", "{deviation:+.0%} from {counted}"),
    "rows-joined": NoteRow(
        "info", "its tokens/s is that of {rate_place}, its TFLOP/s that of {flops_place}"
    ),
    "line-copied": NoteRow("info", "a line copied from the other page or row"),
    "targets-differ": NoteRow("info", "the rows train different numbers of tokens"),
}
"""What contradicts in published tables, and what would explain it."""

_OF_BUNDLES = {
    "notes-withheld": NoteRow("decisive", "what {log} tells and the result doesn't: {codes}"),
    "times-unconfirmed": NoteRow("decisive", "step times are only claimed: no stamps confirm them"),
    "times-contradicted": NoteRow("decisive", "step times are only claimed: the stamps are others"),
    "times-unstamped": NoteRow(
        "warning",
        "step times are only claimed: the log has no time stamps, or none in a known form",
    ),
    "too-few-steps": NoteRow("decisive", "no speed: too few steps"),
    "failed-without-speed": NoteRow("decisive", "no speed: the run failed"),
    "value-overridden": NoteRow(
        "decisive", "{field}: {stored} in the result, {recomputed} in {log}"
    ),
    "file-missing": NoteRow("decisive", "{file} is missing"),
    "file-changed": NoteRow("decisive", "{file} was changed after it was packed"),
    "file-added": NoteRow("decisive", "{file} is not in README.txt"),
}
"""What verify finds in a bundle."""

_OF_PREFLIGHT = {
    "slow-device": NoteRow("decisive", "{device} is slower than the others: {operations}"),
    "wrong-sum": NoteRow("decisive", "an all-reduce of {bytes} bytes returned a wrong sum"),
    "power-capped": NoteRow(
        "warning", "{devices:names}: power capped at {cap:.0f} of {default:.0f} W"
    ),
    "fell-under-load": NoteRow(
        "warning", "{device}: {operation} fell by {drop:.0%} under load (heat or power)"
    ),
    "other-process": NoteRow("warning", "other process[ on {host}]: {process}"),
    "cpu-busy": NoteRow("warning", "other programs used {share:.0%} of the CPU[ on {host}]"),
    "cpu-stolen": NoteRow("warning", "the hypervisor took {share:.0%} of the CPU[ on {host}]"),
    "memory-held": NoteRow(
        "warning", "{device}: other processes held {memory:.1f} GB of its memory"
    ),
    "devices-differ": NoteRow("warning", "the devices differ: {devices:names}"),
    "versions-differ": NoteRow("warning", "{package} differs: {versions:names}"),
    "clock-low": NoteRow("warning", "{device}: {clock} {mhz:.0f} of {usual:.0f} MHz"),
    "numa-balancing": NoteRow(
        "warning", "NUMA balancing is on[ on {host}]: sysctl kernel.numa_balancing=0"
    ),
    "gpus-partitioned": NoteRow("warning", "the GPUs are partitioned[ on {host}]: {partition}"),
    "device-partitioned": NoteRow("warning", "partitioned GPU: {partition}"),
}
"""What a preflight finds on a machine."""

ROWS = {
    **_OF_VALUES,
    **_EXPLAINING,
    **_OF_TRAINING,
    **_OF_PUBLISHED,
    **_OF_BUNDLES,
    **_OF_PREFLIGHT,
}
"""Rows by code."""
