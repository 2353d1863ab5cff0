"""A log that is cut at many places, read once: what is whole at all of them is fed to the readers
one time.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator

from tprimat import read
from tprimat.errors import UnreadableError
from tprimat.read.parsing.text import lines_of
from tprimat.results.run import Run


def cut(
    content: bytes, ends: Iterable[int], name: str = "cut.log"
) -> Iterator[tuple[int, list[Run]]]:
    """Yield each end with the runs of the log up to it, none if nothing can be read.

    Args:
        content: of the whole log, UTF-8 without a mark.
        ends: ascending, bytes.
        name: of the log.
    """
    feeder = read.new_feeder()
    fed, number = 0, 1
    for end in ends:
        reached = content.rfind(b"\n", 0, end) + 1
        feeder.feed_lines(lines_of(content[fed:reached], number))
        number += content.count(b"\n", fed, reached)
        fed = reached
        rest = copy.deepcopy(feeder)
        rest.feed_lines(lines_of(content[reached:end], number, whole=False))
        try:
            yield end, [each.run() for each in read.parsed_logs(rest, name)]
        except UnreadableError:
            yield end, []
