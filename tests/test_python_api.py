"""`import tprimat`: load, read_log, compare; their tables and pages; `tprimat export`, which writes
the same table.
"""

from __future__ import annotations

import ast
import csv
import importlib
import inspect
import io
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from made_runs import H100, MI300X, make_run
from test_readme import blocks_of

import tprimat
from tprimat.cli import run as command
from tprimat.errors import ExitStatus, UnreadableError, UsageError
from tprimat.report import steps
from tprimat.store.store import save, save_as

REPOSITORY = Path(__file__).resolve().parent.parent
LOG = "".join(
    f"iter {n}: loss {5 - n / 100:.4f}, time {500 + n}.00ms, mfu 30.00%\n" for n in range(30)
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def results(here):
    """Two systems with two runs each, in two files."""
    for gpu, stack, time in ((H100, "cuda", 3.2), (MI300X, "rocm", 2.4)):
        for scale in (1.0, 1.01):
            save_as(
                make_run(gpu, stack=stack, step_time=time * scale),
                here / "output" / f"{stack}.json",
            )
    return here / "output"


@pytest.fixture
def without(monkeypatch):
    """Makes a package as good as not installed."""
    return lambda name: monkeypatch.setitem(sys.modules, name, None)


def test_importing_is_light_and_all_names_are_there():
    code = (
        "import sys, tprimat\nassert not [name for name in sys.modules if"
        " name.startswith(('tprimat.', 'msgspec', 'numpy'))]\nimport tprimat.compare.pairs\nfrom"
        " tprimat.compare import Ratio\nfrom tprimat import *\nprint(*(callable(value) for value in"
        " (compare, load, read_log, Run, Results, Comparison)), tprimat.compare)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.stdout.startswith("True " * 6 + "<function compare"), done.stderr


def test_the_columns_are_stable():
    assert [column.name for column in steps.COLUMNS] == [
        "model", "system", "run", "status", "step", "window_steps", "step_time_seconds", "loss", "learning_rate",
        "grad_norm", "is_steady", "segment", "log_line", "file",
    ]  # fmt: skip


def test_names_complete():
    assert set(tprimat.__all__) <= set(dir(tprimat))


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        _ = tprimat.lode


class TestLoad:
    def test_folder_file_pattern_and_list_hold_the_same(self, results):
        found = tprimat.load("output")
        assert (len(found), len(found.files)) == (4, 2)
        assert list(found) == list(found.runs)
        assert repr(found) == "<Results: 4 runs in 2 files>"
        for paths in (
            ["output/*.json"],
            [results / "cuda.json", results / "rocm.json"],
            [results.glob("*.json")],
        ):
            assert sorted(run.framework for run in tprimat.load(*paths)) == [
                "nemo",
                "nemo",
                "primus",
                "primus",
            ]

    def test_results_and_logs_mixed_in_the_order_of_their_names(self, results):
        Path("nano.log").write_text(LOG)
        found = tprimat.load("output/rocm.json", "nano.log", "output/cuda.json")
        assert [run.framework for run in found] == ["primus", "primus", "nanogpt", "nemo", "nemo"]
        assert sorted(path.name for path in results.iterdir() if path.suffix == ".json") == [
            "cuda.json",
            "rocm.json",
        ]

    def test_a_folder_of_logs(self, here):
        (here / "logs").mkdir()
        (here / "logs" / "nano.log").write_text(LOG)
        assert [len(run.steps) for run in tprimat.load("logs")] == [30]

    def test_a_log_beside_its_result_is_not_a_second_run(self, results):
        (results / "training.log").write_text(LOG)
        assert len(tprimat.load(results)) == 5
        assert (
            command(
                "read", [str(results / "training.log"), "--output-dir", str(results), "--quiet"]
            )
            == 0
        )
        assert len(tprimat.load(results)) == 5
        (results / "training.log").rename("moved.log")
        assert len(tprimat.load(results, "moved.log")) == 5

    def test_what_is_neither_is_an_error(self, results):
        Path("notes.txt").write_text("nothing\n")
        (results / "cut.json").write_bytes((results / "cuda.json").read_bytes()[:900])
        with pytest.raises(UnreadableError, match="no such file"):
            tprimat.load(results, "missing.json")
        with pytest.raises(UsageError, match=r"notes.txt: no supported training log"):
            tprimat.load("notes.txt")
        with pytest.raises(UnreadableError, match=r"cut.json: not valid JSON"):
            tprimat.load(results / "cut.json")
        assert "cut.json" in tprimat.load(results).notes[0]

    def test_an_empty_folder(self, here):
        with pytest.raises(UsageError, match="no results or logs in"):
            tprimat.load(here)

    def test_no_paths_are_the_default_directory_but_an_empty_list_is_an_error(self, results):
        assert len(tprimat.load()) == 4
        with pytest.raises(UsageError, match="no results or logs in no paths"):
            tprimat.load([])


class TestReadLog:
    def test_values_that_a_log_leaves_open(self, here):
        Path("nano.log").write_text(LOG)
        (run,) = tprimat.read_log(
            "nano.log", model_name="llama-3.1-8b", num_gpus=2, global_batch_size=8, sequence_length=1024, label="mine",
            gpu="MI300X", precision="bf16",
        )  # fmt: skip
        assert (run.gpu_info.device_name, run.platform, run.training_config.precision) == (
            "MI300X",
            "amd",
            "bf16",
        )
        assert (run.model, run.num_gpus, run.tokens_per_step, run.label) == (
            "llama-3.1-8b",
            2,
            8192,
            "mine",
        )

    def test_any_table_by_its_columns(self, here):
        Path("metrics.csv").write_text(
            "iteration,t\n" + "".join(f"{n},{2 + n % 2 / 100}\n" for n in range(1, 31))
        )
        (run,) = tprimat.read_log("metrics.csv", columns={"step": "iteration", "time": "t"})
        assert run.step_times[:2] == (2.01, 2.0)
        with pytest.raises(UsageError, match="unknown value 'iteration'"):
            tprimat.read_log("metrics.csv", columns={"iteration": "step", "t": "time"})

    def test_against_the_log(self, here):
        Path("trainer_state.json").write_text(
            json.dumps(
                {
                    "global_step": 3,
                    "max_steps": 3,
                    "log_history": [{"loss": 1.0, "step": n} for n in (1, 2, 3)],
                }
            )
        )
        assert tprimat.read_log("trainer_state.json", label="a").runs[0].label == "a"


class TestCompare:
    def test_has_the_values_of_the_command(self, results, capsys):
        found = tprimat.compare("output", precision="bf16")
        assert command("compare", ["--json", "--no-plot"]) == ExitStatus.OK
        values = json.loads(capsys.readouterr().out)
        assert found.to_dict() == values
        pair = values["models"][0]["groups"][0]["leaders"]
        assert (found.faster, found.slower) == (pair["faster"], pair["slower"])
        assert found.ratio == pair["speedup"]["value"] == pytest.approx(4 / 3, rel=0.01)
        assert found.interval == (pair["speedup"]["low"], pair["speedup"]["high"])
        assert found.is_significant is True
        assert {each.code for each in found.caveats} == {
            each["code"] for each in values["models"][0]["groups"][0]["caveats"]
        }
        assert found.headline in " ".join(str(found).split())
        assert repr(found) == f"<Comparison: {found.headline}>"

    def test_what_was_loaded_and_paths_together(self, results):
        loaded = tprimat.load(results / "cuda.json")
        assert tprimat.compare(loaded, results / "rocm.json").faster == "8×MI300X (BF16)"

    def test_two_files_of_one_training_are_one_run(self, here):
        state = {
            "log_history": [{"loss": 5 - n / 100, "step": n + 1} for n in range(30)],
            "max_steps": 30,
        }
        Path("trainer_state.json").write_text(json.dumps({**state, "global_step": 30}))
        steps_log = "".join(f"{{'loss': {5 - n / 100}, 'epoch': 1.0}}\n" for n in range(30))
        Path("train.log").write_text(
            steps_log + "{'train_runtime': 30.0, 'train_loss': 4.8, 'epoch': 1.0}\n"
        )
        assert (
            len(
                tprimat.compare("trainer_state.json", "train.log")
                ._report.comparison.systems[0]
                .runs
            )
            == 1
        )

    def test_a_name_for_each_path(self, here):
        for name, time in (("one", 2.0), ("two", 3.0)):
            save_as(make_run(step_time=time), here / name / "run.json")
        found = tprimat.compare("old=two", "new=one")
        assert found.faster is not None
        assert found.faster.startswith("new")

    def test_one_run_each_has_no_interval(self, here):
        for name, time in (("one", 2.0), ("two", 3.0)):
            save_as(make_run(step_time=time, label=name), here / f"{name}.json")
        found = tprimat.compare("one.json", "two.json")
        assert (found.interval, found.is_significant) == (None, None)
        assert found.ratio == pytest.approx(1.5, rel=0.01)

    def test_several_models_have_an_answer_each(self, results):
        for gpu, stack in ((H100, "cuda"), (MI300X, "rocm")):
            save_as(make_run(gpu, stack=stack, model="qwen"), results / f"{stack}_qwen.json")
        found = tprimat.compare(results)
        with pytest.raises(UsageError, match="2 answers"):
            _ = found.ratio
        assert [each.ratio is not None for each in found.answers] == [True, True]
        assert [len(each.to_dict()["models"]) for each in found.answers] == [1, 1]
        assert tprimat.compare(results, model="llama").ratio == pytest.approx(4 / 3, rel=0.01)

    @pytest.mark.parametrize(
        ("function", "arguments", "words"),
        [
            (
                "compare",
                {"precision": {"H100": "fp9"}},
                "precision='fp9' is invalid: give one of fp32",
            ),
            (
                "compare",
                {"mode": "identical"},
                "mode='identical' is invalid: give one of best, same",
            ),
            ("read_log", {"precision": "fp9"}, "precision='fp9' is invalid"),
            (
                "read_log",
                {"num_gpus": "8"},
                "num_gpus='8' is invalid: give a whole number above zero",
            ),
        ],
    )
    def test_a_wrong_argument_is_one_line(self, results, function, arguments, words):
        with pytest.raises(UsageError, match=words):
            getattr(tprimat, function)(results, **arguments)

    def test_what_cannot_be_compared_says_why(self, here):
        save_as(make_run(length=2048), here / "one.json")
        save_as(make_run(MI300X, stack="rocm", length=4096), here / "two.json")
        found = tprimat.compare(here)
        assert (found.ratio, found.faster, found.interval) == (None, None, None)
        assert "sequence length" in found.headline

    def test_reference_and_prices_are_those_of_the_command(self, results):
        found = tprimat.compare(
            results, reference="MI300X", cost_per_gpu_hour={"H100": 3.0, "MI300X": 2.0}
        )
        assert found.to_dict()["models"][0]["groups"][0]["baseline"] == "8×MI300X (BF16)"
        assert "8×MI300X" in str(found)
        with pytest.raises(UsageError, match="no system matches"):
            tprimat.compare(results, reference="B200")


class TestSteps:
    def test_a_row_for_each_record_of_each_run(self, results):
        table = steps.columns(tprimat.compare(results)._report.comparison)
        assert list(table) == [column.name for column in steps.COLUMNS]
        assert {len(values) for values in table.values()} == {240}
        systems = ("8×H100 (BF16)", "8×MI300X (BF16)")
        there = set(zip(table["system"], table["run"], strict=True))
        assert there == {(system, number) for system in systems for number in (1, 2)}

    def test_steady_steps_give_the_metrics(self, results):
        found = tprimat.compare(results)._report.comparison
        table = steps.columns(found)
        for system in found.systems:
            for number, result in enumerate(system.runs, start=1):
                times = [
                    time
                    for name, run, steady, time in zip(
                        table["system"],
                        table["run"],
                        table["is_steady"],
                        table["step_time_seconds"],
                        strict=True,
                    )
                    if steady and (name, run) == (system.name, number)
                ]
                assert statistics.fmean(times) == pytest.approx(
                    result.value("avg_step_time_seconds")
                )
                assert len(times) < 60

    def test_profiled_untimed_and_warm_up_steps_are_not_steady(self, here):
        run = make_run(steps=60)
        times = (*run.step_times[:39], None, *run.step_times[40:])
        save_as(
            msgspec.structs.replace(run, step_times=times, profiled_steps=(50,)), here / "run.json"
        )
        table = steps.columns(tprimat.compare("run.json")._report.comparison)
        unsteady = [
            step
            for step, steady in zip(table["step"], table["is_steady"], strict=True)
            if not steady
        ]
        assert {1, 2, 40, 50} <= set(unsteady)
        assert [
            number
            for number, step in zip(table["segment"], table["step"], strict=True)
            if step in unsteady
        ] == [None] * len(unsteady)

    def test_segments_are_numbered_between_change_points(self, here):
        run = make_run(warmup=(9.0,), steps=200)
        times = tuple(
            time * (1.5 if step > 120 else 1.0)
            for step, time in zip(run.steps, run.step_times, strict=True)
        )
        save_as(msgspec.structs.replace(run, step_times=times), here / "run.json")
        table = steps.columns(tprimat.compare("run.json")._report.comparison)
        by_step = dict(zip(table["step"], table["segment"], strict=True))
        assert (by_step[1], by_step[60], by_step[180]) == (None, 1, 2)

    def test_a_data_frame_with_a_type_for_each_column(self, results):
        pytest.importorskip("pandas")
        frame = tprimat.load(results).steps()
        assert frame.shape == (240, len(steps.COLUMNS))
        assert {name: str(kind) for name, kind in frame.dtypes.items()}["step"] == "Int64"
        assert frame.is_steady.dtype == bool
        assert frame.log_line.isna().all()
        steady = frame[frame.is_steady].groupby("system").step_time_seconds.mean()
        assert steady["8×H100 (BF16)"] / steady["8×MI300X (BF16)"] == pytest.approx(4 / 3, rel=0.01)

    def test_without_pandas_one_line_says_what_is_missing(self, results, without):
        without("pandas")
        with pytest.raises(
            UsageError, match=r"steps\(\) needs the package pandas.*pip install pandas"
        ):
            tprimat.load(results).steps()


class TestInANotebook:
    def test_a_table_and_the_verdict(self, results):
        shown = tprimat.compare(results)._repr_html_()
        assert "33% faster" in shown
        assert shown.count("<tr>") == 5
        assert "faster" not in tprimat.load(results)._repr_html_()

    def test_every_text_is_escaped(self, here):
        for name in ("<script>alert(1)</script>", 'b" onclick="x'):
            save_as(make_run(label=name), here / f"{len(name)}.json")
        shown = tprimat.compare(here)._repr_html_() + tprimat.load(here)._repr_html_()
        assert "<script" not in shown
        assert '" onclick' not in shown
        assert "&lt;script&gt;" in shown


class TestExport:
    def export(self, capsys, *arguments: str) -> tuple[int, str]:
        return command("export", arguments), capsys.readouterr().out

    def test_csv(self, results, capsys):
        status, out = self.export(capsys, "--csv", "steps.csv")
        assert (status, out) == (0, "240 rows: steps.csv\n")
        rows = list(csv.DictReader(io.StringIO(Path("steps.csv").read_text(encoding="utf-8"))))
        assert len(rows) == 240
        assert list(rows[0]) == [column.name for column in steps.COLUMNS]
        assert (rows[0]["step"], rows[0]["segment"], rows[0]["log_line"]) == ("1", "", "")

    @pytest.mark.parametrize(
        ("model", "cell"),
        [
            ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
            ("@x", "'@x"),
            ("-x", "'-x"),
            ("a=b", "a=b"),
            ("'=x", "'=x"),
        ],
    )
    def test_csv_holds_no_formula(self, here, capsys, model, cell):
        save_as(make_run(model=model), here / "run.json")
        assert self.export(capsys, "run.json", "--csv", "steps.csv")[0] == 0
        rows = list(csv.DictReader(io.StringIO(Path("steps.csv").read_text(encoding="utf-8"))))
        assert rows[0]["model"] == cell
        assert float(rows[0]["step_time_seconds"]) > 0

    def test_one_file_writes_csv(self):
        package = Path(tprimat.__file__).parent
        writing = [
            path.name
            for path in package.rglob("*.py")
            if re.search(r"csv\.(?:writer|DictWriter)", path.read_text("utf-8"))
        ]
        assert writing == ["steps.py"]

    def test_json_lines_on_the_standard_output(self, results, capsysbinary):
        assert command("export", ["output/cuda.json", "--jsonl", "-"]) == 0
        rows = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
        assert len(rows) == 120
        assert rows[0]["is_steady"] is False
        assert rows[0]["segment"] is None

    def test_parquet(self, results, capsys):
        pytest.importorskip("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
        assert self.export(capsys, "--parquet", "steps.parquet", "--quiet") == (
            0,
            "steps.parquet\n",
        )
        table = parquet.read_table("steps.parquet")
        assert (table.num_rows, table.column_names) == (
            240,
            [column.name for column in steps.COLUMNS],
        )

    def test_parquet_without_pyarrow(self, results, capsys, without):
        without("pyarrow")
        assert command("export", ["--parquet", "steps.parquet"]) == ExitStatus.USAGE
        assert "hint:  pip install pyarrow" in capsys.readouterr().err
        assert not Path("steps.parquet").exists()

    def test_a_file_that_cannot_be_read_is_an_error_and_the_rest_is_exported(self, results, capsys):
        Path("notes.txt").write_text("nothing\n")
        status, out = self.export(capsys, "output", "notes.txt", "--csv", "steps.csv", "--json")
        values = json.loads(out)
        assert (status, values["status"], values["rows"], len(values["files"])) == (2, 2, 240, 2)

    def test_the_format_is_needed(self, results, capsys):
        assert command("export", ["output"]) == ExitStatus.USAGE
        assert "--csv" in capsys.readouterr().err


class TestDocs:
    def test_the_page_names_everything_public(self):
        page = (REPOSITORY / "docs" / "python.md").read_text(encoding="utf-8")
        names = [
            name
            for kind in (tprimat.Results, tprimat.Comparison)
            for name in vars(kind)
            if name[0] != "_"
        ]
        functions = (tprimat.load, tprimat.read_log, tprimat.compare)
        names += [name for function in functions for name in inspect.signature(function).parameters]
        assert [name for name in names if not re.search(rf"\b{name}\b", page)] == []

    def test_the_page_prints_what_it_shows(self, monkeypatch, capsys):
        pytest.importorskip("pandas")
        monkeypatch.chdir(REPOSITORY)
        blocks = blocks_of((REPOSITORY / "docs" / "python.md").read_text(encoding="utf-8"))
        names: dict[str, object] = {}
        for block in blocks:
            if block.language == "python":
                exec(block.text, names)
        out = capsys.readouterr().out
        assert [
            block.text for block in blocks if block.language == "text" and block.text not in out
        ] == []
        assert out.count("bf16") == 3

    def test_the_notebook_runs(self, monkeypatch):
        pytest.importorskip("pandas")
        monkeypatch.chdir(REPOSITORY / "docs" / "examples")
        monkeypatch.setenv("MPLBACKEND", "Agg")
        cells = json.loads(Path("python.ipynb").read_text(encoding="utf-8"))["cells"]
        names: dict[str, object] = {}
        shown = []
        for cell in cells:
            if cell["cell_type"] == "code":
                *statements, last = ast.parse("".join(cell["source"])).body
                exec(compile(ast.Module(statements, []), "notebook", "exec"), names)
                is_value = isinstance(last, ast.Expr)
                value = (
                    eval(compile(ast.Expression(last.value), "notebook", "eval"), names)
                    if is_value
                    else None
                )
                shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
        assert len(shown) == len([cell for cell in cells if cell["cell_type"] == "code"])
        assert shown[2].startswith("('fp32', 22.7")
        assert [text for text in shown if text == "None"] == []


class TestErrorsNameArguments:
    def test_a_value_against_the_log(self, here):
        (here / "b.log").write_text("  global_batch_size ........ 64\n" + MEGATRON)
        with pytest.raises(UsageError) as error:
            tprimat.read_log("b.log", global_batch_size=32)
        assert "--" not in str(error.value)
        assert ", global_batch_size as 32" in error.value.problem
        assert error.value.hint == "remove the argument, or add override=True"
        assert (
            str(error.value) == error.value.message == f"{error.value.problem}: {error.value.hint}"
        )

    def test_of_a_comparison(self, results):
        with pytest.raises(UsageError, match=r"^reference: no system matches 'B200'"):
            tprimat.compare(results, reference="B200")
        with pytest.raises(UsageError, match=r"^cost_per_gpu_hour: no system matches 'B200'"):
            tprimat.compare(results, cost_per_gpu_hour={"B200": 3.0, "H100": 2.0})


MEGATRON = "".join(
    f" iteration {n:8d}/      30 | elapsed time per iteration (ms): {1000 + n:.1f} | "
    "global batch size: 64 | lm loss: 9.0 |\n"
    for n in range(1, 31)
)


@pytest.mark.parametrize(
    ("devices", "baseline"),
    [
        # The second fastest, not the slowest.
        (("NVIDIA B200", H100, "NVIDIA A100-SXM4-80GB"), "8×H100 (BF16)"),
        # The fastest of another vendor than the fastest one's.
        (("NVIDIA B200", H100, MI300X), "8×MI300X (BF16)"),
        (("NVIDIA B200", H100), "8×H100 (BF16)"),
    ],
)
def test_c15_the_default_reference_is_what_the_documentation_says(tmp_path, devices, baseline):
    for place, device in enumerate(devices):
        stack = "rocm" if "AMD" in device else "cuda"
        save(make_run(device, step_time=8.0 + place, stack=stack), tmp_path / str(place))
    assert tprimat.compare(tmp_path).to_dict()["models"][0]["groups"][0]["baseline"] == baseline
    documented = " ".join(tprimat.compare.__doc__.split())
    assert (
        "by default the fastest of another vendor than the fastest one's, else the second fastest"
        in documented
    )
