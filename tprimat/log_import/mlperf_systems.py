"""Find and read the system description of an MLPerf result file."""

from __future__ import annotations

from pathlib import Path

from tprimat.read.mlperf import system as mlperf_system
from tprimat.results.run import Run

FOLDER = "systems"
LEVELS = 5
"""How many folders up it is looked for: results/<system>/<benchmark>/<folder of a run>/result.txt."""

LARGEST = 1 << 20
"""Bytes; a description has some kilobytes."""


def with_system(run: Run, log: Path) -> Run:
    """Return an MLPerf run completed from the system description beside its log; any other run unchanged.

    A folder `systems` is looked for beside the log and in the folders above; a description may lie
    beside the log itself too. Which file belongs to the log follows from the names alone, and
    nothing is taken where several may.
    """
    if run.framework != "mlperf" or (run.num_gpus and run.gpu_info.device_name):
        return run
    log = log.absolute()
    for place in (log.parent, *(folder / FOLDER for folder in log.parents[:LEVELS])):
        chosen = mlperf_system.choose(log, sorted(path for path in place.glob("*.json") if path.is_file()))
        if chosen is None:
            continue
        path = Path(chosen)
        try:
            is_small = path.stat().st_size <= LARGEST
            text = path.read_text(encoding="utf-8-sig", errors="replace") if is_small else ""
        except OSError:
            continue
        if system := mlperf_system.parse(text):
            return mlperf_system.applied(run, system, f"{place.name}/{path.name} beside the log")
    return run
