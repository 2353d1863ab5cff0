#!/usr/bin/env python3
"""Writes the parts of the documentation that follow from the code; --check only compares.

docs/result.schema.json and docs/result-file.md come from the types in tprimat/results/run.py, the
formulas of the figures from the tables in tprimat/analysis/metrics.py and
tprimat/analysis/efficiency/table.py, docs/commands.md from the parsers of the commands, docs/notes.md
from the catalogue of notes, and the
tables of frameworks and of NeMo's defaults from the rows in tprimat/frameworks/. In
docs/metrics.md, docs/frameworks.md and docs/nemo.md only the marked places are generated; the rest
is written by hand.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import math
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS.parent / "tests")]

import msgspec
from machines import MACHINES

from tprimat import cli, frameworks, units
from tprimat.analysis import efficiency, flops, metrics
from tprimat.catalog import gpus, models
from tprimat.checks.corrections import KNOWN_CONFIGURATIONS
from tprimat.cli import COMMANDS
from tprimat.cli.options import benchmark
from tprimat.errors import ExitStatus
from tprimat.frameworks import FRAMEWORKS, GROUPS, defaults, primus, roofline, scales
from tprimat.frameworks.nemo import defaults as nemo_defaults
from tprimat.frameworks.nemo.resolve import LIKELY_MFU
from tprimat.frameworks.request import Device, Request, RequestedConfig
from tprimat.notes.catalogue import ROWS
from tprimat.report import steps
from tprimat.results import result_file, run
from tprimat.results.run import GpuInfo
from tprimat.settings.rows import SETTINGS

SCHEMA_NAME = "result.schema.json"
PAGE_NAME = "result-file.md"
METRICS_NAME = "metrics.md"
COMMANDS_NAME = "commands.md"
PYTHON_NAME = "python.md"
FRAMEWORKS_NAME = "frameworks.md"
NEMO_NAME = "nemo.md"
NOTES_NAME = "notes.md"
HAND_WRITTEN = DOCS
END = "<!-- end -->\n"

HEAD = f"""\
# The result file

Every command that benchmarks or imports writes JSON files in this format; every command that compares reads them. This
page and [{SCHEMA_NAME}]({SCHEMA_NAME}) are generated from the types in `tprimat/results/` by
`python3 docs/generate.py`; schema version {result_file.SCHEMA_VERSION}.

## Structure

- **One file per configuration:** one model on one machine. `runs` contains its runs, each with its own
  timestamp, status, warnings and series. Five calls of `./benchmark.py` give the same file as `--runs 5`.
- **The top level is one of the runs:** the one with the median mean step time (of an even number, the lower middle).
  A reader that ignores `runs` sees an ordinary result. A run without step times is used only if there is no other.
- **Series** (`steps`, `window_steps`, `step_times`, `loss_values`, `learning_rates`, `grad_norms`, `lines`) have one
  entry per record and equal length; `null` means no value. A log that prints averages has one record per line, and
  `window_steps` gives the number of steps.
- **Metrics** (`performance_metrics`) are computed from the series over the steps in `steady`, again each time they are
  shown. In the file they are rounded to 3 decimals, or to 4 significant digits if 3 decimals lose them.
- **Notes** (`notes`) say what is known or doubted about a run, as a code and its values; `warnings` has the same as
  sentences. Programs read the codes: sentences change.
- **Unknown is `null`**, and `warnings` gives the reason. Nothing is guessed, nor filled in from the importing machine.
  Names that end in `_gb` count 10⁹ bytes. JSON has no NaN or infinity: a NaN loss is `null`, with a warning that
  lists the steps.

The JSON of a comparison (`compare_results.py --json`) has another format: [Read a report](report.md).

## File names

| file | framework |
|---|---|
| `benchmark_cuda_{{model}}.json` | NeMo; the built-in framework and a `BenchmarkCallback` on NVIDIA GPUs |
| `benchmark_rocm_{{model}}.json` | Primus; the built-in framework and a `BenchmarkCallback` on AMD GPUs |
| `benchmark_cpu_{{model}}.json` | the built-in framework and a `BenchmarkCallback` on a CPU |
| `train_{{framework}}_{{model}}.json` | all others |
| `bench_{{GPU}}_{{N}}gpu_{{timestamp}}.json` | the encoder-decoder, one file per training |

