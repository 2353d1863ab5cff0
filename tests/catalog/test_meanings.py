"""What a label or a unit means: the row of the table that decides, and by which words."""

from __future__ import annotations

import pytest

from tprimat.catalog import meanings
from tprimat.catalog.meanings import IGNORED, MEANINGS, UNITS
from tprimat.read.forms.fields import Pieces
from tprimat.read.forms.joining import joined
from tprimat.read.forms.mining import Miner
from tprimat.read.parsing import text

LARGEST_LOG = 3_000_000
"""Bytes of a sample whose form is looked for here; longer ones say nothing more about labels."""

# Labels as programs print them; the kind of the row that decides, and the words that it finds.
LABELS = [
    ("step", "step", "step"),
    ("Step", "step", "step"),
    ("train/step", "step", "step"),
    ("global_step", "step", "global step"),
    ("/global_step", "step", "global step"),
    ("global step", "step", "global step"),
    ("optimizer step", "step", "optimizer step"),
    ("opt_step", "step", "opt step"),
    ("training step", "step", "training step"),
    ("Training Step", "step", "training step"),
    ("Finished training step", "step", "training step"),
    ("completed step", "step", "step"),
    ("train_step", "step", "train step"),
    ("iteration", "step", "iteration"),
    ("Iteration", "step", "iteration"),
    ("iter", "step", "iter"),
    ("Iter", "step", "iter"),
    ("it", "step", "it"),
    ("Iter(train", "step", "iter train"),
    ("num_updates", "step", "num updates"),
    ("update", "step", "update"),
    ("Update", "step", "update"),
    ("batch", "step", "batch"),
    ("Batch", "step", "batch"),
    ("batch idx", "step", "batch idx"),
    ("micro_step", "micro_step", "micro step"),
    ("/micro_step", "micro_step", "micro step"),
    ("micro-batch", "micro_step", "micro batch"),
    ("bar", "step", "bar"),
    ("epoch", "epoch", "epoch"),
    ("Epoch", "epoch", "epoch"),
    ("Epoch(train", "epoch", "epoch"),
    ("Train Epoch", "epoch", "epoch"),
    ("ep", "epoch", "ep"),
    ("progress_or_epoch", "epoch", "epoch"),
    ("ppo_ep", "epoch", "ep"),
    ("epoch time", IGNORED, "epoch time"),
    ("epoch_Time", IGNORED, "epoch time"),
    ("Train epoch time", IGNORED, "epoch time"),
    ("time per epoch", IGNORED, "time per epoch"),
    ("loss", "loss", "loss"),
    ("Loss", "loss", "loss"),
    ("lm loss", "loss", "loss"),
    ("lm_loss", "loss", "loss"),
    ("train loss", "loss", "loss"),
    ("Train loss", "loss", "loss"),
    ("TrainLoss", "loss", "loss"),
    ("train_loss", "loss", "loss"),
    ("train/loss", "loss", "loss"),
    ("train_loss_step", "loss", "train loss step"),
    ("loss train", "loss", "loss train"),
    ("train_loss_total", "loss", "loss total"),
    ("total_loss", "loss", "loss"),
    ("total loss", "loss", "loss"),
    ("loss is", "loss", "loss is"),
    ("loss_value", "loss", "loss value"),
    ("Batch Loss", "loss", "loss"),
    ("nll_loss", "loss", "loss"),
    ("reduced_train_loss", "loss", "loss"),
    ("reduced_llm_loss", "loss", "loss"),
    ("xent", "loss", "xent"),
    ("cross entropy", "loss", "cross entropy"),
    ("completed (loss", "loss", "loss"),
    ("step_loss", "loss", "loss"),
    ("cri_loss", "loss", "loss"),
    ("training loss", "loss", "loss"),
    ("D_loss", "aux_loss", "d loss"),
    ("G_loss", "aux_loss", "g loss"),
    ("Dloss", "aux_loss", "dloss"),
    ("mel loss", "aux_loss", "mel loss"),
    ("loss_ctc", "aux_loss", "loss ctc"),
    ("loss_att", "aux_loss", "loss att"),
    ("LOSS TAGGER", "aux_loss", "loss tagger"),
    ("load_balancing_loss", "aux_loss", "balancing loss"),
    ("z_loss", "aux_loss", "z loss"),
    ("aux loss", "aux_loss", "aux loss"),
    ("kl loss", "aux_loss", "kl loss"),
    ("val loss", "evaluation", "val"),
    ("val_loss", "evaluation", "val"),
    ("Val loss", "evaluation", "val"),
    ("valid_loss", "evaluation", "valid"),
    ("validation loss", "evaluation", "validation"),
    ("eval/loss", "evaluation", "eval"),
    ("Test accuracy", "evaluation", "test"),
    ("Val took", "evaluation", "val"),
    ("test acc", "evaluation", "test"),
    ("avg_loss", "averaged", "avg"),
    ("loss/mean", "averaged", "mean"),
    ("running loss", "averaged", "running"),
    ("average time per step is", "averaged", "average"),
    ("avg step time", "averaged", "avg"),
    ("step_avg", "averaged", "avg"),
    ("RunningAvgSamplesPerSec", "averaged", "running"),
    ("Mean dice", "averaged", "mean"),
    ("smoothed loss", "averaged", "smoothed"),
    ("lr", "learning_rate", "lr"),
    ("LR", "learning_rate", "lr"),
    ("learning rate", "learning_rate", "learning rate"),
    ("learning_rate", "learning_rate", "learning rate"),
    ("Learning Rate", "learning_rate", "learning rate"),
    ("cur_lr", "learning_rate", "lr"),
    ("lr_scale", IGNORED, "scale"),
    ("grad norm", "grad_norm", "grad norm"),
    ("grad_norm", "grad_norm", "grad norm"),
    ("global_norm", "grad_norm", "global norm"),
    ("gnorm", "grad_norm", "gnorm"),
    ("Norm", "grad_norm", "norm"),
    ("norm", "grad_norm", "norm"),
    ("gn", "grad_norm", "gn"),
    ("parameter_norm", IGNORED, "parameter norm"),
    ("params norm", IGNORED, "params"),
    ("weight norm", IGNORED, "weight norm"),
    ("elapsed time per iteration (ms)", "seconds", "time per iteration"),
    ("elapsed_time_per_iteration_ms", "seconds", "time per iteration"),
    ("iter time", "seconds", "iter time"),
    ("iter_time", "seconds", "iter time"),
    ("step_time", "seconds", "step time"),
    ("step time", "seconds", "step time"),
    ("Step Time", "seconds", "step time"),
    ("step-time", "seconds", "step time"),
    ("step cost", "seconds", "step cost"),
    ("per_step_time", "seconds", "step time"),
    ("per step time", "seconds", "step time"),
    ("train_step_timing in s", "seconds", "step timing"),
    ("time", "seconds", "time"),
    ("Time", "seconds", "time"),
    ("time (sec)", "seconds", "time sec"),
    ("Time (ms)", "seconds", "time ms"),
    ("time_ms", "seconds", "time ms"),
    ("dt", "seconds", "dt"),
    ("dt (ms)", "seconds", "dt ms"),
    ("(took", "seconds", "took"),
    ("took", "seconds", "took"),
    ("batch_t", "seconds", "batch t"),
    ("Batch (t", "seconds", "batch t"),
    ("ms/batch", "seconds", "ms/batch"),
    ("s/step", "seconds", "s/step"),
    ("sec/step", "seconds", "sec/step"),
    ("seconds", "seconds", "seconds"),
    ("train_time", "seconds", "train time"),
    ("Training time", "seconds", "training time"),
    ("• Total step time", "seconds", "step time"),
    ("data_time", IGNORED, "data time"),
    ("Data (t", IGNORED, "data t"),
    ("forward_time", IGNORED, "forward time"),
    ("backward_time", IGNORED, "backward time"),
    ("fwd_bwd_time", IGNORED, "fwd bwd time"),
    ("optim_step_time", IGNORED, "optim step time"),
    ("update weights time", IGNORED, "update weights time"),
    ("train_wait_time", IGNORED, "wait time"),
    ("generation time", IGNORED, "generation time"),
    ("compile time", IGNORED, "compile time"),
    ("interval_runtime", "interval_seconds", "interval runtime"),
    ("logging time", IGNORED, "logging time"),
    ("time for last 10 steps", "interval_seconds", "time for last 10 steps"),
    ("elapsed", "elapsed_seconds", "elapsed"),
    ("elapsed_time", "elapsed_seconds", "elapsed"),
    ("wall", "elapsed_seconds", "wall"),
    ("wall time", "elapsed_seconds", "wall time"),
    ("train_wall", "elapsed_seconds", "wall"),
    ("train_runtime", "elapsed_seconds", "runtime"),
    ("total time", "elapsed_seconds", "total time"),
    ("uptime", "elapsed_seconds", "uptime"),
    ("ms/sample", IGNORED, "ms/sample"),
    ("tokens/s", "tokens_per_second", "tokens/s"),
    ("tokens/sec", "tokens_per_second", "tokens/sec"),
    ("Tokens per Sec", "tokens_per_second", "tokens per sec"),
    ("tok/s", "tokens_per_second", "tok/s"),
    ("tok/sec", "tokens_per_second", "tok/sec"),
    ("tps", "tokens_per_second", "tps"),
    ("wps", "tokens_per_second", "wps"),
    ("tokens_per_sec", "tokens_per_second", "tokens per sec"),
    ("tokens_per_second", "tokens_per_second", "tokens per second"),
    ("train_tokens_per_second", "tokens_per_second", "tokens per second"),
    ("actor_train_tok_per_s", meanings.IGNORED, "actor train tok per s"),
    ("token throughput", "tokens_per_second", "token throughput"),
    ("tgs", "tokens_per_second_per_gpu", "tgs"),
    ("tgs (tokens/gpu/second", "tokens_per_second_per_gpu", "tgs"),
    ("tokens per GPU (tokens/s/GPU", "tokens_per_second_per_gpu", "gpu tokens/s"),
    ("Tokens/s/device", "tokens_per_second_per_gpu", "tokens/s/device"),
    ("tokens_per_sec_per_gpu", "tokens_per_second_per_gpu", "tokens per sec per gpu"),
    (
        "interval_tokens_per_second_per_device",
        "tokens_per_second_per_gpu",
        "tokens per second per device",
    ),
    ("tps per gpu", "tokens_per_second_per_gpu", "tps per gpu"),
    ("samples/s", "samples_per_second", "samples/s"),
    ("samples/sec", "samples_per_second", "samples/sec"),
    ("samples per second", "samples_per_second", "samples per second"),
    ("CurrSamplesPerSec", "samples_per_second", "samples per sec"),
    ("interval_samples_per_second", "samples_per_second", "samples per second"),
    ("sps", "samples_per_second", "sps"),
    ("images/sec", "samples_per_second", "images/sec"),
    ("it/s", "steps_per_second", "it/s"),
    ("It/sec", "steps_per_second", "it/sec"),
    ("steps_per_sec", "steps_per_second", "steps per sec"),
    ("interval_steps_per_second", "steps_per_second", "steps per second"),
    ("ups", "steps_per_second", "ups"),
    ("tflops", "tflops_per_gpu", "tflops"),
    ("TFLOPs", "tflops_per_gpu", "tflops"),
    ("TFLOP/s/device", "tflops_per_gpu", "tflop"),
    ("throughput per GPU (TFLOP/s/GPU", "tflops_per_gpu", "tflop"),
    ("model_tflops_per_gpu", "tflops_per_gpu", "tflops"),
    ("hardware_tflops_per_gpu", IGNORED, "hardware tflops"),
    ("mfu", "mfu_percent", "mfu"),
    ("% bf16 MFU", "mfu_percent", "mfu"),
    ("hfu", IGNORED, "hfu"),
    ("consumed samples", "consumed_samples", "consumed samples"),
    ("consumed_samples", "consumed_samples", "consumed samples"),
    ("consumed_tokens", "consumed_tokens", "consumed tokens"),
    ("Trained Tokens", "consumed_tokens", "trained tokens"),
    ("num_input_tokens_seen", "consumed_tokens", "tokens seen"),
    ("tokens seen", "consumed_tokens", "tokens seen"),
    ("tokens per batch", "tokens_per_step", "tokens per batch"),
    ("tokens/step", "tokens_per_step", "tokens/step"),
    ("memory", "memory", "memory"),
    ("Peak mem", "memory", "peak"),
    ("max_memory_reserved", "memory", "memory"),
    ("MemAllocated", "memory", "mem"),
    ("reserved", "memory", "reserved"),
    ("global batch size", "global_batch_size", "global batch size"),
    ("global_batch_size", "global_batch_size", "global batch size"),
    ("gbs", "global_batch_size", "gbs"),
    ("bsz", "global_batch_size", "bsz"),
    ("batch size", IGNORED, "batch size"),
    ("batch_size", IGNORED, "batch size"),
    ("micro_batch_size", IGNORED, "micro batch size"),
    ("mbs", IGNORED, "mbs"),
    ("sequence length", "sequence_length", "sequence length"),
    ("seq_len", "sequence_length", "seq len"),
    ("block size", "sequence_length", "block size"),
    ("num_gpus", "num_gpus", "num gpus"),
    ("world size", "num_gpus", "world size"),
    ("loss scale", IGNORED, "scale"),
    ("loss_scale", IGNORED, "scale"),
    ("number of skipped iterations", IGNORED, "skipped"),
    ("skipped", IGNORED, "skipped"),
    ("number of nan iterations", IGNORED, "nan iterations"),
    ("eta", IGNORED, "eta"),
    ("ETA", IGNORED, "eta"),
    ("remaining", IGNORED, "remaining"),
    ("weight_decay", IGNORED, "weight decay"),
    ("wd", IGNORED, "wd"),
    ("seed", IGNORED, "seed"),
    ("ppl", IGNORED, "ppl"),
    ("perplexity", IGNORED, "perplexity"),
    ("acc", IGNORED, "acc"),
    ("accuracy", IGNORED, "accuracy"),
    ("train_acc", IGNORED, "acc"),
    ("bpc", IGNORED, "bpc"),
    ("kl", IGNORED, "kl"),
    ("reward", IGNORED, "reward"),
    ("pid", IGNORED, "pid"),
    ("(MegatronTrainRayActor pid", IGNORED, "pid"),
    ("adam_beta2", IGNORED, "beta2"),
    ("clip", IGNORED, "clip"),
    ("total steps", IGNORED, "total steps"),
    ("total_steps", IGNORED, "total steps"),
    ("max_steps", IGNORED, "max steps"),
    ("num updates", "step", "num updates"),
    ("total epochs", IGNORED, "total epochs"),
    ("max updates", IGNORED, "max updates"),
    ("dropout", IGNORED, "dropout"),
    ("warmup steps", IGNORED, "warmup"),
    ("best loss", IGNORED, "best"),
    ("rank", None, ""),
    ("fps", None, ""),
    ("Speed", None, ""),
    ("throughput", None, ""),
    ("dtf", None, ""),
    ("train.py", None, ""),
    ("mtps", "tokens_per_second", "mtps"),
    ("mom", None, ""),
    ("number of", None, ""),
    ("length", None, ""),
    ("episode", None, ""),
    ("wpb", None, ""),
    ("GB used", None, ""),
    ("DP", None, ""),
    ("samples/s/GPU", "samples_per_second_per_gpu", "samples/s/gpu"),
    ("samples_per_second_per_gpu", "samples_per_second_per_gpu", "samples per second per gpu"),
    ("images/sec/GPU", "samples_per_second_per_gpu", "images/sec/gpu"),
]

