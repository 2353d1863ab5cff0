"""Notes on runs and machines: what recorders, readers and summaries know or doubt."""

from __future__ import annotations

from tprimat.notes.row import NoteRow

ROWS = {
    "loss-not-finite": NoteRow(
        "decisive",
        "loss is not a number at {steps}",
        "look for the step at which the training diverged",
    ),
    "loss-vanished": NoteRow(
        "decisive",
        "no loss is printed from step {first} on, but before",
        "look for the step at which the training diverged: some frameworks don't print a loss that"
        " is NaN",
    ),
    "grad-norm-not-finite": NoteRow(
        "decisive",
        "gradient norm is not a number at {steps}",
        "look for the step at which the training diverged",
    ),
    "steps-skipped": NoteRow(
        "decisive",
        "the optimizer skips its step at {steps}: nothing is trained there",
        "look for what makes gradients overflow",
    ),
    "stamps-contradict": NoteRow(
        "decisive",
        "time stamps are {share:.3g}× the printed step times apart: one of them is wrong, or steps"
        " are missing",
    ),
    "steps-beyond-stamps": NoteRow(
        "decisive",
        "the printed times of steps add up to more than passed between their time stamps"
        " ({share:.3g}×): one of them is wrong",
    ),
    "stamps-are-clock": NoteRow(
        "decisive",
        "time stamps are {share:.4g}× the printed step times apart, and no pause in the log"
        " explains it: step times are those printed, times {share:.4g}",
    ),
    "steps-hold-other": NoteRow(
        "info", "the time of {steps} includes {what}: it is no training step's, and excluded"
    ),
    "gpu-from-platform": NoteRow(
        "warning",
        "only the free text of the platform names the GPU {gpu}, and may be that of another system",
        "add the system description of the submission (systems/*.json), or use --gpu",
    ),
    "steps-outside-blocks": NoteRow(
        "warning", "{count} steps are in no block of the log: the speed is that of the others"
    ),
    "steps-beyond-run": NoteRow(
        "decisive",
        "all steps at the mean step time of the records take {share:.4g}× the time from run_start"
        " to run_stop: the log is not read correctly",
        "report the log: TensorPrimat reads it wrongly",
    ),
    "early-block-ends": NoteRow(
        "warning",
        "block_stop is logged before the GPU is done: {count} blocks end by the records of steps,"
        " which adds {percent:.2f}% to their time (±{doubt:.2f}%)",
    ),
    "read-otherwise": NoteRow(
        "warning",
        "an older version read this log by rules that have changed: its speed may be more than"
        " 0.5% off",
        "read the log again",
    ),
    "blocks-too-slow": NoteRow(
        "decisive",
        "{count} steps are in no block of the log, and at the speed of the others they would take"
        " longer than the run: its speed is unknown",
    ),
    "parts-exceed-wall-time": NoteRow(
        "decisive",
        "its parts add up to {seconds:,.1f} s, but its wall time is {whole:,.1f} s: the reader is"
        " at fault",
        "report it with the log",
    ),
    "steps-exceed-training": NoteRow(
        "warning",
        "its steps take {seconds:,.1f} s by their times, but their training {whole:,.1f} s: the"
        " reader is at fault, or the log's times or time stamps are not those of its steps",
        "report it with the log",
    ),
    "memory-nearly-full": NoteRow(
        "warning",
        "GPU memory is {value:.0f}% full: with so little room the allocator may have to free and"
        " retry, which is slow",
        "try a smaller micro-batch",
    ),
    "allocation-retries": NoteRow(
        "warning",
        "the allocator had to free GPU memory and retry ({value} at line {line}): the steps with it"
        " are slower",
        "try a smaller micro-batch",
    ),
    "profiler-captures": NoteRow(
        "warning",
        "a profiler captured steps (line {line}): these are slower",
        "measure without a profiler",
    ),
    "precision-changes": NoteRow(
        "warning",
        "its precision doesn't hold for the whole run: from line {line} on it trains in {value}"
        " (healing)",
    ),
    "utilization-above-peak": NoteRow(
        "warning",
        "it prints a utilization of {percent:,.1f}%, which is impossible: its peak or its count of"
        " FLOPs is wrong, so it isn't used",
    ),
    "timestamp-unknown": NoteRow("warning", "timestamp unknown: {why}"),
    "size-changes": NoteRow(
        "warning", "{size} changes during the run ({values}): no throughput in tokens"
    ),
    "sizes-unknown": NoteRow("warning", "{names} unknown: the source doesn't state {them}{form}"),
    "sizes-contradict": NoteRow("warning", "{size} and {parts} can't both be true"),
    "gpu-unstated": NoteRow("warning", "the source doesn't state the GPU's name"),
    "machine-unstated": NoteRow("warning", "the log doesn't state {what}"),
    "mlperf-gpus-unstated": NoteRow(
        "warning",
        "the log doesn't state its GPUs: add the system description of the submission"
        " (systems/*.json)",
    ),
    "gpus-of-this-memory": NoteRow("warning", "GPU memory of {gib} GiB matches: {gpus}"),
    "from-description": NoteRow("warning", "from the system description {where}: {facts}"),
    "from-names": NoteRow(
        "warning", "inferred from the names of the platform and of the log's files: {facts}"
    ),
    "model-unnamed": NoteRow("warning", "the log doesn't name its model: --model-name sets it"),
    "model-from-directory": NoteRow(
        "warning",
        "model from the name of the log's directory '{directory}': {model}; the log doesn't state it",
    ),
    "model-against-shape": NoteRow(
        "warning", "the model {model} and the given shape can't both be true"
    ),
    "shape-unstated": NoteRow(
        "warning", "the model's shape isn't stated; {name} is the name of its configuration"
    ),
    "length-unstated": NoteRow("warning", "the sequence length isn't stated"),
    "length-suggested": NoteRow(
        "warning",
        "the sequence length isn't stated; the logged tokens/s/GPU suggest {tokens} tokens (set it"
        " with --sequence-length)",
    ),
    "length-fits-no-rate": NoteRow(
        "warning",
        "the sequence length isn't stated; the logged tokens/s/GPU fit no single length",
    ),
    "no-step-times": NoteRow("warning", "no step times: {why}{but}"),
    "no-printed-step-times": NoteRow(
        "warning",
        "no printed step times, so the speed is that between time stamps: {why}{but}",
    ),
    "lost": NoteRow("warning", "lost: {time} ({parts})"),
    "log-begins-late": NoteRow("warning", "log begins at {noun} {step}"),
    "stated-against-seen": NoteRow(
        "warning",
        "{name} {stated} was stated, but {seen}: they can't both be true; the stated one is used",
    ),
    "rates-against-stamps": NoteRow(
        "warning",
        "{tokens:,.0f} tokens per step and GPU and {stamped:,.0f} by tps and the time stamps can't"
        " both be true",
    ),
    "timer-mismatch": NoteRow(
        "warning",
        "timer mismatch: {clock} {seconds:.3f} s, host clock {host:.3f} s; step times may be wrong",
    ),
    "emulated": NoteRow("decisive", "ran on an emulated device, whose timings are not valid"),
    "no-times-recorded": NoteRow("warning", "no step times recorded, so no throughput"),
    "steps-profiled": NoteRow(
        "info", "steps {first} to {last} were profiled and are excluded from the results"
    ),
    "dispatch-artifacts": NoteRow(
        "warning",
        "{steps}: times are artifacts of asynchronous dispatch (the host ran ahead of the device);"
        " excluded from the results{waited}",
    ),
    "steps-cut": NoteRow(
        "info",
        "steps {first}–{last} are excluded: not all runs of the comparison are as long",
    ),
    "tokens-vary": NoteRow(
        "info",
        "tokens per step vary from {least:,.0f} to {most:,.0f}: a rate is all tokens of the"
        " steady-state steps over their time",
    ),
    "slow-start": NoteRow(
        "info",
        "steps {first}–{last} are excluded as a slow start: they take {times:.2f}× the time of"
        " those after; with them the mean step time is {percent:+.1f}%",
    ),
    "slow-last-record": NoteRow(
        "warning",
        "the last record (step {step}) takes {times:.1f}× as long as any before it; the mean"
        " includes it",
    ),
    "slow-record": NoteRow(
        "warning",
        "the record of step {step} takes {times:.1f}× as long as any other; the mean includes it",
    ),
    "unlike-blocks": NoteRow(
        "warning",
        "a step takes on average {mean:.4g} s, in the median block {typical:.4g} s; {block}{why}",
    ),
    "one-record": NoteRow("warning", "only one record{mean}: it may include warm-up"),
    "too-few-records": NoteRow(
        "warning",
        "no steady state: {count} records are too few (needs {least}); results use {used}",
    ),
    "not-settled": NoteRow(
        "warning",
        "no steady state: at its middle the run is still slower than at its end; results use"
        " {used}",
    ),
    "speed-changed": NoteRow(
        "warning", "speed changed at step {step} ({before:.4g} s → {after:.4g} s){cause}"
    ),
    "drifted": NoteRow("warning", "step time drifted by {percent:+.1f}% (steps {first}–{last})"),
    "no-rate-per-gpu": NoteRow(
        "warning", "number of GPUs unknown: no throughput per GPU", "--num-gpus N"
    ),
    "no-rate": NoteRow("warning", "{unknown} unknown: step times only, no throughput in tokens"),
    "rate-withheld": NoteRow(
        "warning",
        "no throughput: {printed:,.0f} tokens/s reported is {times:.3f} times batch × sequence"
        " length / step time ({batch} × {length} tokens per step); one of them is wrong",
    ),
    "total-time-untimed": NoteRow(
        "info", "total time unknown: {untimed} of {records} records have no time"
    ),
    "total-time-gap": NoteRow(
        "info", "total time unknown: not all steps between {before} and {after} are recorded"
    ),
    "start-record-ignored": NoteRow(
        "warning", "{file} beside the log ignored: it belongs to another run"
    ),
    "from-command-line": NoteRow(
        "warning", "{what} ({value}) is from the command line; the {source} doesn't state it"
    ),
    "overridden": NoteRow(
        "warning", "{what} was overridden: {value} on the command line, {stated} in the log{place}"
    ),
    "log-read-in-part": NoteRow("warning", "compressed file read only in part: {why}"),
    "gpu-of-this-machine": NoteRow(
        "warning",
        "GPU {gpu}: of this machine ({host}), on which the log was written; the log doesn't name it",
    ),
    "gpu-by-memory": NoteRow(
        "warning", "GPU {gpu}: from its memory of {gib:.0f} GiB; the log doesn't name it"
    ),
    "shape-against-log": NoteRow(
        "warning", "--model-shape: {given:,.0f} parameters, {stated:,.0f} in the log"
    ),
    "family-taken": NoteRow(
        "warning", "{name} is taken for {model}: the log doesn't state the model's shape"
    ),
    "attempt-joined": NoteRow(
        "warning",
        "{later} goes on after step {step} of {former}: one training; from step {first} on lines"
        " are those of the later log",
    ),
    "run-left-nothing": NoteRow("warning", "the run left no steps and no readable log"),
    "run-ended": NoteRow("warning", "a run {outcome}{reason}; it is {used}"),
    "recovered": NoteRow("info", "recovered from the training's journal, step by step"),
    "journal-damaged": NoteRow("warning", "the journal is damaged: later steps are lost"),
    "epochs-uncovered": NoteRow(
        "warning",
        "native_metrics and breakdown cover the first {covered} of {epochs} recorded epochs",
    ),
    "resumed": NoteRow("info", "resumed: the first step recorded is {step}"),
    "nodes-undescribed": NoteRow("warning", "{nodes} of {count} wrote no description"),
    "nodes-differ": NoteRow("warning", "the nodes differ: {facts}; the slowest limits all"),
    "argument-missing": NoteRow("warning", "{what} unknown: {why}pass {argument}= to {caller}"),
    "shape-unknown": NoteRow(
        "warning", "the model's shape is unknown: no FLOPs, no MFU; pass model_config="
    ),
    "shape-incomplete": NoteRow(
        "warning", "{names} unknown from {origin}: no FLOPs, no MFU; pass model_config="
    ),
    "allocator-unread": NoteRow("warning", "memory allocated and reserved unknown: {why}"),
    "step-values-unknown": NoteRow("info", "{what} unknown: {why}"),
    "loss-of-one-process": NoteRow(
        "warning",
        "loss_values are those of the first of {processes} processes, not the mean over all",
    ),
    "grad-norm-infinite": NoteRow(
        "warning",
        "gradient norm not finite (NaN or infinite) in {steps}",
        "look for the step at which the training diverged",
    ),
    "steps-unread": NoteRow("warning", "{steps} without time, loss and gradient norm: {why}"),
    "step-untimed": NoteRow("warning", "step {step} without a time: the clock did not advance"),
    "ranks-not-gathered": NoteRow(
        "warning",
        "step times are those of the first of {processes} processes, not the longest of all: {why}",
    ),
    "stragglers": NoteRow(
        "warning",
        "{who} {verb}: up to {longest:.3g} s from step start to backward pass (typical"
        " {usual:.3g} s); this delays the other ranks by {percent:.0f}% of each step",
    ),
    "telemetry-replayed": NoteRow(
        "decisive", "telemetry was replayed from a recorded trace, not read from this machine"
    ),
    "batch-is-short": NoteRow(
        "warning",
        "{steps} of fewer than {accumulated} micro-batches (the end of an epoch): the global batch"
        " size varies, so there is no throughput in tokens; let limit_train_batches be a multiple"
        " of accumulate_grad_batches",
    ),
    "epoch-ends-short": NoteRow(
        "warning",
        "the last steps of an epoch have fewer sequences, so there is no throughput in tokens: set"
        " dataloader_drop_last and make the epoch a multiple of the global batch",
    ),
    "several-steps-a-call": NoteRow(
        "warning",
        "up to {steps} optimizer steps in one call of training_step: steps are counted as"
        " trainer.global_step counts them, a record averages those of one call, and the sequences"
        " per step are unknown",
    ),
    "checkpoint-within-steps": NoteRow(
        "warning",
        "the time of {steps} includes saving a checkpoint, which the training does within it",
    ),
    "precision-unknown": NoteRow("warning", "precision of the matrix products unknown: {why}"),
    "losses-differ": NoteRow(
        "warning",
        "the model's losses differ from the training loss: the model returns {own:.4f} on average,"
        " and the Trainer logs {logged:.4f}{instead}",
    ),
    "compiler-failed": NoteRow("warning", "eager, since torch.compile failed: {why}"),
    "compiled-out-of-memory": NoteRow("warning", "eager, since compiled layers run out of memory"),
    "activations-recomputed": NoteRow(
        "info", "activations are recomputed: no micro-batch fits the GPU's memory without"
    ),
    "profile-doubt": NoteRow("warning", "--profile {profiler}: {problem}"),
    "start-record-contradicts": NoteRow(
        "warning",
        "the record beside the log ignored: it says {field} {recorded}, the log {logged}",
    ),
    "from-start-record": NoteRow("info", "not in the log, from the record of the start: {facts}"),
    "caches-not-dropped": NoteRow("warning", "--drop-caches: {why}"),
    "utilization-unread": NoteRow("warning", "GPU utilization unknown: {why}"),
    "gradients-overflowed": NoteRow(
        "warning",
        "{steps} steps changed no weights: their fp16 gradients overflowed and the loss scale was"
        " lowered; their time is included",
    ),
    "no-epoch-measured": NoteRow(
        "warning", "no epoch after the warm-up was measured: no samples/s"
    ),
    "epochs-too-short": NoteRow(
        "warning",
        "the measured epochs took {took} in all; a reliable result needs {least} or more"
        " (--num-samples, --epochs)",
    ),
    "page-cache-unknown": NoteRow(
        "warning",
        "the page cache may have helped: how much of the data lay in it isn't known here",
    ),
    "page-cache-helped": NoteRow(
        "warning",
        "the page cache helped: before a measured epoch up to {share} of the data lay in memory, so"
        " this isn't the storage's own speed (--drop-caches empties it before each epoch)",
    ),
    "torch-not-installed": NoteRow(
        "warning", "torch is not installed: nothing can be trained here{install}"
    ),
    "torch-incomplete": NoteRow(
        "warning", "torch is installed but lacks the package {package}: install it again"
    ),
    "torch-not-loaded": NoteRow(
        "warning", "torch is installed but cannot be loaded ({why}): install it again"
    ),
    "torch-without-gpus": NoteRow(
        "warning",
        "torch {torch} is a build without GPU support, though {vendor} devices are here ({sign}):"
        " install the {build} build to train on them",
    ),
    "torch-without-kernels": NoteRow(
        "warning",
        "torch {torch} has no kernels for {gpu} ({architecture}), only for {built}: install a build"
        " that has, or hide this GPU with CUDA_VISIBLE_DEVICES",
    ),
    "torch-refuses-gpu": NoteRow("warning", "torch found a GPU but cannot use it: {why}"),
    "torch-warns": NoteRow("warning", "torch says: {what}"),
    "gpus-hidden": NoteRow(
        "warning",
        "torch {torch} is a {build} build but found no GPU: {variable} hides all GPUs: unset it",
    ),
    "gpus-of-other-vendor": NoteRow(
        "warning",
        "torch {torch} is a {build} build but found no GPU: the GPUs are {vendor}'s: install the"
        " {other} build",
    ),
    "gpu-driver-absent": NoteRow(
        "warning",
        "torch {torch} is a {build} build but found no GPU: no {vendor} driver found (no {file});"
        " start a container with {flags}",
    ),
    "gpu-not-permitted": NoteRow(
        "warning",
        "torch {torch} is a {build} build but found no GPU: no permission to open {file}: join its"
        " group (render and video on AMD machines)",
    ),
    "mig-without-instance": NoteRow(
        "warning",
        "torch {torch} is a {build} build but found no GPU: GPU {gpus} is in MIG mode and has no"
        " instance that it may use: make one (sudo nvidia-smi mig -cgi 0 -C), or turn the mode off"
        " (sudo nvidia-smi -mig 0)",
    ),
    "gpu-driver-unfit": NoteRow(
        "warning",
        "torch {torch} is a {build} build but found no GPU, though the {vendor} driver is installed"
        " ({sign}): it may be too old for this build",
    ),
    "gpus-differ": NoteRow(
        "warning",
        "the GPUs differ ({gpus}): the slowest limits all, and the first one is recorded",
    ),
    "gpu-partitioned": NoteRow(
        "warning",
        "partitioned GPU {gpus} ({partition}): the peak of the whole GPU does not apply",
    ),
    "gpu-cores-unknown": NoteRow(
        "info", "gpu_cores unknown: cores per compute unit of {architecture} are not known"
    ),
    "driver-file-absent": NoteRow(
        "warning", "{tools} found, but no driver's device file: treated as CPU only"
    ),
    "platform-from-signs": NoteRow("info", "platform taken from {signs}, without torch"),
    "gpus-unknown": NoteRow(
        "warning", "the GPUs' name, number and memory are unknown without torch"
    ),
    "memory-limited": NoteRow(
        "info",
        "this process may use {limit:.1f} GB of the machine's {memory:.1f} GB of memory",
    ),
    "cpu-unnamed": NoteRow("info", "CPU name unknown: the system doesn't report it"),
    "held-memory-unknown": NoteRow(
        "warning", "memory held by other processes is unknown on GPU {gpus}: {why}"
    ),
    "legacy-times-differ": NoteRow(
        "warning", "step_times and raw_step_times differ; step_times are used"
    ),
    "legacy-series-ignored": NoteRow(
        "warning", "{series} ignored: {values} values for {steps} steps"
    ),
    "legacy-series-not-finite": NoteRow(
        "warning", "{series}: NaN or infinite at {lost} of {count} steps ({steps})"
    ),
    "legacy-core-rate-ignored": NoteRow(
        "info", "throughput_per_gpu_core ignored (not comparable across architectures)"
    ),
    "legacy-metric-ignored": NoteRow(
        "warning", "performance_metrics.{metric} ignored: not a finite number"
    ),
    "legacy-platform-contradicts": NoteRow(
        "warning", "platform unknown: '{stated}' contradicts the device '{device}'"
    ),
    "legacy-platform-ignored": NoteRow(
        "warning", "platform '{stated}' ignored: not nvd, amd or cpu"
    ),
    "legacy-from-name": NoteRow("warning", "{field}: {value} (from file name)"),
    "legacy-framework-from-name": NoteRow(
        "warning",
        "framework: {value} (from file name); software_stack {stack} ignored: the earlier tool wrote"
        " it for every run on that platform",
    ),
    "legacy-device-invented": NoteRow(
        "warning",
        "gpu_info and platform ignored: without torch, the earlier tool wrote '{device}' for any"
        " hardware",
    ),
    "legacy-gpu-doubtful": NoteRow(
        "warning", "gpu_info may describe the machine that parsed the log"
    ),
    "legacy-cores-ignored": NoteRow("info", "gpu_cores {cores} ignored: {gpu} has {actual}"),
    "legacy-peak-ignored": NoteRow(
        "info",
        "peak_memory_allocated_gb {peak} ignored: sampled at step ends only, so below the true"
        " peak",
    ),
    "legacy-memory-ignored": NoteRow(
        "warning", "memory in use of {gib} GiB ignored: it exceeds the device's {total} GB"
    ),
    "legacy-memory-in-use": NoteRow(
        "info",
        "the file's allocated memory of {gib} GiB is the device memory in use (hip mem usage):"
        " stored as peak_memory_device_used_gb {used}",
    ),
    "legacy-timestamp-unread": NoteRow("warning", "timestamp '{stated}' ignored: not a time"),
    "legacy-timestamp-of-reader": NoteRow(
        "warning",
        "timestamp {stated} ignored: it is when the log was parsed, not when the run started",
    ),
    "legacy-timestamp-zoneless": NoteRow("warning", "timestamp {stated} ignored: no time zone"),
    "legacy-steps-beyond-plan": NoteRow(
        "warning", "the file has {steps} step times, but {requested} requested steps"
    ),
    "legacy-steps-contradict": NoteRow(
        "warning", "total_steps is {printed:.10g} in the file, which has {steps} step times"
    ),
    "legacy-mean-recomputed": NoteRow(
        "info",
        "step-time mean recomputed: avg_step_time_seconds {printed} in the file excludes only step"
        " 1 as warm-up",
    ),
    "legacy-mean-contradicts": NoteRow(
        "warning",
        "avg_step_time_seconds {printed} in the file contradicts its step times (mean {mean:.4g}"
        " s)",
    ),
    "legacy-total-time-longer": NoteRow(
        "info",
        "total_time_seconds {printed} in the file exceeds the sum of its step times ({total:.6g} s)"
        " by {beyond:.4g} s: time between steps",
    ),
    "legacy-total-time-shorter": NoteRow(
        "warning",
        "total_time_seconds {printed} in the file is below the sum of its step times ({total:.6g}"
        " s)",
    ),
    "legacy-unknown": NoteRow("info", "unknown: {names} (not in the file)"),
    "legacy-steps-counted": NoteRow("info", "no step numbers in the file: counted from 1"),
    "legacy-timer-unknown": NoteRow(
        "warning", "step timer scope unknown: the file doesn't name the tool that wrote it"
    ),
    "legacy-gpus-assumed": NoteRow(
        "warning", "num_gpus is not in the file: assumed to be the machine's {devices} devices"
    ),
    "legacy-unused": NoteRow("info", "unused fields of the file: {names}"),
}
"""Rows by code. Files of schema 1 hold the sentences alone: note_of() finds the row of each."""
