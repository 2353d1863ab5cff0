"""Convert parsed logs and the user's values to runs, with what lies beside a log: the record of a
Primus or Megatron training's start, the description of an MLPerf system.
"""

from __future__ import annotations

import dataclasses
import math
import os
import socket
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tprimat import console, read
from tprimat.analysis import flops
from tprimat.catalog import gpus, models
from tprimat.errors import UsageError
from tprimat.frameworks.primus import start_record
from tprimat.log_import.inputs import STANDARD_INPUT, Log, read_small
from tprimat.machine import platforms
from tprimat.notes import Note, NoteValue, noted
from tprimat.read import mapped
from tprimat.read.mlperf import system as mlperf_system
from tprimat.read.parsing.events import Moment
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.values import json_object, number
from tprimat.redaction import redacted_start
from tprimat.results.result_file import readable, without_secrets
from tprimat.results.run import (
    PLATFORMS,
    STACKS,
    VENDORS,
    GpuInfo,
    ModelConfig,
    Run,
    StatedValues,
)
from tprimat.settings.rows import SETTINGS
from tprimat.text import letters_and_digits
from tprimat.units import GB, GIB

_NAMES = {"gpu": "GPU", "num_gpus": "number of GPUs"}
_OPTIONS = {
    setting.key: (
        setting.log_flag.partition(" ")[0],
        f"the {_NAMES.get(setting.key, setting.key.replace('_', ' '))}",
    )
    for setting in SETTINGS
    if setting.log_flag
}
"""What a user can give for a log, by field: the option, and its name in a message."""

_OVERRIDE = "remove the option, or add --override"
NEAREST = 3
"""Models of a family that an error lists."""
SCALING = "scaling.json"
SYSTEM_LEVELS = 5
"""How many directories up `systems` is looked for: results/<system>/<benchmark>/<directory of a
run>/result.txt.
"""


@dataclasses.dataclass(frozen=True)
class GivenValues:
    """Values from the user for a log: used if it leaves them open, or in any case with `override`.

    `columns` says which column of a table or part of a line is what, by mapped.VALUES. `by_file`
    has values for some of several logs: part of a path or a label, field, value. `trained`: the
    model is one of benchmark.py's. `training`: which one of a text that holds several, by its
    number or its heading; None for all.
    """

    model: str | None = None
    num_gpus: int | None = None
    global_batch_size: int | None = None
    sequence_length: int | None = None
    label: str | None = None
    override: bool = False
    columns: Mapping[str, str] | None = None
    gpu: str | None = None
    precision: str | None = None
    model_shape: ModelConfig | None = None
    trained: bool = False
    by_file: tuple[tuple[str, str, Any], ...] = ()
    training: str | None = None

    def with_options(self, values: Iterable[tuple[str, str, Any]]) -> GivenValues:
        """Return these values and those of options, each (part of a log's path or label, option,
        value).
        """
        field_of = {option: field for field, (option, _) in _OPTIONS.items()}
        named = []
        for file, option, value in values:
            named.append((file, field_of[option], value))
        if several := next(
            (value for _, field, value in named if field == "gpu" and "," in value), None
        ):
            hint = "use one name, or FILE=GPU for each log"
            raise UsageError(f"--gpu: {several!r} is not a GPU", heading="wrong-usage", hint=hint)
        general = {}
        for file, field, value in named:
            if not file:
                general[field] = value
        return dataclasses.replace(
            self, **general, by_file=tuple(each for each in named if each[0])
        )

    def of(self, path: str) -> GivenValues:
        """Return the values for one log."""
        return dataclasses.replace(
            self, by_file=(), **{field: value for _, field, value in self._for(path)}
        )

    def _for(self, path: str) -> list[tuple[str, str, Any]]:
        path = _comparable(path)
        label = _comparable(self.label or "")
        fitting = []
        for given in self.by_file:
            name = _comparable(given[0])
            if name in path or name == label:
                fitting.append(given)
        return fitting

    def stated(self) -> StatedValues:
        """Return them as source.given has them, by field; of a shape its file."""
        values = {}
        for field in (*_OPTIONS, "override"):
            if value := getattr(self, field):
                values[field] = value
        if self.model_shape:
            values["model_shape"] = self.model_shape.source or "a file"
        return values | mapped.stated(self.columns)

    @classmethod
    def read_again(cls, stated: StatedValues) -> GivenValues:
        """Return the values of a source.given, without a shape.

        Raises msgspec.ValidationError for wrong types, UsageError for columns or a pattern that
        can't be.
        """
        values = {}
        for field in (*_OPTIONS, "override"):
            if field in stated:
                values[field] = stated[field]
        texts = msgspec.convert(
            {key: stated[key] for key in mapped.STATED if key in stated}, dict[str, str]
        )
        again = msgspec.convert({**values, "model_shape": None, "trained": True}, cls)
        return dataclasses.replace(
            again, columns=mapped.given(texts.get("columns"), texts.get("pattern"))
        )

    def check(self, paths: Iterable[str], runs: Collection[tuple[str, Run]] = ()) -> None:
        """Raise UsageError if a value is for none of these files, or each run (with its file)
        states another.
        """
        fitting = set()
        for path in paths:
            for each in self._for(path):
                fitting.add(each)
        for each in self.by_file:
            if each not in fitting:
                option = _OPTIONS[each[1]][0]
                hint = "FILE in FILE=VALUE must be part of a log's path"
                raise UsageError(
                    f"{option}: no log has '{each[0]}' in its path",
                    heading="wrong-usage",
                    hint=hint,
                )
        for part, field, value in (
            *(("", field, getattr(self, field)) for field in _OPTIONS),
            *self.by_file,
        ):
            meant = []
            for path, run in runs:
                if _comparable(part) in _comparable(path):
                    meant.append(run)
            if (
                value is not None
                and meant
                and not any(agrees(field, value, stated_by(run, field)) for run in meant)
            ):
                (option, what), given = _OPTIONS[field], f"{part}={value}" if part else value
                text = (
                    f"{option} {given} is not used: each result or log states {what} itself, with"
                    " another value"
                )
                raise UsageError(text, heading="option-against-log", hint="remove the option")
        named = (
            ("gpu", self.gpu),
            ("model", self.model),
            *((field, value) for _, field, value in self.by_file),
        )
        known = {"gpu": ("GPU", gpus.suggested), "model": ("model", models.advice)}
        for field, name in dict.fromkeys(named):
            what, advice = known.get(field, ("", lambda _: ""))
            if name and (nearest := advice(name)):
                console.error(f"note: {_OPTIONS[field][0]} {name} is not a known {what}; {nearest}")


