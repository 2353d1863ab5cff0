"""The frameworks: which can run here, and the command that each makes of a request."""

from __future__ import annotations

import dataclasses
import sys

import pytest
from fake_framework import fake_framework
from test_request import REQUEST

from tprimat import frameworks
from tprimat.errors import UsageError
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.loops import launch as loops


def framework(name, reason):
    return fake_framework(name, reason=reason)


def launch(request):
    return frameworks.by_name("lightning").launcher.launch(request)


class TestChoosing:
    def test_the_first_that_can_run(self, monkeypatch):
        monkeypatch.setattr(
            frameworks, "FRAMEWORKS", (framework("a", "it needs a GPU"), framework("b", None))
        )
        assert frameworks.choose(None).name == "b"

    @pytest.mark.parametrize(
        ("platform", "installed", "chosen"),
        [
            ("nvd", ("lightning", "nemo", "megatron_bridge"), "megatron_bridge"),
            ("nvd", ("lightning", "nemo", "megatron", "torchtitan"), "nemo"),
            ("nvd", ("lightning", "fsdp", "megatron", "torchtitan"), "lightning"),
            ("amd", ("lightning", "fsdp", "primus"), "primus"),
            ("amd", ("lightning", "fsdp", "torchtitan"), "lightning"),
            ("cpu", ("lightning", "nemo", "primus"), "lightning"),
        ],
    )
    def test_the_vendors_own_before_ours(self, monkeypatch, platform, installed, chosen):
        monkeypatch.setattr(
            Framework,
            "unavailable",
            lambda self: None if self.name in installed else "it isn't here",
        )
        assert frameworks.choose(None, platform).name == chosen

    def test_by_name_in_any_case(self, monkeypatch):
        monkeypatch.setattr(frameworks, "FRAMEWORKS", (framework("a", None), framework("b", None)))
        assert frameworks.choose("B").name == "b"

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("c", ["unknown framework 'c'", "choose from a, b"]),
            ("a", ["a is not available", "it needs a GPU", "available: b"]),
        ],
    )
    def test_an_impossible_one_says_what_is_possible(self, monkeypatch, name, words):
        monkeypatch.setattr(
            frameworks, "FRAMEWORKS", (framework("a", "it needs a GPU"), framework("b", None))
        )
        with pytest.raises(UsageError) as refused:
            frameworks.choose(name)
        assert all(word in refused.value.message for word in words)

    @pytest.mark.parametrize(
        ("name", "meant"),
        [("fspd", "fsdp"), ("Lightnin", "lightning"), ("deepsped", "deepspeed"), ("nmo", "nemo")],
    )
    def test_a_slip_of_the_pen_is_recognized(self, name, meant):
        with pytest.raises(UsageError) as refused:
            frameworks.choose(name)
        assert (
            refused.value.line()
            == f"error: unknown framework {name!r}\nhint:  did you mean {meant}?\n"
            "see:   docs/troubleshooting.md#no-framework"
        )

    def test_none_can_run(self, monkeypatch):
        monkeypatch.setattr(frameworks, "REQUIRED", ())
        monkeypatch.setattr(
            frameworks, "FRAMEWORKS", (framework("a", "needs torch: pip install it"),)
        )
        with pytest.raises(UsageError, match="a: needs torch: pip install it"):
            frameworks.choose(None)

    @pytest.mark.parametrize(
        ("missing", "reason"),
        [
            (("torch", "lightning"), "needs torch: pip install -r requirements.txt"),
            (("deepspeed",), "needs deepspeed: pip install deepspeed"),
            (
                ("torch", "deepspeed"),
                "needs torch, deepspeed: pip install -r requirements.txt && pip install deepspeed",
            ),
            ((), None),
        ],
    )
    def test_missing_packages_are_named_with_what_brings_them(self, monkeypatch, missing, reason):
        monkeypatch.setattr(
            "importlib.util.find_spec", lambda name: None if name in missing else object()
        )
        assert frameworks.by_name("deepspeed-zero1").unavailable() == reason

    def test_without_torch_nothing_else_is_worth_saying(self, monkeypatch):
        monkeypatch.setattr(frameworks.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(UsageError) as refused:
            frameworks.choose(None)
        assert refused.value.line().splitlines() == [
            "error: training needs the package torch, which is not installed",
            "hint:  pip install -r requirements.txt",
            "see:   docs/troubleshooting.md#missing-package",
        ]


class TestRows:
    def test_a_folder_is_all_that_a_new_framework_takes(self, monkeypatch, tmp_path):
        (tmp_path / "newest").mkdir()
        (tmp_path / "newest" / "__init__.py").write_text(
            "from tprimat.frameworks.framework import Framework\n\nFRAMEWORK = Framework('newest',"
            " data='mock')\n"
        )
        monkeypatch.setattr(frameworks, "__path__", [*frameworks.__path__, str(tmp_path)])
        monkeypatch.delitem(sys.modules, "tprimat.frameworks.newest", raising=False)
        rows = tuple(frameworks._rows())
        assert {row.name for row in rows} == {
            "newest",
            *(row.name for row in frameworks.FRAMEWORKS),
        }
        (row,) = (row for row in rows if row.name == "newest")
        assert (row.embedded, row.on_cpu, row.divides) == (False, False, False)

    def test_each_has_its_own_way_to_train(self):
        launchers = {row.name: row.launcher for row in frameworks.FRAMEWORKS}
        assert {name for name, each in launchers.items() if each.logged} == {
            "primus",
            "megatron",
            "torchtitan",
        }
        assert {name for name, each in launchers.items() if each.full_size_only} == {
            "primus",
            "torchtitan",
        }
        assert {name for name, each in launchers.items() if each.profiles} == {
            "megatron_bridge",
            "nemo",
            "lightning",
        }
        assert {name for name, each in launchers.items() if type(each) is loops.Loop} == {
            "transformers"
        }
        plans_anywhere = {name for name, each in launchers.items() if each.plans_anywhere}
        assert plans_anywhere == {"megatron_bridge", "nemo", "automodel", "megatron", "torchtitan"}


class TestLightning:
    def test_one_process_is_started_directly(self):
        made = launch(dataclasses.replace(REQUEST, num_gpus=1))
        assert made.argv[:3] == (sys.executable, "-m", "tprimat.frameworks.lightning.loop")
        assert made.argv[3:] == tuple(dataclasses.replace(REQUEST, num_gpus=1).to_arguments())

    def test_several_are_started_by_torchrun(self):
        request = dataclasses.replace(REQUEST, platform="nvd", num_gpus=8, global_batch_size=64)
        made = launch(request)
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
        monkeypatch.setattr(loops, "cores", lambda: 7)
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        assert launch(REQUEST).env["OMP_NUM_THREADS"] == "3"

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
        assert left in launch(REQUEST).env
        monkeypatch.setenv(name, "1")
        assert left not in launch(REQUEST).env

    @pytest.mark.parametrize(
        "name",
        ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK"],
    )
    def test_nothing_goes_over_the_network(self, name):
        assert launch(REQUEST).env[name] == "1"

    def test_runs_where_the_package_lies(self, repository):
        assert launch(REQUEST).cwd == repository
