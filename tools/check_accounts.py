#!/usr/bin/env python3
"""Compare the accounts of simulated jobs (tools/simulate_jobs.py) with what they really spent their time on.

    tools/check_accounts.py FOLDER

Prints the largest error of each part in percent of a job's wall time, and the jobs that are off by more than 1%.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tprimat import read

LIMIT = 0.01
"""Of a job's wall time."""


def errors(content: bytes, truth: dict[str, float]) -> dict[str, float]:
    """Return the error of each part of a log, as shares of its wall time."""
    found = dict.fromkeys((*truth, "unknown"), 0.0)
    logs = read.parse_chunks([content], "job.log")
    if len(logs) == 1:
        for entry in logs[0].run().timeline:
            found[entry.kind] += entry.duration
    whole = sum(truth.values())
    return {part: (seconds - truth.get(part, 0.0)) / whole for part, seconds in found.items()}


def main() -> int:
    """Compare all logs of a folder."""
    folder = Path(sys.argv[1])
    worst: dict[str, float] = {}
    bad = 0
    truth = json.loads((folder / "truth.json").read_text())
    for name, parts in truth.items():
        off = errors((folder / name).read_bytes(), parts)
        worst = {part: max(worst.get(part, 0.0), abs(share)) for part, share in off.items()}
        if any(abs(share) > LIMIT for share in off.values()):
            bad += 1
            print(name, {part: f"{share:+.2%}" for part, share in off.items() if abs(share) > LIMIT / 2})
    print("largest errors:", {part: f"{share:.2%}" for part, share in worst.items()})
    print(f"{len(truth) - bad} of {len(truth)} jobs within {LIMIT:.0%} in every part")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
