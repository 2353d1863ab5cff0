#!/usr/bin/env python3
"""Convert a table of published figures and the checks of its rows into the files of published/.

    tools/published_figures.py FIGURES.csv CHECKS.csv

FIGURES.csv has a row for each figure, with the names that its publisher prints; CHECKS.csv has the
checks of these rows by the number of their line. The files of the repositories that FIGURES.csv
cites are written anew, the others stay. published_precision.csv beside this program has precisions
that stand elsewhere than a figure, with their places.
"""

from __future__ import annotations

import argparse
import collections
import csv
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRECISIONS = Path(__file__).with_name("published_precision.csv")
sys.path.insert(0, str(ROOT))

import msgspec

from tprimat.analysis.flops import ADAPTERS, flops_per_token
from tprimat.catalog import gpus, models
from tprimat.catalog.published import FOLDER, REFUSED

RENAMED = {
    "precision": "precision",
    "sequence_length": "sequence_length",
    "global_batch": "global_batch_size",
    "micro_batch": "micro_batch_size",
    "gpus": "num_gpus",
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "cp": "context_parallel_size",
    "vp": "virtual_pipeline_size",
    "ep": "expert_model_parallel_size",
    "version": "version",
    "date": "date",
    "tokens_per_second_per_gpu": "tokens_per_second_per_gpu",
    "samples_per_second": "samples_per_second",
    "step_time_s": "step_time_seconds",
    "tflops_per_gpu": "printed_tflops_per_gpu",
    "mfu_percent": "printed_mfu_percent",
    "memory_gb": "memory_gb",
    "time_to_target_s": "time_to_target_seconds",
}
"""Columns that are copied, and their names in published/: those of a result wherever it has such a
field.
"""

FRAMEWORKS = {
    "megatron-lm": "megatron",
    "megatron-lm / deepspeed": "megatron_deepspeed",
    "nemo-automodel": "automodel",
    "llm-foundry": "composer",
    "modded-nanogpt": "nanogpt",
    "flash-attention training code": "flash_attention",
}
"""Names of frameworks in results."""

NOTES = (
    (
        (
            r"HFU [\d.]+ %|\d+ parameters|samples/s rounded down by the page|memory in GiB|MFU"
            r" against the FP8 peak"
        ),
        "",
    ),
    (
        (
            r"claims [^;]*|page gives (?![^;]*divided)[^;]*|(first|second) value of the"
            r" cell|summary table of the page"
        ),
        "",
    ),
    (r"(?i)recomputation true", "full recomputation"),
    (r"(?i)recomputation false", "no recomputation"),
    (r"not packed|packed into one|counts recomputation \(8 x parameters\)", ""),
    (r"precision column absent: FP8 of the page's [\d.]+ default", "precision inferred"),
    (r"mean of the last \d+ steps|length of its [\w.]+|(best )?mapping [^;]*\(not stated\)", ""),
    (r"GPU from the name of the script \([^)]*\)|same value as the other 70B row", ""),
    (r"\(seq len \d+\)|^none \(bfloat16\)|; packed$", ""),
    (r"zero1 (\d+)", r"zero1=\1"),
)
"""What a note says that a column says, too, or that explains a figure which isn't used."""

MISREAD = (
    r"chronicles-prequel.md@\w+:7(7[5-9]|8\d|9[0-2])",
    "hidden 12288, 96 layers",
    "hidden 14336, 72 layers",
)
"""Rows whose shape stands on two lines above their table, and was taken from the table before:
:769.
"""

TARGET = re.compile(
    r"record (\d+)(?: of (track \d))?: time to (?:a )?([^;]*? (?:on FineWeb|above [\d.]+)); "
)
"""The note of a record: what it is the time to belongs into a column of its own."""

CORRECTIONS = (
    ("llama3-1-405b/maxtext", "the example log line is identical to the 70B page's", ""),
    ("primus_pipeline.md", "wrong by a factor of 2", ""),
    (
        "train_performance.md",
        "tokens/s are without recomputation, TFLOP/s with it",
        "matching pairs are further down the page",
    ),
    (
        "Automodel/README.md",
        "",
        "277 TFLOP/s and 12,040 tokens/s/GPU in docs/performance-summary.mdx",
    ),
    (
        "nemotron-3-super-120b-a12b/card.yaml",
        "",
        "61 tokens/s/GPU without the slow step, by the printed TFLOP/s",
    ),
    (
        "nemotron-3.5-lightning/card.yaml",
        "",
        "6,574 tokens/s/GPU without the slow step, by the printed TFLOP/s",
    ),
    (
        "pax/README.md",
        (
            "at this speed the claimed days give 236 billion tokens; other model sizes give 313–317"
            " billion"
        ),
        "",
    ),
    ("ColossalAI/README.md", "the table says H200, the text below says B200", "probably B200"),
)
"""Of rejected rows: a part of their source, the reason unless the check states it, and the right
value.
"""

