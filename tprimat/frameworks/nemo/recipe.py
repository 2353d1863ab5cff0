"""NeMo's own pretraining recipe of a model, with what a measurement takes changed in it.

Runs inside NeMo's environment. What is changed, and why:

    data          random tokens of the model's own vocabulary; NeMo's default would download GPT-2's
    sequence      model.config.seq_length is made that of the data: recipes let them differ
    resume        None: a recipe would otherwise go on from an older training's checkpoint
    checkpoints, loggers, validation     off: they are no part of a step
    model         the very shape of models.py, whatever variant the recipe's version has
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks import scales
from tprimat.frameworks.loops import indexed_tokens
from tprimat.frameworks.loops.tokens import TokenSource
from tprimat.frameworks.nemo import fields
from tprimat.frameworks.request import TOKENS, Request
from tprimat.results.run import ModelConfig

FOLDER = "nemo"
"""Below the output folder: what NeMo itself writes."""

_SHAPE = {
    "num_layers": "num_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "num_query_groups": "num_query_groups",
    "head_dim": "kv_channels",
    "ffn_hidden_size": "ffn_hidden_size",
    "vocab_size": "vocab_size",
    "tie_word_embeddings": "share_embeddings_and_output_weights",
}
"""Our names of sizes, and Megatron's."""


def build(request: Request) -> Any:
    """The recipe that a request means: a nemo_run.Partial of NeMo's pretrain.

    Raises:
        UsageError: this NeMo has no such recipe, or a setting names no field.
    """
    import nemo_run as run
    from nemo.collections import llm

    model = models.by_name(request.model)
    module = getattr(llm, model.nemo_recipe, None)
    if module is None:
        raise UsageError(
            f"this NeMo has no recipe {model.nemo_recipe}: 2.7.3 was the last that had, and without modelopt NeMo "
            "drops them all (pip install -r requirements-nemo.txt)",
            heading="no-framework",
        )
    recipe = module.pretrain_recipe(
        dir=str(request.output_dir / FOLDER),
        name=f"tprimat_{request.model}",
        num_nodes=request.num_nodes,
        num_gpus_per_node=request.num_gpus // request.num_nodes,
    )
    shape = shape_of(request)
    _model(recipe, request, shape)
    recipe.data = _data(request, shape)
    _trainer(recipe, request)
    if request.precision == "fp8":
        from nemo.collections.llm.recipes.precision.mixed_precision import bf16_with_fp8_mixed

        recipe.trainer.plugins = bf16_with_fp8_mixed()
    # Plain words only: NeMo-Run writes the recipe down, and other processes read it.
    from tprimat.frameworks.nemo.recording import NemoBenchmark

    recipe.trainer.callbacks.append(run.Config(NemoBenchmark, arguments=request.to_arguments()))
    for setting in request.settings:
        fields.assign(recipe, setting)
    return recipe


def shape_of(request: Request) -> ModelConfig:
    """The model's shape: of the scale, or the one that was given."""
    if request.shape is not None:
        return request.shape
    return scales.shape(models.by_name(request.model), scales.by_name(request.scale))


def source_of(request: Request) -> TokenSource:
    """Our token source over the model's vocabulary."""
    return TokenSource(shape_of(request).vocab_size or 0, request.seed)


def tokens_prefix(request: Request) -> Path:
    """Where the token file for a request lies, without its two endings."""
    source = source_of(request)
    name = f"markov_v{source.vocab_size}_s{source.seed}_l{request.sequence_length}_n{sequences(request)}"
    return request.output_dir / "data" / name


def sequences(request: Request) -> int:
    """Sequences that a training reads: one more, since each label is the token after."""
    return request.steps * request.global_batch_size + 1


def write_tokens(request: Request) -> Path:
    """Writes the token file of a request, unless it is there; its prefix."""
    prefix = tokens_prefix(request)
    indexed_tokens.write(prefix, source_of(request), sequences(request), request.sequence_length)
    return prefix


def lines(recipe: Any) -> list[str]:
    """The recipe, a line for each field that is set: path = value."""
    found: list[str] = []
    _collect(recipe, "", found)
    return found


def _collect(owner: Any, path: str, found: list[str]) -> None:
    arguments = getattr(owner, "__arguments__", None)
    if arguments is not None:
        made = owner.__fn_or_cls__
        found.append(f"{path or 'recipe'} = {made.__module__}.{made.__qualname__}")
        for name, value in arguments.items():
            _collect(value, f"{path}.{name}" if path else name, found)
    elif isinstance(owner, (list, tuple)) and any(hasattr(each, "__arguments__") for each in owner):
        for place, value in enumerate(owner):
            _collect(value, f"{path}.{place}", found)
    else:
        found.append(f"{path} = {owner!r}")


def _model(recipe: Any, request: Request, shape: ModelConfig) -> None:
    config = recipe.model.config
    known = fields.fields(config)
    for ours, theirs in _SHAPE.items():
        value = getattr(shape, ours)
        if value is not None:
            setattr(config, theirs, value)
    config.seq_length = request.sequence_length
    base = models.by_name(request.model).settings.get("rope_theta")
    if base is not None and "rotary_base" in known:
        config.rotary_base = base
    if request.model == "mistral" and shape.sliding_window is None:
        # NeMo's Mistral is of the first version, which looked back 4096 tokens; models.py has the third.
        config.window_size = None
    if request.cuda_graphs:
        config.enable_cuda_graph = True
        recipe.trainer.strategy.use_te_rng_tracker = True


def _data(request: Request, shape: ModelConfig) -> Any:
    import nemo_run as run
    from nemo.collections import llm
    from nemo.collections.common.tokenizers.null_tokenizer import NullTokenizer

    # It counts one token more than it is given, for the end of a document.
    tokenizer = run.Config(NullTokenizer, vocab_size=(shape.vocab_size or 0) - 1)
    sizes = {
        "seq_length": request.sequence_length,
        "global_batch_size": request.global_batch_size,
        "micro_batch_size": request.micro_batch_size,
    }
    if request.data != TOKENS:
        return run.Config(llm.MockDataModule, tokenizer=tokenizer, **sizes)
    prefix = tokens_prefix(request)
    return run.Config(
        llm.PreTrainingDataModule,
        paths=[str(prefix)],
        split="100,0,0",
        index_mapping_dir=str(prefix.parent / "index"),
        seed=request.seed,
        tokenizer=tokenizer,
        **sizes,
    )


def _trainer(recipe: Any, request: Request) -> None:
    trainer = recipe.trainer
    trainer.max_steps = request.steps
    trainer.limit_val_batches = 0
    trainer.limit_test_batches = 0
    trainer.num_sanity_val_steps = 0
    trainer.val_check_interval = request.steps
    trainer.enable_checkpointing = False
    trainer.logger = False
    recipe.log.ckpt = None
    recipe.log.tensorboard = None
    recipe.log.wandb = None
    recipe.resume = None
    strategy = trainer.strategy
    strategy.tensor_model_parallel_size = request.tensor_model_parallel_size
    strategy.pipeline_model_parallel_size = request.pipeline_model_parallel_size
    strategy.context_parallel_size = request.context_parallel_size
    if request.pipeline_model_parallel_size > 1:
        import torch

        strategy.pipeline_dtype = torch.bfloat16
