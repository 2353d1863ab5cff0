"""Small logs in Megatron's form: what makes trainings of their lines, and what is read of each."""

from __future__ import annotations

import pytest

from tprimat.read.megatron.reader import Reader
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.text import Line


def read(text: str, *, blocks: bool = False, whole: bool = True) -> list[ParsedLog]:
    reader = Reader()
    if blocks:
        reader.feed_block(1, text.encode())
        return reader.finish()
    lines = text.split("\n")
    for number, each in enumerate(lines, 1):
        reader.feed(Line(number, each, whole or number < len(lines)))
    return reader.finish()


def line(
    step: int,
    *,
    at: int | None = None,
    planned: int = 9,
    ms: float = 2000.0,
    batch: int | None = 16,
    **more,
) -> str:
    stamp = "" if at is None else f"[2026-05-11 02:{at // 60:02}:{at % 60:02}.000000] "
    segments = [
        f"elapsed time per iteration (ms): {ms}",
        *(f"{name}: {value}" for name, value in more.items()),
    ]
    if batch is not None:
        segments = [f"consumed samples: {step * batch}", *segments, f"global batch size: {batch}"]
    return f" {stamp}iteration {step}/ {planned} | {' | '.join(segments)} |"


def dump(layers: int = 4, **more) -> list[str]:
    arguments = {"num_layers": layers, **more}
    return [
        "-- arguments --",
        *(f"  {name} {'.' * (48 - len(name))} {value}" for name, value in arguments.items()),
    ]


def runs(*lines: str, whole: bool = True, **given):
    """The runs of a log; by lines and in blocks they are the same."""
    text = "\n".join(lines)
    found = [parsed.run(given) for parsed in read(text, whole=whole)]
    if whole:
        assert [parsed.run(given) for parsed in read(f"{text}\n", blocks=True)] == found
    return found


def run(*lines: str, **how):
    (found,) = runs(*lines, **how)
    return found


STEPS = [line(step) for step in (1, 2, 3)]
DONE, CRASH = "[after training is done] x", "RuntimeError: x"
RATE = "tokens/s/GPU"


@pytest.mark.parametrize(
    ("lines", "status", "reason", "warned"),
    [
        (
            STEPS,
            "incomplete",
            "log ends at iteration 3 of 9 without an error (killed, still running, or truncated)",
            None,
        ),
        ([*STEPS, CRASH], "failed", "log ends at iteration 3 of 9: line 4: RuntimeError: x", None),
        ([*STEPS, DONE], "complete", None, "stopped early, after iteration 3 of 9 (line 4)"),
        (
            [DONE, *STEPS],
            "incomplete",
            "log ends at iteration 3 of 9 without an error (killed, still running, or truncated)",
            None,
        ),
        (
            [*STEPS[:2], DONE, STEPS[2]],
            "incomplete",
            "log ends at iteration 3 of 9 without an error (killed, still running, or truncated)",
            None,
        ),
        (
            [*STEPS, "[exiting program at iteration 3]"],
            "complete",
            "3 of max_steps=9 steps: Megatron exited at iteration 3",
            None,
        ),
        ([line(8, planned=9), line(9, planned=9)], "complete", None, None),
        (
            [line(9), CRASH, "E0301 exited with code 7"],
            "complete",
            None,
            "the run completed, then: line 2: RuntimeError: x",
        ),
        ([line(9), CRASH], "complete", None, None),
        ([line(9), "[exiting program at iteration 9]"], "complete", None, None),
        ([*dump(), CRASH], "failed", "line 3: RuntimeError: x", None),
        (dump(), "failed", "log ends before the first iteration without an error", None),
        (
            [*dump(), DONE],
            "incomplete",
            (
                "the run completed (line 3), but the log has no iteration line: import"
                " logs/pre_trainer/rank-N/debug.log of the last rank, or set stderr_sink_level to"
                " DEBUG"
            ),
            None,
        ),
    ],
)
def test_status(lines, status, reason, warned):
    found = run(*lines)
    assert (found.status, found.status_reason) == (status, reason)
    told = [each for each in found.warnings if each.startswith(("stopped", "the run completed"))]
    assert told == ([warned] if warned else [])


