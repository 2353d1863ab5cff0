"""Names of hosts, users and places: what leaves a machine has pseudonyms for them, and the values
stay.
"""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from pathlib import Path

import msgspec
import pytest
from stored_runs import notes_of
from test_verify import log_text

import tprimat
from tprimat import cli
from tprimat.log_import import bundle
from tprimat.redaction import INCLUDE_HOST, Names
from tprimat.results.result_file import without_names
from tprimat.results.run import Data, Environment, GpuInfo, Run, Source
from tprimat.store import hosts

PRIVATE = """\
[2026-07-13 21:55:48] [NODE-0(gpu-17.lab.example.com)] [INFO] Loaded config: /shared/home/ada/Primus/.primus.yaml
gpu-17:1234:5678 [0] NCCL INFO NET/IB : Using eth0:10.11.12.13<0>
gpu-18:1234:5678 [1] NCCL INFO NET/IB : Using eth0:10.11.12.14<0>
USER=ada --master_addr gpu-17 --master_port 29500, mail ada.l@example.com, see https://wandb.ai/ada/runs
cache C:\\Users\\ada\\.cache\\hf, link 52:54:00:12:34:56, GPU-01234567-89ab-cdef-0123-456789abcdef
nvidia-cublas-cu12==12.1.3.1, driver 570.86.10.01, torch /usr/lib/python3/torch, tokens/s/GPU 5/10635
"""

CLUSTER = """\
SLURM_JOB_NODELIST=node-[07-08,11],login3 SLURM_SUBMIT_HOST=frontend.cluster.acme.com
[node-08:0] INFO start
node-11: [rank8] INFO start
ada@login3:~/x$ sbatch run.sh
Linux frontend 5.15.0 #1 SMP
login9.cluster.acme.com is up
wandb: Currently logged in as: ada (acme-ai). --wandb-entity acme-ai
SSH_CONNECTION=203.0.113.9 51422 10.0.0.3 22, peer fe80::1ff:fe23:4567:890a, at 12:34:56, std::vector, :::MLLOG
PWD=/home/ada/acme --save s3://acme-bucket/runs/last --load gs://acme-2/x
"""


EITHER_SIDE = [
    # An address, and what only looks like one.
    ("peer 203.0.113.9 is gone", "peer address-1 is gone"),
    ("driver 203.0.113.9 is old", "driver 203.0.113.9 is old"),
    ("listening on 203.0.113.9:29500", "listening on address-1:29500"),
    ("NCCL version 2.13.0.1+cuda12.4", "NCCL version 2.13.0.1+cuda12.4"),
    ("NCCL version 10.13.0.1", "NCCL version 10.13.0.1"),
    ("CUDA 10.2.89.1, cudnn=10.0.0.1, 1.2.3.4", "CUDA 10.2.89.1, cudnn=10.0.0.1, 1.2.3.4"),
    ("from 10.2.89.1 on", "from address-1 on"),
    ("172.15.0.1 172.16.0.1 172.31.0.1 172.32.0.1", "172.15.0.1 address-1 address-2 172.32.0.1"),
    ("127.0.0.1:29500 0.0.0.0:80 255.255.255.0", "127.0.0.1:29500 0.0.0.0:80 255.255.255.0"),
    ("10.2.89 is CUDA, 10.256.0.1 is nothing", "10.2.89 is CUDA, 10.256.0.1 is nothing"),
    ("at 12:34:56 std::vector a::b dead::beef", "at 12:34:56 std::vector a::b dead::beef"),
    ("peer fd00::1 and 2001:db8::5", "peer address-1 and address-2"),
    ("gid fe80:0000:0000:0000:5054:00ff:fe12:3456", "gid address-1"),
    # A user, and what is none.
    ("ada@gpu-17:~/x$ ls", "user-1@node-1:~/x$ ls"),
    (
        "image@sha256:ab, actions/checkout@v4, maj@64",
        "image@sha256:ab, actions/checkout@v4, maj@64",
    ),
    ("mail ada.l@example.com", "mail email-1"),
    ("user: root, user: ubuntu, username=None", "user: root, user: ubuntu, username=None"),
    # A directory, and what is none.
    ('File "/home/ada/x/train.py", line 3', 'File "train.py", line 3'),
    ('File "/usr/lib/python3/x.py", line 3', 'File "/usr/lib/python3/x.py", line 3'),
    ("cd /home/ada; cd /Users/ada", "cd ~; cd ~"),
    ("--load s3://bucket/a/b", "--load b"),
    (
        "https://example.com/a/b 12/34/56 tokens/s/GPU </s> a/b/c",
        "https://example.com/a/b 12/34/56 tokens/s/GPU </s> a/b/c",
    ),
    # Launchers.
    ("srun: error: gpu-17: task 3: Killed", "srun: error: node-1: task 3: Killed"),
    ("*** STEP 12.0 ON gpu-17 CANCELLED AT", "*** STEP 12.0 ON node-1 CANCELLED AT"),
    ("  host      : gpu-17.lab\n", "  host      : node-1\n"),
    ("failed to connect to [gpu-17]:29500", "failed to connect to [node-1]:29500"),
    (
        "hostname resolution failed, localhost, hostname: localhost",
        "hostname resolution failed, localhost, hostname: localhost",
    ),
]


