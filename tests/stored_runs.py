"""Files of results to test with: a run with something in every part of its file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tprimat.compare.curves import Remark
from tprimat.notes import OBSERVED, Note
from tprimat.notes.catalogue import note_of, sentence, words
from tprimat.results.account import Timing
from tprimat.results.run import (
    SERIES,
    Data,
    Environment,
    GpuInfo,
    ModelConfig,
    Optimizer,
    ParallelismConfig,
    Run,
    Source,
    TrainingConfig,
)


def written(path: Path, content: bytes | str) -> Path:
    """A file with this content."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def series(times: Sequence[float | None], **changes) -> dict[str, tuple]:
    """The series of a run with these step times, one record a step; what isn't given in `changes`
    is unknown.
    """
    count = len(times)
    unknown = dict.fromkeys(SERIES, (None,) * count)
    known = {
        "steps": tuple(range(1, count + 1)),
        "window_steps": (1,) * count,
        "step_times": tuple(times),
    }
    return {**unknown, **known, **changes}


def a_run(step_time: float = 1.0, count: int = 3, **changes) -> Run:
    """A small run of one setup, with something in every part of the file."""
    fields = {
        "platform": "nvd",
        "framework": "nemo",
        "model": "llama",
        "timestamp": "2026-11-21T10:00:00+00:00",
        "notes": notes_of("a doubt"),
        "source": Source(kind="live", command=("python3", "train.py")),
        "environment": Environment(versions={"torch": "2.13.0"}, settings={"NCCL_DEBUG": "INFO"}),
        "gpu_info": GpuInfo(
            device_name="NVIDIA H100 80GB HBM3", device_count=8, total_memory_gb=85.02
        ),
        "model_config": ModelConfig(num_layers=32, tie_word_embeddings=False),
        "training_config": TrainingConfig(
            global_batch_size=64, sequence_length=2048, num_gpus=8, precision="bf16"
        ),
        "parallelism_config": ParallelismConfig(tensor_model_parallel_size=1),
        "optimizer": Optimizer(name="AdamW", learning_rate=1e-3),
        "data": Data(kind="mock", seed=1),
        "timing": Timing(clock="device_event"),
        "native_metrics": {"rate": 40000.0, "each": (1.0,) * count},
        "energy_metrics": {"joules": 12.5},
        "breakdown": {"forward": 0.3},
        "profile": {"trace": "trace.json"},
        "epochs": ({"loss": 1.0},),
        **series((step_time,) * count, loss_values=(2.0,) * count, learning_rates=(1e-3,) * count),
    }
    return Run(**{**fields, **changes})


def notes_of(*texts: str) -> tuple[Note, ...]:
    """The notes of a run's warnings."""
    return tuple(map(note_of, texts))


def findings_of(run: Run) -> tuple[Note, ...]:
    """The notes of a run on what its records show, not on what its log doesn't state."""
    return tuple(note for note in run.notes if note.code in OBSERVED)


def sentences_of(told: Sequence[Note | str]) -> list[str]:
    """What is told of a run as sentences."""
    return [words(item) if isinstance(item, Note) else item for item in told]


def text_of(told) -> str:
    """The sentence of a note, of notes, or of a caveat or a reason that has some."""
    if told is None:
        return ""
    if isinstance(told, Note):
        return words(told)
    if isinstance(told, Remark):
        return ": ".join(filter(None, (words(told.note), sentence(told.why))))
    for name in ("reasons", "notes", "note"):
        told = getattr(told, name, told)
    return text_of(told) if isinstance(told, Note) else sentence(told)


def texts_of(told: Sequence) -> tuple[str, ...]:
    """The sentence of each note; of notes that are told together, one sentence."""
    return tuple(map(text_of, told))


def reason_of(judged) -> str | None:
    """The sentence of why there is no ratio; None if there is one."""
    return sentence(judged.reasons) or None


def note(code: str, **fields) -> Note:
    """A note of this code with these fields."""
    return Note(code, fields)