DOUBTFUL = (
    r"projection.md@\w+:45[456]$",
    "one node",
    "doubtful: the other values of its column are rejected",
)
"""Rows that nothing contradicts but what stands beside them: their source, their note, and what it
becomes with it.
"""

MOST = 0.75
"""Share of the dense peak that no training reaches; the highest one that is credible here is 63%.
"""

REJECTED = {
    "publisher error": "copied from the page of another model",
    "mean of rates": "tokens/s includes a slow first step; the printed TFLOP/s does not",
    "stale after correction": "the publisher later corrected this value",
    "publisher inconsistency": "the figures of the row contradict each other or the text beside it",
}
"""Why a figure is no reference, by the class of a check that it fails. All but a late correction
are contradictions.
"""

EXPLAINED = {
    "vision-language model": "the printed TFLOP/s is more than that of the decoder",
    "unknown shape": "shape not stated",
    "original of a copied line": "another page repeats this line for another model",
}
"""Checks that fail for a reason which leaves tokens/s as it is."""

CONVENTIONS = {"formula convention": "the printed TFLOP/s follows another formula"}


def main(arguments: list[str] | None = None) -> int:
    """Write the files. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures", type=Path)
    parser.add_argument("checks", type=Path)
    options = parser.parse_args(arguments)
    elsewhere = [
        (re.fullmatch(r"(.*):(\d+)(?:-(\d+))?", row["source"]), row) for row in read(PRECISIONS)
    ]
    checks: dict[int, list[dict[str, str]]] = collections.defaultdict(list)
    for check in read(options.checks):
        checks[int(check["row"])].append(check)
    files: dict[str, list[dict[str, str]]] = collections.defaultdict(list)
    for number, figure in enumerate(read(options.figures), start=2):
        row = convert(figure)
        for place, stated in elsewhere if not row["precision"] else ():
            path, _, line = row["source"].rpartition(":")
            if (
                place
                and path == place[1]
                and int(place[2]) <= int(line) <= int(place[3] or place[2])
            ):
                row |= {name: stated[name] for name in ("precision", "precision_source")}
                row["note"] = "; ".join(filter(None, (row["note"], stated["note"])))
        row["audit"], row["reason"] = judge(row, figure["note"], checks[number])
        for part, reason, correction in CORRECTIONS if row["audit"] in REFUSED else ():
            if part in row["source"]:
                row |= {"reason": reason or row["reason"], "correction": correction}
        if row["audit"] == "contradiction":
            row["reason"] = "; ".join(filter(None, (compared(row, checks[number]), row["reason"])))
        files["/".join(figure["source"].split("/")[:2])].append(row)
    for repository, rows in files.items():
        path = FOLDER / f"{repository}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        used = [name for name in columns() if any(row.get(name) for row in rows)]
        with path.open("w", encoding="utf-8", newline="") as target:
            writer = csv.DictWriter(target, used, lineterminator="\n", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
        print(f"{len(rows):5} rows: {repository}")
    return 0


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as source:
        return list(csv.DictReader(source))


def columns() -> list[str]:
    """Return the columns of published/, the key first, the source last."""
    first = [
        "publisher",
        "gpu",
        "model",
        "task",
        "precision",
        "sequence_length",
        "global_batch_size",
        "num_gpus",
    ]
    middle = ["framework", "version", "date", "tokens_per_second_per_gpu", "audit", "reason"]
    rest = [name for name in RENAMED.values() if name not in (*first, *middle)]
    return [
        *first,
        *middle,
        "correction",
        *rest,
        "target",
        "packing",
        "note",
        "precision_source",
        "source",
    ]


def convert(figure: Mapping[str, str]) -> dict[str, str]:
    """Return a row of published/ without its verdict."""
    known = models.find(figure["model_key"])
    # A name that has a row is nearer than a key, which several models of one decoder share.
    known = (known and models.recognize(figure["model"])) or known
    note = figure["note"]
    if re.search(MISREAD[0], figure["source"]):
        note = note.replace(*MISREAD[1:])
    row = {new: figure[old] for old, new in RENAMED.items()} | {
        "publisher": figure["publisher"],
        "gpu": figure["gpu_key"] or figure["gpu"],
        "model": known.name if known else figure["model_key"] or figure["model"],
        "task": figure["task"],
        "framework": framework(figure["framework"]),
        "packing": "false" if "not packed" in note else "true" if "packed" in note else "",
        "source": figure["source"],
    }
    if record := TARGET.match(note):
        row["target"] = f"{record[3]} ({record[2]})" if record[2] else record[3]
        note = f"record {record[1]}; {note[record.end() :]}"
    for pattern, instead in NOTES:
        note = re.sub(pattern, instead, note)
    if re.search(DOUBTFUL[0], figure["source"]) and note == DOUBTFUL[1]:
        note = f"{DOUBTFUL[1]}; {DOUBTFUL[2]}"
    row["note"] = "; ".join(part for part in (each.strip(" ,") for each in note.split(";")) if part)
    return row


def framework(name: str) -> str:
    """Return the name that results have for a framework, of several the first."""
    return FRAMEWORKS.get(name) or name.partition(" / ")[0].replace("-", "_")


def judge(
    row: Mapping[str, str], note: str, checks: Iterable[Mapping[str, str]]
) -> tuple[str, str]:
    """Return whether a row passes (consistent, convention, unchecked, contradiction or rejected),
    and why not.
    """
    if "known regression" in note:
        return "rejected", "the publisher names a known regression of this release"
    if "same value as the other" in note:
        return "rejected", "the FP8 and BF16 rows print the same value"
    if reason := too_fast(row):
        return "rejected", reason
    failed = [check["class"] for check in checks if check["verdict"] not in ("ok", "not checkable")]
    for name in failed:
        if name in REJECTED:
            return "rejected" if name == "stale after correction" else "contradiction", REJECTED[
                name
            ]
    for name in failed:
        return (
            ("unchecked", EXPLAINED[name])
            if name in EXPLAINED
            else ("convention", CONVENTIONS.get(name, name))
        )
    equations = [
        check for check in checks if check["verdict"] == "ok" and check["check"] != "below peak"
    ]
    return ("consistent" if equations else "unchecked"), ""


def compared(row: Mapping[str, str], checks: Iterable[Mapping[str, str]]) -> str:
    """Return what a row's tokens/s need beside the TFLOP/s that it prints, if they contradict each
    other.
    """
    for check in checks:
        if check["check"] == "tflops~tokens" and check["verdict"] not in ("ok", "not checkable"):
            speed = f"{float(row['tokens_per_second_per_gpu']):,.6g} tokens/s"
            needed, *more = check["expected"].split(" ", 1)
            needed = " ".join((f"{float(needed):.3g} TFLOP/s", *more))
            return f"{speed} needs {needed}, but {float(check['stated']):g} is printed"
    return ""


def too_fast(row: Mapping[str, str]) -> str:
    """Return why a row is implausible if its weights alone need more than MOST of the GPU's peak;
    else nothing.
    """
    share = share_of_peak(row)
    return (
        f"the weights' FLOPs alone would need {share:.0%} of the dense peak" if share > MOST else ""
    )


def share_of_peak(row: Mapping[str, str]) -> float:
    """Return the share of the highest peak that the GPU may have used, which the weights alone
    need; 0 if unknown.
    """
    gpu = next((gpu for gpu in gpus.gpus() if gpu.key == row["gpu"]), None)
    model = models.find(row["model"])
    if gpu is None or model is None or not row["tokens_per_second_per_gpu"] or row["task"] == "rl":
        return 0.0
    trained = ADAPTERS if row["task"] == "lora" else None
    count = (
        flops_per_token(msgspec.structs.replace(model.shape, trainable_parameters=trained), 0)
        or 0.0
    )
    peaks = [
        gpu.peak_tflops(name)
        for name in ([row["precision"]] if row["precision"] else gpus.PRECISIONS)
    ]
    peak = max((peak for peak in peaks if peak is not None), default=None)
    return count * float(row["tokens_per_second_per_gpu"]) / (peak * 1e12) if peak else 0.0


if __name__ == "__main__":
    sys.exit(main())
