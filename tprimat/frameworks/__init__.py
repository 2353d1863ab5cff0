"""Frameworks that can train: each turns a request into a command, and runs nothing itself."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator

from tprimat.errors import INSTALL, UsageError, lacking, missing_package
from tprimat.frameworks.framework import REQUIRED, Framework
from tprimat.results.run import Platform
from tprimat.text import suggestion

_PREFERRED = ("megatron_bridge", "nemo", "primus", "lightning", "transformers", "fsdp", "deepspeed")
"""Directories whose rows come first; the others follow by name."""


def _rows() -> Iterator[Framework]:
    """Yield each Framework that the __init__.py of a directory here defines; these files import
    nothing heavy.
    """
    folders = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
    for folder in dict.fromkeys((*_PREFERRED, *folders)):
        for defined in vars(importlib.import_module(f"{__name__}.{folder}")).values():
            if isinstance(defined, Framework):
                yield defined


FRAMEWORKS: tuple[Framework, ...] = tuple(_rows())
"""Where no framework is named, the first is used that can run here, may be used unnamed, and suits
the request.
"""

ALL = "all"
GROUPS = {
    "deepspeed": tuple(
        framework.name for framework in FRAMEWORKS if framework.folder == "deepspeed"
    )
}
"""Names that mean several frameworks."""


def by_name(name: str) -> Framework:
    """Return the row of a name, in which a dash may stand for an underscore. Raises UsageError for
    an unknown name.
    """
    rows = {_plain(framework.name): framework for framework in FRAMEWORKS}
    if _plain(name) not in rows:
        every = [*(framework.name for framework in FRAMEWORKS), *GROUPS]
        hint = suggestion(name.lower(), every, f"choose from {', '.join(names())}")
        raise UsageError(f"unknown framework {name!r}", hint=hint, heading="no-framework")
    return rows[_plain(name)]


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def names() -> tuple[str, ...]:
    """Return the names of frameworks for the help text: a group once, with its first and last
    member.
    """
    texts = {}
    for group, members in GROUPS.items():
        for member in members:
            texts[member] = f"{group} (or {members[0]} to {members[-1].removeprefix(group)})"
    return tuple(
        dict.fromkeys(texts.get(framework.name, framework.name) for framework in FRAMEWORKS)
    )


def several(name: str | None) -> tuple[str, ...] | None:
    """Return the names that a user's words mean, if they may be more than one; None for a single
    framework.

    `all` stays as it is: which those are depends on what can run.
    """
    if name is None:
        return None
    words = [word.strip().lower() for word in name.split(",")]
    names = [member for word in words for member in GROUPS.get(word, (word,))]
    if len(names) > 1 or names == [ALL]:
        return tuple(dict.fromkeys(names))
    return None


def none_can_train(reasons: str) -> UsageError:
    """Return the error if no framework can train: missing packages, if those are what to do
    something about.
    """
    absent = lacking(*REQUIRED)
    if absent:
        return missing_package(absent[0], INSTALL, "training")
    return UsageError(reasons, heading="no-framework")


def choose(
    name: str | None,
    platform: Platform = "cpu",
    *,
    to_show: bool = False,
    suits: Callable[[Framework], bool] = lambda framework: True,
) -> Framework:
    """Return the framework of a name, or the first that can run here and suits; if none suits, the
    first.

    With `to_show` nothing will be run, so that one which only can't run here may be used. Raises
    UsageError if none can be used; it lists those that can.
    """
    able = []
    cannot = {}
    for framework in FRAMEWORKS:
        reason = framework.unavailable()
        if reason is None:
            able.append(framework)
        else:
            cannot[framework.name] = reason
    if name is None:
        automatic = [framework for framework in able if platform in framework.automatic_on]
        if automatic:
            return next(filter(suits, automatic), automatic[0])
        problem = "no framework can train here"
        problem += "".join(f"; {framework}: {reason}" for framework, reason in cannot.items())
        problem += "".join(f"; --framework {framework.name} can" for framework in able)
        raise none_can_train(problem)
    chosen = by_name(name)
    if chosen in able or (to_show and chosen.launcher.plans_anywhere):
        return chosen
    available = ", ".join(framework.name for framework in able) or "none"
    raise UsageError(
        f"{chosen.name} is not available: {cannot[chosen.name]}",
        hint=f"available: {available} (tprimat doctor shows why)",
        heading="no-framework",
    )
