"""Where the reading of a log turns: each limit with a value just below it and one just above it."""

from __future__ import annotations

import datetime
import itertools
import json

import msgspec
import pytest
from limits import limits
from made_mlperf import Log, mlperf_log
from made_runs import said
from made_traces import MadeTrace
from stored_runs import series

from tprimat import read
from tprimat.analysis.run_account import account_of
from tprimat.errors import UnreadableError
from tprimat.log_import import load
from tprimat.read import merge
from tprimat.read.parsing.events import event_in
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.torn import TornLines
from tprimat.read.parsing.values import whole_ratio
from tprimat.results.run import Run, Source

BEGIN = datetime.datetime(2026, 5, 11, 2)


def single(lines):
    """The run of a log that holds one training."""
    (log,) = read.parse_chunks(["\n".join([*lines, ""]).encode()], "train.log")
    return log.run()


def line(at, step, seconds=1.0, *, loss=None, resolution="microseconds", **more):
    """A line of a step in MaxText's form, printed so many seconds after the beginning."""
    stamp = (
        ""
        if at is None
        else (BEGIN + datetime.timedelta(seconds=at)).isoformat(" ", resolution) + " "
    )
    others = "".join(f"{name.replace('_', '/')}: {value}, " for name, value in more.items())
    return (
        f"{stamp}completed step: {step}, seconds: {seconds:.6f}, {others}loss:"
        f" {loss or 5 - step / 100:.5f}"
    )


def steps_of(*lines):
    run = single(lines)
    return len(run.steps), bool(said(run, "restarted"))


def again(after, *, seconds=1.0, factor=1.0):
    """Whether a step that is printed again so much later is another attempt, or the same of another
    rank.
    """
    lines = [line(seconds * step, step, seconds) for step in range(20)]
    run = single([*lines, line(19 * seconds + after, 19, seconds * factor, loss=4.81)])
    return (
        "restart"
        if said(run, "restarted")
        else "conflict"
        if said(run, "printed twice")
        else "double"
    )


def trainings_from(step):
    """How many runs a log holds whose steps begin again, an hour later, from such a step."""
    lines = [line(float(number), number) for number in range(3, 20)]
    lines += [line(3600.0 + number, number, loss=4.5) for number in range(step, 20)]
    return len(read.parse_chunks(["\n".join([*lines, ""]).encode()], "train.log"))


def again_unstamped(factor):
    lines = [f"step:{step} - train/loss:1.2{step} - train/time(s):3.0000" for step in range(10, 20)]
    run = single([*lines, f"step:19 - train/loss:1.219 - train/time(s):{3 * factor:.4f}"])
    return "restart" if said(run, "restarted") else "double"


def by_another_rank(step):
    """Whether a step that another rank prints after step 19 is another attempt, in a log without
    times.
    """
    lines = [
        f"[rank0]:step: {number}  loss: 9.1  memory: 31.0GiB(25%)  tps: 5,000"
        for number in range(10, 20)
    ]
    return bool(
        said(
            single([*lines, f"[rank1]:step: {step}  loss: 9.1  memory: 32.0GiB(25%)  tps: 6,000"]),
            "restarted",
        )
    )


def rates_disagree(factor):
    config = [
        "Config param per_device_batch_size: 1",
        "Config param max_target_length: 8192",
        "Num_devices: 8, shape (1, 8)",
    ]
    lines = [line(None, step, Tokens_s_device=f"{8192 * factor:.3f}") for step in range(10)]
    return bool(said(single([*config, *lines]), "print tokens/s/GPU that disagree"))


def tokens_vary(factor):
    tokens = itertools.accumulate(
        [1000.0 if step % 2 else 1000.0 * factor for step in range(1, 21)]
    )
    lines = [
        f"{{'loss': 1.5, 'grad_norm': 0.45, 'learning_rate': 1e-06, 'num_tokens': {each},"
        f" 'step_time': 12.5, 'epoch': {step / 30:.4f}}}"
        for step, each in enumerate(tokens, start=1)
    ]
    return bool(said(single(lines), "sequence lengths vary"))


def gaps(count):
    """How many stretches without a record are left unnamed of so many."""
    missing = {7 * number for number in range(1, count + 1)}
    run = single([line(None, step) for step in range(7 * count + 5) if step not in missing])
    return said(run, "no record of", "and 1 more")


