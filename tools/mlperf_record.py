#!/usr/bin/env python3
"""Read the language-model sets of MLPerf Training from clones of its results, and write
published/mlcommons.

    tools/mlperf_record.py training_results_v4.1 training_results_v5.0 training_results_v5.1

A clone may be bare; its path contains the name of its repository. What is read is its HEAD: the
logs of each set, scaling.json, the system description, and the configuration files of the
submission's code, which are never executed. The logs are read as `tprimat read` reads them. Of sets
with the same logs the first counts: that of the oldest round, then by organization and system. Its
note names the others. Nothing is added to the files by hand.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import csv
import dataclasses
import functools
import io
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tools"))

from published_figures import too_fast

from tprimat.analysis import account
from tprimat.analysis.run_account import account_of
from tprimat.analysis.summary import summarize
from tprimat.catalog import figures, gpus
from tprimat.catalog.published import FOLDER
from tprimat.compare import Loaded, compare
from tprimat.compare.target import benchmark, target
from tprimat.log_import.extract import extract
from tprimat.log_import.given import NOTHING_GIVEN
from tprimat.log_import.inputs import Log
from tprimat.results.run import GpuInfo, Run

SETS = re.compile(
    r"([^/]+)/results/([^/]+)/(gpt3|llama2_70b_lora|llama31_405b|llama31_8b)/result_[\w]+\.txt"
)


class Benchmark(NamedTuple):
    """What the rules of a benchmark fix.

    Attributes:
        sequence_length: tokens of a sample; of llama2_70b_lora samples are packed to it.
        target: the quality at which the time ends.
    """

    model: str
    task: str
    sequence_length: int
    target: str


BENCHMARKS = {
    "gpt3": Benchmark(
        "gpt-3-175b", "pretrain", 2048, "log perplexity of 2.69 on C4, from a checkpoint"
    ),
    "llama2_70b_lora": Benchmark("llama-2-70b", "lora", 8192, "loss of 0.925 on GovReport"),
    "llama31_405b": Benchmark(
        "llama-3.1-405b", "pretrain", 8192, "log perplexity of 5.6 on C4, from a checkpoint"
    ),
    "llama31_8b": Benchmark(
        "llama", "pretrain", 8192, "log perplexity of 3.3 on C4, from random weights"
    ),
}
"""mlcommons/training_policies@d73e20f1 training_rules.adoc (targets), and the README files of
mlcommons/training.
"""

COLUMNS = (
    "publisher", "gpu", "model", "task", "precision", "sequence_length", "global_batch_size", "num_gpus", "framework",
    "version", "date", "tokens_per_second_per_gpu", "audit", "reason", "samples_per_second", "step_time_seconds",
    "median_step_time_seconds", "run_rates", "time_to_target_seconds", "target", "samples_to_target",
    "training_percent", "evaluation_percent", "num_runs", "failed_runs", "system", "packing", "note",
    "precision_source", "source",
)  # fmt: skip


class Clone(NamedTuple):
    """A clone of a round: its git directory, the repository's name and the commit that is read."""

    path: Path
    name: str
    commit: str

    def git(self, *arguments: str, text: str = "") -> bytes:
        """Return what git prints."""
        command = ["git", "-C", str(self.path), *arguments]
        return subprocess.run(
            command, input=text.encode(), stdout=subprocess.PIPE, check=True
        ).stdout

    @functools.cache  # noqa: B019 - a clone lives as long as the program
    def files(self) -> dict[str, str]:
        """Return the objects of all files, by path."""
        lines = self.git("ls-tree", "-r", "-z", self.commit).decode("utf-8", "replace").split("\0")
        entries = (line.split("\t", 1) for line in lines if line)
        return {path: meta.split()[2] for meta, path in entries}

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of files by path, without those that the clone lacks."""
        paths = list(paths)
        output = io.BytesIO(
            self.git(
                "cat-file", "--batch", text="".join(f"{self.files()[path]}\n" for path in paths)
            )
        )
        found = {}
        for path in paths:
            header = output.readline().split()
            if header[-1] != b"missing":
                found[path] = output.read(int(header[2]))
                output.read(1)
        return found


def open_clone(path: Path) -> Clone:
    """Return a clone; its path names the repository."""
    path = path.resolve()
    names = re.findall(r"training_results_v\d+\.\d+", str(path))
    if not names:
        raise SystemExit(
            f"error: {path}: the path of a clone contains training_results_v and the round"
        )
    commit = Clone(path, names[-1], "HEAD").git("rev-parse", "HEAD").decode().strip()
    return Clone(path, names[-1], commit)


def main(arguments: list[str] | None = None) -> int:
    """Write a file for each clone. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clones", metavar="CLONE", type=Path, nargs="+")
    parser.add_argument("--output-dir", type=Path, default=FOLDER / "mlcommons")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    clones = sorted(map(open_clone, options.clones), key=lambda clone: clone.name)
    work = [(clone, name) for clone in clones for name in sets_of(clone)]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        results = list(pool.map(row_of, *zip(*work, strict=True)))
    seen: dict[object, dict[str, str]] = {}
    files: dict[str, list[dict[str, str]]] = {clone.name: [] for clone in clones}
    for (clone, name), (row, runs) in zip(work, results, strict=True):
        if row is None:
            print(f"not in this clone: {clone.name}/{name}")
        elif runs in seen:
            first = seen[runs]
            print(f"the same logs as {first['source']}: {clone.name}/{name}")
            first["note"] = "; ".join(
                filter(None, (first["note"], f"the same logs again in {clone.name}/{name}"))
            )
        else:
            seen[runs] = row
            files[clone.name].append(row)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    for repository, rows in files.items():
        with (options.output_dir / f"{repository}.csv").open(
            "w", encoding="utf-8", newline=""
        ) as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(sorted(rows, key=lambda row: row["source"]))
        unknown = sum(not row["precision"] for row in rows)
        print(f"{len(rows):4} sets: {repository}; {unknown} without a precision")
    return 0