The directory is `output/` (encoder-decoder: `results/`) or that of `--output-dir`; `--label NAME` becomes part of the
name. Results of a framework's second platform have `_amd` or `_nvd` in it, so that NVIDIA's and AMD's can be put into
one directory. A run is added to the file of its setup. If that name has the file of **another** setup, what differs is
added to it, such as `benchmark_cuda_llama_H200.json`: nothing is moved or overwritten. Only under a name that you give
yourself (`--output`) an older file moves to `history/`, with its time in the name. Comparing a directory skips
`history/`.

Files without `schema_version` come from an earlier tool. They are read too; invalid values become `null`, with a
warning. A file of a newer version is rejected.
"""


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a result file, with what a validator and an editor want at its
    head.
    """
    generated = result_file.json_schema()
    described = {kind.__name__: kind for kind in _structs(msgspec.Struct)}
    for name, part in generated["$defs"].items():
        part["description"] = inspect.cleandoc(part.get("description", ""))
        texts = _descriptions(described[name])
        part["properties"] = {
            field: {"description": texts[field], **content} if field in texts else content
            for field, content in part["properties"].items()
        }
        for field in part["properties"].values():
            # The defaults of a group stand with its own fields.
            if "$ref" in field:
                field.pop("default", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"TensorPrimat result file, schema version {result_file.SCHEMA_VERSION}",
        **generated,
    }