NOTHING_GIVEN = GivenValues()


def _comparable(path: str) -> str:
    """Return a path, or a part of one, in the form in which two of them are compared.

    On Windows case and the kind of slash don't count; macOS gives accents apart from their letters,
    unlike keyboards.
    """
    return os.path.normcase(unicodedata.normalize("NFC", path))


@dataclasses.dataclass(frozen=True)
class ImportedRun:
    """A training read from a source of this title.

    Attributes:
        notes: what the reader did.
        lines: where the log states a field.
        structured: whether the source is machine-readable.
        resumed, began, dated: those of a ParsedLog.
    """

    title: str
    run: Run
    notes: tuple[str, ...]
    lines: Mapping[str, int]
    structured: bool = False
    resumed: int | None = None
    began: Moment | None = None
    dated: Moment | None = None


def extract(log: Log, given: GivenValues) -> list[ImportedRun]:
    """Return the runs of a log, with the record of their start if that is beside it.

    Raises UnreadableError if it has no training, UsageError if a given value contradicts it and
    `override` is not set.
    """
    logs = read.parse_chunks(log.chunks(), log.name)
    trainings = []
    for place, parsed in enumerate(logs, 1):
        title = f"{log.name}, training {place} of {len(logs)}" if len(logs) > 1 else log.name
        trainings.append(imported(title, parsed, [log], given))
    return with_start(trainings, log)


def with_start(trainings: list[ImportedRun], log: Log) -> list[ImportedRun]:
    """Return the runs of a log with what the record of their start, if beside it, and their machine
    add.

    Raises UnreadableError for a record that can't be read.
    """
    path = start_record.path_for(Path(log.path))
    record = None
    if log.path != STANDARD_INPUT:
        record = start_record.read(path)
    doubts: tuple[Note, ...] = ()
    if record and not (len(trainings) == 1 and start_record.belongs(record, Log(log.path).lines())):
        record = None
        doubts = (Note("start-record-ignored", {"file": path.name}),)
    completed_runs = []
    for training in trainings:
        try:
            run = training.run
            if record:
                run = start_record.applied(training.run, record)
        except ValueError as error:
            raise start_record.not_one(path, error) from error
        if not run.gpu_info.device_name:
            run = with_inferred_gpu(run)
        run = mlperf_system.inferred(run, Path(log.path).absolute())
        run = readable(msgspec.structs.replace(run, notes=noted((*run.notes, *doubts))))
        completed_runs.append(dataclasses.replace(training, run=run))
    return completed_runs


