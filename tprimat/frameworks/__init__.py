"""Frameworks that can train: each turns a request into a command, and runs nothing itself."""

from __future__ import annotations

import importlib.util

from tprimat.errors import INSTALL, UsageError, missing_package
from tprimat.frameworks.deepspeed import launch as deepspeed
from tprimat.frameworks.deepspeed.launch import DEEPSPEED
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.fsdp.launch import FSDP
from tprimat.frameworks.lightning.launch import LIGHTNING
from tprimat.frameworks.megatron.launch import MEGATRON
from tprimat.frameworks.nemo.launch import NEMO
from tprimat.frameworks.primus.launch import PRIMUS
from tprimat.frameworks.torchtitan.launch import TORCHTITAN
from tprimat.frameworks.transformers.launch import TRANSFORMERS
from tprimat.results.run import Platform

FRAMEWORKS: tuple[Framework, ...] = (
    NEMO,
    LIGHTNING,
    TRANSFORMERS,
    FSDP,
    *DEEPSPEED,
    MEGATRON,
    TORCHTITAN,
    PRIMUS,
)
"""The first that can run here, and may without being named, is taken when nothing is said."""

ALL = "all"
GROUPS = {deepspeed.NAME: tuple(framework.name for framework in DEEPSPEED)}
"""Names that mean several frameworks."""


def several(name: str | None) -> tuple[str, ...] | None:
    """The names that a user's words mean, where they may be more than one; None for a single framework.

    `all` stays as it is: which those are depends on what can run.
    """
    if name is None:
        return None
    words = [word.strip().lower() for word in name.split(",")]
    names = [each for word in words for each in GROUPS.get(word, (word,))]
    return tuple(dict.fromkeys(names)) if len(names) > 1 or names == [ALL] else None


def none_can_train(reasons: str) -> UsageError:
    """Return the error where no framework can train; without torch that alone is what to do something about."""
    if importlib.util.find_spec("torch") is None:
        return missing_package("torch", INSTALL, "training")
    return UsageError(reasons, heading="no-framework")


def choose(name: str | None, platform: Platform = "cpu", *, to_show: bool = False) -> Framework:
    """The framework of a name, or the first that can run here.

    Args:
        name: what the user typed; None for whichever is the first.
        platform: what there is to train on.
        to_show: whether nothing will be run, so that one which only can't run here may be taken.

    Raises UsageError, which says what can run here and why the others can't.
    """
    reasons = {framework.name: framework.unavailable() for framework in FRAMEWORKS}
    able = [framework for framework in FRAMEWORKS if reasons[framework.name] is None]
    can = f"{', '.join(framework.name for framework in able) or 'none'} can run here"
    cannot = "".join(f"; {each} can't: {reason}" for each, reason in reasons.items() if reason is not None)
    if name is None:
        automatic = [framework for framework in able if platform in framework.automatic_on]
        if automatic:
            return automatic[0]
        named = "".join(f"; --framework {framework.name} can" for framework in able)
        raise none_can_train(f"no framework can train here{cannot}{named}")
    chosen = next((framework for framework in FRAMEWORKS if framework.name == name.lower()), None)
    if chosen is None:
        raise UsageError(f"there is no framework {name!r}: {can}{cannot}", heading="no-framework")
    if chosen not in able and not (to_show and chosen.plans_anywhere):
        raise UsageError(
            f"the framework {chosen.name} can't run here: {reasons[chosen.name]}; {can}", heading="no-framework"
        )
    return chosen
