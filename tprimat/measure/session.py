"""A measurement session: the runs of one command, by any framework, shown, or run in turn and
summed up.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import secrets
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tprimat import console, files
from tprimat.analysis.summary import Summary, summarize
from tprimat.errors import ExitStatus
from tprimat.frameworks import nodes as several_nodes
from tprimat.frameworks import out_of_memory_advice
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.frameworks.request import Request
from tprimat.log_import import bundle
from tprimat.machine import platforms
from tprimat.machine.platforms import Machine
from tprimat.machine.telemetry.sampler import Sampler
from tprimat.measure import attempt, closing, display, process, shared_memory, sweep, training_files
from tprimat.measure.display import short_path
from tprimat.measure.plan import Plan
from tprimat.measure.process import ProcessResult
from tprimat.record import nodes, outcome, progress, recovery, telemetry
from tprimat.record.progress import Known, Message, Saved, Step
from tprimat.report import recommendations
from tprimat.results.ending import Ending
from tprimat.results.fields import FieldValues
from tprimat.results.run import Run
from tprimat.store import preflight, store
from tprimat.store.history import HISTORY
from tprimat.store.store import StoredRun
from tprimat.text import counted, plain, runnable

MOST_EVENTS = 3
"""Most events of a run that are printed; all are in its result."""

START_SECONDS = 900.0
"""What a training may take beyond twice its time limit before it is taken for hung: importing
torch from a slow disk and drawing eight billion weights both take minutes."""

KILLING = tuple(getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGKILL", "SIGHUP"))
"""Signals sent from outside: the run counts as interrupted, not failed."""


@dataclasses.dataclass
class _Training:
    """One training of a session, and the information on it while it runs.

    Attributes:
        index, request: one of the session's requests, and its position.
        title: its name for the user.
        log: the file with its output.
        saved: the results that it reports to have written.
        is_stopped: whether the session ends it after the last step that was heard of.
        cut: its time limit, s, once that ends it; only if its steps are known from the log alone.
    """

    index: int
    title: str
    request: Request
    framework: Framework
    log: Path
    saved: list[Saved] = dataclasses.field(default_factory=list)
    is_stopped: bool = False
    cut: TimeLimit | None = None
    _limit: TimeLimit | None = None

    def hear(self, message: Message, stops: Callable[[Step], bool]) -> None:
        """Take a message of the training; `stops` returns whether it is to end after a step."""
        if isinstance(message, Saved):
            self.saved.append(message)
        if not isinstance(message, Step):
            return
        self.is_stopped = self.is_stopped or stops(message)
        if not self.framework.launcher.logged or self.request.num_nodes > 1:
            return
        if self._limit is None:
            # As in the loops that keep it themselves, from the beginning of the first step on.
            spent_s = message.step_time or 0.0
            self._limit = TimeLimit(
                message.max_steps, self.request.time_limit_s, 1, bool, time.monotonic, spent_s
            )
        if self._limit.reached(message.step):
            self.cut = self._limit


class Session:
    """The runs of one command; `stops` returns after a step whether to end its training there.

    Attributes:
        runs: results with their summaries, by the index of their request.
        files: result files, each once, in the order in which they were first written.
        failures: runs that ended in any other way than by their last step.
        interrupted: whether the user has ended it.
        status: exit status of the process that trained last, as a shell gives it; TRAINING_FAILED
            if that ended well and left no complete run, INTERRUPTED if the user ended the session
            after it.
    """

    def __init__(
        self, plan: Plan, machine: Machine, stops: Callable[[Step], bool] = lambda step: False
    ) -> None:
        self.runs: list[list[tuple[Run, Summary]]] = [[] for _ in plan.requests]
        self.files: list[Path] = []
        self.failures = 0
        self.interrupted = False
        self.status = 0
        self._plan = plan
        self._stops = stops
        self._requests = list(plan.requests)
        self._digests = [sweep.digest(request, machine) for request in plan.requests]
        self._order = list(plan.order())
        self._machine = machine
        self._logs: list[Path] = []
        self._id = attempt.session_of(os.environ) or secrets.token_hex(8)
        self._round = 1
        self._left = 0
        self._began = 0.0
        self._durations: list[float] = []

    def is_ready(self) -> bool:
        """Return whether the frameworks' checks find no reason for a training to fail; print their
        findings.
        """
        errors = []
        warnings: list[str] = []
        for request in self._requests:
            result = self._plan.framework_of(request).launcher.preflight(request, self._machine)
            errors += [f"{request.model}: {text}" for text in result.errors]
            warnings += result.warnings
        held = platforms.held_by_others(self._machine)
        if held:
            warnings.append(held)
        for text in dict.fromkeys(warnings):
            if text not in self._plan.notes:
                console.note(text, weakens=True)
        for text in dict.fromkeys(errors):
            console.error(f"error: {plain(text)}", see="primus-checks")
        return not errors

    def run(self) -> None:
        """Run one training after the other. Raises UsageError if results or the files for them
        can't be written.
        """
        for index, request in enumerate(self._requests):
            if request.platform != "cpu":
                shared_memory.check(request.gpus_per_node)
            files.check_writable(request.output_dir)
            self._requests[index] = self._plan.framework_of(request).launcher.prepare(
                request, console.info
            )
        earlier = self._earlier()
        first = self._requests[0]
        if first.rendezvous is not None:
            # For the results of runs on several machines.
            nodes.state(self._nodes_folder(), first.node_index, self._machine, os.environ)
        if self._plan.resumes:
            self._resume()
        for number, (repetition, index) in enumerate(self._order, 1):
            if self._is_done(index, repetition, earlier):
                continue
            if self._durations and not self._cool_down():
                break
            rendezvous = self._plan.requests[index].rendezvous
            if rendezvous is not None:
                rendezvous = several_nodes.of_training(rendezvous, number)
                self._requests[index] = dataclasses.replace(
                    self._requests[index], rendezvous=rendezvous
                )
            title = f"[{number}/{len(self._order)}] {self._plan.name_of(self._requests[index])}"
            if self._plan.runs > 1:
                title += f", run {repetition} of {self._plan.runs}"
            failures = self.failures
            self._round, self._left = repetition, len(self._order) - number
            self._began = time.monotonic()
            self._train(index, title, number > 1)
            self._durations.append(time.monotonic() - self._began)
            if self.interrupted or (self._plan.stops_at_failure and self.failures > failures):
                self._name_what_is_left(number)
                break

    def _name_what_is_left(self, number: int) -> None:
        """Print which requests have no training among the first ones of the order."""
        begun = {index for _, index in self._order[:number]}
        left = [index for _, index in self._order if index not in begun]
        names = dict.fromkeys(self._plan.name_of(self._requests[index]) for index in left)
        if names:
            console.error(f"    not run: {', '.join(names)}")

    def _resume(self) -> None:
        """Adopt the results in the output directory, and leave only the other runs to run."""
        sweep.recover(self._plan.output_dir, self._digests)
        runs = sweep.found(self._plan, self._machine)
        again: dict[Path, set[str]] = {}
        left = []
        for repetition, index in self._order:
            results = runs.get((self._digests[index], repetition), [])
            if results and self._needs_no_run(results[0].run):
                self._keep(index, results[0].run, results[0].path)
                self.failures += results[0].run.status != "complete"
            else:
                left.append((repetition, index))
            for result in results:
                if not self._needs_no_run(result.run):
                    again.setdefault(result.path, set()).add(store.fingerprint(result.run))
        earlier = [result.run for results in runs.values() for result in results]
        # Interrupted rounds are still paired; changes in between widen the interval.
        if earlier and attempt.JOB not in os.environ:  # a job is collected by its own session
            self._id = max(earlier, key=lambda run: run.timestamp or "").session or self._id
        for path, marks in again.items():
            store.withdraw(path, marks)
            console.note(
                f"{counted(len(marks), 'partial run')} in {short_path(path)} moved to {HISTORY}/,"
                " to be rerun"
            )
        done = len(self._order) - len(left)
        if done:
            console.info(f"{done} of {counted(len(self._order), 'run')} already complete")
        self._order = left

    def _needs_no_run(self, run: Run) -> bool:
        return sweep.is_done(run, retries_failed=self._plan.retries_failed)

    def sum_up(self) -> None:
        """Print the closing table, what should be known of it, and the next command."""
        groups = []
        for request, runs in zip(self._requests, self.runs, strict=True):
            if request.result_elsewhere is None:
                groups.append((request, runs))
        if groups:
            console.info("")
            closing.results(
                self._plan, groups, self.files, "not run" if self.interrupted else "failed"
            )
            for note in closing.findings(self._plan, groups):
                console.note(note, weakens=True)
        command = display.comparison_of(self._plan.output_dir)
        if self.interrupted and self._plan.arguments is not None:
            command = runnable(recommendations.command(self._plan.arguments, ["--resume"]))
        if not self.files:
            if self.interrupted:
                console.info(f"\nNext:    {command}")
            return
        shortest = min(
            summary.performance.total_steps or 0 for runs in self.runs for _, summary in runs
        )
        if self._plan.runs == 1 and shortest < min(request.steps for request in self._requests):
            display.note_smoke_test(self._plan, shortest)
        console.info("")
        for number, path in enumerate(self.files):
            console.info(f"{' ' * 8 if number else 'Results:'} {path}")
        if self._logs:
            console.info(f"Logs:    {short_path(self._logs[0].parent)}")
        if self._plan.bundle is not None:
            bundle.write_and_report(self._plan.bundle, self.files, self._logs)
        console.info(f"Next:    {command}")

    def _earlier(self) -> list[StoredRun]:
        """Return the runs of earlier attempts of this job; one node makes results of their
        files.
        """
        if not attempt.is_another(os.environ):
            return []
        folder = self._requests[0].output_dir
        if self._requests[0].node_index:
            return attempt.runs_of(self._id, folder)
        return attempt.close(self._id, folder, Ending(kind="stopped", cause=attempt.REQUEUED))

    def _is_done(self, index: int, repetition: int, earlier: list[StoredRun]) -> bool:
        """Return whether an earlier attempt of this job has done a training, and take its run if
        so.
        """
        request = self._requests[index]
        for run, path in earlier:
            if run.status == "complete" and attempt.is_of(run, repetition, request):
                console.info(
                    f"{self._plan.name_of(request)}, run {repetition}: done before the job was"
                    " requeued"
                )
                self._keep(index, run, path)
                return True
        return False

    def _nodes_folder(self) -> Path:
        request = self._plan.requests[0]
        return nodes.folder_of(os.environ, request.output_dir, request.rendezvous)

    def _train(self, index: int, title: str, again: bool) -> None:
        """Run one training, add the result that it leaves, and print how it went."""
        request = self._requests[index]
        framework = self._plan.framework_of(request)
        if again and request.platform != "cpu":
            held = platforms.held_by_others(platforms.refreshed(self._machine))
            if held:
                console.note(held, weakens=True)
        journals = recovery.names(request.output_dir)
        history = set((request.output_dir / HISTORY).glob("*.json"))
        log = training_files.log_path(framework, request)
        training = _Training(index, title, request, framework, log)
        self._logs.append(log)
        self._announce(training)
        sampler = None
        if framework.launcher.logged:  # the other frameworks' runs start one of their own
            sampler = Sampler(request.platform, self._machine.devices[: request.num_gpus])
        began = time.perf_counter()
        try:
            child = self._follow(training)
        finally:
            ended = time.perf_counter()
            if sampler is not None:
                sampler.stop()
            latest = framework.launcher.latest_log(request)
            if latest is not None:
                training_files.keep_latest(log, request.output_dir / latest)
        self.interrupted = child.interrupted
        if child.log_trouble:
            console.note(f"{short_path(log)} is incomplete: {child.log_trouble}", weakens=True)
        self.status = child.shell_status
        result = None
        if request.result_elsewhere is not None:
            console.note(request.result_elsewhere)
            if not self.status or self.interrupted:
                return
        elif sampler is not None:
            complete = functools.partial(self._completed, training, sampler, began, ended)
            result = training_files.read_log(
                framework, request, log, self._machine, child.status == 0, complete
            )
        elif training.saved:
            result = training_files.read_back(training.saved)
        else:
            result = training_files.recover(request, journals)
        if result is not None:
            result = _with_process(*result, child)
            self._take(training, *result, history)
            if result[0].status == "complete":
                self._judge_complete(training, result[1], child)
                return
        self._report_failure(training, child, result)

    def _announce(self, training: _Training) -> None:
        """Note in the folder of a job, if it has one, that a training begins."""
        job = os.environ.get(attempt.JOB)
        request = training.request
        if job and request.node_index == request.result_node:
            attempt.begin(
                Path(job),
                self._round,
                request,
                training.log,
                digest=self._digests[training.index],
                tuning=self._plan.tuning,
                logged=training.framework.launcher.logged,
            )

    def _completed(
        self, training: _Training, sampler: Sampler, began: float, ended: float, run: Run
    ) -> Run:
        """Return the run that a log shows with what only its session knows."""
        request = training.request
        host = self._machine.environment.hostname
        ids = [device.id for device in self._machine.devices[: request.num_gpus]]
        measured = preflight.latest(request.output_dir, host, ids, request.num_gpus)
        given = progress.given(self._variables(training.index))
        run = run.but(preflight=measured, **given)
        if training.cut is not None and run.status != "complete" and run.steps:
            reason = training.cut.reason(run.steps[-1])
            ending = Ending(kind="finished", cause=reason)
            run = run.but(status="complete", status_reason=reason, ending=ending)
        if request.rendezvous is not None:
            run = nodes.added(run, self._nodes_folder(), request.num_nodes)
        return telemetry.without_steps(run, sampler, began, ended)

    def _report_failure(
        self, training: _Training, child: ProcessResult, result: StoredRun | None
    ) -> None:
        """Count a training that left no complete run, and print why; keep that it failed where
        nothing else does.
        """
        title, log = training.title, training.log
        self.status = self.status or ExitStatus.TRAINING_FAILED
        self.failures += 1
        words = training_files.last_words(log, child.tail)
        recorded = None
        if result is not None:
            recorded = result[0].status_reason
        elif any(map(outcome.is_out_of_memory, words)):
            recorded = outcome.OUT_OF_MEMORY
        status, reason, ending = outcome.of_process(
            child.status, interrupted=child.interrupted, overdue=child.overdue, recorded=recorded
        )
        request = training.request
        if result is None:
            # What was killed from outside is repeated by --resume, as any interrupted training.
            is_killed = -child.status in KILLING and not child.overdue
            if self._plan.keeps_failures and not child.interrupted and not is_killed:
                self._keep_failure(training.index, reason)
            else:
                run = Run(
                    platform=request.platform,
                    framework=request.framework,
                    model=request.model,
                    label=request.label,
                    status=status,
                    status_reason=reason,
                    ending=ending,
                )
                console.record(run, None)
        if child.interrupted:
            kept = "nothing recorded yet"
            if result is not None:
                kept = "partial results saved (status: incomplete)"
            console.error(f"{title}: interrupted; {kept}")
            return
        why = plain(out_of_memory_advice.advised(reason or "", request))
        console.error(f"error: {title}: {why}", see="training-failed")
        for line in words:
            console.error(f"    {plain(line, 160)}")
        console.error(f"    full log: {short_path(log)}")

    def _follow(self, training: _Training) -> ProcessResult:
        """Run one training and show it; how its process ended."""
        request, log = training.request, training.log
        launcher = training.framework.launcher
        launch = launcher.start(request, self._machine, log)
        limit_s = self._plan.limit_s
        if limit_s is None and request.time_limit_s is not None:
            limit_s = 2 * request.time_limit_s + START_SECONDS
        lines = display.shows_lines(self._plan)
        with display.following(training.title, request, lines=lines, rest=self._rest_s) as (
            on_line,
            on_step,
        ):

            def on_message(message: Message) -> None:
                training.hear(message, self._stops)
                on_step(message)

            if launcher.logged:
                on_line = training_files.follower(on_line, on_message)
            console.debug(f"command: {launch.shell_line()}")
            console.debug(f"log: {short_path(log)}")
            variables = self._variables(training.index)
            if request.rendezvous is not None:
                variables |= nodes.variables(request.num_nodes, self._nodes_folder())
            child = process.run(
                launch,
                log,
                on_line=on_line,
                on_message=on_message,
                limit_s=limit_s,
                variables=variables,
                stops=lambda: training.is_stopped or training.cut is not None,
            )
        if child.interrupted:
            training.cut = None
        elif training.cut is not None:
            child = dataclasses.replace(child, status=0)
        why = outcome.why_stopped(
            interrupted=child.interrupted, overdue=child.overdue, limit_s=limit_s
        )
        if launcher.logged and why is not None:
            # The result is made from the log, which doesn't show it.
            with contextlib.suppress(OSError), log.open("a", encoding="utf-8") as file:
                file.write(f"ERROR: TensorPrimat: {why}\n")
        return child

    def _take(self, training: _Training, run: Run, path: Path, history: set[Path]) -> None:
        """Add a run that left a result, and print how it went."""
        summary = self._keep(training.index, run, path)
        for moved in sorted(set((path.parent / HISTORY).glob("*.json")) - history):
            console.note(f"existing file moved to {short_path(moved)}")
        rest_s = self._rest_s(time.monotonic() - self._began)
        line = display.outcome(training.title, run, summary, rest_s)
        if display.shows_lines(self._plan):
            console.debug(line)
        else:
            console.info(line)
        display.figures(training.framework.launcher.figures(run, summary))
        for epoch in run.epochs:
            console.debug(", ".join(f"{name} {value}" for name, value in epoch.items()))
        events = [event for event in run.telemetry.issues if event.severity == "warning"]
        for event in events[:MOST_EVENTS]:
            console.note(event.sentence, weakens=True)

    def _keep(self, index: int, run: Run, path: Path) -> Summary:
        """Add a run that left a result."""
        if short_path(path) not in self.files:
            self.files.append(short_path(path))
        summary = summarize(run)
        self.runs[index].append((run, summary))
        console.record(run, short_path(path))
        return summary

    def _variables(self, index: int) -> dict[str, str]:
        """Return the environment by which a run gets the fields of its result that only the command
        knows.
        """
        stated = Known(self._digests[index], self._plan.tuning, self._plan.arguments)
        return {
            progress.SESSION: f"{self._id}/{self._round}",
            progress.KNOWN: msgspec.json.encode(stated).decode(),
        }

    def _keep_failure(self, index: int, why: str | None) -> None:
        """Write the result of a training that failed before it could, so that --resume knows of
        it.
        """
        request = self._requests[index]
        info = self._machine.gpu_info.but(device_count=request.num_gpus)
        run = attempt.failed(request, why, gpu_info=info, **progress.given(self._variables(index)))
        self._keep(index, run, store.save(run, request.output_dir).path)

    def _judge_complete(self, training: _Training, path: Path, child: ProcessResult) -> None:
        """Print the problem of a training that failed although its result is complete."""
        output_dir = training.request.output_dir
        if output_dir.resolve() not in path.resolve().parents:
            # What was asked for is not where it was asked for.
            self.failures += 1
            console.error(
                f"error: {training.title}: {short_path(output_dir)} can't be written; the result is"
                f" in {path}",
                see="unwritable-directory",
            )
        elif child.status:
            console.note(
                f"process exited with status {child.status} after the result was written; log:"
                f" {training.log}",
                weakens=True,
            )
            self.failures += self._plan.stops_at_failure

    def _rest_s(self, seconds: float) -> float:
        """Return how long the runs after the current one will take, s, if the current one takes
        `seconds`.
        """
        return self._left * (statistics.fmean([*self._durations, seconds]) + self._plan.cooldown_s)

    def _cool_down(self) -> bool:
        """Rest; return False if the user interrupts it."""
        seconds = self._plan.cooldown_s
        if not seconds:
            return True
        console.info(f"waiting {seconds:g} s")
        try:
            time.sleep(seconds)
        except KeyboardInterrupt:
            self.interrupted = True
            self.status = process.INTERRUPTED
        return not self.interrupted


def _with_process(run: Run, path: Path, child: ProcessResult) -> StoredRun:
    """Add to a run that ended without a cause how its process did, which neither its log nor its
    journal can know.
    """
    if not child.status or run.ending is None or run.ending.kind != "cut_off":
        return run, path
    status, reason, ending = outcome.of_process(
        child.status, interrupted=child.interrupted, overdue=child.overdue
    )
    changes: FieldValues = {"ending": ending}
    if child.overdue or not (child.interrupted or -child.status in KILLING):
        # --resume repeats runs that were killed from outside, but not failed ones.
        changes |= {"status": status, "status_reason": f"{run.status_reason}; {reason}"}
    return store.amend(path, store.fingerprint(run), **changes) or run, path


def show(plan: Plan, machine: Machine) -> None:
    """Print the runs of a session without starting them."""
    display.introduce(plan, machine)
    sweep.introduce(plan, machine, sweep.found(plan, machine) if plan.resumes else {})
    display.show(plan, sweep.result_files(plan, machine))


def measure(plan: Plan, machine: Machine) -> tuple[ExitStatus, list[Path]]:
    """Run the runs of a plan; the exit status and the result files.

    The tasks of a Slurm step print into one log, so only the first one prints. Its status counts:
    it sees each training fail too.
    """
    first = plan.requests[0]
    is_first = (
        first.rendezvous is None or first.node_index == 0 or "SLURM_STEP_ID" not in os.environ
    )
    if not is_first:
        console.leave_to_another()
    display.introduce(plan, machine)
    session = Session(plan, machine)
    if not session.is_ready():
        return ExitStatus.USAGE, []
    session.run()
    session.sum_up()
    failed = is_first and (session.interrupted or session.failures)
    return ExitStatus.TRAINING_FAILED if failed else ExitStatus.OK, session.files
