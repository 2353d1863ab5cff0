"""NeMo's own pretraining recipe of a model, with the changes for a measurement.

Runs inside NeMo's environment. What is changed, and why:

    data          random tokens of the model's own vocabulary; NeMo's default would download GPT-2's
    sequence      model.config.seq_length is made that of the data: recipes let them differ
    resume        None: a recipe would otherwise go on from an older training's checkpoint
    checkpoints, loggers, validation     off: they are no part of a step
    model         the very shape of models.py, whatever variant the recipe's version has
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tprimat import console
from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks.loops.recipe import described, shape_of
from tprimat.frameworks.nemo import data, fields
from tprimat.frameworks.nemo import launch as nemo
from tprimat.frameworks.request import TOKENS, Request
from tprimat.results.run import ModelConfig
from tprimat.settings.rows import DIVISION, assign, launched


def build(request: Request) -> Any:
    """Return the recipe that a request means: a nemo_run.Partial of NeMo's pretrain. Raises
    UsageError without one.
    """
    import nemo_run as run
    from nemo.collections import llm

    model = models.by_name(request.model)
    module = getattr(llm, model.nemo_recipe, None)
    if module is None:
        raise UsageError(
            f"this NeMo has no recipe {model.nemo_recipe}: 2.7.3 was the last that had, and without"
            " modelopt NeMo drops them all (pip install -r requirements-nemo.txt)",
            heading="no-framework",
        )
    recipe = module.pretrain_recipe(
        dir=str(request.output_dir / "nemo"),
        name=f"tprimat_{request.model}",
        num_nodes=request.num_nodes,
        num_gpus_per_node=request.gpus_per_node,
    )
    shape = shape_of(request)
    recipe.data = _data(request, shape)
    # The recipe's own activation stays.
    chosen = launched("nemo", described(request, *DIVISION), but=("gated_ffn",))
    assign(recipe, {**chosen, "trainer.max_steps": request.all_steps})
    _model(recipe, request, shape)
    _trainer(recipe, request)
    if request.precision != "bf16":
        from nemo.collections.llm.recipes.precision import mixed_precision

        make = {
            "fp8": mixed_precision.bf16_with_fp8_mixed,
            "mxfp8": mixed_precision.bf16_with_mxfp8_mixed,
        }
        recipe.trainer.plugins = make[request.precision]()
    if request.vendor_settings:
        _tune(recipe, request)
    # Imported only here, since it needs Lightning: errors of a Slurm job are reported on machines
    # that may not have it.
    from tprimat.frameworks.nemo.recording import NemoBenchmark

    # Plain words only: NeMo-Run writes the recipe down, and other processes read it.
    recipe.trainer.callbacks.append(run.Config(NemoBenchmark, arguments=request.to_arguments()))
    for setting in request.settings:
        fields.assign(recipe, setting)
    return recipe


def show(requests: Sequence[Request]) -> None:
    """Print the recipes that NeMo would run, field by field; without NeMo, print a note that it is
    needed.
    """
    if reason := nemo.LAUNCHER.unavailable():
        console.note(f"the recipe can be shown only if NeMo is installed: {reason}")
        return
    for request in requests:
        console.info(f"\nRecipe of {request.model} for NeMo:")
        for line in lines(build(request)):
            console.info(f"  {line}")


def lines(node: Any, path: str = "") -> Iterator[str]:
    """Yield a recipe, or the part at a path in it, as lines, one for each field that is set: path =
    value.
    """
    arguments = getattr(node, "__arguments__", None)
    if arguments is not None:
        kind = node.__fn_or_cls__
        yield f"{path or 'recipe'} = {kind.__module__}.{kind.__qualname__}"
        for name, value in arguments.items():
            yield from lines(value, f"{path}.{name}" if path else name)
    elif isinstance(node, (list, tuple)) and any(hasattr(item, "__arguments__") for item in node):
        for index, value in enumerate(node):
            yield from lines(value, f"{path}.{index}")
    else:
        yield f"{path} = {node!r}"


def _model(recipe: Any, request: Request, shape: ModelConfig) -> None:
    config = recipe.model.config
    base = models.by_name(request.model).settings.get("rope_theta")
    if base is not None and "rotary_base" in fields.fields(config):
        config.rotary_base = base
    if request.model == "mistral" and shape.sliding_window is None:
        # NeMo's Mistral is of the first version, which looked back 4096 tokens; models.py has the
        # third.
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
    if request.data != TOKENS:
        return run.Config(llm.MockDataModule, tokenizer=tokenizer)
    prefix = data.prefix(request)
    own = {
        "paths": [str(prefix)],
        "index_mapping_dir": str(prefix.parent / "index"),
        "seed": request.seed,
    }
    return run.Config(llm.PreTrainingDataModule, tokenizer=tokenizer, split="100,0,0", **own)


def _trainer(recipe: Any, request: Request) -> None:
    recipe.trainer.limit_val_batches = recipe.trainer.limit_test_batches = (
        recipe.trainer.num_sanity_val_steps
    ) = 0
    recipe.trainer.val_check_interval = request.all_steps
    recipe.trainer.enable_checkpointing = False
    recipe.trainer.logger = False
    recipe.log.ckpt = recipe.log.tensorboard = recipe.log.wandb = None
    recipe.resume = None
    if request.pipeline_model_parallel_size > 1:
        import torch

        recipe.trainer.strategy.pipeline_dtype = torch.bfloat16


def _tune(recipe: Any, request: Request) -> None:
    """Set the values that NVIDIA's scripts/performance sets outside of the configuration:
    helpers.py, llm/pretrain_llama3_8b.py.

    Read in NeMo 8cfedd7. Binding each process to its part of the host (numactl) is left out.
    """
    from nemo.collections.llm.recipes.llama3_8b import pretrain_performance_optimizations

    # Overlaps communication, collects Python's garbage at fixed steps, reduces gradients in bf16.
    pretrain_performance_optimizations(recipe)
    recipe.model.config.cross_entropy_fusion_impl = "te"
    recipe.optim.config.use_precision_aware_optimizer = request.precision == "bf16"
    strategy = recipe.trainer.strategy
    strategy.sequence_parallel = request.tensor_model_parallel_size > 1
    strategy.ddp.check_for_nan_in_grad = strategy.ddp.check_for_large_grads = False
    if request.precision == "mxfp8":
        # Its buffers are shared with the gradients, which the overlap doesn't allow.
        recipe.trainer.callbacks[-1].overlap_param_gather = False
