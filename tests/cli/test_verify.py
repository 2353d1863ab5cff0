"""verify: the figures of a bundle, recomputed from its logs."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tprimat import cli
from tprimat.errors import ExitStatus
from tprimat.log_import import bundle

GIVEN = ("--gpu", "MI300X", "--model-name", "llama3.1_8B")
HEAD = "  seq_length ........ 2048\n  world_size ........ 8\n  global_batch_size ........ 64\n"


def log_text(steps=30, milliseconds=1000.0):
    return HEAD + "".join(
        f" iteration {step:8d}/{steps:8d} | elapsed time per iteration (ms): {milliseconds + step % 7:.1f} | "
        f"global batch size: 64 | lm loss: {10 - step / 10:.6E} |\n"
        for step in range(1, steps + 1)
    )


@pytest.fixture
def packed(tmp_path, capsys):
    """A bundle of a log, with values that the log lacks."""
    log = tmp_path / "train.log"
    log.write_text(log_text())
    output = tmp_path / "output"
    assert cli.run("read", [str(log), "--output-dir", str(output), *GIVEN]) == 0
    path = tmp_path / "mine.tar.gz"
    bundle.write(path, list(output.glob("*.json")), [log])
    capsys.readouterr()
    return path


def changed(packed: Path, name: str, change) -> Path:
    """A copy of a bundle in which a member was changed; None removes it."""
    path = packed.with_name("changed.tar.gz")
    folder = packed.with_name("unpacked")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    (member,) = folder.glob(f"mine/{name}")
    content = change(member.read_bytes())
    member.write_bytes(content) if content is not None else member.unlink()
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder / "mine", "mine")
    return path


def edited(**values):
    """A change of a result: of the first run's series by step, or of its settings."""

    def change(content: bytes) -> bytes:
        result = json.loads(content)
        for name, value in values.items():
            if isinstance(value, dict):
                result[name] |= value
            else:
                result["runs"][0][name][9] = result[name][9] = value
        return json.dumps(result).encode()

    return change


