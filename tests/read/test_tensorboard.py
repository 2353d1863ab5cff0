"""TensorBoard's event files: the format, and what the frameworks write into it."""

import io
import struct

import event_writer as writer
import pytest
import read_truth
from hypothesis import given, settings
from hypothesis import strategies as st

from tprimat import read
from tprimat.analysis.summary import summarize
from tprimat.read.parsing.parsed_log import InputFile
from tprimat.read.tensorboard import tfevents
from tprimat.read.tensorboard.reader import FILE_FORMATS

(FILES,) = FILE_FORMATS

RUNS = ("megatron_deepseek_mtp/", "megatron_gpt3-357m_dgx/", "nemo_autoconf_gpt3_126m/")
EMPTY = ("nemo_empty_40bytes/", "nemo_lightning_v0/")


def parts_of(folder):
    return [
        InputFile(path.name, io.BytesIO(path.read_bytes())) for path in sorted(folder.iterdir())
    ]


def run_of(content: bytes, *more: bytes, beside=None):
    parts = [InputFile(f"events.{n}", io.BytesIO(each)) for n, each in enumerate((content, *more))]
    (reading,) = FILES.read(parts, beside or {})
    return reading.run()


@pytest.mark.parametrize("name", [*RUNS, *EMPTY])
def test_scalars_and_texts_are_those_of_an_independent_reading(name, samples, truth):
    expected = truth("tfevents")[name]
    events = tfevents.Events()
    for part in parts_of(samples / "tfevents" / name):
        assert tfevents.is_event_file(part.stream.getvalue()[: read.HEAD])
        tfevents.read_into(part.stream, events)
    found = {
        tag: {
            "count": len(points),
            "first_step": points[0].step,
            "first": points[0].value,
            "last_step": points[-1].step,
            "last": points[-1].value,
        }
        for tag, points in events.scalars.items()
    }
    assert found == expected["tags"]
    assert len(events.texts) == expected["text_tags"]
    assert events.cut is None
    for point, value in zip(
        events.scalars.get("lm loss validation", ()),
        expected.get("eval_all_points", ()),
        strict=True,
    ):
        assert point.value == value


@pytest.mark.parametrize("name", RUNS)
def test_a_real_run_is_read_as_its_truth_says(name, samples, truth):
    expected = truth("tfevents")[name]
    (reading,) = FILES.read(parts_of(samples / "tfevents" / name), {})
    run = reading.run()
    # The accumulation isn't stated, and follows from batch, micro-batch and replicas.
    ignored = (
        "framework",
        "gradient_accumulation_steps",
        *(("status",) if expected["status"] is None else ()),
    )
    assert read_truth.check(run, expected, ignore=ignored) == []
    assert run.framework == ("nemo" if name.startswith("nemo") else "megatron")
    assert run.timestamp is not None
    if "wall_time_mean_step_s" in expected:
        assert run.native_metrics["event_seconds_per_step"] == pytest.approx(
            expected["wall_time_mean_step_s"]
        )
        assert any("request a global batch of 256" in warning for warning in run.warnings)
    if expected["eval"]:
        assert run.native_metrics["last_validation_loss"] == list(expected["eval"].values())[-1]


@pytest.mark.parametrize("name", EMPTY)
def test_files_without_a_training_are_declined_with_their_tags(name, samples):
    with pytest.raises(ValueError, match="no training scalars"):
        FILES.read(parts_of(samples / "tfevents" / name), {})


MEGATRON = writer.version() + b"".join(
    writer.event(1.7e9, 0, writer.text(f"{name}/text_summary", str(value)))
    for name, value in {
        "world_size": 8, "seq_length": 2048, "global_batch_size": 64, "micro_batch_size": 2, "train_iters": 20,
        "log_interval": 10, "tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 1, "bf16": True,
        "fp16": False, "num_layers": 24, "hidden_size": 1024, "num_attention_heads": 16,
    }.items()
)  # fmt: skip


def megatron_steps(first, last, seconds=0.5, every=1):
    return b"".join(
        writer.event(
            1.7e9 + step,
            step,
            writer.scalar("lm loss", 10 - step / 100),
            writer.scalar("batch-size", 64),
            *([writer.scalar("iteration-time", seconds)] if step % every == 0 else []),
        )
        for step in range(first, last + 1)
    )


