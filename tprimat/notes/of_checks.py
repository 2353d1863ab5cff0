"""Notes on what checks find: impossible and contradictory values, and what would explain them."""

from __future__ import annotations

from tprimat.notes.row import NoteRow

ROWS: dict[str, NoteRow] = {}
"""Rows by code."""
