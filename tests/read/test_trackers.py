"""Runs of experiment trackers: W&B's own files, MLflow's directories and CSV."""

from __future__ import annotations

import made_files
import pytest
from stored_runs import findings_of

from tprimat import read
from tprimat.cli import run as command
from tprimat.log_import import sources
from tprimat.log_import.given import GivenValues
from tprimat.log_import.load import load
from tprimat.read import mapped
from tprimat.read.parsing import protobuf
from tprimat.store import store


def runs(path):
    """As a command reads a path."""
    found, _, errors = sources.log_sources([str(path)])
    assert not errors, errors[0].message
    outcomes = [outcome for _, outcome in sources.read_sources(found, 1)]
    return [each.run for outcome in outcomes if isinstance(outcome, list) for each in outcome]


def only(path):
    (run,) = runs(path)
    return run


@pytest.fixture
def wandb(tmp_path):
    """Writes the directory of a W&B run, and returns its file."""

    def write(content, metadata=None):
        folder = tmp_path / "wandb" / "offline-run-20260101_000000-abc"
        (folder / "files").mkdir(parents=True, exist_ok=True)
        if metadata:
            (folder / "files" / "wandb-metadata.json").write_text(metadata, encoding="utf-8")
        path = folder / "run-abc.wandb"
        path.write_bytes(content)
        return path

    return write


