"""The trainings of one call of `benchmark`: shown, or run one after the other and summed up."""

from __future__ import annotations

import datetime
import shlex
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprimat import text
from tprimat.analysis import metrics
from tprimat.catalog import models
from tprimat.cli import _benchmark_display as display
from tprimat.cli import _benchmark_logged as _logged
from tprimat.cli import _bundle, _display
from tprimat.errors import ExitStatus
from tprimat.frameworks import memory, scales
from tprimat.frameworks.request import Request
from tprimat.machine import host, platforms
from tprimat.measure import process
from tprimat.record import recovery
from tprimat.record.progress import Message, Saved
from tprimat.results.run import Run
from tprimat.store import store

if TYPE_CHECKING:
    from tprimat.cli.benchmark import Plan
    from tprimat.machine.platforms import Machine

START_SECONDS = 900.0
"""What a training may take beyond twice its time limit before it is taken for hung: importing
torch from a slow disk and drawing eight billion weights both take minutes."""

LOGS = "logs"

BUSY_SHARE = 0.15
LOOK_SECONDS = 0.5
"""From which share of the processor's time in the hands of others a training on it is warned, and how
long that is looked at."""


def show(plan: Plan, machine: Machine) -> None:
    """Prints what would be run, to the last option."""
    _introduce(plan, machine)
    for request in plan.requests:
        framework = plan.framework_of(request)
        display.say(f"\n{_name(request, plan)}, run {plan.runs} {'time' if plan.runs == 1 else 'times'}:")
        result = plan.output_dir / store.file_name(identity(request))
        command = framework.launch(request).shell_line()
        display.would_run(command, model=request.model, framework=request.framework, result=result)
        if framework.inner is not None:
            display.say(f"which runs: {framework.inner(request).shell_line()}")
        display.say(f"result: {result}")
    display.say("\nNothing was run.")


def measure(plan: Plan, machine: Machine) -> ExitStatus:
    """Runs the trainings, and says at the end what came of them."""
    return measured(plan, machine)[0]


def measured(plan: Plan, machine: Machine) -> tuple[ExitStatus, list[Path]]:
    """The same; with the result files."""
    _introduce(plan, machine)
    session = Session(plan)
    session.run()
    session.sum_up()
    status = ExitStatus.TRAINING_FAILED if session.interrupted or session.failures else ExitStatus.WELL
    return status, list(dict.fromkeys(session.paths.values()))


