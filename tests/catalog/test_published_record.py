"""The sets of MLPerf among the published results: from small clones, and compared with an
independent account.
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
from pathlib import Path

import pytest
from made_mlperf import BATCH, SYSTEM, mlperf_log
from tool_modules import load_tool

from tprimat.catalog import published

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "samples" / "mlperf_clock"
TRUTH = json.loads((FOLDER / "truth.json").read_text())["rows"] if FOLDER.is_dir() else []
LENGTH = 8192
UNSTATED = re.compile(r".*lowest_numerical.*\n")


def logs(count=3, *, lasts=6000, precision=None, failed=0):
    """Logs of a set: each run somewhat slower than the one before; the precision unless it is left
    out.
    """
    made = [
        mlperf_log(
            ((12, 12_000 + 10 * number, 900), (6, lasts, 900)),
            benchmark="llama31_405b",
            status="aborted" if number < failed else "success",
        )
        for number in range(count)
    ]
    return [text if precision else UNSTATED.sub("", text) for text in made]


@pytest.fixture
def clone(tmp_path):
    """Makes clones: a repository by its name, of files by their paths."""

    def make(name: str, files: dict[str, str]) -> Path:
        folder = tmp_path / name
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "results")):
            names = ("-c", "user.name=a", "-c", "user.email=a@example.com")
            subprocess.run(
                ["git", "-C", str(folder), *names, *words], check=True, capture_output=True
            )
        return folder

    return make


def a_set(name: str, texts: list[str], system: str = "b200_n1", **others: str) -> dict[str, str]:
    """Return the files of a set of Llama 3.1 405B of an organization, and others of its code."""
    folder = f"{name}/results/{system}/llama31_405b"
    code = f"{name}/benchmarks/llama31_405b/implementations"
    return {
        **{f"{folder}/result_{number}.txt": text for number, text in enumerate(texts)},
        f"{name}/systems/{system}.json": json.dumps(SYSTEM),
        **{f"{code}/{path}": content for path, content in others.items()},
    }


@pytest.fixture
def made(tmp_path, capsys):
    """Runs the program on clones; returns its rows by system, and what it and the check print."""

    def run(*clones: Path):
        output = tmp_path / "made"
        status = load_tool("mlperf_record").main(
            [*map(str, clones), "--output-dir", str(output), "--jobs", "1"]
        )
        assert status == 0
        rows = [
            row
            for path in sorted(output.glob("*.csv"))
            for row in csv.DictReader(path.open(encoding="utf-8"))
        ]
        said = capsys.readouterr().out
        check = load_tool("check_mlperf_record").main(
            [*map(str, clones), "--published", str(output)]
        )
        return rows, said, (check, capsys.readouterr().out)

    return run


CONFIG = (
    "source $(dirname ${BASH_SOURCE[0]})/config_common.sh\nexport MINIBS=2\nexport"
    " DGXNNODES=1\nexport DGXNGPU=8\n"
)
FP4 = {
    "nemo/config_common.sh": "export FP4=True\nexport FP8=False\n",
    "nemo/config_DGXB200_1x8x2.sh": CONFIG,
}


class TestClone:
    def test_a_row_has_the_speed_of_all_steps_and_the_official_time(self, clone, made):
        files = a_set("Nobody", logs(precision="fp8")) | {
            "Nobody/results/b200_n1/llama31_405b/scaling.json": '{"scaling_factor": 1.01}'
        }
        (row,), _, (status, checked) = made(clone("training_results_v5.1", files))
        seconds = sum(12 + number / 100 + 6 for number in range(3))
        assert float(row["step_time_seconds"]) == pytest.approx(seconds / 54, rel=1e-5)
        assert float(row["tokens_per_second_per_gpu"]) == pytest.approx(
            BATCH * LENGTH * 54 / seconds / 8, rel=1e-5
        )
        assert len(row["run_rates"].split()) == 3
        # The middle one, with two evaluations of 0.9 s, the start and the pauses.
        assert float(row["time_to_target_seconds"]) == pytest.approx(
            1.01 * (18.01 + 1.8 + 0.12 + 0.042), rel=1e-4
        )
        assert (row["samples_to_target"], row["num_runs"], row["failed_runs"]) == (
            str(18 * BATCH),
            "3",
            "0",
        )
        assert (row["gpu"], row["num_gpus"], row["precision"], row["model"]) == (
            "b200-hgx", "8", "fp8", "llama-3.1-405b"
        )  # fmt: skip
        assert re.fullmatch(
            r"mlcommons/training_results_v5.1/Nobody/results/b200_n1/llama31_405b@[0-9a-f]{12}",
            row["source"],
        )
        assert status == 0
        assert "1 sets, 3 logs" in checked

    @pytest.mark.parametrize(("failed", "has_score"), [(0, True), (1, True), (2, False)])
    def test_one_run_may_miss_the_target(self, failed, has_score, clone, made):
        (row,), _, (status, _) = made(
            clone("training_results_v5.1", a_set("A", logs(failed=failed)))
        )
        assert (bool(row["time_to_target_seconds"]), row["failed_runs"]) == (has_score, str(failed))
        assert len(row["run_rates"].split()) == 3 - failed
        assert status == 0

    @pytest.mark.parametrize(
        ("code", "precision", "place"),
        [
            (FP4, "fp4", "nemo/config_common.sh:1"),
            (
                {
                    **FP4,
                    "nemo/config_DGXB200_1x8x2.sh": f"{CONFIG}export FP4=False\nexport FP8=True\n",
                },
                "fp8",
                "x2.sh:6",
            ),
            # Another GPU, number of nodes or batch is another set's configuration.
            (
                {**FP4, "nemo/config_H100.sh": f"{CONFIG}export FP4=False\nexport FP8=True\n"},
                "fp4",
                "common.sh:1",
            ),
            (
                {
                    **FP4,
                    "nemo/config_B200.sh": (
                        f"{CONFIG}export FP4=0\nexport FP8=1\nexport DGXNNODES=2\n"
                    ),
                },
                "fp4",
                ":1",
            ),
            (
                {
                    **FP4,
                    "nemo/config_B200.sh": f"{CONFIG}export FP4=0\nexport FP8=1\nexport MINIBS=4\n",
                },
                "fp4",
                ":1",
            ),
            # Two that may be it, and differ.
            (
                {**FP4, "nemo/config_B200.sh": f"{CONFIG}export FP4=False\nexport FP8=True\n"},
                "",
                "",
            ),
            # But one is named after the system.
            (
                {**FP4, "nemo/config_b200-n1.sh": f"{CONFIG}export FP4=False\nexport FP8=True\n"},
                "fp8",
                "n1.sh:6",
            ),
            ({"nemo/config_B200.sh": CONFIG, "nemo/config_common.sh": "export LR=1\n"}, "", ""),
            ({}, "", ""),
        ],
    )
    def test_the_precision_is_that_of_the_configuration_if_only_one_may_be(
        self, code, precision, place, clone, made
    ):
        (row,), _, _ = made(clone("training_results_v5.1", a_set("A", logs(), **code)))
        assert row["precision"] == precision
        assert row["precision_source"].endswith(place)

    def test_the_log_decides_before_the_code(self, clone, made):
        (row,), _, _ = made(
            clone("training_results_v5.1", a_set("A", logs(precision="fp8"), **FP4))
        )
        assert (row["precision"], row["precision_source"][:4]) == ("fp8", "log:")

    def test_software_is_what_the_image_of_the_code_has(self, clone, made):
        code = {
            **FP4,
            "nemo/Dockerfile": (
                "ARG FROM_IMAGE_NAME=nvcr.io/x/pytorch:25.09-py3\nARG NEMO_REVISION=v2.5.0\n"
            ),
        }
        (row,), _, _ = made(clone("training_results_v5.1", a_set("A", logs(), **code)))
        assert (row["framework"], row["version"]) == ("nemo", "NeMo 2.5.0, PyTorch 25.09")

    def test_logs_that_come_again_count_once_and_are_named(self, clone, made):
        first = clone("training_results_v5.0", a_set("A", logs()))
        second = clone(
            "training_results_v5.1",
            a_set("A", logs(), "again") | a_set("A", logs(lasts=6100), "other"),
        )
        rows, said, (status, _) = made(second, first)
        assert [row["source"].split("/")[1] for row in rows] == [
            "training_results_v5.0",
            "training_results_v5.1",
        ]
        assert (
            rows[0]["note"]
            == "the same logs again in training_results_v5.1/A/results/again/llama31_405b"
        )
        assert (
            "the same logs as mlcommons/training_results_v5.0/A/results/b200_n1/llama31_405b"
            in said
        )
        assert status == 0

    def test_a_set_of_which_a_clone_lacks_a_log_has_no_row(self, clone, made):
        texts = logs(4)
        folder = clone("training_results_v5.1", a_set("A", texts[:3]) | a_set("B", texts[1:]))
        blob = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD:A/results/b200_n1/llama31_405b/result_0.txt"],
            check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        (row,), said, (status, _) = made(folder)
        assert (row["publisher"], status) == ("B in MLPerf", 0)
        assert "not in this clone: training_results_v5.1/A/results/b200_n1/llama31_405b" in said

    def test_the_first_set_by_path_counts_in_whatever_order_sets_are_read(self, clone, tmp_path):
        # As text "n8-POWER/" comes before "n8/"; in the newer round an organization comes before
        # that of the older.
        texts, code = (
            logs(),
            {"nemo/config_common.sh": "export FP4=True\n", "nemo/config_B200.sh": CONFIG},
        )
        older = a_set("B", texts, "n8", **code) | a_set("B", texts, "n8-POWER")
        newer = a_set("A", texts, "n8", **code) | a_set("A", logs(lasts=6100), "n8-POWER")
        clones = clone("training_results_v5.0", older), clone("training_results_v5.1", newer)
        written = set()
        for number, given in enumerate((clones, clones[::-1])):
            for jobs in ("1", "2"):
                output = tmp_path / f"{number}-{jobs}"
                arguments = [*map(str, given), "--output-dir", str(output), "--jobs", jobs]
                assert load_tool("mlperf_record").main(arguments) == 0
                written.add(tuple(path.read_bytes() for path in sorted(output.iterdir())))
        ((first, second),) = [
            [list(csv.DictReader(io.StringIO(file.decode()))) for file in files]
            for files in written
        ]
        assert [(row["system"], row["precision"]) for row in first] == [("n8", "fp4")]
        assert [row["system"] for row in second] == ["n8-POWER"]
        assert re.findall(r"training_results_v[^;]*", first[0]["note"]) == [
            "training_results_v5.0/B/results/n8-POWER/llama31_405b", "training_results_v5.1/A/results/n8/llama31_405b"
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("line", "note"), [("0: FP8 Healing starting...\n", "ends in FP8"), ("0: FP8\n", "")]
    )
    def test_a_change_of_precision_that_a_log_prints_is_noted(self, line, note, clone, made):
        texts = [mlperf_log(benchmark="llama31_405b", said={14: line.strip()}) for _ in range(3)]
        (row,), _, _ = made(clone("training_results_v5.1", a_set("A", texts)))
        assert row["note"] == note

    @pytest.mark.parametrize(("share", "status"), [(0.0019, 0), (0.0021, 1)])
    def test_the_check_finds_a_value_that_is_off(
        self, share, status, clone, made, tmp_path, capsys
    ):
        folder = clone("training_results_v5.1", a_set("A", logs()))
        (row,), _, _ = made(folder)
        (path,) = (tmp_path / "made").glob("*.csv")
        value = row["step_time_seconds"]
        path.write_text(path.read_text().replace(value, f"{float(value) * (1 + share):.9g}"))
        assert (
            load_tool("check_mlperf_record").main(
                [str(folder), "--published", str(tmp_path / "made")]
            )
            == status
        )
        assert ("fault: " in capsys.readouterr().out) is bool(status)


class TestRows:
    ROWS = tuple(row for row in published.rows() if "MLPerf" in row.publisher)

    def test_all_sets_of_three_rounds_that_have_logs(self):
        counts = {
            name: sum(f"training_results_{name}/" in row.source for row in self.ROWS)
            for name in ("v4.1", "v5.0", "v5.1")
        }
        assert (
            sum(counts.values()) + sum("the same logs again" in row.note for row in self.ROWS)
            == 216
        )
        assert sum("the same logs again" in row.note for row in self.ROWS) == 4

    def test_what_is_known(self):
        assert sum(bool(row.precision) for row in self.ROWS) >= 0.95 * len(self.ROWS)
        assert all(
            row.gpu and row.num_gpus and row.global_batch_size and row.date for row in self.ROWS
        )
        without = [row for row in self.ROWS if not row.tokens_per_second_per_gpu]
        assert {row.publisher for row in without} == {"Google in MLPerf"}
        assert all(
            len(row.rates) == row.num_runs - row.failed_runs
            for row in self.ROWS
            if row not in without
        )

    @pytest.mark.parametrize(
        "known", TRUTH, ids=lambda known: f"{known['repo'][-3:]} {known['set']}"
    )
    def test_values_are_those_of_an_independent_account(self, known):
        source = f"{known['repo']}/{known['set']}@{known['commit'][:12]}"
        copy = f"{known['repo'].partition('/')[2]}/{known['set']}"
        (row,) = [row for row in self.ROWS if row.source == source or copy in row.note]
        assert (row.num_gpus, row.global_batch_size) == (known["gpus"], known["global_batch"])
        assert (row.num_runs, row.num_runs - row.failed_runs) == (known["runs"], known["converged"])
        if known["log"]["contains_evaluation"]:
            assert row.step_time_seconds is None
        else:
            assert row.step_time_seconds == pytest.approx(known["set_s_per_step"], rel=0.002)
        assert row.samples_to_target == pytest.approx(known["samples_to_target_olympic"], rel=0.002)
        if row.time_to_target_seconds:
            assert row.time_to_target_seconds == pytest.approx(
                60 * known["official_minutes"], rel=0.002
            )

    @pytest.mark.parametrize(
        "name",
        [
            "v5.0/AMD/results/MI325X_EPYC_9575F_pytorch/llama2_70b_lora",
            "v5.1/AMD/results/MI355X_EPYC_9575F_pytorch/llama2_70b_lora",
            "v5.1/NVIDIA/results/tyche_ngpu8_ngc25.09_nemo/llama2_70b_lora",
        ],
    )
    def test_a_row_is_what_the_program_writes(self, name, samples, clone, made):
        """All that follows from the logs, the scaling factor and the system description, to the
        last digit.
        """
        organization, _, system, _ = name.split("/")[1:]
        about = Path(organization) / "systems" / f"{system}.json"
        root = samples / "mlperf_clock" / "sets" / name[:4]
        paths = [root / about, *(samples / "mlperf_clock" / "sets" / name).iterdir()]
        files = {
            path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths
        }
        (row,), _, _ = made(clone(f"training_results_{name[:4]}", files))
        with (published.FOLDER / "mlcommons" / f"training_results_{name[:4]}.csv").open(
            encoding="utf-8"
        ) as file:
            (known,) = [each for each in csv.DictReader(file) if f"/{name[5:]}@" in each["source"]]
        of_code = {"framework", "version", "precision", "precision_source", "note", "source"}
        assert {key: value for key, value in row.items() if key not in of_code} == {
            key: value for key, value in known.items() if key not in of_code
        }

    def test_there_is_an_account_to_compare_with(self, samples):
        assert len(TRUTH) > 50


@pytest.mark.parametrize(
    ("gpu", "version", "is_doubted"),
    [
        ("mi355x", "NeMo 25.09-alpha, PyTorch 25.09", True),
        ("mi355x", "ROCm 7.0, PyTorch 2.8.0", False),
        ("h200-sxm", "NeMo 2.0.0.rc0.beta, PyTorch 24.04", False),
        ("b200-hgx", "PyTorch 24.04", True),
        ("b200-hgx", "PyTorch 24.08", True),
        ("b200-hgx", "NeMo 24.09-alpha.rc0, PyTorch 24.09", False),
        ("b200-hgx", "NeMo 24.09-alpha.rc0", False),
        ("a GPU of no row", "PyTorch 24.04", False),
    ],
)
def test_software_that_cannot_be_of_the_gpu(gpu, version, is_doubted):
    assert load_tool("mlperf_record").is_of_another_gpu(gpu, version) == is_doubted


def test_rows_with_such_software_say_so():
    tool = load_tool("mlperf_record")
    rows = [row for row in published.rows() if row.source.startswith("mlcommons/")]
    doubted = [row for row in rows if tool.is_of_another_gpu(row.gpu, row.version)]
    assert len(doubted) == 3
    assert doubted == [row for row in rows if "as stated by the submitter" in row.note]
