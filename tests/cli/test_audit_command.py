"""tprimat audit: its screen, exit status and JSON."""

from __future__ import annotations

import json

import pytest

from tprimat.cli import run

HEADER = (
    "| Model | GPU | Precision | #-GPUs | GBS | Sequence Length | Tokens / sec / GPU | TFLOP / sec"
    " / GPU |\n|--|--|\n"
)
GOOD = "| LLAMA3_8B | DGX-H100 | FP8 | 8 | 128 | 8192 | 14451 | 744 |\n"
MODELS = (
    "LLAMA3_8B",
    "LLAMA3_70B",
    "Qwen3_30B_a3B",
    "Qwen3 8B",
    "DeepSeekV3",
    "GPT OSS 120B",
    "Mixtral 8x7B",
    "Qwen3 32B",
)
BAD = "".join(
    f"| {model} | DGX-H100 | FP8 | 8 | 128 | 8192 | {14461 + i} | 5 |\n"
    for i, model in enumerate(MODELS)
)


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def write(text: str) -> str:
        (tmp_path / "page.md").write_text(HEADER + text)
        return str(tmp_path / "page.md")

    return write


def test_a_sound_table(page, capsys):
    assert run("audit", [page(GOOD)]) == 0
    assert capsys.readouterr().out == "1 row checked: no contradiction\n"


def test_rows_that_are_only_bounded_are_counted(page, capsys):
    tuned = HEADER.replace("| Model |", "| Model | Task |") + GOOD.replace(
        "LLAMA3_8B |", "LLAMA3_8B | SFT |"
    )
    assert run("audit", [page(f"{GOOD}\n{tuned.replace('744', '700')}")]) == 0
    assert (
        "TFLOP/s of 1 in fine-tuning only bounded, as sequences may be packed"
        in capsys.readouterr().out
    )


def test_contradictions_come_first_on_one_screen(page, capsys):
    assert run("audit", [page(GOOD + BAD)]) == 4
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "8 rows of 9 cannot be right as printed"
    assert lines[1].startswith("- page.md:5 Llama 3.1 70B on DGX-H100: 14,462 tokens/s/GPU is 6,")
    assert any("4 more with --verbose" in line for line in lines)
    assert len(lines) <= 24
    assert run("audit", ["--quiet", page(GOOD + BAD)]) == 4
    assert capsys.readouterr().out == "8 rows of 9 cannot be right as printed\n"
    run("audit", ["--verbose", page(GOOD + BAD)])
    assert "page.md:11" in capsys.readouterr().out


def test_alike_mistakes_are_one_entry(page, capsys):
    row = "| GPT OSS 120B | DGX-B200 | BF16 | 64 | 512 | 4096 | 8213 | 223 |\n"
    assert run("audit", [page(row + row.replace("8213", "16426").replace("223", "446"))]) == 4
    out = capsys.readouterr().out
    assert "page.md:3, 4 GPT-OSS 120B on DGX-B200" in " ".join(out.split())
    assert "two matrices instead of three" in " ".join(out.split())


def test_a_row_that_can_be_right_is_counted_apart_with_both_of_its_causes(page, capsys):
    """Gemma 4 at 25.0 GFLOP per token of its decoder: 1,000 tokens/s with 31.3 TFLOP/s, in steps of
    16 s.
    """
    header = HEADER.replace("| Model |", "| Model | Task | Step Time |")
    row = "| Gemma 4 26B-A4B | SFT | 16.384 s | DGX-H100 | BF16 | 8 | 32 | 4096 | 1000 | 31.3 |\n"
    assert run("audit", [page(f"{BAD}\n{header}{row}")]) == 4
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "8 rows of 9 cannot be right as printed, 1 unverified"
    run("audit", ["--verbose", page(f"\n{header}{row}")])
    out = " ".join(capsys.readouterr().out.split())
    assert "it may include the image and audio encoders (0.55B parameters)" in out
    assert "- a slow step: " in out


def test_json_has_every_finding_with_its_place(page, capsys):
    path = page(GOOD + BAD)
    assert run("audit", ["--json", path]) == 4
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["status"], len(found["found"])) == (9, 4, 8)
    first = found["found"][0]
    assert (first["file"], first["line"], first["model"]) == (path, 4, "LLAMA3_8B")
    assert first["findings"][0]["rule"] == "contradiction"


def test_files_without_figures(page, tmp_path, capsys):
    (tmp_path / "other.md").write_text("no table\n")
    for path in (tmp_path / "other.md", tmp_path / "none.md"):
        assert run("audit", [page(GOOD), str(path)]) == 2
        assert str(path) in capsys.readouterr().err
