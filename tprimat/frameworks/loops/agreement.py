"""How the processes of a training decide something together: as the first one does.

Through the key-value store that torch.distributed keeps beside its process groups, not through a
collective: that would wait for the GPU, and could come between those of the training itself.
"""

from __future__ import annotations

import datetime

from tprimat.record.ranks import Store

PATIENCE = datetime.timedelta(seconds=600)
"""How long the others wait for the first process, which may be compiling."""


class RankConsensus:
    """One line of questions, which every process asks in the same order.

    Args:
        store: of torch.distributed; None where there is none, and each process decides by itself.
        rank: which process this is.
        about: names the line of questions.
    """

    def __init__(self, store: Store | None, rank: int, about: str) -> None:
        self._store = store
        self._rank = rank
        self._about = about
        self._asked = 0

    def __call__(self, own: bool) -> bool:
        """What the first process says; `own` is what this one would.

        Raises RuntimeError where the first process doesn't answer.
        """
        if self._store is None:
            return own
        self._asked += 1
        key = f"tprimat/{self._about}/{self._asked}"
        if self._rank == 0:
            self._store.set(key, "yes" if own else "no")
            return own
        self._store.wait([key], PATIENCE)
        return self._store.get(key) == b"yes"
