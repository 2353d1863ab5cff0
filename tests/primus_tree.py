"""A stand-in for an installation of Primus: its paths, its YAML structure, its launchers, and a
trainer that prints lines in its dialects. All figures are made up.

The trainer does what the environment says:

    STANDIN_DIALECT    legacy (a pair for each figure, GB), core (bare first lines, each line twice), v265
    STANDIN_BEHAVIOUR  train, fail (gated tokenizer), crash (out of memory after 4), hang (after 3), kill (-9 after 3),
                       quiet (no iteration lines)
    STANDIN_STEP_S     what a step really takes (0)
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path

EXPERIMENT = """\
work_group: ${{PRIMUS_TEAM:amd}}
user_name: ${{PRIMUS_USER:root}}
exp_name: ${{PRIMUS_EXP_NAME:{name}-pretrain}}
workspace: ${{PRIMUS_WORKSPACE:./output}}

modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml

    # model to run
    model: {name}.yaml
    overrides:
      # log
      stderr_sink_level: {level}
      log_avg_skip_iterations: 2

      train_iters: 50
      micro_batch_size: {micro}
      global_batch_size: {batch}

      seq_length: ${{PRIMUS_SEQ_LENGTH:{length}}}
      max_position_embeddings: {length}

      lr: 1.0e-5
      lr_decay_iters: null

      # parallel
      tensor_model_parallel_size: ${{PRIMUS_TP:1}}
      pipeline_model_parallel_size: 1
      expert_model_parallel_size: 1

      # data
      mock_data: true
      train_data_path: null

      # ckpt
      disable_last_saving: true
"""

MODULE_BASE = (
    "trainable: false\nsink_level: null\nfile_sink_level: DEBUG\nstderr_sink_level: INFO\n"
)
TRAINER_BASE = """\
{inherits}:
  - ../module_base.yaml
micro_batch_size: 2
global_batch_size: 128
seed: 1234
fp16: false
bf16: true
fp8: null
fp8_recipe: delayed
fp4: null
optimizer: adam
lr: 2.5e-4
adam_beta1: 0.9
mock_data: false
disable_last_saving: false
recompute_granularity: null
recompute_method: null
recompute_num_layers: null
"""
PRE_TRAINER = (
    "{inherits}:\n  - trainer_base.yaml\ntrain_iters: 1000\nseq_length: 1024\nlog_interval: 1\n"
)
LANGUAGE_MODEL = """\
num_layers: 24
hidden_size: 1024
vocab_size: null
swiglu: true
group_query_attention: true
untie_embeddings_and_output_weights: true
tensor_model_parallel_size: 1
pipeline_model_parallel_size: 1
context_parallel_size: 1
expert_model_parallel_size: 1
"""
MODELS = {
    "llama3.1_8B": (
        """\
{inherits}:
  - language_model.yaml
tokenizer_type: HuggingFaceTokenizer
tokenizer_model: meta-llama/Llama-3.1-8B
num_layers: 32
hidden_size: 4096
ffn_hidden_size: 14336
num_attention_heads: 32
num_query_groups: 8
"""
    ),
    "qwen2.5_7B": (
        """\
{inherits}:
  - language_model.yaml
tokenizer_type: HuggingFaceTokenizer
tokenizer_model: Qwen/Qwen2.5-7B
num_layers: 28
hidden_size: 3584
ffn_hidden_size: 18944
num_attention_heads: 28
num_query_groups: 4
"""
    ),
    "mistral_7B": (
        """\
{inherits}:
  - language_model.yaml
tokenizer_type: NullTokenizer
vocab_size: 32768
num_layers: 32
hidden_size: 4096
ffn_hidden_size: 14336
num_attention_heads: 32
num_query_groups: 8
"""
    ),
}

TITAN_EXPERIMENT = """\
exp_name: ${PRIMUS_EXP_NAME:llama3.1_8B-pretrain}
modules:
  pre_trainer:
    framework: torchtitan
    config: pre_trainer.yaml
    model: llama3.1_8B.yaml
    overrides:
      stderr_sink_level: INFO
      metrics:
        log_freq: 5
      training:
        local_batch_size: 4
        seq_len: 8192
        mock_data: false
        steps: 50
      activation_checkpoint:
        mode: none
