"""Where logs are found, and why; and which files are skipped."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest

from tprimat.catalog import models
from tprimat.errors import UnreadableError
from tprimat.log_import import find_logs

MODELS = models.names()
SHAPES = {"llama": (32, 4096, 14336, 32, 8, 128256), "qwen": (28, 3584, 18944, 28, 4, 152064),
          "llama2_7B": (32, 4096, 11008, 32, 32, 32000)}  # fmt: skip


def log(model: str | None, *, steps: int = 4, name: str | None = None, batch: int = 128) -> str:
    """A log of a made-up training: an argument dump, and iteration lines."""
    lines = ["Requirement already satisfied: torch"] * 30
    if model is not None:
        layers, hidden, wide, heads, groups, vocabulary = SHAPES[model]
        lines += (
            [
                "[NODE-0(host)] [INFO] EXP:"
                f" examples/megatron/configs/MI300X/{name}-BF16-pretrain.yaml"
            ]
            if name
            else []
        )
        dump = {"num_layers": layers, "hidden_size": hidden, "ffn_hidden_size": wide, "num_attention_heads": heads,
                "num_query_groups": groups, "padded_vocab_size": vocabulary, "swiglu": True}  # fmt: skip
        lines += [f"  {key} {'.' * (48 - len(key))} {value}" for key, value in dump.items()]
    lines += [
        f"[2026-05-11 03:00:{i:02d}] iteration {i:8d}/{steps:8d} | consumed samples: {i * batch} |"
        f" elapsed time per iteration (ms): 1500.{i} | learning rate: 1.0E-05 | global batch size:"
        f" {batch:5d} | lm loss: 1.1{i}E+01 | "
        for i in range(1, steps + 1)
    ]
    return "\n".join(lines) + "\n"


def put(path: Path, text: str, age_s: float = 0.0) -> Path:
    """Writes a file that is some seconds old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    moment = 1_790_000_000 - age_s
    os.utime(path, (moment, moment))
    return path


def search(where: Path | dict[Path, bool], environ: dict[str, str] | None = None, wanted=MODELS):
    folders = {where: False} if isinstance(where, Path) else where
    return find_logs.search(wanted, folders, environ or {})


def by_model(found: find_logs.Search) -> dict[str, find_logs.LocalLog]:
    return {each.model: each for each in found.logs}


class TestByVariable:
    def test_goes_before_all_else(self, tmp_path):
        put(tmp_path / "training_llama.log", log("llama"))
        named = put(tmp_path / "elsewhere" / "x.bin", log("llama", name="llama3.1_8B"))
        found = by_model(search(tmp_path, {"LLAMA_LOG": str(named)}))["llama"]
        assert (found.path, found.why, found.stated) == (named, "LLAMA_LOG", "llama")

    def test_a_name_of_nothing_is_an_error(self, tmp_path):
        with pytest.raises(UnreadableError, match=r"QWEN_LOG=/none: no such file"):
            search(tmp_path, {"QWEN_LOG": "/none"})

    def test_every_model_has_one(self):
        assert [find_logs.variable(name) for name in models.names()] == [
            "LLAMA_LOG",
            "QWEN_LOG",
            "MISTRAL_LOG",
        ]


class TestByName:
    @pytest.mark.parametrize(
        "name",
        ["training_llama.log", "primus_training_llama_20260511.log", "my-llama-run.txt", "Llama.LOG",
         "training_llama.log.gz", "primus_llama.txt.gz"],
    )  # fmt: skip
    def test_names_that_count(self, tmp_path, name):
        path = put(tmp_path / name, log("llama"))
        assert by_model(search(tmp_path))["llama"].path == path

    @pytest.mark.parametrize(
        "name", ["llama.yaml", "llama.log.bak", "llama", "benchmark_rocm_llama.json"]
    )
    def test_names_that_do_not(self, tmp_path, name):
        put(tmp_path / name, log("llama"))
        assert search(tmp_path).logs == ()

    def test_the_newest_counts_and_the_others_are_said(self, tmp_path):
        put(tmp_path / "training_llama.log", log("llama"), 5000)
        newest = put(tmp_path / "primus_llama_2.log", log("llama"), 10)
        put(tmp_path / "primus_llama_1.log", log("llama"), 900)
        found = search(tmp_path)
        assert by_model(found)["llama"].path == newest
        assert found.skipped == ("2 older files with llama in the name",)

    def test_of_two_copies_the_usual_name(self, tmp_path):
        put(tmp_path / "primus_training_llama_1.log", log("llama"), 10)
        usual = put(tmp_path / "training_llama.log", log("llama"), 10)
        assert by_model(search(tmp_path))["llama"].path == usual

    def test_what_it_holds_decides_over_its_name(self, tmp_path):
        put(tmp_path / "training_llama.log", log("qwen", name="qwen2.5_7B"))
        older = put(tmp_path / "llama_old.log", log("llama", name="llama3.1_8B"), 500)
        found = search(tmp_path, wanted=("llama",))
        assert by_model(found)["llama"].path == older
        assert "named llama, but a qwen run" in found.skipped[0]

    def test_a_relative_of_the_model_is_one_of_the_family(self, tmp_path):
        put(tmp_path / "training_llama.log", log("llama2_7B", name="llama2_7B"))
        assert by_model(search(tmp_path))["llama"].stated == "llama-2-7b"
        assert not find_logs.belongs("mixtral_8x7B_v0.1", "mistral")

    def test_the_model_itself_goes_before_a_newer_relative(self, tmp_path):
        relative = put(tmp_path / "training_llama.log", log("llama2_7B", name="llama2_7B"))
        itself = put(tmp_path / "llama_old.log", log("llama", name="llama3.1_8B"), 500)
        found = search(tmp_path)
        assert by_model(found)["llama"].path == itself
        assert found.skipped == (f"{relative}: a llama-2-7b run, not llama",)

    def test_by_content_too(self, tmp_path):
        put(tmp_path / "b.log", log("llama2_7B", name="llama2_7B"))
        itself = put(tmp_path / "a.log", log("llama", name="llama3.1_8B"), 500)
        assert by_model(search(tmp_path))["llama"].path == itself

    def test_a_log_that_does_not_say_its_model_is_taken_by_its_name(self, tmp_path):
        put(tmp_path / "training_mistral.log", log(None))
        found = by_model(search(tmp_path))["mistral"]
        assert (found.stated, found.why) == (None, "its name (no model in the log)")

    def test_other_files_are_passed_over(self, tmp_path):
        put(tmp_path / "llama_notes.txt", "llama is a fine model\n")
        found = search(tmp_path)
        assert found.logs == ()
        assert "not a training log" in found.skipped[0]


