"""Models from Hugging Face's form into NeMo's and back, by NeMo itself, and checks before."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

from tprimat.catalog import models
from tprimat.errors import UsageError

CLASSES = {
    "llama": ("llama", "LlamaModel", "Llama31Config8B"),
    "qwen": ("qwen2", "Qwen2Model", "Qwen25Config7B"),
    "mistral": ("mistral", "MistralModel", "MistralConfig7B"),
}
"""`model_type` in config.json, and NeMo's model and configuration. Sizes are those of the imported
model.
"""

WITHOUT_TE = "Please install TE"
"""How Megatron's refusals end where Transformer Engine is missing."""

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")

_refusal = functools.partial(UsageError, heading="convert")


def check_target(target: Path, *, overwrite: bool) -> None:
    """Raise UsageError if the target is there and isn't to be replaced."""
    if target.exists() and not overwrite:
        raise _refusal(f"{target} already exists; choose another directory or add --overwrite")


def hugging_face_source(model: str, text: str) -> str:
    """Return the argument of NeMo's importer for a directory or a name on the hub. Raises
    UsageError for others.
    """
    folder = Path(text).expanduser()
    if not folder.is_dir():
        if _HUB_NAME.fullmatch(text) and not text.startswith("."):
            return f"hf://{text}"
        raise _refusal(
            f"{text}: there is no such directory, and a model on the hub is written ORG/NAME"
        )
    try:
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError):
        raise _refusal(
            f"{folder}: has no config.json with a model_type: pass a directory written by"
            " save_pretrained() of transformers"
        ) from None
    if kind != CLASSES[model][0]:
        fits = next((name for name, (own, *_) in CLASSES.items() if own == kind), None)
        other = f"convert_{fits}.py converts that" if fits else f"there are {', '.join(CLASSES)}"
        raise _refusal(
            f"{folder}: contains a model of type {kind}, which isn't {models.title(model)}: {other}"
        )
    return f"hf://{folder.absolute()}"


def nemo_folder(text: str) -> Path:
    """Return a directory with a model as NeMo 2 writes it. Raises UsageError for any other."""
    folder = Path(text).expanduser().absolute()
    if not ((folder / "weights").is_dir() and (folder / "context").is_dir()):
        raise _refusal(
            f"{folder}: is not a NeMo 2 model, which has directories weights and context: pass what"
            " import, or a training's checkpoint, has written"
        )
    return folder


def to_nemo(model: str, source: str, target: Path, *, overwrite: bool) -> None:
    """Import a model from hf://ORG/NAME or hf:///directory. Raises UsageError if it can't be read
    or written.
    """
    from nemo.collections import llm

    kind, config = (getattr(llm, name) for name in CLASSES[model][1:])
    try:
        llm.import_ckpt(
            model=kind(config()), source=source, output_path=target, overwrite=overwrite
        )
    except ValueError as error:
        if WITHOUT_TE not in str(error):
            raise
        raise UsageError(
            f"{str(error).splitlines()[0]}: NeMo needs Transformer Engine, which its container has",
            heading="no-framework",
        ) from error
    except OSError as error:
        raise _refusal(
            f"{source.removeprefix('hf://')}: {_first_line(error)}: a gated model needs an "
            "HF_TOKEN with granted access; offline, pass a local directory with the model"
        ) from error


def to_hugging_face(source: Path, target: Path, *, overwrite: bool) -> None:
    """Export a model of NeMo. Raises UsageError if it can't be read or written."""
    from nemo.collections import llm

    try:
        llm.export_ckpt(path=source, target="hf", output_path=target, overwrite=overwrite)
    except OSError as error:
        raise _refusal(f"{source}: {_first_line(error)}") from error


def _first_line(error: OSError) -> str:
    # What transformers raises has no strerror, and explains itself in a page.
    lines = (error.strerror or str(error) or type(error).__name__).strip().splitlines()
    return lines[0].rstrip(".")
