#!/usr/bin/env python3
"""Compute the speeds and times in published/mlcommons again from clones of the results, without any
code of ours.

    tools/check_mlperf_record.py training_results_v4.1 training_results_v5.0 training_results_v5.1

Only the :::MLLOG lines of each log are read. The speed of a set is all steps of its runs that
reached the target, per second of their blocks, evaluations left out. The status is 1 if a value is
more than 0.2% off or a set has no row.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
from pathlib import Path

TOLERANCE = 0.002
PUBLISHED = Path(__file__).resolve().parent.parent / "published" / "mlcommons"
SEQUENCE = {"gpt3": 2048}
"""Tokens of a sample where positions are counted in tokens."""

RUNS = {"gpt3": 3, "llama31_405b": 3, "llama2_70b_lora": 10, "llama31_8b": 10}


def main(arguments: list[str] | None = None) -> int:
    """Print the greatest deviations. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clones", metavar="CLONE", type=Path, nargs="+")
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    options = parser.parse_args(arguments)
    rows = {}
    for path in options.published.glob("*.csv"):
        with path.open(encoding="utf-8") as file:
            rows |= {row["source"].partition("@")[0]: row for row in csv.DictReader(file)}
    repeated = " ".join(row["note"] for row in rows.values())
    count, runs, values, worst, faults = 0, 0, 0, {}, []
    for clone in options.clones:
        repository = re.findall(r"training_results_v[\d.]+\d", str(clone.resolve()))[-1]
        for name, logs, scaling in sets_of(clone):
            row = rows.get(f"mlcommons/{repository}/{name}")
            if row is None:
                if f"{repository}/{name}" not in repeated:
                    faults.append(f"{repository}/{name}: no row")
                continue
            count, runs = count + 1, runs + len(logs)
            for field, value in measure(
                name.rpartition("/")[2], logs, scaling, int(row["num_gpus"])
            ).items():
                stated = [float(text) for text in row[field].split()]
                expected = (
                    value if isinstance(value, list) else [value] if value is not None else []
                )
                if len(stated) != len(expected):
                    faults.append(f"{repository}/{name}: {field} is {stated}, not {expected}")
                    continue
                for one, other in zip(stated, expected, strict=True):
                    off = abs(one / other - 1) if other else abs(one)
                    values += 1
                    worst[field] = max(worst.get(field, (0.0, "")), (off, f"{repository}/{name}"))
                    if off > TOLERANCE:
                        faults.append(f"{repository}/{name}: {field} is {one:g}, not {other:g}")
    print(f"{count} sets, {runs} logs, {values} values")
    for field, (off, name) in worst.items():
        print(f"{field}: at most {off:.4%} off ({name})")
    for fault in faults:
        print(f"fault: {fault}")
    return 1 if faults or not count else 0


def sets_of(clone: Path):
    """Yield the sets of a clone that has all of their logs: directory, logs and scaling factor."""

    def git(*words: str, text: str = "") -> bytes:
        return subprocess.run(
            ["git", "-C", clone, *words], input=text.encode(), stdout=-1, check=True
        ).stdout

    pattern = re.compile(
        r"[^/]+/results/[^/]+/(?:gpt3|llama2_70b_lora|llama31_405b|llama31_8b)/(result_\w+\.txt|scaling\.json)"
    )
    sets: dict[str, dict[str, str]] = {}
    for line in git("ls-tree", "-r", "HEAD").decode("utf-8", "replace").splitlines():
        meta, path = line.split("\t", 1)
        if pattern.fullmatch(path):
            sets.setdefault(path.rpartition("/")[0], {})[path.rpartition("/")[2]] = meta.split()[2]
    for name, files in sorted(sets.items()):
        order = sorted(files, key=lambda file: [int(number) for number in re.findall(r"\d+", file)])
        known = {}
        for file in order:
            found = subprocess.run(
                ["git", "-C", clone, "cat-file", "blob", files[file]],
                capture_output=True,
                check=False,
            )
            if not found.returncode:
                known[file] = found.stdout.decode("utf-8", "replace")
        scaling = json.loads(known.pop("scaling.json", '{"scaling_factor": 1}'))["scaling_factor"]
        if known and known.keys() == files.keys() - {"scaling.json"}:
            yield name, list(known.values()), scaling