def test_one_file_of_megatron_is_enough_for_a_rate():

    run = run_of(MEGATRON + megatron_steps(1, 20))
    assert run.training_config.num_gpus == 8
    assert run.parallelism_config.data_parallel_size == 4
    assert run.model_config.num_layers == 24
    assert run.status == "complete"
    assert summarize(run).performance.tokens_per_second_per_gpu == pytest.approx(
        64 * 2048 / 0.5 / 8
    )


def test_a_later_file_of_the_run_takes_the_place_of_what_it_runs_again():
    run = run_of(
        MEGATRON + megatron_steps(1, 12, seconds=1.0),
        writer.version() + megatron_steps(11, 20, seconds=0.5),
    )
    assert run.steps == tuple(range(1, 21))
    assert run.step_times == (1.0,) * 10 + (0.5,) * 10


def test_the_second_time_is_restored_where_it_is_a_mean_with_the_first_step():
    def written(second, third=1.0):
        ends = {1: 1.7e9, 2: 1.7e9 + 1.004, 3: 1.7e9 + 2.004}
        times = {1: 21.0, 2: second, 3: third}
        steps = (
            writer.event(
                end,
                step,
                writer.scalar("lm loss", 3.0),
                writer.scalar("iteration-time", times[step]),
            )
            for step, end in ends.items()
        )
        return run_of(writer.version() + b"".join(steps))

    run = written(11.0)
    assert run.step_times == pytest.approx((21.0, 1.0, 1.0))
    assert any("a mean that includes step 1" in warning for warning in run.warnings)
    assert written(1.0).step_times == pytest.approx((21.0, 1.0, 1.0))
    # A time that the events do not explain stays as it is.
    assert written(5.0).step_times == pytest.approx((21.0, 5.0, 1.0))


def test_a_mean_of_ten_steps_with_the_first_is_restored_to_that_of_the_nine():
    """21 s and nine steps of 1 s are 3 s on average."""
    steps = [
        writer.event(
            end, step, writer.scalar("lm loss", 3.0), writer.scalar("iteration-time", time)
        )
        for step, end, time in ((1, 1.7e9, 21.0), (10, 1.7e9 + 9, 3.0), (20, 1.7e9 + 19, 1.0))
    ]
    run = run_of(writer.version() + b"".join(steps))
    assert run.step_times == pytest.approx((21.0, 1.0, 1.0))


def test_times_of_an_interval_stand_at_its_end():
    run = run_of(MEGATRON + megatron_steps(1, 20, every=10))
    assert [step for step, time in zip(run.steps, run.step_times, strict=True) if time] == [10, 20]
    assert any("log_interval" in warning for warning in run.warnings)


def test_a_batch_that_grows_is_left_open():
    grown = b"".join(
        writer.event(
            1.7e9, step, writer.scalar("lm loss", 3.0), writer.scalar("batch-size", 32 * step)
        )
        for step in (1, 2)
    )
    run = run_of(writer.version() + grown)
    assert run.training_config.global_batch_size is None
    assert any("batch size changes" in warning for warning in run.warnings)


def test_torchtitan_and_transformers_and_lightning_by_their_tags():
    titan = b"".join(
        writer.event(
            1.7e9,
            step,
            writer.scalar("loss_metrics/global_avg_loss", 5.0),
            writer.scalar("throughput(tps)", 7e3),
        )
        for step in (1, 10, 20)
    )
    run = run_of(titan)
    assert (run.framework, run.steps) == ("torchtitan", (1, 10, 20))
    trainer = writer.event(
        1.7e9, 10, writer.scalar_tensor("train/loss", 2.5), writer.scalar("train/epoch", 0.1)
    )
    arguments = writer.event(
        1.7e9, 0, writer.text("args/text_summary", '{"per_device_train_batch_size": 4, "seed": 7}')
    )
    run = run_of(arguments + trainer)
    assert (run.framework, run.loss_values) == ("hf_trainer", (2.5,))
    assert run.training_config.micro_batch_size == 4
    plain = writer.event(1.7e9, 0, writer.scalar("train_loss", 2.5)) + writer.event(
        1.7e9, 49, writer.scalar("train_loss", 2)
    )
    beside = {
        "hparams.yaml": (
            b"seq_length: 512\nnum_nodes: 2\ndevices: 4\nprecision: bf16-mixed\nmodel:"
            b" !!python/o:os {}\n"
        )
    }
    run = run_of(plain, beside=beside)
    assert (run.framework, run.steps) == ("lightning", (1, 50))
    assert run.training_config.known() == {
        "sequence_length": 512,
        "num_gpus": 8,
        "precision": "bf16",
        "precision_detail": "bf16-mixed",
    }


