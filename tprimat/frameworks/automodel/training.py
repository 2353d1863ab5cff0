"""A training of NeMo Automodel as a program of its own, inside its environment:

    torchrun --standalone --nproc-per-node=8 -m tprimat.frameworks.automodel.training --model=llama
    --scale=full …

Its options are a Request's. Names and fields as in Automodel 36044ad (2026-08-22). Data, FSDP2 and
recomputation are those of NVIDIA's
examples/llm_benchmark/llama3_1/llama3_1_8b_quack_rope_baseline.yaml, fp8 is that of
examples/llm_finetune/llama3_1/llama3_1_8b_hellaswag_fp8.yaml. The loss is that of most of
examples/llm_benchmark: the baseline's needs the package cut_cross_entropy. Automodel chooses the
kernels. All frameworks share the optimizer's settings.
"""

from __future__ import annotations

import sys
from typing import Any

from tprimat.catalog import models
from tprimat.frameworks.loops import processes, recipe
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.frameworks.request import MOCK, Request
from tprimat.record import describe, loop
from tprimat.record.progress import reporter
from tprimat.results.account import Timing
from tprimat.results.fields import FieldValues
from tprimat.results.run import Data, Optimizer, Run
from tprimat.settings.rows import DIVISION, launched

COVERS = (
    "from one end of Automodel's optimizer step to the next, data and its own logging included; the"
    " first from the start of the training loop; without validation and saving, which are off"
)

PRECISION = {
    "bf16": "bf16 weights, gradients and AdamW's states",
    "fp8": (
        "tensorwise dynamic scaling (torchao) but for the output layer; bf16 weights and AdamW's"
        " states"
    ),
}

_TARGET = "_target_"
_PACKAGE = "nemo_automodel.components"


def train(request: Request) -> None:
    """Train in this process, one of request.num_gpus."""
    from nemo_automodel.components.config.loader import ConfigNode
    from nemo_automodel.recipes.llm.train_ft import TrainFinetuneRecipeForNextTokenPrediction

    content = settings(request)
    training = TrainFinetuneRecipeForNextTokenPrediction(ConfigNode(content))
    process = processes.this_one(request.platform)
    training.setup()
    recording = loop.record(
        output_dir=request.output_dir,
        module=training.model_parts[0],
        optimizer=training.optimizer[0],
        device=process.device,
        max_steps=request.steps,
        precision=request.precision,
        precision_detail=PRECISION[request.precision],
        framework=request.framework,
        setup=setup(request, content),
        on_step=reporter(process.rank),
    )
    step = training._run_train_optim_step
    with recording as recorder:
        # Automodel has reduced the losses over all processes.
        recorder.recording.values.is_global = True
        limit = TimeLimit(request.steps, request.time_limit_s, process.world_size, process.any_rank)

        def recorded(batches: Any, max_grad_norm: float | None = None) -> Any:
            done = step(batches, max_grad_norm)
            recorder.step(done.metrics["loss"], grad_norm=done.metrics["grad_norm"])
            recorder.stop_reason = limit.reached(training.step_scheduler.step + 1)
            if recorder.stop_reason is not None:
                # The loop asks this field after each step.
                training.step_scheduler.max_steps = training.step_scheduler.step + 1
            return done

        training._run_train_optim_step = recorded
        training.run_train_validation_loop()


def setup(request: Request, content: FieldValues) -> Run:
    """Return the values that the training itself doesn't show: a Run without records."""
    config = {f"distributed.{name}": value for name, value in content["distributed"].items()}
    config["loss_fn"] = content["loss_fn"][_TARGET].rpartition(".")[2]
    for name, value in content.get("fp8", {}).items():
        if name != "filter_fqns":
            config[f"fp8.{name}"] = value
    return request.to_run(
        model_config=recipe.shape_of(request),
        training_config=request.training_config(recomputation="full"),
        data=Data(kind=MOCK),
        timing=Timing(covers=COVERS),
        optimizer=Optimizer(
            schedule="constant", gradient_clipping=content["clip_grad_norm"]["max_norm"]
        ),
        parallelism_config=describe.undivided(
            "FSDP2", request.num_gpus, request.gradient_accumulation_steps
        ),
        framework_config=config,
    )


def settings(request: Request) -> FieldValues:
    """Return what a YAML file of Automodel would hold for a request."""
    model = models.by_name(request.model)
    shape = recipe.shape_of(request)
    run = recipe.described(request, *DIVISION)
    accumulates = request.gradient_accumulation_steps > 1
    content: FieldValues = {
        "step_scheduler": {
            "num_epochs": 1,
            "ckpt_every_steps": request.steps + 1,
            "gc_every_steps": 10,
        },
        "dist_env": {"backend": "nccl", "timeout_minutes": 10},
        "distributed": {
            "strategy": "fsdp2",
            "sequence_parallel": False,
            "activation_checkpointing": True,
            # Gradients of several micro-batches would else be added up unsharded.
            "defer_fsdp_grad_sync": not accumulates,
        },
        "model": {
            _TARGET: "nemo_automodel.NeMoAutoModelForCausalLM.from_config",
            "config": {
                _TARGET: f"transformers.{model.architecture}",
                **recipe.configuration_fields(model, shape, request.sequence_length),
                "architectures": [model.architecture.replace("Config", "ForCausalLM")],
            },
            "torch_dtype": "bf16",
        },
        "checkpoint": {"enabled": False, "checkpoint_dir": str(request.output_dir / "automodel")},
        "clip_grad_norm": {},
        "loss_fn": {_TARGET: f"{_PACKAGE}.loss.masked_ce.MaskedCrossEntropy"},
        "dataset": {
            _TARGET: f"{_PACKAGE}.datasets.llm.mock_iterable_dataset.MockIterableDataset",
            "num_samples": 1_000_000_000,
        },
        # The data set yields batches already.
        "dataloader": {
            _TARGET: "torch.utils.data.DataLoader",
            "batch_size": None,
            "num_workers": 0,
        },
        "optimizer": {
            _TARGET: "torch.optim.AdamW",
            "betas": [run.optimizer.beta1, run.optimizer.beta2],
            "fused": True,
        },
    }
    for path, value in launched("automodel", run).items():
        part, _, name = path.rpartition(".")
        (content[part] if part else content)[name] = value
    if request.precision == "fp8":
        content["fp8"] = _fp8(sharded=request.num_gpus > 1)
    return content


def _fp8(*, sharded: bool) -> FieldValues:
    """Return the settings of torchao's float8 products; `sharded`: FSDP divides the weights."""
    return {
        "enabled": True,
        "recipe_name": "tensorwise",
        "enable_fsdp_float8_all_gather": sharded,
        "precompute_float8_dynamic_scale_for_fsdp": sharded,
        "force_recompute_fp8_weight_in_bwd": True,
        "filter_fqns": ["lm_head"],
    }


if __name__ == "__main__":
    sys.exit(processes.main(sys.argv[1:], train))
