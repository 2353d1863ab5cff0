"""Requirements and set-up: containers keep what they have, comparing needs no torch, the
constraints fit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from tool_modules import load_tool

from tprimat.catalog import gpus, published
from tprimat.machine.gpu import DRIVER_FILES
from tprimat.results import run
from tprimat.store import store

REPOSITORY = Path(__file__).resolve().parent.parent

NVIDIA_TORCH = "2.7.0a0+7c8ec84dab.nv25.03"
AMD_TORCH = "2.10.0.dev20251112+rocm7.1"
CONTAINER = {
    # What NeMo's containers carry beside torch; NeMo asks for lightning <= 2.4.0 and numpy < 2.
    "lightning": "2.4.0",
    "pytorch-lightning": "2.6.6",
    "transformers": "4.57.6",
    "numpy": "1.26.4",
}
OTHERS = {
    "filelock": "3.18.0",
    "jinja2": "3.1.6",
    "matplotlib": "3.10.1",
    "msgspec": "0.19.0",
    "nvidia-ml-py": "12.570.86",
    "openpyxl": "3.1.5",
    "psutil": "7.0.0",
    "rich": "13.9.4",
    "scipy": "1.15.2",
}
# What the analysis tier gets along without.
TRAINING_PACKAGES = ("lightning", "pytorch_lightning", "torch", "transformers")


def listed(name: str) -> list[Requirement]:
    """The requirements of a file, those of the files that it includes too."""
    requirements = []
    for line in (REPOSITORY / name).read_text(encoding="utf-8").splitlines():
        text = line.split("#")[0].strip()
        if text.startswith("-r "):
            requirements += listed(text[3:].strip())
        elif text:
            requirements.append(Requirement(text))
    return requirements


def specifier(package: str) -> SpecifierSet:
    (requirement,) = [one for one in listed("requirements.txt") if one.name == package]
    return requirement.specifier


@pytest.fixture
def container(tmp_path):
    """Makes an environment in which distributions are there by name only; gives its Python."""

    def make(distributions: dict[str, str]) -> Path:
        folder = tmp_path / "container"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
        site = Path(
            subprocess.run(
                [python, "-c", ask], check=True, capture_output=True, text=True
            ).stdout.strip()
        )
        for name, version in distributions.items():
            info = site / f"{name.replace('-', '_')}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            )
            (info / "INSTALLER").write_text("pip\n")
            (info / "RECORD").write_text("")
        return python

    return make


def to_install(python: Path, *arguments: str) -> dict[str, str]:
    """What pip would install: name -> version. Raises CalledProcessError, with pip's words, when it
    can't.
    """
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(python),
            "install",
            "--dry-run",
            "-qq",
            "--report",
            "-",
            *arguments,
        ],
        check=True,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )
    packages = json.loads(done.stdout)["install"]
    return {one["metadata"]["name"]: one["metadata"]["version"] for one in packages}


class TestContainersKeepWhatTheyHave:
    @pytest.mark.parametrize("torch", [NVIDIA_TORCH, AMD_TORCH])
    def test_nothing_is_installed_where_everything_is(self, container, torch):
        python = container({"torch": torch, **CONTAINER, **OTHERS})
        assert to_install(python, "--no-index", "-r", "requirements.txt") == {}

    @pytest.mark.parametrize(
        "distributions", [{"torch": "2.3.1"}, {"lightning": "2.6.2"}, {"transformers": "4.40.0"}]
    )
    def test_this_test_would_see_a_replacement(self, container, distributions):
        python = container({"torch": NVIDIA_TORCH, **CONTAINER, **OTHERS, **distributions})
        with pytest.raises(subprocess.CalledProcessError):
            to_install(python, "--no-index", "-r", "requirements.txt")

    @pytest.mark.slow
    @pytest.mark.parametrize("torch", [NVIDIA_TORCH, AMD_TORCH])
    def test_what_is_missing_comes_without_replacing_the_rest(
        self, container, torch, package_index
    ):
        """The newest matplotlib and scipy could ask for a newer numpy than the container's."""
        kept = {"torch": torch, **CONTAINER}
        arriving = to_install(container(kept), "-r", "requirements.txt")
        assert {"matplotlib", "msgspec", "scipy"} <= set(arriving)
        assert {name for name in arriving if name.lower().replace("_", "-") in kept} == set()

    @pytest.mark.parametrize(
        ("package", "version"), [("torch", NVIDIA_TORCH), ("torch", AMD_TORCH), *CONTAINER.items()]
    )
    def test_the_ranges_admit_it(self, package, version):
        assert specifier(package).contains(Version(version), prereleases=True)

    @pytest.mark.parametrize("package", ["lightning", "pytorch-lightning"])
    @pytest.mark.parametrize("version", ["2.6.2", "2.6.3"])
    def test_the_malicious_releases_are_refused(self, package, version):
        assert not specifier(package).contains(version)
        assert specifier(package).contains("2.6.6")

    def test_both_lightnings_have_one_range(self):
        assert specifier("lightning") == specifier("pytorch-lightning")


