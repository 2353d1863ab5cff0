"""Where the reading of a log turns: each limit with a value just below it and one just above it."""

from __future__ import annotations

import datetime
import itertools

import msgspec
from limits import limits
from made_runs import said
from stored_runs import series

from tprimat import read
from tprimat.read import merge
from tprimat.read.parsing.values import whole_ratio
from tprimat.results.run import Run

BEGIN = datetime.datetime(2026, 5, 11, 2)


def single(lines):
    """The run of a log that holds one training."""
    (log,) = read.parse_chunks(["\n".join([*lines, ""]).encode()], "train.log")
    return log.run()


def line(at, step, seconds=1.0, *, loss=None, resolution="microseconds", **more):
    """A line of a step in MaxText's form, printed so many seconds after the beginning."""
    stamp = "" if at is None else (BEGIN + datetime.timedelta(seconds=at)).isoformat(" ", resolution) + " "
    others = "".join(f"{name.replace('_', '/')}: {value}, " for name, value in more.items())
    return f"{stamp}completed step: {step}, seconds: {seconds:.6f}, {others}loss: {loss or 5 - step / 100:.5f}"


def contradicts(apart, *, steps=40, burst=0, resolution="microseconds"):
    """Whether stamps contradict steps of 1 s that are printed so far apart, but for some at the end of one moment."""
    times = [apart * min(step, steps - 1 - burst) for step in range(steps)]
    return bool(said(single([line(at, n, resolution=resolution) for n, at in enumerate(times)]), "time stamps are"))


def steps_of(*lines):
    run = single(lines)
    return len(run.steps), bool(said(run, "restarted"))


def again(after, *, seconds=1.0, factor=1.0):
    """Whether a step that is printed again so much later is another attempt, or the same of another rank."""
    lines = [line(seconds * step, step, seconds) for step in range(20)]
    run = single([*lines, line(19 * seconds + after, 19, seconds * factor, loss=4.81)])
    return "restart" if said(run, "restarted") else "conflict" if said(run, "printed twice") else "double"


def again_unstamped(factor):
    lines = [f"step:{step} - train/loss:1.2{step} - train/time(s):3.0000" for step in range(10, 20)]
    run = single([*lines, f"step:19 - train/loss:1.219 - train/time(s):{3 * factor:.4f}"])
    return "restart" if said(run, "restarted") else "double"


def rates_disagree(factor):
    config = [
        "Config param per_device_batch_size: 1",
        "Config param max_target_length: 8192",
        "Num_devices: 8, shape (1, 8)",
    ]
    lines = [line(None, step, Tokens_s_device=f"{8192 * factor:.3f}") for step in range(10)]
    return bool(said(single([*config, *lines]), "token rate", "disagrees"))


def tokens_vary(factor):
    tokens = itertools.accumulate([1000.0 if step % 2 else 1000.0 * factor for step in range(1, 21)])
    lines = [
        f"{{'loss': 1.5, 'grad_norm': 0.45, 'learning_rate': 1e-06, 'num_tokens': {each}, 'step_time': 12.5, "
        f"'epoch': {step / 30:.4f}}}"
        for step, each in enumerate(tokens, start=1)
    ]
    return bool(said(single(lines), "sequence lengths vary"))


def gaps(count):
    """How many stretches without a record are left unnamed of so many."""
    missing = {7 * number for number in range(1, count + 1)}
    run = single([line(None, step) for step in range(7 * count + 5) if step not in missing])
    return said(run, "no record of", "and 1 more")


@limits(
    ("stamps further apart", contradicts, (1.79, False), (1.81, True)),
    ("stamps nearer", contradicts, (0.55, True), (0.56, False)),
    ("steps in a burst", lambda count: contradicts(2.0, steps=41, burst=count), (4, True), (5, False)),
    ("stretches", lambda count: contradicts(2.0, steps=count), (5, False), (6, True)),
    # A stretch of stamps in whole seconds takes 20 s.
    (
        "seconds of a stretch",
        lambda count: contradicts(2.0, steps=count, resolution="seconds"),
        (100, False),
        (101, True),
    ),
    ("same moment", again, (1.99, "double"), (2.01, "restart")),
    ("half a step", lambda after: again(after, seconds=100.0), (49.9, "double"), (50.1, "restart")),
    ("figures of one step", lambda factor: again(1.0, factor=factor), (1.052, "double"), (1.053, "conflict")),
    ("figures of ranks", again_unstamped, (1.052, "double"), (1.053, "restart")),
    ("printed rate", rates_disagree, (1.0095, False), (1.0105, True)),
    ("lengths of sequences", tokens_vary, (1.049, False), (1.051, True)),
    ("stretches that are named", gaps, (12, False), (13, True)),
)
def test_records(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


def alike(losses=40, *, factor=1.0, unlike=0, time=1.0, slow=0, runtime=None):
    """Whether two sources describe one training: some losses differ by a factor, and some step times by another."""
    first = Run(**{**series([1.0] * losses), "loss_values": tuple(5 - step / 100 for step in range(losses))})
    values = [value * (factor if step < unlike else 1.0) for step, value in enumerate(first.loss_values)]
    times = [time if step < slow else 1.0 for step in range(losses)]
    second = msgspec.structs.replace(first, loss_values=tuple(values), step_times=tuple(times))
    if runtime:
        first, second = (
            msgspec.structs.replace(run, native_metrics={"train_runtime_seconds": seconds})
            for run, seconds in ((first, 100.0), (second, 100.0 * runtime))
        )
    return merge.same_training(first, second)


@limits(
    ("steps in common", alike, (2, False), (3, True)),
    ("digits of a loss", lambda factor: alike(factor=factor, unlike=40), (1.00049, True), (1.00051, False)),
    ("losses that differ", lambda count: alike(100, factor=1.1, unlike=count), (5, True), (6, False)),
    ("step times", lambda time: alike(time=time, slow=40), (1.0049, True), (1.0051, False)),
    ("step times that differ", lambda count: alike(100, time=2.0, slow=count), (10, True), (11, False)),
    ("total time", lambda factor: alike(runtime=factor), (1.00049, True), (1.00051, False)),
)
def test_two_sources_of_one_training(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])


@limits(
    # Six digits tell more, but the values needn't be of the very same moment.
    ("ratio above", lambda value: whole_ratio((value,), ("1.00000",)), ("8.00079", 8), ("8.00081", None)),
    ("ratio below", lambda value: whole_ratio((value,), ("1.00000",)), ("7.99919", None), ("7.99921", 8)),
)
def test_a_whole_ratio(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])
