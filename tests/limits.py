"""Rows of tests at a limit: what is just below it, what just above, and the answer to each.

A row states its figures as numbers, not by the name of the constant, so that a changed constant
fails it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

Row = tuple[str, Callable[..., object], tuple[object, object], tuple[object, object]]


def limits(*rows: Row) -> pytest.MarkDecorator:
    """Parametrize a test of `ask`, `below` and `above` with rows: a name, the question, two values
    with answers.
    """
    return pytest.mark.parametrize(
        ("ask", "below", "above"), [pytest.param(*row, id=name) for name, *row in rows]
    )
