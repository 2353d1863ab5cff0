"""What a training can choose, or in what two runs can differ: a row each.

Imports nothing of ours, so that options, launchers, readers and checks can all use the rows. What a
row can't hold, such as a value made of several fields, is named in the row and bound where it is
computed: see checks/settings.py. What a framework does with a setting that was left open is decided
by its Resolver.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Literal, NamedTuple

Role = Literal["forbids", "explains", "differs", "harmless"]
"""What a difference means: "forbids": other work per token, so that speeds don't compare;
"explains": it can explain the result, so the reader is warned with both values; "differs": another
configuration, which is listed; "harmless": it costs no time, or is what is compared, and is listed
for information.
"""

Within = Literal["any", "device", "framework"]
Kind = Literal["count", "number", "seed", "word", "name", "file"]
Column = Literal[
    "megatron",
    "megatron_log",
    "torchtitan",
    "nemo",
    "megatron_bridge",
    "automodel",
    "scripts",
    "hparams",
    "transformers",
    "mlperf",
    "deepspeed",
]

_DICTIONARIES = ("framework_config.", "energy_metrics.", "environment.versions.")
"""Parts of a Run whose keys are not fields."""


class Setting(NamedTuple):
    """A setting of a training, or of the machine that it ran on. No dataclass: every --help imports
    this.

    Several fields or names are in one text, with blanks between them; the first name is the one
    that is launched, the others are older or other spellings in logs.

    Attributes:
        title: its name in tables.
        field: where it lives in a Run: timing.clock. Several fields make one text; a name that ends
            in * stands for all that begin so.
        called: its key, if that isn't the last word of the first field.
        part: title of the row that shows this one; "" if it has a line of its own.
        label: how that row shows it, with {} for the value; "" if it doesn't.
        value: name of the function that makes the text of several fields; "" for the field itself.
        same: name of the function that returns whether two runs agree; "" if they agree when their
            texts are equal.
        unit: unit of the field, in words.
        null: what an unknown value means; "" if it means just that.
        role: the meaning of a difference, see Role.
        within: two runs for which a difference can explain anything: any two, or only those on one
            device or of one framework. Between others it is listed.
        configured: whether it is a part of a training's configuration. Machine and software, which
            are compared, and values that follow from other settings are not.
        essential: without it, it is unknown whether two systems did the same work or timed the same
            thing, so it is listed even if none states it.
        identity: whether another value makes another system; new software and tuned settings don't.
        named: whether a system may be called by it.
        phrase: how it is then called, with {} for the value; "" for title and value.
        optional: whether it is left out if neither states it, since few frameworks do.
        why: the reason for a harmless one.
        flag: its option of `benchmark`, as the help shows it; "" if a user can't choose it.
        help: help text of that option; parts in braces are filled in where the options are made.
        log_flag, log_help: those of the option that sets the value if a log lacks it.
        least: the least whole number that the option takes.
        choices: the values that it takes, the default first, where the built-in frameworks alone
            take it: such a setting is this row, its field of Request, and what their loops do.
        requested: the field of a Request, if that isn't the key.
        matched: whether --match takes it over.
        tuned: its part of a candidate's name in a search by --tune, with {} for the value; "" if
            none varies it.
        kind: that of its value in a log: a count from 1, a number, a seed from 0, a word or a name.
        megatron, torchtitan: its argument, which a launch takes and a log prints.
        megatron_log: an argument that only a log prints.
        nemo, megatron_bridge, automodel: fields of its recipe, by their paths; all of them are
            launched.
        scripts: options of training scripts, of transformers' Trainer and others.
        hparams: entries of Lightning's hparams.yaml.
        transformers: its entry in a model's configuration.
        mlperf, deepspeed: its name in their logs; of DeepSpeed's old Megatron.
    """

    title: str
    field: str
    called: str = ""
    part: str = ""
    label: str = ""
    value: str = ""
    same: str = ""
    unit: str = ""
    null: str = ""
    role: Role = "differs"
    within: Within = "any"
    configured: bool = True
    essential: bool = False
    identity: bool = False
    named: bool = True
    phrase: str = ""
    optional: bool = False
    why: str = ""
    flag: str = ""
    help: str = ""
    log_flag: str = ""
    log_help: str = ""
    least: int = 1
    choices: tuple[str, ...] = ()
    requested: str = ""
    matched: bool = False
    tuned: str = ""
    kind: Kind = "count"
    megatron: str = ""
    megatron_log: str = ""
    torchtitan: str = ""
    nemo: str = ""
    megatron_bridge: str = ""
    automodel: str = ""
    scripts: str = ""
    hparams: str = ""
    transformers: str = ""
    mlperf: str = ""
    deepspeed: str = ""

    def words(self, value: str) -> str:
        """Return the part of a system's name for this value: micro-batch 2, eager, no packing."""
        name = self.phrase or self.label or f"{self.title} {{}}"
        if value in ("True", "False", "none", "off"):
            return f"{'' if value == 'True' else 'no '}{name.format('').strip()}"
        # Not: flash attention attention.
        if name.startswith("{} ") and name[3:] in value:
            return value
        return name.format(value)

    @property
    def key(self) -> str:
        """What readers and the other code call it."""
        return self.called or self.field.partition(" ")[0].rpartition(".")[2]

    @property
    def request(self) -> str:
        """Its field of a Request and a RequestedConfig."""
        return self.requested or self.key

    def of(self, run: Any) -> Any:
        """Return its value in a Run, by the first of its fields that is known; None if none is."""
        for field in self.field.split():
            value = value_of(run, field)
            if value is not None:
                return value
        return None

    @property
    def option(self) -> str:
        """Its option without what stands for the value: --global-batch-size."""
        return self.flag.partition(" ")[0]


def value_of(run: Any, field: str) -> Any:
    """Return a field of a Run by its path, such as timing.clock or framework_config.attention."""
    owner, key = _path(field)
    if key is None:
        return owner(run)
    return owner(run).get(key)


@functools.cache
def _path(field: str) -> tuple[Any, str | None]:
    """Return what gets a field, and None; or what gets the dictionary that it is a key of, and the
    key.
    """
    for part in _DICTIONARIES:
        if field.startswith(part):
            return operator.attrgetter(part[:-1]), field.removeprefix(part)
    return operator.attrgetter(field), None