"""
TITAN_PRE_TRAINER = """\
extends:
  - ../module_base.yaml
metrics: {log_freq: 10}
compile: {enable: true}
profiling: {enable_profiling: false}
optimizer: {name: AdamW, lr: 0.0008, beta1: 0.9}
training: {dataset: c4, mock_data: true, global_batch_size: -1, local_batch_size: 8, max_norm: 1.0, seed: null,
           mixed_precision_param: bfloat16, seq_len: 2048, steps: 10000}
parallelism: {tensor_parallel_degree: 1, pipeline_parallel_degree: 1, context_parallel_degree: 1}
activation_checkpoint: {mode: full}
primus_turbo: {enable_primus_turbo: true, use_turbo_attention: true}
"""
TITAN_MODEL = """\
model: {name: llama3, flavor: 8B, hf_assets_path: meta-llama/Llama-3.1-8B, converters: [primus_turbo%s]}
"""

RUN_PRETRAIN = """\
#!/bin/bash
# Stands in for Primus' examples/run_pretrain.sh: what it asks for, what it says, and how it starts the trainer.
export NNODES=${NNODES:-1} NODE_RANK=${NODE_RANK:-0} GPUS_PER_NODE=${GPUS_PER_NODE:-8}
PRIMUS_PATH=$(realpath "$(dirname "$0")/..")
say() { echo "[NODE-$NODE_RANK(standin)] [$1] $2"; }
if [ -z "${EXP:-}" ] || [ ! -f "${EXP}" ]; then say ERROR "The specified EXP file does not exist: ${EXP:-}"; exit 1; fi
say INFO "EXP: $EXP"
say INFO "TRAIN_LOG: $TRAIN_LOG"
CMD="python3 primus/cli/main.py train pretrain --config $EXP $*"
say INFO "Launching distributed training with command: $CMD"
eval "$CMD" 2>&1 | tee "$TRAIN_LOG"
exit_code=${PIPESTATUS[0]}
say INFO "primus launcher exited with code $exit_code"
exit "$exit_code"
"""

CLI = """\
#!/bin/bash
# Stands in for Primus' runner/primus-cli.
set -euo pipefail
[[ $1 == direct ]] || exit 2
shift
exec bash "$(dirname "$(realpath "$0")")/primus-cli-direct.sh" "$@"
"""

CLI_DIRECT = """\
#!/bin/bash
# Stands in for Primus' runner/primus-cli-direct.sh, from v26.4 on.
set -euo pipefail
log=logs/log.txt
while [[ $# -gt 0 ]]; do
    case "$1" in
        --log_file) log=$2; shift 2 ;;
        --) shift; break ;;
        *) echo "[ERROR] [direct] unknown option $1" >&2; exit 2 ;;
    esac
