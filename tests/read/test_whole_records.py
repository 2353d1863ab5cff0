"""TensorBoard's and W&B's own files, with all that is read from them (as in test_whole_logs.py),
and their parts.
"""

from __future__ import annotations

import io
import math
import struct
import zlib

import event_writer as writer
import made_files
import pytest
import whole
from stored_runs import sentences_of

from tprimat.notes import Note
from tprimat.read import tracked, wandb_offline
from tprimat.read.tensorboard import reader, tfevents

START = 1.7e9


def points(*rows):
    """Events of rows: time since the start, step, values by tag."""
    return b"".join(
        writer.event(
            START + time, step, *(writer.scalar(tag, value) for tag, value in values.items())
        )
        for time, step, values in rows
    )


def texts(values):
    return b"".join(
        writer.event(START - 1, 0, writer.text(f"{name}/text_summary", str(value)))
        for name, value in values.items()
    )


SCALARS = writer.scalar("lm loss", 3.5), writer.scalar("iteration-time", 2.5)

ARGUMENTS = {
    "world_size": 8, "seq_length": 2048, "global_batch_size": 64, "micro_batch_size": 2, "train_iters": 6,
    "log_interval": 2, "tensor_model_parallel_size": 2, "num_layers": 24, "hidden_size": 1024,
    "num_attention_heads": 16, "bf16": True,
}  # fmt: skip

