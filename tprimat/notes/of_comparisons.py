"""Notes on comparisons, regression checks and prices."""

from __future__ import annotations

from tprimat.notes.row import NoteRow

ROWS: dict[str, NoteRow] = {
    "telemetry-event": NoteRow("warning", "{event}[ (in {disturbed} of {runs} runs)]"),
    "memory-held-at-start": NoteRow(
        "warning", "other programs held {held:gigabytes} of GPU memory at the start"
    ),
    "at-power-cap": NoteRow(
        "info", "clock limited by the power cap (share of readings): {shares:each}"
    ),
    "slow-devices": NoteRow(
        "warning", "slower than the other GPUs in the preflight: {devices:each}"
    ),
    "few-runs": NoteRow("warning", "only two runs per system, so the confidence interval is wide"),
    "also": NoteRow("info", "also {systems:names}[ and {more} more]"),
    "outlier": NoteRow("info", "one outlier step took {share:.1%} of the measured time"),
    "unlike-sessions": NoteRow(
        "warning",
        "the last {later} runs, {pause:duration} after the first {first}, are {change:.1%} {how}",
    ),
    "runs-excluded": NoteRow(
        "warning", "{lost} of {runs:count run} did not finish and {are} excluded[: {cause}]"
    ),
    "no-run-finished": NoteRow("warning", "{outcome}[ ({done:,} of {planned:,} steps)][: {cause}]"),
    "diverged-from": NoteRow(
        "warning", "{what} from step {first:,} on[ in {alike} of {runs} runs]"
    ),
    "diverged-between": NoteRow(
        "warning",
        "{what} at steps between {first:,} and {last:,}[ in {alike} of {runs} runs]",
    ),
    "diverged-at": NoteRow("warning", "{what} at step {first:,}[ in {alike} of {runs} runs]"),
    "cpu-used-by-others": NoteRow("warning", "{users:names} during the measurement"),
    "speeds-changed": NoteRow("warning", "speed changed: {changes:names}"),
    "speeds-changed-in-some": NoteRow(
        "info", "{changing} of {runs:count run} changed speed part-way through"
    ),
    "drift": NoteRow(
        "info", "step time drifted by up to {share:.0%} within a run of {systems:names}"
    ),
    "slow-start-of-runs": NoteRow(
        "info",
        "the first {steps} steps of each run are excluded: the latest slow start takes as long",
    ),
    "single-record-each": NoteRow(
        "warning", "each log has a single averaged record, which may include warm-up"
    ),
    "single-record": NoteRow(
        "warning",
        "the log of {systems:names} has a single averaged record, which may include warm-up",
    ),
    "no-steady-state": NoteRow(
        "info", "no steady state in {where}: the result may include warm-up"
    ),
    "unlike-variables": NoteRow("warning", "the runs of {system} differ in {variables:names}"),
    "unlike-block": NoteRow("warning", "{block}; measure more runs"),
    "unlike-blocks-of-runs": NoteRow(
        "warning",
        "a step takes on average {mean:.4g} s, in the median block {typical:.4g} s",
    ),
    "unlike-runs": NoteRow("warning", "runs of {system} differ {spread:.2f}×"),
    "unlike-runs-of-sessions": NoteRow(
        "warning", "runs of {system} differ {spread:.2f}×: are they of one configuration?"
    ),
    "throughput-by-order": NoteRow(
        "warning", "throughput {kind} from run to run, by {size:.1%} from half to half"
    ),
    "throughput-alternates": NoteRow("warning", "odd- and even-numbered runs differ by {size:.1%}"),
    "training-differs": NoteRow("info", "model quality is not compared: {reasons:each}"),
    "gpu-in-free-text": NoteRow(
        "warning",
        "the GPU of {systems:names} is named only by its platform's free text, which may be that of"
        " another",
    ),
    "model-guessed": NoteRow(
        "info", "model from the name of the log's directory[ of {systems:names}], not the log"
    ),
    "gpu-guessed": NoteRow(
        "info",
        "GPUs[ of {systems:names}] inferred from the names of the platform and of the log's files",
    ),
    "set-by-user": NoteRow("warning", "{setting} set by the user, unlike its log"),
    "precisions-unknown": NoteRow(
        "warning", "precision [of {whose} ]is unknown and could explain the difference"
    ),
    "precisions-differ": NoteRow(
        "warning",
        "precision differs: {precisions:versus}[ ({described} from the system description, not the"
        " log)]",
    ),
    "precision-described": NoteRow(
        "info", "precision {described} is from the system description, not the log"
    ),
    "steps-compared": NoteRow(
        "warning",
        "the log states {lacking}, so each step is taken to do the same work, and steps/s are"
        " compared",
    ),
    "timers-differ": NoteRow("warning", "step timers differ: {timers:versus}"),
    "bf16-emulated": NoteRow(
        "warning", "this CPU has no BF16 instructions; BF16 is emulated in software and slow"
    ),
    "batches-differ": NoteRow(
        "warning",
        "global batch differs: {batches:versus} sequences; compare {unit}/s, not step time",
    ),
    "tokens-differ": NoteRow(
        "warning",
        "tokens per step differ: {tokens:versus}; longer sequences need more time per token",
    ),
    "tuning": NoteRow("info", "{efforts:names}"),
    "settings-differ": NoteRow("warning", "{settings}"),
    "compile-time": NoteRow(
        "info",
        "compiling took {least:.1f}[ to {most:.1f}] s before the first step; no speed includes it",
    ),
    "configuration-differs": NoteRow("info", "settings differ: {settings}"),
    "not-reported": NoteRow("info", "{settings:count setting} not reported by every system"),
    "rates-on-common-clock": NoteRow("info", "rates on the common clock: {rates:each}"),
    "on-emulated-device": NoteRow(
        "decisive", "[{system} ]ran on an emulated device; its timings are not valid"
    ),
    "untimed": NoteRow(
        "decisive", "[{system} has ]no step times[: {why}][: its run {ended}][ ({reason})]"
    ),
    "runs-of-several-configurations": NoteRow(
        "decisive",
        "{system} has runs that differ {spread:.3g}×, so they are not of one configuration",
    ),
    "copies-of-one-run": NoteRow("decisive", "{file} and {copy} are copies of one run"),
    "configurations-not-equal": NoteRow(
        "decisive", "the configurations differ in {settings:listed}"
    ),
    "shapes-differ": NoteRow("decisive", "the models differ in shape[ ({conflict})]"),
    "scales-differ": NoteRow(
        "decisive", "the scales differ ({first} and {second}), so these are different models"
    ),
    "models-unnamed": NoteRow("decisive", "the results don't say which model was trained"),
    "workload-differs": NoteRow("decisive", "workload mismatch: {what} {first} vs {second}"),
    "rate-unknown": NoteRow("decisive", "{unit}[ of {system}] is unknown"),
    "rate-without-batch": NoteRow(
        "decisive", "{unit}[ of {system}] is unknown ({unknown:names} unknown)"
    ),
    "rate-contradicted": NoteRow(
        "decisive",
        "{unit}[ of {system}] is unknown ({printed:,.0f} tokens/s reported is {times:.3f} times"
        " batch × sequence length / step time ({batch} × {length} tokens per step); one of them is"
        " wrong)",
    ),
    "rate-without-sizes": NoteRow(
        "decisive",
        "{unit}[ of {system}] is unknown ({unknown} unknown: step times only, no throughput in"
        " tokens)",
    ),
    "rate-without-gpus": NoteRow(
        "decisive",
        "{unit}[ of {system}] is unknown (number of GPUs unknown: no throughput per GPU)",
    ),
    "rate-without-times": NoteRow(
        "decisive",
        "{unit}[ of {system}] is unknown (no step times recorded, so no throughput)",
    ),
    "rates-in-samples": NoteRow(
        "info",
        "{model}: rates are in samples/s/GPU, since not all logs state the sequence length"
        " (--sequence-length sets it)",
    ),
    "compared-apart": NoteRow(
        "warning",
        "{parts:names} are compared as {systems} systems: run-to-run variation does not explain a"
        " gap of {gap:.0%}",
    ),
    "run-twice": NoteRow("warning", "{file} contains the same run twice; counted once"),
    "run-again": NoteRow("warning", "{file} contains the same run as {other}; counted once"),
    "copies": NoteRow(
        "decisive",
        "{file} and {other} contain identical step times under different configurations: they are"
        " copies of one measurement and cannot be compared",
    ),
    "run-otherwise": NoteRow(
        "decisive",
        "{file} contains a run of {other} with other step times: one of the two is wrong",
    ),
    "baseline-absent": NoteRow(
        "warning", "{model}: there is no system {reference}, so another one is the baseline"
    ),
    "precision-given": NoteRow(
        "info",
        "precision {precision} from the command line, since the result doesn't state it:"
        " {files:listed}",
    ),
    "precision-ignored": NoteRow(
        "warning",
        "--precision {name}={precision} is ignored: the results already state their precision",
    ),
    "systems-not-listed": NoteRow("info", "{systems:,} more {are} not listed; use --json for all"),
    "prices-given": NoteRow("info", "prices per GPU-hour from the command line ({source}, {date})"),
    "prices-in-order-of-files": NoteRow(
        "warning", "prices are in the order of the files, not of the table: {prices:listed}"
    ),
    "prices-of-no-system": NoteRow(
        "warning",
        "no system matches {names}, so {prices_are} not used; systems: {systems:each}",
    ),
    "price-of-unnamed-gpu": NoteRow(
        "warning",
        "no system matches {names}, so {prices_are} not used; if the log is from that GPU, add"
        " --gpu {gpu}",
    ),
    "target-missed": NoteRow("warning", "{failed} of {runs} runs did not reach the target"),
    "score-of-other-runs": NoteRow(
        "info",
        "no official score: MLPerf's needs {needed} runs, of which one may fail; these are {runs}",
    ),
    "score-of-unknown-runs": NoteRow(
        "info",
        "no official score: MLPerf's needs a number of runs that is unknown here; these are {runs}",
    ),
    "normalization-unknown": NoteRow(
        "info", "normalization unknown: no scaling.json next to the logs; counted as 1"
    ),
    "recording-begins-late": NoteRow(
        "info",
        "wall time begins with the recording: starting the process and imports are not included",
    ),
    "loss-not-reached": NoteRow("decisive", "not both reach a loss of {loss:g}"),
    "targets-differ": NoteRow("decisive", "their benchmarks or targets differ"),
    "target-of-one": NoteRow("decisive", "not both have a target"),
    "steps-without-target": NoteRow("decisive", "no target, and their numbers of steps differ"),
    "time-unexplained": NoteRow(
        "warning", "no speed and samples: much of the time is warm-up or unknown"
    ),
    "data-without-text": NoteRow("decisive", "{evidence}"),
    "data-differs": NoteRow("decisive", "different data (checksums differ)"),
    "data-of-kinds": NoteRow("decisive", "the data is {first} and {second}"),
    "vocabularies-differ": NoteRow("decisive", "the vocabulary has {first} and {second} tokens"),
    "system-unused": NoteRow("warning", "{model}, {system} is not used"),
    "system-excluded": NoteRow("warning", "{model}, {system} is not used: excluded"),
    "system-without-rate": NoteRow("warning", "{model}, {system} is not used: throughput unknown"),
    "size-alone": NoteRow("info", "{model}, {system} is not shown: measured at one GPU count only"),
    "sizes-dropped": NoteRow(
        "info", "{model}: {slower:count slower configuration} at the same GPU count not shown"
    ),
    "gpus-of-systems-unstated": NoteRow(
        "warning",
        "{whose} number of GPUs; set it with --num-gpus FILE=N, where FILE is a part of a log's"
        " path, once per GPU count",
    ),
    "clocks-of-curves": NoteRow(
        "warning", "step times are measured differently from another curve's: {clocks:versus}"
    ),
    "clocks-of-sizes": NoteRow("warning", "step times are measured differently: {clocks:versus}"),
    "sizes-of-one-run": NoteRow("warning", "one run at {where}: run-to-run variation unknown"),
    "precision-of-sizes-unknown": NoteRow(
        "warning", "precision is unknown and may differ between GPU counts"
    ),
    "batch-changes": NoteRow(
        "warning",
        "the global batch changes with the number of GPUs ({least:,} to {most:,}); a larger batch"
        " may need more samples for the same loss",
    ),
    "settings-change": NoteRow(
        "warning", "settings change with the number of GPUs: {settings:each}"
    ),
    "losses-not-comparable": NoteRow("decisive", "final_loss: {why}"),
    "losses-few": NoteRow(
        "warning",
        "final_loss: {losses} losses in the last {share:.0%} of {work:magnitude} common {unit},"
        " {needed} needed",
    ),
    "losses-not-positive": NoteRow("decisive", "final_loss: it is 0 or below"),
    "losses-autocorrelated": NoteRow(
        "warning",
        "final_loss: losses in the last {share:.0%} of {work:magnitude} common {unit} are too"
        " strongly autocorrelated",
    ),
    "losses-averaged": NoteRow(
        "info",
        "Final loss: mean over the last {share:.0%} of {work:magnitude} common {unit}[; assumes"
        " {spread:.1%} run-to-run variation]",
    ),
    "losses-averaged-of-unknown-data": NoteRow(
        "info",
        "Final loss: mean over the last {share:.0%} of {work:magnitude} common {unit}[; assumes"
        " {spread:.1%} run-to-run variation]; assumes that both used the same data",
    ),
    "losses-of-unknown-steps": NoteRow(
        "decisive", "final_loss: unknown tokens per step in a run of {system}"
    ),
    "losses-absent": NoteRow("decisive", "final_loss: no losses in a run of {system}"),
    "losses-end": NoteRow(
        "decisive", "final_loss: no finite loss after step {step} of {last} in a run of {system}"
    ),
    "train-longer": NoteRow("info", "train longer, or repeat: ./benchmark.py --steps N --runs 3"),
    "run-longer": NoteRow(
        "info", "run longer (at least 200 steps, better 500): ./benchmark.py --steps 500"
    ),
    "repeat-runs": NoteRow(
        "info", "find the cause, then repeat the runs: ./benchmark.py --retry-failed"
    ),
    "choose-systems": NoteRow(
        "info", "pass the results of one system to --baseline and to --candidate"
    ),
    "measure-candidate": NoteRow(
        "info", "measure it for the candidate: ./benchmark.py --match RESULT"
    ),
    "choose-other-candidate": NoteRow(
        "info", "pass the results of another measurement as --candidate"
    ),
    "leave-out-threshold": NoteRow("info", "leave out --threshold {metric}"),
    "threshold-in-unit": NoteRow(
        "info", "give the threshold in {unit}: --threshold {metric}=AMOUNT"
    ),
    "set-threshold": NoteRow(
        "info",
        "set a threshold, such as --max-slowdown 3%: at 0%, an unchanged program is always"
        " inconclusive",
    ),
    "vary-less": NoteRow(
        "info",
        "make runs vary less (idle machine, fixed clocks): not even {most} runs each would decide",
    ),
    "measure-runs": NoteRow(
        "info",
        "measure {runs} runs each, interleaved if possible[ (if runs vary by {spread:.0%})]:"
        " ./benchmark.py --runs {runs}",
    ),
    "measure-baseline-runs": NoteRow(
        "info",
        "measure {runs} baseline runs[ (if runs vary by {spread:.0%})]: ./benchmark.py --runs"
        " {runs}",
    ),
    "measure-candidate-runs": NoteRow(
        "info",
        "measure {runs} candidate runs[ (if runs vary by {spread:.0%})]: ./benchmark.py --runs"
        " {runs}",
    ),
    "keep-as-first-baseline": NoteRow("info", "keep the candidate's results as the first baseline"),
    "compare-one-program": NoteRow(
        "info", "compare runs of one program only: record each in a new directory"
    ),
    "pass-readable-files": NoteRow("info", "pass files that can be read: not all of them could be"),
    "keep-as-next-baseline": NoteRow("info", "keep the candidate's results as the next baseline"),
    "compare-losses": NoteRow(
        "info", "compare the loss curves in the report: ./compare_results.py BASELINE CANDIDATE"
    ),
    "measure-with-changes": NoteRow(
        "info",
        "measure the baseline with the candidate's {changed:names}, so that only the program"
        " differs",
    ),
    "profile-both": NoteRow(
        "info",
        "find the cause: profile both with ./benchmark.py --profile torch, then compare with"
        " tprimat explain",
    ),
    "repeat-runs-of-system": NoteRow(
        "info", "repeat the runs of {system}: ./benchmark.py --retry-failed"
    ),
    "measure-same-workload": NoteRow(
        "info", "measure the same workload twice: ./benchmark.py --match RESULT"
    ),
    "changed": NoteRow("warning", "{what} changed: {before} → {after}"),
    "skipped": NoteRow("warning", "skipped: {files:names}: {why}"),
    "read-with-logs": NoteRow("info", "{file}: {why}"),
    "not-read": NoteRow("decisive", "not read: {problem}"),
    "logs-unread": NoteRow(
        "warning",
        "{logs:count file} skipped, possibly logs of a training script with results here; to compare"
        " the logs too: {command}",
    ),
    "systems-without-speed": NoteRow(
        "warning", "{systems:count system} without a valid speed: excluded"
    ),
    "systems-published": NoteRow("info", "{systems:count system} already published: excluded"),
    "baseline-empty": NoteRow("decisive", "the baseline contains no result"),
    "all-finished": NoteRow("info", "all runs finished"),
    "file-unread": NoteRow("decisive", "a file that was named could not be read"),
    "throughput-unchecked": NoteRow("info", "throughput is not checked: --max-slowdown does"),
    "checked-in-samples": NoteRow(
        "info", "{model}: rates are in samples/s/GPU, since the sequence length is unknown"
    ),
    "systems-without-baseline": NoteRow(
        "warning", "{model}: no baseline for {systems:listed}; skipped"
    ),
    "candidate-absent": NoteRow("decisive", "no candidate result for this configuration"),
    "several-match": NoteRow(
        "decisive",
        "{baselines:count baseline system} and {candidates} of the candidate match this"
        " configuration",
    ),
    "steps-in-common": NoteRow("info", "Speeds use steps {first}–{last}, which all runs have"),
    "same-run": NoteRow("decisive", "baseline and candidate contain the same run ({file})"),
    "same-run-otherwise": NoteRow(
        "decisive",
        "baseline and candidate contain the same run with other step times ({file})",
    ),
    "side-failed": NoteRow("decisive", "every run of the {side} failed[ ({cause})]"),
    "no-values": NoteRow("decisive", "no values"),
    "batch-unknown": NoteRow("decisive", "steps may differ in work: global batch unknown"),
    "steps-differ-in-work": NoteRow(
        "decisive",
        "{metric}: steps differ in work (global batch {first} vs {second}); compare throughput",
    ),
    "too-short": NoteRow(
        "warning",
        "too short to compare: {systems:names} did not reach a steady speed by the middle of a run",
    ),
    "metric-unknown": NoteRow("decisive", "{metric} of {sides:names} is unknown"),
    "metric-is-zero": NoteRow("decisive", "{metric} is 0, so it has no relative change"),
    "within-threshold": NoteRow("info", "the {level} CI is within the threshold"),
    "beyond-threshold": NoteRow("decisive", "the {level} CI is beyond the threshold"),
    "change-within-threshold": NoteRow("info", "the change is within the threshold"),
    "change-beyond-threshold": NoteRow("decisive", "the change is beyond the threshold"),
    "variation-unknown": NoteRow(
        "warning",
        "[beyond the threshold of {threshold}, but ]with {baseline:count run} each, run-to-run"
        " variation is unknown",
    ),
    "variation-of-sides-unknown": NoteRow(
        "warning",
        "[beyond the threshold of {threshold}, but ]with {baseline} baseline and {candidate}"
        " candidate runs, run-to-run variation is unknown",
    ),
    "interval-includes-threshold": NoteRow(
        "warning",
        "[beyond the threshold of {threshold}, but ]the {level} CI includes the threshold",
    ),
    "not-significant": NoteRow(
        "warning",
        "[beyond the threshold of {threshold}, but ]not significant after Holm's correction for"
        " {checks} checks",
    ),
}
"""Rows by code."""
