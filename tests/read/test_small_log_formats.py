"""Lightning's CSV, litgpt, nanoGPT and its kin, Composer, OLMo, torchtune."""

import io

import made_logs
import pytest
import read_truth
from cut_logs import cut

from tprimat import read
from tprimat.errors import UnreadableError
from tprimat.read.parsing import text
from tprimat.read.parsing.parsed_log import InputFile
from tprimat.read.parsing.records import MOST_RESTARTS


def runs_of_text(content: str):
    return read.read(text.lines([content.encode()]), "a log")


def run_of_csv(content: str):
    head = content.encode()[: read.HEAD]
    file_format = read.file_format_of(head)
    assert file_format is not None
    (reading,) = file_format.read([InputFile("metrics.csv", io.BytesIO(content.encode()))], {})
    return reading.run()


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("composer", "composer_16gpu_block_excerpt.log"),
        ("nanogpt", "modded_2024-06-06_AdamW.log"),
        ("nanogpt", "modded_2026-04-08_baseline0.log"),
        ("olmo", "olmo1b_console.log"),
    ],
)
def test_a_real_log_is_read_as_its_truth_says(folder, name, samples, truth):
    expected = truth(folder)[name]
    (run,) = read_truth.runs_of(samples / folder / name)
    assert read_truth.check(run, expected) == []
    extra = expected.get("extra", {})
    if folder == "composer":
        assert run.native_metrics["tokens_per_second"] == (extra["tokens_per_second_global"],)
        assert run.native_metrics["samples_per_second"] == (extra["samples_per_second_global"],)
        assert run.native_metrics["cumulative_train_seconds"] == (
            pytest.approx(extra["time_train_hours"] * 3600),
        )
    if "peak_memory_mib" in extra:
        assert run.memory_metrics.peak_memory_allocated_gb == pytest.approx(
            31315 * 2**20 / 1e9, abs=1e-3
        )
        assert run.gpu_info.device_name == "NVIDIA H100 80GB HBM3"
        assert run.platform == "nvd"
    if "peak_gpu_memory_mb" in extra:
        assert run.memory_metrics.peak_memory_allocated_gb == 43.309
        assert any("number of GPUs (8) follows" in warning for warning in run.warnings)


def test_litgpt_records_are_optimizer_steps_and_say_so(samples, truth):
    expected = truth("litgpt")["phi2_lora_finetune.log"]
    (run,) = read_truth.runs_of(samples / "litgpt" / "phi2_lora_finetune.log")
    times = expected["extra"]["optimizer_step_time_s"]
    assert run.step_times == pytest.approx([times[str(step)] for step in range(1, 6)])
    assert run.loss_values[0] == expected["loss"]["2"]
    assert run.loss_values[-1] == expected["loss"]["10"]
    assert (run.status, run.framework) == (expected["status"], "litgpt")
    assert (
        run.memory_metrics.peak_memory_allocated_gb == expected["extra"]["memory_used_gb_decimal"]
    )
    assert run.native_metrics["train_runtime_seconds"] == expected["extra"]["training_time_s"]
    content = (samples / "litgpt" / "phi2_lora_finetune.log").read_bytes()
    (reading,) = read.parse_lines(text.lines([content]), "a log")
    assert any(
        "10 iterations (micro-batches) form 5 optimizer steps" in note for note in reading.notes
    )


def test_lightning_csv(samples, truth):
    expected = truth("lightning")["slm_version_10_metrics.csv"]
    run = run_of_csv((samples / "lightning" / "slm_version_10_metrics.csv").read_text())
    assert read_truth.check(run, expected) == []
    printed = dict(
        zip(run.native_metrics["printed_step"], run.native_metrics["perplexity"], strict=True)
    )
    assert {step: printed[float(step)] for step in expected["perplexity"]} == expected["perplexity"]