def sets_of(clone: Clone) -> list[str]:
    """Return the directories of the sets by organization, system and benchmark: n8 before
    n8-POWER.
    """
    return sorted(
        {path.rpartition("/")[0] for path in clone.files() if SETS.fullmatch(path)},
        key=lambda name: name.split("/"),
    )


def row_of(clone: Clone, name: str) -> tuple[dict[str, str] | None, tuple[object, ...]]:
    """Return the row of a set, and when its runs began with their minutes; None if the clone lacks
    one of its logs.
    """
    organization, _, system, short = name.split("/")
    known = BENCHMARKS[short]
    logs = [
        path
        for path in clone.files()
        if path.startswith(f"{name}/result_") and SETS.fullmatch(path)
    ]
    extras = [
        path
        for path in (f"{name}/scaling.json", f"{organization}/systems/{system}.json")
        if path in clone.files()
    ]
    contents = clone.read([*logs, *extras])
    if not all(path in contents for path in logs):
        return None, ()
    with tempfile.TemporaryDirectory() as folder:
        for path, content in contents.items():
            place = Path(folder, clone.name, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        runs = [
            each.run
            for path in sorted(
                logs, key=lambda path: [int(part) for part in re.findall(r"\d+", path)]
            )
            for each in extract(Log(str(Path(folder, clone.name, path))), NOTHING_GIVEN)
        ]
    try:
        description = json.loads(contents.get(f"{organization}/systems/{system}.json", b"{}"))
    except json.JSONDecodeError:
        description = {}
    clocks = tuple(
        sorted(
            (run.timestamp or "", str(run.native_metrics.get("time_to_train_minutes")))
            for run in runs
        )
    )
    config = runs[0].training_config
    reached = [run for run in runs if run.status == "complete"]
    settings = code_of(clone, name, runs[0], description)
    precision = config.precision or settings.get("precision", Setting("")).value
    row = dict.fromkeys(COLUMNS, "") | {
        "publisher": f"{organization.replace('_', ' ')} in MLPerf",
        "gpu": gpu_of(runs[0], description),
        "model": known.model,
        "task": known.task,
        "precision": precision,
        "sequence_length": str(known.sequence_length),
        "global_batch_size": str(config.global_batch_size or ""),
        "num_gpus": str(runs[0].num_gpus or ""),
        "date": (min(run.timestamp or "" for run in runs))[:10],
        "target": f"MLPerf {clone.name.removeprefix('training_results_')} {short}: {known.target}",
        "num_runs": str(len(runs)),
        "failed_runs": str(len(runs) - len(reached)),
        "system": system,
        "packing": "true" if known.task == "lora" else "",
        "precision_source": precision_source(name, runs[0], settings),
        "source": f"mlcommons/{clone.name}/{name}@{clone.commit[:12]}",
    }
    row["framework"], row["version"] = software_of(
        settings, str(description.get("framework") or "")
    )
    row |= speeds(reached, known.sequence_length, config.global_batch_size, runs[0].num_gpus)
    row |= times(runs, reached)
    notes = []
    if not row["run_rates"]:
        notes.append("the blocks of these logs include their evaluations: no speed")
        row |= dict.fromkeys(("training_percent", "evaluation_percent"), "")
    if "HEALING_ITER" in settings and (precision or "").endswith("fp4"):
        notes.append(f"FP8 from step {settings['HEALING_ITER'].value}")
    elif any("ealing" in (entry.note or "") for run in runs for entry in run.timeline):
        notes.append("ends in FP8")
    if is_of_another_gpu(row["gpu"], row["version"]):
        notes.append("software as stated by the submitter; it doesn't fit the GPU")
    row["note"] = "; ".join(notes)
    row["reason"] = too_fast(row)
    row["audit"] = "rejected" if row["reason"] else "consistent"
    return row, clocks


def speeds(
    runs: Sequence[Run], length: int, batch: int | None, gpu_count: int | None
) -> dict[str, str]:
    """Return the speed over all runs, and of each: all steps per all seconds of their blocks,
    evaluations left out.
    """
    blocks = [account.blocks(run) for run in runs]
    sums = [
        (sum(each.steps for each in found), math.fsum(each.duration for each in found))
        for found in blocks
    ]
    if (
        not runs
        or not batch
        or not gpu_count
        or not all(steps and seconds for steps, seconds in sums)
    ):
        return {}
    if any(entry.kind == "unknown" and entry.steps for run in runs for entry in run.timeline):
        return {}
    steps, seconds = map(sum, zip(*sums, strict=True))
    tokens = batch * length / gpu_count
    medians = [statistics.median(each.duration / each.steps for each in found) for found in blocks]
    return {
        "tokens_per_second_per_gpu": f"{tokens * steps / seconds:.6g}",
        "samples_per_second": f"{batch * steps / seconds:.6g}",
        "step_time_seconds": f"{seconds / steps:.6g}",
        "median_step_time_seconds": f"{statistics.median(medians):.6g}",
        "run_rates": " ".join(f"{tokens * steps / seconds:.6g}" for steps, seconds in sums),
    }


def times(runs: Sequence[Run], reached: Sequence[Run]) -> dict[str, str]:
    """Return the official time to the target, the samples until then, and how the time of the runs
    is divided.
    """
    systems = compare([Loaded("set", "0" * 8, tuple(runs))]).systems
    # Runs whose logs state different settings are several systems elsewhere; a score is that of all
    # runs of the set.
    found = target(
        dataclasses.replace(
            systems[0], runs=tuple(each for system in systems for each in system.runs)
        )
    )
    accounts = [each for run in reached if (each := account_of(run, summarize(run)))]
    whole = math.fsum(each.whole for each in accounts)

    def percent(*parts: str) -> str:
        seconds = math.fsum(each.parts.get(part, 0.0) for each in accounts for part in parts)
        return f"{100 * seconds / whole:.4g}" if whole else ""

    minutes = found.official_minutes if found else None
    samples = found.mean.get("samples") if found else None
    return {
        "time_to_target_seconds": f"{60 * minutes:.7g}" if minutes else "",
        "samples_to_target": f"{samples:.7g}" if samples else "",
        "training_percent": percent("training", "warm-up"),
        "evaluation_percent": percent("evaluation"),
    }


def gpu_of(run: Run, description: Mapping[str, object]) -> str:
    """Return the key of the GPU, from all that is known of it, else from its name alone; else its
    name as printed.
    """
    if gpu := gpus.match(run.gpu_info).gpu:
        return gpu.key
    names = [
        str(name)
        for name in (description.get("accelerator_model_name"), run.gpu_info.device_name)
        if name
    ]
    for name in names:
        if gpu := gpus.match(GpuInfo(device_name=name)).gpu:
            return gpu.key
        if len(alike := figures.Figure(line=0, gpu=name).candidates) == 1:
            return alike[0].key
    return names[0] if names else ""


def software_of(settings: Mapping[str, Setting], described: str) -> tuple[str, str]:
    """Return framework and version by the code of a submission, else by the system description."""
    words = described.lower()
    uses_nemo = not settings.keys().isdisjoint(("nemo", "revision"))
    framework = (
        "nemo"
        if uses_nemo
        else next((name for name in ("nemo", "maxtext", "pytorch") if name in words), "")
    )
    image = settings.get("image", Setting("")).value
    versions = {
        "NeMo": settings.get("revision", Setting("")).value,
        "ROCm": (
            _first(r"rocm[/_ -]?(\d[\d.]*\d)", image) or _first(r"rocm[ -]?(\d[\d.]*\d)", words)
        ),
        "PyTorch": _first(r"pytorch(?::|_release_)(\d[\d.]*\d)", image),
    }
    versions["LLMBoost"] = _first(r"llmboost (\d[\d.]*\d)", words)
    if not any(versions.values()):
        versions["NeMo"] = _first(r"nemo[^;\d]*(\d[\d.]*\d)", words)
        versions["PyTorch"] = (
            "" if versions["NeMo"] else _first(r"pytorch[^;,\d]*(\d[\d.]*\d)", words)
        )
    return framework, ", ".join(
        f"{name} {version}" for name, version in versions.items() if version
    )


def is_of_another_gpu(key: str, version: str) -> bool:
    """Return whether a release of NVIDIA's PyTorch is stated with an AMD GPU, or one before
    FIRST_BLACKWELL with it.
    """
    gpu = next((gpu for gpu in gpus.gpus() if gpu.key == key), None)
    release = _first(r"pytorch (\d\d\.\d\d)\b", version)
    if gpu is None or not release:
        return False
    return gpu.vendor == "AMD" or ("Blackwell" in gpu.family and release < FIRST_BLACKWELL)


FIRST_BLACKWELL = "24.09"
"""NVIDIA's image with which it submitted its first Blackwell GPUs, in round v4.1."""


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text.lower())
    return found[1] if found else ""


