"""What tools/record_golden.py runs: the command lines of each golden file, and the runs made up for
them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Case = dict[str, Any]
"""See main() in golden_worker.py; "name" is its key in the golden file, "machine" where it runs
(default: none).
"""

THOROUGH = ("none", "H100", "MI300X")
"""GPUS on which more options, and all models of each framework, are tried."""
GPUS = ("none", "H100", "B200", "RTX 4090", "MI300X", "MI355X")
FRAMEWORKS = ("nemo", "lightning", "transformers", "fsdp", "deepspeed-zero1", "deepspeed-zero2", "deepspeed-zero3",
              "megatron", "torchtitan", "primus")  # fmt: skip
PRECISIONS = ("fp32", "bf16", "fp16", "fp8")

FURTHER = (
    "", "--framework all", "--framework deepspeed", "--framework fsdp,lightning --model qwen",
    "--scale tiny --gpus 1 --model mistral", "--model llama --scale full",
    "--model llama --precision bf16,fp16 --runs 3",
    "--model llama --micro-batch-size 1 --global-batch-size 16 --sequence-length 1024 --seed 7 --steps 30",
    "--framework nemo --model llama --preset recipe", "--framework nemo --model llama --preset classic",
    "--framework nemo --model llama --tp 2 --pp 2 --cp 1 --global-batch-size 64 --data tokens",
    "--framework nemo --model llama --set trainer.strategy.sequence_parallel=true --profile torch",
    "--framework nemo --model llama --executor slurm --account us --partition gpu --nodes 2 --gpu H100 --dry-run",
    "--framework megatron-bridge", "--framework megatron-bridge --model llama --gpu GB200 --precision nvfp4",
    "--framework megatron --model qwen --gpus 1 --steps 20", "--framework torchtitan --model llama --gpus 1",
    "--framework primus --model llama --global-batch-size 64", "--model llama --profile torch --scale small",
    "--model llama --match match.json --framework lightning", "--model llama --match match.json --framework nemo",
    "--model llama --time-limit 90s --cooldown 5 --label mine --output-dir elsewhere --json",
    "--model qwen --verbose", "--model qwen --quiet",
    "--model encdec", "--model encdec --bf16", "--model encdec --no-amp --single", "--model encdec --precision fp16",
    "--model encdec --disk --num-shards 4 --workers 2 --drop-caches", "--model encdec --full --gpus 2 --runs 3",
    "--model encdec --d-model 256 --nhead 8 --epochs 2 --warmup-epochs 0 --json",
)  # fmt: skip


def dry_runs() -> Iterator[Case]:
    """Yield every framework on every GPU in every precision, and what else changes a command."""
    for gpu in GPUS:
        for framework in FRAMEWORKS:
            for precision in (None, *PRECISIONS) if framework != "deepspeed-zero2" else (None,):
                # With no precision all models are shown, with one the first alone.
                words = f"--framework {framework}" + (
                    f" --model llama --precision {precision}" if precision else ""
                )
                if gpu not in THOROUGH and precision is None:
                    words += " --model llama"
                yield _dry_run(gpu, words)
        for words in FURTHER if gpu in THOROUGH else FURTHER[:1]:
            yield _dry_run(gpu, words)
        for precision in ("bf16", "fp8", "mxfp8", "mxfp4", "fp32"):
            yield _case(
                f"{gpu} run-primus",
                "tprimat",
                "run-primus",
                "--dry-run",
                "--precision",
                precision,
                machine=gpu,
            )
        for model in ("llama", "qwen", "mistral"):
            yield _case(
                f"{gpu} run-primus",
                "tprimat",
                "run-primus",
                "--dry-run",
                "--model",
                model,
                machine=gpu,
            )
            line = (f"pretrain_{model}.py", "--dry-run")
            yield _case(f"{gpu} pretrain", *line, machine=gpu)
        yield _case(f"{gpu} primus-config", "tprimat", "primus-config", "--verbose", machine=gpu)
    for words in ("", "--framework all", "--framework nemo --model llama"):
        yield _dry_run("H100 with NeMo", words)
    for gpu in ("none bare", "H100 bare", "MI300X bare"):
        for framework in (None, *FRAMEWORKS, "all"):
            yield _dry_run(gpu, f"--framework {framework}" if framework else "")
            if framework:
                yield _case(gpu, "benchmark.py", "--framework", framework, machine=gpu)
    for gpu in ("H100 held", "MI300X held"):
        yield _dry_run(gpu, "--model llama")


def machines() -> Iterator[Case]:
    """Yield doctor and gpu-memory on each machine."""
    for gpu in (
        *GPUS,
        "H100 with NeMo",
        "none bare",
        "H100 bare",
        "MI300X bare",
        "H100 held",
        "MI300X held",
    ):
        yield _case(gpu, "tprimat", "doctor", "--json", machine=gpu)
        yield _case(gpu, "tprimat", "gpu-memory", "--json", machine=gpu)
        yield _case(gpu, "tprimat", "gpu-memory", machine=gpu)


COMMANDS = ("benchmark", "compare", "compare-frameworks", "convert", "doctor", "enhanced-metrics", "extract-primus",
            "gpu-memory", "nvd-compare", "primus-config", "read", "run-primus")  # fmt: skip
SCRIPTS = ("benchmark.py", "compare_results.py", "enhanced_metrics.py", "extract_primus_metrics.py",
           "pretrain_llama.py",
           "pretrain_mistral.py", "pretrain_qwen.py", "scripts/analyze_existing_logs.py", "scripts/compare.py",
           "scripts/compare_with_enhanced_metrics.py", "scripts/convert_llama.py", "scripts/convert_mistral.py",
           "scripts/convert_qwen.py", "scripts/nvd_compare.py")  # fmt: skip
WRONG = (
    ("tprimat",), ("tprimat", "--version"), ("tprimat", "--help"), ("tprimat", "no-such-command"),
    *(("tprimat", command, "--no-such-option") for command in COMMANDS),
    *(("tprimat", command, "--quiet", "--json") for command in COMMANDS),
    ("tprimat", "benchmark", "--model", "lama"), ("tprimat", "benchmark", "--model", "nothing-alike"),
    ("tprimat", "benchmark", "--precision", "fp17"), ("tprimat", "benchmark", "--steps", "0"),
    ("tprimat", "benchmark", "--steps", "many"), ("tprimat", "benchmark", "--time-limit", "soon"),
    ("tprimat", "benchmark", "--cooldown", "-1"), ("tprimat", "benchmark", "--runs", "-3"),
    ("tprimat", "benchmark", "--gpus", "0"), ("tprimat", "benchmark", "--framework", "no-such", "--dry-run"),
    ("tprimat", "benchmark", "--framework", "all,lightning", "--dry-run"),
    ("tprimat", "benchmark", "--scale", "huge", "--dry-run"), ("tprimat", "benchmark", "--label", " ", "--dry-run"),
    ("tprimat", "benchmark", "--match", "missing.json", "--dry-run"),
    ("tprimat", "benchmark", "--match", "match.json", "--scale", "tiny", "--dry-run"),
    ("tprimat", "benchmark", "--match", "match.json", "--model", "qwen", "--dry-run"),
    ("tprimat", "benchmark", "--profile", "perf", "--dry-run"),
    ("tprimat", "benchmark", "--bundle", "x.rar", "--dry-run"),
    ("tprimat", "benchmark", "--tp", "2", "--framework", "lightning", "--dry-run"),
    ("tprimat", "benchmark", "--executor", "slurm", "--nodes", "3", "--gpus", "8", "--dry-run"),
    ("tprimat", "benchmark", "--mod", "llama", "--dry-run"),
    ("tprimat", "benchmark", "--model", "encdec", "--nhead", "5"), ("tprimat", "benchmark", "--model", "encdec,llama"),
    ("tprimat", "benchmark", "--model", "encdec", "--bf16", "--no-amp"),
    ("tprimat", "benchmark", "--model", "encdec", "--single", "--gpus", "4", "--dry-run"),
    ("tprimat", "benchmark", "--model", "encdec", "--vocab-size", "1"),
    ("tprimat", "compare", "missing.json"), ("tprimat", "compare", "match.json", "--output", "plot.docx"),
    ("tprimat", "compare", "match.json", "--mode", "same"), ("tprimat", "compare", "match.json", "--cost", "cheap"),
    ("tprimat", "compare", "--allow-slower", "x", "--baseline", "match.json", "--candidate", "match.json"),
    ("tprimat", "compare", "--baseline", "match.json"), ("tprimat", "compare", "match.json", "--reference", "nobody"),
    ("tprimat", "compare", "broken.json"), ("tprimat", "compare", "match.json", "--model", "gpt"),
    ("tprimat", "compare", "--results-dir", "empty"), ("tprimat", "enhanced-metrics", "missing.json"),
    ("tprimat", "compare-frameworks", "--results-dir", "missing"),
    ("tprimat", "compare-frameworks", "--frameworks", "x"),
    ("tprimat", "nvd-compare", "--results-dir", "empty"), ("tprimat", "read"), ("tprimat", "read", "missing.log"),
    ("tprimat", "read", "prose.log"), ("tprimat", "extract-primus"),
    ("tprimat", "extract-primus", "--log-file", "missing.log"),
    ("tprimat", "extract-primus", "--log-file", "prose.log"),
    ("tprimat", "extract-primus", "--log-file", "prose.log", "--num-gpus", "0"), ("tprimat", "convert", "import", "a"),
    ("tprimat", "convert", "import", "missing", "b"), ("tprimat", "primus-config", "missing.yaml"),
    ("tprimat", "run-primus", "--model", "mistral", "--dry-run"), ("tprimat", "run-primus", "--train-iters", "0"),
    ("tprimat", "run-primus", "--launcher", "none", "--dry-run"), ("tprimat", "gpu-memory", "--yes"),
)  # fmt: skip


def options() -> Iterator[Case]:
    """Yield all options of all commands as argparse holds them, their help, and what wrong usage
    leads to.
    """
    lines = [("tprimat", command) for command in COMMANDS] + [(script,) for script in SCRIPTS]
    for line in [*lines, ("tprimat", "benchmark", "--model", "encdec")]:
        yield {**_case("options", *line), "options": True}
        if line[0] == "tprimat":
            yield _case("help", *line, "--help")
            if line[1] in ("benchmark", "compare"):
                yield _case("help", *line, "--help", "--verbose")
    for line in WRONG:
        yield {**_case("wrong usage", *line), "files": FILES}


def logs(below: Path, link: str, *, every: int = 1) -> Iterator[Case]:
    """Yield one case for each log or metric file of a directory, and one for each directory read as
    a whole.

    Args:
        below: the directory; its own directories hold the logs.
        link: what the directory is called where the command runs.
        every: one in so many files by size, and no directory as a whole.
    """
    files = [path for path in below.rglob("*") if path.is_file() and is_log(path)]
    ordered = sorted(
        files, key=lambda path: (path.stat().st_size, path.relative_to(below).as_posix())
    )
    for path in sorted(ordered[::every]):
        name = path.relative_to(below).as_posix()
        line = ("tprimat", "read", f"{link}/{name}", "--output-dir", "out", "--json")
        # Of the repetitions of one benchmark the first is kept in full, of the others the hashes.
        brief = re.search(r"_r0*[1-9]\d*\.txt$", name) is not None
        yield {**_case("files", *line), "name": f"{name} read", "collect": "out", "brief": brief}
        if name.startswith(("primus/", "megatron/")) or "/" not in name:
            line = (
                "tprimat",
                "extract-primus",
                "--log-file",
                f"{link}/{name}",
                "--output-dir",
                "out",
                "--json",
            )
            yield {**_case("files", *line), "name": f"{name} extract-primus", "collect": "out"}
            told = "--num-gpus 8 --global-batch-size 64 --sequence-length 4096 --model-name llama"
            yield {
                **_case("files", *line, *told.split()),
                "name": f"{name} extract-primus, told",
                "collect": "out",
            }
    if every == 1:
        for folder in sorted({path.parent for path in files}):
            name = folder.relative_to(below).as_posix()
            line = ("tprimat", "read", f"{link}/{name}", "--output-dir", "out", "--json")
            yield {**_case("folders", *line), "name": name, "collect": "out", "brief": True}


def is_log(path: Path) -> bool:
    """Return whether a file of the samples is one to read: not the lists and answers that we keep
    beside them.
    """
    answers = ("INDEX.tsv", "truth.json", "kernels.tsv", "README.md")
    return path.name not in answers and "systems" not in path.parts


def sample_comparisons() -> Iterator[Case]:
    """Yield comparisons of real results and logs."""
    results, llama = "samples/results", "samples/results/train_{}_llama-516b342.json"
    nvidia, amd = llama.format("nvd_nemo"), llama.format("amd_prim")
    qwens = [each.replace("_llama", "_qwen") for each in (nvidia, amd)]
    earlier = [f"{results}/benchmark_{each}_llama-627dfac.json" for each in ("cuda", "rocm")]
    for words in (
        (nvidia, amd), qwens, earlier, (results,), (*earlier, nvidia), (nvidia, qwens[1]),
        (nvidia, amd, "--precision", "bf16", "--cost", "2.5", "1.9:2.2", "--cost-source", "a list", "--efficiency"),
        (nvidia, amd, "--mode", "identical"), (nvidia, amd, "--reference", "MI300X"), (results, "--model", "qwen"),
        (nvidia, amd, "--energy-from-tdp", "--peak-tflops", "900"),
        ("--baseline", nvidia, "--candidate", amd), ("--baseline", amd, "--candidate", nvidia, "--allow-slower", "3%"),
        (nvidia, "samples/primus/torchtitan_llama3_8B_bf16_mi300x_3st.log"),
    ):  # fmt: skip
        yield _compare(*words)
    for each in (nvidia, amd, *qwens, *earlier):
        yield _case(
            "enhanced-metrics",
            "tprimat",
            "enhanced-metrics",
            each,
            "--json",
            "--cost",
            "2",
            "--precision",
            "bf16",
        )
    for name in ("compare-frameworks", "nvd-compare"):
        yield _case(
            name,
            "tprimat",
            name,
            "--results-dir",
            results,
            "--output",
            "x.png",
            "--no-plot",
            "--json",
        )
    mlperf, scaling, primus = "samples/mlperf/v5.", "samples/mlperf_scaling/v", "samples/primus/"
    for left, right in (
        (
            f"{mlperf}1_llama31_8b_AMD_8xMI355X_r*.txt",
            f"{mlperf}1_llama31_8b_Nebius_8xB200_r0*.txt",
        ),
        (
            f"{mlperf}1_llama2_70b_lora_AMD_8xMI355X_r*.txt",
            f"{mlperf}0_llama2_70b_lora_Oracle_8xMI300X_r*.txt",
        ),
        (
            f"{mlperf}1_llama31_8b_AMD_8xMI350X_r0.txt",
            f"{mlperf}1_llama2_70b_lora_AMD_8xMI350X_r0.txt",
        ),
        (
            f"{scaling}5.1_llama31_8b_UF_1x8xB200_r*.txt",
            f"{scaling}5.1_llama31_8b_UF_2x8xB200_r*.txt",
        ),
        (
            f"{primus}torchtitan_llama3_8B_bf16_mi300x_3st.log",
            f"{primus}torchtitan_llama3_8B_fp8_mi300x_3st.log",
        ),
        (
            f"{primus}megatron_core_dsv4_ep8_mi355x_10it.log",
            f"{primus}megatron_light_llama31_8B_bf16_50it.log",
        ),
        (
            "samples/automodel/llama3_2_1b_squad_h100.jsonl",
            "samples/automodel/gpt_oss_20b_h100.jsonl",
        ),
        (
            "samples/torchtitan/losses_llama3_cuda.txt",
            "samples/torchtitan/losses_llama3_rocm_mi350x.txt",
        ),
        (
            "samples/hf_trainer/bigscience_hf_ds_gpt2_perf_n16.log",
            "samples/megatron/bigscience_meg_gpt2_perf_n16.log",
        ),
    ):
        yield _of_logs(left, right)


def own_comparisons() -> Iterator[Case]:
    """Yield comparisons of synthetic results, one for each kind of verdict, and of tests/data."""
    for words in (
        ("a.json", "b.json"), ("three_a.json", "three_b.json"), ("three_a.json", "three_same.json"),
        ("a.json", "three_b.json"), ("a.json", "batch.json"), ("a.json", "length.json"), ("a.json", "qwen.json"),
        ("a.json", "fp8.json"), ("a.json", "unstated.json"), ("a.json", "impossible.json"), ("a.json", "failed.json"),
        ("a.json", "short.json"), ("a.json", "change.json"), ("a.json", "a.json"), ("a.json",),
        ("a.json", "broken.json"),
        ("a.json", "other_seed.json", "--mode", "identical"), ("a.json", "three_b.json", "fp8.json", "qwen.json"),
        ("a.json", "b.json", "--cost", "2", "3", "--efficiency"), ("a.json", "b.json", "--precision", "fp16"),
        ("--baseline", "three_a.json", "--candidate", "three_b.json"),
        ("--baseline", "three_b.json", "--candidate", "three_a.json"),
        ("--baseline", "three_a.json", "--candidate", "three_same.json", "--allow-slower", "3%"),
        ("--baseline", "three_a.json", "--candidate", "three_same.json", "--allow", "peak_memory_reserved_gb=0.5"),
        ("--baseline", "a.json", "--candidate", "b.json", "--allow-slower", "1%"),
        ("--baseline", "a.json", "--candidate", "qwen.json"),
        ("--baseline", "a.json", "--candidate", "impossible.json"),
        ("data/results",), ("data/published",),
    ):  # fmt: skip
        yield {**_compare(*words), "files": FILES}
    for each in (
        "a.json",
        "three_a.json",
        "impossible.json",
        "unstated.json",
        "failed.json",
        "data/results",
    ):
        line = ("tprimat", "enhanced-metrics", each, "--json", "--cost", "2")
        yield {**_case("enhanced-metrics", *line), "files": FILES}
    for name in ("compare-frameworks", "nvd-compare"):
        yield _case(
            name,
            "tprimat",
            name,
            "--results-dir",
            "data/published",
            "--output",
            "x.png",
            "--no-plot",
            "--json",
        )
    yield _of_logs("data/logs/primus_core_doubled.log", "data/logs/litgpt_small.log")
    yield _of_logs("data/logs/primus_core_doubled.log", "data/logs/primus_out_of_memory.log")


def _case(group: str, *line: str, machine: str = "none") -> Case:
    return {"group": group, "name": " ".join(line), "lines": [line], "machine": machine}


def _dry_run(gpu: str, words: str) -> Case:
    return {
        **_case(gpu, "benchmark.py", *words.split(), "--dry-run", machine=gpu),
        "name": words,
        "files": MATCH,
    }


def _compare(*words: str) -> Case:
    return _case(
        "compare", "tprimat", "compare", *words, "--json", "--no-plot", "--results-dir", "report"
    )


def _of_logs(left: str, right: str) -> Case:
    lines = [
        ("tprimat", "read", each, "--output-dir", folder)
        for each, folder in ((left, "left"), (right, "right"))
    ]
    lines.append(
        ("tprimat", "compare", "left", "right", "--json", "--no-plot", "--results-dir", "report")
    )
    return {"group": "compare logs", "name": f"{left} {right}", "lines": lines, "machine": "none"}


NVIDIA, AMD = (
    {"device_name": name, "device_count": 8, "total_memory_gb": memory, "software_stack": stack}
    for name, memory, stack in (
        ("NVIDIA H100 80GB HBM3", 85.018, "cuda"),
        ("AMD Instinct MI300X", 206.142, "rocm"),
    )
)


def made_up(
    seconds: float, *, seed: int = 1, steps: int = 60, gpu: Any = NVIDIA, **changes: Any
) -> dict[str, Any]:
    """Return a synthetic run.

    Args:
        seconds: mean of a step.
        seed: of the scatter.
        steps: how many.
        gpu: gpu_info.
        changes: fields instead of these, or "jump": from the middle on each step takes so much
            longer.
    """
    jump = changes.pop("jump", 1.0)
    times, state = [], seed
    for step in range(steps):
        state = (state * 1_103_515_245 + 12_345) % 2**31
        scatter = 1 + 0.01 * (state / 2**30 - 1)
        times.append(
            round(
                seconds
                * scatter
                * (4.0 if step == 0 else 1.0)
                * (jump if step >= steps / 2 else 1.0),
                6,
            )
        )
    settings = {"max_steps": steps, "global_batch_size": 128, "micro_batch_size": 1, "sequence_length": 8192,
                "num_gpus": 8, "precision": "bf16", "seed": 1234}  # fmt: skip
    settings.update(changes.pop("training_config", {}))
    return {
        "schema_version": 1, "status": "complete", "platform": "nvd" if gpu is NVIDIA else "amd", "framework": "nemo",
        "model": "llama", "scale": "full", "timestamp": f"2026-01-0{seed}T00:00:00+00:00", "gpu_info": gpu,
        "memory_metrics": {"peak_memory_reserved_gb": 60.0 + seed / 10},
        "model_config": {"num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_query_groups": 8,
                         "ffn_hidden_size": 14336, "vocab_size": 128256},
        "training_config": settings, "steps": list(range(1, steps + 1)), "window_steps": [1] * steps,
        "step_times": times,
        "loss_values": [round(11 - 0.05 * step, 4) for step in range(steps)], "learning_rates": [1e-4] * steps,
        "grad_norms": [1.0] * steps, "lines": [None] * steps, **changes,
    }  # fmt: skip


def _files() -> dict[str, str]:
    runs = {
        "a": made_up(17.0),
        "b": made_up(15.0, gpu=AMD, framework="primus"),
        "batch": made_up(7.5, gpu=AMD, training_config={"global_batch_size": 64}),
        "length": made_up(7.5, gpu=AMD, training_config={"sequence_length": 4096}),
        "qwen": made_up(15.0, gpu=AMD, model="qwen"),
        "fp8": made_up(11.0, gpu=AMD, training_config={"precision": "fp8"}),
        "unstated": made_up(15.0, gpu=AMD, training_config={"precision": None}),
        "impossible": made_up(0.05, gpu=AMD),
        "failed": made_up(15.0, gpu=AMD, steps=8, status="failed", status_reason="out of memory"),
        "short": made_up(15.0, gpu=AMD, steps=5),
        "change": made_up(15.0, gpu=AMD, steps=200, jump=1.3),
        "other_seed": made_up(17.0, seed=2, gpu=AMD, training_config={"seed": 99}),
    }
    files: dict[str, Any] = {f"{name}.json": json.dumps(run) for name, run in runs.items()}
    several = {"three_a": (17.0, NVIDIA), "three_b": (15.0, AMD), "three_same": (17.01, AMD)}
    for name, (seconds, gpu) in several.items():
        each = [made_up(seconds + 0.01 * seed, seed=seed, gpu=gpu) for seed in (1, 2, 3)]
        files[f"{name}.json"] = json.dumps({**each[-1], "runs": each})
    files["broken.json"] = '{"schema_version": 1, "status": '
    files["prose.log"] = "once upon a time there was no training\n" * 20
    files["empty/none.txt"] = ""
    files["match.json"] = json.dumps(made_up(17.0, steps=40))
    return files


FILES = _files()
MATCH = {"match.json": FILES["match.json"]}