@pytest.mark.parametrize(
    ("last", "steps", "reason"),
    [
        (
            " iteration 4/ 9 | consumed",
            (1, 2, 3),
            "without an error (killed, still running, or truncated)",
        ),
        (
            " iteration 4/ 9 | elapsed time per iteration (ms): 20",
            (1, 2, 3),
            "file truncated within the line of iteration 4",
        ),
        (
            " iteration 4/ 9 | elapsed time per iteration (ms): 20 | lm",
            (1, 2, 3, 4),
            "log ends at iteration 4 of 9 without",
        ),
    ],
)
def test_a_file_that_ends_within_a_line(last, steps, reason):
    found = run(*STEPS, last, whole=False)
    assert found.steps == steps
    assert reason in found.status_reason


@pytest.mark.parametrize(
    ("lines", "fields", "warning"),
    [
        # Batch: that of the lines, not of the arguments; of one that changes none.
        ([*dump(global_batch_size=64), *STEPS], {"global_batch_size": 16}, None),
        ([*dump(global_batch_size=64), line(1, batch=None)], {"global_batch_size": 64}, None),
        (
            [*dump(global_batch_size=64), line(1), line(2, batch=32), line(3, batch=24)],
            {},
            "global batch size changes during the run (16 to 32): no throughput in tokens",
        ),
        (
            [*dump(global_batch_size=64), line(1, batch=1), line(2, batch=1)],
            {"global_batch_size": 1},
            None,
        ),
        (
            [*dump(global_batch_size=64), line(1, batch=1), line(2, batch=2)],
            {},
            "global batch size changes during the run (1 to 2): no throughput in tokens",
        ),
        ([*dump(seq_length=512), *STEPS], {"sequence_length": 512, "global_batch_size": 16}, None),
        (
            [*dump(seq_length=512), line(1, **{"actual seqlen": 256})],
            {"sequence_length": 256, "global_batch_size": 16},
            None,
        ),
        (
            [
                *dump(seq_length=512),
                line(1, **{"actual seqlen": 256}),
                line(2, **{"actual seqlen": 64}),
                line(3, **{"actual seqlen": 128}),
            ],
            {"global_batch_size": 16},
            "sequence length changes during the run (64 to 256): no throughput in tokens",
        ),
        # The plan that the last line tells.
        (
            [*dump(train_iters=70), line(1, planned=80), line(2, planned=90)],
            {"max_steps": 90, "global_batch_size": 16},
            None,
        ),
    ],
)
def test_sizes(lines, fields, warning):
    found = run(*lines)
    known_fields = {**found.training_config.known()}
    if "max_steps" not in fields:
        known_fields.pop("max_steps")
    assert known_fields == fields
    told = [each for each in found.warnings if "changes" in each]
    assert told == ([warning] if warning else [])


WORLD = "[rank-0/8] "


@pytest.mark.parametrize(
    ("rates", "given", "words"),
    [
        # 16 sequences in 2 s by 8 GPUs: one a second.
        (
            [500.0, 510.0, 505.0],
            {},
            (
                "the sequence length isn't stated; the logged tokens/s/GPU suggest 505 tokens (set"
                " it with --sequence-length)"
            ),
        ),
        (
            [500.0, 510.0, 490.0, 495.0],
            {},
            "the sequence length isn't stated; the logged tokens/s/GPU fit no single length",
        ),
        (
            [500.0, 512.0, 505.0],
            {"sequence_length": 512},
            (
                "2 of 3 records print tokens/s/GPU that disagree with batch × sequence length /"
                " time / GPUs (16 × 512 / 8) by up to 2.3% (step 1); one of them is wrong"
            ),
        ),
        ([508.0], {"sequence_length": 512}, None),
        (
            [None, 512.0, 0.0],
            {},
            (
                "the sequence length isn't stated; the logged tokens/s/GPU suggest 512 tokens (set"
                " it with --sequence-length)"
            ),
        ),
        ([None], {}, None),
    ],
)
def test_printed_rates(rates, given, words):
    lines = [
        WORLD + line(step, **({} if rate is None else {RATE: rate}))
        for step, rate in enumerate(rates, 1)
    ]
    told = [each for each in run(*lines, **given).warnings if RATE in each]
    assert told == ([words] if words else [])
    codes = {
        note.code for note in run(*(each.removeprefix(WORLD) for each in lines), **given).notes
    }
    assert codes.isdisjoint({"rates-disagree", "length-suggested", "length-fits-no-rate"})


