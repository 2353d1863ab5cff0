"""The dictionaries of Hugging Face's Trainer: which key is what, in the console and in its
files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tprimat.read.parsing.following import follows
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.remarks import no_step_times
from tprimat.read.parsing.run_builder import RunBuilder, WholeRun
from tprimat.read.parsing.values import duration, number, state, whole_ratio
from tprimat.results.account import Timing
from tprimat.results.fields import Figures

_TIMING = Timing(
    clock="none: the Trainer logs no step times",
    covers="the whole training, with evaluation and saving, in train_runtime alone",
    over_ranks="rank 0",
)
_CUMULATIVE_TIMING = Timing(
    kind="stamps",
    clock="host clock of the Trainer: differences of the time since the start",
    covers="all between two logs, with data, evaluation and saving, mean of their steps",
    over_ranks="rank 0",
)
_TRL_TIMING = Timing(
    kind="partial",
    clock="host clock of TRL's trainer, without a device synchronize",
    covers=(
        "the calls of training_step: generation, rewards, forward and backward; not the optimizer,"
        " data and saving"
    ),
    over_ranks="rank 0",
)
_NO_STEP_TIMES = no_step_times(
    "Hugging Face's Trainer logs none",
    but="; its whole-run rates (native_metrics) include evaluation, saving and warm-up",
)

_NAMES = {
    "loss": "loss",
    "learning_rate": "learning_rate",
    "grad_norm": "grad_norm",
    "epoch": "epoch",
    "ppl": "perplexity",
    # Axolotl: only the labels that count in the loss, since the last log.
    "tokens/train_per_sec_per_gpu": "trainable_tokens_per_second_per_gpu",
    "num_input_tokens_seen": "tokens_seen",
    "num_tokens": "tokens_seen",
    # Of TRL.
    "mean_token_accuracy": "token_accuracy",
    "entropy": "entropy",
    "step_time": "seconds",
    "reward": "reward",
    "reward_std": "reward_std",
    "kl": "kl",
    "completions/mean_length": "response_length",
    "completion_length": "response_length",
    "tokens/total": "tokens_seen",
    "tokens/trainable": "trainable_tokens_seen",
    # With include_num_input_tokens_seen: since the start.
    "train_runtime": "cumulative_train_seconds",
    # ms-swift: means since the start.
    "train_speed(iter/s)": "cumulative_steps_per_second",
    "train_speed(s/it)": "cumulative_seconds_per_step",
    "memory/device_mem_reserved(gib)": "memory_reserved_gib",
    "memory/device_reserved (GiB)": "memory_reserved_gib",
    "memory(GiB)": "memory_reserved_gib",
    "memory/max_mem_active(gib)": "memory_active_gib",
    "memory/max_active (GiB)": "memory_active_gib",
    "memory/max_mem_allocated(gib)": "memory_allocated_gib",
    "memory/max_allocated (GiB)": "memory_allocated_gib",
    **dict.fromkeys(("step", "train_tokens_per_second"), ""),
}
"""Keys of the dictionaries of steps, and the values that they hold."""

_SUMMARY = {
    "train_runtime": "train_runtime_seconds",
    "train_samples_per_second": "train_samples_per_second",
    "train_steps_per_second": "train_steps_per_second",
    "train_tokens_per_second": "train_tokens_per_second",
    "train_loss": "train_loss",
    "total_flos": "total_flos",
    "num_input_tokens_seen": "tokens_seen",
    "train_samples": "samples_in_data_set",
    "epoch": "epochs",
}
"""Keys of the final dictionary and of train_results.json, and their names in native_metrics."""

_OF_STEPS = ("learning_rate", "epoch", "grad_norm", "step", "iteration")
"""Keys of which a dictionary of training steps has one beside its loss."""

AXOLOTL = ("tokens/train_per_sec_per_gpu", "memory/max_active (GiB)", "memory/max_mem_active(gib)")
"""Keys that only Axolotl adds."""


LEAST_RATE = 0.05
"""Steps/s that are printed with three decimals, and thus to 1%."""


def is_record(entry: Mapping[str, object]) -> bool:
    """Return whether a dictionary describes training steps, not an evaluation or the whole
    training.
    """
    return "loss" in entry and not entry.keys().isdisjoint(_OF_STEPS)


def printed_step(entry: Mapping[str, object]) -> tuple[int | None, int | None]:
    """Return the step, and the planned steps, that a dictionary itself states: ms-swift's 5/100;
    some print `step`.
    """
    shown = entry.get("global_step/max_steps", entry.get("iteration", ""))
    together = re.fullmatch(r"(\d{1,12})/(\d{1,12})", str(shown)) if shown else None
    if together:
        return int(together[1]) or None, int(together[2]) or None
    step = number(entry.get("step"))
    return (int(step) if step is not None and 1 <= step < 2**53 else None), None


def summary_of(entry: Mapping[str, object], steps: int | None = None, before: int = 0) -> Figures:
    """Return the values of a whole training, and the mean time of a step if the number of steps is
    known.

    The time is that of the last session, which goes on after the steps `before` it; the Trainer's
    rates aren't.
    """
    figures = {name: number(entry[key]) for key, name in _SUMMARY.items() if key in entry}
    runtime = figures.get("train_runtime_seconds")
    if runtime and runtime > 0 and steps and steps > before:
        figures["whole_run_seconds_per_step"] = runtime / (steps - before)
    return figures


def whole_run(
    figures: Figures, last: int | None, before: int = 0, line: int = 0
) -> WholeRun | None:
    """Return the mean of the whole training, given the values of summary_of() and the number of its
    last step; None if they don't tell it.

    Without a number of steps it follows from the rate, if its three decimals are precise enough:
    250 s at 0.400 steps/s are 100 steps, at 0.012 they would be 2.9 to 3.1.
    """
    runtime = figures.get("train_runtime_seconds") or 0.0
    rate = figures.get("train_steps_per_second") or 0.0
    if last is None and rate >= LEAST_RATE:
        last = round(runtime * rate)
    if last is None or last <= before or runtime <= 0:
        return None
    return WholeRun(last, last - before, runtime / (last - before), line)


def state_batch(training: LoggedTraining, figures: Figures, whole: WholeRun | None) -> None:
    """State the batch size that follows from the samples/s of a whole training, if it states none:
    3.98 samples/s × 2.01 s are 8 samples. After a resumption the rate isn't that of the session.
    """
    stated = training.around.stated
    rate = figures.get("train_samples_per_second")
    if whole is None or whole.steps < whole.last or not rate or "global_batch_size" in stated:
        return
    if batch := whole_ratio((rate, whole.seconds), ()):
        how = "samples/s × step time"
        state(stated, "global_batch_size", batch, how, whole.line or 1, 0)
        training.warnings.append(follows("global_batch_size", batch, how))


def add_record(
    training: LoggedTraining, step: int, line: int, entry: Mapping[str, object], window: int
) -> None:
    """Add the record of a dictionary to a training, as its last one."""
    record = Record(step, line, window=window)
    record.put_all(entry, _NAMES)
    tokens = record.native.get("tokens_seen")
    rate = number(entry.get("train_tokens_per_second"))
    if tokens and rate and "train_runtime" not in entry:
        # All tokens so far over the time since the Trainer's last start.
        record.put("cumulative_train_seconds", round(tokens / rate, 6))
    if "reward" in entry:
        record.set_policy_loss()
    if (elapsed := duration(str(entry.get("elapsed_time", "")))) is not None:
        # Under ms-swift the time since the start contradicts step_time, which may be that of a
        # micro-batch.
        record.seconds = None
        record.put("cumulative_train_seconds", since_start(entry, step, elapsed))
    training.records[step] = training.last = record


def since_start(entry: Mapping[str, object], step: int, seconds: float) -> float | None:
    """Return the time since the start, s, from the mean speed that ms-swift prints; None if
    `seconds` contradict it.

    Whole seconds are printed next to it. In a resumed training the mean covers fewer steps than the
    step's number.
    """
    mean = number(entry.get("train_speed(s/it)"))
    rate = number(entry.get("train_speed(iter/s)"))
    if not mean and rate and rate > 0:
        mean = 1 / rate
    if mean and abs(mean * step - seconds) <= 1:
        return round(mean * step, 4)
    return None


def builder(
    training: LoggedTraining,
    form: str,
    name: str = "hf_trainer",
    *,
    numbered: bool = True,
    **known: Any,
) -> RunBuilder:
    """Return the builder of the Run of a training of the Trainer, from a form of its log.

    `numbered` is whether the numbers of its steps are known, and with them the number of steps
    between two records.
    """
    known["unknown"] = {"step_times": _NO_STEP_TIMES} | known.get("unknown", {})
    timing = _TIMING
    if numbered and _set_step_times(training.ordered()):
        timing = _CUMULATIVE_TIMING
    elif any(record.seconds is not None for record in training.records.values()):
        timing = _TRL_TIMING
    return RunBuilder(name, f"{name} ({form})", training, timing, rate=None, **known)


def _set_step_times(records: Sequence[Record]) -> bool:
    """Set step times from the time since the start; return whether that is printed with digits
    enough.
    """
    since_start = [record.native.get("cumulative_train_seconds") for record in records]
    # transformers 5 prints four digits on the console, of which a difference keeps few.
    if all(seconds is None or float(f"{seconds:.4g}") == seconds for seconds in since_start):
        return False
    before = 0.0
    steps = 0
    for record, seconds in zip(records, since_start, strict=True):
        steps += record.window or 1
        if seconds is not None and seconds != before:
            # A resumed training counts from its own start.
            apart = seconds - before if seconds > before else seconds
            record.window = steps
            record.put("seconds", round(apart / steps, 7))
            before = seconds
            steps = 0
    return True


def evaluations_note(evaluations: int) -> list[str]:
    """Return a note on evaluations, if there are any."""
    if evaluations:
        return [f"{evaluations} evaluation records skipped"]
    return []
