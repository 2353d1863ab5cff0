"""The options for what logs leave open: the same in every command that reads logs."""

from __future__ import annotations

from tprimat.cli.options._parser import Parser, option
from tprimat.cli.options._training import at_least
from tprimat.cli.options.compare import PRECISIONS

NAMES = ("gpu", "precision", "num_gpus", "global_batch_size", "sequence_length", "label", "override")
"""Of the options and of log_import's GivenValues; --model-name is `model` there."""


def add_log_values(parser: Parser) -> None:
    """Add the options."""
    option(parser, "--model-name M", "set the model, if the log doesn't name it")
    option(parser, "--gpu NAME", "set the GPU, e.g. MI300X, if the log doesn't name it")
    option(parser, "--num-gpus N", "set the number of GPUs, if missing from the log", type=at_least(1))
    option(
        parser, "--precision NAME", f"set the precision: {', '.join(PRECISIONS)}", type=str.lower, choices=PRECISIONS
    )
    option(parser, "--global-batch-size B", "set sequences per optimizer step", type=at_least(1))
    option(parser, "--sequence-length S", "set tokens per sequence", type=at_least(1))
    option(parser, "--override", "use these options instead of values from the log")