TENSORBOARD = {
    "megatron": [
        texts(ARGUMENTS),
        points(
            (
                1,
                1,
                {
                    "lm loss": 8.5,
                    "learning-rate": 0.5,
                    "grad-norm": 1.5,
                    "loss-scale": 4,
                    "batch-size": 32,
                },
            ),
            (
                2,
                2,
                {"lm loss": 8.25, "iteration-time": 0.75, "throughput": 401.5, "batch-size": 32},
            ),
            (3, 3, {"lm loss": 8.0, "mem-reserved-bytes": 3e9, "batch-size": 32}),
            (
                4,
                4,
                {
                    "lm loss": 7.75,
                    "mem-allocated-bytes": 2e9,
                    "iteration-time": 0.5,
                    "batch-size": 32,
                },
            ),
            (
                6,
                5,
                {"lm loss": 7.5, "mem-max-allocated-bytes": 4e9, "throughput/tokens/device": 901.5},
            ),
            (9, 5, {"lm loss validation": 7.25, "lm loss validation vs samples": 7.25}),
            (9, 6, {"lm loss validation": 7.125}),
        ),
    ],
    "megatron_as_requested": [
        texts(ARGUMENTS),
        points(
            *(
                (n, n, {"lm loss": 8 - n / 8, "batch-size": 64, "iteration-time": 1.5})
                for n in (1, 2, 3)
            )
        ),
    ],
    "megatron_by_samples": [
        writer.version(),
        points(
            *((n, n, {"lm loss": 8 - n / 8}) for n in (1, 3, 4)),
            *((n, 24 * n, {"lm loss vs samples": 8 - n / 8}) for n in (1, 3, 4)),
        ),
    ],
    "megatron_once_by_samples": [
        writer.version(),
        points((1, 2, {"lm loss": 8.5}), (1, 48, {"lm loss vs samples": 8.5})),
    ],
    "megatron_growing_batch": [
        texts(ARGUMENTS),
        points(
            *((n, n, {"lm loss": 8 - n / 8}) for n in (1, 2, 3)),
            *(
                (n, samples, {"lm loss vs samples": 8 - n / 8})
                for n, samples in ((1, 24), (2, 48), (3, 96))
            ),
        ),
    ],
    "megatron_restored": [
        writer.version(),
        points(
            (0, 1, {"lm loss": 3.5, "iteration-time": 21.0}),
            (1.004, 2, {"lm loss": 3.25, "iteration-time": 11.0}),
            (2.004, 3, {"lm loss": 3.0, "iteration-time": 1.25}),
        ),
    ],
    "megatron_restarted": [
        writer.version(),
        points(
            (0, 1, {"lm loss": 3.5, "iteration-time": 21.0}),
            (1.004, 2, {"lm loss": 3.25, "iteration-time": 11.0}),
            (30, 2, {"lm loss": 3.125, "iteration-time": 1.5}),
            (31.25, 3, {"lm loss": 3.0, "iteration-time": 1.25}),
        ),
    ],
    "nemo": [
        writer.version(),
        points(
            (
                0,
                4,
                {
                    "reduced_train_loss": 9.5,
                    "train_step_timing in s": 1.5,
                    "global_batch_size": 24,
                    "lr": 0.5,
                },
            ),
            (
                3,
                9,
                {
                    "reduced_train_loss": 9.25,
                    "train_step_timing in s": 1.25,
                    "TFLOPS_per_GPU": 301.5,
                },
            ),
            (
                7,
                14,
                {
                    "reduced_train_loss": 9.0,
                    "consumed_samples": 360,
                    "gradient_norm": 1.5,
                    "val_loss": 8.5,
                },
            ),
            (
                8,
                14,
                {
                    "max_memory_allocated": 3e9,
                    "peak_memory_usage": 4e9,
                    "tokens_per_sec_per_gpu": 801.5,
                },
            ),
            (9, 15, {"train_step_timing in s": 1.75}),
        ),
    ],
    "torchtitan": [
        writer.version(),
        points(
            (
                0,
                1,
                {
                    "loss_metrics/global_avg_loss": 9.5,
                    "throughput(tps)": 701.5,
                    "mfu(%)": 40.5,
                    "lr": 0.5,
                },
            ),
            (
                9,
                10,
                {
                    "loss_metrics/global_avg_loss": 9.25,
                    "throughput(tps)": 702.5,
                    "memory/max_reserved(GiB)": 3.0,
                },
            ),
            (
                20,
                20,
                {
                    "loss_metrics/global_avg_loss": 9.0,
                    "time_metrics/end_to_end(s)": 1.5,
                    "grad_norm": 1.25,
                },
            ),
            (21, 20, {"memory/max_active(GiB)": 2.0, "tflops": 301.5}),
        ),
    ],
    "transformers": [
        writer.event(
            START,
            0,
            writer.text("args/text_summary", '{"per_device_train_batch_size": 4, "max_steps": 15}'),
        ),
        writer.event(
            START,
            0,
            writer.text(
                "model_config/text_summary",
                ' {"num_hidden_layers": 12, "torch_dtype": "bfloat16", "x": 1}',
            ),
        ),
        points(
            (
                0,
                5,
                {
                    "train/loss": 3.5,
                    "train/epoch": 0.25,
                    "train/learning_rate": 0.5,
                    "train/grad_norm": 1.5,
                },
            ),
            (8, 10, {"train/loss": 3.25, "train/epoch": 0.5}),
            (9, 10, {"train/train_runtime": 40.5, "train/train_samples_per_second": 5.5}),
            (9, 10, {"train/train_steps_per_second": 0.25}),
        ),
    ],
    "maxtext": [
        writer.version(),
        points(
            *(
                (
                    2.5 * n,
                    n,
                    {
                        "learning/loss": 4 - n / 8,
                        "perf/step_time_seconds": 2.5 + n / 16,
                        "perf/per_device_tokens_per_sec": 500 + n,
                        "perf/per_device_tflops_per_sec": 300 + n,
                        "learning/current_learning_rate": n / 4,
                        "learning/grad_norm": 1 + n / 4,
                    },
                )
                for n in (0, 1, 2, 4)
            )
        ),
    ],
    "lightning": [
        writer.version(),
        points(
            (0, 49, {"train_loss": 3.5, "lr-AdamW": 0.5, "perf/step_time": 0.75}),
            (30, 99, {"train_loss": 3.25, "epoch": 1}),
            # A later session takes back what it runs again.
            (60, 149, {"train_loss": 3.0}),
        ),
        writer.restart(99),
        points(
            (90, 99, {"train_loss": 2.75}),
            (100, 109, {"train_loss": 2.5}),
            (80, -3, {"train_loss": 1.5}),
        ),
    ],
    "lightning_without_times": [points((5, 3, {"train_loss": 3.5}), (4, 4, {"train_loss": 3.25}))],
    "batch_of_one": [
        points(
            (0, 3, {"lm loss": 3.5, "batch-size": 1}), (9, 4, {"lm loss": 3.25, "batch-size": 1})
        )
    ],
    "once": [points((0, 3, {"train_loss": 3.5}), (9, 3, {"train_loss": 3.25}))],
    "cut": [points((0, 49, {"train_loss": 3.5}), (30, 99, {"train_loss": 3.25}))[:-3]],
    "nothing": [writer.version(), points((0, 49, {"eval": 3.5, **{f"t{n}": 1 for n in range(8)}}))],
}