# Labels of the line that says most of a sample's form, by directory; those without any meaning are
# named where they might be taken for one.
SAMPLES = {
    "axolotl": {
        "loss": "loss",
        "grad_norm": "grad_norm",
        "learning_rate": "learning_rate",
        "ppl": IGNORED,
        "epoch": "epoch",
    },
    "deepspeed": {
        "iteration": "step",
        "consumed samples": "consumed_samples",
        "elapsed time per iteration (ms)": "seconds",
        "learning rate": "learning_rate",
        "global batch size": "global_batch_size",
        "lm-loss": "loss",
        "loss scale": IGNORED,
        "grad norm": "grad_norm",
        "num zeros": None,
        "number of skipped iterations": IGNORED,
        "number of nan iterations": IGNORED,
        "step": "step",
        "skipped": IGNORED,
        "lr": "learning_rate",
        "timer.py": None,
        "epoch": "epoch",
        "/micro_step": "micro_step",
        "/global_step": "step",
        "RunningAvgSamplesPerSec": "averaged",
        "CurrSamplesPerSec": "samples_per_second",
        "MemAllocated": "memory",
        "MaxMemAllocated": "memory",
    },
    "hf_trainer": {
        "loss": "loss",
        "grad_norm": "grad_norm",
        "learning_rate": "learning_rate",
        "epoch": "epoch",
        "train_runtime": "elapsed_seconds",
        "train_samples_per_second": "samples_per_second",
        "train_steps_per_second": "steps_per_second",
    },
    "litgpt": {
        "Epoch": "epoch",
        "iter": "step",
        "step": "step",
        "loss train": "loss",
        "iter time": "seconds",
    },
    "maxtext": {
        "I": "step",
        "completed step": "step",
        "seconds": "seconds",
        "TFLOP/s/device": "tflops_per_gpu",
        "Tokens/s/device": "tokens_per_second_per_gpu",
        "total_weights": None,
        "loss": "loss",
        "lm_loss": "loss",
        "perplexity": IGNORED,
        "reward_accuracy": IGNORED,
    },
    "megatron": {
        "iteration": "step",
        "consumed samples": "consumed_samples",
        "elapsed time per iteration (ms)": "seconds",
        "learning rate": "learning_rate",
        "global batch size": "global_batch_size",
        "loss scale": IGNORED,
        "number of skipped iterations": IGNORED,
        "number of nan iterations": IGNORED,
        "lm loss": "loss",
        "grad norm": "grad_norm",
    },
    "megatron_bridge": {
        "Step Time": "seconds",
        "GPU utilization": "tflops_per_gpu",
    },
    "nanogpt": {
        "step": "step",
        "val_loss": "evaluation",
        "train_time": "seconds",
        "step_avg": "averaged",
    },
    "nemo": {
        "pid": IGNORED,
        "Training epoch": "epoch",
        "iteration": "step",
        "lr": "learning_rate",
        "global_batch_size": "global_batch_size",
        "global_step": "step",
        "reduced_train_loss": "loss",
        "train_step_timing in s": "seconds",
        "consumed_samples": "consumed_samples",
        "val_loss": "evaluation",
    },
    "olmo": {
        "train/CrossEntropyLoss": "loss",
    },
    "primus": {
        "iteration": "step",
        "consumed samples": "consumed_samples",
        "elapsed time per iteration (ms)": "seconds",
        "mem usages": "memory",
        "throughput per GPU (TFLOP/s/GPU": "tflops_per_gpu",
        "learning rate": "learning_rate",
        "global batch size": "global_batch_size",
        "lm loss": "loss",
        "loss scale": IGNORED,
        "grad norm": "grad_norm",
        "number of skipped iterations": IGNORED,
        "number of nan iterations": IGNORED,
        "rank": None,
        "tokens per GPU (tokens/s/GPU": "tokens_per_second_per_gpu",
        "seq_load_balancing_loss": "aux_loss",
        "hip mem usage/free/total/usage_ratio": IGNORED,
        "rocm mem usage/free/total/usage_ratio": IGNORED,
        "rocm max mem usage/usage_ratio": IGNORED,
        "num zeros": None,
        "step": "step",
        "loss": "loss",
        "grad_norm": "grad_norm",
        "memory": "memory",
        "GiB": None,
        "tps": "tokens_per_second",
        "tflops": "tflops_per_gpu",
        "mfu": "mfu_percent",
        "replicagroup": None,
    },
    "torchtitan": {
        "step": "step",
        "loss": "loss",
        "memory": "memory",
        "GiB": None,
        "tps": "tokens_per_second",
        "tflops": "tflops_per_gpu",
        "mfu": "mfu_percent",
    },
}


