"""tprimat publish: the site, what it says, and what it refuses."""

from __future__ import annotations

import json
import os

import pytest
from made_runs import H100, MI300X, make_run

from tprimat.cli import run
from tprimat.cli.publish import CHECK
from tprimat.redaction import INCLUDE_HOST
from tprimat.results.run import Environment, Source, SourceFile
from tprimat.store.store import save_as


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(INCLUDE_HOST, raising=False)
    return tmp_path


def save(folder, name, *runs):
    (folder / "results").mkdir(exist_ok=True)
    (folder / "results" / name).unlink(missing_ok=True)
    for each in runs:
        save_as(each, folder / "results" / name)


def loaded(folder, site="site"):
    return json.loads((folder / site / "data" / "record.json").read_text(encoding="utf-8"))


class TestSite:
    def test_published_results_alone(self, here, capsys):
        assert run("publish", []) == 0
        said = capsys.readouterr()
        assert said.out.startswith("Site: site")
        assert said.err == ""
        assert len(loaded(here)["points"]["gpu"]) > 1000
        assert (here / "site" / "index.html").is_file()

    def test_results_join_the_published_ones(self, here, capsys):
        save(here, "benchmark_cuda_llama.json", make_run())
        assert run("publish", ["results", "--output-dir", "web", "--quiet"]) == 0
        assert capsys.readouterr().out.strip().endswith("index.html")
        columns = loaded(here, "web")["points"]
        assert columns["publisher"].count("own results") == 1
        assert columns["source"][-1] == "results/benchmark_cuda_llama.json"

    def test_only_ones_own(self, here, capsys):
        save(here, "a.json", *(make_run(H100, step_time=time) for time in (3.0, 3.01)))
        save(
            here,
            "b.json",
            *(make_run(MI300X, stack="rocm", step_time=time) for time in (3.5, 3.52)),
        )
        assert run("publish", ["results", "--results-only", "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["points"], said["pairs"], said["changes"], said["status"]) == (2, 1, 0, 0)
        assert loaded(here)["sources"].keys() == {"own results"}

    def test_a_name_is_noted(self, here):
        save(here, "a.json", make_run())
        assert run("publish", ["acme=results", "--results-only"]) == 0
        assert loaded(here)["points"]["note"] == ["acme"]

    def test_pages_of_what_is_gone_are_removed_and_other_files_stay(self, here):
        save(here, "a.json", make_run(model="secret model"))
        assert run("publish", ["results", "--results-only"]) == 0
        (page,) = (here / "site" / "models").glob("secret*.html")
        (here / "site" / "CNAME").write_text("example.com")
        (here / "site" / "models" / "mine.txt").write_text("mine")
        save(here, "a.json", make_run(model="open model"))
        assert run("publish", ["results", "--results-only"]) == 0
        assert not page.exists()
        assert (here / "site" / "CNAME").exists()
        assert (here / "site" / "models" / "mine.txt").exists()

    def test_pages_that_an_earlier_record_names_elsewhere_stay(self, here):
        save(here, "a.json", make_run())
        assert run("publish", ["results", "--results-only"]) == 0
        path = here / "site" / "data" / "record.json"
        values = json.loads(path.read_text())
        values["models"]["x"] = {"title": "x", "page": "../precious.html"}
        values["models"]["y"] = {"title": "y", "page": "models/../../precious.html"}
        path.write_text(json.dumps(values))
        (here / "precious.html").write_text("mine")
        assert run("publish", ["results", "--results-only"]) == 0
        assert (here / "precious.html").exists()


class TestPrivacy:
    def test_no_host_user_or_path(self, here, monkeypatch):
        monkeypatch.setenv(INCLUDE_HOST, "1")
        secret = "/home/ada/acme-secret/train.log"
        source = Source(
            kind="log",
            files=(SourceFile(path=secret, sha256="1" * 64, bytes=1),),
            command=(secret,),
        )
        environment = Environment(hostname="gpu-17.lab.example.com", versions={"torch": "2.8"})
        save(
            here,
            "a.json",
            make_run(environment=environment, source=source, label="tuned", model=secret),
        )
        monkeypatch.setenv(INCLUDE_HOST, "1")
        assert run("publish", [str(here / "results"), "--results-only"]) == 0
        assert loaded(here)["points"]["note"] == ["tuned"]
        for path in (here / "site").rglob("*"):
            if path.is_file() and "assets" not in path.parts:
                text = path.read_text(encoding="utf-8")
                for word in ("ada", "acme-secret", "gpu-17", "lab.example", str(here)):
                    assert word not in text.replace("cascada", ""), (path, word)

    def test_names_in_what_results_keep_as_it_was_given(self, here, capsys):
        user, home, host = (
            "alice.smith",
            "/home/alice.smith/venv",
            "alice.smith@gpu-17.lab.example.com",
        )
        versions = {"framework": f"NeMo 25.04 {home} {host}"}
        save(
            here,
            "a.json",
            make_run(
                label=f"by {user} in {home} {host}", environment=Environment(versions=versions)
            ),
        )
        assert run("publish", ["results", "--results-only"]) == 0
        assert CHECK in capsys.readouterr().out
        (note,), (version,) = (loaded(here)["points"][name] for name in ("note", "version"))
        for text in (note, version):
            assert not any(word in text for word in ("alice", "smith", "lab.example", "gpu-17")), (
                text
            )
        assert version.startswith("NeMo 25.04 ")
        assert run("publish", []) == 0
        assert CHECK not in capsys.readouterr().out


class TestRefused:
    def test_a_directory_with_other_files(self, here, capsys):
        (here / "site").mkdir()
        (here / "site" / "thesis.md").write_text("mine")
        assert run("publish", []) == 2
        assert "site: not a site of tprimat publish" in capsys.readouterr().err
        assert [path.name for path in (here / "site").iterdir()] == ["thesis.md"]

    def test_a_record_that_is_none(self, here, capsys):
        (here / "site" / "data").mkdir(parents=True)
        for text in (
            "",
            "[]",
            "{",
            '{"gpus": 3, "models": {}, "sources": {}}',
            '{"gpus": {"a": {}}}',
        ):
            (here / "site" / "data" / "record.json").write_text(text)
            assert run("publish", []) == 2
            assert "not a site of tprimat publish" in capsys.readouterr().err

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
    def test_a_record_that_is_a_pipe(self, here, capsys):
        (here / "site" / "data").mkdir(parents=True)
        os.mkfifo(here / "site" / "data" / "record.json")
        assert run("publish", []) == 2
        assert "not a site of tprimat publish" in capsys.readouterr().err

    def test_an_empty_directory_is_written_to(self, here):
        (here / "site").mkdir()
        assert run("publish", []) == 0

    def test_a_file_in_its_place(self, here, capsys):
        (here / "site").write_text("mine")
        assert run("publish", []) == 2
        assert capsys.readouterr().err.startswith("error: site")
        assert (here / "site").read_text() == "mine"

    def test_nothing_to_publish(self, here, capsys):
        assert run("publish", ["--results-only"]) == 2
        assert "no results to publish" in capsys.readouterr().err
        assert not (here / "site").exists()

    def test_a_directory_without_results(self, here, capsys):
        (here / "results").mkdir()
        assert run("publish", ["results"]) == 2
        assert "no benchmark results or logs in results" in capsys.readouterr().err
        assert not (here / "site").exists()

    def test_an_unreadable_result_is_named_and_the_others_are_published(self, here, capsys):
        save(here, "a.json", make_run())
        (here / "results" / "bad.json").write_text("{")
        assert run("publish", ["results/a.json", "results/bad.json", "--results-only"]) == 2
        assert "bad.json" in capsys.readouterr().err
        assert len(loaded(here)["points"]["gpu"]) == 1

    def test_a_result_with_nan_is_unreadable(self, here, capsys):
        save(here, "a.json", make_run())
        path = here / "results" / "a.json"
        path.write_text(path.read_text().replace('"step_times": [', '"step_times": [NaN, ', 1))
        assert run("publish", ["results/a.json", "--results-only"]) == 2
        assert not (here / "site").exists()