done
mkdir -p "$(dirname "$log")"
CMD=(python3 primus/cli/main.py "$@")
set +e
"${CMD[@]}" 2>&1 | tee "$log"
exit_code=${PIPESTATUS[0]}
echo "[2026-05-08 02:14:02] [NODE-0(standin)] [INFO] [direct] torchrun finished successfully (code $exit_code)"
exit "$exit_code"
"""

TRAINER = '''\
"""Stands in for Primus: prints what a training of it prints. Figures are made up."""
import datetime, json, os, random, re, signal, subprocess, sys, time
words = sys.argv[sys.argv.index("--config") + 1:]
config, words = words[0], words[1:]
text = open(config).read()
shapes = {"llama3.1_8B": (32, 4096, 14336, 32, 8, 128256), "qwen2.5_7B": (28, 3584, 18944, 28, 4, 152064),
          "mistral_7B": (32, 4096, 14336, 32, 8, 32768)}
model = re.search(r"model: (.*)\\.yaml", text)[1]
asked = {}
for name, default in re.findall(r"^      (\\w+): (.*)$", text, re.M):
    held = re.fullmatch(r"\\$\\{(\\w+):(.*)\\}", default)
    asked[name] = os.environ.get(held[1], held[2]) if held else default
rest = list(words)
while rest:
    word = rest.pop(0)
    name, equal, value = word.lstrip("-").partition("=")
    asked[name] = value if equal else rest.pop(0)
with open(os.environ["STANDIN_SEEN"], "a") as file:
    kept = ("EXP", "PRIMUS_EXP_NAME", "EXP_NAME", "TRAIN_LOG", "GPUS_PER_NODE", "NNODES", "NODE_RANK", "HF_TOKEN",
            "NCCL_DEBUG")
    file.write(json.dumps({"argv": words, "cwd": os.getcwd(), **{name: os.environ.get(name) for name in kept}}) + "\\n")
if "framework: torchtitan" in text:
    rate = 8192 * 4 / 1.5
    print("[20260511 02:58:59][rank-0/8][INFO ] Building device mesh with parallelism: pp=1, dp_replicate=1, "
          "dp_shard=8, cp=1, tp=1, ep=1, etp=1")
    print("[20260511 02:58:59][rank-0/8][INFO ] Model llama3 8B size: 8,030,261,248 total parameters")
    print("[20260511 02:59:00][rank-0/8][INFO ] Trainer is initialized with local batch size 4, global batch size 32, "
          "gradient accumulation steps 1, sequence length 8192, total steps 25 (warmup 10)")
    for i in range(1, int(asked["training.steps"]) + 1):
        print(f"\\033[32m[20260511 02:59:{i % 60:02d}]\\033[0m[rank-0/8][INFO ] \\033[31mstep: {i:2d}  \\033[32mloss: "
              f"{11.5 - 0.01 * i:7.4f}  grad_norm: 2.1  memory: 90.10GiB(46.93%)  tps: {rate:,.0f}  tflops: 980.0  "
              f"mfu: 75.0%\\033[39m", flush=True)
    print("[20260511 03:10:00][rank-0/8][INFO ] Training completed", flush=True)
    sys.exit(0)
dialect = os.environ.get("STANDIN_DIALECT", "legacy")
behaviour = os.environ.get("STANDIN_BEHAVIOUR", "train")
world = int(os.environ.get("GPUS_PER_NODE", "8")) * int(os.environ.get("NNODES", "1"))
steps, batch, length = int(asked["train_iters"]), int(asked["global_batch_size"]), int(asked["seq_length"])
layers, hidden, wide, heads, groups, vocabulary = shapes[model]
vocabulary = int(asked.get("vocab_size", vocabulary - 1)) + 1
clock = datetime.datetime(2026, 5, 11, 2, 59, 55)
def say(rank, level, place, words):
    now = clock.strftime("%Y%m%d %H:%M:%S")
    if dialect == "legacy":
        print(f"\\033[32m[{now}][rank-{rank}/{world}][{level:<5}] [{place:->23}] : {words}\\033[0m", flush=True)
    else:
        print(f"\\033[32m[{now}][rank-{rank}/{world}][{level}]    [{place:->23}] : {words}\\033[0m", flush=True)
if behaviour == "fail":
    print("Traceback (most recent call last):")
    print("OSError: You are trying to access a gated repo.")
    print("Cannot access gated repo for url https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/config.json.")
    sys.exit(1)
tensor, pipeline = int(asked["tensor_model_parallel_size"]), int(asked["pipeline_model_parallel_size"])
if int(os.environ.get("NODE_RANK", "0")) == 0:
    say(0, "INFO", "arguments.py:90", f"using world size: {world}, data-parallel size: {world // tensor // pipeline}, "
        f"context-parallel size: 1, tensor-model-parallel size: {tensor}, pipeline-model-parallel size: {pipeline}")
    dump = {"bf16": True, "fp16": False, "fp8": asked.get("fp8", "None"), "micro_batch_size": asked["micro_batch_size"],
            "global_batch_size": batch, "seq_length": length, "train_iters": steps, "num_layers": layers,
            "hidden_size": hidden, "ffn_hidden_size": wide, "num_attention_heads": heads, "num_query_groups": groups,
            "padded_vocab_size": vocabulary, "swiglu": True, "world_size": world, "mock_data": asked["mock_data"],
            "tensor_model_parallel_size": tensor, "pipeline_model_parallel_size": pipeline,
            "context_parallel_size": 1, "expert_model_parallel_size": 1, "recompute_granularity": "None",
            "enable_primus_turbo": True, "use_turbo_attention": False}
    say(0, "DEBUG", "arguments.py:1190", "-" * 12 + " arguments " + "-" * 12)
    for name, value in sorted(dump.items()):
        say(0, "DEBUG", "arguments.py:1198", f"  {name} {'.' * (48 - len(name))} {value}")
    say(0, "DEBUG", "arguments.py:1200", "-" * 9 + " end of arguments " + "-" * 9)
last = world - 1
times = [9000.0, 2100.0] + [1500.0 + 3 * (i % 5) for i in range(steps)]
memory = "hip mem usage/free/total/usage_ratio: 140.50GB/51.48GB/191.98GB/73.18%"
mean, seen = 0.0, 0
quiet = behaviour == "quiet" or asked.get("stderr_sink_level") == "INFO" or int(os.environ.get("NODE_RANK", "0")) < int(
    os.environ.get("NNODES", "1")) - 1
for i in range(1, steps + 1):
    time.sleep(step_s := float(os.environ.get("STANDIN_STEP_S", "0")))
    ms = times[i - 1] + 1e3 * random.random() * step_s  # no two runs are alike, as in life
    clock += datetime.timedelta(milliseconds=ms)
    seen += 1
    mean += (ms - mean) / seen
    rate = batch * length / (ms / 1e3) / world
    common = (f"learning rate: 1.000000E-05 | global batch size: {batch:5d} | lm loss: {11.5 - 0.01 * i:.6E} | "
              f"loss scale: 1.0 | grad norm: 2.{i:03d} | number of skipped iterations:   0 | "
              "number of nan iterations:   0 |")
    start = f"iteration {i:8d}/{steps:8d} | consumed samples: {i * batch:12d} | elapsed time per iteration (ms): "
    inner = f"[{clock:%Y-%m-%d %H:%M:%S.%f}] "
    if dialect == "legacy":
        line = (f" {start}{ms:.1f}/{mean:.1f} | {memory} | throughput per GPU (TFLOP/s/GPU): 411.1/400.0 | "
                f"tokens per GPU (tokens/s/GPU): {rate:.1f}/{rate:.1f} | {common}")
    elif dialect == "core" and i <= 2:
        shown = ms if i == 1 else (times[0] + times[1]) / 2
        line = f"{inner}{start}{shown:.1f} | throughput per GPU (TFLOP/s/GPU): 139.0 | {common} {memory}"
    elif dialect == "core":
        line = (f"{inner}{start}{ms:.1f}/{mean:.1f} | throughput per GPU (TFLOP/s/GPU): 411.1/400.0  | "
                f"tokens per GPU (tokens/s/GPU): {rate:.1f}/{rate:.1f} | {common} {memory}")
    else:
        line = (f"{inner}{start}{ms:.1f}/{mean:.1f} | compute per GPU (TFLOP/s/GPU): 411.1 (avg 400.0)  | "
                f"tokens/s/GPU inst/harmonic mean: {rate:.1f}/{rate:.1f} | {common} {memory}")
    if not quiet:
        for place in ("utils.py:425", "utils.py:429") if dialect == "core" else ("trainer.py:2509",):
            say(last, "INFO " if dialect == "legacy" else "DEBUG", place, line)
    if behaviour == "crash" and i == 4:
        print("[rank3]: torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.", flush=True)
        sys.exit(1)
    if behaviour == "kill" and i == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "hang" and i == 3:
        # As torchrun: its workers are in sessions of their own, and end when it is SIGTERM sent.
        worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        def end(number, frame):
            time.sleep(0.5)
            worker.kill()
            worker.wait()
            sys.exit(128 + number)
        signal.signal(signal.SIGTERM, end)
        with open(os.environ["STANDIN_SEEN"] + ".worker", "w") as file:
            file.write(str(worker.pid))
        time.sleep(600)
say(0, "INFO", "training.py:470", f"[after training is done] datetime: {clock:%Y-%m-%d %H:%M:%S}")
'''


def make(
    root: Path,
    *,
    spelling: str = "BF16",
    folders: tuple[str, ...] = ("MI300X",),
    launchers: tuple[str, ...] = ("run_pretrain.sh",),
    level: str = "DEBUG",
) -> Path:
    """Puts a stand-in into a directory.

    Args:
        root: the directory.
        spelling: BF16 (since December 2025), plain (from October 2025) or flat (before).
        folders: GPUs with configurations; none for flat.
        launchers: run_pretrain.sh, primus-cli.
        level: of the console's log.
    """
    inherits = "bases" if spelling == "flat" else "extends"
    presets = root / "primus" / "configs"
    files = {
        presets / "modules" / "module_base.yaml": MODULE_BASE,
        presets / "modules" / "megatron" / "trainer_base.yaml": TRAINER_BASE.format(
            inherits=inherits
        ),
        presets / "modules" / "megatron" / "pre_trainer.yaml": PRE_TRAINER.format(
            inherits=inherits
        ),
        presets / "models" / "megatron" / "language_model.yaml": LANGUAGE_MODEL,
        root / "primus" / "cli" / "main.py": TRAINER,
        root / "third_party" / "Megatron-LM" / "README.md": "stands in for Megatron-LM\n",
    }
    for name, text in MODELS.items():
        files[presets / "models" / "megatron" / f"{name}.yaml"] = text.format(inherits=inherits)
    configs = root / "examples" / "megatron" / "configs"
    for name, batch, micro, length in (
        ("llama3.1_8B", 128, 2, 8192),
        ("qwen2.5_7B", 640, 10, 2048),
    ):
        text = experiment(name, batch, micro, length, level)
        for folder in [configs] if spelling == "flat" else [configs / each for each in folders]:
            if spelling == "BF16":
                files[folder / f"{name}-BF16-pretrain.yaml"] = text
                files[folder / f"{name}-FP8-pretrain.yaml"] = (
                    text + "\n      # enable fp8 training\n      fp8: hybrid\n"
                )
            else:
                files[folder / f"{name}-pretrain.yaml"] = text
    for name, more in (("llama3.1_8B", ""), ("llama3.1_8B-fp8", ", quantize.linear.float8")):
        files[presets / "models" / "torchtitan" / f"{name}.yaml"] = TITAN_MODEL % more
        kind = "FP8" if more else "BF16"
        text = TITAN_EXPERIMENT.replace("model: llama3.1_8B.yaml", f"model: {name}.yaml")
        files[
            root
            / "examples"
            / "torchtitan"
            / "configs"
            / "MI300X"
            / f"llama3.1_8B-{kind}-pretrain.yaml"
        ] = text
    files[presets / "modules" / "torchtitan" / "pre_trainer.yaml"] = TITAN_PRE_TRAINER
    if "run_pretrain.sh" in launchers:
        files[root / "examples" / "run_pretrain.sh"] = RUN_PRETRAIN
    if "primus-cli" in launchers:
        files[root / "runner" / "primus-cli"] = CLI
        files[root / "runner" / "primus-cli-direct.sh"] = CLI_DIRECT
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def experiment(
    name: str, batch: int = 128, micro: int = 2, length: int = 8192, level: str = "DEBUG"
) -> str:
    """The YAML of an experiment."""
    return EXPERIMENT.format(name=name, batch=batch, micro=micro, length=length, level=level)


def environment(folder: Path, tree: Path, **more: str) -> dict[str, str]:
    """Environment variables for a training by the stand-in; its `python3` is the one that runs the
    tests.
    """
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("python3", "python"):
        program = programs / name
        if not program.exists():
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "PYTHON": sys.executable,
        "HOME": str(folder),
        "PRIMUS_PATH": str(tree),
        "STANDIN_SEEN": str(folder / "seen.jsonl"),
        "HF_TOKEN": "made-up",
        **more,
    }