@pytest.mark.parametrize(("label", "kind", "words"), LABELS)
def test_a_row_decides_a_label(label, kind, words):
    row = meanings.meaning_of(label)
    if kind is None:
        assert row is None
        return
    assert row is not None
    found = row.words.search(meanings.normalized(label))
    assert (row.kind, found and found[0]) == (kind, words)


@pytest.mark.parametrize("row", MEANINGS, ids=lambda row: f"{row.kind}-{row.words.pattern[:20]}")
def test_each_row_decides_a_label(row):
    assert any(meanings.meaning_of(label) is row for label, _, _ in LABELS)


@pytest.mark.parametrize(
    ("label", "normal"),
    [
        ("TrainLoss", "train loss"),
        ("CrossEntropyLoss", "cross entropy loss"),
        # Parts begin with a capital and go on in lower case: MFU and TFLOPs are one word each.
        ("MFU", "mfu"),
        ("TFLOPs", "tflops"),
        ("perf/step_time", "perf/step time"),
        ("iter-time", "iter time"),
        ("optim0.lr", "optim0 lr"),
        ("elapsed (ms)", "elapsed ms"),
        ("**Loss**", "loss"),
        ("'loss'", "loss"),
        ("  Grad  Norm ", "grad norm"),
        ("", ""),
    ],
)
def test_labels_are_compared_in_one_spelling(label, normal):
    assert meanings.normalized(label) == normal
    assert meanings.normalized(normal) == normal


