"""Trainings that end in every way, as six log formats print them and as three recorders record
them: a table.

log("megatron", "crashed") is a text; ENDINGS["crashed"] says what is right of it.
recorded("record()", "crashed", folder) trains on the CPU and returns the Run. Equal everywhere: no
random numbers.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tprimat.results.run import Run
from tprimat.store import store

if TYPE_CHECKING:
    from tprimat.record.options import Benchmark

PLANNED, DONE = 120, 40
"""Steps that are asked for, and after which a training ends that doesn't do them all."""

START = datetime.datetime(2026, 5, 11, 2, 0, 0)


class Ended(NamedTuple):
    """What is right of an ending: the kind, the status, words of its cause, and whether a line of
    the log has it.
    """

    kind: str
    status: str
    cause: str | None = None
    has_line: bool = False


ENDINGS = {
    "complete": Ended("finished", "complete"),
    "crashed": Ended("failed", "failed", "out of memory", has_line=True),
    "NaN": Ended("finished", "complete"),
    "own limit": Ended("finished", "complete"),
    "scheduler's limit": Ended("stopped", "incomplete", "DUE TO TIME LIMIT", has_line=True),
    "cut off": Ended("cut_off", "incomplete"),
}
"""How a training ends, and what is right of its log. A loss of NaN, from step NAN_FROM on, is no
ending.
"""

NAN_FROM = DONE // 2 + 1

FORMATS = ("megatron", "torchtitan", "nemo", "hf_trainer", "olmo", "deepspeed")
"""Log formats, by their names in results."""

STATED = {"num_gpus": 8, "global_batch_size": 64, "sequence_length": 4096}
"""Sizes of each of these trainings. Not every log states them all: give them where tokens are
counted.
"""

OUT_OF_MEMORY = (
    '[rank3]: Traceback (most recent call last):\n[rank3]:   File "/opt/train.py", line 88, in'
    " <module>\n[rank3]:     loss.backward()\n[rank3]: torch.OutOfMemoryError: CUDA out of memory."
    " Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.10 GiB of which 1.50 GiB is"
    " free.\nE0511 02:10:07.927000 107524 torch/distributed/elastic/multiprocessing/api.py:880]"
    " failed (exitcode: 1) local_rank: 3 (pid: 107591) of binary:"
    " /usr/bin/python3\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
)
TIME_LIMIT = (
    "slurmstepd: error: *** JOB 4711 ON node7 CANCELLED AT 2026-05-11T02:10:00 DUE TO TIME LIMIT"
    " ***\n"
)


class _Form(NamedTuple):
    """How a framework prints a training: what comes first, a step, a normal end, the end by a limit
    of its own.
    """

    head: Callable[[int], str]
    step: Callable[[int, int, float, str], str]
    end: str
    limit: str | None


def _at(step: int, seconds: float) -> datetime.datetime:
    return START + datetime.timedelta(seconds=60 + step * seconds)


def _megatron(step: int, planned: int, seconds: float, loss: str) -> str:
    return (
        f" [{_at(step, seconds):%Y-%m-%d %H:%M:%S}.{step:06d}] iteration {step:8d}/{planned:8d} |"
        f" consumed samples: {64 * step:12d} | elapsed time per iteration (ms): {1e3 * seconds:.1f}"
        " | throughput per GPU (TFLOP/s/GPU): 400.0 | learning rate: 1.000000E-05 | global batch"
        f" size:    64 | lm loss: {loss} | loss scale: 1.0 | grad norm: 1.250 | number of skipped"
        " iterations:   0 | number of nan iterations:   0 |\n"
    )


def _torchtitan(step: int, planned: int, seconds: float, loss: str) -> str:
    return (
        f"[rank0]:[titan] {_at(step, seconds):%Y-%m-%d %H:%M:%S},000 - root - INFO - step:"
        f" {step:2d}  loss: {loss}  grad_norm:  1.2500  memory: 30.99GiB(32.62%)  tps:"
        f" {round(64 * 4096 / seconds / 8):,}  tflops: 407.35  mfu: 41.19%\n"
    )