def spread(*lines: str, **given) -> tuple:
    found = run(*lines, **given).parallelism_config
    return (
        found.tensor_model_parallel_size,
        found.pipeline_model_parallel_size,
        found.data_parallel_size,
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2}, (2, 2, 4)),
        ({"tensor_model_parallel_size": 2}, (2, None, None)),
        ({"pipeline_model_parallel_size": 2}, (None, 2, None)),
    ],
)
def test_replicas_follow_where_both_are_stated(arguments, expected):
    assert spread(*dump(world_size=16, **arguments), *STEPS) == expected


@pytest.mark.parametrize(
    ("lines", "memory", "words"),
    [
        (
            [
                line(
                    1, **{"hip mem usage/free/total/usage_ratio": "10.00GB/90.00GB/100.00GB/10.00%"}
                ),
                line(
                    2, **{"hip mem usage/free/total/usage_ratio": "30.00GB/70.00GB/100.00GB/30.00%"}
                ),
                line(
                    3,
                    **{
                        "hip mem usage/free/total/usage_ratio": "20.00GB/80.00GB/100.00GB/20.00%",
                        "rocm mem usage/free/total/usage_ratio": "40.00GB/60.00GB/100.00GB/40.00%",
                    },
                ),
            ],
            {"peak_memory_device_used_gb": 32.212},
            [],
        ),
        (
            [
                line(
                    1,
                    **{"rocm mem usage/free/total/usage_ratio": "40.00GB/60.00GB/192.00GB/40.00%"},
                )
            ],
            {"peak_memory_device_used_gb": 42.95},
            [
                (
                    "memory in use is from rocm-smi; the log may repeat the value of its first"
                    " iterations"
                ),
                "GPU memory of 192 GiB matches: MI300X, MI308X",
            ],
        ),
        (STEPS, {}, []),
    ],
)
def test_memory(lines, memory, words):
    found = run(*lines)
    assert found.memory_metrics.known() == memory
    assert [each for each in found.warnings if "emory" in each] == words


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            STEPS,
            "the log doesn't state the GPU's name, its vendor and the versions of its software",
        ),
        (
            ["/opt/rocm", *STEPS],
            "the log doesn't state the GPU's name and the versions of ROCm and PyTorch",
        ),
        (["AMD Instinct MI300X", *STEPS], "the log doesn't state the versions of ROCm and PyTorch"),
    ],
)
def test_what_is_said_of_the_gpu(lines, words):
    assert [each for each in run(*lines).warnings if "doesn't state" in each] == [words]


def told(*lines: str) -> list[tuple]:
    return [
        (
            found.steps,
            found.lines,
            [each for each in found.warnings if each.startswith("restarted")],
        )
        for found in runs(*lines)
    ]


