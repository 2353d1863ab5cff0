"""`primus-config`: what a configuration of Primus really trains, and how that differs from a result."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tprimat import console
from tprimat.catalog import models
from tprimat.cli._arguments import capture_output
from tprimat.cli.options._parser import Parser, add_output_options
from tprimat.errors import ExitStatus, UsageError
from tprimat.frameworks.primus.installation import FILES, PRECISIONS

if TYPE_CHECKING:
    from tprimat.frameworks.primus.plan import Plan
    from tprimat.results.run import Run

DESCRIPTION = """\
Shows the configuration that Primus would train: its file, the presets that this
stands on, the environment and the command line, merged as Primus merges them.
With --against, also how it differs from the setup of a result.
"""

EPILOG = """\
What stands after -- is taken as Primus' command line. Exit status: 0 shown (and the same as the
result), 2 wrong usage or nothing readable, 3 it differs from the result in what decides the speed.
"""

SHOWN = (
    ("global batch size", "global_batch_size"),
    ("micro batch size", "micro_batch_size"),
    ("sequence length", "seq_length"),
    ("steps", "train_iters"),
    ("tensor parallel", "tensor_model_parallel_size"),
    ("pipeline parallel", "pipeline_model_parallel_size"),
    ("context parallel", "context_parallel_size"),
    ("expert parallel", "expert_model_parallel_size"),
    ("bf16", "bf16"),
    ("fp8", "fp8"),
    ("fp8 recipe", "fp8_recipe"),
    ("recomputation", "recompute_granularity"),
    ("recomputed layers", "recompute_num_layers"),
    ("optimizer", "optimizer"),
    ("learning rate", "lr"),
    ("made-up data", "mock_data"),
    ("tokenizer", "tokenizer_model"),
    ("log level", "stderr_sink_level"),
    ("log interval", "log_interval"),
)
"""What a person asks of a configuration, and Primus' parameter."""

_COMPARED = (
    ("model", "model"),
    ("global batch size", "training_config.global_batch_size"),
    ("micro batch size", "training_config.micro_batch_size"),
    ("sequence length", "training_config.sequence_length"),
    ("GPUs", "training_config.num_gpus"),
    ("precision", "training_config.precision"),
    ("recomputation", "training_config.recomputation"),
    ("tensor parallel", "parallelism_config.tensor_model_parallel_size"),
    ("pipeline parallel", "parallelism_config.pipeline_model_parallel_size"),
    ("context parallel", "parallelism_config.context_parallel_size"),
    ("expert parallel", "parallelism_config.expert_model_parallel_size"),
    ("optimizer", "optimizer.name"),
)


def main(argv: Sequence[str]) -> int:
    """Shows a configuration, and sets it against a result.

    Args:
        argv: arguments, without the program's name; those after -- are Primus' command line.
    """
    words = list(argv)
    cut = words.index("--") if "--" in words else len(words)
    options = _parser().parse_args(words[:cut])
    with capture_output(options) as output:
        return output.finish(_shown(options, tuple(words[cut + 1 :])))


def _shown(options: argparse.Namespace, passed: tuple[str, ...]) -> int:
    from tprimat.frameworks.primus import installation as primus_installation
    from tprimat.frameworks.primus.plan import PrimusRequest, plan
    from tprimat.machine import platforms
    from tprimat.store import store

    config = options.config or (Path(os.environ["PRIMUS_CONFIG"]) if os.environ.get("PRIMUS_CONFIG") else None)
    machine = platforms.detect()
    made = plan(
        PrimusRequest(
            model=_model(options, config),
            precision=options.precision,
            gpus=options.gpus,
            config=config,
            passed=passed,
        ),
        primus_installation.from_environment(os.environ, options.primus_path),
        os.environ,
        gpu=primus_installation.gpu_of(machine.gpu_info),
        devices=(machine.gpu_info.device_count or 0) if machine.platform == "amd" else 0,
    )
    _show(made)
    if options.against is None:
        _show_essence(made)
        return ExitStatus.WELL
    different = list(_differences(made.setup(), store.read(options.against)[0]))
    _show_differences(different, options.against)
    return ExitStatus.NOT_COMPARABLE if different else ExitStatus.WELL


def _model(options: argparse.Namespace, config: Path | None) -> str:
    """The model that was named, or that the file at hand is for."""
    if options.model is not None:
        return models.by_name(options.model).name
    if config is None:
        return next(iter(FILES))
    from tprimat.frameworks.primus import config as primus_config
    from tprimat.frameworks.primus import installation as primus_installation

    installation = primus_installation.from_environment(os.environ, options.primus_path)
    content = primus_config.read(config.expanduser().absolute(), installation.path, os.environ)
    found = primus_config.setup(content, None).model
    if found not in models.names():
        raise UsageError(
            f"{config}: is a configuration of {found or 'an unknown model'}, which is none of "
            f"{', '.join(models.names())}",
            heading="primus-config",
        )
    return found


