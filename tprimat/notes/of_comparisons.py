"""Notes on comparisons, regression checks and prices."""

from __future__ import annotations

from tprimat.notes.row import NoteRow

ROWS: dict[str, NoteRow] = {}
"""Rows by code."""