def imported(
    title: str,
    parsed: ParsedLog,
    logs: Sequence[Log],
    given: GivenValues = NOTHING_GIVEN,
    *,
    structured: bool = False,
) -> ImportedRun:
    """Return a training with the files that it comes from, warnings of how they were read, and the
    given values.

    Raises UsageError when one contradicts the log and `override` is not set.
    """
    given = given.of(logs[0].path)
    # A size that agrees counts too: what a log only implies may change with another value.
    used = {}
    for size in ("num_gpus", "global_batch_size", "sequence_length"):
        if getattr(given, size):
            used[size] = getattr(given, size)
    overrides = {}
    warnings = []
    for name, (_, what) in _OPTIONS.items():
        if name in ("gpu", "precision", "model_shape"):
            continue
        value = getattr(given, name)
        statement = parsed.stated.get(name)
        if value is None or (statement is not None and agrees(name, value, statement.value)):
            continue
        used[name] = value
        if statement is None or (name == "model" and statement.weight == 0):
            warnings.append(_from_command_line(what, value, "log"))
            continue
        place = f"{logs[0].name}:{statement.line}"
        quoted = f" (“{redacted_start(statement.text, 120)}”)"
        text = _overriding(given, name, statement.value, place, quoted)
        overrides[name] = f"{text} ({place})"
        warnings.append(_overridden(given, name, statement.value, f" ({place})"))
    run = parsed.run(used)
    warnings += _of_family(used.get("model"), run, given)
    assert run.source is not None
    cuts = (Note("log-read-in-part", {"why": log.cut}) for log in logs if log.cut)
    run = msgspec.structs.replace(
        run,
        label=given.label or run.label,
        notes=noted((*warnings, *cuts, *run.notes)),
        source=msgspec.structs.replace(
            run.source,
            overrides=overrides,
            given=given.stated(),
            files=tuple(log.source_file() for log in logs),
        ),
    )
    lines = {name: value.line for name, value in parsed.stated.items()}
    run = completed(_checked(with_system(run, Path(logs[0].path)), given, logs[0].name), given)
    # Parsed with its secrets, so that no figure is lost; kept without them.
    run, notes = readable(without_secrets((_with_directory_model(run, logs[0].path), parsed.notes)))
    return ImportedRun(
        title, run, notes, lines, structured, parsed.resumed, parsed.began, parsed.dated
    )


def _with_directory_model(run: Run, path: str) -> Run:
    """Return a run, whose log states neither model nor shape, with the model that the log's
    directory is named after.

    Such a directory is amd-logs/llama or nvi-logs/qwen25_7b_test_fp8.
    """
    shape = run.model_config
    if run.model is not None or path == STANDARD_INPUT or shape.num_layers or shape.num_parameters:
        return run
    name = Path(path).absolute().parent.name
    row = models.find(name.lower()) or models.recognize(name)
    if row is None:
        return run
    warning = Note("model-from-directory", {"directory": name, "model": row.title})
    notes = (note for note in run.notes if note.code != "model-unnamed")
    return msgspec.structs.replace(run, model=row.name, notes=noted((warning, *notes)))


def _overriding(
    given: GivenValues, field: str, stated: object, place: str, quoted: str = ""
) -> str:
    """Return the note on a user's value that replaces one of the log.

    Raises UsageError if `override` is not set.
    """
    option, what = _OPTIONS[field]
    value = _shown(given, field)
    if not given.override:
        problem = f"{place}: the log gives {what} as {stated}{quoted}, {option} as {value}"
        raise UsageError(problem, heading="option-against-log", hint=_OVERRIDE)
    return f"{value} on the command line, {stated} in the log"


def _overridden(given: GivenValues, field: str, stated: NoteValue, place: str = "") -> Note:
    """Return the note that a user's value replaces one of the log."""
    fields = {"what": _OPTIONS[field][1], "value": _shown(given, field), "stated": stated}
    return Note("overridden", {**fields, "place": place})


def _from_command_line(what: str, value: NoteValue, source: str) -> Note:
    """Return the note that a user's value is one that the log, or another source, leaves open."""
    return Note("from-command-line", {"what": what, "value": value, "source": source})