def _titan_head(planned: int) -> str:
    said = "[rank0]:[titan] 2026-05-11 02:00:00,000 - root - INFO - "
    return (
        f"{said}Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=8, cp=1,"
        f" tp=1\n{said}Trainer is initialized with local batch size 8, global batch size 64,"
        f" gradient accumulation steps 1, sequence length 4096, total steps {planned} (warmup"
        f" 20)\n{said}Training starts at step 1\n"
    )


def _nemo(step: int, planned: int, seconds: float, loss: str) -> str:
    return (
        f"Training epoch 0, iteration {step - 1}/{planned - 1} | lr: 1.499e-07 | global_batch_size:"
        f" 64 | global_step: {step - 1} | reduced_train_loss: {loss} | train_step_timing in s:"
        f" {seconds:.4g}\n"
    )


def _hugging_face(step: int, planned: int, seconds: float, loss: str) -> str:
    left = "1:00"
    bar = (
        f"{100 * step // planned:3d}%|##        | {step}/{planned}"
        f" [{_clock(step * seconds)}<{left}, {seconds:.2f}s/it]"
    )
    record = (
        f"{{'loss': {loss}, 'grad_norm': 1.25, 'learning_rate': 1e-05, 'step_time': {seconds:.3f}, "
        f"'epoch': {step / planned:.3f}}}"
    )
    return f"{record}\n{bar}\n" if step < planned else f"{bar}\n{record}\n"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def _hugging_face_head(planned: int) -> str:
    return (
        "***** Running training *****\n  Num examples = 7,680\n  Num Epochs = 1\n"
        "  Instantaneous batch size per device = 8\n"
        "  Total train batch size (w. parallel, distributed & accumulation) = 64\n"
        f"  Gradient Accumulation steps = 1\n  Total optimization steps = {planned}\n"
    )


def _olmo(step: int, planned: int, seconds: float, loss: str) -> str:
    return (
        f"[{_at(step, seconds):%Y-%m-%d %H:%M:%S}] INFO     [olmo.train:816, rank=0]"
        f" [step={step}/{planned}]\n    train/CrossEntropyLoss={loss}\n   "
        f" optim/total_grad_norm=1.250\n    throughput/total_tokens={64 * 4096 * step:,}\n   "
        f" throughput/device/tokens_per_second={round(64 * 4096 / seconds / 8):,}\n   "
        f" throughput/device/batches_per_second={1 / seconds:.4f}\n"
    )


_OLMO_SAID = "[2026-05-11 02:10:00] {} [olmo_core.train.trainer:764, rank=0] {}\n"


def _deepspeed(step: int, planned: int, seconds: float, loss: str) -> str:
    return (
        f"steps: {step} loss: {loss} iter time (s): {seconds:.3f} samples/sec: {64 / seconds:.3f}\n"
    )


def _deepspeed_head(planned: int) -> str:
    said = "[2026-05-11 02:00:00,000] [INFO] [config.py:1001:print]   "
    return (
        f"{said}train_batch_size ............. 64\n{said}train_micro_batch_size_per_gpu "
        f" 8\n{said}world_size ................... 8\n{said}bfloat16_enabled ............."
        " True\n[2026-05-11 02:00:01,000] [INFO] [main.py:10] train_iters"
        f" ................................ {planned}\ntrain_iters ................................"
        f" {planned}\n"
    )


_TRAIN_RUNTIME = (
    "{'train_runtime': 60.5, 'train_samples_per_second': 63.5, 'train_steps_per_second': 0.99,"
    " 'epoch': 1.0}\n"
)
_FORMS = {
    "megatron": _Form(
        lambda _: "",
        _megatron,
        "[after training is done] datetime: 2026-05-11 02:10:00\n",
        "[exiting program after 10.001 minutes] datetime: 2026-05-11 02:10:00\n",
    ),
    "torchtitan": _Form(
        _titan_head, _torchtitan, "[rank0]:[titan] 2026-05-11 02:10:00,000 - root - INFO - Training completed\n", None
    ),
    "nemo": _Form(
        lambda planned: f"[NeMo I 2026-05-11 02:00:00 nemo_logging:393] max_steps={planned}\n",
        _nemo,
        "`Trainer.fit` stopped: `max_steps=120` reached.\n",
        "Time limit reached. Elapsed time is 0:10:00. Signaling Trainer to stop.\n",
    ),
    "hf_trainer": _Form(_hugging_face_head, _hugging_face, _TRAIN_RUNTIME, _TRAIN_RUNTIME),
    "olmo": _Form(
        lambda _: "",
        _olmo,
        _OLMO_SAID.format("INFO    ", "Training complete"),
        _OLMO_SAID.format("WARNING ", "Run canceled due to time limit reached"),
    ),
    "deepspeed": _Form(
        _deepspeed_head,
        _deepspeed,
        "[2026-05-11 02:10:00,000] [INFO] [launch.py:351:main] Process 4711 exits successfully.\n",
        None,
    ),
}  # fmt: skip
"""torchtitan and DeepSpeed have no limit but their number of steps, which the user then asks for.
"""