RESTART = (
    "restarted on line {} from iteration {}: iterations {} to {} before the restart were dropped"
)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], []),
        (["x"], []),
        (dump(), [((), (), [])]),
        # A step again: another attempt. It has the place of the former one, also if its process
        # logs nothing.
        (
            [line(1, at=5), line(2, at=7), line(3, at=9), line(2, at=95), line(4, at=99)],
            [((1, 2, 4), (1, 4, 5), [RESTART.format(4, 2, 2, 3)])],
        ),
        (
            [*STEPS, *dump(), CRASH],
            [
                (
                    (1, 2, 3),
                    (1, 2, 3),
                    [
                        "restarted on line 4; that attempt logged no iteration: line 6:"
                        " RuntimeError: x"
                    ],
                )
            ],
        ),
        (
            [*STEPS, *dump()],
            [
                (
                    (1, 2, 3),
                    (1, 2, 3),
                    ["restarted on line 4; that attempt logged no iteration: no reason in the log"],
                )
            ],
        ),
        ([*STEPS, "-- arguments --"], [((1, 2, 3), (1, 2, 3), [])]),
        # From the first one on: another training, unless the same failed and began again.
        ([line(1, at=5), line(2, at=7), line(1, at=95)], [((1, 2), (1, 2), []), ((1,), (3,), [])]),
        (
            [*dump(), line(1, at=5), line(2, at=7), CRASH, *dump(), line(1, at=95)],
            [((1,), (8,), [RESTART.format(8, 1, 1, 2)])],
        ),
        (
            [*dump(), line(1, at=5), line(2, at=7), CRASH, *dump(), line(1, at=95, planned=7)],
            [((1, 2), (3, 4), []), ((1,), (8,), [])],
        ),
        (
            [*dump(), line(1, at=5), line(2, at=7), CRASH, *dump(8), line(1, at=95)],
            [((1, 2), (3, 4), []), ((1,), (8,), [])],
        ),
        # Another model behind a dump, whatever its step; the same one goes on.
        ([*dump(), line(1), *dump(8), line(2)], [((1,), (3,), []), ((2,), (6,), [])]),
        ([*dump(), line(1), *dump(), line(2)], [((1, 2), (3, 6), [])]),
        ([*dump(), line(1), *dump(hidden_size=512), line(2)], [((1, 2), (3, 7), [])]),
        # Logged late, or of another run.
        ([line(1, at=5), line(3, at=9), line(2, at=7)], [((1, 2, 3), (1, 3, 2), [])]),
        (
            [line(1), line(2), line(7, planned=80, batch=48)],
            [((1, 2), (1, 2), []), ((7,), (3,), [])],
        ),
        ([line(1), line(2), line(7)], [((1, 2, 7), (1, 2, 3), [])]),
        (["a iteration 0/ 9 | elapsed time per iteration (ms): 5 |", line(1)], [((1,), (2,), [])]),
        # Two in a line.
        ([line(1) + line(2), line(3)], [((1, 2, 3), (1, 1, 2), [])]),
    ],
)
def test_trainings(lines, expected):
    assert told(*lines) == expected


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["[Primus:Runtime] x", "using world size: 8"], True),
        (["using world size: 8"], False),
        (["[Primus:Runtime] x"], False),
        (["[NODE-0(a)] [Primus:Runtime]", "exited with code 3"], True),
        (["[NODE-0(a)] [Primus:Runtime]", "exited with code 0"], False),
        (["[NODE-0(a)] x", "exited with code 3"], False),
    ],
)
def test_primus_without_a_dump(lines, found):
    assert bool(runs(*lines)) is found


def test_what_a_reader_knows():
    reader = Reader()
    assert (reader.recognized, reader.steps_found) == (False, 0)
    for number, text in enumerate(dump(), 1):
        reader.feed(Line(number, text, True))
    assert (reader.recognized, reader.steps_found) == (True, 0)
    reader = Reader()
    for number, text in enumerate([*STEPS, line(1, ms=7.0), ""], 1):
        reader.feed(Line(number, text, True))
    assert (reader.recognized, reader.steps_found) == (True, 1)
    assert Reader().feed_block(7, b"a\nb\nc") == 9


def test_a_dump_at_the_end_of_a_block_is_read_before_a_line_that_another_rank_repeats():
    def ranked(rank: int, step: int) -> str:
        return f"[rank-{rank}/8]{line(step, at=2 * step)}"

    reader = Reader()
    first = [*(ranked(3, step) for step in range(1, 7)), *dump(seq_length=512), ""]
    number = reader.feed_block(1, "\n".join(first).encode())
    reader.feed_block(number, f"{ranked(4, 6)}\n".encode())
    (parsed,) = reader.finish()
    assert parsed.stated["sequence_length"].value == 512
    assert parsed.notes == ("1 duplicate iteration lines skipped", "1 of them from other ranks")
    assert parsed.run().steps == (1, 2, 3, 4, 5, 6)
