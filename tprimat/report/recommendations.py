"""What would make an answer better: the next steps, the most useful first. For all reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tprimat.checks.compute import Entry
from tprimat.compare import Group, Pair, SystemResult
from tprimat.compare.caveats import CODES
from tprimat.compare.result import RATE
from tprimat.settings.rows import NOT_CONFIGURED, SETTINGS
from tprimat.text import join_names

MOST = 4
"""Next steps that are listed."""


def next_steps(group: Group) -> tuple[str, ...]:
    """Return what would make the answer better, in the order of the caveats that it would remove."""
    compared = [pair for pair in group.pairs if pair.ratio]
    if compared:
        steps = sorted(_of_compared(group, compared), key=lambda step: CODES.index(step[0]))
        return tuple(dict.fromkeys([*_of_excluded(group.systems), *(text for _, text in steps)]))[:MOST]
    excluded = tuple(dict.fromkeys([*_of_excluded(group.systems), *_of_open_values(group.systems)]))
    if not excluded and any(pair.config_diff.verdict == "not comparable" for pair in group.pairs):
        return ("measure both with the same workload: ./benchmark.py --match RESULT",)
    return excluded[:MOST]


def _of_compared(group: Group, compared: Sequence[Pair]) -> Iterator[tuple[str, str]]:
    """Yield steps with the code of the caveat that each would remove."""
    systems = [group.baseline, *(pair.system for pair in compared)]
    unknown = [
        system.name
        for system in systems
        if system.run.training_config.precision is None and system.run.platform != "cpu"
    ]
    if unknown:
        whose = "" if len(unknown) == len(systems) else f" of {join_names(unknown)}"
        yield "precision-unknown", f"set the precision{whose}, if known: --precision SYSTEM=PRECISION"
    if any(caveat.code == "timer-differs" for caveat in group.caveats):
        yield "timer-differs", "time both with the same timer: ./benchmark.py or BenchmarkCallback"
    if any(caveat.code == "bf16-emulated" for caveat in group.caveats):
        yield "bf16-emulated", "compare BF16 on a CPU that has BF16 instructions"
    needed = [pair.ratio.runs_needed for pair in compared if pair.ratio and pair.ratio.runs_needed is not None]
    if any(caveat.code == "disturbed" for caveat in group.caveats):
        yield "disturbed", "close other programs, then measure again: ./benchmark.py --runs 5"
    elif min(len(system.valid_runs) for system in systems) < 3:
        hosts = {system.run.environment.hostname for system in systems}
        how = ", interleaved" if len(hosts) == 1 and None not in hosts else ""
        yield (
            "few-runs",
            f"measure each system in {max([5, *needed])} runs{how}: ./benchmark.py --runs {max([5, *needed])}",
        )
    elif needed:
        runs = max(needed)
        yield (
            "few-runs",
            f"about {runs} runs of each are needed to confirm this difference: ./benchmark.py --runs {runs}",
        )
    for text in _equal_batches(compared):
        yield "batch-differs", text
    if any(caveat.code == "throttled" for caveat in group.caveats):
        yield "throttled", "fix cooling, power cap or clock setting (tprimat preflight), then measure again"
    changed = next((system for system in systems if system.segments), None)
    if changed is not None and changed.segments[1].cause is None:
        where = f"{changed.name} at step {changed.segments[1].first_step}"
        yield "speed-changed", f"find out what changed in {where} (clocks? data? other programs?), or run longer"
    elif any(not result.summary.steady.found for system in systems for result in system.valid_runs):
        yield "no-steady-state", "run longer: ./benchmark.py --steps 500 (200 at least)"
    # A precision that differs is what is compared, as the machine is: it belongs to the names.
    if any(entry.title not in {"precision", *NOT_CONFIGURED} for pair in compared for entry in _decisive(pair)):
        yield "configuration-differs", "for a like-for-like comparison: ./benchmark.py --match RESULT, then --mode same"


def _decisive(pair: Pair) -> Sequence[Entry]:
    return pair.config_diff.of("different") if pair.config_diff.verdict != "same configuration" else ()


def _equal_batches(compared: Sequence[Pair]) -> Iterator[str]:
    """Yield with which batch a system would do the baseline's steps, where its GPUs can divide that."""
    for pair in compared:
        config = pair.system.run.training_config
        batch, gpus = pair.baseline.run.training_config.global_batch_size, pair.system.run.num_gpus
        if not batch or not gpus or config.global_batch_size in (None, batch) or batch % gpus:
            continue
        # The encoder-decoder benchmark takes the batch of one GPU, as its users know it.
        own = f"--batch-size {batch // gpus}" if pair.system.run.model == "encdec" else f"--global-batch-size {batch}"
        yield f"run {pair.system.name} with {own}, to rule out batch size"


def _of_excluded(systems: Sequence[SystemResult]) -> Iterator[str]:
    for system in systems:
        name, finding = system.name, system.exclusion
        if finding is None:
            continue
        if finding.rule == "precision-unstated":
            yield f"set the precision of {name}, if known: --precision SYSTEM=PRECISION"
        else:
            likely = [each.partition(":")[0].partition(" (")[0] for each in finding.explanations[:1]]
            why = f" ({likely[0]}?)" if likely else ""
            yield f"check the log and configuration of {name}{why}, then import it again"


def _of_open_values(systems: Sequence[SystemResult]) -> Iterator[str]:
    """Yield the options for what the sources of systems without a throughput leave open."""
    runs = [system.run for system in systems if system.exclusion is None]
    unrated = [system.run for system in systems if system.exclusion is None and system.value(RATE) is None]
    options = ["--model-name NAME"] if any(run.model is None for run in runs) else []
    for name, option in _SIZES.items():
        if any(getattr(run.training_config, name) is None for run in unrated):
            options.append(option)
    if options:
        yield f"state what you know: {' '.join(options)} (FILE=VALUE for one of them)"


_SIZES = {row.key: f"{row.log_flag.partition(' ')[0]} N" for row in SETTINGS if row.log_flag and row.kind == "count"}
