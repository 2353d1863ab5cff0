"""verify: the figures of a bundle, recomputed from its logs."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import re
import tarfile
import zipfile
from pathlib import Path

import pytest
from stored_runs import series

import tprimat
from tprimat import cli, log_import
from tprimat.analysis.summary import rounded, summarize
from tprimat.errors import ExitStatus
from tprimat.log_import import bundle
from tprimat.log_import.verify import UNSTAMPED, _confirms_times
from tprimat.results.account import Entry, Timing
from tprimat.results.run import Run, Source
from tprimat.store import store

GIVEN = ("--gpu", "MI300X", "--model-name", "llama3.1_8B")
SHAPE = {"num_layers": 32, "hidden_size": 4096, "ffn_hidden_size": 14336, "num_attention_heads": 32}
HEAD = "  seq_length ........ 2048\n  world_size ........ 8\n  global_batch_size ........ 64\n"


def log_text(steps=30, milliseconds=1000.0):
    return HEAD + "".join(
        f" iteration {step:8d}/{steps:8d} | elapsed time per iteration (ms):"
        f" {milliseconds + step % 7:.1f} | global batch size: 64 | lm loss:"
        f" {10 - step / 10:.6E} |\n"
        for step in range(1, steps + 1)
    )


@pytest.fixture
def packed(tmp_path, capsys):
    """A bundle of a log, with values that the log lacks."""
    path = packed_log(tmp_path, log_text())
    capsys.readouterr()
    return path


def packed_log(tmp_path, text, *given):
    (tmp_path / "train.log").write_text(text)
    output, path = tmp_path / "output", tmp_path / "mine.tar.gz"
    path.unlink(missing_ok=True)
    assert (
        cli.run(
            "read", [str(tmp_path / "train.log"), "--output-dir", str(output), *(given or GIVEN)]
        )
        == 0
    )
    bundle.write(path, list(output.glob("*.json")), [tmp_path / "train.log"])
    return path


def changed(packed: Path, name: str, change) -> Path:
    """A copy of a bundle in which a member was changed; None removes it. Its README.txt stays."""
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
    capsys.readouterr()
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
    shown = capsys.readouterr().out
    assert "copy" not in shown
    assert shown.splitlines()[-2:] == [
        "files: 1 result, 1 log, 1 environment, 1 readme; none was executed",
        (
            f"Can be accepted: {run['values']} values recomputed; plausible, no private data, no"
            " executable files. Step times are only claimed for 1 run without time stamps."
        ),
    ]


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
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "Not acceptable: 1 value differs, 1 file changed after packing."


def test_a_top_level_that_is_no_run_is_found(packed, capsys):
    def change(content):
        result = json.loads(content)
        result["step_times"][9] = 0.5
        return json.dumps(result).encode()

    _, found = verified(changed(packed, "results/*.json", change), capsys)
    assert [each["field"] for each in found["runs"][0]["differences"]] == ["top level"]


def test_a_changed_log_is_found(packed, capsys):
    path = changed(
        packed, "logs/*", lambda _: bundle.gzip.compress(log_text(milliseconds=900).encode())
    )
    status, found = verified(path, capsys)
    assert status == ExitStatus.IMPLAUSIBLE
    assert (
        sum(each["field"].startswith("step_times") for each in found["runs"][0]["differences"])
        == 30
    )


def test_a_result_without_its_log_is_checked_against_its_steps(packed, capsys):
    status, found = verified(changed(packed, "logs/*", lambda _: None), capsys)
    assert (status, found["changed"]) == (ExitStatus.IMPLAUSIBLE, ["logs/train.log.gz is missing"])
    note = {"code": "file-missing", "fields": {"file": "logs/train.log.gz"}}
    assert found["changed_codes"] == [note]
    without = packed.with_name("without.zip")
    bundle.write(without, list(packed.with_name("output").glob("*.json")), [])
    status, found = verified(without, capsys)
    assert status == ExitStatus.INCONCLUSIVE
    assert found["runs"][0]["log"] is None
    assert found["runs"][0]["values"] > 10
    assert "steps unchecked for 1 run without a log in the bundle" in found["answer"]


@pytest.mark.parametrize("apart", [1000.0, 4.0])
def test_logs_of_one_name_from_two_folders(tmp_path, capsys, apart):
    """Also where their steps differ so little that in one directory they would be one training."""
    output = tmp_path / "output"
    logs = [tmp_path / f"run{number}" / "train.log" for number in (1, 2)]
    for number, log in enumerate(logs, 1):
        log.parent.mkdir()
        log.write_text(
            log_text(30, 1000.0 + apart * number).replace(
                "seq_length", f"hf_{'a' * number * 16}\n seq_length"
            )
        )
    assert cli.run("read", [*map(str, logs), "--output-dir", str(output), *GIVEN]) == 0
    bundle.write(tmp_path / "b.zip", sorted(output.glob("*.json")), logs)
    capsys.readouterr()
    status, found = verified(tmp_path / "b.zip", capsys)
    assert status == ExitStatus.OK
    assert sorted(run["log"] for run in found["runs"]) == ["train.log", "train_2.log"]
    # Of a copy in which something was removed the hash in the result can't be checked.
    assert [run["original"] for run in found["runs"]] == [False, False]
    cli.run("verify", [str(tmp_path / "b.zip")])
    assert capsys.readouterr().out.count("(decompressed or redacted copy)") == 2


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
            f"[titan] 2026-01-01 00:00:{n:02} - root - INFO - step: {n:2}  loss: 9.1  memory:"
            f" 31.0GiB(25%)  tps: 7,00{n}\n"
            for n in range(1, 10)
        )
        log = tmp_path / "train.log"
        log.write_text(
            "[titan] INFO - Model llama3 8B size: 8,030,261,248 total parameters\n" + lines
        )
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
        assert "top level" in [
            each["field"] for run in found["runs"] for each in run["differences"]
        ]

    def test_unchanged_it_is_the_same(self, packed, capsys):
        assert verified(packed, capsys)[0] == ExitStatus.OK

    def test_read_bundles_logs_of_any_framework(self, packed, tmp_path, capsys):
        """Those that gave results: a file beside them that is no log is not in the bundle."""
        folder, path = tmp_path / "logs", tmp_path / "read.tar.gz"
        folder.mkdir()
        (folder / "titan.log").write_text((tmp_path / "train.log").read_text())
        (folder / "megatron.log").write_text(log_text())
        (folder / "notes.txt").write_text("to do\n")
        output = ["--output-dir", str(tmp_path / "both"), "--bundle", str(path)]
        assert cli.run("read", [str(folder), *output]) == ExitStatus.OK
        logs = [name.removeprefix("read/") for name in members(path) if "/logs/" in name]
        assert sorted(logs) == ["logs/megatron.log.gz", "logs/titan.log.gz"]
        status, found = verified(path, capsys)
        assert {run["log"] for run in found["runs"]} == {"megatron.log", "titan.log"}
        assert (status, found["changed"]) == (ExitStatus.OK, [])

    def test_read_refuses_a_name_that_no_bundle_has(self, tmp_path, capsys):
        given = [
            str(tmp_path / "train.log"),
            "--output-dir",
            str(tmp_path / "x"),
            "--bundle",
            str(tmp_path / "b.rar"),
        ]
        assert cli.run("read", given) == ExitStatus.USAGE
        assert not (tmp_path / "x").exists()


def native(run: dict, index: int) -> dict:
    rates = list(run["native_metrics"]["tokens_per_second_per_gpu"])
    rates[index] *= 1.5
    return run | {"native_metrics": run["native_metrics"] | {"tokens_per_second_per_gpu": rates}}


def test_a_broken_result_is_named_by_its_bundle(packed, capsys):
    broken = changed(packed, "results/*.json", lambda content: content[:-20])
    assert cli.run("verify", [str(broken)]) == ExitStatus.USAGE
    error = capsys.readouterr().err.splitlines()[0]
    assert error.startswith(f"error: {broken}/mine/results/")


@pytest.mark.parametrize("content", [b"{", b'{"a": 1}', b""])
def test_a_damaged_result_is_named_within_its_bundle(packed, capsys, content):
    path = changed(packed, "results/*.json", lambda _: content)
    assert cli.run("verify", [str(path)]) == ExitStatus.USAGE
    message = capsys.readouterr().err
    assert message.startswith(f"error: {path}/mine/results/")
    assert "/tmp" not in message.replace(str(path), "")


def repacked(packed: Path, *entries: tuple[str, bytes, dict]) -> Path:
    """A copy of a bundle with members more or other than it had, with attributes of their own, in
    README.txt too.
    """
    path, contents, attributes = packed.with_name("repacked.tar.gz"), members(packed), {}
    for name, content, more in entries:
        contents[name], attributes[name] = content, more
    del contents["README.txt"]
    contents["README.txt"] = bundle._readme(contents, "nothing").encode()
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(f"mine/{name}")
            entry.size = len(content)
            for attribute, value in attributes.get(name, {}).items():
                setattr(entry, attribute, value)
            archive.addfile(entry, io.BytesIO(content))
    return path


def members(packed: Path) -> dict[str, bytes]:
    with tarfile.open(packed) as archive:
        return {
            each.name.removeprefix("mine/"): archive.extractfile(each).read() for each in archive
        }


def environment(packed: Path) -> str:
    return next(name for name in members(packed) if name.startswith("environment/"))


OTHER = "not a file that bundles have"
RUNS = re.compile(
    r"^\s*(?:import|from)"
    r" (?:pickle|marshal|shelve|subprocess|torch)\b|(?<![\w.])(?:eval|exec)\(|os\.system",
    re.MULTILINE,
)


class TestAcceptance:
    """Each reason not to publish a bundle, in one that is otherwise in order."""

    def test_packed_anew_it_can_be_accepted(self, packed, capsys):
        status, found = verified(repacked(packed), capsys)
        assert status == ExitStatus.OK, found

    def test_a_file_that_its_list_lacks(self, packed, capsys):
        def shorter(content: bytes) -> bytes:
            return b"".join(
                line for line in content.splitlines(True) if b"environment/" not in line
            )

        status, found = verified(changed(packed, "README.txt", shorter), capsys)
        assert status == ExitStatus.IMPLAUSIBLE
        assert found["changed"] == [f"mine/{environment(packed)} is not in README.txt"]

    def test_a_changed_environment(self, packed, capsys):
        status, found = verified(
            changed(packed, "environment/*.json", lambda content: content + b" "), capsys
        )
        assert status == ExitStatus.IMPLAUSIBLE
        assert found["changed"] == [f"{environment(packed)} was changed after it was packed"]

    @pytest.mark.parametrize(
        ("name", "content", "attributes", "what"),
        [
            ("logs/more.log.gz", b"#!/bin/sh\nrm -rf /\n", {}, "begins like a program or a page"),
            (
                "logs/page.log.gz",
                b"\n<!DOCTYPE html><script>1</script>",
                {},
                "begins like a program or a page",
            ),
            ("logs/page.gz", b"<svg onload=x>", {}, "begins like a program or a page"),
            ("logs/more.log.gz", pickle.dumps({"step": 1}), {}, "binary, in no format of logs"),
            (
                "logs/more.log.gz",
                gzip.compress(b"\x7fELF\2\1\1\0\0\0", mtime=0),
                {},
                "binary, in no format of logs",
            ),
            ("environment/more.json", b"MZ\x90\0\3", {}, "binary, in no format of logs"),
            ("environment/page.json", b"<html>", {}, "begins like a program or a page"),
            ("logs/more.log", b"step 1", {}, OTHER),
            ("logs/deep/more.log.gz", b"step 1", {}, OTHER),
            ("environment/x.js", b"alert(1)", {}, OTHER),
            ("results/x.html", b"step 1", {}, OTHER),
            ("results/deep/x.json", b"{}", {}, OTHER),
            ("setup.cfg", b"[x]", {}, OTHER),
            ("logs/more.log.gz", b"step 1", {"mode": 0o755}, "a link, a device or a program"),
            (
                "logs/link.log.gz",
                b"",
                {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
                "a link, a device or a program",
            ),
            ("logs/pipe.log.gz", b"", {"type": tarfile.FIFOTYPE}, "a link, a device or a program"),
        ],
    )
    def test_a_file_that_is_more_than_data(self, packed, capsys, name, content, attributes, what):
        status, found = verified(repacked(packed, (name, content, attributes)), capsys)
        assert status == ExitStatus.IMPLAUSIBLE
        assert found["foreign"] == [f"mine/{name}: {what}"]
        assert "1 file other than data" in found["answer"]

    @pytest.mark.parametrize(
        "ending",
        [
            *(
                "html",
                "xhtml",
                "mht",
                "xht",
                "py",
                "rb",
                "pl",
                "php",
                "sh",
                "command",
                "desktop",
                "lnk",
            ),
            *("hta", "wsf", "scr", "ps1", "jar", "pkl", "pt", "xlsm", "docm", "so", "js", "svg"),
        ],
    )
    def test_a_log_of_another_name_than_logs_have(self, packed, capsys, ending):
        status, found = verified(
            repacked(packed, (f"logs/more.{ending}.gz", b"text\nstep 1", {})), capsys
        )
        assert status == ExitStatus.IMPLAUSIBLE
        assert found["foreign"] == [f"mine/logs/more.{ending}.gz: not a name that logs have"]

    @pytest.mark.parametrize(
        "name",
        [
            *(
                "train.log",
                "log",
                "slurm-1.out",
                "job.o123",
                "train.log.1",
                "trainer_state.json",
                "log_rank_0.txt",
            ),
            *(
                "events.out.tfevents.1700.host.12.0",
                "run-1.wandb",
                "metrics.csv",
                "job.rank3",
                "a.xlsx",
            ),
        ],
    )
    def test_names_that_logs_have(self, packed, capsys, name):
        assert (
            verified(repacked(packed, (f"logs/{name}.gz", b"text", {})), capsys)[1]["foreign"] == []
        )

    @pytest.mark.parametrize("place", ["logs", "environment", "more", "results/more"])
    def test_a_forged_result_where_none_is_looked_for(self, packed, capsys, place):
        (result,) = (
            content for name, content in members(packed).items() if name.startswith("results/")
        )
        path = repacked(packed, (f"{place}/fake.json", edited(step_times=0.5)(result), {}))
        status, found = verified(path, capsys)
        assert status == ExitStatus.IMPLAUSIBLE
        assert [each.partition(":")[0] for each in found["foreign"]] == [f"mine/{place}/fake.json"]

    @pytest.mark.parametrize(
        ("name", "milliseconds", "steps", "extra"),
        [
            *(("other.log", 500, 30, ["other.log"]), ("train_2.log", 500, 29, ["train_2.log"])),
            ("train_2.log", 500, 30, []),
        ],
    )
    def test_a_log_without_a_result_is_a_doubt(
        self, packed, capsys, name, milliseconds, steps, extra
    ):
        """A site would show it, and nobody has checked it."""
        text = log_text(steps, milliseconds).encode()
        path = repacked(packed, (f"logs/{name}.gz", gzip.compress(text), {}))
        status, found = verified(path, capsys)
        assert found["extra"] == extra
        assert status == (ExitStatus.INCONCLUSIVE if extra else ExitStatus.OK)
        assert len(tprimat.load(path)) == 1 + len(extra)
        cli.run("verify", [str(path)])
        assert ("1 log without a result" in capsys.readouterr().out) == bool(extra)

    def test_a_program_in_a_zip(self, packed, capsys):
        path = packed.with_name("b.zip")
        with tarfile.open(packed) as archive, zipfile.ZipFile(path, "w") as packed_anew:
            for each in archive:
                entry = zipfile.ZipInfo(each.name)
                entry.external_attr = (0o100755 if "/logs/" in each.name else 0o100644) << 16
                packed_anew.writestr(entry, archive.extractfile(each).read())
        status, found = verified(path, capsys)
        assert (status, found["foreign"]) == (
            ExitStatus.IMPLAUSIBLE, ["mine/logs/train.log.gz: a link, a device or a program"]
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("where", "line", "what"),
        [
            ("logs", "HF_TOKEN=hf_abcdefghijklmnop1234567890", "1 apparent secret"),
            ("logs", "MASTER_ADDR=gpu-17.lab.example.com", "1 host"),
            ("logs", "cd /home/alice/run", "2 paths, 1 user"),
            ("README", "sent by ssh bob@login7", "1 user, 1 host"),
            ("environment", "http://10.1.2.3:8080", "1 IP address"),
        ],
    )
    def test_a_secret_or_a_name_that_is_left(self, packed, capsys, where, line, what):
        if where == "logs":
            name, content = "logs/train.log.gz", gzip.compress(f"{line}\n{log_text()}".encode())
        elif where == "environment":
            name, content = environment(packed), json.dumps([{"note": line}]).encode()
        path = changed(packed, "README.txt", lambda content: content + line.encode() + b"\n")
        status, found = verified(
            path if where == "README" else repacked(packed, (name, content, {})), capsys
        )
        assert status == ExitStatus.IMPLAUSIBLE
        (private,) = found["private"]
        assert private.endswith(f": {what}")
        assert where in private

    @pytest.mark.parametrize(
        ("milliseconds", "status", "rules", "answer"),
        [
            (1000, 0, [], "Can be accepted: 220 values recomputed; plausible, no private data, no executable files. "
             "Step times are only claimed for 1 run without time stamps."),
            (450, 6, ["precision-unstated"], "Undecided: 1 value that can't be checked (220 values recomputed)."),
            (100, 4, ["above-peak"], "Not acceptable: implausible."),
        ],
    )  # fmt: skip
    def test_a_value_that_is_impossible_or_unchecked(
        self, tmp_path, capsys, milliseconds, status, rules, answer
    ):
        found_status, found = verified(packed_log(tmp_path, log_text(30, milliseconds)), capsys)
        assert (found_status, found["answer"]) == (status, answer)
        assert [each["rule"] for each in found["runs"][0]["findings"]] == rules

    @pytest.mark.parametrize(
        ("milliseconds", "finding"), [(None, "no speed: the run failed"), (9000.0, None)]
    )
    def test_a_run_without_a_speed_is_undecided(self, tmp_path, capsys, milliseconds, finding):
        """A DeepSpeed log that ends with no step at all, beside one with steps."""
        start = "[2024-01-01 10:00:00,000] [INFO] [config.py:1001:print]   "
        text = (
            f"{start}train_batch_size ............. 64\n{start}world_size ................... 8\n"
        )
        text = (
            log_text(30, milliseconds) if milliseconds else text
        ) + "torch.OutOfMemoryError: CUDA out of memory.\n"
        status, found = verified(packed_log(tmp_path, text), capsys)
        assert [each["text"] for each in found["runs"][0]["findings"]] == (
            [finding] if finding else []
        )
        assert status == (ExitStatus.INCONCLUSIVE if finding else ExitStatus.OK)
        assert found["answer"].startswith(
            "Undecided: 1 run without a speed (" if finding else "Can be accepted: "
        )

    def test_what_became_of_files_is_named(self, packed, capsys):
        def other_name(content: bytes) -> bytes:
            return content.replace(b"  environment/", b"  environment/other-").replace(
                b"  results/", b"  results/x-"
            )

        _, found = verified(changed(packed, "README.txt", other_name), capsys)
        assert found["answer"] == "Not acceptable: 2 files missing, 2 files added."

    def test_an_inconsistent_value_is_undecided(self, tmp_path, capsys):
        shape = "".join(f"  {name} ........ {value}\n" for name, value in SHAPE.items())
        shape += (
            "  padded_vocab_size ........ 128256\n  swiglu ........ True\n  num_query_groups"
            " ........ 8\n"
        )
        text = shape + log_text().replace(
            "| global", "| throughput per GPU (TFLOP/s/GPU): 2000.0 | global"
        )
        status, found = verified(packed_log(tmp_path, text), capsys)
        assert status == ExitStatus.INCONCLUSIVE
        assert found["answer"].startswith("Undecided: 1 inconsistent value (")
        (finding,) = found["runs"][0]["findings"]
        assert re.fullmatch(
            r"the log prints 2,?000 TFLOP/s per GPU; shape, batch, sequence length and step time"
            r" give [\d.,]+",
            finding["text"],
        )

    def test_a_model_named_by_a_removed_path_is_a_doubt(self, tmp_path, capsys):
        def renamed(content: bytes) -> bytes:
            result = json.loads(content)
            return json.dumps(
                result
                | {
                    "model": "mine",
                    "runs": [run | {"model": "mine"} for run in result["runs"]],
                }
            ).encode()

        shape = "".join(f"  {name} ........ {value}\n" for name, value in SHAPE.items())
        for head, status in (
            ("", ExitStatus.IMPLAUSIBLE),
            ("HF_TOKEN=hf_abcdefghijklmnop1234567890\n", ExitStatus.INCONCLUSIVE),
        ):
            path = packed_log(
                tmp_path,
                f"{head}  tokenizer_model ........ meta-llama/Llama-2-7b-hf\n{shape}{log_text()}",
                "--gpu",
                "MI300X",
            )
            path = repacked(
                path,
                *(
                    (name, renamed(content), {})
                    for name, content in members(path).items()
                    if "results/" in name
                ),
            )
            found_status, found = verified(path, capsys)
            assert found_status == status, found

    def test_no_reader_runs_what_it_reads(self):
        """Pickle, eval and the like are in no code that sees a bundle."""
        for folder in ("analysis", "catalog", "checks", "log_import", "read", "results", "store"):
            for path in Path(log_import.__file__).parent.parent.joinpath(folder).rglob("*.py"):
                code = path.read_text(encoding="utf-8")
                assert not RUNS.search(code), path


def forged(
    packed: Path, fields: dict, overrides: dict | None = None, given: dict | None = None
) -> Path:
    """A copy of a bundle whose result has other settings, and all metrics that follow from them.

    `given` is what it says that the user stated; None as it is.
    """
    (name,) = (each for each in members(packed) if each.startswith("results/"))
    result = json.loads(members(packed)[name])
    for each in (result, *result["runs"]):
        each.update(
            {
                key: value
                for key, value in fields.items()
                if key in each and not isinstance(value, dict)
            }
        )
        for section, values in fields.items():
            if isinstance(values, dict) and section in each:
                each[section] |= values
        if overrides:
            each["source"]["overrides"] = overrides
        if given is not None and "source" in each:
            each["source"]["given"] = given
    path = packed.with_name("forged.json")
    path.write_text(json.dumps(result))
    for each, run in zip(
        (result, *result["runs"]), [store.read(path)[0], *store.read(path)], strict=True
    ):
        summary = summarize(run)
        each["performance_metrics"] |= rounded(summary.performance).known()
        each["steady"] |= summary.steady.known()
    return repacked(packed, (name, json.dumps(result).encode(), {}))


class TestWhatTheLogSupports:
    @pytest.mark.parametrize("batch", [80, 192])
    def test_a_setting_of_the_user_against_the_log_is_a_doubt(self, packed, capsys, batch):
        """It multiplies the speed, and only the user says so."""
        settings = {"training_config": {"global_batch_size": batch, "precision": "fp8"}}
        path = forged(packed, settings, {"global_batch_size": str(batch)})
        status, found = verified(path, capsys)
        (run,) = found["runs"]
        (finding,) = run["findings"]
        assert (status, run["differences"]) == (ExitStatus.INCONCLUSIVE, [])
        text = f"training_config.global_batch_size: {batch} in the result, 64 in train.log"
        assert (finding["rule"], finding["text"]) == ("override", text)
        assert finding["text_code"]["code"] == "value-overridden"
        cli.run("verify", [str(path)])
        assert text in capsys.readouterr().out

    def test_an_override_that_agrees_with_the_log_is_none(self, packed, capsys):
        path = forged(
            packed, {"training_config": {"global_batch_size": 64}}, {"global_batch_size": "64"}
        )
        assert verified(path, capsys)[0] == ExitStatus.OK

    def test_what_the_log_lacks_is_listed(self, packed, capsys):
        given = {"run.model", "run.platform"}
        given |= {f"gpu_info.{name}" for name in ("device_name", "gpu_cores", "software_stack")}
        assert set(verified(packed, capsys)[1]["runs"][0]["unsupported"]) == given
        fields = {
            **{
                "timestamp": "2019-01-01T00:00:00+00:00",
                "gpu_info": {"device_name": "MI355X", "gpu_cores": 16384},
            },
            **{
                "training_config": {"precision": "bf16"},
                "energy_metrics": {"tokens_per_joule": 1e6},
            },
            **{
                "memory_metrics": {"peak_memory_allocated_gb": 1.0},
                "framework_config": {"submitter": "NVIDIA"},
            },
            **{"native_metrics": {"scaling_factor": 0.5}},
        }
        path = forged(packed, fields, given={"gpu": "MI355X", "model": "llama3.1_8B"})
        status, found = verified(path, capsys)
        forged_fields = {
            "run.timestamp",
            "training_config.precision",
            "energy_metrics.tokens_per_joule",
        }
        forged_fields |= {"native_metrics.scaling_factor", "run.warnings"}
        forged_fields |= {"memory_metrics.peak_memory_allocated_gb", "framework_config.submitter"}
        wanted = given | forged_fields
        assert (status, set(found["runs"][0]["unsupported"])) == (ExitStatus.OK, wanted), found[
            "runs"
        ][0]["differences"]
        cli.run("verify", [str(path)])
        (line,) = (
            each for each in capsys.readouterr().out.splitlines() if "not in the log: " in each
        )
        assert {*line.partition(": ")[2].split(", ")} == wanted

    def test_a_model_against_that_of_a_log_without_a_shape_is_a_doubt(self, tmp_path, capsys):
        head = "  tokenizer_model ........ meta-llama/Llama-2-7b-hf\n"
        path = packed_log(tmp_path, head + log_text(), "--gpu", "MI300X")
        path = forged(path, {"model": "qwen"}, given={"gpu": "MI300X", "model": "qwen"})
        status, found = verified(path, capsys)
        assert status == ExitStatus.INCONCLUSIVE, found
        (finding,) = found["runs"][0]["findings"]
        assert (finding["rule"], finding["text"]) == (
            "override", "run.model: qwen in the result, llama-2-7b in train.log"
        )  # fmt: skip


SHAPED = (
    "".join(f"  {name} ........ {value}\n" for name, value in SHAPE.items())
    + "  padded_vocab_size ........ 128256\n  swiglu ........ True\n  num_query_groups ........ 8\n"
)
"""The shape of Llama 3.1 8B, by which a log states its model."""


class TestWhatTheUserStated:
    """Values from source.given can be claimed, never confirmed; nothing else that the submitter
    writes is believed.
    """

    @pytest.fixture
    def packed(self, tmp_path, capsys):
        path = packed_log(tmp_path, SHAPED + log_text(), "--gpu", "MI300X")
        capsys.readouterr()
        return path

    def test_x4_what_was_stated_is_in_the_result(self, tmp_path, capsys):
        path = packed_log(
            tmp_path, log_text(), *GIVEN, "--precision", "bf16", "--global-batch-size", "64"
        )
        (content,) = (
            content for name, content in members(path).items() if name.startswith("results/")
        )
        stated = {
            "gpu": "MI300X",
            "model": "llama3.1_8B",
            "precision": "bf16",
            "global_batch_size": 64,
        }
        assert json.loads(content)["source"]["given"] == stated
        assert verified(path, capsys)[0] == ExitStatus.OK

    @pytest.mark.parametrize(
        ("option", "text", "name"),
        [
            ("--columns", "step=it,time=seconds,loss=nll", "train.csv"),
            ("--pattern", "it {step} .* took {time}ms", "train.log"),
        ],
    )
    def test_x4_columns_and_patterns_that_were_stated_are_used_again(
        self, tmp_path, capsys, option, text, name
    ):
        rows = [f"{step},{1 + step % 7 / 1000},{10 - step / 10}" for step in range(1, 31)]
        lines = [
            f"it {step} | loss {10 - step / 10} | took {1000 + step % 7} ms"
            for step in range(1, 31)
        ]
        log, packed = tmp_path / name, tmp_path / "mine.tar.gz"
        log.write_text(
            "\n".join(["it,seconds,nll", *rows] if name.endswith("csv") else lines) + "\n"
        )
        sizes = (
            "--num-gpus",
            "8",
            "--global-batch-size",
            "64",
            "--sequence-length",
            "2048",
            *GIVEN,
        )
        output = str(tmp_path / "output")
        assert (
            cli.run(
                "read",
                [str(log), option, text, *sizes, "--output-dir", output, "--bundle", str(packed)],
            )
            == 0
        )
        (content,) = (
            content for name, content in members(packed).items() if name.startswith("results/")
        )
        assert json.loads(content)["source"]["given"][option.removeprefix("--")] == text
        _, found = verified(packed, capsys)
        (run,) = found["runs"]
        assert (run["log"], run["differences"]) == (name, [])
        assert run["values"] > 60
        other = (
            text.replace("seconds", "nll") if name.endswith("csv") else text.replace("took", "loss")
        )
        given = json.loads(content)["source"]["given"] | {option.removeprefix("--"): other}
        status, found = verified(forged(packed, {}, given=given), capsys)
        assert status != ExitStatus.OK, found["answer"]

    @pytest.mark.parametrize(
        "given", [{"columns": "step"}, {"pattern": "{x}"}, {"pattern": 3}, {"columns": True}]
    )
    def test_x4_columns_that_can_not_be_are_refused(self, packed, capsys, given):
        status, _ = verified(forged(packed, {}, given=given), capsys)
        assert status in (ExitStatus.IMPLAUSIBLE, ExitStatus.INCONCLUSIVE)

    def test_x4_a_sentence_among_the_warnings_is_not_believed(self, packed, capsys):
        for warnings in (
            [],
            ["the model (mistral) is from the command line; the log doesn't state it"],
            ["the model (x)"],
        ):
            status, found = verified(
                forged(packed, {"model": "mistral", "warnings": warnings}), capsys
            )
            assert status == ExitStatus.IMPLAUSIBLE
            assert "run.model" in [each["field"] for each in found["runs"][0]["differences"]]

    @pytest.mark.parametrize(
        ("given", "model", "status"),
        [
            ({}, "llama3.1_8B", ExitStatus.OK),
            ({"model": "llama3.1_8B"}, "llama3.1_8B", ExitStatus.OK),
            # Another model's name over this shape; the same, as the importer takes it with
            # --override.
            ({"model": "mistral"}, "mistral", ExitStatus.IMPLAUSIBLE),
            ({"model": "mistral", "override": True}, "mistral", ExitStatus.INCONCLUSIVE),
            # A name of one's own for the shape.
            ({"model": "ours"}, "ours", ExitStatus.IMPLAUSIBLE),
            ({"model": "ours", "override": True}, "ours", ExitStatus.INCONCLUSIVE),
            # What is stated isn't what the result has, or is nothing that can be stated.
            ({"model": "ours"}, "mistral", ExitStatus.IMPLAUSIBLE),
            ({"num_gpus": "many"}, "llama3.1_8B", ExitStatus.IMPLAUSIBLE),
            ({"override": "yes"}, "llama3.1_8B", ExitStatus.IMPLAUSIBLE),
            ({"unheard": "of"}, "llama3.1_8B", ExitStatus.OK),
        ],
    )
    def test_x4_a_model_that_was_stated_against_the_log(self, packed, capsys, given, model, status):
        path = forged(packed, {"model": model}, given={"gpu": "MI300X", **given})
        found_status, found = verified(path, capsys)
        assert found_status == status, found["runs"][0]["differences"]

    @pytest.mark.parametrize(
        ("settings", "given", "status"),
        [
            # The log says 64 sequences of 2,048 tokens on 8 GPUs.
            ({"global_batch_size": 128}, {}, ExitStatus.IMPLAUSIBLE),
            ({"global_batch_size": 128}, {"global_batch_size": 128}, ExitStatus.IMPLAUSIBLE),
            (
                {"global_batch_size": 128},
                {"global_batch_size": 128, "override": True},
                ExitStatus.INCONCLUSIVE,
            ),
            ({"precision": "fp8"}, {"precision": "fp8"}, ExitStatus.OK),
            ({"precision": "fp8"}, {"precision": "bf16"}, ExitStatus.IMPLAUSIBLE),
        ],
    )
    def test_x4_a_setting_that_was_stated_against_the_log(
        self, packed, capsys, settings, given, status
    ):
        path = forged(packed, {"training_config": settings}, given={"gpu": "MI300X", **given})
        found_status, found = verified(path, capsys)
        assert found_status == status, found["runs"]

    def test_x4_a_gpu_that_the_software_does_not_run_on_is_refused(self, tmp_path, capsys):
        text = SHAPED + "PrimusROCm: ROCm 7.0\n" + log_text()
        path = packed_log(tmp_path, text, "--gpu", "MI300X")
        status, found = verified(path, capsys)
        assert status == ExitStatus.OK
        assert "gpu_info.device_name" in found["runs"][0]["unsupported"]
        cli.run("verify", [str(path)])
        assert (
            "only claimed, not in the log: run.platform, gpu_info.device_name"
            in capsys.readouterr().out
        )

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            # Slow steps are called profiled, so that the mean leaves them out.
            ({"profiled_steps": [6, 13, 20, 27]}, "run.profiled_steps"),
            ({"platform": "nvd"}, "run.platform"),
            ({"scale": "tiny"}, "run.scale"),
            ({"framework": "nemo"}, "run.framework"),
            ({"status": "incomplete"}, "run.status"),
        ],
    )
    def test_x4_other_fields_that_decide_are_compared(self, packed, capsys, fields, field):
        status, found = verified(forged(packed, fields), capsys)
        assert status == ExitStatus.IMPLAUSIBLE
        assert field in [each["field"] for each in found["runs"][0]["differences"]]

    @pytest.mark.parametrize(
        ("fields", "claimed"),
        [
            ({"environment": {"container": "rocm/x"}}, "environment.container"),
            ({"telemetry": {"samples": 100}}, "telemetry.samples"),
            ({"preflight": {"matmul_tflops": {"bf16": 2000.0}}}, "preflight.matmul_tflops.bf16"),
            ({"breakdown": {"compute": 1.0}}, "breakdown.compute"),
            ({"session": "s"}, "run.session"),
            ({"label": "l"}, "run.label"),
            ({"profile": {"torch": "trace.json"}}, "profile.torch"),
            ({"status_reason": "because"}, "run.status_reason"),
            ({"notes": [{"code": "text", "fields": {"text": "invented"}}]}, "run.warnings"),
            (
                {"notes": [{"code": "loss-not-finite", "fields": {"first": 3, "last": 4}}]},
                "run.notes",
            ),
            ({"optimizer": {"name": "AdamW"}}, "optimizer.name"),
        ],
    )
    def test_x4_each_field_that_the_log_does_not_state_is_only_claimed(
        self, packed, capsys, fields, claimed
    ):
        (before,), (run,) = (
            verified(path, capsys)[1]["runs"] for path in (packed, forged(packed, fields))
        )
        assert run["differences"] == []
        assert {*run["unsupported"]} - {*before["unsupported"]} == {claimed}

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"timing": {"kind": None, "covers": None}}, "timing.kind"),
            ({"timing": {"kind": "stamps"}}, "timing.kind"),
            ({"timeline": [{"kind": "training", "start": 0.0, "duration": 9.0}]}, "run.timeline"),
            ({"ending": {"kind": "cut_off", "cause": None, "line": None}}, "ending.kind"),
            (
                {"ending": {"kind": "finished", "cause": "time limit reached", "line": None}},
                "ending.cause",
            ),
            ({"ending": {"kind": "finished", "cause": None, "line": 3}}, "ending.line"),
            ({"source": {"dialect": "megatron (other)"}}, "source.dialect"),
            ({"lines": [None] * 30}, "lines, step 3"),
        ],
    )
    def test_x4_each_field_that_the_log_states_is_compared(self, packed, capsys, fields, field):
        status, found = verified(forged(packed, fields), capsys)
        assert status == ExitStatus.IMPLAUSIBLE
        assert field in [each["field"] for each in found["runs"][0]["differences"]]

    ERROR = "torch.OutOfMemoryError: CUDA out of memory.\n"

    def broken_off(self, tmp_path) -> Path:
        text = log_text(60).splitlines(True)
        return packed_log(tmp_path, "".join([*text[:41], self.ERROR]), *GIVEN)

    def test_e1_an_ending_that_the_log_denies_is_refused(self, tmp_path, capsys):
        path = self.broken_off(tmp_path)
        assert verified(path, capsys)[0] == ExitStatus.OK
        finished = {"ending": {"kind": "finished", "cause": None, "line": None}}
        for fields in (finished, {**finished, "status": "complete", "status_reason": None}):
            status, found = verified(forged(path, fields), capsys)
            assert status == ExitStatus.IMPLAUSIBLE
            names = {"ending.kind", "ending.cause", "ending.line"} | (
                {"run.status"} if "status" in fields else set()
            )
            assert {each["field"] for each in found["runs"][0]["differences"]} == names

    def test_e1_an_ending_is_compared_with_the_status_without_a_log(self, tmp_path, capsys):
        path = forged(
            self.broken_off(tmp_path), {"ending": {"kind": "finished", "cause": None, "line": None}}
        )
        (name,) = (each for each in members(path) if each.startswith("results/"))
        (tmp_path / "alone.json").write_bytes(members(path)[name])
        bundle.write(tmp_path / "alone.zip", [tmp_path / "alone.json"], [])
        _, found = verified(tmp_path / "alone.zip", capsys)
        (difference,) = found["runs"][0]["differences"]
        assert (difference["field"], difference["recomputed"]) == ("ending.kind", "failed")

    def test_e1_a_note_of_losses_that_are_no_numbers_can_not_be_removed(self, tmp_path, capsys):
        text = re.sub(r"lm loss: \S+", "lm loss: NAN", log_text()[: -len(HEAD)] + "\n")
        path = packed_log(tmp_path, text, *GIVEN)
        status, found = verified(forged(path, {"notes": [], "warnings": []}), capsys)
        assert status == ExitStatus.IMPLAUSIBLE
        assert "run.notes" in [each["field"] for each in found["runs"][0]["differences"]]
        _, found = verified(forged(path, {"notes": [], "warnings": [], "ending": None}), capsys)
        assert "notes" in [each["rule"] for each in found["runs"][0]["findings"]]

    def test_x4_a_result_of_schema_1_says_nothing_of_what_was_stated(self, packed, capsys):
        (name,) = (each for each in members(packed) if each.startswith("results/"))
        result = json.loads(members(packed)[name]) | {"schema_version": 1}
        for each in (result, *result["runs"]):
            each.pop("notes", None)
            each.pop("ending", None)
            if "source" in each:
                each["source"].pop("given")
        for model, expected in (
            ("llama3.1_8B", ExitStatus.OK),
            ("Llama-3.1-8B", ExitStatus.OK),
            ("mistral", 4),
        ):
            renamed = {**result, "model": model}
            status, found = verified(
                repacked(packed, (name, json.dumps(renamed).encode(), {})), capsys
            )
            assert status == expected, found["runs"]

    def test_x4_so_many_stated_values_that_a_bundle_is_read_for_ever_are_refused(
        self, packed, capsys
    ):
        (name,) = (each for each in members(packed) if each.startswith("results/"))
        result = json.loads(members(packed)[name])
        for count, refused in ((100, False), (101, True)):
            runs = [
                {
                    **result["runs"][0],
                    "source": {**result["source"], "given": {"gpu": f"MI{number}"}},
                }
                for number in range(count - 1)
            ]
            made = {**result, "runs": [result["runs"][0], *runs]}
            path = repacked(packed, (name, json.dumps(made).encode(), {}))
            assert (cli.run("verify", [str(path)]) == ExitStatus.USAGE) == refused
            capsys.readouterr()


class TestTimes:
    """Step times that something else in the bundle contradicts."""

    UNSTAMPED = "step times are only claimed: the log has no time stamps, or none in a known form"

    @staticmethod
    def stamped(factor: float) -> str:
        lines = [
            f" [2026-05-11 02:{step // 60:02}:{step % 60:02}] iteration {step:8d}/      50 |"
            f" elapsed time per iteration (ms): {factor * (1000 + step % 7):.1f} | global batch"
            f" size: 64 | lm loss: {10 - step / 10:.6E} |\n"
            for step in range(1, 51)
        ]
        return HEAD + "".join(lines)

    @pytest.mark.parametrize(
        ("factor", "status", "answer"),
        [
            (1.0, ExitStatus.OK, "Can be accepted: "),
            (0.9, ExitStatus.INCONCLUSIVE, "step times only claimed for 1 run"),
            (0.5, ExitStatus.INCONCLUSIVE, "step times only claimed for 1 run"),
            (1.1, ExitStatus.IMPLAUSIBLE, "Not acceptable: implausible."),
        ],
    )
    def test_x5_a_log_whose_step_times_were_changed(self, tmp_path, capsys, factor, status, answer):
        path = packed_log(tmp_path, self.stamped(factor), *GIVEN, "--precision", "fp8")
        found_status, found = verified(path, capsys)
        assert (found_status, answer in found["answer"]) == (status, True), found["answer"]

    @pytest.mark.parametrize("factor", [0.9, 1.1])
    def test_x5_who_removes_the_notes_of_a_result_changes_nothing(self, tmp_path, capsys, factor):
        path = packed_log(tmp_path, self.stamped(factor), *GIVEN, "--precision", "fp8")
        assert verified(path, capsys)[0] != ExitStatus.OK
        status, found = verified(forged(path, {"notes": [], "warnings": []}), capsys)
        assert status == ExitStatus.IMPLAUSIBLE
        assert [each["field"] for each in found["runs"][0]["differences"]] == ["run.notes"]
        # A result of schema 1 has no notes: what the log gives decides.
        forged_status, _ = verified(
            forged(path, {"notes": [], "warnings": [], "ending": None}), capsys
        )
        assert forged_status == (ExitStatus.INCONCLUSIVE if factor < 1 else ExitStatus.IMPLAUSIBLE)

    @pytest.mark.parametrize("factor", [1.0, 0.5])
    def test_x5_stamps_that_are_all_one_confirm_no_step_times(self, tmp_path, capsys, factor):
        """A buffer that is written at the end makes them so, and who forges the times."""
        text = re.sub(r"02:\d\d:\d\d", "02:00:01", self.stamped(factor))
        status, found = verified(packed_log(tmp_path, text, *GIVEN, "--precision", "fp8"), capsys)
        assert (status, found["runs"][0]["differences"]) == (ExitStatus.INCONCLUSIVE, [])
        assert "step times only claimed for 1 run" in found["answer"]

    @pytest.mark.parametrize(
        ("passed", "confirmed"), [(111.9, True), (112.1, False), (88.1, True), (87.9, False)]
    )
    def test_x5_how_far_the_time_between_stamps_may_be_from_that_of_the_steps(
        self, passed, confirmed
    ):
        entry = Entry(kind="training", start=0.0, duration=passed, first_step=1, last_step=50)
        assert _confirms_times(Run(**series((2.0,) * 50), timeline=(entry,))) == confirmed
        sampled = series((2.0,) * 5) | {"steps": tuple(range(10, 60, 10))}
        assert _confirms_times(Run(**sampled, timeline=(entry,))) == confirmed

    @pytest.mark.parametrize(
        "stamp",
        ["", "2026年05月11日 02時{:02}分{:02}秒", "11. Mai 2026, 02h{:02}m{:02}s"],
    )
    @pytest.mark.parametrize("factor", [1.0, 0.9])
    def test_x5_a_log_without_a_known_stamp_is_said_to_be_unchecked(
        self, tmp_path, capsys, stamp, factor
    ):
        """An honest one isn't refused, and nobody can tell it from a forged one."""

        def other(match):
            return stamp.format(*map(int, match.groups()))

        text = re.sub(r"\[2026-05-11 02:(\d\d):(\d\d)\]", other, self.stamped(factor))
        path = packed_log(tmp_path, text, *GIVEN, "--precision", "fp8")
        status, found = verified(path, capsys)
        assert (status, found["runs"][0]["unchecked"]) == (ExitStatus.OK, [self.UNSTAMPED])
        assert found["runs"][0]["unchecked_codes"] == [{"code": UNSTAMPED, "fields": {}}]
        assert found["answer"].endswith(
            " Step times are only claimed for 1 run without time stamps."
        )
        cli.run("verify", [str(path)])
        assert f"  not checked: {self.UNSTAMPED}\n" in capsys.readouterr().out

    def test_x5_a_log_with_stamps_is_checked(self, tmp_path, capsys):
        _, found = verified(
            packed_log(tmp_path, self.stamped(1.0), *GIVEN, "--precision", "fp8"), capsys
        )
        assert found["runs"][0]["unchecked"] == []
        assert "only claimed" not in found["answer"]

    @pytest.mark.parametrize(
        ("factor", "status"),
        [(1.0, 0), (0.985, 0), (0.975, 6), (0.96, 6), (0.9, 4), (1.03, 6), (1.11, 4)],
    )
    def test_x5_printed_tokens_contradict_step_times(self, tmp_path, capsys, factor, status):
        """64 × 2,048 tokens on 8 GPUs: who shortens times to 0.9 leaves a rate that is 0.9× of what
        they give.
        """

        def rate(match):
            return (
                f"{match[0]} tokens per GPU (tokens/s/GPU):"
                f" {16384e3 * factor / float(match[1]):.1f} |"
            )

        text = re.sub(r"iteration \(ms\): ([\d.]+) \|", rate, self.stamped(1.0))
        path = packed_log(tmp_path, text, *GIVEN, "--precision", "fp8")
        assert verified(path, capsys)[0] == status

    CONSOLE = (
        "Avg Step Time: 0.130s\n",
        "Step:    0.130 s, 1,969 tokens/s, mean of steps 2 to 30\n",
    )

    @pytest.mark.parametrize("console", CONSOLE)
    @pytest.mark.parametrize("factor", [1.0, 0.9, 0.5])
    def test_x5_a_measured_run_against_its_own_console(self, tmp_path, capsys, console, factor):
        """A changed time is refused; that nothing else confirms the steps is open as before."""
        times = [
            0.13 if step == 10 else 0.131 if step == 20 else 0.13 + step % 3 * 1e-5
            for step in range(1, 31)
        ]
        times = tuple(factor * time for time in times)
        run = Run(
            **series(times),
            source=Source(kind="live"),
            framework="lightning",
            timing=Timing(over_ranks="one process"),
        )
        saved = store.save_as(run, tmp_path / "benchmark_cpu_llama.json")
        (tmp_path / "benchmark_cpu_llama_1.log").write_text("Trainer.fit\n" + console)
        path = tmp_path / "live.tar.gz"
        bundle.write(path, [saved.path], [tmp_path / "benchmark_cpu_llama_1.log"])
        status, found = verified(path, capsys)
        assert status == (ExitStatus.INCONCLUSIVE if factor == 1.0 else ExitStatus.IMPLAUSIBLE), (
            found
        )
        assert {each["place"] for each in found["runs"][0]["differences"]} == (
            set() if factor == 1.0 else {"its console"}
        )
