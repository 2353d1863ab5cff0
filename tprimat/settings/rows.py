"""The rows of settings, and the fields of a result that are none."""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Mapping
from typing import Any

from tprimat.settings import Column, Kind, Setting

_machine = functools.partial(Setting, role="explains", configured=False, named=False, optional=True)
_division = functools.partial(Setting, essential=True, matched=True)


def _shape(name: str, label: str = "", **more: Any) -> Setting:
    return Setting("", f"model_config.{name}", part="model shape", label=label, **more)


def _optimizer(name: str, label: str, kind: Kind = "number", **more: Any) -> Setting:
    return Setting("", f"optimizer.{name}", part="optimizer", label=label, kind=kind, **more)


# fmt: off
SETTINGS = (
    Setting("framework", "framework framework_config.backend", value="framework", role="harmless",
            why="what is compared", configured=False, identity=True, named=False, flag="--framework NAME",
            help="train with NAME, several, or all (default: first available)"),
    _machine("software stack", "gpu_info.software_stack gpu_info.software_version", value="software_stack",
             within="device", optional=False, phrase="{}"),
    _machine("torch", "gpu_info.pytorch_version", within="device", optional=False, named=True),
    _machine("driver", "environment.versions.driver", within="device"),
    _machine("NCCL", "environment.versions.nccl", within="device"),
    _machine("RCCL", "environment.versions.rccl", within="device"),
    _machine("Transformer Engine", "environment.versions.transformer_engine", within="device"),
    _machine("megatron-core", "environment.versions.megatron-core", within="device"),
    _machine("flash-attn", "environment.versions.flash-attn", within="device"),
    _machine("Triton", "environment.versions.triton environment.versions.pytorch-triton-rocm", within="device"),
    _machine("hipBLASLt", "environment.versions.hipblaslt", within="device"),
    _machine("AOTriton", "environment.versions.aotriton", within="device"),
    Setting("", "gpu_info.device_name", called="gpu", identity=True, kind="name", log_flag="--gpu GPU",
            log_help="the GPU, such as H100 or MI300X"),
    Setting("GPUs", "training_config.num_gpus gpu_info.device_count", value="num_gpus", role="explains", identity=True,
            named=False, flag="--gpus N", help="use N GPUs (default: all), or N processes on a CPU",
            log_flag="--num-gpus N", log_help="the number of GPUs", megatron_log="world_size",
            hparams="num_gpus world_size", deepspeed="world_size", nemo="trainer.devices"),
    Setting("", "model", kind="name", log_flag="--model-name M", log_help="the model"),
    Setting("", "", called="model_shape", kind="file", log_flag="--model-shape FILE",
            log_help="the model's shape: a config.json of transformers, or the fields of model_config as JSON"),
    Setting("scale", "scale", role="forbids", identity=True, named=False, flag="--scale NAME",
            help="set the model size (default: {} on a GPU)"),
    Setting("precision", "training_config.precision training_config.precision_detail", value="precision",
            same="same_precision", role="explains", essential=True, identity=True, matched=True, tuned="{}",
            kind="word", flag="--precision NAME", help="use {} or several ({})", log_flag="--precision P",
            log_help="the precision: {}"),
    Setting("global batch", "training_config.global_batch_size", unit="sequences", essential=True, identity=True,
            named=False, flag="--global-batch-size N", help="set sequences per step, across all GPUs", matched=True,
            log_flag="--global-batch-size B", log_help="sequences per optimizer step", megatron="global_batch_size",
            torchtitan="training.global_batch_size", mlperf="global_batch_size", nemo="data.global_batch_size",
            megatron_bridge="train.global_batch_size", automodel="step_scheduler.global_batch_size",
            hparams="global_batch_size", scripts="global_batch_size train_batch_size global_train_batch_size"),
    Setting("sequence length", "training_config.sequence_length", unit="tokens", role="forbids", essential=True,
            identity=True, named=False, flag="--sequence-length N", help="set tokens per sequence", least=2,
            matched=True, log_flag="--sequence-length S", log_help="tokens per sequence",
            nemo="data.seq_length model.config.seq_length", megatron_bridge="model.seq_length dataset.seq_length",
            automodel="dataset.seq_len", megatron="seq_length", torchtitan="training.seq_len",
            mlperf="max_sequence_length", deepspeed="seq_length",
            hparams="sequence_length max_seq_length seq_length block_size",
            scripts="max_seq_length seq_length block_size max_seq_len sequence_len cutoff_len"),
    Setting("micro-batch", "training_config.micro_batch_size", essential=True, matched=True, tuned="micro{}",
            flag="--micro-batch-size N", help="set sequences per forward pass and GPU", megatron="micro_batch_size",
            torchtitan="training.local_batch_size training.batch_size", nemo="data.micro_batch_size",
            megatron_bridge="train.micro_batch_size", automodel="step_scheduler.local_batch_size dataset.batch_size",
            mlperf="micro_batch_size", deepspeed="batch_size", hparams="micro_batch_size",
            scripts="micro_batch_size per_device_train_batch_size train_micro_batch_size_per_gpu"),
    Setting("gradient accumulation", "parallelism_config.gradient_accumulation_steps",
            mlperf="gradient_accumulation_steps", deepspeed="gas", scripts="gradient_accumulation_steps",
            hparams="gradient_accumulation_steps accumulate_grad_batches"),
    _division("tensor parallel", "parallelism_config.tensor_model_parallel_size", tuned="tp{}",
              flag="--tensor-model-parallel-size --tp N", help="set tensor parallelism (default: from the preset)",
              megatron="tensor_model_parallel_size", mlperf="tensor_parallelism",
              nemo="trainer.strategy.tensor_model_parallel_size", automodel="distributed.tp_size",
              megatron_bridge="model.tensor_model_parallel_size", deepspeed="model_parallel_size",
              hparams="tensor_model_parallel_size",
              torchtitan="parallelism.tensor_parallel_degree training.tensor_parallel_degree"),
    _division("pipeline parallel", "parallelism_config.pipeline_model_parallel_size", tuned="pp{}",
              flag="--pipeline-model-parallel-size --pp N", help="set pipeline parallelism (default: from the preset)",
              megatron="pipeline_model_parallel_size", mlperf="pipeline_parallelism",
              nemo="trainer.strategy.pipeline_model_parallel_size", automodel="distributed.pp_size",
              megatron_bridge="model.pipeline_model_parallel_size", deepspeed="pipe_parallel_size",
              hparams="pipeline_model_parallel_size",
              torchtitan="parallelism.pipeline_parallel_degree experimental.pipeline_parallel_degree"),
    _division("context parallel", "parallelism_config.context_parallel_size", tuned="cp{}",
              flag="--context-parallel-size --cp N", help="set context parallelism (default: from the preset)",
              megatron="context_parallel_size", mlperf="context_parallelism",
              nemo="trainer.strategy.context_parallel_size", automodel="distributed.cp_size",
              megatron_bridge="model.context_parallel_size", hparams="context_parallel_size",
              torchtitan="parallelism.context_parallel_degree experimental.context_parallel_degree"),
    Setting("expert parallel", "parallelism_config.expert_model_parallel_size", megatron="expert_model_parallel_size",
            torchtitan="parallelism.expert_parallel_degree", mlperf="expert_parallelism",
            automodel="distributed.ep_size", hparams="expert_model_parallel_size"),
    Setting("data parallel", "parallelism_config.data_parallel_size", megatron_log="data_parallel_size"),
    Setting("parallelism strategy", "parallelism_config.strategy_name", role="explains", within="framework",
            configured=False, phrase="{}"),
    Setting("activation recomputation", "training_config.recomputation", role="explains", essential=True, matched=True,
            tuned="recompute-{}", phrase="{} recomputation", torchtitan="activation_checkpoint.mode",
            flag="--recomputation", choices=("none", "full"),
            help="recompute activations in the backward pass (built-in frameworks; default: none)"),
    Setting("attention", "framework_config.attention", value="attention", role="explains", optional=True, matched=True,
            tuned="{}-attention", phrase="{} attention", flag="--attention", choices=("sdpa", "eager"),
            help="attention implementation of transformers (built-in frameworks; default: sdpa)"),
    Setting("compiler", "framework_config.torch_compile", requested="eager", value="compiler", role="explains",
            optional=True, tuned="{}", phrase="{}", torchtitan="compile.enable training.compile", flag="--eager",
            help="train in eager PyTorch (default: compiled on a GPU)"),
    Setting("Primus Turbo", "framework_config.enable_primus_turbo framework_config.use_turbo_*", value="turbo",
            role="explains", optional=True),
    Setting("packing", "training_config.packing", role="explains", megatron_log="reset_attention_mask"),
    Setting("trainable parameters", "model_config.trainable_parameters model_config.num_parameters",
            value="trainable_parameters", null="all", role="explains", optional=True, phrase="training {} parameters"),
    Setting("multi-token prediction", "model_config.num_mtp_layers", null="none", role="explains", optional=True,
            megatron_log="mtp_num_layers"),
    Setting("optimizer", "optimizer.name", called="optimizer", same="same_fields", essential=True, kind="name",
            megatron="optimizer", torchtitan="optimizer.name", mlperf="opt_name"),
    _optimizer("learning_rate", "learning rate {}", called="peak_learning_rate", megatron="lr",
               torchtitan="optimizer.lr", automodel="optimizer.lr", mlperf="opt_base_learning_rate",
               scripts="learning_rate", hparams="learning_rate lr"),
    _optimizer("schedule", "{}", "word", megatron="lr_decay_style", scripts="lr_scheduler_type",
               torchtitan="lr_scheduler.decay_type", mlperf="opt_learning_rate_decay_schedule"),
    _optimizer("weight_decay", "weight decay {}", megatron="weight_decay", torchtitan="optimizer.weight_decay",
               automodel="optimizer.weight_decay", mlperf="opt_weight_decay", scripts="weight_decay"),
    _optimizer("gradient_clipping", "clipping {}", megatron="clip_grad", torchtitan="training.max_norm",
               automodel="clip_grad_norm.max_norm", mlperf="opt_gradient_clip_norm", scripts="max_grad_norm"),
    _optimizer("beta1", "beta1 {}", megatron="adam_beta1", torchtitan="optimizer.beta1", mlperf="opt_beta_1"),
    _optimizer("beta2", "beta2 {}", megatron="adam_beta2", torchtitan="optimizer.beta2", mlperf="opt_beta_2"),
    _optimizer("epsilon", "epsilon {}", megatron="adam_eps", torchtitan="optimizer.eps", mlperf="opt_epsilon",
               automodel="optimizer.eps"),
    Setting("model shape", "model_config.num_layers", value="layers", same="same_shape", role="forbids", essential=True,
            phrase="{}", megatron="num_layers", nemo="model.config.num_layers", transformers="num_hidden_layers",
            hparams="num_layers"),
    _shape("hidden_size", "hidden {}", megatron="hidden_size", nemo="model.config.hidden_size",
           transformers="hidden_size", hparams="hidden_size"),
    _shape("num_attention_heads", "heads {}", value="heads", megatron="num_attention_heads",
           nemo="model.config.num_attention_heads", transformers="num_attention_heads", hparams="num_attention_heads"),
    _shape("num_query_groups", megatron="num_query_groups", nemo="model.config.num_query_groups",
           transformers="num_key_value_heads", hparams="num_query_groups"),
    _shape("ffn_hidden_size", "ffn {}", megatron="ffn_hidden_size", nemo="model.config.ffn_hidden_size",
           transformers="intermediate_size", hparams="ffn_hidden_size"),
    _shape("num_encoder_layers"),
    _shape("vocab_size", "vocabulary {}", megatron="vocab_size", nemo="model.config.vocab_size",
           megatron_bridge="tokenizer.vocab_size", automodel="dataset.vocab_size", transformers="vocab_size",
           hparams="vocab_size"),
    _shape("head_dim", "head size {}", value="head_size", megatron="kv_channels", nemo="model.config.kv_channels",
           transformers="head_dim"),
    _shape("gated_ffn", "{}", value="not_gated", nemo="model.config.gated_linear_unit"),
    _shape("num_experts", "experts {}"),
    _shape("experts_per_token", "experts per token {}"),
    _shape("expert_ffn_hidden_size", "expert ffn {}"),
    _shape("shared_expert_ffn_hidden_size", "shared expert ffn {}"),
    _shape("num_dense_layers", "dense layers {}"),
    _shape("expert_latent_size", "expert width {}"),
    _shape("query_lora_rank", "query rank {}"),
    _shape("key_value_lora_rank", "key/value rank {}"),
    _shape("rope_head_dim", "rotary head size {}"),
    _shape("value_head_dim", "value head size {}"),
    _shape("sliding_window", "window {}"),
    _shape("full_attention_layers", "full attention layers {}"),
    _shape("global_head_dim", "their head size {}"),
    _shape("global_query_groups"),
    _shape("attention_output_gate"),
    _shape("layer_pattern", "layers {}"),
    _shape("state_heads", "state heads {}"),
    _shape("state_head_dim", "state head size {}"),
    _shape("state_size", "state size {}"),
    _shape("state_groups", "state groups {}"),
    _machine("FLOPs per token", "model_config.num_layers", called="flops_per_token", value="flops_per_token",
             same="same_flops"),
    Setting("tied embeddings", "model_config.tie_word_embeddings", role="explains", optional=True,
            nemo="model.config.share_embeddings_and_output_weights"),
    Setting("data", "data.kind", called="data", essential=True, role="harmless",
            why="tokens cost what they are, not which; quality is compared only if the data are the same",
            kind="name", torchtitan="training.dataset dataloader.dataset", flag="--data NAME",
            help="use NeMo's mock data, or tokens shared with Primus (default: {})"),
    Setting("", "data.digest", part="data", label="sha256 {}", value="digest"),
    Setting("", "data.seed", called="data_seed", part="data", label="seed {}", phrase="data seed {}"),
    Setting("requested steps", "training_config.max_steps", role="harmless", requested="steps", matched=True,
            why="speed is that of the steady state, however long it is", phrase="run of {} steps", flag="--steps N",
            help="train N steps (default: {}; {} on a CPU)", megatron="train_iters", torchtitan="training.steps",
            mlperf="max_steps", nemo="trainer.max_steps", megatron_bridge="train.train_iters scheduler.lr_decay_iters",
            automodel="step_scheduler.max_steps", deepspeed="train_iters", scripts="max_steps", hparams="max_steps"),
    Setting("seed", "training_config.seed", role="harmless", why="other weights of the same shape cost the same",
            kind="seed", least=0, flag="--seed N", help="seed the weights and the tokens", matched=True,
            megatron="seed", torchtitan="debug.seed training.seed", megatron_bridge="rng.seed dataset.random_seed",
            automodel="seed", scripts="seed", hparams="seed"),
    Setting("step timer scope", "timing.covers", essential=True, named=False),
    Setting("step time across ranks", "timing.over_ranks", named=False),
    Setting("clock", "timing.clock", role="harmless", why="which clock a rate rests on is chosen and said apart",
            named=False),
    _machine("power cap", "energy_metrics.power_cap_watts", value="power_cap", same="same_power_cap"),
    _machine("GPU partition", "environment.gpu_partition"),
    _machine("compute units", "gpu_info.compute_units", within="device", phrase="{} compute units"),
    _machine("host CPU", "environment.cpu", value="host_cpu", within="device", phrase="{}"),
    _machine("CPU threads", "environment.cpu_threads", value="cpu_threads", within="device"),
    _machine("NUMA balancing", "environment.numa_balancing", value="numa_balancing"),
    _machine("environment variables", "environment.settings", called="environment_settings",
             value="environment_settings", within="device", optional=False),
    _machine("MLPerf round", "framework_config.mlperf_round"),
    Setting("submitter", "framework_config.submitter", role="harmless", configured=False, named=False, optional=True,
            why="says whose system it is: what differs in it has rows of its own"),
    Setting("container", "environment.container", role="harmless", configured=False,
            why="what it changes are versions, which are listed"),
    # What is requested and no value of a comparison.
    Setting("", "label", identity=True, flag="--label NAME",
            help="name this configuration; becomes part of the file name"),
    Setting("", "", called="num_nodes", flag="--nodes N", nemo="trainer.num_nodes",
            help="train on N machines together (default: 1); with Slurm several values make a sweep: 1,2,4"),
    Setting("", "", called="time_limit_s", flag="--time-limit TIME",
            help="stop a run after TIME, e.g. 90s, 1h30m (default: {})"),
    Setting("", "", called="preset", flag="--preset NAME",
            help="source of defaults: {} (default: {}, with a smaller global batch)"),
    Setting("", "", called="settings", flag="--set PATH=VALUE", help="set a field of NeMo's recipe; repeatable"),
)
# fmt: on
"""In display order. GPU and label come from the system name.

Every other key of framework_config is a setting of its own, whose title is the key: see
checks.settings.rows_of.
"""

