"""The search of --tune: short trials of a model's settings by optuna, and the best few confirmed by
full runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import math
import os
import shlex
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tprimat import console, units
from tprimat.checks.endings import divergence
from tprimat.console import Verbosity
from tprimat.errors import ExitStatus, TrainingFailedError, missing_package
from tprimat.frameworks.search_space import Candidate, Space, name_of
from tprimat.machine.platforms import Machine
from tprimat.measure import closing, display, tuned_config
from tprimat.measure.plan import Plan
from tprimat.measure.session import Session
from tprimat.measure.tuned_config import Confirmed, Trial, TunedConfig
from tprimat.record.outcome import OUT_OF_MEMORY, is_out_of_memory
from tprimat.record.progress import Step
from tprimat.results.outcome import DIVERGED
from tprimat.results.run import Run, Tuning
from tprimat.store.history import TRIALS
from tprimat.text import counted, runnable

TRIAL_SHARE = 5
"""A trial has the steps of a full run divided by this."""

FEWEST_STEPS = 8
"""Fewest steps of a trial: the first ones are warm-up, and a median of fewer is no evidence."""

SEARCH_SHARE = 0.5
"""Share of the budget after which no trial begins: the rest is for confirming."""

PATIENCE = 12
"""Trials in succession without a faster setting after which the search ends."""

FINALISTS = 3
"""Candidates that are confirmed, besides the untuned one."""

RUNS = 3
"""Runs of each finalist by default."""

_ASKED = 20
"""How often optuna is asked for a setting that wasn't tried, before the next untried one is taken.
"""


class Tuner:
    """The search for a model's fastest configuration; trials and confirmation take up to `budget_s`
    seconds.

    Attributes:
        interrupted: whether the user has ended it.
    """

    def __init__(self, plan: Plan, space: Space, machine: Machine, budget_s: float) -> None:
        self._plan = plan
        self._space = space
        self._machine = machine
        self._budget_s = budget_s
        self._began = time.monotonic()
        self._default = space.candidates[0]
        request = self._default.request
        name = f"tuned_{request.platform}_{request.framework}_{request.model}.json"
        self._path = plan.output_dir / TRIALS / name
        folders = (
            self._path.with_name(f"{self._path.stem}_trials{number}")
            for number in itertools.count(1)
        )
        self._folder = next(folder for folder in folders if not folder.exists())
        self._optuna = _optuna()
        self._tried: dict[str, Trial] = {}
        self.interrupted = False
        # The seed of the training, so that a search can be repeated.
        sampler = self._optuna.samplers.TPESampler(
            seed=request.seed % 2**32, n_startup_trials=max(4, min(10, len(space.candidates) // 3))
        )
        pruner = self._optuna.pruners.MedianPruner(n_startup_trials=3)
        self._study = self._optuna.create_study(sampler=sampler, pruner=pruner)

    def run(self) -> Path | None:
        """Search, confirm, write the file of the configuration and return it; None if the user
        interrupts it.

        Raises TrainingFailedError if no setting can be trained.
        """
        for name, reason in self._space.excluded.items():
            console.debug(f"excluded: {name}: {reason}")
        self._search()
        if self.interrupted:
            return None
        finalists = self._finalists()
        session = self._confirm(finalists)
        self.interrupted = session.interrupted
        if self.interrupted:
            return None
        return self._conclude(finalists, session)

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def _failure(self, problem: str) -> TrainingFailedError:
        return TrainingFailedError(
            problem, hint=f"{display.short_path(self._folder)} has the logs", heading="tuning"
        )

    def _search(self) -> None:
        total = len(self._space.candidates)
        best = None
        since = 0
        for candidate, report in self._candidates():
            share = SEARCH_SHARE if best is not None else 1.0
            if since >= PATIENCE:
                self._note_untried(f"{since} in a row were no faster")
                break
            if self._elapsed_s > share * self._budget_s:
                self._note_untried(None)
                break
            trial = self._try(candidate, report)
            if self.interrupted:
                return
            self._tried[candidate.name] = trial
            is_best = trial.status == "complete" and (best is None or _time(trial) < _time(best))
            if is_best:
                best, since = trial, 0
            elif best is not None:
                since += 1
            # Should the search be ended before its end, its trials are known.
            self._write(None, ())
            outcome = trial.status
            if trial.step_time_seconds is not None:
                outcome = f"{units.seconds(trial.step_time_seconds)}/step, {trial.status}"
            line = f"trial {len(self._tried)} of {total}: {candidate.name}  {outcome}"
            if is_best:
                console.info(f"{line}, fastest so far")
            else:
                console.debug(line)

    def _note_untried(self, reason: str | None) -> None:
        """Print how many settings were not tried: for a reason, or as the budget is too short, and
        which would do.
        """
        total = len(self._space.candidates)
        tried = len(self._tried)
        if reason is None:
            enough_s = total * self._elapsed_s / tried / SEARCH_SHARE
            half = units.duration(SEARCH_SHARE * self._budget_s)
            reason = (
                f"trials may take half of the budget, {half}; for all of them: --budget"
                f" {math.ceil(enough_s / 60)}m"
            )
        console.note(
            f"{total - tried} of {counted(total, 'setting')} were not tried: {reason}", weakens=True
        )

    def _candidates(self) -> Iterator[tuple[Candidate, Any]]:
        """Yield each setting once, with optuna's trial: the untuned one first, then as optuna
        chooses.
        """
        waiting = {candidate.name: candidate for candidate in self._space.candidates}
        if self._default.setting.keys() != self._space.knobs.keys():
            # The training chooses a value itself, which is none of optuna's choices.
            yield waiting.pop(self._default.name), None
        else:
            self._study.enqueue_trial(dict(self._default.setting))
        while waiting:
            for _ in range(_ASKED):
                name, trial = self._asked()
                if name in waiting:
                    break
                earlier = self._tried.get(name)
                if earlier is None or earlier.status != "complete":
                    self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
                else:
                    self._study.tell(trial, earlier.step_time_seconds)
            else:
                candidate = next(iter(waiting.values()))
                self._study.enqueue_trial(dict(candidate.setting))
                name, trial = self._asked()
            yield waiting.pop(name), trial

    def _asked(self) -> tuple[str, Any]:
        """Return the name of the setting that optuna chooses, with its trial."""
        trial = self._study.ask()
        knobs = self._space.knobs
        return (
            name_of(
                {knob: trial.suggest_categorical(knob, values) for knob, values in knobs.items()}
            ),
            trial,
        )

    def _try(self, candidate: Candidate, report: Any) -> Trial:
        """Train a setting for a few steps, unless optuna ends it early."""
        began = time.monotonic()
        steps = min(
            candidate.request.steps, max(FEWEST_STEPS, candidate.request.steps // TRIAL_SHARE)
        )
        folder = self._folder / f"trial{len(self._tried) + 1:03d}"
        left = max(10.0, SEARCH_SHARE * self._budget_s - self._elapsed_s)
        limit_s = min(candidate.request.time_limit_s or left, left)
        request = self._space.request(candidate, folder, steps=steps, time_limit_s=limit_s)
        plan = dataclasses.replace(
            self._plan,
            requests=(request,),
            output_dir=folder,
            runs=1,
            cooldown_s=0.0,
            keeps_failures=True,
        )
        pruning = _Pruning(steps, report)
        session = Session(plan, self._machine, pruning)
        with _silent():
            session.run()
        self.interrupted = session.interrupted
        runs = session.runs[0]
        trial = _trial_of(
            candidate, runs[-1][0] if runs else None, pruning, time.monotonic() - began
        )
        if session.files:
            relative = os.path.relpath(Path.cwd() / session.files[-1], self._path.parent)
            trial = trial.but(result=Path(relative).as_posix())
        if report is not None and not self.interrupted:
            states = self._optuna.trial.TrialState
            if trial.status == "complete":
                self._study.tell(report, trial.step_time_seconds)
            elif trial.status == "pruned":
                self._study.tell(report, state=states.PRUNED)
            else:
                self._study.tell(report, state=states.FAIL)
        return trial

    def _finalists(self) -> list[Candidate]:
        """Return the settings to confirm: the fastest ones, and the untuned one."""
        trials = self._tried.values()
        measured = sorted((trial for trial in trials if trial.status == "complete"), key=_time)
        if not measured:
            reasons = dict.fromkeys(trial.reason or trial.status for trial in trials)
            raise self._failure(
                f"{self._default.request.model}: none of {counted(len(self._tried), 'candidate')}"
                f" could be trained: {'; '.join(list(reasons)[:3])}"
            )
        names = [trial.name for trial in measured]
        finalists = names[:FINALISTS]
        if self._default.name in names[FINALISTS:]:
            finalists.append(self._default.name)
        by_name = {candidate.name: candidate for candidate in self._space.candidates}
        return [by_name[name] for name in finalists]

    def _confirm(self, finalists: list[Candidate]) -> Session:
        """Measure the finalists in full, interleaved; fewer of them, or fewer runs, if the budget
        ends before.
        """
        runs = self._plan.runs if self._plan.runs > 1 else RUNS
        wanted = runs * len(finalists)
        left = self._budget_s - self._elapsed_s

        def seconds() -> float:
            return runs * sum(
                self._full_run_s(finalist) + self._plan.cooldown_s for finalist in finalists
            )

        while seconds() > left and runs > 1:
            runs -= 1
        while seconds() > left and len(finalists) > 2:
            # The untuned setting stays: how much the search gained is the point.
            finalists.pop(-2 if finalists[-1].name == self._default.name else -1)
        planned = runs * len(finalists)
        if planned < wanted:
            console.note(
                f"the budget leaves time for {planned} of {wanted} confirming runs", weakens=True
            )
        folder = self._folder / "confirmation"
        requests = [self._space.request(finalist, folder) for finalist in finalists]
        plan = dataclasses.replace(
            self._plan, requests=tuple(requests), output_dir=folder, runs=runs
        )
        console.info(
            f"confirming {counted(len(requests), 'candidate')}, {counted(runs, 'run')} each,"
            f" interleaved, about {units.duration(seconds())}"
        )
        session = Session(plan, self._machine)
        session.run()
        if not session.interrupted:
            console.info("")
            closing.results(plan, list(zip(requests, session.runs, strict=True)), session.files)
        return session

    def _full_run_s(self, candidate: Candidate) -> float:
        """Estimate the seconds of a full run: the start-up of its trial, and its steps."""
        trial = self._tried[candidate.name]
        start = max(0.0, trial.seconds - trial.steps * _time(trial))
        steps = candidate.request.steps * _time(trial)
        return start + min(steps, candidate.request.time_limit_s or steps)

    def _conclude(self, finalists: Sequence[Candidate], session: Session) -> Path:
        confirmed = []
        for candidate, runs in zip(finalists, session.runs, strict=True):
            rates = []
            for run, summary in runs:
                rate = summary.performance.tokens_per_second_per_gpu
                if rate and run.status == "complete" and not divergence(run):
                    rates.append(rate)
            mean = round(statistics.geometric_mean(rates), 3) if rates else None
            confirmed.append(
                Confirmed(name=candidate.name, runs=len(rates), tokens_per_second_per_gpu=mean)
            )
        best = max(confirmed, key=lambda one: one.tokens_per_second_per_gpu or 0.0)
        if not best.runs:
            raise self._failure("no candidate completed a full run")
        return self._write(finalists[confirmed.index(best)], confirmed)

    def _write(self, chosen: Candidate | None, confirmed: Sequence[Confirmed]) -> Path:
        """Write the file of the configuration; as long as none is chosen, write the trials next to
        their results.
        """
        excluded = []
        for name, reason in self._space.excluded.items():
            excluded.append(Trial(name=name, setting={}, status="excluded", reason=reason))
        tuning = Tuning(
            trials=len(self._tried),
            settings=len(self._space.candidates),
            varied=tuple(self._space.knobs),
            seconds=round(self._elapsed_s, 1),
            budget_seconds=self._budget_s,
            device_name=self._machine.gpu_info.device_name,
        )
        candidate = chosen or self._default
        config = TunedConfig(
            tuned_config=tuned_config.VERSION,
            chosen=candidate.name if chosen else "none",
            default=self._default.name,
            platform=candidate.request.platform,
            options=tuned_config.options_of(candidate.request, candidate.setting),
            tuning=tuning,
            confirmed=tuple(confirmed),
            trials=(*self._tried.values(), *excluded),
        )
        path = self._path if chosen else self._folder / "trials.json"
        tuned_config.write(config, path, keeps_earlier=chosen is not None)
        return path


class _Pruning:
    """Reports a trial's steps to optuna, and ends it if optuna decides so.

    At a third and two thirds of the steps, which all trials reach, so that they are compared at the
    same ones.
    """

    def __init__(self, steps: int, trial: Any) -> None:
        self.is_pruned = False
        self._trial = trial
        self._rungs = [max(3, steps // 3), max(5, 2 * steps // 3)]
        self.times: list[float] = []

    def __call__(self, step: Step) -> bool:
        if step.step > 1 and step.step_time:
            self.times.append(step.step_time)
        while (
            self._trial is not None and self.times and self._rungs and step.step >= self._rungs[0]
        ):
            self._trial.report(statistics.median(self.times), self._rungs.pop(0))
            self.is_pruned = self.is_pruned or bool(self._trial.should_prune())
        return self.is_pruned


def _trial_of(candidate: Candidate, run: Run | None, pruning: _Pruning, seconds: float) -> Trial:
    times = list(filter(None, run.step_times)) if run is not None else []
    # A training that is ended may not have written its own.
    times = times or pruning.times
    # The first quarter is warm-up.
    median = statistics.median(times[max(1, len(times) // 4) :]) if len(times) > 1 else None
    reason = run.status_reason if run is not None else "no result was written"
    status = "failed"
    diverged = divergence(run) if run is not None else None
    if diverged is not None:
        reason = DIVERGED[diverged.code]
    elif run is not None and run.status == "complete" and median is not None:
        status = "complete"
        reason = run.status_reason
    elif pruning.is_pruned:
        status = "pruned"
        reason = None
    elif is_out_of_memory(reason or ""):
        status = OUT_OF_MEMORY
    return Trial(
        name=candidate.name,
        setting=dict(candidate.setting),
        status=status,
        reason=reason,
        steps=len(times),
        step_time_seconds=median if status in ("complete", "pruned") else None,
        seconds=round(seconds, 3),
    )


def _time(trial: Trial) -> float:
    return trial.step_time_seconds or float("inf")


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Write the output of a trial's session only to its log: a failure of a candidate is a
    result.
    """
    encoder = console.current().encoder
    with (
        contextlib.redirect_stderr(io.StringIO()),
        console.capture_output(Verbosity.QUIET, encoder or (lambda: None)),
    ):
        yield


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise missing_package("optuna", 'pip install "optuna>=4"', "--tune") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def tune(plans: Sequence[tuple[Plan, Space]], machine: Machine, budget_s: float) -> ExitStatus:
    """Search the space of each model, with the same budget each; print the file of each
    configuration.
    """
    written = []
    status = ExitStatus.OK
    for plan, space in plans:
        request = space.candidates[0].request
        settings = counted(len(space.candidates), "setting")
        more = f", {len(space.excluded)} excluded" if space.excluded else ""
        console.info(
            f"\ntuning {request.model} with {request.framework}: {settings}{more},"
            f" {units.duration(budget_s)}"
        )
        console.debug(
            f"space: {'; '.join(f'{knob} {list(values)}' for knob, values in space.knobs.items())}"
        )
        if not Session(dataclasses.replace(plan, requests=(request,)), machine).is_ready():
            return ExitStatus.USAGE
        path = Tuner(plan, space, machine, budget_s).run()
        if path is None:
            console.error("interrupted: no configuration was chosen")
            status = ExitStatus.TRAINING_FAILED
            break
        written.append(display.short_path(path))
        console.current().paths.append(str(written[-1]))
    console.current().values["configurations"] = list(map(str, written))
    if written:
        console.info("")
        for path in written:
            console.info(f"Tuned:   {path}")
        console.info(
            runnable(
                f"Next:    ./benchmark.py --config {shlex.quote(str(written[0]))} --runs {RUNS}"
            )
        )
    return status