@pytest.mark.parametrize(
    ("steps", "windows"),
    [
        ((1, 10, 20, 30), (1, 9, 10, 10)),
        ((1, 10), (1, 9)),
        ((1, 10, 20, 40), (1, 9, 10, 10)),
        ((10, 20, 40), (10, 10, 10)),
        ((1, 2, 3, 5), (1, 1, 1, 1)),
        ((1, 10, 21), (1, 9, 9)),
        ((7,), (1,)),
        ((25, 30), (5, 5)),
    ],
)
def test_how_many_steps_a_record_of_torchtitan_averages(steps, windows):
    rows = ((step, step, {"throughput(tps)": 700.5}) for step in steps)
    found = whole.files({"events": writer.version() + points(*rows)})
    assert f"\nwindow_steps: {list(windows)}\n" in found


FIRST, SECOND = (
    points((time, step, {"lm loss": 3.5, "iteration-time": seconds}))
    for time, step, seconds in ((0, 1, 21), (1.004, 2, 11))
)


@pytest.mark.parametrize(
    ("content", "times"),
    [
        (FIRST + SECOND, [21.0, 1.0]),
        (FIRST + SECOND + writer.event(math.inf, 3, *SCALARS), [21.0, 1.0, 2.5]),
        (FIRST + writer.event(math.inf, 2, *SCALARS), [21.0, 2.5]),
        (FIRST, [21.0]),
    ],
)
def test_the_second_time_of_a_file(content, times):
    assert f"\nstep_times: {times}\n" in whole.files({"events": writer.version() + content})


@pytest.mark.parametrize("name", TENSORBOARD)
def test_all_that_an_event_file_tells(name):
    whole.check(f"tensorboard_{name}.txt", whole.files({"events.0": b"".join(TENSORBOARD[name])}))


def test_several_event_files_in_the_order_of_their_names():
    first = writer.version() + points(*((n, n, {"train_loss": 4 - n / 8}) for n in (1, 2, 3, 4)))
    second = writer.version() + points(*((10 + n, n, {"train_loss": 3 - n / 8}) for n in (3, 4, 5)))
    beside = {"hparams.yaml": b"global_batch_size: 24\nmax_steps: 6\n"}
    whole.check(
        "tensorboard_files.txt", whole.files({"events.2": second, "events.1": first}, beside)
    )


LENGTH = struct.pack("<Q", 5)


@pytest.mark.parametrize(
    ("head", "is_one"),
    [
        (LENGTH + writer.masked(LENGTH), True),
        (LENGTH + writer.masked(LENGTH)[:3], False),
        (LENGTH + writer.masked(b"other"), False),
        (bytes(8) + writer.masked(bytes(8)), False),
        *(
            (struct.pack("<Q", size) + writer.masked(struct.pack("<Q", size)), fits)
            for size, fits in ((1 << 28, True), ((1 << 28) + 1, False))
        ),
    ],
)
def test_the_head_of_an_event_file(head, is_one):
    assert tfevents.is_event_file(head) is is_one


def read_events(content):
    events = tfevents.Events()
    tfevents.read_into(io.BytesIO(content), events)
    return events