def replaced(text: str) -> str:
    numbers: dict[str, str] = {}
    names = Names(
        lambda name: (
            name
            if name.startswith("node-")
            else numbers.setdefault(name, f"node-{len(numbers) + 1}")
        )
    )
    names.learn(text)
    return names.text(text)


def bundled(folder, *options, text=""):
    log = folder / "ada_train.log"
    log.write_text(text or PRIVATE + log_text())
    path = folder / "mine.tar.gz"
    arguments = [
        "--log-file",
        str(log),
        "--output-dir",
        str(folder / "output"),
        "--bundle",
        str(path),
        "--gpu",
        "H200",
    ]
    return path, cli.run("extract-primus", [*arguments, "--model-name", "llama3.1_8B", *options])


def contents(path):
    with tarfile.open(path) as archive:
        members = {each.name: archive.extractfile(each).read() for each in archive}
    return {
        name: (gzip.decompress(each) if name.endswith(".gz") else each).decode() + name
        for name, each in members.items()
    }


PRIVATE_WORDS = ("gpu-17", "gpu-18", "lab.example.com", "ada", "10.11.12", "52:54", "89ab")


class TestBundle:
    def test_names_are_gone(self, tmp_path):
        path, status = bundled(tmp_path)
        assert status == 0
        found = contents(path)
        assert not [
            (name, each) for name, text in found.items() for each in PRIVATE_WORDS if each in text
        ]
        readme = next(text for name, text in found.items() if "README" in name)
        counted = readme.split("Names replaced: ")[1].split(".\n")[0].split(", ")
        assert {
            "2 hosts",
            "1 user",
            "2 IP addresses",
            "1 e-mail address",
            "1 device",
            "1 MAC address",
        } < set(counted)

    def test_the_result_and_the_log_have_the_same_pseudonym(self, tmp_path):
        path, _ = bundled(tmp_path)
        found = contents(path)
        result = json.loads(
            next(text for name, text in found.items() if "/results/" in name).rpartition("}")[0]
            + "}"
        )
        assert result["environment"]["hostname"] == "node-1"
        log = next(text for name, text in found.items() if "/logs/" in name)
        assert "[NODE-0(node-1)]" in log
        assert "node-1:1234:5678 [0] NCCL" in log
        assert "node-2:1234:5678 [1] NCCL" in log

    def test_a_cluster_s_names_are_gone(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "acme-runs").mkdir()
        log = Path("acme-runs", "train_node-07.log")
        log.write_text(
            CLUSTER + "WANDB_API_KEY=0123456789abcdef0123 MY_PASSWORD=hunter2\n" + log_text()
        )
        arguments = [
            "--log-file",
            str(log),
            "--bundle",
            "mine.zip.tar.gz",
            "--model-name",
            "llama3.1_8B",
        ]
        assert cli.run("extract-primus", [*arguments, "--gpu", "H200"]) == 0
        private = (
            "node-0",
            "node-11",
            "login",
            "frontend",
            "acme-ai",
            "acme.com",
            "ada",
            "203.0",
            "fe80",
            "hunter2",
        )
        found = contents(tmp_path / "mine.zip.tar.gz")
        assert not [
            (name, each) for name, text in found.items() for each in private if each in text
        ]
        log = next(text for name, text in found.items() if "/logs/" in name)
        assert "at 12:34:56, std::vector, :::MLLOG" in log
        assert cli.run("verify", ["mine.zip.tar.gz"]) == 0

    def test_the_bundle_still_verifies(self, tmp_path, capsys):
        path, _ = bundled(tmp_path)
        assert cli.run("verify", [str(path)]) == 0
        assert capsys.readouterr().out.endswith(
            "recomputed; plausible, no private data, no executable files.\n"
        )

    def test_with_include_host_names_stay(self, tmp_path, monkeypatch):
        monkeypatch.setenv(INCLUDE_HOST, "")
        path, _ = bundled(tmp_path, "--include-host")
        found = contents(path)
        for part in ("/results/", "/logs/"):
            assert "gpu-17.lab.example.com" in next(
                text for name, text in found.items() if part in name
            )
        assert "Names replaced: nothing (--include-host)." in next(
            text for name, text in found.items() if "README" in name
        )

    def test_an_older_result_is_written_anew_in_the_bundle_alone(self, tmp_path, monkeypatch):
        monkeypatch.setenv(INCLUDE_HOST, "1")
        _, status = bundled(tmp_path)
        monkeypatch.setenv(INCLUDE_HOST, "")
        (result,) = (tmp_path / "output").glob("*.json")
        before = result.read_bytes()
        assert status == 0
        assert b"gpu-17.lab.example.com" in before
        bundle.write(tmp_path / "b.tar.gz", [result], [tmp_path / "ada_train.log"])
        found = contents(tmp_path / "b.tar.gz")
        assert not [
            (name, each) for name, text in found.items() for each in PRIVATE_WORDS if each in text
        ]
        assert result.read_bytes() == before

    def test_a_host_with_the_name_of_a_label_keeps_the_log_whole(self, tmp_path, capsys):
        text = "--master_addr iteration\n" + log_text()
        path, status = bundled(tmp_path, text=text)
        assert status == 0
        assert "not in the bundle" not in capsys.readouterr().err
        assert cli.run("verify", [str(path)]) == 0

    def test_a_log_that_reads_otherwise_without_names_is_left_out(self, tmp_path, capsys):
        text = "--master_addr elapsed\n" + log_text()
        path, status = bundled(tmp_path, text=text)
        assert status == 0
        assert "reads otherwise without names; --include-host keeps them" in capsys.readouterr().out
        assert not [name for name in contents(path) if "/logs/" in name]


