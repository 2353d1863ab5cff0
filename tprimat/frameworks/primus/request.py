"""A training by Primus: the user's options, and the request with every choice made."""

from __future__ import annotations

import dataclasses

from tprimat.frameworks.primus.config import Configuration
from tprimat.frameworks.primus.installation import Installation
from tprimat.frameworks.request import Request, RequestedConfig
from tprimat.results.run import Run
from tprimat.settings.rows import DIVISION


class PrimusRequest(RequestedConfig):
    """The options of a training by Primus; None if not given.

    Attributes:
        installation: None for the one in the environment.
        matched: a result whose setup is to be taken over, with its name for messages.
        passed: words for Primus' own command line; they go before all else.
        launcher: one of LAUNCHERS.
        exit_after_s: seconds from its start after which Megatron ends the training.
    """

    DEFAULTS = (
        RequestedConfig.DEFAULTS
        | dict.fromkeys(("installation", "config", "matched", "launcher", "exit_after_s"))
        | {"passed": ()}
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrimusTraining(Request):
    """A training by Primus, every choice made; sizes that the configuration leaves open are 0.

    Attributes:
        configuration: the values in force, including those of the command line.
        setup: as the training's log would state it.
        arguments: the command line.
        visible: the GPUs that HIP_VISIBLE_DEVICES allows; None for all.
    """

    installation: Installation
    launcher: str
    configuration: Configuration
    setup: Run
    arguments: tuple[str, ...]
    visible: str | None
    notes: tuple[str, ...]

    @property
    def division(self) -> dict[str, int]:
        """Sizes of tensor, pipeline and context parallelism."""
        return dict(
            zip(("TP", "PP", "CP"), (getattr(self, name) for name in DIVISION), strict=True)
        )

    @property
    def result_elsewhere(self) -> str | None:
        """Why another machine makes the result; None if this one does."""
        if super().result_elsewhere is None:
            return None
        return (
            f"the last node (NODE_RANK={self.num_nodes - 1}) prints the iteration lines and writes"
            " the result"
        )
