"""Frameworks with their own training program, in a clone that a variable points to; measured by
their logs.

They initialize the weights and use data of their own. To add one, write a directory like megatron/
and a log format.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

from tprimat.errors import UsageError
from tprimat.frameworks.loops.launch import Loop, torchrun
from tprimat.frameworks.request import Launch, Request
from tprimat.frameworks.resolve import Resolver
from tprimat.machine.gpu import DRIVER_FILES


@dataclasses.dataclass(frozen=True)
class Clone:
    """A framework's program.

    Attributes:
        variable: names the directory of its clone.
        title: title of the framework, for messages.
        script: a file that such a clone has.
        data: the training's data, as a clause.
    """

    variable: str
    title: str
    script: str
    data: str

    def folder(self) -> Path:
        """Return the clone. Raises UsageError if the variable names none."""
        text = os.environ.get(self.variable, "").strip()
        folder = Path(text).expanduser().absolute()
        if text and (folder / self.script).is_file():
            return folder
        problem = f"set {self.variable} to a clone of {self.title}"
        if text:
            problem = (
                f"{self.variable}={text} has no {self.script}: set it to a clone of {self.title}"
            )
        raise UsageError(problem, heading="no-framework")

    def launch(
        self, request: Request, launcher: list[str], words: list[str], environment: dict[str, str]
    ) -> Launch:
        """Return the command: torchrun with its own options, one process a GPU, and the program
        with its options.
        """
        argv = (sys.executable, *torchrun(request), *launcher, *words)
        return Launch(argv, {"PYTHONUNBUFFERED": "1", **environment}, self.folder())


class ExternalResolver(Resolver):
    """The choices of such a framework: shown for made-up GPUs if there are none."""

    clone: Clone

    def prepare(self) -> None:
        """Find the clone, and a GPU."""
        self.clone.folder()
        self.show_for_gpus(self.clone.title)
        self.notes.append(
            f"{self.clone.data} and draws its own weights: its losses are not comparable with those"
            " of the frameworks that share tokens and weights"
        )


class LoggedTraining(Loop[Request]):
    """A training by the program in a clone, measured by its log."""

    clone: Clone
    logged = True
    plans_anywhere = True

    def unavailable(self) -> str | None:
        """Return why it can't train here and what to do; None if it can."""
        if not any(Path(file).exists() for files in DRIVER_FILES.values() for file in files):
            return f"{self.clone.title} needs a GPU, and this machine has none"
        try:
            self.clone.folder()
        except UsageError as error:
            return error.message
        return None
