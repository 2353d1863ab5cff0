"""The frameworks: which can run here, and the command that each makes of a request."""

from __future__ import annotations

import dataclasses
import sys

import pytest
from test_request import REQUEST

from tprimat import frameworks
from tprimat.errors import UsageError
from tprimat.frameworks import builtin_frameworks
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.lightning import launch as lightning


def framework(name, reason):
    return Framework(name, lambda: reason, None, None)


class TestChoosing:
    def test_the_first_that_can_run(self, monkeypatch):
        monkeypatch.setattr(frameworks, "FRAMEWORKS", (framework("a", "it needs a GPU"), framework("b", None)))
        assert frameworks.choose(None).name == "b"

    def test_by_name_in_any_case(self, monkeypatch):
        monkeypatch.setattr(frameworks, "FRAMEWORKS", (framework("a", None), framework("b", None)))
        assert frameworks.choose("B").name == "b"

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("c", ["no framework 'c'", "b can run here", "a can't: it needs a GPU"]),
            ("a", ["framework a can't run here", "it needs a GPU", "b can run here"]),
        ],
    )
    def test_an_impossible_one_says_what_is_possible(self, monkeypatch, name, words):
        monkeypatch.setattr(frameworks, "FRAMEWORKS", (framework("a", "it needs a GPU"), framework("b", None)))
        with pytest.raises(UsageError) as refused:
            frameworks.choose(name)
        assert all(word in refused.value.message for word in words)

    def test_none_can_run(self, monkeypatch):
        monkeypatch.setattr(frameworks, "FRAMEWORKS", (framework("a", "it needs torch: pip install it"),))
        with pytest.raises(UsageError, match="a can't: it needs torch: pip install it"):
            frameworks.choose(None)

    def test_missing_packages_are_named_with_what_brings_them(self, monkeypatch):
        monkeypatch.setattr(lightning, "PACKAGES", ("json", "no_such_package_a", "no_such_package_b"))
        reason = lightning.unavailable()
        assert reason == "it needs no_such_package_a, no_such_package_b: pip install -r requirements.txt"

    def test_further_packages_are_installed_by_name(self):
        reason = builtin_frameworks.missing(("json", "no_such_package"))
        assert reason == "it needs no_such_package: pip install no_such_package"

    def test_without_torch_nothing_else_is_worth_saying(self, monkeypatch):
        monkeypatch.setattr(frameworks.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(UsageError) as refused:
            frameworks.choose(None)
        assert refused.value.line().splitlines() == [
            "error: training needs the package torch, which is not installed",
            "hint:  pip install -r requirements.txt (docs/troubleshooting.md#missing-package)",
        ]


class TestLightning:
    def test_one_process_is_started_directly(self):
        made = lightning.launch(dataclasses.replace(REQUEST, num_gpus=1))
        assert made.argv[:3] == (sys.executable, "-m", "tprimat.frameworks.lightning.loop")
        assert made.argv[3:] == tuple(dataclasses.replace(REQUEST, num_gpus=1).to_arguments())

    def test_several_are_started_by_torchrun(self):
        request = dataclasses.replace(REQUEST, platform="nvd", num_gpus=8, global_batch_size=64)
        made = lightning.launch(request)
        assert made.argv[:5] == (
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=8",
        )
        assert made.argv[5:7] == ("-m", "tprimat.frameworks.lightning.loop")
        assert "OMP_NUM_THREADS" not in made.env

    def test_processes_on_a_cpu_share_its_cores(self, monkeypatch):
        monkeypatch.setattr(lightning, "cores", lambda: 7)
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        assert lightning.launch(REQUEST).env["OMP_NUM_THREADS"] == "3"

    @pytest.mark.parametrize(
        ("name", "left"),
        [
            ("OMP_NUM_THREADS", "OMP_NUM_THREADS"),
            ("GOMP_SPINCOUNT", "GOMP_SPINCOUNT"),
            ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"),
        ],
    )
    def test_the_users_own_settings_are_left(self, monkeypatch, name, left):
        for each in ("OMP_NUM_THREADS", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
            monkeypatch.delenv(each, raising=False)
        assert left in lightning.launch(REQUEST).env
        monkeypatch.setenv(name, "1")
        assert left not in lightning.launch(REQUEST).env

    @pytest.mark.parametrize(
        "name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK"]
    )
    def test_nothing_goes_over_the_network(self, name):
        assert lightning.launch(REQUEST).env[name] == "1"

    def test_runs_where_the_package_lies(self, repository):
        assert lightning.launch(REQUEST).cwd == repository
