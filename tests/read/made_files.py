"""Files of trackers and loggers of our own making, in the form in which they are written: name -> content."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping

from event_writer import field, varint
from made_logs import STEPS

_BLOCK = 1 << 15


def number(field_number: int, value: int) -> bytes:
    """Return a field of a protocol buffer that holds a whole number."""
    return varint(field_number << 3) + varint(value)


def text(field_number: int, value: str) -> bytes:
    """Return a field that holds a text."""
    return field(field_number, value.encode())


def items(values: Mapping[str, object], key: int) -> bytes:
    """Return values as items of a record of W&B: their key is field 1 in a config, 2 in a history."""
    return b"".join(field(1, text(key, name) + text(16, json.dumps(value))) for name, value in values.items())


def wandb_log(records: list[bytes]) -> bytes:
    """Return a file of W&B with these records."""
    content = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
    for record in records:
        kind, rest = 1, record
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


def wandb_run(rows: list[dict[str, object]], *, exit_code: int | None = 0, padding: int = 0) -> bytes:
    """Return the file of a run; `padding` is the size of a record that is of no interest, before the history."""
    run = text(1, "abc") + field(4, items(CONFIG, 1)) + text(8, "quiet-lake-3") + field(17, number(1, 1_700_000_000))
    machine = text(12, "node1") + field(24, text(1, "NVIDIA H100 80GB HBM3")) * 8
    records = [number(1, 1) + text(21, "x"), field(17, run), field(26, machine)]
    records += [field(4, bytes(padding))] if padding else []
    records += [field(2, items({**row, "_step": step}, 2) + field(2, number(1, step))) for step, row in enumerate(rows)]
    records += [] if exit_code is None else [field(18, number(1, exit_code) if exit_code else b"")]
    return wandb_log(records)


MLFLOW_METRIC = "".join(f"{1_700_000_000_000 + 1500 * step} {2 - step / 100} {step}\n" for step in STEPS)

MLFLOW_CSV = "run_id,key,value,step,timestamp\n" + "".join(
    f"69c1732aabb5,loss,{2 - step / 100},{step},{1_700_000_000_000 + 1500 * step}\n" for step in STEPS
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
            {"step": step, "loss": 2 - step / 100, "learning_rate": 1e-05, "train_runtime": 1.234567 * step}
            for step in STEPS
        ],
    },
    indent=1,
)

TABLE = "step,time,loss\n" + "".join(f"{step},0.5,{2 - step / 100}\n" for step in STEPS)
TABLE_LINES = "".join(json.dumps({"step": step, "time": 0.5, "perf": {"ms": 500}}) + "\n" for step in STEPS)