class TestByContent:
    def test_the_models_shape_tells(self, tmp_path):
        path = put(tmp_path / "run17.log", log("qwen", name="qwen2.5_7B"))
        put(tmp_path / "requirements.txt", "torch\n")
        found = by_model(search(tmp_path))
        assert list(found) == ["qwen"]
        assert (found["qwen"].path, found["qwen"].why) == (path, "the model in the log")

    def test_a_word_in_the_file_does_not(self, tmp_path):
        put(tmp_path / "run17.log", "loading llama from qwen\n" + log(None))
        found = search(tmp_path)
        assert found.logs == ()
        assert "does not state its model" in found.skipped[0]

    def test_is_only_looked_for_when_no_name_fits(self, tmp_path):
        named = put(tmp_path / "training_llama.log", log("llama"), 500)
        put(tmp_path / "run17.log", log("llama", name="llama3.1_8B"))
        assert by_model(search(tmp_path))["llama"].path == named

    def test_another_model_is_said(self, tmp_path):
        put(tmp_path / "run17.log", log("llama2_7B", name="llama2_7B"))
        found = search(tmp_path, wanted=("qwen",))
        assert found.logs == ()
        assert "a llama-2-7b run" in found.skipped[0]

    def test_one_log_of_each_model(self, tmp_path):
        put(tmp_path / "a.log", log("llama", name="llama3.1_8B"), 50)
        newer = put(tmp_path / "b.log", log("llama", name="llama3.1_8B"), 10)
        other = put(tmp_path / "c.txt", log("qwen", name="qwen2.5_7B"), 90)
        found = by_model(search(tmp_path))
        assert {model: each.path for model, each in found.items()} == {
            "llama": newer,
            "qwen": other,
        }


class TestFolders:
    def test_where_is_looked(self, tmp_path):
        where = find_logs.folders(
            Path("/here"), Path("/here/output"), Path("/clone"), {"PRIMUS_PATH": "/p"}
        )
        paths = [str(folder) for folder in where]
        assert paths == [
            "/here", "/here/output", "/here/logs", "/clone", "/clone/output", "/clone/logs",
            "/p", "/p/output", "/p/logs",
            "/workspace/Primus", "/workspace/Primus/output", "/workspace/Primus/logs",
            "/workspace/tprimat", "/workspace/tprimat/output", "/workspace/tprimat/logs",
        ]  # fmt: skip

    def test_primus_own_output_is_searched_deeply_without_the_logs_of_single_ranks(self, tmp_path):
        experiment = tmp_path / "output/amd/root/llama3.1_8B-pretrain"
        path = put(experiment / "train.log", log("llama", name="llama3.1_8B"), 60)
        put(experiment / "logs/pre_trainer/rank-7/debug.log", log("llama", name="llama3.1_8B"))
        found = search({tmp_path: False, tmp_path / "output": True})
        assert by_model(found)["llama"].path == path

    def test_others_are_not(self, tmp_path):
        put(tmp_path / "below" / "training_llama.log", log("llama"))
        assert search(tmp_path).logs == ()

    def test_what_is_not_there_was_not_searched(self, tmp_path):
        found = search({tmp_path: False, tmp_path / "none": False})
        assert found.looked_in == (tmp_path,)

    @pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
    def test_a_file_is_found_once_and_links_in_a_circle_end(self, tmp_path):
        put(tmp_path / "output" / "training_llama.log", log("llama"))
        (tmp_path / "output" / "again").symlink_to(tmp_path / "output")
        found = search({tmp_path / "output": True, tmp_path / "output" / "again": True})
        assert len(found.logs) == 1
        assert found.skipped == ()


class TestRealLogs:
    def test_by_content_under_meaningless_names(self, samples, tmp_path):
        """Real logs: a Llama 3.1 8B is found; a smaller Llama, a DeepSeek are not taken for it."""
        for number, name in enumerate(
            ("megatron_light_llama31_8B_bf16_50it.log", "megatron_core_dsv4_ep8_mi355x_10it.log")
        ):
            shutil.copyfile(samples / "primus" / name, tmp_path / f"run{number}.log")
        found = by_model(search(tmp_path))
        assert list(found) == ["llama"]
        assert found["llama"].path == tmp_path / "run0.log"

    def test_a_log_of_another_model_under_a_wrong_name(self, samples, tmp_path):
        shutil.copyfile(
            samples / "primus" / "megatron_core_dsv4_ep8_mi355x_10it.log",
            tmp_path / "training_qwen.log",
        )
        found = search(tmp_path)
        assert found.logs == ()
        assert "named qwen" in found.skipped[0]