class Setting(NamedTuple):
    """A value that a file states, and its path and line."""

    value: str
    path: str = ""
    line: int = 0


_ASSIGNED = re.compile(r"""\s*(?:export\s+|:\s*")(?:\$\{)?(\w+)(?::?=|=)\s*(.*)""")
_SOURCED = re.compile(r"\s*(?:source|\.)\s.*?([\w.-]+\.sh)")
_QUANTIZED = re.compile(r"\s*quantization=(\w+)")
_HYBRID = re.compile(r"\s*(?:model_config\.)?fp8\s*=\s*[\"']hybrid[\"']")
_FAMILY = re.compile(r"GB\d00|MI\d{3}X|(?<!G)B\d00|H\d00")
_VENDORED = re.compile(r"/(NeMo|Megatron-LM|nccl|apex|TransformerEngine)/")
_READ = re.compile(
    r"/((\w+_)?config[\w.+-]*|(v5p|trillium)-\d+)\.sh$|/README-[^/]*\.md$|/Dockerfile[\w.-]*$|/(pre)?train\.py$"
)
_SOFTWARE = {
    "nemo": re.compile(r"\s*(?:from|import) (nemo)\b"),
    "revision": re.compile(r"ARG NEMO_REVISION=[\"']?v?(\d[\w.-]*)"),
    "image": re.compile(r"(?:ARG \w*IMAGE\w*=|FROM )(\S+:\S+)"),
}
"""What a trainer imports, and what a Dockerfile installs and begins with."""

