"""Short logs of our own making, in the form in which frameworks write them: format -> text."""

from __future__ import annotations

import json

STEPS = range(1, 31)


def _lines(*entries: object) -> str:
    return "".join(
        f"{entry if isinstance(entry, str) else json.dumps(entry)}\n" for entry in entries
    )


def _clock(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


LLAMA_FACTORY = _lines(
    *(
        {
            "current_steps": 10 * step, "total_steps": 300, "loss": 2 - step / 100, "lr": 5e-05, "epoch": step / 10,
            "percentage": 3.33 * step, "elapsed_time": _clock(50 * step), "remaining_time": "0:10:00",
            "throughput": 4021.5, "total_tokens": 201075 * step,
        }
        for step in STEPS
    ),
    {"current_steps": 150, "total_steps": 300, "eval_loss": 1.9, "epoch": 1.5, "elapsed_time": "0:13:00"},
)  # fmt: skip

MS_SWIFT = _lines(
    *(
        {
            "loss": 1.1, "grad_norm": 0.9, "learning_rate": 1e-05, "memory(GiB)": 30.0, "train_speed(iter/s)": 0.2,
            "epoch": 0.01, "global_step/max_steps": f"{5 * step}/150", "percentage": "8%",
            "elapsed_time": f"{25 * step // 60}m {25 * step % 60}s", "remaining_time": "4m 2s",
        }
        for step in STEPS
    ),
    {"eval_loss": 1.2, "global_step/max_steps": "150/150", "elapsed_time": "13m 2s"},
)  # fmt: skip

VERL = "".join(
    f"\x1b[36m(TaskRunner pid=4455)\x1b[0m step:{step} - actor/pg_loss:0.01 - actor/grad_norm:0.5 -"
    " actor/lr:1e-06 - perf/mfu/actor:0.31 - perf/max_memory_allocated_gb:40.0 -"
    f" perf/total_num_tokens:812345 - perf/time_per_step:{40 + step / 100:.3f} -"
    f" perf/throughput:{812345 / 8 / (40 + step / 100):.1f} - timing_s/gen:20.5 -"
    f" timing_s/update_actor:10.1 - timing_s/step:{40 + step / 100:.3f}\n"
    for step in STEPS
)

VERL_SFT = "".join(
    f"step:{step} - train/loss:1.2{step:02} - train/lr(1e-3):0.01 - train/time(s):3.2{step:02}\n"
    for step in STEPS
)

VERL_NUMPY = "".join(
    f"(TaskRunner pid=3165) step:{step} - actor/pg_loss:np.float64(-0.0006611689302644663) -"
    " actor/grad_norm:np.float64(3.804414212703705) - actor/lr:np.float64(1e-06) -"
    " perf/max_memory_allocated_gb:np.float64(20.764535427093506) -"
    f" response_length/max:np.int32(256) - timing_s/gen:4.5 - timing_s/step:{50 + step / 100} -"
    f" perf/total_num_tokens:70000 - perf/time_per_step:{50 + step / 100} -"
    f" perf/throughput:{70000 / (50 + step / 100)}\nTraining Progress:  16%|█████▌      |"
    f" {step}/435 [1:10:40<6:31:06, 64.47s/it]\n"
    for step in STEPS
)
"""Values of numpy 2 are printed by their representation."""

VERL_SFT_UNTIMED = "".join(
    f"step:{step} - train/loss:1.2{step:02} - train/grad_norm:0.5 - train/lr:1e-05 - train/mfu:0.31"
    f" - train/global_tokens:65536 - train/total_tokens(B):0.0{step:02}\n"
    for step in STEPS
)

NEMO_RL = "".join(
    f"\n{'=' * 25} Step {step}/30 {'=' * 25}\n▶ Preparing batch...\n\n📊 Training Results:\n  •"
    f" Loss: 0.01{step:02}\n  • Generation KL Error: 0.0012\n  • Avg Reward: 0.5\n  • Mean"
    f" Generation Length: 500.1\n\n⏱️  Timing:\n  • Total step time: 57.{step:02}s\n  • generation:"
    " 30.25s (52.4%)\n  • policy_training: 12.10s (21.0%)\n\n🔍 Performance Metrics:\n    - E2E"
    " (Tokens/sec/gpu): 1234.50\n    - E2E (Tokens/sec): 9876.00\n"
    for step in STEPS
)

NEMO_RL_EPOCHS = (
    "".join(
        f"\n{'=' * 25} Epoch {epoch}/3 {'=' * 25}\n"
        + "".join(
            f"\n{'=' * 25} Step {step}/10 {'=' * 25}\n▶ Taking a training step...\n\n📊 Training"
            f" Results:\n  • Loss: 1.{epoch}{step:02}\n\n⏱️  Timing:\n  • Total step time:"
            f" 5.{epoch}{step:02}s\n  • policy_training: 5.00s (98.0%)\n"
            for step in range(1, 11 if epoch < 3 else 6)
        )
        for epoch in (1, 2, 3)
    )
    + "Max number of steps has been reached, stopping training early\n"
)
"""Fine-tuning of 25 steps: the count begins again with each epoch."""

LLM_C = (
    "| device                | NVIDIA H100 80GB HBM3                              |\n"
    "| precision             | BF16                                               |\n"
    "| num_layers L          | 12                                                 |\n"
    "| channels C            | 768                                                |\n"
    "batch_size B=64 * seq_len T=1024 * num_processes=8 and total_batch_size=524288\n"
    "=> setting grad_accum_steps=1\n"
    + "".join(
        f"step {step:4d}/30 | loss {11 - step / 10:.6f} (+nanz)| norm 15.4190 (-0.12z)| lr 1.00e-06"
        f" | 328.{step:02} ms | 44.6% bf16 MFU | 1593850 tok/s\n"
        for step in STEPS
    )
)

LLM_C_PYTHON = "Running pytorch 2.4.0\n" + "".join(
    f"step {step:4d}/30 | train loss {11 - step / 10:.6f} | norm 14.9999 | lr 1.00e-04 | "
    f"(328.{step:02} ms | 3119 tok/s)\n"
    for step in STEPS
)

LLM_C_FP32 = (
    "| device                | NVIDIA A100-SXM4-40GB                              |\n"
    + "".join(
        f"step {step:4d}/30: train loss {5 - step / 10:.6f} (80.63{step:02}49 ms, 50791 tok/s)\n"
        for step in STEPS
    )
)

LLM_C_CPU = "".join(
    f"step {step}: train loss {5 - step / 10:.6f} (took 1452.1{step:02}000 ms)\n"
    for step in range(30)
)

BUILD_NANOGPT = "".join(
    f"step {step - 1:5d} | loss: {10.9 - step / 10:.6f} | lr 8.3916e-07 | norm: 15.3657 | dt:"
    f" 260.{step:02}ms | tok/sec: 2015663.63\n"
    for step in STEPS
)

WANDB_HISTORY = (
    "_step,_runtime,_timestamp,train/loss,train/learning_rate,train/global_step\n"
    + "".join(
        f"{step - 1},{10 + 1.5 * step},{1.7e9 + 1.5 * step},{2 - step / 100},1e-05,{step}\n"
        for step in STEPS
    )
)

WANDB_CHART = (
    '"Step","h100 - train/step_time","h100 - train/step_time__MIN","h100 -'
    ' train/step_time__MAX","mi300x - train/step_time","mi300x - train/step_time__MIN","mi300x -'
    ' train/step_time__MAX"\n'
    + "".join(f'"{step}","0.52","0.52","0.52","0.62","0.62","0.62"\n' for step in STEPS)
)

UNSLOTH = (
    "==((====))==  Unsloth 2025.3.19: Fast Llama patching. Transformers: 4.50.0.\n"
    "   \\\\   /|    GPU: NVIDIA L4. Num GPUs = 1. Max memory: 22.161 GB. Platform: Linux.\n"
    "==((====))==  Unsloth - 2x faster free finetuning | Num GPUs used = 1\n"
    "   \\\\   /|    Num examples = 51,760 | Num Epochs = 1 | Total steps = 30\n"
    "O^O/ \\_/ \\    Batch size per device = 2 | Gradient accumulation steps = 4\n"
    "\\        /    Data Parallel GPUs = 1 | Total batch size (2 x 4 x 1) = 8\n"
    ' "-____-"     Trainable parameters = 41,943,040/8,000,000,000 (0.52% trained)\n'
    + "".join(
        f"{{'loss': {2 - step / 100:.4f}, 'grad_norm': 0.9, 'learning_rate': 1e-05, 'epoch':"
        f" {step / 6470:.2f}}}\n"
        for step in STEPS
    )
)

UNSLOTH_DATA_PARALLEL = (
    UNSLOTH.replace("GPU: NVIDIA L4. Num GPUs = 1", "NVIDIA L4. Num GPUs = 8")
    .replace(
        "Data Parallel GPUs = 1 | Total batch size (2 x 4 x 1) = 8",
        "Data Parallel GPUs = 8 | Total batch size (2 x 4 x 8) = 64",
    )
    .replace("41,943,040/8,000,000,000", "41,943,040 of 8,072,204,288")
)
"""The newer banner, of one process of eight; each holds the model on one GPU."""

TRL = "".join(
    f"{{'loss': 0.01, 'grad_norm': 0.45, 'learning_rate': 1e-06, 'num_tokens': {12340.0 * step},"
    " 'completions/mean_length': 210.5, 'rewards/accuracy/mean': 0.4, 'reward': 0.4, 'reward_std':"
    f" 0.2, 'kl': 0.001, 'step_time': 12.{step:02}, 'epoch': {step / 30:.4f}}}\n"
    for step in STEPS
)

MS_SWIFT_EXACT = _lines(
    *(
        {
            "loss": 1.1, "grad_norm": 0.9, "learning_rate": 1e-05, "memory(GiB)": 30.0, "epoch": 0.01,
            "global_step/max_steps": f"{5 * step}/150", "percentage": "8%",
            "elapsed_time": f"{int(9.75 * step) // 60}m {int(9.75 * step) % 60}s", "remaining_time": "4m 2s",
            "train_speed(iter/s)": round(5 / 9.75, 6),
        }
        for step in STEPS
    ),
)  # fmt: skip

FAIRSEQ = "".join(
    f"2026-06-14 09:{45 * step // 60:02}:{45 * step % 60:02} | INFO | train_inner | epoch 001: "
    f" {100 * step:5} / 9000 loss=3.{step:03}, nll_loss=1.{step:03}, ppl=2.11,"
    f" wps=132700.0, ups=2.22, wpb=59715.0, bsz=2156.2,"
    f" num_updates={100 * step}, lr=8.17e-05, gnorm=0.6{step:02}, clip=0, loss_scale=32768,"
    f" train_wall={45 * step}, wall={45 * step + 9}\n"
    for step in STEPS
)
"""Words per update over words/s are 0.45 s."""

MINDFORMERS = "".join(
    f"2026-02-03 10:04:{step:02},000 - [mindformers/core/callback/callback.py:529] - INFO - {{"
    f" Epoch:[  {1 + step // 21}/  2], step:[   {1 + (step - 1) % 20:2}/   20], loss:"
    f" {10 - step / 10:.3f}, per_step_time: {990 + step % 4}ms, lr: 1e-05, overflow cond: False,"
    f" loss_scale: 1.0, global_norm: [3.11{step:02}], train_throughput_per_npu: 150.2{step:02}T\n"
    for step in STEPS
)

MMENGINE = "".join(
    f"2026/03/02 09:10:{step:02} - mmengine - INFO - Iter(train) [{10 * step:4}/ 900]  lr: 2.1000e-05"
    f"  eta: 0:20:01  time: 0.10{step:02}  data_time: 0.0192  memory: 15266  loss: 1.2{step:03} "
    f" grad_norm: 0.5{step:03}\n"
    for step in STEPS
)

MMENGINE_EPOCHS = "".join(
    f"07/03 13:04:{step:02} - mmengine - INFO - Epoch(train)  [{1 + (step - 1) // 15}]"
    f"[{10 + 10 * ((step - 1) % 15):3}/150]"
    f"  lr: 3.3333e-04  time: 0.10{step:02}  data_time: 0.0335  memory: 970  loss: 6.1{step:03}\n"
    for step in STEPS
)  # fmt: skip
"""Two epochs of 150 iterations."""

NANOTRON = "".join(
    f"10/17/2026 16:{23 * step // 120:02}:{23 * step // 2 % 60:02} [INFO|DP=0|PP=0|TP=0]: iteration:"
    f" {step} / 900 | consumed_tokens: 2{step:02}K | elapsed_time_per_iteration_ms: 11.5K |"
    f" tokens_per_sec: 22.8K | tokens_per_sec_per_gpu: 11.4K | global_batch_size: 64 | lm_loss:"
    f" 2.{100 + step} | lr: 1e-05 | model_tflops_per_gpu: 38.5 | hardware_tflops_per_gpu: 41.5 |"
    f" grad_norm: 1.1{step:02}\n"
    for step in STEPS
)

PADDLENLP = "".join(
    f"[2026-01-02 11:00:{4 * step // 1000:02},{4 * step % 1000:03}] [    INFO] - loss: 7.9{step:03},"
    f" learning_rate: 1e-07, global_step: {10 * step}, current_memory_allocated: 7.5,"
    f" interval_runtime: 4.0{step:02}, interval_samples_per_second: 9.97{step:02},"
    f" interval_tokens_per_second_per_device: 10209.4{step:02}, interval_hardware_tflops_per_device:"
    f" 30.2, interval_steps_per_second: 2.49{step:02}, progress_or_epoch: 0.1\n"
    for step in STEPS
)
"""Time stamps of lines that a buffer held back; a record is of ten steps."""

XTUNER = "".join(
    f"[XTuner][RANK {rank}][2026-08-29 09:{step // 60 + 17:02}:{step % 60:02}][INFO] Step {step}/100"
    f" data_time: 0.0578 lr: 0.000020 time: 0.98{step:02} text_tokens: 4008.0 total_loss:"
    f" {1.5 + rank / 4:.3f} reduced_llm_loss: 1.6{step:02} max_memory: 15.90 GB reserved_memory:"
    f" 17.87 GB grad_norm: 13.9{step:02} tgs: 4080.{step:02} e2e_tgs: 3900.{step:02}\n"
    for step in STEPS
    for rank in (3, 0)
)
"""Two ranks print each step, each with a loss of its own."""

LOGS = {
    "llama_factory": LLAMA_FACTORY,
    "ms_swift": MS_SWIFT,
    "unsloth": UNSLOTH,
    "verl": VERL,
    "verl, fine-tuning": VERL_SFT,
    "verl, numpy 2": VERL_NUMPY,
    "verl, newer fine-tuning": VERL_SFT_UNTIMED,
    "nemo_rl, epochs": NEMO_RL_EPOCHS,
    "llm.c, python": LLM_C_PYTHON,
    "llm.c, fp32": LLM_C_FP32,
    "llm.c, cpu": LLM_C_CPU,
    "unsloth, data parallel": UNSLOTH_DATA_PARALLEL,
    "trl": TRL,
    "ms_swift, speed": MS_SWIFT_EXACT,
    "nemo_rl": NEMO_RL,
    "llm.c": LLM_C,
    "build-nanogpt": BUILD_NANOGPT,
    "fairseq": FAIRSEQ,
    "mindformers": MINDFORMERS,
    "mmengine": MMENGINE,
    "mmengine, epochs": MMENGINE_EPOCHS,
    "nanotron": NANOTRON,
    "paddlenlp": PADDLENLP,
    "xtuner": XTUNER,
    "wandb, history": WANDB_HISTORY,
    "wandb, chart": WANDB_CHART,
}
