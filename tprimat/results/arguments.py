"""The arguments of a script that recorded itself: which of them make another configuration."""

from __future__ import annotations

import re

from tprimat.results.run import Run

_HARMLESS = re.compile(
    r"(?:max_|num_|total_)?(?:train_)?(?:steps|iters|epochs)"
    r"|(?!.*(?:config|model|lora|optim|attn|attention|kernel))(?:.*_)?(?:name|id|dir|path|folder|file|out|output|log|logs"
    r"|logdir|logging|save|saving|ckpt|checkpoint|resume|tag|tags|note|notes|trial|run|experiment|port|host|addr|rank"
    r"|wandb|tensorboard|mlflow|project|report|date|time|label|seed|o)(?:_.*)?"
)
"""Options in which repetitions differ: steps, and names with a word for a place, an occasion or a
seed.

output_dir, run_id, data_seed; not config_file, lora_rank.
"""

_KERNEL = "ipykernel_launcher"
"""What a notebook runs in: its arguments are not the script's."""


def variant(run: Run) -> dict[str, str]:
    """Return the arguments of a script that distinguish its configuration, by their names without
    dashes.

    `train.py --fused --seed 3 optim.lr=1e-3` has {"script": "train.py", "fused": "", "optim.lr":
    "1e-3"}. Empty if a benchmark command measured the run, which knows the settings, or if the user
    named the configuration.
    """
    source = run.source
    if source is None or source.kind != "live" or run.session is not None or run.label is not None:
        return {}
    words = list(source.command)
    # Before the script stand the interpreter and its options.
    start = next(
        (
            at
            for at, word in enumerate(words)
            if word.endswith(".py") or words[at - 1 : at] == ["-m"]
        ),
        None,
    )
    if start is None or words[start] == _KERNEL:
        return {}
    name = "script"
    values = {name: re.split(r"[/\\]", words[start])[-1]}
    for word in words[start + 1 :]:
        if re.match(r"-+[A-Za-z]|[+~]*[A-Za-z_][\w.]*=", word):
            name, _, value = word.lstrip("-+~").partition("=")
            values[name := name.replace("-", "_")] = value
        else:
            values[name] = f"{values[name]} {word}".strip()
    return {
        name: value
        for name, value in values.items()
        if not _HARMLESS.fullmatch(name.rpartition(".")[2].lower())
    }
