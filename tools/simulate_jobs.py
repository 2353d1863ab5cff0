#!/usr/bin/env python3
"""Simulate training jobs with crashes, requeues, evaluations and checkpoints; compare the accounts
of their logs.

    tools/simulate_jobs.py [--jobs 200] [--seed 0] [--write FOLDER]

The logs have the form of Megatron or torchtitan; nothing of the package that reads them is used to
make them. Prints the largest error of each part in percent of a job's wall time, and the jobs that
are off by more than 1%.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tprimat import read

BEGIN = datetime.datetime(2025, 11, 3, 7, 30, 0)
LIMIT = 0.01
"""Of a job's wall time: how far a part may be off."""
PARTS = ("start-up", "training", "evaluation", "checkpoint", "lost", "end")


@dataclasses.dataclass
class Job:
    """One simulated job while it runs.

    Attributes:
        form: megatron or torchtitan.
        now: seconds since it began.
        lines: of its log.
        truth: seconds by part.
        undone: training time since the last checkpoint, by step.
    """

    form: str
    chance: random.Random
    now: float = 0.0
    lines: list[str] = dataclasses.field(default_factory=list)
    truth: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    undone: dict[int, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        chance = self.chance
        self.steps = chance.choice([120, 240, 400])
        self.log_every = chance.choice([1, 5, 10])
        self.save_every = chance.choice([20, 25, 40, 60])
        self.eval_every = chance.choice([30, 40, 50, 1000])
        self.step_s = chance.choice([0.4, 1.7, 6.3, 21.0])
        self.noise = chance.choice([0.003, 0.01, 0.03])
        self.save_s = self.step_s * chance.choice([1.5, 4, 12]) + chance.uniform(1, 8)
        self.eval_s = self.step_s * chance.choice([3, 9]) + chance.uniform(2, 10)
        self.fine = chance.random() < 0.5
        self.timers = chance.random() < 0.6
        self.error_stamped = chance.random() < 0.5
        self.crashes = sorted(
            chance.sample(range(15, self.steps - 5), chance.choice([0, 1, 1, 2, 3]))
        )
        self.requeues = chance.random() < 0.3
        self.down_s = chance.uniform(60, 2400)

    def spend(self, part: str, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.truth[part] += seconds

    def stamp(self) -> str:
        """Return the time as the log has it."""
        time = BEGIN + datetime.timedelta(seconds=self.now)
        if self.form == "torchtitan":
            return time.strftime("%Y-%m-%d %H:%M:%S,") + f"{time.microsecond // 1000:03d}"
        return time.isoformat(" ", "microseconds" if self.fine else "seconds")

    def say(self, text: str) -> None:
        """Write a line: torchtitan's all have a time, Megatron's only where it is in the text."""
        prefix = (
            f"[rank0]:[titan] {self.stamp()} - root - INFO - " if self.form == "torchtitan" else ""
        )
        self.lines.append(prefix + text)

    def marked(self, text: str) -> None:
        """Write one of Megatron's lines with a date."""
        time = (BEGIN + datetime.timedelta(seconds=self.now)).strftime("%Y-%m-%d %H:%M:%S")
        self.lines.append(f"[{text}] datetime: {time} ")

    def run(self) -> None:
        """Run the job to its end, however often it starts."""
        done, saved, begun = 0, 0, 0
        while done < self.steps:
            begun += 1
            self.start(saved, is_first=begun == 1)
            crash = self.crashes.pop(0) if self.crashes else None
            done = saved
            since_s, since, in_log = self.now, done, 0.0
            while done < self.steps:
                seconds = (
                    self.step_s
                    * max(0.3, self.chance.gauss(1, self.noise))
                    * (8 if done == saved and not in_log else 1)
                )
                in_log = 1.0
                self.spend("training", seconds)
                self.timed = getattr(self, "timed", 0.0) + seconds
                done += 1
                self.undone[done] = self.undone.get(done, 0.0) + seconds
                first = self.form == "torchtitan" and done == 1
                if done % self.log_every == 0 or first:
                    self.record(done, since, since_s)
                    since, since_s, self.timed = done, self.now, 0.0
                if self.form == "torchtitan":
                    if done % self.save_every == 0:
                        saved = self.save(done)
                    if done % self.eval_every == 0:
                        self.evaluate(done)
                        since, since_s = done, self.now
                else:
                    if done % self.eval_every == 0:
                        self.evaluate(done)
                    if done % self.save_every == 0:
                        saved = self.save(done)
                if (
                    self.requeues
                    and saved == done
                    and done == 3 * self.save_every
                    and done < self.steps
                ):
                    self.requeues = False
                    if self.form == "megatron":
                        self.marked(f"exiting program at iteration {done}")
                    self.rest(done, crashed=False)
                    break
                if crash is not None and done >= crash:
                    self.rest(done, crashed=True)
                    break
        self.finish(done, saved)

    def start(self, saved: int, *, is_first: bool) -> None:
        """Start a process."""
        init, build, load = (
            self.chance.uniform(5, 30),
            self.chance.uniform(5, 40),
            self.chance.uniform(1, 20),
        )
        for step in [step for step in self.undone if step > saved]:
            seconds = self.undone.pop(step)
            self.truth["training"] -= seconds
            self.truth["lost"] += seconds
        self.timed = 0.0
        if self.form == "torchtitan":
            self.say("Starting job: Llama 3 8B training")
            self.spend("start-up", init)
            self.say("Building llama3 8B with TransformerModelArgs(dim=4096, n_layers=32)")
            self.spend("start-up", build)
            if saved:
                self.say(f"Loading the checkpoint from outputs/checkpoint/step-{saved}.")
                self.spend("start-up", load)
                self.say(f"Finished loading the checkpoint in {load:.2f} seconds.")
            self.say(f"Training starts at step {saved + 1}")
            return
        self.say(
            "using world size: 64, data-parallel size: 8, tensor-model-parallel size: 8, pipeline"
            " size: 1"
        )
        self.say("------------------------ arguments ------------------------")
        for name, value in (
            ("num_layers", 32),
            ("hidden_size", 4096),
            ("num_attention_heads", 32),
            ("seq_length", 4096),
        ):
            self.say(f"  {name} {'.' * (46 - len(name))} {value}")
        self.say("-------------------- end of arguments ---------------------")
        if is_first:
            self.now += init  # the log begins with its first time
        else:
            self.spend("start-up", init)
        self.say(f"time to initialize megatron (seconds): {init:.3f}")
        self.began = getattr(self, "began", self.now)
        self.marked("after megatron is initialized")
        self.spend("start-up", build)
        if saved:
            self.spend("start-up", load)
            self.say(
                f"  successfully loaded checkpoint from /ckpt [ t 1/8, p 1/1 ] at iteration {saved}"
            )
        self.marked("before the start of training step")

    def record(self, step: int, since: int, since_s: float) -> None:
        """Write the line of a step."""
        loss = 11 - 8 * step / (step + 50)
        if self.form == "torchtitan":
            rate = 16384 * (step - since) / (self.now - since_s)
            self.say(
                f"step: {step:2}  loss: {loss:7.4f}  grad_norm:  1.2345  memory: 60.55GiB(76.45%) "
                f" tps: {rate:,.0f}  tflops: 401.22  mfu: 40.57%"
            )
            return
        self.say(
            f" [{self.stamp()}] iteration {step:8d}/{self.steps:8d} | consumed samples:"
            f" {step * 512:12d} | elapsed time per iteration (ms):"
            f" {1e3 * self.timed / (step - since):.1f} | throughput per GPU (TFLOP/s/GPU): 412.0 |"
            f" learning rate: 1.0E-04 | global batch size:   512 | lm loss: {loss:.6E} | loss"
            " scale: 1.0 | grad norm: 1.234 | number of skipped iterations:   0 | number of nan"
            " iterations:   0 |"
        )

    def evaluate(self, step: int) -> None:
        """Evaluate after a step."""
        seconds = self.eval_s * self.chance.uniform(0.95, 1.05)
        self.spend("evaluation", seconds)
        if self.form == "torchtitan":
            self.say(
                f"validate step: {step:2}  loss:  3.2100  memory: 50.11GiB(63.27%)  tps: 12,345"
            )
            return
        if self.timers:
            self.say("(min, max) time across ranks (ms):")
            self.say(f"    evaluate {'.' * 55}: ({1e3 * seconds - 0.4:.2f}, {1e3 * seconds:.2f})")
        text = (
            f" validation loss at iteration {step} | lm loss value: 3.210000E+00 | lm loss PPL:"
            " 2.477909E+01 | "
        )
        for line in ("-" * len(text), text, "-" * len(text)):
            self.say(line)

    def save(self, step: int) -> int:
        """Save a checkpoint after a step, which it returns."""
        seconds = self.save_s * self.chance.uniform(0.9, 1.2)
        if self.form == "torchtitan":
            self.say("Saving the checkpoint (or staging if async is enabled).")
            self.spend("checkpoint", seconds)
            self.say(
                f"Finished saving the checkpoint (or staging if async is enabled)in {seconds:.2f}"
                " seconds."
            )
        else:
            self.say(f"saving checkpoint at iteration {step:7d} to /ckpt in torch_dist format")
            self.spend("checkpoint", seconds)
            self.say(
                f"  successfully saved checkpoint from iteration {step:7d} to /ckpt [ t 1/8, p"
                " 1/1 ]"
            )
            self.say("(min, max) time across ranks (ms):")
            self.say(
                f"    save-checkpoint {'.' * 48}: ({1e3 * seconds - 7:.2f}, {1e3 * seconds:.2f})"
            )
        self.undone.clear()
        return step

    def rest(self, step: int, *, crashed: bool) -> None:
        """Be down after a crash, or between two jobs."""
        if crashed and self.form == "torchtitan":
            self.say("Traceback (most recent call last):")
            self.lines.append(
                "[rank3]: RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:3690, remote process"
                " exited"
            )
        elif crashed:
            stamp = f"[{self.stamp()}] " if self.error_stamped else ""
            self.say(
                f"{stamp}[rank3]: RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:3690, remote"
                " process exited"
            )
            self.say("Traceback (most recent call last):")
        self.spend("lost", self.down_s * self.chance.uniform(0.5, 1.5))

    def finish(self, step: int, saved: int) -> None:
        """End the job."""
        if self.form == "torchtitan":
            if saved < step:
                self.save(step)
            self.spend("end", self.chance.uniform(1, 6))
            self.say("Training completed")
            return
        self.marked("after training is done")
        if saved < step:
            self.save(step)
        self.spend("end", self.chance.uniform(1, 6))
        self.marked(f"exiting program at iteration {step}")


def simulate(number: int, seed: int = 0) -> tuple[str, dict[str, float]]:
    """Return the log of a job, and the seconds of its parts."""
    chance = random.Random(f"{seed}/{number}")
    job = Job("megatron" if number % 2 else "torchtitan", chance)
    job.run()
    return "\n".join(job.lines) + "\n", {
        part: round(seconds, 3) for part, seconds in job.truth.items()
    }


def errors(content: bytes, truth: dict[str, float]) -> dict[str, float]:
    """Return the error of each part of a log, as shares of its wall time."""
    found = dict.fromkeys((*truth, "unknown"), 0.0)
    logs = read.parse_chunks([content], "job.log")
    if len(logs) == 1:
        for entry in logs[0].run().timeline:
            found[entry.kind] += entry.duration
    whole = sum(truth.values())
    return {part: (seconds - truth.get(part, 0.0)) / whole for part, seconds in found.items()}


def main() -> int:
    """Compare the account of each job with what it spent its time on; return 1 where one is off."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="keep the logs")
    options = parser.parse_args()
    worst: dict[str, float] = {}
    bad = 0
    for number in range(options.jobs):
        name = f"job_{number:03d}.log"
        text, truth = simulate(number, options.seed)
        if options.write:
            options.write.mkdir(parents=True, exist_ok=True)
            (options.write / name).write_text(text)
        off = errors(text.encode(), truth)
        worst = {part: max(worst.get(part, 0.0), abs(share)) for part, share in off.items()}
        if any(abs(share) > LIMIT for share in off.values()):
            bad += 1
            print(
                name,
                {part: f"{share:+.2%}" for part, share in off.items() if abs(share) > LIMIT / 2},
            )
    print("largest errors:", {part: f"{share:.2%}" for part, share in worst.items()})
    print(f"{options.jobs - bad} of {options.jobs} jobs within {LIMIT:.0%} in every part")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
