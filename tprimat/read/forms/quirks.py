"""Functions for what the attributes of a row can't express; a row passes them as methods of its
reader.
"""

from __future__ import annotations

import statistics

from tprimat.notes import Note, NoteValue
from tprimat.read.forms.program import Blocks, Entries, Printed, ProgramReader
from tprimat.read.hf_trainer.fields import printed_step
from tprimat.read.parsing import following
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.remarks import tokens_per_step
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.step_lines import Place
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import (
    count,
    duration,
    number,
    object_at,
    state,
    times,
    whole_ratio,
)

LEAST_SHARE = 0.99
"""Smallest ratio of the tokens/s of all GPUs and of one that rounding explains: with a smaller one
the printed rates contradict each other.
"""

NEMO_ONE_GPU, NEMO_ALL_GPUS = "E2E (Tokens/sec/gpu)", "E2E (Tokens/sec)"
VERL_PART = "timing_s/"


def llama_factory_take(reader: Entries, line: Line) -> bool:
    """Read an entry. The last one, if none before it has a step, has the mean of the whole run."""
    taken = Entries.take(reader, line)
    if not taken or reader.sorter.trainings:
        return taken
    entry = object_at(line.text, line.text.find("{")) or {}
    step, planned = reader.place(entry)
    seconds = duration(str(entry.get("elapsed_time", "")))
    # A prediction counts its batches as steps, and has no epoch.
    if seconds and step and step == planned and "epoch" in entry and "eval_loss" not in entry:
        record = reader.new_record(step, line.number, entry)
        record.put("elapsed_seconds", seconds)
        record.put("tokens_per_second", entry.get("throughput"))
        facts: dict[str, NoteValue] = {"steps": step, "seconds": seconds / step}
        facts["included"] = "start-up, evaluation and saving"
        reader.sorter.pending.marks["success"] = line.number
        reader.sorter.take(record)
        reader.sorter.trainings[-1].warnings.append(Note("whole-run-mean", facts))
    return taken


def ms_swift_place(reader: ProgramReader, entry: Printed) -> Place:
    """Return the step of an entry and the planned ones; an evaluation has no time."""
    if "elapsed_time" in entry:
        return printed_step(entry)
    return None, None


def verl_completes(reader: ProgramReader, record: Record, printed: Printed) -> None:
    """Set the parts of the step and its learning rate, which fine-tuning prints in thousandths;
    state the number of GPUs: perf/throughput is total_num_tokens / (time_per_step × GPUs).
    """
    if (scaled := number(printed.get("train/lr(1e-3)"))) is not None:
        record.put("learning_rate", times(scaled, "1e-3"))
    for name, value in printed.items():
        if name.startswith(VERL_PART) and name != "timing_s/step":
            reader.add_part(name.removeprefix(VERL_PART), value)
    tokens = printed.get("perf/total_num_tokens")
    rate = printed.get("perf/throughput")
    words = f"perf/total_num_tokens {tokens} / time_per_step / throughput {rate}"
    gpus = whole_ratio((tokens,), (record.seconds, rate))
    state(reader.stated, "num_gpus", gpus, words, record.line)


def verl_finishes(reader: ProgramReader, run: RunBuilder) -> None:
    """Note why the batch of a step of reinforcement learning is unknown."""
    if any("tokens_per_step" in record.native for record in run.training.records.values()):
        run.unknown["batch"] = Note("responses-vary")


def nemo_rl_kept(reader: Blocks, name: str, value: str, line: Line) -> str | None:
    """Return a value whose label the row names, else None; add the time of a part of the step, and
    state the number of GPUs that follows from two rates.
    """
    figure = value.removesuffix("s")
    if name in reader.names:
        return figure
    if name == NEMO_ALL_GPUS:
        one = reader.block.get(NEMO_ONE_GPU, "")
        words = f"{NEMO_ALL_GPUS} {figure} / {NEMO_ONE_GPU} {one}"
        state(reader.stated, "num_gpus", whole_ratio((figure,), (one,)), words, line.number)
    elif figure != value and not name.startswith("Total "):
        reader.add_part(name, figure)
    return None


def nemo_rl_finishes(reader: ProgramReader, run: RunBuilder) -> None:
    """Note why the batch of a step is unknown."""
    run.unknown["batch"] = Note("answers-vary")


def composer_completes(reader: ProgramReader, record: Record, block: Printed) -> None:
    """Set the learning rate, whose label names the optimizer; state the sizes that follow from
    values.
    """
    rates = [name for name in block if name.startswith("lr-")]
    record.put("learning_rate", block[rates[0]] if rates else None)
    record.unread = tuple(name for name in record.unread if name not in rates)
    for kind in ("samples_per_sec", "tokens_per_sec"):
        every = block.get(f"throughput/{kind}", "")
        one = block.get(f"throughput/device/{kind}", "")
        words = f"{kind} {every} / {one} of a device"
        state(reader.stated, "num_gpus", whole_ratio((every,), (one,)), words, record.line)
    micro = count(block.get("trainer/device_train_microbatch_size"))
    words = f"device_train_microbatch_size: {micro}"
    state(reader.stated, "micro_batch_size", micro, words, record.line)
    batches = number(block.get("time/batch"))
    samples = number(block.get("time/sample"))
    if batches and samples and samples % batches == 0:
        # Both count the work before this batch.
        words = f"time/sample {samples:g} / time/batch {batches:g}"
        size = count(samples / batches)
        state(reader.stated, "global_batch_size", size, words, record.line)


def olmo_finishes(reader: ProgramReader, run: RunBuilder) -> None:
    """State the tokens per step, and the number of GPUs that follows from them and the rates."""
    found = run.training.ordered()
    if len(counts := {*tokens_per_step(found)}) != 1:
        return
    reader.figures["tokens_per_step"] = tokens = counts.pop()
    words = f"{tokens:,.0f} tokens per step"
    state(run.stated, "tokens_per_step", count(tokens), words, found[0].line)
    rates = []
    for record in found:
        rates.append((record.figure("batches_per_second"), record.figure(run.rate or "")))
    rates = [rate for rate in rates if all(rate)]
    devices = {whole_ratio((tokens, batches), (rate,)) for batches, rate in rates} - {None}
    ratios = [tokens * (batches or 0) / (rate or 1) for batches, rate in rates]
    ratio = statistics.median(ratios or [0])
    if len(devices) == 1 and (gpus := devices.pop()):
        how = "tokens per step × batches/s / tokens/s/GPU"
        state(run.stated, "num_gpus", gpus, how, found[0].line, 0)
        run.training.warnings.append(following.follows("num_gpus", gpus, how))
    elif 0 < ratio < LEAST_SHARE:
        run.training.warnings.append(Note("rates-contradict", {"times": 1 / ratio}))
