"""The tokenizer of a training by Primus: what keeps it from being loaded, and what replaces it for
mock data.
"""

from __future__ import annotations

from pathlib import Path

from tprimat.catalog.models import Model
from tprimat.frameworks.primus import torchtitan
from tprimat.frameworks.primus.config import Configuration
from tprimat.frameworks.primus.installation import DEFAULT_PATH, Installation
from tprimat.machine.host import Environ
from tprimat.results.fields import FieldValues

GATED = ("meta-llama/", "mistralai/", "google/gemma")
"""Owners on the Hugging Face hub whose models, tokenizers included, need an accepted license."""


def null_tokenizer(model: Model) -> FieldValues:
    """Return Primus' parameters of a tokenizer that needs no file and has a model's vocabulary."""
    # It adds one token.
    return {"tokenizer_type": "NullTokenizer", "vocab_size": (model.shape.vocab_size or 1) - 1}


def missing_folder(configuration: Configuration, installation: Installation) -> str | None:
    """Return why a tokenizer in a directory can't be loaded; None if it can, or has none."""
    name = _named(configuration, installation)
    if name is None or not _is_path(name) or (installation.path / Path(name).expanduser()).exists():
        return None
    return (
        f"tokenizer {name} not found: give its directory with --"
        f" {configuration.option('tokenizer_model')} DIR"
    )


def unobtainable(
    configuration: Configuration, installation: Installation, environ: Environ
) -> tuple[str, str] | None:
    """Return why a tokenizer can't be fetched from the hub, and what to do; None if it can, or
    isn't needed.
    """
    name = _named(configuration, installation)
    if name is None or _is_path(name):
        return None
    if configuration.framework == torchtitan.NAME:
        # Primus itself asks for the token, whether the tokenizer is cached or not, and for mock
        # data too.
        if environ.get("HF_TOKEN") or (installation.path / name).is_dir():
            return None
        return (
            f"Primus' torchtitan fetches the tokenizer of {name}, and HF_TOKEN is not set",
            (
                "set it, or let the configuration's model.hf_assets_path name a directory with"
                f" {name}'s tokenizer.json"
            ),
        )
    caches = _caches(installation, environ)
    saved = f"hub/models--{name.replace('/', '--')}/snapshots/*/tokenizer*"
    if any(any(cache.glob(saved)) for cache in caches):
        return None
    if environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        return (
            f"the tokenizer {name} is not cached, and HF_HUB_OFFLINE forbids downloading it",
            "unset that once",
        )
    token = environ.get("HF_TOKEN") or environ.get("HUGGING_FACE_HUB_TOKEN")
    if environ.get("HF_TOKEN_PATH"):
        files = [Path(environ["HF_TOKEN_PATH"])]
    else:
        files = [cache / "token" for cache in caches]
    if not name.startswith(GATED) or token or any(file.is_file() for file in files):
        return None
    return (
        f"the tokenizer of {name} is gated, and HF_TOKEN is not set",
        (
            f"accept its license on https://huggingface.co/{name} and set HF_TOKEN, or give one"
            " that you have with -- --tokenizer_model DIR"
        ),
    )


def is_mock(configuration: Configuration) -> bool:
    """Return whether the training's data are made up, for which any tokenizer of the same
    vocabulary does.
    """
    return configuration.settings.value("mock_data") is True


def _named(configuration: Configuration, installation: Installation) -> str | None:
    """Return the tokenizer that Primus would load; None if it loads none."""
    kind, name = map(configuration.settings.value, ("tokenizer_type", "tokenizer_model"))
    if not isinstance(name, str) or not name or "Null" in str(kind):
        return None
    if configuration.framework == torchtitan.NAME or not is_mock(configuration):
        return name
    return None if installation.needs_no_tokenizer() else name


def _is_path(name: str) -> bool:
    return Path(name).expanduser().is_absolute() or name.startswith(("./", "../"))


def _caches(installation: Installation, environ: Environ) -> list[Path]:
    """Return directories that Primus' versions and Hugging Face's library take for HF_HOME."""
    if environ.get("HF_HOME"):
        return [Path(environ["HF_HOME"])]
    data = Path(environ.get("DATA_PATH") or installation.path / "data")
    home = environ.get("HOME")
    own = [Path(home) / ".cache" / "huggingface"] if home else []
    return [DEFAULT_PATH.parent / "hf_cache", data / "huggingface", *own]