class TestResults:
    """What is stored, and what is compared and shown of it."""

    def a_log(self, folder: Path, name: str, host: str, milliseconds: float = 1000.0) -> Path:
        log = folder / name
        log.write_text(PRIVATE.replace("gpu-17", host) + log_text(40, milliseconds))
        return log

    def extracted(self, log: Path, output: Path, label: str) -> dict:
        arguments = [
            "--log-file",
            str(log),
            "--output-dir",
            str(output),
            "--gpu",
            "H200",
            "--label",
            label,
        ]
        assert cli.run("extract-primus", [*arguments, "--model-name", "llama3.1_8B"]) == 0
        (result,) = output.glob(f"*{label}*.json")
        assert not [each for each in PRIVATE_WORDS if each in result.read_text()]
        return json.loads(result.read_text())

    def test_a_host_keeps_its_pseudonym_within_a_directory(self, tmp_path):
        one, two = (
            self.a_log(tmp_path, "a.log", "gpu-17"),
            self.a_log(tmp_path, "b.log", "gpu-18", 1100.0),
        )
        output = tmp_path / "output"
        hosts_of = [
            self.extracted(log, output, label)
            for log, label in ((two, "x"), (one, "y"), (two, "z"))
        ]
        assert [each["environment"]["hostname"] for each in hosts_of] == [
            "node-1",
            "node-2",
            "node-1",
        ]
        # Another program, later, knows it too; the file that says so has no name.
        hosts.of_process.cache_clear()
        assert hosts.Hosts(output).known("gpu-17.another.domain") == "node-2"
        assert b"gpu" not in (output / hosts.FILE).read_bytes()

    def test_machines_with_names_like_pseudonyms(self, tmp_path):
        logs = [
            self.a_log(tmp_path, f"{number}.log", f"node-{number}", 900.0 + number)
            for number in (3, 2, 1)
        ]
        found = [self.extracted(log, tmp_path / "o", f"l{index}") for index, log in enumerate(logs)]
        assert [each["environment"]["hostname"] for each in found] == ["node-1", "node-2", "node-3"]

    def test_without_the_file_of_numbers_new_machines_get_others(self, tmp_path):
        output = tmp_path / "output"
        self.extracted(self.a_log(tmp_path, "a.log", "gpu-17"), output, "x")
        (output / hosts.FILE).unlink()
        found = self.extracted(self.a_log(tmp_path, "b.log", "gpu-18", 1100.0), output, "y")
        assert found["environment"]["hostname"] == "node-2"

    def test_reports_and_exports_of_older_results(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv(INCLUDE_HOST, "1")
        for name, host, milliseconds in (("a", "gpu-17", 1000.0), ("b", "gpu-18", 1100.0)):
            log = self.a_log(tmp_path, f"{name}.log", host, milliseconds)
            arguments = [
                "--log-file",
                str(log),
                "--output-dir",
                str(tmp_path / "older"),
                "--gpu",
                "H200",
                "--label",
                name,
            ]
            assert cli.run("extract-primus", [*arguments, "--model-name", "llama3.1_8B"]) == 0
        capsys.readouterr()
        for stay in ("", "1"):
            monkeypatch.setenv(INCLUDE_HOST, stay)
            hosts.of_process.cache_clear()
            to = tmp_path / f"report{stay}"
            status = cli.run(
                "compare",
                [str(tmp_path / "older"), "--results-dir", str(to), "--no-plot", "--json"],
            )
            assert status in (0, 3)
            printed = capsys.readouterr().out
            assert (
                cli.run(
                    "export", [str(tmp_path / "older"), "--csv", str(to / "steps.csv"), "--quiet"]
                )
                == 0
            )
            written = {each.name: each.read_text() for each in to.iterdir()} | {"json": printed}
            assert {"comparison_report.html", "comparison_report.md", "steps.csv"} < written.keys()
            named = [
                (name, each)
                for name, text in written.items()
                for each in PRIVATE_WORDS
                if re.search(rf"\b{each}\b", text)
            ]
            assert bool(named) == bool(stay), named
            if not stay:
                assert "node-1" in written["comparison_report.html"]
                assert str(tmp_path) not in "".join(written.values())

    def test_two_directories_count_on_their_own(self, tmp_path):
        for name, host in (("a", "gpu-17"), ("b", "gpu-18")):
            self.extracted(self.a_log(tmp_path, f"{name}.log", host), tmp_path / name, name)
        found = [run.environment.hostname for run in tprimat.load(tmp_path / "a", tmp_path / "b")]
        assert found == ["a/node-1", "b/node-1"]
        assert [run.environment.hostname for run in tprimat.load(tmp_path / "a")] == ["node-1"]


class TestNames:
    def test_addresses_with_a_name_for_them_and_accounts_on_machines(self):
        text = (
            "MASTER_ADDR=10.1.2.3 --master_addr 198.51.100.7 'addr': '198.51.100.8' --rdzv_endpoint"
            " 198.51.100.9:294\nssh -p 22 grace@198.51.100.10 true; scp x mary@store-7:/data/y; ssh"
            " linus@login2\nSSH_CLIENT=203.0.113.77 5 22, later 203.0.113.77\ntorch==10.2.0.1"
            " pkg-10.1.2.4 driver 570.86.10.01 clip: 1.2.3.4 checkout@v4 pass@1 recall@10\n"
        )
        shown = replaced(text)
        names = ("10.1.2.3 ", "198.51", "203.0", "grace", "mary", "linus", "store-7", "login2")
        assert not [name for name in names if name in shown]
        assert shown.splitlines()[-1] == text.splitlines()[-1]
        first, second = shown.splitlines()[2].removeprefix("SSH_CLIENT=").split(" 5 22, later ")
        assert first == second

    @pytest.mark.parametrize(("text", "shown"), EITHER_SIDE)
    def test_on_either_side(self, text, shown):
        assert replaced(text) == shown
        assert replaced(shown) == shown

    def test_a_host_is_the_same_in_its_short_and_its_full_form(self):
        lines = replaced(PRIVATE).splitlines()
        assert "NODE-0(node-1)" in lines[0]
        assert [line.split(":")[0] for line in lines[1:3]] == ["node-1", "node-2"]
        assert "--master_addr node-1" in lines[3]

    def test_versions_units_and_system_folders_stay(self):
        assert replaced(PRIVATE).splitlines()[5] == PRIVATE.splitlines()[5]

    def test_what_was_trained_on_what_stays(self):
        # A user and a host may have the name of a model or a GPU.
        run = Run(
            model="llama3",
            gpu_info=GpuInfo(device_name="NVIDIA H200"),
            environment=Environment(
                hostname="h200", versions={"nccl": "10.0.0.1"}, cpu="Xeon at 10.0.0.1"
            ),
            notes=notes_of("h200: llama3 and llama3 at 10.0.0.1:80"),
            source=Source(
                kind="live",
                command=(
                    "/home/llama3/bin/python",
                    "--user",
                    "llama3",
                    "--data=/data/x/c4",
                    "--n=1",
                    "/srv/x/y",
                ),
            ),
        )
        names = hosts.names(hosts.Hosts(Path("/nowhere")).number, [run])
        there = msgspec.structs.replace(
            run, model="/home/ada/Llama-3.1-8B", data=Data(kind="/data/x/c4")
        )
        assert (without_names(there, names).model, without_names(there, names).data.kind) == (
            "Llama-3.1-8B",
            "c4",
        )
        found = without_names(run, names)
        assert (found.model, found.gpu_info, found.environment.versions) == (
            run.model,
            run.gpu_info,
            {"nccl": "10.0.0.1"},
        )
        assert found.environment.hostname == "node-1"
        assert found.warnings == ("h200: llama3 and llama3 at address-1:80",)
        assert found.source.command == ("python", "--user", "llama3", "--data=c4", "--n=1", "y")

    def test_paths_below_the_working_directory(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        names = Names(str)
        assert names.path(f"{tmp_path}/.venv/bin/python") == ".venv/bin/python"
        assert names.path(f"--out={tmp_path}/x/y") == "--out=x/y"
        assert names.text(f"see {tmp_path}/x/y.log") in ("see x/y.log", f"see {tmp_path}/x/y.log")

    def test_time_is_linear_in_the_text(self):
        for mark in (
            "a@",
            "/a",
            "::",
            "f::",
            "1:",
            "10.",
            "user: ",
            "a" * 50 + "@",
            "a-[",
            "a:\\",
            "\\users\\",
            "file:///a",
        ):
            assert Names(str).text(mark * 20_000) is not None
