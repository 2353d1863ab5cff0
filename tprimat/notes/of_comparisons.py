"""Notes on comparisons, regression checks and prices."""

from __future__ import annotations

from tprimat.notes.row import rows_of

ROWS = {
    **rows_of(
        "decisive",
        {
            "on-emulated-device": "[{system} ]ran on an emulated device; its timings are not valid",
            "untimed": "[{system} has ]no step times[: {why}][: its run {ended}][ ({reason})]",
            "runs-of-several-configurations": (
                "{system} has runs that differ {spread:.3g}×, so they are not of one configuration"
            ),
            "copies-of-one-run": "{file} and {copy} are copies of one run",
            "configurations-not-equal": "the configurations differ in {settings:listed}",
            "shapes-differ": "the models differ in shape[ ({conflict})]",
            "scales-differ": (
                "the scales differ ({first} and {second}), so these are different models"
            ),
            "models-unnamed": "the results don't say which model was trained",
            "workload-differs": "workload mismatch: {what} {first} vs {second}",
            "rate-unknown": "{unit}[ of {system}] is unknown",
            "rate-without-batch": "{unit}[ of {system}] is unknown ({unknown:names} unknown)",
            "rate-contradicted": (
                "{unit}[ of {system}] is unknown ({printed:,.0f} tokens/s reported is {times:.3f}"
                " times batch × sequence length / step time ({batch} × {length} tokens per step);"
                " one of them is wrong)"
            ),
            "rate-without-sizes": (
                "{unit}[ of {system}] is unknown ({unknown} unknown: step times only, no"
                " throughput in tokens)"
            ),
            "rate-without-gpus": (
                "{unit}[ of {system}] is unknown (number of GPUs unknown: no throughput per GPU)"
            ),
            "rate-without-times": (
                "{unit}[ of {system}] is unknown (no step times recorded, so no throughput)"
            ),
            "copies": (
                "{file} and {other} contain identical step times under different configurations:"
                " they are copies of one measurement and cannot be compared"
            ),
            "run-otherwise": (
                "{file} contains a run of {other} with other step times: one of the two is wrong"
            ),
            "loss-not-reached": "not both reach a loss of {loss:g}",
            "targets-differ": "their benchmarks or targets differ",
            "target-of-one": "not both have a target",
            "steps-without-target": "no target, and their numbers of steps differ",
            "data-without-text": "{evidence}",
            "data-differs": "different data (checksums differ)",
            "data-of-kinds": "the data is {first} and {second}",
            "vocabularies-differ": "the vocabulary has {first} and {second} tokens",
            "losses-not-comparable": "final_loss: {why}",
            "losses-not-positive": "final_loss: it is 0 or below",
            "losses-of-unknown-steps": "final_loss: unknown tokens per step in a run of {system}",
            "losses-absent": "final_loss: no losses in a run of {system}",
            "losses-end": (
                "final_loss: no finite loss after step {step} of {last} in a run of {system}"
            ),
            "not-read": "not read: {problem}",
            "baseline-empty": "the baseline contains no result",
            "file-unread": "a file that was named could not be read",
            "candidate-absent": "no candidate result for this configuration",
            "several-match": (
                "{baselines:count baseline system} and {candidates} of the candidate match this"
                " configuration"
            ),
            "same-run": "baseline and candidate contain the same run ({file})",
            "same-run-otherwise": (
                "baseline and candidate contain the same run with other step times ({file})"
            ),
            "side-failed": "every run of the {side} failed[ ({cause})]",
            "no-values": "no values",
            "batch-unknown": "steps may differ in work: global batch unknown",
            "steps-differ-in-work": (
                "{metric}: steps differ in work (global batch {first} vs {second}); compare"
                " throughput"
            ),
            "metric-unknown": "{metric} of {sides:names} is unknown",
            "metric-is-zero": "{metric} is 0, so it has no relative change",
            "beyond-threshold": "the {level} CI is beyond the threshold",
            "change-beyond-threshold": "the change is beyond the threshold",
        },
    ),
    **rows_of(
        "warning",
        {
            "telemetry-event": "{event}[ (in {disturbed} of {runs} runs)]",
            "memory-held-at-start": (
                "other programs held {held:gigabytes} of GPU memory at the start"
            ),
            "slow-devices": "slower than the other GPUs in the preflight: {devices:each}",
            "few-runs": "only two runs per system, so the confidence interval is wide",
            "unlike-sessions": (
                "the last {later} runs, {pause:duration} after the first {first}, are {change:.1%}"
                " {how}"
            ),
            "runs-excluded": (
                "{lost} of {runs:count run} did not finish and {are} excluded[: {cause}]"
            ),
            "no-run-finished": "{outcome}[ ({done:,} of {planned:,} steps)][: {cause}]",
            "diverged-from": "{what} from step {first:,} on[ in {alike} of {runs} runs]",
            "diverged-between": (
                "{what} at steps between {first:,} and {last:,}[ in {alike} of {runs} runs]"
            ),
            "diverged-at": "{what} at step {first:,}[ in {alike} of {runs} runs]",
            "cpu-used-by-others": "{users:names} during the measurement",
            "speeds-changed": "speed changed: {changes:names}",
            "single-record-each": (
                "each log has a single averaged record, which may include warm-up"
            ),
            "single-record": (
                "the log of {systems:names} has a single averaged record, which may include warm-up"
            ),
            "unlike-variables": "the runs of {system} differ in {variables:names}",
            "unlike-block": "{block}; measure more runs",
            "unlike-blocks-of-runs": (
                "a step takes on average {mean:.4g} s, in the median block {typical:.4g} s"
            ),
            "unlike-runs": "runs of {system} differ {spread:.2f}×",
            "unlike-runs-of-sessions": (
                "runs of {system} differ {spread:.2f}×: are they of one configuration?"
            ),
            "throughput-by-order": (
                "throughput {kind} from run to run, by {size:.1%} from half to half"
            ),
            "throughput-alternates": "odd- and even-numbered runs differ by {size:.1%}",
            "gpu-in-free-text": (
                "the GPU of {systems:names} is named only by its platform's free text, which may"
                " be that of another"
            ),
            "set-by-user": "{setting} set by the user, unlike its log",
            "precisions-unknown": (
                "precision [of {whose} ]is unknown and could explain the difference"
            ),
            "precisions-differ": (
                "precision differs: {precisions:versus}[ ({described} from the system description,"
                " not the log)]"
            ),
            "samples-compared": (
                "no tokens/s are known, so the samples/s that the sources print are compared: they"
                " are not comparable if sequence lengths differ"
            ),
            "flops-compared": (
                "no tokens/s are known, so the {unit} that the sources print are compared, and each"
                " program counts FLOPs its own way"
            ),
            "rates-printed": (
                "tokens/s/GPU[ of {systems:names}] are printed by the source, not computed from"
                " batch size, sequence length and step time"
            ),
            "rates-printed-by-several": (
                "tokens/s/GPU are printed by the sources, and each program counts tokens its own"
                " way"
            ),
            "model-by-evidence": (
                "no source names its model; equal {evidence} show that it is the same one"
            ),
            "steps-compared": (
                "the log states {lacking}, so each step is taken to do the same work, and steps/s"
                " are compared"
            ),
            "timers-differ": "step timers differ: {timers:versus}",
            "bf16-emulated": (
                "this CPU has no BF16 instructions; BF16 is emulated in software and slow"
            ),
            "batches-differ": (
                "global batch differs: {batches:versus} sequences; compare {unit}/s, not step time"
            ),
            "tokens-differ": (
                "tokens per step differ: {tokens:versus}; longer sequences need more time per token"
            ),
            "settings-differ": "{settings}",
            "compared-apart": (
                "{parts:names} are compared as {systems} systems: run-to-run variation does not"
                " explain a gap of {gap:.0%}"
            ),
            "compared-apart-by-speed": (
                "{parts:names} are compared as {systems} systems: their speeds differ by {gap:.0%},"
                " and nothing says that they ran on the same GPUs"
            ),
            "run-twice": "{file} contains the same run twice; counted once",
            "run-again": "{file} contains the same run as {other}; counted once",
            "baseline-absent": (
                "{model}: there is no system {reference}, so another one is the baseline"
            ),
            "precision-ignored": (
                "--precision {name}={precision} is ignored: the results already state their"
                " precision"
            ),
            "prices-in-order-of-files": (
                "prices are in the order of the files, not of the table: {prices:listed}"
            ),
            "prices-of-no-system": (
                "no system matches {names}, so {prices_are} not used; systems: {systems:each}"
            ),
            "price-of-unnamed-gpu": (
                "no system matches {names}, so {prices_are} not used; if the log is from that GPU,"
                " add --gpu {gpu}"
            ),
            "target-missed": "{failed} of {runs} runs did not reach the target",
            "time-unexplained": "no speed and samples: much of the time is warm-up or unknown",
            "system-unused": "{model}, {system} is not used",
            "system-excluded": "{model}, {system} is not used: excluded",
            "system-without-rate": "{model}, {system} is not used: throughput unknown",
            "gpus-of-systems-unstated": (
                "{whose} number of GPUs; set it with --num-gpus FILE=N, where FILE is a part of a"
                " log's path, once per GPU count"
            ),
            "clocks-of-curves": (
                "step times are measured differently from another curve's: {clocks:versus}"
            ),
            "clocks-of-sizes": "step times are measured differently: {clocks:versus}",
            "sizes-of-one-run": "one run at {where}: run-to-run variation unknown",
            "precision-of-sizes-unknown": "precision is unknown and may differ between GPU counts",
            "batch-changes": (
                "the global batch changes with the number of GPUs ({least:,} to {most:,}); a"
                " larger batch may need more samples for the same loss"
            ),
            "settings-change": "settings change with the number of GPUs: {settings:each}",
            "losses-few": (
                "final_loss: {losses} losses in the last {share:.0%} of {work:magnitude} common"
                " {unit}, {needed} needed"
            ),
            "losses-autocorrelated": (
                "final_loss: losses in the last {share:.0%} of {work:magnitude} common {unit} are"
                " too strongly autocorrelated"
            ),
            "changed": "{what} changed: {before} → {after}",
            "skipped": "skipped: {files:names}: {why}",
            "logs-unread": (
                "{logs:count file} skipped, possibly logs of a training script with results here;"
                " to compare the logs too: {command}"
            ),
            "systems-without-speed": "{systems:count system} without a valid speed: excluded",
            "systems-without-baseline": "{model}: no baseline for {systems:listed}; skipped",
            "too-short": (
                "too short to compare: {systems:names} did not reach a steady speed by the middle"
                " of a run"
            ),
            "variation-unknown": (
                "[beyond the threshold of {threshold}, but ]with {baseline:count run} each,"
                " run-to-run variation is unknown"
            ),
            "variation-of-sides-unknown": (
                "[beyond the threshold of {threshold}, but ]with {baseline} baseline and"
                " {candidate} candidate runs, run-to-run variation is unknown"
            ),
            "interval-includes-threshold": (
                "[beyond the threshold of {threshold}, but ]the {level} CI includes the threshold"
            ),
            "not-significant": (
                "[beyond the threshold of {threshold}, but ]not significant after Holm's"
                " correction for {checks} checks"
            ),
        },
    ),
    **rows_of(
        "info",
        {
            "at-power-cap": "clock limited by the power cap (share of readings): {shares:each}",
            "also": "also {systems:names}[ and {more} more]",
            "outlier": "one outlier step took {share:.1%} of the measured time",
            "speeds-changed-in-some": (
                "{changing} of {runs:count run} changed speed part-way through"
            ),
            "drift": "step time drifted by up to {share:.0%} within a run of {systems:names}",
            "slow-start-of-runs": (
                "the first {steps} steps of each run are excluded: the latest slow start takes as"
                " long"
            ),
            "no-steady-state": "no steady state in {where}: the result may include warm-up",
            "training-differs": "model quality is not compared: {reasons:each}",
            "model-guessed": (
                "model from the name of the log's directory[ of {systems:names}], not the log"
            ),
            "gpu-guessed": (
                "GPUs[ of {systems:names}] inferred from the names of the platform and of the"
                " log's files"
            ),
            "precision-described": (
                "precision {described} is from the system description, not the log"
            ),
            "tuning": "{efforts:names}",
            "compile-time": (
                "compiling took {least:.1f}[ to {most:.1f}] s before the first step; no speed"
                " includes it"
            ),
            "configuration-differs": "settings differ: {settings}",
            "not-reported": "{settings:count setting} not reported by every system",
            "rates-on-common-clock": "rates on the common clock: {rates:each}",
            "rates-in-samples": (
                "{model}: rates are in samples/s/GPU, since not all logs state the sequence length"
                " (--sequence-length sets it)"
            ),
            "precision-given": (
                "precision {precision} from the command line, since the result doesn't state it:"
                " {files:listed}"
            ),
            "systems-not-listed": "{systems:,} more {are} not listed; use --json for all",
            "prices-given": "prices per GPU-hour from the command line ({source}, {date})",
            "score-of-other-runs": (
                "no official score: MLPerf's needs {needed} runs, of which one may fail; these are"
                " {runs}"
            ),
            "score-of-unknown-runs": (
                "no official score: MLPerf's needs a number of runs that is unknown here; these"
                " are {runs}"
            ),
            "normalization-unknown": (
                "normalization unknown: no scaling.json next to the logs; counted as 1"
            ),
            "recording-begins-late": (
                "wall time begins with the recording: starting the process and imports are not"
                " included"
            ),
            "size-alone": "{model}, {system} is not shown: measured at one GPU count only",
            "sizes-dropped": (
                "{model}: {slower:count slower configuration} at the same GPU count not shown"
            ),
            "losses-averaged": (
                "Final loss: mean over the last {share:.0%} of {work:magnitude} common {unit}[;"
                " assumes {spread:.1%} run-to-run variation]"
            ),
            "losses-averaged-of-unknown-data": (
                "Final loss: mean over the last {share:.0%} of {work:magnitude} common {unit}[;"
                " assumes {spread:.1%} run-to-run variation]; assumes that both used the same data"
            ),
            "train-longer": "train longer, or repeat: ./benchmark.py --steps N --runs 3",
            "run-longer": "run longer (at least 200 steps, better 500): ./benchmark.py --steps 500",
            "repeat-runs": "find the cause, then repeat the runs: ./benchmark.py --retry-failed",
            "choose-systems": "pass the results of one system to --baseline and to --candidate",
            "measure-candidate": "measure it for the candidate: ./benchmark.py --match RESULT",
            "choose-other-candidate": "pass the results of another measurement as --candidate",
            "leave-out-threshold": "leave out --threshold {metric}",
            "threshold-in-unit": "give the threshold in {unit}: --threshold {metric}=AMOUNT",
            "set-threshold": (
                "set a threshold, such as --max-slowdown 3%: at 0%, an unchanged program is always"
                " inconclusive"
            ),
            "vary-less": (
                "make runs vary less (idle machine, fixed clocks): not even {most} runs each would"
                " decide"
            ),
            "measure-runs": (
                "measure {runs} runs each, interleaved if possible[ (if runs vary by"
                " {spread:.0%})]: ./benchmark.py --runs {runs}"
            ),
            "measure-baseline-runs": (
                "measure {runs} baseline runs[ (if runs vary by {spread:.0%})]: ./benchmark.py"
                " --runs {runs}"
            ),
            "measure-candidate-runs": (
                "measure {runs} candidate runs[ (if runs vary by {spread:.0%})]: ./benchmark.py"
                " --runs {runs}"
            ),
            "keep-as-first-baseline": "keep the candidate's results as the first baseline",
            "compare-one-program": (
                "compare runs of one program only: record each in a new directory"
            ),
            "pass-readable-files": "pass files that can be read: not all of them could be",
            "keep-as-next-baseline": "keep the candidate's results as the next baseline",
            "compare-losses": (
                "compare the loss curves in the report: ./compare_results.py BASELINE CANDIDATE"
            ),
            "measure-with-changes": (
                "measure the baseline with the candidate's {changed:names}, so that only the"
                " program differs"
            ),
            "profile-both": (
                "find the cause: profile both with ./benchmark.py --profile torch, then compare"
                " with tprimat explain"
            ),
            "repeat-runs-of-system": "repeat the runs of {system}: ./benchmark.py --retry-failed",
            "measure-same-workload": (
                "measure the same workload twice: ./benchmark.py --match RESULT"
            ),
            "read-with-logs": "{file}: {why}",
            "systems-published": "{systems:count system} already published: excluded",
            "all-finished": "all runs finished",
            "throughput-unchecked": "throughput is not checked: --max-slowdown does",
            "checked-in-samples": (
                "{model}: rates are in samples/s/GPU, since the sequence length is unknown"
            ),
            "steps-in-common": "Speeds use steps {first}–{last}, which all runs have",
            "within-threshold": "the {level} CI is within the threshold",
            "change-within-threshold": "the change is within the threshold",
        },
    ),
}
"""Rows by code."""