GOOD = writer.event(START, 3, writer.scalar("loss", 2.5))


def damaged(size):
    """A record of so many bytes whose content has another checksum."""
    content = writer.field(1, bytes(size - 3))
    assert len(content) == size
    return writer.record(content)[:-1] + b"\x00"


@pytest.mark.parametrize(
    ("content", "cut", "count"),
    [
        (GOOD, None, 1),
        (GOOD + GOOD[:11], "the file ends within a record", 1),
        (GOOD + GOOD[:-1], "the file ends within a record", 1),
        (GOOD + bytes(12), "the length of a record is damaged", 1),
        (GOOD + GOOD[:-2] + b"xx" + GOOD, "the checksum of a record is wrong", 1),
        (GOOD + writer.record(b"\xff" * 11) + GOOD, "a record is not an event", 1),
        # A long one isn't checked.
        (damaged(2048) + GOOD, "the checksum of a record is wrong", 0),
        (damaged(2049) + GOOD, None, 1),
    ],
)
def test_where_reading_ends(content, cut, count):
    events = read_events(content)
    assert (events.cut, len(events.scalars.get("loss", ()))) == (cut, count)


@pytest.mark.parametrize(("limit", "steps"), [(0, [3, 4, 3]), (1, [3, 3])])
def test_a_record_that_is_too_long_is_passed_over(limit, steps, monkeypatch):
    content = GOOD + writer.event(
        START, 4, writer.scalar("loss", 2.25), writer.text("long", "x" * 50)
    )
    size = struct.unpack("<Q", content[len(GOOD) : len(GOOD) + 8])[0]
    monkeypatch.setattr(tfevents, "LONGEST_READ", size - limit)
    events = read_events(content + GOOD)
    assert ([point.step for point in events.scalars["loss"]], events.cut) == (steps, None)


def test_times_and_steps_of_events():
    events = read_events(
        writer.event(START + 5, 1, writer.scalar("loss", 2.5))
        + writer.event(START + 2, -2, writer.scalar("loss", 2.25))
        + writer.event(
            START + 7, 2**63 - 1, writer.scalar("loss", 2.0), writer.scalar("other", 1.5)
        )
        + writer.event(0, 3, writer.text("note", "first"), writer.text("note", "second"))
    )
    assert events == tfevents.Events(
        {
            "loss": [(START + 5, 1, 2.5), (START + 2, -2, 2.25), (START + 7, 2**63 - 1, 2.0)],
            "other": [(START + 7, 2**63 - 1, 1.5)],
        },
        {"note": "second"},
        START + 2,
        None,
    )


@pytest.mark.parametrize(
    ("times", "first"), [((0.5,), 0.5), ((0.0, -3.0), None), ((7.5, 2.5, 4.5), 2.5)]
)
def test_the_first_time(times, first):
    assert read_events(b"".join(writer.event(time, 3) for time in times)).first_time == first


def test_a_session_takes_back_the_step_that_it_starts_at_and_later_ones():
    one = b"".join(
        writer.event(START, step, writer.scalar("loss", step / 4)) for step in (1, 2, 3, 4)
    )
    assert [point.step for point in read_events(one + writer.restart(3)).scalars["loss"]] == [1, 2]
    # Status 2 is its end.
    ended = writer.record(
        b"\x09" + struct.pack("<d", START) + b"\x10\x03" + writer.field(7, b"\x08\x02")
    )
    assert [point.step for point in read_events(one + ended).scalars["loss"]] == [1, 2, 3, 4]


def varints(*numbers):
    return b"".join(map(writer.varint, numbers))


def tensor(kind, *parts):
    return b"\x08" + varints(kind) + b"".join(parts)