def _show(made: Plan) -> None:
    from tprimat import units
    from tprimat.text import plain

    run = made.setup()
    title = models.title(run.model)
    console.current().values |= {
        "configuration": str(made.configuration.path),
        "model": run.model,
        "precision": made.precision,
        "num_gpus": made.num_gpus,
        "settings": {
            name: {"value": setting.value, "set_by": setting.origin}
            for name, setting in sorted(made.configuration.settings.items())
        },
        "training_config": run.training_config.known(),
        "parallelism_config": run.parallelism_config.known(),
        "arguments": list(made.arguments),
    }
    console.info(f"{plain(str(made.configuration.path))}: {title}, {made.precision}, {made.num_gpus} GPUs")
    rows = [("", "in force", "set by")]
    for label, name in SHOWN:
        setting = made.configuration.settings.get(name)
        if setting is None:
            rows.append((label, units.UNKNOWN, ""))
        else:
            rows.append((label, plain(str(setting.value), 60), plain(setting.origin)))
    replicas = run.parallelism_config.data_parallel_size
    rows.append(("data parallel", str(replicas) if replicas else units.UNKNOWN, "GPUs / all other parallel sizes"))
    accumulation = run.parallelism_config.gradient_accumulation_steps
    rows.append(
        ("accumulation steps", str(accumulation) if accumulation else units.UNKNOWN, "batch / micro / data parallel")
    )
    for line in console.table(rows):
        console.info(f"  {line}")
    named = {name for _, name in SHOWN}
    for name, setting in sorted(made.configuration.settings.items()):
        if name not in named:
            console.debug(f"  {plain(name)}: {plain(setting.value)} ({plain(setting.origin)})")
    console.debug(f"  command line: {plain(shlex.join(made.arguments)) or 'nothing'}")
    for note in made.notes:
        console.note(note)


def _show_essence(made: Plan) -> None:
    """What is in force, where it is stated, without what set it."""
    from tprimat.text import plain

    for label, name in SHOWN:
        setting = made.configuration.settings.get(name)
        if setting is not None and setting.value is not None:
            console.summary(f"{label}: {plain(setting.value)}")


def _differences(ours: Run, theirs: Run) -> Iterator[tuple[str, object, object]]:
    """What differs, or what the result doesn't state."""
    for label, path in _COMPARED:
        one, other = _at(ours, path), _at(theirs, path)
        if path == "training_config.num_gpus":
            other = theirs.num_gpus
        same = one == other
        if path == "optimizer.name" and one is not None and other is not None:
            # Megatron's "adam" is AdamW: its weight decay is decoupled.
            same = {"adam": "adamw"}.get(str(one).lower(), str(one).lower()) == {"adam": "adamw"}.get(
                str(other).lower(), str(other).lower()
            )
        if not same:
            yield label, one, other


def _at(run: Run, path: str) -> object:
    value: object = run
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _show_differences(different: Sequence[tuple[str, object, object]], named: Path) -> None:
    from tprimat.text import plain

    console.current().values |= {
        "against": str(named),
        "differences": [{"name": label, "here": here, "there": there} for label, here, there in different],
    }
    console.info("")
    if not different:
        console.info(f"The same setup as {plain(str(named))}.")
        console.summary(f"The same setup as {plain(str(named))}.")
        return
    console.info(f"Not as in {plain(str(named))}:")
    rows: list[tuple[str, ...]] = [("", "here", "there")]
    rows += [(label, *(_text(value) for value in pair)) for label, *pair in different]
    for line in console.table(rows):
        console.info(f"  {line}")
    for label, here, there in different:
        console.summary(f"{label}: {_text(here)} here, {_text(there)} there")
    console.info(f"To run Primus with that setup: FAIR_CONFIG=1 scripts/run_amd_dual_comparison.sh {plain(str(named))}")


def _text(value: object) -> str:
    from tprimat import units
    from tprimat.text import plain

    return units.UNKNOWN if value is None else plain(str(value))


def _parser() -> argparse.ArgumentParser:
    program = Path(sys.argv[0]).name
    parser = Parser(
        prog=os.environ.get("TPRIMAT_SCRIPT")
        or ("tprimat primus-config" if program in ("tprimat", "__main__.py") else program),
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("config", nargs="?", type=Path, metavar="FILE", help="a configuration (PRIMUS_CONFIG)")
    parser.add_argument(
        "--model", metavar="NAME", help="instead of FILE: Primus' own for this GPU; llama (default) or qwen"
    )
    parser.add_argument(
        "--precision", choices=PRECISIONS, metavar="NAME", help=f"{', '.join(PRECISIONS)} (default: bf16)"
    )
    parser.add_argument("--gpus", type=int, metavar="N", help="GPUs of this machine (GPUS_PER_NODE; default: all)")
    parser.add_argument("--primus-path", type=Path, metavar="DIR", help="folder of Primus (PRIMUS_PATH)")
    parser.add_argument(
        "--against", type=Path, metavar="RESULT", help="say how it differs from the setup of this result"
    )
    add_output_options(
        parser,
        quiet="print what is in force, or with --against what differs, and nothing else",
        verbose="print every parameter in force, and the command line, too",
        json="print one document for a program: every parameter with what set it, differences, notes, exit status",
    )
    return parser
