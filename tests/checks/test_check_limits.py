"""Where the answer of a check turns: each limit with a value just below it and one just above it.

Rows have numbers instead of the names of the constants, so that a changed constant fails its row.
"""

from __future__ import annotations

import math

import msgspec
import pytest
from limits import limits
from stored_runs import series

from tprimat.analysis import flops
from tprimat.analysis.summary import summarize
from tprimat.catalog import models
from tprimat.checks import compute, corrections, physics, training
from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.record.recorder import Pause
from tprimat.record.wall_time import timeline
from tprimat.results.account import Timing
from tprimat.results.run import (
    Data,
    GpuInfo,
    MemoryMetrics,
    ModelConfig,
    Run,
    Source,
    TrainingConfig,
)

UNIFORM = math.log(1024)
SHAPE = ModelConfig(
    num_layers=2, hidden_size=64, num_attention_heads=4, ffn_hidden_size=128, vocab_size=1024
)
CONFIG = TrainingConfig(global_batch_size=64, sequence_length=2048, num_gpus=8)
H100 = GpuInfo(device_name="NVIDIA H100 80GB HBM3")


def trained(losses, *, batch=8, length=128, **fields):
    config = TrainingConfig(global_batch_size=batch, sequence_length=length, num_gpus=1)
    known = {"model_config": SHAPE, "training_config": config, "loss_values": tuple(losses)}
    return Run(**{**series((1.0,) * len(losses)), **known, **fields})


def nature(losses, **fields):
    note = training.synthetic_data(trained(losses, **fields))
    return note and note.code


def is_same(losses, others, **fields):
    """Whether two runs on equal data are the same."""
    first, second = (trained(each, data=Data(digest="abc"), **fields) for each in (losses, others))
    return training.same_training(first, second).same


def with_bad_steps(count, bad):
    return is_same([7.0] * (count - bad) + [8.0] * bad, [7.0] * count)


def with_rates(rate, other):
    first, second = (
        trained([7.0] * 3, data=Data(digest="abc"), learning_rates=(each,) * 3)
        for each in (rate, other)
    )
    return training.same_training(first, second).same


def agreeing(factor):
    """The share of steps on which losses agree that differ by a factor."""
    first, second = (trained([loss] * 3) for loss in (7.0 * factor, 7.0))
    return training.same_training(first, second).agreeing_steps


def is_below_entropy(errors, count=20):
    """Whether a mean so many standard errors below the entropy is found, in a window of 20
    records.
    """
    losses = [2.0 - errors * 0.01 / math.sqrt(19) + 0.01 * (-1) ** step for step in range(count)]
    return training.below_entropy(trained(losses, data=Data(entropy=2.0))) is not None