@limits(
    ("same moment", again, (1.99, "double"), (2.01, "restart")),
    ("half a step", lambda after: again(after, seconds=100.0), (49.9, "double"), (50.1, "restart")),
    (
        "figures of one step",
        lambda factor: again(1.0, factor=factor),
        (1.052, "double"),
        (1.053, "conflict"),
    ),
    ("first step again", trainings_from, (3, 2), (4, 1)),
    ("figures of ranks", again_unstamped, (1.052, "double"), (1.053, "restart")),
    ("steps of another rank", by_another_rank, (16, True), (17, False)),
    ("printed rate", rates_disagree, (1.0095, False), (1.0105, True)),
    ("lengths of sequences", tokens_vary, (1.049, False), (1.051, True)),
    ("stretches that are named", gaps, (12, False), (13, True)),
)
def test_records(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def alike(losses=40, *, factor=1.0, unlike=0, time=1.0, slow=0, runtime=None):
    """Whether two sources describe one training: some losses differ by a factor, and some step
    times by another.
    """
    first = Run(
        **{**series([1.0] * losses), "loss_values": tuple(5 - step / 100 for step in range(losses))}
    )
    first = msgspec.structs.replace(first, source=Source(kind="log", dialect="a console"))
    values = [
        value * (factor if step < unlike else 1.0) for step, value in enumerate(first.loss_values)
    ]
    times = [time if step < slow else 1.0 for step in range(losses)]
    source = Source(kind="log", dialect="a file")
    second = msgspec.structs.replace(
        first, loss_values=tuple(values), step_times=tuple(times), source=source
    )
    if runtime:
        first, second = (
            msgspec.structs.replace(run, native_metrics={"train_runtime_seconds": seconds})
            for run, seconds in ((first, 100.0), (second, 100.0 * runtime))
        )
    return merge.same_training(first, second)


@limits(
    ("steps in common", alike, (2, False), (3, True)),
    (
        "digits of a loss",
        lambda factor: alike(factor=factor, unlike=40),
        (1.00049, True),
        (1.00051, False),
    ),
    (
        "losses that differ",
        lambda count: alike(100, factor=1.1, unlike=count),
        (5, True),
        (6, False),
    ),
    ("step times", lambda time: alike(time=time, slow=40), (1.0049, True), (1.0051, False)),
    (
        "step times that differ",
        lambda count: alike(100, time=2.0, slow=count),
        (10, True),
        (11, False),
    ),
    ("total time", lambda factor: alike(runtime=factor), (1.00049, True), (1.00051, False)),
)
def test_two_sources_of_one_training(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


@limits(
    # Six digits tell more, but the values needn't be of the very same moment.
    (
        "ratio above",
        lambda value: whole_ratio((value,), ("1.00000",)),
        ("8.00079", 8),
        ("8.00081", None),
    ),
    (
        "ratio below",
        lambda value: whole_ratio((value,), ("1.00000",)),
        ("7.99919", None),
        ("7.99921", 8),
    ),
)
def test_a_whole_ratio(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def window(shifted):
    """The steps that the last of 20 records averages, one in ten steps but for some that come three
    steps late.
    """
    records = []
    for number in range(20):
        step = 10 * number + 9 + (3 if 5 <= number < 5 + shifted else 0)
        data = {"reduced_train_loss": 2.5, "train_step_timing in s": 1.0}
        records.append(
            f"DLLL {json.dumps({'timestamp': 1.7e9 + step, 'step': step, 'data': data})}"
        )
    return single(records).window_steps[-1]


def is_quoted(count):
    """Whether a document that quotes so many lines of a log is read as a training."""
    content = json.dumps([line(None, step) for step in range(count)], indent=1)
    try:
        return bool(read.parse_chunks([content.encode()], "notes.json"))
    except UnreadableError:
        return False


def mlperf_steps(miss=0.0, pauses=0):
    """A run of MLPerf with a record of every fourth step, whose times miss the wall clock by a
    share, or at pauses.
    """
    log = Log()
    log.setup()
    log.now += 1_000_000
    log.event("block_start", samples_count=0)
    for step in range(4, 201, 4):
        log.now += 4_000_000 + (1_000_000 if 4 < step <= 4 + 4 * pauses else 0)
        log.event(
            "tracked_stats",
            {"train_step_time": 1000.0 * (1 - miss)},
            samples_count=step * log.batch,
        )
    log.event("block_stop", samples_count=200 * log.batch)
    log.event("run_stop", samples_count=200 * log.batch, status="success")
    return single([log.text()])


def kind_of_times(miss=0.0, pauses=0):
    """Which timer such a run has."""
    return mlperf_steps(miss, pauses).timing.kind


def iteration(at, number, seconds=2.0, loss=2.5, resolution="microseconds"):
    """A line of an iteration in Megatron's form."""
    stamp = (BEGIN + datetime.timedelta(seconds=at)).isoformat(" ", resolution)
    return (
        f" [{stamp}] iteration {number:8d}/     500 | elapsed time per iteration (ms):"
        f" {1e3 * seconds:.1f} | learning rate: 1.0E-04 | global batch size:    64 | lm loss:"
        f" {loss:.6E} | grad norm: 1.000 |"
    )


def is_placed(miss):
    """Whether records are read as steps whose times miss the wall clock by such a share."""
    return len(mlperf_steps(miss).steps) == 50


def pause(seconds):
    """Whether time is unknown that passes between two records of ten steps of 2 s, in addition to
    these.
    """
    stamps = [20.0 * number + (seconds if number > 10 else 0.0) for number in range(1, 21)]
    lines = [iteration(at, 10 * number) for number, at in enumerate(stamps, start=1)]
    return "unknown" in account_of(single(lines)).parts


def stretch(seconds):
    """Whether time is unknown where stamps in whole seconds say that ten steps of 1 s take so
    long.
    """
    ends = (10.0, 10.0 + seconds, 40.0 + seconds)
    first, second, third = (
        iteration(at, 10 * n, 1.0, resolution="seconds") for n, at in enumerate(ends, start=1)
    )
    return (
        "unknown"
        in account_of(
            single([first, second, " validation loss at iteration 20 | lm loss value: 2.5", third])
        ).parts
    )


def torn(last, times=1):
    """The end of a line as it is read whose last number is smaller than that of the lines before
    it.
    """
    given = []
    lines = TornLines()
    for number, text in enumerate((*["tokens 8000"] * 3, *[f"tokens {last}"] * times), start=1):
        lines.read(Line(number, text, True), lambda each: bool(given.append(each.text)) or True)
    return given[-1]


def unread(count):
    """Whether more labels of a line aren't read than are named."""
    labels = "".join(f" figure {chr(97 + number)}: 1.0 |" for number in range(count))
    return bool(
        said(
            single([iteration(2.0 * number, number) + labels for number in range(1, 9)]),
            "labels not read",
            "…",
        )
    )


def rated(rate):
    """Whether a rate of Composer gives a step time."""
    log = [
        f"[batch={n}/9]:\n\t Train throughput/batches_per_sec: {rate}\n\t Train"
        " loss/train/total: 2.5"
        for n in range(1, 9)
    ]
    return single(log).step_times[0] is not None


def is_interval(step):
    """Whether the second of two records of torchtitan is one step, as far as is known."""
    log = [
        f"[rank0]:[titan] 2026-01-01 00:00:{n:02} - root - INFO - step: {n:2}  loss: 9.1  tps:"
        " 5,000"
        for n in (1, step)
    ]
    return bool(said(single(log), "log_freq isn't stated"))


def is_dated(place):
    """Whether a time at such a place is that of its line."""
    return (
        event_in("." * place + " 2026-05-11 02:00:00 saving checkpoint at iteration 5")[0]
        is not None
    )


def repeated(after):
    """Whether an iteration of 100 s that is printed again so much later is another attempt."""
    lines = [iteration(100.0 * number, number, 100.0) for number in range(1, 6)]
    return bool(said(single([*lines, iteration(500.0 + after, 5, 100.0)]), "restarted"))


def second_of_first(miss):
    """The second step's time where its line may be the mean with the first one, and stamps miss it
    by a share.
    """
    rest = [iteration(20.0 + 2 * number, number) for number in range(3, 20)]
    lines = [iteration(10.0, 1, 10.0), iteration(10.0 + 2.0 * (1 + miss), 2, 6.0)]
    return single([*lines, *rest]).step_times[1]


def second_by(resolution):
    """The second step's time where coarse stamps fit its own and the mean with the first, and finer
    ones only one.
    """
    rest = [iteration(11.0 + 2 * number, number, resolution=resolution) for number in range(3, 20)]
    lines = [
        iteration(10.0, 1, 3.0, resolution=resolution),
        iteration(12.0, 2, 2.5, resolution=resolution),
    ]
    return single([*lines, *rest]).step_times[1]


def second_after_pause(seconds):
    """The same for the second step after a pause, in which another process may have started."""
    lines = [iteration(2.0 * number, number) for number in range(1, 11)]
    begin = 20.0 + seconds + 10.0
    lines += [iteration(begin, 11, 10.0), iteration(begin + 2.0, 12, 6.0)]
    return single(
        [*lines, *(iteration(begin + 2.0 * (number - 11), number) for number in range(13, 20))]
    ).step_times[11]


def conflicts(count):
    """How many iterations are named that are printed twice with different losses."""
    pairs = (
        (iteration(2.0 * number, number), iteration(2.0 * number, number, loss=2.6))
        for number in range(1, count + 1)
    )
    return sum("printed twice" in each for each in single(itertools.chain(*pairs)).warnings)


def has_memory(count):
    """Whether memory is read that Megatron prints behind so many iterations of a process."""
    lines = [iteration(2.0 * number, number) for number in range(1, 12)]
    memory = "allocated: 1000.0 | max allocated: 2000.0 | reserved: 3000.0 | max reserved: 3000.0"
    lines.insert(count, f"[Rank 0] (after 2 iterations) memory (MB) | {memory}")
    return bool(single(lines).memory_metrics.known())


def restarts(count):
    """How many restarts are named."""
    lines = [iteration(2.0, 1), iteration(4.0, 2)]
    lines += [iteration(100.0 * number, 2) for number in range(1, count + 1)]
    return sum("restarted on line" in each for each in single(lines).warnings)


def trainings(after_ms):
    """How many runs an MLPerf log holds that states its start again so much later."""
    log = Log()
    log.setup()
    log.now += after_ms
    log.event("run_start")
    log.event("block_start", samples_count=0)
    log.now += 60_000
    log.event("block_stop", samples_count=4 * log.batch)
    log.event("run_stop", samples_count=4 * log.batch, status="success")
    return len(read.parse_chunks([log.text().encode()], "result_0.txt"))


def spread(count):
    """The batch of an MLPerf log whose statement is spread over so many further lines."""
    text = mlperf_log(batch=48)
    (stated,) = (each for each in text.splitlines() if '"global_batch_size"' in each)
    size = len(stated) // (count + 1) + 1
    pieces = [stated[begin : begin + size] for begin in range(0, len(stated), size)]
    assert len(pieces) == count + 1
    return single([text.replace(stated, "\n".join(pieces))]).training_config.global_batch_size


@limits(
    ("lines where an interval has them", window, (4, 10), (5, 1)),
    ("steps of a document", is_quoted, (2, False), (3, True)),
    ("sampled times", kind_of_times, (0.0009, "partial"), (0.0011, "sampled")),
    ("times of another unit", is_placed, (0.32, True), (0.35, False)),
    # Of 49 distances between records most must fit.
    ("pauses", lambda pauses: kind_of_times(pauses=pauses), (24, "partial"), (25, "sampled")),
    ("pause", pause, (1.9, False), (2.1, True)),
    ("seconds that show a step", stretch, (19.0, True), (20.0, False)),
    ("a quarter of the number before", torn, (1999, "tokens ?"), (2001, "tokens 2001")),
    ("smaller numbers", lambda times: torn(1000, times), (3, "tokens ?"), (4, "tokens 1000")),
    ("named labels", unread, (8, False), (9, True)),
    ("digits of a rate", rated, ("0.27", False), ("0.271", True)),
    ("default of log_freq", is_interval, (10, False), (11, True)),
    ("place of a time", is_dated, (80, True), (81, False)),
    ("iteration again", repeated, (49.9, False), (50.1, True)),
    ("stamps of the first two", second_of_first, (0.019, 2.0), (0.021, 6.0)),
    ("resolution of stamps", second_by, ("microseconds", 2.0), ("seconds", 2.5)),
    ("start of a process", second_after_pause, (4.9, 6.0), (5.1, 2.0)),
    ("records of a young process", has_memory, (3, True), (4, False)),
    ("named conflicts", conflicts, (5, 5), (6, 5)),
    ("named restarts", restarts, (50, 50), (51, 50)),
    ("start of a run again", trainings, (990, 1), (1010, 2)),
    ("lines of an event", spread, (4, 48), (5, None)),
)
def test_logs(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def test_a_pause_of_exactly_the_time_of_a_start_is_none():
    assert second_after_pause(5.0) == 6.0


@pytest.mark.parametrize(("percent", "told"), [(4.9, False), (5.1, True)])
def test_kernels_of_no_category_are_told(tmp_path, percent, told):
    trace, path = MadeTrace(), tmp_path / "trace.json"
    trace.kernel("gemm", None, 0.0, 100.0 - percent)
    trace.kernel("zzz", None, 100.0 - percent, 100.0)
    path.write_bytes(trace.text())
    assert (
        bool(said(load.load([str(path)]).files[0].runs[0], "kernels of no known category")) is told
    )