@pytest.mark.parametrize(
    ("behind", "kind", "factor", "multiplier", "length"),
    [
        (" ms", "", "1e-3", "1", 3),
        ("ms,", "", "1e-3", "1", 2),
        ("s | loss", "", "1", "1", 1),
        (" (ms)", "", "1e-3", "1", 4),
        (" [s]", "", "1", "1", 3),
        (" µs", "", "1e-6", "1", 3),
        (" min", "", "60", "1", 4),
        (" hours", "", "3600", "1", 6),
        ("s/it", "seconds", "1", "1", 4),
        (" ms/step", "seconds", "1e-3", "1", 8),
        (" sec/step", "seconds", "1", "1", 9),
        ("it/s", "steps_per_second", "1", "1", 4),
        (" batches/s", "steps_per_second", "1", "1", 10),
        (" tok/s", "tokens_per_second", "1", "1", 6),
        (" tok/s/GPU", "tokens_per_second_per_gpu", "1", "1", 10),
        ("K tokens/s", "tokens_per_second", "1", "1e3", 10),
        (" samples/s", "samples_per_second", "1", "1", 10),
        (" samples/s/GPU", "samples_per_second_per_gpu", "1", "1", 14),
        (" TFLOP/s/GPU", "tflops_per_gpu", "1", "1", 12),
        (" GFLOPs", "tflops_per_gpu", "1e-3", "1", 7),
    ],
)
def test_a_unit_stands_behind_a_number(behind, kind, factor, multiplier, length):
    unit, found, end = meanings.unit_of(behind)
    assert unit is not None
    assert (unit.kind, unit.factor, found, end) == (kind, factor, multiplier, length)
    assert unit.is_time == (kind == "")