class TestSetUp:
    def test_outer_versions_become_constraints(self, make_venv):
        kept = {
            "torch": NVIDIA_TORCH,
            **CONTAINER,
            "nvidia-cudnn-cu12": "9.8",
            "megatron-core": "0.15.3",
            "triton": "3",
        }
        assert {name for name in [*kept, *OTHERS] if make_venv.KEPT.fullmatch(name)} == {
            *kept,
            "nvidia-ml-py",
        }

    @pytest.fixture
    def smi(self, make_venv, monkeypatch):
        """A Linux machine of a kind of processor, whose nvidia-smi prints this of drivers and
        compute capabilities.
        """

        def make(answer, machine="x86_64", system="linux", listed=True):
            def output(command):
                if command[1] == "-L":
                    return "GPU 0: a GPU" if answer and listed else ""
                if "compute_cap" in command[1]:
                    return answer if "," in answer else ""
                return "\n".join(line.split(",")[0] for line in answer.splitlines())

            monkeypatch.setattr(make_venv, "_output", output)
            monkeypatch.setattr(make_venv.platform, "machine", lambda: machine)
            monkeypatch.setattr(make_venv.sys, "platform", system)
            monkeypatch.setattr(make_venv, "JETSON_FILES", ())
            monkeypatch.setattr(make_venv, "DEVICE_FILE", "/dev/absent")
            monkeypatch.setattr(make_venv, "DRIVER_FILE", "/dev/absent")

        return make

    @pytest.mark.parametrize(
        ("answer", "machine", "build"),
        [
            ("", "x86_64", ""),
            ("", "aarch64", ""),
            ("580.65.06, 9.0\n580.65.06, 9.0", "x86_64", ""),
            ("579.99.99, 9.0", "x86_64", "cu126"),
            ("525.60.13, 9.0", "x86_64", "cu126"),
            ("580.65.06, 7.5", "x86_64", ""),
            ("580.65.06, 7.0", "x86_64", "cu126"),
            ("580.65.06, 5.0", "x86_64", "cu126"),
            ("579.99.99, 10.0", "x86_64", "cu128"),
            ("570.86.15, 12.0", "x86_64", "cu128"),
            ("580.65.06, 10.0\n580.65.06, 10.0", "x86_64", ""),
            # The kernels must be there for the newest of several GPUs too.
            ("575.57.08, 7.5\n575.57.08, 12.0", "x86_64", "cu128"),
            ("580.65.06, 7.5\n580.65.06, 12.0", "x86_64", ""),
            # PTX of the newest is compiled for later ones.
            ("610.10.10, 13.0", "x86_64", ""),
            # GH200, GB200, GB300, GB10, Thor: the builds for aarch64 have kernels of their own.
            ("570.86.15, 9.0", "aarch64", "cu126"),
            ("570.124.06, 10.0", "aarch64", "cu128"),
            ("580.65.06, 10.3", "aarch64", ""),
            ("580.95.05, 12.1", "aarch64", ""),
            ("580.00, 11.0", "aarch64", ""),
            ("535.129.03, 8.0", "aarch64", "cu126"),
            # A driver that doesn't state what the GPU is.
            ("580.95.05, [N/A]", "aarch64", ""),
            ("535.54.03, [N/A]", "x86_64", "cu126"),
            ("525.60.13", "x86_64", "cu126"),
        ],
    )
    def test_the_build_fits_the_driver_and_the_gpu(self, make_venv, smi, answer, machine, build):
        smi(answer, machine)
        torch, index = make_venv.fitting_torch()
        assert index.rpartition("/")[2] == build
        assert torch == ("torch==2.11.0" if build == "cu128" else make_venv.pinned("torch"))

    @pytest.mark.parametrize(
        ("answer", "machine", "said"),
        [
            ("524.10, 9.0", "x86_64", "driver 524 is too old for PyTorch: update it to 580"),
            ("470.82.01", "x86_64", "driver 470 is too old for PyTorch: update it to 580"),
            ("569.10, 10.0", "aarch64", "(570 at least)"),
            ("570.10, 11.0", "aarch64", "(580 at least)"),
            ("580.10, 3.7", "x86_64", "no build of PyTorch has kernels for compute capability 3.7"),
            ("580.10, 7.0\n580.10, 12.0", "x86_64", "compute capability 7.0 and 12.0 together"),
            ("580.10, 7.5", "aarch64", "compute capability 7.5 on aarch64"),
        ],
    )
    def test_nothing_is_downloaded_that_torch_would_refuse(
        self, make_venv, smi, answer, machine, said
    ):
        smi(answer, machine)
        with pytest.raises(make_venv.SetupError, match=re.escape(said)) as caught:
            make_venv.fitting_torch()
        assert make_venv.CPU_INDEX in str(caught.value)

    def test_on_windows_the_build_without_cuda_is_not_the_default(self, make_venv, smi):
        smi("581.29, 8.9", "AMD64", "win32")
        assert make_venv.fitting_torch() == (
            make_venv.pinned("torch"),
            "https://download.pytorch.org/whl/cu130",
        )
        smi("", "AMD64", "win32")
        assert make_venv.fitting_torch() == (make_venv.pinned("torch"), "")

    @pytest.mark.parametrize(
        ("answer", "is_old"), [("", True), ("540.4.0, 8.7", True), ("580.00, 11.0", False)]
    )
    def test_a_jetson_before_jetpack_7_is_told_where_its_builds_are(
        self, make_venv, smi, monkeypatch, tmp_path, answer, is_old
    ):
        smi(answer, "aarch64")
        monkeypatch.setattr(make_venv, "JETSON_FILES", (str(tmp_path),))
        assert make_venv.has_nvidia_gpu()
        if not is_old:
            assert make_venv.fitting_torch() == (make_venv.pinned("torch"), "")
            return
        with pytest.raises(make_venv.SetupError, match="JetPack 7"):
            make_venv.fitting_torch()

    def test_the_kernel_states_the_driver_where_nvidia_smi_is_missing(
        self, make_venv, smi, monkeypatch, tmp_path
    ):
        smi("", "x86_64")
        assert not make_venv.has_nvidia_gpu()
        version = tmp_path / "version"
        version.write_text(
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.144.03  Release Build\n"
        )
        monkeypatch.setattr(make_venv, "DRIVER_FILE", str(version))
        monkeypatch.setattr(make_venv, "DEVICE_FILE", str(version))
        assert make_venv.has_nvidia_gpu()
        assert make_venv.fitting_torch()[1].endswith("cu126")

    @pytest.mark.parametrize(
        ("versions", "nvidia", "is_refused"),
        [
            ((0, 90402), "", True),
            ((0, 90500), "", True),
            ((0, 90010), "", True),
            ((0, 90008), "", True),
            # Parts of CPUs, and Radeons.
            ((90012,), "", False),
            ((0, 110003), "", False),
            ((0, 100300), "", False),
            ((0, 90402), "580.65.06, 9.0", False),
        ],
    )
    def test_no_cuda_build_is_downloaded_for_an_instinct(
        self, make_venv, smi, monkeypatch, tmp_path, versions, nvidia, is_refused
    ):
        smi(nvidia)
        monkeypatch.setattr(make_venv, "has_amd_gpu", lambda: True)
        monkeypatch.setattr(make_venv, "KFD_NODES", tmp_path)
        for number, version in enumerate(versions):
            (tmp_path / str(number)).mkdir()
            (tmp_path / str(number) / "properties").write_text(
                f"simd_count 4\ngfx_target_version {version}\n"
            )
        if not is_refused:
            assert make_venv.fitting_torch()[0] == make_venv.pinned("torch")
            return
        with pytest.raises(make_venv.SetupError, match="AMD's container"):
            make_venv.fitting_torch()

    def test_nemo_downloads_no_torch_that_its_versions_replace(self, monkeypatch, tmp_path):
        nemo = load_tool("make_nemo_env")
        monkeypatch.delenv("TORCH_INDEX_URL", raising=False)
        monkeypatch.setattr(nemo.make_venv, "fitting_torch", lambda: ("torch==2.11.0", "an index"))
        with pytest.raises(nemo.make_venv.SetupError, match="too old for: update it to 580"):
            nemo.NemoEnvironment(tmp_path / "env", nemo.REQUIREMENTS).make()
        assert not (tmp_path / "env").exists()

    def test_the_signs_of_a_jetson_are_the_products(self, make_venv):
        assert {*make_venv.JETSON_FILES, make_venv.DEVICE_FILE} < set(DRIVER_FILES["cuda"])

    @pytest.mark.parametrize("driver", [524, 525, 569, 570, 579, 580, 610])
    def test_every_gpu_of_the_catalog_gets_a_build_with_kernels_for_it(
        self, make_venv, smi, driver
    ):
        # PyTorch's CUDA support matrix, Linux: releases 2.12 and 2.13, and for 12.8 the last one
        # that has it, 2.11.
        builds = {
            "cu126": (525, (5.0, 6.0, 7.0, 7.5, 8.0, 8.6, 9.0)),
            "cu128": (570, (7.5, 8.0, 8.6, 9.0, 10.0, 12.0)),
            "": (580, (7.5, 8.0, 8.6, 9.0, 10.0, 12.0)),
        }
        architectures = {row.architecture for row in gpus.gpus() if row.vendor == "NVIDIA"}
        assert {"sm_70", "sm_90", "sm_100", "sm_103", "sm_120"} <= architectures
        for architecture in sorted(architectures):
            capability = int(architecture.removeprefix("sm_")) / 10
            smi(f"{driver}.1, {capability}")
            if driver < (570 if capability >= 10 else 525):
                with pytest.raises(make_venv.SetupError, match="update it to 580"):
                    make_venv.fitting_torch()
                continue
            least_driver, kernels = builds[make_venv.fitting_torch()[1].rpartition("/")[2]]
            # Kernels run on the same generation's later chips.
            assert [
                each for each in kernels if int(each) == int(capability) and each <= capability
            ], architecture
            assert driver >= least_driver

    def test_the_older_torch_of_a_blackwell_gpu_replaces_the_pin(
        self, make_venv, monkeypatch, tmp_path
    ):
        monkeypatch.setattr(
            make_venv,
            "_output",
            lambda command: "570.86.15, 10.0" if "nvidia-smi" in command[0] else "",
        )
        monkeypatch.delenv("TORCH_INDEX_URL", raising=False)
        environment = make_venv.Environment(tmp_path, ["requirements.txt"])
        calls = []
        monkeypatch.setattr(environment, "_pip", lambda *words, **_: calls.append(words))
        environment._install_torch()
        environment._install("-c", str(environment.constraints))
        assert calls[0] == (
            "install",
            "torch==2.11.0",
            "--index-url",
            "https://download.pytorch.org/whl/cu128",
        )
        pins = Path(calls[1][-1]).read_text().splitlines()
        assert "torch==2.11.0" in pins
        assert make_venv.pinned("torch") not in pins
        # Which that torch takes; pip refuses to resolve the newer one's.
        assert [pin for pin in pins if pin.startswith("setuptools")] == ["setuptools<82"]
        assert len(pins) == len((make_venv.ROOT / "constraints.txt").read_text().splitlines())

    def test_a_cuda_build_is_announced_with_its_size_and_the_way_round(
        self, make_venv, monkeypatch
    ):
        monkeypatch.setattr(make_venv, "download_size", lambda urls: 2_900_000_000)
        monkeypatch.setattr(make_venv, "has_nvidia_gpu", lambda: False)
        monkeypatch.setattr(make_venv, "has_amd_gpu", lambda: False)
        size, advice, command = make_venv.announcement(
            report_of("torch==2.13.0", "nvidia-cublas==13.1")
        )
        assert "about 2.9 GB" in size
        assert "no NVIDIA GPU" in advice
        assert command == f"make run TORCH_INDEX_URL={make_venv.CPU_INDEX}"

    def test_a_size_that_nobody_tells_is_given_as_a_range(self, make_venv, monkeypatch):
        monkeypatch.setattr(make_venv, "download_size", lambda urls: None)
        assert (
            "two to four GB"
            in make_venv.announcement(report_of("torch==2.13.0", "nvidia-cublas==13.1"))[0]
        )

    def test_on_an_nvidia_gpu_the_cuda_build_is_what_is_wanted(self, make_venv, monkeypatch):
        monkeypatch.setattr(make_venv, "download_size", lambda urls: 2_900_000_000)
        monkeypatch.setattr(make_venv, "has_nvidia_gpu", lambda: True)
        assert len(make_venv.announcement(report_of("torch==2.13.0", "nvidia-cublas==13.1"))) == 1

    def test_an_amd_gpu_is_told_that_the_build_does_not_drive_it(self, make_venv, monkeypatch):
        monkeypatch.setattr(make_venv, "download_size", lambda urls: None)
        monkeypatch.setattr(make_venv, "has_nvidia_gpu", lambda: False)
        monkeypatch.setattr(make_venv, "has_amd_gpu", lambda: True)
        assert "ROCm" in " ".join(
            make_venv.announcement(report_of("torch==2.13.0", "nvidia-cublas==13.1"))
        )

    @pytest.mark.parametrize(
        "report",
        [("torch==2.13.0+cpu",), ("torch==2.13.0", "sympy==1.14.0"), ("sympy==1.14.0",)],
        ids=["CPU build", "without NVIDIA's libraries", "torch is there"],
    )
    def test_a_small_download_is_not_announced(self, make_venv, report):
        assert make_venv.announcement(report_of(*report)) == []

    def test_a_file_on_disk_is_not_announced(self, make_venv):
        report = report_of("torch==2.13.0", "nvidia-cublas==13.1")
        report["install"][0]["download_info"]["url"] = (
            "file:///wheels/torch-2.13.0-cp311-cp311-linux_x86_64.whl"
        )
        assert make_venv.announcement(report) == []

    def test_a_python_without_venv_is_told_what_to_install(
        self, make_venv, monkeypatch, capsys, tmp_path
    ):
        monkeypatch.setitem(sys.modules, "ensurepip", None)
        assert make_venv.main(["--venv", str(tmp_path / "env")]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"apt install python{sys.version_info[0]}.{sys.version_info[1]}-venv" in line
        assert not (tmp_path / "env").exists()

    @pytest.mark.skipif(sys.version_info < (3, 11), reason="reads pyproject.toml with tomllib")
    def test_groups_are_read_as_pip_reads_them(self, make_venv):
        import tomllib

        groups = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))[
            "dependency-groups"
        ]

        def resolved(name: str) -> list[str]:
            return [
                each
                for one in groups[name]
                for each in ([one] if isinstance(one, str) else resolved(*one.values()))
            ]

        assert {name: make_venv.group(name) for name in groups} == {
            name: resolved(name) for name in groups
        }
        with pytest.raises(make_venv.SetupError, match="no dependency group nothing"):
            make_venv.group("nothing")

    @pytest.mark.parametrize(
        ("tests", "skipped", "status"), [(100, 49, 0), (100, 51, 1), (0, 0, 1)]
    )
    def test_a_run_without_torch_that_skips_most_tests_has_failed(
        self, environment_tests, capsys, tests, skipped, status
    ):
        report = (
            f'<testsuites><testsuite tests="{tests}" skipped="{skipped}" failures="0"'
            " /></testsuites>"
        )
        assert environment_tests.enough(ElementTree.fromstring(report)) == status
        assert bool(capsys.readouterr().err) == bool(status)

    def test_what_runs_once_is_there(self, environment_tests):
        for place in environment_tests.ONCE:
            name, _, test = place.partition("::")
            path = REPOSITORY / name
            assert path.exists(), place
            assert not test or re.search(rf"^(?:def|class) {test}\b", path.read_text(), re.M), place

    def test_interpreters_are_what_they_are_called(self, interpreters):
        found = interpreters.find()
        assert "%d.%d" % sys.version_info[:2] in found
        for version, python in found.items():
            ask = "import sys; print('%d.%d' % sys.version_info[:2])"
            assert (
                subprocess.run([python, "-c", ask], capture_output=True, text=True).stdout.strip()
                == version
            )

    @pytest.mark.slow
    def test_torch_alone_comes_from_the_index_that_is_named(self, make_venv, monkeypatch, tmp_path):
        """An index on disk with a torch that is empty but for its name."""
        wheel = stub_wheel(tmp_path / "index" / "torch", "torch", "2.13.0+cpu")
        (wheel.parent / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
        monkeypatch.setenv("TORCH_INDEX_URL", (tmp_path / "index").as_uri())
        monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
        # pip's settings on this machine may know another torch of this version.
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        environment = make_venv.Environment(tmp_path / "env", ["requirements.txt"])
        environment._create(over_outer=False)
        environment._install_torch()
        assert environment._version("torch") == "2.13.0+cpu"

    @pytest.mark.slow
    @pytest.mark.skipif(sys.platform == "win32", reason="needs a script in the place of nvidia-smi")
    @pytest.mark.parametrize("torch", [NVIDIA_TORCH, AMD_TORCH])
    def test_over_a_gpu_containers_python_nothing_is_replaced(self, container, tmp_path, torch):
        """The outer Python is an environment itself, as in NeMo's containers."""
        outer = container({"torch": torch, **CONTAINER, **OTHERS})
        put_torch_module(outer, torch)
        driver = tmp_path / "driver"
        driver.mkdir()
        (driver / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H100 80GB HBM3'\n")
        (driver / "nvidia-smi").chmod(0o755)
        done = subprocess.run(
            [
                outer,
                "tools/make_venv.py",
                "--venv",
                tmp_path / "env",
                "--requirements",
                "requirements.txt",
            ],
            cwd=REPOSITORY,
            env={
                **os.environ,
                "PATH": f"{driver}{os.pathsep}{os.environ['PATH']}",
                "PIP_NO_INDEX": "1",
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert f"has torch {torch}" in done.stdout
        kept = (tmp_path / "env" / "outer-versions.txt").read_text().split()
        assert {f"torch=={torch}", "numpy==1.26.4", "lightning==2.4.0"} <= set(kept)
        assert seen_by(tmp_path / "env" / "bin" / "python", "torch") == torch
        inside = {
            path.name.split("-")[0]
            for path in (tmp_path / "env").glob("lib/*/site-packages/*.dist-info")
        }
        assert inside <= {"pip", "setuptools"}


PINS = tuple(
    Requirement(line)
    for line in (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
)


class TestConstraints:
    @pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
    def test_every_python_has_one_version_of_everything_asked_for(self, make_venv, python):
        environment = {"python_version": python, "python_full_version": f"{python}.0"}
        pins = [one for one in PINS if one.marker is None or one.marker.evaluate(environment)]
        names = [one.name.lower() for one in pins]
        assert len(names) == len(set(names))
        for wanted in [*listed("requirements.txt"), *map(Requirement, make_venv.group("dev"))]:
            (pin,) = [one for one in pins if one.name.lower() == wanted.name.lower()]
            (exact,) = pin.specifier
            assert exact.operator == "=="
            assert wanted.specifier.contains(exact.version)

    def test_torch_is_the_version_that_everything_was_tried_with(self):
        assert [str(one) for one in PINS if one.name == "torch"] == ["torch==2.13.0"]

    def test_the_hooks_use_the_same_versions(self):
        text = (REPOSITORY / ".pre-commit-config.yaml").read_text(encoding="utf-8")
        pinned = {one.name: str(one) for one in PINS}
        used = re.findall(r"\b[a-z-]+==[\d.]+", text)
        assert pinned["ruff"] in used
        assert [pin for pin in used if pinned.get(pin.split("==")[0], pin) != pin] == []

    def test_the_package_asks_for_what_the_files_ask_for(self):
        text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
        (extra,) = re.findall(r"^train = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
        own = {str(one) for one in listed("requirements.txt")} - {
            str(one) for one in listed("requirements-analysis.txt")
        }
        assert {str(Requirement(each)) for each in re.findall(r'"([^"]+)"', extra)} == own


@pytest.mark.slow
def test_the_published_figures_are_in_a_wheel(tmp_path):
    """A clone has them in a folder beside the package, an installation in it."""
    source, target = tmp_path / "source", tmp_path / "installed"
    for folder in ("tprimat", "published"):
        shutil.copytree(
            REPOSITORY / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in (
        "pyproject.toml",
        "setup.py",
        "README.md",
        "LICENSE",
        "requirements-analysis.txt",
        "benchmark_utils.py",
    ):
        shutil.copy(REPOSITORY / name, source)
    build = [
        "wheel",
        "-q",
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "-w",
        tmp_path,
        source,
    ]
    subprocess.run([sys.executable, "-m", "pip", *build], check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("tensorprimat-*.whl")
    zipfile.ZipFile(wheel).extractall(target)
    ask = "from tprimat.catalog import published; print(published.FOLDER, len(published.rows()))"
    for place, folder in (
        (target, target / "tprimat" / "published"),
        (REPOSITORY, REPOSITORY / "published"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", ask], env={**os.environ, "PYTHONPATH": str(place)}, cwd=tmp_path, check=True,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.stdout.split() == [str(folder), str(len(published.rows()))]


class TestWithoutTorch:
    def test_comparing_needs_nothing_of_the_training_tier(self, tmp_path):
        for label, time in (("one", 1.0), ("two", 1.25)):
            store.save(made_up_run(label, time), tmp_path / "results")
        code = (
            "import importlib.abc, runpy, sys\n"
            "class Hide(importlib.abc.MetaPathFinder):\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            f"        if name.split('.')[0] in {TRAINING_PACKAGES!r}:\n"
            "            raise ModuleNotFoundError(f'No module named {name}', name=name)\n"
            "sys.meta_path.insert(0, Hide())\n"
            f"sys.argv = ['compare_results.py', '--results-dir', {str(tmp_path / 'results')!r}]\n"
            f"runpy.run_path({str(REPOSITORY / 'compare_results.py')!r}, run_name='__main__')\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert {path.suffix for path in (tmp_path / "results").iterdir()} >= {
            ".json",
            ".png",
            ".md",
        }


def made_up_run(label: str, time: float) -> run.Run:
    """A run of thirty even steps, of our own making."""
    steps = tuple(range(1, 31))
    return run.Run(
        platform="cpu",
        framework="lightning",
        model="llama",
        scale="tiny",
        label=label,
        gpu_info=run.GpuInfo(device_name="some processor", device_count=1, software_stack="cpu"),
        training_config=run.TrainingConfig(
            global_batch_size=2, micro_batch_size=2, sequence_length=128, num_gpus=1
        ),
        steps=steps,
        window_steps=(1,) * 30,
        step_times=tuple(time + 0.01 * (step % 3) for step in steps),
        loss_values=tuple(8.0 - 0.01 * step for step in steps),
        learning_rates=(1e-4,) * 30,
        grad_norms=(1.0,) * 30,
        lines=(None,) * 30,
    )


def seen_by(python: Path, package: str) -> str:
    """The version of a package that an environment sees."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run(
        [python, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def put_torch_module(python: Path, version: str) -> None:
    """A torch that says of itself what a GPU build says, and can nothing else."""
    (metadata,) = python.parent.parent.glob("lib/*/site-packages/torch-*.dist-info")
    folder = metadata.parent / "torch"
    folder.mkdir()
    stack = "cuda, hip = None, '7.1'" if "rocm" in version else "cuda, hip = '12.8', None"
    (folder / "__init__.py").write_text(f"__version__ = {version!r}\nfrom torch import version\n")
    (folder / "version.py").write_text(f"{stack}\n")


def report_of(*requirements: str) -> dict:
    """The form in which pip reports what it would install."""
    packages = [requirement.split("==") for requirement in requirements]
    return {
        "install": [
            {
                "metadata": {"name": name, "version": version},
                "download_info": {"url": f"https://example.org/{name}-{version}-py3-none-any.whl"},
            }
            for name, version in packages
        ]
    }


def stub_wheel(folder: Path, name: str, version: str) -> Path:
    """A wheel with nothing in it but its metadata."""
    folder.mkdir(parents=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/RECORD", f"{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return wheel