def _shown(given: GivenValues, field: str) -> NoteValue:
    """Return a user's value, of a shape as it was given."""
    value = getattr(given, field)
    return value.source if isinstance(value, ModelConfig) else value


def _checked(run: Run, given: GivenValues, name: str) -> Run:
    """Return a run whose GPU and precision are those that the user names, if any.

    Raises UsageError when the log has others and `override` is not set.
    """
    named = {"gpu": None, "precision": None}
    for field in ("model_shape", *named):
        value = getattr(given, field)
        stated = stated_by(run, field)
        if value and stated and not agrees(field, value, stated):
            other = "another" if field == "model_shape" else stated
            text = _overriding(given, field, other, name)
            assert run.source is not None
            source = msgspec.structs.replace(
                run.source, overrides={**run.source.overrides, field: text}
            )
            warning = _overridden(given, field, other)
            run = msgspec.structs.replace(run, source=source, notes=noted((warning, *run.notes)))
            if field == "model_shape":
                kept = ModelConfig(trainable_parameters=stated.trainable_parameters)
                run = msgspec.structs.replace(run, model_config=value.over(kept))
            else:
                named[field] = value
    return _with_machine(run, named["gpu"], named["precision"])


def with_inferred_gpu(run: Run) -> Run:
    """Return a run, whose GPU its log doesn't name, with that of this machine where the log was
    written here.

    Otherwise with the only AMD GPU of so much memory; unchanged if there are several.
    """
    name = note = None
    if (host := run.environment.hostname) and host.split(".")[0] == socket.gethostname().split(".")[
        0
    ]:
        names = set()
        for device in platforms.detect(torch=None).devices:
            names.add(device.info.device_name)
        name = names.pop() if len(names) == 1 else None
        note = Note("gpu-of-this-machine", {"gpu": name, "host": host})
    if name is None and run.platform == "amd" and (memory := run.gpu_info.total_memory_gb):
        gib = memory * GB / GIB
        fitting = gpus.amd_gpus_by_memory(gib)
        name = fitting[0].title if len(fitting) == 1 else None
        note = Note("gpu-by-memory", {"gpu": name, "gib": gib})
    if name is None or note is None:
        return run
    run = msgspec.structs.replace(run, notes=noted((note, *run.notes)))
    return _with_machine(run, name, None)


def completed(run: Run, given: GivenValues) -> Run:
    """Return a run with the user's values for what it leaves open, and a warning for each.

    Raises UsageError for a GPU that the run's software doesn't run on, unless `override` is set.
    """
    used = {}
    for field in _OPTIONS:
        if (value := getattr(given, field)) and stated_by(run, field) is None:
            used[field] = value
    doubts = _of_family(used.get("model"), run, given)
    if not used:
        return run
    if (
        "gpu" in used
        and not given.override
        and gpus.denies(used["gpu"], run.gpu_info.software_stack)
    ):
        stack = "CUDA"
        if run.gpu_info.software_stack == "rocm":
            stack = "ROCm"
        problem = f"--gpu {used['gpu']}: the training ran on {stack}"
        raise UsageError(problem, heading="option-against-log", hint=_OVERRIDE)
    sizes = {
        field: value
        for field, value in used.items()
        if field in run.training_config.__struct_fields__
    }
    config = run.model_config
    if shape := used.get("model_shape"):
        own = models.parameters(shape)
        count = config.num_parameters
        if own and count and not count / models.NAMED_SIZE <= own <= count * models.NAMED_SIZE:
            if not given.override:
                problem = f"--model-shape: {own:,} parameters, {count:,} in the log"
                raise UsageError(problem, heading="option-against-log", hint=_OVERRIDE)
            doubts.append(Note("shape-against-log", {"given": own, "stated": count}))
            count = None
        if given.model is None and models.denies(run.model, shape):
            doubts.append(Note("model-against-shape", {"model": run.model}))
        config = ModelConfig(
            num_parameters=count, trainable_parameters=config.trainable_parameters
        ).over(shape)
        used["model_shape"] = shape.source
    warnings = []
    for name, value in used.items():
        warnings.append(_from_command_line(_OPTIONS[name][1], value, "source"))
    others = (note for note in run.notes if not (shape and note.code == "shape-unstated"))
    run = msgspec.structs.replace(
        run,
        model=used.get("model", run.model),
        model_config=config,
        training_config=msgspec.structs.replace(run.training_config, **sizes),
        notes=noted((*warnings, *doubts, *others)),
    )
    return _with_machine(run, used.get("gpu"), used.get("precision"))


