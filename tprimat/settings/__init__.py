"""What a training can choose, or in what two runs can differ: a row each.

Imports nothing of ours, so that options, readers and checks can all use the rows. What a row can't hold, such as
a value made of several fields, is named in the row and bound where it is computed: see checks/settings.py.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

Role = Literal["forbids", "explains", "differs", "harmless"]
"""What a difference means: "forbids": other work per token, so that speeds don't compare; "explains": it can explain
the result, so the reader is warned with both values; "differs": another configuration, which is listed; "harmless": it
costs no time, or is what is compared, and is listed for information."""

Within = Literal["any", "device", "framework"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of a training, or of the machine that it ran on.

    Attributes:
        title: what a table shows.
        fields: where it lives in a Run: timing.clock. Several fields make one text; a name that ends in * stands
            for all that begin so.
        value: name of the function that makes the text of several fields; "" for the field itself.
        same: name of the function that says whether two runs agree; "" where equal texts mean it.
        unit: of the field, in words.
        null: what an unknown value means; "" where it means just that.
        role: what a difference means.
        within: two runs for which a difference can explain anything: any two, or only those on one device or of one
            framework. Between others it is listed.
        configured: whether it is a part of a training's configuration. Machine and software, which are what is
            compared, and what follows from other settings are not.
        essential: without it nobody knows whether two systems did the same work or timed the same
            thing, so it is listed even where none states it.
        named: whether a system may be called by it.
        optional: whether it is left out where neither states it, since few frameworks do.
        why: the reason for a harmless one.
    """

    title: str
    fields: tuple[str, ...]
    value: str = ""
    same: str = ""
    unit: str = ""
    null: str = ""
    role: Role = "differs"
    within: Within = "any"
    configured: bool = True
    essential: bool = False
    named: bool = True
    optional: bool = False
    why: str = ""