def _structs(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """Yield the types of a result file that follow from one, directly or not."""
    for kind in base.__subclasses__():
        if kind.__module__.startswith(("tprimat.results.", "tprimat.notes")):
            yield kind
        yield from _structs(kind)


def _descriptions(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return what each field of a type means: the text in its Annotated[...]."""
    hints = typing.get_type_hints(kind, include_extras=True)
    texts = {
        name: [text for text in getattr(hint, "__metadata__", ()) if isinstance(text, str)]
        for name, hint in hints.items()
    }
    return {name: text[0] for name, text in texts.items() if text}


def page() -> str:
    """Return docs/result-file.md."""
    parts = schema()["$defs"]
    fields = parts["ResultFile"]["properties"]
    repeated = ", ".join(
        f"`{name}`" for name in fields if name in parts["RecordedRepetition"]["properties"]
    )
    lines = [
        HEAD,
        "## Top level\n",
        "The setup, the metrics and series of one run, and all runs.\n",
        *_table(fields),
    ]
    own = (
        " `max_steps` and `seed` of `training_config` are in each run, too, if the runs differ in"
        " them."
    )
    lines += [
        "## `runs`\n",
        f"Each run has the fields of the top level that differ between runs: {repeated}.{own}\n",
    ]
    for name, part in parts.items():
        if name not in ("ResultFile", "RecordedRepetition"):
            lines += [
                f"## {name}\n",
                part["description"].split("\n\n")[0].replace("\n", " ") + "\n",
            ]
            lines += _table(part["properties"])
    return "\n".join(lines).rstrip() + "\n"


def _table(fields: dict[str, Any]) -> Iterator[str]:
    order = [name for name in result_file.FIELD_ORDER if name in fields]
    order += [
        name for name in fields if name not in order and name not in run.SERIES and name != "runs"
    ]
    order += [name for name in (*run.SERIES, "runs") if name in fields]
    yield "| field | type | meaning |\n|---|---|---|"
    for name in order:
        yield f"| `{name}` | {_type(fields[name])} | {_meaning(name, fields[name])} |"
    yield ""


def _type(field: dict[str, Any]) -> str:
    """Return a type in words: "integer ≥ 1", "list of number or null"."""
    if "$ref" in field:
        name: str = field["$ref"].rsplit("/", 1)[1]
        target = "runs" if name == "RecordedRepetition" else name.lower()
        return f"[{'run' if name == 'RecordedRepetition' else name}](#{target})"
    if "anyOf" in field:
        return " or ".join(_type(each) for each in field["anyOf"])
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field["type"] == "array":
        return f"list of {_grouped(field['items'])}"
    if field["type"] == "object":
        return f"object of {_grouped(field['additionalProperties'])} by name"
    word = {"integer": "integer", "number": "number", "string": "text", "boolean": "boolean"}
    if "exclusiveMinimum" in field:
        return f"{word[field['type']]} > {field['exclusiveMinimum']:g}"
    # Bounds that only keep arithmetic safe are for the schema, not for people.
    if field.get("minimum") in (0, 1):
        return f"{word[field['type']]} ≥ {field['minimum']:g}"
    return word.get(field["type"], str(field["type"]))


def _grouped(field: dict[str, Any]) -> str:
    return f"({_type(field)})" if "anyOf" in field else _type(field)


def _meaning(name: str, field: dict[str, Any]) -> str:
    meaning: str | None = field.get("description")
    metric = next((metric for metric in metrics.METRICS if metric.name == name), None)
    if metric is not None and not meaning:
        meaning = f"{metric.how}; {metric.unit}"
    if not meaning:
        raise SystemExit(f"the field {name} has no description: add one in tprimat/results/run.py")
    return meaning.replace("|", "\\|")


def page_with(name: str, tables: dict[str, Iterator[str]]) -> str:
    """Return a page of docs/ that is written by hand, with tables in its marked places.

    Args:
        name: of the page.
        tables: lines by the name of their mark.
    """
    text = (HAND_WRITTEN / name).read_text(encoding="utf-8")
    for mark, lines in tables.items():
        before, start, rest = text.partition(f"<!-- generated: {mark} -->\n")
        _, end, after = rest.partition(END)
        if not (start and end):
            raise SystemExit(
                f"{name} has lost its marks: <!-- generated: {mark} --> and {END.strip()}"
            )
        text = before + start + "\n".join(lines) + "\n" + end + after
    return text


_EFFECTS = {
    "forbids": "not comparable",
    "explains": "can explain the result",
    "differs": "another configuration",
    "harmless": "listed",
}
_WITHIN = {"any": "", "device": ", on one GPU", "framework": ", within one framework"}


def _settings_table() -> Iterator[str]:
    yield (
        "| setting | field | option | a difference | Megatron | torchtitan"
        " |\n|---|---|---|---|---|---|"
    )
    for row in SETTINGS:
        title = row.title or row.key.replace("_", " ")
        effect = (
            ""
            if row.part
            else f"{_EFFECTS[row.role]}{_WITHIN[row.within]}"
            if row.title
            else "not compared"
        )
        why = f": {row.why}" if row.why else ""
        megatron = " ".join(filter(None, (row.megatron, row.megatron_log)))
        names = (
            "<br>".join(f"`{name}`" for name in text.split())
            for text in (row.field, row.option, megatron)
        )
        field, option, megatron = names
        titan = "<br>".join(f"`{name}`" for name in row.torchtitan.split())
        place = f"{row.part}: {title}" if row.part else title
        yield f"| {place} | {field} | {option} | {effect}{why} | {megatron} | {titan} |"


def _frameworks_table() -> Iterator[str]:
    yield (
        "| `--framework` | what trains | where | precisions | steps | when to use it"
        " |\n|---|---|---|---|---|---|"
    )
    groups = {member: group for group, members in GROUPS.items() for member in members}
    for row in FRAMEWORKS:
        group = groups.get(row.name)
        name = f"`{row.name}`" + (
            f" (`{group}` means all of them)" if group and row.name == GROUPS[group][0] else ""
        )
        steps = str(defaults.STEPS_ON_GPU) + (
            f", {defaults.STEPS_ON_CPU} on a CPU" if row.on_cpu else ""
        )
        where = "GPU, CPU" if row.on_cpu else "GPU"
        yield (
            f"| {name} | {row.trains} | {where} | {', '.join(row.precisions)} | {steps} |"
            f" {row.use_when} |"
        )


@dataclasses.dataclass(frozen=True)
class FirstCommand:
    """A machine on which somebody types ./benchmark.py, and the framework that it trains with
    there.
    """

    machine: str
    device: Device
    framework: str

    @property
    def start_s(self) -> float:
        """Return the estimated time before the first step, s."""
        return frameworks.by_name(self.framework).launcher.start_s

    def request(self) -> Request:
        """Return the training of the first model; Primus' as its own configuration has it, which
        isn't here.
        """
        chosen = frameworks.by_name(self.framework)
        wanted = RequestedConfig(time_limit_s=benchmark.duration(benchmark.DEFAULT_TIME_LIMIT))
        if chosen.name == "primus":
            (known,) = [
                row
                for row in KNOWN_CONFIGURATIONS
                if (row.framework, row.model) == (chosen.name, "llama")
                and row.gpu in (self.device.device_name or "")
            ]
            sizes = ("global_batch_size", "micro_batch_size", "sequence_length")
            known_sizes = {name: getattr(known, name) for name in sizes}
            wanted = wanted.but(
                scale=scales.FULL, precision=primus.DEFAULT_PRECISION, **known_sizes
            )
            chosen = frameworks.by_name("lightning")
        return chosen.resolve_config(chosen.models[0], wanted, self.device, Path())[0]

    def seconds(self) -> tuple[float, float]:
        """Return the time of a step at LIKELY_MFU, and of all until the result."""
        request = self.request()
        shape = scales.shape(models.by_name(request.model), scales.by_name(request.scale))
        gpu = gpus.match(GpuInfo(device_name=self.device.device_name)).gpu
        peak = gpu.peak_tflops(request.precision) if gpu is not None else None
        work = flops.flops_per_token(shape, request.sequence_length)
        assert work is not None
        assert peak is not None
        tokens = request.global_batch_size * request.sequence_length
        step_s = work * tokens / (LIKELY_MFU * peak * 1e12 * request.num_gpus)
        return step_s, self.start_s + min(request.steps * step_s, request.time_limit_s or math.inf)


_RTX_4090 = Device("nvd", 1, 25.39e9, "sm_89", "NVIDIA GeForce RTX 4090")
_H100 = Device("nvd", 1, 85.02e9, "sm_90", "NVIDIA H100 80GB HBM3")
_H100S = dataclasses.replace(_H100, devices=8)
_MI300XS = Device("amd", 8, 206.14e9, "gfx942", "AMD Instinct MI300X")

FIRST_COMMANDS = (
    FirstCommand("one RTX 4090 (24 GB)", _RTX_4090, "lightning"),
    FirstCommand(
        "the same, half of its memory in use by others",
        dataclasses.replace(_RTX_4090, held_bytes=12e9),
        "lightning",
    ),
    FirstCommand("one H100 (80 GB)", _H100, "lightning"),
    FirstCommand("8 × H100", _H100S, "lightning"),
    FirstCommand("8 × H100, NeMo container up to 25.11", _H100S, "nemo"),
    FirstCommand("8 × H100, NeMo container from 26.02 to 26.06", _H100S, "lightning"),
    FirstCommand("8 × H100, Megatron-Bridge from 0.6.0 on", _H100S, "megatron_bridge"),
    FirstCommand("8 × MI300X, ROCm's PyTorch container", _MI300XS, "lightning"),
    FirstCommand("8 × MI300X, Primus' container", _MI300XS, "primus"),
)


def _first_commands_table() -> Iterator[str]:
    heads = (
        "machine",
        "framework",
        "models",
        "scale",
        "precision",
        "sequences × tokens",
        "step",
        "first value",
        "result",
    )
    yield f"| {' | '.join(heads)} |"
    yield "|---|---|---|---|---|---|---:|---:|---:|"
    for row in FIRST_COMMANDS:
        request = row.request()
        step_s, total_s = row.seconds()
        names = ", ".join(frameworks.by_name(row.framework).models)
        cells = (
            *(row.machine, f"`{row.framework}`", names, request.scale, request.precision),
            f"{request.global_batch_size} × {request.sequence_length}",
            *(
                units.seconds(step_s),
                f"{(row.start_s + step_s) / 60:.1f} min",
                f"{total_s / 60:.0f} min",
            ),
        )
        yield f"| {' | '.join(cells)} |"


def _machines_table() -> Iterator[str]:
    heads = (
        "machine",
        "`make run` installs",
        "framework",
        "scale",
        "sequences × tokens",
        "precision",
        "compiled",
    )
    yield f"| {' | '.join((*heads, 'memory', 'notes', 'status'))} |"
    yield f"|{'---|' * len(heads)}---:|---|---:|"
    for row in MACHINES:
        trained = (
            f"`{row.framework}`",
            f"`{row.scale}`",
            f"{row.batch} × {row.tokens}",
            row.precision,
        )
        values = (*trained, "yes" if row.compiled else "no") if row.framework else ("–",) * 5
        memory = "–" if row.memory_gb is None else f"{row.memory_gb:.0f} GB"
        notes = "; ".join(dict.fromkeys(row.notes)) or "–"
        yield f"| {' | '.join((row.name, row.installs, *values, memory, notes, str(row.status)))} |"


def _scales_table() -> Iterator[str]:
    titles = " | ".join(model.title for model in models.trained())
    yield (
        f"| `--scale` | {titles} | difference from the full model"
        f" |\n|---|{'---:|' * len(models.trained())}---|"
    )
    for row in scales.SCALES:
        counts = [
            f"{scales.parameters(model, scales.shape(model, row)) / 1e6:,.0f}"
            for model in models.trained()
        ]
        yield f"| `{row.name}` | {' | '.join(counts)} | {row.loses.replace('nothing', 'none')} |"


_CALCULATED: tuple[str, ...] = (
    "V100 32GB",
    "T4",
    "A100 80GB",
    "RTX 4090",
    "RTX 5090",
    "L40S",
    "H100",
    "H200",
    "B200",
    "GB200",
)
_CALCULATED += ("MI250", "MI300X", "MI325X", "MI355X")


def _calculated_table() -> Iterator[str]:
    yield (
        "| GPU | scale | precision | memory | micro-batch | step | MFU"
        " |\n|---|---|---|---:|---:|---:|---:|"
    )
    for gpu in (each for each in gpus.gpus() if each.short_name in _CALCULATED):
        device = Device(
            "nvd" if gpu.vendor == "NVIDIA" else "amd",
            1,
            1e9 * gpu.memory_gb,
            gpu.architecture,
            gpu.title,
        )
        request, _ = frameworks.by_name("lightning").resolve_config(
            "llama", RequestedConfig(), device, Path("output")
        )
        found = roofline.expected(request, gpu)
        assert found is not None
        batch = f"{found.micro_batch}{', activations computed again' if found.recomputes else ''}"
        memory = f"{found.memory_bytes / 1e9:.0f} of {gpu.memory_gb:.0f} GB"
        time = units.seconds(found.seconds)
        values = (
            gpu.title,
            f"`{request.scale}`",
            request.precision,
            memory,
            batch,
            time,
            f"{found.mfu:.0%}",
        )
        yield f"| {' | '.join(values)} |"


def _presets_table() -> Iterator[str]:
    yield "| name | meaning |\n|---|---|"
    for name, meaning in nemo_defaults.PRESETS.items():
        yield f"| `{name}`{' (default)' if name == nemo_defaults.PERFORMANCE else ''} | {meaning} |"


def _published_table() -> Iterator[str]:
    yield "| GPUs | precision | TP | PP | CP | micro | global (GPUs) | sequence | CUDA graphs |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in nemo_defaults.PUBLISHED:
        cards = ", ".join(row.gpus) + (", for which none is published" if row.note else "")
        cells = (
            cards,
            ", ".join(row.precisions),
            row.tensor,
            row.pipeline,
            row.context,
            row.micro_batch_size,
        )
        graphs = "yes" if row.cuda_graphs else "no"
        batch = f"{row.global_batch_size} ({row.num_gpus})"
        yield f"| {' | '.join(map(str, (*cells, batch, row.sequence_length, graphs)))} |"


def _recipes_table() -> Iterator[str]:
    yield "| model | TP | PP | CP | micro | global | sequence |\n|---|---|---|---|---|---|---|"
    for row in nemo_defaults.RECIPES:
        name = f"{row.model} ({Path(row.source).stem})"
        cells = (
            name,
            row.tensor,
            row.pipeline,
            row.context,
            row.micro_batch_size,
            row.global_batch_size,
        )
        yield f"| {' | '.join(map(str, (*cells, row.sequence_length)))} |"


def _metrics_tables() -> Iterator[str]:
    for title, rows in (("Measured", metrics.METRICS), ("Derived", efficiency.METRICS)):
        yield f"### {title}\n"
        yield "| metric | name | unit | better | formula | source |"
        yield "|---|---|---|---|---|---|"
        for row in rows:
            cells = (
                row.title,
                f"`{row.name}`",
                row.unit,
                row.better or "–",
                row.how,
                row.reference or "–",
            )
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        yield ""
    yield "### FLOPs of the models\n"
    yield "GFLOP per token, forward and backward, at 2048 and 8192 tokens.\n"
    yield "| model | parameters | causal | full attention | source of the shape |"
    yield "|---|---|---|---|---|"
    for model in models.trained():
        figures = [
            " / ".join(
                f"{(flops.flops_per_token(model.shape, length, causal=causal) or 0) / 1e9:.3f}"
                for length in (2048, 8192)
            )
            for causal in (True, False)
        ]
        yield (
            f"| {model.title} | {model.shape.num_parameters:,} | {' | '.join(figures)} |"
            f" <{model.shape.source}> |"
        )
    yield ""
    yield "### Sustained matrix products\n"
    yield "Sustained BF16 matrix products measured on each GPU, next to the peak of its data sheet."
    yield "`tprimat/catalog/gpus.csv` has all peaks, each row with its source.\n"
    yield "| GPU | sustained, TFLOP/s | dense bf16 peak, TFLOP/s |"
    yield "|---|---|---|"
    for gpu in gpus.gpus():
        if gpu.sustained_bf16_tflops:
            yield f"| {gpu.title} | {gpu.sustained_bf16_tflops:g} | {gpu.peak_tflops('bf16'):g} |"
    yield ""


COMMANDS_HEAD = """\
# Commands

Every command is `tprimat NAME` after a `pip install`, and `python3 -m tprimat NAME` in a clone; the scripts at the root
and in `scripts/` call the same. Where `python3` lacks a package, they go on in the clone's `.venv`. This page is
generated from the programs by `python3 docs/generate.py`. `NAME --help --verbose` says
the same; `--version` prints the version.

## Exit status

All commands use the same exit statuses:

| status | meaning |
|---:|---|
{rows}

Where several apply, the first of {order} decides. An error names its section of
[troubleshooting](troubleshooting.md), or the `--help` that lists the options.

## Output options

Every command accepts one of three options:

- `--quiet`: standard output contains only the outcome, such as the headline, or the result paths, one per line.
- `--verbose`: all details.
- `--json`: standard output holds one JSON document; of `watch`, an object a minute and one at the end, a line each.

Errors go to standard error; with `--quiet`, so do warnings about a measurement. After a usage error, standard output is
empty.
"""


class _Captured(BaseException):
    """Carries a command's parser out of it."""


def commands_page() -> str:
    """Return docs/commands.md: every command with its options, from the programs themselves."""
    order = ", ".join(str(int(status)) for status in ExitStatus if status)
    statuses = [f"| {status:d} | {status.meaning} |" for status in sorted(ExitStatus)]
    lines = [COMMANDS_HEAD.format(order=order, rows="\n".join(statuses))]
    for name, text in COMMANDS.items():
        parser = _parser_of(name)
        lines += [f"## {name}\n", f"{text[0].upper()}{text[1:]}.\n"]
        rows = [
            action
            for action in parser._actions
            if not {"--help", "--version"} & {*action.option_strings}
        ]
        rows = [action for action in rows if action.help and action.help != argparse.SUPPRESS]
        if rows:
            lines.append("| argument | meaning |\n|---|---|")
            expand = parser._get_formatter()._expand_help
            lines += [f"| {_argument(action)} | {_of_table(expand(action))} |" for action in rows]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser that a command builds, caught when it would parse."""
    known = argparse.ArgumentParser.parse_args, argparse.ArgumentParser.parse_known_args

    def capture(parser: argparse.ArgumentParser, *arguments: Any, **options: Any) -> Any:
        if not parser.add_help:
            # It only asks which benchmark is meant.
            return known[1](parser, *arguments, **options)
        raise _Captured(parser)

    argparse.ArgumentParser.parse_args = capture  # type: ignore[assignment, method-assign]
    argparse.ArgumentParser.parse_known_args = capture  # type: ignore[assignment, method-assign]
    try:
        cli.run(name, ["--help"])
    except _Captured as caught:
        return caught.args[0]  # type: ignore[no-any-return]
    finally:
        argparse.ArgumentParser.parse_args, argparse.ArgumentParser.parse_known_args = known  # type: ignore[method-assign]
    raise SystemExit(f"the command {name} parses no arguments")


NOTES_TEXT = """# Notes

What is known or doubted about a run, a comparison or a check has a code. In a result, `notes` has the code and its
fields, and `warnings` the sentence; in Python, `run.notes` and `run.warnings`. `--json` of compare has
[codes beside its sentences](report.md#json-and-markdown); a finding has them as `text_code` and `text`, and its
explanations as `explanation_codes` and `explanations`. Scripts compare codes: sentences may be reworded.

| severity | meaning |
|---|---|
| decisive | the results can't be used without knowing it: `!` on the first screen |
| warning | it may change the results |
| info | it explains them |

A field in braces is replaced by its value; text in square brackets appears only if its fields are known. A sentence
that begins with a system's name and a colon has the field `system`. A sentence that has no code of its own has the
code `text`.

| code | severity | sentence | what to do |
|---|---|---|---|
"""


def notes_page() -> str:
    """Return docs/notes.md: every code of a note, from the catalogue."""
    rows = []
    for code, row in sorted(ROWS.items()):
        sentence = re.sub(r"\{(\w+):[^}]*\}", r"{\1}", row.sentence)
        cells = (f"`{code}`", row.severity, sentence, row.next_step)
        rows.append(f"| {' | '.join(map(_of_table, cells))} |\n")
    return NOTES_TEXT + "".join(rows)


def _steps_table() -> Iterator[str]:
    yield "| column | meaning |"
    yield "|---|---|"
    yield from (f"| `{column.name}` | {column.text} |" for column in steps.COLUMNS)


def _argument(action: argparse.Action) -> str:
    if action.choices is not None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    elif isinstance(action.metavar, tuple):
        value = " ".join(action.metavar)
    else:
        value = action.metavar or action.dest.upper()
    takes = "" if action.nargs == 0 else value + (" ..." if action.nargs in ("*", "+") else "")
    names = (
        ", ".join(f"`{each}{f' {takes}' if takes else ''}`" for each in action.option_strings)
        or f"`{takes}`"
    )
    return _of_table(names)


def _of_table(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def contents() -> dict[str, str]:
    """Return the contents of each generated file by its name within docs/."""
    return {
        SCHEMA_NAME: json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
        PAGE_NAME: page(),
        METRICS_NAME: page_with(
            METRICS_NAME, {"metrics": _metrics_tables(), "settings": _settings_table()}
        ),
        FRAMEWORKS_NAME: page_with(
            FRAMEWORKS_NAME,
            {
                "first commands": _first_commands_table(),
                "machines": _machines_table(),
                "frameworks": _frameworks_table(),
                "scales": _scales_table(),
                "calculated": _calculated_table(),
            },
        ),
        NEMO_NAME: page_with(
            NEMO_NAME,
            {
                "presets": _presets_table(),
                "published": _published_table(),
                "recipes": _recipes_table(),
            },
        ),
        PYTHON_NAME: page_with(PYTHON_NAME, {"steps": _steps_table()}),
        COMMANDS_NAME: commands_page(),
        NOTES_NAME: notes_page(),
    }


def main(argv: list[str] | None = None) -> int:
    """Write the files, or with --check list those out of date; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; status 1 when a file is out of date"
    )
    check = parser.parse_args(argv).check
    stale = []
    for name, content in contents().items():
        path = DOCS / name
        if path.is_file() and path.read_text(encoding="utf-8") == content:
            continue
        stale.append(name)
        if not check:
            path.write_text(content, encoding="utf-8", newline="\n")
    for name in stale:
        print(
            f"docs/{name} {'is out of date: run python3 docs/generate.py' if check else 'written'}"
        )
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