RECIPES = ("nemo", "megatron_bridge", "automodel")
"""Columns with fields of recipes, by their paths."""

LEDGER = tuple(setting for setting in SETTINGS if setting.title)
"""Those with a line of their own in a comparison."""

IDENTITY = tuple(setting for setting in SETTINGS if setting.identity)
"""Those that two measurements of one system agree in, with its GPU and its label."""

NOT_CONFIGURED = frozenset(setting.title for setting in LEDGER if not setting.configured)
"""Titles of machine and software, which are compared, and of values that follow from other
settings.
"""

HARMLESS = {
    "model_config.source": "says where the shape is from",
    "data.entropy": "the lowest possible loss: quality is compared with it, not speed",
    "data.unigram_entropy": "describes the data, as entropy does",
    "framework_config.submission_platform": "MLPerf's free text, by which systems are called",
    "framework_config.norm_epsilon": "a number within a kernel: its value costs no time",
    "framework_config.rotary_base": "a number within a kernel: its value costs no time",
    "framework_config.tokenizer_type": (
        "tokens are made before a step, and the vocabulary is a part of the shape"
    ),
    "framework_config.num_samples": (
        "the length of an epoch of the encoder-decoder, as requested steps are"
    ),
    "timing.kind": "says whether step times rest on a timer, which clocks are chosen by",
    "gpu_info.device_name": "what is compared",
    "gpu_info.total_memory_gb": "follows from the device",
    "gpu_info.gpu_cores": "follows from the compute units",
    "gpu_info.architecture": "follows from the device",
    "gpu_info.clock_mhz": "follows from the device",
    "environment.hostname": "which machine it was",
    "environment.os": "a row of the versions",
    "environment.tprimat_commit": "which TensorPrimat measured",
    "environment.cpu_instructions": (
        "on a CPU; missing BF16 instructions have a caveat of their own"
    ),
    "environment.memory_held_by_others_gb": "other programs on the GPU have a caveat of their own",
    "environment.emulated": "what ran on an emulated device is excluded",
    "environment.nodes": "how many there are is compared by GPUs and by scaling",
    "environment.versions": (
        "a row of the table lists those that differ; what computes or communicates has a row here"
    ),
}
"""Fields of a result that no row reads, with the reason."""