_SIZES = {"nodes": ("DGXNNODES", "NNODES"), "devices": ("DGXNGPU", "GPUS_PER_NODE")}


def code_of(
    clone: Clone, name: str, run: Run, description: Mapping[str, object]
) -> dict[str, Setting]:
    """Return what the submission's code states of a set: `precision`, `nemo` if it uses that, and
    its variables.

    The configuration files are those of the set's size, batch and GPU; of these one that the README
    of the system names, else that is named after the system or lies in its directory. They count if
    all state the same precision.
    """
    organization, _, system, short = name.split("/")
    folder = re.compile(rf"{re.escape(organization)}/benchmarks?/{short}/")
    paths = [path for path in clone.files() if folder.match(path) and not _VENDORED.search(path)]
    texts = {
        path: content.decode("utf-8", "replace")
        for path, content in clone.read(filter(_READ.search, paths)).items()
    }
    scripts = [path for path in texts if path.endswith(".sh")]
    evaluated = {path: evaluate(path, texts) for path in scripts}
    specific = [path for path in scripts if not re.search(r"config_(common|mounts)", path)]
    fitting = [path for path in specific if fits(path, evaluated[path], run, description)]
    plain = _letters(system)
    readme = next(
        (text for path, text in texts.items() if path.endswith(f"/README-{system}.md")), ""
    )
    groups = (
        [path for path in fitting if Path(path).name in readme],
        [path for path in fitting if plain in _letters(Path(path).name)],
        [
            path
            for path in fitting
            if "config" not in Path(path).name and _letters(Path(path).stem) in plain
        ],
        [path for path in fitting if f"/{system}/" in path or f"/{system}_" in path],
        fitting,
        # Without a file of its own, a set has what all the others of its vendor share.
        [
            path
            for path in scripts
            if "_common" in path and vendors(path, specific) == {vendor_of(run)}
        ],
    )
    chosen = next(filter(None, groups), [])
    trainers, images = (
        nearest(chosen[0], [path for path in texts if part in path]) if chosen else []
        for part in (".py", "/Dockerfile")
    )
    beside = {path: texts[path] for path in trainers}
    stated = [each for path in chosen if (each := precision_of(evaluated[path], beside))]
    found: dict[str, Setting] = dict(evaluated[chosen[0]]) if chosen else {}
    if (
        stated
        and len({each.value for each in stated}) == 1
        and (chosen == groups[-1] or len(stated) == len(chosen))
    ):
        found["precision"] = stated[0]
    software: dict[str, set[Setting]] = {}
    for path in (*trainers, *images):
        for number, line in enumerate(texts[path].splitlines(), 1):
            for key, pattern in _SOFTWARE.items():
                if match := pattern.match(line):
                    software.setdefault(key, set()).add(Setting(match[1], path, number))
    # Of several images nothing says which one was used.
    found |= {
        key: min(each) for key, each in software.items() if len({value for value, *_ in each}) == 1
    }
    return found


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def families(path: str) -> set[str]:
    """Return the GPUs that the name of a file contains."""
    return set(_FAMILY.findall(Path(path).name.upper()))