def seconds_of(step: int, step_time: float = 2.0) -> float:
    """The time of a step: the first ones are slower, all others swing by 1%."""
    slow = {1: 5.0, 2: 1.5}
    return step_time * slow.get(step, 1 + 0.01 * math.sin(step))


def log(form: str, ending: str = "complete", *, step_time: float = 2.0, prefix: str = "") -> str:
    """Return the log of a training that ends in this way, each line behind a prefix."""
    framework = _FORMS[form]
    is_whole = ending in ("complete", "NaN")
    is_asked = ending == "own limit" and framework.limit is None
    planned = DONE if is_asked else PLANNED
    steps = PLANNED if is_whole else DONE
    said = [framework.head(planned)]
    for step in range(1, steps + 1):
        loss = "nan" if ending == "NaN" and step >= NAN_FROM else f"{2 + 8 / (step + 1):.4f}"
        said.append(framework.step(step, planned, seconds_of(step, step_time), loss))
    said += {
        "crashed": [OUT_OF_MEMORY],
        "scheduler's limit": [TIME_LIMIT],
        "cut off": [],
        "own limit": [framework.limit or framework.end],
    }.get(ending, [framework.end])
    return "".join(f"{prefix}{line}" for line in "".join(said).splitlines(keepends=True))


_LIMITS = {
    "megatron": "Megatron exited after 10.0 minutes",
    "nemo": "Time limit reached. Elapsed time is 0:10:00",
    "olmo": "Run canceled due to time limit reached",
}
"""What a log says of the limit that its user asked for. The Trainer of Hugging Face says nothing of
it.
"""


def right(form: str, ending: str) -> Ended:
    """Return what is right of the log of a format that ends in this way."""
    if ending == "own limit" and form in _LIMITS:
        return ENDINGS[ending]._replace(cause=_LIMITS[form], has_line=True)
    return ENDINGS[ending]


def head(form: str) -> str:
    """Return what a log of a format has before its first step."""
    return _FORMS[form].head(PLANNED)


def step_line(form: str, step: int) -> str:
    """Return what a complete log of a format has of a step."""
    return _FORMS[form].step(step, PLANNED, seconds_of(step), f"{2 + 8 / (step + 1):.4f}")


RECORDERS = ("record()", "BenchmarkCallback", "TrainerBenchmarkCallback")

TERMINATED = "terminated (SIGTERM)"
RECORDED = {
    "complete": Ended("finished", "complete"),
    "crashed": Ended("failed", "failed", "out of memory: OutOfMemoryError: CUDA out of memory"),
    "NaN": Ended("finished", "complete"),
    "own limit": Ended("finished", "complete", "stopped after 5 s"),
    "scheduler's limit": Ended("stopped", "incomplete", TERMINATED),
    "cut off": Ended("cut_off", "incomplete"),
}
"""What is right of a training that is recorded: a scheduler ends it by SIGTERM; "cut off" is a
journal left alone.
"""

STEPS, ENDS_AFTER = 12, 5
"""Steps that a recorded training is to do, and after which it ends otherwise."""


def recorded(recorder: str, ending: str, folder: Path, steps: int = STEPS) -> Run:
    """Train a layer on the CPU, and return the Run of a training that ends in this way; its file
    lies in the folder.

    Needs torch, and what the callbacks are of; skip where they are missing.
    """
    with contextlib.suppress(Exception, SystemExit):
        _TRAINED[recorder](folder, steps, ending)
    (path,) = folder.glob("*.json")
    return store.read(path)[-1]


