"""What would make an answer more certain: the next steps, the most useful first. For all
reports.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Container, Iterator, Sequence

from tprimat.compare import Group, Pair, SystemResult
from tprimat.compare.caveats import CODES
from tprimat.compare.result import RATE, RunResult
from tprimat.notes.catalogue import words
from tprimat.report.blocks import Distinct
from tprimat.report.rates import Systems
from tprimat.settings.rows import NOT_CONFIGURED, SETTINGS
from tprimat.text import join_names

MOST = 4
"""Most next steps that are listed."""

_COMMAND = re.compile(r"(: | with )\./benchmark\.py((?: --[a-z-]+(?: [A-Z]+\b| \d+| torch)?)+)")
"""The command in a next step. The text before it says what to do if the runs weren't measured with
./benchmark.py.
"""

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
"""Options that are omitted when a command is repeated."""


def next_steps(group: Group) -> tuple[str, ...]:
    """Return what would make the result more certain, in the order of the caveats that it would
    remove.
    """
    results: list[RunResult] = []
    for system in group.systems:
        results += system.runs
    return tuple(dict.fromkeys(for_runs(text, results) for text in _next_steps(group)))


def for_runs(text: str, results: Sequence[RunResult]) -> str:
    """Return a next step with the arguments of the commands that measured the runs; without a
    command for runs that ./benchmark.py didn't measure.
    """
    match = _COMMAND.search(text)
    if not results or match is None:
        return text
    options = match[2].split()
    commands: Distinct = {}
    hosts = set()
    sources = set()
    for result in results:
        hosts.add(result.run.environment.hostname)
        command = _repeated(result, options)
        if command is None:
            sources.add(result.run.source.kind if result.run.source else "")
        else:
            commands[command] = None
    if len(commands) > 2 or (len(commands) == 2 and len(hosts) > 1):
        commands = {f"./benchmark.py --match RESULT {match[2].strip()} (for each)": None}
    start = text[: match.start()]
    times = re.search(r"--runs (\d+)", match[2])
    if sources and times:
        what = "the training" if sources == {"log"} else "your script"
        start += f" (run {what} {times[1]} times)"
    if commands:
        start += match[1]
    return f"{start}{'; '.join(commands)}{text[match.end() :]}"


def _repeated(result: RunResult, options: Sequence[str]) -> str | None:
    """Return the command that measured a run, with these options instead of its own; None if
    ./benchmark.py didn't measure it.
    """
    run = result.run
    if run.arguments is None and run.source is not None:
        is_own_loop = run.source.kind == "live" and not run.session
        if is_own_loop or run.source.kind == "log":
            return None
    if "--match" in options:
        return " ".join(["./benchmark.py", *options])
    if any(word.startswith("--output-dir") for word in run.arguments or ()):
        # The stored path may be only the last part of an absolute one.
        options = ["--output-dir", result.file.rpartition("/")[0] or "DIR", *options]
    # A result without its command is from an earlier version or from a job: --match takes its
    # settings from the result.
    if run.arguments is None:
        return command(("--match", "RESULT"), options)
    return command(run.arguments, options)


def command(arguments: Sequence[str], options: Sequence[str]) -> str:
    """Return the benchmark command with these options, which replace those in its arguments."""
    words = []
    is_left_out = False
    for word in arguments:
        if word.startswith("--"):
            is_left_out = word.partition("=")[0] in {*options, *_OF_ONE_TIME}
        if not is_left_out:
            words.append(word)
    return shlex.join(["./benchmark.py", *words, *options])


def _next_steps(group: Group) -> tuple[str, ...]:
    systems = group.systems
    compared = [pair for pair in group.pairs if pair.ratio]
    if not compared:
        texts = [*_of_untimed(systems), *_of_excluded(systems), *_of_open_values(systems)]
        verdicts = {pair.config_diff.verdict for pair in group.pairs}
        if not texts and "not comparable" in verdicts:
            return ("measure both with the same workload: ./benchmark.py --match RESULT",)
        return tuple(dict.fromkeys(texts))[:MOST]
    steps = sorted(_of_compared(group, compared), key=lambda step: CODES.index(step[0]))
    texts = [text for _, text in steps]
    without = 0
    for system in systems:
        without += system.exclusion is None and system.value(RATE) is None
    # If more systems lack an answer than have one, what would give them one comes first.
    if without > len(compared) + 1:
        texts[:0] = _of_open_values(systems)
    texts += [*_of_excluded(systems), *_of_untimed(systems)]
    return tuple(dict.fromkeys(texts))[:MOST]


def _of_compared(group: Group, compared: Sequence[Pair]) -> Iterator[tuple[str, str]]:
    """Yield steps with the code of the caveat that each would remove."""
    systems = [group.baseline, *(pair.system for pair in compared)]
    codes = {caveat.code for caveat in group.caveats}
    if "steps-compared" in codes:
        for text in _of_open_values(group.systems):
            yield "steps-compared", text
    unknown = []
    if group.leaders:
        unknown = _without_precision([group.leaders.system, group.leaders.baseline])
    if unknown := unknown or _without_precision(systems):
        yield "precision-unknown", _set_precision(unknown)
    if "timer-differs" in codes:
        yield (
            "timer-differs",
            "for comparable step times, measure both with ./benchmark.py or BenchmarkCallback",
        )
    if "bf16-emulated" in codes:
        yield "bf16-emulated", "compare BF16 on a CPU that has BF16 instructions"
    yield from _more_runs(codes, compared, systems)
    for text in _equal_batches(compared):
        yield "batch-differs", text
    if "throttled" in codes:
        yield (
            "throttled",
            "fix cooling, power cap or clock setting (tprimat preflight), then measure again",
        )
    yield from _steadier(systems)
    # A different precision, like a different machine, is what is compared: the names contain it.
    titles = set()
    for pair in compared:
        if pair.config_diff.verdict != "same configuration":
            titles |= {entry.title for entry in pair.config_diff.of("different")}
    if titles - {"precision", *NOT_CONFIGURED}:
        yield (
            "configuration-differs",
            "measure both with the same settings: ./benchmark.py --match RESULT",
        )


def _without_precision(systems: Systems) -> list[str]:
    """Return the names of the systems whose precision is unknown; that of a CPU doesn't matter."""
    names = []
    for system in systems:
        if system.run.training_config.precision is None and system.run.platform != "cpu":
            names.append(system.name)
    return names


