"""Run -> what its result states beyond what is shown of it anyway, for whoever asks for everything."""

from __future__ import annotations

from tprimat.analysis.summary import Summary
from tprimat.results.run import Run
from tprimat.text import plain


def lines(run: Run, summary: Summary) -> list[str]:
    """Its sources, and every other fact of it, a line each."""
    steady = summary.steady
    shown = [
        f"{'source':<18} {plain(file.path)}, {file.bytes} bytes, sha256 {file.sha256}"
        for file in (run.source.files if run.source else ())
    ]
    if steady.first_step is not None:
        shown.append(f"{'figures are of':<18} steps {steady.first_step} to {steady.last_step}, by {steady.method}")
    groups = (
        run.gpu_info,
        run.environment,
        run.model_config,
        run.training_config,
        run.parallelism_config,
        run.optimizer,
        run.data,
        summary.performance,
        run.memory_metrics,
    )
    facts = {name: value for group in groups for name, value in group.known().items()}
    shown += [
        f"{name:<18} {plain(value)}" for name, value in facts.items() if value not in ({}, ()) and value is not False
    ]
    return shown