@pytest.mark.parametrize(
    ("behind", "multiplier"),
    [
        ("K |", "1e3"),
        ("k", "1e3"),
        ("M,", "1e6"),
        ("B", "1e9"),
        ("G ", "1e9"),
        ("T]", "1e12"),
        # A byte, a word and a sign are no multiple of a number.
        ("GiB", "1"),
        ("kB", "1"),
        ("Model", "1"),
        ("%", "1"),
        ("", "1"),
        # Capitals matter: MS are no milliseconds.
        (" S", "1"),
    ],
)
def test_a_multiple_belongs_to_its_number(behind, multiplier):
    unit, found, end = meanings.unit_of(behind)
    assert (unit, found, end) == (None, multiplier, int(multiplier != "1"))


@pytest.mark.parametrize(
    ("label", "factor"),
    [
        ("elapsed (ms)", "1e-3"),
        ("step_time_ms", "1e-3"),
        ("time [s]", "1"),
        ("ms/batch", "1e-3"),
        ("s/it", "1"),
        ("epoch_time_minutes", "60"),
        ("step_time_min", None),
        ("time", None),
        ("items", None),
        ("loss", None),
        ("", None),
    ],
)
def test_a_unit_in_a_label(label, factor):
    unit = meanings.unit_in(label)
    assert (unit and unit.factor) == factor