def _more_runs(
    codes: Container[str], compared: Sequence[Pair], systems: Systems
) -> Iterator[tuple[str, str]]:
    """Yield how many runs would confirm a difference, and whether to interleave them."""
    # A single run doesn't show the variation between runs, so its interval gives no number of runs.
    ratios = [pair.ratio for pair in compared if pair.ratio and pair.ratio.method != "prediction"]
    needed = max((ratio.runs_needed or 0 for ratio in ratios), default=0)
    longer = " --steps 60" if any(pair.lacks == "steps" for pair in compared) else ""
    if "disturbed" in codes:
        text = "close other programs"
        if needed > 5:
            text += f" (otherwise about {needed} runs of each are needed)"
        yield "disturbed", f"{text}, then measure again: ./benchmark.py --runs 5{longer}"
    elif min(len(system.valid_runs) for system in systems) < 3:
        runs = max(5, needed)
        text = f"measure {runs} runs of each system"
        hosts = {system.run.environment.hostname for system in systems}
        if len(hosts) == 1 and None not in hosts:
            text += ", interleaved"
        yield "few-runs", f"{text}: ./benchmark.py --runs {runs}{longer}"
    elif needed:
        text = f"about {needed} runs of each system are needed to confirm this difference"
        yield "few-runs", f"{text}: ./benchmark.py --runs {needed}"
    if "order-of-runs" in codes and any(ratio.method != "paired" for ratio in ratios):
        yield "order-of-runs", "interleave the runs of both systems"