def vendors(path: str, specific: Sequence[str]) -> set[str | None]:
    """Return whose GPUs the configurations beside a file are for."""
    beside = [each for each in specific if Path(each).parent == Path(path).parent]
    return {
        "AMD" if family.startswith("MI") else "NVIDIA"
        for each in beside
        for family in families(each)
    }


def vendor_of(run: Run) -> str | None:
    """Return the vendor of the GPU."""
    return gpus.vendor(run.gpu_info.device_name or "")


def evaluate(path: str, texts: Mapping[str, str], depth: int = 3) -> dict[str, Setting]:
    """Return the variables that a configuration file exports, with those of the files that it
    sources, in order.
    """
    found: dict[str, Setting] = {}
    for number, line in enumerate(texts[path].splitlines(), 1):
        if depth and (sourced := _SOURCED.match(line)):
            same = [each for each in texts if Path(each).name == sourced[1]]
            near = nearest(path, same)
            if len({texts[each] for each in near}) == 1:
                found |= evaluate(near[0], texts, depth - 1)
        elif assigned := _ASSIGNED.match(line):
            value = assigned[2].partition(" #")[0].split(";")[0].strip().strip("\"'}")
            default = re.fullmatch(r"\$\{\w+:[-=](.*)", value)
            found[assigned[1]] = Setting(default[1] if default else value, path, number)
        elif quantized := _QUANTIZED.match(line):
            found["QUANTIZATION"] = Setting(quantized[1], path, number)
    return found