def _loss(step: int, ending: str) -> float:
    return math.nan if ending == "NaN" and step > ENDS_AFTER else 2.0 + 1.0 / step


def _end(benchmark: Benchmark, ending: str, folder: Path) -> bool:
    """Return whether a training is over after ENDS_AFTER steps, and why it is; raises what a crash
    does.
    """
    import torch

    if ending in ("complete", "NaN"):
        return False
    recording = benchmark._recording
    assert recording is not None
    if ending == "crashed":
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    if ending == "own limit":
        benchmark.stop_reason = "stopped after 5 s (time limit)"
    elif ending == "scheduler's limit":
        recording.sigterm.received = True
        raise SystemExit(143)
    elif ending == "cut off":
        # What SIGKILL leaves is a journal.
        recording.recorder.finish(None)
        assert recording._journal.path is not None
        from tprimat.record import recovery

        left = recovery.read(recording._journal.path.read_bytes())
        recording.discard()
        assert left is not None
        store.save(left[0], folder)
    return True


def _by_hand(folder: Path, steps: int, ending: str) -> None:
    sizes = {"global_batch_size": 4, "sequence_length": 16, "precision": "fp32"}
    from tprimat.record.loop import record

    with record(model="mine", output_dir=folder, quiet=True, max_steps=steps, **sizes) as recorder:
        for step in range(1, steps + 1):
            time.sleep(0.001)
            recorder.step(loss=_loss(step, ending))
            if step == ENDS_AFTER and _end(recorder, ending, folder):
                break


def _by_lightning(folder: Path, steps: int, ending: str) -> None:
    import lightning.pytorch as pl
    import torch

    from benchmark_utils import BenchmarkCallback

    class Layer(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            return 0 * self.layer(batch).mean() + _loss(self.global_step + 1, ending)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    class Ends(pl.Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == ENDS_AFTER and _end(benchmark, ending, folder):
                trainer.should_stop = True

    benchmark = BenchmarkCallback(
        folder, model_name="mine", quiet=True, global_batch_size=4, sequence_length=16
    )
    quiet = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
    )  # fmt: skip
    trainer = pl.Trainer(accelerator="cpu", max_steps=steps, callbacks=[benchmark, Ends()], **quiet)
    trainer.fit(Layer(), torch.utils.data.DataLoader(torch.ones(4 * steps, 8), batch_size=4))


def _by_trainer(folder: Path, steps: int, ending: str) -> None:
    """Call the callback as transformers.Trainer does: the Trainer itself needs one more package."""
    import torch

    from benchmark_utils import TrainerBenchmarkCallback

    benchmark = TrainerBenchmarkCallback(folder, model_name="mine", quiet=True, sequence_length=16)
    args = types.SimpleNamespace(
        n_gpu=1, process_index=0, world_size=1, device=torch.device("cpu"), logging_steps=1, torch_compile=False,
        logging_strategy="steps", per_device_train_batch_size=4, gradient_accumulation_steps=1, seed=1,
        gradient_checkpointing=False, lr_scheduler_type="linear", max_grad_norm=1.0,
    )  # fmt: skip
    module = torch.nn.Linear(8, 1)
    state = types.SimpleNamespace(global_step=0, max_steps=steps)
    control = types.SimpleNamespace(should_evaluate=False, should_save=False)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    benchmark.on_train_begin(args, state, control, model=module, optimizer=optimizer)
    try:
        for step in range(1, steps + 1):
            benchmark.on_step_begin(args, state, control)
            time.sleep(0.001)
            state.global_step = step
            benchmark.on_step_end(args, state, control)
            benchmark.on_log(args, state, control, logs={"loss": _loss(step, ending)})
            if step == ENDS_AFTER and _end(benchmark, ending, folder):
                break
    except BaseException as error:
        # As the hook for what nobody catches does.
        benchmark.failed(error)
        raise
    benchmark.on_train_end(args, state, control)


_TRAINED = {
    "record()": _by_hand,
    "BenchmarkCallback": _by_lightning,
    "TrainerBenchmarkCallback": _by_trainer,
}
