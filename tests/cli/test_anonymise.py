"""--anonymise: pseudonyms for hosts, users and paths in a bundle, whose values stay."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

from test_verify import log_text

from tprimat import cli
from tprimat.log_import.anonymise import Pseudonyms

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


def bundled(folder, *options, text=""):
    log = folder / "ada_train.log"
    log.write_text(text or PRIVATE + log_text())
    path = folder / "mine.tar.gz"
    arguments = ["--log-file", str(log), "--output-dir", str(folder / "output"), "--bundle", str(path), "--gpu", "H200"]
    return path, cli.run("extract-primus", [*arguments, "--model-name", "llama3.1_8B", *options])


def contents(path):
    with tarfile.open(path) as archive:
        members = {each.name: archive.extractfile(each).read() for each in archive}
    return {
        name: (gzip.decompress(each) if name.endswith(".gz") else each).decode() + name
        for name, each in members.items()
    }


class TestBundle:
    def test_names_are_gone(self, tmp_path):
        path, status = bundled(tmp_path, "--anonymise")
        assert status == 0
        private = ("gpu-17", "gpu-18", "lab.example.com", "ada", "10.11.12", "52:54", "89ab")
        assert not [name for name, content in contents(path).items() for each in private if each in content]

    def test_a_cluster_s_names_are_gone(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "acme-runs").mkdir()
        log = Path("acme-runs", "train_node-07.log")
        log.write_text(CLUSTER + "WANDB_API_KEY=0123456789abcdef0123 MY_PASSWORD=hunter2\n" + log_text())
        arguments = [
            "--log-file",
            str(log),
            "--bundle",
            "mine.zip.tar.gz",
            "--anonymise",
            "--model-name",
            "llama3.1_8B",
        ]
        assert cli.run("extract-primus", [*arguments, "--gpu", "H200"]) == 0
        private = ("node-", "login", "frontend", "acme", "ada", "203.0", "fe80", "0123456789", "hunter2")
        found = contents(tmp_path / "mine.zip.tar.gz")
        assert not [(name, each) for name, text in found.items() for each in private if each in text]
        log = next(text for name, text in found.items() if "/logs/" in name)
        assert "at 12:34:56, std::vector, :::MLLOG" in log
        assert cli.run("verify", ["mine.zip.tar.gz"]) == 0

    def test_the_bundle_still_verifies(self, tmp_path, capsys):
        path, _ = bundled(tmp_path, "--anonymise")
        note = capsys.readouterr().out.split("replaced: ")[1].split(". Check")[0]
        assert {"2 hosts", "1 user", "2 IP addresses", "1 e-mail address", "1 device"} < set(note.split(", "))
        assert cli.run("verify", [str(path)]) == 0
        assert capsys.readouterr().out.endswith("recomputed.\n")

    def test_without_the_option_names_stay(self, tmp_path):
        path, _ = bundled(tmp_path)
        assert any("gpu-17.lab.example.com" in content for content in contents(path).values())

    def test_a_host_with_the_name_of_a_label(self, tmp_path, capsys):
        text = "--master_addr iteration\n" + log_text()
        assert bundled(tmp_path, "--anonymise", text=text)[1] == 2
        assert "would no longer give the same values" in capsys.readouterr().err

    def test_without_a_bundle(self, tmp_path, capsys):
        assert cli.run("extract-primus", ["--log-file", "any.log", "--anonymise"]) == 2
        assert "--anonymise needs --bundle FILE\nhint:  add --bundle" in capsys.readouterr().err


class TestPseudonyms:
    def test_addresses_with_a_name_for_them_and_accounts_on_machines(self):
        text = (
            "MASTER_ADDR=10.1.2.3 --master_addr 198.51.100.7 'addr': '198.51.100.8' --rdzv_endpoint 198.51.100.9:294\n"
            "ssh -p 22 grace@198.51.100.10 true; scp x mary@store-7:/data/y; ssh linus@login2\n"
            "SSH_CLIENT=203.0.113.77 5 22, later 203.0.113.77\n"
            "torch==10.2.0.1 pkg-10.1.2.4 driver 570.86.10.01 clip: 1.2.3.4 checkout@v4 pass@1 recall@10\n"
        )
        shown = Pseudonyms([text]).text(text)
        names = ("10.1.2.3 ", "198.51", "203.0", "grace", "mary", "linus", "store-7", "login2")
        assert not [name for name in names if name in shown]
        assert shown.splitlines()[-1] == text.splitlines()[-1]
        assert shown.splitlines()[2] == "SSH_CLIENT=address-5 5 22, later address-5"

    def test_the_host_and_the_paths_of_a_result(self):
        result = b'{"environment": {"hostname": "gpu-17"}, "source": {"files": [{"path": "runs/ada/x.log"}], '
        result += b'"command": ["/home/ada/venv/bin/python", "/srv/ada/train.py"]}}'
        shown = Pseudonyms([result.decode()]).json(result)
        assert not [name for name in (b"gpu-17", b"ada", b"/home", b"/srv") if name in shown]

    def test_a_host_is_the_same_in_its_short_and_its_full_form(self):
        names = Pseudonyms([PRIVATE])
        lines = names.text(PRIVATE).splitlines()
        assert "NODE-0(host-1)" in lines[0]
        assert [line.split(":")[0] for line in lines[1:3]] == ["host-1", "host-2"]
        assert "--master_addr host-1" in lines[3]

    def test_versions_units_and_system_folders_stay(self):
        assert Pseudonyms([PRIVATE]).text(PRIVATE).splitlines()[5] == PRIVATE.splitlines()[5]

    def test_a_host_that_json_leaves_open(self):
        assert Pseudonyms(['{"hostname": null}']).json(b'{"hostname": null, "loss": 1.50}') == (
            b'{\n  "hostname": null,\n  "loss": 1.5\n}\n'
        )

    def test_bytes_that_are_no_utf_8_stay(self):
        assert Pseudonyms(["/home/ada/x"]).log(b"ada \xff\xfe") == b"user-1 \xff\xfe"
