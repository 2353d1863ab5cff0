"""Match a training to a model of the catalog, by its shape and by its name in the log."""

from __future__ import annotations

from tprimat.catalog import models
from tprimat.results.run import ModelConfig


def known_model(config: ModelConfig, name: str | None) -> tuple[str | None, str | None, list[str]]:
    """Return model and scale as a result has them, with what is doubtful of them.

    A shape decides over a name: a model with the name of a large one and four layers is not the
    large one.
    """
    full = models.with_shape(config)
    if full:
        return full.name, "full", []
    meant = models.recognize(name) if name else None
    if meant is None:
        return name, None, [] if name else ["the log doesn't name its model: --model-name says what it was"]
    if config.num_layers is None:
        return meant.name, None, [f"the model's shape isn't stated; {name} is what its configuration was called"]
    return (
        name,
        None,
        [
            f"the configuration is called {name}, but the model trained isn't {meant.title}: "
            f"{_difference(config, meant.shape)}"
        ],
    )


def _difference(config: ModelConfig, full: ModelConfig) -> str:
    fields = ("num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size", "vocab_size")
    pairs = [(field, getattr(config, field), getattr(full, field)) for field in fields]
    return ", ".join(
        f"{field} {known}, not {stated}" for field, known, stated in pairs if known and known != stated
    ) or ("its shape isn't stated whole")