@functools.cache
def parts_of(title: str) -> tuple[Setting, ...]:
    """Return the rows that are shown next to a row's own value."""
    if title:
        return tuple(setting for setting in SETTINGS if setting.part == title)
    return ()


@functools.cache
def fields_of(setting: Setting) -> tuple[str, ...]:
    """Return the fields of a Run that a row reads, with those of its parts."""
    return tuple(" ".join(row.field for row in (setting, *parts_of(setting.title))).split())


@functools.cache
def names(*columns: Column) -> dict[str, str]:
    """Return the names of frameworks' arguments, and what readers call them."""
    return {
        name: setting.key
        for column in columns
        for setting in SETTINGS
        for name in getattr(setting, column).split()
    }


@functools.cache
def by_key(key: str) -> Setting:
    """Return the row that requests and readers call by this key."""
    return next(setting for setting in SETTINGS if setting.key == key)


def launched(column: Column, run: Any, *, but: Collection[str] = ()) -> dict[str, Any]:
    """Return the arguments by which a framework trains what a Run describes: its known values by
    their names.

    `but` are keys of settings that the framework has, but under other values than those of a Run.
    """
    # A recipe has the value in all of its fields; of an option's names the others are of other
    # releases.
    most = None if column in RECIPES else 1
    values: dict[str, Any] = {}
    for row in SETTINGS:
        arguments = getattr(row, column).split()[:most]
        if arguments and row.field and row.key not in but:
            value = row.of(run)
            if value is not None:
                values |= dict.fromkeys(arguments, value)
    return values


def assign(config: Any, values: Mapping[str, Any]) -> None:
    """Set fields of a framework's configuration by their paths, such as model.config.seq_length."""
    for path, value in values.items():
        owner, _, name = path.rpartition(".")
        setattr(operator.attrgetter(owner)(config), name, value)


SHAPE = ("num_layers", *(part.key for part in parts_of("model shape")))
"""Fields of a ModelConfig that make the shape of a model, and with it the FLOPs of a token."""

SIZES = tuple(field for field in names("transformers").values() if field != "head_dim")
"""Those without which a model can't be built."""

NEEDED = tuple(field for field in SIZES if field != "num_query_groups")
"""Those without which the FLOPs of a model are unknown."""

DIVISION = tuple(
    row.request for row in SETTINGS if row.matched and row.field.startswith("parallelism_config.")
)
"""Fields of a request on how a model is divided over GPUs."""