def _steadier(systems: Systems) -> Iterator[tuple[str, str]]:
    """Yield what to do about a speed that changes or never becomes steady."""
    changed = next((system for system in systems if system.segments), None)
    if changed is not None and changed.segments[1].cause is None:
        where = f"{changed.name} at step {changed.segments[1].first_step}"
        yield (
            "speed-changed",
            f"find out what changed in {where} (clocks? data? other programs?), or run longer",
        )
        return
    for system in systems:
        if not all(result.summary.steady.found for result in system.valid_runs):
            yield (
                "no-steady-state",
                "run longer (at least 200 steps, better 500): ./benchmark.py --steps 500",
            )
            return


def _set_precision(names: Sequence[str]) -> str:
    """Return how to set the precision of systems that don't report it; NAME stands for any of
    several.
    """
    whose = shlex.quote(names[0]) if len(names) == 1 else "NAME"
    return f"set the precision if you know it: --precision {whose}=PRECISION"


def _equal_batches(compared: Sequence[Pair]) -> Iterator[str]:
    """Yield the global batch with which one system would repeat the other's steps, if its GPUs and
    micro-batch divide it.
    """
    for pair in compared:
        for system, other in ((pair.system, pair.baseline), (pair.baseline, pair.system)):
            own = system.run.training_config.global_batch_size
            gpus = system.run.num_gpus
            batch = other.run.training_config.global_batch_size
            if not batch or not gpus or own in (None, batch):
                continue
            # The samples in one micro-batch of all data-parallel ranks.
            accumulated = system.run.parallelism_config.gradient_accumulation_steps
            unit = own // accumulated if own and accumulated else gpus
            if batch % unit:
                continue
            option = f"--global-batch-size {batch}"
            if system.run.model == "encdec":
                # The option of the encoder-decoder benchmark is the batch per GPU.
                option = f"--batch-size {batch // gpus}"
            yield f"run {system.name} with {option} to rule out the batch size"
            break


def _of_excluded(systems: Systems) -> Iterator[str]:
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
            why = ""
            if finding.explanations:
                why = f" ({words(finding.explanations[0], briefly=True)}?)"
            yield f"check the log and configuration of {name}{why}, then import it again"


_CALLBACKS = {"hf_trainer": "TrainerBenchmarkCallback", "lightning": "BenchmarkCallback"}
"""Callbacks that record step times, for the frameworks whose own logs have none."""


def _callback(system: SystemResult) -> str | None:
    """Return the callback that would record the step times that a log lacks; None if it has them,
    the run failed, or there is no callback for its framework.
    """
    if not system.is_untimed or system.run.status == "failed":
        return None
    return _CALLBACKS.get(system.run.framework or "")


def _of_untimed(systems: Systems) -> Iterator[str]:
    added = []
    for system in systems:
        if callback := _callback(system):
            added.append(f"{callback} to the script of {system.name}")
    if added:
        yield f"record step times: add {join_names(added)} (docs/own-loop.md)"


def _of_open_values(systems: Systems) -> Iterator[str]:
    """Yield the options that supply the values that the sources of systems without a throughput
    lack.
    """
    options: Distinct = {}
    for system in systems:
        run = system.run
        if system.exclusion is not None or _callback(system) is not None:
            continue
        if run.model is None:
            options["--model-name NAME"] = None
        is_makeshift = system.unit in _MAKESHIFT or system.has_printed_rate
        if system.value(RATE) is None or is_makeshift:
            for name, option in _SIZES.items():
                if getattr(run.training_config, name) is None:
                    options[option] = None
    order = ["--model-name NAME", *_SIZES.values()]
    if options:
        listed = " ".join(option for option in order if option in options)
        yield f"fill in missing values: {listed} (FILE=VALUE sets it for one log)"


_MAKESHIFT = ("steps", "tflops", "mfu")
"""Units of rates that are compared for lack of tokens/s."""

_SIZES = {
    row.key: f"{row.log_flag.partition(' ')[0]} N"
    for row in SETTINGS
    if row.log_flag and row.kind == "count"
}
