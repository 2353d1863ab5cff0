"""Frameworks that can train: each turns a request into a command, and runs nothing itself."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from tprimat.errors import INSTALL, UsageError, missing_package
from tprimat.frameworks.framework import REQUIRED, Framework
from tprimat.results.run import Platform

FRAMEWORKS: tuple[Framework, ...] = (
    Framework(
        "megatron_bridge",
        trains="NVIDIA's Megatron-Bridge, its performance recipes",
        use_when="what NVIDIA recommends for its GPUs, in current containers",
        models=("llama", "qwen"),
        precisions=("bf16", "fp8", "mxfp8", "nvfp4"),
        automatic_on=("nvd",),
        on_cpu=False,
        divides=True,
        plans_anywhere=True,
        data="mock",
        profiles=True,
    ),
    Framework(
        "nemo",
        trains="NVIDIA's own recipes",
        use_when="what NVIDIA recommended until 2025; all three models",
        precisions=("bf16", "fp8", "mxfp8"),
        automatic_on=("nvd",),
        on_cpu=False,
        divides=True,
        plans_anywhere=True,
        data="mock",
        profiles=True,
    ),
    Framework(
        "primus",
        trains="AMD's own configurations, `$PRIMUS_PATH`",
        use_when="what AMD recommends for its GPUs",
        precisions=("bf16", "fp16", "fp8", "mxfp8", "mxfp4"),
        automatic_on=("amd",),
        on_cpu=False,
        full_size_only=True,
        matches_division=True,
        data="mock",
        logged=True,
    ),
    Framework(
        "lightning",
        trains="Lightning, DDP",
        use_when="the default; needs nothing beyond `requirements.txt`",
        packages=("torch", "lightning", "transformers"),
        embedded=True,
        automatic_on=("nvd", "amd", "cpu"),
        profiles=True,
        compiles=True,
        finds_micro_batch=True,
    ),
    Framework(
        "transformers",
        trains="`transformers.Trainer`, DDP",
        use_when="you train with the Trainer",
        packages=("torch", "transformers", "accelerate"),
        embedded=True,
    ),
    Framework(
        "fsdp",
        trains="PyTorch's FSDP2, `fully_shard`",
        use_when="the states don't fit on each GPU, and no further package is wanted",
        # fp16 would take a gradient scaler that knows of sharded gradients.
        precisions=("fp32", "bf16"),
        packages=("torch", "transformers"),
        embedded=True,
        compiles=True,
    ),
    *(
        Framework(
            f"deepspeed-zero{stage}",
            trains=f"DeepSpeed, ZeRO stage {stage}",
            use_when="you train with DeepSpeed, or want to know which stage",
            packages=("torch", "transformers", "deepspeed"),
            embedded=True,
        )
        for stage in (1, 2, 3)
    ),
    Framework(
        "automodel",
        trains="NVIDIA's NeMo Automodel, FSDP2",
        use_when="you train with Automodel",
        precisions=("bf16", "fp8"),
        on_cpu=False,
        plans_anywhere=True,
        data="mock",
    ),
    Framework(
        "megatron",
        trains="Megatron-LM's `pretrain_gpt.py`, `$MEGATRON_PATH`",
        use_when="the upper end of what NVIDIA's cards reach",
        precisions=("fp32", "bf16", "fp16", "fp8", "mxfp8"),
        on_cpu=False,
        plans_anywhere=True,
        data="mock",
        logged=True,
    ),
    Framework(
        "torchtitan",
        trains="torchtitan, `$TORCHTITAN_PATH`; Llama at full size",
        use_when="PyTorch's own reference",
        models=("llama",),
        precisions=("bf16",),
        on_cpu=False,
        full_size_only=True,
        plans_anywhere=True,
        data="c4_test",
        logged=True,
    ),
)
"""Where no framework is named, the first is used that can run here, may be used unnamed, and suits the request."""

ALL = "all"
GROUPS = {"deepspeed": tuple(framework.name for framework in FRAMEWORKS if framework.folder == "deepspeed")}
"""Names that mean several frameworks."""


def by_name(name: str) -> Framework:
    """Return the row of a name, in which a dash may stand for an underscore. Raises KeyError for an unknown name."""
    return {_plain(framework.name): framework for framework in FRAMEWORKS}[_plain(name)]


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def names() -> tuple[str, ...]:
    """Return what a user can type for a framework, for help: a group once, with its first and last member."""
    texts = {
        member: f"{group} (or {members[0]} to {members[-1].removeprefix(group)})"
        for group, members in GROUPS.items()
        for member in members
    }
    return tuple(dict.fromkeys(texts.get(framework.name, framework.name) for framework in FRAMEWORKS))


def several(name: str | None) -> tuple[str, ...] | None:
    """Return the names that a user's words mean, where they may be more than one; None for a single framework.

    `all` stays as it is: which those are depends on what can run.
    """
    if name is None:
        return None
    words = [word.strip().lower() for word in name.split(",")]
    names = [each for word in words for each in GROUPS.get(word, (word,))]
    return tuple(dict.fromkeys(names)) if len(names) > 1 or names == [ALL] else None


def none_can_train(reasons: str) -> UsageError:
    """Return the error where no framework can train: missing packages, where those are what to do something about."""
    absent = [package for package in REQUIRED if importlib.util.find_spec(package) is None]
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
    """Return the framework of a name, or the first that can run here and suits; if none suits, the first.

    With `to_show` nothing will be run, so that one which only can't run here may be used. Raises UsageError where
    none can be used; it lists those that can.
    """
    reasons = {framework.name: framework.unavailable() for framework in FRAMEWORKS}
    able = [framework for framework in FRAMEWORKS if reasons[framework.name] is None]
    available = f"available: {', '.join(each.name for each in able) or 'none'} (tprimat doctor shows why)"
    if name is None:
        automatic = [framework for framework in able if platform in framework.automatic_on]
        if automatic:
            return next(filter(suits, automatic), automatic[0])
        cannot = "".join(f"; {each}: {reason}" for each, reason in reasons.items() if reason is not None)
        named = "".join(f"; --framework {framework.name} can" for framework in able)
        raise none_can_train(f"no framework can train here{cannot}{named}")
    try:
        chosen = by_name(name)
    except KeyError:
        raise UsageError(f"unknown framework {name!r}", hint=available, heading="no-framework") from None
    if chosen in able or (to_show and chosen.plans_anywhere):
        return chosen
    raise UsageError(f"{chosen.name} is not available: {reasons[chosen.name]}", hint=available, heading="no-framework")