def shape(*sizes):
    return writer.field(2, b"".join(writer.field(2, b"\x08" + varints(size)) for size in sizes))


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (tensor(1, writer.field(5, struct.pack("<f", 2.5))), 2.5),
        (tensor(2, writer.field(6, struct.pack("<d", 3.5))), 3.5),
        (tensor(3, writer.field(7, varints(300))), 300.0),
        (tensor(9, writer.field(10, varints(70_000))), 70_000.0),
        (tensor(3, b"\x38" + varints(300)), 300.0),
        (tensor(1, writer.field(5, struct.pack("<ff", 2.5, 3.5))), None),
        (tensor(3, writer.field(7, varints(3, 4))), None),
        (
            tensor(
                1, writer.field(5, struct.pack("<f", 2.5)), writer.field(6, struct.pack("<d", 3.5))
            ),
            None,
        ),
        (tensor(1, writer.field(5, b"")), None),
        (tensor(1), None),
        (b"", None),
        # In bytes as they are.
        (tensor(1, writer.field(4, struct.pack("<f", 2.5))), 2.5),
        (tensor(2, writer.field(4, struct.pack("<d", 3.5))), 3.5),
        (tensor(3, writer.field(4, struct.pack("<i", -7))), -7.0),
        (tensor(9, writer.field(4, struct.pack("<q", -9))), -9.0),
        (tensor(1, writer.field(4, struct.pack("<ff", 2.5, 3.5))), None),
        (tensor(4, writer.field(4, struct.pack("<f", 2.5))), None),
        # Of one element, whatever the number of dimensions.
        (tensor(1, shape(1, 1), writer.field(5, struct.pack("<f", 2.5))), 2.5),
        (tensor(1, shape(1, 2), writer.field(5, struct.pack("<f", 2.5))), None),
        (tensor(7, writer.field(8, b"text"), writer.field(8, b"more")), "text"),
    ],
)
def test_the_value_of_a_tensor(content, value):
    assert tfevents._tensor(content) == value


@pytest.mark.parametrize(
    ("form", "value", "numbers"),
    [
        (None, 7, [7.0]),
        ("<f", struct.pack("<fff", 1.5, 2.5, 3.5), [1.5, 2.5]),
        ("<f", struct.pack("<f", 1.5) + b"abc", [1.5]),
        ("<d", struct.pack("<dd", 1.5, 2.5), [1.5, 2.5]),
        (None, varints(300, 5, 6), [300.0, 5.0]),
        (None, b"", []),
    ],
)
def test_the_first_two_numbers_of_a_field(form, value, numbers):
    assert tfevents._first_two(form, value) == numbers


@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ([(1, 5.5), (2, 4.5), (2, 3.5), (4, 2.5)], {1: 5.5, 2: 3.5, 4: 2.5}),
        # It goes back to step 2: what it runs again is dropped.
        ([(1, 5.5), (3, 4.5), (4, 3.5), (2, 2.5)], {1: 5.5, 2: 2.5}),
        ([(3, 4.5), (3, 3.5)], {3: 3.5}),
        ([(-1, 4.5), (0, 3.5), (-2, 2.5)], {0: 3.5}),
        ([], {}),
    ],
)
def test_a_column_of_points(rows, column):
    found = reader._column([tfevents.Point(START, step, value) for step, value in rows])
    assert list(found.items()) == list(column.items())


# W&B


def history(row, *, step=None):
    """A record of a row of history; `step` stands outside of its items."""
    content = made_files.items(row, 2) + (
        b"" if step is None else made_files.field(2, made_files.number(1, step))
    )
    return made_files.field(2, content)


def config(**values):
    return made_files.field(5, made_files.items(values, 1))


def removed(name):
    return made_files.field(5, made_files.field(2, made_files.text(1, name)))


def run_record(name, started, **values):
    return made_files.field(
        17,
        made_files.text(8, "another")
        + made_files.text(8, name)
        + made_files.field(17, made_files.number(1, started))
        + made_files.field(4, made_files.items(values, 1)),
    )


def environment(host, *, nvidia=(), amd=()):
    gpus = b"".join(made_files.field(24, made_files.text(1, name)) for name in nvidia)
    gpus += b"".join(made_files.field(26, made_files.text(8, name)) for name in amd)
    return made_files.field(26, made_files.text(12, host) + gpus)