class TestLightningCsv:
    def test_rows_of_a_step_are_one_record_and_validation_is_none(self):
        run = run_of_csv(
            "epoch,lr-AdamW,step,train_loss,val_loss\n,1e-3,0,,\n0,,0,5.5,\n0,,0,,4.4\n0,2e-3,1,5.0,\n"
        )
        assert run.steps == (1, 2)
        assert run.loss_values == (5.5, 5.0)
        assert run.learning_rates == (1e-3, 2e-3)
        assert run.native_metrics["last_validation_loss"] == 4.4

    def test_a_header_that_comes_again(self):
        run = run_of_csv(
            "epoch,step,train_loss\n0,0,5.5\nepoch,step,train_loss,val_loss\n0,1,5.0,\n"
        )
        assert run.loss_values == (5.5, 5.0)

    def test_a_step_that_is_no_number_is_passed_over(self):
        assert run_of_csv(
            "epoch,step,train_loss\n0,nan,5.5\n0,1e400,5.0\n0,1,4.5\n"
        ).loss_values == (4.5,)

    def test_litgpt_writes_micro_batches(self):
        run = run_of_csv("epoch,iter,iter_time,loss,step,tokens\n1,1,0.5,3.0,1,512\n")
        assert run.framework == "litgpt"
        assert run.step_times == (None,)
        assert any("micro-batch" in warning for warning in run.warnings)

    @pytest.mark.parametrize(
        "content", ["name,step\nx,1\n", "a,b,c\n1,2,3\n", "step\n1\n", "the step, the loss\n"]
    )
    def test_other_tables_are_none(self, content):
        assert read.file_format_of(content.encode()) is None

    def test_cut_anywhere(self, samples):
        content = (samples / "lightning" / "slm_version_10_metrics.csv").read_text()
        whole = run_of_csv(content).loss_values
        for end in range(110, len(content), 53):
            found = run_of_csv(content[:end]).loss_values
            # A number that is cut is still one: the last row is only sure with its line end.
            assert found[:-1] == whole[: len(found) - 1]


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (2000, "one GPU processes 2× the tokens of all"),
        (1015, "one GPU processes 1.01× the tokens of all"),
        (1005, "the number of GPUs (1) follows from"),
        (1000, "the number of GPUs (1) follows from"),
        (125, "the number of GPUs (8) follows from"),
        (400, ""),
        (900, ""),
    ],
)
def test_olmos_rates(rate, words):
    """1,000 tokens of all GPUs per step of a second."""
    log = "".join(
        f"[2024-04-17 09:42:{step:02}] INFO     [olmo.train:816, rank=0] [step={step}/100]\n   "
        f" train/CE loss=10.73\n    throughput/total_tokens={1000 * step}\n   "
        f" throughput/device/tokens_per_second={rate}\n   "
        " throughput/device/batches_per_second=1.000\n"
        for step in range(1, 12)
    )
    (run,) = runs_of_text(log)
    told = [each for each in run.warnings if "follows" in each or "contradict" in each]
    assert [words in each for each in told] == ([True] if words else [])


