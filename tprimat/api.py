"""The Python API: what `import tprimat` offers. Names, arguments and columns are stable.

    results = tprimat.load("output/")
    steps = results.steps()                              # a pandas DataFrame
    comparison = tprimat.compare("nvidia.log", "amd.log")
    comparison.faster, comparison.ratio, comparison.interval

Errors that a user can mend are tprimat.errors.TensorPrimatError.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from tprimat.analysis.efficiency import Options
from tprimat.analysis.run_account import account_of
from tprimat.catalog import shapes
from tprimat.catalog.gpus import PRECISIONS
from tprimat.checks import Severity
from tprimat.checks.compute import Mode
from tprimat.compare import Pair, cost
from tprimat.compare import compare as compare_files
from tprimat.errors import TensorPrimatError, UsageError
from tprimat.log_import import load as loader
from tprimat.log_import.given import NOTHING_GIVEN, GivenValues
from tprimat.notes import Note
from tprimat.notes.catalogue import safe_sentences, sentence, words
from tprimat.read import mapped
from tprimat.report import document, json_values, notebook, steps, terminal, verdict
from tprimat.results.account import Account
from tprimat.results.fields import JsonObject
from tprimat.results.result_file import Loaded
from tprimat.results.run import Run
from tprimat.text import counted

if TYPE_CHECKING:
    import pandas

__all__ = ["Comparison", "Results", "Run", "account", "compare", "load", "read_log"]

StrPath = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True, repr=False)
class Results:
    """Runs, by the files that hold them. Iterating gives each Run.

    Attributes:
        files: results and logs, each with its name, SHA-256 and runs.
        note_codes: what was skipped in directories, and why: codes with fields.
    """

    files: tuple[Loaded, ...]
    note_codes: tuple[Note, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was skipped in directories, and why."""
        return tuple(map(words, self.note_codes))

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, in the order of the files."""
        return tuple(run for file in self.files for run in file.runs)

    def steps(self) -> pandas.DataFrame:
        """Return one row per system, run and step, with the columns of docs/python.md.

        Raises UsageError without pandas.
        """
        return self._comparison.steps()

    @functools.cached_property
    def _comparison(self) -> Comparison:
        return compare(self)

    def __iter__(self) -> Iterator[Run]:
        """Iterate over the runs."""
        return iter(self.runs)

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.runs)

    def __repr__(self) -> str:
        return f"<Results: {counted(len(self), 'run')} in {counted(len(self.files), 'file')}>"

    def _repr_html_(self) -> str:
        return notebook.systems(self._comparison._report.comparison)


@dataclasses.dataclass(frozen=True)
class Caveat:
    """Something that a reader of an answer must know.

    Attributes:
        code: what it is about, the same in all outputs.
        severity: "warning" if it could change the decision, "info" if it couldn't.
        text: a sentence without its period.
        notes: what the sentence tells, as codes with fields.
    """

    code: str
    severity: Severity
    text: str
    notes: tuple[Note, ...]


class Comparison:
    """The answer of a comparison, with the values that the command prints.

    Of several models or workloads each has its own answer: `answers`. The properties of a single
        one raise UsageError
    then.
    """

    def __init__(self, report: verdict.Report) -> None:
        self._report = report

    @property
    def answers(self) -> tuple[Comparison, ...]:
        """One comparison per model and workload."""
        return tuple(Comparison(self._report.of(answer)) for answer in self._report.answers)

    @property
    def headline(self) -> str:
        """Which system is faster and by how much, or why that is unknown."""
        return self._answer.verdict.headline

    @property
    def ratio(self) -> float | None:
        """Throughput of `faster` / throughput of `slower`, 1 or more; None if they can't be
        compared.
        """
        ratio = self._leaders and self._leaders.speedup
        if ratio:
            return ratio.value
        return None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95% interval of the ratio: a prediction interval with one run against several, None with
        one run each.
        """
        ratio = self._leaders and self._leaders.speedup
        if ratio and ratio.low is not None and ratio.high is not None:
            return (ratio.low, ratio.high)
        return None

    @property
    def is_significant(self) -> bool | None:
        """Whether the interval excludes 1; None without an interval."""
        ratio = self._leaders and self._leaders.speedup
        if ratio:
            return ratio.is_significant
        return None

    @property
    def faster(self) -> str | None:
        """The name of the fastest system."""
        if self._leaders:
            return self._leaders.faster.name
        return None

    @property
    def slower(self) -> str | None:
        """The name of the system with which the fastest one is compared."""
        if self._leaders:
            return self._leaders.slower.name
        return None

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What could change the decision, the weightiest first."""
        told = []
        for caveat in self._answer.verdict.caveats:
            text = sentence(caveat.notes)
            told.append(Caveat(caveat.code, caveat.severity, text, caveat.notes))
        return tuple(told)

    def steps(self) -> pandas.DataFrame:
        """Return one row per system, run and step, with the columns of docs/python.md.

        Raises UsageError without pandas.
        """
        return steps.data_frame(self._report.comparison)

    def to_dict(self) -> JsonObject:
        """Return what `compare_results.py --json` prints."""
        return json_values.plain(json_values.comparison_values(self._report))

    def __str__(self) -> str:
        return terminal.write(document.on_screen(self._report, verbose=False))

    def __repr__(self) -> str:
        return (
            f"<Comparison: {'; '.join(answer.verdict.headline for answer in self._report.answers)}>"
        )

    def _repr_html_(self) -> str:
        return notebook.verdicts(self._report)

    @property
    def _answer(self) -> verdict.Answer:
        if len(self._report.answers) != 1:
            titles = ", ".join(answer.model.title for answer in self._report.answers)
            raise UsageError(
                f"{len(self._report.answers)} answers ({titles})",
                heading="wrong-usage",
                hint="use one of .answers",
            )
        return self._report.answers[0]

    @property
    def _leaders(self) -> Pair | None:
        return self._answer.group.leaders


_ARGUMENTS = {"cost": "cost_per_gpu_hour"}
"""Arguments whose name differs from that of their command-line option."""


@contextlib.contextmanager
def _named_arguments() -> Iterator[None]:
    """Replace command-line options by arguments in the errors of the wrapped call."""
    try:
        yield
    except TensorPrimatError as error:
        error.reword(_in_python)
        raise


def _in_python(text: str) -> str:
    text = text.replace(
        "remove the option, or add --override", "remove the argument, or add override=True"
    )
    name = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)\b")
    return name.sub(lambda found: _ARGUMENTS.get(found[1], found[1].replace("-", "_")), text)


@_named_arguments()
def load(*paths: StrPath | Iterable[StrPath]) -> Results:
    """Load results and logs: files, directories (recursive), globs, bundles; without paths,
    output/.

    NAME=PATH gives the runs in a path a label.
    A directory's logs are read if it holds no results. Nothing is written.

    Raises UnreadableError for a file that is neither a result nor a log, and UsageError if nothing
    was found.
    """
    return _loaded(paths, NOTHING_GIVEN)


@_named_arguments()
def read_log(
    *paths: StrPath | Iterable[StrPath],
    model_name: str | None = None,
    gpu: str | None = None,
    num_gpus: int | None = None,
    precision: str | None = None,
    global_batch_size: int | None = None,
    sequence_length: int | None = None,
    label: str | None = None,
    override: bool = False,
    columns: Mapping[str, str] | None = None,
    pattern: str | None = None,
    model_shape: StrPath | None = None,
    as_read: bool = False,
) -> Results:
    """Read logs, with values for what they leave open. Nothing is written.

    Args:
        paths: as load() takes them.
        model_name: the model, if a log doesn't state it.
        gpu: the GPU, such as "MI300X", if a log doesn't name it.
        num_gpus: the number of GPUs, if a log doesn't state it.
        precision: "bf16" or another, if a log doesn't state it.
        global_batch_size: sequences per optimizer step, if a log doesn't state them.
        sequence_length: tokens per sequence, if a log doesn't state them.
        label: a name for the configuration.
        override: use these values also if a log states others.
        columns: of a CSV or JSON lines file, as {"step": "iteration", "time": "step_time_s"}; see
            `read --columns`.
        model_shape: a file with the model's shape, if a log doesn't state it; see `read
            --model-shape`.
        pattern: of a text log's lines, as "step {step} .* {time}ms .* loss {loss}"; see `read
            --pattern`.
        as_read: whether to read a log of no known format even if something must be assumed, such as
            the unit of a time. The assumptions are among the warnings of its runs.

    Raises UnreadableError and UsageError as load() does, and UsageError for a value that
    contradicts a log, or for what is assumed of a log, without `as_read`.
    """
    for name, value in (
        ("num_gpus", num_gpus), ("global_batch_size", global_batch_size), ("sequence_length", sequence_length)
    ):  # fmt: skip
        _check(
            name,
            value,
            value is None or (type(value) is int and value > 0),
            "a whole number above zero",
        )
    pairs = ",".join(f"{value}={column}" for value, column in columns.items()) if columns else None
    named = mapped.given(pairs, pattern)
    _check_precision(precision)
    sizes = (num_gpus, global_batch_size, sequence_length)
    given = GivenValues(
        model_name, *sizes, label, override, named, gpu=gpu, precision=precision, as_read=as_read
    )
    if model_shape is not None:
        given = dataclasses.replace(given, model_shape=shapes.of_file(os.fspath(model_shape)))
    return _loaded(paths, given)


def account(run: Run) -> Account | None:
    """Return where the wall time of a run went, s; None if neither its timeline nor its records
    have a time.
    """
    return account_of(run)


@_named_arguments()
def compare(
    *sources: Results | StrPath | Iterable[StrPath],
    reference: str | None = None,
    model: str | None = None,
    mode: Mode = "best",
    precision: str | Mapping[str, str] | None = None,
    cost_per_gpu_hour: Mapping[str, float] | None = None,
) -> Comparison:
    """Compare results and logs as `./compare_results.py` does. Nothing is written.

    Args:
        sources: what load() or read_log() returned, or paths.
        reference: the system that all others are compared with, by a part of its name; by default
            the fastest of another vendor than the fastest one's, else the second fastest.
        model: compare only this model.
        mode: "best": settings may differ; "same": they may not.
        precision: of runs that don't state it: for all, or by the systems' names.
        cost_per_gpu_hour: USD, by the systems' names.

    Raises as load() does, and UsageError for a name that fits no system.
    """
    loaded = [source for source in sources if isinstance(source, Results)]
    paths = [source for source in sources if not isinstance(source, Results)]
    if paths or not loaded:
        # Together, since several files may belong to one training.
        loaded.append(load(*paths))
    if isinstance(precision, str):
        options = Options(precision=precision)
    else:
        options = Options(precisions=precision or {})
    for name in (options.precision, *options.precisions.values()):
        _check_precision(name)
    _check("mode", mode, mode in get_args(Mode), f"one of {', '.join(get_args(Mode))}")
    files = [file for results in loaded for file in results.files]
    notes = [note for results in loaded for note in results.note_codes]
    comparison = compare_files(
        files, reference=reference, model=model, notes=notes, mode=mode, options=options
    )
    if cost_per_gpu_hour:
        words = [f"{name}={price}" for name, price in cost_per_gpu_hour.items()]
        comparison, doubts = cost.with_prices(comparison, words)
        if doubts:
            raise UsageError(f"--cost: {safe_sentences(doubts)[0]}", heading="wrong-cost")
    return Comparison(verdict.report(comparison))


def _check(name: str, value: object, is_valid: bool, expected: str) -> None:
    if not is_valid:
        raise UsageError(
            f"{name}={value!r} is invalid", hint=f"give {expected}", heading="wrong-usage"
        )


def _check_precision(name: str | None) -> None:
    _check("precision", name, name in (None, *PRECISIONS), f"one of {', '.join(PRECISIONS)}")


def _loaded(paths: Sequence[StrPath | Iterable[StrPath]], given: GivenValues) -> Results:
    # An empty list, as a pattern that matches nothing gives it, is not the default directory.
    lists = []
    for path in paths or ["output"]:
        lists.append([path] if isinstance(path, (str, os.PathLike)) else path)
    names = [os.fspath(path) for group in lists for path in group]
    # In this process: others would import the caller's script once more.
    inputs = loader.load(names, given, jobs=1)
    for error in inputs.errors:
        raise error
    if not inputs.files:
        skipped = f" ({words(inputs.notes[0])})" if inputs.notes else ""
        raise UsageError(
            f"no results or logs in {', '.join(names) or 'no paths'}{skipped}", heading="no-results"
        )
    return Results(tuple(inputs.files), tuple(inputs.notes))