def ended(code):
    return made_files.field(18, made_files.number(1, code))


ROWS = [
    {
        "_step": 3,
        "_runtime": 10.5,
        "train/loss": 2.5,
        "train/grad_norm": 1.5,
        "note": "text",
        "train/lr": 0.5,
    },
    {"_step": 4, "_runtime": 12.5, "train/loss": 2.25},
    {"_step": 5, "_runtime": 17.5, "eval/loss": 2.125},
    {"_step": 6, "_runtime": 18.5, "train/loss": 2.0},
]
NESTED = made_files.field(
    2,
    b"".join(
        made_files.field(
            1, b"".join(made_files.text(2, key) for key in keys) + made_files.text(16, value)
        )
        for keys, value in (
            (("train", "loss"), "9.5"),
            (("train.loss",), "9.25"),
            (("_step",), "9"),
            (("_runtime",), "3" * 200),
        )
    ),
)

WANDB = {
    "run": [
        run_record("quiet-lake", 1_700_000_000, max_steps=8, num_gpus=4, model="llama"),
        environment("node7", nvidia=("NVIDIA L4", "NVIDIA L4")),
        *map(history, ROWS),
        config(max_steps=9, global_batch_size=24, seed=7),
        removed("num_gpus"),
        made_files.field(18, b""),
    ],
    "failed": [
        run_record("loud-lake", 0),
        environment("", amd=("AMD Instinct MI300X", "")),
        environment("node8"),
        *(
            history({"loss": 3 - step / 8, "_timestamp": START + 2 * step}, step=step)
            for step in (0, 1, 2)
        ),
        ended(3),
    ],
    "killed": [
        environment("node9", nvidia=("NVIDIA L4",), amd=("AMD Instinct MI300X",)),
        *(
            history({"loss": 3 - step / 8, "_timestamp": START + 2 * step}, step=step)
            for step in (0, 1, 2)
        ),
        ended((1 << 64) - 9),
        made_files.field(18, b""),
        ended((1 << 64) - 9),
    ],
    "other_form": [
        made_files.number(2, 7),
        made_files.field(2, b"\xff\xff"),
        made_files.field(2, b"\xff\xff"),
        *map(history, ROWS),
        made_files.field(17, b"\xff"),
        made_files.field(17, made_files.field(17, b"")),
    ],
    "nothing": [run_record("quiet-lake", 1_700_000_000), history({"accuracy": 1.5})],
}


@pytest.mark.parametrize("name", WANDB)
def test_all_that_a_file_of_wandb_tells(name):
    whole.check(
        f"wandb_{name}.txt", whole.files({"run-abc.wandb": made_files.wandb_log(WANDB[name])})
    )


@pytest.mark.parametrize(
    ("metadata", "device"),
    [
        (b'{"gpu": "NVIDIA A100"}', "NVIDIA A100"),
        (b'{"gpu": ""}', None),
        (b'{"gpu": 3}', None),
        (b"[1]", None),
    ],
)
def test_the_device_of_older_versions(metadata, device):
    beside = {"files/wandb-metadata.json": metadata}
    found = whole.files({"run-abc.wandb": made_files.wandb_log([*map(history, ROWS)])}, beside)
    assert (f'gpu_info.device_name: "{device}"' in found) is (device is not None)
    assert ("device_name" in found) is (device is not None)


def part(kind, content, *, crc=None, length=None):
    """A part of a record in a block."""
    known = zlib.crc32(bytes([kind]) + content) if crc is None else crc
    return struct.pack("<IHB", known, len(content) if length is None else length, kind) + content


A, B, C = b"first content", b"second", b"third one"