def _of_family(name: str | None, run: Run, given: GivenValues) -> list[Note]:
    """Return the warning where only a family's name, given by the user, determines the shape of a
    run.

    Raises UsageError where the name need not be that of a model that benchmark.py trains.
    """
    shape = given.model_shape or run.model_config
    meant = models.of_family(name)
    if shape.num_layers or shape.num_parameters or not meant:
        return []
    if given.trained:
        return [Note("family-taken", {"name": name, "model": models.title(name)})]
    text = f"--model-name {name}: a family of models, such as {', '.join(meant[:NEAREST])}"
    raise UsageError(
        text, heading="unknown-model", hint="pass the name of one model, or --model-shape"
    )


def _with_machine(run: Run, gpu: str | None, precision: str | None) -> Run:
    if precision:
        config = msgspec.structs.replace(
            run.training_config, precision=precision, precision_detail=None
        )
        run = msgspec.structs.replace(run, training_config=config)
    if not gpu:
        return run
    stack = next(
        (STACKS[each] for each in VENDORS if VENDORS[each] == gpus.vendor(gpu)),
        run.gpu_info.software_stack,
    )
    platform = PLATFORMS.get(stack or "", run.platform)
    info = msgspec.structs.replace(run.gpu_info, device_name=gpu, software_stack=stack)
    if info.gpu_cores is None and (row := gpus.match(info).gpu):
        info = msgspec.structs.replace(info, gpu_cores=row.cores)
    notes = tuple(note for note in run.notes if note.code != "gpu-unstated")
    return msgspec.structs.replace(run, platform=platform, gpu_info=info, notes=notes)


def stated_by(run: Run, field: str) -> Any:
    """Return what a run states in the place of an option; None if it leaves that open."""
    if field == "model":
        return run.model
    if field == "model_shape":
        if run.model_config.num_layers is not None:
            return run.model_config
        return None
    if field == "gpu":
        return run.gpu_info.device_name
    return getattr(run.training_config, field)


def agrees(name: str, value: Any, stated: Any) -> bool:
    """Return whether an option says the same as a log or a result, if less exactly."""
    if name == "model_shape" and stated is not None:
        return flops.flops_per_token(value, 1) == flops.flops_per_token(stated, 1)
    if name not in ("model", "gpu") or stated is None:
        return bool(value == stated)
    if name == "gpu":
        rows = []
        for each in (value, stated):
            rows.append(set(gpus.match(GpuInfo(device_name=each)).candidates))
        return bool(rows[0] & rows[1]) or value.lower() in stated.lower()
    row = models.recognize(value)
    # "llama" does not contradict the more specific llama3.2_1B.
    plain = [letters_and_digits(str(each)) for each in (value, stated)]
    return (row is not None and row.name == stated) or (
        bool(plain[0]) and plain[1].startswith(plain[0])
    )


def with_system(run: Run, log: Path) -> Run:
    """Return an MLPerf run with what its path and the files of its submission say; any other run
    unchanged.

    scaling.json lies beside the logs of a set and normalizes their score. Of the system
    descriptions one is taken: a directory `systems` is looked for beside the log and in the
    directories above; a description may lie beside the log itself too. Which file belongs to the
    log follows from the names alone, and nothing is taken if several may.
    """
    if run.framework != "mlperf":
        return run
    log = log.absolute()
    factor = (
        json_object((read_small(log.parent / SCALING) or b"").decode("utf-8-sig", "replace")) or {}
    )
    if (value := number(factor.get("scaling_factor"))) is not None and 0 < value < math.inf:
        run = msgspec.structs.replace(
            run, native_metrics={**run.native_metrics, "scaling_factor": value}
        )
    if of_round := mlperf_system.round_of(log):
        run = msgspec.structs.replace(
            run, framework_config={**run.framework_config, "mlperf_round": of_round}
        )
    for place in (log.parent, *(folder / "systems" for folder in log.parents[:SYSTEM_LEVELS])):
        chosen = mlperf_system.choose(
            log, sorted(path for path in place.glob("*.json") if path.is_file())
        )
        content = read_small(Path(chosen)) if chosen else None
        if (
            chosen
            and content
            and (system := mlperf_system.of(json_object(content.decode("utf-8-sig", "replace"))))
        ):
            return mlperf_system.applied(run, system, f"{place.name}/{chosen.name} beside the log")
    return run