class TestNanoGpt:
    def test_its_own_lines(self):
        log = (
            "iter 0: loss 10.9, time 40000.00ms, mfu -100.00%\niter 1: loss 10.5, time 500.00ms,"
            " mfu 40.00%\n"
        )
        (run,) = runs_of_text(log)
        assert run.steps == (1, 2)
        assert run.step_times == (40.0, 0.5)
        assert run.native_metrics["mfu_percent"] == (None, 40.0)
        assert any("312 TFLOP/s" in warning for warning in run.warnings)

    def test_nanochat(self):
        line = (
            "step {0:05d}/00100 ({0}.00%) | loss: 5.5 | dt: 350.00ms | tok/sec: 1,497,965 | mfu:"
            " 45.1 | total\n"
        )
        (run,) = runs_of_text(line.format(0) + line.format(1))
        assert run.step_times == (0.35, 0.35)
        assert run.native_metrics["tokens_per_second"] == (1497965.0, 1497965.0)
        assert run.training_config.max_steps == 100

    @pytest.mark.parametrize(
        ("dt", "rate", "tokens"),
        [
            ((989.44, 991.09, 992.91), (529882, 529000, 528029), 524288),
            ((350.0,), (1497965,), 524288),
            # Between two multiples of 1,024; with too few digits; with another number of tokens
            # each time.
            ((989.44,), (530382,), None),
            ((9.89, 9.91), (53012, 52906), None),
            ((989.44, 991.09), (529882, 528000), None),
        ],
    )
    def test_tokens_of_a_step_follow_from_time_and_rate(self, dt, rate, tokens):
        log = "".join(
            f"step {step:05d}/21400 (0.02%) | loss: 8.1 | dt: {ms:.2f}ms | tok/sec: {each:,} | mfu:"
            " 74.1 |\n"
            for step, (ms, each) in enumerate(zip(dt, rate, strict=True), start=4)
        )
        (run,) = runs_of_text(log)
        assert run.native_metrics.get("tokens_per_step") == tokens
        if tokens:
            assert any("524,288 tokens per step follow" in warning for warning in run.warnings)
            (parsed,) = read.parse_lines(text.lines([log.encode()]), "a.log")
            assert parsed.run({"sequence_length": 2048}).training_config.global_batch_size == 256

    @pytest.mark.parametrize(
        ("label", "head", "words"),
        [
            ("mfu", "", "that of an H100 (989 TFLOP/s): the log doesn't say"),
            ("bf16_mfu", "", ""),
            ("mfu", "GPU: NVIDIA B200 | Peak FLOPS (BF16): 2.25e+15\n", ""),
        ],
    )
    def test_the_peak_behind_nanochats_mfu(self, label, head, words):
        line = (
            "step 00004/21400 (0.02%) | loss: 8.1 | dt: 989.44ms | tok/sec: 529,882 | {}: 74.1 |"
            " total time: 0m\n"
        )
        (run,) = runs_of_text(head + line.format(label))
        assert run.native_metrics["mfu_percent"] == (74.1,)
        assert [each for each in run.warnings if "peak behind" in each and words in each] == (
            [each for each in run.warnings if words in each] if words else []
        )
        assert not any("A100" in warning for warning in run.warnings)

    @pytest.mark.parametrize(
        ("printed", "known"), [("-100.0", None), ("-0.5", None), ("44.6", 44.6), ("0.0", 0.0)]
    )
    def test_a_negative_mfu_is_none(self, printed, known):
        head = (
            "| sequence length T     | 1024     |\n| total batch size      | 4096     |\n|"
            " num_processes   | 1   |\n"
        )
        line = (
            "step {0:4d}/74 | loss 9.95 (+nanz)| norm 1.4 (+nanz)| lr 3e-04 | 44.56 ms | {1}% bf16"
            " MFU | 91886 tok/s\n"
        )
        (run,) = runs_of_text(head + "".join(line.format(step, printed) for step in range(1, 6)))
        assert run.native_metrics.get("mfu_percent") == (None if known is None else (known,) * 5)
        config = run.training_config
        assert (config.global_batch_size, config.sequence_length, run.num_gpus) == (4, 1024, 1)

    def test_nanochat_states_tokens(self):
        log = (
            "GPU: NVIDIA H100 80GB HBM3 | Peak FLOPS (BF16): 9.89e+14\nTokens / micro-batch / rank:"
            " 8 x 2048 = 16,384\nTokens / micro-batch: 65,536\nTotal batch size 524,288 => gradient"
            " accumulation steps: 8\nstep 00004/00100 (0.01%) | loss: 8.81 | lrm: 1.00 | dt:"
            " 1571.88ms | tok/sec: 333,542 | mfu: 50.92 |\n"
        )
        (run,) = runs_of_text(log)
        config = run.training_config
        assert (config.global_batch_size, config.sequence_length, config.micro_batch_size) == (
            256,
            2048,
            8,
        )
        assert (config.num_gpus, run.gpu_info.device_name) == (4, "NVIDIA H100 80GB HBM3")
        newer = (
            'Distributed world size: 8\nModel config:\n{\n  "sequence_len": 1024,\n'
            + log.split("65,536\n")[1]
        )
        (run,) = runs_of_text(newer)
        assert (run.training_config.global_batch_size, run.num_gpus) == (512, 8)

    def test_steps_between_two_prints_share_their_time(self):
        log = (
            "step:10/30 train_time:1000ms step_avg:100.00ms\nstep:20/30 train_time:3000ms"
            " step_avg:150.00ms\n"
        )
        (run,) = runs_of_text(log)
        assert run.step_times == (None, 0.2)
        assert run.window_steps[1] == 10

    def test_the_source_code_that_a_log_begins_with_is_no_training(self):
        with pytest.raises(UnreadableError):
            runs_of_text('print(f"step:{step}/{steps} train_time:{t:.0f}ms step_avg:{a:.2f}ms")\n')