@pytest.mark.parametrize(
    ("parts", "contents", "warning"),
    [
        ([part(1, A), part(1, B)], [A, B], ""),
        ([part(2, A), part(3, B), part(4, C), part(1, A)], [A + B + C, A], ""),
        # The last part is missing.
        ([part(2, A), part(3, B)], [], "1 damaged or torn record skipped"),
        ([part(2, A), part(1, B)], [B], "1 damaged or torn record skipped"),
        ([part(2, A), part(2, B), part(4, C)], [B + C], "1 damaged or torn record skipped"),
        # The first part is missing.
        ([part(3, A), part(4, B), part(1, C)], [C], ""),
        ([part(1, A), part(1, B, crc=5), part(1, C)], [A], "1 damaged or torn record skipped"),
        ([part(2, A), part(3, B, crc=5), part(4, C)], [], "1 damaged or torn record skipped"),
        ([part(1, A), part(0, B), part(1, C)], [A], "1 damaged or torn record skipped"),
        ([part(1, A), part(5, B), part(1, C)], [A], "1 damaged or torn record skipped"),
        ([part(1, A), part(1, B, length=len(B) + 1)], [A], "1 damaged or torn record skipped"),
        # Room that was allocated.
        ([part(1, A), bytes(40), part(1, B)], [A], ""),
        ([part(1, A), bytes(6)], [A], ""),
        ([part(1, A), part(1, b""), part(1, C)], [A, b"", C], ""),
    ],
)
def test_records_in_a_block(parts, contents, warning):
    warnings: list[Note] = []
    stream = io.BytesIO(b":W&B" + bytes(3) + b"".join(parts))
    assert list(wandb_offline._contents(stream, warnings)) == contents
    assert sentences_of(warnings) == [warning] * bool(warning)


def test_damage_costs_a_block_each(monkeypatch):
    monkeypatch.setattr(wandb_offline, "_BLOCK", 64)
    # The first block is shorter by the file's header.
    first = (part(1, A) + part(1, B, crc=5)).ljust(57, b"x")
    second = (part(1, C, crc=5)).ljust(64, b"x")
    warnings: list[Note] = []
    stream = io.BytesIO(b":W&B" + bytes(3) + first + second + part(1, C))
    assert list(wandb_offline._contents(stream, warnings)) == [A, C]
    assert sentences_of(warnings) == ["2 damaged or torn records skipped"]


@pytest.mark.parametrize(("longest", "found"), [(len(A + B), [A + B, C]), (len(A + B) - 1, [C])])
def test_a_record_of_the_longest_size(longest, found, monkeypatch):
    monkeypatch.setattr(wandb_offline, "_LONGEST", longest)
    stream = io.BytesIO(b":W&B" + bytes(3) + part(2, A) + part(4, B) + part(1, C))
    assert list(wandb_offline._contents(stream, [])) == found


def item(*keys, value, key=1):
    return b"".join(made_files.text(key, each) for each in keys) + made_files.text(16, value)


@pytest.mark.parametrize(
    ("content", "wanted", "found"),
    [
        (item("loss", value="2.5"), None, ("loss", 2.5)),
        (item("train", "loss", value="2.5", key=2), None, ("train.loss", 2.5)),
        (item("loss", value="2.5"), {"loss"}, ("loss", 2.5)),
        (item("loss", value="2.5"), {"other"}, ("loss", None)),
        (item("loss", value="torn"), None, ("loss", None)),
        (item("loss", value="[" * 100_000), None, ("loss", None)),
        (item("loss", value="1" * 127), None, ("loss", int("1" * 127))),
        (item("loss", value="1" * 128), None, ("loss", int("1" * 128))),
        # The value first, or another field behind it.
        (made_files.text(16, "2.5") + made_files.text(1, "loss"), None, ("loss", 2.5)),
        (item("loss", value="2.5") + made_files.text(3, "x"), None, ("loss", 2.5)),
        (made_files.text(1, "loss"), None, ("loss", None)),
    ],
)
def test_an_item(content, wanted, found):
    assert wandb_offline._item(content, wanted) == found


def test_nested_names_of_a_history():
    contents = wandb_offline._Contents(io.BytesIO(made_files.wandb_log([NESTED])), tracked.READ)
    assert contents.rows == [(0, {"_step": 9, "_runtime": int("3" * 200)})]