@pytest.mark.parametrize(
    ("tags", "framework"),
    [
        (("learning/loss", "perf/step_time_seconds"), "maxtext"),
        (("train_loss", "perf/step_time"), "lightning"),
        (("loss", "perf/time_per_step"), "lightning"),
    ],
)
def test_step_times_of_other_frameworks(tags, framework):
    loss, seconds = tags
    events = (
        writer.event(
            1.7e9 + step, step, writer.scalar(loss, 3.0), writer.scalar(seconds, 2.0 + step / 16)
        )
        for step in range(4)
    )
    run = run_of(writer.version() + b"".join(events))
    assert run.framework == framework
    assert run.step_times == (2.0, 2.0625, 2.125, 2.1875)
    assert run.loss_values == (3.0,) * 4


def test_a_session_that_starts_again_takes_back_later_steps():
    events = tfevents.Events()
    one = b"".join(writer.event(1.7e9, step, writer.scalar("loss", step)) for step in range(5))
    tfevents.read_into(io.BytesIO(writer.version() + one + writer.restart(3)), events)
    assert [point.step for point in events.scalars["loss"]] == [0, 1, 2]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.floats(0, 4e9),
            st.integers(0, 2**62),
            st.text(min_size=1, max_size=20),
            st.floats(width=32, allow_nan=False),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_what_is_written_is_read_back(points):
    content = writer.version() + b"".join(
        writer.event(time, step, (writer.scalar_tensor if as_tensor else writer.scalar)(tag, value))
        for time, step, tag, value, as_tensor in points
    )
    events = tfevents.Events()
    tfevents.read_into(io.BytesIO(content), events)
    assert events.cut is None
    expected: dict[str, list[tuple[float, int, float]]] = {}
    for time, step, tag, value, _ in points:
        expected.setdefault(tag, []).append((time, step, value))
    assert {
        tag: [tuple(point) for point in found] for tag, found in events.scalars.items()
    } == expected


def test_a_file_cut_anywhere_keeps_what_is_whole():
    content = MEGATRON + megatron_steps(1, 6)
    ends = {len(MEGATRON + megatron_steps(1, count)): count for count in range(1, 7)}
    for end in range(len(MEGATRON) + 1, len(content) + 1):
        events = tfevents.Events()
        tfevents.read_into(io.BytesIO(content[:end]), events)
        whole = max([count for length, count in ends.items() if length <= end], default=0)
        assert len(events.scalars.get("lm loss", ())) == whole
        assert (events.cut is None) == (end in ends)


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=300), st.integers(0, 1000))
def test_damage_is_no_fault(noise, place):
    content = MEGATRON + megatron_steps(1, 3)
    place %= len(content)
    events = tfevents.Events()
    tfevents.read_into(io.BytesIO(content[:place] + noise + content[place + len(noise) :]), events)
    for points in events.scalars.values():
        assert all(isinstance(point.step, int) for point in points)
    # A length that is right by its checksum, and content that is no event.
    wrong = tfevents.Events()
    tfevents.read_into(io.BytesIO(writer.record(noise)), wrong)
    assert wrong.cut is None or "record" in wrong.cut


def test_a_length_that_cannot_be_is_not_read():
    length = struct.pack("<Q", 1 << 60)
    events = tfevents.Events()
    tfevents.read_into(io.BytesIO(length + writer.masked(length) + b"x" * 100), events)
    assert "damaged" in events.cut
    assert not tfevents.is_event_file(length + writer.masked(length))
