"""Compare the compute of two runs: every setting that costs time, and which headlines it allows.

Speeds may be compared when the work per token is the same. What else differs doesn't forbid a
comparison of two platforms each at its best; it is listed.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from tprimat.checks.settings import SETTINGS, Setting
from tprimat.results.run import Run

Standing = Literal["equal", "different", "unknown", "disqualifying"]
Mode = Literal["max", "identical"]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A setting; values in the order of the systems."""

    title: str
    standing: Standing
    values: tuple[str | None, str | None]


@dataclasses.dataclass(frozen=True)
class ConfigDiff:
    """All settings of two runs side by side.

    Attributes:
        entries: one for each setting, the most severe first.
        verdict: what the headline may say of the configurations.
    """

    entries: tuple[Entry, ...]
    verdict: Literal["identical configuration", "maximum performance", "not comparable"]

    def of(self, standing: Standing) -> tuple[Entry, ...]:
        """Return the entries of one standing."""
        return tuple(entry for entry in self.entries if entry.standing == standing)


_BY_SEVERITY: tuple[Standing, ...] = ("disqualifying", "different", "unknown", "equal")


def ledger(first: Run, second: Run, *, mode: Mode = "max") -> ConfigDiff:
    """Compare the settings of two runs; "identical" makes every difference of configuration disqualifying."""
    entries = [_entry(setting, first, second, mode) for setting in SETTINGS]
    decisive = [entry for setting, entry in zip(SETTINGS, entries, strict=True) if setting.identity]
    entries.sort(key=lambda entry: _BY_SEVERITY.index(entry.standing))
    standings = {entry.standing for entry in decisive}
    if "disqualifying" in standings:
        return ConfigDiff(tuple(entries), "not comparable")
    # What one alone states can't be called identical. What neither states is listed as unknown.
    one_sided = any(entry.standing == "unknown" and entry.values != (None, None) for entry in decisive)
    if "different" in standings or one_sided:
        return ConfigDiff(tuple(entries), "maximum performance")
    return ConfigDiff(tuple(entries), "identical configuration")


def _entry(setting: Setting, first: Run, second: Run, mode: Mode) -> Entry:
    values = (setting.read(first), setting.read(second))
    same = values[0] == values[1] if setting.same is None else setting.same(first, second)
    standing: Standing = "different"
    if None in values and (same or setting.same is None):
        standing = "unknown"
    elif same:
        standing = "equal"
    elif setting.forbids or (mode == "identical" and setting.identity):
        standing = "disqualifying"
    return Entry(setting.title, standing, values)
