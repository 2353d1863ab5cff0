"""The argument parser of all commands, and the options that all of them have."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import sys
import textwrap
from typing import Any, NoReturn

from tprimat import __version__
from tprimat.errors import ExitStatus, UsageError
from tprimat.text import suggestion

OF_TRAININGS = {
    "quiet": "print only result paths, one per line",
    "verbose": "print commands, versions, settings and all notes",
    "json": "print JSON: results, notes, exit status",
}
"""Help texts of the three options in commands that train."""


MOST_USED = "most used"
LONGEST_HELP = 60
"""Most lines of a help text that --help shows in full. If it is longer, --help explains the most
used options and only names the others.
"""


class _Formatter(argparse.HelpFormatter):
    """Fills paragraphs; an indented line keeps its indentation and continues below its last
    column.
    """

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        filled = []
        for is_prose, lines in itertools.groupby(
            text.rstrip().splitlines(), lambda line: line[:1].strip() != ""
        ):
            if is_prose:
                filled += textwrap.wrap(" ".join(lines), width, break_on_hyphens=False)
                continue
            for line in lines:
                column = max(
                    (gap.end() for gap in re.finditer(r"(?:^|\S) {2,}(?=\S)", line)), default=0
                )
                filled += textwrap.wrap(
                    line, width, subsequent_indent=" " * column, break_on_hyphens=False
                ) or [""]
        return "\n".join(filled)


class Options(argparse._ActionsContainer):
    """A parser or a group, to which options are added."""

    def option(self, usage: str, text: str, **settings: Any) -> None:
        """Add an option, with its help text and further arguments of add_argument().

        `usage` is what the help shows, such as "--runs N". An option without a value, such as
        "--dry-run", is True if it is given.
        """
        words = usage.split()
        names = [word for word in words if word.startswith("-")]
        if len(words) > len(names):
            settings["metavar"] = words[-1]
        elif "choices" not in settings:
            settings.setdefault("action", "store_true")
        if settings.get("nargs") == "+":
            # A repeated option adds to its values: by default argparse silently drops the earlier
            # ones.
            settings["action"] = "extend"
        self.add_argument(*names, help=text, **settings)

    def add_argument_group(self, *texts: Any, **settings: Any) -> Group:
        """Return a new group, as argparse does."""
        group = Group(self, *texts, **settings)
        self._action_groups.append(group)
        return group

    def add_mutually_exclusive_group(self, **settings: Any) -> OneOf:
        """Return a new group, as argparse does; only one of its options may be given."""
        group = OneOf(self, **settings)
        self._mutually_exclusive_groups.append(group)
        return group


class Group(Options, argparse._ArgumentGroup):
    """A group with a title."""


class OneOf(Options, argparse._MutuallyExclusiveGroup):
    """A group of options of which only one may be given."""


class Parser(Options, argparse.ArgumentParser):
    """The parser of a command. It raises UsageError for wrong arguments.

    Args:
        command: its name, for the usage line; replaced by the shell or Python script that calls it.
        hint: appended to the error message.
        passes: whether the arguments after -- are for another program; they are kept as `passed`.
        settings: those of argparse. Options can't be abbreviated by default. In the epilog, a name
            of ExitStatus in braces is replaced by its number.
    """

    def __init__(
        self, command: str, *, hint: str = "", passes: bool = False, **settings: Any
    ) -> None:
        settings.setdefault("prog", os.environ.get("TPRIMAT_SCRIPT") or program(command))
        settings.setdefault("formatter_class", _Formatter)
        settings.setdefault("allow_abbrev", False)
        settings["epilog"] = settings.get("epilog", "").format_map(ExitStatus.__members__)
        super().__init__(**settings)
        self.add_argument(
            "--version",
            action="version",
            version=f"tprimat {__version__}",
            help="print the version",
        )
        self._hint = f"{hint}; " if hint else ""
        self._passes = passes
        self._explains_all = True

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, and keep the arguments as `argv`."""
        words = list(sys.argv[1:] if args is None else args)
        self._explains_all = "--verbose" in words
        cut = words.index("--") if self._passes and "--" in words else len(words)
        options = super().parse_args(words[:cut], namespace)
        options.argv = tuple(words[:cut])
        if self._passes:
            options.passed = tuple(words[cut + 1 :])
        return options

    def flags(self) -> set[str]:
        """Return the options."""
        return {flag for action in self._actions for flag in action.option_strings}

    def most_used(self) -> Group:
        """Return a new group that the help shows first."""
        group = self.add_argument_group(MOST_USED)
        self._action_groups.insert(0, self._action_groups.pop())
        return group

    def print_help(self, file: Any = None) -> None:
        """Print the help; with --verbose, the complete one."""
        whole = self.format_help()
        if (
            self._explains_all
            or whole.count("\n") <= LONGEST_HELP
            or self._action_groups[0].title != MOST_USED
        ):
            return self._print_message(whole, file or sys.stdout)
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for group in self._action_groups:
            names = []
            for action in group._group_actions:
                if action.help != argparse.SUPPRESS and action.option_strings:
                    names.append(action.option_strings[-1])
            formatter.start_section(group.title)
            if group.title == MOST_USED:
                formatter.add_arguments(group._group_actions)
            elif names:
                formatter.add_text(f"  {' '.join(names)}")
            formatter.end_section()
        formatter.add_text(f"`{self.prog} --help --verbose` explains all of them.")
        return self._print_message(formatter.format_help(), file or sys.stdout)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError; for an unknown option, with the option that may be meant."""
        hint = f"{self.prog} --help lists the options"
        if unknown := re.match(r"unrecognized arguments: (?:.* )?(--[\w-]+)", message):
            shown = [action for action in self._actions if action.help != argparse.SUPPRESS]
            name = "--cost" if unknown[1] in ("--price", "--prices") else unknown[1]
            hint = suggestion(
                name, [flag for action in shown for flag in action.option_strings], hint
            )
        if word := re.fullmatch(r"unrecognized arguments: (\w+)", message):
            for action in self._actions:
                if "--model" not in action.option_strings or not action.type:
                    continue
                with contextlib.suppress(argparse.ArgumentError):
                    self._get_value(action, word[1])
                    hint = f"did you mean --model {word[1].lower()}?"
        raise UsageError(
            message.removeprefix("argument "), heading="wrong-usage", hint=self._hint + hint
        )

    def add_output_options(
        self, names: bool = True, /, *, quiet: str, verbose: str, json: str
    ) -> None:
        """Add --quiet, --verbose and --json, of which one may be given, with their help texts.

        If `names`, what the command writes may contain the name of a machine, and it also has
        --include-host.
        """
        group = self.add_mutually_exclusive_group()
        group.option("--quiet", quiet)
        group.option("--verbose", verbose)
        group.option("--json", json)
        if names:
            self.option(
                "--include-host",
                "keep the names of hosts, users and directories in what is written",
            )


def program(command: str) -> str:
    """Return the name of this program in the usage line: the script's, or `tprimat COMMAND`."""
    name = sys.argv[0].replace("\\", "/").rpartition("/")[2]
    if name.endswith(".py") and name != "__main__.py":
        return name
    return f"tprimat {command}"
