"""The programs whose logs are read by a row, each with a layout of program.py."""

from __future__ import annotations

import re

from tprimat.read.forms import quirks
from tprimat.read.forms.program import Blocks, Entries, Labels, Lines, MicroBatches, program
from tprimat.read.hf_trainer.fields import since_start
from tprimat.read.parsing.run_builder import timer
from tprimat.read.parsing.values import count, statements
from tprimat.results.account import Timing

PROGRAMS = (
    # Its blocks have rolling means, over 100 batches by default. llm-foundry prints them, too.
    program(
        Blocks,
        "composer",
        example="""
            [batch=5/20]:
                     Train loss/train/total: 8.4213
                     Train throughput/device/tokens_per_sec: 1255.1776
            """,
        signs=("Train ", "batch="),
        timing=timer(
            clock="host clock of Composer's SpeedMonitor",
            covers="whole batches without evaluation, a rolling mean of up to 100 of them",
            over_ranks="local rank 0",
        ),
        rate="tokens_per_second_per_gpu",
        header=re.compile(
            r"\[(?:epoch=\d{1,9}(?:/\d{1,9})?\]\[)?batch=(\d[\d,]{0,14})(?:/(\d[\d,]{0,14}))?\]:?"
        ),
        metric=re.compile(r"^\s*(?:\S{1,60}\s+)??Train ([\w./ -]{2,120}?): (\S{1,40})\s*$"),
        headless=True,
        counted="time/batch",
        names={
            "loss/train/total": "loss",
            "metrics/train/LanguageCrossEntropy": "loss",
            "throughput/device/tokens_per_sec": "tokens_per_second_per_gpu",
            "throughput/tokens_per_sec": "tokens_per_second",
            "throughput/samples_per_sec": "samples_per_second",
            "throughput/device/mfu": "mfu",
            "l2_norm/grad/global": "grad_norm",
            "optimizer/global_grad_norm": "grad_norm",
            "time/token": "tokens_seen",
            # Composer's MemoryMonitor divides by 10⁹.
            "memory/peak_allocated_mem": "memory_max_allocated_gb",
            "memory/peak_reserved_mem": "memory_max_reserved_gb",
            "memory/current_allocated_mem": "memory_allocated_gb",
            "time/train": "cumulative_train_hours",
            # These follow from others, or aren't of training.
            "time/batch": "",
            "time/sample": "",
            "time/epoch": "",
            "time/val": "",
            "time/total": "",
            "time/remaining_estimate": "",
            "throughput/device/batches_per_sec": "",
            "throughput/device/samples_per_sec": "",
            "trainer/device_train_microbatch_size": "",
        },
        needs=("loss/train/total", "metrics/train/LanguageCrossEntropy", "throughput/"),
        rates=("throughput/batches_per_sec",),
        caveat="times-of-rolling-mean",
        untimed="batches_per_sec is printed with too few digits",
        completes=quirks.composer_completes,
    ),
    # Its words are tokens of all GPUs; for translation only those of the target language. The loss
    # of most of its criterions is in bits (log base 2). Source: _reduce_and_log_stats() in
    # fairseq/trainer.py and reduce_metrics() in fairseq/tasks/fairseq_task.py of
    # facebookresearch/fairseq.
    program(
        Labels,
        "fairseq",
        example="""
            2023-06-14 09:42:56 | INFO | train_inner | epoch 531:    166 / 282 loss=2.999,
            nll_loss=1.079, ppl=2.11, wps=132780, ups=2.2, wpb=60419.1, bsz=2156.2,
            num_updates=149500, lr=8.17861e-05, gnorm=0.622, train_wall=45, wall=0
            """,
        signs=("| train_inner |", "| valid |"),
        timing=timer(
            clock="host clock of fairseq's meters",
            covers="all between two log entries, a mean over the updates since the last one",
        ),
        names={
            "loss": "loss_bits",
            "nll_loss": "nll_loss_bits",
            "wpb": "tokens_per_step",
            "bsz": "",
            "train_wall": "",
            "wall": "",
        },
    ),
    # Its iterations are micro-batches; “(step)” marks those that end an optimizer step, whose loss
    # is the mean of theirs.
    program(
        MicroBatches,
        "litgpt",
        example="""
            Epoch 1 | iter 2 step 1 | loss train: 1.660, val: n/a | iter time: 548.72 ms (step)
            """,
        signs=("iter time:",),
        other_signs=("Training time:", "Memory used:"),
        timing=timer(
            clock="host clock of litgpt's loop",
            covers=(
                "sum of the iterations (micro-batches) of the step: data, forward, backward, optimizer;"
                " no validation"
            ),
        ),
        header=re.compile(
            r"iter (?P<iteration>\d{1,12}) step (?P<step>\d{1,12}) *\| *loss train:"
            r" (?P<loss>[\d.einfa+-]{1,30}),? *"
            r"val: [\d.einfa/+-]{1,30} *\| *iter time: (?P<milliseconds>[\d.]{1,20}) ms"
            r"(?P<end> \(step\))?"
        ),
        window=1,
        untimed="some iterations are not logged, and a step's time is the sum of its iterations",
        ends=re.compile(r"Training time: [\d.]{1,20}s"),
        # Memory is torch.cuda.max_memory_allocated() / 1e9.
        of_training=re.compile(
            r"Training time: (?P<train_runtime_seconds>[\d.]{1,20})s"
            r"|Memory used: (?P<peak_memory_allocated_gb>[\d.]{1,12}) GB"
        ),
    ),
    # Its step times follow from elapsed_time. throughput is the mean of all GPUs since the start,
    # in tokens without padding; it is only printed with include_num_input_tokens_seen. Source:
    # LogCallback in src/llamafactory/train/callbacks.py of hiyouga/LLaMA-Factory.
    program(
        Entries,
        "llama_factory",
        example="""
            {"current_steps": 10, "total_steps": 120, "loss": 1.99, "lr": 5e-05, "epoch": 0.1,
            "percentage": 8.33, "elapsed_time": "0:00:50", "remaining_time": "0:09:10",
            "throughput": 4021.5, "total_tokens": 201075}
            """,
        signs=('"current_steps"',),
        timing=Timing(
            kind="stamps",
            clock="host clock of LLaMA-Factory's LogCallback, in whole seconds",
            covers="all between two log entries: data loading, evaluation and saving included",
            over_ranks="rank 0",
        ),
        take=quirks.llama_factory_take,
        counter="current_steps",
        planned="total_steps",
        names={
            "loss": "loss",
            "lr": "learning_rate",
            "epoch": "epoch",
            "reward": "reward",
            "accuracy": "accuracy",
            "total_tokens": "tokens_seen",
            "throughput": "mean_tokens_per_second",
            "vram_allocated": "memory_max_allocated_gib",
            "vram_reserved": "memory_max_reserved_gib",
            "current_steps": "",
            "total_steps": "",
            "percentage": "",
            "eval_loss": "",
            "predict_loss": "",
        },
    ),
    # Its throughput is full_model_flops over the time of a step, in TFLOP/s of a device. Source:
    # MFLossMonitor in mindformers/core/callback/callback.py of mindspore/mindformers.
    program(
        Labels,
        "mindformers",
        example="""
            - INFO - { Epoch:[  1/  2], step:[    2/   19], loss: 10.633, per_step_time: 1752ms, lr:
            1e-05, loss_scale: 1.0, global_norm: [1.508834], train_throughput_per_npu: 170.738T
            """,
        signs=("per_step_time:",),
        timing=timer(
            clock="host clock of MindFormers' MFLossMonitor",
            covers="whole steps, a mean over those since the last entry",
        ),
        names={"train_throughput_per_npu": "tflops_per_gpu", "throughput": "tflops_per_gpu"},
        begins_again=True,
    ),
    # Source: mmengine/runner/log_processor.py and mmengine/device/utils.py of open-mmlab/mmengine.
    program(
        Labels,
        "mmengine",
        example="""
            07/03 13:04:19 - mmengine - INFO - Epoch(train)  [1][ 20/196]  lr: 3.3333e-04  eta:
            0:09:39  time: 0.1904  data_time: 0.0327  memory: 970  loss: 2.5746
            07/03 13:04:19 - mmengine - INFO - Iter(train) [ 220/ 900]  lr: 2.1e-05  time: 1.8452
            """,
        signs=("Epoch(train)", "Iter(train)", "Epoch(val)", "Iter(val)"),
        timing=timer(
            clock="host clock of mmengine's IterTimerHook",
            covers="whole iterations, data included, a mean of the last ten by default",
        ),
        # The memory is the peak of the process since the start of the training.
        names={"memory": "memory_max_allocated_mib"},
        begins_again=True,
    ),
    # Megatron-SWIFT calls the step `iteration`; newer versions print `train_speed(s/it)`. It is the
    # mean since the start, from which the elapsed time follows with more digits. Source:
    # swift/trainers/patcher.py, the callback print.py of swift/megatron, and the log in
    # docs/source_en/BestPractices/Metax-support.md of modelscope/ms-swift.
    program(
        Entries,
        "ms_swift",
        example="""
            {"loss": 1.1, "grad_norm": 0.9, "learning_rate": 1e-05, "memory(GiB)": 30.2,
            "train_speed(iter/s)": 0.2012, "epoch": 0.01, "global_step/max_steps": "5/60",
            "percentage": "8.33%", "elapsed_time": "25s", …}
            """,
        signs=('"global_step/max_steps"', '"iteration"'),
        timing=Timing(
            kind="stamps",
            clock="host clock of ms-swift's callback",
            covers="all between two log entries: data loading, evaluation and saving included",
            over_ranks="rank 0",
        ),
        place=quirks.ms_swift_place,
        exactly=staticmethod(since_start),
        names={
            "loss": "loss",
            "grad_norm": "grad_norm",
            "learning_rate": "learning_rate",
            "epoch": "epoch",
            "token_acc": "token_accuracy",
            "acc": "token_accuracy",
            # torch's count divided by 2^30, under both names.
            "memory(GiB)": "memory_max_reserved_gib",
        },
        warns_of_unread=False,
    ),
    # Source: LoggerMixin and pipeline_engine.py of huggingface/nanotron.
    program(
        Labels,
        "nanotron",
        example="""
            10/17/2025 16:32:07 [INFO|DP=0|PP=0|TP=0]: iteration: 214881 / 378950 | consumed_tokens:
            56.3G | elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: 22.9K |
            tokens_per_sec_per_gpu: 11.4K | global_batch_size: 64 | lm_loss: 2.43 | lr: 1e-05 |
            model_tflops_per_gpu: 38.5 | hardware_tflops_per_gpu: 38.5 | grad_norm: 1.16
            """,
        signs=("elapsed_time_per_iteration_ms:",),
        timing=timer(
            clock="host clock of nanotron's trainer behind a barrier",
            covers="whole iterations, data included, without checkpoints",
            over_ranks="all ranks wait for each other",
        ),
        rate="tokens_per_second_per_gpu",
        # They have three digits, so 56.3G stays the same for many steps.
        names={"consumed_tokens": ""},
    ),
    # Source: nemo_rl/algorithms/grpo.py and sft.py of NVIDIA-NeMo/RL.
    program(
        Blocks,
        "nemo_rl",
        example="""
            ========================= Epoch 1/1 =========================
            ========================= Step 1/100 =========================
            📊 Training Results:
              • Loss: 0.0123
            ⏱️  Timing:
              • Total step time: 57.73s
              • generation: 30.25s (52.4%)
            🔍 Performance Metrics:
                - E2E (Tokens/sec/gpu): 1234.5
            """,
        signs=(" Step ", " Epoch ", "• ", "- "),
        other_signs=("has been reached, stopping training early",),
        timing=timer(
            clock="host clock of NeMo RL's controller",
            covers=(
                "the whole step: generation, rewards, log probabilities, weight transfer, training;"
                " validation and checkpoints if any"
            ),
            over_ranks="the controller",
        ),
        header=re.compile(r"= Step (\d{1,12})/(\d{1,12}) =+"),
        metric=re.compile(
            r"[•-] ([\w ./()-]{1,80}?): ((?:[-+\d.eE]{1,40}|nan|inf)[s%]?)(?: \([\d.]+%\))?\s*$"
        ),
        epoch=re.compile(r"= Epoch (\d{1,12})/(\d{1,12}) =+"),
        ends=re.compile("Max number of steps has been reached, stopping training early"),
        names={
            "Total step time": "seconds",
            "Loss": "loss",
            "Avg Reward": "reward",
            "Avg Total Reward": "reward",
            "Generation KL Error": "generation_kl_error",
            "Mean Generation Length": "response_length",
            "E2E (Tokens/sec/gpu)": "tokens_per_second_per_gpu",
            "Total valid tokens": "tokens_per_step",
            "Training Model Floating Point Utilization": "mfu_percent",
        },
        needs=("Total step time",),
        rewards=frozenset(("Avg Reward", "Avg Total Reward", "Generation KL Error")),
        kept=quirks.nemo_rl_kept,
        finishes=quirks.nemo_rl_finishes,
    ),
    # OLMo and OLMo-core.
    program(
        Blocks,
        "olmo",
        example="""
            [2024-04-17 09:42:38] INFO     [olmo.train:816, rank=0] [step=2/739328]
                train/CrossEntropyLoss=10.73
                throughput/device/tokens_per_second=45,538
            """,
        signs=("[step=", "="),
        timing=timer(
            clock="host clock of OLMo's speed monitor",
            covers=(
                "whole batches, data included, a mean of a window of them; the first ones are left out"
            ),
        ),
        rate="tokens_per_second_per_gpu",
        header=re.compile(r"\[step=(\d[\d,]{0,14})(?:/(\d[\d,]{0,14}))?(?:,[^\]]{0,100})?\]"),
        metric=re.compile(r"^\s{1,20}([\w/ ()@.-]{2,100}?)=([-+\d.,eEnaif]{1,40}%?)\s*$"),
        is_indented=True,
        ends=re.compile("Training complete"),
        names={
            "train/CE loss": "loss",
            "train/CrossEntropyLoss": "loss",
            "optim/total grad norm": "grad_norm",
            "optim/total_grad_norm": "grad_norm",
            "optim/LR (group 0)": "learning_rate",
            "optim/learning_rate_group0": "learning_rate",
            "throughput/device/TPS": "tokens_per_second_per_gpu",
            "throughput/device/tokens_per_second": "tokens_per_second_per_gpu",
            "throughput/device/TPS (actual avg)": "cumulative_tokens_per_second_per_gpu",
            "throughput/device/MFU": "mfu_percent",
            "throughput/total tokens": "tokens_seen",
            "throughput/total_tokens": "tokens_seen",
            "System/Peak GPU Memory (MB)": "memory_max_allocated_mb",
            "gpu_memory/peak active (GiB)": "memory_active_gib",
            "gpu_memory/peak reserved (GiB)": "memory_max_reserved_gib",
        },
        needs=("train/", "throughput/"),
        rates=("throughput/device/batches_per_second", "throughput/device/BPS"),
        caveat="times-of-printed-rate",
        untimed="batches per second are printed with too few digits",
        finishes=quirks.olmo_finishes,
    ),
    # Its rates are of the steps since the last entry; samples/s are of all devices. Source:
    # speed_metrics() in paddlenlp/trainer/trainer_utils.py of PaddlePaddle/PaddleNLP.
    program(
        Labels,
        "paddlenlp",
        example="""
            [    INFO] - loss: 12.05887604, learning_rate: 3e-06, global_step: 2,
            interval_runtime: 0.2556, interval_samples_per_second: 3.913,
            interval_tokens_per_second_per_device: 4006.9441, interval_steps_per_second: 3.913
            """,
        signs=("interval_runtime:",),
        timing=timer(
            clock="host clock of PaddleNLP's Trainer",
            covers="all between two log entries: data loading, evaluation and saving included",
        ),
        names={"interval_hardware_tflops_per_device": ""},
    ),
    # The log file of its DiskLogger. Its tokens are those that count in the loss: no padding, and
    # no masked prompt. They are no measure of the work that batch and sequence give.
    program(
        Lines,
        "torchtune",
        example="""
            Step 33 | loss:1.54 lr:9.9e-05 tokens_per_second_per_gpu:101.2 peak_memory_alloc:10.2
            grad_norm:0.8
            """,
        signs=("Step ",),
        timing=Timing(
            clock="host clock of torchtune's recipe",
            covers=(
                "none is printed: rates only, from the end of one logged step to the end of the next"
            ),
            over_ranks="rank 0",
        ),
        header=re.compile(r"\bStep (\d{1,12}) \| ((?:[\w/.-]{1,80}:[^\s:]{1,40}\s*){1,60})"),
        value=re.compile(r"([\w/.-]{1,80}):([^\s:]{1,40})"),
        names={
            "loss": "loss",
            "learning_rate": "learning_rate",
            "lr": "learning_rate",
            "grad_norm": "grad_norm",
            "tokens_per_second_per_gpu": "counted_tokens_per_second_per_gpu",
            "tokens_per_second": "counted_tokens_per_second",
            "iterations_per_second": "steps_per_second",
            "peak_memory_alloc": "memory_max_allocated_gib",
            "peak_memory_active": "memory_active_gib",
            "peak_memory_reserved": "memory_max_reserved_gib",
        },
        needs=("loss", "tokens_per_second"),
        untimed=(
            "torchtune's tokens/s count only tokens in the loss (no padding, no masked prompt), whose"
            " number is not printed"
        ),
    ),
    # For reinforcement learning and fine-tuning. In the former the tokens of a step depend on the
    # lengths of the responses, so they are not batch size × sequence length. Newer versions print
    # no time for fine-tuning. Values of numpy 2 are printed as np.float64(0.5). Source:
    # verl/trainer/ppo/metric_utils.py, verl/trainer/sft_trainer.py and
    # verl/utils/logger/aggregate_logger.py of volcengine/verl, and a console of a PPO training.
    program(
        Lines,
        "verl",
        example="""
            (TaskRunner pid=4455) step:1 - actor/pg_loss:0.011 - actor/lr:1e-06 -
            perf/total_num_tokens:812345 - perf/time_per_step:40.010 - perf/throughput:2538.2 -
            timing_s/gen:20.5 - timing_s/step:40.010 step:1
            step:1 - train/loss:1.21 - train/lr(1e-3):0.01 - train/time(s):3.21
            step:1 - train/loss:1.21 - train/grad_norm:0.5 - train/lr:1e-05 - train/mfu:0.31 -
            train/global_tokens:65536
            """,
        signs=("perf/time_per_step:", "timing_s/step:", "train/time(s):", "train/global_tokens:"),
        timing=timer(
            clock="host clock of verl's trainer",
            covers=(
                "the whole step: generation, rewards, log probabilities and updates, in versions before"
                " mid-2025 also validation and saving; or a batch of fine-tuning"
            ),
            over_ranks="the controller; rank 0 in fine-tuning",
        ),
        header=re.compile(r"\bstep:(\d{1,12}) - (.*)", re.DOTALL),
        value=re.compile(r"(?<!\S)([\w@./()-]{1,120}):(?:np\.\w{1,12}\()?([^\s()]{1,40})"),
        window=1,
        is_whole=True,
        names={
            "perf/time_per_step": "seconds",
            "timing_s/step": "seconds",
            "train/time(s)": "seconds",
            "train/loss": "loss",
            "actor/grad_norm": "grad_norm",
            "train/grad_norm": "grad_norm",
            "actor/lr": "learning_rate",
            "train/lr": "learning_rate",
            "train/mfu": "mfu",
            "train/global_tokens": "tokens_per_step",
            "perf/total_num_tokens": "tokens_per_step",
            "perf/throughput": "tokens_per_second_per_gpu",
            "perf/mfu/actor": "mfu_actor",
            "perf/max_memory_allocated_gb": "memory_max_allocated_gib",
            "perf/max_memory_reserved_gb": "memory_max_reserved_gib",
            "actor/pg_loss": "policy_loss",
            "critic/rewards/mean": "reward",
            "critic/score/mean": "score",
            "response_length/mean": "response_length",
        },
        warns_of_unread=False,
        statements=statements(
            (
                "Training Progress:",
                count,
                1,
                r"\bTraining Progress:.{0,400}?\| \d{1,12}/(?P<max_steps>\d{1,12}) \[",
            )
        ),
        untimed="this fine-tuning prints none; read W&B's run file, if there is one",
        completes=quirks.verl_completes,
        finishes=quirks.verl_finishes,
    ),
    # Each rank prints its own tokens, rate and loss; reduced_llm_loss is the loss over all ranks.
    # Its GB are GiB. Source: _log_step() in xtuner/v1/train/trainer.py of InternLM/xtuner.
    program(
        Labels,
        "xtuner",
        example="""
            [XTuner][RANK 0][2025-09-08 03:04:13][INFO] Step 2/13 data_time: 0.0065 lr: 0.000060
            time: 0.0515 text_tokens: 3964.0 total_loss: 10.779, reduced_llm_loss: 10.779
            max_memory: 7.06 GB reserved_memory: 8.79 GB grad_norm: 9.420 tgs: 76934.8 e2e_tgs: 11936.3
            """,
        signs=(" e2e_tgs: ",),
        timing=timer(
            clock="host clock of XTuner's trainer",
            covers="a step of one rank, without its data",
            over_ranks="the rank that prints first",
        ),
        names={
            "text_tokens": "tokens_per_step_per_gpu",
            "total_loss": "",
            "e2e_tgs": "",
            "max_memory": "memory_max_allocated_gib",
        },
    ),
)
"""In the order of their names."""