@limits(
    (
        "above a uniform loss",
        lambda factor: nature([UNIFORM * factor] * 40),
        (1.019, "uniform-loss"),
        (1.021, None),
    ),
    (
        "below a uniform loss",
        lambda factor: nature([UNIFORM * factor] * 40),
        (0.979, None),
        (0.981, "uniform-loss"),
    ),
    (
        "least steps",
        lambda count: nature([UNIFORM] * count),
        (19, None),
        (20, "uniform-loss"),
    ),
    (
        "steps at the end",
        lambda count: nature([20.0] * (40 - count) + [UNIFORM] * count),
        (9, None),
        (10, "uniform-loss"),
    ),
    (
        "collapsed loss",
        lambda loss: nature([loss] * 40),
        (0.099, "collapsed-loss"),
        (0.101, None),
    ),
    # 0.98 and 1.02 thousand million tokens.
    (
        "tokens of a collapse",
        lambda batch: nature([0.01] * 40, batch=batch, length=1000),
        (24_500, "collapsed-loss"),
        (25_500, None),
    ),
    ("loss of a step, higher", agreeing, (1.049, 1.0), (1.051, 0.0)),
    ("loss of a step, lower", agreeing, (0.949, 0.0), (0.951, 1.0)),
    ("share of bad steps", lambda bad: with_bad_steps(1000, bad), (10, True), (11, False)),
    ("one bad step", lambda bad: with_bad_steps(40, bad), (1, True), (2, False)),
    (
        "first loss, higher",
        lambda loss: is_same([loss, 7.0], [7.0] * 2),
        (7.0 * 1.0095, True),
        (7.0 * 1.0105, False),
    ),
    (
        "first loss, lower",
        lambda loss: is_same([loss, 7.0], [7.0] * 2),
        (7.0 * 0.9895, False),
        (7.0 * 0.9905, True),
    ),
    ("learning rate", lambda rate: with_rates(rate, 1e-4), (1.00095e-4, True), (1.00105e-4, False)),
    (
        "learning rate of zero",
        lambda rate: with_rates(rate, 0.0),
        (0.95e-12, True),
        (1.05e-12, False),
    ),
    ("standard errors below the entropy", is_below_entropy, (3.9, False), (4.1, True)),
    ("records of a window", lambda count: is_below_entropy(9.0, count), (19, False), (20, True)),
)
def test_the_training_and_its_data(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def test_windows_of_twenty_records_are_told_one_by_one():
    losses = [2.5 + 0.01 * (-1) ** step for step in range(20)] + [
        1.9 + 0.01 * (-1) ** step for step in range(20)
    ]
    note = training.below_entropy(trained(losses, data=Data(entropy=2.0)))
    assert "from record 21 on is 1.9000" in words(note)


@pytest.mark.parametrize(("count", "is_found"), [(38, False), (39, False), (40, True), (41, True)])
def test_a_window_at_the_end_needs_all_its_records(count, is_found):
    losses = [(2.5 if step < 20 else 1.9) + 0.01 * (-1) ** step for step in range(count)]
    assert (training.below_entropy(trained(losses, data=Data(entropy=2.0))) is not None) == is_found


def timed(times=(1.0,) * 40, **fields):
    return Run(**{**series(times), "training_config": CONFIG, **fields})


def judged(run):
    """The severity and the rule of what is found in a run; None if nothing is."""
    found = physics.findings(run, summarize(run))
    assert len(found) < 2
    return (found[0].severity, found[0].rule) if found else None


def with_rate(factor):
    """What is found where the printed tokens/s are so many times those of batch, length and step
    time.
    """
    return judged(timed(native_metrics={"tokens_per_second": 64 * 2048 * factor}))


def is_read_as_a_share(factor):
    """Whether a smaller printed rate is told in percent, and not as tokens that are left out."""
    (found,) = physics.findings(
        run := timed(native_metrics={"tokens_per_second": 64 * 2048 * factor}), summarize(run)
    )
    return "from batch × sequence length" in words(found.note)


def with_power(watts, seconds):
    metrics = {
        "mean_power_watts_per_gpu": watts,
        "measured_seconds": seconds,
        "power_cap_watts": 700.0,
    }
    return judged(timed(gpu_info=H100, energy_metrics=metrics))


def with_memory(used):
    gpu = GpuInfo(device_name="NVIDIA Q1000", total_memory_gb=100.0)
    return judged(
        timed(gpu_info=gpu, memory_metrics=MemoryMetrics(peak_memory_device_used_gb=used))
    )


def is_gib(used):
    gpu = GpuInfo(device_name="NVIDIA Q1000", total_memory_gb=100.0)
    run = timed(gpu_info=gpu, memory_metrics=MemoryMetrics(peak_memory_device_used_gb=used))
    (found,) = physics.findings(run, summarize(run))
    return any("GiB reported as GB" in each for each in map(words, found.explanations))


def is_above_the_peak(share):
    """Whether products with the weights at such a share of the peak count with attention where
    packing is unknown.

    At 65,536 tokens attention alone costs more than the rest of the peak.
    """
    shape, length = models.by_name("llama").shape, 65_536
    rate = share * 989.4e12 / flops.flops_per_token(shape, 0)
    config = TrainingConfig(
        global_batch_size=8, sequence_length=length, num_gpus=1, precision="bf16"
    )
    run = timed(
        (8 * length / rate,) * 40, model_config=shape, training_config=config, gpu_info=H100
    )
    return "above-peak" in {each.rule for each in physics.findings(run, summarize(run))}


def recorded(*, times=1.0, wall=1.0, ranks="one process", kind="live", start_up=0.0, pauses=()):
    """The findings on 40 recorded steps whose step times and timeline are 1 s each, both times a
    factor.
    """
    entries = timeline(start_up, {step: wall * step for step in range(1, 41)}, pauses, 1, 45.0)
    timing = Timing(kind="timer", clock="monotonic", over_ranks=ranks)
    return judged(timed((times,) * 40, timeline=entries, timing=timing, source=Source(kind=kind)))


WARNING, ERROR = ("warning", "own-rate"), ("error", "own-rate")
OWN_TIME = ("error", "own-time")
CAP, MEMORY = ("error", "above-power-cap"), ("error", "beyond-memory")


def prints(factor, *, name="tokens_per_second", noise=0.0, steps=40, since=0):
    """Whether rates of records times their step times are found to be no work of one batch, from a
    record on.
    """
    times = tuple(1.0 + step % 5 / 50 for step in range(steps))
    work = [
        1.0 + (factor - 1 if step >= since else 0) + noise * (-1) ** step for step in range(steps)
    ]
    rates = tuple(64 * 2048 * each / time for each, time in zip(work, times, strict=True))
    run = Run(**series(times), training_config=CONFIG, native_metrics={name: rates})
    found = [
        each
        for each in physics.findings(run, summarize(run))
        if "times their step times" in words(each.note)
    ]
    return [(each.severity, each.rule) for each in found] == [("warning", "contradiction")]


TFLOPS = "tflops_per_gpu"


@limits(
    ("tokens of records, fewer", prints, (0.979, True), (0.981, False)),
    ("tokens of records, more", prints, (1.019, False), (1.021, True)),
    # Beyond 5% it is another finding, of the rate of the run.
    ("many more tokens", prints, (1.049, True), (1.051, False)),
    (
        "FLOP/s that change",
        lambda factor: prints(factor, name=TFLOPS, since=20),
        (1.019, False),
        (1.021, True),
    ),
    (
        "any FLOP/s that don't",
        lambda factor: prints(factor, name=TFLOPS),
        (0.5, False),
        (2.0, False),
    ),
    ("records", lambda steps: prints(1.03, steps=steps), (15, False), (16, True)),
    ("other records", lambda noise: prints(1.03, noise=noise), (0.0024, True), (0.0027, False)),
)
def test_x5_what_a_record_prints_of_its_work(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


@limits(
    ("the same rate, higher", with_rate, (1.0095, None), (1.0105, WARNING)),
    ("the same rate, lower", with_rate, (0.9895, WARNING), (0.9905, None)),
    ("a near rate, higher", with_rate, (1.049, WARNING), (1.051, ERROR)),
    ("a near rate, lower", is_read_as_a_share, (0.949, False), (0.951, True)),
    # The first step may have begun before a pause, so that 40 steps are compared with the wall time
    # of 39 and start-up.
    (
        "step times above the wall time",
        lambda times: recorded(times=times),
        (1.0099, None),
        (1.0101, OWN_TIME),
    ),
    (
        "the same after start-up",
        lambda times: recorded(times=times, start_up=9.0),
        (1.035, None),
        (1.037, OWN_TIME),
    ),
    (
        "step times below the wall time",
        lambda times: recorded(times=times),
        (0.9899, OWN_TIME),
        (0.9901, None),
    ),
    ("power above the cap", lambda watts: with_power(watts, 60.0), (769.0, None), (771.0, CAP)),
    ("seconds of power", lambda seconds: with_power(900.0, seconds), (9.9, None), (10.0, CAP)),
    ("memory of the device", with_memory, (100.09, None), (100.11, MEMORY)),
    ("GiB as GB", is_gib, (107.4, True), (107.6, False)),
    ("share of the weights", is_above_the_peak, (0.89, False), (0.91, True)),
)
def test_what_is_possible(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


@pytest.mark.parametrize(
    ("times", "more"),
    [
        (1.1, {"ranks": "max over 8 ranks"}),
        (1.1, {"kind": "log"}),
        (0.9, {"kind": "log"}),
        (0.9, {"pauses": [Pause(50.0, 51.0)]}),
    ],
)
def test_step_times_need_not_add_up_to_a_wall_time_of_something_else(times, more):
    assert recorded(times=times, **more) is None


def test_the_longest_times_over_ranks_add_up_to_no_less_than_one_rank_took():
    assert recorded(times=0.9, ranks="max over 8 ranks") == OWN_TIME


def test_a_pause_within_the_first_step_moves_its_beginning_to_the_start_up():
    entries = timeline(0.0, {1: 31.0, 2: 32.0}, [Pause(29.0, 30.0, "evaluation")], 1, 32.0)
    timing = Timing(kind="timer", over_ranks="one process")
    assert (
        judged(timed((30.0, 1.0), timeline=entries, timing=timing, source=Source(kind="live")))
        is None
    )


def test_the_memory_of_a_process_is_not_held_against_a_device_that_is_none():
    gpu, memory = GpuInfo(total_memory_gb=1.0), MemoryMetrics(peak_memory_process_gb=2.0)
    run = timed(platform="cpu", gpu_info=gpu, memory_metrics=memory)
    assert judged(run) is None
    assert judged(msgspec.structs.replace(run, platform="nvd")) == MEMORY


def test_what_neither_of_two_runs_states_differs_in_nothing():
    run = timed()
    assert compute.config_diff(run, run).verdict == "same configuration"
    config = msgspec.structs.replace(CONFIG, precision="bf16")
    assert compute.config_diff(run, timed(training_config=config)).verdict == "best configuration"


def test_the_first_of_a_printed_series_does_not_count():
    run = timed((1.0,) * 3, native_metrics={"tokens_per_second_per_gpu": (900.0, 100.0, 300.0)})
    assert physics.printed_tokens_per_second(run) == pytest.approx(8 * 150.0)


@pytest.mark.parametrize(
    ("window", "seconds"),
    [("steady", 1.0), ("all after the first", 45 / 39), ("all", 55 / 40)],
)
def test_a_printed_rate_may_be_of_each_window(window, seconds):
    times = (10.0, 4.0, 4.0, *(1.0,) * 37)
    assert judged(timed(times, native_metrics={"tokens_per_second": 64 * 2048 / seconds})) is None


def test_a_printed_rate_may_be_of_the_median_step():
    # Pauses at the end make all three means longer.
    times = (*(1.0,) * 35, *(3.0,) * 5)
    assert judged(timed(times, native_metrics={"tokens_per_second": 64 * 2048 / 1.0})) is None


def corrected(factor, *, batch=64, gpus=8, **native):
    config = TrainingConfig(global_batch_size=batch, sequence_length=2048, num_gpus=gpus)
    run = timed(training_config=config, native_metrics=native)
    return [*map(words, corrections.tokens_per_step(run, factor))]


def offers(text, factor, **fields):
    return any(each.startswith(text) for each in corrected(factor, **fields))


def explains(text, share, *, gpus=1, precision=None):
    config = TrainingConfig(
        global_batch_size=8, sequence_length=2048, num_gpus=gpus, precision=precision
    )
    return any(
        words(each).startswith(text)
        for each in corrections.above_peak(timed(training_config=config), share)
    )


def rules_out(factor):
    """Whether 16 instead of 8 GPUs are ruled out by rates whose quotient is so many times 8."""
    (text,) = (
        each
        for each in corrected(
            2.0, tokens_per_second=8000.0 * factor, tokens_per_second_per_gpu=1000.0
        )
        if each.startswith("16 GPUs instead of 8")
    )
    return "ruled out" in text


def fits_length(factor):
    shape = models.by_name("llama").shape
    work = flops.flops_per_token(shape, 2048) * 2048 * factor
    first, *_ = corrections.flops_per_step(shape, 8192, work)
    return first == Note("counted-length", {"length": 2048, "stated": 8192})


@limits(
    (
        "fit, higher",
        lambda factor: offers("sequence length 4096", factor),
        (2.0019, True),
        (2.0021, False),
    ),
    (
        "fit, lower",
        lambda factor: offers("sequence length 4096", factor),
        (1.9979, False),
        (1.9981, True),
    ),
    (
        "division",
        lambda batch: offers("global batch 21 instead", 1 / 3, batch=batch),
        (63, True),
        (64, False),
    ),
    ("all GPUs", lambda share: explains("total of 8", share, gpus=8), (8.0, True), (8.1, False)),
    ("a tenth", lambda share: explains("total of 20", share, gpus=20), (1.98, False), (2.02, True)),
    ("one GPU", lambda gpus: explains(f"total of {gpus}", 1.0, gpus=gpus), (1, False), (2, True)),
    ("FP8", lambda share: explains("FP8", share, precision="fp16"), (2.0, True), (2.01, False)),
    ("half", lambda share: explains("half the declared", share), (2.0, True), (2.01, False)),
    ("LoRA", lambda share: explains("frozen weights", share), (1.49, True), (1.5, False)),
    ("ruled out", rules_out, (1.0009, True), (1.0011, False)),
    ("FLOPs of a length", fits_length, (0.979, False), (0.981, True)),
)
def test_what_explains_it(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def test_explanations_come_in_the_order_of_their_support():
    starts = [each.partition(" instead")[0].partition(" (")[0] for each in corrected(8.0)]
    units = "total rate reported as per-GPU"
    assert starts == [units, "sequence length 16384", "global batch 512", "64 GPUs"]


@pytest.mark.parametrize("times", [2, 4, 8, 16])
def test_a_number_of_gpus_may_be_a_power_of_two_off(times):
    assert offers(f"{32 * times} GPUs instead of 32", float(times), gpus=32)
    assert offers(f"{32 // times} GPUs instead of 32", 1 / times, gpus=32)
    # 31 GPUs can't be divided by a power of two, but they can be multiplied by one.
    assert not offers(f"{31 // times} GPUs instead of 31", 1 / times, gpus=31)
    assert offers(f"{31 * times} GPUs instead of 31", float(times), gpus=31)
    assert ("dual-die" in " ".join(corrected(float(times), gpus=32))) == (times == 2)


@pytest.mark.parametrize(
    "times", [2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 256]
)
def test_a_batch_may_be_each_usual_multiple_or_share(times):
    batch = 768 * 35
    assert offers(
        f"global batch {batch * times} instead of {batch}, or {times} times",
        float(times),
        batch=batch,
    )
    if batch % times == 0:
        assert offers(
            f"global batch {batch // times} instead of {batch}, or 1/{times} of",
            1 / times,
            batch=batch,
        )


@pytest.mark.parametrize("length", [1024, 4096, 8192, 16384, 32768, 65536, 131072])
def test_a_sequence_may_have_each_usual_length(length):
    assert offers(f"sequence length {length} instead of 2048", length / 2048)
    shape = models.by_name("llama").shape
    for causal in (True, False):
        work = flops.flops_per_token(shape, length, causal=causal) * length
        note = Note("counted-length", {"length": length, "stated": 2048})
        assert note in corrections.flops_per_step(shape, 2048, work)
        assert words(note) == f"sequence length {length} instead of 2048"


@pytest.mark.parametrize(
    ("factor", "text"),
    [
        (1 / 8, "per-GPU rate reported as the total (the factor is exactly 1/8)"),
        (8.0, "total rate reported as per-GPU (the factor is exactly 8)"),
        (1000.0, "milliseconds read as seconds (the factor is exactly 1000)"),
        (1 / 1000, "milliseconds read as seconds (the factor is exactly 1000)"),
        (1.073741824, "GiB read as GB (the factor is exactly 1.0737)"),
        (1 / 1.073741824, "GiB read as GB (the factor is exactly 1.0737)"),
    ],
)
def test_a_unit_is_named_first(factor, text):
    assert corrected(factor)[0] == text


@pytest.mark.parametrize(
    ("framework", "model", "device", "sizes"),
    [
        ("primus", "llama", "AMD Instinct MI300X", (2, 128, 8192)),
        ("primus", "qwen", "AMD Instinct MI300X", (10, 640, 2048)),
        ("primus", "llama", "AMD Instinct MI325X", (4, 128, 8192)),
        ("primus", "qwen", "AMD Instinct MI325X", (12, 384, 2048)),
        ("primus", "llama", "AMD Instinct MI355X", (4, 256, 8192)),
        ("primus", "qwen", "AMD Instinct MI355X", (16, 768, 2048)),
        ("nemo", "llama", "NVIDIA H100 80GB HBM3", (1, 512, 8192)),
        ("nemo", "qwen", "NVIDIA H100 80GB HBM3", (2, 32, 4096)),
        ("nemo", "mistral", "NVIDIA H100 80GB HBM3", (1, 512, 4096)),
    ],
)
def test_each_shipped_configuration_supports_its_length_and_its_batch(
    framework, model, device, sizes
):
    micro, batch, length = sizes
    shipped = TrainingConfig(
        micro_batch_size=micro, global_batch_size=batch, sequence_length=length, num_gpus=8
    )

    def supported(**changes):
        config, gpu = msgspec.structs.replace(shipped, **changes), GpuInfo(device_name=device)
        run = timed(training_config=config, framework=framework, model=model, gpu_info=gpu)
        texts = map(words, corrections.tokens_per_step(run, 2.0))
        return [text for text in texts if f": the {framework} default for this model" in text]

    (text,) = supported(sequence_length=length // 2)
    assert text.startswith(f"sequence length {length} instead of {length // 2}")
    (text,) = supported(global_batch_size=batch // 2)
    assert text.startswith(f"global batch {batch} instead of {batch // 2}")
    # At half of both neither one alone makes it.
    assert supported(sequence_length=length // 2, global_batch_size=batch // 2) == []
    assert supported(sequence_length=length // 2, micro_batch_size=micro + 1) == []


def test_a_shipped_configuration_is_named_first():
    # Primus on MI300X takes 128 sequences of 8,192 tokens.
    config = TrainingConfig(
        global_batch_size=128, sequence_length=2048, micro_batch_size=2, num_gpus=8
    )
    gpu = GpuInfo(device_name="AMD Instinct MI300X")
    run = timed(training_config=config, framework="primus", model="llama", gpu_info=gpu)
    first, *others = corrections.tokens_per_step(run, 4.0)
    assert first.code == "default-length"
    assert words(first).startswith(
        "sequence length 8192 instead of 2048: the primus default for this model"
    )
    assert not any("default" in each.code for each in others)
    for change in ({"framework": "megatron"}, {"model": "qwen"}, {"gpu_info": H100}):
        assert not any(
            "default" in each.code
            for each in corrections.tokens_per_step(msgspec.structs.replace(run, **change), 4)
        )
    for size in ("micro_batch_size", "global_batch_size"):
        other = msgspec.structs.replace(
            run, training_config=msgspec.structs.replace(config, **{size: 64})
        )
        assert not any("default" in each.code for each in corrections.tokens_per_step(other, 4.0))
