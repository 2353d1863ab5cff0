"""Compare the compute of two runs: every setting that affects time, and which headlines it allows.

Speeds may be compared if the work per token is the same. Other differences are listed, but don't
prevent the comparison of two platforms, each with its best configuration.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Literal

from tprimat.checks import settings
from tprimat.results.run import Run
from tprimat.settings import Setting

Status = Literal["equal", "different", "unknown", "blocking"]
Mode = Literal["best", "same"]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A setting, with its values in the order of the systems; None if unknown.

    Attributes:
        explains: whether it differs and the difference can explain the result.
    """

    title: str
    status: Status
    values: tuple[str | None, str | None]
    explains: bool = False


@dataclasses.dataclass(frozen=True)
class ConfigDiff:
    """All settings of two runs side by side.

    Attributes:
        entries: one for each setting, the most severe first.
        verdict: what the headline may say about the configurations.
    """

    entries: tuple[Entry, ...]
    verdict: Literal["same configuration", "best configuration", "not comparable"]

    def of(self, status: Status) -> tuple[Entry, ...]:
        """Return the entries of one status."""
        return tuple(entry for entry in self.entries if entry.status == status)


_BY_SEVERITY = ("blocking", "different", "unknown", "equal")


def config_diff(first: Run, second: Run, *, mode: Mode = "best") -> ConfigDiff:
    """Compare the settings of two runs; "same" makes every difference of configuration blocking."""
    rows = settings.rows_of((first, second))
    every = []
    for setting, values in rows:
        every.append(_entry(setting, values, first, second, mode))
    none = (None, None)
    # What is compared (such as the GPU), and what costs no time, doesn't change the configuration.
    decisive = []
    for (setting, _), entry in zip(rows, every, strict=True):
        if entry.explains or (setting.role != "harmless" and setting.configured):
            decisive.append(entry)
    entries = []
    for (setting, _), entry in zip(rows, every, strict=True):
        if not setting.optional or entry.values != none:
            entries.append(entry)
    entries.sort(key=lambda entry: _BY_SEVERITY.index(entry.status))
    if any(entry.status == "blocking" for entry in decisive):
        return ConfigDiff(tuple(entries), "not comparable")
    # A setting that only one run states can't be called equal. One that neither states is listed as
    # unknown.
    if all(entry.status == "equal" or entry.values == none for entry in decisive):
        return ConfigDiff(tuple(entries), "same configuration")
    return ConfigDiff(tuple(entries), "best configuration")


def _entry(
    setting: Setting, values: tuple[str | None, ...], first: Run, second: Run, mode: Mode
) -> Entry:
    if setting.same:
        same = settings.agree(setting, first, second)
    else:
        same = values[0] == values[1]
    is_identity = setting.role != "harmless" and setting.configured
    status = "different"
    if None in values and (same or not setting.same):
        status = "unknown"
    elif same:
        status = "equal"
    elif setting.role == "forbids" or (mode == "same" and is_identity):
        status = "blocking"
    explains = (
        status == "different"
        and setting.role == "explains"
        and settings.applies(setting, first, second)
    )
    return _shared(setting.title, status, (values[0], values[1]), explains)


_shared = functools.lru_cache(maxsize=4096)(Entry)
"""Create an entry, cached: thousands of pairs share most entries."""
