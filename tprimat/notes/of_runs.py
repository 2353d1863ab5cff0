"""Notes on runs and machines: what recorders, readers and summaries know or doubt."""

from __future__ import annotations

from tprimat.notes.row import NoteRow, rows_of

ROWS = {
    **rows_of(
        "decisive",
        {
            "stamps-contradict": (
                "time stamps are {share:.3g}× the printed step times apart: one of them is wrong,"
                " or steps are missing"
            ),
            "steps-beyond-stamps": (
                "the printed times of steps add up to more than passed between their time stamps"
                " ({share:.3g}×): one of them is wrong"
            ),
            "stamps-are-clock": (
                "time stamps are {share:.4g}× the printed step times apart, and no pause in the"
                " log explains it: step times are those printed, times {share:.4g}"
            ),
            "times-fit-milliseconds": (
                "the printed times agree with the clock of the log if they are milliseconds, not"
                " seconds: name them time_ms, or write ms behind {{time}} or {{elapsed}}"
            ),
            "times-fit-interval": (
                "the printed times agree with the clock of the log if each is that of all steps"
                " since the record before: name them interval"
            ),
            "times-fit-elapsed": (
                "the printed times agree with the clock of the log if they are the time since the"
                " start: name them elapsed"
            ),
            "blocks-too-slow": (
                "{count} steps are in no block of the log, and at the speed of the others they"
                " would take longer than the run: its speed is unknown"
            ),
            "emulated": "ran on an emulated device, whose timings are not valid",
            "telemetry-replayed": (
                "telemetry was replayed from a recorded trace, not read from this machine"
            ),
        },
    ),
    **rows_of(
        "warning",
        {
            "form-changes": (
                "from line {line} to {last} the values of the training have another form, which"
                " isn't read"
            ),
            "steps-outside-blocks": (
                "{count} steps are in no block of the log: the speed is that of the others"
            ),
            "early-block-ends": (
                "block_stop is logged before the GPU is done: {count} blocks end by the records of"
                " steps, which adds {percent:.2f}% to their time (±{doubt:.2f}%)"
            ),
            "precision-changes": (
                "its precision doesn't hold for the whole run: from line {line} on it trains in"
                " {value} (healing)"
            ),
            "utilization-above-peak": (
                "it prints a utilization of {percent:,.1f}%, which is impossible: its peak or its"
                " count of FLOPs is wrong, so it isn't used"
            ),
            "form-would-read": (
                "it would read {records:count record}, steps {first} to {last}[ by {step}]"
                "[, {seconds:seconds} per step][ by {time}][, loss by “{loss}”]"
            ),
            "form-unit-assumed": "assumed: the time is in seconds (it has no unit)",
            "form-milliseconds-assumed": (
                "assumed: the time is in milliseconds (it has no unit, and is too long for seconds)"
            ),
            "form-interval-assumed": (
                "assumed: the time is that of one step, not of the {steps} since the line before"
            ),
            "form-window-assumed": (
                "assumed: the time is that of the {steps} steps since the line before (the training"
                " took {took:,.6g} s)"
            ),
            "form-elapsed-assumed": "assumed: {label} is the time since the start, in seconds",
            "form-order-assumed": "assumed: each line is the next step (no number counts them)",
            "form-counter-assumed": "assumed: {label} counts the steps (no label says so)",
            "form-time-assumed": "assumed: {label} is the time of a step (no label says so)",
            "form-epoch-assumed": (
                "assumed: an epoch has as many steps as are printed (no total says how many)"
            ),
            "form-stamps-vary": (
                "assumed: times between stamps are those of steps (many are off the median by half"
                " and more)"
            ),
            "form-few-steps": "assumed: {count} lines are a training (there are no more)",
            "form-few-records": (
                "assumed: the step time is typical (only {count:count interval} between lines)"
            ),
            "form-training-assumed": "assumed: it is a training (no loss and no word says so)",
            "form-coarse-rate": "assumed: the rate is exact (it has few digits)",
            "form-coarse-clock": (
                "assumed: the clock is exact (its resolution makes the step time uncertain by"
                " ±{percent:.0f}%)"
            ),
            "form-average-assumed": (
                "assumed: the printed mean of step times covers the steps since the line before"
            ),
            "form-printed-is-part": (
                "assumed: the printed time covers a part of a step ({share:.2g}× its time)"
            ),
            "form-clocks-contradict": (
                "its times contradict each other: one is {share:.3g}× the other"
            ),
            "form-recurs": "line {line} and others have one form, “{text}”",
            "form-lacks-time": (
                "no number of it says how long a step takes: no time, no rate, no time stamp"
            ),
            "form-unknown": "nothing explains {labels}",
            "form-lacks-records": "it has a single step",
            "form-counts-epochs": "its lines count epochs, not steps",
            "timestamp-unknown": "timestamp unknown: {why}",
            "size-changes": "{size} changes during the run ({values}): no throughput in tokens",
            "sizes-unknown": "{names} unknown: the source doesn't state {them}{form}",
            "sizes-contradict": "{size} and {parts} can't both be true",
            "gpu-unstated": "the source doesn't state the GPU's name",
            "machine-unstated": "the log doesn't state {what}",
            "mlperf-gpus-unstated": (
                "the log doesn't state its GPUs: add the system description of the submission"
                " (systems/*.json)"
            ),
            "gpus-of-this-memory": "GPU memory of {gib} GiB matches: {gpus}",
            "from-description": "from the system description {where}: {facts}",
            "from-names": "inferred from the names of the platform and of the log's files: {facts}",
            "model-unnamed": "the log doesn't name its model: --model-name sets it",
            "model-from-directory": (
                "model from the name of the log's directory '{directory}': {model}; the log"
                " doesn't state it"
            ),
            "model-against-shape": "the model {model} and the given shape can't both be true",
            "shape-unstated": (
                "the model's shape isn't stated; {name} is the name of its configuration"
            ),
            "length-unstated": "the sequence length isn't stated",
            "length-suggested": (
                "the sequence length isn't stated; the logged tokens/s/GPU suggest {tokens} tokens"
                " (set it with --sequence-length)"
            ),
            "length-fits-no-rate": (
                "the sequence length isn't stated; the logged tokens/s/GPU fit no single length"
            ),
            "no-step-times": "no step times: {why}{but}",
            "no-printed-step-times": (
                "no printed step times, so the speed is that between time stamps: {why}{but}"
            ),
            "lost": "lost: {time} ({parts})",
            "log-begins-late": "log begins at {noun} {step}",
            "stated-against-seen": (
                "{name} {stated} was stated, but {seen}: they can't both be true; the stated one"
                " is used"
            ),
            "rates-against-stamps": (
                "{tokens:,.0f} tokens per step and GPU and {stamped:,.0f} by tps and the time"
                " stamps can't both be true"
            ),
            "timer-mismatch": (
                "timer mismatch: {clock} {seconds:.3f} s, host clock {host:.3f} s; step times may"
                " be wrong"
            ),
            "no-times-recorded": "no step times recorded, so no throughput",
            "slow-last-record": (
                "the last record (step {step}) takes {times:.1f}× as long as any before it; the"
                " mean includes it"
            ),
            "slow-record": (
                "the record of step {step} takes {times:.1f}× as long as any other; the mean"
                " includes it"
            ),
            "unlike-blocks": (
                "a step takes on average {mean:.4g} s, in the median block {typical:.4g} s;"
                " {block}{why}"
            ),
            "one-record": "only one record{mean}: it may include warm-up",
            "too-few-records": (
                "no steady state: {count} records are too few (needs {least}); results use {used}"
            ),
            "not-settled": (
                "no steady state: at its middle the run is still slower than at its end; results"
                " use {used}"
            ),
            "speed-changed": "speed changed at step {step} ({before:.4g} s → {after:.4g} s){cause}",
            "drifted": "step time drifted by {percent:+.1f}% (steps {first}–{last})",
            "no-rate": "{unknown} unknown: step times only, no throughput in tokens",
            "rate-withheld": (
                "no throughput: {printed:,.0f} tokens/s reported is {times:.3f} times batch ×"
                " sequence length / step time ({batch} × {length} tokens per step); one of them is"
                " wrong"
            ),
            "start-record-ignored": "{file} beside the log ignored: it belongs to another run",
            "from-command-line": (
                "{what} ({value}) is from the command line; the {source} doesn't state it"
            ),
            "overridden": (
                "{what} was overridden: {value} on the command line, {stated} in the log{place}"
            ),
            "log-read-in-part": "compressed file read only in part: {why}",
            "gpu-of-this-machine": (
                "GPU {gpu}: of this machine ({host}), on which the log was written; the log"
                " doesn't name it"
            ),
            "gpu-by-memory": "GPU {gpu}: from its memory of {gib:.0f} GiB; the log doesn't name it",
            "shape-against-log": "--model-shape: {given:,.0f} parameters, {stated:,.0f} in the log",
            "family-taken": "{name} is taken for {model}: the log doesn't state the model's shape",
            "attempt-joined": (
                "{later} goes on after step {step} of {former}: one training; from step {first} on"
                " lines are those of the later log"
            ),
            "run-left-nothing": "the run left no steps and no readable log",
            "run-ended": "a run {outcome}{reason}; it is {used}",
            "journal-damaged": "the journal is damaged: later steps are lost",
            "epochs-uncovered": (
                "native_metrics and breakdown cover the first {covered} of {epochs} recorded epochs"
            ),
            "nodes-undescribed": "{nodes} of {count} wrote no description",
            "nodes-differ": "the nodes differ: {facts}; the slowest limits all",
            "argument-missing": "{what} unknown: {why}pass {argument}= to {caller}",
            "shape-unknown": "the model's shape is unknown: no FLOPs, no MFU; pass model_config=",
            "shape-incomplete": (
                "{names} unknown from {origin}: no FLOPs, no MFU; pass model_config="
            ),
            "allocator-unread": "memory allocated and reserved unknown: {why}",
            "loss-of-one-process": (
                "loss_values are those of the first of {processes} processes, not the mean over all"
            ),
            "steps-unread": "{steps} without time, loss and gradient norm: {why}",
            "size-follows": "the {size} ({value:,}) follows from what the source prints: {how}",
            "whole-run-mean": (
                "only the mean of the whole run is known ({steps:,} steps of {seconds:.4g} s),"
                " including {included}"
            ),
            "step-untimed": "step {step} without a time: the clock did not advance",
            "ranks-not-gathered": (
                "step times are those of the first of {processes} processes, not the longest of"
                " all: {why}"
            ),
            "stragglers": (
                "{who} {verb}: up to {longest:.3g} s from step start to backward pass (typical"
                " {usual:.3g} s); this delays the other ranks by {percent:.0f}% of each step"
            ),
            "batch-is-short": (
                "{steps} of fewer than {accumulated} micro-batches (the end of an epoch): the"
                " global batch size varies, so there is no throughput in tokens; let"
                " limit_train_batches be a multiple of accumulate_grad_batches"
            ),
            "epoch-ends-short": (
                "the last steps of an epoch have fewer sequences, so there is no throughput in"
                " tokens: set dataloader_drop_last and make the epoch a multiple of the global"
                " batch"
            ),
            "several-steps-a-call": (
                "up to {steps} optimizer steps in one call of training_step: steps are counted as"
                " trainer.global_step counts them, a record averages those of one call, and the"
                " sequences per step are unknown"
            ),
            "checkpoint-within-steps": (
                "the time of {steps} includes saving a checkpoint, which the training does within"
                " it"
            ),
            "precision-unknown": "precision of the matrix products unknown: {why}",
            "losses-differ": (
                "the model's losses differ from the training loss: the model returns {own:.4f} on"
                " average, and the Trainer logs {logged:.4f}{instead}"
            ),
            "compiler-failed": "eager, since torch.compile failed: {why}",
            "compiled-out-of-memory": "eager, since compiled layers run out of memory",
            "profile-doubt": "--profile {profiler}: {problem}",
            "start-record-contradicts": (
                "the record beside the log ignored: it says {field} {recorded}, the log {logged}"
            ),
            "caches-not-dropped": "--drop-caches: {why}",
            "utilization-unread": "GPU utilization unknown: {why}",
            "gradients-overflowed": (
                "{steps} steps changed no weights: their fp16 gradients overflowed and the loss"
                " scale was lowered; their time is included"
            ),
            "no-epoch-measured": "no epoch after the warm-up was measured: no samples/s",
            "epochs-too-short": (
                "the measured epochs took {took} in all; a reliable result needs {least} or more"
                " (--num-samples, --epochs)"
            ),
            "page-cache-unknown": (
                "the page cache may have helped: how much of the data lay in it isn't known here"
            ),
            "page-cache-helped": (
                "the page cache helped: before a measured epoch up to {share} of the data lay in"
                " memory, so this isn't the storage's own speed (--drop-caches empties it before"
                " each epoch)"
            ),
            "torch-not-installed": "torch is not installed: nothing can be trained here{install}",
            "torch-incomplete": (
                "torch is installed but lacks the package {package}: install it again"
            ),
            "torch-not-loaded": "torch is installed but cannot be loaded ({why}): install it again",
            "torch-without-gpus": (
                "torch {torch} is a build without GPU support, though {vendor} devices are here"
                " ({sign}): install the {build} build to train on them"
            ),
            "torch-without-kernels": (
                "torch {torch} has no kernels for {gpu} ({architecture}), only for {built}:"
                " install a build that has, or hide this GPU with CUDA_VISIBLE_DEVICES"
            ),
            "torch-refuses-gpu": "torch found a GPU but cannot use it: {why}",
            "torch-warns": "torch says: {what}",
            "gpus-hidden": (
                "torch {torch} is a {build} build but found no GPU: {variable} hides all GPUs:"
                " unset it"
            ),
            "gpus-of-other-vendor": (
                "torch {torch} is a {build} build but found no GPU: the GPUs are {vendor}'s:"
                " install the {other} build"
            ),
            "gpu-driver-absent": (
                "torch {torch} is a {build} build but found no GPU: no {vendor} driver found (no"
                " {file}); start a container with {flags}"
            ),
            "gpu-not-permitted": (
                "torch {torch} is a {build} build but found no GPU: no permission to open {file}:"
                " join its group (render and video on AMD machines)"
            ),
            "mig-without-instance": (
                "torch {torch} is a {build} build but found no GPU: GPU {gpus} is in MIG mode and"
                " has no instance that it may use: make one (sudo nvidia-smi mig -cgi 0 -C), or"
                " turn the mode off (sudo nvidia-smi -mig 0)"
            ),
            "gpu-driver-unfit": (
                "torch {torch} is a {build} build but found no GPU, though the {vendor} driver is"
                " installed ({sign}): it may be too old for this build"
            ),
            "gpus-differ": (
                "the GPUs differ ({gpus}): the slowest limits all, and the first one is recorded"
            ),
            "gpu-partitioned": (
                "partitioned GPU {gpus} ({partition}): the peak of the whole GPU does not apply"
            ),
            "driver-file-absent": "{tools} found, but no driver's device file: treated as CPU only",
            "gpus-unknown": "the GPUs' name, number and memory are unknown without torch",
            "held-memory-unknown": "memory held by other processes is unknown on GPU {gpus}: {why}",
            "legacy-times-differ": "step_times and raw_step_times differ; step_times are used",
            "legacy-series-ignored": "{series} ignored: {values} values for {steps} steps",
            "legacy-series-not-finite": (
                "{series}: NaN or infinite at {lost} of {count} steps ({steps})"
            ),
            "legacy-metric-ignored": "performance_metrics.{metric} ignored: not a finite number",
            "legacy-platform-contradicts": (
                "platform unknown: '{stated}' contradicts the device '{device}'"
            ),
            "legacy-platform-ignored": "platform '{stated}' ignored: not nvd, amd or cpu",
            "legacy-from-name": "{field}: {value} (from file name)",
            "legacy-framework-from-name": (
                "framework: {value} (from file name); software_stack {stack} ignored: the earlier"
                " tool wrote it for every run on that platform"
            ),
            "legacy-device-invented": (
                "gpu_info and platform ignored: without torch, the earlier tool wrote '{device}'"
                " for any hardware"
            ),
            "legacy-gpu-doubtful": "gpu_info may describe the machine that parsed the log",
            "legacy-memory-ignored": (
                "memory in use of {gib} GiB ignored: it exceeds the device's {total} GB"
            ),
            "legacy-timestamp-unread": "timestamp '{stated}' ignored: not a time",
            "legacy-timestamp-of-reader": (
                "timestamp {stated} ignored: it is when the log was parsed, not when the run"
                " started"
            ),
            "legacy-timestamp-zoneless": "timestamp {stated} ignored: no time zone",
            "legacy-steps-beyond-plan": (
                "the file has {steps} step times, but {requested} requested steps"
            ),
            "legacy-steps-contradict": (
                "total_steps is {printed:.10g} in the file, which has {steps} step times"
            ),
            "legacy-mean-contradicts": (
                "avg_step_time_seconds {printed} in the file contradicts its step times (mean"
                " {mean:.4g} s)"
            ),
            "legacy-total-time-shorter": (
                "total_time_seconds {printed} in the file is below the sum of its step times"
                " ({total:.6g} s)"
            ),
            "legacy-timer-unknown": (
                "step timer scope unknown: the file doesn't name the tool that wrote it"
            ),
            "legacy-gpus-assumed": (
                "num_gpus is not in the file: assumed to be the machine's {devices} devices"
            ),
            "values-conflict": (
                "{noun} {step} is printed twice with different values ({fields}; lines {line} and"
                " {again}); the first is used"
            ),
            "restarted": (
                "restarted on line {line} from {noun} {step}: {noun}s {first} to {last} before the"
                " restart were dropped"
            ),
            "more-restarts": "restarted {count} more times",
            "failed-afterwards": "the run completed, then: {cause}",
            "attempt-without-step": (
                "restarted after line {line}; that attempt logged no step: {cause}"
            ),
            "grad-norms-not-finite": "gradient norm is not finite at {steps}",
            "loss-unprinted": "no loss printed at {steps}",
            "time-unprinted": "no step time printed at {steps}",
            "records-missing": "no record of {steps}",
            "lines-missing": "no line for {steps}",
            "labels-unread": "{count:count label} not read: {labels}",
            "lengths-vary": (
                "sequence lengths vary: {least:,.0f} to {most:,.0f} tokens per step, so step times"
                " vary with them"
            ),
            "rates-disagree": (
                "{off} of {count} records print tokens/s/GPU that disagree with batch × sequence"
                " length / time / GPUs ({batch} × {length} / {gpus}) by up to {percent:.1f}% (step"
                " {step}); one of them is wrong"
            ),
            "gpu-name-is-error": (
                "in the place of the GPU's name the source has an error text: {error}"
            ),
            "steps-counted-from-0": "step numbers shifted by one: the source counts from 0",
            "step-times-absent": "no step times in the source",
            "shape-differs": (
                "the configuration is named {name}, but the model is not {model}: {why}"
            ),
            "clock-goes-back": (
                "account unknown: times in the log go back by {time}, and it states no time zone"
            ),
            "clock-may-go-forward": (
                "account unknown: on {date} clocks may go forward, and the log states no time zone"
            ),
            "times-in-whole-seconds": (
                "step times are differences of elapsed_time, which has whole seconds"
            ),
            "records-numbered": "records without a step number ({count}) are numbered in order",
            "times-of-rolling-mean": (
                "step times are 1 / batches_per_sec, a rolling mean of up to 100 batches: changes"
                " appear late, and scatter is understated"
            ),
            "times-of-printed-rate": (
                "step times are 1 / printed batches per second: few digits, averaged by OLMo"
            ),
            "rates-contradict": (
                "the printed rates contradict each other: one GPU processes {times:.3g}× the"
                " tokens of all"
            ),
            "times-of-intervals": (
                "one time per {steps} steps, treated as their mean (Megatron's timer averages"
                " since it was last read)"
            ),
            "tflops-with-recomputation": (
                "Megatron-DeepSpeed's TFLOP/s include recomputation: not comparable with"
                " Megatron-LM's"
            ),
            "parts-contradict-total": (
                "the parts add up to {percent:.1f}% of the total time; one of them is wrong"
            ),
            "line-skipped": "line {line} skipped: {columns} of {of} columns",
            "reading-stopped": "reading stopped: {why}",
            "means-of-group": "values are means over the runs of a W&B group",
            "records-damaged": "{count:count damaged or torn record} skipped",
            "record-skipped": "a record in another form skipped",
            "times-of-clock": (
                "step times are differences of {clock}: evaluation and saving are included, if any"
            ),
            "one-record-as-step": (
                "a single record does not show how many steps it averages: counted as one step"
            ),
            "batch-suggested-by-samples": (
                "the global batch size isn't stated; consumed_samples suggest {batch:g} (set it"
                " with --global-batch-size)"
            ),
            "batch-suggested-by-tokens": (
                "the global batch size isn't stated; the lines suggest about {tokens:,.0f} tokens"
                " per device and step"
            ),
            "devices-of-process": (
                "the number of devices ({devices}) is from the memory table, in which a process"
                " lists its own devices"
            ),
            "batch-unstated": "the global batch size isn't stated; {but}",
            "times-of-train-time": (
                "step times are differences of train_time (whole ms); its clock runs ahead of the"
                " GPU, so the step after a validation looks long"
            ),
            "sizes-may-change": (
                "batch size and sequence length may change during the run (not logged)"
            ),
            "peak-of-mfu": "the peak behind the printed MFU is {peak}",
            "answers-vary": "tokens per step vary with the length of the answers",
            "responses-vary": (
                "tokens per step vary with the length of the responses; the log counts them"
            ),
            "lines-of-unknown-runs": (
                "lines without step numbers may belong to different runs: each is read as its own"
                " run"
            ),
            "lines-numbered": "lines without step numbers are numbered in order, one step each",
            "times-of-samples-rate": (
                "step times are global batch size / CurrSamplesPerSec of the printed steps,"
                " without data wait unless DeepSpeed loads the data"
            ),
            "steps-overflowed": (
                "{count} optimizer steps skipped on overflow; they count, and are faster"
            ),
            "samples-are-pairs": (
                "sequence length unknown: a sample is a pair of sequences, padded to the length"
                " that is stated"
            ),
            "printed-rate-too-high": (
                "printed tokens/s/GPU are {times:g} times too high (divided by {by}, not by {gpus}"
                " GPUs); use native_metrics.tokens_per_second_per_gpu_corrected"
            ),
            "tokens-not-fixed": (
                "tokens per step vary ({least:,.0f} to {most:,.0f}), so there is no fixed batch"
                " size × sequence length; token rates are in native_metrics"
            ),
            "rate-as-printed": (
                "tokens/s/GPU are as printed: divided by data and context parallelism{here} only,"
                " so too high by TP × PP; padding is not counted"
            ),
            "samples-only": (
                "sequence length unknown: throughput in samples/s only, not in tokens/s"
            ),
            "times-sampled": (
                "one step time is logged per {steps} steps; pauses in between are not included"
            ),
            "times-of-blocks": (
                "no step times in the log: computed as each block's wall time / its steps"
            ),
            "evaluation-in-blocks": (
                "training and evaluation aren't told apart in {blocks} blocks: a step takes at"
                " most {seconds:.4g} s there, with its share of the evaluations[, in steps"
                " {first}–{last} at most {fastest:.4g} s]"
            ),
            "values-unplaced": "{count} values ignored: the unit of their position is unknown",
            "events-unreadable": "{count} unreadable events skipped (first on line {line})",
            "loss-unlogged": "no loss logged at {steps}",
            "eval-accuracy-is-loss": (
                "'eval_accuracy' in this log is the benchmark's evaluation: for language models"
                " the loss (lower is better)"
            ),
            "summary-without-records": (
                "a summary without step records: its means are in native_metrics as printed (a"
                " mean of rates is not the rate at the mean time)"
            ),
            "sizes-of-summary-unstated": (
                "the sequence length and the global batch size are not stated"
            ),
            "description-has-error": (
                "the system description {where} has an error text for its GPU: {error}"
            ),
            "description-contradicts": (
                "the system description {where} says {what}: the log's is kept"
            ),
            "replica-groups": (
                "{groups} replica groups of one fault-tolerant run print into this log: values are"
                " from the first group to print each step, and the batch is that of one group"
            ),
            "last-step-unprinted": (
                "the last printed step is {step} of {planned}: torchtitan prints every {interval}"
                " steps"
            ),
            "log-freq-unstated": (
                "log_freq isn't stated (torchtitan's default is {default}): each record counts as"
                " one step"
            ),
            "times-from-stamped-tps": (
                "step times computed from tps and the time stamps, which show {tokens:,.0f} tokens"
                " per step and GPU: the log lacks {lacking}"
            ),
            "times-from-tps": (
                "step times computed as batch × sequence length / (tps × GPUs) ({batch} × {length}"
                " / (tps × {gpus})), to the precision of the printed tps"
            ),
            "widths-of-experts-unstated": (
                "feed-forward widths ignored: how this model mixes expert and dense layers isn't"
                " stated"
            ),
            "widths-ignored": (
                "feed-forward widths ignored: the model has {other}, so FLOPs from its widths"
                " would be wrong"
            ),
            "attempt-without-iteration": (
                "restarted on line {line}; that attempt logged no iteration: {why}"
            ),
            "stopped-early": (
                "stopped early, after iteration {iteration} of {planned} (line {line})"
            ),
            "memory-from-rocm-smi": (
                "memory in use is from rocm-smi; the log may repeat the value of its first"
                " iterations"
            ),
            "memory-peaks-early": (
                "peaks of allocated and reserved memory cover iterations up to {iteration}; the"
                " log has no later values"
            ),
            "iterations-skipped": "optimizer steps skipped at {steps}; they count as steps",
            "nan-iterations": "NaN iterations counted at {steps}",
            "values-garbled": "values garbled by other output ignored at {steps}",
            "times-unreadable": "no readable step time at {steps}",
            "time-may-be-mean": (
                "the time of iteration {iteration} ({seconds:g} s) may be a mean that includes"
                " iteration {first}, as newer Megatron versions print it; the log does not show"
                " which"
            ),
            "first-line-missing": (
                "the line of iteration 1 is missing[; iteration 2 ({seconds:g} s) counts as the"
                " mean of both]"
            ),
            "time-restored": (
                "iteration {iteration}: the logged {logged:g} s are a mean that includes iteration"
                " {first} ({first_seconds:g} s), since Megatron does not reset its timer;"
                " corrected to {seconds:g} s ({evidence}); its {printed} are means of the same"
                " kind, kept as printed"
            ),
            "file-cut": "file truncated or damaged: {count} records read",
            "whole-run-values": "whole-run values only: the file has no step records",
            "file-damaged": "file truncated or damaged",
            "trainer-resumed": (
                "resumed after step {step}: the Trainer's own train_…_per_second divide the work"
                " of all sessions by the time of the last one; whole_run_seconds_per_step counts"
                " the steps of the last session"
            ),
            "restarted-at": (
                "restarted on line {line} at {noun} {place:g}: {count} earlier records dropped"
            ),
            "steps-ambiguous": (
                "step numbers are ambiguous: records are numbered in order, one step each"
            ),
            "steps-derived": "step numbers derived from {evidence}",
            "events-cut": "{where}; everything before it was read",
            "event-time-restored": (
                "step {step}: the recorded {recorded:g} s are a mean that includes step {first}"
                " ({first_seconds:g} s); corrected to {seconds:g} s (the two events are"
                " {apart:.6g} s apart)"
            ),
            "batch-ramps-up": (
                "the arguments request a global batch of {requested}, but every step has {size} by"
                " {where} (batch ramp-up); {size} is used"
            ),
            "times-of-log-interval": (
                "step times are means over log_interval ({interval}) steps, recorded at the last"
                " of them; other values are per step"
            ),
            "trace-without-gpu-work": "{file}: no GPU work in the trace",
            "trace-without-steps": (
                "no steps in the trace: the breakdown covers all of it; call step() of"
                " torch.profiler"
            ),
            "kernels-uncategorized": (
                "{percent:.0f}% of the GPU's busy time is in kernels of no known category, such as"
                " {examples}"
            ),
            "unit-unstated": (
                "alloc and max_alloc have no stated unit: kept as printed in native_metrics"
            ),
        },
    ),
    **rows_of(
        "info",
        {
            "read-by-form": (
                "read by the form of its lines[: steps by {step}][, their times by {time}]"
            ),
            "steps-hold-other": (
                "the time of {steps} includes {what}: it is no training step's, and excluded"
            ),
            "steps-profiled": (
                "steps {first} to {last} were profiled and are excluded from the results"
            ),
            "steps-cut": (
                "steps {first}–{last} are excluded: not all runs of the comparison are as long"
            ),
            "rate-printed": (
                "{unit} are printed by the source ({average} of {steps}); they can't be computed,"
                " since these are unknown: {unknown}"
            ),
            "tokens-vary": (
                "tokens per step vary from {least:,.0f} to {most:,.0f}: a rate is all tokens of"
                " the steady-state steps over their time"
            ),
            "slow-start": (
                "steps {first}–{last} are excluded as a slow start: they take {times:.2f}× the"
                " time of those after; with them the mean step time is {percent:+.1f}%"
            ),
            "total-time-untimed": "total time unknown: {untimed} of {records} records have no time",
            "total-time-gap": (
                "total time unknown: not all steps between {before} and {after} are recorded"
            ),
            "recovered": "recovered from the training's journal, step by step",
            "resumed": "resumed: the first step recorded is {step}",
            "step-values-unknown": "{what} unknown: {why}",
            "activations-recomputed": (
                "activations are recomputed: no micro-batch fits the GPU's memory without"
            ),
            "from-start-record": "not in the log, from the record of the start: {facts}",
            "gpu-cores-unknown": (
                "gpu_cores unknown: cores per compute unit of {architecture} are not known"
            ),
            "platform-from-signs": "platform taken from {signs}, without torch",
            "memory-limited": (
                "this process may use {limit:.1f} GB of the machine's {memory:.1f} GB of memory"
            ),
            "cpu-unnamed": "CPU name unknown: the system doesn't report it",
            "legacy-core-rate-ignored": (
                "throughput_per_gpu_core ignored (not comparable across architectures)"
            ),
            "legacy-cores-ignored": "gpu_cores {cores} ignored: {gpu} has {actual}",
            "legacy-peak-ignored": (
                "peak_memory_allocated_gb {peak} ignored: sampled at step ends only, so below the"
                " true peak"
            ),
            "legacy-memory-in-use": (
                "the file's allocated memory of {gib} GiB is the device memory in use (hip mem"
                " usage): stored as peak_memory_device_used_gb {used}"
            ),
            "legacy-mean-recomputed": (
                "step-time mean recomputed: avg_step_time_seconds {printed} in the file excludes"
                " only step 1 as warm-up"
            ),
            "legacy-total-time-longer": (
                "total_time_seconds {printed} in the file exceeds the sum of its step times"
                " ({total:.6g} s) by {beyond:.4g} s: time between steps"
            ),
            "legacy-unknown": "unknown: {names} (not in the file)",
            "legacy-steps-counted": "no step numbers in the file: counted from 1",
            "legacy-unused": "unused fields of the file: {names}",
            "filled-in": "{names}: from {origin}",
            "trace-report": (
                "trace report: the breakdown covers the whole traced interval, an unknown number"
                " of steps"
            ),
        },
    ),
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
    "gpu-from-platform": NoteRow(
        "warning",
        "only the free text of the platform names the GPU {gpu}, and may be that of another system",
        "add the system description of the submission (systems/*.json), or use --gpu",
    ),
    "steps-beyond-run": NoteRow(
        "decisive",
        "all steps at the mean step time of the records take {share:.4g}× the time from run_start"
        " to run_stop: the log is not read correctly",
        "report the log: TensorPrimat reads it wrongly",
    ),
    "read-otherwise": NoteRow(
        "warning",
        "an older version read this log by rules that have changed: its speed may be more than"
        " 0.5% off",
        "read the log again",
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
        "the allocator had to free GPU memory and retry ({value} at line {line}): the steps with"
        " it are slower",
        "try a smaller micro-batch",
    ),
    "profiler-captures": NoteRow(
        "warning",
        "a profiler captured steps (line {line}): these are slower",
        "measure without a profiler",
    ),
    "dispatch-artifacts": NoteRow(
        "warning",
        "{steps}: times are artifacts of asynchronous dispatch (the host ran ahead of the device);"
        " excluded from the results{waited}",
        former=(
            "{steps}: times are artefacts of asynchronous dispatch (the host ran ahead of the"
            " device); excluded from the results{waited}",
        ),
    ),
    "no-rate-per-gpu": NoteRow(
        "warning",
        "number of GPUs unknown: no throughput per GPU",
        "--num-gpus N",
    ),
    "grad-norm-infinite": NoteRow(
        "warning",
        "gradient norm not finite (NaN or infinite) in {steps}",
        "look for the step at which the training diverged",
    ),
}
"""Rows by code. Files of schema 1 have only sentences: note_of() finds the row of each."""