class TestWandbRun:
    def test_steps_and_setup(self, wandb):
        run = only(wandb(made_files.wandb_run(made_files.wandb_rows())))
        assert (run.framework, run.status, run.steps) == ("wandb", "complete", tuple(range(1, 31)))
        assert run.loss_values[:2] == (1.99, 1.98)
        assert run.timestamp == "2023-11-14T22:13:20+00:00"
        assert run.gpu_info.device_name == "NVIDIA H100 80GB HBM3"
        assert run.environment.hostname == "node1"
        config = run.training_config
        assert (config.micro_batch_size, config.global_batch_size, config.num_gpus) == (2, 64, 8)
        assert (config.sequence_length, config.max_steps, config.precision) == (4096, 30, "bf16")
        assert run.model == "llama"

    def test_a_row_of_an_evaluation_is_no_step(self, wandb):
        """W&B counts rows where a training logs no step: its time isn't that of two steps."""
        run = only(wandb(made_files.wandb_run(made_files.wandb_rows())))
        assert set(run.window_steps) == {1}
        assert run.step_times[0] is None
        # With the evaluation before it: one row in the file, and another step.
        assert run.step_times[9:12] == (1.5, 5.5, 1.5)

    def test_steps_that_a_training_states_are_its_own(self, wandb):
        rows = [
            {**row, "train/global_step": 10 * step}
            for step, row in enumerate(made_files.wandb_rows()[:10], 1)
        ]
        run = only(wandb(made_files.wandb_run(rows)))
        assert run.steps == tuple(range(10, 101, 10))
        assert set(run.step_times[1:]) == {0.15}

    def test_numbers_that_skip_steps_are_steps(self, wandb):
        """Logged with step=: every tenth."""
        rows = [
            {**row, "_step": 10 * step} for step, row in enumerate(made_files.wandb_rows()[:10], 1)
        ]
        records = [made_files.field(2, made_files.items(row, 2)) for row in rows]
        run = only(wandb(made_files.wandb_log(records)))
        assert (run.steps[:2], run.step_times[1]) == ((10, 20), 0.15)

    def test_the_summary_of_a_trainer_is_no_step(self, wandb):
        rows = made_files.wandb_rows()
        summary = {
            "train/train_runtime": 49.0,
            "train/train_loss": 1.85,
            "train/loss": 1.85,
            "_runtime": 70.0,
        }
        run = only(wandb(made_files.wandb_run([*rows, summary])))
        assert (run.steps[-1], run.loss_values[-1]) == (30, 1.7)

    def test_metrics_with_names_of_ones_own_are_mapped_by_columns(self, wandb):
        rows = [{"nll": 5 - step / 10, "sec/it": 0.5, "_runtime": 0.5 * step} for step in range(9)]
        path = wandb(made_files.wandb_run(rows))
        (error,) = load([str(path)]).errors
        assert (
            "--columns loss=nll,time=sec/it,elapsed=_runtime,step=_step reads its columns: nll, "
            in error.problem
        )
        named = mapped.columns("step=_step,time=sec/it,loss=nll")
        ((run,),) = (file.runs for file in load([str(path)], GivenValues(columns=named)).files)
        assert (run.steps, set(run.step_times)) == (tuple(range(1, 10)), {0.5})
        assert run.loss_values[:2] == (5, 4.9)

    @pytest.mark.parametrize(("count", "more"), [(11, ""), (12, ", …")])
    def test_a_dozen_metrics_are_named(self, wandb, count, more):
        """And the counter of the rows."""
        names = [f"m{number}" for number in range(count)]
        path = wandb(made_files.wandb_run([dict.fromkeys(names, 1.0)] * 3))
        (error,) = load([str(path)]).errors
        shown = ", ".join([*names, "_step"][:12])
        assert error.problem.endswith(
            f"--columns step=COLUMN,time=COLUMN reads its columns: {shown}{more}"
        )

    @pytest.mark.parametrize(
        ("code", "rows", "kind"),
        [
            (0, 999, "finished"),
            (1, 999, "finished"),
            (None, 999, "finished"),
            (0, 20, "finished"),
            (1, 20, "failed"),
            (None, 20, "cut_off"),
        ],
    )
    def test_e1_the_end(self, wandb, code, rows, kind):
        run = only(wandb(made_files.wandb_run(made_files.wandb_rows()[:rows], exit_code=code)))
        assert run.ending.kind == kind
        assert (
            run.status
            == {"finished": "complete", "failed": "failed", "cut_off": "incomplete"}[kind]
        )
        why = "the run ended with exit code 1"
        assert (run.status_reason == why) is (kind == "failed")
        assert (f"the run completed, then: {why}" in run.warnings) is (
            code == 1 and kind == "finished"
        )

    @pytest.mark.parametrize("padding", [0, 20_000, 32_000, 32_500, 32_743, 32_744, 32_750, 70_000])
    def test_records_in_several_blocks(self, wandb, padding):
        plain = only(wandb(made_files.wandb_run(made_files.wandb_rows())))
        run = only(wandb(made_files.wandb_run(made_files.wandb_rows(), padding=padding)))
        assert (run.step_times, run.loss_values) == (plain.step_times, plain.loss_values)

    def test_every_place_where_a_file_may_be_torn(self, wandb):
        content = made_files.wandb_run(made_files.wandb_rows(), exit_code=None)
        whole = only(wandb(content))
        for end in range(len(content) - 400, len(content), 7):
            run = only(wandb(content[:end]))
            count = len(run.steps)
            assert count >= 25
            assert (run.step_times, run.loss_values) == (
                whole.step_times[:count],
                whole.loss_values[:count],
            )

    def test_damage_costs_the_rest_of_a_block(self, wandb):
        content = bytearray(made_files.wandb_run(made_files.wandb_rows(), padding=30_000))
        content[25_000] ^= 0xFF
        run = only(wandb(bytes(content)))
        assert "1 damaged or torn record skipped" in run.warnings
        assert run.steps[-1] == 30

    def test_zeros_at_the_end_are_room(self, wandb):
        content = made_files.wandb_run(made_files.wandb_rows(), exit_code=None)
        assert only(wandb(content + bytes(100_000))).warnings == only(wandb(content)).warnings

    def test_milliseconds_among_step_times_are_noticed(self, wandb):
        rows = [
            {**row, "train/step_time": 1500.0}
            for row in made_files.wandb_rows()
            if "train/loss" in row
        ]
        run = only(wandb(made_files.wandb_run(rows)))
        assert [note.code for note in findings_of(run)] == ["stamps-contradict"]
        rows = [{**row, "train/step_time": 1.4} for row in rows]
        assert findings_of(only(wandb(made_files.wandb_run(rows)))) == ()

    def test_the_gpu_in_the_metadata_of_older_versions(self, wandb):
        rows = [
            made_files.field(2, made_files.items({**row, "_step": step}, 2))
            for step, row in enumerate(made_files.wandb_rows())
        ]
        run = only(
            wandb(made_files.wandb_log(rows), '{"gpu": "NVIDIA A100-SXM4-80GB", "gpu_count": 8}')
        )
        assert run.gpu_info.device_name == "NVIDIA A100-SXM4-80GB"
        # The machine has eight, which doesn't say how many the training used.
        assert run.training_config.num_gpus is None

    def test_the_console_beside_is_the_same_training(self, wandb):
        """W&B keeps what a training prints: output.log in files/."""
        path = wandb(made_files.wandb_run(made_files.wandb_rows()))
        console = "".join(
            f"{{'loss': {2 - step / 100:.4f}, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch':"
            f" {step / 30:.4f}}}\n"
            for step in range(1, 31)
        )
        (path.parent / "files" / "output.log").write_text(console, encoding="utf-8")
        (file,) = load([str(path.parent)]).files
        (run,) = file.runs
        assert (run.framework, run.step_times[5]) == ("wandb", 1.5)

    def test_no_training_in_it(self, wandb):
        inputs = load([str(wandb(made_files.wandb_run([{"accuracy": 1.0}])))])
        assert (
            "this is the file of a W&B run (run-*.wandb), but no row has a training loss or a step"
            " time" in inputs.errors[0].message
        )


