"""What is kept of a log, and of what a user passes: every figure, and no secret of any form that is
known.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import tarfile
from pathlib import Path

import pytest
from planted import ONE_LINE, PLANTED, SEVERAL_LINES, parts
from test_verify import log_text

import tprimat
from tprimat import cli, read
from tprimat.errors import ExitStatus, TensorPrimatError
from tprimat.log_import import bundle, extract
from tprimat.log_import.inputs import Log
from tprimat.read.parsing.nearest import looks_like_a_step
from tprimat.read.parsing.text import Line, clean, decoded
from tprimat.redaction import REMOVED, redacted
from tprimat.results.run import SERIES
from tprimat.store import store

GIVEN = ("--gpu", "H200", "--model-name", "llama3.1_8B")


def automodel_log(more=lambda step: {}) -> str:
    """A log of 40 steps of 0.2 s, as Automodel writes it, with more figures in the lines of
    some.
    """
    rows = [
        {
            **{
                "step": step,
                "epoch": 0,
                "timestamp": f"2026-04-01T16:05:{20 + 0.2 * step:06.3f}Z",
                "loss": 4 - step / 40,
            },
            **{
                "grad_norm": 1.5,
                "lr": 0.0001,
                "mem": 47.7,
                "tps": 65536.0 + step % 3,
                "tps_per_gpu": 8192.0,
            },
            **{"mfu": None, "num_tokens_per_step": 13107, "num_label_tokens": 13107},
            **more(step),
        }
        for step in range(40)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def run_of(path: Path):
    (found,) = extract.extract(Log(str(path)), extract.NOTHING_GIVEN)
    return found.run


def series_of(path: Path) -> list:
    return [getattr(run_of(path), name) for name in ("steps", *SERIES)]


@pytest.mark.parametrize(
    "name",
    ["forward_pass", "test_pass", "num_pass", "password_loss", "reward/tests_pass", "cookie"],
)
@pytest.mark.parametrize("every", [1, 4])
def test_x0_an_automodel_log_with_figures_named_like_secrets_reads_as_one_without(
    tmp_path, name, every
):
    plain, other = tmp_path / "plain.jsonl", tmp_path / "other.jsonl"
    plain.write_text(automodel_log())
    other.write_text(automodel_log(lambda step: {} if step % every else {name: 0.1234}))
    assert len(run_of(other).steps) == len(run_of(plain).steps) >= 39
    assert series_of(other) == series_of(plain)


def test_x0_a_pattern_with_a_figure_named_like_a_password(tmp_path, capsys):
    log = tmp_path / "p.log"
    log.write_text(
        "".join(f"step {step} time_pass: 0.25 s loss {9 - step / 10}\n" for step in range(1, 31))
    )
    pattern = "step {step} time_pass: {time} s loss {loss}"
    arguments = ["--pattern", pattern, "--json", "--output-dir", str(tmp_path / "o"), *GIVEN]
    assert cli.run("read", [str(log), *arguments]) == ExitStatus.OK
    (result,) = (tmp_path / "o").glob("*.json")
    assert set(json.loads(result.read_text())["step_times"]) == {0.25}


def logs_in(path: Path) -> list[str]:
    with tarfile.open(path) as archive:
        held = [archive.extractfile(each).read() for each in archive if "/logs/" in each.name]
    return [gzip.decompress(each).decode() for each in held]


def test_x0_a_bundle_keeps_figures_and_is_accepted(tmp_path, capsys):
    log, packed = tmp_path / "train.log", tmp_path / "b.tar.gz"
    text = log_text().replace("| lm loss", "| forward_pass: 120.00 | num_pass: 2 | lm loss")
    log.write_text("WANDB_API_KEY=abcdef-123456\n" + text)
    assert cli.run("read", [str(log), "--output-dir", str(tmp_path / "o"), *GIVEN]) == ExitStatus.OK
    _, notes = bundle.write(packed, list((tmp_path / "o").glob("*.json")), [log])
    assert notes == [f"{log}: 1 apparent secret removed from the copy in the bundle"]
    assert logs_in(packed) == [f"WANDB_API_KEY={REMOVED}\n{text}"]
    assert cli.run("verify", [str(packed)]) == ExitStatus.OK


def test_x0_a_log_that_would_lose_a_figure_is_not_in_the_bundle(tmp_path, monkeypatch):
    log = tmp_path / "train.log"
    log.write_text(log_text())
    saved = store.save(next(iter(tprimat.load(str(log)))), tmp_path / "o").path
    monkeypatch.setattr(
        bundle, "redacted", lambda text: text.replace("(ms): 1001.0", f"(ms): {REMOVED}")
    )
    _, notes = bundle.write(tmp_path / "b.tar.gz", [saved], [log])
    assert notes == [f"not in the bundle: {log}: reads otherwise without its apparent secrets"]
    assert logs_in(tmp_path / "b.tar.gz") == []


def test_x0_the_figures_of_every_sample_log_are_unharmed(request):
    folders = [Path(__file__).parents[1] / "data" / "logs"]
    with contextlib.suppress(pytest.skip.Exception):
        folders.append(request.getfixturevalue("samples"))
    looked_at = 0
    for path in (
        each for folder in folders for each in sorted(folder.rglob("*")) if each.is_file()
    ):
        try:
            content = b"".join(Log(str(path)).chunks())
        except TensorPrimatError:
            continue
        # A trace is no log, and has no line of a step.
        if read.file_format_of(content[: read.HEAD]) is not None:
            continue
        looked_at += 1
        whole = clean(decoded(content))
        shown = redacted(whole)
        if shown == whole:
            continue
        changed = [
            pair
            for pair in zip(whole.split("\n"), shown.split("\n"), strict=True)
            if pair[0] != pair[1]
        ]
        for before, after in changed:
            # Commands and environments alone; not a character of a step.
            assert not looks_like_a_step(Line(1, before, True)), (path, before)
            assert len(re.findall(re.escape(REMOVED), after)) == 1
        assert bundle._values(whole.encode()) == bundle._values(shown.encode())
    assert looked_at >= 3


def noticeable(form: str) -> list[str]:
    """The secrets of a form that nothing else has by chance."""
    return [
        secret.strip("\\n")
        for secret in parts(form)[2]
        if len(secret) > 6 and re.search(r"\d", secret) and not secret.isdigit()
    ]


def found_in(content: str, forms=PLANTED) -> list[str]:
    # A folded one in pieces, a block of lines by its line.
    words = {
        word
        for form in forms
        for secret in noticeable(form)
        for word in re.split(r"\\n|\n|: |; ", secret)
    }
    return sorted(
        word for word in words if len(word) > 6 and re.search(r"\d", word) and word in content
    )


def test_x7_planted_in_a_log_none_is_in_results_bundles_and_screens(tmp_path, capsys):
    assert len(PLANTED) >= 200
    planted = "\n\n".join(parts(form)[0].rstrip("\n") for form in PLANTED)
    log, packed = tmp_path / "train.log", tmp_path / "b.tar.gz"
    log.write_text(f"{planted}\n\n{log_text()}")
    assert len(found_in(log.read_text())) >= 200
    arguments = [
        "--log-file",
        str(log),
        "--output-dir",
        str(tmp_path / "o"),
        "--bundle",
        str(packed),
        "--verbose",
    ]
    assert cli.run("extract-primus", [*arguments, *GIVEN]) == ExitStatus.OK
    assert cli.run("verify", [str(packed), "--verbose"]) == ExitStatus.OK
    (result,) = (tmp_path / "o").glob("*.json")
    (copy,) = logs_in(packed)
    said = capsys.readouterr()
    for content in (result.read_text(), copy, said.out, said.err):
        assert found_in(content) == []
    assert copy.endswith(log_text())


@pytest.mark.parametrize("form", [*ONE_LINE[::6], *SEVERAL_LINES[:3]])
def test_x7_quoted_as_the_reason_of_a_failure(tmp_path, capsys, form):
    text = parts(form)[0].rstrip("\n")
    (tmp_path / "train.log").write_text(
        log_text(40).rpartition(" iteration       31")[0]
        + f"Traceback (most recent call last):\nRuntimeError: 401 for {text}\n"
    )
    cli.run(
        "read",
        [str(tmp_path / "train.log"), "--output-dir", str(tmp_path / "o"), "--verbose", *GIVEN],
    )
    (result,) = (tmp_path / "o").glob("*.json")
    assert "401 for" in result.read_text()
    said = "".join(capsys.readouterr())
    assert found_in(result.read_text() + said, [form]) == []


def test_x7_planted_in_a_result_none_is_in_reports_and_exports(tmp_path, capsys):
    log, older = tmp_path / "train.log", tmp_path / "older"
    log.write_text(log_text())
    (tmp_path / "clean.log").write_text(log_text(30, 1100.0))
    saved = store.save(next(iter(tprimat.load(str(log)))), older).path
    content = json.loads(saved.read_text())
    texts = [parts(form)[0] for form in PLANTED]
    for each in (content, *content["runs"]):
        each |= {"status_reason": f"line 3: {texts[0]}", "warnings": texts, "label": texts[1]}
        each["source"]["command"] = [
            "train.py",
            "--db-pass",
            "1234x5678",
            *(parts(form)[0] for form in ONE_LINE),
        ]
        each["framework_config"] = {
            "hub_token": "abcd-1234-efgh",
            "note": texts[3],
            "db_password": "hunter22",
        }
        each["environment"] = {"settings": {"NCCL_X": texts[2]}}
    saved.write_text(json.dumps(content))
    assert len(found_in(saved.read_text())) >= 180
    arguments = [
        f"clean={tmp_path / 'clean.log'}",
        str(saved),
        *GIVEN,
        "--results-dir",
        str(tmp_path),
    ]
    assert cli.run(
        "compare", [*arguments, "--verbose", "--output", str(tmp_path / "plot.svg")]
    ) in (0, 2, 3)
    assert cli.run("compare", [*arguments, "--no-plot", "--json"]) in (0, 2, 3)
    assert cli.run("export", [str(saved), "--jsonl", str(tmp_path / "x.jsonl")]) == ExitStatus.OK
    assert cli.run("publish", [str(older), "--output-dir", str(tmp_path / "site")]) in (0, 2)
    bundle.write(tmp_path / "b.tar.gz", [saved], [log])
    said = capsys.readouterr()
    written = {
        each.name: each.read_text(errors="replace")
        for each in tmp_path.rglob("*")
        if each.suffix in (".html", ".md", ".jsonl")
    }
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        written |= {
            each.name: archive.extractfile(each).read().decode("latin-1")
            for each in archive
            if each.name.endswith(".json")
        }
    assert {"comparison_report.html", "comparison_report.md", "x.jsonl"} < written.keys()
    for name, text in {**written, "out": said.out, "err": said.err}.items():
        assert (name, found_in(text), "1234x5678" in text) == (name, [], False)


@pytest.mark.parametrize(("count", "words"), [(1, "looks like a step"), (3, "have one form")])
def test_x7_an_unknown_line_that_is_quoted(tmp_path, capsys, count, words):
    (tmp_path / "x.log").write_text("step 1 loss 2.5 of 3 with hub_token=abcd-1234-efgh\n" * count)
    assert cli.run("read", [str(tmp_path / "x.log")]) == ExitStatus.USAGE
    said = "".join(capsys.readouterr())
    assert words in said
    assert "abcd-1234" not in said