class TestLitgpt:
    LINE = "Epoch 1 | iter {0} step {1} | loss train: 2.0, val: n/a | iter time: 100.00 ms{2}\n"

    def test_a_step_of_which_not_every_iteration_is_logged_has_no_time(self):
        log = "".join(
            self.LINE.format(n, n // 4, " (step)" if n % 4 == 0 else "") for n in (2, 4, 6, 8)
        )
        (run,) = runs_of_text(log)
        assert run.step_times == (None, None)
        assert any("some iterations are not logged" in warning for warning in run.warnings)


class TestComposer:
    BLOCK = (
        "[batch={0}/20]:\n\t Train loss/train/total: 3.{0}\n\t Train throughput/batches_per_sec:"
        " 0.5123\n"
    )

    def test_blocks_with_headers(self):
        (run,) = runs_of_text(self.BLOCK.format(5) + self.BLOCK.format(10))
        assert run.steps == (5, 10)
        assert run.window_steps == (1, 5)
        assert run.step_times == pytest.approx((1 / 0.5123, 1 / 0.5123))
        assert any("rolling mean" in warning for warning in run.warnings)

    def test_labels_without_a_name_here_are_reported(self):
        (run,) = runs_of_text(
            self.BLOCK.format(5)
            + "\t Train lr-AdamW/group0: 0.001\n\t Train time/total: 1.5\n\t Train own/rate: 7\n"
        )
        assert run.learning_rates == (0.001,)
        assert "1 label not read: own/rate" in run.warnings

    def test_evaluation_blocks_are_none(self):
        log = (
            self.BLOCK.format(5) + "[batch=5/20]:\n\t Eval metrics/eval/LanguageCrossEntropy: 3.0\n"
        )
        (run,) = runs_of_text(log)
        assert run.steps == (5,)

    def test_a_block_without_header_says_how_many_batches_were_before(self):
        log = "\t Train time/batch: 4\n\t Train time/sample: 128\n\t Train loss/train/total: 3.0\n"
        (run,) = runs_of_text(log)
        assert run.steps == (5,)
        assert run.training_config.global_batch_size == 32

    def test_the_first_metric_on_the_headers_line(self):
        (run,) = runs_of_text(
            "[batch=7/20]:  Train loss/train/total: 1.5\n\t Train time/train: 0.1\n"
        )
        assert (run.steps, run.loss_values) == ((7,), (1.5,))


class TestOlmo:
    def test_olmo_core(self):
        log = (
            "2025-01-01 10:00:00\tolmo_core.train:100\tINFO\t[step=10/1000,epoch=1,eta=1:00:00]\n  "
            "  optim/total grad norm=0.5\n    throughput/device/TPS=12,345\n   "
            " throughput/device/TPS (actual avg)=12,000\n    throughput/device/BPS=0.8123\n   "
            " train/CE loss=2.5\n    gpu_memory/peak reserved (GiB)=40.5\n2025-01-01"
            " 10:00:01\tother\n    train/CE loss=9.9\n"
        )
        (run,) = runs_of_text(log)
        assert (run.steps, run.loss_values, run.grad_norms) == ((10,), (2.5,), (0.5,))
        assert run.native_metrics["tokens_per_second_per_gpu"] == (12345.0,)
        assert run.step_times == pytest.approx((1 / 0.8123,))
        assert run.training_config.max_steps == 1000


def test_torchtune_counts_other_tokens():
    log = (
        "Step 1 | loss:1.54 lr:9.9e-05 tokens_per_second_per_gpu:101.2 peak_memory_alloc:10.0"
        " grad_norm:0.8 \nStep 2 | loss:1.5 lr:9"
    )
    (run,) = runs_of_text(log)
    assert run.steps == (1, 2)
    assert run.loss_values == (1.54, 1.5)
    assert run.learning_rates == (9.9e-05, None)
    assert run.step_times == (None, None)
    assert "tokens_per_second_per_gpu" not in run.native_metrics
    assert run.native_metrics["counted_tokens_per_second_per_gpu"] == (101.2, None)
    assert run.memory_metrics.peak_memory_allocated_gb == pytest.approx(10.737)
    assert any("tokens in the loss" in warning for warning in run.warnings)


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("composer", "composer_16gpu_block_excerpt.log"),
        ("olmo", "olmo1b_console.log"),
        ("litgpt", "phi2_lora_finetune.log"),
        ("axolotl", "axolotl_0.18_h100_sft_lora.log"),
    ],
)
def test_a_log_cut_anywhere_says_nothing_else(folder, name, samples):
    content = (samples / folder / name).read_bytes()
    (whole,) = read.read(text.lines([content]), name)
    for _, runs in cut(content, range(0, len(content), 3), name):
        for run in runs:
            known = [loss for loss in run.loss_values if loss is not None]
            assert known == list(whole.loss_values)[: len(known)]
            assert all(time in whole.step_times for time in run.step_times if time is not None)


@pytest.mark.parametrize(
    ("restarts", "more"), [(MOST_RESTARTS, []), (MOST_RESTARTS + 1, ["restarted 1 more times"])]
)
def test_restarts_are_listed_up_to_a_limit(restarts, more):
    steps = [1, *([2, 3, 4] * (restarts + 1))]
    (run,) = runs_of_text(
        "".join(f"Step {step} | loss:{9 + i / 7:.4f} lr:1e-05\n" for i, step in enumerate(steps))
    )
    assert sum(warning.startswith("restarted on line") for warning in run.warnings) == MOST_RESTARTS
    assert [warning for warning in run.warnings if "more times" in warning] == more


@pytest.mark.parametrize("name", sorted(made_logs.LOGS))
def test_a_log_cut_at_many_places_is_read_as_one_that_ends_there(name):
    """What tests of cut logs rest on: lines before all cuts are read once."""
    content = made_logs.LOGS[name].encode()
    for end, runs in cut(content, range(0, len(content) + 1, max(1, len(content) // 7))):
        try:
            assert runs == read.read(text.lines([content[:end]]), "cut.log")
        except UnreadableError:
            assert runs == []
