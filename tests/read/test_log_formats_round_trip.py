"""What is written in a log format is read back, whatever stands before and between the lines."""

import contextlib
import datetime
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from megatron_writer import PREFIXES, doubled, prefixed

from tprimat import read
from tprimat.errors import UnreadableError
from tprimat.read.parsing import text
from tprimat.results.run import Run

QUICK = settings(max_examples=40, deadline=None)
# In tenths of a millisecond, so that three or four printed digits hold them whole.
TIMES = st.lists(
    st.integers(1_000, 99_990).map(lambda tenth: tenth // 10 / 1e3), min_size=1, max_size=12
)
LOSSES = st.integers(1, 119_999).map(lambda number: number / 1e4)
NOISE = st.sampled_from(
    ["", "[GC] Performing periodical GC collection 0.02 seconds", "/usr/lib/x.py:3: UserWarning: y"]
)


def runs_of(written: list[str]) -> list[Run]:
    return read.read(text.lines(["".join(f"{each}\n" for each in written).encode()]), "made.log")


def single(written: list[str]) -> Run:
    (run,) = runs_of(written)
    return run


def said(run: Run, words: str) -> str:
    return next((warning for warning in run.warnings if words in warning), "")


def torchtitan(
    step: int, tps: int, loss: float, norm: float | None = 1.5, *, colour: bool = False
) -> str:
    fields = [("36", f"step: {step:2}"), ("32", f"loss: {loss:8.5f}")]
    fields += [("38;2;180;60;0", f"grad_norm: {norm:7.4f}")] if norm is not None else []
    fields += [
        ("38;2;54;234;195", "memory: 31.25GiB(39.06%)"),
        ("34", f"tps: {tps:,}"),
        ("35", "tflops: 1,329.73"),
    ]
    bold = "\x1b[1m" if colour else ""
    painted = bold + "  ".join(f"\x1b[{code}m{word}" if colour else word for code, word in fields)
    return f"[titan] 2025-06-04 08:51:{step % 60:02},074 - root - INFO - {painted}  mfu: 41.19%"


TRAINER = (
    "Trainer is initialized with local batch size 2, global batch size 16, gradient accumulation"
    " steps 1, sequence length 4096, total steps {} (warmup 2)"
)
MESH = "Building 2-D device mesh with ['dp_shard', 'tp'], [8, 2]"


class TestTorchtitan:
    @given(
        st.lists(st.integers(10, 200_000), min_size=1, max_size=12),
        LOSSES,
        st.sampled_from(PREFIXES),
        NOISE,
        st.booleans(),
        st.integers(0, 2**32),
    )
    @QUICK
    def test_what_was_written_is_read(self, rates, loss, prefix, noise, twice, seed):
        written = [MESH, TRAINER.format(len(rates)), "Training starts at step 1"]
        for step, rate in enumerate(rates, 1):
            told = torchtitan(step, rate, loss, colour=prefix in ("coloured", "no_escape"))
            written += [noise, told.replace("\x1b", "") if prefix == "no_escape" else told]
        written = doubled(written, random.Random(seed)) if twice else written
        run = single([prefixed(each, prefix) for each in written])
        assert run.steps == tuple(range(1, len(rates) + 1))
        assert run.native_metrics["tokens_per_second_per_gpu"] == tuple(
            float(rate) for rate in rates
        )
        assert run.step_times == pytest.approx([16 * 4096 / (rate * 16) for rate in rates])
        assert set(run.loss_values) == {loss}
        assert run.num_gpus == 16
        assert (run.parallelism_config.tensor_model_parallel_size, run.status) == (2, "complete")

    def test_log_freq_makes_windows(self):
        written = [torchtitan(step, 5000, 2.0) for step in (1, 10, 20, 30)]
        assert single(written).window_steps == (1, 9, 10, 10)
        assert single(["arguments metrics.log_freq........ 5", *written]).window_steps == (
            1,
            5,
            5,
            5,
        )

    def test_damaged_memory_is_none(self):
        whole = torchtitan(1, 5000, 2.0)
        assert "memory: " in whole
        run = single(
            [
                whole.replace("memory: ", "memory: -"),
                torchtitan(2, 5000, 1.9).replace("memory: ", "memory: -"),
            ]
        )
        assert run.memory_metrics.peak_memory_reserved_gb is None
        assert run.steps == (1, 2)

    def test_a_line_of_validation_is_no_step(self):
        written = [
            torchtitan(1, 500, 3.0),
            torchtitan(2, 5000, 2.0).replace("step:", "validate step:"),
        ]
        assert single(written).steps == (1,)

    def test_a_stage_that_knows_no_loss_takes_that_of_another(self):
        written = [f"[rank0]:{torchtitan(1, 500, -1.0)}", f"[rank7]:{torchtitan(1, 501, 9.5)}"]
        run = single(written)
        assert run.loss_values == (9.5,)
        assert run.native_metrics["tokens_per_second_per_gpu"] == (500.0,)

    def test_rates_of_2024_are_called_wps(self):
        run = single([torchtitan(1, 500, 3.0).replace("tps:", "wps:")])
        assert run.native_metrics["tokens_per_second_per_gpu"] == (500.0,)

    def test_an_mfu_that_is_no_number_is_none(self):
        run = single([torchtitan(1, 500, 3.0).replace("41.19%", "N/A")])
        assert "mfu_percent" not in run.native_metrics
        assert run.loss_values == (3.0,)

    def test_the_configuration_may_be_json_over_many_lines(self):
        config = {
            "training": {
                "local_batch_size": 2,
                "seq_len": 4096,
                "steps": 3,
                "mixed_precision_param": "bfloat16",
            },
            "parallelism": {
                "tensor_parallel_degree": 2,
                "pipeline_parallel_degree": 1,
                "context_parallel_degree": 1,
            },
            "metrics": {"log_freq": 1},
            "model": {"converters": ["quantize.linear.mx"]},
        }
        dump = f"[titan] Running with configs: {json.dumps(config, indent=2)}".split("\n")
        mesh = (
            "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=4, cp=1, tp=2,"
            " ep=1, etp=1"
        )
        run = single([*dump, mesh, *(torchtitan(step, 5000, 2.0) for step in (1, 2, 3))])
        assert (run.training_config.global_batch_size, run.num_gpus) == (8, 8)
        assert (run.training_config.precision, run.status) == ("mxfp8", "complete")
        assert run.step_times[0] == pytest.approx(8 * 4096 / (5000 * 8))

    def test_sizes_in_tokens(self):
        # As torchtitan prints them from 2026-08-20 on (b5bcd76).
        trainer = (
            "[titan] 2026-08-21 07:33:02,123 - root - INFO - Trainer is initialized with 8192"
            " tokens per DP rank, 131072 tokens per train step, gradient accumulation steps 2,"
            " maximum context length 4096, total steps 3 (warmup 0)"
        )
        run = single([MESH, trainer, *(torchtitan(step, 5000, 2.0) for step in (1, 2, 3))])
        sizes = run.training_config
        assert (sizes.global_batch_size, sizes.micro_batch_size, sizes.sequence_length) == (
            32,
            2,
            4096,
        )
        assert (sizes.max_steps, run.parallelism_config.gradient_accumulation_steps) == (3, 2)
        assert run.step_times[0] == pytest.approx(131072 / (5000 * 16))

    def test_of_a_pipeline_the_tokens_of_a_rank_are_no_micro_batch(self):
        trainer = (
            "Trainer is initialized with 8192 tokens per DP rank, 65536 tokens per train step, "
            "maximum context length 4096"
        )
        mesh = "Building 2-D device mesh with ['pp', 'dp_shard'], [2, 8]"
        run = single([mesh, trainer, *(torchtitan(step, 5000, 2.0) for step in (1, 2, 3))])
        assert (run.training_config.global_batch_size, run.training_config.micro_batch_size) == (
            16,
            None,
        )

    def test_without_a_batch_the_time_stamps_tell_the_time_and_the_user_may_say_it(self):
        content = (
            "\n".join(torchtitan(step, rate, 2.0) for step, rate in ((1, 500), (2, 5000))).encode()
            + b"\n"
        )
        (reading,) = read.parse_lines(text.lines([content]), "x.log")
        assert reading.run().step_times == (10.0, 1.0)
        assert "show 5,000 tokens per step and GPU: the log lacks" in said(
            reading.run(), "the log lacks"
        )
        run = reading.run({"global_batch_size": 8, "sequence_length": 1000, "num_gpus": 4})
        assert run.step_times == (4.0, 0.4)

    @pytest.mark.parametrize("apart", [19, 20])
    def test_time_stamps_in_whole_seconds_tell_the_time_from_twenty_on(self, apart):
        lines = [torchtitan(step, 5000, 2.0).replace(",074", "") for step in (1, 1 + apart)]
        assert single(lines).step_times == ((1.0, 1.0) if apart == 20 else (None, None))
        assert bool(said(single(lines), "no printed step times")) is (apart == 19)

    def test_a_validation_between_two_records_is_no_time_of_steps(self):
        first, last = (torchtitan(step, 5000, 2.0) for step in (1, 2)), torchtitan(32, 5000, 2.0)
        validation = torchtitan(31, 5000, 2.0).replace("step: 31", "validate step:  2")
        run = single([*first, validation, last.replace("step: 32", "step:  3")])
        assert run.step_times == (1.0, 1.0, 1.0)

    def test_a_restart_runs_steps_again(self):
        late = [torchtitan(step, 4000, 2.5).replace("2025-06-04", "2025-06-05") for step in (2, 3)]
        run = single([*(torchtitan(step, 5000, 2.0) for step in (1, 2, 3, 4)), *late])
        assert run.steps == (1, 2, 3)
        assert run.loss_values == (2.0, 2.5, 2.5)
        assert said(run, "restarted on line 5 from step 2")

    def test_a_step_far_behind_a_whole_training_is_of_another_one(self):
        whole = [
            TRAINER.format(3),
            *(torchtitan(step, 5000, 2.0) for step in (1, 2, 3)),
            "Training completed",
        ]
        first, second = runs_of([*whole, torchtitan(1990, 6000, 3.0)])
        assert (first.steps, first.status) == ((1, 2, 3), "complete")
        assert (second.steps, second.training_config.global_batch_size) == ((1990,), None)

    def test_a_training_that_goes_on_after_its_end_is_the_same_one(self):
        whole = [
            TRAINER.format(30),
            *(torchtitan(step, 5000, 2.0) for step in (1, 10, 20, 30)),
            "Training completed",
        ]
        run = single(
            [*whole, TRAINER.format(50), *(torchtitan(step, 5000, 2.0) for step in (40, 50))]
        )
        assert run.steps == (1, 10, 20, 30, 40, 50)

    def test_ranks_of_another_program_in_the_log_are_not_its_own(self):
        other = prefixed(
            "iteration 424/ 900 | elapsed time per iteration (ms): 700.0 |", "primus", 63, 64
        )
        own = [prefixed(each, "primus") for each in (TRAINER.format(1), torchtitan(1, 5000, 2.0))]
        for written in ([*own, other], [other, *own]):
            found = {run.framework: run for run in runs_of(written)}
            assert (found["torchtitan"].num_gpus, found["primus"].num_gpus) == (8, 64)

    def test_a_gap_is_said_and_a_missing_norm_is_none(self):
        run = single([torchtitan(step, 5000, 2.0, norm=None) for step in (1, 2, 3, 5, 6)])
        assert said(run, "no record of step 4")
        assert run.grad_norms == (None,) * 5


def event(
    key: str, value: object = None, ms: float = 0, kind: str = "POINT_IN_TIME", **meta: object
) -> str:
    body = {
        "namespace": "",
        "time_ms": 1_759_000_000_000 + round(ms),
        "event_type": kind,
        "key": key,
        "value": value,
    }
    return f":::MLLOG {json.dumps({**body, 'metadata': {'file': 'x.py', 'lineno': 7, **meta}})}"


def setup_events(batch: int) -> list[str]:
    return [
        event("submission_benchmark", "llama31_8b"),
        event("global_batch_size", batch),
        event("max_sequence_length", 8192),
        event("run_start", ms=1000, kind="INTERVAL_START"),
    ]


class TestMlperf:
    @given(
        st.integers(2, 64),
        st.lists(st.floats(0.2, 5.0), min_size=2, max_size=8),
        st.sampled_from(["end", "start", "length"]),
        st.sampled_from(["throughput", "train_step_time"]),
        st.sampled_from(["none", "slurm", "docker", "several"]),
        st.integers(1, 3),
    )
    @QUICK
    def test_blocks_are_placed_however_their_position_is_counted(
        self, batch, means, counted, figure, prefix, ranks
    ):
        written, now, steps = setup_events(batch), 2000.0, 48
        for index, mean in enumerate(means):
            begin, end = index * steps * batch, (index + 1) * steps * batch
            place = {"end": (begin, end), "start": (begin, begin), "length": (steps * batch,) * 2}[
                counted
            ]
            written.append(
                event("block_start", ms=now, kind="INTERVAL_START", samples_count=place[0])
            )
            now += mean * steps * 1000
            value = (
                {"throughput": batch / mean}
                if figure == "throughput"
                else {"train_step_time": mean}
            )
            written += [event("tracked_stats", value, ms=now, step=place[1])] * ranks
            extra = {"step": (index + 1) * steps} if counted == "length" else {}
            written.append(
                event("block_stop", ms=now, kind="INTERVAL_END", samples_count=place[1], **extra)
            )
            written.append(event("eval_accuracy", 3.5, ms=now + 1, samples_count=end))
            now += 9000
        written.append(
            event(
                "run_stop",
                ms=now,
                kind="INTERVAL_END",
                status="success",
                samples_count=len(means) * steps * batch,
            )
        )
        run = single([prefixed(each, prefix) for each in written])
        assert run.steps == tuple(steps * (index + 1) for index in range(len(means)))
        assert run.step_times == pytest.approx(means)
        assert set(run.window_steps) == {steps}
        assert (run.status, run.training_config.global_batch_size) == ("complete", batch)
        assert run.timestamp.startswith("2025-09-27T")

    @given(
        st.integers(2, 64),
        st.integers(1, 40),
        st.sampled_from(["steps", "index", "samples", "tokens"]),
    )
    @QUICK
    def test_the_unit_of_a_position_shows_in_the_times(self, batch, every, unit):
        written, count = setup_events(batch), 6
        written.append(event("block_start", ms=1000, kind="INTERVAL_START", samples_count=0))
        for index in range(1, count + 1):
            step = index * every
            place = {
                "steps": step,
                "index": step - 1,
                "samples": step * batch,
                "tokens": step * batch * 8192,
            }[unit]
            values = {"train_step_time": 0.5, "reduced_train_loss": 2.5}
            written.append(event("tracked_stats", values, ms=1000 + step * 500, step=float(place)))
        written.append(
            event("run_stop", ms=1000 + count * every * 500, kind="INTERVAL_END", status="success")
        )
        run = single(written)
        assert run.steps == tuple(every * index for index in range(1, count + 1))
        assert set(run.step_times) == {0.5}
        assert set(run.loss_values) == {2.5}
        assert set(run.window_steps) == {every}

    def test_a_time_that_is_not_the_mean_of_its_steps_is_one_step(self):
        written = setup_events(8)
        for index in range(1, 7):
            written.append(
                event(
                    "tracked_stats", {"train_step_time": 0.49}, ms=index * 16_000, step=index * 32
                )
            )
        run = single(written)
        assert set(run.window_steps) == {1}
        assert said(run, "pauses in between")
        assert run.status == "incomplete"

    def test_figures_of_the_whole_run_are_no_steps(self):
        stop = event("run_stop", ms=60_000, kind="INTERVAL_END", status="success")
        run = single(
            [
                *setup_events(8),
                stop,
                event("tracked_stats", {"throughput": 208833.7}, ms=60_001, step=99),
            ]
        )
        assert run.steps == ()
        assert run.native_metrics["whole_run_throughput"] == 208833.7
        assert run.native_metrics["time_to_train_minutes"] == pytest.approx(59 / 60, abs=1e-6)

    def test_a_run_that_missed_its_target_is_incomplete(self):
        run = single(
            [*setup_events(8), event("run_stop", ms=60_000, kind="INTERVAL_END", status="aborted")]
        )
        assert (run.status, "aborted" in run.status_reason) == ("incomplete", True)

    def test_two_trials_in_one_file_are_two(self):
        stop = event("run_stop", ms=60_000, kind="INTERVAL_END", status="success")
        later = [each.replace("175900", "175910") for each in (*setup_events(16), stop)]
        first, second = runs_of([*setup_events(8), stop, *later])
        assert (
            first.training_config.global_batch_size,
            second.training_config.global_batch_size,
        ) == (8, 16)

    def test_a_broken_event_is_said_and_the_rest_is_read(self):
        run = single(
            [*setup_events(8), ':::MLLOG {"key": "seed", "val[rank3] warning', event("seed", 7)]
        )
        assert run.native_metrics["seed"] == 7
        assert said(run, "unreadable events")

    @given(
        st.dictionaries(
            st.text(max_size=12), st.recursive(st.floats() | st.text() | st.none(), st.lists)
        )
    )
    @QUICK
    def test_any_values_do_no_harm(self, values):
        keys = (
            "tracked_stats",
            "global_batch_size",
            "block_start",
            "eval_accuracy",
            "max_sequence_length",
            "seed",
        )
        written = [event(key, values, ms=5, **{"samples_count": "x", "step": None}) for key in keys]
        assert len(runs_of([*setup_events(8), *written])) == 1


def nemo(step: int, seconds: float, loss: float, per_epoch: int = 5, batch: int = 64) -> str:
    return (
        f"Training epoch {step // per_epoch}, iteration {step % per_epoch}/99 | lr: 2.999e-07 |"
        f" global_batch_size: {batch} | global_step: {step} | reduced_train_loss: {loss:.4} |"
        f" train_step_timing in s: {seconds:.4} | TFLOPS_per_GPU: 1.249e+03 | consumed_samples:"
        f" {(step + 1) * batch} | val_loss: 0.7"
    )


class TestNemo:
    @given(
        TIMES,
        st.integers(1, 999).map(lambda n: n / 100),
        st.sampled_from(["none", "slurm", "torchrun", "docker"]),
    )
    @QUICK
    def test_what_was_written_is_read(self, times, loss, prefix):
        run = single(
            [prefixed(nemo(step, seconds, loss), prefix) for step, seconds in enumerate(times)]
        )
        assert run.steps == tuple(range(1, len(times) + 1))
        assert run.native_metrics["printed_step"] == tuple(
            float(step) for step in range(len(times))
        )
        assert run.step_times == pytest.approx([float(f"{seconds:.4}") for seconds in times])
        assert run.native_metrics["tflops_per_gpu"] == (1249.0,) * len(times)
        assert (run.training_config.global_batch_size, run.training_config.max_steps) == (64, 100)

    def test_lines_every_ten_steps_are_means_of_ten(self):
        assert single([nemo(step, 1.5, 2.0) for step in (9, 19, 29)]).window_steps == (10, 10, 10)

    def test_memory_is_in_bytes(self):
        run = single(
            [nemo(0, 1.5, 2.0).replace("| TFLOPS", "| max_memory_allocated: 85899345920 | TFLOPS")]
        )
        assert run.memory_metrics.peak_memory_allocated_gb == 85.899

    @pytest.mark.parametrize("kind", ["tensor model", "pipeline model", "context"])
    @pytest.mark.parametrize(
        ("groups", "size", "ranks"),
        [
            ("[[0, 1]]", 2, 2),
            ("[[0, 1, 2]]", 3, 3),
            ("[[0], [1]]", 1, 2),
            ("[[0, 1], [2, 3]]", 2, 4),
            ("[[0, 1], [2]]", None, None),
            # A process of its own says nothing of groups that it has of each kind.
            ("[[0]]", None, 1),
        ],
    )
    def test_the_size_of_groups(self, kind, groups, size, ranks):
        run = single(
            [
                f"[NeMo I] All {kind} parallel group ranks: {groups}",
                *(nemo(n, 1.5, 2.0) for n in range(3)),
            ]
        )
        layers = kind == "tensor model"
        expected = 1 if layers and groups == "[[0]]" else size
        assert (
            getattr(run.parallelism_config, f"{kind.replace(' ', '_')}_parallel_size") == expected
        )
        assert run.training_config.num_gpus == (ranks if layers else None)

    @pytest.mark.parametrize(
        ("epoch", "total", "planned"), [(0, "90", 90), (1, "90", None), (0, "?", None)]
    )
    @pytest.mark.parametrize("first", [1, 3])
    def test_a_bar_states_the_steps_of_the_first_epoch(self, epoch, total, planned, first):
        bars = [
            f"Epoch {epoch}: :   5%|▌         | {step}/{total} [00:12<03:59, v_num=,"
            f" reduced_train_loss=10.90, global_step={step - 1}, train_step_timing in s=1.5]"
            for step in range(first, first + 3)
        ]
        assert single(bars).training_config.max_steps == planned

    def test_a_bar_without_a_number_of_its_step_counts_them(self):
        bars = [
            f"Epoch 0: :   5%|▌         | {step}/90 [00:12<03:59, v_num=, reduced_train_loss=10.90,"
            " train_step_timing in s=1.5]"
            for step in (4, 5, 5, 6)
        ]
        run = single(bars)
        assert run.native_metrics["printed_step"] == (3.0, 4.0, 5.0)
        assert run.steps == (4, 5, 6)

    def test_a_batch_that_grows_is_left_open(self):
        run = single([nemo(0, 1.5, 2.0, batch=8), nemo(1, 1.5, 2.0, batch=16)])
        assert run.training_config.global_batch_size is None
        assert said(run, "8 to 16")

    @given(TIMES, st.integers(1, 4))
    @QUICK
    def test_a_progress_bar_of_version_1_is_read_once_a_step(self, times, drawn):
        bars = []
        for step, seconds in enumerate(times):
            shown = (
                f"Epoch 0: :   5%|▌         | {step + 1}/100 [00:12<03:59, v_num=,"
                f" reduced_train_loss=10.90, global_step={step:.3f},"
                f" consumed_samples={(step + 1) * 8:.1f}, train_step_timing in s={seconds:.3f}]"
            )
            bars += [shown] * drawn
        (run,) = read.read(text.lines(["\r".join(bars).encode() + b"\n"]), "bar.log")
        assert run.steps == tuple(range(1, len(times) + 1))
        assert run.step_times == pytest.approx([round(seconds, 3) for seconds in times])
        assert set(run.loss_values) == {10.9}

    @given(TIMES, st.sampled_from([None, 2]), st.sampled_from(["none", "slurm", "docker"]))
    @QUICK
    def test_dllogger_is_read_on_one_line_or_many(self, times, indent, prefix):
        written = []
        for step, seconds in enumerate(times):
            data = {
                "reduced_train_loss": 2.5,
                "lr": 1e-5,
                "global_step": float(step),
                "train_step_timing in s": seconds,
            }
            record = {
                "timestamp": f"{1.7e9 + step}",
                "elapsedtime": "9.5",
                "type": "LOG",
                "step": step,
                "data": data,
            }
            written += f"DLLL {json.dumps(record, indent=indent)}".split("\n")
        run = single([prefixed(each, prefix) for each in written])
        assert run.step_times == pytest.approx(times)
        assert run.steps == tuple(range(1, len(times) + 1))
        assert (run.framework, run.source.dialect) == ("nemo", "dllogger")
        assert run.timestamp == "2023-11-14T22:13:10.500000+00:00"


class TestAutomodel:
    @given(st.lists(st.integers(100, 90_000), min_size=1, max_size=12), st.integers(1, 8))
    @QUICK
    def test_both_forms_say_the_same(self, tokens, ratio):
        console, file = [], []
        for step, count in enumerate(tokens):
            rate = count / 0.5
            record = {
                "step": step,
                "epoch": 0,
                "timestamp": f"2026-04-01T16:05:{step:02}.695Z",
                "loss": 2.5,
            }
            record |= {
                "grad_norm": 1.5,
                "lr": 1e-05,
                "mem": 20.5,
                "tps": rate,
                "tps_per_gpu": rate / ratio,
            }
            file.append(json.dumps({**record, "num_tokens_per_step": count, "num_label_tokens": 7}))
            console.append(
                f"2026-04-01 16:05:{step:02} | INFO | root | step {step} | epoch 0 | loss 2.5000 |"
                " grad_norm 1.5000 | lr 1.00e-05 | mem 20.50 GiB | tps"
                f" {rate:.2f}({rate / ratio:.2f}/gpu) | num_label_tokens 7"
            )
        of_file, of_console = single(file), single(console)
        assert of_file.steps == of_console.steps == tuple(range(1, len(tokens) + 1))
        assert of_file.step_times == pytest.approx([0.5] * len(tokens))
        assert of_console.step_times == (None,) * len(tokens)
        assert of_file.loss_values == of_console.loss_values
        for name in ("tokens_per_second", "tokens_per_second_per_gpu", "memory_allocated_gb"):
            assert of_file.native_metrics[name] == pytest.approx(
                of_console.native_metrics[name], abs=0.01
            )

    def test_a_layout_that_is_stated_gives_the_gpus(self):
        line = (
            "step 3 | epoch 0 | loss 2.5 | grad_norm 1.5 | lr 1e-5 | mem 2.0 GiB | tps"
            " 800.0(200.0/gpu) |"
        )
        run = single(["  tp_size: 1", "  pp_size: 2", line])
        assert run.num_gpus == 8
        assert run.native_metrics["tokens_per_second_per_gpu_corrected"] == (100.0,)
        assert said(run, "2 times too high")

    def test_a_loss_that_is_none_yet_is_none(self):
        record = {
            "step": 0,
            "loss": float("nan"),
            "tps": 5.0,
            "tps_per_gpu": 5.0,
            "num_label_tokens": 1,
        }
        run = single([json.dumps(record)])
        assert run.loss_values == (None,)
        assert said(run, "not a number")


class TestMaxText:
    @given(
        TIMES,
        st.sampled_from([0, 1, 7]),
        st.booleans(),
        st.sampled_from(PREFIXES),
        st.booleans(),
        st.integers(0),
    )
    @QUICK
    def test_what_was_written_is_read(self, times, first, tokens, prefix, twice, seed):
        written = []
        for step, seconds in enumerate(times, first):
            rate = f"Tokens/s/device: {8192 / seconds:.3f}, total_weights: 8000, " if tokens else ""
            written.append(
                "I0706 16:50:26.230209 140110937163584 metric_logger.py:214] completed step: "
                f"{step}, seconds: {seconds:.3f}, TFLOP/s/device: 107.127, {rate}loss: 10.172"
            )
        written = doubled(written, random.Random(seed)) if twice else written
        run = single([prefixed(each, prefix) for each in written])
        shift = 1 if first == 0 else 0
        assert run.steps == tuple(range(first + shift, first + shift + len(times)))
        assert run.step_times == pytest.approx(times)
        assert set(run.loss_values) == {10.172}
        assert ("tokens_per_second_per_gpu" in run.native_metrics) == tokens

    CONFIG = (
        "Config param run_name: {0}",
        "Config param per_device_batch_size: {1}",
        "Num_devices: 8, shape (1, 8)",
    )

    @pytest.mark.parametrize(("apart", "told"), [(2, True), (1, False)])
    def test_stamps_that_contradict_the_step_times_are_told(self, apart, told):
        start = datetime.datetime(2026, 5, 11, 2)
        stamps = [start + datetime.timedelta(seconds=30 * apart * step) for step in range(9)]
        run = single(
            [
                f"{stamp} completed step: {n}, seconds: 30.0, loss: 2.0"
                for n, stamp in enumerate(stamps)
            ]
        )
        assert bool(said(run, "time stamps are")) is told

    @pytest.mark.parametrize(("torn", "kept"), [("loss: 1", 5.0), ("seconds: 5", None)])
    def test_what_ends_a_torn_line_is_no_value(self, torn, kept):
        written = [
            f"completed step: {step}, seconds: 5.0, loss: 1.25, perplexity: 3.5"
            for step in range(1, 20)
        ]
        written[9] = written[9][: written[9].index(torn) + len(torn)]
        run = single(written)
        assert (run.step_times.count(5.0), run.loss_values.count(1.25)) == (19 if kept else 18, 18)
        # A line without its time is no record.
        assert dict(zip(run.steps, run.step_times, strict=True)).get(10) == kept
        assert dict(zip(run.steps, run.loss_values, strict=True)).get(10) is None

    def test_the_batch_is_of_all_devices(self):
        config = [each.format("a", "0.5") for each in self.CONFIG]
        run = single([*config, "completed step: 1, seconds: 1.0, loss: 2.0"])
        assert run.training_config.global_batch_size == 4
        run = single(
            [
                *config,
                "Config param gradient_accumulation_steps: 8",
                "completed step: 1, seconds: 1.0",
            ]
        )
        assert run.training_config.global_batch_size == 32

    @pytest.mark.parametrize(
        ("name", "batch", "runs"), [("a", "4.0", 1), ("b", "4.0", 2), ("a", "8.0", 2)]
    )
    def test_another_run_behind_the_first_is_another_training(self, name, batch, runs):
        steps = [f"completed step: {step}, seconds: 1.0, loss: {9 - step}" for step in range(6)]
        first = [*(each.format("a", "4.0") for each in self.CONFIG), *steps[:5]]
        second = [*(each.format(name, batch) for each in self.CONFIG), *steps[3:]]
        found = read.read(text.lines(["\n".join([*first, *second, ""]).encode()]), "a log")
        assert len(found) == runs
        assert found[-1].training_config.global_batch_size == 8 * float(batch)

    def test_the_configuration_is_read(self):
        config = [
            "Config param max_target_length: 8192",
            "Config param global_batch_size_to_train_on: 16",
        ]
        config += [
            "Config param steps: 3",
            "Config param quantization: fp8",
            "Config param dtype: bfloat16",
        ]
        written = [f"completed step: {step}, seconds: 1.0, loss: 2.0" for step in range(3)]
        run = single([*config, "Num_devices: 8, shape (1, 8)", *written])
        assert (run.training_config.sequence_length, run.training_config.global_batch_size) == (
            8192,
            16,
        )
        assert (run.num_gpus, run.training_config.precision, run.status) == (8, "fp8", "complete")


class TestBridge:
    def test_beside_megatrons_lines_it_gives_the_flops(self):
        written = []
        for step in range(1, 5):
            written.append(
                f"Step Time : {step}.00s GPU utilization: {100 + step}.5MODEL_TFLOP/s/GPU"
            )
            written.append(
                f" [2026-05-11 02:18:0{step}] iteration {step:8d}/{4:8d} | consumed samples:"
                f" {step * 8} | elapsed time per iteration (ms): {step}000.5 | learning rate:"
                " 1.0E-05 | global batch size: 8 | lm loss: 2.5E+00 |"
            )
        run = single(written)
        assert (run.framework, run.status) == ("megatron_bridge", "complete")
        assert run.steps == (1, 2, 3, 4)
        assert run.native_metrics["tflops_per_gpu"] == (101.5, 102.5, 103.5, 104.5)
        assert run.step_times[2:] == (3.0005, 4.0005)

    @pytest.mark.parametrize("prefix", PREFIXES)
    def test_through_primus_it_states_tokens_and_sequence(self, prefix):
        written = []
        for step in range(1, 5):
            ms = 700.0 + step
            written.append(
                f" [2026-05-11 02:18:0{step}] iteration {step:8d}/{4:8d} | consumed samples:"
                f" {step * 16} | elapsed time per iteration (ms): {ms} | tokens per GPU"
                f" (tokens/s/GPU): {16 * 4096 / 8 / ms * 1e3:.1f} | seq_length: 4096 | throughput"
                " per GPU (TFLOP/s/GPU): 400.0 | learning rate: 1.0E-05 | global batch size: 16 |"
                " lm loss: 2.5E+00 | grad norm: 1.0 |"
            )
            written.append(f"Step Time : {ms / 1e3:.2f}s GPU utilization: 400.0MODEL_TFLOP/s/GPU")
        run = single([prefixed(each, prefix) for each in written])
        assert (run.framework, run.steps, run.training_config.sequence_length) == (
            "megatron_bridge",
            (1, 2, 3, 4),
            4096,
        )
        assert run.step_times == (0.701, 0.702, 0.703, 0.704)
        assert not said(run, "sequence length isn't stated")

    @given(
        st.lists(st.integers(1, 99_999).map(lambda number: number / 100), min_size=20, max_size=40)
    )
    @QUICK
    def test_many_lines_without_steps_are_one_training(self, times):
        run = single(
            [f"Step Time : {seconds:.2f}s GPU utilization: 62.4TFLOP/s/GPU" for seconds in times]
        )
        assert run.step_times == pytest.approx(times)
        assert said(run, "without step numbers")

    def test_lines_glued_to_other_output_are_read(self):
        glued = (
            "Step Time : 0.79s GPU utilization: 62.4MODEL_TFLOP/s/GPU[Rank 0] (after 1 iterations)"
            " memory (GB) | x"
        )
        run = single(["setting up", glued])
        assert (run.step_times, run.native_metrics["tflops_per_gpu"]) == ((0.79,), (62.4,))


ALL = [
    *[torchtitan(step, 5000, 2.0) for step in (1, 2)],
    *setup_events(8),
    nemo(0, 1.5, 2.0),
    "completed step: 3, seconds: 1.000, TFLOP/s/device: 107.1, loss: 2.000",
    "Step Time : 0.79s GPU utilization: 62.4MODEL_TFLOP/s/GPU",
    '{"step": 0, "loss": 2.5, "tps": 5.0, "tps_per_gpu": 5.0, "num_label_tokens": 1}',
    'DLLL {"step": 3, "data": {"reduced_train_loss": 2.5}}',
]


@given(st.integers(0, 2**32), st.lists(st.sampled_from(ALL), min_size=1, max_size=6))
@settings(max_examples=120, deadline=None)
def test_damaged_lines_never_end_in_a_fault(seed, lines):
    rng = random.Random(seed)
    content = list("\n".join(lines))
    for _ in range(rng.randint(1, 30)):
        content[rng.randrange(len(content))] = rng.choice('0123456789|:./-e \n\r[]{}",ainfN\x00')
    with contextlib.suppress(UnreadableError):
        for run in read.read(text.lines(["".join(content).encode()]), "damaged.log"):
            assert all(step >= 1 for step in run.steps)


class TestSeveralLogFormatsInOneLog:
    def test_mlperfs_events_go_before_nemos_lines(self):
        written = setup_events(8)
        for step in range(4):
            written.append(nemo(step, 1.5, 2.0))
            written.append(
                event(
                    "tracked_stats",
                    {"train_step_time": 1.4321},
                    ms=1432.1 * (step + 1),
                    step=step + 1,
                )
            )
        run = single(written)
        assert run.framework == "mlperf"
        assert run.step_times == (1.4321,) * 4

    def test_nemos_lines_go_first_where_the_events_tell_of_no_step(self):
        stop = event("run_stop", ms=60_000, kind="INTERVAL_END", status="success")
        run = single([*setup_events(8), *(nemo(step, 1.5, 2.0) for step in range(4)), stop])
        assert (run.framework, run.status) == ("nemo", "complete")
        assert run.step_times == (1.5,) * 4
        assert run.training_config.sequence_length == 8192

    def test_an_event_that_another_process_wrote_into_is_mended(self):
        whole = event("seed", 7)
        intruder = (
            "[Gloo] Rank 3 is connected to 7 peer ranks. Expected number of connected peer ranks"
            " is : 7"
        )
        run = single([*setup_events(8), whole[:60] + intruder, whole[60:]])
        assert run.native_metrics["seed"] == 7
        assert not said(run, "unreadable events")