class Session:
    """What has happened so far.

    Attributes:
        runs: results by the index of their setup, in the order in which they came.
        paths: the result file of a setup, by its index.
        logs: what each training printed.
        failures: trainings that ended in any other way than by their last step.
        interrupted: whether the user has ended it.
    """

    def __init__(self, plan: Plan) -> None:
        self.runs: dict[int, list[Run]] = {index: [] for index in range(len(plan.requests))}
        self.paths: dict[int, Path] = {}
        self.failures = 0
        self.logs: list[Path] = []
        self.interrupted = False
        self._plan = plan

    def run(self) -> None:
        """One training after the other. A failed one doesn't keep the others from being run."""
        plan = self._plan
        total = plan.runs * len(plan.requests)
        for number, (repetition, request) in enumerate(plan.order(), 1):
            if number > 1 and not self._rest():
                break
            of = f", run {repetition} of {plan.runs}" if plan.runs > 1 else ""
            self._train(request, f"[{number}/{total}] {_name(request, plan)}{of}")
            if self.interrupted:
                break

    def sum_up(self) -> None:
        """The closing table, what is to be known of it, and the next command."""
        groups = [
            display.Group(request, self._plan.runs, tuple(self.runs[index]), self.paths.get(index))
            for index, request in enumerate(self._plan.requests)
        ]
        display.say("")
        for line in display.results(groups):
            display.say(line)
        for note in display.doubts(groups, self._plan.notes):
            display.note(note, wrong=True)
        files = list(dict.fromkeys(self.paths.values()))
        if not files:
            return
        shortest = min(
            metrics.summarize(run).performance.total_steps or 0 for runs in self.runs.values() for run in runs
        )
        if shortest < display.SMOKE_TEST_BELOW:
            display.note(display.smoke_test(shortest))
        display.say("")
        for start, path in zip(["Results:", *[" " * 8] * len(files)], files, strict=False):
            display.say(f"{start} {path}")
        display.say(f"Logs:    {_short(self.logs[0].parent)}")
        folder = _short(Path.cwd() / self._plan.output_dir)
        argument = [] if folder == Path("output") else [str(folder)]
        if self._plan.bundle is not None:
            _bundle.write_bundle(self._plan.bundle, files, self.logs)
        display.say(f"Next:    {shlex.join(['python3', 'compare_results.py', *argument])}")

    def _train(self, request: Request, title: str) -> None:
        index = self._plan.requests.index(request)
        framework = self._plan.framework_of(request)
        if request.platform == "cpu":
            busy = host.busy_share(host.Host(), lambda: time.sleep(LOOK_SECONDS))
            if busy is not None and busy > BUSY_SHARE:
                display.note(
                    f"other programs take {busy:.0%} of the processor: steps will take longer, and vary", wrong=True
                )
        else:
            # Read anew: since the last training others may have come.
            held = platforms.held_by_others(platforms.detect())
            if held:
                display.note(held, wrong=True)
        saved: list[Saved] = []
        journals = recovery.names(request.output_dir)
        history = set(_history(request.output_dir))
        log = _log_path(request)
        self.logs.append(log)
        started = framework.launch(request)

        with display.following(title, request) as (on_line, on_step):

            def on_message(message: Message) -> None:
                if isinstance(message, Saved):
                    saved.append(message)
                else:
                    on_step(message)

            _display.debug(f"command: {started.shell_line()}")
            if framework.inner is not None:
                _display.debug(f"which runs: {framework.inner(request).shell_line()}")
            _display.debug(f"log: {_short(log)}")
            ended = process.run(
                started,
                log,
                on_line=on_line,
                on_message=on_message,
                limit_s=None if request.time_limit_s is None else 2 * request.time_limit_s + START_SECONDS,
            )
        self.interrupted = ended.interrupted
        if ended.log_trouble:
            display.note(f"{_short(log)} doesn't hold all that was printed: {ended.log_trouble}", wrong=True)
        if framework.logged:
            run, path = _logged.result(framework, request, log, complete=ended.status == 0)
        else:
            run, path = _read_back(saved) if saved else self._recovered(request, journals)
        if run is not None and path is not None:
            self.paths[index] = _short(path)
            self.runs[index].append(run)
            _display.record(run, _short(path))
            for moved in sorted(set(_history(path.parent)) - history):
                display.note(f"the result of another setup that was there is now {_short(moved)}")
            if display.on_terminal():
                display.say(display.outcome(title, run))
            _display.debug(display.outcome(title, run))
        if run is not None and path is not None and run.status == "complete":
            if not _is_below(path, request.output_dir):
                # What was asked for is not where it was asked for.
                self.failures += 1
                display.say(
                    f"error: {title}: {_short(request.output_dir)} can't be written: the result is in {path} "
                    "(docs/troubleshooting.md#unwritable-folder)",
                    error=True,
                )
            elif ended.status:
                display.note(
                    f"its process ended with status {ended.status} after the result was written: {log}", wrong=True
                )
            return
        self.failures += 1
        if run is None or path is None:
            reason = "interrupted" if ended.interrupted else why_failed(run, ended)
            _display.record(identity(request, status="failed", status_reason=reason), None)
        self._explain(title, request, run, ended, log)

    def _recovered(self, request: Request, earlier: set[str]) -> tuple[Run | None, Path | None]:
        """What a training that was killed has left in its journal, which wasn't there before."""
        found: tuple[Run | None, Path | None] = None, None
        for each in recovery.recover(request.output_dir):
            display.note(each.line, wrong=True)
            run = each.run
            if run and each.journal not in earlier and (run.model, run.label) == (request.model, request.label):
                found = run, each.path
        return found

    def _explain(self, title: str, request: Request, run: Run | None, ended: process.ProcessResult, log: Path) -> None:
        if ended.interrupted:
            kept = "what was recorded is kept, as incomplete" if run is not None else "nothing was recorded yet"
            display.say(f"{title}: interrupted; {kept}", error=True)
            return
        why = text.plain(f"{memory.advised(why_failed(run, ended), request)}")
        display.say(f"error: {title}: {why} (docs/troubleshooting.md#training-failed)", error=True)
        for line in ended.tail:
            display.say(f"    {text.plain(line, 160)}", error=True)
        display.say(f"    all of it: {_short(log)}", error=True)

    def _rest(self) -> bool:
        """Cools down; False where the user has ended that."""
        seconds = self._plan.cooldown_s
        if not seconds:
            return True
        display.say(f"cooling down for {seconds:g} s")
        try:
            time.sleep(seconds)
        except KeyboardInterrupt:
            self.interrupted = True
        return not self.interrupted


