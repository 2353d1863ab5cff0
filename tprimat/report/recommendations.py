"""What would make an answer better: the next steps, the most useful first. For all reports."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from tprimat.compare import Group, Pair, SystemResult
from tprimat.compare.caveats import CODES
from tprimat.compare.result import RATE, RunResult
from tprimat.settings.rows import NOT_CONFIGURED, SETTINGS
from tprimat.text import join_names

MOST = 4
"""Next steps that are listed."""

_COMMAND = re.compile(r"(: | with )\./benchmark\.py((?: --[a-z-]+(?: [A-Z]+\b| \d+| torch)?)+)")
"""The command in a next step; the words before it also say what to do without ./benchmark.py."""

_OF_ONE_TIME = {
    "--resume",
    "--retry-failed",
    "--quiet",
    "--verbose",
    "--json",
    "--dry-run",
    "--anonymise",
    "--bundle",
}
"""Options of a command that a repetition of it leaves out."""


def next_steps(group: Group) -> tuple[str, ...]:
    """Return what would make the result more certain, in the order of the caveats that it would
    remove.
    """
    results = [result for system in group.systems for result in system.runs]
    return tuple(dict.fromkeys(for_runs(text, results) for text in _next_steps(group)))


def for_runs(text: str, results: Sequence[RunResult]) -> str:
    """Return a next step with the arguments of the command that measured the runs; without a
    command if none did.
    """
    runs = [result.run for result in results]
    if not runs or (found := _COMMAND.search(text)) is None:
        return text
    options = found[2].split()
    times = re.search(r"--runs (\d+)", found[2])
    each = [_repeated(result, options) for result in results]
    commands = [command for command in dict.fromkeys(each) if command is not None]
    others = [run for run, command in zip(runs, each, strict=True) if command is None]
    how = ""
    if others and times:
        is_log = all(run.source and run.source.kind == "log" for run in others)
        how = f" (run {'the training' if is_log else 'your script'} {times[1]} times)"
    if len(commands) > 1 and (
        len(commands) > 2 or len({run.environment.hostname for run in runs}) > 1
    ):
        commands = [f"./benchmark.py --match RESULT {found[2].strip()} (for each)"]
    return (
        text[: found.start()]
        + how
        + (found[1] if commands else "")
        + "; ".join(commands)
        + text[found.end() :]
    )


def _repeated(result: RunResult, options: Sequence[str]) -> str | None:
    """Return the command that measured a run, with these options instead of its own; None if
    ./benchmark.py didn't.
    """
    run = result.run
    folder = result.file.rpartition("/")[0]
    is_own = run.source is not None and (
        run.source.kind == "log" or (run.source.kind == "live" and not run.session)
    )
    if run.arguments is None and is_own:
        return None
    if "--match" in options:
        return " ".join(["./benchmark.py", *options])
    if any(word.startswith("--output-dir") for word in run.arguments or ()):
        # The stored path may be only the last part of an absolute one.
        options = ["--output-dir", folder or "DIR", *options]
    # A result without its command is of an earlier version, or of a job: --match then brings what
    # it was.
    return command(("--match", "RESULT") if run.arguments is None else run.arguments, options)


def command(arguments: Sequence[str], options: Sequence[str]) -> str:
    """Return the benchmark command with these options, instead of its own values of them."""
    words = []
    is_left_out = False
    for word in arguments:
        if word.startswith("--"):
            is_left_out = word.partition("=")[0] in {*options, *_OF_ONE_TIME}
        if not is_left_out:
            words.append(word)
    return shlex.join(["./benchmark.py", *words, *options])


def _next_steps(group: Group) -> tuple[str, ...]:
    if compared := [pair for pair in group.pairs if pair.ratio]:
        steps = sorted(_of_compared(group, compared), key=lambda step: CODES.index(step[0]))
        without = sum(
            system.exclusion is None and system.value(RATE) is None for system in group.systems
        )
        # More systems without an answer than with one: those come first.
        first = _of_open_values(group.systems) if without > len(compared) + 1 else ()
        texts = [
            *first,
            *(text for _, text in steps),
            *_of_excluded(group.systems),
            *_of_untimed(group.systems),
        ]
        return tuple(dict.fromkeys(texts))[:MOST]
    of_systems = (_of_untimed, _of_excluded, _of_open_values)
    excluded = tuple(dict.fromkeys(text for of in of_systems for text in of(group.systems)))
    if not excluded and any(pair.config_diff.verdict == "not comparable" for pair in group.pairs):
        return ("measure both with the same workload: ./benchmark.py --match RESULT",)
    return excluded[:MOST]


def _of_compared(group: Group, compared: Sequence[Pair]) -> Iterator[tuple[str, str]]:
    """Yield steps with the code of the caveat that each would remove."""
    systems = [group.baseline, *(pair.system for pair in compared)]
    named = [group.leaders.system, group.leaders.baseline] if group.leaders else systems
    unknown, rest = (
        [
            each.name
            for each in of
            if each.run.training_config.precision is None and each.run.platform != "cpu"
        ]
        for of in (named, systems)
    )
    if unknown := unknown or rest:
        yield "precision-unknown", _set_precision(unknown)
    codes = {caveat.code for caveat in group.caveats}
    if "steps-compared" in codes:
        for text in _of_open_values(group.systems):
            yield "steps-compared", text
    if "timer-differs" in codes:
        yield (
            "timer-differs",
            "for comparable step times, measure both with ./benchmark.py or BenchmarkCallback",
        )
    if "bf16-emulated" in codes:
        yield "bf16-emulated", "compare BF16 on a CPU that has BF16 instructions"
    # What varies between runs is unknown of a single one, whatever happens within it.
    ratios = [pair.ratio for pair in compared if pair.ratio and pair.ratio.method != "prediction"]
    needed = [ratio.runs_needed for ratio in ratios if ratio.runs_needed is not None]
    longer = " --steps 60" if any(pair.lacks == "steps" for pair in compared) else ""
    if "disturbed" in codes:
        if max(needed, default=0) > 5:
            otherwise = f" (otherwise about {max(needed)} runs of each are needed)"
        else:
            otherwise = ""
        yield (
            "disturbed",
            f"close other programs{otherwise}, then measure again: ./benchmark.py --runs 5{longer}",
        )
    elif min(len(system.valid_runs) for system in systems) < 3:
        hosts = {system.run.environment.hostname for system in systems}
        how = ", interleaved" if len(hosts) == 1 and None not in hosts else ""
        runs = max([5, *needed])
        yield (
            "few-runs",
            f"measure {runs} runs of each system{how}: ./benchmark.py --runs {runs}{longer}",
        )
    elif needed:
        runs = max(needed)
        text = f"about {runs} runs of each system are needed to confirm this difference"
        yield "few-runs", f"{text}: ./benchmark.py --runs {runs}"
    if "order-of-runs" in codes and any(ratio.method != "paired" for ratio in ratios):
        yield "order-of-runs", "interleave the runs of both systems"
    for text in _equal_batches(compared):
        yield "batch-differs", text
    if "throttled" in codes:
        yield (
            "throttled",
            "fix cooling, power cap or clock setting (tprimat preflight), then measure again",
        )
    changed = next((system for system in systems if system.segments), None)
    if changed is not None and changed.segments[1].cause is None:
        where = f"{changed.name} at step {changed.segments[1].first_step}"
        yield (
            "speed-changed",
            f"find out what changed in {where} (clocks? data? other programs?), or run longer",
        )
    elif any(not result.summary.steady.found for system in systems for result in system.valid_runs):
        yield (
            "no-steady-state",
            "run longer (at least 200 steps, better 500): ./benchmark.py --steps 500",
        )
    # A precision that differs is what is compared, as the machine is: it belongs to the names.
    diffs = []
    for pair in compared:
        if pair.config_diff.verdict != "same configuration":
            diffs.append(pair.config_diff)
    if any(
        entry.title not in {"precision", *NOT_CONFIGURED}
        for diff in diffs
        for entry in diff.of("different")
    ):
        yield (
            "configuration-differs",
            "measure both with the same settings: ./benchmark.py --match RESULT",
        )


def _set_precision(names: Sequence[str]) -> str:
    """Return how to set the precision of systems that don't report it; of several, for which to do
    so.
    """
    whose = shlex.quote(names[0]) if len(names) == 1 else "NAME"
    return f"set the precision if you know it: --precision {whose}=PRECISION"


def _equal_batches(compared: Sequence[Pair]) -> Iterator[str]:
    """Yield with which batch one system would do the other's steps, if its GPUs and micro-batch can
    divide that.
    """
    for pair in compared:
        for system, other in ((pair.system, pair.baseline), (pair.baseline, pair.system)):
            config = system.run.training_config
            gpus = system.run.num_gpus
            batch = other.run.training_config.global_batch_size
            if not batch or not gpus or config.global_batch_size in (None, batch):
                continue
            # What one micro-batch of all data-parallel ranks takes.
            accumulated = system.run.parallelism_config.gradient_accumulation_steps
            if config.global_batch_size and accumulated:
                unit = config.global_batch_size // accumulated
            else:
                unit = gpus
            if batch % unit:
                continue
            # The encoder-decoder benchmark takes the batch of one GPU, as its users know it.
            if system.run.model == "encdec":
                own = f"--batch-size {batch // gpus}"
            else:
                own = f"--global-batch-size {batch}"
            yield f"run {system.name} with {own} to rule out the batch size"
            break


def _of_excluded(systems: Sequence[SystemResult]) -> Iterator[str]:
    for system in systems:
        name = system.name
        finding = system.exclusion
        if finding is None:
            continue
        if finding.rule == "precision-unstated":
            yield _set_precision([name])
        elif finding.rule == "own-time":
            yield f"restore the original result of {name}, or measure it again"
        else:
            likely = []
            for explanation in finding.explanations[:1]:
                likely.append(explanation.partition(":")[0].partition(" (")[0])
            why = f" ({likely[0]}?)" if likely else ""
            yield f"check the log and configuration of {name}{why}, then import it again"


_CALLBACKS = {"hf_trainer": "TrainerBenchmarkCallback", "lightning": "BenchmarkCallback"}
"""What records step times in the frameworks whose own logs have none."""


def _callback(system: SystemResult) -> str | None:
    """Return what would record the step times that a log doesn't have; None if it has them, or
    nothing would.
    """
    is_logged = system.value("avg_step_time_seconds") is not None or system.run.status == "failed"
    if is_logged:
        return None
    return _CALLBACKS.get(system.run.framework or "")


def _of_untimed(systems: Sequence[SystemResult]) -> Iterator[str]:
    added = [
        f"{callback} to the script of {system.name}"
        for system in systems
        if (callback := _callback(system))
    ]
    if added:
        yield f"record step times: add {join_names(added)} (docs/own-loop.md)"


def _of_open_values(systems: Sequence[SystemResult]) -> Iterator[str]:
    """Yield the options for what the sources of systems without a throughput leave open."""
    runs = [
        system.run for system in systems if system.exclusion is None and _callback(system) is None
    ]
    without_rate = [
        system for system in systems if system.value(RATE) is None or system.unit == "steps"
    ]
    unrated = [system.run for system in without_rate if system.run in runs]
    options = ["--model-name NAME"] if any(run.model is None for run in runs) else []
    lacking = (
        name
        for name in _SIZES
        if any(getattr(run.training_config, name) is None for run in unrated)
    )
    options += [_SIZES[name] for name in lacking]
    if options:
        yield f"fill in missing values: {' '.join(options)} (FILE=VALUE sets it for one log)"


_SIZES = {
    row.key: f"{row.log_flag.partition(' ')[0]} N"
    for row in SETTINGS
    if row.log_flag and row.kind == "count"
}
