"""The account of a run, by the warm-up rule of its summary: what Run.account() returns."""

from __future__ import annotations

from tprimat.analysis.account import account
from tprimat.analysis.summary import Summary, summarize
from tprimat.results.account import Account
from tprimat.results.run import Run


def account_of(run: Run, summary: Summary | None = None) -> Account | None:
    """Return the parts of a run's wall time, given its summary where that is known; None where nothing has a time."""
    return account(run, (summary or summarize(run)).steady.first_step)


Run.accountant = account_of