@pytest.mark.parametrize("content", [b"\xff" * 12, b"\x0a\x05ab", b"\x0f\x01", b"\x09\x01"])
def test_what_is_no_message(content):
    with pytest.raises((ValueError, LookupError)):
        protobuf.fields_of(content)


class TestMlflow:
    def folder(self, tmp_path, **files):
        run = tmp_path / "mlruns" / "154168" / "69c1732aabb5"
        texts = {
            "metrics/train/loss": made_files.MLFLOW_METRIC,
            "params/max_steps": "30",
            "params/num_gpus": "8",
            "params/per_device_train_batch_size": "2",
            "params/gradient_accumulation_steps": "4",
            "params/model_name_or_path": "mistralai/Mistral-7B-v0.1",
            "params/notes": "two\nlines",
            "tags/mlflow.runName": "h100",
            "meta.yaml": (
                "end_time: 1700000050000\nrun_name: h100\nstart_time: 1700000000000\nstatus: 3\n"
            ),
            **{name.replace("__", "/"): text for name, text in files.items()},
        }
        for name, text in texts.items():
            path = run / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        return run

    def test_steps_and_setup(self, tmp_path):
        run = only(
            self.folder(tmp_path, metrics__grad_norm="1700000001500 nan 1\n1700000003000 0.5 2\n")
        )
        assert (run.framework, run.status, run.steps) == ("mlflow", "complete", tuple(range(1, 31)))
        assert (run.step_times[:2], run.loss_values[0], run.grad_norms[1]) == (
            (None, 1.5),
            1.99,
            0.5,
        )
        config = run.training_config
        assert (config.global_batch_size, config.max_steps, config.num_gpus) == (64, 30, 8)
        assert (run.model, run.timestamp) == ("mistral", "2023-11-14T22:13:20+00:00")
        assert "gradient norm is not finite at step 1" in run.warnings

    def test_a_metric_named_alone_is_read_with_its_parameters(self, tmp_path):
        run = only(self.folder(tmp_path) / "metrics" / "train" / "loss")
        assert run.training_config.global_batch_size == 64

    def test_times_of_its_own(self, tmp_path):
        times = "".join(f"{1_700_000_000_000 + 1500 * step} 1.25 {step}\n" for step in range(1, 31))
        assert set(only(self.folder(tmp_path, metrics__step_time=times)).step_times) == {1.25}

    def test_the_later_of_two_values_of_a_step_counts(self, tmp_path):
        again = made_files.MLFLOW_METRIC + "1700000099000 1.0 30\n"
        assert only(self.folder(tmp_path, metrics__train__loss=again)).loss_values[-1] == 1.0

    def test_bytes_that_are_no_text(self, tmp_path):
        run = self.folder(tmp_path)
        path = run / "metrics" / "train" / "loss"
        path.write_bytes(made_files.MLFLOW_METRIC.encode() + b"1700000099000 1.0 31 \x80name\n")
        assert only(path).loss_values[-1] == 1.0

    def test_a_torn_last_line_is_no_value(self, tmp_path):
        run = only(
            self.folder(
                tmp_path, metrics__train__loss=made_files.MLFLOW_METRIC + "1700000099000 1.5 3"
            )
        )
        assert run.loss_values[2] == 1.97

    @pytest.mark.parametrize(
        ("status", "planned", "kind", "reason"),
        [
            ("1", 60, "cut_off", None),
            ("4", 60, "failed", "MLflow recorded the run as failed"),
            ("KILLED", 60, "stopped", "MLflow recorded the run as killed"),
            ("KILLED", 1, "finished", None),
            ("3", 60, "finished", None),
        ],
    )
    def test_e3_the_end(self, tmp_path, status, planned, kind, reason):
        run = only(
            self.folder(
                tmp_path, **{"meta.yaml": f"status: {status}\n", "params__max_steps": str(planned)}
            )
        )
        assert run.ending.kind == kind
        assert (run.status == "complete") is (kind == "finished")
        assert reason is None or run.status_reason == reason

    def test_metrics_without_steps(self, tmp_path):
        zeros = "".join(f"{1_700_000_000_000 + step} 2.0 0\n" for step in range(5))
        inputs = load(
            [str(self.folder(tmp_path, metrics__train__loss=zeros) / "metrics" / "train" / "loss")]
        )
        assert "its metrics have no steps: all are logged at step 0" in inputs.errors[0].message

    def test_two_runs_of_an_experiment(self, tmp_path):
        first = self.folder(tmp_path)
        second = first.with_name("a877c7e25af7")
        first.rename(second)
        self.folder(
            tmp_path, metrics__train__loss=made_files.MLFLOW_METRIC.replace(" 1.99 ", " 2.99 ")
        )
        assert sorted(run.loss_values[0] for run in runs(tmp_path / "mlruns")) == [1.99, 2.99]

    def test_csv(self, tmp_path):
        path = tmp_path / "metrics.csv"
        path.write_text(made_files.MLFLOW_CSV, encoding="utf-8")
        run = only(path)
        assert (run.label, run.steps[-1], run.step_times[1]) == (None, 30, 1.5)
        other = made_files.MLFLOW_CSV.replace("69c1732aabb5", "a877c7e25af7").partition("\n")[2]
        path.write_text(made_files.MLFLOW_CSV + other, encoding="utf-8")
        assert [run.label for run in runs(path)] == ["69c1732aabb5", "a877c7e25af7"]

    def test_a_csv_whose_header_is_broken(self, tmp_path):
        path = tmp_path / "metrics.csv"
        broken = made_files.MLFLOW_CSV.replace("step", "step\r", 1)
        for text, problem in (
            (broken, "no row has"),
            (broken + "69c1732aabb5,loss,1.9,31\n", "header lacks timestamp"),
        ):
            path.write_text(text, encoding="utf-8", newline="")
            (error,) = load([str(path)]).errors
            assert problem in error.problem

    def test_the_command(self, tmp_path, monkeypatch):
        self.folder(tmp_path)
        monkeypatch.chdir(tmp_path)
        assert command("read", ["mlruns", "--sequence-length", "4096", "--gpu", "H100"]) == 0
        (result,) = (tmp_path / "output").glob("*.json")
        (run,) = store.read(result)
        assert (result.name, run.training_config.sequence_length) == (
            "train_mlflow_mistral.json",
            4096,
        )


def test_formats_of_trackers_are_told_apart():
    heads = {
        "W&B run": made_files.wandb_run(made_files.wandb_rows()),
        "an MLflow run": made_files.MLFLOW_METRIC.encode(),
        "MLflow as CSV": made_files.MLFLOW_CSV.encode(),
        "CSVLogger": made_files.LIGHTNING_CSV.encode(),
    }
    for words, head in heads.items():
        file_format = read.file_format_of(head[: read.HEAD])
        assert file_format is not None
        assert words in file_format.looks_for