@pytest.mark.parametrize(
    ("kind", "label", "scoped"),
    [
        ("tokens_per_second", "throughput per GPU", "tokens_per_second_per_gpu"),
        ("samples_per_second", "speed per device", "samples_per_second_per_gpu"),
        ("tokens_per_second", "throughput", "tokens_per_second"),
        ("tokens_per_second", "GPU throughput", "tokens_per_second"),
        ("steps_per_second", "speed per GPU", "steps_per_second"),
    ],
)
def test_a_label_says_that_a_rate_is_one_devices(kind, label, scoped):
    assert meanings.with_scope(kind, label) == scoped


@pytest.mark.parametrize(
    ("label", "behind", "is_of_step"),
    [
        ("iter time", "", True),
        ("time per step", " ms", True),
        ("time", "s/it", True),
        ("", " ms/step", True),
        ("time", " ms", False),
        ("dt", "", False),
        # "item" has the letters of "it" only.
        ("item time", "", False),
    ],
)
def test_a_label_or_a_unit_says_that_a_time_is_one_steps(label, behind, is_of_step):
    assert meanings.is_of_step(label, meanings.unit_of(behind)[0]) == is_of_step


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("avg step time", "mean_seconds"),
        ("average time per step", "mean_seconds"),
        ("avg loss", "mean_loss"),
        ("avg tok/s", "averaged"),
        ("mean", "averaged"),
    ],
)
def test_a_mean_is_one_of_times_or_of_losses(label, kind):
    assert meanings.kind_of_mean(label) == kind


def test_units_of_time_only_scale():
    assert all(not unit.kind for unit in UNITS if unit.is_time)


@pytest.mark.parametrize("folder", SAMPLES)
def test_the_rows_that_decide_the_labels_of_the_samples(folder, samples):
    """A row that is added or moved must not change what the samples' labels mean."""
    found = {}
    for path in sorted((samples / folder).rglob("*")):
        if path.suffix not in (".log", ".txt") or path.stat().st_size > LARGEST_LOG:
            continue
        chunks = [path.read_bytes()]
        miner = Miner()
        for line in joined(lambda chunks=chunks: text.lines(chunks)):
            miner.feed(line)
        form = miner.form()
        if form is None:
            continue
        for piece in Pieces().of(form.example[1]):
            found |= {field.label: field.kind for field in piece.outline.fields}
    expected = SAMPLES[folder]
    assert {label: found.get(label, "nowhere") for label in expected} == expected
    assert {label for label, kind in found.items() if kind is not None} <= expected.keys()
