"""Comparison -> all that its figures rest on, for whoever asks for everything: files, sides, every doubt."""

from __future__ import annotations

from tprimat.compare import Comparison, SideResult
from tprimat.text import plain


def lines(comparison: Comparison) -> list[str]:
    """The files with their hashes, and each side with what is to be known of it."""
    shown = ["", "Files"]
    for file in comparison.files:
        digest = f", sha256 {file.sha256}" if file.sha256 else ""
        runs = "1 run" if len(file.runs) == 1 else f"{len(file.runs)} runs"
        shown.append(f"  {plain(file.name)}: {runs}{digest}")
    shown += ["", "Sides"]
    for model in comparison.models:
        for side in model.sides:
            shown.append(
                f"  {plain(model.title)}, {plain(side.side.full_name)}: {len(side.counted)} of "
                f"{len(side.runs)} runs counted"
            )
            shown += [f"    - {plain(text)}" for text in _said(side)]
    return shown


def _said(side: SideResult) -> list[str]:
    refusal = [f"refused: {side.refusal.text}"] if side.refusal is not None else []
    findings = [f"{finding.gravity}: {finding.text}" for finding in side.findings]
    return list(dict.fromkeys([*refusal, *findings, *side.doubts, *side.warnings]))
