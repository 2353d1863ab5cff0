"""The arguments of a script that recorded itself: which of them make another configuration."""

from __future__ import annotations

import re

from tprimat.results.run import Run
from tprimat.settings.rows import SETTINGS

_STEPS = {"steps", "num_steps", "iters", "epochs", "num_epochs", "num_train_epochs"}
_HARMLESS = _STEPS.union(
    *(f"{row.scripts} {row.hparams} {row.megatron}".split() for row in SETTINGS if row.role == "harmless")
)
_PLACES = re.compile(
    r"(?!.*(?:config|model|lora|optim|attn|attention|kernel))(?:.*_)?(?:name|id|dir|path|folder|file|out|output|log|logs"
    r"|logdir|logging|save|saving|ckpt|checkpoint|resume|tag|tags|note|notes|trial|run|experiment|port|host|addr|rank"
    r"|wandb|tensorboard|mlflow|project|report|date|time|label|seed|o)(?:_.*)?"
)
"""Names with a word that speaks of a place or an occasion: output_dir, run_id; not config_file, lora_rank."""

_KERNEL = "ipykernel_launcher"
"""What a notebook runs in: its arguments are not the script's."""


def variant(run: Run) -> dict[str, str]:
    """Return the arguments of a script that tell its configuration from others, by their names without dashes.

    `train.py --compile --seed 3 optim.lr=1e-3` has {"": "train.py", "compile": "", "optim.lr": "1e-3"}: repetitions
    differ in seeds, steps and places. Empty if a benchmark command measured the run, which knows the settings, or if
    the user named the configuration.
    """
    source = run.source
    if source is None or source.kind != "live" or run.session is not None or run.label is not None:
        return {}
    words = list(source.command)
    # Before the script stand the interpreter and its options.
    start = next((at for at, word in enumerate(words) if word.endswith(".py") or words[at - 1 : at] == ["-m"]), None)
    if start is None or words[start] == _KERNEL:
        return {}
    found = {"": re.split(r"[/\\]", words[start])[-1]}
    name = ""
    for word in words[start + 1 :]:
        is_option = re.match(r"-+[A-Za-z]", word) is not None
        if is_option or re.match(r"[+~]*[A-Za-z_][\w.]*=", word):
            name, _, value = word.lstrip("-+~").partition("=")
            found[name := name.replace("-", "_")] = value
        else:
            found[name] = f"{found[name]} {word}".strip()
    return {name: value for name, value in found.items() if not _is_harmless(name.rpartition(".")[2].lower())}


def _is_harmless(name: str) -> bool:
    return name in _HARMLESS or _PLACES.fullmatch(name) is not None