def nearest(path: str, others: Iterable[str]) -> list[str]:
    """Return the paths in a file's directory, else below it, else below the directories above
    it.
    """
    for folder in Path(path).parents:
        if within := [each for each in others if Path(each).is_relative_to(folder)]:
            return [each for each in within if Path(each).parent == folder] or within
    return []


def fits(
    path: str, known: Mapping[str, Setting], run: Run, description: Mapping[str, object]
) -> bool:
    """Return whether a configuration may be that of a run, by its size, its batch and the GPU in
    its name.
    """

    def number(*names: str) -> int | None:
        values = (known[name].value for name in names if name in known)
        return next((int(value) for value in values if value.isdigit()), None)

    key, named = gpu_of(run, description).upper(), families(path)
    if named and not any(key.startswith(family) for family in named):
        return False
    sizes = {"nodes": "number_of_nodes", "devices": "accelerators_per_node"}
    for size, name in sizes.items():
        stated, described = number(*_SIZES[size]), str(description.get(name) or "")
        if stated and described.isdigit() and stated != int(described):
            return False
    parallel = [
        number(*names) or 1
        for names in (
            ("TP", "TENSOR_MODEL_PARALLEL"),
            ("PP", "PIPELINE_MODEL_PARALLEL"),
            ("CP", "CONTEXT_PARALLEL"),
        )
    ]
    batch = number("GBS") or ((number("MINIBS") or 0) * (run.num_gpus or 0) / math.prod(parallel))
    model = known.get("MODEL_SIZE", known.get("SIZE", Setting(""))).value.lower()
    if re.fullmatch(r"\d+b", model) and model not in (benchmark(run) or ""):
        return False
    return not batch or batch == run.training_config.global_batch_size


def precision_of(known: Mapping[str, Setting], trainers: Mapping[str, str]) -> Setting | None:
    """Return the precision that a configuration switches on, or that the trainer near it always
    has.
    """
    for name in ("FP4", "FP8"):
        if name in known and known[name].value.lower() in ("true", "1"):
            return known[name]._replace(value=name.lower())
    if "QUANTIZATION" in known:
        return known["QUANTIZATION"]
    for path, text in trainers.items():
        for number, line in enumerate(text.splitlines(), 1):
            if _HYBRID.match(line):
                return Setting("fp8", path, number)
    return None


def precision_source(name: str, run: Run, settings: Mapping[str, Setting]) -> str:
    """Return where the precision is stated: in the log, in the system description, or a line of the
    code.
    """
    if detail := run.training_config.precision_detail:
        return "system description" if "description" in detail else f"log: {detail}"
    stated = settings.get("precision")
    return f"{stated.path}:{stated.line}" if stated else ""


if __name__ == "__main__":
    sys.exit(main())