def measure(benchmark: str, logs: list[str], scaling: float, num_gpus: int) -> dict[str, object]:
    """Return the values of a set, by the names of their columns."""
    found = [run_of(text, benchmark) for text in logs]
    reached = [run for run in found if run["success"]]
    steps, seconds = sum(run["steps"] for run in reached), sum(run["seconds"] for run in reached)
    whole, batch = sum(run["official"] for run in reached), reached[0]["batch"]
    tokens = batch * SEQUENCE.get(benchmark, 8192) / num_gpus
    ordered = sorted(reached, key=lambda run: run["official"])
    # A run that misses the target counts as the slowest.
    is_official = len(found) == RUNS[benchmark] and len(found) - len(reached) <= 1
    counted = ordered[1 : len(found) - 1] if is_official else ordered
    score = scaling * sum(run["official"] for run in counted) / len(counted)
    values = {
        "time_to_target_seconds": score if is_official else None,
        "samples_to_target": sum(run["steps"] * batch for run in counted) / len(counted),
        "num_runs": float(len(found)),
        "failed_runs": float(len(found) - len(reached)),
    }
    speeds = {
        "step_time_seconds": seconds / steps,
        "samples_per_second": batch * steps / seconds,
        "tokens_per_second_per_gpu": tokens * steps / seconds,
        "run_rates": [tokens * run["steps"] / run["seconds"] for run in reached],
        "training_percent": 100 * seconds / whole,
    }
    if any(run["holds_evaluation"] for run in reached):
        speeds = dict.fromkeys(speeds)
    return values | speeds


def run_of(text: str, benchmark: str) -> dict:
    """Return what the events of a log say of its run: batch, steps, seconds of training and of the
    whole.
    """
    events = []
    for match in re.finditer(r":::MLLOG (\{.*)", text):
        try:
            events.append(json.JSONDecoder().raw_decode(match[1])[0])
        except json.JSONDecodeError:
            continue
    batch = next(int(event["value"]) for event in events if event["key"] == "global_batch_size")
    start = next(event["time_ms"] for event in events if event["key"] == "run_start")
    stop = next((event for event in events if event["key"] == "run_stop"), None)
    if stop is None or stop["metadata"].get("status") != "success":
        return {"success": False}
    evaluations = [event for event in events if event["key"] in ("eval_start", "eval_stop")]
    has_start = any(event["key"] == "eval_start" for event in events)
    holds = not has_start and not any(event["key"] == "eval_stop" for event in events)
    begun, seconds, last = None, 0.0, None
    for event in events:
        key, time = event["key"], event["time_ms"]
        if time < start - 1000:
            continue
        if key == "block_start" and begun is None:
            begun = time
        elif begun is not None and (
            key in ("eval_start", "block_stop") or (key == "eval_stop" and not has_start)
        ):
            # Blocks without an end: the evaluation begins after the last step that was logged.
            end = time if has_start or key == "block_stop" else last
            seconds, begun = seconds + (end - begun) / 1000, None
        elif key == "train_loss" or (
            key == "tracked_stats" and "reduced_train_loss" in event["value"]
        ):
            last = time
    first = next(event for event in events if event["key"] == "block_start")["metadata"]
    metadata = (
        evaluations[-1] if evaluations else [e for e in events if e["key"] == "eval_accuracy"][-1]
    )["metadata"]
    if benchmark in SEQUENCE:
        tokens = metadata.get("epoch_num", metadata.get("samples_count"))
        steps = (tokens - first.get("first_epoch_num", 0)) / (batch * SEQUENCE[benchmark])
    else:
        steps = metadata["samples_count"] / batch
    return {
        "batch": batch,
        "steps": steps,
        "seconds": seconds,
        "holds_evaluation": holds,
        "success": True,
        "official": (stop["time_ms"] - start) / 1000,
    }


if __name__ == "__main__":
    sys.exit(main())
