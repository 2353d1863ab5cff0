"""Files of trackers and loggers of our own making, in the form in which they are written: name ->
content.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping

import made_logs
from event_writer import event, field, record, scalar, varint, version
from made_logs import STEPS

_BLOCK = 1 << 15


def number(field_number: int, value: int) -> bytes:
    """Return a field of a protocol buffer that holds a whole number."""
    return varint(field_number << 3) + varint(value)


def text(field_number: int, value: str) -> bytes:
    """Return a field that holds a text."""
    return field(field_number, value.encode())


def items(values: Mapping[str, object], key: int) -> bytes:
    """Return values as items of a record of W&B: their key is field 1 in a config, 2 in a
    history.
    """
    return b"".join(
        field(1, text(key, name) + text(16, json.dumps(value))) for name, value in values.items()
    )


def wandb_log(records: list[bytes]) -> bytes:
    """Return a file of W&B with these records."""
    content = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
    for whole in records:
        kind, rest = 1, whole
        while True:
            room = _BLOCK - len(content) % _BLOCK
            if room < 7:
                content += bytes(room)
                continue
            part, rest = rest[: room - 7], rest[room - 7 :]
            kind = {(1, False): 1, (1, True): 2, (2, True): 3, (2, False): 4}[(kind, bool(rest))]
            content += struct.pack("<IHB", zlib.crc32(bytes([kind]) + part), len(part), kind) + part
            if not rest:
                break
            kind = 2
    return content


CONFIG = {
    "model_name_or_path": "meta-llama/Llama-3.1-8B",
    "per_device_train_batch_size": 2,
    "train_batch_size": 2,
    "gradient_accumulation_steps": 4,
    "max_seq_length": 4096,
    "max_steps": 30,
    "world_size": 8,
    "bf16": True,
    "critic": {"max_steps": 7},
}
"""A configuration as transformers keeps it: its train_batch_size is of one process."""


def wandb_rows() -> list[dict[str, object]]:
    """Return rows of 30 steps of 1.5 s, and an evaluation of 4 s after the tenth."""
    rows: list[dict[str, object]] = []
    for step in STEPS:
        time = 10 + 1.5 * step + (4 if step > 10 else 0)
        rows.append({"train/loss": 2 - step / 100, "train/grad_norm": 0.5, "_runtime": time})
        if step == 10:
            rows.append({"eval/loss": 1.9, "_runtime": time + 4})
    return rows


def wandb_run(
    rows: list[dict[str, object]], *, exit_code: int | None = 0, padding: int = 0
) -> bytes:
    """Return the file of a run; `padding` is the size of a record that is of no interest, before
    the history.
    """
    return wandb_log(wandb_records(rows, exit_code, padding))


def wandb_records(
    rows: list[dict[str, object]], exit_code: int | None = 0, padding: int = 0
) -> list[bytes]:
    """Return the records of a run."""
    run = (
        text(1, "abc")
        + field(4, items(CONFIG, 1))
        + text(8, "quiet-lake-3")
        + field(17, number(1, 1_700_000_000))
    )
    machine = text(12, "node1") + field(24, text(1, "NVIDIA H100 80GB HBM3")) * 8
    records = [number(1, 1) + text(21, "x"), field(17, run), field(26, machine)]
    records += [field(4, bytes(padding))] if padding else []
    records += [
        field(2, items({**row, "_step": step}, 2) + field(2, number(1, step)))
        for step, row in enumerate(rows)
    ]
    records += [] if exit_code is None else [field(18, number(1, exit_code) if exit_code else b"")]
    return records


MLFLOW_METRIC = "".join(
    f"{1_700_000_000_000 + 1500 * step} {2 - step / 100} {step}\n" for step in STEPS
)

MLFLOW_CSV = "run_id,key,value,step,timestamp\n" + "".join(
    f"69c1732aabb5,loss,{2 - step / 100},{step},{1_700_000_000_000 + 1500 * step}\n"
    for step in STEPS
)

LIGHTNING_CSV = "epoch,lr-AdamW,step,train_loss\n" + "".join(
    f",1e-05,{step},\n0,,{step},{2 - step / 100}\n" for step in STEPS
)

TRAINER_STATE = json.dumps(
    {
        "global_step": 30,
        "max_steps": 30,
        "logging_steps": 1,
        "train_batch_size": 2,
        "log_history": [
            {
                "step": step,
                "loss": 2 - step / 100,
                "learning_rate": 1e-05,
                "train_runtime": 1.234567 * step,
            }
            for step in STEPS
        ],
    },
    indent=1,
)

TABLE = "step,time,loss\n" + "".join(f"{step},0.5,{2 - step / 100}\n" for step in STEPS)
TABLE_LINES = "".join(
    json.dumps({"step": step, "time": 0.5, "loss": 2.0, "perf": {"ms": 500}}) + "\n"
    for step in STEPS
)

TFEVENTS = [
    version()[12:-4],
    *(
        event(1.7e9 + step, step, scalar("train_loss", 2.0 - step / 100), scalar("step_time", 0.5))[
            12:-4
        ]
        for step in STEPS
    ),
]
"""Records, without their lengths and checksums."""

TRACELENS = (
    "type,time ms,percent\ncomputation_time,100.0,80\nexposed_comm_time,20.0,16\nidle_time,5.0,4\n"
    "total_time,125.0,100\n"
)

BESIDE = """status: 3
start_time: 1700000000000
run_name: 'h100'
learning_rate: 1e-05
max_steps: 30
{"gpu": "NVIDIA L4", "gpu_count": 8}
"""
"""What may lie beside a file: meta.yaml, hparams.yaml, a parameter, metadata."""

FILES = {
    "wandb, history": made_logs.WANDB_HISTORY,
    "wandb, chart": made_logs.WANDB_CHART,
    "mlflow, directory": MLFLOW_METRIC,
    "mlflow, csv": MLFLOW_CSV,
    "lightning": LIGHTNING_CSV,
    "trainer_state": TRAINER_STATE,
    "train_results": (
        '{"train_runtime": 100.5, "train_samples_per_second": 3.1, "train_loss": 1.9, "epoch": 1.0}'
    ),
    "tracelens": TRACELENS,
}
"""Files that are read as a whole: name -> content."""

RECORDS = {
    "wandb, run": (wandb_records(wandb_rows()), wandb_log),
    "tensorboard": (TFEVENTS, lambda records: b"".join(map(record, records))),
}
"""Files of records with checksums: name -> the records, and what makes a file of them."""

OTHER_LOGS = {
    "automodel": "".join(
        f'{{"step": {step}, "epoch": 0, "timestamp": "2026-04-01T16:05:{step:02}.695Z", "loss":'
        ' 4.95, "grad_norm": 4.0, "lr": 0.0001, "mem": 47.7, "tps": 1124.6, "tps_per_gpu": 140.5,'
        ' "num_tokens_per_step": 40419, "num_label_tokens": 15802}\n'
        for step in STEPS
    ),
    "composer": "".join(
        f"[batch={step}/30]:\n\t Train loss/train/total: 8.{step:02}\n"
        "\t Train throughput/device/tokens_per_sec: 1255.1\n"
        "\t Train throughput/batches_per_sec: 0.8127\n"
        for step in STEPS
    ),
    "deepspeed": "".join(
        f"epoch=0/micro_step={step}/global_step={step}, RunningAvgSamplesPerSec=173.4,"
        f" CurrSamplesPerSec=171.9, MemAllocated=4.4GB, MaxMemAllocated=20.4GB\nsteps: {step} loss:"
        " 12.7902 iter time (s): 150.471 samples/sec: 6.805\n"
        for step in STEPS
    ),
    "dllogger": "".join(
        f'DLLL {{"timestamp": "{1727463426.98 + step}", "type": "LOG", "step": {step}, "data":'
        ' {"reduced_train_loss": 7.89, "train_step_timing in s": 25.1, "consumed_samples":'
        f" {2048 * step}}}}}\n"
        for step in STEPS
    ),
    "golden": json.dumps(
        {
            name: {
                "start_step": 1,
                "end_step": 30,
                "step_interval": 1,
                "values": {str(step): value for step in STEPS},
            }
            for name, value in (
                ("lm loss", 12.5),
                ("iteration-time", 8.55),
                ("mem-max-allocated-bytes", 7e10),
            )
        }
    ),
    "litgpt": "".join(
        f"Epoch 1 | iter {2 * step - 1} step {step - 1} | loss train: 1.700, val: n/a | iter time:"
        f" 500.00 ms\nEpoch 1 | iter {2 * step} step {step} | loss train: 1.660, val: n/a | iter"
        " time: 548.72 ms (step)\n"
        for step in STEPS
    ),
    "maxtext": "".join(
        f"completed step: {step}, seconds: 5.018, TFLOP/s/device: 107.127, Tokens/s/device:"
        " 6529.527, total_weights: 16777216, loss: 10.172\n"
        for step in STEPS
    ),
    "megatron_bridge": "".join(
        f"Step Time : 11.6{step % 10}s GPU utilization: 1158.1MODEL_TFLOP/s/GPU\n" for step in STEPS
    ),
    "mlperf": "".join(
        f':::MLLOG {{"namespace": "", "time_ms": {1759966614209 + 9000 * step}, "event_type":'
        f' "POINT_IN_TIME", "key": "{key}", "value": {value}, "metadata": {{"step":'
        f" {32 * step}}}}}\n"
        for key, value, steps in (
            ("global_batch_size", "32", (0,)),
            ("run_start", "null", (0,)),
            ("tracked_stats", '{"throughput": 30.15}', STEPS),
            ("run_stop", "null", (31,)),
        )
        for step in steps
    ),
    "nemo": "".join(
        f"Training epoch 0, iteration {step - 1}/29 | lr: 2.999e-07 | global_batch_size: 512 | "
        f"global_step: {step - 1} | reduced_train_loss: 11.03 | train_step_timing in s: 7.549 | "
        f"consumed_samples: {512 * step}\n"
        for step in STEPS
    ),
    "olmo": "".join(
        f"[2024-04-17 09:42:{step:02}] INFO     [olmo.train:816, rank=0] [step={step}/739328]\n"
        "    train/CrossEntropyLoss=10.73\n    throughput/device/tokens_per_second=45,538\n"
        "    throughput/device/batches_per_second=0.1237\n"
        for step in STEPS
    ),
    "torchtitan": "".join(
        f"[titan] 2025-06-04 08:51:{step:02},557 - root - INFO - step: {step:2}  loss: 10.7069  "
        "memory: 30.99GiB(32.62%)  tps: 7,034  tflops: 407.35  mfu: 41.19%\n"
        for step in STEPS
    ),
    "torchtune": "".join(
        f"Step {step} | loss:1.54 lr:9.9e-05 tokens_per_second_per_gpu:101.2 peak_memory_alloc:10.2"
        " grad_norm:0.8\n"
        for step in STEPS
    ),
}
"""Logs of the formats whose other tests have logs of their own."""

TABLES = {"columns, csv": TABLE, "columns, json lines": TABLE_LINES}
"""Tables for --columns step=step,time=time,loss=loss."""