def verified(path, capsys):
    status = cli.run("verify", [str(path), "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_an_untouched_bundle_is_the_same(packed, capsys):
    status, found = verified(packed, capsys)
    assert (status, found["changed"]) == (ExitStatus.OK, [])
    (run,) = found["runs"]
    # Five series of 30 steps, the metrics and the settings.
    assert run["values"] > 150
    assert (run["log"], run["original"], run["differences"]) == ("train.log", True, [])
    assert cli.run("verify", [str(packed)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"The same: {run['values']} values recomputed."


def test_a_changed_step_is_found_with_its_line(packed, capsys):
    status, found = verified(changed(packed, "results/*.json", edited(step_times=0.5)), capsys)
    assert status == ExitStatus.IMPLAUSIBLE
    differences = {each["field"]: each for each in found["runs"][0]["differences"]}
    assert differences["step_times, step 10"] == {
        "field": "step_times, step 10", "stored": 0.5, "recomputed": 1.003, "place": "train.log, line 13"
    }  # fmt: skip
    assert "performance_metrics.min_step_time_seconds" in differences
    assert "was changed after it was packed" in found["changed"][0]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (edited(training_config={"global_batch_size": 128}), "training_config.global_batch_size"),
        (edited(loss_values=1.0), "loss_values, step 10"),
    ],
)
def test_a_changed_value_is_found(packed, capsys, change, field):
    status, found = verified(changed(packed, "results/*.json", change), capsys)
    assert status == ExitStatus.IMPLAUSIBLE
    assert field in {each["field"] for each in found["runs"][0]["differences"]}


def test_changed_metrics_are_found(packed, capsys):
    def change(content):
        result = json.loads(content)
        for each in (result, *result["runs"]):
            each["performance_metrics"]["tokens_per_second_per_gpu"] *= 2
        return json.dumps(result).encode()

    path = changed(packed, "results/*.json", change)
    status, found = verified(path, capsys)
    assert status == ExitStatus.IMPLAUSIBLE
    (difference,) = found["runs"][0]["differences"]
    assert difference["field"] == "performance_metrics.tokens_per_second_per_gpu"
    assert difference["stored"] == pytest.approx(2 * difference["recomputed"])
    cli.run("verify", [str(path)])
    assert capsys.readouterr().out.splitlines()[-1] == "NOT the same: 1 value differs, 1 file changed or missing."


def test_a_top_level_that_is_no_run_is_found(packed, capsys):
    def change(content):
        result = json.loads(content)
        result["step_times"][9] = 0.5
        return json.dumps(result).encode()

    _, found = verified(changed(packed, "results/*.json", change), capsys)
    assert [each["field"] for each in found["runs"][0]["differences"]] == ["top level"]


def test_a_changed_log_is_found(packed, capsys):
    path = changed(packed, "logs/*", lambda _: bundle.gzip.compress(log_text(milliseconds=900).encode()))
    status, found = verified(path, capsys)
    assert status == ExitStatus.IMPLAUSIBLE
    assert sum(each["field"].startswith("step_times") for each in found["runs"][0]["differences"]) == 30


def test_a_result_without_its_log_is_checked_against_its_steps(packed, capsys):
    status, found = verified(changed(packed, "logs/*", lambda _: None), capsys)
    assert (status, found["changed"]) == (ExitStatus.IMPLAUSIBLE, ["logs/train.log.gz is missing"])
    without = packed.with_name("without.zip")
    bundle.write(without, list(packed.with_name("output").glob("*.json")), [])
    status, found = verified(without, capsys)
    assert status == ExitStatus.INCONCLUSIVE
    assert found["runs"][0]["log"] is None
    assert found["runs"][0]["values"] > 10
    assert "1 run without a log in the bundle, so its steps can't be checked" in found["answer"]


@pytest.mark.parametrize("apart", [1000.0, 4.0])
def test_logs_of_one_name_from_two_folders(tmp_path, capsys, apart):
    """Also where their steps differ so little that in one folder they would be one training."""
    output = tmp_path / "output"
    logs = [tmp_path / f"run{number}" / "train.log" for number in (1, 2)]
    for number, log in enumerate(logs, 1):
        log.parent.mkdir()
        log.write_text(
            log_text(30, 1000.0 + apart * number).replace("seq_length", f"hf_{'a' * number * 16}\n seq_length")
        )
    assert cli.run("read", [*map(str, logs), "--output-dir", str(output), *GIVEN]) == 0
    bundle.write(tmp_path / "b.zip", sorted(output.glob("*.json")), logs)
    capsys.readouterr()
    status, found = verified(tmp_path / "b.zip", capsys)
    assert status == ExitStatus.OK
    assert sorted(run["log"] for run in found["runs"]) == ["train.log", "train_2.log"]
    # Of a copy in which something was removed the hash in the result can't be checked.
    assert [run["original"] for run in found["runs"]] == [False, False]


@pytest.mark.parametrize("content", [b"", b"hello", None])
def test_what_is_no_bundle_is_an_error(packed, tmp_path, capsys, content):
    path = tmp_path / "bad.tar.gz"
    path.write_bytes(packed.read_bytes()[:900] if content is None else content)
    assert cli.run("verify", [str(path)]) == ExitStatus.USAGE
    assert cli.run("verify", [str(tmp_path / "none.zip")]) == ExitStatus.USAGE
    assert cli.run("verify", [str(tmp_path / "train.log")]) == ExitStatus.USAGE


def test_a_member_outside_of_the_archive_stays_inside(packed, tmp_path, capsys):
    path = tmp_path / "evil.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tmp_path / "train.log", "../../../escaped.log")
    assert cli.run("verify", [str(path)]) == ExitStatus.USAGE
    assert "no results in it" in capsys.readouterr().err


class TestOtherValues:
    @pytest.fixture
    def packed(self, tmp_path, capsys):
        """A bundle of a log with rates and memory of its own."""
        lines = "".join(
            f"[titan] 2026-01-01 00:00:{n:02} - root - INFO - step: {n:2}  loss: 9.1  memory: 31.0GiB(25%)  "
            f"tps: 7,00{n}\n"
            for n in range(1, 10)
        )
        log = tmp_path / "train.log"
        log.write_text("[titan] INFO - Model llama3 8B size: 8,030,261,248 total parameters\n" + lines)
        output = tmp_path / "output"
        assert cli.run("read", [str(log), "--output-dir", str(output)]) == 0
        path = tmp_path / "mine.tar.gz"
        bundle.write(path, list(output.glob("*.json")), [log])
        capsys.readouterr()
        return path

    @pytest.mark.parametrize(
        ("field", "change"),
        [
            ("native_metrics.tokens_per_second_per_gpu, step 3", lambda run: native(run, 2)),
            ("run.model", lambda run: run | {"model": "qwen"}),
            ("run.framework", lambda run: run | {"framework": "nemo"}),
        ],
    )
    def test_a_change_in_all_copies_is_found(self, packed, capsys, field, change):
        def everywhere(content: bytes) -> bytes:
            result = change(json.loads(content))
            return json.dumps(result | {"runs": [change(run) for run in result["runs"]]}).encode()

        status, found = verified(changed(packed, "results/*.json", everywhere), capsys)
        assert status == ExitStatus.IMPLAUSIBLE
        assert field in [each["field"] for run in found["runs"] for each in run["differences"]]

    def test_a_change_at_the_top_level_alone_is_found(self, packed, capsys):
        def memory(content: bytes) -> bytes:
            result = json.loads(content)
            result["memory_metrics"]["peak_memory_reserved_gb"] *= 2
            return json.dumps(result).encode()

        _, found = verified(changed(packed, "results/*.json", memory), capsys)
        assert "top level" in [each["field"] for run in found["runs"] for each in run["differences"]]

    def test_unchanged_it_is_the_same(self, packed, capsys):
        assert verified(packed, capsys)[0] == ExitStatus.OK


def native(run: dict, index: int) -> dict:
    rates = list(run["native_metrics"]["tokens_per_second_per_gpu"])
    rates[index] *= 1.5
    return run | {"native_metrics": run["native_metrics"] | {"tokens_per_second_per_gpu": rates}}


def test_a_broken_result_is_named_by_its_bundle(packed, capsys):
    broken = changed(packed, "results/*.json", lambda content: content[:-20])
    assert cli.run("verify", [str(broken)]) == ExitStatus.USAGE
    error = capsys.readouterr().err.splitlines()[0]
    assert error.startswith(f"error: {broken}/mine/results/")
