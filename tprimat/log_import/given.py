"""What a user states about logs, where these leave it open."""

from __future__ import annotations

import dataclasses
import os
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tprimat import console
from tprimat.analysis import flops
from tprimat.catalog import gpus, models
from tprimat.errors import UsageError
from tprimat.notes import Note, NoteValue, noted
from tprimat.results.run import PLATFORMS, STACKS, VENDORS, GpuInfo, ModelConfig, Run
from tprimat.settings.rows import SETTINGS
from tprimat.text import letters_and_digits

_NAMES = {"gpu": "GPU", "num_gpus": "number of GPUs"}

OPTIONS = {
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


@dataclasses.dataclass(frozen=True)
class GivenValues:
    """Values from the user for a log: used if it leaves them open, or in any case with `override`.

    `columns` maps the columns of a table or the parts of a line to mapped.VALUES. `by_file` has
    values for some of several logs: part of a path or a label, field, value. `trained`: the model
    is one of benchmark.py's. `training`: which one of a text that holds several, by its number or
    its heading; None for all. `as_read`: what is assumed of a log without a known format is
    confirmed.
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
    as_read: bool = False

    def with_options(self, values: Iterable[tuple[str, str, Any]]) -> GivenValues:
        """Return these values and those of options, each (part of a log's path or label, option,
        value).
        """
        field_of = {option: field for field, (option, _) in OPTIONS.items()}
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
            self, **general, by_file=tuple(value for value in named if value[0])
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

    def check(self, paths: Iterable[str], runs: Collection[tuple[str, Run]] = ()) -> None:
        """Raise UsageError if a value is for none of these files, or each run (with its file)
        states another.
        """
        fitting = set()
        for path in paths:
            for value in self._for(path):
                fitting.add(value)
        for value in self.by_file:
            if value not in fitting:
                option = OPTIONS[value[1]][0]
                hint = "FILE in FILE=VALUE must be part of a log's path"
                raise UsageError(
                    f"{option}: no log has '{value[0]}' in its path",
                    heading="wrong-usage",
                    hint=hint,
                )
        for part, field, value in (
            *(("", field, getattr(self, field)) for field in OPTIONS),
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
                (option, what), given = OPTIONS[field], f"{part}={value}" if part else value
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
        advised = {"gpu": ("GPU", gpus.suggested), "model": ("model", models.advice)}
        for field, name in dict.fromkeys(named):
            what, advice = advised.get(field, ("", lambda _: ""))
            if name and (nearest := advice(name)):
                console.error(f"note: {OPTIONS[field][0]} {name} is not a known {what}; {nearest}")


NOTHING_GIVEN = GivenValues()


def _comparable(path: str) -> str:
    """Return a path, or a part of one, in the form in which two of them are compared.

    On Windows case and the kind of slash don't count; macOS gives accents apart from their letters,
    unlike keyboards.
    """
    return os.path.normcase(unicodedata.normalize("NFC", path))


def checked(run: Run, given: GivenValues, name: str) -> Run:
    """Return a run whose GPU and precision are those that the user names, if any.

    Raises UsageError when the log has others and `override` is not set.
    """
    named = {"gpu": None, "precision": None}
    for field in ("model_shape", *named):
        value = getattr(given, field)
        stated = stated_by(run, field)
        if value and stated and not agrees(field, value, stated):
            other = "another" if field == "model_shape" else stated
            text = overriding(given, field, other, name)
            assert run.source is not None
            source = run.source.but(overrides={**run.source.overrides, field: text})
            warning = overridden(given, field, other)
            run = run.but(source=source, notes=noted((warning, *run.notes)))
            if field == "model_shape":
                kept = ModelConfig(trainable_parameters=stated.trainable_parameters)
                run = run.but(model_config=value.over(kept))
            else:
                named[field] = value
    return with_machine(run, named["gpu"], named["precision"])


def completed(run: Run, given: GivenValues) -> Run:
    """Return a run with the user's values where it has none, and a warning for each.

    Raises UsageError for a GPU that the run's software doesn't run on, unless `override` is set.
    """
    used = {}
    for field in OPTIONS:
        if (value := getattr(given, field)) and stated_by(run, field) is None:
            used[field] = value
    doubts = of_family(used.get("model"), run, given)
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
    sizes = {}
    for field, value in used.items():
        if field in run.training_config.__struct_fields__:
            sizes[field] = value
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
        warnings.append(from_command_line(OPTIONS[name][1], value, "source"))
    others = (note for note in run.notes if not (shape and note.code == "shape-unstated"))
    run = run.but(
        model=used.get("model", run.model),
        model_config=config,
        training_config=run.training_config.but(**sizes),
        notes=noted((*warnings, *doubts, *others)),
    )
    return with_machine(run, used.get("gpu"), used.get("precision"))


def overriding(given: GivenValues, field: str, stated: object, place: str, quoted: str = "") -> str:
    """Return the note on a user's value that replaces one of the log.

    Raises UsageError if `override` is not set.
    """
    option, what = OPTIONS[field]
    value = _shown(given, field)
    if not given.override:
        problem = f"{place}: the log gives {what} as {stated}{quoted}, {option} as {value}"
        raise UsageError(problem, heading="option-against-log", hint=_OVERRIDE)
    return f"{value} on the command line, {stated} in the log"


def overridden(given: GivenValues, field: str, stated: NoteValue, place: str = "") -> Note:
    """Return the note that a user's value replaces one of the log."""
    fields = {"what": OPTIONS[field][1], "value": _shown(given, field), "stated": stated}
    return Note("overridden", {**fields, "place": place})


def from_command_line(what: str, value: NoteValue, source: str) -> Note:
    """Return the note that a user's value is one that the log, or another source, leaves open."""
    return Note("from-command-line", {"what": what, "value": value, "source": source})


def _shown(given: GivenValues, field: str) -> NoteValue:
    """Return a user's value, of a shape as it was given."""
    value = getattr(given, field)
    return value.source if isinstance(value, ModelConfig) else value


def of_family(name: str | None, run: Run, given: GivenValues) -> list[Note]:
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


def with_machine(run: Run, gpu: str | None, precision: str | None) -> Run:
    """Return a run with the GPU and the precision that are given."""
    if precision:
        config = run.training_config.but(precision=precision, precision_detail=None)
        run = run.but(training_config=config)
    if not gpu:
        return run
    stack = next(
        (STACKS[platform] for platform in VENDORS if VENDORS[platform] == gpus.vendor(gpu)),
        run.gpu_info.software_stack,
    )
    platform = PLATFORMS.get(stack or "", run.platform)
    info = run.gpu_info.but(device_name=gpu, software_stack=stack)
    if info.gpu_cores is None and (row := gpus.match(info).gpu):
        info = info.but(gpu_cores=row.cores)
    notes = tuple(note for note in run.notes if note.code != "gpu-unstated")
    return run.but(platform=platform, gpu_info=info, notes=notes)


def stated_by(run: Run, field: str) -> Any:
    """Return the run's own value for an option; None if it has none."""
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
    """Return whether an option agrees with a log or a result, if less exactly."""
    if name == "model_shape" and stated is not None:
        return flops.flops_per_token(value, 1) == flops.flops_per_token(stated, 1)
    if name not in ("model", "gpu") or stated is None:
        return bool(value == stated)
    if name == "gpu":
        rows = []
        for device_name in (value, stated):
            rows.append(set(gpus.match(GpuInfo(device_name=device_name)).candidates))
        return bool(rows[0] & rows[1]) or value.lower() in stated.lower()
    row = models.recognize(value)
    # "llama" does not contradict the more specific llama3.2_1B.
    plain = [letters_and_digits(str(text)) for text in (value, stated)]
    return (row is not None and row.name == stated) or (
        bool(plain[0]) and plain[1].startswith(plain[0])
    )