def _introduce(plan: Plan, machine: Machine) -> None:
    for line in display.machine(machine.platform, machine.gpu_info, machine.environment):
        display.say(line)
    for line in display.software(machine.environment):
        _display.debug(line)
    shapes = [
        scales.shape(models.by_name(request.model), scales.by_name(request.scale))
        if request.shape is None
        else request.shape
        for request in plan.requests
    ]
    display.say("")
    for line in display.setups(plan.requests, [shape.num_parameters for shape in shapes]):
        display.say(line)
    for scale in dict.fromkeys(request.scale for request in plan.requests):
        if scale not in (scales.FULL, scales.OTHER):
            display.note(f"{scale} is not the full model: {scales.by_name(scale).loses}")
    for note in plan.notes:
        display.note(note)
    fewest = min(request.steps for request in plan.requests)
    if fewest < display.SMOKE_TEST_BELOW:
        display.note(display.smoke_test(fewest))


def _name(request: Request, plan: Plan) -> str:
    return f"{request.model} {request.precision}" + (f" {request.framework}" if plan.others else "")


def why_failed(run: Run | None, ended: process.ProcessResult) -> str:
    """Why a training failed, in a few words."""
    if ended.overdue:
        return "it went on far beyond its time limit, without an end, and was ended"
    if run is not None and run.status_reason:
        return run.status_reason
    if ended.status < 0:
        try:
            name = signal.Signals(-ended.status).name
        except ValueError:
            name = str(-ended.status)
        memory = "; the system does that when memory runs out" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{memory}"
    if ended.status == 0:
        return "it ended without writing a result"
    return f"its process ended with status {ended.status} before it could write a result"


def identity(request: Request, **more: Any) -> Run:
    """As much of a Run as its file's name depends on."""
    return Run(platform=request.platform, framework=request.framework, model=request.model, label=request.label, **more)


def _log_path(request: Request) -> Path:
    stem = Path(store.file_name(identity(request))).stem
    return process.new_log(request.output_dir / LOGS, f"{stem}_{datetime.datetime.now():%Y%m%d_%H%M%S}")


def _read_back(saved: list[Saved]) -> tuple[Run | None, Path | None]:
    """The run that a training says it wrote, and the file that holds it now; others write to that file too."""
    said = next((each for each in reversed(saved) if each.fingerprint), saved[-1])
    path = Path(said.path)
    if said.fingerprint is not None:
        return store.locate(path, said.fingerprint) or (None, None)
    return store.read(path)[-1], path


def _is_below(path: Path, folder: Path) -> bool:
    return folder.resolve() in path.resolve().parents


def _history(folder: Path) -> list[Path]:
    return list((folder / store.HISTORY).glob("*.json"))


def _short(path: Path) -> Path:
    """A path as the user would type it from here."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path
